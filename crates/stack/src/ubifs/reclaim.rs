//! Space for operations before they begin. Linux: `make_free_space` in `fs/ubifs/budget.c`.

use super::core::Core;
use super::error::{Error, Result};
use super::journal::Room;
use super::space::{BudgetRequest, Cost};
use crate::volume::Volume;

impl Core<dyn Volume> {
    /// Promises space to an operation; `privileged` may use what is reserved. Collects garbage and commits if there is not
    /// enough. Who holds changes back (pages not written) writes them first: promises are pessimistic, and nodes written
    /// take less than was promised.
    ///
    /// Give the cost back with `Space::give_back` once the operation has written, or with `Space::withdraw` if it did
    /// not.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; failures of the volume and damage.
    pub(crate) fn reserve_space(&mut self, request: &BudgetRequest, privileged: bool) -> Result<Cost> {
        if self.io.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let mut commits = 0;
        // Every LEB that is collected shrinks what is dirty, so that this ends; the bound is for damaged filesystems.
        for _ in 0..=self.io.layout().limits.main_lebs() {
            if let Some(cost) = self.space.promise(request, privileged) {
                return Ok(cost);
            }
            if !self.make_space(&mut commits)? {
                break;
            }
        }
        Err(Error::NoSpace)
    }

    /// Collects garbage and commits until a LEB is left for the index; returns whether one is.
    ///
    /// # Errors
    /// Failures of the volume and damage.
    pub(crate) fn make_spare_leb(&mut self) -> Result<bool> {
        let mut commits = 0;
        while self.space.lebs_for_index() == 0 {
            if !self.make_space(&mut commits)? {
                break;
            }
        }
        self.commit()?;
        Ok(self.space.lebs_for_index() > 0)
    }

    /// Makes space; whether there may be more now.
    fn make_space(&mut self, commits: &mut usize) -> Result<bool> {
        let room = self.collect(true)?;
        if let Room::Ready(lnum) = room {
            return self.space.set_taken(lnum, false).map(|()| true);
        }
        *commits += 1;
        if *commits > self.limits.budget_commits {
            return Ok(false);
        }
        if room == Room::CommitFirst { self.force_commit().map(|()| true) } else { self.commit_changes() }
    }
}
