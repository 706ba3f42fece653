//! Input files and pipes.

use crate::common::Failure;
use crate::terminal::unless_quiet;
use floatgate_host::open::open_input;
use floatgate_host::output::is_stdout;
use floatgate_image::dump_kind::DumpKind;
use floatgate_image::ecc::{EccError, Transform, unpack};
use floatgate_mtd::advice::Help;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// An input file, or `-` for stdin.
pub(super) struct Input {
    pub(super) reader: Box<dyn Read>,
    bytes: Option<u64>,
}

impl Input {
    /// Opens a file without unpacking it.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if is_stdout(path) {
            return Ok(Self { reader: Box::new(io::stdin()), bytes: None });
        }
        let (file, bytes) = Self::file(path)?;
        Ok(Self { reader: file, bytes })
    }

    /// Opens a file with parts of a dump, in which each page has `page_bytes` bytes. A compressed or sparse file is
    /// unpacked. A file of whole pages is a dump, whatever its first bytes are.
    pub(super) fn open_dump(path: &Path, page_bytes: u32) -> Result<Self, Failure> {
        if is_stdout(path) {
            return Self::unpacked(path, io::stdin(), None);
        }
        let (file, bytes) = Self::file(path)?;
        Self::of_dump(path, file, bytes, page_bytes)
    }

    fn of_dump(
        path: &Path,
        file: Box<dyn Read>,
        bytes: Option<u64>,
        page_bytes: u32,
    ) -> Result<Self, Failure> {
        if bytes.is_some_and(|bytes| page_bytes > 0 && bytes.is_multiple_of(page_bytes.into())) {
            return Ok(Self { reader: file, bytes });
        }
        Self::unpacked(path, file, bytes)
    }

    /// Opens a file. Returns its length as well, if it has one.
    fn file(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
        let opened = open_input(path).and_then(|file| Ok((std::fs::metadata(path)?, file)));
        let (metadata, file) = opened.map_err(|error| unreadable(path, &error))?;
        if metadata.is_dir() {
            return Err(Failure::new(format!("{} is a folder", path.display()), "name a file"));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok((file, bytes))
    }

    fn unpacked(path: &Path, file: impl Read + 'static, bytes: Option<u64>) -> Result<Self, Failure> {
        let (reader, packings) = unpack(file).map_err(|error| unreadable(path, &error))?;
        let bytes = bytes.filter(|_| packings.is_empty());
        Ok(Self { reader, bytes })
    }

    /// Exchanges the bytes or bits of pages with `page_bytes` bytes.
    pub(super) fn transform(&mut self, transform: Transform, page_bytes: u32) {
        let inner = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = transform.reader(inner, page_bytes);
    }

    /// Progress bar on stderr; hidden if stderr is no terminal.
    pub(super) fn progress(&self) -> ProgressBar {
        let Some(bytes) = self.bytes else { return unless_quiet(ProgressBar::new_spinner()) };
        let style = ProgressStyle::with_template("{wide_bar} {binary_bytes} of {binary_total_bytes}");
        unless_quiet(ProgressBar::new(bytes))
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "name a file that can be read, or - for stdin")
}

/// Kind of the dump in a file, which is unpacked first; `None` for input that can be read only once.
pub(super) fn kind_of(path: &Path) -> Result<Option<DumpKind>, Failure> {
    if reads_once(path) {
        return Ok(None);
    }
    let kind = DumpKind::of_file(whole(path)?);
    kind.map(Some).map_err(|error| Failure::new(format!("{}: {error}", path.display()), error.help()))
}

/// A file that can be read at any position. The data of a pipe, and the contents of a compressed file, are copied into
/// a temporary file.
pub(super) fn whole(path: &Path) -> Result<File, Failure> {
    let input: Box<dyn Read> = if is_stdout(path) { Box::new(io::stdin()) } else { Input::file(path)?.0 };
    let opened = unpack(input).and_then(|(mut reader, packings)| {
        if packings.is_empty() && !reads_once(path) {
            return File::open(path);
        }
        let mut file = tempfile::tempfile()?;
        io::copy(&mut reader, &mut file)?;
        Ok(file)
    });
    opened.map_err(|error| unreadable(path, &error))
}

