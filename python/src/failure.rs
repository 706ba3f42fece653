//! Errors of the libraries as `floatgate.Error`.

use crate::advice::in_python;
use floatgate_config::{ConfigError, Problem};
use floatgate_mtd::advice::Help;
use pyo3::prelude::*;
use std::path::Path;

/// Message and advice of what becomes a `floatgate.Error`; made without the interpreter.
pub(crate) struct Failure {
    message: String,
    help: Option<String>,
    /// A file that a caller has named is not there.
    is_of_missing_file: bool,
}

impl Failure {
    pub(crate) fn new(message: impl std::fmt::Display, help: Option<String>) -> Self {
        Self { message: message.to_string(), help, is_of_missing_file: false }
    }

    /// An error about a file of the caller's.
    pub(crate) fn of_file(path: &Path, error: impl std::fmt::Display, help: Option<String>) -> Self {
        let is_of_missing_file = matches!(path.try_exists(), Ok(false));
        Self { is_of_missing_file, ..Self::new(format!("{}: {error}", path.display()), help) }
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
        Self { is_of_missing_file: self.is_of_missing_file || is_of_missing_file, ..self }
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
        let is_of_missing_file = problem == Some(Problem::MissingFile);
        Self {
            is_of_missing_file,
            ..Self::new(format!("{place}{error}"), error.help().as_ref().map(in_python))
        }
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
            let name = if failure.is_of_missing_file { "MissingFile" } else { "Error" };
            let error = py.import("floatgate._error").and_then(|module| module.getattr(name));
            error
                .and_then(|error| error.call1((failure.message, failure.help)))
                .map_or_else(|error| error, Self::from_value)
        })
    }
}
