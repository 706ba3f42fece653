//! Repeats the fits of a paper: to the same rows, or without the row in question (leave-one-out).
//!
//! Parameters that share rows form one group. A group is fitted on the logarithms of parameters and figures, with the
//! same least-squares code as `floatgate fit`. Rows of the same run are left out together.

use super::file::{Fit, Paper, Row, RowKind, Table, beyond, rows};
use super::job::{Job, job, run};
use crate::fit::least_squares::{Bounds, Effort, minimise};
use floatgate_config::Library;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Repeated fits of papers, which start from the values in the files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Refit {
    /// Parameters, with their values before and after the fit.
    pub parameters: Vec<RefittedParameter>,
    /// Rows that determine the parameters.
    pub rows: Vec<RefittedRow>,
}

/// A parameter of a [`Refit`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RefittedParameter {
    /// Name of the published document.
    pub paper: String,
    /// File that states the parameter.
    pub file: String,
    /// Dotted path.
    pub path: String,
    /// Value in the file.
    pub stated: f64,
    /// Value after the fit.
    pub fitted: f64,
    /// Rows (`table/row`) that determine the parameter, together with other parameters of the same rows.
    pub rows: Vec<String>,
}

/// A row of a [`Refit`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RefittedRow {
    /// Name of the published document.
    pub paper: String,
    /// Name of the row, `table/row`.
    pub row: String,
    /// Residual with the values in the file.
    pub residual_stated: f64,
    /// Residual with the fitted values.
    pub residual: f64,
}

/// A fitted number of a setup.
#[derive(Clone, Debug)]
struct Parameter {
    file: String,
    path: String,
    value: f64,
}

/// A row that determines parameters.
struct Subject<'p> {
    name: String,
    table: &'p Table,
    row: &'p Row,
    job: Job,
}

/// Parameters with the rows that determine them.
struct Group<'p> {
    parameters: Vec<Parameter>,
    subjects: Vec<Subject<'p>>,
}

/// Residuals by `table/row` after a fit without the row, for the `shown` rows without which a fit is possible. Each fit
/// uses all other rows of the paper.
pub(super) fn left_out(
    library: &Library,
    paper: &Paper,
    shown: impl Fn(&str) -> bool,
) -> BTreeMap<String, f64> {
    let groups = groups(library, paper);
    let cases: Vec<(&Group<'_>, usize)> = groups
        .iter()
        .flat_map(|group| group.subjects.iter().enumerate().map(move |(i, subject)| (group, i, subject)))
        .filter(|(_, _, subject)| shown(&subject.name))
        .map(|(group, i, _)| (group, i))
        .collect();
    let residual = |&(group, i): &(&Group<'_>, usize)| {
        Some((group.subjects.get(i)?.name.clone(), group.residual_without(library, i)?))
    };
    cases.par_iter().filter_map(residual).collect()
}

/// Repeats every fit of the papers on all CPU cores. The result does not depend on their number.
pub fn refit(library: &Library, papers: &[Paper]) -> Refit {
    let groups: Vec<(&Paper, Group<'_>)> = papers
        .iter()
        .flat_map(|paper| groups(library, paper).into_iter().map(move |group| (paper, group)))
        .collect();
    let fits: Vec<Refit> =
        groups.par_iter().filter_map(|(paper, group)| group.refit(library, &paper.paper)).collect();
    fits.into_iter().fold(Refit::default(), |mut all, fit| {
        all.parameters.extend(fit.parameters);
        all.rows.extend(fit.rows);
        all
    })
}

/// Groups of a paper whose parameters are numbers of setups.
fn groups<'p>(library: &Library, paper: &'p Paper) -> Vec<Group<'p>> {
    let fitted = |name: &String| {
        let found = rows(paper).find(|(table, row)| format!("{}/{}", table.name, row.row) == *name);
        found.filter(|(_, row)| row.kind == RowKind::Fitted && row.published.is_some())
    };
    let mut groups: Vec<(Vec<Parameter>, Vec<String>)> = Vec::new();
    for fit in &paper.fits {
        let names: Vec<String> = fit.rows.iter().filter(|name| fitted(name).is_some()).cloned().collect();
        let first = names.first().and_then(&fitted);
        let Some(parameter) = first.and_then(|(table, row)| parameter(library, &job(table, row), fit)) else {
            continue;
        };
        let (mut joined, others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|(_, rows)| rows.iter().any(|row| names.contains(row)));
        joined.push((vec![parameter], names));
        let mut all = (Vec::new(), Vec::new());
        for (parameters, names) in joined {
            all.0.extend(parameters);
            all.1.extend(names);
        }
        all.1.sort_unstable();
        all.1.dedup();
        groups = others;
        groups.push(all);
    }
    let subject = |name: String| {
        let (table, row) = fitted(&name)?;
        Some(Subject { name, table, row, job: job(table, row) })
    };
    groups
        .into_iter()
        .map(|(parameters, names)| Group {
            parameters,
            subjects: names.into_iter().filter_map(subject).collect(),
        })
        .collect()
}

