//! JFFS2 as a [`FileSystem`].

use super::damage::Damage;
use super::file::File;
use super::{FILES_KEPT, Jffs2};
use crate::fs::{
    AttributeChanges, Attributes, BLOCK_BYTES, Compression, DirEntry, Error, FileFlags, FileSystem, FileType,
    Name, NewFile, Rename, Result, SetXattr, Space, Timestamp,
};
use floatgate_media::jffs2::{Dirent, Inode, ROOT_INODE, device_number, file_type};
use floatgate_mtd::Mtd;

/// Percent of the flash that writing leaves free, and bytes for each eraseblock (Linux: `jffs2_calc_trigger_levels`).
const RESERVED_PERCENT: u64 = 2;
const RESERVED_PER_BLOCK: u64 = 100;

/// Eraseblocks that deleting leaves free.
const RESERVED_FOR_DELETION: u64 = 2;

/// Links that Linux shows of the root directory beside those of its subdirectories.
const ROOT_LINKS: u32 = 3;

/// Longest target of a symbolic link, bytes (Linux: `PATH_MAX`).
const TARGET_MAX: u32 = 4096;

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage.to_string())
    }
}

fn failed(error: floatgate_mtd::Error) -> Error {
    Error::Failed(error.to_string())
}

impl<M: Mtd> Jffs2<M> {
    /// A file with its nodes.
    fn file(&mut self, inode: u32) -> Result<&mut File> {
        if !self.files.contains_key(&inode) {
            let refs = self.nodes.get(&inode).map(Vec::as_slice);
            if refs.is_none() && inode != ROOT_INODE {
                return Err(Error::NotFound);
            }
            let nodes = (inode, refs.unwrap_or(&[]));
            let file = File::read(&mut self.flash, self.endian, nodes, &mut self.damage).map_err(failed)?;
            if self.files.len() >= FILES_KEPT {
                self.files.clear();
            }
            self.files.insert(inode, file);
        }
        self.files.get_mut(&inode).ok_or(Error::NotFound)
    }

    /// The newest node of a file. A root directory without any is one that everybody can read, as in Linux.
    fn newest(&mut self, inode: u32) -> Result<Inode> {
        let newest = self.file(inode)?.newest().map(|node| node.inode);
        match newest {
            Some(newest) => Ok(newest),
            None if inode == ROOT_INODE => Ok(Inode { inode, mode: 0o040_755, ..Inode::default() }),
            None => Err(Error::Damaged(format!("inode {inode}: none of its nodes is good"))),
        }
    }

    fn typed(&mut self, inode: u32) -> Result<(Inode, FileType)> {
        let newest = self.newest(inode)?;
        let unknown =
            || Error::Damaged(format!("inode {inode}: mode {:#o} names no type of file", newest.mode));
        Ok((newest, newest.file_type().ok_or_else(unknown)?))
    }

    fn links(&self, inode: u32, file_type: FileType) -> u32 {
        if file_type != FileType::Directory {
            return self.names.links(inode);
        }
        let names = self.names.directory(inode).into_iter().flat_map(super::names::Directory::names);
        let below = names.filter(|(_, named)| file_type_of(named.dirent_type) == Some(FileType::Directory));
        let own = if inode == ROOT_INODE { ROOT_LINKS } else { 2 };
        own.saturating_add(u32::try_from(below.count()).unwrap_or(u32::MAX))
    }

    /// Time of the last change of a directory's names, if that is later than its newest inode node.
    fn changed(&mut self, directory: u32) -> Result<Option<u32>> {
        let version = self.files.get(&directory).map_or(0, File::version);
        let changed = self.names.directory(directory).and_then(super::names::Directory::changed);
        let Some(changed) = changed.filter(|changed| changed.version > version) else { return Ok(None) };
        if changed.time.is_some() {
            return Ok(changed.time);
        }
        let mut bytes = [0; Dirent::SIZE];
        self.flash.read(u64::from(changed.at), &mut bytes).map_err(failed)?;
        Ok(Dirent::parse(&bytes, self.endian).ok().map(|dirent| dirent.mctime_s))
    }

    /// The data of the newest node: a target, a device number.
    fn attached(&mut self, inode: u32) -> Result<Vec<u8>> {
        let Some(newest) = self.file(inode)?.newest().copied() else { return Ok(Vec::new()) };
        let data = File::default().data(&mut self.flash, &newest).map_err(failed)?;
        data.map_err(|fault| fault.at(u64::from(newest.at)).into())
    }

    /// Reads bytes of a file, and remembers what was damaged.
    fn read_file(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut damage = Vec::new();
        self.file(inode)?;
        let Some(file) = self.files.get_mut(&inode) else { return Err(Error::NotFound) };
        let read = file.read_at(&mut self.flash, offset, buf, &mut damage);
        self.damage.append(&mut damage);
        read.map_err(failed)
    }
}

fn file_type_of(dirent_type: u8) -> Option<FileType> {
    file_type(dirent_type)
}

const fn seconds(seconds: u32) -> Timestamp {
    Timestamp { seconds: seconds as i64, nanoseconds: 0 }
}

/// Reading. What changes something is refused.
impl<M: Mtd + Send> FileSystem for Jffs2<M> {
    fn root(&self) -> u32 {
        ROOT_INODE
    }

    fn set_time(&mut self, _time: Timestamp) {}

