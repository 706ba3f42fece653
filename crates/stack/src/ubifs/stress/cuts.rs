//! Power cuts at any write: synced data survives, everything else is old or new, and the filesystem stays consistent
//! and usable.
//!
//! One head writes inodes and names in order: the state after a cut is a previous state, at the last sync or later.
//! Another head writes blocks: each block is as in one of those states.

use std::rc::Rc;

use super::super::error::{Error, Result};
use super::super::journal::Room;
use super::super::mount::MountOptions;
use super::model::{Model, State};
use super::*;
use floatgate_mtd::random::Random;

/// Creates a used filesystem, and returns it with its expected contents.
fn used(shape: Shape, seed: u64, steps: usize) -> (Core<TestVolume>, Model) {
    let mut core = fresh(shape);
    let mut model = Model::new(seed);
    (model.files, model.blocks) = (12, 6);
    for _ in 0..steps {
        model.step(&mut core).unwrap();
    }
    core.commit().unwrap();
    (core, model)
}

/// Makes random changes until power is cut or `steps` changes were made, with an occasional sync or commit. Returns
/// true after a power cut.
fn work(core: &mut Core<TestVolume>, model: &mut Model, steps: usize) -> bool {
    model.history = Some(vec![model.state.clone()]);
    for _ in 0..steps {
        let action = model.random.below(25);
        let outcome = match action {
            0 => core.sync_heads(),
            1 if model.random.below(3) == 0 => core.commit(),
            2 => collect(core),
            _ => model.step(core),
        };
        match outcome {
            Ok(()) if action <= 1 && core.io.sqnum() > 0 => {
                // A commit also syncs. Action 1 commits in 1 of 3 cases; otherwise it is a random change.
                let synced = Head::ALL.into_iter().all(|head| core.io.buffer(head).pending().is_empty());
                if synced {
                    model.history = Some(vec![model.state.clone()]);
                }
            }
            Ok(()) => {}
            Err(Error::NoSpace) => {}
            Err(error) => {
                assert!(error.is_power_loss(), "{error}");
                return true;
            }
        }
    }
    false
}

/// Collects garbage as on a full filesystem.
fn collect(core: &mut Core<TestVolume>) -> Result<()> {
    match core.collect(true)? {
        Room::Ready(lnum) => core.space.set_taken(lnum, false),
        Room::CommitFirst => core.force_commit(),
        Room::NoSpace => Ok(()),
    }
}

/// Mounts after a power cut. Further cuts may interrupt the mount.
fn mount(mut volume: TestVolume, cuts: &[u64], seed: u64, what: &str) -> Core<TestVolume> {
    let options = MountOptions { recover: true, ..MountOptions::default() };
    for &cut in cuts {
        volume.power_on();
        volume.cut_after(cut, seed ^ cut);
        match Core::mount(volume, &options) {
            Ok(core) => volume = core.into_volume(),
            Err((error, left)) => {
                assert!(error.is_power_loss(), "{what}: {error}");
                volume = left;
            }
        }
    }
    volume.power_on();
    match Core::mount(volume, &options) {
        Ok(core) => core,
        Err((error, _)) => panic!("{what}: {error}"),
    }
}

/// Names and inodes of a state, without file sizes, which recovery corrects.
fn tree(state: &State) -> State {
    let mut tree = state.clone();
    tree.blocks.clear();
    tree.open.clear();
    tree.inodes
        .values_mut()
        .filter(|(inode, _)| inode.mode == 0o100_644)
        .for_each(|(inode, _)| inode.size = 0);
    tree
}

fn assert_possible(found: &State, history: &[State], what: &str) {
    let seen = tree(found);
    let possible = history.iter().rev().any(|state| tree(&state.without_open()) == seen);
    let last = history.last().map(State::without_open).unwrap_or_default();
    assert!(possible, "{what}: no state of {} was this: {}", history.len(), tree(&last).difference(&seen));
    for state in history {
        for at in state.blocks.keys().filter(|(inode, _)| found.inodes.contains_key(inode)) {
            let block = found.blocks.get(at);
            assert!(history.iter().any(|state| state.blocks.get(at) == block), "{what}: block {at:?}");
        }
    }
    for (at, block) in &found.blocks {
        assert!(found.inodes.contains_key(&at.0), "{what}: block {at:?} of no inode");
        let known = |state: &State| state.blocks.get(at).is_some_and(|other: &Rc<[u8]>| other == block);
        assert!(history.iter().any(known), "{what}: block {at:?} was never so");
    }
}

