//! Numbers of as many bits as the largest of them needs: the map of a card.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Array of numbers, all 0 at first. Those that were never written take no memory. Clones can share what there is, and have their changes beside it
/// ([`Self::share`]).
#[derive(Clone, Debug)]
pub(crate) struct PackedInts {
    /// All numbers, but where there is a base.
    own: Chunks,
    base: Option<Arc<Chunks>>,
    /// Numbers that are others than in the base.
    changes: HashMap<u32, u32, BuildHasherDefault<IndexHasher>>,
    len: usize,
}

/// Divisor of the length: the base is copied when more than `len / CHANGED_MAX` numbers differ from it.
const CHANGED_MAX: usize = 16;

impl PackedInts {
    /// `len` zeros, with room for numbers up to `largest`.
    pub(crate) fn new(len: usize, largest: u32) -> Self {
        let bits = (u32::BITS - largest.leading_zeros()) as usize;
        Self { own: Chunks::new(len, bits), base: None, changes: HashMap::default(), len }
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> u32 {
        match &self.base {
            None => self.own.get(index),
            Some(base) => self.changes.get(&(index as u32)).copied().unwrap_or_else(|| base.get(index)),
        }
    }

    /// Writes a number. Returns the one before.
    #[inline]
    pub(crate) fn replace(&mut self, index: usize, number: u32) -> u32 {
        debug_assert!(index < self.len);
        if self.base.is_some() { self.change(index, number) } else { self.own.replace(index, number) }
    }

    /// Writes a number beside the base.
    fn change(&mut self, index: usize, number: u32) -> u32 {
        let before = self.get(index);
        self.changes.insert(index as u32, number);
        if self.changes.len() > self.len / CHANGED_MAX
            && let Some(base) = self.base.take()
        {
            self.own = Arc::unwrap_or_clone(base);
            for (index, number) in std::mem::take(&mut self.changes) {
                self.own.replace(index as usize, number);
            }
        }
        before
    }

    /// All numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len).map(|index| self.get(index))
    }

    /// Makes all numbers 0.
    pub(crate) fn clear(&mut self) {
        let bits = self.base.as_ref().map_or(self.own.bits, |base| base.bits);
        (self.base, self.changes) = (None, HashMap::default());
        self.own = Chunks::new(self.len, bits);
    }

    /// Clones that are made from now on share the numbers as they are, if any was written.
    pub(crate) fn share(&mut self) {
        if self.base.is_none() && self.own.chunks.iter().any(Option::is_some) {
            self.base = Some(Arc::new(std::mem::replace(&mut self.own, Chunks::new(0, 0))));
        }
    }

    /// Bytes of memory when all was written.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.base.as_deref().unwrap_or(&self.own).memory_bytes()
    }
}

/// Hash of an index: numbers that follow each other stay apart.
#[derive(Clone, Copy, Debug, Default)]
struct IndexHasher(u64);

impl Hasher for IndexHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        // Fibonacci hashing.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Numbers without gaps, in chunks that are allocated when they are written.
#[derive(Clone, Debug)]
struct Chunks {
    chunks: Vec<Option<Box<[u8]>>>,
    bits: usize,
}

/// Numbers of a chunk.
const CHUNK: usize = 1 << 12;

impl Chunks {
    fn new(len: usize, bits: usize) -> Self {
        Self { chunks: vec![None; len.div_ceil(CHUNK)], bits }
    }

    const fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    /// Bytes of a chunk. Each number is read within eight bytes.
    const fn chunk_bytes(&self) -> usize {
        CHUNK * self.bits / 8 + 8
    }

    /// Chunk, byte and bit of a number.
    #[inline]
    const fn place(&self, index: usize) -> (usize, usize, usize) {
        let bit = index % CHUNK * self.bits;
        (index / CHUNK, bit / 8, bit % 8)
    }

    #[inline]
    fn get(&self, index: usize) -> u32 {
        let (chunk, byte, shift) = self.place(index);
        let Some(bytes) = &self.chunks[chunk] else { return 0 };
        let word = bytes[byte..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        (word >> shift & self.mask()) as u32
    }

    #[inline]
    fn replace(&mut self, index: usize, number: u32) -> u32 {
        debug_assert!(u64::from(number) <= self.mask());
        let ((chunk, byte, shift), mask, len) = (self.place(index), self.mask(), self.chunk_bytes());
        let bytes = self.chunks[chunk].get_or_insert_with(|| vec![0; len].into());
        let Some(bytes) = bytes[byte..].first_chunk_mut() else { return 0 };
        let word = u64::from_le_bytes(*bytes);
        *bytes = (word & !(mask << shift) | u64::from(number) << shift).to_le_bytes();
        (word >> shift & mask) as u32
    }

    const fn memory_bytes(&self) -> usize {
        self.chunks.len() * (self.chunk_bytes() + size_of::<Option<Box<[u8]>>>())
    }

    /// Bytes of the chunks that are written.
    #[cfg(test)]
    fn held_bytes(&self) -> usize {
        self.chunks.iter().flatten().map(|bytes| bytes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_width_stay_apart() {
        for bits in 1..=32 {
            let largest = u32::MAX >> (32 - bits);
            let mut packed = PackedInts::new(100, largest);
            assert_eq!(packed.memory_bytes(), CHUNK * bits as usize / 8 + 8 + size_of::<Option<Box<[u8]>>>());
            let number = |index: usize, round: u32| {
                (index as u32).wrapping_mul(0x9E37_79B9).rotate_left(round) & largest
            };
            for round in 0..3 {
                for index in 0..100 {
                    let old = if round == 0 { 0 } else { number(index, round - 1) };
                    assert_eq!(packed.replace(index, number(index, round)), old);
                }
                assert!(packed.iter().eq((0..100).map(|index| number(index, round))), "{bits} bits");
            }
            packed.replace(99, largest);
            assert_eq!((packed.get(99), packed.get(98)), (largest, number(98, 2)));
            packed.clear();
            assert_eq!((packed.iter().max(), packed.iter().count()), (Some(0), 100));
        }
    }

    #[test]
    fn numbers_that_were_not_written_take_no_memory_and_clones_share_the_others() {
        let len = 10 * CHUNK + 1;
        let mut packed = PackedInts::new(len, 1 << 20);
        assert_eq!((packed.own.held_bytes(), packed.get(len - 1)), (0, 0));
        (0..len).step_by(CHUNK).for_each(|index| _ = packed.replace(index, index as u32 + 1));
        assert_eq!(packed.own.held_bytes(), 11 * packed.own.chunk_bytes());
        packed.share();
        let mut clone = packed.clone();
        assert_eq!(clone.replace(CHUNK, 7), CHUNK as u32 + 1);
        assert_eq!((clone.replace(CHUNK, 8), clone.get(CHUNK), packed.get(CHUNK)), (7, 8, CHUNK as u32 + 1));
        assert_eq!((clone.get(2 * CHUNK), clone.own.held_bytes()), (2 * CHUNK as u32 + 1, 0));
        // As many changes as need a copy.
        (0..len / 8).for_each(|index| _ = clone.replace(index, 9));
        assert!(clone.base.is_none() && clone.changes.is_empty());
        let expected = |index: usize| match index {
            _ if index < len / 8 => 9,
            _ if index.is_multiple_of(CHUNK) => index as u32 + 1,
            _ => 0,
        };
        assert!(clone.iter().eq((0..len).map(expected)));
        assert_eq!((packed.get(0), packed.get(1)), (1, 0));
        packed.clear();
        assert!(packed.iter().all(|number| number == 0) && packed.replace(3, 1 << 20) == 0);
    }
}
