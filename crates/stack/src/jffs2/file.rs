//! A file: its nodes, and which of them holds which of its bytes.

use super::compress::Decompressor;
use super::damage::{Damage, Fault};
use super::{Flash, NodeRef};
use floatgate_media::jffs2::{Compressor, Endian, Header, Inode, NodeType};
use floatgate_mtd::{Error, Mtd};
use std::collections::BTreeMap;

/// Most bytes of a file in a node that is not a hole: the largest page that Linux has.
const NODE_FILE_BYTES_MAX: u32 = 1 << 16;

/// A node with its fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileNode {
    /// First byte on the flash.
    pub(super) at: u32,
    pub(super) inode: Inode,
}

impl FileNode {
    /// True when the node has no data of its own.
    pub(super) fn is_hole(&self) -> bool {
        self.inode.compressor == Compressor::Zero
    }
}

/// A piece of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    /// Byte of the file behind the piece.
    pub(super) end: u64,
    /// Index of the node that holds it.
    node: usize,
}

/// A file as its nodes make it.
#[derive(Debug, Default)]
pub(super) struct File {
    /// In the order of their versions.
    nodes: Vec<FileNode>,
    /// Pieces by their first byte; between them are holes.
    fragments: BTreeMap<u64, Fragment>,
    /// The node whose data were decompressed last, and these.
    last: Option<(u32, Vec<u8>)>,
}

impl File {
    /// Reads the nodes of a file, from the oldest to the newest; what is wrong with some goes to `damage`.
    ///
    /// # Errors
    /// The flash fails.
    pub(super) fn read<M: Mtd>(
        flash: &mut Flash<M>,
        endian: Endian,
        (inode, refs): (u32, &[NodeRef]),
        damage: &mut Vec<Damage>,
    ) -> Result<Self, Error> {
        let mut file = Self::default();
        for node in refs {
            match read_node(flash, endian, inode, *node)? {
                Ok(Some(inode)) => file.nodes.push(FileNode { at: node.at, inode }),
                Ok(None) => {}
                Err(fault) => damage.push(fault.at(u64::from(node.at))),
            }
        }
        // The newest one tells the attributes.
        while let Some(newest) = file.nodes.last().copied() {
            match file.data(flash, &newest)? {
                Ok(_) => break,
                Err(fault) => {
                    damage.push(fault.at(u64::from(newest.at)));
                    file.nodes.pop();
                }
            }
        }
        file.map();
        Ok(file)
    }

    /// The node that tells the attributes; nothing if there is none that is good.
    pub(super) fn newest(&self) -> Option<&FileNode> {
        self.nodes.last()
    }

    /// Version of that.
    pub(super) fn version(&self) -> u32 {
        self.newest().map_or(0, |node| node.inode.version)
    }

    /// Finds out which node holds which bytes: the newer ones cover the older ones, and the newest tells where the file ends.
    fn map(&mut self) {
        self.fragments.clear();
        for node in 0..self.nodes.len() {
            let inode = &self.nodes[node].inode;
            if inode.file_len > 0 {
                let (start, end) = (u64::from(inode.offset), inode.end());
                self.cut(start, end);
                self.fragments.insert(start, Fragment { end, node });
            }
        }
        let size = self.newest().map_or(0, |node| u64::from(node.inode.file_bytes));
        if self.newest().is_some_and(|node| node.inode.file_type() == Some(crate::fs::FileType::Regular)) {
            self.cut(size, u64::MAX);
        }
    }

    /// Takes the bytes between `start` and `end` from all fragments.
    fn cut(&mut self, start: u64, end: u64) {
        let before = self.fragments.range(..start).next_back().map(|(&at, fragment)| (at, *fragment));
        if let Some((at, fragment)) = before.filter(|(_, fragment)| fragment.end > start) {
            self.fragments.insert(at, Fragment { end: start, ..fragment });
            if fragment.end > end {
                self.fragments.insert(end, fragment);
            }
        }
        let inside: Vec<(u64, Fragment)> =
            self.fragments.range(start..end).map(|(&at, fragment)| (at, *fragment)).collect();
        for (at, fragment) in inside {
            self.fragments.remove(&at);
            if fragment.end > end {
                self.fragments.insert(end, fragment);
            }
        }
    }

    /// Pieces that are no holes from a byte of the file on, in order.
    pub(super) fn pieces(&self, from: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.fragments.range(..=from).next_back().map_or(from, |(&at, _)| at);
        let all = self.fragments.range(first..).filter(move |(_, fragment)| fragment.end > from);
        all.filter(|(_, fragment)| !self.nodes[fragment.node].is_hole())
            .map(|(&at, fragment)| (at, fragment.end))
    }

