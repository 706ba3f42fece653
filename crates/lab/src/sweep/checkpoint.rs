//! Batches on disk: an append-only file, from which an interrupted sweep goes on, and from which its rows are written at the end.
//! So memory does not grow with the number of designs. Between them stand waves of members of designs that take long.

use super::batch::Batch;
use super::waves::Wave;
use floatgate_sim::error::Error;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Longest line that is read: a batch of a million designs is no batch.
const LINE_MAX: u64 = 256 << 20;

/// Bytes of the digest in front of each batch: a number that is not as it was written shows.
const DIGEST_BYTES: usize = 8;

/// The first bytes of a text's digest, in hexadecimal digits.
fn digest(text: &str, bytes: usize) -> String {
    Sha256::digest(text).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// The batches of a sweep so far, in the order of the designs.
#[derive(Debug)]
pub(super) struct Checkpoint {
    file: File,
    /// None for a temporary file, which no other sweep goes on from.
    path: Option<PathBuf>,
    /// First byte of the first batch.
    start: u64,
}

impl Checkpoint {
    /// Batches in a temporary file that has no name.
    ///
    /// # Errors
    /// The host refuses one.
    pub(super) fn temporary() -> Result<Self, Error> {
        let file = tempfile::tempfile().map_err(|error| {
            Error::request(
                format!("a temporary file: {error}"),
                "set TMPDIR to a folder with room, or name a checkpoint",
            )
        })?;
        Ok(Self { file, path: None, start: 0 })
    }

    /// Opens a checkpoint or begins one. `subject` is everything that the figures depend on; a checkpoint of another subject is
    /// refused. A last line that was not completely written is cut off.
    ///
    /// # Errors
    /// A file that cannot be opened, is no checkpoint, belongs to another sweep, or is in use.
    pub(super) fn open(path: &Path, subject: &str) -> Result<Self, Error> {
        let failed = |error: io::Error| unusable(path, &error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(refuse(path, "not a regular file"));
        }
        // Some network filesystems have no locks.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            let why = format!("{}: another sweep is writing to it", path.display());
            return Err(Error::request(
                why,
                "wait until that has ended, or name another file for the checkpoint",
            ));
        }
        let head = head(subject);
        let mut checkpoint = Self { file, path: Some(path.to_owned()), start: head.len() as u64 };
        let mut found = vec![0; head.len()];
        let got = checkpoint.read_head(&mut found).map_err(failed)?;
        match &found[..got] {
            same if same == head.as_bytes() => checkpoint.cut_torn_line().map_err(failed)?,
            // Nothing, or a torn head; a file of anything else stays as it is.
            part if head.as_bytes().starts_with(part) => {
                checkpoint.file.set_len(0).map_err(failed)?;
                checkpoint.append_text(&head)?;
            }
            other => return Err(refuse(path, foreign(other))),
        }
        Ok(checkpoint)
    }

    /// Opens the checkpoint of a share to read it.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for locks.
    pub(super) fn read(path: &Path, subject: &str) -> Result<Self, Error> {
        let refused = |why: String| {
            Error::request(format!("{}: {why}", path.display()), "name the checkpoints of all shares")
        };
        let failed = |error: io::Error| refused(error.to_string());
        let file = File::open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(refused("not a regular file".to_owned()));
        }
        let head = head(subject);
        let checkpoint = Self { file, path: Some(path.to_owned()), start: head.len() as u64 };
        let mut found = vec![0; head.len()];
        match checkpoint.read_head(&mut found).map_err(failed)? {
            got if found[..got] == *head.as_bytes() => Ok(checkpoint),
            got => Err(refused(foreign(&found[..got]).to_owned())),
        }
    }

    fn read_head(&self, head: &mut [u8]) -> io::Result<usize> {
        let mut at = 0;
        while at < head.len() {
            match self.file.read_at(&mut head[at..], at as u64)? {
                0 => break,
                got => at += got,
            }
        }
        Ok(at)
    }

    /// Cuts the file behind its last line end.
    fn cut_torn_line(&mut self) -> io::Result<()> {
        let (mut end, mut piece) = (self.file.metadata()?.len(), [0; 4096]);
        while end > self.start {
            let from = end.saturating_sub(piece.len() as u64).max(self.start);
            let piece = &mut piece[..(end - from) as usize];
            self.file.read_exact_at(piece, from)?;
            match piece.iter().rposition(|&byte| byte == b'\n') {
                Some(at) => {
                    end = from + at as u64 + 1;
                    break;
                }
                None => end = from,
            }
        }
        self.file.set_len(end)
    }

    /// The lines behind the head.
    pub(super) fn lines(&self) -> Lines<'_> {
        let lines = BufReader::with_capacity(1 << 16, FileAt { file: &self.file, at: self.start });
        Lines { checkpoint: self, lines, number: 1, line: String::new() }
    }

    /// The batches from the first one on.
    pub(super) fn batches(&self) -> impl Iterator<Item = Result<Batch, Error>> {
        self.lines().filter_map(|line| match line {
            Ok(Line::Batch(batch)) => Some(Ok(batch)),
            Ok(Line::Wave(_)) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Adds lines while designs are measured; none where no other sweep goes on from them.
    pub(super) fn appender(&self) -> Option<Appender> {
        self.path.as_ref()?;
        Some(Appender(Mutex::new(Some(self.file.try_clone().ok()?))))
    }

    /// Adds the batch of the next designs.
    pub(super) fn append(&mut self, batch: &Batch) -> Result<(), Error> {
        self.append_text(&with_digest(&batch.to_line()))
    }

    /// Lets another sweep open the file.
    pub(super) fn release(&self) {
        // Without locks there is none to give back.
        let _ = self.file.unlock();
    }

    fn append_text(&mut self, text: &str) -> Result<(), Error> {
        append(&mut self.file, text).map_err(|error| match &self.path {
            Some(path) => unusable(path, &error),
            None => no_room(&error.to_string()),
        })
    }

    fn damaged(&self, why: &str) -> Error {
        self.path.as_deref().map_or_else(|| no_room(why), |path| refuse(path, why))
    }
}

fn append(file: &mut File, text: &str) -> io::Result<()> {
    file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(text.as_bytes()))
}

/// A line of a checkpoint.
pub(super) fn with_digest(line: &str) -> String {
    format!("{} {line}\n", digest(line, DIGEST_BYTES))
}

/// Adds lines from any thread.
#[derive(Debug)]
pub(super) struct Appender(Mutex<Option<File>>);

impl Appender {
    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, unless it is closed.
    pub(super) fn append(&self, line: &str) -> io::Result<()> {
        self.file().as_mut().map_or(Ok(()), |file| append(file, &with_digest(line)))
    }

    /// Adds nothing from now on.
    pub(super) fn close(&self) {
        *self.file() = None;
    }
}

/// Contents of a line.
pub(super) enum Line {
    Batch(Batch),
    Wave(Wave),
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        Batch::from_line(line).map(Self::Batch).or_else(|| Wave::from_line(line).map(Self::Wave))
    }
}

