//! The contents of a regular file in an image, piece by piece.

use floatgate_stack::Volume;
use floatgate_stack::ubifs::Ubifs;

/// Bytes of a block of a file.
const BLOCK: u64 = 4096;

/// Blocks that are read at a time.
const BLOCKS: usize = 64;

/// The contents of a file: pieces that hold data, in order; what lies between them is a hole.
pub trait Contents {
    /// Bytes of the file.
    fn size(&self) -> u64;

    /// The next piece: where it begins, and its bytes. `None` at the end.
    fn next_piece(&mut self) -> Option<(u64, &[u8])>;

    /// What was found damaged up to now; such blocks are zeros.
    fn damage(&mut self) -> Vec<String>;
}

/// The contents of a file in a UBIFS.
pub(super) struct FileContents<'f, V> {
    fs: &'f mut Ubifs<V>,
    inode: u32,
    size: u64,
    /// Blocks with data that were found and not read yet, last first.
    blocks: Vec<u32>,
    next_block: u32,
    ended: bool,
    buffer: Vec<u8>,
    damage: Vec<String>,
}

impl<'f, V: Volume> FileContents<'f, V> {
    pub(super) fn new(fs: &'f mut Ubifs<V>, inode: u32, size: u64) -> Self {
        Self {
            fs,
            inode,
            size,
            blocks: Vec::new(),
            next_block: 0,
            ended: false,
            buffer: Vec::new(),
            damage: Vec::new(),
        }
    }

    /// Finds the next blocks with data.
    fn find_blocks(&mut self) {
        match self.fs.data_blocks(self.inode, self.next_block, BLOCKS) {
            Ok(blocks) if !blocks.is_empty() => {
                self.next_block = blocks.last().map_or(u32::MAX, |block| block.saturating_add(1));
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

    /// Takes blocks that follow each other off the list: the first, and how many.
    fn take_run(&mut self) -> Option<(u32, u64)> {
        let first = self.blocks.pop()?;
        let mut count = 1;
        while self.blocks.last().is_some_and(|&next| u64::from(next) == u64::from(first) + count) {
            self.blocks.pop();
            count += 1;
        }
        Some((first, count))
    }

    /// Reads a run; blocks that are damaged stay zeros.
    fn read_run(&mut self, start: u64, len: usize) {
        self.buffer.clear();
        self.buffer.resize(len, 0);
        if self.fs.read(self.inode, start, &mut self.buffer).is_ok() {
            return;
        }
        for (index, block) in self.buffer.chunks_mut(BLOCK as usize).enumerate() {
            let at = start + index as u64 * BLOCK;
            if let Err(error) = self.fs.read(self.inode, at, block) {
                block.fill(0);
                self.damage.push(format!("{} bytes from {at}: {error}", block.len()));
            }
        }
    }
}

impl<V: Volume> Contents for FileContents<'_, V> {
    fn size(&self) -> u64 {
        self.size
    }

    fn next_piece(&mut self) -> Option<(u64, &[u8])> {
        loop {
            if self.blocks.is_empty() && !self.ended {
                self.find_blocks();
            }
            let (first, count) = self.take_run()?;
            let start = u64::from(first) * BLOCK;
            // Blocks behind the end are left over from a cut that recovery finished.
            let len = (count * BLOCK).min(self.size.saturating_sub(start));
            if len > 0 {
                self.read_run(start, usize::try_from(len).unwrap_or(0));
                return Some((start, &self.buffer));
            }
        }
    }

    fn damage(&mut self) -> Vec<String> {
        core::mem::take(&mut self.damage)
    }
}
