//! Page, spare and block size decoded from the third to sixth id byte.

use super::{NandId, NandIdGeometry};
use crate::error::{MediaError, Reason};

const KIB: u32 = 1024;

const HYNIX: u8 = 0xad;
const SAMSUNG: u8 = 0xec;
const TOSHIBA: u8 = 0x98;

/// Geometry encoded in the id bytes after the device code.
pub(super) struct Shape {
    pub(super) page_bytes: u32,
    pub(super) oob_bytes: u32,
    pub(super) block_bytes: u32,
    pub(super) wide: bool,
    pub(super) bits_per_cell: u8,
}

/// Decodes the geometry by the rules of the id's vendor.
pub(super) fn decode(id: &NandId) -> Result<Shape, MediaError> {
    let [_, _, third, fourth, fifth, sixth, ..] = id.bytes;
    let len = id.bytes().len();
    if len < 4 {
        return Err(Reason::Truncated { need: 4, have: len }.at(0));
    }
    let common = common(third, fourth);
    let slc = common.bits_per_cell == 1;
    match id.manufacturer() {
        SAMSUNG if len == 6 && !slc && sixth != 0 => samsung(&common, fourth),
        HYNIX if len >= 6 && !slc => hynix(&common, fourth, id.device(), id.jedec),
        TOSHIBA if len >= 6 && slc && sixth & 7 == 6 && fifth & 0x80 == 0 => {
            // 24 nm SLC without on-die ECC has 32 spare bytes for each 512 data bytes.
            Ok(Shape { oob_bytes: common.page_bytes / 16, ..common })
        }
        _ => Ok(common),
    }
}

/// Geometry by the rules of most large-page chips.
fn common(third: u8, fourth: u8) -> Shape {
    let page_bytes = KIB << (fourth & 3);
    Shape {
        page_bytes,
        oob_bytes: page_bytes / 512 * (8 << (fourth >> 2 & 1)),
        block_bytes: (64 * KIB) << (fourth >> 4 & 3),
        wide: fourth & 0x40 != 0,
        bits_per_cell: (third >> 2 & 3) + 1,
    }
}

/// The third and fourth id byte for this geometry, by the common rules.
pub(super) fn encode(geometry: &NandIdGeometry) -> Result<[u8; 2], MediaError> {
    let page = exponent("page_bytes", geometry.page_bytes, KIB, 3)?;
    let block = exponent("block_bytes", geometry.block_bytes, 64 * KIB, 3)?;
    let spare = exponent("oob_bytes", geometry.oob_bytes, geometry.page_bytes / 64, 1)?;
    let cell = geometry.bits_per_cell.wrapping_sub(1);
    if cell > 3 {
        let value = u64::from(geometry.bits_per_cell);
        return Err(Reason::OutOfRange { field: "bits_per_cell", value }.at(2));
    }
    let wide = u8::from(geometry.bus_width == 16);
    Ok([cell << 2, wide << 6 | block << 4 | spare << 2 | page])
}

/// Exponent n with `value` = `unit` * 2^n, up to `max`.
fn exponent(field: &'static str, value: u32, unit: u32, max: u8) -> Result<u8, MediaError> {
    let found = (0..=max).find(|shift| unit << shift == value);
    found.ok_or_else(|| Reason::OutOfRange { field, value: u64::from(value) }.at(3))
}

/// Rules of Samsung MLC chips with six id bytes, since K9GAG08U0F.
fn samsung(common: &Shape, fourth: u8) -> Result<Shape, MediaError> {
    let oob_bytes = match fourth >> 4 & 4 | fourth >> 2 & 3 {
        1 => 128,
        2 => 218,
        3 => 400,
        4 => 436,
        5 => 512,
        6 => 640,
        _ => return Err(undefined("Samsung spare size", fourth)),
    };
    Ok(Shape {
        page_bytes: (2 * KIB) << (fourth & 3),
        oob_bytes,
        block_bytes: (128 * KIB) << (fourth >> 5 & 4 | fourth >> 4 & 3),
        wide: false,
        ..*common
    })
}

/// Rules of Hynix MLC chips with six or more id bytes.
fn hynix(common: &Shape, fourth: u8, device: u8, jedec: bool) -> Result<Shape, MediaError> {
    let page_bytes = (2 * KIB) << (fourth & 3);
    let block_bytes = match (fourth & 0x80 != 0, fourth >> 4 & 3) {
        (true, code) => (1024 * KIB) << code,
        (false, 3) => 768 * KIB,
        (false, code) => (128 * KIB) << code,
    };
    let code = fourth >> 4 & 4 | fourth >> 2 & 3;
    let spare = if jedec { hynix_spare_jedec(code) } else { hynix_spare(code) };
    let mut oob_bytes = spare.ok_or_else(|| undefined("Hynix spare size", fourth))?;
    if !jedec && device == 0xde {
        // The code counts spare bytes for each 8 KiB of the page (H27UCG8T2B).
        oob_bytes *= (page_bytes / (8 * KIB)).max(1);
    }
    Ok(Shape { page_bytes, oob_bytes, block_bytes, wide: false, ..*common })
}

fn hynix_spare(code: u8) -> Option<u32> {
    [128, 224, 448, 64, 32, 16, 640].get(usize::from(code)).copied()
}

fn hynix_spare_jedec(code: u8) -> Option<u32> {
    [2048, 1664, 1024, 640].get(usize::from(code)).copied()
}

fn undefined(what: &'static str, fourth: u8) -> MediaError {
    Reason::UnknownCode { what, code: u32::from(fourth) }.at(3)
}
