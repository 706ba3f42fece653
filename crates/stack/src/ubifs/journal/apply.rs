//! Changes of the filesystem: nodes, and their effect on the index.

use floatgate_media::MediaError;
use floatgate_media::ubifs::{
    BLOCK_BYTES, DataNode, EntryNode, Frame, Group, INODE_WATERMARK, Inode, InodeNode, Key, KeyType, Node,
    NodeBody, NodeType, Truncation,
};

use super::super::core::Core;
use super::super::error::{Error, Result, narrow};
use super::super::layout::{Head, NodePos};
use crate::volume::Volume;

/// A node to be written, with its effect on the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// A new or changed inode.
    ///
    /// An inode without links loses its attached data and becomes an orphan: it stays in the index until
    /// [`Core::delete_inode`]. The inode of an extended attribute is removed from the index at once. An inode with
    /// links is no longer an orphan.
    Inode(InodeNode<'a>),
    /// A name of a file or extended attribute with its inode; inode 0 deletes the name.
    Entry(EntryNode<'a>),
    /// A new or changed block of a file.
    Data(DataNode<'a>),
    /// A truncated file: blocks after the end are removed from the index. A partly truncated block is a separate
    /// change.
    Truncation(Truncation),
}

impl Change<'_> {
    fn body(&self) -> &dyn NodeBody {
        match self {
            Self::Inode(node) => node,
            Self::Entry(node) => node,
            Self::Data(node) => node,
            Self::Truncation(node) => node,
        }
    }

    /// Inode whose fsync must write the node; for an entry, the directory.
    const fn inode(&self) -> u32 {
        match self {
            Self::Inode(node) => node.inode.key.inum(),
            Self::Entry(node) => node.entry.key.inum(),
            Self::Data(node) => node.block.key.inum(),
            Self::Truncation(node) => node.inode,
        }
    }

    /// Inode that becomes an orphan.
    fn orphan(&self) -> Option<u32> {
        match self {
            Self::Inode(node) if node.inode.links == 0 && !node.inode.is_xattr() => Some(self.inode()),
            _ => None,
        }
    }

    /// Change as written: an inode without links has no attached data.
    const fn written(self) -> Self {
        match self {
            Self::Inode(InodeNode { inode, .. }) if inode.links == 0 => {
                Self::Inode(InodeNode { inode, data: &[] })
            }
            other => other,
        }
    }

    /// Size in the journal, B.
    fn bytes(&self) -> u64 {
        self.written().node_bytes().next_multiple_of(8) as u64
    }
}

impl NodeBody for Change<'_> {
    fn node_type(&self) -> NodeType {
        self.body().node_type()
    }

    fn node_bytes(&self) -> usize {
        self.body().node_bytes()
    }

    fn put_fields(&self, out: &mut [u8]) -> core::result::Result<(), MediaError> {
        self.body().put_fields(out)
    }
}

/// Keys of the first and last block that a truncation removes; `None` if it removes none.
pub(crate) fn truncated_keys(node: &Truncation) -> Option<(Key, Key)> {
    let block_bytes = u64::from(BLOCK_BYTES);
    let from = u32::try_from(node.new_size.div_ceil(block_bytes)).ok()?;
    let to = u32::try_from(node.old_size.div_ceil(block_bytes).checked_sub(1)?).ok()?;
    if from > to {
        return None;
    }
    Some((Key::data(node.inode, from)?, Key::data(node.inode, to)?))
}

