//! Designs of a sweep. Each follows only from its number and the seed.

use super::figures::ChipFigures;
use floatgate_mtd::random::{hash, unit};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range as Numbers;

/// Maximum number of designs of a sweep: their numbers have 32 bits.
pub const MAX_DESIGNS: usize = u32::MAX as usize;

/// Number of designs to draw from the axes.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    pub(super) random: Option<usize>,
    pub(super) latin_hypercube: Option<usize>,
    #[serde(default)]
    pub(super) seed: u64,
}

/// Overrides of one design, sorted by key. A map would take several hundred bytes more per design.
#[derive(Clone, Debug, Default)]
pub struct Design(Box<[(String, toml::Value)]>);

impl Serialize for Design {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for Design {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut design = BTreeMap::new();
        for (key, value) in BTreeMap::<String, toml::Value>::deserialize(d)? {
            leaves(key, value, |_| false, &mut |key, value| match design.insert(key.clone(), value) {
                Some(_) => Err(format!("`{key}` is given twice")),
                None => Ok(()),
            })
            .map_err(D::Error::custom)?;
        }
        Ok(Self(design.into_iter().collect()))
    }
}

impl Design {
    /// Value of a key.
    fn get(&self, key: &str) -> Option<&toml::Value> {
        let at = self.0.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Overrides in the form of `--set`.
    pub(super) fn overrides(&self) -> Result<Vec<String>, String> {
        self.0.iter().map(|(key, value)| Ok(format!("{key}={}", text(value)?))).collect()
    }
}

/// Calls `take` with each value below a key and its complete key, because TOML parses `bus.mode = "8S"` as a table. A
/// table for which `is_value` returns true is a value.
fn leaves(
    key: String,
    value: toml::Value,
    is_value: fn(&toml::Table) -> bool,
    take: &mut dyn FnMut(String, toml::Value) -> Result<(), String>,
) -> Result<(), String> {
    match value {
        toml::Value::Table(table) if !is_value(&table) => table
            .into_iter()
            .try_for_each(|(inner, value)| leaves(format!("{key}.{inner}"), value, is_value, take)),
        value => take(key, value),
    }
}

/// Keys with their values, in the order of the specification.
#[derive(Clone, Debug, Default)]
pub(super) struct Axes(Vec<(String, Axis)>);

impl Axes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn sort(&mut self) {
        self.0.sort_by(|(a, _), (b, _)| a.cmp(b));
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }
}

impl Serialize for Axes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.0.iter().map(|(key, axis)| (key, axis)))
    }
}

impl<'de> Deserialize<'de> for Axes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Axes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of lists or ranges")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Axes, M::Error> {
                let mut axes = Vec::new();
                let mut known = BTreeSet::new();
                while let Some((key, Branch(branch))) = map.next_entry::<String, Branch>()? {
                    for (rest, axis) in branch {
                        let key = format!("{key}{rest}");
                        if !known.insert(key.clone()) {
                            return Err(M::Error::custom(format!("`{key}` is given twice")));
                        }
                        axes.push((key, axis));
                    }
                }
                Ok(Axes(axes))
            }
        }
        d.deserialize_map(InOrder)
    }
}

/// Axes below the first part of a key, with the remaining keys: empty for `"bus.mode" = [...]`, `.mode` for `bus.mode =
/// [...]`, which TOML parses as a table.
struct Branch(Vec<(String, Axis)>);

impl<'de> Deserialize<'de> for Branch {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut axes = Vec::new();
        leaves(String::new(), toml::Value::deserialize(d)?, Range::is_one, &mut |rest, value| {
            axes.push((rest, Axis::new(value)?));
            Ok(())
        })
        .map_err(D::Error::custom)?;
        Ok(Self(axes))
    }
}

/// Maximum number of values of a key with a range and a step: all of them are in memory.
const MAX_VALUES: usize = 1_000_000;

/// Keys of a range in the specification.
const RANGE: [&str; 3] = ["from", "to", "step"];

/// Values of a key of the space.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Axis {
    List(Vec<toml::Value>),
    Range(Range),
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Range {
    from: f64,
    to: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<f64>,
}

impl Range {
    fn is_one(table: &toml::Table) -> bool {
        RANGE.iter().any(|key| table.contains_key(*key))
    }

