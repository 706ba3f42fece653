//! Names: keys are hashes, which several names can share.
//!
//! Entries with the same key are adjacent, possibly across several index nodes, in the order of their names: byte by
//! byte, a prefix before longer names. Linux depends on that order.

use core::cmp::Ordering;

use super::tree::{Path, Side, Zbranch};
use super::{IndexSpace, Tnc};
use crate::fs::NodePos;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use floatgate_media::ubifs::{EntryNode, Frame, Key, KeyType, Node, NodeType};

/// Adjacent entries with the same key.
pub(super) struct Run {
    /// Path to the first entry.
    first: Path,
    /// Positions of the nodes in order, at least one.
    pub(super) places: Vec<NodePos>,
}

/// Position of a name among the entries with its key.
pub(super) struct Resolved {
    /// Entries with this key, if any.
    run: Option<Run>,
    /// Index of the entry with the name.
    pub(super) found: Option<usize>,
    /// Index of the first entry with a higher name.
    pub(super) higher: usize,
    /// Index of an entry that is missing on flash, during replay.
    pub(super) dangling: Option<usize>,
}

impl Resolved {
    const fn nothing(entries: usize) -> Self {
        Self { run: None, found: None, higher: entries, dangling: None }
    }
}

impl Tnc {
    /// Reads an entry.
    pub(crate) fn read_entry<'o>(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        place: NodePos,
        out: &'o mut Vec<u8>,
    ) -> Result<EntryNode<'o>> {
        if let Some(node) = self.entries.get(place) {
            node.clone_into(out);
            return parse_entry(key, place, out);
        }
        let expected = if key.key_type() == KeyType::Entry { NodeType::Entry } else { NodeType::XattrEntry };
        io.read_node(place, Some(expected), out)?;
        self.check_hash(key, place, out)?;
        let entry = parse_entry(key, place, out)?;
        self.entries.put(place, out);
        Ok(entry)
    }

    /// Inode of an entry; `None` for a deletion, or an entry that is missing during replay.
    pub(super) fn entry_inode(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        place: NodePos,
    ) -> Result<Option<u32>> {
        let mut out = Vec::new();
        let Some(entry) = self.try_entry(io, key, place, &mut out)? else { return Ok(None) };
        let inode = u32::try_from(entry.entry.inode)
            .map_err(|_| Error::corrupt(place.lnum, place.offset, "an entry names an impossible inode"))?;
        Ok((inode != 0).then_some(inode))
    }

    /// All entries with a key.
    pub(super) fn run(&mut self, io: &mut DynIo<'_>, key: Key) -> Result<Option<Run>> {
        let Some(first) = self.first_leaf(io, key)? else { return Ok(None) };
        let mut places = Vec::new();
        let mut path = first.clone();
        while let Some(zbranch) = path.zbranch(&self.arena).filter(|zbranch| zbranch.key == key) {
            places.push(zbranch.place);
            if !self.may_go_on(&path, key) || !self.advance(io, &mut path)? {
                break;
            }
        }
        Ok((!places.is_empty()).then_some(Run { first, places }))
    }

    /// True if the same key may follow the branch at the end of a path. Only nodes in memory are considered.
    fn may_go_on(&self, path: &Path, key: Key) -> bool {
        let Some(step) = path.last() else { return false };
        match self.arena.node(step.id).zbranches.get(step.slot + 1) {
            Some(next) => next.key == key,
            None => path.upper_bound(&self.arena).is_some_and(|bound| bound <= key),
        }
    }

    /// Path to an entry of a run.
    pub(super) fn nth_of(&mut self, io: &mut DynIo<'_>, run: &Run, at: usize) -> Result<Path> {
        let mut path = run.first.clone();
        for _ in 0..at {
            self.advance(io, &mut path)?;
        }
        Ok(path)
    }

    /// Searches for a name; `out` contains its node if it is found.
    fn resolve(&mut self, io: &mut DynIo<'_>, key: Key, name: &[u8], out: &mut Vec<u8>) -> Result<Resolved> {
        let Some(run) = self.run(io, key)? else { return Ok(Resolved::nothing(0)) };
        let mut resolved = Resolved::nothing(run.places.len());
        if self.replay.is_some() {
            self.resolve_one_by_one(io, key, name, &run.places, &mut resolved, out)?;
        } else {
            match self.search(io, key, name, &run.places, out)? {
                Ok(at) => resolved.found = Some(at),
                Err(at) => resolved.higher = at,
            }
        }
        resolved.run = Some(run);
        Ok(resolved)
    }

    /// Binary search for a name.
    fn search(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        name: &[u8],
        places: &[NodePos],
        out: &mut Vec<u8>,
    ) -> Result<core::result::Result<usize, usize>> {
        let (mut low, mut high) = (0, places.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.read_entry(io, key, places[middle], out)?.name.cmp(name) {
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// Position of the entry of a name, whose node is then in `out`.
    pub(crate) fn find_name(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<NodePos>> {
        let resolved = self.resolve(io, key, name, out)?;
        let places = resolved.run.as_ref().map_or(&[][..], |run| &run.places);
        Ok(resolved.found.and_then(|at| places.get(at)).copied())
    }

    /// Entry after `(key, name)` of the same inode and type, or the first one at or after `key` without a name. Its
    /// node is then in `out`.
    ///
    /// Entries are ordered by key, and by name if keys are equal. The given name need not exist.
    ///
    /// # Errors
    /// Names with the same key that are not in order, which could cause endless loops in callers.
    pub(crate) fn next_name(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        name: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Key, NodePos)>> {
        let mut way = match name {
            None => self.first_leaf(io, key)?,
            Some(name) => self.behind_name(io, key, name, out)?,
        };
        while let Some(mut path) = way {
            let Some(&Zbranch { key: next, place, .. }) = path.zbranch(&self.arena) else { break };
            if next.inum() != key.inum() || next.key_type() != key.key_type() {
                break;
            }
            if let Some(entry) = self.try_entry(io, next, place, out)? {
                if next == key && name.is_some_and(|name| entry.name <= name) {
                    return Err(out_of_order(place));
                }
                return Ok(Some((next, place)));
            }
            way = self.advance(io, &mut path)?.then_some(path);
        }
        Ok(None)
    }

    /// Path to the first entry after a name.
    fn behind_name(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Path>> {
        let resolved = self.resolve(io, key, name, out)?;
        let Some(run) = resolved.run else { return self.first_leaf(io, key) };
        if resolved.found.is_none() && self.replay.is_none() {
            self.check_order(io, key, &run.places)?;
        }
        let at = resolved.found.map_or(resolved.higher, |found| found + 1);
        if at < run.places.len() {
            return Ok(Some(self.nth_of(io, &run, at)?));
        }
        let mut path = self.nth_of(io, &run, run.places.len() - 1)?;
        Ok(self.advance(io, &mut path)?.then_some(path))
    }

    /// Checks the order of names with the same key. Unordered names can hide from a binary search, and a listing would
    /// end too early.
    fn check_order(&mut self, io: &mut DynIo<'_>, key: Key, places: &[NodePos]) -> Result<()> {
        let (mut previous, mut out) = (Vec::new(), Vec::new());
        for (at, &place) in places.iter().enumerate() {
            let name = self.read_entry(io, key, place, &mut out)?.name;
            if at > 0 && *name <= *previous {
                return Err(out_of_order(place));
            }
            name.clone_into(&mut previous);
        }
        Ok(())
    }

    /// Inserts an entry with this name; see [`insert`](Self::insert).
    pub(crate) fn insert_name<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        key: Key,
        name: &[u8],
        place: NodePos,
    ) -> Result<()> {
        self.entries.forget(place);
        self.make_way(io, space, key, place)?;
        let resolved = self.resolve(io, key, name, &mut Vec::new())?;
        self.hashes.forget(key, place);
        let fanout = io.layout().limits.fanout as usize;
        let Some(run) = resolved.run else {
            let path = self.seek(io, key, Side::Last, 0)?.unwrap_or_default();
            self.dirty_path(space, &path)?;
            return self.insert_at(fanout, path, Zbranch::to_place(key, place));
        };
        if let Some(at) = resolved.found {
            let path = self.nth_of(io, &run, at)?;
            return self.replace(space, &path, place);
        }
        let path = self.before(io, &run, resolved.higher)?;
        self.dirty_path(space, &path)?;
        self.insert_at(fanout, path, Zbranch::to_place(key, place))?;
        match resolved.dangling {
            // The dangling entry is the old entry of this name.
            Some(_) => self.remove_dangling(io, space, key, place),
            None => Ok(()),
        }
    }

    /// Path to the insertion point before an entry of a run: after the previous entry if possible, because the keys of
    /// nodes above allow that.
    fn before(&mut self, io: &mut DynIo<'_>, run: &Run, at: usize) -> Result<Path> {
        let Some(previous) = at.checked_sub(1) else { return Ok(run.first.clone()) };
        let mut path = self.nth_of(io, run, previous)?;
        if let Some(step) = path.last() {
            path.set_slot(step.slot + 1);
        }
        Ok(path)
    }

    /// Removes an entry.
    pub(crate) fn remove_name<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        key: Key,
        name: &[u8],
    ) -> Result<()> {
        let resolved = self.resolve(io, key, name, &mut Vec::new())?;
        let (Some(run), Some(at)) = (resolved.run, resolved.found.or(resolved.dangling)) else {
            return Ok(());
        };
        let path = self.nth_of(io, &run, at)?;
        self.delete(io, space, path)
    }

    /// Path to the leaf with a key at a position.
    pub(super) fn leaf_at(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        lnum: u32,
        offset: u32,
    ) -> Result<Option<Path>> {
        let here = |place: NodePos| place.lnum == lnum && place.offset == offset;
        if !key.is_hashed() {
            let path = self.find_leaf(io, key)?;
            return Ok(
                path.filter(|path| path.zbranch(&self.arena).is_some_and(|zbranch| here(zbranch.place)))
            );
        }
        let Some(run) = self.run(io, key)? else { return Ok(None) };
        match run.places.iter().position(|&place| here(place)) {
            Some(at) => Ok(Some(self.nth_of(io, &run, at)?)),
            None => Ok(None),
        }
    }
}

const fn out_of_order(place: NodePos) -> Error {
    Error::corrupt(place.lnum, place.offset, "names with the same hash are not in order")
}

/// Parses the entry of a key.
fn parse_entry(key: Key, place: NodePos, node: &[u8]) -> Result<EntryNode<'_>> {
    let NodePos { lnum, offset, .. } = place;
    let misfit = |source| Error::node(lnum, offset, source);
    match Frame::parse(node).and_then(|frame| frame.node()).map_err(misfit)? {
        Node::Entry(entry) if entry.entry.key == key => Ok(entry),
        _ => Err(Error::corrupt(lnum, offset, "an entry has another key than the index says")),
    }
}
