//! A range of bytes as pages and blocks, and the result of reading several pages.

use crate::ecc_engine::{Corrected, Uncorrectable};
use floatgate_mtd::{Done, Error, ErrorKind, Geometry, Instant};
use std::ops::Range;

/// Number of the block that contains `addr`.
#[inline]
pub(crate) const fn block_of(geometry: &Geometry, addr: u64) -> u32 {
    (addr / geometry.erase_bytes as u64) as u32
}

/// Address of a block's first byte.
#[inline]
pub(crate) const fn block_addr(geometry: &Geometry, block: u32) -> u64 {
    block as u64 * geometry.erase_bytes as u64
}

/// Numbers of the pages of a block.
pub(crate) const fn pages_of(geometry: &Geometry, block: u32) -> Range<u64> {
    let per_block = (geometry.erase_bytes / geometry.write_bytes) as u64;
    block as u64 * per_block..(block as u64 + 1) * per_block
}

/// Part of a byte range that is in one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Number of the page.
    pub(crate) page: u32,
    /// Offset of the part in the page, bytes.
    pub(crate) column: usize,
    /// Part of the caller's range, bytes.
    pub(crate) range: Range<usize>,
}

/// Splits `[addr, addr + len)` at page boundaries; the page size need not be a power of two.
pub(crate) fn pieces(addr: u64, len: usize, page_bytes: u32) -> impl Iterator<Item = Piece> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let at = addr + start as u64;
        let column = (at % u64::from(page_bytes)) as usize;
        let end = len.min(start + page_bytes as usize - column);
        let range = start..end;
        start = end;
        (!range.is_empty()).then_some(Piece { page: (at / u64::from(page_bytes)) as u32, column, range })
    })
}

/// Result of a read of several pages: corrected bits, and the first uncorrectable page. An uncorrectable page does not end the read.
#[derive(Debug, Default)]
pub(crate) struct ReadSum {
    corrected: Corrected,
    lost: Option<u64>,
}

impl ReadSum {
    /// Adds the page at `addr`.
    #[inline]
    pub(crate) fn add(&mut self, page: Result<Corrected, Uncorrectable>, addr: u64) {
        match page {
            Ok(corrected) => {
                self.corrected.max = self.corrected.max.max(corrected.max);
                self.corrected.total += corrected.total;
            }
            Err(Uncorrectable) => self.lost = self.lost.or(Some(addr)),
        }
    }

    /// Adds a page whose result is an MTD error.
    ///
    /// # Errors
    /// All errors except `Uncorrectable`.
    #[inline]
    pub(crate) fn add_checked(&mut self, page: Result<Corrected, Error>) -> Result<(), Error> {
        match page {
            Ok(corrected) => self.add(Ok(corrected), 0),
            Err(error) if error.kind == ErrorKind::Uncorrectable => self.add(Err(Uncorrectable), error.addr),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Result of the read, which ended at `now`.
    #[inline]
    pub(crate) fn finish(self, now: Instant, retries: u32) -> Result<Done, Error> {
        match self.lost {
            None => Ok(done(now, self.corrected, retries)),
            Some(addr) => Err(ErrorKind::Uncorrectable.at(addr, now)),
        }
    }
}

/// Result of a successful read.
#[inline]
pub(crate) const fn done(at: Instant, corrected: Corrected, retries: u32) -> Done {
    Done { at, bitflips_max: corrected.max, bitflips: corrected.total, retries }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_pages() {
        let piece = |page, column, range| Piece { page, column, range };
        let cut: Vec<Piece> = pieces(2100, 2200, 2112).collect();
        assert_eq!(cut, [piece(0, 2100, 0..12), piece(1, 0, 12..2124), piece(2, 0, 2124..2200)]);
        assert_eq!(pieces(7, 0, 16).count(), 0);
        assert_eq!(pieces(16, 16, 16).collect::<Vec<_>>(), [piece(1, 0, 0..16)]);
    }

    #[test]
    fn the_first_lost_page_is_reported_and_the_others_count() {
        let mut sum = ReadSum::default();
        sum.add(Ok(Corrected { max: 2, total: 3 }), 0);
        sum.add_checked(Ok(Corrected { max: 1, total: 1 })).unwrap();
        let now = Instant::from_ns(5);
        assert_eq!(
            ReadSum { ..sum }.finish(now, 1),
            Ok(Done { at: now, bitflips_max: 2, bitflips: 4, retries: 1 })
        );
        let mut lost = ReadSum::default();
        lost.add_checked(Err(ErrorKind::Uncorrectable.at(64, Instant::ZERO))).unwrap();
        lost.add(Err(Uncorrectable), 128);
        assert_eq!(lost.finish(now, 0), Err(ErrorKind::Uncorrectable.at(64, now)));
        assert!(ReadSum::default().add_checked(Err(ErrorKind::Timeout.at(0, now))).is_err());
    }
}
