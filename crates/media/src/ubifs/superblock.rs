//! The superblock node, the only node in LEB 0: `docs/spec/ubifs.md#superblock-node`.

use super::header::fixed_nodes;
use super::{Branch, NON_DATA_HEADS};
use super::{FORMAT_VERSION, HashAlgorithm, KeyHash, LOG_LEB, MAX_HASH_BYTES, index::IndexNode};
use crate::error::{MediaError, Reason, require};
use crate::file::Compression;
use crate::flags::flags;
use crate::wire::layout;

/// Oldest format version that Linux supports.
const OLDEST_VERSION: u32 = 3;

/// First format version with double hashes and encryption.
const DOUBLE_HASH_VERSION: u32 = 5;

/// Minimum sizes of log, LPT area, orphan area and main area, LEBs.
const MIN_AREAS: [u32; 4] = [2, 2, 1, 9];

/// Minimum size of the journal, LEBs.
const MIN_JOURNAL_LEBS: u64 = 3;

/// Number of LEBs of the main area besides one per journal head: three for the index, one each for garbage
/// collection, deletions and data.
const SPARE_MAIN_LEBS: u32 = 6;

/// Number of entries of the LPT's save table up to which any number is accepted.
const USUAL_LSAVE: u32 = 256;

/// Minimum fanout of the index.
const MIN_FANOUT: u32 = 3;

/// Size of an index node before its branches, bytes.
const INDEX_HEAD: usize = IndexNode::MIN_BYTES - Branch::bytes(0);

flags! {
    /// Feature flags of a filesystem.
    pub struct SuperblockFlags(u32) {
        /// The LEB properties tree uses the big model.
        BIG_LPT = 1,
        /// The first mount must erase free space.
        SPACE_FIXUP = 2,
        /// Directory entries store a cookie in addition to the hash.
        DOUBLE_HASH = 3,
        /// Some files are encrypted.
        ENCRYPTION = 4,
        /// Nodes are authenticated by hashes.
        AUTHENTICATION = 5,
    }
}

/// Mask of all flags with a name.
const KNOWN_FLAGS: u32 = 0b11_1110;

layout! {
    /// The superblock node.
    pub struct Superblock[4096] {
        /// Hash function that maps names to keys.
        26 => key_hash: KeyHash,
        /// Format of the keys; only 0 is defined.
        27 => key_format: u8,
        /// Feature flags.
        28 => flags: SuperblockFlags,
        /// Minimum I/O unit, bytes.
        32 => min_io_bytes: u32,
        /// Size of a LEB, bytes.
        36 => leb_bytes: u32,
        /// Number of LEBs of the filesystem.
        40 => leb_count: u32,
        /// Number of LEBs to which the filesystem can grow.
        44 => max_leb_count: u32,
        /// Maximum size of the journal, B.
        48 => max_journal_bytes: u64,
        /// Number of LEBs of the log area.
        56 => log_lebs: u32,
        /// Number of LEBs of the LPT area.
        60 => lpt_lebs: u32,
        /// Number of LEBs of the orphan area.
        64 => orphan_lebs: u32,
        /// Number of journal heads for data: 1.
        68 => data_heads: u32,
        /// Maximum number of children of an index node.
        72 => fanout: u32,
        /// Number of entries in the LPT's save table.
        76 => lsave_count: u32,
        /// Version of the format: 4, or 5 with double hashes.
        80 => format_version: u32,
        /// Default compression; an inode may choose another.
        84 => compression: Compression,
        /// User id that may use the reserved space.
        88 => reserved_uid: u32,
        /// Group id that may use the reserved space.
        92 => reserved_gid: u32,
        /// Reserved space, bytes.
        96 => reserved_bytes: u64,
        /// Granularity of times, ns.
        104 => time_granularity_ns: u32,
        /// UUID of the filesystem.
        108 => uuid: [u8; 16],
        /// Read-only compatibility version: the version needed to read the filesystem.
        124 => ro_compat_version: u32,
        /// HMAC of this node.
        128 => hmac: [u8; 64],
        /// HMAC of a well-known text, which verifies the key.
        192 => hmac_known: [u8; 64],
        /// Hash function of the filesystem.
        256 => hash_algorithm: HashAlgorithm,
        /// Hash of the master node in a signed image.
        258 => hash_master: [u8; 64],
    }
}

fixed_nodes!(Superblock => Superblock);

