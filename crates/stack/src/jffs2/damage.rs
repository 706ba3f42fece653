//! Damage on flash with its position.

use super::compress::CompressFault;
use crate::fs;
use floatgate_media::MediaError;
use floatgate_media::jffs2::{Compressor, Entry};
use floatgate_mtd::Error;

/// A fault in the data on flash, which the mount skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at} ({at:#x}): {fault}")]
pub struct Damage {
    /// Flash offset, bytes.
    pub at: u64,
    /// Description of the fault.
    pub fault: Fault,
}

/// Fault of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The bytes of the node are damaged.
    #[error("{0}")]
    Media(#[from] MediaError),
    /// The node is longer than the rest of its eraseblock.
    #[error("a node of {len} bytes ends beyond its eraseblock")]
    TooLong {
        /// Bytes of the node.
        len: u32,
    },
    /// Bytes between nodes that are neither a node nor erased.
    #[error("{len} bytes are no node")]
    NoNode {
        /// Number of bytes.
        len: u32,
    },
    /// Erased bytes between nodes. No filesystem leaves such a gap (Linux: "Empty flash at ... ends at ...").
    #[error("{len} erased bytes between nodes")]
    Gap {
        /// Number of bytes.
        len: u32,
    },
    /// The summary of the eraseblock is damaged; the eraseblock is scanned instead.
    #[error("the summary of the eraseblock is damaged")]
    Summary,
    /// The eraseblock's summary lists another node at this position.
    #[error("not the node that the summary of the eraseblock lists: inode {inode}, version {version}")]
    NotListed {
        /// Inode number in the summary.
        inode: u32,
        /// Version in the summary.
        version: u32,
    },
    /// The fields of the node, whose CRC is good, differ from the fields listed in the eraseblock's summary.
    #[error("the summary of the eraseblock lists the node as {listed}, which it is not")]
    ListedAs {
        /// Description of the fields in the summary.
        listed: String,
    },
    /// The node is missing in the summary of its eraseblock. The summary may belong to another eraseblock.
    #[error("the summary of the eraseblock does not list the node")]
    NotInSummary,
    /// The node is marked obsolete, although this flash has no obsolete marks or the inode shows that the node is
    /// live. The mark is ignored.
    #[error("the node is marked as obsolete, and nothing has replaced it")]
    Marked,
    /// The inode of a name is missing.
    #[error("name {name:?} of inode {inode}, which is not there")]
    NoInode {
        /// Inode number.
        inode: u32,
        /// Name that refers to the missing inode.
        name: String,
    },
    /// No name refers to an inode that was not deleted: the eraseblock with the name is lost.
    #[error("the name of inode {inode} is not there: it is shown as {name:?}")]
    NoName {
        /// Inode number.
        inode: u32,
        /// Name that the inode gets in the root directory.
        name: String,
    },
    /// Some inode numbers have neither a node nor a name, and no file was deleted: their eraseblock is lost.
    #[error("{}: neither nodes nor names are there, and nothing else was ever removed", inodes(*.first, *.last))]
    Missing {
        /// The first inode number that is missing.
        first: u32,
        /// The last inode number that is missing.
        last: u32,
    },
    /// The inode number of the node is 0, which is invalid.
    #[error("a node of inode 0, which is none")]
    NoNumber,
    /// The node contradicts another node of the same version. Which of the two is live is undefined.
    #[error("{}: another node of version {version} says something else", of_versions(*.inode, .name.as_deref()))]
    SameVersion {
        /// Inode to which the versions belong; for a dirent node, the directory.
        inode: u32,
        /// Name in a dirent node; `None` for an inode node.
        name: Option<String>,
        /// Version of both nodes.
        version: u32,
    },
    /// The xattr node contradicts another node of the same xattr and version.
    #[error("extended attribute {xid}: another node of version {version} says something else")]
    SameXattrVersion {
        /// Number of the xattr (xid).
        xid: u32,
        /// Version of both nodes.
        version: u32,
    },
    /// The xref node gives a file an xattr whose node is missing.
    #[error("extended attribute {xid} of inode {inode} is lost: nothing has its name and value")]
    NoXattr {
        /// Inode number.
        inode: u32,
        /// Number of the xattr (xid).
        xid: u32,
    },
    /// The ACL that an xref node gives to a file is malformed.
    #[error("the ACL of inode {inode}, extended attribute {xid}, is invalid: {fault}")]
    Acl {
        /// Inode number.
        inode: u32,
        /// Number of the xattr (xid) that holds the ACL.
        xid: u32,
        /// Offset of the fault in the ACL's value, and reason.
        fault: MediaError,
    },
    /// The node has the highest possible version, so its inode cannot be changed any more.
    #[error("inode {inode} has a node of version {}, behind which no change has one", u32::MAX)]
    LastVersion {
        /// Inode to which the version belongs; for a dirent node, the directory.
        inode: u32,
    },
    /// The file type of the node differs from the type in the inode's name and in its other nodes.
    #[error("mode {mode:#o} is of another type of file than inode {inode}")]
    Mode {
        /// Inode number.
        inode: u32,
        /// Mode stored in the node.
        mode: u32,
    },
    /// A name that programs cannot open.
    #[error("name {name:?} is empty, has bytes that no name has, or stands for a directory itself")]
    Name {
        /// Invalid name.
        name: String,
    },
    /// A name refers to the root directory.
    #[error("name {name:?} leads to the root directory")]
    ToRoot {
        /// Name that refers to the root.
        name: String,
    },
    /// The inode that contains a name is not a directory.
    #[error("name {name:?} is in inode {inode}, which is no directory")]
    NotInDirectory {
        /// Number of the inode that is not a directory.
        inode: u32,
        /// Name in that inode.
        name: String,
    },
    /// The data length of the node contradicts the node's other fields.
    #[error("inode {inode}: {data_len} bytes of data for {file_len} bytes of the file, {compressor:?}")]
    Lengths {
        /// Inode number.
        inode: u32,
        /// Stored bytes of data in the node (dsize).
        data_len: u32,
        /// Bytes of the file after decompression (csize).
        file_len: u32,
        /// Compressor of its data.
        compressor: Compressor,
    },
    /// The data of the node cannot be decompressed.
    #[error("data of inode {inode}: {fault}")]
    Data {
        /// Inode number.
        inode: u32,
        /// Description of the fault.
        fault: CompressFault,
    },
}

