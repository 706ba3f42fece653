//! Losses of power of a card: at any operation of its NAND, at any moment, and again while it recovers.
//!
//! Each run is a new card and an array of what it must hold ([`floatgate_card::reference`]). Requests bring it into some state, then power goes
//! away four times amid more of them. Runs depend on seed and number alone: an id `SEED-NUMBER` repeats one.

use super::LoadedCard;
use crate::Error;
use crate::envelope::Reported;
use crate::show::number::{grouped_count, micros};
use crate::show::report::{Report, Section, Table};
use floatgate_card::reference::{Ended, ReferenceModel};
use floatgate_card::{CardSpec, LossSpec};
use floatgate_mtd::Nanos;
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use floatgate_mtd::random::hash;
use floatgate_mtd::size::text as size;
use floatgate_mtd::words::grouped;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Choice of the cuts, and of the card that is cut.
#[derive(Clone, Debug)]
pub struct CutOptions {
    /// Number of cuts, those of recoveries not counted.
    pub cuts: u64,
    /// Each operation of a short run instead of `cuts` at random.
    pub is_exhaustive: bool,
    /// Seed of cards and requests.
    pub seed: u64,
    /// Most cuts of a recovery.
    pub recovery_cuts: u32,
    /// Blocks fail to erase and pages fail to program.
    pub has_faults: bool,
    /// The card as it is, instead of one of its kind in small.
    pub is_whole: bool,
}

/// Cuts of a run.
const ROUNDS: u32 = 4;
/// Requests amid which power goes away.
const REQUESTS: u32 = 150;
/// Requests of an exhaustive run.
const SHORT: u32 = 25;
/// Most requests before the first cut.
const WARM_MAX: u64 = 600;
/// Most failures that are kept.
const FAILURES_MAX: usize = 100;
/// Runs between two reports of progress.
const CHUNK: u64 = 256;

/// Name of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutId {
    /// Seed of all runs.
    pub seed: u64,
    /// Number of the run; of an exhaustive one the operation that is cut, from 1.
    pub number: u64,
}

impl fmt::Display for CutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.seed, self.number)
    }
}

impl FromStr for CutId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('-').and_then(|(seed, number)| Some((seed.parse().ok()?, number.parse().ok()?)));
        let (seed, number) = parts.ok_or_else(|| "an id is SEED-NUMBER, such as 0-42".to_owned())?;
        Ok(Self { seed, number })
    }
}

/// A run in which something did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutFailure {
    /// Name by which the run can be repeated.
    pub id: String,
    /// Description of the fault.
    pub problem: String,
}

/// Result of all runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CutReport {
    /// Maker and name of the card.
    pub card: String,
    /// Size of the card that was cut, in bytes.
    pub capacity_bytes: u64,
    /// Number of runs.
    pub runs: u64,
    /// Losses of power amid requests.
    pub cuts: u64,
    /// Losses of power during recoveries, at most.
    pub recovery_cuts: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Blocks that failed.
    pub failed_blocks: u64,
    /// Runs that ended early because the card was worn out.
    pub worn_out: u64,
    /// Longest time in which the map was rebuilt, us.
    pub ready_us_max: f64,
    /// Bound of that time by the card's specification, us.
    pub ready_us_bound: f64,
    /// Runs in which something did not hold, at most 100.
    pub failures: Vec<CutFailure>,
    /// Sentence on what of the model a card without failures owes to assumptions.
    #[serde(skip)]
    pub assumptions: String,
}

impl Reported for CutReport {
    fn report(&self) -> Report {
        let count = grouped_count;
        let blocks = (self.failed_blocks > 0 || self.worn_out > 0).then(|| {
            let (failed, worn) = (count(self.failed_blocks, "block"), count(self.worn_out, "run"));
            format!("{failed} failed; {worn} ended with a card that was worn out")
        });
        let ready = format!(
            "the map was ready within {}; the bound is {}",
            micros(self.ready_us_max),
            micros(self.ready_us_bound)
        );
        let failures = self
            .failures
            .iter()
            .map(|failure| vec![failure.id.as_str().into(), failure.problem.as_str().into()]);
        let failures = Table::new(&["run", "problem"], &[], failures)
            .noted(["the id of a run repeats it alone".to_owned()]);
        Report {
            title: format!(
                "{} of {}: {} in {}, {} more during recoveries",
                self.card,
                size(self.capacity_bytes),
                count(self.cuts, "cut"),
                count(self.runs, "run"),
                grouped(self.recovery_cuts)
            ),
            head: [format!("{}, {} flushes", count(self.requests, "request"), grouped(self.flushes))]
                .into_iter()
                .chain(blocks)
                .chain([ready])
                .collect(),
            sections: if self.failures.is_empty() { Vec::new() } else { vec![Section::Table(failures)] },
            ..Report::default()
        }
    }
}

