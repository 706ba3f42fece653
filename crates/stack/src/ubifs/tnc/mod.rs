//! The tree node cache (TNC): the index, a B+ tree of all keys, as far as it is in memory.
//!
//! Nodes are read when they are needed and stay. A node that changes loses its place on flash, and so do all nodes above
//! it; the next commit writes them anew. What they occupied becomes dirty at once, but it is part of the committed
//! index until the commit is done: `old_index` remembers it. Linux: `fs/ubifs/tnc.c`, `tnc_misc.c`, `tnc_commit.c`.
//!
//! - `tree`: nodes in memory and paths through them;
//! - `load`: reading and checking nodes, finding keys;
//! - `names`, `entries`: keys that several names share, and the entries read last;
//! - `replay`: names while entries are missing;
//! - `insert`, `remove`: changing the tree;
//! - `collect`: what the garbage collector asks;
//! - `hashes`: verifying nodes, where there is authentication;
//! - `salvage`: what a damaged index still leads to;
//! - `commit`, `gaps`: writing changed nodes.

mod collect;
mod commit;
mod entries;
mod gaps;
pub(crate) mod hashes;
mod insert;
mod load;
mod names;
mod remove;
mod replay;
pub(crate) mod salvage;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::entries::EntryCache;
use self::hashes::Hashes;
use self::replay::Replay;
use self::tree::{Arena, NodeId, Path, Side, Zbranch};
use super::error::Result;
use super::io::DynIo;
use super::layout::NodePos;
use super::limits::Limits;
use super::space::{LebSpace, Space};
use floatgate_media::ubifs::{Key, Master};

/// Write position of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexHead {
    /// LEB of the next index node; one outside the main area if there is none yet.
    pub(crate) lnum: u32,
    /// Its first byte.
    pub(crate) offset: u32,
}

impl IndexHead {
    /// The position that a master node tells.
    pub(crate) const fn of(master: &Master) -> Self {
        Self { lnum: master.index_head_lnum, offset: master.index_head_offset }
    }
}

/// LEB properties as far as the index needs them.
pub(crate) trait IndexSpace {
    /// [`Space::add_dirt`].
    fn add_dirt(&mut self, lnum: u32, bytes: u32) -> Result<()>;
    /// [`Space::get`].
    fn get(&self, lnum: u32) -> Result<LebSpace>;
    /// [`Space::set`].
    fn set(&mut self, lnum: u32, space: LebSpace) -> Result<()>;
    /// [`Space::find_free_for_index`].
    fn find_free_for_index(&mut self, io: &mut DynIo<'_>) -> Result<Option<u32>>;
    /// [`Space::find_dirty_index`].
    fn find_dirty_index(&mut self) -> Result<Option<u32>>;
}

impl IndexSpace for Space {
    fn add_dirt(&mut self, lnum: u32, bytes: u32) -> Result<()> {
        Self::add_dirt(self, lnum, bytes)
    }

    fn get(&self, lnum: u32) -> Result<LebSpace> {
        Self::get(self, lnum)
    }

    fn set(&mut self, lnum: u32, space: LebSpace) -> Result<()> {
        Self::set(self, lnum, space)
    }

    fn find_free_for_index(&mut self, io: &mut DynIo<'_>) -> Result<Option<u32>> {
        Self::find_free_for_index(self, io)
    }

    fn find_dirty_index(&mut self) -> Result<Option<u32>> {
        Self::find_dirty_index(self)
    }
}

/// The root of the tree.
#[derive(Clone, Copy, Debug)]
struct Root {
    /// The default place once it has changed.
    place: NodePos,
    /// The node, if it is in memory.
    child: Option<NodeId>,
}

/// The index.
#[derive(Clone, Debug)]
pub(crate) struct Tnc {
    root: Option<Root>,
    arena: Arena,
    /// LEB and offset of nodes that the committed index has and the tree has no more.
    old_index: BTreeSet<(u32, u32)>,
    /// Bytes of the nodes that stand on flash as they are in the tree, with alignment. Linux: `calc_idx_sz`.
    clean_bytes: u64,
    /// Bytes of the committed index.
    committed_bytes: u64,
    /// While the journal is being replayed.
    replay: Option<Replay>,
    /// LEB and offset of nodes read whose keys are all the same.
    single_keyed: Arc<BTreeSet<(u32, u32)>>,
    /// Of a filesystem with authentication.
    hashes: Hashes,
    /// Entries read last.
    entries: EntryCache,
    /// For reading nodes.
    scratch: Vec<u8>,
}

impl Tnc {
    /// Of a committed filesystem; nodes are read when they are needed.
    pub(crate) fn open(root: NodePos, index_bytes: u64) -> Self {
        let root = Root { place: root, child: None };
        Self { root: Some(root), clean_bytes: index_bytes, committed_bytes: index_bytes, ..Self::empty() }
    }

