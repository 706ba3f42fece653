//! A search of all LEBs for nodes, and what they say in the order they were written.

use core::ops::Range;

use floatgate_media::ubifs::{Key, KeyType, Node, NodeType};

use super::tree::{Child, DataBlock, Tree};
use crate::fs::NodePos;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use crate::ubifs::scan::scan_all;
use crate::volume::{Volume, VolumeError, VolumeFault};

/// Statement of a node about a file.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) sqnum: u64,
    pub(super) place: NodePos,
    pub(super) key: Key,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Inode { deleted: bool },
    Data { size: u32 },
    Entry { name: Box<[u8]>, child: Option<Child> },
    Truncation { new_size: u64 },
}

/// Statement of a node, if it is about a file.
pub(super) fn event(node: &Node<'_>, sqnum: u64, place: NodePos) -> Option<Event> {
    let (key, what) = match node {
        Node::Inode(node) if node.check().is_ok() || node.inode.links == 0 => {
            (node.inode.key, What::Inode { deleted: node.inode.links == 0 })
        }
        Node::Data(node) if node.check().is_ok() => (node.block.key, What::Data { size: node.block.size }),
        Node::Entry(node) if node.check().is_ok() => {
            let inode = u32::try_from(node.entry.inode).ok()?;
            let file_type = node.entry.file_type;
            let child = Child { inode, file_type, place, found_by_scan: true, sqnum };
            let name = node.name.into();
            (node.entry.key, What::Entry { name, child: (!node.is_deletion()).then_some(child) })
        }
        Node::Truncation(node) if node.check().is_ok() => {
            (Key::inode(node.inode), What::Truncation { new_size: node.new_size })
        }
        _ => return None,
    };
    Some(Event { sqnum, place, key, what })
}

/// The LEBs of the main area that the volume has. An image can be shorter than its filesystem.
pub(super) fn main_lebs(io: &mut DynIo<'_>) -> Range<u32> {
    let (main, there) = (io.layout().limits.main.clone(), io.volume_mut().geometry().lebs);
    main.start..main.end.min(there).max(main.start)
}

/// All that nodes in any of these LEBs say, oldest first.
///
/// # Errors
/// Failures of the volume.
pub(super) fn find_events(io: &mut DynIo<'_>, lebs: impl Iterator<Item = u32>) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for lnum in lebs {
        let leb = match scan_all(io, lnum, 0) {
            Ok((leb, _)) => leb,
            // Static volumes end before they are full.
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
    /// Does what a node says. Inodes are read later: only their places count here.
    pub(super) fn apply(&mut self, event: &Event) {
        let Event { sqnum, place, key, .. } = *event;
        let inode = key.inum();
        match &event.what {
            What::Inode { deleted: true } => {
                self.files.remove(&inode);
            }
            What::Inode { deleted: false } => {
                let file = self.file_mut(inode);
                (file.place, file.sqnum, file.found_by_scan) = (place, sqnum, true);
            }
            What::Data { size } => {
                let file = self.file_mut(inode);
                file.blocks.insert(key.block(), DataBlock { place, size: *size, sqnum });
                file.lost_blocks.remove(&key.block());
            }
            What::Entry { name, child } => {
                let file = self.file_mut(inode);
                let is_xattr = key.key_type() == KeyType::XattrEntry;
                let names = if is_xattr { &mut file.xattrs } else { &mut file.entries };
                match child {
                    Some(child) => names.insert(name.to_vec(), *child),
                    None => names.remove(&**name),
                };
            }
            What::Truncation { new_size } => {
                let first = new_size.div_ceil(u64::from(floatgate_media::ubifs::BLOCK_BYTES));
                let first = u32::try_from(first).unwrap_or(u32::MAX);
                let file = self.file_mut(inode);
                file.blocks.split_off(&first);
                file.lost_blocks.split_off(&first);
            }
        }
    }
}
