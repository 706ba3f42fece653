//! Requirements of the flash for a JFFS2.

use floatgate_stack::ubifs::Severity;

use super::shape::Jffs2Shape;
use crate::build::shape::FlashSize;
use crate::format::ubi::fit::TargetFlash;
use crate::report::{Finding, Layer, Structure};
use crate::words::count;

/// Findings about a JFFS2 of `len` bytes that does not fit the flash.
pub(crate) fn of_image(own: &Jffs2Shape, len: u64, flash: &TargetFlash) -> Vec<Finding> {
    let finding = |severity, what, consequence: &str| {
        vec![Finding::new(Layer::Jffs2, severity, Structure::Image, what, consequence)]
    };
    let erase = flash.shape.peb_bytes;
    if own.erase_bytes != erase && !own.erase_is_guess {
        let what = format!("the image has eraseblocks of {} bytes, the flash of {erase}", own.erase_bytes);
        return finding(Severity::Damaged, what, "Linux drops nodes that cross the end of an eraseblock");
    }
    of_len(len, flash)
}

/// Findings about a JFFS2 of `len` bytes that is too large for the flash, or too large with its largest number of bad
/// blocks.
pub(crate) fn of_len(len: u64, flash: &TargetFlash) -> Vec<Finding> {
    let finding = |severity, what, consequence: &str| {
        vec![Finding::new(Layer::Jffs2, severity, Structure::Image, what, consequence)]
    };
    let erase = flash.shape.peb_bytes;
    let Some(FlashSize { pebs, worst_bad, .. }) = flash.shape.size else { return Vec::new() };
    let (blocks, has) = (len.div_ceil(u64::from(erase.max(1))), count(pebs.into(), "eraseblock"));
    let what = format!("the image has {}, the flash {has}", count(blocks, "eraseblock"));
    if blocks > u64::from(pebs) {
        return finding(Severity::Damaged, what, "it cannot be written to the flash as a whole");
    }
    let spare = u64::from(pebs) - blocks;
    if spare >= u64::from(worst_bad.min(pebs)) {
        return Vec::new();
    }
    let what = format!("{what}, of which up to {} may be bad", worst_bad.min(pebs));
    let consequence = format!("where more than {} are bad, the image does not fit", count(spare, "block"));
    finding(Severity::Note, what, &consequence)
}
