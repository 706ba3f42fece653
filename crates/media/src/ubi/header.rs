//! Common part of EC and VID headers: 64 bytes that begin with magic and version and end with a CRC.

use super::VERSION;
use crate::crc;
use crate::error::{MediaError, Reason};
use crate::wire::{BigWire, chunk};

/// Size of either header, bytes.
pub(super) const HEADER_BYTES: usize = 64;

/// Offset of the version.
const VERSION_AT: usize = 4;

/// Offset of the CRC of the bytes before it.
const CRC_AT: usize = 60;

/// Bit errors that the reader of a header observed and tolerates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ReadFlips {
    /// Number of bits that ECC corrected while the header was read.
    pub corrected: u32,
    /// Maximum number of zero bits in a header that still counts as erased.
    ///
    /// 0 if the ECC corrects erased pages; otherwise the correction strength of the code.
    pub tolerated: u32,
}

/// Constants of a kind of header: EC or VID.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) magic: u32,
}

/// Tells a header from erased flash and garbage, and checks CRC and version.
pub(super) fn open<'a>(
    bytes: &'a [u8],
    kind: &Kind,
    flips: ReadFlips,
) -> Result<&'a [u8; HEADER_BYTES], MediaError> {
    let header = chunk::<HEADER_BYTES>(bytes, 0)?;
    let found = u32::decode(header, 0);
    if found != kind.magic {
        let bad = Reason::BadMagic { what: kind.name, expected: kind.magic, found };
        return Err(erased(header, flips).unwrap_or(bad).at(0));
    }
    check_crc(header, kind)?;
    check_version(header, kind)?;
    Ok(header)
}

/// The reason to report if the bytes are erased flash.
fn erased(header: &[u8], flips: ReadFlips) -> Option<Reason> {
    let zeros: u32 = header.iter().map(|byte| byte.count_zeros()).sum();
    if zeros > flips.tolerated {
        return None;
    }
    match zeros.saturating_add(flips.corrected) {
        0 => Some(Reason::Erased),
        bits => Some(Reason::ErasedBitflips { bits }),
    }
}

fn check_crc(header: &[u8; HEADER_BYTES], kind: &Kind) -> Result<(), MediaError> {
    let (body, tail) = header.split_at(CRC_AT);
    let (stored, computed) = (u32::decode(tail, 0), crc::ubi(body));
    if stored == computed {
        return Ok(());
    }
    Err(Reason::BadCrc32 { what: kind.name, stored, computed }.at(CRC_AT))
}

fn check_version(header: &[u8; HEADER_BYTES], kind: &Kind) -> Result<(), MediaError> {
    let found = u8::decode(header, VERSION_AT);
    if found == VERSION {
        return Ok(());
    }
    let reason = Reason::WrongVersion { what: kind.name, found: u32::from(found), known: u32::from(VERSION) };
    Err(reason.at(VERSION_AT))
}

/// Encodes a header: fields, magic, version and CRC.
pub(super) fn seal(fields: &impl BigWire, kind: &Kind) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    kind.magic.put(&mut out, 0);
    VERSION.put(&mut out, VERSION_AT);
    fields.put(&mut out, 0);
    crc::ubi(out.split_at(CRC_AT).0).put(&mut out, CRC_AT);
    out
}

/// Rejects values that exceed a signed 32-bit integer, as Linux does. Each field is `(offset, name,
/// value)`.
pub(super) fn check_signs<const N: usize>(fields: [(usize, &'static str, u32); N]) -> Result<(), MediaError> {
    match fields.into_iter().find(|(_, _, value)| value >> 31 != 0) {
        Some((at, field, value)) => Err(Reason::OutOfRange { field, value: u64::from(value) }.at(at)),
        None => Ok(()),
    }
}
