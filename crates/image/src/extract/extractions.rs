//! Extraction of the filesystem or the volumes that are meant.

use floatgate_stack::ubifs::Behaviour;

use super::source::FileSystemSource;
use super::target::{ExtractError, ExtractLimits, Extracted, Extracting, Target};
use super::walk::extract;
use crate::ImageError;
use crate::image::{Image, ImageFs};
use crate::report::At;
use crate::selection::{Chosen, Selection};

/// A mounted filesystem whose files are extracted.
struct Mounted(ImageFs);

impl Extracting for Mounted {
    fn run(
        mut self: Box<Self>,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        extract(&mut FileSystemSource(&mut *self.0), target, limits, progress)
    }
}

/// Selection of what is extracted: a filesystem, or all volumes of a device that has several.
pub struct Extractions(Box<dyn Extracting>);

impl Extractions {
    /// Finds what is meant: the volume that was named, or all of them. A filesystem that is alone is extracted as it is.
    ///
    /// # Errors
    /// Several images and none chosen; nothing is left of a filesystem that was named or is alone; the host's.
    pub fn open(image: &Image, selection: &Selection) -> Result<Self, ImageError> {
        let found = image.choose(selection)?;
        if image.keys.is_some() && found.is_flash() {
            // The files of a survey are not decrypted: those of a mounted filesystem are.
            let fs = image.mount(selection, true, Behaviour::default())?;
            return Ok(Self(Box::new(Mounted(fs))));
        }
        found.format().extraction(Chosen { image, found: &found, selection }).map(Self)
    }

    /// Finds what there was at an earlier moment, of one filesystem. What garbage collection has erased since
    /// is missing, or has an older state; the report says so where this is visible.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), several volumes without a selection, and a point in time of another kind of
    /// filesystem.
    pub fn open_at(image: &Image, selection: &Selection, at: At) -> Result<Self, ImageError> {
        let found = image.choose(selection)?;
        found.format().extraction_at(Chosen { image, found: &found, selection }, at).map(Self)
    }

    /// Extracts all of it. The limits hold for each filesystem.
    ///
    /// # Errors
    /// The errors of [`extract`](super::extract).
    pub fn run(
        self,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        self.0.run(target, limits, progress)
    }
}
