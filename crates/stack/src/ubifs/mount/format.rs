//! Creating a filesystem: it is mounted from the start, and written to flash by its first commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use floatgate_media::file::{Compression, FileFlags, Timestamp};
use floatgate_media::ubifs::{
    FIRST_INODE, Inode, InodeNode, Key, KeyHash, LOG_LEB, Master, MasterFlags, ROOT_INODE, Superblock,
};

use super::findings::Findings;
use super::orphans::Orphans;
use super::{geometry, superblock};
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::Io;
use crate::ubifs::journal::{Change, Log};
use crate::ubifs::layout::{Head, Layout};
use crate::ubifs::limits::Limits;
use crate::ubifs::space::{LebSpace, Space};
use crate::ubifs::tnc::Tnc;
use crate::volume::Volume;

/// Source of the default sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormatStyle {
    /// Defaults of `mkfs.ubifs`.
    #[default]
    Mkfs,
    /// Defaults of Linux when it mounts an empty volume.
    Linux,
}

/// Parameters of a new filesystem. The defaults are those of `mkfs.ubifs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Rule for sizes that are `None`.
    pub style: FormatStyle,
    /// Maximum number of LEBs to which the filesystem can grow; by default the size of the volume.
    pub max_lebs: Option<u32>,
    /// Maximum size of the journal, B.
    pub journal_bytes: Option<u64>,
    /// Number of LEBs of the log.
    pub log_lebs: Option<u32>,
    /// Number of LEBs of the orphan area.
    pub orphan_lebs: Option<u32>,
    /// Maximum number of children of an index node.
    pub fanout: u32,
    /// Hash function of names.
    pub key_hash: KeyHash,
    /// Format version: 4, or 5 with double hashes.
    pub format_version: u32,
    /// Compression of new files.
    pub compression: Compression,
    /// Bytes reserved for the superuser, `reserved_uid` and `reserved_gid`.
    pub reserved_bytes: Option<u64>,
    /// A user who may use the reserved bytes.
    pub reserved_uid: u32,
    /// A group that may use the reserved bytes.
    pub reserved_gid: u32,
    /// Granularity of times that Linux sets, ns.
    pub time_granularity_ns: u32,
    /// The first mount erases the free space of the image, because a programmer may write ones to it.
    pub space_fixup: bool,
    /// UUID of the filesystem.
    pub uuid: [u8; 16],
    /// Permissions of the root directory.
    pub root_mode: u32,
    /// Owner of the root directory.
    pub root_uid: u32,
    /// Group of the root directory.
    pub root_gid: u32,
    /// Times of the root directory.
    pub time: Timestamp,
    /// Builds an image: until the first commit only data is written and the journal is unlimited. The filesystem then
    /// ends after the last used LEB plus `room_lebs`, and grows when it is mounted.
    pub deferred: bool,
    /// Number of free LEBs for files on a volume no larger than the image. `mkfs.ubifs` leaves 0: such a volume is full
    /// from the start.
    pub room_lebs: u32,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            style: FormatStyle::Mkfs,
            max_lebs: None,
            journal_bytes: None,
            log_lebs: None,
            orphan_lebs: None,
            fanout: 8,
            key_hash: KeyHash::R5,
            format_version: 4,
            compression: Compression::Lzo,
            reserved_bytes: None,
            reserved_uid: 0,
            reserved_gid: 0,
            time_granularity_ns: 1_000_000_000,
            space_fixup: false,
            uuid: [0; 16],
            root_mode: 0o755,
            root_uid: 0,
            root_gid: 0,
            time: Timestamp::default(),
            deferred: false,
            room_lebs: 0,
        }
    }
}

impl FormatOptions {
    /// Parameters that Linux chooses for an empty volume: format 5, zstd, 5 % reserved.
    #[must_use]
    pub fn linux() -> Self {
        let (format_version, compression) = (5, Compression::Zstd);
        Self { style: FormatStyle::Linux, format_version, compression, ..Self::default() }
    }
}

impl<V: Volume + 'static> Core<V> {
    /// Creates a filesystem with an empty root directory. The contents of the volume are lost.
    ///
    /// # Errors
    /// A volume that is too small, invalid options, volume failures; the volume is returned with the error.
    pub(crate) fn format(volume: V, options: &FormatOptions) -> core::result::Result<Self, (Error, V)> {
        let layout = geometry::superblock(volume.geometry(), options)
            .and_then(|superblock| superblock::layout(&superblock, volume.geometry()));
        let layout = match layout {
            Ok(layout) => layout,
            Err(error) => return Err((error, volume)),
        };
        let mut core = Self::blank(Io::new(volume, Arc::new(layout), false));
        match core.populate(options) {
            Ok(()) => Ok(core),
            Err(error) => Err((error, core.into_volume())),
        }
    }

    /// Empty filesystem that is not on flash yet.
    fn blank(io: Io<V>) -> Self {
        let layout = io.layout().clone();
        let master = Master {
            highest_inode: u64::from(FIRST_INODE),
            flags: MasterFlags::DIRTY,
            log_lnum: LOG_LEB,
            leb_count: layout.superblock.leb_count,
            lscan_lnum: layout.limits.main.start,
            ..Master::default()
        };
        Self {
            space: Space::empty(&io),
            tnc: Tnc::empty(),
            log: Log::deferred(&layout),
            orphans: Orphans::new(&layout),
            highest_inode: master.highest_inode,
            master,
            master_offset: 0,
            gc_lnum: None,
            sizes: BTreeMap::new(),
            io,
            room_behind_data: None,
            authentication: None,
            verifier: None,
            findings: Findings::default(),
            limits: Limits::default(),
        }
    }
}

