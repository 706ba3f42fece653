//! Several dumps of one chip as one: bits by vote, steps by their ECC.
//!
//! Cells near their limit read differently from time to time, so that a step which one dump cannot correct may be right in another, or in the
//! majority of all. Each step is tried as the vote has it, as each dump has it, and with the bits turned over on which the dumps disagree.

use super::page::is_erased_raw;
use super::regions::Regions;
use super::report::{Failure, MAX_LISTED};
use super::stream::{Chunk, Dump, Grouping, Pages, Shape, Writer, all_ff};
use super::{EccError, PageGeometry, Scheme, detect, sample};
use floatgate_ecc::check_erased;
use rayon::prelude::*;
use serde::Serialize;
use std::io::Write;

/// Most dumps of a chip.
pub const MAX_DUMPS: usize = 16;

/// Most bits of a step on which dumps disagree that are tried one with another.
const MAX_TRIED_BITS: usize = 8;

/// Least bytes of a page, neither 00h nor FFh in both dumps, that tell whether dumps are of one chip.
const LEAST_BYTES: u32 = 64;

/// Bytes for each zero bit, at least, in a page that is erased: one wrong bit in 32.
const ERASED_BYTES_PER_ZERO: usize = 4;

/// Zero bits of a byte from which it is data: single wrong bits seldom are in one byte.
const DATA_ZEROS: u32 = 4;

/// Least bytes of the OOB of a page, neither 00h nor FFh in both dumps, that tell whether the OOB is the same.
const LEAST_OOB_BYTES: u32 = 16;

/// Share of the bits of such bytes, in percent, from which pages are alike. Two reads of one page with one wrong bit in 50 agree on 96 %,
/// random pages on 50 %, and pages of text on about 70 %.
const ALIKE_PERCENT: u64 = 85;

/// Least pages with data from which dumps are known to be of different chips.
const LEAST_COMPARED: u64 = 4;

/// Report on a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MergeReport {
    /// Whole pages written.
    pub pages: u64,
    /// Pages on which the dumps disagree.
    pub pages_that_differ: u64,
    /// Bits on which the dumps disagree.
    pub bits_that_differ: u64,
    /// Bits for which as many dumps read 0 as 1. In a page that is erased in all dumps they are written as 1, elsewhere as the first dump has them, unless
    /// the ECC tells them.
    pub undecided_bits: u64,
    /// Pages that are erased in some dumps, and not in others.
    pub erased_in_some: ErasedInSome,
    /// Steps with data under a code.
    pub steps: MergedSteps,
    /// The dumps, in the order in which they were given.
    pub dumps: Vec<MergedDump>,
    /// The first uncorrectable steps, at most 1000.
    pub uncorrectable: Vec<Failure>,
    /// Bytes after the last whole page of the first dump: they are not written.
    pub rest_bytes: u64,
    /// Number of bytes written.
    pub written_bytes: u64,
    /// Comparison of each dump with others; nothing for the first one.
    #[serde(skip)]
    compared: Vec<Compared>,
}

/// Pages that are erased in some dumps, and not in others.
///
/// A chip that does not answer, or a bad contact, reads FFh. No read of an erased page gives codewords. A page is therefore data if its code corrects all
/// of it in a dump, or if as many dumps have data in it as have it erased. Data are a step that the code corrects; without a code, more than single zero
/// bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErasedInSome {
    /// Written as the dumps with data have them.
    pub as_data: u64,
    /// Written as erased.
    pub as_erased: u64,
}

impl ErasedInSome {
    const fn count(&mut self, is_erased: bool) {
        if is_erased {
            self.as_erased += 1;
        } else {
            self.as_data += 1;
        }
    }
}

/// Steps of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MergedSteps {
    /// Steps with data.
    pub total: u64,
    /// The vote needs no correction, or the ECC corrects it.
    pub by_vote: u64,
    /// The ECC corrects one of the dumps, and not the vote.
    pub by_one_dump: u64,
    /// The ECC corrects the vote once some bits are turned over on which the dumps disagree.
    pub by_combination: u64,
    /// Nothing corrects them: they are written as voted.
    pub uncorrectable: u64,
}

/// A dump of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MergedDump {
    /// Number of whole pages.
    pub pages: u64,
    /// Bits that differ from what was written, without those that nothing decides.
    pub wrong_bits: u64,
    /// Steps that it alone cannot correct.
    pub uncorrectable_alone: u64,
}

