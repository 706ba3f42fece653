//! The specification of a sweep, and the designs that follow from it.

use crate::error::Error;
use crate::speed::Test;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most designs of a sweep.
pub const MAX_DESIGNS: usize = 1_000_000;

/// Help for a specification that is wrong.
const HELP: &str = "a specification has `setup`, a table `space` of lists or ranges ({ from = 1, to = 9, step = 2 }), and may have `set`, `measure`, \
    `test`, `constraints`, `sample` (`random` or `latin_hypercube`, `seed`) and `objectives` (`maximise`, `minimise`)";

/// A sweep as its TOML file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name or path of the setup.
    pub setup: String,
    /// Overrides of all designs.
    #[serde(default)]
    pub set: Vec<String>,
    /// The measurement: `speed`.
    #[serde(default = "speed")]
    pub measure: String,
    /// The only test of `speed` to run.
    pub test: Option<String>,
    space: BTreeMap<String, Axis>,
    sample: Option<Sample>,
    /// Conditions on figures or numeric keys: `page read KiB/s > 10000`.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Columns of which more or less is better.
    #[serde(default)]
    pub objectives: Objectives,
}

fn speed() -> String {
    "speed".to_owned()
}

/// Columns to optimise.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objectives {
    /// More is better.
    #[serde(default)]
    pub maximise: Vec<String>,
    /// Less is better.
    #[serde(default)]
    pub minimise: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    random: Option<usize>,
    latin_hypercube: Option<usize>,
    #[serde(default)]
    seed: u64,
}

/// Values of a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Axis {
    List(Vec<toml::Value>),
    Range(Range),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: f64,
    to: f64,
    step: Option<f64>,
}

impl Spec {
    /// Reads a specification; `name` is that of its file.
    ///
    /// # Errors
    /// A text that is none.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let spec: Self =
            toml::from_str(text).map_err(|error| Error::asked(format!("{name}: {error}"), HELP))?;
        if spec.measure != "speed" {
            return Err(Error::asked(
                format!("{name}: nothing is measured by `{}`", spec.measure),
                "there is `speed`",
            ));
        }
        spec.only()?;
        spec.space()?;
        Ok(spec)
    }

    pub(super) fn only(&self) -> Result<Option<Test>, Error> {
        let find = |name: &String| {
            let help =
                "there are `page read`, `8 page read`, `eraseblock write`, `erase`, `4x erase` and the like";
            Test::from_name(name).ok_or_else(|| Error::asked(format!("no test is called `{name}`"), help))
        };
        self.test.as_ref().map(find).transpose()
    }

    /// The designs.
    pub(super) fn space(&self) -> Result<Space, Error> {
        let refuse = |message: String| Error::asked(message, HELP);
        if self.space.is_empty() {
            return Err(refuse("the table `space` is empty".to_owned()));
        }
        let how = match &self.sample {
            None => How::Grid,
            Some(Sample { random: Some(n), latin_hypercube: None, seed }) => How::Random(*n, *seed),
            Some(Sample { random: None, latin_hypercube: Some(n), seed }) => How::Latin(*n, *seed),
            Some(_) => return Err(refuse("`sample` has either `random` or `latin_hypercube`".to_owned())),
        };
        let mut axes = Vec::new();
        for (key, axis) in &self.space {
            let values =
                axis.values(matches!(how, How::Grid)).map_err(|why| refuse(format!("`{key}`: {why}")))?;
            axes.push((key.clone(), values));
        }
        let grid = axes.iter().try_fold(1_usize, |n, (_, values)| n.checked_mul(values.grid_len()));
        let designs = match how {
            How::Grid => grid.unwrap_or(usize::MAX),
            How::Random(n, _) | How::Latin(n, _) => n,
        };
        if designs == 0 || designs > MAX_DESIGNS {
            return Err(refuse(format!("{designs} designs; a sweep has 1 to {MAX_DESIGNS}")));
        }
        let strata = match how {
            How::Latin(n, seed) => (0..axes.len()).map(|axis| shuffled(n, seed, axis)).collect(),
            _ => Vec::new(),
        };
        Ok(Space { axes, how, designs, strata })
    }
}

