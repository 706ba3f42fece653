//! Pages with OOB to corrected data.

use super::page::{Corrector, Found};
use super::report::{BadBlockReport, DecodeReport, Failure, Tally};
use super::stream::{Chunk, Dump, Grouping, Pages, Shape, Writer};
use super::{EccError, Scheme};
use rayon::prelude::*;
use std::io::Write;

/// Handling of the data of blocks that are marked bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadBlocks {
    /// Keep it, so that what follows stays where it was.
    #[default]
    Keep,
    /// Leave it out, as a boot loader that skips bad blocks reads.
    Skip,
}

/// Choices of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Bad blocks in the output.
    pub bad_blocks: BadBlocks,
    /// Most zero bits of an erased step; as many as the code corrects when absent.
    pub erased_threshold: Option<u32>,
}

/// Corrects a dump and writes its data. What cannot be corrected is written as it was read, and reported. `progress` is
/// told how many bytes of the pages' file are done.
///
/// # Errors
/// A file without a whole page, OOB that is too short or too long; what reading and writing meet.
pub fn decode(
    scheme: &Scheme,
    dump: Dump<'_>,
    out: Option<&mut dyn Write>,
    options: DecodeOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<DecodeReport, EccError> {
    let (mut pages, mut writer) = (Pages::new(scheme.geometry(), scheme.ecc_bytes(), dump), Writer::new(out));
    let shape = pages.shape();
    let (mut chunk, mut data) = (Chunk::default(), Vec::new());
    let (mut tally, mut rest_bytes) = (Tally::default(), 0);
    while pages.next(&mut chunk)? {
        let work = Work { scheme, options, shape, chunk: &chunk, first_page: tally.pages };
        let groups = work.run(&mut data);
        write(&work, &groups, &data, &mut writer)?;
        groups.into_iter().for_each(|group| tally.add(group));
        let rest = shape.rest(&chunk);
        rest_bytes += rest.len() as u64;
        writer.write(&rest[..rest.len().min(scheme.geometry().page_bytes as usize)])?;
        progress(pages.offset());
    }
    if tally.pages == 0 {
        return Err(pages.too_short());
    }
    let knows_bad = scheme.geometry().pages_per_block.is_some() && shape.has_markers();
    let bad_blocks = knows_bad.then(|| bad_blocks(&tally, options));
    let written_bytes = writer.offset();
    Ok(DecodeReport { bad_blocks, rest_bytes, written_bytes, ..tally.report(scheme) })
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

/// Writes the data of a chunk's groups, bad blocks as the user wants them.
fn write(work: &Work<'_>, groups: &[Tally], data: &[u8], writer: &mut Writer<'_>) -> Result<(), EccError> {
    if work.options.bad_blocks == BadBlocks::Keep || groups.iter().all(|group| group.bad_count == 0) {
        return writer.write(data);
    }
    let size = work.group_pages() * work.scheme.geometry().page_bytes as usize;
    let good = groups.iter().zip(data.chunks(size)).filter(|(group, _)| group.bad_count == 0);
    good.map(|(_, data)| data).try_for_each(|data| writer.write(data))
}

/// A chunk to be corrected.
struct Work<'a> {
    scheme: &'a Scheme,
    options: DecodeOptions,
    shape: Shape,
    chunk: &'a Chunk,
    first_page: u64,
}

impl Work<'_> {
    fn group_pages(&self) -> usize {
        Grouping::new(self.scheme.geometry()).pages
    }

    /// Corrects the chunk's pages into `data`, all cores at work; one tally per group, in order.
    fn run(&self, data: &mut Vec<u8>) -> Vec<Tally> {
        let page = self.scheme.geometry().page_bytes as usize;
        data.resize(self.chunk.pages * page, 0);
        let groups = data.par_chunks_mut(self.group_pages() * page).enumerate();
        groups.map(|(at, data)| self.group(at * self.group_pages(), data)).collect()
    }

    /// Corrects the pages from `first` of the chunk on, as many as `data` takes.
    fn group(&self, first: usize, data: &mut [u8]) -> Tally {
        let threshold = self.options.erased_threshold.unwrap_or(self.scheme.code().strength());
        let mut corrector = Corrector::new(self.scheme, threshold);
        let mut tally = Tally::default();
        let page_bytes = self.scheme.geometry().page_bytes as usize;
        for (at, data) in (first..).zip(data.chunks_exact_mut(page_bytes)) {
            let (read, oob) = self.shape.page(self.chunk, at);
            data.copy_from_slice(read);
            self.shape.take_ecc(self.scheme, oob, &mut corrector.ecc);
            let found = corrector.correct(data);
            self.count(&corrector, found, self.first_page + at as u64, &mut tally);
        }
        match self.block(first) {
            Some(block) if self.is_bad(first, tally.pages) => {
                Tally { blocks: 1, ..tally.of_bad_block(block) }
            }
            Some(_) => Tally { blocks: 1, ..tally },
            None => tally,
        }
    }

    fn count(&self, corrector: &Corrector<'_>, found: Found, page: u64, tally: &mut Tally) {
        tally.pages += 1;
        if let Found::Erased(bitflips) = found {
            return tally.erased(bitflips);
        }
        for (step, result) in (0..).zip(&corrector.steps) {
            match result {
                Ok(bits) => tally.corrected(*bits),
                Err(_) => tally.failed(self.failure(page, step)),
            }
        }
    }

    fn failure(&self, page: u64, step: u32) -> Failure {
        let geometry = self.scheme.geometry();
        let offset = self.shape.offset(page) + u64::from(step * self.scheme.code().step_bytes());
        Failure { offset, page, block: geometry.pages_per_block.map(|pages| page / u64::from(pages)), step }
    }

    /// Number of the block that starts with page `first` of the chunk.
    fn block(&self, first: usize) -> Option<u64> {
        let pages = self.scheme.geometry().pages_per_block?;
        Some((self.first_page + first as u64) / u64::from(pages))
    }

    /// True when one of the block's `pages` pages has a bad block marker.
    fn is_bad(&self, first: usize, pages: u64) -> bool {
        let marker = &self.scheme.geometry().marker;
        let marked = |page: usize| {
            let (_, oob) = self.shape.page(self.chunk, first + page);
            oob.get(marker.byte as usize).is_some_and(|byte| *byte != 0xFF)
        };
        let there = marker.pages.iter().filter(|page| u64::from(**page) < pages);
        self.shape.has_markers() && there.into_iter().any(|page| marked(*page as usize))
    }
}
