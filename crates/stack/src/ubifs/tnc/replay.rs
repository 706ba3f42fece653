//! Names during the replay of the journal.
//!
//! The index on flash can refer to missing entries. Such an entry was deleted or moved since the commit, and its LEB
//! was erased and rewritten. The journal node that records this is still to be replayed. Such a branch is dangling.
//! Each belongs to a name that the journal removes, replaces or moves, so the replay resolves all of them.
//!
//! Linux reads the node at the position and accepts it if the key matches. Knowing which LEBs the journal has written
//! is safer.

use core::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::names::Resolved;
use super::{IndexSpace, Tnc};
use crate::fs::NodePos;
use crate::ubifs::error::Result;
use crate::ubifs::io::DynIo;
use floatgate_media::ubifs::{EntryNode, Key};

/// State of the replay.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    /// Start offset of the journal in each of its LEBs.
    buds: BTreeMap<u32, u32>,
    /// LEB and offset of entries inserted so far.
    inserted: BTreeSet<(u32, u32)>,
    /// True if a missing entry may be damaged and not deleted.
    met_damage: bool,
}

impl Replay {
    fn is_in_journal(&self, place: NodePos) -> bool {
        self.buds.get(&place.lnum).is_some_and(|&start| place.offset >= start)
    }

    /// True if the committed index refers to this position, and the journal was written there since.
    fn is_overwritten(&self, place: NodePos) -> bool {
        self.is_in_journal(place) && !self.inserted.contains(&(place.lnum, place.offset))
    }
}

impl Tnc {
    /// Starts the replay; `buds` contains the start offset of the journal in each of its LEBs. From now on, searches
    /// skip missing entries, and removing or inserting a name that is not found removes one of them.
    pub(crate) fn start_replay(&mut self, buds: BTreeMap<u32, u32>) {
        self.replay = Some(Replay { buds, inserted: BTreeSet::new(), met_damage: false });
    }

    /// Ends the replay. True if skipped entries may have been damaged and not deleted.
    pub(crate) fn end_replay(&mut self) -> bool {
        self.replay.take().is_some_and(|replay| replay.met_damage)
    }

    /// Reads an entry; `None` if it is missing during replay.
    pub(super) fn try_entry<'o>(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        place: NodePos,
        out: &'o mut Vec<u8>,
    ) -> Result<Option<EntryNode<'o>>> {
        if self.replay.as_ref().is_some_and(|replay| replay.is_overwritten(place)) {
            return Ok(None);
        }
        match (self.read_entry(io, key, place, out), &mut self.replay) {
            (Err(error), Some(replay)) if error.is_damage() => {
                // The LEB of a deleted entry was erased, and may be a journal LEB now.
                replay.met_damage |= !replay.is_in_journal(place) && io.is_mapped(place.lnum)?;
                Ok(None)
            }
            (outcome, _) => outcome.map(Some),
        }
    }

    /// Searches names linearly, because entries can be missing during replay.
    pub(super) fn resolve_one_by_one(
        &mut self,
        io: &mut DynIo<'_>,
        key: Key,
        name: &[u8],
        places: &[NodePos],
        resolved: &mut Resolved,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for (at, &place) in places.iter().enumerate() {
            match self.try_entry(io, key, place, out)?.map(|entry| entry.name.cmp(name)) {
                None => resolved.dangling = Some(at),
                Some(Ordering::Equal) => {
                    resolved.found = Some(at);
                    return Ok(());
                }
                Some(Ordering::Greater) => resolved.higher = resolved.higher.min(at),
                Some(Ordering::Less) => {}
            }
        }
        Ok(())
    }

    /// Removes a branch to the position of a new entry, which overwrote the old one, during replay.
    pub(super) fn make_way<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        key: Key,
        place: NodePos,
    ) -> Result<()> {
        if self.replay.is_none() {
            return Ok(());
        }
        if let Some(path) = self.leaf_at(io, key, place.lnum, place.offset)? {
            self.delete(io, space, path)?;
        }
        if let Some(replay) = &mut self.replay {
            replay.inserted.insert((place.lnum, place.offset));
        }
        Ok(())
    }

    /// Removes the last dangling entry of a key, except the one at `keep`.
    pub(super) fn remove_dangling<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        key: Key,
        keep: NodePos,
    ) -> Result<()> {
        let Some(run) = self.run(io, key)? else { return Ok(()) };
        let mut out = Vec::new();
        for (at, &place) in run.places.iter().enumerate().rev() {
            if place != keep && self.try_entry(io, key, place, &mut out)?.is_none() {
                let path = self.nth_of(io, &run, at)?;
                return self.delete(io, space, path);
            }
        }
        Ok(())
    }
}
