//! Tests of power cuts during a commit, of read failures, and of index nodes with arbitrary
//! contents.

use super::*;

const SMALL: Setup = Setup { fanout: 3, min_io_bytes: 64, leb_bytes: 16 * 1024, index_lebs: 4, ..USUAL };

/// Creates a committed filesystem with uncommitted changes. Returns it with the root and the leaves
/// of the committed index.
fn changed(setup: Setup, seed: u64, keys: u32, changes: u32) -> (Bench, NodePos, Vec<(Key, NodePos)>) {
    let mut bench = Bench::new(setup);
    let mut random = Random::new(seed);
    for inode in 0..keys {
        bench.insert(Key::inode(64 + inode * 2));
    }
    for _ in 0..20 {
        bench.commit().unwrap();
        change(&mut bench, &mut random, keys, changes);
    }
    let root = bench.commit().unwrap();
    let leaves = bench.all_leaves();
    change(&mut bench, &mut random, keys, changes);
    (bench, root, leaves)
}

fn change(bench: &mut Bench, random: &mut Random, keys: u32, changes: u32) {
    for _ in 0..changes {
        let key = Key::inode(64 + random.small(keys * 2));
        if random.below(2) == 0 {
            bench.insert(key);
        } else {
            bench.tnc.remove_range(&mut bench.io, &mut bench.space, key, key).unwrap();
        }
    }
}

/// Cuts power at every unit that a commit writes. Returns the number of LEBs that the commit
/// replaces.
fn cut_everywhere(bench: &Bench, root: NodePos, leaves: &[(Key, NodePos)]) -> usize {
    let wanted = bench.clone().all_leaves();
    for cut in 0.. {
        let mut trial = bench.clone();
        trial.io.volume_mut().power = Some(cut);
        let outcome = trial.write_index();
        assert_eq!(trial.reopened(root).all_leaves(), leaves, "cut {cut}");
        match outcome {
            Err(error) => assert!(error.is_power_loss() && trial.io.is_read_only(), "{error}"),
            Ok(new) => {
                assert_eq!(trial.reopened(new).all_leaves(), wanted);
                return trial.io.volume().changes - bench.io.volume().changes;
            }
        }
    }
    unreachable!()
}

#[test]
fn power_lost_in_a_commit_leaves_the_old_index() {
    let mut replaced = 0;
    for (seed, keys, changes) in [(1, 20, 20), (2, 300, 10), (3, 300, 10), (4, 330, 20)] {
        let setup = Setup { real_space: seed % 2 == 0, ..SMALL };
        let (mut bench, mut root, mut leaves) = changed(setup, seed, keys, changes);
        let mut random = Random::new(seed + 100);
        for _ in 0..12 {
            replaced += cut_everywhere(&bench, root, &leaves);
            root = bench.commit().unwrap();
            leaves = bench.all_leaves();
            change(&mut bench, &mut random, keys, changes);
        }
    }
    assert!(replaced > 10, "{replaced} LEBs replaced");
}

#[test]
fn no_space_leaves_the_old_index() {
    let setup = Setup { index_lebs: 1, ..SMALL };
    let (mut bench, root, leaves) = changed(setup, 7, 20, 2);
    let mut failed = None;
    for inode in 0..2000 {
        bench.insert(Key::inode(5000 + inode));
        let mut trial = bench.clone();
        if let Err(error) = trial.commit() {
            failed = Some((error, trial));
            break;
        }
    }
    let (error, trial) = failed.expect("one LEB is too few");
    assert_eq!(error, Error::NoSpace);
    assert_eq!(trial.reopened(root).all_leaves(), leaves);
}

#[test]
fn a_read_that_fails_may_succeed_later() {
    let (mut bench, ..) = changed(Setup { index_lebs: 20, ..SMALL }, 9, 200, 50);
    let root = bench.commit().unwrap();
    let wanted = bench.all_leaves();
    for fail in 0..60 {
        let mut fresh = bench.reopened(root);
        fresh.io.volume_mut().bad_read = Some(fresh.io.volume().reads + fail);
        for &(key, place) in wanted.iter().step_by(5) {
            let Bench { io, space, tnc, .. } = &mut fresh;
            while tnc.insert(io, space, key, place).is_err() {}
            let found = loop {
                if let Ok(found) = tnc.find(io, key) {
                    break found;
                }
            };
            assert_eq!(found, Some(place));
        }
        assert_eq!(fresh.all_leaves(), wanted);
        shape::check(&mut fresh);
    }
}

