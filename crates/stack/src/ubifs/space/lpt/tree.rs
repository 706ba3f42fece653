//! Positions of the LPT's nodes, row by row.

use floatgate_media::ubifs::lpt::{FANOUT, Geometry, Nnode, NodePos, nnode_number};

/// A node of the LPT: its row (0 for the root, the last one for pnodes) and its index in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId {
    pub(super) row: usize,
    pub(super) column: usize,
}

/// State of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// Position of the node. If it was never written, all LEBs below it are empty.
    pub(super) place: Option<NodePos>,
    /// True if the next commit must write it; then the same applies to its ancestors.
    pub(super) dirty: bool,
}

/// Positions of all nodes.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    rows: Vec<Vec<Slot>>,
}

impl NodeId {
    /// Parent of the node; `None` for the root.
    pub(super) fn parent(self) -> Option<Self> {
        Some(Self { row: self.row.checked_sub(1)?, column: self.column / FANOUT as usize })
    }

    /// Possible children of the node.
    pub(super) fn children(self) -> impl Iterator<Item = Self> {
        (0..FANOUT as usize)
            .map(move |child| Self { row: self.row + 1, column: self.column * FANOUT as usize + child })
    }
}

impl Tree {
    /// Tree of which no node was written.
    pub(super) fn unwritten(geometry: &Geometry) -> Self {
        let height = geometry.height();
        let width = |row: u32| {
            let reach = u64::from(FANOUT).checked_pow(height - row).unwrap_or(u64::MAX);
            let nodes = u64::from(geometry.pnode_count()).div_ceil(reach);
            vec![Slot::default(); usize::try_from(nodes).unwrap_or(0)]
        };
        Self { rows: (0..=height).map(width).collect() }
    }

    /// Row of the pnodes.
    pub(super) const fn leaf_row(&self) -> usize {
        self.rows.len() - 1
    }

    /// State of a node; `None` past the end of its row.
    pub(super) fn get(&self, id: NodeId) -> Option<Slot> {
        self.rows.get(id.row)?.get(id.column).copied()
    }

    /// Mutable state of a node.
    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut Slot> {
        self.rows.get_mut(id.row)?.get_mut(id.column)
    }

    /// All nodes from the root's row downwards.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, Slot)> + '_ {
        self.rows.iter().enumerate().flat_map(|(row, slots)| {
            slots.iter().enumerate().map(move |(column, slot)| (NodeId { row, column }, *slot))
        })
    }

    /// Marks a node and its ancestors to be written.
    pub(super) fn mark(&mut self, id: NodeId) {
        let mut next = Some(id);
        while let Some(id) = next {
            match self.get_mut(id) {
                Some(slot) if !slot.dirty => slot.dirty = true,
                _ => return,
            }
            next = id.parent();
        }
    }

    /// Marks all nodes selected by `wanted` to be written.
    pub(super) fn mark_all(&mut self, wanted: impl Fn(Slot) -> bool) {
        let chosen: Vec<NodeId> = self.iter().filter(|(_, slot)| wanted(*slot)).map(|(id, _)| id).collect();
        chosen.into_iter().for_each(|id| self.mark(id));
    }

    /// Clears all marks after a commit.
    pub(super) fn unmark_all(&mut self) {
        self.rows.iter_mut().flatten().for_each(|slot| slot.dirty = false);
    }

    /// Marked nodes, children before their parents, from left to right: the order in which Linux writes them.
    pub(super) fn marked(&self) -> Vec<NodeId> {
        let mut out = Vec::new();
        self.collect_marked(NodeId { row: 0, column: 0 }, &mut out);
        out
    }

    /// Adds the marked nodes below `id`. The recursion depth is the height of the tree, at most 16.
    fn collect_marked(&self, id: NodeId, out: &mut Vec<NodeId>) {
        if self.get(id).is_some_and(|slot| slot.dirty) {
            id.children().for_each(|child| self.collect_marked(child, out));
            out.push(id);
        }
    }

    /// Number stored in the node in the big model.
    pub(super) fn number(&self, id: NodeId) -> u32 {
        let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        if id.row == self.leaf_row() {
            narrow(id.column)
        } else {
            nnode_number(narrow(id.row), narrow(id.column))
        }
    }

    /// Height of a node above the pnodes.
    pub(super) fn level(&self, id: NodeId) -> u32 {
        u32::try_from(self.leaf_row() - id.row).unwrap_or(u32::MAX)
    }

    /// Nnode to be written.
    pub(super) fn nnode(&self, id: NodeId) -> Nnode {
        let mut nnode = Nnode { number: self.number(id), ..Nnode::default() };
        for (child, place) in id.children().zip(&mut nnode.children) {
            *place = self.get(child).and_then(|slot| slot.place);
        }
        nnode
    }

    /// Range of LEB indices of the main area below a node; it may extend past the end of the area.
    pub(super) fn lebs_below(&self, id: NodeId) -> core::ops::Range<usize> {
        let reach = (FANOUT as usize).saturating_pow(self.level(id) + 1);
        let start = id.column.saturating_mul(reach);
        start..start.saturating_add(reach)
    }
}
