//! Search of all LEBs for nodes, in the order in which they were written.

use core::ops::Range;

use floatgate_media::file::Timestamp;
use floatgate_media::ubifs::{Inode, Key, KeyType, Node, NodeType};

use super::tree::{Child, DataBlock, Tree};
use crate::fs::NodePos;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use crate::ubifs::scan::scan_all;
use crate::volume::{Volume, VolumeError, VolumeFault};

/// Information about a file in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Sequence number of the node: higher is newer.
    pub sqnum: u64,
    /// Position of the node.
    pub place: NodePos,
    /// Key of the file and its part.
    pub key: Key,
    /// The change it makes.
    pub change: Change,
}

/// Change that a node makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The inode was deleted.
    Deletion,
    /// The inode has new attributes.
    Inode {
        /// Type and permission bits.
        mode: u32,
        /// Bytes of the file.
        size: u64,
        /// Time of the last change of the inode.
        ctime: Timestamp,
    },
    /// A block of the file has new data.
    Data {
        /// Bytes before compression.
        size: u32,
    },
    /// A directory entry or attribute name has a new target or was deleted.
    Entry {
        /// Name, any bytes.
        name: Box<[u8]>,
        /// Target of the name, `None` if it was deleted.
        child: Option<Child>,
    },
    /// Data after the new size was truncated.
    Truncation {
        /// Bytes of the file.
        new_size: u64,
    },
}

/// Event of a node, if it belongs to a file.
pub(super) fn event(node: &Node<'_>, sqnum: u64, place: NodePos) -> Option<Event> {
    let (key, change) = match node {
        Node::Inode(node) if node.inode.links == 0 => (node.inode.key, Change::Deletion),
        Node::Inode(node) if node.check().is_ok() => {
            let Inode { key, mode, size, .. } = node.inode;
            (key, Change::Inode { mode, size, ctime: node.inode.ctime() })
        }
        Node::Data(node) if node.check().is_ok() => (node.block.key, Change::Data { size: node.block.size }),
        Node::Entry(node) if node.check().is_ok() => {
            let inode = u32::try_from(node.entry.inode).ok()?;
            let file_type = node.entry.file_type;
            let child = Child { inode, file_type, place, found_by_scan: true, sqnum };
            let name = node.name.into();
            (node.entry.key, Change::Entry { name, child: (!node.is_deletion()).then_some(child) })
        }
        Node::Truncation(node) if node.check().is_ok() => {
            (Key::inode(node.inode), Change::Truncation { new_size: node.new_size })
        }
        _ => return None,
    };
    Some(Event { sqnum, place, key, change })
}

/// LEBs of the main area inside the volume. An image can be shorter than its filesystem.
pub(super) fn main_lebs(io: &mut DynIo<'_>) -> Range<u32> {
    let (main, there) = (io.layout().limits.main.clone(), io.volume_mut().geometry().lebs);
    main.start..main.end.min(there).max(main.start)
}

/// Events of all nodes in these LEBs, the oldest first.
///
/// # Errors
/// Volume failures.
pub(super) fn find_events(io: &mut DynIo<'_>, lebs: impl Iterator<Item = u32>) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for lnum in lebs {
        let leb = match scan_all(io, lnum, 0) {
            Ok((leb, _)) => leb,
            // Static volumes end before their last LEB is full.
            Err(Error::Volume(VolumeError { fault: VolumeFault::OutOfRange { .. }, .. })) => continue,
            Err(error) => return Err(error),
        };
        for node in leb.nodes.iter().filter(|node| node.node_type != NodeType::Index) {
            let Ok(frame) = leb.frame(node) else { continue };
            let Ok(parsed) = frame.node() else { continue };
            events.extend(event(&parsed, node.stamp.sqnum, node.place));
        }
    }
    events.sort_by_key(|event| event.sqnum);
    Ok(events)
}

impl Tree {
    /// Applies an event to the tree. Only the positions of inodes are recorded; the nodes are read later.
    pub(super) fn apply(&mut self, event: &Event) {
        let Event { sqnum, place, key, .. } = *event;
        let inode = key.inum();
        match &event.change {
            Change::Deletion => {
                self.files.remove(&inode);
            }
            Change::Inode { .. } => {
                let file = self.file_mut(inode);
                (file.place, file.sqnum, file.found_by_scan) = (place, sqnum, true);
            }
            Change::Data { size } => {
                let file = self.file_mut(inode);
                file.blocks.insert(key.block(), DataBlock { place, size: *size, sqnum });
                file.lost_blocks.remove(&key.block());
            }
            Change::Entry { name, child } => {
                let file = self.file_mut(inode);
                let is_xattr = key.key_type() == KeyType::XattrEntry;
                let names = if is_xattr { &mut file.xattrs } else { &mut file.entries };
                match child {
                    Some(child) => names.insert(name.to_vec(), *child),
                    None => names.remove(&**name),
                };
            }
            Change::Truncation { new_size } => {
                let first = new_size.div_ceil(u64::from(floatgate_media::ubifs::BLOCK_BYTES));
                let first = u32::try_from(first).unwrap_or(u32::MAX);
                let file = self.file_mut(inode);
                file.blocks.split_off(&first);
                file.lost_blocks.split_off(&first);
            }
        }
    }
}
