//! Packed bit fields, low bits first, and the common head of all LPT nodes.

use super::{Geometry, Kind};
use crate::crc;
use crate::error::{MediaError, Reason};
use crate::wire::{Wire, array, room, span, store};

/// Size of the CRC at the start of a node, bytes; the CRC does not cover these bytes.
const CRC_BYTES: usize = 2;

/// Width of the type after the CRC, bits.
const TYPE_BITS: u32 = 4;

/// Reader of packed bit fields.
#[derive(Debug, Clone)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl BitReader<'_> {
    /// The next `bits` bits, at most 32; zeros past the end.
    pub(super) fn read_bits(&mut self, bits: u32) -> u32 {
        let tail = self.bytes.get(self.bit / 8..).unwrap_or(&[]);
        let mut window = [0; 8];
        for (place, byte) in window.iter_mut().zip(tail) {
            *place = *byte;
        }
        let shifted = u64::from_le_bytes(window) >> (self.bit % 8);
        self.bit += bits as usize;
        (shifted & ((1 << bits) - 1)) as u32
    }

    /// Offset of the byte that contains the next bit.
    pub(super) const fn at(&self) -> usize {
        self.bit / 8
    }
}

/// Writer of packed bit fields into zeroed bytes.
pub(super) struct BitWriter<'o> {
    bytes: &'o mut [u8],
    bit: usize,
}

impl BitWriter<'_> {
    /// Appends the low `bits` bits of `value`, at most 32.
    pub(super) fn put(&mut self, field: &'static str, value: u32, bits: u32) -> Result<(), MediaError> {
        let at = self.bit / 8;
        if u64::from(value) >> bits != 0 {
            return Err(Reason::OutOfRange { field, value: u64::from(value) }.at(at));
        }
        let mut window = u64::from(value) << (self.bit % 8);
        for place in self.bytes.iter_mut().skip(at).take(5) {
            *place |= (window & 0xFF) as u8;
            window >>= 8;
        }
        self.bit += bits as usize;
        Ok(())
    }
}

/// Checks CRC and type of the node at the start of `bytes` and returns a reader of its fields.
pub(super) fn open<'a>(
    bytes: &'a [u8],
    kind: Kind,
    geometry: &Geometry,
) -> Result<BitReader<'a>, MediaError> {
    let bytes = span(bytes, 0, kind.bytes(geometry))?;
    let stored = u16::decode(bytes, 0);
    let computed = crc::lpt(bytes.get(CRC_BYTES..).unwrap_or(&[]));
    if stored != computed {
        return Err(Reason::BadCrc { stored, computed }.at(0));
    }
    let mut reader = BitReader { bytes, bit: 8 * CRC_BYTES };
    let code = reader.read_bits(TYPE_BITS);
    if code != u32::from(kind.code()) {
        return Err(Reason::UnknownCode { what: "LPT node type", code }.at(CRC_BYTES));
    }
    Ok(reader)
}

/// Writes a node to the start of `out` and returns its length; the closure `fields` writes the fields
/// after the type.
pub(super) fn seal(
    out: &mut [u8],
    kind: Kind,
    geometry: &Geometry,
    fields: impl FnOnce(&mut BitWriter<'_>) -> Result<(), MediaError>,
) -> Result<usize, MediaError> {
    let out = room(out, kind.bytes(geometry))?;
    out.fill(0);
    let mut writer = BitWriter { bytes: &mut *out, bit: 8 * CRC_BYTES };
    writer.put("LPT node type", u32::from(kind.code()), TYPE_BITS)?;
    fields(&mut writer)?;
    let [low, high] = crc::lpt(out.get(CRC_BYTES..).unwrap_or(&[])).to_le_bytes();
    store(out, 0, &[low, high]);
    Ok(out.len())
}

/// Type code of the node at the start of `bytes`, without a check of the CRC.
pub(super) fn type_code(bytes: &[u8]) -> u8 {
    let [byte] = array(bytes, CRC_BYTES);
    byte & ((1 << TYPE_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_width_stand_end_to_end() {
        let mut bytes = [0; 80];
        let mut writer = BitWriter { bytes: &mut bytes, bit: 0 };
        for bits in 1..=32 {
            writer.put("ones", u32::MAX >> (32 - bits), bits).unwrap();
            writer.put("zero", 0, 1).unwrap();
        }
        assert!(writer.put("too wide", 2, 1).is_err());
        let mut reader = BitReader { bytes: &bytes, bit: 0 };
        for bits in 1..=32 {
            assert_eq!(reader.read_bits(bits), u32::MAX >> (32 - bits));
            assert_eq!(reader.read_bits(1), 0);
        }
        assert_eq!(reader.read_bits(32), 0);
    }
}
