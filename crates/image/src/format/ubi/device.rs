//! A UBI device in an image, as [`Survey`] has it, with the places of its LEBs.

use std::fmt;

use floatgate_media::ubi::{LAYOUT_VOLUME_LEBS, VolumeRecord, VolumeType};
use floatgate_media::ubifs::{Frame, Node, NodeType, Superblock};
use floatgate_stack::store::Store;
use floatgate_stack::ubi::{AttachFault, LebId, MISSING_LEBS_MAX, Mapping, Survey};
use floatgate_stack::{StoreFlash, StoreMode, VolumeGeometry};

use super::shape::flash_geometry;
use crate::ImageError;
use crate::format::location::{Content, ImageLocation};
use crate::format::mapped::MappedVolume;

/// A UBI device of an image, however damaged it is.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) survey: Survey,
    /// Bytes that the image has of its last PEB, if they are not all.
    cut_off: Option<u64>,
}

/// End of a file within the last PEB of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The last PEB.
    pub(crate) pnum: u32,
    /// Bytes that the file has of it.
    pub(crate) bytes: u64,
    /// Bytes of a whole PEB.
    peb_bytes: u32,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pnum, bytes, peb_bytes } = self;
        write!(f, "the file is cut: it ends {bytes} bytes into PEB {pnum}, of {peb_bytes}")
    }
}

impl Device {
    /// Place where the file is cut within a PEB, if it is.
    pub(crate) fn cut(&self) -> Option<Cut> {
        let (bytes, pnum) = self.cut_off.zip(self.survey.peb_count().checked_sub(1))?;
        Some(Cut { pnum, bytes, peb_bytes: self.survey.flash().erase_bytes })
    }

    /// True when the image has fewer PEBs than its volumes need: it is not a dump of a whole flash.
    fn is_short(&self) -> bool {
        let reserved: u64 = self.survey.volumes().map(|(_, record)| u64::from(record.reserved_pebs)).sum();
        u64::from(self.survey.peb_count()) < reserved + u64::from(LAYOUT_VOLUME_LEBS)
    }

    /// True when the image ends before the PEBs that its volumes need, and none of these has any LEB.
    pub(super) fn is_without_lebs(&self) -> bool {
        let mut volumes = self.survey.volumes().map(|(id, _)| id);
        self.is_short() && volumes.all(|id| self.survey.mapped_lebs(id).next().is_none())
    }

    /// Reads the headers of all its PEBs, and the volume table.
    ///
    /// # Errors
    /// `Nothing` if the image cannot be UBI by its sizes; the file cannot be read.
    pub(crate) fn read(store: &mut impl Store, found: &ImageLocation) -> Result<Self, ImageError> {
        let Content::Ubi(shape) = &found.content else { return Err(ImageError::Nothing) };
        let geometry = flash_geometry(shape, found.len);
        let cut_off = Some(found.len % u64::from(geometry.erase_bytes)).filter(|&bytes| bytes > 0);
        let mut flash = StoreFlash::new(&mut *store, geometry, StoreMode::ReadOnly)
            .with_bad_blocks(found.bad_pebs.iter().copied());
        let survey = Survey::read(&mut flash, Some(shape.vid_header_offset));
        let survey = match (survey, flash.host_error()) {
            (Ok(survey), _) => survey,
            (Err(_), Some(error)) => return Err(ImageError::Store(error.clone())),
            (Err(AttachFault::Ubi(_)), None) => return Err(ImageError::Nothing),
            (Err(fault), None) => return Err(ImageError::Attach(fault)),
        };
        let mut device = Self { survey, cut_off };
        device.ask_filesystems(store)?;
        Ok(device)
    }

    /// Volumes whose records are lost have the LEBs that a filesystem in them states, at most the number of PEBs.
    fn ask_filesystems(&mut self, store: &mut impl Store) -> Result<(), ImageError> {
        if !self.survey.table().lost {
            return Ok(());
        }
        let ids: Vec<u32> = self.survey.volumes().map(|(id, _)| id).collect();
        for volume in ids {
            let leb = LebId { volume, lnum: 0 };
            let Some(pnum) = self.survey.peb_of(leb, Mapping::Linux) else { continue };
            let mut bytes = vec![0; Superblock::SIZE];
            store.read_at(self.data_start(pnum), &mut bytes).map_err(ImageError::Store)?;
            if let Ok(Node::Superblock(superblock)) = Frame::parse(&bytes).and_then(|frame| frame.node()) {
                let lebs = superblock.leb_count.min(self.survey.peb_count());
                self.survey.assume_lebs(volume, lebs);
            }
        }
        Ok(())
    }

