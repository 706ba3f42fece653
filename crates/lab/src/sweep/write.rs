//! Writes the rows of a sweep as CSV and JSON, page by page. The third format is in `parquet`.

use super::analysis::Sensitivity;
use super::results::{Cells, Page, Results};
use super::spec::Objectives;
use crate::envelope::{Concluded, ResultKind};
use crate::show::csv;
use floatgate_sim::error::Error;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::Path;

/// Format of a file of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// CSV: one line of comma-separated values per design.
    Csv,
    /// JSON: one object, with one line per design.
    Json,
    /// Parquet with Snappy compression.
    Parquet,
}

impl Format {
    /// Format given by the extension of a file name.
    ///
    /// # Errors
    /// The extension belongs to none of the formats.
    pub fn from_extension(path: &Path) -> Result<Self, Error> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Error::request(
                format!("{}: neither CSV, JSON nor Parquet", path.display()),
                "name a file that ends in .csv, .json or .parquet",
            )),
        }
    }

    /// The same format, if this build supports it.
    ///
    /// # Errors
    /// Parquet in a build without the feature `parquet`.
    pub fn available(self) -> Result<Self, Error> {
        match self {
            #[cfg(not(feature = "parquet"))]
            Self::Parquet => Err(no_parquet()),
            available => Ok(available),
        }
    }
}

/// Error of a build without the feature `parquet`.
#[cfg(not(feature = "parquet"))]
fn no_parquet() -> Error {
    Error::request(
        "this build does not write Parquet",
        "write a .csv, or build with cargo's feature `parquet`; the packages of a release have it",
    )
}

/// Reason why results cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The results cannot be read back.
    #[error(transparent)]
    Results(#[from] Error),
    /// The file cannot be written.
    #[error(transparent)]
    Host(#[from] io::Error),
}

/// JSON before the rows.
#[derive(Serialize)]
struct Head<'a> {
    setup: &'a str,
    measure: &'static str,
    designs: usize,
    refused: usize,
    screened: usize,
    feasible: usize,
    pareto: usize,
    objectives: &'a Objectives,
    sensitivity: Vec<Sensitivity>,
    #[serde(skip)]
    of: &'a Results,
}

impl Concluded for Head<'_> {
    fn conclusion(&self) -> String {
        self.of.conclusion().join(" ")
    }

    fn board(&self) -> Option<&str> {
        self.of.board()
    }
}

impl Results {
    /// Writes all rows. Equal results give equal bytes.
    ///
    /// # Errors
    /// The file cannot be written; a checkpoint cannot be read.
    pub fn write(&self, format: Format, out: &mut (impl Write + Send)) -> Result<(), WriteError> {
        match format {
            Format::Csv => self.write_csv(out),
            Format::Json => self.write_json(out),
            #[cfg(feature = "parquet")]
            Format::Parquet => self.write_parquet(out),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => Err(no_parquet().into()),
        }
    }

    /// Facts about the whole sweep, which accompany its rows and are the metadata of a Parquet
    /// file.
    pub fn facts(&self) -> Value {
        json!({ "setup": self.setup(), "measure": self.measure(), "sensitivity": self.sensitivity() })
    }

    fn write_csv(&self, out: &mut impl Write) -> Result<(), WriteError> {
        out.write_all(csv::line(self.columns().iter().map(|(name, _)| csv::quoted(name))).as_bytes())?;
        self.each_page(|page| {
            for row in 0..rows(&page) {
                let fields = page.iter().map(|(_, cells)| csv::field(&cell(cells, row)));
                out.write_all(csv::line(fields).as_bytes())?;
            }
            Ok(())
        })
    }

    fn write_json(&self, out: &mut impl Write) -> Result<(), WriteError> {
        let head = Head {
            setup: self.setup(),
            measure: self.measure(),
            designs: self.done(),
            refused: self.refused().0,
            screened: self.screened().0,
            feasible: self.feasible(),
            pareto: self.pareto(),
            objectives: self.objectives(),
            sensitivity: self.sensitivity(),
            of: self,
        };
        let head = serde_json::to_string(&ResultKind::Sweep.of(self.setup()).around(&head))
            .map_err(io::Error::from)?;
        write!(out, "{},\n\"rows\": [", head.strip_suffix('}').unwrap_or(&head))?;
        let mut comma = "";
        self.each_page(|page| {
            for at in 0..rows(&page) {
                let row: Map<String, Value> =
                    page.iter().map(|(name, cells)| (name.clone(), cell(cells, at))).collect();
                write!(out, "{comma}\n{}", Value::Object(row))?;
                comma = ",";
            }
            Ok::<(), WriteError>(())
        })?;
        Ok(writeln!(out, "\n]}}")?)
    }
}

fn rows(page: &Page) -> usize {
    page.first().map_or(0, |(_, cells)| match cells {
        Cells::Bool(all) => all.len(),
        Cells::Integer(all) => all.len(),
        Cells::Number(all) => all.len(),
        Cells::Text(all) => all.len(),
    })
}

fn cell(cells: &Cells, row: usize) -> Value {
    match cells {
        Cells::Bool(all) => json!(all.get(row)),
        Cells::Integer(all) => json!(all.get(row)),
        Cells::Number(all) => json!(all.get(row)),
        Cells::Text(all) => json!(all.get(row)),
    }
}
