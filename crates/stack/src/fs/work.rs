//! CPU work of a filesystem.

use core::ops::Sub;

/// Compression algorithm, as distinguished by its CPU cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// LZO1X compression.
    Lzo,
    /// Deflate, with zlib's header or without.
    Zlib,
    /// Zstandard compression.
    Zstd,
    /// JFFS2's run lengths.
    Rtime,
    /// JFFS2's arithmetic coder, and all codecs that are only read.
    Rubin,
}

impl Codec {
    /// All algorithms.
    pub const ALL: [Self; 5] = [Self::Lzo, Self::Zlib, Self::Zstd, Self::Rtime, Self::Rubin];
}

/// Calls and bytes of a codec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Through {
    /// Number of calls.
    pub calls: u64,
    /// Input bytes.
    pub from: u64,
    /// Output bytes; incompressible data counts with its input size.
    pub to: u64,
    /// Input bytes that turned out to be incompressible.
    pub in_vain: u64,
}

impl Sub for Through {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            calls: self.calls - earlier.calls,
            from: self.from - earlier.from,
            to: self.to - earlier.to,
            in_vain: self.in_vain - earlier.in_vain,
        }
    }
}

/// CPU work since the mount. The counters only grow; the work of an operation is the difference of two readings.
/// Checksums are not included, because they follow from the bytes read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    packed: [Through; Codec::ALL.len()],
    unpacked: [Through; Codec::ALL.len()],
}

impl Work {
    /// Adds a compression; `to` is `None` if the data was incompressible.
    pub fn pack(&mut self, codec: Codec, from: usize, to: Option<usize>) {
        let through = &mut self.packed[codec as usize];
        through.calls += 1;
        through.from += from as u64;
        through.to += to.unwrap_or(from) as u64;
        through.in_vain += if to.is_none() { from as u64 } else { 0 };
    }

    /// Adds a decompression.
    pub fn unpack(&mut self, codec: Codec, from: usize, to: usize) {
        let through = &mut self.unpacked[codec as usize];
        *through = Through {
            calls: through.calls + 1,
            from: through.from + from as u64,
            to: through.to + to as u64,
            ..*through
        };
    }

    /// Compressed bytes by codec.
    pub fn packed(&self) -> impl Iterator<Item = (Codec, Through)> {
        Codec::ALL.into_iter().zip(self.packed)
    }

    /// Decompressed bytes by codec.
    pub fn unpacked(&self) -> impl Iterator<Item = (Codec, Through)> {
        Codec::ALL.into_iter().zip(self.unpacked)
    }

    /// Work since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut work = *self;
        for (now, before) in work.packed.iter_mut().zip(earlier.packed) {
            *now = *now - before;
        }
        for (now, before) in work.unpacked.iter_mut().zip(earlier.unpacked) {
            *now = *now - before;
        }
        work
    }

    /// Sum of the work of two users of a filesystem.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let sum = |a: Through, b: Through| Through {
            calls: a.calls + b.calls,
            from: a.from + b.from,
            to: a.to + b.to,
            in_vain: a.in_vain + b.in_vain,
        };
        Self {
            packed: core::array::from_fn(|at| sum(self.packed[at], other.packed[at])),
            unpacked: core::array::from_fn(|at| sum(self.unpacked[at], other.unpacked[at])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_by_codec() {
        let mut work = Work::default();
        work.pack(Codec::Lzo, 4096, Some(100));
        let before = work;
        work.pack(Codec::Lzo, 4096, None);
        work.unpack(Codec::Zlib, 100, 4096);
        let (_, lzo) = work.since(&before).packed().next().unwrap();
        assert_eq!(lzo, Through { calls: 1, from: 4096, to: 4096, in_vain: 4096 });
        let zlib = work.since(&before).unpacked().nth(1).unwrap();
        assert_eq!(zlib, (Codec::Zlib, Through { calls: 1, from: 100, to: 4096, in_vain: 0 }));
        assert_eq!(before.and(&work.since(&before)), work);
    }
}
