//! One node or header, field by field, with names as in `docs/spec`. Works in damaged images too.

use std::fmt::{self, Debug};

use floatgate_media::MediaError;
use floatgate_media::ubi::{EC_MAGIC, EcHeader, ReadFlips, VID_MAGIC, VidHeader};
use floatgate_media::ubifs::{Frame, LOG_LEB, NODE_MAGIC, Node, ROOT_INODE};
use floatgate_stack::ubi::HeaderState;
use floatgate_stack::ubifs::{Authenticate, Survey, Tree, probe};
use floatgate_stack::{Store, Volume};
use serde::Serialize;

use super::check::{Origin, open_volume};
use super::extract::show_name;
use super::format::mapped::MappedVolume;
use super::format::ubi::Device;
use super::open::Selection;
use super::{Image, ImageError};

/// Selection of what to dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The node at a byte of a LEB.
    Leb {
        /// The LEB.
        lnum: u32,
        /// Its byte.
        offset: u32,
    },
    /// Structure that begins at a byte of the file: a header of UBI, a node.
    At(u64),
    /// The headers of a PEB.
    Peb(u32),
    /// The node of an inode, or of one of its blocks.
    Inode {
        /// The inode.
        inode: u32,
        /// A block of 4096 bytes of the file.
        block: Option<u32>,
    },
    /// As [`Inode`](Self::Inode), by path.
    Path {
        /// From the root.
        path: Vec<u8>,
        /// A block of the file.
        block: Option<u32>,
        /// The directory entry instead.
        entry: bool,
    },
    /// All nodes of an area.
    Area(Area),
}

/// An area of the filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The superblock.
    Superblock,
    /// Both LEBs of master nodes.
    Master,
    /// The log.
    Log,
    /// Orphans.
    Orphans,
    /// The root of the index of the last commit.
    Index,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Byte in the structure.
    pub offset: usize,
    /// Name of the field in `docs/spec`.
    pub name: String,
    /// Value of the field.
    pub value: String,
}

/// A structure that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dumped {
    /// Name of the structure.
    pub structure: String,
    /// Byte in the file.
    pub at: Option<u64>,
    /// LEB that holds the structure.
    pub leb: Option<u32>,
    /// Byte in the LEB.
    pub leb_offset: Option<u32>,
    /// Length in bytes.
    pub len: usize,
    /// The fields.
    pub fields: Vec<Field>,
    /// Bytes behind the fields (data, a name, numbers) in hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub payload: String,
    /// Reason for which there are no fields.
    pub damage: Option<String>,
}

/// Finds what is wanted in an image.
///
/// # Errors
/// The image cannot be read, what is wanted is not there.
pub fn dump(image: &Image, selection: &Selection, wanted: &Wanted) -> Result<Vec<Dumped>, ImageError> {
    if let Wanted::At(at) = *wanted {
        return Ok(vec![at_byte(image, at)?]);
    }
    let (mut volume, device, origin) = open_volume(image, selection)?;
    let places = match wanted {
        Wanted::At(_) => Vec::new(),
        Wanted::Peb(pnum) => return of_peb(device.as_ref(), *pnum, &origin),
        Wanted::Leb { lnum, offset } => vec![(*lnum, *offset)],
        Wanted::Area(area) => places_of(&mut volume, *area)?,
        Wanted::Inode { inode, block } => {
            let (place, back) = of_inode(volume, *inode, *block, &selection.authenticate)?;
            volume = back;
            vec![place]
        }
        Wanted::Path { path, block, entry } => {
            let (place, back) = of_path(volume, path, (*block, *entry), &selection.authenticate)?;
            volume = back;
            vec![place]
        }
    };
    if places.is_empty() {
        return Err(ImageError::NoNode("there is no node in this area".to_owned()));
    }
    places.into_iter().map(|(lnum, offset)| node_at(&mut volume, lnum, offset, &origin)).collect()
}

