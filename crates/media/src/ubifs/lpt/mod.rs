//! The LEB properties tree (LPT): free and dirty bytes of each LEB in the main area.
//!
//! Nodes are packed bit by bit, with field widths from the [`Geometry`]. [`Pnode`]s are the leaves and [`Nnode`]s the
//! inner nodes. [`Ltab`] is the table of the tree's own LEBs, [`Lsave`] the save table. A commit writes the nodes that
//! changed. When the area is full, the small model (a tree of at most one LEB) is rewritten completely. The big model
//! moves the nodes of one LEB; for that purpose its nodes contain their number.
//!
//! Tables of the bits: `docs/spec/ubifs.md#leb-properties-tree`.

mod geometry;
mod node;
mod pack;
mod tables;

pub use geometry::{Geometry, Parameters};
pub use node::{Kind, LebProperties, Nnode, NodePos, Pnode};
pub use tables::{LebSpace, Lsave, Ltab};

/// Number of children of an nnode, and number of LEBs of a pnode.
pub const FANOUT: u32 = 4;

/// Number of the nnode at a row (0 for the root) and a column.
///
/// The number is a one bit, followed by the digits of the column in base four, last digit first. Read from the low end,
/// the digits are the path from the root to the nnode. A pnode's number is its column.
///
/// ```
/// use floatgate_media::ubifs::lpt::nnode_number;
/// assert_eq!(nnode_number(0, 0), 1);
/// assert_eq!(nnode_number(2, 0b11_01), 0b1_01_11);
/// ```
#[must_use]
pub const fn nnode_number(row: u32, column: u32) -> u32 {
    let mut number = 1;
    let mut rest = column;
    let mut done = 0;
    while done < row {
        number = number << 2 | rest & 3;
        rest >>= 2;
        done += 1;
    }
    number
}
