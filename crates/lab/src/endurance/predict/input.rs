//! Parser of measured times in CSV or JSON. The input is untrusted and checked line by line.

use serde::Deserialize;
use std::fmt;

/// Location in the input, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputLocation {
    /// Number of a line of text, from 1.
    Line(usize),
    /// Number of a list element, from 1.
    Row(usize),
}

impl fmt::Display for InputLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(number) => write!(f, "measurement {number}"),
        }
    }
}

/// One measurement of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Location of the measurement in the input.
    pub location: InputLocation,
    /// Number of cycles of the block before the measurement.
    pub cycle: Option<u64>,
    /// Measured tPROG, us.
    pub program_us: Option<f64>,
    /// Measured tBERS, us.
    pub erase_us: Option<f64>,
}

/// Problem of an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The field is not a number.
    #[error("`{0}` is no number")]
    NoNumber(String),
    /// The time is not above 0, or is above 1000 s.
    #[error("`{0}` us is no time that an operation takes")]
    NoTime(String),
    /// The number of cycles is negative, fractional or too high.
    #[error("`{0}` is no number of cycles")]
    NoCycles(String),
    /// The number of fields differs from the header or the first line.
    #[error("has {found} of {expected} fields")]
    Fields {
        /// Number of fields in this line.
        found: usize,
        /// Number of fields in the header or the first line.
        expected: usize,
    },
    /// The header contains an unknown name.
    #[error("nothing is called `{0}`")]
    UnknownColumn(String),
    /// The header contains a name twice.
    #[error("`{0}` stands there twice")]
    ColumnTwice(String),
    /// The measurement has neither a program time nor an erase time.
    #[error("neither a program nor an erase time")]
    NoTimes,
    /// The number of cycles is lower than in the previous measurement.
    #[error("cycle {0} comes after cycle {1}")]
    Backwards(u64, u64),
    /// Only some measurements have a number of cycles.
    #[error("cycles are counted in some measurements and not in others")]
    SomeCycles,
    /// The text is not JSON, or has another structure.
    #[error("{0}")]
    Json(String),
    /// The input has too many measurements.
    #[error("more than {MOST} measurements")]
    TooMany,
    /// The input has no measurement.
    #[error("there is no measurement")]
    Empty,
}

/// An input that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {problem}")]
pub struct TraceError {
    /// Location in the input.
    pub location: InputLocation,
    /// Problem at that location.
    pub problem: Problem,
}

/// Maximum number of measurements of an input.
const MOST: usize = 100_000;

/// Maximum number of cycles: the range of a block's wear.
const CYCLES_MAX: u64 = 1 << 43;

/// Maximum time, us.
const TIME_MAX: f64 = 1e9;

/// Reads measurements, in the order in which they were made.
///
/// CSV lines contain `cycle,program_us,erase_us` or `program_us,erase_us`. A header may name some of the three columns
/// in any order. Lines that are empty or begin with # are skipped. JSON is a list of objects with these keys, or the
/// output of `floatgate life CHIP --json`.
///
/// # Errors
/// The first wrong line or element.
pub fn parse(text: &str) -> Result<Vec<Sample>, TraceError> {
    let samples = if text.trim_start().starts_with(['[', '{']) { json(text)? } else { csv(text)? };
    let fail = |location, problem| Err(TraceError { location, problem });
    if samples.is_empty() {
        return fail(InputLocation::Line(1), Problem::Empty);
    }
    for (sample, next) in samples.iter().zip(samples.iter().skip(1)) {
        match (sample.cycle, next.cycle) {
            (Some(before), Some(cycle)) if cycle < before => {
                return fail(next.location, Problem::Backwards(cycle, before));
            }
            (Some(_), None) | (None, Some(_)) => return fail(next.location, Problem::SomeCycles),
            _ => {}
        }
    }
    Ok(samples)
}

/// A column of a CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Cycle,
    Program,
    Erase,
}

/// Names of the columns, in CSV and JSON.
const COLUMNS: [(&str, Column); 3] =
    [("cycle", Column::Cycle), ("program_us", Column::Program), ("erase_us", Column::Erase)];

fn csv(text: &str) -> Result<Vec<Sample>, TraceError> {
    let mut columns: Option<Vec<Column>> = None;
    let mut samples = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim().trim_start_matches('\u{feff}');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let location = InputLocation::Line(number);
        let fields: Vec<&str> = line.split([',', ';', '\t']).map(str::trim).collect();
        let wrong = |problem| TraceError { location, problem };
        let known = match &columns {
            Some(known) => known,
            None => {
                let (found, is_header) = header(&fields).map_err(wrong)?;
                let known = columns.insert(found);
                if is_header {
                    continue;
                }
                known
            }
        };
        if samples.len() == MOST {
            return Err(wrong(Problem::TooMany));
        }
        samples.push(sample(location, known, &fields).map_err(wrong)?);
    }
    Ok(samples)
}

