//! Rows of a sweep: constraints, Pareto front, sensitivity.

use super::Record;
use super::spec::{Space, Spec};
use crate::error::Error;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Bins of a range when the variance is divided.
const BINS: usize = 16;

/// Share of an objective's variance that follows from one key: the first-order Sobol index, estimated as the variance of the
/// means of the designs with the same value (of ranges: in the same of 16 bins) over the variance of all designs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// Column of the objective.
    pub objective: String,
    /// Key of the setup.
    pub key: String,
    /// Share of the variance, 0 to 1.
    pub share: f64,
}

/// Everything a sweep found.
#[derive(Clone, Debug)]
pub struct Table {
    /// Title and setup of the sweep.
    pub setup: String,
    /// Measurement of the sweep.
    pub measure: String,
    /// Columns of each row.
    pub columns: Vec<String>,
    /// Cells in the order of the columns.
    pub rows: Vec<Vec<Value>>,
    /// Sensitivities of the objectives, the largest of each first.
    pub sensitivity: Vec<Sensitivity>,
}

/// `column < number`.
struct Constraint {
    column: String,
    sign: &'static str,
    limit: f64,
}

impl Constraint {
    fn parse(text: &str) -> Result<Self, Error> {
        let found = ["<=", ">=", "<", ">"].into_iter().find_map(|sign| Some((sign, text.split_once(sign)?)));
        let parsed = found.and_then(|(sign, (column, limit))| {
            let limit = limit.trim().replace('_', "").parse().ok().filter(|limit: &f64| limit.is_finite())?;
            Some(Self { column: column.trim().to_owned(), sign, limit })
        });
        let help = "write a column, one of < <= > >=, and a number: \"page read KiB/s > 10000\"";
        parsed.ok_or_else(|| Error::asked(format!("no constraint: `{text}`"), help))
    }

    fn holds(&self, value: Option<f64>) -> bool {
        let limit = self.limit;
        value.is_some_and(|value| match self.sign {
            "<=" => value <= limit,
            ">=" => value >= limit,
            "<" => value < limit,
            _ => value > limit,
        })
    }
}

/// A figure of a record, or a numeric key of its design.
fn value(space: &Space, records: &[Record], design: usize, column: &str) -> Option<f64> {
    let record = records.get(design).filter(|record| record.refused.is_none())?;
    record.figure(column).or_else(|| {
        let at = space.keys().position(|key| key == column)?;
        space.values(design).get(at)?.parse().ok()
    })
}

impl Table {
    /// True when the columns of constraints and objectives were found. While no design was measured they cannot be, which is an
    /// error only at the end.
    pub(super) fn check_columns(
        spec: &Spec,
        space: &Space,
        records: &[Record],
        is_end: bool,
    ) -> Result<bool, Error> {
        let constraints = spec.constraints.iter().map(|text| Constraint::parse(text));
        let mut wanted: Vec<String> = constraints.map(|one| Ok(one?.column)).collect::<Result<_, Error>>()?;
        wanted.extend(spec.objectives.maximise.iter().chain(&spec.objectives.minimise).cloned());
        let Some(first) = records.iter().position(|record| record.refused.is_none()) else {
            return Ok(is_end);
        };
        for column in wanted {
            let anywhere = (first..records.len()).any(|i| value(space, records, i, &column).is_some());
            if !anywhere {
                let known: Vec<&str> = records[first].figures.iter().map(|(name, _)| name.as_str()).collect();
                let message = format!("there is no column `{column}`");
                return Err(Error::asked(message, format!("there are {}", known.join(", "))));
            }
        }
        Ok(true)
    }

    pub(super) fn new(spec: &Spec, space: &Space, records: &[Record]) -> Result<Self, Error> {
        Self::check_columns(spec, space, records, true)?;
        let constraints: Vec<Constraint> =
            spec.constraints.iter().map(|text| Constraint::parse(text)).collect::<Result<_, _>>()?;
        let feasible: Vec<bool> = (0..records.len())
            .map(|i| {
                let holds = |one: &Constraint| one.holds(value(space, records, i, &one.column));
                records[i].refused.is_none() && constraints.iter().all(holds)
            })
            .collect();
        let objectives = objectives(spec);
        let front = front(space, records, &feasible, &objectives);
        let mut figures: Vec<&str> = Vec::new();
        for (name, _) in records.iter().flat_map(|record| &record.figures) {
            if !figures.contains(&name.as_str()) {
                figures.push(name);
            }
        }
        let keys: Vec<&str> = space.keys().collect();
        let mut columns: Vec<String> = keys.iter().chain(&figures).map(|name| (*name).to_owned()).collect();
        columns.extend(["feasible", "pareto", "refused"].map(str::to_owned));
        let row = |i: usize| {
            let record = &records[i];
            let mut cells: Vec<Value> = space.values(i).iter().map(|text| literal(text)).collect();
            cells.extend(figures.iter().map(|name| json!(record.figure(name))));
            cells.extend([json!(feasible[i]), json!(front[i]), json!(record.refused)]);
            cells
        };
        let sensitivity = sensitivity(space, records, &objectives);
        Ok(Self {
            setup: spec.setup.clone(),
            measure: spec.measure.clone(),
            columns,
            rows: (0..records.len()).map(row).collect(),
            sensitivity,
        })
    }