    fn is_read_only(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<Error> {
        None
    }

    fn damage(&self) -> Vec<Error> {
        self.damage.iter().cloned().map(Error::from).collect()
    }

    /// As Linux's `statfs` right after mounting, before any data were checked: nodes that newer ones cover count as used.
    fn space(&self) -> Space {
        let geometry = self.flash.mtd.geometry();
        let (size, erase) = (geometry.size_bytes, u64::from(geometry.erase_bytes.max(1)));
        let reserve =
            size * RESERVED_PERCENT / 100 + u64::from(geometry.blocks()) * RESERVED_PER_BLOCK + erase - 1;
        let reserved = (RESERVED_FOR_DELETION + reserve / erase) * erase;
        let available = (self.counts.free_bytes + self.counts.dirty_bytes).saturating_sub(reserved);
        let blocks = available / BLOCK_BYTES as u64;
        Space { blocks: size / BLOCK_BYTES as u64, free_blocks: blocks, available_blocks: blocks }
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        let (newest, file_type) = self.typed(inode)?;
        let device = match file_type {
            FileType::BlockDevice | FileType::CharacterDevice => {
                device_number(&self.attached(inode)?, self.endian)
            }
            _ => None,
        };
        let size = match file_type {
            FileType::Regular | FileType::Symlink => u64::from(newest.file_bytes),
            _ => 0,
        };
        let changed = if file_type == FileType::Directory { self.changed(inode)? } else { None };
        let time = |own: u32| seconds(changed.unwrap_or(own));
        Ok(Attributes {
            inode,
            file_type,
            mode: newest.mode & 0o177_777,
            links: self.links(inode, file_type),
            uid: u32::from(newest.uid),
            gid: u32::from(newest.gid),
            size,
            atime: seconds(newest.atime_s),
            mtime: time(newest.mtime_s),
            ctime: time(newest.ctime_s),
            device,
            flags: FileFlags::default(),
            compression: Compression::None,
            xattr_count: u32::try_from(self.xattrs.of(inode).count()).unwrap_or(u32::MAX),
        })
    }

    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        if self.typed(directory)?.1 != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        self.names.get(directory, name).map(|named| named.inode).ok_or(Error::NotFound)
    }

    fn read_dir(&mut self, directory: u32, after: Option<&DirEntry>, max: usize) -> Result<Vec<DirEntry>> {
        if self.typed(directory)?.1 != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        let names = self.names.directory(directory).into_iter().flat_map(super::names::Directory::names);
        let rest = names.skip_while(|(name, _)| after.is_some_and(|after| *name <= after.name.as_slice()));
        let entries: Vec<_> = rest.take(max).map(|(name, named)| (name.to_vec(), named)).collect();
        let first = after.map_or(1, |after| after.position + 1);
        let entry = |(position, (name, named)): (u64, (Vec<u8>, super::names::Named))| {
            // Linux believes the dirent, too, as long as nobody opens the file.
            let file_type = file_type_of(named.dirent_type).unwrap_or(FileType::Regular);
            DirEntry { name, inode: named.inode, file_type, encrypted: false, position }
        };
        Ok((first..).zip(entries).map(entry).collect())
    }

    fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let (newest, file_type) = self.typed(inode)?;
        match file_type {
            FileType::Regular => {}
            FileType::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid("not a regular file")),
        }
        let rest = u64::from(newest.file_bytes).saturating_sub(offset);
        let len = buf.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        self.read_file(inode, offset, &mut buf[..len])?;
        Ok(len)
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        let (newest, file_type) = self.typed(inode)?;
        if file_type != FileType::Symlink {
            return Err(Error::Invalid("not a symbolic link"));
        }
        if newest.file_len > TARGET_MAX {
            return Err(Error::Damaged(format!("inode {inode}: a target of {} bytes", newest.file_len)));
        }
        self.attached(inode)
    }

    fn list_xattrs(&mut self, inode: u32) -> Result<Vec<Vec<u8>>> {
        Ok(self.xattrs.of(inode).map(|(name, _)| name.to_vec()).collect())
    }

    fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        let found = self.xattrs.of(inode).find(|(other, _)| *other == name);
        found.map(|(_, value)| value.to_vec()).ok_or(Error::NotFound)
    }

    fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        if self.typed(inode)?.1 != FileType::Regular {
            return Ok(Vec::new());
        }
        let bytes = BLOCK_BYTES as u64;
        let mut blocks = Vec::new();
        let mut next = u64::from(block);
        for (start, end) in self.file(inode)?.pieces(next * bytes) {
            for number in next.max(start / bytes)..end.div_ceil(bytes) {
                if blocks.len() == max {
                    return Ok(blocks);
                }
                // A file has less than 4 GiB.
                blocks.push(number as u32);
                next = number + 1;
            }
        }
        Ok(blocks)
    }

    fn inodes(&mut self) -> Result<Vec<u32>> {
        let others = self.nodes.keys().copied().filter(|inode| *inode != ROOT_INODE);
        Ok(std::iter::once(ROOT_INODE).chain(others).collect())
    }

    fn create(&mut self, _directory: u32, _name: &[u8], _file: &NewFile<'_>) -> Result<u32> {
        Err(Error::ReadOnly)
    }

    fn create_unnamed(&mut self, _directory: u32, _file: &NewFile<'_>) -> Result<u32> {
        Err(Error::ReadOnly)
    }

    fn link(&mut self, _inode: u32, _directory: u32, _name: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn unlink(&mut self, _directory: u32, _name: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn remove_dir(&mut self, _directory: u32, _name: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn rename(&mut self, _from: Name<'_>, _to: Name<'_>, _how: Rename) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn write(&mut self, _inode: u32, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn set_attributes(&mut self, _inode: u32, _changes: &AttributeChanges) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn set_xattr(&mut self, _inode: u32, _name: &[u8], _value: &[u8], _how: SetXattr) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn remove_xattr(&mut self, _inode: u32, _name: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn open(&mut self, inode: u32) -> Result<()> {
        self.file(inode).map(drop)
    }

    fn close(&mut self, _inode: u32) -> Result<()> {
        Ok(())
    }

    fn fsync(&mut self, _inode: u32) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn unmount(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
