//! Names of the structures of the filesystem.

/// Structure in which a fault was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Structure {
    /// The superblock node.
    Superblock,
    /// A master node.
    Master,
    /// A node of the log.
    Log,
    /// The LEB properties tree.
    Lpt,
    /// The orphan area.
    Orphans,
    /// A journal LEB.
    Journal,
    /// An index node.
    Index,
    /// The space of a LEB in the main area, or a total.
    Space,
    /// An inode node.
    Inode,
    /// An entry of a directory.
    Entry,
    /// An entry of an extended attribute.
    XattrEntry,
    /// A block of a file.
    Data,
}

impl Structure {
    /// Name of the structure in messages.
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
