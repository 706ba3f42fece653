//! All policies against a plain array: contents, invariants, and loss of power at any operation of the NAND and at any moment.
use crate::support::{policies, spec};
use floatgate_card::reference::{Ended, ReferenceModel};
use floatgate_card::{Card, CardOptions, CardSpec};
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, Nanos};
use floatgate_testing::few_or_all;

/// The model of a card that is possible.
fn model(spec: &CardSpec, seed: u64) -> ReferenceModel {
    ReferenceModel::new(spec, seed).unwrap()
}

/// All policies, with blocks that fail to erase and pages that fail to program, and blocks to replace them.
fn faulty_policies() -> Vec<(&'static str, CardSpec)> {
    let mut all = policies();
    // An enhanced area has one block to spare for sixteen, which so many failures use up: that card is worn out.
    all.retain(|(_, spec)| spec.enhanced.bytes == 0);
    for (_, spec) in &mut all {
        spec.spare_blocks += 60;
        spec.bad_blocks = 5;
        spec.wear.program_failures_per_million = 1000;
        // The weakest blocks live for some ten erases.
        (spec.wear.life_factor, spec.wear.life_spread) = (0.01, 1.0);
    }
    all
}

#[test]
fn every_policy_holds_what_a_plain_array_holds() {
    for (name, spec) in policies() {
        for seed in 0..4 {
            println!("{name}, seed {seed}");
            let mut model = model(&spec, seed);
            for _ in 0..6 {
                assert_eq!(model.run(400), Ok(Ended::Done));
                model.card().check().unwrap();
            }
            let traffic = model.traffic();
            assert_eq!(
                model.card().breakdown().total(),
                traffic.response,
                "{name}: every moment is booked once"
            );
            assert!(traffic.requests > 2000 && traffic.flushes > 100, "{name}: {traffic:?}");
            model.verify().unwrap();
            assert!(model.card().stats().erases > 0, "{name} never erased");
        }
    }
}

#[test]
fn blocks_and_pages_that_fail_lose_nothing() {
    let mut failed = 0;
    for (name, spec) in faulty_policies() {
        for seed in 0..6 {
            println!("{name}, seed {seed}");
            let mut model = model(&spec, seed);
            for round in 0..4 {
                let cut = 200 + model.below(2000);
                model.card_mut().order_cut(cut);
                if model.run(400) != Ok(Ended::PowerLost) {
                    model.card_mut().cut_power();
                }
                model.power_on(round).unwrap();
            }
            model.verify().unwrap();
            failed += model.card().failed_blocks() - spec.bad_blocks as usize;
        }
    }
    assert!(failed > 100, "{failed} blocks failed");
}

#[test]
fn a_card_that_wears_out_keeps_what_it_has() {
    let mut worn = 0;
    for (name, mut spec) in policies() {
        (spec.wear.life_factor, spec.wear.life_spread) = (0.01, 0.5);
        for seed in 0..3 {
            println!("{name}, seed {seed}");
            let mut model = model(&spec, seed);
            for _ in 0..40 {
                let at = model.now() + Nanos::from_ms(10_000);
                model.card_mut().order_removal(at);
                if model.run(400).unwrap() == Ended::WornOut {
                    worn += 1;
                    break;
                }
                model.card_mut().cut_power();
                model.power_on(1).unwrap();
            }
            model.verify().unwrap();
        }
    }
    assert!(worn > 20, "{worn} cards are worn out");
}

#[test]
fn what_was_flushed_survives_a_cut_at_any_operation() {
    for (name, spec) in policies() {
        for seed in 0..few_or_all(23, 230) as u64 {
            println!("{name}, seed {seed}");
            let mut model = model(&spec, seed);
            for round in 0..4 {
                let cut = 1 + model.below(400);
                model.card_mut().order_cut(cut);
                if model.run(150) == Ok(Ended::Done) {
                    model.card_mut().cut_power();
                }
                model.power_on(round).unwrap();
            }
            model.run(100).unwrap();
            model.verify().unwrap();
        }
    }
}

#[test]
fn what_was_flushed_survives_a_removal_at_any_moment() {
    for (name, mut spec) in policies() {
        for seed in 0..30 {
            println!("{name}, seed {seed}");
            spec.power.hold_up_us = Nanos::from_us(seed % 3 * 1500);
            let mut model = model(&spec, seed);
            for _ in 0..4 {
                let at = model.now() + Nanos::from_us(model.below(400_000));
                model.card_mut().order_removal(at);
                assert_eq!(model.run(2000), Ok(Ended::PowerLost));
                model.power_on(0).unwrap();
            }
            model.verify().unwrap();
        }
    }
}

#[test]
fn a_short_run_survives_a_cut_at_each_of_its_operations() {
    for (name, spec) in policies() {
        let mut before = model(&spec, 11);
        before.run(500).unwrap();
        let operations = |model: &ReferenceModel| {
            let stats = model.card().stats();
            stats.page_programs + stats.summary_programs + stats.erases
        };
        let mut whole = before.clone();
        whole.run(25).unwrap();
        let count = operations(&whole) - operations(&before);
        assert!(count > 20, "{name}: {count} operations");
        for cut in 1..=count {
            println!("{name}, operation {cut}");
            let mut model = before.clone();
            model.card_mut().order_cut(cut);
            assert_eq!(model.run(25), Ok(Ended::PowerLost));
            model.power_on(0).unwrap();
        }
    }
}

