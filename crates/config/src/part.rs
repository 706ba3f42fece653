//! Head of a part file: the fields in addition to the chip's specification.

use super::error::ConfigError;
use super::node::Node;
use serde::{Deserialize, Serialize};

/// The head of a part file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Kind of chip: `spi-nand`, `spi-nor`, `raw-nand`, `parallel-nor`. It determines the keys of `[chip]`. In JSON `kind` is the kind of the result.
    #[serde(rename(serialize = "part_kind"))]
    pub kind: String,
    /// Name as printed on the chip.
    pub name: String,
    /// Manufacturer of the chip.
    #[serde(default)]
    pub maker: String,
    /// Description in one line.
    #[serde(default)]
    pub title: String,
    /// Chip from which the times were taken: the part itself, or others of its family.
    #[serde(default, skip_serializing_if = "Times::are_own")]
    pub times: Times,
    /// Price of the part; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Supply voltage and currents; `None` if they are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supply: Option<Supply>,
    /// Sources of the values.
    #[serde(default, rename = "source")]
    pub sources: Vec<Provenance>,
}

/// Chip from which a part's times were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Times {
    /// The part itself.
    #[default]
    Part,
    /// Other chips of the family, because the times of the part are unknown.
    Family,
}

impl Times {
    /// True if the times are the part's own.
    pub const fn are_own(&self) -> bool {
        matches!(self, Self::Part)
    }
}

/// Price of a part.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price in US dollars per GB (10^9 bytes).
    #[serde(deserialize_with = "dollars")]
    pub usd_per_gb: f64,
    /// Year or date of the price.
    pub date: String,
    /// Source of the price: shop, price list or publication.
    pub from: String,
}

fn dollars<'de, D: serde::Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(d)?;
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(serde::de::Error::custom(format_args!("a price is a positive number of dollars, not {value}")))
}

/// Supply voltage and currents of a chip, from which its energy is computed.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Supply {
    /// Supply voltage, V.
    #[serde(deserialize_with = "supply")]
    pub volts: f64,
    /// Current while a page is read or data is on the bus, mA.
    #[serde(deserialize_with = "supply")]
    pub read_ma: f64,
    /// Current of a program, mA.
    #[serde(deserialize_with = "supply")]
    pub program_ma: f64,
    /// Current of an erase, mA.
    #[serde(deserialize_with = "supply")]
    pub erase_ma: f64,
    /// Current of a chip that waits, uA.
    #[serde(default)]
    pub standby_ua: u32,
    /// Source of the currents: the data sheet, and whether it states typical or maximum currents.
    pub from: String,
    /// Probability that the currents are right, 0 to 1.
    #[serde(deserialize_with = "probability")]
    pub confidence: f64,
}

fn supply<'de, D: serde::Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(d)?;
    if value > 0.0 && value <= 1000.0 {
        return Ok(value);
    }
    Err(serde::de::Error::custom(format_args!(
        "a voltage in V or a current in mA lies between 0 and 1000, not at {value}"
    )))
}

/// Source of some values of a file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Dotted paths of the values; a path covers all values below it.
    pub of: Vec<String>,
    /// Name of the source: data sheet, kernel file or publication.
    pub from: String,
    /// Probability that the numbers are right, 0 to 1.
    #[serde(deserialize_with = "probability")]
    pub confidence: f64,
    /// Published rows to which these numbers were fitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted_to: Vec<String>,
    /// Remarks on the values.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

fn probability<'de, D: serde::Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(d)?;
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(serde::de::Error::custom(format_args!("a confidence lies between 0 and 1, not at {value}")))
}

impl Provenance {
    /// The most specific source of the value at a dotted path.
    pub fn closest_of<'a>(sources: &'a [Self], path: &str) -> Option<&'a Self> {
        let covering = sources.iter().filter_map(|source| Some((source.closest(path)?, source)));
        covering.max_by_key(|(len, _)| *len).map(|(_, source)| source)
    }

    /// True if this source covers the value at a dotted path.
    pub fn covers(&self, path: &str) -> bool {
        self.closest(path).is_some()
    }

    /// Length of the longest path of this source that covers the value at `path`.
    fn closest(&self, path: &str) -> Option<usize> {
        let covering = self.of.iter().filter(|of| {
            path.strip_prefix(of.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        covering.map(String::len).max()
    }
}

/// Head of a file of another kind (controller, host), which is checked and shown in listings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct About {
    /// Description in one line.
    pub title: String,
    /// Full name of the controller or host.
    pub name: String,
    /// Manufacturer of the board or chip.
    pub maker: String,
    /// Kind of chip that a controller drives: `spi` or `nand`; empty if the controller's table shows it.
    pub kind: String,
    /// Sources of the values.
    #[serde(rename = "source")]
    pub sources: Vec<Provenance>,
}

impl About {
    /// Source of the value at a dotted path; see [`Part::source_of`].
    pub fn source_of(&self, path: &str) -> Option<&Provenance> {
        Provenance::closest_of(&self.sources, path)
    }
}

impl Part {
    /// Source of the value at a dotted path; if several sources cover it, the most specific one.
    pub fn source_of(&self, path: &str) -> Option<&Provenance> {
        Provenance::closest_of(&self.sources, path)
    }

    /// Reads the head at `path` of a tree.
    pub(super) fn extract(tree: &Node, path: &str) -> Result<Self, ConfigError> {
        tree.extract(path)
    }
}
