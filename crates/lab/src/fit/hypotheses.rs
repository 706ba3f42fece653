//! Changes of a board that explain its figures better than costs alone.
//!
//! A high cost can hide a slow bus. So each change is judged by a fit in which costs stay plausible, within three times
//! the setup's costs.

use super::model::Model;
use super::parameters::{self, Parameter};
use super::{Block, size, solve};
use floatgate_config::{Config, Library, Override, Setup};
use floatgate_device::spec::ChipKind;
use floatgate_device::spi::SpiProfile;
use floatgate_sim::rig;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Worst residual of a board below which no explanation is needed, as a ratio.
const ENOUGH: f64 = 0.02;

/// Maximum share of the worst residual that remains after a useful change.
const HALF: f64 = 0.5;

/// Maximum plausible cost, as a multiple of the setup's cost.
const PLAUSIBLE: f64 = 3.0;

/// A change of the board that at least halves the worst residual.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hypothesis {
    /// Description of the assumed fault.
    pub what: String,
    /// Overrides that make the change.
    pub set: Vec<String>,
    /// Worst residual of the unchanged setup, with plausible costs.
    pub worst_before: f64,
    /// Worst residual with the change.
    pub worst: f64,
}

/// Candidates that halve the worst residual, the best first. `done` is called after each candidate.
pub(super) fn explain(
    library: &Library,
    setup: &Setup,
    sets: &[Override],
    candidates: Vec<Candidate>,
    blocks: &[Block],
    done: &(dyn Fn(u64) + Sync),
) -> Vec<Hypothesis> {
    let worst_with = |change: &[String], free: &[String]| {
        let mut all = sets.to_vec();
        all.extend(Override::parse_all(change).ok()?);
        let config = library.resolve(setup, &all).ok()?;
        // The times of the chip stay typical, unless the candidate frees them.
        let costs = parameters::of(library, &config, &[]).ok()?.into_iter().filter(|p| !p.is_of_chip());
        let plausible = costs.map(plausible);
        let free = free.iter().filter_map(|path| {
            let value = config.extract::<f64>(path).ok()?;
            Some(parameters::free_number(&config, path, value))
        });
        let model = Model::new(library, setup, &all, blocks, plausible.chain(free).collect()).ok()?;
        let keep = model.fitted();
        let best = solve(&model, &keep, &model.start())?;
        Some(size(&model.residuals(&model.times(&best).ok()?), &keep))
    };
    let Some(before) = worst_with(&[], &[]).filter(|worst| *worst > ENOUGH) else { return Vec::new() };
    let mut found: Vec<Hypothesis> = candidates
        .into_par_iter()
        .filter_map(|(what, set, free)| {
            let worst = worst_with(&set, &free);
            done(1);
            let worst = worst.filter(|worst| *worst <= before * HALF)?;
            Some(Hypothesis { what, set: set.into_iter().chain(free).collect(), worst_before: before, worst })
        })
        .collect();
    found.sort_by(|a, b| a.worst.total_cmp(&b.worst));
    found
}

fn plausible(p: Parameter) -> Parameter {
    let high = p.high.min((PLAUSIBLE * p.value).max(p.scale / 2.0));
    Parameter { low: p.value / PLAUSIBLE, high, prior: parameters::Prior::Free, ..p }
}

/// A candidate: description, overrides, and paths of the numbers that it frees.
pub(super) type Candidate = (String, Vec<String>, Vec<String>);

/// Changes that are possible for this kind of setup.
pub(super) fn candidates(config: &Config) -> Vec<Candidate> {
    let change = |what: &str, set: &[String]| (what.to_owned(), set.to_vec(), Vec::new());
    let mut all = vec![
        change(
            "the CPU is busy or slow: calls and driver code take four times as long",
            &scaled(config, &["host.call_us", "host.page_us"], 4.0),
        ),
        change(
            "runtime power management: the host wakes up 100 us late",
            &[format!("host.wakeup_us={}", number(config, "host.wakeup_us") + 100.0)],
        ),
        change("ECC in software", &["ecc.engine=software".to_owned()]),
        change("cached or continuous reads are off", &["driver.continuous=false".to_owned()]),
    ];
    for time in ["t_prog_us", "t_rd_ecc_us", "t_r_us"] {
        for path in [format!("chip.timing.{time}.typ"), format!("chip.timing.{time}")] {
            if config.extract::<f64>(&path).is_ok() {
                all.push((format!("the chip's {path} is not the typical one"), Vec::new(), vec![path]));
            }
        }
    }
    match config.chip_kind() {
        Ok(ChipKind::SpiNand | ChipKind::SpiNor) => all.extend(of_spi(config)),
        Ok(ChipKind::RawNand) => {
            for mode in 0..5 {
                all.push(change(
                    &format!("the interface runs in SDR mode {mode}"),
                    &[format!("bus.interface=sdr{mode}")],
                ));
            }
            all.push(change("R/B# is not used: the driver polls", &["bus.no_ready_pin=true".to_owned()]));
        }
        _ => {}
    }
    all
}

fn of_spi(config: &Config) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = [1, 2, 4]
        .into_iter()
        .filter(|&lanes| f64::from(lanes) < number(config, "bus.lanes"))
        .map(|lanes| {
            (format!("only x{lanes}: wider modes are off"), vec![format!("bus.lanes={lanes}")], Vec::new())
        })
        .collect();
    for mode in rig::chip_modes(config) {
        all.push((format!("the bus mode is {mode}"), vec![format!("bus.mode={mode}")], Vec::new()));
    }
    for clock in slower_clocks(config) {
        let what = format!("the clock is {:.2} MHz: another divider", clock as f64 / 1e6);
        all.push((what, vec![format!("bus.clock_hz={clock}")], Vec::new()));
    }
    if config.tree().get("controller.dirmap").is_some() {
        let off = ["read", "write"].map(|way| format!("controller.dirmap.{way}=false")).to_vec();
        all.push(("no direct mapping".to_owned(), off, Vec::new()));
    }
    all
}

/// Override that about halves the clock of a SPI bus.
pub(super) fn half_clock(config: &Config) -> Option<String> {
    let asked = config.extract::<floatgate_device::spi::SpiBus>("bus").ok()?.clock_hz;
    (asked > 1).then(|| format!("bus.clock_hz={}", asked / 2))
}

/// The next lower clocks that the controller supports, Hz.
fn slower_clocks(config: &Config) -> Vec<u64> {
    let Ok(profile) = config.extract::<SpiProfile>("controller") else { return Vec::new() };
    let asked = config.extract::<floatgate_device::spi::SpiBus>("bus").map_or(0, |bus| bus.clock_hz);
    let mut clocks = Vec::new();
    let mut clock = profile.clock_for(asked);
    for divisor in [1.25, 1.5, 2.0, 3.0, 4.0, 8.0] {
        let next = profile.clock_for((profile.clock_for(asked) as f64 / divisor) as u64 + 1);
        if next < clock && next > 0 {
            clocks.push(next + u64::from(!profile.reference_hz.is_multiple_of(next)));
            clock = next;
        }
    }
    clocks
}

fn number(config: &Config, path: &str) -> f64 {
    config.extract::<f64>(path).unwrap_or(if path == "bus.lanes" { 8.0 } else { 0.0 })
}

fn scaled(config: &Config, paths: &[&str], factor: f64) -> Vec<String> {
    paths.iter().map(|path| format!("{path}={}", number(config, path) * factor)).collect()
}
