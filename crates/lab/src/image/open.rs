//! From a file to a mounted filesystem.

use std::fs::File;
use std::path::Path;

use floatgate_media::ubi::MAX_ERASE_COUNT;
use floatgate_media::{MediaError, Reason};
use floatgate_mtd::{FlashKind, Geometry, Pairing};
use floatgate_stack::store::Window;
use floatgate_stack::ubi::{AttachFault, AttachOptions, Ubi, UbiError, VolumeInfo};
use floatgate_stack::ubifs::{Authenticate, Behaviour, MountOptions, Ubifs};
use floatgate_stack::{BareVolume, FileStore, Store, StoreFlash, StoreMode, Volume, VolumeGeometry};
use serde::Serialize;

use super::ImageError;
use super::detect::{Content, Found, PageShape, UbiShape, detect};
use super::edit::Pending;
use super::oob::{Corrected, correct};

/// The program buffer that is assumed for NOR.
const NOR_BUFFER: u32 = 64;

/// The smallest write that UBIFS has on NOR.
const UBIFS_MIN_IO: u32 = 8;

/// What the volume table's parser calls the PEBs of a volume.
const RESERVED_FIELD: &str = "reserved PEBs";

/// Most PEBs of a flash that an image is believed to be made for.
const MOST_PEBS: u64 = 1 << 16;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written; what recovery finds stays in memory.
    Read,
    /// Changes go to the file.
    Write,
}

/// An opened file, and what is in it.
pub struct Image {
    /// Where each image is.
    pub found: Vec<Found>,
    store: Box<dyn Store>,
    /// The file with the bytes that `found` counts in.
    file: File,
    /// Of a dump whose OOB was taken out.
    pub corrected: Option<Corrected>,
    access: Access,
}

/// Changes of a file that wait.
pub(super) type FilePending = Pending<Box<dyn Store>>;

/// A device attached over a file.
pub type FileUbi = Ubi<StoreFlash<Window<Box<dyn Store>>>>;

/// A filesystem mounted from a file.
pub type FileUbifs = Ubifs<Box<dyn Volume>>;

/// Which of several images and volumes is meant, and what of its filesystem is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Where the image begins in the file.
    pub offset: Option<u64>,
    /// Name or number of a volume.
    pub volume: Option<String>,
    /// What is verified of a filesystem with authentication.
    pub authenticate: Authenticate,
}

/// Sizes of flash that an image does not tell, or that the user knows better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hints {
    /// Bytes of a page.
    pub page_bytes: Option<u32>,
    /// Bytes of a sub-page.
    pub sub_page_bytes: Option<u32>,
}

impl Image {
    /// Opens a file and looks for images in it. A NAND dump with OOB is corrected into a temporary file first.
    ///
    /// # Errors
    /// The file cannot be read; nothing known is in it.
    pub fn open(path: &Path, access: Access) -> Result<Self, ImageError> {
        let file = match access {
            Access::Read => File::open(path),
            Access::Write => File::options().read(true).write(true).open(path),
        };
        Self::over(file.map_err(ImageError::File)?, path, access)
    }

