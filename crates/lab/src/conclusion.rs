//! Conclusions of results other than studies: one to three sentences, made from the figures.
//!
//! Each result implements [`Concluded`], and its envelope contains the conclusion. Studies have theirs in
//! [`crate::study::Report::conclusion`]; conclusions of images and their ECC are in `image`.

mod image;

use crate::advise::{self, ecc};
use crate::card::compare::Matrix;
use crate::card::powercut::CutReport;
use crate::card::replay::Replay;
use crate::card::run::CardRun;
use crate::envelope::Concluded;
use crate::fit::{FitReport, FromTwo, Given};
use crate::fs_compare::{BySize, FsComparison, Row};
use crate::identify::{Candidate, Device, Identified};
use crate::papers::{Report as Papers, Summary};
use crate::powercut::Report as Cuts;
use crate::show::number::{grouped_count, seconds, three};
use crate::speed::Measured;
use crate::speed_run::{Advice, SpeedRun, explain};
use crate::study::setup::Grounded;
use crate::trace::Traced;
use floatgate_config::Node;
use floatgate_image::words::count;
use floatgate_mtd::size::text as size;
use floatgate_mtd::{Nanos, Phase};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Smallest percentage in a conclusion: rounded to 0.0 %, a bound would be wrong.
const LEAST_PERCENT: f64 = 0.1;

