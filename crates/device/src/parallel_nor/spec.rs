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
    /// 8 bits.
    #[serde(rename = "x8")]
    X8,
    /// 16 bits.
    #[serde(rename = "x16")]
    X16,
    /// 8 or 16 bits, selected by the BYTE# pin.
    #[serde(rename = "x8-x16")]
    X8X16,
}

/// Adjacent eraseblocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorRegion {
    /// Number of blocks in the region.
    pub blocks: u32,
    /// Size of each block, in bytes.
    #[serde(with = "units::bytes")]
    pub block_bytes: u64,
    /// Erase time of each block, us; the `t_bers_us` of the chip when absent.
    #[serde(default)]
    pub t_bers_us: Option<TypMaxUs>,
}

/// Position of the small boot blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootBlocks {
    /// All blocks have the same size.
    #[default]
    Uniform,
    /// Small blocks are at low addresses.
    Bottom,
    /// Small blocks are at high addresses, and the CFI query of command set 0002 lists the regions in reverse order.
    Top,
}

/// Sizes of the chip, its blocks and its program buffer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorGeometry {
    /// Size of the chip in bytes, a power of two.
    #[serde(with = "units::bytes")]
    pub size_bytes: u64,
    /// Erase regions, in the order of their addresses.
    pub regions: Vec<NorRegion>,
    /// Position of the small blocks.
    #[serde(default)]
    pub boot: BootBlocks,
    /// Size of the program buffer in bytes, a power of two; 0 if the chip programs only single words.
    #[serde(default, with = "units::bytes")]
    pub buffer_bytes: u64,
    /// Size of a page in bytes, a power of two; further reads in the same page take tPACC. 0 if the chip has no page
    /// mode.
    #[serde(default, with = "units::bytes")]
    pub page_bytes: u64,
    /// Widths of the data bus.
    pub interface: Interface,
}

/// Times of a parallel NOR chip.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorTiming {
    /// Time of a random access from address to data (tACC, Intel: tAVQV), ns.
    #[serde(with = "units::ns")]
    pub t_acc_ns: Nanos,
    /// Time of a further access in the same page (tPACC, Intel: tAPA), ns.
    #[serde(default, with = "units::ns")]
    pub t_pacc_ns: Nanos,
    /// Time of a write cycle (tWC, Intel: tAVAV), ns.
    #[serde(with = "units::ns")]
    pub t_wc_ns: Nanos,
    /// Time to program one word or byte (tWHWH1, Intel: tWHQV3), us.
    pub t_word_us: TypMaxUs,
    /// Time to program a full buffer, us. A partly filled buffer takes a proportional time, but at least the time of
    /// a word.
    #[serde(default)]
    pub t_buffer_us: Option<TypMaxUs>,
    /// Time to erase a block (tWHWH2, Intel: tWHQV4), us.
    pub t_bers_us: TypMaxUs,
    /// Time from a suspend until reads are possible (tESL, tPSL; Intel: tWHRH), us.
    #[serde(with = "units::us")]
    pub t_suspend_us: Nanos,
    /// Time after a block erase command in which the chip accepts further blocks (DQ3), us; for command set 0002.
    #[serde(default, with = "units::us")]
    pub t_erase_window_us: Nanos,
    /// Time to set one lock bit of the lock scheme `legacy`, us.
    #[serde(default, with = "units::us")]
    pub t_lock_us: Nanos,
    /// Time to clear all lock bits of the lock scheme `legacy`, us.
    #[serde(default, with = "units::us")]
    pub t_unlock_us: Nanos,
}

/// Operations that can be suspended, and operations that are possible during a suspend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NorFeatures {
    /// True if an erase can be suspended to read other blocks.
    pub erase_suspend: bool,
    /// True if other blocks can be programmed while an erase is suspended.
    pub program_in_erase_suspend: bool,
    /// True if a program can be suspended to read.
    pub program_suspend: bool,
}

/// Scheme by which command 60h of command set 0001 locks blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LockScheme {
    /// No locking.
    #[default]
    None,
    /// Non-volatile lock bits, which are set one by one and cleared together (J3).
    Legacy,
    /// Volatile lock bits, which are all set at power-on and change one by one without delay (P30, C3).
    Instant,
}

/// The one-time-programmable bytes: protection register or secured silicon sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NorOtp {
    /// Number of bytes that the maker writes and locks.
    #[serde(default, with = "units::bytes")]
    pub factory_bytes: u64,
    /// Number of bytes for the user.
    #[serde(default, with = "units::bytes")]
    pub user_bytes: u64,
    /// Command set 0001: device address of the lock word, which the bytes follow.
    #[serde(default)]
    pub lock_word: u16,
}

/// Time codes of the CFI query. They are needed if the maker's codes differ from the next powers of two above the
/// chip's times. Each list: word, buffer, block erase, chip erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CfiCodes {
    /// Typical times as exponents of two, in us, us, ms and ms: word, buffer, block erase, chip erase.
    pub typ: [u8; 4],
    /// Ratios of maximum to typical time as exponents of two, in the same order.
    pub max: [u8; 4],
}

/// A parallel NOR chip.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelNorSpec {
    /// Command set.
    pub command_set: CommandSet,
    /// Codes of maker and device. If the device code is an extended one (7Eh), the codes at 0Eh and 0Fh follow.
    pub id: Vec<u16>,
    /// Sizes of the chip, its blocks and its program buffer.
    pub geometry: NorGeometry,
    /// Times of bus and array.
    pub timing: NorTiming,
    /// Operations that can be suspended.
    #[serde(default)]
    pub features: NorFeatures,
    /// Scheme of block locking (command set 0001).
    #[serde(default)]
    pub lock: LockScheme,
    /// One-time-programmable bytes; none if the chip has no such bytes.
    #[serde(default)]
    pub otp: Option<NorOtp>,
    /// Version of the extended query table: two ASCII digits, such as `"13"`.
    pub cfi_version: String,
    /// Time codes of the CFI query; derived from the times when absent.
    #[serde(default)]
    pub cfi: Option<CfiCodes>,
    /// Program/erase cycles per block that the maker guarantees; none if unknown.
    #[serde(default)]
    pub endurance_cycles: Option<u32>,
    /// Data retention that the maker guarantees, in years; none if unknown.
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
