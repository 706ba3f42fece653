//! Simulated times of all figures for given costs.

use super::least_squares::Bounds;
use super::parameters::{self, Parameter};
use super::{Block, Figure, FittedRow, Measure, Measurement, Unknown};
use crate::papers::Operation;
use crate::speed::{self, SpeedOptions, Test};
use crate::speed_run::for_times;
use floatgate_config::{Config, Library, Override, Prepared, Setup};
use floatgate_mtd::Geometry;
use floatgate_sim::error::Error;
use floatgate_sim::rig::{self, RigOptions};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Number of simulated eraseblocks: except for one-time effects, all eraseblocks are the same.
const BLOCKS: u32 = 2;

/// Relative error of the model in any figure.
pub(super) const MODEL: f64 = 0.003;

/// A figure to be matched.
#[derive(Clone, Debug)]
struct Target {
    /// Index of the condition of the figure.
    condition: usize,
    measurement: Measurement,
    /// Tests whose times are added.
    tests: Vec<Test>,
    /// Lowest and highest time for which the tool prints the figure, ns per byte.
    interval: (f64, f64),
}

/// Setup under which figures were measured.
struct Condition {
    /// Overrides from the `set` lines of the input.
    set: Vec<String>,
    /// Paths of these overrides. Costs among them are not fitted.
    held: Vec<String>,
    /// All overrides.
    sets: Vec<Override>,
    /// Setup whose files are already read, because reading them would take most of the time of a simulation.
    prepared: Prepared,
}