/// Structure that begins at a byte of the file.
fn at_byte(image: &Image, at: u64) -> Result<Dumped, ImageError> {
    let in_oob =
        || ImageError::NoNode(format!("byte {at} of the dump is in the OOB, or before its first page"));
    let place = match &image.corrected {
        Some(corrected) => corrected.data_byte(at).ok_or_else(in_oob)?,
        None => at,
    };
    let store = image.store()?;
    if place >= store.size_bytes() {
        return Err(ImageError::NoNode(format!("the file ends before byte {at}")));
    }
    let mut bytes = vec![0; 1 << 17];
    store.read_at(place, &mut bytes).map_err(ImageError::Store)?;
    let mut dumped = match bytes.first_chunk() {
        Some(&EC_MAGIC) => of_ec(&state(EcHeader::parse(&bytes, ReadFlips::default()))),
        Some(&VID_MAGIC) => of_vid(&state(VidHeader::parse(&bytes, ReadFlips::default()))),
        _ => of_node(&bytes),
    };
    dumped.at = Some(at);
    Ok(dumped)
}

fn of_peb(device: Option<&Device>, pnum: u32, origin: &Origin) -> Result<Vec<Dumped>, ImageError> {
    let none = || ImageError::NoNode(format!("there is no PEB {pnum}"));
    let device =
        device.ok_or_else(|| ImageError::NoNode("there is no UBI around the filesystem".to_owned()))?;
    let peb = device.survey.pebs().get(pnum as usize).ok_or_else(none)?;
    let start = device.peb_start(pnum);
    let (mut ec, mut vid) = (of_ec(&peb.ec), of_vid(&peb.vid));
    ec.at = Some(origin.file_byte(start));
    vid.at = Some(origin.file_byte(start + u64::from(device.survey.geometry().vid_header_offset())));
    Ok(vec![ec, vid])
}

type Found<S> = ((u32, u32), MappedVolume<S>);

fn of_inode<S: Store + 'static>(
    volume: MappedVolume<S>,
    inode: u32,
    block: Option<u32>,
    authenticate: &Authenticate,
) -> Result<Found<S>, ImageError> {
    let survey = Survey::authenticated(volume, authenticate).map_err(|(error, _)| error)?;
    let place = node_of(survey.tree(), inode, block);
    Ok((place?, survey.into_volume()))
}

fn of_path<S: Store + 'static>(
    volume: MappedVolume<S>,
    path: &[u8],
    (block, entry): (Option<u32>, bool),
    authenticate: &Authenticate,
) -> Result<Found<S>, ImageError> {
    let survey = Survey::authenticated(volume, authenticate).map_err(|(error, _)| error)?;
    let tree = survey.tree();
    let missing = || ImageError::NoNode(format!("there is no {}", show_name(path)));
    let mut inode = ROOT_INODE;
    let mut last = None;
    for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
        let child = tree.files.get(&inode).and_then(|file| file.entries.get(part)).ok_or_else(missing)?;
        (inode, last) = (child.inode, Some(child.place));
    }
    let place = match last.filter(|_| entry) {
        Some(place) => Ok((place.lnum, place.offset)),
        None => node_of(tree, inode, block),
    };
    Ok((place?, survey.into_volume()))
}

fn node_of(tree: &Tree, inode: u32, block: Option<u32>) -> Result<(u32, u32), ImageError> {
    let missing = || ImageError::NoNode(format!("there is no inode {inode}"));
    let file = tree.files.get(&inode).ok_or_else(missing)?;
    let place = match block {
        Some(block) => {
            let hole = || ImageError::NoNode(format!("inode {inode} has no block {block}: it is a hole"));
            file.blocks.get(&block).ok_or_else(hole)?.place
        }
        None => Some(file.place).filter(|place| place.len > 0).ok_or_else(missing)?,
    };
    Ok((place.lnum, place.offset))
}

