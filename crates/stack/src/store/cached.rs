//! A store with a read cache in memory.

use super::{Store, StoreError};
use std::cell::RefCell;

/// Size of a chunk, B: the unit of cached reads.
const CHUNK: usize = 16 << 10;

/// Number of chunks in the cache.
const SLOTS: usize = 64;

/// Store with a read cache, for many small reads near each other, such as those of nodes. Writes go to the store
/// immediately. No other code may write to the store at the same time.
#[derive(Clone, Debug)]
pub struct CachedStore<S> {
    inner: S,
    /// Chunks by number modulo [`SLOTS`].
    slots: RefCell<Vec<Option<Chunk>>>,
}

#[derive(Clone, Debug)]
struct Chunk {
    number: u64,
    bytes: Box<[u8]>,
}

impl<S: Store> CachedStore<S> {
    /// Wraps a store.
    pub fn new(inner: S) -> Self {
        Self { inner, slots: RefCell::new(vec![None; SLOTS]) }
    }

    /// Returns the wrapped store.
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Copies bytes of a chunk, starting at `skip`. The chunk is read if it is not cached.
    fn copy(&self, number: u64, skip: usize, out: &mut [u8]) -> Result<(), StoreError> {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[number as usize % SLOTS];
        let mut chunk = match slot.take() {
            Some(kept) if kept.number == number => {
                out.copy_from_slice(&slot.insert(kept).bytes[skip..skip + out.len()]);
                return Ok(());
            }
            Some(other) => other,
            None => Chunk { number, bytes: vec![0; CHUNK].into() },
        };
        chunk.number = number;
        self.inner.read_at(number * CHUNK as u64, &mut chunk.bytes)?;
        out.copy_from_slice(&slot.insert(chunk).bytes[skip..skip + out.len()]);
        Ok(())
    }
}

impl<S: Store> Store for CachedStore<S> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        if buf.len() >= CHUNK || offset.checked_add(2 * CHUNK as u64).is_none() {
            return self.inner.read_at(offset, buf);
        }
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let skip = (at % CHUNK as u64) as usize;
            let (piece, next) = rest.split_at_mut((CHUNK - skip).min(rest.len()));
            self.copy(at / CHUNK as u64, skip, piece)?;
            (at, rest) = (at + piece.len() as u64, next);
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        // The write may extend the store, and this changes chunks after its old end, too.
        self.slots.get_mut().fill(None);
        self.inner.write_at(offset, data)
    }
}
