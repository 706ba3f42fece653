//! Sweeps: distributes designs and receives results, and measures designs in workers.

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

/// Names of the arguments of `sweep`, for the detection of misspelt ones.
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

/// Error of a specification that comes from arguments. Tables are mappings, and an unknown argument is taken as an
/// option.
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

/// Sweep without its designs, as sent to a worker, which may run in another folder.
#[derive(Deserialize, Serialize)]
struct Head {
    /// Working folder of the client, to which its paths are relative.
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

/// True for a path that ends with a slash: the parts of a Parquet data set are written into that folder.
fn is_folder(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// A sweep with its results.
#[pyclass(frozen)]
pub(crate) struct NativeSweep {
    /// Specification, for a pickle.
    spec: String,
    head: String,
    /// Evaluator; `None` for a sweep from a pickle, which measures nothing.
    evaluator: Option<Arc<Evaluator>>,
    /// Number of the first design to measure here.
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
    /// Creates a sweep from its specification in JSON. With a checkpoint, it continues from there. It may be one share
    /// of the sweep, or be merged from the checkpoints of all shares. An output file that could not be written at the
    /// end is refused.
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

    /// Specification and all batches, which are the contents of a pickle.
    fn state(&self, py: Python<'_>) -> PyResult<(String, Vec<String>)> {
        let lines = py.detach(|| -> Result<Vec<String>, Failure> {
            let results = self.results();
            results.batches().map(|batch| Ok(batch?.to_line())).collect()
        })?;
        Ok((self.spec.clone(), lines))
    }

    /// Sweep from its pickled state, in any process. It has the results, and measures nothing.
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

    /// Number of the first design to measure here, and number after the last one.
    fn range(&self) -> (usize, usize) {
        (self.start, self.results().end())
    }

    /// First `most` rows, in the form of [`columns`](Self::columns).
    fn first_rows<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyDict>> {
        let all = py.detach(|| -> Result<_, Failure> { Ok(self.results().first_rows(most)?) })?;
        columns(py, all)
    }

    /// Names and types of the columns.
    fn column_types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, self.results().columns())
    }

    /// Everything that a worker needs besides the designs.
    fn head(&self) -> &str {
        &self.head
    }

    /// Work for a worker: at most `most` designs from `first` on.
    fn work(&self, first: usize, most: usize) -> PyResult<Option<String>> {
        let work = self.results().work(first, most);
        Ok(work.map(|work| serde_json::to_string(&work)).transpose().map_err(Failure::from)?)
    }

    /// Stores the members that a worker sent for design `first`. Returns the remaining work if the design is
    /// unfinished.
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

    /// Measures the next designs on all CPU cores; false if there are none.
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

    /// Releases the checkpoint, so that another sweep can continue from it: a traceback may keep this object alive.
    fn close(&self) {
        self.results().close();
    }

    /// Number of feasible, refused, and screened-out designs.
    fn counts(&self) -> (usize, usize, usize) {
        let results = self.results();
        (results.feasible(), results.refused().0, results.screened().0)
    }

    /// Returns an error if no design was measured.
    fn check_measured(&self) -> PyResult<()> {
        Ok(self.results().check_measured().map_err(Failure::from)?)
    }

    fn sensitivity(&self) -> PyResult<String> {
        Ok(serde_json::to_string(&self.results().sensitivity()).map_err(Failure::from)?)
    }

    /// All rows as columns by name: the Arrow type and the values.
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

    /// Calls `write` with the rows page by page, each in the form of [`columns`](Self::columns).
    fn each_page(&self, py: Python<'_>, write: &Bound<'_, PyAny>) -> PyResult<()> {
        self.results().each_page(|page| {
            write.call1((columns(py, page)?,))?;
            Ok::<(), PageError>(())
        })?;
        Ok(())
    }

    /// Facts about the whole sweep as JSON, which are the metadata of a Parquet file.
    fn facts(&self) -> String {
        self.results().facts().to_string()
    }

    /// Writes all rows in the format of the file's extension. An existing file is replaced after all rows are written.
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

/// Error of the results, or of the callback.
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

/// Piece parsed from the line that a worker sent.
fn received(line: &str) -> Result<Piece, Failure> {
    Piece::from_line(line).ok_or_else(|| Failure::new("a worker sent something else than a batch", None))
}

/// Measures designs on this thread, in a worker. If the members of a single design take long, it measures their next
/// wave. `head` and `work` come from a [`NativeSweep`].
#[pyfunction]
pub(crate) fn measure_work(py: Python<'_>, head: String, work: String) -> PyResult<String> {
    /// Sweep for which this process worked last: most chunks belong to the same sweep.
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
