//! Page layout of a NAND dump with OOB, derived from the positions of nodes and clean markers.
//!
//! Nodes follow each other without gaps. In a dump with OOB, a node that crosses the end of a page is followed by the next node at a
//! distance that is larger by the size of the OOB.

use floatgate_media::jffs2::{Endian, Header, NodeType};

use super::grid::Grid;
use crate::oob_store::CLEAN_MARKER_BYTES;
use crate::pages::{FlashSizes, PageShape, USUAL_BLOCKS, usual_block};

/// Minimum number of nodes across page ends and of clean markers in the OOB that a layout must explain. Fewer may be a
/// coincidence.
const EVIDENCE: u64 = 3;

/// Step between the tried sizes of the OOB, bytes.
const OOB_STEP: usize = 2;

/// Possible numbers of pages per block.
const PAGES_PER_BLOCK: std::ops::RangeInclusive<u64> = 16..=512;

/// Header of a node, and its offset in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocatedNode {
    /// Offset in the file.
    pub(super) at: u64,
    pub(super) header: Header,
    pub(super) endian: Endian,
}

/// Clean marker in the form that it has in the OOB.
pub(crate) fn clean_marker(endian: Endian) -> [u8; CLEAN_MARKER_BYTES] {
    let mut header = [0; Header::SIZE];
    Header::new(NodeType::CleanMarker, CLEAN_MARKER_BYTES as u32).emit(endian, &mut header);
    let mut marker = [0; CLEAN_MARKER_BYTES];
    marker.copy_from_slice(&header[..CLEAN_MARKER_BYTES]);
    marker
}

/// Pages of one size, from an offset of the file on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    page_bytes: u32,
    oob_bytes: u32,
    origin: u64,
}

impl Layout {
    const fn stride(&self) -> u64 {
        self.page_bytes as u64 + self.oob_bytes as u64
    }

    /// Converts an offset in the file to an offset in the data of the pages; `None` in the OOB.
    fn data_byte(&self, at: u64) -> Option<u64> {
        let at = at.checked_sub(self.origin)?;
        let (page, rest) = (at / self.stride(), at % self.stride());
        let page_bytes = u64::from(self.page_bytes);
        (rest < page_bytes).then_some(page * page_bytes + rest)
    }

    /// Scores of a layout: number of nodes that directly follow the previous node plus number of matching markers; and
    /// how many of these a file without OOB cannot explain.
    fn score(&self, nodes: &[LocatedNode], markers: &[u64]) -> (u64, u64) {
        let (mut links, mut evidence) = (0, 0);
        let mut before = None;
        for node in nodes {
            let at = self.data_byte(node.at);
            if let (Some((end, plain_end)), Some(at)) = (before, at)
                && end == at
            {
                links += 1;
                evidence += u64::from(plain_end != node.at);
            }
            let len = node.header.padded_len();
            before = at.map(|at| (at + len, node.at + len));
        }
        let column = |marker: &u64| marker.checked_sub(self.origin).map(|at| at % self.stride());
        let first = markers.first().and_then(column).filter(|&column| column >= u64::from(self.page_bytes));
        let marked =
            markers.iter().filter(|&marker| first.is_some() && column(marker) == first).count() as u64;
        (links + marked, evidence + marked)
    }
}

/// Pages of a dump, and offset of the first whole block in the file; `None` for a file without OOB.
pub(super) fn find(nodes: &[LocatedNode], markers: &[u64], sizes: &FlashSizes) -> Option<(PageShape, u64)> {
    let first = nodes.first()?.at;
    let plain =
        nodes.windows(2).filter(|pair| pair[0].at + pair[0].header.padded_len() == pair[1].at).count();
    if (nodes.len() - plain + markers.len()) as u64 <= EVIDENCE {
        return None;
    }
    let mut best: Option<((u64, bool, bool), Layout)> = None;
    let is_stated = |stated: Option<u32>, own| stated.is_none_or(|stated| stated == own);
    for (page_bytes, _) in USUAL_BLOCKS {
        if !is_stated(sizes.pages.page_bytes, page_bytes) {
            continue;
        }
        let all = (page_bytes / 64..=page_bytes / 8).step_by(OOB_STEP);
        for oob_bytes in all.filter(|&oob_bytes| is_stated(sizes.pages.oob_bytes, oob_bytes)) {
            for origin in [0, first] {
                let layout = Layout { page_bytes, oob_bytes, origin };
                let (links, evidence) = layout.score(nodes, markers);
                // Among equal layouts, the most common one is chosen.
                let rank = (links, oob_bytes == page_bytes / 32, oob_bytes == page_bytes / 16);
                if evidence >= EVIDENCE && links > plain as u64 && best.is_none_or(|(most, _)| rank > most) {
                    best = Some((rank, layout));
                }
            }
        }
    }
    best.map(|(_, layout)| with_blocks(layout, nodes, markers, sizes))
}

/// Adds the block size: the stated size, the distance of clean markers, a size whose boundaries no node crosses, or the most common size, in this
/// order.
fn with_blocks(
    layout: Layout,
    nodes: &[LocatedNode],
    markers: &[u64],
    sizes: &FlashSizes,
) -> (PageShape, u64) {
    let Layout { page_bytes, oob_bytes, origin } = layout;
    let is_possible = |pages: &u64| PAGES_PER_BLOCK.contains(pages) && pages.is_power_of_two();
    let page_of = |marker: &u64| marker.checked_sub(origin).map(|at| at / layout.stride());
    let first = markers.first().and_then(page_of);
    let distances = markers.iter().filter_map(|marker| Some(page_of(marker)?.abs_diff(first?)));
    let marked =
        Some(1 << distances.fold(0, |all, one| all | one).trailing_zeros().min(63)).filter(is_possible);
    let usual = u64::from(usual_block(page_bytes));
    let of_peb = sizes.peb_bytes.map(|bytes| bytes / page_bytes).filter(|pages| *pages > 0);
    let stated = sizes.pages.pages_per_block.or(of_peb).map(u64::from);
    let pages = stated.or(marked).unwrap_or_else(|| {
        let told = grid(layout, nodes).erase_bytes(None).map(|bytes| bytes / u64::from(page_bytes));
        told.filter(is_possible).unwrap_or(usual)
    });
    let skipped = first.filter(|_| marked.is_some()).map_or(0, |page| page % pages);
    let pages_per_block = u32::try_from(pages).unwrap_or(u32::MAX);
    (PageShape { page_bytes, oob_bytes, pages_per_block }, origin + skipped * layout.stride())
}

/// Eraseblocks that the nodes allow, in the data without OOB.
fn grid(layout: Layout, nodes: &[LocatedNode]) -> Grid {
    let mut grid = Grid::new(0, None);
    let mut before = 0;
    for node in nodes {
        let Some(at) = layout.data_byte(node.at) else { continue };
        if at >= before {
            let is_padding = node.header.node_type == NodeType::Padding;
            grid.add(before, (at, at + u64::from(node.header.len)), is_padding);
            before = at + node.header.padded_len();
        }
    }
    grid
}
