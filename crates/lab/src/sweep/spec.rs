//! Specification of a sweep, from a TOML file or from a program.

use super::constraint::Constraint;
use super::measure::{Measure, MeasureKind};
use super::space::{Axes, Design, Space};
use crate::speed::Test;
use floatgate_config::{ConfigError, Node, Problem, Source};
use floatgate_mtd::advice::Advice;
use floatgate_sim::error::Error;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

/// Maximum number of designs of a sweep: their numbers have 32 bits.
pub const MAX_DESIGNS: usize = u32::MAX as usize;

/// Maximum number of members of a population.
const MAX_MEMBERS: u32 = 100_000;

/// Keys of a specification, each with the help text for its errors.
const KEYS: [(&str, &str); 12] = [
    ("setup", "`setup` is the name or path of a setup; of a part for `endurance`, of a card for `card`"),
    ("set", "`set` has overrides of all designs: a list of `key=value`, or a table"),
    ("measure", "`measure` is `speed`, `fs`, `age`, `endurance`, `powercut` or `card`"),
    ("tests", "`tests` names tests: \"page read\", [\"page read\", \"erase\"], or \"all\""),
    ("options", "docs/scale.md has the options of each measurement"),
    ("seed", "`seed` is that of the chip; of a population, of its first member"),
    (
        "space",
        "`space` has lists, or ranges with `from`, `to` and `step`, by key; with `sample` ranges need no step",
    ),
    ("sample", "`sample` has `random` or `latin_hypercube`, a number of designs, and may have `seed`"),
    ("population", "`population` has `members`, and may have `least`, `vary` and `stop` (`column`, `width`)"),
    ("screen", "`screen` has conditions on tests of `speed`"),
    ("constraints", "`constraints` has conditions on figures or numeric keys"),
    ("objectives", "`objectives` may have `maximise` and `minimise`"),
];

/// Help text for an error at a path of a specification.
pub(super) fn help_on(path: &str) -> &'static str {
    let of = KEYS.iter().find(|(key, _)| path.split('.').next() == Some(key));
    of.map_or("docs/scale.md has whole specifications", |(_, help)| help)
}

/// An error in a specification, with advice.
fn helped(error: ConfigError) -> Error {
    let help = help_on(&error.report().path);
    Error::Config(if error.advice().is_some() { error } else { error.help(help) })
}

/// Moves an error to the position of its key in the text of a specification.
fn placed(error: Error, tree: &Node) -> Error {
    let Error::Config(error) = error else { return error };
    let node = tree.get(&error.report().path).filter(|_| error.place().is_none());
    let place = node.map(|node| match error.problem() {
        Problem::UnknownKey => node.origin.key_place(),
        _ => node.origin.value_place(),
    });
    match place {
        Some(place) => error.at(place).into(),
        None => error.into(),
    }
}

/// Error about a `T` in JSON, with the wording of TOML errors, but without a position, because the caller has no text.
pub(super) fn explained<T: DeserializeOwned>(json: &str, error: &serde_json::Error) -> Error {
    let toml = serde_json::from_str(json).ok().and_then(|value: toml::Table| toml::to_string(&value).ok());
    let read = |text: String| Node::parse(&Source::text("specification", &text))?.extract::<T>("").map(drop);
    match toml.map(read) {
        Some(Err(error)) => helped(error.without_place()),
        _ => {
            let message = error.to_string();
            Error::request(message.split(" at line ").next().unwrap_or_default(), help_on(""))
        }
    }
}

/// Returns an error for a number outside the range of a key.
pub(super) fn check_range<T: PartialOrd + Display>(
    key: &str,
    value: T,
    possible: impl RangeBounds<T>,
) -> Result<(), Error> {
    if possible.contains(&value) {
        return Ok(());
    }
    let least = match possible.start_bound() {
        Bound::Included(least) | Bound::Excluded(least) => least.to_string(),
        Bound::Unbounded => "any number".to_owned(),
    };
    let help = match possible.end_bound() {
        Bound::Included(most) | Bound::Excluded(most) => format!("give {least} to {most}"),
        Bound::Unbounded => format!("give {least} or more"),
    };
    Err(wrong(key, format!("`{key}` is {value}"), help))
}

/// Error for a value that has the right type but is invalid.
fn wrong(key: &str, message: String, help: impl Into<Advice>) -> Error {
    ConfigError::new(Problem::WrongValue, message).path(key).help(help).into()
}

/// Specification of a sweep: setup, designs, measure and objectives.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name or path of the setup; for `endurance`, of a part; for `card`, of a card.
    pub setup: String,
    /// Overrides of all designs: a list of `key=value`, or a table.
    #[serde(default, deserialize_with = "list_or_table")]
    pub set: Vec<String>,
    /// Measurement of each design.
    #[serde(default)]
    pub measure: MeasureKind,
    /// Tests whose figures become columns; by default those of the measurement.
    #[serde(default, alias = "test", deserialize_with = "one_or_many")]
    pub tests: Vec<String>,
    /// Options of the measurement.
    #[serde(default)]
    pub options: toml::Table,
    /// Seed of the chip; for a population, of its first member.
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub(super) space: Axes,
    /// List of designs, in place of a space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) designs: Option<Vec<Design>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sample: Option<Sample>,
    /// Population of chips for each design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub population: Option<Population>,
    /// Conditions on figures of `speed`, which is measured first. A design that misses one is not measured further.
    #[serde(default)]
    pub screen: Vec<Constraint>,
    /// Conditions on figures or numeric keys, such as `page read KiB/s > 10000`.
    #[serde(default)]
    pub constraints: Vec<Constraint>,
    /// Columns to maximise or minimise.
    #[serde(default)]
    pub objectives: Objectives,
}

