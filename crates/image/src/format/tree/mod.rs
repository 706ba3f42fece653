//! Filesystems that floatgate can only read; `readonly` contains their readers. They can be listed, extracted, mounted and checked. A LittleFS can
//! also be changed, because its whole image is written again.

pub(crate) mod shape;

use floatgate_files::File;
use std::io;
use std::sync::Arc;

use floatgate_stack::fs::Error;
use floatgate_stack::fscrypt::Decrypted;
use floatgate_stack::store::{StoreError, Window};
use floatgate_stack::ubifs::{Behaviour, Severity};
use floatgate_stack::{Store, Volume};

use self::shape::{TreeInfo, TreeShape};
use super::Format;
use super::info::OneImage;
use super::location::{Content, ImageLocation};
use crate::build::changeable;
use crate::error::{ImageError, TreeLack};
use crate::extract::contents::Contents;
use crate::extract::source::FileSystemSource;
use crate::extract::target::{Entry, ExtractError, ExtractLimits, Extracted, Extracting, Nowhere, Target};
use crate::extract::walk::extract;
use crate::image::{Access, Bytes, Growth, Image, ImageFs};
use crate::map::probe_match::Kind;
use crate::map::readable::{self, Readable};
use crate::readonly;
use crate::report::{
    At, CheckReport, DumpTarget, Dumped, Finding, ImageCheck, Layer, Loss, Revision, Structure,
};
use crate::saved::{Method, Saved};
use crate::selection::Chosen;
use crate::words::{BEHIND_CUT, count};
use crate::write_back::WriteBack;
use floatgate_host::output::Output;

impl ImageLocation {
    /// A filesystem that is only read as an image.
    pub(crate) const fn tree(readable: &Readable) -> Self {
        Self::new(readable.at, readable.len, Content::Tree(TreeShape { kind: readable.kind }))
    }
}

/// A filesystem that is only read, opened.
pub(crate) struct TreeFiles {
    opened: readonly::Opened,
}

/// A filesystem in a file.
pub(crate) struct InFile {
    /// Format of the filesystem.
    pub(crate) kind: Kind,
    /// Size of the filesystem, bytes.
    pub(crate) len: u64,
    /// The filesystem, or the reason for which it cannot be read.
    pub(crate) files: Result<TreeFiles, ImageError>,
}

/// A store with erased bytes behind its end.
struct Widened {
    store: Box<dyn Store>,
    len: u64,
}

impl Store for Widened {
    fn size_bytes(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.store.read_at(offset, buf)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.store.write_at(offset, data)
    }
}

/// Target that counts the extracted data and discards it.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) directories: u64,
    pub(crate) files: u64,
}

impl Target for Counted {
    fn enter(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        self.directories += 1;
        Nowhere.enter(entry)
    }

    fn leave(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        Nowhere.leave(entry)
    }

    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        self.files += 1;
        Nowhere.file(entry, contents)
    }

    fn special(&mut self, entry: &Entry<'_>) -> io::Result<Vec<String>> {
        self.files += 1;
        Nowhere.special(entry)
    }

    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> io::Result<Vec<String>> {
        self.files += 1;
        Nowhere.link(entry, first)
    }
}

impl TreeFiles {
    /// Opens the filesystem in a range of a store.
    ///
    /// # Errors
    /// A damaged superblock, and features that the reader does not support.
    pub(crate) fn open(kind: Kind, store: Box<dyn Store>, place: (u64, u64)) -> Result<Self, ImageError> {
        let cut = cut(kind, &*store, place);
        let damage = readable::damage_at(&*store, kind, place.0);
        let opened = match (readonly::open(kind, store, place), damage) {
            // Features in a damaged superblock may not be those of the filesystem.
            (Err(Error::Unsupported(_)), Some(what)) => Err(Error::Damaged(what.to_owned())),
            (opened, _) => opened,
        };
        let mut opened = opened?.ok_or(Error::Unsupported("reading this format"))?;
        // The reader of ext reports which copy it has read instead.
        let damage = damage.filter(|_| kind != Kind::Ext || opened.found.losses.is_empty());
        opened.found.losses.splice(0..0, damage.map(|what| format!("{}: {what}", kind.name())));
        if let Some(cut) = cut {
            opened.found.losses.insert(0, format!("{}: {cut}: {BEHIND_CUT}", kind.name()));
        }
        Ok(Self { opened })
    }

