//! Writing index nodes into the gaps of index LEBs, if no LEB is empty (Linux: `layout_in_gaps` in
//! `fs/ubifs/tnc_commit.c`).
//!
//! An index LEB is read, nodes of the tree and of the committed index keep their positions, new nodes are placed
//! between them, and the LEB is replaced atomically.

use core::ops::Range;

use super::collect::IndexNodeRef;
use super::commit::{Pending, Work};
use super::load::index_node;
use super::{IndexHead, IndexSpace, Tnc};
use crate::ubifs::error::{Error, Result, narrow};
use crate::ubifs::io::DynIo;
use crate::ubifs::layout::align8;
use crate::ubifs::space::LebSpace;
use floatgate_media::ubifs::{Frame, Node, NodeType, pad, padding_bytes};
use floatgate_media::{MediaError, Reason};

/// A node in an index LEB that must stay.
#[derive(Debug)]
struct RetainedNode {
    /// Range of its bytes, with alignment.
    span: Range<usize>,
    /// True if the tree contains it, not only the committed index.
    live: bool,
}

/// An index LEB whose gaps are being filled.
struct Filling {
    lnum: u32,
    bytes: Vec<u8>,
    dirty: usize,
    written: usize,
}

impl Tnc {
    /// Fills gaps of index LEBs until the empty LEBs suffice for the rest, or no index LEB is left.
    pub(super) fn fill_gaps<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        head: IndexHead,
        work: &mut Work,
    ) -> Result<()> {
        let mut filled = Vec::new();
        while work.lacks_lebs(io.layout(), head) {
            let Some(lnum) = space.find_dirty_index()? else { break };
            filled.push(lnum);
            self.fill_leb(io, space, lnum, work)?;
        }
        for lnum in filled {
            let leb = space.get(lnum)?;
            space.set(lnum, LebSpace { taken: false, ..leb })?;
        }
        Ok(())
    }

    fn fill_leb<S: IndexSpace>(
        &mut self,
        io: &mut DynIo<'_>,
        space: &mut S,
        lnum: u32,
        work: &mut Work,
    ) -> Result<()> {
        let mut bytes = vec![0; io.layout().leb_bytes() as usize];
        io.read(lnum, 0, &mut bytes)?;
        let retained = self.retained_nodes(io, lnum, &bytes)?;
        let mut filling = Filling { lnum, bytes, dirty: 0, written: 0 };
        let mut from = 0;
        for RetainedNode { span, live } in retained {
            let end = self.fill_gap(io, &mut filling, from..span.start, work)?;
            filling.pad(end..span.start);
            filling.dirty += if live { 0 } else { span.len() };
            from = span.end;
        }
        let leb_bytes = filling.bytes.len();
        let end = self.fill_gap(io, &mut filling, from..leb_bytes, work)?;
        let padded = end.next_multiple_of(io.layout().min_io_bytes().max(8) as usize);
        filling.pad(end..padded);
        // Without a new node the LEB is not rewritten, but its properties may change: the garbage collector counts
        // space as free that becomes free only with the commit.
        if filling.written > 0 {
            io.change(lnum, filling.bytes.get(..padded).unwrap_or(&filling.bytes))?;
        }
        let free = narrow("free space", leb_bytes.saturating_sub(padded))?;
        let dirty = narrow("dirty space", filling.dirty)?;
        space.set(lnum, LebSpace { free, dirty, index: true, taken: true })
    }

    /// Writes as many nodes as fit into a gap, and returns their end offset.
    fn fill_gap(
        &mut self,
        io: &mut DynIo<'_>,
        filling: &mut Filling,
        gap: Range<usize>,
        work: &mut Work,
    ) -> Result<usize> {
        let mut out = Vec::new();
        while let Some(&next) = work.nodes.front() {
            let offset = gap.start + out.len();
            if gap.end < offset + align8(next.len) as usize {
                break;
            }
            self.append_in_gap(io, filling.lnum, offset, next, &mut out)?;
            filling.written += 1;
            work.nodes.pop_front();
        }
        let end = gap.start + out.len();
        if let Some(room) = filling.bytes.get_mut(gap.start..end) {
            room.copy_from_slice(&out);
        }
        Ok(end)
    }

    fn append_in_gap(
        &mut self,
        io: &mut DynIo<'_>,
        lnum: u32,
        offset: usize,
        pending: Pending,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let offset = narrow("offset", offset)?;
        self.append(io, pending, IndexHead { lnum, offset }, &mut Vec::new(), out)
    }

    /// Nodes of an index LEB that must stay, in order.
    fn retained_nodes(&mut self, io: &mut DynIo<'_>, lnum: u32, bytes: &[u8]) -> Result<Vec<RetainedNode>> {
        let mut retained = Vec::new();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let padding = padding_bytes(rest);
            if padding > 0 {
                at += padding;
                continue;
            }
            let offset = narrow("offset", at)?;
            let frame = match Frame::parse(rest) {
                Ok(frame) => frame,
                Err(MediaError { reason: Reason::Erased, .. }) => break,
                Err(source) => return Err(Error::node(lnum, offset, source)),
            };
            let end = at + self.node_end(io, lnum, offset, &frame)?;
            if frame.node_type == NodeType::Index
                && let Some(live) = self.use_of_frame(io, lnum, offset, &frame)?
            {
                retained.push(RetainedNode { span: at..end, live });
            }
            at = end;
        }
        Ok(retained)
    }

    /// Bytes from the start of a node to where the next can begin.
    fn node_end(&self, io: &DynIo<'_>, lnum: u32, offset: u32, frame: &Frame<'_>) -> Result<usize> {
        let misfit = |source| Error::node(lnum, offset, source);
        match frame.node().map_err(misfit)? {
            Node::Index(_) => Ok(frame.as_bytes().len().next_multiple_of(8)),
            Node::Padding(padding) => {
                padding.check(&io.layout().limits).map_err(misfit)?;
                Ok(narrow("padding", padding.total_bytes())? as usize)
            }
            _ => Err(Error::WrongNode { lnum, offset, expected: NodeType::Index, found: frame.node_type }),
        }
    }

    fn use_of_frame(
        &mut self,
        io: &mut DynIo<'_>,
        lnum: u32,
        offset: u32,
        frame: &Frame<'_>,
    ) -> Result<Option<bool>> {
        let node = index_node(frame, &io.layout().limits, lnum, offset)?;
        let key = node.branch(0).map(|branch| branch.key).unwrap_or_default();
        self.use_of(io, IndexNodeRef { level: node.level(), key, lnum, offset })
    }
}

impl Filling {
    /// Pads the unused rest of a gap.
    fn pad(&mut self, range: Range<usize>) {
        self.dirty += range.len();
        if let Some(room) = self.bytes.get_mut(range) {
            pad(room);
        }
    }
}
