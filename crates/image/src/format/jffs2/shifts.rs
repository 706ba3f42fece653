//! Eraseblocks that are shifted, because bytes before them are missing or were inserted: their positions, and the
//! changes that correct the positions.
//!
//! No node crosses the end of an eraseblock, and clean markers and summaries are at its ends. Nodes are added in
//! order until no start of an eraseblock is possible. Then bytes are missing or were inserted, most likely at data
//! other than nodes between the nodes.

use std::ops::Range;

use super::grid::{ERASE_USUAL, sizes};
use super::splices::Splice;
use floatgate_media::jffs2::{Endian, NODE_ALIGN};

const ALIGN: u64 = NODE_ALIGN as u64;

/// Smallest number of eraseblocks for each shift at which no other data is between the nodes. More such shifts
/// contradict a size. Fewer are accepted: a whole number of nodes is then missing.
const CROSSED_OF: u64 = 4;

/// Number of such shifts, with any number of eraseblocks, after which a size is rejected.
const CROSSED_MIN: u64 = 8;

/// A node of a file, with the properties from which eraseblocks are derived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) edge: Edge,
    /// True if other data than erased flash is before the node.
    pub(super) is_apart: bool,
    /// Expected offset of the node according to a damaged node before it.
    pub(super) expected: Option<u64>,
}

impl Node {
    pub(super) fn end(&self) -> u64 {
        self.at + u64::from(self.len)
    }

    pub(super) fn padded_end(&self) -> u64 {
        self.at + u64::from(self.len).next_multiple_of(ALIGN)
    }
}

/// Position of a node in its eraseblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// Unknown position.
    No,
    /// First node: a clean marker.
    Begins,
    /// Last node: a summary.
    Ends,
}

/// Possible starts of eraseblocks, in words modulo their size: starts that no node crosses.
#[derive(Clone, Debug)]
struct BlockStarts {
    words: Vec<bool>,
    left: usize,
    /// Offset of nodes modulo [`NODE_ALIGN`].
    beyond: Option<u64>,
}

impl BlockStarts {
    fn all(erase_bytes: u64) -> Self {
        let words = (erase_bytes / ALIGN) as usize;
        Self { words: vec![true; words], left: words, beyond: None }
    }

    fn word(&self, at: u64) -> usize {
        ((at - self.beyond.unwrap_or(0)) / ALIGN % self.words.len() as u64) as usize
    }

    /// True if an eraseblock can begin at an offset of the file.
    fn has(&self, at: u64) -> bool {
        self.beyond.is_none_or(|beyond| at % ALIGN == beyond) && self.words[self.word(at)]
    }

    /// Excludes the starts inside a node; false if no start would remain, in which case nothing changes.
    fn narrow_by(&mut self, node: &Node) -> bool {
        if *self.beyond.get_or_insert(node.at % ALIGN) != node.at % ALIGN {
            return false;
        }
        match node.edge {
            Edge::No => self.keep_whole(node),
            Edge::Begins => self.keep_only(self.word(node.at)),
            Edge::Ends => self.keep_only(self.word(node.end())),
        }
    }

    fn keep_only(&mut self, word: usize) -> bool {
        let is_left = self.words[word];
        if is_left && self.left > 1 {
            self.words.fill(false);
            (self.words[word], self.left) = (true, 1);
        }
        is_left
    }

    /// Excludes the starts inside a node.
    fn keep_whole(&mut self, node: &Node) -> bool {
        let inside = (u64::from(node.len).div_ceil(ALIGN) - 1) as usize;
        if inside >= self.words.len() {
            return false;
        }
        let first = (self.word(node.at) + 1) % self.words.len();
        let until_end = inside.min(self.words.len() - first);
        let crossed = [first..first + until_end, 0..inside - until_end];
        let are_left =
            |range: &Range<usize>| self.words[range.clone()].iter().filter(|&&is_left| is_left).count();
        let lost: usize = crossed.iter().map(are_left).sum();
        if lost == self.left {
            return false;
        }
        self.left -= lost;
        crossed.into_iter().for_each(|range| self.words[range].fill(false));
        true
    }

    fn fits(&self, other: &Self) -> bool {
        self.beyond == other.beyond && self.words.iter().zip(&other.words).any(|(one, other)| *one && *other)
    }
}

