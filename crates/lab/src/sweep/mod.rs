//! `floatgate sweep`: many designs of a setup, measured; which are best, and which parameter matters.
//!
//! - [`Spec`]: setup, space of designs, constraints and objectives, as a TOML file has them.
//! - [`run`]: designs in order, in chunks on all cores; each chunk goes to the [`Checkpoint`] before the next one begins.
//! - [`Table`]: rows with their Pareto front and the sensitivity of each objective.
//!
//! A design follows from its number and the seed alone, so that any number of threads and any interruption give the same bytes.

mod checkpoint;
mod spec;
mod table;
#[cfg(test)]
mod tests;

pub use checkpoint::Checkpoint;
pub use spec::{MAX_DESIGNS, Spec};
pub use table::Table;

use crate::config::{Config, Library, Override, Problem, Setup};
use crate::error::Error;
use crate::rig::RigOptions;
use crate::speed::{Measured, SpeedOptions};
use crate::speed_run::{self, refuses_a_value};
use rayon::prelude::*;

/// Designs that are measured before they are written to the checkpoint.
const CHUNK: usize = 512;

/// A measured design.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Figures by name: KiB/s, or ms where no bytes are moved.
    pub figures: Vec<(String, f64)>,
    /// Reason for which the design cannot be; then there are no figures.
    pub refused: Option<String>,
}

/// Measures all designs that the checkpoint does not have yet. `progress` is called with the number of designs that are done.
///
/// # Errors
/// A wrong setup; a column in a constraint or an objective that no design has; a checkpoint that cannot be written.
pub fn run(
    library: &Library,
    spec: &Spec,
    checkpoint: &mut Checkpoint,
    progress: impl Fn(usize),
) -> Result<Table, Error> {
    let setup = library.setup(&spec.setup)?;
    let base = Override::parse_all(&spec.set)?;
    let tests = SpeedOptions { blocks: 1, only: spec.only()?, ..SpeedOptions::default() };
    let space = spec.space()?;
    let mut checked = false;
    while checkpoint.records().len() < space.len() {
        let first = checkpoint.records().len();
        let numbers = first..space.len().min(first + CHUNK);
        let one = |number: usize| design(library, &setup, &base, &tests, &space.overrides(number));
        let records: Result<Vec<Record>, Error> = numbers.into_par_iter().map(one).collect();
        checkpoint.append(records?)?;
        if !checked {
            // Names are wrong for the whole sweep: better known after the first chunk than at the end.
            checked = Table::check_columns(spec, &space, checkpoint.records(), false)?;
        }
        progress(checkpoint.records().len());
    }
    Table::new(spec, &space, checkpoint.records())
}

/// Measures one design. A value that is refused concerns this design alone; an unknown key is wrong for all.
fn design(
    library: &Library,
    setup: &Setup,
    base: &[Override],
    tests: &SpeedOptions,
    sets: &[String],
) -> Result<Record, Error> {
    let mut all = base.to_vec();
    all.extend(Override::parse_all(sets)?);
    let config: Config = match library.resolve(setup, &all) {
        Err(error) if error.problem() == Problem::WrongValue => return Ok(Record::refused(&error)),
        config => config?,
    };
    // Where cells have no errors, contents make no difference to times, and neither does when bad blocks are looked for.
    let stores = config.tree().get("cells").is_some();
    let options = RigOptions { stores, marks_on_demand: true, ..RigOptions::default() };
    match speed_run::measure(library, &config, options, tests) {
        Ok(run) => Ok(Record { figures: run.report.tests.iter().map(figure).collect(), refused: None }),
        Err(error) if refuses_a_value(&error) => Ok(Record::refused(&error)),
        Err(error) => Err(error),
    }
}

impl Record {
    fn refused(why: &impl ToString) -> Self {
        Self { figures: Vec::new(), refused: Some(why.to_string()) }
    }

    fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

/// Name and value of a test's figure.
fn figure(test: &Measured) -> (String, f64) {
    match test.bytes {
        0 => (format!("{} ms", test.name), test.ns as f64 / 1e6),
        _ => (format!("{} KiB/s", test.name), test.exact_kib_s),
    }
}
