//! Directory entries and names of extended attributes: `docs/spec/ubifs.md#entry-node`.

use super::MAX_NAME_BYTES;
use super::header::{Frame, NodeBody, NodeType};
use super::key::{Key, KeyType};
use crate::error::{MediaError, Reason, require};
use crate::file::FileType;
use crate::wire::{Wire, layout, narrow, span, store};

const KEY_AT: usize = 24;
const INODE_AT: usize = 40;
const FILE_TYPE_AT: usize = 49;
const NAME_LEN_AT: usize = 50;
const NAME_AT: usize = Entry::SIZE;

layout! {
    /// Fixed fields of a directory entry node; the length field is derived from the name.
    pub struct Entry[56] {
        /// Key of the node: inode of the directory (or of the file with the attribute), and hash of
        /// the name.
        24 => key: Key,
        /// Inode number that the name refers to; 0 if the entry deletes the name.
        40 => inode: u64,
        /// Type of the file.
        49 => file_type: FileType,
        /// Random number that distinguishes names with the same hash (format 5 and double hash).
        52 => cookie: u32,
    }
}

/// A directory entry, or the name of an extended attribute, depending on the type of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryNode<'a> {
    /// Fixed fields: inode number and type of the file.
    pub entry: Entry,
    /// Name of the entry: any bytes; in encrypted directories even zeros.
    pub name: &'a [u8],
}

impl<'a> EntryNode<'a> {
    pub(super) fn from_frame(frame: &Frame<'a>) -> Result<Self, MediaError> {
        let bytes = frame.as_bytes();
        let entry = Entry::decode(bytes, 0);
        let key_type = if frame.node_type == NodeType::Entry { KeyType::Entry } else { KeyType::XattrEntry };
        entry.key.require(key_type, KEY_AT)?;
        let len = usize::from(u16::decode(bytes, NAME_LEN_AT));
        require(len <= MAX_NAME_BYTES, NAME_LEN_AT, "name length", len as u64)?;
        require(NAME_AT + len + 1 == bytes.len(), NAME_LEN_AT, "name length", len as u64)?;
        if bytes.last() != Some(&0) {
            return Err(Reason::Inconsistent { what: "no zero after the name" }.at(NAME_AT + len));
        }
        Ok(Self { entry, name: span(bytes, NAME_AT, len)? })
    }

    /// True when the entry deletes the name.
    #[must_use]
    pub const fn is_deletion(&self) -> bool {
        self.entry.inode == 0
    }

    /// Checks the inode number and its type, and that an attribute's name contains no zero byte.
    ///
    /// # Errors
    ///
    /// The first invalid value.
    pub fn check(&self) -> Result<(), MediaError> {
        let inode = self.entry.inode;
        require(inode <= u64::from(u32::MAX), INODE_AT, "inode number", inode)?;
        self.entry.file_type.known("file type", FILE_TYPE_AT)?;
        let zero = self.name.iter().position(|&byte| byte == 0);
        match zero.filter(|_| self.entry.key.key_type() == KeyType::XattrEntry) {
            Some(at) => {
                Err(Reason::Inconsistent { what: "an attribute's name has a zero in it" }.at(NAME_AT + at))
            }
            None => Ok(()),
        }
    }
}

impl NodeBody for EntryNode<'_> {
    fn node_type(&self) -> NodeType {
        match self.entry.key.key_type() {
            KeyType::XattrEntry => NodeType::XattrEntry,
            _ => NodeType::Entry,
        }
    }

    fn node_bytes(&self) -> usize {
        NAME_AT + self.name.len() + 1
    }

    fn put_fields(&self, out: &mut [u8]) -> Result<(), MediaError> {
        self.entry.put(out, 0);
        narrow::<u16>("name length", NAME_LEN_AT, self.name.len())?.put(out, NAME_LEN_AT);
        store(out, NAME_AT, self.name);
        Ok(())
    }
}
