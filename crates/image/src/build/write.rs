//! Writer of the files that a source delivers into the filesystem.

use floatgate_media::ubifs::{MAX_INODE_DATA, MAX_NAME_BYTES};
use floatgate_stack::fs::{
    Acl, AttributeChanges, CompressedBlock, Error, FileFlags, FileSystem, FileType, FilledFile, Holds,
    NewFile, NewKind, SetXattr, Timestamp, is_acl,
};

use super::compress::Piece;
use super::error::{BuildError, image};
use super::identity::Identity;
use super::item::{Batch, Item, ItemKind, Overrides, Step};
use crate::report::Loss;
use crate::words::{show_name, show_path};

/// Longest list of an inode's attribute names (Linux, XATTR_LIST_MAX).
const MAX_XATTR_LIST: usize = 65536;

/// Writer of a source's files into a filesystem.
pub(super) struct Writer<'f> {
    pub(super) fs: &'f mut dyn FileSystem,
    /// Attributes that the filesystem can store.
    holds: Holds,
    overrides: Overrides,
    pub(super) identity: Identity,
    pub(super) losses: Vec<Loss>,
    /// True if the source contains attributes of the root directory.
    pub(super) has_root: bool,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// Path and inode of the directory of the last file.
    parent: (Vec<Vec<u8>>, u32),
    /// Inode of the file that the next blocks belong to; `None` if that file was lost.
    current: Option<u32>,
}

impl<'f> Writer<'f> {
    pub(super) fn new(fs: &'f mut dyn FileSystem, overrides: Overrides) -> Self {
        let parent = (Vec::new(), fs.root());
        Self {
            holds: fs.holds(),
            fs,
            overrides,
            identity: Identity::new(),
            losses: Vec::new(),
            has_root: false,
            entries: 0,
            bytes: 0,
            parent,
            current: None,
        }
    }

    /// Creates a writer for files that are only compared. It preserves their ACLs, although UBIFS does not support
    /// ACLs.
    pub(super) fn comparing(fs: &'f mut dyn FileSystem) -> Self {
        let writer = Self::new(fs, Overrides::default());
        Self { holds: Holds { acls: true, ..writer.holds }, ..writer }
    }

    fn record_loss(&mut self, path: &[Vec<u8>], what: impl Into<String>) {
        self.losses.push(Loss::new(path, what));
    }

