//! Tables inside a SPI NAND's `[chip]` table.

use crate::ecc_engine::EccRequirement;
use crate::spi::{Mode, Variant};
use crate::units::{self, TypMaxUs};
use floatgate_ecc::{LayoutError, OobLayout, Stride};
use floatgate_mtd::Nanos;
use serde::Deserialize;

/// Form of READ ID (Linux tries all three).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdRead {
    /// The ID follows the command directly.
    Opcode,
    /// An address byte 0 is before the ID.
    Address,
    /// A dummy byte is before the ID.
    #[default]
    Dummy,
}

/// Numbers and sizes of pages, blocks and dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpiNandGeometry {
    /// Size of a page without OOB in bytes, a power of two.
    #[serde(deserialize_with = "bytes_u32")]
    pub page_bytes: u32,
    /// Size of a page's OOB, in bytes.
    #[serde(deserialize_with = "bytes_u32")]
    pub oob_bytes: u32,
    /// Number of pages in an eraseblock.
    pub pages_per_block: u32,
    /// Number of eraseblocks in a LUN, over all planes.
    pub blocks_per_lun: u32,
    /// Number of planes in a LUN, each with its own cache register.
    #[serde(default = "one")]
    pub planes: u32,
    /// Number of LUNs (dies).
    #[serde(default = "one")]
    pub luns: u32,
    /// Number of bits per cell.
    #[serde(default = "one")]
    pub bits_per_cell: u32,
    /// Largest number of bad blocks per LUN over the chip's life.
    #[serde(default)]
    pub max_bad_blocks_per_lun: u32,
}

impl SpiNandGeometry {
    /// Size of a page with its OOB, bytes.
    pub const fn raw_page_bytes(&self) -> u32 {
        self.page_bytes + self.oob_bytes
    }

    /// Number of blocks in the whole chip.
    pub const fn blocks(&self) -> u32 {
        self.blocks_per_lun * self.luns
    }

    /// Size of a block without OOB, bytes.
    pub const fn block_bytes(&self) -> u32 {
        self.page_bytes * self.pages_per_block
    }

    /// Bit of the column address that selects the plane: the first bit above the columns of data and OOB.
    pub const fn plane_shift(&self) -> u32 {
        u32::BITS - self.page_bytes.leading_zeros()
    }
}

const fn one() -> u32 {
    1
}

fn bytes_u32<'de, D: serde::Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    let bytes = units::bytes::deserialize(d)?;
    u32::try_from(bytes).map_err(|_| serde::de::Error::custom("this size is smaller than 4 GiB"))
}

/// ECC requirement of the array, and presence of an on-die engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChipEcc {
    /// Number of bits to correct per step.
    pub strength: u32,
    /// Size of a step in bytes.
    pub step_bytes: u32,
    /// True if the chip has an ECC engine of this strength.
    #[serde(default)]
    pub on_die: bool,
}

impl ChipEcc {
    /// ECC requirement: strength and step size.
    pub const fn requirement(&self) -> EccRequirement {
        EccRequirement { strength: self.strength, step_bytes: self.step_bytes }
    }
}

/// Register with details of the on-die ECC result, in addition to bits 5:4 of the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EccStatus {
    /// No register, so that the number of corrected bits is unknown.
    #[default]
    Plain,
    /// Macronix: command 7Ch, with bits 3:0 for the last page, and bits 7:4 for the largest number in a continuous
    /// read.
    Macronix,
    /// Winbond W25NxxKV: feature 30h, bits 7:4.
    WinbondDetail,
    /// GigaDevice Q5: feature F0h, with the number of bits less one in bits 5:4.
    Gigadevice,
}

/// A range of OOB bytes that is repeated in each section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OobRange {
    /// Position of the first byte in the first section.
    pub start: u32,
    /// Distance from one section to the next, in bytes.
    #[serde(default)]
    pub step: u32,
    /// Number of bytes in each section.
    pub len: u32,
}

impl From<OobRange> for Stride {
    fn from(range: OobRange) -> Self {
        Self { start: range.start, step: range.step, len: range.len }
    }
}

/// Maximum size of an OOB, bytes.
const OOB_BYTES_MAX: usize = 1 << 16;