/// Comparison of a dump with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Compared {
    /// Likeness of its pages to those of the first dump.
    pages: Likeness,
    /// Likeness to the second dump, of pages that are unlike those of the first one.
    to_second: Likeness,
    /// Likeness of its OOB to the OOB of the first dump.
    oob: Likeness,
}

/// Merges dumps of one chip, pages with OOB, and writes pages with OOB. Pages that a shorter dump lacks are those of the others.
///
/// # Errors
/// No dump, or too many; a first dump without a whole page; dumps of different chips, once all is written; what reading and writing meet.
pub fn merge(
    geometry: &PageGeometry,
    regions: &Regions,
    dumps: Vec<Dump<'_>>,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<MergeReport, EccError> {
    if dumps.is_empty() || dumps.len() > MAX_DUMPS {
        return Err(EccError::Dumps { count: dumps.len() });
    }
    let mut inputs: Vec<(Pages<'_>, Chunk)> =
        dumps.into_iter().map(|dump| (Pages::new(geometry, 0, dump), Chunk::default())).collect();
    let mut report = MergeReport {
        dumps: vec![MergedDump::default(); inputs.len()],
        compared: vec![Compared::default(); inputs.len()],
        ..Default::default()
    };
    let mut writer = Writer::new(Some(out));
    let mut merged = Vec::new();
    loop {
        let mut most = 0;
        for ((pages, chunk), dump) in inputs.iter_mut().zip(&mut report.dumps) {
            pages.next(chunk)?;
            dump.pages += chunk.pages as u64;
            most = most.max(chunk.pages);
        }
        let shape = inputs.first().map(|(pages, chunk)| (pages.shape(), pages.shape().rest(chunk).len()));
        report.rest_bytes += shape.map_or(0, |(_, rest)| rest as u64);
        if most == 0 {
            break;
        }
        let read = inputs.iter().map(|(pages, chunk)| (pages.shape(), chunk)).collect();
        let work = Work { geometry, regions, read, first_page: report.pages };
        work.compare(&mut report.compared);
        let tallies = work.run(most, &mut merged);
        writer.write(&merged)?;
        report.pages += most as u64;
        tallies.into_iter().for_each(|tally| report.add(tally));
        progress(inputs.first().map_or(0, |(pages, _)| pages.offset()));
    }
    if report.pages == 0 {
        return Err(inputs.first().map_or(EccError::Empty, |(pages, _)| pages.too_short()));
    }
    report.require_one_chip()?;
    report.written_bytes = writer.offset();
    Ok(report)
}

/// Refuses a dump whose ECC bytes are in another layout than those under which dumps were merged. `dump` is its number, from 1.
///
/// # Errors
/// [`EccError::OtherLayout`]; the dump cannot be read.
pub fn require_layout(
    geometry: &PageGeometry,
    regions: &Regions,
    (number, dump): (usize, Dump<'_>),
) -> Result<(), EccError> {
    let sampled = match sample(geometry, dump, &mut |_| ()) {
        Err(EccError::AllErased | EccError::TooLittle) => return Ok(()),
        sampled => sampled?,
    };
    let own = detect(geometry, None, &sampled).regions;
    let names = |regions: &Regions| {
        let mut names: Vec<String> = regions
            .schemes()
            .map(|scheme| format!("{} in the layout {}", scheme.code(), scheme.layout_name()))
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let (found, expected) = (names(&own), names(regions));
    if found.is_empty() || expected.is_empty() || found.iter().any(|name| expected.contains(name)) {
        return Ok(());
    }
    let [found, expected] = [found, expected].map(|names| names.join(", "));
    Err(EccError::OtherLayout { dump: number, found, expected })
}

/// Likeness of a dump and the first one, over their pages with data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Likeness {
    pub(super) compared: u64,
    pub(super) alike: u64,
    /// Bits that were compared, and those that agree.
    bits: u64,
    agreeing: u64,
}

impl Likeness {
    /// Compares the bytes of a page that are not filled with 00h or FFh in both dumps.
    pub(super) fn page(one: &[u8], other: &[u8]) -> Self {
        Self::of(one, other, LEAST_BYTES)
    }

    /// Compares bytes like [`page`](Self::page). At least `least` of them must have contents.
    fn of(one: &[u8], other: &[u8], least: u32) -> Self {
        let is_fill = |byte: u8| byte == 0 || byte == 0xFF;
        let (mut bytes, mut differing) = (0, 0);
        for (one, other) in one.iter().zip(other).filter(|(one, other)| !is_fill(**one) || !is_fill(**other))
        {
            bytes += 1;
            differing += (one ^ other).count_ones();
        }
        if bytes < least {
            return Self::default();
        }
        let (bits, agreeing) = (u64::from(8 * bytes), u64::from(8 * bytes - differing));
        Self { compared: 1, alike: u64::from(100 * agreeing >= ALIKE_PERCENT * bits), bits, agreeing }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.compared += more.compared;
        self.alike += more.alike;
        self.bits += more.bits;
        self.agreeing += more.agreeing;
    }

    /// True if more than a quarter of the pages are different.
    const fn is_unlike(&self) -> bool {
        self.compared >= LEAST_COMPARED && 4 * self.alike < 3 * self.compared
    }

    /// Number of pages that are different.
    const fn unlike(&self) -> u64 {
        self.compared - self.alike
    }
}

impl MergeReport {
    /// Numbers of the dumps, from 1, of which most steps are uncorrectable alone: their ECC bytes may be in another layout.
    pub fn doubtful(&self) -> impl Iterator<Item = usize> {
        let is_doubtful = |dump: &&MergedDump| 2 * dump.uncorrectable_alone > self.steps.total;
        let numbered = (1..).zip(&self.dumps);
        numbered.filter(move |(_, dump)| is_doubtful(dump)).map(|(number, _)| number)
    }

    /// Numbers of the dumps with several pages that are not those of the first dump, which may stand at other places.
    pub fn strays(&self) -> impl Iterator<Item = usize> {
        let numbered = (1..).zip(&self.compared);
        numbered.filter(|(_, dump)| dump.pages.unlike() >= LEAST_COMPARED).map(|(number, _)| number)
    }

    /// Refuses a dump of which nearly all steps are uncorrectable, and which has another OOB than the others. `dump` is its number, from 1.
    ///
    /// # Errors
    /// [`EccError::OtherOob`].
    pub fn require_oob(&self, dump: usize) -> Result<(), EccError> {
        let at = dump.saturating_sub(1);
        // What is compared with the first dump tells of the first one, too.
        let other = usize::from(at == 0);
        let is_lost = |at: usize| {
            self.dumps.get(at).is_some_and(|one| 10 * one.uncorrectable_alone >= 9 * self.steps.total)
        };
        let oob = self.compared.get(at.max(other)).map(|compared| compared.oob);
        match oob.filter(|oob| oob.is_unlike() && is_lost(at) && !is_lost(other)) {
            Some(Likeness { compared, alike, .. }) => {
                Err(EccError::OtherOob { dump, other: other + 1, compared, alike })
            }
            None => Ok(()),
        }
    }

    /// Refuses a dump of which many pages are not those of the others. It is the first one if the others are alike, or if it alone has nearly no
    /// step that its code corrects.
    fn require_one_chip(&self) -> Result<(), EccError> {
        let unlike = || (1..).zip(&self.compared).filter(|(_, one)| one.pages.is_unlike());
        let Some((at, odd)) = unlike().next() else { return Ok(()) };
        let are_all = unlike().count() + 1 == self.dumps.len();
        let others = self.compared.get(2..).unwrap_or_default();
        let is_first = match self.dumps.as_slice() {
            [first, second] => {
                let total = self.steps.total;
                10 * first.uncorrectable_alone >= 9 * total && 2 * second.uncorrectable_alone < total
            }
            _ => are_all && others.iter().all(|one| !one.to_second.is_unlike()),
        };
        let (dump, other) = if is_first { (1, 2) } else { (at, 1) };
        let Likeness { compared, alike, bits, agreeing } = odd.pages;
        let agree = 100.0 * agreeing as f64 / bits.max(1) as f64;
        Err(EccError::OtherChip { dump, other, compared, alike, agree })
    }

    /// True when no step with data is uncorrectable and no byte was left over.
    pub const fn is_good(&self) -> bool {
        self.steps.uncorrectable == 0 && self.rest_bytes == 0
    }

    fn add(&mut self, tally: Self) {
        self.pages_that_differ += tally.pages_that_differ;
        self.bits_that_differ += tally.bits_that_differ;
        self.undecided_bits += tally.undecided_bits;
        self.erased_in_some.as_data += tally.erased_in_some.as_data;
        self.erased_in_some.as_erased += tally.erased_in_some.as_erased;
        let (steps, more) = (&mut self.steps, tally.steps);
        steps.total += more.total;
        steps.by_vote += more.by_vote;
        steps.by_one_dump += more.by_one_dump;
        steps.by_combination += more.by_combination;
        steps.uncorrectable += more.uncorrectable;
        for (dump, more) in self.dumps.iter_mut().zip(tally.dumps) {
            dump.wrong_bits += more.wrong_bits;
            dump.uncorrectable_alone += more.uncorrectable_alone;
        }
        let room = MAX_LISTED.saturating_sub(self.uncorrectable.len());
        self.uncorrectable.extend(tally.uncorrectable.into_iter().take(room));
    }
}

/// Chunks of all dumps.
struct Work<'w> {
    geometry: &'w PageGeometry,
    regions: &'w Regions,
    read: Vec<(Shape, &'w Chunk)>,
    first_page: u64,
}

impl Work<'_> {
    /// Compares the pages of each dump with those of the first one, and those that differ with the second one.
    fn compare(&self, all: &mut [Compared]) {
        let Some(((shape, first), others)) = self.read.split_first() else { return };
        let second = others.first();
        for ((other_shape, other), own) in others.iter().zip(all.iter_mut().skip(1)) {
            let compared = (0..first.pages.min(other.pages)).into_par_iter().map(|at| {
                let ((one, one_oob), (data, oob)) = (shape.page(first, at), other_shape.page(other, at));
                // A chip that does not answer reads FFh.
                if is_worn_erased(one) || is_worn_erased(data) {
                    return <(Likeness, Likeness, Likeness)>::default();
                }
                let likeness = Likeness::page(one, data);
                let second = second.filter(|(_, second)| likeness.unlike() > 0 && at < second.pages);
                let to_second = second.map(|(shape, second)| Likeness::page(shape.page(second, at).0, data));
                (likeness, to_second.unwrap_or_default(), Likeness::of(one_oob, oob, LEAST_OOB_BYTES))
            });
            for (likeness, to_second, oob) in compared.collect::<Vec<_>>() {
                own.pages.add(likeness);
                own.to_second.add(to_second);
                own.oob.add(oob);
            }
        }
    }

    /// Merges pages into `merged`, all cores at work; one tally per group, in order.
    fn run(&self, pages: usize, merged: &mut Vec<u8>) -> Vec<MergeReport> {
        let (full_page, group) = (self.geometry.full_page() as usize, Grouping::new(self.geometry).pages);
        merged.resize(pages * full_page, 0);
        let groups = merged.par_chunks_mut(group * full_page).enumerate();
        let merge = |(at, merged): (usize, &mut [u8])| {
            let mut merger = Merger::new(self.geometry, self.read.len());
            for (at, out) in (at * group..).zip(merged.chunks_exact_mut(full_page)) {
                let raws: Vec<Option<Vec<u8>>> = self
                    .read
                    .iter()
                    .map(|(shape, chunk)| {
                        (at < chunk.pages).then(|| {
                            let (data, oob) = shape.page(chunk, at);
                            [data, oob].concat()
                        })
                    })
                    .collect();
                let number = self.first_page + at as u64;
                merger.page(self.regions.at(number).scheme(), number, &raws, out);
            }
            merger.report
        };
        groups.map(merge).collect()
    }
}

/// Merges pages, and counts.
struct Merger<'g> {
    geometry: &'g PageGeometry,
    report: MergeReport,
}

