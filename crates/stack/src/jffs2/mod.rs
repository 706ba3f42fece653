//! JFFS2 over any [`Mtd`]: NOR and NAND, either byte order, with summaries or without.
//!
//! In the order of a mount and a write:
//!
//! - `scan` reads the summary of each eraseblock, or all of it, and keeps the place and version of each node; `names` and `xattrs` have
//!   the directories and attributes that come of it, `lost` what has lost its name, `blocks` how much of each eraseblock is of use.
//! - `file` reads a file's nodes when it is first asked for, checks their CRCs, and maps its bytes to nodes; `compress` has the compressors.
//! - `files` has what programs do; each change is a node or two, which `log` puts behind what was written before.
//! - `collect` moves live nodes out of an eraseblock, so that it can be erased (Linux: garbage collector).
//!
//! Facts are from Linux 6.12, `fs/jffs2`; the bytes are in `docs/spec/jffs2.md`. Where this code differs:
//!
//! - A file's data are checked when it is first opened or by [`Jffs2::check_next`], and not in a thread of its own.
//! - Before the first change after a mount, the eraseblock that was being written is emptied and erased: power may have gone away while
//!   its last page was programmed. What the mount read of that page is remembered until then, and nothing behind a fault in it counts. In a
//!   file, which reads the same every time, this waits until room is needed.
//!   Eraseblocks that a mount finds free are erased again when they are used.
//! - An eraseblock that is ended without a summary is filled with padding, so that a mount knows which one was being written.
//! - A mount of a file looks for nodes that the summary of their eraseblock does not list, or lists as others: it is of another one where bytes are missing.
//! - Nodes that have become obsolete are marked on NOR only when [`MountOptions::marks_obsolete`] says so, as a Linux without summaries does.
//!   What a mount finds to be obsolete is not marked then, and a removed name is remembered as long as on flash without marks.

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

/// Files whose nodes are kept in memory.
const FILES_KEPT: usize = 256;

/// Options of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Byte order; that of the first node unless given, little-endian on an empty flash.
    pub endian: Option<Endian>,
    /// For reading only: flash on which no node is found is refused then.
    pub read_only: bool,
    /// Compressors in the order in which they are tried; the first that makes the data shorter is used (Linux: mode "priority").
    pub compressors: Vec<Compressor>,
    /// Trade-off of compression between size and speed.
    pub effort: Effort,
    /// Eraseblocks end with a summary, so that the next mount is faster. In a file ([`stable`](Self::stable)) one has it at least when the mount ends: it
    /// states the size of eraseblocks.
    pub summaries: bool,
    /// Summaries that are there are not used (Linux without CONFIG_JFFS2_SUMMARY).
    pub ignores_summaries: bool,
    /// Nodes that are marked as obsolete do not count, whatever others say: later ones are marked to read an earlier moment.
    pub is_earlier: bool,
    /// On flash whose bits can be cleared one by one, a node that something newer replaces is marked (Linux without CONFIG_JFFS2_SUMMARY). Has
    /// no effect on other flash.
    pub marks_obsolete: bool,
    /// The flash reads the same every time, as a file does: no page is distrusted only because it may have been the last one written. The
    /// mount looks at all nodes then, not only at those that summaries list, which on a chip would take the time that summaries save.
    pub stable: bool,
    /// A mount for writing is refused where files have lost their names, which it would remove.
    pub keeps_nameless: bool,
}

impl Default for MountOptions {
    /// For writing, with the compressors of Linux's default: zlib, then rtime.
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
    /// For reading.
    #[must_use]
    pub fn read_only() -> Self {
        Self { read_only: true, ..Self::default() }
    }
}

