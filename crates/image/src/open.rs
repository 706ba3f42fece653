//! From a file to a mounted filesystem.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use floatgate_media::ubi::{EC_MAGIC, MAX_ERASE_COUNT, VID_MAGIC};
use floatgate_media::{MediaError, Reason};
use floatgate_mtd::{FlashKind, Geometry, Pairing};
use floatgate_stack::fs::FileSystem;
use floatgate_stack::store::{CachedStore, Window};
use floatgate_stack::ubi::{AttachFault, AttachOptions, Ubi, UbiError};
use floatgate_stack::ubifs::{Authenticate, Behaviour, MountOptions, Ubifs, probe};
use floatgate_stack::{BareVolume, FileStore, Store, StoreFlash, StoreMode, Volume, VolumeGeometry};

use super::ImageError;
use super::check::Origin;
use super::content::{HEAD_BYTES, format_of, holds_ubifs, is_node};
use super::detect::{
    Content, Found, Jffs2Shape, PageShape, UbiShape, detect_in_pages, detect_sized, explain,
};
use super::edit::Pending;
use super::extract::show_name;
use super::format::jffs2;
use super::format::jffs2::shifts::{Splice, Spliced, Splices};
use super::info::size;
use super::oob::{Corrected, correct};
use super::oob_store::{OobPages, clean_markers};
use crate::ecc::Scheme;
use crate::output;

/// The program buffer that is assumed for NOR: the page of an SPI NOR chip. Parallel NOR has buffers of 32 to 1024 bytes.
const NOR_BUFFER: u32 = 256;

/// The smallest write that UBIFS has on NOR.
const UBIFS_MIN_IO: u32 = 8;

/// Most PEBs of a flash that an image is believed to be made for.
const MOST_PEBS: u64 = 1 << 16;

/// Purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written; what recovery finds stays in memory.
    Read,
    /// Changes go to the file.
    Write,
}

/// The bytes in which [`Image::found`] counts.
#[derive(Clone)]
enum Bytes {
    /// A file.
    File(Arc<File>),
    /// Corrected pages of a dump with OOB, which is written as well.
    Pages(Box<OobPages>, Arc<File>),
    /// Either with changes that wait.
    Pending(FilePending),
    /// A file with its eraseblocks in their places.
    Spliced(Arc<File>, Splices),
}

impl Bytes {
    fn open(&self) -> Result<Box<dyn Store>, ImageError> {
        match self {
            Self::File(file) => store_of(file),
            Self::Pages(pages, dump) => pages.store(dump),
            Self::Pending(pending) => Ok(Box::new(pending.clone())),
            Self::Spliced(file, splices) => Ok(Box::new(Spliced::new(store_of(file)?, splices.clone()))),
        }
    }
}

/// An opened file, and what is in it. Volumes and filesystems opened of it have the file for themselves: one that is written must be
/// the only one.
#[derive(Clone)]
pub struct Image {
    /// Images found in the file, with their positions.
    pub found: Vec<Found>,
    bytes: Bytes,
    /// Changes that put eraseblocks into their places; [`found`](Self::found) counts with them.
    pub(super) splices: Splices,
    /// Of a dump whose OOB was taken out.
    pub corrected: Option<Corrected>,
    /// ECC scheme of such a dump.
    scheme: Option<Scheme>,
    /// LEBs that a volume is to have that can grow.
    lebs: Option<u32>,
    /// Bytes of a PEB or eraseblock, if they were stated.
    peb_bytes: Option<u32>,
    access: Access,
    /// The room on the host's disk, where changes go to the file at once.
    room: Option<HostRoom>,
}

/// A file that changes go to at once, and may make longer.
#[derive(Clone, Debug)]
struct HostRoom {
    file: Arc<File>,
    /// Of a dump with OOB.
    oob: Option<OobPages>,
    /// Bytes that the images have room in now.
    len: u64,
}

impl HostRoom {
    fn new(bytes: &Bytes) -> Result<Option<Self>, ImageError> {
        let len = bytes.open()?.size_bytes();
        Ok(match bytes {
            Bytes::File(file) => Some(Self { file: Arc::clone(file), oob: None, len }),
            Bytes::Pages(pages, dump) => {
                Some(Self { file: Arc::clone(dump), oob: Some((**pages).clone()), len })
            }
            Bytes::Pending(_) | Bytes::Spliced(..) => None,
        })
    }

    /// Reserves what the images need to grow up to the byte `end`, before the file becomes longer.
    fn reserve(&self, end: u64) -> Result<(), ImageError> {
        if end <= self.len {
            return Ok(());
        }
        let range = self.len..end;
        let range = self.oob.as_ref().map_or(range.clone(), |oob| oob.dump_range(&range));
        output::reserve(&self.file, &range).map_err(ImageError::HostFull)
    }
}

