//! The Common Flash Interface query structure (JESD68.01, JEP137).

mod extended;
mod view;

pub use extended::{AmdBase, AmdTable, AmdV11, AmdV15, Extended, IntelProtection, IntelTable};
pub use view::BusView;

use crate::error::{MediaError, Reason};
use crate::list::List;
use crate::wire::{Wire, layout, narrow};
use extended::{read_extended, write_extended};
use view::{View, ViewMut};

/// Device address of the signature "QRY".
const QUERY_AT: usize = 0x10;

/// Device address of the first erase region: the address after the fixed part.
const REGIONS_AT: usize = QUERY_AT + CfiIdentification::SIZE;

/// Maximum number of erase regions that [`Cfi`] stores.
pub const MAX_REGIONS: usize = 8;

layout! {
    /// The fixed part of the query structure (JESD68.01, addresses 10h-2Ch).
    pub struct CfiIdentification[29] {
        /// The letters "QRY".
        0 => signature: [u8; 3],
        /// Primary command set (JEP137); 1: Intel/Sharp, 2: AMD/Fujitsu.
        3 => command_set: u16,
        /// Device address of the primary extended table; 0: none.
        5 => extended_at: u16,
        /// Alternate command set; 0: none.
        7 => alternate_set: u16,
        /// Device address of the alternate extended table; 0: none.
        9 => alternate_at: u16,
        /// Lowest Vcc: volts in the upper four bits, 0.1 V in the lower four.
        11 => vcc_min: u8,
        /// Highest Vcc, encoded as [`vcc_min`](Self::vcc_min).
        12 => vcc_max: u8,
        /// Lowest Vpp, encoded as [`vcc_min`](Self::vcc_min); 0: the chip has no Vpp pin.
        13 => vpp_min: u8,
        /// Highest Vpp, encoded as [`vcc_min`](Self::vcc_min); 0: the chip has no Vpp pin.
        14 => vpp_max: u8,
        /// Typical time to program a word, as a power of two in us; 0: not supported.
        15 => word_typical: u8,
        /// Typical time to program a full buffer, as a power of two in us; 0: not supported.
        16 => buffer_typical: u8,
        /// Typical time to erase a block, as a power of two in ms; 0: not supported.
        17 => block_erase_typical: u8,
        /// Typical time to erase the chip, as a power of two in ms; 0: not supported.
        18 => chip_erase_typical: u8,
        /// Ratio of maximum to typical word program time, as a power of two; 0: not supported.
        19 => word_max: u8,
        /// Ratio of maximum to typical buffer program time, as a power of two; 0: not supported.
        20 => buffer_max: u8,
        /// Ratio of maximum to typical block erase time, as a power of two; 0: not supported.
        21 => block_erase_max: u8,
        /// Ratio of maximum to typical chip erase time, as a power of two; 0: not supported.
        22 => chip_erase_max: u8,
        /// Size of the chip, as a power of two in bytes.
        23 => size_exponent: u8,
        /// Data bus; 0: x8, 1: x16, 2: x8/x16, 3: x32, 5: x16/x32.
        24 => interface: u16,
        /// Size of the program buffer, as a power of two in bytes; 0: none.
        26 => buffer_exponent: u16,
        /// Number of erase regions; 0: the chip supports only chip erase.
        28 => regions: u8,
    }
}

const _: () = assert!(REGIONS_AT == 0x2d, "JESD68.01 puts the first region at 2Dh");

layout! {
    /// Adjacent eraseblocks of one size (JESD68.01, from address 2Dh).
    pub struct EraseRegion[4] {
        /// Number of blocks in the region, minus one.
        0 => more_blocks: u16,
        /// Block size in units of 256 bytes; 0: 128 bytes.
        2 => size_code: u16,
    }
}

impl EraseRegion {
    /// Number of blocks in the region.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        u32::from(self.more_blocks) + 1
    }

    /// Size of a block of the region, bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        if self.size_code == 0 { 128 } else { 256 * u32::from(self.size_code) }
    }
}

/// Answer of a chip to a CFI query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cfi {
    /// The fixed part; its signature and its number of regions are computed when emitted.
    pub identification: CfiIdentification,
    /// Erase regions, lowest address first.
    pub regions: List<EraseRegion, MAX_REGIONS>,
    /// Extended table of the primary command set.
    pub extended: Option<Extended>,
}

