//! Wrong bits of a page, and the result of the on-die ECC.
//!
//! The code is not published, so bits are counted, not decoded. A codeword with at most as many wrong bits as the code's strength is
//! corrected, any other is left as it is. A codeword is a step of data with its share of the OOB. If its data was programmed twice with
//! different bytes, its ECC bytes match neither. It is then uncorrectable and reads as the AND of both. Data programmed while the engine is
//! disabled does not change ECC bytes: a few bits changed to 0 are wrong bits, more are uncorrectable. OOB that was programmed twice has no
//! such effect, because makers leave some of it to user programs.

use super::super::spec::SpiNandGeometry;
use super::die::{Die, Loaded};
use super::work::ArrayTask;
use crate::ecc_engine::EccRequirement;
use floatgate_mtd::Instant;

/// Bits that read wrong at normal thresholds and right at shifted ones.
#[derive(Clone, Debug)]
pub(super) struct Leak {
    pub(super) bits: Vec<u32>,
    pub(super) cured_by: u8,
}

/// Result of the on-die ECC for the last read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EccResult {
    /// Maximum number of bits corrected in a step of the last page.
    pub(super) last: u32,
    /// Maximum number of bits corrected in a step, over all pages of a continuous read.
    pub(super) most: u32,
    /// Number of uncorrectable pages.
    pub(super) lost_pages: u32,
}

/// Division of a page into codewords of the on-die ECC.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageCode {
    strength: u16,
    step_bits: u32,
    /// Number of OOB bits in each codeword.
    share_bits: u32,
    data_bits: u32,
    steps: u32,
}

impl PageCode {
    pub(super) fn new(code: EccRequirement, g: &SpiNandGeometry) -> Self {
        let step_bits = code.step_bytes.max(1) * 8;
        let data_bits = g.page_bytes * 8;
        let steps = data_bits.div_ceil(step_bits);
        let strength = u16::try_from(code.strength).unwrap_or(u16::MAX);
        Self { strength, step_bits, share_bits: (g.oob_bytes * 8 / steps).max(1), data_bits, steps }
    }

    /// Number of wrong bits of a codeword that can be corrected.
    pub(super) fn strength(&self) -> usize {
        self.strength.into()
    }

    /// Codeword that contains a bit; the remainder of the division belongs to the last codeword.
    fn step(&self, bit: u32) -> usize {
        let step = match bit.checked_sub(self.data_bits) {
            None => bit / self.step_bits,
            Some(oob_bit) => oob_bit / self.share_bits,
        };
        step.min(self.steps - 1) as usize
    }
}

impl Die {
    /// Offsets of the bits of the page read last that are still wrong.
    pub(super) fn wrong_bits(&self) -> &[u32] {
        &self.wrong
    }

    /// True if the page read last contains exactly the data of one program.
    pub(super) fn is_as_programmed(&self) -> bool {
        self.work.task == ArrayTask::Read && self.array.is_as_programmed(self.work.row as usize)
    }

    /// True if the page read last is erased.
    pub(super) fn is_erased(&self) -> bool {
        self.work.task == ArrayTask::Read && self.array.is_erased(self.work.row as usize)
    }

    /// Collects the bits of page `row` that read wrong at `at`.
    #[inline]
    fn collect_wrong(&mut self, row: u32, at: Instant) {
        self.wrong.clear();
        // The fast path of the cell model is valid for the normal thresholds only.
        if self.cells.read(row, at) || self.lowered != 0.0 {
            let stored = self.array.stored(row as usize);
            let stored = stored.as_deref().or(self.usual_page.as_deref());
            self.cells.errors(row, at, self.lowered, stored, &mut self.wrong);
        }
        if self.array.flips(row as usize).is_empty() && self.leaks.is_empty() {
            return;
        }
        self.add_injected(row as usize);
    }

    #[cold]
    fn add_injected(&mut self, row: usize) {
        self.wrong.extend_from_slice(self.array.flips(row));
        if let Some(leak) = self.leaks.get(&row).filter(|l| l.cured_by != self.retry) {
            self.wrong.extend_from_slice(&leak.bits);
        }
        self.wrong.sort_unstable();
        self.wrong.dedup();
    }

    /// Reads a row of the array into the cache, and corrects it if `code` is given.
    #[inline]
    pub(super) fn load_row(&mut self, row: u32, plane: usize, code: Option<&PageCode>, at: Instant) {
        self.collect_wrong(row, at);
        let cache = &mut self.caches[plane];
        cache.loaded = Loaded::Row(row);
        self.ecc.last = 0;
        let spoiled = code.is_some() && self.array.has_spoiled(row as usize);
        cache.lazy = self.wrong.is_empty() && !spoiled;
        if !cache.lazy {
            self.load_wrong(row as usize, plane, code);
        }
        // The randomizer does not change an erased page, which the chip recognizes by its bits; it reads FFh.
        if self.randomizes && !self.array.is_erased(row as usize) {
            self.mix(plane, row);
        }
    }

    #[cold]
    fn load_wrong(&mut self, row: usize, plane: usize, code: Option<&PageCode>) {
        let bytes = &mut self.caches[plane].bytes;
        match self.array.stored(row) {
            Some(stored) => bytes.copy_from_slice(&stored),
            None if self.array.stores() => bytes.fill(0xFF),
            // In timing-only mode the cache only contains the positions of the wrong bits.
            None => bytes.fill(0),
        }
        invert(bytes, &self.wrong);
        if let Some(code) = code {
            self.correct(row, plane, code);
        }
    }

    /// Corrects all correctable codewords; the bits of the other codewords stay wrong.
    fn correct(&mut self, row: usize, plane: usize, code: &PageCode) {
        self.counts.clear();
        let spoiled = |step| self.array.is_spoiled(row, step);
        self.counts.extend((0..code.steps as usize).map(|step| if spoiled(step) { u16::MAX } else { 0 }));
        for &bit in &self.wrong {
            let count = &mut self.counts[code.step(bit)];
            *count = count.saturating_add(1);
        }
        let (counts, bytes) = (&self.counts, &mut self.caches[plane].bytes);
        self.wrong.retain(|&bit| {
            let lost = counts[code.step(bit)] > code.strength;
            if !lost {
                invert(bytes, &[bit]);
            }
            lost
        });
        let most = counts.iter().copied().max().unwrap_or(0);
        if most <= code.strength {
            self.ecc.last = u32::from(most);
            self.ecc.most = self.ecc.most.max(self.ecc.last);
        } else {
            self.ecc.lost_pages += 1;
        }
    }
}

fn invert(bytes: &mut [u8], bits: &[u32]) {
    for &bit in bits {
        if let Some(byte) = bytes.get_mut(bit as usize / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
}