    /// Bytes of data in a LEB of a static volume, if there is such a LEB.
    pub(crate) fn used_bytes(&self, id: u32, lnum: u32) -> Option<usize> {
        self.survey.volume(id).filter(|record| record.volume_type == VolumeType::Static)?;
        self.survey.header_of(LebId { volume: id, lnum }).map(|vid| vid.data_size as usize)
    }

    /// Byte of the store where a PEB begins.
    pub(crate) fn peb_start(&self, pnum: u32) -> u64 {
        u64::from(pnum) * u64::from(self.survey.flash().erase_bytes)
    }

    /// Byte of the store where the data of a PEB begin.
    pub(super) fn data_start(&self, pnum: u32) -> u64 {
        self.peb_start(pnum) + u64::from(self.survey.geometry().data_offset())
    }

    /// A volume as LEBs.
    pub(crate) fn volume<S: Store>(&self, store: S, id: u32, mapping: Mapping) -> MappedVolume<S> {
        let (geometry, places) = self.places(id, mapping);
        MappedVolume::new(store, geometry, places)
    }

    /// The volume of a filesystem that is to be salvaged, as LEBs. Behind the last one stand the PEBs with
    /// unknown LEBs; those that hold a superblock or master node are put in their place.
    pub(crate) fn salvaged<S: Store>(&self, mut store: S, id: u32) -> MappedVolume<S> {
        let (geometry, mut places) = self.places(id, Mapping::Salvage);
        if self.survey.nameless().next().is_some() {
            let lebs = geometry.lebs as usize;
            places.resize(lebs, None);
            places.extend(self.survey.nameless().map(|pnum| Some(self.data_start(pnum))));
            name_first_lebs(&mut store, &mut places, lebs);
        }
        MappedVolume::new(store, geometry, places)
    }

    /// Sizes of a volume, and the bytes where its LEBs begin.
    fn places(&self, id: u32, mapping: Mapping) -> (VolumeGeometry, Vec<Option<u64>>) {
        let survey = &self.survey;
        let record = survey.volume(id).copied().unwrap_or_default();
        let lebs = record.reserved_pebs.min(survey.peb_count().max(MISSING_LEBS_MAX));
        // A table can name more LEBs than there are PEBs; those behind read as erased.
        let places = (0..lebs.min(survey.last_lnum(id) + 1))
            .map(|lnum| survey.peb_of(LebId { volume: id, lnum }, mapping).map(|pnum| self.data_start(pnum)));
        (self.volume_geometry(&record, lebs), places.collect())
    }

    fn volume_geometry(&self, record: &VolumeRecord, lebs: u32) -> VolumeGeometry {
        let (geometry, flash) = (self.survey.geometry(), self.survey.flash());
        VolumeGeometry {
            lebs,
            leb_bytes: geometry.leb_bytes() - record.data_pad.min(geometry.leb_bytes()),
            min_io_bytes: flash.write_bytes,
            max_write_bytes: flash.buffer_bytes,
            leb_start: geometry.data_offset() % flash.buffer_bytes.max(1),
            read_only: true,
        }
    }
}

/// Finds superblock and master nodes among LEBs whose number is not known: they stand in the first LEBs of a filesystem.
fn name_first_lebs(store: &mut impl Store, places: &mut [Option<u64>], named: usize) {
    for at in named..places.len() {
        let Some(place) = places[at] else { continue };
        let mut bytes = vec![0; Superblock::SIZE];
        if store.read_at(place, &mut bytes).is_err() {
            continue;
        }
        let candidates = match Frame::parse(&bytes).map(|frame| frame.node_type) {
            Ok(NodeType::Superblock) => 0..1,
            Ok(NodeType::Master) => 1..3,
            _ => continue,
        };
        if let Some(free) = candidates.into_iter().find(|&lnum| places.get(lnum) == Some(&None)) {
            places[free] = places[at].take();
        }
    }
}
