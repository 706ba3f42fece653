//! Eraseblocks: their nodes, and their live, dirty, wasted and free bytes.

use floatgate_mtd::Geometry;
use std::collections::VecDeque;

/// Minimum size of the last node of an eraseblock, with its header, bytes (Linux: `JFFS2_MIN_DATA_LEN`).
const LEAST_NODE: u32 = 128 + 68;

/// Percentage of the flash reserved when writing, and bytes reserved per eraseblock (Linux:
/// `jffs2_calc_trigger_levels`).
const RESERVED_PERCENT: u64 = 2;
const RESERVED_PER_BLOCK: u64 = 100;

/// Eraseblocks reserved when deleting.
const RESERVED_FOR_DELETION: u32 = 2;

/// Owner of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A node of this inode.
    Inode(u32),
    /// A name in this directory.
    Dirent(u32),
    /// The extended attribute of this number.
    Xattr(u32),
    /// An xref from this inode.
    Xref(u32),
}

/// A node and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawNodeRef {
    /// First byte on the flash.
    pub(super) at: u32,
    /// Length in bytes, including the padding up to the next node.
    pub(super) len: u32,
    pub(super) owner: Owner,
    /// False if a newer node replaces it.
    pub(super) live: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Erased, with its clean marker.
    Free,
    /// The open eraseblock, which receives new nodes.
    Open,
    /// Full or closed for writing.
    #[default]
    Full,
    /// Without live nodes, waiting to be erased.
    ToErase,
    Bad,
}

/// State of an eraseblock with its nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) state: State,
    /// Nodes in the order of their positions.
    pub(super) nodes: Vec<RawNodeRef>,
    /// Number of bytes written from the start.
    pub(super) end: u32,
    /// Bytes of live nodes; a damaged summary may list more than fit.
    live: u64,
    /// Wasted bytes, which belong to no node and are too few to count as dirty: ends of eraseblocks, padding.
    wasted: u32,
}

/// Bytes by their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) free: u64,
    pub(super) dirty: u64,
    pub(super) live: u64,
    /// Bytes of eraseblocks without live nodes.
    pub(super) to_erase: u64,
    /// Number of eraseblocks that are free or waiting to be erased.
    pub(super) ready: u32,
}

/// All eraseblocks, with the totals of their bytes.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pub(super) list: Vec<Block>,
    pub(super) erase_bytes: u32,
    /// Bytes of the clean marker in an eraseblock.
    pub(super) marker_bytes: u32,
    free: VecDeque<u32>,
    to_erase: VecDeque<u32>,
    pub(super) open: Option<u32>,
    /// Number of times since the mount that an eraseblock was opened.
    pub(super) opened: u64,
    /// Eraseblock to open next, once it is erased.
    first: Option<u32>,
    totals: Totals,
    /// Number of full eraseblocks that are at least half dirty.
    very_dirty: u32,
    /// Rotates the choice of eraseblocks for garbage collection.
    turn: u32,
    /// Random state that selects the list for garbage collection.
    draw: u32,
}

impl Blocks {
    pub(super) fn new(geometry: &Geometry, marker_bytes: u32) -> Self {
        let mut blocks = Self {
            list: vec![Block::default(); geometry.blocks() as usize],
            erase_bytes: geometry.erase_bytes,
            marker_bytes,
            free: VecDeque::new(),
            to_erase: VecDeque::new(),
            open: None,
            opened: 0,
            first: None,
            totals: Totals::default(),
            very_dirty: 0,
            turn: 0,
            draw: 1,
        };
        blocks.totals = blocks.sum();
        blocks.very_dirty = blocks.count_very_dirty();
        blocks
    }

    pub(super) const fn totals(&self) -> Totals {
        self.totals
    }

    /// Number of eraseblocks that writing leaves free.
    pub(super) fn reserved_for_writing(&self) -> u32 {
        let blocks = self.list.len() as u64;
        let erase = u64::from(self.erase_bytes);
        let reserve = blocks * erase * RESERVED_PERCENT / 100 + blocks * RESERVED_PER_BLOCK;
        RESERVED_FOR_DELETION + reserve.div_ceil(erase) as u32
    }

