//! Reading index nodes from flash, and paths through the tree.
//!
//! An index node is validated by itself and against the branch that refers to it: its level is one less, and its keys
//! are between this branch's key and the next one's. So every descent ends. A node that two branches refer to could
//! make a small image a huge tree; this is possible only for nodes whose keys are all equal, and those are recorded.

use std::sync::Arc;

use super::hashes::ROOT_KEY;
use super::tree::{Arena, NodeId, Path, Side, Step, Zbranch, Znode};
use super::{Root, Tnc};
use crate::fs::NodePos;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use floatgate_media::ubifs::{Branch, Frame, IndexNode, Key, Limits, Node, NodeType};

/// Constraints on an index node by its branch.
struct BranchBounds {
    /// Level; `None` for the root.
    level: Option<u16>,
    /// Lower bound of its keys.
    lower: Option<Key>,
    /// Upper bound of its keys; only a name's key may equal it.
    upper: Option<Key>,
}

impl BranchBounds {
    fn of_child(arena: &Arena, path: &Path, level: u16, lower: Key) -> Self {
        Self { level: level.checked_sub(1), lower: Some(lower), upper: path.upper_bound_below(arena) }
    }

    fn check(&self, node: &IndexNode<'_>, first: Key, last: Key) -> core::result::Result<(), &'static str> {
        if self.level.is_some_and(|level| level != node.level()) {
            return Err("an index node is not of the level its parent says");
        }
        if self.lower.is_some_and(|lower| first < lower) {
            return Err("an index node has keys below those its parent says");
        }
        if self.upper.is_some_and(|upper| last > upper || last == upper && !last.is_hashed()) {
            return Err("an index node has keys beyond those its parent says");
        }
        Ok(())
    }
}

impl Tnc {
    /// Loads the root; `None` for an empty tree.
    pub(super) fn load_root(&mut self, io: &mut DynIo<'_>) -> Result<Option<NodeId>> {
        match self.root {
            None => Ok(None),
            Some(Root { child: Some(id), .. }) => Ok(Some(id)),
            Some(Root { place, child: None }) => {
                let bounds = BranchBounds { level: None, lower: None, upper: None };
                let id = self.load(io, ROOT_KEY, place, &bounds)?;
                self.root = Some(Root { place, child: Some(id) });
                Ok(Some(id))
            }
        }
    }

    /// Loads the index node below the branch at the end of a path.
    pub(super) fn load_child(&mut self, io: &mut DynIo<'_>, path: &Path) -> Result<NodeId> {
        let missing = Error::Invalid("a way through the index that leads nowhere");
        let Some(step) = path.last() else { return Err(missing) };
        let Some(Zbranch { key, place, child }) = self.arena.zbranch(step).cloned() else {
            return Err(missing);
        };
        if let Some(id) = child {
            return Ok(id);
        }
        let level = self.arena.node(step.id).level;
        let bounds = BranchBounds::of_child(&self.arena, path, level, key);
        let id = self.load(io, key, place, &bounds)?;
        if let Some(zbranch) = self.arena.zbranch_mut(step) {
            zbranch.child = Some(id);
        }
        Ok(id)
    }

    fn load(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        place: NodePos,
        bounds: &BranchBounds,
    ) -> Result<NodeId> {
        let NodePos { lnum, offset, len } = place;
        let limits = &io.layout().limits;
        if !limits.main.contains(&lnum) || !offset.is_multiple_of(8) {
            return Err(Error::corrupt(lnum, offset, "an index node cannot stand where its parent says"));
        }
        if !limits.index_lengths().contains(&len) {
            let what = "an index node cannot have the length its parent says";
            return Err(Error::corrupt(lnum, offset, what));
        }
        let mut bytes = core::mem::take(&mut self.scratch);
        let loaded = self.read_index_node(io, key, place, bounds, &mut bytes);
        self.scratch = bytes;
        loaded
    }