    /// Opens a file to change what is in it, in memory for now: the changes are in what comes with the image.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn open_pending(path: &Path) -> Result<(Self, FilePending), ImageError> {
        let file = File::open(path).map_err(ImageError::File)?;
        let mut image = Self::over(file, path, Access::Write)?;
        let pending = Pending::new(image.store);
        image.store = Box::new(pending.clone());
        Ok((image, pending))
    }

    fn over(file: File, path: &Path, access: Access) -> Result<Self, ImageError> {
        let mut store = store_of(&file)?;
        let found = detect(&mut store)?;
        let with_oob = found.iter().find_map(|found| match found.content {
            Content::UbiWithOob { pages, .. } => Some((found.offset, found.len, pages)),
            _ => None,
        });
        match with_oob {
            Some((offset, len, pages)) => Self::corrected(path, offset, len, pages, access),
            None if found.is_empty() => Err(ImageError::Nothing),
            None => Ok(Self { found, store, file, corrected: None, access }),
        }
    }

    fn corrected(
        path: &Path,
        offset: u64,
        len: u64,
        pages: PageShape,
        access: Access,
    ) -> Result<Self, ImageError> {
        if access == Access::Write {
            return Err(ImageError::OobReadOnly);
        }
        let (file, corrected) = correct(path, offset, len, pages)?;
        let mut store = store_of(&file)?;
        let found = detect(&mut store)?;
        if found.is_empty() {
            return Err(ImageError::Nothing);
        }
        Ok(Self { found, store, file, corrected: Some(corrected), access })
    }

    /// The same file once more, for another image in it; `None` if the system has no descriptor left.
    pub(super) fn reopen(&self) -> Option<Self> {
        let file = self.file.try_clone().ok()?;
        let store = store_of(&file).ok()?;
        Some(Self {
            found: self.found.clone(),
            store,
            file,
            corrected: self.corrected.clone(),
            access: self.access,
        })
    }

    /// Gives up the bytes, in which `found` counts.
    pub(super) fn into_store(self) -> Box<dyn Store> {
        self.store
    }

    /// The image that is meant: the one that begins at the offset, or the only one.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn choose(&self, selection: &Selection) -> Result<Found, ImageError> {
        match selection.offset {
            Some(offset) => {
                let at = self.found.iter().find(|found| found.offset == offset);
                at.cloned().ok_or(ImageError::NotThere(offset))
            }
            None if self.found.len() == 1 => Ok(self.found[0].clone()),
            None => Err(ImageError::Several(self.found.len())),
        }
    }

    /// Mounts the filesystem that is meant.
    ///
    /// # Errors
    /// Several images or volumes and none chosen; a device or a filesystem that is damaged; one that needs recovery, unless
    /// `recover` allows it or nothing is to be written.
    pub fn mount(
        self,
        selection: &Selection,
        recover: bool,
        behaviour: Behaviour,
    ) -> Result<FileUbifs, ImageError> {
        let options = MountOptions {
            read_only: self.access == Access::Read,
            recover,
            forgiving: self.access == Access::Read,
            keep_space_fixup: true,
            authenticate: selection.authenticate.clone(),
        };
        let writes = self.access == Access::Write;
        let volume = self.open_volume(selection, recover)?;
        let mut fs = Ubifs::mount(volume, &options, behaviour).map_err(|(error, _)| error)?;
        if writes && let Some(&lnum) = fs.missing_lebs()?.first() {
            return Err(ImageError::Truncated(format!("LEB {lnum} of the filesystem is not there")));
        }
        Ok(fs)
    }

    /// The volume that is meant: of a UBI device the only one, or the one that was named.
    ///
    /// # Errors
    /// As [`mount`](Self::mount).
    pub fn volume(self, selection: &Selection) -> Result<Box<dyn Volume>, ImageError> {
        self.open_volume(selection, false)
    }

    fn open_volume(self, selection: &Selection, recover: bool) -> Result<Box<dyn Volume>, ImageError> {
        let found = self.choose(selection)?;
        match found.content {
            Content::Ubifs { leb_bytes, min_io_bytes } => {
                if self.access == Access::Write && !found.len.is_multiple_of(u64::from(leb_bytes)) {
                    return Err(ImageError::Truncated("the file ends within a LEB".to_owned()));
                }
                let geometry = VolumeGeometry {
                    lebs: u32::try_from(found.len.div_ceil(u64::from(leb_bytes))).unwrap_or(u32::MAX),
                    leb_bytes,
                    min_io_bytes,
                    max_write_bytes: min_io_bytes.max(if min_io_bytes == UBIFS_MIN_IO {
                        NOR_BUFFER
                    } else {
                        1
                    }),
                    leb_start: 0,
                    read_only: self.access == Access::Read,
                };
                Ok(Box::new(BareVolume::new(Window::new(self.store, found.offset, found.len), geometry)))
            }
            _ => {
                let ubi = match self.access {
                    Access::Read => self.attach(&found, &Hints::default())?,
                    Access::Write => self.attach_for_writing(&found, recover)?,
                };
                let id = choose_volume(&ubi, selection)?;
                let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
                Ok(Box::new(volume))
            }
        }
    }

    /// Attaches a UBI device that was found, as it is.
    ///
    /// # Errors
    /// It is damaged.
    pub fn attach(self, found: &Found, hints: &Hints) -> Result<FileUbi, ImageError> {
        let (Content::Ubi(shape) | Content::UbiWithOob { ubi: shape, .. }) = &found.content else {
            return Err(ImageError::Nothing);
        };
        let geometry = flash_geometry(shape, found.len, hints);
        let options = AttachOptions {
            vid_header_offset: Some(shape.vid_header_offset),
            read_only: true,
            ..AttachOptions::default()
        };
        let window = Window::new(self.store, found.offset, found.len);
        attach_growing(window, geometry, StoreMode::ReadOnly, &options)
    }

    /// Attaches a UBI device to change what is in its volumes, and nothing else.
    ///
    /// Of what follows the last PEB with headers only as many PEBs are taken as the volumes need, and only erased ones: the
    /// rest may belong to somebody else. Nothing is moved because of wear, and no volume grows.
    fn attach_for_writing(mut self, found: &Found, recover: bool) -> Result<FileUbi, ImageError> {
        let (Content::Ubi(shape) | Content::UbiWithOob { ubi: shape, .. }) = &found.content else {
            return Err(ImageError::Nothing);
        };
        let size = self.store.size_bytes();
        let len = device_bytes(&mut self.store, found, shape)?;
        let geometry = flash_geometry(shape, len, &Hints::default());
        let options = AttachOptions {
            vid_header_offset: Some(shape.vid_header_offset),
            wear_threshold: u32::try_from(MAX_ERASE_COUNT).unwrap_or(u32::MAX),
            after_power_cut: recover,
            autoresize: false,
            ..AttachOptions::default()
        };
        let is_last = found.offset + found.len >= size;
        let room = if is_last { u64::MAX } else { found.len };
        let window = Window::new(self.store, found.offset, room);
        attach_growing(window, geometry, StoreMode::WriteThrough, &options)
    }
}

