//! Attach of the UBI device in an image.

use floatgate_media::ubi::{EC_MAGIC, MAX_ERASE_COUNT, VID_MAGIC};
use floatgate_media::{MediaError, Reason};
use floatgate_mtd::Geometry;
use floatgate_stack::store::Window;
use floatgate_stack::ubi::{AttachFault, AttachOptions, Ubi, UbiError};
use floatgate_stack::{Store, StoreFlash, StoreMode};

use super::shape::{UbiShape, flash_geometry};
use crate::ImageError;
use crate::format::location::{Content, ImageLocation};
use crate::image::{HostRoom, Image};

/// Largest number of PEBs of a flash for which an image may be made.
const MOST_PEBS: u64 = 1 << 16;

/// A device attached over a file.
pub type FileUbi = Ubi<StoreFlash<Window<Box<dyn Store>>>>;

impl Image {
    /// Attaches a UBI device without changes.
    ///
    /// # Errors
    /// The device is damaged.
    pub fn attach(&self, found: &ImageLocation) -> Result<FileUbi, ImageError> {
        self.attach_to_read(found, false)
    }

    /// Attaches the readable parts of a UBI device.
    ///
    /// # Errors
    /// The device cannot be attached at all.
    pub fn attach_remains(&self, found: &ImageLocation) -> Result<FileUbi, ImageError> {
        self.attach_to_read(found, true)
    }

    fn attach_to_read(&self, found: &ImageLocation, forgiving: bool) -> Result<FileUbi, ImageError> {
        let Content::Ubi(shape) = &found.content else { return Err(ImageError::Nothing) };
        let geometry = flash_geometry(shape, found.len);
        let options = AttachOptions {
            vid_header_offset: Some(shape.vid_header_offset),
            read_only: true,
            forgiving,
            ..AttachOptions::default()
        };
        let window = Window::new(self.store()?, found.offset, found.len);
        let (mode, bad) = (StoreMode::ReadOnly, found.bad_pebs.clone());
        Attaching { geometry, mode, bad, options, lebs_more: 0, room: None }.attach_growing(window)
    }

    /// Attaches a UBI device with these options; the image determines the offset of VID headers.
    ///
    /// # Errors
    /// The device is damaged.
    pub(crate) fn attach_as(
        &self,
        found: &ImageLocation,
        mode: StoreMode,
        options: AttachOptions,
    ) -> Result<FileUbi, ImageError> {
        let Content::Ubi(shape) = &found.content else { return Err(ImageError::Nothing) };
        let geometry = flash_geometry(shape, found.len);
        let options = AttachOptions { vid_header_offset: Some(shape.vid_header_offset), ..options };
        let store = self.store()?;
        let is_last = found.offset + found.len >= store.size_bytes();
        let room = if is_last { u64::MAX } else { found.len };
        let part = Window::new(store, found.offset, room);
        let bad = found.bad_pebs.clone();
        Attaching { geometry, mode, bad, options, lebs_more: 0, room: self.room.clone() }.attach_growing(part)
    }

    /// Attaches a UBI device to change only the contents of its volumes.
    ///
    /// After the last PEB with headers, only erased PEBs are used, and only as many as the volumes need. The
    /// remaining PEBs may belong to other data. No data is moved for wear levelling, and no volume grows.
    pub(crate) fn attach_for_writing(
        &self,
        found: &ImageLocation,
        recover: bool,
    ) -> Result<(Attaching, FileUbi), ImageError> {
        let Content::Ubi(shape) = &found.content else { return Err(ImageError::Nothing) };
        self.require_pages(found)?;
        let store = self.store()?;
        let pebs = Pebs::read(&*store, found, shape)?;
        let options = AttachOptions {
            vid_header_offset: Some(shape.vid_header_offset),
            wear_threshold: u32::try_from(MAX_ERASE_COUNT).unwrap_or(u32::MAX),
            after_power_cut: recover,
            autoresize: false,
            // PEBs of a file do not become bad.
            max_bad_per_1024: 0,
            ..AttachOptions::default()
        };
        let part = Window::new(store, found.offset, u64::MAX);
        let mut attaching = Attaching {
            geometry: flash_geometry(shape, pebs.bytes),
            mode: StoreMode::WriteThrough,
            bad: pebs.blank.iter().chain(&found.bad_pebs).copied().collect(),
            options,
            lebs_more: 0,
            room: self.room.clone(),
        };
        // A PEB without headers among the others is probably a bad block, unless it is needed.
        let outcome = match attaching.attach(part) {
            Err((fault, part)) if missing_pebs(&fault, attaching.good_pebs()).is_some() => {
                attaching.bad.clone_from(&found.bad_pebs);
                attaching.attach_growing(part)
            }
            outcome => outcome.map_err(|(fault, _)| ImageError::Attach(fault)),
        };
        Ok((attaching, outcome?))
    }
}

