//! Numbers of a setup that a fit may change: costs of host and controller, and times of the chip.
//!
//! Each number has a distribution before any measurement. A cost is wrong by a factor that depends on the confidence of
//! its profile. A time of the chip is distributed around the typical time as its data sheet states. A fit moves each
//! number in units of its spread, so a slow program is attributed to chip and software in proportion to their
//! uncertainties.

use crate::papers::Operation;
use crate::uncertainty::Uncertainty;
use floatgate_config::{Config, Library};
use floatgate_device::spec::ChipKind;
use floatgate_device::units::{self, TypMaxUs};
use floatgate_mtd::Nanos;
use floatgate_sim::error::Error;
use serde::Deserialize;

/// A number of a setup that a fit may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Dotted path of the number.
    pub path: String,
    /// Value in the setup.
    pub value: f64,
    /// Unit of the number in the fit: its value, or the usual value if that is larger.
    pub scale: f64,
    /// Lower bound of the number.
    pub low: f64,
    /// Upper bound of the number.
    pub high: f64,
    /// Distribution before the measurement.
    pub prior: Prior,
    /// Kind of operation to which the time belongs; `None` for a cost of all operations.
    pub operation: Option<Operation>,
}

/// Distribution of a number before the measurement, in units of its scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prior {
    /// A cost that may be wrong by a factor: standard deviation of its logarithm.
    Factor(f64),
    /// A time of the chip: standard deviations below and above the typical time.
    DataSheet {
        /// Standard deviation of times shorter than typical.
        less: f64,
        /// Standard deviation of times longer than typical.
        more: f64,
    },
    /// A number that the user frees: only the figures determine it.
    Free,
}

/// Number of CPU instructions, in thousands, per operation of the SPI memory layer on six boards. They are the fitted
/// costs without the 14 thousand instructions of an interrupt (docs/fidelity.md). Boards: BCM47622, MA35D1, ZC702,
/// AM62A, MT7986, MT7981.
const OPERATIONS: [f64; 6] = [13.0, 25.0, 28.0, 17.0, 21.0, 37.0];

/// Number of CPU instructions, in thousands, per MTD call on four boards, without those of lock debugging: BCM47622, AM62A, ZC702,
/// i.MX28.
const CALLS: [f64; 4] = [2.0, 6.0, 11.0, 15.0];

/// Standard deviation of the logarithm of a cost between boards: a fitted setup is another board, or its costs are
/// doubtful.
fn between_boards(path: &str) -> f64 {
    if ["host.call_us", "host.page_us"].contains(&path) { deviation(&CALLS) } else { deviation(&OPERATIONS) }
}

/// Standard deviation of the logarithms of a sample.
fn deviation(sample: &[f64]) -> f64 {
    let logs = || sample.iter().map(|x| x.ln());
    let mean = logs().sum::<f64>() / sample.len() as f64;
    let squares: f64 = logs().map(|log| (log - mean) * (log - mean)).sum();
    (squares / (sample.len().max(2) - 1) as f64).sqrt()
}

/// Offset added to a cost before its logarithm is taken, in units of its scale, because a cost may be 0.
const SMALL: f64 = 0.3;

impl Parameter {
    /// Distance of `x` from the stated value, in standard deviations; `x` is in units of the scale.
    pub(super) fn pull(&self, x: f64) -> f64 {
        let stated = self.value / self.scale;
        match self.prior {
            Prior::Factor(deviation) => {
                ((x.max(0.0) + SMALL) / (stated + SMALL)).ln() / deviation.max(NARROWEST)
            }
            Prior::DataSheet { .. } | Prior::Free => (x - stated) / self.spread(x),
        }
    }

    /// Standard deviation near `x`, in units of the scale.
    pub(super) fn spread(&self, x: f64) -> f64 {
        let stated = self.value / self.scale;
        let spread = match self.prior {
            Prior::Factor(deviation) => deviation * (x.max(0.0) + SMALL),
            Prior::DataSheet { less, .. } if x < stated => less,
            Prior::DataSheet { more, .. } if x > stated => more,
            Prior::DataSheet { less, more } => f64::midpoint(less, more),
            Prior::Free => FREED,
        };
        spread.max(NARROWEST)
    }

    /// True for a time of the chip.
    pub(super) fn is_of_chip(&self) -> bool {
        self.path.starts_with("chip.")
    }

    /// True for a number that the user frees.
    pub(super) fn is_freed(&self) -> bool {
        self.prior == Prior::Free
    }
}

