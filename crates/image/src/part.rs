//! A part of a file.

use serde::Serialize;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Part {
    /// The byte behind the last one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// The command that cuts it out into a file of its own.
    #[must_use]
    pub fn dd(&self) -> String {
        let Self { offset, len } = self;
        format!("`dd if=FILE of=IMAGE bs=64k iflag=skip_bytes,count_bytes skip={offset} count={len}`")
    }

    /// Advice for something else that stands around an image, which is this part: `over` is the number of eraseblocks that the image has up to the end of the file.
    pub(crate) fn cut_out(&self, over: Option<u32>) -> String {
        let dd = self.dd();
        match over {
            Some(over) => format!(
                "{dd} cuts out what is left of it, and `floatgate image put --lebs {over}` makes that as long as it was; with --recover it takes the bytes for a part of the image"
            ),
            None => format!("{dd} cuts out what is left of it"),
        }
    }
}
