//! JFFS2 over any [`Mtd`]: NOR and NAND, either byte order, with summaries or without.
//!
//! In the order of a mount and a write:
//!
//! - `scan` reads the summary of each eraseblock, or all of it, and keeps the position and version of each node. From
//!   these, `names` builds the directories and `xattrs` the attributes, `lost` finds files without a name, and `blocks`
//!   counts the live and dirty bytes of each eraseblock.
//! - `file` reads a file's nodes on first use, checks their CRCs, and maps its bytes to nodes; `compress` contains the
//!   compressors.
//! - `files` contains the operations of programs. Each change writes one or two nodes, which `log` appends.
//! - `collect` moves live nodes out of an eraseblock, so that it can be erased (Linux: garbage collector).
//!
//! Facts are from Linux 6.12, `fs/jffs2`; the bytes are in `docs/spec/jffs2.md`. Where this code differs:
//!
//! - A file's data is checked when it is first opened or by [`Jffs2::check_next`], not in a thread.
//! - Before the first change after a mount, the eraseblock that was being written is emptied and erased, because a
//!   power loss may have torn its last page. Until then, reads of that page return what the mount read, and nodes after
//!   a fault in it are ignored. In a file, which always reads the same, this waits until space is needed. Eraseblocks
//!   that a mount finds free are erased again before use.
//! - An eraseblock that is closed without a summary is filled with padding, so that a mount can identify the one that
//!   was being written.
//! - A mount of a file searches for nodes that the summary of their eraseblock does not list, or lists differently.
//!   Such a summary belongs to another eraseblock, because bytes are missing in the file.
//! - Obsolete nodes are marked on NOR only if [`MountOptions::marks_obsolete`] is set, like Linux without summaries.
//!   Even then, nodes that a mount finds to be obsolete are not marked, and deletion dirents are kept as long as on
//!   flash without marks.

mod blocks;
mod collect;
mod compress;
mod damage;
mod file;
mod files;
mod filesystem;
mod flash;
mod log;
mod lost;
mod names;
mod scan;
mod xattrs;

pub use compress::CompressFault;
pub use damage::{Damage, Fault, MountError};
pub use files::{NAME_MAX, TARGET_MAX};

use crate::fs;
use crate::ubifs::compress::Effort;
use blocks::{Blocks, State};
use collect::Collector;
use file::File;
use flash::Flash;
use floatgate_media::jffs2::{Compressor, Endian, Inode, ROOT_INODE};
use floatgate_mtd::{Instant, Mtd};
use names::Names;
use scan::Scan;
use std::collections::{BTreeMap, BTreeSet};
use xattrs::Xattrs;

/// Number of files whose nodes are kept in memory.
const FILES_KEPT: usize = 256;

/// Options of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Byte order; by default the byte order of the first node, or little-endian on empty flash.
    pub endian: Option<Endian>,
    /// Mounts read-only; flash without a node is then refused.
    pub read_only: bool,
    /// Compressors in the order in which they are tried; the first that makes the data shorter is used (Linux: mode
    /// "priority").
    pub compressors: Vec<Compressor>,
    /// Trade-off of compression between size and speed.
    pub effort: Effort,
    /// Writes a summary at the end of each eraseblock, so that the next mount is faster. A file
    /// ([`stable`](Self::stable)) gets at least one at the end of the mount: it states the size of eraseblocks.
    pub summaries: bool,
    /// Ignores existing summaries (Linux without CONFIG_JFFS2_SUMMARY).
    pub ignores_summaries: bool,
    /// Nodes marked obsolete are dead even if other nodes contradict that. To read an earlier state, a caller marks the
    /// later nodes as obsolete.
    pub is_earlier: bool,
    /// Marks replaced nodes on flash whose bits can be cleared one by one (Linux without CONFIG_JFFS2_SUMMARY). Has no
    /// effect on other flash.
    pub marks_obsolete: bool,
    /// The flash always reads the same data, as a file does, so the last written page is trusted. The mount then reads
    /// all nodes, not only the nodes in summaries; on a chip this would take the time that summaries save.
    pub stable: bool,
    /// Refuses a writable mount if files have lost their names, because it would delete them.
    pub keeps_nameless: bool,
}