/// Text of a ratio in percent, with up to three digits.
fn percent(ratio: f64) -> String {
    let percent = (ratio.abs() * 100.0).max(LEAST_PERCENT);
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Text of the speed of a test, or of its time if it moves no bytes.
pub fn rate(test: &Measured) -> String {
    match test.bytes {
        0 => Nanos::from_ns(test.ns).to_string(),
        _ => format!("{} MiB/s", three(test.exact_kib_s / 1024.0)),
    }
}

impl SpeedRun {
    fn test(&self, names: [&str; 2]) -> Option<&Measured> {
        self.report.tests.iter().find(|test| names.contains(&test.name.as_str()))
    }
}

impl Concluded for SpeedRun {
    /// States the speed of reads and writes, the bottleneck of reads, and the change that improves them most.
    fn conclusion(&self) -> String {
        let read = self.test(["page read", "read 64 KiB"]);
        let write = self.test(["page write", "write 64 KiB"]);
        let (Some(read), Some(write)) = (read, write) else { return String::new() };
        let what = if self.report.filesystem.is_some() { "files in pieces of 64 KiB" } else { "pages" };
        let speed = format!("It reads {what} at {} and writes them at {}.", rate(read), rate(write));
        let of = |name: &str| self.advice.iter().find(|advice| advice.test == name);
        let long = self.report.filesystem.is_none().then(|| of("eraseblock read")).flatten();
        of(&read.name).map_or(speed.clone(), |advice| format!("{speed} {}", bottleneck(advice, long)))
    }
}

/// Factor from which a change that makes reads of eraseblocks faster is worth a clause.
const WORTH_A_CLAUSE: f64 = 1.1;

/// Sentence on reads of pages, and on those of eraseblocks if only these become faster by a single change.
fn bottleneck(pages: &Advice, eraseblocks: Option<&Advice>) -> String {
    let phase = Phase::ALL.into_iter().find(|phase| phase.name() == pages.bottleneck).map_or("", explain);
    let long = eraseblocks.and_then(|advice| advice.next.as_ref());
    let next = match (&pages.next, long.filter(|next| next.factor >= WORTH_A_CLAUSE)) {
        (Some(next), _) => format!("with {} they are {} times as fast", next.set, three(next.factor)),
        (None, Some(next)) => format!(
            "no single change of bus or driver makes reads of single pages faster, but with {} whole eraseblocks are read {} times as fast",
            next.set,
            three(next.factor)
        ),
        (None, None) => "no single change of bus or driver makes them faster".to_owned(),
    };
    format!("Reads spend {:.0} % of their time on {phase}; {next}.", pages.share_percent)
}

impl Concluded for Traced {
    /// States the duration of the operation, and its longest phase.
    fn conclusion(&self) -> String {
        let (phase, ns) = self.breakdown_ns.largest();
        let share = ns.as_ns() as f64 / self.ns.max(1) as f64;
        let takes = format!("{} takes {}", self.operation, Nanos::from_ns(self.ns));
        format!("{takes}; {} of it goes into {}.", percent(share), explain(phase))
    }
}

impl<C> Concluded for advise::Advice<C> {
    /// States the filesystem to use and its expected figures, or why the device should not be used.
    fn conclusion(&self) -> String {
        let of = |topic: &str| self.points.iter().find(|point| point.topic == topic);
        if let Some(warning) = of("trust").or_else(|| of("size")) {
            return sentence(&warning.advice);
        }
        let topics = ["filesystem", "speed", "speed and life", "life"];
        let said = topics.iter().filter_map(|topic| of(topic)).map(|point| sentence(&point.advice));
        said.collect::<Vec<_>>().join(" ")
    }

    fn board(&self) -> Option<&str> {
        self.board.as_deref()
    }
}

impl Concluded for ecc::Advice {
    /// States the weakest code that is sufficient.
    fn conclusion(&self) -> String {
        match &self.needs {
            Some(code) => format!("It needs {code}: the weakest code that fits and holds for the rated cycles."),
            None => "No code that fits the OOB holds for the rated cycles: store data for a shorter time, cooler, or refresh it.".to_owned(),
        }
    }
}

impl Concluded for FsComparison {
    /// States the filesystem to choose or, without a choice, the speeds.
    fn conclusion(&self) -> String {
        sentence(&self.chosen().unwrap_or_else(|| self.fastest()))
    }
}

impl FsComparison {
    /// Phrase of the conclusion, which may be part of the advice.
    fn chosen(&self) -> Option<String> {
        self.choice().map(|choice| choice.sentence).or_else(|| self.advice.first().cloned())
    }

    /// Advice without the sentence that the conclusion repeats.
    pub fn other_advice(&self) -> impl Iterator<Item = &str> {
        let chosen = self.chosen();
        self.advice.iter().map(String::as_str).filter(move |advice| Some(*advice) != chosen.as_deref())
    }

    /// Best and worst subject in the first test with a speed, or in the first test if none has one.
    fn fastest(&self) -> String {
        let of_speed = self.rows.iter().find(|row| row.unit == "MiB/s");
        let Some(first) = of_speed.or_else(|| self.rows.first()) else { return String::new() };
        let mut same: Vec<&Row> = self.rows.iter().filter(|row| row.name == first.name).collect();
        same.sort_by(|a, b| b.value.total_cmp(&a.value));
        if first.unit == "s" {
            same.reverse();
        }
        let speed = |row: &Row| format!("{} {} {}", row.subject.name(), three(row.value), row.unit);
        match same[..] {
            [] => String::new(),
            [only] => format!("{}: {}", first.name, speed(only)),
            [fastest, .., slowest] => format!("{}: {}, {}", first.name, speed(fastest), speed(slowest)),
        }
    }
}

impl BySize {
    /// Advice without the sentence that the conclusion repeats.
    pub fn other_advice(&self) -> impl Iterator<Item = &str> {
        self.advice.iter().skip(1).map(String::as_str)
    }
}

impl Concluded for BySize {
    /// States the filesystem to choose by partition size.
    fn conclusion(&self) -> String {
        sentence(self.advice.first().map_or("", String::as_str))
    }
}

/// Makes a sentence of a phrase: capital letter and full stop.
fn sentence(phrase: &str) -> String {
    let mut letters = phrase.chars();
    let end = if phrase.is_empty() || phrase.ends_with('.') { "" } else { "." };
    letters
        .next()
        .map_or_else(String::new, |first| format!("{}{}{end}", first.to_uppercase(), letters.as_str()))
}

impl Cuts {
    /// States the number of power cuts, and whether data was lost.
    pub fn conclusion(&self) -> String {
        let runs = grouped_count(self.runs, "run");
        let longest = self.steps.values().map(|step| step.recovery_operations_max).max().unwrap_or(0);
        match (self.failure_count, self.cuts) {
            (0, 0) => format!("Nothing was lost in {runs} without a power cut."),
            (0, cuts) if longest == 0 => {
                format!(
                    "Nothing was lost in {}; the filesystem mounted after each one.",
                    grouped_count(cuts, "power cut")
                )
            }
            (0, cuts) => format!(
                "Nothing was lost in {}; the filesystem mounted after each one, with {} at most.",
                grouped_count(cuts, "power cut"),
                grouped_count(longest, "flash operation")
            ),
            (failed, _) => {
                let steps: Vec<&str> = self
                    .steps
                    .iter()
                    .filter(|(_, counts)| counts.failures > 0)
                    .map(|(step, _)| *step)
                    .collect();
                format!(
                    "{failed} of {runs} lost data; the power was cut at these steps: {}.",
                    steps.join(", ")
                )
            }
        }
    }
}

impl Concluded for CutReport {
    /// States the number of power cuts, and whether the card lost data.
    fn conclusion(&self) -> String {
        let cuts = grouped_count(self.cuts + self.recovery_cuts, "power cut");
        match self.failures.len() as u64 {
            0 => format!(
                "The card lost nothing that was flushed in {cuts}, and was ready within {}. {}",
                seconds(self.ready_us_max / 1e6),
                self.assumptions
            ),
            failed => format!("The card broke its promises in {} of {}.", failed, count(self.runs, "run")),
        }
    }
}

impl Concluded for Papers {
    fn conclusion(&self) -> String {
        self.summary.conclusion()
    }
}

impl Summary {
    /// States the share of predicted figures that agree, and their median deviation. If no figure was predicted, states the share of
    /// fitted figures, ranges and directions that agree.
    pub fn conclusion(&self) -> String {
        if self.predicted == 0 {
            return self.conclusion_without_prediction();
        }
        let within = self.predicted.saturating_sub(self.predicted_missed);
        let median = self.median_predicted.map_or_else(String::new, |median| {
            format!("; half of them deviate by less than {}", percent(median))
        });
        format!(
            "{within} of {} agree within the tolerance of their source{median}.",
            count(self.predicted as u64, "predicted figure")
        )
    }

    fn conclusion_without_prediction(&self) -> String {
        let missed = self.missed + self.ranges_missed + self.directions_missed;
        let all = self.within + self.tolerated + self.missed + self.ranges + self.directions;
        let kinds = [
            (self.fitted, "fitted figure"),
            (self.exceptions, "declared exception"),
            (self.ranges, "range"),
            (self.directions, "direction"),
        ];
        let named = kinds.iter().filter(|(number, _)| *number > 0);
        let named: Vec<String> = named.map(|(number, what)| count(*number as u64, what)).collect();
        match all {
            0 => "No published figure was compared that the model could miss.".to_owned(),
            all => format!(
                "No figure is a prediction. {} of {all} published values agree within their tolerance: {}.",
                all.saturating_sub(missed),
                named.join(", ")
            ),
        }
    }
}

impl Concluded for FitReport {
    /// States the distance between the figures and the fitted setup, and other possible faults.
    fn conclusion(&self) -> String {
        let fitted = self.rows.iter().filter(|row| row.fitted).count() as u64;
        let figures = count(fitted, "figure");
        if !self.usable {
            return format!("No costs explain the {figures}: the fitted costs cannot be used.");
        }
        let alone = self.median_left_out.map_or_else(String::new, |median| {
            format!("; each figure is predicted from the others with a median error of {}", percent(median))
        });
        let wrong = self.hypotheses.first().map_or_else(String::new, |first| {
            format!(" Check this on the board first: {} ({}).", first.what, first.set.join(", "))
        });
        format!("The fitted costs explain {figures} to within {}{alone}.{wrong}", percent(self.worst))
    }
}

impl Concluded for FromTwo {
    /// States the median errors of reads and programs of which one row was given, and the share of intervals that hold. Rows under the
    /// same settings count; without them, those under other settings.
    fn conclusion(&self) -> String {
        let is_given = |from: Given| self.kinds.iter().any(|kind| kind.board.is_none() && kind.from == from);
        let from = if is_given(Given::SameKind) { Given::SameKind } else { Given::OtherSettings };
        let all = self.kinds.iter().filter(|kind| kind.board.is_none() && kind.from == from);
        let words: Vec<String> = all
            .map(|kind| {
                let (median, hold) = (percent(kind.median), percent(kind.hold));
                format!("{}s {median} (intervals hold {hold})", kind.operation.name())
            })
            .collect();
        if words.is_empty() {
            return String::new();
        }
        format!(
            "Median errors of rows that are predicted from two rows of their board, one of them of the same kind: {}.",
            words.join(", ")
        )
    }
}

impl Concluded for Matrix {
    /// States the filesystem that is fastest on most cards or, for a single card, the advice.
    fn conclusion(&self) -> String {
        if let [only] = &self.cards[..] {
            return format!("{}: {}", only.card, only.advice);
        }
        let mut wins: BTreeMap<&str, u64> = BTreeMap::new();
        for best in self.cards.iter().filter_map(|card| card.filesystems.first()) {
            *wins.entry(&best.filesystem).or_default() += 1;
        }
        let mut wins: Vec<(&str, u64)> = wins.into_iter().collect();
        wins.sort_by_key(|(_, cards)| Reverse(*cards));
        let [(best, cards), others @ ..] = &wins[..] else { return String::new() };
        let others: String = others.iter().map(|(name, cards)| format!(", {name} on {cards}")).collect();
        let all = count(self.cards.len() as u64, "card");
        format!("{best} is the fastest filesystem on {cards} of {all}{others}.")
    }
}

impl Concluded for Replay {
    /// States time and speed of the trace on the card, and its longest request.
    fn conclusion(&self) -> String {
        let account = &self.account;
        let failed = match account.failed {
            0 => String::new(),
            failed => format!(" {} failed.", count(failed, "request")),
        };
        let amplification = match account.write.bytes {
            0 => String::new(),
            _ => format!(" It programs {} bytes for each byte written.", three(account.write_amplification)),
        };
        format!(
            "The card needs {} for the trace, {} KiB/s, and {} for its longest request.{amplification}{failed}",
            seconds(account.time_us / 1e6),
            three(self.kib_s),
            seconds(account.latency.max_us / 1e6)
        )
    }
}

/// Result of running filesystems on a card.
#[derive(Serialize)]
pub struct CardRuns<'a> {
    /// Runs in the order of the guest.
    pub rows: &'a [CardRun],
}

