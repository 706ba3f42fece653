//! Master nodes, which describe the filesystem after a commit: `docs/spec/ubifs.md#master-node`.

use super::header::fixed_nodes;
use super::{INODE_WATERMARK, Limits};
use crate::error::{MediaError, require};
use crate::flags::flags;
use crate::wire::layout;

flags! {
    /// State flags of the filesystem.
    pub struct MasterFlags(u32) {
        /// The filesystem was mounted for writing and not unmounted since.
        DIRTY = 0,
        /// There are no orphans.
        NO_ORPHANS = 1,
        /// Recovery wrote this node.
        RECOVERY = 2,
    }
}

layout! {
    /// A master node. LEB numbers are counted from the start of the volume, sizes are in bytes.
    pub struct Master[512] {
        /// Highest inode number in the index.
        24 => highest_inode: u64,
        /// Number of the last commit.
        32 => commit: u64,
        /// State flags.
        40 => flags: MasterFlags,
        /// First LEB of the current log.
        44 => log_lnum: u32,
        /// LEB of the index root.
        48 => root_lnum: u32,
        /// Offset of the index root in its LEB, bytes.
        52 => root_offset: u32,
        /// Length of the index root, bytes.
        56 => root_len: u32,
        /// LEB reserved for the garbage collector; all ones if there is none.
        60 => gc_lnum: u32,
        /// LEB of the index head, where the next index node is written.
        64 => index_head_lnum: u32,
        /// Offset of the index head in its LEB, bytes.
        68 => index_head_offset: u32,
        /// Size of the index, bytes.
        72 => index_bytes: u64,
        /// Free space of the main area, bytes.
        80 => free_bytes: u64,
        /// Dirty space of the main area, bytes.
        88 => dirty_bytes: u64,
        /// Used space in LEBs other than index LEBs, bytes.
        96 => used_bytes: u64,
        /// Dead space in LEBs other than index LEBs, bytes: space too small for any node.
        104 => dead_bytes: u64,
        /// Dark space in LEBs other than index LEBs, bytes: space that may be unusable.
        112 => dark_bytes: u64,
        /// LEB of the LPT root.
        120 => lpt_lnum: u32,
        /// Offset of the LPT root in its LEB, bytes.
        124 => lpt_offset: u32,
        /// LEB of the LPT head, where the next LPT node is written.
        128 => lpt_head_lnum: u32,
        /// Offset of the LPT head in its LEB, bytes.
        132 => lpt_head_offset: u32,
        /// LEB of the table of the LPT's own LEBs.
        136 => ltab_lnum: u32,
        /// Offset of the table of the LPT's own LEBs, bytes.
        140 => ltab_offset: u32,
        /// LEB of the LPT's save table; big model only.
        144 => lsave_lnum: u32,
        /// Offset of the LPT's save table, bytes; big model only.
        148 => lsave_offset: u32,
        /// LEB at which the last scan of the LPT for free space ended.
        152 => lscan_lnum: u32,
        /// Number of empty LEBs.
        156 => empty_lebs: u32,
        /// Number of index LEBs.
        160 => index_lebs: u32,
        /// Number of LEBs of the filesystem.
        164 => leb_count: u32,
        /// Hash of the index root.
        168 => hash_root: [u8; 64],
        /// Hash of the LPT.
        232 => hash_lpt: [u8; 64],
        /// HMAC of this node.
        296 => hmac: [u8; 64],
    }
}

fixed_nodes!(Master => Master);

/// Value of [`Master::gc_lnum`] if no LEB is reserved.
pub(super) const NO_LEB: u32 = u32::MAX;

impl Master {
    /// Offset of [`hmac`](Self::hmac) in the node, bytes.
    pub const HMAC_AT: usize = 296;

    /// LEB reserved for the garbage collector; `None` if there is none.
    #[must_use]
    pub fn gc_leb(&self) -> Option<u32> {
        Some(self.gc_lnum).filter(|&lnum| lnum != NO_LEB)
    }

    /// Checks the fields against the superblock's limits, as Linux does at mount.
    ///
    /// # Errors
    ///
    /// The first invalid field.
    pub fn check(&self, limits: &Limits) -> Result<(), MediaError> {
        require(self.highest_inode < INODE_WATERMARK, 24, "highest inode", self.highest_inode)?;
        let lebs = self.leb_count;
        require(lebs <= limits.leb_count, 164, "LEBs", lebs)?;
        self.check_index(limits)?;
        self.check_lpt(limits)?;
        self.check_counts(limits)?;
        self.check_space(limits)
    }

