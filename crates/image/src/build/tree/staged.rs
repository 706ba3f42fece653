//! Changes of a filesystem that can only be built as a whole. Its files are copied to a staging UBIFS in a temporary file and changed there; then the
//! whole image is written again.

use floatgate_files::tempfile;
use floatgate_stack::fs::{
    AttributeChanges, Attributes, BLOCK_BYTES, Compression, DirEntry, Error, FileSystem, FileType, Holds,
    Name, NewFile, NewKind, Rename, Result, SetXattr, Space, Timestamp,
};
use floatgate_stack::store::Store;
use floatgate_stack::ubifs::{Behaviour, FormatOptions, Ubifs};
use floatgate_stack::{BareVolume, FileStore};

use super::littlefs::{self, attribute_number};
use super::{FlashShape, PIECE, STAGE_PAGE, STAGE_PAGES, Stage, Writer};
use crate::ImageError;
use crate::build::BuildError;
use crate::image::ImageFs;
use crate::pending::erase;
use crate::readonly::LittlefsShape;

/// Size of the staging UBIFS per byte of the image, because small files need more space in a UBIFS. The temporary file
/// is sparse.
const STAGE_FACTOR: u64 = 24;
const STAGE_MIN: u64 = 64 << 20;

/// Assumed permissions of files and directories, because LittleFS stores none.
const FILE: u32 = 0o644;
const DIRECTORY: u32 = 0o755;

/// A LittleFS being changed.
struct Staged {
    fs: Ubifs<BareVolume<FileStore>>,
    /// The bytes of the image.
    store: Box<dyn Store>,
    shape: LittlefsShape,
    /// Number of free blocks of the image; `None` before it was written.
    free: Option<u64>,
    finish: Option<Finish>,
}

/// Last step of a change, once the store has the bytes of the image.
pub(crate) type Finish = Box<dyn FnOnce() -> core::result::Result<(), ImageError> + Send>;

/// Stages the files of a mounted LittleFS to change them. They are written to the store, which has its bytes, when all is changed.
///
/// # Errors
/// Files that cannot be read, and no space for the temporary file.
pub(crate) fn changeable(
    fs: &mut dyn FileSystem,
    shape: LittlefsShape,
    store: Box<dyn Store>,
    finish: Option<Finish>,
) -> core::result::Result<ImageFs, ImageError> {
    let mut staged = Staged { fs: stage(bytes_of(&shape))?, store, shape, free: None, finish };
    let (from, to) = (fs.root(), staged.fs.root());
    copy(fs, &mut staged.fs, (from, to))?;
    Ok(Box::new(staged))
}

fn bytes_of(shape: &LittlefsShape) -> u64 {
    u64::from(shape.block_bytes) * u64::from(shape.blocks)
}

/// Creates an empty UBIFS with space for all files of an image of this size.
fn stage(bytes: u64) -> core::result::Result<Ubifs<BareVolume<FileStore>>, ImageError> {
    let shape = FlashShape { size: None, ..FlashShape::of_nand(STAGE_PAGE, STAGE_PAGES, 0) };
    let geometry = shape.ubi().map_err(|error| Error::Failed(error.to_string()))?;
    let room = bytes.saturating_mul(STAGE_FACTOR).max(STAGE_MIN);
    let lebs = u32::try_from(room / u64::from(geometry.leb_bytes())).unwrap_or(u32::MAX);
    let store = FileStore::new(tempfile().map_err(ImageError::File)?).map_err(ImageError::Store)?;
    let volume = BareVolume::new(store, shape.volume(&geometry, lebs));
    let format = FormatOptions { compression: Compression::None, ..FormatOptions::default() };
    let behaviour = Behaviour { budget: false, ..Behaviour::default() };
    Ok(Ubifs::format(volume, &format, behaviour).map_err(|(error, _)| error)?)
}

/// Copies all files with their times and attributes.
fn copy(from: &mut dyn FileSystem, to: &mut dyn FileSystem, roots: (u32, u32)) -> Result<()> {
    let (mut open, mut directories, mut piece) = (vec![roots], Vec::new(), vec![0; PIECE]);
    while let Some((source, target)) = open.pop() {
        directories.push((source, target));
        for entry in from.read_dir(source, None, usize::MAX)? {
            let attributes = from.attributes(entry.inode)?;
            let is_directory = attributes.file_type == FileType::Directory;
            let kind = if is_directory { NewKind::Directory } else { NewKind::Regular };
            let inode = to.create(
                target,
                &entry.name,
                &NewFile { kind, permissions: permissions(is_directory), uid: 0, gid: 0 },
            )?;
            if is_directory {
                open.push((entry.inode, inode));
                continue;
            }
            let mut at = 0;
            while at < attributes.size {
                let len = from.read(entry.inode, at, &mut piece)?;
                if len == 0 {
                    return Err(Error::Damaged(format!("inode {}: its data end too early", entry.inode)));
                }
                to.write(inode, at, piece.get(..len).unwrap_or_default())?;
                at += len as u64;
            }
            attributes_of(from, to, (entry.inode, inode))?;
        }
    }
    directories.into_iter().rev().try_for_each(|pair| attributes_of(from, to, pair))
}

fn attributes_of(
    from: &mut dyn FileSystem,
    to: &mut dyn FileSystem,
    (source, target): (u32, u32),
) -> Result<()> {
    for name in from.list_xattrs(source)? {
        let value = from.get_xattr(source, &name)?;
        to.set_xattr(target, &name, &value, SetXattr::Any)?;
    }
    let times = from.attributes(source)?.times();
    to.set_attributes(target, &times)
}

const fn permissions(is_directory: bool) -> u32 {
    if is_directory { DIRECTORY } else { FILE }
}

