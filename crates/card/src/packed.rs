//! Array of numbers with the number of bits that the largest of them needs: the map of a card.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Array of numbers, which are initially 0. Numbers that were never written take no memory. Clones can share a base of numbers, and store their own
/// changes separately ([`Self::share`]).
#[derive(Clone, Debug)]
pub(crate) struct PackedInts {
    /// All numbers; unused if there is a base.
    own: Chunks,
    base: Option<Arc<Chunks>>,
    /// Numbers that differ from the base.
    changes: HashMap<u32, u32, BuildHasherDefault<IndexHasher>>,
    len: usize,
}

/// Divisor of the length. The base is copied when more than `len / CHANGED_MAX` numbers differ from it.
const CHANGED_MAX: usize = 16;

impl PackedInts {
    /// Creates `len` zeros, with enough bits for numbers up to `largest`.
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

    /// Writes a number, and returns the old one.
    #[inline]
    pub(crate) fn replace(&mut self, index: usize, number: u32) -> u32 {
        debug_assert!(index < self.len);
        if self.base.is_some() { self.change(index, number) } else { self.own.replace(index, number) }
    }

    /// Writes a number that differs from the base.
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

    /// Iterator over all numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len).map(|index| self.get(index))
    }

    /// Writes `count` consecutive increasing numbers from an index on. In a chunk without other numbers they take only a few bytes.
    pub(crate) fn replace_run(&mut self, index: usize, first: u32, count: u32) {
        debug_assert!(index + count as usize <= self.len);
        let (mut index, mut first, mut left) = (index, first, count as usize);
        while left > 0 {
            let count = (CHUNK - index % CHUNK).min(left);
            if self.base.is_some() || !self.own.append_run(index, first, count) {
                (index..index + count)
                    .zip(first..)
                    .for_each(|(index, number)| _ = self.replace(index, number));
            }
            (index, first, left) = (index + count, first + count as u32, left - count);
        }
    }

    /// True if `count` numbers from an index on are part of one run without changes.
    pub(crate) fn is_run(&self, index: usize, count: usize) -> bool {
        let (mut at, end, first) = (index, index + count, self.get(index));
        while at < end {
            let part = (CHUNK - at % CHUNK).min(end - at);
            if self.base.is_some()
                || !self.own.is_run(at, part)
                || self.own.get(at) != first + (at - index) as u32
            {
                return false;
            }
            at += part;
        }
        true
    }

    /// Calls `each` for all numbers other than 0: for a run, with its first number and the count of its unchanged numbers; for each other
    /// number, with the count 1.
    pub(crate) fn for_each_run(&self, mut each: impl FnMut(u32, u32)) {
        match self.base {
            None => self.own.for_each_run(self.len, &mut each),
            Some(_) => self.iter().filter(|number| *number > 0).for_each(|number| each(number, 1)),
        }
    }

    /// Sets all numbers to 0.
    pub(crate) fn clear(&mut self) {
        let bits = self.base.as_ref().map_or(self.own.bits, |base| base.bits);
        (self.base, self.changes) = (None, HashMap::default());
        self.own = Chunks::new(self.len, bits);
    }

    /// Lets later clones share the current numbers, if any was written.
    pub(crate) fn share(&mut self) {
        if self.base.is_none() && self.own.is_written() {
            self.base = Some(Arc::new(std::mem::replace(&mut self.own, Chunks::new(0, 0))));
        }
    }

    /// Current memory, B.
    pub(crate) fn held_bytes(&self) -> usize {
        let shared = self.base.as_deref().unwrap_or(&self.own).held_bytes();
        shared + self.changes.len() * size_of::<(u32, u32)>()
    }

    /// Memory when all numbers are written, B.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.base.as_deref().unwrap_or(&self.own).memory_bytes()
    }
}

/// Hash of an index. Consecutive indices have distant hashes.
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

/// A run of consecutive increasing numbers in a chunk.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Index of the first number in the chunk.
    offset: u16,
    count: u16,
    first: u32,
}

impl Run {
    const fn end(&self) -> usize {
        self.offset as usize + self.count as usize
    }
}

/// Numbers of a chunk, in the most compact form.
#[derive(Clone, Debug, Default)]
enum Chunk {
    /// All numbers are 0.
    #[default]
    Empty,
    /// Runs in order, and later changes: pairs of index and number, ordered by index.
    Runs { runs: Vec<Run>, changes: Vec<(u16, u32)> },
    /// All numbers, without gaps.
    Packed(Box<[u8]>),
}

