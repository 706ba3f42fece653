//! Garbage collection: moves the live nodes of an eraseblock, so that it can be erased.

use super::blocks::{Owner, RawNodeRef, State};
use super::{Jffs2, NodeRef};
use crate::fs::{Error, FileType, Result};
use floatgate_media::jffs2::{Body, DirentNode, Endian, Entry, Header, Inode, NodeType, XattrNode, Xref};
use floatgate_mtd::Mtd;
use std::collections::BTreeMap;
use std::ops::Bound;

/// State of the garbage collector.
#[derive(Clone, Debug, Default)]
pub(super) struct Collector {
    /// Eraseblock being collected, and the flash offset up to which its nodes were moved.
    block: Option<(u32, u32)>,
    /// Highest inode that was checked.
    checked: Option<u32>,
    /// Positions of replaced nodes found by the mount's scan.
    superseded: Vec<u32>,
    /// Eraseblocks that must be emptied and erased before the first write.
    unsettled: Vec<u32>,
    /// Eraseblocks whose last page must be rewritten before the first write.
    unsettled_ends: Vec<u32>,
    /// Positions of node copies in these eraseblocks, by the position of the live node.
    copies: BTreeMap<u32, u32>,
}

/// True for an inode, dirent or xattr node with good CRCs.
fn is_good(bytes: &[u8], endian: Endian) -> bool {
    let Ok(header) = Header::parse(bytes, endian) else { return false };
    let Some(node) = bytes.get(..header.len as usize) else { return false };
    !header.obsolete && Body::parse(&header, node, endian).is_ok_and(|body| body.is_content())
}

impl Collector {
    pub(super) fn new(
        (superseded, copies): (Vec<u32>, BTreeMap<u32, u32>),
        (unsettled, unsettled_ends): (Vec<u32>, Vec<u32>),
    ) -> Self {
        Self { superseded, unsettled, unsettled_ends, copies, ..Self::default() }
    }

    pub(super) fn take_superseded(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.superseded)
    }

    /// Records that an eraseblock was emptied or erased.
    pub(super) fn emptied(&mut self, block: u32) {
        self.unsettled.retain(|other| *other != block);
    }
}

impl Jffs2<dyn Mtd> {
    /// Checks the CRCs of the next unchecked inode; false if all are checked. Linux's garbage collector does this
    /// first, in the background; nothing can be collected before.
    ///
    /// # Errors
    /// Flash failures.
    pub fn check_next(&mut self) -> Result<bool> {
        let from = self.collector.checked.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.nodes.range((from, Bound::Unbounded)).find(|(_, cached)| !cached.checked);
        let Some((&inode, _)) = next else {
            self.collector.checked = Some(u32::MAX);
            return Ok(false);
        };
        self.collector.checked = Some(inode);
        self.file(inode).map(drop)?;
        Ok(true)
    }

    /// Checks all inodes. Only afterwards are nodes that newer data replaced known to be dirty.
    ///
    /// # Errors
    /// Flash failures.
    pub(super) fn check_all(&mut self) -> Result<()> {
        while self.check_next()? {}
        Ok(())
    }

    /// Erases eraseblocks without live nodes while few are erased. The next mount needs free space to begin, but knows
    /// which eraseblocks are dirty only after reading all files.
    ///
    /// # Errors
    /// Flash failures.
    pub(super) fn leave_free(&mut self) -> Result<()> {
        while !self.is_read_only() && self.blocks.are_few_erased() {
            let Some(block) = self.blocks.take_used_to_erase() else { break };
            self.erase_block(block)?;
        }
        Ok(())
    }

    /// Moves one live node out of an eraseblock, or chooses the next eraseblock; true when an eraseblock is finished
    /// (Linux: `jffs2_garbage_collect_pass`).
    ///
    /// # Errors
    /// [`Error::NoSpace`] if nothing can be collected; flash failures.
    pub(super) fn collect(&mut self) -> Result<bool> {
        let (block, from) = match self.collector.block {
            Some((block, from)) if self.blocks.get(block).state == State::Full => (block, from),
            // The eraseblock has no live node left, so it already waits to be erased.
            Some(_) => {
                self.collector.block = None;
                return Ok(true);
            }
            None => {
                let block = self.blocks.choose_to_collect().ok_or(Error::NoSpace)?;
                (block, self.blocks.start(block))
            }
        };
        let Some(node) = self.blocks.next_live(block, from) else {
            self.collector.block = None;
            return Ok(true);
        };
        self.collector.block = Some((block, node.at));
        self.renew(node)?;
        Ok(false)
    }

