//! NAND dumps with OOB, whose pages are corrected into a temporary file, each region with its own code.

use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;

use floatgate_files::{File, FileExt, tempfile};
use serde::Serialize;

use crate::ImageError;
use crate::ecc::{
    self, DecodeOptions, DecodeReport, Dump, EccError, Marker, PageGeometry, RegionEcc, Regions,
};
use crate::format::location::ImageLocation;
use crate::pages::PageShape;

/// Correction of a dump with OOB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Corrected {
    /// Offset of the first page in the file, bytes.
    pub offset: u64,
    /// Sizes of the dump's pages, OOB and blocks.
    pub pages: PageShape,
    /// Parts of the dump, each with its protection.
    pub regions: Vec<CorrectedRegion>,
    /// Numbers of the blocks that are marked bad; empty if the bytes are no markers.
    #[serde(skip)]
    pub(super) bad_blocks: Vec<u64>,
}

/// A part of a dump with OOB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CorrectedRegion {
    /// Offset of the first page in the file, bytes.
    pub offset: u64,
    /// Length in the file, bytes.
    pub len: u64,
    /// Protection of the pages.
    #[serde(flatten)]
    pub outcome: RegionOutcome,
    /// True if other bytes are before or between the data of a page.
    #[serde(skip)]
    pub(super) interleaves: bool,
    /// Numbers of the pages.
    #[serde(skip)]
    numbers: Range<u64>,
}

/// Result of the ECC of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "ecc", content = "report", rename_all = "kebab-case")]
pub enum RegionOutcome {
    /// The pages were corrected.
    Code(Box<DecodeReport>),
    /// The OOB contains no ECC, so the pages are not corrected.
    None,
    /// No code explains the OOB, so the pages are not corrected.
    Unknown,
}

/// Note about pages whose code is unknown.
pub(super) const NO_CODE: &str = "no ECC code fits the dump: its pages are as they were read";

/// Note about pages without ECC.
pub(super) const NO_ECC: &str = "the OOB of the dump holds no ECC: its pages are as they were read";

impl CorrectedRegion {
    /// Report about the correction, if the code is known.
    pub const fn report(&self) -> Option<&DecodeReport> {
        match &self.outcome {
            RegionOutcome::Code(report) => Some(report),
            RegionOutcome::None | RegionOutcome::Unknown => None,
        }
    }

    /// Note about pages that were not corrected.
    fn note_without_code(&self, inside: &Range<u64>) -> Option<String> {
        let note = match self.outcome {
            RegionOutcome::Code(_) => return None,
            RegionOutcome::None => NO_ECC,
            RegionOutcome::Unknown => NO_CODE,
        };
        let is_all = self.numbers.start <= inside.start && inside.end <= self.numbers.end;
        let Self { offset, len, .. } = self;
        Some(if is_all {
            note.to_owned()
        } else {
            format!("{len} bytes from byte {offset} ({offset:#x}) on: {note}")
        })
    }

    fn overlaps(&self, pages: &Range<u64>) -> bool {
        self.numbers.start < pages.end && pages.start < self.numbers.end
    }
}

impl Corrected {
    /// Reports about the regions with a known code.
    pub fn reports(&self) -> impl Iterator<Item = &DecodeReport> {
        self.regions.iter().filter_map(CorrectedRegion::report)
    }

    /// True if the ECC has corrected bits.
    pub(super) fn has_corrections(&self) -> bool {
        self.reports().any(|report| report.corrected_bits > 0 || report.erased.bitflips > 0)
    }

    /// Regions that contain parts of an image.
    fn regions_of(&self, image: &ImageLocation) -> impl Iterator<Item = &CorrectedRegion> {
        let pages = self.pages_of(image);
        self.regions.iter().filter(move |region| region.overlaps(&pages))
    }

    fn pages_of(&self, image: &ImageLocation) -> Range<u64> {
        let page = u64::from(self.pages.page_bytes);
        image.offset / page..(image.offset + image.len).div_ceil(page).min(self.end())
    }