/// Use of the OOB bytes with on-die ECC, in the notation of part files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OobTable {
    /// Number of sections of the OOB.
    pub sections: u32,
    /// Bytes for the user.
    pub user: OobRange,
    /// ECC bytes, which the chip writes itself; absent if the chip hides them.
    #[serde(default)]
    pub ecc: OobRange,
}

impl OobTable {
    /// True if an OOB byte belongs to two ranges, of user bytes or of ECC bytes.
    pub fn overlaps(&self) -> bool {
        let mut used = vec![false; OOB_BYTES_MAX];
        for range in [self.user, self.ecc].into_iter().filter(|range| range.len > 0) {
            for section in 0..u64::from(self.sections) {
                let first = u64::from(range.start) + section * u64::from(range.step);
                let bytes =
                    (first..first + u64::from(range.len)).map_while(|byte| usize::try_from(byte).ok());
                for byte in bytes.take_while(|byte| *byte < OOB_BYTES_MAX) {
                    if std::mem::replace(&mut used[byte], true) {
                        return true;
                    }
                }
                if first >= OOB_BYTES_MAX as u64 {
                    break;
                }
            }
        }
        false
    }

    /// The layout for an OOB of `oob_bytes`.
    ///
    /// # Errors
    /// A range extends beyond the OOB.
    pub fn layout(&self, oob_bytes: u32) -> Result<OobLayout, LayoutError> {
        OobLayout::strided(oob_bytes, self.sections, self.user.into(), self.ecc.into())
    }
}

/// Times of the array, us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpiNandTiming {
    /// Page read time (array to cache) without on-die ECC, us.
    #[serde(with = "units::us")]
    pub t_rd_us: Nanos,
    /// Page read time (array to cache) with on-die ECC, us.
    #[serde(with = "units::us")]
    pub t_rd_ecc_us: Nanos,
    /// Page program time, us.
    pub t_prog_us: TypMaxUs,
    /// Block erase time, us.
    pub t_bers_us: TypMaxUs,
    /// Reset time while the chip is idle or reads, us.
    #[serde(default = "t_rst", with = "units::us")]
    pub t_rst_us: Nanos,
    /// Reset time while the chip programs, us.
    #[serde(default = "t_rst_program", with = "units::us")]
    pub t_rst_prog_us: Nanos,
    /// Reset time while the chip erases, us.
    #[serde(default = "t_rst_erase", with = "units::us")]
    pub t_rst_bers_us: Nanos,
}

/// Default reset times, which are common to the SPI NAND chips in Linux: 5, 10 and 500 us (`spinand.h`).
const fn t_rst() -> Nanos {
    Nanos::from_us(5)
}

const fn t_rst_program() -> Nanos {
    Nanos::from_us(10)
}

const fn t_rst_erase() -> Nanos {
    Nanos::from_us(500)
}

/// A form of the command that fills the cache from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadVariant {
    /// Lanes and rates of the command.
    pub mode: Mode,
    /// Command byte.
    pub opcode: u8,
    /// True for a random load, which keeps the bytes of the cache that are not sent; a plain load sets them to FFh.
    #[serde(default)]
    pub random: bool,
    /// Highest clock in Hz; 0 for the limit of the chip.
    #[serde(default, with = "units::hz")]
    pub max_hz: u64,
}

impl LoadVariant {
    /// The load as a variant, like those of reads.
    pub const fn variant(&self) -> Variant {
        Variant { mode: self.mode, opcode: self.opcode, dummy: 0, max_hz: self.max_hz }
    }
}

/// Scheme by which a chip streams consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContinuousKind {
    /// With the configuration bit (BUF) clear, reads from the cache have no column, and continue to the end of the
    /// block.
    Winbond,
    /// With the configuration bit (CONT) set, reads from the cache have their usual form. A register write ends the
    /// mode, or tRST after CS# high.
    Macronix,
}

/// Support of continuous reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continuous {
    /// Scheme of continuous reads.
    pub kind: ContinuousKind,
    /// Number of the configuration bit.
    pub config_bit: u8,
    /// Time of the array for each further page, while the previous page is transferred, us. The chip cannot make the
    /// host wait, so a clock is refused if a page is transferred in less than this time.
    #[serde(with = "units::us")]
    pub t_page_us: Nanos,
    /// Winbond: read commands of this mode. `dummy` is the number of all cycles between command and data, including
    /// the ignored address.
    #[serde(default)]
    pub reads: Vec<Variant>,
}

