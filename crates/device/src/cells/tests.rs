//! Tests of the whole cell model: the fast path agrees with the model of single bits.

use super::errors::Sampler;
use super::*;
use crate::ecc_engine::EccRequirement;
use crate::units::TypMaxUs;
use floatgate_mtd::{Instant, Nanos, Pairing, PairingScheme};
use proptest::prelude::*;

fn geometry() -> CellsGeometry {
    CellsGeometry {
        page_bytes: 2112,
        pages_per_block: 64,
        blocks: 16,
        pairing: Pairing::NONE,
        half_pair: 1.0,
    }
}

fn cells(change: impl FnOnce(&mut CellsProfile, &mut ErrorSpec, &mut CellsGeometry)) -> Cells {
    let ecc = EccRequirement { strength: 8, step_bytes: 512 };
    let mut errors = ErrorSpec::typical(Promise { ecc, endurance_cycles: 10_000, bits_per_cell: 1 });
    let (mut profile, mut geometry) =
        (CellsProfile { cycles: 10_000, ..CellsProfile::default() }, geometry());
    change(&mut profile, &mut errors, &mut geometry);
    let typ = TypMaxUs { typ: Nanos::from_us(200), max: Nanos::from_us(700) };
    let wear = Wear::new(WearSpec::typical(1, typ, typ), 10_000);
    Cells::new(geometry, wear, errors, profile, 3)
}

fn at(days: f64) -> Instant {
    Instant::ZERO + Nanos::from_ns((days * 86_400e9) as u64)
}

fn errors(cells: &Cells, row: u32, now: Instant) -> Vec<u32> {
    let (mut cells, mut out) = (cells.clone(), Vec::new());
    cells.errors(row, now, 0.0, None, &mut out);
    out
}

/// Programs all pages, waits, and reads all pages. Returns the number of wrong bits, and the number of pages with wrong bits that the
/// fast path missed.
fn read_all(cells: &mut Cells, now: Instant) -> (u32, u32) {
    let (mut wrong, mut missed) = (0, 0);
    for row in 0..1024 {
        let suspicious = cells.read(row, now);
        let bits = errors(cells, row, now).len() as u32;
        wrong += bits;
        missed += u32::from(!suspicious && bits > 0);
    }
    (wrong, missed)
}

fn program_all(cells: &mut Cells) {
    (0..1024).for_each(|row| _ = cells.program(row, Instant::ZERO));
}

/// Only a chip that verifies before the pulse detects a blank block; both chips detect a programmed block.
#[test]
fn an_erase_of_a_blank_block_takes_one_pulse_where_the_chip_stops() {
    let typ = TypMaxUs { typ: Nanos::from_us(2000), max: Nanos::from_us(7000) };
    let of = |stops| {
        let wear = Wear::new(WearSpec::typical(1, typ, typ), 10_000).stopping(stops);
        let ecc = EccRequirement { strength: 8, step_bytes: 512 };
        let errors = ErrorSpec::typical(Promise { ecc, endurance_cycles: 10_000, bits_per_cell: 1 });
        let mut cells = Cells::new(geometry(), wear, errors, CellsProfile::default(), 3);
        let blank = cells.erase_outcome(1).time;
        assert_eq!(cells.erase(1).time, blank);
        cells.program(64, Instant::ZERO);
        let written = cells.erase(1).time;
        assert_eq!(cells.erase_outcome(1).time, blank, "blank again");
        (blank, written)
    };
    assert_eq!(of(false), (typ.typ, typ.typ));
    assert_eq!(of(true), (Nanos::from_us(650), typ.typ));
}

