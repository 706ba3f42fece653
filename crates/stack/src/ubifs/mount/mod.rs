//! Mounting, recovery, and making a new filesystem.
/// Inodes that have no name left but are open.
#[derive(Clone, Debug)]
pub(crate) struct Orphans;
