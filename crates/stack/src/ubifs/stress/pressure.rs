//! Tests with long runs, full filesystems and garbage collection.

use super::super::error::Error;
use super::super::journal::Room;
use super::model::{Model, Operation, State};
use super::*;

fn assert_holds(core: &mut Core<TestVolume>, model: &Model, when: &str) {
    let found = State::read(core).unwrap();
    assert!(found == model.state, "{when}: {}", found.difference(&model.state));
}

#[test]
fn thousands_of_changes_add_up() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let mut core = fresh(shape);
        let mut model = Model::new(number as u64);
        assert_consistent(&mut core, "fresh");
        for round in 0..12 {
            for _ in 0..250 {
                model.step(&mut core).unwrap();
            }
            let when = format!("{shape:?}, round {round}");
            assert_holds(&mut core, &model, &when);
            assert_consistent(&mut core, &when);
            core.commit().unwrap();
            assert_consistent(&mut core, &format!("{when}, committed"));
        }
    }
}

#[test]
fn a_build_without_a_journal_ends_in_the_same_state() {
    for shape in SHAPES {
        let mut core = unwritten(shape);
        let mut model = Model::new(5);
        let before = core.io.volume().operations;
        for _ in 0..200 {
            model.step(&mut core).unwrap();
        }
        assert!(core.log.is_deferred(), "{shape:?}");
        assert_consistent(&mut core, "deferred");
        assert!(core.io.volume().operations > before);
        core.commit().unwrap();
        assert_holds(&mut core, &model, "built");
        assert_consistent(&mut core, "built");
        for _ in 0..1000 {
            model.step(&mut core).unwrap();
        }
        assert_holds(&mut core, &model, "used");
    }
}

#[test]
fn a_full_filesystem_can_be_emptied_and_filled_again() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        let mut core = fresh(shape);
        let mut model = Model::new(90 + number as u64);
        (model.files, model.blocks) = (10_000, 200);
        let mut filled = Vec::new();
        for round in 0..4 {
            let mut written = 0;
            loop {
                let operation = if model.random.below(8) == 0 { Operation::Create } else { Operation::Write };
                match model.run(&mut core, operation) {
                    Ok(()) => written += 1,
                    Err(Error::NoSpace) => break,
                    Err(error) => panic!("{shape:?}, round {round}: {error}"),
                }
            }
            filled.push(model.state.blocks.len());
            let when = format!("{shape:?}, full {round} after {written}");
            assert_holds(&mut core, &model, &when);
            assert_consistent(&mut core, &when);
            assert!(!core.io.is_read_only());
            // Makes a few changes that need no space, then deletions.
            while model.state.names.len() > round {
                model.run(&mut core, Operation::Unlink).unwrap();
                model.run(&mut core, Operation::Close).unwrap();
            }
            assert_holds(&mut core, &model, &format!("{when}, emptied"));
            assert_consistent(&mut core, &format!("{when}, emptied"));
        }
        let (first, last) = (filled[0], filled[3]);
        assert!(last * 10 >= first * 8, "{shape:?}: {filled:?} blocks fit");
    }
}

#[test]
fn collecting_all_there_is_keeps_everything() {
    for shape in SHAPES {
        let mut core = fresh(shape);
        let mut model = Model::new(17);
        for _ in 0..1500 {
            model.step(&mut core).unwrap();
        }
        let mut gained = 0;
        for _ in 0..100 {
            match core.collect(true).unwrap() {
                Room::Ready(lnum) => {
                    assert!(!core.io.is_mapped(lnum).unwrap());
                    core.space.set_taken(lnum, false).unwrap();
                    gained += 1;
                }
                Room::CommitFirst => core.commit().unwrap(),
                Room::NoSpace => break,
            }
            assert_consistent(&mut core, "collected");
        }
        assert!(gained > 0, "{shape:?}");
        assert_holds(&mut core, &model, "collected");
        core.commit().unwrap();
        assert_consistent(&mut core, "collected and committed");
    }
}

#[test]
fn a_commit_without_changes_writes_nothing() {
    let mut core = fresh(SHAPES[0]);
    core.commit().unwrap();
    let before = core.io.volume().operations;
    core.commit().unwrap();
    assert_eq!(core.io.volume().operations, before);
    core.force_commit().unwrap();
    assert!(core.io.volume().operations > before);
}

#[test]
fn a_full_filesystem_says_so_without_wearing_the_flash() {
    for shape in SHAPES {
        let mut core = fresh(shape);
        let mut model = Model::new(23);
        (model.files, model.blocks) = (10_000, 200);
        while model.run(&mut core, Operation::Create).is_ok()
            && model.run(&mut core, Operation::Write).is_ok()
        {}
        let before = core.io.volume().operations;
        let mut refused = 0;
        for _ in 0..100 {
            refused += u64::from(model.run(&mut core, Operation::Create) == Err(Error::NoSpace));
        }
        let operations = core.io.volume().operations - before;
        assert!(
            refused > 50 && operations < 4 * 100,
            "{shape:?}: {refused} refused, {operations} operations"
        );
    }
}

/// Sets the limits so low that each is reached. Space may run out earlier; everything else is
/// equal.
#[test]
fn small_limits_lose_nothing() {
    for (number, (shape, count)) in SHAPES.into_iter().zip([1, 2, 3, 8, 1, 2]).enumerate() {
        let mut core = fresh(shape);
        core.set_limits(Limits::all(count));
        let mut model = Model::new(200 + number as u64);
        (model.files, model.blocks) = (400, 100);
        let (mut short, when) = (0, format!("{shape:?}, limits of {count}"));
        for _ in 0..1200 {
            match model.step(&mut core) {
                Ok(()) => {}
                Err(Error::NoSpace) => short += 1,
                Err(error) => panic!("{when}: {error}"),
            }
        }
        assert_holds(&mut core, &model, &when);
        assert_consistent(&mut core, &when);
        while !model.state.names.is_empty() {
            model.run(&mut core, Operation::Unlink).unwrap();
            model.run(&mut core, Operation::Close).unwrap();
        }
        assert_holds(&mut core, &model, &format!("{when}, emptied"));
        assert_consistent(&mut core, &format!("{when}, emptied"));
        for _ in 0..100 {
            model.run(&mut core, Operation::Create).unwrap();
            model.run(&mut core, Operation::Write).unwrap();
        }
        assert!(short < 1200, "{when}");
    }
}
