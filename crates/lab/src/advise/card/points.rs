//! Advice on trust, size, partition, filesystem, mkfs and mount options, and existing filesystems.

use super::super::mkfs::{BlockFs, Need, PartitionShape, Recipe};
use super::super::{Point, size};
use super::facts::{DeviceFacts, Evidence, Partition};
use super::probed::AUS;
use crate::card::compare::{Cell, Matrix};
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, CommandOption};
use std::path::Path;

/// Advice on a card that changes its contents or is about to die.
pub(super) fn trust_point(known: &DeviceFacts) -> Option<Point> {
    let reason = known.unsafe_because.as_ref()?;
    Some(Point::new("trust", format!("do not use this card: {reason}")).rests_on(reason.clone()))
}

/// A card that does not keep what is written gets no filesystem.
pub(super) fn no_filesystem_point(known: &DeviceFacts, reason: &str) -> Point {
    let advice = if known.is_untrue {
        "none: no filesystem keeps its data on this card. Return the card"
    } else {
        "none: return the card. Only a partition that ends within its real size, as the one above, keeps its data"
    };
    Point::new("filesystem", advice).rests_on(reason.to_owned())
}

/// Advice on a card that is smaller than it reports.
pub(super) fn size_point(known: &DeviceFacts) -> Option<Point> {
    let claimed = known.claimed_bytes.filter(|claimed| *claimed > known.capacity_bytes)?;
    let advice =
        format!("do not trust this card: it has {} and says {}", size(known.capacity_bytes), size(claimed));
    Some(Point::new("size", advice).rests_on("the size that was found by sectors with their own address"))
}

fn sure(evidence: &Evidence) -> String {
    let reason = if evidence.reason.is_empty() { String::new() } else { format!(": {}", evidence.reason) };
    format!("{:.0} % sure{reason}", evidence.confidence * 100.0)
}

/// Device name in commands. It is the target if this is a device. For an image file it is a name that no device has, so that a
/// pasted command overwrites nothing. For a card of the catalogue it is the usual name of an SD card.
pub(super) fn device(known: &DeviceFacts) -> &str {
    let is_description = known.target.ends_with(".toml") || known.target.ends_with(".json");
    if known.target.starts_with("/dev/") {
        &known.target
    } else if !is_description && Path::new(&known.target).is_file() {
        "/dev/sdX"
    } else {
        "/dev/mmcblk0"
    }
}

/// Device node of a partition. Linux inserts a `p` before the number if the device name ends with a digit.
pub(super) fn node(device: &str, number: u64) -> String {
    match number {
        0 => device.to_owned(),
        _ if device.ends_with(|last: char| last.is_ascii_digit()) => format!("{device}p{number}"),
        _ => format!("{device}{number}"),
    }
}

const SECTOR: u64 = 512;
/// Blocks of ext4, F2FS and NILFS2, and pages of the page cache, in bytes.
const BLOCK: u64 = 4096;
/// Maximum number of sectors in an MBR.
const MBR_SECTORS_MAX: u64 = u32::MAX as u64;

/// Number of sectors of a size or position in bytes.
pub(super) const fn sectors_of(bytes: u64) -> u64 {
    bytes / SECTOR
}

/// Kind of the partition table of a card whose last partition ends at this byte.
pub(super) const fn label(end: u64) -> &'static str {
    if sectors_of(end) <= MBR_SECTORS_MAX { "dos" } else { "gpt" }
}

