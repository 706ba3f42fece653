//! Tests of replay over an index whose entries may be deleted or moved, and overwritten since.

use std::collections::BTreeMap;

use super::*;
use crate::ubifs::io::DynIo;

type Name = (Key, Vec<u8>);

/// An operation in the journal.
#[derive(Clone, Debug)]
enum Op {
    Insert(Name, NodePos),
    Remove(Name),
}

/// Counts dirty bytes by LEB.
#[derive(Default)]
struct Dirt(BTreeMap<u32, u32>);

impl IndexSpace for Dirt {
    fn add_dirt(&mut self, lnum: u32, bytes: u32) -> Result<()> {
        *self.0.entry(lnum).or_default() += align8(bytes);
        Ok(())
    }
    fn get(&self, _lnum: u32) -> Result<LebSpace> {
        Ok(LebSpace::default())
    }
    fn set(&mut self, _lnum: u32, _leb: LebSpace) -> Result<()> {
        Ok(())
    }
    fn find_free_for_index(&mut self, _io: &mut DynIo<'_>) -> Result<Option<u32>> {
        Ok(None)
    }
    fn find_dirty_index(&mut self) -> Result<Option<u32>> {
        Ok(None)
    }
}

/// A filesystem of names only. Its committed entries are in two LEBs, which are collected one after the
/// other.
struct Story {
    bench: Bench,
    random: Random,
    names: BTreeMap<Name, NodePos>,
    /// Moved entries are replayed first, because they keep their sequence numbers.
    moved: Vec<Op>,
    journal: Vec<Op>,
    /// Positions of the next moved entry and of the next new entry.
    heads: [NodePos; 2],
    buds: BTreeMap<u32, u32>,
    /// LEBs of the committed index that were not collected yet.
    old: Vec<u32>,
    /// Bytes of entries in each LEB, live or obsolete.
    written: BTreeMap<u32, u32>,
}

impl Story {
    /// Creates a filesystem with committed names, and returns its root, too.
    fn new(seed: u64) -> (Self, NodePos) {
        let bench = Bench::new(USUAL);
        let first = bench.leaf.lnum;
        let heads = [first, first + 1].map(|lnum| NodePos { lnum, offset: 0, len: 0 });
        let old = vec![first, first + 1];
        let (names, moved, journal, buds, written) = Default::default();
        let random = Random::new(seed);
        let mut story = Self { bench, random, names, moved, journal, heads, buds, old, written };
        for _ in 0..story.random.below(60) {
            let head = usize::from(story.random.below(2) == 0);
            story.create(head);
        }
        let root = story.commit();
        (story, root)
    }

    fn commit(&mut self) -> NodePos {
        // The position is an inode in another LEB.
        let place = NodePos { lnum: self.heads[1].lnum + 3, offset: 0, len: 160 };
        let Bench { io, tnc, .. } = &mut self.bench;
        tnc.insert(io, &mut Dirt::default(), Key::inode(1), place).unwrap();
        let committed = core::mem::take(&mut self.journal);
        apply(&mut self.bench, &mut Dirt::default(), committed);
        let root = self.bench.commit().unwrap();
        for (head, lnum) in self.heads.iter_mut().zip(self.old[1] + 1..) {
            *head = NodePos { lnum, offset: 0, len: 0 };
            self.buds.insert(lnum, 0);
        }
        self.written.clear();
        for place in self.names.values() {
            *self.written.entry(place.lnum).or_default() += place.aligned_len();
        }
        root
    }

    fn name(&mut self) -> Name {
        // All names have the same length, so that a new entry can have exactly the position of an old one.
        let name = format!("same{:02}", self.random.below(20)).into_bytes();
        (entry_key(64 + self.random.small(2), &name), name)
    }