    /// Opens what a file holds from its beginning, with its format; `None` if that is no format with a reader. The file is the front of a volume of
    /// `volume_bytes`, of which the rest is erased.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn in_file(file: File, volume_bytes: u64) -> Result<Option<InFile>, ImageError> {
        let bytes = Bytes::File(Arc::new(file));
        let store = bytes.open()?;
        let Some(found) = readable::readable_in(&*store)? else { return Ok(None) };
        // A driver of LittleFS has never written all blocks.
        let is_erased_behind =
            found.kind == Kind::Littlefs && (store.size_bytes()..=volume_bytes).contains(&found.len);
        let store = if is_erased_behind { Box::new(Widened { store, len: found.len }) } else { store };
        let files = Self::open(found.kind, store, (0, found.len));
        Ok(Some(InFile { kind: found.kind, len: found.len, files }))
    }

    /// Returns the filesystem with decryption of files whose keys the image has.
    pub(crate) fn with_keys_of(mut self, image: &Image) -> Self {
        if let Some(keys) = &image.keys {
            self.opened.fs = Box::new(Decrypted::new(self.opened.fs, Arc::clone(keys)));
        }
        self
    }

    /// The filesystem to be changed.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn undamaged(self) -> Result<ImageFs, ImageError> {
        match self.opened.found.losses.first() {
            None => Ok(self.opened.fs),
            Some(loss) => Err(Error::Damaged(format!("what is damaged is not changed: {loss}")).into()),
        }
    }

    /// The filesystem alone.
    pub(crate) fn into_fs(self) -> ImageFs {
        self.opened.fs
    }

    /// Reads all files, adds the damage to the report for a volume of this name, and returns the counts and the size of
    /// the files.
    pub(crate) fn check(mut self, volume: Option<&str>, report: &mut CheckReport) -> (Counted, u64) {
        let mut counted = Counted::default();
        let (mut damage, notes) = (Vec::new(), std::mem::take(&mut self.opened.found.notes));
        let remarks = std::mem::take(&mut self.opened.found.remarks);
        let flaws = std::mem::take(&mut self.opened.found.flaws);
        report.is_unverified |= !remarks.is_empty();
        let mut bytes = 0;
        match Box::new(self).run(&mut counted, &ExtractLimits::default(), &|_| {}) {
            Ok(read) => {
                bytes = read.bytes;
                damage.extend(read.losses.iter().map(ToString::to_string));
            }
            Err(error) => damage.push(error.to_string()),
        }
        damage.extend(notes);
        for what in damage {
            add_damage(what, volume, report);
        }
        for what in flaws {
            let consequence = "all files are still read; a check of the filesystem on Linux mends it";
            let structure = Structure::Filesystem;
            let finding = Finding::new(Layer::Data, Severity::Recoverable, structure, what, consequence);
            report.add(Finding { volume: volume.map(str::to_owned), ..finding });
        }
        for what in remarks {
            let consequence = "what is not listed here may be damaged, too";
            let finding = Finding::new(Layer::Data, Severity::Note, Structure::Filesystem, what, consequence);
            report.add(Finding { volume: volume.map(str::to_owned), ..finding });
        }
        (counted, bytes)
    }
}

/// Description of the missing end of a filesystem in a range of a store; `None` if nothing is missing.
fn cut(kind: Kind, store: &dyn Store, (at, len): (u64, u64)) -> Option<String> {
    let missing = at.saturating_add(len).checked_sub(store.size_bytes()).filter(|missing| *missing > 0)?;
    Some(match kind {
        // The size of the filesystem is unknown: only its last page is known to be longer.
        Kind::Yaffs => {
            format!("the file is cut: it ends {} before the end of a page", count(missing, "byte"))
        }
        _ => format!("the file is cut: {missing} of {len} bytes are missing"),
    })
}

/// Adds damage of files to a report.
pub(crate) fn add_damage(what: String, volume: Option<&str>, report: &mut CheckReport) {
    let consequence = "files are damaged, or missing";
    let finding = Finding::new(Layer::Data, Severity::Damaged, Structure::File, what, consequence);
    report.add(Finding { volume: volume.map(str::to_owned), ..finding });
}

impl Extracting for TreeFiles {
    fn run(
        mut self: Box<Self>,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError> {
        let readonly::Opened { fs, found } = &mut self.opened;
        let readonly::Findings { notes, losses, flaws, remarks } = found;
        let mut extracted = extract(&mut FileSystemSource(&mut **fs), target, limits, progress)?;
        let losses = std::mem::take(losses).into_iter().map(|what| Loss::new(&[], what));
        extracted.losses.splice(0..0, losses);
        extracted.is_unverified = !remarks.is_empty();
        extracted.notes.append(notes);
        extracted.notes.append(flaws);
        extracted.notes.append(remarks);
        Ok(extracted)
    }
}

impl TreeShape {
    /// Error for an operation that is impossible with this format.
    pub(crate) const fn refusal(self, lack: TreeLack) -> ImageError {
        ImageError::OnlyRead { kind: self.kind.name(), lack }
    }

