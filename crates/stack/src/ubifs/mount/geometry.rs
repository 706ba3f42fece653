//! Sizes of the areas of a new filesystem.
//!
//! Journal size: `mkfs.ubifs` uses an eighth of the volume and at most 8 MiB (observed in its output); Linux a
//! twentieth and at most 32 MiB (`create_default_filesystem` in `fs/ubifs/sb.c`).

use floatgate_media::ubifs::{
    FIRST_INODE, HashAlgorithm, LOG_LEB, NON_DATA_HEADS, Superblock, SuperblockFlags, lpt,
};

use super::format::{FormatOptions, FormatStyle};
use crate::ubifs::error::{Error, Result};
use crate::volume::VolumeGeometry;

/// Minimum number of LEBs of the log.
const MIN_LOG_LEBS: u32 = 2;

/// Minimum number of LEBs of the LPT.
const MIN_LPT_LEBS: u32 = 2;

/// Minimum number of LEBs of a filesystem: superblock, master nodes, log, LPT, orphans, main area.
pub const MIN_LEBS: u32 = LOG_LEB + MIN_LOG_LEBS + MIN_LPT_LEBS + 1 + 9;

/// Size of a reference node in the log, B.
const REFERENCE_BYTES: u32 = 64;

/// Size of the start of a commit in the log as counted by `mkfs.ubifs`, B: 32, and two references.
const COMMIT_START_BYTES: u32 = 32 + 2 * REFERENCE_BYTES;

/// Number of entries of the LPT's save table.
const LSAVE_COUNT: u32 = 256;

/// Default maximum size of the journal, B.
const MAX_JOURNAL_BYTES: u64 = 8 << 20;

/// Default maximum size of the journal in Linux, B.
const LINUX_MAX_JOURNAL_BYTES: u64 = 32 << 20;

/// Maximum number of bytes that Linux reserves.
const LINUX_MAX_RESERVED_BYTES: u64 = 5 << 20;

/// Sizes that are chosen before the LPT's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Areas {
    journal_bytes: u64,
    log_lebs: u32,
    orphan_lebs: u32,
}

/// Superblock of a new filesystem.
///
/// # Errors
/// A volume too small for a filesystem, or for the requested areas.
pub(crate) fn superblock(volume: VolumeGeometry, options: &FormatOptions) -> Result<Superblock> {
    let units = Units { leb_bytes: volume.leb_bytes, min_io_bytes: volume.min_io_bytes.max(8) };
    let max_leb_count = options.max_lebs.unwrap_or(volume.lebs);
    let leb_count = volume.lebs.min(max_leb_count);
    if leb_count < MIN_LEBS {
        return Err(Error::Superblock(format!("{leb_count} LEBs are too few, {MIN_LEBS} are needed")));
    }
    let areas = match options.style {
        FormatStyle::Mkfs => mkfs_areas(units, leb_count, max_leb_count, options),
        FormatStyle::Linux => linux_areas(units, leb_count, options),
    };
    let first_lnum = LOG_LEB.saturating_add(areas.log_lebs);
    let lpt = lpt::Geometry::choose(&lpt::Parameters {
        first_lnum,
        lebs: 0,
        main: first_lnum.saturating_add(areas.orphan_lebs)..max_leb_count,
        max_leb_count,
        leb_bytes: units.leb_bytes,
        min_io_bytes: units.min_io_bytes,
        lsave_count: LSAVE_COUNT,
        big: false,
    });
    let lpt = lpt.map_err(|reason| Error::Superblock(reason.to_string()))?;
    let superblock = Superblock {
        key_hash: options.key_hash,
        flags: flags(options, lpt.is_big()),
        min_io_bytes: units.min_io_bytes,
        leb_bytes: units.leb_bytes,
        leb_count,
        max_leb_count,
        max_journal_bytes: areas.journal_bytes,
        log_lebs: areas.log_lebs,
        lpt_lebs: lpt.parameters().lebs,
        orphan_lebs: areas.orphan_lebs,
        data_heads: 1,
        fanout: options.fanout,
        lsave_count: LSAVE_COUNT,
        format_version: options.format_version,
        compression: options.compression,
        reserved_uid: options.reserved_uid,
        reserved_gid: options.reserved_gid,
        time_granularity_ns: options.time_granularity_ns,
        uuid: options.uuid,
        hash_algorithm: match options.style {
            FormatStyle::Mkfs => HashAlgorithm::from_code(0),
            // Code with which Linux stores "no hash algorithm".
            FormatStyle::Linux => HashAlgorithm::from_code(u16::MAX),
        },
        ..Superblock::default()
    };
    let main = superblock.main_lebs().unwrap_or(0);
    let reserved_bytes = options.reserved_bytes.unwrap_or(match options.style {
        FormatStyle::Mkfs => 0,
        FormatStyle::Linux => {
            (u64::from(main) * u64::from(units.leb_bytes) * 5 / 100).min(LINUX_MAX_RESERVED_BYTES)
        }
    });
    Ok(Superblock { reserved_bytes, ..superblock })
}

