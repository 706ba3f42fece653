//! Spare areas of the NAND's pages: the map unit of each slot, and the sequence number of each page.
//!
//! A real card stores spare areas on the NAND, and reads them to clean a block or to rebuild the map. The simulation keeps the spare areas of
//! blocks being written in memory. Those of closed blocks are in a temporary file without a name, which clones of a card share. Therefore a card
//! needs little more memory than its map. If the host cannot write such a file, all spare areas stay in memory.

use floatgate_files::{File, tempfile};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Spare areas of one block: the map unit + 1 of each slot (0 for no unit), followed by the sequence number of each page.
type Words = Box<[u32]>;

/// Spare areas of one block: in memory, in the file, or blank.
#[derive(Clone, Debug, Default)]
struct StoredSpares {
    /// Spare areas in memory; empty for a blank block, or if they are in the file.
    words: Words,
    extent: Option<Arc<Extent>>,
    /// First unit + 1 of a block that was filled at once, in order, and therefore needs no words; 0 for other blocks.
    first_unit: u32,
}

/// Spare areas of all blocks.
#[derive(Clone, Debug)]
pub(crate) struct Spares {
    blocks: Vec<StoredSpares>,
    slots: usize,
    pages: usize,
    file: Arc<Mutex<SpareFile>>,
}

impl Spares {
    pub(crate) fn new(blocks: usize, slots: u32, pages: u32) -> Self {
        let (slots, pages) = (slots as usize, pages as usize);
        let file =
            SpareFile { file: None, extent_bytes: (slots + pages) * 4, extents: 0, unused: Vec::new() };
        Self { blocks: vec![StoredSpares::default(); blocks], slots, pages, file: Arc::new(Mutex::new(file)) }
    }

    /// Sets the map unit of a slot in a block being written; `None` for no unit.
    #[inline]
    pub(crate) fn set_unit(&mut self, block: u32, slot: u32, unit: Option<u32>) {
        self.words_mut(block)[slot as usize] = unit.map_or(0, |unit| unit + 1);
    }

    /// Sets the sequence number of a page in a block being written, relative to the block's first page.
    #[inline]
    pub(crate) fn set_sequence(&mut self, block: u32, page: u32, sequence: u32) {
        let at = self.slots + page as usize;
        self.words_mut(block)[at] = sequence;
    }

    #[inline]
    fn words_mut(&mut self, block: u32) -> &mut Words {
        let StoredSpares { words, extent, first_unit } = &mut self.blocks[block as usize];
        debug_assert!(extent.is_none() && *first_unit == 0, "a closed block is written");
        if words.is_empty() {
            *words = vec![0; self.slots + self.pages].into();
        }
        words
    }

    /// Reads the spare areas of a block.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub(crate) fn read(&self, block: u32) -> io::Result<BlockSpares> {
        let place = &self.blocks[block as usize];
        let words = match &place.extent {
            None if place.first_unit > 0 => {
                let units = place.first_unit..place.first_unit + self.slots as u32;
                units.chain(0..self.pages as u32).collect()
            }
            Some(extent) => extent.read()?,
            None if place.words.is_empty() => vec![0; self.slots + self.pages].into(),
            None => place.words.clone(),
        };
        Ok(BlockSpares { words, slots: self.slots })
    }

    /// Fills a block in order with units from `unit` on.
    pub(crate) fn fill(&mut self, block: u32, unit: u32) {
        self.blocks[block as usize] = StoredSpares { first_unit: unit + 1, ..StoredSpares::default() };
    }

    /// First unit of a block that was filled at once, in order.
    pub(crate) fn filled_from(&self, block: u32) -> Option<u32> {
        self.blocks[block as usize].first_unit.checked_sub(1)
    }

    /// Moves the spare areas of a closed block from memory to the file, if possible.
    pub(crate) fn close(&mut self, block: u32) {
        let place = &mut self.blocks[block as usize];
        if place.words.is_empty() {
            return;
        }
        if let Ok(extent) = Extent::write(&self.file, &place.words) {
            *place = StoredSpares { extent: Some(Arc::new(extent)), ..StoredSpares::default() };
        }
    }

    /// Forgets the spare areas of a block that is erased.
    pub(crate) fn erase(&mut self, block: u32) {
        self.blocks[block as usize] = StoredSpares::default();
    }

    /// Size of the spare areas in memory, B.
    pub(crate) fn memory_bytes(&self) -> usize {
        let held: usize = self.blocks.iter().map(|place| place.words.len()).sum();
        self.blocks.len() * size_of::<StoredSpares>() + held * 4
    }
}

