//! YAFFS2: the newest chunks of each object (facts of `yaffs_yaffs2.c`; layouts in `crate::yaffs`).
//!
//! Chunks are read from the newest to the oldest, as in a Linux mount without checkpoint. The first header of an
//! object that is read is valid, and the first chunk for each position of a file. Chunks that a newer header has cut
//! off are not valid.

use std::collections::{BTreeMap, BTreeSet, btree_map};

use floatgate_stack::fs::{BLOCK_BYTES, DeviceNumber, Error, FileType, Timestamp};

use super::media::Media;
use super::{Findings, Inode, Names, Tree, Xattrs, broken, unsupported};
use crate::words::{count, show_path};
use crate::yaffs::{self, Chunk, Header, ObjectKind, Shape, Tags};

/// Objects that exist without headers: the root, the folder of objects without a name, and the parents of removed
/// objects.
const ROOT: u32 = 1;
const LOST: u32 = 2;
const UNLINKED: u32 = 3;
const DELETED: u32 = 4;

/// Name of the folder of objects without a name.
const LOST_NAME: &[u8] = b"lost+found";

/// Number of bytes in one read.
const BATCH: u64 = 1 << 20;

/// Size of the range in which the first header is searched, and step of the search, bytes.
const SEARCH: u64 = 64 << 20;
const STEP: usize = 32;

/// Largest number of headers from which the shape is derived.
const MAX_HEADERS: u32 = 64;

/// Number of examined bytes of a header.
const HEAD: u64 = 512;

/// Largest depth of an object below its parents.
const MAX_DEPTH: usize = 4096;

/// Largest number of names in a reported path.
const PATH_MAX: usize = 64;

/// State of an object after a part of its chunks.
#[derive(Default)]
struct Object {
    header: Option<Header>,
    /// Offset of the chunk with the header.
    at: u64,
    /// Offset and number of bytes of each chunk with data.
    chunks: BTreeMap<u32, (u64, u32)>,
    /// Size of the file, bytes.
    size: u64,
    /// Offset in the file from which older chunks were cut off; `None` if there was no cut so far.
    shrink: Option<u64>,
    /// True if a newer object has taken over the name.
    is_shadowed: bool,
    /// True if chunks with data are newer than the header, as in an image of a tool.
    has_newer_data: bool,
}

pub(super) struct Yaffs {
    media: Media,
    shape: Shape,
    objects: BTreeMap<u32, Object>,
    /// Names in each directory.
    names: BTreeMap<u32, Names>,
    /// Directories with names of missing objects.
    incomplete: BTreeSet<u32>,
    /// Object of each additional name (hard link).
    links: BTreeMap<u32, u32>,
    /// Number of headers whose chunks contain other data.
    damaged_headers: u64,
    losses: Vec<String>,
    remarks: Vec<String>,
}

/// Numbers of chunks that were not read.
#[derive(Default)]
struct Unread {
    /// Number of chunks with damaged tags.
    broken: u64,
    /// Number of erased chunks between written chunks of a block: YAFFS2 writes the chunks of a block in order.
    erased: u64,
}

impl Yaffs {
    pub(super) fn new(media: Media) -> Result<Self, Error> {
        let (shape, start) = find_shape(&media)?;
        let (objects, names, links) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (incomplete, losses) = (BTreeSet::new(), Vec::new());
        let remarks = vec![
            "YAFFS2 has no checksum over data: changed data, and some lost pages, cannot be seen".to_owned(),
        ];
        let mut fs =
            Self { media, shape, objects, names, incomplete, links, damaged_headers: 0, losses, remarks };
        let (mut chunks, unread) = fs.chunks(start);
        if unread.broken > 0 {
            let chunks = count(unread.broken, "chunk");
            fs.losses.push(format!(
                "YAFFS2: {chunks} with damaged tags: older data are read in their place, or none"
            ));
        }
        if unread.erased > 0 {
            let chunks = count(unread.erased, "erased chunk");
            fs.losses.push(format!(
                "YAFFS2: {chunks} between written ones of a block: older data are read in their place, or none"
            ));
        }
        chunks.sort_by_key(|(tags, at)| (tags.sequence, *at));
        for (tags, at) in chunks.iter().rev() {
            fs.add(tags, *at);
        }
        if fs.damaged_headers > 0 {
            let headers = count(fs.damaged_headers, "header");
            fs.losses.push(format!(
                "YAFFS2: {headers} damaged: older names and attributes are read in their place, or none"
            ));
        }
        fs.connect();
        Ok(fs)
    }