/// Spread of a number that the user frees, in units of its scale.
const FREED: f64 = 10.0;

/// Minimum spread: no number is exact.
const NARROWEST: f64 = 1e-6;

/// Maximum of a cost, as a multiple of the value in the setup or of the usual value.
const MOST: f64 = 20.0;

/// Costs of a host, with the usual value of each.
const HOST: [(&str, f64); 4] = [
    ("host.call_us", 5.0),
    ("host.page_us", 10.0),
    ("host.copy_ns_per_kb", 1000.0),
    ("host.wakeup_us", 20.0),
];

/// Costs of SPI controllers, with table, key and usual value. Costs in tables that the setup does not have are skipped.
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

/// Costs of raw NAND controllers. A cost with a usual value of 0 is fitted only if the setup states it.
const NAND: [(&str, &str, f64); 8] = [
    ("controller", "op_cost.setup_us", 10.0),
    ("controller", "op_cost.finish_us", 10.0),
    ("controller", "step_us", 0.0),
    ("controller", "ready_us", 0.0),
    ("controller.sdr_ns_per_byte", "read", 0.0),
    ("controller.sdr_ns_per_byte", "write", 0.0),
    // Bytes moved by the CPU.
    ("controller.rx", "ns_per_byte", 0.0),
    ("controller.tx", "ns_per_byte", 0.0),
];

/// Path of the time of a CPU instruction, on which the software ECC engine depends.
const INSTRUCTION: &str = "host.instruction_ps";

/// Costs of memory controllers.
const BUS: [(&str, &str, f64); 1] = [("controller", "access_ns", 0.0)];

