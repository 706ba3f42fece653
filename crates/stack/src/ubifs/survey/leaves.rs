//! Leaf nodes in the index.

use floatgate_media::ubifs::{Frame, Key, KeyHash, KeyType, NODE_MAGIC, Node, SuperblockFlags};

use super::names::shown;
use super::problem::{Problem, Severity};
use super::scan::{Change, event};
use super::{Child, LostKeys, NOT_ITS_SIZE, Only, Problems, Tree, decompresses, node_in};
use crate::fs::NodePos;
use crate::ubifs::compress::Decompressor;
use crate::ubifs::core::Core;
use crate::ubifs::error::{Error, Result};
use crate::ubifs::io::DynIo;
use crate::ubifs::scan::{ScannedNode, read_to_end};
use crate::ubifs::structure::Structure;
use crate::ubifs::tnc::Tnc;
use crate::volume::Volume;

type Collected = (Tree, Vec<LostKeys>, Decompressor);

/// Reads and checks all leaf nodes.
///
/// # Errors
/// Volume failures.
pub(super) fn collect(core: &mut Core<dyn Volume>, problems: &mut Problems) -> Result<Collected> {
    let (mut leaves, mut missing) = (Vec::new(), Vec::new());
    let (from, to) = (Key::from_bits(0), Key::from_bits(u64::MAX));
    core.tnc.salvage(&mut core.io, from, to, &mut leaves, &mut missing)?;
    let mut lost = Vec::new();
    for keys in missing {
        let to = keys.to.unwrap_or(Key::from_bits(u64::MAX));
        let consequence = "what it leads to cannot be found; Linux makes the filesystem read-only";
        let mut problem = Problem::from_error(Severity::Damaged, Structure::Index, &keys.error, consequence);
        problem.inodes = Some(keys.from.inum()..=to.inum());
        problems.add(problem);
        lost.push(LostKeys { from: keys.from, to, only: Only::Newest });
    }
    let superblock = core.io.layout().superblock;
    let mut collector = Collector {
        problems,
        lost,
        tree: Tree::default(),
        decompressor: Decompressor::new(),
        undecodable: Vec::new(),
        key_hash: Some(superblock.key_hash).filter(|_| !superblock.has(SuperblockFlags::ENCRYPTION)),
    };
    leaves.sort_unstable_by_key(|&(_, place)| place);
    collector.read_all(&mut core.io, &core.tnc, &leaves)?;
    collector.judge_undecodable();
    let Collector { mut tree, lost, decompressor, .. } = collector;
    // Sizes that recovery found replace the sizes in the inodes.
    for (inode, &size) in &core.sizes {
        if let Some(inode) = tree.files.get_mut(inode).and_then(|file| file.inode.as_mut()) {
            inode.size = size;
        }
    }
    Ok((tree, lost, decompressor))
}

struct Collector<'p> {
    problems: &'p mut Problems,
    lost: Vec<LostKeys>,
    tree: Tree,
    decompressor: Decompressor,
    /// Blocks that cannot be decompressed: damaged, unless their file is encrypted.
    undecodable: Vec<(Key, NodePos)>,
    /// Hash function of names in keys; `None` if names are encrypted and cannot be checked.
    key_hash: Option<KeyHash>,
}