impl CutReport {
    /// Adds runs; the order does not matter but for the failures.
    fn add(mut self, other: Self) -> Self {
        self.runs += other.runs;
        self.cuts += other.cuts;
        self.recovery_cuts += other.recovery_cuts;
        self.requests += other.requests;
        self.flushes += other.flushes;
        self.failed_blocks += other.failed_blocks;
        self.worn_out += other.worn_out;
        self.ready_us_max = self.ready_us_max.max(other.ready_us_max);
        self.failures.extend(other.failures);
        self.failures.truncate(FAILURES_MAX);
        self
    }
}

/// Cuts a card. `progress` gets the number of cuts since its last call.
///
/// # Errors
/// A card that is impossible in the size asked for.
pub fn cut(
    card: &LoadedCard,
    options: &CutOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<CutReport, Error> {
    let spec = shaped(card, options)?;
    let (first, last, per_run) = match options.is_exhaustive {
        true => (1, operations(&spec, options), 1),
        false => (0, options.cuts.div_ceil(ROUNDS.into()).max(1) - 1, u64::from(ROUNDS)),
    };
    let mut report = empty(card, &spec);
    let mut from = first;
    while from <= last {
        let to = (from + CHUNK - 1).min(last);
        let runs: Vec<CutReport> =
            (from..=to).into_par_iter().map(|number| one(&spec, options, number)).collect();
        report = runs.into_iter().fold(report, CutReport::add);
        progress((to - from + 1) * per_run);
        from = to + 1;
    }
    Ok(report)
}

/// Repeats one run.
///
/// # Errors
/// A card that is impossible in the size asked for.
pub fn replay(card: &LoadedCard, options: &CutOptions, id: CutId) -> Result<CutReport, Error> {
    let options = CutOptions { seed: id.seed, ..options.clone() };
    let spec = shaped(card, &options)?;
    Ok(empty(card, &spec).add(one(&spec, &options, id.number)))
}

fn empty(card: &LoadedCard, spec: &CardSpec) -> CutReport {
    CutReport {
        card: card.name(),
        capacity_bytes: spec.capacity_bytes,
        ready_us_bound: spec.power_on_bound().as_us_f64(),
        assumptions: assumptions(card),
        ..CutReport::default()
    }
}

/// Sentence on the losses that the model of the card has, and on the confidence of its time without supply.
fn assumptions(card: &LoadedCard) -> String {
    let loss = match card.spec.loss == LossSpec::default() {
        true => "its model loses nothing by design, as it has no [card.loss]",
        false => "its model loses what [card.loss] says",
    };
    let source = card.part.source_of("card.power.hold_up_us");
    let sure = source.map_or_else(
        || "which has no source".to_owned(),
        |source| format!("which is {:.0} % sure", source.confidence * 100.0),
    );
    let hold_up = card.spec.power.hold_up_us;
    format!("This is no measurement: {loss}, and it works for {hold_up} without supply, {sure}.")
}

/// The card in the size asked for, with faults if there are to be some.
fn shaped(card: &LoadedCard, options: &CutOptions) -> Result<CardSpec, Error> {
    if card.spec.evil.is_some() {
        return Err(Error::request(
            "the firmware of this card changes contents without any cut, which these tests do not have",
            advice! { "cut another card; ", Command::Probe, " and `run` show what this one does" },
        ));
    }
    if card.spec.fake.is_some() {
        return Err(Error::request(
            "this card loses what is written behind its end without any cut, and these tests do not write there",
            advice! { "cut another card; ", Command::Probe, " and `serve` show what this one does" },
        ));
    }
    let mut spec = if options.is_whole { card.spec.clone() } else { card.spec.in_small() };
    // A host that gives up does not know what the card has done.
    spec.host = floatgate_card::HostSpec::default();
    if options.has_faults {
        spec.spare_blocks += 60;
        spec.wear.program_failures_per_million = 1000;
        // The weakest blocks live for some ten erases, without errors before.
        (spec.wear.endurance_cycles, spec.wear.life_factor, spec.wear.life_spread) = (3000, 0.01, 1.0);
    }
    let refused = |bad: floatgate_card::BadSpec| {
        Error::request(format!("in small, this card is impossible: {bad}"), "cut the whole card instead")
    };
    spec.check().map_err(refused)?;
    Ok(spec)
}

/// The run with a number.
fn one(spec: &CardSpec, options: &CutOptions, number: u64) -> CutReport {
    let mut report = CutReport { runs: 1, ..CutReport::default() };
    let seed = if options.is_exhaustive { options.seed } else { hash(options.seed, number, 0) };
    let outcome = ReferenceModel::new(spec, seed).map_err(|bad| bad.to_string()).and_then(|mut model| {
        let outcome = match options.is_exhaustive {
            true => short(&mut model, options, number, &mut report),
            false => rounds(&mut model, options, &mut report),
        };
        let traffic = model.traffic();
        (report.requests, report.flushes) = (traffic.requests, traffic.flushes);
        report.failed_blocks = (model.card().failed_blocks() as u64).saturating_sub(spec.bad_blocks.into());
        report.ready_us_max = model.ready_max().as_us_f64();
        outcome
    });
    if let Err(problem) = outcome {
        let id = CutId { seed: options.seed, number }.to_string();
        report.failures.push(CutFailure { id, problem });
    }
    report
}

/// Brings a new card into some state. Returns the mean time of a request.
fn warm(model: &mut ReferenceModel) -> Result<Nanos, String> {
    let requests = 1 + model.below(WARM_MAX);
    model.run(requests as u32)?;
    Ok(Nanos::from_ns(model.now().as_ns() / requests))
}

/// Cuts at random, at an operation or at a moment alternately.
fn rounds(model: &mut ReferenceModel, options: &CutOptions, report: &mut CutReport) -> Result<(), String> {
    let mean = warm(model)?;
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            let operation = 1 + model.below(400);
            model.card_mut().order_cut(operation);
        } else {
            let moment = Nanos::from_ns(model.below((mean * u64::from(REQUESTS)).as_ns()));
            let at = model.now() + moment;
            model.card_mut().order_removal(at);
        }
        match model.run(REQUESTS)? {
            Ended::PowerLost => {}
            Ended::Done => model.card_mut().cut_power(),
            Ended::WornOut => {
                report.worn_out += 1;
                return model.verify();
            }
        }
        report.cuts += 1;
        let again = model.below(u64::from(options.recovery_cuts) + 1) as u32;
        report.recovery_cuts += u64::from(again);
        model.power_on(again)?;
    }
    model.run(REQUESTS)?;
    model.verify()
}

