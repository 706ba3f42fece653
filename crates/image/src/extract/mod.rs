//! Taking a filesystem out of an image: into a directory, or as a tar with every attribute.
//!
//! Anything that cannot be restored bit for bit is listed, never dropped in silence. Names come from the image and are hostile: a
//! [`Target`] gets them one by one, so that nothing can be written outside of it.

mod contents;
mod directory;
pub(crate) mod source;
mod tar;
mod volumes;
mod walk;

use std::fmt;

pub use crate::format::ubifs::damaged::{DamagedUbifs, Extraction};
pub use contents::Contents;
pub use directory::DirectoryTarget;
pub use source::{FileSystemSource, Name, Source, Xattrs};
pub use tar::TarTarget;
pub use volumes::Extractions;
pub(crate) use volumes::{device_losses, shifts};
pub use walk::{Entry, walk};

use serde::Serialize;

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

/// Something that was not restored bit for bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The path in the filesystem; bytes that are not UTF-8 as `\xNN`.
    pub path: String,
    /// Description of the loss and its reason.
    pub what: String,
}

impl Loss {
    /// A loss at a path.
    pub fn new(path: &[Vec<u8>], what: impl Into<String>) -> Self {
        Self { path: show_path(path), what: what.into() }
    }
}

/// The root directory stands for all of the filesystem, and is not named.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "/" => f.write_str(&self.what),
            path => write!(f, "{path}: {}", self.what),
        }
    }
}

/// A path from the root for people: bytes that are not UTF-8, and control characters, as `\xNN`.
pub fn show_path(path: &[Vec<u8>]) -> String {
    if path.is_empty() {
        return "/".to_owned();
    }
    path.iter().flat_map(|part| ["/".to_owned(), show_name(part)]).collect()
}

/// A name for people: bytes that are not UTF-8, and control characters, as `\xNN`.
pub fn show_name(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                let mut bytes = [0; 4];
                push_bytes(&mut out, character.encode_utf8(&mut bytes).as_bytes());
            } else {
                out.push(character);
            }
        }
        push_bytes(&mut out, chunk.invalid());
    }
    out
}

fn push_bytes(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        out.push_str(&format!("\\x{byte:02x}"));
    }
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
        error: std::io::Error,
    },
    /// The image asks for more than the limits allow.
    #[error("{path}: the image holds more than the limit of {limit} {what}")]
    Limit {
        /// Path at which the limit was passed.
        path: String,
        /// Name of the quantity that is limited.
        what: &'static str,
        /// The limit.
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
    fn enter(&mut self, entry: &Entry<'_>) -> Result<Vec<String>, std::io::Error>;

    /// All entries of the directory were there.
    ///
    /// # Errors
    /// The target cannot be written at all.
    fn leave(&mut self, entry: &Entry<'_>) -> Result<Vec<String>, std::io::Error>;

    /// A regular file with its contents.
    ///
    /// # Errors
    /// The target cannot be written at all.
    fn file(&mut self, entry: &Entry<'_>, contents: &mut dyn Contents)
    -> Result<Vec<String>, std::io::Error>;

    /// A symbolic link, a device, a pipe or a socket.
    ///
    /// # Errors
    /// The target cannot be written at all.
    fn special(&mut self, entry: &Entry<'_>) -> Result<Vec<String>, std::io::Error>;

    /// Another name of a file that was there before.
    ///
    /// # Errors
    /// The target cannot be written at all.
    fn link(&mut self, entry: &Entry<'_>, first: &[Vec<u8>]) -> Result<Vec<String>, std::io::Error>;
}

/// A target that reads all and keeps nothing: what the image has lost is listed all the same.
pub(crate) struct Nowhere;

impl Target for Nowhere {
    fn enter(&mut self, _: &Entry<'_>) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn leave(&mut self, _: &Entry<'_>) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn file(&mut self, _: &Entry<'_>, contents: &mut dyn Contents) -> std::io::Result<Vec<String>> {
        while contents.next_piece().is_some() {}
        Ok(Vec::new())
    }

    fn special(&mut self, _: &Entry<'_>) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn link(&mut self, _: &Entry<'_>, _: &[Vec<u8>]) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Extracts the whole filesystem. `progress` is told the bytes done after each file.
///
/// # Errors
/// The target cannot be written, or there are more entries than the limit.
pub fn extract(
    source: &mut dyn Source,
    target: &mut dyn Target,
    limits: &ExtractLimits,
    progress: &dyn Fn(u64),
) -> Result<Extracted, ExtractError> {
    walk(source, target, limits, progress)
}
