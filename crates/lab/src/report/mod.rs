//! `floatgate report`: setups and results as one HTML file that needs no network.
//!
//! - `stored`: kind of a result in JSON that is read.
//! - [`Report`]: inputs are added one by one, and each becomes a section.
//! - `read`: sections from the JSON of floatgate's commands and from CSV files; `setup`: measurements and traces of a
//!   setup.
//! - `schema`: JSON Schema of each kind.
//! - [`show::page`](crate::show): page from sections.
//!
//! Texts of inputs are shown without control characters, and escaped. The page is at most [`MAX_BYTES`] long: it shows
//! only some rows of very long tables, and states that.

mod csv;
mod read;
mod schema;
mod setup;
mod stored;

pub use crate::envelope::{Concluded, Envelope, Origin, Reported, ResultKind, Rows};
use crate::show::page::{self, model::Section};
use crate::study::Registered;
use floatgate_config::{Library, Override, Setup};
use floatgate_sim::error::Error;
use floatgate_sim::rig::RigOptions;
pub use schema::{DocumentedKind, documented_kinds, schema_of, schema_of_all};
pub use stored::{EnvelopeError, StoredKind, kind_of};

/// Maximum size of a report, bytes.
pub const MAX_BYTES: usize = 3_000_000;

/// Initial limit of rows of a table and of spans of a waterfall. It is halved until the page is small enough.
const MOST_ROWS: usize = 20_000;

/// Minimum number of rows for a useful table.
const FEWEST_ROWS: usize = 8;

/// A report being assembled.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    command: String,
    sections: Vec<Section>,
}

impl Report {
    /// Creates an empty report; `command` is the command line that makes it.
    pub fn new(title: &str, command: &str) -> Self {
        Self { title: title.to_owned(), command: command.to_owned(), sections: Vec::new() }
    }

    /// Measures a setup, traces its operations, and adds both, with the sources of all its numbers.
    ///
    /// # Errors
    /// The setup is wrong or cannot be measured.
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
    /// The text is not JSON, or the JSON is not a result.
    pub fn add_json(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| Error::request(format!("{name}: not JSON: {error}"), read::HELP))?;
        self.sections.push(read::section(name, &value)?);
        Ok(())
    }

    /// Adds the result of a study.
    ///
    /// # Errors
    /// The JSON is not a result of this study.
    pub fn add_study(
        &mut self,
        name: &str,
        study: &dyn Registered,
        result: &serde_json::Value,
    ) -> Result<(), Error> {
        self.sections.push(read::section_of_study(name, study.kind(""), study, result)?);
        Ok(())
    }

    /// Adds the result of a study at the start. Its conclusion becomes the conclusion of the whole page.
    ///
    /// # Errors
    /// The errors of [`Report::add_study`].
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
    /// The text is not a table.
    pub fn add_csv(&mut self, name: &str, text: &str) -> Result<(), Error> {
        self.sections.push(csv::section(name, text)?);
        Ok(())
    }

    /// HTML of the page.
    ///
    /// # Errors
    /// The inputs need more than [`MAX_BYTES`].
    pub fn html(&self) -> Result<String, Error> {
        let comparison = page::model::comparison(&self.sections);
        let mut rows = MOST_ROWS;
        loop {
            let page = page::page(&self.title, &self.command, comparison.as_ref(), &self.sections, rows);
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
