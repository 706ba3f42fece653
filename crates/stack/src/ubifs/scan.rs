//! Scanning a LEB for nodes, for garbage collection, replay, recovery and checks (Linux: `fs/ubifs/scan.c`).

use floatgate_media::ubifs::{Frame, Key, NODE_MAGIC, Node, NodeType, PaddingNode, Stamp, padding_bytes};
use floatgate_media::{MediaError, Reason};

use super::error::{Error, Result};
use super::io::DynIo;
use super::layout::{NodePos, align8};
use crate::volume::VolumeFault;

/// Contents of a position at which a node could begin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scanned<'a> {
    /// A node that is not padding.
    Node(Frame<'a>),
    /// Padding of this many bytes, a multiple of 8.
    Padding(u32),
    /// Only 0xFF: the position is erased.
    Empty,
    /// No node begins here.
    Garbage,
    /// A node begins here, but it is damaged.
    CorruptNode(MediaError),
    /// A damaged padding node.
    BadPadding,
}

impl Scanned<'_> {
    /// Distance to the next possible node, if this position is not damaged or empty.
    pub(crate) fn advance(&self) -> Option<u32> {
        match self {
            Self::Node(frame) => Some(align8(u32::try_from(frame.as_bytes().len()).unwrap_or(u32::MAX - 7))),
            Self::Padding(bytes) => Some(*bytes),
            Self::Empty | Self::Garbage | Self::CorruptNode(_) | Self::BadPadding => None,
        }
    }
}

/// Parses the start of `bytes`, which extend to the end of the LEB.
pub(crate) fn scan_node(bytes: &[u8]) -> Scanned<'_> {
    let frame = match Frame::parse(bytes) {
        Ok(frame) => frame,
        Err(error) => return scan_no_node(bytes, error),
    };
    if frame.node_type != NodeType::Padding {
        return Scanned::Node(frame);
    }
    let padding = match frame.node() {
        Ok(Node::Padding(padding)) => padding_len(&padding, bytes.len()),
        _ => None,
    };
    padding.map_or(Scanned::BadPadding, Scanned::Padding)
}

fn padding_len(padding: &PaddingNode, room: usize) -> Option<u32> {
    let total = u32::try_from(padding.total_bytes()).ok()?;
    (total.is_multiple_of(8) && total as usize <= room).then_some(total)
}

fn scan_no_node(bytes: &[u8], error: MediaError) -> Scanned<'_> {
    match error.reason {
        Reason::Erased => Scanned::Empty,
        Reason::BadMagic { .. } => match padding_bytes(bytes) {
            0 => Scanned::Garbage,
            run => Scanned::Padding(u32::try_from(run).unwrap_or(u32::MAX)),
        },
        // The bytes are too few for a header.
        Reason::Truncated { .. } if bytes.len() < 24 => Scanned::Garbage,
        _ => Scanned::CorruptNode(error),
    }
}

/// A node found by a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScannedNode {
    /// Sequence number and group.
    pub(crate) stamp: Stamp,
    /// Type of the node.
    pub(crate) node_type: NodeType,
    /// Key, if nodes of its type have one.
    pub(crate) key: Option<Key>,
    /// Position of the node.
    pub(crate) place: NodePos,
}

impl ScannedNode {
    pub(crate) fn new(frame: &Frame<'_>, lnum: u32, offset: u32) -> Result<Self> {
        let len = u32::try_from(frame.as_bytes().len()).unwrap_or(u32::MAX);
        let node = frame.node().map_err(|source| Error::node(lnum, offset, source))?;
        let key = match node {
            Node::Inode(node) => Some(node.inode.key),
            Node::Data(node) => Some(node.block.key),
            Node::Entry(node) => Some(node.entry.key),
            _ => None,
        };
        let place = NodePos { lnum, offset, len };
        Ok(Self { stamp: frame.stamp, node_type: frame.node_type, key, place })
    }
}

/// The nodes of a LEB.
#[derive(Clone, Debug)]
pub(crate) struct ScannedLeb {
    /// Number of the LEB.
    pub(crate) lnum: u32,
    /// Offset at which the scan started.
    pub(crate) start: u32,
    /// Nodes in order, without padding.
    pub(crate) nodes: Vec<ScannedNode>,
    /// Offset after the last write, a multiple of the minimum I/O size: the rest is empty.
    pub(crate) end: u32,
    /// The LEB from `start` to its end.
    pub(crate) bytes: Vec<u8>,
}

impl ScannedLeb {
    /// Reads a LEB from `start` on, including data that ECC cannot correct, which CRCs reveal.
    pub(crate) fn read(io: &mut DynIo<'_>, lnum: u32, start: u32) -> Result<Self> {
        let bytes = read_to_end(io, lnum, start)?;
        Ok(Self { lnum, start, nodes: Vec::new(), end: start, bytes })
    }

    /// Bytes from an offset to the end of the LEB.
    pub(crate) fn from(&self, offset: u32) -> &[u8] {
        let skip = offset.saturating_sub(self.start) as usize;
        self.bytes.get(skip..).unwrap_or(&[])
    }