/// Spare areas of one block that were read.
#[derive(Clone, Debug)]
pub(crate) struct BlockSpares {
    words: Words,
    slots: usize,
}

impl BlockSpares {
    /// Map unit that was written to a slot of the block.
    pub(crate) fn unit(&self, slot: u32) -> Option<u32> {
        self.words[slot as usize].checked_sub(1)
    }

    /// Sequence number of a page, relative to the block's first page.
    pub(crate) fn sequence(&self, page: u32) -> u32 {
        self.words[self.slots + page as usize]
    }
}

/// File that a card and its clones share, with one extent per block. It is created when the first block is closed.
#[derive(Debug)]
struct SpareFile {
    file: Option<File>,
    extent_bytes: usize,
    /// Number of extents in the file.
    extents: u64,
    /// Extents whose blocks were erased.
    unused: Vec<u64>,
}

impl SpareFile {
    /// The file, positioned at the beginning of an extent.
    fn at(&mut self, extent: u64) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => tempfile()?,
        };
        let file = self.file.insert(file);
        file.seek(SeekFrom::Start(extent * self.extent_bytes as u64))?;
        Ok(file)
    }
}

/// Part of the file with the spare areas of one block. It is reused when no card needs it any more.
#[derive(Debug)]
struct Extent {
    number: u64,
    file: Arc<Mutex<SpareFile>>,
}

impl Extent {
    fn write(shared: &Arc<Mutex<SpareFile>>, words: &[u32]) -> io::Result<Self> {
        let mut bytes = vec![0; size_of_val(words)];
        bytes.as_chunks_mut().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
        let mut file = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let number = file.unused.last().copied().unwrap_or(file.extents);
        file.at(number)?.write_all(&bytes)?;
        if file.unused.pop().is_none() {
            file.extents += 1;
        }
        Ok(Self { number, file: Arc::clone(shared) })
    }

    fn read(&self) -> io::Result<Words> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = vec![0; file.extent_bytes];
        file.at(self.number)?.read_exact(&mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).unused.push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_areas_in_the_file_are_those_that_were_written_and_clones_keep_theirs() {
        let mut spares = Spares::new(3, 4, 2);
        let write = |spares: &mut Spares, block: u32, unit: u32| {
            (0..4).for_each(|slot| spares.set_unit(block, slot, Some(unit + slot)));
            spares.set_sequence(block, 1, unit + 9);
            spares.close(block);
        };
        let read = |spares: &Spares, block: u32| {
            let read = spares.read(block).unwrap();
            (read.unit(0), read.unit(3), read.sequence(1))
        };
        (0..3).for_each(|block| write(&mut spares, block, 10 * block));
        let clone = spares.clone();
        spares.erase(1);
        assert_eq!(read(&spares, 1), (None, None, 0));
        write(&mut spares, 1, 70);
        let held = |block: u32| (Some(10 * block), Some(10 * block + 3), 10 * block + 9);
        assert_eq!(read(&spares, 1), (Some(70), Some(73), 79));
        assert_eq!([0, 1, 2].map(|block| read(&clone, block)), [0, 1, 2].map(held));
        drop(clone);
        // Extents that no card needs are reused.
        spares.erase(0);
        write(&mut spares, 0, 5);
        assert_eq!((read(&spares, 0), read(&spares, 2)), ((Some(5), Some(8), 14), held(2)));
        assert_eq!(spares.file.lock().unwrap().extents, 4);
        assert_eq!(spares.memory_bytes(), 3 * size_of::<StoredSpares>());
        spares.erase(2);
        spares.fill(2, 40);
        spares.close(2);
        assert_eq!((spares.filled_from(0), spares.filled_from(2)), (None, Some(40)));
        assert_eq!(read(&spares, 2), (Some(40), Some(43), 1));
    }
}