/// Requests after the discards of the test below: writes all over what is not discarded, with a flush and further discards at times.
fn go_on(card: &mut Card) -> Result<(), BlockError> {
    for request in 0..120_u64 {
        let lba = (request * 37 + 16) % (card.capacity() / 24) * 24 + 16;
        let now = card.now();
        match request % 10 {
            4 => card.flush(now)?,
            7 => card.discard(now, lba, 8)?,
            _ => card.write(now, lba, &[2; 4096])?,
        };
    }
    Ok(())
}

#[test]
fn a_flushed_discard_stays_after_a_cut_at_any_operation() {
    let small_units = "mapping = 'page'\nmap_unit_bytes = 512\ncapacity_bytes = '8 MiB'\nspare_blocks = 12";
    let mut all = policies();
    all.push(("page, four bitmaps", spec(small_units, "")));
    for (name, spec) in all {
        let mut card = Card::new(&spec, CardOptions::default()).unwrap();
        let sectors = card.capacity();
        for lba in (0..sectors).step_by(128) {
            card.write(card.now(), lba, &[1; 65536]).unwrap();
        }
        card.flush(card.now()).unwrap();
        // Of 24 sectors, 16 are discarded, the others written again and again.
        let gaps = || (0..sectors / 24).map(|group| group * 24);
        for lba in gaps() {
            card.discard(card.now(), lba, 16).unwrap();
        }
        card.flush(card.now()).unwrap();
        let operations = |card: &Card| {
            let stats = card.stats();
            stats.page_programs + stats.summary_programs + stats.erases
        };
        let mut whole = card.clone();
        go_on(&mut whole).unwrap();
        let count = operations(&whole) - operations(&card);
        assert!(count > 100, "{name}: {count} operations");
        for cut in 1..=count {
            let mut card = card.clone();
            card.order_cut(cut);
            assert_eq!(go_on(&mut card).unwrap_err().kind, BlockErrorKind::PowerLost);
            // The recovery is cut, too.
            if card.power_on(card.now(), 1 + cut % 7).is_ok() {
                card.cut_power();
            }
            card.power_on(card.now(), 0).unwrap();
            card.check().unwrap();
            for lba in gaps() {
                let mut found = [0xEE; 16 * 512];
                card.read(card.now(), lba, &mut found).unwrap();
                assert!(found == [0; 16 * 512], "{name}, operation {cut}: sector {lba} is back");
            }
        }
    }
}

#[test]
fn a_discard_of_the_whole_card_needs_no_flush() {
    for (name, spec) in policies() {
        let mut card = Card::new(&spec, CardOptions::default()).unwrap();
        card.write(Instant::ZERO, 0, &[1; 65536]).unwrap();
        card.flush(card.now()).unwrap();
        card.discard(card.now(), 0, card.capacity()).unwrap();
        // What is written later is there, and it alone.
        card.write(card.now(), 8, &[2; 4096]).unwrap();
        card.flush(card.now()).unwrap();
        card.cut_power();
        card.power_on(card.now(), 0).unwrap();
        let mut found = [0xEE; 65536];
        card.read(card.now(), 0, &mut found).unwrap();
        let expected = |at: usize| if (4096..8192).contains(&at) { 2 } else { 0 };
        assert!(found.iter().zip(0..).all(|(byte, at)| *byte == expected(at)), "{name}");
    }
}

#[test]
fn cuts_again_and_again_during_recovery_use_nothing_up() {
    for (name, spec) in policies() {
        println!("{name}");
        let mut model = model(&spec, 7);
        model.run(600).unwrap();
        model.card_mut().cut_power();
        model.power_on(60).unwrap();
        model.run(300).unwrap();
        model.verify().unwrap();
    }
}

#[test]
fn a_card_in_small_is_possible_and_holds_what_it_should() {
    for (name, spec) in policies() {
        println!("{name}");
        let mut model = model(&spec.in_small(), 3);
        model.run(400).unwrap();
        model.card_mut().cut_power();
        model.power_on(0).unwrap();
        model.verify().unwrap();
    }
}

#[test]
fn requests_in_the_card_are_their_rate_times_their_response() {
    // Requests arrive by a clock, faster than the card works at times: Little's law, with the number in the card counted moment by moment.
    for (name, spec) in policies() {
        let mut card = floatgate_card::Card::new(&spec, floatgate_card::CardOptions::default()).unwrap();
        let (mut events, mut response, mut arrival) = (Vec::new(), 0, Instant::ZERO);
        let mut chance = floatgate_mtd::random::Random::new(5);
        for request in 0..600_u64 {
            arrival += Nanos::from_us(chance.bits() % 3000);
            let lba = chance.bits() % (card.capacity() - 8);
            let end = match request % 9 {
                0 => card.flush(arrival),
                1..4 => card.read(arrival, lba, &mut [0; 4096]),
                _ => card.write(arrival, lba, &[1; 4096]),
            };
            let end = end.unwrap();
            response += end.since(arrival).as_ns();
            events.extend([(arrival.as_ns(), 1_i64), (end.as_ns(), -1)]);
        }
        events.sort_unstable();
        let (mut inside, mut area, mut last, mut most) = (0, 0, 0, 0);
        for (at, step) in events {
            area += u64::try_from(inside).unwrap() * (at - last);
            (inside, last) = (inside + step, at);
            most = most.max(inside);
        }
        assert_eq!((inside, area), (0, response), "{name}: requests are lost or made up");
        assert!(most > 3, "{name}: {most} requests wait at most");
    }
}
