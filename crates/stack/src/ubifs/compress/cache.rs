//! Cache of compression results.
//!
//! A workload writes the same blocks to many files, and the filesystem of a simulated kernel compresses each block that
//! it writes. A cached result is used only if all bytes of the block are equal, so it is the result that the compressor
//! would return.

use std::sync::{Arc, Mutex};

/// Number of cache slots, selected by the hash of the block; a new block replaces the old one.
const SLOTS: usize = 1024;

/// Minimum size of a cached block, B.
const BLOCK_MIN: usize = 512;

/// Compression methods with separate cache entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Lzo,
    Deflate,
    ZlibStream,
    Zstd,
    Rtime,
}

/// Number of methods.
const METHODS: usize = Method::Rtime as usize + 1;

/// Cached result of the compression of a block.
#[derive(Clone, Debug)]
struct Outcome {
    worked: bool,
    len: usize,
    /// Compressed bytes, `None` if they are not shorter than the block: such a result is never stored.
    bytes: Option<Box<[u8]>>,
}

#[derive(Debug)]
struct CachedBlock {
    block: Box<[u8]>,
    outcomes: [Option<Outcome>; METHODS],
}

/// Cached results, shared by clones.
#[derive(Clone, Debug, Default)]
pub(super) struct CompressionCache {
    slots: Arc<Mutex<Vec<Option<CachedBlock>>>>,
}

fn slot_of(block: &[u8]) -> usize {
    crc32fast::hash(block) as usize % SLOTS
}

impl CompressionCache {
    /// Copies a cached result to `out`; true if the block was compressible, `None` if it is not cached. An
    /// incompressible block yields zeros of its length.
    pub(super) fn recall(&self, method: Method, block: &[u8], out: &mut Vec<u8>) -> Option<bool> {
        if block.len() < BLOCK_MIN {
            return None;
        }
        // If another thread holds the lock, the block is compressed again.
        let slots = self.slots.try_lock().ok()?;
        let cached = slots.get(slot_of(block))?.as_ref().filter(|cached| *cached.block == *block)?;
        let Outcome { worked, len, bytes } = cached.outcomes[method as usize].as_ref()?;
        out.clear();
        out.extend_from_slice(bytes.as_deref().unwrap_or_default());
        out.resize(*len, 0);
        Some(*worked)
    }

    /// Adds a result.
    pub(super) fn remember(&self, method: Method, block: &[u8], (worked, out): (bool, &[u8])) {
        if block.len() < BLOCK_MIN {
            return;
        }
        let Ok(mut slots) = self.slots.try_lock() else { return };
        if slots.is_empty() {
            slots.resize_with(SLOTS, || None);
        }
        let Some(slot) = slots.get_mut(slot_of(block)) else { return };
        if slot.as_ref().is_none_or(|cached| *cached.block != *block) {
            *slot = Some(CachedBlock { block: block.into(), outcomes: [const { None }; METHODS] });
        }
        if let Some(cached) = slot {
            let bytes = (out.len() < block.len()).then(|| out.into());
            cached.outcomes[method as usize] = Some(Outcome { worked, len: out.len(), bytes });
        }
    }
}
