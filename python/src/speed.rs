//! Function `speed` of the module.

use crate::arguments::{HostPath, arguments};
use crate::devices::by_phase;
use crate::failure::Failure;
use crate::library;
use crate::overrides::Overrides;
use crate::studies::in_envelope;
use floatgate_config::corner::Corner;
use floatgate_config::{Config, Override, Setup};
use floatgate_lab::report::{Origin, ResultKind};
use floatgate_lab::speed::{Corrections, Measured, SpeedOptions};
use floatgate_lab::speed_run::{self, SpeedRun};
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::partition;
use floatgate_sim::rig::RigOptions;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

arguments! { in order:
    /// A setup with its overrides and the seed of its chip, which all functions accept.
    pub(crate) struct Named {
        setup: HostPath,
        set: Overrides,
        corner: String,
        seed: u64,
        bad_blocks: u32,
        /// Size of the partition, bytes; `None` for that of the setup.
        partition: Option<u64>,
    }
}

impl Named {
    /// Origin of a result on the open setup.
    pub(crate) fn origin(&self, kind: ResultKind, setup: &Setup) -> Origin {
        let origin = kind.of_setup(&self.setup.0, setup).with(&self.set.0).seeded(self.seed);
        origin.on_chip(self.corner().unwrap_or_default(), self.bad_blocks)
    }

    /// The same, in which the size of the partition is one of the overrides.
    pub(crate) fn sized(mut self) -> Result<Self, Failure> {
        if let Some(bytes) = self.partition.take() {
            let size = partition::of_size(&self.config()?, bytes)?;
            self.set.0.push(size.to_string());
        }
        Ok(self)
    }

    /// JSON of the options that all studies on a setup share.
    pub(crate) fn study_options(&self) -> Result<Value, Failure> {
        let setup = serde_json::to_value(&self.setup.0)?;
        Ok(json!({ "setup": setup, "set": self.set.0, "seed": self.seed }))
    }

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

    /// Setup, and all overrides including those of the corner.
    pub(crate) fn open(&self, more: &[String]) -> Result<(Setup, Vec<Override>), Failure> {
        let setup = library().setup(&self.setup.0)?;
        let sets = self.overrides(&setup, more)?;
        Ok((setup, sets))
    }

    fn overrides(&self, setup: &Setup, more: &[String]) -> Result<Vec<Override>, Failure> {
        let own: Vec<&String> = self.set.0.iter().chain(more).collect();
        Ok(self.corner()?.over(library(), setup, &Override::parse_all(&own)?)?.0)
    }

    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let (setup, sets) = self.open(&[])?;
        Ok(library().resolve(&setup, &sets)?)
    }
}

arguments! { in order:
    /// Tests of `speed`, named as in `flash_speed`.
    pub(crate) struct Tests {
        first_block: u32,
        blocks: u32,
        skip: u32,
        pages: Vec<u32>,
        continuous: bool,
        secondary_block: Option<u32>,
        fs: Option<String>,
        advice: bool,
    }
}

impl Tests {
    fn options(&self) -> Result<SpeedOptions, Failure> {
        Ok(SpeedOptions {
            first_block: self.first_block,
            blocks: SpeedOptions::blocks_unless_usual(self.blocks),
            skip: self.skip,
            pages: self.pages.clone(),
            continuous: self.continuous,
            secondary_block: self.secondary_block,
            filesystem: self.fs.as_deref().map(filesystem_kind).transpose()?,
            ..SpeedOptions::default()
        })
    }
}

pub(crate) fn filesystem_kind(name: &str) -> Result<FilesystemKind, Failure> {
    name.parse().map_err(|help: &str| {
        Failure::new(format!("no filesystem is called {name:?}"), Some(help.to_owned()))
    })
}

/// Result of `speed`. It stays in Rust, and Python reads parts of it on request.
#[pyclass(frozen)]
pub(crate) struct NativeSpeed(SpeedRun, Origin);

/// Fields of a `SpeedRow`, in order.
type RowTuple<'py> = (&'py str, f64, u64, f64, u64, u64, u64, u64, u64, u64, Bound<'py, PyDict>);

/// Ends of the 80 % interval, NaN without an interval, and energy in mJ per MiB.
type Estimates = (f64, f64, Option<f64>);

#[pymethods]
impl NativeSpeed {
    /// JSON that `floatgate speed` prints.
    fn json(&self) -> PyResult<String> {
        Ok(in_envelope(&self.1, &self.0)?)
    }

    /// Rows of all tests.
    fn rows<'py>(&'py self, py: Python<'py>) -> PyResult<Vec<(RowTuple<'py>, Estimates)>> {
        let row = |test: &'py Measured| {
            let Measured {
                name,
                bytes,
                calls,
                ns,
                printed_kib_s,
                exact_kib_s,
                interval,
                breakdown_ns,
                corrected,
                mj_per_mib,
            } = test;
            let (low, high) = interval.map_or((f64::NAN, f64::NAN), |interval| (interval.min, interval.max));
            let kib_s = if *bytes > 0 { *exact_kib_s } else { 0.0 };
            let us = *ns as f64 / 1e3 / (*calls).max(1) as f64;
            let Corrections { bitflips, retries, scrub_requests } = *corrected;
            let by_phase = by_phase(py, breakdown_ns)?;
            let (printed, calls, bytes, ns) = (*printed_kib_s, *calls, *bytes, *ns);
            let row = (
                name.as_str(),
                kib_s,
                printed,
                us,
                calls,
                bytes,
                ns,
                bitflips,
                retries,
                scrub_requests,
                by_phase,
            );
            Ok((row, (low, high, *mj_per_mib)))
        };
        self.0.report.tests.iter().map(row).collect()
    }
}

/// Runs `floatgate speed`.
#[pyfunction]
pub(crate) fn speed(py: Python<'_>, named: Named, tests: Tests) -> PyResult<NativeSpeed> {
    let work = || -> Result<NativeSpeed, Failure> {
        let named = named.sized()?;
        let (setup, sets) = named.open(&[])?;
        let (options, chosen) = (named.options(), tests.options()?);
        let run = if tests.advice {
            speed_run::measure_with_advice(library(), &setup, &sets, options, &chosen)?
        } else {
            let config = library().resolve(&setup, &sets)?;
            speed_run::measure(library(), &config, options, &chosen)?.with_intervals(library(), &config)?
        };
        let origin = named.origin(ResultKind::Speed, &setup);
        Ok(NativeSpeed(run, origin))
    };
    Ok(py.detach(work)?)
}
