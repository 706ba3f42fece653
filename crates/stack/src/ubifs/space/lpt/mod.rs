//! The tree that LEB properties are stored in on flash (LPT): where its nodes stand, how full its own LEBs are.
//!
//! The properties themselves are in [`Table`](super::table::Table); nothing of a node is kept but its place. So a node
//! is packed when it is written, and the garbage collector never reads one.

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
    /// Free and dirty space of its LEBs.
    area: Area,
    /// Position of the table of its LEBs (ltab); `None` if it was never written.
    ltab: Option<NodePos>,
    /// Position of the save table (lsave), in the big model.
    lsave: Option<NodePos>,
    /// LEBs that count as erased since the commit has begun, and are unmapped when it is done.
    released: Vec<u32>,
}

impl Lpt {
    /// Of a filesystem that is being made: everything has to be written, from the start of the area.
    pub(super) fn empty(geometry: &Geometry) -> Self {
        let from = geometry.parameters();
        let mut tree = Tree::unwritten(geometry);
        tree.mark_all(|_| true);
        let area = Area::empty(from.first_lnum, from.leb_bytes, from.lebs);
        Self { tree, area, ltab: None, lsave: None, released: Vec::new() }
    }

    /// Bytes of a LEB of the LPT's that were never written; 0 for other LEBs.
    pub(super) fn free_of(&self, lnum: u32) -> u32 {
        self.area.iter().find(|(other, _)| *other == lnum).map_or(0, |(_, leb)| leb.free)
    }

    /// True when there is something to write.
    pub(super) fn is_dirty(&self) -> bool {
        self.tree.get(NodeId { row: 0, column: 0 }).is_some_and(|slot| slot.dirty)
    }

    /// The properties of the LEB at this position of the main area have changed.
    pub(super) fn mark_leb(&mut self, position: usize) {
        self.tree.mark(NodeId { row: self.tree.leaf_row(), column: position / FANOUT as usize });
    }
}