    /// Number of the page after the last one.
    fn end(&self) -> u64 {
        self.regions.last().map_or(0, |region| region.numbers.end)
    }

    /// True if codes protect all pages of an image.
    pub(super) fn has_code(&self, image: &ImageLocation) -> bool {
        self.regions_of(image).all(|region| region.report().is_some())
    }

    /// True if no code explains the OOB of some pages of an image, so that their wrong bits are not corrected.
    pub fn has_unknown_code(&self, image: &ImageLocation) -> bool {
        self.regions_of(image).any(|region| region.outcome == RegionOutcome::Unknown)
    }

    /// Notes about pages of an image that no ECC covers.
    pub(super) fn notes_without_code(&self, image: &ImageLocation) -> Vec<String> {
        let pages = self.pages_of(image);
        self.regions_of(image).filter_map(|region| region.note_without_code(&pages)).collect()
    }

    /// Notes about pages of an image that the ECC could not correct, page by page, and pages that were not corrected.
    /// Nodes of a filesystem have their own CRCs, so the effect of such pages shows when the filesystem is read.
    pub fn notes(&self, image: &ImageLocation) -> Vec<String> {
        self.notes_of(&self.pages_of(image))
    }

    /// Notes of [`notes`](Self::notes) for the whole dump.
    pub fn all_notes(&self) -> Vec<String> {
        self.notes_of(&(0..self.end()))
    }

    fn notes_of(&self, inside: &Range<u64>) -> Vec<String> {
        let mut notes = Vec::new();
        for region in self.regions.iter().filter(|region| region.overlaps(inside)) {
            notes.extend(region.note_without_code(inside));
            let Some(report) = region.report() else { continue };
            let mut pages: Vec<u64> = report.uncorrectable.iter().map(|failure| failure.page).collect();
            pages.dedup();
            pages.retain(|page| inside.contains(page));
            notes.extend(pages.into_iter().map(|page| self.lost_page(page)));
            let unlisted = report.steps.uncorrectable.saturating_sub(report.uncorrectable.len() as u64);
            if unlisted > 0 {
                notes.push(format!("{unlisted} more ECC steps of the dump cannot be corrected"));
            }
        }
        notes
    }

    /// Offset in the dump of a byte of the pages' data.
    pub fn file_byte(&self, at: u64) -> u64 {
        let page = u64::from(self.pages.page_bytes);
        self.offset + at / page * u64::from(self.pages.stride()) + at % page
    }

    /// Offset in the pages' data of a byte of the dump; `None` in the OOB and before the first page.
    pub fn data_byte(&self, at: u64) -> Option<u64> {
        let (page, stride) = (u64::from(self.pages.page_bytes), u64::from(self.pages.stride()));
        let at = at.checked_sub(self.offset)?;
        (at % stride < page).then(|| at / stride * page + at % stride)
    }

    /// Offset in the dump of the bad block marker for the block with this byte of the data.
    pub(super) fn bad_mark(&self, at: u64) -> u64 {
        let block = u64::from(self.pages.block_bytes());
        let page = self.pages.page_bytes;
        self.file_byte(at - at % block) + u64::from(page) + u64::from(Marker::usual_byte(page))
    }

    /// Numbers of PEBs or eraseblocks whose blocks are marked bad.
    pub(super) fn bad_pebs(&self, image: &ImageLocation) -> Vec<u32> {
        let Some(peb_bytes) = image.block_bytes() else { return Vec::new() };
        let bytes = u64::from(self.pages.block_bytes());
        let peb = |block: &u64| (block * bytes).checked_sub(image.offset).map(|at| at / u64::from(peb_bytes));
        let pebs = self.bad_blocks.iter().filter_map(peb);
        pebs.filter_map(|pnum| u32::try_from(pnum).ok()).collect()
    }

    /// Offsets in the image of the pages with data that the ECC could not correct.
    pub(super) fn lost_pages(&self, image: &ImageLocation) -> Vec<u64> {
        let page_bytes = u64::from(self.pages.page_bytes);
        let failures = self.reports().flat_map(|report| &report.uncorrectable);
        let places = failures.filter_map(|failure| (failure.page * page_bytes).checked_sub(image.offset));
        places.filter(|&at| at < image.len).collect()
    }

