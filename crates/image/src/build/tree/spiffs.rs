//! Writer of SPIFFS images in the layout of ESP-IDF's `spiffsgen.py` (facts of its layout; Apache-2.0): an index and
//! the data of each file, in page order.

use std::collections::BTreeMap;

use floatgate_stack::fs::FileType;

use super::{BuildError, Entry, Stage, Writer, image, sizes};
use crate::report::Loss;

/// Size of a page header, and of an index header with its padding, bytes.
const HEADER: usize = 5;
const INDEX_HEADER: usize = 8;

/// Size of a name field with its final byte 0, and of ESP-IDF's time field, bytes.
const NAME: usize = 32;
const TIME: usize = 4;

/// Bytes before the table of a file's first index page. The file size and the type follow the header.
const FIRST_INDEX: usize = INDEX_HEADER + 4 + 1 + NAME + TIME;

/// Flags of pages that are written completely.
const DATA_FLAGS: u8 = 0xFC;
const INDEX_FLAGS: u8 = 0xF8;

/// Flag in the object number of an index page.
const INDEX: u16 = 0x8000;

/// Lower 16 bits of the magic number.
const MAGIC: u16 = 0x0529;

/// Object type of a file.
const TYPE_FILE: u8 = 1;

/// Size of the largest image, bytes; it is built in memory.
const BYTES_MAX: u64 = 256 << 20;

/// Pages of an image, in memory.
struct Pages {
    bytes: Vec<u8>,
    page: usize,
    block: usize,
    /// Pages of the lookup table in a block.
    table: usize,
    next: usize,
}

impl Pages {
    fn new(bytes: usize, page: usize, block: usize) -> Self {
        let table = (block / page * 2).div_ceil(page);
        let mut pages = Self { bytes: vec![0xFF; bytes], page, block, table, next: 0 };
        let blocks = bytes / block;
        for index in 0..blocks {
            let magic = MAGIC ^ page as u16 ^ (blocks - index) as u16;
            pages.put(index * block + table * page - 4, &magic.to_le_bytes());
        }
        pages
    }

