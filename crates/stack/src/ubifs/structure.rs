//! Names of the structures of the filesystem.

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