/// Description of the summary entry of a node.
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

/// Description of a range of inodes.
fn inodes(first: u32, last: u32) -> String {
    if first == last { format!("inode {first}") } else { format!("inodes {first} to {last}") }
}

/// Description of the inode or name to which the nodes of one version belong.
fn of_versions(inode: u32, name: Option<&str>) -> String {
    name.map_or_else(|| format!("inode {inode}"), |name| format!("name {name:?} in directory {inode}"))
}

impl Fault {
    /// This fault at a flash offset.
    pub(super) fn at(self, at: u64) -> Damage {
        Damage { at, fault: self }
    }
}

/// Reason why a flash cannot be mounted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The flash contains no JFFS2 node.
    #[error("no node of JFFS2 is there")]
    Nothing,
    /// The flash has a node of an incompatible type: software that does not know the type must not mount.
    #[error("at byte {at} ({at:#x}): a node of type {code:#06x}, which is not known and must be")]
    Incompatible {
        /// Flash offset of the node, bytes.
        at: u64,
        /// Type code of the node.
        code: u16,
    },
    /// Files and directories have lost their names or nodes, and a writable mount would delete them. The field is
    /// their number.
    #[error("{0} without a name of their own, which the mount would remove")]
    Nameless(usize),
    /// The flash is larger than JFFS2 supports.
    #[error("{0} bytes of flash: JFFS2 has at most 4 GiB")]
    TooLarge(u64),
    /// Pages share cells, so an interrupted program damages other pages. Linux refuses this even in slc-mode
    /// (`jffs2_do_fill_super`).
    #[error("JFFS2 is not for MLC NAND, in slc-mode neither")]
    Mlc,
    /// The flash fails.
    #[error("{0}")]
    Flash(#[from] Error),
    /// Recovery from an operation that a power loss interrupted failed.
    #[error("what a power cut left cannot be put in order: {0}")]
    Recovery(fs::Error),
}
