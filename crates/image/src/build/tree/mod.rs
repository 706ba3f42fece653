//! Builders of filesystems that floatgate cannot mount for writing. The files are staged in a UBIFS in a temporary file; a writer then reads them in
//! the order of their paths.

mod littlefs;
mod spiffs;
mod staged;
mod yaffs;

use floatgate_files::tempfile;
use floatgate_stack::fs::{Attributes, Compression, FileSystem, FileType};
use floatgate_stack::store::Store;
use floatgate_stack::ubifs::{Behaviour, FormatOptions, MountOptions, Ubifs};
use floatgate_stack::{BareVolume, FileStore};

use super::error::image;
use super::{BuildError, BuildOptions, Built, Container, Filled, FlashShape, Source, filled, max_lebs};
use crate::ImageError;
use crate::image::fill;
use crate::report::Loss;
use crate::words::count;
pub(crate) use staged::{Finish, changeable};

/// Flash sizes of the staging UBIFS: pages of 2 KiB, blocks of 128 KiB.
const STAGE_PAGE: u32 = 2048;
const STAGE_PAGES: u32 = 64;

/// Number of LEBs of the staging UBIFS for a tar from a pipe, whose size is unknown: 2 GiB.
const STAGE_LEBS: u32 = 16_384;

/// Number of bytes of a file that are read at once.
const PIECE: usize = 64 << 10;

/// A filesystem of a format that is only built and read. Pages and eraseblocks are those of [`BuildOptions::shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeOptions {
    /// A YAFFS2 like those of `mkyaffs2image`.
    Yaffs(YaffsOptions),
    /// A LittleFS of version 2 of a given size.
    Littlefs {
        /// Size of the image, bytes.
        bytes: u64,
    },
    /// A SPIFFS of a given size, like those of ESP-IDF's `spiffsgen.py`.
    Spiffs {
        /// Size of the image, bytes.
        bytes: u64,
    },
}

/// Options of a new YAFFS2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct YaffsOptions {
    /// True to store numbers with the most significant byte first.
    pub big_endian: bool,
    /// Size of the OOB of a page, bytes; 0 for tags at the end of the page.
    pub oob_bytes: u32,
    /// Byte of the OOB at which the tags begin: 2 in Linux's layouts, 0 in images of `mkyaffs2image` for a driver that moves
    /// them.
    pub tags_at: u32,
}

impl TreeOptions {
    const fn bytes(self) -> Option<u64> {
        match self {
            Self::Yaffs(_) => None,
            Self::Littlefs { bytes } | Self::Spiffs { bytes } => Some(bytes),
        }
    }
}

/// A file in the staging filesystem.
struct Entry {
    path: Vec<Vec<u8>>,
    /// Index of its directory among the entries.
    parent: usize,
    attributes: Attributes,
}

impl Entry {
    fn name(&self) -> &[u8] {
        self.path.last().map_or(&[], |name| name)
    }

    fn is(&self, file_type: FileType) -> bool {
        self.attributes.file_type == file_type
    }
}

/// The staging filesystem with its files. The root comes first, directories come before their contents, and names are
/// sorted.
struct Stage<'f> {
    fs: &'f mut dyn FileSystem,
    entries: Vec<Entry>,
}

impl<'f> Stage<'f> {
    fn new(fs: &'f mut dyn FileSystem) -> Result<Self, BuildError> {
        let root = fs.attributes(fs.root()).map_err(image)?;
        let mut entries = vec![Entry { path: Vec::new(), parent: 0, attributes: root }];
        let mut next = 0;
        while let Some(entry) = entries.get(next) {
            let (path, inode) = (entry.path.clone(), entry.attributes.inode);
            if entry.is(FileType::Directory) {
                let mut names = fs.read_dir(inode, None, usize::MAX).map_err(image)?;
                names.sort_by(|one, other| one.name.cmp(&other.name));
                for name in names {
                    let attributes = fs.attributes(name.inode).map_err(image)?;
                    let path = [&path[..], &[name.name]].concat();
                    entries.push(Entry { path, parent: next, attributes });
                }
            }
            next += 1;
        }
        Ok(Self { fs, entries })
    }

    /// Reads a file from byte `at` on; fewer bytes are returned at its end.
    fn read(&mut self, inode: u32, at: u64, buf: &mut [u8]) -> Result<usize, BuildError> {
        self.fs.read(inode, at, buf).map_err(image)
    }

    /// Reads a whole file in pieces.
    fn each_piece(
        &mut self,
        inode: u32,
        mut each: impl FnMut(&[u8]) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        let (mut at, mut buffer) = (0, vec![0; PIECE]);
        loop {
            let len = self.read(inode, at, &mut buffer)?;
            let Some(piece) = buffer.get(..len).filter(|piece| !piece.is_empty()) else { return Ok(()) };
            each(piece)?;
            at += len as u64;
        }
    }
}

