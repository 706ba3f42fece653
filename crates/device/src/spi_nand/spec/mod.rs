//! Specification of a SPI NAND: the `[chip]` table of a part file.

mod tables;

pub use tables::{
    ChipEcc, Continuous, ContinuousKind, EccStatus, HighSpeed, IdRead, LoadVariant, Octal, OobRange,
    OobTable, Randomizer, ReadRetry, SpiNandGeometry, SpiNandOtp, SpiNandQuirks, SpiNandTiming,
};

use crate::array::SubPages;
use crate::cells::{ErrorSpec, WearSpec};
use crate::nand::facts::{Marker, NandFacts, check_cells, product};
use crate::spec::BadSpec;
use crate::spi::{Mode, Variant};
use crate::units::{self, TypMaxUs};
use floatgate_mtd::Nanos;
use serde::Deserialize;

/// Specification of a SPI NAND chip.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpiNandSpec {
    /// ID bytes that READ ID returns.
    pub id: Vec<u8>,
    /// Form of the READ ID command.
    #[serde(default)]
    pub id_read: IdRead,
    /// Numbers and sizes of pages, blocks and dies.
    pub geometry: SpiNandGeometry,
    /// ECC that the chip requires, and whether the chip has an engine for it.
    pub ecc: ChipEcc,
    /// Register that reports the number of corrected bits of the on-die ECC.
    #[serde(default)]
    pub ecc_status: EccStatus,
    /// Use of the OOB bytes.
    pub oob: OobTable,
    /// Times of the array.
    pub timing: SpiNandTiming,
    /// Highest clock if all phases have single rate, in Hz.
    #[serde(with = "units::hz")]
    pub sdr_hz: u64,
    /// Highest clock if a phase has double rate, in Hz; 0 without double rate.
    #[serde(default, with = "units::hz")]
    pub dtr_hz: u64,
    /// Commands that read from the cache.
    pub reads: Vec<Variant>,
    /// Commands that load data to program into the cache.
    pub loads: Vec<LoadVariant>,
    /// True if commands with four lanes need configuration bit 0.
    #[serde(default)]
    pub quad_enable: bool,
    /// Mode bit that must be set for commands that use several lanes at single rate and have no `max_hz`; none if the
    /// chip has no such bit.
    #[serde(default)]
    pub high_speed: Option<HighSpeed>,
    /// Stateful octal mode; none if the chip has no such mode.
    #[serde(default)]
    pub octal: Option<Octal>,
    /// Continuous read; none if the chip does not have it.
    #[serde(default)]
    pub continuous: Option<Continuous>,
    /// One-time-programmable pages; none if the chip has no such pages.
    #[serde(default)]
    pub otp: Option<SpiNandOtp>,
    /// Randomizer of the data; none if the chip has no randomizer.
    #[serde(default)]
    pub randomizer: Option<Randomizer>,
    /// Read retry; none if the chip has no read retry.
    #[serde(default)]
    pub read_retry: Option<ReadRetry>,
    /// Value of the block protection register after power-up; all blocks are then locked.
    pub protection_reset: u8,
    /// Value of the configuration register after power-up.
    pub config_reset: u8,
    /// Number of programs of a page between two erases (NOP). The page has this number of sub-pages, rounded down to
    /// a power of two, and each sub-page may be programmed once.
    #[serde(default = "four")]
    pub nop: u8,
    /// Program/erase cycles per block that the data sheet guarantees; 0 if unknown.
    #[serde(default)]
    pub endurance_cycles: u32,
    /// Data retention that the data sheet guarantees, in years; 0 if unknown.
    #[serde(default)]
    pub retention_years: u32,
    /// True if an erase ends as soon as a verify finds all cells erased, so that a blank block takes one pulse. Not
    /// all makers' chips do this.
    #[serde(default)]
    pub blank_erase_stops: bool,
    /// Measured wear of the blocks; typical wear for the data sheet's figures when absent.
    #[serde(default)]
    pub wear: Option<WearSpec>,
    /// Measured bit error rates; typical rates for the data sheet's figures when absent.
    #[serde(default)]
    pub errors: Option<ErrorSpec>,
    /// Differences from the usual behaviour.
    #[serde(default)]
    pub quirks: SpiNandQuirks,
}

