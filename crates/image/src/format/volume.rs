//! Volume of a UBIFS, damaged or not: a volume of a UBI device, or an image without UBI.

use std::ops::Range;

use floatgate_stack::store::Window;
use floatgate_stack::ubi::{AttachFault, Mapping};
use floatgate_stack::{Store, Volume};

use super::location::Content;
use super::mapped::MappedVolume;
use super::ubi::choose::{choose_filesystem, choose_remains};
use super::ubi::device::Device;
use crate::error::{ImageError, LebsOnly};
use crate::format::magic::HEAD_BYTES;
use crate::image::Origin;
use crate::selection::Chosen;
use crate::words::show_name;

/// A volume of an image as LEBs, with its headers if there is UBI.
pub(crate) type Opened = (MappedVolume<Box<dyn Store>>, Option<Device>, Origin);

/// Opens the selected volume, damaged or not: the named volume, or the only one.
///
/// # Errors
/// There is no volume, or there are several.
pub(crate) fn open_volume(chosen: Chosen<'_>) -> Result<Opened, ImageError> {
    let Chosen { image, found, selection } = chosen;
    found.require_lebs(LebsOnly::Contents)?;
    let origin = image.origin(found);
    let mut store: Box<dyn Store> = Box::new(Window::new(image.store()?, found.offset, found.len));
    if let Content::Ubifs(shape) = &found.content {
        return Ok((MappedVolume::bare(store, found.len, shape), None, origin));
    }
    let device = Device::read(&mut store, found)?;
    let volumes: Vec<(u32, String)> =
        device.survey.volumes().map(|(id, record)| (id, show_name(record.name()))).collect();
    let mut last: Option<(u32, MappedVolume<Vec<u8>>)> = None;
    let id = choose_filesystem(&volumes, selection, &mut |id, lnum| {
        // The lookup is cached, because a volume can have many LEBs.
        let known = last.take().filter(|(known, _)| *known == id);
        let (_, volume) =
            last.insert(known.unwrap_or_else(|| (id, device.volume(Vec::new(), id, Mapping::Linux))));
        let geometry = volume.geometry();
        let mut head = vec![0xFF; HEAD_BYTES.min(geometry.leb_bytes as usize)];
        let is_read = match volume.place(lnum) {
            Some(place) => store.read_at(place, &mut head).is_ok(),
            None => device.survey.defines_all_lebs(id),
        };
        (lnum < geometry.lebs).then(|| if is_read { head } else { Vec::new() })
    })?;
    let volume = device.volume(store, id, Mapping::Linux);
    Ok((volume, Some(device), origin))
}

/// A volume whose filesystem may be damaged.
pub(crate) struct DamagedVolume {
    pub(crate) volume: Box<dyn Volume>,
    /// LEBs after the end of the volume, whose real numbers are unknown.
    pub(crate) nameless: Range<u32>,
    /// Damage of the device that contains the volume.
    pub(crate) damage: Vec<AttachFault>,
}

impl DamagedVolume {
    /// Opens the selected volume for reading, even if the volume or its device is damaged.
    ///
    /// # Errors
    /// Several volumes exist and none is selected, no part of the device is readable, or the file cannot be read.
    pub(crate) fn open(chosen: Chosen<'_>) -> Result<Self, ImageError> {
        let Chosen { image, found, selection } = chosen;
        let mut store: Box<dyn Store> = Box::new(Window::new(image.store()?, found.offset, found.len));
        if let Content::Ubifs(shape) = &found.content {
            let volume = MappedVolume::bare(store, found.len, shape);
            return Ok(Self { nameless: volume.nameless(), volume: Box::new(volume), damage: Vec::new() });
        }
        let mut ubi = image.attach_remains(found)?;
        let id = choose_remains(&mut ubi, selection)?;
        let damage = ubi.damage().to_vec();
        let volume = Device::read(&mut store, found)?.salvaged(store, id);
        Ok(Self { nameless: volume.nameless(), volume: Box::new(volume), damage })
    }
}
