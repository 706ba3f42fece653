//! Specification of a parallel NOR chip.

use super::erase_map::EraseMap;
use crate::spec::BadSpec;
use crate::units::{self, TypMaxUs};
use floatgate_mtd::Nanos;
use serde::Deserialize;
use std::borrow::Cow;

/// Command set of a chip (CFI primary algorithm, JEP137).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandSet {
    /// 0001: Intel/Sharp extended.
    Intel,
    /// 0002: AMD/Fujitsu standard.
    Amd,
}

/// Data bus widths that a chip supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Interface {
    /// Eight bits.
    #[serde(rename = "x8")]
    X8,
    /// Sixteen bits.
    #[serde(rename = "x16")]
    X16,
    /// Either, chosen by the BYTE# pin.
    #[serde(rename = "x8-x16")]
    X8X16,
}

/// Adjacent eraseblocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorRegion {
    /// Number of blocks in the region.
    pub blocks: u32,
    /// Bytes in each.
    #[serde(with = "units::bytes")]
    pub block_bytes: u64,
    /// Erase time of each; the chip's `t_bers_us` when absent.
    #[serde(default)]
    pub t_bers_us: Option<TypMaxUs>,
}

/// Position of the small boot blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootBlocks {
    /// All blocks are equal.
    #[default]
    Uniform,
    /// At low addresses.
    Bottom,
    /// At high addresses. The CFI query of command set 0002 then lists the regions in reverse.
    Top,
}

/// Sizes of the chip, its blocks and its program buffer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorGeometry {
    /// Size of the chip, a power of two.
    #[serde(with = "units::bytes")]
    pub size_bytes: u64,
    /// Erase regions, lowest address first.
    pub regions: Vec<NorRegion>,
    /// Position of small blocks.
    #[serde(default)]
    pub boot: BootBlocks,
    /// Program buffer, a power of two; 0 when the chip programs single words only.
    #[serde(default, with = "units::bytes")]
    pub buffer_bytes: u64,
    /// Page within which further reads take tPACC, a power of two; 0 without page mode.
    #[serde(default, with = "units::bytes")]
    pub page_bytes: u64,
    /// Widths of the data bus.
    pub interface: Interface,
}

/// Times of a parallel NOR chip.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorTiming {
    /// Random access: address to data (tACC, Intel: tAVQV).
    #[serde(with = "units::ns")]
    pub t_acc_ns: Nanos,
    /// Further accesses in the same page (tPACC, Intel: tAPA).
    #[serde(default, with = "units::ns")]
    pub t_pacc_ns: Nanos,
    /// Write cycle (tWC, Intel: tAVAV).
    #[serde(with = "units::ns")]
    pub t_wc_ns: Nanos,
    /// Programming of one word or byte (tWHWH1, Intel: tWHQV3).
    pub t_word_us: TypMaxUs,
    /// Programming of a full buffer. A partly filled one takes its share, but no less than a word.
    #[serde(default)]
    pub t_buffer_us: Option<TypMaxUs>,
    /// Erase of a block (tWHWH2, Intel: tWHQV4).
    pub t_bers_us: TypMaxUs,
    /// From suspend until reads are possible (tESL, tPSL; Intel: tWHRH).
    #[serde(with = "units::us")]
    pub t_suspend_us: Nanos,
    /// Command set 0002: how long after a block erase command further blocks are accepted (DQ3).
    #[serde(default, with = "units::us")]
    pub t_erase_window_us: Nanos,
    /// Legacy lock scheme: setting one lock bit.
    #[serde(default, with = "units::us")]
    pub t_lock_us: Nanos,
    /// Legacy lock scheme: clearing all lock bits.
    #[serde(default, with = "units::us")]
    pub t_unlock_us: Nanos,
}

/// Operations that can be suspended, and operations that are possible during a suspend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NorFeatures {
    /// An erase may be suspended for reads of other blocks.
    pub erase_suspend: bool,
    /// A suspended erase allows programming other blocks.
    pub program_in_erase_suspend: bool,
    /// A program may be suspended for reads.
    pub program_suspend: bool,
}

/// Scheme by which command 60h of command set 0001 locks blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LockScheme {
    /// Not at all.
    #[default]
    None,
    /// Non-volatile lock bits, set one by one, cleared all together (J3).
    Legacy,
    /// Volatile, all locked at power-on, each changed at once (P30, C3).
    Instant,
}

/// The one-time-programmable bytes: protection register or secured silicon sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorOtp {
    /// Bytes written and locked by the maker.
    #[serde(default, with = "units::bytes")]
    pub factory_bytes: u64,
    /// Bytes for the user.
    #[serde(default, with = "units::bytes")]
    pub user_bytes: u64,
    /// Command set 0001: device address of the lock word; the bytes follow it.
    #[serde(default)]
    pub lock_word: u16,
}

/// Time codes of the CFI query. They are needed if the maker's codes differ from the next powers of two above the
/// chip's times. Each list: word, buffer, block erase, chip erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CfiCodes {
    /// Typical times as powers of two (us, us, ms, ms).
    pub typ: [u8; 4],
    /// Maximum over typical, as powers of two.
    pub max: [u8; 4],
}