/// Maximum time in the chip's parameter page: 16 bits of microseconds.
const STATED_MAX: Nanos = Nanos::from_us(65_535);

const fn four() -> u8 {
    4
}

impl SpiNandSpec {
    /// Highest clock of operations in `mode` without a limit of their own, Hz.
    pub fn max_hz(&self, mode: Mode) -> u32 {
        let dtr = mode.cmd.dtr || mode.addr.dtr || mode.data.dtr;
        u32::try_from(if dtr { self.dtr_hz } else { self.sdr_hz }).unwrap_or(u32::MAX)
    }

    /// Highest clock of `variant`, Hz.
    pub fn variant_hz(&self, variant: &Variant) -> u32 {
        let own = u32::try_from(variant.max_hz).unwrap_or(u32::MAX);
        let chip = self.max_hz(variant.mode);
        if own == 0 { chip } else { own.min(chip) }
    }

    /// True if `variant` needs the high speed bit: it uses several lanes at single rate, without a clock limit of its own (Linux:
    /// `w25n0xjw_hs_cfg`).
    pub fn needs_high_speed(&self, variant: &Variant) -> bool {
        let mode = variant.mode;
        let dtr = mode.cmd.dtr || mode.addr.dtr || mode.data.dtr;
        self.high_speed.is_some() && variant.max_hz == 0 && !dtr && mode != Mode::SINGLE
    }

    /// Number of dies that are selected by command; each has its own registers, cache and array.
    pub const fn selectable_dies(&self) -> u32 {
        if self.quirks.die_select { self.geometry.luns } else { 1 }
    }

    /// Number of blocks of a die with its own registers.
    pub const fn blocks_per_die(&self) -> u32 {
        self.geometry.blocks() / self.selectable_dies()
    }

    /// Properties of the chip that do not depend on its bus.
    pub fn facts(&self) -> NandFacts {
        let g = &self.geometry;
        NandFacts {
            page_bytes: g.page_bytes,
            oob_bytes: g.oob_bytes,
            // Linux does not support sub-pages on SPI NAND.
            sub_page_bytes: g.page_bytes,
            pages_per_block: g.pages_per_block,
            blocks: product(&[g.blocks_per_lun, g.luns]),
            max_bad_blocks_per_lun: g.max_bad_blocks_per_lun,
            max_bad_blocks: product(&[g.max_bad_blocks_per_lun, g.luns]),
            bits_per_cell: u8::try_from(g.bits_per_cell).unwrap_or(u8::MAX),
            marker: Marker { byte: 0, pages: vec![0] },
            ecc: self.ecc.requirement(),
            on_die_ecc: self.ecc.on_die,
            endurance_cycles: u64::from(self.endurance_cycles),
            t_r_us: TypMaxUs { typ: self.timing.t_rd_us, max: self.timing.t_rd_us },
            t_prog_us: self.timing.t_prog_us,
            t_bers_us: self.timing.t_bers_us,
            blank_erase_stops: self.blank_erase_stops,
            wear: self.wear,
            errors: self.errors,
        }
    }

    /// Limits of the chip for programs of a page between two erases.
    pub fn sub_pages(&self) -> SubPages {
        SubPages::new(self.geometry.page_bytes, self.nop)
    }

