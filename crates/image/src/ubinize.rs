//! UBI images from volumes in the layout of `ubinize`: the volume table in the first two PEBs, then the LEBs of each
//! volume.

mod error;
mod ini;

use std::io::Read;
use std::path::{Path, PathBuf};

use floatgate_files::{File, metadata, read_to_string};
use floatgate_host::open::open_input;
use floatgate_media::crc;
use floatgate_media::ubi::{
    EcHeader, Geometry, LAYOUT_VOLUME, LAYOUT_VOLUME_COMPAT, LAYOUT_VOLUME_LEBS, VidHeader, VolumeFlags,
    VolumeRecord, VolumeTable, VolumeType,
};
use floatgate_media::ubifs::Superblock;
use floatgate_stack::VolumeGeometry;
use floatgate_stack::store::{Store, StoreError};

use super::build::{FlashShape, Identity};
use crate::format::ubi::fit::{self, Room, TargetFlash};
use crate::image::fill;
use crate::report::{Finding, Outcome};
pub use error::UbinizeError;
pub use ini::parse;

/// Number of bytes of a volume's contents that are read at a time for the image sequence number.
const NOTED_BYTES: u64 = 1 << 20;

/// First PEB after the volume table.
pub(super) const FIRST_DATA_PEB: u32 = LAYOUT_VOLUME_LEBS;

/// A volume that is put into an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSource {
    /// Volume id.
    pub id: u32,
    /// Name of the volume, 1 to 127 bytes.
    pub name: String,
    /// Type of the volume: dynamic or static.
    pub volume_type: VolumeType,
    /// Size of the volume, bytes; the size of its contents when absent.
    pub size: Option<u64>,
    /// Alignment of the LEB size, bytes.
    pub alignment: u32,
    /// Flags: the volume grows when it is first attached, or is opened without a check of its CRCs.
    pub flags: VolumeFlags,
    /// File with the contents.
    pub image: Option<PathBuf>,
}

/// Fields that all headers of an image share.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    /// Offsets in a PEB.
    pub geometry: Geometry,
    /// Image sequence number.
    pub image_seq: u32,
    /// Erase counter of every PEB.
    pub erase_count: u64,
}

/// Report about a new UBI image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ubinized {
    /// Number of PEBs of the image.
    pub pebs: u32,
    /// Image sequence number.
    pub image_seq: u32,
    /// Warnings about volumes that Linux accepts, but probably uses in another way than intended.
    pub warnings: Vec<Finding>,
}

impl Headers {
    fn peb_start(&self, pnum: u32) -> u64 {
        u64::from(pnum) * u64::from(self.geometry.flash().peb_bytes)
    }

    /// Writes the headers of a PEB; the bytes between them and the data stay erased.
    pub(super) fn write<S: Store>(
        &self,
        store: &mut S,
        pnum: u32,
        vid: &VidHeader,
    ) -> Result<(), StoreError> {
        let ec = EcHeader::new(self.erase_count, self.image_seq, &self.geometry).emit();
        let mut head = vec![0xFF; self.geometry.data_offset() as usize];
        head[..ec.len()].copy_from_slice(&ec);
        let vid_at = self.geometry.vid_header_offset() as usize;
        let vid = vid.emit();
        head[vid_at..vid_at + vid.len()].copy_from_slice(&vid);
        store.write_at(self.peb_start(pnum), &head)
    }

    /// Writes the volume table to the first PEBs.
    pub(super) fn write_table<S: Store>(
        &self,
        store: &mut S,
        volumes: &[(u32, VolumeRecord)],
    ) -> Result<(), UbinizeError> {
        let wrong = |error: floatgate_media::MediaError| UbinizeError::Volume {
            name: "volume table".to_owned(),
            what: error.to_string(),
        };
        let mut table = vec![0; self.geometry.volume_table_bytes()];
        VolumeTable::emit(volumes.iter().copied(), &self.geometry, &mut table).map_err(wrong)?;
        for lnum in 0..LAYOUT_VOLUME_LEBS {
            let vid = VidHeader {
                volume_type: VolumeType::Dynamic,
                compat: LAYOUT_VOLUME_COMPAT,
                volume_id: LAYOUT_VOLUME,
                lnum,
                ..VidHeader::default()
            };
            self.write(store, lnum, &vid)?;
            store.write_at(self.peb_start(lnum) + u64::from(self.geometry.data_offset()), &table)?;
        }
        Ok(())
    }
}

impl VolumeSource {
    fn wrong(&self, what: impl Into<String>) -> UbinizeError {
        UbinizeError::Volume { name: self.name.clone(), what: what.into() }
    }

    /// Size of the contents, bytes.
    fn content_bytes(&self) -> Result<u64, UbinizeError> {
        let Some(path) = &self.image else { return Ok(0) };
        let read = |error| UbinizeError::Read { path: path.clone(), error };
        Ok(metadata(path).map_err(read)?.len())
    }

