//! Where the bytes at each position of a block stood before: chains of the positions whose next three bytes hash alike,
//! nearest first.

use super::{BLOCK, PAIR_DISTANCE, SHORT_DISTANCE, SHORT_LEN, TRIPLE_DISTANCE};

/// Positions that share a hash looked at, at most. Twice as many gain less than a thousandth.
const DEPTH: usize = 64;

/// A match this long is taken on trust to be the best for the positions inside it.
const LONG: usize = 48;

const HASH_BITS: u32 = 12;
const PAIR_BITS: u32 = 12;

/// No position.
const NONE: u16 = u16::MAX;

/// Bytes read together.
const WORD: usize = 8;

/// A copy of bytes that stood `distance` before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copy {
    len: u16,
    distance: u16,
}

impl Copy {
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

/// The copies that could make the bytes at a position; length 0 where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// The longest within the short instruction's reach, of 3 to 8 bytes.
    pub(super) short: Copy,
    /// The longest of all.
    pub(super) long: Copy,
    /// Two bytes, from near.
    pub(super) pair: Copy,
    /// Three bytes, from just beyond the short instruction's reach.
    pub(super) triple: Copy,
}

/// The match finder of a block.
pub(super) struct Matches {
    /// The block, with zeros behind so that words can be read anywhere.
    bytes: [u8; BLOCK + WORD],
    /// Last position of each hash.
    heads: [u16; 1 << HASH_BITS],
    /// The position before each position that has the same hash.
    before: [u16; BLOCK],
    /// Last position of each hash of two bytes.
    pairs: [u16; 1 << PAIR_BITS],
    found: [Found; BLOCK],
}

impl Default for Matches {
    fn default() -> Self {
        Self {
            bytes: [0; BLOCK + WORD],
            heads: [NONE; 1 << HASH_BITS],
            before: [NONE; BLOCK],
            pairs: [NONE; 1 << PAIR_BITS],
            found: [Found::default(); BLOCK],
        }
    }
}

impl Matches {
    /// Finds the matches of a block.
    pub(super) fn find(&mut self, data: &[u8]) {
        self.heads.fill(NONE);
        self.pairs.fill(NONE);
        let len = data.len().min(BLOCK);
        for (to, from) in self.bytes.iter_mut().zip(data.iter().chain([0; WORD].iter())) {
            *to = *from;
        }
        let mut last = Found::default();
        for at in 0..len {
            let room = len - at;
            let here = self.word(at);
            let head = self.enter(at, here);
            let mut found =
                if last.long.len() > LONG { inside(last.long) } else { self.search(at, head, here, room) };
            found.pair = self.pair(at, here, room);
            self.found[at] = found;
            last = found;
        }
    }

    /// What was found, by position.
    pub(super) const fn found(&self) -> &[Found; BLOCK] {
        &self.found
    }

    /// Eight bytes of the block.
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        self.bytes[at % BLOCK..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Makes a position the head of its chain; returns the one before.
    #[inline(always)]
    fn enter(&mut self, at: usize, here: u64) -> u16 {
        let head = &mut self.heads[hash(here << 40, HASH_BITS)];
        let before = *head;
        #[allow(clippy::cast_possible_truncation)] // inside a block
        {
            *head = at as u16;
        }
        self.before[at] = before;
        before
    }

    /// Follows a chain.
    #[inline(always)]
    fn search(&self, at: usize, head: u16, here: u64, room: usize) -> Found {
        let mut found = Found::default();
        let mut candidate = head;
        for _ in 0..DEPTH {
            if candidate == NONE {
                break;
            }
            let from = usize::from(candidate);
            let len = self.common(from, at, here).min(room);
            found.take(len, at - from);
            if found.long.len() > LONG {
                break;
            }
            candidate = self.before[from % BLOCK];
        }
        found
    }

    /// Bytes that two positions share.
    #[inline(always)]
    fn common(&self, from: usize, at: usize, here: u64) -> usize {
        let differ = self.word(from) ^ here;
        if differ != 0 {
            return differ.trailing_zeros() as usize / 8;
        }
        let mut len = WORD;
        while at + len < BLOCK {
            let differ = self.word(from + len) ^ self.word(at + len);
            if differ != 0 {
                return len + differ.trailing_zeros() as usize / 8;
            }
            len += WORD;
        }
        len
    }

    /// The last place of the next two bytes, if near; makes this position the last.
    #[inline(always)]
    fn pair(&mut self, at: usize, here: u64, room: usize) -> Copy {
        let last = &mut self.pairs[hash(here << 48, PAIR_BITS)];
        let from = *last;
        #[allow(clippy::cast_possible_truncation)] // inside a block
        {
            *last = at as u16;
        }
        let distance = at.wrapping_sub(usize::from(from));
        if from == NONE || distance > PAIR_DISTANCE || room < 2 {
            return Copy::default();
        }
        let same = (self.word(usize::from(from)) ^ here) << 48 == 0;
        if same { Copy::new(2, distance) } else { Copy::default() }
    }
}

impl Found {
    /// Notes a candidate, farther than those before.
    #[inline(always)]
    fn take(&mut self, len: usize, distance: usize) {
        if distance <= SHORT_DISTANCE && len.min(SHORT_LEN) > self.short.len().max(2) {
            self.short = Copy::new(len.min(SHORT_LEN), distance);
        }
        if len > self.long.len().max(2) {
            self.long = Copy::new(len, distance);
        }
        if triple(distance) && len >= 3 && self.triple.len() == 0 {
            self.triple = Copy::new(3, distance);
        }
    }
}

/// Whether the copy of three bytes after a run of literals reaches this far, and no shorter one does.
#[inline(always)]
pub(super) const fn triple(distance: usize) -> bool {
    distance > SHORT_DISTANCE && distance <= TRIPLE_DISTANCE
}

/// What is left of a match one byte after its start.
fn inside(last: Copy) -> Found {
    let mut found = Found::default();
    found.take(last.len() - 1, last.distance());
    found
}

/// Spreads the upper bits of a word; what lies below them is shifted out.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // `bits` are fewer than those of a usize
const fn hash(upper: u64, bits: u32) -> usize {
    (upper.wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - bits)) as usize
}
