//! What programs do with files and names.

use super::blocks::Owner;
use super::file::{self, File, FileNode};
use super::log::Purpose;
use super::names::{DIRECTORY_MODE, Directory, Named};
use super::{Cached, FILES_KEPT, Jffs2, NodeRef};
use crate::fs::{
    AttributeChanges, Attributes, BLOCK_BYTES, Compression, DirEntry, Error, FileFlags, FileType, FilledFile,
    LINK_TARGET, Name, NewFile, NewKind, Rename, Result, SetXattr, Space, Timestamp, Work,
};
use floatgate_media::jffs2::{
    Compressor, Dirent, DirentNode, Entry, Inode, NODE_ALIGN, ROOT_INODE, Xattr, XattrNode, XattrPrefix,
    Xref, device_number, dirent_type, emit_device_number, file_type,
};
use floatgate_mtd::Mtd;
use std::collections::BTreeSet;
use std::ops::Range;

/// Links that Linux shows of the root directory beside those of its subdirectories.
const ROOT_LINKS: u32 = 3;

/// Longest target of a symbolic link that is read, bytes (Linux: `PATH_MAX`).
const TARGET_READ_MAX: u32 = 4096;

/// Longest target of a symbolic link that Linux makes or opens, bytes (Linux: `JFFS2_MAX_NAME_LEN`, in `jffs2_symlink` and
/// `jffs2_do_read_inode_internal`).
pub const TARGET_MAX: usize = 254;

/// Longest name, bytes.
const NAME_MAX: usize = 254;

/// Longest value of an extended attribute, bytes, as far as the field of its length goes.
const VALUE_MAX: usize = u16::MAX as usize;

/// Least data that a node at the end of an eraseblock is made for (Linux: `JFFS2_MIN_DATA_LEN`).
const LEAST_DATA: u32 = 128;

/// Bytes that an inode node takes in a summary.
const INODE_ENTRY: u32 = 18;

const fn seconds(seconds: u32) -> Timestamp {
    Timestamp { seconds: seconds as i64, nanoseconds: 0 }
}

/// Times before 1970 and after 2106 become the nearest that a node can say.
fn stored(time: Timestamp) -> u32 {
    time.seconds.clamp(0, i64::from(u32::MAX)) as u32
}

/// User and group numbers have 16 bits.
fn short_id(id: u32) -> Result<u16> {
    u16::try_from(id).map_err(|_| Error::Invalid("JFFS2 has user and group numbers up to 65535"))
}

fn check_name(name: &[u8]) -> Result<()> {
    let is_possible =
        !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| b"/\0".contains(byte));
    if name.len() > NAME_MAX || !is_possible { Err(Error::BadName) } else { Ok(()) }
}

