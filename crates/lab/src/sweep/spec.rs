//! Specification of a sweep, from a TOML file or from a program.

use super::constraint::Constraint;
use super::fault::{check_range, explained, help_on, helped, placed, wrong};
use super::measure::{Measure, MeasureKind};
use super::space::{Axes, Design, MAX_DESIGNS, Sample, Space};
use crate::speed::Test;
use floatgate_config::{Node, Source};
use floatgate_sim::error::Error;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Maximum number of members of a population.
const MAX_MEMBERS: u32 = 100_000;

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
        Measure::check_keys(self.measure, space.keys())?;
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
            _ => Measure::check_keys(self.measure, population.vary.keys()),
        }
    }
}
