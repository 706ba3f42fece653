//! romfs: the superblock.

use super::{Begins, Probe, padded};
use crate::map::probe_match::{Kind, ProbeMatch};
use crate::map::view::{Numbers, View};

pub(super) const PROBE: Probe =
    Probe { begins: Begins::Magic { at: 0, magics: &[b"-rom1fs-"], step: 4 }, probe };

/// Largest number of bytes that the checksum covers.
const SUMMED_MAX: u64 = 512;

fn probe(view: &View<'_>) -> Option<ProbeMatch> {
    let size = u64::from(view.be32(8)?);
    if size < 32 {
        return None;
    }
    let head = view.bytes(0, usize::try_from(size.min(SUMMED_MAX).min(view.len())).ok()?)?;
    let sum = head.chunks_exact(4).fold(0_u32, |sum, word| sum.wrapping_add(word.be32(0)));
    Some(
        ProbeMatch::new(Kind::Romfs, padded(view, size))
            .text("name", head.text(16, 16))
            .number("used_bytes", size)
            .sum_is(sum == 0),
    )
}
