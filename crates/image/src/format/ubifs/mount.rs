//! A UBIFS in a volume of an image, mounted; and the volume of an image without UBI.

use std::sync::Arc;

use floatgate_stack::fscrypt::Decrypted;
use floatgate_stack::store::Window;
use floatgate_stack::ubifs::{Behaviour, MountOptions, Ubifs, probe};
use floatgate_stack::{BareVolume, Volume, VolumeGeometry};

use super::shape::UbifsShape;
use crate::ImageError;
use crate::format::location::ImageLocation;
use crate::format::ubi::shape::max_write_bytes;
use crate::image::{Access, Growth, Image, ImageFs};
use crate::selection::Chosen;

/// Mounts the filesystem of a volume; for writing, if the image was opened for writing.
///
/// # Errors
/// Damage, or a filesystem that needs recovery, unless `recover` allows it or the mount is read-only.
pub(crate) fn mount(
    Chosen { image, selection, .. }: Chosen<'_>,
    volume: Box<dyn Volume>,
    recover: bool,
    behaviour: Behaviour,
) -> Result<ImageFs, ImageError> {
    let reads = image.access == Access::Read;
    let options = MountOptions {
        read_only: reads,
        recover,
        forgiving: reads,
        keep_space_fixup: true,
        authenticate: selection.authenticate.clone(),
    };
    let mut fs = Ubifs::mount(volume, &options, behaviour).map_err(|(error, _)| error)?;
    if !reads && let Some(&lnum) = fs.missing_lebs()?.first() {
        return Err(ImageError::Truncated(format!("LEB {lnum} of the filesystem is not there")));
    }
    Ok(match &image.keys {
        Some(keys) if reads => Box::new(Decrypted::new(Box::new(fs), Arc::clone(keys))),
        _ => Box::new(fs),
    })
}

/// Sizes between which the filesystem of a volume can grow.
///
/// # Errors
/// A volume without a filesystem.
pub(crate) fn growth(volume: &mut dyn Volume) -> Result<Growth, ImageError> {
    let (superblock, _) = probe(volume)?;
    let (now, max, volume) = (superblock.leb_count, superblock.max_leb_count, volume.geometry().lebs);
    Ok(Growth { now, max, lasting: max, volume, what: "volume", unit: "LEB", own: None, over: None })
}

/// The volume of an image without UBI; `access` decides whether it can be written.
///
/// # Errors
/// The file ends within a LEB, or cannot be read.
pub(super) fn volume(
    image: &Image,
    found: &ImageLocation,
    shape: &UbifsShape,
    access: Access,
) -> Result<Box<dyn Volume>, ImageError> {
    let UbifsShape { leb_bytes, min_io_bytes } = *shape;
    let writes = access == Access::Write;
    if writes && !found.len.is_multiple_of(u64::from(leb_bytes)) {
        return Err(ImageError::Truncated("the file ends within a LEB".to_owned()));
    }
    let store = image.store()?;
    let is_last = found.offset + found.len >= store.size_bytes();
    let held = u32::try_from(found.len.div_ceil(u64::from(leb_bytes))).unwrap_or(u32::MAX);
    let asked = image.lebs.filter(|_| writes).unwrap_or(0);
    let geometry = VolumeGeometry {
        lebs: held.max(asked),
        leb_bytes,
        min_io_bytes,
        max_write_bytes: max_write_bytes(min_io_bytes),
        leb_start: 0,
        read_only: !writes,
    };
    let mut volume = BareVolume::new(Window::new(store, found.offset, u64::MAX), geometry);
    // The file may end before the filesystem, if the remaining part of the filesystem is empty.
    let lebs = match probe(&mut volume) {
        Ok((superblock, _)) if writes && is_last => superblock.leb_count.max(geometry.lebs),
        _ => geometry.lebs,
    };
    let len = u64::from(lebs) * u64::from(leb_bytes);
    image.reserve(found.offset + len)?;
    let window = Window::new(volume.into_store().into_inner(), found.offset, len.max(found.len));
    Ok(Box::new(BareVolume::new(window, VolumeGeometry { lebs, ..geometry })))
}
