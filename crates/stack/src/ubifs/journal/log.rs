//! The log: list of the LEBs in the journal ("buds") with their start offsets (Linux: `fs/ubifs/log.c`).
//!
//! The log is a ring of LEBs. A commit starts in an empty one, with a commit start node and references to the LEBs that
//! heads continue to write. Every LEB that a head takes later adds a reference. After the commit, the LEBs before its
//! start are free. A reference is written before the first node in its LEB, so that a mount finds all nodes.

use std::collections::{BTreeMap, BTreeSet};

use floatgate_media::ubifs::{CommitStart, Group, LOG_LEB, Node, Reference};

use super::super::error::{Error, Result, narrow};
use super::super::io::DynIo;
use super::super::layout::{Head, Layout};
use super::super::scan::scan;
use super::Room;

/// A LEB of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bud {
    /// Head that writes or wrote it.
    pub(crate) head: Head,
    /// Offset at which the journal starts in it; nodes before are in the committed index.
    pub(crate) start: u32,
}

/// Position of the next node of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    /// Number of the LEB.
    pub(crate) lnum: u32,
    /// Offset in the LEB, a multiple of the minimum I/O size.
    pub(crate) offset: u32,
}

/// Buds and the log area.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    buds: BTreeMap<u32, Bud>,
    /// Bytes in buds from their start to the end of the LEB, including buds of the running commit.
    bytes: u64,
    head: LogPosition,
    /// LEB in which the last commit started.
    tail: u32,
    limits: JournalLimits,
    /// True if no log is written, because the filesystem does not exist before its first commit.
    deferred: bool,
    /// Buds that a running commit adds to the index; they stay taken until its end.
    retired: Vec<u32>,
    /// Bytes of buds that the running commit adds to the index.
    retired_bytes: u64,
    /// Inodes whose last node in the journal is their deletion.
    pub(crate) deletions: BTreeSet<u32>,
}

/// Limits of the journal size, as bytes of buds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JournalLimits {
    /// Size that forces a commit.
    most: u64,
    /// Size from which a commit is due.
    due: u64,
}

impl JournalLimits {
    /// Limits as in `init_constants_sb`: a commit is due at 13/16, and there is room for a LEB per head regardless of
    /// the superblock.
    fn new(layout: &Layout, most: u64) -> Self {
        let leb = u64::from(layout.leb_bytes());
        let least = (u64::from(layout.limits.heads) + 1) * leb + 1;
        Self { most: most.max(least + leb), due: ((most * 13) >> 4).max(least) }
    }
}

impl Log {
    /// Empty log that starts in an empty LEB.
    pub(crate) fn new(layout: &Layout, tail: u32) -> Self {
        Self {
            buds: BTreeMap::new(),
            bytes: 0,
            head: LogPosition { lnum: tail, offset: 0 },
            tail,
            limits: JournalLimits::new(layout, layout.superblock.max_journal_bytes),
            deferred: false,
            retired: Vec::new(),
            retired_bytes: 0,
            deletions: BTreeSet::new(),
        }
    }

    /// Log of a filesystem that is being built: until the first commit nothing is written to the log, and the journal
    /// is unlimited.
    pub(crate) fn deferred(layout: &Layout) -> Self {
        Self { deferred: true, ..Self::new(layout, LOG_LEB) }
    }

    /// Buds by LEB.
    pub(crate) const fn buds(&self) -> &BTreeMap<u32, Bud> {
        &self.buds
    }

    /// Bytes in buds from their start to the end of the LEB.
    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Position of the next node of the log.
    pub(crate) const fn head(&self) -> LogPosition {
        self.head
    }

    /// LEB in which the last commit started.
    pub(crate) const fn tail(&self) -> u32 {
        self.tail
    }

    /// True if nothing is written to the log before the first commit.
    pub(crate) const fn is_deferred(&self) -> bool {
        self.deferred
    }

    /// Sets the end of the log after a mount has read it.
    pub(crate) const fn set_head(&mut self, head: LogPosition) {
        self.head = head;
    }

    /// Adds a LEB to the journal whose reference is on flash.
    pub(crate) fn add_bud(&mut self, layout: &Layout, lnum: u32, bud: Bud) {
        let before = self.buds.insert(lnum, bud);
        debug_assert!(before.is_none(), "a bud is added twice");
        self.bytes += u64::from(layout.leb_bytes().saturating_sub(bud.start));
    }

    /// True if the journal is so full that a commit is due. Linux has a thread for it; here the next operation that
    /// needs a LEB commits first.
    pub(crate) const fn is_commit_due(&self) -> bool {
        !self.deferred && self.bytes >= self.limits.due
    }

