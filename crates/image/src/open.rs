//! From a file to a mounted filesystem.

use std::path::Path;
use std::sync::Arc;

use floatgate_files::{File, tempfile};
use floatgate_stack::fscrypt::Keys;
use floatgate_stack::ubifs::Behaviour;
use floatgate_stack::{Store, Volume};

use super::dump_kind::MarkedPages;
use super::format::detect::{detect_in_pages, detect_sized, explain, find_at, with_free};
use super::format::location::{ImageLocation, Splices};
pub use super::format::ubi::attach::FileUbi;
pub use super::format::ubi::shape::flash_geometry;
pub use super::image::{Access, Growth, Image, ImageFs};
use super::image::{Bytes, FilePending, HostRoom, Protection, store_of};
use super::oob::{correct, geometry};
use super::oob_store::{OobPages, clean_markers};
use super::pages::PageShape;
pub use super::pages::{FlashSizes, PageSizes};
pub use super::part::Part;
use super::pending::Pending;
use super::report::Loss;
use super::selection::Chosen;
pub use super::selection::Selection;
use super::words::size;
use crate::ImageError;
use crate::error::TreeLack;
use crate::map;
use floatgate_host::open::{open_file, read_pipe};

/// True for a pipe, which can be read only once and in order: `/dev/stdin` of a pipeline, or a shell's `<(COMMAND)`.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    floatgate_host::open::is_pipe(path)
}

/// Copies the contents of a pipe into a temporary file.
fn spooled(stream: &mut dyn std::io::Read) -> Result<File, ImageError> {
    let mut file = tempfile().map_err(ImageError::File)?;
    std::io::copy(stream, &mut file).map_err(ImageError::File)?;
    Ok(file)
}

/// Codes of a dump with OOB, if known, and sizes that the user states.
type StatedLayout<'k> = (Option<&'k Protection>, FlashSizes);

