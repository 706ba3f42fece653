//! `sweep`: designs handed out and results taken, and the inner loop that measures them.

use crate::advice::in_python;
use crate::cancel::interruptible;
use crate::failure::Failure;
use crate::library;
use floatgate_config::{Problem, did_you_mean};
use floatgate_host::output::Output;
use floatgate_lab::sweep::{
    Batch, Cells, Evaluator, Format, Page, Piece, Results, Shard, Spec, Work, WriteError,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Arguments of `sweep` that may be misspelt.
const ARGUMENTS: [&str; 18] = [
    "measure",
    "executor",
    "set",
    "tests",
    "options",
    "sample",
    "population",
    "screen",
    "constraints",
    "maximise",
    "minimise",
    "output",
    "checkpoint",
    "chunk",
    "seed",
    "shard",
    "merge",
    "progress",
];

/// An error of a specification, of which the caller wrote the arguments: tables are mappings, and what `sweep` does not know is an option.
fn of_arguments(error: floatgate_lab::Error) -> Failure {
    let key =
        |problem| error.config().filter(|error| error.problem() == problem).map(|error| error.report().path);
    let (unknown, missing) = (key(Problem::UnknownKey), key(Problem::MissingKey));
    let path = unknown.as_deref().or(missing.as_deref()).and_then(|path| path.rsplit_once('.'));
    let help = in_python(&error.help().unwrap_or_default());
    match path {
        Some(("options", key)) => {
            let message =
                format!("`{key}` is neither an argument of `sweep` nor an option of this measurement");
            Failure::new(message, Some(did_you_mean(key, ARGUMENTS) + &help))
        }
        Some((mapping, key)) => {
            let has = if missing.is_some() { "needs the" } else { "has no" };
            Failure::new(format!("`{mapping}` {has} key `{key}`"), Some(help))
        }
        None => error.into(),
    }
}

/// A sweep as a worker needs it, which may be in another folder.
#[derive(Deserialize, Serialize)]
struct Head {
    /// Folder of the client, from which its paths start.
    folder: Option<String>,
    spec: Spec,
}

impl Head {
    fn new(spec: Spec) -> Self {
        let folder = std::env::current_dir().ok().and_then(|folder| folder.to_str().map(str::to_owned));
        Self { folder, spec }
    }

    fn evaluator(&self) -> Result<Arc<Evaluator>, Failure> {
        let library = library().clone();
        let library = match &self.folder {
            Some(folder) => library.in_folder(Path::new(folder)),
            None => library,
        };
        Ok(Arc::new(Evaluator::new(Arc::new(library), &self.spec)?))
    }
}

/// True of a path with a slash at its end: parts of a Parquet data set are written into that folder.
fn is_folder(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// A sweep with what is measured of it.
#[pyclass(frozen)]
pub(crate) struct NativeSweep {
    /// Its specification, for a pickle.
    spec: String,
    head: String,
    /// None of a sweep from a pickle, which measures nothing.
    evaluator: Option<Arc<Evaluator>>,
    /// Number of the first design that is measured here.
    start: usize,
    results: Mutex<Results>,
}

impl NativeSweep {
    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl NativeSweep {
    /// A sweep from its specification in JSON, or the rest of it after a checkpoint; one share of it; or all of it from the checkpoints of the
    /// shares. An output that could not be written at its end is refused.
    #[new]
    fn new(
        py: Python<'_>,
        spec: &str,
        checkpoint: Option<PathBuf>,
        output: Option<PathBuf>,
        shard: Option<String>,
        merge: Option<Vec<PathBuf>>,
    ) -> PyResult<Self> {
        Ok(py.detach(|| -> Result<Self, Failure> {
            output.as_deref().filter(|path| !is_folder(path)).map(Format::from_extension).transpose()?;
            let text = spec.to_owned();
            let spec = Spec::from_json(spec).map_err(of_arguments)?;
            let head = Head::new(spec.head());
            let evaluator = head.evaluator()?;
            let shard: Option<Shard> = match shard {
                Some(shard) => {
                    Some(shard.parse().map_err(|why| Failure::new(format!("shard: {why}"), None))?)
                }
                None => None,
            };
            let results = match (shard, merge, checkpoint.as_deref()) {
                (Some(shard), _, Some(path)) => Results::shard(&evaluator, &spec, shard, path)?,
                (Some(_), _, None) => {
                    let help = "name a `checkpoint`, which `merge` reads".to_owned();
                    return Err(Failure::new("a share is kept in its checkpoint", Some(help)));
                }
                (None, Some(parts), _) => Results::merged(&evaluator, &spec, &parts)?,
                (None, None, checkpoint) => Results::new(&evaluator, &spec, checkpoint)?,
            };
            let start = shard.map_or(0, |shard| shard.designs(results.designs()).start);
            let (head, evaluator) = (serde_json::to_string(&head)?, Some(evaluator));
            Ok(Self { spec: text, head, evaluator, start, results: Mutex::new(results) })
        })?)
    }

    /// The specification and all batches: what a pickle holds.
    fn state(&self, py: Python<'_>) -> PyResult<(String, Vec<String>)> {
        let lines = py.detach(|| -> Result<Vec<String>, Failure> {
            let results = self.results();
            results.batches().map(|batch| Ok(batch?.to_line())).collect()
        })?;
        Ok((self.spec.clone(), lines))
    }

    /// A sweep from its state, in any process: it has the results, and measures nothing.
    #[staticmethod]
    fn of_state(py: Python<'_>, spec: String, lines: Vec<String>) -> PyResult<Self> {
        Ok(py.detach(|| -> Result<Self, Failure> {
            let parsed = Spec::from_json(&spec).map_err(of_arguments)?;
            let batches: Option<Vec<Batch>> = lines.iter().map(|line| Batch::from_line(line)).collect();
            let batches =
                batches.ok_or_else(|| Failure::new("the pickle holds no batches of a sweep", None))?;
            let results = Mutex::new(Results::of_batches(&parsed, batches)?);
            Ok(Self { spec, head: String::new(), evaluator: None, start: 0, results })
        })?)
    }

    fn designs(&self) -> usize {
        self.results().designs()
    }

    fn done(&self) -> usize {
        self.results().done()
    }

    /// Number of the first design that is measured here, and number behind the last one.
    fn range(&self) -> (usize, usize) {
        (self.start, self.results().end())
    }

    /// The first `most` rows, as [`columns`](Self::columns).
    fn first_rows<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyDict>> {
        let all = py.detach(|| -> Result<_, Failure> { Ok(self.results().first_rows(most)?) })?;
        columns(py, all)
    }

    /// Names and types of the columns.
    fn column_types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, self.results().columns())
    }

    /// Everything that a worker needs beside the designs.
    fn head(&self) -> &str {
        &self.head
    }

    /// Designs from `first` on, for a worker.
    fn work(&self, first: usize, most: usize) -> PyResult<Option<String>> {
        let work = self.results().work(first, most);
        Ok(work.map(|work| serde_json::to_string(&work)).transpose().map_err(Failure::from)?)
    }

    /// Keeps the members that a worker sent of the design number `first`. The work that follows, if that design is not done.
    fn keep(&self, py: Python<'_>, first: usize, piece: &str) -> PyResult<Option<String>> {
        Ok(py.detach(|| -> Result<Option<String>, Failure> {
            let work = self.results().keep(first, &received(piece)?);
            Ok(work.map(|work| serde_json::to_string(&work)).transpose()?)
        })?)
    }

    /// Adds the results of the next designs, which a worker sent.
    fn add(&self, py: Python<'_>, piece: &str) -> PyResult<()> {
        Ok(py.detach(|| -> Result<(), Failure> {
            let piece = received(piece)?;
            let batch = piece.batch().ok_or_else(|| Failure::new("a worker sent no batch", None))?;
            Ok(self.results().add(batch)?)
        })?)
    }

    /// Measures the next designs on all cores of this machine; false when there are none.
    fn measure(&self, py: Python<'_>, most: usize) -> PyResult<bool> {
        let next = self.done();
        let (Some(work), Some(evaluator)) = (self.results().work(next, most), self.evaluator.clone()) else {
            return Ok(false);
        };
        let waves = self.results().waves();
        let batch =
            interruptible(py, move |cancel| Ok(evaluator.measure(&work, true, &waves, &|| cancel.check())?))?;
        Ok(py.detach(|| self.results().add(&batch)).map_err(Failure::from).map(|()| true)?)
    }

    /// Lets another sweep go on from the checkpoint: a traceback may keep this one.
    fn close(&self) {
        self.results().close();
    }

    /// Number of designs that are feasible, refused, and screened out.
    fn counts(&self) -> (usize, usize, usize) {
        let results = self.results();
        (results.feasible(), results.refused().0, results.screened().0)
    }

    /// Fails when no design was measured.
    fn check_measured(&self) -> PyResult<()> {
        Ok(self.results().check_measured().map_err(Failure::from)?)
    }

    fn sensitivity(&self) -> PyResult<String> {
        Ok(serde_json::to_string(&self.results().sensitivity()).map_err(Failure::from)?)
    }

    /// All rows, as columns by name: the Arrow type and the values.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = py.detach(|| -> Result<_, Failure> {
            let results = self.results();
            let mut all = results.columns();
            results.each_page(|page| {
                for ((_, whole), (_, part)) in all.iter_mut().zip(page) {
                    extend(whole, part);
                }
                Ok::<(), floatgate_lab::Error>(())
            })?;
            Ok(all)
        })?;
        columns(py, all)
    }

    /// Calls `write` with the rows, page by page, each as [`columns`](Self::columns).
    fn each_page(&self, py: Python<'_>, write: &Bound<'_, PyAny>) -> PyResult<()> {
        self.results().each_page(|page| {
            write.call1((columns(py, page)?,))?;
            Ok::<(), PageError>(())
        })?;
        Ok(())
    }

    /// Facts of the whole sweep, as JSON: the metadata of a Parquet file.
    fn facts(&self) -> String {
        self.results().facts().to_string()
    }

    /// Writes all rows; the extension of the name says how. A file of that name is replaced when all of them are written.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| -> Result<(), Failure> {
            let format = Format::from_extension(&path)?;
            let output = Output::stream(&path, &[]).map_err(Failure::helped)?;
            let mut writer = BufWriter::new(output.file());
            let written = self.results().write(format, &mut writer).and_then(|()| Ok(writer.flush()?));
            drop(writer);
            match written {
                Ok(()) => output.finish().map_err(Failure::helped),
                Err(WriteError::Host(error)) => Err(Failure::helped(output.failed(error))),
                Err(other) => Err(Failure::new(other, None)),
            }
        })?)
    }
}