/// Changes bytes of index nodes, corrects their CRCs, and runs all operations.
#[test]
fn forged_index_nodes_do_no_harm() {
    let (bench, nodes, root) = forgeable();
    let mut outcomes = [0, 0];
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let mut forged = bench.reopened(root);
        for _ in 0..=random.below(3) {
            let place = nodes[random.below(nodes.len() as u64) as usize];
            forge(&mut forged, place, &mut random);
        }
        let good = try_everything(&mut forged, &mut random);
        outcomes[usize::from(good)] += 1;
    }
    assert!(outcomes.iter().all(|&count| count > 100), "{outcomes:?}");
}

fn forgeable() -> (Bench, Vec<NodePos>, NodePos) {
    let mut bench = Bench::new(Setup { fanout: 4, min_io_bytes: 8, ..SMALL });
    for number in 0..40 {
        bench.insert(Key::inode(64 + number % 10));
        bench.insert(data(64 + number % 7, number));
        let name = format!("same{number}").into_bytes();
        bench.insert_name(entry_key(64, &name), &name);
        bench.insert_name(Key::xattr_entry(65, number % 4), b"name");
    }
    let root = bench.commit().unwrap();
    let mut all = bench.reopened(root);
    all.all_leaves();
    let nodes = hostile::index_nodes(&all).into_iter().map(|(_, _, place)| place).collect();
    (bench, nodes, root)
}

/// Overwrites a word of an index node, often with a small number or another word of the node.
fn forge(bench: &mut Bench, place: NodePos, random: &mut Random) {
    let NodePos { lnum, offset, len } = place;
    let words = u64::from(len) / 4;
    let at = 24 + random.below(words - 6) as usize * 4;
    let from = 24 + random.below(words - 6) as usize * 4;
    let node = bench.io.volume_mut().at(lnum, offset, len as usize).unwrap();
    match random.below(4) {
        0 => node.copy_within(from..from + 4, at),
        1 => node[at] = node[at].wrapping_add(random.below(17) as u8).wrapping_sub(8),
        2 => node[at + random.below(4) as usize] ^= 1 << random.below(8),
        _ => node[at..at + 4].copy_from_slice(&(random.below(1 << 20) as u32).to_le_bytes()),
    }
    let crc = !crc32fast::hash(&node[8..]);
    node[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Runs all operations; true if all succeeded. A failure must be caused by damage or lack of space.
fn try_everything(bench: &mut Bench, random: &mut Random) -> bool {
    let mut good = true;
    let mut note = |outcome: Result<()>| {
        good &= outcome.is_ok();
        let Err(error) = outcome else { return };
        assert!(error.is_damage() || matches!(error, Error::NoSpace | Error::Invalid(_)), "{error}");
    };
    let (lowest, highest) = (Key::from_bits(0), Key::from_bits(u64::MAX));
    let mut out = Vec::new();
    note(bench.tnc.leaves(&mut bench.io, lowest, highest, usize::MAX, &mut out));
    assert!(out.len() < 10_000);
    let (mut found, mut lost) = (Vec::new(), Vec::new());
    bench.tnc.salvage(&mut bench.io, lowest, highest, &mut found, &mut lost).unwrap();
    assert!(!lost.is_empty() || found == out, "salvaged {} of {}", found.len(), out.len());
    note(list(bench));
    for _ in 0..20 {
        let inode = 64 + random.small(8);
        let place = bench.room(56);
        let Bench { io, space, tnc, .. } = bench;
        let key = if random.below(2) == 0 { Key::inode(inode) } else { data(inode, random.small(40)) };
        let name = format!("same{}", random.below(50)).into_bytes();
        note(match random.below(8) {
            0 | 1 => tnc.insert(io, space, key, place),
            2 => tnc.remove_range(io, space, key, key),
            3 => tnc.remove_range(io, space, key, Key::from_bits(key.bits() + 20)),
            4 => tnc.remove_inode(io, space, inode),
            5 => tnc.remove_name(io, space, entry_key(64, &name), &name),
            6 => tnc.find_name(io, entry_key(64, &name), &name, &mut Vec::new()).map(drop),
            _ => tnc.dirty_index_node(io, space, key, random.small(4) as u16, 20, 0).map(drop),
        });
    }
    note(bench.commit().map(drop));
    good
}

fn list(bench: &mut Bench) -> Result<()> {
    let mut out = Vec::new();
    let mut at = (Key::lowest(64, KeyType::Entry), None);
    let mut count = 0;
    while let Some((key, _)) = bench.tnc.next_name(&mut bench.io, at.0, at.1.as_deref(), &mut out)? {
        let len = usize::from(u16::from_le_bytes([out[50], out[51]]));
        at = (key, Some(out[56..56 + len].to_vec()));
        count += 1;
        assert!(count < 1000, "a listing without end");
    }
    Ok(())
}
