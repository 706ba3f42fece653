//! Tests of the tree's shape: order, splits as in Linux, sizes.

use super::super::tree::NodeId;
use super::*;

/// A node in memory, with its level, keys and children.
struct Seen {
    level: u16,
    keys: Vec<Key>,
}

impl Bench {
    /// Checks order, levels and dirty flags of all nodes in memory, and their total size. Returns the nodes from left
    /// to right, parents first.
    fn check_shape(&mut self) -> Vec<Seen> {
        self.all_leaves();
        let mut seen = Vec::new();
        let mut dirty = (0, 0);
        if let Some(root) = self.tnc.root.and_then(|root| root.child) {
            self.check_node(root, None, None, &mut seen, &mut dirty);
        }
        assert_eq!(dirty, (self.tnc.dirty_nodes(), self.tnc.arena.dirty_bytes()), "changed nodes");
        let bytes: u64 = seen.iter().map(|seen| bytes(seen.keys.len())).sum();
        assert_eq!(self.tnc.index_bytes(), bytes, "bytes of the index");
        seen
    }

    fn check_node(
        &self,
        id: NodeId,
        lower: Option<Key>,
        upper: Option<Key>,
        seen: &mut Vec<Seen>,
        dirty: &mut (usize, u64),
    ) {
        let node = self.tnc.arena.node(id);
        let keys: Vec<Key> = node.zbranches.iter().map(|zbranch| zbranch.key).collect();
        assert!(!keys.is_empty() && keys.len() <= self.io.layout().limits.fanout as usize);
        assert!(keys.is_sorted(), "{keys:?}");
        assert!(lower.is_none_or(|lower| lower <= keys[0]), "{lower:?} above {keys:?}");
        assert!(upper.is_none_or(|upper| keys[keys.len() - 1] <= upper), "{keys:?} below {upper:?}");
        if node.dirty {
            *dirty = (dirty.0 + 1, dirty.1 + bytes(keys.len()));
        }
        seen.push(Seen { level: node.level, keys: keys.clone() });
        for (slot, zbranch) in node.zbranches.iter().enumerate() {
            let Some(child) = zbranch.child else {
                assert_eq!(node.level, 0, "everything was loaded");
                continue;
            };
            let below = self.tnc.arena.node(child);
            assert_eq!(below.level + 1, node.level);
            assert!(node.dirty || !below.dirty, "a clean node above a changed one");
            assert_eq!(below.dirty, zbranch.place.len == 0, "a changed node has no place");
            let bound = keys.get(slot + 1).copied().or(upper);
            self.check_node(child, Some(keys[slot]), bound, seen, dirty);
        }
    }
}

fn bytes(children: usize) -> u64 {
    (28 + 20 * children as u64).next_multiple_of(8)
}

/// Number of keys in each node of level 0.
fn fill(seen: &[Seen]) -> Vec<usize> {
    seen.iter().filter(|seen| seen.level == 0).map(|seen| seen.keys.len()).collect()
}

pub(super) fn check(bench: &mut Bench) {
    bench.check_shape();
}

#[test]
fn blocks_in_order_fill_their_nodes() {
    let mut bench = Bench::new(USUAL);
    bench.insert(Key::inode(65));
    for block in 0..200 {
        bench.insert(data(65, block));
    }
    let seen = bench.check_shape();
    let fill = fill(&seen);
    assert!(fill[..fill.len() - 1].iter().all(|&keys| keys == 8), "{fill:?}");
    assert_eq!(seen[0].level, 2);
}

#[test]
fn blocks_in_order_fill_their_nodes_with_another_file_behind() {
    let mut bench = Bench::new(USUAL);
    for block in 0..20 {
        bench.insert(data(70, block));
    }
    for block in 0..160 {
        bench.insert(data(65, block));
    }
    let fill = fill(&bench.check_shape());
    // As in Linux, the nodes of one file are full. The node with keys of both files is split between the files.
    assert!(fill.iter().filter(|&&keys| keys == 8).count() >= 19, "{fill:?}");
}

