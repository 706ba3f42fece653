//! Tests that the consistency check finds contradictions.

use super::super::check::Inconsistency;
use super::super::error::Error;
use super::super::space::LebSpace;
use super::model::Model;
use super::*;
use floatgate_media::ubifs::Key;

/// Creates a committed filesystem with some files. Returns it with the LEB and offset of an inode.
fn filesystem() -> (Core<TestVolume>, u32, u32) {
    let mut core = fresh(SHAPES[0]);
    let mut model = Model::new(3);
    for _ in 0..200 {
        model.step(&mut core).unwrap();
    }
    core.commit().unwrap();
    let number = *model.state.names.values().next().unwrap();
    let place = core.tnc.find(&mut core.io, Key::inode(number)).unwrap().unwrap();
    assert_consistent(&mut core, "before");
    (core, place.lnum, place.offset)
}

#[test]
fn wrong_properties_are_found() {
    let (core, lnum, _) = filesystem();
    let known = core.space.get(lnum).unwrap();
    let index = core.space.lebs().find(|(_, leb)| leb.index).unwrap().0;
    let changes: [(u32, LebSpace); 4] = [
        (lnum, LebSpace { dirty: known.dirty + 8, free: known.free.saturating_sub(8), ..known }),
        (lnum, LebSpace { dirty: known.dirty - 8, ..known }),
        (lnum, LebSpace { index: true, ..known }),
        (index, LebSpace { index: false, ..core.space.get(index).unwrap() }),
    ];
    for (at, space) in changes {
        let mut core = core.clone();
        core.space.set(at, space).unwrap();
        let found = core.check().unwrap();
        let there = |one: &Inconsistency| matches!(one, Inconsistency::Space { lnum, .. } | Inconsistency::Leb { lnum, .. } if *lnum == at);
        assert!(found.iter().any(there), "{space:?}: {found:?}");
    }
}

#[test]
fn a_damaged_node_is_found() {
    let (mut core, lnum, offset) = filesystem();
    core.io.volume_mut().damage(lnum, offset + 100, 1);
    let found = core.check().unwrap();
    let node = |one: &Inconsistency| match one {
        Inconsistency::Node { error: Error::Node { lnum: at, offset: byte, .. }, .. } => {
            (*at, *byte) == (lnum, offset)
        }
        _ => false,
    };
    assert!(found.iter().any(node), "{found:?}");
}

#[test]
fn heads_outside_the_journal_are_found() {
    let (mut core, lnum, _) = filesystem();
    core.space.set_taken(lnum, false).unwrap();
    core.io.park_head(Head::Base);
    core.io.seek_head(Head::Base, lnum, 512);
    let found = core.check().unwrap();
    assert!(found.iter().any(|one| matches!(one, Inconsistency::Leb { .. })), "{found:?}");
    let gc_lnum = core.gc_lnum.unwrap();
    core.space.set_taken(gc_lnum, false).unwrap();
    assert!(core.check().unwrap().len() > found.len());
}
