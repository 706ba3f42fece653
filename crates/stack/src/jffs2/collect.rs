//! Garbage collection: live nodes of an eraseblock are written again, until it can be erased.

use super::blocks::{Owner, Placed, State};
use super::{Jffs2, NodeRef};
use crate::fs::{Error, FileType, Result};
use floatgate_media::jffs2::{Body, DirentNode, Endian, Entry, Header, Inode, NodeType, XattrNode, Xref};
use floatgate_mtd::Mtd;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Where the collector stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Collector {
    /// The eraseblock whose nodes are moved, and the byte of the flash up to which that is done.
    block: Option<(u32, u32)>,
    /// Inodes up to this one have been checked.
    checked: Option<u32>,
    /// The findings of a scan for the mount: places of replaced nodes.
    losers: Vec<u32>,
    /// Eraseblocks to be emptied and erased before anything is written.
    unsettled: Vec<u32>,
    /// Eraseblocks whose last page is.
    unsettled_ends: Vec<u32>,
    /// Places of copies of nodes in these eraseblocks, by the place of the node that counts.
    copies: BTreeMap<u32, u32>,
}

/// True for a node of a file, name or attribute whose CRCs are right.
fn is_good(bytes: &[u8], endian: Endian) -> bool {
    let Ok(header) = Header::parse(bytes, endian) else { return false };
    let Some(node) = bytes.get(..header.len as usize) else { return false };
    !header.obsolete && Body::parse(&header, node, endian).is_ok_and(|body| body.is_content())
}

impl Collector {
    pub(super) fn new(
        (losers, copies): (Vec<u32>, BTreeMap<u32, u32>),
        (unsettled, unsettled_ends): (Vec<u32>, Vec<u32>),
    ) -> Self {
        Self { losers, unsettled, unsettled_ends, copies, ..Self::default() }
    }

    pub(super) fn take_losers(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.losers)
    }

    /// Says that an eraseblock was emptied or erased.
    pub(super) fn emptied(&mut self, block: u32) {
        self.unsettled.retain(|other| *other != block);
    }
}

impl Jffs2<dyn Mtd> {
    /// Checks the CRCs of the next inode that was not looked at since mounting; false when all were. Linux's garbage collector does
    /// this first, in the background; nothing can be collected before.
    ///
    /// # Errors
    /// Failures of the flash.
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

    /// Checks all inodes: what newer data have replaced counts as dirt only afterwards.
    ///
    /// # Errors
    /// Failures of the flash.
    pub(super) fn check_all(&mut self) -> Result<()> {
        while self.check_next()? {}
        Ok(())
    }

    /// Erases what is of no use while few eraseblocks are erased: the next mount cannot tell that it is free before it has read all
    /// files, and needs room to begin.
    ///
    /// # Errors
    /// Failures of the flash.
    pub(super) fn leave_free(&mut self) -> Result<()> {
        while !self.is_read_only() && self.blocks.are_few_erased() {
            let Some(block) = self.blocks.take_used_to_erase() else { break };
            self.erase_block(block)?;
        }
        Ok(())
    }

    /// Moves one live node out of an eraseblock, or takes the next eraseblock; true when one is done with (Linux:
    /// `jffs2_garbage_collect_pass`).
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is nothing to collect; failures of the flash.
    pub(super) fn collect(&mut self) -> Result<bool> {
        let (block, from) = match self.collector.block {
            Some((block, from)) if self.blocks.get(block).state == State::Full => (block, from),
            // Nothing is left in it: it waits to be erased.
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

    /// Empties and erases the eraseblocks that were being written or erased when the last mount ended: after a loss of power their last
    /// page, or all of them, may read otherwise the next time. Linux goes on in them. In a file nothing reads otherwise: there those without
    /// damage wait until room is needed, as what was replaced in them is the history of files.
    ///
    /// # Errors
    /// No eraseblock is free; failures of the flash.
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

    /// Reads a node, or its copy if it is not good. Of copies the later one counts, and its eraseblock is emptied first: if power went away
    /// while that was erased, it may read otherwise than it did when it was looked through.
    fn read_or_copy(&mut self, node: Placed) -> Result<Vec<u8>> {
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

    /// Writes what a node says somewhere else.
    fn renew(&mut self, node: Placed) -> Result<()> {
        let mut bytes = vec![0; node.len as usize];
        self.flash.read(u64::from(node.at), &mut bytes).map_err(|error| self.fail(&error))?;
        match node.owner {
            Owner::Inode(inode) => self.renew_inode(inode, node, &bytes),
            Owner::Dirent(parent) => self.renew_dirent(parent, node, &bytes),
            Owner::Xattr(_) | Owner::Xref(_) => self.move_node(node, &bytes),
        }
    }

    /// Pieces of a node that others cover in part are written as new nodes, of whole pages where data lie side by side.
    fn renew_inode(&mut self, inode: u32, node: Placed, bytes: &[u8]) -> Result<()> {
        let Some(found) = self.file(inode)?.node_at(node.at) else {
            self.obsolete(node.at)?;
            return Ok(());
        };
        let file_type = found.inode.file_type();
        if found.is_hole() || found.is_whole() || file_type != Some(FileType::Regular) {
            return self.move_node(node, bytes);
        }
        let Some(piece) = self.file(inode)?.first_piece_of(&found) else {
            // It only tells the attributes.
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

    /// A name that was removed is forgotten when no older node of it is left.
    fn renew_dirent(&mut self, parent: u32, node: Placed, bytes: &[u8]) -> Result<()> {
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

    /// Writes a node again as it is. One that is damaged is dropped.
    pub(super) fn move_node(&mut self, node: Placed, bytes: &[u8]) -> Result<()> {
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

    /// Gives up a node that is damaged; what it was of is found to be without it.
    fn drop_node(&mut self, node: Placed) -> Result<()> {
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

    /// Does what Linux's garbage collector thread does when nothing else is to be done: checks inodes, erases eraseblocks, and
    /// collects garbage as long as free eraseblocks are few and dirt is much, or many eraseblocks are mostly dirt. True if there was something to do.
    ///
    /// # Errors
    /// Failures of the flash.
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
