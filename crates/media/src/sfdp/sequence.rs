//! The table of command sequences that change to octal DDR (JESD216F, table FF0Ah).

use super::words::{Words, append, split};
use crate::error::MediaError;

/// One command as sent in 1S-1S-1S mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct CommandSequence {
    /// Number of bytes to send; 0: this step does not exist.
    pub length: u8,
    /// Bytes in the order in which they are sent; bytes beyond the length are unused.
    pub bytes: [u8; 7],
}

impl CommandSequence {
    /// The bytes to send.
    #[must_use]
    pub fn sent(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&self.bytes)
    }

    fn decode([first, second]: [u32; 2]) -> Self {
        // The first byte to send is in the highest bits of a DWORD.
        let [length, a, b, c] = first.to_be_bytes();
        let [d, e, f, g] = second.to_be_bytes();
        Self { length, bytes: [a, b, c, d, e, f, g] }
    }

    fn encode(&self) -> [u32; 2] {
        let [a, b, c, d, e, f, g] = self.bytes;
        [u32::from_be_bytes([self.length, a, b, c]), u32::from_be_bytes([d, e, f, g])]
    }
}

/// Commands that change from 1S-1S-1S to 8D-8D-8D mode, sent in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OctalSequence {
    /// The steps (DWORDs 1-8, two each).
    pub steps: [CommandSequence; 4],
}

impl OctalSequence {
    pub(super) fn read(dwords: &[u32]) -> Result<Self, MediaError> {
        let ([a, b, c, d, e, f, g, h], _) = split(dwords, 0)?;
        Ok(Self { steps: [[*a, *b], [*c, *d], [*e, *f], [*g, *h]].map(CommandSequence::decode) })
    }

    pub(super) fn write(&self) -> Result<Words, MediaError> {
        let mut words = Words::new();
        for step in &self.steps {
            append(&mut words, Ok(step.encode()))?;
        }
        Ok(words)
    }
}
