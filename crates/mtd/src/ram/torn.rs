//! Contents of a cell-less device after a power cut, derived from a seed.
//!
//! Each range of bytes that an interrupted operation left half done is recorded until its block is erased. The number of
//! wrong bits depends on [`TornState`] and on the range's seed. It differs between pages and varies by one bit from read
//! to read. Cells that were programmed or erased too little drift towards one, so wrong bits are zeros that read as ones.
//!
//! With ECC, wrong bits within its strength are corrected and reported; beyond it the read is uncorrectable and returns
//! the wrong bits. A page that is readable now but may become unreadable reports as many corrected bits as the code
//! corrects, in every read. Therefore software that moves pages at the bitflip threshold loses no data. Without ECC a
//! page is either stable, or every read is wrong and different.

use super::block::is_erased;
use super::{BlockOffset, RamFlash};
use crate::device::{Done, check_aligned, check_range};
use crate::error::{Error, ErrorKind};
use crate::geometry::FlashKind;
use crate::power_cut::{Interrupted, Stage, Tear};
use crate::program_unit::{page_bytes, pieces};
use crate::random::Random;
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

/// Maximum number of zeros that a read without ECC turns into ones: as many as a CRC-32 always detects in structures of
/// UBI and UBIFS.
const FLIPS_WITHOUT_ECC: u64 = 3;

/// Kind of damage of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TornState {
    /// The range reads as erased; data programmed here becomes marginal.
    Weak,
    /// An ECC step has at most one bit error more than twice the number that the code corrects.
    Marginal,
    /// An ECC step has more bit errors than the code corrects.
    Mixed,
}

/// A damaged range of bytes of a block.
#[derive(Clone, Debug)]
struct Stretch {
    range: Range<usize>,
    state: TornState,
    seed: u64,
}

/// All damaged ranges, by block.
#[derive(Clone, Debug, Default)]
pub(super) struct Torn {
    blocks: BTreeMap<usize, Vec<Stretch>>,
    /// Number of reads of damaged ranges so far.
    reads: u64,
}

/// Bit errors found in a read.
#[derive(Clone, Copy, Debug, Default)]
struct Flips {
    max: u32,
    sum: u32,
    /// Offset in the block of an uncorrectable ECC step.
    beyond: Option<usize>,
}

impl Torn {
    /// True without bit errors.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Drops the ranges of a block after its erase.
    pub(super) fn forget(&mut self, block: usize) {
        self.blocks.remove(&block);
    }

    fn add(&mut self, block: usize, range: Range<usize>, state: TornState, seed: u64) {
        if !range.is_empty() {
            self.blocks.entry(block).or_default().push(Stretch { range, state, seed });
        }
    }

    /// Records a program: weak cells become marginal.
    pub(super) fn programmed(&mut self, place: BlockOffset, len: usize) {
        let Some(stretches) = self.blocks.get_mut(&place.block) else { return };
        let range = place.offset..place.offset + len;
        let weak = |s: &&Stretch| s.state == TornState::Weak && !overlap(&s.range, &range).is_empty();
        let Some(found) = stretches.iter().find(weak) else { return };
        let new = overlap(&found.range, &range);
        let seed = Random::numbered(found.seed, place.offset as u64).bits();
        // NOR flash may program the same bytes repeatedly.
        let known = |s: &Stretch| s.state != TornState::Weak && overlap(&s.range, &new) == new;
        if !stretches.iter().any(known) {
            stretches.push(Stretch { range: new, state: TornState::Marginal, seed });
        }
    }

    /// Adds bit errors to `buf`, which was read at `place` within one block. Each page of `unit` bytes is processed
    /// separately.
    fn disturb(&mut self, place: BlockOffset, buf: &mut [u8], strength: u32, unit: usize) -> Flips {
        let mut flips = Flips::default();
        let Some(stretches) = self.blocks.get(&place.block) else { return flips };
        let read = place.offset..place.offset + buf.len();
        for stretch in stretches.iter().filter(|s| s.state != TornState::Weak) {
            let mut met = overlap(&stretch.range, &read);
            while !met.is_empty() {
                let page = met.start / unit;
                let end = ((page + 1) * unit).min(met.end);
                self.reads += 1;
                let count = stretch.flips(page, strength, self.reads);
                flips.add(count, strength, met.start);
                if count > strength {
                    let bytes = &mut buf[met.start - read.start..end - read.start];
                    set_bits(bytes, count, &mut Random::numbered(self.reads, stretch.seed));
                }
                met.start = end;
            }
        }
        flips
    }
}

