//! The costs of host and controller that a kind of setup has.

use floatgate_config::Config;
use floatgate_device::spec::ChipKind;
use floatgate_sim::error::Error;

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
}

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

/// The costs of a setup, and the numbers that `free` names.
pub(super) fn of(config: &Config, free: &[String]) -> Result<Vec<Parameter>, Error> {
    let costs: &[(&str, &str, f64)] = match config.chip_kind()? {
        ChipKind::SpiNand | ChipKind::SpiNor => &SPI,
        ChipKind::RawNand => &NAND,
        ChipKind::ParallelNor => &BUS,
    };
    let costs = costs
        .iter()
        .filter(|(table, ..)| config.tree().get(table).is_some())
        .map(|(table, key, usual)| (format!("{table}.{key}"), *usual));
    let mut all: Vec<Parameter> = HOST
        .iter()
        .map(|(path, usual)| ((*path).to_owned(), *usual))
        .chain(costs)
        .filter_map(|(path, usual)| cost(config, path, usual))
        .collect();
    for path in free {
        let found = number(config, path).ok_or_else(|| {
            Error::asked(
                format!("{path} is no number of this setup"),
                "free a number, as chip.timing.t_prog_us.typ",
            )
        })?;
        all.retain(|p| p.path != *path);
        all.push(free_number(config, path, found));
    }
    Ok(all)
}

fn cost(config: &Config, path: String, usual: f64) -> Option<Parameter> {
    let value = number(config, &path).unwrap_or(0.0);
    let scale = value.max(usual);
    (scale > 0.0).then_some(Parameter { path, value, scale, low: 0.0, high: MOST * scale })
}

/// A number that the user frees: from half of it to the maximum beside it, or to twice as much.
pub(super) fn free_number(config: &Config, path: &str, value: f64) -> Parameter {
    let scale = if value > 0.0 { value } else { 1.0 };
    let most = path.strip_suffix("typ").and_then(|table| number(config, &format!("{table}max")));
    Parameter {
        path: path.to_owned(),
        value,
        scale,
        low: value / 2.0,
        high: most.unwrap_or(2.0 * scale).max(value),
    }
}

fn number(config: &Config, path: &str) -> Option<f64> {
    config.extract::<f64>(path).ok().filter(|value| value.is_finite() && *value >= 0.0)
}

/// A value as the setup's key takes it: costs of 1000 bytes and picoseconds are whole.
pub(super) fn text(path: &str, value: f64) -> String {
    let whole = path.ends_with("_per_kb") || path.ends_with("_ps") || path.ends_with("_hz");
    if whole { format!("{:.0}", value.round()) } else { format!("{value:.4}") }
}
