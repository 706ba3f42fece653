//! Traces that `--record` writes.

use crate::common::{self, Failure};
use floatgate_host::output::Output;
use floatgate_lab::card::serve::Observer;
use floatgate_lab::card::trace::{Format, TraceWriter};
use std::io::{self, BufWriter, IntoInnerError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Writer of a trace, or the error that stopped it.
type Writing = io::Result<TraceWriter<BufWriter<Output>>>;

/// Trace that is being written, in the format that its file name states.
pub(super) struct Recording {
    path: PathBuf,
    writing: Arc<Mutex<Option<Writing>>>,
}

impl Recording {
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        let output = Output::create(path, &[])?;
        let writing = TraceWriter::new(BufWriter::new(output), Format::of_name(path));
        Ok(Self { path: path.to_owned(), writing: Arc::new(Mutex::new(Some(writing))) })
    }

    /// Observer that records the requests of a card.
    pub(super) fn observer(&self) -> Observer {
        let writing = Arc::clone(&self.writing);
        Box::new(move |request| {
            let Ok(mut writing) = writing.lock() else { return };
            let Some(Ok(writer)) = writing.as_mut() else { return };
            if let Err(error) = writer.write(request) {
                *writing = Some(Err(error));
            }
        })
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            Failure::new(format!("{}: {error}", self.path.display()), "name a file in a place with room")
        };
        let writing = self.writing.lock().ok().and_then(|mut writing| writing.take());
        let lost = || failed(io::Error::other("a request has failed in the middle"));
        let buffer = writing.ok_or_else(lost)?.and_then(TraceWriter::finish).map_err(failed)?;
        common::finish(buffer.into_inner().map_err(IntoInnerError::into_error).map_err(failed)?)
    }
}
