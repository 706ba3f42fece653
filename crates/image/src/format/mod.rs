//! Formats of images. Each format has a folder; [`location::Content`] lists them, and [`detect`] searches for them.
//!
//! A format uses the layers below it: an open image, reports, pages, errors. The code that opens, checks, repairs,
//! extracts and describes images is above the formats, and uses only [`Format`]. Code for any filesystem uses
//! `stack::fs`, and is also above.

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

/// Operations on an image of one format. The shapes in [`Content`] implement them.
///
/// Methods with a default apply only to some formats: those with volumes, with clean markers in the OOB, or with a
/// recovery.
pub(crate) trait Format {
    /// Name of the format, for a list of images.
    fn kind(&self) -> &'static str;

    /// Method by which the image is written to flash.
    fn write_back(&self) -> WriteBack;

    /// Layer of findings about the pages of a dump with OOB.
    fn layer(&self) -> Layer {
        Layer::Ubi
    }

    /// True if the eraseblocks show that no OOB is between the pages of the `len` bytes.
    fn has_plain_blocks(&self, _len: u64) -> bool {
        false
    }

    /// Clean marker that Linux writes to the OOB of an erased eraseblock.
    fn clean_marker(&self) -> Option<[u8; CLEAN_MARKER_BYTES]> {
        None
    }

    /// True if only nodes show the start and the end of an image, so that a repair can change the number of images in
    /// a file.
    fn is_told_by_nodes(&self) -> bool {
        false
    }

