//! Demands of Linux on the flash of a UBI image.

use floatgate_stack::ubifs::Severity;

use super::shape::UbiShape;
use crate::fit::{NOT_ATTACHED, TargetFlash, of_flash};
use crate::report::{Finding, Layer, Structure};

/// Findings on the flash of an image that it cannot hold, that is there, whose volumes have `lebs` LEBs together.
pub(crate) fn of_image(own: &UbiShape, len: u64, lebs: u64, flash: &TargetFlash) -> Vec<Finding> {
    let wanted = &flash.ubi;
    let pairs = [
        ("PEBs of {} bytes", own.peb_bytes, wanted.flash().peb_bytes, NOT_ATTACHED),
        (
            "VID headers at byte {} of a PEB",
            own.vid_header_offset,
            wanted.vid_header_offset(),
            "Linux does not attach the device, unless it is told the place: `ubiattach -O`",
        ),
        ("data at byte {} of a PEB", own.data_offset, wanted.data_offset(), NOT_ATTACHED),
    ];
    if let Some((words, own, wanted, consequence)) =
        pairs.into_iter().find(|(_, own, wanted, _)| own != wanted)
    {
        let of = |value: u32| words.replace("{}", &value.to_string());
        let what = format!("the image has {}, the flash {}", of(own), of(wanted));
        return vec![Finding::new(Layer::Ubi, Severity::Damaged, Structure::Device, what, consequence)];
    }
    let pebs = len.div_ceil(u64::from(own.peb_bytes.max(1)));
    of_flash(lebs, pebs, &flash.shape)
}
