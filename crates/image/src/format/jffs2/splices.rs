//! View of a file that puts shifted eraseblocks into their positions: surplus bytes are omitted, and padding nodes
//! replace missing bytes.

use std::fmt;
use std::ops::Range;

use floatgate_media::jffs2::{Endian, Header, NodeType};
use floatgate_stack::Store;
use floatgate_stack::store::StoreError;

use crate::words::count;

/// Omitted bytes of a file, with the padding nodes that replace them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    left_out: Range<u64>,
    padding: u64,
    /// Largest sizes of the first padding node, and of the others, bytes.
    nodes: (u64, u64),
    endian: Endian,
}

impl Splice {
    /// Padding that is `missing` bytes longer than the omitted bytes. It is shorter instead if this needs less than
    /// half an eraseblock.
    pub(super) fn new(left_out: Range<u64>, missing: u64, nodes: (u64, u64), endian: Endian) -> Self {
        let (len, erase) = (left_out.end - left_out.start, nodes.1);
        let padding = match len.checked_sub(erase - missing) {
            Some(fewer) if missing > erase / 2 => fewer,
            _ => len + missing,
        };
        Self { left_out, padding, nodes, endian }
    }

    /// Description of the fault with its offset in the file; `None` for a summary.
    pub(crate) fn finding(&self) -> Option<(u64, String)> {
        let left_out = self.left_out.end - self.left_out.start;
        let are = match self.padding.checked_sub(left_out) {
            Some(0) => return None,
            Some(missing) => format!("{} missing", count(missing, "byte")),
            None => format!("{} too many", count(left_out - self.padding, "byte")),
        };
        let of = format!("{are}, beside any number of eraseblocks of {} bytes", self.nodes.1);
        Some((self.left_out.start, of))
    }

    /// Reads the padding from an offset on.
    fn read(&self, at: u64, mut buf: &mut [u8]) {
        let (first, others) = self.nodes;
        let mut at = at;
        while !buf.is_empty() {
            let into = at.checked_sub(first).map_or(at, |behind| behind % others);
            let node = (if at < first { first } else { others }).min(self.padding - (at - into));
            let len = usize::try_from(node - into).unwrap_or(usize::MAX).min(buf.len());
            let (piece, rest) = buf.split_at_mut(len);
            self.read_node(node, into, piece);
            (at, buf) = (at + len as u64, rest);
        }
    }

    /// Reads a padding node of `node` bytes from offset `into` on. A node that is too short for a header reads as
    /// erased.
    fn read_node(&self, node: u64, into: u64, buf: &mut [u8]) {
        if node < Header::SIZE as u64 {
            return buf.fill(0xFF);
        }
        buf.fill(0);
        let mut header = [0; Header::SIZE];
        Header::new(NodeType::Padding, u32::try_from(node).unwrap_or(u32::MAX))
            .emit(self.endian, &mut header);
        let header = header.get(usize::try_from(into).unwrap_or(usize::MAX)..).unwrap_or_default();
        buf.iter_mut().zip(header).for_each(|(byte, &of_header)| *byte = of_header);
    }
}

/// File with its eraseblocks in their positions, for reading.
pub(crate) struct Spliced<S> {
    inner: S,
    splices: Splices,
}

/// Splices in the order of the file, each with the offset of its padding in the view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Splices(Vec<(u64, Splice)>);

impl Splices {
    pub(crate) fn new(splices: impl IntoIterator<Item = Splice>) -> Self {
        let mut all: Vec<(u64, Splice)> = Vec::new();
        for splice in splices {
            // Splices of both byte orders may overlap.
            if all.last().is_some_and(|(_, last)| splice.left_out.start < last.left_out.end) {
                continue;
            }
            let at = all.last().map_or(splice.left_out.start, |(at, last)| {
                at + last.padding + (splice.left_out.start - last.left_out.end)
            });
            all.push((at, splice));
        }
        Self(all)
    }

    /// All splices of the images in a file.
    pub(crate) fn of<'s>(splices: impl Iterator<Item = &'s Splice>) -> Self {
        let mut all: Vec<Splice> = splices.cloned().collect();
        all.sort_by_key(|splice| splice.left_out.start);
        Self::new(all)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Splices in a part of the view.
    pub(crate) fn within(&self, part: Range<u64>) -> impl Iterator<Item = &Splice> {
        self.0.iter().filter(move |(at, _)| part.contains(at)).map(|(_, splice)| splice)
    }

    /// Offset in the file for an offset in the view; for padding, the first omitted byte.
    pub(crate) fn file_byte(&self, at: u64) -> u64 {
        match self.before(at) {
            None => at,
            Some((start, splice)) if at - start < splice.padding => splice.left_out.start,
            Some((start, splice)) => splice.left_out.end + (at - start - splice.padding),
        }
    }

    /// Offset in the view for an offset in the file; for an omitted byte, its position in the padding.
    pub(crate) fn place(&self, at: u64) -> u64 {
        let number = self.0.partition_point(|(_, splice)| splice.left_out.end <= at);
        match self.0.get(number) {
            Some((start, splice)) if splice.left_out.start <= at => *start,
            _ => self.0[..number]
                .last()
                .map_or(at, |(start, last)| start + last.padding + (at - last.left_out.end)),
        }
    }

    fn before(&self, at: u64) -> Option<&(u64, Splice)> {
        self.0[..self.0.partition_point(|(start, _)| *start <= at)].last()
    }

    /// End of the range with the same file bytes or the same padding.
    fn end(&self, at: u64) -> u64 {
        match self.before(at) {
            Some((start, splice)) if at - start < splice.padding => start + splice.padding,
            _ => {
                self.0.get(self.0.partition_point(|(start, _)| *start <= at)).map_or(u64::MAX, |next| next.0)
            }
        }
    }
}

impl fmt::Display for Splices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self
            .0
            .iter()
            .filter_map(|(_, splice)| splice.finding())
            .map(|(at, what)| format!("at byte {at} ({at:#x}) {what}"))
            .collect();
        f.write_str(&all.join("; "))
    }
}

impl<S: Store> Spliced<S> {
    pub(crate) const fn new(inner: S, splices: Splices) -> Self {
        Self { inner, splices }
    }
}

impl<S: Store> Store for Spliced<S> {
    fn size_bytes(&self) -> u64 {
        let size = self.inner.size_bytes();
        self.splices.0.last().map_or(size, |(at, last)| at + last.padding + (size - last.left_out.end))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let len = usize::try_from(self.splices.end(at) - at).unwrap_or(usize::MAX).min(rest.len());
            let (piece, behind) = rest.split_at_mut(len);
            match self.splices.before(at) {
                Some((start, splice)) if at - start < splice.padding => splice.read(at - start, piece),
                _ => self.inner.read_at(self.splices.file_byte(at), piece)?,
            }
            (at, rest) = (at + len as u64, behind);
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, _: &[u8]) -> Result<(), StoreError> {
        let reason = "bytes are missing in the file, or too many".to_owned();
        Err(StoreError { action: "writing", offset, reason })
    }
}
