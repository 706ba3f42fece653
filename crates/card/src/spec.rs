//! A card as data: the `[card]` table of a part file. Every number carries its unit in the name of its key.

use crate::bus::BusMode;
use crate::discards;
use crate::fake::FakeKind;
use crate::limits::HostSpec;
use crate::power::PowerSpec;
use crate::registers::{ClassSpec, IdentitySpec, IoFunctionSpec, MmcSpec};
use floatgate_device::cells::{ErrorSpec, Promise};
use floatgate_device::ecc_engine::EccRequirement;
use floatgate_device::units;
use floatgate_mtd::{Nanos, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

/// Placement of map units on the NAND.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// An allocation unit is one block in order; only open ones can be written.
    #[default]
    Block,
    /// As `Block`, and short requests that are not in order go to log blocks shared by all allocation units.
    Hybrid,
    /// Map units anywhere, collected as garbage.
    Page,
}

/// Choice of the block that garbage collection cleans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collector {
    /// The block with the fewest valid units.
    #[default]
    Greedy,
    /// The block that was opened first.
    Fifo,
}

/// Treatment of the first allocation units, in which FAT keeps its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FatKind {
    /// As the rest of the card.
    #[default]
    None,
    /// They stay open and take writes in any order; others do not close them.
    Pinned,
    /// They are mapped by unit in blocks of their own.
    Page,
}

/// The area in which FAT keeps its tables: `[card.fat]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FatSpec {
    /// Treatment of the area.
    pub kind: FatKind,
    /// First allocation unit of the area.
    pub first_au: u32,
    /// Number of allocation units in the area.
    pub aus: u32,
    /// Blocks of the area beyond its size (`page` only).
    pub spare_blocks: u32,
}

/// A lie about the size: `[card.fake]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FakeSpec {
    /// Behaviour beyond the real size.
    pub kind: FakeKind,
    /// Size that the card claims, in bytes.
    #[serde(with = "units::bytes")]
    pub claimed_bytes: u64,
}

/// Firmware that does not give back what was written: `[card.evil]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvilSpec {
    /// One of this number of sectors is given back once after it was written, and from then on answered with other content.
    pub one_in_sectors: u32,
}

/// Blocks that hold one bit a cell: `[card.slc]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlcSpec {
    /// Number of blocks of the SLC cache; 0 for a card without a cache.
    pub blocks: u32,
    /// True when the log blocks (`hybrid`) hold one bit a cell, too.
    pub log: bool,
    /// Time to read a page into the NAND's register, us.
    #[serde(with = "units::us")]
    pub t_r_us: Nanos,
    /// Time to program a page, us.
    #[serde(with = "units::us")]
    pub t_prog_us: Nanos,
}

/// An area that holds one bit a cell for good (enhanced area, pSLC): `[card.enhanced]`. It has the times of `[card.slc]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnhancedSpec {
    /// Size of the area at the beginning of the card, as the host sees it, in bytes; 0 for none. It takes this size for each bit of a cell
    /// from the capacity.
    #[serde(with = "units::bytes")]
    pub bytes: u64,
    /// Rated program and erase cycles of a block of the area; 0 for ten times those of the other blocks.
    pub endurance_cycles: u32,
}

/// Damage by a loss of power beyond what a host must expect: `[card.loss]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossSpec {
    /// True when a flush ends although data is still in RAM: a loss of power takes data that the host believes to be safe.
    pub ignores_flush: bool,
    /// Number of pages before a torn one that lose their contents with it: those of the same cells, which were programmed earlier.
    pub torn_pages: u32,
    /// Number of losses of power in a million, amid a program or an erase, after which the card does not start any more.
    pub dies_per_million: u32,
}

/// Times of the NAND and of the controller: `[card.timing]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimingSpec {
    /// Time to read a page of all planes into the NAND's register, us.
    #[serde(with = "units::us")]
    pub t_r_us: Nanos,
    /// Time to program a page of all planes, us.
    #[serde(with = "units::us")]
    pub t_prog_us: Nanos,
    /// Time to erase a block, us.
    #[serde(with = "units::us")]
    pub t_bers_us: Nanos,
    /// Time to move 1024 bytes between NAND and controller, ns.
    #[serde(with = "units::ns")]
    pub transfer_ns_per_kib: Nanos,
    /// Time of the controller's firmware per read request, us.
    #[serde(with = "units::us")]
    pub read_command_us: Nanos,
    /// Time of the controller's firmware per write request, us.
    #[serde(with = "units::us")]
    pub write_command_us: Nanos,
    /// Time to look up the map of a further allocation unit within one read, us.
    #[serde(default, with = "units::us")]
    pub au_switch_us: Nanos,
}

