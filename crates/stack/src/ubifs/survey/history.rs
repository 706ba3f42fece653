//! Obsolete nodes, and earlier states of the filesystem.
//!
//! UBIFS writes out of place, and a node stays on flash until its LEB is collected. Sequence numbers order all nodes,
//! so the nodes up to a sequence number form the filesystem at that moment, except for nodes collected since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use floatgate_media::ubifs::{BLOCK_BYTES, KeyType, NODE_ALIGN, ROOT_INODE};

use super::open::{blank, superblock_of};
use super::problem::{Problem, Severity};
use super::scan::{Change, Event, find_events, main_lebs};
use super::{File, Problems, Survey};
use crate::fs::{FileType, NodePos};
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::Io;
use crate::ubifs::mount::superblock;
use crate::ubifs::structure::Structure;
use crate::volume::Volume;

/// A moment in the history of a filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the node with this sequence number.
    Sqnum(u64),
    /// After the last change of an inode at or before this time, in seconds since 1970 on the clock of the machine that
    /// wrote it.
    Time(i64),
}

impl Moment {
    /// Highest sequence number of the nodes at that moment.
    fn end(self, events: &[Event]) -> u64 {
        match self {
            Self::Sqnum(sqnum) => sqnum,
            Self::Time(seconds) => first_after(seconds, events).map_or(u64::MAX, |first| first - 1),
        }
    }

    /// True for a node that proves that the filesystem existed at the moment. For a time, only a node with a timestamp
    /// counts. Image makers give a root directory no timestamp before it has entries.
    fn has_come(self, event: &Event) -> bool {
        match (self, &event.change) {
            (Self::Sqnum(sqnum), _) => event.sqnum <= sqnum,
            (Self::Time(_), Change::Inode { ctime, .. })
                if event.key.inum() == ROOT_INODE && ctime.seconds == 0 =>
            {
                false
            }
            (Self::Time(seconds), Change::Inode { ctime, .. }) => ctime.seconds <= seconds,
            (Self::Time(_), _) => false,
        }
    }
}

/// Sequence number of the first node written after a time; only inodes have timestamps.
fn first_after(seconds: i64, events: &[Event]) -> Option<u64> {
    let is_later =
        |event: &Event| matches!(event.change, Change::Inode { ctime, .. } if ctime.seconds > seconds);
    let at = events.iter().position(is_later)?;
    events.get(begin_of_change(events, at)).map(|event| event.sqnum)
}

/// First node of the change whose inode is at index `at`. Names are written before their inodes, data before or after.
fn begin_of_change(events: &[Event], at: usize) -> usize {
    let inode = events[at].key.inum();
    let is_of_it = |event: &Event| match event.change {
        Change::Entry { .. } | Change::Deletion => true,
        Change::Data { .. } | Change::Truncation { .. } => event.key.inum() == inode,
        Change::Inode { .. } => false,
    };
    let before = &events[..at];
    let begin = before.iter().rposition(|event| !is_of_it(event)).map_or(0, |last| last + 1);
    let follows_own = begin.checked_sub(1).is_some_and(|last| events[last].key.inum() == inode);
    if !follows_own {
        return begin;
    }
    // A write that extends a file follows its inode, and a write that changes it precedes the inode. A truncation
    // follows the inode, together with the last block.
    let mut known: BTreeSet<u32> = data_blocks(&events[..begin], inode).collect();
    let mut is_new = |index: &usize| match (&events[*index].change, &events[index - 1].change) {
        (Change::Data { .. }, Change::Truncation { .. }) | (Change::Truncation { .. }, _) => false,
        (Change::Data { .. }, _) => !known.insert(events[*index].key.block()),
        _ => true,
    };
    (begin..at).find(|index| is_new(index)).unwrap_or(at)
}

/// Blocks of a file for which nodes exist.
fn data_blocks(events: &[Event], inode: u32) -> impl Iterator<Item = u32> {
    let of_file = events.iter().filter(move |event| event.key.inum() == inode);
    of_file.filter(|event| matches!(event.change, Change::Data { .. })).map(|event| event.key.block())
}