    /// Mounts the filesystem, for writing if the image was opened for writing.
    ///
    /// # Errors
    /// Damage, no filesystem, or a filesystem that needs recovery, unless `recover` allows it or the mount is
    /// read-only.
    fn mount(&self, chosen: Chosen<'_>, recover: bool, behaviour: Behaviour) -> Result<ImageFs, ImageError>;

    /// Losses that no checksum shows when the files of the selected filesystem are read.
    ///
    /// # Errors
    /// The file cannot be read, or there are several volumes and none is selected.
    fn unverified_losses(&self, _chosen: Chosen<'_>) -> Result<Vec<Loss>, ImageError> {
        Ok(Vec::new())
    }

    /// Smallest and largest size to which the filesystem can grow; `None` if other data follows it.
    ///
    /// # Errors
    /// No filesystem, or the file cannot be read.
    fn growth(&self, chosen: Chosen<'_>, recover: bool) -> Result<Option<Growth>, ImageError>;

    /// Filesystem before a recovery that removes files.
    ///
    /// # Errors
    /// The file cannot be read.
    fn before_recovery(&self, _image: &Image, _found: &ImageLocation) -> Result<Option<ImageFs>, ImageError> {
        Ok(None)
    }

    /// True if writes can go to the file in their order, because the format recovers from every power cut.
    fn is_changed_in_place(&self) -> bool {
        false
    }

    /// Largest possible end of the file after these changes.
    ///
    /// # Errors
    /// The file cannot be read.
    fn end_of_change(&self, _found: &ImageLocation, _pending: &FilePending) -> Result<u64, ImageError> {
        Ok(u64::MAX)
    }

    /// Completes a change of an unmounted image before it is written.
    ///
    /// # Errors
    /// The image is no longer usable, or the file cannot be read.
    fn end_change(
        &self,
        _image: &Image,
        _found: &ImageLocation,
        _pending: &FilePending,
    ) -> Result<(), ImageError> {
        Ok(())
    }

    /// Describes the image.
    ///
    /// # Errors
    /// The file cannot be read. Damage is part of the description.
    fn info(&self, chosen: Chosen<'_>, one: &mut OneImage) -> Result<(), ImageError>;

    /// Adds the findings about the image to a report.
    ///
    /// # Errors
    /// The file cannot be read, or the selected volume does not exist.
    fn check(&self, chosen: Chosen<'_>, report: &mut CheckReport) -> Result<(), ImageError>;

    /// Recovers a copy of the image in the output by mounting it, as Linux does.
    ///
    /// # Errors
    /// The image cannot be recovered in this way, or a failure of the files.
    fn recover(&self, _image: &Image, _found: &ImageLocation, _output: &Output) -> Result<(), ImageError> {
        Err(ImageError::Nothing)
    }

    /// Repairs a copy of the damaged image in the output, and lists the losses.
    ///
    /// # Errors
    /// No space, or a failure of the files.
    fn repair(
        &self,
        image: &Image,
        found: &ImageLocation,
        output: &Output,
        saved: &mut Saved,
    ) -> Result<Method, ImageError>;

    /// Losses outside the filesystems of the image.
    ///
    /// # Errors
    /// The file cannot be read.
    fn losses(&self, _image: &Image, _found: &ImageLocation) -> Result<Vec<Loss>, ImageError> {
        Ok(Vec::new())
    }

    /// Prepares an extraction of the image.
    ///
    /// # Errors
    /// No part of the image is readable, or the host reports an error.
    fn extraction(&self, chosen: Chosen<'_>) -> Result<Box<dyn Extracting>, ImageError>;

    /// Prepares an extraction of the image in its state at an earlier point in time.
    ///
    /// # Errors
    /// The errors of [`extraction`](Self::extraction), and a point in time of another format.
    fn extraction_at(&self, chosen: Chosen<'_>, at: At) -> Result<Box<dyn Extracting>, ImageError>;

    /// Lists all remaining nodes of files.
    ///
    /// # Errors
    /// No filesystem, or the file cannot be read.
    fn history(&self, chosen: Chosen<'_>) -> Result<Vec<Revision>, ImageError>;

    /// Nodes or headers, field by field.
    ///
    /// # Errors
    /// They do not exist, or the file cannot be read.
    fn dump(&self, chosen: Chosen<'_>, wanted: &DumpTarget) -> Result<Vec<Dumped>, ImageError>;

    /// Refuses an offset at which no structure begins, if the format has a structure at known offsets only.
    ///
    /// # Errors
    /// No structure begins there.
    fn require_node(&self, _at: u64) -> Result<(), ImageError> {
        Ok(())
    }

    /// The selected volume, as LEBs.
    ///
    /// # Errors
    /// The format has no LEBs, several volumes exist and none is selected, the image is damaged, or the file cannot
    /// be read.
    fn volume(&self, chosen: Chosen<'_>) -> Result<Box<dyn Volume>, ImageError>;

    /// Names of the volumes that are not selected.
    ///
    /// # Errors
    /// Several volumes exist and none is selected, or the image is damaged.
    fn other_volumes(&self, _chosen: Chosen<'_>) -> Result<Vec<String>, ImageError> {
        Ok(Vec::new())
    }

    /// Writes the bytes of the selected volume, or without volumes those of the whole image.
    ///
    /// # Errors
    /// Several volumes exist and none is selected, the image is damaged, or the host reports an error.
    fn read_raw(&self, chosen: Chosen<'_>, out: &mut dyn Write) -> Result<RawVolume, ImageError> {
        let Chosen { image, found, .. } = chosen;
        let bytes = copy(&*image.store()?, found, out)?;
        Ok(RawVolume { bytes, notes: image.ecc_notes(found), ..RawVolume::default() })
    }
}

impl ImageLocation {
    /// Format of the content.
    pub(crate) fn format(&self) -> &dyn Format {
        match &self.content {
            Content::Ubi(shape) => shape,
            Content::Ubifs(shape) => shape,
            Content::Jffs2(shape) => shape,
            Content::Tree(shape) => shape,
        }
    }
}

/// Header or node that begins with these bytes, if it is recognised.
pub(crate) fn structure(bytes: &[u8]) -> Option<Dumped> {
    ubi::dump::of_header(bytes).or_else(|| jffs2::dump::of_node(bytes))
}

/// UBIFS node that begins with these bytes, with its damage if it is not valid.
pub(crate) fn any_node(bytes: &[u8]) -> Dumped {
    ubifs::dump::of_node(bytes)
}
