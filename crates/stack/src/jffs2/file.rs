//! A file as its nodes, with a map from each byte to the node that holds it.

use super::NodeRef;
use super::damage::{Damage, Fault};
use super::flash::Flash;
use crate::fs::FileType;
use floatgate_media::jffs2::{Compressor, Endian, Header, Inode, NodeType, ROOT_INODE};
use floatgate_mtd::{Error, Mtd};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of file bytes in a node that is not a hole: the largest page size of Linux.
const NODE_FILE_BYTES_MAX: u32 = 1 << 16;

/// An inode node with its fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileNode {
    /// First byte on the flash.
    pub(super) at: u32,
    pub(super) inode: Inode,
    /// Number of file bytes that no newer node covers.
    live: u64,
}

impl FileNode {
    pub(super) const fn new(at: u32, inode: Inode) -> Self {
        Self { at, inode, live: 0 }
    }

    /// Sort key of the node among the nodes of the file.
    pub(super) const fn order(&self) -> NodeRef {
        NodeRef { version: self.inode.version, at: self.at }
    }

    /// True if the node has no data.
    pub(super) fn is_hole(&self) -> bool {
        self.inode.compressor == Compressor::Zero
    }

    /// True if no newer node covers a part of it.
    pub(super) fn is_whole(&self) -> bool {
        self.live == u64::from(self.inode.file_len)
    }
}

/// A piece of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    /// File offset of the end of the piece, bytes (exclusive).
    pub(super) end: u64,
    /// Node that holds the piece.
    node: NodeRef,
}

/// A file assembled from its nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    /// Live nodes in their order. The newest one defines the attributes. They are boxed, because most files have only a
    /// few nodes and a tree node has room for eleven.
    nodes: BTreeMap<NodeRef, Box<FileNode>>,
    /// Fragments by the file offset of their first byte. The bytes between fragments are holes.
    fragments: BTreeMap<u64, Fragment>,
    /// Node whose data was decompressed last, with the data.
    last: Option<(u32, Vec<u8>)>,
}

/// Nodes of a file that reading found to be obsolete or damaged.
#[derive(Debug, Default)]
pub(super) struct ObsoleteNodes {
    /// Positions of replaced and damaged nodes.
    pub(super) places: Vec<u32>,
    pub(super) damage: Vec<Damage>,
}

impl ObsoleteNodes {
    fn damaged(&mut self, at: u32, fault: Fault) {
        self.damaged_unless(false, at, fault);
    }

    /// Adds a damaged node. Its fault is reported unless newer nodes replace it.
    fn damaged_unless(&mut self, is_replaced: bool, at: u32, fault: Fault) {
        self.places.push(at);
        if !is_replaced {
            self.damage.push(fault.at(u64::from(at)));
        }
    }
}

impl File {
    /// Reads the nodes of a file and, unless they were `checked` before, verifies the data CRCs of live nodes. Older
    /// nodes replace a damaged node, or one whose file type contradicts the name.
    ///
    /// # Errors
    /// Flash failures.
    pub(super) fn read(
        flash: &mut Flash<dyn Mtd>,
        endian: Endian,
        (number, refs): (u32, &[NodeRef]),
        named: Option<FileType>,
        checked: bool,
    ) -> Result<(Self, ObsoleteNodes), Error> {
        let mut all = BTreeMap::new();
        let mut useless = ObsoleteNodes::default();
        let mut damaged_heads = Vec::new();
        for node in refs {
            match read_node(flash, endian, number, *node)? {
                Ok(Some((inode, is_marked))) => {
                    all.insert(*node, FileNode::new(node.at, inode));
                    useless.damage.extend((is_marked && !checked).then(|| Fault::Marked.at(node.at.into())));
                }
                Ok(None) => useless.places.push(node.at),
                Err(fault) => damaged_heads.push((*node, fault)),
            }
        }
        let is_like = |node: &FileNode| node.inode.file_type() == named;
        if named.is_some() && (number == ROOT_INODE || all.values().any(is_like)) {
            for node in all.values().filter(|node| !is_like(node)) {
                useless.damaged(node.at, Fault::Mode { inode: number, mode: node.inode.mode });
            }
            all.retain(|_, node| is_like(node));
        }
        loop {
            let (file, covered) = Self::assemble(&all);
            let mut damaged = None;
            for node in file.nodes.values().filter(|_| !checked) {
                if let Err(fault) = read_data(flash, node)? {
                    damaged = Some((node.order(), fault));
                    break;
                }
            }
            let Some((node, fault)) = damaged else {
                useless.places.extend(covered);
                for (node, fault) in damaged_heads {
                    useless.damaged_unless(file.replaces(node), node.at, fault);
                }
                if !checked {
                    useless.damage.extend(file.rivals(&all));
                }
                return Ok((file, useless));
            };
            all.remove(&node);
            useless.damaged(node.at, fault);
        }
    }