    fn write(&mut self, head: usize, name: &Name) -> NodePos {
        let entry = Entry { key: name.0, inode: 77, file_type: FileType::Regular, ..Entry::default() };
        let mut bytes = Vec::new();
        let io = &mut self.bench.io;
        let len = io.append_node(&EntryNode { entry, name: &name.1 }, Group::None, &mut bytes).unwrap();
        let place = NodePos { len, ..self.heads[head] };
        io.volume_mut().at(place.lnum, place.offset, bytes.len()).unwrap().copy_from_slice(&bytes);
        self.heads[head].offset += align8(len);
        *self.written.entry(place.lnum).or_default() += align8(len);
        place
    }

    fn create(&mut self, head: usize) {
        let name = self.name();
        let place = self.write(head, &name);
        self.names.insert(name.clone(), place);
        self.journal.push(Op::Insert(name, place));
    }

    fn delete(&mut self) {
        let name = self.name();
        if self.names.remove(&name).is_some() {
            self.journal.push(Op::Remove(name));
        }
    }

    /// Collects a LEB of the committed index. The LEB then receives new entries, or stays empty.
    fn collect(&mut self) {
        let Some(lnum) = self.old.pop() else { return };
        let live: Vec<_> = self.names.iter().filter(|(_, place)| place.lnum == lnum).collect();
        let live: Vec<_> = live.into_iter().map(|(name, _)| name.clone()).collect();
        for name in live {
            let place = self.write(0, &name);
            self.names.insert(name.clone(), place);
            self.moved.push(Op::Insert(name, place));
        }
        self.bench.io.volume_mut().unmap(lnum).unwrap();
        if self.random.below(3) > 0 {
            let head = usize::from(self.random.below(3) > 0);
            self.heads[head] = NodePos { lnum, offset: 0, len: 0 };
            self.buds.insert(lnum, 0);
        }
    }
}

fn apply(bench: &mut Bench, space: &mut Dirt, ops: Vec<Op>) {
    let Bench { io, tnc, .. } = bench;
    for op in ops {
        match op {
            Op::Insert((key, name), place) => tnc.insert_name(io, space, key, &name, place).unwrap(),
            Op::Remove((key, name)) => tnc.remove_name(io, space, key, &name).unwrap(),
        }
    }
}

fn check(story: &mut Story, dirt: &Dirt, seed: u64) {
    let bench = &mut story.bench;
    let leaves: Vec<_> = bench.all_leaves().into_iter().skip(1).collect();
    let wanted: Vec<_> = story.names.iter().map(|((key, _), place)| (*key, *place)).collect();
    assert_eq!(leaves, wanted, "seed {seed}");
    let mut out = Vec::new();
    for ((key, name), place) in &story.names {
        assert_eq!(bench.tnc.find_name(&mut bench.io, *key, name, &mut out), Ok(Some(*place)));
    }
    for (&lnum, &written) in &story.written {
        let used = story.names.values().filter(|place| place.lnum == lnum).map(|place| place.aligned_len());
        assert_eq!(dirt.0.get(&lnum).copied().unwrap_or(0), written - used.sum::<u32>(), "LEB {lnum}");
    }
}

#[test]
fn the_journal_brings_back_what_was_there() {
    let mut overwritten = 0;
    for seed in 0..600 {
        let (mut story, root) = Story::new(seed);
        for _ in 0..story.random.below(60) {
            match story.random.below(12) {
                0..7 => story.create(1),
                7..11 => story.delete(),
                _ => story.collect(),
            }
        }
        story.bench = story.bench.reopened(root);
        story.bench.tnc.start_replay(story.buds.clone());
        let mut dirt = Dirt::default();
        let (moved, journal) = (core::mem::take(&mut story.moved), core::mem::take(&mut story.journal));
        apply(&mut story.bench, &mut dirt, moved);
        apply(&mut story.bench, &mut dirt, journal);
        assert!(!story.bench.tnc.end_replay(), "nothing is damaged, seed {seed}");
        dirt.0.retain(|lnum, _| *lnum < story.bench.io.layout().limits.main.start + LEAF_LEBS);
        check(&mut story, &dirt, seed);
        overwritten += story.buds.len() - 2;
    }
    assert!(overwritten > 300, "{overwritten}");
}
