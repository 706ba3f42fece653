//! Tests with random operations against the model, with remounts.

use super::common::{Random, attach, formatted, kinds, nand, quiet};
use super::model::{Model, Op};
use floatgate_mtd::Mtd;
use floatgate_mtd::faults::{FaultPlan, Faults};
use floatgate_stack::ubi::{AttachOptions, FastmapUse, Ubi};

fn step(model: &mut Model, ubi: &mut Ubi<dyn Mtd>, random: &mut Random) {
    let op = model.choose(random, ubi.info().available_lebs);
    if let Err(error) = model.run(ubi, &op) {
        panic!("{op:?}: {error}");
    }
    *model = model.after(&op, ubi);
}

#[test]
fn operations_and_remounts_agree_with_the_model() {
    for (kind, flash) in kinds(48).into_iter().enumerate() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let mut ubi = attach(formatted(flash.clone()));
            let mut model = Model::new(&ubi);
            for turn in 0..300 {
                step(&mut model, &mut ubi, &mut random);
                if turn % 50 == 49 {
                    ubi = Ubi::attach(
                        ubi.into_mtd(),
                        &AttachOptions { after_power_cut: turn % 100 == 99, ..quiet() },
                    )
                    .unwrap();
                    model.check(&mut ubi, None, &format!("kind {kind}, seed {seed}, turn {turn}"));
                    model.clean(&mut ubi, None).unwrap();
                }
            }
        }
    }
}

#[test]
fn operations_and_remounts_with_a_fastmap_agree_with_the_model() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut ubi = attach(formatted(nand(120, 512, 512)));
        let mut model = Model::new(&ubi);
        for turn in 0..300 {
            step(&mut model, &mut ubi, &mut random);
            if random.below(20) == 0 {
                let fastmap = [FastmapUse::Write, FastmapUse::Write, FastmapUse::Read, FastmapUse::Never]
                    [random.below(4) as usize];
                let flash = match random.below(3) {
                    0 => ubi.detach().unwrap().0,
                    _ => ubi.into_mtd(),
                };
                ubi = Ubi::attach(flash, &AttachOptions { fastmap, ..AttachOptions::default() }).unwrap();
                model.check(&mut ubi, None, &format!("seed {seed}, turn {turn}"));
                model.clean(&mut ubi, None).unwrap();
            }
        }
    }
}

#[test]
fn nothing_is_lost_to_faults() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let flash = nand(120, 512, 512);
        let flash = Faults::new(flash, FaultPlan { seed, ..FaultPlan::harsh(seed, 120) }).unwrap();
        let mut ubi = attach(formatted(flash));
        let mut model = Model::new(&ubi);
        let fastmap = if seed % 2 == 0 { FastmapUse::Never } else { FastmapUse::Write };
        for turn in 0..400 {
            step(&mut model, &mut ubi, &mut random);
            if turn % 50 == 49 {
                let options = AttachOptions { fastmap, max_bad_per_1024: 40, ..AttachOptions::default() };
                ubi = Ubi::attach(ubi.into_mtd(), &options).unwrap();
                model.check(&mut ubi, None, &format!("seed {seed}, turn {turn}"));
                model.clean(&mut ubi, None).unwrap();
            }
        }
        assert_eq!(ubi.info().read_only, None);
    }
}

#[test]
fn wear_is_levelled_under_a_volume_that_never_changes() {
    let threshold = 20;
    let options = AttachOptions { wear_threshold: threshold, ..quiet() };
    let mut ubi = Ubi::attach(formatted(nand(60, 512, 512)), &options).unwrap();
    let model = Model::new(&ubi);
    let cold = ubi.create_volume(&floatgate_stack::ubi::NewVolume::fixed("cold", 30)).unwrap();
    let hot = ubi.create_volume(&floatgate_stack::ubi::NewVolume::dynamic("hot", 3)).unwrap();
    let data = Random::new(1).bytes(30 * model.leb_bytes);
    let mut update = ubi.update_volume(cold, data.len() as u64).unwrap();
    update.write(&data).unwrap();
    update.finish().unwrap();
    for turn in 0..20_000u32 {
        model.run(&mut ubi, &Op::Change { id: hot, lnum: turn % 3, data: vec![turn as u8; 512] }).unwrap();
    }
    ubi.flush().unwrap();
    let info = ubi.info();
    let spread = info.erase_count_max - info.erase_count_min;
    assert!(info.erase_count_mean > 300 && spread <= 2 * threshold + 2, "{info:?}");
    let mut read = vec![0; data.len()];
    assert_eq!(ubi.read_volume(cold, 0, &mut read), Ok(data.len()));
    assert!(read == data);
}