/// Wear and what the card does about it: `[card.wear]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearSpec {
    /// Rated program and erase cycles of a block.
    pub endurance_cycles: u32,
    /// Mean life of a block until an erase fails, as a multiple of the rated cycles.
    pub life_factor: f64,
    /// Standard deviation of the logarithm of a block's life.
    pub life_spread: f64,
    /// Difference of erase counts above which data that does not change is moved; 0 for no static wear levelling.
    pub static_difference: u32,
    /// Reads of a block after which its data is moved; 0 for no refresh.
    pub refresh_reads: u32,
    /// Correctable bits per ECC step.
    pub ecc_strength: u32,
    /// Data bytes per ECC step.
    pub ecc_step_bytes: u32,
    /// Number of page programs of a million that fail. The block is retired, and its data moves to a spare one.
    #[serde(default)]
    pub program_failures_per_million: u32,
}

impl WearSpec {
    /// Cycles of a block until an erase fails, at a deviation from the mean in standard deviations of the logarithm.
    pub fn block_life(&self, deviation: f64) -> f64 {
        let spread = self.life_spread;
        let mean = f64::from(self.endurance_cycles) * self.life_factor;
        mean * libm::exp(deviation * spread - spread * spread / 2.0)
    }
}

/// A card: the `[card]` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardSpec {
    /// Size as the host sees it, in bytes.
    #[serde(with = "units::bytes")]
    pub capacity_bytes: u64,
    /// Size of an allocation unit (AU) and of a NAND block over all planes and dies, in bytes.
    #[serde(with = "units::bytes")]
    pub au_bytes: u64,
    /// Number of allocation units that can be written in order at the same time, those of a pinned FAT area included.
    pub open_aus: u32,
    /// Number of these that can be written in any order.
    pub open_aus_random: u32,
    /// Bytes that are programmed at once, over all planes.
    #[serde(with = "units::bytes")]
    pub page_bytes: u64,
    /// Planes over which a page lies, in pieces of the same size. A read loads those alone that it needs.
    #[serde(default = "one_plane")]
    pub planes: u32,
    /// Bytes that the map places as one; a page where it is absent. Smaller writes read, change and write a whole unit.
    #[serde(default, with = "units::bytes")]
    pub map_unit_bytes: u64,
    /// Placement of map units.
    pub mapping: Mapping,
    /// Choice of the block that garbage collection cleans (`page`).
    #[serde(default)]
    pub collector: Collector,
    /// Number of shared log blocks (`hybrid`).
    #[serde(default)]
    pub log_blocks: u32,
    /// Longest request that goes to the log, in bytes; 0 for no limit. A longer one opens its allocation unit (`hybrid`).
    #[serde(default, with = "units::bytes")]
    pub log_request_bytes: u64,
    /// NAND blocks beyond those that the capacity fills: open and log blocks, SLC cache, over-provisioning, replacements.
    pub spare_blocks: u32,
    /// Number of spare blocks that are bad from the factory.
    #[serde(default)]
    pub bad_blocks: u32,
    /// Number of spare blocks that hold the controller's firmware and its tables.
    #[serde(default)]
    pub firmware_blocks: u32,
    /// True when the chip copies a page to another one of the same die without moving it through the controller (copy-back). The map unit is a page then.
    #[serde(default)]
    pub copy_back: bool,
    /// Free blocks that the card prepares while the host is silent (`page`).
    #[serde(default)]
    pub idle_blocks: u32,
    /// Silence of the host after which the card works on its own, us.
    #[serde(default = "idle_after", with = "units::us")]
    pub idle_after_us: Nanos,
    /// RAM for data on its way to the NAND, in bytes.
    #[serde(with = "units::bytes")]
    pub buffer_bytes: u64,
    /// True when a card is busy with a write until the pages of its data are programmed; parts of a unit wait in RAM. Before version 6 the
    /// SD specification has no flush, so that a card cannot answer from RAM and be sure to keep the data.
    #[serde(default)]
    pub write_through: bool,
    /// Dies that work at the same time; pages of a block alternate between them.
    pub dies: u32,
    /// Bits that a cell holds.
    pub bits_per_cell: u8,
    /// Interface to the host.
    pub bus: BusMode,
    /// Times of NAND and controller.
    pub timing: TimingSpec,
    /// The area in which FAT keeps its tables.
    #[serde(default)]
    pub fat: FatSpec,
    /// Blocks that hold one bit a cell: the SLC cache, and the log.
    #[serde(default)]
    pub slc: SlcSpec,
    /// An area that holds one bit a cell for good (enhanced area, pSLC).
    #[serde(default)]
    pub enhanced: EnhancedSpec,
    /// Wear, and what is done about it.
    pub wear: WearSpec,
    /// Supply, and what the card takes of it.
    #[serde(default)]
    pub power: PowerSpec,
    /// Patience of the host.
    #[serde(default)]
    pub host: HostSpec,
    /// Maker and date as the card states them.
    #[serde(default)]
    pub identity: IdentitySpec,
    /// Classes that are printed on the card.
    #[serde(default)]
    pub classes: ClassSpec,
    /// An SDIO function beside the memory; none for a card that is only memory.
    #[serde(default)]
    pub io_function: Option<IoFunctionSpec>,
    /// A lie about the size; none for an honest card.
    #[serde(default)]
    pub fake: Option<FakeSpec>,
    /// Firmware that changes contents; none for an honest card.
    #[serde(default)]
    pub evil: Option<EvilSpec>,
    /// Damage by a loss of power; none for a card that keeps its promises.
    #[serde(default)]
    pub loss: LossSpec,
    /// Partitions and background work of an eMMC.
    #[serde(default)]
    pub mmc: MmcSpec,
}