/// Parameter with its value in the run's setup: a number above 0. A path to typical and maximum times stands for the
/// typical time. A path to an operation's cost stands for the cost after the operation.
fn parameter(library: &Library, job: &Job, fit: &Fit) -> Option<Parameter> {
    let config = library.resolve(&library.setup(&job.setup).ok()?, &[]).ok()?;
    let path = fit.parameter.strip_prefix("profile.measured.").unwrap_or(&fit.parameter);
    let candidates = [path.to_owned(), format!("{path}.typ"), format!("{path}.finish_us")];
    candidates.into_iter().find_map(|path| {
        let value = config.extract::<f64>(&path).ok().filter(|value| *value > 0.0)?;
        Some(Parameter { file: fit.file.clone(), path, value })
    })
}

impl Parameter {
    /// Value with this logarithm, as the key accepts it: costs per 1000 bytes are whole numbers.
    fn at(&self, log: f64) -> f64 {
        if self.path.ends_with("_per_kb") { log.exp().round() } else { log.exp() }
    }
}

impl Group<'_> {
    /// Residual of subject `i` after a fit to the others; `None` if they are too few.
    fn residual_without(&self, library: &Library, i: usize) -> Option<f64> {
        let out = self.subjects.get(i)?;
        let others: Vec<&Subject<'_>> = self.subjects.iter().filter(|s| s.job != out.job).collect();
        let mut jobs: Vec<&Job> = others.iter().map(|s| &s.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        if jobs.len() < self.parameters.len() {
            return None;
        }
        self.residual(library, out, &self.best(library, &others)?)
    }

    /// Parameters and residuals after a fit to all subjects.
    fn refit(&self, library: &Library, paper: &str) -> Option<Refit> {
        let stated = self.stated();
        let best = self.best(library, &self.subjects.iter().collect::<Vec<_>>())?;
        let row = |subject: &Subject<'_>| {
            Some(RefittedRow {
                paper: paper.to_owned(),
                row: subject.name.clone(),
                residual_stated: self.residual(library, subject, &stated)?,
                residual: self.residual(library, subject, &best)?,
            })
        };
        let parameters = self.parameters.iter().zip(&best).map(|(parameter, log)| RefittedParameter {
            paper: paper.to_owned(),
            file: parameter.file.clone(),
            path: parameter.path.clone(),
            stated: parameter.value,
            fitted: parameter.at(*log),
            rows: self.subjects.iter().map(|subject| subject.name.clone()).collect(),
        });
        Some(Refit {
            parameters: parameters.collect(),
            rows: self.subjects.iter().map(row).collect::<Option<_>>()?,
        })
    }

    /// Logarithms of the values in the file.
    fn stated(&self) -> Vec<f64> {
        self.parameters.iter().map(|p| p.value.ln()).collect()
    }

    /// Logarithms that fit these subjects best, starting from the values in the file.
    fn best(&self, library: &Library, subjects: &[&Subject<'_>]) -> Option<Vec<f64>> {
        let errors = |at: &[f64]| -> Option<Vec<f64>> {
            subjects.iter().map(|subject| self.error(library, subject, at)).collect()
        };
        minimise(self.stated(), &vec![Bounds::NONE; self.parameters.len()], Effort::FULL, errors)
    }

    /// Distance of a subject's run with these logarithms from the published interval.
    fn residual(&self, library: &Library, subject: &Subject<'_>, at: &[f64]) -> Option<f64> {
        let simulated = self.simulate(library, subject, at)?;
        Some(beyond(simulated.exact, subject.row.published_value()?.interval(subject.table, simulated.kib)))
    }

    /// Runs a subject with these logarithms of the parameters.
    fn simulate(
        &self,
        library: &Library,
        subject: &Subject<'_>,
        at: &[f64],
    ) -> Option<super::job::Simulated> {
        let mut job = subject.job.clone();
        for (parameter, log) in self.parameters.iter().zip(at) {
            job.set.push(format!("{}={}", parameter.path, parameter.at(*log)));
        }
        run(library, &job, 0).ok()?.figure(subject.row)
    }

    /// Logarithm of the ratio of the simulated figure to the middle of the published interval.
    fn error(&self, library: &Library, subject: &Subject<'_>, at: &[f64]) -> Option<f64> {
        let simulated = self.simulate(library, subject, at)?;
        let (min, max) = subject.row.published_value()?.interval(subject.table, simulated.kib);
        Some((simulated.exact / f64::midpoint(min, max)).ln()).filter(|error| error.is_finite())
    }
}