    fn new(table: &toml::Table) -> Result<Self, String> {
        if let Some(other) = table.keys().find(|key| !RANGE.contains(&key.as_str())) {
            return Err(format!("a range has `from`, `to` and `step`, and no `{other}`"));
        }
        let number = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(toml::Value::Integer(n)) => Ok(Some(*n as f64)),
            Some(toml::Value::Float(x)) => Ok(Some(*x)),
            Some(other) => Err(format!("`{key}` is {other}, and no number")),
        };
        let end = |key: &str| number(key)?.ok_or_else(|| format!("a range needs `{key}`"));
        Ok(Self { from: end("from")?, to: end("to")?, step: number("step")? })
    }
}

impl Axis {
    fn new(value: toml::Value) -> Result<Self, String> {
        match value {
            toml::Value::Array(list) => Ok(Self::List(list)),
            toml::Value::Table(table) => Range::new(&table).map(Self::Range),
            other => Err(format!("{other} is neither a list nor a range: write [{other}]")),
        }
    }

    fn values(&self, is_grid: bool) -> Result<Values, String> {
        match self {
            Self::List(list) if list.is_empty() => Err("an empty list: the space has no design".to_owned()),
            Self::List(list) => list.iter().map(text).collect::<Result<_, _>>().map(Values::List),
            Self::Range(Range { from, to, .. }) if !(from <= to && from.is_finite() && to.is_finite()) => {
                Err("`to` is below `from`, or one of them is no number".to_owned())
            }
            Self::Range(Range { from, to, step: None }) if !is_grid => Ok(Values::Between(*from, *to)),
            Self::Range(Range { step: None, .. }) => Err("a grid needs the `step` of a range".to_owned()),
            Self::Range(Range { from, to, step: Some(step) }) => {
                // A step that is not exact in binary must not exclude the last value.
                let steps = (to - from) / step + 1e-9;
                if !(*step > 0.0 && steps < MAX_VALUES as f64) {
                    return Err(format!("`step` is not above 0, or makes more than {MAX_VALUES} values"));
                }
                let value = |i: usize| number(((from + i as f64 * step) * 1e9).round() / 1e9);
                Ok(Values::List((0..=steps as usize).map(value).collect()))
            }
        }
    }
}

/// Text of a value in the form of `--set`.
fn text(value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) if text.is_empty() => Ok("\"\"".to_owned()),
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Float(x) if !x.is_finite() => Err(format!("{x} is no value")),
        toml::Value::Float(x) => Ok(number(*x)),
        other => Ok(other.to_string()),
    }
}

/// Text of a number in an override: whole numbers have no decimal point.
fn number(x: f64) -> String {
    match x.abs() {
        size if size >= 9e15 => format!("{x:e}"),
        _ if x.fract() == 0.0 => format!("{x:.0}"),
        _ => x.to_string(),
    }
}

/// Type of the values of a key: the narrowest type that fits all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyType {
    Bool,
    Integer,
    Number,
    Text,
}

impl KeyType {
    fn of<'a>(values: impl Iterator<Item = &'a str> + Clone) -> Self {
        let all = |is: fn(&str) -> bool| values.clone().all(is);
        let is_number = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
        match () {
            () if all(|text| text.parse::<bool>().is_ok()) => Self::Bool,
            () if all(|text| text.parse::<i64>().is_ok()) => Self::Integer,
            () if all(is_number) => Self::Number,
            () => Self::Text,
        }
    }
}

#[derive(Clone, Debug)]
enum Values {
    List(Vec<String>),
    Between(f64, f64),
    /// One value for each design.
    Each(Listed),
}

/// Values of a key of listed designs. Each distinct text is stored once, so that a design takes four bytes.
#[derive(Clone, Debug, Default)]
struct Listed {
    texts: Vec<String>,
    /// Index of the text of each design; [`Listed::NONE`] for a design without the key.
    places: Vec<u32>,
}

impl Listed {
    const NONE: u32 = u32::MAX;

    /// Creates the values of a key in all designs.
    fn new(values: impl Iterator<Item = Result<Option<String>, String>>) -> Result<Self, String> {
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut places = Vec::new();
        for value in values {
            places.push(match value? {
                None => Self::NONE,
                Some(text) => {
                    let next = u32::try_from(known.len()).unwrap_or(Self::NONE);
                    *known.entry(text).or_insert(next)
                }
            });
        }
        let mut texts = vec![String::new(); known.len()];
        for (text, place) in known {
            texts[place as usize] = text;
        }
        Ok(Self { texts, places })
    }

