//! Recovery of undescribed randomizers from pages with constant data.
//!
//! Bytes 00h or FFh show the bits that were added to them. The bits of a linear-feedback shift register satisfy a
//! recurrence. The algorithm of Berlekamp and Massey finds the recurrence from a few bytes. Computing its states back
//! to the start of the page gives the seed of the page.

use std::fmt::Write as _;

/// Number of bytes of a page in which constant data is searched. This is the first step, so that the restart points
/// of the generator do not matter.
const LOOKED_AT: usize = 512;

/// Number of bytes that are assumed to be constant together.
const WINDOW: usize = 32;

/// Degrees of generators. Recurrences of lower degrees are repeating data.
const DEGREES: std::ops::RangeInclusive<u32> = 9..=31;

/// Periods of repeating data in bytes; repeating data also satisfies a recurrence.
const PERIODS: std::ops::RangeInclusive<usize> = 1..=8;

/// Number of pages after which seeds repeat, if the size of a block is unknown.
const PERIOD: usize = 256;

/// Largest number of examined windows, so that the largest dump takes a second.
const BUDGET: u32 = 1 << 20;

/// Largest number of generators that are kept.
const GENERATORS: usize = 4;

/// Smallest number of pages whose seeds must be found.
const SEEDS: usize = 2;

/// Seeds of pages under a generator.
#[derive(Clone, Debug)]
struct Generator {
    taps: u32,
    degree: u32,
    seeds: Vec<Option<u32>>,
}

/// Generators found in constant data.
#[derive(Clone, Debug)]
pub(super) struct Keystream {
    generators: Vec<Generator>,
    period: usize,
    budget: u32,
}

impl Keystream {
    pub(super) fn new(pages_per_block: Option<u32>) -> Self {
        let period = pages_per_block.map_or(PERIOD, |pages| pages.max(1) as usize);
        Self { generators: Vec::new(), period, budget: BUDGET }
    }

    /// Searches for constant data in a page.
    pub(super) fn add(&mut self, number: u64, data: &[u8]) {
        let at = usize::try_from(number % self.period as u64).unwrap_or(0);
        let is_known = |generator: &Generator| generator.seeds.get(at).is_some_and(Option::is_some);
        if self.budget == 0 || self.generators.iter().any(is_known) {
            return;
        }
        let head = data.get(..LOOKED_AT).unwrap_or(data);
        for (offset, window) in (0_u32..).step_by(WINDOW).zip(head.chunks_exact(WINDOW)) {
            self.budget = self.budget.saturating_sub(1);
            let repeats =
                |period: usize| window.iter().zip(&window[period..]).all(|(one, other)| one == other);
            if PERIODS.into_iter().any(repeats) {
                continue;
            }
            // With the other fill value, the degree is higher by one.
            let both = [0, 0xFF].iter().filter_map(|fill| recurrence(window, *fill));
            let Some((taps, degree, state)) = both.min_by_key(|found| found.1) else { continue };
            let seed = (0..8 * offset).fold(state, |state, _| before(state, taps, degree));
            self.keep((taps, degree), at, seed);
            return;
        }
    }

    fn keep(&mut self, (taps, degree): (u32, u32), at: usize, seed: u32) {
        let is_it = |generator: &&mut Generator| (generator.taps, generator.degree) == (taps, degree);
        if let Some(known) = self.generators.iter_mut().find(is_it) {
            known.seeds[at] = Some(seed);
        } else if self.generators.len() < GENERATORS {
            let mut seeds = vec![None; self.period];
            seeds[at] = Some(seed);
            self.generators.push(Generator { taps, degree, seeds });
        }
    }

    /// Tables for the layout's file, one for each point at which the generator may restart; none if too few pages
    /// show their seeds.
    pub(super) fn randomizers(&self) -> Vec<String> {
        let known = |generator: &&Generator| generator.seeds.iter().flatten().count();
        let Some(best) = self.generators.iter().max_by_key(known).filter(|best| known(best) >= SEEDS) else {
            return Vec::new();
        };
        ["page", "step"].iter().map(|restart| best.text(restart)).collect()
    }
}

impl Generator {
    /// Seeds of all pages of a period. A page without a known seed gets 1, and stays as it was read.
    fn all_seeds(&self) -> Vec<u32> {
        let period = self.seeds.len();
        let agree = |len: &usize| {
            period.is_multiple_of(*len)
                && (*len..period).all(|at| match (self.seeds[at], self.seeds[at % len]) {
                    (Some(one), Some(other)) => one == other,
                    _ => true,
                })
                // At least one page of the shorter period must occur again.
                && (*len == period || (0..*len).all(|at| self.at(at, *len).is_some()))
        };
        let len = (1..=period).find(agree).unwrap_or(period);
        (0..len).map(|at| self.at(at, len).unwrap_or(1)).collect()
    }

