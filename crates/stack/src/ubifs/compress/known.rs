//! Blocks that were compressed before, and what they became.
//!
//! A workload writes the same blocks to one file after the other, and the filesystem of a simulated kernel compresses each of them for its size and its
//! contents. What is remembered is compared byte by byte, so that it is what the compressor would give again.

use std::sync::{Arc, Mutex};

/// Blocks that are remembered, at most: each has a slot by its hash, which the next one with the same takes over.
const SLOTS: usize = 1024;

/// Shorter ones are not worth it.
const BLOCK_MIN: usize = 512;

/// Compressors whose results are told apart.
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

/// Result of compressing a block.
#[derive(Clone, Debug)]
struct Outcome {
    worked: bool,
    len: usize,
    /// None where they are not shorter than the block: nobody stores them.
    bytes: Option<Box<[u8]>>,
}

#[derive(Debug)]
struct Known {
    block: Box<[u8]>,
    outcomes: [Option<Outcome>; METHODS],
}

/// Blocks that were compressed, which clones share.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownBlocks {
    slots: Arc<Mutex<Vec<Option<Known>>>>,
}

fn slot_of(block: &[u8]) -> usize {
    crc32fast::hash(block) as usize % SLOTS
}

impl KnownBlocks {
    /// Puts into `out` what a block became before; returns whether that worked, none for a block that is not known. What is not shorter than the block has
    /// its length, and zeros.
    pub(super) fn recall(&self, method: Method, block: &[u8], out: &mut Vec<u8>) -> Option<bool> {
        if block.len() < BLOCK_MIN {
            return None;
        }
        // What another thread holds is compressed again.
        let slots = self.slots.try_lock().ok()?;
        let known = slots.get(slot_of(block))?.as_ref().filter(|known| *known.block == *block)?;
        let Outcome { worked, len, bytes } = known.outcomes[method as usize].as_ref()?;
        out.clear();
        out.extend_from_slice(bytes.as_deref().unwrap_or_default());
        out.resize(*len, 0);
        Some(*worked)
    }

    /// Remembers what a block became.
    pub(super) fn remember(&self, method: Method, block: &[u8], (worked, out): (bool, &[u8])) {
        if block.len() < BLOCK_MIN {
            return;
        }
        let Ok(mut slots) = self.slots.try_lock() else { return };
        if slots.is_empty() {
            slots.resize_with(SLOTS, || None);
        }
        let Some(slot) = slots.get_mut(slot_of(block)) else { return };
        if slot.as_ref().is_none_or(|known| *known.block != *block) {
            *slot = Some(Known { block: block.into(), outcomes: [const { None }; METHODS] });
        }
        if let Some(known) = slot {
            let bytes = (out.len() < block.len()).then(|| out.into());
            known.outcomes[method as usize] = Some(Outcome { worked, len: out.len(), bytes });
        }
    }
}
