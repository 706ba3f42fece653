//! Study `floatgate papers keystore`.

use super::report::{Cell, Section, Table};
use super::setup::{Corner, Grounded, Named};
use super::{Context, Report, Row, Study};
use crate::envelope::Origin;
use crate::keystore::{self, Driver, Line};
use crate::speed_run;
use floatgate_sim::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Study of the keystore test of a microcontroller, with and without delays in its driver.
pub struct Keystore;

/// Run a microcontroller's keystore test, with and without delays in its driver
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate papers keystore
  floatgate papers keystore --set firmware.tick_us=100
  floatgate papers keystore --set chip=w25q128jv --json

Simulates the test program of the Cryptech project. It reads the whole chip, erases it in three ways, verifies it, writes it and verifies it again. It runs once \
with a driver that waits a tick after each SPI call, and once without these delays.")
)]
pub struct KeystoreOptions {
    /// Setup with a firmware table and a SPI NOR: a name, or the path of a TOML file
    #[cfg_attr(feature = "command", arg(default_value_os_t = Self::default().setup))]
    setup: PathBuf,

    /// Override any field: --set firmware.delay_ticks=0
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE"))]
    set: Vec<String>,

    /// Read, program and erase times of the chip: typical values (typ), or the maxima that its data sheet guarantees (max)
    #[cfg_attr(feature = "command", arg(long, value_enum, default_value_t))]
    corner: Corner,

    /// Seed of the positions of slow subsectors
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,
}

impl Default for KeystoreOptions {
    fn default() -> Self {
        Self { setup: "stm32-n25q128a".into(), set: Vec::new(), corner: Corner::Typ, seed: 0 }
    }
}

/// Output lines of the test program with each driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeystoreOutput {
    title: String,
    chip: String,
    with_delays: Vec<Line>,
    without_delays: Vec<Line>,
}

impl Study for Keystore {
    type Options = KeystoreOptions;
    type Output = Grounded<KeystoreOutput>;

    const NAME: &'static str = "keystore";

    fn setup(options: &KeystoreOptions) -> Option<&Path> {
        Some(&options.setup)
    }

    fn origin(options: &KeystoreOptions, kind: Origin) -> Origin {
        kind.about(&options.setup).with(&options.set).seeded(options.seed)
    }

    fn run(options: &KeystoreOptions, context: &Context<'_>) -> Result<Self::Output, Error> {
        let library = context.library;
        let named = Named::open(library, &options.setup, &options.set, options.corner)?;
        let config = named.config(library)?;
        let answer = KeystoreOutput {
            title: speed_run::title(&config),
            chip: format!("{} {}", config.part().maker, config.part().name).trim().to_owned(),
            with_delays: keystore::on(&config, Driver::WithDelays, options.seed)?,
            without_delays: keystore::on(&config, Driver::WithoutDelays, options.seed)?,
        };
        let basis = named.basis(library, |config| {
            let lines = keystore::on(config, Driver::WithDelays, options.seed).ok()?;
            Some(lines.iter().map(|line| line.ns).collect::<Vec<_>>())
        })?;
        Ok(Grounded { answer, basis })
    }

    fn report(output: &Self::Output) -> Report {
        let Grounded { answer, basis } = output;
        Report {
            title: answer.title.clone(),
            head: vec![answer.chip.clone()],
            sections: vec![Section::Table(table(answer)), Section::Text(basis.lines())],
            conclusion: conclusion(answer),
        }
    }

    fn rows(output: &Self::Output, _table: Option<&str>) -> serde_json::Result<Value> {
        let KeystoreOutput { with_delays, without_delays, .. } = &output.answer;
        let drivers = [("with delays", with_delays), ("without delays", without_delays)];
        serde_json::to_value(Row::of_lists("driver", drivers))
    }
}

/// Sentence on the tests that gain most and least from a driver without delays.
fn conclusion(output: &KeystoreOutput) -> String {
    let pairs = output.with_delays.iter().zip(&output.without_delays);
    let mut gains: Vec<(&str, f64)> =
        pairs.map(|(slow, fast)| (slow.test.as_ref(), slow.ns as f64 / fast.ns.max(1) as f64)).collect();
    gains.sort_by(|a, b| b.1.total_cmp(&a.1));
    match gains[..] {
        [] => String::new(),
        [(only, gain)] => format!("Without delays in the driver, {only} is {gain:.1} times as fast."),
        [(most, gain), .., (least, little)] => format!(
            "Without delays in the driver, {most} is {gain:.1} times as fast, and {least} {little:.1} times."
        ),
    }
}

fn table(output: &KeystoreOutput) -> Table {
    let rows = output.with_delays.iter().zip(&output.without_delays).map(|(slow, fast)| {
        let times = [slow, fast].into_iter().flat_map(|line| {
            let ((s, ms_each), ns) = (line.printed(), line.ns as f64);
            [Cell::shown(ns / 1e9, s), Cell::shown(ns / 1e6 / line.rounds as f64, ms_each)]
        });
        let factor = slow.ns as f64 / fast.ns.max(1) as f64;
        let head = [slow.test.as_ref().into(), Cell::count(slow.rounds)];
        head.into_iter().chain(times).chain([Cell::shown(factor, format!("x{factor:.1}"))]).collect()
    });
    let columns = ["rounds", "with delays, s", "ms each", "without, s", "ms each", "faster"];
    Table::new(&["test"], &columns, rows)
}
