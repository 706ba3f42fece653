//! `floatgate speed --sweep`.

use crate::common::{self, Failure, Outcome};
use crate::speed::Args;
use floatgate_lab::config::{Combination, sweep};
use floatgate_lab::plot;
use floatgate_lab::run::{self, SpeedRun};
use serde::Serialize;
use std::process::ExitCode;

/// One combination: what was measured, or why it cannot be had.
#[derive(Serialize)]
struct Row {
    combination: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<SpeedRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let named = args.setup.open()?;
    let combinations = sweep(&args.sweep)?;
    let tests = args.tests();
    let rows = run::sweep(&named.library, &named.setup, &named.sets, named.options, &tests, &combinations)?;
    let rows: Vec<Row> = combinations.iter().zip(rows).map(|(c, outcome)| row(c, outcome)).collect();
    if let Some(path) = &args.plot {
        plot_rows(path, &rows)?;
    }
    if args.json {
        return common::print_json(&rows);
    }
    common::print(&table(&rows, &args.sweep));
    Ok(ExitCode::SUCCESS)
}

fn row(combination: &Combination, outcome: Result<SpeedRun, String>) -> Row {
    let combination = combination.to_string();
    match outcome {
        Ok(run) => Row { combination, run: Some(run), refused: None },
        Err(why) => Row { combination, run: None, refused: Some(why) },
    }
}

/// The tests with a column of their own.
const COLUMNS: [&str; 5] = ["page read", "eraseblock read", "page write", "eraseblock write", "erase"];

fn table(rows: &[Row], sweeps: &[String]) -> String {
    let mut table = common::table([
        "combination",
        "page read",
        "block read",
        "page write",
        "block write",
        "erase",
        "page read spends most on",
    ]);
    for row in rows {
        let mut cells = vec![row.combination.clone()];
        match &row.run {
            Some(run) => {
                cells.extend(COLUMNS.map(|name| {
                    let test = run.report.tests.iter().find(|t| t.name == name);
                    test.map_or_else(String::new, crate::speed::kib_s)
                }));
                cells.push(bottleneck(run));
            }
            None => {
                cells.resize(6, "-".to_owned());
                cells.push(row.refused.clone().unwrap_or_default());
            }
        }
        table.add_row(cells);
    }
    common::numbers(&mut table, 1);
    if let Some(last) = table.column_mut(6) {
        last.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    format!("KiB/s as flash_speed prints them, sweeping {}\n{table}", sweeps.join(" and "))
}

fn bottleneck(run: &SpeedRun) -> String {
    let test = run.report.tests.iter().find(|t| t.name == COLUMNS[0]);
    test.map_or_else(String::new, |t| {
        let (phase, _) = t.breakdown_ns.largest();
        format!("{phase} {:.0} %", t.share(phase) * 100.0)
    })
}

fn plot_rows(path: &std::path::Path, rows: &[Row]) -> Result<(), Failure> {
    let bars: Vec<plot::BarRow> = rows
        .iter()
        .filter_map(|row| {
            let run = row.run.as_ref()?;
            let test = run.report.tests.iter().find(|t| t.name == COLUMNS[0])?;
            Some(plot::BarRow { label: row.combination.clone(), ..crate::speed::bar(test) })
        })
        .collect();
    let scale = plot::Scale::fitting(&bars);
    let title = rows.iter().find_map(|r| r.run.as_ref()).map_or("", |r| r.title.as_str());
    common::write_file(path, &plot::bars(&bars, title, "page read, per page", scale))
}
