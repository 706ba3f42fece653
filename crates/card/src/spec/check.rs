//! Checks of the values in the specification of a card.

use super::{BadSpec, CardSpec, ControllerSpec, FatKind, IdentitySpec, Mapping, PARTITION_UNIT, TimingSpec};
use floatgate_mtd::{Nanos, SECTOR_BYTES};

/// Maximum number of map units of a card: 2 TiB in units of 4 KiB, and as many spare units.
const MAX_UNITS: u64 = 1 << 30;
/// Maximum number of blocks of a card: 2 TiB in blocks of 4 MiB, and as many spare blocks. Each block takes memory of
/// the host.
const MAX_BLOCKS: u64 = 1 << 20;
/// Maximum number of map units in a block. A merge of a block is the longest work between two requests.
const MAX_SLOTS: u64 = 1 << 16;
/// Maximum number of planes of a page.
const PLANES_MAX: u32 = 16;
/// Maximum time of an operation. The sum of millions of merges must fit into 64 bits.
const MAX_TIME: Nanos = Nanos::from_ms(1000);
/// Maximum time to move 1 KiB between NAND and controller; SPI at 1 MHz takes 8 ms.
const MAX_TRANSFER: Nanos = Nanos::from_ms(1);

/// Limits of the fields of the card's registers.
const PARTITION_RULE: &str = "a multiple of 128 KiB, up to 32640 KiB";

const fn is_partition(bytes: u64) -> bool {
    bytes.is_multiple_of(PARTITION_UNIT) && bytes <= 255 * PARTITION_UNIT
}

impl CardSpec {
    /// Checks that the card is possible. The error names the first impossible key.
    ///
    /// # Errors
    /// The first impossible key, with the reason.
    pub fn check(&self) -> Result<(), BadSpec> {
        // The area changes capacity and spare blocks, so that a wrong area would violate the rules for these keys.
        let rules = self.area().into_iter().chain(self.sizes()).chain(self.counts()).chain(self.cells());
        let rules = rules.chain(self.times()).chain(self.power.rules()).chain(self.identity_rules());
        let rules = rules.chain(self.controller_rules()).chain(self.annealing());
        let broken = rules.into_iter().find(|rule| !rule.0);
        broken.map_or(Ok(()), |(_, key, problem)| Err(BadSpec { key, problem }))
    }

    /// Checks the enhanced area of a [`partitioned`](Self::partitioned) card.
    fn area(&self) -> [(bool, &'static str, &'static str); 2] {
        let bytes = self.enhanced.bytes;
        [
            (
                bytes == 0
                    || (self.mapping == Mapping::Page
                        && self.fat.kind == FatKind::None
                        && self.bits_per_cell > 1
                        && self.fake.is_none()),
                "enhanced.bytes",
                "only of an honest page-mapped card with several bits a cell and without a FAT area",
            ),
            (
                bytes == 0 || (bytes.is_multiple_of(self.au_bytes.max(1)) && bytes <= self.capacity_bytes),
                "enhanced.bytes",
                "a multiple of the allocation unit, at most the capacity over the bits of a cell",
            ),
        ]
    }

    fn sizes(&self) -> [(bool, &'static str, &'static str); 14] {
        let unit = self.unit_bytes();
        let whole = |a: u64, b: u64| b > 0 && a >= b && a.is_multiple_of(b);
        let in_order = self.mapping != Mapping::Page;
        let units = self.blocks().saturating_mul(self.au_bytes / unit.max(1));
        // The map unit is a page where it is absent.
        let unit_key = if self.map_unit_bytes == 0 { "page_bytes" } else { "map_unit_bytes" };
        [
            (u64::from(self.spare_blocks) <= MAX_BLOCKS, "spare_blocks", "at most 2^20"),
            (whole(unit, SECTOR_BYTES as u64), unit_key, "must be a multiple of 512 bytes, and not 0"),
            (unit <= 1 << 20, unit_key, "at most 1 MiB, where `map_unit_bytes` is not another"),
            (
                whole(self.page_bytes, unit) && (self.page_bytes / unit).is_power_of_two(),
                "page_bytes",
                "must be a power of two of map units",
            ),
            (self.page_bytes <= 1 << 22, "page_bytes", "at most 4 MiB"),
            (
                (1..=PLANES_MAX).contains(&self.planes)
                    && whole(self.page_bytes, u64::from(self.planes) * SECTOR_BYTES as u64),
                "planes",
                "from 1 to 16, each with whole sectors of the page",
            ),
            (whole(self.au_bytes, self.page_bytes), "au_bytes", "must be a multiple of the page, and not 0"),
            (
                !in_order || unit == self.page_bytes,
                "map_unit_bytes",
                "must be a page where blocks are in order",
            ),
            (
                !self.copy_back || unit == self.page_bytes,
                "copy_back",
                "a chip copies whole pages: the map unit must be a page",
            ),
            (
                whole(self.capacity_bytes, unit),
                "capacity_bytes",
                "must be a multiple of the map unit, and not 0",
            ),
            (units <= MAX_UNITS, "capacity_bytes", "too many map units: at most 2^30"),
            (self.blocks() <= MAX_BLOCKS, "capacity_bytes", "too many allocation units: at most 2^20 blocks"),
            (self.au_bytes / unit.max(1) <= MAX_SLOTS, "au_bytes", "at most 65536 map units"),
            ((1..=1 << 30).contains(&self.buffer_bytes), "buffer_bytes", "from 1 byte to 1 GiB"),
        ]
    }