    /// Superblock of the UBIFS in the contents, if there is one.
    fn superblock(&self) -> Result<Option<Superblock>, UbinizeError> {
        let Some(path) = &self.image else { return Ok(None) };
        let read = |error| UbinizeError::Read { path: path.clone(), error };
        let mut head = Vec::new();
        open_input(path).map_err(read)?.take(Superblock::SIZE as u64).read_to_end(&mut head).map_err(read)?;
        Ok(fit::superblock_in(&head))
    }

    /// Record in the volume table, and the usable size of the LEBs.
    pub(super) fn record(
        &self,
        geometry: &Geometry,
        content: u64,
    ) -> Result<(VolumeRecord, u32), UbinizeError> {
        let page = geometry.flash().min_io_bytes;
        let aligned = self.alignment == 1 || self.alignment.is_multiple_of(page);
        let aligned = aligned && self.alignment <= geometry.leb_bytes();
        let data_pad = geometry.data_pad(self.alignment).filter(|_| aligned);
        let data_pad = data_pad.ok_or_else(|| {
            self.wrong(format!("vol_alignment is 1 or a multiple of {page} bytes, at most a LEB"))
        })?;
        let usable = geometry.leb_bytes() - data_pad;
        let size = self.size.unwrap_or(content);
        if size < content {
            return Err(self.wrong(format!("{content} bytes do not fit into {size}")));
        }
        if let Some(path) = self.image.as_ref().filter(|_| content == 0) {
            return Err(self.wrong(format!("its image {} is empty", path.display())));
        }
        if self.volume_type == VolumeType::Static && content == 0 {
            return Err(self.wrong("a static volume needs an image: its LEBs say how many of them hold data"));
        }
        let lebs = u32::try_from(size.div_ceil(u64::from(usable)));
        let lebs = lebs.ok().filter(|&lebs| lebs > 0).ok_or_else(|| self.wrong("an impossible size"))?;
        let record = VolumeRecord::new(self.name.as_bytes(), self.volume_type, lebs, data_pad);
        let mut record = record.map_err(|error| self.wrong(error.to_string()))?;
        (record.alignment, record.flags) = (self.alignment, self.flags);
        record.check(geometry, u32::MAX >> 1).map_err(|error| self.wrong(error.to_string()))?;
        if self.id >= geometry.volume_slots() {
            let slots = geometry.volume_slots();
            return Err(self.wrong(format!("vol_id {} is too high: there are {slots}", self.id)));
        }
        Ok((record, usable))
    }
}

/// Checks that IDs and names are unique, and that at most one volume grows.
fn check_together(volumes: &[VolumeSource]) -> Result<(), UbinizeError> {
    for (at, volume) in volumes.iter().enumerate() {
        let before = &volumes[..at];
        if before.iter().any(|other| other.id == volume.id) {
            return Err(volume.wrong(format!("another volume has vol_id {}", volume.id)));
        }
        if before.iter().any(|other| other.name == volume.name) {
            return Err(volume.wrong("another volume has this name"));
        }
        let grows = |volume: &VolumeSource| volume.flags.contains(VolumeFlags::AUTORESIZE);
        if grows(volume) && before.iter().any(grows) {
            return Err(volume.wrong("another volume has the flag autoresize"));
        }
    }
    Ok(())
}

/// A volume with its record in the volume table, and the usable size of its LEBs.
type Recorded<'v> = (&'v VolumeSource, VolumeRecord, u32);

