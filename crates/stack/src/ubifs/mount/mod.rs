//! Mounting, recovery, and making a new filesystem.
/// Inodes that have no name left but are open.
#[derive(Clone, Debug)]
pub(crate) struct Orphans;
use super::core::Core;
use super::error::{Error, Result};
use super::io::Io;
use crate::volume::Volume;

impl Orphans {
    pub(crate) fn contains(&self, _inode: u32) -> bool {
        false
    }

    pub(crate) fn add(&mut self, _inode: u32) -> Result<()> {
        Err(Error::Unsupported("orphans"))
    }

    pub(crate) fn remove(&mut self, _inode: u32) {}

    pub(crate) fn commit<V: Volume>(&mut self, _io: &mut Io<V>, _commit: u64) -> Result<()> {
        Err(Error::Unsupported("orphans"))
    }
}

impl<V: Volume> Core<V> {
    pub(crate) fn write_master(&mut self) -> Result<()> {
        Err(Error::Unsupported("master"))
    }
}
