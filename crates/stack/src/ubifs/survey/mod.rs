//! Everything that a filesystem, damaged or not, still says, and everything that is wrong with it.
//!
//! A survey only reads. In the order it goes:
//!
//! - `open`: the superblock, and a mount that goes on behind damage and notes it; `journal`: what damage there costs;
//! - `leaves`: the nodes that the index leads to, each read and checked, into a [`Tree`] of files;
//! - `scan`: a search of all LEBs for what the index does not lead to any more, if something is missing;
//! - `names`: what names and inodes say of each other;
//! - `space`: LEB properties and free space;
//! - `history`: nodes that newer ones have replaced, and the filesystem as it was before that.

mod files;
mod history;
mod journal;
mod leaves;
mod names;
mod open;
mod problem;
mod scan;
mod space;
mod tree;

use core::ops::Range;
use std::collections::BTreeSet;

use floatgate_media::file::Compression;
use floatgate_media::ubifs::{Frame, Key, Node, NodeType, Superblock};

use super::auth::Authenticate;
use super::compress::Decompressor;
use super::error::{Error, Result};
use super::io::Io;
use super::layout::NodePos;
use super::mount::MasterState;
use super::structure::Structure;
use crate::volume::Volume;
pub use history::Moment;
pub use names::entry_bytes;
pub use problem::{Problem, Severity};
pub use scan::{Change, Event};
pub use tree::{Child, DataBlock, File, Tree};

/// Problems that are kept; a hostile image could have very many.
const PROBLEMS_MAX: usize = 10_000;

/// Message about a structure at a place.
type Seen = (Structure, Option<(u32, u32)>, String);

/// Problems that a survey has found, as far as they are kept.
#[derive(Clone, Debug, Default)]
struct Problems {
    list: Vec<Problem>,
    /// Problems that were not kept, those among them that were found before.
    dropped: u64,
    /// Messages that were given already.
    seen: BTreeSet<Seen>,
}

impl Problems {
    fn add(&mut self, problem: Problem) {
        if self.list.len() >= PROBLEMS_MAX {
            self.dropped += 1;
            return;
        }
        let inode = problem.inodes.as_ref().map_or(0, |inodes| *inodes.start());
        let said = format!("{inode}: {}", problem.told());
        if self.seen.insert((problem.structure, problem.place, said)) {
            self.list.push(problem);
        }
    }
}

/// Keys that nothing leads to any more, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lost {
    from: Key,
    to: Key,
    /// Nodes that are accepted.
    only: Only,
}

/// Rule for the nodes that fill a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Only {
    /// The newest.
    Newest,
    /// One with this sequence number: an older one would be another state of the data.
    Sqnum(u64),
    /// One at this byte of a LEB whose number is not known.
    Nameless(u32),
}

impl Lost {
    /// All keys: nothing of the index can be used.
    const ALL: Self = Self { from: Key::from_bits(0), to: Key::from_bits(u64::MAX), only: Only::Newest };

    fn covers(&self, event: &scan::Event, nameless: &Range<u32>) -> bool {
        let only = match self.only {
            Only::Newest => true,
            Only::Sqnum(sqnum) => event.sqnum == sqnum,
            Only::Nameless(offset) => event.place.offset == offset && nameless.contains(&event.place.lnum),
        };
        only && (self.from..=self.to).contains(&event.key)
    }
}

/// A block of a file as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// Bytes before compression.
    pub size: u32,
    /// Compression of the data.
    pub compression: Compression,
    /// The bytes as stored.
    pub data: Vec<u8>,
}

/// A filesystem that was looked at.
#[derive(Debug)]
pub struct Survey<V: ?Sized> {
    decompressor: Decompressor,
    tree: Tree,
    problems: Problems,
    lost: Vec<Lost>,
    /// LEBs behind the volume whose number is not known: a search looks into them too.
    nameless: Range<u32>,
    superblock: Option<Superblock>,
    master: Option<MasterState>,
    mounts: bool,
    /// The tree is that of an earlier moment.
    is_past: bool,
    io: Io<V>,
}

impl<V: Volume + 'static> Survey<V> {
    /// Looks at the filesystem of a volume.
    ///
    /// # Errors
    /// Failures of the volume other than damaged data; a volume too small for any filesystem. The volume comes back.
    pub fn new(volume: V) -> core::result::Result<Self, (Error, V)> {
        Self::authenticated(volume, &Authenticate::No)
    }

    /// As [`new`](Self::new); nodes of a filesystem with authentication are verified.
    ///
    /// # Errors
    /// As [`new`](Self::new); a filesystem that cannot be authenticated so, another key than the filesystem's.
    pub fn authenticated(volume: V, authenticate: &Authenticate) -> core::result::Result<Self, (Error, V)> {
        let end = volume.geometry().lebs;
        open::survey(volume, end..end, authenticate)
    }

    /// As [`authenticated`](Self::authenticated), for a volume that can read LEBs behind its end: such whose number is not known. What
    /// is missing elsewhere is looked for in them.
    ///
    /// # Errors
    /// As [`authenticated`](Self::authenticated).
    pub fn with_nameless(
        volume: V,
        nameless: Range<u32>,
        authenticate: &Authenticate,
    ) -> core::result::Result<Self, (Error, V)> {
        open::survey(volume, nameless, authenticate)
    }

    /// The volume below.
    pub const fn volume(&self) -> &V {
        self.io.volume()
    }

    /// Gives the volume back.
    pub fn into_volume(self) -> V {
        self.io.into_volume()
    }
}