/// Source of the right bytes of a step.
#[derive(Clone, Copy)]
enum Origin {
    Vote,
    Dump,
    Combination,
}

/// Message and ECC bytes of a step.
type Step = (Vec<u8>, Vec<u8>);

/// A page of a dump.
struct PageRead {
    /// The page is erased, but for as many bits as the code corrects. It has no steps then.
    is_erased: bool,
    steps: Vec<Step>,
    /// The steps as their code corrects them.
    right: Vec<Option<Step>>,
}

impl PageRead {
    fn new(scheme: &Scheme, number: u64, raw: &[u8]) -> Self {
        if is_erased_raw(scheme, raw) {
            return Self { is_erased: true, steps: Vec::new(), right: Vec::new() };
        }
        let mut raw = raw.to_vec();
        scheme.randomize(number, &mut raw);
        let steps = steps(scheme, &raw);
        let right = steps.iter().map(|step| decoded(scheme, step)).collect();
        Self { is_erased: false, steps, right }
    }

    /// True when a step with data is right, or can be corrected.
    fn has_data(&self) -> bool {
        self.right.iter().flatten().any(|(message, ecc)| !all_ff(message) || !all_ff(ecc))
    }

    /// True when the page has data, and each of its steps is right or can be corrected.
    fn is_right(&self) -> bool {
        self.has_data() && self.right.iter().all(Option::is_some)
    }
}

