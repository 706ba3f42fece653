//! Names: looking up, listing, creating and deleting files.

use floatgate_media::file::{Compression, FileFlags, FileType};
use floatgate_media::ubifs::{Entry, EntryNode, Frame, Inode, Key, KeyType, MAX_NAME_BYTES, Node};

use super::super::error::{Error, Result, narrow};
use super::super::journal::Change;
use super::super::layout::{Head, NodePos};
use super::super::space::BudgetRequest;
use super::Ubifs;
use super::attributes::set_ctime;
use super::inodes::{Cached, changed_inodes, file_type};
use crate::fs::{DirEntry, NewFile, NewKind};
use crate::volume::Volume;

/// Maximum length of a symbolic link target, B: a block without the terminating zero of Linux.
const MAX_TARGET_BYTES: usize = 4095;

/// Bytes that an entry adds to its directory's size.
pub(super) const fn entry_bytes(name_len: usize) -> u64 {
    (Entry::SIZE + name_len + 1).next_multiple_of(8) as u64
}

/// Returns an error for a name that is too long.
pub(super) const fn check_length(name: &[u8]) -> Result<()> {
    if name.len() > MAX_NAME_BYTES { Err(Error::NameTooLong(MAX_NAME_BYTES)) } else { Ok(()) }
}

/// Returns an error for an invalid name.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    let special = matches!(name, b"" | b"." | b"..") || name.iter().any(|&byte| byte == 0 || byte == b'/');
    if special { Err(Error::BadName) } else { check_length(name) }
}

impl Ubifs<dyn Volume> {
    /// Inode of a name.
    ///
    /// # Errors
    /// [`Error::NotFound`], not a directory, damage, volume failures.
    pub fn lookup(&mut self, directory: u32, name: &[u8]) -> Result<u32> {
        self.directory(directory)?;
        if name.is_empty() {
            return Err(Error::BadName);
        }
        check_length(name)?;
        self.find_entry(directory, name)?.map(|entry| entry.inode).ok_or(Error::NotFound)
    }

    pub(super) fn find_entry(&mut self, directory: u32, name: &[u8]) -> Result<Option<DirEntry>> {
        let key = self.entry_key(directory, name)?;
        let found = self.core.tnc.find_name(&mut self.core.io, key, name, &mut self.node)?;
        found.map(|place| self.parse_entry(place)).transpose()
    }

    /// Parses the entry in the node that was just read from this position.
    pub(super) fn parse_entry(&self, place: NodePos) -> Result<DirEntry> {
        let damaged = |source| Error::node(place.lnum, place.offset, source);
        let frame = Frame::parse(&self.node).map_err(damaged)?;
        let Node::Entry(node) = frame.node().map_err(damaged)? else {
            return Err(Error::corrupt(place.lnum, place.offset, "not an entry"));
        };
        node.check().map_err(damaged)?;
        let (inode, file_type) = (narrow("inode number", node.entry.inode)?, node.entry.file_type);
        let (name, key) = (node.name.to_vec(), node.entry.key);
        Ok(DirEntry { name, inode, file_type, encrypted: false, position: key.bits() })
    }

    pub(super) fn entry_key(&self, directory: u32, name: &[u8]) -> Result<Key> {
        Ok(Key::entry(directory, self.name_hash(name)?))
    }

    pub(super) fn name_hash(&self, name: &[u8]) -> Result<u32> {
        let hash = self.core.io.layout().superblock.key_hash.hash(name);
        hash.ok_or(Error::Unsupported("an unknown hash of names"))
    }

    /// Entries of a directory that follow `after`, or from the first one, at most `max`, in the order of their hashes.
    /// Encrypted names are returned as stored.
    ///
    /// # Errors
    /// Not a directory, damage, volume failures.
    pub fn read_dir(
        &mut self,
        directory: u32,
        after: Option<&DirEntry>,
        max: usize,
    ) -> Result<Vec<DirEntry>> {
        let encrypted = self.directory(directory)?.inode.flags.contains(FileFlags::ENCRYPTED);
        let mut entries = self.list(directory, KeyType::Entry, after, max)?;
        entries.iter_mut().for_each(|entry| entry.encrypted = encrypted);
        Ok(entries)
    }

