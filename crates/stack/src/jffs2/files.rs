//! File and name operations: reading, and the nodes that changes write.

mod changes;

use super::blocks::Owner;
use super::damage::Damage;
use super::file::{self, File, FileNode};
use super::names::{self, DIRECTORY_MODE, Directory, Named};
use super::{Cached, FILES_KEPT, Jffs2, NodeRef};
use crate::fs::{
    Attributes, BLOCK_BYTES, Compression, DirEntry, Error, FileFlags, FileType, Result, Space, Timestamp,
    Work,
};
use floatgate_media::jffs2::{
    Compressor, Dirent, DirentNode, Entry, Inode, NODE_ALIGN, ROOT_INODE, device_number, file_type,
};
use floatgate_mtd::Mtd;
use std::ops::Range;

/// Link count of the root directory in Linux, without its subdirectories.
const ROOT_LINKS: u32 = 3;

/// Maximum length of a symbolic link target that is read, bytes. With its zero byte it is the longest path (Linux:
/// `PATH_MAX`).
const TARGET_READ_MAX: u32 = 4095;

/// Maximum length of a symbolic link target that Linux creates or opens, bytes (Linux: `JFFS2_MAX_NAME_LEN`, in
/// `jffs2_symlink` and `jffs2_do_read_inode_internal`).
pub const TARGET_MAX: usize = 254;

/// Maximum length of a name that Linux creates or opens, bytes (Linux: `JFFS2_MAX_NAME_LEN`).
pub const NAME_MAX: usize = 254;

/// Maximum length of an extended attribute value, bytes: the limit of its length field.
const VALUE_MAX: usize = u16::MAX as usize;

/// Minimum data of a node at the end of an eraseblock (Linux: `JFFS2_MIN_DATA_LEN`).
const LEAST_DATA: u32 = 128;

/// Size of an inode node's entry in a summary, bytes.
const INODE_ENTRY: u32 = 18;

const fn seconds(seconds: u32) -> Timestamp {
    Timestamp { seconds: seconds as i64, nanoseconds: 0 }
}

/// Timestamp as stored; times before 1970 and after 2106 are clamped.
fn stored(time: Timestamp) -> u32 {
    time.seconds.clamp(0, i64::from(u32::MAX)) as u32
}

/// User or group number, which has 16 bits.
fn short_id(id: u32) -> Result<u16> {
    u16::try_from(id).map_err(|_| Error::Invalid("JFFS2 has user and group numbers up to 65535"))
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong(NAME_MAX));
    }
    if names::is_possible(name) { Ok(()) } else { Err(Error::BadName) }
}

/// Reading files, names and attributes.
impl Jffs2<dyn Mtd> {
    /// A file with its nodes, read on first use.
    pub(super) fn file(&mut self, inode: u32) -> Result<&mut File> {
        if !self.files.contains_key(&inode) {
            let Cached { refs, checked, .. } = self.nodes.get(&inode).ok_or(Error::NotFound)?.clone();
            let named =
                if inode == ROOT_INODE { Some(FileType::Directory) } else { self.names.file_type(inode) };
            let read = File::read(&mut self.flash, self.endian, (inode, &refs), named, checked);
            let (file, useless) = read.map_err(|error| super::filesystem::failed(&error))?;
            for at in useless.places {
                self.blocks.obsolete(at);
                if let Some(cached) = self.nodes.get_mut(&inode) {
                    cached.refs.retain(|node| node.at != at);
                }
            }
            self.damage.extend(useless.damage);
            if let Some(cached) = self.nodes.get_mut(&inode) {
                cached.checked = true;
            }
            if self.files.len() >= FILES_KEPT {
                self.files.clear();
            }
            self.files.insert(inode, file);
        }
        self.files.get_mut(&inode).ok_or(Error::NotFound)
    }

    /// Newest inode node. A root directory without a node is readable by everyone, as in Linux. In a read-only mount
    /// the same applies to a directory whose name is lost, or that contains names.
    fn newest(&mut self, inode: u32) -> Result<Inode> {
        if let Some(pending) = self.pending.get(&inode) {
            return Ok(*pending);
        }
        let newest = self.file(inode)?.newest().map(|node| node.inode);
        match newest {
            Some(newest) => Ok(newest),
            None if inode == ROOT_INODE || self.adopted.contains(&inode) || self.keeps_directory(inode) => {
                Ok(Inode { inode, mode: DIRECTORY_MODE, ..Inode::default() })
            }
            None => Err(Error::Damaged(format!("inode {inode}: none of its nodes is good"))),
        }
    }