#[test]
fn other_keys_in_order_leave_nodes_half_full() {
    let mut bench = Bench::new(USUAL);
    for inode in 64..264 {
        bench.insert(Key::inode(inode));
    }
    let fill = fill(&bench.check_shape());
    assert!(fill[..fill.len() - 1].iter().all(|&keys| keys == 4), "{fill:?}");
}

#[test]
fn an_odd_fanout_and_lower_keys() {
    for fanout in 3..9 {
        let mut bench = Bench::new(Setup { fanout, ..USUAL });
        for inode in (0..300).rev() {
            bench.insert(Key::inode(inode));
            bench.check_shape();
        }
        assert_eq!(bench.all_leaves().len(), 300);
    }
}

#[test]
fn the_last_key_leaves_an_empty_tree() {
    let mut bench = Bench::new(USUAL);
    for inode in 0..50 {
        bench.insert(Key::inode(inode));
    }
    for inode in 0..50 {
        let Bench { io, space, tnc, .. } = &mut bench;
        tnc.remove_range(io, space, Key::inode((inode * 7) % 50), Key::inode((inode * 7) % 50)).unwrap();
        bench.check_shape();
    }
    assert!(bench.all_leaves().is_empty());
    assert_eq!((bench.tnc.index_bytes(), bench.tnc.dirty_nodes()), (0, 0));
    assert!(bench.commit().is_err());
    bench.insert(Key::inode(1));
    assert!(bench.commit().is_ok());
}

#[test]
fn leaves_come_in_portions() {
    let mut bench = Bench::new(USUAL);
    let places: Vec<_> = (0..100).map(|block| (data(70, block), bench.insert(data(70, block)))).collect();
    for from in [0, 1, 7, 8, 50, 99] {
        for max in [0, 1, 7, 8, 9, 64, 1000] {
            for to in [0, 8, 60, 99, 100, 1000] {
                let mut out = vec![(Key::inode(1), NodePos::default())];
                let Bench { io, tnc, .. } = &mut bench;
                tnc.leaves(io, data(70, from), data(70, to), max, &mut out).unwrap();
                let wanted = places.iter().filter(|(key, _)| (from..=to).contains(&key.block())).take(max);
                assert!(out[1..].iter().eq(wanted), "{from}..={to}, {max}");
            }
        }
    }
}

#[test]
fn copies_go_their_own_ways() {
    let mut bench = Bench::new(USUAL);
    for block in 0..100 {
        bench.insert(data(70, block));
    }
    let mut copy = bench.clone();
    let before = bench.all_leaves();
    let Bench { io, space, tnc, .. } = &mut copy;
    tnc.remove_range(io, space, data(70, 10), data(70, 80)).unwrap();
    assert_eq!(copy.all_leaves().len(), 29);
    assert_eq!(bench.all_leaves(), before);
    bench.check_shape();
    copy.check_shape();
}

#[test]
fn a_new_index_is_packed_as_mkfs_does() {
    for keys in [1u32, 2, 7, 8, 9, 63, 64, 65, 512, 513, 1000] {
        let mut bench = Bench::new(USUAL);
        let mut random = Random::new(u64::from(keys));
        while bench.all_leaves().len() < keys as usize {
            bench.insert(Key::inode(random.small(5000)));
        }
        let leaves = bench.all_leaves();
        bench.tnc.pack(8);
        assert_eq!(bench.all_leaves(), leaves);
        let fill = fill(&bench.check_shape());
        assert!(fill[..fill.len() - 1].iter().all(|&keys| keys == 8), "{fill:?}");
        let root = bench.commit().unwrap();
        assert_eq!(bench.reopened(root).all_leaves(), leaves);
        // A committed node does not change.
        bench.insert(Key::inode(6000));
        let bytes = bench.tnc.index_bytes();
        bench.tnc.pack(3);
        assert_eq!(bench.tnc.index_bytes(), bytes);
    }
}