/// Bytes up to the end of the last PEB that has a header.
fn device_bytes(store: &mut dyn Store, found: &Found, shape: &UbiShape) -> Result<u64, ImageError> {
    let peb = u64::from(shape.peb_bytes);
    if !found.len.is_multiple_of(peb) {
        return Err(ImageError::Truncated("the file ends within an eraseblock".to_owned()));
    }
    for pnum in (0..found.len / peb).rev() {
        let start = found.offset + pnum * peb;
        let mut magic = [0; 4];
        for at in [start, start + u64::from(shape.vid_header_offset)] {
            store.read_at(at, &mut magic).map_err(ImageError::Store)?;
            if magic == *b"UBI#" || magic == *b"UBI!" {
                return Ok((pnum + 1) * peb);
            }
        }
    }
    Ok(found.len)
}

fn store_of(file: &File) -> Result<Box<dyn Store>, ImageError> {
    let file = file.try_clone().map_err(ImageError::File)?;
    Ok(Box::new(FileStore::new(file).map_err(ImageError::Store)?))
}

/// Attaches; an image that is shorter than the flash it was made for gets erased blocks behind it.
fn attach_growing(
    window: Window<Box<dyn Store>>,
    mut geometry: Geometry,
    mode: StoreMode,
    options: &AttachOptions,
) -> Result<FileUbi, ImageError> {
    let mut window = window;
    for _ in 0..3 {
        let refused = match Ubi::attach(StoreFlash::new(window, geometry.clone(), mode), options) {
            Ok(ubi) => return Ok(ubi),
            Err(refused) => refused,
        };
        let Some(missing) = missing_pebs(&refused.fault, geometry.blocks()) else {
            return Err(ImageError::Attach(refused.fault));
        };
        let more = missing.saturating_mul(u64::from(geometry.erase_bytes));
        window = refused.mtd.into_store();
        if mode != StoreMode::ReadOnly {
            require_erased(&mut window, geometry.size_bytes, more, missing)?;
        }
        geometry.size_bytes = geometry.size_bytes.saturating_add(more);
    }
    match Ubi::attach(StoreFlash::new(window, geometry, mode), options) {
        Ok(ubi) => Ok(ubi),
        Err(refused) => Err(ImageError::Attach(refused.fault)),
    }
}