/// Nodes whose eraseblocks are not shifted relative to each other.
#[derive(Clone, Debug)]
struct Row {
    nodes: Range<usize>,
    block_starts: BlockStarts,
}

/// Eraseblocks of a stretch of nodes.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) erase_bytes: u64,
    rows: Vec<Row>,
    /// Number of rows that begin without other data before them.
    crossed: u64,
    /// Number of eraseblocks that nodes fill in their rows.
    filled: u64,
}

impl Layout {
    /// Layout with eraseblocks of one size; `None` if nodes contradict the size.
    pub(super) fn fitted(nodes: &[Node], erase_bytes: u64) -> Option<Self> {
        let mut layout = Self { erase_bytes, rows: Vec::new(), crossed: 0, filled: 0 };
        let mut block_starts = BlockStarts::all(erase_bytes);
        let (mut first, mut at) = (0, 0);
        let mut apart: Option<(usize, BlockStarts)> = None;
        while let Some(node) = nodes.get(at) {
            if node.is_apart && at > first {
                apart = Some((at, block_starts.clone()));
            }
            if block_starts.narrow_by(node) {
                at += 1;
                continue;
            }
            if at == first {
                return None;
            }
            let (end, kept) = apart.take().unwrap_or((at, block_starts));
            layout.crossed += u64::from(!nodes[end].is_apart);
            layout.push(nodes, first..end, kept);
            if layout.crossed > CROSSED_MIN && layout.is_contradicted() {
                return None;
            }
            (first, at, block_starts) = (end, end, BlockStarts::all(erase_bytes));
        }
        layout.push(nodes, first..at, block_starts);
        layout.join_around_strays(nodes);
        Some(layout)
    }

    fn push(&mut self, all: &[Node], nodes: Range<usize>, block_starts: BlockStarts) {
        let bytes: u64 = all[nodes.clone()].iter().map(|node| u64::from(node.len)).sum();
        self.filled += bytes / self.erase_bytes;
        self.rows.push(Row { nodes, block_starts });
    }

    /// Joins rows that fit each other around a row that fits neither. Such a row consists of nodes in the data of a
    /// file whose own node is damaged.
    fn join_around_strays(&mut self, nodes: &[Node]) {
        let mut rows: Vec<Row> = Vec::new();
        for row in std::mem::take(&mut self.rows) {
            if let [.., before, stray] = rows.as_mut_slice()
                && nodes[stray.nodes.end - 1].end() - nodes[stray.nodes.start].at < self.erase_bytes
                && before.block_starts.fits(&row.block_starts)
            {
                before.nodes.end = row.nodes.end;
                before.block_starts = row.block_starts;
                rows.pop();
            } else {
                rows.push(row);
            }
        }
        self.rows = rows;
    }

    /// Most likely eraseblocks of a stretch; the flag is true if nodes imply their size.
    pub(super) fn find(nodes: &[Node]) -> Option<(Self, bool)> {
        let all: Vec<Self> = sizes().filter_map(|size| Self::fitted(nodes, size)).collect();
        let fewest = all.iter().map(|layout| layout.crossed).min()?;
        let sure = all.iter().find(|layout| layout.is_sure(nodes));
        let told = all.iter().rev().find(|layout| layout.crossed == fewest && layout.has_edges(nodes));
        let told = sure.into_iter().chain(told).min_by_key(|layout| layout.erase_bytes);
        let guess =
            || all.iter().find(|layout| layout.crossed == fewest && layout.erase_bytes >= ERASE_USUAL);
        told.map(|layout| (layout.clone(), true)).or_else(|| Some((guess()?.clone(), false)))
    }

    /// True if the remaining starts of eraseblocks are no coincidence: by chance, less than a hundredth of a start
    /// would remain.
    fn is_sure(&self, nodes: &[Node]) -> bool {
        let bytes: u64 = nodes.iter().map(|node| u64::from(node.len)).sum();
        let ends = nodes.len() as u64 * ALIGN;
        let by_chance = (0..self.filled).try_fold(100 * self.erase_bytes / ALIGN, |places, _| {
            Some(places * ends.min(bytes) / bytes.max(1)).filter(|&places| places > 0)
        });
        by_chance.is_none() && !self.is_contradicted()
    }