    /// Tags and offsets of all written chunks, and the numbers of chunks that were not read.
    fn chunks(&self, start: u64) -> (Vec<(Tags, u64)>, Unread) {
        let stride = self.shape.stride();
        let batch = (BATCH / stride).max(1) * stride;
        let (mut all, mut unread) = (Vec::new(), Unread::default());
        // Sequence number of the last written chunk, and the erased chunks after it.
        let (mut last, mut erased) = (None, 0);
        let whole = start + self.media.len().saturating_sub(start) / stride * stride;
        let step = usize::try_from(batch).unwrap_or(usize::MAX);
        for first in (start..whole).step_by(step) {
            let len = usize::try_from(batch.min(whole - first)).unwrap_or(0);
            let Some(bytes) = self.media.bytes(first, len) else {
                unread.broken += len as u64 / stride;
                continue;
            };
            let places = (first..).step_by(usize::try_from(stride).unwrap_or(1));
            for (at, chunk) in places.zip(bytes.chunks_exact(usize::try_from(stride).unwrap_or(1))) {
                match self.shape.chunk(chunk) {
                    Chunk::Written(tags) if !tags.is_copy() => {
                        if last == Some(tags.sequence) {
                            unread.erased += erased;
                        }
                        (last, erased) = (Some(tags.sequence), 0);
                        all.push((tags, at));
                    }
                    Chunk::Written(_) => (last, erased) = (None, 0),
                    Chunk::Erased => erased += 1,
                    // Bad blocks are often marked with zeros.
                    Chunk::Broken if chunk.iter().any(|byte| *byte != 0) => unread.broken += 1,
                    Chunk::Broken => (last, erased) = (None, 0),
                }
            }
        }
        (all, unread)
    }

    /// Adds a chunk that is older than all previous ones.
    fn add(&mut self, tags: &Tags, at: u64) {
        let number = tags.number();
        if !tags.is_header() {
            let bytes = u64::from(self.shape.data_bytes());
            let base = u64::from(tags.chunk() - 1) * bytes;
            let object = self.objects.entry(number).or_default();
            if object.shrink.is_none_or(|shrink| base < shrink) {
                object.chunks.entry(tags.chunk()).or_insert((at, tags.bytes));
                if object.header.is_none() {
                    object.size = object.size.max(base + u64::from(tags.bytes));
                }
            }
            return;
        }
        let is_old =
            self.objects.get(&number).is_some_and(|object| object.header.is_some() || object.is_shadowed);
        if is_old && tags.has_extra() && !tags.is_shrink() {
            return;
        }
        let Some(header) = self.header(at) else {
            self.damaged_headers += 1;
            return;
        };
        if !is_old && header.shadows > 0 {
            // An object with a newer chunk has its name again.
            let other = self.objects.entry(header.shadows);
            if let btree_map::Entry::Vacant(entry) = other {
                entry.insert(Object { is_shadowed: true, shrink: Some(0), ..Object::default() });
            }
        }
        let object = self.objects.entry(number).or_default();
        let shrink = object.shrink.map_or(header.size, |shrink| shrink.min(header.size));
        if !is_old {
            if header.kind == ObjectKind::File {
                object.size = object.size.max(header.size);
                object.shrink = Some(shrink);
                object.has_newer_data = !object.chunks.is_empty();
            }
            (object.header, object.at) = (Some(header), at);
        } else if header.kind == ObjectKind::File && (header.is_shrink || tags.is_shrink()) {
            object.shrink = Some(shrink);
        }
    }

