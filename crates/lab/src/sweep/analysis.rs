//! Analysis of all designs in one pass: constraints, Pareto front, sensitivity.

use super::batch::Batch;
use super::evaluator::SCREENED;
use super::space::{KeyType, Space};
use super::spec::Spec;
use floatgate_sim::error::Error;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Number of bins of a range for the decomposition of the variance.
const BINS: usize = 16;

/// Name in place of a key for the variance that no single key explains.
const REST: &str = "interactions and rest";

/// Share of an objective's variance that one key explains: the first-order Sobol index. It is estimated as the variance
/// of the means of designs with the same value, divided by the variance of all designs. Values of a range are grouped
/// into 16 bins. The shares of an objective, including `interactions and rest`, add up to 1.
///
/// Means of few designs also differ by chance. For random designs this is subtracted, as in Kelley's epsilon squared
/// (1935). Keys that vary together, as in listed or refused designs, explain the same variance: their shares are scaled
/// down to a sum of 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// Column of the objective.
    pub objective: String,
    /// Key of the setup, or `interactions and rest` for the variance that no single key explains.
    pub key: String,
    /// Share of the variance, 0 to 1.
    pub share: f64,
}

/// Results for the designs so far.
pub(super) struct Analysis {
    /// Names of the figures, in the order of their first use.
    pub(super) figures: Vec<String>,
    pub(super) texts: Vec<String>,
    /// Number of designs that are not refused and meet all constraints.
    pub(super) feasible: usize,
    /// Number of impossible designs, with the reasons.
    pub(super) refused: Reasons,
    /// Number of designs that missed a condition of `screen`, with the reasons.
    pub(super) screened: Reasons,
    /// Number of designs that are not refused.
    pub(super) measured: usize,
    objectives: Vec<Objective>,
    front: ParetoFront,
    axes: Vec<AxisBins>,
    keys: Vec<(String, KeyType)>,
    /// True if the designs are a random sample of the space.
    is_sample: bool,
}

/// Number of designs without figures, the reason of the first one, and the number for each reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Reasons {
    pub(super) count: usize,
    pub(super) first: Option<String>,
    /// Number of designs by reason, for the first [`REASONS_MAX`] reasons.
    by_reason: BTreeMap<String, usize>,
}

/// Maximum number of reasons that are counted separately: messages may contain a different number for each design.
const REASONS_MAX: usize = 64;

/// Best design for an objective.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Best {
    /// Column of the objective.
    pub(super) column: String,
    /// Value of the objective.
    pub(super) value: f64,
    /// Number of the design.
    pub(super) design: usize,
}

impl Reasons {
    fn add(&mut self, why: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| why.to_owned());
        if let Some(count) = self.by_reason.get_mut(why) {
            *count += 1;
        } else if self.by_reason.len() < REASONS_MAX {
            self.by_reason.insert(why.to_owned(), 1);
        }
    }

    /// Reasons with their numbers of designs, in descending order.
    pub(super) fn by_count(&self) -> Vec<(&str, usize)> {
        let mut all: Vec<(&str, usize)> =
            self.by_reason.iter().map(|(why, count)| (why.as_str(), *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }
}

struct Objective {
    column: String,
    /// Sign of the objective: 1 if less is better, -1 if more is better.
    sign: f64,
    /// Value and number of the best feasible design.
    best: Option<(f64, usize)>,
    spread: Spread,
    /// Statistics of the designs in each bin, for each axis.
    bins: Vec<BTreeMap<usize, Spread>>,
}

/// Count, sum and sum of squares of values. The first value is subtracted from each, because values may differ only in
/// their last digits.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    origin: f64,
    count: f64,
    sum: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, value: f64, origin: f64) {
        self.origin = origin;
        let value = value - origin;
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    /// True if values differ by more than floating-point rounding.
    fn varies(&self) -> bool {
        let mean = self.origin + self.sum / self.count;
        self.count > 0.0 && self.variation() > 1e-12 * mean * mean * self.count
    }

    /// Sum of the squared distances from the mean.
    fn variation(&self) -> f64 {
        (self.squares - self.sum * self.sum / self.count).max(0.0)
    }
}

/// Bins of the values of an axis: one for each of few values or texts, otherwise bins of equal width.
enum AxisBins {
    Each(BTreeMap<String, usize>),
    Wide { least: f64, most: f64 },
}

impl AxisBins {
    fn new(space: &Space, axis: usize) -> Self {
        let values = space.distinct(axis);
        match space.bounds(axis).filter(|_| values.is_empty() || values.len() > 4 * BINS) {
            Some((least, most)) => Self::Wide { least, most },
            None => Self::Each(values.into_iter().map(str::to_owned).zip(0..).collect()),
        }
    }

    fn bin(&self, text: &str) -> Option<usize> {
        match self {
            Self::Each(known) => known.get(text).copied(),
            Self::Wide { least, most } => {
                let share = (text.parse::<f64>().ok()? - least) / (most - least).max(f64::MIN_POSITIVE);
                Some(((share * BINS as f64) as usize).min(BINS - 1))
            }
        }
    }
}

