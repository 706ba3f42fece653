//! From a file to a mounted filesystem.

mod attach;
mod bytes;
mod choose;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use floatgate_stack::fs::FileSystem;
use floatgate_stack::store::Window;
use floatgate_stack::ubi::AttachFault;
use floatgate_stack::ubifs::{Behaviour, MountOptions, Ubifs, probe};
use floatgate_stack::{BareVolume, Store, Volume, VolumeGeometry};
use serde::Serialize;

pub(super) use attach::max_write_bytes;
pub use attach::{FileUbi, flash_geometry};
pub(super) use bytes::store_of;
use bytes::{Bytes, HostRoom, spliced};
pub use choose::{FlashSizes, PageSizes, Selection};
pub(super) use choose::{choose_filesystem, choose_volume};
use choose::{choose_remains, choose_ubifs};

use super::ImageError;
use super::check::Origin;
use super::detect::{Content, Found, Jffs2Shape, PageShape, detect_in_pages, detect_sized, explain};
use super::edit::Pending;
use super::format::jffs2;
use super::format::jffs2::shifts::{Splice, Splices};
use super::format::jffs2::write::Extent;
use super::format::mapped::MappedVolume;
use super::format::ubi::Device;
use super::host::{open_file, read_pipe};
use super::info::size;
use super::oob::{Corrected, correct, geometry};
use super::oob_store::{OobPages, clean_markers};
use crate::ecc::{PageGeometry, Regions};
use crate::extract::show_name;

/// Purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written; what recovery finds stays in memory.
    Read,
    /// Changes go to the file.
    Write,
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
    /// Codes of such a dump.
    protection: Option<Protection>,
    /// LEBs that a volume is to have that can grow.
    lebs: Option<u32>,
    /// Sizes of the flash that were stated.
    sizes: FlashSizes,
    access: Access,
    /// The room on the host's disk, where changes go to the file at once.
    room: Option<HostRoom>,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Part {
    /// The byte behind the last one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// The command that cuts it out into a file of its own.
    #[must_use]
    pub fn dd(&self) -> String {
        let Self { offset, len } = self;
        format!("`dd if=FILE of=IMAGE bs=64k iflag=skip_bytes,count_bytes skip={offset} count={len}`")
    }
}

/// A volume whose filesystem may be damaged.
pub(super) struct Remains {
    pub(super) volume: Box<dyn Volume>,
    /// LEBs behind the end of the volume: such whose number is not known.
    pub(super) nameless: Range<u32>,
    /// Damage of the device around it.
    pub(super) damage: Vec<AttachFault>,
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
    /// LEBs that it can be told to have: those that are still its own when the file is opened again.
    pub lasting: u32,
    /// A JFFS2 in its file, which could grow in one of its own.
    pub own: Option<Part>,
    /// Eraseblocks of a JFFS2 up to the end of the file, if what follows may have overwritten it.
    pub over: Option<u32>,
}

/// Changes of a file that wait.
pub(super) type FilePending = Pending<Box<dyn Store>>;

/// True for a pipe, which is read once and from its beginning on: `/dev/stdin` behind one, or what a shell makes of `<(COMMAND)`.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Sizes of the pages of a dump, and the codes of its regions.
type Protection = (PageGeometry, Regions);

/// Knowledge of a file: codes of a dump with OOB, and sizes that were stated.
type Known<'k> = (Option<&'k Protection>, FlashSizes);

/// True when a UBI device has several PEBs without OOB between them.
fn has_plain_pebs(found: &[Found]) -> bool {
    found.iter().any(|found| match &found.content {
        Content::Ubi(shape) => shape.peb_bytes.is_power_of_two() && found.len > shape.peb_bytes.into(),
        _ => false,
    })
}

/// A filesystem mounted from a file.
pub type ImageFs = Box<dyn FileSystem>;

impl Image {
    /// Opens a file and looks for images in it. A NAND dump with OOB is corrected into a temporary file first.
    ///
    /// # Errors
    /// The file cannot be read; nothing known is in it.
    pub fn open(path: &Path, access: Access) -> Result<Self, ImageError> {
        Self::open_sized(path, access, FlashSizes::default())
    }

    /// As [`open`](Self::open), of flash whose sizes were stated: of PEBs or eraseblocks, which a small JFFS2 does not tell, or of the pages
    /// of a dump with OOB.
    ///
    /// # Errors
    /// As [`open`](Self::open); what is in the file has another size.
    pub fn open_sized(path: &Path, access: Access, sizes: impl Into<FlashSizes>) -> Result<Self, ImageError> {
        let sizes = sizes.into();
        if access == Access::Read && is_stream(path) {
            return Self::from_stream(&mut read_pipe(path).map_err(ImageError::File)?, sizes);
        }
        let file = open_file(path, access == Access::Write).map_err(ImageError::File)?;
        Self::over_known(file, access, (None, sizes))
    }