    /// Limits the journal only by the log area from now on, for changes that a power cut reverts completely.
    pub(crate) const fn lift_limit(&mut self) {
        self.limits = JournalLimits { most: u64::MAX, due: u64::MAX };
    }

    #[cfg(test)]
    pub(super) fn limit(&mut self, layout: &Layout, most: u64) {
        self.limits = JournalLimits::new(layout, most);
    }

    /// True if the log would reach its own start in the next LEB: no commit can start before the log is
    /// [consolidated](Self::consolidate).
    pub(crate) fn is_full(&self, layout: &Layout) -> bool {
        next_leb(layout, self.head.lnum) == self.tail
    }

    /// Unused bytes of the log.
    fn empty_bytes(&self, layout: &Layout) -> u64 {
        let leb = u64::from(layout.leb_bytes());
        let head = u64::from(self.head.lnum) * leb + u64::from(self.head.offset);
        let tail = u64::from(self.tail) * leb;
        let all = layout.limits.log.len() as u64 * leb;
        match head.cmp(&tail) {
            core::cmp::Ordering::Greater => all.saturating_sub(head - tail),
            core::cmp::Ordering::Less => tail - head,
            core::cmp::Ordering::Equal if self.head.lnum == self.tail => all,
            core::cmp::Ordering::Equal => 0,
        }
    }

    /// Adds a LEB to the journal and writes its reference. The write buffers must be synced before, because otherwise
    /// recovery would consider the end of the previous LEB damaged.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn reference(&mut self, io: &mut DynIo<'_>, lnum: u32, bud: Bud) -> Result<Room<()>> {
        let layout = io.layout().clone();
        if !self.deferred {
            if !self.has_room(&layout, bud.start) {
                return Ok(Room::CommitFirst);
            }
            self.write_reference(io, &layout, lnum, bud)?;
        }
        self.add_bud(&layout, lnum, bud);
        Ok(Room::Ready(()))
    }

    /// True if a bud can be added and a commit can still start afterwards.
    fn has_room(&self, layout: &Layout, start: u32) -> bool {
        let leb = u64::from(layout.leb_bytes());
        let log = self.empty_bytes(layout) >= leb + u64::from(reference_bytes(layout));
        log && self.bytes + leb - u64::from(start) <= self.limits.most
    }

    fn write_reference(&mut self, io: &mut DynIo<'_>, layout: &Layout, lnum: u32, bud: Bud) -> Result<()> {
        if self.head.offset + reference_bytes(layout) > layout.leb_bytes() {
            self.head = LogPosition { lnum: next_leb(layout, self.head.lnum), offset: 0 };
        }
        if self.head.offset == 0 {
            io.unmap(self.head.lnum)?;
        }
        if bud.start == 0 {
            // An unmapped LEB may not be erased yet: after a power cut it could reappear with its old contents.
            io.map(lnum)?;
        }
        self.head.offset = io.write_node(&reference(lnum, bud), self.head.lnum, self.head.offset)?;
        Ok(())
    }

    /// Writes the start of a commit: its number, and references to the LEBs that heads continue to write, from their
    /// current offsets. All other buds are retired. The heads must be synced.
    ///
    /// # Errors
    /// A full log; volume failures.
    pub(crate) fn start_commit(&mut self, io: &mut DynIo<'_>, commit: u64) -> Result<()> {
        let layout = io.layout().clone();
        if self.head.offset > 0 {
            self.head = LogPosition { lnum: next_leb(&layout, self.head.lnum), offset: 0 };
            if self.head.lnum == self.tail {
                return Err(Error::corrupt(self.tail, 0, "the log is full"));
            }
        }
        let open = open_buds(io);
        let mut out = Vec::new();
        io.append_node(&CommitStart { commit }, Group::None, &mut out)?;
        for &(lnum, bud) in &open {
            io.append_node(&reference(lnum, bud), Group::None, &mut out)?;
        }
        io.pad_to_min_io(&mut out);
        io.unmap(self.head.lnum)?;
        io.write(self.head.lnum, 0, &out)?;
        self.head.offset = narrow("log", out.len())?;
        self.retire_buds(&layout, &open);
        self.deletions.clear();
        self.deferred = false;
        Ok(())
    }

    /// Keeps the buds that heads continue to write, from their current offsets; the others are retired until the end of
    /// the commit.
    fn retire_buds(&mut self, layout: &Layout, open: &[(u32, Bud)]) {
        let leb = layout.leb_bytes();
        let kept: BTreeMap<u32, Bud> = open.iter().copied().collect();
        let bytes_of = |buds: &BTreeMap<u32, Bud>| -> u64 {
            buds.values().map(|bud| u64::from(leb.saturating_sub(bud.start))).sum()
        };
        self.retired.extend(self.buds.keys().filter(|lnum| !kept.contains_key(lnum)));
        self.retired_bytes = self.bytes.saturating_sub(bytes_of(&kept));
        self.buds = kept;
    }

    /// Rewrites the log from its tail, without repeated references and interrupted commits, so that a commit can start
    /// again. Every LEB is replaced atomically, and the old ones contain only duplicates.
    ///
    /// # Errors
    /// A damaged log, or one that stays full; volume failures.
    pub(crate) fn consolidate(&mut self, io: &mut DynIo<'_>) -> Result<()> {
        let layout = io.layout().clone();
        let mut position = LogPosition { lnum: self.tail, offset: 0 };
        let mut out = Vec::new();
        for node in collect_log(io, self.tail, self.head.lnum)? {
            if out.len() + node.len() > layout.leb_bytes() as usize {
                write_log_leb(io, position.lnum, &mut out)?;
                position.lnum = next_leb(&layout, position.lnum);
            }
            out.extend_from_slice(&node);
        }
        position.offset = write_log_leb(io, position.lnum, &mut out)?;
        if position.lnum == self.head.lnum {
            return Err(Error::corrupt(position.lnum, 0, "the log is full of references"));
        }
        let mut lnum = position.lnum;
        while lnum != self.head.lnum {
            lnum = next_leb(&layout, lnum);
            io.unmap(lnum)?;
        }
        self.head = position;
        Ok(())
    }

    /// Moves the start of the log to the commit, whose master node is on flash. Returns the buds that left the journal.
    ///
    /// # Errors
    /// Volume failures.
    pub(crate) fn end_commit(&mut self, io: &mut DynIo<'_>) -> Result<Vec<u32>> {
        let layout = io.layout().clone();
        self.bytes -= core::mem::take(&mut self.retired_bytes);
        let start = self.head.lnum;
        while self.tail != start {
            io.unmap(self.tail)?;
            self.tail = next_leb(&layout, self.tail);
        }
        Ok(core::mem::take(&mut self.retired))
    }
}