impl Default for MountOptions {
    /// Writable, with the default compressors of Linux: zlib, then rtime.
    fn default() -> Self {
        Self {
            endian: None,
            read_only: false,
            compressors: vec![Compressor::Zlib, Compressor::Rtime],
            effort: Effort::Smallest,
            summaries: false,
            ignores_summaries: false,
            is_earlier: false,
            marks_obsolete: false,
            stable: false,
            keeps_nameless: false,
        }
    }
}

impl MountOptions {
    /// Options of a read-only mount.
    #[must_use]
    pub fn read_only() -> Self {
        Self { read_only: true, ..Self::default() }
    }
}

/// Statistics of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Eraseblocks whose summary was read.
    pub summaries: u32,
    /// Eraseblocks that were scanned completely.
    pub scanned: u32,
    /// Empty eraseblocks, with or without a clean marker.
    pub empty: u32,
    /// Clean markers inside eraseblocks.
    pub clean_markers: u32,
    /// Eraseblocks that are marked bad.
    pub bad: u32,
    /// Inode nodes.
    pub inode_nodes: u64,
    /// Dirent nodes.
    pub dirent_nodes: u64,
    /// Nodes of extended attributes.
    pub xattr_nodes: u64,
    /// Nodes that newer ones had already replaced, and unknown nodes that can be ignored.
    pub obsolete_nodes: u64,
    /// Nodes of the other byte order or magic number, left by other contents of the flash and ignored.
    pub foreign_nodes: u64,
    /// Flash offset of the first of them.
    pub first_foreign: Option<u64>,
    /// Directories with entries, without a name and not known to be deleted: their names may be lost. Read-only mounts
    /// only.
    pub nameless_directories: u64,
    /// Highest inode number of the image that this one extends, as made by `mkfs.jffs2 --incremental`. Read-only mounts
    /// only.
    pub base_inodes: Option<u32>,
    /// Erased bytes.
    pub free_bytes: u64,
    /// Bytes of obsolete nodes and of data that is not a node.
    pub dirty_bytes: u64,
}

impl Counts {
    /// Number of good inode, dirent and xattr nodes.
    pub(super) const fn nodes(&self) -> u64 {
        self.inode_nodes + self.dirent_nodes + self.xattr_nodes
    }
}

/// Reference to a node of an inode, kept after the mount. They are ordered by precedence: a higher version wins; of two
/// copies of one version, the later position wins (Linux: either).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeRef {
    version: u32,
    /// Flash offset; like Linux, at most 4 GiB.
    at: u32,
}

/// State of an inode while its nodes are not in memory.
#[derive(Clone, Debug, Default)]
struct Cached {
    refs: Vec<NodeRef>,
    /// Highest version of its nodes and, for a directory, of its dirent nodes.
    highest: u32,
    /// True if its nodes were read and their CRCs checked.
    checked: bool,
}

/// A mounted JFFS2.
#[derive(Clone, Debug)]
pub struct Jffs2<M: ?Sized> {
    endian: Endian,
    options: MountOptions,
    nodes: BTreeMap<u32, Cached>,
    names: Names,
    xattrs: Xattrs,
    counts: Counts,
    damage: Vec<Damage>,
    /// Files whose nodes are in memory.
    files: BTreeMap<u32, File>,
    blocks: Blocks,
    collector: Collector,
    /// Number of nodes in the open eraseblock, and their encoded summary entries.
    listed: (u32, Vec<u8>),
    /// True if the open eraseblock gets a summary.
    is_listed: bool,
    /// Eraseblocks with a summary.
    summarized: BTreeSet<u32>,
    highest_inode: u32,
    /// Time of day, seconds since 1970.
    time: u32,
    /// Inodes whose names are lost; read-only mounts only.
    adopted: BTreeSet<u32>,
    /// True if the root directory has no names: the image starts in the middle of the filesystem. Read-only mounts
    /// only.
    is_without_root: bool,
    /// True if a filesystem has written here since the image was made.
    was_changed: bool,
    /// True if there are traces of changes or of replaced nodes. Read-only mounts only.
    is_changed: bool,
    /// Open count by inode.
    open: BTreeMap<u32, u32>,
    /// Inodes of files being added that have no node yet.
    pending: BTreeMap<u32, Inode>,
    /// Files being added, with the offset up to which their data is written.
    filling: BTreeMap<u32, u32>,
    compressor: crate::ubifs::compress::Compressor,
    /// Failure that made the filesystem read-only.
    failure: Option<fs::Error>,
    flash: Flash<M>,
}

