//! Nodes that remain on the flash although newer nodes have replaced them: old versions of files, and removed files.
//!
//! UBIFS and JFFS2 write out of place, and replaced data remains until its eraseblock is collected and erased.
//! [`history`] lists these nodes; [`Extractions::open_at`](crate::extract::Extractions::open_at) restores the files
//! in an earlier state.

use crate::ImageError;
use crate::image::Image;
pub use crate::report::{At, Change, Revision};
use crate::selection::{Chosen, Selection};

/// Lists all remaining nodes of files, in the order in which they were written, if it is known.
///
/// # Errors
/// Several images or volumes exist and none is selected, no filesystem, or the file cannot be read.
pub fn history(image: &Image, selection: &Selection) -> Result<Vec<Revision>, ImageError> {
    let found = image.choose(selection)?;
    found.format().history(Chosen { image, found: &found, selection })
}
