//! NAND dumps with OOB: the pages are corrected into a temporary file.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use serde::Serialize;

use super::ImageError;
use super::detect::{Found, PageShape};
use crate::ecc::{self, DecodeOptions, DecodeReport, Dump, Marker, PageGeometry, Scheme};

/// Correction of a dump with OOB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Corrected {
    /// Offset of the first page in the file, bytes.
    pub offset: u64,
    /// The pages.
    pub pages: PageShape,
    /// Report of the ECC; none if no code fits: the pages are then as they were read.
    pub report: Option<DecodeReport>,
    /// Numbers of the blocks that are marked bad; none if what stands there are no marks.
    #[serde(skip)]
    pub(super) bad_blocks: Vec<u64>,
}

/// Note on a dump whose code is not known.
pub(super) const NO_CODE: &str = "no ECC code fits the dump: its pages are as they were read";

impl Corrected {
    /// True when the ECC has corrected anything.
    pub(super) fn has_corrections(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.corrected_bits > 0 || report.erased.bitflips > 0)
    }

    /// Losses of an image that the ECC could not correct, page by page. Nodes of a filesystem have CRCs of their own: what this costs shows
    /// when it is read.
    pub fn notes(&self, image: &Found) -> Vec<String> {
        let page = u64::from(self.pages.page_bytes);
        self.notes_of(image.offset / page..(image.offset + image.len).div_ceil(page))
    }

    /// As [`notes`](Self::notes), of the whole dump.
    pub fn all_notes(&self) -> Vec<String> {
        self.notes_of(0..u64::MAX)
    }

    fn notes_of(&self, inside: Range<u64>) -> Vec<String> {
        let Some(report) = &self.report else {
            return vec![NO_CODE.to_owned()];
        };
        let mut pages: Vec<u64> = report.uncorrectable.iter().map(|failure| failure.page).collect();
        pages.dedup();
        pages.retain(|page| inside.contains(page));
        let mut notes: Vec<String> = pages.into_iter().map(|page| self.lost_page(page)).collect();
        let unlisted = report.steps.uncorrectable.saturating_sub(report.uncorrectable.len() as u64);
        if unlisted > 0 {
            notes.push(format!("{unlisted} more ECC steps of the dump cannot be corrected"));
        }
        notes
    }

    /// The byte of the dump that is a byte of the data in its pages.
    pub fn file_byte(&self, at: u64) -> u64 {
        let page = u64::from(self.pages.page_bytes);
        self.offset + at / page * u64::from(self.pages.stride()) + at % page
    }

    /// The byte of the data in the pages that is a byte of the dump; `None` in the OOB and before the first page.
    pub fn data_byte(&self, at: u64) -> Option<u64> {
        let (page, stride) = (u64::from(self.pages.page_bytes), u64::from(self.pages.stride()));
        let at = at.checked_sub(self.offset)?;
        (at % stride < page).then(|| at / stride * page + at % stride)
    }

    /// The byte of the dump that marks the block bad in which a byte of the data is.
    pub(super) fn bad_mark(&self, at: u64) -> u64 {
        let block = u64::from(self.pages.block_bytes());
        let page = self.pages.page_bytes;
        self.file_byte(at - at % block) + u64::from(page) + u64::from(Marker::usual_byte(page))
    }

    /// PEBs of a device, or eraseblocks of a JFFS2, whose blocks are marked bad.
    pub(super) fn bad_pebs(&self, image: &Found) -> Vec<u32> {
        let Some(peb_bytes) = image.block_bytes() else { return Vec::new() };
        let bytes = u64::from(self.pages.block_bytes());
        let peb = |block: &u64| (block * bytes).checked_sub(image.offset).map(|at| at / u64::from(peb_bytes));
        let pebs = self.bad_blocks.iter().filter_map(peb);
        pebs.filter_map(|pnum| u32::try_from(pnum).ok()).collect()
    }

    /// First bytes of the pages with data that the ECC could not correct, in the image that they are in.
    pub(super) fn lost_pages(&self, image: &Found) -> Vec<u64> {
        let page_bytes = u64::from(self.pages.page_bytes);
        let failures = self.report.iter().flat_map(|report| &report.uncorrectable);
        let places = failures.filter_map(|failure| (failure.page * page_bytes).checked_sub(image.offset));
        places.filter(|&at| at < image.len).collect()
    }

    fn lost_page(&self, page: u64) -> String {
        let block = page / u64::from(self.pages.pages_per_block);
        let at = self.file_byte(page * u64::from(self.pages.page_bytes));
        format!(
            "page {page} (block {block}, byte {at:#x} of the file) has more wrong bits than its ECC corrects"
        )
    }
}