    /// Writes all steps of a batch, whose compressed blocks are in `pieces`, and empties the batch.
    pub(super) fn batch(&mut self, batch: &mut Batch, pieces: &[Piece]) -> Result<(), BuildError> {
        let mut done = pieces.iter().flat_map(|piece| piece.blocks.iter().map(move |block| (piece, *block)));
        batch.data.clear();
        for step in batch.steps.drain(..) {
            match step {
                Step::Item(item) => self.item(*item)?,
                Step::Loss(loss) => self.losses.push(loss),
                Step::Block { block, len, .. } => {
                    let Some((piece, done)) = done.next() else { break };
                    self.identity.number(u64::from(block) << 32 | u64::from(done.crc));
                    let data = &piece.bytes[done.start..done.end];
                    let too_large = |_| image(Error::TooLarge { what: "block", len: len as u64 });
                    let size = u32::try_from(len).map_err(too_large)?;
                    let block = CompressedBlock { block, size, compression: done.how, data };
                    if let Some(inode) = self.current {
                        self.fs.fill_blocks(inode, &[block]).map_err(image)?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn item(&mut self, mut item: Item) -> Result<(), BuildError> {
        self.current = None;
        self.overrides.apply(&mut item);
        note(&mut self.identity, &item);
        self.keep_possible_xattrs(&mut item);
        let outcome = match &item.kind {
            ItemKind::Directory if item.path.is_empty() => self.set_attributes(self.fs.root(), &item),
            _ if item.path.is_empty() => Err(Error::Invalid("the root is no directory")),
            ItemKind::Link(target) => self.link(&item.path, target),
            _ => self.file(&item),
        };
        self.has_root |= item.path.is_empty();
        self.keep_loss(&item.path, outcome)
    }

    /// Records a failure as a loss if it is about one file's attribute; a failure of the volume ends the build.
    fn keep_loss(&mut self, path: &[Vec<u8>], outcome: Result<(), Error>) -> Result<(), BuildError> {
        let Err(error) = outcome else { return Ok(()) };
        match error {
            Error::BadName
            | Error::NameTooLong(_)
            | Error::TooLarge { .. }
            | Error::Invalid(_)
            | Error::TooManyLinks
            | Error::NotDirectory
            | Error::IsDirectory
            | Error::NotEmpty
            | Error::NotPermitted
            | Error::Unsupported(_)
            | Error::NotFound => self.record_loss(path, error.to_string()),
            error => return Err(image(error)),
        }
        Ok(())
    }

    fn file(&mut self, item: &Item) -> Result<(), Error> {
        let Some((name, folder)) = item.path.split_last() else { return Ok(()) };
        let directory = self.directory(folder, item)?;
        let (kind, size) = match &item.kind {
            ItemKind::Directory | ItemKind::Link(_) => (NewKind::Directory, 0),
            ItemKind::Regular(size) => (NewKind::Regular, *size),
            ItemKind::Symlink(target) => (NewKind::Symlink(target), 0),
            ItemKind::BlockDevice(device) => (NewKind::BlockDevice(*device), 0),
            ItemKind::CharacterDevice(device) => (NewKind::CharacterDevice(*device), 0),
            ItemKind::Fifo => (NewKind::Fifo, 0),
            ItemKind::Socket => (NewKind::Socket, 0),
        };
        let file = FilledFile {
            file: NewFile { kind, permissions: item.permissions, uid: item.uid, gid: item.gid },
            size,
            atime: item.atime,
            mtime: item.mtime,
            ctime: item.ctime,
            flags: item.flags,
            compression: None,
            xattrs: &item.xattrs,
        };
        let inode = match self.fs.fill(directory, name, &file) {
            Err(Error::Exists) => {
                let found = self.fs.lookup(directory, name)?;
                let is_directory = self.fs.attributes(found)?.file_type == FileType::Directory;
                if is_directory && item.kind == ItemKind::Directory {
                    return self.set_attributes(found, item);
                }
                self.remove(directory, name)?;
                self.fs.fill(directory, name, &file)?
            }
            other => other?,
        };
        self.entries += 1;
        if item.flags != FileFlags::default() && !self.fs.attributes(inode)?.flags.contains(item.flags) {
            self.record_loss(&item.path, "the filesystem does not have its flags");
        }
        self.record_lost_time(inode, item)?;
        self.bytes += size;
        self.current = Some(inode);
        Ok(())
    }

    fn link(&mut self, path: &[Vec<u8>], target: &[Vec<u8>]) -> Result<(), Error> {
        let Some((name, folder)) = path.split_last() else { return Ok(()) };
        let inode = target.iter().try_fold(self.fs.root(), |at, part| self.fs.lookup(at, part))?;
        let directory = folder.iter().try_fold(self.fs.root(), |at, part| self.fs.lookup(at, part))?;
        match self.fs.fill_link(inode, directory, name) {
            Err(Error::Exists) if self.fs.lookup(directory, name)? == inode => return Ok(()),
            Err(Error::Exists) => {
                self.remove(directory, name)?;
                self.fs.fill_link(inode, directory, name)?;
            }
            other => other?,
        }
        self.entries += 1;
        Ok(())
    }

    /// Removes the file under a name that is used again: as with tar, the last file is valid.
    fn remove(&mut self, directory: u32, name: &[u8]) -> Result<(), Error> {
        let before = self.fs.attributes(directory)?;
        let inode = self.fs.lookup(directory, name)?;
        let removed = self.fs.attributes(inode)?;
        if removed.file_type == FileType::Directory {
            self.fs.remove_dir(directory, name)?;
        } else {
            self.fs.unlink(directory, name)?;
        }
        self.entries -= 1;
        if removed.file_type == FileType::Regular && removed.links <= 1 {
            self.bytes -= removed.size;
        }
        let times = AttributeChanges {
            mtime: Some(before.mtime),
            ctime: Some(before.ctime),
            ..AttributeChanges::default()
        };
        self.fs.fill_attributes(directory, &times)
    }

    /// Inode of the directory at a path. Missing directories are created with the attributes of the file that
    /// needs them.
    fn directory(&mut self, folder: &[Vec<u8>], item: &Item) -> Result<u32, Error> {
        if self.parent.0 == folder {
            return Ok(self.parent.1);
        }
        let mut inode = self.fs.root();
        for part in folder {
            inode = match self.fs.lookup(inode, part) {
                Err(Error::NotFound) => {
                    let file = NewFile {
                        kind: NewKind::Directory,
                        permissions: 0o755,
                        uid: self.overrides.owner.map_or(0, |owner| owner.0),
                        gid: self.overrides.owner.map_or(0, |owner| owner.1),
                    };
                    let (mtime, flags, xattrs) = (item.mtime, FileFlags::default(), &[][..]);
                    let compression = None;
                    let file = FilledFile {
                        file,
                        size: 0,
                        atime: mtime,
                        mtime,
                        ctime: mtime,
                        flags,
                        compression,
                        xattrs,
                    };
                    self.entries += 1;
                    self.fs.fill(inode, part, &file)?
                }
                other => other?,
            };
        }
        self.parent = (folder.to_vec(), inode);
        Ok(inode)
    }

    /// Sets the attributes of an existing directory to those of the item.
    fn set_attributes(&mut self, inode: u32, item: &Item) -> Result<(), Error> {
        for (name, value) in &item.xattrs {
            self.fs.set_xattr(inode, name, value, SetXattr::Any)?;
        }
        let changes = AttributeChanges {
            permissions: Some(item.permissions),
            uid: Some(item.uid),
            gid: Some(item.gid),
            atime: Some(item.atime),
            mtime: Some(item.mtime),
            ctime: Some(item.ctime),
            flags: Some(item.flags.with(FileFlags::COMPRESS)),
            ..AttributeChanges::default()
        };
        self.fs.fill_attributes(inode, &changes)?;
        self.record_lost_time(inode, item)
    }

    /// Records a loss if the filesystem cannot store a time of the item.
    fn record_lost_time(&mut self, inode: u32, item: &Item) -> Result<(), Error> {
        if let Some(what) = lost_time(self.fs, inode, item.mtime)? {
            self.record_loss(&item.path, what);
        }
        Ok(())
    }

    /// Applies a line of a device table to an existing file; `false` if the file does not exist.
    pub(super) fn change(&mut self, item: &Item) -> Result<bool, BuildError> {
        let found = item.path.iter().try_fold(self.fs.root(), |at, part| self.fs.lookup(at, part));
        let inode = match found {
            Ok(inode) => inode,
            Err(Error::NotFound) => return Ok(false),
            Err(error) => return Err(image(error)),
        };
        note(&mut self.identity, item);
        let changes = AttributeChanges {
            permissions: Some(item.permissions),
            uid: Some(item.uid),
            gid: Some(item.gid),
            ctime: Some(self.fs.attributes(inode).map_err(image)?.ctime),
            ..AttributeChanges::default()
        };
        let outcome = self.fs.fill_attributes(inode, &changes);
        self.keep_loss(&item.path, outcome).map(|()| true)
    }

    /// Removes the extended attributes that the filesystem cannot store, and records them as losses.
    fn keep_possible_xattrs(&mut self, item: &mut Item) {
        let holds = self.holds;
        let mut list = 0;
        let mut lost = Vec::new();
        let of_type = item.kind.file_type();
        item.xattrs.retain(|(name, value)| {
            list += name.len() + 1;
            let what = if !holds.acls && is_acl(name) {
                "UBIFS has no ACLs".to_owned()
            } else if !holds.xattr(name) {
                "the filesystem has no attributes of this namespace".to_owned()
            } else if is_acl(name)
                && let Err(error) = Acl::check_type(name, of_type).and_then(|()| Acl::of_xattr(value))
            {
                error.to_string()
            } else if value.len() > MAX_INODE_DATA as usize {
                "its value is longer than 4096 bytes".to_owned()
            } else if name.len() > MAX_NAME_BYTES || name.contains(&0) {
                "its name is not possible".to_owned()
            } else if list > MAX_XATTR_LIST {
                "there are too many".to_owned()
            } else {
                return true;
            };
            lost.push(format!("extended attribute {}: {what}", show_name(name)));
            false
        });
        lost.into_iter().for_each(|what| self.record_loss(&item.path, what));
    }
}

/// Description of a time that the filesystem stores with another value; every filesystem has at least 32 bits
/// for the seconds.
pub(crate) fn lost_time(
    fs: &mut dyn FileSystem,
    inode: u32,
    wanted: Timestamp,
) -> Result<Option<String>, Error> {
    if u32::try_from(wanted.seconds).is_ok() {
        return Ok(None);
    }
    let (wanted, kept) = (wanted.seconds, fs.attributes(inode)?.mtime.seconds);
    let what = format!("the filesystem has no time of {wanted} seconds since 1970: it is {kept} now");
    Ok((wanted != kept).then_some(what))
}

/// Adds all attributes of an item to the identity.
fn note(identity: &mut Identity, item: &Item) {
    identity.bytes(show_path(&item.path).as_bytes());
    let time = |time: Timestamp| (time.seconds as u64) ^ u64::from(time.nanoseconds) << 34;
    let (kind, bytes) = match &item.kind {
        ItemKind::Directory => (0, Vec::new()),
        ItemKind::Regular(size) => (1, size.to_le_bytes().to_vec()),
        ItemKind::Link(target) => (2, target.join(&b'/')),
        ItemKind::Symlink(target) => (3, target.clone()),
        ItemKind::BlockDevice(device) => (4, device.emit().unwrap_or_default().to_vec()),
        ItemKind::CharacterDevice(device) => (5, device.emit().unwrap_or_default().to_vec()),
        ItemKind::Fifo => (6, Vec::new()),
        ItemKind::Socket => (7, Vec::new()),
    };
    identity.number(kind << 32 | u64::from(item.permissions));
    identity.bytes(&bytes);
    identity.number(item.flags.bits().into());
    identity.number(u64::from(item.uid) << 32 | u64::from(item.gid));
    [item.atime, item.mtime, item.ctime].into_iter().for_each(|at| identity.number(time(at)));
    for (name, value) in &item.xattrs {
        identity.bytes(name);
        identity.bytes(value);
    }
}
