//! Reader and checks for a file of `data/papers/`.

use floatgate_config::{ConfigError, Node, Source};
use floatgate_sim::error::Error;
use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Use of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowKind {
    /// A parameter was fitted to the row.
    Fitted,
    /// Nothing was fitted to the row, so the model can miss it.
    Predicted,
    /// The document only states which of two figures is larger: the row has one end of a range. Nothing was fitted to
    /// it.
    Direction,
    /// The model cannot miss the row, because it has no mechanism for a difference; the reason is stated.
    ByConstruction,
    /// The model does not explain the row; the reason is stated.
    Exception,
}

/// A published document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Short name, such as `P0`.
    pub paper: String,
    /// Title, author and year of the document.
    pub title: String,
    /// Tables of the document.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// Fitted parameters.
    #[serde(default, rename = "fit")]
    pub fits: Vec<Fit>,
    /// Predictions of figures that are not published yet.
    #[serde(default, rename = "prediction")]
    pub predictions: Vec<Prediction>,
    /// The whole document, if this one contains only some of its tables: fits use all rows.
    #[serde(skip)]
    pub whole: Option<Box<Self>>,
}

/// A table of a document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Short name of the table.
    pub name: String,
    /// Title of the table.
    pub title: String,
    /// Unit of its figures.
    pub unit: String,
    /// Setup of its rows, unless they name their own.
    pub setup: String,
    /// Overrides on the setup for all rows, applied before the overrides of a row. They state how the board differs
    /// from the nearest board of the catalogue.
    #[serde(default)]
    pub set: Vec<String>,
    /// Remark on all rows: properties of the board that are inferred.
    #[serde(default)]
    pub note: Option<String>,
    /// Residual above which a row counts as missed, as a ratio.
    #[serde(default = "five_percent")]
    pub tolerance: f64,
    /// Multiple to which the tool truncated the printed figures.
    #[serde(default)]
    pub cut_to: Option<f64>,
    /// Multiple to which the figures were rounded. Figures in KiB/s without either key are those of `flash_speed`:
    /// computed from whole milliseconds, and truncated.
    #[serde(default)]
    pub rounded_to: Option<f64>,
    /// Number of eraseblocks measured (`flash_speed -c`).
    #[serde(default = "ten")]
    pub blocks: u32,
    /// True if the rows state their residuals. A row that states none has a residual of 0. Any other residual than the
    /// stated one counts as a change.
    #[serde(default)]
    pub pinned: bool,
    /// Rows of the table.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

const fn five_percent() -> f64 {
    0.05
}

pub(super) const fn ten() -> u32 {
    10
}

/// A published figure, or a range if the document is not more precise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Name of the row.
    pub row: String,
    /// Published value, in the unit of the table.
    #[serde(default)]
    pub published: Option<f64>,
    /// Lower end of a range. A range has both ends in place of a figure; a direction has only one of them.
    #[serde(default)]
    pub published_min: Option<f64>,
    /// Upper end of a range.
    #[serde(default)]
    pub published_max: Option<f64>,
    /// Use of the row.
    pub kind: RowKind,
    /// Measure: a test of `speed`, or one of the measures of this module.
    pub measure: String,
    /// Overrides on the setup.
    #[serde(default)]
    pub set: Vec<String>,
    /// Setup, if it differs from the table's.
    #[serde(default)]
    pub setup: Option<String>,
    /// Block that is read in the read-while-write test.
    #[serde(default)]
    pub secondary_block: Option<u32>,
    /// Largest residual, if it differs from the table's.
    #[serde(default)]
    pub tolerance: Option<f64>,
    /// Known residual of the row beyond the resolution of the tool, percent. Any other residual counts as a change.
    #[serde(default)]
    pub residual_percent: f64,
    /// Reason why the row is an exception, or a remark.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A published figure, or a range of figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Published {
    /// A single value.
    Figure(f64),
    /// Range between two values.
    Range(f64, f64),
    /// Lower bound.
    AtLeast(f64),
    /// Upper bound.
    AtMost(f64),
}

impl Published {
    /// Lowest and highest exact figure that the document would print as this one. `kib` is the amount of data in a run
    /// of `flash_speed`, KiB.
    pub fn interval(self, table: &Table, kib: Option<f64>) -> (f64, f64) {
        let figure = match self {
            Self::Range(min, max) => return (min, max),
            Self::AtLeast(min) => return (min, f64::INFINITY),
            Self::AtMost(max) => return (0.0, max),
            Self::Figure(figure) => figure,
        };
        match (table.cut_to, table.rounded_to, kib) {
            (Some(unit), ..) => (figure, figure + unit),
            (_, Some(unit), _) => (figure - unit / 2.0, figure + unit / 2.0),
            (_, _, Some(kib)) => whole_ms(figure, kib).unwrap_or((figure, figure)),
            _ => (figure, figure),
        }
    }
}

/// Range of exact rates, KiB/s, for which `flash_speed` prints `figure`; `None` if no whole number of ms gives it.
fn whole_ms(figure: f64, kib: f64) -> Option<(f64, f64)> {
    let rate = |ms: f64| kib * 1000.0 / ms;
    let near = (kib * 1000.0 / figure).round();
    let ms =
        [near - 1.0, near, near + 1.0].into_iter().find(|&ms| ms >= 1.0 && rate(ms).floor() == figure)?;
    Some((rate(ms + 1.0), rate(ms)))
}

/// Distance of `exact` from an interval: its ratio to the nearer end, minus 1; 0 inside.
pub(super) fn beyond(exact: f64, (min, max): (f64, f64)) -> f64 {
    if exact < min {
        exact / min - 1.0
    } else if exact > max {
        exact / max - 1.0
    } else {
        0.0
    }
}

