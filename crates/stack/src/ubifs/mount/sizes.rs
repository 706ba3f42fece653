//! File sizes after a power cut: data may be on flash while the inode with the new size is not (Linux:
//! `ubifs_recover_size_accum` and the following functions in `fs/ubifs/recovery.c`).

use std::collections::BTreeMap;

use floatgate_media::ubifs::{Frame, Inode, InodeNode, Key, Node, NodeBody, NodeType, Stamp};

use crate::fs::NodePos;
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::volume::Volume;

/// Size of a file according to the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct JournalSize {
    /// Size in the inode, if the inode is in the journal.
    inode: Option<u64>,
    /// End of its data in the journal.
    data: u64,
}

/// Sizes of files according to the journal, by inode.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes(BTreeMap<u32, JournalSize>);

impl Sizes {
    /// Records an inode.
    pub(super) fn inode(&mut self, inode: u32, size: u64) {
        self.0.entry(inode).or_default().inode = Some(size);
    }

    /// Records a deletion.
    pub(super) fn deletion(&mut self, inode: u32) {
        self.0.remove(&inode);
    }

    /// Records data up to byte `end` of the file.
    pub(super) fn data(&mut self, inode: u32, end: u64) {
        let known = self.0.entry(inode).or_default();
        known.data = known.data.max(end);
    }

    /// Records a truncation to `size` bytes.
    pub(super) fn truncation(&mut self, inode: u32, size: u64) {
        if let Some(known) = self.0.get_mut(&inode) {
            known.data = size;
        }
    }
}

impl Core<dyn Volume> {
    /// Removes data of missing inodes, and extends files to the end of their data: on flash, or in [`Core::sizes`] if
    /// the filesystem is read-only.
    ///
    /// # Errors
    /// Damaged nodes; volume failures.
    pub(super) fn recover_sizes(&mut self, sizes: Sizes) -> Result<()> {
        for (inode, known) in sizes.0 {
            let key = Key::inode(inode);
            let Some(place) = self.tnc.find(&mut self.io, key)? else {
                if known.inode.is_none() {
                    self.tnc.remove_inode(&mut self.io, &mut self.space, inode)?;
                }
                continue;
            };
            let size = self.inode_size(key, place)?;
            if size >= known.data || known.inode.is_some_and(|size| size >= known.data) {
                continue;
            }
            if self.io.is_read_only() {
                self.sizes.insert(inode, known.data);
            } else {
                self.fix_size(place, known.data)?;
            }
        }
        Ok(())
    }

    fn inode_size(&mut self, key: Key, place: NodePos) -> Result<u64> {
        let mut bytes = Vec::new();
        let Self { tnc, io, .. } = self;
        let frame = tnc.read_leaf(io, key, place, Some(NodeType::Inode), &mut bytes)?;
        parse_inode(&frame, place).map(|node| node.inode.size)
    }

    /// Rewrites the LEB of an inode with another size in the inode.
    fn fix_size(&mut self, place: NodePos, size: u64) -> Result<()> {
        let mut leb = vec![0; self.io.layout().leb_bytes() as usize];
        self.io.volume_mut().read(place.lnum, 0, &mut leb)?;
        let unit = self.io.layout().min_io_bytes() as usize;
        let damaged = Error::corrupt(place.lnum, place.offset, "the inode is not where it was");
        let range = place.offset as usize..(place.offset + place.len) as usize;
        let old = leb.get(range.clone()).ok_or(damaged.clone())?.to_vec();
        let frame = Frame::parse(&old).map_err(|source| Error::node(place.lnum, place.offset, source))?;
        let InodeNode { inode, data } = parse_inode(&frame, place)?;
        let stamp: Stamp = frame.stamp;
        let fixed = InodeNode { inode: Inode { size, ..inode }, data };
        let room = leb.get_mut(range).ok_or(damaged)?;
        fixed.emit(stamp, room).map_err(|source| Error::node(place.lnum, place.offset, source))?;
        let used = leb.iter().rposition(|&byte| byte != 0xFF).map_or(0, |last| last + 1);
        leb.truncate(used.next_multiple_of(unit));
        self.io.change(place.lnum, &leb)
    }
}

fn parse_inode<'a>(frame: &Frame<'a>, place: NodePos) -> Result<InodeNode<'a>> {
    match frame.node().map_err(|source| Error::node(place.lnum, place.offset, source))? {
        Node::Inode(node) => Ok(node),
        _ => Err(Error::corrupt(place.lnum, place.offset, "not an inode")),
    }
}