    fn counts(&self) -> [(bool, &'static str, &'static str); 14] {
        let block_mapped = self.mapping != Mapping::Page;
        let fat_end = u64::from(self.fat.first_au) + u64::from(self.fat.aus);
        let has_fat = self.fat.kind != FatKind::None;
        [
            ((1..=64).contains(&self.dies), "dies", "from 1 to 64"),
            (self.open_aus <= 4096, "open_aus", "at most 4096"),
            (self.open_aus_random <= self.open_aus, "open_aus_random", "at most `open_aus`"),
            (
                !block_mapped || self.open_aus > self.pinned_aus(),
                "open_aus",
                "at least 1 beyond the pinned ones",
            ),
            (self.mapping != Mapping::Hybrid || self.log_blocks > 0, "log_blocks", "at least 1"),
            (self.log_blocks <= 1 << 20, "log_blocks", "at most 2^20"),
            (self.slc.blocks <= 1 << 20, "slc.blocks", "at most 2^20"),
            (
                self.log_request_bytes.is_multiple_of(SECTOR_BYTES as u64),
                "log_request_bytes",
                "a multiple of 512",
            ),
            (
                !self.has_slc() || (self.slc.t_r_us > Nanos::ZERO && self.slc.t_prog_us > Nanos::ZERO),
                "slc.blocks",
                "with `slc.t_r_us` and `slc.t_prog_us` above 0, or SLC blocks cost no time",
            ),
            (!has_fat || (self.fat.aus > 0 && fat_end <= self.aus()), "fat.aus", "must lie inside the card"),
            (self.fat.kind != FatKind::Page || self.fat.spare_blocks > 0, "fat.spare_blocks", "at least 1"),
            (
                block_mapped || self.fat.kind != FatKind::Pinned,
                "fat.kind",
                "a page-mapped card has no open allocation units to pin",
            ),
            (self.fat.aus <= 64 && self.fat.spare_blocks <= 1 << 20, "fat.aus", "at most 64"),
            (
                self.needed_spare_blocks() + u64::from(self.bad_blocks) <= u64::from(self.spare_blocks),
                "spare_blocks",
                "too few for the open, log, SLC and firmware blocks, those that are bad, three to work with, and those with discards",
            ),
        ]
    }

    fn times(&self) -> [(bool, &'static str, &'static str); 8] {
        let TimingSpec { t_r_us, t_prog_us, t_bers_us, read_command_us, write_command_us, .. } = self.timing;
        let rule = |time: Nanos, key| (time <= MAX_TIME, key, "at most 1 s");
        let slow_bus = self.timing.transfer_ns_per_kib > MAX_TRANSFER;
        [
            rule(t_r_us, "timing.t_r_us"),
            (
                t_prog_us > Nanos::ZERO && t_prog_us <= MAX_TIME,
                "timing.t_prog_us",
                "above 0, as no flash programs a page in no time, and at most 1 s",
            ),
            rule(t_bers_us, "timing.t_bers_us"),
            rule(read_command_us.max(write_command_us), "timing"),
            rule(self.timing.au_switch_us, "timing.au_switch_us"),
            rule(self.slc.t_r_us, "slc.t_r_us"),
            rule(self.slc.t_prog_us, "slc.t_prog_us"),
            (!slow_bus, "timing.transfer_ns_per_kib", "at most 1 ms"),
        ]
    }

