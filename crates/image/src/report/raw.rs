//! Bytes of a volume, and their damage.

use std::io::Write;

use floatgate_stack::Store;
use serde::Serialize;

use crate::ImageError;
use crate::format::location::ImageLocation;

/// Number of bytes in one read of an image that is no UBI device.
const CHUNK: u64 = 1 << 20;

/// Contents read from a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RawVolume {
    /// Length in bytes.
    pub bytes: u64,
    /// LEBs that are damaged, or missing in a static volume; their bytes are written as they were read.
    pub damaged_lebs: Vec<u32>,
    /// Other damage in the image.
    pub notes: Vec<String>,
    /// Size of the volume, bytes. A dynamic volume is erased behind the bytes that were read.
    #[serde(skip)]
    pub(crate) volume_bytes: u64,
}

/// Copies the bytes of an image.
///
/// # Errors
/// The bytes cannot be read or written.
pub(crate) fn copy(store: &dyn Store, found: &ImageLocation, out: &mut dyn Write) -> Result<u64, ImageError> {
    let (mut at, start, len) = (0, found.offset, found.len);
    let mut piece = Vec::new();
    while at < len {
        piece.resize(usize::try_from((len - at).min(CHUNK)).unwrap_or(0), 0);
        store.read_at(start + at, &mut piece).map_err(ImageError::Store)?;
        out.write_all(&piece).map_err(ImageError::Write)?;
        at += piece.len() as u64;
    }
    Ok(len)
}