/// A field to check: `(offset, name, value, whether it is valid)`.
type Check = (usize, &'static str, u64, bool);

impl Superblock {
    /// Offset of [`hmac`](Self::hmac) in the node, bytes.
    pub const HMAC_AT: usize = 128;

    /// True when all features in `flags` are enabled.
    #[must_use]
    pub const fn has(&self, flags: SuperblockFlags) -> bool {
        self.flags.contains(flags)
    }

    /// Length of a hash in index branches, bytes; 0 without authentication.
    #[must_use]
    pub const fn hash_bytes(&self) -> usize {
        match self.hash_algorithm.hash_bytes() {
            Some(bytes) if self.has(SuperblockFlags::AUTHENTICATION) => bytes,
            _ => 0,
        }
    }

    /// The effective superblock on a volume of `volume_lebs`: a filesystem grows to the size of its volume when it is
    /// mounted.
    ///
    /// `mkfs.ubifs` counts only the LEBs of its image, often too few for [`check`](Self::check).
    #[must_use]
    pub fn grown(&self, volume_lebs: u32) -> Self {
        let leb_count = self.leb_count.max(self.max_leb_count.min(volume_lebs));
        Self { leb_count, ..*self }
    }

    /// Number of LEBs of the main area; `None` if the other areas leave no LEB.
    #[must_use]
    pub fn main_lebs(&self) -> Option<u32> {
        self.areas_end().and_then(|end| self.leb_count.checked_sub(end))
    }

    /// Number of LEBs before the main area; `None` on overflow.
    #[must_use]
    pub fn areas_end(&self) -> Option<u32> {
        LOG_LEB.checked_add(self.log_lebs)?.checked_add(self.lpt_lebs)?.checked_add(self.orphan_lebs)
    }

    /// Checks the fields as Linux does at mount.
    ///
    /// # Errors
    ///
    /// An unknown version or flag, or the first invalid field.
    pub fn check(&self) -> Result<(), MediaError> {
        self.check_version()?;
        self.key_hash.known("key hash", 26)?;
        self.compression.known("compression", 84)?;
        if self.has(SuperblockFlags::AUTHENTICATION) {
            self.hash_algorithm.known("hash algorithm", 256)?;
        }
        let main = self.main_lebs().unwrap_or(0);
        let groups = [&self.unit_checks()[..], &self.area_checks(main), &self.journal_checks(main)];
        for &(at, field, value, good) in groups.into_iter().flatten() {
            require(good, at, field, value)?;
        }
        Ok(())
    }

    fn check_version(&self) -> Result<(), MediaError> {
        let version = self.format_version;
        if !(OLDEST_VERSION..=FORMAT_VERSION).contains(&version) {
            let reason = Reason::WrongVersion { what: "UBIFS", found: version, known: FORMAT_VERSION };
            return Err(reason.at(80));
        }
        let flags = self.flags.bits();
        let new = version >= DOUBLE_HASH_VERSION;
        let double_hash = !new || self.has(SuperblockFlags::DOUBLE_HASH);
        let encryption = new || !self.has(SuperblockFlags::ENCRYPTION);
        let known = flags & !KNOWN_FLAGS == 0;
        require(known && double_hash && encryption, 28, "flags", flags)
    }

    fn unit_checks(&self) -> [Check; 6] {
        let (io, leb) = (self.min_io_bytes, self.leb_bytes);
        let index = INDEX_HEAD as u64 + Branch::bytes(self.hash_bytes()) as u64 * u64::from(self.fanout);
        let io_good = io.is_power_of_two();
        let leb_good = io_good && leb >> 31 == 0 && leb >= super::MIN_LEB_BYTES && leb.is_multiple_of(io);
        [
            (27, "key format", u64::from(self.key_format), self.key_format == 0),
            (32, "minimal I/O unit", u64::from(io), io_good),
            (36, "LEB size", u64::from(leb), leb_good),
            // The minimum size of the main area depends on this number.
            (68, "journal heads", u64::from(self.data_heads), self.data_heads == 1),
            (72, "fanout", u64::from(self.fanout), self.fanout >= MIN_FANOUT && index <= u64::from(leb)),
            (104, "time granularity", u64::from(self.time_granularity_ns), {
                (1..=1_000_000_000).contains(&self.time_granularity_ns)
            }),
        ]
    }

    fn area_checks(&self, main: u32) -> [Check; 6] {
        let [min_log, min_lpt, min_orphans, min_main] = MIN_AREAS;
        let heads = self.data_heads.saturating_add(NON_DATA_HEADS);
        let main_good = main >= min_main && main >= heads.saturating_add(SPARE_MAIN_LEBS);
        let (count, most) = (self.leb_count, self.max_leb_count);
        let growable = most.saturating_sub(self.areas_end().unwrap_or(most));
        [
            (56, "log LEBs", u64::from(self.log_lebs), self.log_lebs >= min_log),
            (60, "LPT LEBs", u64::from(self.lpt_lebs), self.lpt_lebs >= min_lpt),
            (64, "orphan LEBs", u64::from(self.orphan_lebs), self.orphan_lebs >= min_orphans),
            (40, "LEBs", u64::from(count), main_good),
            (44, "LEBs to grow to", u64::from(most), most >= count && most >> 31 == 0),
            (76, "LPT save table", u64::from(self.lsave_count), {
                self.lsave_count <= USUAL_LSAVE || self.lsave_count <= growable
            }),
        ]
    }

    fn journal_checks(&self, main: u32) -> [Check; 2] {
        let leb = u64::from(self.leb_bytes);
        let main_bytes = leb * u64::from(main);
        let journal = self.max_journal_bytes;
        let range = leb * MIN_JOURNAL_LEBS..=main_bytes;
        [
            (48, "journal size", journal, range.contains(&journal)),
            (96, "reserved bytes", self.reserved_bytes, self.reserved_bytes <= main_bytes),
        ]
    }
}

const _: () = assert!(Superblock::HMAC_AT + MAX_HASH_BYTES == 192, "the field behind it");
