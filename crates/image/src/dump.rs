//! One node or header, field by field, with names as in `docs/spec`. Works in damaged images too.

use std::fmt::{self, Debug};

use floatgate_media::ubi::{EC_MAGIC, EcHeader, ReadFlips, VID_MAGIC, VidHeader};
use floatgate_stack::Store;
use floatgate_stack::ubi::HeaderState;
use serde::Serialize;

use super::check::open_volume;
use super::detect::Content;
use super::format::jffs2::dump as jffs2;
use super::format::ubi::dump::{of_ec, of_peb, of_vid, state};
use super::format::ubifs::dump::{node_at, of_inode, of_node, of_path, places_of};
use super::open::Selection;
use super::{Image, ImageError};
use crate::words::count;

/// Selections that JFFS2 does not have, in messages.
pub(crate) const A_LEB: &str = "a LEB";
pub(crate) const AN_AREA: &str = "an area";

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
    /// All nodes of a JFFS2, without the bytes behind their fields.
    Nodes,
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
    /// A node of a JFFS2 in a line.
    #[serde(skip)]
    pub line: String,
}

/// Finds what is wanted in an image.
///
/// # Errors
/// The image cannot be read, what is wanted is not there.
pub fn dump(image: &Image, selection: &Selection, wanted: &Wanted) -> Result<Vec<Dumped>, ImageError> {
    if let Wanted::At(at) = *wanted {
        return Ok(vec![at_byte(image, at)?]);
    }
    let found = image.choose(selection)?;
    if let Content::Jffs2(shape) = &found.content {
        let origin = image.origin(&found);
        return jffs2::dump(image.store()?, image.store()?, (&found, shape), wanted, &origin);
    }
    let (mut volume, device, origin) = open_volume(image, selection)?;
    let places = match wanted {
        Wanted::At(_) => Vec::new(),
        Wanted::Nodes => return Err(ImageError::NotJffs2("a list of nodes")),
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
        None => image.splices.place(at),
    };
    let store = image.store()?;
    if place >= store.size_bytes() {
        let size = image.file_byte(store.size_bytes());
        return Err(ImageError::NoNode(format!(
            "there is no byte {at}: the file has {}",
            count(size, "byte")
        )));
    }
    let is_in_jffs2 =
        image.found.iter().any(|found| matches!(found.content, Content::Jffs2(_)) && found.holds(place));
    let mut bytes = vec![0; 1 << 17];
    store.read_at(place, &mut bytes).map_err(ImageError::Store)?;
    let mut dumped = match bytes.first_chunk() {
        Some(&EC_MAGIC) => of_ec(&state(EcHeader::parse(&bytes, ReadFlips::default()))),
        Some(&VID_MAGIC) => of_vid(&state(VidHeader::parse(&bytes, ReadFlips::default()))),
        _ => match jffs2::of_node(&bytes) {
            Some(node) => node,
            None if is_in_jffs2 => {
                return Err(ImageError::NoNode(format!("no node of the JFFS2 begins at byte {at}")));
            }
            None => of_node(&bytes),
        },
    };
    dumped.at = Some(at);
    Ok(dumped)
}

impl Dumped {
    pub(crate) fn new(structure: &str, len: usize) -> Self {
        Self {
            structure: structure.to_owned(),
            at: None,
            leb: None,
            leb_offset: None,
            len,
            fields: Vec::new(),
            payload: String::new(),
            damage: None,
            line: String::new(),
        }
    }

    pub(crate) fn add(&mut self, offset: usize, name: impl Into<String>, value: &dyn Debug) {
        self.fields.push(Field { offset, name: name.into(), value: show(value) });
    }
}

impl Dumped {
    /// The same with what is there instead of a header: nothing, or something damaged.
    pub(crate) fn with_state<T>(mut self, header: &HeaderState<T>) -> Self {
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
pub(crate) fn show(value: &dyn Debug) -> String {
    let text = format!("{value:?}");
    let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else { return text };
    let bytes: Result<Vec<u8>, _> = list.split(", ").map(str::parse).collect();
    match bytes {
        Ok(bytes) if bytes.iter().all(|&byte| byte == 0) => "zeros".to_owned(),
        Ok(bytes) => hex(&bytes),
        Err(_) => text,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