    /// Entries of an inode of one type: file names or attribute names.
    pub(super) fn list(
        &mut self,
        inode: u32,
        key_type: KeyType,
        after: Option<&DirEntry>,
        max: usize,
    ) -> Result<Vec<DirEntry>> {
        let mut entries: Vec<DirEntry> = Vec::new();
        while entries.len() < max {
            let last = entries.last().or(after);
            let key = last.map_or(Key::lowest(inode, key_type), |entry| Key::from_bits(entry.position));
            let name = last.map(|entry| entry.name.as_slice());
            let next = self.core.tnc.next_name(&mut self.core.io, key, name, &mut self.node)?;
            let Some((key, place)) =
                next.filter(|(key, _)| key.inum() == inode && key.key_type() == key_type)
            else {
                break;
            };
            entries.push(DirEntry { position: key.bits(), ..self.parse_entry(place)? });
        }
        Ok(entries)
    }

    /// Creates a file of any type and returns its inode.
    ///
    /// # Errors
    /// The name exists or is invalid, not a directory, a target that is too long, no space; volume failures.
    pub fn create(&mut self, directory: u32, name: &[u8], file: &NewFile<'_>) -> Result<u32> {
        check_name(name)?;
        self.changeable_directory(directory)?;
        if self.find_entry(directory, name)?.is_some() {
            return Err(Error::Exists);
        }
        let cached = self.new_inode(directory, file)?;
        let cost = self.acquire(&new_file_budget(cached.data.len()))?;
        let (inode, file_type) = (cached.inode.key.inum(), file_type(&cached.inode)?);
        let mut parent = self.touched(directory)?;
        parent.inode.size += entry_bytes(name.len());
        parent.inode.links += u32::from(file_type == FileType::Directory);
        let sync = is_dirsync(&parent);
        let outcome = self.write_names(&[(directory, name, Some((inode, file_type)))], vec![cached, parent]);
        self.end_budget(cost, outcome)?;
        self.sync_if(sync)?;
        Ok(inode)
    }

    /// Creates a regular file without a name (`O_TMPFILE`), opened once; [`close`](Self::close) deletes it unless it
    /// was linked.
    ///
    /// # Errors
    /// Not a directory, no space; volume failures.
    pub fn create_unnamed(&mut self, directory: u32, file: &NewFile<'_>) -> Result<u32> {
        self.changeable_directory(directory)?;
        let mut cached = self.new_inode(directory, file)?;
        let cost = self.acquire(&new_file_budget(0))?;
        cached.inode.links = 0;
        cached.open = 1;
        let inode = cached.inode.key.inum();
        let outcome = self.core.apply(Head::Base, &[Change::Inode(cached.node())]);
        self.end_budget(cost, outcome)?;
        self.inodes.insert(cached);
        self.sync_if(false)?;
        Ok(inode)
    }

    /// Checks that a directory exists and may be changed, also by adding names.
    pub(super) fn changeable_directory(&mut self, directory: u32) -> Result<()> {
        self.reducible_directory(directory)?;
        if self.directory(directory)?.inode.flags.contains(FileFlags::ENCRYPTED) {
            return Err(Error::Unsupported("the directory is encrypted"));
        }
        Ok(())
    }

    /// Checks that a directory exists and names may be removed; as in Linux, this needs no encryption key.
    fn reducible_directory(&mut self, directory: u32) -> Result<()> {
        self.require_writable()?;
        let cached = self.directory(directory)?;
        if cached.inode.links == 0 {
            return Err(Error::NotFound);
        }
        if cached.inode.flags.contains(FileFlags::IMMUTABLE) {
            return Err(Error::NotPermitted);
        }
        Ok(())
    }

    pub(super) fn new_inode(&mut self, directory: u32, file: &NewFile<'_>) -> Result<Cached> {
        let data = attached(&file.kind)?;
        let parent = self.directory(directory)?.inode;
        let (inode, created_sqnum) = self.core.new_inode()?;
        let default = self.behaviour.compression.unwrap_or(self.core.io.layout().superblock.compression);
        let is_directory = matches!(file.kind, NewKind::Directory);
        let is_regular = matches!(file.kind, NewKind::Regular);
        let time = self.time;
        let inode = Inode {
            key: Key::inode(inode),
            created_sqnum,
            size: match &file.kind {
                NewKind::Directory => Inode::SIZE as u64,
                // The size of a device file is the length of its device number, as in Linux.
                NewKind::Symlink(_) | NewKind::BlockDevice(_) | NewKind::CharacterDevice(_) => {
                    data.len() as u64
                }
                _ => 0,
            },
            atime_s: time.seconds,
            ctime_s: time.seconds,
            mtime_s: time.seconds,
            atime_ns: time.nanoseconds,
            ctime_ns: time.nanoseconds,
            mtime_ns: time.nanoseconds,
            links: 1 + u32::from(is_directory),
            uid: file.uid,
            gid: file.gid,
            mode: file.kind.mode() | file.permissions & 0o7777,
            flags: inherited(parent.flags, is_directory),
            data_len: narrow("symlink target", data.len())?,
            compression: if is_regular { default } else { Compression::None },
            ..Inode::default()
        };
        Ok(Cached { inode, data, dirty: None, synced_size: inode.size, open: 0 })
    }

