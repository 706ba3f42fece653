//! From a file to a mounted filesystem.

use std::fs::File;
use std::path::Path;

use floatgate_mtd::{FlashKind, Geometry, Pairing};
use floatgate_stack::store::Window;
use floatgate_stack::ubi::{AttachFault, AttachOptions, Ubi, UbiError, VolumeInfo};
use floatgate_stack::ubifs::{Behaviour, MountOptions, Ubifs};
use floatgate_stack::{BareVolume, FileStore, Store, StoreFlash, StoreMode, Volume, VolumeGeometry};
use serde::Serialize;

use super::ImageError;
use super::detect::{Content, Found, PageShape, UbiShape, detect};
use super::oob::{Corrected, correct};

/// The program buffer that is assumed for NOR.
const NOR_BUFFER: u32 = 64;

/// The smallest write that UBIFS has on NOR.
const UBIFS_MIN_IO: u32 = 8;

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

/// A device attached over a file.
pub type FileUbi = Ubi<StoreFlash<Window<Box<dyn Store>>>>;

/// A filesystem mounted from a file.
pub type FileUbifs = Ubifs<Box<dyn Volume>>;

/// Which of several images and volumes is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Where the image begins in the file.
    pub offset: Option<u64>,
    /// Name or number of a volume.
    pub volume: Option<String>,
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
        };
        let volume = self.volume(selection)?;
        Ubifs::mount(volume, &options, behaviour).map_err(|(error, _)| error.into())
    }

    /// The volume that is meant: of a UBI device the only one, or the one that was named.
    ///
    /// # Errors
    /// As [`mount`](Self::mount).
    pub fn volume(self, selection: &Selection) -> Result<Box<dyn Volume>, ImageError> {
        let found = self.choose(selection)?;
        match found.content {
            Content::Ubifs { leb_bytes, min_io_bytes } => {
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
                let ubi = self.attach(&found, &Hints::default())?;
                let id = choose_volume(&ubi, selection)?;
                let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
                Ok(Box::new(volume))
            }
        }
    }

    /// Attaches a UBI device that was found.
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
            read_only: self.access == Access::Read,
            ..AttachOptions::default()
        };
        let mode = if self.access == Access::Read { StoreMode::ReadOnly } else { StoreMode::WriteThrough };
        let window = Window::new(self.store, found.offset, found.len);
        attach_growing(window, geometry, mode, &options)
    }
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
    for _ in 0..2 {
        let refused = match Ubi::attach(StoreFlash::new(window, geometry.clone(), mode), options) {
            Ok(ubi) => return Ok(ubi),
            Err(refused) => refused,
        };
        let AttachFault::Ubi(UbiError::NoSpace { need, available }) = refused.fault else {
            return Err(ImageError::Attach(refused.fault));
        };
        let missing = need.saturating_sub(u64::from(available));
        let more = missing.saturating_mul(u64::from(geometry.erase_bytes));
        window = refused.mtd.into_store();
        geometry.size_bytes = geometry.size_bytes.saturating_add(more);
    }
    match Ubi::attach(StoreFlash::new(window, geometry, mode), options) {
        Ok(ubi) => Ok(ubi),
        Err(refused) => Err(ImageError::Attach(refused.fault)),
    }
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
