//! Damage on the flash, with its place.

use super::compress::CompressFault;
use crate::fs;
use floatgate_media::MediaError;
use floatgate_media::jffs2::{Compressor, Entry};
use floatgate_mtd::Error;

/// Something that is not as it should be, and was left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at} ({at:#x}): {fault}")]
pub struct Damage {
    /// Byte of the flash.
    pub at: u64,
    /// Description of the fault.
    pub fault: Fault,
}

/// Fault of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Its bytes are damaged.
    #[error("{0}")]
    Media(#[from] MediaError),
    /// It is longer than what is left of its eraseblock.
    #[error("a node of {len} bytes ends beyond its eraseblock")]
    TooLong {
        /// Bytes of the node.
        len: u32,
    },
    /// Something that is no node, and not erased, among nodes.
    #[error("{len} bytes are no node")]
    NoNode {
        /// Bytes of it.
        len: u32,
    },
    /// Erased bytes between nodes. No filesystem leaves any there (Linux: "Empty flash at ... ends at ...").
    #[error("{len} erased bytes between nodes")]
    Gap {
        /// Number of bytes.
        len: u32,
    },
    /// The summary of its eraseblock, which is read as a whole instead.
    #[error("the summary of the eraseblock is damaged")]
    Summary,
    /// Another node stands where the summary of the eraseblock has this one.
    #[error("not the node that the summary of the eraseblock lists: inode {inode}, version {version}")]
    NotListed {
        /// Inode number in the summary.
        inode: u32,
        /// Version in the summary.
        version: u32,
    },
    /// Its own fields, whose CRC is good, are others than those that the summary of its eraseblock lists.
    #[error("the summary of the eraseblock lists the node as {listed}, which it is not")]
    ListedAs {
        /// Description of what is listed.
        listed: String,
    },
    /// The summary of its eraseblock does not list it: it may be of another eraseblock.
    #[error("the summary of the eraseblock does not list the node")]
    NotInSummary,
    /// It is marked as obsolete where nothing marks nodes, or where what it leads to shows that it counts. It is read as if it were not.
    #[error("the node is marked as obsolete, and nothing has replaced it")]
    Marked,
    /// The inode of a name is not there.
    #[error("name {name:?} of inode {inode}, which is not there")]
    NoInode {
        /// Inode number.
        inode: u32,
        /// The name.
        name: String,
    },
    /// No name leads to an inode, and it was not removed: the eraseblock with its name is lost.
    #[error("the name of inode {inode} is not there: it is shown as {name:?}")]
    NoName {
        /// Inode number.
        inode: u32,
        /// Name that it gets in the root directory.
        name: String,
    },
    /// Neither a node nor a name of some inodes is there, and nothing says that files were removed: their eraseblock is lost.
    #[error("{}: neither nodes nor names are there, and nothing else was ever removed", inodes(*.first, *.last))]
    Missing {
        /// The first inode number that is missing.
        first: u32,
        /// The last one.
        last: u32,
    },
    /// Its inode number is 0, which no inode has.
    #[error("a node of inode 0, which is none")]
    NoNumber,
    /// It says something else than another node of its version: which one counts is chance.
    #[error("{}: another node of version {version} says something else", of_versions(*.inode, .name.as_deref()))]
    SameVersion {
        /// Inode whose versions they have: of a name the directory.
        inode: u32,
        /// The name, of a dirent node.
        name: Option<String>,
        /// Version of both.
        version: u32,
    },
    /// An extended attribute of which it says something else than another node of its version.
    #[error("extended attribute {xid}: another node of version {version} says something else")]
    SameXattrVersion {
        /// Number of the attribute.
        xid: u32,
        /// Version of both.
        version: u32,
    },
    /// It gives a file an extended attribute of which no node is there.
    #[error("extended attribute {xid} of inode {inode} is lost: nothing has its name and value")]
    NoXattr {
        /// Inode number.
        inode: u32,
        /// Number of the attribute.
        xid: u32,
    },
    /// The ACL that it gives to a file cannot be read.
    #[error("the ACL of inode {inode}, extended attribute {xid}, is invalid: {fault}")]
    Acl {
        /// Inode number.
        inode: u32,
        /// Number of the attribute.
        xid: u32,
        /// Byte of the value, and reason.
        fault: MediaError,
    },
    /// It has the highest version that there is: nothing newer can be written of its inode.
    #[error("inode {inode} has a node of version {}, behind which no change has one", u32::MAX)]
    LastVersion {
        /// Inode whose versions it has: of a name the directory.
        inode: u32,
    },
    /// It is of another type of file than the name of its inode and other nodes of it.
    #[error("mode {mode:#o} is of another type of file than inode {inode}")]
    Mode {
        /// Inode number.
        inode: u32,
        /// Type and permissions that the node has.
        mode: u32,
    },
    /// No program can open a name.
    #[error("name {name:?} is empty, has bytes that no name has, or stands for a directory itself")]
    Name {
        /// The name.
        name: String,
    },
    /// A name leads to the root directory.
    #[error("name {name:?} leads to the root directory")]
    ToRoot {
        /// The name.
        name: String,
    },
    /// A name is in something that is no directory.
    #[error("name {name:?} is in inode {inode}, which is no directory")]
    NotInDirectory {
        /// Inode number.
        inode: u32,
        /// The name.
        name: String,
    },
    /// Its data do not fit its fields.
    #[error("inode {inode}: {data_len} bytes of data for {file_len} bytes of the file, {compressor:?}")]
    Lengths {
        /// Inode number.
        inode: u32,
        /// Bytes in the node.
        data_len: u32,
        /// Bytes of the file.
        file_len: u32,
        /// Compression.
        compressor: Compressor,
    },
    /// Its data cannot be decompressed.
    #[error("data of inode {inode}: {fault}")]
    Data {
        /// Inode number.
        inode: u32,
        /// Description of the fault.
        fault: CompressFault,
    },
}

