//! Specification of a card: the `[card]` table of a part file. The name of each key ends with the unit of its value.

mod check;

use crate::bus::BusMode;
use crate::power::PowerSpec;
use floatgate_device::cells::{ErrorSpec, Promise};
use floatgate_device::ecc_engine::EccRequirement;
use floatgate_device::units;
use floatgate_mtd::Nanos;
use serde::{Deserialize, Serialize};

/// Mapping of map units to pages of the NAND: `card.mapping`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// An allocation unit is one block, written in order, and only open allocation units can be written.
    #[default]
    Block,
    /// Allocation units are mapped as by `block`, but short requests that are not in order go to log blocks, which all
    /// allocation units share.
    Hybrid,
    /// A map unit can be on any page, and garbage collection frees blocks.
    Page,
}

/// Choice of the block that garbage collection cleans: `card.collector`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collector {
    /// Block with the fewest valid map units.
    #[default]
    Greedy,
    /// Block that was opened first.
    Fifo,
}

/// Treatment of the first allocation units, in which FAT keeps its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FatKind {
    /// The area is treated like all other allocation units.
    #[default]
    None,
    /// Allocation units of the area stay open and take writes in any order, and writes elsewhere do not close them.
    Pinned,
    /// The area is mapped by map units, in its own blocks.
    Page,
}

/// The area in which FAT keeps its tables: `[card.fat]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FatSpec {
    /// Treatment of the area.
    pub kind: FatKind,
    /// Number of the first allocation unit of the area.
    pub first_au: u32,
    /// Number of allocation units in the area.
    pub aus: u32,
    /// Number of blocks of the area beyond its size (kind `page`).
    pub spare_blocks: u32,
}

/// Behaviour of a fake card for accesses beyond its real size: `card.fake.kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FakeKind {
    /// Addresses wrap around, so that the beginning of the card follows its end.
    Wraps,
    /// Writes are discarded, and reads return zeros.
    Limbo,
    /// All accesses go to the last real sector.
    LastSector,
    /// Address bits above the next power of two are ignored, and addresses between the real size and this power of
    /// two behave as `limbo`.
    Chain,
    /// Accesses behave as with `limbo`, but the most recently written sectors are kept in a cache.
    Cached,
}

impl FakeKind {
    /// All kinds of fake cards.
    pub const ALL: [Self; 5] = [Self::Wraps, Self::Limbo, Self::LastSector, Self::Chain, Self::Cached];
}

/// False capacity of a fake card: `[card.fake]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FakeSpec {
    /// Behaviour of accesses beyond the real size.
    pub kind: FakeKind,
    /// Capacity that the card reports, in bytes.
    #[serde(with = "units::bytes")]
    pub claimed_bytes: u64,
}

/// Firmware that alters stored data: `[card.evil]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvilSpec {
    /// One in this number of sectors is altered: the first read after a write returns the data, and each later read
    /// returns other data.
    pub one_in_sectors: u32,
}

/// Blocks with one bit per cell, which serve as SLC cache or as log blocks: `[card.slc]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlcSpec {
    /// Number of blocks of the SLC cache; 0 for a card without a cache.
    pub blocks: u32,
    /// True if the log blocks (mapping `hybrid`) also hold one bit per cell.
    pub log: bool,
    /// Time to read a page with one bit per cell into the NAND's register, us.
    #[serde(with = "units::us")]
    pub t_r_us: Nanos,
    /// Time to program a page with one bit per cell, us.
    #[serde(with = "units::us")]
    pub t_prog_us: Nanos,
}

/// Area that permanently holds one bit per cell (enhanced area, pSLC): `[card.enhanced]`. Its pages have the times of
/// `[card.slc]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnhancedSpec {
    /// Size of the area at the beginning of the card, in bytes as the host sees it; 0 for none. The capacity of the
    /// card decreases by this size times the number of bits per cell less one.
    #[serde(with = "units::bytes")]
    pub bytes: u64,
    /// Rated program/erase cycles of a block of the area; 0 for ten times the cycles of the other blocks.
    pub endurance_cycles: u32,
}