/// A parallel NOR chip.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelNorSpec {
    /// Command set.
    pub command_set: CommandSet,
    /// Maker's code and device code, then the codes at 0Eh and 0Fh where the device code is an extended one (7Eh).
    pub id: Vec<u16>,
    /// Sizes of the chip, its blocks and its program buffer.
    pub geometry: NorGeometry,
    /// Times of bus and array.
    pub timing: NorTiming,
    /// Operations that may be suspended.
    #[serde(default)]
    pub features: NorFeatures,
    /// Block locking (command set 0001).
    #[serde(default)]
    pub lock: LockScheme,
    /// One-time-programmable bytes.
    #[serde(default)]
    pub otp: Option<NorOtp>,
    /// Version of the extended query table: two ASCII digits, as in `"13"`.
    pub cfi_version: String,
    /// Time codes of the CFI query, derived from the times when absent.
    #[serde(default)]
    pub cfi: Option<CfiCodes>,
    /// Program/erase cycles per block that the maker promises.
    #[serde(default)]
    pub endurance_cycles: Option<u32>,
    /// Years of data retention that the maker promises.
    #[serde(default)]
    pub retention_years: Option<u32>,
}

/// The error for a specification that is impossible as a whole.
pub(super) fn impossible(why: impl Into<Cow<'static, str>>) -> BadSpec {
    BadSpec::new("", why)
}

const BLOCK: &str =
    "eraseblocks must be multiples of 256 bytes below 16 MiB, 1 to 65536 in a region, at most 8 regions";
const BUFFER: &str = "a program buffer needs `t_buffer_us`, and fits the smallest eraseblock and 1024 bytes";
const ID: &str = "`id` holds the maker's and the device code, and two more where the device code ends in 7Eh";
const OTP: &str = "`otp` sizes must be powers of two, and with command set amd exactly one of them not zero";

fn power_of_two(what: &str, bytes: u64) -> Result<(), BadSpec> {
    let ok = bytes == 0 || (bytes.is_power_of_two() && bytes <= 1 << 30);
    if ok { Ok(()) } else { Err(impossible(format!("{what} must be a power of two, at most 1 GiB"))) }
}

impl ParallelNorSpec {
    /// True if the chip has a 16-bit mode; its device addresses then count words.
    pub const fn counts_words(&self) -> bool {
        !matches!(self.geometry.interface, Interface::X8)
    }

    /// Size of a row in the simulated array, bytes, which is allocated at once.
    pub(super) fn row_bytes(&self) -> u64 {
        let smallest = self.geometry.regions.iter().map(|r| r.block_bytes).min();
        smallest.unwrap_or(1024).min(1024)
    }

    /// Checks rules that the types do not enforce.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn check(&self) -> Result<(), BadSpec> {
        let geometry = &self.geometry;
        power_of_two("`size_bytes`", geometry.size_bytes)?;
        power_of_two("`buffer_bytes`", geometry.buffer_bytes)?;
        power_of_two("`page_bytes`", geometry.page_bytes)?;
        self.check_regions()?;
        let has_time = geometry.buffer_bytes == 0 || self.timing.t_buffer_us.is_some();
        if !has_time || geometry.buffer_bytes > self.row_bytes() {
            return Err(impossible(BUFFER));
        }
        let extended = self.id.get(1).is_some_and(|id| id & 0xFF == 0x7E);
        if self.id.len() != if extended { 4 } else { 2 } {
            return Err(impossible(ID));
        }
        self.check_otp()
    }

    fn check_regions(&self) -> Result<(), BadSpec> {
        let (regions, size) = (&self.geometry.regions, self.geometry.size_bytes);
        // CFI stores block sizes in units of 256 bytes in 16 bits.
        let fits = |r: &NorRegion| {
            r.block_bytes.is_multiple_of(256)
                && (1..=0xFFFF).contains(&(r.block_bytes / 256))
                && (1..=0x1_0000).contains(&r.blocks)
        };
        if regions.len() > 8 || !regions.iter().all(fits) {
            return Err(impossible(BLOCK));
        }
        let sum: u64 = regions.iter().map(|r| u64::from(r.blocks) * r.block_bytes).sum();
        if sum != size || size == 0 {
            return Err(impossible(format!("the erase regions hold {sum} bytes, the chip {size}")));
        }
        // The blocks of the array have the size of the smallest eraseblock.
        let smallest = regions.iter().map(|r| r.block_bytes).min().unwrap_or(1);
        let even =
            regions.iter().all(|r| r.block_bytes.is_multiple_of(smallest)) && smallest.is_power_of_two();
        if even { Ok(()) } else { Err(impossible(BLOCK)) }
    }

    fn check_otp(&self) -> Result<(), BadSpec> {
        let Some(otp) = &self.otp else { return Ok(()) };
        let power = |n: u64| n == 0 || (n.is_power_of_two() && n <= 4096);
        let (factory, user) = (otp.factory_bytes, otp.user_bytes);
        let one = self.command_set == CommandSet::Intel || (factory == 0) != (user == 0);
        if power(factory) && power(user) && one { Ok(()) } else { Err(impossible(OTP)) }
    }

    /// The chip's eraseblocks.
    pub fn erase_map(&self) -> EraseMap {
        EraseMap::new(self.geometry.regions.iter().map(|r| (r.blocks, r.block_bytes as u32)))
    }

    /// Erase time of a block in region `region`.
    pub(super) fn block_erase(&self, region: usize) -> TypMaxUs {
        let own = self.geometry.regions.get(region).and_then(|r| r.t_bers_us);
        own.unwrap_or(self.timing.t_bers_us)
    }
}
