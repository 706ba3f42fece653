//! Writer of YAFFS2 images in the layout of `mkyaffs2image`: the header of each object, followed by its
//! chunks.

use std::collections::BTreeMap;

use floatgate_stack::fs::{DeviceNumber, FileType};

use super::{BuildError, Entry, Stage, Writer, YaffsOptions, image, sizes};
use crate::report::Loss;
use crate::yaffs::{Header, OBJECT_MAX, ObjectKind, Order, SEQUENCE_MIN, TAGS, Tags, Xattr, emit_xattrs};

/// Page sizes that YAFFS2 is built for, bytes.
const PAGES: std::ops::RangeInclusive<u32> = 1024..=16_384;

/// Object number of the root directory, and the number of the first other object.
const ROOT: u32 = 1;
const FIRST: u32 = 0x101;

/// Size of the tags in the OOB with their ECC, bytes.
const OOB_TAGS: u32 = 28;

/// Largest chunk number in a file.
const CHUNK_MAX: u64 = 0xF_FFFF;

/// Chunks of an image, written in their order.
struct Chunks<'w, 's> {
    writer: &'w mut Writer<'s>,
    own: YaffsOptions,
    order: Order,
    at: u64,
}

impl Chunks<'_, '_> {
    const fn data_bytes(&self) -> usize {
        let page = self.writer.shape.page_bytes as usize;
        if self.own.oob_bytes == 0 { page - TAGS } else { page }
    }

    fn push(&mut self, data: &[u8], tags: &Tags) -> Result<(), BuildError> {
        let page = self.writer.shape.page_bytes as usize;
        let mut chunk = vec![0xFF; page + self.own.oob_bytes as usize];
        chunk.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
        let (at, bytes) = if self.own.oob_bytes == 0 {
            (self.data_bytes(), tags.emit(self.order).to_vec())
        } else {
            (page + self.own.tags_at as usize, tags.emit_with_ecc(self.order).to_vec())
        };
        chunk.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = from);
        self.writer.write(self.at, &chunk)?;
        self.at += chunk.len() as u64;
        Ok(())
    }
}

pub(super) fn write(
    mut stage: Stage<'_>,
    mut writer: Writer<'_>,
    own: &YaffsOptions,
) -> Result<Vec<Loss>, BuildError> {
    let page = writer.shape.page_bytes;
    if !PAGES.contains(&page) || !page.is_power_of_two() {
        return Err(sizes(format!(
            "YAFFS2 is built for pages of 1024 to 16384 bytes, powers of two: not {page}"
        )));
    }
    let room = own.oob_bytes.saturating_sub(own.tags_at);
    if own.oob_bytes > 0 && (room < OOB_TAGS || own.oob_bytes > page) {
        let (oob, at) = (own.oob_bytes, own.tags_at);
        return Err(sizes(format!(
            "the tags take {OOB_TAGS} bytes from byte {at} of the OOB on, which has {oob}"
        )));
    }
    let order = if own.big_endian { Order::Big } else { Order::Little };
    let mut chunks = Chunks { writer: &mut writer, own: *own, order, at: 0 };
    let mut numbers: Vec<u32> = Vec::new();
    let mut names: BTreeMap<u32, u32> = BTreeMap::new();
    let entries = std::mem::take(&mut stage.entries);
    for (place, entry) in entries.iter().enumerate() {
        let number = match place {
            0 => ROOT,
            _ => {
                u32::try_from(place).ok().and_then(|place| (FIRST - 1).checked_add(place)).unwrap_or(u32::MAX)
            }
        };
        if number > OBJECT_MAX {
            return Err(BuildError::NoSpace);
        }
        numbers.push(number);
        let parent = numbers.get(entry.parent).copied().unwrap_or(ROOT);
        let first = *names.entry(entry.attributes.inode).or_insert(number);
        object(&mut stage, &mut chunks, entry, (number, parent, first))?;
    }
    Ok(writer.losses)
}

