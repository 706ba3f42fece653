//! Batches on disk: an append-only file from which an interrupted sweep continues, and from which its rows are written
//! at the end. So memory does not grow with the number of designs. Between the batches, the file contains waves of
//! members of designs that take long.

use super::batch::Batch;
use super::figures::ChipFigures;
use floatgate_sim::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum length of a line, bytes: a longer one is not a batch.
const LINE_MAX: u64 = 256 << 20;

/// Length of the digest before each batch, bytes, which reveals a changed number.
const DIGEST_BYTES: usize = 8;

/// First `bytes` bytes of a text's digest, in hexadecimal.
fn digest(text: &str, bytes: usize) -> String {
    Sha256::digest(text).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// All batches of a sweep so far, in the order of the designs.
#[derive(Debug)]
pub(super) struct Checkpoint {
    file: File,
    /// Path of the file; `None` for a temporary file, from which no other sweep can continue.
    path: Option<PathBuf>,
    /// Offset of the first batch, bytes.
    start: u64,
}

impl Checkpoint {
    /// Creates a checkpoint in an unnamed temporary file.
    ///
    /// # Errors
    /// The host cannot create the file.
    pub(super) fn temporary() -> Result<Self, Error> {
        let file = tempfile::tempfile().map_err(|error| {
            Error::request(
                format!("a temporary file: {error}"),
                "set TMPDIR to a folder with room, or name a checkpoint",
            )
        })?;
        Ok(Self { file, path: None, start: 0 })
    }

    /// Opens or creates a checkpoint. `subject` is the text of everything on which the figures depend; a checkpoint
    /// with another subject is refused. An incomplete last line is removed.
    ///
    /// # Errors
    /// The file cannot be opened, is not a checkpoint, belongs to another sweep, or is in use.
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
        // Some network filesystems do not support locks.
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
            // The file is empty or has an incomplete head. Any other file is left unchanged.
            part if head.as_bytes().starts_with(part) => {
                checkpoint.file.set_len(0).map_err(failed)?;
                checkpoint.append_text(&head)?;
            }
            other => return Err(refuse(path, foreign(other))),
        }
        Ok(checkpoint)
    }

    /// Opens the checkpoint of a share for reading.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), except for locks, which are ignored.
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

    /// Truncates the file after its last line feed.
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

    /// Lines after the head.
    pub(super) fn lines(&self) -> Lines<'_> {
        let lines = BufReader::with_capacity(1 << 16, FileAt { file: &self.file, at: self.start });
        Lines { checkpoint: self, lines, number: 1, line: String::new() }
    }

    /// All batches in order.
    pub(super) fn batches(&self) -> impl Iterator<Item = Result<Batch, Error>> {
        self.lines().filter_map(|line| match line {
            Ok(Line::Batch(batch)) => Some(Ok(batch)),
            Ok(Line::Wave(_)) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Appender for lines during the measurement; `None` for a temporary file, from which no other sweep can continue.
    pub(super) fn appender(&self) -> Option<Appender> {
        self.path.as_ref()?;
        Some(Appender(Mutex::new(Some(self.file.try_clone().ok()?))))
    }

    /// Appends the batch of the next designs.
    pub(super) fn append(&mut self, batch: &Batch) -> Result<(), Error> {
        self.append_text(&with_digest(&batch.to_line()))
    }

    /// Releases the file, so that another sweep can open it.
    pub(super) fn release(&self) {
        // Without locks there is nothing to release, so an error is ignored.
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

/// Line of a checkpoint: digest and contents.
pub(super) fn with_digest(line: &str) -> String {
    format!("{} {line}\n", digest(line, DIGEST_BYTES))
}

/// Some consecutive members of a design, after those of earlier waves.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Wave {
    pub(super) design: usize,
    pub(super) members: Vec<ChipFigures>,
}

impl Wave {
    /// Parses a wave from its line; `None` for an invalid line.
    fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

/// Appender of lines that any thread can use.
#[derive(Debug)]
pub(super) struct Appender(Mutex<Option<File>>);

impl Appender {
    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line, unless the appender is closed.
    pub(super) fn append(&self, line: &str) -> io::Result<()> {
        self.file().as_mut().map_or(Ok(()), |file| append(file, &with_digest(line)))
    }

    /// Closes the appender: later lines are dropped.
    pub(super) fn close(&self) {
        *self.file() = None;
    }
}

/// Parsed line of a checkpoint.
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

/// Reason why a file with another head is refused.
fn foreign(found: &[u8]) -> &'static str {
    match found.starts_with(b"{\"floatgate_sweep\"") {
        true => "the checkpoint of another sweep, or of a setup that was changed since",
        false => "not a checkpoint of a sweep",
    }
}

/// Error of the host when it reads or writes a checkpoint. The contents stay valid; the next start removes an
/// incomplete line.
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

/// Reader of a file with its own position.
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

/// Iterator over the lines of a checkpoint.
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
