//! Nodes and headers field by field, and their selection.

use std::fmt::{self, Debug};

use floatgate_stack::ubi::HeaderState;
use serde::Serialize;

/// Selection of the structure to dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpTarget {
    /// The node at an offset of a LEB.
    Leb {
        /// Number of the LEB.
        lnum: u32,
        /// Offset in the LEB.
        offset: u32,
    },
    /// Structure that begins at an offset of the file: a header of UBI, or a node.
    At(u64),
    /// The headers of a PEB.
    Peb(u32),
    /// The node of an inode, or of one of its blocks.
    Inode {
        /// Inode number of the node.
        inode: u32,
        /// Number of a block of 4096 bytes of the file.
        block: Option<u32>,
    },
    /// The node of an inode or of one of its blocks, by the path of the file.
    Path {
        /// Path from the root.
        path: Vec<u8>,
        /// Number of a block of the file.
        block: Option<u32>,
        /// True to select the directory entry instead.
        entry: bool,
    },
    /// All nodes of an area.
    Area(Area),
    /// All nodes of a JFFS2, without the bytes after their fields.
    Nodes,
}

/// An area of the filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The superblock node, in LEB 0.
    Superblock,
    /// Both LEBs of master nodes.
    Master,
    /// The log: references to the buds of the journal, and commit starts.
    Log,
    /// The orphan area: inodes that were removed while open.
    Orphans,
    /// The root of the index of the last commit.
    Index,
}

/// Field of a header or node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Offset in the structure.
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
    /// Offset in the file.
    pub at: Option<u64>,
    /// LEB that holds the structure.
    pub leb: Option<u32>,
    /// Offset in the LEB.
    pub leb_offset: Option<u32>,
    /// Length in bytes.
    pub len: usize,
    /// Fields of the structure, in their order on the flash.
    pub fields: Vec<Field>,
    /// Bytes after the fields (data, a name, numbers) in hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub payload: String,
    /// Reason why there are no fields.
    pub damage: Option<String>,
    /// Node of a JFFS2 in one line.
    #[serde(skip)]
    pub line: String,
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
    /// Adds the state of a missing or damaged header.
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

/// Text of a value; bytes in hexadecimal.
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
