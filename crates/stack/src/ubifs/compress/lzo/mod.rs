//! LZO1X, a byte-oriented dictionary code: `docs/spec/lzo1x.md`.
//!
//! - [`read`]: bytes to data, hostile bytes included.
//! - [`matches`]: where in the block its bytes stood before.
//! - [`parse`]: the cheapest way through those matches.
//! - [`fast`]: the first way through that is found.
//! - [`write`]: instructions to bytes.
//!
//! Liblzo2 is not for us (GPL), and the crates that compress are slower or larger: `lzokay` 2.0 makes 1.3 % more bytes and
//! reads at half the speed.

mod fast;
mod matches;
mod parse;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::LzoFault;
pub(crate) use read::decompress;

use super::{BLOCK, Effort};
use fast::Greedy;
use matches::Matches;
use parse::Parser;
use write::Writer;

/// Bytes of the longest match with a short instruction, and how far back that reaches.
const SHORT_LEN: usize = 8;
const SHORT_DISTANCE: usize = 2048;

/// Bytes of the longest match that the three-byte instruction holds without more bytes for its length.
const MEDIUM_LEN: usize = 33;

/// Reach of the two-byte match after one to three literals.
const PAIR_DISTANCE: usize = 1024;

/// Reach of the three-byte match after four or more literals, from just beyond [`SHORT_DISTANCE`].
const TRIPLE_DISTANCE: usize = 3072;

/// Literals that an instruction's last two bits count.
const TRAILING: usize = 3;

/// Literals of the longest run with a one-byte instruction, and of the longest run with one at the start of a block.
const RUN: usize = 18;
const FIRST_RUN: usize = 238;

/// Length that each zero byte adds to an instruction's length.
const CHAIN: usize = 255;

/// A block compressor with its tables.
pub(super) struct Lzo(Kind);

enum Kind {
    Smallest(Smallest),
    Fast(Box<Greedy>),
}

/// The compressor that takes the cheapest way.
#[derive(Default)]
struct Smallest {
    matches: Box<Matches>,
    parser: Box<Parser>,
}

impl Lzo {
    pub(super) fn new(effort: Effort) -> Self {
        Self(match effort {
            Effort::Smallest => Kind::Smallest(Smallest::default()),
            Effort::Fast => Kind::Fast(Box::default()),
        })
    }

    /// Appends `data`, at most a block, compressed.
    pub(super) fn compress(&mut self, data: &[u8], out: &mut Vec<u8>) {
        debug_assert!(data.len() <= BLOCK, "blocks only");
        match &mut self.0 {
            Kind::Smallest(lzo) => lzo.compress(data, out),
            Kind::Fast(lzo) => lzo.compress(data, out),
        }
    }
}

impl Smallest {
    fn compress(&mut self, data: &[u8], out: &mut Vec<u8>) {
        self.matches.find(data);
        self.parser.solve(data.len(), self.matches.found());
        let mut writer = Writer::new(out);
        let mut at = 0;
        for step in self.parser.steps(data.len(), self.matches.found()) {
            writer.literals(data.get(at..at + step.literals).unwrap_or(&[]));
            writer.copy(step.literals, step.copy);
            at += step.literals + step.copy.len();
        }
        writer.literals(data.get(at..).unwrap_or(&[]));
        writer.end();
    }
}