    /// Empties and erases the eraseblocks that were being written or erased when the last mount ended. After a power
    /// loss, their last page or all pages may return different data on the next read. Linux continues to use them. An
    /// image file always reads the same. There, undamaged eraseblocks wait until space is needed, because their
    /// obsolete nodes are the history of files.
    ///
    /// # Errors
    /// No eraseblock is free; flash failures.
    pub(super) fn empty_unsettled(&mut self) -> Result<()> {
        if !self.collector.unsettled.is_empty() && self.blocks.totals().ready == 0 {
            self.check_all()?;
        }
        while let Some(block) = self.next_unsettled() {
            let mut from = self.blocks.start(block);
            while let Some(node) = self.blocks.next_live(block, from) {
                from = node.at;
                let bytes = self.read_or_copy(node)?;
                self.move_node(node, &bytes)?;
            }
            if self.blocks.take_to_erase(block) {
                self.erase_block(block)?;
            }
            self.collector.emptied(block);
        }
        let geometry = self.flash.mtd.geometry();
        let unit = geometry.write_bytes.max(geometry.buffer_bytes).min(geometry.erase_bytes);
        while let Some(&block) = self.collector.unsettled_ends.last() {
            let end = self.blocks.start(block) + (self.blocks.erase_bytes - unit);
            for node in self.blocks.beyond(end) {
                let mut bytes = vec![0; node.len as usize];
                self.flash.read(u64::from(node.at), &mut bytes).map_err(|error| self.fail(&error))?;
                self.move_node(node, &bytes)?;
            }
            self.collector.unsettled_ends.pop();
        }
        Ok(())
    }

    /// Reads a node, or its copy if the node is bad. The later copy is live, and its eraseblock is emptied first: if
    /// power was lost while it was erased, it may read differently than during the scan.
    fn read_or_copy(&mut self, node: RawNodeRef) -> Result<Vec<u8>> {
        let mut bytes = vec![0; node.len as usize];
        let copy = self.collector.copies.get(&node.at).copied();
        for at in std::iter::once(node.at).chain(copy) {
            self.flash.read(u64::from(at), &mut bytes).map_err(|error| self.fail(&error))?;
            if is_good(&bytes, self.endian) {
                break;
            }
        }
        Ok(bytes)
    }

    fn next_unsettled(&self) -> Option<u32> {
        let may_wait = self.options.stable && self.blocks.totals().ready > self.blocks.reserved_for_writing();
        let is_damaged = |block: u32| {
            let start = u64::from(self.blocks.start(block));
            let end = start + u64::from(self.blocks.erase_bytes);
            self.damage.iter().any(|damage| (start..end).contains(&damage.at))
        };
        self.collector.unsettled.iter().copied().rev().find(|&block| !may_wait || is_damaged(block))
    }

    /// Writes the information of a node to a new position.
    fn renew(&mut self, node: RawNodeRef) -> Result<()> {
        let mut bytes = vec![0; node.len as usize];
        self.flash.read(u64::from(node.at), &mut bytes).map_err(|error| self.fail(&error))?;
        match node.owner {
            Owner::Inode(inode) => self.renew_inode(inode, node, &bytes),
            Owner::Dirent(parent) => self.renew_dirent(parent, node, &bytes),
            Owner::Xattr(_) | Owner::Xref(_) => self.move_node(node, &bytes),
        }
    }

    /// Rewrites the live parts of a partly obsolete inode node as new nodes, merged to whole pages where data is
    /// adjacent.
    fn renew_inode(&mut self, inode: u32, node: RawNodeRef, bytes: &[u8]) -> Result<()> {
        let Some(found) = self.file(inode)?.node_at(node.at) else {
            self.obsolete(node.at)?;
            return Ok(());
        };
        let file_type = found.inode.file_type();
        if found.is_hole() || found.is_whole() || file_type != Some(FileType::Regular) {
            return self.move_node(node, bytes);
        }
        let Some(piece) = self.file(inode)?.first_piece_of(&found) else {
            // The node has no live data. It is kept because it defines the attributes.
            return self.move_node(node, bytes);
        };
        let (start, end) = self.file(inode)?.grown(piece, crate::fs::BLOCK_BYTES as u64);
        let mut data = vec![0; (end - start) as usize];
        match self.read_bytes(inode, start, &mut data) {
            Ok(()) => self.write_data(inode, start, &data, None),
            Err(error) if error.is_damage() => self.move_node(node, bytes),
            Err(error) => Err(error),
        }
    }