impl Analysis {
    pub(super) fn new(spec: &Spec, space: &Space) -> Self {
        let axes: Vec<AxisBins> = (0..space.keys().count()).map(|axis| AxisBins::new(space, axis)).collect();
        let of = |names: &[String], sign: f64| {
            let objective = |column: &String| Objective {
                column: column.clone(),
                sign,
                best: None,
                spread: Spread::default(),
                bins: vec![BTreeMap::new(); axes.len()],
            };
            names.iter().map(objective).collect::<Vec<_>>()
        };
        let mut objectives = of(&spec.objectives.maximise, -1.0);
        objectives.extend(of(&spec.objectives.minimise, 1.0));
        Self {
            figures: Vec::new(),
            texts: Vec::new(),
            feasible: 0,
            refused: Reasons::default(),
            screened: Reasons::default(),
            measured: 0,
            objectives,
            front: ParetoFront::default(),
            axes,
            keys: space.key_types().map(|(key, of)| (key.to_owned(), of)).collect(),
            is_sample: spec.sample.is_some(),
        }
    }

    pub(super) fn add(&mut self, spec: &Spec, space: &Space, batch: &Batch) {
        let new_names = |known: &mut Vec<String>, names: &mut dyn Iterator<Item = &String>| {
            for name in names {
                if !known.contains(name) {
                    known.push(name.clone());
                }
            }
        };
        new_names(&mut self.figures, &mut batch.figures.iter().map(|(name, _)| name));
        new_names(&mut self.texts, &mut batch.texts.iter().map(|(name, _)| name));
        for at in 0..batch.len() {
            if let Some(Some(why)) = batch.refused.get(at) {
                let reasons = if why.starts_with(SCREENED) { &mut self.screened } else { &mut self.refused };
                reasons.add(why);
                continue;
            }
            self.measured += 1;
            let design = batch.first + at;
            let values = space.values(design);
            let is_feasible = self.is_feasible(spec, batch, at, &values);
            self.feasible += usize::from(is_feasible);
            let point: Vec<Option<f64>> =
                self.objectives.iter().map(|one| self.value(batch, at, &values, &one.column)).collect();
            self.spread(&point, &values);
            if is_feasible {
                self.improve(&point, design);
            }
            let signed = point
                .iter()
                .zip(&self.objectives)
                .map(|(value, one)| Some(Key(value.as_ref()? * one.sign + 0.0)));
            if let Some(point) =
                signed.collect::<Option<Vec<Key>>>().filter(|point| is_feasible && !point.is_empty())
            {
                self.front.add(point, design);
            }
        }
    }

    /// Records a feasible design if it is better than all earlier ones.
    fn improve(&mut self, point: &[Option<f64>], design: usize) {
        for (objective, value) in self.objectives.iter_mut().zip(point) {
            let Some(value) = value.filter(|value| !value.is_nan()) else { continue };
            if objective.best.is_none_or(|(best, _)| value * objective.sign < best * objective.sign) {
                objective.best = Some((value, design));
            }
        }
    }

    /// Best feasible design of each objective. It is on the front; other designs on the front may be equal in this
    /// objective.
    pub(super) fn best(&self) -> Vec<Best> {
        let best = |(at, one): (usize, &Objective)| {
            let of_front = self.front.best(at).map(|(key, design)| (key * one.sign + 0.0, design as usize));
            of_front.or(one.best).map(|(value, design)| Best { column: one.column.clone(), value, design })
        };
        self.objectives.iter().enumerate().filter_map(best).collect()
    }

    /// Figure or numeric key of a design.
    fn value(&self, batch: &Batch, at: usize, values: &[Option<String>], column: &str) -> Option<f64> {
        batch.figure(column, at).or_else(|| {
            let axis = self.keys.iter().position(|(key, _)| key == column)?;
            values.get(axis)?.as_ref()?.parse().ok()
        })
    }

    pub(super) fn is_feasible(
        &self,
        spec: &Spec,
        batch: &Batch,
        at: usize,
        values: &[Option<String>],
    ) -> bool {
        batch.refused.get(at).is_some_and(Option::is_none)
            && spec.constraints.iter().all(|one| one.holds(self.value(batch, at, values, &one.column)))
    }

    fn spread(&mut self, point: &[Option<f64>], values: &[Option<String>]) {
        for (objective, value) in self.objectives.iter_mut().zip(point) {
            let Some(value) = *value else { continue };
            let origin = if objective.spread.count == 0.0 { value } else { objective.spread.origin };
            objective.spread.add(value, origin);
            for ((bins, axis), text) in objective.bins.iter_mut().zip(&self.axes).zip(values) {
                // Designs without the key have their own bin.
                let bin = text.as_deref().and_then(|text| axis.bin(text)).unwrap_or(usize::MAX);
                bins.entry(bin).or_default().add(value, origin);
            }
        }
    }

