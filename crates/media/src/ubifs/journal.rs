//! Nodes of journal, log and orphan area: truncations, references, commit starts, orphans.

use super::header::{Frame, HEADER_BYTES, NodeBody, NodeType, fixed_nodes};
use super::{Limits, MAX_FILE_BYTES};
use crate::error::{MediaError, Reason, require};
use crate::wire::{Wire, layout, store};

/// Flag in the commit number that marks the last orphan node of a commit.
const LAST_ORPHANS: u64 = 1 << 63;

const INUMS_AT: usize = HEADER_BYTES + 8;

layout! {
    /// Truncation node, the change of a file's size: `docs/spec/ubifs.md#truncation-node`.
    pub struct Truncation[56] {
        /// Inode number of the file.
        24 => inode: u32,
        /// Size of the file before the truncation, B.
        40 => old_size: u64,
        /// Size of the file after the truncation, B.
        48 => new_size: u64,
    }
}

layout! {
    /// Reference node, which adds a LEB to the journal: `docs/spec/ubifs.md#reference-node`.
    pub struct Reference[64] {
        /// Number of the LEB.
        24 => lnum: u32,
        /// Offset in the LEB at which the journal starts, bytes.
        28 => offset: u32,
        /// Journal head that writes to the LEB: 0: garbage collector, 1: inodes and directories, 2: data.
        32 => head: u32,
    }
}

layout! {
    /// Commit start node: `docs/spec/ubifs.md#commit-start-node`.
    pub struct CommitStart[32] {
        /// Number of the commit.
        24 => commit: u64,
    }
}

fixed_nodes!(Truncation => Truncation, Reference => Reference, CommitStart => CommitStart);

impl Truncation {
    /// Checks that the file shrinks and that its old size was valid.
    ///
    /// # Errors
    ///
    /// The invalid size.
    pub fn check(&self) -> Result<(), MediaError> {
        require(self.old_size <= MAX_FILE_BYTES, 40, "old size", self.old_size)?;
        require(self.new_size < self.old_size, 48, "new size", self.new_size)
    }
}

impl Reference {
    /// Checks journal head and position.
    ///
    /// # Errors
    ///
    /// An unknown journal head, a LEB outside the main area, an offset past the LEB's end or inside a
    /// minimum I/O unit.
    pub fn check(&self, limits: &Limits) -> Result<(), MediaError> {
        require(self.head < limits.heads, 32, "journal head", self.head)?;
        require(limits.main.contains(&self.lnum), 24, "LEB number", self.lnum)?;
        let inside = self.offset <= limits.leb_bytes && self.offset.is_multiple_of(limits.min_io_bytes);
        require(inside, 28, "offset", self.offset)
    }
}

/// Orphan node, a list of inodes that were unlinked while open: `docs/spec/ubifs.md#orphan-node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrphanNode<'a> {
    /// Number of the commit, 63 bits.
    pub commit: u64,
    /// True when it is the last orphan node of that commit.
    pub last: bool,
    /// Numbers of the inodes, little-endian.
    pub inodes: &'a [[u8; 8]],
}

impl<'a> OrphanNode<'a> {
    pub(super) fn from_frame(frame: &Frame<'a>) -> Result<Self, MediaError> {
        let bytes = frame.as_bytes();
        let word = u64::decode(bytes, HEADER_BYTES);
        let (inodes, rest) = bytes.get(INUMS_AT..).unwrap_or(&[]).as_chunks();
        if !rest.is_empty() {
            return Err(Reason::Inconsistent { what: "an orphan is cut off" }.at(bytes.len() - rest.len()));
        }
        Ok(Self { commit: word & !LAST_ORPHANS, last: word & LAST_ORPHANS != 0, inodes })
    }

    /// Numbers of the inodes.
    pub fn inums(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        self.inodes.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

impl NodeBody for OrphanNode<'_> {
    fn node_type(&self) -> NodeType {
        NodeType::Orphan
    }

    fn node_bytes(&self) -> usize {
        INUMS_AT + self.inodes.as_flattened().len()
    }

    fn put_fields(&self, out: &mut [u8]) -> Result<(), MediaError> {
        let last = if self.last { LAST_ORPHANS } else { 0 };
        (self.commit & !LAST_ORPHANS | last).put(out, HEADER_BYTES);
        store(out, INUMS_AT, self.inodes.as_flattened());
        Ok(())
    }
}
