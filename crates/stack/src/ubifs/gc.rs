//! Garbage collection: moves the live nodes of a LEB, so that the LEB becomes empty (Linux: `fs/ubifs/gc.c`).
//!
//! Nodes move with their own journal head, which starts in the one LEB that is always reserved for it. An index LEB is
//! emptied by marking its nodes dirty: the next commit writes them elsewhere, and the LEB can be used afterwards.

use std::collections::VecDeque;

use floatgate_media::ubifs::{Key, Node, NodeType};

use super::core::Core;
use super::error::{Error, Result};
use super::journal::Room;
use super::layout::{Head, NodePos};
use super::scan::{ScannedLeb, ScannedNode, scan};
use super::space::LebSpace;
use crate::volume::Volume;

/// Size of an inode node without attached data, B.
const BARE_INODE_BYTES: u32 = 160;

/// Result of collecting a LEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collected {
    /// The LEB is empty and taken.
    Freed,
    /// The LEB is now the one reserved for the garbage collector.
    Retained,
    /// The LEB was an index LEB, and is empty after the next commit.
    AfterCommit,
}

/// Live nodes of a LEB, in the order in which they are moved.
struct Live {
    /// Data nodes by inode and block, so that consecutive blocks of a file stay together.
    data: VecDeque<ScannedNode>,
    /// Inodes, the longest first, then entries by directory and hash.
    others: Vec<ScannedNode>,
    /// Size of the smallest node, B.
    smallest: u32,
}

impl Live {
    fn new(nodes: Vec<ScannedNode>) -> Self {
        let smallest = nodes.iter().map(|node| node.place.aligned_len()).min().unwrap_or(0);
        let (mut data, mut others): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| node.node_type == NodeType::Data);
        data.sort_by_key(|node| node.key);
        others.sort_by_key(|node| match node.node_type {
            NodeType::Inode => (false, u32::MAX - node.place.len, 0),
            _ => (true, key_of(node).inum(), key_of(node).hash()),
        });
        Self { data: data.into(), others, smallest }
    }

    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.others.is_empty()
    }

    /// Next node that fits `room`. Data nodes keep their order; inodes with attached data may be skipped for smaller
    /// nodes. `skip` counts them.
    fn next(&mut self, room: u32, skip: &mut usize) -> Option<ScannedNode> {
        if self.data.front().is_some_and(|node| node.place.aligned_len() <= room) {
            return self.data.pop_front();
        }
        while room >= self.smallest {
            let node = self.others.get(*skip)?;
            if node.place.aligned_len() <= room {
                return Some(self.others.remove(*skip));
            }
            if node.node_type != NodeType::Inode || node.place.len == BARE_INODE_BYTES {
                return None;
            }
            *skip += 1;
        }
        None
    }
}

fn key_of(node: &ScannedNode) -> Key {
    node.key.unwrap_or_default()
}

impl Core<dyn Volume> {
    /// Frees a LEB, which is then taken; `anyway` collects even if there are empty LEBs.
    ///
    /// # Errors
    /// Volume failures and damage; the filesystem is then read-only.
    pub(crate) fn collect(&mut self, anyway: bool) -> Result<Room<u32>> {
        let outcome = self.collect_and_sync(anyway);
        self.fail_on_error(outcome)
    }

    fn collect_and_sync(&mut self, anyway: bool) -> Result<Room<u32>> {
        let room = match self.collect_lebs(anyway)? {
            Room::NoSpace if self.space.is_leaving() => Room::CommitFirst,
            room => room,
        };
        self.io.sync_head(&mut self.space, Head::Gc)?;
        // The nodes that were moved out of this LEB are on flash now.
        if let Some(lnum) = self.gc_lnum {
            self.io.unmap(lnum)?;
        }
        Ok(room)
    }

