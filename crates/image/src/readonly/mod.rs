//! Readers of filesystems that are only read.
//!
//! - `media`: the bytes of a part; `codec`: compressions; `recent`: cache of recently read blocks.
//! - `chains`: chains of clusters of FAT and exFAT.
//! - One file for each format, which implements [`Tree`].
//! - `wear_levelling`: the layer of ESP-IDF beneath FAT.
//! - `fs`: implements [`FileSystem`] for a tree, for listing, extraction, mounts and comparisons.

mod chains;
mod codec;
mod cramfs;
mod erofs;
mod exfat;
mod ext;
mod f2fs;
mod fat;
mod fs;
mod littlefs;
mod media;
mod recent;
mod romfs;
mod spiffs;
mod squashfs;
mod wear_levelling;
mod yaffs;

use std::collections::BTreeMap;

use floatgate_stack::Store;
use floatgate_stack::fs::{BLOCK_BYTES, DeviceNumber, Error, FileSystem, FileType, Timestamp};

use crate::map::probe_match::Kind;

pub(crate) use littlefs::{LittlefsShape, attribute_name};
pub(crate) use media::Media;
pub(crate) use wear_levelling::{CONFIG_BYTES, WearLevelling};

/// Maximum number of entries in a directory.
const MAX_NAMES: usize = 1 << 20;

/// Maximum length of a symbolic link's target, bytes.
const LINK_MAX: u64 = 4096;

/// Time of a file in a format without times.
const NEVER: Timestamp = Timestamp { seconds: 0, nanoseconds: 0 };

/// Properties of an inode.
#[derive(Clone)]
struct Inode {
    file_type: FileType,
    /// Type and permissions; `None` if the format has no permissions.
    mode: Option<u32>,
    uid: u32,
    gid: u32,
    size: u64,
    links: u32,
    atime: Timestamp,
    mtime: Timestamp,
    ctime: Timestamp,
    device: Option<DeviceNumber>,
    has_xattrs: bool,
}

impl Inode {
    /// A file of a format that stores only types and sizes.
    const fn plain(file_type: FileType, size: u64) -> Self {
        Self {
            file_type,
            mode: None,
            uid: 0,
            gid: 0,
            size,
            links: 1,
            atime: NEVER,
            mtime: NEVER,
            ctime: NEVER,
            device: None,
            has_xattrs: false,
        }
    }

    /// A file with a POSIX mode; `None` if the mode contains no valid type.
    fn of_mode(mode: u32, size: u64) -> Option<Self> {
        Some(Self { mode: Some(mode), ..Self::plain(FileType::from_mode(mode)?, size) })
    }

    /// Sets all times to one.
    const fn at(self, time: Timestamp) -> Self {
        Self { atime: time, mtime: time, ctime: time, ..self }
    }
}

/// Names in a directory with their inodes.
type Names = Vec<(Vec<u8>, u32)>;

/// Names of directories that were read, each with true if none is missing.
type Directories = BTreeMap<u32, (Names, bool)>;

/// Extended attribute: its name with the prefix, and its value.
type Xattr = (Vec<u8>, Vec<u8>);

/// Extended attributes of a file.
type Xattrs = Vec<Xattr>;

/// A filesystem whose inodes are found by numbers: their own, or their places.
trait Tree: Send {
    /// Number of the root's inode.
    fn root(&self) -> u32;

    /// Properties of an inode.
    fn inode(&mut self, inode: u32) -> Option<Inode>;

    /// Adds the readable names of a directory; `None` if some are missing.
    fn read_names(&mut self, directory: u32, names: &mut Names) -> Option<()>;

    /// Names that are kept, in formats whose directories are read only once.
    fn kept_names(&mut self) -> Option<&mut Directories> {
        None
    }

    /// Readable names of a directory, and true if none is missing.
    fn names(&mut self, directory: u32) -> (Names, bool) {
        if let Some(names) = self.kept_names().and_then(|kept| kept.get(&directory)) {
            return names.clone();
        }
        let mut names = Names::new();
        let is_whole = self.read_names(directory, &mut names).is_some();
        if let Some(kept) = self.kept_names() {
            kept.insert(directory, (names.clone(), is_whole));
        }
        (names, is_whole)
    }

    /// Reads bytes of a file or a link from the beginning of a block, at most a block and none after its end. `out` is filled with zeros before.
    fn read(&mut self, inode: u32, at: u64, out: &mut [u8]) -> Option<()>;