impl Axis {
    fn values(&self, grid: bool) -> Result<Values, String> {
        match self {
            Self::List(list) if list.is_empty() => Err("an empty list".to_owned()),
            Self::List(list) => Ok(Values::List(list.iter().map(ToString::to_string).collect())),
            Self::Range(Range { from, to, .. }) if !(from <= to && from.is_finite() && to.is_finite()) => {
                Err("`to` is below `from`, or one of them is no number".to_owned())
            }
            Self::Range(Range { from, to, step: None }) if !grid => Ok(Values::Between(*from, *to)),
            Self::Range(Range { step: None, .. }) => Err("a grid needs the `step` of a range".to_owned()),
            Self::Range(Range { from, to, step: Some(step) }) => {
                // A step that is not exact in binary must not lose the last value.
                let steps = (to - from) / step + 1e-9;
                if !(*step > 0.0 && steps < MAX_DESIGNS as f64) {
                    return Err(format!("`step` is not above 0, or makes more than {MAX_DESIGNS} values"));
                }
                let value = |i: usize| number(((from + i as f64 * step) * 1e9).round() / 1e9);
                Ok(Values::List((0..=steps as usize).map(value).collect()))
            }
        }
    }
}

/// A number as an override takes it: whole ones without a point.
fn number(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 9e15 { format!("{x:.0}") } else { x.to_string() }
}

#[derive(Clone, Debug)]
enum Values {
    List(Vec<String>),
    Between(f64, f64),
}

impl Values {
    fn grid_len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Between(..) => 1,
        }
    }

    /// The value at a share of the axis, 0 to 1.
    fn at(&self, share: f64) -> String {
        match self {
            Self::List(list) => {
                let at = (share * list.len() as f64) as usize;
                list.get(at.min(list.len() - 1)).cloned().unwrap_or_default()
            }
            Self::Between(from, to) => {
                let x = from + share * (to - from);
                // Large values, such as clocks, are whole numbers.
                number(if to.abs() >= 1e6 { x.round() } else { x })
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum How {
    Grid,
    Random(usize, u64),
    Latin(usize, u64),
}

/// All designs of a sweep.
#[derive(Clone, Debug)]
pub(super) struct Space {
    axes: Vec<(String, Values)>,
    how: How,
    designs: usize,
    /// For a Latin hypercube the stratum of each design on each axis.
    strata: Vec<Vec<u32>>,
}

impl Space {
    pub(super) fn len(&self) -> usize {
        self.designs
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|(key, _)| key.as_str())
    }

    /// Values of a design, in the order of the keys. In a grid the last key changes fastest.
    pub(super) fn values(&self, design: usize) -> Vec<String> {
        let mut rest = design;
        let mut values: Vec<String> = Vec::new();
        for (axis, (_, of_axis)) in self.axes.iter().enumerate().rev() {
            values.push(match (self.how, of_axis) {
                (How::Grid, Values::List(list)) => {
                    let value = list.get(rest % list.len()).cloned().unwrap_or_default();
                    rest /= list.len();
                    value
                }
                (How::Grid, between) => between.at(0.0),
                (How::Random(_, seed), _) => of_axis.at(share(seed, axis, design)),
                (How::Latin(n, seed), _) => {
                    let stratum =
                        self.strata.get(axis).and_then(|strata| strata.get(design)).copied().unwrap_or(0);
                    of_axis.at((f64::from(stratum) + share(seed, axis, design)) / n as f64)
                }
            });
        }
        values.reverse();
        values
    }

    pub(super) fn overrides(&self, design: usize) -> Vec<String> {
        self.keys().zip(self.values(design)).map(|(key, value)| format!("{key}={value}")).collect()
    }
}

/// splitmix64 (Steele, Lea, Flood 2014): a hash of its argument.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A number from 0 to below 1 for a design on an axis.
fn share(seed: u64, axis: usize, design: usize) -> f64 {
    let hash = mix(mix(mix(seed) ^ axis as u64) ^ design as u64);
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// The numbers below n in an order that follows from seed and axis (Fisher and Yates).
fn shuffled(n: usize, seed: u64, axis: usize) -> Vec<u32> {
    let mut all: Vec<u32> = (0..u32::try_from(n.min(MAX_DESIGNS)).unwrap_or(0)).collect();
    for i in (1..all.len()).rev() {
        // The seed is changed, so that strata and places within them are independent.
        let j = (share(!seed, axis, i) * (i + 1) as f64) as usize;
        all.swap(i, j.min(i));
    }
    all
}
