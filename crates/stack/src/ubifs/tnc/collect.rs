//! Queries of the garbage collector: whether a node is live, and updating the index after a move.

use super::tree::{Path, Side, Step};
use super::{IndexSpace, Tnc};
use crate::fs::NodePos;
use crate::ubifs::error::Result;
use crate::ubifs::io::DynIo;
use floatgate_media::ubifs::Key;

/// An index node found on flash.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexNodeRef {
    /// Level of the node.
    pub(super) level: u16,
    /// Lowest key of the node.
    pub(super) key: Key,
    /// LEB of the node.
    pub(super) lnum: u32,
    /// Offset of the node in the LEB.
    pub(super) offset: u32,
}

impl IndexNodeRef {
    const fn is_at(&self, place: NodePos) -> bool {
        place.len > 0 && place.lnum == self.lnum && place.offset == self.offset
    }
}

impl Tnc {
    /// Updates the index after the garbage collector moved a node; true if the key referred to the old position. The
    /// old position becomes dirty, otherwise the new one.
    pub(crate) fn relocate<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        key: Key,
        from: NodePos,
        to: NodePos,
    ) -> Result<bool> {
        match self.leaf_at(io, key, from.lnum, from.offset)? {
            Some(path) => self.replace(space, &path, to).map(|()| true),
            None => space.add_dirt(to.lnum, to.aligned_len()).map(|()| false),
        }
    }

    /// True if the index refers to this position for a leaf.
    pub(crate) fn has_leaf(&mut self, io: &mut DynIo<'_>, key: Key, lnum: u32, offset: u32) -> Result<bool> {
        Ok(self.leaf_at(io, key, lnum, offset)?.is_some())
    }

    /// Marks an index node dirty if the tree contains it at this position, so that the next commit rewrites it; used to
    /// empty an index LEB. Returns true if the tree contains it. A node that changed since the last commit is not at
    /// this position any more, and will be rewritten anyway.
    pub(crate) fn dirty_index_node<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        key: Key,
        level: u16,
        lnum: u32,
        offset: u32,
    ) -> Result<bool> {
        let Some(path) = self.index_node_at(io, IndexNodeRef { level, key, lnum, offset })? else {
            return Ok(false);
        };
        self.dirty_path(space, &path)?;
        Ok(true)
    }

    /// Path to an index node that is unchanged on flash.
    ///
    /// The branch to it can have a lower key than its first branch, if leaves were removed, but later branches have no
    /// lower key.
    fn index_node_at(&mut self, io: &mut DynIo<'_>, found: IndexNodeRef) -> Result<Option<Path>> {
        let Some(root) = self.load_root(io)? else { return Ok(None) };
        if self.root.is_some_and(|root| found.is_at(root.place)) {
            let is_level = self.arena.node(root).level == found.level;
            return Ok(is_level.then(|| Path(vec![Step { id: root, slot: 0 }])));
        }
        let Some(mut path) = self.branches_above(io, found)? else { return Ok(None) };
        while let Some(zbranch) = path.zbranch(&self.arena) {
            if found.is_at(zbranch.place) {
                let id = self.load_child(io, &path)?;
                path.0.push(Step { id, slot: 0 });
                return Ok(Some(path));
            }
            if zbranch.key > found.key || !self.advance(io, &mut path)? {
                break;
            }
        }
        Ok(None)
    }

    /// Path to the first branch that can refer to an index node.
    fn branches_above(&mut self, io: &mut DynIo<'_>, found: IndexNodeRef) -> Result<Option<Path>> {
        let Some(above) = found.level.checked_add(1) else { return Ok(None) };
        let Some(mut path) = self.seek(io, found.key, Side::First, above)? else { return Ok(None) };
        if let Some(step) = path.last() {
            let slot = self.arena.node(step.id).branch_for(found.key, Side::First);
            path.set_slot(slot);
        }
        Ok(Some(path))
    }

    /// Use of an index node found on flash: `Some(true)` if the tree contains it, `Some(false)` if only the committed
    /// index does.
    pub(super) fn use_of(&mut self, io: &mut DynIo<'_>, found: IndexNodeRef) -> Result<Option<bool>> {
        if self.old_index.contains(&(found.lnum, found.offset)) {
            return Ok(Some(false));
        }
        Ok(self.index_node_at(io, found)?.map(|_| true))
    }
}