    /// Creates another link to a file.
    ///
    /// # Errors
    /// A directory, an existing name, too many links, no space; volume failures.
    pub fn link(&mut self, inode: u32, directory: u32, name: &[u8]) -> Result<()> {
        check_name(name)?;
        self.changeable_directory(directory)?;
        let cached = self.inode(inode)?;
        let file_type = file_type(&cached.inode)?;
        if file_type == FileType::Directory {
            return Err(Error::IsDirectory);
        }
        if cached.inode.flags.contains(FileFlags::IMMUTABLE) || cached.inode.flags.contains(FileFlags::APPEND)
        {
            return Err(Error::NotPermitted);
        }
        let data = cached.data.len();
        if cached.inode.links == u32::MAX {
            return Err(Error::TooManyLinks);
        }
        if self.find_entry(directory, name)?.is_some() {
            return Err(Error::Exists);
        }
        let cost = self.acquire(&BudgetRequest { new_entries: 1, ..changed_inodes(2, data) })?;
        let mut linked = self.inode(inode)?.clone();
        linked.inode.links += 1;
        set_ctime(&mut linked.inode, self.time);
        let mut parent = self.touched(directory)?;
        parent.inode.size += entry_bytes(name.len());
        let sync = is_dirsync(&parent);
        let outcome = self.write_names(&[(directory, name, Some((inode, file_type)))], vec![linked, parent]);
        self.end_budget(cost, outcome)?;
        self.sync_if(sync)
    }

