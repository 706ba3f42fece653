//! Result of an endurance experiment.

use super::latency::{Latency, total_ns};
use super::life::{Stretch, cycles, life};
use super::subject::{Evidence, Subject};
use super::{Experiment, Pages};
use floatgate_mtd::random::{hash, mix};
use floatgate_sim::error::Error;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Result of the experiment on one chip. Its JSON is stable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the part as given by the caller.
    pub part: String,
    /// Maker and name of the chip.
    pub chip: String,
    /// Description of the chip in one line.
    pub title: String,
    /// Number of bits per cell.
    pub bits_per_cell: u8,
    /// Cycles that the data sheet promises.
    pub nominal_cycles: u64,
    /// Basis of the wear model: `measured` or `typical`.
    pub evidence: Cow<'static, str>,
    /// Confidence in the evidence, 0 to 1; `None` if the model is typical.
    pub confidence: Option<f64>,
    /// Parameters of the experiment.
    pub experiment: Experiment,
    /// Cycles until failure over all blocks.
    pub life: Life,
    /// tPROG of a page over the lives of the blocks; `None` if nothing was programmed.
    pub program: Option<Latency>,
    /// tBERS over the lives of the blocks.
    pub erase: Latency,
    /// tR, which does not change over the life, us.
    pub read_us: f64,
    /// Maximum tR of the data sheet, us.
    pub read_max_us: f64,
    /// Mean time for which a block kept the array busy until its failure, hours.
    pub busy_hours: f64,
    /// Cycles until failure of each block.
    pub blocks: Vec<BlockCycles>,
    /// Times of the block with the median life.
    pub trace: Trace,
    /// Remarks on the result.
    pub notes: Vec<String>,
}

/// Statistics of the cycles until the status reports a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Cycles of the first block to fail.
    pub min: u64,
    /// Median of the cycles; with an even number of blocks, the lower middle value.
    pub median: u64,
    /// Cycles of the last block to fail.
    pub max: u64,
    /// Mean number of cycles.
    pub mean: f64,
    /// Standard deviation; 0 for a single block.
    pub sd: f64,
    /// Ratio of the mean to the cycles of the data sheet.
    pub over_nominal: f64,
    /// Histogram of the cycles until failure.
    pub histogram: Vec<Bin>,
}

/// A bin of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Lowest number of cycles in the bin.
    pub from: u64,
    /// Highest number of cycles in the bin.
    pub to: u64,
    /// Number of blocks in the bin.
    pub blocks: u32,
}

/// Cycles until failure of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockCycles {
    /// Number of the chip.
    pub chip: u32,
    /// Number of the block in the chip.
    pub block: u32,
    /// Number of cycles before the one that failed.
    pub cycles: u64,
}

/// Times of one block against its cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Number of the chip.
    pub chip: u32,
    /// Number of the block in the chip.
    pub block: u32,
    /// Cycles at which a time changes, and the last cycle.
    pub points: Vec<Point>,
}

/// Times of a block from one cycle on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Number of the cycle; the first is 0.
    pub cycle: u64,
    /// tPROG from this cycle on, us; `None` if nothing is programmed.
    pub program_us: Option<f64>,
    /// tBERS from this cycle on, us.
    pub erase_us: f64,
}

/// Domain constant of the hash that derives the seeds of chips.
const CHIP: u64 = 0x43_48_49_50;

impl Subject {
    /// Seed of the chip with this number. It depends on the part, so that chips of two parts differ.
    pub fn chip_seed(&self, seed: u64, chip: u32) -> u64 {
        let name = self.name.bytes().fold(0, |h, byte| mix(h ^ u64::from(byte)));
        hash(seed ^ name, u64::from(chip), CHIP)
    }

    /// Life of one block.
    pub fn block_life(&self, experiment: &Experiment, chip: u32, block: u32) -> Vec<Stretch> {
        let drawn = self.wear.block(self.chip_seed(experiment.seed, chip), block);
        life(&self.wear, &drawn, experiment.stress(self.pages_per_block))
    }
}

/// Runs the experiment on all CPU cores. The result does not depend on their number.
///
/// # Errors
/// The experiment is impossible.
pub fn run(subject: &Subject, experiment: &Experiment) -> Result<Report, Error> {
    experiment.check()?;
    let numbers: Vec<(u32, u32)> =
        (0..experiment.chips).flat_map(|c| (0..experiment.blocks).map(move |b| (c, b))).collect();
    let lives: Vec<Vec<Stretch>> =
        numbers.par_iter().map(|&(chip, block)| subject.block_life(experiment, chip, block)).collect();
    report(subject, experiment, &numbers, &lives)
        .ok_or_else(|| Error::request("no block lived for one cycle", "change chip.wear or the experiment"))
}

