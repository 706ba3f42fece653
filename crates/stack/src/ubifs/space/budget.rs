//! Budgets: an operation that was admitted never finds the flash full (Linux: `fs/ubifs/budget.c`).
//!
//! Budgets assume the worst case: incompressible data, and an index node for each new node. Three times the size of the
//! index is reserved, so that it can always be written, if necessary in the gaps of the old one.

use std::sync::Arc;

use super::super::layout::{Layout, MAX_DATA_NODE_BYTES, align8};
use super::Space;
use floatgate_media::ubifs::BLOCK_BYTES;

/// Size of an inode without attached data, B.
const INODE_BYTES: u64 = 160;

/// Size of an entry with the longest name, B.
const MAX_ENTRY_BYTES: u64 = 56 + 255 + 1;

/// Minimum number of LEBs reserved for the index (Linux: `MIN_INDEX_LEBS`).
const MIN_INDEX_LEBS: u32 = 2;

/// Space reserved for the index, as a multiple of its size.
const INDEX_COPIES: u64 = 3;

/// Maximum amount that an operation writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BudgetRequest {
    /// Blocks (4 KiB) that are new in a file.
    pub(crate) new_blocks: u32,
    /// Blocks that are overwritten.
    pub(crate) changed_blocks: u32,
    /// New inodes.
    pub(crate) new_inodes: u32,
    /// Data attached to new inodes, B.
    pub(crate) new_inode_bytes: u32,
    /// Inodes that are rewritten.
    pub(crate) changed_inodes: u32,
    /// Data attached to changed inodes, B.
    pub(crate) changed_inode_bytes: u32,
    /// New names of files or attributes.
    pub(crate) new_entries: u32,
    /// Entries that are rewritten, or removed by writing a deletion entry.
    pub(crate) changed_entries: u32,
}

/// Cost of a request in bytes; kept until it is returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Growth of the index.
    pub(crate) index: u64,
    /// Size of new nodes.
    pub(crate) data: u64,
    /// Size of nodes that replace others.
    pub(crate) dirty: u64,
}

/// Budgeted space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Budget {
    /// Size of the index on flash, B.
    committed_index: u64,
    /// Growth of the index since the last commit.
    uncommitted_index: u64,
    /// Cost of operations that have not written yet.
    pub(super) promised: Cost,
    /// No budgets, and nothing is reserved for the index: writes continue until the volume is full.
    pub(super) unlimited: bool,
}

impl BudgetRequest {
    /// Cost of the request.
    pub(crate) fn cost(&self, layout: &Layout) -> Cost {
        let times = |count: u32, bytes: u64| u64::from(count) * bytes;
        let block = u64::from(MAX_DATA_NODE_BYTES);
        let nodes = u64::from(self.new_blocks) + u64::from(self.new_inodes) + u64::from(self.new_entries);
        Cost {
            index: nodes * u64::from(layout.max_index_node_bytes()),
            data: times(self.new_blocks, block)
                + times(self.new_inodes, INODE_BYTES)
                + times(self.new_entries, MAX_ENTRY_BYTES)
                + u64::from(self.new_inode_bytes).next_multiple_of(8),
            dirty: times(self.changed_blocks, block)
                + times(self.changed_inodes, INODE_BYTES)
                + times(self.changed_entries, MAX_ENTRY_BYTES)
                + u64::from(self.changed_inode_bytes).next_multiple_of(8),
        }
    }
}

impl Cost {
    const fn plus(self, other: Self) -> Self {
        Self {
            index: self.index.saturating_add(other.index),
            data: self.data.saturating_add(other.data),
            dirty: self.dirty.saturating_add(other.dirty),
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            index: self.index.saturating_sub(other.index),
            data: self.data.saturating_sub(other.data),
            dirty: self.dirty.saturating_sub(other.dirty),
        }
    }

    /// True if nothing is written.
    pub(crate) const fn is_nothing(self) -> bool {
        self.data == 0 && self.dirty == 0
    }
}

impl Budget {
    /// Budget without requests, for an index of `committed_index` bytes on flash.
    pub(super) const fn new(committed_index: u64) -> Self {
        let promised = Cost { index: 0, data: 0, dirty: 0 };
        Self { committed_index, uncommitted_index: 0, promised, unlimited: false }
    }