/// Damage by a power loss, in addition to the damage that a host must expect: `[card.loss]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossSpec {
    /// True if a flush ends although data is still in RAM, so that a power loss destroys data that the host believes
    /// to be safe.
    pub ignores_flush: bool,
    /// Number of pages before a torn page that also lose their contents, because they share its cells. These pages were
    /// programmed earlier.
    pub torn_pages: u32,
    /// Number of power losses in a million after which the card no longer starts; only losses during a program or an
    /// erase count.
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
    /// Time to look up the map of each further allocation unit within one read, us.
    #[serde(default, with = "units::us")]
    pub au_switch_us: Nanos,
}

/// Processor, ROM and ECC engine of the controller: `[card.controller]`. Its times come in addition to those of `[card.timing]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerSpec {
    /// Clock of the processor in Hz; 0 if `card.timing` already contains the time of the firmware.
    pub clock_hz: u32,
    /// Number of clock cycles of the firmware per read request.
    pub read_cycles: u32,
    /// Number of clock cycles of the firmware per write, discard or flush request.
    pub write_cycles: u32,
    /// Time of the ECC engine to decode 1024 bytes, ns. The card has one engine for all dies.
    #[serde(with = "units::ns")]
    pub ecc_ns_per_kib: Nanos,
    /// Size of the firmware in bytes.
    #[serde(with = "units::bytes")]
    pub firmware_bytes: u64,
    /// Size of the firmware's part in the ROM in bytes. The rest is read from the firmware blocks at power-on.
    #[serde(with = "units::bytes")]
    pub rom_bytes: u64,
}

impl ControllerSpec {
    /// Time of the processor for a number of clock cycles; 0 without a clock.
    pub(crate) fn time(&self, cycles: u32) -> Nanos {
        match self.clock_hz {
            0 => Nanos::ZERO,
            hz => Nanos::from_ns((u64::from(cycles) * 1_000_000_000).div_ceil(hz.into())),
        }
    }

    /// Bytes of the firmware that are read from the flash at power-on.
    pub(crate) const fn loaded_bytes(&self) -> u64 {
        self.firmware_bytes.saturating_sub(self.rom_bytes)
    }
}

/// Wear of the blocks, and the card's measures against it: `[card.wear]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearSpec {
    /// Rated program/erase cycles of a block.
    pub endurance_cycles: u32,
    /// Mean number of cycles until an erase of a block fails, as a multiple of the rated cycles.
    pub life_factor: f64,
    /// Standard deviation of the natural logarithm of a block's life.
    pub life_spread: f64,
    /// Difference of erase counts above which static data is moved (static wear levelling); 0 for no static wear
    /// levelling.
    pub static_difference: u32,
    /// Number of reads of a block after which its data is moved (refresh); 0 for no refresh.
    pub refresh_reads: u32,
    /// Number of correctable bits per ECC step.
    pub ecc_strength: u32,
    /// Number of data bytes per ECC step.
    pub ecc_step_bytes: u32,
    /// Number of page programs in a million that fail. The block is then retired, and its data moves to a spare
    /// block.
    #[serde(default)]
    pub program_failures_per_million: u32,
    /// Number of cycles after which the card heats a block, which anneals the damage of its cells; 0 for a card without
    /// heaters.
    #[serde(default)]
    pub anneal_cycles: u32,
    /// Share of the damage since the last annealing that an annealing repairs, from 0 to below 1; the rest is permanent.
    #[serde(default)]
    pub anneal_share: f64,
    /// Time to heat a block, us, in addition to the erase before it.
    #[serde(default, with = "units::us")]
    pub anneal_us: Nanos,
}

impl WearSpec {
    /// True if a block is heated after this number of erases.
    pub(crate) const fn is_annealed_after(&self, erases: u32) -> bool {
        self.anneal_cycles > 0 && erases.is_multiple_of(self.anneal_cycles)
    }