    /// True if newer nodes replace this node completely.
    fn replaces(&self, node: NodeRef) -> bool {
        let is_older = self.nodes.first_key_value().is_some_and(|(oldest, _)| node < *oldest);
        let size = self.newest().map_or(0, |newest| u64::from(newest.inode.file_bytes));
        let is_regular =
            self.newest().is_some_and(|newest| newest.inode.file_type() == Some(FileType::Regular));
        is_older && (!is_regular || self.gaps(size).is_empty())
    }

    /// Contradicting nodes of a file. A node contradicts the next node of the same version if they differ and one of
    /// them is live, so that the result is ambiguous.
    ///
    /// Two cases do not count. Linux's garbage collector leaves copies when power is lost. It also rewrites a hole that
    /// newer nodes cover in part, with the old version and the current attributes (`jffs2_garbage_collect_hole` in
    /// `fs/jffs2/gc.c`).
    fn rivals(&self, all: &BTreeMap<NodeRef, FileNode>) -> Vec<Damage> {
        let holds = |node: &FileNode| self.nodes.contains_key(&node.order());
        let pairs = all.values().zip(all.values().skip(1));
        let is_again = |one: &FileNode, other: &FileNode| {
            let hole = |node: &FileNode| node.is_hole().then_some((node.inode.offset, node.inode.file_len));
            hole(one).is_some() && hole(one) == hole(other) && one.inode.version < self.version()
        };
        let are_rivals = |(one, other): &(&FileNode, &FileNode)| {
            one.inode.version == other.inode.version
                && one.inode != other.inode
                && !is_again(one, other)
                && (holds(one) || holds(other))
        };
        let damage = |(one, _): (&FileNode, &FileNode)| {
            let Inode { inode, version, .. } = one.inode;
            Fault::SameVersion { inode, name: None, version }.at(u64::from(one.at))
        };
        pairs.filter(are_rivals).map(damage).collect()
    }

    /// Assembles a file from nodes; also returns the positions of obsolete nodes.
    fn assemble(all: &BTreeMap<NodeRef, FileNode>) -> (Self, Vec<u32>) {
        let mut file = Self::default();
        let mut covered = Vec::new();
        for node in all.values() {
            file.cover(node, &mut covered);
        }
        file.end(&mut covered);
        (file, covered)
    }

    /// Adds a node that is newer than all others; returns the positions of nodes that become obsolete.
    pub(super) fn add(&mut self, node: FileNode) -> Vec<u32> {
        let mut covered = Vec::new();
        self.cover(&node, &mut covered);
        self.end(&mut covered);
        covered
    }

    fn cover(&mut self, node: &FileNode, covered: &mut Vec<u32>) {
        let inode = &node.inode;
        let order = node.order();
        let before = self.nodes.last_key_value().map(|(&before, _)| before);
        self.nodes.insert(order, Box::new(FileNode { live: 0, ..*node }));
        if inode.file_len > 0 {
            let (start, end) = (u64::from(inode.offset), inode.end());
            self.cut(start, end, covered);
            self.fragments.insert(start, Fragment { end, node: order });
            self.add_live(order, end - start);
        }
        // The node that was newest before may have defined only the attributes; it is then obsolete.
        if let Some(before) = before {
            self.remove_empty(before, covered);
        }
    }

    /// Truncates a regular file at the size in its newest node.
    fn end(&mut self, covered: &mut Vec<u32>) {
        if let Some(newest) = self.newest().filter(|node| node.inode.file_type() == Some(FileType::Regular)) {
            self.cut(u64::from(newest.inode.file_bytes), u64::MAX, covered);
        }
    }

