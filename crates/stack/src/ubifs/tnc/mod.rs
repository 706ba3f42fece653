//! The tree node cache (TNC): the index, a B+ tree of all keys, partly in memory.
//!
//! Nodes are read when they are needed and stay in memory. A changed node and all nodes above it become dirty, and the
//! next commit writes them to new positions. Their old space counts as dirty at once, but belongs to the committed
//! index until the end of the commit; `old_index` lists it. Linux: `fs/ubifs/tnc.c`, `tnc_misc.c`, `tnc_commit.c`.
//!
//! - `tree`: nodes in memory and paths through them;
//! - `load`: reading and checking nodes, finding keys;
//! - `names`, `entries`: keys shared by several names, and the entry cache;
//! - `replay`: names while entries are missing;
//! - `insert`, `remove`: changing the tree;
//! - `collect`: queries of the garbage collector;
//! - `hashes`: verifying nodes of authenticated filesystems;
//! - `salvage`: the remaining leaves of a damaged index;
//! - `commit`, `gaps`: writing dirty nodes.

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
    /// LEB of the next index node; outside the main area before the first one.
    pub(crate) lnum: u32,
    /// Offset in the LEB.
    pub(crate) offset: u32,
}

impl IndexHead {
    /// Write position according to a master node.
    pub(crate) const fn of(master: &Master) -> Self {
        Self { lnum: master.index_head_lnum, offset: master.index_head_offset }
    }
}

/// LEB properties used by the index.
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
    /// Position of the root; the default value once it is dirty.
    place: NodePos,
    /// Root node, if it is in memory.
    child: Option<NodeId>,
}

/// Index of the filesystem.
#[derive(Clone, Debug)]
pub(crate) struct Tnc {
    root: Option<Root>,
    arena: Arena,
    /// LEB and offset of nodes that only the committed index contains.
    old_index: BTreeSet<(u32, u32)>,
    /// Total size of the clean nodes with alignment (Linux: `calc_idx_sz`).
    clean_bytes: u64,
    /// Size of the committed index, B.
    committed_bytes: u64,
    /// State of the replay while the journal is replayed.
    replay: Option<Replay>,
    /// LEB and offset of index nodes whose keys are all equal.
    single_keyed: Arc<BTreeSet<(u32, u32)>>,
    /// Hashes of a filesystem with authentication.
    hashes: Hashes,
    /// Cache of directory entries.
    entries: EntryCache,
    /// Buffer for reading nodes.
    scratch: Vec<u8>,
}

impl Tnc {
    /// Index of a committed filesystem; nodes are read when they are needed.
    pub(crate) fn open(root: NodePos, index_bytes: u64) -> Self {
        let root = Root { place: root, child: None };
        Self { root: Some(root), clean_bytes: index_bytes, committed_bytes: index_bytes, ..Self::empty() }
    }

    /// Index of a new filesystem.
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

    /// Sets the size of the entry cache.
    pub(crate) fn keep_entries(&mut self, entries: usize) {
        self.entries = EntryCache::new(entries);
    }

    /// Path to the leaf of a key that is not hashed.
    fn find_leaf(&mut self, io: &mut DynIo<'_>, key: Key) -> Result<Option<Path>> {
        let path = self.seek(io, key, Side::Last, 0)?;
        Ok(path.filter(|path| path.zbranch(&self.arena).is_some_and(|zbranch| zbranch.key == key)))
    }

    /// Position of the node of a key that is not hashed (inode, data).
    pub(crate) fn find(&mut self, io: &mut DynIo<'_>, key: Key) -> Result<Option<NodePos>> {
        let path = self.find_leaf(io, key)?;
        Ok(path.and_then(|path| path.zbranch(&self.arena).map(|zbranch| zbranch.place)))
    }

    /// Appends to `out` up to `max` leaves with keys from `from` to `to`, both included, in order.
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

    /// Sets the position of a key that is not hashed; the space of the old node becomes dirty.
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

    /// Sets the position of the leaf at the end of a path.
    fn replace<S: IndexSpace>(&mut self, space: &mut S, path: &Path, place: NodePos) -> Result<()> {
        self.dirty_path(space, path)?;
        self.entries.forget(place);
        let Some(zbranch) = path.last().and_then(|step| self.arena.zbranch_mut(step)) else { return Ok(()) };
        let old = core::mem::replace(&mut zbranch.place, place);
        let key = zbranch.key;
        self.hashes.forget(key, place);
        space.add_dirt(old.lnum, old.aligned_len())
    }

    /// Size of the whole index after the next commit with alignment, B.
    pub(crate) const fn index_bytes(&self) -> u64 {
        self.clean_bytes.saturating_add(self.arena.dirty_bytes())
    }

    /// Number of index nodes that the next commit writes.
    pub(crate) const fn dirty_nodes(&self) -> usize {
        self.arena.dirty()
    }
}
