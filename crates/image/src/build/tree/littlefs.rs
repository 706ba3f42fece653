//! Writer of LittleFS images of version 2.0 (littlefs `SPEC.md`, BSD-3-Clause). Each directory has a pair of blocks, of which one is written. Files
//! that are not stored in their directory are lists of blocks.

use std::cmp::Ordering;

use floatgate_media::crc;
use floatgate_stack::fs::FileType;

use super::{BuildError, Entry, Stage, Writer, sizes};
use crate::build::error::image;
use crate::readonly::{LittlefsShape, attribute_name};

/// Version of the on-disk format.
const VERSION: u32 = 0x0002_0000;

/// Limits in the superblock, for names, files and attributes.
const NAME_MAX: u32 = 255;
const FILE_MAX: u32 = 0x7FFF_FFFF;
const ATTRIBUTE_MAX: u32 = 1022;

/// Types of tags.
const NAME_FILE: u32 = 0x001;
const NAME_DIRECTORY: u32 = 0x002;
const SUPERBLOCK: u32 = 0x0FF;
const STRUCT_DIRECTORY: u32 = 0x200;
const STRUCT_INLINE: u32 = 0x201;
const STRUCT_CTZ: u32 = 0x202;
const CRC: u32 = 0x500;
const SOFT_TAIL: u32 = 0x600;
const HARD_TAIL: u32 = 0x601;

/// Type of user attribute number 0.
const ATTRIBUTES: u32 = 0x300;

/// Type of the user attribute `t`, in which the port of ESP-IDF stores the modification time.
const ATTRIBUTE_TIME: u32 = 0x374;

/// Entry number in a tag that belongs to no entry.
const NO_ID: u32 = 0x3FF;

/// Maximum size of a file that is stored in its directory. A driver's cache has at least 16 bytes, and usually 64 or
/// more.
const INLINE_MAX: u64 = 64;

/// Program unit to which commits are padded. It is a multiple of the program unit of most drivers.
const PROGRAM: usize = 256;

/// Largest number of entries in a block of a directory.
const ENTRIES_MAX: u32 = 0x3FE - 1;

/// Minimum number of blocks, and minimum size of a block, bytes.
const BLOCKS_MIN: u64 = 2;
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 128..=1 << 20;

/// Maximum number of blocks of an image.
const BLOCKS_MAX: u64 = 1 << 22;

/// A commit that is being written.
struct Commit {
    bytes: Vec<u8>,
    last: u32,
}

impl Commit {
    fn new() -> Self {
        // The revision of the block comes first.
        Self { bytes: 1_u32.to_le_bytes().to_vec(), last: u32::MAX }
    }

    /// Adds a tag with its data.
    fn tag(&mut self, kind: u32, id: u32, data: &[u8]) {
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX) & 0x3FF;
        self.header(kind << 20 | id << 10 | len);
        self.bytes.extend(data);
    }

    /// Adds a tag without data.
    fn header(&mut self, tag: u32) {
        self.bytes.extend((tag ^ self.last).to_be_bytes());
        self.last = tag;
    }

    /// Completes the commit with padding up to a program unit and its CRC, and returns its bytes.
    fn finish(mut self, block: usize) -> Vec<u8> {
        let end = (self.bytes.len() + 8).next_multiple_of(PROGRAM.min(block)).min(block);
        // The length in the tag includes the CRC and the padding.
        let len = u32::try_from(end - self.bytes.len() - 4).unwrap_or(8);
        self.header(CRC << 20 | NO_ID << 10 | len);
        let sum = crc::ubi_update(u32::MAX, &self.bytes);
        self.bytes.extend(sum.to_le_bytes());
        self.bytes
    }
}

/// A block pair of a directory: its entries, and the link to the next pair.
struct Pair {
    /// Number of the pair; its first block is twice this number.
    pair: u32,
    /// Tags of the entries.
    entries: Vec<Tagged>,
    /// True if the next pair belongs to the same directory.
    is_continued: bool,
}

