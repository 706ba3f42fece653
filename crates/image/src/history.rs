//! Nodes that are still on the flash although newer ones have replaced them: old versions of files, and files that were removed.
//!
//! UBIFS and JFFS2 write out of place, and what they replace stays until its eraseblock is collected and erased.
//! [`history`] lists all of it; [`Extractions::open_at`](crate::extract::Extractions::open_at) restores the files as they were.

use crate::ImageError;
use crate::image::Image;
pub use crate::report::{At, Change, Revision};
use crate::selection::{Chosen, Selection};

/// Lists all nodes of files that are still there, in the order in which they were written, if it is known.
///
/// # Errors
/// Several images or volumes and none chosen; no filesystem; the file cannot be read.
pub fn history(image: &Image, selection: &Selection) -> Result<Vec<Revision>, ImageError> {
    let found = image.choose(selection)?;
    found.format().history(Chosen { image, found: &found, selection })
}