impl<'g> Merger<'g> {
    fn new(geometry: &'g PageGeometry, dumps: usize) -> Self {
        let report = MergeReport { dumps: vec![MergedDump::default(); dumps], ..Default::default() };
        Self { geometry, report }
    }

    fn page(&mut self, scheme: Option<&Scheme>, number: u64, raws: &[Option<Vec<u8>>], out: &mut [u8]) {
        let there: Vec<&[u8]> = raws.iter().flatten().map(Vec::as_slice).collect();
        let Vote { differing, mut undecided, mut ties } = vote(&there, out);
        self.report.bits_that_differ += differing;
        self.report.pages_that_differ += u64::from(differing > 0);
        match scheme {
            Some(scheme) => self.correct(scheme, number, raws, (&mut *out, &mut ties)),
            None if differing > 0 => {
                let (erased, with_data): (Vec<&[u8]>, Vec<&[u8]>) =
                    there.into_iter().partition(|raw| is_worn_erased(raw));
                if !erased.is_empty() && !with_data.is_empty() {
                    let is_erased = erased.len() > with_data.len();
                    self.report.erased_in_some.count(is_erased);
                    Vote { undecided, ties, .. } = vote(if is_erased { &erased } else { &with_data }, out);
                }
            }
            None => {}
        }
        self.report.undecided_bits += undecided;
        for (raw, dump) in raws.iter().zip(&mut self.report.dumps) {
            let bytes = raw.iter().flatten().zip(out.iter()).zip(&ties);
            let wrong = bytes.map(|((one, other), tie)| ((one ^ other) & !tie).count_ones());
            dump.wrong_bits += u64::from(wrong.sum::<u32>());
        }
    }