    /// Of a filesystem that is being made.
    pub(crate) fn empty() -> Self {
        Self {
            root: None,
            arena: Arena::default(),
            old_index: BTreeSet::new(),
            clean_bytes: 0,
            committed_bytes: 0,
            replay: None,
            single_keyed: Arc::default(),
            hashes: Hashes::default(),
            entries: EntryCache::new(Limits::default().entries),
            scratch: Vec::new(),
        }
    }

    /// Keeps this number of entries from now on.
    pub(crate) fn keep_entries(&mut self, entries: usize) {
        self.entries = EntryCache::new(entries);
    }

    /// The way to the leaf with a key that is not hashed.
    fn find_leaf(&mut self, io: &mut DynIo<'_>, key: Key) -> Result<Option<Path>> {
        let path = self.seek(io, key, Side::Last, 0)?;
        Ok(path.filter(|path| path.zbranch(&self.arena).is_some_and(|zbranch| zbranch.key == key)))
    }

    /// Position of the node of a key that is not hashed (inode, data).
    pub(crate) fn find(&mut self, io: &mut DynIo<'_>, key: Key) -> Result<Option<NodePos>> {
        let path = self.find_leaf(io, key)?;
        Ok(path.and_then(|path| path.zbranch(&self.arena).map(|zbranch| zbranch.place)))
    }

    /// Leaves with keys from `from` to `to`, both included, at most `max` of them, in order, appended to `out`.
    pub(crate) fn leaves(
        &mut self,
        io: &mut DynIo<'_>,
        from: Key,
        to: Key,
        max: usize,
        out: &mut Vec<(Key, NodePos)>,
    ) -> Result<()> {
        let end = out.len().saturating_add(max);
        let Some(mut path) = self.first_leaf(io, from)? else { return Ok(()) };
        while let Some(step) = path.last() {
            let zbranches = &self.arena.node(step.id).zbranches;
            let rest = zbranches.get(step.slot..).unwrap_or(&[]);
            let within = rest.partition_point(|zbranch| zbranch.key <= to);
            let room = end.saturating_sub(out.len());
            out.extend(rest.iter().take(within.min(room)).map(|zbranch| (zbranch.key, zbranch.place)));
            path.set_slot(zbranches.len() - 1);
            if within < rest.len() || room <= within || !self.advance(io, &mut path)? {
                break;
            }
        }
        Ok(())
    }

    /// A key that is not hashed leads to this place from now on; the space of the old node becomes dirty.
    pub(crate) fn insert<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        key: Key,
        place: NodePos,
    ) -> Result<()> {
        let path = self.seek(io, key, Side::Last, 0)?.unwrap_or_default();
        if path.zbranch(&self.arena).is_some_and(|zbranch| zbranch.key == key) {
            return self.replace(space, &path, place);
        }
        self.hashes.forget(key, place);
        self.dirty_path(space, &path)?;
        self.insert_at(io.layout().limits.fanout as usize, path, Zbranch::to_place(key, place))
    }

    /// The leaf a path ends at stands at another place from now on.
    fn replace<S: IndexSpace>(&mut self, space: &mut S, path: &Path, place: NodePos) -> Result<()> {
        self.dirty_path(space, path)?;
        self.entries.forget(place);
        let Some(zbranch) = path.last().and_then(|step| self.arena.zbranch_mut(step)) else { return Ok(()) };
        let old = core::mem::replace(&mut zbranch.place, place);
        let key = zbranch.key;
        self.hashes.forget(key, place);
        space.add_dirt(old.lnum, old.aligned_len())
    }

    /// Bytes of the whole index as the next commit would leave it, with alignment.
    pub(crate) const fn index_bytes(&self) -> u64 {
        self.clean_bytes.saturating_add(self.arena.dirty_bytes())
    }

    /// Index nodes that the next commit has to write.
    pub(crate) const fn dirty_nodes(&self) -> usize {
        self.arena.dirty()
    }
}
