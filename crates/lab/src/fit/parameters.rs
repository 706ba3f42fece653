//! The numbers of a setup that a fit may change: costs of host and controller, and times of the chip.
//!
//! Each has a distribution that is known before anything is measured: costs spread as their profile is sure of them, and times of the chip as its
//! data sheet says. A fit moves a number in units of that spread, so that a slow program is explained by the chip before it is explained by
//! twenty times the usual software.

use crate::papers::Operation;
use crate::uncertainty::Uncertainty;
use floatgate_config::{Config, Library};
use floatgate_device::spec::ChipKind;
use floatgate_device::units::{self, TypMaxUs};
use floatgate_mtd::Nanos;
use floatgate_sim::error::Error;
use serde::Deserialize;

/// A number of a setup that is fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Dotted path.
    pub path: String,
    /// Value that the setup states.
    pub value: f64,
    /// Unit in which the fit counts: the value, or what is usual where that is larger.
    pub scale: f64,
    /// Smallest value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// Standard deviation before anything is measured, in units of the scale.
    pub spread: f64,
    /// Kind of operation whose time it is; none of a cost that all of them share.
    pub operation: Option<Operation>,
}

/// Least spread of a cost: who fits a setup doubts its costs.
const LEAST_SPREAD: f64 = 0.3;

impl Parameter {
    /// True of a time of the chip.
    pub(super) fn is_of_chip(&self) -> bool {
        self.path.starts_with("chip.")
    }

    /// True of a number that the user has freed.
    pub(super) fn is_freed(&self) -> bool {
        self.spread >= FREED
    }
}

/// Spread of a number that the user frees, in units of its scale: the figures decide it.
pub(super) const FREED: f64 = 10.0;

/// A cost is at most this many times what the setup states, or what is usual.
const MOST: f64 = 20.0;

/// Costs of a host, and what is usual of each.
const HOST: [(&str, f64); 4] = [
    ("host.call_us", 5.0),
    ("host.page_us", 10.0),
    ("host.copy_ns_per_kb", 1000.0),
    ("host.wakeup_us", 20.0),
];

/// Costs of SPI controllers; those of a table that the setup does not have are left out.
const SPI: [(&str, &str, f64); 14] = [
    ("controller", "exec.setup_us", 10.0),
    ("controller", "exec.finish_us", 10.0),
    ("controller.dirmap", "read_cost.setup_us", 10.0),
    ("controller.dirmap", "read_cost.finish_us", 10.0),
    ("controller.dirmap", "write_cost.setup_us", 10.0),
    ("controller.dirmap", "write_cost.finish_us", 10.0),
    ("controller.rx", "ns_per_byte", 0.0),
    ("controller.tx", "ns_per_byte", 0.0),
    ("controller.rx", "dtr_ns_per_byte", 0.0),
    ("controller.tx", "dtr_ns_per_byte", 0.0),
    ("controller.dirmap.rx", "ns_per_byte", 0.0),
    ("controller.dirmap.tx", "ns_per_byte", 0.0),
    ("controller.dirmap.rx", "dtr_ns_per_byte", 0.0),
    ("controller.dirmap.tx", "dtr_ns_per_byte", 0.0),
];

/// Costs of raw NAND controllers. A usual value of 0: fitted only where the setup has it.
const NAND: [(&str, &str, f64); 6] = [
    ("controller", "op_cost.setup_us", 10.0),
    ("controller", "op_cost.finish_us", 10.0),
    ("controller", "step_us", 0.0),
    ("controller", "ready_us", 0.0),
    ("controller.sdr_ns_per_byte", "read", 0.0),
    ("controller.sdr_ns_per_byte", "write", 0.0),
];

/// Costs of memory controllers.
const BUS: [(&str, &str, f64); 1] = [("controller", "access_ns", 0.0)];

/// The costs of a setup, the times of its chip, and the numbers that `free` names.
pub(super) fn of(library: &Library, config: &Config, free: &[String]) -> Result<Vec<Parameter>, Error> {
    let kind = config.chip_kind()?;
    let costs: &[(&str, &str, f64)] = match kind {
        ChipKind::SpiNand | ChipKind::SpiNor => &SPI,
        ChipKind::RawNand => &NAND,
        ChipKind::ParallelNor => &BUS,
    };
    let uncertainty = Uncertainty::of(library, config)?;
    let spread = uncertainty.software_spread().max(LEAST_SPREAD);
    let costs = costs
        .iter()
        .filter(|(table, ..)| config.tree().get(table).is_some())
        .map(|(table, key, usual)| (format!("{table}.{key}"), *usual));
    let mut all: Vec<Parameter> = HOST
        .iter()
        .map(|(path, usual)| ((*path).to_owned(), *usual))
        .chain(costs)
        .filter_map(|(path, usual)| cost(config, path, usual, spread))
        .collect();
    all.extend(times(config, kind).into_iter().filter_map(|(path, operation)| {
        time_of_chip(config, path, operation, uncertainty.array_spread(operation))
    }));
    for path in free {
        if !is_quantity(path) {
            return Err(Error::request(
                format!("{path} is neither a time nor a clock nor a cost"),
                "free one of these, as chip.timing.t_prog_us.typ or bus.clock_hz",
            ));
        }
        let found = number(config, path).or_else(|| microseconds(config, path)).ok_or_else(|| {
            Error::request(
                format!("{path} is no number of this setup"),
                "free a number, as chip.timing.t_prog_us.typ",
            )
        })?;
        all.retain(|p| p.path != *path);
        all.push(free_number(config, path, found));
    }
    Ok(all)
}

