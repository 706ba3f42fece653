//! Formats of images. Each has a folder; [`location::Content`] lists them, and [`detect`] looks for them.
//!
//! A format imports what lies below it (an open image, reports, pages, errors). What opens, checks, repairs, extracts and describes images
//! stands above, and sees [`Format`] only. Code that works for any filesystem is written against `stack::fs` and stands there, too.

pub(crate) mod detect;
pub(crate) mod info;
pub(crate) mod jffs2;
pub(crate) mod location;
pub(crate) mod magic;
mod mapped;
pub(crate) mod tree;
pub(crate) mod ubi;
pub(crate) mod ubifs;
pub(crate) mod volume;

use std::io::Write;

use floatgate_stack::Volume;
use floatgate_stack::ubifs::Behaviour;

use self::info::OneImage;
use self::location::{Content, ImageLocation};
use crate::ImageError;
use crate::extract::target::Extracting;
use crate::image::{FilePending, Growth, Image, ImageFs};
use crate::oob_store::CLEAN_MARKER_BYTES;
use crate::report::{At, CheckReport, DumpTarget, Dumped, Layer, Loss, RawVolume, Revision, copy};
use crate::saved::{Method, Saved};
use crate::selection::Chosen;
use crate::write_back::WriteBack;
use floatgate_host::output::Output;

/// Operations on an image of one format. The shape that [`Content`] holds implements them.
///
/// Methods with a default matter to some formats only: those with volumes, with clean markers in the OOB, or that are recovered.
pub(crate) trait Format {
    /// Name of the format, for a list of images.
    fn kind(&self) -> &'static str;

    /// The way in which it is written to flash.
    fn write_back(&self) -> WriteBack;

    /// Layer of findings about the pages of a dump with OOB.
    fn layer(&self) -> Layer {
        Layer::Ubi
    }

    /// True when its eraseblocks show that no OOB is between the pages of its `len` bytes.
    fn has_plain_blocks(&self, _len: u64) -> bool {
        false
    }

    /// Clean marker that Linux writes into the OOB of an eraseblock that it has erased.
    fn clean_marker(&self) -> Option<[u8; CLEAN_MARKER_BYTES]> {
        None
    }

    /// True when only nodes tell where it begins and ends, so that a repair can change how many images a file seems to have.
    fn is_told_by_nodes(&self) -> bool {
        false
    }

