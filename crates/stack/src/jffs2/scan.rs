//! Reading a flash for its nodes.

use super::damage::{Damage, Fault, MountError};
use super::names::{Named, Names};
use super::xattrs::Xattrs;
use super::{Counts, Flash, NodeRef};
use floatgate_media::MediaError;
use floatgate_media::jffs2::{
    DirentNode, Endian, Entry, Header, Inode, NODE_ALIGN, NodeType, Summary, SummaryMarker, XattrNode, Xref,
};
use floatgate_mtd::Mtd;
use std::collections::BTreeMap;

/// An eraseblock is taken for empty if so many bytes at its beginning are erased (Linux: `DEFAULT_EMPTY_SCAN_SIZE`).
const EMPTY_SCAN: usize = 256;

/// Damage that is kept, against flash that has nothing else.
const DAMAGE_MAX: usize = 10_000;

/// Everything that nodes say.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) endian: Option<Endian>,
    pub(super) nodes: BTreeMap<u32, Vec<NodeRef>>,
    pub(super) names: Names,
    pub(super) xattrs: Xattrs,
    pub(super) counts: Counts,
    pub(super) damage: Vec<Damage>,
    /// The eraseblock that is read.
    block: Vec<u8>,
}

impl Scan {
    /// Reads all eraseblocks.
    ///
    /// # Errors
    /// The flash fails or is too large; a node that has to be known.
    pub(super) fn read<M: Mtd>(flash: &mut Flash<M>, endian: Option<Endian>) -> Result<Self, MountError> {
        let geometry = flash.mtd.geometry().clone();
        if geometry.size_bytes > 1 << 32 {
            return Err(MountError::TooLarge(geometry.size_bytes));
        }
        let mut scan = Self { endian, ..Self::default() };
        scan.block.resize(geometry.erase_bytes as usize, 0);
        for start in (0..geometry.size_bytes).step_by(geometry.erase_bytes as usize) {
            let (bad, now) = flash.mtd.is_bad(flash.now, start)?;
            flash.now = now;
            if bad {
                scan.counts.bad += 1;
            } else {
                scan.eraseblock(flash, start)?;
            }
        }
        scan.block = Vec::new();
        Ok(scan)
    }

    fn eraseblock<M: Mtd>(&mut self, flash: &mut Flash<M>, start: u64) -> Result<(), MountError> {
        let mut block = std::mem::take(&mut self.block);
        let found = self.summary(flash, start, &mut block);
        let found = match found {
            Ok(false) => self.nodes(flash, start, &mut block),
            done => done.map(drop),
        };
        self.block = block;
        found
    }

    /// Takes the nodes of an eraseblock from its summary; false if it has none that is good.
    fn summary<M: Mtd>(
        &mut self,
        flash: &mut Flash<M>,
        start: u64,
        block: &mut [u8],
    ) -> Result<bool, MountError> {
        let Some(marker_at) = block.len().checked_sub(SummaryMarker::SIZE) else { return Ok(false) };
        let mut end = [0; SummaryMarker::SIZE];
        flash.read(start + marker_at as u64, &mut end)?;
        let orders = self.endian.map_or(vec![Endian::Little, Endian::Big], |endian| vec![endian]);
        let marker = |endian: &Endian| SummaryMarker::parse(&end, *endian).map(|marker| (*endian, marker));
        let Some((endian, marker)) = orders.iter().find_map(marker) else { return Ok(false) };
        let Some(list) = block.get_mut(marker.offset as usize..) else { return Ok(false) };
        flash.read(start + u64::from(marker.offset), list)?;
        let entries: Result<Vec<Entry<'_>>, MediaError> =
            Summary::parse(list, endian).and_then(|summary| summary.entries().collect());
        match entries {
            Ok(entries) => {
                self.endian = Some(endian);
                self.counts.summaries += 1;
                for entry in entries {
                    self.listed(flash, start, endian, entry)?;
                }
                Ok(true)
            }
            Err(error) => {
                self.note(Fault::Media(error).at(start + u64::from(marker.offset)));
                Ok(false)
            }
        }
    }

    /// Takes in a node that a summary lists. Inode nodes are looked at when their file is read, xattr nodes here.
    fn listed<M: Mtd>(
        &mut self,
        flash: &mut Flash<M>,
        start: u64,
        endian: Endian,
        entry: Entry<'_>,
    ) -> Result<(), MountError> {
        match entry {
            Entry::Inode { inode, version, offset } => {
                self.inode(inode, version, start + u64::from(offset));
            }
            Entry::Dirent { parent, version, inode, dirent_type, offset, name } => {
                self.counts.dirent_nodes += 1;
                // A summary has no time of the change.
                let named = Named::new(version, inode, dirent_type, start + u64::from(offset));
                self.names.add(parent, name, named, None);
            }
            Entry::Xattr { offset } | Entry::Xref { offset } => {
                let at = start + u64::from(offset);
                let mut head = [0; Header::SIZE];
                flash.read(at, &mut head)?;
                let Ok(header) = Header::parse(&head, endian) else { return Ok(()) };
                let inside =
                    u64::from(offset) + u64::from(header.len) <= u64::from(flash.mtd.geometry().erase_bytes);
                if inside && !header.obsolete {
                    let mut node = vec![0; header.len as usize];
                    flash.read(at, &mut node)?;
                    self.node(header, &node, at)?;
                }
            }
        }
        Ok(())
    }

