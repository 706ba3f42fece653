//! The redundant copies of the parameter page.

use super::{OnfiPage, PAGE_BYTES, emit, parse};
use crate::error::{MediaError, Reason};
use crate::wire::store;

/// Number of copies that every chip has and that take part in the majority vote (ONFI 4.2 section 5.7).
const VOTERS: usize = 3;

/// Reads the parameter page from its copies, which follow each other from byte 0.
///
/// The first copy with a good checksum is used. Without one, each bit is set by a majority of the first three copies,
/// and the result must have a good checksum. Linux's raw NAND code recovers pages in the same way.
///
/// # Errors
///
/// The error of the first copy if fewer than three are given, otherwise the error of the majority's result; offsets
/// count from the start of a copy.
pub fn parse_copies(bytes: &[u8]) -> Result<OnfiPage, MediaError> {
    let mut copies = bytes.chunks_exact(PAGE_BYTES);
    let good = copies.find_map(|copy| match parse(copy) {
        Err(MediaError { reason: Reason::BadCrc { .. } | Reason::BadSignature { .. }, .. }) => None,
        settled => Some(settled),
    });
    match (good, voters(bytes)) {
        (Some(page), _) => page,
        (None, Some(copies)) => parse(&majority(copies)),
        (None, None) => parse(bytes),
    }
}

/// Writes `count` copies of the page from byte 0 and returns the number of bytes written.
///
/// # Errors
///
/// [`Reason::NoRoom`] if the slice is too short.
pub fn emit_copies(page: &OnfiPage, count: usize, out: &mut [u8]) -> Result<usize, MediaError> {
    let need = count.saturating_mul(PAGE_BYTES);
    if out.len() < need {
        return Err(Reason::NoRoom { need, have: out.len() }.at(0));
    }
    let copy = emit(page);
    for index in 0..count {
        store(out, index * PAGE_BYTES, &copy);
    }
    Ok(need)
}

/// The first three copies, for the majority vote; `None` if there are fewer.
fn voters(bytes: &[u8]) -> Option<[&[u8]; VOTERS]> {
    let voting = bytes.get(..VOTERS * PAGE_BYTES)?;
    let mut chunks = voting.chunks_exact(PAGE_BYTES);
    Some([chunks.next()?, chunks.next()?, chunks.next()?])
}

/// The majority of three copies, bit by bit.
fn majority([first, second, third]: [&[u8]; VOTERS]) -> [u8; PAGE_BYTES] {
    let mut out = [0; PAGE_BYTES];
    for (place, ((a, b), c)) in out.iter_mut().zip(first.iter().zip(second).zip(third)) {
        *place = (a & b) | (a & c) | (b & c);
    }
    out
}
