//! Parser that converts TOML text to a tree.

use super::error::{ConfigError, Problem};
use super::node::{Node, Table, Value};
use super::source::{Origin, Source, SourceSpan};
use std::ops::Range;
use std::sync::Arc;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};

/// Maximum nesting depth of tables and arrays, five times the depth of the deepest part file.
pub const MAX_DEPTH: usize = 32;

impl Node {
    /// Parses a document.
    ///
    /// # Errors
    /// Text that is not TOML, is nested deeper than [`MAX_DEPTH`], or contains a number that is too
    /// large.
    pub fn parse(source: &Arc<Source>) -> Result<Self, ConfigError> {
        let parsed = DeTable::parse(source.content()).map_err(|error| syntax(source, 0, &error))?;
        let reader = Reader { source, offset: 0 };
        let value = reader.table(parsed.get_ref(), MAX_DEPTH)?;
        Ok(Self { value, origin: reader.origin(&(0..0), &(0..0)) })
    }

    /// Parses one TOML value at `span` of a text; `None` if the text there is not a single value.
    pub(super) fn parse_value(source: &Arc<Source>, span: Range<usize>) -> Option<Result<Self, ConfigError>> {
        let text = source.content().get(span.clone())?;
        let reader = Reader { source, offset: span.start };
        match DeValue::parse(text) {
            Ok(parsed) => Some(reader.node(&(0..0), &parsed.span(), parsed.get_ref(), MAX_DEPTH)),
            Err(error) if text.starts_with(['[', '{', '"', '\'']) => {
                Some(Err(syntax(source, span.start, &error)))
            }
            Err(_) => None,
        }
    }
}

fn syntax(source: &Arc<Source>, offset: usize, error: &toml::de::Error) -> ConfigError {
    let span = error.span().unwrap_or(0..0);
    let place = SourceSpan { source: Arc::clone(source), span: span.start + offset..span.end + offset };
    let (problem, message) = match error.message() {
        "duplicate key" => (Problem::Syntax, format!("duplicate key `{}`", place.excerpt())),
        // The TOML parser's own limit is higher, but it can apply before a tree exists.
        message if message.contains("recurs") => (Problem::Limit, too_deep()),
        message => (Problem::Syntax, message.to_owned()),
    };
    ConfigError::new(problem, message).at(place)
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    /// Offset of the parsed text in the source.
    offset: usize,
}

impl Reader<'_> {
    fn origin(&self, key: &Range<usize>, value: &Range<usize>) -> Origin {
        let shift = |span: &Range<usize>| span.start + self.offset..span.end + self.offset;
        Origin { source: Arc::clone(self.source), key: shift(key), value: shift(value) }
    }

    fn node(
        &self,
        key: &Range<usize>,
        span: &Range<usize>,
        value: &DeValue<'_>,
        depth: usize,
    ) -> Result<Node, ConfigError> {
        let origin = self.origin(key, span);
        let refuse = |message| ConfigError::new(Problem::Limit, message).at(origin.value_place());
        let Some(deeper) = depth.checked_sub(1) else {
            return Err(refuse(too_deep()));
        };
        let value = match value {
            DeValue::String(text) => Value::Text(text.as_ref().into()),
            DeValue::Integer(n) => Value::Integer(integer(n).ok_or_else(|| refuse(impossible(n)))?),
            DeValue::Float(x) => Value::Float(float(x).ok_or_else(|| refuse(impossible(x)))?),
            DeValue::Boolean(b) => Value::Bool(*b),
            DeValue::Datetime(date) => Value::Text(date.to_string().into()),
            DeValue::Array(elements) => {
                let nodes = elements.iter().map(|e| self.node(&e.span(), &e.span(), e.get_ref(), deeper));
                Value::Array(nodes.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => self.table(table, deeper)?,
        };
        Ok(Node { value, origin })
    }

    fn table(&self, table: &DeTable<'_>, depth: usize) -> Result<Value, ConfigError> {
        let entry = |(key, value): (&toml::Spanned<toml::de::DeString<'_>>, &toml::Spanned<DeValue<'_>>)| {
            let node = self.node(&key.span(), &value.span(), value.get_ref(), depth)?;
            Ok((Arc::from(key.get_ref().as_ref()), node))
        };
        table.iter().map(entry).collect::<Result<Table, _>>().map(Value::Table)
    }
}

fn too_deep() -> String {
    format!("tables and arrays are nested deeper than {MAX_DEPTH}")
}

fn impossible(number: impl std::fmt::Display) -> String {
    format!("no quantity can be {number}")
}

fn integer(n: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(n.as_str(), n.radix()).ok()
}

fn float(x: &DeFloat<'_>) -> Option<f64> {
    let value: f64 = x.as_str().parse().ok()?;
    // TOML allows `inf` and `nan`, but no quantity of a flash chip has these values.
    value.is_finite().then_some(value)
}