impl Concluded for CardRuns<'_> {
    fn conclusion(&self) -> String {
        of_runs(self.rows)
    }
}

/// Text of the fastest filesystem for each workload, of the runs that failed, and of what losses of power show.
fn of_runs(runs: &[CardRun]) -> String {
    let mut workloads: Vec<&str> = Vec::new();
    for run in runs {
        if !workloads.contains(&run.workload.as_str()) {
            workloads.push(&run.workload);
        }
    }
    let fastest = workloads.into_iter().filter_map(|workload| {
        let of = runs.iter().filter(|run| run.workload == workload && run.verdict == "clean");
        let mut of: Vec<(&str, f64)> = of.map(|run| (run.filesystem.as_str(), run.account.time_us)).collect();
        of.sort_by(|a, b| a.1.total_cmp(&b.1));
        let time = |us: f64| seconds(us / 1e6);
        match of[..] {
            [] => None,
            [(only, us)] => Some(format!("{workload} takes {} on {only}.", time(us))),
            [(first, us), .., (last, most)] => Some(format!(
                "{workload} is fastest on {first}, {}, and slowest on {last}, {}.",
                time(us),
                time(most)
            )),
        }
    });
    let failed = runs.iter().filter(|run| run.verdict != "clean").count() as u64;
    let failed =
        (failed > 0).then(|| format!("{failed} of {} did not end clean.", count(runs.len() as u64, "run")));
    let mut checked: Vec<String> = Vec::new();
    for results in runs.iter().filter_map(|run| run.power_loss.as_ref()) {
        let said = format!("After losses of power, {}.", results.verdict);
        if !checked.contains(&said) {
            checked.push(said);
        }
    }
    fastest.chain(failed).chain(checked).collect::<Vec<_>>().join(" ")
}