    fn keeps_directory(&self, inode: u32) -> bool {
        let mut names = self.names.directory(inode).into_iter().flat_map(Directory::names);
        self.options.read_only && names.next().is_some()
    }

    pub(super) fn typed(&mut self, inode: u32) -> Result<(Inode, FileType)> {
        let newest = self.newest(inode)?;
        let unknown =
            || Error::Damaged(format!("inode {inode}: mode {:#o} names no type of file", newest.mode));
        Ok((newest, newest.file_type().ok_or_else(unknown)?))
    }

    fn directory_inode(&mut self, inode: u32) -> Result<Inode> {
        match self.typed(inode)? {
            (newest, FileType::Directory) => Ok(newest),
            _ => Err(Error::NotDirectory),
        }
    }

    fn regular(&mut self, inode: u32) -> Result<Inode> {
        match self.typed(inode)? {
            (newest, FileType::Regular) => Ok(newest),
            (_, FileType::Directory) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    fn links(&self, inode: u32, of_type: FileType) -> u32 {
        if of_type != FileType::Directory {
            return self.names.links(inode);
        }
        let names = self.names.directory(inode).into_iter().flat_map(Directory::names);
        let below = names.filter(|(_, named)| file_type(named.dirent_type) == Some(FileType::Directory));
        let own = if inode == ROOT_INODE { ROOT_LINKS } else { 2 };
        own.saturating_add(u32::try_from(below.count()).unwrap_or(u32::MAX))
    }

    /// Time of the last change of a directory's names, if later than its newest inode node.
    fn changed(&mut self, directory: u32) -> Result<Option<u32>> {
        let version = self.files.get(&directory).map_or(0, File::version);
        // For a root directory without an inode node, Linux generates the attributes, with times of zero.
        if version == 0 && !self.pending.contains_key(&directory) {
            return Ok(None);
        }
        let changed = self.names.directory(directory).and_then(Directory::changed);
        let Some(changed) = changed.filter(|changed| changed.version > version) else { return Ok(None) };
        // Zero means that the time is unknown: Linux's garbage collector writes 0 if mtime and ctime differ.
        if changed.time.is_some() {
            return Ok(changed.time.filter(|time| *time != 0));
        }
        let mut bytes = [0; Dirent::SIZE];
        self.read_flash(changed.at, &mut bytes)?;
        let time = Dirent::parse(&bytes, self.endian).ok().map(|dirent| dirent.mctime_s);
        Ok(time.filter(|time| *time != 0))
    }

    fn read_flash(&mut self, at: u32, buf: &mut [u8]) -> Result<()> {
        self.flash.read(u64::from(at), buf).map_err(|error| super::filesystem::failed(&error))
    }

    /// Data of the newest node: a symbolic link target or a device number.
    fn attached(&mut self, inode: u32) -> Result<Vec<u8>> {
        let Some(newest) = self.file(inode)?.newest().copied() else { return Ok(Vec::new()) };
        let data = file::data(&mut self.flash, &newest).map_err(|error| super::filesystem::failed(&error))?;
        data.map_err(|fault| self.note(fault.at(u64::from(newest.at))))
    }

    /// Records damage found while reading.
    fn note(&mut self, damage: Damage) -> Error {
        if !self.damage.contains(&damage) {
            self.damage.push(damage.clone());
        }
        damage.into()
    }

    /// Reads bytes inside the size of a file.
    pub(super) fn read_bytes(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file(inode)?;
        let Some(file) = self.files.get_mut(&inode) else { return Err(Error::NotFound) };
        let read = file.read_at(&mut self.flash, offset, buf);
        match read.map_err(|error| super::filesystem::failed(&error))? {
            Ok(()) => Ok(()),
            Err(damage) => Err(self.note(damage)),
        }
    }

    /// CPU work since the mount.
    pub fn work(&self) -> Work {
        self.compressor.work().and(self.flash.decompressor.work())
    }

    /// Size and free space, as in Linux's `statfs`.
    pub fn space(&self) -> Space {
        let totals = self.blocks.totals();
        let reserved = u64::from(self.blocks.reserved_for_writing()) * u64::from(self.blocks.erase_bytes);
        let blocks =
            (totals.free + totals.dirty + totals.to_erase).saturating_sub(reserved) / BLOCK_BYTES as u64;
        let size = self.flash.mtd.geometry().size_bytes / BLOCK_BYTES as u64;
        Space { blocks: size, free_blocks: blocks, available_blocks: blocks }
    }

    /// Number of free eraseblocks, and number that every change needs, even the deletion of a file. `None` if enough
    /// are free or can be freed.
    ///
    /// # Errors
    /// Flash failures.
    pub fn missing_eraseblocks(&mut self) -> Result<Option<(u32, u32)>> {
        let needed = self.blocks.reserved_for_deletion();
        if self.blocks.totals().ready < needed {
            self.check_all()?;
        }
        let totals = self.blocks.totals();
        let possible = (totals.free + totals.dirty + totals.to_erase) / u64::from(self.blocks.erase_bytes);
        // Moving live nodes needs space to write them.
        let is_full = totals.ready == 0 && self.blocks.open.is_none();
        let is_stuck = is_full || totals.ready < needed && possible <= u64::from(needed);
        Ok(is_stuck.then_some((totals.ready, needed)))
    }

    pub(super) fn set_time(&mut self, time: Timestamp) {
        self.time = stored(time);
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.options.read_only || self.failure.is_some()
    }

    pub(super) const fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    pub(super) fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        let (newest, of_type) = self.typed(inode)?;
        let device = match of_type {
            FileType::BlockDevice | FileType::CharacterDevice => {
                device_number(&self.attached(inode)?, self.endian)
            }
            _ => None,
        };
        let size = match of_type {
            FileType::Regular | FileType::Symlink => u64::from(newest.file_bytes),
            _ => 0,
        };
        let changed = if of_type == FileType::Directory { self.changed(inode)? } else { None };
        let time = |own: u32| seconds(changed.unwrap_or(own));
        Ok(Attributes {
            inode,
            file_type: of_type,
            mode: newest.mode & 0o177_777,
            links: self.links(inode, of_type),
            uid: u32::from(newest.uid),
            gid: u32::from(newest.gid),
            size,
            atime: seconds(newest.atime_s),
            mtime: time(newest.mtime_s),
            ctime: time(newest.ctime_s),
            device,
            flags: FileFlags::default(),
            compression: Compression::None,
            xattr_count: u32::try_from(self.xattrs.names(inode).count()).unwrap_or(u32::MAX),
        })
    }

    pub(super) fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        self.directory_inode(directory)?;
        self.names.get(directory, name).map(|named| named.inode).ok_or(Error::NotFound)
    }

