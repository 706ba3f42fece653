//! Tests with index nodes that contradict each other or themselves.

use floatgate_media::ubifs::{Branch, IndexNode};

use super::*;

/// Writes an index node without any checks, at an offset in the first LEB of the index.
fn write_node(bench: &mut Bench, offset: u32, level: u16, branches: &[(Key, NodePos)]) -> NodePos {
    let mut bytes = vec![0; branches.len() * 20];
    for (&(key, place), room) in branches.iter().zip(bytes.chunks_mut(20)) {
        let NodePos { lnum, offset, len } = place;
        Branch { lnum, offset, len, key, hash: &[] }.emit(room).unwrap();
    }
    let mut out = Vec::new();
    let node = IndexNode::new(level, 0, &bytes).unwrap();
    let len = bench.io.append_node(&node, Group::None, &mut out).unwrap();
    let place = NodePos { len, ..at(bench, offset, 0) };
    bench.io.volume_mut().at(place.lnum, offset, out.len()).unwrap().copy_from_slice(&out);
    // The LEB counts as full.
    bench.space.set(place.lnum, LebSpace { index: true, ..LebSpace::default() }).unwrap();
    place
}

fn at(bench: &Bench, offset: u32, children: u32) -> NodePos {
    let lnum = bench.io.layout().limits.main.start + LEAF_LEBS;
    NodePos { lnum, offset, len: 28 + 20 * children }
}

fn leaf(bench: &Bench) -> NodePos {
    NodePos { lnum: bench.io.layout().limits.main.start, offset: 0, len: 56 }
}

/// Walks the whole tree below a root.
fn walk(bench: &Bench, root: NodePos) -> Result<usize> {
    let mut bench = bench.reopened(root);
    let (from, to) = (Key::from_bits(0), Key::from_bits(u64::MAX));
    let mut out = Vec::new();
    bench.tnc.leaves(&mut bench.io, from, to, usize::MAX, &mut out)?;
    Ok(out.len())
}

fn assert_damaged(outcome: &Result<usize>) {
    assert!(outcome.as_ref().is_err_and(Error::is_damage), "{outcome:?}");
}

#[test]
fn nodes_that_lead_to_each_other() {
    let mut bench = Bench::new(USUAL);
    let (a, b) = (at(&bench, 0, 1), at(&bench, 64, 1));
    for level in [0, 1, 2, 511, 512] {
        write_node(&mut bench, 0, level, &[(data(64, 1), b)]);
        write_node(&mut bench, 64, level, &[(data(64, 1), a)]);
        let outcome = walk(&bench, a);
        if level > 0 {
            assert_damaged(&outcome);
        }
    }
    write_node(&mut bench, 0, 513, &[(data(64, 1), b)]);
    assert_damaged(&walk(&bench, a));
}

#[test]
fn a_small_index_that_would_be_a_large_tree() {
    let mut bench = Bench::new(USUAL);
    let key = entry_key(64, b"name");
    let place = NodePos { len: 61, ..leaf(&bench) };
    let mut below = write_node(&mut bench, 0, 0, &[(key, place); 8]);
    for level in 1..100 {
        below = write_node(&mut bench, u32::from(level) * 192, level, &[(key, below); 8]);
    }
    assert_damaged(&walk(&bench, below));
    let mut hostile = bench.reopened(below);
    let mut out = Vec::new();
    assert!(hostile.tnc.next_name(&mut hostile.io, key, Some(b"name"), &mut out).is_err());
    assert!(hostile.io.volume().reads < 1000);
}

#[test]
fn a_long_way_down_is_possible() {
    let mut bench = Bench::new(USUAL);
    let mut below = leaf(&bench);
    for level in 0..=512 {
        below = write_node(&mut bench, u32::from(level) * 48, level, &[(data(64, 1), below)]);
    }
    assert_eq!(walk(&bench, below), Ok(1));
    // Any change shortens the tree.
    let mut deep = bench.reopened(below);
    for block in 2..100 {
        deep.insert(data(64, block));
    }
    deep.tnc.remove_range(&mut deep.io, &mut deep.space.clone(), data(64, 3), data(64, 99)).unwrap();
    assert_eq!(deep.all_leaves().len(), 2);
}

#[test]
fn keys_outside_those_of_the_parent() {
    let mut bench = Bench::new(USUAL);
    let leaf = leaf(&bench);
    let keys = |blocks: &[u32]| blocks.iter().map(|&block| (data(64, block), leaf)).collect::<Vec<_>>();
    for (left, good) in [(&[5, 7][..], true), (&[5, 9], true), (&[4, 7], false), (&[5, 10], false)] {
        let left = write_node(&mut bench, 0, 0, &keys(left));
        let right = write_node(&mut bench, 200, 0, &keys(&[11, 14]));
        let root = write_node(&mut bench, 400, 1, &[(data(64, 5), left), (data(64, 10), right)]);
        let outcome = walk(&bench, root);
        if good { assert_eq!(outcome, Ok(4)) } else { assert_damaged(&outcome) }
    }
}

#[test]
fn places_that_cannot_be() {
    let mut bench = Bench::new(USUAL);
    let good = leaf(&bench);
    let leb_bytes = bench.leb_bytes();
    let lebs = bench.io.layout().limits.leb_count;
    let bad = [
        NodePos { lnum: 1, ..good },
        NodePos { lnum: lebs, ..good },
        NodePos { offset: 4, ..good },
        NodePos { offset: leb_bytes, ..good },
        NodePos { offset: u32::MAX - 7, ..good },
        NodePos { len: 0, ..good },
        NodePos { len: u32::MAX, ..good },
    ];
    for place in bad {
        for level in [0, 1] {
            let root = write_node(&mut bench, 0, level, &[(data(64, 1), place)]);
            assert_damaged(&walk(&bench, root));
        }
        assert_damaged(&walk(&bench, place));
    }
}

