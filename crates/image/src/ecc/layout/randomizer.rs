//! Randomizers: a controller adds bits of a linear-feedback shift register to a page after its ECC bytes were
//! computed, so that constant data wears cells evenly.

use super::LayoutError;
use super::map::PageMap;
use serde::Deserialize;
use std::sync::{Arc, OnceLock};

/// Largest number of seeds.
const MAX_SEEDS: usize = 1 << 12;

/// Largest number of steps before the first bit.
const MAX_SKIP: u32 = 1 << 16;

/// Degrees of generators.
const DEGREES: std::ops::RangeInclusive<u32> = 2..=31;

/// A randomizer in a layout's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RandomizerForm {
    polynomial: u32,
    #[serde(default)]
    skip: u32,
    seeds: Vec<u32>,
    restart: Restart,
}

/// Points at which the generator restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Restart {
    /// Each step, with its data, covered OOB bytes and ECC bytes in this order.
    Step,
    /// The page, from its first to its last byte.
    Page,
}

/// Randomizer (scrambler) of a NAND controller: a linear recurrence whose bits are XORed with the page.
#[derive(Clone, Debug)]
pub(in crate::ecc) struct Randomizer {
    /// Polynomial of the recurrence without its leading term.
    taps: u32,
    degree: u32,
    /// Number of steps before the first bit.
    skip: u32,
    /// Initial states, by the number of a page in its block.
    seeds: Vec<u32>,
    restart: Restart,
}

/// Bits that a randomizer adds to the pages of a block.
#[derive(Debug)]
pub(in crate::ecc) struct Masks {
    randomizer: Randomizer,
    masks: Vec<OnceLock<Vec<u8>>>,
}

impl Randomizer {
    pub(super) fn new(form: RandomizerForm) -> Result<Self, LayoutError> {
        let degree = form.polynomial.checked_ilog2().unwrap_or(0);
        let fault = LayoutError::Randomizer;
        if !DEGREES.contains(&degree) || form.polynomial & 1 == 0 {
            return Err(fault("the polynomial has a degree of 2 to 31 and a constant term"));
        }
        if form.seeds.is_empty() || form.seeds.len() > MAX_SEEDS {
            return Err(fault("there are 1 to 4096 seeds"));
        }
        if form.seeds.iter().any(|seed| *seed == 0 || seed >> degree != 0) {
            return Err(fault("a seed has as many bits as the polynomial's degree, and is not 0"));
        }
        if form.skip > MAX_SKIP {
            return Err(fault("skip is at most 65536"));
        }
        let taps = form.polynomial ^ 1 << degree;
        Ok(Self { taps, degree, skip: form.skip, seeds: form.seeds, restart: form.restart })
    }

    /// Masks of pages; `pages_per_block` limits their number if it is known.
    pub(in crate::ecc) fn masks(&self, pages_per_block: Option<u32>) -> Arc<Masks> {
        let seeds = pages_per_block.map_or(self.seeds.len(), |pages| self.seeds.len().min(pages as usize));
        Arc::new(Masks { randomizer: self.clone(), masks: (0..seeds).map(|_| OnceLock::new()).collect() })
    }

    /// Bytes of the generator, lowest bit first.
    fn stream(&self, seed: u32) -> impl Iterator<Item = u8> {
        let mut state = seed;
        let (taps, degree) = (self.taps, self.degree);
        let mut bit = move || {
            let out = state & 1;
            state = state >> 1 | ((state & taps).count_ones() & 1) << (degree - 1);
            out as u8
        };
        for _ in 0..self.skip {
            bit();
        }
        std::iter::repeat_with(move || (0..8).fold(0, |byte, at| byte | bit() << at))
    }

    /// Mask of a raw page.
    fn mask(&self, seed: u32, map: &PageMap, raw_bytes: usize) -> Vec<u8> {
        match self.restart {
            Restart::Page => self.stream(seed).take(raw_bytes).collect(),
            Restart::Step => {
                let mut mask = vec![0; raw_bytes];
                map.put_by_step(&mut mask, || self.stream(seed));
                mask
            }
        }
    }
}

impl Masks {
    /// Mask of a page.
    pub(in crate::ecc) fn page(&self, page: u64, map: &PageMap, raw_bytes: usize) -> &[u8] {
        let at = (page % self.masks.len().max(1) as u64) as usize;
        let Some((mask, seed)) = self.masks.get(at).zip(self.randomizer.seeds.get(at)) else { return &[] };
        mask.get_or_init(|| self.randomizer.mask(*seed, map, raw_bytes))
    }
}
