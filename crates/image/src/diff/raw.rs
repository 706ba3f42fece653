//! Differences of two images below their filesystems.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_stack::ubi::{HeaderState, Mapping};
use floatgate_stack::ubifs::Error;
use floatgate_stack::{Store, Volume};

use super::super::error::LebsOnly;
use super::super::format::ubi::device::Device;
use super::{Change, DiffError, note};
use crate::ImageError;
use crate::image::Image;
use crate::selection::Selection;
use crate::words::show_name;

/// Compares two images below their filesystems: geometry, erase counters, volumes, and numbers of their LEBs.
///
/// # Errors
/// An image cannot be read, or contains no UBI.
pub fn diff_raw(images: [(&Image, &Selection); 2]) -> Result<Vec<Change>, DiffError> {
    let [first, second] = images.map(|(image, selection)| Raw::read(image, selection));
    let (mut first, mut second) = (first.map_err(DiffError::First)?, second.map_err(DiffError::Second)?);
    let mut changes = Vec::new();
    for ((name, one), (_, other)) in first.numbers().into_iter().zip(second.numbers()) {
        note(&mut changes, name, &one, &other);
    }
    let names: BTreeSet<String> = first.volumes().into_keys().chain(second.volumes().into_keys()).collect();
    for name in names {
        first.compare_volume(&mut second, &name, &mut changes)?;
    }
    Ok(changes)
}

/// A UBI device with the values in its headers.
struct Raw {
    device: Device,
    store: Box<dyn Store>,
}

impl Raw {
    fn read(image: &Image, selection: &Selection) -> Result<Self, ImageError> {
        let found = image.choose(selection)?;
        found.require_lebs(LebsOnly::RawComparison)?;
        let store = image.store()?;
        let mut store: Box<dyn Store> =
            Box::new(floatgate_stack::store::Window::new(store, found.offset, found.len));
        let device = Device::read(&mut store, &found)?;
        Ok(Self { device, store })
    }

    fn numbers(&self) -> Vec<(&'static str, String)> {
        let geometry = self.device.survey.geometry();
        let flash = geometry.flash();
        let counts = self.device.survey.pebs().iter().filter_map(|peb| match peb.ec {
            HeaderState::Good(ec) => Some(ec.erase_count),
            _ => None,
        });
        let counts: Vec<u64> = counts.collect();
        let mean = counts.iter().sum::<u64>().checked_div(counts.len() as u64).unwrap_or(0);
        vec![
            ("bytes of a PEB", flash.peb_bytes.to_string()),
            ("smallest write", flash.min_io_bytes.to_string()),
            ("VID header at", geometry.vid_header_offset().to_string()),
            ("data at", geometry.data_offset().to_string()),
            ("PEBs", self.device.survey.peb_count().to_string()),
            ("image sequence number", self.device.survey.image_seq().to_string()),
            ("mean erase counter", mean.to_string()),
            ("highest erase counter", counts.iter().max().copied().unwrap_or(0).to_string()),
        ]
    }

    fn volumes(&self) -> BTreeMap<String, u32> {
        self.device.survey.volumes().map(|(id, record)| (show_name(record.name()), id)).collect()
    }

    fn compare_volume(
        &mut self,
        other: &mut Self,
        name: &str,
        changes: &mut Vec<Change>,
    ) -> Result<(), DiffError> {
        let (one, two) = (self.volumes().get(name).copied(), other.volumes().get(name).copied());
        let (Some(one), Some(two)) = (one, two) else {
            let shown = |id: Option<u32>| id.map_or_else(|| "none".to_owned(), |id| id.to_string());
            note(changes, &format!("volume {name}"), &shown(one), &shown(two));
            return Ok(());
        };
        let records = [(&*self, one), (&*other, two)]
            .map(|(raw, id)| raw.device.survey.volume(id).copied().unwrap_or_default());
        let [a, b] = records;
        note(changes, &format!("volume {name}: number"), &one.to_string(), &two.to_string());
        let lebs = |record: &floatgate_media::ubi::VolumeRecord| record.reserved_pebs.to_string();
        note(changes, &format!("volume {name}: LEBs"), &lebs(&a), &lebs(&b));
        let kind =
            |record: &floatgate_media::ubi::VolumeRecord| format!("{:?}", record.volume_type).to_lowercase();
        note(changes, &format!("volume {name}: type"), &kind(&a), &kind(&b));
        let mut first = self.device.volume(&mut self.store, one, Mapping::Linux);
        let mut second = other.device.volume(&mut other.store, two, Mapping::Linux);
        let bytes = first.geometry().leb_bytes.min(second.geometry().leb_bytes) as usize;
        let lebs = first.geometry().lebs.max(second.geometry().lebs);
        let (mut a, mut b) = (vec![0; bytes], vec![0; bytes]);
        let mut differ = 0u32;
        for lnum in
            (0..lebs).filter(|&lnum| first.place(lnum).or(second.place(lnum)).is_some()).collect::<Vec<_>>()
        {
            first.read(lnum, 0, &mut a).map_err(|error| DiffError::First(Error::from(error).into()))?;
            second.read(lnum, 0, &mut b).map_err(|error| DiffError::Second(Error::from(error).into()))?;
            // Bytes after the data of a static volume have no meaning.
            let used =
                [(&self.device, one), (&other.device, two)].map(|(device, id)| device.used_bytes(id, lnum));
            let used = used.into_iter().flatten().max().unwrap_or(bytes).min(bytes);
            differ += u32::from(a[..used] != b[..used]);
        }
        note(changes, &format!("volume {name}: LEBs that differ"), "0", &differ.to_string());
        Ok(())
    }
}
