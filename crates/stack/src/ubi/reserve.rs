//! PEBs that volumes cannot use: those of UBI itself, and those that replace bad blocks.

use floatgate_media::ubi::LAYOUT_VOLUME_LEBS;

/// PEBs reserved for wear levelling and for atomic changes (Linux: `WL_RESERVED_PEBS`, `EBA_RESERVED_PEBS`).
pub(super) const RESERVED: u32 = 2;

/// Bad PEBs that Linux expects per 1024 of the chip (`CONFIG_MTD_UBI_BEB_LIMIT`).
pub const MAX_BAD_PER_1024: u32 = 20;

/// Bad PEBs expected among `pebs`, rounded up (Linux: `get_bad_peb_limit`).
pub(super) fn bad_limit(pebs: u32, per_1024: u32) -> u32 {
    (u64::from(pebs) * u64::from(per_1024)).div_ceil(1024).min(u64::from(pebs)) as u32
}

/// PEBs of a partition without bad blocks, by use, as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PebBudget {
    /// PEBs of the partition.
    pub pebs: u32,
    /// PEBs that UBI itself needs: two for the volume table, one for wear levelling, one for atomic changes.
    pub own: u32,
    /// PEBs reserved for bad blocks, if volumes leave them: 2 % of the whole chip, because all its bad blocks may be in
    /// this partition. 0 on NOR.
    pub bad_reserve: u32,
}

impl PebBudget {
    /// The budget of a NAND partition with `pebs` PEBs on a chip with `chip_pebs`.
    #[must_use]
    pub fn of_nand(pebs: u32, chip_pebs: u32) -> Self {
        Self { bad_reserve: bad_limit(chip_pebs.max(pebs), MAX_BAD_PER_1024), ..Self::of_nor(pebs) }
    }

    /// The budget of a NOR partition with `pebs` PEBs. NOR has no bad blocks.
    #[must_use]
    pub const fn of_nor(pebs: u32) -> Self {
        Self { pebs, own: LAYOUT_VOLUME_LEBS + RESERVED, bad_reserve: 0 }
    }

    /// Maximum number of LEBs in volumes with `bad` bad blocks. With more, Linux does not attach the device.
    #[must_use]
    pub const fn most_lebs(&self, bad: u32) -> u32 {
        self.pebs.saturating_sub(self.own).saturating_sub(bad)
    }

    /// LEBs available to volumes next to the whole reserve for bad blocks. An auto-resize volume gets all of them.
    #[must_use]
    pub const fn available_lebs(&self) -> u32 {
        self.most_lebs(self.bad_reserve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_for_bad_blocks_counts_the_whole_chip() {
        let available = |pebs| PebBudget::of_nand(pebs, 2048).available_lebs();
        assert_eq!([2048, 512, 128, 64, 40].map(available), [2004, 468, 84, 20, 0]);
        assert_eq!(PebBudget::of_nand(2048, 2048).most_lebs(0), 2044);
        assert_eq!(PebBudget::of_nor(2048).available_lebs(), 2044);
        // The number of expected bad PEBs is rounded up, as in Linux.
        assert_eq!(PebBudget::of_nand(100, 1000).bad_reserve, 20);
        assert_eq!(PebBudget::of_nand(1, 1).bad_reserve, 1);
    }
}
