//! Making space before an operation (Linux: `make_free_space` in `fs/ubifs/budget.c`).

use super::core::Core;
use super::error::{Error, Result};
use super::journal::Room;
use super::space::{BudgetRequest, Cost};
use crate::volume::Volume;

impl Core<dyn Volume> {
    /// Budgets space for an operation; `privileged` may use the reserved space. Collects garbage and commits if there
    /// is not enough. Callers with unwritten pages write them first: budgets are pessimistic, and written nodes take
    /// less space.
    ///
    /// Return the cost with `Space::release` after the operation has written, or with `Space::withdraw` if it did
    /// not.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; volume failures and damage.
    pub(crate) fn reserve_space(&mut self, request: &BudgetRequest, privileged: bool) -> Result<Cost> {
        if self.io.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let mut commits = 0;
        // Each collected LEB reduces the dirty space, so the loop ends; the bound is for damaged filesystems.
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

    /// Collects garbage and commits until a LEB is available for the index; returns true on success.
    ///
    /// Moving data changes the index, and the commit that writes it takes LEBs. So the number of LEBs collected before
    /// a commit increases with each round.
    ///
    /// # Errors
    /// Volume failures and damage.
    pub(crate) fn make_spare_leb(&mut self) -> Result<bool> {
        let mut wanted = 1;
        loop {
            let has_collected = self.collect_for_index(wanted)?;
            self.commit()?;
            if self.space.lebs_for_index() > 0 {
                return Ok(true);
            }
            if !has_collected {
                return Ok(false);
            }
            wanted *= 2;
        }
    }

    /// Collects garbage until `wanted` LEBs are available for the index; returns true on success.
    fn collect_for_index(&mut self, wanted: usize) -> Result<bool> {
        let mut commits = 0;
        // The bound is for filesystems in which collection gains nothing.
        for _ in 0..=self.io.layout().limits.main_lebs() {
            if self.space.lebs_for_index() >= wanted {
                return Ok(true);
            }
            if !self.make_space(&mut commits)? {
                break;
            }
        }
        Ok(self.space.lebs_for_index() >= wanted)
    }

    /// Makes space; true if more space may be available now.
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