    fn add_live(&mut self, node: NodeRef, bytes: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.live += bytes;
        }
    }

    /// Reduces the live bytes of a node.
    fn reduce_live(&mut self, order: NodeRef, bytes: u64, covered: &mut Vec<u32>) {
        if let Some(node) = self.nodes.get_mut(&order) {
            node.live -= bytes;
            self.remove_empty(order, covered);
        }
    }

    fn remove_empty(&mut self, order: NodeRef, covered: &mut Vec<u32>) {
        let is_newest = self.nodes.last_key_value().is_none_or(|(&newest, _)| newest == order);
        if !is_newest && self.nodes.get(&order).is_some_and(|node| node.live == 0) {
            covered.extend(self.nodes.remove(&order).map(|node| node.at));
        }
    }

    /// Node that defines the attributes; `None` without a good node.
    pub(super) fn newest(&self) -> Option<&FileNode> {
        self.nodes.last_key_value().map(|(_, node)| &**node)
    }

    /// Version of the newest node.
    pub(super) fn version(&self) -> u32 {
        self.newest().map_or(0, |node| node.inode.version)
    }

    /// Node at a position.
    pub(super) fn node_at(&self, at: u32) -> Option<FileNode> {
        self.nodes.values().find(|node| node.at == at).map(|node| **node)
    }

    /// Updates the position of a node.
    pub(super) fn moved(&mut self, from: NodeRef, to: u32) {
        let Some(node) = self.nodes.remove(&from) else { return };
        let now = FileNode { at: to, ..*node };
        let own = self.fragments.range_mut(u64::from(node.inode.offset)..node.inode.end());
        own.filter(|(_, fragment)| fragment.node == from)
            .for_each(|(_, fragment)| fragment.node = now.order());
        self.nodes.insert(now.order(), Box::new(now));
        self.last = None;
    }

    /// Positions of all nodes.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        self.nodes.values().map(|node| node.at)
    }

    /// First fragment of a node.
    pub(super) fn first_piece_of(&self, node: &FileNode) -> Option<(u64, u64)> {
        let own = self.fragments.range(u64::from(node.inode.offset)..node.inode.end());
        own.filter(|(_, fragment)| fragment.node == node.order())
            .map(|(&at, fragment)| (at, fragment.end))
            .next()
    }

    /// Extends a range by adjacent fragments with data in the same page.
    pub(super) fn grown(&self, (start, end): (u64, u64), page: u64) -> (u64, u64) {
        let (floor, ceiling) = (start / page * page, end.next_multiple_of(page));
        let has_data =
            |fragment: &Fragment| self.nodes.get(&fragment.node).is_some_and(|node| !node.is_hole());
        let (mut first, mut last) = (start, end);
        for (&at, fragment) in self.fragments.range(..start).rev() {
            if fragment.end != first || fragment.end <= floor || !has_data(fragment) {
                break;
            }
            first = at.max(floor);
        }
        for (&at, fragment) in self.fragments.range(end..) {
            if at != last || at >= ceiling || !has_data(fragment) {
                break;
            }
            last = fragment.end.min(ceiling);
        }
        (first, last)
    }

    /// Removes the bytes between `start` and `end` from all fragments.
    fn cut(&mut self, start: u64, end: u64, covered: &mut Vec<u32>) {
        let before = self.fragments.range(..start).next_back().map(|(&at, fragment)| (at, *fragment));
        if let Some((at, fragment)) = before.filter(|(_, fragment)| fragment.end > start) {
            self.fragments.insert(at, Fragment { end: start, ..fragment });
            if fragment.end > end {
                self.fragments.insert(end, fragment);
            }
            self.reduce_live(fragment.node, fragment.end.min(end) - start, covered);
        }
        let inside: Vec<(u64, Fragment)> =
            self.fragments.range(start..end).map(|(&at, fragment)| (at, *fragment)).collect();
        for (at, fragment) in inside {
            self.fragments.remove(&at);
            if fragment.end > end {
                self.fragments.insert(end, fragment);
            }
            self.reduce_live(fragment.node, fragment.end.min(end) - at, covered);
        }
    }

    /// Ranges with data from a file offset on, in order.
    pub(super) fn pieces(&self, from: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.fragments.range(..=from).next_back().map_or(from, |(&at, _)| at);
        let all = self.fragments.range(first..).filter(move |(_, fragment)| fragment.end > from);
        let has_data =
            |fragment: &Fragment| self.nodes.get(&fragment.node).is_some_and(|node| !node.is_hole());
        all.filter(move |(_, fragment)| has_data(fragment)).map(|(&at, fragment)| (at, fragment.end))
    }

    /// Ranges below `size` that no node covers.
    pub(super) fn gaps(&self, size: u64) -> Vec<Range<u64>> {
        let ends = self.fragments.values().map(|fragment| fragment.end);
        let starts = self.fragments.keys().copied().chain([size]);
        let between = std::iter::once(0).chain(ends).zip(starts).map(|(end, start)| end..start);
        between.filter(|gap| !gap.is_empty()).collect()
    }

    /// Reads bytes inside the size of the file; holes read as zeros.
    ///
    /// # Errors
    /// Flash failures; damaged data of a node.
    pub(super) fn read_at(
        &mut self,
        flash: &mut Flash<dyn Mtd>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<Result<(), Damage>, Error> {
        let end = offset + buf.len() as u64;
        let mut at = offset;
        while at < end {
            let Some((start, fragment)) = self.next_fragment(at) else {
                buf[(at - offset) as usize..].fill(0);
                break;
            };
            if start > at {
                let hole_end = start.min(end);
                buf[(at - offset) as usize..(hole_end - offset) as usize].fill(0);
                at = hole_end;
                continue;
            }
            let piece_end = fragment.end.min(end);
            let out = &mut buf[(at - offset) as usize..(piece_end - offset) as usize];
            let Some(node) = self.nodes.get(&fragment.node).map(|node| **node) else { break };
            let first = (at - u64::from(node.inode.offset)) as usize;
            if let Err(fault) = self.copy(flash, &node, first, out)? {
                return Ok(Err(fault.at(u64::from(node.at))));
            }
            at = piece_end;
        }
        Ok(Ok(()))
    }

    /// Fragment that contains or follows a file offset.
    fn next_fragment(&self, at: u64) -> Option<(u64, Fragment)> {
        let here = self.fragments.range(..=at).next_back().filter(|(_, fragment)| fragment.end > at);
        here.or_else(|| self.fragments.range(at..).next()).map(|(&at, fragment)| (at, *fragment))
    }

    /// Copies bytes of a node, starting at its byte `first`.
    fn copy(
        &mut self,
        flash: &mut Flash<dyn Mtd>,
        node: &FileNode,
        first: usize,
        out: &mut [u8],
    ) -> Result<Result<(), Fault>, Error> {
        if node.is_hole() {
            out.fill(0);
            return Ok(Ok(()));
        }
        if self.last.as_ref().is_none_or(|(at, _)| *at != node.at) {
            match data(flash, node)? {
                Ok(data) => self.last = Some((node.at, data)),
                Err(fault) => return Ok(Err(fault)),
            }
        }
        let data = self.last.as_ref().map_or(&[][..], |(_, data)| data);
        // The decompressed data has exactly the number of file bytes that the node states.
        out.copy_from_slice(&data[first..first + out.len()]);
        Ok(Ok(()))
    }
}

