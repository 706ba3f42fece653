//! Files and pipes that are read once.

use crate::common::Failure;
use crate::output::unless_quiet;
use floatgate_host::output::is_stdout;
use floatgate_image::ecc::EccError;
use floatgate_mtd::advice::Help;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A file to be read, or `-` for stdin.
pub(super) struct Input {
    pub(super) reader: Box<dyn Read>,
    bytes: Option<u64>,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if is_stdout(path) {
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
        let Some(bytes) = self.bytes else { return unless_quiet(ProgressBar::new_spinner()) };
        let style = ProgressStyle::with_template("{wide_bar} {binary_bytes} of {binary_total_bytes}");
        unless_quiet(ProgressBar::new(bytes))
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

/// True when what a path leads to is gone once it was read.
pub(super) fn reads_once(path: &Path) -> bool {
    is_stdout(path) || std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Failure of the library, with the name of the file.
pub(super) fn failure(path: &Path, error: &EccError) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), error.help())
}