    /// The rows as objects with the columns as keys.
    pub fn keyed(&self) -> impl Iterator<Item = Map<String, Value>> {
        self.rows.iter().map(|row| self.columns.iter().cloned().zip(row.iter().cloned()).collect())
    }

    /// Number of rows on the Pareto front, and of those that can be.
    pub fn counts(&self) -> (usize, usize) {
        let count = |column: &str| {
            let at = self.columns.iter().position(|name| name == column);
            let is_true = |row: &&Vec<Value>| at.and_then(|at| row.get(at)) == Some(&Value::Bool(true));
            self.rows.iter().filter(is_true).count()
        };
        (count("pareto"), count("feasible"))
    }
}

/// Objectives with the sign that makes less better.
fn objectives(spec: &Spec) -> Vec<(String, f64)> {
    let of =
        |names: &[String], sign: f64| names.iter().map(move |name| (name.clone(), sign)).collect::<Vec<_>>();
    [of(&spec.objectives.maximise, -1.0), of(&spec.objectives.minimise, 1.0)].concat()
}

/// A value of an override as JSON.
fn literal(text: &str) -> Value {
    match text.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && number.abs() < 9e15 => json!(number as i64),
        Ok(number) if number.is_finite() => json!(number),
        _ => json!(text.trim_matches('"')),
    }
}

/// True for each feasible design than which no other is better in one objective and as good in all others.
fn front(space: &Space, records: &[Record], feasible: &[bool], objectives: &[(String, f64)]) -> Vec<bool> {
    let mut is_front = vec![false; records.len()];
    if objectives.is_empty() {
        return is_front;
    }
    let point = |i: usize| {
        let of = |(name, sign): &(String, f64)| value(space, records, i, name).map(|value| value * sign);
        objectives.iter().map(of).collect::<Option<Vec<f64>>>()
    };
    let mut points: Vec<(Vec<f64>, usize)> =
        (0..records.len()).filter(|&i| feasible[i]).filter_map(|i| Some((point(i)?, i))).collect();
    // In this order only a point before another one can dominate it.
    let by = |a: &[f64], b: &[f64]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| a.total_cmp(b))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    };
    points.sort_by(|a, b| by(&a.0, &b.0).then(a.1.cmp(&b.1)));
    let mut kept: Vec<Vec<f64>> = Vec::new();
    for (point, i) in points {
        let dominates = |other: &Vec<f64>| *other != point && other.iter().zip(&point).all(|(a, b)| a <= b);
        if !kept.iter().any(dominates) {
            is_front[i] = true;
            if kept.last() != Some(&point) {
                kept.push(point);
            }
        }
    }
    is_front
}

fn sensitivity(space: &Space, records: &[Record], objectives: &[(String, f64)]) -> Vec<Sensitivity> {
    let designs: Vec<Vec<String>> = (0..records.len()).map(|i| space.values(i)).collect();
    let mut all = Vec::new();
    for (objective, _) in objectives {
        let points: Vec<(usize, f64)> =
            (0..records.len()).filter_map(|i| Some((i, value(space, records, i, objective)?))).collect();
        let mut of_objective: Vec<Sensitivity> = space
            .keys()
            .enumerate()
            .filter_map(|(axis, key)| {
                let bins = bins(points.iter().map(|(i, _)| designs[*i][axis].as_str()));
                let share = share_of_variance(&bins, &points)?;
                Some(Sensitivity { objective: objective.clone(), key: key.to_owned(), share })
            })
            .collect();
        of_objective.sort_by(|a, b| b.share.total_cmp(&a.share));
        all.extend(of_objective);
    }
    all
}

/// The bin of each value: of few values or texts one for each, else of equal width.
fn bins<'a>(values: impl Iterator<Item = &'a str> + Clone) -> Vec<usize> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for value in values.clone() {
        let next = known.len();
        known.entry(value).or_insert(next);
    }
    let numbers: Option<Vec<f64>> = values.clone().map(|value| value.parse().ok()).collect();
    match numbers.filter(|_| known.len() > 4 * BINS) {
        None => values.map(|value| known.get(value).copied().unwrap_or(0)).collect(),
        Some(numbers) => {
            let (least, most) = numbers.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
            let bin = |x: f64| ((x - least) / (most - least) * BINS as f64) as usize;
            numbers.into_iter().map(|x| bin(x).min(BINS - 1)).collect()
        }
    }
}

/// Variance of the means of the bins over the whole variance; none where nothing varies.
fn share_of_variance(bins: &[usize], points: &[(usize, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let whole = points.iter().map(|(_, y)| (y - mean).powi(2)).sum::<f64>();
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (bin, (_, y)) in bins.iter().zip(points) {
        let (n, sum) = sums.entry(*bin).or_default();
        *n += 1.0;
        *sum += y;
    }
    let between: f64 = sums.values().map(|(n, sum)| n * (sum / n - mean).powi(2)).sum();
    (whole > 1e-12 * mean * mean * count).then(|| (between / whole).clamp(0.0, 1.0))
}
