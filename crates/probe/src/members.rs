//! Signatures of swap, RAID and LVM on a device or a partition. Such a device is used as soon as the system boots or
//! assembles its disks, so write tests could destroy its data.

use crate::partition::{Layout, bytes_at};
use floatgate_host::{Target, TargetError};
use floatgate_media::disk::member::{
    LVM_SECTORS, RAID_0_90, RAID_1_0, RAID_1_0_UNIT, RAID_1_1_AND_1_2, SWAP_PAGES, ends_as_swap,
    is_lvm_label, is_raid_0_90, is_raid_1,
};

/// Descriptions of the swap areas, arrays and volume groups that a device or one of its partitions belongs to.
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
    for page in SWAP_PAGES {
        let end = bytes_at(target, start.saturating_add(page - 512), 512)?;
        if end.is_some_and(|end| ends_as_swap(&end)) {
            return Ok(Some("made for swap"));
        }
    }
    Ok(None)
}

fn raid(target: &mut impl Target, start: u64, bytes: u64) -> Result<Option<&'static str>, TargetError> {
    let last = |room: u64, unit: u64| bytes.checked_sub(room).map(|at| at / unit * unit);
    let newer = RAID_1_1_AND_1_2.into_iter().chain(last(RAID_1_0, RAID_1_0_UNIT));
    let older = last(RAID_0_90, RAID_0_90).into_iter();
    let places = newer.map(|at| (at, is_raid_1 as fn(&[u8]) -> bool));
    for (place, is_superblock) in places.chain(older.map(|at| (at, is_raid_0_90 as fn(&[u8]) -> bool))) {
        let block = bytes_at(target, start.saturating_add(place), 512)?;
        if block.is_some_and(|block| is_superblock(&block)) {
            return Ok(Some("a member of a RAID of Linux"));
        }
    }
    Ok(None)
}

fn lvm(target: &mut impl Target, start: u64) -> Result<Option<&'static str>, TargetError> {
    for sector in 0..LVM_SECTORS {
        let label = bytes_at(target, start.saturating_add(sector * 512), 512)?;
        if label.is_some_and(|label| is_lvm_label(&label)) {
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
        let raid = |version: u32| [0xA92B_4EFC_u32, version].map(u32::to_le_bytes).concat();
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
