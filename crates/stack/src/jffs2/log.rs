//! Writing nodes: free space, positions, the write buffer, summaries.

use super::Jffs2;
use super::blocks::{Owner, RawNodeRef};
use crate::fs::{Error, Result};
use floatgate_media::jffs2::{Entry, Header, NODE_ALIGN, NodeType, Summary, emit_summary};
use floatgate_mtd::{ErrorKind, Mtd};

/// Purpose of a node, which decides how much reserved space it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Adds data.
    Change,
    /// A deletion or a change of attributes, which also works on a full flash (Linux: `ALLOC_DELETION`).
    Deletion,
}

/// Maximum number of eraseblocks that fail in sequence before a write fails.
const FAILURES_MAX: u32 = 8;

/// Maximum number of eraseblocks collected for one write, as a multiple of their total number.
const ROUNDS: u32 = 2;

/// True if the failure is limited to one eraseblock, so that another one may work: a page cannot be programmed, or
/// a power loss interrupted an erase.
const fn is_of_the_block(error: &floatgate_mtd::Error) -> bool {
    matches!(error.kind, ErrorKind::ProgramFailed | ErrorKind::NotErased)
}

impl Jffs2<dyn Mtd> {
    /// Collects garbage until there is space (Linux: `jffs2_reserve_space`).
    ///
    /// # Errors
    /// [`Error::NoSpace`]; flash failures.
    pub(super) fn reserve(&mut self, purpose: Purpose) -> Result<()> {
        let deletion = self.blocks.reserved_for_deletion();
        let needed = match purpose {
            Purpose::Change => self.blocks.reserved_for_writing(),
            Purpose::Deletion => deletion,
        };
        let erase = u64::from(self.blocks.erase_bytes);
        let mut rounds = ROUNDS * self.blocks.list.len() as u32;
        loop {
            let totals = self.blocks.totals();
            if totals.ready >= needed {
                return Ok(());
            }
            if self.check_next()? {
                continue;
            }
            let can_be_had = totals.dirty >= self.blocks.least_dirt()
                && (totals.free + totals.dirty + totals.to_erase) / erase > u64::from(needed);
            if !can_be_had || rounds == 0 {
                let may = purpose == Purpose::Deletion && totals.ready >= deletion;
                return if may { Ok(()) } else { Err(Error::NoSpace) };
            }
            if self.collect()? {
                rounds -= 1;
            }
        }
    }

    /// Maximum size of the next node: in the open eraseblock, or in a new one if fewer than `least` bytes remain.
    pub(super) fn room(&self, least: u32, entry: u32) -> u32 {
        let beside = if self.options.summaries { Summary::BESIDE_LIST as u32 + entry } else { 0 };
        let used = if self.is_listed { self.listed.1.len() as u32 } else { 0 };
        let here = self.blocks.room().saturating_sub(if self.is_listed { beside + used } else { 0 });
        if here >= least {
            return here;
        }
        (self.blocks.erase_bytes - self.blocks.marker_bytes).saturating_sub(beside)
    }

    /// Appends a node and returns its position. `entry` is its summary entry without the offset.
    ///
    /// # Errors
    /// No eraseblock is free; flash failures.
    pub(super) fn write_node(&mut self, node: &[u8], owner: Owner, entry: Entry<'_>) -> Result<u32> {
        let len = (node.len() as u32).next_multiple_of(NODE_ALIGN);
        let mut failures = 0;
        loop {
            let at = self.place_for(len, entry.size() as u32)?;
            match self.put(at, node, len) {
                Ok(()) => {
                    self.blocks.add(at, len, owner);
                    self.list(at, entry);
                    return Ok(at);
                }
                Err(error) if is_of_the_block(&error) && failures < FAILURES_MAX => {
                    failures += 1;
                    self.flash.now = error.at;
                    self.leave_failed_block(at)?;
                }
                Err(error) => return Err(self.fail(&error)),
            }
        }
    }

    fn put(&mut self, at: u32, node: &[u8], len: u32) -> core::result::Result<(), floatgate_mtd::Error> {
        if self.flash.page() == 1 || node.len() == len as usize {
            return self.flash.append(u64::from(at), node);
        }
        let mut padded = node.to_vec();
        padded.resize(len as usize, 0xFF);
        self.flash.append(u64::from(at), &padded)
    }

    /// Position with room for `len` bytes; closes the open eraseblock if it has not enough room.
    fn place_for(&mut self, len: u32, entry: u32) -> Result<u32> {
        if self.blocks.open.is_none() || !self.fits_here(len, entry) {
            self.end_block()?;
            while !self.blocks.open_next() {
                if !self.erase_next()? {
                    return Err(Error::NoSpace);
                }
            }
            self.is_listed = self.options.summaries;
            self.listed = (0, Vec::new());
        }
        let Some(open) = self.blocks.open.filter(|_| self.fits_here(len, entry)) else {
            return Err(Error::TooLarge { what: "node", len: u64::from(len) });
        };
        Ok(self.blocks.start(open) + self.blocks.get(open).end)
    }

    fn fits_here(&self, len: u32, entry: u32) -> bool {
        let summary =
            if self.is_listed { Summary::BESIDE_LIST as u32 + self.listed.1.len() as u32 + entry } else { 0 };
        len.saturating_add(summary) <= self.blocks.room()
    }

