//! The checksum of ONFI and JEDEC parameter pages.

/// Generator polynomial x^16 + x^15 + x^2 + 1 (ONFI 4.2 section 5.7.1, bytes 254-255).
const POLYNOMIAL: u16 = 0x8005;

/// Shift register before the first byte, the letters "ON" (ONFI 4.2 section 5.7.1).
pub const ONFI_SEED: u16 = 0x4F4E;

/// CRC-16 of `bytes` as ONFI and JESD230 parameter pages store it.
///
/// Most significant bit first, seed [`ONFI_SEED`], no final inversion.
///
/// ```
/// assert_eq!(floatgate_media::crc::onfi(b""), floatgate_media::crc::ONFI_SEED);
/// ```
#[must_use]
pub const fn onfi(bytes: &[u8]) -> u16 {
    update(ONFI_SEED, bytes)
}

/// Continues a checksum over further bytes.
#[must_use]
pub const fn update(mut register: u16, bytes: &[u8]) -> u16 {
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        let index = ((register >> 8) as u8) ^ *first;
        register = (register << 8) ^ TABLE[index as usize];
        rest = tail;
    }
    register
}

/// What eight shifts do to each value of the register's upper byte.
const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut out = [0u16; 256];
    let mut index = 0u16;
    while index < 256 {
        out[index as usize] = shift_byte(index);
        index += 1;
    }
    out
}

const fn shift_byte(value: u16) -> u16 {
    let mut register = value << 8;
    let mut bit = 0;
    while bit < 8 {
        let feedback = if register & 0x8000 == 0 { 0 } else { POLYNOMIAL };
        register = (register << 1) ^ feedback;
        bit += 1;
    }
    register
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_check_value_with_zero_seed() {
        // CRC-16/UMTS (0x8005, seed 0, not reflected): check value 0xFEE8.
        assert_eq!(update(0, b"123456789"), 0xFEE8);
    }

    #[test]
    fn appending_the_checksum_leaves_zero() {
        let sum = onfi(b"floatgate");
        assert_eq!(update(sum, &sum.to_be_bytes()), 0);
    }
}