impl Condition {
    /// True if a `set` line states this cost for these figures.
    fn holds(&self, p: &Parameter) -> bool {
        self.held.iter().any(|path| {
            p.path.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    fn config(&self, values: &[Override]) -> Result<Config, Error> {
        Ok(self.prepared.with(&self.sets.iter().chain(values).cloned().collect::<Vec<_>>())?)
    }
}

/// All figures, and the setups that simulate them.
pub(super) struct Model<'l> {
    library: &'l Library,
    conditions: Vec<Condition>,
    targets: Vec<Target>,
    pub(super) parameters: Vec<Parameter>,
    /// Cache of simulated times: searches return to the start and end points of other searches.
    known: Mutex<BTreeMap<Simulation, Vec<(Test, f64)>>>,
    /// Figures that are impossible on the device.
    pub(super) refused: Vec<Unknown>,
}

/// Two figures of the same test under the same conditions whose times differ by more than rounding and the model's
/// error.
pub(super) struct Contradiction {
    /// Line numbers of the two figures.
    pub(super) lines: (usize, usize),
    /// Ratio of the longer to the shorter time, beyond the rounding of the tools, minus 1.
    pub(super) apart: f64,
    /// True if the figures determine costs.
    pub(super) is_fitted: bool,
}

/// Key of a simulation: costs as overrides, and names of the tests with the overrides of the condition.
type Simulation = (Vec<String>, Vec<String>);

/// Maximum number of cached simulations.
const KNOWN_MAX: usize = 1 << 16;

impl<'l> Model<'l> {
    pub(super) fn new(
        library: &'l Library,
        setup: &'l Setup,
        sets: &[Override],
        blocks: &[Block],
        parameters: Vec<Parameter>,
    ) -> Result<Self, Error> {
        let (known, conditions, targets, refused) = (Mutex::default(), Vec::new(), Vec::new(), Vec::new());
        let mut model = Self { library, conditions, targets, parameters, known, refused };
        for block in blocks {
            let own = Override::parse_all(&block.set)?;
            let all: Vec<Override> = sets.iter().chain(&own).cloned().collect();
            let condition = Condition {
                set: block.set.clone(),
                held: own.iter().map(Override::path).collect(),
                prepared: library.prepare(setup, &all)?,
                sets: all,
            };
            let line = block.figures.first().map_or(0, |first| first.line);
            let place = || format!("the block of line {line}");
            let config = condition.config(&[])?;
            let rig = rig::wire(library, &config, options(&config)).map_err(|e| e.within(place()))?;
            let geometry = rig.device.geometry().clone();
            let kib = kib(block, &geometry);
            let known = model.targets.len();
            for measurement in &block.figures {
                let (condition, measurement) = (model.conditions.len(), measurement.clone());
                match tests(&measurement, &geometry) {
                    Ok(tests) => {
                        let interval = interval(&measurement, &tests, kib, &geometry);
                        model.targets.push(Target { condition, measurement, tests, interval });
                    }
                    Err(why) => {
                        let (line, text) = (measurement.line, measurement.text);
                        model.refused.push(Unknown { line, text, why });
                    }
                }
            }
            if model.targets.len() > known {
                model.conditions.push(condition);
            }
        }
        Ok(model)
    }

    /// True if all figures are impossible on the device.
    pub(super) const fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Costs that the setup states, in units of their scales.
    pub(super) fn start(&self) -> Vec<f64> {
        self.parameters.iter().map(|p| p.value / p.scale).collect()
    }

    pub(super) fn bounds(&self) -> Vec<Bounds> {
        let of = |p: &Parameter| Bounds { low: p.low / p.scale, high: p.high / p.scale, longest: 5.0 };
        self.parameters.iter().map(of).collect()
    }

    /// Figures that no costs explain: they are faster than the chip and its bus by more than `factor`, with all costs and times at
    /// the lowest ends of their ranges. Erases are among them only if their time is fitted, since blocks may be erased already.
    pub(super) fn too_fast(&self, factor: f64) -> Vec<Unknown> {
        let lowest: Vec<f64> = self.bounds().iter().map(|bounds| bounds.low).collect();
        let rows = self.fitted();
        let Some(times) = self.times_of(&lowest, &rows) else { return Vec::new() };
        let one = |(row, least): (usize, f64)| {
            let Target { measurement, interval, .. } = self.targets.get(row)?;
            let kib_s = 1e9 / (least.max(f64::EPSILON) * 1024.0);
            let why = format!(
                "faster than the chip and its bus, which allow at most {kib_s:.0} KiB/s: take the setup of the chip that was measured"
            );
            let Measurement { line, ref text, .. } = *measurement;
            (interval.1 * factor < least).then(|| Unknown { line, text: text.clone(), why })
        };
        rows.into_iter().zip(times).filter_map(one).collect()
    }

    /// Number of figures.
    pub(super) const fn rows_count(&self) -> usize {
        self.targets.len()
    }

    /// Rows that determine costs. Erases determine one only if an erase time is fitted.
    pub(super) fn fitted(&self) -> Vec<usize> {
        let erases = self.parameters.iter().any(is_of_erases);
        let is_erase = |t: &Target| matches!(t.tests.as_slice(), [Test::Erase(_)]);
        (0..self.targets.len()).filter(|&i| erases || !self.targets.get(i).is_some_and(is_erase)).collect()
    }

    /// Simulated times of all rows, ns per byte.
    pub(super) fn times(&self, at: &[f64]) -> Result<Vec<f64>, Error> {
        let all: Vec<usize> = (0..self.targets.len()).collect();
        self.simulate(at, &all)
    }

    /// Simulated times of some rows, ns per byte; `None` if they cannot be simulated.
    pub(super) fn times_of(&self, at: &[f64], rows: &[usize]) -> Option<Vec<f64>> {
        self.simulate(at, rows).ok()
    }

    fn simulate(&self, at: &[f64], rows: &[usize]) -> Result<Vec<f64>, Error> {
        let run = |(index, condition): (usize, &Condition)| {
            let mut tests: Vec<Test> = Vec::new();
            for target in rows.iter().filter_map(|&row| self.targets.get(row)) {
                let new = target.tests.iter().filter(|_| target.condition == index);
                tests.extend(new);
            }
            tests.dedup();
            self.run_at(condition, at, tests)
        };
        let runs: Result<Vec<Vec<(Test, f64)>>, Error> =
            self.conditions.iter().enumerate().map(run).collect();
        let runs = runs?;
        let time = |row: usize| {
            let target = self.targets.get(row)?;
            let run = runs.get(target.condition)?;
            target
                .tests
                .iter()
                .map(|test| run.iter().find(|(t, _)| t == test).map(|(_, ns)| *ns))
                .sum::<Option<f64>>()
        };
        let missing = || Error::request("a figure was not simulated", "choose tests that the device has");
        rows.iter().map(|&row| time(row).ok_or_else(missing)).collect()
    }

    /// Times of tests under a condition, ns per byte.
    fn run_at(&self, condition: &Condition, at: &[f64], tests: Vec<Test>) -> Result<Vec<(Test, f64)>, Error> {
        if tests.is_empty() {
            return Ok(Vec::new());
        }
        let costs = self.costs(condition, at);
        let names = tests.iter().map(|test| test.name()).chain(condition.set.iter().cloned()).collect();
        let simulation = (costs, names);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = known().get(&simulation) {
            return Ok(times.clone());
        }
        let values = Override::parse_all(&simulation.0)?;
        let times = self.run(&condition.config(&values)?, tests)?;
        let mut known = known();
        if known.len() < KNOWN_MAX {
            known.insert(simulation, times.clone());
        }
        Ok(times)
    }

    /// Times of tests on one setup, ns per byte. As in `flash_speed`, blocks are written before they are read.
    fn run(&self, config: &Config, tests: Vec<Test>) -> Result<Vec<(Test, f64)>, Error> {
        let mut rig = rig::wire(self.library, config, options(config))?;
        let writes = tests.iter().any(|test| matches!(test, Test::Write(_)));
        let first = Some(Test::Write(0)).filter(|_| !writes);
        let mut times: Vec<(Test, f64)> = Vec::new();
        let mut order: Vec<Test> = first.into_iter().chain(tests).collect();
        order.sort_by_key(|test| match test {
            Test::Write(_) => 0,
            Test::Read(_) => 1,
            Test::Erase(_) => 2,
        });
        for test in order {
            if times.iter().any(|(done, _)| *done == test) {
                continue;
            }
            let now = rig.now();
            let blocks = if let Test::Erase(n) = test { BLOCKS.max(n) } else { BLOCKS };
            let options = SpeedOptions { blocks: Some(blocks), only: vec![test], ..SpeedOptions::default() };
            let report = speed::run(rig.device.as_mut(), now, &options).map_err(Error::flash(test.name()))?;
            if let Some(measured) = report.tests.first() {
                times.push((test, measured.ns as f64 / measured.bytes.max(1) as f64));
            }
        }
        Ok(times)
    }

    pub(super) fn interval(&self, row: usize) -> Option<(f64, f64)> {
        self.targets.get(row).map(|target| target.interval)
    }

    /// Errors of the rows and of the numbers. A row's error is the logarithm of the ratio of its time to the middle of
    /// its interval, in units of the row's and the model's resolution. A number's error is its distance from the stated
    /// value, in units of its spread.
    pub(super) fn errors(&self, times: &[f64], rows: &[usize], at: &[f64]) -> Vec<f64> {
        let error = |(&row, &time): (&usize, &f64)| {
            let (low, high) = self.interval(row)?;
            Some((time / (low * high).sqrt()).ln() / self.deviation(row, MODEL)?)
        };
        let pulls = at.iter().zip(&self.parameters).map(|(x, p)| p.pull(*x));
        rows.iter().zip(times).filter_map(error).chain(pulls).collect()
    }

    /// Standard deviation of the logarithm of a row's time, from its resolution and the error of the model.
    pub(super) fn deviation(&self, row: usize, model: f64) -> Option<f64> {
        let (low, high) = self.interval(row)?;
        let half = (high / low).ln() / 2.0;
        Some((half * half / 3.0 + model * model).sqrt())
    }

    /// Overrides of a row's condition.
    pub(super) fn set(&self, row: usize) -> &[String] {
        let condition = self.targets.get(row).and_then(|target| self.conditions.get(target.condition));
        condition.map_or(&[], |condition| &condition.set)
    }

    /// Operation of the only test of a row.
    pub(super) fn operation(&self, row: usize) -> Operation {
        match self.targets.get(row).map(|target| target.tests.as_slice()) {
            Some([test]) => Operation::of_test(*test),
            _ => Operation::Other,
        }
    }

    /// Times of tests under the condition with the overrides `set`, ns per byte; `None` if there is no such condition.
    pub(super) fn times_under(&self, set: &[String], at: &[f64], tests: &[Test]) -> Option<Vec<(Test, f64)>> {
        let condition = self.conditions.iter().find(|condition| condition.set == set)?;
        self.run_at(condition, at, tests.to_vec()).ok()
    }

    /// Read and write operation, with their clocks, under the condition with the overrides `set`.
    pub(super) fn link(&self, set: &[String], at: &[f64]) -> Option<String> {
        let condition = self.conditions.iter().find(|condition| condition.set == set)?;
        let values = Override::parse_all(&self.costs(condition, at)).ok()?;
        let config = condition.config(&values).ok()?;
        let link = rig::wire(self.library, &config, options(&config)).ok()?.device.link();
        Some(format!("reads {}, writes {}", link.read, link.write))
    }

    /// Numbers at a point as overrides, without those that the condition states.
    fn costs(&self, condition: &Condition, at: &[f64]) -> Vec<String> {
        let value =
            |(p, x): (&Parameter, &f64)| format!("{}={}", p.path, parameters::text(&p.path, x * p.scale));
        self.parameters.iter().zip(at).filter(|(p, _)| !condition.holds(p)).map(value).collect()
    }

    /// Adds a condition without figures, for use with [`Self::times_under`].
    ///
    /// # Errors
    /// A file cannot be read; an invalid override.
    pub(super) fn with_condition(
        mut self,
        setup: &Setup,
        sets: &[Override],
        set: &[String],
    ) -> Result<Self, Error> {
        if self.conditions.iter().all(|condition| condition.set != set) {
            let own = Override::parse_all(set)?;
            let all: Vec<Override> = sets.iter().chain(&own).cloned().collect();
            let prepared = self.library.prepare(setup, &all)?;
            let held = own.iter().map(Override::path).collect();
            self.conditions.push(Condition { set: set.to_vec(), held, sets: all, prepared });
        }
        Ok(self)
    }

    /// True if a figure of this test exists under these overrides.
    pub(super) fn has_figure(&self, set: &[String], test: Test) -> bool {
        let is = |target: &Target| {
            target.tests == [test]
                && self.conditions.get(target.condition).is_some_and(|condition| condition.set == set)
        };
        self.targets.iter().any(is)
    }

    /// Overrides of the first figure.
    pub(super) fn first_conditions(&self) -> Vec<String> {
        self.conditions.first().map_or_else(Vec::new, |condition| condition.set.clone())
    }

    /// Distance of a time from the interval of a row, relative to the nearer end; 0 inside the interval.
    pub(super) fn residual(&self, row: usize, time: f64) -> Option<f64> {
        let (low, high) = self.interval(row)?;
        Some(if time < low { time / low - 1.0 } else { (time / high - 1.0).max(0.0) })
    }

    pub(super) fn residuals(&self, times: &[f64]) -> Vec<f64> {
        times.iter().enumerate().filter_map(|(row, &time)| self.residual(row, time)).collect()
    }

    /// True if two rows measure the same under the same conditions.
    pub(super) fn is_same(&self, a: usize, b: usize) -> bool {
        let set = |target: &Target| self.conditions.get(target.condition).map(|condition| &condition.set);
        match (self.targets.get(a), self.targets.get(b)) {
            (Some(a), Some(b)) => set(a) == set(b) && a.tests == b.tests,
            _ => false,
        }
    }

    /// Figures that contradict an earlier one, each with the first figure that it contradicts.
    pub(super) fn contradictions(&self) -> Vec<Contradiction> {
        let decides = |p: &Parameter| p.is_freed() && is_of_erases(p);
        let has_free_erases = self.parameters.iter().any(decides);
        let is_fatal = |row: usize| has_free_erases || self.operation(row) != Operation::Erase;
        let pair = |a: usize, b: usize| {
            let ((a_low, a_high), (b_low, b_high)) = (self.interval(a)?, self.interval(b)?);
            let apart = (a_low / b_high).max(b_low / a_high) - 1.0;
            let (first, second) = (&self.targets.get(a)?.measurement, &self.targets.get(b)?.measurement);
            let found = Contradiction { lines: (first.line, second.line), apart, is_fitted: is_fatal(a) };
            Some(found).filter(|_| apart > 2.0 * MODEL)
        };
        let first = |b: usize| (0..b).filter(|&a| self.is_same(a, b)).find_map(|a| pair(a, b));
        (0..self.targets.len()).filter_map(first).collect()
    }

    /// Remarks on single figures, as `line 3: ...`.
    pub(super) fn remarks(&self) -> Vec<String> {
        let remark = |t: &Target| Some(format!("line {}: {}", t.measurement.line, t.measurement.remark?));
        self.targets.iter().filter_map(remark).collect()
    }

    /// Model without costs that change no row, and the times of its rows.
    pub(super) fn without_idle(mut self, times: Vec<f64>) -> Result<(Self, Vec<f64>), Error> {
        let start = self.start();
        let effective: Vec<bool> = (0..start.len())
            .into_par_iter()
            .map(|i| {
                let mut there = start.clone();
                if let Some(x) = there.get_mut(i) {
                    *x += 1.0;
                }
                self.times(&there).map_or(true, |others| others != times)
            })
            .collect();
        let mut effective = effective.into_iter();
        self.parameters.retain(|_| effective.next().unwrap_or(true));
        Ok((self, times))
    }

    pub(super) fn rows(
        &self,
        times: &[f64],
        residuals: &[f64],
        before: &[f64],
        left_out: &[Option<f64>],
    ) -> Vec<FittedRow> {
        let fitted = self.fitted();
        let at = |list: &[f64], row: usize| list.get(row).copied().unwrap_or(f64::NAN);
        let row = |(row, target): (usize, &Target)| FittedRow {
            line: target.measurement.line,
            name: name(target),
            set: self
                .conditions
                .get(target.condition)
                .map_or_else(Vec::new, |condition| condition.set.clone()),
            measured: target.measurement.text.clone(),
            ns_per_byte: f64::midpoint(target.interval.0, target.interval.1),
            fitted_ns_per_byte: at(times, row),
            residual: at(residuals, row),
            residual_before: at(before, row),
            left_out: left_out.get(row).copied().flatten(),
            fitted: fitted.contains(&row),
        };
        self.targets.iter().enumerate().map(row).collect()
    }
}

/// True for the time of an erase.
fn is_of_erases(p: &Parameter) -> bool {
    p.path.contains("bers") || p.path.contains("erase")
}

fn options(config: &Config) -> RigOptions {
    for_times(RigOptions::default(), config, &SpeedOptions::default())
}

fn name(target: &Target) -> String {
    match target.tests.as_slice() {
        [test] => test.name(),
        _ => "update".to_owned(),
    }
}

/// Tests of a measure on a device, or the reason why it is impossible there.
fn tests(measurement: &Measurement, geometry: &Geometry) -> Result<Vec<Test>, String> {
    let page = u64::from(speed::page_bytes(geometry));
    let block = u64::from(geometry.erase_bytes);
    let size = geometry.size_bytes;
    if let Some(bytes) = measurement.bytes.filter(|&bytes| bytes > size) {
        return Err(format!(
            "{bytes} bytes are more than the chip's {size}: take the setup of the chip that was measured"
        ));
    }
    let pages = match measurement.measure {
        Measure::Test(Test::Write(n) | Test::Read(n)) => n,
        _ => 0,
    };
    if u64::from(pages) * page > block {
        return Err(format!(
            "an eraseblock has {} pages: take the setup of the chip that was measured",
            block / page
        ));
    }
    let test = match measurement.measure {
        Measure::Test(Test::Erase(n)) if n > 1024 => {
            return Err(format!("{n} eraseblocks at once: give at most 1024"));
        }
        Measure::Test(test) => test,
        Measure::Update => return Ok(vec![Test::Read(0), Test::Erase(1), Test::Write(0)]),
        Measure::Bytes { unit, .. } if unit < page => {
            return Err(format!(
                "dd with units of {unit} bytes moves each page of {page} bytes several times: measure with bs=1M"
            ));
        }
        Measure::Bytes { unit, .. } if unit < block && unit % page != 0 => {
            return Err(format!(
                "dd with units of {unit} bytes, which are no whole pages of {page} bytes: measure with bs=1M"
            ));
        }
        Measure::Bytes { unit, write } => {
            let pages = if unit >= block { 0 } else { u32::try_from(unit / page).unwrap_or(0) };
            if write { Test::Write(pages) } else { Test::Read(pages) }
        }
    };
    Ok(vec![test])
}

/// Amount of data that `flash_speed` moved, KiB: from the number of blocks, or the smallest usual amount with which all
/// figures agree.
fn kib(block: &Block, geometry: &Geometry) -> Option<f64> {
    let of = |blocks: f64| blocks * f64::from(geometry.erase_bytes) / 1024.0;
    let figures = || {
        block.figures.iter().filter_map(|m| match m.figure {
            Figure::FlashSpeed(kib_s) => Some(kib_s),
            _ => None,
        })
    };
    let agree = |kib: &f64| figures().all(|figure| whole_ms(figure, *kib).is_some());
    match block.blocks {
        Some(blocks) => Some(of(blocks.into())).filter(agree),
        None => [1.0, 10.0, 16.0, 64.0, 100.0, geometry.blocks().into()].map(of).into_iter().find(agree),
    }
}

/// Range of whole milliseconds for which `flash_speed` prints a figure.
fn whole_ms(kib_s: f64, kib: f64) -> Option<(f64, f64)> {
    // floor(kib * 1000 / ms) = figure for ms in (kib * 1000 / (figure + 1), kib * 1000 / figure].
    let (low, high) = ((kib * 1000.0 / (kib_s + 1.0)).floor() + 1.0, (kib * 1000.0 / kib_s).floor());
    (low <= high).then_some((low, high + 1.0))
}

/// Range of times for which the tool prints the figure, ns per byte.
fn interval(measurement: &Measurement, tests: &[Test], kib: Option<f64>, geometry: &Geometry) -> (f64, f64) {
    match measurement.figure {
        Figure::NsPerByte(low, high) => (low, high),
        Figure::NsPerCall(low, high) => {
            let pages = match tests.first() {
                Some(Test::Write(0) | Test::Read(0)) | None => 0,
                Some(Test::Write(n) | Test::Read(n)) => *n,
                Some(Test::Erase(n)) => *n * (geometry.erase_bytes / speed::page_bytes(geometry)),
            };
            let bytes = if pages == 0 {
                geometry.erase_bytes
            } else {
                pages.saturating_mul(speed::page_bytes(geometry))
            };
            (low / f64::from(bytes), high / f64::from(bytes))
        }
        Figure::FlashSpeed(kib_s) => match kib.and_then(|kib| Some((kib, whole_ms(kib_s, kib)?))) {
            Some((kib, (low, high))) => (low * 1e6 / (kib * 1024.0), high * 1e6 / (kib * 1024.0)),
            None => (1e9 / ((kib_s + 1.0) * 1024.0), 1e9 / (kib_s * 1024.0)),
        },
    }
}
