//! Removing leaves and empty index nodes.

use super::tree::{Path, Step};
use super::{IndexSpace, Root, Tnc};
use crate::fs::NodePos;
use crate::ubifs::error::Result;
use crate::ubifs::io::DynIo;
use floatgate_media::ubifs::{Key, KeyType};

/// Highest possible key of an inode.
pub(super) const fn highest_of(inode: u32) -> Key {
    Key::from_bits((inode as u64) << 32 | u32::MAX as u64)
}

impl Tnc {
    /// Removes the leaf at the end of a path; its space becomes dirty.
    pub(super) fn delete<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        path: Path,
    ) -> Result<()> {
        self.delete_run(io, space, path, 1)
    }

    /// Removes consecutive leaves of one node, starting at the end of the path.
    fn delete_run<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        path: Path,
        count: usize,
    ) -> Result<()> {
        let Some(Step { id, slot }) = path.last() else { return Ok(()) };
        self.dirty_path(space, &path)?;
        for zbranch in self.arena.node(id).zbranches.iter().skip(slot).take(count) {
            space.add_dirt(zbranch.place.lnum, zbranch.place.aligned_len())?;
        }
        self.arena.edit(id, |node| node.zbranches.drain(slot..slot + count).for_each(drop));
        if self.arena.node(id).zbranches.is_empty() { self.prune(io, space, path) } else { Ok(()) }
    }

    /// Removes the empty node at the end of a path, and nodes above that become empty.
    fn prune<S: IndexSpace>(&mut self, io: &mut DynIo<'_>, space: &mut S, mut path: Path) -> Result<()> {
        while let Some(Step { id, .. }) = path.0.pop() {
            self.arena.free(id);
            let Some(Step { id, slot }) = path.last() else { break };
            self.arena.edit(id, |node| node.zbranches.remove(slot));
            if !self.arena.node(id).zbranches.is_empty() {
                return self.collapse(io, space);
            }
        }
        self.root = None;
        Ok(())
    }

    /// Replaces a root with a single child by that child, repeatedly.
    fn collapse<S: IndexSpace>(&mut self, io: &mut DynIo<'_>, space: &mut S) -> Result<()> {
        while let Some(id) = self.root.and_then(|root| root.child) {
            let root = self.arena.node(id);
            if root.level == 0 || root.zbranches.len() != 1 {
                break;
            }
            let mut path = Path(vec![Step { id, slot: 0 }]);
            let child = self.load_child(io, &path)?;
            path.0.push(Step { id: child, slot: 0 });
            self.dirty_path(space, &path)?;
            self.arena.free(id);
            self.root = Some(Root { place: NodePos::default(), child: Some(child) });
        }
        Ok(())
    }

    /// Removes all keys from `from` to `to`, both included.
    pub(crate) fn remove_range<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        from: Key,
        to: Key,
    ) -> Result<()> {
        while let Some(path) = self.first_leaf(io, from)? {
            let Some(Step { id, slot }) = path.last() else { break };
            let rest = self.arena.node(id).zbranches.get(slot..).unwrap_or(&[]);
            let count = rest.partition_point(|zbranch| zbranch.key <= to);
            if count == 0 {
                break;
            }
            self.delete_run(io, space, path, count)?;
        }
        Ok(())
    }

    /// Removes an inode with its data, entries, attributes and their inodes.
    pub(crate) fn remove_inode<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        inode: u32,
    ) -> Result<()> {
        let mut attributes = Vec::new();
        let (from, to) = (Key::lowest(inode, KeyType::XattrEntry), Key::highest(inode, KeyType::XattrEntry));
        self.leaves(io, from, to, usize::MAX, &mut attributes)?;
        for (key, place) in attributes {
            if let Some(of_attribute) = self.entry_inode(io, key, place)? {
                self.remove_range(io, space, Key::inode(of_attribute), highest_of(of_attribute))?;
            }
        }
        self.remove_range(io, space, Key::inode(inode), highest_of(inode))
    }
}
