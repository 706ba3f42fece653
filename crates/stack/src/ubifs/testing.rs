//! A volume for tests. It is stricter than UBI, and power can be cut at any write.

use floatgate_mtd::random::Random;
use std::sync::Arc;

use floatgate_media::ubifs::{KeyHash, Superblock, SuperblockFlags, lpt};
use floatgate_mtd::Instant;

use super::io::Io;
use super::layout::Layout;
use crate::volume::{Volume, VolumeError, VolumeFault, VolumeGeometry};

#[derive(Clone, Debug, Default)]
struct Leb {
    /// Contents; `None` if the LEB is not mapped.
    bytes: Option<Vec<u8>>,
    /// Number of bytes written from the start.
    written: u32,
    /// Contents before the LEB was unmapped, which a power cut can restore.
    ghost: Option<(Vec<u8>, u32)>,
}

/// A volume of LEBs in memory.
#[derive(Clone, Debug)]
pub(crate) struct TestVolume {
    geometry: VolumeGeometry,
    lebs: Vec<Leb>,
    /// Number of changing operations until power is cut; `None` for no cut.
    fuel: Option<u64>,
    /// Number of changing operations so far.
    pub(crate) operations: u64,
    random: Random,
    dead: bool,
}

impl TestVolume {
    pub(crate) fn new(lebs: u32, leb_bytes: u32, min_io_bytes: u32, max_write_bytes: u32) -> Self {
        let geometry =
            VolumeGeometry { lebs, leb_bytes, min_io_bytes, max_write_bytes, leb_start: 0, read_only: false };
        let lebs = vec![Leb::default(); lebs as usize];
        Self { geometry, lebs, fuel: None, operations: 0, random: Random::new(1), dead: false }
    }

    /// Cuts power in the middle of the operation after `operations` further ones.
    pub(crate) fn cut_after(&mut self, operations: u64, seed: u64) {
        self.fuel = Some(operations);
        self.random = Random::new(seed);
    }

    /// Restores power. LEBs that were unmapped may be mapped again.
    pub(crate) fn power_on(&mut self) {
        (self.dead, self.fuel) = (false, None);
        for leb in &mut self.lebs {
            let back = self.random.below(2) == 0 && leb.bytes.is_none();
            if let Some((bytes, written)) = leb.ghost.take().filter(|_| back) {
                (leb.bytes, leb.written) = (Some(bytes), written);
            }
        }
    }

    /// The contents of a LEB, if it is mapped.
    pub(crate) fn leb(&self, lnum: u32) -> Option<&[u8]> {
        self.lebs[lnum as usize].bytes.as_deref()
    }

    /// Flips bits of a byte, which no write can do.
    pub(crate) fn damage(&mut self, lnum: u32, offset: u32, xor: u8) {
        if let Some(bytes) = &mut self.lebs[lnum as usize].bytes {
            bytes[offset as usize] ^= xor;
        }
    }

    fn check(&self, lnum: u32, offset: u32, len: usize) -> Result<(), VolumeError> {
        let fault = if self.dead {
            VolumeFault::PowerLost
        } else if lnum >= self.geometry.lebs || offset as usize + len > self.geometry.leb_bytes as usize {
            VolumeFault::OutOfRange { len }
        } else {
            return Ok(());
        };
        Err(fault.at(lnum, offset))
    }

    fn check_write(&self, lnum: u32, offset: u32, len: usize) -> Result<(), VolumeError> {
        self.check(lnum, offset, len)?;
        let unit = self.geometry.min_io_bytes;
        if offset.is_multiple_of(unit) && len.is_multiple_of(unit as usize) {
            return Ok(());
        }
        Err(VolumeFault::Misaligned { unit }.at(lnum, offset))
    }

    /// True if power is cut at this operation.
    fn burn(&mut self) -> bool {
        self.operations += 1;
        match &mut self.fuel {
            Some(0) => self.dead = true,
            Some(fuel) => *fuel -= 1,
            None => {}
        }
        self.dead
    }

    /// Interrupts a write: a prefix is complete, and perhaps one unit is damaged.
    fn tear(&mut self, lnum: u32, offset: u32, data: &[u8]) {
        let unit = self.geometry.min_io_bytes as usize;
        let units = data.len() / unit;
        let whole = usize::try_from(self.random.below(units as u64 + 1)).unwrap_or(0) * unit;
        let mut torn = data[..whole].to_vec();
        if whole < data.len() && self.random.below(2) == 0 {
            let half = &data[whole..whole + unit];
            torn.extend(half.iter().enumerate().map(|(at, byte)| if at > unit / 2 { 0xFF } else { *byte }));
        }
        self.store(lnum, offset, &torn);
    }

    fn store(&mut self, lnum: u32, offset: u32, data: &[u8]) {
        let size = self.geometry.leb_bytes as usize;
        let leb = &mut self.lebs[lnum as usize];
        let bytes = leb.bytes.get_or_insert_with(|| vec![0xFF; size]);
        bytes[offset as usize..offset as usize + data.len()].copy_from_slice(data);
        leb.written = leb.written.max(offset + u32::try_from(data.len()).unwrap_or(0));
    }
}

