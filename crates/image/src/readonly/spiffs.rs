//! SPIFFS: pages with the ID of their object and their index in it; a lookup table begins each block
//! (`spiffs_nucleus.h`).

use std::collections::BTreeMap;

use floatgate_stack::fs::{FileType, Timestamp};

use super::media::Media;
use super::{Findings, Inode, Names, Tree};
use crate::map::probes::spiffs_shape;
use crate::map::view::Numbers as _;
use crate::words::count;

/// Size of a page header, bytes: object, index in it, flags.
const HEADER: u64 = 5;

/// Object IDs in the lookup table: free, deleted; flag of an index page.
const FREE: u16 = 0xFFFF;
const GONE: u16 = 0;
const INDEX: u16 = 0x8000;

/// Flags of a page, which are set if their bit is 0: written completely, deleted.
const FINAL: u8 = 0x02;
const DELETED: u8 = 0x80;

/// Positions in the first page of an index: size, type, name, and ESP-IDF's metadata (the time).
const SIZE_AT: usize = 8;
const TYPE_AT: usize = 12;
const NAME_AT: usize = 13;
const NAME: usize = 32;
const TIME_AT: usize = NAME_AT + NAME;

/// Size of a file that was not closed.
const UNKNOWN: u32 = u32::MAX;

/// Size of the range in which the lookup table of the first block ends, bytes.
const HEAD: u64 = 4096;

/// Largest number of pages.
const MAX_PAGES: u64 = 1 << 22;

/// Object ID of the root directory.
const ROOT: u32 = 0;

struct Object {
    size: u32,
    time: u32,
    /// Pages, by their index in the object.
    pages: BTreeMap<u16, u64>,
}

/// A directory, which exists only as a part of names with slashes, or a file.
enum Node {
    Directory(BTreeMap<Vec<u8>, u32>),
    File(u16),
}

pub(super) struct Spiffs {
    media: Media,
    page: u64,
    objects: BTreeMap<u16, Object>,
    nodes: Vec<Node>,
    /// Losses of files whose names collide with others, and of files without a name.
    losses: Vec<String>,
}

/// Page size and block size according to the first block, or to the blocks after it. In that case the first block is
/// damaged, or was just erased.
fn find_shape(media: &Media) -> Option<(u64, u64, Vec<String>)> {
    let behind = |start: u64| {
        let len = media.len().checked_sub(start)?;
        let head = media.bytes(start, usize::try_from(len.min(HEAD)).ok()?)?;
        spiffs_shape(&head, len, |at| media.le16(start + at))
    };
    if let Some((page, block, _)) = behind(0) {
        return Some((page, block, Vec::new()));
    }
    let (page, block, _) =
        (12..=18).map(|log| 1_u64 << log).find_map(|start| behind(start).filter(|shape| shape.1 == start))?;
    let table = media.bytes(0, usize::try_from(page.min(block)).ok()?)?;
    let is_erased = table.iter().all(|byte| *byte == 0xFF);
    let damage = "SPIFFS: the lookup table of the first block is damaged: files in it may be missing";
    Some((page, block, if is_erased { Vec::new() } else { vec![damage.to_owned()] }))
}

impl Spiffs {
    pub(super) fn new(media: Media) -> Option<Self> {
        let (page, block, losses) = find_shape(&media)?;
        let nodes = vec![Node::Directory(BTreeMap::new())];
        let mut fs = Self { media, page, objects: BTreeMap::new(), nodes, losses };
        let names = fs.scan(block);
        for (id, name) in names {
            if fs.insert(&name, id).is_none() {
                fs.losses.push(format!("SPIFFS: the name of object {id} is a directory, or taken"));
            }
        }
        Some(fs)
    }

    /// Collects the pages of all objects, and the names of objects with an index.
    fn scan(&mut self, block: u64) -> Vec<(u16, Vec<u8>)> {
        let mut names: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        let table_pages = (block / self.page * 2).div_ceil(self.page);
        let pages = (self.media.len() / self.page).min(MAX_PAGES);
        let in_block = block / self.page;
        for page in (0..pages).filter(|page| page % in_block >= table_pages) {
            let entry = page / in_block * block + (page % in_block - table_pages) * 2;
            match self.media.le16(entry) {
                None | Some(FREE | GONE) => {}
                Some(id) => {
                    self.add_page(id, page * self.page, &mut names);
                }
            }
        }
        for (id, object) in self.objects.iter().filter(|(id, _)| !names.contains_key(id)) {
            if !object.pages.is_empty() {
                let pages = count(object.pages.len() as u64, "page");
                self.losses.push(format!(
                    "SPIFFS: object {id} with {pages} of data has no index: a file is lost, with its name and size"
                ));
            }
        }
        self.objects.retain(|id, _| names.contains_key(id));
        names.into_iter().collect()
    }

