//! Tests with random operations against a sorted map.

use std::collections::BTreeMap;

use super::*;

type Model = BTreeMap<(Key, Vec<u8>), NodePos>;

const INODES: u32 = 6;

/// A random key that is not hashed, from a small set.
fn plain_key(random: &mut Random) -> Key {
    let inode = 64 + random.small(INODES);
    if random.below(4) == 0 { Key::inode(inode) } else { data(inode, random.small(120)) }
}

/// A random name from a small set. Many of them have the same hash.
fn name(random: &mut Random) -> Vec<u8> {
    let group = random.small(4);
    let number = random.small(40);
    format!("nam{group}{number:0width$}", width = 1 + random.small(2) as usize).into_bytes()
}

fn name_key(random: &mut Random, name: &[u8]) -> Key {
    let hash = KeyHash::Test.hash(name).unwrap();
    let inode = 64 + random.small(INODES);
    if random.below(3) == 0 { Key::xattr_entry(inode, hash) } else { Key::entry(inode, hash) }
}

fn step(bench: &mut Bench, model: &mut Model, random: &mut Random) {
    match random.below(20) {
        0..7 => {
            let key = plain_key(random);
            let place = bench.insert(key);
            model.insert((key, Vec::new()), place);
        }
        7..12 => {
            let name = name(random);
            let key = name_key(random, &name);
            let place = bench.insert_name(key, &name);
            model.insert((key, name), place);
        }
        12..14 => {
            let key = plain_key(random);
            bench.tnc.remove_range(&mut bench.io, &mut bench.space, key, key).unwrap();
            model.remove(&(key, Vec::new()));
        }
        14..17 => {
            let name = name(random);
            let key = name_key(random, &name);
            bench.tnc.remove_name(&mut bench.io, &mut bench.space, key, &name).unwrap();
            model.remove(&(key, name));
        }
        17 => {
            let inode = 64 + random.small(INODES);
            let from = random.small(120);
            let (from, to) = (data(inode, from), data(inode, from + random.small(40)));
            bench.tnc.remove_range(&mut bench.io, &mut bench.space, from, to).unwrap();
            model.retain(|(key, _), _| *key < from || *key > to);
        }
        18 if random.below(8) == 0 => {
            // The attributes of the test belong to inode 77, which has no other keys.
            let inode = 64 + random.small(INODES);
            bench.tnc.remove_inode(&mut bench.io, &mut bench.space, inode).unwrap();
            model.retain(|(key, _), _| key.inum() != inode);
        }
        _ => relocate(bench, model, random),
    }
}

/// Relocates a leaf, like the garbage collector, and a leaf that does not exist.
fn relocate(bench: &mut Bench, model: &mut Model, random: &mut Random) {
    let Some((key, name)) = model.keys().nth(random.below(1 + model.len() as u64) as usize).cloned() else {
        return;
    };
    let from = model[&(key, name.clone())];
    let to = if key.is_hashed() { bench.write_entry(key, &name, 77) } else { bench.room(from.len) };
    let Bench { io, space, tnc, .. } = bench;
    assert!(tnc.has_leaf(io, key, from.lnum, from.offset).unwrap());
    assert!(tnc.relocate(io, space, key, from, to).unwrap());
    assert!(!tnc.has_leaf(io, key, from.lnum, from.offset).unwrap());
    assert!(tnc.has_leaf(io, key, to.lnum, to.offset).unwrap());
    model.insert((key, name), to);
    let lost = bench.room(56);
    let Bench { io, space, tnc, .. } = bench;
    assert!(!tnc.relocate(io, space, key, NodePos { offset: 3, ..from }, lost).unwrap());
}

/// Checks that the index contains exactly the entries of the model, in their order.
fn compare(bench: &mut Bench, model: &Model) {
    let leaves = bench.all_leaves();
    let wanted: Vec<_> = model.iter().map(|((key, _), place)| (*key, *place)).collect();
    assert_eq!(leaves, wanted);
    let mut out = Vec::new();
    for ((key, name), place) in model {
        let found = if key.is_hashed() {
            bench.tnc.find_name(&mut bench.io, *key, name, &mut out)
        } else {
            bench.tnc.find(&mut bench.io, *key)
        };
        assert_eq!(found, Ok(Some(*place)), "{key:?} {name:?}");
    }
    compare_names(bench, model);
    shape::check(bench);
}

