//! Units in which a flash executes a write.

use crate::geometry::{FlashKind, Geometry};

/// Size of a program operation, B: a page, or the program buffer on NOR.
pub(crate) fn page_bytes(geometry: &Geometry) -> u32 {
    match geometry.kind {
        FlashKind::Nor => geometry.write_bytes.max(geometry.buffer_bytes),
        _ => geometry.write_bytes,
    }
}

/// Splits `data` at device addresses that are multiples of `unit` bytes, and returns each piece with its address.
pub(crate) fn pieces(addr: u64, data: &[u8], unit: u32) -> impl Iterator<Item = (u64, &[u8])> {
    let unit = u64::from(unit.max(1));
    let (mut addr, mut rest) = (addr, data);
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = (unit - addr % unit).min(rest.len() as u64);
        let (piece, next) = rest.split_at(len as usize);
        let item = (addr, piece);
        (addr, rest) = (addr + len, next);
        Some(item)
    })
}