impl Core<dyn Volume> {
    /// Writes changes to a head as one group, and applies them to the index in order. A power cut leaves all of them or
    /// none, and all of them once the head is synced. Changes of [`Head::Data`] are not grouped.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::TooLarge`] and too many orphans, without any change; volume failures and damage of
    /// the index, after which the filesystem is read-only.
    pub(crate) fn apply(&mut self, head: Head, changes: &[Change<'_>]) -> Result<()> {
        let bytes = changes.iter().map(Change::bytes).sum();
        self.reserve(head, bytes)?;
        let places = self.write_group(head, changes)?;
        let outcome = changes.iter().zip(places).try_for_each(|(change, place)| self.index(change, place));
        self.fail_on_error(outcome)
    }

    /// Makes the filesystem read-only after an error in the middle of an update, as Linux does.
    pub(crate) fn fail_on_error<T>(&mut self, outcome: Result<T>) -> Result<T> {
        outcome.inspect_err(|error| self.io.fail(error))
    }

    /// Writes the nodes into reserved space.
    fn write_group(&mut self, head: Head, changes: &[Change<'_>]) -> Result<Vec<NodePos>> {
        let mut nodes = Vec::new();
        let mut places = Vec::with_capacity(changes.len());
        for (index, change) in changes.iter().enumerate() {
            let offset = narrow("group of nodes", nodes.len())?;
            let group = group_mark(head, index + 1 == changes.len());
            let len = self.io.append_node(&change.written(), group, &mut nodes)?;
            places.push(NodePos { lnum: 0, offset, len });
        }
        self.add_orphans(changes)?;
        let inodes: Vec<u32> = changes.iter().map(Change::inode).collect();
        let (lnum, start) = self.io.write_head(&mut self.space, head, &nodes, &inodes)?;
        for place in &mut places {
            (place.lnum, place.offset) = (lnum, start + place.offset);
        }
        Ok(places)
    }

    /// Adds inodes that lose their last link to the orphans. This happens before the write, because the number of
    /// orphans is limited.
    fn add_orphans(&mut self, changes: &[Change<'_>]) -> Result<()> {
        for inode in changes.iter().filter_map(Change::orphan) {
            if !self.orphans.contains(inode) {
                self.orphans.add(inode)?;
            }
        }
        Ok(())
    }

    fn index(&mut self, change: &Change<'_>, place: NodePos) -> Result<()> {
        match change {
            Change::Inode(node) => self.index_inode(&node.inode, place),
            Change::Entry(node) => self.index_entry(node, place),
            Change::Data(node) => {
                let key = node.block.key;
                // The inode has data after its deletion, so a replay of the deletion would not remove this block.
                self.log.deletions.remove(&key.inum());
                self.tnc.insert(&mut self.io, &mut self.space, key, place)
            }
            Change::Truncation(node) => self.index_truncation(node, place),
        }
    }

    fn index_inode(&mut self, inode: &Inode, place: NodePos) -> Result<()> {
        let number = inode.key.inum();
        match (inode.links, inode.is_xattr()) {
            (0, true) => {
                self.space.add_dirt(place.lnum, place.aligned_len())?;
                return self.tnc.remove_inode(&mut self.io, &mut self.space, number);
            }
            (0, false) => {
                self.log.deletions.insert(number);
            }
            _ => {
                self.log.deletions.remove(&number);
                self.orphans.remove(number);
            }
        }
        self.tnc.insert(&mut self.io, &mut self.space, inode.key, place)
    }

    fn index_entry(&mut self, node: &EntryNode<'_>, place: NodePos) -> Result<()> {
        let (key, name) = (node.entry.key, node.name);
        if !node.is_deletion() {
            return self.tnc.insert_name(&mut self.io, &mut self.space, key, name, place);
        }
        self.space.add_dirt(place.lnum, place.aligned_len())?;
        self.tnc.remove_name(&mut self.io, &mut self.space, key, name)
    }

    fn index_truncation(&mut self, node: &Truncation, place: NodePos) -> Result<()> {
        self.space.add_dirt(place.lnum, place.aligned_len())?;
        match truncated_keys(node) {
            Some((from, to)) => self.tnc.remove_range(&mut self.io, &mut self.space, from, to),
            None => Ok(()),
        }
    }

    /// Removes an inode without links that is not open from the index and the orphans.
    ///
    /// Nothing is written if its deletion is already in the journal, that is, without a commit since it lost its last
    /// link.
    ///
    /// # Errors
    /// The errors of [`apply`](Self::apply).
    pub(crate) fn delete_inode(&mut self, inode: &Inode) -> Result<()> {
        let number = inode.key.inum();
        if inode.xattr_count > 0 || !self.log.deletions.contains(&number) {
            self.write_deletion(inode)?;
        }
        let outcome = self.tnc.remove_inode(&mut self.io, &mut self.space, number);
        self.fail_on_error(outcome)?;
        self.log.deletions.remove(&number);
        self.orphans.remove(number);
        Ok(())
    }

    /// Writes deletions of an inode and of the inodes of its attributes. These nodes are dirty at once.
    fn write_deletion(&mut self, inode: &Inode) -> Result<()> {
        let mut gone = self.attributes(inode.key.inum())?;
        gone.push(Inode { links: 0, ..*inode });
        let changes: Vec<Change<'_>> =
            gone.into_iter().map(|inode| Change::Inode(InodeNode { inode, data: &[] })).collect();
        self.reserve(Head::Base, changes.iter().map(Change::bytes).sum())?;
        let places = self.write_group(Head::Base, &changes)?;
        places.iter().try_for_each(|place| self.space.add_dirt(place.lnum, place.aligned_len()))
    }

    /// Inodes of an inode's extended attributes, without links.
    fn attributes(&mut self, inode: u32) -> Result<Vec<Inode>> {
        let most = self.io.layout().leb_bytes() as usize / 2 / Inode::SIZE;
        let mut found = Vec::new();
        let mut node = Vec::new();
        let mut after: Option<(Key, Vec<u8>)> = None;
        loop {
            let key = after.as_ref().map_or(Key::lowest(inode, KeyType::XattrEntry), |(key, _)| *key);
            let name = after.as_ref().map(|(_, name)| name.as_slice());
            let Some((key, place)) = self.tnc.next_name(&mut self.io, key, name, &mut node)? else {
                return Ok(found);
            };
            if found.len() >= most {
                return Err(Error::TooLarge { what: "attributes of an inode", len: found.len() as u64 + 1 });
            }
            let (number, name) = named_inode(&node, place)?;
            after = Some((key, name));
            found.extend(self.read_inode(number)?.map(|inode| Inode { links: 0, ..inode }));
        }
    }

    /// Reads an inode, if it exists.
    ///
    /// # Errors
    /// A damaged index or inode; volume failures.
    pub(crate) fn read_inode(&mut self, number: u32) -> Result<Option<Inode>> {
        let Some(place) = self.tnc.find(&mut self.io, Key::inode(number))? else { return Ok(None) };
        let mut out = Vec::new();
        let Self { tnc, io, .. } = self;
        let frame = tnc.read_leaf(io, Key::inode(number), place, Some(NodeType::Inode), &mut out)?;
        match frame.node() {
            Ok(Node::Inode(node)) => Ok(Some(node.inode)),
            Ok(_) => Err(Error::corrupt(place.lnum, place.offset, "an inode expected")),
            Err(source) => Err(Error::node(place.lnum, place.offset, source)),
        }
    }

    /// Allocates an inode number and the sequence number of its creation.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if no inode number is left.
    pub(crate) fn new_inode(&mut self) -> Result<(u32, u64)> {
        let next = self.highest_inode + 1;
        let number = u32::try_from(next).ok().filter(|_| next < INODE_WATERMARK);
        let number = number.ok_or(Error::TooLarge { what: "inode number", len: next })?;
        self.highest_inode = next;
        Ok((number, self.io.next_sqnum()))
    }
}

/// Group field of a node: nodes of the base head are grouped, even a single one; those of other heads never are.
const fn group_mark(head: Head, last: bool) -> Group {
    match (head, last) {
        (Head::Base, true) => Group::Last,
        (Head::Base, false) => Group::Member,
        _ => Group::None,
    }
}

/// Inode and name of an entry.
fn named_inode(node: &[u8], place: NodePos) -> Result<(u32, Vec<u8>)> {
    let NodePos { lnum, offset, .. } = place;
    let parsed = Frame::parse(node).and_then(|frame| frame.node());
    match parsed.map_err(|source| Error::node(lnum, offset, source))? {
        Node::Entry(entry) => {
            let inode = u32::try_from(entry.entry.inode);
            let inode =
                inode.map_err(|_| Error::corrupt(lnum, offset, "an entry's inode number is too high"))?;
            Ok((inode, entry.name.to_vec()))
        }
        _ => Err(Error::corrupt(lnum, offset, "a directory entry expected")),
    }
}