/// Tags of an entry, without the entry number.
type Tagged = Vec<(u32, Vec<u8>)>;

/// Image that is being written.
struct Image<'w, 's> {
    writer: &'w mut Writer<'s>,
    shape: LittlefsShape,
    block: u64,
    blocks: u64,
    /// Next unused block.
    next: u64,
}

impl Image<'_, '_> {
    fn take(&mut self, blocks: u64) -> Result<u32, BuildError> {
        let first = self.next;
        self.next += blocks;
        if self.next > self.blocks {
            return Err(BuildError::NoSpace);
        }
        u32::try_from(first).map_err(|_| BuildError::NoSpace)
    }

    /// Writes the data of a file, and returns its last block. Each block except the first begins with pointers to earlier blocks, at distances
    /// that are powers of two and divide its number (littlefs `DESIGN.md`, "CTZ skip-lists").
    fn list(&mut self, stage: &mut Stage<'_>, inode: u32, size: u64) -> Result<u32, BuildError> {
        let mut places: Vec<u32> = Vec::new();
        let mut at = 0;
        while at < size {
            let index = places.len();
            let mut bytes = Vec::new();
            if index > 0 {
                for power in 0..=index.trailing_zeros() {
                    let before = places.get(index - (1 << power)).copied().unwrap_or(0);
                    bytes.extend(before.to_le_bytes());
                }
            }
            let room = usize::try_from(self.block).unwrap_or(0).saturating_sub(bytes.len());
            let start = bytes.len();
            bytes.resize(start + room, 0);
            let len = stage.read(inode, at, bytes.get_mut(start..).unwrap_or_default())?;
            bytes.truncate(start + len);
            if len == 0 {
                break;
            }
            let place = self.take(1)?;
            self.writer.write(u64::from(place) * self.block, &bytes)?;
            places.push(place);
            at += len as u64;
        }
        places.last().copied().ok_or(BuildError::NoSpace)
    }
}

fn pair_bytes(pair: u32) -> Vec<u8> {
    [pair, pair + 1].iter().flat_map(|block| block.to_le_bytes()).collect()
}

/// Size of an entry with its tags, bytes.
fn len_of(tags: &Tagged) -> usize {
    tags.iter().map(|(_, data)| 4 + data.len()).sum::<usize>()
}

/// Sizes and limits of a new filesystem.
pub(super) fn shape(block_bytes: u32, bytes: u64) -> LittlefsShape {
    LittlefsShape {
        version: VERSION,
        block_bytes,
        blocks: u32::try_from(bytes / u64::from(block_bytes.max(1))).unwrap_or(u32::MAX),
        name_max: NAME_MAX,
        file_max: FILE_MAX,
        attribute_max: ATTRIBUTE_MAX,
    }
}