    /// Returns an error for a column of a constraint or an objective that no design has, if at least one design was
    /// measured.
    pub(super) fn check_columns(&self, spec: &Spec) -> Result<(), Error> {
        if self.measured == 0 {
            return Ok(());
        }
        let constraints = spec.constraints.iter().map(|one| ("constraints", one.column.as_str()));
        let objectives = self.objectives.iter().map(|one| ("objectives", one.column.as_str()));
        constraints.chain(objectives).try_for_each(|(asked_by, column)| self.check_column(asked_by, column))
    }

    fn check_column(&self, asked_by: &'static str, column: &str) -> Result<(), Error> {
        let is_numeric = |of: KeyType| matches!(of, KeyType::Integer | KeyType::Number);
        let keys = self.keys.iter().filter(|(_, of)| is_numeric(*of)).map(|(key, _)| key);
        let numeric = self.figures.iter().chain(keys);
        if numeric.clone().any(|name| name == column) {
            return Ok(());
        }
        let mut others = self.keys.iter().map(|(key, _)| key).chain(&self.texts);
        if others.any(|name| name == column) {
            return Err(Error::request(
                format!("`{asked_by}`: the column `{column}` has texts, which have no order"),
                "name a figure or a key with numbers; which texts a key has is said in `space`",
            ));
        }
        Err(Error::no_column(asked_by, column, numeric))
    }

    /// Number of designs on the Pareto front.
    pub(super) fn pareto(&self) -> usize {
        self.front.0.values().map(Vec::len).sum()
    }

    /// Numbers of the designs on the Pareto front, sorted.
    pub(super) fn front(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.front.0.values().flatten().copied().collect();
        all.sort_unstable();
        all
    }

    /// Sensitivities of the objectives, in descending order for each, followed by the share of the rest.
    pub(super) fn sensitivity(&self) -> Vec<Sensitivity> {
        let varies = |objective: &&Objective| objective.spread.varies();
        self.objectives.iter().filter(varies).flat_map(|objective| self.sensitivity_of(objective)).collect()
    }

    fn sensitivity_of(&self, Objective { column, spread, bins, .. }: &Objective) -> Vec<Sensitivity> {
        let shares: Vec<f64> = bins.iter().map(|bins| self.share(spread, bins)).collect();
        let sum: f64 = shares.iter().sum();
        let row =
            |key: &str, share: f64| Sensitivity { objective: column.clone(), key: key.to_owned(), share };
        let keys = self.keys.iter().zip(&shares);
        let mut all: Vec<Sensitivity> =
            keys.map(|((key, _), share)| row(key, share / sum.max(1.0))).collect();
        all.sort_by(|a, b| b.share.total_cmp(&a.share));
        all.push(row(REST, (1.0 - sum).max(0.0)));
        all
    }

    /// Share of the variation between the bins of a key.
    fn share(&self, whole: &Spread, bins: &BTreeMap<usize, Spread>) -> f64 {
        let within: f64 = bins.values().map(Spread::variation).sum();
        // With as many designs as bins, the variation by chance is unknown.
        let by_chance = match whole.count - bins.len() as f64 {
            free if self.is_sample && free > 0.0 => (whole.count - 1.0) / free,
            _ => 1.0,
        };
        (1.0 - within * by_chance / whole.variation()).clamp(0.0, 1.0)
    }
}

/// Value of an objective; less is better.
#[derive(Clone, Copy, Debug)]
struct Key(f64);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// The Pareto front: points that no other point dominates, each with its designs. A point dominates another one if it
/// is at least as good in all objectives and better in one.
#[derive(Default)]
struct ParetoFront(BTreeMap<Vec<Key>, Vec<u32>>);

impl ParetoFront {
    /// Lowest value of an objective, and the first design with it.
    fn best(&self, objective: usize) -> Option<(f64, u32)> {
        let of = |(point, designs): (&Vec<Key>, &Vec<u32>)| Some((*point.get(objective)?, *designs.first()?));
        let least = self.0.iter().filter_map(of).min_by_key(|(key, _)| *key)?;
        Some((least.0.0, least.1))
    }

    fn add(&mut self, point: Vec<Key>, design: usize) {
        let design = u32::try_from(design).unwrap_or(u32::MAX);
        if let Some(designs) = self.0.get_mut(&point) {
            designs.push(design);
            return;
        }
        let dominates = |a: &[Key], b: &[Key]| a.iter().zip(b).all(|(a, b)| a <= b);
        // In lexicographic order, only an earlier point can dominate a point. With two objectives, the previous point
        // has the lowest second value of all, so only that one must be tested.
        let asked = if point.len() <= 2 { 1 } else { usize::MAX };
        if self.0.range(..point.clone()).rev().take(asked).any(|(other, _)| dominates(other, &point)) {
            return;
        }
        let behind = self.0.range(point.clone()..).map(|(other, _)| other);
        let dominated: Vec<Vec<Key>> = if point.len() <= 2 {
            behind.take_while(|other| dominates(&point, other)).cloned().collect()
        } else {
            behind.filter(|other| dominates(&point, other)).cloned().collect()
        };
        for other in dominated {
            self.0.remove(&other);
        }
        self.0.insert(point, vec![design]);
    }
}