    /// Corrects the vote of a page under a code. A page is erased in all of its steps or in none ([`ErasedInSome`]): the dumps in which it is the other
    /// way are left out. Bits that the code decides are no ties.
    fn correct(
        &mut self,
        scheme: &Scheme,
        number: u64,
        raws: &[Option<Vec<u8>>],
        (out, ties): (&mut [u8], &mut Vec<u8>),
    ) {
        let reads: Vec<Option<PageRead>> =
            raws.iter().map(|raw| Some(PageRead::new(scheme, number, raw.as_ref()?))).collect();
        for (read, dump) in reads.iter().zip(&mut self.report.dumps) {
            let right = read.iter().flat_map(|read| &read.right);
            dump.uncorrectable_alone += right.filter(|right| right.is_none()).count() as u64;
        }
        let count = |is: &dyn Fn(&PageRead) -> bool| reads.iter().flatten().filter(|read| is(read)).count();
        let (all, erased) = (count(&|_| true), count(&|read| read.is_erased));
        if erased == all || erased == 0 && is_erased_raw(scheme, out) {
            return;
        }
        let is_erased = erased > count(&PageRead::has_data) && count(&PageRead::is_right) == 0;
        if erased > 0 {
            self.report.erased_in_some.count(is_erased);
        }
        let kept: Vec<(&[u8], &PageRead)> = raws
            .iter()
            .zip(&reads)
            .filter_map(|(raw, read)| raw.as_deref().zip(read.as_ref()))
            .filter(|(_, read)| read.is_erased == is_erased)
            .collect();
        if kept.len() < all {
            *ties = vote(&kept.iter().map(|(raw, _)| *raw).collect::<Vec<_>>(), out).ties;
        }
        let (mut messages, mut ecc) = (Vec::new(), Vec::new());
        if is_erased {
            scheme.map().extract(out, &mut messages, &mut ecc);
            messages.fill(0xFF);
            ecc.fill(0xFF);
            scheme.map().put(out, &messages, &ecc);
            decide(scheme, ties, &messages, &ecc);
            let (counts, steps) = (&mut self.report.steps, u64::from(scheme.steps()));
            counts.total += steps;
            let counted = if 2 * erased > all { &mut counts.by_vote } else { &mut counts.by_one_dump };
            *counted += steps;
            return;
        }
        scheme.randomize(number, out);
        let (mut told, mut told_ecc) = (Vec::new(), Vec::new());
        for (at, voted) in steps(scheme, out).into_iter().enumerate() {
            let own =
                kept.iter().filter_map(|(_, read)| Some((read.steps.get(at)?, read.right.get(at)?.as_ref())));
            let failed = self.report.steps.uncorrectable;
            let step = self.step(scheme, (number, at), voted, &own.collect::<Vec<_>>());
            let fill = if self.report.steps.uncorrectable == failed { 0xFF } else { 0 };
            told.resize(told.len() + step.0.len(), fill);
            told_ecc.resize(told_ecc.len() + step.1.len(), fill);
            messages.extend(step.0);
            ecc.extend(step.1);
        }
        scheme.map().put(out, &messages, &ecc);
        decide(scheme, ties, &told, &told_ecc);
        scheme.randomize(number, out);
    }