/// Nodes of the log to keep, unchanged: the first commit start, and every reference once.
///
/// # Errors
/// A damaged log; volume failures.
fn collect_log(io: &mut DynIo<'_>, tail: u32, head: u32) -> Result<Vec<Vec<u8>>> {
    let layout = io.layout().clone();
    let mut seen = BTreeSet::new();
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut lnum = tail;
    loop {
        let leb = scan(io, lnum, 0)?;
        for scanned in &leb.nodes {
            let frame = leb.frame(scanned)?;
            let offset = scanned.place.offset;
            let keep = match frame.node().map_err(|source| Error::node(lnum, offset, source))? {
                Node::Reference(node) => seen.insert(node.lnum),
                Node::CommitStart(_) => kept.is_empty(),
                _ => return Err(Error::corrupt(lnum, offset, "a node that has no place in the log")),
            };
            if keep {
                kept.push(frame.as_bytes().to_vec());
            }
        }
        if lnum == head {
            return Ok(kept);
        }
        lnum = next_leb(&layout, lnum);
    }
}

/// Replaces a LEB of the log and returns the offset of its next node.
fn write_log_leb(io: &mut DynIo<'_>, lnum: u32, out: &mut Vec<u8>) -> Result<u32> {
    io.pad_to_min_io(out);
    io.change(lnum, out)?;
    let end = narrow("log", out.len())?;
    out.clear();
    Ok(end)
}

/// LEBs that heads write, with their current offsets. A head whose LEB is full loses it.
fn open_buds(io: &mut DynIo<'_>) -> Vec<(u32, Bud)> {
    for head in Head::ALL {
        if io.head_room(head) == 0 {
            io.park_head(head);
        }
    }
    let open = Head::ALL.into_iter().filter_map(|head| {
        let buffer = io.buffer(head);
        buffer.lnum().map(|lnum| (lnum, Bud { head, start: buffer.position() }))
    });
    open.collect()
}

const fn reference(lnum: u32, bud: Bud) -> Reference {
    Reference { lnum, offset: bud.start, head: bud.head as u32 }
}

/// Size of a reference in the log, B.
const fn reference_bytes(layout: &Layout) -> u32 {
    let len = Reference::SIZE as u32;
    len.next_multiple_of(layout.min_io_bytes())
}

/// Next LEB in the ring of the log.
pub(crate) const fn next_leb(layout: &Layout, lnum: u32) -> u32 {
    let log = &layout.limits.log;
    if lnum + 1 >= log.end { log.start } else { lnum + 1 }
}
