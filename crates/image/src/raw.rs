//! The bytes of a volume, whatever is in it.

use std::io::Write;

use floatgate_stack::ubi::{UbiError, VolumeInfo};
use floatgate_stack::{Store, VolumeFault};
use serde::Serialize;

use super::detect::Content;
use super::open::choose_volume;
use super::{FileUbi, Image, ImageError, Selection};

/// Bytes that are read at a time of an image that is no UBI device.
const CHUNK: u64 = 1 << 20;

/// Contents read from a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RawVolume {
    /// Length in bytes.
    pub bytes: u64,
    /// LEBs that are damaged, or missing in a static volume: their bytes are as they were read.
    pub damaged_lebs: Vec<u32>,
    /// Other damage in the image.
    pub notes: Vec<String>,
}

/// Writes the bytes of a volume: of a static one its data, of a dynamic one all up to the last LEB that is mapped, with 0xFF for
/// LEBs that are not. Of a filesystem without UBI they are those in the file.
///
/// # Errors
/// Several images or volumes and none chosen; a device that cannot be attached, a volume whose update was cut off; the host's.
pub fn read_raw(image: &Image, selection: &Selection, out: &mut dyn Write) -> Result<RawVolume, ImageError> {
    let found = image.choose(selection)?;
    let notes = image.corrected.as_ref().map(|corrected| corrected.notes(&found)).unwrap_or_default();
    if let Content::Ubifs { .. } | Content::Jffs2(_) = found.content {
        let bytes = copy(image.store()?, found.offset, found.len, out)?;
        return Ok(RawVolume { bytes, notes, ..RawVolume::default() });
    }
    let mut ubi = image.attach_remains(&found)?;
    let id = choose_volume(&ubi, selection)?;
    let volume = ubi.volume(id)?;
    let mut raw = RawVolume { notes, ..RawVolume::default() };
    raw.notes.extend(ubi.damage().iter().map(ToString::to_string));
    for lnum in 0..last_leb(&mut ubi, &volume)? {
        raw.read_leb(&mut ubi, &volume, lnum, out)?;
    }
    Ok(raw)
}

/// LEBs up to the last one that holds something.
fn last_leb(ubi: &mut FileUbi, volume: &VolumeInfo) -> Result<u32, ImageError> {
    let mut last = 0;
    for lnum in 0..volume.used_lebs {
        if ubi.is_mapped(volume.id, lnum)? {
            last = lnum + 1;
        }
    }
    // What is missing at the end of a static volume is missed.
    Ok(if volume.mapped_lebs > 0 && volume.corrupted { volume.used_lebs } else { last })
}

impl RawVolume {
    fn read_leb(
        &mut self,
        ubi: &mut FileUbi,
        volume: &VolumeInfo,
        lnum: u32,
        out: &mut dyn Write,
    ) -> Result<(), ImageError> {
        let start = u64::from(lnum) * u64::from(volume.usable_leb_bytes);
        let len = volume.used_bytes.saturating_sub(start).min(u64::from(volume.usable_leb_bytes));
        let mut leb = vec![0xFF; usize::try_from(len).unwrap_or(0)];
        match ubi.read_leb(volume.id, lnum, 0, &mut leb) {
            Ok(()) => {}
            Err(UbiError::Damaged { .. } | UbiError::Access(VolumeFault::Uncorrectable)) => {
                self.damaged_lebs.push(lnum);
            }
            Err(error) => return Err(error.into()),
        }
        out.write_all(&leb).map_err(ImageError::Write)?;
        self.bytes += len;
        Ok(())
    }
}

fn copy(store: Box<dyn Store>, start: u64, len: u64, out: &mut dyn Write) -> Result<u64, ImageError> {
    let mut at = 0;
    let mut piece = Vec::new();
    while at < len {
        piece.resize(usize::try_from((len - at).min(CHUNK)).unwrap_or(0), 0);
        store.read_at(start + at, &mut piece).map_err(ImageError::Store)?;
        out.write_all(&piece).map_err(ImageError::Write)?;
        at += piece.len() as u64;
    }
    Ok(len)
}