    pub(super) fn read_dir(
        &mut self,
        directory: u32,
        after: Option<&DirEntry>,
        max: usize,
    ) -> Result<Vec<DirEntry>> {
        self.directory_inode(directory)?;
        let names = self.names.directory(directory).into_iter().flat_map(Directory::names);
        let rest = names.skip_while(|(name, _)| after.is_some_and(|after| *name <= after.name.as_slice()));
        let entries: Vec<_> = rest.take(max).map(|(name, named)| (name.to_vec(), named)).collect();
        let first = after.map_or(1, |after| after.position + 1);
        let entry = |(position, (name, named)): (u64, (Vec<u8>, Named))| {
            // Linux also takes the type from the dirent until the file is opened.
            let of_type = file_type(named.dirent_type);
            let of_type = of_type.or_else(|| Some(self.typed(named.inode).ok()?.1));
            let file_type = of_type.unwrap_or(FileType::Regular);
            DirEntry { name, inode: named.inode, file_type, encrypted: false, position }
        };
        Ok((first..).zip(entries).map(entry).collect())
    }

    pub(super) fn read(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let newest = self.regular(inode)?;
        let rest = u64::from(newest.file_bytes).saturating_sub(offset);
        let len = buf.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        self.read_bytes(inode, offset, &mut buf[..len])?;
        Ok(len)
    }

    pub(super) fn read_link(&mut self, inode: u32) -> Result<Vec<u8>> {
        let (newest, of_type) = self.typed(inode)?;
        if of_type != FileType::Symlink {
            return Err(Error::Invalid("not a symbolic link"));
        }
        if newest.file_len > TARGET_READ_MAX {
            return Err(Error::Damaged(format!("inode {inode}: a target of {} bytes", newest.file_len)));
        }
        self.attached(inode)
    }