    /// The right bytes of a step, or the vote: of all codewords that vote, dumps and combinations lead to the one nearest to all dumps. Each dump has the
    /// step as it was read, and as its code corrects it.
    fn step(
        &mut self,
        scheme: &Scheme,
        place: (u64, usize),
        voted: Step,
        dumps: &[(&Step, Option<&Step>)],
    ) -> Step {
        let distance = |right: &Step| dumps.iter().map(|(dump, _)| differing_bits(dump, right)).sum::<u32>();
        let counts = &mut self.report.steps;
        counts.total += 1;
        let mut best: Option<(u32, Origin, Step)> = None;
        let mut offer = |origin, right: &Step| {
            let far = distance(right);
            if best.as_ref().is_none_or(|(least, ..)| far < *least) {
                best = Some((far, origin, right.clone()));
            }
        };
        decoded(scheme, &voted).iter().for_each(|right| offer(Origin::Vote, right));
        dumps.iter().filter_map(|(_, right)| *right).for_each(|right| offer(Origin::Dump, right));
        if dumps.iter().any(|(_, right)| right.is_none()) {
            let read: Vec<&Step> = dumps.iter().map(|(step, _)| *step).collect();
            combined(scheme, &voted, &read).iter().for_each(|right| offer(Origin::Combination, right));
        }
        match best {
            Some((_, origin, right)) => {
                match origin {
                    Origin::Vote => counts.by_vote += 1,
                    Origin::Dump => counts.by_one_dump += 1,
                    Origin::Combination => counts.by_combination += 1,
                }
                right
            }
            None => {
                counts.uncorrectable += 1;
                if self.report.uncorrectable.len() < MAX_LISTED {
                    self.report.uncorrectable.push(self.failure(scheme, place));
                }
                voted
            }
        }
    }

    fn failure(&self, scheme: &Scheme, (page, step): (u64, usize)) -> Failure {
        let offset = page * u64::from(self.geometry.full_page()) + u64::from(scheme.map().data_offset(step));
        let block = self.geometry.pages_per_block.map(|pages| page / u64::from(pages));
        Failure { offset, page, block, step: step as u32 }
    }
}

/// A vote on the bits of a page.
struct Vote {
    /// Bits on which the dumps disagree, and those of them without a majority.
    differing: u64,
    undecided: u64,
    /// Bits that nothing decides, as a mask of the page.
    ties: Vec<u8>,
}