    /// Reads bytes of the file that are inside its size; holes are zeros. A node whose data are damaged gives way to those before.
    ///
    /// # Errors
    /// The flash fails.
    pub(super) fn read_at<M: Mtd>(
        &mut self,
        flash: &mut Flash<M>,
        offset: u64,
        buf: &mut [u8],
        damage: &mut Vec<Damage>,
    ) -> Result<(), Error> {
        let end = offset + buf.len() as u64;
        let mut at = offset;
        while at < end {
            let Some((start, fragment)) = self.next_fragment(at) else {
                buf[(at - offset) as usize..].fill(0);
                return Ok(());
            };
            if start > at {
                let hole_end = start.min(end);
                buf[(at - offset) as usize..(hole_end - offset) as usize].fill(0);
                at = hole_end;
                continue;
            }
            let piece_end = fragment.end.min(end);
            let out = &mut buf[(at - offset) as usize..(piece_end - offset) as usize];
            let node = self.nodes[fragment.node];
            let first = (at - u64::from(node.inode.offset)) as usize;
            match self.copy(flash, &node, first, out)? {
                Ok(()) => at = piece_end,
                // It is not among the nodes any more.
                Err(_) => self.drop_damaged(flash, damage)?,
            }
        }
        Ok(())
    }

    /// Drops all nodes whose data are damaged.
    fn drop_damaged<M: Mtd>(&mut self, flash: &mut Flash<M>, damage: &mut Vec<Damage>) -> Result<(), Error> {
        for node in std::mem::take(&mut self.nodes) {
            match self.data(flash, &node)? {
                Ok(_) => self.nodes.push(node),
                Err(fault) => damage.push(fault.at(u64::from(node.at))),
            }
        }
        self.map();
        Ok(())
    }

    /// The fragment with a byte of the file, or the next one.
    fn next_fragment(&self, at: u64) -> Option<(u64, Fragment)> {
        let here = self.fragments.range(..=at).next_back().filter(|(_, fragment)| fragment.end > at);
        here.or_else(|| self.fragments.range(at..).next()).map(|(&at, fragment)| (at, *fragment))
    }

    /// Copies bytes of a node from its byte `first` on.
    fn copy<M: Mtd>(
        &mut self,
        flash: &mut Flash<M>,
        node: &FileNode,
        first: usize,
        out: &mut [u8],
    ) -> Result<Result<(), Fault>, Error> {
        if node.is_hole() {
            out.fill(0);
            return Ok(Ok(()));
        }
        if self.last.as_ref().is_none_or(|(at, _)| *at != node.at) {
            match self.data(flash, node)? {
                Ok(data) => self.last = Some((node.at, data)),
                Err(fault) => return Ok(Err(fault)),
            }
        }
        let data = self.last.as_ref().map_or(&[][..], |(_, data)| data);
        // A node gives all the bytes of the file that it says.
        out.copy_from_slice(&data[first..first + out.len()]);
        Ok(Ok(()))
    }

    /// Reads and decompresses the data of a node; none of a hole.
    pub(super) fn data<M: Mtd>(
        &self,
        flash: &mut Flash<M>,
        node: &FileNode,
    ) -> Result<Result<Vec<u8>, Fault>, Error> {
        if node.is_hole() || node.inode.data_len == 0 && node.inode.file_len == 0 {
            return Ok(Ok(Vec::new()));
        }
        let inode = &node.inode;
        let mut data = vec![0; inode.data_len as usize];
        flash.read(u64::from(node.at) + Inode::SIZE as u64, &mut data)?;
        if let Err(error) = inode.check_data(&data) {
            return Ok(Err(Fault::Media(error)));
        }
        let mut out = vec![0; inode.file_len as usize];
        let done = Decompressor::default().decompress(inode.compressor, &data, &mut out);
        Ok(done.map(|()| out).map_err(|fault| Fault::Data { inode: inode.inode, fault }))
    }
}

/// Reads the fields of a node and checks that they are possible, and what the scan has of it. Nothing comes of a node that became
/// obsolete after the summary of its eraseblock was written.
fn read_node<M: Mtd>(
    flash: &mut Flash<M>,
    endian: Endian,
    number: u32,
    node: NodeRef,
) -> Result<Result<Option<Inode>, Fault>, Error> {
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
    if header.obsolete {
        return Ok(Ok(None));
    }
    if u64::from(header.len) > u64::from(erase_bytes - node.at % erase_bytes) {
        return Ok(Err(Fault::TooLong { len: header.len }));
    }
    let fits = Inode::SIZE as u64 + u64::from(inode.data_len) <= u64::from(header.len);
    let is_hole = inode.compressor == Compressor::Zero;
    if fits && (is_hole || inode.file_len <= NODE_FILE_BYTES_MAX) {
        return Ok(Ok(Some(inode)));
    }
    let Inode { data_len, file_len, compressor, .. } = inode;
    Ok(Err(Fault::Lengths { inode: number, data_len, file_len, compressor }))
}