#[test]
fn any_byte_of_a_real_index_may_be_wrong() {
    let mut bench = Bench::new(Setup { fanout: 3, ..USUAL });
    for inode in 64..80 {
        bench.insert(Key::inode(inode));
        bench.insert_name(entry_key(inode, b"name"), b"name");
    }
    let root = bench.commit().unwrap();
    let lnum = bench.head.lnum;
    for offset in 0..bench.head.offset {
        let mut damaged = bench.clone();
        damaged.io.volume_mut().at(lnum, offset, 1).unwrap()[0] ^= 0x40;
        let outcome = walk(&damaged, root);
        assert!(outcome == Ok(32) || outcome.as_ref().is_err_and(Error::is_damage), "{outcome:?}");
    }
}

#[test]
fn garbage_collection_of_forged_nodes() {
    let mut bench = Bench::new(USUAL);
    for inode in 64..200 {
        bench.insert(Key::inode(inode));
    }
    bench.commit().unwrap();
    let lnum = bench.head.lnum;
    for level in [0, 1, 2, 3, 512, u16::MAX] {
        for key in [Key::from_bits(0), Key::inode(100), Key::from_bits(u64::MAX)] {
            let Bench { io, space, tnc, .. } = &mut bench;
            assert_eq!(tnc.dirty_index_node(io, space, key, level, lnum, 20000), Ok(false));
        }
    }
    assert_eq!(bench.tnc.dirty_nodes(), 0);
}

#[test]
fn every_node_of_a_leb_can_be_moved_away() {
    let mut bench = Bench::new(USUAL);
    let names: Vec<_> = (0..60).map(|number| format!("same{number}").into_bytes()).collect();
    for name in &names {
        bench.insert_name(entry_key(64, name), name);
        bench.insert(Key::inode(bench.leaf.offset));
    }
    bench.commit().unwrap();
    // Branches now have lower keys than the nodes below them.
    for name in names.iter().step_by(3) {
        bench.tnc.remove_name(&mut bench.io, &mut bench.space, entry_key(64, name), name).unwrap();
    }
    let root = bench.commit().unwrap();
    let wanted = bench.all_leaves();
    let mut fresh = bench.reopened(root);
    fresh.all_leaves();
    let nodes: Vec<_> = index_nodes(&fresh);
    let mut space = fresh.space.clone();
    for &(key, level, place) in &nodes {
        let Bench { io, tnc, .. } = &mut fresh;
        let was_clean = tnc.dirty_nodes();
        let found = tnc.dirty_index_node(io, &mut space, key, level, place.lnum, place.offset);
        // The nodes above a moved node are already dirty.
        assert_eq!(found.unwrap(), tnc.dirty_nodes() > was_clean);
    }
    assert_eq!(fresh.tnc.dirty_nodes(), nodes.len());
    fresh.space = space;
    fresh.commit().unwrap();
    assert_eq!(fresh.all_leaves(), wanted);
}

/// First key, level and position of all index nodes in memory.
pub(super) fn index_nodes(bench: &Bench) -> Vec<(Key, u16, NodePos)> {
    let root = bench.tnc.root.unwrap();
    let mut open = vec![(root.place, root.child.unwrap())];
    let mut all = Vec::new();
    while let Some((place, id)) = open.pop() {
        let node = bench.tnc.arena.node(id);
        all.push((node.zbranches[0].key, node.level, place));
        open.extend(node.zbranches.iter().filter_map(|zbranch| Some((zbranch.place, zbranch.child?))));
    }
    all
}

#[test]
fn what_a_damaged_index_still_leads_to() {
    let mut bench = Bench::new(Setup { fanout: 3, ..USUAL });
    for inode in 64..120 {
        bench.insert(Key::inode(inode));
    }
    let root = bench.commit().unwrap();
    let whole = bench.all_leaves();
    let nodes = index_nodes(&bench);
    for &(first, _, damaged) in &nodes {
        let mut bench = bench.reopened(root);
        bench.io.volume_mut().at(damaged.lnum, damaged.offset + 30, 1).unwrap()[0] ^= 1;
        for (from, to) in [(0, 1000), (70, 100), (64, 64), (119, 119), (90, 80)] {
            let (from, to) = (Key::inode(from), Key::inode(to));
            let (mut out, mut lost) = (Vec::new(), Vec::new());
            bench.tnc.salvage(&mut bench.io, from, to, &mut out, &mut lost).unwrap();
            let is_lost = |key: Key| {
                lost.iter().any(|lost| lost.from <= key && lost.to.is_none_or(|upper| key < upper))
            };
            let within = whole.iter().copied().filter(|(key, _)| (from..=to).contains(key));
            let wanted: Vec<_> = within.filter(|&(key, _)| !is_lost(key)).collect();
            assert_eq!(out, wanted);
            assert!(lost.len() <= 1 && lost.iter().all(|lost| lost.error.is_damage()));
            assert!(lost.len() == 1 || !(from..=to).contains(&first), "{first:?} is lost in silence");
        }
    }
    let (mut out, mut lost) = (Vec::new(), Vec::new());
    bench.tnc.salvage(&mut bench.io, Key::from_bits(0), Key::inode(1000), &mut out, &mut lost).unwrap();
    assert_eq!((out, lost), (whole, Vec::new()));
}