    /// Value of a design; `None` if it does not have the key.
    fn get(&self, design: usize) -> Option<String> {
        self.texts.get(*self.places.get(design)? as usize).cloned()
    }
}

impl Values {
    /// Value at a share of the axis, 0 to 1.
    fn at(&self, share: f64) -> Option<String> {
        match self {
            Self::List(list) => {
                let at = (share * list.len() as f64) as usize;
                list.get(at.min(list.len() - 1)).cloned()
            }
            Self::Between(from, to) => {
                let x = from + share * (to - from);
                // Large values, such as clocks, are rounded to whole numbers.
                Some(number(if to.abs() >= 1e6 { x.round() } else { x }))
            }
            Self::Each(_) => None,
        }
    }

    fn texts(&self) -> impl Iterator<Item = &str> + Clone {
        let texts: &[String] = match self {
            Self::List(list) => list,
            Self::Between(..) => &[],
            Self::Each(each) => &each.texts,
        };
        texts.iter().map(String::as_str)
    }

    fn key_type(&self) -> KeyType {
        match self {
            Self::Between(_, to) if to.abs() >= 1e6 => KeyType::Integer,
            Self::Between(..) => KeyType::Number,
            _ => KeyType::of(self.texts()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Sampling {
    Grid,
    Listed,
    Random(u64),
    Latin(u64),
}

/// Space of all designs of a sweep.
#[derive(Clone, Debug)]
pub(super) struct Space {
    axes: Vec<(String, Values)>,
    sampling: Sampling,
    designs: usize,
}

/// Some consecutive designs, with everything that a worker needs to measure them.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Work {
    /// Number of the first design.
    pub(super) first: usize,
    pub(super) keys: Vec<String>,
    /// Values of each design by key, in the form of `--set`.
    pub(super) designs: Vec<Vec<Option<String>>>,
    /// Members of a single design that are already measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) members: Vec<ChipFigures>,
}

impl Space {
    pub(super) fn new(axes: &Axes, sample: Option<&Sample>) -> Result<Self, String> {
        let (sampling, drawn) = match sample {
            None => (Sampling::Grid, None),
            Some(&Sample { random: Some(n), latin_hypercube: None, seed }) => {
                (Sampling::Random(seed), Some(n))
            }
            Some(&Sample { random: None, latin_hypercube: Some(n), seed }) => {
                (Sampling::Latin(seed), Some(n))
            }
            Some(_) => return Err("`sample` has either `random` or `latin_hypercube`".to_owned()),
        };
        if axes.is_empty() {
            return Err("`space` is empty".to_owned());
        }
        let named = |(key, axis): &(String, Axis)| {
            let values = axis.values(drawn.is_none()).map_err(|why| format!("`{key}`: {why}"))?;
            Ok((key.clone(), values))
        };
        let axes: Vec<(String, Values)> = axes.0.iter().map(named).collect::<Result<_, String>>()?;
        let grid = axes.iter().try_fold(1_usize, |n, (_, values)| n.checked_mul(values.texts().count()));
        let designs = drawn.or(grid).unwrap_or(usize::MAX);
        Self { axes, sampling, designs }.checked()
    }

    /// Space of listed designs. Keys are in the order of their first use.
    pub(super) fn listed(designs: &[Design]) -> Result<Self, String> {
        let mut keys: Vec<&String> = Vec::new();
        let mut known = BTreeSet::new();
        let all = designs.iter().flat_map(|design| design.0.iter().map(|(key, _)| key));
        keys.extend(all.filter(|key| known.insert(*key)));
        let column = |key: &&String| {
            let values = designs.iter().map(|design| design.get(key).map(text).transpose());
            Ok(((*key).clone(), Values::Each(Listed::new(values)?)))
        };
        let axes = keys.iter().map(column).collect::<Result<_, String>>()?;
        Self { axes, sampling: Sampling::Listed, designs: designs.len() }.checked()
    }

    /// Space of the keys that vary between members of a population; `None` without such keys.
    pub(super) fn members(axes: &Axes, members: u32, seed: u64) -> Result<Option<Self>, String> {
        let sample = Sample { random: Some(members as usize), latin_hypercube: None, seed };
        if axes.is_empty() { Ok(None) } else { Self::new(axes, Some(&sample)).map(Some) }
    }

    fn checked(self) -> Result<Self, String> {
        match self.designs {
            0 => Err("the space has no design".to_owned()),
            n if n > MAX_DESIGNS => Err(format!("{n} designs; a sweep has 1 to {MAX_DESIGNS}")),
            _ => Ok(self),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.designs
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|(key, _)| key.as_str())
    }

    pub(super) fn key_types(&self) -> impl Iterator<Item = (&str, KeyType)> {
        self.axes.iter().map(|(key, values)| (key.as_str(), values.key_type()))
    }

    /// Values of a key that is a list; empty for a range.
    pub(super) fn distinct(&self, axis: usize) -> Vec<&str> {
        let mut known = BTreeSet::new();
        self.axes
            .get(axis)
            .map_or_else(Vec::new, |(_, values)| values.texts().filter(|text| known.insert(*text)).collect())
    }

    /// Lowest and highest value of a numeric key.
    pub(super) fn bounds(&self, axis: usize) -> Option<(f64, f64)> {
        match &self.axes.get(axis)?.1 {
            Values::Between(from, to) => Some((*from, *to)),
            values => {
                let numbers: Option<Vec<f64>> = values.texts().map(|text| text.parse().ok()).collect();
                Some(numbers?.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x))))
            }
        }
    }

