//! An image that is written beside its place, and gets there when it is complete.

use crate::common::{self, Failure};
use std::fs::File;
use std::path::{Path, PathBuf};

pub(super) struct Output {
    /// As the user named it.
    name: PathBuf,
    /// Where it belongs.
    place: PathBuf,
    /// Where it is until then; none once it is there.
    beside: Option<PathBuf>,
}

impl Output {
    /// A new file, for reading and writing. `input` is not to be replaced by it.
    pub(super) fn create(path: &Path, input: &Path) -> Result<(Self, File), Failure> {
        let same = path.canonicalize().ok().zip(input.canonicalize().ok());
        if same.is_some_and(|(output, input)| output == input) {
            let message = format!("{} would be written over {}", path.display(), input.display());
            return Err(Failure::new(message, "name another file with -o"));
        }
        // What a link points to is replaced, not the link.
        let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if place.exists() && !place.is_file() {
            let message = format!("{} is no file that can be replaced", path.display());
            return Err(Failure::new(message, "name a file with -o"));
        }
        let mut name = place.as_os_str().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let beside = PathBuf::from(name);
        let file = File::options().read(true).write(true).create_new(true).open(&beside);
        let file = file.map_err(|error| unwritable(path, &error))?;
        Ok((Self { name: path.to_owned(), place, beside: Some(beside) }, file))
    }

    /// Puts the complete file into its place.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if let Some(beside) = &self.beside {
            std::fs::rename(beside, &self.place).map_err(|error| unwritable(&self.name, &error))?;
        }
        self.beside = None;
        common::tell(&format!("wrote {}", self.name.display()));
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