/// Maximum number of changes in a chunk of runs; with more changes, the chunk is packed.
const CHANGES_MAX: usize = 512;

/// Array of packed numbers, in chunks that are allocated by the first write.
#[derive(Clone, Debug)]
struct Chunks {
    chunks: Vec<Chunk>,
    bits: usize,
}

/// Number of elements in a chunk.
const CHUNK: usize = 1 << 12;

impl Chunk {
    /// Element at an offset of a chunk of runs.
    fn number(runs: &[Run], changes: &[(u16, u32)], offset: usize) -> u32 {
        match changes.binary_search_by_key(&offset, |(place, _)| usize::from(*place)) {
            Ok(place) => changes[place].1,
            Err(_) => Self::unchanged(runs, offset),
        }
    }

    fn unchanged(runs: &[Run], offset: usize) -> u32 {
        let place = runs.partition_point(|run| usize::from(run.offset) <= offset);
        let run = place.checked_sub(1).and_then(|place| runs.get(place));
        run.filter(|run| offset < run.end())
            .map_or(0, |run| run.first + (offset as u32 - u32::from(run.offset)))
    }
}

impl Chunks {
    fn new(len: usize, bits: usize) -> Self {
        Self { chunks: vec![Chunk::Empty; len.div_ceil(CHUNK)], bits }
    }

    const fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    /// Size of a packed chunk, B. Its end is padded, because each number is read from eight bytes.
    const fn chunk_bytes(&self) -> usize {
        CHUNK * self.bits / 8 + 8
    }

    /// Byte and bit at which an element begins in its packed chunk.
    #[inline]
    const fn place(&self, offset: usize) -> (usize, usize) {
        let bit = offset * self.bits;
        (bit / 8, bit % 8)
    }

    fn is_written(&self) -> bool {
        self.chunks.iter().any(|chunk| !matches!(chunk, Chunk::Empty))
    }

