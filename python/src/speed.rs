//! `speed` and the inner loop of `sweep`.

use crate::failure::Failure;
use crate::library;
use floatgate_lab::config::{Config, Override, Problem, Setup};
use floatgate_lab::corner::Corner;
use floatgate_lab::machine::FilesystemKind;
use floatgate_lab::rig::RigOptions;
use floatgate_lab::speed::{Measured, SpeedOptions, Test};
use floatgate_lab::speed_run::{self, SpeedRun, refuses_a_value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rayon::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;

/// A setup with its overrides and the seed of its chip, as every function takes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Named {
    setup: PathBuf,
    set: Vec<String>,
    corner: String,
    seed: u64,
    bad_blocks: u32,
}

impl Named {
    pub(crate) fn options(&self) -> RigOptions {
        RigOptions { seed: self.seed, bad_blocks: self.bad_blocks, ..RigOptions::default() }
    }

    fn corner(&self) -> Result<Corner, Failure> {
        match self.corner.as_str() {
            "typ" => Ok(Corner::Typical),
            "max" => Ok(Corner::Slowest),
            other => Err(Failure::new(
                format!("there is no corner {other:?}"),
                Some("there are `typ` and `max`".to_owned()),
            )),
        }
    }

    /// The setup, and all overrides with those of the corner.
    pub(crate) fn open(&self, more: &[String]) -> Result<(Setup, Vec<Override>), Failure> {
        let setup = library().setup(&self.setup)?;
        let sets = self.overrides(&setup, more)?;
        Ok((setup, sets))
    }

    fn overrides(&self, setup: &Setup, more: &[String]) -> Result<Vec<Override>, Failure> {
        let own: Vec<&String> = self.set.iter().chain(more).collect();
        Ok(self.corner()?.over(library(), setup, &Override::parse_all(&own)?)?.0)
    }

    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let (setup, sets) = self.open(&[])?;
        Ok(library().resolve(&setup, &sets)?)
    }
}

/// Tests of `speed`, as `flash_speed` names them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Tests {
    first_block: u32,
    blocks: u32,
    skip: u32,
    pages: Vec<u32>,
    continuous: bool,
    secondary_block: Option<u32>,
    only: Option<String>,
    fs: Option<String>,
}

impl Tests {
    fn options(&self) -> Result<SpeedOptions, Failure> {
        Ok(SpeedOptions {
            first_block: self.first_block,
            blocks: self.blocks,
            skip: self.skip,
            pages: self.pages.clone(),
            continuous: self.continuous,
            secondary_block: self.secondary_block,
            only: self.only.as_deref().map(test).transpose()?,
            filesystem: self.fs.as_deref().map(filesystem_kind).transpose()?,
        })
    }
}

fn test(name: &str) -> Result<Test, Failure> {
    Test::from_name(name).ok_or_else(|| {
        let help =
            "there are `page read`, `8 page read`, `eraseblock write`, `erase`, `4x erase` and the like";
        Failure::new(format!("no test is called {name:?}"), Some(help.to_owned()))
    })
}

pub(crate) fn filesystem_kind(name: &str) -> Result<FilesystemKind, Failure> {
    match name {
        "ubifs" => Ok(FilesystemKind::Ubifs),
        "jffs2" => Ok(FilesystemKind::Jffs2),
        _ => Err(Failure::new(
            format!("no filesystem is called {name:?}"),
            Some("there are `ubifs` and `jffs2`".to_owned()),
        )),
    }
}

/// `floatgate speed --json`.
#[pyfunction]
pub(crate) fn speed(py: Python<'_>, named: Named, tests: Tests, advice: bool) -> PyResult<String> {
    let work = || -> Result<String, Failure> {
        let (setup, sets) = named.open(&[])?;
        let (options, tests) = (named.options(), tests.options()?);
        let run = if advice {
            speed_run::measure_with_advice(library(), &setup, &sets, options, &tests)?
        } else {
            speed_run::measure(library(), &library().resolve(&setup, &sets)?, options, &tests)?
        };
        Ok(serde_json::to_string(&run)?)
    };
    Ok(py.detach(work)?)
}

/// Figures of one design, or the reason for which it is refused.
type Outcome = Result<SpeedRun, String>;

/// Speeds of many designs, as columns by name with an entry for each design: `None` where it has no such figure. A design is its
/// overrides. On one thread, or on all cores if `parallel`.
#[pyfunction]
pub(crate) fn measure_designs<'py>(
    py: Python<'py>,
    named: Named,
    tests: Tests,
    designs: Vec<Vec<String>>,
    parallel: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let outcomes = py.detach(|| -> Result<Vec<Outcome>, Failure> {
        let setup = library().setup(&named.setup)?;
        let tests = tests.options()?;
        let one = |design: &Vec<String>| measure_design(&named, &setup, &tests, design);
        if parallel { designs.par_iter().map(one).collect() } else { designs.iter().map(one).collect() }
    })?;
    columns(py, &outcomes)
}

fn measure_design(
    named: &Named,
    setup: &Setup,
    tests: &SpeedOptions,
    design: &[String],
) -> Result<Outcome, Failure> {
    let config = library().resolve(setup, &named.overrides(setup, design)?);
    let config = match config {
        Err(error) if error.problem() == Problem::WrongValue => return Ok(Err(error.to_string())),
        config => config?,
    };
    // Where cells have no errors, contents make no difference to times, and neither does when bad blocks are looked for.
    let stores = config.tree().get("cells").is_some();
    let options = RigOptions { stores, marks_on_demand: true, ..named.options() };
    match speed_run::measure(library(), &config, options, tests) {
        Ok(run) => Ok(Ok(run)),
        Err(error) if refuses_a_value(&error) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Name and value of a figure: KiB/s, or ms where no bytes are moved.
fn figure(test: &Measured) -> (String, f64) {
    match test.bytes {
        0 => (format!("{} ms", test.name), test.ns as f64 / 1e6),
        _ => (format!("{} KiB/s", test.name), test.exact_kib_s),
    }
}

fn columns<'py>(py: Python<'py>, outcomes: &[Outcome]) -> PyResult<Bound<'py, PyDict>> {
    let mut names: Vec<String> = Vec::new();
    let mut figures: HashMap<String, Vec<Option<f64>>> = HashMap::new();
    for (at, outcome) in outcomes.iter().enumerate() {
        for (name, value) in outcome.iter().flat_map(|run| &run.report.tests).map(figure) {
            let column = figures.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                vec![None; outcomes.len()]
            });
            column[at] = Some(value);
        }
    }
    let columns = PyDict::new(py);
    for name in names {
        columns.set_item(&name, figures.remove(&name))?;
    }
    let texts = |of: fn(&SpeedRun) -> String| {
        PyList::new(py, outcomes.iter().map(|outcome| outcome.as_ref().ok().map(of)))
    };
    columns.set_item("reads", texts(|run| run.link.read.clone())?)?;
    columns.set_item("writes", texts(|run| run.link.write.clone())?)?;
    columns.set_item("not given", texts(|run| run.link.not_given.join("; "))?)?;
    columns.set_item("refused", PyList::new(py, outcomes.iter().map(|outcome| outcome.as_ref().err()))?)?;
    Ok(columns)
}
