//! A strict volume for these tests, and layouts of all kinds.

use std::sync::Arc;

use floatgate_media::file::Compression;
use floatgate_media::ubifs::lpt::{Geometry, Parameters};
use floatgate_media::ubifs::{KeyHash, Master, Superblock, SuperblockFlags};
use floatgate_mtd::Instant;
use floatgate_mtd::random;

use crate::ubifs::io::Io;
use crate::ubifs::layout::Layout;
use crate::volume::{Volume, VolumeError, VolumeFault, VolumeGeometry};

/// LEBs in memory. Power can be cut after a number of operations.
#[derive(Clone, Debug)]
pub(super) struct Chip {
    geometry: VolumeGeometry,
    pub(super) lebs: Vec<Option<Vec<u8>>>,
    /// Number of operations until power is cut; `None` for no cut.
    pub(super) power: Option<u32>,
}

impl Chip {
    fn spend(&mut self, lnum: u32, offset: u32) -> Result<(), VolumeError> {
        match &mut self.power {
            Some(0) => return Err(VolumeFault::PowerLost.at(lnum, offset)),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }
}

impl Volume for Chip {
    fn geometry(&self) -> VolumeGeometry {
        self.geometry
    }
    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError> {
        let out_of_range = VolumeFault::OutOfRange { len: buf.len() }.at(lnum, offset);
        let leb = self.lebs.get(lnum as usize).ok_or(out_of_range.clone())?;
        let (start, end) = (offset as usize, offset as usize + buf.len());
        if end > self.geometry.leb_bytes as usize {
            return Err(out_of_range);
        }
        match leb {
            Some(leb) => buf.copy_from_slice(&leb[start..end]),
            None => buf.fill(0xFF),
        }
        Ok(())
    }
    fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError> {
        let unit = self.geometry.min_io_bytes;
        let end = offset as usize + data.len();
        if !offset.is_multiple_of(unit) || !data.len().is_multiple_of(unit as usize) {
            return Err(VolumeFault::Misaligned { unit }.at(lnum, offset));
        }
        let size = self.geometry.leb_bytes as usize;
        if end > size || lnum as usize >= self.lebs.len() {
            return Err(VolumeFault::OutOfRange { len: data.len() }.at(lnum, offset));
        }
        let cut = self.spend(lnum, offset);
        // An interrupted write programs half of its data.
        let half = (data.len() / 2).next_multiple_of(unit as usize).min(data.len());
        let written = if cut.is_ok() { data } else { &data[..half] };
        let leb = self.lebs[lnum as usize].get_or_insert_with(|| vec![0xFF; size]);
        if leb[offset as usize..].iter().any(|&byte| byte != 0xFF) {
            return Err(VolumeFault::NotErased.at(lnum, offset));
        }
        leb[offset as usize..offset as usize + written.len()].copy_from_slice(written);
        cut
    }
    fn change(&mut self, lnum: u32, data: &[u8]) -> Result<(), VolumeError> {
        self.spend(lnum, 0)?;
        let mut leb = data.to_vec();
        leb.resize(self.geometry.leb_bytes as usize, 0xFF);
        self.lebs[lnum as usize] = Some(leb);
        Ok(())
    }
    fn map(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.change(lnum, &[])
    }
    fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.spend(lnum, 0)?;
        self.lebs[lnum as usize] = None;
        Ok(())
    }
    fn erase(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.unmap(lnum)
    }
    fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError> {
        Ok(self.lebs[lnum as usize].is_some())
    }
    fn flush(&mut self) -> Result<(), VolumeError> {
        Ok(())
    }
    fn now(&self) -> Instant {
        Instant::default()
    }
    fn wait_until(&mut self, _now: Instant) {}
}

/// Parameters of a test filesystem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) leb_bytes: u32,
    pub(super) min_io_bytes: u32,
    pub(super) main_lebs: u32,
    /// Number of LEBs by which the filesystem can grow.
    pub(super) growth: u32,
    pub(super) big: bool,
    /// The LPT area is as small as Linux allows, twice the LPT, and not four times as usual.
    pub(super) tight: bool,
}

impl Default for Shape {
    fn default() -> Self {
        let leb_bytes = 15_872;
        Self { leb_bytes, min_io_bytes: 512, main_lebs: 40, growth: 0, big: false, tight: false }
    }
}

/// Number of LEBs of the log and the orphan area.
const OTHER_LEBS: u32 = 3 + 1;

impl Shape {
    pub(super) fn superblock(self) -> Superblock {
        let first_lnum = 3 + 3;
        let with_lpt = |lebs: u32| {
            let start = 3 + OTHER_LEBS + lebs;
            let end = start + self.main_lebs;
            Parameters {
                first_lnum,
                lebs,
                main: start..end,
                max_leb_count: end + self.growth,
                leb_bytes: self.leb_bytes,
                min_io_bytes: self.min_io_bytes,
                lsave_count: 256,
                big: self.big,
            }
        };
        let fits = |lebs: &u32| {
            let geometry = Geometry::new(&with_lpt(*lebs));
            let times = if self.tight { 2 } else { 4 };
            let grown = Geometry::new(&Parameters {
                main: with_lpt(*lebs).main.start..with_lpt(*lebs).max_leb_count,
                ..with_lpt(*lebs)
            });
            geometry.check().is_ok()
                && grown.lpt_bytes() * times <= u64::from(*lebs) * u64::from(self.leb_bytes)
        };
        let lpt_lebs = (2..).find(fits).unwrap();
        let from = with_lpt(lpt_lebs);
        Superblock {
            key_hash: KeyHash::R5,
            flags: if self.big { SuperblockFlags::BIG_LPT } else { SuperblockFlags::from_bits(0) },
            min_io_bytes: self.min_io_bytes,
            leb_bytes: self.leb_bytes,
            leb_count: from.main.end,
            max_leb_count: from.max_leb_count,
            max_journal_bytes: u64::from(self.leb_bytes) * 4,
            log_lebs: 3,
            lpt_lebs,
            orphan_lebs: 1,
            data_heads: 1,
            fanout: 8,
            lsave_count: 256,
            format_version: 4,
            compression: Compression::from_code(0),
            time_granularity_ns: 1,
            ..Superblock::default()
        }
    }

    /// Creates a filesystem on a volume of exactly its size.
    pub(super) fn io(self) -> Io<Chip> {
        let superblock = self.superblock();
        over(&superblock, empty_lebs(superblock.leb_count))
    }
}

pub(super) fn empty_lebs(count: u32) -> Vec<Option<Vec<u8>>> {
    vec![None; count as usize]
}

/// Opens a filesystem over existing LEBs.
pub(super) fn over(superblock: &Superblock, lebs: Vec<Option<Vec<u8>>>) -> Io<Chip> {
    let geometry = VolumeGeometry {
        lebs: u32::try_from(lebs.len()).unwrap(),
        leb_bytes: superblock.leb_bytes,
        min_io_bytes: superblock.min_io_bytes,
        max_write_bytes: superblock.min_io_bytes,
        leb_start: 0,
        read_only: false,
    };
    let layout = Layout::new(superblock, geometry).unwrap();
    Io::new(Chip { geometry, lebs, power: None }, Arc::new(layout), false)
}

/// Generator of random 32-bit numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(random::Random);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    pub(super) fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.0.below(u64::from(end))).unwrap()
    }
}

/// Master node of a filesystem without an index.
pub(super) fn new_master() -> Master {
    Master::default()
}
