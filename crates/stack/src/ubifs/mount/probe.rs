//! Facts about a volume's filesystem before it is mounted.

use std::sync::Arc;

use floatgate_media::ubifs::Superblock;

use super::format::least_main_lebs;
use super::{Findings, geometry, master, superblock};
use crate::ubifs::error::Result;
use crate::ubifs::io::{DynIo, Io};
use crate::volume::{Volume, VolumeGeometry};

/// The state a filesystem was left in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterState {
    /// Number of the last commit.
    pub commit: u64,
    /// It was not unmounted.
    pub dirty: bool,
    /// Damage of the master nodes that no power cut leaves.
    pub fault: Option<&'static str>,
}

/// Reads superblock, as it is stored, and master node; `None` for a master node that cannot be read. Nothing is written.
///
/// # Errors
/// No superblock, or an impossible one; failures of the volume.
pub fn probe(volume: &mut dyn Volume) -> Result<(Superblock, Option<MasterState>)> {
    let found = superblock::read(volume, true)?;
    let layout = superblock::layout(&found.superblock, found.volume)?;
    let io: &mut DynIo<'_> = &mut Io::new(volume, Arc::new(layout), true);
    let mut findings = Findings::default();
    let master = master::read(io, &mut findings).ok().map(|found| found.state(findings.choice));
    Ok((found.stored, master))
}

/// Fewest LEBs of a volume on which Linux mounts a filesystem: those that it has already, and those that its areas and its journal
/// need, because `mkfs.ubifs` counts only the LEBs of its image.
#[must_use]
pub fn least_lebs(superblock: &Superblock) -> u32 {
    let main = least_main_lebs(superblock);
    let areas = superblock.areas_end().unwrap_or(u32::MAX);
    areas.saturating_add(main).max(superblock.leb_count).max(geometry::MIN_LEBS)
}

/// Checks the smallest write and the LEB size of a volume against those of a filesystem.
///
/// # Errors
/// The unit that differs: Linux does not mount the filesystem.
pub fn check_units(superblock: &Superblock, volume: VolumeGeometry) -> Result<()> {
    superblock::check_units(superblock, volume)
}