    /// Opens what comes out of a pipe, for reading. It is kept in a temporary file.
    ///
    /// # Errors
    /// As [`open_sized`](Self::open_sized); the temporary file has no room.
    pub fn from_stream(
        stream: &mut dyn std::io::Read,
        sizes: impl Into<FlashSizes>,
    ) -> Result<Self, ImageError> {
        let mut file = tempfile::tempfile().map_err(ImageError::File)?;
        std::io::copy(stream, &mut file).map_err(ImageError::File)?;
        Self::over_known(file, Access::Read, (None, sizes.into()))
    }

    /// Opens a file to change what is in it, in memory: the changes are in what comes with the image.
    ///
    /// # Errors
    /// As [`open_sized`](Self::open_sized).
    pub(super) fn open_pending(
        path: &Path,
        sizes: impl Into<FlashSizes>,
    ) -> Result<(Self, FilePending, Option<OobPages>), ImageError> {
        let file = File::open(path).map_err(ImageError::File)?;
        let mut image = Self::over_known(file, Access::Write, (None, sizes.into()))?;
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
        Self::over_known(file, access, (None, FlashSizes::default()))
    }

    /// Opens a file that has been made of the one with this image.
    pub(super) fn open_like(&self, path: &Path, access: Access) -> Result<Self, ImageError> {
        let file = File::options().read(true).write(access == Access::Write).open(path);
        Self::over_known(file.map_err(ImageError::File)?, access, (self.protection.as_ref(), self.sizes))
    }

    /// Opens a file of which the codes, or sizes of the flash, are known.
    fn over_known(file: File, access: Access, known: Known<'_>) -> Result<Self, ImageError> {
        let (_, sizes) = known;
        let file = Arc::new(file);
        let mut store = store_of(&file)?;
        let found = detect_sized(&mut store, &sizes)?;
        let with_oob = found.iter().find_map(|found| match found.content {
            Content::UbiWithOob { pages, .. } | Content::Jffs2WithOob { pages } => Some((found, pages)),
            _ => None,
        });
        if let Some((found, pages)) = with_oob {
            let block = u64::from(pages.stride()) * u64::from(pages.pages_per_block);
            return Self::corrected(&file, found.offset % block, pages, access, known);
        }
        if let Some((pages, has_blocks)) = sizes.stated_pages().filter(|_| !has_plain_pebs(&found)) {
            match Self::in_stated_pages(&file, (pages, has_blocks), access, known) {
                Err(ImageError::NothingInPages(_)) if !found.is_empty() => {}
                opened => return opened,
            }
        }
        if found.is_empty() {
            return Err(explain(&mut store)?);
        }
        let (bytes, splices, found) = spliced(file, found, access, |store| detect_sized(store, &sizes))?;
        let (corrected, protection, lebs, room) = (None, None, None, None);
        Self { found, bytes, splices, corrected, protection, lebs, sizes, access, room }.with_room()
    }

    /// Remembers where changes go that are written at once.
    fn with_room(self) -> Result<Self, ImageError> {
        let room = if self.access == Access::Write { HostRoom::new(&self.bytes)? } else { None };
        Ok(Self { room, ..self })
    }

    /// Opens a dump whose pages, of stated sizes, begin with the file. Where the size of its blocks was not stated, that of the PEBs is taken.
    fn in_stated_pages(
        file: &Arc<File>,
        (pages, has_blocks): (PageShape, bool),
        access: Access,
        known: Known<'_>,
    ) -> Result<Self, ImageError> {
        let image = Self::corrected(file, 0, pages, access, known)?;
        let peb_bytes = image.found.iter().filter(|found| found.has_volumes()).find_map(Found::block_bytes);
        match peb_bytes.filter(|bytes| bytes.is_multiple_of(pages.page_bytes)) {
            Some(bytes) if !has_blocks && bytes != pages.block_bytes() => {
                let pages = PageShape { pages_per_block: bytes / pages.page_bytes, ..pages };
                Self::corrected(file, 0, pages, access, known)
            }
            _ => Ok(image),
        }
    }