    #[inline]
    fn get(&self, index: usize) -> u32 {
        match &self.chunks[index / CHUNK] {
            Chunk::Empty => 0,
            Chunk::Packed(bytes) => {
                let (byte, shift) = self.place(index % CHUNK);
                let word = bytes[byte..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                (word >> shift & self.mask()) as u32
            }
            Chunk::Runs { runs, changes } => Chunk::number(runs, changes, index % CHUNK),
        }
    }

    #[inline]
    fn replace(&mut self, index: usize, number: u32) -> u32 {
        debug_assert!(u64::from(number) <= self.mask());
        let (mask, len, (byte, shift)) = (self.mask(), self.chunk_bytes(), self.place(index % CHUNK));
        let chunk = &mut self.chunks[index / CHUNK];
        let bytes = match chunk {
            Chunk::Packed(bytes) => bytes,
            Chunk::Empty => {
                *chunk = Chunk::Packed(vec![0; len].into());
                let Chunk::Packed(bytes) = chunk else { return 0 };
                bytes
            }
            Chunk::Runs { .. } => return self.change(index, number),
        };
        let Some(bytes) = bytes[byte..].first_chunk_mut() else { return 0 };
        let word = u64::from_le_bytes(*bytes);
        *bytes = (word & !(mask << shift) | u64::from(number) << shift).to_le_bytes();
        (word >> shift & mask) as u32
    }

    /// Replaces a number in a chunk of runs. A chunk with many changes is packed.
    fn change(&mut self, index: usize, number: u32) -> u32 {
        let offset = index % CHUNK;
        let Chunk::Runs { runs, changes } = &mut self.chunks[index / CHUNK] else { return 0 };
        match changes.binary_search_by_key(&offset, |(place, _)| usize::from(*place)) {
            Ok(place) => return std::mem::replace(&mut changes[place].1, number),
            Err(place) if changes.len() < CHANGES_MAX => {
                changes.insert(place, (offset as u16, number));
                return Chunk::unchanged(runs, offset);
            }
            Err(_) => {}
        }
        let chunk = std::mem::take(&mut self.chunks[index / CHUNK]);
        if let Chunk::Runs { runs, changes } = chunk {
            let start = index - offset;
            for place in 0..CHUNK {
                let held = Chunk::number(&runs, &changes, place);
                if held > 0 {
                    self.replace(start + place, held);
                }
            }
        }
        self.replace(index, number)
    }

    /// Appends a run to a chunk, if the chunk contains only runs before it. Returns false otherwise.
    fn append_run(&mut self, index: usize, first: u32, count: usize) -> bool {
        let offset = index % CHUNK;
        let run = Run { offset: offset as u16, count: count as u16, first };
        match &mut self.chunks[index / CHUNK] {
            chunk @ Chunk::Empty => *chunk = Chunk::Runs { runs: vec![run], changes: Vec::new() },
            Chunk::Runs { runs, changes }
                if runs.last().is_none_or(|last| last.end() <= offset)
                    && changes.last().is_none_or(|(place, _)| usize::from(*place) < offset) =>
            {
                runs.push(run);
            }
            _ => return false,
        }
        true
    }

    /// True if a range of a chunk is part of one run without changes.
    fn is_run(&self, index: usize, count: usize) -> bool {
        let offset = index % CHUNK;
        let Chunk::Runs { runs, changes } = &self.chunks[index / CHUNK] else { return false };
        let place = changes.partition_point(|(place, _)| usize::from(*place) < offset);
        let is_whole = |run: &Run| usize::from(run.offset) <= offset && offset + count <= run.end();
        changes.get(place).is_none_or(|(place, _)| usize::from(*place) >= offset + count)
            && runs.iter().any(is_whole)
    }

    fn for_each_run(&self, len: usize, each: &mut impl FnMut(u32, u32)) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            match chunk {
                Chunk::Empty => {}
                Chunk::Packed(_) => {
                    let indices = number * CHUNK..((number + 1) * CHUNK).min(len);
                    indices
                        .map(|index| self.get(index))
                        .filter(|held| *held > 0)
                        .for_each(|held| each(held, 1));
                }
                Chunk::Runs { runs, changes } => {
                    let place = |offset: usize| changes.partition_point(|(at, _)| usize::from(*at) < offset);
                    for run in runs {
                        let changed = place(run.end()) - place(usize::from(run.offset));
                        each(run.first, u32::from(run.count) - changed as u32);
                    }
                    changes.iter().filter(|(_, held)| *held > 0).for_each(|(_, held)| each(*held, 1));
                }
            }
        }
    }

    const fn memory_bytes(&self) -> usize {
        self.chunks.len() * (self.chunk_bytes() + size_of::<Chunk>())
    }

    /// Memory of the allocated chunks, B.
    fn held_bytes(&self) -> usize {
        let of = |chunk: &Chunk| match chunk {
            Chunk::Empty => 0,
            Chunk::Packed(bytes) => bytes.len(),
            Chunk::Runs { runs, changes } => {
                runs.capacity() * size_of::<Run>() + changes.capacity() * size_of::<(u16, u32)>()
            }
        };
        self.chunks.iter().map(of).sum()
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
            assert_eq!(packed.memory_bytes(), CHUNK * bits as usize / 8 + 8 + size_of::<Chunk>());
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
        // The number of changes at which the base is copied.
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

    #[test]
    fn runs_take_little_memory_and_hold_what_was_written_over_them() {
        let len = 6 * CHUNK;
        let mut packed = PackedInts::new(len, 1 << 20);
        let mut plain = vec![0u32; len];
        let run = |packed: &mut PackedInts, plain: &mut Vec<u32>, at: usize, first: u32, count: u32| {
            packed.replace_run(at, first, count);
            (at..).zip(first..first + count).for_each(|(at, number)| plain[at] = number);
        };
        run(&mut packed, &mut plain, 100, 1, 3 * CHUNK as u32);
        run(&mut packed, &mut plain, 3 * CHUNK + 200, 70_000, 50);
        assert!(packed.own.held_bytes() < 300 && packed.is_run(100, 3 * CHUNK));
        assert!(!packed.is_run(99, 2) && !packed.is_run(3 * CHUNK, 300));
        let mut chance = 1u64;
        for round in 0..3000u32 {
            chance = chance.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(round.into());
            let index = (chance >> 40) as usize % (2 * CHUNK);
            assert_eq!(packed.replace(index, round), std::mem::replace(&mut plain[index], round));
        }
        // A run over existing numbers, and over a border between chunks.
        run(&mut packed, &mut plain, 2 * CHUNK + 50, 90_000, CHUNK as u32);
        assert!(packed.iter().eq(plain.iter().copied()));
        let mut sum = 0;
        packed.for_each_run(|_, count| sum += count as usize);
        assert_eq!(sum, plain.iter().filter(|number| **number > 0).count());
        packed.share();
        assert!(packed.iter().eq(plain.iter().copied()));
    }
}