/// Writes an object with its data. For another name of an object, `first` is the number of that object.
fn object(
    stage: &mut Stage<'_>,
    chunks: &mut Chunks<'_, '_>,
    entry: &Entry,
    (number, parent, first): (u32, u32, u32),
) -> Result<(), BuildError> {
    let attributes = &entry.attributes;
    let inode = attributes.inode;
    let kind = match attributes.file_type {
        _ if first != number => ObjectKind::HardLink,
        FileType::Regular => ObjectKind::File,
        FileType::Directory => ObjectKind::Directory,
        FileType::Symlink => ObjectKind::Symlink,
        _ => ObjectKind::Special,
    };
    let target =
        if kind == ObjectKind::Symlink { stage.fs.read_link(inode).map_err(image)? } else { Vec::new() };
    if target.len() > Header::TARGET_MAX {
        let longest = Header::TARGET_MAX;
        chunks.writer.record_loss(
            entry,
            format!("YAFFS2 has no link with a target of more than {longest} bytes: it is left out"),
        );
        return Ok(());
    }
    if attributes.size.div_ceil(chunks.data_bytes() as u64) > CHUNK_MAX && kind == ObjectKind::File {
        chunks.writer.record_loss(entry, "it is longer than a file of YAFFS2 can be: it is left out");
        return Ok(());
    }
    let device = attributes.device.map_or(Some(0), device);
    if device.is_none() {
        chunks.writer.record_loss(entry, "YAFFS2 has no device with numbers above 255: it is 0:0 there");
    }
    let mut time = |what: &str, time: floatgate_stack::fs::Timestamp| {
        u32::try_from(time.seconds).unwrap_or_else(|_| {
            chunks
                .writer
                .record_loss(entry, format!("YAFFS2 has no {what} of {} seconds since 1970", time.seconds));
            if time.seconds < 0 { 0 } else { u32::MAX }
        })
    };
    let header = Header {
        kind,
        parent,
        name: entry.name().to_vec(),
        mode: attributes.mode,
        uid: attributes.uid,
        gid: attributes.gid,
        atime: time("time of access", attributes.atime),
        mtime: time("time of change", attributes.mtime),
        ctime: time("time of change of the inode", attributes.ctime),
        size: attributes.size,
        equivalent: first,
        target,
        device: device.unwrap_or(0),
        shadows: 0,
        is_shrink: false,
    };
    let mut bytes = header.emit(chunks.order);
    if kind != ObjectKind::HardLink {
        bytes.extend(xattrs(stage, chunks, entry)?);
    }
    chunks.push(&bytes, &Tags::header(SEQUENCE_MIN, number))?;
    if kind != ObjectKind::File {
        return Ok(());
    }
    let room = chunks.data_bytes();
    let mut data = vec![0; room];
    for (chunk, at) in (1..).zip((0..attributes.size).step_by(room)) {
        let len = stage.read(inode, at, &mut data)?;
        let piece = data.get(..len).unwrap_or_default();
        // Missing chunks read as zeros. The last chunk is always written, so that the file is complete.
        if at + len as u64 >= attributes.size || piece.iter().any(|byte| *byte != 0) {
            let tags = Tags::data(SEQUENCE_MIN, number, chunk, u32::try_from(len).unwrap_or(0));
            chunks.push(piece, &tags)?;
        }
    }
    Ok(())
}

/// Extended attributes in the form in which they follow the header. Attributes that do not fit its chunk
/// are reported as losses.
fn xattrs(stage: &mut Stage<'_>, chunks: &mut Chunks<'_, '_>, entry: &Entry) -> Result<Vec<u8>, BuildError> {
    let inode = entry.attributes.inode;
    // The length 0 that ends the list has to fit, too.
    let room = chunks.data_bytes().saturating_sub(Header::BYTES + 4);
    let mut bytes = Vec::new();
    let mut names = stage.fs.list_xattrs(inode).map_err(image)?;
    names.sort();
    for name in names {
        let value = stage.fs.get_xattr(inode, &name).map_err(image)?;
        let one: Xattr = (name, value);
        let record = emit_xattrs(std::slice::from_ref(&one), chunks.order);
        if bytes.len() + record.len() > room {
            let name = crate::words::show_name(&one.0);
            chunks
                .writer
                .record_loss(entry, format!("extended attribute {name}: it does not fit behind the header"));
        } else {
            bytes.extend(record);
        }
    }
    if !bytes.is_empty() {
        bytes.extend([0; 4]);
    }
    Ok(bytes)
}

/// Device number in Linux's old encoding; `None` if it does not fit.
const fn device(device: DeviceNumber) -> Option<u32> {
    let DeviceNumber { major, minor } = device;
    if major > 0xFF || minor > 0xFF { None } else { Some(major << 8 | minor) }
}
