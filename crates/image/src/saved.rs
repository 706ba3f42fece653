//! Files that a repair saves and loses, and the files that it writes.

use std::path::Path;

use floatgate_files::{File, tempfile_in};
use floatgate_stack::{FileStore, Store};
use serde::Serialize;

use crate::ImageError;
use crate::image::{Access, Image};
use crate::report::Loss;
use floatgate_host::output::Output;

/// Method of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// It was clean: a copy.
    Copied,
    /// A copy was attached and mounted, as Linux would do.
    Recovered,
    /// In a copy, what is damaged was taken out; the rest is where it was.
    Mended,
    /// All that can be read was written anew.
    Rebuilt,
}

/// A volume that had to grow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grown {
    /// Its name; `None` without UBI.
    pub volume: Option<String>,
    /// LEBs that it had.
    pub lebs_before: u32,
    /// LEBs that it has now.
    pub lebs: u32,
}

/// Loss of a file to which no name leads.
const NAMELESS: &str = "its name, and where it was";

/// Files and losses of a device or a filesystem that was written anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) filesystems: u64,
    pub(crate) entries: u64,
    pub(crate) losses: Vec<Loss>,
    /// Those among the losses that are names of files.
    pub(crate) nameless: Vec<usize>,
    /// Bytes of an eraseblock that were a guess, and that new nodes tell now.
    pub(crate) told_erase_bytes: Option<u32>,
    pub(crate) grown: Vec<Grown>,
}

impl Saved {
    fn add(&mut self, other: Self) {
        self.filesystems += other.filesystems;
        self.entries += other.entries;
        let known = self.losses.len();
        self.nameless.extend(other.nameless.iter().map(|at| known + at));
        self.losses.extend(other.losses);
        self.told_erase_bytes = self.told_erase_bytes.or(other.told_erase_bytes);
        self.grown.extend(other.grown);
    }

    /// Takes in what was written of a filesystem, and the names that are damaged in it. Where one name is damaged and one file has none,
    /// that is one loss.
    pub(crate) fn add_with_names(&mut self, mut filled: Self, names: Vec<Loss>) {
        match (names.as_slice(), filled.nameless.as_slice()) {
            ([name], &[file]) => {
                filled.losses[file].what = format!("{NAMELESS}: perhaps {}: {}", name.path, name.what);
            }
            _ => self.losses.extend(names),
        }
        self.add(filled);
    }

    /// True when every file that was saved has its name.
    pub(crate) const fn has_all_names(&self) -> bool {
        self.nameless.is_empty()
    }

    /// A file was saved to which no name leads.
    pub(crate) fn record_nameless_file(&mut self, path: &str) {
        self.nameless.push(self.losses.len());
        self.record_loss(path, NAMELESS);
    }

    /// Says where the losses behind the first `known` are.
    pub(crate) fn place_losses(&mut self, known: usize, place: &str) {
        for loss in &mut self.losses[known..] {
            loss.what = format!("{place}: {}", loss.what);
        }
    }

    pub(crate) fn record_loss(&mut self, path: &str, what: impl Into<String>) {
        self.losses.push(Loss { path: path.to_owned(), what: what.into() });
    }
}

/// A file without a name for what is written before the output. The folder of the output has room for it.
pub(crate) fn scratch(output: &Output) -> Result<File, ImageError> {
    Ok(tempfile_in(output.folder()).map_err(|error| output.failed(error))?)
}

/// The new image to be written to, with OOB if the old one has some.
pub(crate) fn target(image: &Image, out: &Path) -> Result<Box<dyn Store>, ImageError> {
    if image.corrected.is_some() {
        return image.open_like(out, Access::Write)?.store();
    }
    let file = File::options().read(true).write(true).open(out).map_err(ImageError::File)?;
    Ok(Box::new(FileStore::new(file).map_err(ImageError::Store)?))
}