/// Writes the files into an image of `bytes`, and returns the number of free blocks.
pub(super) fn write(
    mut stage: Stage<'_>,
    writer: &mut Writer<'_>,
    shape: LittlefsShape,
    bytes: u64,
) -> Result<u64, BuildError> {
    let block = u64::from(shape.block_bytes);
    let blocks = bytes / block.max(1);
    if !BLOCK_BYTES.contains(&shape.block_bytes) || !block.is_multiple_of(4) {
        return Err(sizes(format!(
            "LittleFS takes blocks of 128 bytes to 1 MiB, a multiple of 4: not {block}"
        )));
    }
    if !bytes.is_multiple_of(block) {
        return Err(sizes(format!("{bytes} bytes are no multiple of the block of {block} bytes")));
    }
    if !(BLOCKS_MIN..=BLOCKS_MAX).contains(&blocks) {
        return Err(sizes(format!("LittleFS takes 2 blocks of {block} bytes and more: not {bytes} bytes")));
    }
    let mut image = Image { writer, shape, block, blocks, next: 2 };
    let entries = std::mem::take(&mut stage.entries);
    image.writer.report_attributes(&entries, "LittleFS");
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); entries.len()];
    for (place, entry) in entries.iter().enumerate().skip(1) {
        if let Some(names) = children.get_mut(entry.parent) {
            names.push(place);
        }
    }
    let name = |place: &usize| entries.get(*place).map_or(&[][..], Entry::name);
    children.iter_mut().for_each(|names| names.sort_by(|one, other| in_order(name(one), name(other))));
    // The first pair of each directory is assigned before the entries that refer to it are written.
    let mut pairs = vec![0; entries.len()];
    let mut order: Vec<Pair> = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        if !entry.is(FileType::Directory) {
            continue;
        }
        for child in children.get(place).into_iter().flatten().copied() {
            let is_directory = entries.get(child).is_some_and(|child| child.is(FileType::Directory));
            if let Some(pair) = pairs.get_mut(child).filter(|_| is_directory) {
                *pair = image.take(2)?;
            }
        }
        let mut tagged = Vec::new();
        if place == 0 {
            let mut own = superblock(&shape);
            own.extend(attributes(&mut stage, &mut image, entry)?);
            tagged.push(own);
        }
        for child in children.get(place).into_iter().flatten().copied() {
            let (Some(entry), Some(pair)) = (entries.get(child), pairs.get(child)) else { continue };
            tagged.extend(self::entry(&mut stage, &mut image, entry, *pair)?);
        }
        let first = pairs.get(place).copied().unwrap_or(0);
        split(&mut image, &mut order, (first, tagged))?;
    }
    commit(&mut image, &order)?;
    Ok(image.blocks - image.next)
}

/// Order of the names in a directory. A name follows longer names that begin with it, like in the driver (`lfs_dir_find_match`).
fn in_order(one: &[u8], other: &[u8]) -> Ordering {
    let len = one.len().min(other.len());
    one.get(..len).cmp(&other.get(..len)).then(other.len().cmp(&one.len()))
}

/// Entry of the root with sizes and limits.
fn superblock(shape: &LittlefsShape) -> Tagged {
    let LittlefsShape { version, block_bytes, blocks, name_max, file_max, attribute_max } = *shape;
    let numbers = [version, block_bytes, blocks, name_max, file_max, attribute_max];
    let limits = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    vec![(SUPERBLOCK, b"littlefs".to_vec()), (STRUCT_INLINE, limits)]
}

/// Tags of a file or directory; the data of a file is written. `None` for types that LittleFS does not have.
fn entry(
    stage: &mut Stage<'_>,
    image: &mut Image<'_, '_>,
    entry: &Entry,
    pair: u32,
) -> Result<Option<Tagged>, BuildError> {
    if !image.writer.has_type(entry, "LittleFS") {
        return Ok(None);
    }
    let (inode, size) = (entry.attributes.inode, entry.attributes.size);
    let name = entry.name().to_vec();
    let mut own = attributes(stage, image, entry)?;
    let seconds = entry.attributes.mtime.seconds;
    if seconds != 0 {
        own.push((ATTRIBUTE_TIME, seconds.to_le_bytes().to_vec()));
    }
    let with = |tags: [(u32, Vec<u8>); 2]| Ok(Some(tags.into_iter().chain(own.clone()).collect()));
    if entry.is(FileType::Directory) {
        return with([(NAME_DIRECTORY, name), (STRUCT_DIRECTORY, pair_bytes(pair))]);
    }
    if size > u64::from(image.shape.file_max) {
        let most = image.shape.file_max;
        image
            .writer
            .record_loss(entry, format!("LittleFS has files of at most {most} bytes: it is left out"));
        return Ok(None);
    }
    if size <= INLINE_MAX.min(image.block / 8) {
        let mut data = Vec::new();
        stage.each_piece(inode, |piece| {
            data.extend(piece);
            Ok(())
        })?;
        return with([(NAME_FILE, name), (STRUCT_INLINE, data)]);
    }
    let head = image.list(stage, inode, size)?;
    let list = [head, size as u32].iter().flat_map(|number| number.to_le_bytes()).collect();
    with([(NAME_FILE, name), (STRUCT_CTZ, list)])
}

