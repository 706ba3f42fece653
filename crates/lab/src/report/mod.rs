//! `floatgate report`: setups and results as one HTML file that needs no network.
//!
//! - `envelope`: the kind of each result, and the input that it follows from, which its JSON begins with.
//! - [`Report`]: inputs are added one by one, each becomes a section.
//! - `read`: the JSON of floatgate's commands and CSV files to sections; `setup`: a setup is measured and traced.
//! - `schema`: the JSON Schema of each kind.
//! - `html`: sections to a page; its style and script stand beside it, `page.css` and `page.js`, and the plotting library in `plot`.
//!
//! Texts of inputs are shown without control characters, and escaped. The page is at most [`MAX_BYTES`] long: of tables with
//! very many rows it shows some, and says so.

mod csv;
mod envelope;
mod html;
mod model;
mod read;
mod schema;
mod setup;

use crate::study::Registered;
pub use envelope::{Concluded, Envelope, EnvelopeError, Origin, ResultKind, Rows, StoredKind, kind_of};
use floatgate_config::{Library, Override, Setup};
use floatgate_sim::error::Error;
use floatgate_sim::rig::RigOptions;
use model::Section;
pub use schema::{DocumentedKind, documented_kinds, schema_of, schema_of_all};

/// Largest report, in bytes.
pub const MAX_BYTES: usize = 3_000_000;

/// Rows of a table that are tried first, and spans of a waterfall; halved until the page is small enough.
const MOST_ROWS: usize = 20_000;

/// With fewer rows a table is of no use.
const FEWEST_ROWS: usize = 8;

/// A report that is being put together.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    command: String,
    sections: Vec<Section>,
}

impl Report {
    /// An empty report; `command` is the command line that makes it.
    pub fn new(title: &str, command: &str) -> Self {
        Self { title: title.to_owned(), command: command.to_owned(), sections: Vec::new() }
    }

    /// Measures a setup, traces its operations, and adds both with the sources of all its numbers.
    ///
    /// # Errors
    /// A wrong setup, or one that cannot be measured.
    pub fn add_setup(
        &mut self,
        library: &Library,
        name: &str,
        setup: &Setup,
        sets: &[Override],
        options: RigOptions,
    ) -> Result<(), Error> {
        self.sections.push(setup::section(library, name, setup, sets, options)?);
        Ok(())
    }

    /// Adds the JSON that a command printed.
    ///
    /// # Errors
    /// A text that is no JSON, or JSON that is no result.
    pub fn add_json(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| Error::request(format!("{name}: not JSON: {error}"), read::HELP))?;
        self.sections.push(read::section(name, &value)?);
        Ok(())
    }

    /// Adds the result of a study.
    ///
    /// # Errors
    /// JSON that is no result of this study.
    pub fn add_study(
        &mut self,
        name: &str,
        study: &dyn Registered,
        result: &serde_json::Value,
    ) -> Result<(), Error> {
        self.sections.push(read::section_of_study(name, study.kind(""), study, result)?);
        Ok(())
    }

    /// Adds the result of a study whose conclusion is the conclusion of the whole page, before all others.
    ///
    /// # Errors
    /// As [`Report::add_study`].
    pub fn open_with_study(
        &mut self,
        name: &str,
        study: &dyn Registered,
        result: &serde_json::Value,
    ) -> Result<(), Error> {
        let section = read::section_of_study(name, study.kind(""), study, result)?;
        self.sections.insert(0, Section { opens_report: true, ..section });
        Ok(())
    }

    /// Adds a CSV file with a header line.
    ///
    /// # Errors
    /// A text that is no such table.
    pub fn add_csv(&mut self, name: &str, text: &str) -> Result<(), Error> {
        self.sections.push(csv::section(name, text)?);
        Ok(())
    }

    /// The page.
    ///
    /// # Errors
    /// Inputs that make more than [`MAX_BYTES`].
    pub fn html(&self) -> Result<String, Error> {
        let comparison = model::comparison(&self.sections);
        let mut rows = MOST_ROWS;
        loop {
            let page = html::page(&self.title, &self.command, comparison.as_ref(), &self.sections, rows);
            if page.len() <= MAX_BYTES {
                return Ok(page);
            }
            if rows <= FEWEST_ROWS {
                let message =
                    format!("the report has {} MB; at most 3 MB are written", page.len() / 1_000_000);
                return Err(Error::request(message, "make several reports of fewer inputs"));
            }
            rows /= 2;
        }
    }
}

#[cfg(test)]
mod tests;
