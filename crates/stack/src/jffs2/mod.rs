//! JFFS2, mounted for reading, over any [`Mtd`]: NOR and NAND, either byte order, with summaries or without.
//!
//! [`Jffs2::mount`] reads the summary of each eraseblock, or all of it (`scan`), and keeps the position and version of each node. A
//! file's nodes are read when the file is first asked for, and make the map from its bytes to nodes (`file`); data are decompressed
//! when they are read (`compress`).
//!
//! Facts are from Linux 6.12, `fs/jffs2`; the bytes are in `docs/spec/jffs2.md`. Where this code differs: a node whose data are
//! damaged is found when it is read, where Linux has its garbage collector read all data after mounting. It then gives way to what
//! was there before, as in Linux, and [`FileSystem::damage`](crate::fs::FileSystem::damage) tells of it.

mod compress;
mod damage;
mod file;
mod filesystem;
mod names;
mod scan;
mod xattrs;

pub use compress::CompressFault;
pub use damage::{Damage, Fault, MountError};

use file::File;
use floatgate_media::jffs2::Endian;
use floatgate_mtd::{Error, ErrorKind, Instant, Mtd};
use names::Names;
use scan::Scan;
use std::collections::BTreeMap;
use xattrs::Xattrs;

/// Files whose nodes are kept in memory.
const FILES_KEPT: usize = 256;

/// Options of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Byte order; that of the first node unless given.
    pub endian: Option<Endian>,
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
    /// Bytes in which nothing is written.
    pub free_bytes: u64,
    /// Bytes of obsolete nodes and of what is no node.
    pub dirty_bytes: u64,
}

/// A node of an inode: what a mount remembers of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeRef {
    version: u32,
    /// First byte on the flash; Linux does not have more than 4 GiB, either.
    at: u32,
}

/// A mounted JFFS2.
#[derive(Debug)]
pub struct Jffs2<M> {
    flash: Flash<M>,
    endian: Endian,
    nodes: BTreeMap<u32, Vec<NodeRef>>,
    names: Names,
    xattrs: Xattrs,
    counts: Counts,
    damage: Vec<Damage>,
    files: BTreeMap<u32, File>,
}

/// The flash with its clock.
#[derive(Debug)]
struct Flash<M> {
    mtd: M,
    now: Instant,
}

impl<M: Mtd> Flash<M> {
    /// Reads; what the ECC could not correct is for the CRCs to find.
    fn read(&mut self, at: u64, buf: &mut [u8]) -> Result<(), Error> {
        match self.mtd.read(self.now, at, buf) {
            Ok(done) => self.now = done.at,
            Err(error) if error.kind == ErrorKind::Uncorrectable => self.now = error.at,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl<M: Mtd> Jffs2<M> {
    /// Mounts for reading.
    ///
    /// # Errors
    /// No node is there, a node that must be known is not, or the flash fails. The flash comes back.
    pub fn mount(mtd: M, now: Instant, options: &MountOptions) -> Result<Self, (MountError, M)> {
        let mut flash = Flash { mtd, now };
        let scan = match Scan::read(&mut flash, options.endian) {
            Ok(scan) => scan,
            Err(error) => return Err((error, flash.mtd)),
        };
        let Scan { endian, mut nodes, mut names, xattrs, counts, mut damage, .. } = scan;
        let Some(endian) = endian else { return Err((MountError::Nothing, flash.mtd)) };
        damage.extend(names.remove_orphans(&mut nodes));
        for refs in nodes.values_mut() {
            refs.sort_unstable();
        }
        Ok(Self { flash, endian, nodes, names, xattrs, counts, damage, files: BTreeMap::new() })
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

    /// Time on the flash's clock.
    pub const fn now(&self) -> Instant {
        self.flash.now
    }

    /// Gives the flash back.
    pub fn into_mtd(self) -> M {
        self.flash.mtd
    }
}
