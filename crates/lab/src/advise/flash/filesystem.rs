//! Advice on the filesystem for a partition, and the commands that create it.

use super::super::{Point, size};
use super::{Board, Candidate, SECTORS, Scope};
use crate::Error;
use crate::fs_compare::{self, FREE, FsComparison, Options, Refused, Subject, Test};
use floatgate_config::{Config, Library};
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, CommandOption};
use floatgate_mtd::{FlashKind, Geometry};
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::rig::RigOptions;
use floatgate_stack::ubi::PebBudget;

/// Size of the file in comparisons, bytes, and number of eraseblocks of the smallest compared partition.
pub(super) const FILE_BYTES: u64 = 1 << 20;
pub(super) const BLOCKS_MIN: u64 = 16;
/// Maximum size of a partition that is simulated for the comparison, in bytes, and minimum number of its eraseblocks, in which a UBIFS has
/// enough space. Mount times of larger partitions are extrapolated in proportion.
const COMPARED_MAX: u64 = 32 << 20;
const COMPARED_BLOCKS_MIN: u64 = 64;

/// Sizes of compared partitions, in bytes: a sixteenth, a quarter and all of the partition, or of the maximum that is simulated.
pub(super) fn compared_sizes(geometry: &Geometry) -> Vec<u64> {
    let erase = u64::from(geometry.erase_bytes);
    let most = geometry.size_bytes.min(COMPARED_MAX.max(COMPARED_BLOCKS_MIN * erase));
    let of = |part: u64| ((most / part / erase).max(BLOCKS_MIN) * erase).min(geometry.size_bytes);
    let mut sizes = [16, 4, 1].map(of).to_vec();
    sizes.dedup();
    sizes
}

pub(super) fn compare(
    library: &Library,
    board: &Board,
    geometry: &Geometry,
    scope: &Scope,
) -> Result<Vec<FsComparison>, Error> {
    let sizes = (scope.sizes)(geometry);
    let at = |bytes| board.on_partition(library, bytes);
    let mut compared =
        fs_compare::comparisons(library, &at, (RigOptions::default(), &scope.options), &sizes, &|_| ())?;
    if let Some(sample) = sizes.last().copied().filter(|sample| *sample < geometry.size_bytes) {
        compared.push(of_sample(library, board, (sample, geometry), &scope.options)?);
    }
    // JFFS2 is possible on the sample, but not on the whole flash that the row represents.
    if let (true, Some(whole)) = (geometry.size_bytes > JFFS2_BYTES_MAX, compared.last_mut()) {
        let why = format!("{} of flash, and JFFS2 has at most 4 GiB", size(geometry.size_bytes));
        whole.rows.retain(|row| row.subject != Subject::Jffs2);
        whole.refused.push(Refused { subject: Subject::Jffs2, test: Test::Space, why });
    }
    Ok(compared)
}

/// Comparison for a whole partition: times of a sample of `bytes`, and the free space on the whole partition.
fn of_sample(
    library: &Library,
    board: &Board,
    (bytes, geometry): (u64, &Geometry),
    options: &Options,
) -> Result<FsComparison, Error> {
    let of = |config: &Config, options: &Options| {
        fs_compare::compare(library, config, RigOptions::default(), options, &|_| ())
    };
    let sample = of(&board.on_sample(library, bytes, geometry)?, options)?;
    let space = Options { tests: vec![Test::Space], only: vec![FREE.to_owned()], ..options.clone() };
    Ok(sample.with_space_of(&of(&board.on_partition(library, geometry.size_bytes)?, &space)?))
}

/// Maximum size of a JFFS2, whose offsets have 32 bits, bytes.
const JFFS2_BYTES_MAX: u64 = 1 << 32;

/// Best filesystem of a comparison; `None` if none is possible.
pub(crate) fn kind(compared: &FsComparison) -> Option<FilesystemKind> {
    match compared.choice()?.subject? {
        Subject::Jffs2 => Some(FilesystemKind::Jffs2),
        _ => Some(FilesystemKind::Ubifs),
    }
}

pub(super) const fn name(kind: FilesystemKind) -> &'static str {
    match kind {
        FilesystemKind::Ubifs => "UBIFS",
        FilesystemKind::Jffs2 => "JFFS2",
    }
}

