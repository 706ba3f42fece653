//! Wear of a block: its endurance in cycles, and the change of its program and erase times.
//!
//! - **Endurance** varies between blocks: log-normal around a multiple of the data sheet's value (Desnoyers, HotStorage 2009: often 10
//!   to 100 times nominal, with a few outliers; Boboila and Desnoyers, FAST 2010).
//! - **Times** consist of whole pulses. Programming (ISPP) and erasing (ISPE) repeat pulse and verify until the cells reach their
//!   levels. Trapped charge makes cells program in fewer pulses and erase in more; the number of traps is a power of the number of
//!   cycles (Yang 2006; Pan and Dong 2011). During its first few hundred cycles a block needs one program pulse more than fresh.
//! - **Stress**: a cycle counts once if at most one page is programmed, and up to twice for the whole block. At 5 C it counts twice;
//!   high temperatures count like room temperature (all Desnoyers 2009).
//!
//! Wear is an integer, in thousandths of an ordinary cycle: any number of cycles can be added at once, with the same result as one by
//! one.

use crate::units::{self, TypMaxUs};
use floatgate_mtd::Nanos;
use floatgate_mtd::random::{Random, hash};
use serde::Deserialize;

/// Wear of one ordinary cycle.
pub const CYCLE: u64 = 1000;

/// Maximum wear of a block, 2^53, so that every wear is also exact as a floating-point number.
const WEAR_MAX: u64 = 1 << 53;

/// A time that consists of pulses: `overhead + n * step`, where `n` changes from `fresh` to `worn` over a block's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pulses {
    /// Time of the operation in addition to its pulses, us.
    #[serde(with = "units::us")]
    pub overhead_us: Nanos,
    /// Time of one pulse with its verify, us.
    #[serde(with = "units::us")]
    pub step_us: Nanos,
    /// Number of pulses for a new block, after its first few hundred cycles.
    pub fresh: u32,
    /// Number of pulses for a block at the end of its life.
    pub worn: u32,
}

impl Pulses {
    fn time(&self, pulses: u32) -> Nanos {
        self.overhead_us + self.step_us * u64::from(pulses)
    }
}

/// Wear parameters of a chip: the `[chip.wear]` table.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearSpec {
    /// Mean life of a block, as a multiple of `endurance_cycles`.
    pub life_factor: f64,
    /// Standard deviation of the natural logarithm of a block's life.
    pub life_spread: f64,
    /// Pulses of a page program (tPROG).
    pub program: Pulses,
    /// Pulses of a block erase (tBERS).
    pub erase: Pulses,
    /// Number of cycles of a new block during which a program needs one pulse more than `fresh` and wear does not yet
    /// make it faster.
    #[serde(default = "break_in_cycles")]
    pub break_in_cycles: u32,
    /// Exponent of the wear model of programs: the number of pulses falls with this power of the used share of a
    /// block's life.
    #[serde(default = "program_exponent")]
    pub program_exponent: f64,
    /// Exponent of the wear model of erases: the number of pulses rises with this power of the used share of a block's
    /// life.
    #[serde(default = "erase_exponent")]
    pub erase_exponent: f64,
    /// Standard deviation of the natural logarithm of the pace at which a block's times change.
    #[serde(default = "pace_spread")]
    pub pace_spread: f64,
}

/// Number of break-in cycles: "The slowest programs are the first few hundred" (Desnoyers 2009).
const fn break_in_cycles() -> u32 {
    300
}

/// Exponent of interface traps (Yang 2006; facts 4.1).
const fn program_exponent() -> f64 {
    0.30
}

/// Exponent of oxide traps (Pan and Dong 2011; facts 4.1).
const fn erase_exponent() -> f64 {
    0.62
}

/// Spread of the pace. It is not published, but Desnoyers 2009, figure 2, shows blocks of one chip that reach a step at quite
/// different cycles.
const fn pace_spread() -> f64 {
    0.15
}

