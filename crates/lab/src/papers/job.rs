//! Simulation that a row requires.

use super::file::{Prediction, Row, Table, sets_text, ten};
use super::{card, claim};
use crate::fs_compare;
use crate::interval::Interval;
use crate::keystore::{self, Driver};
use crate::speed::{self, SpeedOptions, Test};
use floatgate_config::{Config, Library, Override};
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command;
use floatgate_mtd::{Breakdown, OobMode, Phase};
use floatgate_sim::error::Error;
use floatgate_sim::rig::{self, RigOptions};

/// Simulation run of a setup. Rows that need the same run share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Job {
    pub(super) setup: String,
    pub(super) set: Vec<String>,
    pub(super) measure: String,
    pub(super) blocks: u32,
    pub(super) secondary_block: Option<u32>,
}

/// Result of a simulation run.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// Ratio or time for a row on endurance.
    Claim(f64),
    /// Results of a run that several rows on cards share.
    Card(card::Outcome),
    Figure {
        printed: f64,
        exact: f64,
        /// Amount of data that `flash_speed` moved, KiB.
        kib: Option<f64>,
        breakdown: Breakdown,
        /// 80 % interval of `exact`.
        interval: Option<Interval>,
    },
    Keystore(Vec<keystore::Line>),
    /// Rows of `floatgate fs`.
    Filesystems(Vec<fs_compare::Row>),
    Latency(speed::Latency),
}

pub(super) fn job(table: &Table, row: &Row) -> Job {
    Job {
        setup: row.setup.clone().unwrap_or_else(|| table.setup.clone()),
        set: table.set.iter().chain(&row.set).cloned().collect(),
        measure: run_of(&row.measure),
        blocks: table.blocks,
        secondary_block: row.secondary_block,
    }
}

/// Part of a measure that determines the run. Rows of `floatgate fs` whose names continue after a colon
/// belong to the run of the name before it. Rows on cards name the figure of their run after a colon.
fn run_of(measure: &str) -> String {
    if measure.starts_with(card::PREFIX) {
        return card::run_of(measure);
    }
    let run = measure.split_once(':').filter(|_| measure.starts_with(FS)).map_or(measure, |(run, _)| run);
    run.to_owned()
}

pub(super) fn prediction_job(prediction: &Prediction) -> Job {
    Job {
        setup: prediction.setup.clone(),
        set: prediction.set.clone(),
        measure: prediction.measure.clone(),
        blocks: ten(),
        secondary_block: None,
    }
}

pub(super) fn setup_text(job: &Job) -> String {
    job.setup.clone() + &sets_text(&job.set)
}

/// A simulated figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Simulated {
    /// Figure as the tool prints it.
    pub(super) printed: f64,
    /// Figure without the tool's rounding.
    pub(super) exact: f64,
    /// Amount of data that `flash_speed` moved, KiB.
    pub(super) kib: Option<f64>,
    /// 80 % interval of `exact`.
    pub(super) interval: Option<Interval>,
}

impl Outcome {
    /// Figure of this run that `row` measures, if there is one.
    pub(super) fn figure(&self, row: &Row) -> Option<Simulated> {
        let plain = |printed, exact| Simulated { printed, exact, kib: None, interval: None };
        Some(match self {
            Self::Figure { printed, exact, kib, interval, .. } => {
                Simulated { printed: *printed, exact: *exact, kib: *kib, interval: *interval }
            }
            Self::Claim(figure) => plain(*figure, *figure),
            Self::Card(outcome) => {
                let figure = outcome.figure(row.measure.split_once(": ")?.1)?;
                plain(figure, figure)
            }
            Self::Latency(latency) => {
                let ns = if row.measure == ENDED { latency.read_ended_ns } else { latency.took_ns };
                plain((ns / 1_000_000) as f64, ns as f64 / 1e6)
            }
            Self::Filesystems(rows) => {
                let name = row.measure.strip_prefix(FS)?.split_once(' ')?.1;
                let row = rows.iter().find(|row| row.name == name)?;
                Simulated { interval: row.interval, ..plain(row.value, row.value) }
            }
            Self::Keystore(lines) => {
                let line = lines.iter().find(|line| line.test == row.row)?;
                plain(line.ticks_ms() as f64 / 1e3, line.ns as f64 / 1e9)
            }
        })
    }
}

/// Prefix of the names of rows of `floatgate fs`.
const FS: &str = "fs ";
const TOOK: &str = "read while write took";
const ENDED: &str = "read ended after";
const BUS_PAGE: &str = "bus us per page with OOB";
const UPDATE: &str = "sf update";
const KEYSTORE_WITH: &str = "keystore with delays";
const KEYSTORE_WITHOUT: &str = "keystore without delays";