/// First line of a checkpoint.
fn head(subject: &str) -> String {
    format!("{}\n", json!({ "floatgate_sweep": 4, "subject": digest(subject, 32) }))
}

/// Reason for which a file that begins otherwise is refused.
fn foreign(found: &[u8]) -> &'static str {
    match found.starts_with(b"{\"floatgate_sweep\"") {
        true => "the checkpoint of another sweep, or of a setup that was changed since",
        false => "not a checkpoint of a sweep",
    }
}

/// The host refuses to read or to write a checkpoint. What is in it is whole up to a line that is cut off with the next start.
fn unusable(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Error::request(
            format!("{}: {error}", path.display()),
            "make room and start the same sweep again: it goes on from this checkpoint, which has all that is measured so far",
        ),
        _ => refuse(path, &error.to_string()),
    }
}

fn no_room(why: &str) -> Error {
    Error::request(
        format!("a temporary file in {}: {why}", std::env::temp_dir().display()),
        "set TMPDIR to a folder with room, or name a checkpoint",
    )
}

fn refuse(path: &Path, why: &str) -> Error {
    Error::request(
        format!("{}: {why}", path.display()),
        "name another file for the checkpoint, or remove this one",
    )
}

/// A file that is read from a place of its own.
struct FileAt<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileAt<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buf, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// The lines of a checkpoint.
pub(super) struct Lines<'a> {
    checkpoint: &'a Checkpoint,
    lines: BufReader<FileAt<'a>>,
    number: usize,
    line: String,
}

impl Iterator for Lines<'_> {
    type Item = Result<Line, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line.clear();
        self.number += 1;
        match self.lines.by_ref().take(LINE_MAX).read_line(&mut self.line) {
            Ok(0) => None,
            Ok(_) => {
                let (found, line) = self.line.trim_end().split_once(' ').unwrap_or_default();
                let parsed = (found == digest(line, DIGEST_BYTES)).then(|| Line::parse(line)).flatten();
                Some(
                    parsed
                        .ok_or_else(|| self.checkpoint.damaged(&format!("line {} is damaged", self.number))),
                )
            }
            Err(error) => Some(Err(self.checkpoint.damaged(&error.to_string()))),
        }
    }
}
