//! Limits of what a mounted filesystem keeps in memory and how often it tries.
//!
//! The model tests and the power-cut runs set them to 1, 2, 3 and 8, so that each is reached.

/// Limits of a mounted filesystem. The sizes of caches change nothing that a caller sees but time and the order of writes; fewer
/// attempts to make space let a nearly full filesystem say earlier that it is full.
///
/// Index nodes (Linux: znodes) and LEB properties are kept without a limit: about 40 bytes for each node of the filesystem and 16
/// for each LEB. Changed inodes are bounded by the budget. The format has limits of its own, which follow from the superblock and
/// the volume: bytes of the journal and of the log, orphans, fanout, bytes of a write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of inodes kept in memory beside those that are open or changed. Linux leaves this to the VFS.
    pub inodes: usize,
    /// Bytes of changed blocks of files kept in memory before they are written. Linux leaves this to the page cache.
    pub page_bytes: usize,
    /// Number of directory entries kept in memory, rounded up to a power of two (Linux: leaf node cache, without a limit).
    pub entries: usize,
    /// Largest number of blocks read at once with `bulk_read` (Linux: `UBIFS_MAX_BULK_READ`).
    pub bulk_read_blocks: usize,
    /// Number of LEBs after which the garbage collector stops if a commit would free LEBs of the index (Linux:
    /// `SOFT_LEBS_LIMIT`).
    pub gc_soft_lebs: usize,
    /// Number of LEBs after which the garbage collector stops (Linux: `HARD_LEBS_LIMIT`).
    pub gc_hard_lebs: usize,
    /// Number of commits after which there is no space for a budget (Linux: `MAX_MKSPC_RETRIES`).
    pub budget_commits: usize,
    /// Number of commits after which a journal head finds no room. Linux has 128 retries, but waits for other writers as well.
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
    /// All limits set to `count`, bytes to as many blocks: for tests.
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