    /// Looks through an eraseblock for nodes.
    fn nodes<M: Mtd>(
        &mut self,
        flash: &mut Flash<M>,
        start: u64,
        block: &mut [u8],
    ) -> Result<(), MountError> {
        let head = EMPTY_SCAN.min(block.len());
        let (begin, rest) = block.split_at_mut(head);
        flash.read(start, begin)?;
        if begin.iter().all(|&byte| byte == 0xFF) {
            self.counts.empty += 1;
            self.counts.free_bytes += (head + rest.len()) as u64;
            return Ok(());
        }
        flash.read(start + head as u64, rest)?;
        let before = self.counts;
        let mut at = 0;
        while let Some(bytes) = block.get(at..).filter(|bytes| !bytes.is_empty()) {
            at += self.step(bytes, start + at as u64)?;
        }
        let nodes = |counts: &Counts| counts.inode_nodes + counts.dirent_nodes + counts.xattr_nodes;
        if nodes(&before) == nodes(&self.counts) && before.dirty_bytes == self.counts.dirty_bytes {
            self.counts.empty += 1;
        } else {
            self.counts.scanned += 1;
        }
        Ok(())
    }

    /// Takes in what stands at the beginning of some bytes up to the end of an eraseblock; the number of bytes it takes.
    fn step(&mut self, bytes: &[u8], at: u64) -> Result<usize, MountError> {
        let align = NODE_ALIGN as usize;
        let erased = bytes.iter().take_while(|&&byte| byte == 0xFF).count() / align * align;
        if erased > 0 {
            self.counts.free_bytes += erased as u64;
            return Ok(erased);
        }
        let unknown = align.min(bytes.len());
        let Some(endian) = Endian::of_magic(bytes) else {
            self.counts.dirty_bytes += unknown as u64;
            return Ok(unknown);
        };
        let header = Header::parse(bytes, endian).map_err(Fault::Media).and_then(|header| {
            let fits = header.len as usize <= bytes.len();
            if fits { Ok(header) } else { Err(Fault::TooLong { len: header.len }) }
        });
        let header = match header {
            Ok(_) if *self.endian.get_or_insert(endian) != endian => Err(Fault::OtherEndian),
            header => header,
        };
        match header {
            Ok(header) => {
                self.node(header, &bytes[..header.len as usize], at)?;
                Ok((header.padded_len() as usize).min(bytes.len()))
            }
            Err(fault) => {
                self.note(fault.at(at));
                self.counts.dirty_bytes += unknown as u64;
                Ok(unknown)
            }
        }
    }

    /// Takes in a node with a good header.
    fn node(&mut self, header: Header, node: &[u8], at: u64) -> Result<(), MountError> {
        if header.node_type.is_incompatible() {
            return Err(MountError::Incompatible { at, code: header.node_type.code() });
        }
        if header.obsolete {
            self.counts.obsolete_nodes += 1;
            self.counts.dirty_bytes += header.padded_len();
            return Ok(());
        }
        let endian = self.endian.unwrap_or_default();
        let taken = match header.node_type {
            NodeType::Inode => {
                Inode::parse(node, endian).map(|inode| self.inode(inode.inode, inode.version, at))
            }
            NodeType::Dirent => DirentNode::parse(node, endian).map(|node| self.dirent(&node, at)),
            NodeType::Xattr => XattrNode::parse(node, endian).map(|node| {
                self.counts.xattr_nodes += 1;
                self.xattrs.add(&node);
            }),
            NodeType::Xref => Xref::parse(node, endian).map(|xref| self.xattrs.refer(&xref)),
            NodeType::CleanMarker => {
                self.counts.clean_markers += 1;
                Ok(())
            }
            NodeType::Padding | NodeType::Summary => Ok(()),
            NodeType::Other(_) => {
                self.counts.obsolete_nodes += 1;
                Ok(())
            }
        };
        if let Err(error) = taken {
            self.note(Fault::Media(error).at(at));
            self.counts.dirty_bytes += header.padded_len();
        }
        Ok(())
    }

    fn inode(&mut self, inode: u32, version: u32, at: u64) {
        self.counts.inode_nodes += 1;
        // No flash has 4 GiB or more.
        let at = at as u32;
        self.nodes.entry(inode).or_default().push(NodeRef { version, at });
    }

    fn dirent(&mut self, node: &DirentNode<'_>, at: u64) {
        self.counts.dirent_nodes += 1;
        let dirent = &node.dirent;
        let named = Named::new(dirent.version, dirent.inode, dirent.dirent_type, at);
        self.names.add(dirent.parent, node.name, named, Some(dirent.mctime_s));
    }

    fn note(&mut self, damage: Damage) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(damage);
        }
    }
}
