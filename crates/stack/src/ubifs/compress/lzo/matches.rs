//! Match finder: earlier occurrences of the bytes at each position of a block.
//!
//! The cost of a copy of up to eight bytes depends only on its length and on whether it is near. So for each length
//! only the last occurrence matters: there is one table per length, indexed by a hash of that many bytes. Longer copies
//! are rarer, and are searched along a chain of positions with the same hash of eight bytes.
//!
//! Candidates are compared with the data, so table entries need not be valid: 0, the first position, serves as an empty
//! entry.

use super::{BLOCK, PAIR_DISTANCE, SHORT_DISTANCE, SHORT_LEN, TRIPLE_DISTANCE};

/// Maximum number of positions compared along a chain.
const DEPTH: usize = 6;

/// Length above which a match is also used for the positions inside it.
const LONG: usize = 24;

/// Number of positions without a match after which every second one is skipped; after twice as many, two of three, and
/// so on.
const MISSES: usize = 64;

/// Bytes read at a time.
const WORD: usize = 8;

/// Hash multiplier: odd, with the bits of the golden ratio, which spreads a word's bits upwards.
const HASH: u64 = 0x9E37_79B9_7F4A_7C15;

/// A copy of bytes from `distance` bytes earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copy {
    len: u16,
    distance: u16,
}

impl Copy {
    pub(super) const NONE: Self = Self { len: 0, distance: 0 };

    #[allow(clippy::cast_possible_truncation)] // both are inside a block
    pub(super) const fn new(len: usize, distance: usize) -> Self {
        Self { len: len as u16, distance: distance as u16 }
    }

    pub(super) const fn len(self) -> usize {
        self.len as usize
    }

    pub(super) const fn distance(self) -> usize {
        self.distance as usize
    }
}

/// Candidate copies at a position; length 0 for none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Candidates {
    /// Longest copy of 3 to 8 bytes within reach of the short instruction.
    pub(super) short: Copy,
    /// Longest copy.
    pub(super) long: Copy,
    /// Copy of two bytes from nearby.
    pub(super) pair: Copy,
    /// Copy of three bytes from just beyond the reach of the short instruction.
    pub(super) triple: Copy,
}

impl Candidates {
    /// Remainder of a match, one byte after its start.
    #[inline(always)]
    fn inside(before: Copy) -> Self {
        let (len, distance) = (before.len() - 1, before.distance());
        let short =
            if distance <= SHORT_DISTANCE { Copy::new(len.min(SHORT_LEN), distance) } else { Copy::NONE };
        Self { short, long: Copy::new(len, distance), pair: Copy::NONE, triple: Copy::NONE }
    }
}

/// Last position of each hash.
pub(super) struct LastPositions<const BYTES: u32, const SIZE: usize>(pub(super) [u16; SIZE]);

impl<const BYTES: u32, const SIZE: usize> LastPositions<BYTES, SIZE> {
    /// Sets the last position and returns the previous one.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // the place is inside a block, the hash has the bits of SIZE
    pub(super) fn replace(&mut self, at: usize, here: u64) -> usize {
        let upper = here << (u64::BITS - 8 * BYTES);
        let hash = upper.wrapping_mul(HASH) >> (u64::BITS - SIZE.ilog2());
        usize::from(std::mem::replace(&mut self.0[hash as usize % SIZE], at as u16))
    }
}

/// Longest of several copies: length in the upper half, distance in the lower half, so that no branch is needed.
#[derive(Clone, Copy, Default)]
struct Longest(u32);

impl Longest {
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // both are inside a block
    fn offer(&mut self, len: usize, distance: usize) {
        self.0 = self.0.max((len as u32) << 16 | distance as u32);
    }

    /// The copy, if it has at least three bytes.
    #[inline(always)]
    fn copy(self) -> Copy {
        let (len, distance) = ((self.0 >> 16) as usize, self.0 as usize & 0xFFFF);
        if len < 3 { Copy::NONE } else { Copy::new(len, distance) }
    }
}

/// Longest match, and longest match within reach of a short instruction.
#[derive(Clone, Copy, Default)]
struct MatchPair {
    short: Longest,
    long: Longest,
}

impl MatchPair {
    #[inline(always)]
    fn offer(&mut self, len: usize, distance: usize) {
        self.short.offer(if distance <= SHORT_DISTANCE { len.min(SHORT_LEN) } else { 0 }, distance);
        self.long.offer(len, distance);
    }
}

/// The match finder of a block.
pub(super) struct Matches {
    bytes: Bytes,
    last2: LastPositions<2, 4096>,
    last3: LastPositions<3, 16384>,
    last4: LastPositions<4, 16384>,
    last5: LastPositions<5, 8192>,
    last6: LastPositions<6, 8192>,
    last8: LastPositions<8, 4096>,
    /// Previous position with the same hash of eight bytes, by position.
    chain: [u16; BLOCK],
    found: [Candidates; BLOCK],
}

