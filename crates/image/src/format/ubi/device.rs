//! A UBI device in an image, as [`Survey`] describes it, with the positions of its LEBs.

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

/// A UBI device of an image, damaged or not.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) survey: Survey,
    /// Number of bytes of the last PEB in the image, if the PEB is incomplete.
    cut_off: Option<u64>,
}

/// End of a file within the last PEB of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Number of the last PEB.
    pub(crate) pnum: u32,
    /// Number of its bytes in the file.
    pub(crate) bytes: u64,
    /// Size of a complete PEB, bytes.
    peb_bytes: u32,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pnum, bytes, peb_bytes } = self;
        write!(f, "the file is cut: it ends {bytes} bytes into PEB {pnum}, of {peb_bytes}")
    }
}

impl Device {
    /// End of the file within a PEB, if the file is cut.
    pub(crate) fn cut(&self) -> Option<Cut> {
        let (bytes, pnum) = self.cut_off.zip(self.survey.peb_count().checked_sub(1))?;
        Some(Cut { pnum, bytes, peb_bytes: self.survey.flash().erase_bytes })
    }

    /// True if the image has fewer PEBs than its volumes need, so that it is no dump of a whole flash.
    fn is_short(&self) -> bool {
        let reserved: u64 = self.survey.volumes().map(|(_, record)| u64::from(record.reserved_pebs)).sum();
        u64::from(self.survey.peb_count()) < reserved + u64::from(LAYOUT_VOLUME_LEBS)
    }

    /// True if the image ends before the PEBs that its volumes need, and no volume has LEBs.
    pub(super) fn is_without_lebs(&self) -> bool {
        let mut volumes = self.survey.volumes().map(|(id, _)| id);
        self.is_short() && volumes.all(|id| self.survey.mapped_lebs(id).next().is_none())
    }

    /// Reads the headers of all PEBs, and the volume table.
    ///
    /// # Errors
    /// `Nothing` if the sizes of the image are impossible for UBI; the file cannot be read.
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

    /// Sets the size of volumes without a record to the number of LEBs that their filesystem states, at most the
    /// number of PEBs.
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

    /// Number of data bytes in a LEB of a static volume, if the LEB exists.
    pub(crate) fn used_bytes(&self, id: u32, lnum: u32) -> Option<usize> {
        self.survey.volume(id).filter(|record| record.volume_type == VolumeType::Static)?;
        self.survey.header_of(LebId { volume: id, lnum }).map(|vid| vid.data_size as usize)
    }

    /// Offset of a PEB in the store.
    pub(crate) fn peb_start(&self, pnum: u32) -> u64 {
        u64::from(pnum) * u64::from(self.survey.flash().erase_bytes)
    }

    /// Offset of a PEB's data in the store.
    pub(super) fn data_start(&self, pnum: u32) -> u64 {
        self.peb_start(pnum) + u64::from(self.survey.geometry().data_offset())
    }

    /// LEBs of a volume.
    pub(crate) fn volume<S: Store>(&self, store: S, id: u32, mapping: Mapping) -> MappedVolume<S> {
        let (geometry, places) = self.places(id, mapping);
        MappedVolume::new(store, geometry, places)
    }

    /// LEBs of a volume whose filesystem is salvaged. PEBs with unknown LEBs follow the last LEB. A PEB with a
    /// superblock or master node is moved to the right LEB.
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

    /// Geometry of a volume, and the offsets of its LEBs.
    fn places(&self, id: u32, mapping: Mapping) -> (VolumeGeometry, Vec<Option<u64>>) {
        let survey = &self.survey;
        let record = survey.volume(id).copied().unwrap_or_default();
        let lebs = record.reserved_pebs.min(survey.peb_count().max(MISSING_LEBS_MAX));
        // A table can state more LEBs than there are PEBs; the LEBs after the last one read as erased.
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

/// Finds superblock and master nodes among LEBs with unknown numbers. They belong to the first LEBs of a filesystem.
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