    /// Number of LEBs that the index may need until the end of the next commit. One LEB is added for the LEB of the
    /// index head, whose gaps cannot be used.
    fn min_index_lebs(&self, layout: &Layout) -> u32 {
        let growth = self.uncommitted_index.saturating_add(self.promised.index);
        let bytes = self.committed_index.saturating_add(growth).saturating_mul(INDEX_COPIES);
        let usable = layout.leb_bytes().saturating_sub(layout.max_index_node_bytes()).max(1);
        let lebs = bytes.div_ceil(u64::from(usable)).saturating_add(1);
        u32::try_from(lebs).unwrap_or(u32::MAX).max(MIN_INDEX_LEBS)
    }
}

/// Bytes of file data that fit into `space`: data nodes with headers, and their share of the index.
///
/// Index nodes are assumed to be half full on average (Linux: `ubifs_reported_space`).
fn reported(layout: &Layout, space: u64) -> u64 {
    let fanout = u64::from(if layout.limits.fanout > 3 { layout.limits.fanout / 2 } else { 2 });
    let index = u64::from(layout.max_index_node_bytes()) * INDEX_COPIES / (fanout - 1).max(1);
    let bytes = u128::from(space) * u128::from(BLOCK_BYTES);
    u64::try_from(bytes / u128::from(u64::from(MAX_DATA_NODE_BYTES) + index)).unwrap_or(u64::MAX)
}

impl Space {
    /// Switches budgets on or off. Without them, the index gets the space that is left when it is written.
    pub(crate) const fn set_budgeted(&mut self, budgeted: bool) {
        self.budget.unlimited = !budgeted;
    }

    /// True if space is budgeted.
    pub(crate) const fn is_budgeted(&self) -> bool {
        !self.budget.unlimited
    }

    /// Number of LEBs that the main area needs so that `bytes` are available with the present contents.
    ///
    /// Each empty LEB contains some dark space too, so the unavailable space depends on the number of empty LEBs.
    pub(crate) fn main_lebs_for(&self, bytes: u64) -> u32 {
        let (lebs, dark) = (u64::from(self.layout().limits.main_lebs()), u64::from(self.layout().dark_bytes));
        let needed =
            self.unavailable(self.min_index_lebs()).saturating_add(bytes).saturating_sub(lebs * dark);
        let offered = u64::from(self.layout().leb_bytes()).saturating_sub(dark).max(1);
        u32::try_from(needed.div_ceil(offered)).unwrap_or(u32::MAX)
    }

    /// True if more space is in use than budgets admit: the filesystem was created that full.
    pub(crate) fn is_overfull(&self) -> bool {
        self.is_budgeted() && self.unavailable(self.min_index_lebs()) > self.layout().limits.main_bytes()
    }

    fn layout(&self) -> &Arc<Layout> {
        self.table.layout()
    }

    /// Number of LEBs reserved for the index (Linux: `min_idx_lebs`).
    pub(crate) fn min_index_lebs(&self) -> u32 {
        self.budget.min_index_lebs(self.layout())
    }

    /// Bytes available to nodes if `min_index_lebs` are reserved for the index (Linux: `ubifs_calc_available`).
    pub(crate) fn available(&self, min_index_lebs: u32) -> u64 {
        self.layout().limits.main_bytes().saturating_sub(self.unavailable(min_index_lebs))
    }

    /// Bytes of the main area that nodes cannot use: used, lost and reserved ones. Reserved LEBs include one for the
    /// garbage collector, one per journal head, and one for deletions, which are always admitted.
    fn unavailable(&self, min_index_lebs: u32) -> u64 {
        let (layout, totals) = (self.layout(), self.totals());
        let kept = u64::from(min_index_lebs) + 1 + u64::from(layout.limits.heads) + 1;
        // Index LEBs beyond the reserved ones count as available, and so do their dark bytes.
        let surplus = u64::from(totals.index_lebs.saturating_sub(min_index_lebs));
        let lost = [
            totals.used,
            kept * u64::from(layout.leb_bytes()),
            totals.dead,
            totals.dark,
            surplus * u64::from(layout.dark_bytes),
        ];
        lost.into_iter().fold(0, u64::saturating_add)
    }