pub(super) fn filesystem_point(best: &Candidate, others: &[&Candidate], is_firmware: bool) -> Point {
    let Candidate { geometry, compared, .. } = best;
    let Some(largest) = compared.last() else { return Point::default() };
    let choice = largest.choice();
    let sentence =
        choice.as_ref().map_or("JFFS2 and UBIFS were not compared", |choice| choice.sentence.as_str());
    let mut point = match is_firmware {
        true => Point::new(
            "filesystem",
            format!(
                "this board runs firmware, which has neither UBIFS nor JFFS2: take a filesystem for microcontrollers, such as littlefs, with blocks of {}",
                size(geometry.erase_bytes.into())
            ),
        )
        .rests_on(format!("under Linux: {sentence}")),
        false => Point::new("filesystem", sentence),
    };
    if !others.is_empty() {
        point = point.rests_on(format!("eraseblocks of {}: {sentence}", size(geometry.erase_bytes.into())));
    }
    for other in others {
        let Some(largest) = other.compared.last() else { continue };
        let whole = other.geometry.size_bytes;
        let figures = [Subject::Jffs2, Subject::Ubifs].map(|subject| figures(largest, subject, whole));
        point = point.rests_on(format!(
            "eraseblocks of {}, {} of them: {}",
            size(other.geometry.erase_bytes.into()),
            size(whole),
            figures.join("; ")
        ));
    }
    for of_size in compared {
        let is_all = std::ptr::eq(of_size, largest);
        let bytes = if is_all { geometry.size_bytes } else { of_size.flash_bytes };
        let figures = [Subject::Jffs2, Subject::Ubifs].map(|subject| figures(of_size, subject, bytes));
        point = point.rests_on(format!("{}: {}", size(bytes), figures.join("; ")));
        let other = kind(of_size).filter(|kind| Some(*kind) != self::kind(largest));
        if let Some(other) = other {
            point = point.unless(format!(
                "the partition has {}: {} then",
                size(of_size.flash_bytes),
                name(other)
            ));
        }
    }
    for sentence in
        largest.advice.iter().filter(|sentence| Some(*sentence) != choice.as_ref().map(|c| &c.sentence))
    {
        point = point.rests_on(sentence.clone());
    }
    // The commands for UBIFS depend on it.
    if kind(largest) != Some(FilesystemKind::Ubifs) && geometry.kind != FlashKind::Nor {
        point = point.rests_on(format!("UBI would have {}", pebs_by_use(geometry)));
    }
    point.unless(advice! { "only the time to mount counts: ", Command::Fs.with(CommandOption::Test).with("mount"), " has the figures, fastmap included" })
}

/// Space for files on a partition of `bytes`, and time until the filesystem is ready, measured on this partition or on a sample.
fn figures(compared: &FsComparison, subject: Subject, bytes: u64) -> String {
    let of_what = match compared.flash_bytes {
        sample if sample < bytes => format!("a sample of {}", size(sample)),
        _ => "these".to_owned(),
    };
    match (compared.space(subject), compared.mounted_s(subject)) {
        (Some(Ok(free)), Some((_, ready))) => format!(
            "{} leaves {free:.0} KiB for files, and with files on {} % of {of_what} it is ready after {ready:.2} s",
            subject.title(),
            Options::default().fill_percent
        ),
        (Some(Ok(free)), None) => format!("{} leaves {free:.0} KiB for files", subject.title()),
        (Some(Err(why)), _) => format!("{} is not possible: {why}", subject.title()),
        (None, _) => format!("{} was not measured", subject.title()),
    }
}

/// Numbers of PEBs of a partition, by use.
fn peb_budget(geometry: &Geometry) -> PebBudget {
    match geometry.kind {
        FlashKind::Nor => PebBudget::of_nor(geometry.blocks()),
        _ => PebBudget::of_nand(geometry.blocks(), geometry.chip_blocks()),
    }
}

/// Text about the PEBs of a partition, by use.
fn pebs_by_use(geometry: &Geometry) -> String {
    let PebBudget { pebs, own, bad_reserve } = peb_budget(geometry);
    let chip = geometry.chip_blocks();
    let of_chip = if chip > pebs { format!(" of a chip with {chip}") } else { String::new() };
    format!("{pebs} PEBs{of_chip}, of which {bad_reserve} are kept for bad blocks and {own} for UBI itself")
}

