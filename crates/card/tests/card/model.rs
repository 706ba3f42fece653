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
            model.verify();
            assert_eq!(model.card.breakdown().total(), model.card.breakdown().total());
            assert!(model.card.stats().erases > 0, "{name} never erased");
        }
    }
}

#[test]
fn what_was_flushed_survives_a_cut_at_any_operation() {
    for (name, spec) in policies() {
        for seed in 0..150 {
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