/// Numbers of what a mount found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Eraseblocks whose summary was read.
    pub summaries: u32,
    /// Eraseblocks that were read as a whole.
    pub scanned: u32,
    /// Eraseblocks with nothing in them, clean marker or not.
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
    /// Nodes that newer ones had replaced already, and unknown ones that do not matter.
    pub obsolete_nodes: u64,
    /// Nodes of the other byte order or magic number, which are left out: what other contents of the flash have left.
    pub foreign_nodes: u64,
    /// Byte of the flash where the first of them begins.
    pub first_foreign: Option<u64>,
    /// Directories with names in them to which no name leads, and of which nothing says that they were removed: their names may be lost. Of a
    /// mount for reading.
    pub nameless_directories: u64,
    /// The highest inode number of another image to which this one is to be appended, as `mkfs.jffs2 --incremental` makes them. Of a mount for
    /// reading.
    pub base_inodes: Option<u32>,
    /// Bytes in which nothing is written.
    pub free_bytes: u64,
    /// Bytes of obsolete nodes and of what is no node.
    pub dirty_bytes: u64,
}

impl Counts {
    /// Good nodes of files, names and attributes.
    pub(super) const fn nodes(&self) -> u64 {
        self.inode_nodes + self.dirent_nodes + self.xattr_nodes
    }
}

/// A node of an inode: what a mount remembers of it. They are in the order in which they count: the higher version, and of two copies of one
/// version the one that stands later on the flash (Linux: either).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeRef {
    version: u32,
    /// First byte on the flash; Linux does not have more than 4 GiB, either.
    at: u32,
}

/// An inode: what is remembered of it while its nodes are not.
#[derive(Clone, Debug, Default)]
struct Cached {
    refs: Vec<NodeRef>,
    /// The highest version of its nodes and of the dirent nodes in it.
    highest: u32,
    /// Its nodes were read, and their CRCs checked.
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
    /// Files whose nodes are known.
    files: BTreeMap<u32, File>,
    blocks: Blocks,
    collector: Collector,
    /// The list of the open eraseblock's nodes for its summary: how many, and as they go on flash.
    listed: (u32, Vec<u8>),
    /// The open eraseblock gets a summary when it is full.
    is_listed: bool,
    /// Eraseblocks that have one.
    summarized: BTreeSet<u32>,
    highest_inode: u32,
    /// Time of day, seconds since 1970.
    time: u32,
    /// Inodes whose names are lost, of a mount for reading.
    adopted: BTreeSet<u32>,
    /// The root directory has no names: the flash begins in the middle of the filesystem. Of a mount for reading.
    is_without_root: bool,
    /// A filesystem has written here since the image was made.
    was_changed: bool,
    /// There are traces of that, or of nodes that others have replaced. Of a mount for reading.
    is_changed: bool,
    /// The number of times that an inode is open.
    open: BTreeMap<u32, u32>,
    /// Inodes of files that are being put in and have no node yet.
    pending: BTreeMap<u32, Inode>,
    /// Files that are being put in, with the byte up to which their data have come.
    filling: BTreeMap<u32, u32>,
    compressor: crate::ubifs::compress::Compressor,
    /// Why nothing can be changed any more.
    failure: Option<fs::Error>,
    flash: Flash<M>,
}

forward_to_dyn!(Jffs2: Mtd);

impl<M: Mtd + 'static> Jffs2<M> {
    /// Mounts, for reading or for writing.
    ///
    /// # Errors
    /// No node is there and the mount is for reading; a node that must be known is not; the flash fails. The flash comes back.
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
            collector: Collector::new((scan.losers, scan.copies), (unsettled, ends)),
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

    /// The flash below.
    pub const fn device(&self) -> &M {
        &self.flash.mtd
    }

    /// The flash below, for its host and its supply.
    pub const fn device_mut(&mut self) -> &mut M {
        &mut self.flash.mtd
    }

    /// As [`unmount`](Self::unmount), with the time.
    ///
    /// # Errors
    /// The flash fails; it comes back.
    pub fn end(mut self) -> Result<(M, Instant), (fs::Error, M)> {
        match self.sync().and_then(|()| self.leave_free()).and_then(|()| self.state_size()) {
            Ok(()) => Ok((self.flash.mtd, self.flash.now)),
            Err(error) => Err((error, self.flash.mtd)),
        }
    }

    /// Gives the flash back; what waits is lost.
    pub fn into_mtd(self) -> M {
        self.flash.mtd
    }

    /// Writes what waits, ends the mount and gives the flash back.
    ///
    /// # Errors
    /// The flash fails; it comes back.
    pub fn unmount(self) -> Result<M, (fs::Error, M)> {
        self.end().map(|(mtd, _)| mtd)
    }
}

