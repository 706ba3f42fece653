//! Extraction of one part of a map whose format has a reader, such as SquashFS.

use super::target::{ExtractError, ExtractLimits, Extracted, Extracting as _, Target};
use crate::ImageError;
use crate::format::tree::TreeFiles;
use crate::image::Image;
use crate::map::Part;

/// True when the files of a part can be extracted by [`extract_part`].
pub const fn has_reader(part: &Part) -> bool {
    part.kind.has_reader()
}

/// Extracts the files of a part; `None` if its format has no reader. Parts that are images themselves are opened at
/// their offset.
///
/// # Errors
/// The file cannot be read, the part is damaged, the target cannot be written, or a limit is exceeded.
pub fn extract_part(
    image: &Image,
    part: &Part,
    target: &mut dyn Target,
    limits: &ExtractLimits,
    progress: &dyn Fn(u64),
) -> Result<Option<Extracted>, ExtractError> {
    if !has_reader(part) {
        return Ok(None);
    }
    let failed = |error: ImageError| ExtractError::Target {
        path: "/".to_owned(),
        error: std::io::Error::other(error.to_string()),
    };
    let store = image.store().map_err(failed)?;
    let files = TreeFiles::open(part.kind, store, (part.offset, part.len)).map_err(failed)?;
    Box::new(files).run(target, limits, progress).map(Some)
}