    /// Checks rules that deserialisation does not enforce.
    ///
    /// # Errors
    /// The first impossible value.
    pub fn check(&self) -> Result<(), BadSpec> {
        let g = &self.geometry;
        let text_ok = |o: &SpiNandOtp| o.manufacturer.len() <= 12 && o.model.len() <= 20;
        let octal_ok = |o: &Octal| {
            !o.io_octal_dtr.is_empty()
                && (2..=4).contains(&o.row_bytes)
                && (!o.packed_rows || o.row_bytes == 2)
        };
        let rules = [
            ("id", !self.id.is_empty() && self.id.len() <= 5, "an id has 1 to 5 bytes"),
            (
                "geometry.page_bytes",
                g.page_bytes.is_power_of_two() && g.page_bytes >= 512,
                "a power of two from 512",
            ),
            (
                "geometry.oob_bytes",
                (floatgate_ecc::MARKER..g.page_bytes).contains(&g.oob_bytes),
                "from 2 to the page size",
            ),
            ("geometry.pages_per_block", (1..=512).contains(&g.pages_per_block), "1 to 512"),
            ("geometry.blocks_per_lun", (1..=65_536).contains(&g.blocks_per_lun), "1 to 65536"),
            ("geometry.planes", g.planes.is_power_of_two() && g.planes <= 4, "1, 2 or 4"),
            ("geometry.luns", (1..=16).contains(&g.luns), "1 to 16"),
            ("geometry.page_bytes", g.page_bytes <= 65_536, "at most 64 KiB"),
            ("ecc.strength", self.ecc.strength <= 1024, "at most 1024 bits"),
            (
                "ecc.strength",
                !self.ecc.on_die || self.ecc.strength > 0,
                "an engine on the die corrects at least 1 bit",
            ),
            (
                "ecc.strength",
                self.ecc.on_die || self.ecc.strength <= 255,
                "at most 255 bits, which its parameter page holds, unless it is on the die",
            ),
            ("geometry.oob_bytes", g.oob_bytes <= 65_535, "at most 65535"),
            ("geometry.bits_per_cell", g.bits_per_cell <= 255, "at most 255"),
            ("geometry.max_bad_blocks_per_lun", g.max_bad_blocks_per_lun <= 65_535, "at most 65535"),
            ("timing.t_prog_us", self.timing.t_prog_us.max <= STATED_MAX, "at most 65535 us"),
            ("timing.t_bers_us", self.timing.t_bers_us.max <= STATED_MAX, "at most 65535 us"),
            ("ecc.step_bytes", (1..=g.page_bytes).contains(&self.ecc.step_bytes), "from 1 to the page size"),
            ("oob", self.oob.layout(g.oob_bytes).is_ok(), "reaches beyond the OOB"),
            ("sdr_hz", self.sdr_hz > 0, "more than 0 Hz"),
            ("reads", self.reads.iter().any(|v| v.mode == Mode::SINGLE), "needs one in 1S-1S-1S"),
            ("loads", self.loads.iter().any(|v| v.mode == Mode::SINGLE), "needs one in 1S-1S-1S"),
            ("otp", self.otp.as_ref().is_none_or(text_ok), "names of at most 12 and 20 characters"),
            ("otp.user_pages", self.otp.as_ref().is_none_or(|o| o.user_pages <= 256), "at most 256"),
            ("nop", self.nop > 0, "at least 1"),
            ("timing.t_rd_us", self.timing.t_rd_us > Nanos::ZERO, "0, and no array works in no time"),
            (
                "read_retry.lowered",
                self.read_retry.as_ref().is_none_or(ReadRetry::is_possible),
                "a shift per mode, between -4 and 4",
            ),
            ("randomizer.bit", self.randomizer.is_none_or(|r| r.bit < 8), "at most 7"),
            (
                "octal",
                self.octal.as_ref().is_none_or(octal_ok),
                "needs an I/O mode and 2 to 4 row bytes, with packed rows 2",
            ),
        ];
        if let Some((key, _, why)) = rules.into_iter().find(|rule| !rule.1) {
            return Err(BadSpec::new(key, why));
        }
        check_cells(self.wear.as_ref(), self.errors.as_ref()).map_err(|(key, why)| BadSpec::new(key, why))
    }
}