/// Times of a chip's array, with the operation whose time each is.
fn times(config: &Config, kind: ChipKind) -> Vec<(String, Operation)> {
    let is_on_die = || config.extract::<bool>("chip.ecc.on_die").unwrap_or(false);
    let read = match kind {
        ChipKind::SpiNand if is_on_die() => Some("t_rd_ecc_us"),
        ChipKind::SpiNand => Some("t_rd_us"),
        ChipKind::RawNand => Some("t_r_us.typ"),
        ChipKind::SpiNor | ChipKind::ParallelNor => None,
    };
    let program: &[&str] = match kind {
        ChipKind::SpiNand | ChipKind::RawNand => &["t_prog_us.typ"],
        ChipKind::SpiNor => &["t_pp_us.typ"],
        ChipKind::ParallelNor => &["t_word_us.typ", "t_buffer_us.typ"],
    };
    let timing = |key: &str| format!("chip.timing.{key}");
    let reads = read.map(|key| (timing(key), Operation::Read));
    let programs = program.iter().map(|key| (timing(key), Operation::Program));
    let erase = match kind {
        ChipKind::SpiNor => sectors(config),
        _ => vec![timing("t_bers_us.typ")],
    };
    reads.into_iter().chain(programs).chain(erase.into_iter().map(|path| (path, Operation::Erase))).collect()
}

/// Typical times of a NOR's kinds of erase.
fn sectors(config: &Config) -> Vec<String> {
    let kinds = config.tree().get("chip.erase").map_or_else(Vec::new, |erase| erase.leaves("chip.erase"));
    kinds.into_iter().filter(|path| path.ends_with(".t_us.typ")).collect()
}

/// Least share of its typical time that an operation of an array takes: erases of single-level cells are published down to a quarter
/// (papers/unfitted.toml, ts7250).
const fn least_share(operation: Operation) -> f64 {
    if matches!(operation, Operation::Erase) { 0.2 } else { 0.5 }
}

/// A time of the chip with its distribution.
fn time_of_chip(config: &Config, path: String, operation: Operation, spread: f64) -> Option<Parameter> {
    let value = microseconds(config, &path).filter(|value| *value > 0.0)?;
    let table = path.strip_suffix(".typ");
    let most =
        table.and_then(|table| config.extract::<TypMaxUs>(table).ok()).map(|time| time.max.as_us_f64());
    let high = most.map_or(1.5 * value, |most| most.max(value));
    let low = value * least_share(operation);
    Some(Parameter { path, value, scale: value, low, high, spread, operation: Some(operation) })
}

/// Kind of operation whose time a cost is.
fn operation_of(path: &str) -> Option<Operation> {
    let is_one_of = |keys: [&str; 3]| keys.iter().any(|key| path.contains(key));
    if is_one_of([".rx.", "read_cost", "byte.read"]) {
        Some(Operation::Read)
    } else if is_one_of([".tx.", "write_cost", "byte.write"]) {
        Some(Operation::Program)
    } else {
        None
    }
}

fn cost(config: &Config, path: String, usual: f64, spread: f64) -> Option<Parameter> {
    let value = number(config, &path).unwrap_or(0.0);
    let scale = value.max(usual);
    let operation = operation_of(&path);
    let high = MOST * scale;
    (scale > 0.0).then_some(Parameter { path, value, scale, low: 0.0, high, spread, operation })
}

/// True of times, clocks and costs. Sizes and counts are no continuous numbers.
fn is_quantity(path: &str) -> bool {
    let name = [".typ", ".max"].into_iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
    let has_unit =
        ["_s", "_ms", "_us", "_ns", "_ps", "_hz", "_per_kb"].iter().any(|unit| name.ends_with(unit));
    has_unit || path.starts_with("host.") || path.starts_with("controller.")
}

/// A number that the user frees: from half of it to the maximum beside it, or to twice as much.
pub(super) fn free_number(config: &Config, path: &str, value: f64) -> Parameter {
    let scale = if value > 0.0 { value } else { 1.0 };
    let most = path.strip_suffix("typ").and_then(|table| microseconds(config, &format!("{table}max")));
    Parameter {
        path: path.to_owned(),
        value,
        scale,
        low: value / 2.0,
        high: most.unwrap_or(2.0 * scale).max(value),
        spread: FREED,
        operation: operation_of(path),
    }
}

/// A time of a setup, in us, in any of its notations.
fn microseconds(config: &Config, path: &str) -> Option<f64> {
    #[derive(Deserialize)]
    struct Time(#[serde(with = "units::us")] Nanos);
    config.extract::<Time>(path).ok().map(|time| time.0.as_us_f64())
}

fn number(config: &Config, path: &str) -> Option<f64> {
    config.extract::<f64>(path).ok().filter(|value| value.is_finite() && *value >= 0.0)
}

/// A value as the setup's key takes it: costs of 1000 bytes and picoseconds are whole.
pub(super) fn text(path: &str, value: f64) -> String {
    let whole = path.ends_with("_per_kb") || path.ends_with("_ps") || path.ends_with("_hz");
    if whole { format!("{:.0}", value.round()) } else { format!("{value:.4}") }
}