    pub(super) const fn is_contradicted(&self) -> bool {
        self.crossed * CROSSED_OF > self.filled
    }

    /// True if clean markers or summaries imply the size.
    fn has_edges(&self, nodes: &[Node]) -> bool {
        self.rows.iter().any(|row| {
            let place = |node: &Node| match node.edge {
                Edge::No => None,
                Edge::Begins => Some(node.at),
                Edge::Ends => Some(node.end()),
            };
            let mut edges = nodes[row.nodes.clone()].iter().filter_map(place);
            let first = edges.next();
            edges.any(|edge| Some(edge) != first)
        })
    }

    pub(super) const fn is_shifted(&self) -> bool {
        self.rows.len() > 1
    }

    /// Number of bytes of the first eraseblock before the first node, if eraseblocks most likely begin at the offsets
    /// `likely`.
    pub(super) fn bytes_before_first(&self, nodes: &[Node], likely: [u64; 2]) -> u64 {
        let (row, first) = (&self.rows[0], nodes[0].at);
        let starts = nodes[row.nodes.clone()].iter().map(|node| node.at);
        let words = (0..self.erase_bytes / ALIGN).map(|word| first + word * ALIGN);
        let begins = likely.into_iter().chain(starts).chain(words).find(|&at| row.block_starts.has(at));
        let begins = begins.unwrap_or(first) % self.erase_bytes;
        (first % self.erase_bytes + self.erase_bytes - begins) % self.erase_bytes
    }

    /// Changes that put all eraseblocks into their positions, if `into_first` bytes of the first eraseblock are
    /// before the first node.
    pub(super) fn splices(&self, nodes: &[Node], into_first: u64, endian: Endian) -> Vec<Splice> {
        let erase = self.erase_bytes;
        let mut begins = (nodes[0].at + erase - into_first) % erase;
        let mut splices = Vec::new();
        for row in &self.rows[1..] {
            let (before, first) = (nodes[row.nodes.start - 1].padded_end(), &nodes[row.nodes.start]);
            let missing = self.missing(row, nodes, begins);
            // Filled up to the next end of an eraseblock.
            let rest = erase - (before + erase - begins) % erase;
            splices.push(Splice::new(before..first.at, missing, (rest, erase), endian));
            begins = (begins + erase - missing) % erase;
            splices.extend(self.summary(row, nodes, begins, endian));
        }
        splices
    }

    /// Number of bytes that are missing before a row, modulo the eraseblock size; earlier eraseblocks begin at
    /// `begins`.
    fn missing(&self, row: &Row, nodes: &[Node], begins: u64) -> u64 {
        let (erase, first) = (self.erase_bytes, nodes[row.nodes.start]);
        let fits = |&missing: &u64| row.block_starts.has(begins + erase - missing);
        let expected =
            first.expected.map(|expected| (expected + erase - first.at % erase) % erase).filter(fits);
        let of_place = |at: u64| (begins + erase - at % erase) % erase;
        let starts = nodes[row.nodes.clone()].iter().map(|node| of_place(node.at));
        let words = (0..erase / ALIGN).map(|word| of_place(first.at + word * ALIGN));
        let fewest = |missing: &u64| (*missing).min(erase - missing);
        expected
            .or_else(|| starts.filter(fits).min_by_key(fewest))
            .or_else(|| words.filter(fits).min_by_key(fewest))
            .unwrap_or(0)
    }

    /// Removes the summary of the eraseblock in which a row begins, because it lists the earlier nodes of this
    /// eraseblock.
    fn summary(&self, row: &Row, nodes: &[Node], begins: u64, endian: Endian) -> Option<Splice> {
        let erase = self.erase_bytes;
        let into = (nodes[row.nodes.start].at + erase - begins) % erase;
        let end = nodes[row.nodes.start].at + erase - into;
        let mut of_row = nodes[row.nodes.clone()].iter();
        let summary = of_row.find(|node| node.edge == Edge::Ends && node.end() == end && into > 0)?;
        Some(Splice::new(summary.at..end, 0, (u64::from(summary.len), erase), endian))
    }
}
