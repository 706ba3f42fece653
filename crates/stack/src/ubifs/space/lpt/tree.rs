//! Places of the LPT's nodes, row by row.

use floatgate_media::ubifs::lpt::{FANOUT, Geometry, Nnode, NodePos, nnode_number};

/// A node of the LPT: its row (0 is the root's, the last one has the pnodes) and which of the row it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId {
    pub(super) row: usize,
    pub(super) column: usize,
}

/// State of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// Position of the node; one that was never written says that all LEBs below are empty.
    pub(super) place: Option<NodePos>,
    /// Has to be written by the next commit. Then so have all its ancestors.
    pub(super) dirty: bool,
}

/// Places of all nodes.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    rows: Vec<Vec<Slot>>,
}

impl NodeId {
    /// The node that leads to this one; `None` for the root.
    pub(super) fn parent(self) -> Option<Self> {
        Some(Self { row: self.row.checked_sub(1)?, column: self.column / FANOUT as usize })
    }

    /// The nodes that this one leads to, whether they exist or not.
    pub(super) fn children(self) -> impl Iterator<Item = Self> {
        (0..FANOUT as usize)
            .map(move |child| Self { row: self.row + 1, column: self.column * FANOUT as usize + child })
    }
}

impl Tree {
    /// A tree of which nothing was written.
    pub(super) fn unwritten(geometry: &Geometry) -> Self {
        let height = geometry.height();
        let width = |row: u32| {
            let reach = u64::from(FANOUT).checked_pow(height - row).unwrap_or(u64::MAX);
            let nodes = u64::from(geometry.pnode_count()).div_ceil(reach);
            vec![Slot::default(); usize::try_from(nodes).unwrap_or(0)]
        };
        Self { rows: (0..=height).map(width).collect() }
    }

    /// The row of the pnodes.
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

    /// All nodes, from the root's row down.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, Slot)> + '_ {
        self.rows.iter().enumerate().flat_map(|(row, slots)| {
            slots.iter().enumerate().map(move |(column, slot)| (NodeId { row, column }, *slot))
        })
    }

    /// The next commit writes a node, and so its ancestors.
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

    /// The next commit writes all nodes that `wanted` chooses.
    pub(super) fn mark_all(&mut self, wanted: impl Fn(Slot) -> bool) {
        let chosen: Vec<NodeId> = self.iter().filter(|(_, slot)| wanted(*slot)).map(|(id, _)| id).collect();
        chosen.into_iter().for_each(|id| self.mark(id));
    }

    /// Everything is written.
    pub(super) fn unmark_all(&mut self) {
        self.rows.iter_mut().flatten().for_each(|slot| slot.dirty = false);
    }

    /// Nodes to write, children before their parents, from left to right: the order Linux writes them in.
    pub(super) fn marked(&self) -> Vec<NodeId> {
        let mut out = Vec::new();
        self.collect_marked(NodeId { row: 0, column: 0 }, &mut out);
        out
    }

    /// Goes as deep as the tree is high, 16 at most.
    fn collect_marked(&self, id: NodeId, out: &mut Vec<NodeId>) {
        if self.get(id).is_some_and(|slot| slot.dirty) {
            id.children().for_each(|child| self.collect_marked(child, out));
            out.push(id);
        }
    }

    /// The number that a node carries in the big model.
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

    /// An nnode as it has to be written.
    pub(super) fn nnode(&self, id: NodeId) -> Nnode {
        let mut nnode = Nnode { number: self.number(id), ..Nnode::default() };
        for (child, place) in id.children().zip(&mut nnode.children) {
            *place = self.get(child).and_then(|slot| slot.place);
        }
        nnode
    }

    /// LEBs of the main area below a node, by position; the range can reach past the area's end.
    pub(super) fn lebs_below(&self, id: NodeId) -> core::ops::Range<usize> {
        let reach = (FANOUT as usize).saturating_pow(self.level(id) + 1);
        let start = id.column.saturating_mul(reach);
        start..start.saturating_add(reach)
    }
}
