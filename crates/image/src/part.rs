//! A part of a file.

use floatgate_mtd::advice::{Piece, shell};
use serde::Serialize;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Part {
    /// Offset of the end.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Command that copies the part to another file.
    #[must_use]
    pub fn dd(&self) -> Piece {
        let Self { offset, len } = self;
        shell(format!("dd if=FILE of=IMAGE bs=64k iflag=skip_bytes,count_bytes skip={offset} count={len}"))
    }
}
