//! Volumes of a device that are opened for reading or writing, and the end of a device after a change.

use floatgate_stack::{Store, Volume};

use super::attach::FileUbi;
use super::shape::UbiShape;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::image::{FilePending, Image};
use crate::selection::{Chosen, Selection};

/// Volume of the readable parts of a device.
///
/// # Errors
/// No part of the device is readable, or there are several volumes and none is selected.
pub(super) fn readable_volume(
    Chosen { image, found, selection }: Chosen<'_>,
    choose: fn(&mut FileUbi, &Selection) -> Result<u32, ImageError>,
) -> Result<Box<dyn Volume>, ImageError> {
    let mut ubi = image.attach_remains(found)?;
    let id = choose(&mut ubi, selection)?;
    let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
    Ok(Box::new(volume))
}

/// Volume of a device for writing, enlarged if requested.
///
/// # Errors
/// The device is damaged, there are several volumes and none is selected, or there is no space.
pub(super) fn writable_volume(
    Chosen { image, found, selection }: Chosen<'_>,
    recover: bool,
    choose: fn(&mut FileUbi, &Selection) -> Result<u32, ImageError>,
) -> Result<Box<dyn Volume>, ImageError> {
    let (mut attaching, mut ubi) = image.attach_for_writing(found, recover)?;
    let id = choose(&mut ubi, selection)?;
    let volume = ubi.volume(id)?;
    if let Some(lebs) = image.lebs.filter(|&lebs| lebs > volume.reserved_lebs) {
        attaching.lebs_more = lebs - volume.reserved_lebs;
        ubi = attaching.attach_growing(ubi.into_mtd().into_store())?;
        ubi.resize_volume(id, lebs)?;
    }
    let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
    Ok(Box::new(volume))
}

/// Moves data after the first `end` bytes of a device to free PEBs before this offset, as long as there are free
/// PEBs.
///
/// # Errors
/// The device cannot be attached or written.
pub(super) fn vacate(
    shape: &UbiShape,
    image: &Image,
    found: &ImageLocation,
    end: u64,
) -> Result<(), ImageError> {
    let peb = u64::from(shape.peb_bytes);
    let len = image.store()?.size_bytes().saturating_sub(found.offset).next_multiple_of(peb);
    let (_, mut ubi) = image.attach_for_writing(&ImageLocation { len, ..found.clone() }, false)?;
    ubi.vacate(u32::try_from(end / peb).unwrap_or(u32::MAX))?;
    ubi.detach().map(drop).map_err(|(error, _)| error.into())
}

/// Size of the file after a change. A device that was shorter than its flash ends after its last PEB with data.
///
/// # Errors
/// The file cannot be read.
pub(super) fn end_of_change(
    shape: &UbiShape,
    found: &ImageLocation,
    pending: &FilePending,
) -> Result<u64, ImageError> {
    let (old, peb) = (pending.size_below(), u64::from(shape.peb_bytes));
    let pebs = pending.size_bytes().saturating_sub(found.offset).div_ceil(peb);
    for pnum in (0..pebs).rev() {
        let start = found.offset + pnum * peb;
        if start + peb <= old {
            break;
        }
        let mut header = [0; 4];
        pending
            .read_at(start + u64::from(shape.vid_header_offset), &mut header)
            .map_err(ImageError::Store)?;
        if header != [0xFF; 4] {
            return Ok(start + peb);
        }
    }
    Ok(old)
}
