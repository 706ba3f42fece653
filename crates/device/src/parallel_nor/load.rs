//! The program buffer while it is being filled, common to both command sets.

use crate::violation::Violation;

/// A program buffer that is being filled.
///
/// The model is stricter than silicon: words must arrive in ascending order without gaps, within one
/// buffer line.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    bytes: Vec<u8>,
    /// An address in the block for which the buffer is loaded.
    pub(super) block: u32,
    pub(super) start: u32,
    want: u32,
    pub(super) len: u32,
}

impl Load {
    pub(super) fn new(line_bytes: usize) -> Self {
        Self { bytes: vec![0; line_bytes], ..Self::default() }
    }

    /// Starts a buffer load of `want` bytes for the block at `block`.
    pub(super) fn begin(&mut self, block: u32, want: u32) -> Result<(), Violation> {
        if want as usize > self.bytes.len() {
            return Err(Violation::Sequence("more words announced than the program buffer holds"));
        }
        (self.block, self.want, self.start, self.len) = (block, want, 0, 0);
        Ok(())
    }

    pub(super) const fn full(&self) -> bool {
        self.len == self.want
    }

    /// Accepts consecutive data cycles. With `keep` false they are only counted.
    pub(super) fn add_words(&mut self, addr: u32, data: &[u8], keep: bool) -> Result<(), Violation> {
        let line = self.bytes.len() as u32;
        if self.len == 0 {
            self.start = addr;
        }
        let len = data.len() as u32;
        if len > self.want - self.len {
            return Err(Violation::Sequence("more words than announced"));
        }
        if addr != self.start + self.len {
            return Err(Violation::Sequence("buffer words must follow each other, as many as announced"));
        }
        if (addr + len - 1) / line != self.start / line {
            return Err(Violation::Sequence("buffer words must lie in one buffer line"));
        }
        if keep {
            self.bytes[self.len as usize..][..data.len()].copy_from_slice(data);
        }
        self.len += len;
        Ok(())
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}
