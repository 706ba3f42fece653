//! One side of a comparison: an image, or files of the host.

use std::collections::BTreeSet;
use std::path::Path;

use floatgate_files::FileExt;
use floatgate_host::open::open_file;
use floatgate_stack::ubifs::Behaviour;

use super::super::build::{BuildError, Files, Source, files};
use super::super::extract::Extractions;
use super::super::open::is_stream;
use super::{DiffError, DiffOptions, DiffReport, compare};
use crate::ImageError;
use crate::extract::target::{ExtractLimits, Nowhere};
use crate::image::{Access, Image, ImageFs};
use crate::report::Loss;
use crate::selection::Selection;

/// Offset of the magic of a tar.
const TAR_MAGIC_AT: u64 = 257;
const TAR_MAGIC: [u8; 5] = *b"ustar";

/// One of the two sides of a comparison.
pub enum Side {
    /// Image, and the selection of the filesystem in it.
    Image(Box<Image>, Selection),
    /// Files of a directory or of a tar.
    Files(Box<Files>),
}

/// Side of a comparison, mounted as a filesystem.
struct Mounted {
    fs: ImageFs,
    losses: Vec<Loss>,
    /// True for inodes with the flags of UBIFS.
    has_flags: bool,
    has_root: bool,
}

impl Side {
    /// Opens a directory, a tar or an image as a side. A tar may hold an image as it is; a selection then states which
    /// one is compared.
    ///
    /// # Errors
    /// The path cannot be read, or contains no known format.
    pub fn open(path: &Path, selection: &Selection) -> Result<Self, BuildError> {
        if path.is_dir() {
            return Ok(Self::Files(Box::new(files(&Source::Directory(path.to_owned()))?)));
        }
        let of_flash =
            Selection { peb_bytes: selection.peb_bytes, pages: selection.pages, ..Selection::default() };
        if *selection == of_flash && !is_stream(path) && is_tar(path) {
            return Ok(Self::Files(Box::new(files(&Source::Tar(path.to_owned()))?)));
        }
        Ok(Self::Image(Box::new(Image::open_sized(path, Access::Read, selection)?), selection.clone()))
    }

    /// Names of the volumes beside the compared one. Empty if the volume was chosen by its name.
    fn other_volumes(&self) -> Vec<String> {
        match self {
            // An image without such volumes reports its error when it is mounted.
            Self::Image(image, selection) if selection.volume.is_none() => {
                image.other_volumes(selection).unwrap_or_default()
            }
            Self::Image(..) | Self::Files(_) => Vec::new(),
        }
    }

    /// Losses that an extraction of the image lists. A mount alone does not notice names that are gone.
    fn missing(&self, number: u32) -> Vec<Loss> {
        let Self::Image(image, selection) = self else { return Vec::new() };
        // An image without a filesystem reports its error when it is mounted.
        let Ok(parts) = Extractions::open(image, selection) else { return Vec::new() };
        let extracted = parts.run(&mut Nowhere, &ExtractLimits::default(), &|_| ());
        let losses = extracted.map(|extracted| extracted.losses).unwrap_or_default();
        let of_image = |loss: Loss| Loss { what: format!("image {number}: {}", loss.what), ..loss };
        losses.into_iter().map(of_image).collect()
    }

    fn mount(self) -> Result<Mounted, ImageError> {
        Ok(match self {
            Self::Image(image, selection) => Mounted {
                fs: image.mount(&selection, true, Behaviour::default())?,
                losses: Vec::new(),
                has_flags: true,
                has_root: true,
            },
            Self::Files(files) => {
                let Files { fs, losses, has_root } = *files;
                Mounted { fs, losses, has_flags: false, has_root }
            }
        })
    }
}

fn is_tar(path: &Path) -> bool {
    let mut magic = [0; TAR_MAGIC.len()];
    open_file(path, false).is_ok_and(|file| file.read_exact_at(&mut magic, TAR_MAGIC_AT).is_ok())
        && magic == TAR_MAGIC
}

/// Compares two sides as [`diff`](super::diff) does, directories and tars included. Flags are compared only between
/// images, and attributes of the root directory only if the tar contains them.
///
/// # Errors
/// An image cannot be mounted.
pub fn diff_sides(sides: [Side; 2], options: &DiffOptions) -> Result<DiffReport, DiffError> {
    let not_compared: BTreeSet<String> = sides.iter().flat_map(Side::other_volumes).collect();
    let missing: Vec<Loss> = sides.iter().zip(1..).flat_map(|(side, number)| side.missing(number)).collect();
    let [first, second] = sides.map(Side::mount);
    let (mut first, mut second) = (first.map_err(DiffError::First)?, second.map_err(DiffError::Second)?);
    let options = DiffOptions {
        flags: options.flags && first.has_flags && second.has_flags,
        root: options.root && first.has_root && second.has_root,
        ..*options
    };
    let mut report = compare(&mut *first.fs, &mut *second.fs, &options);
    report.not_compared = not_compared.into_iter().collect();
    let is_new = |loss: &Loss| loss.path == "/" || report.trouble.iter().all(|told| told.path != loss.path);
    let missing: Vec<Loss> = missing.into_iter().filter(is_new).collect();
    report.trouble.extend(first.losses.into_iter().chain(second.losses).chain(missing));
    Ok(report)
}
