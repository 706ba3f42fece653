//! Measurements for the rows on cards. Such a row names a card of the catalogue in place of a setup.
//!
//! A measure names its run and, after a colon, the figure: `card probe: open AUs`. Rows with the same run share it;
//! a run of traces replays one workload.

use crate::card::compare::{Cell, NamedCard, compare};
use crate::card::replay::places_per_file;
use crate::card::shipped::{AU_BYTES, ShippedTrace, find, full_traces, traces};
use crate::card::speed::{AlignmentRow, alignments, file_in_order_mb_s, in_order_mb_s, random_in_file_mb_s};
use crate::card::state::CardState;
use crate::card::{CardOptions, LoadedCard, load};
use floatgate_card::{CardSpec, Fake};
use floatgate_config::{Library, Override};
use floatgate_mtd::Nanos;
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use floatgate_probe::{Answers, Probe, ProbeOptions, Simulated, conclude};
use floatgate_sim::error::Error;

/// Prefix of the measures of this module.
pub(super) const PREFIX: &str = "card ";

/// Names of runs in measures.
const PROBE: &str = "probe";
const ALIGNMENT: &str = "flashbench -a";
const NAND: &str = "NAND";
const IN_ORDER: &str = "in order";
const RANDOM: &str = "random";
const PLACES: &str = "places";
const TRACES: &str = "traces";
/// Prefix of the name of a second card, with which the shipped traces are compared.
const TRACES_OVER: &str = "traces over ";
/// Compares the full card with the same card when it was empty.
const TRACES_FULL: &str = "traces full over empty";
/// Compares aged filesystems, which are 95 % full, on the full card with fresh ones on the empty card.
const TRACES_AGED: &str = "traces aged over fresh";

/// Result of a run on a card.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// Results of `floatgate probe --write`.
    Probe(Box<Answers>),
    /// Times of reads across boundaries.
    Alignment(Vec<AlignmentRow>),
    /// Timings of the NAND.
    Nand(Box<CardSpec>),
    /// Speeds of reads and writes, MB/s.
    Speeds([f64; 2]),
    /// Places to which the shipped traces of file creation write; they do not depend on the card.
    Places,
    /// Times of all shipped traces on the card, and on the card of comparison.
    Traces { own: Vec<Cell>, other: Vec<Cell> },
}

/// Run that a measure names: the part before the colon and, for traces, the workload after it.
pub(super) fn run_of(measure: &str) -> String {
    let (run, what) = measure.split_once(": ").unwrap_or((measure, ""));
    let is_of_traces = run.strip_prefix(PREFIX).is_some_and(|run| run.starts_with(TRACES));
    match what.rsplit_once(", ").filter(|_| is_of_traces) {
        Some((_, workload)) => format!("{run}: {workload}"),
        None => run.to_owned(),
    }
}

/// Makes the run `what`, named as by [`run_of`] but without the prefix.
///
/// # Errors
/// An unknown run or card; a failing card.
pub(super) fn measure(
    library: &Library,
    name: &str,
    sets: &[Override],
    what: &str,
    seed: u64,
) -> Result<Outcome, Error> {
    let card = load(library, name, sets)?;
    let (run, workload) = what.split_once(": ").map_or((what, None), |(run, workload)| (run, Some(workload)));
    let played_of = |card: &LoadedCard, traces: Vec<ShippedTrace>, state| {
        let named = NamedCard { name: name.to_owned(), card: card.clone() };
        let wanted: Vec<_> =
            traces.into_iter().filter(|trace| workload.is_none_or(|name| name == trace.workload)).collect();
        compare(&[named], &wanted, state, seed, &|_| ()).map(|matrix| matrix.cells)
    };
    let played = |card: &LoadedCard, state| played_of(card, traces(), state);
    Ok(match run {
        PROBE => Outcome::Probe(Box::new(probed(&card, seed)?)),
        ALIGNMENT => Outcome::Alignment(alignments(&card, seed)?),
        NAND => Outcome::Nand(Box::new(card.spec)),
        IN_ORDER => Outcome::Speeds([in_order_mb_s(&card.spec)?[0], file_in_order_mb_s(&card.spec, seed)?]),
        RANDOM => Outcome::Speeds(random_in_file_mb_s(&card.spec, seed)?),
        PLACES => Outcome::Places,
        TRACES => Outcome::Traces { own: played(&card, CardState::Empty)?, other: Vec::new() },
        TRACES_FULL => {
            let [own, other] = [CardState::Full, CardState::Empty].map(|state| played(&card, state));
            Outcome::Traces { own: own?, other: other? }
        }
        TRACES_AGED => Outcome::Traces {
            own: played_of(&card, full_traces(), CardState::Full)?,
            other: played(&card, CardState::Empty)?,
        },
        _ => {
            let other = run.strip_prefix(TRACES_OVER).ok_or_else(|| unknown(run))?;
            let other = load(library, other, &[])?;
            let [own, other] = [&card, &other].map(|card| played(card, CardState::Empty));
            Outcome::Traces { own: own?, other: other? }
        }
    })
}

fn unknown(what: &str) -> Error {
    let known =
        [PROBE, ALIGNMENT, NAND, IN_ORDER, RANDOM, PLACES, TRACES, TRACES_FULL, TRACES_AGED].join("; ");
    Error::request(
        format!("no measure is called \"{PREFIX}{what}\""),
        format!("after \"{PREFIX}\" there may stand {known}; {TRACES_OVER}CARD"),
    )
}

