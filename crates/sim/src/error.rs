//! Errors on the way from a name on the command line to a figure.

use crate::rig::RigError;
use floatgate_config::{ConfigError, Problem};
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, Command, set};

/// An error that a person should see, with what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setup, part or override is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The driver cannot use the chip on this controller and board.
    #[error("{chip}: {why}")]
    Probe {
        /// Name of the chip.
        chip: String,
        /// Message of the driver.
        why: String,
    },
    /// The device failed in the middle of the work.
    #[error("{what}: {error}")]
    Flash {
        /// Operation that failed.
        what: String,
        /// Failures of the device.
        error: floatgate_mtd::Error,
    },
    /// Another error, with the row or combination that met it.
    #[error("{place}: {error}")]
    Within {
        /// Name of the row or combination.
        place: String,
        /// The error itself.
        error: Box<Error>,
    },
    /// A condition or an objective of a sweep is about a column that no design has.
    #[error("`{asked_by}`: there is no column `{column}`")]
    NoColumn {
        /// Key of the specification.
        asked_by: &'static str,
        /// Name of the column.
        column: String,
        /// Advice.
        help: Advice,
    },
    /// Something asked for does not exist or makes no sense.
    #[error("{message}")]
    Request {
        /// Description of the fault.
        message: String,
        /// Advice.
        help: Advice,
    },
}

impl From<RigError> for Error {
    fn from(error: RigError) -> Self {
        match error {
            RigError::Config(error) => Self::Config(error),
            RigError::Probe { chip, why } => Self::Probe { chip, why },
        }
    }
}

impl Error {
    /// The device failed during `what`.
    pub fn flash(what: impl Into<String>) -> impl FnOnce(floatgate_mtd::Error) -> Self {
        |error| Self::Flash { what: what.into(), error }
    }

    /// Something asked for makes no sense.
    pub fn asked(message: impl Into<String>, help: impl Into<Advice>) -> Self {
        Self::Request { message: message.into(), help: help.into() }
    }

    /// A sweep has no such column; `names` are those that it has.
    pub fn no_column<'a>(
        asked_by: &'static str,
        column: &str,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Self {
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        let help = format!("there are {}", names.join(", "));
        Self::NoColumn { asked_by, column: column.to_owned(), help: help.into() }
    }

    /// Says what met it.
    #[must_use]
    pub fn within(self, place: impl Into<String>) -> Self {
        Self::Within { place: place.into(), error: Box::new(self) }
    }

    /// Advice, where there is some.
    pub fn help(&self) -> Option<Advice> {
        match self {
            Self::Config(error) => error.advice().or_else(|| example_of(error)),
            Self::Within { error, .. } => error.help(),
            Self::Probe { .. } => Some(
                advice! { "set another bus, controller or chip (", set("chip", "NAME"), "), or see ", Command::Setups },
            ),
            Self::Flash { .. } => Some(
                advice! { "take another seed, set another chip (", set("chip", "NAME"), "), or choose other blocks" },
            ),
            Self::Request { help, .. } | Self::NoColumn { help, .. } => Some(help.clone()),
        }
    }

    /// The error of the configuration that it comes from, if it comes from one.
    pub fn config(&self) -> Option<&ConfigError> {
        match self {
            Self::Config(error) => Some(error),
            Self::Within { error, .. } => error.config(),
            _ => None,
        }
    }
}

/// Where to look for an example of a missing key.
fn example_of(error: &ConfigError) -> Option<Advice> {
    if error.problem() != Problem::MissingKey {
        return None;
    }
    let help = match error.report().path.split('.').next() {
        Some("chip") => advice! { Command::Parts.with("NAME"), " tells which parts have it" },
        Some("card") => advice! { Command::Parts.with("NAME"), " tells which cards have it" },
        Some("paper" | "table" | "fit" | "prediction") => {
            advice! { "the files in papers/ of floatgate's sources have it" }
        }
        _ => {
            advice! { Command::Setups.with("NAME"), " prints a setup that has it, ", Command::Setups, " lists them" }
        }
    };
    Some(help)
}
