//! Dumps whose bytes a programmer or a bus has exchanged: pairs of bytes, the order of the bits of each byte, or all bits inverted.

use serde::Serialize;
use std::io::{self, Read, Write};

/// Exchange that takes a dump as it was read to the bytes of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transform {
    /// The two bytes of each pair change places: a 16-bit bus read in the other order.
    SwapBytes,
    /// The bits of each byte are in the other order.
    ReverseBits,
    /// All bits are inverted.
    Invert,
    /// The bytes of two chips alternate: two chips of 8 bits on a bus of 16, each with its own ECC. The pages of both then follow each other.
    TwoChips,
}

impl Transform {
    /// Those that exchange bytes or bits within a page. Each is its own reverse.
    pub const ALL: [Self; 3] = [Self::SwapBytes, Self::ReverseBits, Self::Invert];

    /// Exchanges the bytes of whole pairs, or all bytes; of two chips the bytes of a page of each.
    pub fn apply(self, bytes: &mut [u8]) {
        match self {
            Self::SwapBytes => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.reverse()),
            Self::ReverseBits => bytes.iter_mut().for_each(|byte| *byte = byte.reverse_bits()),
            Self::Invert => bytes.iter_mut().for_each(|byte| *byte = !*byte),
            Self::TwoChips => {
                let chip = |number: usize| bytes.iter().skip(number).step_by(2).copied().collect::<Vec<u8>>();
                let both = [chip(0), chip(1)].concat();
                bytes.copy_from_slice(&both);
            }
        }
    }

    /// The bytes of a reader of pages with `page_bytes` bytes in the file, exchanged.
    pub fn reader<'r>(self, inner: impl Read + 'r, page_bytes: u32) -> Box<dyn Read + 'r> {
        let unit = if self == Self::TwoChips { 2 * page_bytes.max(1) as usize } else { BLOCK };
        Box::new(Transformed { inner, transform: self, unit, ready: Vec::new(), at: 0 })
    }
}

/// Bytes that are exchanged at a time, at least.
const BLOCK: usize = 64 << 10;

/// Data of two chips, page after page, to be written as the board reads them: their bytes alternate.
pub struct TwoChipsWriter<'w> {
    inner: &'w mut dyn Write,
    page_bytes: usize,
    pending: Vec<u8>,
}

impl<'w> TwoChipsWriter<'w> {
    /// A writer for pages of this size.
    pub fn new(inner: &'w mut dyn Write, page_bytes: u32) -> Self {
        Self { inner, page_bytes: page_bytes.max(1) as usize, pending: Vec::new() }
    }

    /// Writes a last page that has no other one.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.inner.write_all(&self.pending)
    }
}

impl Write for TwoChipsWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        let whole = self.pending.len() / (2 * self.page_bytes) * (2 * self.page_bytes);
        let mut out = Vec::with_capacity(whole);
        for pair in self.pending.get(..whole).unwrap_or(&[]).chunks_exact(2 * self.page_bytes) {
            let (one, other) = pair.split_at(self.page_bytes);
            out.extend(one.iter().zip(other).flat_map(|(one, other)| [*one, *other]));
        }
        self.inner.write_all(&out)?;
        self.pending.drain(..whole);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

struct Transformed<R> {
    inner: R,
    transform: Transform,
    /// Bytes that are exchanged together.
    unit: usize,
    /// Exchanged bytes, and how many of them were given out.
    ready: Vec<u8>,
    at: usize,
}

impl<R: Read> Read for Transformed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.ready.len() {
            self.ready.clear();
            self.at = 0;
            let block = BLOCK.div_ceil(self.unit) * self.unit;
            (&mut self.inner).take(block as u64).read_to_end(&mut self.ready)?;
            let transform = self.transform;
            if transform == Transform::TwoChips {
                // A last page without the page of the other chip stays as it is.
                self.ready.chunks_exact_mut(self.unit).for_each(|pair| transform.apply(pair));
            } else {
                transform.apply(&mut self.ready);
            }
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
            transform.reader(transform.reader(&bytes[..], 1), 1).read_to_end(&mut out).unwrap();
            assert!(out == bytes, "{transform:?}");
            let mut once = Vec::new();
            transform.reader(&bytes[..], 1).read_to_end(&mut once).unwrap();
            assert!(once != bytes);
        }
    }

    #[test]
    fn the_pages_of_two_chips_come_back() {
        // A last pair of pages is not whole.
        let bytes: Vec<u8> = (0..10 * 528 * 60 + 700_u32).map(|at| (at * 7 + at / 256) as u8).collect();
        let (mut apart, mut back) = (Vec::new(), Vec::new());
        Transform::TwoChips.reader(&bytes[..], 528).read_to_end(&mut apart).unwrap();
        assert_eq!(apart[..528], bytes[..1056].iter().step_by(2).copied().collect::<Vec<_>>());
        let mut writer = TwoChipsWriter::new(&mut back, 528);
        apart.chunks(1000).for_each(|piece| writer.write_all(piece).unwrap());
        writer.finish().unwrap();
        assert!(back == bytes);
    }
}
