//! Writing a trace, request by request.

use super::{Request, blkparse, csv, fio};
use std::io::{self, Write};
use std::path::Path;

/// Format of a trace that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The CSV of floatgate.
    #[default]
    Csv,
    /// fio's iolog, version 3.
    Fio,
    /// The text of blkparse.
    Blkparse,
}

impl Format {
    /// Format for a file of this name: `.iolog` and `.blkparse` are those of fio and blkparse, all others CSV.
    pub fn of_name(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("iolog") => Self::Fio,
            Some("blkparse") => Self::Blkparse,
            _ => Self::Csv,
        }
    }
}

/// Writer of a trace. Requests come in the order of their issue.
pub struct TraceWriter<W> {
    to: W,
    format: Format,
    requests: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Those of the place to which it is written.
    pub fn new(mut to: W, format: Format) -> io::Result<Self> {
        match format {
            Format::Csv => writeln!(to, "{}", csv::HEADER)?,
            Format::Fio => {
                let file = fio::FILE;
                writeln!(to, "{}\n0 {file} add\n0 {file} open", fio::HEADER)?;
            }
            Format::Blkparse => {}
        }
        Ok(Self { to, format, requests: 0 })
    }

    /// Writes a request.
    ///
    /// # Errors
    /// Those of the place to which it is written.
    pub fn write(&mut self, request: &Request) -> io::Result<()> {
        let number = self.requests;
        self.requests += 1;
        match self.format {
            Format::Csv => writeln!(self.to, "{}", csv::line(request)),
            Format::Fio => writeln!(self.to, "{}", fio::line(request)),
            Format::Blkparse => writeln!(self.to, "{}", blkparse::lines(request, number)),
        }
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Those of the place to which it is written.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}