impl<T: Concluded> Concluded for Grounded<T> {
    fn conclusion(&self) -> String {
        self.answer.conclusion()
    }

    fn board(&self) -> Option<&str> {
        self.answer.board()
    }
}

/// A merged setup has no conclusion.
impl Concluded for Node {}

impl Concluded for floatgate_probe::Report {
    fn conclusion(&self) -> String {
        floatgate_probe::conclusion(&self.answers)
    }
}

impl Concluded for Identified {
    /// States the identity of each device.
    fn conclusion(&self) -> String {
        const MOST: usize = 3;
        let said: Vec<String> = self.devices.iter().take(MOST).map(device).collect();
        let more = match self.devices.len().saturating_sub(MOST) as u64 {
            0 => String::new(),
            more => format!(" The input names {}.", count(more, "more device")),
        };
        format!("{}{more}", said.join(" "))
    }
}

/// Sentence with the parts that may be this device.
fn device(device: &Device) -> String {
    let stated = device.name.as_ref().or(device.id.as_ref()).map_or("a chip", String::as_str);
    let own_size = device.size_bytes.map_or_else(String::new, |bytes| format!(" of {}", size(bytes)));
    match device.parts.as_slice() {
        [] => {
            let maker = device.maker.as_ref().map_or_else(String::new, |maker| format!(" from {maker}"));
            format!("{stated}{maker}{own_size} is no part of the catalogue or of Linux's tables.")
        }
        [only] if stated.eq_ignore_ascii_case(&only.name) => {
            format!("{} is in the catalogue{}.", named(only), contradicted(only))
        }
        [only] => format!("{stated} is {}{}.", named(only), contradicted(only)),
        several => {
            let names: Vec<String> = several.iter().take(2).map(named).collect();
            let more = several.len() - names.len();
            let more = if more > 0 { format!(" or {}", count(more as u64, "other")) } else { String::new() };
            let joined = if more.is_empty() { names.join(" or ") } else { names.join(", ") };
            format!(
                "{stated} is one of {} with this id: {joined}{more}.",
                count(several.len() as u64, "part")
            )
        }
    }
}

fn named(part: &Candidate) -> String {
    format!("{} {}", part.maker, part.name).trim().to_owned()
}

fn contradicted(part: &Candidate) -> String {
    match part.contradictions.as_slice() {
        [] => String::new(),
        all => format!(", but {}", all.join(", ")),
    }
}
