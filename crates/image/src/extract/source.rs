//! Where an extraction comes from.

use floatgate_media::ubifs::{BLOCK_BYTES, FileType, InodeFlags, Timestamp};
use floatgate_stack::Volume;
use floatgate_stack::ubifs::{Attributes, DirEntry, Error, Place, Ubifs};

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Name: any bytes.
    pub name: Vec<u8>,
    /// The inode it stands for.
    pub inode: u32,
    /// The type of that, as the name has it.
    pub file_type: FileType,
    /// Reason for which the entry may not be what was there.
    pub doubt: Option<&'static str>,
}

/// Names and values of extended attributes.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// A filesystem that can be damaged anywhere: what is damaged does not keep the rest from being read.
pub trait Source {
    /// The root directory.
    fn root(&self) -> u32;

    /// Attributes of an inode.
    ///
    /// # Errors
    /// It is damaged or not there.
    fn attributes(&mut self, inode: u32) -> Result<Attributes, Error>;

    /// The names in a directory that can be read, and what is wrong with the others.
    fn names(&mut self, directory: u32) -> (Vec<Name>, Vec<String>);

    /// What is known to be lost of a file, or may be, and was not said yet.
    fn lost(&mut self, inode: u32) -> Vec<String>;

    /// A directory of files whose names are lost; it stands in none. Asked for after all others.
    fn nameless(&mut self, taken: &dyn Fn(&[u8]) -> bool) -> Option<Name>;

    /// The extended attributes that can be read, and what is wrong with the others.
    fn xattrs(&mut self, inode: u32) -> (Xattrs, Vec<String>);

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// It is damaged.
    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>, Error>;

    /// Blocks of a file that hold data, in order, from `block` on, at most `max`, and where they stand.
    ///
    /// # Errors
    /// It is not known where they are.
    fn blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, Place)>, Error>;

    /// Reads a block; what lies behind its end is zeros.
    ///
    /// # Errors
    /// It is damaged.
    fn read_block(
        &mut self,
        inode: u32,
        block: u32,
        place: Place,
        out: &mut [u8; BLOCK_BYTES as usize],
    ) -> Result<(), Error>;
}

impl<V: Volume + 'static> Source for Ubifs<V> {
    fn root(&self) -> u32 {
        Ubifs::<dyn Volume>::root(self)
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes, Error> {
        Ubifs::<dyn Volume>::attributes(self, inode)
    }

    fn names(&mut self, directory: u32) -> (Vec<Name>, Vec<String>) {
        match self.readable_entries(directory) {
            Ok((entries, damage)) => {
                let damage = damage.iter().map(|error| format!("a name in the directory: {error}"));
                (names_of(entries), damage.collect())
            }
            Err(error) => (Vec::new(), vec![format!("names in the directory: {error}")]),
        }
    }

    fn lost(&mut self, _inode: u32) -> Vec<String> {
        Vec::new()
    }

    fn nameless(&mut self, _taken: &dyn Fn(&[u8]) -> bool) -> Option<Name> {
        None
    }

    fn xattrs(&mut self, inode: u32) -> (Xattrs, Vec<String>) {
        let (names, damage) = match self.readable_xattrs(inode) {
            Ok(found) => found,
            Err(error) => return (Vec::new(), vec![format!("extended attributes: {error}")]),
        };
        let mut lost: Vec<String> =
            damage.iter().map(|error| format!("the name of an extended attribute: {error}")).collect();
        let mut xattrs = Vec::with_capacity(names.len());
        for name in names {
            match self.get_xattr(inode, &name) {
                Ok(value) => xattrs.push((name, value)),
                Err(error) => {
                    lost.push(format!("extended attribute {}: {error}", super::show_name(&name)));
                }
            }
        }
        (xattrs, lost)
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>, Error> {
        Ubifs::<dyn Volume>::read_link(self, inode)
    }

    fn blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<(u32, Place)>, Error> {
        self.stored_blocks(inode, block, max)
    }

    fn read_block(
        &mut self,
        inode: u32,
        block: u32,
        place: Place,
        out: &mut [u8; BLOCK_BYTES as usize],
    ) -> Result<(), Error> {
        self.read_stored(inode, block, place, out)
    }
}

/// Entries of a directory as names.
pub(super) fn names_of(entries: Vec<DirEntry>) -> Vec<Name> {
    let name = |entry: DirEntry| Name {
        name: entry.name,
        inode: entry.inode,
        file_type: entry.file_type,
        doubt: None,
    };
    entries.into_iter().map(name).collect()
}

/// Attributes of a file whose inode is lost: readable by everybody, and as long as its data.
pub(super) fn without_inode(inode: u32, file_type: FileType, size: u64) -> Attributes {
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
        flags: InodeFlags::default(),
        compression: floatgate_media::ubifs::Compression::None,
        xattr_count: 1,
    }
}
