//! Comparison of published tables with simulated figures.
//!
//! A file in `data/papers/` holds the rows of one document. Each row has a figure, its unit, the setup and the measure.
//! Its kind states whether the figure was used to fit a parameter, is predicted, or is an exception with its reason.
//!
//! The `[[fit]]` tables name the fitted parameters and their rows; they must contain all fitted rows and no predicted
//! one. A row is compared within the resolution of the tool that printed it. The distance beyond that is its residual,
//! which the file states, so that a change of the model becomes visible.
//!
//! - `file`: contents of such a file.
//! - `job`: the simulation that a row requires.
//! - `claim`: measures of the rows on endurance.
//! - `card`: measures of the rows on cards.
//! - `refit`: each fit repeated, also without the row in question.
//! - `report`: results of the comparison.
//! - `picture`: the comparison as a picture.

mod card;
mod claim;
pub(crate) mod file;
mod job;
mod picture;
mod refit;
pub(crate) mod report;

pub use file::{Fit, Paper, Prediction, Published, Row, RowKind, Table, built_in, check, read};
pub use picture::picture;
pub use refit::{Refit, RefittedParameter, RefittedRow, refit};
pub use report::{ByOperation, Operation, Report, ReportPrediction, ReportRow, Summary};

use file::{beyond, rows};
use floatgate_config::{Library, Source, did_you_mean};
use floatgate_sim::error::Error;
use job::{Job, Outcome, job, prediction_job, run, setup_text};
use rayon::prelude::*;
use report::summarise;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Documents that a name selects: a paper, a table, or a file of the user; without a name, all built-in documents.
///
/// # Errors
/// The name is unknown; the file cannot be read, or is wrong.
pub fn named(name: Option<&Path>) -> Result<Vec<Paper>, Error> {
    let name = name.unwrap_or(Path::new(""));
    match name.to_str() {
        Some(name) if !name.ends_with(".toml") => select(built_in()?, name),
        _ => {
            let paper = read(&Source::read(name)?)?;
            check(&paper)?;
            Ok(vec![paper])
        }
    }
}

/// Keeps only the tables that `filter` names: a paper (`P0`), a table (`octal`) or both (`P0/octal`). An empty filter
/// keeps all.
///
/// # Errors
/// No paper or table has that name; the help text lists the names.
pub fn select(papers: Vec<Paper>, filter: &str) -> Result<Vec<Paper>, Error> {
    if filter.is_empty() {
        return Ok(papers);
    }
    let known: Vec<String> =
        papers.iter().flat_map(|p| p.tables.iter().map(move |t| format!("{}/{}", p.paper, t.name))).collect();
    let wanted = |paper: &Paper, name: &str| {
        let full = format!("{}/{name}", paper.paper);
        [paper.paper.as_str(), name, &full].iter().any(|n| n.eq_ignore_ascii_case(filter))
    };
    let mut kept = papers;
    for paper in &mut kept {
        let title = paper.paper.clone();
        let whole = title.eq_ignore_ascii_case(filter);
        let copy = paper.clone();
        paper.whole = Some(Box::new(copy.clone()));
        paper.tables.retain(|t| wanted(&copy, &t.name));
        paper.predictions.retain(|p| whole || wanted(&copy, &p.name));
        let left: Vec<String> = rows(paper).map(|(t, r)| format!("{}/{}", t.name, r.row)).collect();
        paper.fits.retain(|f| f.rows.iter().any(|r| left.contains(r)));
    }
    kept.retain(|p| !p.tables.is_empty() || !p.predictions.is_empty());
    if kept.is_empty() {
        let short = known.iter().filter_map(|name| name.split_once('/')).map(|(_, table)| table);
        let near = did_you_mean(filter, known.iter().map(String::as_str).chain(short));
        return Err(Error::request(
            format!("no paper or table is called {filter:?}"),
            format!("{near}there are {}", known.join(", ")),
        ));
    }
    Ok(kept)
}

/// Simulates every row on all CPU cores. The result does not depend on their number.
///
/// # Errors
/// A setup cannot be built; a measure is unknown; an operation fails.
pub fn compare(library: &Library, papers: &[Paper]) -> Result<Report, Error> {
    compare_seeded(library, papers, 0, &|_, _| ())
}

