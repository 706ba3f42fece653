//! Limits of the caches and retries of a mounted filesystem.
//!
//! Model tests and power-cut runs set them to 1, 2, 3 and 8, so that each limit is reached.

/// Limits of a mounted filesystem. Cache sizes affect only time and the order of writes. With fewer retries, a nearly
/// full filesystem may report earlier that it is full.
///
/// Index nodes (Linux: znodes) and LEB properties are kept without a limit: about 40 bytes for each node of the
/// filesystem and 16 for each LEB. Dirty inodes are bounded by the budget. The format has further limits, which follow
/// from the superblock and the volume: bytes of the journal and of the log, orphans, fanout, write buffer size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of inodes kept in memory besides open and dirty ones. Linux leaves this to the VFS.
    pub inodes: usize,
    /// Size of the page cache of changed blocks, B. Linux leaves this to its page cache.
    pub page_bytes: usize,
    /// Number of directory entries kept in memory, rounded up to a power of two (Linux: leaf node cache, unlimited).
    pub entries: usize,
    /// Maximum number of blocks read at once with `bulk_read` (Linux: `UBIFS_MAX_BULK_READ`).
    pub bulk_read_blocks: usize,
    /// Number of LEBs after which the garbage collector stops if a commit would free index LEBs (Linux:
    /// `SOFT_LEBS_LIMIT`).
    pub gc_soft_lebs: usize,
    /// Number of LEBs after which the garbage collector stops (Linux: `HARD_LEBS_LIMIT`).
    pub gc_hard_lebs: usize,
    /// Number of commits after which a budget request fails (Linux: `MAX_MKSPC_RETRIES`).
    pub budget_commits: usize,
    /// Number of commits after which a reservation for a journal head fails. Linux retries 128 times, but also waits
    /// for other writers.
    pub journal_commits: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            inodes: 1024,
            page_bytes: 4 << 20,
            entries: 128,
            bulk_read_blocks: 32,
            gc_soft_lebs: 4,
            gc_hard_lebs: 32,
            budget_commits: 3,
            journal_commits: 32,
        }
    }
}

impl Limits {
    /// Sets all limits to `count`, and byte limits to `count` blocks; for tests.
    #[must_use]
    pub const fn all(count: usize) -> Self {
        Self {
            inodes: count,
            page_bytes: count * floatgate_media::ubifs::BLOCK_BYTES as usize,
            entries: count,
            bulk_read_blocks: count,
            gc_soft_lebs: count,
            gc_hard_lebs: count,
            budget_commits: count,
            journal_commits: count,
        }
    }
}
