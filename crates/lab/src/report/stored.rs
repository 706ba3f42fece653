//! Kinds of results in JSON that is read.

use crate::envelope::{ResultKind, VERSION};
use crate::study::{self, Registered};
use floatgate_sim::error::Error;
use serde::Deserialize as _;
use serde::de::{IntoDeserializer as _, value};
use serde_json::Value;
use std::fmt;

/// Reason why JSON cannot be used as a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The JSON is not an object with an envelope.
    #[error("JSON without `floatgate` and `kind`: an older version wrote it, or another program")]
    Missing,
    /// A later version of floatgate wrote it.
    #[error("floatgate {0} wrote it, which is newer than this one, {VERSION}")]
    Newer(String),
    /// The kind is unknown.
    #[error("no result is of the kind {0:?}")]
    Unknown(String),
}

impl EnvelopeError {
    /// Help text for the user.
    pub const fn help(&self) -> &'static str {
        match self {
            Self::Missing => {
                "run the command that printed it again: this version of floatgate marks its results"
            }
            Self::Newer(_) => "install that version, or run the command again with this one",
            Self::Unknown(_) => "run the command that printed it again",
        }
    }

    /// Error with the name of the file.
    pub fn of_file(&self, name: &str) -> Error {
        Error::request(format!("{name}: {self}"), self.help())
    }
}

/// Kind of a result that was read.
#[derive(Clone)]
pub enum StoredKind {
    /// Result of a study, with its complete kind.
    Study(&'static dyn Registered, String),
    /// Another result.
    Other(ResultKind),
}

impl fmt::Display for StoredKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Study(_, kind) => f.write_str(kind),
            Self::Other(kind) => kind.fmt(f),
        }
    }
}

/// Kind of a result in JSON.
///
/// # Errors
/// JSON without an envelope, of a newer version, or of an unknown kind.
pub fn kind_of(json: &Value) -> Result<StoredKind, EnvelopeError> {
    let text = |key: &str| json.get(key).and_then(Value::as_str).ok_or(EnvelopeError::Missing);
    let (version, kind) = (text("floatgate")?, text("kind")?);
    if numbers(version).ok_or(EnvelopeError::Missing)? > numbers(VERSION).unwrap_or_default() {
        return Err(EnvelopeError::Newer(version.to_owned()));
    }
    if let Some(study) = study::of_kind(kind) {
        return Ok(StoredKind::Study(study, kind.to_owned()));
    }
    ResultKind::deserialize(kind.into_deserializer())
        .map(StoredKind::Other)
        .map_err(|_: value::Error| EnvelopeError::Unknown(kind.to_owned()))
}

/// Parses the three numbers of a version.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let release = version.split(['-', '+']).next()?;
    let numbers = release.split('.').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    numbers.try_into().ok()
}