/// Reading.
impl Jffs2<dyn Mtd> {
    /// A file with its nodes.
    pub(super) fn file(&mut self, inode: u32) -> Result<&mut File> {
        if !self.files.contains_key(&inode) {
            let Cached { refs, checked, .. } = self.nodes.get(&inode).ok_or(Error::NotFound)?.clone();
            let read = File::read(&mut self.flash, self.endian, (inode, &refs), checked);
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

    /// The newest node of a file. A root directory without any is one that everybody can read, as in Linux; so is one whose name is lost.
    fn newest(&mut self, inode: u32) -> Result<Inode> {
        if let Some(pending) = self.pending.get(&inode) {
            return Ok(*pending);
        }
        let newest = self.file(inode)?.newest().map(|node| node.inode);
        match newest {
            Some(newest) => Ok(newest),
            None if inode == ROOT_INODE || self.adopted.contains(&inode) => {
                Ok(Inode { inode, mode: DIRECTORY_MODE, ..Inode::default() })
            }
            None => Err(Error::Damaged(format!("inode {inode}: none of its nodes is good"))),
        }
    }

    fn typed(&mut self, inode: u32) -> Result<(Inode, FileType)> {
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

    /// Time of the last change of a directory's names, if that is later than its newest inode node.
    fn changed(&mut self, directory: u32) -> Result<Option<u32>> {
        let version = self.files.get(&directory).map_or(0, File::version);
        // Linux makes up a root directory without a node of its own, and its times are zero.
        if version == 0 && !self.pending.contains_key(&directory) {
            return Ok(None);
        }
        let changed = self.names.directory(directory).and_then(Directory::changed);
        let Some(changed) = changed.filter(|changed| changed.version > version) else { return Ok(None) };
        // A time of zero says nothing: Linux's garbage collector writes it where mtime and ctime differ.
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

    /// The data of the newest node: a target, a device number.
    fn attached(&mut self, inode: u32) -> Result<Vec<u8>> {
        let Some(newest) = self.file(inode)?.newest().copied() else { return Ok(Vec::new()) };
        let data = file::data(&mut self.flash, &newest).map_err(|error| super::filesystem::failed(&error))?;
        data.map_err(|fault| fault.at(u64::from(newest.at)).into())
    }

    /// Bytes of a file that are inside its size.
    pub(super) fn read_bytes(&mut self, inode: u32, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file(inode)?;
        let Some(file) = self.files.get_mut(&inode) else { return Err(Error::NotFound) };
        let read = file.read_at(&mut self.flash, offset, buf);
        match read.map_err(|error| super::filesystem::failed(&error))? {
            Ok(()) => Ok(()),
            Err(damage) => {
                if !self.damage.contains(&damage) {
                    self.damage.push(damage.clone());
                }
                Err(damage.into())
            }
        }
    }

    /// Work of the CPU since the mount.
    pub fn work(&self) -> Work {
        self.compressor.work().and(self.flash.decompressor.work())
    }

    /// Sizes, as Linux's `statfs` has them.
    pub fn space(&self) -> Space {
        let totals = self.blocks.totals();
        let reserved = u64::from(self.blocks.reserved_for_writing()) * u64::from(self.blocks.erase_bytes);
        let blocks =
            (totals.free + totals.dirty + totals.to_erase).saturating_sub(reserved) / BLOCK_BYTES as u64;
        let size = self.flash.mtd.geometry().size_bytes / BLOCK_BYTES as u64;
        Space { blocks: size, free_blocks: blocks, available_blocks: blocks }
    }

    /// Eraseblocks that are free, and those that any change takes, even the removal of a file, if there are too few and no more can be made
    /// free.
    pub fn missing_eraseblocks(&self) -> Option<(u32, u32)> {
        let totals = self.blocks.totals();
        let needed = self.blocks.reserved_for_deletion();
        let possible = (totals.free + totals.dirty + totals.to_erase) / u64::from(self.blocks.erase_bytes);
        (totals.ready < needed && possible <= u64::from(needed)).then_some((totals.ready, needed))
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
            xattr_count: u32::try_from(self.xattrs.of(inode).count()).unwrap_or(u32::MAX),
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
            // Linux believes the dirent, too, as long as nobody opens the file.
            let of_type = file_type(named.dirent_type).unwrap_or(FileType::Regular);
            DirEntry { name, inode: named.inode, file_type: of_type, encrypted: false, position }
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
        self.xattrs.of(inode).map(|(name, _)| name.to_vec()).collect()
    }

    pub(super) fn get_xattr(&self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        let found = self.xattrs.of(inode).find(|(other, _)| *other == name);
        found.map(|(_, value)| value.to_vec()).ok_or(Error::NotFound)
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
                // A file has less than 4 GiB.
                blocks.push(number as u32);
                next = number + 1;
            }
        }
        Ok(blocks)
    }

    /// Bytes of a regular file that no node has, not even one of a hole, up to the size that its newest node tells. Linux leaves
    /// none.
    ///
    /// # Errors
    /// There is no such file; it is damaged; the flash fails.
    pub fn gaps(&mut self, inode: u32) -> Result<Vec<Range<u64>>> {
        let size = self.attributes(inode)?.size;
        Ok(self.file(inode)?.gaps(size))
    }

    pub(super) fn inodes(&self) -> Vec<u32> {
        self.nodes.keys().copied().collect()
    }
}

/// Nodes.
impl Jffs2<dyn Mtd> {
    fn next_version(&mut self, inode: u32) -> Result<u32> {
        let cached = self.nodes.get_mut(&inode).ok_or(Error::NotFound)?;
        cached.highest =
            cached.highest.checked_add(1).ok_or(Error::Invalid("the inode's versions are used up"))?;
        Ok(cached.highest)
    }

    /// Writes an inode node and takes it in; version, length and compressor of `data` are set here.
    fn write_inode(&mut self, fields: &Inode, compressor: Compressor, data: &[u8]) -> Result<()> {
        let inode = fields.inode;
        // Its nodes are known before the new one is.
        self.file(inode)?;
        let version = self.next_version(inode)?;
        let fields = Inode { version, compressor, data_len: data.len() as u32, ..*fields };
        let mut node = vec![0; Inode::SIZE + data.len()];
        fields.emit(data, self.endian, &mut node);
        let len = node.len() as u32;
        let at =
            self.write_node(&node, Owner::Inode(inode), Entry::Inode { inode, version, offset: 0, len })?;
        // The CRCs are on flash; only the one of the data is asked for again.
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

    /// Writes a node that says nothing but attributes; of what has data attached, with these.
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

    /// Writes data of a regular file, in nodes that do not cross pages and fit into eraseblocks. `fields` says the attributes; those of now
    /// unless given.
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
            // A file has less than 4 GiB.
            let fields = Inode { offset: at as u32, file_len: len as u32, wanted_compressor: 0, ..fields };
            self.write_inode(&fields, compressor, &stored)?;
            done += len;
        }
        Ok(())
    }

    /// As much of some data as there is room for, compressed if that makes them shorter, and how many bytes these are.
    fn compressed(&mut self, data: &[u8], room: usize) -> (Compressor, Vec<u8>, usize) {
        let mut out = Vec::new();
        let mut len = data.len();
        // What does not fit is tried again with less.
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

    /// Writes a dirent node and takes it in: an inode number of 0 removes the name.
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

    /// Says that something newer has taken a node's place, on flash as well where nodes are marked. The newer one is on flash already.
    pub(super) fn obsolete(&mut self, at: u32) -> Result<()> {
        let was_live = self.blocks.obsolete(at);
        if was_live && self.options.marks_obsolete && self.flash.clears_bits() {
            self.flash.mark_obsolete(u64::from(at), self.endian).map_err(|error| self.fail(&error))?;
        }
        Ok(())
    }

    /// An inode that nobody has any more goes, with all its nodes.
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

/// Changes.
impl Jffs2<dyn Mtd> {
    fn begin(&mut self, purpose: Purpose) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.empty_unsettled()?;
        self.reserve(purpose)
    }

    fn new_inode(&mut self, file: &NewFile<'_>) -> Result<Inode> {
        let fields = Inode {
            inode: self
                .highest_inode
                .checked_add(1)
                .ok_or(Error::Invalid("the inode numbers are used up"))?,
            mode: file.kind.mode() | file.permissions & 0o7777,
            uid: short_id(file.uid)?,
            gid: short_id(file.gid)?,
            atime_s: self.time,
            mtime_s: self.time,
            ctime_s: self.time,
            ..Inode::default()
        };
        Ok(fields)
    }

    /// What a new file has attached.
    fn attachment(&self, kind: &NewKind<'_>) -> Result<Vec<u8>> {
        Ok(match kind {
            NewKind::Symlink(target) if target.is_empty() || target.len() > TARGET_MAX => {
                return Err(Error::TooLarge { what: LINK_TARGET, len: target.len() as u64 });
            }
            NewKind::Symlink(target) => target.to_vec(),
            NewKind::BlockDevice(number) | NewKind::CharacterDevice(number) => {
                let bytes = emit_device_number(*number, self.endian);
                bytes.ok_or(Error::Invalid("a device number with too many bits"))?.to_vec()
            }
            _ => Vec::new(),
        })
    }

    fn make(&mut self, fields: &Inode, attached: &[u8]) -> Result<()> {
        let len = attached.len() as u32;
        let is_link = fields.file_type() == Some(FileType::Symlink);
        let file_bytes = if is_link { len } else { fields.file_bytes };
        self.highest_inode = fields.inode;
        self.nodes.insert(fields.inode, Cached { checked: true, ..Cached::default() });
        self.files.insert(fields.inode, File::default());
        let written =
            self.write_inode(&Inode { file_bytes, file_len: len, ..*fields }, Compressor::None, attached);
        if written.is_err() {
            self.release(fields.inode)?;
        }
        written
    }

    fn check_new_name(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        self.directory_inode(directory)?;
        check_name(name)?;
        if self.names.get(directory, name).is_some() { Err(Error::Exists) } else { Ok(()) }
    }

    pub(super) fn create(&mut self, directory: u32, name: &[u8], file: &NewFile<'_>) -> Result<u32> {
        self.begin(Purpose::Change)?;
        self.check_new_name(directory, name)?;
        let fields = self.new_inode(file)?;
        let attached = self.attachment(&file.kind)?;
        self.make(&fields, &attached)?;
        let named = self
            .reserve(Purpose::Change)
            .and_then(|()| self.write_dirent(directory, name, (fields.inode, dirent_type(fields.mode))));
        if let Err(error) = named {
            self.release(fields.inode)?;
            return Err(error);
        }
        Ok(fields.inode)
    }

    pub(super) fn create_unnamed(&mut self, directory: u32, file: &NewFile<'_>) -> Result<u32> {
        self.begin(Purpose::Change)?;
        self.directory_inode(directory)?;
        let fields = self.new_inode(file)?;
        self.open.insert(fields.inode, 1);
        if let Err(error) = self.make(&fields, &[]) {
            self.open.remove(&fields.inode);
            return Err(error);
        }
        Ok(fields.inode)
    }

    pub(super) fn link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Change)?;
        let (newest, of_type) = self.typed(inode)?;
        if of_type == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        self.check_new_name(directory, name)?;
        self.write_dirent(directory, name, (inode, dirent_type(newest.mode)))
    }