impl Staged {
    fn check_name(&self, name: &[u8]) -> Result<()> {
        let most = self.shape.name_max as usize;
        if name.len() > most { Err(Error::NameTooLong(most)) } else { Ok(()) }
    }

    /// Writes the whole image again. Otherwise stale directory blocks could be mistaken for newer ones.
    fn write_image(&mut self) -> Result<()> {
        let bytes = bytes_of(&self.shape);
        erase(&mut self.store, 0, bytes).map_err(|error| Error::Failed(error.to_string()))?;
        let stage = Stage::new(&mut self.fs).map_err(failed)?;
        let shape = FlashShape {
            page_bytes: self.shape.block_bytes,
            sub_page_bytes: self.shape.block_bytes,
            peb_bytes: self.shape.block_bytes,
            vid_header_offset: None,
            size: None,
        };
        let mut writer = Writer { store: &mut *self.store, shape, losses: Vec::new() };
        let free = littlefs::write(stage, &mut writer, self.shape, bytes).map_err(failed)?;
        if let Some(loss) = writer.losses.first() {
            return Err(Error::Failed(loss.to_string()));
        }
        self.free = Some(free);
        Ok(())
    }
}

fn failed(error: BuildError) -> Error {
    match error {
        BuildError::NoSpace => Error::NoSpace,
        error => Error::Failed(error.to_string()),
    }
}

impl FileSystem for Staged {
    fn root(&self) -> u32 {
        self.fs.root()
    }

    fn set_time(&mut self, time: Timestamp) {
        self.fs.set_time(time);
    }

    fn is_read_only(&self) -> bool {
        false
    }

    /// Free space: the free blocks of the written image; before it is written, the whole image.
    fn space(&self) -> Space {
        let block = u64::from(self.shape.block_bytes);
        let free = self.free.unwrap_or(self.shape.blocks.into());
        Space { free_blocks: free * block / BLOCK_BYTES as u64, ..Space::default() }
    }

    fn holds(&self) -> Holds {
        Holds { flags: false, nanoseconds: false, acls: false }
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        FileSystem::attributes(&mut self.fs, inode)
    }

    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        FileSystem::lookup(&mut self.fs, directory, name)
    }

    fn read_dir(&mut self, directory: u32, after: Option<&DirEntry>, max: usize) -> Result<Vec<DirEntry>> {
        FileSystem::read_dir(&mut self.fs, directory, after, max)
    }

    fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        FileSystem::read(&mut self.fs, inode, offset, buf)
    }

    fn list_xattrs(&mut self, inode: u32) -> Result<Vec<Vec<u8>>> {
        FileSystem::list_xattrs(&mut self.fs, inode)
    }

    fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        FileSystem::get_xattr(&mut self.fs, inode, name)
    }

    fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        FileSystem::data_blocks(&mut self.fs, inode, block, max)
    }

    fn create(&mut self, directory: u32, name: &[u8], file: &NewFile<'_>) -> Result<u32> {
        self.check_name(name)?;
        let is_directory = match file.kind {
            NewKind::Regular => false,
            NewKind::Directory => true,
            NewKind::Symlink(_) => return Err(Error::Unsupported("LittleFS has no symbolic links")),
            _ => return Err(Error::Unsupported("LittleFS has no special files")),
        };
        let file =
            NewFile { kind: file.kind.clone(), permissions: permissions(is_directory), uid: 0, gid: 0 };
        FileSystem::create(&mut self.fs, directory, name, &file)
    }

    fn link(&mut self, _: u32, _: u32, _: &[u8]) -> Result<()> {
        Err(Error::Unsupported("LittleFS has no hard links"))
    }

    fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        FileSystem::unlink(&mut self.fs, directory, name)
    }

    fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        FileSystem::remove_dir(&mut self.fs, directory, name)
    }

    fn rename(&mut self, from: Name<'_>, to: Name<'_>, how: Rename) -> Result<()> {
        self.check_name(to.name)?;
        FileSystem::rename(&mut self.fs, from, to, how)
    }

    fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        FileSystem::write(&mut self.fs, inode, offset, data)
    }

    /// Owners and permissions stay unchanged, because the format does not store them.
    fn set_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        let kept = AttributeChanges { permissions: None, uid: None, gid: None, flags: None, ..*changes };
        FileSystem::set_attributes(&mut self.fs, inode, &kept)
    }

    fn set_xattr(&mut self, inode: u32, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        if attribute_number(name).is_none() {
            return Err(Error::Unsupported(
                "LittleFS has attributes user.littlefs.NN only, where NN is a hexadecimal number",
            ));
        }
        if value.len() > self.shape.attribute_max as usize {
            return Err(Error::TooLarge { what: "attribute", len: value.len() as u64 });
        }
        FileSystem::set_xattr(&mut self.fs, inode, name, value, how)
    }

    fn remove_xattr(&mut self, inode: u32, name: &[u8]) -> Result<()> {
        FileSystem::remove_xattr(&mut self.fs, inode, name)
    }

    fn open(&mut self, inode: u32) -> Result<()> {
        FileSystem::open(&mut self.fs, inode)
    }

    fn close(&mut self, inode: u32) -> Result<()> {
        FileSystem::close(&mut self.fs, inode)
    }

    fn fsync(&mut self, _: u32) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn end_change(&mut self) -> Result<()> {
        self.write_image()
    }

    fn unmount(mut self: Box<Self>) -> Result<()> {
        if self.free.is_none() {
            self.write_image()?;
        }
        self.finish.take().map_or(Ok(()), |finish| {
            finish().map_err(|error| match error {
                ImageError::Filesystem(error) => error,
                error => Error::Failed(error.to_string()),
            })
        })
    }
}
