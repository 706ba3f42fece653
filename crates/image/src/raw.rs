//! The bytes of a volume, whatever is in it.

use std::io::Write;

pub use super::report::RawVolume;
use crate::ImageError;
use crate::image::Image;
use crate::selection::{Chosen, Selection};

/// Writes the bytes of a volume: of a static one its data, of a dynamic one all up to the last LEB that is mapped, with 0xFF for
/// LEBs that are not. For a filesystem without UBI, they are the bytes in the file.
///
/// # Errors
/// Several images or volumes and none chosen; a device that cannot be attached, a volume whose update was cut off; the host's.
pub fn read_raw(image: &Image, selection: &Selection, out: &mut dyn Write) -> Result<RawVolume, ImageError> {
    let found = image.choose(selection)?;
    found.format().read_raw(Chosen { image, found: &found, selection }, out)
}
