//! What a survey finds wrong.

use core::ops::RangeInclusive;

use crate::ubifs::error::Error;

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be, and good to know.
    Note,
    /// What power cuts leave, or what there is a good copy of: the next mount for writing makes it good.
    Recoverable,
    /// Something is lost, or Linux does not accept it.
    Damaged,
}

/// The structure that something is wrong with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Structure {
    /// The superblock.
    Superblock,
    /// A master node.
    Master,
    /// The log.
    Log,
    /// The tree of LEB properties.
    Lpt,
    /// The orphan area.
    Orphans,
    /// A LEB of the journal.
    Journal,
    /// A node of the index.
    Index,
    /// Space of a LEB of the main area, or a sum of it.
    Space,
    /// An inode.
    Inode,
    /// A directory entry.
    Entry,
    /// The name of an extended attribute.
    XattrEntry,
    /// A block of a file.
    Data,
}

impl Structure {
    /// Name of the structure, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::Master => "master node",
            Self::Log => "log",
            Self::Lpt => "LPT",
            Self::Orphans => "orphan area",
            Self::Journal => "journal",
            Self::Index => "index",
            Self::Space => "space",
            Self::Inode => "inode",
            Self::Entry => "directory entry",
            Self::XattrEntry => "attribute entry",
            Self::Data => "data node",
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Severity of the problem.
    pub severity: Severity,
    /// Structure that the problem is in.
    pub structure: Structure,
    /// LEB and byte in it, if it has a place.
    pub place: Option<(u32, u32)>,
    /// Description of the problem.
    pub what: String,
    /// Consequence for who uses the filesystem.
    pub consequence: &'static str,
    /// Inodes that are hit, or may be.
    pub inodes: Option<RangeInclusive<u32>>,
}

impl Problem {
    /// A problem without a place.
    pub(crate) fn new(
        severity: Severity,
        structure: Structure,
        what: impl Into<String>,
        consequence: &'static str,
    ) -> Self {
        Self { severity, structure, place: None, what: what.into(), consequence, inodes: None }
    }

    /// From an error, with its place.
    pub(crate) fn of(
        severity: Severity,
        structure: Structure,
        error: &Error,
        consequence: &'static str,
    ) -> Self {
        Self { place: error.place(), ..Self::new(severity, structure, error.reason(), consequence) }
    }

    /// The problem at a place.
    pub(crate) fn at(self, lnum: u32, offset: u32) -> Self {
        Self { place: Some((lnum, offset)), ..self }
    }

    /// The problem of an inode.
    pub(crate) fn inode(self, inode: u32) -> Self {
        Self { inodes: Some(inode..=inode), ..self }
    }
}
