//! Properties of a filesystem before it is mounted.

use std::sync::Arc;

use floatgate_media::ubifs::Superblock;

use super::findings::{Findings, MasterState};
use super::format::least_main_lebs;
use super::{geometry, master, superblock};
use crate::ubifs::error::Result;
use crate::ubifs::io::{DynIo, Io};
use crate::volume::{Volume, VolumeGeometry};

/// Reads the superblock as stored, and the state in the master node; `None` for an unreadable master node. Nothing is
/// written.
///
/// # Errors
/// No superblock, or an invalid one; volume failures.
pub fn probe(volume: &mut dyn Volume) -> Result<(Superblock, Option<MasterState>)> {
    let found = superblock::read(volume, true)?;
    let layout = superblock::layout(&found.superblock, found.volume)?;
    let io: &mut DynIo<'_> = &mut Io::new(volume, Arc::new(layout), true);
    let mut findings = Findings::default();
    let master = master::read(io, &mut findings).ok().map(|found| found.state(findings.choice));
    Ok((found.stored, master))
}

/// Minimum number of LEBs of a volume on which Linux mounts a filesystem: its current LEBs, and those that its areas
/// and journal need. `mkfs.ubifs` counts only the LEBs of its image.
#[must_use]
pub fn least_lebs(superblock: &Superblock) -> u32 {
    let main = least_main_lebs(superblock);
    let areas = superblock.areas_end().unwrap_or(u32::MAX);
    areas.saturating_add(main).max(superblock.leb_count).max(geometry::MIN_LEBS)
}

/// Compares the minimum I/O size and LEB size of a volume with those of a filesystem.
///
/// # Errors
/// The size that differs: Linux does not mount the filesystem.
pub fn check_units(superblock: &Superblock, volume: VolumeGeometry) -> Result<()> {
    superblock::check_units(superblock, volume)
}