/// With a spread, each block has its own times, always the same ones. Their mean stays the typical time, and a larger
/// spread makes them differ more.
#[test]
fn a_spread_makes_blocks_differ_around_the_typical_time() {
    let times = |spread| -> Vec<(f64, f64)> {
        let mut cells = cells(|profile, _, geometry| {
            (profile.block_spread, profile.wear, geometry.blocks) = (spread, false, 1000);
        });
        let us = |time: Nanos| time.as_us_f64();
        (0..1000)
            .map(|block| {
                let program = us(cells.program(block * 64, Instant::ZERO).time);
                let erase = us(cells.erase_outcome(block).time);
                assert_eq!(us(cells.erase(block).time).to_bits(), erase.to_bits());
                (program, erase)
            })
            .collect()
    };
    assert!(times(0.0).iter().all(|time| *time == (200.0, 200.0)));
    assert!(times(f64::NAN).iter().all(|time| *time == (200.0, 200.0)));
    let deviation = |spread: f64| {
        let all = times(spread);
        assert_eq!(all, times(spread), "the seed determines the times");
        let mean = all.iter().map(|time| time.1).sum::<f64>() / 1000.0;
        assert!((mean / 200.0 - 1.0).abs() < spread / 5.0, "{mean}");
        assert!(all.iter().all(|(program, erase)| program == erase), "a slow block does both slowly");
        (all.iter().map(|time| (time.1 / mean).ln().powi(2)).sum::<f64>() / 1000.0).sqrt()
    };
    let (narrow, wide) = (deviation(0.02), deviation(0.1));
    assert!((narrow - 0.02).abs() < 0.002 && (wide - 0.1).abs() < 0.01, "{narrow} {wide}");
}

#[test]
fn their_number_is_what_the_rate_says() {
    let mut worn = cells(|profile, _, _| profile.temperature_c = 55.0);
    program_all(&mut worn);
    let now = at(3650.0);
    let expected: f64 = (0..1024).map(|row| worn.rber(row, now).total() * 16_896.0).sum();
    let (wrong, missed) = read_all(&mut worn, now);
    assert!(expected > 1000.0, "{expected}");
    assert!((f64::from(wrong) - expected).abs() < 4.0 * expected.sqrt(), "{wrong} {expected}");
    assert_eq!(missed, 0);
}

#[test]
fn dispersion_keeps_the_mean_and_widens_the_spread() {
    let count = |dispersion, page: u64| {
        let mut out = Vec::new();
        Sampler { bits: 4224, dispersion }.errors(2e-3, floatgate_mtd::random::hash(page, 1, 1), 0, &mut out);
        out.len() as f64
    };
    let moments = |dispersion| {
        let all: Vec<f64> = (0..4000).map(|page| count(dispersion, page)).collect();
        let mean = all.iter().sum::<f64>() / 4000.0;
        (mean, all.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 4000.0)
    };
    let (mean, variance) = moments(None);
    assert!((mean - 8.448).abs() < 0.2 && (variance - 8.43).abs() < 0.8, "{mean} {variance}");
    // Variance of a negative binomial distribution: mean + mean^2 / shape.
    let (mean, variance) = moments(Some(2.0));
    assert!((mean - 8.448).abs() < 0.4 && (variance - (8.4 + 35.7)).abs() < 6.0, "{mean} {variance}");
}

#[test]
fn a_page_read_twice_has_the_same_errors_and_a_few_that_flicker() {
    let mut worn = cells(|profile, errors, _| {
        profile.temperature_c = 55.0;
        errors.floor = 1e-2;
    });
    program_all(&mut worn);
    let now = at(1.0);
    let mut read = || {
        worn.read(5, now);
        errors(&worn, 5, now)
    };
    let (first, second) = (read(), read());
    let both = first.iter().filter(|bit| second.contains(bit)).count();
    assert!(first.len() > 100 && both * 100 > first.len() * 90, "{both} of {}", first.len());
    assert_ne!(first, second);
}

#[test]
fn pages_get_worse_with_time_heat_and_reads_and_well_with_an_erase() {
    let mut worn = cells(|_, _, _| {});
    program_all(&mut worn);
    let rate = |cells: &Cells, days| cells.rber(70, at(days)).total();
    let fresh = rate(&worn, 0.0);
    assert!(rate(&worn, 365.0) > fresh);
    let mut baked = worn.clone();
    baked.bake(10.0, 125.0);
    assert!(rate(&baked, 0.0) > rate(&worn, 365.0));
    for _ in 0..100_000 {
        worn.read(64, Instant::ZERO);
    }
    assert!(rate(&worn, 0.0) > fresh);
    worn.erase(1);
    baked.erase(1);
    // The erase adds one cycle and removes the effects of retention and reads.
    assert!(rate(&worn, 0.0) <= fresh * 1.001 && rate(&baked, 365.0) <= fresh * 1.001);
}

#[test]
fn clones_go_their_own_ways() {
    let mut one = cells(|_, _, _| {});
    program_all(&mut one);
    let mut other = one.clone();
    other.erase(0);
    assert_eq!((one.cycles(0), other.cycles(0)), (10_000, 10_001));
}

