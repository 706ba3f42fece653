//! A device with seeded faults. The faults stay within a budget under which correct software loses no data.
//!
//! The budget:
//!
//! - **Bit errors** appear when pages are read, at the rate of [`bitflip_ppm`](FaultPlan::bitflip_ppm), and accumulate
//!   until the block is erased. An ECC step never has more bit errors than the code corrects, so every read returns
//!   correct data. Devices without ECC have no bit errors.
//! - **Factory bad blocks**: [`factory_bad`](FaultPlan::factory_bad) blocks, marked before first use, never block 0.
//! - **Grown bad blocks**: at most [`grown_bad_max`](FaultPlan::grown_bad_max), at the rates of
//!   [`program_fail_ppm`](FaultPlan::program_fail_ppm) and [`erase_fail_ppm`](FaultPlan::erase_fail_ppm). A failed
//!   program leaves a part of its bits in the page; a failed erase leaves a part of the block's data; earlier pages
//!   stay readable. From then on every program and erase of that block fails, and only its bad block mark can change.
//!
//! There are no other faults: only data of failed operations is uncorrectable, and no bad block mark is lost.

#[cfg(test)]
mod tests;

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode, check_aligned, check_range};
use crate::error::{Error, ErrorKind};
use crate::geometry::Geometry;
use crate::power_cut::{Interrupted, Stage, Tear};
use crate::program_unit::{page_bytes, pieces};
use crate::random::Random;
use crate::time::Instant;
use alloc::collections::{BTreeMap, BTreeSet};

/// Number and rates of the faults. See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultPlan {
    /// Seed that determines the positions of faults.
    pub seed: u64,
    /// Number of factory bad blocks.
    pub factory_bad: u32,
    /// Maximum number of grown bad blocks.
    pub grown_bad_max: u32,
    /// Number of page reads with additional bit errors, in a million page reads.
    pub bitflip_ppm: u32,
    /// Number of failing page programs, in a million page programs.
    pub program_fail_ppm: u32,
    /// Number of failing block erases, in a million block erases.
    pub erase_fail_ppm: u32,
}

impl FaultPlan {
    /// A plan without faults.
    pub const NONE: Self = Self {
        seed: 0,
        factory_bad: 0,
        grown_bad_max: 0,
        bitflip_ppm: 0,
        program_fail_ppm: 0,
        erase_fail_ppm: 0,
    };

    /// A plan with many more faults than a healthy chip has, for a device of `blocks` blocks. 2 % of the blocks are
    /// factory bad and another 2 % can go bad (SLC data sheets promise at most 2 % together). 1 % of the reads add bit
    /// errors.
    pub const fn harsh(seed: u64, blocks: u32) -> Self {
        let share = blocks.div_ceil(50);
        Self {
            seed,
            factory_bad: share,
            grown_bad_max: share,
            bitflip_ppm: 10_000,
            program_fail_ppm: 1_000,
            erase_fail_ppm: 2_000,
        }
    }
}

/// A device with faults. See the [module](self).
#[derive(Clone, Debug)]
pub struct Faults<D> {
    inner: D,
    plan: FaultPlan,
    random: Random,
    armed: bool,
    /// Size of a program operation, B.
    unit: u32,
    /// Number of bit errors in the worst ECC step of a page, by page address.
    flips: BTreeMap<u64, u32>,
    /// Addresses of grown bad blocks.
    grown: BTreeSet<u64>,
}

impl<D: Mtd> Faults<D> {
    /// Adds faults to `inner` and marks its factory bad blocks.
    ///
    /// # Errors
    /// Errors of marking a block bad.
    pub fn new(mut inner: D, plan: FaultPlan) -> Result<Self, Error> {
        let geometry = inner.geometry().clone();
        let mut random = Random::numbered(plan.seed, 0);
        let wanted = plan.factory_bad.min(geometry.blocks().saturating_sub(1)) as usize;
        let mut bad = BTreeSet::new();
        while bad.len() < wanted {
            let block = 1 + random.below(u64::from(geometry.blocks()) - 1);
            if bad.insert(block) {
                inner.mark_bad(Instant::ZERO, block * u64::from(geometry.erase_bytes))?;
            }
        }
        let unit = page_bytes(&geometry);
        Ok(Self { inner, plan, random, armed: true, unit, flips: BTreeMap::new(), grown: BTreeSet::new() })
    }

    /// Enables or disables new faults; existing ones remain.
    pub const fn arm(&mut self, armed: bool) {
        self.armed = armed;
    }

