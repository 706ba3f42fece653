//! Bytes of a volume with any contents.

use std::io::Write;

pub use super::report::RawVolume;
use crate::ImageError;
use crate::image::Image;
use crate::selection::{Chosen, Selection};

/// Writes the bytes of a volume: the data of a static volume, or a dynamic volume up to its last mapped LEB, with FFh
/// for unmapped LEBs. For a filesystem without UBI, these are the bytes in the file.
///
/// # Errors
/// Several images or volumes and none selected, a device that cannot be attached, a volume with an interrupted
/// update, or an error of the host.
pub fn read_raw(image: &Image, selection: &Selection, out: &mut dyn Write) -> Result<RawVolume, ImageError> {
    let found = image.choose(selection)?;
    found.format().read_raw(Chosen { image, found: &found, selection }, out)
}