    /// Damage of a block after a number of erases, as the number of cycles that cause it without annealing. Cycles since the last annealing
    /// count in full, earlier ones by the share that annealing does not repair.
    pub fn damage(&self, erases: f64) -> f64 {
        let every = f64::from(self.anneal_cycles);
        if every <= 0.0 {
            return erases;
        }
        let recent = erases % every;
        recent + (erases - recent) * (1.0 - self.anneal_share)
    }

    /// Number of erases after which a block first has as much damage as `cycles` cause without annealing.
    pub fn erases_until(&self, cycles: f64) -> f64 {
        let every = f64::from(self.anneal_cycles);
        if every <= 0.0 || cycles < every {
            return cycles;
        }
        // Before an annealing, the damage since the last one is less than that of all cycles between them.
        let permanent = every * (1.0 - self.anneal_share);
        let anneals = libm::floor((cycles - every) / permanent) + 1.0;
        anneals * every + cycles - anneals * permanent
    }

    /// Number of erases of a block until it has the damage of its rated cycles: more than these if the card anneals its blocks.
    pub fn rated_erases(&self) -> f64 {
        self.erases_until(self.endurance_cycles.into())
    }

    /// Number of cycles of a block until an erase fails. `deviation` is the distance of the block's life from the mean,
    /// in standard deviations of its logarithm.
    pub fn block_life(&self, deviation: f64) -> f64 {
        let spread = self.life_spread;
        let mean = f64::from(self.endurance_cycles) * self.life_factor;
        mean * libm::exp(deviation * spread - spread * spread / 2.0)
    }
}

/// Host of a card: `[card.host]`. If the host gives up a request after a timeout, the card still finishes it.
///
/// Linux gives up a read from an SD card if a block has not arrived after 100 ms, and a write if the card is busy for 10 s
/// (`MMC_BLK_TIMEOUT_MS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// Time after which the host gives up a read, us; 0 for no timeout.
    #[serde(with = "units::us")]
    pub read_timeout_us: Nanos,
    /// Time after which the host gives up a write or flush, us; 0 for no timeout.
    #[serde(with = "units::us")]
    pub write_timeout_us: Nanos,
    /// Time after which the host gives up a discard, us; 0 for no timeout.
    #[serde(with = "units::us")]
    pub erase_timeout_us: Nanos,
    /// Fastest interface mode of the host, which limits the mode of the card; none if the host supports all modes.
    pub bus: Option<BusMode>,
    /// Highest clock that the host generates for the interface, in Hz; 0 if the host generates the clock of each
    /// mode. Most hosts divide a clock by whole numbers, so a card has a lower clock than its mode allows.
    pub clock_hz: u32,
    /// CPU time of the host per request, us: filesystem, block layer, driver, interrupts.
    #[serde(with = "units::us")]
    pub request_us: Nanos,
    /// CPU time of the host for data, in ns per 1000 bytes.
    pub copy_ns_per_kb: u32,
}

impl HostSpec {
    /// CPU time of the host for a number of requests with `bytes` of data in total.
    pub fn cpu_time(&self, requests: u64, bytes: u64) -> Nanos {
        self.request_us * requests + Nanos::from_ns(bytes * u64::from(self.copy_ns_per_kb) / 1000)
    }
}

/// Maker, product and date that the card reports: `[card.identity]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdentitySpec {
    /// Manufacturer ID, assigned by the SD Association or JEDEC.
    pub manufacturer_id: u8,
    /// OEM ID: two characters of the maker or brand.
    pub oem: String,
    /// Product name: five characters on SD cards, six on eMMC.
    pub name: String,
    /// Product revision n.m: n in bits 7:4, m in bits 3:0.
    pub revision: u8,
    /// Serial number.
    pub serial: u32,
    /// Year of manufacture.
    pub year: u16,
    /// Month of manufacture, 1 to 12.
    pub month: u8,
}

/// Speed classes that are printed on the card: `[card.classes]`. The value 0 means that a class is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassSpec {
    /// Speed class: 2, 4, 6 or 10 MB/s.
    pub speed: u8,
    /// UHS speed grade: 1 for 10 MB/s, 3 for 30 MB/s.
    pub uhs: u8,
    /// Video speed class: 6, 10, 30, 60 or 90 MB/s.
    pub video: u8,
    /// Application performance class: 1 for A1, 2 for A2.
    pub app: u8,
}