    /// Number of eraseblocks that deleting leaves free.
    pub(super) const fn reserved_for_deletion(&self) -> u32 {
        RESERVED_FOR_DELETION
    }

    /// True if so much is dirty that the garbage collector thread runs although space is not short. The criterion is
    /// the number of eraseblocks that are at least half dirty (Linux: `vdirty_blocks_gctrigger`); it is ten times as
    /// high if nodes are marked obsolete.
    pub(super) fn many_are_very_dirty(&self, marks: bool) -> bool {
        let trigger = (self.reserved_for_writing() + 1) * if marks { 10 } else { 1 };
        self.very_dirty >= trigger
    }

    /// Amount of dirty bytes below which collecting is not worthwhile (Linux: `nospc_dirty_size`).
    pub(super) fn least_dirt(&self) -> u64 {
        u64::from(self.erase_bytes) * (1 + self.list.len() as u64 / 100)
    }

    pub(super) const fn start(&self, block: u32) -> u32 {
        block * self.erase_bytes
    }

    const fn number_of(&self, at: u32) -> u32 {
        at / self.erase_bytes
    }

    pub(super) fn get(&self, block: u32) -> &Block {
        &self.list[block as usize]
    }

    fn count(&self, block: &Block) -> Totals {
        let (live, erase) = (block.live, self.erase_bytes);
        match block.state {
            State::Bad => Totals::default(),
            State::Free => Totals { free: u64::from(erase - block.end), ready: 1, ..Totals::default() },
            State::ToErase => Totals { to_erase: u64::from(erase), ready: 1, ..Totals::default() },
            State::Open => Totals {
                // A node that becomes obsolete in the open eraseblock counts as wasted until the eraseblock is full
                // (Linux: `jffs2_mark_node_obsolete`).
                free: u64::from(erase - block.end),
                live,
                ..Totals::default()
            },
            State::Full => Totals { dirty: self.dirt(block), live, ..Totals::default() },
        }
    }

    fn sum(&self) -> Totals {
        self.list.iter().map(|block| self.count(block)).fold(Totals::default(), |sum, one| Totals {
            free: sum.free + one.free,
            dirty: sum.dirty + one.dirty,
            live: sum.live + one.live,
            to_erase: sum.to_erase + one.to_erase,
            ready: sum.ready + one.ready,
        })
    }

    /// True for a full eraseblock that is at least half dirty (Linux: `VERYDIRTY`).
    fn is_very_dirty(&self, block: &Block) -> bool {
        block.state == State::Full && self.dirt(block) >= u64::from(self.erase_bytes / 2)
    }

    fn count_very_dirty(&self) -> u32 {
        self.list.iter().filter(|block| self.is_very_dirty(block)).count() as u32
    }

