//! LEB properties tree (LPT) on flash: positions of its nodes, and the space in its own LEBs.
//!
//! The properties themselves are in [`Table`](super::table::Table); of a node only its position is kept in memory. So a
//! node is encoded when it is written, and the garbage collector never reads one.

mod area;
mod check;
mod commit;
mod read;
mod tree;

pub(crate) use check::check_lpt;
pub(crate) use read::pnode_bytes;
pub(super) use read::{Damage, read};

use area::Area;
use floatgate_media::ubifs::lpt::{FANOUT, Geometry, NodePos};
use tree::{NodeId, Tree};

/// The LPT of a mounted filesystem.
#[derive(Clone, Debug)]
pub(super) struct Lpt {
    /// Positions of its nodes.
    tree: Tree,
    /// Free and dirty space of the LPT's LEBs.
    area: Area,
    /// Position of the table of the LPT's LEBs (ltab); `None` if it was never written.
    ltab: Option<NodePos>,
    /// Position of the save table (lsave), in the big model.
    lsave: Option<NodePos>,
    /// LEBs that count as erased since the start of the commit, and are unmapped at its end.
    released: Vec<u32>,
}

impl Lpt {
    /// LPT of a new filesystem: everything must be written, from the start of the area.
    pub(super) fn empty(geometry: &Geometry) -> Self {
        let from = geometry.parameters();
        let mut tree = Tree::unwritten(geometry);
        tree.mark_all(|_| true);
        let area = Area::empty(from.first_lnum, from.leb_bytes, from.lebs);
        Self { tree, area, ltab: None, lsave: None, released: Vec::new() }
    }

    /// Bytes of a LEB in the LPT area that were never written; 0 for other LEBs.
    pub(super) fn free_of(&self, lnum: u32) -> u32 {
        self.area.iter().find(|(other, _)| *other == lnum).map_or(0, |(_, leb)| leb.free)
    }

    /// True if nodes must be written.
    pub(super) fn is_dirty(&self) -> bool {
        self.tree.get(NodeId { row: 0, column: 0 }).is_some_and(|slot| slot.dirty)
    }

    /// Marks the properties of the LEB at this index of the main area as changed.
    pub(super) fn mark_leb(&mut self, position: usize) {
        self.tree.mark(NodeId { row: self.tree.leaf_row(), column: position / FANOUT as usize });
    }
}
