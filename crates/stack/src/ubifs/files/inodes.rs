//! Inode cache.
//!
//! An inode that is newer than the journal is dirty and stays in memory. An operation that writes inodes at once
//! changes copies, which replace the cached inodes after the write. So any clean inode can be evicted at any time, and
//! a failed operation changes nothing.

use std::collections::BTreeMap;

use floatgate_media::file::{DeviceNumber, FileType};
use floatgate_media::ubifs::{Inode, InodeNode, Key, KeyType, NodeType};

use super::super::error::{Error, Result};
use super::super::journal::Change;
use super::super::layout::Head;
use super::super::space::{BudgetRequest, Cost};
use super::Ubifs;
use crate::fs::Attributes;
use crate::volume::Volume;
use floatgate_media::ubifs::Node;

/// A cached inode (Linux: `struct ubifs_inode`).
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub(super) inode: Inode,
    /// Data attached to the inode: symbolic link target, device number or attribute value.
    pub(super) data: Vec<u8>,
    /// Budget for writing it, if it is dirty.
    pub(super) dirty: Option<Cost>,
    /// Size in the journal.
    pub(super) synced_size: u64,
    /// Open count.
    pub(super) open: u32,
}

/// The inode cache.
#[derive(Clone, Debug)]
pub(super) struct Inodes {
    map: BTreeMap<u32, Cached>,
    /// Number of inodes to keep besides those in use.
    limit: usize,
    /// Number of inodes at which unused ones are evicted.
    full_at: usize,
}

impl Inodes {
    /// Creates a cache for about `limit` inodes besides those in use.
    pub(super) const fn new(limit: usize) -> Self {
        Self { map: BTreeMap::new(), limit, full_at: limit }
    }

    pub(super) fn get(&self, inode: u32) -> Option<&Cached> {
        self.map.get(&inode)
    }

    pub(super) fn get_mut(&mut self, inode: u32) -> Option<&mut Cached> {
        self.map.get_mut(&inode)
    }

    /// Adds or replaces an inode; unused ones may be evicted.
    pub(super) fn insert(&mut self, cached: Cached) {
        if self.map.len() >= self.full_at {
            self.map.retain(|_, cached| cached.is_in_use());
            // The limit is at least twice the number of inodes in use, so that eviction costs a constant time per
            // insertion.
            self.full_at = self.map.len() + self.limit.max(self.map.len());
        }
        self.map.insert(cached.inode.key.inum(), cached);
    }

    pub(super) fn remove(&mut self, inode: u32) -> Option<Cached> {
        self.map.remove(&inode)
    }

    pub(super) fn dirty(&self) -> Vec<u32> {
        self.map.iter().filter(|(_, cached)| cached.dirty.is_some()).map(|(&inode, _)| inode).collect()
    }
}

/// Budget for writing changed inodes with `data_bytes` attached.
pub(super) fn changed_inodes(inodes: u32, data_bytes: usize) -> BudgetRequest {
    BudgetRequest {
        changed_inodes: inodes,
        changed_inode_bytes: u32::try_from(data_bytes.next_multiple_of(8)).unwrap_or(u32::MAX),
        ..BudgetRequest::default()
    }
}

impl Ubifs<dyn Volume> {
    /// Attributes of an inode.
    ///
    /// # Errors
    /// The inode does not exist; damage; volume failures.
    pub fn attributes(&mut self, inode: u32) -> Result<Attributes> {
        let cached = self.inode(inode)?;
        let file_type = file_type(&cached.inode)?;
        Ok(attributes_of(&cached.inode, file_type, &cached.data))
    }

    /// Numbers of all inodes in the index in order, including those of extended attributes and those without a name.
    ///
    /// # Errors
    /// A damaged index, volume failures.
    pub fn inodes(&mut self) -> Result<Vec<u32>> {
        let mut leaves = Vec::new();
        let (from, to) = (Key::from_bits(0), Key::from_bits(u64::MAX));
        self.core.tnc.leaves(&mut self.core.io, from, to, usize::MAX, &mut leaves)?;
        let inodes = leaves.iter().filter(|(key, _)| key.key_type() == KeyType::Inode);
        Ok(inodes.map(|(key, _)| key.inum()).collect())
    }

    /// An inode, read if it is not cached.
    pub(super) fn inode(&mut self, inode: u32) -> Result<&Cached> {
        self.cached(inode).map(|cached| &*cached)
    }

    fn cached(&mut self, inode: u32) -> Result<&mut Cached> {
        if self.inodes.get(inode).is_none() {
            let cached = self.read_inode(inode)?;
            self.inodes.insert(cached);
        }
        self.inodes.get_mut(inode).ok_or(Error::NotFound)
    }

