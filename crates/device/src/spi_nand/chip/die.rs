//! One die: array, cache registers, feature registers, and what its array is busy with.

use super::super::command as c;
use super::super::spec::{HighSpeed, SpiNandSpec};
use super::ChipOptions;
use super::otp;
use crate::array::Array;
use crate::ecc_engine::{EccRequirement, correct};
use floatgate_ecc::OobLayout;
use floatgate_mtd::{Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// What a cache register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    /// Nothing that may be read.
    Nothing,
    /// A page of the array.
    Row(u32),
    /// An OTP page.
    Otp,
    /// Bytes of the host.
    Host,
}

/// Order of programs in one block, which is known in timing-only mode as well.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    /// First page that was not programmed since the erase, nor any above it.
    next: u16,
    /// Programs of the page before it.
    programs: u8,
}

/// Wrong bits that shifted thresholds read right.
#[derive(Clone, Debug)]
struct Leak {
    bits: Vec<u32>,
    cured_by: u8,
}

/// Result of the on-die ECC.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EccResult {
    /// Most bits corrected in a step of the last page.
    pub(super) last: u32,
    /// The same of all pages of a continuous read.
    pub(super) most: u32,
    /// Pages that could not be corrected.
    pub(super) lost_pages: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Die {
    pub(super) array: Array,
    pub(super) otp: Array,
    pub(super) otp_locked: bool,
    /// One per plane.
    caches: Vec<Cache>,
    order: Vec<Order>,
    factory_bad: BTreeSet<u32>,
    leaks: BTreeMap<usize, Leak>,
    /// Bits of the last page read that are still wrong, for ECC on the host's side.
    wrong: Vec<u32>,
    pub(super) ecc: EccResult,
    busy_since: Instant,
    busy_until: Instant,
    busy_what: &'static str,
    pub(super) protection: u8,
    pub(super) config: u8,
    /// Mode register beside the configuration (W25N: SR4).
    pub(super) mode: u8,
    pub(super) retry: u8,
    pub(super) write_enabled: bool,
    pub(super) program_failed: bool,
    pub(super) erase_failed: bool,
    /// First row of a continuous read that the next read from cache will stream.
    pub(super) stream: Option<u32>,
    /// Macronix: a continuous read ended then and was not left by a register write.
    pub(super) stream_left_open: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Cache {
    bytes: Vec<u8>,
    loaded: Loaded,
    /// The bytes are still only in the array, which has not changed since: nothing was copied yet.
    lazy: bool,
}

impl Die {
    pub(super) fn new(spec: &SpiNandSpec, options: ChipOptions, index: u32) -> Self {
        let g = &spec.geometry;
        let raw = g.raw_page_bytes() as usize;
        let blocks = spec.blocks_per_die() as usize;
        let cache = Cache { bytes: vec![0xFF; raw], loaded: Loaded::Nothing, lazy: false };
        Self {
            array: Array::new(raw, g.pages_per_block as usize, blocks, options.stores),
            otp: otp::factory_pages(spec, options.seed, index),
            otp_locked: false,
            caches: vec![cache; g.planes as usize],
            order: vec![Order::default(); blocks],
            factory_bad: BTreeSet::new(),
            leaks: BTreeMap::new(),
            wrong: Vec::new(),
            ecc: EccResult::default(),
            busy_since: Instant::ZERO,
            busy_until: Instant::ZERO,
            busy_what: "",
            protection: 0,
            config: 0,
            mode: 0,
            retry: 0,
            write_enabled: false,
            program_failed: false,
            erase_failed: false,
            stream: None,
            stream_left_open: None,
        }
    }

    pub(super) fn mark_factory_bad(&mut self, block: u32) {
        self.factory_bad.insert(block);
    }

    pub(super) fn factory_bad(&self) -> impl Iterator<Item = u32> + '_ {
        self.factory_bad.iter().copied()
    }

    pub(super) fn leak(&mut self, row: usize, bits: &[u32], cured_by: u8) {
        let mut bits = bits.to_vec();
        bits.sort_unstable();
        self.leaks.insert(row, Leak { bits, cured_by });
    }

    pub(super) fn power_up(&mut self, spec: &SpiNandSpec) {
        self.config = spec.config_reset;
        self.mode = 0;
        self.soft_reset(spec);
    }

    /// What RESET does to the registers. The continuous bit of some chips survives it (Linux: `spinand_cont_read_init`).
    pub(super) fn soft_reset(&mut self, spec: &SpiNandSpec) {
        let kept = spec.continuous.as_ref().map_or(0, |cont| 1 << cont.config_bit);
        self.config = (spec.config_reset & !kept) | (self.config & kept);
        self.protection = spec.protection_reset;
        self.retry = 0;
        (self.write_enabled, self.program_failed, self.erase_failed) = (false, false, false);
        self.ecc = EccResult::default();
        (self.stream, self.stream_left_open) = (None, None);
        for cache in &mut self.caches {
            cache.loaded = Loaded::Nothing;
        }
    }

    #[inline]
    pub(super) const fn busy_until(&self) -> Instant {
        self.busy_until
    }

    #[inline]
    pub(super) const fn busy_since(&self) -> Instant {
        self.busy_since
    }

    pub(super) const fn busy_what(&self) -> &'static str {
        self.busy_what
    }

    #[inline]
    pub(super) fn work(&mut self, from: Instant, length: Nanos, what: &'static str) {
        self.busy_since = from;
        self.busy_until = from + length;
        self.busy_what = what;
    }

    /// Whatever the array does ends; the die is ready `length` after `at`.
    pub(super) fn abort(&mut self, at: Instant, length: Nanos) {
        self.work(at, length, "tRST");
    }

    pub(super) const fn quad_enabled(&self) -> bool {
        self.config & c::QUAD_ENABLE != 0
    }

    pub(super) const fn high_speed(&self, speed: HighSpeed) -> bool {
        self.mode >> speed.bit & 1 != 0
    }

    pub(super) fn wrong_bits(&self) -> &[u32] {
        &self.wrong
    }

    /// The bits of page `row` that read wrong now.
    #[inline]
    fn collect_wrong(&mut self, row: usize) {
        self.wrong.clear();
        self.wrong.extend_from_slice(self.array.flips(row));
        if self.leaks.is_empty() {
            return;
        }
        if let Some(leak) = self.leaks.get(&row).filter(|l| l.cured_by != self.retry) {
            self.wrong.extend_from_slice(&leak.bits);
            self.wrong.sort_unstable();
            self.wrong.dedup();
        }
    }

    /// Array to cache, corrected if `code` is given.
    #[inline]
    pub(super) fn load_row(
        &mut self,
        row: u32,
        plane: usize,
        code: Option<EccRequirement>,
        page_bytes: usize,
    ) {
        self.collect_wrong(row as usize);
        let cache = &mut self.caches[plane];
        cache.loaded = Loaded::Row(row);
        self.ecc.last = 0;
        cache.lazy = self.wrong.is_empty();
        if cache.lazy {
            return;
        }
        self.array.read(row as usize, 0, &mut cache.bytes);
        let injected = self.array.flips(row as usize);
        for &bit in self.wrong.iter().filter(|bit| injected.binary_search(bit).is_err()) {
            if let Some(byte) = cache.bytes.get_mut(bit as usize / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
        if let Some(code) = code {
            self.correct(plane, code, page_bytes);
        }
    }

    fn correct(&mut self, plane: usize, code: EccRequirement, page_bytes: usize) {
        let data = &mut self.caches[plane].bytes[..page_bytes];
        match correct(code, data, &self.wrong) {
            Ok(fixed) => {
                self.ecc.last = fixed.max;
                self.ecc.most = self.ecc.most.max(fixed.max);
                self.wrong.clear();
            }
            Err(_) => self.ecc.lost_pages += 1,
        }
    }

    /// Cache to bus. In timing-only mode array pages leave `out` as it was, but for factory markers.
    #[inline]
    pub(super) fn read_cache(&self, plane: usize, column: usize, out: &mut [u8], spec: &SpiNandSpec) {
        let cache = &self.caches[plane];
        let Loaded::Row(row) = cache.loaded else {
            out.copy_from_slice(&cache.bytes[column..column + out.len()]);
            return;
        };
        if cache.lazy {
            self.array.read(row as usize, column, out);
        } else if self.array.stores() {
            out.copy_from_slice(&cache.bytes[column..column + out.len()]);
        }
        let g = &spec.geometry;
        let marker = g.page_bytes as usize;
        if !self.factory_bad.is_empty()
            && row % g.pages_per_block == 0
            && (column..column + out.len()).contains(&marker)
            && self.factory_bad.contains(&(row / g.pages_per_block))
        {
            out[marker - column] = 0;
        }
    }

    /// Copies what caches still have in the array only, before the array or a cache changes.
    pub(super) fn settle(&mut self) {
        for cache in &mut self.caches {
            if let Loaded::Row(row) = cache.loaded
                && std::mem::take(&mut cache.lazy)
            {
                self.array.read(row as usize, 0, &mut cache.bytes);
            }
        }
    }

    pub(super) fn loaded(&self, plane: usize) -> Loaded {
        self.caches[plane].loaded
    }

    pub(super) fn forget_cache(&mut self) {
        for cache in &mut self.caches {
            cache.loaded = Loaded::Nothing;
        }
    }

    /// An OTP page to cache of plane 0.
    pub(super) fn load_otp(&mut self, page: u32) {
        self.ecc = EccResult::default();
        self.wrong.clear();
        let cache = &mut self.caches[0];
        self.otp.read(page as usize, 0, &mut cache.bytes);
        cache.loaded = Loaded::Otp;
    }

    /// Bus to cache.
    pub(super) fn fill_cache(&mut self, plane: usize, column: usize, bytes: &[u8], keep: bool) {
        self.settle();
        let cache = &mut self.caches[plane];
        if !keep && bytes.len() < cache.bytes.len() {
            cache.bytes.fill(0xFF);
        }
        cache.bytes[column..column + bytes.len()].copy_from_slice(bytes);
        cache.loaded = Loaded::Host;
    }

    /// Whether a program of `page` in `block` keeps the rules of order and number.
    pub(super) fn may_program(
        &self,
        block: u32,
        page: u32,
        row: u32,
        nop: u8,
    ) -> Result<(), super::Violation> {
        let order = self.order[block as usize];
        let last = page + 1 == u32::from(order.next);
        let programs = if self.array.stores() {
            self.array.programs(row as usize)
        } else if last {
            order.programs
        } else {
            // Timing only: pages below the last programmed one count as programmed.
            u8::from(page < u32::from(order.next)) * nop
        };
        if programs >= nop {
            Err(super::Violation::NotErased)
        } else if page < u32::from(order.next) && programs == 0 {
            Err(super::Violation::OutOfOrder)
        } else {
            Ok(())
        }
    }

    /// Cache to array.
    pub(super) fn program(&mut self, block: u32, page: u32, row: u32, plane: usize) {
        self.settle();
        self.array.program(row as usize, 0, &self.caches[plane].bytes);
        self.leaks.remove(&(row as usize));
        let order = &mut self.order[block as usize];
        if page + 1 == u32::from(order.next) {
            order.programs = order.programs.saturating_add(1);
        } else if page >= u32::from(order.next) {
            *order = Order { next: page as u16 + 1, programs: 1 };
        }
    }

    /// Overwrites the ECC bytes in the cache with what the on-die engine leaves there.
    pub(super) fn blank_ecc_bytes(&mut self, plane: usize, spec: &SpiNandSpec) {
        self.settle();
        let oob = &mut self.caches[plane].bytes[spec.geometry.page_bytes as usize..];
        let layout = spec.oob.layout(spec.geometry.oob_bytes);
        for region in layout.iter().flat_map(OobLayout::ecc) {
            // Without codecs the ECC bytes are those of an erased page.
            region.of_mut(oob).fill(0xFF);
        }
    }

    /// Programs an OTP page from the cache of plane 0.
    pub(super) fn program_otp(&mut self, page: u32) {
        self.otp.program(page as usize, 0, &self.caches[0].bytes);
    }

    pub(super) fn erase(&mut self, block: u32, pages_per_block: u32) {
        self.settle();
        self.array.erase(block as usize);
        self.order[block as usize] = Order::default();
        self.factory_bad.remove(&block);
        if !self.leaks.is_empty() {
            let first = (block * pages_per_block) as usize;
            self.leaks.retain(|row, _| !(first..first + pages_per_block as usize).contains(row));
        }
    }

    /// After a failed erase nobody knows what the block holds: order counts no more.
    pub(super) fn erase_undone(&mut self, block: u32) {
        self.order[block as usize] = Order::default();
    }
}