/// Runs the experiment on each subject, in order.
///
/// # Errors
/// The errors of [`run`].
pub fn run_all(subjects: &[Subject], experiment: &Experiment) -> Result<Vec<Report>, Error> {
    let reports: Vec<_> = subjects.par_iter().map(|subject| run(subject, experiment)).collect();
    reports.into_iter().collect()
}

fn report(s: &Subject, e: &Experiment, numbers: &[(u32, u32)], lives: &[Vec<Stretch>]) -> Option<Report> {
    let slices: Vec<&[Stretch]> = lives.iter().map(Vec::as_slice).collect();
    let program = if e.erase_only { None } else { Some(Latency::over_lives(&slices, |s| s.program)?) };
    let lived = lives.iter().map(|life| cycles(life));
    let blocks: Vec<BlockCycles> = numbers
        .iter()
        .zip(lived)
        .map(|(&(chip, block), cycles)| BlockCycles { chip, block, cycles })
        .collect();
    let (evidence, confidence) = match s.evidence {
        Evidence::Measured { confidence } => ("measured", Some(confidence)),
        Evidence::Typical => ("typical", None),
    };
    Some(Report {
        part: s.part.clone(),
        chip: s.full_name(),
        title: s.title.clone(),
        bits_per_cell: s.bits_per_cell,
        nominal_cycles: s.nominal_cycles,
        evidence: evidence.into(),
        confidence,
        experiment: e.clone(),
        life: summary(&blocks, s.nominal_cycles)?,
        program,
        erase: Latency::over_lives(&slices, |s| s.erase)?,
        read_us: s.read.typ.as_us_f64(),
        read_max_us: s.read.max.as_us_f64(),
        busy_hours: busy_hours(s, e, lives),
        trace: trace(e, &blocks, lives)?,
        blocks,
        notes: notes(s, e),
    })
}

fn summary(blocks: &[BlockCycles], nominal: u64) -> Option<Life> {
    let mut sorted: Vec<u64> = blocks.iter().map(|b| b.cycles).collect();
    sorted.sort_unstable();
    let n = sorted.len();
    let mean = sorted.iter().map(|&c| c as f64).sum::<f64>() / n as f64;
    let squares: f64 = sorted.iter().map(|&c| (c as f64 - mean) * (c as f64 - mean)).sum();
    Some(Life {
        min: *sorted.first()?,
        median: sorted[(n - 1) / 2],
        max: *sorted.last()?,
        mean,
        sd: libm::sqrt(squares / (n.max(2) - 1) as f64),
        over_nominal: mean / nominal.max(1) as f64,
        histogram: histogram(&sorted),
    })
}

/// Histogram with bins of equal ratio from the shortest life to the longest. Their number follows Sturges
/// (1926).
fn histogram(sorted: &[u64]) -> Vec<Bin> {
    let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let count = if min == max { 1 } else { sorted.len().ilog2() + 2 };
    let ratio = libm::log(max as f64 / min.max(1) as f64) / f64::from(count);
    let edge = |i: u32| match i {
        0 => min,
        i if i == count => max + 1,
        i => libm::round(min as f64 * libm::exp(ratio * f64::from(i))) as u64,
    };
    let below = |cycles: u64| sorted.partition_point(|&c| c < cycles);
    let bin = |i| {
        let (from, next) = (edge(i), edge(i + 1));
        Bin { from, to: next.saturating_sub(1).max(from), blocks: (below(next) - below(from)) as u32 }
    };
    (0..count).map(bin).collect()
}

/// Hours of programming and erasing until a block fails, as the mean over all blocks.
fn busy_hours(subject: &Subject, experiment: &Experiment, lives: &[Vec<Stretch>]) -> f64 {
    let pages = match experiment.pages {
        _ if experiment.erase_only => 0,
        Pages::One => 1,
        Pages::All => subject.pages_per_block,
    };
    let whole = (0, u64::MAX);
    let each = lives.iter().map(|life| {
        let program = total_ns(life, whole, |s| s.program) as f64 * f64::from(pages);
        program + total_ns(life, whole, |s| s.erase) as f64
    });
    each.sum::<f64>() / lives.len().max(1) as f64 / 3.6e12
}

