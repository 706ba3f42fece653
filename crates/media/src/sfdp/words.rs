//! Lists of the DWORDs of one table.

use crate::error::{MediaError, Reason};
use crate::list::List;

/// Maximum number of DWORDs in a table: its length field is one byte (JESD216F, parameter header).
pub(super) const MAX_WORDS: usize = 255;

/// The DWORDs of a table to be written.
pub(super) type Words = List<u32, MAX_WORDS>;

/// Appends one part of a table.
pub(super) fn append<const N: usize>(
    words: &mut Words,
    part: Result<[u32; N], Reason>,
) -> Result<(), MediaError> {
    let at = 4 * words.len();
    for word in part.map_err(|reason| reason.at(at))? {
        words.push(word, "table DWORDs").map_err(|reason| reason.at(at))?;
    }
    Ok(())
}

/// The `N` DWORDs from DWORD `at` on, and the DWORDs after them; offsets in errors are bytes.
pub(super) fn split<const N: usize>(dwords: &[u32], at: usize) -> Result<(&[u32; N], &[u32]), MediaError> {
    let tail = dwords.get(at..).unwrap_or(&[]);
    let need = 4 * N;
    let have = 4 * tail.len();
    tail.split_first_chunk().ok_or_else(|| Reason::Truncated { need, have }.at(4 * at))
}
