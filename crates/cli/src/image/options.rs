//! Options that the subcommands share.

use std::path::{Path, PathBuf};

use crate::common::Failure;
use floatgate_lab::image::{Access, FileUbifs, Image, ImageError, Selection};
use floatgate_stack::ubifs::Behaviour;

/// Names an image, and what is meant in it.
#[derive(clap::Args)]
pub(super) struct ImageArgs {
    /// The file with the image
    pub(super) image: PathBuf,

    /// The UBI volume, by name or number, where there are several
    #[arg(long, value_name = "NAME")]
    pub(super) volume: Option<String>,

    /// Where the image begins in the file, where there are several (see `floatgate image info`)
    #[arg(long, value_name = "BYTE")]
    pub(super) offset: Option<u64>,
}

impl ImageArgs {
    pub(super) fn selection(&self) -> Selection {
        Selection { offset: self.offset, volume: self.volume.clone() }
    }

    pub(super) fn open(&self, access: Access) -> Result<Image, Failure> {
        Image::open(&self.image, access).map_err(|error| failure(&self.image, &error))
    }

    /// Mounts the filesystem without writing anything.
    pub(super) fn mount(&self) -> Result<FileUbifs, Failure> {
        let image = self.open(Access::Read)?;
        let mounted = image.mount(&self.selection(), true, Behaviour::default());
        mounted.map_err(|error| failure(&self.image, &error))
    }

    /// What went wrong, with the image's name.
    pub(super) fn failed(&self, error: impl Into<ImageError>) -> Failure {
        failure(&self.image, &error.into())
    }
}

/// What the library says about a file.
pub(super) fn failure(path: &Path, error: &ImageError) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), error.help())
}