    fn lost_page(&self, page: u64) -> String {
        let block = page / u64::from(self.pages.pages_per_block);
        let at = self.file_byte(page * u64::from(self.pages.page_bytes));
        format!(
            "page {page} (block {block}, {}) has more wrong bits than its ECC corrects",
            Self::place_of_page(at)
        )
    }

    /// Text about the position of a page in notes, from its offset in the file.
    pub(super) fn place_of_page(at: u64) -> String {
        format!("byte {at:#x} of the file")
    }
}

/// Removes the OOB from a file from an offset on, and corrects the pages. Finding the codes takes longer than the
/// correction, so known regions can be passed.
pub(super) fn correct(
    file: &File,
    start: u64,
    pages: PageShape,
    known: Option<&Regions>,
) -> Result<(File, Corrected, Regions), ImageError> {
    let geometry = geometry(pages)?;
    let regions = match known {
        Some(known) => known.clone(),
        None => find_regions(&geometry, file, start)?,
    };
    let out = tempfile().map_err(ImageError::File)?;
    let reports = decode(&geometry, &regions, (file, start), &out)?;
    let of_pages = |numbers: Range<u64>| {
        let [first, end] = [numbers.start, numbers.end].map(|page| start + page * u64::from(pages.stride()));
        (first, end - first)
    };
    let (mut corrected, mut bad_blocks) = (Vec::new(), Vec::new());
    for ((numbers, ecc), report) in regions.iter().zip(reports) {
        let numbers = numbers.start..numbers.start + report.pages;
        let (offset, len) = of_pages(numbers.clone());
        let marked = report.bad_blocks.as_ref().filter(|_| !report.too_many_bad());
        bad_blocks.extend(marked.iter().flat_map(|marked| &marked.bad));
        let interleaves = ecc.scheme().is_some_and(ecc::Scheme::interleaves);
        let outcome = match ecc {
            RegionEcc::Code(_) => RegionOutcome::Code(Box::new(report)),
            RegionEcc::None => RegionOutcome::None,
            RegionEcc::Unknown => RegionOutcome::Unknown,
        };
        corrected.push(CorrectedRegion { offset, len, outcome, interleaves, numbers });
    }
    Ok((out, Corrected { offset: start, pages, regions: corrected, bad_blocks }, regions))
}

/// Geometry of the pages that were found.
pub(super) fn geometry(pages: PageShape) -> Result<PageGeometry, ImageError> {
    Ok(PageGeometry::new(pages.page_bytes, pages.oob_bytes, Some(pages.pages_per_block))?)
}

/// A file from an offset on, independent of its own position.
struct Pages<'f> {
    file: &'f File,
    at: u64,
}

impl Read for Pages<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buf, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

fn find_regions(geometry: &PageGeometry, file: &File, start: u64) -> Result<Regions, ImageError> {
    let mut input = Pages { file, at: start };
    let dump = Dump { pages: &mut input, apart: None };
    match ecc::sample(geometry, dump, &mut |_| {}) {
        Ok(sample) => Ok(ecc::detect(geometry, None, &sample).regions),
        Err(EccError::AllErased | EccError::TooLittle) => Ok(Regions::one(RegionEcc::None)),
        Err(error) => Err(error.into()),
    }
}

fn decode(
    geometry: &PageGeometry,
    regions: &Regions,
    (file, start): (&File, u64),
    out: &File,
) -> Result<Vec<DecodeReport>, ImageError> {
    let mut input = Pages { file, at: start };
    let dump = Dump { pages: &mut input, apart: None };
    let (mut writer, options) = (BufWriter::new(out), DecodeOptions::default());
    let reports = ecc::decode_regions(geometry, regions, dump, Some(&mut writer), options, &mut |_| {})?;
    writer.flush().map_err(ImageError::File)?;
    Ok(reports)
}
