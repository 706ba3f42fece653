//! Dump of one node or header, field by field, with the names in `docs/spec`. Damaged images are supported.

use super::format::{any_node, structure};
pub use super::report::{Area, DumpTarget, Dumped, Field};
use super::selection::{Chosen, Selection};
use crate::ImageError;
use crate::image::Image;
use crate::words::count;

/// Finds the requested structure in an image.
///
/// # Errors
/// The image cannot be read, or does not contain the structure.
pub fn dump(image: &Image, selection: &Selection, wanted: &DumpTarget) -> Result<Vec<Dumped>, ImageError> {
    if let DumpTarget::At(at) = *wanted {
        return Ok(vec![at_byte(image, at)?]);
    }
    let found = image.choose(selection)?;
    found.format().dump(Chosen { image, found: &found, selection }, wanted)
}

/// Structure that begins at a byte of the file.
fn at_byte(image: &Image, at: u64) -> Result<Dumped, ImageError> {
    let in_oob =
        || ImageError::NoNode(format!("byte {at} of the dump is in the OOB, or before its first page"));
    let place = match &image.corrected {
        Some(corrected) => corrected.data_byte(at).ok_or_else(in_oob)?,
        None => image.splices.place(at),
    };
    let store = image.store()?;
    if place >= store.size_bytes() {
        let size = image.file_byte(store.size_bytes());
        return Err(ImageError::NoNode(format!(
            "there is no byte {at}: the file has {}",
            count(size, "byte")
        )));
    }
    let mut bytes = vec![0; 1 << 17];
    store.read_at(place, &mut bytes).map_err(ImageError::Store)?;
    let mut dumped = match structure(&bytes) {
        Some(dumped) => dumped,
        None => {
            let mut around = image.found.iter().filter(|found| found.holds(place));
            around.try_for_each(|found| found.format().require_node(at))?;
            any_node(&bytes)
        }
    };
    dumped.at = Some(at);
    Ok(dumped)
}