/// Takes the OOB out of a file from a byte on, and corrects what it protects. How that is done shows in an image that was found:
/// elsewhere there can be other codes. Finding out takes longer than the correction: who knows the scheme hands it over.
pub(super) fn correct(
    file: &File,
    start: u64,
    pages: PageShape,
    found: &Found,
    known: Option<&Scheme>,
) -> Result<(File, Corrected, Option<Scheme>), ImageError> {
    let geometry = PageGeometry::new(pages.page_bytes, pages.oob_bytes, Some(pages.pages_per_block))?;
    let out = tempfile::tempfile().map_err(ImageError::File)?;
    let known = known.filter(|known| *known.geometry() == geometry).cloned();
    let scheme = match known {
        Some(known) => Some(known),
        None => find_scheme(&geometry, file, found)?,
    };
    let (report, bad_blocks) = match &scheme {
        Some(scheme) => {
            let report = decode(scheme, file, start, &out)?;
            let marked = report.bad_blocks.as_ref().filter(|_| !report.too_many_bad());
            let bad_blocks = marked.map(|marked| marked.bad.clone()).unwrap_or_default();
            (Some(report), bad_blocks)
        }
        None => (None, strip(Pages { file, at: start }, &geometry, &out).map_err(ImageError::File)?),
    };
    Ok((out, Corrected { offset: start, pages, report, bad_blocks }, scheme))
}

/// A file from a byte on, whatever its own position is.
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

fn find_scheme(geometry: &PageGeometry, file: &File, found: &Found) -> Result<Option<Scheme>, ImageError> {
    let mut input = Pages { file, at: found.offset }.take(found.len);
    let dump = Dump { pages: &mut input, apart: None };
    let sample = ecc::sample(geometry, dump, &mut |_| {})?;
    Ok(ecc::detect(geometry, None, &sample).found().cloned())
}

fn decode(scheme: &Scheme, file: &File, start: u64, out: &File) -> Result<DecodeReport, ImageError> {
    let mut input = Pages { file, at: start };
    let dump = Dump { pages: &mut input, apart: None };
    let mut writer = BufWriter::new(out);
    let report = ecc::decode(scheme, dump, Some(&mut writer), DecodeOptions::default(), &mut |_| {})?;
    writer.flush().map_err(ImageError::File)?;
    Ok(report)
}

/// Takes out the OOB of pages that no code fits; the blocks that are marked bad.
fn strip(input: Pages<'_>, geometry: &PageGeometry, out: &File) -> io::Result<Vec<u64>> {
    let mut input = io::BufReader::new(input);
    let mut writer = BufWriter::new(out);
    let mut page = vec![0; geometry.full_page() as usize];
    let mut bad = Vec::new();
    let (mut number, pages_per_block) = (0_u64, u64::from(geometry.pages_per_block.unwrap_or(1)));
    while input.read_exact(&mut page).is_ok() {
        let (data, oob) = page.split_at(geometry.page_bytes as usize);
        writer.write_all(data)?;
        let is_marked = oob.get(geometry.marker.byte as usize).is_some_and(|&byte| byte != 0xFF);
        if is_marked && number.is_multiple_of(pages_per_block) {
            bad.push(number / pages_per_block);
        }
        number += 1;
    }
    writer.flush()?;
    // Where most blocks are marked, the bytes are other data of a controller.
    let are_marks = 2 * bad.len() as u64 <= number.div_ceil(pages_per_block);
    Ok(if are_marks { bad } else { Vec::new() })
}
