//! Destinations of an extraction, and its report.

use std::io;

use floatgate_stack::fs::Attributes;
use serde::Serialize;

use super::contents::Contents;
use crate::report::Loss;

/// Limits of an extraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtractLimits {
    /// Bytes of all files, holes included.
    pub bytes: u64,
    /// Files and directories.
    pub entries: u64,
    /// Directories inside each other.
    pub depth: usize,
}

impl Default for ExtractLimits {
    fn default() -> Self {
        Self { bytes: 1 << 36, entries: 10_000_000, depth: 256 }
    }
}

/// A file as a target gets it.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Names from the root; empty for the root. None is empty, `.` or `..`, none has a slash or a zero in it.
    pub path: &'a [Vec<u8>],
    /// Attributes of the inode.
    pub attributes: &'a Attributes,
    /// Extended attributes, names with their prefix.
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
    /// Target of a symbolic link.
    pub target: Option<&'a [u8]>,
}

/// Report on an extraction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Extracted {
    /// Files, directories and other entries, the root not counted.
    pub entries: u64,
    /// Bytes of all files, holes included.
    pub bytes: u64,
    /// Files and attributes that were not restored bit for bit; empty if all were.
    pub losses: Vec<Loss>,
    /// Damage in the image that costs nothing beyond `losses`.
    pub notes: Vec<String>,
    /// The format has no checksum over data, so that changed data cannot be seen.
    #[serde(skip)]
    pub is_unverified: bool,
}

/// Reason for which an extraction ended early. Files written until then stay.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The target cannot be written.
    #[error("{path}: {error}")]
    Target {
        /// Path of the file that was written.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The image asks for more than the limits allow.
    #[error("{path}: the image holds more than the limit of {limit} {what}")]
    Limit {
        /// Path at which the limit was passed.
        path: String,
        /// Name of the quantity that is limited.
        what: &'static str,
        /// Largest value that is allowed.
        limit: u64,
    },
}

/// Destination of an extraction.
///
/// Each call returns what could not be restored of the entry; an error ends the extraction.
pub trait Target {
    /// A directory begins; entries in it follow. The root is the first.
    ///
    /// # Errors
    /// The target cannot be written at all.
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Vec<String>, io::Error>;

    /// All entries of the directory were there.
    ///
    /// # Errors
    /// The target cannot be written at all.
    fn leave(&mut self, entry: &Entry<'_>) -> Result<Vec<String>, io::Error>;

    /// A regular file with its contents.
    ///
    /// # Errors
    /// The target cannot be written at all.
    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> Result<Vec<String>, io::Error>;

    /// A symbolic link, a device, a pipe or a socket.
    ///
    /// # Errors
    /// The target cannot be written at all.
    fn special(&mut self, entry: &Entry<'_>) -> Result<Vec<String>, io::Error>;

    /// Another name of a file that was there before.
    ///
    /// # Errors
    /// The target cannot be written at all.
    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> Result<Vec<String>, io::Error>;
}

/// A target that reads all and keeps nothing; losses of the image are still listed.
pub(crate) struct Nowhere;

impl Target for Nowhere {
    fn enter(&mut self, _: &Entry<'_>) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn leave(&mut self, _: &Entry<'_>) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn file(&mut self, _: &Entry<'_>, contents: &mut dyn Contents) -> io::Result<Vec<String>> {
        while contents.next_piece().is_some() {}
        Ok(Vec::new())
    }

    fn special(&mut self, _: &Entry<'_>) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn link(&mut self, _: &Entry<'_>, _: &[Vec<u8>]) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Something of an image that is ready to be extracted.
pub(crate) trait Extracting {
    /// Extracts all of it. The limits hold for each filesystem.
    ///
    /// # Errors
    /// The target cannot be written, or there are more entries than the limit.
    fn run(
        self: Box<Self>,
        target: &mut dyn Target,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, ExtractError>;
}