impl Table {
    /// Overrides that all rows share, in command-line form, each with a leading space.
    pub fn set_text(&self) -> String {
        sets_text(&self.set)
    }
}

impl Row {
    /// Published figure or range of the row; `None` if the file has neither.
    pub fn published_value(&self) -> Option<Published> {
        match (self.published, self.published_min, self.published_max) {
            (Some(figure), None, None) => Some(Published::Figure(figure)),
            (None, Some(min), Some(max)) => Some(Published::Range(min, max)),
            (None, Some(min), None) => Some(Published::AtLeast(min)),
            (None, None, Some(max)) => Some(Published::AtMost(max)),
            _ => None,
        }
    }
}

/// A parameter, and the rows to which it was fitted.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Dotted path of the parameter.
    pub parameter: String,
    /// File that contains the parameter.
    pub file: String,
    /// Names of the rows, as `table/row`.
    pub rows: Vec<String>,
}

/// Prediction of a figure that is not published yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Short name of the prediction.
    pub name: String,
    /// Title of the prediction.
    pub title: String,
    /// Setup for which the prediction is made.
    pub setup: String,
    /// Measure: a test of `speed`, or one of the measures of this module.
    pub measure: String,
    /// Unit of the figure.
    pub unit: String,
    /// Overrides on the setup.
    #[serde(default)]
    pub set: Vec<String>,
    /// Obstacle to the measurement on real hardware, if any.
    #[serde(default)]
    pub note: String,
}

static PAPERS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/papers");

/// Overrides in command-line form, each with a leading space.
pub(super) fn sets_text(sets: &[String]) -> String {
    sets.iter().map(|set| format!(" --set {set}")).collect()
}

/// All documents in this project.
///
/// # Errors
/// A document is malformed.
pub fn built_in() -> Result<Vec<Paper>, Error> {
    let mut files: Vec<_> = PAPERS.files().collect();
    files.sort_by_key(|f| f.path());
    let papers: Result<Vec<Paper>, ConfigError> = files
        .into_iter()
        .filter(|f| f.path().extension().is_some_and(|e| e == "toml"))
        .map(|f| read(&Source::bytes(&format!("papers/{}", f.path().display()), f.contents())?))
        .collect();
    let papers = papers?;
    papers.iter().try_for_each(check)?;
    Ok(papers)
}

/// Reads one document.
///
/// # Errors
/// The document is malformed.
pub fn read(source: &Arc<Source>) -> Result<Paper, ConfigError> {
    Node::parse(source)?.extract("")
}

/// Checks that the figures can be compared, that fitted rows have a fit, and that predicted rows have none.
///
/// # Errors
/// The first row that cannot be compared, or whose kind contradicts the fits.
pub fn check(paper: &Paper) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::request(format!("{}: {what}", paper.paper), "correct the file"));
    let fitted: Vec<&String> = paper.fits.iter().flat_map(|f| &f.rows).collect();
    let mut names = Vec::new();
    for (table, row) in rows(paper) {
        let name = format!("{}/{}", table.name, row.row);
        if let Some(why) = doubt(table, row).or_else(|| dishonesty(row.kind, row, fitted.contains(&&name))) {
            return wrong(format!("{name} {why}"));
        }
        if names.contains(&name) {
            return wrong(format!("there are two rows {name}"));
        }
        names.push(name);
    }
    if names.is_empty() && paper.predictions.is_empty() {
        return wrong("there is no row to compare".to_owned());
    }
    match fitted.into_iter().find(|name| !names.contains(name)) {
        Some(name) => wrong(format!("a [[fit]] names the row {name:?}, which does not exist")),
        None => Ok(()),
    }
}

/// Reason why a row cannot be compared.
fn doubt(table: &Table, row: &Row) -> Option<&'static str> {
    let tolerance = row.tolerance.unwrap_or(table.tolerance);
    match row.published_value() {
        None => Some("needs a published figure, or published_min and published_max"),
        Some(Published::AtLeast(_) | Published::AtMost(_)) if row.kind != RowKind::Direction => {
            Some("has one end of a range, and is no direction")
        }
        Some(Published::Figure(_) | Published::Range(..)) if row.kind == RowKind::Direction => {
            Some("is called a direction, and needs either published_min or published_max")
        }
        Some(Published::AtLeast(end) | Published::AtMost(end)) if end.is_nan() || end <= 0.0 => {
            Some("has a published end that is not above 0")
        }
        Some(Published::Figure(figure)) if figure.is_nan() || figure <= 0.0 => {
            Some("has a published figure that is not above 0")
        }
        Some(Published::Range(min, max)) if min.is_nan() || min <= 0.0 || max.is_nan() || max < min => {
            Some("has a published range that is not above 0 and ascending")
        }
        _ if tolerance.is_nan() || tolerance < 0.0 => Some("has a tolerance below 0"),
        _ if table.blocks == 0 => Some("is measured over no block: set blocks to 1 or more"),
        _ => None,
    }
}

/// Contradiction between a row and the fits.
fn dishonesty(kind: RowKind, row: &Row, has_fit: bool) -> Option<&'static str> {
    match kind {
        RowKind::Fitted if !has_fit => Some("is called fitted, but no [[fit]] names it"),
        RowKind::Predicted | RowKind::Direction if has_fit => {
            Some("is called predicted, but a [[fit]] uses it")
        }
        RowKind::Exception | RowKind::ByConstruction if row.reason.is_none() => {
            Some("needs a reason: why it is an exception, or why the model cannot miss it")
        }
        _ => None,
    }
}

pub(super) fn rows(paper: &Paper) -> impl Iterator<Item = (&Table, &Row)> {
    paper.tables.iter().flat_map(|t| t.rows.iter().map(move |r| (t, r)))
}