impl WearSpec {
    /// Typical wear of a chip for which only the data sheet is known. Typical times apply after the first few hundred cycles.
    /// Endurance is taken from the chips in Desnoyers 2009 (SLC: mean factor 19 as the geometric mean of six; MLC: 66 of two).
    pub fn typical(bits_per_cell: u8, t_prog: TypMaxUs, t_bers: TypMaxUs) -> Self {
        let slc = bits_per_cell == 1;
        let (program, erase) = if slc { ((8, 5), (4, 12)) } else { ((16, 10), (4, 14)) };
        Self {
            life_factor: if slc { 19.0 } else { 66.0 },
            life_spread: 0.3,
            program: split(t_prog.typ, program.0, program.1),
            erase: split(t_bers.typ, erase.0, erase.1),
            break_in_cycles: break_in_cycles(),
            // Above the exponent of interface traps, so that pulses are saved later: typical times apply for thousands of cycles
            // (Desnoyers 2009).
            program_exponent: 0.5,
            erase_exponent: erase_exponent(),
            pace_spread: pace_spread(),
        }
    }

    /// Checks that the values are possible.
    ///
    /// # Errors
    /// Key, relative to `chip.wear`, and problem of the first impossible value.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let spread = |x: f64| (0.0..=2.0).contains(&x);
        let rules = [
            (positive(self.life_factor), "chip.wear.life_factor", "must be more than 0"),
            (self.life_factor <= 1e4, "chip.wear.life_factor", "at most 10000"),
            (spread(self.life_spread), "chip.wear.life_spread", "0 to 2"),
            (spread(self.pace_spread), "chip.wear.pace_spread", "0 to 2"),
            (
                self.program.worn <= self.program.fresh,
                "chip.wear.program",
                "programming gets faster with wear, not slower",
            ),
            (
                self.erase.fresh <= self.erase.worn,
                "chip.wear.erase",
                "erasing gets slower with wear, not faster",
            ),
            (self.program.fresh <= 200 && self.erase.worn <= 200, "chip.wear", "at most 200 pulses"),
            ((0.05..=5.0).contains(&self.program_exponent), "chip.wear.program_exponent", "0.05 to 5"),
            ((0.05..=5.0).contains(&self.erase_exponent), "chip.wear.erase_exponent", "0.05 to 5"),
        ];
        rules.iter().find(|rule| !rule.0).map_or(Ok(()), |rule| Err((rule.1, rule.2)))
    }
}

/// Splits a typical time into pulses: a tenth is overhead, to which the remainder of the division is added.
fn split(typical: Nanos, fresh: u32, worn: u32) -> Pulses {
    let step = Nanos::from_ns(typical.as_ns() * 9 / 10 / u64::from(fresh));
    Pulses { overhead_us: typical - step * u64::from(fresh), step_us: step, fresh, worn }
}

/// Wear properties that differ between blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockLife {
    /// Wear at which programs and erases begin to fail.
    pub end: u64,
    /// Wear at which the program time has reached its value at the end of life.
    program_scale: f64,
    /// Wear at which the erase time has reached its value at the end of life.
    erase_scale: f64,
}

/// Wear model of a chip's blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Wear {
    spec: WearSpec,
    /// True if the erase of a blank block ends after its first pulse.
    stops: bool,
    /// Mean endurance of a block, in thousandths of a cycle, before the spread between blocks.
    life: f64,
    /// Shares of life after which one program pulse less is needed, ascending.
    program_at: Vec<f64>,
    /// Shares of life after which one erase pulse more is needed, ascending.
    erase_at: Vec<f64>,
}

impl Wear {
    /// Wear model of a chip with `endurance_cycles` in its data sheet.
    pub fn new(spec: WearSpec, endurance_cycles: u64) -> Self {
        let faster = f64::from(spec.program.fresh - spec.program.worn.min(spec.program.fresh));
        let slower = f64::from(spec.erase.worn.max(spec.erase.fresh) - spec.erase.fresh);
        // A pulse is saved or added only when the model's change reaches a whole pulse. Therefore fresh times apply for thousands of
        // cycles, as in Desnoyers 2009 (means over the first 10 000 cycles are close to the makers' typical values). Half a pulse
        // beyond the last is never reached, so that the worn times apply well before the end of life.
        let share = |k: u32, all: f64, exponent: f64| libm::pow(f64::from(k) / (all + 0.5), 1.0 / exponent);
        Self {
            spec,
            stops: false,
            life: endurance_cycles.max(1) as f64 * spec.life_factor * CYCLE as f64,
            program_at: (1..=faster as u32).map(|k| share(k, faster, spec.program_exponent)).collect(),
            erase_at: (1..=slower as u32).map(|k| share(k, slower, spec.erase_exponent)).collect(),
        }
    }

    /// Sets whether the erase of a blank block ends after its first pulse.
    pub fn stopping(self, stops: bool) -> Self {
        Self { stops, ..self }
    }

