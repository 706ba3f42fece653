//! Damage in an image: UBI, UBIFS, the data of files. Nothing is written.
//!
//! The formats find what is wrong (`format`); here it is brought together in one report.

use floatgate_stack::ubifs::Severity;

use super::format::location::ImageLocation;
pub use super::report::{
    CheckReport, Finding, ImageCheck, Layer, Outcome, PebCounts, Structure, VolumeCheck,
};
use super::selection::{Chosen, Selection};
use crate::ImageError;
use crate::image::Image;
use crate::oob::Corrected;

/// Checks all that is in a file, or what is chosen.
///
/// # Errors
/// The file cannot be read, or what is chosen is not there.
pub fn check(image: &Image, selection: &Selection) -> Result<CheckReport, ImageError> {
    let found = match (selection.offset, image.found.as_slice()) {
        (Some(_), _) | (None, [_]) => vec![image.choose(selection)?],
        // Only UBI has volumes.
        _ => image
            .found
            .iter()
            .filter(|one| selection.volume.is_none() || one.has_volumes())
            .cloned()
            .collect(),
    };
    check_found(image, found, selection)
}

/// Checks these images of a file.
///
/// # Errors
/// The file cannot be read, or the volume that is chosen is not there.
pub(super) fn check_found(
    image: &Image,
    found: Vec<ImageLocation>,
    selection: &Selection,
) -> Result<CheckReport, ImageError> {
    let mut report = CheckReport::default();
    for image_of in &found {
        note_ecc(image.corrected.as_ref(), image_of, &mut report);
    }
    for found in found {
        found.format().check(Chosen { image, found: &found, selection }, &mut report)?;
    }
    report.set_outcome();
    Ok(report)
}

fn note_ecc(corrected: Option<&Corrected>, found: &ImageLocation, report: &mut CheckReport) {
    let Some(corrected) = corrected else { return };
    let layer = found.format().layer();
    // What the OOB says of wrong bits is not known.
    let severity = if corrected.has_unknown_code(found) { Severity::Recoverable } else { Severity::Note };
    let without_code = corrected.notes_without_code(found);
    for note in &without_code {
        let consequence = "wrong bits are seen only where a checksum covers them, and the dump is neither repaired nor changed";
        report.add(Finding::new(layer, severity, Structure::Page, note.clone(), consequence));
    }
    for note in corrected.notes(found).into_iter().filter(|note| !without_code.contains(note)) {
        let consequence = "what these bits hold is damaged; where that matters, more findings follow";
        report.add(Finding::new(layer, Severity::Recoverable, Structure::Page, note, consequence));
    }
}
