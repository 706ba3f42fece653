//! Extraction of one part of a map whose format has a reader, such as CramFS.

use std::cell::Cell;

use super::extract;
use super::target::{ExtractError, ExtractLimits, Extracted, Target};
use crate::ImageError;
use crate::image::Image;
use crate::map::{Part, View};
use crate::readonly::reader;

/// True when the files of a part can be extracted by [`extract_part`].
///
/// # Errors
/// The file cannot be read.
pub fn has_reader(image: &Image, part: &Part) -> Result<bool, ImageError> {
    let (store, budget) = (image.store()?, Cell::new(u64::MAX));
    let view = View::new(&*store, &budget).slice(part.offset, part.len);
    Ok(reader(part.kind, view).is_some())
}

/// Extracts the files of a part; `None` where its format has no reader. Parts that are images of their own are opened by their offset.
///
/// # Errors
/// The file cannot be read, the target cannot be written, or there is more than the limits allow.
pub fn extract_part(
    image: &Image,
    part: &Part,
    target: &mut dyn Target,
    limits: &ExtractLimits,
    progress: &dyn Fn(u64),
) -> Result<Option<Extracted>, ExtractError> {
    let failed = |error: ImageError| ExtractError::Target {
        path: "/".to_owned(),
        error: std::io::Error::other(error.to_string()),
    };
    let (store, budget) = (image.store().map_err(failed)?, Cell::new(u64::MAX));
    let view = View::new(&*store, &budget).slice(part.offset, part.len);
    let Some(mut source) = reader(part.kind, view) else { return Ok(None) };
    extract(&mut *source, target, limits, progress).map(Some)
}
