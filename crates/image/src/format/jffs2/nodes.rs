//! Nodes in an eraseblock, good and damaged, and the bytes between them.

use floatgate_media::jffs2::{Endian, Header, NODE_ALIGN, NodeType};

const ALIGN: usize = NODE_ALIGN as usize;

/// A part of an eraseblock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece<'b> {
    /// A node with a good header.
    Node(Header, &'b [u8]),
    /// Bytes without a good node: damage, or other data.
    Unknown(&'b [u8]),
    /// Erased bytes.
    Erased(usize),
}

/// Pieces of an eraseblock, each with its offset in the eraseblock.
#[derive(Clone, Debug)]
pub(crate) struct Pieces<'b> {
    block: &'b [u8],
    at: usize,
    endian: Endian,
}

/// Splits an eraseblock into pieces.
pub(crate) const fn pieces(block: &[u8], endian: Endian) -> Pieces<'_> {
    Pieces { block, at: 0, endian }
}

impl<'b> Pieces<'b> {
    /// Node that begins at an offset.
    fn node(&self, at: usize) -> Option<(Header, &'b [u8])> {
        let rest = self.block.get(at..)?;
        let header = Header::parse(rest, self.endian).ok()?.as_scanned(rest);
        Some((header, rest.get(..header.len as usize)?))
    }

    fn is_erased(&self, at: usize) -> bool {
        self.block[at..].iter().take(ALIGN).all(|&byte| byte == 0xFF)
    }

    /// Bytes up to the next node, without the erased bytes before it.
    fn unknown(&self) -> &'b [u8] {
        let mut end = self.at + ALIGN;
        let mut at = end;
        while at < self.block.len() && self.node(at).is_none() {
            let next = at + ALIGN;
            if !self.is_erased(at) {
                end = next;
            }
            at = next;
        }
        &self.block[self.at..end.min(self.block.len())]
    }
}

impl<'b> Iterator for Pieces<'b> {
    type Item = (usize, Piece<'b>);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.block.get(at..).filter(|rest| !rest.is_empty())?;
        let (piece, len) = if let Some((header, node)) = self.node(at) {
            (Piece::Node(header, node), node.len().next_multiple_of(ALIGN))
        } else if self.is_erased(at) {
            let len =
                rest.chunks(ALIGN).take_while(|word| word.iter().all(|&byte| byte == 0xFF)).count() * ALIGN;
            (Piece::Erased(len.min(rest.len())), len)
        } else {
            let unknown = self.unknown();
            (Piece::Unknown(unknown), unknown.len())
        };
        self.at += len;
        Some((at, piece))
    }
}

/// Fills a part of an eraseblock with a padding node, or with FFh if the part is too small for one.
pub(super) fn pad(bytes: &mut [u8], endian: Endian) {
    if bytes.len() < Header::SIZE {
        return bytes.fill(0xFF);
    }
    bytes.fill(0);
    // No eraseblock has 4 GiB.
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    Header::new(NodeType::Padding, len).emit(endian, bytes);
}

#[cfg(test)]
mod tests {
    use floatgate_media::jffs2::NodeType;

    use super::*;

    #[test]
    fn an_eraseblock_is_taken_apart() {
        let endian = Endian::Big;
        let mut block = vec![0xFF; 128];
        Header::new(NodeType::CleanMarker, 12).emit(endian, &mut block);
        block[20..26].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        block[32] = 7;
        Header::new(NodeType::Padding, 15).emit(endian, &mut block[60..]);
        let found: Vec<(usize, usize)> = pieces(&block, endian)
            .map(|(at, piece)| match piece {
                Piece::Node(_, node) => (at, node.len()),
                Piece::Unknown(bytes) => (at, bytes.len()),
                Piece::Erased(len) => (at, len),
            })
            .collect();
        assert_eq!(found, [(0, 12), (12, 8), (20, 16), (36, 24), (60, 15), (76, 52)]);
        for cut in 0..block.len() {
            let sum = pieces(&block[..cut], endian).last().map_or(0, |(at, _)| at);
            assert!(sum <= cut);
        }
    }
}
