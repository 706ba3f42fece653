//! Writing files.

use floatgate_media::file::{Compression, FileFlags, FileType};
use floatgate_media::ubifs::{Block, Key, MAX_FILE_BYTES, Truncation};

use super::super::error::{Error, Result, narrow};
use super::super::journal::Change;
use super::super::layout::Head;
use super::super::space::BudgetRequest;
use super::Ubifs;
use super::attributes::set_ctime;
use super::inodes::file_type;
use super::pages::{BLOCK, page_budget};
use super::read::{block_of, compression_of};
use crate::fs::CompressedBlock;
use crate::volume::Volume;

impl Ubifs<dyn Volume> {
    /// Writes to a regular file. The data stays in the cache until [`fsync`](Self::fsync).
    ///
    /// # Errors
    /// Not a regular file, flags that forbid it, too large, no space; volume failures. Data written before the error
    /// stays.
    pub fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset.checked_add(data.len() as u64).filter(|&end| end <= MAX_FILE_BYTES);
        let end = end.ok_or(Error::TooLarge { what: "file", len: offset })?;
        self.writable(inode, offset)?;
        if data.is_empty() {
            return Ok(());
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let skip = (at % BLOCK as u64) as usize;
            let part = (BLOCK - skip).min(data.len() - done);
            self.write_part(inode, block_of(at)?, skip, &data[done..done + part])?;
            done += part;
            self.grow(inode, at + part as u64)?;
        }
        debug_assert_eq!(offset + done as u64, end, "all was written");
        self.after_write(inode)
    }

    fn writable(&mut self, inode: u32, offset: u64) -> Result<()> {
        self.require_writable()?;
        let inode = &self.inode(inode)?.inode;
        if file_type(inode)? != FileType::Regular {
            return Err(Error::Invalid("not a regular file"));
        }
        if inode.flags.contains(FileFlags::ENCRYPTED) {
            return Err(Error::Unsupported("the file is encrypted"));
        }
        let appends = !inode.flags.contains(FileFlags::APPEND) || offset >= inode.size;
        if inode.flags.contains(FileFlags::IMMUTABLE) || !appends {
            return Err(Error::NotPermitted);
        }
        Ok(())
    }

    /// Acquires the budget for writing part of a block, and changes the block. This can write back the whole cache, so
    /// the inode must be marked dirty last, after all budgets are acquired.
    fn write_part(&mut self, inode: u32, block: u32, skip: usize, data: &[u8]) -> Result<()> {
        self.mark_dirty(inode)?;
        if self.pages.get(inode, block).is_none() {
            let place = self.find_block(inode, block)?;
            let mut bytes = Box::new([0; BLOCK]);
            if let Some(place) = place.filter(|_| data.len() < BLOCK) {
                self.read_block(inode, block, place, &mut bytes)?;
            }
            let cost = self.acquire(&page_budget(place.is_none()))?;
            if let Err(error) = self.mark_dirty(inode) {
                self.core.space.withdraw(cost);
                return Err(error);
            }
            self.pages.insert(inode, block, bytes, cost);
        }
        if let Some(page) = self.pages.get_mut(inode, block) {
            page.bytes[skip..skip + data.len()].copy_from_slice(data);
        }
        Ok(())
    }

    /// Updates an inode whose data changes and reaches to `end` at least; the inode is written later.
    fn grow(&mut self, inode: u32, end: u64) -> Result<()> {
        let time = self.time;
        let cached = self.mark_dirty(inode)?;
        cached.inode.size = cached.inode.size.max(end);
        (cached.inode.mtime_s, cached.inode.mtime_ns) = (time.seconds, time.nanoseconds);
        set_ctime(&mut cached.inode, time);
        Ok(())
    }

    fn after_write(&mut self, inode: u32) -> Result<()> {
        if self.behaviour.sync || self.inode(inode)?.inode.flags.contains(FileFlags::SYNC) {
            return self.fsync(inode);
        }
        while self.pages.bytes() > self.behaviour.limits.page_bytes {
            let Some(first) = self.pages.first_inode() else { break };
            self.write_back_inode(first)?;
        }
        Ok(())
    }

    /// Writes all changes to the journal.
    pub(super) fn write_back(&mut self) -> Result<()> {
        while let Some(inode) = self.pages.first_inode() {
            self.write_back_inode(inode)?;
        }
        self.inodes.dirty().into_iter().try_for_each(|inode| self.write_inode(inode))
    }

    /// Writes the changes of one inode to the journal: its blocks, in order, and the inode.
    ///
    /// The inode is written before data that exceeds its size in the journal. Otherwise a power loss could leave data
    /// after the end of the file.
    pub(super) fn write_back_inode(&mut self, inode: u32) -> Result<()> {
        let mut from = 0;
        while let Some(block) = self.pages.next(inode, from) {
            let cached = self.inode(inode)?;
            let end = (u64::from(block) + 1) * BLOCK as u64;
            if cached.inode.size > cached.synced_size && end > cached.synced_size {
                self.write_inode(inode)?;
            }
            self.write_page(inode, block)?;
            from = block.saturating_add(1);
        }
        self.write_inode(inode)
    }

    fn write_page(&mut self, inode: u32, block: u32) -> Result<()> {
        let info = self.inode(inode)?.inode;
        let start = u64::from(block) * BLOCK as u64;
        let len = usize::try_from(info.size.saturating_sub(start)).unwrap_or(BLOCK).min(BLOCK);
        let Some(page) = self.pages.get(inode, block) else { return Ok(()) };
        if len > 0 {
            let mut out = Vec::new();
            let used = self.compressor.compress(compression_of(&info), &page.bytes[..len], &mut out);
            let change = data_change(inode, block, len, used, &out)?;
            self.core.apply(Head::Data, &[change])?;
        }
        if let Some(page) = self.pages.remove(inode, block) {
            self.core.space.release(page.cost());
        }
        Ok(())
    }

    /// Writes compressed blocks of a file, bypassing the cache; the file grows to `size`.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write), and an invalid block.
    pub fn write_compressed(&mut self, inode: u32, size: u64, blocks: &[CompressedBlock<'_>]) -> Result<()> {
        self.writable(inode, size)?;
        self.grow(inode, size)?;
        for block in blocks {
            let change = data_change(inode, block.block, block.size as usize, block.compression, block.data)?;
            let cost = self.acquire(&page_budget(true))?;
            let written = self.core.apply(Head::Data, &[change]);
            self.end_budget(cost, written)?;
        }
        Ok(())
    }

    /// Truncates a file, or extends it by a hole.
    pub(super) fn set_size(&mut self, inode: u32, size: u64) -> Result<()> {
        self.writable(inode, size)?;
        if size > MAX_FILE_BYTES {
            return Err(Error::TooLarge { what: "file", len: size });
        }
        let old = self.inode(inode)?.inode.size;
        if size < old {
            return self.cut(inode, old, size);
        }
        // The bytes after the end of the last block are zeros, on flash and in the cache.
        self.grow(inode, size)
    }

    fn cut(&mut self, inode: u32, old_size: u64, new_size: u64) -> Result<()> {
        let tail = (new_size % BLOCK as u64) as usize;
        let request = BudgetRequest {
            changed_blocks: u32::from(tail != 0),
            changed_inodes: 1,
            changed_inode_bytes: Truncation::SIZE as u32,
            ..BudgetRequest::default()
        };
        // A truncation to 0 bytes frees space, so it is always allowed.
        let cost = if new_size == 0 { self.acquire_if_possible(&request)? } else { self.acquire(&request)? };
        let outcome = self.cut_blocks(inode, old_size, new_size, tail);
        self.end_budget(cost, outcome)?;
        self.sync_if(false)
    }

    fn cut_blocks(&mut self, inode: u32, old_size: u64, new_size: u64, tail: usize) -> Result<()> {
        let last = block_of(new_size)?;
        self.drop_pages(inode, if tail == 0 { last } else { last.saturating_add(1) });
        let mut shortened = Vec::new();
        let mut used = Compression::None;
        if tail != 0 {
            used = self.shorten(inode, last, tail, &mut shortened)?;
        }
        let mut cached = self.inode(inode)?.clone();
        cached.inode.size = new_size;
        (cached.inode.mtime_s, cached.inode.mtime_ns) = (self.time.seconds, self.time.nanoseconds);
        set_ctime(&mut cached.inode, self.time);
        let truncation = Truncation { inode, old_size, new_size };
        let mut changes = vec![Change::Inode(cached.node()), Change::Truncation(truncation)];
        if !shortened.is_empty() {
            changes.push(data_change(inode, last, tail, used, &shortened)?);
        }
        self.core.apply(Head::Base, &changes)?;
        self.written(cached);
        Ok(())
    }

    /// Compresses the new contents of a block that is truncated; empty for a hole.
    fn shorten(&mut self, inode: u32, block: u32, tail: usize, out: &mut Vec<u8>) -> Result<Compression> {
        let mut bytes = [0; BLOCK];
        if let Some(page) = self.pages.remove(inode, block) {
            self.core.space.withdraw(page.cost());
            bytes = *page.bytes;
        } else if let Some(place) = self.find_block(inode, block)? {
            self.read_block(inode, block, place, &mut bytes)?;
        } else {
            return Ok(Compression::None);
        }
        let how = compression_of(&self.inode(inode)?.inode);
        Ok(self.compressor.compress(how, &bytes[..tail], out))
    }
}

fn data_change(inode: u32, block: u32, len: usize, used: Compression, data: &[u8]) -> Result<Change<'_>> {
    let key = Key::data(inode, block).ok_or(Error::TooLarge { what: "file", len: u64::from(block) })?;
    let size = narrow("block", len)?;
    let block = Block { key, size, compression: used, compressed_size: 0 };
    Ok(Change::Data(floatgate_media::ubifs::DataNode { block, data }))
}
