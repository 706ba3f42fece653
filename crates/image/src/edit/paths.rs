//! Files that a recovery gives up: a mount for writing keeps nothing of a JFFS2 that has lost its name, or the directory that it was in.

use std::collections::BTreeSet;

use floatgate_stack::fs::FileSystem;

use crate::detect::{Content, Found};
use crate::extract::Loss;
use crate::format::jffs2;
use crate::walk::{Directory, Walk};
use crate::{Image, ImageError};

/// Paths of a filesystem before it is recovered.
pub(crate) struct Paths(BTreeSet<Vec<Vec<u8>>>);

impl Paths {
    /// Those of a JFFS2 that is to be recovered, as it is read; none of anything else.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn before(image: &Image, found: &Found, recovers: bool) -> Result<Self, ImageError> {
        match &found.content {
            Content::Jffs2(shape) if recovers => {
                let fs = jffs2::mount(image.store()?, found, shape);
                Ok(Self(fs.map_or_else(|_| BTreeSet::new(), |mut fs| paths(&mut fs))))
            }
            _ => Ok(Self(BTreeSet::new())),
        }
    }

    /// Those that the recovered filesystem does not have.
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
