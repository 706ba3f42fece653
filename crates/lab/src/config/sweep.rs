//! `--sweep path=a,b,c`: one set of overrides per combination.

use super::error::{ConfigError, Problem};
use super::set::{Override, split, trimmed};
use super::source::{Place, Source};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Most combinations that a sweep may have.
pub const MAX_COMBINATIONS: usize = 10_000;

/// The overrides of one row of a sweep. `{}` prints them with blanks between.
#[derive(Clone, Debug, Default)]
pub struct Combination {
    /// One for each `--sweep`, in their order.
    pub overrides: Vec<Override>,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, one) in self.overrides.iter().enumerate() {
            write!(f, "{}{one}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// All combinations of the sweeps of a command line; the last sweep changes fastest. Without any sweep, the one
/// combination without overrides.
///
/// # Errors
/// A sweep that cannot be parsed, a path swept twice, more than [`MAX_COMBINATIONS`].
pub fn sweep(arguments: &[impl AsRef<str>]) -> Result<Vec<Combination>, ConfigError> {
    let mut axes: Vec<Vec<Override>> = Vec::new();
    let mut count = 1_usize;
    for (number, argument) in (1..).zip(arguments) {
        let source = Source::text(&format!("--sweep #{number}"), argument.as_ref());
        let axis = axis(&source)?;
        count = count.saturating_mul(axis.len());
        check(&source, &axes, &axis, count)?;
        axes.push(axis);
    }
    Ok(axes.iter().fold(vec![Combination::default()], |rows, axis| cross(&rows, axis)))
}

fn check(
    source: &Arc<Source>,
    axes: &[Vec<Override>],
    axis: &[Override],
    count: usize,
) -> Result<(), ConfigError> {
    let refuse = |message: String| {
        let place = Place { source: Arc::clone(source), span: 0..source.content().len() };
        Err(ConfigError::new(Problem::Override, message).at(place))
    };
    let path = axis.first().map(Override::path);
    if axes.iter().any(|other| other.first().map(Override::path) == path) {
        return refuse(format!("`{}` is swept twice", path.unwrap_or_default()));
    }
    if count > MAX_COMBINATIONS {
        return refuse(format!("this makes {count} combinations; at most {MAX_COMBINATIONS} are run"));
    }
    Ok(())
}

fn cross(rows: &[Combination], axis: &[Override]) -> Vec<Combination> {
    let with = |row: &Combination, one: &Override| {
        let overrides = row.overrides.iter().chain([one]).cloned().collect();
        Combination { overrides }
    };
    rows.iter().flat_map(|row| axis.iter().map(move |one| with(row, one))).collect()
}

fn axis(source: &Arc<Source>) -> Result<Vec<Override>, ConfigError> {
    let (path, values) = split(source, "--sweep bus.mode=1-1-1,1-4-4")?;
    let spans = items(source.content(), values);
    if spans.len() > MAX_COMBINATIONS {
        let place = Place { source: Arc::clone(source), span: path };
        let message = format!("more than {MAX_COMBINATIONS} values");
        return Err(ConfigError::new(Problem::Override, message).at(place));
    }
    spans.into_iter().map(|value| Override::new(source, path.clone(), value)).collect()
}

/// The parts between commas that stand outside of quotes and brackets.
fn items(text: &str, values: Range<usize>) -> Vec<Range<usize>> {
    let (mut start, mut depth, mut quote) = (values.start, 0_usize, None);
    let mut items = Vec::new();
    for (i, c) in text[values.clone()].char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                items.push(trimmed(text, start..values.start + i));
                start = values.start + i + 1;
            }
            (None, _) => {}
        }
    }
    items.push(trimmed(text, start..values.end));
    items
}
