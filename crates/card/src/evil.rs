//! Firmware that gives back other content than was written (Chubb 2015: what a card says the second time may be something else).

use crate::spec::EvilSpec;
use floatgate_mtd::SECTOR_BYTES;
use floatgate_mtd::random::hash;
use std::collections::BTreeSet;

/// Most sectors of which the firmware remembers that they were read: its RAM is small.
const REMEMBERED_MAX: usize = 1 << 16;

/// Random of the hash that chooses sectors.
const CHOICE: u64 = 0x65_76_69_6C;

/// The sectors that are answered otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Evil {
    one_in_sectors: u64,
    seed: u64,
    /// Chosen sectors that were read since they were written.
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

    /// Sectors were written: their next answer is true.
    pub(crate) fn written(&mut self, lba: u64, count: u64) {
        let end = lba.saturating_add(count);
        while let Some(sector) = self.read_once.range(lba..end).next().copied() {
            self.read_once.remove(&sector);
        }
    }

    /// Changes what the host gets of the chosen sectors that it has read before.
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
