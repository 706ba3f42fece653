//! Overrides `--set path.to.key=value`, each of which sets one value in a resolved tree.

use super::error::{ConfigError, Problem};
use super::node::{Node, Table, Value};
use super::parse::MAX_DEPTH;
use super::source::{Origin, Source, SourceSpan};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// An override. `{}` formats it as given.
#[derive(Clone, Debug)]
pub struct Override {
    path: Vec<Segment>,
    value: Node,
}

#[derive(Clone, Debug)]
struct Segment {
    key: Arc<str>,
    place: SourceSpan,
}

impl Override {
    /// Parses `path.to.key=value`. `number` is the position among the `--set`s, from 1, for messages. The value is
    /// parsed as TOML, or used as plain text if it is not TOML.
    ///
    /// # Errors
    /// A missing `=`, an invalid path, broken TOML after an opening bracket or quote.
    pub fn parse(argument: &str, number: usize) -> Result<Self, ConfigError> {
        Self::parse_of(&format!("--set #{number}"), argument)
    }

    /// Parses an override as [`Self::parse`], with `name` as its origin in messages.
    ///
    /// # Errors
    /// Errors of [`Self::parse`].
    pub fn parse_of(name: &str, argument: &str) -> Result<Self, ConfigError> {
        let source = Source::argument(name, argument);
        let (path, value) = split(&source, "--set bus.clock_hz=80e6")?;
        Self::new(&source, path, value)
    }

    /// Parses all `--set`s of a command line.
    ///
    /// # Errors
    /// The first invalid override.
    pub fn parse_all(arguments: &[impl AsRef<str>]) -> Result<Vec<Self>, ConfigError> {
        (1..).zip(arguments).map(|(number, argument)| Self::parse(argument.as_ref(), number)).collect()
    }

    /// The override with path and value at these positions of `source`.
    pub(super) fn new(
        source: &Arc<Source>,
        path: Range<usize>,
        value: Range<usize>,
    ) -> Result<Self, ConfigError> {
        let segments = segments(source, path.clone())?;
        let text = source.content().get(value.clone()).unwrap_or_default();
        if text.is_empty() {
            let place = SourceSpan { source: Arc::clone(source), span: value };
            let error = ConfigError::new(Problem::Override, "there is no value after `=` or between commas")
                .at(place);
            return Err(error.help("an empty text is written `\"\"`"));
        }
        let mut node = match Node::parse_value(source, value.clone()) {
            Some(parsed) => parsed?,
            None => bare(source, text, value),
        };
        node.origin.key = segments.last().map_or(path, |last| last.place.span.clone());
        Ok(Self { path: segments, value: node })
    }

    /// Dotted path of the key.
    pub fn path(&self) -> String {
        self.path.iter().map(|segment| segment.key.as_ref()).collect::<Vec<_>>().join(".")
    }

    /// Text of the value, exactly as it was given.
    pub fn value_text(&self) -> &str {
        self.value.origin.source.content().get(self.value.origin.value.clone()).unwrap_or_default()
    }

    /// True for a position inside this override.
    pub fn has_place(&self, place: &SourceSpan) -> bool {
        Arc::ptr_eq(&self.value.origin.source, &place.source)
    }

    /// Keys of the path.
    pub fn keys(&self) -> Vec<&str> {
        self.path.iter().map(|segment| segment.key.as_ref()).collect()
    }

    /// Applies the value to the tree. Missing tables on the path are created; elements of arrays must exist.
    ///
    /// # Errors
    /// A path through a value that is neither table nor array, or past an array's end.
    pub fn apply(&self, tree: &mut Node) -> Result<(), ConfigError> {
        place(tree, &self.path, &self.value)
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path(), self.value_text())
    }
}

/// Splits a range at the first `=`. Returns both ranges without surrounding blanks.
pub(super) fn split(
    source: &Arc<Source>,
    example: &str,
) -> Result<(Range<usize>, Range<usize>), ConfigError> {
    let text = source.content();
    let Some(equals) = text.find('=') else {
        let place = SourceSpan { source: Arc::clone(source), span: 0..text.len() };
        let error = ConfigError::new(Problem::Override, format!("{text:?} has no `=`")).at(place);
        return Err(error.help(format!("write it like `{example}`")));
    };
    Ok((trimmed(text, 0..equals), trimmed(text, equals + 1..text.len())))
}

/// `span` without the blanks at its ends.
pub(super) fn trimmed(text: &str, span: Range<usize>) -> Range<usize> {
    let part = &text[span.clone()];
    let start = span.start + (part.len() - part.trim_start().len());
    start..(start + part.trim().len())
}

fn segments(source: &Arc<Source>, path: Range<usize>) -> Result<Vec<Segment>, ConfigError> {
    let refuse = |span: Range<usize>, message: String| {
        let place = SourceSpan { source: Arc::clone(source), span };
        Err(ConfigError::new(Problem::Override, message).at(place))
    };
    let text = &source.content()[path.clone()];
    if text.split('.').count() > MAX_DEPTH {
        return refuse(path, format!("a path has at most {MAX_DEPTH} keys"));
    }
    let mut start = path.start;
    let mut segments = Vec::new();
    for key in text.split('.') {
        let span = start..start + key.len();
        start = span.end + 1;
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
            return refuse(span, format!("{key:?} is not a key: a path is keys with dots between"));
        }
        let place = SourceSpan { source: Arc::clone(source), span };
        segments.push(Segment { key: key.into(), place });
    }
    Ok(segments)
}

fn bare(source: &Arc<Source>, text: &str, value: Range<usize>) -> Node {
    let origin = Origin { source: Arc::clone(source), key: value.clone(), value };
    Node { value: Value::Text(text.into()), origin }
}

fn place(node: &mut Node, path: &[Segment], value: &Node) -> Result<(), ConfigError> {
    let Some((segment, rest)) = path.split_first() else {
        *node = node.clone().merge(value.clone());
        return Ok(());
    };
    match &mut node.value {
        Value::Table(table) => match table.get_mut(&segment.key) {
            Some(child) => place(child, rest, value),
            None => {
                table.insert(Arc::clone(&segment.key), nest(segment, rest, value));
                Ok(())
            }
        },
        Value::Array(elements) => {
            let index = segment.key.parse::<usize>().ok();
            let count = elements.len();
            match index.and_then(|index| elements.get_mut(index)) {
                Some(child) => place(child, rest, value),
                None => Err(no_element(segment, count)),
            }
        }
        other => Err(no_table(segment, &other.describe())),
    }
}

/// `value` nested in tables for `rest`; `segment` is the outer key.
fn nest(segment: &Segment, rest: &[Segment], value: &Node) -> Node {
    let Some((next, deeper)) = rest.split_first() else { return value.clone() };
    let child = nest(next, deeper, value);
    let span = segment.place.span.clone();
    let origin = Origin { source: Arc::clone(&segment.place.source), key: span.clone(), value: span };
    Node { value: Value::Table(Table::from([(Arc::clone(&next.key), child)])), origin }
}

fn no_element(segment: &Segment, count: usize) -> ConfigError {
    let message = format!("there is no element `{}`", segment.key);
    let error = ConfigError::new(Problem::Override, message).at(segment.place.clone());
    match count {
        0 => error.help("the array is empty"),
        1 => error.help("the array has one element, 0"),
        _ => error.help(format!("the array has elements 0 to {}", count - 1)),
    }
}

fn no_table(segment: &Segment, found: &str) -> ConfigError {
    let message = format!("`{}` leads into {found}, which has no keys", segment.key);
    ConfigError::new(Problem::Override, message).at(segment.place.clone())
}
