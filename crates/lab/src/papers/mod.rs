//! Published tables beside what floatgate simulates.
//!
//! A file in `papers/` holds the rows of one document: figure, unit, setup, what to measure, and whether the figure was used to fit a
//! parameter, is predicted, or is an exception with its reason. The `[[fit]]` tables say which parameters were fitted to which rows;
//! a predicted row must not be among them, and a fitted one must.
//!
//! - `file`: what such a file says.
//! - `job`: what a row asks to be simulated.
//! - `claim`: what the rows on endurance measure.
//! - `report`: the comparison.

mod claim;
mod file;
mod job;
mod report;

pub use file::{Fit, Paper, Prediction, Published, Row, RowKind, Table, built_in, check, read};
pub use report::{Report, ReportPrediction, ReportRow, Summary};

use crate::config::Library;
use crate::error::Error;
use crate::speed;
use file::rows;
use include_dir::{Dir, include_dir};
use job::{ENDED, Job, Outcome, job, prediction_job, run, setup_text};
use rayon::prelude::*;
use report::summarise;
use std::collections::{BTreeMap, BTreeSet};

static PAPERS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../papers");

/// Keeps the tables that `filter` names: a paper (`P0`), a table (`octal`) or both (`P0/octal`). Empty keeps all.
///
/// # Errors
/// When nothing has that name; the help lists what there is.
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
        paper.tables.retain(|t| wanted(&copy, &t.name));
        paper.predictions.retain(|p| whole || wanted(&copy, &p.name));
        let left: Vec<String> = rows(paper).map(|(t, r)| format!("{}/{}", t.name, r.row)).collect();
        paper.fits.retain(|f| f.rows.iter().any(|r| left.contains(r)));
    }
    kept.retain(|p| !p.tables.is_empty() || !p.predictions.is_empty());
    if kept.is_empty() {
        return Err(Error::asked(
            format!("no paper or table is called {filter:?}"),
            format!("there are {}", known.join(", ")),
        ));
    }
    Ok(kept)
}

/// Simulates every row. Rows run on all cores; the result does not depend on their number.
///
/// # Errors
/// When a setup cannot be wired, a measure is unknown, or an operation fails.
pub fn compare(library: &Library, papers: &[Paper]) -> Result<Report, Error> {
    compare_seeded(library, papers, 0)
}

/// As [`compare`], with other chips and blocks in the rows on endurance.
///
/// # Errors
/// As [`compare`].
pub fn compare_seeded(library: &Library, papers: &[Paper], seed: u64) -> Result<Report, Error> {
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
    let outcomes: Vec<Result<Outcome, Error>> = jobs.par_iter().map(|job| run(library, job, seed)).collect();
    let mut done = BTreeMap::new();
    // In the jobs' order, so that of several errors always the same is reported.
    for (job, outcome) in jobs.into_iter().zip(outcomes) {
        let outcome = outcome.map_err(|error| error.within(place(papers, &job)))?;
        done.insert(job, outcome);
    }
    let mut report = Vec::new();
    let mut predictions = Vec::new();
    for paper in papers {
        for (table, row) in rows(paper) {
            report.push(report_row(paper, table, row, &done)?);
        }
        predictions.extend(paper.predictions.iter().filter_map(|p| report_prediction(paper, p, &done)));
    }
    // A parameter that rows of two documents decided is one parameter.
    let fits = papers.iter().flat_map(|p| &p.fits);
    let parameters = fits.map(|f| (&f.file, &f.parameter)).collect::<BTreeSet<_>>().len();
    Ok(Report { summary: summarise(&report, parameters), rows: report, predictions })
}

/// The first row, or prediction, that needs this job.
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
    let simulated = match done.get(&job) {
        Some(Outcome::Figure { printed, .. }) => Some(*printed),
        Some(Outcome::Claim(figure)) => Some(*figure),
        Some(Outcome::Latency(l)) => Some(latency_ms(l, &row.measure)),
        Some(Outcome::Keystore(lines)) => {
            lines.iter().find(|l| l.test == row.row).map(|l| l.ticks_ms() as f64 / 1e3)
        }
        None => None,
    };
    let simulated = simulated.ok_or_else(|| {
        Error::asked(
            format!("{}/{}: {:?} measures no {:?}", paper.paper, table.name, row.measure, row.row),
            "the rows of a keystore table are named as its tests are",
        )
    })?;
    let (min, max) = (row.published_min, row.published_max);
    let published = row.says().map_or(f64::NAN, |says| says.nearest(simulated));
    Ok(ReportRow {
        paper: paper.paper.clone(),
        table: table.name.clone(),
        row: row.row.clone(),
        unit: table.unit.clone(),
        published,
        published_min: min,
        published_max: max,
        simulated,
        residual: simulated / published - 1.0,
        kind: row.kind,
        setup: setup_text(&job),
        tolerance: row.tolerance.unwrap_or(table.tolerance),
        reason: row.reason.clone(),
    })
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

/// Whole milliseconds, as the tool prints them.
fn latency_ms(latency: &speed::Latency, measure: &str) -> f64 {
    let ns = if measure == ENDED { latency.read_ended_ns } else { latency.took_ns };
    (ns / 1_000_000) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

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
    fn within_a_range_is_no_residual() {
        let range = Published::Range(10.0, 100.0);
        assert_eq!([5.0, 10.0, 50.0, 200.0].map(|x| range.nearest(x)), [10.0, 10.0, 50.0, 100.0]);
        assert_eq!(Published::Figure(7.0).nearest(5.0), 7.0);
    }

    #[test]
    fn unknown_tables_list_what_there_is() {
        let error = select(vec![paper("predicted", "")], "nothing").unwrap_err();
        assert!(format!("{:?}", error.into_report()).contains("X/t"));
    }
}
