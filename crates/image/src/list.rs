//! Files of a directory in an image with their attributes, as `ls` lists them.

use crate::FileRow;
use crate::walk::{Walk, WalkError};
use crate::words::show_name;
use floatgate_stack::fs::{Attributes, Error, FileSystem, FileType};

/// A file in an image.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Path from the root; bytes that are not UTF-8 as `\xNN`.
    pub path: String,
    /// Attributes of its inode.
    pub attributes: Attributes,
    /// Target of a symbolic link; `None` also where it is encrypted.
    pub target: Option<Vec<u8>>,
}

impl Listed {
    /// The file with inode number `inode`, at the names of `path`.
    ///
    /// # Errors
    /// An inode that cannot be read.
    pub fn read(fs: &mut dyn FileSystem, path: &[Vec<u8>], inode: u32) -> Result<Self, Error> {
        let attributes = fs.attributes(inode)?;
        let readable = attributes.file_type == FileType::Symlink && !attributes.is_encrypted();
        let target = if readable { Some(fs.read_link(inode)?) } else { None };
        let path: Vec<String> = path.iter().map(|name| show_name(name)).collect();
        Ok(Self { path: path.join("/"), attributes, target })
    }

    /// The file as JSON has it.
    pub fn row(&self) -> FileRow {
        FileRow::new(self.path.clone(), &self.attributes, self.target.as_deref())
    }
}

/// Files of a directory, and what was left out: directories that were not entered, and what cannot be read.
#[derive(Debug, Default)]
pub struct Listing {
    /// The files, by directory and name.
    pub files: Vec<Listed>,
    /// Names of each file or directory that was left out, from the root, and the reason.
    pub refused: Vec<(Vec<Vec<u8>>, WalkError)>,
}

/// Lists the file at `path`, or the entries of the directory there; with `recursive` also those of all directories below.
///
/// # Errors
/// A path that is not there, or whose own nodes cannot be read.
pub fn list(fs: &mut dyn FileSystem, path: &[u8], recursive: bool) -> Result<Listing, Error> {
    let inode = fs.resolve(path)?;
    let base: Vec<Vec<u8>> =
        path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
    let mut listing = Listing::default();
    if fs.attributes(inode)?.file_type != FileType::Directory {
        listing.files.push(Listed::read(fs, &base, inode)?);
        return Ok(listing);
    }
    let mut walk = Walk::new(inode);
    while let Some(directory) = walk.next(fs) {
        match directory {
            Ok(directory) => {
                let mut path = [base.clone(), directory.path].concat();
                for entry in directory.entries {
                    path.push(entry.name);
                    match Listed::read(fs, &path, entry.inode) {
                        Ok(file) => listing.files.push(file),
                        Err(error) => listing.refused.push((path.clone(), error.into())),
                    }
                    path.pop();
                }
            }
            Err((path, WalkError::Unreadable(error))) if path.is_empty() => return Err(error),
            Err((path, error)) => listing.refused.push(([base.clone(), path].concat(), error)),
        }
        if !recursive {
            break;
        }
    }
    Ok(listing)
}
