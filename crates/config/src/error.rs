//! Errors of configuration files: the problem, its place, and the remedy.

use super::source::Place;
use floatgate_mtd::advice::Advice;
use serde::Serialize;
use std::ops::Range;

/// The kinds of problem, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Problem {
    /// A file that is not there.
    MissingFile,
    /// A file that cannot be read, or is no text.
    Unreadable,
    /// Not TOML.
    Syntax,
    /// Larger, deeper or more than is accepted.
    Limit,
    /// A key that nothing asks for.
    UnknownKey,
    /// A key that is needed.
    MissingKey,
    /// A value of the wrong type or unit, or an impossible one.
    WrongValue,
    /// A part, setup, controller, host or profile that does not exist.
    UnknownName,
    /// A file that is, by way of others, its own base.
    Cycle,
    /// A `--set` or `--sweep` that does not fit.
    Override,
}

/// A problem of a configuration. `{}` prints the message alone; see [`ConfigError::one_line`] and, for
/// terminals, [`ConfigError::excerpt`] and [`ConfigError::advice`].
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct ConfigError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    problem: Problem,
    message: String,
    help: Option<Advice>,
    label: &'static str,
    path: String,
    place: Option<Place>,
}

/// A [`ConfigError`] as data, for `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Kind of problem.
    pub problem: Problem,
    /// Message in one sentence.
    pub message: String,
    /// Advice to the user.
    pub help: Option<String>,
    /// Dotted path of the key, empty when unknown.
    pub path: String,
    /// Name of the text; `None` when the problem is not in a text.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
}

impl ConfigError {
    /// A problem that is in no text, or not yet placed in one.
    pub fn new(problem: Problem, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Inner {
            problem,
            message,
            help: None,
            label: "here",
            path: String::new(),
            place: None,
        }))
    }

    /// Says where.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<Advice>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Names the key, by its dotted path.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.0.path = path.into();
        self
    }

    /// The word under the marked text.
    #[must_use]
    pub(super) fn label(mut self, label: &'static str) -> Self {
        self.0.label = label;
        self
    }

    /// The kind of problem.
    pub fn problem(&self) -> Problem {
        self.0.problem
    }

    /// Place of the error.
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// The same error of a text that nobody has written.
    #[must_use]
    pub fn without_place(mut self) -> Self {
        self.0.place = None;
        self
    }

    /// `file:line:column: message (help)`.
    pub fn one_line(&self) -> String {
        let place = self.0.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
        let help = self.0.help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
        format!("{place}{}{help}", self.0.message)
    }

    /// The same as data.
    pub fn report(&self) -> Report {
        let at = self.0.place.as_ref().map(Place::line_column);
        Report {
            problem: self.0.problem,
            message: self.0.message.clone(),
            help: self.0.help.as_ref().map(Advice::to_string),
            path: self.0.path.clone(),
            file: self.0.place.as_ref().map(|place| place.source.name().to_owned()),
            line: at.map(|(line, _)| line),
            column: at.map(|(_, column)| column),
        }
    }

    /// Help, with the place where the text around it cannot be shown.
    pub fn advice(&self) -> Option<Advice> {
        let unshown = self.0.place.as_ref().filter(|place| !place.shows());
        match (unshown.map(|place| format!("it is at {place}")), self.0.help.clone()) {
            (Some(place), Some(help)) => Some(Advice::from(place).and("; ").and(help)),
            (place, help) => help.or_else(|| place.map(Advice::from)),
        }
    }

    /// Text around the place, if its lines can be shown.
    pub fn excerpt(&self) -> Option<Excerpt<'_>> {
        let place = self.0.place.as_ref().filter(|place| place.shows())?;
        let text = place.source.content();
        let span = place.span.start.min(text.len())..place.span.end.min(text.len());
        Some(Excerpt { name: place.source.name(), text, span, label: self.0.label })
    }
}

/// A text with a marked place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt<'a> {
    /// Name of the text.
    pub name: &'a str,
    /// The whole text.
    pub text: &'a str,
    /// Bytes that are marked.
    pub span: Range<usize>,
    /// Word beside the mark.
    pub label: &'static str,
}