    /// Rewrites a dirent node. A deletion dirent is dropped when no older node of the name is left.
    fn renew_dirent(&mut self, parent: u32, node: RawNodeRef, bytes: &[u8]) -> Result<()> {
        let parsed = DirentNode::parse(bytes, self.endian).ok();
        let known = parsed.and_then(|dirent| Some((dirent.name, self.names.entry(parent, dirent.name)?)));
        let Some((name, named)) = known.filter(|(_, named)| named.at == node.at) else {
            self.obsolete(node.at)?;
            return Ok(());
        };
        let start = node.at - node.at % self.blocks.erase_bytes;
        let same_block = start..start + (self.blocks.erase_bytes - 1);
        if named.inode == 0 && !self.names.has_stale(parent, name, same_block) {
            self.names.forget(parent, name);
            self.obsolete(node.at)?;
            return Ok(());
        }
        self.move_node(node, bytes)
    }

    /// Copies a node unchanged. A damaged node is dropped.
    pub(super) fn move_node(&mut self, node: RawNodeRef, bytes: &[u8]) -> Result<()> {
        let endian = self.endian;
        let Ok(header) = Header::parse(bytes, endian) else { return self.drop_node(node) };
        let Some(exact) = bytes.get(..header.len as usize) else { return self.drop_node(node) };
        let (offset, len) = (0, header.len);
        match (header.node_type, node.owner) {
            (NodeType::Inode, Owner::Inode(inode)) => {
                let Ok(fields) = Inode::parse(exact, endian) else { return self.drop_node(node) };
                let version = fields.version;
                let to = self.write_node(exact, node.owner, Entry::Inode { inode, version, offset, len })?;
                if let Some(cached) = self.nodes.get_mut(&inode) {
                    cached.refs.iter_mut().filter(|one| one.at == node.at).for_each(|one| one.at = to);
                }
                if let Some(file) = self.files.get_mut(&inode) {
                    file.moved(NodeRef { version, at: node.at }, to);
                }
            }
            (NodeType::Dirent, Owner::Dirent(parent)) => {
                let Ok(dirent) = DirentNode::parse(exact, endian) else { return self.drop_node(node) };
                let fields = dirent.dirent;
                let entry = Entry::Dirent {
                    parent,
                    version: fields.version,
                    inode: fields.inode,
                    dirent_type: fields.dirent_type,
                    offset,
                    len,
                    name: dirent.name,
                };
                let to = self.write_node(exact, node.owner, entry)?;
                self.names.moved(parent, dirent.name, to);
            }
            (NodeType::Xattr, Owner::Xattr(xid)) => {
                let Ok(xattr) = XattrNode::parse(exact, endian) else { return self.drop_node(node) };
                let entry = Entry::Xattr { xid, version: xattr.xattr.version, offset, len };
                let to = self.write_node(exact, node.owner, entry)?;
                self.xattrs.moved(xid, to);
            }
            (NodeType::Xref, Owner::Xref(inode)) => {
                if Xref::parse(exact, endian).is_err() {
                    return self.drop_node(node);
                }
                let to = self.write_node(exact, node.owner, Entry::Xref { offset })?;
                self.xattrs.moved_reference(inode, node.at, to);
            }
            _ => return self.drop_node(node),
        }
        self.obsolete(node.at)?;
        Ok(())
    }

    /// Drops a damaged node; its file or directory then lacks it.
    fn drop_node(&mut self, node: RawNodeRef) -> Result<()> {
        self.obsolete(node.at)?;
        if let Owner::Inode(inode) = node.owner {
            if let Some(cached) = self.nodes.get_mut(&inode) {
                cached.refs.retain(|one| one.at != node.at);
                cached.checked = false;
            }
            self.files.remove(&inode);
        }
        Ok(())
    }

    /// Does the work of Linux's garbage collector thread: checks inodes, erases eraseblocks and collects garbage.
    /// Garbage is collected while free eraseblocks are few and enough bytes are dirty, or while many eraseblocks are
    /// mostly dirty. Returns true if there was work.
    ///
    /// # Errors
    /// Flash failures.
    pub fn work_in_background(&mut self) -> Result<bool> {
        if self.is_read_only() {
            return Ok(false);
        }
        self.empty_unsettled()?;
        if self.check_next()? || self.erase_next()? {
            return Ok(true);
        }
        let totals = self.blocks.totals();
        let few = totals.ready < self.blocks.reserved_for_writing() + 1;
        let marks = self.options.marks_obsolete && self.flash.clears_bits();
        if few && totals.dirty > self.blocks.least_dirt() || self.blocks.many_are_very_dirty(marks) {
            self.collect()?;
            return Ok(true);
        }
        Ok(false)
    }
}