impl Collector<'_> {
    /// Reads leaf nodes in the order of their positions.
    fn read_all(&mut self, io: &mut DynIo<'_>, tnc: &Tnc, leaves: &[(Key, NodePos)]) -> Result<()> {
        for of_leb in leaves.chunk_by(|a, b| a.1.lnum == b.1.lnum) {
            let Some(&(_, NodePos { lnum, .. })) = of_leb.first() else { continue };
            let inside = io.layout().limits.main.contains(&lnum);
            let bytes = if inside { read_to_end(io, lnum, 0)? } else { Vec::new() };
            let is_gone = bytes.iter().all(|&byte| byte == 0xFF);
            for &(key, place) in of_leb {
                let at = bytes.get(place.offset as usize..).unwrap_or(&[]);
                if let Err(error) = self.read_leaf(tnc, key, place, at) {
                    let only = if is_gone { Only::Nameless(place.offset) } else { stand_in(key, place, at) };
                    self.record_lost_leaf(key, &error, only);
                }
            }
        }
        Ok(())
    }

    fn read_leaf(&mut self, tnc: &Tnc, key: Key, place: NodePos, bytes: &[u8]) -> Result<()> {
        let (frame, node) = node_in(bytes, place)?;
        tnc.check_hash(key, place, frame.as_bytes())?;
        let corrupt = |what| Error::corrupt(place.lnum, place.offset, what);
        let damaged = |source| Error::node(place.lnum, place.offset, source);
        match &node {
            Node::Inode(inode) => inode.check().map_err(damaged)?,
            Node::Data(data) => data.check().map_err(damaged)?,
            Node::Entry(entry) => entry.check().map_err(damaged)?,
            _ => return Err(corrupt("a node that the index does not lead to")),
        }
        let other_key = || corrupt("a node with another key than the index says");
        let event = event(&node, frame.stamp.sqnum, place).ok_or_else(other_key)?;
        if event.key != key {
            // The CRC covers the node's own key. The node is found under that key, unless the index refers to another
            // node there.
            self.lost.push(LostKeys { from: event.key, to: event.key, only: Only::Sqnum(event.sqnum) });
            return Err(other_key());
        }
        if let Node::Data(data) = &node
            && !decompresses(&mut self.decompressor, data)
        {
            self.undecodable.push((key, place));
        }
        if let Node::Inode(inode) = &node {
            let file = self.tree.file_mut(key.inum());
            (file.place, file.sqnum) = (place, frame.stamp.sqnum);
            (file.inode, file.attached) = (Some(inode.inode), inode.data.to_vec());
            return Ok(());
        }
        if let Node::Entry(entry) = &node {
            if entry.is_deletion() {
                return Err(corrupt("the name of no inode"));
            }
            self.check_hash(key, entry.name, place);
            if let Change::Entry { child: Some(child), .. } = &event.change
                && self.is_repeated(key, entry.name, child)
            {
                return Ok(());
            }
        }
        self.tree.apply(&event);
        if let Node::Entry(entry) = &node {
            let file = self.tree.file_mut(key.inum());
            let names = if key.key_type() == KeyType::Entry { &mut file.entries } else { &mut file.xattrs };
            if let Some(child) = names.get_mut(entry.name) {
                child.found_by_scan = false;
            }
        }
        Ok(())
    }

    /// True if the index contains a name twice. The entry that a lookup by hash finds is valid, otherwise the first
    /// one.
    fn is_repeated(&mut self, key: Key, name: &[u8], child: &Child) -> bool {
        let is_xattr = key.key_type() == KeyType::XattrEntry;
        let file = self.tree.file_mut(key.inum());
        let names = if is_xattr { &mut file.xattrs } else { &mut file.entries };
        let Some(known) = names.get_mut(name) else { return false };
        let is_found = self.key_hash.and_then(|hash| hash.hash(name)) == Some(key.hash());
        let mut other = Child { found_by_scan: false, ..*child };
        if is_found {
            core::mem::swap(known, &mut other);
        }
        if !is_xattr {
            file.repeated.push((name.to_vec(), other));
        }
        let structure = if is_xattr { Structure::XattrEntry } else { Structure::Entry };
        let what = format!("{} is there twice; this one leads to inode {}", shown(name), other.inode);
        let problem = Problem::new(Severity::Damaged, structure, what, "what it leads to is not found by it");
        let NodePos { lnum, offset, .. } = other.place;
        self.problems.add(problem.at(lnum, offset).inode(key.inum()));
        true
    }

    /// Checks that the hash of a name matches its key; otherwise a lookup does not find it.
    fn check_hash(&mut self, key: Key, name: &[u8], place: NodePos) {
        if self.key_hash.and_then(|hash| hash.hash(name)).is_none_or(|hash| hash == key.hash()) {
            return;
        }
        let is_xattr = key.key_type() == KeyType::XattrEntry;
        let structure = if is_xattr { Structure::XattrEntry } else { Structure::Entry };
        let what = format!("{} does not have the hash of its key", shown(name));
        let consequence = "it is listed, but not found by its name";
        let problem = Problem::new(Severity::Damaged, structure, what, consequence);
        self.problems.add(problem.at(place.lnum, place.offset).inode(key.inum()));
    }

    /// Records an unreadable leaf, and the nodes that a search may use instead.
    fn record_lost_leaf(&mut self, key: Key, error: &Error, only: Only) {
        let (structure, consequence) = match key.key_type() {
            KeyType::Inode => (Structure::Inode, "the file cannot be opened"),
            KeyType::Data => (Structure::Data, "reading this block of the file fails"),
            KeyType::Entry => (Structure::Entry, "a name in the directory cannot be read"),
            _ => (Structure::XattrEntry, "the name of an extended attribute cannot be read"),
        };
        let mut problem =
            Problem::from_error(Severity::Damaged, structure, error, consequence).inode(key.inum());
        if key.key_type() == KeyType::Data {
            let start = u64::from(key.block()) * u64::from(floatgate_media::ubifs::BLOCK_BYTES);
            problem = problem.of_part(format!("bytes of the file from {start} on"));
            self.tree.file_mut(key.inum()).lost_blocks.insert(key.block());
        }
        self.problems.add(problem);
        self.tree.file_mut(key.inum()).incomplete |= key.key_type() != KeyType::Data;
        self.lost.push(LostKeys { from: key, to: key, only });
    }

    /// Reports blocks that cannot be decompressed as damaged, unless they are encrypted.
    fn judge_undecodable(&mut self) {
        for (key, place) in core::mem::take(&mut self.undecodable) {
            let file = self.tree.file_mut(key.inum());
            let encrypted = file
                .inode
                .is_some_and(|inode| inode.flags.contains(floatgate_media::file::FileFlags::ENCRYPTED));
            if encrypted {
                continue;
            }
            file.blocks.remove(&key.block());
            self.record_lost_leaf(
                key,
                &Error::corrupt(place.lnum, place.offset, NOT_ITS_SIZE),
                Only::Sqnum(0),
            );
        }
    }
}

/// Nodes that may replace an unreadable leaf; `bytes` is the data at its position. For a data node, only a remaining
/// copy of the same node is accepted, because another node has data of another time.
fn stand_in(key: Key, place: NodePos, bytes: &[u8]) -> Only {
    let is_other = Frame::parse(bytes).is_ok_and(|frame| {
        ScannedNode::new(&frame, place.lnum, place.offset).is_ok_and(|node| node.key != Some(key))
    });
    match sqnum_in(bytes).filter(|_| key.key_type() == KeyType::Data && !is_other) {
        Some(sqnum) => Only::Sqnum(sqnum),
        None => Only::Newest,
    }
}

/// Sequence number in the header of a damaged node.
fn sqnum_in(bytes: &[u8]) -> Option<u64> {
    let field = bytes.get(8..16).and_then(|field| field.try_into().ok());
    field.filter(|_| bytes.starts_with(&NODE_MAGIC)).map(u64::from_le_bytes)
}