/// A file that is opened by its name more than once. The data of a pipe is stored in a temporary file.
pub(super) struct Repeatable {
    path: PathBuf,
    kept: Option<NamedTempFile>,
}

impl Repeatable {
    /// Stores the data of a pipe, unless it is opened only once.
    pub(super) fn new(path: &Path, is_opened_once: bool) -> Result<Self, Failure> {
        let mut kept = None;
        if !is_opened_once && reads_once(path) {
            let copied = NamedTempFile::new().and_then(|mut file| {
                copy_to(path, file.as_file_mut())?;
                Ok(file)
            });
            kept = Some(copied.map_err(|error| not_kept(path, &error))?);
        }
        Ok(Self { path: path.to_owned(), kept })
    }

    /// Name to open.
    pub(super) fn path(&self) -> &Path {
        self.kept.as_ref().map_or(&self.path, NamedTempFile::path)
    }
}

/// A file that is read several times. The data of a pipe is stored in a temporary file.
pub(super) struct Source {
    path: PathBuf,
    /// Size of each page in the file, bytes.
    page_bytes: u32,
    kept: Option<File>,
}

impl Source {
    pub(super) fn new(path: &Path, page_bytes: u32) -> Result<Self, Failure> {
        let kept = if reads_once(path) { Some(keep(path)?) } else { None };
        Ok(Self { path: path.to_owned(), page_bytes, kept })
    }

    /// The same file with pages of another size.
    pub(super) fn with_pages(&self, page_bytes: u32) -> Result<Self, Failure> {
        let kept = self.kept.as_ref().map(File::try_clone).transpose();
        let kept = kept.map_err(|error| unreadable(&self.path, &error))?;
        Ok(Self { path: self.path.clone(), page_bytes, kept })
    }

    /// True if the file may consist of whole pages of another size, as of those that it has.
    pub(super) fn allows(&self, page_bytes: u32) -> bool {
        let bytes = std::fs::metadata(&self.path).map_or(0, |found| found.len());
        let is_whole = |page: u32| page > 0 && bytes.is_multiple_of(page.into());
        is_whole(page_bytes) || !is_whole(self.page_bytes)
    }

    /// Opens the file at its start.
    pub(super) fn open(&self) -> Result<Input, Failure> {
        let Some(kept) = &self.kept else { return Input::open_dump(&self.path, self.page_bytes) };
        let again = kept.try_clone().and_then(|mut file| {
            file.rewind()?;
            Ok((file.metadata()?.len(), file))
        });
        let (bytes, file) = again.map_err(|error| unreadable(&self.path, &error))?;
        Input::of_dump(&self.path, Box::new(file), Some(bytes), self.page_bytes)
    }
}

/// Copies the data of a pipe to an unnamed temporary file.
fn keep(path: &Path) -> Result<File, Failure> {
    let copied = tempfile::tempfile().and_then(|mut file| {
        copy_to(path, &mut file)?;
        Ok(file)
    });
    copied.map_err(|error| not_kept(path, &error))
}

fn copy_to(path: &Path, file: &mut File) -> io::Result<()> {
    if is_stdout(path) {
        io::copy(&mut io::stdin().lock(), file)?;
    } else {
        io::copy(&mut open_input(path)?, file)?;
    }
    Ok(())
}

fn not_kept(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        format!("{}: {error}", path.display()),
        "the code of a dump is found by reading it twice: name a file, or have room in the folder for temporary files (TMPDIR)",
    )
}

/// True if the path leads to data that can be read only once.
fn reads_once(path: &Path) -> bool {
    is_stdout(path) || std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Failure of the library with the name of the file that it concerns: the output if it cannot be written, else the input.
pub(super) fn failure_of((input, output): (&Path, &Path), error: &EccError) -> Failure {
    failure(if matches!(error, EccError::Write { .. }) { output } else { input }, error)
}

/// Failure of the library, with the name of the file.
pub(super) fn failure(path: &Path, error: &EccError) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), error.help())
}
