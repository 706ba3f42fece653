//! Files and pipes: input that is read once, output that is there whole or not at all.

use crate::common::{self, Failure};
use floatgate_lab::ecc::EccError;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// A file to be read, or `-` for stdin.
pub(super) struct Input {
    pub(super) reader: Box<dyn Read>,
    bytes: Option<u64>,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if is_pipe(path) {
            return Ok(Self { reader: Box::new(std::io::stdin()), bytes: None });
        }
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(|error| {
            Failure::new(
                format!("{}: {error}", path.display()),
                "name a file that can be read, or - for stdin",
            )
        })?;
        if metadata.is_dir() {
            return Err(Failure::new(format!("{} is a folder", path.display()), "name a file"));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok(Self { reader: Box::new(file), bytes })
    }

    /// A progress bar on stderr; nothing where that is no terminal.
    pub(super) fn progress(&self) -> ProgressBar {
        let Some(bytes) = self.bytes else { return ProgressBar::new_spinner() };
        let style = ProgressStyle::with_template("{wide_bar} {binary_bytes} of {binary_total_bytes}");
        ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

/// Whether a path stands for stdin or stdout.
pub(super) fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether what a path leads to is gone once it was read.
pub(super) fn reads_once(path: &Path) -> bool {
    is_pipe(path) || std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// What the library says about a file.
pub(super) fn failure(path: &Path, error: &EccError) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), error.help())
}

/// A file that is being written beside its place, and gets there when it is complete.
pub(super) struct Output {
    /// As the user named it.
    name: PathBuf,
    /// Where it belongs.
    place: PathBuf,
    pub(super) writer: Box<dyn Write>,
    /// Where it is until then; none of pipes and devices.
    beside: Option<PathBuf>,
}

impl Output {
    /// Opens `path` for writing; `-` is stdout.
    pub(super) fn create(path: &Path, inputs: &[&Path]) -> Result<Self, Failure> {
        if is_pipe(path) {
            return Self::stdout();
        }
        if let Some(input) = inputs.iter().find(|input| same_file(input, path)) {
            let message = format!("{} would be written over {}", path.display(), input.display());
            return Err(Failure::new(message, "name another file with -o"));
        }
        // What a link points to is replaced, not the link; a device is written to, not replaced.
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if place.is_dir() {
            return Err(Failure::new(format!("{} is a folder", path.display()), "name a file with -o"));
        }
        let direct = place.exists() && !place.is_file();
        let beside = (!direct).then(|| beside(&place));
        let opened = match &beside {
            Some(beside) => File::create_new(beside),
            None => File::options().write(true).open(&place),
        };
        let writer = Box::new(opened.map_err(|error| unwritable(path, &error))?);
        Ok(Self { name: path.to_owned(), place, writer, beside })
    }

    fn stdout() -> Result<Self, Failure> {
        if std::io::stdout().is_terminal() {
            return Err(Failure::new(
                "the output is binary, and stdout a terminal",
                "name a file with -o, or pipe the output into a command",
            ));
        }
        Ok(Self { name: "-".into(), place: "-".into(), writer: Box::new(std::io::stdout()), beside: None })
    }

    /// Puts the complete file into its place.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let moved = self.writer.flush().and_then(|()| match &self.beside {
            Some(beside) => std::fs::rename(beside, &self.place),
            None => Ok(()),
        });
        moved.map_err(|error| unwritable(&self.name, &error))?;
        self.beside = None;
        if !is_pipe(&self.name) {
            common::tell(&format!("wrote {}", self.name.display()));
        }
        Ok(())
    }
}

impl Drop for Output {
    /// An output that was not finished leaves nothing behind.
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = std::fs::remove_file(beside);
        }
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "name a file in a folder that you can write to")
}

/// A name beside `path` that no other run uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    PathBuf::from(name)
}

/// Whether two paths lead to the same file.
fn same_file(one: &Path, other: &Path) -> bool {
    let same_place = match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other && one.is_file(),
        _ => false,
    };
    same_place || same_inode(one, other)
}

#[cfg(unix)]
fn same_inode(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let key = |path: &Path| std::fs::metadata(path).ok().filter(|m| m.is_file()).map(|m| (m.dev(), m.ino()));
    key(one).is_some_and(|one| Some(one) == key(other))
}

#[cfg(not(unix))]
const fn same_inode(_: &Path, _: &Path) -> bool {
    false
}