    /// Seed of a page that repeats after `len` pages.
    fn at(&self, at: usize, len: usize) -> Option<u32> {
        self.seeds.iter().skip(at).step_by(len).flatten().next().copied()
    }

    /// Text of the randomizer in a layout's file.
    fn text(&self, restart: &str) -> String {
        let polynomial = 1_u32 << self.degree | self.taps;
        let mut text =
            format!("\n[randomizer]\npolynomial = {polynomial:#x}\nrestart = \"{restart}\"\nseeds = [");
        for (at, seed) in self.all_seeds().into_iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{seed:#x}");
        }
        text + "]\n"
    }
}

/// Taps, degree and first state of the recurrence that the bits added to bytes of one value satisfy (Massey 1969).
/// The first bit of a byte is its lowest bit.
fn recurrence(window: &[u8], fill: u8) -> Option<(u32, u32, u32)> {
    let bits = window.iter().flat_map(|byte| (0..8).map(move |bit| u64::from((byte ^ fill) >> bit & 1)));
    let (mut connection, mut last, mut degree, mut shift, mut recent) = (1_u64, 1_u64, 0_u32, 1_u32, 0_u64);
    for (at, bit) in (0_u32..).zip(bits.clone()) {
        recent = recent << 1 | bit;
        if (connection & recent).count_ones() & 1 == 0 {
            shift += 1;
            continue;
        }
        if shift > 32 {
            return None;
        }
        let before = connection;
        connection ^= last << shift;
        if 2 * degree <= at {
            (degree, last, shift) = (at + 1 - degree, before, 1);
        } else {
            shift += 1;
        }
        if !(..=*DEGREES.end()).contains(&degree) {
            return None;
        }
    }
    if !DEGREES.contains(&degree) || connection >> degree != 1 {
        return None;
    }
    // Coefficient i of the connection is tap `degree - i` of a state whose lowest bit is the oldest.
    let taps = (1..=degree).fold(0, |taps, i| taps | (connection >> i & 1) << (degree - i));
    let state =
        (0..).zip(bits.take(degree as usize)).fold(0, |state, (at, bit): (u32, u64)| state | bit << at);
    Some((u32::try_from(taps).ok()?, degree, u32::try_from(state).ok()?)).filter(|found| found.2 != 0)
}

/// State before one step.
const fn before(state: u32, taps: u32, degree: u32) -> u32 {
    let oldest = state >> (degree - 1) & 1 ^ (taps >> 1 & state).count_ones() & 1;
    (state << 1 | oldest) & (u32::MAX >> (32 - degree))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(mut state: u32, taps: u32, degree: u32) -> impl Iterator<Item = u8> {
        let mut bit = move || {
            let out = (state & 1) as u8;
            state = state >> 1 | ((state & taps).count_ones() & 1) << (degree - 1);
            out
        };
        std::iter::repeat_with(move || (0..8).fold(0, |byte, at| byte | bit() << at))
    }

    #[test]
    fn a_generator_and_its_seeds_are_recovered_from_constant_bytes() {
        for (taps, degree) in [(0b11, 15), (0x4_0001, 23), (0x9, 31)] {
            let mut keystream = Keystream::new(Some(4));
            for (number, fill) in [(0_u64, 0), (5, 0xFF), (2, 0), (7, 0)] {
                let seed = 0x123 + number as u32 % 4;
                let mut page: Vec<u8> =
                    stream(seed, taps, degree).take(2048).map(|byte| byte ^ fill).collect();
                // Other data is before the constant data.
                page[..100].copy_from_slice(&[0xA7; 100].map(|byte: u8| byte.wrapping_mul(3)));
                keystream.add(number, &page);
            }
            let text = &keystream.randomizers()[0];
            let polynomial = 1_u32 << degree | taps;
            assert!(text.contains(&format!("polynomial = {polynomial:#x}\n")), "{text}");
            assert!(text.contains("seeds = [0x123, 0x124, 0x125, 0x126]"), "{text}");
        }
        let mut keystream = Keystream::new(None);
        (0..9).for_each(|number| keystream.add(number, &[0, 1, 2, 3].repeat(512)));
        assert!(keystream.randomizers().is_empty());
    }
}