    /// Collects LEBs until one is gained; several may be needed, because their nodes first fill the rest of the head's
    /// LEB.
    fn collect_lebs(&mut self, anyway: bool) -> Result<Room<u32>> {
        let (dead, dark) = (self.io.layout().dead_bytes, self.io.layout().dark_bytes);
        let mut wanted = dead;
        for round in 0..=self.limits.gc_hard_lebs {
            let enough = round > self.limits.gc_soft_lebs && self.space.is_leaving();
            if enough || self.log.is_commit_due() {
                return Ok(Room::CommitFirst);
            }
            let Some((lnum, space)) = self.space.find_dirty(wanted, !anyway)? else { break };
            let before = self.io.head_room(Head::Gc);
            let room = self.collect_leb(lnum, space);
            if room != Ok(Room::Ready(Collected::Retained)) && room != Ok(Room::Ready(Collected::AfterCommit))
            {
                return self.end_of_collection(lnum, room);
            }
            let gained = self.io.head_room(Head::Gc) > before;
            wanted = match (gained, round < self.limits.gc_soft_lebs) {
                _ if room == Ok(Room::Ready(Collected::AfterCommit)) => wanted,
                (true, _) => (wanted / 2).max(dead),
                (false, true) => wanted,
                // The remaining LEBs have large nodes, so only LEBs with much space to gain are collected.
                (false, false) => (wanted * 2).min(dark),
            };
        }
        Ok(Room::NoSpace)
    }

    /// Ends the collection of a LEB, successful or not.
    fn end_of_collection(&mut self, lnum: u32, room: Result<Room<Collected>>) -> Result<Room<u32>> {
        let room = match room? {
            Room::Ready(_) => return Ok(Room::Ready(lnum)),
            Room::CommitFirst => Room::CommitFirst,
            Room::NoSpace => Room::NoSpace,
        };
        self.space.set_taken(lnum, false)?;
        Ok(room)
    }

    /// Empties a LEB that is taken.
    ///
    /// # Errors
    /// A damaged LEB; volume failures.
    pub(crate) fn collect_leb(&mut self, lnum: u32, space: LebSpace) -> Result<Room<Collected>> {
        if !space.index && space.free + space.dirty == self.io.layout().leb_bytes() {
            return self.collect_freeable(lnum, space).map(Room::Ready);
        }
        let leb = scan(&mut self.io, lnum, 0)?;
        match leb.nodes.first() {
            Some(node) if node.node_type == NodeType::Index => self.collect_index(&leb).map(Room::Ready),
            Some(_) => self.collect_data(&leb),
            None => Err(Error::corrupt(lnum, 0, "an empty LEB that should hold nodes")),
        }
    }

    /// Frees a LEB without live nodes.
    fn collect_freeable(&mut self, lnum: u32, space: LebSpace) -> Result<Collected> {
        if space.dirty > 0 {
            // The nodes that made those of this LEB obsolete may still be in a write buffer.
            self.sync_writers()?;
            self.empty_leb(lnum)?;
        }
        self.io.unmap(lnum)?;
        if self.gc_lnum.is_some() {
            return Ok(Collected::Freed);
        }
        self.gc_lnum = Some(lnum);
        Ok(Collected::Retained)
    }

    /// Syncs the write buffers with the nodes that obsolete others.
    fn sync_writers(&mut self) -> Result<()> {
        self.io.sync_head(&mut self.space, Head::Base)?;
        self.io.sync_head(&mut self.space, Head::Data)
    }

    /// Erases a LEB without live nodes; it stays taken.
    fn empty_leb(&mut self, lnum: u32) -> Result<()> {
        let free = self.io.layout().leb_bytes();
        self.space.set(lnum, LebSpace { free, dirty: 0, index: false, taken: true })
    }

