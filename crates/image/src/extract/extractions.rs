//! Extraction of the selected filesystem or volumes.

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

/// The parts to be extracted: a filesystem, or all volumes of a device with several volumes.
pub struct Extractions(Box<dyn Extracting>);

impl Extractions {
    /// Finds the parts to extract: the selected volume, or all volumes. A single filesystem is extracted without a
    /// folder of its own.
    ///
    /// # Errors
    /// Several images without a selection, no readable part of a selected or single filesystem, or an error of the
    /// host.
    pub fn open(image: &Image, selection: &Selection) -> Result<Self, ImageError> {
        let found = image.choose(selection)?;
        if image.keys.is_some() && found.is_flash() {
            // Files of a mounted filesystem are decrypted, but not files of a survey.
            let fs = image.mount(selection, true, Behaviour::default())?;
            return Ok(Self(Box::new(Mounted(fs))));
        }
        found.format().extraction(Chosen { image, found: &found, selection }).map(Self)
    }

    /// Finds the files of one filesystem in the state at an earlier point in time. Data that garbage collection has
    /// erased since then is missing, or is in an older state; the report lists such losses if they are visible.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), several volumes without a selection, and a point in time of another kind of
    /// filesystem.
    pub fn open_at(image: &Image, selection: &Selection, at: At) -> Result<Self, ImageError> {
        let found = image.choose(selection)?;
        found.format().extraction_at(Chosen { image, found: &found, selection }, at).map(Self)
    }

    /// Extracts all selected parts. The limits apply to each filesystem.
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