    /// Duration of the erase (tBERS) of a blank block: one pulse, if the chip verifies before further pulses.
    pub fn blank_erase(&self) -> Option<Nanos> {
        self.stops.then(|| self.spec.erase.time(1.min(self.spec.erase.fresh)))
    }

    /// The table of wear parameters.
    pub const fn spec(&self) -> &WearSpec {
        &self.spec
    }

    /// Mean endurance of a block, cycles.
    pub fn mean_life_cycles(&self) -> f64 {
        self.life / CYCLE as f64
    }

    /// Shares of [`BlockLife`]'s scale after which one program pulse less is needed, ascending.
    pub fn program_changes(&self) -> &[f64] {
        &self.program_at
    }

    /// Shares of [`BlockLife`]'s scale after which one erase pulse more is needed, ascending.
    pub fn erase_changes(&self) -> &[f64] {
        &self.erase_at
    }

    /// Draws the wear properties of block `block` in the chip with this seed.
    pub fn block(&self, seed: u64, block: u32) -> BlockLife {
        let mut random = Random::new(hash(seed, u64::from(block), WEAR));
        let s = self.spec.life_spread;
        // The mean of a log-normal distribution is exp(mu + s^2 / 2).
        let end = self.life * libm::exp(s * random.normal() - s * s / 2.0);
        let mut pace = || libm::exp(self.spec.pace_spread * random.normal());
        BlockLife {
            end: (end as u64).clamp(CYCLE, WEAR_MAX),
            program_scale: end * pace(),
            erase_scale: end * pace(),
        }
    }

    /// Program time (tPROG) after the first few hundred cycles.
    pub fn typical_program(&self) -> Nanos {
        self.spec.program.time(self.spec.program.fresh)
    }

    /// Erase time (tBERS) of a new block.
    pub fn typical_erase(&self) -> Nanos {
        self.spec.erase.time(self.spec.erase.fresh)
    }

    /// Program time (tPROG) of a block at this wear.
    #[inline]
    pub fn program_time(&self, block: &BlockLife, wear: u64) -> Nanos {
        if wear < self.break_in() {
            return self.spec.program.time(self.spec.program.fresh + 1);
        }
        let saved = passed(&self.program_at, block.program_scale, wear);
        self.spec.program.time(self.spec.program.fresh - saved)
    }

    /// Erase time (tBERS) of a block at this wear.
    #[inline]
    pub fn erase_time(&self, block: &BlockLife, wear: u64) -> Nanos {
        self.spec.erase.time(self.spec.erase.fresh + passed(&self.erase_at, block.erase_scale, wear))
    }

    /// True if programs and erases of a block fail at this wear.
    #[inline]
    pub const fn is_dead(block: &BlockLife, wear: u64) -> bool {
        wear >= block.end
    }

    /// Next wear above `wear` at which a time changes or life ends; `None` after the end of life.
    pub fn next_change(&self, block: &BlockLife, wear: u64) -> Option<u64> {
        let next = |shares: &[f64], scale: f64| {
            let at = shares.get(passed(shares, scale, wear) as usize)?;
            Some(libm::ceil(at * scale) as u64)
        };
        // During the break-in a saved pulse has no effect; the change becomes visible at its end.
        let program = match self.break_in() {
            at if wear < at => Some(at),
            _ => next(&self.program_at, block.program_scale),
        };
        let changes =
            [program, next(&self.erase_at, block.erase_scale), Some(block.end).filter(|at| wear < *at)];
        let before_the_end = |at: &u64| *at > wear && *at <= block.end;
        changes.into_iter().flatten().filter(before_the_end).min()
    }

    fn break_in(&self) -> u64 {
        u64::from(self.spec.break_in_cycles) * CYCLE
    }
}

/// Constant that separates the hashes of this model from others.
const WEAR: u64 = 0x57_45_41_52;

/// Number of changes that have happened at this wear.
#[inline]
fn passed(shares: &[f64], scale: f64, wear: u64) -> u32 {
    let wear = wear as f64;
    shares.partition_point(|share| share * scale <= wear) as u32
}

