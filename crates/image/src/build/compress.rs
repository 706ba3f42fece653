//! Compression of blocks on all cores, one batch at a time.

use floatgate_media::crc;
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::compress::Compressor;
use rayon::prelude::*;

use super::item::{Batch, Step};

/// Number of pieces of a batch. It exceeds the usual number of cores, because pieces take different times.
const PIECES: usize = 16;

/// Result of a block's compression: the compressor, the end of its bytes in the piece, and the CRC
/// of the uncompressed data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) how: Compression,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) crc: u32,
}

/// Part of a batch's blocks, in their order, with the compressed bytes.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) blocks: Vec<Done>,
    /// Compressed bytes of the current block.
    out: Vec<u8>,
}

/// Compressors, one for each piece of a batch.
pub(super) struct Compressors {
    how: Compression,
    all: Vec<Compressor>,
}

impl Compressors {
    pub(super) fn new(how: Compression) -> Self {
        Self { how, all: (0..PIECES).map(|_| Compressor::default()).collect() }
    }

    /// Compresses the blocks of a batch into pieces, without a change of their order.
    pub(super) fn run(&mut self, batch: &Batch, pieces: &mut Vec<Piece>) {
        let blocks: Vec<&[u8]> = batch
            .steps
            .iter()
            .filter_map(|step| match *step {
                Step::Block { start, len, .. } => batch.data.get(start..start + len),
                _ => None,
            })
            .collect();
        let each = blocks.len().div_ceil(PIECES).max(1);
        let how = self.how;
        pieces.resize_with(blocks.len().div_ceil(each), Piece::default);
        let work = self.all.par_iter_mut().zip(pieces).zip(blocks.par_chunks(each));
        work.for_each(|((compressor, piece), blocks)| piece.fill(compressor, how, blocks));
    }
}

impl Piece {
    fn fill(&mut self, compressor: &mut Compressor, how: Compression, blocks: &[&[u8]]) {
        self.bytes.clear();
        self.blocks.clear();
        for block in blocks {
            let how = compressor.compress(how, block, &mut self.out);
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&self.out);
            self.blocks.push(Done { how, start, end: self.bytes.len(), crc: crc::ubi(block) });
        }
    }
}
