//! Errors in configuration files, with message, position and advice.

use super::source::SourceSpan;
use floatgate_mtd::advice::Advice;
use serde::Serialize;
use std::ops::Range;

/// Kind of a problem, for evaluation by programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Problem {
    /// A file that does not exist.
    MissingFile,
    /// A file that cannot be read, or is not text.
    Unreadable,
    /// A text that is not valid TOML.
    Syntax,
    /// A size, depth or count that exceeds a limit.
    Limit,
    /// A key that the table does not have.
    UnknownKey,
    /// A required key that is absent.
    MissingKey,
    /// Wrong type or unit, or an invalid value.
    WrongValue,
    /// Unknown part, setup, controller, host or profile.
    UnknownName,
    /// Base files that refer to each other.
    Cycle,
    /// Invalid `--set` or `--sweep`.
    Override,
}

/// A problem in a configuration. `{}` formats only the message; see also [`ConfigError::one_line`] and, for
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
    place: Option<SourceSpan>,
}

/// A [`ConfigError`] as structured data, for `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Kind of problem.
    pub problem: Problem,
    /// Message as one sentence.
    pub message: String,
    /// Advice for the user.
    pub help: Option<String>,
    /// Dotted path of the key; empty if it is unknown.
    pub path: String,
    /// Name of the text; `None` for a problem that is not in a text.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
}

impl ConfigError {
    /// Creates a problem without a position.
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

    /// Sets the position in the text that the error message shows.
    #[must_use]
    pub fn at(mut self, place: SourceSpan) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Sets the advice of the error message.
    #[must_use]
    pub fn help(mut self, help: impl Into<Advice>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Sets the dotted path of the key.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.0.path = path.into();
        self
    }

    /// Sets the label that is shown below the marked text.
    #[must_use]
    pub(super) fn label(mut self, label: &'static str) -> Self {
        self.0.label = label;
        self
    }

    /// Kind of the problem.
    pub fn problem(&self) -> Problem {
        self.0.problem
    }

    /// Position of the problem.
    pub fn place(&self) -> Option<&SourceSpan> {
        self.0.place.as_ref()
    }

    /// True if the position is in a file of the user, not in a built-in text or an argument.
    pub fn is_in_users_file(&self) -> bool {
        self.place().is_some_and(|place| place.source.folder().is_some())
    }

    /// Removes the position, for an error in a generated text.
    #[must_use]
    pub fn without_place(mut self) -> Self {
        self.0.place = None;
        self
    }

    /// Formats as `file:line:column: message (help)`.
    pub fn one_line(&self) -> String {
        let place = self.0.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
        let help = self.0.help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
        format!("{place}{}{help}", self.0.message)
    }

    /// The error as data.
    pub fn report(&self) -> Report {
        let at = self.0.place.as_ref().map(SourceSpan::line_column);
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

    /// Advice for the user. It includes the position if the text around the position cannot be shown.
    pub fn advice(&self) -> Option<Advice> {
        let unshown = self.0.place.as_ref().filter(|place| !place.shows());
        match (unshown.map(|place| format!("it is at {place}")), self.0.help.clone()) {
            (Some(place), Some(help)) => Some(Advice::from(place).and("; ").and(help)),
            (place, help) => help.or_else(|| place.map(Advice::from)),
        }
    }

    /// The text around the position; `None` if its lines cannot be shown.
    pub fn excerpt(&self) -> Option<Excerpt<'_>> {
        let place = self.0.place.as_ref().filter(|place| place.shows())?;
        let text = place.source.content();
        let span = place.span.start.min(text.len())..place.span.end.min(text.len());
        Some(Excerpt { name: place.source.name(), text, span, label: self.0.label })
    }
}

/// A text with a marked range, for error messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt<'a> {
    /// Name of the text.
    pub name: &'a str,
    /// The whole text, of which a message shows the lines around the mark.
    pub text: &'a str,
    /// Marked byte range of the text.
    pub span: Range<usize>,
    /// Label of the mark.
    pub label: &'static str,
}