    /// Values of a design, in the order of the keys. In a grid the last key changes fastest.
    pub(super) fn values(&self, design: usize) -> Vec<Option<String>> {
        let mut rest = design;
        let mut value = |(axis, (_, of_axis)): (usize, &(String, Values))| match (self.sampling, of_axis) {
            (_, Values::Each(each)) => each.get(design),
            (Sampling::Grid, Values::List(list)) => {
                let value = list.get(rest % list.len()).cloned();
                rest /= list.len();
                value
            }
            (Sampling::Grid | Sampling::Listed, other) => other.at(0.0),
            (Sampling::Random(seed), _) => of_axis.at(share(seed, axis, design)),
            (Sampling::Latin(seed), _) => {
                let stratum = shuffled(design, self.designs, seed, axis);
                of_axis.at((stratum as f64 + share(seed, axis, design)) / self.designs as f64)
            }
        };
        let mut values: Vec<Option<String>> = self.axes.iter().enumerate().rev().map(&mut value).collect();
        values.reverse();
        values
    }

    /// Work for the designs with these numbers.
    pub(super) fn work(&self, numbers: Numbers<usize>) -> Work {
        Work {
            first: numbers.start,
            keys: self.keys().map(str::to_owned).collect(),
            designs: numbers.map(|number| self.values(number)).collect(),
            members: Vec::new(),
        }
    }
}

/// Pseudo-random number in [0, 1) for a design on an axis.
fn share(seed: u64, axis: usize, design: usize) -> f64 {
    unit(hash(seed, axis as u64, design as u64))
}

/// Position of a number below `n` in a permutation that follows from seed and axis. A Feistel network of four rounds
/// over the next power of four is repeated until the result is below `n` (Black and Rogaway 2002). It needs no table.
fn shuffled(number: usize, n: usize, seed: u64, axis: usize) -> usize {
    let bits = (usize::BITS - n.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1 << bits) - 1;
    // The seed is inverted, so that strata and positions within them are independent.
    let round = |half: usize, round: u64| hash(!seed, axis as u64 * 4 + round, half as u64) as usize & mask;
    let mut place = number;
    loop {
        let halves = (place >> bits, place & mask);
        let (left, right) = (0..4).fold(halves, |(left, right), at| (right, left ^ round(right, at)));
        place = left << bits | right;
        if place < n {
            return place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_designs_keep_each_text_once() {
        let texts = ["a", "b", "a"].map(|text| Ok(Some(text.to_owned())));
        let listed = Listed::new(texts.into_iter().chain([Ok(None)])).unwrap();
        assert_eq!((listed.texts.len(), listed.places.len()), (2, 4));
        let values: Vec<Option<String>> = (0..5).map(|design| listed.get(design)).collect();
        let values: Vec<Option<&str>> = values.iter().map(Option::as_deref).collect();
        assert_eq!(values, [Some("a"), Some("b"), Some("a"), None, None]);
    }
}
