//! Writing dirty index nodes (Linux: `fs/ubifs/tnc_commit.c`).
//!
//! Children are written before their parents, which contain their positions. Nodes are packed after the index head and
//! into empty LEBs; only the ends of LEBs and of the commit are padded. The new nodes take effect with the master node,
//! so nodes of the committed index must not be overwritten before.

use std::collections::VecDeque;

use super::tree::{NodeId, Step};
use super::{IndexHead, IndexSpace, Tnc};
use crate::fs::NodePos;
use crate::ubifs::error::{Error, Result, narrow};
use crate::ubifs::io::DynIo;
use crate::ubifs::layout::{Layout, align8};
use crate::ubifs::space::LebSpace;
use floatgate_media::ubifs::{Branch, Group, IndexNode};

/// A dirty node to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// The dirty node.
    pub(super) id: NodeId,
    /// Branch that refers to it; `None` for the root.
    pub(super) parent: Option<Step>,
    /// Size on flash without alignment, B.
    pub(super) len: u32,
}

/// Remaining work of a commit.
#[derive(Debug)]
pub(super) struct Work {
    /// Nodes in the order of writing.
    pub(super) nodes: VecDeque<Pending>,
    /// Empty LEBs available for them.
    lebs: VecDeque<u32>,
}

impl Work {
    /// True if more empty LEBs are needed.
    pub(super) fn lacks_lebs(&self, layout: &Layout, head: IndexHead) -> bool {
        self.lebs.len() < lebs_needed(layout, head, &self.nodes)
    }
}

