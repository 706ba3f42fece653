//! Reserving space for a group of nodes in one LEB (Linux: `make_reservation` in `fs/ubifs/journal.c`).

use super::super::core::Core;
use super::super::error::{Error, Result};
use super::super::layout::Head;
use super::{Bud, Room};
use crate::volume::Volume;

impl Core<dyn Volume> {
    /// Ensures that a head's LEB has room for `bytes`: takes another LEB, collects garbage, or commits.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::TooLarge`] for more than a LEB; volume failures, damage.
    pub(super) fn reserve(&mut self, head: Head, bytes: u64) -> Result<()> {
        if self.io.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let leb = self.io.layout().leb_bytes();
        let needed = u32::try_from(bytes).ok().filter(|&needed| needed <= leb);
        let needed = needed.ok_or(Error::TooLarge { what: "group of nodes", len: bytes })?;
        for _ in 0..self.limits.journal_commits {
            match self.try_reserve(head, needed)? {
                Room::Ready(()) => return Ok(()),
                Room::CommitFirst => self.force_commit()?,
                // A commit frees LEBs that contain only dirty space, and LEBs of the old index.
                Room::NoSpace if self.commit_changes()? => {}
                Room::NoSpace => return Err(Error::NoSpace),
            }
        }
        match self.try_reserve(head, needed)? {
            Room::Ready(()) => Ok(()),
            _ => Err(Error::NoSpace),
        }
    }

    fn try_reserve(&mut self, head: Head, bytes: u32) -> Result<Room<()>> {
        if self.io.head_room(head) >= bytes {
            return Ok(Room::Ready(()));
        }
        if self.log.is_commit_due() {
            return Ok(Room::CommitFirst);
        }
        // Nodes of the base head are small and fit into the free ends of data LEBs. Without budgets, all heads use such
        // ends: otherwise an image that is changed repeatedly would take a new LEB each time.
        let squeeze = head == Head::Base || (!self.space.is_budgeted() && !self.log.is_deferred());
        let (lnum, offset) = match self.space.find_free(&mut self.io, bytes, squeeze)? {
            Some(found) => found,
            None => match self.collect(false)? {
                Room::Ready(lnum) => (lnum, 0),
                Room::CommitFirst => return Ok(Room::CommitFirst),
                Room::NoSpace => return Ok(Room::NoSpace),
            },
        };
        let room = self.move_head(head, lnum, offset)?;
        if room != Room::Ready(()) {
            self.space.set_taken(lnum, false)?;
        }
        Ok(room)
    }

    /// Moves a head to another LEB, which becomes part of the journal.
    pub(crate) fn move_head(&mut self, head: Head, lnum: u32, offset: u32) -> Result<Room<()>> {
        self.io.sync_head(&mut self.space, head)?;
        let room = self.log.reference(&mut self.io, lnum, Bud { head, start: offset })?;
        if room == Room::Ready(()) {
            self.io.seek_head(head, lnum, offset);
        }
        Ok(room)
    }
}
