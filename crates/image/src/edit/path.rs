//! Paths in an image: bytes that start from the root; links are not followed.

use floatgate_stack::fs::{Error, FileSystem, Name};

use super::EditError;
use crate::walk::{Refused, WalkError};

/// Path in an image, split into names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePath {
    bytes: Vec<u8>,
    parts: Vec<Vec<u8>>,
    /// True if the path ends with a slash, and must therefore be a directory.
    pub is_directory: bool,
}

impl ImagePath {
    /// Splits a path, which starts from the root even without a leading slash.
    ///
    /// # Errors
    /// The path contains `..`, which is usually a mistake because there is no current directory.
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

    /// The path as the user wrote it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Names of the path, from the root.
    #[must_use]
    pub fn parts(&self) -> &[Vec<u8>] {
        &self.parts
    }

    /// Path of an entry of this directory.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        let mut parts = self.parts.clone();
        parts.push(name.to_vec());
        let bytes = parts.iter().flat_map(|part| [b"/".as_slice(), part].concat()).collect();
        Self { bytes, parts, is_directory: false }
    }

    /// The same path, with the information whether it must be a directory.
    pub(super) fn meaning_directory(&self, is_directory: bool) -> Self {
        Self { is_directory, ..self.clone() }
    }

    /// Converts the error of a walk from this path to an error at the directory in which the walk ended.
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

    /// Error about a missing attribute of the file at this path.
    pub(super) fn no_attribute(&self, name: &[u8]) -> EditError {
        EditError::no_attribute(&self.bytes, name)
    }

    /// Converts an error to an error at this path.
    pub(super) fn failed(&self) -> impl FnOnce(Error) -> EditError {
        EditError::inside(&self.bytes)
    }

    /// Error about an operation that is impossible for this path.
    pub(super) fn refused(&self, what: &'static str) -> EditError {
        EditError::refused(&self.bytes, what)
    }

    /// Inode at this path, if it exists.
    pub(super) fn find(&self, fs: &mut dyn FileSystem) -> Result<Option<u32>, EditError> {
        match self.walk(fs, &self.parts) {
            Ok(inode) => Ok(Some(inode)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(self.failed()(error)),
        }
    }

    /// Inode at this path.
    pub(super) fn inode(&self, fs: &mut dyn FileSystem) -> Result<u32, EditError> {
        self.walk(fs, &self.parts).map_err(self.failed())
    }

    /// Inode of the directory that contains the last name of the path, and this name.
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
