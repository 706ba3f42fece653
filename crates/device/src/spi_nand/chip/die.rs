//! A die of a SPI NAND: array, cells, cache registers, feature registers.

use super::super::command as c;
use super::super::spec::{HighSpeed, SpiNandSpec};
use super::ChipOptions;
use super::otp;
use super::work::{ArrayWork, Erasing};
use super::wrong::{EccResult, Leak};
use crate::array::{self, Array, SubPages};
use crate::cells::{Cells, CellsGeometry};
use floatgate_ecc::OobLayout;
use floatgate_mtd::random::Random;
use floatgate_mtd::{Instant, Pairing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Content of a cache register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    /// Undefined content, which may not be read.
    Nothing,
    /// A page of the array, by row.
    Row(u32),
    /// An OTP page.
    Otp,
    /// Bytes that the host sent.
    Host,
}

/// Seed of the randomizer. Makers do not publish the bits that their randomizers add; these bits are pseudo-random.
const MIX_SEED: u64 = 0x005E_ED0F_B175;

/// Page contents in timing-only mode: half of the data bits are zero; the OOB with the bad block marker is erased.
fn usual_page(spec: &SpiNandSpec) -> Arc<[u8]> {
    let mut page = vec![0x55; spec.geometry.raw_page_bytes() as usize];
    page[spec.geometry.page_bytes as usize..].fill(0xFF);
    Arc::from(page)
}

/// Cell model of die number `index`.
fn cells(spec: &SpiNandSpec, options: ChipOptions, index: u32) -> Cells {
    let g = &spec.geometry;
    let geometry = CellsGeometry {
        page_bytes: g.raw_page_bytes(),
        pages_per_block: g.pages_per_block,
        blocks: spec.blocks_per_die(),
        // Existing SPI NAND chips have no paired pages, unless a translation layer hides them.
        pairing: Pairing::NONE,
        half_pair: 1.0,
    };
    spec.facts().cells(geometry, options.cells, (options.seed, index))
}

#[derive(Clone, Debug)]
pub(super) struct Die {
    pub(super) array: Array,
    pub(super) cells: Cells,
    /// Content of every programmed page in timing-only mode.
    pub(super) usual_page: Option<Arc<[u8]>>,
    pub(super) otp: Array,
    pub(super) otp_locked: bool,
    /// Cache registers, one per plane.
    pub(super) caches: Vec<Cache>,
    /// For each block, the lowest page such that neither it nor a higher page was programmed since the erase.
    next_page: Vec<u16>,
    sub_pages: SubPages,
    factory_bad: BTreeSet<u32>,
    pub(super) leaks: BTreeMap<usize, Leak>,
    /// Offsets of the bits of the page read last that are still wrong.
    pub(super) wrong: Vec<u32>,
    /// Buffer for the number of wrong bits in each codeword of a page.
    pub(super) counts: Vec<u16>,
    pub(super) ecc: EccResult,
    pub(super) work: ArrayWork,
    pub(super) erasing: Option<Erasing>,
    pub(super) protection: u8,
    pub(super) config: u8,
    /// Mode register in addition to the configuration register (W25N: SR4).
    pub(super) mode: u8,
    /// Register of the randomizer, which contains its enable bit.
    pub(super) randomizer: u8,
    pub(super) randomizes: bool,
    /// Size of a page without OOB, bytes; the randomizer covers these bytes.
    data_bytes: usize,
    /// Current read retry mode, and its shift of the read thresholds.
    pub(super) retry: u8,
    pub(super) lowered: f64,
    pub(super) write_enabled: bool,
    pub(super) program_failed: bool,
    pub(super) erase_failed: bool,
    /// First row of a continuous read, which the next read from cache streams.
    pub(super) stream: Option<u32>,
    /// Time at which a continuous read ended without a register write that leaves the mode (Macronix).
    pub(super) stream_left_open: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// Bytes of the cache. In timing-only mode, after a page with wrong bits, zeros with the wrong bits set.
    pub(super) bytes: Vec<u8>,
    pub(super) loaded: Loaded,
    /// True if the bytes have not been copied from the array yet; the array has not changed since.
    pub(super) lazy: bool,
}