forward_to_dyn!(Jffs2: Mtd);

impl<M: Mtd + 'static> Jffs2<M> {
    /// Mounts a flash.
    ///
    /// # Errors
    /// A read-only mount finds no node; an incompatible node; flash failures. The flash is returned.
    pub fn mount(mtd: M, now: Instant, options: &MountOptions) -> Result<Self, (MountError, M)> {
        let mut flash = Flash::new(mtd, now);
        let scan = match Scan::read(&mut flash, options) {
            Ok(scan) if scan.endian.is_none() && options.read_only => Err(MountError::Nothing),
            other => other,
        };
        let scan = match scan {
            Ok(scan) => scan,
            Err(error) => return Err((error, flash.mtd)),
        };
        let mut fs = Self::with(flash, options, scan);
        match fs.start() {
            Ok(()) => Ok(fs),
            Err(error) => Err((error, fs.flash.mtd)),
        }
    }

    fn with(mut flash: Flash<M>, options: &MountOptions, mut scan: Scan) -> Self {
        let (unsettled, mut ends) = scan.take_unsettled(&mut flash);
        if options.stable {
            ends.clear();
        }
        let was_changed = scan.was_changed();
        Self {
            endian: scan.endian.unwrap_or_default(),
            options: options.clone(),
            nodes: scan.nodes,
            names: scan.names,
            xattrs: scan.xattrs,
            counts: scan.counts,
            damage: scan.damage,
            files: BTreeMap::new(),
            blocks: scan.blocks,
            collector: Collector::new((scan.superseded, scan.copies), (unsettled, ends)),
            listed: (0, Vec::new()),
            is_listed: false,
            summarized: scan.summarized,
            highest_inode: scan.highest_inode,
            time: 0,
            adopted: BTreeSet::new(),
            was_changed,
            is_changed: false,
            is_without_root: false,
            open: BTreeMap::new(),
            pending: BTreeMap::new(),
            filling: BTreeMap::new(),
            compressor: crate::ubifs::compress::Compressor::new(options.effort),
            failure: None,
            flash,
        }
    }

    /// The flash device.
    pub const fn device(&self) -> &M {
        &self.flash.mtd
    }

    /// The flash device, to access its host and supply.
    pub const fn device_mut(&mut self) -> &mut M {
        &mut self.flash.mtd
    }

    /// Flushes, ends the mount, and returns the flash and the time.
    ///
    /// # Errors
    /// Flash failures; the flash is returned.
    pub fn end(mut self) -> Result<(M, Instant), (fs::Error, M)> {
        match self.sync().and_then(|()| self.leave_free()).and_then(|()| self.state_size()) {
            Ok(()) => Ok((self.flash.mtd, self.flash.now)),
            Err(error) => Err((error, self.flash.mtd)),
        }
    }

    /// Returns the flash; buffered data is lost.
    pub fn into_mtd(self) -> M {
        self.flash.mtd
    }

    /// Flushes, ends the mount and returns the flash.
    ///
    /// # Errors
    /// Flash failures; the flash is returned.
    pub fn unmount(self) -> Result<M, (fs::Error, M)> {
        self.end().map(|(mtd, _)| mtd)
    }
}

