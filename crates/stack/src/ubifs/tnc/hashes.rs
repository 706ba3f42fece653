//! Hashes of nodes, which the index of a filesystem with authentication keeps of every node it leads to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Tnc;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::layout::Place;
use floatgate_media::ubifs::{IndexNode, Key};

/// Whether the bytes of a node have a hash.
pub(crate) type Verify = fn(node: &[u8], hash: &[u8]) -> bool;

/// Hashes by key, LEB and offset, as the branches have them.
type Kept = BTreeMap<(Key, u32, u32), Box<[u8]>>;

/// The key that the root's hash is kept under.
pub(super) const ROOT_KEY: Key = Key::from_bits(0);

/// Hashes of nodes, and how to verify them. Empty without authentication.
#[derive(Clone, Debug, Default)]
pub(super) struct Hashes {
    kept: Arc<Kept>,
    /// `None` if the key for the root's hash is not known: then no hash proves anything.
    verify: Option<Verify>,
}

impl Hashes {
    /// Keeps the hashes of all nodes an index node leads to.
    pub(super) fn keep(&mut self, node: &IndexNode<'_>) {
        if node.hash_bytes() == 0 || self.verify.is_none() {
            return;
        }
        let kept = Arc::make_mut(&mut self.kept);
        for branch in node.branches() {
            kept.insert((branch.key, branch.lnum, branch.offset), branch.hash.into());
        }
    }

    /// A key leads to a new node, from the journal, whose hash is not known.
    pub(super) fn forget(&mut self, key: Key, place: Place) {
        if !self.kept.is_empty() {
            Arc::make_mut(&mut self.kept).remove(&(key, place.lnum, place.offset));
        }
    }
}

impl Tnc {
    /// From here on every node that is read has to have the hash that the index keeps of it; the root has to have this one.
    #[cfg_attr(not(test), expect(dead_code, reason = "mounts take no key yet"))]
    pub(crate) fn authenticate(&mut self, root_hash: &[u8], verify: Verify) {
        self.hashes.verify = Some(verify);
        let Some(root) = self.root else { return };
        let place = (ROOT_KEY, root.place.lnum, root.place.offset);
        Arc::make_mut(&mut self.hashes.kept).insert(place, root_hash.into());
    }

    /// Checks a node, index node or leaf, that a key leads to. Nodes of the journal pass: the journal authenticates them.
    ///
    /// # Errors
    /// Another hash than the index says.
    pub(crate) fn check_hash(&self, key: Key, place: Place, node: &[u8]) -> Result<()> {
        let Some(verify) = self.hashes.verify else { return Ok(()) };
        match self.hashes.kept.get(&(key, place.lnum, place.offset)) {
            Some(hash) if !verify(node, hash) => {
                Err(Error::corrupt(place.lnum, place.offset, "a node has another hash than the index says"))
            }
            _ => Ok(()),
        }
    }
}