    /// Addresses of grown bad blocks.
    pub fn grown_bad(&self) -> impl Iterator<Item = u64> + '_ {
        self.grown.iter().copied()
    }

    /// The wrapped device.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Mutable access to the wrapped device, without faults.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Returns the wrapped device.
    pub fn into_inner(self) -> D {
        self.inner
    }

    /// Adds new bit errors to the pages that were read, and reports them in the result.
    fn age(&mut self, addr: u64, len: u64, mut done: Done) -> Done {
        let geometry = self.inner.geometry();
        let (strength, page) = (geometry.ecc_strength, u64::from(geometry.write_bytes));
        let rate = if self.armed { self.plan.bitflip_ppm } else { 0 };
        if strength == 0 || len == 0 || rate == 0 && self.flips.is_empty() {
            return done;
        }
        for page in (addr - addr % page..addr + len).step_by(page as usize) {
            if self.random.happens(rate) {
                let more = 1 + self.random.below(u64::from(strength)) as u32;
                let flips = self.flips.entry(page).or_default();
                *flips = (*flips + more).min(strength);
            }
            let flips = self.flips.get(&page).copied().unwrap_or(0);
            done = done.then(Done { bitflips_max: flips, bitflips: flips, ..Done::clean(done.at) });
        }
        done
    }

    /// Decides whether an operation on the block at `block` fails: `None` if it succeeds, `Some(true)` for the block's
    /// first failure.
    #[inline]
    fn fails(&mut self, block: u64, ppm: u32) -> Option<bool> {
        if !self.grown.is_empty() && self.grown.contains(&block) {
            return Some(false);
        }
        let room = self.armed && self.grown.len() < self.plan.grown_bad_max as usize;
        if !room || !self.random.happens(ppm) || !self.is_usable(block) {
            return None;
        }
        self.grown.insert(block);
        Some(true)
    }

    /// True if the block is not bad yet.
    fn is_usable(&mut self, block: u64) -> bool {
        self.inner.is_bad(Instant::ZERO, block).is_ok_and(|(bad, _)| !bad)
    }

    fn forget(&mut self, block: u64) {
        let end = block + u64::from(self.inner.geometry().erase_bytes);
        while let Some((&page, _)) = self.flips.range(block..end).next() {
            self.flips.remove(&page);
        }
    }
}

impl<D: Mtd + Tear> Faults<D> {
    /// First failing piece of a write: its address, its data, and whether it is the block's first failure.
    fn first_failure<'a>(&mut self, addr: u64, data: &'a [u8]) -> Option<(u64, &'a [u8], bool)> {
        pieces(addr, data, self.unit).find_map(|(addr, piece)| {
            let block = self.inner.geometry().block_start(addr);
            self.fails(block, self.plan.program_fail_ppm).map(|first| (addr, piece, first))
        })
    }
}

impl<D: Mtd + Tear> Mtd for Faults<D> {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    #[inline]
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        let done = self.inner.read(now, addr, buf)?;
        Ok(self.age(addr, buf.len() as u64, done))
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        let geometry = self.inner.geometry();
        check_range(now, addr, data.len() as u64, geometry.size_bytes)?;
        check_aligned(now, addr, data.len() as u64, geometry.sub_page_bytes.max(1))?;
        let Some((failed, piece, first)) = self.first_failure(addr, data) else {
            return self.inner.write(now, addr, data);
        };
        let done = self.inner.write(now, addr, &data[..(failed - addr) as usize])?;
        if first {
            let seed = self.random.bits();
            self.inner.tear(Interrupted::Program { addr: failed, data: piece }, Stage::Middle, seed);
        }
        Err(ErrorKind::ProgramFailed.at(failed, done.at))
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let geometry = self.inner.geometry();
        let block_bytes = geometry.erase_bytes;
        check_range(now, addr, len, geometry.size_bytes)?;
        check_aligned(now, addr, len, block_bytes)?;
        let mut done = Done::clean(now);
        for block in (addr..addr + len).step_by(block_bytes as usize) {
            if let Some(first) = self.fails(block, self.plan.erase_fail_ppm) {
                if first {
                    let seed = self.random.bits();
                    self.inner.tear(Interrupted::Erase { addr: block }, Stage::Middle, seed);
                }
                return Err(ErrorKind::EraseFailed.at(block, done.at));
            }
            done = done.then(self.inner.erase(done.at, block, u64::from(block_bytes))?);
            self.forget(block);
        }
        Ok(done)
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let done = self.inner.read_oob(now, addr, data, oob, mode)?;
        // Raw mode has no ECC, so no bits are corrected.
        let len = if mode == OobMode::Raw { 0 } else { data.len() as u64 };
        Ok(self.age(addr, len, done))
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let geometry = self.inner.geometry();
        check_range(now, addr, u64::from(geometry.write_bytes), geometry.size_bytes)?;
        let Some(first) = self.fails(geometry.block_start(addr), self.plan.program_fail_ppm) else {
            return self.inner.write_oob(now, addr, data, oob, mode);
        };
        if first {
            let seed = self.random.bits();
            self.inner.tear(Interrupted::ProgramWithOob { addr, data, oob, mode }, Stage::Middle, seed);
        }
        Err(ErrorKind::ProgramFailed.at(addr, now))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        self.inner.is_bad(now, addr)
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        self.inner.mark_bad(now, addr)
    }

    fn breakdown(&self) -> Breakdown {
        self.inner.breakdown()
    }
}

/// Interrupts operations, except on grown bad blocks, which never change.
impl<D: Mtd + Tear> Tear for Faults<D> {
    fn tear(&mut self, operation: Interrupted<'_>, stage: Stage, seed: u64) {
        if !self.grown.contains(&self.inner.geometry().block_start(operation.addr())) {
            self.inner.tear(operation, stage, seed);
        }
    }
}