    /// True if the lookup table leaves space for the magic number.
    const fn has_magic(&self) -> bool {
        (self.block / self.page - self.table) * 2 <= self.table * self.page - 4
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Allocates the next page for an object, enters it into the lookup table, and returns its number.
    fn take(&mut self, id: u16, span: u16, flags: u8) -> Result<usize, BuildError> {
        let in_block = self.block / self.page;
        if self.next.is_multiple_of(in_block) {
            self.next += self.table;
        }
        let number = self.next;
        if (number + 1) * self.page > self.bytes.len() {
            return Err(BuildError::NoSpace);
        }
        self.next += 1;
        let entry = number / in_block * self.block + (number % in_block - self.table) * 2;
        self.put(entry, &id.to_le_bytes());
        let at = number * self.page;
        self.put(at, &id.to_le_bytes());
        self.put(at + 2, &span.to_le_bytes());
        self.put(at + 4, &[flags]);
        Ok(number)
    }
}

/// File that is being written, with the next place in its index.
struct Object {
    id: u16,
    /// Number of the index page within the file, its page, and the bytes of the page in use.
    index: u16,
    page: usize,
    used: usize,
}

pub(super) fn write(
    mut stage: Stage<'_>,
    mut writer: Writer<'_>,
    bytes: u64,
) -> Result<Vec<Loss>, BuildError> {
    let (page, block) = (writer.shape.page_bytes, writer.shape.peb_bytes);
    let are_sizes = (128..=4096).contains(&page)
        && page.is_power_of_two()
        && block.is_power_of_two()
        && (4096..=256 << 10).contains(&block)
        && block / page >= 4;
    if !are_sizes {
        let what = "SPIFFS has pages of 128 to 4096 bytes and blocks of 4 to 256 KiB, powers of two";
        return Err(sizes(format!("{what}: not {page} and {block}")));
    }
    if !bytes.is_multiple_of(block.into()) {
        return Err(sizes(format!("{bytes} bytes are no multiple of the block of {block} bytes")));
    }
    if bytes / u64::from(block) < 4 || bytes > BYTES_MAX {
        return Err(sizes(format!(
            "SPIFFS takes 4 blocks of {block} bytes and more, up to 256 MiB: not {bytes} bytes"
        )));
    }
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let mut pages = Pages::new(number(bytes), page as usize, block as usize);
    if !pages.has_magic() {
        return Err(sizes(format!(
            "pages of {page} and blocks of {block} bytes leave no room for the magic number"
        )));
    }
    if bytes / u64::from(page) > u64::from(u16::MAX) {
        return Err(sizes(format!("SPIFFS has at most 65535 pages: {bytes} bytes have more of {page}")));
    }
    let entries = std::mem::take(&mut stage.entries);
    writer.report_attributes(&entries, "SPIFFS");
    let mut children: BTreeMap<usize, u32> = BTreeMap::new();
    entries.iter().skip(1).for_each(|entry| *children.entry(entry.parent).or_default() += 1);
    let mut id = 0_u16;
    for (place, entry) in entries.iter().enumerate().skip(1) {
        if !writer.has_type(entry, "SPIFFS") {
            continue;
        }
        if entry.is(FileType::Directory) {
            if !children.contains_key(&place) {
                writer.record_loss(entry, "SPIFFS has no directories: an empty one is left out");
            }
            continue;
        }
        let mut name = vec![b'/'];
        name.extend(entry.path.join(&b'/'));
        if name.len() >= NAME {
            writer.record_loss(
                entry,
                format!(
                    "SPIFFS has names of at most {} bytes with their directories: it is left out",
                    NAME - 1
                ),
            );
            continue;
        }
        if entry.attributes.xattr_count > 0 {
            writer.record_loss(entry, "SPIFFS has no extended attributes");
        }
        // The number 7FFFh is not used: with the flag of an index it would be all ones, which has another meaning.
        id = id.checked_add(1).filter(|id| *id < INDEX - 1).ok_or(BuildError::NoSpace)?;
        file(&mut stage, &mut writer, &mut pages, entry, (id, &name))?;
    }
    writer.write(0, &pages.bytes)?;
    Ok(writer.losses)
}

fn file(
    stage: &mut Stage<'_>,
    writer: &mut Writer<'_>,
    pages: &mut Pages,
    entry: &Entry,
    (id, name): (u16, &[u8]),
) -> Result<(), BuildError> {
    let first = pages.take(id | INDEX, 0, INDEX_FLAGS)?;
    let at = first * pages.page;
    let size = u32::try_from(entry.attributes.size).map_err(|_| BuildError::NoSpace)?;
    let seconds = entry.attributes.mtime.seconds;
    let time = u32::try_from(seconds).unwrap_or_else(|_| {
        writer.record_loss(
            entry,
            format!("SPIFFS has no time of {seconds} seconds since 1970: it is none there"),
        );
        0
    });
    pages.put(at + INDEX_HEADER, &size.to_le_bytes());
    pages.put(at + INDEX_HEADER + 4, &[TYPE_FILE]);
    pages.put(at + INDEX_HEADER + 5, &[0; NAME]);
    pages.put(at + INDEX_HEADER + 5, name);
    pages.put(at + FIRST_INDEX - TIME, &time.to_le_bytes());
    let mut object = Object { id, index: 0, page: first, used: FIRST_INDEX };
    let room = pages.page - HEADER;
    let mut data = vec![0; room];
    let mut span = 0_u16;
    for at in (0..u64::from(size)).step_by(room) {
        let len = stage.fs.read(entry.attributes.inode, at, &mut data).map_err(image)?;
        if object.used + 2 > pages.page {
            object.index += 1;
            object.page = pages.take(object.id | INDEX, object.index, INDEX_FLAGS)?;
            object.used = INDEX_HEADER;
        }
        let number = pages.take(object.id, span, DATA_FLAGS)?;
        pages.put(number * pages.page + HEADER, data.get(..len).unwrap_or_default());
        let listed = u16::try_from(number).map_err(|_| BuildError::NoSpace)?;
        pages.put(object.page * pages.page + object.used, &listed.to_le_bytes());
        object.used += 2;
        span = span.checked_add(1).ok_or(BuildError::NoSpace)?;
    }
    Ok(())
}