fn trace(experiment: &Experiment, blocks: &[BlockCycles], lives: &[Vec<Stretch>]) -> Option<Trace> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&i| (blocks[i].cycles, i));
    let median = *order.get((order.len().max(1) - 1) / 2)?;
    Some(Trace {
        chip: blocks[median].chip,
        block: blocks[median].block,
        points: points(&lives[median], experiment.erase_only),
    })
}

/// Points at each cycle where a time changes, and at the last cycle.
pub(super) fn points(life: &[Stretch], erase_only: bool) -> Vec<Point> {
    let at = |cycle: u64, s: &Stretch| Point {
        cycle,
        program_us: (!erase_only).then(|| s.program.as_us_f64()),
        erase_us: s.erase.as_us_f64(),
    };
    let mut points: Vec<Point> = life.iter().map(|s| at(s.from, s)).collect();
    points.dedup_by(|next, last| (next.program_us, next.erase_us) == (last.program_us, last.erase_us));
    if let Some(last) = life.last().filter(|s| s.cycles > 1) {
        points.push(at(last.end() - 1, last));
    }
    points
}

fn notes(subject: &Subject, experiment: &Experiment) -> Vec<String> {
    let mut notes = Vec::new();
    if subject.evidence == Evidence::Typical {
        notes.push(format!(
            "the wear of {} was not measured: lives and changes are typical of its kind, not of this chip",
            subject.name
        ));
    }
    if experiment.pattern != super::Pattern::Zeroes {
        notes.push(
            "what is programmed makes no difference to wear, neither measured nor in the model".to_owned(),
        );
    }
    if experiment.interleave > 1 {
        notes.push(
            "blocks written in turn share nothing that wears: as fast and as long as one by one".to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endurance::PAPER_CHIPS;
    use floatgate_config::Library;

    fn subject(part: &str) -> Subject {
        Subject::new(&Library::built_in(), part, &[]).unwrap()
    }

    #[test]
    fn every_block_is_in_one_bin() {
        for blocks in [1, 2, 10, 1000] {
            let report =
                run(&subject("mt29f4g08aac"), &Experiment { blocks, ..Experiment::default() }).unwrap();
            let bins = &report.life.histogram;
            assert_eq!(bins.iter().map(|b| b.blocks).sum::<u32>(), blocks);
            assert_eq!((bins[0].from, bins[bins.len() - 1].to), (report.life.min, report.life.max));
            assert!(bins.windows(2).all(|w| w[0].to + 1 == w[1].from), "{bins:?}");
        }
    }

    #[test]
    fn lives_come_from_the_model() {
        let report = run(&subject("mt29f8g08maawc"), &Experiment { blocks: 4000, ..Experiment::default() });
        let life = report.unwrap().life;
        assert!((life.mean / 544e3 - 1.0).abs() < 0.02 && (life.sd / life.mean - 0.265).abs() < 0.015);
        assert!(life.min < life.median && life.median < life.max);
    }

    #[test]
    fn harder_cycles_are_fewer() {
        let s = subject("29f16g08canc1");
        let with = |change: fn(&mut Experiment)| {
            let mut e = Experiment::default();
            change(&mut e);
            run(&s, &e).unwrap().life.median as f64
        };
        let plain = with(|_| {});
        let share = |change| with(change) / plain;
        assert!((share(|e| e.temperature_c = 5.0) - 0.5).abs() < 1e-4);
        assert!((share(|e| e.pages = Pages::All) - 0.5).abs() < 1e-4);
        assert!((share(|e| e.temperature_c = 80.0) - 1.0).abs() < 1e-12);
        assert!((share(|e| e.erase_only = true) - 1.0).abs() < 1e-12);
        assert!(share(|e| e.seed = 1) != 1.0);
    }

    #[test]
    fn no_two_chips_and_parts_are_twins() {
        let e = Experiment { chips: 3, ..Experiment::default() };
        let reports = run_all(&PAPER_CHIPS.map(subject), &e).unwrap();
        let mut shares: Vec<u64> = Vec::new();
        for report in &reports {
            let mean = report.life.mean;
            shares.extend(report.blocks.iter().map(|b| (b.cycles as f64 / mean * 1e4) as u64));
            assert_eq!(report.blocks.len(), 30);
        }
        shares.sort_unstable();
        shares.dedup();
        assert!(shares.len() > 220, "{} different of 240", shares.len());
    }

    #[test]
    fn threads_do_not_matter() {
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| run(&subject("hy27us08121a"), &Experiment::default()).unwrap())
        };
        assert_eq!(on(1), on(7));
    }
}
