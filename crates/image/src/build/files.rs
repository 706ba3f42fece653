//! The files of a source as a filesystem, to be read as such.

use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::{Behaviour, FormatOptions, MountOptions, Ubifs};
use floatgate_stack::{BareVolume, FileStore, Volume};

use super::super::extract::Loss;
use super::super::{ImageError, ImageFs};
use super::{BuildError, BuildOptions, Container, Filled, FlashShape, Overrides, Source, filled, max_lebs};

/// Sizes of a flash that does not matter.
const SHAPE: FlashShape = FlashShape {
    page_bytes: 2048,
    sub_page_bytes: 2048,
    peb_bytes: 128 << 10,
    vid_header_offset: None,
    size: None,
};

/// Files of the host in a filesystem of their own.
pub struct Files {
    /// The filesystem, which is read only.
    pub fs: ImageFs,
    /// Properties of files that the image cannot hold bit for bit.
    pub losses: Vec<Loss>,
    /// The source has said what the root directory is like: not every tar does.
    pub has_root: bool,
}

/// Puts the files of a source into a filesystem in a temporary file, not compressed.
///
/// # Errors
/// A source that cannot be read, failures of the host.
pub fn files(source: &Source) -> Result<Files, BuildError> {
    let format = FormatOptions { compression: Compression::None, ..FormatOptions::default() };
    let mut options = BuildOptions {
        shape: SHAPE,
        container: Container::None,
        format,
        uuid: None,
        volume_bytes: None,
        overrides: Overrides::default(),
        device_table: None,
    };
    let geometry = SHAPE.ubi()?;
    let lebs = max_lebs(source, &options, geometry.leb_bytes(), None)?;
    options.format = FormatOptions { max_lebs: Some(lebs), deferred: true, ..options.format };
    let file = tempfile::tempfile().map_err(ImageError::File)?;
    let store = FileStore::new(file).map_err(ImageError::Store)?;
    let volume = BareVolume::new(store, SHAPE.volume(&geometry, lebs));
    let Filled { built, volume, has_root, .. } = filled(source, volume, &options.format, &options)?;
    let volume: Box<dyn Volume> = Box::new(volume);
    let read_only = MountOptions { read_only: true, ..MountOptions::default() };
    let fs = Ubifs::mount(volume, &read_only, Behaviour::default());
    let fs = Box::new(fs.map_err(|(error, _)| ImageError::from(error))?);
    Ok(Files { fs, losses: built.losses, has_root })
}
