//! Targets of an extraction, and the report on it.

use std::io;

use floatgate_stack::fs::Attributes;
use serde::Serialize;

use super::contents::Contents;
use crate::report::Loss;

/// Limits of an extraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtractLimits {
    /// Largest sum of file sizes in bytes, holes included.
    pub bytes: u64,
    /// Largest number of files and directories.
    pub entries: u64,
    /// Deepest nesting of directories.
    pub depth: usize,
}

impl Default for ExtractLimits {
    fn default() -> Self {
        Self { bytes: 1 << 36, entries: 10_000_000, depth: 256 }
    }
}

/// File, directory or other entry that is passed to a target.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Names on the path from the root; empty for the root itself. No name is empty, `.` or `..`, or contains
    /// a slash or a byte 0.
    pub path: &'a [Vec<u8>],
    /// Attributes of the inode.
    pub attributes: &'a Attributes,
    /// Extended attributes: full names with their prefixes, and values.
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
    /// Target of a symbolic link.
    pub target: Option<&'a [u8]>,
}

/// Report on an extraction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Extracted {
    /// Number of files, directories and other entries, without the root.
    pub entries: u64,
    /// Sum of the file sizes in bytes, holes included.
    pub bytes: u64,
    /// Files and attributes that were not restored bit for bit; empty if all were.
    pub losses: Vec<Loss>,
    /// Damage in the image that caused no further losses.
    pub notes: Vec<String>,
    /// True if the format has no checksums of data, so that changed data cannot be detected.
    #[serde(skip)]
    pub is_unverified: bool,
}

/// Reason why an extraction ended early. Files that were already written stay.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The target could not write a file.
    #[error("{path}: {error}")]
    Target {
        /// Path of the file that was being written.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Limit that the image exceeds.
    #[error("{path}: the image holds more than the limit of {limit} {what}")]
    Limit {
        /// Path of the entry that exceeded the limit.
        path: String,
        /// Name of the limited quantity.
        what: &'static str,
        /// Largest value allowed.
        limit: u64,
    },
}

/// Destination of an extraction.
///
/// Each call returns the properties of the entry that the target could not restore. An error ends the
/// extraction.
pub trait Target {
    /// Begins a directory, whose entries follow. The root comes first.
    ///
    /// # Errors
    /// The target cannot be written.
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Vec<String>, io::Error>;

    /// Ends a directory, after all its entries.
    ///
    /// # Errors
    /// The target cannot be written.
    fn leave(&mut self, entry: &Entry<'_>) -> Result<Vec<String>, io::Error>;

    /// Writes a regular file with its contents.
    ///
    /// # Errors
    /// The target cannot be written.
    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents) -> Result<Vec<String>, io::Error>;

    /// Writes a symbolic link, a device, a pipe or a socket.
    ///
    /// # Errors
    /// The target cannot be written.
    fn special(&mut self, entry: &Entry<'_>) -> Result<Vec<String>, io::Error>;

    /// Writes another name of a file that was already written as `first`.
    ///
    /// # Errors
    /// The target cannot be written.
    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> Result<Vec<String>, io::Error>;
}

/// Target that reads and discards all contents, to find only the losses.
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

/// Part of an image that is ready to be extracted.
pub(crate) trait Extracting {
    /// Extracts the whole part. The limits apply to each filesystem.
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