#[test]
fn blocks_die_and_say_so() {
    let mut chip = cells(|profile, _, _| profile.cycles = 10_000_000);
    assert!(chip.program(0, Instant::ZERO).failed && chip.erase(0).failed);
    let mut young = cells(|profile, _, _| profile.cycles = 500);
    assert!(!young.program(0, Instant::ZERO).failed && !young.erase(0).failed);
    let mut immortal = cells(|profile, _, _| (profile.cycles, profile.wear) = (10_000_000, false));
    assert!(!immortal.program(0, Instant::ZERO).failed && !immortal.erase(0).failed);
}

fn mlc() -> Cells {
    cells(|_, _, g| g.pairing = Pairing::new(PairingScheme::Dist3, 64).unwrap())
}

#[test]
fn power_lost_in_the_second_page_of_a_pair_takes_the_first() {
    // In the scheme dist3, pages 1 and 4 share cells.
    let mut chip = mlc();
    (0..4).for_each(|row| _ = chip.program(row, Instant::ZERO));
    chip.cut_program(4, 0.5, Instant::ZERO);
    assert!(
        [1, 4]
            .iter()
            .all(|row| chip.read(*row, Instant::ZERO) && errors(&chip, *row, Instant::ZERO).len() > 1000)
    );
    assert!([0, 2, 3].iter().all(|row| errors(&chip, *row, Instant::ZERO).len() < 10));
    chip.erase(0);
    assert!([1, 4].iter().all(|row| errors(&chip, *row, Instant::ZERO).len() < 10));
}

#[test]
fn the_later_power_goes_the_more_is_done() {
    let wrong = |done: f32| {
        let mut chip = cells(|_, _, _| {});
        chip.cut_program(0, done, Instant::ZERO);
        errors(&chip, 0, Instant::ZERO).len()
    };
    assert!(wrong(0.0) > 8000 && wrong(0.5) > wrong(0.8) && wrong(0.8) > wrong(0.99));
    let left = |done: f32| {
        let mut chip = cells(|_, _, _| {});
        chip.program(0, Instant::ZERO);
        (chip.cut_erase(0, done), errors(&chip, 0, Instant::ZERO).len())
    };
    assert!(left(0.1).1 < 10 && !left(0.1).0);
    assert!((2000..6500).contains(&left(0.5).1), "{:?}", left(0.5));
    assert!(left(0.9).0);
}

#[test]
fn a_weak_erase_looks_good_and_does_not_hold() {
    let mut chip = cells(|profile, _, _| profile.temperature_c = 55.0);
    let mut whole = chip.clone();
    chip.cut_erase(0, 0.9);
    whole.erase(0);
    for cells in [&mut chip, &mut whole] {
        cells.program(0, Instant::ZERO);
    }
    let rate = |cells: &Cells| cells.rber(0, at(30.0)).total();
    assert!(rate(&chip) > 10.0 * rate(&whole));
    chip.erase(0);
    chip.program(0, Instant::ZERO);
    assert!(rate(&chip) < 1.01 * rate(&whole));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// With any history of a chip, the fast path never misses a page with errors.
    #[test]
    fn the_fast_path_and_the_bits_agree(
        floor in prop_oneof![Just(1e-9), Just(1e-6), Just(1e-4)],
        dispersion in prop_oneof![Just(None), Just(Some(2.0))],
        steps in proptest::collection::vec((0u8..6, 0u32..1024, 0.0f64..400.0), 1..60),
    ) {
        let mut chip = cells(|profile, errors, _| {
            errors.floor = floor;
            errors.dispersion = dispersion;
            profile.temperature_c = 55.0;
        });
        let mut now = Instant::ZERO;
        for (what, row, amount) in steps {
            match what {
                0 => _ = chip.program(row, now),
                1 => _ = chip.erase(row / 64),
                2 => chip.bake(amount, 85.0),
                3 => now += Nanos::from_ns((amount * 86_400e9) as u64),
                4 => chip.cut_program(row, amount as f32 / 400.0, now),
                _ => _ = chip.cut_erase(row / 64, amount as f32 / 400.0),
            }
            for near in (row / 64 * 64)..(row / 64 * 64 + 64) {
                let suspicious = chip.read(near, now);
                prop_assert!(suspicious || errors(&chip, near, now).is_empty());
            }
        }
    }
}