/// Stateful octal double rate mode, which is entered through a volatile configuration register (Winbond W35N).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Octal {
    /// Value of register 0 for single-lane commands (power-up).
    pub io_single: u8,
    /// Value of register 0 for single-lane commands with data on eight lanes. Drivers write it, although the power-up
    /// value has the same effect (Linux: `W35N01JW_VCR_IO_MODE_OCTAL_SDR`).
    #[serde(default)]
    pub io_octal_sdr: Option<u8>,
    /// Values of register 0 that switch to 8D-8D-8D; drivers use the first value.
    pub io_octal_dtr: Vec<u8>,
    /// Address of the I/O mode register.
    pub io_register: u32,
    /// Address of the register that sets the dummy cycles of reads on eight data lanes.
    pub dummy_register: u32,
    /// Number of dummy cycles after power-up.
    pub dummy_default: u8,
    /// Numbers of dummy cycles that can be set.
    pub dummy_choices: Vec<u8>,
    /// Number of the configuration bit that must be set for reads in 8D-8D-8D from the clock `fast_from_hz` on.
    pub fast_config_bit: u8,
    /// Lowest clock at which reads in 8D-8D-8D need this configuration bit, in Hz.
    #[serde(with = "units::hz")]
    pub fast_from_hz: u64,
    /// Number of bytes of a row address in 8D-8D-8D.
    pub row_bytes: u8,
    /// True if the second command byte in 8D-8D-8D has bits 23:16 of the row address, and the address has the other
    /// two bytes (Linux: `SPINAND_ODTR_PACKED_PAGE_READ`).
    #[serde(default)]
    pub packed_rows: bool,
    /// Number of dummy cycles of GET FEATURE and READ ID in 8D-8D-8D.
    pub register_dummy: u8,
}

/// Variants of an opcode with more dummy cycles, which need a mode bit (Winbond W25NxxJW: SR4 HS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HighSpeed {
    /// Address of the feature register with the bit.
    pub feature: u8,
    /// Number of the mode bit.
    pub bit: u8,
}

/// A randomizer. While it is enabled, the chip adds pseudo-random bits to the data of a page in programs, and removes them in reads. OOB
/// bytes are not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Randomizer {
    /// Address of the feature register with the bit.
    pub feature: u8,
    /// Number of the bit that switches the randomizer on.
    pub bit: u8,
}

/// One-time-programmable pages: unique id in page 0, parameter page in page 1, user pages from page 2 on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpiNandOtp {
    /// Number of pages for the user.
    pub user_pages: u32,
    /// Name of the maker in the parameter page, at most 12 characters.
    pub manufacturer: String,
    /// Name of the chip in the parameter page, at most 20 characters.
    pub model: String,
}

/// Repeated reads with shifted thresholds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRetry {
    /// Address of the feature that sets the retry mode.
    pub feature: u8,
    /// Number of retry modes, without the normal mode.
    pub modes: u8,
    /// Decrease of the read thresholds in each retry mode, in standard deviations of the cells' threshold voltage. If
    /// empty, the decrease is 0.3 times the number of the mode.
    #[serde(default)]
    pub lowered: Vec<f64>,
}

/// Shift of the thresholds per read retry mode, an assumption, because makers do not publish it. With five to seven modes it reaches as
/// far down as published retry tables.
const RETRY_STEP: f64 = 0.3;

impl ReadRetry {
    /// Shift of the read thresholds in `mode`, in standard deviations downwards; 0 is the normal mode.
    pub fn lowered(&self, mode: u8) -> f64 {
        let own = mode.checked_sub(1).and_then(|index| self.lowered.get(usize::from(index)));
        own.copied().unwrap_or(f64::from(mode) * RETRY_STEP)
    }

    pub(super) fn is_possible(&self) -> bool {
        let given = self.lowered.is_empty() || self.lowered.len() == usize::from(self.modes);
        given && self.lowered.iter().all(|shift| (-4.0..=4.0).contains(shift))
    }
}

/// Deviations of a chip from the common behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpiNandQuirks {
    /// True if a bit of the column address selects the plane's cache, for reads and program loads.
    pub plane_select_bit: bool,
    /// True if command C2h selects the die, instead of a bit of the row address.
    pub die_select: bool,
    /// True if commands 66h and 99h also reset the chip.
    pub reset_66_99: bool,
}
