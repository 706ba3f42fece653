//! Changing the tree: marking paths dirty, inserting and splitting.
//!
//! Nodes are split as in Linux (`fs/ubifs/tnc.c`): in the middle, except for consecutive blocks of one file, whose
//! nodes become full.

use super::tree::{Arena, NodeId, Path, Step, Zbranch, Znode};
use super::{IndexSpace, Root, Tnc};
use crate::fs::NodePos;
use crate::ubifs::error::{Error, Result};
use floatgate_media::ubifs::{Key, KeyType};

/// Maximum number of levels of a tree on flash.
const MAX_LEVEL: u16 = 512;

/// Position at which a full node is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    /// Number of branches that stay.
    keep: usize,
    /// True if the new branch is added to those that stay.
    stays: bool,
}

impl Tnc {
    /// Marks all nodes of a path as dirty. Their space becomes dirty, but they are kept for the committed index.
    pub(super) fn dirty_path<S: IndexSpace>(&mut self, space: &mut S, path: &Path) -> Result<()> {
        let clean = path.0.iter().position(|step| !self.arena.node(step.id).dirty);
        let Some(first) = clean else { return Ok(()) };
        for at in first..path.0.len() {
            let parent = at.checked_sub(1).and_then(|above| path.0.get(above)).copied();
            self.dirty_node(space, parent, path.0[at].id)?;
        }
        Ok(())
    }

    fn dirty_node<S: IndexSpace>(&mut self, space: &mut S, parent: Option<Step>, id: NodeId) -> Result<()> {
        let place = self.index_place(parent);
        space.add_dirt(place.lnum, place.aligned_len())?;
        self.old_index.insert((place.lnum, place.offset));
        self.clean_bytes = self.clean_bytes.saturating_sub(u64::from(place.aligned_len()));
        self.arena.edit(id, |node| node.dirty = true);
        self.set_index_place(parent, id, NodePos::default());
        Ok(())
    }

    fn index_place(&self, parent: Option<Step>) -> NodePos {
        match parent {
            Some(step) => self.arena.zbranch(step).map(|zbranch| zbranch.place),
            None => self.root.map(|root| root.place),
        }
        .unwrap_or_default()
    }

    /// Sets the position of an index node.
    pub(super) fn set_index_place(&mut self, parent: Option<Step>, id: NodeId, place: NodePos) {
        match parent.and_then(|step| self.arena.zbranch_mut(step)) {
            Some(zbranch) => zbranch.place = place,
            None => self.root = Some(Root { place, child: Some(id) }),
        }
    }

    /// Inserts a branch at the end of a path whose nodes are dirty.
    pub(super) fn insert_at(&mut self, fanout: usize, mut path: Path, mut zbranch: Zbranch) -> Result<()> {
        let mut appending = false;
        while let Some(step) = path.0.pop() {
            let key = zbranch.key;
            if self.arena.node(step.id).zbranches.len() < fanout {
                self.arena.edit(step.id, |node| node.zbranches.insert(step.slot, zbranch));
                if step.slot == 0 {
                    self.lower_keys(&path, key);
                }
                return Ok(());
            }
            let split = choose_split(self.arena.node(step.id), step.slot, key, &mut appending);
            zbranch = self.split(step, split, zbranch);
            if step.slot == 0 {
                self.lower_keys(&path, key);
            }
            // The new node follows the node that was split.
            if let Some(parent) = path.last() {
                path.set_slot(parent.slot + 1);
            }
        }
        self.grow(zbranch)
    }

    /// Lowers the key of the branch at the end of a path, and of those above.
    fn lower_keys(&mut self, path: &Path, key: Key) {
        for &step in path.0.iter().rev() {
            match self.arena.zbranch_mut(step) {
                Some(zbranch) if key < zbranch.key => zbranch.key = key,
                _ => return,
            }
            if step.slot > 0 {
                return;
            }
        }
    }