/// Positions of the nodes of an area.
fn places_of<S: Store + 'static>(
    volume: &mut MappedVolume<S>,
    area: Area,
) -> Result<Vec<(u32, u32)>, ImageError> {
    let lebs = match area {
        Area::Superblock => 0..1,
        Area::Master | Area::Index => 1..LOG_LEB,
        Area::Log | Area::Orphans => {
            let (superblock, _) = probe(volume)?;
            let log_end = LOG_LEB.saturating_add(superblock.log_lebs);
            let orphans = log_end.saturating_add(superblock.lpt_lebs);
            let range = if area == Area::Log {
                LOG_LEB..log_end
            } else {
                orphans..orphans.saturating_add(superblock.orphan_lebs)
            };
            range.start..range.end.min(volume.geometry().lebs.max(range.start))
        }
    };
    let mut places = Vec::new();
    let mut root = None;
    for lnum in lebs {
        let mut bytes = vec![0; volume.geometry().leb_bytes as usize];
        volume.read(lnum, 0, &mut bytes).map_err(floatgate_stack::ubifs::Error::from)?;
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= 24) {
            let Ok(frame) = Frame::parse(rest) else {
                at += 8;
                continue;
            };
            match frame.node() {
                Ok(Node::Padding(padding)) => {
                    at += usize::try_from(padding.total_bytes()).unwrap_or(rest.len())
                }
                node => {
                    if let Ok(Node::Master(master)) = node {
                        root = Some((master.root_lnum, master.root_offset));
                    }
                    places.push((lnum, u32::try_from(at).unwrap_or(u32::MAX)));
                    at += frame.as_bytes().len().next_multiple_of(8);
                }
            }
        }
    }
    Ok(if area == Area::Index { root.into_iter().collect() } else { places })
}

fn node_at<S: Store + 'static>(
    volume: &mut MappedVolume<S>,
    lnum: u32,
    offset: u32,
    origin: &Origin,
) -> Result<Dumped, ImageError> {
    let leb_bytes = volume.geometry().leb_bytes;
    if lnum >= volume.geometry().lebs || offset >= leb_bytes {
        let what = format!("there is no byte {offset} in LEB {lnum}: LEBs have {leb_bytes} bytes");
        return Err(ImageError::NoNode(what));
    }
    let mut bytes = vec![0; (leb_bytes - offset) as usize];
    volume.read(lnum, offset, &mut bytes).map_err(floatgate_stack::ubifs::Error::from)?;
    let mut dumped = of_node(&bytes);
    (dumped.leb, dumped.leb_offset) = (Some(lnum), Some(offset));
    dumped.at = volume.place(lnum).map(|place| origin.file_byte(place + u64::from(offset)));
    if dumped.at.is_none() {
        dumped.damage = Some("the LEB is not mapped".to_owned());
    }
    Ok(dumped)
}

impl Dumped {
    fn new(structure: &str, len: usize) -> Self {
        Self {
            structure: structure.to_owned(),
            at: None,
            leb: None,
            leb_offset: None,
            len,
            fields: Vec::new(),
            payload: String::new(),
            damage: None,
        }
    }

    fn add(&mut self, offset: usize, name: impl Into<String>, value: &dyn Debug) {
        self.fields.push(Field { offset, name: name.into(), value: show(value) });
    }
}

impl Dumped {
    /// The same with what is there instead of a header: nothing, or something damaged.
    fn with_state<T>(mut self, header: &HeaderState<T>) -> Self {
        let erased = || Field { offset: 0, name: "state".to_owned(), value: "erased".to_owned() };
        match header {
            HeaderState::Good(_) => {}
            HeaderState::Erased => self.fields.push(erased()),
            HeaderState::Damaged(error) => self.damage = Some(error.to_string()),
            HeaderState::BadBlock => {
                self.damage = Some("not looked at: the block is marked bad".to_owned());
            }
        }
        self
    }
}

