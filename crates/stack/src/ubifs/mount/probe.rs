//! Facts about a volume's filesystem before it is mounted.

use std::sync::Arc;

use floatgate_media::ubifs::Superblock;

use super::{Findings, master, superblock};
use crate::ubifs::error::Result;
use crate::ubifs::io::{DynIo, Io};
use crate::volume::Volume;

/// The state a filesystem was left in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterState {
    /// Number of the last commit.
    pub commit: u64,
    /// It was not unmounted.
    pub dirty: bool,
}

/// Reads superblock, as it is stored, and master node; `None` for a master node that cannot be read. Nothing is written.
///
/// # Errors
/// No superblock, or an impossible one; failures of the volume.
pub fn probe(volume: &mut dyn Volume) -> Result<(Superblock, Option<MasterState>)> {
    let found = superblock::read(volume, true)?;
    let layout = superblock::layout(&found.superblock, found.volume)?;
    let io: &mut DynIo<'_> = &mut Io::new(volume, Arc::new(layout), true);
    let master = master::read(io, &mut Findings::default()).ok().map(|found| found.state());
    Ok((found.stored, master))
}
