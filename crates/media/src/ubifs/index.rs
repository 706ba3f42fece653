//! Index nodes, the nodes of a B+ tree of all keys: `docs/spec/ubifs.md#index-node`.

use super::header::{Frame, HEADER_BYTES, NodeBody, NodeType};
use super::key::{Key, KeyType};
use super::{Limits, MAX_HASH_BYTES};
use crate::error::{MediaError, Reason, require};
use crate::wire::{Wire, layout, narrow, room, store};

const CHILDREN_AT: usize = HEADER_BYTES;
const LEVEL_AT: usize = HEADER_BYTES + 2;
const BRANCHES_AT: usize = HEADER_BYTES + 4;

/// Maximum number of levels of the tree.
const MAX_LEVELS: u16 = 512;

layout! {
    /// Layout of a branch without its hash.
    struct Fields[20] {
        0 => lnum: u32,
        4 => offset: u32,
        8 => len: u32,
        12 => key: Key,
    }
}

/// A branch of an index node: the position of a child or leaf on flash (Linux: `zbranch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch<'a> {
    /// LEB of the child.
    pub lnum: u32,
    /// Offset of the child in its LEB, bytes.
    pub offset: u32,
    /// Length of the child, bytes.
    pub len: u32,
    /// Key of the leaf, or lowest key in the child index node.
    pub key: Key,
    /// Hash of the child; empty in a filesystem without authentication.
    pub hash: &'a [u8],
}

impl<'a> Branch<'a> {
    /// Length of a branch with a hash of this length, bytes.
    #[must_use]
    pub const fn bytes(hash_bytes: usize) -> usize {
        Fields::SIZE + hash_bytes
    }

    /// Writes the branch to the start of `out` and returns its length.
    ///
    /// # Errors
    ///
    /// No room.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, MediaError> {
        let out = room(out, Self::bytes(self.hash.len()))?;
        let Self { lnum, offset, len, key, hash } = *self;
        Fields { lnum, offset, len, key }.put(out, 0);
        store(out, Fields::SIZE, hash);
        Ok(out.len())
    }

    fn decode(bytes: &'a [u8]) -> Self {
        let Fields { lnum, offset, len, key } = Fields::decode(bytes, 0);
        Self { lnum, offset, len, key, hash: bytes.get(Fields::SIZE..).unwrap_or(&[]) }
    }

    /// Checks the position in the branch; offsets in errors are relative to the branch.
    fn check(&self, level: u16, limits: &Limits) -> Result<(), MediaError> {
        require(limits.main.contains(&self.lnum), 0, "LEB number", self.lnum)?;
        require(self.offset.is_multiple_of(8), 4, "offset", self.offset)?;
        let end = u64::from(self.offset) + u64::from(self.len);
        require(end <= u64::from(limits.leb_bytes), 4, "end of the node", end)?;
        let key_type = self.key.key_type().known("key type", 16)?;
        let allows = |len| node_type(key_type).allows_len(len);
        let leaf = level > 0 || usize::try_from(self.len).is_ok_and(allows);
        require(leaf, 8, "node length", self.len)
    }
}

/// Type of the node that a key refers to.
const fn node_type(key_type: KeyType) -> NodeType {
    // Key types and node types have the same codes.
    NodeType::from_code(key_type.code())
}

/// An index node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexNode<'a> {
    level: u16,
    branch_bytes: usize,
    branches: &'a [u8],
}

impl<'a> IndexNode<'a> {
    /// Minimum size of an index node, B: one child and no hash.
    pub(super) const MIN_BYTES: usize = BRANCHES_AT + Fields::SIZE;

    /// A node with branches written by [`Branch::emit`], each with a hash of `hash_bytes`.
    ///
    /// # Errors
    ///
    /// No branch, more than 65535 branches, or an incomplete branch.
    pub fn new(level: u16, hash_bytes: usize, branches: &'a [u8]) -> Result<Self, MediaError> {
        let branch_bytes = Branch::bytes(hash_bytes);
        let len = branches.len();
        let count = len / branch_bytes;
        let good = len.is_multiple_of(branch_bytes) && (1..=usize::from(u16::MAX)).contains(&count);
        require(good, BRANCHES_AT, "bytes of branches", len as u64)?;
        Ok(Self { level, branch_bytes, branches })
    }

