//! Cache of blocks, for formats that read a block many times.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A few values with their keys; the oldest is removed first.
pub(super) struct Recent<K, V> {
    values: VecDeque<(K, Arc<V>)>,
    room: usize,
}

impl<K: PartialEq + Copy, V> Recent<K, V> {
    pub(super) const fn new(room: usize) -> Self {
        Self { values: VecDeque::new(), room }
    }

    pub(super) fn get(&self, key: K) -> Option<Arc<V>> {
        self.values.iter().find(|(other, _)| *other == key).map(|(_, value)| Arc::clone(value))
    }

    pub(super) fn put(&mut self, key: K, value: V) -> Arc<V> {
        let value = Arc::new(value);
        if self.values.len() >= self.room {
            self.values.pop_front();
        }
        self.values.push_back((key, Arc::clone(&value)));
        value
    }
}

/// Inode numbers for positions with more than 32 bits.
#[derive(Default)]
pub(super) struct InodeNumbers {
    places: Vec<u64>,
    numbers: BTreeMap<u64, u32>,
}

impl InodeNumbers {
    /// Inode number of a position; a new position gets the next number.
    pub(super) fn number(&mut self, place: u64) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&place) {
            return Some(number);
        }
        let number = u32::try_from(self.places.len()).ok()?;
        self.places.push(place);
        self.numbers.insert(place, number);
        Some(number)
    }

    pub(super) fn place(&self, number: u32) -> Option<u64> {
        self.places.get(number as usize).copied()
    }
}