    fn dirt(&self, block: &Block) -> u64 {
        let written = if block.state == State::Full { self.erase_bytes } else { block.end };
        u64::from(written).saturating_sub(block.live + u64::from(block.wasted + self.marker_bytes))
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Block)) {
        let before = self.count(&self.list[number as usize]);
        self.very_dirty -= u32::from(self.is_very_dirty(&self.list[number as usize]));
        let block = &mut self.list[number as usize];
        let was = block.state;
        change(block);
        let now = block.state;
        let after = self.count(&self.list[number as usize]);
        self.very_dirty += u32::from(self.is_very_dirty(&self.list[number as usize]));
        let totals = &mut self.totals;
        totals.free = totals.free - before.free + after.free;
        totals.dirty = totals.dirty - before.dirty + after.dirty;
        totals.live = totals.live - before.live + after.live;
        totals.to_erase = totals.to_erase - before.to_erase + after.to_erase;
        totals.ready = totals.ready - before.ready + after.ready;
        if was != now {
            match now {
                State::Free => self.free.push_back(number),
                State::ToErase => self.to_erase.push_back(number),
                _ => {}
            }
        }
    }

    /// Adds a node that was found or written at the end of the data in its eraseblock.
    pub(super) fn add(&mut self, at: u32, len: u32, owner: Owner) {
        let start = self.start(self.number_of(at));
        self.change(self.number_of(at), |block| {
            block.nodes.push(RawNodeRef { at, len, owner, live: true });
            block.live += u64::from(len);
            block.end = block.end.max(at - start + len);
        });
    }

    /// Marks a node as obsolete; true if it was live.
    pub(super) fn obsolete(&mut self, at: u32) -> bool {
        let number = self.number_of(at);
        let was_live = self.is_live(at);
        self.change(number, |block| {
            let Ok(index) = block.nodes.binary_search_by_key(&at, |node| node.at) else { return };
            let node = &mut block.nodes[index];
            if std::mem::take(&mut node.live) {
                block.live -= u64::from(node.len);
            }
        });
        self.refile(number);
        was_live
    }

    /// Updates the list of a full eraseblock: one without live nodes is to be erased; in a very dirty one, wasted bytes
    /// count as dirty.
    fn refile(&mut self, number: u32) {
        let block = self.get(number);
        if block.state != State::Full {
            return;
        }
        if block.live == 0 {
            self.change(number, |block| block.state = State::ToErase);
        } else if block.wasted > 0 && self.dirt(block) + u64::from(block.wasted) > u64::from(LEAST_NODE) {
            self.change(number, |block| block.wasted = 0);
        }
    }

    /// True if a node is live.
    pub(super) fn is_live(&self, at: u32) -> bool {
        let nodes = &self.get(self.number_of(at)).nodes;
        nodes.binary_search_by_key(&at, |node| node.at).is_ok_and(|index| nodes[index].live)
    }

    /// Sets the state of an eraseblock that a mount has read.
    pub(super) fn found(&mut self, number: u32, state: State, end: u32) {
        self.list[number as usize].nodes.sort_unstable_by_key(|node| node.at);
        let erase_bytes = self.erase_bytes;
        self.change(number, |block| {
            block.end = end;
            block.state = state;
            block.wasted = if state == State::Full { erase_bytes - end } else { 0 };
        });
        self.refile(number);
    }

    /// Remaining bytes in the open eraseblock.
    pub(super) fn room(&self) -> u32 {
        self.open.map_or(0, |open| self.erase_bytes - self.get(open).end)
    }

    /// Skips bytes of the open eraseblock.
    pub(super) fn waste(&mut self, len: u32) {
        let Some(open) = self.open else { return };
        let room = self.room();
        self.change(open, |block| {
            let len = len.min(room);
            block.wasted += len;
            block.end += len;
        });
    }

    /// Closes the open eraseblock; its remaining bytes are wasted.
    pub(super) fn close(&mut self) {
        self.waste(u32::MAX);
        let Some(open) = self.open.take() else { return };
        self.change(open, |block| block.state = State::Full);
        self.refile(open);
    }

    /// Opens the next free eraseblock; false if no eraseblock is free.
    pub(super) fn open_next(&mut self) -> bool {
        let first = self.first.filter(|&first| matches!(self.get(first).state, State::Free | State::ToErase));
        if first.is_some_and(|first| self.get(first).state == State::ToErase) {
            return false;
        }
        self.first = None;
        let Some(next) = first.or_else(|| self.free.front().copied()) else { return false };
        self.free.retain(|other| *other != next);
        self.change(next, |block| block.state = State::Open);
        self.open = Some(next);
        self.opened += 1;
        true
    }

    /// Removes an eraseblock from the list to erase. The caller reports the result with [`erased`](Self::erased) or
    /// [`bad`](Self::bad).
    pub(super) fn next_to_erase(&mut self) -> Option<u32> {
        self.to_erase.pop_front()
    }

    /// Queues eraseblocks for erasure that the mount considered free: all of them, or only the first, which is then
    /// used first.
    pub(super) fn distrust_free(&mut self, all: bool) {
        let count = if all { self.free.len() } else { self.free.len().min(1) };
        self.first = self.free.front().copied().filter(|_| !all);
        for number in self.free.drain(..count).collect::<Vec<_>>() {
            self.change(number, |block| block.state = State::ToErase);
        }
    }

    /// True if the erased eraseblocks are too few to collect an eraseblock and then delete a file.
    pub(super) fn are_few_erased(&self) -> bool {
        let is_blank = |number: &&u32| self.get(**number).nodes.is_empty();
        let erased = self.free.len() + self.to_erase.iter().filter(is_blank).count();
        erased <= self.reserved_for_deletion() as usize
    }

    /// Removes an eraseblock with nodes from the list to erase.
    pub(super) fn take_used_to_erase(&mut self) -> Option<u32> {
        let at = self.to_erase.iter().position(|number| !self.get(*number).nodes.is_empty())?;
        self.to_erase.remove(at)
    }

    /// Removes an eraseblock from the list to erase; false if it is not in the list.
    pub(super) fn take_to_erase(&mut self, number: u32) -> bool {
        let before = self.to_erase.len();
        self.to_erase.retain(|other| *other != number);
        self.to_erase.len() < before
    }

    /// Records that an eraseblock is erased and has its clean marker.
    pub(super) fn erased(&mut self, number: u32) {
        let end = self.marker_bytes;
        self.change(number, |block| *block = Block { state: State::Free, end, ..Block::default() });
    }

    /// Records that an eraseblock is bad.
    pub(super) fn bad(&mut self, number: u32) {
        self.change(number, |block| *block = Block { state: State::Bad, ..Block::default() });
    }

    /// Chooses the eraseblock to collect next (Linux: `jffs2_find_gc_block`): mostly one that is more than half dirty,
    /// sometimes a less dirty one, rarely a clean one for wear levelling.
    pub(super) fn choose_to_collect(&mut self) -> Option<u32> {
        // The upper bits of a linear congruential generator.
        self.draw = self.draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let order: [u32; 3] = match self.draw >> 25 {
            0..110 => [2, 1, 0],
            110..126 => [1, 2, 0],
            _ => [0, 1, 2],
        };
        let blocks = self.list.len() as u32;
        let in_turn = (0..blocks).map(|step| (self.turn + step) % blocks);
        let mut found = [None; 3];
        for number in in_turn {
            let block = self.get(number);
            if block.state == State::Full {
                let dirt = self.dirt(block);
                let class = match dirt {
                    _ if self.is_very_dirty(block) => 2,
                    _ if dirt > u64::from(LEAST_NODE) => 1,
                    _ => 0,
                };
                found[class].get_or_insert(number);
                if found[order[0] as usize].is_some() {
                    break;
                }
            }
        }
        let chosen = order.iter().find_map(|&class| found[class as usize])?;
        self.turn = (chosen + 1) % blocks;
        Some(chosen)
    }

    /// First live node of an eraseblock at or after a flash offset.
    pub(super) fn next_live(&self, block: u32, from: u32) -> Option<RawNodeRef> {
        let nodes = &self.get(block).nodes;
        let first = nodes.partition_point(|node| node.at < from);
        nodes[first..].iter().find(|node| node.live).copied()
    }

    /// Nodes of an eraseblock that extend beyond a flash offset.
    pub(super) fn beyond(&self, at: u32) -> Vec<RawNodeRef> {
        let nodes = self.get(self.number_of(at)).nodes.iter();
        nodes.filter(|node| node.live && node.at + node.len > at).copied().collect()
    }

    /// Owners of all nodes on flash, live or obsolete.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.list.iter().flat_map(|block| &block.nodes).map(|node| node.owner)
    }

    /// Inconsistent totals, as text.
    pub(super) fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let sum = self.sum();
        for (number, block) in self.list.iter().enumerate() {
            let live: u64 = block.nodes.iter().filter(|node| node.live).map(|node| u64::from(node.len)).sum();
            if live != block.live {
                wrong.push(format!(
                    "eraseblock {number}: {live} bytes are live, {} are believed to be",
                    block.live
                ));
            }
        }
        let very_dirty = self.count_very_dirty();
        if very_dirty != self.very_dirty {
            wrong.push(format!(
                "{very_dirty} eraseblocks are half dirt or more, {} are believed to be",
                self.very_dirty
            ));
        }
        if sum != self.totals {
            wrong.push(format!("{:?} are believed, {sum:?} are there", self.totals));
        }
        wrong
    }
}
