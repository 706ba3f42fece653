//! Entries read last (Linux: leaf node cache): walking a path or a directory asks for the same ones again and again.

use std::sync::Arc;

use crate::fs::NodePos;

/// An entry's node and where it stands.
type Slot = Option<(NodePos, Arc<[u8]>)>;

/// Nodes of entries, by their place. A place that the index leads to anew has to be [forgotten](Self::forget).
#[derive(Clone, Debug)]
pub(super) struct EntryCache {
    /// Empty until the first entry comes.
    slots: Vec<Slot>,
    /// Number of slots, a power of two.
    len: usize,
}

impl EntryCache {
    /// For `len` entries, rounded up to a power of two. With names of usual length 128 take some KiB.
    pub(super) const fn new(len: usize) -> Self {
        Self { slots: Vec::new(), len: len.next_power_of_two() }
    }

    /// Slot of a place in the cache. Entries of one directory often stand near each other.
    const fn slot_of(&self, place: NodePos) -> usize {
        let mixed = (place.offset >> 3).wrapping_add(place.lnum.wrapping_mul(0x9E37_79B1));
        (mixed ^ mixed >> 7) as usize & (self.len - 1)
    }

    /// The node at a place.
    pub(super) fn get(&self, place: NodePos) -> Option<&[u8]> {
        let kept = self.slots.get(self.slot_of(place))?.as_ref()?;
        (kept.0 == place).then_some(&kept.1)
    }

    /// Keeps a node.
    pub(super) fn put(&mut self, place: NodePos, node: &[u8]) {
        self.slots.resize(self.len, None);
        let slot = self.slot_of(place);
        self.slots[slot] = Some((place, node.into()));
    }

    /// Removes a place from the cache.
    pub(super) fn forget(&mut self, place: NodePos) {
        let slot = self.slot_of(place);
        if let Some(kept) = self.slots.get_mut(slot) {
            *kept = None;
        }
    }
}
