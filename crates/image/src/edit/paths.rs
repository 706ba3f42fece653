//! Files that a recovery removes, because their names or their directories are lost.

use std::collections::BTreeSet;

use floatgate_stack::fs::FileSystem;

use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::image::Image;
use crate::report::Loss;
use crate::walk::{Directory, Walk};

/// Paths of a filesystem before it is recovered.
pub(crate) struct Paths(BTreeSet<Vec<Vec<u8>>>);

impl Paths {
    /// Paths before the recovery of a filesystem that may remove files in it; no paths for other filesystems.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn before(image: &Image, found: &ImageLocation, recovers: bool) -> Result<Self, ImageError> {
        let fs = if recovers { found.format().before_recovery(image, found)? } else { None };
        Ok(Self(fs.map_or_else(BTreeSet::new, |mut fs| paths(&mut *fs))))
    }

    /// Paths that the recovered filesystem does not contain.
    pub(crate) fn missing_in(self, fs: &mut dyn FileSystem) -> Vec<Loss> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let lost = "its name, or its directory, is lost: a mount for writing gives it up, as Linux does";
        self.0.difference(&paths(fs)).map(|path| Loss::new(path, lost)).collect()
    }
}

fn paths(fs: &mut dyn FileSystem) -> BTreeSet<Vec<Vec<u8>>> {
    let mut walk = Walk::new(fs.root());
    let mut all = BTreeSet::new();
    while let Some(directory) = walk.next(fs) {
        let Ok(Directory { path, entries, .. }) = directory else { continue };
        all.extend(entries.into_iter().map(|entry| [path.as_slice(), &[entry.name]].concat()));
    }
    all
}