impl Jffs2<dyn Mtd> {
    /// Puts in order what the scan has found.
    fn start(&mut self) -> Result<(), MountError> {
        self.nodes.entry(ROOT_INODE).or_default();
        let mut useless = self.collector.take_losers();
        let mut kept = Vec::new();
        if self.options.read_only || self.options.keeps_nameless {
            self.adopt_nameless();
            kept = self.adopt_directories();
        }
        if !self.options.read_only && !self.adopted.is_empty() {
            return Err(MountError::Nameless(self.adopted.len()));
        }
        let out = self.names.remove_orphans(&self.nodes);
        // Where a directory was removed, what is missing in it is no damage.
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
        let doubles = self.xattrs.take_doubles();
        if !self.options.read_only {
            if !doubles.is_empty() || !out.second_names.is_empty() {
                self.empty_unsettled().map_err(MountError::Recovery)?;
            }
            for (inode, xid) in doubles {
                self.take_xattr(inode, xid).map_err(MountError::Recovery)?;
            }
            for (directory, name) in out.second_names {
                // A renaming that power cut short: the name that is found first stays.
                self.write_dirent(directory, &name, (0, 0)).map_err(MountError::Recovery)?;
            }
        }
        Ok(())
    }

    /// Notes inodes and directories of which nothing can be changed any more.
    fn note_last_versions(&mut self) {
        for (&inode, cached) in self.nodes.iter().filter(|(_, cached)| cached.highest == u32::MAX) {
            let own = cached.refs.last().filter(|node| node.version == u32::MAX).map(|node| node.at);
            let changed = self.names.directory(inode).and_then(names::Directory::changed);
            let at = own.or_else(|| Some(changed?.at)).unwrap_or(0);
            self.damage.push(Fault::LastVersion { inode }.at(u64::from(at)));
        }
    }

    /// Looks for names in what is no directory: they are damage from then on.
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

    /// Nodes that were left out, by mounting or when files were read.
    pub fn damaged_nodes(&self) -> &[Damage] {
        &self.damage
    }

    /// Numbers of what mounting has found.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Eraseblocks that are not used because they are bad.
    pub fn bad_eraseblocks(&self) -> u32 {
        self.blocks.list.iter().filter(|block| block.state == State::Bad).count() as u32
    }

    /// Number of times that writing went on in another eraseblock since the mount.
    pub const fn opened_eraseblocks(&self) -> u64 {
        self.blocks.opened
    }

    /// Number of nodes of each eraseblock, obsolete ones included.
    pub fn nodes_by_eraseblock(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.list.iter().map(|block| block.nodes.len() as u64)
    }

    /// Number of inodes.
    pub fn inode_count(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// True when the node that begins at a byte of the flash counts, as far as files were read.
    pub fn is_live(&self, at: u64) -> bool {
        let at = u32::try_from(at).ok().filter(|_| at < self.flash.mtd.geometry().size_bytes);
        at.is_some_and(|at| self.blocks.is_live(at))
    }

    /// Time on the flash's clock.
    pub const fn now(&self) -> Instant {
        self.flash.now
    }

    /// Sets the flash's clock, to a later time.
    pub fn set_now(&mut self, now: Instant) {
        self.flash.now = self.flash.now.max(now);
    }

    /// The flash below.
    pub fn mtd(&self) -> &dyn Mtd {
        &self.flash.mtd
    }
}