/// Bytes of a file with images after shifted eraseblocks were moved to their positions, and the images found in these
/// bytes.
fn spliced(
    file: Arc<File>,
    found: Vec<ImageLocation>,
    access: Access,
    detect: impl Fn(&mut dyn Store) -> Result<Vec<ImageLocation>, ImageError>,
) -> Result<(Bytes, Splices, Vec<ImageLocation>), ImageError> {
    let splices = Splices::of(found.iter().flat_map(|found| &found.splices));
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

/// The filesystem with a reader at a byte, whose superblock may be damaged.
fn tree_at(store: &dyn Store, at: u64) -> Option<map::Readable> {
    map::readable_at(store, at).or_else(|| map::remains_at(store, at))
}

impl Image {
    /// Opens a file and searches it for images. A NAND dump with OOB is corrected into a temporary file first.
    ///
    /// # Errors
    /// The file cannot be read, or contains no known image.
    pub fn open(path: &Path, access: Access) -> Result<Self, ImageError> {
        Self::open_sized(path, access, FlashSizes::default())
    }

    /// Opens a file of flash with stated sizes: of PEBs or eraseblocks, which cannot always be found in a small image, or of the pages of a
    /// dump with OOB.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), and contents with other sizes.
    pub fn open_sized(path: &Path, access: Access, sizes: impl Into<FlashSizes>) -> Result<Self, ImageError> {
        let sizes = sizes.into();
        if access == Access::Read && is_stream(path) {
            return Self::from_stream(&mut read_pipe(path).map_err(ImageError::File)?, sizes);
        }
        let file = open_file(path, access == Access::Write).map_err(ImageError::File)?;
        if access == Access::Read {
            return Self::over_readable(file, sizes);
        }
        Self::over_stated(file, access, (None, sizes))
    }

    /// Opens a file for reading like [`over_stated`](Self::over_stated). If it contains no UBI, UBIFS or JFFS2, it is searched for other
    /// filesystems.
    fn over_readable(file: File, sizes: FlashSizes) -> Result<Self, ImageError> {
        let copy = file.try_clone().map_err(ImageError::File)?;
        let error = match Self::over_stated(copy, Access::Read, (None, sizes)) {
            Err(error) if error.is_of_contents() || matches!(error, ImageError::NothingInPages(_)) => error,
            opened => return opened,
        };
        let image = Self::bytes_of(file, &error, sizes)?;
        let found = map::readable(&*image.store()?)?;
        let trees = |found: &[map::Readable]| found.iter().map(ImageLocation::tree).collect();
        if !found.is_empty() {
            let better = image.in_better_pages(&found)?;
            return Ok(better.unwrap_or_else(|| Self { found: trees(&found), ..image }));
        }
        match image.in_marked_pages()? {
            None => Err(error),
            Some((image, pages)) if image.found.is_empty() => {
                let found = trees(&map::readable(&*image.store()?)?);
                Self { found, ..image }.require_found(pages)
            }
            Some((image, _)) => Ok(image),
        }
    }

    /// The dump in pages whose sizes its bad block markers tell, where no filesystem in its bytes can be read and one in these pages can: a
    /// controller has put ECC bytes between the data.
    fn in_better_pages(&self, found: &[map::Readable]) -> Result<Option<Self>, ImageError> {
        let Bytes::File(file) = &self.bytes else { return Ok(None) };
        if self.sizes.stated_pages().is_some() || self.has_whole(found)? {
            return Ok(None);
        }
        let store = self.store()?;
        let marked = MarkedPages::find(&*store)?.map(MarkedPages::shape);
        let marked = marked.filter(|pages| self.sizes.allows(pages));
        let others = map::marked_pages(&*store, &self.sizes).into_iter();
        let others = others.filter(|pages| marked.is_none_or(|marked| marked.stride() != pages.stride()));
        for pages in marked.into_iter().chain(others) {
            let image = Self::corrected(file, 0, pages, Access::Read, (None, self.sizes))?;
            let inside = map::readable(&*image.store()?)?;
            if image.has_whole(&inside)? {
                let found = inside.iter().map(ImageLocation::tree).collect();
                return Ok(Some(Self { found, ..image }));
            }
        }
        Ok(None)
    }

    /// True where a filesystem has no damage at its beginning, and its root can be read.
    fn has_whole(&self, found: &[map::Readable]) -> Result<bool, ImageError> {
        for found in found {
            if map::is_whole(&|| self.store(), found)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The corrected dump with the page sizes that its bad block markers imply; `None` if they imply no sizes.
    fn in_marked_pages(&self) -> Result<Option<(Self, PageShape)>, ImageError> {
        let Bytes::File(file) = &self.bytes else { return Ok(None) };
        if self.sizes.stated_pages().is_some() {
            return Ok(None);
        }
        let marked = MarkedPages::find(&*self.store()?)?.map(MarkedPages::shape);
        let Some(pages) = marked.filter(|pages| self.sizes.allows(pages)) else { return Ok(None) };
        let corrected = Self::corrected(file, 0, pages, Access::Read, (None, self.sizes))?;
        Ok(Some((corrected, pages)))
    }

    /// Bytes of a file without UBI, UBIFS or JFFS2. The OOB is removed if the user states page sizes, or if a filesystem is intact only without
    /// it.
    fn bytes_of(file: File, error: &ImageError, sizes: FlashSizes) -> Result<Self, ImageError> {
        let file = Arc::new(file);
        match Self::pages_around(&file, error, &sizes)? {
            Some(pages) => Self::corrected(&file, 0, pages, Access::Read, (None, sizes)),
            None => Ok(Self::plain(file, sizes)),
        }
    }

    /// A file in which nothing was looked for.
    fn plain(file: Arc<File>, sizes: FlashSizes) -> Self {
        Self {
            found: Vec::new(),
            bytes: Bytes::File(file),
            splices: Splices::default(),
            corrected: None,
            protection: None,
            lebs: None,
            sizes,
            access: Access::Read,
            room: None,
            keys: None,
        }
    }

    /// Opens the data of a pipe for reading. The data is stored in a temporary file.
    ///
    /// # Errors
    /// The errors of [`open_sized`](Self::open_sized), and no space for the temporary file.
    pub fn from_stream(
        stream: &mut dyn std::io::Read,
        sizes: impl Into<FlashSizes>,
    ) -> Result<Self, ImageError> {
        Self::over_readable(spooled(stream)?, sizes.into())
    }

    /// Opens a file for reading, even if it contains no known image. Its bytes can then be read, but it has no images.
    ///
    /// # Errors
    /// The file cannot be read, or is empty.
    pub fn open_any(path: &Path, sizes: impl Into<FlashSizes>) -> Result<Self, ImageError> {
        let mut stream =
            if is_stream(path) { Some(read_pipe(path).map_err(ImageError::File)?) } else { None };
        let file = match &mut stream {
            Some(stream) => spooled(stream)?,
            None => open_file(path, false).map_err(ImageError::File)?,
        };
        Self::over_any(file, sizes.into())
    }

    /// Opens the data of a pipe like [`open_any`](Self::open_any).
    ///
    /// # Errors
    /// The errors of [`open_any`](Self::open_any), and no space for the temporary file.
    pub fn any_from_stream(
        stream: &mut dyn std::io::Read,
        sizes: impl Into<FlashSizes>,
    ) -> Result<Self, ImageError> {
        Self::over_any(spooled(stream)?, sizes.into())
    }

    /// Searches an open file like [`open_any`](Self::open_any).
    pub(crate) fn over_any(file: File, sizes: FlashSizes) -> Result<Self, ImageError> {
        let copy = file.try_clone().map_err(ImageError::File)?;
        match Self::over_stated(copy, Access::Read, (None, sizes)) {
            Err(error) if error.is_of_contents() || matches!(error, ImageError::NothingInPages(_)) => {
                let image = Self::bytes_of(file, &error, sizes)?;
                let found = map::readable(&*image.store()?)?;
                let marked = match &*found {
                    [] => image.in_marked_pages()?.map(|(corrected, _)| corrected),
                    found => image.in_better_pages(found)?,
                };
                Ok(marked.unwrap_or(image))
            }
            opened => opened,
        }
    }

    /// Opens a file for changes in memory. Returns the image, and the pending changes.
    ///
    /// # Errors
    /// The errors of [`open_sized`](Self::open_sized).
    pub(super) fn open_pending(
        path: &Path,
        sizes: impl Into<FlashSizes>,
    ) -> Result<(Self, FilePending, Option<OobPages>), ImageError> {
        let file = open_file(path, false).map_err(ImageError::File)?;
        let sizes = sizes.into();
        let copy = file.try_clone().map_err(ImageError::File)?;
        let mut image = match Self::over_stated(copy, Access::Write, (None, sizes)) {
            Err(error) if error.is_of_contents() || matches!(error, ImageError::NothingInPages(_)) => {
                Self::over_changeable(file, error, sizes)?
            }
            opened => opened?,
        };
        let pending = Pending::new(image.bytes.open()?);
        let oob = match std::mem::replace(&mut image.bytes, Bytes::Pending(pending.clone())) {
            Bytes::Pages(pages, _) => Some(*pages),
            _ => None,
        };
        image.room = None;
        Ok((image, pending, oob))
    }

    /// Opens a file without UBI, UBIFS or JFFS2, but with a filesystem whose whole image is written again after
    /// changes.
    fn over_changeable(file: File, error: ImageError, sizes: FlashSizes) -> Result<Self, ImageError> {
        let file = Arc::new(file);
        let mut image = match Self::pages_around(&file, &error, &sizes)? {
            Some(pages) => Self::corrected(&file, 0, pages, Access::Write, (None, sizes))?,
            None => Self::plain(Arc::clone(&file), sizes),
        };
        let mut found = map::readable(&*image.store()?)?;
        // A controller may have put ECC bytes between the data.
        if found.is_empty() && image.corrected.is_none() && sizes.stated_pages().is_none() {
            let marked = MarkedPages::find(&*image.store()?)?.map(MarkedPages::shape);
            let corrected = marked
                .filter(|pages| sizes.allows(pages))
                .and_then(|pages| Self::corrected(&file, 0, pages, Access::Write, (None, sizes)).ok());
            if let Some(corrected) = corrected {
                found = map::readable(&*corrected.store()?)?;
                image = corrected;
            }
        }
        if !found.iter().any(|found| found.kind == map::Kind::Littlefs) {
            let only_read = |found: &map::Readable| ImageError::OnlyRead {
                kind: found.kind.name(),
                lack: TreeLack::Changes,
            };
            return Err(found.first().map_or(error, only_read));
        }
        let found = found.iter().map(ImageLocation::tree).collect();
        Ok(Self { found, access: Access::Write, ..image })
    }

    /// Pages with OOB of a file without UBI, UBIFS or JFFS2: the stated pages, or pages in which a filesystem is intact.
    fn pages_around(
        file: &Arc<File>,
        error: &ImageError,
        sizes: &FlashSizes,
    ) -> Result<Option<PageShape>, ImageError> {
        match error {
            ImageError::NothingInPages(pages) => Ok(Some(*pages)),
            _ => Ok(map::pages_of_filesystem(&|| store_of(file), sizes)?.map(|(pages, _)| pages)),
        }
    }

    /// Returns the image with keys of encrypted files, which are decrypted when they are read.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys: Some(Arc::new(keys)), ..self }
    }

    /// Looks for images in a file that is open.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn over(file: File, access: Access) -> Result<Self, ImageError> {
        Self::over_stated(file, access, (None, FlashSizes::default()))
    }

    /// Opens a file that was derived from the file of this image.
    pub(super) fn open_like(&self, path: &Path, access: Access) -> Result<Self, ImageError> {
        let file = File::options().read(true).write(access == Access::Write).open(path);
        Self::over_stated(file.map_err(ImageError::File)?, access, (self.protection.as_ref(), self.sizes))
    }

    /// Opens a file whose ECC codes or flash sizes are known.
    fn over_stated(file: File, access: Access, known: StatedLayout<'_>) -> Result<Self, ImageError> {
        let (_, sizes) = known;
        let file = Arc::new(file);
        let mut store = store_of(&file)?;
        let found = detect_sized(&mut store, &sizes)?;
        let with_oob = found.iter().find_map(|found| Some((found, found.pages?)));
        if let Some((found, pages)) = with_oob {
            return Self::in_found_pages(&file, found.offset, pages, access, known);
        }
        let has_plain_pebs = found.iter().any(|found| found.format().has_plain_blocks(found.len));
        if let Some((pages, has_blocks)) = sizes.stated_pages().filter(|_| !has_plain_pebs) {
            match Self::in_stated_pages(&file, (pages, has_blocks), access, known) {
                Err(ImageError::NothingInPages(_)) if !found.is_empty() => {}
                opened => return opened,
            }
        }
        if found.is_empty() {
            return Err(explain(&mut store)?);
        }
        let (bytes, splices, found) = spliced(file, found, access, |store| detect_sized(store, &sizes))?;
        let (corrected, protection, lebs, room, keys) = (None, None, None, None, None);
        Self { found, bytes, splices, corrected, protection, lebs, sizes, access, room, keys }.with_room()
    }

    /// Enables the reservation of disk space for changes that are written immediately.
    fn with_room(self) -> Result<Self, ImageError> {
        let room = if self.access == Access::Write { HostRoom::new(&self.bytes)? } else { None };
        Ok(Self { room, ..self })
    }

    /// Opens a dump with an image at `offset`, with page sizes derived from the distances of its nodes. If a controller
    /// puts other bytes before or between the data, pages look shifted or smaller. Therefore the page sizes of the
    /// image are tried first, and are used if a code explains them.
    fn in_found_pages(
        file: &Arc<File>,
        offset: u64,
        pages: PageShape,
        access: Access,
        known: StatedLayout<'_>,
    ) -> Result<Self, ImageError> {
        let block = u64::from(pages.stride()) * u64::from(pages.pages_per_block);
        let start = offset % block;
        let explained = |start, pages| {
            let image = Self::corrected(file, start, pages, access, known).ok()?;
            let corrected = image.corrected.as_ref()?;
            let is_explained = image.found.iter().all(|found| corrected.has_code(found));
            (is_explained && !image.found.is_empty()).then_some(image)
        };
        let shift = start % u64::from(pages.stride());
        if (1..=u64::from(pages.oob_bytes)).contains(&shift) {
            // UBI may write less at once than a page holds.
            let larger = [2, 4].map(|times| pages.joined(pages.page_bytes.saturating_mul(times)));
            let mut all = [Some(pages)].into_iter().chain(larger).flatten();
            if let Some(image) = all.find_map(|pages| explained(start - shift, pages)) {
                return Ok(image);
            }
        }
        let image = Self::corrected(file, start, pages, access, known)?.require_found(pages)?;
        let wanted = image.found.iter().filter_map(ImageLocation::min_io_bytes).max().unwrap_or(0);
        match pages.joined(wanted).and_then(|joined| explained(start, joined)) {
            Some(joined) => Ok(joined),
            None => Ok(image),
        }
    }

    /// Opens a dump whose pages have stated sizes and begin at the start of the file. If no block size is stated, the
    /// size of the PEBs is used.
    fn in_stated_pages(
        file: &Arc<File>,
        (pages, has_blocks): (PageShape, bool),
        access: Access,
        known: StatedLayout<'_>,
    ) -> Result<Self, ImageError> {
        let image = Self::corrected(file, 0, pages, access, known)?.require_found(pages)?;
        let peb_bytes =
            image.found.iter().filter(|found| found.has_volumes()).find_map(ImageLocation::block_bytes);
        match peb_bytes.filter(|bytes| bytes.is_multiple_of(pages.page_bytes)) {
            Some(bytes) if !has_blocks && bytes != pages.block_bytes() => {
                let pages = PageShape { pages_per_block: bytes / pages.page_bytes, ..pages };
                Self::corrected(file, 0, pages, access, known)?.require_found(pages)
            }
            _ => Ok(image),
        }
    }

    fn require_found(self, pages: PageShape) -> Result<Self, ImageError> {
        if self.found.is_empty() { Err(ImageError::NothingInPages(pages)) } else { Ok(self) }
    }

    /// Corrects a dump from its first whole block on.
    fn corrected(
        file: &Arc<File>,
        start: u64,
        pages: PageShape,
        access: Access,
        (known, sizes): StatedLayout<'_>,
    ) -> Result<Self, ImageError> {
        let geometry = geometry(pages)?;
        let known = known.filter(|(of, _)| *of == geometry).map(|(_, regions)| regions);
        let (data, corrected, regions) = correct(file, start, pages, known)?;
        let data = Arc::new(data);
        let mut store = store_of(&data)?;
        let detect = |store: &mut dyn Store| detect_in_pages(store, Some(pages), &sizes);
        let found = detect(&mut store)?;
        // Missing bytes of a dump with OOB cannot be repaired.
        let shifted = |error| match error {
            ImageError::Shifted(why) => ImageError::NotRepairable(why),
            error => error,
        };
        let (plain, splices, all) = spliced(Arc::clone(&data), found, access, detect).map_err(shifted)?;
        let bad_pebs = |found: &ImageLocation| corrected.bad_pebs(found);
        let found = all.iter().map(|found| with_free(&store, found, &all, &bad_pebs));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let protection = (geometry, regions);
        let bytes = match access {
            Access::Read => plain,
            Access::Write if protection.1.schemes().next().is_none() => return Err(ImageError::OobReadOnly),
            Access::Write => {
                let markers = clean_markers(file, &corrected, &found, |found| found.format().clean_marker())?;
                let pages = OobPages::new(protection.clone(), &corrected, data, markers);
                Bytes::Pages(Box::new(pages), Arc::clone(file))
            }
        };
        let (corrected, protection) = (Some(corrected), Some(protection));
        let (lebs, room, keys) = (None, None, None);
        Self { found, bytes, splices, corrected, protection, lebs, sizes, access, room, keys }.with_room()
    }

    /// The selected image: the image at the selected offset, or the only one. If an image is recognised by its nodes,
    /// the selected offset may be the offset of any node.
    ///
    /// # Errors
    /// No image, or several images without a selection.
    pub fn choose(&self, selection: &Selection) -> Result<ImageLocation, ImageError> {
        let found = match selection.offset {
            Some(offset) => {
                let at = self.found.iter().find(|found| self.file_byte(found.offset) == offset);
                at.cloned().map_or_else(|| self.found_at(offset), Ok)?
            }
            None if self.found.len() == 1 => self.found[0].clone(),
            None => {
                return Err(ImageError::Several(
                    self.found.iter().map(|found| self.place_of(found)).collect(),
                ));
            }
        };
        found.require_block_bytes(self.sizes.peb_bytes)?;
        found.require_volume(selection.volume.as_ref())?;
        Ok(found)
    }

    /// True if the selected image is in pages of a dump whose OOB no code explains, so that wrong bits were not
    /// corrected.
    #[must_use]
    pub fn has_unknown_code(&self, selection: &Selection) -> bool {
        let is_selected = |found: &&ImageLocation| {
            selection.offset.is_none_or(|offset| {
                let part = self.part(found.offset..found.offset + found.len);
                (part.offset..part.end()).contains(&offset)
            })
        };
        let Some(corrected) = &self.corrected else { return false };
        self.found.iter().filter(is_selected).any(|found| corrected.has_unknown_code(found))
    }

    /// Image whose first node is at an offset of the file, inside a range that also has nodes before it.
    fn found_at(&self, offset: u64) -> Result<ImageLocation, ImageError> {
        let pages = self.corrected.as_ref().map(|corrected| corrected.pages);
        let at = self.corrected.as_ref().map_or(Some(offset), |corrected| corrected.data_byte(offset));
        let at = at.map(|at| self.splices.place(at)).ok_or(ImageError::NotThere(offset))?;
        let found = find_at(&mut *self.store()?, at, pages, self.sizes.peb_bytes)?;
        let tree = || (self.access == Access::Read).then(|| tree_at(&*self.store().ok()?, at)).flatten();
        let found = found.or_else(|| tree().as_ref().map(ImageLocation::tree));
        let mut found = found.ok_or(ImageError::NotThere(offset))?;
        found.bad_pebs =
            self.corrected.as_ref().map(|corrected| corrected.bad_pebs(&found)).unwrap_or_default();
        Ok(found)
    }

    /// Kind, offset and size of an image, for a list to choose from.
    fn place_of(&self, found: &ImageLocation) -> String {
        let offset = self.file_byte(found.offset);
        let size = size(self.own_bytes(found));
        format!("{} at byte {offset} ({offset:#x}), {size}", found.format().kind())
    }

    /// Mounts the selected filesystem.
    ///
    /// # Errors
    /// Several images or volumes without a selection; a damaged device or filesystem; a filesystem that needs recovery,
    /// unless `recover` allows it or the mount is read-only.
    pub fn mount(
        &self,
        selection: &Selection,
        recover: bool,
        behaviour: Behaviour,
    ) -> Result<ImageFs, ImageError> {
        let found = self.choose(selection)?;
        let mounted =
            found.format().mount(Chosen { image: self, found: &found, selection }, recover, behaviour);
        mounted.map_err(|error| match error {
            ImageError::GuessedEraseblocks { guess, possible } => self
                .possible_sizes(&possible, &found)
                .map_or_else(|error| error, |possible| ImageError::GuessedEraseblocks { guess, possible }),
            error => error,
        })
    }

    /// Losses that no checksum shows when files of the selected filesystem are read: in uncorrectable pages of a dump, or in LEBs.
    ///
    /// # Errors
    /// The errors of [`mount`](Self::mount).
    pub fn unverified_losses(&self, selection: &Selection) -> Result<Vec<Loss>, ImageError> {
        let found = self.choose(selection)?;
        found.format().unverified_losses(Chosen { image: self, found: &found, selection })
    }

    /// Eraseblock sizes with which an image is found at its offset.
    fn possible_sizes(&self, sizes: &[u32], found: &ImageLocation) -> Result<Vec<u32>, ImageError> {
        let mut store = self.store()?;
        let mut is_possible = |size: &u32| {
            let all = detect_sized(&mut store, &Some(*size).into());
            all.is_ok_and(|all| all.iter().any(|one| one.offset == found.offset && one.splices.is_empty()))
        };
        Ok(sizes.iter().copied().filter(|size| is_possible(size)).collect())
    }

    /// Sizes between which the selected volume can grow with its image: a bare UBIFS at the end of a file, or a volume of a UBI device. A JFFS2
    /// grows over erased flash and at the end of a file; with `recover`, also over data that may have overwritten it.
    ///
    /// # Errors
    /// The errors of [`volume`](Self::volume), and a volume without a filesystem.
    pub fn growth(&self, selection: &Selection, recover: bool) -> Result<Option<Growth>, ImageError> {
        let found = self.choose(selection)?;
        found.format().growth(Chosen { image: self, found: &found, selection }, recover)
    }

    /// The selected volume: of a UBI device, the only volume or the named one.
    ///
    /// # Errors
    /// The errors of [`mount`](Self::mount).
    pub fn volume(&self, selection: &Selection) -> Result<Box<dyn Volume>, ImageError> {
        let found = self.choose(selection)?;
        found.format().volume(Chosen { image: self, found: &found, selection })
    }

    /// Names of the other volumes of the UBI device in which the selected filesystem is.
    ///
    /// # Errors
    /// The errors of [`volume`](Self::volume).
    pub fn other_volumes(&self, selection: &Selection) -> Result<Vec<String>, ImageError> {
        let found = self.choose(selection)?;
        found.format().other_volumes(Chosen { image: self, found: &found, selection })
    }

    /// Writes the corrections of the ECC into the original dump, which must be open for writing. Returns the number of
    /// pages.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(super) fn write_corrected(&self, dump: &File) -> Result<u64, ImageError> {
        let Bytes::Pages(oob, _) = &self.bytes else { return Ok(0) };
        self.found.iter().map(|found| oob.write_corrected(dump, found)).sum()
    }
}
