//! Sources of an extraction.

use floatgate_stack::fs::{
    Attributes, BLOCK_BYTES, Compression, DirEntry, Error, FileFlags, FileSystem, FileType, NodePos,
    Timestamp,
};

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Bytes of the name, which can have any value.
    pub name: Vec<u8>,
    /// Inode of the name.
    pub inode: u32,
    /// File type that the name states.
    pub file_type: FileType,
    /// Reason why the entry may differ from the original.
    pub doubt: Option<&'static str>,
}

/// Names and values of extended attributes.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// A filesystem that can be damaged anywhere. Damaged parts do not prevent reads of other parts.
pub trait Source {
    /// The root directory.
    fn root(&self) -> u32;

    /// Attributes of an inode.
    ///
    /// # Errors
    /// The inode is damaged or missing.
    fn attributes(&mut self, inode: u32) -> Result<Attributes, Error>;

    /// Readable names of a directory, and the damage of other names.
    fn names(&mut self, directory: u32) -> (Vec<Name>, Vec<String>);

    /// Reason why an encrypted file is not decrypted, if keys were given.
    fn why_encrypted(&mut self, inode: u32) -> Option<String> {
        let _ = inode;
        None
    }

    /// Certain or possible losses of a file that were not reported yet.
    fn lost(&mut self, inode: u32) -> Vec<String>;

    /// Directory of files whose names are lost, which is in no other directory. It is requested after all others.
    fn nameless(&mut self, taken: &dyn Fn(&[u8]) -> bool) -> Option<Name>;

    /// Readable extended attributes, and the damage of others.
    fn xattrs(&mut self, inode: u32) -> (Xattrs, Vec<String>);

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// A damaged file.
    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>, Error>;

    /// Blocks of a file with data, in order, from `block` on and at most `max`, with their positions.
    ///
    /// # Errors
    /// The positions are unknown.
    fn blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>, Error>;

    /// Reads a block; bytes after its end are zeros.
    ///
    /// # Errors
    /// A damaged file.
    fn read_block(
        &mut self,
        inode: u32,
        block: u32,
        place: NodePos,
        out: &mut [u8; BLOCK_BYTES],
    ) -> Result<(), Error>;
}

/// A mounted filesystem as a source; damaged parts are omitted and reported.
pub struct FileSystemSource<'f>(pub &'f mut dyn FileSystem);

impl Source for FileSystemSource<'_> {
    fn root(&self) -> u32 {
        self.0.root()
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes, Error> {
        self.0.attributes(inode)
    }

    fn names(&mut self, directory: u32) -> (Vec<Name>, Vec<String>) {
        match self.0.readable_entries(directory) {
            Ok((entries, damage)) => {
                let damage = damage.iter().map(|error| format!("a name in the directory: {error}"));
                (names_of(entries), damage.collect())
            }
            Err(error) => (Vec::new(), vec![format!("names in the directory: {error}")]),
        }
    }

    fn why_encrypted(&mut self, inode: u32) -> Option<String> {
        self.0.why_encrypted(inode)
    }

    fn lost(&mut self, _inode: u32) -> Vec<String> {
        Vec::new()
    }

    fn nameless(&mut self, _taken: &dyn Fn(&[u8]) -> bool) -> Option<Name> {
        None
    }

    fn xattrs(&mut self, inode: u32) -> (Xattrs, Vec<String>) {
        readable_xattrs(self.0, inode)
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>, Error> {
        self.0.read_link(inode)
    }

    fn blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, NodePos)>, Error> {
        self.0.stored_blocks(inode, block, max)
    }

    fn read_block(
        &mut self,
        inode: u32,
        block: u32,
        place: NodePos,
        out: &mut [u8; BLOCK_BYTES],
    ) -> Result<(), Error> {
        self.0.read_stored(inode, block, place, out)
    }
}

/// Readable extended attributes of a file, and the damage of others.
pub(crate) fn readable_xattrs(fs: &mut dyn FileSystem, inode: u32) -> (Xattrs, Vec<String>) {
    let (names, damage) = match fs.readable_xattrs(inode) {
        Ok(found) => found,
        Err(error) => return (Vec::new(), vec![format!("extended attributes: {error}")]),
    };
    let mut lost: Vec<String> =
        damage.iter().map(|error| format!("the name of an extended attribute: {error}")).collect();
    let mut xattrs = Vec::with_capacity(names.len());
    for name in names {
        match fs.get_xattr(inode, &name) {
            Ok(value) => xattrs.push((name, value)),
            Err(error) => {
                lost.push(format!("extended attribute {}: {error}", super::show_name(&name)));
            }
        }
    }
    (xattrs, lost)
}

/// Entries of a directory, as names.
pub(crate) fn names_of(entries: Vec<DirEntry>) -> Vec<Name> {
    let name = |entry: DirEntry| Name {
        name: entry.name,
        inode: entry.inode,
        file_type: entry.file_type,
        doubt: None,
    };
    entries.into_iter().map(name).collect()
}

/// Attributes of a file without an inode: readable for all users, and with the size of its data.
pub(crate) fn without_inode(inode: u32, file_type: FileType, size: u64) -> Attributes {
    let (kind, permissions) = match file_type {
        FileType::Directory => (0o040_000, 0o755),
        _ => (0o100_000, 0o644),
    };
    let never = Timestamp { seconds: 0, nanoseconds: 0 };
    Attributes {
        inode,
        file_type,
        mode: kind | permissions,
        links: 1,
        uid: 0,
        gid: 0,
        size,
        atime: never,
        mtime: never,
        ctime: never,
        device: None,
        flags: FileFlags::default(),
        compression: Compression::None,
        xattr_count: 1,
    }
}
