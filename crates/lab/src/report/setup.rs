//! Section of a setup: measured, traced, and with the source of each of its numbers.

use super::read;
use crate::certainty;
use crate::envelope::Reported as _;
use crate::envelope::ResultKind;
use crate::show::page::model::{Cell, Section, Table, plain};
use crate::speed::SpeedOptions;
use crate::speed_run;
use crate::trace::{self, Operation};
use floatgate_config::{Config, Library, Override, Setup};
use floatgate_sim::error::Error;
use floatgate_sim::rig::RigOptions;

/// Operations whose waterfalls are drawn.
const TRACED: [Operation; 3] = [Operation::ReadPage, Operation::WritePage, Operation::Erase];

/// Measures a setup and makes its section.
pub(super) fn section(
    library: &Library,
    name: &str,
    setup: &Setup,
    sets: &[Override],
    options: RigOptions,
) -> Result<Section, Error> {
    let config = library.resolve(setup, sets)?;
    let tests = SpeedOptions::default();
    let measured = speed_run::measure_with_advice(library, setup, sets, options, &tests)?;
    let mut section = Section::of_report(name, ResultKind::Speed.to_string(), measured.report());
    let rows = measured.rows().map_err(|error| Error::request(format!("{name}: {error}"), read::HELP))?;
    section.tables.extend(read::all_rows(&rows));
    for operation in TRACED {
        let traced = trace::trace(library, &config, options, operation)?.report();
        let traced = Section::of_report(name, ResultKind::Trace.to_string(), traced);
        section.waterfalls.extend(traced.waterfalls);
    }
    let cycles = config.extract::<f64>("chip.endurance_cycles").ok();
    for one in &mut section.compared {
        one.subject = plain(name);
        one.figures.extend(cycles.map(|cycles| ("endurance cycles".to_owned(), Cell::Number(cycles))));
    }
    section.sources = Some(sources(library, &config)?);
    Ok(section)
}

/// Table of every number of chip, controller and host, with its file, source and confidence.
fn sources(library: &Library, config: &Config) -> Result<Table, Error> {
    let row = |sourced: certainty::Sourced| {
        let text = |text: String| Cell::Text(plain(&text));
        vec![
            ("value".to_owned(), text(sourced.certainty.field)),
            ("is".to_owned(), text(sourced.value)),
            ("confidence (%)".to_owned(), Cell::Number((sourced.certainty.confidence * 100.0).round())),
            ("file".to_owned(), text(sourced.certainty.file)),
            ("source".to_owned(), text(sourced.certainty.from)),
        ]
    };
    let rows = certainty::sources(library, config)?.into_iter().map(row).collect();
    Ok(Table { plot: false, ..Table::of_keyed("Sources of the numbers, the least certain first", rows) })
}
