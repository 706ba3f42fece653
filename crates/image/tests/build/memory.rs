//! A filesystem in memory that knows nothing of flash: whatever works on images works on it, through `FileSystem` alone.

use floatgate_stack::fs::{
    AttributeChanges, Attributes, BLOCK_BYTES, Compression, DirEntry, Error, FileFlags, FileSystem, FileType,
    Name, NewFile, NewKind, Rename, Result, SetXattr, Space, Timestamp,
};
use std::collections::BTreeMap;

const ROOT: u32 = 1;

#[derive(Clone)]
struct Node {
    attributes: Attributes,
    names: BTreeMap<Vec<u8>, u32>,
    /// Of a regular file, or the target of a symbolic link.
    data: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Files in memory.
#[derive(Clone)]
pub(crate) struct MemoryFs {
    nodes: BTreeMap<u32, Node>,
    open: BTreeMap<u32, u32>,
    now: Timestamp,
}

impl MemoryFs {
    pub(crate) fn new() -> Self {
        let mut fs = Self { nodes: BTreeMap::new(), open: BTreeMap::new(), now: Timestamp::default() };
        let root = NewFile { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
        fs.nodes.insert(ROOT, fs.node(ROOT, &root));
        fs
    }

    fn node(&self, inode: u32, file: &NewFile<'_>) -> Node {
        let (device, data) = match file.kind {
            NewKind::BlockDevice(device) | NewKind::CharacterDevice(device) => (Some(device), Vec::new()),
            NewKind::Symlink(target) => (None, target.to_vec()),
            _ => (None, Vec::new()),
        };
        let mode = file.kind.mode() | file.permissions;
        let attributes = Attributes {
            inode,
            file_type: FileType::from_mode(mode).unwrap(),
            mode,
            links: if file.kind == NewKind::Directory { 2 } else { 1 },
            uid: file.uid,
            gid: file.gid,
            size: data.len() as u64,
            atime: self.now,
            mtime: self.now,
            ctime: self.now,
            device,
            flags: FileFlags::default(),
            compression: Compression::None,
            xattr_count: 0,
        };
        Node { attributes, names: BTreeMap::new(), data, xattrs: BTreeMap::new() }
    }

    fn get(&self, inode: u32) -> Result<&Node> {
        self.nodes.get(&inode).ok_or(Error::NotFound)
    }

    fn get_mut(&mut self, inode: u32) -> Result<&mut Node> {
        let now = self.now;
        let node = self.nodes.get_mut(&inode).ok_or(Error::NotFound)?;
        node.attributes.ctime = now;
        Ok(node)
    }

    fn directory(&mut self, inode: u32) -> Result<&mut Node> {
        let now = self.now;
        let node = self.get_mut(inode)?;
        node.attributes.mtime = now;
        if node.attributes.file_type == FileType::Directory { Ok(node) } else { Err(Error::NotDirectory) }
    }

    /// Gives an inode a name, and its directory a link for each directory in it.
    fn add(&mut self, directory: u32, name: &[u8], inode: u32) -> Result<()> {
        let is_directory = self.get(inode)?.attributes.file_type == FileType::Directory;
        let parent = self.directory(directory)?;
        parent.attributes.links += u32::from(is_directory);
        parent.names.insert(name.to_vec(), inode);
        Ok(())
    }

    fn take(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        let inode = self.lookup(directory, name)?;
        let is_directory = self.get(inode)?.attributes.file_type == FileType::Directory;
        let parent = self.directory(directory)?;
        parent.attributes.links -= u32::from(is_directory);
        parent.names.remove(name);
        Ok(inode)
    }

    fn drop_if_gone(&mut self, inode: u32) {
        let is_open = self.open.contains_key(&inode);
        if !is_open && self.nodes.get(&inode).is_some_and(|node| node.attributes.links == 0) {
            self.nodes.remove(&inode);
        }
    }
}

impl FileSystem for MemoryFs {
    fn root(&self) -> u32 {
        ROOT
    }

    fn set_time(&mut self, time: Timestamp) {
        self.now = time;
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn failure(&self) -> Option<Error> {
        None
    }

    fn space(&self) -> Space {
        Space { blocks: 1 << 20, free_blocks: 1 << 20, available_blocks: 1 << 20 }
    }

    fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        self.get(inode).map(|node| node.attributes.clone())
    }

    fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        let node = self.get(directory)?;
        if node.attributes.file_type != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        node.names.get(name).copied().ok_or(Error::NotFound)
    }

    fn read_dir(&mut self, directory: u32, after: Option<&DirEntry>, max: usize) -> Result<Vec<DirEntry>> {
        let names = &self.get(directory)?.names;
        let entries = names.iter().filter(|(name, _)| after.is_none_or(|after| **name > after.name));
        let entry = |(name, &inode): (&Vec<u8>, &u32)| DirEntry {
            name: name.clone(),
            inode,
            file_type: self.nodes[&inode].attributes.file_type,
            encrypted: false,
            position: 0,
        };
        Ok(entries.take(max).map(entry).collect())
    }

    fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let data = &self.get(inode)?.data;
        let rest = data.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        self.get(inode).map(|node| node.data.clone())
    }

    fn list_xattrs(&mut self, inode: u32) -> Result<Vec<Vec<u8>>> {
        self.get(inode).map(|node| node.xattrs.keys().cloned().collect())
    }

    fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        self.get(inode)?.xattrs.get(name).cloned().ok_or(Error::NotFound)
    }

    fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
        let blocks = (0u32..).zip(self.get(inode)?.data.chunks(BLOCK_BYTES)).skip(block as usize);
        let filled = blocks.filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0));
        Ok(filled.map(|(block, _)| block).take(max).collect())
    }

    fn inodes(&mut self) -> Result<Vec<u32>> {
        Ok(self.nodes.keys().copied().collect())
    }

    fn create(&mut self, directory: u32, name: &[u8], file: &NewFile<'_>) -> Result<u32> {
        if self.lookup(directory, name).is_ok() {
            return Err(Error::Exists);
        }
        let inode = self.create_unnamed(directory, file)?;
        self.open.remove(&inode);
        self.get_mut(inode)?.attributes.links = if file.kind == NewKind::Directory { 2 } else { 1 };
        self.add(directory, name, inode)?;
        Ok(inode)
    }

    fn create_unnamed(&mut self, _directory: u32, file: &NewFile<'_>) -> Result<u32> {
        let inode = self.nodes.keys().last().unwrap() + 1;
        let mut node = self.node(inode, file);
        node.attributes.links = 0;
        self.nodes.insert(inode, node);
        self.open.insert(inode, 1);
        Ok(inode)
    }

    fn link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        if self.lookup(directory, name).is_ok() {
            return Err(Error::Exists);
        }
        self.get_mut(inode)?.attributes.links += 1;
        self.add(directory, name, inode)
    }

    fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        let inode = self.lookup(directory, name)?;
        if self.get(inode)?.attributes.file_type == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        self.take(directory, name)?;
        self.get_mut(inode)?.attributes.links -= 1;
        self.drop_if_gone(inode);
        Ok(())
    }

    fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        let inode = self.lookup(directory, name)?;
        if !self.directory(inode)?.names.is_empty() {
            return Err(Error::NotEmpty);
        }
        self.take(directory, name)?;
        self.nodes.remove(&inode);
        Ok(())
    }

    fn rename(&mut self, from: Name<'_>, to: Name<'_>, how: Rename) -> Result<()> {
        if !matches!(how, Rename::Replace | Rename::KeepTarget) {
            return Err(Error::Unsupported("this way to rename"));
        }
        match self.lookup(to.directory, to.name) {
            Ok(_) if how == Rename::KeepTarget => return Err(Error::Exists),
            Ok(_) => self.unlink(to.directory, to.name)?,
            Err(_) => {}
        }
        let inode = self.take(from.directory, from.name)?;
        self.add(to.directory, to.name, inode)
    }

    fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        let now = self.now;
        let node = self.get_mut(inode)?;
        let end = offset as usize + data.len();
        node.data.resize(node.data.len().max(end), 0);
        node.data[offset as usize..end].copy_from_slice(data);
        (node.attributes.size, node.attributes.mtime) = (node.data.len() as u64, now);
        Ok(())
    }

    fn set_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        let node = self.get_mut(inode)?;
        let own = &mut node.attributes;
        own.mode = changes.permissions.map_or(own.mode, |bits| own.mode & !0o7777 | bits);
        own.uid = changes.uid.unwrap_or(own.uid);
        own.gid = changes.gid.unwrap_or(own.gid);
        own.atime = changes.atime.unwrap_or(own.atime);
        own.mtime = changes.mtime.unwrap_or(own.mtime);
        own.ctime = changes.ctime.unwrap_or(own.ctime);
        if let Some(size) = changes.size {
            own.size = size;
            node.data.resize(size as usize, 0);
        }
        Ok(())
    }

    fn set_xattr(&mut self, inode: u32, name: &[u8], value: &[u8], _how: SetXattr) -> Result<()> {
        let node = self.get_mut(inode)?;
        node.xattrs.insert(name.to_vec(), value.to_vec());
        node.attributes.xattr_count = node.xattrs.len() as u32;
        Ok(())
    }

    fn remove_xattr(&mut self, inode: u32, name: &[u8]) -> Result<()> {
        let node = self.get_mut(inode)?;
        node.xattrs.remove(name).ok_or(Error::NotFound)?;
        node.attributes.xattr_count = node.xattrs.len() as u32;
        Ok(())
    }

    fn open(&mut self, inode: u32) -> Result<()> {
        *self.open.entry(inode).or_default() += 1;
        Ok(())
    }

    fn close(&mut self, inode: u32) -> Result<()> {
        let count = self.open.get_mut(&inode).ok_or(Error::NotFound)?;
        *count -= 1;
        if *count == 0 {
            self.open.remove(&inode);
        }
        self.drop_if_gone(inode);
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