/// Builds a filesystem into a store; see [`build`](super::build).
pub(super) fn build(
    source: &Source,
    mut store: impl Store + 'static,
    own: &TreeOptions,
    options: &BuildOptions,
) -> Result<Built, BuildError> {
    let (mut built, mut fs) = staged(source, options)?;
    let stage = Stage::new(&mut fs)?;
    let mut writer = Writer { store: &mut store, shape: options.shape, losses: Vec::new() };
    let losses = match own {
        TreeOptions::Yaffs(own) => yaffs::write(stage, writer, own)?,
        TreeOptions::Littlefs { bytes } => {
            let shape = littlefs::shape(options.shape.peb_bytes, *bytes);
            littlefs::write(stage, &mut writer, shape, *bytes)?;
            writer.losses
        }
        TreeOptions::Spiffs { bytes } => spiffs::write(stage, writer, *bytes)?,
    };
    if let Some(bytes) = own.bytes() {
        fill(&mut store, bytes).map_err(ImageError::Store)?;
    }
    built.losses.extend(losses);
    built.image_bytes = store.size_bytes();
    let block = match own {
        TreeOptions::Yaffs(own) => {
            let pages = options.shape.peb_bytes / options.shape.page_bytes.max(1);
            u64::from(pages) * u64::from(options.shape.page_bytes + own.oob_bytes)
        }
        TreeOptions::Littlefs { .. } | TreeOptions::Spiffs { .. } => options.shape.peb_bytes.into(),
    };
    built.lebs = super::lebs(built.image_bytes.div_ceil(block.max(1)));
    built.max_lebs = built.lebs;
    Ok(built)
}

/// Copies the files of a source into a staging UBIFS.
fn staged(
    source: &Source,
    options: &BuildOptions,
) -> Result<(Built, Ubifs<BareVolume<FileStore>>), BuildError> {
    let shape = FlashShape { size: None, ..FlashShape::of_nand(STAGE_PAGE, STAGE_PAGES, 0) };
    let lebs = matches!(source, Source::Stdin).then_some(STAGE_LEBS);
    let format = FormatOptions { compression: Compression::None, max_lebs: lebs, ..FormatOptions::default() };
    let stage = BuildOptions {
        shape,
        container: Container::None,
        format,
        uuid: None,
        volume_bytes: None,
        ..options.clone()
    };
    let geometry = shape.ubi()?;
    let max_lebs = max_lebs(source, &stage, geometry.leb_bytes(), None)?;
    let format = FormatOptions { max_lebs: Some(max_lebs), deferred: true, ..stage.format.clone() };
    let file = tempfile().map_err(ImageError::File)?;
    let store = FileStore::new(file).map_err(ImageError::Store)?;
    let volume = BareVolume::new(store, shape.volume(&geometry, max_lebs));
    let Filled { built, volume, .. } = filled(source, volume, &format, &stage)?;
    let mount = MountOptions { read_only: true, ..MountOptions::default() };
    let fs = Ubifs::mount(volume, &mount, Behaviour::default());
    Ok((built, fs.map_err(|(error, _)| ImageError::from(error))?))
}

/// The image being written, with the losses: properties that its format cannot store.
struct Writer<'s> {
    store: &'s mut dyn Store,
    shape: FlashShape,
    losses: Vec<Loss>,
}

impl Writer<'_> {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), BuildError> {
        Ok(self.store.write_at(at, bytes).map_err(ImageError::Store)?)
    }

    fn record_loss(&mut self, entry: &Entry, what: impl Into<String>) {
        self.losses.push(Loss::new(&entry.path, what));
    }

    /// Reports owners and permissions as losses, one line for each kind, for a format that cannot store them. Readers assume the
    /// defaults of Linux.
    fn report_attributes(&mut self, entries: &[Entry], format: &str) {
        let kept = || {
            let is_kept = |entry: &&Entry| entry.is(FileType::Regular) || entry.is(FileType::Directory);
            entries.iter().skip(1).filter(is_kept).map(|entry| &entry.attributes)
        };
        let usual = |file_type| if file_type == FileType::Directory { 0o755 } else { 0o644 };
        let owners = kept().filter(|file| (file.uid, file.gid) != (0, 0)).count();
        let permissions = kept().filter(|file| file.mode & 0o777 != usual(file.file_type)).count();
        let special = kept().filter(|file| file.mode & 0o7000 != 0).count();
        for (what, lost, instead) in [
            ("owners", owners, "root is assumed"),
            ("permissions", permissions, "755 for directories and 644 for files are assumed"),
            ("setuid, setgid and sticky bits", special, "none is assumed"),
        ] {
            if lost > 0 {
                let entries = count(lost as u64, "entry");
                self.losses.push(Loss::new(
                    &[],
                    format!("{format} has no {what}: those of {entries} are lost, and {instead}"),
                ));
            }
        }
    }

    /// Reports a file as a loss if the format does not have its type. Returns true for regular files and directories.
    fn has_type(&mut self, entry: &Entry, format: &str) -> bool {
        let what = match entry.attributes.file_type {
            FileType::Regular | FileType::Directory => return true,
            FileType::Symlink => "symbolic links",
            _ => "special files",
        };
        self.record_loss(entry, format!("{format} has no {what}: it is left out"));
        false
    }
}

/// Error for sizes that are impossible in a format.
fn sizes(what: impl Into<String>) -> BuildError {
    BuildError::TreeShape(what.into())
}