pub(super) fn run(library: &Library, job: &Job, seed: u64) -> Result<Outcome, Error> {
    if let Some(what) = job.measure.strip_prefix(claim::PREFIX) {
        let sets = Override::parse_all(&job.set)?;
        return claim::measure(library, &job.setup, &sets, what, (seed, job.blocks)).map(Outcome::Claim);
    }
    if let Some(what) = job.measure.strip_prefix(card::PREFIX) {
        let sets = Override::parse_all(&job.set)?;
        return card::measure(library, &job.setup, &sets, what, seed).map(Outcome::Card);
    }
    let setup = library.setup(&job.setup)?;
    let config = library.resolve(&setup, &Override::parse_all(&job.set)?)?;
    if let Some(what) = job.measure.strip_prefix(FS) {
        let options = RigOptions { seed, ..RigOptions::default() };
        return fs_compare::figures(library, &config, options, what).map(Outcome::Filesystems);
    }
    let options = SpeedOptions { blocks: Some(job.blocks), ..SpeedOptions::default() };
    match job.measure.as_str() {
        KEYSTORE_WITH => keystore::on(&config, Driver::WithDelays, 0).map(Outcome::Keystore),
        KEYSTORE_WITHOUT => keystore::on(&config, Driver::WithoutDelays, 0).map(Outcome::Keystore),
        BUS_PAGE => bus_page(library, &config),
        UPDATE => update(library, &config, job.blocks),
        TOOK | ENDED => {
            latency(library, &config, &SpeedOptions { secondary_block: job.secondary_block, ..options })
        }
        name => {
            let test = Test::from_name(name).ok_or_else(|| unknown_measure(name))?;
            figure(library, &config, &SpeedOptions { only: vec![test], ..options })
        }
    }
}

fn unknown_measure(name: &str) -> Error {
    let known = [TOOK, ENDED, BUS_PAGE, UPDATE, KEYSTORE_WITH, KEYSTORE_WITHOUT].join(", ");
    Error::request(
        format!("no measure is called {name:?}"),
        advice! {
            "a test of ", Command::Speed,
            format!(" (page read, 8 page read, eraseblock write, 4x erase ...), or {known}; what begins with `{FS}` is a row of "),
            Command::Fs, ", as `fs ubifs read first`; ",
            format!("what begins with `{}` measures the endurance of the part that stands for the setup, ", claim::PREFIX.trim_end()),
            format!("and with `{}` the card that does", card::PREFIX.trim_end())
        },
    )
}

fn figure(library: &Library, config: &Config, options: &SpeedOptions) -> Result<Outcome, Error> {
    let run = crate::speed_run::measure(library, config, RigOptions::default(), options)?
        .with_intervals(library, config)?;
    let test = run
        .report
        .tests
        .first()
        .ok_or_else(|| Error::request("nothing was measured", "choose blocks that exist"))?;
    Ok(Outcome::Figure {
        printed: test.printed_kib_s as f64,
        exact: test.exact_kib_s,
        kib: Some(test.bytes as f64 / 1024.0),
        breakdown: test.breakdown_ns,
        interval: test.interval,
    })
}

fn latency(library: &Library, config: &Config, options: &SpeedOptions) -> Result<Outcome, Error> {
    let only = vec![Test::Erase(1)];
    let run = crate::speed_run::measure(
        library,
        config,
        RigOptions::default(),
        &SpeedOptions { only, ..options.clone() },
    )?;
    run.report.latency.map(Outcome::Latency).ok_or_else(|| {
        Error::request("a read-while-write row names no secondary block", "add secondary_block = N")
    })
}

/// Time on the bus for one page with its OOB.
fn bus_page(library: &Library, config: &Config) -> Result<Outcome, Error> {
    let mut rig = rig::wire(library, config, RigOptions::default())?;
    let (page, oob) = (rig.device.geometry().write_bytes, rig.device.geometry().oob_bytes);
    let (mut data, mut spare) = (vec![0; page as usize], vec![0; oob as usize]);
    let outcome = rig.record(|device, now| device.read_oob(now, 0, &mut data, &mut spare, OobMode::Place));
    outcome.0.map_err(Error::flash("reading a page with OOB"))?;
    let read = outcome.1.spans.iter().rev().skip_while(|s| s.phase != Phase::Data);
    let wires = [Phase::Command, Phase::Address, Phase::Dummy, Phase::Data];
    let mut breakdown = Breakdown::default();
    for span in read.take_while(|s| wires.contains(&s.phase)) {
        breakdown.add(span.phase, span.end.since(span.start));
    }
    let us = breakdown.total().as_us_f64();
    Ok(Outcome::Figure { printed: us, exact: us, kib: None, breakdown, interval: None })
}

/// Time of U-Boot's `sf update` of `blocks` eraseblocks with other contents, s. Each block is read,
/// compared, erased and programmed before the next one (U-Boot: `spi_flash_update_block`). The comparison,
/// about 10 ns per byte, is left out.
fn update(library: &Library, config: &Config, blocks: u32) -> Result<Outcome, Error> {
    let mut rig = rig::wire(library, config, RigOptions { stores: false, ..RigOptions::default() })?;
    let bytes = rig.device.geometry().erase_bytes;
    let (mut old, new) = (vec![0; bytes as usize], speed::pattern(bytes as usize));
    let (start, before) = (rig.device.host().now(), rig.device.breakdown());
    let mut now = start;
    for address in (0..u64::from(blocks)).map(|block| block * u64::from(bytes)) {
        now = rig.device.read(now, address, &mut old).map_err(Error::flash(UPDATE))?.at;
        now = rig.device.erase(now, address, u64::from(bytes)).map_err(Error::flash(UPDATE))?.at;
        now = rig.device.write(now, address, &new).map_err(Error::flash(UPDATE))?.at;
    }
    let seconds = now.since(start).as_secs_f64();
    let breakdown = rig.device.breakdown() - before;
    Ok(Outcome::Figure { printed: seconds, exact: seconds, kib: None, breakdown, interval: None })
}