    /// Mounts its filesystem, to be written if the image was opened for that.
    ///
    /// # Errors
    /// Damage, or no filesystem; one that needs recovery, unless `recover` allows it or nothing is to be written.
    fn mount(&self, chosen: Chosen<'_>, recover: bool, behaviour: Behaviour) -> Result<ImageFs, ImageError>;

    /// Losses that no checksum shows when the files of the filesystem that is meant are read.
    ///
    /// # Errors
    /// The file cannot be read; several volumes and none chosen.
    fn unverified_losses(&self, _chosen: Chosen<'_>) -> Result<Vec<Loss>, ImageError> {
        Ok(Vec::new())
    }

    /// Sizes between which it can grow; `None` if something else follows it.
    ///
    /// # Errors
    /// No filesystem; the file cannot be read.
    fn growth(&self, chosen: Chosen<'_>, recover: bool) -> Result<Option<Growth>, ImageError>;

    /// The filesystem as it is read before a recovery that gives files up.
    ///
    /// # Errors
    /// The file cannot be read.
    fn before_recovery(&self, _image: &Image, _found: &ImageLocation) -> Result<Option<ImageFs>, ImageError> {
        Ok(None)
    }

    /// True when its writes can go to the file in their order, as a power cut leaves nothing that it does not recover from.
    fn is_changed_in_place(&self) -> bool {
        false
    }

    /// Byte where the file ends with these changes at most.
    ///
    /// # Errors
    /// The file cannot be read.
    fn end_of_change(&self, _found: &ImageLocation, _pending: &FilePending) -> Result<u64, ImageError> {
        Ok(u64::MAX)
    }

    /// Completes a change of an image that is unmounted again, before it is written.
    ///
    /// # Errors
    /// It cannot be used any more; the file cannot be read.
    fn end_change(
        &self,
        _image: &Image,
        _found: &ImageLocation,
        _pending: &FilePending,
    ) -> Result<(), ImageError> {
        Ok(())
    }

    /// Describes it.
    ///
    /// # Errors
    /// The file cannot be read. Damage is part of the description.
    fn info(&self, chosen: Chosen<'_>, one: &mut OneImage) -> Result<(), ImageError>;

    /// Adds what is wrong with it to a report.
    ///
    /// # Errors
    /// The file cannot be read; a volume that is chosen is not there.
    fn check(&self, chosen: Chosen<'_>, report: &mut CheckReport) -> Result<(), ImageError>;

    /// Recovers a copy of the image in the output as Linux would, by mounting it.
    ///
    /// # Errors
    /// It cannot be recovered in that way; failures of the files.
    fn recover(&self, _image: &Image, _found: &ImageLocation, _output: &Output) -> Result<(), ImageError> {
        Err(ImageError::Nothing)
    }

    /// Makes a copy of the damaged image in the output clean, and lists what is lost.
    ///
    /// # Errors
    /// No room, failures of the files.
    fn repair(
        &self,
        image: &Image,
        found: &ImageLocation,
        output: &Output,
        saved: &mut Saved,
    ) -> Result<Method, ImageError>;

    /// Losses beside those of its filesystems.
    ///
    /// # Errors
    /// The file cannot be read.
    fn losses(&self, _image: &Image, _found: &ImageLocation) -> Result<Vec<Loss>, ImageError> {
        Ok(Vec::new())
    }

    /// Finds what an extraction takes out of it.
    ///
    /// # Errors
    /// Nothing is left of it; the host's.
    fn extraction(&self, chosen: Chosen<'_>) -> Result<Box<dyn Extracting>, ImageError>;

    /// As [`extraction`](Self::extraction), as it was at an earlier moment.
    ///
    /// # Errors
    /// As [`extraction`](Self::extraction); a moment of another format.
    fn extraction_at(&self, chosen: Chosen<'_>, at: At) -> Result<Box<dyn Extracting>, ImageError>;

    /// Lists all nodes of files that are still there.
    ///
    /// # Errors
    /// No filesystem; the file cannot be read.
    fn history(&self, chosen: Chosen<'_>) -> Result<Vec<Revision>, ImageError>;

    /// Nodes or headers, field by field.
    ///
    /// # Errors
    /// They are not there; the file cannot be read.
    fn dump(&self, chosen: Chosen<'_>, wanted: &DumpTarget) -> Result<Vec<Dumped>, ImageError>;

    /// Refuses a byte where no structure begins, if it is known that one has to.
    ///
    /// # Errors
    /// It is known.
    fn require_node(&self, _at: u64) -> Result<(), ImageError> {
        Ok(())
    }

    /// The volume that is meant, as LEBs.
    ///
    /// # Errors
    /// It has no LEBs; several volumes and none chosen; damage; the file cannot be read.
    fn volume(&self, chosen: Chosen<'_>) -> Result<Box<dyn Volume>, ImageError>;

    /// Names of the volumes beside the one that is meant.
    ///
    /// # Errors
    /// Several volumes and none chosen; damage.
    fn other_volumes(&self, _chosen: Chosen<'_>) -> Result<Vec<String>, ImageError> {
        Ok(Vec::new())
    }

    /// Writes the bytes of the volume that is meant, without volumes all of the image.
    ///
    /// # Errors
    /// Several volumes and none chosen; damage; the host's.
    fn read_raw(&self, chosen: Chosen<'_>, out: &mut dyn Write) -> Result<RawVolume, ImageError> {
        let Chosen { image, found, .. } = chosen;
        let bytes = copy(&*image.store()?, found, out)?;
        Ok(RawVolume { bytes, notes: image.ecc_notes(found), ..RawVolume::default() })
    }
}

impl ImageLocation {
    /// The format of the content.
    pub(crate) fn format(&self) -> &dyn Format {
        match &self.content {
            Content::Ubi(shape) => shape,
            Content::Ubifs(shape) => shape,
            Content::Jffs2(shape) => shape,
            Content::Tree(shape) => shape,
        }
    }
}

/// The header or node that begins with these bytes, if that can be told.
pub(crate) fn structure(bytes: &[u8]) -> Option<Dumped> {
    ubi::dump::of_header(bytes).or_else(|| jffs2::dump::of_node(bytes))
}

/// A node of UBIFS that begins with these bytes, with its damage if it is not valid.
pub(crate) fn any_node(bytes: &[u8]) -> Dumped {
    ubifs::dump::of_node(bytes)
}