/// Writes the majority of each bit. Where there is none, the bit is 1 in a page that is erased in all dumps: programming clears bits, and a wrong bit of
/// an erased page reads 0. Elsewhere the first dump's is written.
fn vote(raws: &[&[u8]], out: &mut [u8]) -> Vote {
    let mut vote = Vote { differing: 0, undecided: 0, ties: vec![0; out.len()] };
    let Some((first, others)) = raws.split_first() else { return vote };
    out.copy_from_slice(first);
    if others.iter().all(|other| other == first) {
        return vote;
    }
    for (at, (out, tie)) in out.iter_mut().zip(&mut vote.ties).enumerate() {
        let differs = others.iter().fold(0, |bits, other| bits | other[at] ^ first[at]);
        if differs == 0 {
            continue;
        }
        for bit in (0..8).filter(|bit| differs >> bit & 1 == 1) {
            let ones = raws.iter().filter(|raw| raw[at] >> bit & 1 == 1).count();
            vote.differing += 1;
            if 2 * ones == raws.len() {
                vote.undecided += 1;
                *tie |= 1 << bit;
            } else {
                *out = *out & !(1 << bit) | u8::from(2 * ones > raws.len()) << bit;
            }
        }
    }
    if vote.undecided > 0 && raws.iter().all(|raw| is_worn_erased(raw)) {
        out.iter_mut().zip(&vote.ties).for_each(|(byte, tie)| *byte |= tie);
        vote.ties.fill(0);
    }
    vote
}

/// True of an erased page with single wrong bits.
fn is_worn_erased(raw: &[u8]) -> bool {
    let zeros: u32 = raw.iter().map(|byte| byte.count_zeros()).sum();
    zeros as usize * ERASED_BYTES_PER_ZERO <= raw.len()
        && raw.iter().all(|byte| byte.count_zeros() < DATA_ZEROS)
}

/// Removes ties that a code has decided: those are FFh in the messages and the ECC bytes.
fn decide(scheme: &Scheme, ties: &mut [u8], messages: &[u8], ecc: &[u8]) {
    let mut decided = vec![0; ties.len()];
    scheme.map().put(&mut decided, messages, ecc);
    ties.iter_mut().zip(decided).for_each(|(tie, decided)| *tie &= !decided);
}

/// The steps of a raw page that is not randomized.
fn steps(scheme: &Scheme, raw: &[u8]) -> Vec<Step> {
    let (mut messages, mut ecc) = (Vec::new(), Vec::new());
    scheme.map().extract(raw, &mut messages, &mut ecc);
    let mut rest = messages.as_slice();
    let eccs = ecc.chunks_exact(scheme.code().ecc_bytes() as usize);
    let step = |(bytes, ecc): (usize, &[u8])| {
        let (message, later) = rest.split_at(bytes.min(rest.len()));
        rest = later;
        (message.to_vec(), ecc.to_vec())
    };
    scheme.map().message_bytes().zip(eccs).map(step).collect()
}

/// A step as its code corrects it, or erased but for as many bits as the code corrects.
fn decoded(scheme: &Scheme, step: &Step) -> Option<Step> {
    let (mut message, mut ecc) = step.clone();
    if scheme.codec().decode(&mut message, &mut ecc).is_ok() {
        return Some((message, ecc));
    }
    (message, ecc) = step.clone();
    check_erased(&mut message, &mut ecc, &mut [], scheme.code().strength()).ok()?;
    Some((message, ecc))
}

fn differing_bits(one: &Step, other: &Step) -> u32 {
    let pairs = one.0.iter().zip(&other.0).chain(one.1.iter().zip(&other.1));
    pairs.map(|(one, other)| (one ^ other).count_ones()).sum()
}

/// The codewords to which the vote leads with some bits turned over on which the dumps disagree; none where these are many.
fn combined(scheme: &Scheme, voted: &Step, dumps: &[&Step]) -> Vec<Step> {
    let mut places: Vec<usize> = Vec::new();
    let bytes = voted.0.len() + voted.1.len();
    let byte = |step: &Step, at: usize| {
        let place = at.checked_sub(step.0.len()).map_or_else(|| step.0.get(at), |at| step.1.get(at));
        place.copied().unwrap_or(0)
    };
    for at in 0..bytes {
        let differs = dumps.iter().fold(0, |bits, dump| bits | byte(dump, at) ^ byte(voted, at));
        places.extend((0..8).filter(|bit| differs >> bit & 1 == 1).map(|bit| 8 * at + bit));
        if places.len() > MAX_TRIED_BITS {
            return Vec::new();
        }
    }
    let turned = |subset: u32| {
        let mut step = voted.clone();
        for (_, place) in places.iter().enumerate().filter(|(at, _)| subset >> at & 1 == 1) {
            let (at, mask) = (place / 8, 1 << (place % 8));
            match at.checked_sub(step.0.len()) {
                None => step.0[at] ^= mask,
                Some(at) => step.1[at] ^= mask,
            }
        }
        decoded(scheme, &step)
    };
    (1..1 << places.len()).filter_map(turned).collect()
}
