//! Dumps whose bytes a programmer or a bus has exchanged: pairs of bytes, the order of the bits of each byte, or all bits inverted.

use serde::Serialize;
use std::io::{self, Read};

/// Exchange that takes a dump as it was read to the bytes of the chip. Each is its own reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transform {
    /// The two bytes of each pair change places: a 16-bit bus read in the other order.
    SwapBytes,
    /// The bits of each byte are in the other order.
    ReverseBits,
    /// All bits are inverted.
    Invert,
}

impl Transform {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::SwapBytes, Self::ReverseBits, Self::Invert];

    /// Exchanges the bytes of whole pairs, or all bytes.
    pub fn apply(self, bytes: &mut [u8]) {
        match self {
            Self::SwapBytes => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.reverse()),
            Self::ReverseBits => bytes.iter_mut().for_each(|byte| *byte = byte.reverse_bits()),
            Self::Invert => bytes.iter_mut().for_each(|byte| *byte = !*byte),
        }
    }

    /// The bytes of a reader, exchanged.
    pub fn reader<'r>(self, inner: impl Read + 'r) -> Box<dyn Read + 'r> {
        Box::new(Transformed { inner, transform: self, ready: Vec::new(), at: 0 })
    }
}

/// Bytes that are exchanged at a time.
const BLOCK: u64 = 64 << 10;

struct Transformed<R> {
    inner: R,
    transform: Transform,
    /// Exchanged bytes, and how many of them were given out.
    ready: Vec<u8>,
    at: usize,
}

impl<R: Read> Read for Transformed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.ready.len() {
            self.ready.clear();
            self.at = 0;
            (&mut self.inner).take(BLOCK).read_to_end(&mut self.ready)?;
            self.transform.apply(&mut self.ready);
        }
        let rest = self.ready.get(self.at..).unwrap_or(&[]);
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_exchange_is_its_own_reverse() {
        let bytes: Vec<u8> = (0..200_003_u32).map(|at| (at * 7 + at / 256) as u8).collect();
        for transform in Transform::ALL {
            let mut out = Vec::new();
            transform.reader(transform.reader(&bytes[..])).read_to_end(&mut out).unwrap();
            assert!(out == bytes, "{transform:?}");
            let mut once = Vec::new();
            transform.reader(&bytes[..]).read_to_end(&mut once).unwrap();
            assert!(once != bytes);
        }
    }
}
