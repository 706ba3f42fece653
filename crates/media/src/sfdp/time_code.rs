//! Codes of times in parameter tables: a count and a unit.

/// Time of a code: (count + 1) units. The lower `count_bits` are the count, the other bits select
/// the unit.
pub(super) fn counted<const N: usize>(code: u8, count_bits: u32, units: [u32; N]) -> u32 {
    let count = u32::from(code) & ((1 << count_bits) - 1);
    let unit = units.get(usize::from(code >> count_bits)).copied().unwrap_or(0);
    (count + 1) * unit
}

/// Erase time code as ms (JESD216F, BFPT DWORD 10).
pub(super) fn erase_ms(code: u8) -> u32 {
    counted(code, 5, [1, 16, 128, 1000])
}