impl Default for Matches {
    fn default() -> Self {
        Self {
            bytes: Bytes::EMPTY,
            last2: LastPositions([0; _]),
            last3: LastPositions([0; _]),
            last4: LastPositions([0; _]),
            last5: LastPositions([0; _]),
            last6: LastPositions([0; _]),
            last8: LastPositions([0; _]),
            chain: [0; BLOCK],
            found: [Candidates::default(); BLOCK],
        }
    }
}

impl Matches {
    /// Finds the matches of a block.
    pub(super) fn find(&mut self, data: &[u8]) {
        let len = self.start_block(data);
        let mut before = Copy::NONE;
        let (mut at, mut misses) = (0, 0);
        while at < len {
            let found =
                if before.len() > LONG { Candidates::inside(before) } else { self.search(at, len - at) };
            self.found[at] = found;
            before = found.long;
            at += 1;
            misses = if before == Copy::NONE { misses + 1 } else { 0 };
            let over = (misses / MISSES).min(len - at);
            self.found[at..at + over].fill(Candidates::default());
            at += over;
        }
    }

    /// Matches by position.
    pub(super) const fn candidates(&self) -> &[Candidates; BLOCK] {
        &self.found
    }

    /// Starts a new block and returns its length. The tables are cleared, because the same block must always give the
    /// same output.
    fn start_block(&mut self, data: &[u8]) -> usize {
        let len = self.bytes.set(data);
        self.last2.0.fill(0);
        self.last3.0.fill(0);
        self.last4.0.fill(0);
        self.last5.0.fill(0);
        self.last6.0.fill(0);
        self.last8.0.fill(0);
        len
    }

    /// Matches at a position, which is then added to the tables.
    #[inline(always)]
    fn search(&mut self, at: usize, room: usize) -> Candidates {
        let here = self.bytes.word(at);
        let pair = self.last2.replace(at, here);
        let nearest = self.last3.replace(at, here);
        let places = [
            nearest,
            self.last4.replace(at, here),
            self.last5.replace(at, here),
            self.last6.replace(at, here),
        ];
        let eight = self.last8.replace(at, here);
        self.chain[at] = eight.try_into().unwrap_or(0);
        if at == 0 {
            return Candidates::default();
        }
        let mut longest = MatchPair::default();
        for from in places {
            longest.offer(self.bytes.common(from, here).min(room), at - from);
        }
        self.follow(eight, at, room, &mut longest);
        let triple = triple(at - nearest) && room >= 3 && self.bytes.common(nearest, here) >= 3;
        let pair_near = at - pair <= PAIR_DISTANCE && room >= 2 && self.bytes.common(pair, here) >= 2;
        Candidates {
            short: longest.short.copy(),
            long: longest.long.copy(),
            pair: if pair_near { Copy::new(2, at - pair) } else { Copy::NONE },
            triple: if triple { Copy::new(3, at - nearest) } else { Copy::NONE },
        }
    }

    /// Searches the matches along a chain.
    #[inline(always)]
    fn follow(&self, mut from: usize, at: usize, room: usize, longest: &mut MatchPair) {
        for _ in 0..DEPTH {
            if self.bytes.word(from) != self.bytes.word(at) {
                break;
            }
            let len = self.bytes.extent(from, at, WORD).min(room);
            longest.offer(len, at - from);
            if from == 0 || len > LONG {
                break;
            }
            from = usize::from(self.chain[from % BLOCK]);
        }
    }
}

/// A block, followed by zeros so that words can be read at any position.
pub(super) struct Bytes([u8; BLOCK + WORD]);

impl Bytes {
    pub(super) const EMPTY: Self = Self([0; BLOCK + WORD]);

    /// Replaces the block and returns its length.
    pub(super) fn set(&mut self, data: &[u8]) -> usize {
        let len = data.len().min(BLOCK);
        let (block, rest) = self.0.split_at_mut(len);
        block.copy_from_slice(&data[..len]);
        rest.fill(0);
        len
    }

    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> u64 {
        self.0[at % BLOCK..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Number of equal bytes at a position and in a word.
    #[inline(always)]
    fn common(&self, from: usize, here: u64) -> usize {
        (self.word(from) ^ here).trailing_zeros() as usize / 8
    }

    /// Number of equal bytes at two positions; the first `len` are known to be equal. The zeros after the block equal
    /// any bytes.
    #[inline(always)]
    pub(super) fn extent(&self, from: usize, at: usize, mut len: usize) -> usize {
        while at + len < BLOCK {
            let common = self.common(from + len, self.word(at + len));
            len += common;
            if common < WORD {
                break;
            }
        }
        len
    }
}

/// True if the distance is reached by the copy of three bytes after a run of literals, and by no shorter instruction.
#[inline(always)]
pub(super) const fn triple(distance: usize) -> bool {
    distance > SHORT_DISTANCE && distance <= TRIPLE_DISTANCE
}