/// Cuts power at operation `at` of a workload, and again during the recoveries; checks the remaining state, and
/// continues.
fn cut(start: &(Core<TestVolume>, Model), at: u64, again: &[u64], seed: u64, steps: usize) -> bool {
    let what = format!("cut {at}, again {again:?}, seed {seed}");
    let mut core = start.0.clone();
    let mut model = Model { random: Random::new(seed), state: start.1.state.clone(), ..Model::new(0) };
    (model.files, model.blocks) = (start.1.files, start.1.blocks);
    core.io.volume_mut().cut_after(at, seed);
    let went = work(&mut core, &mut model, steps);
    let history = model.history.take().unwrap();
    let mut core = mount(core.into_volume(), again, seed, &what);
    assert_consistent(&mut core, &what);
    let found = State::read(&mut core).unwrap();
    assert_possible(&found, &history, &what);
    let mut model = Model { state: found, random: Random::new(!seed), ..Model::new(0) };
    (model.files, model.blocks) = (start.1.files, start.1.blocks);
    go_on(core, model, &what);
    went
}

/// Checks that a recovered filesystem can be used, unmounted and mounted.
fn go_on(mut core: Core<TestVolume>, mut model: Model, what: &str) {
    for _ in 0..20 {
        match model.step(&mut core) {
            Ok(()) | Err(Error::NoSpace) => {}
            Err(error) => panic!("{what}, used again: {error}"),
        }
    }
    for number in model.state.open.clone() {
        core.delete_inode(&model.state.inodes[&number].0).unwrap();
        model.state.forget(number);
    }
    let volume = core.unmount().unwrap_or_else(|(error, _)| panic!("{what}: {error}"));
    let options = MountOptions::default();
    let mut core = Core::mount(volume, &options).unwrap_or_else(|(error, _)| panic!("{what}: {error}"));
    assert_consistent(&mut core, &format!("{what}, mounted again"));
    let found = State::read(&mut core).unwrap();
    assert!(found == model.state, "{what}, mounted again: {}", found.difference(&model.state));
}

#[test]
fn a_cut_anywhere_leaves_a_state_there_was() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let start = used(shape, number as u64, 60);
        let mut at = 0;
        while cut(&start, at, &[], at + 1, 100) {
            at += 1;
        }
        assert!(at > 20, "{shape:?}: {at} operations");
    }
}

#[test]
fn a_cut_in_recovery_changes_nothing() {
    let mut random = Random::new(4);
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let start = used(shape, 50 + number as u64, 60);
        for round in 0..60 {
            let at = random.below(60);
            let again: Vec<u64> = (0..round % 4 + 1).map(|_| random.below(20)).collect();
            cut(&start, at, &again, random.bits(), 100);
        }
    }
}

#[test]
fn a_cut_while_space_is_short_leaves_a_state_there_was() {
    let mut random = Random::new(8);
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let mut core = fresh(shape);
        let mut model = Model::new(70 + number as u64);
        (model.files, model.blocks) = (100, 400);
        while model.run(&mut core, super::model::Operation::Create).is_ok()
            && model.run(&mut core, super::model::Operation::Write).is_ok()
        {}
        for _ in 0..20 {
            model.run(&mut core, super::model::Operation::Unlink).unwrap();
            model.run(&mut core, super::model::Operation::Close).unwrap();
        }
        core.commit().unwrap();
        let start = (core, model);
        for _ in 0..floatgate_testing::few_or_all(8, 30) {
            cut(&start, random.below(200), &[], random.bits(), 150);
        }
    }
}

#[test]
fn a_cut_with_small_limits_leaves_a_state_there_was() {
    let mut random = Random::new(16);
    for (number, (shape, count)) in SHAPES.into_iter().zip([1, 2, 3, 8, 1, 2]).enumerate() {
        let mut start = used(shape, 300 + number as u64, 200);
        start.0.set_limits(Limits::all(count));
        for _ in 0..40 {
            cut(&start, random.below(120), &[], random.bits(), 150);
        }
    }
}

/// A long run for a night: filesystems of many shapes and fill levels, with repeated power cuts.
#[test]
#[ignore = "slow: ./test --all"]
fn slow_many_cuts_on_many_filesystems() {
    let mut random = Random::new(std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap()));
    for _ in 0..60 {
        let mut shape = SHAPES[usize::try_from(random.below(6)).unwrap()];
        shape.lebs = 30 + u32::try_from(random.below(40)).unwrap();
        shape.journal_lebs = 3 + u32::try_from(random.below(8)).unwrap();
        let steps = usize::try_from(random.below(1500)).unwrap();
        let mut core = fresh(shape);
        let mut model = Model::new(random.bits());
        model.files = 5 + usize::try_from(random.below(100)).unwrap();
        model.blocks = 2 + u32::try_from(random.below(100)).unwrap();
        for _ in 0..steps {
            match model.step(&mut core) {
                Ok(()) | Err(Error::NoSpace) => {}
                Err(error) => panic!("{shape:?}: {error}"),
            }
        }
        core.sync_heads().unwrap();
        let start = (core, model);
        for _ in 0..40 {
            let again: Vec<u64> = (0..random.below(3)).map(|_| random.below(40)).collect();
            cut(&start, random.below(150), &again, random.bits(), 200);
        }
    }
}
