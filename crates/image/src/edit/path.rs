//! Paths in an image: bytes, from the root, links not followed.

use floatgate_stack::fs::{Error, FileSystem, Name};

use super::EditError;
use crate::walk::{Refused, WalkError};

/// A path in an image, as parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePath {
    bytes: Vec<u8>,
    parts: Vec<Vec<u8>>,
    /// It ends with a slash: a directory is meant.
    pub is_directory: bool,
}

impl ImagePath {
    /// Takes a path apart; it counts from the root, also without a slash at its start.
    ///
    /// # Errors
    /// A `..` in it: without a current directory it is a mistake more often than not.
    pub fn new(path: impl Into<Vec<u8>>) -> Result<Self, EditError> {
        let bytes = path.into();
        let parts = bytes.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        let parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
        if parts.iter().any(|part| part == b"..") {
            return Err(EditError::refused(&bytes, "paths with .. are not taken"));
        }
        let is_directory = parts.is_empty() || bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        Ok(Self { bytes, parts, is_directory })
    }

    /// As it was given.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Names from the root.
    #[must_use]
    pub fn parts(&self) -> &[Vec<u8>] {
        &self.parts
    }

    /// The path of a name below it.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        let mut parts = self.parts.clone();
        parts.push(name.to_vec());
        let bytes = parts.iter().flat_map(|part| [b"/".as_slice(), part].concat()).collect();
        Self { bytes, parts, is_directory: false }
    }

    /// The same path, of which it is known whether a directory is meant.
    pub(super) fn meaning_directory(&self, is_directory: bool) -> Self {
        Self { is_directory, ..self.clone() }
    }

    /// Turns an error of a walk that began at this path into one at the directory where the walk ended.
    pub(super) fn not_walked(&self, (below, error): (Vec<Vec<u8>>, WalkError)) -> EditError {
        let path = below.iter().fold(self.clone(), |path, name| path.join(name));
        match error {
            WalkError::Unreadable(error) => path.failed()(error),
            WalkError::Refused(Refused::Again) => {
                EditError::refused(path.as_bytes(), "the directory has another name, or contains itself")
            }
            WalkError::Refused(Refused::TooDeep(_)) => {
                EditError::refused(path.as_bytes(), "there are too many directories inside each other")
            }
        }
    }

    /// An attribute is missing that the file at this path should have.
    pub(super) fn no_attribute(&self, name: &[u8]) -> EditError {
        EditError::no_attribute(&self.bytes, name)
    }

    /// Turns an error into one at this path.
    pub(super) fn failed(&self) -> impl FnOnce(Error) -> EditError {
        EditError::inside(&self.bytes)
    }

    /// Refusal of what makes no sense with this path.
    pub(super) fn refused(&self, what: &'static str) -> EditError {
        EditError::refused(&self.bytes, what)
    }

    /// The inode at this path, if there is one.
    pub(super) fn find(&self, fs: &mut dyn FileSystem) -> Result<Option<u32>, EditError> {
        match self.walk(fs, &self.parts) {
            Ok(inode) => Ok(Some(inode)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(self.failed()(error)),
        }
    }

    /// The inode at this path.
    pub(super) fn inode(&self, fs: &mut dyn FileSystem) -> Result<u32, EditError> {
        self.walk(fs, &self.parts).map_err(self.failed())
    }

    /// The directory that the last name of the path is in, and that name.
    pub(super) fn name(&self, fs: &mut dyn FileSystem) -> Result<Name<'_>, EditError> {
        let Some((name, parents)) = self.parts.split_last() else {
            return Err(self.refused("the root directory has no name"));
        };
        let directory = self.walk(fs, parents).map_err(self.failed())?;
        Ok(Name { directory, name })
    }

    fn walk(&self, fs: &mut dyn FileSystem, parts: &[Vec<u8>]) -> Result<u32, Error> {
        let root = fs.root();
        parts.iter().try_fold(root, |inode, part| fs.lookup(inode, part))
    }
}