fn flags(options: &FormatOptions, big_lpt: bool) -> SuperblockFlags {
    let flags = [
        (SuperblockFlags::BIG_LPT, big_lpt),
        (SuperblockFlags::SPACE_FIXUP, options.space_fixup),
        (SuperblockFlags::DOUBLE_HASH, options.format_version >= 5),
    ];
    let set = flags.into_iter().filter(|(_, on)| *on);
    set.fold(SuperblockFlags::default(), |all, (flag, _)| all.with(flag))
}

/// Units of the volume.
#[derive(Clone, Copy, Debug)]
struct Units {
    leb_bytes: u32,
    min_io_bytes: u32,
}

impl Units {
    /// Size of the references to `lebs` journal LEBs in the log, B.
    fn references(self, lebs: u64) -> u64 {
        lebs.saturating_mul(u64::from(REFERENCE_BYTES.next_multiple_of(self.min_io_bytes)))
    }

    fn lebs(self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.leb_bytes.max(1)))
    }
}

/// Areas as chosen by `mkfs.ubifs`, with two exceptions. If `mkfs.ubifs` refuses a small volume because of the log, the
/// log has two LEBs less, which are not strictly needed. If the filesystem may grow beyond its current volume, the
/// journal takes at most half of the space in the volume, because Linux refuses a journal that does not fit.
fn mkfs_areas(units: Units, lebs: u32, max_lebs: u32, options: &FormatOptions) -> Areas {
    let leb = u64::from(units.leb_bytes);
    let orphan_lebs = options.orphan_lebs.unwrap_or(1);
    let behind_log = |lebs: u32| lebs.saturating_sub(LOG_LEB + MIN_LPT_LEBS).saturating_sub(orphan_lebs);
    let main = |lebs| behind_log(lebs).saturating_sub(options.log_lebs.unwrap_or(MIN_LOG_LEBS));
    let default = u64::from((main(max_lebs) / 8).min(main(lebs) / 2)) * leb;
    let default = default.min(MAX_JOURNAL_BYTES).max(4 * leb);
    let journal_bytes = options.journal_bytes.unwrap_or(default);
    let start = u64::from(COMMIT_START_BYTES.next_multiple_of(units.min_io_bytes));
    let least = units.lebs(units.references(units.lebs(journal_bytes)) + start) + 1;
    // The main area needs at least nine LEBs.
    let room = u64::from(behind_log(max_lebs).saturating_sub(9));
    let log_lebs = (least + 2).min(room.max(least));
    let log_lebs = options.log_lebs.unwrap_or(u32::try_from(log_lebs).unwrap_or(u32::MAX));
    Areas { journal_bytes, log_lebs, orphan_lebs }
}

/// Areas that Linux chooses for an empty volume.
fn linux_areas(units: Units, lebs: u32, options: &FormatOptions) -> Areas {
    let leb = u64::from(units.leb_bytes.max(1));
    let mut journal = (u64::from(lebs) * 5 / 100).max(5);
    if journal * leb > LINUX_MAX_JOURNAL_BYTES {
        journal = LINUX_MAX_JOURNAL_BYTES / leb;
    }
    // The references are counted twice, because buds can begin in the middle of LEBs. One more LEB stays free for the
    // commit.
    let mut log = units.lebs(2 * units.references(journal)) + 1;
    let mut least = MIN_LEBS;
    if lebs.saturating_sub(least) > 8 {
        (log, least) = (log + 1, least + 1);
    }
    let buds = journal.saturating_sub(log).max(3);
    let log_lebs = options.log_lebs.unwrap_or(u32::try_from(log).unwrap_or(u32::MAX));
    let orphan_lebs = options.orphan_lebs.unwrap_or(1 + u32::from(lebs.saturating_sub(least) > 1));
    Areas { journal_bytes: options.journal_bytes.unwrap_or(buds * leb), log_lebs, orphan_lebs }
}

const _: () = assert!(MIN_LEBS == 17 && NON_DATA_HEADS == 2 && FIRST_INODE == 64, "as Linux has them");