fn compare_names(bench: &mut Bench, model: &Model) {
    for inode in 64..64 + INODES {
        for key_type in [KeyType::Entry, KeyType::XattrEntry] {
            let of_inode = |key: Key| key.inum() == inode && key.key_type() == key_type;
            let wanted: Vec<_> = model.iter().filter(|((key, _), _)| of_inode(*key)).collect();
            let (mut at, mut out, mut count) = ((Key::lowest(inode, key_type), None), Vec::new(), 0);
            while let Some((key, place)) =
                bench.tnc.next_name(&mut bench.io, at.0, at.1.as_deref(), &mut out).unwrap()
            {
                let ((wanted_key, name), wanted_place) = wanted[count];
                assert_eq!((key, place), (*wanted_key, *wanted_place));
                at = (key, Some(name.clone()));
                count += 1;
            }
            assert_eq!(count, wanted.len());
        }
    }
}

/// Checks that the properties of index LEBs match their contents.
fn check_space(bench: &Bench, root: NodePos) {
    let mut used: BTreeMap<u32, u32> = BTreeMap::new();
    let mut fresh = bench.reopened(root);
    fresh.all_leaves();
    let root = fresh.tnc.root.unwrap();
    let mut open = vec![(root.place, root.child.unwrap())];
    let mut bytes = 0;
    while let Some((place, id)) = open.pop() {
        *used.entry(place.lnum).or_default() += place.aligned_len();
        bytes += u64::from(place.aligned_len());
        let node = fresh.tnc.arena.node(id);
        let children = node.zbranches.iter().filter_map(|zbranch| Some((zbranch.place, zbranch.child?)));
        open.extend(children);
    }
    for (lnum, leb) in bench.index_lebs() {
        let live = bench.leb_bytes() - leb.free - leb.dirty;
        assert_eq!(used.remove(&lnum).unwrap_or(0), live, "LEB {lnum}: {leb:?}");
        let bytes = &bench.io.volume().lebs[lnum as usize];
        let free = bytes.iter().rev().take_while(|&&byte| byte == 0xFF).count();
        assert!(free >= leb.free as usize, "LEB {lnum}: {free} {leb:?}");
        assert_eq!(leb.taken, lnum == bench.head.lnum, "LEB {lnum}");
    }
    assert!(used.is_empty(), "index nodes in LEBs that are not of the index: {used:?}");
    assert_eq!(bench.tnc.index_bytes(), bytes);
    assert_eq!(bench.tnc.committed_bytes, bytes);
}

/// Commits. Before LEBs are erased, both the old and the new index are complete.
fn commit(
    bench: &mut Bench,
    model: &Model,
    committed: &mut Option<(NodePos, Vec<(Key, NodePos)>)>,
) -> NodePos {
    let mut trial = bench.clone();
    let root = trial.write_index().unwrap();
    if let Some((old_root, leaves)) = committed {
        let mut old = trial.reopened(*old_root);
        assert_eq!(&old.all_leaves(), leaves, "the committed index was overwritten");
    }
    assert_eq!(bench.commit().unwrap(), root);
    assert_eq!(bench.tnc.dirty_nodes(), 0);
    *committed = Some((root, model.iter().map(|((key, _), place)| (*key, *place)).collect()));
    root
}

/// Runs the test, and returns the number of replaced LEBs.
fn run(setup: Setup, seed: u64, rounds: u32) -> usize {
    let mut random = Random::new(seed);
    let mut bench = Bench::new(setup);
    let mut model = Model::new();
    let mut committed = None;
    let root_key = Key::inode(1);
    model.insert((root_key, Vec::new()), bench.insert(root_key));
    for _ in 0..rounds {
        for _ in 0..random.below(120) {
            step(&mut bench, &mut model, &mut random);
        }
        compare(&mut bench, &model);
        let root = commit(&mut bench, &model, &mut committed);
        check_space(&bench, root);
        if random.below(2) == 0 {
            bench = bench.reopened(root);
            if random.below(2) == 0 {
                compare(&mut bench, &model);
            }
        }
    }
    compare(&mut bench, &model);
    bench.io.volume().changes
}

#[test]
fn as_a_sorted_map() {
    for seed in 0..6 {
        run(Setup { real_space: seed % 2 == 1, ..USUAL }, seed, 25);
    }
}

#[test]
fn as_a_sorted_map_with_pages_and_other_fanouts() {
    for (seed, fanout) in (100..).zip([3, 4, 5, 8, 32]) {
        run(Setup { fanout, min_io_bytes: 512, index_lebs: 40, ..USUAL }, seed, 15);
    }
}

#[test]
fn as_a_sorted_map_in_the_gaps() {
    for real_space in [false, true] {
        let setup = Setup { min_io_bytes: 64, leb_bytes: 16 * 1024, index_lebs: 4, real_space, ..USUAL };
        let changes: usize = (200..206).map(|seed| run(setup, seed, 40)).sum();
        assert!(changes > 40, "{changes} LEBs replaced");
    }
}