    /// Corrects a dump from its first whole block on.
    fn corrected(
        file: &Arc<File>,
        start: u64,
        pages: PageShape,
        access: Access,
        (known, sizes): Known<'_>,
    ) -> Result<Self, ImageError> {
        let geometry = geometry(pages)?;
        let known = known.filter(|(of, _)| *of == geometry).map(|(_, regions)| regions);
        let (data, corrected, regions) = correct(file, start, pages, known)?;
        let data = Arc::new(data);
        let mut store = store_of(&data)?;
        let detect = |store: &mut dyn Store| detect_in_pages(store, Some(pages), &sizes);
        let found = detect(&mut store)?;
        if found.is_empty() {
            return Err(ImageError::NothingInPages(pages));
        }
        // No repair of a dump with OOB puts bytes back that are missing.
        let shifted = |error| match error {
            ImageError::Shifted(why) => ImageError::NotRepairable(why),
            error => error,
        };
        let (plain, splices, all) = spliced(Arc::clone(&data), found, access, detect).map_err(shifted)?;
        let bad_pebs = |found: &Found| corrected.bad_pebs(found);
        let found = all.iter().map(|found| jffs2::write::with_free(&store, found, &all, bad_pebs));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let protection = (geometry, regions);
        let bytes = match access {
            Access::Read => plain,
            Access::Write if protection.1.schemes().next().is_none() => return Err(ImageError::OobReadOnly),
            Access::Write => {
                let markers = clean_markers(file, &corrected, &found)?;
                let pages = OobPages::new(protection.clone(), &corrected, data, markers);
                Bytes::Pages(Box::new(pages), Arc::clone(file))
            }
        };
        let (corrected, protection) = (Some(corrected), Some(protection));
        let (lebs, room) = (None, None);
        Self { found, bytes, splices, corrected, protection, lebs, sizes, access, room }.with_room()
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

    /// Bytes of the file that an image has, without those that are missing in it, and without OOB.
    pub(super) fn own_bytes(&self, found: &Found) -> u64 {
        self.splices.file_byte(found.offset + found.len) - self.splices.file_byte(found.offset)
    }

    /// The part of the file that is a part of the images; in a dump with OOB whole pages with theirs.
    pub(super) fn part(&self, range: Range<u64>) -> Part {
        let page = self.corrected.as_ref().map_or(1, |corrected| u64::from(corrected.pages.page_bytes));
        let offset = self.file_byte(range.start);
        let end = self.file_byte(range.end.next_multiple_of(page));
        Part { offset, len: end - offset }
    }

    /// First byte of the next image behind one.
    pub(super) fn next_image(&self, found: &Found) -> Option<u64> {
        let own_end = found.offset + found.len;
        self.found.iter().map(|other| other.offset).filter(|&offset| offset >= own_end).min()
    }

    /// The part of the file that is a JFFS2's own, to be cut out.
    pub(super) fn own_part(&self, found: &Found, extent: &Extent) -> Part {
        self.part(found.offset..extent.own_end)
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
        found.require_block_bytes(self.sizes.peb_bytes)?;
        found.require_volume(selection)?;
        Ok(found)
    }

    /// True when what is selected is in pages of a dump whose OOB no code explains: wrong bits were not corrected.
    #[must_use]
    pub fn has_unknown_code(&self, selection: &Selection) -> bool {
        let is_selected = |found: &&Found| {
            selection.offset.is_none_or(|offset| {
                let part = self.part(found.offset..found.offset + found.len);
                (part.offset..part.end()).contains(&offset)
            })
        };
        let Some(corrected) = &self.corrected else { return false };
        self.found.iter().filter(is_selected).any(|found| corrected.has_unknown_code(found))
    }

    /// A JFFS2 of which a node begins at a byte of the file, in what looks like one with nodes before.
    fn jffs2_at(&self, offset: u64) -> Result<Found, ImageError> {
        let pages = self.corrected.as_ref().map(|corrected| corrected.pages);
        let at = self.corrected.as_ref().map_or(Some(offset), |corrected| corrected.data_byte(offset));
        let at = at.map(|at| self.splices.place(at)).ok_or(ImageError::NotThere(offset))?;
        let found = jffs2::detect::find_at(&mut *self.store()?, at, pages, self.sizes.peb_bytes)?;
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
        format!("{kind} at byte {offset} ({offset:#x}), {}", size(self.own_bytes(found)))
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
        if shape.erase_is_guess {
            return Err(self.guessed(found, shape)?);
        }
        let extent = Extent::read(self, found, shape)?;
        if let Some(at) = extent.foreign.filter(|_| !recover) {
            let (offset, own) = (self.file_byte(at), self.own_part(found, &extent));
            let can_grow = extent.most > extent.blocks;
            return Err(ImageError::Jffs2Tail { offset, own, can_grow, over: extent.over });
        }
        let len = extent.bytes(self.lebs, recover);
        if let Some(room) = &self.room {
            room.reserve(found.offset + len)?;
        }
        Ok(Box::new(jffs2::write::mount(store, found, shape, len, recover)?))
    }

    /// The refusal to change a JFFS2 of which nothing tells the size of eraseblocks: a summary would state what is a guess.
    fn guessed(&self, found: &Found, shape: &Jffs2Shape) -> Result<ImageError, ImageError> {
        let mut store = self.store()?;
        let mut is_possible = |size: &u32| {
            let all = detect_sized(&mut store, &Some(*size).into());
            all.is_ok_and(|all| all.iter().any(|one| one.offset == found.offset && one.splices.is_empty()))
        };
        let possible = jffs2::detect::sizes().filter_map(|size| u32::try_from(size).ok());
        let possible = possible.filter(|size| is_possible(size)).collect();
        Ok(ImageError::GuessedEraseblocks { guess: shape.erase_bytes, possible })
    }

    /// Makes sure that a JFFS2 that was changed mounts again. UBIFS is written by transactions that its own mount believes.
    pub(super) fn mount_again(&self, found: &Found) -> Result<(), ImageError> {
        let Content::Jffs2(shape) = &found.content else { return Ok(()) };
        let store = self.store()?;
        let erase = u64::from(shape.erase_bytes);
        let len = found.len.next_multiple_of(erase).max(u64::from(self.lebs.unwrap_or(0)) * erase);
        jffs2::mount(store, &Found { len, ..found.clone() }, shape).map(drop)
    }

    /// The same for writing with a volume of at least `lebs` LEBs. It [grows](Self::growth) in the image.
    #[must_use]
    pub fn with_lebs(self, lebs: Option<u32>) -> Self {
        Self { lebs, ..self }
    }

    /// Sizes between which the selected volume can grow with its image: a bare UBIFS at the end of a file, or a volume of a UBI device. A JFFS2
    /// grows over erased flash and at the end of a file, and where it is to `recover` over what may have overwritten it.
    ///
    /// # Errors
    /// As [`volume`](Self::volume); no filesystem.
    pub fn growth(&self, selection: &Selection, recover: bool) -> Result<Option<Growth>, ImageError> {
        let found = self.choose(selection)?;
        if let Content::Jffs2(shape) = &found.content {
            let extent = Extent::read(self, &found, shape)?;
            let is_over = recover && extent.over.is_some();
            return Ok(Some(Growth {
                now: extent.blocks,
                max: extent.most,
                lasting: if is_over { extent.limit } else { extent.lasting },
                volume: extent.blocks,
                what: "image",
                unit: "eraseblock",
                own: Some(self.own_part(&found, &extent)),
                over: extent.over.filter(|_| !recover),
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
        let (now, max) = (superblock.leb_count, superblock.max_leb_count);
        Ok(Some(Growth { now, max, lasting: max, volume, what, unit, own: None, over: None }))
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

    /// As [`volume`](Self::volume) for reading, whatever is damaged in it and in the device around it.
    pub(super) fn remains(&self, selection: &Selection) -> Result<Remains, ImageError> {
        let found = self.choose(selection)?;
        if let Content::Ubifs { leb_bytes, min_io_bytes } = found.content {
            let window = Window::new(self.store()?, found.offset, found.len);
            let volume = MappedVolume::bare(window, found.len, leb_bytes, min_io_bytes);
            return Ok(Remains { nameless: volume.nameless(), volume: Box::new(volume), damage: Vec::new() });
        }
        let mut ubi = self.attach_remains(&found)?;
        let id = choose_remains(&mut ubi, selection)?;
        let damage = ubi.damage().to_vec();
        let mut store: Box<dyn Store> = Box::new(Window::new(self.store()?, found.offset, found.len));
        let volume = Device::read(&mut store, &found)?.salvaged(store, id);
        Ok(Remains { nameless: volume.nameless(), volume: Box::new(volume), damage })
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

    /// Refuses to change an image with pages that the ECC could not correct.
    fn require_pages(&self, found: &Found) -> Result<(), ImageError> {
        let Some(corrected) = &self.corrected else { return Ok(()) };
        if !corrected.has_code(found) {
            return Err(ImageError::OobReadOnly);
        }
        corrected.notes(found).into_iter().next().map_or(Ok(()), |note| Err(ImageError::OobDamaged(note)))
    }
}
