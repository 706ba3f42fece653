//! Contents of a regular file in an image, read in pieces.

use std::ops::Range;

use floatgate_media::ubifs::BLOCK_BYTES;
use floatgate_stack::fs::NodePos;

use super::Source;

/// Size of a block of a file, bytes.
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Number of blocks in one read.
const BLOCKS: usize = 64;

/// Largest number of damaged blocks that are listed individually.
const LISTED: usize = 16;

/// Contents of a file: pieces with data, in order, with holes between them.
pub trait Contents {
    /// Size of the file, bytes.
    fn size(&self) -> u64;

    /// Next piece: its offset and its bytes. `None` at the end.
    fn next_piece(&mut self) -> Option<(u64, &[u8])>;

    /// Ranges of data, in order and not adjacent; all other bytes are holes. If the ranges are unknown, one range for
    /// the whole file.
    fn data(&mut self) -> Vec<Range<u64>> {
        std::iter::once(0..self.size()).filter(|whole| !whole.is_empty()).collect()
    }

    /// Damage found so far; damaged blocks read as zeros.
    fn damage(&mut self) -> Vec<String>;
}

/// Contents of a file in a filesystem.
pub(super) struct FileContents<'f> {
    source: &'f mut dyn Source,
    inode: u32,
    size: u64,
    /// Known blocks with data that were not read yet, in reverse order.
    blocks: Vec<(u32, NodePos)>,
    next_block: u32,
    ended: bool,
    buffer: Vec<u8>,
    damage: Vec<String>,
    damaged_blocks: u64,
}

impl<'f> FileContents<'f> {
    pub(super) fn new(source: &'f mut dyn Source, inode: u32, size: u64, buffer: Vec<u8>) -> Self {
        Self {
            source,
            inode,
            size,
            blocks: Vec::new(),
            next_block: 0,
            ended: false,
            buffer,
            damage: Vec::new(),
            damaged_blocks: 0,
        }
    }

    /// Returns the buffer for the next file.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Finds the next blocks with data.
    fn find_blocks(&mut self) {
        match self.source.blocks(self.inode, self.next_block, BLOCKS) {
            Ok(blocks) if !blocks.is_empty() => {
                self.next_block = blocks.last().map_or(u32::MAX, |last| last.0.saturating_add(1));
                self.blocks = blocks;
                self.blocks.reverse();
            }
            Ok(_) => self.ended = true,
            Err(error) => {
                self.damage.push(format!("all from byte {} on: {error}", u64::from(self.next_block) * BLOCK));
                self.ended = true;
            }
        }
    }

    /// Reads consecutive blocks into the buffer, and returns the number of the first. Damaged blocks read as zeros.
    fn read_run(&mut self) -> Option<u32> {
        let first = self.blocks.last()?.0;
        self.buffer.clear();
        let mut next = u64::from(first);
        while let Some((block, place)) = self.blocks.pop_if(|&mut (block, _)| u64::from(block) == next) {
            self.read_block(block, place);
            next += 1;
        }
        Some(first)
    }

    fn read_block(&mut self, block: u32, place: NodePos) {
        let mut bytes = [0; BLOCK_BYTES as usize];
        if let Err(error) = self.source.read_block(self.inode, block, place, &mut bytes) {
            bytes.fill(0);
            self.damaged_blocks += 1;
            if self.damage.len() < LISTED {
                self.damage.push(format!("a block at byte {}: {error}", u64::from(block) * BLOCK));
            }
        }
        self.buffer.extend_from_slice(&bytes);
    }
}

impl Contents for FileContents<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn data(&mut self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut next = Some(0);
        while let Some(blocks) = next.and_then(|next| self.source.blocks(self.inode, next, BLOCKS).ok()) {
            for &(block, _) in &blocks {
                let start = u64::from(block) * BLOCK;
                let end = (start + BLOCK).min(self.size);
                match ranges.last_mut() {
                    Some(last) if last.end == start => last.end = end.max(last.end),
                    _ if start < end => ranges.push(start..end),
                    _ => {}
                }
            }
            next = blocks.last().and_then(|last| last.0.checked_add(1));
        }
        ranges
    }

    fn next_piece(&mut self) -> Option<(u64, &[u8])> {
        loop {
            if self.blocks.is_empty() && !self.ended {
                self.find_blocks();
            }
            let start = u64::from(self.read_run()?) * BLOCK;
            let len = self.size.saturating_sub(start).min(self.buffer.len() as u64);
            let len = usize::try_from(len).unwrap_or(0);
            if self.buffer.get(len..).is_some_and(|behind| behind.iter().any(|&byte| byte != 0)) {
                self.damage
                    .push(format!("data behind byte {}, where its inode says that it ends", self.size));
            }
            self.buffer.truncate(len);
            if len > 0 {
                return Some((start, &self.buffer));
            }
        }
    }

    fn damage(&mut self) -> Vec<String> {
        let mut damage = core::mem::take(&mut self.damage);
        let listed = LISTED as u64;
        if self.damaged_blocks > listed {
            damage.push(format!("{} more damaged blocks", self.damaged_blocks - listed));
        }
        self.damaged_blocks = 0;
        damage
    }
}
