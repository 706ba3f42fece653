//! Leave-one-out: each fit repeated without the row in question, and that row's residual then.
//!
//! Parameters that share rows are one group. A group is fitted on the logarithms of parameters and figures, by the
//! least squares that `floatgate fit` uses, too. Rows that are the same run are left out together.

use super::file::{Paper, Row, RowKind, Table, beyond, rows};
use super::job::{Job, job, run};
use crate::config::Library;
use crate::fit::least_squares::{Bounds, Effort, minimise};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A number of a setup that was fitted.
#[derive(Clone, Debug)]
struct Parameter {
    path: String,
    value: f64,
}

/// A row that decides parameters.
struct Subject<'p> {
    name: String,
    table: &'p Table,
    row: &'p Row,
    job: Job,
}

/// Parameters and the rows that decide them.
struct Group<'p> {
    parameters: Vec<Parameter>,
    subjects: Vec<Subject<'p>>,
}

/// Residuals by `table/row`, of those rows that a fit can do without and that are `shown`. The fit is to all rows of the paper.
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

/// The groups of a paper whose parameters are numbers of setups.
fn groups<'p>(library: &Library, paper: &'p Paper) -> Vec<Group<'p>> {
    let fitted = |name: &String| {
        let found = rows(paper).find(|(table, row)| format!("{}/{}", table.name, row.row) == *name);
        found.filter(|(_, row)| row.kind == RowKind::Fitted && row.published.is_some())
    };
    let mut groups: Vec<(Vec<Parameter>, Vec<String>)> = Vec::new();
    for fit in &paper.fits {
        let names: Vec<String> = fit.rows.iter().filter(|name| fitted(name).is_some()).cloned().collect();
        let first = names.first().and_then(&fitted);
        let Some(parameter) =
            first.and_then(|(table, row)| parameter(library, &job(table, row), &fit.parameter))
        else {
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

/// The parameter as the run's setup has it: a number above 0. Of typical and maximum times it is the typical one, of an
/// operation's cost what comes after it.
fn parameter(library: &Library, job: &Job, path: &str) -> Option<Parameter> {
    let config = library.resolve(&library.setup(&job.setup).ok()?, &[]).ok()?;
    let path = path.strip_prefix("profile.measured.").unwrap_or(path);
    let candidates = [path.to_owned(), format!("{path}.typ"), format!("{path}.finish_us")];
    candidates.into_iter().find_map(|path| {
        let value = config.extract::<f64>(&path).ok().filter(|value| *value > 0.0)?;
        Some(Parameter { path, value })
    })
}

impl Group<'_> {
    /// The residual of subject `i` after a fit to the others; none when they are too few.
    fn residual_without(&self, library: &Library, i: usize) -> Option<f64> {
        let out = self.subjects.get(i)?;
        let others: Vec<&Subject<'_>> = self.subjects.iter().filter(|s| s.job != out.job).collect();
        let mut jobs: Vec<&Job> = others.iter().map(|s| &s.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        if jobs.len() < self.parameters.len() {
            return None;
        }
        let start: Vec<f64> = self.parameters.iter().map(|p| p.value.ln()).collect();
        let errors = |at: &[f64]| -> Option<Vec<f64>> {
            others.iter().map(|subject| self.error(library, subject, at)).collect()
        };
        let best = minimise(start, &vec![Bounds::NONE; self.parameters.len()], Effort::FULL, errors)?;
        let simulated = self.simulate(library, out, &best)?;
        Some(beyond(simulated.exact, out.row.says()?.interval(out.table, simulated.kib)))
    }

    /// The subject's run with these logarithms of the parameters.
    fn simulate(
        &self,
        library: &Library,
        subject: &Subject<'_>,
        at: &[f64],
    ) -> Option<super::job::Simulated> {
        let mut job = subject.job.clone();
        for (parameter, log) in self.parameters.iter().zip(at) {
            let value = log.exp();
            let whole = parameter.path.ends_with("_per_kb");
            job.set.push(format!("{}={}", parameter.path, if whole { value.round() } else { value }));
        }
        run(library, &job, 0).ok()?.of(subject.row)
    }

    /// The logarithm of simulated over published, which stands in the middle of its resolution.
    fn error(&self, library: &Library, subject: &Subject<'_>, at: &[f64]) -> Option<f64> {
        let simulated = self.simulate(library, subject, at)?;
        let (min, max) = subject.row.says()?.interval(subject.table, simulated.kib);
        Some((simulated.exact / f64::midpoint(min, max)).ln()).filter(|error| error.is_finite())
    }
}
