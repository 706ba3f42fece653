//! Choice of one of several images and volumes.

use floatgate_stack::ubifs::Authenticate;

use crate::format::location::ImageLocation;
use crate::format::ubi::fit::TargetFlash;
use crate::image::Image;
use crate::pages::{FlashSizes, PageSizes};

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
    /// The flash that the image is to fit; `check` and `info` say whether it does.
    pub flash: Option<TargetFlash>,
    /// Pages of a dump with OOB.
    pub pages: PageSizes,
}

impl From<&Selection> for FlashSizes {
    fn from(selection: &Selection) -> Self {
        Self { peb_bytes: selection.peb_bytes, pages: selection.pages }
    }
}

/// An image of a file that was chosen, and what is meant in it.
#[derive(Clone, Copy)]
pub(crate) struct Chosen<'c> {
    /// File with its images.
    pub(crate) image: &'c Image,
    /// The image in it.
    pub(crate) found: &'c ImageLocation,
    /// Volume, authentication and flash.
    pub(crate) selection: &'c Selection,
}

impl<'c> Chosen<'c> {
    /// The same with something else in it.
    pub(crate) const fn with(self, selection: &'c Selection) -> Self {
        Self { selection, ..self }
    }
}
