//! Correction of pages with OOB.

use super::columns::Columns;
use super::page::{Corrector, PageState};
use super::regions::{RegionEcc, Regions};
use super::report::{BadBlockReport, DecodeReport, Failure, SchemeReport, Tally};
use super::stream::{Chunk, Dump, Grouping, Pages, Shape, Writer, all_ff};
use super::stuck::StuckColumn;
use super::{EccError, PageGeometry, Scheme};
use rayon::prelude::*;
use std::io::Write;

/// Treatment of the data of blocks that are marked bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadBlocks {
    /// Keep the data, so that the offsets of later data do not change.
    #[default]
    Keep,
    /// Omit the data, as in the reads of a boot loader that skips bad blocks.
    Skip,
}

/// Options of decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Treatment of bad blocks in the output.
    pub bad_blocks: BadBlocks,
    /// Largest number of zero bits in an erased step; when absent, the number of bits that the code corrects.
    pub erased_threshold: Option<u32>,
}

/// Corrects a dump and writes its data. Uncorrectable steps are written as they were read, and are reported.
/// `progress` gets the number of processed bytes of the file with the pages.
///
/// # Errors
/// A file without a whole page, OOB that is too short or too long, or a failure to read or write.
pub fn decode(
    scheme: &Scheme,
    dump: Dump<'_>,
    out: Option<&mut dyn Write>,
    options: DecodeOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<DecodeReport, EccError> {
    let regions = Regions::one(RegionEcc::Code(Box::new(scheme.clone())));
    only(decode_regions(scheme.geometry(), &regions, dump, out, options, progress)?)
}

/// Writes the data of a dump without corrections and without OOB.
///
/// # Errors
/// As [`decode`].
pub fn strip(
    geometry: &PageGeometry,
    dump: Dump<'_>,
    out: Option<&mut dyn Write>,
    options: DecodeOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<DecodeReport, EccError> {
    let regions = Regions::one(RegionEcc::None);
    only(decode_regions(geometry, &regions, dump, out, options, progress)?)
}

/// Report on the only region.
fn only(reports: Vec<DecodeReport>) -> Result<DecodeReport, EccError> {
    reports.into_iter().next().ok_or(EccError::Empty)
}

/// As [`decode`], for a dump with regions. Returns a report on each region that the dump reaches. Numbers of pages
/// and blocks, and offsets, are relative to the start of the dump.
///
/// # Errors
/// As [`decode`].
pub fn decode_regions(
    geometry: &PageGeometry,
    regions: &Regions,
    dump: Dump<'_>,
    out: Option<&mut dyn Write>,
    options: DecodeOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<DecodeReport>, EccError> {
    let ecc_bytes = regions.schemes().map(Scheme::ecc_bytes).max().unwrap_or(0);
    let (mut pages, mut writer) = (Pages::new(geometry, ecc_bytes, dump), Writer::new(out));
    let shape = pages.shape();
    let (mut chunk, mut data) = (Chunk::default(), Vec::new());
    let mut parts: Vec<Part> = regions.iter().map(|_| Part::default()).collect();
    let (mut first_page, mut rest_bytes) = (0, 0);
    while pages.next(&mut chunk)? {
        let work = Work { geometry, regions, options, shape, chunk: &chunk, first_page, columns: &[] };
        parts.iter_mut().enumerate().for_each(|(at, part)| work.look_at_columns(at, part));
        let columns: Vec<Vec<StuckColumn>> = parts.iter().map(Part::stuck).collect();
        let work = Work { columns: &columns, ..work };
        let groups = work.run(&mut data);
        let size = work.group_pages() * geometry.page_bytes as usize;
        for ((at, group), data) in groups.into_iter().enumerate().zip(data.chunks(size)) {
            let part = &mut parts[regions.index(first_page + (at * work.group_pages()) as u64)];
            let before = writer.offset();
            // Bad blocks are treated as the options state.
            if options.bad_blocks == BadBlocks::Keep || group.bad_count == 0 {
                writer.write(data)?;
            }
            part.written += writer.offset() - before;
            part.tally.add(group);
        }
        first_page += chunk.pages as u64;
        let rest = shape.rest(&chunk);
        rest_bytes += rest.len() as u64;
        let before = writer.offset();
        writer.write(&rest[..rest.len().min(geometry.page_bytes as usize)])?;
        parts[regions.index(first_page)].written += writer.offset() - before;
        progress(pages.offset());
    }
    if first_page == 0 {
        return Err(pages.too_short());
    }
    let knows_bad = geometry.pages_per_block.is_some() && shape.has_markers();
    let last = regions.index(first_page - 1);
    parts.truncate(last + 1);
    let reports = regions.iter().zip(parts).enumerate().map(|(at, ((_, ecc), part))| {
        let (columns, Part { tally, written, .. }) = (part.stuck(), part);
        let bad_blocks = knows_bad.then(|| bad_blocks(&tally, options));
        let scheme = ecc.scheme().map_or_else(|| SchemeReport::without_code(geometry), SchemeReport::new);
        let rest_bytes = if at == last { rest_bytes } else { 0 };
        DecodeReport { columns, bad_blocks, rest_bytes, written_bytes: written, ..tally.report(scheme) }
    });
    Ok(reports.collect())
}

/// Progress in a region.
#[derive(Default)]
struct Part {
    tally: Tally,
    /// Number of bytes written.
    written: u64,
    /// Values and corrections of each byte in the first pages with data.
    columns: Option<Columns>,
}

impl Part {
    /// Stuck columns of the chip that were found so far.
    fn stuck(&self) -> Vec<StuckColumn> {
        self.columns.as_ref().map_or_else(Vec::new, Columns::stuck)
    }
}

fn bad_blocks(tally: &Tally, options: DecodeOptions) -> BadBlockReport {
    BadBlockReport {
        blocks: tally.blocks,
        bad: tally.bad.clone(),
        count: tally.bad_count,
        skipped: options.bad_blocks == BadBlocks::Skip,
        uncorrectable_steps: tally.bad_uncorrectable,
    }
}

/// A chunk to correct.
struct Work<'a> {
    geometry: &'a PageGeometry,
    regions: &'a Regions,
    options: DecodeOptions,
    shape: Shape,
    chunk: &'a Chunk,
    first_page: u64,
    /// Stuck columns of each region.
    columns: &'a [Vec<StuckColumn>],
}

impl Work<'_> {
    fn group_pages(&self) -> usize {
        Grouping::new(self.geometry).pages
    }

    /// Searches for stuck columns in the pages of a region, until enough pages were examined.
    fn look_at_columns(&self, region: usize, part: &mut Part) {
        let own = |at: &usize| self.regions.index(self.first_page + *at as u64) == region;
        let mut pages = (0..self.chunk.pages).filter(own).peekable();
        let Some(&first) = pages.peek() else { return };
        let Some(scheme) = self.regions.at(self.first_page + first as u64).scheme() else { return };
        let full_page = self.geometry.full_page() as usize;
        let columns = part.columns.get_or_insert_with(|| Columns::new(full_page));
        let threshold = self.options.erased_threshold.unwrap_or(scheme.code().strength());
        let mut corrector = Corrector::new(scheme, threshold);
        let mut raw = vec![0xFF; full_page];
        for at in pages {
            if columns.is_known() {
                break;
            }
            self.shape.load(scheme, self.chunk, at, &mut raw);
            columns.add(scheme, &mut corrector, self.first_page + at as u64, &raw);
        }
    }

    /// Corrects the pages of the chunk into `data` on all cores. Returns one tally per group, in order.
    fn run(&self, data: &mut Vec<u8>) -> Vec<Tally> {
        let page = self.geometry.page_bytes as usize;
        data.resize(self.chunk.pages * page, 0);
        let groups = data.par_chunks_mut(self.group_pages() * page).enumerate();
        groups.map(|(at, data)| self.group(at * self.group_pages(), data)).collect()
    }

    /// Corrects the pages of the chunk from `first` on, as many as fit into `data`.
    fn group(&self, first: usize, data: &mut [u8]) -> Tally {
        let region = self.regions.index(self.first_page + first as u64);
        let scheme = self.regions.at(self.first_page + first as u64).scheme();
        let columns = self.columns.get(region).map_or(&[][..], Vec::as_slice);
        let tally = match scheme {
            Some(scheme) => self.correct((scheme, columns), first, data),
            None => self.copy(first, data),
        };
        let has_marker = scheme.is_none_or(|scheme| scheme.has_marker(self.geometry.marker.byte));
        match self.block(first) {
            Some(block) if has_marker && self.is_bad(first, tally.pages) => {
                Tally { blocks: 1, ..tally.of_bad_block(block) }
            }
            Some(_) => Tally { blocks: 1, ..tally },
            None => tally,
        }
    }

    fn correct(&self, (scheme, columns): (&Scheme, &[StuckColumn]), first: usize, data: &mut [u8]) -> Tally {
        let threshold = self.options.erased_threshold.unwrap_or(scheme.code().strength());
        let mut corrector = Corrector::new(scheme, threshold).with_columns(columns);
        let mut tally = Tally::default();
        for (at, data) in (first..).zip(data.chunks_exact_mut(self.geometry.page_bytes as usize)) {
            self.shape.load(scheme, self.chunk, at, &mut corrector.raw);
            let number = self.first_page + at as u64;
            let found = corrector.correct(number);
            corrector.extract_data(data);
            self.count(scheme, &corrector, found, number, &mut tally);
        }
        if corrector.is_foreign() { self.leave(&mut corrector, scheme, first, data) } else { tally }
    }

    /// Keeps the pages of a block as they were read, if the code explains almost none of their steps: corrections
    /// would then be accidental matches.
    fn leave(&self, corrector: &mut Corrector<'_>, scheme: &Scheme, first: usize, data: &mut [u8]) -> Tally {
        let mut tally = Tally::default();
        for (at, data) in (first..).zip(data.chunks_exact_mut(self.geometry.page_bytes as usize)) {
            data.copy_from_slice(self.shape.page(self.chunk, at).0);
            tally.pages += 1;
            if all_ff(data) {
                tally.erased(0);
                continue;
            }
            let page = self.first_page + at as u64;
            self.shape.load(scheme, self.chunk, at, &mut corrector.raw);
            if let PageState::Erased(bitflips) = corrector.correct(page) {
                tally.erased(bitflips);
                continue;
            }
            for (step, result) in (0..).zip(&corrector.steps) {
                match result {
                    Ok(0) => tally.corrected(0),
                    _ => tally.failed(self.failure(scheme, page, step)),
                }
            }
        }
        tally
    }

    fn copy(&self, first: usize, data: &mut [u8]) -> Tally {
        let mut tally = Tally::default();
        for (at, data) in (first..).zip(data.chunks_exact_mut(self.geometry.page_bytes as usize)) {
            data.copy_from_slice(self.shape.page(self.chunk, at).0);
            tally.pages += 1;
            if all_ff(data) {
                tally.erased(0);
            }
        }
        tally
    }

    fn count(
        &self,
        scheme: &Scheme,
        corrector: &Corrector<'_>,
        found: PageState,
        page: u64,
        tally: &mut Tally,
    ) {
        tally.pages += 1;
        if let PageState::Erased(bitflips) = found {
            return tally.erased(bitflips);
        }
        for (step, result) in (0..).zip(&corrector.steps) {
            match result {
                Ok(bits) => tally.corrected(*bits),
                Err(_) => tally.failed(self.failure(scheme, page, step)),
            }
        }
    }

    fn failure(&self, scheme: &Scheme, page: u64, step: u32) -> Failure {
        let offset = self.shape.offset(page) + u64::from(scheme.map().data_offset(step as usize));
        let block = self.geometry.pages_per_block.map(|pages| page / u64::from(pages));
        Failure { offset, page, block, step }
    }

    /// Number of the block that starts with page `first` of the chunk.
    fn block(&self, first: usize) -> Option<u64> {
        let pages = self.geometry.pages_per_block?;
        Some((self.first_page + first as u64) / u64::from(pages))
    }

    /// True if one of the `pages` pages of the block has a bad block marker.
    fn is_bad(&self, first: usize, pages: u64) -> bool {
        let marker = &self.geometry.marker;
        let marked = |page: usize| {
            let (_, oob) = self.shape.page(self.chunk, first + page);
            oob.get(marker.byte as usize).is_some_and(|byte| *byte != 0xFF)
        };
        let there = marker.pages.iter().filter(|page| u64::from(**page) < pages);
        self.shape.has_markers() && there.into_iter().any(|page| marked(*page as usize))
    }
}