/// Not published for any card: long against the gap between two requests, short against a person.
const fn idle_after() -> Nanos {
    Nanos::from_ms(50)
}

const fn one_plane() -> u32 {
    1
}

/// A value that no card can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`card.{key}`: {problem}")]
pub struct BadSpec {
    /// Key below `card`.
    pub key: &'static str,
    /// Description of the fault.
    pub problem: &'static str,
}

/// Free blocks that garbage collection needs: one to write to, one to move to, one erased for when power goes away.
pub(crate) const RESERVE_BLOCKS: u32 = 3;

/// Block of the enhanced area that is written.
const ENHANCED_WRITTEN: u64 = 1;
/// Blocks of data of the enhanced area for each one that may fail: assumed, as of the rest of a card.
const ENHANCED_SPARE: u64 = 16;
/// Rated cycles of a block with one bit a cell over those of the same block with more: makers state 20000 to 30000 for pSLC, and 3000 for MLC.
const ENHANCED_CYCLES: u32 = 10;

/// Most map units of a card: 2 TiB of 4 KiB, and as many to spare.
const MAX_UNITS: u64 = 1 << 30;
/// Most blocks of a card: 2 TiB of 4 MiB, and as many to spare. Each takes host memory.
const MAX_BLOCKS: u64 = 1 << 20;
/// Most map units of a block: merging them is the longest work between two requests.
const MAX_SLOTS: u64 = 1 << 16;
/// Most planes of a page.
const PLANES_MAX: u32 = 16;
/// Longest time of an operation: millions of merges add up in 64 bits.
const MAX_TIME: Nanos = Nanos::from_ms(1000);
/// Longest time to move a KiB: SPI at 1 MHz takes 8 ms.
const MAX_TRANSFER: Nanos = Nanos::from_ms(1);

impl CardSpec {
    /// Bytes that the map places as one.
    pub fn unit_bytes(&self) -> u64 {
        if self.map_unit_bytes == 0 { self.page_bytes } else { self.map_unit_bytes }
    }

    /// Number of allocation units that the capacity reaches into.
    pub fn aus(&self) -> u64 {
        self.capacity_bytes.div_ceil(self.au_bytes.max(1))
    }

    /// Number of NAND blocks.
    pub fn blocks(&self) -> u64 {
        self.aus() + u64::from(self.spare_blocks)
    }

