//! Files of a directory in an image with their attributes, for `ls`.

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
    /// Target of a symbolic link; `None` if there is none, or if it is encrypted.
    pub target: Option<Vec<u8>>,
}

impl Listed {
    /// File with inode number `inode` and the names in `path`.
    ///
    /// # Errors
    /// The inode cannot be read.
    pub fn read(fs: &mut dyn FileSystem, path: &[Vec<u8>], inode: u32) -> Result<Self, Error> {
        let attributes = fs.attributes(inode)?;
        let readable = attributes.file_type == FileType::Symlink && !attributes.is_encrypted();
        let target = if readable { Some(fs.read_link(inode)?) } else { None };
        let path: Vec<String> = path.iter().map(|name| show_name(name)).collect();
        Ok(Self { path: path.join("/"), attributes, target })
    }

    /// File in the form of the JSON.
    pub fn row(&self) -> FileRow {
        FileRow::new(self.path.clone(), &self.attributes, self.target.as_deref())
    }
}

/// Files of a directory, and omitted files: directories that were not entered, and unreadable files.
#[derive(Debug, Default)]
pub struct Listing {
    /// Files, sorted by directory and name.
    pub files: Vec<Listed>,
    /// Path of each omitted file or directory, from the root, with the reason.
    pub refused: Vec<(Vec<Vec<u8>>, WalkError)>,
}

/// Reason for which the names on the way to a path are not those of the files: a directory is encrypted.
pub fn encrypted_names(fs: &mut dyn FileSystem, path: &[u8]) -> Option<String> {
    let mut directory = fs.root();
    for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
        if fs.attributes(directory).ok()?.is_encrypted() {
            let why = fs.why_encrypted(directory).unwrap_or_else(|| "no key was given".to_owned());
            return Some(format!("the names there are encrypted, and {why}"));
        }
        directory = fs.lookup(directory, part).ok()?;
    }
    None
}

/// Lists the file at `path`, or the entries of the directory at `path`; with `recursive` also the entries of all
/// directories below.
///
/// # Errors
/// The path does not exist, or its nodes cannot be read.
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
