//! Copies of blocks that differ from their store.

use crate::store::{self, Store, StoreError};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Changed blocks, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlay(BTreeMap<u32, Copy>);

/// Content of a changed block.
#[derive(Clone, Debug)]
enum Copy {
    Erased,
    Holds(Vec<u8>),
}

impl Overlay {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.keys().copied()
    }

    /// Reads at `offset` of a block; false if the block is not in the overlay.
    pub(super) fn read(&self, block: u32, offset: usize, buf: &mut [u8]) -> bool {
        match self.0.get(&block) {
            None => return false,
            Some(Copy::Erased) => buf.fill(0xFF),
            Some(Copy::Holds(bytes)) => buf.copy_from_slice(&bytes[offset..offset + buf.len()]),
        }
        true
    }

    /// Writes at `offset` of a block of `size` bytes; the rest of the block is taken from the store.
    pub(super) fn write<S: Store>(
        &mut self,
        store: &mut S,
        block: u32,
        size: u64,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let whole = || vec![0xFF; size as usize];
        let copy = match self.0.entry(block) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let mut held = whole();
                store.read_at(u64::from(block) * size, &mut held)?;
                entry.insert(Copy::Holds(held))
            }
        };
        if matches!(copy, Copy::Erased) {
            *copy = Copy::Holds(whole());
        }
        if let Copy::Holds(held) = copy {
            held[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    pub(super) fn erase(&mut self, block: u32) {
        self.0.insert(block, Copy::Erased);
    }

    /// Writes all blocks to the store in ascending order, and clears the overlay.
    pub(super) fn commit<S: Store>(&mut self, store: &mut S, size: u32) -> Result<(), StoreError> {
        while let Some(entry) = self.0.first_entry() {
            let start = u64::from(*entry.key()) * u64::from(size);
            match entry.get() {
                Copy::Erased => store::erase(store, start, start + u64::from(size))?,
                Copy::Holds(bytes) => store.write_at(start, bytes)?,
            }
            entry.remove();
        }
        Ok(())
    }
}
