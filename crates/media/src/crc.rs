//! Checksums: CRC-16 of ONFI and JEDEC parameter pages, CRC-16 of LPT nodes, CRC-32 of UBI, UBIFS and JFFS2.

/// Generator polynomial x^16 + x^15 + x^2 + 1 (ONFI 4.2 section 5.7.1, bytes 254-255).
const POLYNOMIAL: u16 = 0x8005;

/// Initial value of the CRC register, the letters "ON" (ONFI 4.2 section 5.7.1).
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

/// Continues a CRC-16 from `register` over further bytes.
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

/// CRC register after eight shifts, for each value of its upper byte.
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

/// Polynomial of the LPT's CRC-16, x^16 + x^15 + x^2 + 1, least significant bit first.
const LPT_POLYNOMIAL: u16 = 0xA001;

/// CRC-16 of `bytes` as UBIFS LPT nodes store it: seed of ones, low bit first, no final inversion.
///
/// ```
/// // CRC-16/MODBUS: the catalogue's check value.
/// assert_eq!(floatgate_media::crc::lpt(b"123456789"), 0x4B37);
/// ```
#[must_use]
pub const fn lpt(bytes: &[u8]) -> u16 {
    let mut register = 0xFFFF;
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        let index = (register as u8) ^ *first;
        register = (register >> 8) ^ LPT_TABLE[index as usize];
        rest = tail;
    }
    register
}

/// CRC register after eight shifts, for each value of its lower byte.
const LPT_TABLE: [u16; 256] = {
    let mut out = [0u16; 256];
    let mut index = 0u16;
    while index < 256 {
        let mut register = index;
        let mut bit = 0;
        while bit < 8 {
            let feedback = if register & 1 == 0 { 0 } else { LPT_POLYNOMIAL };
            register = (register >> 1) ^ feedback;
            bit += 1;
        }
        out[index as usize] = register;
        index += 1;
    }
    out
};

/// CRC-32 of `bytes` as UBI and UBIFS store it: the IEEE polynomial from a register of ones, not inverted at the end.
///
/// ```
/// // The catalogue's check value for CRC-32/JAMCRC.
/// assert_eq!(floatgate_media::crc::ubi(b"123456789"), 0x340B_C6D9);
/// ```
#[must_use]
pub fn ubi(bytes: &[u8]) -> u32 {
    ubi_update(u32::MAX, bytes)
}

/// CRC-32 of `bytes` as JFFS2 stores it: the IEEE polynomial from a register of zeros, not inverted at the end.
///
/// ```
/// assert_eq!(floatgate_media::crc::jffs2(&[0; 8]), 0);
/// ```
#[must_use]
pub fn jffs2(bytes: &[u8]) -> u32 {
    ubi_update(0, bytes)
}

/// Continues a CRC-32 from `register` over further bytes, as [`ubi`] does.
#[must_use]
pub fn ubi_update(register: u32, bytes: &[u8]) -> u32 {
    #[cfg(feature = "fast-crc")]
    let register = {
        let mut hasher = crc32fast::Hasher::new_with_initial(!register);
        hasher.update(bytes);
        !hasher.finalize()
    };
    #[cfg(not(feature = "fast-crc"))]
    let register = by_table(register, bytes);
    register
}

/// CRC-32 of `bytes` as partition tables store it: the CRC of [`ubi`], inverted at the end.
///
/// ```
/// // The catalogue's check value for CRC-32/ISO-HDLC.
/// assert_eq!(floatgate_media::crc::ieee(b"123456789"), 0xCBF4_3926);
/// ```
#[must_use]
pub fn ieee(bytes: &[u8]) -> u32 {
    !ubi(bytes)
}

/// The CRC register after further bytes, computed by table, without CRC instructions of the processor.
#[cfg(any(test, not(feature = "fast-crc")))]
fn by_table(register: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(register, |register, byte| {
        register >> 8 ^ IEEE_TABLE[usize::from(register.to_le_bytes()[0] ^ byte)]
    })
}

/// Polynomial of CRC-32 (IEEE 802.3), least significant bit first.
#[cfg(any(test, not(feature = "fast-crc")))]
const IEEE_POLYNOMIAL: u32 = 0xEDB8_8320;

/// CRC register after eight shifts, for each value of its lower byte.
#[cfg(any(test, not(feature = "fast-crc")))]
const IEEE_TABLE: [u32; 256] = {
    let mut out = [0u32; 256];
    let mut index = 0u32;
    while index < 256 {
        let mut register = index;
        let mut bit = 0;
        while bit < 8 {
            let feedback = if register & 1 == 0 { 0 } else { IEEE_POLYNOMIAL };
            register = (register >> 1) ^ feedback;
            bit += 1;
        }
        out[index as usize] = register;
        index += 1;
    }
    out
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_check_value_with_zero_seed() {
        // CRC-16/UMTS (0x8005, seed 0, not reflected): check value 0xFEE8.
        assert_eq!(update(0, b"123456789"), 0xFEE8);
    }

    #[test]
    fn ubi_checksum_continues() {
        assert_eq!(ubi_update(ubi(b"float"), b"gate"), ubi(b"floatgate"));
        assert_eq!(ubi(b""), u32::MAX);
    }

    #[test]
    fn the_table_agrees_with_the_fast_checksum() {
        let bytes: [u8; 100] = core::array::from_fn(|at| (at * 37) as u8);
        for length in 0..bytes.len() {
            assert_eq!(by_table(u32::MAX, &bytes[..length]), ubi(&bytes[..length]), "{length}");
        }
    }

    #[test]
    fn appending_the_checksum_leaves_zero() {
        let sum = onfi(b"floatgate");
        assert_eq!(update(sum, &sum.to_be_bytes()), 0);
    }
}