/// Tags of user attributes, which readers show as extended attributes.
fn attributes(stage: &mut Stage<'_>, image: &mut Image<'_, '_>, entry: &Entry) -> Result<Tagged, BuildError> {
    if entry.attributes.xattr_count == 0 {
        return Ok(Tagged::new());
    }
    let (inode, mut tagged, mut has_other) = (entry.attributes.inode, Tagged::new(), false);
    for name in stage.fs.list_xattrs(inode).map_err(self::image)? {
        let value = stage.fs.get_xattr(inode, &name).map_err(self::image)?;
        match attribute_number(&name)
            .filter(|_| value.len() as u64 <= image.shape.attribute_max.min(ATTRIBUTE_MAX).into())
        {
            Some(number) => tagged.push((ATTRIBUTES | u32::from(number), value)),
            None => has_other = true,
        }
    }
    if has_other {
        image.writer.record_loss(entry, "LittleFS has no extended attributes");
    }
    tagged.sort_by_key(|(kind, _)| *kind);
    Ok(tagged)
}

/// Number of the user attribute for the name of an extended attribute.
pub(super) fn attribute_number(name: &[u8]) -> Option<u8> {
    (0..=u8::MAX).find(|number| attribute_name(*number) == name)
}

/// Divides the entries of a directory into pairs.
fn split(
    image: &mut Image<'_, '_>,
    order: &mut Vec<Pair>,
    (first, entries): (u32, Vec<Tagged>),
) -> Result<(), BuildError> {
    // Half of a block stays free for later commits of a driver. Each block contains revision, tail and CRC.
    const OWN: usize = 4 + 12 + 8;
    let block = usize::try_from(image.block).unwrap_or(0);
    let (half, most) = ((block / 2).max(OWN), block.saturating_sub(OWN));
    let mut pair = Pair { pair: first, entries: Vec::new(), is_continued: false };
    let mut used = OWN;
    for entry in entries {
        let len = len_of(&entry);
        if len > most {
            return Err(sizes(format!("blocks of {block} bytes have no room for the longest name")));
        }
        let is_full = used + len > half || pair.entries.len() as u32 >= ENTRIES_MAX;
        if is_full && !pair.entries.is_empty() {
            pair.is_continued = true;
            let next = image.take(2)?;
            order.push(std::mem::replace(
                &mut pair,
                Pair { pair: next, entries: Vec::new(), is_continued: false },
            ));
            used = OWN;
        }
        used += len;
        pair.entries.push(entry);
    }
    order.push(pair);
    Ok(())
}

/// Writes all pairs. Each pair contains a link to the next one, also across directories, so that a driver can find all
/// pairs.
fn commit(image: &mut Image<'_, '_>, order: &[Pair]) -> Result<(), BuildError> {
    let block = usize::try_from(image.block).unwrap_or(0);
    for (index, pair) in order.iter().enumerate() {
        let mut commit = Commit::new();
        // The tags are those after a compaction, without tags of creations. A name tag creates its entry.
        for (id, entry) in (0..).zip(&pair.entries) {
            for (kind, data) in entry {
                commit.tag(*kind, id, data);
            }
        }
        if let Some(next) = order.get(index + 1) {
            let tail = if pair.is_continued { HARD_TAIL } else { SOFT_TAIL };
            commit.tag(tail, NO_ID, &pair_bytes(next.pair));
        }
        let bytes = commit.finish(block);
        image.writer.write(u64::from(pair.pair) * image.block, &bytes)?;
    }
    Ok(())
}