    /// The card after its host has set the enhanced area, as `mmc enh_area set` does once: the blocks of the area hold less, and the host
    /// sees a smaller card.
    #[must_use]
    pub fn partitioned(mut self) -> Self {
        // Of an area that is too large nothing is left, which `check` finds.
        let lost = self.enhanced_loss().min(self.capacity_bytes);
        self.capacity_bytes -= lost;
        self.spare_blocks = self.spare_blocks.saturating_add((lost / self.au_bytes.max(1)) as u32);
        self
    }

    /// Bytes of the capacity that the enhanced area costs beyond its own size.
    pub(crate) fn enhanced_loss(&self) -> u64 {
        self.enhanced.bytes.saturating_mul(u64::from(self.bits_per_cell).saturating_sub(1))
    }

    /// Bytes that a block holds with one bit a cell.
    fn enhanced_block_bytes(&self) -> u64 {
        let pages = self.au_bytes / self.page_bytes.max(1) / u64::from(self.bits_per_cell.max(1));
        pages * self.page_bytes
    }

    /// Blocks that the data of the enhanced area fills.
    fn enhanced_data_blocks(&self) -> u64 {
        self.enhanced.bytes.div_ceil(self.enhanced_block_bytes().max(1))
    }

    /// Blocks of the enhanced area: for its data, to work with, and a sixteenth more.
    pub fn enhanced_blocks(&self) -> u64 {
        match self.enhanced_data_blocks() {
            0 => 0,
            data => data + u64::from(RESERVE_BLOCKS) + ENHANCED_WRITTEN + data.div_ceil(ENHANCED_SPARE),
        }
    }

    /// Blocks of the enhanced area that may fail before it can no longer be written.
    pub fn enhanced_to_spare(&self) -> u64 {
        self.enhanced_data_blocks().div_ceil(ENHANCED_SPARE)
    }

    /// Number of the first block of the enhanced area, which has the last ones.
    pub fn enhanced_first_block(&self) -> u64 {
        self.blocks().saturating_sub(self.enhanced_blocks())
    }

    /// Rated cycles of a block of the enhanced area.
    pub const fn enhanced_cycles(&self) -> u32 {
        match self.enhanced.endurance_cycles {
            0 => self.wear.endurance_cycles.saturating_mul(ENHANCED_CYCLES),
            cycles => cycles,
        }
    }

    /// Open allocation units that are kept for the FAT area.
    pub(crate) fn pinned_aus(&self) -> u32 {
        if self.fat.kind == FatKind::Pinned { self.fat.aus } else { 0 }
    }

    /// Blocks beyond the capacity that the card needs to work at all.
    pub fn needed_spare_blocks(&self) -> u64 {
        let [open, log] = [self.open_aus, self.log_blocks].map(u64::from);
        let fat = match self.fat.kind {
            FatKind::None | FatKind::Pinned => 0,
            FatKind::Page => u64::from(self.fat.spare_blocks),
        };
        let written = match self.mapping {
            Mapping::Page => 1,
            Mapping::Block => open,
            Mapping::Hybrid => open + log + 1,
        };
        let slc = if self.slc.blocks > 0 { u64::from(self.slc.blocks) + 1 } else { 0 };
        // The capacity counts some of the area's blocks already.
        let enhanced = self.enhanced_blocks().saturating_sub(self.enhanced.bytes / self.au_bytes.max(1));
        fat + written + slc + enhanced + u64::from(self.firmware_blocks) + self.reserve_blocks()
    }

    /// True when some blocks hold one bit a cell.
    const fn has_slc(&self) -> bool {
        self.slc.blocks > 0 || self.slc.log || self.enhanced.bytes > 0
    }

    /// Blocks that hold the bitmaps of discards: with room for one that is written while another is cleaned.
    pub(crate) fn discard_blocks(&self) -> u64 {
        let [slots, page] = [self.au_bytes, self.page_bytes].map(|bytes| bytes / self.unit_bytes().max(1));
        (discards::groups(self) + 2 * page) / slots.max(1) + 1
    }

    /// Blocks that may fail before the card can no longer write.
    pub fn blocks_to_spare(&self) -> u64 {
        u64::from(self.spare_blocks).saturating_sub(self.needed_spare_blocks() + u64::from(self.bad_blocks))
    }

    /// Blocks beyond those for the host's data: to work with, and for the bitmaps of discards.
    pub fn reserve_blocks(&self) -> u64 {
        u64::from(RESERVE_BLOCKS) + self.discard_blocks()
    }