    /// Removes a name, and deletes the file with its last name unless it is open.
    ///
    /// # Errors
    /// [`Error::NotFound`], a directory, flags that forbid it; volume failures.
    pub fn unlink(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        self.remove(directory, name, false)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotFound`], not a directory, not empty; failures of the volume.
    pub fn remove_dir(&mut self, directory: u32, name: &[u8]) -> Result<()> {
        self.remove(directory, name, true)
    }

    fn remove(&mut self, directory: u32, name: &[u8], is_directory: bool) -> Result<()> {
        self.reducible_directory(directory)?;
        let entry = self.find_entry(directory, name)?.ok_or(Error::NotFound)?;
        self.removable(entry.inode, is_directory)?;
        let data = self.inode(entry.inode)?.data.len();
        let cost =
            self.acquire_if_possible(&BudgetRequest { changed_entries: 1, ..changed_inodes(2, data) })?;
        let removed = self.unlinked(entry.inode)?;
        let mut parent = self.touched(directory)?;
        parent.inode.size = parent.inode.size.saturating_sub(entry_bytes(name.len()));
        parent.inode.links -= u32::from(is_directory && parent.inode.links > 0);
        let sync = is_dirsync(&parent);
        let outcome = self.write_names(&[(directory, name, None)], vec![removed, parent]);
        self.end_budget(cost, outcome)?;
        self.delete_if_gone(entry.inode)?;
        self.sync_if(sync)
    }

    /// Returns an error if an inode may not lose a name.
    pub(super) fn removable(&mut self, inode: u32, is_directory: bool) -> Result<()> {
        let cached = self.inode(inode)?;
        let flags = cached.inode.flags;
        match (file_type(&cached.inode)? == FileType::Directory, is_directory) {
            (true, false) => return Err(Error::IsDirectory),
            (false, true) => return Err(Error::NotDirectory),
            _ => {}
        }
        if flags.contains(FileFlags::IMMUTABLE) || flags.contains(FileFlags::APPEND) {
            return Err(Error::NotPermitted);
        }
        if is_directory && !self.list(inode, KeyType::Entry, None, 1)?.is_empty() {
            return Err(Error::NotEmpty);
        }
        Ok(())
    }

    /// Copy of an inode with one link less, to be written. An inode without links becomes an orphan when it is written,
    /// as long as it is open.
    pub(super) fn unlinked(&mut self, inode: u32) -> Result<Cached> {
        let mut cached = self.inode(inode)?.clone();
        let is_directory = file_type(&cached.inode)? == FileType::Directory;
        cached.inode.links = if is_directory { 0 } else { cached.inode.links.saturating_sub(1) };
        set_ctime(&mut cached.inode, self.time);
        Ok(cached)
    }

    /// Deletes an inode without links, unless it is open.
    pub(super) fn delete_if_gone(&mut self, inode: u32) -> Result<()> {
        let gone = self.inodes.get(inode).is_some_and(|cached| cached.inode.links == 0 && cached.open == 0);
        if gone { self.delete_inode(inode) } else { Ok(()) }
    }

    /// Copy of a directory with new change times, to be written.
    pub(super) fn touched(&mut self, directory: u32) -> Result<Cached> {
        let time = self.time;
        let mut cached = self.directory(directory)?.clone();
        (cached.inode.mtime_s, cached.inode.mtime_ns) = (time.seconds, time.nanoseconds);
        set_ctime(&mut cached.inode, time);
        Ok(cached)
    }

    /// Writes entries and inodes as one group. An entry is a name with its inode, or `None` for a removed name.
    pub(super) fn write_names(&mut self, names: &[NameChange<'_>], inodes: Vec<Cached>) -> Result<()> {
        let mut changes = Vec::with_capacity(names.len() + inodes.len());
        for &(directory, name, inode) in names {
            let key = self.entry_key(directory, name)?;
            // In Linux, a deletion entry has no file type.
            let (inode, file_type) = inode.unwrap_or((0, FileType::Regular));
            let entry = Entry { key, inode: u64::from(inode), file_type, cookie: self.core.io.cookie() };
            changes.push(Change::Entry(EntryNode { entry, name }));
        }
        changes.extend(inodes.iter().map(|cached| Change::Inode(cached.node())));
        self.core.apply(Head::Base, &changes)?;
        inodes.into_iter().for_each(|cached| self.written(cached));
        Ok(())
    }
}

/// A name in a directory with its new inode, `None` if it is removed.
pub(super) type NameChange<'a> = (u32, &'a [u8], Option<(u32, FileType)>);

/// True if changes of a directory, or of an inode's attributes, must be synchronous.
pub(super) const fn is_dirsync(cached: &Cached) -> bool {
    let flags = cached.inode.flags;
    flags.contains(FileFlags::DIRSYNC) || flags.contains(FileFlags::SYNC)
}

/// Budget for a new file with its entry and a changed directory.
fn new_file_budget(data_bytes: usize) -> BudgetRequest {
    BudgetRequest {
        new_inodes: 1,
        new_inode_bytes: u32::try_from(data_bytes.next_multiple_of(8)).unwrap_or(u32::MAX),
        new_entries: 1,
        changed_inodes: 1,
        ..BudgetRequest::default()
    }
}

/// Data attached to a new inode.
fn attached(kind: &NewKind<'_>) -> Result<Vec<u8>> {
    match kind {
        NewKind::Symlink(b"") => Err(Error::Invalid("a symbolic link to nothing")),
        NewKind::Symlink(target) if target.len() > MAX_TARGET_BYTES => {
            Err(Error::TooLarge { what: crate::fs::LINK_TARGET, len: target.len() as u64 })
        }
        NewKind::Symlink(target) => Ok(target.to_vec()),
        NewKind::BlockDevice(device) | NewKind::CharacterDevice(device) => {
            let bytes = device.emit().ok_or(Error::Invalid("a device number with too many bits"))?;
            Ok(bytes.to_vec())
        }
        _ => Ok(Vec::new()),
    }
}

/// Flags that a new file inherits from its directory.
fn inherited(parent: FileFlags, is_directory: bool) -> FileFlags {
    let mut bits =
        parent.bits() & (FileFlags::COMPRESS.bits() | FileFlags::SYNC.bits() | FileFlags::DIRSYNC.bits());
    if !is_directory {
        bits &= !FileFlags::DIRSYNC.bits();
    }
    FileFlags::from_bits(bits)
}