/// Checks the volumes with the rules of `check`: volumes with a filesystem, and all volumes on the flash.
fn check_volumes(
    shape: &FlashShape,
    volumes: &[Recorded<'_>],
    pebs: u64,
) -> Result<Vec<Finding>, UbinizeError> {
    let lebs = volumes.iter().map(|(_, record, _)| u64::from(record.reserved_pebs)).sum();
    let mut findings = fit::of_flash(lebs, pebs, shape);
    let flash = TargetFlash::new(*shape).ok();
    for (volume, record, usable) in volumes {
        let Some(superblock) = volume.superblock()? else { continue };
        let geometry = VolumeGeometry {
            lebs: record.reserved_pebs,
            leb_bytes: *usable,
            min_io_bytes: shape.page_bytes,
            max_write_bytes: shape.page_bytes,
            leb_start: 0,
            read_only: false,
        };
        let room = Room::new(record.flags, geometry, lebs, flash.as_ref());
        let of_volume = fit::of_volume(&superblock, &room).into_iter();
        findings.extend(of_volume.map(|finding| Finding { volume: Some(volume.name.clone()), ..finding }));
    }
    accepted(findings)
}

/// Warnings among the findings. The first finding with which Linux does not use the image is an error.
pub(super) fn accepted(findings: Vec<Finding>) -> Result<Vec<Finding>, UbinizeError> {
    match findings.iter().find(|finding| finding.severity == Outcome::Damaged) {
        Some(refused) => Err(UbinizeError::Refused(Box::new(refused.clone()))),
        None => Ok(findings),
    }
}

/// Writes an image with these volumes, in their order, for flash of this shape.
///
/// # Errors
/// Volumes that are impossible alone or together, or that Linux does not accept; files that cannot be read; failures
/// of the store.
pub fn ubinize<S: Store>(
    shape: &FlashShape,
    headers: &Headers,
    volumes: &[VolumeSource],
    store: &mut S,
) -> Result<Ubinized, UbinizeError> {
    check_together(volumes)?;
    let mut records: Vec<Recorded<'_>> = Vec::new();
    let mut pebs = u64::from(FIRST_DATA_PEB);
    for volume in volumes {
        let content = volume.content_bytes()?;
        let (record, usable) = volume.record(&headers.geometry, content)?;
        pebs += content.div_ceil(u64::from(usable));
        records.push((volume, record, usable));
    }
    let warnings = check_volumes(shape, &records, pebs)?;
    let table: Vec<(u32, VolumeRecord)> =
        records.iter().map(|(volume, record, _)| (volume.id, *record)).collect();
    headers.write_table(store, &table)?;
    let mut pnum = FIRST_DATA_PEB;
    for (volume, record, usable) in records {
        pnum = write_volume(headers, volume, &record, usable, pnum, store)?;
    }
    let end = headers.peb_start(pnum);
    fill(store, end)?;
    Ok(Ubinized { pebs: pnum, image_seq: headers.image_seq, warnings })
}

/// Writes the LEBs of a volume from a PEB on. Returns the next PEB.
fn write_volume<S: Store>(
    headers: &Headers,
    volume: &VolumeSource,
    record: &VolumeRecord,
    usable: u32,
    first: u32,
    store: &mut S,
) -> Result<u32, UbinizeError> {
    let Some(path) = &volume.image else { return Ok(first) };
    let read = |error| UbinizeError::Read { path: path.clone(), error };
    let mut file = File::open(path).map_err(read)?;
    let bytes = file.metadata().map_err(read)?.len();
    let too_large = || volume.wrong("its contents need more LEBs than a volume can have");
    let lebs = u32::try_from(bytes.div_ceil(u64::from(usable))).map_err(|_| too_large())?;
    let mut leb = Vec::new();
    for lnum in 0..lebs {
        leb.clear();
        let len = (&mut file).take(u64::from(usable)).read_to_end(&mut leb).map_err(read)?;
        let whole = (bytes - u64::from(lnum) * u64::from(usable)).min(u64::from(usable));
        if len as u64 != whole {
            return Err(volume.wrong("its contents became shorter while they were read"));
        }
        let pnum = first + lnum;
        headers.write(store, pnum, &vid_header(volume, record, lnum, lebs, &leb))?;
        store.write_at(headers.peb_start(pnum) + u64::from(headers.geometry.data_offset()), &leb)?;
    }
    Ok(first + lebs)
}

fn vid_header(volume: &VolumeSource, record: &VolumeRecord, lnum: u32, lebs: u32, data: &[u8]) -> VidHeader {
    let dynamic = VidHeader {
        volume_type: volume.volume_type,
        volume_id: volume.id,
        lnum,
        data_pad: record.data_pad,
        ..VidHeader::default()
    };
    match volume.volume_type {
        VolumeType::Static => VidHeader {
            // The length is at most the size of a LEB.
            data_size: data.len() as u32,
            used_lebs: lebs,
            data_crc: crc::ubi(data),
            ..dynamic
        },
        _ => dynamic,
    }
}

/// Reads an ini file with its volumes.
///
/// # Errors
/// The file cannot be read, or contains an error.
pub fn read(path: &Path) -> Result<Vec<VolumeSource>, UbinizeError> {
    let text = read_to_string(path);
    let text = text.map_err(|error| UbinizeError::Read { path: path.to_owned(), error })?;
    parse(&text, path)
}

/// Image sequence number that is computed from the volumes and their contents, so that UBI recognises PEBs of another
/// image. It is never 0, which matches every image.
///
/// # Errors
/// A file that cannot be read.
pub fn image_seq(volumes: &[VolumeSource]) -> Result<u32, UbinizeError> {
    let mut identity = Identity::new();
    for volume in volumes {
        identity.number(u64::from(volume.id) << 32 | u64::from(volume.alignment));
        identity.bytes(volume.name.as_bytes());
        identity.number(volume.size.unwrap_or(0));
        if let Some(path) = &volume.image {
            note(&mut identity, path).map_err(|error| UbinizeError::Read { path: path.clone(), error })?;
        }
    }
    Ok(identity.image_seq())
}

/// Adds the contents of a file to an identity.
fn note(identity: &mut Identity, path: &Path) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let len = (&mut file).take(NOTED_BYTES).read_to_end(&mut piece)?;
        identity.number(len as u64 | u64::from(crc::ubi(&piece)) << 32);
        if (len as u64) < NOTED_BYTES {
            return Ok(());
        }
    }
}
