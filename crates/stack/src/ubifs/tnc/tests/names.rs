//! Tests of names with the same hash, and of entries that are missing during replay.

use std::collections::BTreeMap;

use super::*;

/// Names with the same hash, in order.
fn colliding(count: usize) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = (0..count).map(|number| format!("same{number}").into_bytes()).collect();
    names.push(b"same".to_vec());
    names.sort();
    names
}

fn listed(bench: &mut Bench, inode: u32) -> Vec<NodePos> {
    let mut all = Vec::new();
    let mut out = Vec::new();
    let mut at = (Key::lowest(inode, KeyType::Entry), None);
    while let Some((key, place)) =
        bench.tnc.next_name(&mut bench.io, at.0, at.1.as_deref(), &mut out).unwrap()
    {
        all.push(place);
        let len = usize::from(u16::from_le_bytes([out[50], out[51]]));
        at = (key, Some(out[56..56 + len].to_vec()));
    }
    all
}

#[test]
fn many_names_with_one_hash_stand_in_order() {
    let names = colliding(300);
    let key = entry_key(64, &names[0]);
    let mut bench = Bench::new(USUAL);
    bench.insert(Key::inode(64));
    bench.insert(Key::inode(65));
    let mut random = Random::new(1);
    let mut places = vec![NodePos::default(); names.len()];
    let mut order: Vec<_> = (0..names.len()).collect();
    order.sort_by_cached_key(|_| random.bits());
    for &at in &order {
        places[at] = bench.insert_name(key, &names[at]);
    }
    shape::check(&mut bench);
    assert_eq!(listed(&mut bench, 64), places);
    for &at in order.iter().step_by(2) {
        bench.tnc.remove_name(&mut bench.io, &mut bench.space, key, &names[at]).unwrap();
        let mut out = Vec::new();
        assert_eq!(bench.tnc.find_name(&mut bench.io, key, &names[at], &mut out), Ok(None));
        places[at] = NodePos::default();
    }
    places.retain(|place| place.len > 0);
    assert_eq!(listed(&mut bench, 64), places);
}

#[test]
fn a_removed_name_is_a_place_to_go_on_from() {
    let names = colliding(20);
    let key = entry_key(64, &names[0]);
    let mut bench = Bench::new(USUAL);
    let places: Vec<_> = names.iter().map(|name| bench.insert_name(key, name)).collect();
    let mut out = Vec::new();
    for (at, name) in names.iter().enumerate() {
        bench.tnc.remove_name(&mut bench.io, &mut bench.space, key, name).unwrap();
        let next = bench.tnc.next_name(&mut bench.io, key, Some(name), &mut out).unwrap();
        assert_eq!(next.map(|(_, place)| place), places.get(at + 1).copied());
    }
}

#[test]
fn names_out_of_order_end_in_an_error() {
    let mut bench = Bench::new(USUAL);
    let key = entry_key(64, b"same");
    let [a, b] = [b"same-b", b"same-a"].map(|name| bench.write_entry(key, name, 70));
    for (name, place) in [(b"x", a), (b"y", b)] {
        // Inserts the names as if they had been in order.
        let Bench { io, space, tnc, .. } = &mut bench;
        let path = tnc.seek(io, key, super::super::Side::First, 0).unwrap().unwrap_or_default();
        tnc.dirty_path(space, &path).unwrap();
        let mut path = path;
        if name == b"y" {
            path.set_slot(1);
        }
        tnc.insert_at(8, path, super::super::Zbranch::to_place(key, place)).unwrap();
    }
    let mut out = Vec::new();
    let first = bench.tnc.next_name(&mut bench.io, key, None, &mut out).unwrap();
    assert_eq!(first, Some((key, a)));
    let second = bench.tnc.next_name(&mut bench.io, key, Some(b"same-b"), &mut out);
    assert!(matches!(second, Err(Error::Corrupt { .. })), "{second:?}");
}

#[test]
fn no_entry_dangles_but_while_replaying() {
    let names = colliding(10);
    let key = entry_key(64, &names[0]);
    let mut bench = Bench::new(USUAL);
    let places: Vec<_> = names.iter().map(|name| bench.insert_name(key, name)).collect();
    // Names 3 and 6 were deleted, and other data is at their positions now.
    for gone in [3, 6] {
        let NodePos { lnum, offset, len } = places[gone];
        bench.io.volume_mut().at(lnum, offset, len as usize).unwrap().fill(0x55);
    }
    bench.tnc.entries = super::super::EntryCache::new(8);
    let mut out = Vec::new();
    let found = bench.tnc.find_name(&mut bench.io, key, &names[3], &mut out);
    assert!(matches!(found, Err(Error::Node { .. })), "{found:?}");

    bench.tnc.start_replay(BTreeMap::new());
    for (at, name) in names.iter().enumerate() {
        let wanted = (at != 3 && at != 6).then_some(places[at]);
        assert_eq!(bench.tnc.find_name(&mut bench.io, key, name, &mut out), Ok(wanted));
    }
    // A deletion in the journal removes one dangling entry, and a new name replaces the other.
    bench.tnc.remove_name(&mut bench.io, &mut bench.space, key, &names[6]).unwrap();
    assert_eq!(bench.all_leaves().len(), names.len() - 1);
    let new = bench.insert_name(key, &names[3]);
    assert_eq!(bench.all_leaves().len(), names.len() - 1);
    assert!(bench.tnc.end_replay(), "what stands in a LEB that is not erased can be damaged entries");

    let mut wanted = places;
    wanted[3] = new;
    wanted.remove(6);
    assert_eq!(listed(&mut bench, 64), wanted);
}

#[test]
fn an_inode_goes_with_its_attributes() {
    let mut bench = Bench::new(USUAL);
    for inode in [64, 65, 66, 80, 81, 82] {
        bench.insert(Key::inode(inode));
        for block in 0..20 {
            bench.insert(data(inode, block));
        }
    }
    for (inode, name, of) in [(65, b"a", 80), (65, b"b", 82), (64, b"a", 81)] {
        let key = Key::xattr_entry(inode, KeyHash::Test.hash(name).unwrap());
        let place = bench.write_entry(key, name, of);
        bench.tnc.insert_name(&mut bench.io, &mut bench.space, key, name, place).unwrap();
    }
    bench.insert_name(entry_key(65, b"name"), b"name");
    bench.tnc.remove_inode(&mut bench.io, &mut bench.space, 65).unwrap();
    let mut left: Vec<_> = bench.all_leaves().iter().map(|(key, _)| key.inum()).collect();
    left.dedup();
    assert_eq!(left, [64, 66, 81]);
    shape::check(&mut bench);
}