    fn header(&self, at: u64) -> Option<Header> {
        let chunk = self.media.bytes(at, Header::BYTES)?;
        Header::parse(&chunk, self.shape.order, self.shape.spare == yaffs::Spare::Inband)
    }

    /// Type of an object; an object without a header is a file without a name.
    fn kind(&self, number: u32) -> Option<ObjectKind> {
        if matches!(number, ROOT | LOST) {
            return Some(ObjectKind::Directory);
        }
        let object = self.objects.get(&number)?;
        Some(object.header.as_ref().map_or(ObjectKind::File, |header| header.kind))
    }

    /// Directory of an object, as Linux finds it; `None` for a removed object.
    fn parent(&self, number: u32) -> Option<u32> {
        let header = self.objects.get(&number)?.header.as_ref();
        let parent = header.map_or(LOST, |header| header.parent);
        match parent {
            UNLINKED | DELETED => None,
            parent if self.kind(parent) == Some(ObjectKind::Directory) => Some(parent),
            // The directory is missing.
            _ => Some(LOST),
        }
    }

    /// Adds each object that was not removed to its directory.
    fn connect(&mut self) {
        let numbers: Vec<u32> =
            self.objects.keys().copied().filter(|number| !matches!(*number, ROOT..=DELETED)).collect();
        let mut gone = BTreeMap::new();
        let (mut holes, mut files) = (0, 0);
        let mut judged = BTreeSet::new();
        for &number in &numbers {
            let is_gone = self.is_gone(number, &mut gone);
            if is_gone != Some(true) {
                let losses = self.losses.len();
                let missing = self.judge(number);
                judged.extend((self.losses.len() > losses).then_some(number));
                holes += missing;
                files += u64::from(missing > 0);
            }
            match is_gone {
                Some(true) => {}
                Some(false) => self.enter(number, self.parent(number).unwrap_or(LOST)),
                // Directories in a cycle are not reachable from the root.
                None => self.enter(number, LOST),
            }
        }
        for number in numbers {
            let Some(header) = self.objects.get(&number).and_then(|object| object.header.as_ref()) else {
                continue;
            };
            let target = header.equivalent;
            let is_link = header.kind == ObjectKind::HardLink && judged.contains(&target);
            if is_link && gone.get(&number) != Some(&Some(true)) {
                let what = format!("{}: another name of {}, see there", self.path(number), self.path(target));
                self.losses.push(what);
            }
        }
        if files > 0 {
            let (files, pages) = (count(files, "file"), count(holes, "page"));
            self.remarks
                .push(format!("YAFFS2: {files} with holes of {pages}: lost pages would look the same"));
        }
        let lost = self.names.get(&LOST).is_some_and(|names| !names.is_empty());
        let has_header = self.objects.get(&LOST).is_some_and(|object| object.header.is_some());
        let names = self.names.entry(ROOT).or_default();
        if (lost || has_header) && !names.iter().any(|(name, _)| name == LOST_NAME) {
            names.push((LOST_NAME.to_vec(), LOST));
        }
    }

    /// Reports the losses of an object. Returns the number of its pages that are holes or lost.
    fn judge(&mut self, number: u32) -> u64 {
        let Some(object) = self.objects.get(&number) else { return 0 };
        let Some(header) = &object.header else {
            self.losses.push(format!(
                "YAFFS2: object {number} has no header: the name, owner, permissions and times of a file are lost"
            ));
            return 0;
        };
        let path = self.path(number);
        if self.kind(header.parent) != Some(ObjectKind::Directory) {
            self.losses.push(format!("{path}: its directory is missing"));
        }
        if header.kind != ObjectKind::File {
            return 0;
        }
        let room = u64::from(self.shape.data_bytes());
        let pages = object.size.div_ceil(room);
        let missing = pages.saturating_sub(object.chunks.len() as u64);
        let last = object.chunks.last_key_value().map_or(0, |(last, _)| u64::from(*last));
        let told = header.size.div_ceil(room);
        // Data after the header was written by a tool together with the end of the file, or was appended page by page.
        let is_cut = last < pages;
        let is_wild = last > told.max(1) && missing > 0 && !object.chunks.contains_key(&(last as u32 - 1));
        if missing > 0 && object.has_newer_data && (is_cut || is_wild) {
            let what = if is_cut {
                format!("{path}: {missing} of its {} missing", count(pages, "page"))
            } else {
                let size = count(header.size, "byte");
                format!(
                    "{path}: it has a page {last}, and its header tells {size}: {missing} pages are missing"
                )
            };
            self.losses.push(what);
            return 0;
        }
        missing
    }