    /// Time within which the map is rebuilt after any loss of power, merges that were cut included: a bound, not an estimate.
    ///
    /// Each closed block costs its summary, each other one all its pages; there are no more of these than spare blocks. Then open
    /// allocation units are merged, those of the log, and those of a block that the SLC cache has too much; a page-mapped card cleans a few
    /// blocks. Each bitmap of discards is read.
    pub fn power_on_bound(&self) -> Nanos {
        let pages = self.au_bytes / self.page_bytes;
        let slots = self.au_bytes / self.unit_bytes();
        let spare = u64::from(self.spare_blocks);
        let log = (u64::from(self.log_blocks) * slots).min(self.aus());
        let slc = if self.slc.blocks > 0 { 2 * slots } else { 0 };
        let merges = match self.mapping {
            Mapping::Page => 8,
            Mapping::Block | Mapping::Hybrid => u64::from(self.open_aus) + log + slc + 8,
        };
        let TimingSpec { t_r_us, t_prog_us, t_bers_us, transfer_ns_per_kib, .. } = self.timing;
        let transfer = Nanos::from_ns(self.page_bytes * transfer_ns_per_kib.as_ns() / 1024);
        // Up to seven retries for each read.
        let read = t_r_us.max(self.slc.t_r_us) * 8 + transfer;
        let program = t_prog_us.max(self.slc.t_prog_us) + transfer;
        // A unit of a merge may be read from a page of its own.
        let merge = read * slots + program * (pages + 2) + t_bers_us * 2;
        let scan = 2 * self.blocks() + spare * (pages + 1) + discards::groups(self);
        let all = read * scan + merge * (merges + self.discard_blocks());
        all * u64::from(self.stretch())
    }

    /// Factor by which a limited supply makes operations longer, at most.
    fn stretch(&self) -> u32 {
        self.power.stretch_max(self.dies)
    }

    /// A card of the same policies, page and times with sixteen allocation units of sixteen pages, for tests: it wears, levels and cleans
    /// within hundreds of requests.
    #[must_use]
    pub fn in_small(&self) -> Self {
        let mut small = self.clone();
        small.au_bytes = self.au_bytes.min(16 * self.page_bytes);
        small.capacity_bytes = self.capacity_bytes.min(16 * small.au_bytes);
        small.open_aus = self.open_aus.min(8);
        small.open_aus_random = self.open_aus_random.min(small.open_aus);
        small.log_blocks = self.log_blocks.min(3);
        small.slc.blocks = self.slc.blocks.min(3);
        small.enhanced.bytes = self.enhanced.bytes.min(4 * small.au_bytes);
        small.idle_blocks = self.idle_blocks.min(2);
        small.bad_blocks = self.bad_blocks.min(2);
        small.firmware_blocks = self.firmware_blocks.min(2);
        (small.fat.first_au, small.fat.aus) = (self.fat.first_au.min(4), self.fat.aus.min(2));
        small.fat.spare_blocks = self.fat.spare_blocks.min(2);
        small.spare_blocks = small.needed_spare_blocks() as u32 + small.bad_blocks + 2;
        (small.wear.static_difference, small.wear.refresh_reads) = (2, 60);
        (small.fake, small.evil) = (None, None);
        small
    }

    /// Bit errors of the cells that follow from the rated cycles and the ECC.
    pub(crate) fn errors(&self) -> ErrorSpec {
        let ecc = EccRequirement { strength: self.wear.ecc_strength, step_bytes: self.wear.ecc_step_bytes };
        ErrorSpec::typical(Promise {
            ecc,
            endurance_cycles: u64::from(self.wear.endurance_cycles),
            bits_per_cell: self.bits_per_cell,
        })
    }

    /// Checks that the card is possible; the error names the first key that is not.
    ///
    /// # Errors
    /// Key and problem.
    pub fn check(&self) -> Result<(), BadSpec> {
        // The area changes capacity and spare blocks, so that a wrong one would break their rules.
        let rules = self.area().into_iter().chain(self.sizes()).chain(self.counts()).chain(self.cells());
        let rules = rules.chain(self.times()).chain(self.power.rules()).chain(self.identity_rules());
        let broken = rules.into_iter().find(|rule| !rule.0);
        broken.map_or(Ok(()), |(_, key, problem)| Err(BadSpec { key, problem }))
    }

    /// Rules of the enhanced area of a card that is [`partitioned`](Self::partitioned).
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
}
