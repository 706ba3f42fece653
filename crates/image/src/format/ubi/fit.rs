//! Checks that Linux makes on a UBI image before it reads data: whether the flash holds the volumes, and whether the
//! volumes hold their filesystems. `check` and `info` report the findings of an image; `build` and `ubinize` refuse
//! or warn before they write an image.

use std::fmt;

use floatgate_media::ubi::{self, VolumeFlags};
use floatgate_media::ubifs::{Frame, Node, Superblock};
use floatgate_stack::VolumeGeometry;
use floatgate_stack::ubi::PebBudget;
use floatgate_stack::ubifs::{self, Severity, check_units, least_lebs};

use super::shape::UbiShape;
use crate::build::error::BuildError;
use crate::build::shape::{FlashShape, FlashSize};
use crate::report::{Finding, Layer, Outcome, Structure};
use crate::words::count;

const NOT_ATTACHED: &str = "Linux does not attach the device: no volume can be used";

/// Flash for which an image is checked: a partition of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetFlash {
    pub(crate) shape: FlashShape,
    ubi: ubi::Geometry,
}

impl TargetFlash {
    /// Flash of this shape.
    ///
    /// # Errors
    /// No UBI device has these sizes.
    pub fn new(shape: FlashShape) -> Result<Self, BuildError> {
        Ok(Self { shape, ubi: shape.ubi()? })
    }

    /// Number of LEBs of a volume after it grows, if all volumes have `lebs` LEBs and this volume has `own` of them.
    fn grown(&self, own: u32, lebs: u64) -> Option<u32> {
        let free = u64::from(self.shape.budget()?.available_lebs()).saturating_sub(lebs);
        Some(own.saturating_add(u32::try_from(free).unwrap_or(u32::MAX)))
    }
}

/// Properties of a UBI volume that affect its filesystem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Number and size of its LEBs.
    pub geometry: VolumeGeometry,
    /// True if the volume grows to all free space when it is first attached.
    pub grows: bool,
    /// Number of LEBs after the volume grows; `None` if the flash is unknown.
    pub grown: Option<u32>,
}

impl Room {
    /// Properties of a volume with these flags, on a device whose volumes have `lebs` LEBs in total.
    pub(crate) fn new(
        flags: VolumeFlags,
        geometry: VolumeGeometry,
        lebs: u64,
        flash: Option<&TargetFlash>,
    ) -> Self {
        let grows = flags.contains(VolumeFlags::AUTORESIZE);
        let grown = flash.filter(|_| grows).and_then(|flash| flash.grown(geometry.lebs, lebs));
        Self { geometry, grows, grown }
    }
}

/// Superblock at the start of a file or a volume, if it is undamaged.
pub(crate) fn superblock_in(head: &[u8]) -> Option<Superblock> {
    match Frame::parse(head).and_then(|frame| frame.node()) {
        Ok(Node::Superblock(superblock)) => Some(superblock),
        _ => None,
    }
}

/// Findings about properties of a volume with this filesystem that Linux does not accept, or cannot use.
pub(crate) fn of_volume(superblock: &Superblock, room: &Room) -> Vec<Finding> {
    let finding = |severity, what, consequence: &str| {
        let structure = ubifs::Structure::Superblock;
        let mut finding = Finding::new(
            Layer::of_ubifs(structure),
            severity,
            Structure::Ubifs(structure),
            what,
            consequence,
        );
        (finding.leb, finding.leb_offset) = (Some(0), Some(0));
        vec![finding]
    };
    const NOT_MOUNTED: &str = "Linux does not mount the filesystem";
    // Parameters that are impossible on every volume have their own finding.
    if superblock.grown(superblock.max_leb_count).check().is_err() {
        return Vec::new();
    }
    if let Err(error) = check_units(superblock, room.geometry) {
        return finding(Severity::Damaged, error.to_string(), NOT_MOUNTED);
    }
    let (lebs, needed) = (room.geometry.lebs, least_lebs(superblock));
    if lebs >= needed {
        return of_growth(superblock, room, &finding);
    }
    let verb = if superblock.leb_count >= needed { "has" } else { "needs" };
    let what = format!("the filesystem {verb} {}, the volume has {lebs}", count(needed.into(), "LEB"));
    if room.grows && room.grown.is_none_or(|grown| grown >= needed) {
        let consequence = "the volume grows when it is first attached: Linux mounts the filesystem only if the flash has that many LEBs";
        return finding(Severity::Note, what, consequence);
    }
    finding(Severity::Damaged, what, NOT_MOUNTED)
}