impl Jffs2<dyn Mtd> {
    /// Recovers the state found by the scan.
    fn start(&mut self) -> Result<(), MountError> {
        self.nodes.entry(ROOT_INODE).or_default();
        let mut useless = self.collector.take_superseded();
        let mut kept = Vec::new();
        if self.options.read_only || self.options.keeps_nameless {
            self.adopt_nameless();
            kept = self.adopt_directories();
        }
        if !self.options.read_only && !self.adopted.is_empty() {
            return Err(MountError::Nameless(self.adopted.len()));
        }
        let out = self.names.remove_orphans(&self.nodes);
        // Damage in a directory that was removed is dropped: missing nodes are expected there.
        kept.retain(|(parent, _)| self.names.directory(*parent).is_some());
        self.damage.extend(kept.into_iter().map(|(_, damage)| damage).chain(out.damage));
        useless.extend(out.dirents);
        for inode in out.inodes {
            let cached = self.nodes.remove(&inode).unwrap_or_default();
            useless.extend(cached.refs.iter().map(|node| node.at));
        }
        let nodes = &self.nodes;
        useless.extend(self.xattrs.forget(|inode| nodes.contains_key(&inode)));
        for at in useless {
            self.blocks.obsolete(at);
        }
        for (inode, version) in self.names.versions() {
            if let Some(cached) = self.nodes.get_mut(&inode) {
                cached.highest = cached.highest.max(version);
            }
        }
        self.damage.extend(self.names.faults());
        self.damage.extend(self.xattrs.faults());
        self.note_lost_xattrs();
        self.damage.extend(self.xattrs.bad_acls(self.endian));
        self.note_last_versions();
        let doubles = self.xattrs.take_duplicates();
        if !self.options.read_only {
            if !doubles.is_empty() || !out.second_names.is_empty() {
                self.empty_unsettled().map_err(MountError::Recovery)?;
            }
            for (inode, xid) in doubles {
                self.take_xattr(inode, xid).map_err(MountError::Recovery)?;
            }
            for (directory, name) in out.second_names {
                // A power cut interrupted a rename. The name that is found first stays, and the other one is removed.
                self.write_dirent(directory, &name, (0, 0)).map_err(MountError::Recovery)?;
            }
        }
        Ok(())
    }

    /// Records inodes and directories that cannot be changed any more because their versions are used up.
    fn note_last_versions(&mut self) {
        for (&inode, cached) in self.nodes.iter().filter(|(_, cached)| cached.highest == u32::MAX) {
            let own = cached.refs.last().filter(|node| node.version == u32::MAX).map(|node| node.at);
            let changed = self.names.directory(inode).and_then(names::Directory::changed);
            let at = own.or_else(|| Some(changed?.at)).unwrap_or(0);
            self.damage.push(Fault::LastVersion { inode }.at(u64::from(at)));
        }
    }

    /// Records names whose parent is not a directory as damage.
    pub fn check_parents(&mut self) {
        for inode in self.names.parents() {
            let is_directory = |(_, of_type)| of_type == fs::FileType::Directory;
            if self.typed(inode).is_ok_and(|typed| !is_directory(typed)) {
                let names = self.names.directory(inode).into_iter().flat_map(names::Directory::names);
                let damage = names.map(|(name, named)| {
                    let name = name.escape_ascii().to_string();
                    Fault::NotInDirectory { inode, name }.at(u64::from(named.at))
                });
                self.damage.extend(damage);
            }
        }
    }

    /// Byte order.
    pub const fn endian(&self) -> Endian {
        self.endian
    }

    /// Nodes that were skipped by the mount or when files were read.
    pub fn damaged_nodes(&self) -> &[Damage] {
        &self.damage
    }

    /// Statistics of the mount.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Number of bad eraseblocks.
    pub fn bad_eraseblocks(&self) -> u32 {
        self.blocks.list.iter().filter(|block| block.state == State::Bad).count() as u32
    }

    /// Number of eraseblocks opened for writing since the mount.
    pub const fn opened_eraseblocks(&self) -> u64 {
        self.blocks.opened
    }

    /// Number of nodes in each eraseblock, including obsolete ones.
    pub fn nodes_by_eraseblock(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.list.iter().map(|block| block.nodes.len() as u64)
    }

    /// Number of inodes.
    pub fn inode_count(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// True if the node at a flash offset is live, as known from the files read so far.
    pub fn is_live(&self, at: u64) -> bool {
        let at = u32::try_from(at).ok().filter(|_| at < self.flash.mtd.geometry().size_bytes);
        at.is_some_and(|at| self.blocks.is_live(at))
    }

    /// Time on the flash's clock.
    pub const fn now(&self) -> Instant {
        self.flash.now
    }

    /// Sets the flash's clock to a later time.
    pub fn set_now(&mut self, now: Instant) {
        self.flash.now = self.flash.now.max(now);
    }

    /// The flash device.
    pub fn mtd(&self) -> &dyn Mtd {
        &self.flash.mtd
    }
}