    fn read_index_node(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        place: NodePos,
        bounds: &BranchBounds,
        bytes: &mut Vec<u8>,
    ) -> Result<NodeId> {
        let NodePos { lnum, offset, .. } = place;
        let corrupt = |what| Error::corrupt(lnum, offset, what);
        let frame = io.read_node(place, Some(NodeType::Index), bytes)?;
        self.check_hash(key, place, frame.as_bytes())?;
        let node = index_node(&frame, &io.layout().limits, lnum, offset)?;
        let keys = node.branches().map(|branch| branch.key);
        let (first, last) = keys.fold((None, None), |(first, _), key| (first.or(Some(key)), Some(key)));
        let (Some(first), Some(last)) = (first, last) else { return Err(corrupt("an empty index node")) };
        bounds.check(&node, first, last).map_err(corrupt)?;
        let single_keyed = first == last && first.is_hashed();
        if single_keyed && !Arc::make_mut(&mut self.single_keyed).insert((lnum, offset)) {
            return Err(corrupt("two branches of the index lead to the same node"));
        }
        self.hashes.keep(&node);
        Ok(self.arena.add(znode(&node)))
    }

    /// Path to a key or its insertion point, down to nodes of a level; `None` if the tree is empty or not that high. It
    /// ends at the first branch with a key of at least `key`, possibly after the last one of a node.
    pub(super) fn seek(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        side: Side,
        level: u16,
    ) -> Result<Option<Path>> {
        let Some(mut id) = self.load_root(io)? else { return Ok(None) };
        let mut path = Path(Vec::with_capacity(usize::from(self.arena.node(id).level) + 1));
        loop {
            let node = self.arena.node(id);
            if node.level <= level {
                let found = node.level == level;
                path.0.push(Step { id, slot: node.first_at(key) });
                return Ok(found.then_some(path));
            }
            path.0.push(Step { id, slot: node.branch_for(key, side) });
            id = self.load_child(io, &path)?;
        }
    }

    /// Path to the first leaf with a key of at least `key`.
    pub(super) fn first_leaf(&mut self, io: &mut DynIo<'_>, key: Key) -> Result<Option<Path>> {
        let side = if key.is_hashed() { Side::First } else { Side::Last };
        let Some(mut path) = self.seek(io, key, side, 0)? else { return Ok(None) };
        if path.zbranch(&self.arena).is_some() || self.advance(io, &mut path)? {
            return Ok(Some(path));
        }
        Ok(None)
    }

    /// Advances a path to the next branch of the same level; `false`, without moving, at the end of the tree.
    pub(super) fn advance(&mut self, io: &mut DynIo<'_>, path: &mut Path) -> Result<bool> {
        let depth = path.0.len();
        let has_next = |step: &Step| step.slot + 1 < self.arena.node(step.id).zbranches.len();
        let Some(turn) = path.0.iter().rposition(has_next) else { return Ok(false) };
        path.0.truncate(turn + 1);
        path.0[turn].slot += 1;
        while path.0.len() < depth {
            let id = self.load_child(io, path)?;
            path.0.push(Step { id, slot: 0 });
        }
        Ok(true)
    }
}

/// Parses an index node and checks its fields; `lnum` and `offset` are its position.
pub(super) fn index_node<'b>(
    frame: &Frame<'b>,
    limits: &Limits,
    lnum: u32,
    offset: u32,
) -> Result<IndexNode<'b>> {
    let misfit = |source| Error::node(lnum, offset, source);
    match frame.node().map_err(misfit)? {
        Node::Index(node) => node.check(limits).map(|()| node).map_err(misfit),
        _ => {
            let (expected, found) = (NodeType::Index, frame.node_type);
            Err(Error::WrongNode { lnum, offset, expected, found })
        }
    }
}

fn znode(node: &IndexNode<'_>) -> Znode {
    let place = |lnum, offset, len| NodePos { lnum, offset, len };
    let zbranch =
        |branch: Branch<'_>| Zbranch::to_place(branch.key, place(branch.lnum, branch.offset, branch.len));
    Znode { level: node.level(), dirty: false, zbranches: node.branches().map(zbranch).collect() }
}
