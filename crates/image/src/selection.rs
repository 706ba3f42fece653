//! Selection of one of several images and volumes.

use floatgate_stack::ubifs::Authenticate;

use crate::format::location::ImageLocation;
use crate::format::ubi::fit::TargetFlash;
use crate::image::Image;
use crate::pages::{FlashSizes, PageSizes};

/// Selection of one of several images and volumes, of the verification of its filesystem, and of its flash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Offset of the image in the file, bytes.
    pub offset: Option<u64>,
    /// Name or number of a volume.
    pub volume: Option<String>,
    /// Verification of a filesystem with authentication.
    pub authenticate: Authenticate,
    /// Size of a PEB or eraseblock of the flash in bytes, which not every JFFS2 implies.
    pub peb_bytes: Option<u32>,
    /// Flash for which `check` and `info` check the image.
    pub flash: Option<TargetFlash>,
    /// Pages of a dump with OOB.
    pub pages: PageSizes,
}

impl From<&Selection> for FlashSizes {
    fn from(selection: &Selection) -> Self {
        Self { peb_bytes: selection.peb_bytes, pages: selection.pages }
    }
}

/// A selected image of a file, and the selection within it.
#[derive(Clone, Copy)]
pub(crate) struct Chosen<'c> {
    /// The file with its images.
    pub(crate) image: &'c Image,
    /// The selected image.
    pub(crate) found: &'c ImageLocation,
    /// Volume, authentication and flash.
    pub(crate) selection: &'c Selection,
}

impl<'c> Chosen<'c> {
    /// The same image with another selection.
    pub(crate) const fn with(self, selection: &'c Selection) -> Self {
        Self { selection, ..self }
    }
}
