//! Firmware that returns other data than was written (Chubb 2015: a card may return something else on the second read).

use crate::spec::EvilSpec;
use floatgate_mtd::SECTOR_BYTES;
use floatgate_mtd::random::hash;
use std::collections::BTreeSet;

/// Maximum number of sectors that the firmware remembers as read, because its RAM is small.
const REMEMBERED_MAX: usize = 1 << 16;

/// Seed of the hash that selects sectors.
const CHOICE: u64 = 0x65_76_69_6C;

/// Sectors for which the firmware returns other data.
#[derive(Clone, Debug)]
pub(crate) struct Evil {
    one_in_sectors: u64,
    seed: u64,
    /// Selected sectors that were read since they were written.
    read_once: BTreeSet<u64>,
}

impl Evil {
    pub(crate) fn new(spec: EvilSpec, seed: u64) -> Self {
        let one_in_sectors = u64::from(spec.one_in_sectors.max(1));
        Self { one_in_sectors, seed, read_once: BTreeSet::new() }
    }

    fn is_chosen(&self, lba: u64) -> bool {
        hash(self.seed, lba, CHOICE).is_multiple_of(self.one_in_sectors)
    }

    /// Records that sectors were written; their next read returns the data.
    pub(crate) fn written(&mut self, lba: u64, count: u64) {
        let end = lba.saturating_add(count);
        while let Some(sector) = self.read_once.range(lba..end).next().copied() {
            self.read_once.remove(&sector);
        }
    }

    /// Alters the data of selected sectors that the host has already read.
    pub(crate) fn alter(&mut self, lba: u64, buf: &mut [u8]) {
        for (lba, sector) in (lba..).zip(buf.chunks_exact_mut(SECTOR_BYTES)) {
            if !self.is_chosen(lba) {
                continue;
            }
            if !self.read_once.insert(lba) {
                sector.iter_mut().for_each(|byte| *byte = !*byte);
            } else if self.read_once.len() > REMEMBERED_MAX {
                self.read_once.pop_first();
            }
        }
    }
}
