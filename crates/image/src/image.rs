//! An opened file: its bytes, and the images in it with their positions.

mod bytes;

use std::ops::Range;
use std::sync::Arc;

use floatgate_stack::Store;
use floatgate_stack::fs::FileSystem;
use floatgate_stack::fscrypt::Keys;

pub(crate) use bytes::{Bytes, FilePending, HostRoom, fill, store_of};

use crate::ImageError;
use crate::ecc::{PageGeometry, Regions};
use crate::format::location::{ImageLocation, Splice, Splices};
use crate::oob::Corrected;
use crate::pages::FlashSizes;
use crate::part::Part;
use crate::report::Loss;

/// Purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read-only; the results of a recovery stay in memory.
    Read,
    /// Changes go to the file.
    Write,
}

/// An opened file, and the images in it. A volume or filesystem that is opened for writing must be the only one that is open.
#[derive(Clone)]
pub struct Image {
    /// Images found in the file, with their positions.
    pub found: Vec<ImageLocation>,
    pub(crate) bytes: Bytes,
    /// Changes that put eraseblocks into their places; [`found`](Self::found) counts with them.
    pub(crate) splices: Splices,
    /// Results of the ECC, for a dump whose OOB was removed.
    pub corrected: Option<Corrected>,
    /// Codes of such a dump.
    pub(crate) protection: Option<Protection>,
    /// LEBs that a volume is to have that can grow.
    pub(crate) lebs: Option<u32>,
    /// Sizes of the flash that the user states.
    pub(crate) sizes: FlashSizes,
    pub(crate) access: Access,
    /// Reservation of disk space on the host, if changes are written to the file immediately.
    pub(crate) room: Option<HostRoom>,
    /// Keys of encrypted files.
    pub(crate) keys: Option<Arc<Keys>>,
}

/// LEBs or eraseblocks that an image has, and can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// LEBs of the filesystem now.
    pub now: u32,
    /// LEBs that the filesystem was made for.
    pub max: u32,
    /// Number of LEBs of the volume; for a bare image, number of LEBs in the file.
    pub volume: u32,
    /// Name of what grows: `volume` or `image`.
    pub what: &'static str,
    /// Name of its unit: `LEB` or `eraseblock`.
    pub unit: &'static str,
    /// Maximum number of LEBs that it can have so that they still belong to it when the file is opened again.
    pub lasting: u32,
    /// Range of the image in its file; in a file of its own, the image could grow.
    pub own: Option<Part>,
    /// Number of eraseblocks up to the end of the file, if the following data may have overwritten the image.
    pub over: Option<u32>,
}

/// A filesystem mounted from a file.
pub type ImageFs = Box<dyn FileSystem>;

/// Sizes of the pages of a dump, and the codes of its regions.
pub(crate) type Protection = (PageGeometry, Regions);

impl Image {
    /// The bytes, in which `found` counts.
    pub(crate) fn store(&self) -> Result<Box<dyn Store>, ImageError> {
        self.bytes.open()
    }

    /// Reads bytes at offsets in the form of images and of a [map](crate::map), which do not count the OOB of a dump. Bytes after the end read as
    /// 0xFF.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_bytes(&self, offset: u64, buf: &mut [u8]) -> Result<(), ImageError> {
        self.store()?.read_at(offset, buf).map_err(ImageError::Store)
    }

    /// Converts an offset in the images to an offset in the file. They differ in a dump with OOB between the pages.
    pub fn file_byte(&self, at: u64) -> u64 {
        let at = self.splices.file_byte(at);
        self.corrected.as_ref().map_or(at, |corrected| corrected.file_byte(at))
    }

    /// Number of bytes of an image that exist in the file, without OOB.
    pub(crate) fn own_bytes(&self, found: &ImageLocation) -> u64 {
        self.splices.file_byte(found.offset + found.len) - self.splices.file_byte(found.offset)
    }

    /// The part of the file that is a part of the images; in a dump with OOB whole pages with theirs.
    pub(crate) fn part(&self, range: Range<u64>) -> Part {
        let page = self.corrected.as_ref().map_or(1, |corrected| u64::from(corrected.pages.page_bytes));
        let offset = self.file_byte(range.start);
        let end = self.file_byte(range.end.next_multiple_of(page));
        Part { offset, len: end - offset }
    }

    /// Offset of the next image after this one.
    pub(crate) fn next_image(&self, found: &ImageLocation) -> Option<u64> {
        let own_end = found.offset + found.len;
        self.found.iter().map(|other| other.offset).filter(|&offset| offset >= own_end).min()
    }

    /// Position of an image in the file.
    pub(crate) fn origin(&self, found: &ImageLocation) -> Origin {
        Origin::new(found, self.splices.clone(), self.corrected.clone())
    }

    /// Offsets in the file at which bytes of an image are missing or were inserted, each with a description.
    pub(crate) fn shifts(&self, found: &ImageLocation) -> Vec<(u64, String)> {
        let within = self.splices.within(found.offset..found.offset + found.len);
        let place = |at| self.corrected.as_ref().map_or(at, |corrected| corrected.file_byte(at));
        within.filter_map(Splice::finding).map(|(at, what)| (place(at), what)).collect()
    }

    /// The same for writing with a volume of at least `lebs` LEBs. It [grows](Self::growth) in the image.
    #[must_use]
    pub fn with_lebs(self, lebs: Option<u32>) -> Self {
        Self { lebs, ..self }
    }

    /// Pages of an image that the ECC could not correct, and pages that it did not correct.
    pub(crate) fn ecc_notes(&self, found: &ImageLocation) -> Vec<String> {
        self.corrected.as_ref().map(|corrected| corrected.notes(found)).unwrap_or_default()
    }

    /// Missing and inserted bytes of an image, as losses.
    pub(crate) fn shift_losses(&self, found: &ImageLocation) -> impl Iterator<Item = Loss> {
        let shifts = self.shifts(found).into_iter();
        shifts.map(|(at, what)| Loss::new(&[], format!("at byte {at} ({at:#x}) {what}")))
    }

    /// Reserves disk space on the host for an image that grows up to the offset `end`, if changes are written to the
    /// file immediately.
    pub(crate) fn reserve(&self, end: u64) -> Result<(), ImageError> {
        self.room.as_ref().map_or(Ok(()), |room| room.reserve(end))
    }

    /// Refuses to change an image with pages that the ECC could not correct.
    pub(crate) fn require_pages(&self, found: &ImageLocation) -> Result<(), ImageError> {
        let Some(corrected) = &self.corrected else { return Ok(()) };
        if !corrected.has_code(found) {
            return Err(ImageError::OobReadOnly);
        }
        corrected.notes(found).into_iter().next().map_or(Ok(()), |note| Err(ImageError::OobDamaged(note)))
    }
}

/// Position of the bytes of an image in the file.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    offset: u64,
    splices: Splices,
    /// Places of the corrected pages, for a dump with OOB.
    corrected: Option<Corrected>,
}

impl Origin {
    /// Position of an image in a file that is changed by `splices` and, for a dump with OOB, by `corrected`.
    pub(crate) fn new(found: &ImageLocation, splices: Splices, corrected: Option<Corrected>) -> Self {
        Self { offset: found.offset, splices, corrected }
    }

    /// The byte of the file that is this byte of the image.
    pub(crate) fn file_byte(&self, byte: u64) -> u64 {
        let at = self.splices.file_byte(self.offset + byte);
        self.corrected.as_ref().map_or(at, |corrected| corrected.file_byte(at))
    }
}
