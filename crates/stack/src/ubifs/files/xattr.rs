//! Extended attributes: each is an inode with the value, and an entry of the file.

use floatgate_media::file::{Compression, FileFlags, FileType};
use floatgate_media::ubifs::{Entry, EntryNode, Inode, Key, KeyType, MAX_INODE_DATA, MAX_NAME_BYTES};

use super::super::error::{Error, Result, narrow};
use super::super::journal::Change;
use super::super::layout::Head;
use super::super::space::BudgetRequest;
use super::Ubifs;
use super::attributes::set_ctime;
use super::directory::{entry_bytes, is_dirsync};
use super::inodes::{Cached, changed_inodes};
use crate::fs::{DirEntry, SetXattr};
use crate::volume::Volume;

/// Maximum number of attributes of an inode, which keeps the list of their names below 64 KiB (Linux,
/// MAX_XATTRS_PER_INODE).
const MAX_XATTRS: u32 = 65535;

/// Maximum size of the name list, including terminating zeros, B (Linux, XATTR_LIST_MAX).
const MAX_LIST_BYTES: usize = 65536;

/// Name of the attribute with a file's encryption context (Linux, UBIFS_XATTR_NAME_ENCRYPTION_CONTEXT).
const ENCRYPTION_CONTEXT: &[u8] = b"c";

/// Mode of an attribute's inode, as in Linux.
const XATTR_MODE: u32 = 0o100_777;

/// Returns an error if an inode would have too many attributes, or a too long list of names.
pub(super) fn check_xattr_list(count: usize, names_bytes: usize) -> Result<()> {
    let list = names_bytes + count;
    if count > MAX_XATTRS as usize || list > MAX_LIST_BYTES {
        return Err(Error::TooLarge { what: "list of attributes", len: list as u64 });
    }
    Ok(())
}

/// Accounted size of a value, B. On flash it takes one byte less, but Linux counts and checks this size.
pub(super) const fn value_bytes(len: usize) -> u32 {
    (Inode::SIZE + len + 1).next_multiple_of(8) as u32
}

impl Ubifs<dyn Volume> {
    /// Names of an inode's extended attributes with prefix, in the order of their hashes.
    ///
    /// # Errors
    /// The inode does not exist, damage, volume failures.
    pub fn list_xattrs(&mut self, inode: u32) -> Result<Vec<Vec<u8>>> {
        self.inode(inode)?;
        let entries = self.list(inode, KeyType::XattrEntry, None, usize::MAX)?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    /// Value of an extended attribute.
    ///
    /// # Errors
    /// [`Error::NotFound`], damage, volume failures.
    pub fn get_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Vec<u8>> {
        self.inode(inode)?;
        let entry = self.find_xattr(inode, name)?.ok_or(Error::NotFound)?;
        let cached = self.inode(entry.inode)?;
        if !cached.inode.is_xattr() {
            return Err(Error::Invalid("an attribute's inode is a file's"));
        }
        Ok(cached.data.clone())
    }

    fn find_xattr(&mut self, inode: u32, name: &[u8]) -> Result<Option<DirEntry>> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(&0) {
            return Err(Error::BadName);
        }
        let key = self.xattr_key(inode, name)?;
        let found = self.core.tnc.find_name(&mut self.core.io, key, name, &mut self.node)?;
        found.map(|place| self.parse_entry(place)).transpose()
    }

    pub(super) fn xattr_key(&self, inode: u32, name: &[u8]) -> Result<Key> {
        Ok(Key::xattr_entry(inode, self.name_hash(name)?))
    }

    /// Sets an extended attribute; `name` includes its prefix ("user.", "trusted.", "security.").
    ///
    /// # Errors
    /// Too large, too many, the condition `how` is not met, no space; volume failures.
    pub fn set_xattr(&mut self, inode: u32, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.require_writable()?;
        if value.len() > MAX_INODE_DATA as usize {
            return Err(Error::TooLarge { what: "attribute", len: value.len() as u64 });
        }
        self.changeable_xattr(inode, name)?;
        match (self.find_xattr(inode, name)?, how) {
            (Some(_), SetXattr::Create) => Err(Error::Exists),
            (None, SetXattr::Replace) => Err(Error::NotFound),
            (Some(entry), _) => self.change_xattr(inode, entry.inode, value),
            (None, _) => self.create_xattr(inode, name, value),
        }
    }

    fn changeable_xattr(&mut self, inode: u32, name: &[u8]) -> Result<()> {
        if name == ENCRYPTION_CONTEXT {
            return Err(Error::Unsupported("changing how a file is encrypted"));
        }
        let flags = self.inode(inode)?.inode.flags;
        let fixed = flags.contains(FileFlags::IMMUTABLE) || flags.contains(FileFlags::APPEND);
        if fixed { Err(Error::NotPermitted) } else { Ok(()) }
    }