impl<V: Volume + 'static> Survey<V> {
    /// Reads the filesystem as it was at a moment. Nothing authenticates an earlier state.
    ///
    /// # Errors
    /// Volume failures; no superblock; no node is that old. The volume is returned.
    pub fn at(mut volume: V, moment: Moment) -> core::result::Result<Self, (Error, V)> {
        let mut problems = Problems::default();
        let found = match superblock_of(&mut volume, &mut problems) {
            Ok(Some((found, _))) => found,
            Ok(None) => {
                let what = problems.list.first().map_or_else(String::new, Problem::description);
                return Err((Error::Superblock(what), volume));
            }
            Err(error) => return Err((error, volume)),
        };
        let layout = match superblock::layout(&found.superblock, found.volume) {
            Ok(layout) => layout,
            Err(error) => return Err((error, volume)),
        };
        let end = volume.geometry().lebs;
        let mut survey = blank(Io::new(volume, Arc::new(layout), true), end..end, problems);
        survey.superblock = Some(found.stored);
        survey.is_past = true;
        match survey.go_back(moment) {
            Ok(()) => Ok(survey),
            Err(error) => Err((error, survey.into_volume())),
        }
    }
}

impl Survey<dyn Volume> {
    /// Events of all remaining nodes, the oldest first.
    ///
    /// # Errors
    /// Volume failures.
    pub fn history(&mut self) -> Result<Vec<Event>> {
        let main = main_lebs(&mut self.io);
        find_events(&mut self.io, main)
    }

    /// True if no newer node replaces a node.
    #[must_use]
    pub fn is_live(&self, event: &Event) -> bool {
        let Some(file) = self.tree.files.get(&event.key.inum()) else { return false };
        let is_it = |place: NodePos| (place.lnum, place.offset) == (event.place.lnum, event.place.offset);
        match &event.change {
            Change::Inode { .. } => is_it(file.place),
            Change::Data { .. } => file.blocks.get(&event.key.block()).is_some_and(|data| is_it(data.place)),
            Change::Entry { name, child: Some(_) } => {
                let is_xattr = event.key.key_type() == KeyType::XattrEntry;
                let names = if is_xattr { &file.xattrs } else { &file.entries };
                names.get(&**name).is_some_and(|child| is_it(child.place))
            }
            Change::Entry { child: None, .. } | Change::Deletion | Change::Truncation { .. } => false,
        }
    }

    /// Builds the tree at a moment.
    fn go_back(&mut self, moment: Moment) -> Result<()> {
        let events = self.history()?;
        let end = moment.end(&events);
        let (then, later) = events.split_at(events.partition_point(|event| event.sqnum <= end));
        if !then.iter().any(|event| moment.has_come(event)) {
            return Err(Error::NothingThatOld);
        }
        then.iter().for_each(|event| self.tree.apply(event));
        self.find_later_inodes(later);
        self.read_inodes()?;
        self.miss_blocks(later);
        self.doubt_holes(&events, later);
        self.check_names();
        Ok(())
    }

    /// Replaces missing inodes of files by the next newer ones.
    fn find_later_inodes(&mut self, later: &[Event]) {
        for event in later {
            let inode = event.key.inum();
            let is_inode = matches!(event.change, Change::Inode { .. });
            let Some(file) = self.tree.files.get_mut(&inode).filter(|file| is_inode && file.place.len == 0)
            else {
                continue;
            };
            (file.place, file.sqnum, file.outdated) = (event.place, event.sqnum, true);
            // The counts in this inode belong to a later moment.
            file.incomplete = true;
            let what = format!("owner, times and size are those of a later moment, {}", event.sqnum);
            let problem = Problem::new(Severity::Damaged, Structure::Inode, what, ERASED);
            self.problems.add(problem.inode(inode));
        }
    }