    /// Budgets space for a request, if there is enough; `privileged` may use the reserved space. `None` is not final:
    /// write-back, garbage collection and a commit make space.
    ///
    /// Return the cost with [`release`](Self::release) after writing.
    pub(crate) fn promise(&mut self, request: &BudgetRequest, privileged: bool) -> Option<Cost> {
        let cost = request.cost(self.layout());
        if cost.is_nothing() || self.budget.unlimited {
            return Some(Cost::default());
        }
        let before = self.budget.promised;
        self.budget.promised = before.plus(cost);
        if self.keeps_promises(privileged) {
            return Some(cost);
        }
        self.budget.promised = before;
        None
    }

    /// True if the budgeted space fits.
    fn keeps_promises(&self, privileged: bool) -> bool {
        let min_index_lebs = self.min_index_lebs();
        if self.lebs_kept_for_index() > self.reusable_lebs() {
            return false;
        }
        let promised = self.budget.promised;
        let reserved = self.layout().superblock.reserved_bytes;
        match self.available(min_index_lebs).checked_sub(promised.data.saturating_add(promised.dirty)) {
            Some(rest) => privileged || rest > reserved,
            None => false,
        }
    }

    /// Records that budgeted data was written: the index has grown, and the growth counts as uncommitted.
    pub(crate) fn release(&mut self, cost: Cost) {
        if !cost.is_nothing() {
            self.budget.promised = self.budget.promised.minus(cost);
            self.budget.uncommitted_index = self.budget.uncommitted_index.saturating_add(cost.index);
        }
    }

    /// Releases budgeted space that is not written.
    pub(crate) fn withdraw(&mut self, cost: Cost) {
        self.budget.promised = self.budget.promised.minus(cost);
    }

    /// Records the size of the index in a commit. Its LEBs are already allocated, so the uncommitted growth is zero.
    pub(crate) fn index_committed(&mut self, index_bytes: u64) {
        self.budget.committed_index = index_bytes;
        self.budget.uncommitted_index = 0;
    }

    /// Records the number of index nodes that the replay changed and the next commit writes.
    pub(crate) fn replayed(&mut self, dirty_index_nodes: usize) {
        let bytes = u64::from(align8(self.layout().max_index_node_bytes()));
        self.budget.uncommitted_index = bytes.saturating_mul(dirty_index_nodes as u64);
    }

    /// Bytes available to a new file (Linux: `ubifs_get_free_space`).
    ///
    /// An empty LEB loses only the end that large data nodes leave unused, not all dark bytes.
    pub(crate) fn free_bytes(&self) -> u64 {
        let layout = self.layout();
        let promised = self.budget.promised.data.saturating_add(self.budget.promised.dirty);
        let lebs = i64::from(self.reusable_lebs()) - i64::from(self.lebs_kept_for_index());
        let better = i64::from(layout.dark_bytes) - i64::from(layout.leb_overhead);
        let available = i64::try_from(self.available(self.min_index_lebs())).unwrap_or(i64::MAX);
        let available = available.saturating_add(lebs.saturating_mul(better));
        let space = u64::try_from(available).unwrap_or(0).saturating_sub(promised);
        reported(layout, space)
    }

    /// True if the filesystem contains only the root directory's inode, and nothing is pending.
    fn is_empty(&self) -> bool {
        self.totals().used <= INODE_BYTES && self.budget.promised.is_nothing()
    }

    /// Size and free space of the filesystem (`statfs`).
    ///
    /// `empty_is_total`: an empty filesystem is completely free, and its size includes the journal heads, as in 2008
    /// (Linux 2.6.27, `ubifs_calc_available`, with the size in LEBs introduced by commit 7dad181bbe58).
    pub(crate) fn report(&self, empty_is_total: bool) -> crate::fs::Space {
        let layout = self.layout();
        let block = u64::from(BLOCK_BYTES);
        let heads = if empty_is_total { 0 } else { layout.limits.heads };
        let kept = 1 + 1 + MIN_INDEX_LEBS + heads;
        let lebs = layout.limits.main_lebs().saturating_sub(kept);
        let per_leb = u64::from(layout.leb_bytes() - layout.leb_overhead);
        let total = reported(layout, u64::from(lebs) * per_leb);
        let free = if empty_is_total && self.is_empty() { total } else { self.free_bytes() };
        let reserved = reported(layout, layout.superblock.reserved_bytes);
        crate::fs::Space {
            blocks: total / block,
            free_blocks: free / block,
            available_blocks: free.saturating_sub(reserved) / block,
        }
    }
}
