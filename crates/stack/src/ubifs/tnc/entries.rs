//! Cache of directory entries (Linux: leaf node cache): path lookups and listings repeatedly read the same ones.

use std::sync::Arc;

use crate::fs::NodePos;

/// Node of an entry with its position.
type Slot = Option<(NodePos, Arc<[u8]>)>;

/// Cached entry nodes by position. A position that is reused must be [forgotten](Self::forget).
#[derive(Clone, Debug)]
pub(super) struct EntryCache {
    /// Cache slots; empty until the first entry is added.
    slots: Vec<Slot>,
    /// Number of slots, a power of two.
    len: usize,
}

impl EntryCache {
    /// Creates a cache for `len` entries, rounded up to a power of two. 128 names of usual length take a few KiB.
    pub(super) const fn new(len: usize) -> Self {
        Self { slots: Vec::new(), len: len.next_power_of_two() }
    }

    /// Cache slot of a position. Entries of one directory are often near each other.
    const fn slot_of(&self, place: NodePos) -> usize {
        let mixed = (place.offset >> 3).wrapping_add(place.lnum.wrapping_mul(0x9E37_79B1));
        (mixed ^ mixed >> 7) as usize & (self.len - 1)
    }

    /// Cached node at a position.
    pub(super) fn get(&self, place: NodePos) -> Option<&[u8]> {
        let kept = self.slots.get(self.slot_of(place))?.as_ref()?;
        (kept.0 == place).then_some(&kept.1)
    }

    /// Adds a node.
    pub(super) fn put(&mut self, place: NodePos, node: &[u8]) {
        self.slots.resize(self.len, None);
        let slot = self.slot_of(place);
        self.slots[slot] = Some((place, node.into()));
    }

    /// Removes a position.
    pub(super) fn forget(&mut self, place: NodePos) {
        let slot = self.slot_of(place);
        if let Some(kept) = self.slots.get_mut(slot) {
            *kept = None;
        }
    }
}