/// SDIO functions of a card, in addition to its memory: `[card.io_function]`. The host uses these numbers to find a
/// driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IoFunctionSpec {
    /// Code of the standard interface: 1 UART, 2 and 3 Bluetooth, 4 GPS, 5 camera, 7 WLAN (function basic registers).
    pub interface: u8,
    /// Vendor ID by which Linux finds a driver (tuple CISTPL_MANFID).
    pub vendor: u16,
    /// Device ID by which Linux finds a driver (tuple CISTPL_MANFID).
    pub device: u16,
    /// Number of functions beside the memory, from 1 to 7. All have the same interface and IDs.
    #[serde(default = "one_function")]
    pub functions: u8,
}

const fn one_function() -> u8 {
    1
}

/// Partitions and background work that an eMMC reports: `[card.mmc]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MmcSpec {
    /// Size of each of the two boot partitions in bytes: a multiple of 128 KiB.
    #[serde(with = "units::bytes")]
    pub boot_bytes: u64,
    /// Size of the replay protected memory block (RPMB) in bytes: a multiple of 128 KiB.
    #[serde(with = "units::bytes")]
    pub rpmb_bytes: u64,
    /// True if the host can set a part of the user area to one bit per cell, once (enhanced area, pSLC).
    pub enhanced: bool,
    /// True if the card reports its background work to the host, and does it while the host sends no requests.
    pub background: bool,
}

/// Specification of a card: the `[card]` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardSpec {
    /// Size of the card as the host sees it, in bytes.
    #[serde(with = "units::bytes")]
    pub capacity_bytes: u64,
    /// Size of an allocation unit (AU) and of a NAND block over all planes and dies, in bytes.
    #[serde(with = "units::bytes")]
    pub au_bytes: u64,
    /// Number of allocation units that can be open for sequential writes at the same time, including the units of a
    /// pinned FAT area.
    pub open_aus: u32,
    /// Number of the open allocation units that accept writes in any order.
    pub open_aus_random: u32,
    /// Size of a page over all planes in bytes; a page is programmed at once.
    #[serde(with = "units::bytes")]
    pub page_bytes: u64,
    /// Number of planes over which a page is spread, in equal pieces. A read loads only the pieces that it needs.
    #[serde(default = "one_plane")]
    pub planes: u32,
    /// Size of a map unit in bytes, the smallest range that the card maps; 0 for a page. A smaller write reads,
    /// changes and writes a whole unit.
    #[serde(default, with = "units::bytes")]
    pub map_unit_bytes: u64,
    /// Mapping of map units to pages of the NAND.
    pub mapping: Mapping,
    /// Choice of the block that garbage collection cleans (mapping `page`).
    #[serde(default)]
    pub collector: Collector,
    /// Number of shared log blocks (mapping `hybrid`).
    #[serde(default)]
    pub log_blocks: u32,
    /// Length of the longest request that goes to the log, in bytes; 0 for no limit. A longer request opens its
    /// allocation unit (mapping `hybrid`).
    #[serde(default, with = "units::bytes")]
    pub log_request_bytes: u64,
    /// Number of NAND blocks beyond those that hold the capacity: open and log blocks, SLC cache, over-provisioning,
    /// replacements.
    pub spare_blocks: u32,
    /// Number of spare blocks that are bad from the factory.
    #[serde(default)]
    pub bad_blocks: u32,
    /// Number of spare blocks that hold the controller's firmware and its tables.
    #[serde(default)]
    pub firmware_blocks: u32,
    /// True if the chip can copy a page within a die without a transfer through the controller (copy-back). The map
    /// unit must then be a page.
    #[serde(default)]
    pub copy_back: bool,
    /// Number of free blocks that the card prepares while the host sends no requests (mapping `page`).
    #[serde(default)]
    pub idle_blocks: u32,
    /// Time without requests after which the card starts background work, us.
    #[serde(default = "idle_after", with = "units::us")]
    pub idle_after_us: Nanos,
    /// Size of the RAM that buffers data for the NAND, in bytes.
    #[serde(with = "units::bytes")]
    pub buffer_bytes: u64,
    /// True if the card stays busy with a write until the pages of its data are programmed; data of an incomplete map
    /// unit waits in RAM. SD cards before version 6 have no flush, so a card cannot acknowledge data in RAM and
    /// guarantee to keep it.
    #[serde(default)]
    pub write_through: bool,
    /// Number of dies that work in parallel; pages of a block alternate between them.
    pub dies: u32,
    /// Number of bits per cell.
    pub bits_per_cell: u8,
    /// Interface to the host.
    pub bus: BusMode,
    /// Times of the NAND and of the controller.
    pub timing: TimingSpec,
    /// Processor, ROM and ECC engine of the controller.
    #[serde(default)]
    pub controller: ControllerSpec,
    /// Area in which FAT keeps its tables.
    #[serde(default)]
    pub fat: FatSpec,
    /// Blocks with one bit per cell: the SLC cache, and the log blocks.
    #[serde(default)]
    pub slc: SlcSpec,
    /// Area that permanently holds one bit per cell (enhanced area, pSLC).
    #[serde(default)]
    pub enhanced: EnhancedSpec,
    /// Wear of the blocks, and the card's measures against it.
    pub wear: WearSpec,
    /// Supply voltage of the card, and its currents.
    #[serde(default)]
    pub power: PowerSpec,
    /// Timeouts, interface and CPU time of the host.
    #[serde(default)]
    pub host: HostSpec,
    /// Maker, product and date that the card reports.
    #[serde(default)]
    pub identity: IdentitySpec,
    /// Speed classes that are printed on the card; 0 for a missing class.
    #[serde(default)]
    pub classes: ClassSpec,
    /// SDIO functions in addition to the memory; none for a card with memory only.
    #[serde(default)]
    pub io_function: Option<IoFunctionSpec>,
    /// False capacity; none for an honest card.
    #[serde(default)]
    pub fake: Option<FakeSpec>,
    /// Firmware that alters stored data; none for an honest card.
    #[serde(default)]
    pub evil: Option<EvilSpec>,
    /// Damage by a power loss, in addition to the damage that a host must expect.
    #[serde(default)]
    pub loss: LossSpec,
    /// Partitions and background work that an eMMC reports.
    #[serde(default)]
    pub mmc: MmcSpec,
}

