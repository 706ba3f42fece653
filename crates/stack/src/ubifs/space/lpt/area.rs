//! The LPT's own LEBs: free and dirty bytes of each, and the head at which nodes are appended.

use floatgate_media::ubifs::lpt::{LebSpace, NodePos};

/// The LEBs of the LPT area.
#[derive(Clone, Debug)]
pub(super) struct Area {
    first_lnum: u32,
    leb_bytes: u32,
    lebs: Vec<LebSpace>,
    /// Position of the next node (Linux: `nhead`).
    pub(super) head: NodePos,
}

impl Area {
    /// An area of LEBs with these properties.
    pub(super) fn new(first_lnum: u32, leb_bytes: u32, lebs: Vec<LebSpace>, head: NodePos) -> Self {
        Self { first_lnum, leb_bytes, lebs, head }
    }

    /// An area of empty LEBs, with the head in the first one.
    pub(super) fn empty(first_lnum: u32, leb_bytes: u32, count: u32) -> Self {
        let lebs = vec![LebSpace { free: leb_bytes, dirty: 0 }; count as usize];
        Self::new(first_lnum, leb_bytes, lebs, NodePos { lnum: first_lnum, offset: 0 })
    }

    /// Properties of all LEBs, in order.
    pub(super) fn lebs(&self) -> &[LebSpace] {
        &self.lebs
    }

    fn leb_mut(&mut self, lnum: u32) -> Option<&mut LebSpace> {
        self.lebs.get_mut(lnum.checked_sub(self.first_lnum)? as usize)
    }

    /// All LEBs with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, LebSpace)> + '_ {
        (self.first_lnum..).zip(self.lebs.iter().copied())
    }

    /// Marks a node of `bytes` as obsolete.
    pub(super) fn add_dirt(&mut self, lnum: u32, bytes: u32) {
        let leb_bytes = self.leb_bytes;
        if let Some(leb) = self.leb_mut(lnum) {
            leb.dirty = leb.dirty.saturating_add(bytes).min(leb_bytes.saturating_sub(leb.free));
        }
    }

    /// Records that a LEB was written up to `end`, including `padding` bytes.
    pub(super) fn written(&mut self, lnum: u32, end: u32, padding: u32) {
        let leb_bytes = self.leb_bytes;
        if let Some(leb) = self.leb_mut(lnum) {
            leb.free = leb_bytes.saturating_sub(end);
        }
        self.add_dirt(lnum, padding);
    }

    /// Records that a LEB was erased.
    pub(super) fn erased(&mut self, lnum: u32) {
        let leb_bytes = self.leb_bytes;
        if let Some(leb) = self.leb_mut(lnum) {
            *leb = LebSpace { free: leb_bytes, dirty: 0 };
        }
    }

    /// True if a LEB is empty.
    pub(super) fn is_empty(&self, lnum: u32) -> bool {
        self.iter().any(|(other, leb)| other == lnum && leb.free == self.leb_bytes)
    }

    /// Next empty LEB after `lnum`, wrapping around (Linux: `alloc_lpt_leb`).
    pub(super) fn next_empty(&self, lnum: u32) -> Option<u32> {
        let empty = |leb: &(u32, LebSpace)| leb.1.free == self.leb_bytes;
        let behind = self.iter().filter(|&(other, _)| other > lnum).find(empty);
        behind.or_else(|| self.iter().filter(|&(other, _)| other < lnum).find(empty)).map(|(lnum, _)| lnum)
    }

    /// LEBs that contain only obsolete nodes and padding. They can be erased while no node was written since the last
    /// commit, because the LPT on flash does not use them.
    pub(super) fn unused(&self) -> Vec<u32> {
        let unused = |&(lnum, leb): &(u32, LebSpace)| {
            lnum != self.head.lnum && leb.dirty > 0 && leb.free + leb.dirty == self.leb_bytes
        };
        self.iter().filter(unused).map(|(lnum, _)| lnum).collect()
    }

    /// Bytes available for appending: after the head, and in LEBs that `counts` accepts as empty. It receives the index
    /// of the LEB, from 0.
    pub(super) fn room(&self, counts: impl Fn(usize, LebSpace) -> bool) -> u64 {
        let behind_head = self.leb_bytes.saturating_sub(self.head.offset);
        let others = self
            .iter()
            .enumerate()
            .filter(|&(leb, (lnum, space))| lnum != self.head.lnum && counts(leb, space));
        u64::from(behind_head) + others.count() as u64 * u64::from(self.leb_bytes)
    }
}
