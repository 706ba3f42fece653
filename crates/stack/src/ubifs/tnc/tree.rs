//! The tree in memory: nodes of the index in an arena, and paths through them.

use core::num::NonZero;
use std::sync::Arc;

use crate::fs::NodePos;
use crate::ubifs::layout::align8;
use floatgate_media::ubifs::Key;

/// Bytes of an index node without branches: the common header, the number of children and the level.
const NODE_HEADER_BYTES: usize = 28;

/// Bytes of a branch. Hashes do not count: a filesystem with authentication is not written.
const BRANCH_BYTES: usize = 20;

/// A node of the tree in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(NonZero<u32>);

impl NodeId {
    const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Position of a node that the index leads to.
#[derive(Clone, Debug)]
pub(super) struct Zbranch {
    /// The key of a leaf, or a lower bound of all keys below.
    pub(super) key: Key,
    /// Its place; the default one for an index node that has changed since it was written.
    pub(super) place: NodePos,
    /// The index node, if it is in memory.
    pub(super) child: Option<NodeId>,
}

impl Zbranch {
    /// To a node on flash.
    pub(super) const fn to_place(key: Key, place: NodePos) -> Self {
        Self { key, place, child: None }
    }

    /// To an index node in memory that is not on flash.
    pub(super) const fn to_node(key: Key, id: NodeId) -> Self {
        Self { key, place: NodePos { lnum: 0, offset: 0, len: 0 }, child: Some(id) }
    }
}

/// An index node in memory (Linux: znode). It has at least one branch, but while it is being changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Znode {
    /// 0 for nodes that lead to leaves.
    pub(super) level: u16,
    /// Not on flash as it is here. All nodes above a changed one are changed.
    pub(super) dirty: bool,
    /// Lowest key first.
    pub(super) zbranches: Vec<Zbranch>,
}

impl Znode {
    /// Bytes on flash, with alignment.
    pub(super) fn aligned_bytes(&self) -> u64 {
        aligned_bytes(self.zbranches.len())
    }

    /// The first branch with a key of at least this.
    pub(super) fn first_at(&self, key: Key) -> usize {
        self.zbranches.partition_point(|zbranch| zbranch.key < key)
    }

    /// The branch below which the lowest key can be that is at least this.
    fn first_below(&self, key: Key) -> usize {
        self.first_at(key).saturating_sub(1)
    }

    /// The branch below which a key has to be that stands once.
    fn last_below(&self, key: Key) -> usize {
        self.zbranches.partition_point(|zbranch| zbranch.key <= key).saturating_sub(1)
    }

    /// The branch to follow to find a key.
    pub(super) fn branch_for(&self, key: Key, side: Side) -> usize {
        match side {
            Side::First => self.first_below(key),
            Side::Last => self.last_below(key),
        }
    }
}

/// Bytes on flash of a node with so many children, with alignment.
fn aligned_bytes(children: usize) -> u64 {
    let bytes = NODE_HEADER_BYTES.saturating_add(children.saturating_mul(BRANCH_BYTES));
    u64::from(align8(u32::try_from(bytes).unwrap_or(u32::MAX - 7)))
}

/// Direction at keys that are equal to the one looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Towards the first of several equal keys.
    First,
    /// Towards a key that occurs once, or the place at which it would be inserted.
    Last,
}

/// Nodes in memory. A copy shares them until one of both changes them.
#[derive(Clone, Debug, Default)]
pub(super) struct Arena {
    nodes: Vec<Arc<Znode>>,
    unused: Vec<NodeId>,
    /// Changed nodes.
    dirty: usize,
    /// Their bytes.
    dirty_bytes: u64,
}

impl Arena {
    /// A node; ids come from this arena.
    pub(super) fn node(&self, id: NodeId) -> &Znode {
        &self.nodes[id.index()]
    }

    /// Changes a node; bytes of changed nodes are counted.
    pub(super) fn edit<R>(&mut self, id: NodeId, change: impl FnOnce(&mut Znode) -> R) -> R {
        let node = Arc::make_mut(&mut self.nodes[id.index()]);
        let before = if node.dirty { node.aligned_bytes() } else { 0 };
        let was_dirty = node.dirty;
        let result = change(node);
        let after = if node.dirty { node.aligned_bytes() } else { 0 };
        self.dirty_bytes = self.dirty_bytes + after - before;
        self.dirty = self.dirty + usize::from(node.dirty) - usize::from(was_dirty);
        result
    }

    /// A branch of a node, to change its place or key.
    pub(super) fn zbranch_mut(&mut self, step: Step) -> Option<&mut Zbranch> {
        Arc::make_mut(&mut self.nodes[step.id.index()]).zbranches.get_mut(step.slot)
    }

    /// Adds a node.
    pub(super) fn add(&mut self, node: Znode) -> NodeId {
        if node.dirty {
            self.dirty += 1;
            self.dirty_bytes += node.aligned_bytes();
        }
        let node = Arc::new(node);
        if let Some(id) = self.unused.pop() {
            self.nodes[id.index()] = node;
            return id;
        }
        // Memory holds fewer nodes than 2^32.
        let id =
            NodeId(NonZero::<u32>::MIN.saturating_add(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)));
        self.nodes.push(node);
        id
    }

    /// Forgets a node.
    pub(super) fn free(&mut self, id: NodeId) {
        self.edit(id, |node| *node = Znode::default());
        self.unused.push(id);
    }

    /// Changed nodes.
    pub(super) const fn dirty(&self) -> usize {
        self.dirty
    }

    /// Bytes of the changed nodes once they are written, with alignment.
    pub(super) const fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// The branch a step stands on.
    pub(super) fn zbranch(&self, step: Step) -> Option<&Zbranch> {
        self.node(step.id).zbranches.get(step.slot)
    }
}

/// A branch of a node in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The node.
    pub(super) id: NodeId,
    /// The branch; the number of branches for the place behind the last one.
    pub(super) slot: usize,
}

/// The way from the root to a branch: the root first.
#[derive(Clone, Debug, Default)]
pub(super) struct Path(pub(super) Vec<Step>);

impl Path {
    /// The last step; a path has one.
    pub(super) fn last(&self) -> Option<Step> {
        self.0.last().copied()
    }

    /// Moves the last step to another branch of its node.
    pub(super) fn set_slot(&mut self, slot: usize) {
        if let Some(step) = self.0.last_mut() {
            step.slot = slot;
        }
    }

    /// The branch it ends at; `None` behind the last branch of a node.
    pub(super) fn zbranch<'a>(&self, arena: &'a Arena) -> Option<&'a Zbranch> {
        self.last().and_then(|step| arena.zbranch(step))
    }

    /// The lowest key that can stand in nodes behind the one it ends in; `None` if there are no more.
    pub(super) fn upper_bound(&self, arena: &Arena) -> Option<Key> {
        let above = self.0.len().saturating_sub(1);
        self.bound_above(arena, above)
    }

    /// As [`upper_bound`](Self::upper_bound), for the node below the branch it ends at.
    pub(super) fn upper_bound_below(&self, arena: &Arena) -> Option<Key> {
        self.bound_above(arena, self.0.len())
    }

    fn bound_above(&self, arena: &Arena, steps: usize) -> Option<Key> {
        let next = |step: &Step| Some(arena.zbranch(Step { id: step.id, slot: step.slot + 1 })?.key);
        self.0.iter().take(steps).rev().find_map(next)
    }
}
