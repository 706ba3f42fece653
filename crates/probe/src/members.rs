//! Signatures of swap, RAID and LVM. What holds one is used as soon as the system starts, or assembles its disks: writes would reach that.
//!
//! Places: swap at the end of the first page (mkswap(8)); superblocks of Linux's RAID as md(4) describes their versions; the label of LVM2 in one of
//! the first four sectors.

use crate::partition::{Layout, bytes_at, le};
use crate::target::{Target, TargetError};

/// Sizes of pages of Linux's architectures, B.
const PAGES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
const SWAP: [&[u8]; 2] = [b"SWAPSPACE2", b"SWAP-SPACE"];
/// Number at the beginning of a superblock of Linux's RAID. Version 0.90 has it in the byte order of the machine.
const RAID: u64 = 0xA92B_4EFC;
/// Version 0.90 is in the last 64 KiB that begin at a multiple of 64 KiB.
const RAID_090: u64 = 64 << 10;
/// Version 1.0 is at least 8 KiB before the end, at a multiple of 4 KiB.
const RAID_10: (u64, u64) = (8 << 10, 4 << 10);
/// Label of LVM2, its type, and the place of the type.
const LVM: (&[u8], &[u8], usize) = (b"LABELONE", b"LVM2 001", 24);

/// Sets of which a device or one of its partitions is a member, in words.
///
/// # Errors
/// A read fails.
pub fn members(target: &mut impl Target, layout: Option<&Layout>) -> Result<Vec<String>, TargetError> {
    let whole = ("it".to_owned(), 0, target.capacity());
    let partitions = layout.into_iter().flat_map(|layout| &layout.partitions).filter(|part| part.number > 0);
    let partitions =
        partitions.map(|part| (format!("its partition {}", part.number), part.start_bytes, part.bytes));
    let mut found = Vec::new();
    for (name, start, bytes) in std::iter::once(whole).chain(partitions) {
        let of = |kind: Option<&str>| kind.map(|kind| format!("{name} is {kind}"));
        found.extend(of(swap(target, start)?));
        found.extend(of(raid(target, start, bytes)?));
        found.extend(of(lvm(target, start)?));
    }
    Ok(found)
}

fn swap(target: &mut impl Target, start: u64) -> Result<Option<&'static str>, TargetError> {
    for page in PAGES {
        let end = bytes_at(target, start.saturating_add(page - 512), 512)?;
        if end.is_some_and(|end| SWAP.iter().any(|name| end.ends_with(name))) {
            return Ok(Some("made for swap"));
        }
    }
    Ok(None)
}

fn raid(target: &mut impl Target, start: u64, bytes: u64) -> Result<Option<&'static str>, TargetError> {
    let last = |room: u64, unit: u64| bytes.checked_sub(room).map(|at| at / unit * unit);
    let places = [Some(0), Some(4096), last(RAID_10.0, RAID_10.1), last(RAID_090, RAID_090)];
    for (number, place) in places.into_iter().enumerate() {
        let Some(place) = place else { continue };
        let Some(block) = bytes_at(target, start.saturating_add(place), 512)? else { continue };
        let (magic, version) = (le(&block, 0, 4), le(&block, 4, 4));
        let is_old = number == 3 && [RAID, u64::from((RAID as u32).swap_bytes())].contains(&magic);
        if is_old || (number < 3 && magic == RAID && version == 1) {
            return Ok(Some("a member of a RAID of Linux"));
        }
    }
    Ok(None)
}

fn lvm(target: &mut impl Target, start: u64) -> Result<Option<&'static str>, TargetError> {
    for sector in 0..4 {
        let label = bytes_at(target, start.saturating_add(sector * 512), 512)?;
        let is_label = |label: &Vec<u8>| label.starts_with(LVM.0) && label[LVM.2..].starts_with(LVM.1);
        if label.as_ref().is_some_and(is_label) {
            return Ok(Some("a physical volume of LVM"));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::tests::Disk;

    const MIB: u64 = 1 << 20;

    fn found(disk: &Disk) -> Vec<String> {
        let layout = Layout::read(&mut disk.clone()).unwrap();
        members(&mut disk.clone(), layout.as_ref()).unwrap()
    }

    fn with(sector: u64, at: usize, bytes: &[u8]) -> Disk {
        let mut disk = Disk::new(64 * MIB + 512);
        disk.put(sector, at, bytes);
        disk
    }

    #[test]
    fn signatures_are_found_where_linux_looks_for_them() {
        let raid = |version: u32| [RAID.to_le_bytes()[..4].to_vec(), version.to_le_bytes().to_vec()].concat();
        let sectors = 64 * MIB / 512 + 1;
        for (disk, kind) in [
            (with(7, 502, b"SWAPSPACE2"), "made for swap"),
            (with(127, 502, b"SWAPSPACE2"), "made for swap"),
            (with(0, 0, &raid(1)), "a member of a RAID of Linux"),
            (with(8, 0, &raid(1)), "a member of a RAID of Linux"),
            (with((sectors - 16) & !7, 0, &raid(1)), "a member of a RAID of Linux"),
            (with(sectors / 128 * 128 - 128, 0, &raid(0)), "a member of a RAID of Linux"),
            (
                with(sectors / 128 * 128 - 128, 0, &0xA92B_4EFC_u32.to_be_bytes()),
                "a member of a RAID of Linux",
            ),
        ] {
            assert_eq!(found(&disk), [format!("it is {kind}")]);
        }
        let mut label = with(1, 0, b"LABELONE");
        assert!(found(&label).is_empty());
        label.put(1, 24, b"LVM2 001");
        assert_eq!(found(&label), ["it is a physical volume of LVM"]);
        // Numbers elsewhere, and other versions, are contents.
        assert!(found(&with(9, 0, &raid(1))).is_empty() && found(&with(8, 0, &raid(2))).is_empty());
    }

    #[test]
    fn partitions_are_members_too() {
        let mut disk = Disk::new(64 * MIB).gpt(&[(8192, 16_383), (16_384, u64::MAX - 1)]);
        disk.put(8192 + 8, 0, &[0xFC, 0x4E, 0x2B, 0xA9, 1, 0, 0, 0]);
        disk.put(16_384 + 1, 0, b"LABELONE");
        disk.put(16_384 + 1, 24, b"LVM2 001");
        assert_eq!(
            found(&disk),
            ["its partition 1 is a member of a RAID of Linux", "its partition 2 is a physical volume of LVM"]
        );
        assert!(found(&Disk::new(512)).is_empty());
    }
}