pub(super) fn partition_point(known: &DeviceFacts, fs: BlockFs, start: u64, place: &PartitionShape) -> Point {
    let (first, sectors) = (sectors_of(start), sectors_of(place.bytes));
    let label = label(start + place.bytes);
    let kind = if label == "dos" { format!(", type={}", fs.partition_type()) } else { String::new() };
    let au = &known.au_bytes;
    let mut point = Point::new(
        "partition start",
        format!("begin the partition at sector {first} ({}), a border of an allocation unit", size(start)),
    )
    .command(format!(
        "printf 'label: {label}\\nstart={first}, size={sectors}{kind}\\n' | sfdisk {}",
        device(known)
    ))
    .rests_on(format!("allocation unit of {}, {}", size(au.value), sure(au)));
    if known.phase_bytes > 0 {
        point = point.rests_on(format!("its first border is at {}", size(known.phase_bytes)));
    }
    for (value, confidence) in au.alternatives.iter().filter(|(value, _)| AUS.contains(value)) {
        let other = DeviceFacts { au_bytes: Evidence { value: *value, ..au.clone() }, ..known.clone() };
        let note = if start.is_multiple_of(*value) {
            "the start is right for it, too".to_owned()
        } else {
            format!("begin at {}", size(other.place().0))
        };
        point = point.unless(format!(
            "allocation units have {} ({:.0} %): {note}",
            size(*value),
            confidence * 100.0
        ));
    }
    if au.confidence < 0.5 {
        point = point.unless(advice! { "the allocation unit is another: ", Command::Probe, " measures it" });
    }
    if known.is_size_unproven {
        point = point.unless(advice! { "the device is smaller than it says, which only writes show: ", Command::Probe.with(CommandOption::Write) });
    }
    point
}

pub(super) fn filesystem_point(
    matrix: &Matrix,
    fs: BlockFs,
    likeness: &str,
    needs: &[Need],
    unfit: &dyn Fn(BlockFs) -> Option<&'static str>,
) -> Point {
    let card = matrix.cards.first();
    let is_possible = |name: &str| BlockFs::named(name).is_none_or(|fs| unfit(fs).is_none());
    let advice = card.map_or_else(String::new, |card| card.with(is_possible));
    let faster: Vec<&str> = card
        .map(|card| card.filesystems.iter().map(|score| score.filesystem.as_str()))
        .into_iter()
        .flatten()
        .take_while(|name| *name != fs.name())
        .collect();
    let reasons: Vec<String> = faster
        .iter()
        .filter_map(|name| Some(format!("not {name}, which is faster: {}", unfit(BlockFs::named(name)?)?)))
        .collect();
    let choice = match reasons.as_slice() {
        [] if advice.starts_with("Use ") => advice,
        [] => format!("Use {}. {advice}", fs.name()),
        reasons => format!("Use {}, {}.", fs.name(), reasons.join("; ")),
    };
    let mut point = Point::new("filesystem", choice).rests_on(likeness.to_owned());
    if !needs.is_empty() {
        let names: Vec<&str> = needs.iter().map(|need| need.name()).collect();
        point = point.rests_on(format!("needs: {}", names.join(", ")));
    }
    for cell in cells(matrix, fs) {
        point = point.rests_on(format!(
            "{}: {:.1} s of the card, {:.2} times that of the fastest ranked filesystem",
            cell.workload,
            cell.time_us / 1e6,
            cell.relative_time
        ));
    }
    for remark in &matrix.remarks {
        point = point.rests_on(remark.clone());
    }
    for (workload, other) in winners(matrix, fs, unfit) {
        point = point.unless(format!("the work is mostly like {workload}: {other} is faster there"));
    }
    if fs != BlockFs::Vfat {
        point = point.unless(advice! { "a camera, a boot ROM or Windows must read it: then vfat (", CommandOption::Fs, " vfat)" });
    }
    point
}

pub(super) fn cells(matrix: &Matrix, fs: BlockFs) -> impl Iterator<Item = &Cell> {
    matrix.cells.iter().filter(move |cell| cell.filesystem == fs.name())
}

/// Workloads under which another suitable filesystem is faster by more than 5 %, with this filesystem.
fn winners(
    matrix: &Matrix,
    fs: BlockFs,
    unfit: &dyn Fn(BlockFs) -> Option<&'static str>,
) -> Vec<(String, String)> {
    let slower = cells(matrix, fs).filter(|cell| cell.relative_time > 1.05);
    slower
        .filter_map(|cell| {
            let fastest = matrix.cells.iter().find(|other| {
                other.is_ranked && other.workload == cell.workload && other.relative_time <= 1.0
            })?;
            unfit(BlockFs::named(&fastest.filesystem)?)
                .is_none()
                .then(|| (cell.workload.clone(), fastest.filesystem.clone()))
        })
        .collect()
}

