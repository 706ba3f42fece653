//! Optimal parsing: the cheapest sequence of instructions.
//!
//! For each position, from the last to the first, it computes the fewest bytes for the rest of the block. The result
//! depends on the number of literals before the position, which decides the available instructions and the cost of the
//! literals.

use super::matches::{Candidates, Copy};
use super::{BLOCK, CHAIN, FIRST_RUN, MEDIUM_LEN, RUN, TRAILING};

/// More than the cost of any block.
const NEVER: u16 = 0x7000;

/// Flag in the length of a choice: the copy is the longest one.
const LONG: u16 = 0x8000;

/// Literals, and the copy after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) literals: usize,
    pub(super) copy: Copy,
}

/// The cheapest encoding from a position on.
#[derive(Clone, Copy, Default)]
struct Choice {
    /// Number of literals after a copy until the next copy.
    literals: u16,
    /// Length of the copy, with the flag `LONG`.
    len: u16,
    long: bool,
    /// True if the copy of a pair is better than this copy after one to three literals.
    pair: bool,
    /// True if the copy of a triple is better than this copy after four or more literals.
    triple: bool,
}

/// Cost in bytes in the upper half, choice in the lower half: the minimum is the cheapest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost(u32);

impl Cost {
    #[inline(always)]
    fn new(bytes: u16, choice: u16) -> Self {
        Self(u32::from(bytes) << 16 | u32::from(choice))
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // the upper half
    const fn bytes(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // the lower half
    const fn choice(self) -> u16 {
        self.0 as u16
    }
}

/// Costs of the rest of the block: if a copy follows at once; after one to three literals; and after four or more
/// literals, with the number of further literals.
#[derive(Clone, Copy)]
struct Next {
    few: u16,
    run: u16,
    run_len: u16,
}

impl Next {
    const NEVER: Self = Self { few: NEVER, run: NEVER, run_len: 0 };
    const END: Self = Self { few: 0, run: 0, run_len: 0 };
}

/// The tables of a block.
pub(super) struct Parser {
    /// Fewest bytes from each position on, after a copy.
    bytes: [u16; BLOCK + 1],
    choices: [Choice; BLOCK],
    /// Number of literals before the first copy.
    first: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Self { bytes: [0; BLOCK + 1], choices: [Choice::default(); BLOCK], first: 0 }
    }
}

impl Parser {
    /// Fills the tables for a block of `len` bytes.
    pub(super) fn solve(&mut self, len: usize, found: &[Candidates; BLOCK]) {
        let len = len.min(BLOCK);
        self.bytes[..len].fill(NEVER);
        self.bytes[len] = 0;
        let mut next = [Next::END, Next::NEVER, Next::NEVER, Next::NEVER];
        for at in (1..len).rev() {
            let here = self.step(at, &found[at], &next);
            next = [here, next[0], next[1], next[2]];
        }
        self.first = first(&next).min(len);
    }

    /// Computes one position from the positions after it.
    #[inline(always)]
    fn step(&mut self, at: usize, found: &Candidates, next: &[Next; 4]) -> Next {
        let copy = self.copies(at, found);
        let bytes = copy.bytes();
        let pair = 2 + self.rest(at, found.pair.len());
        let triple = 2 + self.rest(at, found.triple.len());
        let any = literals(bytes, next);
        self.bytes[at] = any.bytes();
        self.choices[at] = Choice {
            literals: any.choice(),
            len: copy.choice() & !LONG,
            long: copy.choice() & LONG != 0,
            pair: pair < bytes,
            triple: triple < bytes,
        };
        let (stop, more) = (bytes.min(triple), 1 + next[0].run);
        Next {
            few: bytes.min(pair),
            run: stop.min(more),
            run_len: if more < stop { 1 + next[0].run_len } else { 0 },
        }
    }

    /// Cheapest copy at a position. An absent copy has length zero and leads to an unknown cost. Copies are shortened
    /// by at most one byte; more gains nothing.
    #[inline(always)]
    fn copies(&self, at: usize, found: &Candidates) -> Cost {
        let (short, long) = (found.short.len(), found.long.len());
        let shorter = if short > 3 { short - 1 } else { 0 };
        let costs = [
            self.cost(at, 2, shorter, 0),
            self.cost(at, 3, long.min(MEDIUM_LEN), LONG),
            self.cost(at, long_cost(long), long, LONG),
        ];
        costs.into_iter().fold(self.cost(at, 2, short, 0), Cost::min)
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // a block has fewer bytes than LONG
    fn cost(&self, at: usize, bytes: u16, len: usize, kind: u16) -> Cost {
        Cost::new(bytes + self.rest(at, len), len as u16 | kind)
    }

    #[inline(always)]
    fn rest(&self, at: usize, len: usize) -> u16 {
        self.bytes[at + len]
    }

    /// Instructions of a block according to the tables, without the literals after the last copy.
    pub(super) fn steps<'a>(
        &'a self,
        len: usize,
        found: &'a [Candidates; BLOCK],
    ) -> impl Iterator<Item = Step> + 'a {
        let mut at = 0;
        let mut literals = self.first;
        std::iter::from_fn(move || {
            at += literals;
            if at >= len {
                return None;
            }
            let step = Step { literals, copy: self.chosen(at, literals, &found[at % BLOCK]) };
            at += step.copy.len();
            literals = self.choices.get(at).map_or(0, |choice| usize::from(choice.literals));
            Some(step)
        })
    }

    /// Copy chosen at a position after this number of literals.
    fn chosen(&self, at: usize, literals: usize, found: &Candidates) -> Copy {
        let choice = &self.choices[at % BLOCK];
        match literals {
            1..=TRAILING if choice.pair => found.pair,
            4.. if choice.triple => found.triple,
            _ if choice.long => Copy::new(usize::from(choice.len), found.long.distance()),
            _ => Copy::new(usize::from(choice.len), found.short.distance()),
        }
    }
}

/// Costs after a copy: another copy, or literals before it.
#[inline(always)]
fn literals(copy: u16, next: &[Next; 4]) -> Cost {
    let run = 4 + next[3].run_len;
    Cost::new(copy, 0)
        .min(Cost::new(1 + next[0].few, 1))
        .min(Cost::new(2 + next[1].few, 2))
        .min(Cost::new(3 + next[2].few, 3))
        .min(Cost::new(4 + next[3].run + run_cost(run), run))
}

/// Number of literals at the start of a block, where no copy is possible: at least one. Their number costs a byte.
fn first(next: &[Next; 4]) -> usize {
    let few =
        Cost::new(1 + next[0].few, 1).min(Cost::new(2 + next[1].few, 2)).min(Cost::new(3 + next[2].few, 3));
    let run = 4 + next[3].run_len;
    usize::from(few.min(Cost::new(4 + next[3].run + u16::from(usize::from(run) > FIRST_RUN), run)).choice())
}

/// Size of the instruction for a long copy, B.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // a block has a few bytes of chain at most
const fn long_cost(len: usize) -> u16 {
    3 + ((len + CHAIN - 1 - MEDIUM_LEN) / CHAIN) as u16
}

/// Size of the instruction for four or more literals, B.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // as above
fn run_cost(literals: u16) -> u16 {
    1 + ((usize::from(literals) + CHAIN - 1 - RUN) / CHAIN) as u16
}
