//! Orphans: open inodes without a name (Linux: `fs/ubifs/orphan.c`).
//!
//! When a commit adds an inode without links to the index, its number is written to the orphan area, so that it is
//! deleted if power is lost before it is closed. Nodes are appended. When the area is full, the numbers still needed
//! are rewritten from its start, atomically LEB by LEB.

use std::collections::BTreeMap;

use floatgate_media::ubifs::{Group, OrphanNode};

use crate::ubifs::error::{Error, Result, narrow};
use crate::ubifs::io::DynIo;
use crate::ubifs::layout::Layout;

/// Size of an orphan node before the inode numbers, B.
const HEAD_BYTES: u32 = 32;

/// Size of an inode number, B.
const NUMBER_BYTES: u32 = 8;

/// An inode without a name.
#[derive(Clone, Copy, Debug)]
struct Orphan {
    inode: u32,
    /// True if it is in the orphan area.
    written: bool,
}

/// Open inodes without a name, and the orphan area.
#[derive(Clone, Debug)]
pub(crate) struct Orphans {
    /// Orphans in the order in which they lost their names.
    list: BTreeMap<u64, Orphan>,
    /// Keys in the list by inode.
    by_inode: BTreeMap<u32, u64>,
    next: u64,
    /// Position of the next orphan node.
    pub(super) head: (u32, u32),
    /// Maximum number of orphans.
    most: usize,
}

/// Number of inode numbers that fit a node of `bytes`.
const fn numbers_in(bytes: u32) -> u32 {
    bytes.saturating_sub(HEAD_BYTES) / NUMBER_BYTES
}

impl Orphans {
    /// Creates the state without orphans, with an empty orphan area.
    pub(crate) fn new(layout: &Layout) -> Self {
        let area = &layout.limits.orphans;
        // The limit is half the area, so that the orphans can be rewritten in one half and appended in the other.
        let most = area.len() as u64 * u64::from(numbers_in(layout.leb_bytes())) / 2;
        Self {
            list: BTreeMap::new(),
            by_inode: BTreeMap::new(),
            next: 0,
            head: (area.start, 0),
            most: usize::try_from(most).unwrap_or(usize::MAX),
        }
    }

    /// True without orphans.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True if an inode is an orphan.
    pub(crate) fn contains(&self, inode: u32) -> bool {
        self.by_inode.contains_key(&inode)
    }

    /// Adds an inode that lost its last name, unless it is already an orphan.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the orphan area is full.
    pub(crate) fn add(&mut self, inode: u32) -> Result<()> {
        if self.contains(inode) {
            return Ok(());
        }
        if self.list.len() >= self.most {
            return Err(Error::NoSpace);
        }
        self.list.insert(self.next, Orphan { inode, written: false });
        self.by_inode.insert(inode, self.next);
        self.next += 1;
        Ok(())
    }

    /// Removes an inode that was deleted or has a name again.
    pub(crate) fn remove(&mut self, inode: u32) {
        if let Some(place) = self.by_inode.remove(&inode) {
            self.list.remove(&place);
        }
    }

    /// Writes new orphans to the orphan area, as part of a commit with this number.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn commit(&mut self, io: &mut DynIo<'_>, master_commit: u64) -> Result<()> {
        let new = self.list.values().filter(|orphan| !orphan.written);
        let mut numbers: Vec<[u8; 8]> = new.map(number).collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let anew = self.available(io.layout()) < numbers.len() as u64;
        if anew {
            numbers = self.list.values().map(number).collect();
            self.head = (io.layout().limits.orphans.start, 0);
        }
        self.write(io, &numbers, master_commit, anew)?;
        self.list.values_mut().for_each(|orphan| orphan.written = true);
        Ok(())
    }

    /// Number of inode numbers that fit after the head.
    fn available(&self, layout: &Layout) -> u64 {
        let (lnum, offset) = self.head;
        let behind = layout.limits.orphans.end.saturating_sub(lnum + 1);
        let here = numbers_in(layout.leb_bytes().saturating_sub(offset));
        u64::from(behind) * u64::from(numbers_in(layout.leb_bytes())) + u64::from(here)
    }

    /// Writes numbers at the head; atomically LEB by LEB if the old contents are still needed.
    fn write(&mut self, io: &mut DynIo<'_>, numbers: &[[u8; 8]], commit: u64, atomic: bool) -> Result<()> {
        let area = io.layout().limits.orphans.clone();
        let mut rest = numbers;
        while !rest.is_empty() {
            let room = numbers_in(io.layout().leb_bytes().saturating_sub(self.head.1)) as usize;
            if room == 0 {
                self.head = (self.head.0 + 1, 0);
                if !area.contains(&self.head.0) {
                    return Err(Error::corrupt(area.start, 0, "the orphan area is full"));
                }
                continue;
            }
            let (now, later) = rest.split_at(room.min(rest.len()));
            let node = OrphanNode { commit, last: later.is_empty(), inodes: now };
            self.write_node(io, &node, atomic)?;
            rest = later;
        }
        if atomic {
            (self.head.0 + 1..area.end).try_for_each(|lnum| io.unmap(lnum))?;
        }
        Ok(())
    }

    fn write_node(&mut self, io: &mut DynIo<'_>, node: &OrphanNode<'_>, atomic: bool) -> Result<()> {
        let (lnum, offset) = self.head;
        let mut bytes = Vec::new();
        io.append_node(node, Group::None, &mut bytes)?;
        io.pad_to_min_io(&mut bytes);
        if atomic {
            io.change(lnum, &bytes)?;
        } else {
            if offset == 0 {
                io.unmap(lnum)?;
            }
            io.write(lnum, offset, &bytes)?;
        }
        let end = u64::from(offset) + bytes.len() as u64;
        self.head.1 = narrow("orphan node", end.next_multiple_of(8))?;
        Ok(())
    }

    /// Empties the orphan area, after a clean unmount.
    ///
    /// # Errors
    /// Volume failures.
    pub(super) fn clear(io: &mut DynIo<'_>) -> Result<()> {
        let area = io.layout().limits.orphans.clone();
        area.into_iter().try_for_each(|lnum| io.unmap(lnum))
    }
}

fn number(orphan: &Orphan) -> [u8; 8] {
    u64::from(orphan.inode).to_le_bytes()
}
