//! Bytes of a volume of a UBI device.

use std::collections::BTreeSet;
use std::io::Write;

use floatgate_stack::VolumeFault;
use floatgate_stack::store::Window;
use floatgate_stack::ubi::{LebId, UbiError, VolumeInfo};

use super::attach::FileUbi;
use super::choose::choose_volume;
use super::device::Device;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::image::Image;
use crate::report::RawVolume;
use crate::selection::Chosen;

/// Writes the bytes of a volume: the data of a static volume, or a dynamic volume up to its last mapped LEB.
///
/// # Errors
/// Several volumes and none selected, a device that cannot be attached, a volume with an interrupted update, or an
/// error of the host.
pub(super) fn read_raw(
    Chosen { image, found, selection }: Chosen<'_>,
    out: &mut dyn Write,
) -> Result<RawVolume, ImageError> {
    let mut ubi = image.attach_remains(found)?;
    let id = choose_volume(&ubi, selection)?;
    let volume = ubi.volume(id)?;
    let notes = image.ecc_notes(found);
    let mut raw = RawVolume { notes, volume_bytes: volume.used_bytes, ..RawVolume::default() };
    raw.notes.extend(ubi.damage().iter().map(ToString::to_string));
    for lnum in 0..last_leb(&mut ubi, &volume)? {
        read_leb(&mut raw, &mut ubi, (&volume, lnum), out)?;
    }
    Ok(raw)
}

/// LEBs of dynamic volumes with lost data: the ECC could not correct a page, or the headers of their PEB are lost.
///
/// # Errors
/// The file cannot be read.
pub(super) fn lost_lebs(image: &Image, found: &ImageLocation) -> Result<BTreeSet<LebId>, ImageError> {
    let mut window = Window::new(image.store()?, found.offset, found.len);
    let device = match Device::read(&mut window, found) {
        Err(ImageError::Nothing) => return Ok(BTreeSet::new()),
        device => device?,
    };
    let pages = image.corrected.as_ref().map(|corrected| corrected.lost_pages(found)).unwrap_or_default();
    let pages = device.unchecked_pages(&pages).into_iter().map(|(_, leb)| leb);
    let headers = device.lost_pebs(&mut window).map_err(ImageError::Store)?;
    Ok(pages.chain(headers.into_iter().filter_map(|(_, leb)| leb)).collect())
}

/// Writes the bytes of a volume like [`read_raw`], and returns all incomplete LEBs of the volume.
///
/// # Errors
/// The errors of [`read_raw`].
pub(super) fn read_raw_judged(chosen: Chosen<'_>, out: &mut dyn Write) -> Result<RawVolume, ImageError> {
    let Chosen { image, found, selection } = chosen;
    let mut raw = read_raw(chosen, out)?;
    let id = choose_volume(&image.attach_remains(found)?, selection)?;
    let lost = lost_lebs(image, found)?.into_iter().filter(|leb| leb.volume == id).map(|leb| leb.lnum);
    let damaged: BTreeSet<u32> = raw.damaged_lebs.iter().copied().chain(lost).collect();
    raw.damaged_lebs = damaged.into_iter().collect();
    if raw.bytes == 0 {
        let what = "no LEB of the volume holds data: nothing was written to it, or all of it is lost";
        raw.notes.push(what.to_owned());
    }
    Ok(raw)
}

/// Number of LEBs up to the last LEB with data.
fn last_leb(ubi: &mut FileUbi, volume: &VolumeInfo) -> Result<u32, ImageError> {
    let mut last = 0;
    for lnum in 0..volume.used_lebs {
        if ubi.is_mapped(volume.id, lnum)? {
            last = lnum + 1;
        }
    }
    // A missing end of a static volume is reported as missing.
    Ok(if volume.mapped_lebs > 0 && volume.corrupted { volume.used_lebs } else { last })
}

fn read_leb(
    raw: &mut RawVolume,
    ubi: &mut FileUbi,
    (volume, lnum): (&VolumeInfo, u32),
    out: &mut dyn Write,
) -> Result<(), ImageError> {
    let start = u64::from(lnum) * u64::from(volume.usable_leb_bytes);
    let len = volume.used_bytes.saturating_sub(start).min(u64::from(volume.usable_leb_bytes));
    let mut leb = vec![0xFF; usize::try_from(len).unwrap_or(0)];
    match ubi.read_leb(volume.id, lnum, 0, &mut leb) {
        Ok(()) => {}
        Err(UbiError::Damaged { .. } | UbiError::Access(VolumeFault::Uncorrectable)) => {
            raw.damaged_lebs.push(lnum);
        }
        Err(error) => return Err(error.into()),
    }
    out.write_all(&leb).map_err(ImageError::Write)?;
    raw.bytes += len;
    Ok(())
}