    fn list(&mut self, at: u32, entry: Entry<'_>) {
        if !self.is_listed {
            return;
        }
        let offset = at % self.blocks.erase_bytes;
        let entry = match entry {
            Entry::Inode { inode, version, len, .. } => Entry::Inode { inode, version, offset, len },
            Entry::Dirent { parent, version, inode, dirent_type, len, name, .. } => {
                Entry::Dirent { parent, version, inode, dirent_type, offset, len, name }
            }
            Entry::Xattr { xid, version, len, .. } => Entry::Xattr { xid, version, offset, len },
            Entry::Xref { .. } => Entry::Xref { offset },
        };
        let (count, list) = &mut self.listed;
        let from = list.len();
        list.resize(from + entry.size(), 0);
        entry.emit(self.endian, &mut list[from..]);
        *count += 1;
    }

    /// Closes the open eraseblock of a file if no summary states the size of eraseblocks yet.
    pub(super) fn state_size(&mut self) -> Result<()> {
        let is_stated = !self.options.summaries || !self.options.stable || !self.summarized.is_empty();
        if is_stated { Ok(()) } else { self.end_block() }
    }

    /// Writes the summary of the open eraseblock, or padding up to its end, and flushes the write buffer.
    fn end_block(&mut self) -> Result<()> {
        let Some(open) = self.blocks.open else { return Ok(()) };
        let (start, end) = (self.blocks.start(open), self.blocks.get(open).end);
        let (count, list) = std::mem::take(&mut self.listed);
        let room = self.blocks.room();
        let mut last = Vec::new();
        // Pages that a sync padded may have left too few bytes for a summary.
        let fits = list.len() + Summary::BESIDE_LIST <= room as usize;
        let has_summary = std::mem::take(&mut self.is_listed) && count > 0 && fits;
        if has_summary {
            last.resize(room as usize, 0xFF);
            emit_summary((count, &list), self.blocks.marker_bytes, end, self.endian, &mut last);
        } else if room as usize >= Header::SIZE {
            // The padding shows the next mount that this eraseblock is closed for writing.
            last.resize(Header::SIZE, 0);
            Header::new(NodeType::Padding, room).emit(self.endian, &mut last);
        }
        if !last.is_empty() {
            match self.flash.append(u64::from(start + end), &last) {
                Ok(()) => {}
                Err(error) if is_of_the_block(&error) => {
                    self.flash.now = error.at;
                    return self.leave_failed_block(start + end);
                }
                Err(error) => return Err(self.fail(&error)),
            }
        }
        self.flush()?;
        self.blocks.close();
        if has_summary {
            self.summarized.insert(open);
        }
        Ok(())
    }

    /// Pads and writes the buffered page.
    ///
    /// # Errors
    /// Flash failures.
    pub(super) fn flush(&mut self) -> Result<()> {
        let mut failures = 0;
        loop {
            let waiting = self.flash.waiting();
            match self.flash.flush(self.endian) {
                Ok(filled) => {
                    self.blocks.waste(filled);
                    return Ok(());
                }
                Err(error) if is_of_the_block(&error) && failures < FAILURES_MAX => {
                    failures += 1;
                    self.flash.now = error.at;
                    let at = waiting.unwrap_or(error.addr);
                    // A flash has at most 4 GiB, so the offset fits.
                    self.leave_failed_block(at as u32)?;
                }
                Err(error) => return Err(self.fail(&error)),
            }
        }
    }

    /// Abandons the open eraseblock after a failed program; buffered data is written elsewhere.
    fn leave_failed_block(&mut self, at: u32) -> Result<()> {
        let from = self.flash.waiting().map_or(at, |waiting| waiting as u32);
        let mut saved: Vec<(RawNodeRef, Vec<u8>)> = Vec::new();
        for node in self.blocks.beyond(from) {
            let mut bytes = vec![0; node.len as usize];
            self.flash.read(u64::from(node.at), &mut bytes).map_err(|error| self.fail(&error))?;
            saved.push((node, bytes));
        }
        self.flash.drop_waiting();
        self.is_listed = false;
        self.blocks.close();
        for (node, bytes) in saved {
            self.move_node(node, &bytes)?;
        }
        Ok(())
    }

    /// Erases an eraseblock without live nodes; false if there are none.
    ///
    /// # Errors
    /// Flash failures, except of the erase itself: then the eraseblock is marked bad.
    pub(super) fn erase_next(&mut self) -> Result<bool> {
        let Some(number) = self.blocks.next_to_erase() else { return Ok(false) };
        self.erase_block(number)?;
        Ok(true)
    }

    /// Erases an eraseblock; one that cannot be erased is marked bad.
    pub(super) fn erase_block(&mut self, number: u32) -> Result<()> {
        // The nodes that replace those of this eraseblock may still be in the write buffer.
        self.flush()?;
        let at = u64::from(self.blocks.start(number));
        for node in self.blocks.get(number).nodes.clone() {
            if let Owner::Dirent(parent) = node.owner {
                self.names.erased(parent, node.at);
            }
        }
        match self.flash.erase(at, self.endian) {
            Ok(()) => {
                self.summarized.remove(&number);
                self.collector.emptied(number);
                self.blocks.erased(number);
            }
            Err(error)
                if matches!(
                    error.kind,
                    ErrorKind::EraseFailed | ErrorKind::ProgramFailed | ErrorKind::BadBlock
                ) =>
            {
                self.flash.now = error.at;
                let marked = self.flash.mark_bad(at);
                if let Err(error) = marked.as_ref()
                    && !matches!(error.kind, ErrorKind::Unsupported(_) | ErrorKind::ProgramFailed)
                {
                    return Err(self.fail(error));
                }
                self.blocks.bad(number);
            }
            Err(error) => return Err(self.fail(&error)),
        }
        Ok(())
    }

    /// Switches to read-only after a flash failure.
    pub(super) fn fail(&mut self, error: &floatgate_mtd::Error) -> Error {
        self.flash.now = self.flash.now.max(error.at);
        let error = super::filesystem::failed(error);
        self.failure.get_or_insert_with(|| error.clone());
        error
    }
}