/// A value; bytes in hexadecimal.
fn show(value: &dyn Debug) -> String {
    let text = format!("{value:?}");
    let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else { return text };
    let bytes: Result<Vec<u8>, _> = list.split(", ").map(str::parse).collect();
    match bytes {
        Ok(bytes) if bytes.iter().all(|&byte| byte == 0) => "zeros".to_owned(),
        Ok(bytes) => hex(&bytes),
        Err(_) => text,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A header that was parsed on its own.
fn state<T>(parsed: Result<T, MediaError>) -> HeaderState<T> {
    parsed.map_or_else(HeaderState::Damaged, HeaderState::Good)
}

fn of_ec(header: &HeaderState<EcHeader>) -> Dumped {
    let mut dumped = Dumped::new("EC header", EcHeader::SIZE);
    if let HeaderState::Good(header) = header {
        header.each_field(&mut |offset, name, value| dumped.add(offset, name, value));
    }
    dumped.with_state(header)
}

fn of_vid(header: &HeaderState<VidHeader>) -> Dumped {
    let mut dumped = Dumped::new("VID header", VidHeader::SIZE);
    if let HeaderState::Good(header) = header {
        header.each_field(&mut |offset, name, value| dumped.add(offset, name, value));
    }
    dumped.with_state(header)
}

fn of_node(bytes: &[u8]) -> Dumped {
    let frame = match Frame::parse(bytes) {
        Ok(frame) => frame,
        Err(error) => {
            let mut dumped = Dumped::new("unknown", 0);
            dumped.damage = Some(error.to_string());
            raw_header(bytes, &mut dumped);
            return dumped;
        }
    };
    let node = frame.as_bytes();
    let mut dumped = Dumped::new(&format!("{:?} node", frame.node_type).to_lowercase(), node.len());
    raw_header(node, &mut dumped);
    match frame.node() {
        Ok(parsed) => fields_of(&parsed, node, &mut dumped),
        Err(error) => dumped.damage = Some(error.to_string()),
    }
    dumped
}

/// The common header, also of a damaged node.
fn raw_header(bytes: &[u8], dumped: &mut Dumped) {
    let word = |at: usize| {
        bytes.get(at..at + 4).and_then(|field| field.try_into().ok()).map_or(0, u32::from_le_bytes)
    };
    let magic = word(0);
    dumped.add(0, "magic", &format_args!("{magic:#010x}"));
    if magic != u32::from_le_bytes(NODE_MAGIC) {
        return;
    }
    let sqnum = bytes.get(8..16).and_then(|field| field.try_into().ok()).map_or(0, u64::from_le_bytes);
    dumped.add(4, "crc", &format_args!("{:#010x}", word(4)));
    dumped.add(8, "sqnum", &sqnum);
    dumped.add(16, "len", &word(16));
    dumped.add(20, "node_type", &bytes.get(20).copied().unwrap_or(0));
    dumped.add(21, "group", &bytes.get(21).copied().unwrap_or(0));
}

fn fields_of(node: &Node<'_>, bytes: &[u8], dumped: &mut Dumped) {
    let mut size = 24;
    {
        let add = &mut |offset: usize, name: &'static str, value: &dyn Debug| dumped.add(offset, name, value);
        size = match node {
            Node::Inode(node) => (node.inode.each_field(add), floatgate_media::ubifs::Inode::SIZE).1,
            Node::Data(node) => (node.block.each_field(add), floatgate_media::ubifs::Block::SIZE).1,
            Node::Entry(node) => (node.entry.each_field(add), floatgate_media::ubifs::Entry::SIZE).1,
            Node::Truncation(node) => (node.each_field(add), bytes.len()).1,
            Node::Padding(node) => (node.each_field(add), bytes.len()).1,
            Node::Superblock(node) => (node.each_field(add), bytes.len()).1,
            Node::Master(node) => (node.each_field(add), bytes.len()).1,
            Node::Reference(node) => (node.each_field(add), bytes.len()).1,
            Node::CommitStart(node) => (node.each_field(add), bytes.len()).1,
            _ => size,
        };
    }
    match node {
        Node::Entry(node) => dumped.add(size, "name", &format_args!("{}", show_name(node.name))),
        Node::Index(node) => {
            dumped.add(24, "children", &node.branches().count());
            dumped.add(26, "level", &node.level());
            for branch in node.branches() {
                let floatgate_media::ubifs::Branch { lnum, offset, len, key, .. } = branch;
                dumped.add(28, "branch", &format_args!("{key:?} at LEB {lnum}:{offset}, {len} bytes"));
            }
            return;
        }
        Node::Orphan(node) => {
            dumped.add(24, "commit", &node.commit);
            dumped.add(24, "last", &node.last);
            for inode in node.inums() {
                dumped.add(32, "inode", &inode);
            }
            return;
        }
        _ => {}
    }
    dumped.payload = hex(bytes.get(size..).unwrap_or(&[]));
}

impl fmt::Display for Dumped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.structure, self.len)?;
        if let Some(at) = self.at {
            write!(f, ", at byte {at} ({at:#x})")?;
        }
        if let (Some(leb), Some(offset)) = (self.leb, self.leb_offset) {
            write!(f, ", LEB {leb}:{offset}")?;
        }
        writeln!(f)?;
        if let Some(damage) = &self.damage {
            writeln!(f, "  {damage}")?;
        }
        for Field { offset, name, value } in &self.fields {
            writeln!(f, "  {offset:>4}  {name:<18} {value}")?;
        }
        Ok(())
    }
}