/// Columns named by the first line, or implied by its length, and whether the line is a header.
fn header(fields: &[&str]) -> Result<(Vec<Column>, bool), Problem> {
    let is_header =
        fields.iter().any(|f| f.starts_with(|c: char| c.is_alphabetic()) && f.parse::<f64>().is_err());
    if !is_header {
        return match fields.len() {
            3 => Ok((vec![Column::Cycle, Column::Program, Column::Erase], false)),
            2 => Ok((vec![Column::Program, Column::Erase], false)),
            found => Err(Problem::Fields { found, expected: 3 }),
        };
    }
    let mut columns = Vec::new();
    for field in fields {
        let known = COLUMNS.iter().find(|(name, _)| name.eq_ignore_ascii_case(field));
        let (_, column) = known.ok_or_else(|| Problem::UnknownColumn(cut(field)))?;
        if columns.contains(column) {
            return Err(Problem::ColumnTwice(cut(field)));
        }
        columns.push(*column);
    }
    if columns == [Column::Cycle] { Err(Problem::NoTimes) } else { Ok((columns, true)) }
}

fn sample(location: InputLocation, columns: &[Column], fields: &[&str]) -> Result<Sample, Problem> {
    if fields.len() != columns.len() {
        return Err(Problem::Fields { found: fields.len(), expected: columns.len() });
    }
    let mut sample = Sample { location, cycle: None, program_us: None, erase_us: None };
    for (column, field) in columns.iter().zip(fields) {
        let number = || field.parse::<f64>().map_err(|_| Problem::NoNumber(cut(field)));
        match column {
            Column::Cycle => sample.cycle = Some(whole(number()?, field)?),
            Column::Program => sample.program_us = Some(time(number()?, field)?),
            Column::Erase => sample.erase_us = Some(time(number()?, field)?),
        }
    }
    Ok(sample)
}

fn whole(value: f64, text: &str) -> Result<u64, Problem> {
    let fits = value >= 0.0 && value <= CYCLES_MAX as f64 && value.fract() == 0.0;
    if fits { Ok(value as u64) } else { Err(Problem::NoCycles(cut(text))) }
}

fn time(us: f64, text: &str) -> Result<f64, Problem> {
    if us > 0.0 && us <= TIME_MAX { Ok(us) } else { Err(Problem::NoTime(cut(text))) }
}

/// Start of a text, short enough for a message.
fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[derive(Deserialize)]
struct Element {
    #[serde(default)]
    cycle: Option<f64>,
    #[serde(default)]
    program_us: Option<f64>,
    #[serde(default)]
    erase_us: Option<f64>,
}

/// A report, or its trace.
#[derive(Deserialize)]
struct ReportFile {
    trace: Points,
}

#[derive(Deserialize)]
struct Points {
    points: Vec<Element>,
}

fn json(text: &str) -> Result<Vec<Sample>, TraceError> {
    let list = text.trim_start().starts_with('[');
    let elements: Result<Vec<Element>, serde_json::Error> = if list {
        serde_json::from_str(text)
    } else {
        serde_json::from_str::<ReportFile>(text).map(|whole| whole.trace.points)
    };
    let elements = elements.map_err(|e| {
        let text = e.to_string();
        // The location already states the line number.
        let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
        TraceError { location: InputLocation::Line(e.line().max(1)), problem: Problem::Json(what) }
    })?;
    if elements.len() > MOST {
        return Err(TraceError { location: InputLocation::Row(MOST + 1), problem: Problem::TooMany });
    }
    let samples = (1..).zip(&elements).map(|(number, element)| {
        let location = InputLocation::Row(number);
        from_element(location, element).map_err(|problem| TraceError { location, problem })
    });
    samples.collect()
}

fn from_number(us: f64) -> Result<f64, Problem> {
    time(us, &us.to_string())
}

fn from_element(location: InputLocation, element: &Element) -> Result<Sample, Problem> {
    let sample = Sample {
        location,
        cycle: element.cycle.map(|cycle| whole(cycle, &cycle.to_string())).transpose()?,
        program_us: element.program_us.map(from_number).transpose()?,
        erase_us: element.erase_us.map(from_number).transpose()?,
    };
    match (sample.program_us, sample.erase_us) {
        (None, None) => Err(Problem::NoTimes),
        _ => Ok(sample),
    }
}