/// The card's answers to the probe, without jitter.
fn probed(card: &LoadedCard, seed: u64) -> Result<Answers, Error> {
    let wrong = |bad: floatgate_card::BadSpec| Error::request(bad.to_string(), "choose another value");
    let device = Fake::of_spec(&card.spec, CardOptions { seed, stores: false }).map_err(wrong)?;
    let mut target = Simulated::new(device, None);
    let mut probe =
        Probe::new(&mut target, ProbeOptions { seed, usable_bytes: card.spec.capacity_bytes, limits: None });
    let failed = |error: floatgate_probe::ProbeError| {
        Error::request(error.to_string(), advice! { "see what ", Command::Probe, " says of the card" })
    };
    probe.measure_reads().map_err(failed)?;
    let plan = probe.write_plan();
    probe.measure_writes(&plan).map_err(failed)?;
    Ok(conclude(&probe.into_samples()))
}

impl Outcome {
    /// Figure `what` of this run, if it has one.
    pub(super) fn figure(&self, what: &str) -> Option<f64> {
        match self {
            Self::Probe(answers) => answer(answers, what),
            Self::Alignment(rows) => alignment(rows, what),
            Self::Nand(spec) => nand_us(spec, what),
            Self::Speeds([read, write]) => match what {
                "read" => Some(*read),
                "write" => Some(*write),
                _ => None,
            },
            Self::Places => places(what),
            Self::Traces { own, other } => compared(own, other, what),
        }
    }
}

/// Probe result by name: `AU` and `page` in KiB, and `open AUs`.
fn answer(answers: &Answers, what: &str) -> Option<f64> {
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    match what {
        "AU" => answers.erase_block.count().map(kib),
        "page" => answers.page.count().map(kib),
        "open AUs" => answers.open_aus_linear.count().map(|count| count as f64),
        _ => None,
    }
}

/// Figure such as `pre 4194304`: a column of a row of `flashbench -a`, us. `step 4194304` is the ratio of its
/// difference to the difference at half the alignment.
fn alignment(rows: &[AlignmentRow], what: &str) -> Option<f64> {
    let (column, align) = what.split_once(' ')?;
    let align: u64 = align.parse().ok()?;
    let of = |align: u64| rows.iter().find(|row| row.align_bytes == align);
    let row = of(align)?;
    match column {
        "pre" => Some(row.pre_us),
        "on" => Some(row.on_us),
        "post" => Some(row.post_us),
        "diff" => Some(row.diff_us),
        "step" => Some(row.diff_us / of(align / 2)?.diff_us),
        _ => None,
    }
}

/// Size of the two pages whose times Chubb (2015) published, bytes.
const PAGE_PAIR_BYTES: f64 = 4320.0;
const PAGE_BYTES: u64 = 4096;

/// Times of the NAND, us. Each die programs its pages of a unit one after the other.
fn nand_us(spec: &CardSpec, what: &str) -> Option<f64> {
    let timing = &spec.timing;
    let pages = (spec.page_bytes / u64::from(spec.dies) / PAGE_BYTES).max(1) as f64;
    let byte_us = Nanos::as_us_f64(timing.transfer_ns_per_kib) / 1024.0;
    match what {
        "program" => Some(timing.t_prog_us.as_us_f64() / pages),
        "erase" => Some(timing.t_bers_us.as_us_f64()),
        "byte" => Some(byte_us),
        "read" => Some(timing.t_r_us.as_us_f64() + PAGE_PAIR_BYTES * byte_us),
        _ => None,
    }
}

/// Figure such as `ext4 by 4096`: number of places per file to which the filesystem writes, in units of this number
/// of bytes.
fn places(what: &str) -> Option<f64> {
    let (filesystem, unit_bytes) = what.split_once(" by ")?;
    let trace = find(&format!("{filesystem}-create"))?;
    let requests = trace.requests(AU_BYTES).ok()?.workload;
    places_per_file(&requests, trace.files?, unit_bytes.parse().ok()?)
}

/// Figure of a workload, from its name in a row. `ext4 over f2fs, postmark` is the ratio of the times of two filesystems on the card, for the
/// workload `postmark`. `longest ext4 over f2fs` is the ratio of their longest requests, and `sync ext4 over f2fs` the ratio of their median
/// syncs. `longest ext4` is a time in s. `ext4` is the ratio of the times on the card and on the other card. `slowest over fastest` is the ratio
/// of the slowest to the fastest filesystem on the card, divided by the same ratio on the other card.
fn compared(own: &[Cell], other: &[Cell], what: &str) -> Option<f64> {
    let (figure, workload) = what.rsplit_once(", ")?;
    let of = |cells: &'_ [Cell], filesystem: &str| -> Option<[f64; 3]> {
        let is_it = |cell: &&Cell| cell.filesystem == filesystem && cell.workload == workload;
        cells.iter().find(is_it).map(|cell| [cell.time_us, cell.longest_us, cell.syncs.sync_p50_us])
    };
    let spread = |cells: &[Cell]| {
        let times = || cells.iter().filter(|cell| cell.workload == workload).map(|cell| cell.time_us);
        Some(times().reduce(f64::max)? / times().reduce(f64::min)?)
    };
    if figure == "slowest over fastest" {
        return Some(spread(own)? / spread(other)?);
    }
    let (which, figure) = match (figure.strip_prefix("longest "), figure.strip_prefix("sync ")) {
        (Some(figure), _) => (1, figure),
        (None, Some(figure)) => (2, figure),
        (None, None) => (0, figure),
    };
    let time = |cells, filesystem| of(cells, filesystem).map(|times| times[which]);
    match figure.split_once(" over ") {
        Some((one, another)) => Some(time(own, one)? / time(own, another)?),
        None if which > 0 => Some(time(own, figure)? / 1e6),
        None => Some(time(own, figure)? / time(other, figure)?),
    }
}