    fn create_xattr(&mut self, host: u32, name: &[u8], value: &[u8]) -> Result<()> {
        let info = self.inode(host)?.inode;
        let names = info.xattr_names_bytes as usize + name.len();
        check_xattr_list(info.xattr_count as usize + 1, names)?;
        let request = BudgetRequest {
            new_inodes: 1,
            new_inode_bytes: u32::try_from(value.len().next_multiple_of(8)).unwrap_or(u32::MAX),
            new_entries: 1,
            ..changed_inodes(1, self.inode(host)?.data.len())
        };
        let cost = self.acquire(&request)?;
        let cached = self.new_xattr_inode(&info, value)?;
        let inode = cached.inode.key.inum();
        let entry_size = narrow("entry", entry_bytes(name.len()))?;
        let (names, name_len) = (info.xattr_names_bytes, narrow("name", name.len())?);
        let mut changed = self.inode(host)?.clone();
        let owner = &mut changed.inode;
        set_ctime(owner, self.time);
        owner.xattr_count += 1;
        owner.xattr_bytes =
            owner.xattr_bytes.saturating_add(entry_size).saturating_add(value_bytes(value.len()));
        owner.xattr_names_bytes = names + name_len;
        let sync = is_dirsync(&changed);
        let outcome = self.write_xattr(Some((name, Some(inode))), cached, changed);
        self.end_budget(cost, outcome)?;
        self.sync_if(sync)
    }

    pub(super) fn new_xattr_inode(&mut self, host: &Inode, value: &[u8]) -> Result<Cached> {
        let (number, created_sqnum) = self.core.new_inode()?;
        let time = self.time;
        let inherited = host.flags.bits() & (FileFlags::COMPRESS.bits() | FileFlags::SYNC.bits());
        let len = narrow("attribute", value.len())?;
        let inode = Inode {
            key: Key::inode(number),
            created_sqnum,
            size: u64::from(len),
            atime_s: time.seconds,
            ctime_s: time.seconds,
            mtime_s: time.seconds,
            atime_ns: time.nanoseconds,
            ctime_ns: time.nanoseconds,
            mtime_ns: time.nanoseconds,
            links: 1,
            uid: host.uid,
            gid: host.gid,
            mode: XATTR_MODE,
            flags: FileFlags::from_bits(inherited | FileFlags::XATTR.bits()),
            data_len: len,
            compression: Compression::None,
            ..Inode::default()
        };
        Ok(Cached { inode, data: value.to_vec(), dirty: None, synced_size: inode.size, open: 0 })
    }

    fn change_xattr(&mut self, host: u32, inode: u32, value: &[u8]) -> Result<()> {
        let old = self.inode(inode)?.data.len();
        let host_data = self.inode(host)?.data.len();
        let request = changed_inodes(2, value.len().next_multiple_of(8) + host_data);
        let cost = self.acquire(&request)?;
        let len = narrow("attribute", value.len())?;
        let mut cached = self.inode(inode)?.clone();
        value.clone_into(&mut cached.data);
        (cached.inode.size, cached.inode.data_len) = (u64::from(len), len);
        let mut changed = self.inode(host)?.clone();
        let owner = &mut changed.inode;
        set_ctime(owner, self.time);
        owner.xattr_bytes =
            owner.xattr_bytes.saturating_sub(value_bytes(old)).saturating_add(value_bytes(value.len()));
        let sync = is_dirsync(&changed);
        let outcome = self.write_xattr(None, cached, changed);
        self.end_budget(cost, outcome)?;
        self.sync_if(sync)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`Error::NotFound`], flags that forbid it, no space; failures of the volume.
    pub fn remove_xattr(&mut self, host: u32, name: &[u8]) -> Result<()> {
        self.require_writable()?;
        self.changeable_xattr(host, name)?;
        let entry = self.find_xattr(host, name)?.ok_or(Error::NotFound)?;
        let old = self.inode(entry.inode)?.data.len();
        let request = BudgetRequest { changed_entries: 1, ..changed_inodes(2, old) };
        let cost = self.acquire(&request)?;
        let mut cached = self.inode(entry.inode)?.clone();
        cached.inode.links = 0;
        let freed = narrow("entry", entry_bytes(name.len()))? + value_bytes(old);
        let name_len = narrow("name", name.len())?;
        let mut changed = self.inode(host)?.clone();
        let owner = &mut changed.inode;
        set_ctime(owner, self.time);
        owner.xattr_count = owner.xattr_count.saturating_sub(1);
        owner.xattr_bytes = owner.xattr_bytes.saturating_sub(freed);
        owner.xattr_names_bytes = owner.xattr_names_bytes.saturating_sub(name_len);
        let sync = is_dirsync(&changed);
        let outcome = self.write_xattr(Some((name, None)), cached, changed);
        self.end_budget(cost, outcome)?;
        self.inodes.remove(entry.inode);
        self.sync_if(sync)
    }

    /// Writes an attribute's inode, its entry if it is added or removed, and the file's inode as one group. The file's
    /// inode is last, so that syncing it syncs the attribute too.
    fn write_xattr(
        &mut self,
        name: Option<(&[u8], Option<u32>)>,
        attribute: Cached,
        host: Cached,
    ) -> Result<()> {
        let mut changes = Vec::with_capacity(3);
        if let Some((name, inode)) = name {
            let key = self.xattr_key(host.inode.key.inum(), name)?;
            let entry = Entry {
                key,
                inode: u64::from(inode.unwrap_or(0)),
                file_type: FileType::Regular,
                cookie: self.core.io.cookie(),
            };
            changes.push(Change::Entry(EntryNode { entry, name }));
        }
        changes.extend([&attribute, &host].map(|cached| Change::Inode(cached.node())));
        self.core.apply(Head::Base, &changes)?;
        self.written(attribute);
        self.written(host);
        Ok(())
    }
}