/// PEBs of a device up to the last one with headers.
struct Pebs {
    /// Number of bytes up to the end of the last PEB.
    bytes: u64,
    /// Numbers of PEBs without headers before the last PEB.
    blank: Vec<u32>,
}

impl Pebs {
    fn read(store: &dyn Store, found: &ImageLocation, shape: &UbiShape) -> Result<Self, ImageError> {
        let peb = u64::from(shape.peb_bytes);
        if !found.len.is_multiple_of(peb) {
            return Err(ImageError::Truncated("the file ends within an eraseblock".to_owned()));
        }
        let (mut bytes, mut blank) = (0, Vec::new());
        for pnum in 0..found.len / peb {
            let start = found.offset + pnum * peb;
            let mut has_header = false;
            for at in [start, start + u64::from(shape.vid_header_offset)] {
                let mut magic = [0; 4];
                store.read_at(at, &mut magic).map_err(ImageError::Store)?;
                has_header |= magic == EC_MAGIC || magic == VID_MAGIC;
            }
            if has_header {
                bytes = (pnum + 1) * peb;
            } else {
                blank.push(u32::try_from(pnum).unwrap_or(u32::MAX));
            }
        }
        blank.retain(|&pnum| u64::from(pnum) < bytes / peb);
        Ok(Self { bytes, blank })
    }
}

/// State of attaching a device.
pub(crate) struct Attaching {
    geometry: Geometry,
    mode: StoreMode,
    /// Numbers of bad PEBs.
    bad: Vec<u32>,
    options: AttachOptions,
    /// Number of LEBs that a volume gets afterwards.
    pub(crate) lebs_more: u32,
    room: Option<HostRoom>,
}

/// Part of a file that contains a device.
type Part = Window<Box<dyn Store>>;

impl Attaching {
    /// Number of good PEBs.
    fn good_pebs(&self) -> u32 {
        self.geometry.blocks().saturating_sub(self.bad.len() as u32)
    }

    fn attach(&self, part: Part) -> Result<FileUbi, (AttachFault, Part)> {
        let flash = StoreFlash::new(part, self.geometry.clone(), self.mode);
        let flash = flash.with_bad_blocks(self.bad.iter().copied());
        Ubi::attach(flash, &self.options).map_err(|refused| (refused.fault, refused.mtd.into_store()))
    }

    /// Attaches an image. If it is shorter than the flash for which it was made, erased blocks are added.
    pub(crate) fn attach_growing(&mut self, mut part: Part) -> Result<FileUbi, ImageError> {
        for _ in 0..4 {
            let (missing, back) = match self.attach(part) {
                Ok(ubi) => match u64::from(self.lebs_more.saturating_sub(ubi.info().available_lebs)) {
                    0 => return Ok(ubi),
                    missing => (missing, ubi.into_mtd().into_store()),
                },
                Err((fault, back)) => {
                    let missing = missing_pebs(&fault, self.good_pebs());
                    let missing = missing.filter(|&missing| missing <= MOST_PEBS);
                    (missing.ok_or(ImageError::Attach(fault))?, back)
                }
            };
            part = back;
            let more = missing.saturating_mul(u64::from(self.geometry.erase_bytes));
            if self.mode != StoreMode::ReadOnly {
                require_erased(&mut part, self.geometry.size_bytes, more, missing)?;
            }
            if let Some(room) = &self.room {
                room.reserve(part.start().saturating_add(self.geometry.size_bytes).saturating_add(more))?;
            }
            self.geometry.size_bytes = self.geometry.size_bytes.saturating_add(more);
        }
        self.attach(part).map_err(|(fault, _)| ImageError::Attach(fault))
    }
}

/// Number of PEBs that a device with `pebs` good PEBs needs in addition for its volumes, if this is the reason why
/// the attach failed.
fn missing_pebs(fault: &AttachFault, pebs: u32) -> Option<u64> {
    match fault {
        AttachFault::Ubi(UbiError::NoSpace { need, available }) => {
            Some(need.saturating_sub(u64::from(*available)))
        }
        // One volume is larger than all available PEBs. The number must be limited.
        AttachFault::VolumeTable(MediaError { reason: Reason::TooFewPebs { reserved }, .. })
            if u64::from(*reserved) <= MOST_PEBS =>
        {
            Some(u64::from(reserved.saturating_sub(pebs)))
        }
        _ => None,
    }
}

/// Checks that the range into which a device grows is erased, or after the end of the file.
fn require_erased(window: &mut Part, start: u64, len: u64, pebs: u64) -> Result<(), ImageError> {
    let end = start.saturating_add(len).min(window.size_bytes());
    let mut piece = vec![0; 1 << 16];
    let mut at = start;
    while at < end {
        let part = usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len());
        window.read_at(at, &mut piece[..part]).map_err(ImageError::Store)?;
        if piece[..part].iter().any(|&byte| byte != 0xFF) {
            return Err(ImageError::Occupied { pebs, offset: window.start() + at });
        }
        at += part as u64;
    }
    Ok(())
}