/// Default of `idle_after_us`. No maker publishes this time. It is long compared with the gap between two requests, and
/// short compared with a pause of a user.
const fn idle_after() -> Nanos {
    Nanos::from_ms(50)
}

const fn one_plane() -> u32 {
    1
}

/// Error for an impossible value in the specification of a card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`card.{key}`: {problem}")]
pub struct BadSpec {
    /// Dotted path of the key, below `card`.
    pub key: &'static str,
    /// Description of the fault.
    pub problem: &'static str,
}

/// Maximum number of map units in a group of discards; its bitmap has 4 KiB.
const GROUP_UNITS: u64 = 32 << 10;

/// Unit of the sizes of boot partitions and RPMB, B (JESD84-B51, chapter 7.4).
pub(crate) const PARTITION_UNIT: u64 = 128 << 10;

/// Number of free blocks that garbage collection needs: one for new data, one for moved data, and an erased one for the
/// recovery after a power loss.
pub(crate) const RESERVE_BLOCKS: u32 = 3;

/// Number of blocks of the enhanced area that are open for writing.
const ENHANCED_WRITTEN: u64 = 1;
/// Number of data blocks in the enhanced area per spare block. The number is an assumption, like the spare blocks of
/// cards in the catalogue.
const ENHANCED_SPARE: u64 = 16;
/// Ratio of the rated cycles of a block with one bit per cell to the rated cycles of the same block with more bits. Makers state 20000 to
/// 30000 cycles for pSLC, and 3000 for MLC.
const ENHANCED_CYCLES: u32 = 10;

impl CardSpec {
    /// True for an eMMC, false for an SD card.
    pub(crate) fn is_mmc(&self) -> bool {
        self.bus == BusMode::Hs200
    }