/// Minimum size of eraseblocks that mkfs.jffs2 supports, in bytes.
const JFFS2_ERASE_MIN: u32 = 8 << 10;

/// Text about the required kernel options, as the beginning of a sentence.
fn kernel_first(candidate: &Candidate) -> String {
    let erase = size(candidate.geometry.erase_bytes.into());
    candidate.kernel.map_or_else(String::new, |kernel| {
        format!("build the kernel with {kernel}, which makes eraseblocks of {erase}; ")
    })
}

/// Commands that write a JFFS2 to the partition. An image for larger eraseblocks has nodes across the ends of smaller ones, which Linux drops.
pub(super) fn make_jffs2(candidate: &Candidate) -> Point {
    let (geometry, kernel) = (&candidate.geometry, kernel_first(candidate));
    let rests_on = format!("eraseblocks of {}", size(geometry.erase_bytes.into()));
    if geometry.erase_bytes >= JFFS2_ERASE_MIN {
        let clean = if geometry.kind == FlashKind::Nor { "" } else { " -n" };
        let what = "make a JFFS2 image for the eraseblock, and write it to the erased partition";
        let point = Point::new("mkfs and mount", kernel + what)
            .command(format!("mkfs.jffs2 -l{clean} -e {} -r FOLDER -o root.jffs2", geometry.erase_bytes));
        let written = if geometry.kind == FlashKind::Nor {
            point.command("flashcp -v root.jffs2 /dev/mtd0")
        } else {
            point.command("flash_erase -j /dev/mtd0 0 0").command("nandwrite -p /dev/mtd0 root.jffs2")
        };
        return written.command("mount -t jffs2 mtd0 /mnt").rests_on(rests_on);
    }
    let what = "mount the erased partition, which is an empty JFFS2, and copy the files";
    Point::new("mkfs and mount", kernel + what)
        .command("flash_erase /dev/mtd0 0 0")
        .command("mount -t jffs2 mtd0 /mnt")
        .command("cp -a FOLDER/. /mnt")
        .rests_on(format!(
            "{rests_on}: mkfs.jffs2 makes images for {} and more",
            size(JFFS2_ERASE_MIN.into())
        ))
}

fn make_ubifs(candidate: &Candidate) -> Point {
    let geometry = &candidate.geometry;
    let (page, peb) = (u64::from(geometry.write_bytes), u64::from(geometry.erase_bytes));
    let sub = u64::from(geometry.sub_page_bytes).max(1);
    // EC and VID header have 64 bytes each. Data begins at the next page after them.
    let vid = sub.max(64).next_multiple_of(sub);
    let data = (vid + 64).next_multiple_of(page.max(1));
    let leb = peb.saturating_sub(data);
    let io = page.max(8);
    let lebs = peb_budget(geometry).available_lebs().max(1);
    let what = "make UBI and UBIFS with the chip's page, sub-page and eraseblock";
    Point::new("mkfs and mount", kernel_first(candidate) + what)
        .command("ubiformat /dev/mtd0")
        .command("ubiattach -p /dev/mtd0")
        .command("ubimkvol /dev/ubi0 -N root -m")
        .command(format!("mkfs.ubifs -m {io} -e {leb} -c {lebs} -r FOLDER -o root.ubifs"))
        .command("ubiupdatevol /dev/ubi0_0 root.ubifs")
        .command("mount -t ubifs ubi0:root /mnt")
        .rests_on(format!(
            "pages of {}, sub-pages of {}, eraseblocks of {}",
            size(page),
            size(sub),
            size(peb)
        ))
        .rests_on(format!("LEBs of {}: headers take {}", size(leb), size(data)))
        .rests_on(pebs_by_use(geometry))
        .unless(
            "the controller programs whole pages only: headers take a page each then, and LEBs are smaller",
        )
}

pub(super) fn make_point(kind: FilesystemKind, candidate: &Candidate) -> Point {
    let point = match kind {
        FilesystemKind::Jffs2 => make_jffs2(candidate),
        FilesystemKind::Ubifs => make_ubifs(candidate),
    };
    match SECTORS.iter().find(|(_, kernel)| Some(*kernel) != candidate.kernel) {
        Some((set, other)) if candidate.kernel.is_some() => {
            point.unless(advice! { format!("the kernel has {other}: `"), CommandOption::Set, format!(" {set}` has the advice for that") })
        }
        _ => point,
    }
}
