//! Reading piece by piece, so that what is damaged does not hide what is not.

use floatgate_media::ubifs::{BLOCK_BYTES, Key, KeyType};

use super::super::error::{Error, Result};
use super::super::layout::Place;
use super::super::scan::{ScannedLeb, is_erased};
use super::types::DirEntry;
use super::{Ubifs, read::LAST_BLOCK};
use crate::volume::Volume;

impl<V: Volume> Ubifs<V> {
    /// All names in a directory that can be read, in the order of their hashes, and what is wrong with the others. The directory's
    /// inode is not looked at.
    ///
    /// # Errors
    /// A damaged index: it is not known which names there are; failures of the volume.
    pub fn readable_entries(&mut self, directory: u32) -> Result<(Vec<DirEntry>, Vec<Error>)> {
        let encrypted = self.is_encrypted(directory)?;
        let (mut entries, damage) = self.readable_names(directory, KeyType::Entry)?;
        entries.iter_mut().for_each(|entry| entry.encrypted = encrypted);
        Ok((entries, damage))
    }

    /// Whether names in a directory are encrypted, as far as its inode can be read.
    fn is_encrypted(&mut self, directory: u32) -> Result<bool> {
        match self.attributes(directory) {
            Ok(attributes) => Ok(attributes.is_encrypted()),
            Err(error) if error.is_damage() || error == Error::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The names of all extended attributes that can be read, and what is wrong with the others.
    ///
    /// # Errors
    /// As [`readable_entries`](Self::readable_entries).
    pub fn readable_xattrs(&mut self, inode: u32) -> Result<(Vec<Vec<u8>>, Vec<Error>)> {
        let (entries, damage) = self.readable_names(inode, KeyType::XattrEntry)?;
        Ok((entries.into_iter().map(|entry| entry.name).collect(), damage))
    }

    fn readable_names(&mut self, inode: u32, key_type: KeyType) -> Result<(Vec<DirEntry>, Vec<Error>)> {
        let (from, to) = (Key::lowest(inode, key_type), Key::highest(inode, key_type));
        let mut leaves = Vec::new();
        self.core.tnc.leaves(&mut self.core.io, from, to, usize::MAX, &mut leaves)?;
        let (mut entries, mut damage) = (Vec::with_capacity(leaves.len()), Vec::new());
        for (key, place) in leaves {
            match self.read_entry(key, place) {
                Ok(entry) => entries.push(entry),
                Err(error) if error.is_damage() => damage.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok((entries, damage))
    }

    fn read_entry(&mut self, key: Key, place: Place) -> Result<DirEntry> {
        self.core.tnc.read_entry(&mut self.core.io, key, place, &mut self.node)?;
        self.parse_entry(place)
    }

    /// LEBs of the journal that the volume has not mapped. UBIFS maps them before it writes to them: their contents are lost.
    ///
    /// # Errors
    /// Failures of the volume.
    pub fn missing_journal_lebs(&mut self) -> Result<Vec<u32>> {
        let lebs: Vec<u32> = self.core.log.buds().keys().copied().collect();
        let mut missing = Vec::new();
        for lnum in lebs {
            if !self.core.io.is_mapped(lnum)? {
                missing.push(lnum);
            }
        }
        Ok(missing)
    }

    /// Inodes that the index leads to, in order: the first from a number on.
    ///
    /// # Errors
    /// A damaged index, failures of the volume.
    pub fn stored_inode(&mut self, from: u32) -> Result<Option<u32>> {
        let mut leaves = Vec::new();
        let (from, to) = (Key::inode(from), Key::from_bits(u64::MAX));
        self.core.tnc.leaves(&mut self.core.io, from, to, 1, &mut leaves)?;
        Ok(leaves.first().map(|(key, _)| key.inum()))
    }

    /// Where LEBs of the journal end in bytes that are no node: LEB and byte. A power cut leaves them, and nobody knows what they
    /// were meant to be. A mount for writing has cleaned them.
    ///
    /// # Errors
    /// Failures of the volume.
    pub fn torn_journal_ends(&mut self) -> Result<Vec<(u32, u32)>> {
        let buds: Vec<(u32, u32)> =
            self.core.log.buds().iter().map(|(lnum, bud)| (*lnum, bud.start)).collect();
        let ends = buds.into_iter().map(|(lnum, start)| Ok((lnum, self.torn_end(lnum, start)?)));
        let torn = ends.filter_map(|end| end.map(|(lnum, at)| at.map(|at| (lnum, at))).transpose());
        torn.collect()
    }

    /// Whether the log ends in bytes that are no node: then LEBs of the journal may not be known.
    ///
    /// # Errors
    /// Failures of the volume.
    pub fn has_torn_log(&mut self) -> Result<bool> {
        for lnum in self.core.io.layout().limits.log.clone() {
            if self.torn_end(lnum, 0)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn torn_end(&mut self, lnum: u32, start: u32) -> Result<Option<u32>> {
        let mut leb = ScannedLeb::read(&mut self.core.io, lnum, start)?;
        // What is wrong with single nodes is another question.
        let is_torn = leb.scan().is_ok() && !is_erased(leb.from(leb.end));
        Ok(is_torn.then_some(leb.end))
    }

    /// Blocks of a file that are on flash, in order, from `block` on, at most `max`, and where they stand. What lies between them is
    /// a hole. The file's inode is not looked at.
    ///
    /// # Errors
    /// A damaged index, failures of the volume.
    pub fn stored_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, Place)>> {
        let (Some(from), Some(to)) = (Key::data(inode, block), Key::data(inode, LAST_BLOCK)) else {
            return Ok(Vec::new());
        };
        let mut leaves = Vec::new();
        self.core.tnc.leaves(&mut self.core.io, from, to, max, &mut leaves)?;
        Ok(leaves.into_iter().map(|(key, place)| (key.block(), place)).collect())
    }

    /// Reads and decompresses a block of a file that is not encrypted; what lies behind its end is zeros.
    ///
    /// # Errors
    /// Damage; failures of the volume.
    pub fn read_stored(
        &mut self,
        inode: u32,
        block: u32,
        place: Place,
        out: &mut [u8; BLOCK_BYTES as usize],
    ) -> Result<()> {
        self.read_block(inode, block, place, out)
    }
}