impl Tnc {
    /// Writes all dirty index nodes into empty LEBs or gaps of index LEBs, and returns the position of the root. LEB
    /// properties are updated. Nothing that the committed index uses is overwritten.
    ///
    /// # Errors
    /// An empty tree; [`Error::NoSpace`], with LEB properties unchanged unless gaps were filled; volume failures.
    pub(crate) fn commit<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        head: &mut IndexHead,
    ) -> Result<NodePos> {
        let nodes = self.pending(&io.layout().clone());
        if !nodes.is_empty() {
            self.write_all(io, space, head, nodes)?;
        }
        self.old_index.clear();
        self.committed_bytes = self.clean_bytes;
        match self.root {
            Some(root) => Ok(root.place),
            None => Err(Error::Invalid("an index without keys cannot be committed")),
        }
    }

    /// Number of empty LEBs that a commit needs without filling gaps.
    pub(crate) fn lebs_needed(&self, layout: &Layout, head: IndexHead) -> usize {
        lebs_needed(layout, head, &self.pending(layout))
    }

    /// Dirty nodes, children before parents.
    fn pending(&self, layout: &Layout) -> VecDeque<Pending> {
        let mut out = VecDeque::with_capacity(self.arena.dirty());
        let dirty_root = self.root.and_then(|root| root.child).filter(|&id| self.arena.node(id).dirty);
        let mut open: Vec<Step> = dirty_root.into_iter().map(|id| Step { id, slot: 0 }).collect();
        while let Some(&Step { id, slot }) = open.last() {
            let node = self.arena.node(id);
            let dirty =
                |zbranch: &super::Zbranch| zbranch.child.filter(|&child| self.arena.node(child).dirty);
            let next = (slot..node.zbranches.len()).find_map(|at| Some((at, dirty(&node.zbranches[at])?)));
            let top = open.len() - 1;
            if let Some((at, child)) = next {
                // The slot refers to the child until the child is done.
                open[top].slot = at;
                open.push(Step { id: child, slot: 0 });
                continue;
            }
            open.pop();
            let children = u32::try_from(node.zbranches.len()).unwrap_or(u32::MAX);
            let parent = open.last().copied();
            out.push_back(Pending { id, parent, len: layout.limits.index_bytes(children) });
            if let Some(parent) = open.last_mut() {
                parent.slot += 1;
            }
        }
        out
    }

    fn write_all<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        head: &mut IndexHead,
        nodes: VecDeque<Pending>,
    ) -> Result<()> {
        if io.is_read_only() || io.layout().limits.hash_bytes > 0 {
            return Err(Error::ReadOnly);
        }
        let mut work = Work { nodes, lebs: VecDeque::new() };
        let outcome = self.write_work(io, space, head, &mut work);
        for lnum in work.lebs {
            let leb = space.get(lnum)?;
            space.set(lnum, LebSpace { index: false, taken: false, ..leb })?;
        }
        outcome
    }

    fn write_work<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        head: &mut IndexHead,
        work: &mut Work,
    ) -> Result<()> {
        while work.lacks_lebs(io.layout(), *head) {
            let Some(lnum) = space.find_free_for_index(io)? else { break };
            work.lebs.push_back(lnum);
        }
        if work.lacks_lebs(io.layout(), *head) {
            self.fill_gaps(io, space, *head, work)?;
        }
        if work.lacks_lebs(io.layout(), *head) {
            return Err(Error::NoSpace);
        }
        while let Some(next) = work.nodes.front() {
            if room(io.layout(), *head) < next.len {
                let lnum = work.lebs.pop_front().ok_or(Error::NoSpace)?;
                move_head(io.layout(), space, head, lnum)?;
            }
            self.write_leb(io, space, head, &mut work.nodes)?;
        }
        Ok(())
    }

    /// Writes as many nodes as fit into the head's LEB.
    fn write_leb<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        head: &mut IndexHead,
        nodes: &mut VecDeque<Pending>,
    ) -> Result<()> {
        let IndexHead { lnum, offset: start } = *head;
        let mut out = Vec::new();
        let mut branches = Vec::new();
        while let Some(&next) = nodes.front() {
            let at = IndexHead { lnum, offset: start + narrow("index nodes", out.len())? };
            if room(io.layout(), at) < next.len {
                break;
            }
            self.append(io, next, at, &mut branches, &mut out)?;
            nodes.pop_front();
        }
        let padding = io.pad_to_min_io(&mut out);
        io.write(lnum, start, &out)?;
        head.offset = start + narrow("index nodes", out.len())?;
        let leb = space.get(lnum)?;
        let (free, dirty) = (io.layout().leb_bytes().saturating_sub(head.offset), leb.dirty + padding);
        space.set(lnum, LebSpace { free, dirty, index: true, taken: true })
    }

    /// Encodes a dirty node at the end of `out`; the node is then clean.
    pub(super) fn append(
        &mut self,
        io: &mut DynIo<'_>,
        pending: Pending,
        at: IndexHead,
        branches: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Pending { id, parent, len } = pending;
        let place = NodePos { lnum: at.lnum, offset: at.offset, len };
        let misfit = |source| Error::node(at.lnum, at.offset, source);
        let node = self.arena.node(id);
        branches.resize(node.zbranches.len() * Branch::bytes(0), 0);
        for (zbranch, room) in node.zbranches.iter().zip(branches.chunks_exact_mut(Branch::bytes(0))) {
            let NodePos { lnum, offset, len } = zbranch.place;
            Branch { lnum, offset, len, key: zbranch.key, hash: &[] }.emit(room).map_err(misfit)?;
        }
        let node = IndexNode::new(node.level, 0, branches).map_err(misfit)?;
        io.append_node(&node, Group::None, out)?;
        self.arena.edit(id, |node| node.dirty = false);
        self.clean_bytes = self.clean_bytes.saturating_add(u64::from(place.aligned_len()));
        self.set_index_place(parent, id, place);
        Ok(())
    }
}

/// Bytes left in the LEB of a head; 0 without a LEB.
fn room(layout: &Layout, head: IndexHead) -> u32 {
    if layout.limits.main.contains(&head.lnum) { layout.leb_bytes().saturating_sub(head.offset) } else { 0 }
}

/// Number of empty LEBs that nodes need in addition to the head's LEB.
fn lebs_needed(layout: &Layout, head: IndexHead, nodes: &VecDeque<Pending>) -> usize {
    let mut room = room(layout, head);
    let mut lebs = 0;
    for node in nodes {
        if room < node.len {
            lebs += 1;
            room = layout.leb_bytes();
        }
        room = room.saturating_sub(align8(node.len));
    }
    lebs
}

/// Moves the head to an empty LEB and releases the old one.
fn move_head<S: IndexSpace>(layout: &Layout, space: &mut S, head: &mut IndexHead, lnum: u32) -> Result<()> {
    if layout.limits.main.contains(&head.lnum) {
        let leb = space.get(head.lnum)?;
        space.set(head.lnum, LebSpace { taken: false, ..leb })?;
    }
    *head = IndexHead { lnum, offset: 0 };
    Ok(())
}
