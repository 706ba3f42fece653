//! Extraction of a filesystem from an image: into a directory, or as a tar with all attributes.
//!
//! Each property that cannot be restored exactly is reported. Names in the image are hostile: a [`Target`] gets them
//! one by one, so that no file is written outside of it.

#[cfg(not(target_family = "wasm"))]
mod all;
pub(crate) mod contents;
#[cfg(not(target_family = "wasm"))]
mod directory;
mod extractions;
mod part;
pub(crate) mod source;
mod tar;
pub(crate) mod target;
pub(crate) mod walk;
mod zip;

#[cfg(not(target_family = "wasm"))]
pub use all::{AllExtracted, ExtractedPart, extract_all};
pub use contents::Contents;
#[cfg(not(target_family = "wasm"))]
pub use directory::DirectoryTarget;
pub use extractions::Extractions;
pub use part::{extract_part, has_reader};
pub use source::{FileSystemSource, Name, Source, Xattrs};
pub use tar::TarTarget;
pub use target::{Entry, ExtractError, ExtractLimits, Extracted, Target};
pub use walk::extract;
pub use zip::ZipTarget;

pub use crate::format::ubifs::damaged::{DamagedUbifs, Extraction};
pub use crate::report::Loss;
pub use crate::words::{show_name, show_path};