    /// Path of an object for display.
    fn path(&self, number: u32) -> String {
        let (mut names, mut at) = (Vec::new(), number);
        while names.len() < PATH_MAX
            && let Some(header) = self.objects.get(&at).and_then(|object| object.header.as_ref())
            && at != ROOT
        {
            names.push(header.name.clone());
            at = header.parent;
        }
        names.reverse();
        show_path(&names)
    }

    /// True for an object that was removed, or is in a removed directory; `None` for an object in a cycle.
    fn is_gone(&self, number: u32, known: &mut BTreeMap<u32, Option<bool>>) -> Option<bool> {
        let mut path = BTreeSet::new();
        let mut at = number;
        let gone = loop {
            if matches!(at, ROOT | LOST) {
                break Some(false);
            }
            if let Some(&gone) = known.get(&at) {
                break gone;
            }
            if path.len() > MAX_DEPTH || !path.insert(at) {
                break None;
            }
            let is_shadowed = self.objects.get(&at).is_none_or(|object| object.is_shadowed);
            match self.parent(at).filter(|_| !is_shadowed) {
                Some(parent) => at = parent,
                None => break Some(true),
            }
        };
        known.extend(path.into_iter().map(|number| (number, gone)));
        gone
    }

    /// Adds an object to a directory.
    fn enter(&mut self, number: u32, parent: u32) {
        let header = self.objects.get(&number).and_then(|object| object.header.as_ref());
        let own = header.map(|header| header.name.clone()).filter(|name| !name.is_empty());
        let mut name = own.unwrap_or_else(|| format!("obj{number}").into_bytes());
        let target = match header {
            Some(header) if header.kind == ObjectKind::HardLink => {
                let target = header.equivalent;
                let is_target = self.objects.get(&target).is_some_and(|object| {
                    let kind = object.header.as_ref().map(|header| header.kind);
                    !object.is_shadowed && !matches!(kind, Some(ObjectKind::Directory | ObjectKind::HardLink))
                });
                if !is_target {
                    self.incomplete.insert(parent);
                    return;
                }
                *self.links.entry(target).or_insert(1) += 1;
                target
            }
            _ => number,
        };
        let names = self.names.entry(parent).or_default();
        if parent == LOST && names.iter().any(|(other, _)| *other == name) {
            name.extend(format!(".obj{number}").into_bytes());
        }
        names.push((name, target));
    }
}

/// Shape of the filesystem, and the offset of its first chunk.
fn find_shape(media: &Media) -> Result<(Shape, u64), Error> {
    let mut headers = 0;
    for first in (0..media.len().min(SEARCH)).step_by((BATCH - HEAD) as usize) {
        let len = usize::try_from(BATCH.min(media.len() - first)).unwrap_or(0);
        let Some(bytes) = media.bytes(first, len) else { continue };
        for at in (0..bytes.len()).step_by(STEP) {
            if headers >= MAX_HEADERS || !bytes.get(at..).is_some_and(yaffs::begins) {
                continue;
            }
            headers += 1;
            let at = first + at as u64;
            if let Some(shape) = Shape::find(&|at, buf| media.read(at, buf), at) {
                return Ok((shape, at % shape.stride()));
            }
        }
    }
    if headers > 0 {
        Err(unsupported("YAFFS2 without tags, which are in the OOB of a dump: reading it"))
    } else {
        Err(broken())
    }
}

/// Device number in Linux's old encoding.
const fn device(bits: u32) -> DeviceNumber {
    DeviceNumber { major: bits >> 8 & 0xFF, minor: bits & 0xFF }
}

