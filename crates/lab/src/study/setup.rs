//! Setup of a study, and the certainty of its values.

use crate::certainty::{self, Certainty};
use floatgate_config::corner::{self, Slowest};
use floatgate_config::{Config, ConfigError, Library, Override, Setup};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Times of the chip's array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "clap would list them below the option, whose help explains them")]
pub enum Corner {
    #[default]
    Typ,
    Max,
}

impl From<Corner> for corner::Corner {
    fn from(corner: Corner) -> Self {
        match corner {
            Corner::Typ => Self::Typical,
            Corner::Max => Self::Slowest,
        }
    }
}

/// A setup as named by the user, with its overrides.
pub struct Named {
    /// Setup without the overrides.
    pub setup: Setup,
    /// Overrides of the corner and of the user.
    pub sets: Vec<Override>,
    /// Overrides of the user only.
    pub own_sets: Vec<Override>,
    /// Corner of the chip's array times.
    pub corner: corner::Corner,
    /// The chip with the longest times that its data sheet allows, if that corner is selected.
    slowest: Option<Slowest>,
}

impl Named {
    /// Finds a setup by its name or path.
    ///
    /// # Errors
    /// A setup or an override cannot be read.
    pub fn open(
        library: &Library,
        setup: &Path,
        set: &[String],
        corner: Corner,
    ) -> Result<Self, ConfigError> {
        let setup = library.setup(setup)?;
        let own_sets = Override::parse_all(set)?;
        let corner = corner::Corner::from(corner);
        let (sets, slowest) = corner.over(library, &setup, &own_sets)?;
        Ok(Self { setup, sets, own_sets, corner, slowest })
    }

    /// Setup with all overrides.
    ///
    /// # Errors
    /// Overrides that do not fit the setup.
    pub fn config(&self, library: &Library) -> Result<Config, ConfigError> {
        library.resolve(&self.setup, &self.sets)
    }

    /// Basis of an answer. `answer` computes it again for a changed setup.
    ///
    /// # Errors
    /// A file of the setup cannot be read.
    pub fn basis<T: PartialEq>(
        &self,
        library: &Library,
        answer: impl Fn(&Config) -> Option<T>,
    ) -> Result<Basis, ConfigError> {
        let least_certain = certainty::least_certain(library, &self.setup, &self.sets, answer)?;
        let slowest = self.slowest.as_ref();
        Ok(Basis {
            maxima: slowest.map(|s| s.sets.iter().map(ToString::to_string).collect()),
            without_maximum: slowest.map(|s| s.without.clone()),
            least_certain,
        })
    }
}

/// Basis of an answer: the maximum times that it uses, and its least certain value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Basis {
    /// Overrides of the corner that use maximum times.
    #[serde(skip_serializing_if = "Option::is_none")]
    maxima: Option<Vec<String>>,
    /// Times for which the part states no maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_maximum: Option<Vec<String>>,
    /// Least certain value on which the answer depends.
    #[serde(skip_serializing_if = "Option::is_none")]
    least_certain: Option<Certainty>,
}

/// An answer with its basis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Grounded<T> {
    /// Answer, as a result without its basis.
    #[serde(flatten)]
    pub answer: T,
    /// Basis of the answer.
    #[serde(flatten)]
    pub basis: Basis,
}

impl Basis {
    /// Sentences that describe the basis.
    pub fn lines(&self) -> Vec<String> {
        let maxima = self.maxima.as_ref().map(|maxima| {
            let list = if maxima.is_empty() { "none" } else { &maxima.join(", ") };
            format!("maximum times of the data sheet: {list}")
        });
        let without = self.without_maximum.as_ref().filter(|without| !without.is_empty());
        let without = without.map(|without| format!("no maximum is known of: {}", without.join(", ")));
        let least_certain = self.least_certain.as_ref().map(|value| format!("least certain input: {value}"));
        [maxima, without, least_certain].into_iter().flatten().collect()
    }
}

impl std::fmt::Display for Basis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
