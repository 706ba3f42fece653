//! The tree in memory: nodes of the index in an arena, and paths through them.

use core::num::NonZero;
use std::sync::Arc;

use crate::fs::NodePos;
use crate::ubifs::layout::align8;
use floatgate_media::ubifs::Key;

/// Size of an index node without branches, B: common header, number of children and level.
const NODE_HEADER_BYTES: usize = 28;

/// Size of a branch without hash, B: a filesystem with authentication is never written.
const BRANCH_BYTES: usize = 20;

/// Identifier of an index node in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(NonZero<u32>);

impl NodeId {
    const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A branch of an index node (Linux: zbranch).
#[derive(Clone, Debug)]
pub(super) struct Zbranch {
    /// Key of a leaf, or lower bound of all keys below.
    pub(super) key: Key,
    /// Position of the node; the default value for a dirty index node.
    pub(super) place: NodePos,
    /// Index node, if it is in memory.
    pub(super) child: Option<NodeId>,
}

impl Zbranch {
    /// Branch to a node on flash.
    pub(super) const fn to_place(key: Key, place: NodePos) -> Self {
        Self { key, place, child: None }
    }

    /// Branch to a dirty index node in memory.
    pub(super) const fn to_node(key: Key, id: NodeId) -> Self {
        Self { key, place: NodePos { lnum: 0, offset: 0, len: 0 }, child: Some(id) }
    }
}

/// An index node in memory (Linux: znode). It has at least one branch, except while it is changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Znode {
    /// Level; 0 for nodes above leaves.
    pub(super) level: u16,
    /// True if it differs from flash. All nodes above a dirty node are dirty.
    pub(super) dirty: bool,
    /// Branches in the order of their keys.
    pub(super) zbranches: Vec<Zbranch>,
}

impl Znode {
    /// Size on flash with alignment, B.
    pub(super) fn aligned_bytes(&self) -> u64 {
        aligned_bytes(self.zbranches.len())
    }

    /// Index of the first branch with a key of at least `key`.
    pub(super) fn first_at(&self, key: Key) -> usize {
        self.zbranches.partition_point(|zbranch| zbranch.key < key)
    }

    /// Index of the branch that contains the lowest key of at least `key`.
    fn first_below(&self, key: Key) -> usize {
        self.first_at(key).saturating_sub(1)
    }

    /// Index of the branch that contains a unique key.
    fn last_below(&self, key: Key) -> usize {
        self.zbranches.partition_point(|zbranch| zbranch.key <= key).saturating_sub(1)
    }

    /// Index of the branch to follow in search of a key.
    pub(super) fn branch_for(&self, key: Key, side: Side) -> usize {
        match side {
            Side::First => self.first_below(key),
            Side::Last => self.last_below(key),
        }
    }
}

/// Size on flash of a node with `children`, with alignment, B.
fn aligned_bytes(children: usize) -> u64 {
    let bytes = NODE_HEADER_BYTES.saturating_add(children.saturating_mul(BRANCH_BYTES));
    u64::from(align8(u32::try_from(bytes).unwrap_or(u32::MAX - 7)))
}

/// Side of equal keys on which a search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The first of several equal keys.
    First,
    /// A unique key, or its insertion point.
    Last,
}

/// Index nodes in memory. A clone shares them until one of both changes them.
#[derive(Clone, Debug, Default)]
pub(super) struct Arena {
    nodes: Vec<Arc<Znode>>,
    unused: Vec<NodeId>,
    /// Number of dirty nodes.
    dirty: usize,
    /// Size of the dirty nodes, B.
    dirty_bytes: u64,
}

impl Arena {
    /// Node by its identifier, which must be from this arena.
    pub(super) fn node(&self, id: NodeId) -> &Znode {
        &self.nodes[id.index()]
    }

    /// Changes a node, and updates the size of dirty nodes.
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

    /// Mutable branch of a node.
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
        // Memory holds fewer than 2^32 nodes.
        let id =
            NodeId(NonZero::<u32>::MIN.saturating_add(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)));
        self.nodes.push(node);
        id
    }

    /// Removes a node.
    pub(super) fn free(&mut self, id: NodeId) {
        self.edit(id, |node| *node = Znode::default());
        self.unused.push(id);
    }

    /// Number of dirty nodes.
    pub(super) const fn dirty(&self) -> usize {
        self.dirty
    }

    /// Size of the dirty nodes on flash with alignment, B.
    pub(super) const fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Branch of a step.
    pub(super) fn zbranch(&self, step: Step) -> Option<&Zbranch> {
        self.node(step.id).zbranches.get(step.slot)
    }
}

/// A branch of a node in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Index node.
    pub(super) id: NodeId,
    /// Index of the branch; the number of branches for the position after the last one.
    pub(super) slot: usize,
}

/// Path from the root to a branch, the root first.
#[derive(Clone, Debug, Default)]
pub(super) struct Path(pub(super) Vec<Step>);

impl Path {
    /// Last step; a path is never empty.
    pub(super) fn last(&self) -> Option<Step> {
        self.0.last().copied()
    }

    /// Moves the last step to another branch of its node.
    pub(super) fn set_slot(&mut self, slot: usize) {
        if let Some(step) = self.0.last_mut() {
            step.slot = slot;
        }
    }

    /// Branch at its end; `None` after the last branch of a node.
    pub(super) fn zbranch<'a>(&self, arena: &'a Arena) -> Option<&'a Zbranch> {
        self.last().and_then(|step| arena.zbranch(step))
    }

    /// Lowest possible key in nodes after its last node; `None` at the end of the tree.
    pub(super) fn upper_bound(&self, arena: &Arena) -> Option<Key> {
        let above = self.0.len().saturating_sub(1);
        self.bound_above(arena, above)
    }

    /// Lowest possible key after the node below the branch at the end of the path; see
    /// [`upper_bound`](Self::upper_bound).
    pub(super) fn upper_bound_below(&self, arena: &Arena) -> Option<Key> {
        self.bound_above(arena, self.0.len())
    }

    fn bound_above(&self, arena: &Arena, steps: usize) -> Option<Key> {
        let next = |step: &Step| Some(arena.zbranch(Step { id: step.id, slot: step.slot + 1 })?.key);
        self.0.iter().take(steps).rev().find_map(next)
    }
}
