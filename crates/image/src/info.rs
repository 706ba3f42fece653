//! Contents of an image, and the commands that create a similar one.

use std::fmt;

use serde::Serialize;

pub use super::format::info::OneImage;
pub use super::format::jffs2::info::Jffs2Info;
use super::format::location::ImageLocation;
pub use super::format::ubi::info::{OneVolume, UbiInfo};
pub use super::format::ubifs::info::{AuthenticationInfo, UbifsInfo, compression_name};
use super::pages::PageShape;
use super::{CorrectedRegion, RegionOutcome};
use crate::ImageError;
use crate::help::commands::{check_command, strip_command};
use crate::image::Image;
use crate::oob::Corrected;
use crate::selection::{Chosen, Selection};
use crate::words::count;

/// Note about the parts of an image that a description does not include.
const NOT_READ: &str = "names and data of files were not read: `floatgate image check` reads them";

/// Contents of a file: images, volumes and filesystems.
#[derive(Clone, Debug, Serialize)]
pub struct ImageInfo {
    /// Each image.
    pub images: Vec<OneImage>,
    /// Results of the ECC, for a dump with OOB.
    pub ecc: Option<Corrected>,
    /// True if every byte is FFh: erased flash.
    pub erased: bool,
    /// True if no ECC code explains the OOB of an image's pages, so that wrong bits were not corrected.
    pub is_uncorrected: bool,
}

impl ImageInfo {
    /// Summary of a file in which every byte is FFh.
    #[must_use]
    pub const fn erased() -> Self {
        Self { images: Vec::new(), ecc: None, erased: true, is_uncorrected: false }
    }
}

/// Describes all contents of a file.
///
/// # Errors
/// The file cannot be read. Damage is part of the report.
pub fn info(image: &Image) -> Result<ImageInfo, ImageError> {
    selected_info(image, &Selection::default())
}

/// Describes the selected image and volume, or all contents without a selection. Filesystems with authentication are
/// completely read and verified.
///
/// # Errors
/// The file cannot be read, or the selection does not exist. Data that is not authentic is part of the report.
pub fn selected_info(image: &Image, selection: &Selection) -> Result<ImageInfo, ImageError> {
    let found = match selection.offset {
        Some(_) => vec![image.choose(selection)?],
        None => image.found.clone(),
    };
    let ecc = image.corrected.clone();
    let describe = |one| describe(image, one, selection);
    let mut images = found.iter().map(describe).collect::<Result<Vec<_>, _>>()?;
    if let Some(wanted) = &selection.volume {
        keep_volume(&mut images, wanted)?;
    }
    let is_uncorrected = image.has_unknown_code(selection);
    Ok(ImageInfo { images, ecc, erased: false, is_uncorrected })
}

/// Removes all volumes except those with this name or number, and all images without such a volume.
fn keep_volume(images: &mut Vec<OneImage>, wanted: &str) -> Result<(), ImageError> {
    let mut names = Vec::new();
    images.retain_mut(|image| image.keep_volume(wanted, &mut names));
    if images.is_empty() { Err(ImageError::NoVolume { wanted: wanted.to_owned(), names }) } else { Ok(()) }
}

/// Description of one image.
fn describe(image: &Image, found: &ImageLocation, wanted: &Selection) -> Result<OneImage, ImageError> {
    let mut one = OneImage::new(image.file_byte(found.offset), image.own_bytes(found));
    found.format().info(Chosen { image, found, selection: wanted }, &mut one)?;
    Ok(one)
}

impl fmt::Display for ImageInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.erased {
            writeln!(f, "erased flash: every byte is FFh; Linux mounts it as an empty JFFS2")?;
        }
        if let Some(ecc) = &self.ecc {
            show_ecc(f, ecc)?;
        }
        // These lines are first, because users copy the end (a recipe) to a file.
        if !self.images.is_empty() {
            writeln!(f, "{NOT_READ}")?;
        }
        self.images.iter().try_for_each(|image| image.fmt(f))
    }
}

fn show_ecc(f: &mut fmt::Formatter<'_>, ecc: &Corrected) -> fmt::Result {
    let PageShape { page_bytes, oob_bytes, pages_per_block } = ecc.pages;
    writeln!(f, "NAND dump: pages of {page_bytes} + {oob_bytes} bytes, {pages_per_block} a block")?;
    let is_one = ecc.regions.len() == 1;
    for region in &ecc.regions {
        let CorrectedRegion { offset, len, outcome, .. } = region;
        let place =
            if is_one { String::new() } else { format!("byte {offset} ({offset:#x}), {len} bytes: ") };
        writeln!(f, "  {place}{}", outcome_text(outcome))?;
    }
    // An image that begins within a page follows bytes of a controller.
    let is_shifted = !ecc.offset.is_multiple_of(u64::from(ecc.pages.stride()));
    if is_shifted || ecc.regions.iter().any(|region| region.interleaves) {
        // Without the layout, the ECC bytes would remain in the data.
        writeln!(
            f,
            "  other bytes are before or between the data; to show the layout, which `floatgate ecc decode` needs:"
        )?;
        writeln!(f, "    {}", check_command(&ecc.pages))?;
    } else {
        writeln!(f, "  to take the OOB out without correcting anything:")?;
        writeln!(f, "    {}", strip_command(&ecc.pages))?;
    }
    // In a dump with bad blocks, data after a bad block would be written one block too late.
    if ecc.bad_blocks.is_empty() {
        writeln!(f, "  to write it as it is, ECC bytes included, onto erased flash:")?;
        writeln!(f, "    nandwrite -n -o /dev/mtd0 DUMP")?;
    }
    Ok(())
}

fn outcome_text(outcome: &RegionOutcome) -> String {
    match outcome {
        RegionOutcome::Code(report) => format!(
            "ECC {} in layout {}: {} corrected, {} uncorrectable",
            report.scheme.code,
            report.scheme.layout,
            count(report.corrected_bits, "bit"),
            count(report.steps.uncorrectable, "step")
        ),
        RegionOutcome::None => "the OOB holds no ECC: the pages are as they were read".to_owned(),
        RegionOutcome::Unknown => "no ECC code fits: the pages are as they were read".to_owned(),
    }
}