    /// Splits a node, inserts a branch into one of the halves, and returns the branch to the new half.
    fn split(&mut self, step: Step, split: Split, zbranch: Zbranch) -> Zbranch {
        let Split { keep, stays } = split;
        let (level, mut moved) =
            self.arena.edit(step.id, |node| (node.level, node.zbranches.split_off(keep)));
        if stays {
            self.arena.edit(step.id, |node| node.zbranches.insert(step.slot, zbranch));
        } else {
            moved.insert(step.slot - keep, zbranch);
        }
        // The moved branches are never empty: they include the new branch, or at least one branch of a full node.
        let key = moved.first().map_or(Key::default(), |zbranch| zbranch.key);
        Zbranch::to_node(key, self.arena.add(Znode { level, dirty: true, zbranches: moved }))
    }

    /// Adds a new root above the old one and a second node; without a root, above a single branch.
    fn grow(&mut self, zbranch: Zbranch) -> Result<()> {
        let old = self.root.and_then(|root| root.child);
        let (level, zbranches) = match old {
            None => (0, vec![zbranch]),
            Some(id) => {
                let node = self.arena.node(id);
                let key = node.zbranches.first().map_or(zbranch.key, |first| first.key);
                (node.level + 1, vec![Zbranch::to_node(key, id), zbranch])
            }
        };
        if level > MAX_LEVEL {
            return Err(Error::TooLarge { what: "an index", len: u64::from(level) });
        }
        let id = self.arena.add(Znode { level, dirty: true, zbranches });
        self.root = Some(Root { place: NodePos::default(), child: Some(id) });
        Ok(())
    }
}

impl Tnc {
    /// Fills all nodes, like `mkfs.ubifs`, before the first commit: inserting keys in random order leaves nodes half
    /// full.
    pub(crate) fn pack(&mut self, fanout: usize) {
        let in_memory = self.clean_bytes == 0 && self.committed_bytes == 0;
        let Some(root) = self.root.and_then(|root| root.child).filter(|_| in_memory) else { return };
        let mut zbranches = self.leaves_below(root);
        self.arena = Arena::default();
        for level in 0.. {
            zbranches = zbranches.chunks(fanout).map(|zbranches| self.pack_node(level, zbranches)).collect();
            if let [Zbranch { child, .. }] = zbranches[..] {
                self.root = Some(Root { place: NodePos::default(), child });
                return;
            }
        }
    }

    fn pack_node(&mut self, level: u16, zbranches: &[Zbranch]) -> Zbranch {
        let key = zbranches.first().map_or(Key::default(), |first| first.key);
        Zbranch::to_node(key, self.arena.add(Znode { level, dirty: true, zbranches: zbranches.to_vec() }))
    }

    /// All leaves below a node, whose subtree must be in memory, in order.
    fn leaves_below(&self, root: NodeId) -> Vec<Zbranch> {
        let mut leaves = Vec::new();
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            let node = self.arena.node(id);
            if node.level == 0 {
                leaves.extend_from_slice(&node.zbranches);
            }
            open.extend(node.zbranches.iter().rev().filter_map(|zbranch| zbranch.child));
        }
        leaves
    }
}

/// True if both keys are blocks of the same file.
fn is_block_of(key: Key, other: Key) -> bool {
    other.key_type() == KeyType::Data && other.inum() == key.inum()
}

/// Split of a full node for a key at `slot`. `appending` is passed on from a node to its parent.
fn choose_split(node: &Znode, slot: usize, key: Key, appending: &mut bool) -> Split {
    let fanout = node.zbranches.len();
    let block_at =
        |slot: usize| node.zbranches.get(slot).is_some_and(|zbranch| is_block_of(key, zbranch.key));
    let is_block = node.level == 0 && key.key_type() == KeyType::Data;
    let mut at_file_end = false;
    if is_block && slot == fanout {
        *appending = block_at(fanout - 1);
    } else if is_block || *appending && slot < fanout {
        *appending = false;
        at_file_end = slot >= fanout.div_ceil(2) && block_at(0) && !block_at(slot);
    }
    let middle = fanout.div_ceil(2);
    if at_file_end {
        Split { keep: slot, stays: true }
    } else if *appending {
        Split { keep: fanout, stays: false }
    } else if slot < middle {
        Split { keep: middle - 1, stays: true }
    } else {
        Split { keep: middle, stays: false }
    }
}