impl Volume for TestVolume {
    fn geometry(&self) -> VolumeGeometry {
        self.geometry
    }

    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError> {
        self.check(lnum, offset, buf.len())?;
        match &self.lebs[lnum as usize].bytes {
            Some(bytes) => buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]),
            None => buf.fill(0xFF),
        }
        Ok(())
    }

    fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError> {
        self.check_write(lnum, offset, data.len())?;
        if offset < self.lebs[lnum as usize].written {
            return Err(VolumeFault::NotErased.at(lnum, offset));
        }
        if self.burn() {
            self.tear(lnum, offset, data);
            return Err(VolumeFault::PowerLost.at(lnum, offset));
        }
        self.store(lnum, offset, data);
        Ok(())
    }

    fn change(&mut self, lnum: u32, data: &[u8]) -> Result<(), VolumeError> {
        self.check_write(lnum, 0, data.len())?;
        let cut = self.burn();
        if !cut || self.random.below(2) == 0 {
            self.lebs[lnum as usize] = Leb::default();
            self.store(lnum, 0, data);
        }
        if cut { Err(VolumeFault::PowerLost.at(lnum, 0)) } else { Ok(()) }
    }

    fn map(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.check_write(lnum, 0, 0)?;
        if self.lebs[lnum as usize].bytes.is_some() {
            return Err(VolumeFault::NotErased.at(lnum, 0));
        }
        let cut = self.burn();
        if !cut || self.random.below(2) == 0 {
            self.lebs[lnum as usize] = Leb::default();
            self.store(lnum, 0, &[]);
        }
        if cut { Err(VolumeFault::PowerLost.at(lnum, 0)) } else { Ok(()) }
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.check_write(lnum, 0, 0)?;
        if self.lebs[lnum as usize].bytes.is_none() {
            return Ok(());
        }
        let cut = self.burn();
        if !cut || self.random.below(2) == 0 {
            let leb = &mut self.lebs[lnum as usize];
            leb.ghost = leb.bytes.take().map(|bytes| (bytes, leb.written));
            leb.written = 0;
        }
        if cut { Err(VolumeFault::PowerLost.at(lnum, 0)) } else { Ok(()) }
    }

    fn erase(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.unmap(lnum)?;
        self.lebs[lnum as usize].ghost = None;
        Ok(())
    }

    fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError> {
        self.check(lnum, 0, 0)?;
        Ok(self.lebs[lnum as usize].bytes.is_some())
    }

    fn flush(&mut self) -> Result<(), VolumeError> {
        self.check(0, 0, 0)
    }

    fn now(&self) -> Instant {
        Instant::default()
    }

    fn wait_until(&mut self, _now: Instant) {}
}

/// Superblock that fills a volume, with the smallest areas that Linux allows.
pub(crate) fn superblock(geometry: &VolumeGeometry, journal_lebs: u32) -> Superblock {
    let VolumeGeometry { lebs, leb_bytes, .. } = *geometry;
    let min_io_bytes = geometry.min_io_bytes.max(8);
    let buds = journal_lebs * min_io_bytes.max(64);
    let log_lebs = (buds.div_ceil(leb_bytes) + 1).max(2);
    let (first_lnum, orphan_lebs, lsave_count) = (3 + log_lebs, 1, 256);
    let lpt = lpt::Geometry::choose(&lpt::Parameters {
        first_lnum,
        lebs: 0,
        main: first_lnum + orphan_lebs..lebs,
        max_leb_count: lebs,
        leb_bytes,
        min_io_bytes,
        lsave_count,
        big: false,
    })
    .unwrap();
    Superblock {
        flags: if lpt.is_big() { SuperblockFlags::BIG_LPT } else { SuperblockFlags::default() },
        min_io_bytes,
        leb_bytes,
        leb_count: lebs,
        max_leb_count: lebs,
        max_journal_bytes: u64::from(journal_lebs) * u64::from(leb_bytes),
        log_lebs,
        lpt_lebs: lpt.parameters().lebs,
        orphan_lebs,
        data_heads: 1,
        fanout: 8,
        lsave_count,
        format_version: 4,
        time_granularity_ns: 1,
        ..Superblock::default()
    }
}

/// Creates a volume with the layout of an empty filesystem, without any data.
pub(crate) fn blank(
    lebs: u32,
    leb_bytes: u32,
    min_io: u32,
    max_write: u32,
    journal_lebs: u32,
) -> Io<TestVolume> {
    blank_with(TestVolume::new(lebs, leb_bytes, min_io, max_write), journal_lebs, KeyHash::R5)
}

/// Creates a volume like [`blank`], with this hash function of names.
pub(crate) fn blank_with(volume: TestVolume, journal_lebs: u32, key_hash: KeyHash) -> Io<TestVolume> {
    let superblock = Superblock { key_hash, ..superblock(&volume.geometry, journal_lebs) };
    let layout = Layout::new(&superblock, volume.geometry).unwrap();
    Io::new(volume, Arc::new(layout), false)
}