/// LEBs that a volume of an image has, and can have; of a JFFS2 eraseblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// LEBs of the filesystem now.
    pub now: u32,
    /// LEBs that the filesystem was made for.
    pub max: u32,
    /// LEBs of the volume; of a bare image those in the file.
    pub volume: u32,
    /// Name of what grows: `volume` or `image`.
    pub what: &'static str,
    /// Name of its unit: `LEB` or `eraseblock`.
    pub unit: &'static str,
}

/// Changes of a file that wait.
pub(super) type FilePending = Pending<Box<dyn Store>>;

/// A device attached over a file.
pub type FileUbi = Ubi<StoreFlash<Window<Box<dyn Store>>>>;

/// A filesystem mounted from a file.
pub type ImageFs = Box<dyn FileSystem>;

/// Selection of one of several images and volumes, of what is verified in its filesystem, and of the flash that it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Offset of the image in the file, bytes.
    pub offset: Option<u64>,
    /// Name or number of a volume.
    pub volume: Option<String>,
    /// Verification of a filesystem with authentication.
    pub authenticate: Authenticate,
    /// Bytes of a PEB or eraseblock of the flash, which not every JFFS2 tells.
    pub peb_bytes: Option<u32>,
}

impl Image {
    /// Opens a file and looks for images in it. A NAND dump with OOB is corrected into a temporary file first.
    ///
    /// # Errors
    /// The file cannot be read; nothing known is in it.
    pub fn open(path: &Path, access: Access) -> Result<Self, ImageError> {
        Self::open_sized(path, access, None)
    }

    /// As [`open`](Self::open), of flash whose PEBs or eraseblocks have this size, if it is given. UBI tells it itself; a JFFS2 does so only
    /// where it is long enough.
    ///
    /// # Errors
    /// As [`open`](Self::open); what is in the file has another size.
    pub fn open_sized(path: &Path, access: Access, peb_bytes: Option<u32>) -> Result<Self, ImageError> {
        let file = File::options().read(true).write(access == Access::Write).open(path);
        Self::over_known(file.map_err(ImageError::File)?, access, (None, peb_bytes))
    }

    /// Opens what comes out of a pipe, for reading. It is kept in a temporary file.
    ///
    /// # Errors
    /// As [`open_sized`](Self::open_sized); the temporary file has no room.
    pub fn from_stream(stream: &mut dyn std::io::Read, peb_bytes: Option<u32>) -> Result<Self, ImageError> {
        let mut file = tempfile::tempfile().map_err(ImageError::File)?;
        std::io::copy(stream, &mut file).map_err(ImageError::File)?;
        Self::over_known(file, Access::Read, (None, peb_bytes))
    }

    /// Opens a file to change what is in it, in memory: the changes are in what comes with the image.
    ///
    /// # Errors
    /// As [`open_sized`](Self::open_sized).
    pub(super) fn open_pending(
        path: &Path,
        peb_bytes: Option<u32>,
    ) -> Result<(Self, FilePending, Option<OobPages>), ImageError> {
        let file = File::open(path).map_err(ImageError::File)?;
        let mut image = Self::over_known(file, Access::Write, (None, peb_bytes))?;
        let pending = Pending::new(image.bytes.open()?);
        let oob = match std::mem::replace(&mut image.bytes, Bytes::Pending(pending.clone())) {
            Bytes::Pages(pages, _) => Some(*pages),
            _ => None,
        };
        image.room = None;
        Ok((image, pending, oob))
    }