    fn collect_index(&mut self, leb: &ScannedLeb) -> Result<Collected> {
        for scanned in &leb.nodes {
            let NodePos { lnum, offset, .. } = scanned.place;
            let node = leb.frame(scanned)?.node().map_err(|source| Error::node(lnum, offset, source))?;
            let Node::Index(node) = node else {
                return Err(Error::corrupt(lnum, offset, "not a node of the index, but in its LEB"));
            };
            let first = node.branch(0).map(|branch| branch.key).unwrap_or_default();
            self.tnc.dirty_index_node(&mut self.io, &mut self.space, first, node.level(), lnum, offset)?;
        }
        // Recovery needs the contents of this LEB until the next commit.
        self.space.leave_index(leb.lnum)?;
        Ok(Collected::AfterCommit)
    }

    fn collect_data(&mut self, leb: &ScannedLeb) -> Result<Room<Collected>> {
        let live = self.live_nodes(leb)?;
        match self.move_nodes(leb, live)? {
            Room::Ready(()) => {}
            Room::CommitFirst => return Ok(Room::CommitFirst),
            Room::NoSpace => return Ok(Room::NoSpace),
        }
        self.sync_writers()?;
        self.empty_leb(leb.lnum)?;
        if self.gc_lnum.is_none() {
            // The LEB is unmapped later, after the head is synced.
            self.gc_lnum = Some(leb.lnum);
            return Ok(Room::Ready(Collected::Retained));
        }
        self.io.sync_head(&mut self.space, Head::Gc)?;
        self.io.unmap(leb.lnum)?;
        Ok(Room::Ready(Collected::Freed))
    }

    /// Nodes of a LEB that are in the index.
    fn live_nodes(&mut self, leb: &ScannedLeb) -> Result<Live> {
        let mut live = Vec::new();
        for node in &leb.nodes {
            let NodePos { lnum, offset, .. } = node.place;
            match (node.node_type, node.key) {
                // Truncation and authentication nodes are unused after the journal is replayed.
                (NodeType::Truncation | NodeType::Auth, _) => {}
                (NodeType::Inode | NodeType::Data | NodeType::Entry | NodeType::XattrEntry, Some(key)) => {
                    if self.tnc.has_leaf(&mut self.io, key, lnum, offset)? {
                        live.push(*node);
                    }
                }
                _ => return Err(Error::corrupt(lnum, offset, "a node that has no place in the main area")),
            }
        }
        Ok(Live::new(live))
    }

    fn move_nodes(&mut self, leb: &ScannedLeb, mut live: Live) -> Result<Room<()>> {
        let mut skip = 0;
        while !live.is_empty() {
            while let Some(node) = live.next(self.io.head_room(Head::Gc), &mut skip) {
                self.move_node(leb, &node)?;
            }
            if live.is_empty() {
                break;
            }
            let room = self.switch_gc_head()?;
            if room != Room::Ready(()) {
                return Ok(room);
            }
            skip = 0;
        }
        Ok(Room::Ready(()))
    }

    fn move_node(&mut self, leb: &ScannedLeb, node: &ScannedNode) -> Result<()> {
        let mut bytes = leb.frame(node)?.as_bytes().to_vec();
        let len = bytes.len();
        bytes.resize(len.next_multiple_of(8), 0);
        floatgate_media::ubifs::pad(bytes.get_mut(len..).unwrap_or(&mut []));
        let (lnum, offset) = self.io.write_head(&mut self.space, Head::Gc, &bytes, &[])?;
        let to = NodePos { lnum, offset, len: node.place.len };
        self.tnc.relocate(&mut self.io, &mut self.space, key_of(node), node.place, to).map(drop)
    }

    /// Moves the garbage collector's head to the LEB reserved for it.
    fn switch_gc_head(&mut self) -> Result<Room<()>> {
        let Some(lnum) = self.gc_lnum else { return Ok(Room::NoSpace) };
        self.io.sync_head(&mut self.space, Head::Gc)?;
        self.io.unmap(lnum)?;
        let room = self.move_head(Head::Gc, lnum, 0)?;
        if room == Room::Ready(()) {
            self.gc_lnum = None;
        }
        Ok(room)
    }
}