    /// Capacity that the card reports, in bytes; for a fake, the false one.
    pub(crate) fn stated_bytes(&self) -> u64 {
        self.fake.map_or(self.capacity_bytes, |fake| fake.claimed_bytes)
    }

    /// Size of a map unit, in bytes.
    pub fn unit_bytes(&self) -> u64 {
        if self.map_unit_bytes == 0 { self.page_bytes } else { self.map_unit_bytes }
    }

    /// Number of allocation units of the capacity, including an incomplete last one.
    pub fn aus(&self) -> u64 {
        self.capacity_bytes.div_ceil(self.au_bytes.max(1))
    }

    /// Number of NAND blocks.
    pub fn blocks(&self) -> u64 {
        self.aus() + u64::from(self.spare_blocks)
    }

    /// Specification of the card after the host has set up its enhanced area (`mmc enh_area set`), which is possible once. The blocks of
    /// the area then hold less data, so the card is smaller.
    #[must_use]
    pub fn partitioned(mut self) -> Self {
        // An area that is too large leaves a capacity of 0, which `check` reports.
        let lost = self.enhanced_loss().min(self.capacity_bytes);
        self.capacity_bytes -= lost;
        self.spare_blocks = self.spare_blocks.saturating_add((lost / self.au_bytes.max(1)) as u32);
        self
    }

    /// Decrease of the capacity by the enhanced area, in bytes, in addition to the size of the area.
    pub(crate) fn enhanced_loss(&self) -> u64 {
        self.enhanced.bytes.saturating_mul(u64::from(self.bits_per_cell).saturating_sub(1))
    }

    /// Number of data bytes in a block with one bit per cell.
    fn enhanced_block_bytes(&self) -> u64 {
        let pages = self.au_bytes / self.page_bytes.max(1) / u64::from(self.bits_per_cell.max(1));
        pages * self.page_bytes
    }

    /// Number of blocks that the data of the enhanced area fills.
    fn enhanced_data_blocks(&self) -> u64 {
        self.enhanced.bytes.div_ceil(self.enhanced_block_bytes().max(1))
    }

    /// Number of blocks in the enhanced area: for its data, for open blocks and garbage collection, and a sixteenth of
    /// the data blocks as spare blocks.
    pub fn enhanced_blocks(&self) -> u64 {
        match self.enhanced_data_blocks() {
            0 => 0,
            data => data + u64::from(RESERVE_BLOCKS) + ENHANCED_WRITTEN + data.div_ceil(ENHANCED_SPARE),
        }
    }

    /// Number of blocks of the enhanced area that may fail before the area becomes read-only.
    pub fn enhanced_to_spare(&self) -> u64 {
        self.enhanced_data_blocks().div_ceil(ENHANCED_SPARE)
    }

    /// Number of the first block of the enhanced area, which consists of the last blocks of the card.
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

    /// Time of the controller's firmware per read request.
    pub(crate) fn read_command(&self) -> Nanos {
        self.timing.read_command_us + self.controller.time(self.controller.read_cycles)
    }

    /// Time of the controller's firmware per write request.
    pub(crate) fn write_command(&self) -> Nanos {
        self.timing.write_command_us + self.controller.time(self.controller.write_cycles)
    }

    /// Time of the ECC engine for a page.
    pub(crate) fn page_decode(&self) -> Nanos {
        Nanos::from_ns(self.page_bytes * self.controller.ecc_ns_per_kib.as_ns() / 1024)
    }

    /// Pages of the firmware that are read at power-on.
    pub(crate) fn firmware_pages(&self) -> u64 {
        self.controller.loaded_bytes().div_ceil(self.page_bytes.max(1))
    }

    /// Number of open allocation units that are reserved for the FAT area.
    pub(crate) fn pinned_aus(&self) -> u32 {
        if self.fat.kind == FatKind::Pinned { self.fat.aus } else { 0 }
    }

