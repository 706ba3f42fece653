//! Reading damaged filesystems piece by piece: damaged parts do not prevent reading the others.

use floatgate_media::file::{FileFlags, FileType};
use floatgate_media::ubifs::{BLOCK_BYTES, Key, KeyType};

use super::super::error::{Error, Result};
use super::super::layout::NodePos;
use super::super::scan::scan;
use super::{Ubifs, read::LAST_BLOCK};
use crate::fs::DirEntry;
use crate::volume::Volume;

impl Ubifs<dyn Volume> {
    /// All readable names in a directory in the order of their hashes, and the errors of the others. The directory's
    /// inode is not read.
    ///
    /// # Errors
    /// A damaged index, without which the names are unknown; volume failures.
    pub fn readable_entries(&mut self, directory: u32) -> Result<(Vec<DirEntry>, Vec<Error>)> {
        let encrypted = self.is_encrypted(directory)?;
        let (mut entries, damage) = self.readable_names(directory, KeyType::Entry, !encrypted)?;
        entries.iter_mut().for_each(|entry| entry.encrypted = encrypted);
        Ok((entries, damage))
    }

    /// True if names in a directory are encrypted; false if its inode is unreadable.
    fn is_encrypted(&mut self, directory: u32) -> Result<bool> {
        match self.attributes(directory) {
            Ok(attributes) => Ok(attributes.is_encrypted()),
            Err(error) if error.is_damage() || error == Error::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// All readable names of extended attributes, and the errors of the others.
    ///
    /// # Errors
    /// The errors of [`readable_entries`](Self::readable_entries).
    pub fn readable_xattrs(&mut self, inode: u32) -> Result<(Vec<Vec<u8>>, Vec<Error>)> {
        let (entries, damage) = self.readable_names(inode, KeyType::XattrEntry, true)?;
        Ok((entries.into_iter().map(|entry| entry.name).collect(), damage))
    }

    /// Readable names. A name that is not found by its own hash is returned and reported as damage. `hashed` is true if
    /// names are not encrypted.
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

    /// Journal LEBs that are not mapped. UBIFS maps them before it writes to them, so their contents are lost.
    ///
    /// # Errors
    /// Volume failures.
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

    /// First inode in the index with number `from` or higher.
    ///
    /// # Errors
    /// A damaged index, volume failures.
    pub fn stored_inode(&mut self, from: u32) -> Result<Option<u32>> {
        let mut leaves = Vec::new();
        let (from, to) = (Key::inode(from), Key::from_bits(u64::MAX));
        self.core.tnc.leaves(&mut self.core.io, from, to, 1, &mut leaves)?;
        Ok(leaves.first().map(|(key, _)| key.inum()))
    }

    /// True if the index contains nodes of an inode that contradict its type or size. These are data of a file that is
    /// not regular, data after its end, or names in a file that is not a directory.
    ///
    /// # Errors
    /// The inode is damaged or missing; a damaged index, volume failures.
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

    /// Positions of damage at the end of the log, and at the ends of journal LEBs, as left by power cuts. Data after
    /// them is ignored. The log may have listed further LEBs there.
    ///
    /// # Errors
    /// Volume failures.
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

    /// Blocks of a file on flash with their positions, from `block` on, in order, at most `max`. The blocks between
    /// them are holes. The file's inode is not read.
    ///
    /// # Errors
    /// A damaged index, volume failures.
    pub fn stored_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>> {
        let (Some(from), Some(to)) = (Key::data(inode, block), Key::data(inode, LAST_BLOCK)) else {
            return Ok(Vec::new());
        };
        let mut leaves = Vec::new();
        self.core.tnc.leaves(&mut self.core.io, from, to, max, &mut leaves)?;
        Ok(leaves.into_iter().map(|(key, place)| (key.block(), place)).collect())
    }

    /// Reads and decompresses a block of an unencrypted file, padded with zeros.
    ///
    /// # Errors
    /// Damage; volume failures.
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