/// Columns to optimise.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Objectives {
    /// Columns of which more is better.
    #[serde(default)]
    pub maximise: Vec<String>,
    /// Columns of which less is better.
    #[serde(default)]
    pub minimise: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    pub(super) random: Option<usize>,
    pub(super) latin_hypercube: Option<usize>,
    #[serde(default)]
    pub(super) seed: u64,
}

/// Members with which each design is measured: chips with different seeds and, optionally, varying keys.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// Maximum number of members.
    pub members: u32,
    /// Number of members after which a rule may stop a design.
    #[serde(default = "least")]
    pub least: u32,
    /// Keys that differ between members: a list of values to choose from, or a range. Member n is the same in all
    /// designs.
    #[serde(default)]
    pub(super) vary: Axes,
    /// Rule that ends the measurement of a design before its last member.
    pub stop: Option<Stop>,
}

/// Rule that stops when the interval of a figure is narrow enough.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Column of the figure.
    pub column: String,
    /// Maximum width of the 95 % interval, in the unit of the figure.
    pub width: f64,
}

fn least() -> u32 {
    8
}

/// Parses a list, or a single text as a list of one.
fn one_or_many<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a text or a list of texts")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(d)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

/// Parses overrides in the form of `--set`, from a list or a table.
fn list_or_table<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of texts `key=value`, or a table")]
    enum ListOrTable {
        List(Vec<String>),
        Table(Design),
    }
    match ListOrTable::deserialize(d)? {
        ListOrTable::List(list) => Ok(list),
        ListOrTable::Table(design) => design.overrides().map_err(D::Error::custom),
    }
}

impl Spec {
    /// Parses a specification in TOML; `name` is the name of its file. Its keys are in alphabetical order.
    ///
    /// # Errors
    /// The text is not a valid specification.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let tree = Node::parse(&Source::text(name, text)).map_err(helped)?;
        if tree.child("setup").is_none() && tree.child("chip").is_some() {
            let help = format!(
                "a specification names one, and the keys to change: setup = \"{name}\", and a table `space` of lists or ranges"
            );
            return Err(Error::request(format!("{name} is a setup, and no specification of a sweep"), help));
        }
        let mut spec: Self = tree.extract("").map_err(helped)?;
        spec.space.sort();
        if let Some(population) = &mut spec.population {
            population.vary.sort();
        }
        spec.check().map_err(|error| placed(error, &tree))?;
        Ok(spec)
    }

    /// Parses a specification in JSON, with the same key names. Its keys are in the order of the text.
    ///
    /// # Errors
    /// The text is not a valid specification.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let spec: Self = serde_json::from_str(text).map_err(|error| explained::<Self>(text, &error))?;
        spec.check()?;
        Ok(spec)
    }

    /// Specification without its designs: everything that is needed to measure some of them.
    pub fn head(&self) -> Self {
        Self { space: Axes::default(), designs: None, sample: None, ..self.clone() }
    }

    /// Designs of the sweep, from their list or the axes.
    pub(super) fn space(&self) -> Result<Space, Error> {
        let space = match &self.designs {
            Some(_) if self.sample.is_some() => {
                Err("`sample` draws from lists and ranges by key, and not from listed designs".to_owned())
            }
            Some(_) if !self.space.is_empty() => Err("there is either `designs` or `space`".to_owned()),
            Some(designs) => Space::listed(designs),
            None => Space::new(&self.space, self.sample.as_ref()),
        };
        let space = space.map_err(|why| Error::request(why, help_on("space")))?;
        Measure::check_keys(self, space.keys())?;
        let mut varied = self.population.iter().flat_map(|population| population.vary.keys());
        match varied.find(|key| space.keys().any(|own| own == *key)) {
            Some(key) => Err(Error::request(
                format!("`{key}` is a key of the designs, and varies between members"),
                "leave it out of one of them",
            )),
            None => Ok(space),
        }
    }

    /// Returns an error for options that the measurement does not have, and for invalid numbers.
    fn check(&self) -> Result<(), Error> {
        Measure::new(self.measure, &self.options, &[])?;
        if let Some(test) =
            self.screen.iter().map(Constraint::test).find(|test| Test::from_name(test).is_none())
        {
            let help = "screen by tests of `speed`: \"page read KiB/s > 5000\", \"erase KiB/s > 100\"";
            return Err(Error::request(format!("no test is called `{test}`"), help));
        }
        let Objectives { maximise, minimise } = &self.objectives;
        if let Some(column) = maximise.iter().find(|column| minimise.contains(column)) {
            let message = format!("`{column}` is both in `maximise` and in `minimise`");
            return Err(wrong("objectives", message, "leave it out of one of them"));
        }
        if let Some(sample) = &self.sample {
            let named =
                [("sample.random", sample.random), ("sample.latin_hypercube", sample.latin_hypercube)];
            for (key, designs) in named {
                designs.map_or(Ok(()), |designs| check_range(key, designs, 1..=MAX_DESIGNS))?;
            }
        }
        let Some(population) = &self.population else { return Ok(()) };
        check_range("population.members", population.members, 1..=MAX_MEMBERS)?;
        check_range("population.least", population.least, 1..)?;
        match &population.stop {
            Some(stop) if !(stop.width > 0.0 && stop.width.is_finite()) => Err(wrong(
                "population.stop.width",
                format!("an interval {} wide", stop.width),
                "give a width above 0",
            )),
            _ => Measure::check_keys(self, population.vary.keys()),
        }
    }
}