/// Words for what the entry of a summary says of a node.
pub(super) fn listed_as(entry: &Entry<'_>) -> String {
    match *entry {
        Entry::Inode { inode, version, .. } => format!("one of inode {inode}, version {version}"),
        Entry::Dirent { parent, version, inode, name, .. } => {
            let name = name.escape_ascii();
            format!("name \"{name}\" of inode {inode} in directory {parent}, version {version}")
        }
        Entry::Xattr { xid, version, .. } => format!("extended attribute {xid}, version {version}"),
        Entry::Xref { .. } => "the reference to an extended attribute".to_owned(),
    }
}

/// Words for inodes side by side.
fn inodes(first: u32, last: u32) -> String {
    if first == last { format!("inode {first}") } else { format!("inodes {first} to {last}") }
}

/// Words for what nodes of one version say something of.
fn of_versions(inode: u32, name: Option<&str>) -> String {
    name.map_or_else(|| format!("inode {inode}"), |name| format!("name {name:?} in directory {inode}"))
}

impl Fault {
    /// The fault of a node at a byte of the flash.
    pub(super) fn at(self, at: u64) -> Damage {
        Damage { at, fault: self }
    }
}

/// Reason why a flash cannot be mounted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// No node of JFFS2 is on it.
    #[error("no node of JFFS2 is there")]
    Nothing,
    /// A node says that who does not know its type must not mount the filesystem.
    #[error("at byte {at} ({at:#x}): a node of type {code:#06x}, which is not known and must be")]
    Incompatible {
        /// Byte of the flash.
        at: u64,
        /// Type of the node.
        code: u16,
    },
    /// Files and directories have lost their names or nodes: a mount for writing would remove so many.
    #[error("{0} without a name of their own, which the mount would remove")]
    Nameless(usize),
    /// It is larger than JFFS2 can be.
    #[error("{0} bytes of flash: JFFS2 has at most 4 GiB")]
    TooLarge(u64),
    /// Pages share cells, so that a program that is cut short damages others. Linux refuses it in slc-mode, too (`jffs2_do_fill_super`).
    #[error("JFFS2 is not for MLC NAND, in slc-mode neither")]
    Mlc,
    /// The flash fails.
    #[error("{0}")]
    Flash(#[from] Error),
    /// An operation that power cut short cannot be put in order.
    #[error("what a power cut left cannot be put in order: {0}")]
    Recovery(fs::Error),
}