    /// Bytes that are stored of a file or a link of `size` bytes.
    fn stored_bytes(&mut self, _inode: u32, size: u64) -> u64 {
        size
    }

    /// True for a block without data, which reads as zeros.
    fn is_hole(&mut self, _inode: u32, _block: u32) -> bool {
        false
    }

    /// Extended attributes.
    fn xattrs(&mut self, _inode: u32) -> Option<Xattrs> {
        Some(Xattrs::new())
    }

    /// True for a file whose name and contents Linux has encrypted; names, blocks and links are returned in their
    /// encrypted form.
    fn is_encrypted(&mut self, _inode: u32) -> bool {
        false
    }

    /// Context of an encrypted file.
    fn context(&mut self, _inode: u32) -> Option<Vec<u8>> {
        None
    }

    /// UUID of the filesystem, if its inodes keep their numbers.
    fn uuid(&self) -> Option<[u8; 16]> {
        None
    }

    /// Bytes of a unit of encryption: those of a block of the filesystem.
    fn unit(&self) -> usize {
        BLOCK_BYTES
    }

    /// Findings while the filesystem was opened.
    fn findings(&self) -> Findings {
        Findings::default()
    }
}

/// Findings of a reader while it opened a filesystem.
#[derive(Default)]
pub(crate) struct Findings {
    /// Reasons for which files may be older than what Linux shows.
    pub(crate) notes: Vec<String>,
    /// Damage for which files, names or data are missing.
    pub(crate) losses: Vec<String>,
    /// Damage of second copies and of bookkeeping, for which nothing is missing.
    pub(crate) flaws: Vec<String>,
    /// Remarks on properties that cannot be verified.
    pub(crate) remarks: Vec<String>,
}

/// A filesystem that is only read, with the findings of its reader.
pub(crate) struct Opened {
    pub(crate) fs: Box<dyn FileSystem>,
    pub(crate) found: Findings,
}

/// Opens the filesystem in a range of a store; `None` for a format without a reader.
///
/// # Errors
/// Unsupported features of the format; a damaged superblock.
pub(crate) fn open(
    kind: Kind,
    store: Box<dyn Store>,
    (at, len): (u64, u64),
) -> Result<Option<Opened>, Error> {
    let media = Media::new(store, at, len);
    let mut opened = match kind {
        Kind::Cramfs => fs::open(cramfs::Cramfs::new(media).ok_or_else(broken)?),
        Kind::Romfs => fs::open(romfs::Romfs::new(media).ok_or_else(broken)?),
        Kind::Squashfs => fs::open(squashfs::Squashfs::new(media)?),
        Kind::Ext => fs::open(ext::Ext::new(media)?),
        Kind::Fat if fat::is_exfat(&media) => fs::open(exfat::Exfat::new(media)?),
        Kind::Fat => fs::open(fat::Fat::new(media)?),
        Kind::F2fs => fs::open(f2fs::F2fs::new(media)?),
        Kind::Littlefs => fs::open(littlefs::Littlefs::new(media).ok_or_else(broken)?),
        Kind::Erofs => fs::open(erofs::Erofs::new(media)?),
        Kind::Spiffs => fs::open(spiffs::Spiffs::new(media).ok_or_else(broken)?),
        Kind::Yaffs => fs::open(yaffs::Yaffs::new(media)?),
        Kind::WearLevelled => wear_levelling::open(media)?,
        _ => return Ok(None),
    };
    let is_unverified = matches!(
        kind,
        Kind::Romfs | Kind::Squashfs | Kind::Ext | Kind::Fat | Kind::Erofs | Kind::F2fs | Kind::WearLevelled
    );
    if is_unverified && opened.found.remarks.is_empty() {
        let name = if kind == Kind::WearLevelled { Kind::Fat.name() } else { kind.name() };
        opened.found.remarks.push(format!("{name} has no checksum over data: changed data cannot be seen"));
    }
    Ok(Some(opened))
}

/// Sizes and limits of a LittleFS.
pub(crate) fn littlefs_shape(store: Box<dyn Store>, (at, len): (u64, u64)) -> Option<LittlefsShape> {
    LittlefsShape::read(&Media::new(store, at, len))
}

/// Error for a damaged superblock.
fn broken() -> Error {
    Error::Damaged("the beginning of the filesystem is damaged".to_owned())
}

/// A feature that a reader does not have.
fn unsupported(what: &'static str) -> Error {
    Error::Unsupported(what)
}
