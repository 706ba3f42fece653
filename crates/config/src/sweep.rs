//! Sweeps `--sweep path=a,b,c`: one set of overrides for each combination of values.

use super::error::{ConfigError, Problem};
use super::library::{Kind, Library};
use super::nearest::did_you_mean;
use super::part::Part;
use super::set::{Override, split, trimmed};
use super::source::{Source, SourceSpan};
use floatgate_device::spec::ChipKind;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of combinations of a sweep.
pub const MAX_COMBINATIONS: usize = 10_000;

/// The overrides of one row of a sweep. `{}` formats them, separated by blanks.
#[derive(Clone, Debug, Default)]
pub struct Combination {
    /// One override for each `--sweep`, in the order of the command line.
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

/// All combinations of the sweeps of a command line; the last sweep changes fastest. Without sweeps the result
/// is one combination without overrides.
///
/// # Errors
/// A sweep that cannot be parsed, an unknown kind of chips, a path that is swept twice, more than
/// [`MAX_COMBINATIONS`].
pub fn sweep(library: &Library, arguments: &[impl AsRef<str>]) -> Result<Vec<Combination>, ConfigError> {
    let mut axes: Vec<Vec<Override>> = Vec::new();
    let mut count = 1_usize;
    for (number, argument) in (1..).zip(arguments) {
        let source = Source::text(&format!("--sweep #{number}"), argument.as_ref());
        let source = expanded(library, &source)?;
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
        let place = SourceSpan { source: Arc::clone(source), span: 0..source.content().len() };
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

/// The argument after expansion of ranges (`10e6..80e6:10e6`) and kinds of chips (`chip=@spi-nand`).
fn expanded(library: &Library, source: &Arc<Source>) -> Result<Arc<Source>, ConfigError> {
    let text = source.content();
    let (path, values) = split(source, "--sweep bus.mode=1-1-1,1-4-4")?;
    let mut all = Vec::new();
    for span in items(text, values) {
        let item = text.get(span.clone()).unwrap_or_default();
        let refused = |message| {
            let place = SourceSpan { source: Arc::clone(source), span };
            ConfigError::new(Problem::Override, message).at(place)
        };
        match (item.strip_prefix('@'), Range64::parse(item)) {
            (Some(kind), _) => all.extend(chips(library, kind)?.ok_or_else(|| {
                let near = did_you_mean(kind, ChipKind::ALL.map(ChipKind::name));
                let help =
                    format!("{near}kinds of chips are @spi-nand, @spi-nor, @raw-nand and @parallel-nor");
                refused(format!("`{kind}` is not a kind of chip")).help(help)
            })?),
            (None, Some(range)) => all.extend(range.values().map_err(refused)?),
            (None, None) => all.push(item.to_owned()),
        }
    }
    let path = text.get(path).unwrap_or_default();
    Ok(Source::text(source.name(), &format!("{path}={}", all.join(","))))
}

/// Names of the parts of a kind in the order of the catalogue; `None` for an unknown kind.
fn chips(library: &Library, kind: &str) -> Result<Option<Vec<String>>, ConfigError> {
    let mut names = Vec::new();
    for name in library.names(Kind::Part) {
        let part: Part = library.load(Kind::Part, name)?.head.extract("")?;
        if part.kind == kind {
            names.push(name.to_owned());
        }
    }
    Ok((!names.is_empty()).then_some(names))
}

/// A range in the notation `first..last:step`.
struct Range64 {
    first: f64,
    last: f64,
    step: f64,
}

impl Range64 {
    fn parse(text: &str) -> Option<Self> {
        let (first, rest) = text.split_once("..")?;
        let (last, step) = rest.split_once(':')?;
        let number = |text: &str| text.trim().replace('_', "").parse::<f64>().ok();
        Some(Self { first: number(first)?, last: number(last)?, step: number(step)? })
    }

    /// All values from `first` on in steps; `last` is included if a step reaches it.
    fn values(&self) -> Result<Vec<String>, String> {
        let Self { first, last, step } = *self;
        // With a step that is not exact in binary, such as 0.1, the last value must not be missing.
        let steps = (last - first) / step + 1e-9;
        if !steps.is_finite() || step <= 0.0 || steps < 0.0 {
            return Err("a range is FIRST..LAST:STEP with a LAST that is not below FIRST and a STEP above 0"
                .to_owned());
        }
        if steps >= MAX_COMBINATIONS as f64 {
            return Err(format!("the range has more than {MAX_COMBINATIONS} values"));
        }
        let value = |i: usize| {
            // Values are rounded to nine decimals, so that 0.1 + 2 * 0.1 is printed as 0.3.
            let value = ((first + i as f64 * step) * 1e9).round() / 1e9;
            value.to_string()
        };
        Ok((0..=steps as usize).map(value).collect())
    }
}

fn axis(source: &Arc<Source>) -> Result<Vec<Override>, ConfigError> {
    let (path, values) = split(source, "--sweep bus.mode=1-1-1,1-4-4")?;
    let spans = items(source.content(), values);
    if spans.len() > MAX_COMBINATIONS {
        let place = SourceSpan { source: Arc::clone(source), span: path };
        let message = format!("more than {MAX_COMBINATIONS} values");
        return Err(ConfigError::new(Problem::Override, message).at(place));
    }
    spans.into_iter().map(|value| Override::new(source, path.clone(), value)).collect()
}

/// Ranges between commas that are outside of quotes and brackets.
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