    /// Checks the positions of the log, the index and the index head.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn check_index(&self, limits: &Limits) -> Result<(), MediaError> {
        let main = |lnum| limits.main.contains(&lnum);
        require(limits.log.contains(&self.log_lnum), 44, "log LEB", self.log_lnum)?;
        require(main(self.root_lnum), 48, "index root LEB", self.root_lnum)?;
        let aligned = self.root_offset < limits.leb_bytes && self.root_offset.is_multiple_of(8);
        require(aligned, 52, "index root offset", self.root_offset)?;
        require(limits.index_lengths().contains(&self.root_len), 56, "index root length", self.root_len)?;
        let gc = self.gc_leb().is_none_or(main);
        require(gc, 60, "garbage collection LEB", self.gc_lnum)?;
        require(main(self.index_head_lnum), 64, "index head LEB", self.index_head_lnum)?;
        let head = self.index_head_offset;
        let good = head <= limits.leb_bytes && head.is_multiple_of(limits.min_io_bytes.max(8));
        require(good, 68, "index head offset", head)?;
        let index = self.index_bytes;
        require(index < limits.main_bytes() && index.is_multiple_of(8), 72, "index size", index)
    }

    /// Checks the positions of the LPT.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn check_lpt(&self, limits: &Limits) -> Result<(), MediaError> {
        let geometry = &limits.lpt_geometry;
        let head = self.lpt_head_offset;
        let aligned = head <= limits.leb_bytes && head.is_multiple_of(limits.min_io_bytes);
        let inside =
            |offset: u32, len: u32| offset.checked_add(len).is_some_and(|end| end <= limits.leb_bytes);
        let big = geometry.is_big();
        let lpt = |lnum| limits.lpt.contains(&lnum);
        let places = [
            (120, "LPT root LEB", self.lpt_lnum, lpt(self.lpt_lnum)),
            (124, "LPT root offset", self.lpt_offset, inside(self.lpt_offset, geometry.nnode_bytes())),
            (128, "LPT head LEB", self.lpt_head_lnum, lpt(self.lpt_head_lnum)),
            (132, "LPT head offset", head, aligned),
            (136, "LPT table LEB", self.ltab_lnum, lpt(self.ltab_lnum)),
            (140, "LPT table offset", self.ltab_offset, inside(self.ltab_offset, geometry.ltab_bytes())),
            (144, "LPT save table LEB", self.lsave_lnum, !big || lpt(self.lsave_lnum)),
            (148, "LPT save table offset", self.lsave_offset, {
                !big || inside(self.lsave_offset, geometry.lsave_bytes())
            }),
            (152, "LPT scan LEB", self.lscan_lnum, limits.main.contains(&self.lscan_lnum)),
        ];
        places.into_iter().try_for_each(|(at, field, value, good)| require(good, at, field, value))
    }

    fn check_counts(&self, limits: &Limits) -> Result<(), MediaError> {
        let lebs = limits.main_lebs();
        require(self.empty_lebs <= lebs.saturating_sub(2), 156, "empty LEBs", self.empty_lebs)?;
        require(self.index_lebs < lebs, 160, "index LEBs", self.index_lebs)
    }

    fn check_space(&self, limits: &Limits) -> Result<(), MediaError> {
        let main = limits.main_bytes();
        let reusable = self.free_bytes.saturating_add(self.dirty_bytes);
        let taken = [self.dead_bytes, self.dark_bytes, self.used_bytes, self.index_bytes];
        let sizes = [
            (80, "free space", self.free_bytes, main),
            (88, "dirty space", self.dirty_bytes, main),
            (96, "used space", self.used_bytes, main.saturating_sub(reusable)),
            (104, "dead space", self.dead_bytes, reusable),
            (112, "dark space", self.dark_bytes, reusable),
        ];
        for (at, field, value, most) in sizes {
            require(value <= most && value.is_multiple_of(8), at, field, value)?;
        }
        let sum = taken.into_iter().fold(0u64, u64::saturating_add);
        require(sum <= main, 112, "dead, dark, used and index space", sum)
    }
}