/// Wear of one cycle in which `pages` of a block's `pages_per_block` pages were programmed, at a temperature in degrees Celsius. It is
/// [`CYCLE`] for one page or none and twice as much for all pages. Below 25 C it is higher, at 5 C twice as high (Desnoyers 2009;
/// linear in between is an assumption).
pub fn stress(temperature_c: f64, pages: u32, pages_per_block: u32) -> u64 {
    let cold = 1.0 + (25.0 - temperature_c.clamp(-55.0, 25.0)) / 20.0;
    let further = f64::from(pages.clamp(1, pages_per_block.max(1)) - 1);
    let whole = 1.0 + further / f64::from(pages_per_block.max(2) - 1);
    libm::round(CYCLE as f64 * cold * whole) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The MLC chip MT29F8G08MAAWC (facts 4.1).
    fn mlc() -> Wear {
        let us = |overhead, step, fresh, worn| Pulses {
            overhead_us: Nanos::from_us(overhead),
            step_us: Nanos::from_us(step),
            fresh,
            worn,
        };
        let typical = TypMaxUs { typ: Nanos::from_us(650), max: Nanos::from_us(2000) };
        let spec = WearSpec {
            program: us(50, 40, 15, 9),
            erase: us(200, 450, 4, 14),
            ..WearSpec::typical(2, typical, typical)
        };
        Wear::new(
            WearSpec { life_factor: 54.4, life_spread: 0.26, program_exponent: program_exponent(), ..spec },
            10_000,
        )
    }

    #[test]
    fn lives_are_log_normal_around_the_factor() {
        let wear = mlc();
        let lives: Vec<f64> = (0..4000).map(|b| wear.block(7, b).end as f64 / 5.44e8).collect();
        let mean = lives.iter().sum::<f64>() / 4000.0;
        let logs: Vec<f64> = lives.iter().map(|l| l.ln()).collect();
        let centre = logs.iter().sum::<f64>() / 4000.0;
        let spread = (logs.iter().map(|l| (l - centre) * (l - centre)).sum::<f64>() / 4000.0).sqrt();
        assert!((mean - 1.0).abs() < 0.02 && (spread - 0.26).abs() < 0.01, "{mean} {spread}");
    }

    #[test]
    fn times_go_from_fresh_to_worn() {
        let wear = mlc();
        let block = BlockLife { end: 1_000_000, program_scale: 1e6, erase_scale: 1e6 };
        let times =
            |w| (wear.program_time(&block, w).as_ns() / 1000, wear.erase_time(&block, w).as_ns() / 1000);
        assert_eq!(times(0), (690, 2000));
        assert_eq!(times(300_000).0, 650 - 40 * 4);
        assert_eq!(times(1_000_000), (50 + 40 * 9, 200 + 450 * 14));
        assert!(Wear::is_dead(&block, 1_000_000) && !Wear::is_dead(&block, 999_999));
    }

    #[test]
    fn stress_of_temperature_and_pages() {
        assert_eq!([stress(25.0, 1, 64), stress(25.0, 0, 64), stress(80.0, 1, 64)], [1000; 3]);
        assert_eq!([stress(5.0, 1, 64), stress(25.0, 64, 64), stress(5.0, 64, 64)], [2000, 2000, 4000]);
    }

    #[test]
    fn typical_times_hold_after_the_break_in() {
        for (bits, prog, bers) in [(1, 258, 2000), (2, 900, 3500), (1, 1, 1)] {
            let typ = |us| TypMaxUs { typ: Nanos::from_us(us), max: Nanos::from_us(us) };
            let wear = Wear::new(WearSpec::typical(bits, typ(prog), typ(bers)), 100_000);
            let block = wear.block(0, 0);
            assert_eq!(wear.program_time(&block, 300 * CYCLE), Nanos::from_us(prog));
            assert_eq!(wear.erase_time(&block, 300 * CYCLE), Nanos::from_us(bers));
        }
    }

    proptest! {
        /// Nothing changes between two changes, and something changes at each of them.
        #[test]
        fn changes_are_found(seed: u64, block in 0u32..1000, share in 0.0f64..1.1) {
            let wear = mlc();
            let life = wear.block(seed, block);
            let at = (life.end as f64 * share) as u64;
            let times = |w| (wear.program_time(&life, w), wear.erase_time(&life, w), Wear::is_dead(&life, w));
            match wear.next_change(&life, at) {
                Some(next) => {
                    prop_assert!(next > at);
                    prop_assert_eq!(times(next - 1), times(at));
                    prop_assert_ne!(times(next), times(at));
                }
                None => prop_assert!(Wear::is_dead(&life, at)),
            }
        }
    }
}