/// Simulates every row like [`compare`], with other chips and blocks for the rows on endurance. `progress` receives the
/// number of finished runs and of all runs.
///
/// # Errors
/// The errors of [`compare`].
pub fn compare_seeded(
    library: &Library,
    papers: &[Paper],
    seed: u64,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Report, Error> {
    let mut jobs = BTreeSet::new();
    for paper in papers {
        for (table, row) in rows(paper) {
            jobs.insert(job(table, row));
        }
        for prediction in &paper.predictions {
            jobs.insert(prediction_job(prediction));
        }
    }
    let jobs: Vec<Job> = jobs.into_iter().collect();
    let over = AtomicUsize::new(0);
    let outcome = |job| {
        let outcome = run(library, job, seed);
        progress(over.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        outcome
    };
    let outcomes: Vec<Result<Outcome, Error>> = jobs.par_iter().map(outcome).collect();
    let mut done = BTreeMap::new();
    // In the order of the jobs, so that the same error is reported each time.
    for (job, outcome) in jobs.into_iter().zip(outcomes) {
        let outcome = outcome.map_err(|error| error.within(place(papers, &job)))?;
        done.insert(job, outcome);
    }
    let mut report = Vec::new();
    let mut predictions = Vec::new();
    for paper in papers {
        let shown =
            |name: &str| rows(paper).any(|(table, row)| format!("{}/{}", table.name, row.row) == name);
        let left_out = refit::left_out(library, paper.whole.as_deref().unwrap_or(paper), shown);
        for (table, row) in rows(paper) {
            let name = format!("{}/{}", table.name, row.row);
            let row = report_row(paper, table, row, &done)?;
            report.push(ReportRow {
                left_out: left_out.get(&name).copied(),
                pinned: row.pinned && seed == 0,
                ..row
            });
        }
        predictions.extend(paper.predictions.iter().filter_map(|p| report_prediction(paper, p, &done)));
    }
    // A parameter that is determined by rows of two documents counts once.
    let fits = papers.iter().flat_map(|paper| paper.fits.iter().filter(|fit| decided_by_figures(paper, fit)));
    let parameters = fits.map(|f| (&f.file, &f.parameter)).collect::<BTreeSet<_>>().len();
    Ok(Report { summary: summarise(&report, parameters), rows: report, predictions })
}

/// True if one of the listed figures determines the parameter. Ranges are counted separately.
fn decided_by_figures(paper: &Paper, fit: &Fit) -> bool {
    let is_figure = |(table, row): (&Table, &Row)| {
        row.published.is_some() && fit.rows.contains(&format!("{}/{}", table.name, row.row))
    };
    rows(paper).any(is_figure)
}

/// First row or prediction that needs this job.
fn place(papers: &[Paper], wanted: &Job) -> String {
    let of_rows = papers.iter().flat_map(|p| rows(p).map(move |(t, r)| (p, t, r)));
    let mut of_rows = of_rows.filter(|(_, t, r)| job(t, r) == *wanted);
    let mut predictions = papers.iter().flat_map(|p| p.predictions.iter().map(move |q| (p, q)));
    match (of_rows.next(), predictions.find(|(_, q)| prediction_job(q) == *wanted)) {
        (Some((p, t, r)), _) => format!("{}/{}/{}", p.paper, t.name, r.row),
        (None, Some((p, q))) => format!("{}/{}", p.paper, q.name),
        (None, None) => String::new(),
    }
}

fn report_row(
    paper: &Paper,
    table: &Table,
    row: &Row,
    done: &BTreeMap<Job, Outcome>,
) -> Result<ReportRow, Error> {
    let job = job(table, row);
    let simulated = done.get(&job).and_then(|outcome| outcome.figure(row));
    let simulated = simulated.ok_or_else(|| {
        Error::request(
            format!("{}/{}: {:?} measures no {:?}", paper.paper, table.name, row.measure, row.row),
            "the rows of a keystore table are named as its tests are; what a card measures stands behind a colon",
        )
    })?;
    let (min, max) = (row.published_min, row.published_max);
    let interval =
        row.published_value().map_or((f64::NAN, f64::NAN), |says| says.interval(table, simulated.kib));
    Ok(ReportRow {
        paper: paper.paper.clone(),
        table: table.name.clone(),
        row: row.row.clone(),
        operation: Operation::of(&row.measure),
        unit: table.unit.clone(),
        published: row.published.unwrap_or_else(|| simulated.exact.clamp(interval.0, interval.1)),
        published_min: min,
        published_max: max,
        interval_min: interval.0,
        interval_max: interval.1.is_finite().then_some(interval.1),
        simulated: table.rounded_to.map_or(simulated.printed, |unit| rounded(simulated.exact, unit)),
        simulated_min: simulated.interval.map(|interval| interval.min),
        simulated_max: simulated.interval.map(|interval| interval.max),
        residual: beyond(simulated.exact, interval),
        residual_stated: row.residual_percent / 100.0,
        left_out: None,
        pinned: table.pinned,
        kind: row.kind,
        setup: setup_text(&job),
        tolerance: row.tolerance.unwrap_or(table.tolerance),
        reason: row.reason.clone().or_else(|| table.note.clone()),
    })
}

/// Figure rounded to a multiple of `unit`, for a document that prints fewer digits than its tool.
fn rounded(exact: f64, unit: f64) -> f64 {
    let steps = (exact / unit).round();
    // In floating point, 7 x 0.1 differs from 0.7, but 7 / 10 does not.
    let whole = (1.0 / unit).round();
    let is_part_of_one = unit < 1.0 && (unit * whole - 1.0).abs() < 1e-9;
    if is_part_of_one { steps / whole } else { steps * unit }
}

fn report_prediction(
    paper: &Paper,
    prediction: &Prediction,
    done: &BTreeMap<Job, Outcome>,
) -> Option<ReportPrediction> {
    let job = prediction_job(prediction);
    let Some(Outcome::Figure { exact, breakdown, .. }) = done.get(&job) else { return None };
    Some(ReportPrediction {
        paper: paper.paper.clone(),
        name: prediction.name.clone(),
        title: prediction.title.clone(),
        setup: setup_text(&job),
        unit: prediction.unit.clone(),
        simulated: *exact,
        breakdown_ns: *breakdown,
        note: prediction.note.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use floatgate_config::Source;

    fn paper(kind: &str, fit: &str) -> Paper {
        let text = format!(
            "paper = 'X'\ntitle = ''\n[[table]]\nname = 't'\ntitle = ''\nunit = 's'\nsetup = 'none'\n\
             row = [{{ row = 'r', published = 1, kind = '{kind}', measure = 'page read' }}]\n{fit}"
        );
        read(&Source::text("x.toml", &text)).unwrap()
    }

    const FIT: &str = "[[fit]]\nparameter = 'p'\nfile = 'f'\nrows = ['t/r']";

    #[test]
    fn rows_are_honest_about_fits() {
        assert!(check(&paper("fitted", FIT)).is_ok());
        assert!(check(&paper("predicted", "")).is_ok());
        assert!(check(&paper("fitted", "")).is_err());
        assert!(check(&paper("predicted", FIT)).is_err());
        assert!(check(&paper("exception", "")).is_err());
        assert!(check(&paper("fitted", &FIT.replace("t/r", "t/x"))).is_err());
    }

    #[test]
    fn ranges_have_two_ends_and_no_figure() {
        let says = |what: &str| {
            let file = paper("predicted", "");
            let row = Row { published: None, ..file.tables[0].rows[0].clone() };
            let row = match what {
                "both" => {
                    Row { published: Some(1.0), published_min: Some(1.0), published_max: Some(2.0), ..row }
                }
                "half" => Row { published_min: Some(1.0), ..row },
                "descending" => Row { published_min: Some(2.0), published_max: Some(1.0), ..row },
                "zero" => Row { published_min: Some(0.0), published_max: Some(1.0), ..row },
                _ => Row { published_min: Some(1.0), published_max: Some(2.0), ..row },
            };
            let table = Table { rows: vec![row], ..file.tables[0].clone() };
            check(&Paper { tables: vec![table], ..file })
        };
        assert!(says("range").is_ok());
        for wrong in ["both", "half", "descending", "zero"] {
            assert!(says(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn directions_have_one_end() {
        let says = |kind, min, max| {
            let file = paper("predicted", "");
            let row = file.tables[0].rows[0].clone();
            let row = Row { published: None, published_min: min, published_max: max, kind, ..row };
            let table = Table { rows: vec![row], ..file.tables[0].clone() };
            check(&Paper { tables: vec![table], ..file })
        };
        assert!(says(RowKind::Direction, Some(1.01), None).is_ok());
        assert!(says(RowKind::Direction, None, Some(30.0)).is_ok());
        assert!(says(RowKind::Direction, Some(1.0), Some(2.0)).is_err());
        assert!(says(RowKind::Direction, Some(0.0), None).is_err());
        assert!(says(RowKind::Predicted, Some(1.01), None).is_err());
        let above = Published::AtLeast(2.0).interval(&paper("predicted", "").tables[0], None);
        assert_eq!([1.0, 2.0, 1e9].map(|x| beyond(x, above)), [-0.5, 0.0, 0.0]);
    }

    /// For 2560 KiB in 239 ms, the tool prints 10711 KiB/s, and also for every time below 240 ms.
    #[test]
    fn rows_are_compared_within_the_resolution_of_their_tool() {
        let table = |unit: &str, resolution: &str| {
            let text = format!(
                "paper = 'X'\ntitle = ''\n[[table]]\nname = 't'\ntitle = ''\nunit = '{unit}'\nsetup = 'none'\n{resolution}\nrow = []"
            );
            read(&Source::text("x.toml", &text)).unwrap().tables.remove(0)
        };
        let flash_speed = Published::Figure(10711.0).interval(&table("KiB/s", ""), Some(2560.0));
        assert_eq!([240.0, 239.0].map(|ms| 2_560_000.0 / ms), [flash_speed.0, flash_speed.1]);
        assert_eq!(beyond(10700.0, flash_speed), 0.0);
        assert!((beyond(2_560_000.0 / 252.0, flash_speed) + 1.0 / 21.0).abs() < 1e-9);
        assert_eq!(Published::Figure(7.0).interval(&table("ms", "cut_to = 1"), None), (7.0, 8.0));
        assert_eq!(Published::Figure(7.0).interval(&table("s", "rounded_to = 1"), None), (6.5, 7.5));
        let range = Published::Range(10.0, 100.0).interval(&table("s", ""), None);
        assert_eq!([5.0, 10.0, 100.0, 200.0].map(|x| beyond(x, range)), [-0.5, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn unknown_tables_list_what_there_is() {
        let error = select(vec![paper("predicted", "")], "nothing").unwrap_err();
        assert!(error.help().unwrap().to_string().contains("X/t"));
    }
}
