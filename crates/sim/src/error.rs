//! Errors of all steps from a name on the command line to a result.

use floatgate_config::{ConfigError, Problem};
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, Command, set};

/// An error for the user, with advice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setup, part or override is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The driver rejects the chip on this controller and board.
    #[error("{chip}: {why}")]
    Probe {
        /// Name of the chip.
        chip: String,
        /// Message of the driver.
        why: String,
    },
    /// The device failed during an operation.
    #[error("{what}: {error}")]
    Flash {
        /// Description of the operation that failed.
        what: String,
        /// Error of the device.
        error: floatgate_mtd::Error,
    },
    /// Another error, with the row or combination in which it occurred.
    #[error("{place}: {error}")]
    Within {
        /// The row or combination in which the error occurred.
        place: String,
        /// Error that occurred there.
        error: Box<Error>,
    },
    /// A condition or objective of a sweep refers to a column that does not exist.
    #[error("`{asked_by}`: there is no column `{column}`")]
    NoColumn {
        /// Key of the specification.
        asked_by: &'static str,
        /// Name of the column.
        column: String,
        /// Advice for the user.
        help: Advice,
    },
    /// The request is invalid, or the requested object does not exist.
    #[error("{message}")]
    Request {
        /// Description of the fault.
        message: String,
        /// Advice for the user.
        help: Advice,
    },
}

impl Error {
    /// Error for a device failure during `what`.
    pub fn flash(what: impl Into<String>) -> impl FnOnce(floatgate_mtd::Error) -> Self {
        |error| Self::Flash { what: what.into(), error }
    }

    /// Error for an invalid request.
    pub fn request(message: impl Into<String>, help: impl Into<Advice>) -> Self {
        Self::Request { message: message.into(), help: help.into() }
    }

    /// The error for a missing column of a sweep; `names` are the existing columns.
    pub fn no_column<'a>(
        asked_by: &'static str,
        column: &str,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Self {
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        let help = format!("there are {}", names.join(", "));
        Self::NoColumn { asked_by, column: column.to_owned(), help: help.into() }
    }

    /// Adds the row or combination in which the error occurred.
    #[must_use]
    pub fn within(self, place: impl Into<String>) -> Self {
        Self::Within { place: place.into(), error: Box::new(self) }
    }

    /// Advice for the user, if any.
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

    /// The configuration error behind this one, if any.
    pub fn config(&self) -> Option<&ConfigError> {
        match self {
            Self::Config(error) => Some(error),
            Self::Within { error, .. } => error.config(),
            _ => None,
        }
    }
}

/// Advice with an example for a missing key.
fn example_of(error: &ConfigError) -> Option<Advice> {
    if error.problem() != Problem::MissingKey {
        return None;
    }
    let path = error.report().path;
    let help = match path.split('.').next() {
        _ if matches!(path.as_str(), "kind" | "part.kind") => {
            "write `kind = \"spi-nand\"`; the kinds are `spi-nand`, `spi-nor`, `raw-nand` and `parallel-nor`"
                .into()
        }
        _ if matches!(path.as_str(), "name" | "part.name") => {
            "write `name = \"MINE\"`, which reports call the chip".into()
        }
        Some("bus" | "controller" | "host" | "driver") => {
            advice! { "write `base = \"BOARD\"` at the top of the file to have it from a board that ", Command::Setups, " names, or copy it from ", Command::Setups.with("BOARD") }
        }
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