    pub(super) fn list_xattrs(&self, inode: u32) -> Vec<Vec<u8>> {
        self.xattrs.names(inode).map(<[u8]>::to_vec).collect()
    }

    pub(super) fn get_xattr(&self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        let value = self.xattrs.value(inode, name, self.endian).ok_or(Error::NotFound)?;
        value.map_err(|fault| Error::Damaged(format!("an ACL is invalid: {fault}")))
    }

    pub(super) fn data_blocks(&mut self, inode: u32, block: u32, max: usize) -> Result<Vec<u32>> {
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
                // A file has less than 4 GiB, so the block number fits.
                blocks.push(number as u32);
                next = number + 1;
            }
        }
        Ok(blocks)
    }

    /// Ranges of a regular file up to its size that no node covers, not even a hole. Linux leaves none.
    ///
    /// # Errors
    /// The file does not exist or is damaged; flash failures.
    pub fn gaps(&mut self, inode: u32) -> Result<Vec<Range<u64>>> {
        let size = self.attributes(inode)?.size;
        Ok(self.file(inode)?.gaps(size))
    }

    pub(super) fn inodes(&self) -> Vec<u32> {
        self.nodes.keys().copied().collect()
    }
}

/// Writing nodes.
impl Jffs2<dyn Mtd> {
    fn next_version(&mut self, inode: u32) -> Result<u32> {
        let cached = self.nodes.get_mut(&inode).ok_or(Error::NotFound)?;
        cached.highest = cached
            .highest
            .checked_add(1)
            .ok_or(Error::Invalid("the versions of the file's nodes are used up: a repair renumbers them"))?;
        Ok(cached.highest)
    }

    /// Writes an inode node and adds it to the file. Version, length and compressor of `data` are set here.
    fn write_inode(&mut self, fields: &Inode, compressor: Compressor, data: &[u8]) -> Result<()> {
        let inode = fields.inode;
        // The file's existing nodes must be loaded before the new node is added.
        self.file(inode)?;
        let version = self.next_version(inode)?;
        let fields = Inode { version, compressor, data_len: data.len() as u32, ..*fields };
        let mut node = vec![0; Inode::SIZE + data.len()];
        fields.emit(data, self.endian, &mut node);
        let len = node.len() as u32;
        let at =
            self.write_node(&node, Owner::Inode(inode), Entry::Inode { inode, version, offset: 0, len })?;
        // The other CRCs are needed only on flash; the data CRC is also needed in memory, to verify later reads.
        let fields = Inode { data_crc: floatgate_media::crc::jffs2(data), ..fields };
        if let Some(cached) = self.nodes.get_mut(&inode) {
            cached.refs.push(NodeRef { version, at });
        }
        self.pending.remove(&inode);
        let covered = self.file(inode)?.add(FileNode::new(at, fields));
        for at in covered {
            self.obsolete(at)?;
            if let Some(cached) = self.nodes.get_mut(&inode) {
                cached.refs.retain(|node| node.at != at);
            }
        }
        Ok(())
    }

    /// Writes an inode node with new attributes. A file with attached data gets it again.
    fn write_attributes(&mut self, fields: &Inode) -> Result<()> {
        let data = match fields.file_type() {
            Some(FileType::Symlink | FileType::BlockDevice | FileType::CharacterDevice) => {
                self.attached(fields.inode)?
            }
            _ => Vec::new(),
        };
        let len = data.len() as u32;
        self.write_inode(&Inode { offset: 0, file_len: len, ..*fields }, Compressor::None, &data)
    }