/// Reads a query structure from the bytes that the bus returns from device address 0 on.
///
/// # Errors
///
/// A slice too short, a wrong signature, more than [`MAX_REGIONS`] regions, a size that does not
/// fit 64 bits, or a bad extended table.
pub fn parse(bytes: &[u8], view: BusView) -> Result<Cfi, MediaError> {
    let query = View::new(bytes, view);
    let raw = query.chunk::<{ CfiIdentification::SIZE }>(QUERY_AT)?;
    let identification = CfiIdentification::decode(&raw, 0);
    if identification.signature != *b"QRY" {
        return Err(Reason::BadSignature { expected: "QRY" }.at(view.offset(QUERY_AT)));
    }
    if identification.size_exponent > 63 {
        let value = u64::from(identification.size_exponent);
        let at = view.offset(QUERY_AT + 23);
        return Err(Reason::OutOfRange { field: "size_exponent", value }.at(at));
    }
    let mut regions = List::new();
    for index in 0..usize::from(identification.regions) {
        let at = REGIONS_AT + index * EraseRegion::SIZE;
        let region = EraseRegion::decode(&query.chunk::<{ EraseRegion::SIZE }>(at)?, 0);
        regions.push(region, "erase regions").map_err(|reason| reason.at(view.offset(at)))?;
    }
    let extended = read_extended(&query, &identification)?;
    Ok(Cfi { identification, regions, extended })
}

/// Writes the query structure as a bus returns it from device address 0 on, and returns the number
/// of bytes up to its end.
///
/// Bytes of unused device addresses are not changed.
///
/// # Errors
///
/// A slice too short, or an extended table that does not fit the command set or its own version or
/// that overlaps the fixed part.
pub fn emit(cfi: &Cfi, view: BusView, out: &mut [u8]) -> Result<usize, MediaError> {
    let mut query = ViewMut::new(out, view);
    let mut identification = cfi.identification;
    identification.signature = *b"QRY";
    identification.regions = narrow("regions", view.offset(QUERY_AT + 28), cfi.regions.len())?;
    query.put(&identification, QUERY_AT)?;
    for (index, region) in cfi.regions.iter().enumerate() {
        query.put(region, REGIONS_AT + index * EraseRegion::SIZE)?;
    }
    write_extended(&mut query, cfi)?;
    Ok(query.end())
}

/// 2^`exponent`, or `None` for 0 (not supported) and for a result of more than 64 bits.
fn power(exponent: u8) -> Option<u64> {
    if exponent == 0 { None } else { 1u64.checked_shl(u32::from(exponent)) }
}

impl CfiIdentification {
    /// Size of the chip, bytes; `None` if it does not fit 64 bits.
    #[must_use]
    pub fn chip_bytes(&self) -> Option<u64> {
        1u64.checked_shl(u32::from(self.size_exponent))
    }

    /// Size of the program buffer, bytes; `None` without a buffer.
    #[must_use]
    pub fn buffer_bytes(&self) -> Option<u64> {
        u8::try_from(self.buffer_exponent).ok().and_then(power)
    }

    /// Typical time to program a word, us.
    #[must_use]
    pub fn word_us(&self) -> Option<u64> {
        power(self.word_typical)
    }

    /// Typical time to program a full buffer, us.
    #[must_use]
    pub fn buffer_us(&self) -> Option<u64> {
        power(self.buffer_typical)
    }

    /// Typical time to erase a block, ms.
    #[must_use]
    pub fn block_erase_ms(&self) -> Option<u64> {
        power(self.block_erase_typical)
    }

    /// Typical time to erase the chip, ms.
    #[must_use]
    pub fn chip_erase_ms(&self) -> Option<u64> {
        power(self.chip_erase_typical)
    }

    /// Longest time to program a word, us.
    #[must_use]
    pub fn word_max_us(&self) -> Option<u64> {
        self.word_us()?.checked_mul(power(self.word_max)?)
    }

    /// Longest time to program a full buffer, us.
    #[must_use]
    pub fn buffer_max_us(&self) -> Option<u64> {
        self.buffer_us()?.checked_mul(power(self.buffer_max)?)
    }

    /// Longest time to erase a block, ms.
    #[must_use]
    pub fn block_erase_max_ms(&self) -> Option<u64> {
        self.block_erase_ms()?.checked_mul(power(self.block_erase_max)?)
    }

    /// Longest time to erase the chip, ms.
    #[must_use]
    pub fn chip_erase_max_ms(&self) -> Option<u64> {
        self.chip_erase_ms()?.checked_mul(power(self.chip_erase_max)?)
    }
}
