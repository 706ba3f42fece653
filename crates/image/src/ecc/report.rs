//! Reports on a dump.

use super::{PageGeometry, Scheme, StuckColumn};
use serde::Serialize;

/// Largest number of uncorrectable steps that are listed; all are counted.
pub const MAX_LISTED: usize = 1000;

/// Name of a missing code or layout.
const NO_CODE: &str = "none";

/// Report on a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecodeReport {
    /// ECC scheme of the pages.
    pub scheme: SchemeReport,
    /// Number of whole pages.
    pub pages: u64,
    /// Pages without data.
    pub erased: Erased,
    /// Steps of pages with data.
    pub steps: Steps,
    /// Number of corrected bits in pages with data, including bits of ECC bytes.
    pub corrected_bits: u64,
    /// Largest number of corrected bits in a step.
    pub max_corrected_bits: u32,
    /// Number of steps for each number of corrected bits, without steps that had no wrong bits.
    pub histogram: Vec<Bar>,
    /// First uncorrectable steps, at most 1000, without bad blocks.
    pub uncorrectable: Vec<Failure>,
    /// Stuck columns of the chip.
    pub columns: Vec<StuckColumn>,
    /// Bad blocks; `None` if the size of a block is unknown, or the OOB is missing.
    pub bad_blocks: Option<BadBlockReport>,
    /// Number of bytes after the last whole page, which were not checked.
    pub rest_bytes: u64,
    /// Number of bytes written.
    pub written_bytes: u64,
}

/// ECC scheme of pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchemeReport {
    /// Size of a page without OOB, bytes.
    pub page_bytes: u32,
    /// Size of a page's OOB, bytes.
    pub oob_bytes: u32,
    /// Number of pages in a block; `None` if it is unknown.
    pub pages_per_block: Option<u32>,
    /// Name of the code; `none` if there is no code.
    pub code: String,
    /// Name of the layout; `none` if there is no code.
    pub layout: String,
    /// Number of ECC bytes in a page.
    pub ecc_bytes: u32,
}

/// Pages without data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Erased {
    /// Number of pages.
    pub pages: u64,
    /// Number of these pages that have bitflips.
    pub with_bitflips: u64,
    /// Number of data and ECC bits that are 0.
    pub bitflips: u64,
}

/// Steps of pages with data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Steps {
    /// Number of steps, without bad blocks.
    pub total: u64,
    /// Number of steps without wrong bits.
    pub clean: u64,
    /// Number of steps whose wrong bits were corrected.
    pub corrected: u64,
    /// Number of steps with too many wrong bits.
    pub uncorrectable: u64,
}

/// A bar of the histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// Number of corrected bits in a step.
    pub bits: u32,
    /// Number of steps with this number of corrected bits.
    pub steps: u64,
}

/// A step that could not be corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Offset of the step in the file with the pages, bytes.
    pub offset: u64,
    /// Number of the page.
    pub page: u64,
    /// Number of the block; `None` if the size of a block is unknown.
    pub block: Option<u64>,
    /// Number of the step in the page.
    pub step: u32,
}

/// Blocks that are marked bad.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BadBlockReport {
    /// Number of blocks in the dump, including an incomplete last block.
    pub blocks: u64,
    /// Numbers of the first bad blocks, at most 1000.
    pub bad: Vec<u64>,
    /// Number of bad blocks.
    pub count: u64,
    /// True if the output does not contain the bad blocks.
    pub skipped: bool,
    /// Number of uncorrectable steps in bad blocks.
    pub uncorrectable_steps: u64,
}

impl DecodeReport {
    /// True if all data outside bad blocks was checked and corrected.
    pub fn is_good(&self) -> bool {
        self.steps.uncorrectable == 0 && self.rest_bytes == 0 && !self.too_many_bad()
    }

    /// Sum of the reports on all regions of a dump, with the first of their codes.
    pub fn total<'r>(reports: impl IntoIterator<Item = &'r Self>) -> Self {
        let mut reports = reports.into_iter();
        let mut total =
            reports.next().cloned().unwrap_or_else(|| Tally::default().report(SchemeReport::nothing()));
        for report in reports {
            total.add(report);
        }
        total
    }

    fn add(&mut self, later: &Self) {
        if self.scheme.is_without_code() {
            self.scheme = later.scheme.clone();
        }
        self.pages += later.pages;
        self.erased.pages += later.erased.pages;
        self.erased.with_bitflips += later.erased.with_bitflips;
        self.erased.bitflips += later.erased.bitflips;
        self.steps.total += later.steps.total;
        self.steps.clean += later.steps.clean;
        self.steps.corrected += later.steps.corrected;
        self.steps.uncorrectable += later.steps.uncorrectable;
        self.corrected_bits += later.corrected_bits;
        self.max_corrected_bits = self.max_corrected_bits.max(later.max_corrected_bits);
        for bar in &later.histogram {
            match self.histogram.iter_mut().find(|own| own.bits == bar.bits) {
                Some(own) => own.steps += bar.steps,
                None => self.histogram.push(*bar),
            }
        }
        self.histogram.sort_by_key(|bar| bar.bits);
        extend(&mut self.uncorrectable, later.uncorrectable.clone());
        self.columns.extend(&later.columns);
        if let (Some(own), Some(bad)) = (&mut self.bad_blocks, &later.bad_blocks) {
            own.blocks += bad.blocks;
            extend(&mut own.bad, bad.bad.clone());
            own.count += bad.count;
            own.uncorrectable_steps += bad.uncorrectable_steps;
        }
        self.rest_bytes += later.rest_bytes;
        self.written_bytes += later.written_bytes;
    }

    /// True if more than half of the blocks are marked bad. The bytes that were read as markers then have another
    /// meaning: makers guarantee about 98 % good blocks.
    pub fn too_many_bad(&self) -> bool {
        self.bad_blocks.as_ref().is_some_and(|bad| 2 * bad.count > bad.blocks)
    }
}