/// Time in seconds since 1970.
const fn time(seconds: u32) -> Timestamp {
    Timestamp { seconds: seconds as i64, nanoseconds: 0 }
}

impl Tree for Yaffs {
    fn root(&self) -> u32 {
        ROOT
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        let object = self.objects.get(&inode);
        let Some(header) = object.and_then(|object| object.header.as_ref()) else {
            let kind = self.kind(inode)?;
            let is_directory = kind == ObjectKind::Directory;
            let file_type = if is_directory { FileType::Directory } else { FileType::Regular };
            return Some(Inode::plain(file_type, object.map_or(0, |object| object.size)));
        };
        let (file_type, size) = match header.kind {
            ObjectKind::File => (FileType::Regular, object?.size),
            ObjectKind::Symlink => (FileType::Symlink, header.target.len() as u64),
            ObjectKind::Directory => (FileType::Directory, 0),
            ObjectKind::HardLink => return None,
            ObjectKind::Special => (FileType::from_mode(header.mode)?, 0),
        };
        let is_of_type = FileType::from_mode(header.mode) == Some(file_type);
        let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
        let links = self.links.get(&inode).copied().unwrap_or(1);
        let mut found = Inode::plain(file_type, size);
        found.mode = is_of_type.then_some(header.mode);
        (found.uid, found.gid, found.links) = (header.uid, header.gid, links);
        (found.atime, found.mtime, found.ctime) =
            (time(header.atime), time(header.mtime), time(header.ctime));
        found.device = is_device.then(|| device(header.device));
        found.has_xattrs = self.xattrs(inode).is_some_and(|xattrs| !xattrs.is_empty());
        Some(found)
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        names.extend(self.names.get(&directory).into_iter().flatten().cloned());
        (!self.incomplete.contains(&directory)).then_some(())
    }

    fn read(&mut self, inode: u32, start: u64, out: &mut [u8]) -> Option<()> {
        let object = self.objects.get(&inode)?;
        if let Some(header) = object.header.as_ref().filter(|header| header.kind == ObjectKind::Symlink) {
            let at = usize::try_from(start).ok()?;
            out.copy_from_slice(header.target.get(at..at + out.len())?);
            return Some(());
        }
        let len = out.len() as u64;
        let room = u64::from(self.shape.data_bytes());
        let mut done = 0;
        while done < len {
            let at = start + done;
            let within = at % room;
            let piece = (room - within).min(len - done);
            let number = u32::try_from(at / room + 1).ok()?;
            if let Some((place, bytes)) = object.chunks.get(&number) {
                let there = u64::from(*bytes).saturating_sub(within).min(piece);
                let range = usize::try_from(done).ok()?..usize::try_from(done + there).ok()?;
                self.media.read(place + within, out.get_mut(range)?)?;
            }
            done += piece;
        }
        Some(())
    }

    fn is_hole(&mut self, inode: u32, block: u32) -> bool {
        let Some(object) = self.objects.get(&inode) else { return false };
        let room = u64::from(self.shape.data_bytes());
        let start = u64::from(block) * BLOCK_BYTES as u64;
        let number = |at: u64| u32::try_from(at / room + 1).unwrap_or(u32::MAX);
        let chunks = number(start)..=number(start + BLOCK_BYTES as u64 - 1);
        object.chunks.range(chunks).next().is_none()
    }

    fn xattrs(&mut self, inode: u32) -> Option<Xattrs> {
        let Some(object) = self.objects.get(&inode).filter(|object| object.header.is_some()) else {
            return Some(Xattrs::new());
        };
        let room = (self.shape.data_bytes() as usize).checked_sub(Header::BYTES)?;
        let bytes = self.media.bytes(object.at + Header::BYTES as u64, room)?;
        Some(yaffs::parse_xattrs(&bytes, self.shape.order))
    }

    fn findings(&self) -> Findings {
        Findings { losses: self.losses.clone(), remarks: self.remarks.clone(), ..Findings::default() }
    }
}
