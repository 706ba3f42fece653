//! Files that a repair restores or loses, and the files that it writes.

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
    /// The image was clean, and was copied.
    Copied,
    /// A copy was attached and mounted, as Linux does.
    Recovered,
    /// Damaged nodes were removed from a copy; all other data has its former position.
    Mended,
    /// All readable data was written again.
    Rebuilt,
}

/// A volume that had to grow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grown {
    /// Name of the volume; `None` without UBI.
    pub volume: Option<String>,
    /// Former number of LEBs.
    pub lebs_before: u32,
    /// New number of LEBs.
    pub lebs: u32,
}

/// Text of the loss for a file without a name.
const NAMELESS: &str = "its name, and where it was";

/// Restored files and losses of a device or a filesystem that was written again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) filesystems: u64,
    pub(crate) entries: u64,
    pub(crate) losses: Vec<Loss>,
    /// Indices of losses that are names of files.
    pub(crate) nameless: Vec<usize>,
    /// Size of an eraseblock that was a guess, and that new nodes now imply, bytes.
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

    /// Adds the results of a filesystem, and its damaged names. A damaged name and a file without a name are one loss
    /// together.
    pub(crate) fn add_with_names(&mut self, mut filled: Self, names: Vec<Loss>) {
        match (names.as_slice(), filled.nameless.as_slice()) {
            ([name], &[file]) => {
                filled.losses[file].what = format!("{NAMELESS}: perhaps {}: {}", name.path, name.what);
            }
            _ => self.losses.extend(names),
        }
        self.add(filled);
    }

    /// True if every restored file has its name.
    pub(crate) const fn has_all_names(&self) -> bool {
        self.nameless.is_empty()
    }

    /// Records a restored file without a name.
    pub(crate) fn record_nameless_file(&mut self, path: &str) {
        self.nameless.push(self.losses.len());
        self.record_loss(path, NAMELESS);
    }

    /// Adds the position to the losses after the first `known` ones.
    pub(crate) fn place_losses(&mut self, known: usize, place: &str) {
        for loss in &mut self.losses[known..] {
            loss.what = format!("{place}: {}", loss.what);
        }
    }

    pub(crate) fn record_loss(&mut self, path: &str, what: impl Into<String>) {
        self.losses.push(Loss { path: path.to_owned(), what: what.into() });
    }
}

/// Unnamed temporary file for data that is written before the output. The folder of the output has space for it.
pub(crate) fn scratch(output: &Output) -> Result<File, ImageError> {
    Ok(tempfile_in(output.folder()).map_err(|error| output.failed(error))?)
}

/// Store for the new image, with OOB if the old image has OOB.
pub(crate) fn target(image: &Image, out: &Path) -> Result<Box<dyn Store>, ImageError> {
    if image.corrected.is_some() {
        return image.open_like(out, Access::Write)?.store();
    }
    let file = File::options().read(true).write(true).open(out).map_err(ImageError::File)?;
    Ok(Box::new(FileStore::new(file).map_err(ImageError::Store)?))
}
