//! Hashes of nodes, which the index of a filesystem with authentication keeps of every node it leads to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Tnc;
use crate::fs::NodePos;
use crate::ubifs::auth::Hasher;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use floatgate_media::ubifs::{Frame, IndexNode, Key, NodeType};

/// Hashes by key, LEB and offset, as the branches have them.
type Kept = BTreeMap<(Key, u32, u32), Box<[u8]>>;

/// The key that the root's hash is kept under.
pub(super) const ROOT_KEY: Key = Key::from_bits(0);

/// Hashes of nodes, and how to verify them. Empty unless they are to be verified.
#[derive(Clone, Debug, Default)]
pub(super) struct Hashes {
    kept: Arc<Kept>,
    hasher: Option<Hasher>,
}

impl Hashes {
    /// Keeps the hashes of all nodes an index node leads to.
    pub(super) fn keep(&mut self, node: &IndexNode<'_>) {
        if node.hash_bytes() == 0 || self.hasher.is_none() {
            return;
        }
        let kept = Arc::make_mut(&mut self.kept);
        for branch in node.branches() {
            kept.insert((branch.key, branch.lnum, branch.offset), branch.hash.into());
        }
    }

    /// A key leads to a new node, from the journal: its hash is not that of what stood there before.
    pub(super) fn forget(&mut self, key: Key, place: NodePos) {
        if !self.kept.is_empty() {
            Arc::make_mut(&mut self.kept).remove(&(key, place.lnum, place.offset));
        }
    }
}

impl Tnc {
    /// From here on every node that is read has to have the hash that the index keeps of it; the root has to have this one.
    pub(crate) fn authenticate(&mut self, root_hash: &[u8], hasher: Hasher) {
        self.hashes.hasher = Some(hasher);
        let Some(root) = self.root else { return };
        let place = (ROOT_KEY, root.place.lnum, root.place.offset);
        Arc::make_mut(&mut self.hashes.kept).insert(place, root_hash.into());
    }

    /// A leaf of the journal, which was authenticated, has this hash.
    pub(crate) fn keep_hash(&mut self, key: Key, place: NodePos, hash: Box<[u8]>) {
        Arc::make_mut(&mut self.hashes.kept).insert((key, place.lnum, place.offset), hash);
    }

    /// Reads the leaf that a key leads to, as [`Io::read_node`] does, and checks its hash.
    ///
    /// # Errors
    /// As [`Io::read_node`]; another hash than the index says.
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

    /// Checks a node, index node or leaf, that a key leads to. Nodes that are newer than the mount pass.
    ///
    /// # Errors
    /// Another hash than the index says.
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
