//! Records on disk: an append-only file, from which an interrupted sweep goes on.

use super::Record;
use crate::error::Error;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The records of a sweep so far, in the order of the designs; with a file or without.
#[derive(Debug, Default)]
pub struct Checkpoint {
    records: Vec<Record>,
    file: Option<(File, PathBuf)>,
}

impl Checkpoint {
    /// Records in memory alone.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Opens a checkpoint or begins one. `subject` is everything that the figures depend on; a checkpoint of another subject is
    /// refused. A last line that was not completely written is cut off.
    ///
    /// # Errors
    /// A file that cannot be opened, is no checkpoint, or belongs to another sweep.
    pub fn open(path: &Path, subject: &str) -> Result<Self, Error> {
        let failed = |error: std::io::Error| refuse(path, &error.to_string());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let head = format!("{}\n", json!({ "floatgate_sweep": 1, "subject": subject }));
        if whole == 0 {
            // Nothing, or a torn head; a file of anything else stays as it is.
            if !head.starts_with(&text) {
                return Err(refuse(path, "not a checkpoint of a sweep"));
            }
            file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(failed)?;
            file.write_all(head.as_bytes()).map_err(failed)?;
            return Ok(Self { records: Vec::new(), file: Some((file, path.to_owned())) });
        }
        let mut lines = text.get(..whole).unwrap_or_default().lines();
        match lines.next() {
            Some(first) if first == head.trim_end() => {}
            Some(first) if first.starts_with("{\"floatgate_sweep\"") => {
                return Err(refuse(
                    path,
                    "the checkpoint of another sweep, or of a setup that was changed since",
                ));
            }
            _ => return Err(refuse(path, "not a checkpoint of a sweep")),
        }
        let mut records = Vec::new();
        for (number, line) in (2..).zip(lines) {
            records.push(read(line).ok_or_else(|| refuse(path, &format!("line {number} is damaged")))?);
        }
        file.set_len(whole as u64).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok(Self { records, file: Some((file, path.to_owned())) })
    }

    /// The records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Adds the records of the next designs.
    pub(super) fn append(&mut self, records: Vec<Record>) -> Result<(), Error> {
        if let Some((file, path)) = &mut self.file {
            let lines: String = records.iter().map(|record| format!("{}\n", written(record))).collect();
            file.write_all(lines.as_bytes()).map_err(|error| refuse(path, &error.to_string()))?;
        }
        self.records.extend(records);
        Ok(())
    }
}

fn refuse(path: &Path, why: &str) -> Error {
    Error::asked(
        format!("{}: {why}", path.display()),
        "name another file for the checkpoint, or remove this one",
    )
}

/// Numbers are texts, so that they come back bit for bit.
fn written(record: &Record) -> Value {
    match &record.refused {
        Some(why) => json!(why),
        None => record.figures.iter().map(|(name, value)| json!([name, value.to_string()])).collect(),
    }
}

fn read(line: &str) -> Option<Record> {
    match serde_json::from_str(line).ok()? {
        Value::String(why) => Some(Record { figures: Vec::new(), refused: Some(why) }),
        Value::Array(list) => {
            let figure = |item: &Value| {
                let name = item.get(0)?.as_str()?.to_owned();
                Some((name, item.get(1)?.as_str()?.parse().ok()?))
            };
            Some(Record { figures: list.iter().map(figure).collect::<Option<_>>()?, refused: None })
        }
        _ => None,
    }
}
