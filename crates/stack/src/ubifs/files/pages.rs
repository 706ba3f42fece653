//! Page cache: changed blocks of files that are not written yet.

use std::collections::BTreeMap;

use floatgate_media::ubifs::BLOCK_BYTES;

use super::super::space::{BudgetRequest, Cost};
use super::Ubifs;
use crate::volume::Volume;

/// Bytes of a block.
pub(super) const BLOCK: usize = BLOCK_BYTES as usize;

/// A changed block.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) bytes: Box<[u8; BLOCK]>,
    /// Budget for writing it.
    cost: Cost,
}

/// Changed blocks by inode and block.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    map: BTreeMap<(u32, u32), Page>,
}

impl Pages {
    pub(super) fn get(&self, inode: u32, block: u32) -> Option<&Page> {
        self.map.get(&(inode, block))
    }

    pub(super) fn get_mut(&mut self, inode: u32, block: u32) -> Option<&mut Page> {
        self.map.get_mut(&(inode, block))
    }

    pub(super) fn insert(&mut self, inode: u32, block: u32, bytes: Box<[u8; BLOCK]>, cost: Cost) {
        self.map.insert((inode, block), Page { bytes, cost });
    }

    pub(super) fn remove(&mut self, inode: u32, block: u32) -> Option<Page> {
        self.map.remove(&(inode, block))
    }

    /// First changed block of an inode at or after `block`.
    pub(super) fn next(&self, inode: u32, block: u32) -> Option<u32> {
        self.map.range((inode, block)..=(inode, u32::MAX)).next().map(|(&(_, block), _)| block)
    }

    /// First inode with changed blocks.
    pub(super) fn first_inode(&self) -> Option<u32> {
        self.map.keys().next().map(|&(inode, _)| inode)
    }

    pub(super) fn bytes(&self) -> usize {
        self.map.len() * BLOCK
    }
}

impl Page {
    /// Budget for writing it.
    pub(super) const fn cost(&self) -> Cost {
        self.cost
    }
}

/// Budget for a block that a write makes dirty.
pub(super) fn page_budget(new: bool) -> BudgetRequest {
    BudgetRequest { new_blocks: u32::from(new), changed_blocks: u32::from(!new), ..BudgetRequest::default() }
}

impl Ubifs<dyn Volume> {
    /// Drops changed blocks of an inode from `block` on.
    pub(super) fn drop_pages(&mut self, inode: u32, block: u32) {
        while let Some(next) = self.pages.next(inode, block) {
            if let Some(page) = self.pages.remove(inode, next) {
                self.core.space.withdraw(page.cost());
            }
        }
    }
}
