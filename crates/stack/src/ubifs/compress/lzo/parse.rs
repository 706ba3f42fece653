//! The cheapest sequence of instructions: for each position, from the last to the first, the fewest bytes that the rest
//! of the block takes, by how many literals came before, since that decides which instructions there are and what the
//! literals cost.

use super::matches::{Copy, Found};
use super::{BLOCK, CHAIN, FIRST_RUN, MEDIUM_LEN, RUN, TRAILING};

/// Positions looked at beyond a block's last.
const BEYOND: usize = TRAILING + 2;

/// More than any block costs.
const NEVER: u16 = u16::MAX / 2;

/// Literals, and the copy after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) literals: usize,
    pub(super) copy: Copy,
}

/// The fewest bytes for the rest of a block.
#[derive(Clone, Copy)]
struct Rest {
    /// If the next is a copy and the last was one.
    copy: u16,
    /// If the next is a copy and one to three literals were the last.
    after_few: u16,
    /// If four or more literals were the last: more of them or a copy.
    run: u16,
    /// Literals until that copy.
    run_len: u16,
    /// If the last was a copy: literals or a copy.
    any: u16,
    /// Literals until that copy.
    literals: u16,
    /// The copy of `copy`.
    best: Copy,
}

impl Rest {
    const NEVER: Self = Self {
        copy: NEVER,
        after_few: NEVER,
        run: NEVER,
        run_len: 0,
        any: NEVER,
        literals: 0,
        best: Copy::new(0, 0),
    };
    const END: Self =
        Self { copy: 0, after_few: 0, run: 0, run_len: 0, any: 0, literals: 0, best: Copy::new(0, 0) };
}

/// The table of a block.
pub(super) struct Parser {
    rest: [Rest; BLOCK + BEYOND],
}

impl Default for Parser {
    fn default() -> Self {
        Self { rest: [Rest::NEVER; BLOCK + BEYOND] }
    }
}

impl Parser {
    /// Fills the table for a block of `len` bytes.
    pub(super) fn solve(&mut self, len: usize, found: &[Found; BLOCK]) {
        let len = len.min(BLOCK);
        self.rest[len..len + BEYOND].fill(Rest::NEVER);
        self.rest[len] = Rest::END;
        for at in (0..len).rev() {
            let mut rest = Rest::NEVER;
            self.copies(at, &found[at], &mut rest);
            self.run(at, &found[at], &mut rest);
            self.literals(at, &mut rest);
            self.rest[at] = rest;
        }
    }

    /// The cheapest copy at a position. A longer one of the same cost is never worse but for where it ends.
    #[inline(always)]
    fn copies(&self, at: usize, found: &Found, rest: &mut Rest) {
        for len in (3..=found.short.len()).rev() {
            self.offer(at, 2, Copy::new(len, found.short.distance()), rest);
        }
        let (len, distance) = (found.long.len(), found.long.distance());
        if len > found.short.len() {
            self.offer(at, long_cost(len), Copy::new(len, distance), rest);
            if len > MEDIUM_LEN {
                self.offer(at, 3, Copy::new(MEDIUM_LEN, distance), rest);
            }
        }
        rest.after_few = rest.copy;
        if found.pair.len() > 0 {
            rest.after_few = rest.after_few.min(2 + self.any(at + 2));
        }
    }

    #[inline(always)]
    fn offer(&self, at: usize, cost: u16, copy: Copy, rest: &mut Rest) {
        let cost = cost + self.any(at + copy.len());
        if cost < rest.copy {
            rest.copy = cost;
            rest.best = copy;
        }
    }

    /// Inside four or more literals: a copy now, or another literal.
    #[inline(always)]
    fn run(&self, at: usize, found: &Found, rest: &mut Rest) {
        rest.run = rest.copy;
        if found.triple.len() > 0 {
            rest.run = rest.run.min(2 + self.any(at + 3));
        }
        let next = &self.rest[at + 1];
        if 1 + next.run < rest.run {
            rest.run = 1 + next.run;
            rest.run_len = 1 + next.run_len;
        }
    }

    /// After a copy: another, or literals before it.
    #[inline(always)]
    fn literals(&self, at: usize, rest: &mut Rest) {
        (rest.any, rest.literals) = (rest.copy, 0);
        for (few, next) in (1u16..).zip(&self.rest[at + 1..][..TRAILING]) {
            if few + next.after_few < rest.any {
                (rest.any, rest.literals) = (few + next.after_few, few);
            }
        }
        let next = &self.rest[at + TRAILING + 1];
        let literals = 4 + next.run_len;
        let cost = 4 + next.run + run_cost(usize::from(literals));
        if cost < rest.any {
            (rest.any, rest.literals) = (cost, literals);
        }
    }

    #[inline(always)]
    fn any(&self, at: usize) -> u16 {
        self.rest[at % (BLOCK + BEYOND)].any
    }

    /// The instructions of a block, by its table. The literals after the last copy are not among them.
    pub(super) fn steps<'a>(
        &'a self,
        len: usize,
        found: &'a [Found; BLOCK],
    ) -> impl Iterator<Item = Step> + 'a {
        let mut at = 0;
        let mut literals = self.first(len);
        std::iter::from_fn(move || {
            at += literals;
            if at >= len {
                return None;
            }
            let step = Step { literals, copy: self.chosen(at, literals, &found[at % BLOCK]) };
            at += step.copy.len();
            literals = usize::from(self.rest.get(at)?.literals);
            Some(step)
        })
    }

    /// Literals at the start of a block, where there is nothing to copy: at least one, and their number costs a byte.
    fn first(&self, len: usize) -> usize {
        let few = (1..=TRAILING).map(|few| (usize::from(self.rest[few].after_few) + few, few));
        let more = TRAILING + 1;
        let run = more + usize::from(self.rest[more].run_len);
        let long = usize::from(run > FIRST_RUN);
        let run = (usize::from(self.rest[more].run) + more + long, run);
        few.chain([run]).min().map_or(len, |(_, literals)| literals).min(len)
    }

    /// The copy at a position, after so many literals.
    fn chosen(&self, at: usize, literals: usize, found: &Found) -> Copy {
        let rest = &self.rest[at];
        match literals {
            0 => rest.best,
            1..=TRAILING if rest.after_few < rest.copy => found.pair,
            1..=TRAILING => rest.best,
            _ if rest.run < rest.copy => found.triple,
            _ => rest.best,
        }
    }
}

/// Bytes of an instruction for a long copy.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // a block has sixteen bytes of chain at most
const fn long_cost(len: usize) -> u16 {
    if len <= MEDIUM_LEN { 3 } else { 4 + ((len - MEDIUM_LEN - 1) / CHAIN) as u16 }
}

/// Bytes of an instruction for four or more literals.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // as above
const fn run_cost(literals: usize) -> u16 {
    if literals <= RUN { 1 } else { 2 + ((literals - RUN - 1) / CHAIN) as u16 }
}