/// Cuts a short run at one operation.
fn short(
    model: &mut ReferenceModel,
    options: &CutOptions,
    operation: u64,
    report: &mut CutReport,
) -> Result<(), String> {
    warm(model)?;
    model.card_mut().order_cut(operation);
    if model.run(SHORT)? != Ended::PowerLost {
        return Err(format!("the run has no operation {operation}"));
    }
    report.cuts += 1;
    report.recovery_cuts += u64::from(options.recovery_cuts);
    model.power_on(options.recovery_cuts)?;
    model.run(SHORT)?;
    model.verify()
}

/// Number of operations of the short run.
fn operations(spec: &CardSpec, options: &CutOptions) -> u64 {
    let Ok(mut model) = ReferenceModel::new(spec, options.seed) else { return 0 };
    if warm(&mut model).is_err() {
        return 0;
    }
    let count = |model: &ReferenceModel| {
        let stats = model.card().stats();
        stats.page_programs + stats.summary_programs + stats.erases
    };
    let before = count(&model);
    // What goes wrong here goes wrong in the runs, too.
    let _ = model.run(SHORT);
    count(&model) - before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::load;
    use floatgate_config::{Library, Override};

    #[test]
    fn a_card_without_losses_states_what_is_assumed() {
        let said = |name: &str, sets: &[&str]| {
            let sets = Override::parse_all(sets).unwrap();
            assumptions(&load(&Library::built_in(), name, &sets).unwrap())
        };
        let assumed = said("kingston-microsd-8g", &[]);
        for part in ["no measurement", "has no [card.loss]", "for 3.00 ms without supply, which is 30 % sure"]
        {
            assert!(assumed.contains(part), "{part}: {assumed}");
        }
        let set = said("kingston-microsd-8g", &["card.power.hold_up_us=0"]);
        assert!(set.contains("which is 100 % sure"), "{set}");
        let lossy = said("loses-flushed-8g", &[]);
        assert!(lossy.contains("loses what [card.loss] says"), "{lossy}");
    }
}