impl SchemeReport {
    pub(super) fn new(scheme: &Scheme) -> Self {
        Self {
            code: scheme.code().to_string(),
            layout: scheme.layout_name().to_string(),
            ecc_bytes: scheme.ecc_bytes(),
            ..Self::without_code(scheme.geometry())
        }
    }

    /// Report on no pages.
    fn nothing() -> Self {
        Self {
            page_bytes: 0,
            oob_bytes: 0,
            pages_per_block: None,
            code: NO_CODE.to_owned(),
            layout: NO_CODE.to_owned(),
            ecc_bytes: 0,
        }
    }

    /// Report on pages without a code.
    pub(super) fn without_code(geometry: &PageGeometry) -> Self {
        Self {
            page_bytes: geometry.page_bytes,
            oob_bytes: geometry.oob_bytes,
            pages_per_block: geometry.pages_per_block,
            code: NO_CODE.to_owned(),
            layout: NO_CODE.to_owned(),
            ecc_bytes: 0,
        }
    }

    /// True when no code protects the pages.
    pub fn is_without_code(&self) -> bool {
        self.code == NO_CODE
    }
}

/// Counts of pages and steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) pages: u64,
    pub(super) erased: Erased,
    /// Number of steps, by corrected bits.
    pub(super) bits: Vec<u64>,
    pub(super) uncorrectable: u64,
    pub(super) failures: Vec<Failure>,
    pub(super) blocks: u64,
    pub(super) bad: Vec<u64>,
    pub(super) bad_count: u64,
    pub(super) bad_uncorrectable: u64,
}

impl Tally {
    pub(super) fn erased(&mut self, bitflips: u32) {
        self.erased.pages += 1;
        self.erased.with_bitflips += u64::from(bitflips > 0);
        self.erased.bitflips += u64::from(bitflips);
    }

    pub(super) fn corrected(&mut self, bits: u32) {
        let at = bits as usize;
        if self.bits.len() <= at {
            self.bits.resize(at + 1, 0);
        }
        self.bits[at] += 1;
    }

    pub(super) fn failed(&mut self, failure: Failure) {
        self.uncorrectable += 1;
        if self.failures.len() < MAX_LISTED {
            self.failures.push(failure);
        }
    }

    /// Tally of a bad block: its pages, and its failed steps.
    pub(super) fn of_bad_block(self, block: u64) -> Self {
        let (pages, bad_uncorrectable) = (self.pages, self.uncorrectable);
        Self { pages, bad: vec![block], bad_count: 1, bad_uncorrectable, ..Self::default() }
    }

    /// Adds the counts of later pages.
    pub(super) fn add(&mut self, later: Self) {
        self.pages += later.pages;
        self.erased.pages += later.erased.pages;
        self.erased.with_bitflips += later.erased.with_bitflips;
        self.erased.bitflips += later.erased.bitflips;
        self.bits.resize(self.bits.len().max(later.bits.len()), 0);
        self.bits.iter_mut().zip(&later.bits).for_each(|(all, more)| *all += more);
        self.uncorrectable += later.uncorrectable;
        extend(&mut self.failures, later.failures);
        self.blocks += later.blocks;
        extend(&mut self.bad, later.bad);
        self.bad_count += later.bad_count;
        self.bad_uncorrectable += later.bad_uncorrectable;
    }

    fn steps(&self) -> Steps {
        let clean = self.bits.first().copied().unwrap_or(0);
        let corrected = self.bits.iter().skip(1).sum();
        let uncorrectable = self.uncorrectable;
        Steps { total: clean + corrected + uncorrectable, clean, corrected, uncorrectable }
    }

    /// Report from the counts, without the fields that are not counted per page.
    pub(super) fn report(self, scheme: SchemeReport) -> DecodeReport {
        let bars = (0..).zip(&self.bits).skip(1).filter(|(_, steps)| **steps > 0);
        let histogram: Vec<Bar> = bars.map(|(bits, steps)| Bar { bits, steps: *steps }).collect();
        DecodeReport {
            scheme,
            pages: self.pages,
            erased: self.erased,
            steps: self.steps(),
            corrected_bits: histogram.iter().map(|bar| u64::from(bar.bits) * bar.steps).sum(),
            max_corrected_bits: histogram.last().map_or(0, |bar| bar.bits),
            histogram,
            uncorrectable: self.failures,
            columns: Vec::new(),
            bad_blocks: None,
            rest_bytes: 0,
            written_bytes: 0,
        }
    }
}

/// Appends elements up to the limit of listed elements.
fn extend<T>(list: &mut Vec<T>, more: Vec<T>) {
    let room = MAX_LISTED.saturating_sub(list.len());
    list.extend(more.into_iter().take(room));
}
