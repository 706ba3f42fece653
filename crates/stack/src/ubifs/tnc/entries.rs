//! Entries read last (Linux: leaf node cache): walking a path or a directory asks for the same ones again and again.

use std::sync::Arc;

use crate::ubifs::layout::Place;

/// Entries kept at most, a power of two. With names of usual length this is some KiB.
const SLOTS: usize = 128;

/// An entry's node and where it stands.
type Slot = Option<(Place, Arc<[u8]>)>;

/// Nodes of entries, by their place. A place that the index leads to anew has to be [forgotten](Self::forget).
#[derive(Clone, Debug, Default)]
pub(super) struct EntryCache {
    /// Empty until the first entry comes.
    slots: Vec<Slot>,
}

/// Where a place's entry is kept. Entries of one directory often stand near each other.
const fn slot_of(place: Place) -> usize {
    let mixed = (place.offset >> 3).wrapping_add(place.lnum.wrapping_mul(0x9E37_79B1));
    (mixed ^ mixed >> 7) as usize % SLOTS
}

impl EntryCache {
    /// The node at a place.
    pub(super) fn get(&self, place: Place) -> Option<&[u8]> {
        let kept = self.slots.get(slot_of(place))?.as_ref()?;
        (kept.0 == place).then_some(&kept.1)
    }

    /// Keeps a node.
    pub(super) fn put(&mut self, place: Place, node: &[u8]) {
        self.slots.resize(SLOTS, None);
        self.slots[slot_of(place)] = Some((place, node.into()));
    }

    /// What stands at a place now is not known.
    pub(super) fn forget(&mut self, place: Place) {
        if let Some(slot) = self.slots.get_mut(slot_of(place)) {
            *slot = None;
        }
    }
}