    /// Writes data of a regular file, in nodes that do not cross pages and fit into eraseblocks. `fields` contains the
    /// attributes; by default the current ones.
    pub(super) fn write_data(
        &mut self,
        inode: u32,
        offset: u64,
        data: &[u8],
        fields: Option<&Inode>,
    ) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let page = BLOCK_BYTES - (at % BLOCK_BYTES as u64) as usize;
            let fields = match fields {
                Some(fields) => *fields,
                None => self.newest(inode)?,
            };
            let room = self.room(Inode::SIZE as u32 + LEAST_DATA, INODE_ENTRY) / NODE_ALIGN * NODE_ALIGN;
            let room = (room as usize).saturating_sub(Inode::SIZE);
            let rest = &data[done..data.len().min(done + page)];
            let (compressor, stored, len) = self.compressed(rest, room);
            // A file has less than 4 GiB. Until its last node is written, the stored size covers only the data written
            // so far: beyond it, older nodes may hold data from before a truncation.
            let file_bytes = if done + len < data.len() {
                self.newest(inode)?.file_bytes.max((at + len as u64) as u32).min(fields.file_bytes)
            } else {
                fields.file_bytes
            };
            let place = Inode { offset: at as u32, file_len: len as u32, ..fields };
            let fields = Inode { file_bytes, wanted_compressor: 0, ..place };
            self.write_inode(&fields, compressor, &stored)?;
            done += len;
        }
        Ok(())
    }

    /// Compresses as much of the data as fits into `room` bytes, if compression makes it shorter. Returns the
    /// compressor, the stored data, and the number of file bytes.
    fn compressed(&mut self, data: &[u8], room: usize) -> (Compressor, Vec<u8>, usize) {
        let mut out = Vec::new();
        let mut len = data.len();
        // Data that does not fit is compressed again with fewer bytes.
        while len > room {
            for compressor in self.options.compressors.clone() {
                if super::compress::compress(&mut self.compressor, compressor, &data[..len], &mut out)
                    && out.len() <= room
                {
                    return (compressor, out, len);
                }
            }
            len = room.max(len / 2).min(len - 1);
        }
        for compressor in self.options.compressors.clone() {
            if super::compress::compress(&mut self.compressor, compressor, &data[..len], &mut out) {
                return (compressor, out, len);
            }
        }
        (Compressor::None, data[..len].to_vec(), len)
    }

    /// Writes a dirent node and adds it to the directory. Inode number 0 removes the name.
    pub(super) fn write_dirent(
        &mut self,
        parent: u32,
        name: &[u8],
        (inode, of_type): (u32, u8),
    ) -> Result<()> {
        let time = self.time;
        self.write_dirent_at(parent, name, (inode, of_type), time)
    }

    fn write_dirent_at(
        &mut self,
        parent: u32,
        name: &[u8],
        (inode, of_type): (u32, u8),
        time: u32,
    ) -> Result<()> {
        let version = self.next_version(parent)?;
        let dirent =
            Dirent { parent, version, inode, mctime_s: time, dirent_type: of_type, ..Dirent::default() };
        let node = DirentNode { dirent, name };
        let mut bytes = vec![0; node.size()];
        node.emit(self.endian, &mut bytes);
        let entry = Entry::Dirent {
            parent,
            version,
            inode,
            dirent_type: of_type,
            offset: 0,
            len: bytes.len() as u32,
            name,
        };
        let at = self.write_node(&bytes, Owner::Dirent(parent), entry)?;
        let named = Named::new(version, inode, of_type, u64::from(at));
        if let Some(before) = self.names.put(parent, name, named, time) {
            self.obsolete(before)?;
        }
        Ok(())
    }

    /// Marks a replaced node as obsolete, also on flash where nodes are marked. The newer node is already on flash.
    pub(super) fn obsolete(&mut self, at: u32) -> Result<()> {
        let was_live = self.blocks.obsolete(at);
        if was_live && self.options.marks_obsolete && self.flash.clears_bits() {
            self.flash.mark_obsolete(u64::from(at), self.endian).map_err(|error| self.fail(&error))?;
        }
        Ok(())
    }

    /// Deletes an inode that has no name and is not open, with all its nodes.
    fn release(&mut self, inode: u32) -> Result<()> {
        if self.open.contains_key(&inode) || self.names.links(inode) > 0 || inode == ROOT_INODE {
            return Ok(());
        }
        let cached = self.nodes.remove(&inode).unwrap_or_default();
        let mut gone: Vec<u32> = cached.refs.iter().map(|node| node.at).collect();
        if let Some(file) = self.files.remove(&inode) {
            gone.extend(file.places());
        }
        self.pending.remove(&inode);
        self.filling.remove(&inode);
        gone.extend(self.names.remove_directory(inode));
        let nodes = &self.nodes;
        if self.xattrs.knows(inode) {
            gone.extend(self.xattrs.forget(|inode| nodes.contains_key(&inode)));
        }
        for at in gone {
            self.obsolete(at)?;
        }
        Ok(())
    }
}