/// A failure of the results, or of the callback.
struct PageError(PyErr);

impl From<floatgate_lab::Error> for PageError {
    fn from(error: floatgate_lab::Error) -> Self {
        Self(Failure::from(error).into())
    }
}

impl From<PyErr> for PageError {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

impl From<PageError> for PyErr {
    fn from(error: PageError) -> Self {
        error.0
    }
}

/// Columns by name: the Arrow type and the values.
fn columns(py: Python<'_>, page: Page) -> PyResult<Bound<'_, PyDict>> {
    let columns = PyDict::new(py);
    for (name, cells) in page {
        match cells {
            Cells::Bool(all) => columns.set_item(name, ("bool", all))?,
            Cells::Integer(all) => columns.set_item(name, ("int64", all))?,
            Cells::Number(all) => columns.set_item(name, ("float64", all))?,
            Cells::Text(all) => columns.set_item(name, ("string", all))?,
        }
    }
    Ok(columns)
}

fn extend(whole: &mut Cells, part: Cells) {
    match (whole, part) {
        (Cells::Bool(all), Cells::Bool(more)) => all.extend(more),
        (Cells::Integer(all), Cells::Integer(more)) => all.extend(more),
        (Cells::Number(all), Cells::Number(more)) => all.extend(more),
        (Cells::Text(all), Cells::Text(more)) => all.extend(more),
        _ => {}
    }
}

/// A piece from the line that a worker sent.
fn received(line: &str) -> Result<Piece, Failure> {
    Piece::from_line(line).ok_or_else(|| Failure::new("a worker sent something else than a batch", None))
}

/// Measures designs on this thread: what a worker does. Of a single design whose members take long it is the next wave of them. `head` and `work` are those of a [`NativeSweep`].
#[pyfunction]
pub(crate) fn measure_work(py: Python<'_>, head: String, work: String) -> PyResult<String> {
    /// The sweep that this process last worked for: most chunks are of the same one.
    static LAST: Mutex<Option<(String, Arc<Evaluator>)>> = Mutex::new(None);
    let known = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().as_ref().filter(|(of, _)| *of == head).map(|(_, evaluator)| Arc::clone(evaluator));
    let evaluator = match found {
        Some(evaluator) => evaluator,
        None => {
            let made = serde_json::from_str::<Head>(&head).map_err(Failure::from)?.evaluator()?;
            *known() = Some((head, Arc::clone(&made)));
            made
        }
    };
    Ok(py.detach(|| -> Result<String, Failure> {
        let work: Work = serde_json::from_str(&work)?;
        Ok(evaluator.measure_piece(&work)?.to_line())
    })?)
}