    /// Parsed frame of a scanned node.
    ///
    /// # Errors
    /// The position is outside this LEB.
    pub(crate) fn frame(&self, node: &ScannedNode) -> Result<Frame<'_>> {
        let NodePos { lnum, offset, .. } = node.place;
        Frame::parse(self.from(offset)).map_err(|source| Error::node(lnum, offset, source))
    }

    /// Scans from `end` to the first data that is neither a node nor padding, and returns its kind; [`Scanned::Empty`]
    /// also at the end of the LEB. `end` is its offset afterwards.
    ///
    /// # Errors
    /// A node with a good CRC whose fields contradict each other.
    pub(crate) fn scan(&mut self) -> Result<Stop> {
        loop {
            let rest = self.from(self.end);
            if rest.len() < 8 {
                return Ok(Stop::Empty);
            }
            let scanned = scan_node(rest);
            let Some(advance) = scanned.advance() else { return Ok(Stop::from_scanned(&scanned)) };
            if let Scanned::Node(frame) = scanned {
                // A power cut never leaves a node with a good CRC and impossible fields, so this is an error and not
                // the end of the scan.
                let node = ScannedNode::new(&frame, self.lnum, self.end)?;
                self.nodes.push(node);
            }
            self.end = self.end.saturating_add(advance);
        }
    }
}

/// Reason why a scan stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Erased space, or the end of the LEB.
    Empty,
    /// Neither a node nor padding, or padding of an invalid length.
    Garbage,
    /// A damaged node.
    Corrupt(MediaError),
}

impl Stop {
    const fn from_scanned(scanned: &Scanned<'_>) -> Self {
        match scanned {
            Scanned::CorruptNode(error) => Self::Corrupt(*error),
            Scanned::Garbage | Scanned::BadPadding => Self::Garbage,
            Scanned::Node(_) | Scanned::Padding(_) | Scanned::Empty => Self::Empty,
        }
    }
}

/// Scans an undamaged LEB.
///
/// # Errors
/// Damage ([`Error::is_damage`]): a bad node, garbage, erased space that does not start at a minimum I/O unit, data
/// after erased space. Volume failures.
pub(crate) fn scan(io: &mut DynIo<'_>, lnum: u32, start: u32) -> Result<ScannedLeb> {
    let mut leb = ScannedLeb::read(io, lnum, start)?;
    match leb.scan()? {
        Stop::Corrupt(source) => return Err(Error::node(lnum, leb.end, source)),
        Stop::Garbage => return Err(Error::corrupt(lnum, leb.end, "neither a node nor padding")),
        Stop::Empty => {}
    }
    let rest = leb.from(leb.end);
    if let Some(at) = first_written(rest) {
        let offset = leb.end.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
        return Err(Error::corrupt(lnum, offset, "data behind empty space"));
    }
    if !leb.end.is_multiple_of(io.layout().min_io_bytes()) {
        return Err(Error::corrupt(lnum, leb.end, "empty space begins inside a minimal I/O unit"));
    }
    Ok(leb)
}

/// Offset of the first byte that is not erased.
pub(crate) fn first_written(bytes: &[u8]) -> Option<usize> {
    const ONES: [u8; 4096] = [0xFF; 4096];
    let chunk = bytes.chunks(ONES.len()).position(|chunk| chunk != &ONES[..chunk.len()])?;
    let start = chunk * ONES.len();
    bytes.iter().skip(start).position(|&byte| byte != 0xFF).map(|at| start + at)
}

/// True if all bytes are erased.
pub(crate) fn is_erased(bytes: &[u8]) -> bool {
    first_written(bytes).is_none()
}

/// Reads a LEB from an offset to its end, without write buffers and including data that ECC cannot correct.
pub(crate) fn read_to_end(io: &mut DynIo<'_>, lnum: u32, start: u32) -> Result<Vec<u8>> {
    let len = io.layout().leb_bytes().saturating_sub(start);
    let mut bytes = vec![0; len as usize];
    if bytes.is_empty() {
        return Ok(bytes);
    }
    match io.volume_mut().read(lnum, start, &mut bytes) {
        Err(error) if error.fault != VolumeFault::Uncorrectable => Err(error.into()),
        _ => Ok(bytes),
    }
}

/// Maximum number of frames that a search tries in a LEB: each costs a CRC.
const TRIES_MAX: u32 = 512;

/// Scans a LEB that may be damaged anywhere. Also returns the positions of data that is neither a node nor padding.
///
/// # Errors
/// Volume failures.
pub(crate) fn scan_all(io: &mut DynIo<'_>, lnum: u32, start: u32) -> Result<(ScannedLeb, Vec<Error>)> {
    let mut leb = ScannedLeb::read(io, lnum, start)?;
    let mut damage = Vec::new();
    let mut tries = TRIES_MAX;
    loop {
        let stop = leb.scan();
        let rest = leb.from(leb.end);
        let Some(written) = first_written(rest) else { return Ok((leb, damage)) };
        damage.push(match stop {
            Ok(Stop::Corrupt(source)) => Error::node(lnum, leb.end, source),
            Ok(Stop::Garbage) => Error::corrupt(lnum, leb.end, "neither a node nor padding"),
            Ok(Stop::Empty) => Error::corrupt(lnum, leb.end, "data behind empty space"),
            Err(error) => error,
        });
        // Skips at least one 8-byte step, and all erased bytes at once.
        let skip = (written / 8 * 8).max(8);
        let Some(next) = next_node(rest, skip, &mut tries) else { return Ok((leb, damage)) };
        leb.end = leb.end.saturating_add(u32::try_from(next).unwrap_or(u32::MAX));
    }
}

/// Offset of the next good node at or after `from`.
fn next_node(bytes: &[u8], from: usize, tries: &mut u32) -> Option<usize> {
    let tail = |at: usize| bytes.get(at..).unwrap_or(&[]);
    let magics = (from..bytes.len()).step_by(8).filter(|&at| tail(at).starts_with(&NODE_MAGIC));
    for at in magics {
        *tries = tries.checked_sub(1)?;
        if Frame::parse(tail(at)).is_ok() {
            return Some(at);
        }
    }
    None
}