/// Finding about LEBs of the volume that the filesystem can never use.
fn of_growth(
    superblock: &Superblock,
    room: &Room,
    finding: &dyn Fn(Severity, String, &str) -> Vec<Finding>,
) -> Vec<Finding> {
    let (most, lebs) = (superblock.max_leb_count, room.geometry.lebs);
    let grown = room.grown.filter(|&grown| room.grows && grown > lebs);
    let largest = grown.unwrap_or(lebs);
    if most >= largest {
        return Vec::new();
    }
    let wasted = largest - most;
    let of = match grown {
        Some(grown) => format!("{wasted} of the {grown} LEBs to which the volume grows"),
        None => format!("{} of the volume", count(wasted.into(), "LEB")),
    };
    let what = format!("{of} can never be used by this UBIFS, which grows to {}", count(most.into(), "LEB"));
    let consequence = format!(
        "mkfs.ubifs -c {largest} or more, or more LEBs for `image build`, makes one that can use all"
    );
    finding(Severity::Note, what, &consequence)
}

/// Findings about a flash that cannot hold the volumes, which have `lebs` LEBs in total, in an image of `pebs` PEBs.
pub(crate) fn of_flash(lebs: u64, pebs: u64, flash: &FlashShape) -> Vec<Finding> {
    let (Some(budget), Some(size)) = (flash.budget(), flash.size) else { return Vec::new() };
    let finding = |severity, what, consequence: String| {
        Finding::new(Layer::Ubi, severity, Structure::Device, what, consequence)
    };
    let mut findings: Vec<Finding> = of_lebs(lebs, &budget, &size)
        .map(|(severity, what, consequence)| finding(severity, what, consequence))
        .into_iter()
        .collect();
    if pebs > u64::from(budget.pebs) {
        let what = format!("the image has {}, the flash {}", count(pebs, "PEB"), budget.pebs);
        findings.push(finding(
            Severity::Damaged,
            what,
            "it cannot be written to the flash as a whole".to_owned(),
        ));
    }
    findings
}

fn of_lebs(lebs: u64, budget: &PebBudget, size: &FlashSize) -> Option<(Severity, String, String)> {
    let PebBudget { pebs, own, bad_reserve } = *budget;
    let has = |bad| u64::from(budget.most_lebs(bad));
    let of_chip =
        if size.chip_pebs > pebs { format!(" of a chip with {}", size.chip_pebs) } else { String::new() };
    let what = format!(
        "the volumes have {} together, and the flash has room for {}: {}{of_chip}, less {own} of UBI and {bad_reserve} for bad blocks",
        count(lebs, "LEB"),
        has(bad_reserve),
        count(pebs.into(), "PEB"),
    );
    if lebs > has(0) {
        return Some((Severity::Damaged, what, NOT_ATTACHED.to_owned()));
    }
    let left = has(0) - lebs;
    if lebs > has(bad_reserve) {
        let consequence = format!(
            "Linux warns that it cannot reserve enough PEBs for bad PEB handling, and does not attach the device where more than {} are bad",
            count(left, "block")
        );
        return Some((Severity::Note, what, consequence));
    }
    let worst = size.worst_bad.min(pebs);
    (lebs > has(worst)).then(|| {
        let what = format!(
            "up to {worst} blocks of the chip may be bad, and the volumes leave {} for them",
            count(left, "PEB")
        );
        let consequence = format!(
            "where more than {} of this partition are bad, Linux does not attach the device",
            count(left, "block")
        );
        (Severity::Note, what, consequence)
    })
}

/// Findings about a flash that cannot hold an existing image, whose volumes have `lebs` LEBs in total.
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

/// Findings about a filesystem without UBI that does not fit a volume on the flash.
pub(crate) fn of_bare(superblock: &Superblock, flash: &TargetFlash) -> Vec<Finding> {
    let Some(budget) = flash.shape.budget() else { return Vec::new() };
    let geometry = flash.shape.volume(&flash.ubi, budget.available_lebs());
    let findings = of_volume(superblock, &Room { geometry, grows: false, grown: None });
    // Other volumes may share the flash, so unused LEBs are no fault.
    findings.into_iter().filter(|finding| finding.severity == Outcome::Damaged).collect()
}

/// Prints findings as lines of text.
pub(crate) fn show(f: &mut fmt::Formatter<'_>, indent: &str, findings: &[Finding]) -> fmt::Result {
    findings.iter().try_for_each(|finding| writeln!(f, "{indent}{}: {}", finding.what, finding.consequence))
}