/// PEBs that a device lacks for its volumes, if that is why it was refused.
fn missing_pebs(fault: &AttachFault, pebs: u32) -> Option<u64> {
    match fault {
        AttachFault::Ubi(UbiError::NoSpace { need, available }) => {
            Some(need.saturating_sub(u64::from(*available)))
        }
        // One volume alone is larger than what there is. The number is not to be believed without limit.
        AttachFault::VolumeTable(MediaError { reason: Reason::OutOfRange { field, value }, .. })
            if *field == RESERVED_FIELD && *value <= MOST_PEBS =>
        {
            Some(value.saturating_sub(u64::from(pebs)))
        }
        _ => None,
    }
}

/// Makes sure that what a device grows over is erased, or behind the end of the file.
fn require_erased(
    window: &mut Window<Box<dyn Store>>,
    start: u64,
    len: u64,
    pebs: u64,
) -> Result<(), ImageError> {
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

fn choose_volume(ubi: &FileUbi, selection: &Selection) -> Result<u32, ImageError> {
    let volumes: Vec<VolumeInfo> = ubi.volumes().collect();
    let names = || volumes.iter().map(|volume| super::extract::show_name(&volume.name)).collect();
    match &selection.volume {
        Some(wanted) => {
            let by_name = volumes.iter().find(|volume| volume.name == wanted.as_bytes());
            let by_id =
                || wanted.parse::<u32>().ok().and_then(|id| volumes.iter().find(|volume| volume.id == id));
            let found = by_name.or_else(by_id).map(|volume| volume.id);
            found.ok_or_else(|| ImageError::NoVolume { wanted: wanted.clone(), names: names() })
        }
        None => match volumes.as_slice() {
            [] => Err(ImageError::NoVolumes),
            [only] => Ok(only.id),
            _ => Err(ImageError::ChooseVolume(names())),
        },
    }
}

/// The flash that a UBI device was made for, as far as its headers tell.
pub fn flash_geometry(shape: &UbiShape, len: u64, hints: &Hints) -> Geometry {
    let min_io = hints.page_bytes.unwrap_or_else(|| min_io_bytes(shape));
    let is_nor = min_io < 256;
    Geometry {
        kind: if is_nor { FlashKind::Nor } else { FlashKind::SlcNand },
        size_bytes: len.next_multiple_of(u64::from(shape.peb_bytes)),
        erase_bytes: shape.peb_bytes,
        write_bytes: min_io,
        buffer_bytes: if is_nor { NOR_BUFFER } else { min_io },
        sub_page_bytes: hints.sub_page_bytes.unwrap_or_else(|| sub_page_bytes(shape, min_io)),
        oob_bytes: 0,
        oob_free_bytes: 0,
        ecc_strength: 0,
        ecc_step_bytes: 0,
        bitflip_threshold: 0,
        pairing: Pairing::NONE,
    }
}

/// The page size that headers tell: data begin with the first page behind the VID header.
///
/// NOR has no pages: there the headers follow each other. Where data begin at twice the VID header's place it may stand in a page
/// of its own or in the middle of one twice as large: a filesystem inside tells; without one, the first is far more usual.
fn min_io_bytes(shape: &UbiShape) -> u32 {
    let (vid, data) = (shape.vid_header_offset, shape.data_offset);
    if vid < 256 || data == 0 {
        return 1;
    }
    let largest = 1 << data.trailing_zeros();
    let told = shape.min_io_bytes.filter(|&told| told.is_power_of_two() && data.is_multiple_of(told));
    match told {
        Some(told) if told >= vid => told,
        _ if vid.is_power_of_two() && data == 2 * vid => vid,
        _ => largest,
    }
}

fn sub_page_bytes(shape: &UbiShape, min_io: u32) -> u32 {
    let vid = shape.vid_header_offset;
    if vid.is_power_of_two() && vid < min_io { vid } else { min_io }
}
