//! floatgate as a WebAssembly module for a web page.
//!
//! A worker of the page (`web/worker.js`) sends requests as JSON and gets answers as JSON:
//!
//! - `page`: functions that the module exports to the worker or imports from it; both access the same memory.
//! - [`answer`]: processes a request.
//! - `images`: dumps are opened, listed, checked, extracted and repaired by `floatgate-image`.
//! - `designs`: setups of `floatgate-config` are measured by `floatgate-lab`.
//!
//! This crate contains no logic of its own. The answers are the JSON output of the commands, without its envelope. docs/web.md
//! lists the requests.

#[cfg(feature = "designs")]
mod designs;
#[cfg(feature = "images")]
mod images;
#[cfg(target_family = "wasm")]
mod page;

#[cfg(feature = "images")]
use floatgate_mtd::advice::Help;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Interface to the page, for data that is not JSON, and for progress.
pub trait Page {
    /// Appends bytes to the file that is passed to the page.
    fn bytes(&mut self, bytes: &[u8]);

    /// Appends a range of one of the page's blobs to the file that is passed to the page.
    fn blob(&mut self, blob: u32, offset: u64, len: u64);

    /// Reports the number of processed bytes.
    fn progress(&mut self, bytes: u64);
}

/// A request from the page.
#[derive(Deserialize)]
#[serde(untagged)]
enum Request {
    #[cfg(feature = "images")]
    Image(images::Request),
    #[cfg(feature = "designs")]
    Design(designs::Request),
}

/// Failure of a request.
#[derive(Debug, Default, Serialize)]
struct Failure {
    /// Message in one sentence.
    message: String,
    /// Advice to the user.
    help: Option<String>,
    /// Position in the text of a setup.
    place: Option<TextRange>,
}

/// Position of an error in the text of a setup. Columns are UTF-16 code units, like in JavaScript.
#[derive(Debug, Serialize)]
struct TextRange {
    /// Name of the text.
    file: String,
    /// Line, from 1.
    line: usize,
    /// First marked code unit.
    start: usize,
    /// First code unit after the mark.
    end: usize,
}

impl Failure {
    fn new(message: impl std::fmt::Display) -> Self {
        Self { message: message.to_string(), ..Self::default() }
    }

    #[cfg(feature = "images")]
    fn with_help(error: &(impl std::fmt::Display + Help)) -> Self {
        Self { help: Some(error.help().to_string()), ..Self::new(error) }
    }
}

type Answer = Result<Value, Failure>;

/// An answer as JSON.
fn json(value: &impl Serialize) -> Answer {
    serde_json::to_value(value).map_err(Failure::new)
}

/// Answers a request: `{"done": ...}` or `{"failed": {"message", "help", "place"}}`. Requests that read or write files refer to those of
/// [`floatgate_files`].
#[cfg_attr(not(feature = "images"), expect(unused_variables, reason = "only dumps have bytes for the page"))]
pub fn answer(request: &str, page: &mut dyn Page) -> String {
    let answer = match serde_json::from_str(request) {
        #[cfg(feature = "images")]
        Ok(Request::Image(request)) => images::answer(request, page),
        #[cfg(feature = "designs")]
        Ok(Request::Design(request)) => designs::answer(request),
        Err(error) => Err(Failure::new(format!("no request: {error}"))),
    };
    let (key, value) = match answer {
        Ok(done) => ("done", done),
        Err(failure) => ("failed", serde_json::to_value(failure).unwrap_or_default()),
    };
    Value::Object([(key.to_owned(), value)].into_iter().collect()).to_string()
}

#[cfg(test)]
mod tests;