    fn files(self, Chosen { image, found, .. }: Chosen<'_>) -> Result<TreeFiles, ImageError> {
        let files = TreeFiles::open(self.kind, image.store()?, (found.offset, found.len))?;
        Ok(files.with_keys_of(image))
    }

    /// Opens a LittleFS without damage for changes in memory, after which its image is written again.
    fn changeable(self, chosen: Chosen<'_>) -> Result<ImageFs, ImageError> {
        let Chosen { image, found, .. } = chosen;
        if self.kind != Kind::Littlefs {
            return Err(self.refusal(TreeLack::Changes));
        }
        let place = (found.offset, found.len);
        let mut fs = self.files(chosen)?.undamaged()?;
        let shape = readonly::littlefs_shape(image.store()?, place);
        let shape = shape.ok_or(Error::Unsupported("changing this filesystem"))?;
        let window = Window::new(image.store()?, found.offset, found.len);
        changeable(&mut *fs, shape, Box::new(window), None)
    }
}

impl Format for TreeShape {
    fn kind(&self) -> &'static str {
        self.kind.name()
    }

    fn write_back(&self) -> WriteBack {
        if self.kind == Kind::Littlefs { WriteBack::Plain } else { WriteBack::Mixed }
    }

    fn layer(&self) -> Layer {
        Layer::Data
    }

    fn mount(&self, chosen: Chosen<'_>, _: bool, _: Behaviour) -> Result<ImageFs, ImageError> {
        match chosen.image.access {
            Access::Read => self.files(chosen).map(TreeFiles::into_fs),
            Access::Write => self.changeable(chosen),
        }
    }

    fn unverified_losses(&self, Chosen { image, found, .. }: Chosen<'_>) -> Result<Vec<Loss>, ImageError> {
        let pages = image.corrected.as_ref().map(|corrected| corrected.lost_pages(found)).unwrap_or_default();
        let loss = |at: u64| Loss {
            path: format!("byte {at} of the filesystem"),
            what: "a page has more wrong bits than its ECC corrects: what was printed may be wrong"
                .to_owned(),
        };
        Ok(pages.into_iter().map(loss).collect())
    }

    fn growth(&self, _: Chosen<'_>, _: bool) -> Result<Option<Growth>, ImageError> {
        match self.kind {
            Kind::Littlefs => Ok(None),
            _ => Err(self.refusal(TreeLack::Changes)),
        }
    }

    fn info(&self, Chosen { image, found, .. }: Chosen<'_>, one: &mut OneImage) -> Result<(), ImageError> {
        let facts = readable::readable_facts(&*image.store()?, self.kind, found.offset)?;
        one.tree = Some(TreeInfo { kind: self.kind, facts });
        one.cut = cut(self.kind, &*image.store()?, (found.offset, found.len));
        one.damage = readable::damage_at(&*image.store()?, self.kind, found.offset).map(ToOwned::to_owned);
        Ok(())
    }

    /// Reads all files.
    fn check(&self, chosen: Chosen<'_>, report: &mut CheckReport) -> Result<(), ImageError> {
        let Chosen { found, .. } = chosen;
        match self.files(chosen) {
            Ok(files) => {
                files.check(None, report);
            }
            Err(ImageError::Filesystem(error @ Error::Damaged(_))) => {
                add_damage(format!("{}: {error}", self.kind.name()), None, report);
            }
            Err(error) => return Err(error),
        }
        report.images.push(ImageCheck::tree(found, self.kind));
        Ok(())
    }

    fn repair(&self, _: &Image, _: &ImageLocation, _: &Output, _: &mut Saved) -> Result<Method, ImageError> {
        Err(self.refusal(TreeLack::Repair))
    }

    fn extraction(&self, chosen: Chosen<'_>) -> Result<Box<dyn Extracting>, ImageError> {
        Ok(Box::new(self.files(chosen)?))
    }

    fn extraction_at(&self, _: Chosen<'_>, _: At) -> Result<Box<dyn Extracting>, ImageError> {
        Err(self.refusal(TreeLack::Moments))
    }

    fn history(&self, _: Chosen<'_>) -> Result<Vec<Revision>, ImageError> {
        Err(self.refusal(TreeLack::Moments))
    }

    fn dump(&self, _: Chosen<'_>, _: &DumpTarget) -> Result<Vec<Dumped>, ImageError> {
        Err(self.refusal(TreeLack::Nodes))
    }

    fn volume(&self, _: Chosen<'_>) -> Result<Box<dyn Volume>, ImageError> {
        Err(self.refusal(TreeLack::Lebs))
    }
}
