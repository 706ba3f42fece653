//! The journal: changes written since the last commit.
//!
//! Every change of the filesystem is a group of nodes that a head writes to one LEB, with their effect on the index:
//! [`Change`], [`Core::apply`]. All of Linux's journal operations (`fs/ubifs/journal.c`) are such groups:
//!
//! | operation | head | nodes, in this order |
//! |---|---|---|
//! | create, link, unlink, set a new attribute | base | entry, inode, directory or host |
//! | exchange | base | entry, entry, directory, other directory |
//! | rename | base | new entry, old entry (deletion or whiteout), replaced inode, whiteout, directories |
//! | write an inode | base | inode |
//! | truncate | base | inode, truncation, last block if it is cut |
//! | delete an attribute | base | entry (deletion), attribute's inode without links, host |
//! | change an attribute | base | host, attribute's inode |
//! | write a block | data | block, not grouped |
//!
//! Recovery keeps or drops a whole group, so that each operation is atomic.

mod apply;
mod log;
mod reserve;
#[cfg(test)]
mod tests;

pub(crate) use apply::{Change, truncated_keys};
pub(crate) use log::{Bud, Log, LogPosition, next_leb};

/// Room for a write, or the work needed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room<T> {
    /// There is room.
    Ready(T),
    /// A commit must first shorten the journal or the log, or free LEBs.
    CommitFirst,
    /// No room is left, and nothing can be collected.
    NoSpace,
}
