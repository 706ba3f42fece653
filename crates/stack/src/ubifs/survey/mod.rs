//! Survey of a possibly damaged filesystem: its remaining contents and its faults.
//!
//! A survey only reads. Its steps in order:
//!
//! - `open`: the superblock, and a forgiving mount that records damage; `journal`: the consequences of damage in the
//!   journal;
//! - `leaves`: reads and checks the leaf nodes in the index, and builds a [`Tree`] of files;
//! - `scan`: searches all LEBs for missing nodes, if the index is incomplete;
//! - `names`: compares names and inodes;
//! - `space`: LEB properties and free space;
//! - `history`: obsolete nodes, and earlier states of the filesystem.

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

/// Maximum number of recorded problems; a hostile image could have very many.
const PROBLEMS_MAX: usize = 10_000;

/// Message about a structure at a position.
type MessageKey = (Structure, Option<(u32, u32)>, String);

/// Problems found by a survey, up to [`PROBLEMS_MAX`].
#[derive(Clone, Debug, Default)]
struct Problems {
    list: Vec<Problem>,
    /// Number of problems beyond the limit, including repeated ones.
    dropped: u64,
    /// Messages recorded so far.
    seen: BTreeSet<MessageKey>,
}

impl Problems {
    fn add(&mut self, problem: Problem) {
        if self.list.len() >= PROBLEMS_MAX {
            self.dropped += 1;
            return;
        }
        let inode = problem.inodes.as_ref().map_or(0, |inodes| *inodes.start());
        let said = format!("{inode}: {}", problem.description());
        if self.seen.insert((problem.structure, problem.place, said)) {
            self.list.push(problem);
        }
    }
}

/// Range of keys that the index lost, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LostKeys {
    from: Key,
    to: Key,
    /// Nodes accepted as replacement.
    only: Only,
}

/// Rule for the nodes that replace lost ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Only {
    /// The newest node.
    Newest,
    /// The node with this sequence number: an older one contains other data.
    Sqnum(u64),
    /// A node at this offset in a LEB with unknown number.
    Nameless(u32),
}

impl LostKeys {
    /// All keys: the whole index is lost.
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

/// A block of a file in stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// Bytes before compression.
    pub size: u32,
    /// Compression of the data.
    pub compression: Compression,
    /// Stored bytes.
    pub data: Vec<u8>,
}

/// Result of a survey.
#[derive(Debug)]
pub struct Survey<V: ?Sized> {
    decompressor: Decompressor,
    tree: Tree,
    problems: Problems,
    lost: Vec<LostKeys>,
    /// LEBs with unknown number, placed after the end of the volume: a search includes them.
    nameless: Range<u32>,
    superblock: Option<Superblock>,
    master: Option<MasterState>,
    mounts: bool,
    /// True if the tree is from an earlier moment.
    is_past: bool,
    io: Io<V>,
}

impl<V: Volume + 'static> Survey<V> {
    /// Surveys the filesystem of a volume.
    ///
    /// # Errors
    /// Volume failures except damaged data; a volume too small for any filesystem. The volume is returned.
    pub fn new(volume: V) -> core::result::Result<Self, (Error, V)> {
        Self::authenticated(volume, &Authenticate::No)
    }

    /// Surveys the filesystem of a volume, and verifies the nodes of a filesystem with authentication.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), and a filesystem without authentication of this kind or with another key.
    pub fn authenticated(volume: V, authenticate: &Authenticate) -> core::result::Result<Self, (Error, V)> {
        let end = volume.geometry().lebs;
        open::survey(volume, end..end, authenticate)
    }

    /// Surveys like [`authenticated`](Self::authenticated) a volume with LEBs of unknown number after its end. These
    /// are searched for nodes that are missing elsewhere.
    ///
    /// # Errors
    /// The errors of [`authenticated`](Self::authenticated).
    pub fn with_nameless(
        volume: V,
        nameless: Range<u32>,
        authenticate: &Authenticate,
    ) -> core::result::Result<Self, (Error, V)> {
        open::survey(volume, nameless, authenticate)
    }

    /// The volume of the filesystem.
    pub const fn volume(&self) -> &V {
        self.io.volume()
    }

    /// Returns the volume.
    pub fn into_volume(self) -> V {
        self.io.into_volume()
    }
}

forward_to_dyn!(Survey: Volume);

impl Survey<dyn Volume> {
    /// Tree of files and names.
    #[must_use]
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Recorded problems.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems.list
    }

    /// Number of problems beyond those in [`problems`](Self::problems).
    #[must_use]
    pub const fn dropped_problems(&self) -> u64 {
        self.problems.dropped
    }

    /// Superblock as stored; `None` if it is unreadable.
    #[must_use]
    pub const fn superblock(&self) -> Option<&Superblock> {
        self.superblock.as_ref()
    }

    /// State in the master node; `None` if no master node is readable.
    #[must_use]
    pub const fn master(&self) -> Option<MasterState> {
        self.master
    }

    /// True if a part of the index was readable; otherwise all files and names were found by a search.
    #[must_use]
    pub fn has_index(&self) -> bool {
        !self.lost.contains(&LostKeys::ALL)
    }

    /// True if the tree is from an earlier moment.
    #[must_use]
    pub const fn is_past(&self) -> bool {
        self.is_past
    }

    /// True if Linux can mount the filesystem.
    #[must_use]
    pub const fn mounts(&self) -> bool {
        self.mounts
    }

    /// Reads a stored block and checks that it can be decompressed.
    ///
    /// # Errors
    /// A damaged node, volume failures.
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

/// True if a block decompresses to its stated size.
fn decompresses(decompressor: &mut Decompressor, node: &floatgate_media::ubifs::DataNode<'_>) -> bool {
    let mut out = [0; floatgate_media::ubifs::BLOCK_BYTES as usize];
    let size = node.block.size as usize;
    let Some(room) = out.get_mut(..size) else { return false };
    decompressor.decompress(node.block.compression, node.data, room).ok() == Some(size)
}

/// Parses the node in `bytes` if its length equals that in the index.
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

    /// A hostile image can have very many problems. Those beyond the limit are only counted.
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