    fn cells(&self) -> [(bool, &'static str, &'static str); 12] {
        let wear = &self.wear;
        let claimed = self.fake.map_or(self.capacity_bytes, |fake| fake.claimed_bytes);
        let slots = self.au_bytes / self.unit_bytes().max(1);
        let slc_pages = self.au_bytes / self.page_bytes.max(1) / u64::from(self.bits_per_cell.max(1));
        [
            (
                claimed.is_multiple_of(SECTOR_BYTES as u64)
                    && (self.capacity_bytes..=self.capacity_bytes.saturating_mul(128)).contains(&claimed),
                "fake.claimed_bytes",
                "from the capacity to 128 times that, in whole sectors",
            ),
            (self.evil.is_none_or(|evil| evil.one_in_sectors > 0), "evil.one_in_sectors", "at least 1"),
            (self.loss.torn_pages <= 64, "loss.torn_pages", "at most 64"),
            (self.loss.dies_per_million <= 1_000_000, "loss.dies_per_million", "at most 1000000"),
            ((1..=4).contains(&self.bits_per_cell), "bits_per_cell", "from 1 to 4"),
            (wear.endurance_cycles > 0, "wear.endurance_cycles", "at least 1"),
            ((0.01..=1000.0).contains(&wear.life_factor), "wear.life_factor", "from 0.01 to 1000"),
            ((0.0..=2.0).contains(&wear.life_spread), "wear.life_spread", "from 0 to 2"),
            ((1..=4096).contains(&wear.ecc_strength), "wear.ecc_strength", "from 1 to 4096"),
            ((64..=1 << 16).contains(&wear.ecc_step_bytes), "wear.ecc_step_bytes", "from 64 to 65536"),
            (
                wear.program_failures_per_million <= 100_000,
                "wear.program_failures_per_million",
                "at most 100000",
            ),
            (
                slots >= 1 && (!self.has_slc() || slc_pages >= 1),
                "slc.blocks",
                "a block must have a page per bit of a cell",
            ),
        ]
    }

    fn controller_rules(&self) -> [(bool, &'static str, &'static str); 5] {
        let ControllerSpec { clock_hz, read_cycles, write_cycles, ecc_ns_per_kib, .. } = self.controller;
        let room = u64::from(self.firmware_blocks) * self.au_bytes;
        [
            (
                clock_hz > 0 || (read_cycles == 0 && write_cycles == 0),
                "controller.clock_hz",
                "above 0 for a number of clock cycles",
            ),
            (
                self.read_command().max(self.write_command()) <= MAX_TIME,
                "controller.clock_hz",
                "a request takes more than 1 s",
            ),
            (ecc_ns_per_kib <= MAX_TRANSFER, "controller.ecc_ns_per_kib", "at most 1 ms"),
            (
                self.controller.loaded_bytes() <= room,
                "controller.firmware_bytes",
                "more than the ROM and the `firmware_blocks` hold",
            ),
            (
                self.io_function.is_none_or(|io| (1..=7).contains(&io.functions)),
                "io_function.functions",
                "from 1 to 7",
            ),
        ]
    }

    fn annealing(&self) -> [(bool, &'static str, &'static str); 3] {
        let wear = &self.wear;
        [
            (
                (0.0..=0.9999).contains(&wear.anneal_share),
                "wear.anneal_share",
                "from 0 to 0.9999: some damage is permanent",
            ),
            (
                wear.anneal_cycles > 0 || (wear.anneal_share == 0.0 && wear.anneal_us == Nanos::ZERO),
                "wear.anneal_cycles",
                "above 0 for a card that heats its blocks",
            ),
            (wear.anneal_us <= MAX_TIME, "wear.anneal_us", "at most 1 s"),
        ]
    }

    fn identity_rules(&self) -> [(bool, &'static str, &'static str); 7] {
        let IdentitySpec { oem, name, year, month, .. } = &self.identity;
        let is_text = |text: &str, most: usize| {
            text.len() <= most && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
        };
        let years = if self.is_mmc() { 2010..=2025 } else { 2000..=2255 };
        [
            (is_text(oem, 2), "identity.oem", "at most two ASCII characters"),
            (
                is_text(name, if self.is_mmc() { 6 } else { 5 }),
                "identity.name",
                "at most five ASCII characters, six of an eMMC",
            ),
            (
                *year == 0 || years.contains(year),
                "identity.year",
                "from 2000 to 2255; of an eMMC from 2010 to 2025",
            ),
            (*month <= 12, "identity.month", "from 1 to 12"),
            (is_partition(self.mmc.boot_bytes), "mmc.boot_bytes", PARTITION_RULE),
            (is_partition(self.mmc.rpmb_bytes), "mmc.rpmb_bytes", PARTITION_RULE),
            (
                [0, 2, 4, 6, 10].contains(&self.classes.speed)
                    && self.classes.uhs <= 15
                    && self.classes.app <= 15,
                "classes",
                "speed is 2, 4, 6 or 10; uhs and app are at most 15",
            ),
        ]
    }
}
