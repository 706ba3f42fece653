//! All policies against a plain array: contents, invariants, and loss of power at any operation of the NAND.
use crate::support::{Model, policies};
use floatgate_mtd::BlockDevice;

#[test]
fn every_policy_holds_what_a_plain_array_holds() {
    for (name, spec) in policies() {
        for seed in 0..4 {
            println!("{name}, seed {seed}");
            let mut model = Model::new(&spec, seed);
            for _ in 0..6 {
                assert!(!model.run(400));
                model.card.check().unwrap();
            }
            assert_eq!(model.card.breakdown().total(), model.spent, "{name}: every moment is booked once");
            model.verify();
            assert!(model.card.stats().erases > 0, "{name} never erased");
        }
    }
}

#[test]
fn what_was_flushed_survives_a_cut_at_any_operation() {
    for (name, spec) in policies() {
        for seed in 0..280 {
            println!("{name}, seed {seed}");
            let mut model = Model::new(&spec, seed);
            for round in 0..4 {
                let cut = 1 + model.below(400);
                model.card.order_cut(cut);
                if !model.run(150) {
                    model.card.cut_power();
                }
                model.power_on(round);
            }
            model.run(100);
            model.verify();
        }
    }
}

#[test]
fn a_short_run_survives_a_cut_at_each_of_its_operations() {
    for (name, spec) in policies() {
        let mut before = Model::new(&spec, 11);
        before.run(500);
        let operations = |model: &Model| {
            let stats = model.card.stats();
            stats.page_programs + stats.summary_programs + stats.erases
        };
        let mut whole = before.clone();
        whole.run(25);
        let count = operations(&whole) - operations(&before);
        assert!(count > 20, "{name}: {count} operations");
        for cut in 1..=count {
            println!("{name}, operation {cut}");
            let mut model = before.clone();
            model.card.order_cut(cut);
            assert!(model.run(25), "power is lost");
            model.power_on(0);
        }
    }
}

#[test]
fn cuts_again_and_again_during_recovery_use_nothing_up() {
    for (name, spec) in policies() {
        println!("{name}");
        let mut model = Model::new(&spec, 7);
        model.run(600);
        model.card.cut_power();
        model.power_on(60);
        model.run(300);
        model.verify();
    }
}
