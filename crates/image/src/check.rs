//! Check of an image for damage in UBI, in UBIFS and in the data of files. Nothing is written.
//!
//! The modules of `format` find the damage; this module merges their findings into one report.

use floatgate_stack::fs::Error;
use floatgate_stack::ubifs::Severity;

use super::format::location::ImageLocation;
pub use super::report::{
    CheckReport, Finding, ImageCheck, Layer, Outcome, PebCounts, Structure, VolumeCheck,
};
use super::selection::{Chosen, Selection};
use crate::ImageError;
use crate::image::Image;
use crate::map;
use crate::oob::Corrected;

/// Size of the smallest filesystem that is searched for, bytes.
const SMALLEST: u64 = 4096;

/// Checks the whole file, or the selected part of it.
///
/// # Errors
/// The file cannot be read, or the selected part does not exist.
pub fn check(image: &Image, selection: &Selection) -> Result<CheckReport, ImageError> {
    let found = match (selection.offset, image.found.as_slice()) {
        (Some(_), _) | (None, [_]) => vec![image.choose(selection)?],
        // Only a UBI device has volumes.
        _ => image
            .found
            .iter()
            .filter(|one| selection.volume.is_none() || one.has_volumes())
            .cloned()
            .collect(),
    };
    let beside = match (selection.offset, &selection.volume) {
        (None, None) => beside(image, &found)?,
        _ => Vec::new(),
    };
    let mut report = check_found(image, found, selection)?;
    for found in beside {
        check_beside(image, &found, selection, &mut report)?;
    }
    report.set_outcome();
    Ok(report)
}

/// Read-only filesystems of a dump beside its flash images.
fn beside(image: &Image, found: &[ImageLocation]) -> Result<Vec<ImageLocation>, ImageError> {
    let store = image.store()?;
    let mut known: Vec<_> = found.iter().map(|found| found.offset..found.offset + found.len).collect();
    known.sort_by_key(|known| known.start);
    let covered: u64 = known.iter().map(|known| known.end - known.start).sum();
    let has_room = covered + SMALLEST <= store.size_bytes();
    if !has_room || !found.iter().any(ImageLocation::is_flash) {
        return Ok(Vec::new());
    }
    Ok(map::readable_beside(&*store, &known)?.iter().map(ImageLocation::tree).collect())
}

/// Checks one read-only filesystem of a dump.
fn check_beside(
    image: &Image,
    found: &ImageLocation,
    selection: &Selection,
    report: &mut CheckReport,
) -> Result<(), ImageError> {
    let before = report.findings.len();
    note_ecc(image.corrected.as_ref(), found, report);
    match found.format().check(Chosen { image, found, selection }, report) {
        Err(ImageError::Filesystem(error @ Error::Unsupported(_))) => {
            let what = format!("{}: {error}", found.format().kind());
            let consequence = "its files are not checked";
            let structure = Structure::Filesystem;
            report.add(Finding::new(Layer::Data, Severity::Recoverable, structure, what, consequence));
        }
        checked => checked?,
    }
    for finding in report.findings.iter_mut().skip(before) {
        finding.offset = finding.offset.or(Some(image.file_byte(found.offset)));
    }
    Ok(())
}

/// Checks the given images of a file.
///
/// # Errors
/// The file cannot be read, or the selected volume does not exist.
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
    forget_notes(&mut report);
    report.set_outcome();
    Ok(report)
}

/// Removes notes on pages that a damage finding already covers.
fn forget_notes(report: &mut CheckReport) {
    let is_page = |finding: &&Finding| finding.structure == Structure::Page;
    let judged: Vec<String> = report
        .findings
        .iter()
        .filter(is_page)
        .filter(|finding| finding.severity == Outcome::Damaged)
        .filter_map(|finding| Some(Corrected::place_of_page(finding.offset?)))
        .collect();
    report.findings.retain(|finding| {
        !(is_page(&finding)
            && finding.severity == Outcome::Recoverable
            && judged.iter().any(|place| finding.what.contains(place)))
    });
}

fn note_ecc(corrected: Option<&Corrected>, found: &ImageLocation, report: &mut CheckReport) {
    let Some(corrected) = corrected else { return };
    let layer = found.format().layer();
    // The number of wrong bits is unknown when the code in the OOB is.
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