    fn named(&mut self, directory: u32, name: &[u8]) -> Result<(u32, FileType)> {
        let inode = self.lookup(directory, name)?;
        // Also what cannot be read can be removed.
        let of_type = self.typed(inode).map_or(FileType::Regular, |(_, of_type)| of_type);
        Ok((inode, of_type))
    }

    pub(super) fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Deletion)?;
        let (inode, of_type) = self.named(directory, name)?;
        if of_type == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        self.write_dirent(directory, name, (0, 0))?;
        self.release(inode)?;
        Ok(())
    }

    fn is_empty(&self, directory: u32) -> bool {
        self.names.directory(directory).is_none_or(Directory::is_empty)
    }

    pub(super) fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Deletion)?;
        let (inode, of_type) = self.named(directory, name)?;
        if of_type != FileType::Directory {
            return Err(Error::NotDirectory);
        }
        if !self.is_empty(inode) {
            return Err(Error::NotEmpty);
        }
        self.write_dirent(directory, name, (0, 0))?;
        self.release(inode)?;
        Ok(())
    }

    /// True when a directory is another one, or above it.
    fn is_above(&self, directory: u32, below: u32) -> bool {
        let (mut seen, mut ahead) = (BTreeSet::new(), vec![directory]);
        while let Some(next) = ahead.pop() {
            if seen.insert(next) {
                let names = self.names.directory(next).into_iter().flat_map(Directory::names);
                let inside =
                    names.filter(|(_, named)| file_type(named.dirent_type) == Some(FileType::Directory));
                ahead.extend(inside.map(|(_, named)| named.inode));
            }
        }
        seen.contains(&below)
    }

    /// The new name is written before the old one is removed (as in Linux): a power cut in between leaves both.
    pub(super) fn rename(&mut self, from: Name<'_>, to: Name<'_>, how: Rename) -> Result<()> {
        if matches!(how, Rename::Exchange | Rename::Whiteout) {
            return Err(Error::Unsupported("JFFS2 neither exchanges names nor leaves whiteouts"));
        }
        self.begin(Purpose::Change)?;
        let (inode, of_type) = self.named(from.directory, from.name)?;
        self.directory_inode(to.directory)?;
        check_name(to.name)?;
        let is_directory = of_type == FileType::Directory;
        if is_directory && self.is_above(inode, to.directory) {
            return Err(Error::Invalid("a directory cannot be moved below itself"));
        }
        let target = self.names.get(to.directory, to.name).map(|named| named.inode);
        if let Some(target) = target {
            if how == Rename::KeepTarget {
                return Err(Error::Exists);
            }
            if target == inode {
                return Ok(());
            }
            match (is_directory, self.named(to.directory, to.name)?.1 == FileType::Directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !self.is_empty(target) => return Err(Error::NotEmpty),
                _ => {}
            }
        }
        let mode = self.newest(inode).map_or(0o100_000, |newest| newest.mode);
        self.write_dirent(to.directory, to.name, (inode, dirent_type(mode)))?;
        if let Some(target) = target {
            self.release(target)?;
        }
        self.reserve(Purpose::Deletion)?;
        self.write_dirent(from.directory, from.name, (0, 0))
    }

    pub(super) fn write(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        self.begin(Purpose::Change)?;
        let newest = self.regular(inode)?;
        let end = offset + data.len() as u64;
        if end > u64::from(u32::MAX) {
            return Err(Error::TooLarge { what: "file", len: end });
        }
        let now = Inode { mtime_s: self.time, ctime_s: self.time, ..newest };
        if data.is_empty() {
            return Ok(());
        }
        if offset > u64::from(newest.file_bytes) {
            self.write_hole(&now, offset as u32)?;
        }
        // As page by page from Linux's page cache.
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let page_end = (at / BLOCK_BYTES as u64 + 1) * BLOCK_BYTES as u64;
            let len = ((page_end - at) as usize).min(data.len() - done);
            self.write_page(inode, at, &data[done..done + len], &now)?;
            done += len;
        }
        Ok(())
    }

    /// Writes data inside a page. Whoever writes up to its end writes all of it, which makes fewer nodes of a file that grows in small
    /// pieces (Linux: `jffs2_write_end`).
    fn write_page(&mut self, inode: u32, at: u64, data: &[u8], now: &Inode) -> Result<()> {
        self.reserve(Purpose::Change)?;
        let size = self.newest(inode)?.file_bytes;
        let end = at + data.len() as u64;
        let ends_page = end.is_multiple_of(BLOCK_BYTES as u64);
        let start = if ends_page {
            at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
        } else {
            at - at % u64::from(NODE_ALIGN)
        };
        let mut bytes = vec![0; (end - start) as usize];
        let before = (at - start) as usize;
        if before > 0 {
            self.read_bytes(inode, start, &mut bytes[..before])?;
        }
        bytes[before..].copy_from_slice(data);
        let fields = Inode { file_bytes: size.max(end as u32), ..*now };
        self.write_data(inode, start, &bytes, Some(&fields))
    }

    /// Lets a file grow by a hole.
    fn write_hole(&mut self, now: &Inode, size: u32) -> Result<()> {
        let from = now.file_bytes;
        let fields = Inode { file_bytes: size, offset: from, file_len: size - from, ..*now };
        self.write_inode(&fields, Compressor::Zero, &[])
    }

    pub(super) fn set_attributes(&mut self, inode: u32, changes: &AttributeChanges) -> Result<()> {
        let grows = changes.size.is_some();
        self.begin(if grows { Purpose::Change } else { Purpose::Deletion })?;
        let (newest, of_type) = self.typed(inode)?;
        if changes.flags.is_some_and(|flags| flags != FileFlags::default()) || changes.compression.is_some() {
            return Err(Error::Unsupported("JFFS2 has no flags"));
        }
        let mut now = newest;
        now.mode = changes.permissions.map_or(now.mode, |bits| now.mode & !0o7777 | bits & 0o7777);
        now.uid = changes.uid.map_or(Ok(now.uid), short_id)?;
        now.gid = changes.gid.map_or(Ok(now.gid), short_id)?;
        now.atime_s = changes.atime.map_or(now.atime_s, stored);
        let is_resized = changes.size.is_some();
        let changed = if of_type == FileType::Directory { self.changed(inode)? } else { None };
        let mtime = changed.unwrap_or(if is_resized { self.time } else { now.mtime_s });
        now.mtime_s = changes.mtime.map_or(mtime, stored);
        now.ctime_s = changes.ctime.map_or(self.time, stored);
        let Some(size) = changes.size else { return self.write_attributes(&now) };
        if of_type != FileType::Regular {
            let error = if of_type == FileType::Directory {
                Error::IsDirectory
            } else {
                Error::Invalid("not a regular file")
            };
            return Err(error);
        }
        let size = u32::try_from(size).map_err(|_| Error::TooLarge { what: "file", len: size })?;
        if size > now.file_bytes {
            return self.write_hole(&now, size);
        }
        self.write_attributes(&Inode { file_bytes: size, ..now })
    }

    pub(super) fn set_xattr(&mut self, inode: u32, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.begin(Purpose::Change)?;
        self.typed(inode)?;
        let unknown =
            Error::Unsupported("JFFS2 has attributes in user., trusted., security. and of POSIX ACLs");
        let (prefix, rest) = XattrPrefix::of(name).ok_or(unknown)?;
        let before = self.xattrs.find(inode, name);
        match (how, before) {
            (SetXattr::Create, Some(_)) => return Err(Error::Exists),
            (SetXattr::Replace, None) => return Err(Error::NotFound),
            _ => {}
        }
        if rest.len() > usize::from(u8::MAX) {
            return Err(Error::TooLarge { what: "name of an attribute", len: rest.len() as u64 });
        }
        let most = VALUE_MAX.min(self.blocks.erase_bytes as usize / 2);
        if value.len() > most {
            return Err(Error::TooLarge { what: "value of an attribute", len: value.len() as u64 });
        }
        let (xid, sequence) = self.xattrs.next();
        let xattr = Xattr { xid, version: 1, prefix, ..Xattr::default() };
        let node = XattrNode { xattr, name: rest, value };
        let mut bytes = vec![0; node.size()];
        node.emit(self.endian, &mut bytes);
        let entry = Entry::Xattr { xid, version: 1, offset: 0, len: bytes.len() as u32 };
        let at = self.write_node(&bytes, Owner::Xattr(xid), entry)?;
        self.xattrs.add(&node, at);
        self.reserve(Purpose::Change)?;
        self.write_xref(&Xref { inode, xid, sequence, ..Xref::default() })?;
        if let Some(before) = before {
            self.reserve(Purpose::Deletion)?;
            self.take_xattr(inode, before)?;
        }
        Ok(())
    }

    fn write_xref(&mut self, xref: &Xref) -> Result<()> {
        let mut bytes = [0; Xref::SIZE];
        xref.emit(self.endian, &mut bytes);
        let at = self.write_node(&bytes, Owner::Xref(xref.inode), Entry::Xref { offset: 0 })?;
        if let Some(before) = self.xattrs.refer(xref, at) {
            self.obsolete(before)?;
        }
        Ok(())
    }

    /// Takes an attribute from an inode.
    pub(super) fn take_xattr(&mut self, inode: u32, xid: u32) -> Result<()> {
        let sequence = self.xattrs.next().1 | Xref::DELETED;
        self.write_xref(&Xref { inode, xid, sequence, ..Xref::default() })?;
        for at in self.xattrs.forget_unused() {
            self.obsolete(at)?;
        }
        Ok(())
    }

    pub(super) fn remove_xattr(&mut self, inode: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Deletion)?;
        let xid = self.xattrs.find(inode, name).ok_or(Error::NotFound)?;
        self.take_xattr(inode, xid)
    }

    pub(super) fn open(&mut self, inode: u32) -> Result<()> {
        self.newest(inode)?;
        *self.open.entry(inode).or_default() += 1;
        Ok(())
    }

    pub(super) fn close(&mut self, inode: u32) -> Result<()> {
        if let Some(count) = self.open.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&inode);
                if self.nodes.contains_key(&inode) {
                    self.release(inode)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        if self.is_read_only() {
            return self.failure.clone().map_or(Ok(()), Err);
        }
        while let Some((&inode, &end)) = self.filling.first_key_value() {
            self.filling.remove(&inode);
            let fields = self.newest(inode)?;
            self.fill_hole(&fields, end..fields.file_bytes)?;
        }
        while let Some((&inode, &fields)) = self.pending.first_key_value() {
            self.reserve(Purpose::Change)?;
            self.pending.remove(&inode);
            self.write_attributes(&fields)?;
        }
        self.flush()
    }

    /// A file's first node is written with its data, so that no node is of no use afterwards; a file without data gets its node with the next
    /// [`sync`](Self::sync).
    pub(super) fn fill(&mut self, directory: u32, name: &[u8], file: &FilledFile<'_>) -> Result<u32> {
        self.begin(Purpose::Change)?;
        self.check_new_name(directory, name)?;
        let parent = self.attributes(directory)?;
        let times = Inode {
            atime_s: stored(file.atime),
            mtime_s: stored(file.mtime),
            ctime_s: stored(file.ctime),
            ..self.new_inode(&file.file)?
        };
        let attached = self.attachment(&file.file.kind)?;
        let inode = times.inode;
        if matches!(file.file.kind, NewKind::Regular) {
            let size =
                u32::try_from(file.size).map_err(|_| Error::TooLarge { what: "file", len: file.size })?;
            self.highest_inode = inode;
            self.nodes.insert(inode, Cached { checked: true, ..Cached::default() });
            self.files.insert(inode, File::default());
            self.pending.insert(inode, Inode { file_bytes: size, ..times });
            if size > 0 {
                self.filling.insert(inode, 0);
            }
        } else {
            self.make(&times, &attached)?;
        }
        self.reserve(Purpose::Change)?;
        let of_type = dirent_type(times.mode);
        self.write_dirent_at(directory, name, (inode, of_type), stored(parent.mtime))?;
        for (name, value) in file.xattrs {
            self.set_xattr(inode, name, value, SetXattr::Any)?;
        }
        Ok(inode)
    }

    pub(super) fn fill_link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        self.begin(Purpose::Change)?;
        let (newest, of_type) = self.typed(inode)?;
        if of_type == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        self.check_new_name(directory, name)?;
        let time = stored(self.attributes(directory)?.mtime);
        self.write_dirent_at(directory, name, (inode, dirent_type(newest.mode)), time)
    }

    pub(super) fn fill_block(&mut self, inode: u32, offset: u64, data: &[u8]) -> Result<()> {
        self.begin(Purpose::Change)?;
        let fields = self.newest(inode)?;
        let (offset_bytes, size) = (offset as u32, fields.file_bytes);
        if let Some(end) = self.filling.get(&inode).copied() {
            self.fill_hole(&fields, end..offset_bytes)?;
            let end = end.max(offset_bytes.saturating_add(data.len() as u32));
            if end < size {
                self.filling.insert(inode, end);
            } else {
                self.filling.remove(&inode);
            }
        }
        self.write_data(inode, offset, data, Some(&fields))
    }

    /// Writes a node for bytes without data of a file that is being put in, as Linux does, so that each byte of a file has a node.
    fn fill_hole(&mut self, newest: &Inode, bytes: Range<u32>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.reserve(Purpose::Change)?;
        let fields = Inode { offset: bytes.start, file_len: bytes.end - bytes.start, ..*newest };
        self.write_inode(&fields, Compressor::Zero, &[])
    }

    /// What is believed and not so, in words.
    pub(super) fn check(&mut self) -> Result<Vec<String>> {
        let mut wrong = self.blocks.check();
        let all: Vec<u32> = self.nodes.keys().copied().collect();
        for inode in all {
            let mut places: Vec<u32> = self.file(inode)?.places().collect();
            let mut refs: Vec<u32> = self
                .nodes
                .get(&inode)
                .map_or(Vec::new(), |cached| cached.refs.iter().map(|node| node.at).collect());
            places.sort_unstable();
            refs.sort_unstable();
            if places != refs {
                wrong.push(format!(
                    "inode {inode}: nodes at {refs:x?} are remembered, {places:x?} hold something"
                ));
            }
            wrong.extend(
                places
                    .iter()
                    .filter(|at| !self.blocks.is_live(**at))
                    .map(|at| format!("inode {inode}: its node at {at:#x} is counted as dirt")),
            );
        }
        for (parent, name, named) in self.names.all() {
            let mut bytes = vec![0; Dirent::SIZE + name.len()];
            self.read_flash(named.at, &mut bytes)?;
            let is_there = DirentNode::parse(&bytes, self.endian).is_ok_and(|node| {
                let fields = node.dirent;
                node.name == name && (fields.parent, fields.version) == (parent, named.version)
            });
            if !is_there || !self.blocks.is_live(named.at) {
                let name = name.escape_ascii();
                wrong.push(format!(
                    "name {name} in {parent}: its node is not at {:#x}, or counted as dirt",
                    named.at
                ));
            }
        }
        Ok(wrong)
    }
}