impl Die {
    pub(super) fn new(spec: &SpiNandSpec, options: ChipOptions, index: u32) -> Self {
        let g = &spec.geometry;
        let raw = g.raw_page_bytes() as usize;
        let blocks = spec.blocks_per_die() as usize;
        let cache = Cache { bytes: vec![0xFF; raw], loaded: Loaded::Nothing, lazy: false };
        Self {
            array: Array::new(raw, g.pages_per_block as usize, blocks, options.stores)
                .with_steps(spec.ecc.step_bytes as usize, g.page_bytes as usize)
                .with_sub_pages(spec.sub_pages()),
            cells: cells(spec, options, index),
            usual_page: (!options.stores).then(|| usual_page(spec)),
            otp: otp::factory_pages(spec, options.seed, index),
            otp_locked: false,
            caches: vec![cache; g.planes as usize],
            next_page: vec![0; blocks],
            sub_pages: spec.sub_pages(),
            factory_bad: BTreeSet::new(),
            leaks: BTreeMap::new(),
            wrong: Vec::new(),
            counts: Vec::new(),
            ecc: EccResult::default(),
            work: ArrayWork::default(),
            erasing: None,
            protection: 0,
            config: 0,
            mode: 0,
            randomizer: 0,
            randomizes: false,
            data_bytes: g.page_bytes as usize,
            retry: 0,
            lowered: 0.0,
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
        (self.randomizer, self.randomizes) = (0, false);
        self.soft_reset(spec);
    }

    /// Sets the registers as RESET does. In some chips the continuous read bit is not changed by it (Linux:
    /// `spinand_cont_read_init`).
    pub(super) fn soft_reset(&mut self, spec: &SpiNandSpec) {
        let kept = spec.continuous.as_ref().map_or(0, |cont| 1 << cont.config_bit);
        self.config = (spec.config_reset & !kept) | (self.config & kept);
        self.protection = spec.protection_reset;
        (self.retry, self.lowered) = (0, 0.0);
        (self.write_enabled, self.program_failed, self.erase_failed) = (false, false, false);
        self.ecc = EccResult::default();
        (self.stream, self.stream_left_open) = (None, None);
        for cache in &mut self.caches {
            cache.loaded = Loaded::Nothing;
        }
    }

    pub(super) const fn enable_quad(&mut self) {
        self.config |= c::QUAD_ENABLE;
    }

    pub(super) const fn quad_enabled(&self) -> bool {
        self.config & c::QUAD_ENABLE != 0
    }

    pub(super) const fn high_speed(&self, speed: HighSpeed) -> bool {
        self.mode >> speed.bit & 1 != 0
    }

    /// Outputs bytes of the cache. In timing-only mode pages of the array leave `out` unchanged, except for wrong bits
    /// and factory bad block markers.
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
        } else {
            out.iter_mut().zip(&cache.bytes[column..]).for_each(|(byte, wrong)| *byte ^= wrong);
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

    /// Copies pages that are only in the array to their caches, before the array or a cache changes.
    pub(super) fn fill_lazy_caches(&mut self) {
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

    /// Loads an OTP page into the cache of plane 0.
    pub(super) fn load_otp(&mut self, page: u32) {
        self.ecc = EccResult::default();
        self.wrong.clear();
        let cache = &mut self.caches[0];
        self.otp.read(page as usize, 0, &mut cache.bytes);
        cache.loaded = Loaded::Otp;
    }

    /// Stores bytes from the bus in the cache.
    pub(super) fn fill_cache(&mut self, plane: usize, column: usize, bytes: &[u8], keep: bool) {
        self.fill_lazy_caches();
        let cache = &mut self.caches[plane];
        if !keep && bytes.len() < cache.bytes.len() {
            cache.bytes.fill(0xFF);
        }
        cache.bytes[column..column + bytes.len()].copy_from_slice(bytes);
        cache.loaded = Loaded::Host;
    }

    /// Adds the randomizer's bits for a row to the data in a cache, if it is enabled; a second call removes them.
    pub(super) fn mix(&mut self, plane: usize, row: u32) {
        if !self.randomizes || !self.array.stores() {
            return;
        }
        self.fill_lazy_caches();
        let mut random = Random::numbered(MIX_SEED, u64::from(row));
        for word in self.caches[plane].bytes[..self.data_bytes].chunks_mut(8) {
            word.iter_mut().zip(random.bits().to_le_bytes()).for_each(|(byte, bits)| *byte ^= bits);
        }
    }

    /// Bytes of a plane's cache that are to be programmed.
    pub(super) fn to_program(&self, plane: usize) -> array::Loaded<'_> {
        let cache = &self.caches[plane];
        // If no data is stored, the cache does not contain the page that was read.
        let known = self.array.stores() || !matches!(cache.loaded, Loaded::Row(_));
        let sub_pages = if known { self.sub_pages.written(0, &cache.bytes) } else { u8::MAX };
        array::Loaded { column: 0, bytes: &cache.bytes, sub_pages }
    }

    /// Checks the rules of order and number for a program of `page` in `block`.
    pub(super) fn check_program(
        &mut self,
        block: u32,
        page: u32,
        row: u32,
        plane: usize,
    ) -> Result<(), super::Violation> {
        self.fill_lazy_caches();
        self.array.check_program(row as usize, self.to_program(plane))?;
        if page < u32::from(self.next_page[block as usize]) && self.array.programs(row as usize) == 0 {
            Err(super::Violation::OutOfOrder)
        } else {
            Ok(())
        }
    }

    /// Programs a page from the cache. `unseen_by` is the strength of an on-die ECC engine that is disabled.
    pub(super) fn program(
        &mut self,
        block: u32,
        page: u32,
        row: u32,
        plane: usize,
        unseen_by: Option<usize>,
    ) {
        self.fill_lazy_caches();
        let bytes = &self.caches[plane].bytes;
        match unseen_by {
            Some(strength) => self.array.program_without_ecc(row as usize, bytes, strength),
            None => self.array.program(row as usize, 0, bytes),
        }
        let written = self.to_program(plane).sub_pages;
        self.array.mark_programmed(row as usize, written);
        self.leaks.remove(&(row as usize));
        let next = &mut self.next_page[block as usize];
        *next = (*next).max(page as u16 + 1);
    }

    /// Reverts the only program of a page.
    pub(super) fn undo_program(&mut self, row: u32) {
        self.array.undo_program(row as usize);
        self.cells.undo_program(row);
        let per_block = (self.array.rows() / self.next_page.len()) as u32;
        self.next_page[(row / per_block) as usize] = (row % per_block) as u16;
    }

    /// Overwrites the ECC bytes in the cache with the bytes that the on-die engine leaves there.
    pub(super) fn blank_ecc_bytes(&mut self, plane: usize, spec: &SpiNandSpec) {
        self.fill_lazy_caches();
        let oob = &mut self.caches[plane].bytes[spec.geometry.page_bytes as usize..];
        let layout = spec.oob.layout(spec.geometry.oob_bytes);
        for region in layout.iter().flat_map(OobLayout::ecc) {
            // Without a codec the ECC bytes are those of an erased page.
            region.of_mut(oob).fill(0xFF);
        }
    }

    /// Programs an OTP page from the cache of plane 0.
    pub(super) fn program_otp(&mut self, page: u32) {
        self.otp.program(page as usize, 0, &self.caches[0].bytes);
    }

    pub(super) fn erase(&mut self, block: u32) {
        self.fill_lazy_caches();
        self.array.erase(block as usize);
        self.next_page[block as usize] = 0;
        self.factory_bad.remove(&block);
        if !self.leaks.is_empty() {
            let pages = self.array.rows() / self.next_page.len();
            self.leaks.retain(|row, _| row / pages != block as usize);
        }
    }

    /// Records a failed erase. The contents of the block are then unknown, and the order of its earlier programs is no
    /// longer relevant.
    pub(super) fn erase_undone(&mut self, block: u32) {
        self.array.fail_erase(block as usize);
        self.next_page[block as usize] = 0;
    }
}
