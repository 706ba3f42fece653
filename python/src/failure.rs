//! Errors of the libraries as `floatgate.Error`.

use crate::advice::in_python;
use floatgate_config::{ConfigError, Problem};
use floatgate_mtd::advice::Help;
use pyo3::prelude::*;
use std::path::Path;

/// Class of an error in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// An argument, a setup or an image is wrong.
    Argument,
    /// A file that a caller has named is not there.
    MissingFile,
    /// The flash failed or refused; with the name of the kind.
    Flash(&'static str),
    /// Power is lost.
    PowerLost,
}

/// Message and advice of what becomes a `floatgate.Error`; made without the interpreter.
pub(crate) struct Failure {
    message: String,
    help: Option<String>,
    class: Class,
}

impl Failure {
    pub(crate) fn new(message: impl std::fmt::Display, help: Option<String>) -> Self {
        Self { message: message.to_string(), help, class: Class::Argument }
    }

    /// An operation that the flash did not do; `kind` is the name of the reason.
    pub(crate) fn of_flash(
        kind: &'static str,
        message: impl std::fmt::Display,
        help: Option<String>,
    ) -> Self {
        Self { class: Class::Flash(kind), ..Self::new(message, help) }
    }

    /// An operation for which there was no power.
    pub(crate) fn power_lost(message: impl std::fmt::Display) -> Self {
        let help = Some("`restart()` switches power on again".to_owned());
        Self { class: Class::PowerLost, ..Self::new(message, help) }
    }

    /// An error about a file of the caller's.
    pub(crate) fn of_file(path: &Path, error: impl std::fmt::Display, help: Option<String>) -> Self {
        let failure = Self::new(format!("{}: {error}", path.display()), help);
        failure.missing(matches!(path.try_exists(), Ok(false)))
    }

    /// An error of what `argument` names, where it names nothing.
    pub(crate) fn of_name(argument: &str, error: floatgate_lab::Error) -> Self {
        let is_of_name = error.config().is_some_and(|error| error.problem() == Problem::UnknownName);
        let failure = Self::from(error);
        let message = if is_of_name { format!("{argument}: {}", failure.message) } else { failure.message };
        Self { message, ..failure }
    }

    /// The same error where what is named is not there.
    pub(crate) fn missing(self, is_of_missing_file: bool) -> Self {
        let class = if is_of_missing_file { Class::MissingFile } else { self.class };
        Self { class, ..self }
    }

    /// An error with its advice.
    pub(crate) fn helped(error: impl Help + std::fmt::Display) -> Self {
        let help = in_python(&error.help());
        Self::new(error, Some(help))
    }

    /// An error about a file of the caller's, with its advice.
    pub(crate) fn helped_in(path: &Path, error: &(impl Help + std::fmt::Display)) -> Self {
        Self::of_file(path, error, Some(in_python(&error.help())))
    }
}

impl From<floatgate_lab::Error> for Failure {
    fn from(error: floatgate_lab::Error) -> Self {
        // Overrides are arguments of the caller's, who knows where they stand; files have a place.
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

impl From<floatgate_sim::rig::RigError> for Failure {
    fn from(error: floatgate_sim::rig::RigError) -> Self {
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