    /// Records the blocks that a file has later, but of which no node before the moment remains.
    fn miss_blocks(&mut self, later: &[Event]) {
        let mut missing: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for event in later {
            let (inode, block) = (event.key.inum(), event.key.block());
            let Some(file) = self.tree.files.get_mut(&inode) else { continue };
            let size = file.inode.map_or(0, |inode| inode.size);
            let is_data = matches!(event.change, Change::Data { .. });
            let is_inside = u64::from(block) * u64::from(BLOCK_BYTES) < size;
            if is_data && is_inside && !file.blocks.contains_key(&block) {
                file.lost_blocks.insert(block);
                missing.entry(inode).or_default().insert(block);
            }
        }
        for (inode, blocks) in missing {
            let first = blocks.first().copied().unwrap_or(0);
            let what = format!(
                "of {} of its blocks there are only data of later moments, the first of them block {first}",
                blocks.len()
            );
            let problem = Problem::new(Severity::Damaged, Structure::Data, what, ERASED);
            self.problems.add(problem.inode(inode));
        }
    }
}

impl Survey<dyn Volume> {
    /// Records blocks without nodes in files that were deleted or truncated later: garbage collection may have erased
    /// them. A file that still exists has kept all of its blocks.
    fn doubt_holes(&mut self, events: &[Event], later: &[Event]) {
        let cut: BTreeSet<u32> = later
            .iter()
            .filter(|event| matches!(event.change, Change::Deletion | Change::Truncation { .. }))
            .map(|event| event.key.inum())
            .collect();
        let kept = named_at_the_end(events);
        for (&inode, file) in &mut self.tree.files {
            let is_regular = file.inode.is_some_and(|inode| inode.file_type() == Some(FileType::Regular));
            // The value of an extended attribute is in its inode, so it has no blocks.
            let has_blocks = is_regular && file.attached.is_empty();
            if !has_blocks || (kept.contains(&inode) && !cut.contains(&inode)) {
                continue;
            }
            let size = file.inode.map_or(0, |inode| inode.size);
            let blocks = u32::try_from(size.div_ceil(u64::from(BLOCK_BYTES))).unwrap_or(u32::MAX);
            let holes = file.doubtful_blocks(blocks);
            if holes > 0 {
                let what = format!(
                    "of {holes} of its blocks nothing is there: they were holes, or were erased since"
                );
                let problem = Problem::new(Severity::Damaged, Structure::Data, what, ERASED);
                self.problems.add(problem.inode(inode));
            }
        }
    }
}

impl File {
    /// Number of blocks below `end` without a node that may have had data. If the nodes of the blocks before and after
    /// are adjacent, nothing was written between them.
    fn doubtful_blocks(&self, end: u32) -> u32 {
        let (mut doubtful, mut next, mut before) = (0, 0, None);
        for (&block, data) in self.blocks.range(..end) {
            let is_beside = |before: NodePos| {
                let behind = before.offset + before.len.next_multiple_of(NODE_ALIGN);
                (before.lnum, behind) == (data.place.lnum, data.place.offset)
            };
            if !before.is_some_and(is_beside) {
                doubtful += self.unknown(next..block);
            }
            (next, before) = (block + 1, Some(data.place));
        }
        doubtful + self.unknown(next..end)
    }

    /// Number of blocks in a range that are not known to be lost.
    fn unknown(&self, range: std::ops::Range<u32>) -> u32 {
        (range.end - range.start) - self.lost_blocks.range(range).count() as u32
    }
}

/// Inodes that had a name when the last node was written.
fn named_at_the_end(events: &[Event]) -> BTreeSet<u32> {
    let mut names: BTreeMap<(u32, &[u8]), Option<u32>> = BTreeMap::new();
    for event in events {
        if let Change::Entry { name, child } = &event.change
            && event.key.key_type() != KeyType::XattrEntry
        {
            names.insert((event.key.inum(), name), child.as_ref().map(|child| child.inode));
        }
    }
    names.into_values().flatten().collect()
}

const ERASED: &str = "garbage collection has erased what there was, if it was written already";
