//! Padding, which fills a write up to its end: `docs/spec/ubifs.md#padding`.

use super::Limits;
use super::header::{HEADER_BYTES, NodeBody, Stamp, fixed_nodes};
use crate::error::{MediaError, require};
use crate::wire::layout;

/// Byte that fills space too small for a padding node.
pub const PADDING_BYTE: u8 = 0xCE;

layout! {
    /// A padding node: the bytes after it are unused.
    pub struct PaddingNode[28] {
        /// Number of padding bytes behind the node.
        24 => pad_len: u32,
    }
}

fixed_nodes!(PaddingNode => Padding);

impl PaddingNode {
    /// Length of the node and its padding, bytes.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        Self::SIZE as u64 + self.pad_len as u64
    }

    /// Checks that the padding stays inside a LEB and ends where a node can begin.
    ///
    /// # Errors
    ///
    /// An impossible length.
    pub fn check(&self, limits: &Limits) -> Result<(), MediaError> {
        let total = self.total_bytes();
        let good = total <= u64::from(limits.leb_bytes) && total.is_multiple_of(8);
        require(good, HEADER_BYTES, "padding length", self.pad_len)
    }
}

/// Maximum padding of one node, B. Longer padding consists of several nodes.
const LONGEST: usize = 1 << 30;

/// Fills `out` with padding: a node and zeros, or [`PADDING_BYTE`]s where no node fits.
pub fn pad(out: &mut [u8]) {
    out.chunks_mut(LONGEST).for_each(pad_once);
}

fn pad_once(out: &mut [u8]) {
    let Some((_, rest)) = out.split_at_mut_checked(PaddingNode::SIZE) else {
        out.fill(PADDING_BYTE);
        return;
    };
    rest.fill(0);
    // The padding has at most `LONGEST` bytes.
    let pad_len = rest.len() as u32;
    let written = PaddingNode { pad_len }.emit(Stamp::new(0), out);
    debug_assert!(written.is_ok(), "the room was checked");
}

/// Number of padding bytes at the start of `bytes`; 0 if no node can begin after them.
///
/// At most 28 bytes are counted, because longer padding has a padding node.
#[must_use]
pub fn padding_bytes(bytes: &[u8]) -> usize {
    let run = bytes.iter().take(PaddingNode::SIZE).take_while(|&&byte| byte == PADDING_BYTE).count();
    if run.is_multiple_of(8) { run } else { 0 }
}