    fn add_page(&mut self, entry: u16, at: u64, names: &mut BTreeMap<u16, Vec<u8>>) -> Option<()> {
        let header = self.media.array::<{ HEADER as usize }>(at)?;
        let header = &header[..];
        let (id, span, flags) = (header.le16(0), header.le16(2), header[4]);
        if id != entry || flags & DELETED == 0 || flags & FINAL != 0 {
            return None;
        }
        let empty = || Object { size: UNKNOWN, time: 0, pages: BTreeMap::new() };
        let object = self.objects.entry(id & !INDEX).or_insert_with(empty);
        if id & INDEX == 0 {
            object.pages.insert(span, at + HEADER);
        } else if span == 0 {
            let first = self.media.bytes(at, TIME_AT + 4)?;
            let is_file = first.get(TYPE_AT).is_some_and(|kind| *kind == 1);
            object.size = first.le32(SIZE_AT);
            object.time = first.le32(TIME_AT);
            let name = first.get(NAME_AT..TIME_AT).filter(|_| is_file)?;
            let len = memchr::memchr(0, name).unwrap_or(NAME);
            names.insert(id & !INDEX, name.get(..len)?.to_vec());
        }
        Some(())
    }

    /// Adds a file to the directories in its name.
    fn insert(&mut self, name: &[u8], id: u16) -> Option<()> {
        let mut parts: Vec<&[u8]> =
            name.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let last = parts.pop()?;
        let mut directory = ROOT;
        for part in parts {
            directory = self.child(directory, part, || Node::Directory(BTreeMap::new()))?.0;
        }
        let (_, is_new) = self.child(directory, last, || Node::File(id))?;
        is_new.then_some(())
    }

    fn child(&mut self, directory: u32, name: &[u8], new: impl FnOnce() -> Node) -> Option<(u32, bool)> {
        let number = u32::try_from(self.nodes.len()).ok()?;
        let Node::Directory(names) = self.nodes.get_mut(directory as usize)? else { return None };
        if let Some(&child) = names.get(name) {
            return Some((child, false));
        }
        names.insert(name.to_vec(), number);
        self.nodes.push(new());
        Some((number, true))
    }

    fn object(&self, inode: u32) -> Option<&Object> {
        match self.nodes.get(inode as usize)? {
            Node::File(id) => self.objects.get(id),
            Node::Directory(_) => None,
        }
    }

    /// Size of a file in bytes; if the file was not closed, the size of its pages.
    fn size(&self, object: &Object) -> u64 {
        match object.size {
            UNKNOWN => object
                .pages
                .last_key_value()
                .map_or(0, |(last, _)| (u64::from(*last) + 1) * (self.page - HEADER)),
            size => size.into(),
        }
    }
}

impl Tree for Spiffs {
    fn root(&self) -> u32 {
        ROOT
    }

    fn inode(&mut self, inode: u32) -> Option<Inode> {
        if let Node::Directory(_) = self.nodes.get(inode as usize)? {
            return Some(Inode::plain(FileType::Directory, 0));
        }
        let object = self.object(inode)?;
        // Formats without the time have FFh in this field.
        let seconds = if object.time == u32::MAX { 0 } else { object.time };
        let time = Timestamp { seconds: seconds.into(), nanoseconds: 0 };
        Some(Inode::plain(FileType::Regular, self.size(object)).at(time))
    }

    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()> {
        let Node::Directory(known) = self.nodes.get(directory as usize)? else { return None };
        names.extend(known.iter().map(|(name, inode)| (name.clone(), *inode)));
        Some(())
    }

    fn read(&mut self, inode: u32, start: u64, out: &mut [u8]) -> Option<()> {
        let (object, room) = (self.object(inode)?, self.page - HEADER);
        self.media.read_pieces(start, out, &|at| {
            let page = object.pages.get(&u16::try_from(at / room).ok()?)?;
            Some((page + at % room, room - at % room))
        })
    }

    fn findings(&self) -> Findings {
        let remarks = vec!["SPIFFS has no checksum: changed data cannot be seen".to_owned()];
        Findings { losses: self.losses.clone(), remarks, ..Findings::default() }
    }
}