/// Reads the stored data of a node and checks its CRC.
fn read_data(flash: &mut Flash<dyn Mtd>, node: &FileNode) -> Result<Result<Vec<u8>, Fault>, Error> {
    let inode = &node.inode;
    if node.is_hole() {
        return Ok(Ok(Vec::new()));
    }
    let mut data = vec![0; inode.data_len as usize];
    flash.read(u64::from(node.at) + Inode::SIZE as u64, &mut data)?;
    Ok(inode.check_data(&data).map(|()| data).map_err(Fault::Media))
}

/// Reads and decompresses the data of a node; empty for a hole.
pub(super) fn data(flash: &mut Flash<dyn Mtd>, node: &FileNode) -> Result<Result<Vec<u8>, Fault>, Error> {
    let inode = &node.inode;
    if node.is_hole() {
        return Ok(Ok(Vec::new()));
    }
    let data = match read_data(flash, node)? {
        Ok(data) => data,
        Err(fault) => return Ok(Err(fault)),
    };
    let mut out = vec![0; inode.file_len as usize];
    let done = flash.decompressor.decompress(inode.compressor, &data, &mut out);
    Ok(done.map(|()| out).map_err(|fault| Fault::Data { inode: inode.inode, fault }))
}

/// Reads the fields of a node and compares them with the scan and their valid ranges. `None` if the node became
/// obsolete after its eraseblock's summary was written. The flag is true if a live node is marked obsolete.
fn read_node(
    flash: &mut Flash<dyn Mtd>,
    endian: Endian,
    number: u32,
    node: NodeRef,
) -> Result<Result<Option<(Inode, bool)>, Fault>, Error> {
    let size = flash.mtd.geometry().size_bytes;
    let not_listed = Fault::NotListed { inode: number, version: node.version };
    if u64::from(node.at) + Inode::SIZE as u64 > size {
        return Ok(Err(not_listed));
    }
    let mut head = [0; Inode::SIZE];
    flash.read(u64::from(node.at), &mut head)?;
    let erase_bytes = flash.mtd.geometry().erase_bytes;
    let read = Header::parse(&head, endian).and_then(|header| Ok((header, Inode::parse(&head, endian)?)));
    let (header, inode) = match read {
        Ok(read) => read,
        Err(error) => return Ok(Err(Fault::Media(error))),
    };
    if header.node_type != NodeType::Inode || (inode.inode, inode.version) != (number, node.version) {
        return Ok(Err(not_listed));
    }
    if header.obsolete && flash.clears_bits() {
        return Ok(Ok(None));
    }
    if u64::from(header.len) > u64::from(erase_bytes - node.at % erase_bytes) {
        return Ok(Err(Fault::TooLong { len: header.len }));
    }
    let fits = Inode::SIZE as u64 + u64::from(inode.data_len) <= u64::from(header.len);
    let lengths_agree = match inode.compressor {
        Compressor::Zero => true,
        Compressor::None | Compressor::Copy => inode.file_len == inode.data_len,
        _ => inode.file_len <= NODE_FILE_BYTES_MAX,
    };
    if fits && lengths_agree {
        return Ok(Ok(Some((inode, header.obsolete))));
    }
    let Inode { data_len, file_len, compressor, .. } = inode;
    Ok(Err(Fault::Lengths { inode: number, data_len, file_len, compressor }))
}
