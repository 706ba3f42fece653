//! Hashes of nodes in the index of a filesystem with authentication.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Tnc;
use crate::fs::NodePos;
use crate::ubifs::auth::Hasher;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use floatgate_media::ubifs::{Frame, IndexNode, Key, NodeType};

/// Hashes by key, LEB and offset of the branches.
type HashesByBranch = BTreeMap<(Key, u32, u32), Box<[u8]>>;

/// Key under which the root's hash is stored.
pub(super) const ROOT_KEY: Key = Key::from_bits(0);

/// Hashes of nodes, and the hash function. Empty unless nodes are verified.
#[derive(Clone, Debug, Default)]
pub(super) struct Hashes {
    kept: Arc<HashesByBranch>,
    hasher: Option<Hasher>,
}

impl Hashes {
    /// Stores the hashes of all children of an index node.
    pub(super) fn keep(&mut self, node: &IndexNode<'_>) {
        if node.hash_bytes() == 0 || self.hasher.is_none() {
            return;
        }
        let kept = Arc::make_mut(&mut self.kept);
        for branch in node.branches() {
            kept.insert((branch.key, branch.lnum, branch.offset), branch.hash.into());
        }
    }

    /// Removes the hash of a key that refers to a new journal node at this position.
    pub(super) fn forget(&mut self, key: Key, place: NodePos) {
        if !self.kept.is_empty() {
            Arc::make_mut(&mut self.kept).remove(&(key, place.lnum, place.offset));
        }
    }
}

impl Tnc {
    /// Verifies all nodes from now on: each must have the hash stored in the index, and the root must have `root_hash`.
    pub(crate) fn authenticate(&mut self, root_hash: &[u8], hasher: Hasher) {
        self.hashes.hasher = Some(hasher);
        let Some(root) = self.root else { return };
        let place = (ROOT_KEY, root.place.lnum, root.place.offset);
        Arc::make_mut(&mut self.hashes.kept).insert(place, root_hash.into());
    }

    /// Stores the hash of an authenticated journal node.
    pub(crate) fn keep_hash(&mut self, key: Key, place: NodePos, hash: Box<[u8]>) {
        Arc::make_mut(&mut self.hashes.kept).insert((key, place.lnum, place.offset), hash);
    }

    /// Reads a leaf like [`Io::read_node`], and verifies its hash.
    ///
    /// # Errors
    /// The errors of [`Io::read_node`], and a hash that differs from the index.
    pub(crate) fn read_leaf<'o>(
        &self,
        io: &mut DynIo<'_>,
        key: Key,
        place: NodePos,
        expected: Option<NodeType>,
        out: &'o mut Vec<u8>,
    ) -> Result<Frame<'o>> {
        let frame = io.read_node(place, expected, out)?;
        self.check_hash(key, place, frame.as_bytes())?;
        Ok(frame)
    }

    /// Verifies an index node or leaf. Nodes that are newer than the mount are not verified.
    ///
    /// # Errors
    /// A hash that differs from the index.
    pub(crate) fn check_hash(&self, key: Key, place: NodePos, node: &[u8]) -> Result<()> {
        let Some(hasher) = self.hashes.hasher else { return Ok(()) };
        match self.hashes.kept.get(&(key, place.lnum, place.offset)) {
            Some(hash) if *hasher.hash(node) != **hash => {
                let what = "a node has another hash than the index says";
                Err(Error::unauthentic(place.lnum, place.offset, what))
            }
            _ => Ok(()),
        }
    }
}