impl Stretch {
    /// Number of bit errors in the worst ECC step of a page in read number `read`.
    fn flips(&self, page: usize, strength: u32, read: u64) -> u32 {
        let mut of_page = Random::numbered(self.seed, page as u64);
        let mut of_read = Random::numbered(self.seed, u64::MAX - read);
        let mixed = self.state == TornState::Mixed;
        if strength == 0 {
            let holds = !mixed && of_page.below(3) == 0;
            return if holds { 0 } else { 1 + of_read.below(FLIPS_WITHOUT_ECC) as u32 };
        }
        let base = of_page.below(2 * u64::from(strength) + 1) as u32 + of_read.below(2) as u32;
        if mixed { strength + 1 + base } else { base }
    }
}

impl Flips {
    fn add(&mut self, count: u32, strength: u32, offset: usize) {
        self.sum += count;
        self.max = self.max.max(count);
        if count > strength {
            self.beyond = self.beyond.or(Some(offset));
        }
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// Turns up to `count` zeros into ones, each the first one after a random position.
fn set_bits(bytes: &mut [u8], count: u32, random: &mut Random) {
    for _ in 0..count {
        let start = random.index(bytes.len());
        let (front, back) = bytes.split_at_mut(start);
        if let Some(byte) = back.iter_mut().chain(front).find(|byte| **byte != 0xFF) {
            *byte |= 1 << byte.trailing_ones();
        }
    }
}

/// Data after an interrupted program of `data`: its first part, or a random part of its bits. The other bits are ones.
fn partly(data: &[u8], random: &mut Random) -> Vec<u8> {
    let by_bits = random.bits() & 1 == 0;
    let (share, end) = (random.below(3), random.index(data.len() + 1));
    let piece = |(index, byte): (usize, &u8)| match (by_bits, index < end) {
        (true, _) => byte | some_bits(share, random),
        (false, true) => *byte,
        (false, false) => 0xFF,
    };
    data.iter().enumerate().map(piece).collect()
}

/// Random mask of a quarter, a half or three quarters of a byte's bits.
fn some_bits(share: u64, random: &mut Random) -> u8 {
    let (a, b) = (random.bits() as u8, (random.bits() >> 8) as u8);
    match share {
        0 => a & b,
        1 => a,
        _ => a | b,
    }
}

impl RamFlash {
    /// Applies the damage of power cuts to data that was read; `raw` means without ECC.
    pub(super) fn disturb(
        &mut self,
        at: Instant,
        addr: u64,
        buf: &mut [u8],
        raw: bool,
    ) -> Result<Done, Error> {
        let strength = if raw { 0 } else { self.geometry.ecc_strength };
        let unit = page_bytes(&self.geometry) as usize;
        let mut done = Done::clean(at);
        let mut beyond = None;
        let (mut start, mut rest) = (addr, buf);
        while !rest.is_empty() {
            let place = self.place(start);
            let len = rest.len().min(self.geometry.erase_bytes as usize - place.offset);
            let (piece, next) = rest.split_at_mut(len);
            let flips = self.torn.disturb(place, piece, strength, unit);
            beyond = beyond.or(flips.beyond.map(|offset| start + (offset - place.offset) as u64));
            let found = Done { bitflips_max: flips.max, bitflips: flips.sum, ..Done::clean(at) };
            done = done.then(found);
            (start, rest) = (start + len as u64, next);
        }
        match beyond {
            _ if strength == 0 => Ok(Done::clean(at)),
            None => Ok(done),
            Some(addr) => Err(ErrorKind::Uncorrectable.at(addr, at)),
        }
    }

    /// True if the device would accept the program of `data` at `addr`.
    fn would_program(&self, addr: u64, data: &[u8]) -> bool {
        let g = &self.geometry;
        let len = data.len() as u64;
        let inside = check_range(Instant::ZERO, addr, len, g.size_bytes).is_ok()
            && check_aligned(Instant::ZERO, addr, len, g.sub_page_bytes).is_ok();
        inside && addr < g.size_bytes && self.check_program(self.place(addr), data).is_ok()
    }

    /// Sets some bits of a block. On NOR, whose sectors do not erase evenly, only bytes after a random offset change,
    /// so headers may survive over damaged data.
    fn half_erase(&mut self, block: usize, seed: u64) {
        let Some(held) = &self.blocks[block] else { return };
        let (len, mut random) = (held.data().len(), Random::numbered(seed, 1));
        let uneven = self.geometry.kind == FlashKind::Nor && random.bits() & 1 == 0;
        let first = if uneven { random.index(len) } else { 0 };
        let share = random.below(3);
        let mut mask = |bytes: &mut [u8]| bytes.iter_mut().for_each(|b| *b |= some_bits(share, &mut random));
        self.block_mut(block).raise(first, &mut mask);
        self.torn.add(block, first..len, TornState::Mixed, seed);
        self.torn.add(block, len..self.geometry.erase_bytes as usize, TornState::Weak, seed);
    }

    fn tear_page(&mut self, addr: u64, data: &[u8], stage: Stage, seed: u64) {
        let place = self.place(addr);
        let range = place.offset..place.offset + data.len();
        let state = match stage {
            Stage::Early => TornState::Weak,
            Stage::Middle => {
                let part = partly(data, &mut Random::numbered(seed, 0));
                self.put(place, &part);
                // An interrupted program without visible bits leaves an erased page, which is no codeword.
                if is_erased(&part) { TornState::Weak } else { TornState::Mixed }
            }
            Stage::Late => {
                self.put(place, data);
                TornState::Marginal
            }
        };
        self.torn.add(place.block, range, state, seed);
    }
}

impl Tear for RamFlash {
    fn tear(&mut self, operation: Interrupted<'_>, stage: Stage, seed: u64) {
        match operation {
            Interrupted::Program { addr, data } => self.tear_program(addr, data, stage, seed),
            Interrupted::ProgramWithOob { addr, data, oob, mode } => {
                let place = self.oob_place(Instant::ZERO, addr, data.len(), oob.len(), mode);
                if let Some(first) = place.ok().filter(|_| self.would_program(addr, data)) {
                    self.tear_program_oob(addr, data, (first, oob), stage, seed);
                }
            }
            Interrupted::Erase { addr } => self.tear_erase(addr, stage, seed),
        }
    }
}

impl RamFlash {
    fn tear_program(&mut self, addr: u64, data: &[u8], stage: Stage, seed: u64) {
        if check_range(Instant::ZERO, addr, data.len() as u64, self.geometry.size_bytes).is_err() {
            return;
        }
        for (addr, piece) in pieces(addr, data, page_bytes(&self.geometry)) {
            if self.would_program(addr, piece) {
                self.tear_page(addr, piece, stage, seed);
            }
        }
    }

    fn tear_program_oob(
        &mut self,
        addr: u64,
        data: &[u8],
        (first, oob): (usize, &[u8]),
        stage: Stage,
        seed: u64,
    ) {
        let part = match stage {
            Stage::Early => Vec::new(),
            Stage::Middle => partly(oob, &mut Random::numbered(seed, 2)),
            Stage::Late => oob.to_vec(),
        };
        // OOB bytes that are already programmed stay as they are: the device would have rejected the operation.
        if self.program_oob(self.place(addr).block, first, &part).is_ok() {
            self.tear_page(addr, data, stage, seed);
        }
    }

    fn tear_erase(&mut self, addr: u64, stage: Stage, seed: u64) {
        let block = self.place(addr).block;
        let size = self.geometry.erase_bytes as usize;
        if block >= self.blocks.len() || self.bad.binary_search(&(block as u32)).is_ok() {
            return;
        }
        match stage {
            Stage::Early => {
                let len = self.blocks[block].as_deref().map_or(0, |held| held.data().len());
                self.torn.add(block, 0..len, TornState::Marginal, seed);
            }
            Stage::Middle => self.half_erase(block, seed),
            Stage::Late => {
                self.blocks[block] = None;
                self.torn.forget(block);
                self.torn.add(block, 0..size, TornState::Weak, seed);
            }
        }
    }
}