pub(super) fn recipe_point(known: &DeviceFacts, recipe: &Recipe, fs: BlockFs, needs: &[Need]) -> Point {
    let partition = node(device(known), 1);
    let mut point = Point::new("mkfs and mount", "make and mount it with the flash's own sizes")
        .command(format!("{} {partition}", recipe.mkfs))
        .command(format!("mount -t {} -o {} {partition} /mnt", fs.name(), recipe.mount));
    point.rests_on.extend(recipe.why.iter().cloned());
    point = point.rests_on(format!("page of {}, {}", size(known.page_bytes.value), sure(&known.page_bytes)));
    let open = &known.open_aus;
    let limit = match open.value {
        0 => "no limit of open allocation units".to_owned(),
        limit => format!("{limit} open allocation units"),
    };
    point = point.rests_on(format!("{limit}, {}", sure(open)));
    if known.page_bytes.confidence < 0.5 {
        point = point.unless("the page is larger: stride and clusters grow with it");
    }
    if fs == BlockFs::Ext4 && !needs.contains(&Need::PowerCuts) {
        point = point.unless("a minute of work may be lost with the power: then mount with `commit=60`, too");
    }
    if matches!(fs, BlockFs::Ext4 | BlockFs::F2fs) {
        point =
            point.unless("programs touch many files without changing them: then mount with `lazytime`, too");
    }
    point
}

/// Finding about a partition that does not begin at a border of an allocation unit. `None` if the probe has already reported on its position, because
/// the probe knows the position of a FAT's data.
fn misplaced(known: &DeviceFacts, partition: &Partition) -> Option<String> {
    let (name, au, start) = (partition.name(), &known.au_bytes, partition.start_bytes);
    let is_judged = |finding: &String| {
        finding.starts_with(&format!("{name} starts at "))
            || finding.contains(&format!("file data of {name} start "))
    };
    let behind = (start % au.value + au.value - known.phase_bytes) % au.value;
    if partition.number == 0 || behind == 0 || known.findings.iter().any(is_judged) {
        return None;
    }
    let block = match start.is_multiple_of(BLOCK) {
        true => "",
        false => ", and on none of 4 KiB, so that each block of a filesystem lies on two pages",
    };
    Some(format!(
        "{name} begins at sector {} ({}), {} behind the border of an allocation unit of {} ({}){block}: only a new partition changes that",
        start / SECTOR,
        size(start),
        size(behind),
        size(au.value),
        sure(au)
    ))
}

/// Advice on the existing filesystems.
pub(super) fn existing_point(known: &DeviceFacts, place: &PartitionShape) -> Option<Point> {
    if known.partitions.is_empty() {
        return None;
    }
    let mut faults = known.findings.clone();
    for partition in &known.partitions {
        let own = PartitionShape { bytes: partition.bytes, ..*place };
        let (name, node) = (partition.name(), node(device(known), partition.number));
        faults.extend(misplaced(known, partition));
        faults.extend(partition.existing.and_then(|existing| existing.judge(&name, &node, &own)));
    }
    let mut point = match faults.is_empty() {
        true => {
            Point::new("what is there", "keep partitions and filesystems as they are: they fit the flash")
        }
        false => Point::new("what is there", faults.join("; ")),
    };
    for partition in &known.partitions {
        let kind = partition.existing.map_or("", |existing| existing.kind.name());
        let kind = if kind.is_empty() { String::new() } else { format!(", {kind}") };
        point = point.rests_on(format!(
            "{}: {} at {}{kind}",
            partition.name(),
            size(partition.bytes),
            size(partition.start_bytes)
        ));
    }
    Some(point)
}
