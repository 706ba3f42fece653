//! Power cuts in every stage of every operation, and a second cut during the next attach.

use super::common::{Random, formatted, kinds, nand};
use super::model::{Model, Op};
use floatgate_mtd::power_cut::{Cut, CutKind, PowerCut};
use floatgate_mtd::ram::RamFlash;
use floatgate_stack::ubi::{AttachFault, AttachOptions, FastmapUse, Ubi, UbiError};

type Flash = PowerCut<RamFlash>;

fn options(fastmap: FastmapUse) -> AttachOptions {
    AttachOptions { fastmap, ..AttachOptions::default() }
}

/// Runs operations until power is cut. Returns the interrupted operation.
fn run(model: &mut Model, ubi: &mut Ubi<Flash>, random: &mut Random, turns: u32) -> Option<Op> {
    for _ in 0..turns {
        let op = model.choose(random, ubi.info().available_lebs);
        match model.run(ubi, &op) {
            Ok(()) => *model = model.after(&op, ubi),
            Err(UbiError::PowerLost) => {
                assert_eq!(ubi.read_leb(0, 0, 0, &mut [0]), Err(UbiError::PowerLost));
                return Some(op);
            }
            Err(error) => panic!("{op:?}: {error}"),
        }
    }
    None
}

/// Attaches after a cut. A second cut, if given, interrupts a first attempt.
fn attach(mut flash: Flash, second: Option<Cut>, fastmap: FastmapUse, run: &str) -> Ubi<Flash> {
    flash.power_on();
    flash.order(second);
    match Ubi::attach(flash, &options(fastmap)) {
        Ok(mut ubi) => {
            ubi.mtd_mut().order(None);
            ubi
        }
        Err(error) => {
            assert_eq!(error.fault, AttachFault::Ubi(UbiError::PowerLost), "{run}");
            attach(error.mtd, None, fastmap, run)
        }
    }
}

struct Case {
    seed: u64,
    fastmap: FastmapUse,
    turns: u32,
}

impl Case {
    /// Creates a device in use. Returns it with the number of flash operations of the workload to cut.
    fn start(&self, flash: RamFlash) -> (Model, Ubi<Flash>, Random, u64) {
        let mut random = Random::new(self.seed);
        let mut ubi = Ubi::attach(PowerCut::new(formatted(flash)), &options(self.fastmap)).unwrap();
        let mut model = Model::new(&ubi);
        assert!(run(&mut model, &mut ubi, &mut random, 60).is_none());
        let before = ubi.mtd().operations();
        let (mut trial, mut model_trial) = (ubi.clone(), model.clone());
        assert!(run(&mut model_trial, &mut trial, &mut random.clone(), self.turns).is_none());
        let count = trial.mtd().operations() - before;
        (model, ubi, random, count)
    }

    fn cut(&self, start: &(Model, Ubi<Flash>, Random, u64), cut: Cut, second: Option<Cut>) {
        let name = format!("seed {}, {:?}, {cut:?}, then {second:?}", self.seed, self.fastmap);
        let (mut model, mut ubi, mut random) = (start.0.clone(), start.1.clone(), start.2.clone());
        ubi.mtd_mut().order(Some(cut));
        let op = run(&mut model, &mut ubi, &mut random, self.turns).unwrap();
        let mut ubi = attach(ubi.into_mtd(), second, self.fastmap, &name);
        assert_eq!(ubi.info().read_only, None, "{name}");
        model.note_volumes(&op, &ubi);
        model.check(&mut ubi, Some(&op), &name);
        model.clean(&mut ubi, Some(&op)).unwrap();
        // The device stays usable, and no data is lost later.
        assert!(run(&mut model, &mut ubi, &mut random, 15).is_none());
        model.check(&mut ubi, None, &format!("{name}, later"));
        let mut ubi = attach(ubi.into_mtd(), None, self.fastmap, &name);
        model.check(&mut ubi, None, &format!("{name}, attached again"));
        // An interrupted erase can leave an unreadable header and readable data; such a PEB is kept.
        assert!(ubi.info().corrupted_pebs <= 1, "{name}");
    }

    fn exhaust(&self, flash: RamFlash, with_second: bool) {
        let start = self.start(flash);
        for operation in 1..=start.3 {
            for kind in CutKind::ALL {
                let seed = self.seed * 7919 + operation;
                let cut = Cut { operation, kind, seed };
                let second = Cut { operation: 1 + seed % 9, kind: CutKind::ALL[(seed % 4) as usize], seed };
                self.cut(&start, cut, with_second.then_some(second));
            }
        }
    }
}

#[test]
fn a_cut_at_every_operation_loses_nothing() {
    for (flash, seed) in kinds(40).into_iter().zip(100..) {
        Case { seed, fastmap: FastmapUse::Never, turns: 12 }.exhaust(flash, false);
    }
}

#[test]
fn a_second_cut_while_attaching_loses_nothing() {
    for (flash, seed) in kinds(40).into_iter().zip(200..) {
        Case { seed, fastmap: FastmapUse::Never, turns: 12 }.exhaust(flash, true);
    }
}

#[test]
fn cuts_of_a_device_with_a_fastmap_lose_nothing() {
    for seed in 300..306 {
        let case = Case { seed, fastmap: FastmapUse::Write, turns: 12 };
        case.exhaust(nand(100, 512, 512), seed % 2 == 0);
    }
}

/// As above, with many more seeds: `UBI_CUT_SEEDS=1000..1100 cargo test -p floatgate-stack --test ubi -- --ignored
/// slow_many_cuts`.
#[test]
#[ignore = "slow: ./test --all"]
fn slow_many_cuts() {
    let seeds = std::env::var("UBI_CUT_SEEDS").unwrap_or_else(|_| "1000..1020".into());
    let (first, end) = seeds.split_once("..").unwrap();
    for seed in first.parse().unwrap()..end.parse().unwrap() {
        for (kind, flash) in kinds(40).into_iter().enumerate() {
            let seed = seed * 4 + kind as u64;
            Case { seed, fastmap: FastmapUse::Never, turns: 20 }.exhaust(flash, seed.is_multiple_of(3));
        }
        Case { seed, fastmap: FastmapUse::Write, turns: 20 }.exhaust(nand(100, 512, 512), seed % 2 == 0);
    }
}