    /// Looks for images in a file that is open.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn over(file: File, access: Access) -> Result<Self, ImageError> {
        Self::over_known(file, access, (None, None))
    }

    /// Opens a file that has been made of the one with this image.
    pub(super) fn open_like(&self, path: &Path, access: Access) -> Result<Self, ImageError> {
        let file = File::options().read(true).write(access == Access::Write).open(path);
        Self::over_known(file.map_err(ImageError::File)?, access, (self.scheme.as_ref(), self.peb_bytes))
    }

    /// Opens a file of which the ECC scheme or the bytes of a PEB are known.
    fn over_known(
        file: File,
        access: Access,
        (scheme, peb_bytes): (Option<&Scheme>, Option<u32>),
    ) -> Result<Self, ImageError> {
        let file = Arc::new(file);
        let mut store = store_of(&file)?;
        let found = detect_sized(&mut store, peb_bytes)?;
        let with_oob = found.iter().find_map(|found| match found.content {
            Content::UbiWithOob { pages, .. } | Content::Jffs2WithOob { pages } => Some((found, pages)),
            _ => None,
        });
        match with_oob {
            Some((found, pages)) => Self::corrected(&file, found, pages, access, (scheme, peb_bytes)),
            None if found.is_empty() => Err(explain(&mut store)?),
            None => {
                let (bytes, splices, found) =
                    spliced(file, found, access, |store| detect_sized(store, peb_bytes))?;
                let (corrected, scheme, lebs, room) = (None, None, None, None);
                Self { found, bytes, splices, corrected, scheme, lebs, peb_bytes, access, room }.with_room()
            }
        }
    }

    /// Remembers where changes go that are written at once.
    fn with_room(self) -> Result<Self, ImageError> {
        let room = if self.access == Access::Write { HostRoom::new(&self.bytes)? } else { None };
        Ok(Self { room, ..self })
    }

    /// Corrects a dump from its first whole block on.
    fn corrected(
        file: &Arc<File>,
        found: &Found,
        pages: PageShape,
        access: Access,
        (known, peb_bytes): (Option<&Scheme>, Option<u32>),
    ) -> Result<Self, ImageError> {
        let block = u64::from(pages.stride()) * u64::from(pages.pages_per_block);
        let (data, corrected, scheme) = correct(file, found.offset % block, pages, found, known)?;
        let data = Arc::new(data);
        let mut store = store_of(&data)?;
        let detect = |store: &mut dyn Store| detect_in_pages(store, Some(pages), peb_bytes);
        let found = detect(&mut store)?;
        if found.is_empty() {
            return Err(ImageError::Nothing);
        }
        // No repair of a dump with OOB puts bytes back that are missing.
        let shifted = |error| match error {
            ImageError::Shifted(why) => ImageError::NotRepairable(why),
            error => error,
        };
        let (plain, splices, mut found) =
            spliced(Arc::clone(&data), found, access, detect).map_err(shifted)?;
        for found in &mut found {
            *found = jffs2::write::with_free(&store, found, |found| corrected.bad_pebs(found))?;
        }
        let bytes = match (access, &scheme) {
            (Access::Read, _) => plain,
            (Access::Write, Some(scheme)) => {
                let markers = clean_markers(file, &corrected, &found)?;
                let pages = OobPages::new(scheme.clone(), &corrected, data, markers);
                Bytes::Pages(Box::new(pages), Arc::clone(file))
            }
            (Access::Write, None) => return Err(ImageError::OobReadOnly),
        };
        let corrected = Some(corrected);
        let (lebs, room) = (None, None);
        Self { found, bytes, splices, corrected, scheme, lebs, peb_bytes, access, room }.with_room()
    }

    /// Writes what the ECC has corrected into the dump it comes from, which was opened for writing; the number of pages.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(super) fn write_corrected(&self, dump: &File) -> Result<u64, ImageError> {
        let Bytes::Pages(oob, _) = &self.bytes else { return Ok(0) };
        self.found.iter().map(|found| oob.write_corrected(dump, found)).sum()
    }

    /// Moves what stands behind the first `end` bytes of a UBI device into free PEBs before, as far as there are any.
    ///
    /// # Errors
    /// The device cannot be attached or written.
    pub(super) fn vacate(&self, found: &Found, end: u64) -> Result<(), ImageError> {
        let Content::Ubi(shape) = &found.content else { return Ok(()) };
        let peb = u64::from(shape.peb_bytes);
        let len = self.store()?.size_bytes().saturating_sub(found.offset).next_multiple_of(peb);
        let (_, mut ubi) = self.attach_for_writing(&Found { len, ..found.clone() }, false)?;
        ubi.vacate(u32::try_from(end / peb).unwrap_or(u32::MAX))?;
        ubi.detach().map(drop).map_err(|(error, _)| error.into())
    }

    /// The bytes, in which `found` counts.
    pub(super) fn store(&self) -> Result<Box<dyn Store>, ImageError> {
        self.bytes.open()
    }

    /// The byte of the file that is a byte of the images: in a dump there is OOB between the pages.
    pub fn file_byte(&self, at: u64) -> u64 {
        let at = self.splices.file_byte(at);
        self.corrected.as_ref().map_or(at, |corrected| corrected.file_byte(at))
    }

    /// The place of an image in the file.
    pub(super) fn origin(&self, found: &Found) -> Origin {
        Origin::new(found, self.splices.clone(), self.corrected.clone())
    }

    /// Places in the file where bytes of an image are missing or too many, each with what is wrong.
    pub(super) fn shifts(&self, found: &Found) -> Vec<(u64, String)> {
        let within = self.splices.within(found.offset..found.offset + found.len);
        let place = |at| self.corrected.as_ref().map_or(at, |corrected| corrected.file_byte(at));
        within.filter_map(Splice::finding).map(|(at, what)| (place(at), what)).collect()
    }

    /// The image that is meant: the one that begins at the offset, or the only one. A JFFS2 may be what begins with any of its nodes.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn choose(&self, selection: &Selection) -> Result<Found, ImageError> {
        let found = match selection.offset {
            Some(offset) => {
                let at = self.found.iter().find(|found| self.file_byte(found.offset) == offset);
                at.cloned().map_or_else(|| self.jffs2_at(offset), Ok)?
            }
            None if self.found.len() == 1 => self.found[0].clone(),
            None => {
                return Err(ImageError::Several(
                    self.found.iter().map(|found| self.place_of(found)).collect(),
                ));
            }
        };
        found.require_volume(selection)?;
        Ok(found)
    }

    /// A JFFS2 of which a node begins at a byte of the file, in what looks like one with nodes before.
    fn jffs2_at(&self, offset: u64) -> Result<Found, ImageError> {
        let pages = self.corrected.as_ref().map(|corrected| corrected.pages);
        let at = self.corrected.as_ref().map_or(Some(offset), |corrected| corrected.data_byte(offset));
        let at = at.map(|at| self.splices.place(at)).ok_or(ImageError::NotThere(offset))?;
        let found = jffs2::detect::find_at(&mut *self.store()?, at, pages, self.peb_bytes)?;
        let mut found = found.ok_or(ImageError::NotThere(offset))?;
        found.bad_pebs =
            self.corrected.as_ref().map(|corrected| corrected.bad_pebs(&found)).unwrap_or_default();
        Ok(found)
    }

    /// Kind, offset and size of an image, for a list to choose from.
    fn place_of(&self, found: &Found) -> String {
        let kind = match &found.content {
            Content::Jffs2(shape) if shape.big_endian => "big-endian JFFS2",
            Content::Jffs2(_) => "little-endian JFFS2",
            Content::Ubifs { .. } => "UBIFS without UBI",
            _ => "UBI",
        };
        let offset = self.file_byte(found.offset);
        format!("{kind} at byte {offset} ({offset:#x}), {}", size(found.len))
    }

    /// Mounts the filesystem that is meant.
    ///
    /// # Errors
    /// Several images or volumes and none chosen; a device or a filesystem that is damaged; one that needs recovery, unless
    /// `recover` allows it or nothing is to be written.
    pub fn mount(
        &self,
        selection: &Selection,
        recover: bool,
        behaviour: Behaviour,
    ) -> Result<ImageFs, ImageError> {
        let options = MountOptions {
            read_only: self.access == Access::Read,
            recover,
            forgiving: self.access == Access::Read,
            keep_space_fixup: true,
            authenticate: selection.authenticate.clone(),
        };
        let writes = self.access == Access::Write;
        let found = self.choose(selection)?;
        if let Content::Jffs2(shape) = &found.content {
            return self.mount_jffs2(&found, shape, recover);
        }
        let volume = self.open_volume(selection, recover, choose_ubifs)?;
        let mut fs = Ubifs::mount(volume, &options, behaviour).map_err(|(error, _)| error)?;
        if writes && let Some(&lnum) = fs.missing_lebs()?.first() {
            return Err(ImageError::Truncated(format!("LEB {lnum} of the filesystem is not there")));
        }
        Ok(Box::new(fs))
    }

    fn mount_jffs2(&self, found: &Found, shape: &Jffs2Shape, recover: bool) -> Result<ImageFs, ImageError> {
        let store = self.store()?;
        if self.access == Access::Read {
            return Ok(Box::new(jffs2::mount(store, found, shape)?));
        }
        self.require_pages(found)?;
        let len = jffs2::write::Extent::read(&*store, found, shape)?.bytes(self.lebs, recover)?;
        if let Some(room) = &self.room {
            room.reserve(found.offset + len)?;
        }
        Ok(Box::new(jffs2::write::mount(store, found, shape, len)?))
    }

    /// Makes sure that a JFFS2 that was changed mounts again. UBIFS is written by transactions that its own mount believes.
    pub(super) fn mount_again(&self, found: &Found) -> Result<(), ImageError> {
        let Content::Jffs2(shape) = &found.content else { return Ok(()) };
        let store = self.store()?;
        let len = jffs2::write::Extent::read(&*store, found, shape)?.bytes(self.lebs, true)?;
        jffs2::mount(store, &Found { len, ..found.clone() }, shape).map(drop)
    }

    /// The same for writing with a volume of at least `lebs` LEBs. It [grows](Self::growth) in the image.
    #[must_use]
    pub fn with_lebs(self, lebs: Option<u32>) -> Self {
        Self { lebs, ..self }
    }

    /// Sizes between which the selected volume can grow with its image: a bare UBIFS at the end of a file, or a volume of a UBI device. A JFFS2
    /// grows over erased flash and at the end of a file.
    ///
    /// # Errors
    /// As [`volume`](Self::volume); no filesystem.
    pub fn growth(&self, selection: &Selection) -> Result<Option<Growth>, ImageError> {
        let found = self.choose(selection)?;
        if let Content::Jffs2(shape) = &found.content {
            let extent = jffs2::write::Extent::read(&*self.store()?, &found, shape)?;
            let (what, unit) = ("image", "eraseblock");
            return Ok(Some(Growth {
                now: extent.blocks,
                max: extent.most,
                volume: extent.blocks,
                what,
                unit,
            }));
        }
        let is_last = found.offset + found.len >= self.store()?.size_bytes();
        let read = Self { access: Access::Read, ..self.clone() };
        let volume: Option<Box<dyn Volume>> = match found.content {
            Content::Ubifs { .. } => Some(read.volume(selection)?).filter(|_| is_last),
            _ => {
                let mut ubi = read.attach(&found)?;
                let id = choose_ubifs(&mut ubi, selection)?;
                let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
                Some(Box::new(volume) as Box<dyn Volume>)
            }
        };
        let Some(mut volume) = volume else { return Ok(None) };
        let (superblock, _) = probe(&mut *volume)?;
        let volume = volume.geometry().lebs;
        let (what, unit) = ("volume", "LEB");
        Ok(Some(Growth { now: superblock.leb_count, max: superblock.max_leb_count, volume, what, unit }))
    }

    /// The volume that is meant: of a UBI device the only one, or the one that was named.
    ///
    /// # Errors
    /// As [`mount`](Self::mount).
    pub fn volume(&self, selection: &Selection) -> Result<Box<dyn Volume>, ImageError> {
        self.open_volume(selection, false, choose_remains)
    }

    fn open_volume(
        &self,
        selection: &Selection,
        recover: bool,
        choose: fn(&mut FileUbi, &Selection) -> Result<u32, ImageError>,
    ) -> Result<Box<dyn Volume>, ImageError> {
        let found = self.choose(selection)?;
        found.require_lebs("a volume")?;
        match found.content {
            Content::Ubifs { leb_bytes, min_io_bytes } => {
                if self.access == Access::Write && !found.len.is_multiple_of(u64::from(leb_bytes)) {
                    return Err(ImageError::Truncated("the file ends within a LEB".to_owned()));
                }
                let writes = self.access == Access::Write;
                let store = self.store()?;
                let is_last = found.offset + found.len >= store.size_bytes();
                let held = u32::try_from(found.len.div_ceil(u64::from(leb_bytes))).unwrap_or(u32::MAX);
                let asked = self.lebs.filter(|_| writes).unwrap_or(0);
                let geometry = VolumeGeometry {
                    lebs: held.max(asked),
                    leb_bytes,
                    min_io_bytes,
                    max_write_bytes: max_write_bytes(min_io_bytes),
                    leb_start: 0,
                    read_only: self.access == Access::Read,
                };
                let mut volume = BareVolume::new(Window::new(store, found.offset, u64::MAX), geometry);
                // The file may end before the filesystem does, which has nothing behind.
                let lebs = match probe(&mut volume) {
                    Ok((superblock, _)) if writes && is_last => superblock.leb_count.max(geometry.lebs),
                    _ => geometry.lebs,
                };
                let len = u64::from(lebs) * u64::from(leb_bytes);
                if let Some(room) = &self.room {
                    room.reserve(found.offset + len)?;
                }
                let window = Window::new(volume.into_store().into_inner(), found.offset, len.max(found.len));
                Ok(Box::new(BareVolume::new(window, VolumeGeometry { lebs, ..geometry })))
            }
            _ => {
                let mut ubi = match self.access {
                    Access::Read => self.attach_remains(&found)?,
                    Access::Write => return self.writable_volume(&found, selection, recover),
                };
                let id = choose(&mut ubi, selection)?;
                let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
                Ok(Box::new(volume))
            }
        }
    }

    /// Names of the other volumes of the UBI device in which the selected filesystem is.
    ///
    /// # Errors
    /// As [`volume`](Self::volume).
    pub fn other_volumes(&self, selection: &Selection) -> Result<Vec<String>, ImageError> {
        let found = self.choose(selection)?;
        if let Content::Ubifs { .. } | Content::Jffs2(_) = found.content {
            return Ok(Vec::new());
        }
        let mut ubi = self.attach_remains(&found)?;
        let id = choose_remains(&mut ubi, selection)?;
        let others = ubi.volumes().filter(|volume| volume.id != id);
        Ok(others.map(|volume| show_name(&volume.name)).collect())
    }

    /// As [`volume`](Self::volume) for reading, with what is damaged in the device around it.
    pub(super) fn damaged_volume(
        &self,
        selection: &Selection,
    ) -> Result<(Box<dyn Volume>, Vec<AttachFault>), ImageError> {
        let found = self.choose(selection)?;
        if let Content::Ubifs { .. } = found.content {
            return Ok((self.volume(selection)?, Vec::new()));
        }
        let mut ubi = self.attach_remains(&found)?;
        let id = choose_remains(&mut ubi, selection)?;
        let damage = ubi.damage().to_vec();
        let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
        Ok((Box::new(volume), damage))
    }

    /// Attaches a UBI device that was found, as it is.
    ///
    /// # Errors
    /// It is damaged.
    pub fn attach(&self, found: &Found) -> Result<FileUbi, ImageError> {
        self.attach_to_read(found, false)
    }

    /// Attaches what is left of a UBI device.
    ///
    /// # Errors
    /// Nothing of it is left.
    pub fn attach_remains(&self, found: &Found) -> Result<FileUbi, ImageError> {
        self.attach_to_read(found, true)
    }

    fn attach_to_read(&self, found: &Found, forgiving: bool) -> Result<FileUbi, ImageError> {
        let (Content::Ubi(shape) | Content::UbiWithOob { ubi: shape, .. }) = &found.content else {
            return Err(ImageError::Nothing);
        };
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

    /// A volume of a UBI device to be written to, larger than it is if that was asked for.
    fn writable_volume(
        &self,
        found: &Found,
        selection: &Selection,
        recover: bool,
    ) -> Result<Box<dyn Volume>, ImageError> {
        let (mut attaching, mut ubi) = self.attach_for_writing(found, recover)?;
        let id = choose_ubifs(&mut ubi, selection)?;
        let volume = ubi.volume(id)?;
        if let Some(lebs) = self.lebs.filter(|&lebs| lebs > volume.reserved_lebs) {
            attaching.lebs_more = lebs - volume.reserved_lebs;
            ubi = attaching.attach_growing(ubi.into_mtd().into_store())?;
            ubi.resize_volume(id, lebs)?;
        }
        let volume = ubi.open_volume(id).map_err(|(error, _)| error)?;
        Ok(Box::new(volume))
    }

    /// Attaches a UBI device as it was asked for; the place of VID headers is the image's.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn attach_as(
        &self,
        found: &Found,
        mode: StoreMode,
        options: AttachOptions,
    ) -> Result<FileUbi, ImageError> {
        let (Content::Ubi(shape) | Content::UbiWithOob { ubi: shape, .. }) = &found.content else {
            return Err(ImageError::Nothing);
        };
        let geometry = flash_geometry(shape, found.len);
        let options = AttachOptions { vid_header_offset: Some(shape.vid_header_offset), ..options };
        let store = self.store()?;
        let is_last = found.offset + found.len >= store.size_bytes();
        let room = if is_last { u64::MAX } else { found.len };
        let part = Window::new(store, found.offset, room);
        let bad = found.bad_pebs.clone();
        Attaching { geometry, mode, bad, options, lebs_more: 0, room: self.room.clone() }.attach_growing(part)
    }

    /// Refuses to change an image with pages that the ECC could not correct.
    fn require_pages(&self, found: &Found) -> Result<(), ImageError> {
        let notes = self.corrected.as_ref().map(|corrected| corrected.notes(found)).unwrap_or_default();
        notes.into_iter().next().map_or(Ok(()), |note| Err(ImageError::OobDamaged(note)))
    }

    /// Attaches a UBI device to change what is in its volumes, and nothing else.
    ///
    /// Of what follows the last PEB with headers only as many PEBs are taken as the volumes need, and only erased ones: the
    /// rest may belong to somebody else. Nothing is moved because of wear, and no volume grows.
    fn attach_for_writing(&self, found: &Found, recover: bool) -> Result<(Attaching, FileUbi), ImageError> {
        let (Content::Ubi(shape) | Content::UbiWithOob { ubi: shape, .. }) = &found.content else {
            return Err(ImageError::Nothing);
        };
        self.require_pages(found)?;
        let store = self.store()?;
        let pebs = Pebs::read(&*store, found, shape)?;
        let options = AttachOptions {
            vid_header_offset: Some(shape.vid_header_offset),
            wear_threshold: u32::try_from(MAX_ERASE_COUNT).unwrap_or(u32::MAX),
            after_power_cut: recover,
            autoresize: false,
            // Nothing goes bad in a file.
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
        // What has no headers amid the others is a bad block, more likely than not, if it is not needed.
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

/// The PEBs of a device, as far as they have headers.
struct Pebs {
    /// Bytes up to the end of the last one.
    bytes: u64,
    /// Those without, before the last one.
    blank: Vec<u32>,
}

impl Pebs {
    fn read(store: &dyn Store, found: &Found, shape: &UbiShape) -> Result<Self, ImageError> {
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

/// The bytes of a file in which images were found, and these as they are found when all eraseblocks are in their places.
fn spliced(
    file: Arc<File>,
    found: Vec<Found>,
    access: Access,
    detect: impl Fn(&mut dyn Store) -> Result<Vec<Found>, ImageError>,
) -> Result<(Bytes, Splices, Vec<Found>), ImageError> {
    let splices = Splices::of(&found);
    if splices.is_empty() {
        return Ok((Bytes::File(file), splices, found));
    }
    if access == Access::Write {
        return Err(ImageError::Shifted(splices.to_string()));
    }
    let bytes = Bytes::Spliced(file, splices.clone());
    let found = detect(&mut bytes.open()?)?;
    Ok((bytes, splices, found))
}

pub(super) fn store_of(file: &Arc<File>) -> Result<Box<dyn Store>, ImageError> {
    Ok(Box::new(CachedStore::new(FileStore::new(Arc::clone(file)).map_err(ImageError::Store)?)))
}

/// State of attaching a device.
struct Attaching {
    geometry: Geometry,
    mode: StoreMode,
    /// PEBs that are bad.
    bad: Vec<u32>,
    options: AttachOptions,
    /// LEBs that a volume will get afterwards.
    lebs_more: u32,
    room: Option<HostRoom>,
}

/// The part of a file that a device is in.
type Part = Window<Box<dyn Store>>;

impl Attaching {
    /// PEBs that are not bad.
    fn good_pebs(&self) -> u32 {
        self.geometry.blocks().saturating_sub(self.bad.len() as u32)
    }

    fn attach(&self, part: Part) -> Result<FileUbi, (AttachFault, Part)> {
        let flash = StoreFlash::new(part, self.geometry.clone(), self.mode);
        let flash = flash.with_bad_blocks(self.bad.iter().copied());
        Ubi::attach(flash, &self.options).map_err(|refused| (refused.fault, refused.mtd.into_store()))
    }

    /// Attaches; an image that is shorter than the flash it was made for gets erased blocks behind it.
    fn attach_growing(&mut self, mut part: Part) -> Result<FileUbi, ImageError> {
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

/// PEBs that a device with so many good ones lacks for its volumes, if that is why it was refused.
fn missing_pebs(fault: &AttachFault, pebs: u32) -> Option<u64> {
    match fault {
        AttachFault::Ubi(UbiError::NoSpace { need, available }) => {
            Some(need.saturating_sub(u64::from(*available)))
        }
        // One volume alone is larger than what there is. The number is not to be believed without limit.
        AttachFault::VolumeTable(MediaError { reason: Reason::TooFewPebs { reserved }, .. })
            if u64::from(*reserved) <= MOST_PEBS =>
        {
            Some(u64::from(reserved.saturating_sub(pebs)))
        }
        _ => None,
    }
}

/// Makes sure that what a device grows over is erased, or behind the end of the file.
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

/// The volume that was named, or the only one.
pub(super) fn choose_volume(ubi: &FileUbi, selection: &Selection) -> Result<u32, ImageError> {
    let volumes: Vec<NamedVolume> =
        ubi.volumes().map(|volume| (volume.id, show_name(&volume.name))).collect();
    match (&selection.volume, volumes.as_slice()) {
        (Some(wanted), _) => named(&volumes, wanted),
        (None, []) => Err(ImageError::NoVolumes),
        (None, [(only, _)]) => Ok(*only),
        (None, _) => Err(ImageError::ChooseVolume(volumes.into_iter().map(|(_, name)| name).collect())),
    }
}

/// A volume's number, and its name as it is shown.
pub(super) type NamedVolume = (u32, String);

/// The volume of a name or a number.
fn named(volumes: &[NamedVolume], wanted: &str) -> Result<u32, ImageError> {
    let by_name = volumes.iter().find(|(_, name)| name == wanted);
    let by_id = || volumes.iter().find(|(id, _)| wanted.parse() == Ok(*id));
    let missing = || ImageError::NoVolume {
        wanted: wanted.to_owned(),
        names: volumes.iter().map(|(_, name)| name.clone()).collect(),
    };
    by_name.or_else(by_id).map(|&(id, _)| id).ok_or_else(missing)
}

/// Reads the beginning of a LEB of a volume: no bytes of one that cannot be read, nothing behind the last.
type ReadHead<'r> = dyn FnMut(u32, u32) -> Option<Vec<u8>> + 'r;

/// The volume with the filesystem that is meant: the one that was named, or the only one with a UBIFS.
pub(super) fn choose_filesystem(
    volumes: &[NamedVolume],
    selection: &Selection,
    head: &mut ReadHead<'_>,
) -> Result<u32, ImageError> {
    let id = match (&selection.volume, volumes) {
        (Some(wanted), _) => named(volumes, wanted)?,
        (None, []) => return Err(ImageError::NoVolumes),
        (None, [(only, _)]) => *only,
        (None, _) => {
            let with: Vec<&NamedVolume> =
                volumes.iter().filter(|(id, _)| holds_ubifs(&mut |lnum| head(*id, lnum))).collect();
            match with.as_slice() {
                [] => return Err(no_filesystem(volumes, head)),
                [(only, _)] => *only,
                several => {
                    let names = several.iter().map(|(_, name)| name.clone());
                    return Err(ImageError::ChooseVolume(names.collect()));
                }
            }
        }
    };
    // A filesystem that is damaged at its beginning may still be read.
    let is_other = !holds_ubifs(&mut |lnum| head(id, lnum))
        && head(id, 0).is_some_and(|head| format_of(&head).is_some());
    let of_id: Vec<NamedVolume> = volumes.iter().filter(|volume| volume.0 == id).cloned().collect();
    if is_other { Err(no_filesystem(&of_id, head)) } else { Ok(id) }
}

/// Beginnings of all LEBs of a volume.
fn heads<'h>(id: u32, head: &'h mut ReadHead<'_>) -> impl Iterator<Item = Vec<u8>> + 'h {
    (0..).map_while(move |lnum| head(id, lnum))
}

fn no_filesystem(volumes: &[NamedVolume], head: &mut ReadHead<'_>) -> ImageError {
    let content = |(id, name): &NamedVolume| {
        let content = match head(*id, 0).and_then(|head| format_of(&head)) {
            Some(format) => format,
            None if heads(*id, head).all(|head| head.iter().all(|&byte| byte == 0xFF)) => "empty",
            None => "unknown contents",
        };
        (name.clone(), content)
    };
    ImageError::NoFilesystem(volumes.iter().map(content).collect())
}

/// As [`choose_filesystem`], of an attached device: what is left of a filesystem may be anywhere in the volume.
fn choose_remains(ubi: &mut FileUbi, selection: &Selection) -> Result<u32, ImageError> {
    let volumes: Vec<NamedVolume> =
        ubi.volumes().map(|volume| (volume.id, show_name(&volume.name))).collect();
    choose_filesystem(&volumes, selection, &mut |id, lnum| read_head(ubi, id, lnum))
}

/// As [`choose_filesystem`], of an attached device, to be mounted: nodes begin LEBs of the volume.
fn choose_ubifs(ubi: &mut FileUbi, selection: &Selection) -> Result<u32, ImageError> {
    let id = choose_remains(ubi, selection)?;
    let name = show_name(&ubi.volume(id)?.name);
    let mut head = |id, lnum| read_head(ubi, id, lnum);
    // A LEB that cannot be read may begin with one.
    let has_nodes = heads(id, &mut head).any(|head| head.is_empty() || is_node(&head));
    if has_nodes { Ok(id) } else { Err(no_filesystem(&[(id, name)], &mut head)) }
}

/// Reads the beginning of a LEB of a device, as [`ReadHead`] says.
fn read_head(ubi: &mut FileUbi, id: u32, lnum: u32) -> Option<Vec<u8>> {
    let volume = ubi.volume(id).ok().filter(|volume| lnum < volume.used_lebs)?;
    let mut head = vec![0; HEAD_BYTES.min(volume.usable_leb_bytes as usize)];
    Some(ubi.read_leb(id, lnum, 0, &mut head).map_or_else(|_| Vec::new(), |()| head))
}

/// The largest write of a UBIFS without UBI, as far as its smallest one tells.
pub(super) const fn max_write_bytes(min_io_bytes: u32) -> u32 {
    if min_io_bytes == UBIFS_MIN_IO { NOR_BUFFER } else { min_io_bytes }
}

/// The flash that a UBI device was made for, as far as its headers tell.
pub fn flash_geometry(shape: &UbiShape, len: u64) -> Geometry {
    let min_io = shape.min_io_bytes;
    let is_nor = min_io < 256;
    Geometry {
        kind: if is_nor { FlashKind::Nor } else { FlashKind::SlcNand },
        size_bytes: len.next_multiple_of(u64::from(shape.peb_bytes)),
        erase_bytes: shape.peb_bytes,
        write_bytes: min_io,
        buffer_bytes: if is_nor { NOR_BUFFER } else { min_io },
        sub_page_bytes: sub_page_bytes(shape, min_io),
        oob_bytes: 0,
        oob_free_bytes: 0,
        ecc_strength: 0,
        ecc_step_bytes: 0,
        bitflip_threshold: 0,
        pairing: Pairing::NONE,
    }
}

fn sub_page_bytes(shape: &UbiShape, min_io: u32) -> u32 {
    let vid = shape.vid_header_offset;
    if vid.is_power_of_two() && vid < min_io { vid } else { min_io }
}
