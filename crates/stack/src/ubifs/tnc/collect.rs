//! Queries of the garbage collector: whether nodes it finds are current, and how to make the index lead elsewhere.

use super::tree::{Path, Side, Step};
use super::{IndexSpace, Tnc};
use crate::fs::NodePos;
use crate::ubifs::error::Result;
use crate::ubifs::io::DynIo;
use floatgate_media::ubifs::Key;

/// An index node as it is found on flash.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundNode {
    /// Its level.
    pub(super) level: u16,
    /// Its lowest key.
    pub(super) key: Key,
    /// Its LEB.
    pub(super) lnum: u32,
    /// Its first byte there.
    pub(super) offset: u32,
}

impl FoundNode {
    const fn stands_at(&self, place: NodePos) -> bool {
        place.len > 0 && place.lnum == self.lnum && place.offset == self.offset
    }
}

impl Tnc {
    /// The garbage collector has moved a node: whether the key did lead to it, and now leads to the new place. The old place
    /// becomes dirty, or the new one if it did not.
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

    /// True when a leaf with this key at this place is current.
    pub(crate) fn has_leaf(&mut self, io: &mut DynIo<'_>, key: Key, lnum: u32, offset: u32) -> Result<bool> {
        Ok(self.leaf_at(io, key, lnum, offset)?.is_some())
    }

    /// If an index node of this level, with this lowest key, at this place, is part of the tree, it will be written anew at the next
    /// commit (the garbage collector empties an index LEB). Returns whether it was part; one that has changed since the
    /// last commit is not, it will be written anew in any case.
    pub(crate) fn dirty_index_node<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        key: Key,
        level: u16,
        lnum: u32,
        offset: u32,
    ) -> Result<bool> {
        let Some(path) = self.index_node_at(io, FoundNode { level, key, lnum, offset })? else {
            return Ok(false);
        };
        self.dirty_path(space, &path)?;
        Ok(true)
    }

    /// The way to an index node that stands on flash as it is in the tree.
    ///
    /// The branch to it can have a lower key than its first one, if leaves were removed, but branches behind it have no
    /// lower one.
    fn index_node_at(&mut self, io: &mut DynIo<'_>, found: FoundNode) -> Result<Option<Path>> {
        let Some(root) = self.load_root(io)? else { return Ok(None) };
        if self.root.is_some_and(|root| found.stands_at(root.place)) {
            let is_level = self.arena.node(root).level == found.level;
            return Ok(is_level.then(|| Path(vec![Step { id: root, slot: 0 }])));
        }
        let Some(mut path) = self.branches_above(io, found)? else { return Ok(None) };
        while let Some(zbranch) = path.zbranch(&self.arena) {
            if found.stands_at(zbranch.place) {
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

    /// The way to the first branch that can lead to an index node.
    fn branches_above(&mut self, io: &mut DynIo<'_>, found: FoundNode) -> Result<Option<Path>> {
        let Some(above) = found.level.checked_add(1) else { return Ok(None) };
        let Some(mut path) = self.seek(io, found.key, Side::First, above)? else { return Ok(None) };
        if let Some(step) = path.last() {
            let slot = self.arena.node(step.id).branch_for(found.key, Side::First);
            path.set_slot(slot);
        }
        Ok(Some(path))
    }

    /// Whether the tree or the committed index has an index node found on flash, and if so, whether the tree does.
    pub(super) fn use_of(&mut self, io: &mut DynIo<'_>, found: FoundNode) -> Result<Option<bool>> {
        if self.old_index.contains(&(found.lnum, found.offset)) {
            return Ok(Some(false));
        }
        Ok(self.index_node_at(io, found)?.map(|_| true))
    }
}