/// Costs of a setup, times of its chip, and the numbers in `free`.
pub(super) fn of(library: &Library, config: &Config, free: &[String]) -> Result<Vec<Parameter>, Error> {
    let kind = config.chip_kind()?;
    let costs: &[(&str, &str, f64)] = match kind {
        ChipKind::SpiNand | ChipKind::SpiNor => &SPI,
        ChipKind::RawNand => &NAND,
        ChipKind::ParallelNor => &BUS,
    };
    let uncertainty = Uncertainty::of(library, config)?;
    let own = uncertainty.software_deviation();
    let costs = costs
        .iter()
        .filter(|(table, ..)| config.tree().get(table).is_some())
        .map(|(table, key, usual)| (format!("{table}.{key}"), *usual));
    let mut all: Vec<Parameter> = HOST
        .iter()
        .map(|(path, usual)| ((*path).to_owned(), *usual))
        .chain(costs)
        .chain(has_software_ecc(config).then(|| (INSTRUCTION.to_owned(), 0.0)))
        .filter_map(|(path, usual)| cost(config, path, usual, own))
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

/// True if the CPU computes the ECC codes.
fn has_software_ecc(config: &Config) -> bool {
    config.extract::<String>("ecc.engine").is_ok_and(|engine| engine == "software")
}

/// Paths of the times of a chip's array, each with its kind of operation.
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

/// Paths of the typical times of a NOR's erase commands.
fn sectors(config: &Config) -> Vec<String> {
    let kinds = config.tree().get("chip.erase").map_or_else(Vec::new, |erase| erase.leaves("chip.erase"));
    kinds.into_iter().filter(|path| path.ends_with(".t_us.typ")).collect()
}

/// Minimum of the time of an array operation, as a share of its typical time. Published erases of single-level cells
/// take down to a quarter of it (papers/unfitted.toml, ts7250).
const fn least_share(operation: Operation) -> f64 {
    if matches!(operation, Operation::Erase) { 0.2 } else { 0.5 }
}

/// A time of the chip with its distribution.
fn time_of_chip(
    config: &Config,
    path: String,
    operation: Operation,
    (less, more): (f64, f64),
) -> Option<Parameter> {
    let value = microseconds(config, &path).filter(|value| *value > 0.0)?;
    let table = path.strip_suffix(".typ");
    let most =
        table.and_then(|table| config.extract::<TypMaxUs>(table).ok()).map(|time| time.max.as_us_f64());
    let high = most.map_or(1.5 * value, |most| most.max(value));
    let low = value * least_share(operation);
    let prior = Prior::DataSheet { less, more };
    Some(Parameter { path, value, scale: value, low, high, prior, operation: Some(operation) })
}

/// Kind of operation to which a cost belongs.
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

/// A cost with its distribution; `own` is the standard deviation of its logarithm according to its profile.
fn cost(config: &Config, path: String, usual: f64, own: f64) -> Option<Parameter> {
    let value = number(config, &path).unwrap_or(0.0);
    let scale = value.max(usual);
    let operation = operation_of(&path);
    let prior = Prior::Factor(own.max(between_boards(&path)));
    let high = MOST * scale;
    (scale > 0.0).then_some(Parameter { path, value, scale, low: 0.0, high, prior, operation })
}

/// Units of continuous numbers: times, clocks, and costs per byte and bit.
const CONTINUOUS: [&str; 7] = ["us", "ns", "ps", "Hz", "ns per byte", "ns per 1000 B", "ns per 1024 B"];

/// True for the key of a time, a clock or a cost. Sizes and counts are not continuous.
fn is_quantity(path: &str) -> bool {
    let keys = floatgate_config::keys();
    let unit = |path: &str| keys.iter().find(|key| is_key(&key.key, path)).map_or("", |key| key.unit);
    // The two numbers of a time or a cost have the unit of their table.
    let table = path.rsplit_once('.').map_or("", |(table, _)| table);
    [path, table].iter().any(|path| CONTINUOUS.contains(&unit(path)))
}

/// True if `path` matches the documented `key`, in which `<name>` stands for any name.
fn is_key(key: &str, path: &str) -> bool {
    let same = |(step, own): (&str, &str)| step == own || step == "<name>";
    key.split('.').count() == path.split('.').count() && key.split('.').zip(path.split('.')).all(same)
}

/// A number that the user frees: its range is from half of the value to the maximum next to it, or to twice the value.
pub(super) fn free_number(config: &Config, path: &str, value: f64) -> Parameter {
    let scale = if value > 0.0 { value } else { 1.0 };
    let most = path.strip_suffix("typ").and_then(|table| microseconds(config, &format!("{table}max")));
    Parameter {
        path: path.to_owned(),
        value,
        scale,
        low: value / 2.0,
        high: most.unwrap_or(2.0 * scale).max(value),
        prior: Prior::Free,
        operation: operation_of(path),
    }
}

/// Time in a setup in any notation, converted to us.
fn microseconds(config: &Config, path: &str) -> Option<f64> {
    #[derive(Deserialize)]
    struct Time(#[serde(with = "units::us")] Nanos);
    config.extract::<Time>(path).ok().map(|time| time.0.as_us_f64())
}

fn number(config: &Config, path: &str) -> Option<f64> {
    config.extract::<f64>(path).ok().filter(|value| value.is_finite() && *value >= 0.0)
}

/// Text of a value as the key accepts it: costs per 1000 bytes and picoseconds are whole numbers.
pub(super) fn text(path: &str, value: f64) -> String {
    let whole = path.ends_with("_per_kb") || path.ends_with("_ps") || path.ends_with("_hz");
    if whole { format!("{:.0}", value.round()) } else { format!("{value:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(prior: Prior) -> Parameter {
        let (path, operation) = (String::new(), None);
        Parameter { path, value: 5.0, scale: 5.0, low: 0.0, high: 100.0, prior, operation }
    }

    /// Twice the cost is about as far away as half of it, because a cost may be 0. A slow chip is nearer than a fast
    /// one.
    #[test]
    fn costs_are_off_by_factors_and_chips_as_their_data_sheets_say() {
        let cost = number(Prior::Factor(0.5));
        assert!(cost.pull(1.0) == 0.0 && cost.pull(2.0) < -cost.pull(0.0), "{}", cost.pull(2.0));
        assert!(cost.pull(20.0) < 6.0 && cost.spread(2.0) > cost.spread(1.0));
        let chip = number(Prior::DataSheet { less: 0.2, more: 0.4 });
        assert_eq!((chip.pull(1.4).round(), chip.pull(0.8).round()), (1.0, -1.0));
        assert!(between_boards("host.call_us") > between_boards("controller.exec.setup_us"));
    }

    #[test]
    fn quantities_have_a_unit_of_their_key() {
        for path in [
            "host.call_us",
            "bus.clock_hz",
            "controller.rx.ns_per_byte",
            "controller.sdr_ns_per_byte.read",
            "chip.timing.t_prog_us.typ",
            "chip.erase.4k.t_us.typ",
        ] {
            assert!(is_quantity(path), "{path}");
        }
        for path in ["bus.lanes", "chip.geometry.page_bytes", "controller.work.instructions", "host.firmware"]
        {
            assert!(!is_quantity(path), "{path}");
        }
    }
}
