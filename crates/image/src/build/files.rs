//! Files of a build source as a mounted filesystem.

use floatgate_files::tempfile;
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::{Behaviour, FormatOptions, MountOptions, Ubifs};
use floatgate_stack::{BareVolume, FileStore, Volume};

use super::write::Writer;
use super::{
    BuildError, BuildOptions, Container, FlashShape, Overrides, Source, fill_with, max_lebs, not_formatted,
};
use crate::ImageError;
use crate::image::ImageFs;
use crate::report::Loss;

/// Flash sizes of the temporary filesystem. Any valid sizes would do.
const SHAPE: FlashShape = FlashShape {
    page_bytes: 2048,
    sub_page_bytes: 2048,
    peb_bytes: 128 << 10,
    vid_header_offset: None,
    size: None,
};

/// Files of the host in a temporary filesystem.
pub struct Files {
    /// Filesystem with the files, read-only.
    pub fs: ImageFs,
    /// Properties of files that the image cannot hold bit for bit.
    pub losses: Vec<Loss>,
    /// True if the source contains attributes of the root directory, which not every tar does.
    pub has_root: bool,
}

/// Copies the files of a source uncompressed into a filesystem in a temporary file.
///
/// # Errors
/// The source cannot be read, or the host fails.
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
    let file = tempfile().map_err(ImageError::File)?;
    let store = FileStore::new(file).map_err(ImageError::Store)?;
    let volume = BareVolume::new(store, SHAPE.volume(&geometry, lebs));
    let fs = Ubifs::format(volume, &options.format, Behaviour::default());
    let mut fs = fs.map_err(|(error, _)| not_formatted(error))?;
    let filled = fill_with(Writer::comparing(&mut fs), source, Compression::None, &options)?;
    let volume = fs.unmount().map_err(|(error, _)| ImageError::from(error))?;
    let volume: Box<dyn Volume> = Box::new(volume);
    let read_only = MountOptions { read_only: true, ..MountOptions::default() };
    let fs = Ubifs::mount(volume, &read_only, Behaviour::default());
    let fs = Box::new(fs.map_err(|(error, _)| ImageError::from(error))?);
    Ok(Files { fs, losses: filled.losses, has_root: filled.has_root })
}