forward_to_dyn!(Survey: Volume);

impl Survey<dyn Volume> {
    /// Files and names.
    #[must_use]
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Problems that were found.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems.list
    }

    /// Problems beyond those that [`problems`](Self::problems) lists.
    #[must_use]
    pub const fn dropped_problems(&self) -> u64 {
        self.problems.dropped
    }

    /// The superblock as it is stored; `None` if it cannot be read.
    #[must_use]
    pub const fn superblock(&self) -> Option<&Superblock> {
        self.superblock.as_ref()
    }

    /// State in the master node; `None` if none can be read.
    #[must_use]
    pub const fn master(&self) -> Option<MasterState> {
        self.master
    }

    /// True when part of the index could be read; otherwise all files and names were found by a search.
    #[must_use]
    pub fn has_index(&self) -> bool {
        !self.lost.contains(&Lost::ALL)
    }

    /// True when the files are those of an earlier moment.
    #[must_use]
    pub const fn is_past(&self) -> bool {
        self.is_past
    }

    /// True when Linux can mount it.
    #[must_use]
    pub const fn mounts(&self) -> bool {
        self.mounts
    }

    /// Reads a block as it is stored, and checks that it decompresses.
    ///
    /// # Errors
    /// A damaged node, failures of the volume.
    pub fn read_block(&mut self, place: NodePos, encrypted: bool) -> Result<StoredBlock> {
        let mut bytes = Vec::new();
        let frame = self.io.read_node(place, Some(NodeType::Data), &mut bytes)?;
        let damaged = |source| Error::node(place.lnum, place.offset, source);
        let Node::Data(node) = frame.node().map_err(damaged)? else { return Err(Error::NotFound) };
        node.check().map_err(damaged)?;
        if !encrypted && !decompresses(&mut self.decompressor, &node) {
            return Err(Error::corrupt(place.lnum, place.offset, NOT_ITS_SIZE));
        }
        let block = node.block;
        Ok(StoredBlock { size: block.size, compression: block.compression, data: node.data.to_vec() })
    }
}

const NOT_ITS_SIZE: &str = "the block does not decompress to its size";

/// True when a block decompresses to as many bytes as it says.
fn decompresses(decompressor: &mut Decompressor, node: &floatgate_media::ubifs::DataNode<'_>) -> bool {
    let mut out = [0; floatgate_media::ubifs::BLOCK_BYTES as usize];
    let size = node.block.size as usize;
    let Some(room) = out.get_mut(..size) else { return false };
    decompressor.decompress(node.block.compression, node.data, room).ok() == Some(size)
}

/// The node in `bytes`, which begin where it should stand, if it is as long as the index says.
fn node_in<'b>(bytes: &'b [u8], place: NodePos) -> Result<(Frame<'b>, Node<'b>)> {
    let NodePos { lnum, offset, len } = place;
    let damaged = |source| Error::node(lnum, offset, source);
    let frame = Frame::parse(bytes).map_err(damaged)?;
    if frame.as_bytes().len() != len as usize {
        return Err(Error::corrupt(lnum, offset, "a node has another length than the index says"));
    }
    let node = frame.node().map_err(damaged)?;
    Ok((frame, node))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hostile image can have very many problems; those of which there are too many are counted, and nothing else is kept of them.
    #[test]
    fn only_so_many_problems_are_kept() {
        let problem = |n: usize| Problem::new(Severity::Damaged, Structure::Index, n.to_string(), "");
        let mut problems = Problems::default();
        for n in (0..PROBLEMS_MAX).chain(0..PROBLEMS_MAX) {
            problems.add(problem(n));
        }
        assert_eq!((problems.list.len(), problems.seen.len()), (PROBLEMS_MAX, PROBLEMS_MAX));
        let dropped = problems.dropped;
        (0..50_000).for_each(|n| problems.add(problem(PROBLEMS_MAX + n)));
        assert_eq!((problems.list.len(), problems.seen.len()), (PROBLEMS_MAX, PROBLEMS_MAX));
        assert_eq!(problems.dropped - dropped, 50_000);
    }
}