    pub(super) fn from_frame(frame: &Frame<'a>) -> Result<Self, MediaError> {
        let bytes = frame.as_bytes();
        let branches = bytes.get(BRANCHES_AT..).unwrap_or(&[]);
        let count = u16::decode(bytes, CHILDREN_AT);
        // The length of a hash is not stored, but it is the same in every branch.
        let branch_bytes = branches.len().checked_div(usize::from(count)).unwrap_or(0);
        let hash_bytes = branch_bytes.checked_sub(Fields::SIZE).filter(|&bytes| bytes <= MAX_HASH_BYTES);
        let bad = Reason::OutOfRange { field: "children", value: u64::from(count) }.at(CHILDREN_AT);
        if usize::from(count) * branch_bytes != branches.len() {
            return Err(bad);
        }
        Self::new(u16::decode(bytes, LEVEL_AT), hash_bytes.ok_or(bad)?, branches)
    }

    /// Level in the tree: nodes of level 0 refer to leaves, others to nodes of the level below.
    #[must_use]
    pub const fn level(&self) -> u16 {
        self.level
    }

    /// Number of children.
    #[must_use]
    pub const fn child_count(&self) -> usize {
        self.branches.len() / self.branch_bytes
    }

    /// Length of the hash in each branch, bytes.
    #[must_use]
    pub const fn hash_bytes(&self) -> usize {
        self.branch_bytes - Fields::SIZE
    }

    /// The branches, lowest key first.
    pub fn branches(&self) -> impl ExactSizeIterator<Item = Branch<'a>> + use<'a> {
        self.branches.chunks_exact(self.branch_bytes).map(Branch::decode)
    }

    /// The branch at an index.
    #[must_use]
    pub fn branch(&self, index: usize) -> Option<Branch<'a>> {
        self.branches.chunks_exact(self.branch_bytes).nth(index).map(Branch::decode)
    }

    /// Checks number, level, hashes, positions, and the order of keys.
    ///
    /// # Errors
    ///
    /// The first invalid value. Equal keys are valid only for names with the same hash.
    pub fn check(&self, limits: &Limits) -> Result<(), MediaError> {
        let count = self.child_count() as u64;
        require(count <= u64::from(limits.fanout), CHILDREN_AT, "children", count)?;
        require(self.level <= MAX_LEVELS, LEVEL_AT, "level", self.level)?;
        let hash_bytes = self.hash_bytes();
        require(hash_bytes == limits.hash_bytes, BRANCHES_AT, "bytes of a hash", hash_bytes as u64)?;
        let mut before: Option<Key> = None;
        for (index, branch) in self.branches().enumerate() {
            let at = BRANCHES_AT + index * self.branch_bytes;
            branch.check(self.level, limits).map_err(|error| error.shifted(at))?;
            if before.is_some_and(|before| !follows(before, branch.key)) {
                return Err(Reason::Inconsistent { what: "keys out of order" }.at(at));
            }
            before = Some(branch.key);
        }
        Ok(())
    }
}

/// True if `key` is allowed directly after `before`.
fn follows(before: Key, key: Key) -> bool {
    before < key || before == key && key.is_hashed()
}

impl NodeBody for IndexNode<'_> {
    fn node_type(&self) -> NodeType {
        NodeType::Index
    }

    fn node_bytes(&self) -> usize {
        BRANCHES_AT + self.branches.len()
    }

    fn put_fields(&self, out: &mut [u8]) -> Result<(), MediaError> {
        narrow::<u16>("children", CHILDREN_AT, self.child_count())?.put(out, CHILDREN_AT);
        self.level.put(out, LEVEL_AT);
        store(out, BRANCHES_AT, self.branches);
        Ok(())
    }
}
