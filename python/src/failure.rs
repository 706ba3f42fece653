//! Conversion of errors of the Rust libraries to `floatgate.Error`.

use crate::advice::in_python;
use floatgate_config::{ConfigError, Problem};
use floatgate_mtd::advice::Help;
use pyo3::prelude::*;
use std::path::Path;

/// Python class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A wrong argument, setup or image.
    Argument,
    /// A file that the caller named does not exist.
    MissingFile,
    /// The flash failed or refused an operation; the field is the name of the reason.
    Flash(&'static str),
    /// Power was lost.
    PowerLost,
}

/// Message and advice of a future `floatgate.Error`. It can be created without the interpreter's
/// lock.
pub(crate) struct Failure {
    message: String,
    help: Option<String>,
    class: Class,
}

impl Failure {
    pub(crate) fn new(message: impl std::fmt::Display, help: Option<String>) -> Self {
        Self { message: message.to_string(), help, class: Class::Argument }
    }

    /// Failure of a flash operation; `kind` is the name of the reason.
    pub(crate) fn of_flash(
        kind: &'static str,
        message: impl std::fmt::Display,
        help: Option<String>,
    ) -> Self {
        Self { class: Class::Flash(kind), ..Self::new(message, help) }
    }

    /// Failure of an operation because power was lost.
    pub(crate) fn power_lost(message: impl std::fmt::Display) -> Self {
        let help = Some("`restart()` switches power on again".to_owned());
        Self { class: Class::PowerLost, ..Self::new(message, help) }
    }

    /// Failure with a file of the caller.
    pub(crate) fn of_file(path: &Path, error: impl std::fmt::Display, help: Option<String>) -> Self {
        let failure = Self::new(format!("{}: {error}", path.display()), help);
        failure.missing(matches!(path.try_exists(), Ok(false)))
    }

    /// Failure because `argument` names something that does not exist.
    pub(crate) fn of_name(argument: &str, error: floatgate_lab::Error) -> Self {
        let is_of_name = error.config().is_some_and(|error| error.problem() == Problem::UnknownName);
        let failure = Self::from(error);
        let message = if is_of_name { format!("{argument}: {}", failure.message) } else { failure.message };
        Self { message, ..failure }
    }

    /// The same failure, of the class for missing files if `is_of_missing_file` is set.
    pub(crate) fn missing(self, is_of_missing_file: bool) -> Self {
        let class = if is_of_missing_file { Class::MissingFile } else { self.class };
        Self { class, ..self }
    }

    /// Failure with the advice of an error.
    pub(crate) fn helped(error: impl Help + std::fmt::Display) -> Self {
        let help = in_python(&error.help());
        Self::new(error, Some(help))
    }

    /// Failure with a file of the caller, with the advice of an error.
    pub(crate) fn helped_in(path: &Path, error: &(impl Help + std::fmt::Display)) -> Self {
        Self::of_file(path, error, Some(in_python(&error.help())))
    }
}

impl From<floatgate_lab::Error> for Failure {
    fn from(error: floatgate_lab::Error) -> Self {
        // Overrides are arguments of the caller, who knows their position. Errors in files have a
        // position.
        let place = error.config().and_then(ConfigError::place);
        let place = place.filter(|place| !place.source.is_argument());
        let place = place.map_or_else(String::new, |place| format!("{place}: "));
        let problem = error.config().map(ConfigError::problem);
        let failure = Self::new(format!("{place}{error}"), error.help().as_ref().map(in_python));
        failure.missing(problem == Some(Problem::MissingFile))
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        floatgate_lab::Error::from(error).into()
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(error, None)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| {
            let Failure { message, help, class } = failure;
            let name = match class {
                Class::Argument => "ArgumentError",
                Class::MissingFile => "MissingFile",
                Class::Flash(_) => "FlashError",
                Class::PowerLost => "PowerLost",
            };
            let error = py.import("floatgate._error").and_then(|module| module.getattr(name));
            let made = error.and_then(|error| match class {
                Class::Flash(kind) => error.call1((message, help, kind)),
                _ => error.call1((message, help)),
            });
            made.map_or_else(|error| error, Self::from_value)
        })
    }
}