    /// Minimum number of blocks beyond the capacity with which the card can work.
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
        // The capacity already includes some of the area's blocks.
        let enhanced = self.enhanced_blocks().saturating_sub(self.enhanced.bytes / self.au_bytes.max(1));
        fat + written + slc + enhanced + u64::from(self.firmware_blocks) + self.reserve_blocks()
    }

    /// True if some blocks hold one bit per cell.
    const fn has_slc(&self) -> bool {
        self.slc.blocks > 0 || self.slc.log || self.enhanced.bytes > 0
    }

    /// Number of map units in a group of discards. The bitmap of a group fits into one map unit.
    pub(crate) fn discard_group_units(&self) -> u64 {
        self.unit_bytes().saturating_mul(8).clamp(64, GROUP_UNITS)
    }

    /// Number of groups of discards; each group has one bitmap.
    pub(crate) fn discard_groups(&self) -> u64 {
        (self.capacity_bytes / self.unit_bytes().max(1)).div_ceil(self.discard_group_units())
    }

    /// Number of blocks that hold the bitmaps of discards. The number includes space to write a bitmap while another
    /// block is cleaned.
    pub(crate) fn discard_blocks(&self) -> u64 {
        let [slots, page] = [self.au_bytes, self.page_bytes].map(|bytes| bytes / self.unit_bytes().max(1));
        (self.discard_groups() + 2 * page) / slots.max(1) + 1
    }

    /// Number of blocks that may fail before the card becomes read-only.
    pub fn blocks_to_spare(&self) -> u64 {
        u64::from(self.spare_blocks).saturating_sub(self.needed_spare_blocks() + u64::from(self.bad_blocks))
    }

    /// Number of blocks for garbage collection and for the bitmaps of discards, in addition to the blocks with the
    /// host's data.
    pub fn reserve_blocks(&self) -> u64 {
        u64::from(RESERVE_BLOCKS) + self.discard_blocks()
    }

    /// Upper bound of the time to rebuild the map after a power loss, including interrupted merges. It is not an estimate.
    ///
    /// For each closed block its summary is read, and for each other block all of its pages. The number of other blocks is at most the
    /// number of spare blocks. Then allocation units are merged: open ones, those with data in the log, and those with data in an excess
    /// block of the SLC cache. A page-mapped card cleans a few blocks instead. Each bitmap of discards is read.
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
        let read = t_r_us.max(self.slc.t_r_us) * 8 + transfer + self.page_decode();
        let program = t_prog_us.max(self.slc.t_prog_us) + transfer;
        // A unit of a merge may be read from a page of its own.
        let merge = read * slots + program * (pages + 2) + (t_bers_us + self.wear.anneal_us) * 2;
        let scan = 2 * self.blocks() + spare * (pages + 1) + self.discard_groups() + self.firmware_pages();
        let all = read * scan + merge * (merges + self.discard_blocks());
        all * u64::from(self.stretch())
    }

    /// Maximum factor by which a limited supply makes operations longer.
    fn stretch(&self) -> u32 {
        self.power.stretch_max(self.dies)
    }

    /// Small card for tests, with the same policies, page size and times, and with sixteen allocation units of sixteen pages. Wear, wear
    /// levelling and cleaning then happen within hundreds of requests.
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
        // The whole firmware is in the ROM: it may be larger than the small card.
        small.controller.rom_bytes = self.controller.firmware_bytes;
        (small.fat.first_au, small.fat.aus) = (self.fat.first_au.min(4), self.fat.aus.min(2));
        small.fat.spare_blocks = self.fat.spare_blocks.min(2);
        small.spare_blocks = small.needed_spare_blocks() as u32 + small.bad_blocks + 2;
        (small.wear.static_difference, small.wear.refresh_reads) = (2, 60);
        (small.fake, small.evil) = (None, None);
        small
    }

    /// Bit error rates of the cells, computed from the rated cycles and the ECC.
    pub(crate) fn errors(&self) -> ErrorSpec {
        let ecc = EccRequirement { strength: self.wear.ecc_strength, step_bytes: self.wear.ecc_step_bytes };
        ErrorSpec::typical(Promise {
            ecc,
            endurance_cycles: u64::from(self.wear.endurance_cycles),
            bits_per_cell: self.bits_per_cell,
        })
    }
}