    fn read_inode(&mut self, inode: u32) -> Result<Cached> {
        let place = self.core.tnc.find(&mut self.core.io, Key::inode(inode))?.ok_or(Error::NotFound)?;
        let damaged = |source| Error::node(place.lnum, place.offset, source);
        let Self { core, node, .. } = self;
        let key = Key::inode(inode);
        let frame = core.tnc.read_leaf(&mut core.io, key, place, Some(NodeType::Inode), node)?;
        let node = frame.node().map_err(damaged)?;
        let Node::Inode(node) = node else { return Err(Error::NotFound) };
        node.check().map_err(damaged)?;
        if node.inode.key.inum() != inode {
            return Err(Error::corrupt(place.lnum, place.offset, "another inode than the index says"));
        }
        let mut read = node.inode;
        if let Some(&size) = self.core.sizes.get(&inode) {
            read.size = size;
        }
        Ok(Cached { inode: read, data: node.data.to_vec(), dirty: None, synced_size: read.size, open: 0 })
    }

    /// The inode of a directory.
    pub(super) fn directory(&mut self, inode: u32) -> Result<&Cached> {
        let cached = self.inode(inode)?;
        if cached.inode.file_type() == Some(FileType::Directory) {
            Ok(cached)
        } else {
            Err(Error::NotDirectory)
        }
    }

    /// Marks an inode as dirty, with a budget for writing it.
    pub(super) fn mark_dirty(&mut self, inode: u32) -> Result<&mut Cached> {
        let cached = self.inode(inode)?;
        if cached.dirty.is_none() {
            let request = changed_inodes(1, cached.data.len());
            let cost = self.acquire(&request)?;
            self.cached(inode)?.dirty = Some(cost);
        }
        self.cached(inode)
    }

    /// Marks an inode as dirty before the first commit of a new filesystem, which needs no budget.
    pub(super) fn mark_filled(&mut self, inode: u32) -> Result<&mut Cached> {
        let cached = self.cached(inode)?;
        cached.dirty.get_or_insert_default();
        Ok(cached)
    }

    /// Marks an inode as clean after it was written to the journal.
    pub(super) fn mark_clean(&mut self, inode: u32) {
        let Some(cached) = self.inodes.get_mut(inode) else { return };
        cached.synced_size = cached.inode.size;
        if let Some(cost) = cached.dirty.take() {
            self.core.space.release(cost);
        }
    }

    /// Caches an inode that was written to the journal.
    pub(super) fn written(&mut self, cached: Cached) {
        let inode = cached.inode.key.inum();
        self.mark_clean(inode);
        self.inodes.insert(Cached { dirty: None, synced_size: cached.inode.size, ..cached });
    }

    /// Writes a dirty inode to the journal.
    pub(super) fn write_inode(&mut self, inode: u32) -> Result<()> {
        let Some(cached) = self.inodes.get(inode).filter(|cached| cached.dirty.is_some()) else {
            return Ok(());
        };
        let change = Change::Inode(cached.node());
        self.core.apply(Head::Base, &[change])?;
        self.mark_clean(inode);
        Ok(())
    }

    /// Opens an inode, which then exists even without a name.
    ///
    /// # Errors
    /// The inode does not exist; damage; volume failures.
    pub fn open(&mut self, inode: u32) -> Result<()> {
        self.cached(inode)?.open += 1;
        Ok(())
    }

    /// Closes an inode; if it has no name and was opened only once, it is deleted.
    ///
    /// # Errors
    /// Damage; volume failures.
    pub fn close(&mut self, inode: u32) -> Result<()> {
        let Some(cached) = self.inodes.get_mut(inode) else { return Ok(()) };
        cached.open = cached.open.saturating_sub(1);
        if cached.open == 0 && cached.inode.links == 0 && !self.is_read_only() {
            return self.delete_inode(inode);
        }
        Ok(())
    }

    /// Removes an inode without a name from the index.
    pub(super) fn delete_inode(&mut self, inode: u32) -> Result<()> {
        self.drop_pages(inode, 0);
        self.mark_clean(inode);
        match self.inodes.remove(inode) {
            Some(cached) => self.core.delete_inode(&cached.inode),
            None => Ok(()),
        }
    }
}

impl Cached {
    /// True if it must stay in memory: it is open, dirty, or about to be deleted.
    const fn is_in_use(&self) -> bool {
        self.dirty.is_some() || self.open > 0 || self.inode.links == 0
    }

    /// Inode node to write; nothing is attached to a deleted inode.
    pub(super) fn node(&self) -> InodeNode<'_> {
        let data = if self.inode.links == 0 { &[][..] } else { &self.data };
        InodeNode { inode: self.inode, data }
    }
}

/// File type of an inode; [`InodeNode::check`] made sure that it is valid.
pub(super) fn file_type(inode: &Inode) -> Result<FileType> {
    inode.file_type().ok_or(Error::Invalid("an inode without a type"))
}

/// Attributes of an inode with its attached data.
pub(in crate::ubifs) fn attributes_of(inode: &Inode, file_type: FileType, data: &[u8]) -> Attributes {
    let is_device = matches!(file_type, FileType::BlockDevice | FileType::CharacterDevice);
    Attributes {
        inode: inode.key.inum(),
        file_type,
        mode: inode.mode,
        links: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        atime: inode.atime(),
        mtime: inode.mtime(),
        ctime: inode.ctime(),
        device: if is_device { DeviceNumber::parse(data) } else { None },
        flags: inode.flags,
        compression: inode.compression,
        xattr_count: inode.xattr_count,
    }
}
