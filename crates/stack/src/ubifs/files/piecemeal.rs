//! Reading piece by piece, so that what is damaged does not hide what is not.

use floatgate_media::file::{FileFlags, FileType};
use floatgate_media::ubifs::{BLOCK_BYTES, Key, KeyType};

use super::super::error::{Error, Result};
use super::super::layout::NodePos;
use super::super::scan::scan;
use super::{Ubifs, read::LAST_BLOCK};
use crate::fs::DirEntry;
use crate::volume::Volume;

impl Ubifs<dyn Volume> {
    /// All names in a directory that can be read, in the order of their hashes, and what is wrong with the others. The directory's
    /// inode is not looked at.
    ///
    /// # Errors
    /// A damaged index: it is not known which names there are; failures of the volume.
    pub fn readable_entries(&mut self, directory: u32) -> Result<(Vec<DirEntry>, Vec<Error>)> {
        let encrypted = self.is_encrypted(directory)?;
        let (mut entries, damage) = self.readable_names(directory, KeyType::Entry, !encrypted)?;
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
        let (entries, damage) = self.readable_names(inode, KeyType::XattrEntry, true)?;
        Ok((entries.into_iter().map(|entry| entry.name).collect(), damage))
    }

    /// A name that is not found by its hash is there, and damage; `hashed`: the names are not encrypted.
    fn readable_names(
        &mut self,
        inode: u32,
        key_type: KeyType,
        hashed: bool,
    ) -> Result<(Vec<DirEntry>, Vec<Error>)> {
        let (from, to) = (Key::lowest(inode, key_type), Key::highest(inode, key_type));
        let mut leaves = Vec::new();
        self.core.tnc.leaves(&mut self.core.io, from, to, usize::MAX, &mut leaves)?;
        let (mut entries, mut damage) = (Vec::with_capacity(leaves.len()), Vec::new());
        for (key, place) in leaves {
            match self.read_entry(key, place) {
                Ok(entry) => {
                    if hashed && self.name_hash(&entry.name) != Ok(key.hash()) {
                        let what = "a name does not have the hash of its key";
                        damage.push(Error::corrupt(place.lnum, place.offset, what));
                    }
                    entries.push(entry);
                }
                Err(error) if error.is_damage() => damage.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok((entries, damage))
    }

    fn read_entry(&mut self, key: Key, place: NodePos) -> Result<DirEntry> {
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

    /// True when the index leads to something of an inode that no file like this has: data of what is no regular file, or behind its
    /// end; names in what is no directory.
    ///
    /// # Errors
    /// The inode is damaged or not there; a damaged index, failures of the volume.
    pub fn has_strays(&mut self, inode: u32) -> Result<bool> {
        let attributes = self.attributes(inode)?;
        let end = attributes.size.div_ceil(u64::from(BLOCK_BYTES));
        let first = match attributes.file_type {
            FileType::Regular if !attributes.flags.contains(FileFlags::XATTR) => u32::try_from(end).ok(),
            _ => Some(0),
        };
        if let Some(first) = first
            && !self.stored_blocks(inode, first, 1)?.is_empty()
        {
            return Ok(true);
        }
        let (from, to) = (Key::lowest(inode, KeyType::Entry), Key::highest(inode, KeyType::Entry));
        let mut names = Vec::new();
        if attributes.file_type != FileType::Directory {
            self.core.tnc.leaves(&mut self.core.io, from, to, 1, &mut names)?;
        }
        Ok(!names.is_empty())
    }

    /// Positions at which the log ends in something damaged, and at which LEBs of the journal do, as power cuts leave them: what stands there does
    /// not count. Behind such an end the log may have named more LEBs.
    ///
    /// # Errors
    /// Failures of the volume.
    pub fn torn_ends(&mut self) -> Result<(Vec<Error>, Vec<Error>)> {
        let log = self.core.io.layout().limits.log.clone().map(|lnum| (lnum, 0)).collect();
        let buds = self.core.log.buds().iter().map(|(&lnum, bud)| (lnum, bud.start)).collect();
        Ok((self.torn_in(log)?, self.torn_in(buds)?))
    }

    fn torn_in(&mut self, starts: Vec<(u32, u32)>) -> Result<Vec<Error>> {
        let mut torn = Vec::new();
        for (lnum, start) in starts {
            match scan(&mut self.core.io, lnum, start) {
                Ok(_) => {}
                Err(error) if error.is_damage() => torn.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(torn)
    }

    /// Blocks of a file that are on flash, in order, from `block` on, at most `max`, and where they stand. What lies between them is
    /// a hole. The file's inode is not looked at.
    ///
    /// # Errors
    /// A damaged index, failures of the volume.
    pub fn stored_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>> {
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
        place: NodePos,
        out: &mut [u8; BLOCK_BYTES as usize],
    ) -> Result<()> {
        self.read_block(inode, block, place, out)
    }
}