impl Core<dyn Volume> {
    fn populate(&mut self, options: &FormatOptions) -> Result<()> {
        self.erase_volume()?;
        let gc_lnum = self.space.find_free_for_index(&mut self.io)?.ok_or(Error::NoSpace)?;
        let space = self.space.get(gc_lnum)?;
        self.space.set(gc_lnum, LebSpace { index: false, ..space })?;
        self.gc_lnum = Some(gc_lnum);
        // Linux refuses a master node without a LEB for the garbage collector, although its recovery does not use that
        // number.
        self.master.gc_lnum = gc_lnum;
        let inode = root_inode(options, self.io.next_sqnum());
        self.apply(Head::Base, &[Change::Inode(InodeNode { inode, data: &[] })])?;
        self.room_behind_data = options.deferred.then_some(options.room_lebs);
        if options.deferred { Ok(()) } else { self.force_commit() }
    }

    /// Erases the volume, so that nothing of an older filesystem remains, even after a power cut.
    fn erase_volume(&mut self) -> Result<()> {
        for lnum in 0..self.io.layout().volume.lebs {
            if self.io.is_mapped(lnum)? {
                self.io.unmap(lnum)?;
            }
        }
        Ok(self.io.volume_mut().flush()?)
    }

    /// Detaches the journal heads in the first commit, before the log starts. The log then contains only a commit
    /// start, as Linux expects of an image with space fixup. The heads must be synced.
    pub(crate) fn park_heads(&mut self) {
        Head::ALL.into_iter().for_each(|head| self.io.park_head(head));
    }

    /// Shrinks an image in the first commit, when the index is written. It ends after its last used LEB plus the
    /// requested free LEBs, but is never smaller than the minimum main area for a mount.
    pub(crate) fn end_behind_data(&mut self, master: &mut Master) -> Result<()> {
        let Some(room_lebs) = self.room_behind_data.take() else {
            return Ok(());
        };
        let old = self.io.layout().clone();
        let (main, empty) = (old.limits.main.clone(), old.leb_bytes());
        let used = self.space.lebs().filter(|(_, leb)| leb.taken || leb.free != empty);
        let last = used.map(|(lnum, _)| lnum).last().unwrap_or(main.start);
        let mut least = least_main_lebs(&old.superblock);
        if room_lebs > 0 {
            least = least.max(self.space.main_lebs_for(u64::from(room_lebs) * u64::from(empty)));
        }
        let leb_count = (last + 1).max(main.start.saturating_add(least)).min(main.end);
        let layout = Arc::new(old.with_leb_count(leb_count).map_err(|source| Error::node(0, 0, source))?);
        self.space.shrink(&layout)?;
        self.io.set_layout(layout);
        master.leb_count = leb_count;
        Ok(())
    }
}

/// Minimum number of main area LEBs for Linux to mount with this journal and these reserved bytes.
pub(super) fn least_main_lebs(superblock: &Superblock) -> u32 {
    let bytes = superblock.max_journal_bytes.max(superblock.reserved_bytes);
    let lebs = bytes.div_ceil(u64::from(superblock.leb_bytes.max(1)));
    u32::try_from(lebs).unwrap_or(u32::MAX).max(9)
}

fn root_inode(options: &FormatOptions, sqnum: u64) -> Inode {
    let Timestamp { seconds, nanoseconds } = options.time;
    let compress = options.compression != Compression::None;
    Inode {
        key: Key::inode(ROOT_INODE),
        created_sqnum: sqnum,
        size: Inode::SIZE as u64,
        atime_s: seconds,
        ctime_s: seconds,
        mtime_s: seconds,
        atime_ns: nanoseconds,
        ctime_ns: nanoseconds,
        mtime_ns: nanoseconds,
        links: 2,
        uid: options.root_uid,
        gid: options.root_gid,
        mode: 0o040_000 | options.root_mode & 0o7777,
        flags: if compress { FileFlags::COMPRESS } else { FileFlags::default() },
        compression: options.compression,
        ..Inode::default()
    }
}

impl Layout {
    /// The same superblock with another LEB count.
    fn with_leb_count(&self, leb_count: u32) -> core::result::Result<Self, floatgate_media::MediaError> {
        let mut layout = self.clone();
        layout.superblock.leb_count = leb_count;
        layout.limits = floatgate_media::ubifs::Limits::new(&layout.superblock)?;
        Ok(layout)
    }
}
