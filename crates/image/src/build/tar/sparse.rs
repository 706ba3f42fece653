//! Sparse files in a tar, in the four formats of GNU tar.

use std::io::Read;

use tar::{EntryType, Header};

use super::super::BuildError;
use super::super::item::BLOCK;
use super::records::{Records, SPARSE_MAP};
use super::{Tar, UNIT};

/// Largest number of pieces accepted.
const MAX_PIECES: usize = 1 << 20;

/// Number of pieces in a continuation block of GNU's old header, and bytes of each.
const OLD_PIECES: usize = 21;
const OLD_PIECE_BYTES: usize = 24;

/// Ranges of a sparse file that have data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SparseMap {
    /// Offset of the first byte and of the end of each piece, in order.
    pieces: Vec<(u64, u64)>,
    /// Size of the file in bytes, holes included.
    pub(super) size: u64,
}

impl SparseMap {
    /// Map from alternating offsets and lengths; `None` if they do not describe a file with `stored` bytes
    /// of data.
    fn new(numbers: &[u64], size: u64, stored: u64) -> Option<Self> {
        if !numbers.len().is_multiple_of(2) {
            return None;
        }
        let mut pieces = Vec::with_capacity(numbers.len() / 2);
        let (mut end, mut bytes) = (0, 0u64);
        for pair in numbers.chunks_exact(2) {
            let start = pair[0];
            if start < end {
                return None;
            }
            end = start.checked_add(pair[1])?;
            bytes = bytes.checked_add(pair[1])?;
            pieces.push((start, end));
        }
        pieces.retain(|(start, end)| start < end);
        (end <= size && bytes == stored).then_some(Self { pieces, size })
    }

    /// Map of a file without holes.
    pub(super) fn whole(size: u64) -> Self {
        Self { pieces: (size > 0).then_some((0, size)).into_iter().collect(), size }
    }

    /// Runs of blocks with data: offsets of the first byte and of the end of each.
    pub(super) fn rows(&self) -> Vec<(u64, u64)> {
        let block = BLOCK as u64;
        let mut rows: Vec<(u64, u64)> = Vec::new();
        for &(start, end) in &self.pieces {
            let start = start - start % block;
            let end = end.checked_next_multiple_of(block).unwrap_or(u64::MAX).min(self.size);
            match rows.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => rows.push((start, end)),
            }
        }
        rows
    }
}

/// Reader of a sparse file's bytes, with zeros between the pieces.
pub(super) struct Spread<'a> {
    pub(super) reader: &'a mut dyn Read,
    pub(super) map: &'a SparseMap,
    /// Offset of the next byte in the file.
    pub(super) at: u64,
}

impl Read for Spread<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let next = self.map.pieces.partition_point(|&(_, end)| end <= self.at);
        let (start, end) = self.map.pieces.get(next).copied().unwrap_or((u64::MAX, u64::MAX));
        let is_hole = self.at < start;
        let room = if is_hole { start - self.at } else { end - self.at };
        let len = usize::try_from(room).unwrap_or(usize::MAX).min(buf.len());
        let read = if is_hole {
            buf[..len].fill(0);
            len
        } else {
            self.reader.read(&mut buf[..len])?
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl Tar<'_> {
    /// Map of a sparse file; `None` for another entry. The bytes of the map are subtracted from `stored`.
    pub(super) fn sparse(
        &mut self,
        header: &Header,
        records: &Records,
        stored: &mut u64,
    ) -> Result<Option<SparseMap>, BuildError> {
        let (numbers, size) = if header.entry_type() == EntryType::GNUSparse {
            self.old_map(header)?
        } else if records.get(b"GNU.sparse.major").is_some_and(|major| major != b"0") {
            (self.map_before_data(stored)?, records.number(b"GNU.sparse.realsize"))
        } else if let Some(map) = records.get(SPARSE_MAP) {
            (self.numbers(map, b',')?, records.number(b"GNU.sparse.size"))
        } else {
            return Ok(None);
        };
        let map = size.and_then(|size| SparseMap::new(&numbers, size, *stored));
        map.map(Some).ok_or_else(|| self.broken(WRONG))
    }

    fn numbers(&self, text: &[u8], separator: u8) -> Result<Vec<u64>, BuildError> {
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse().ok();
        let parts = text.split(|&byte| byte == separator).filter(|part| !part.is_empty());
        let numbers: Option<Vec<u64>> = parts.take(2 * MAX_PIECES + 1).map(number).collect();
        numbers.filter(|numbers| numbers.len() <= 2 * MAX_PIECES).ok_or_else(|| self.broken(WRONG))
    }

    /// Reads the map of format 1.0: the number of pieces and their offsets and lengths, one number a line,
    /// in whole blocks before the data.
    fn map_before_data(&mut self, stored: &mut u64) -> Result<Vec<u64>, BuildError> {
        let mut text = Vec::new();
        loop {
            *stored = stored.checked_sub(UNIT).ok_or_else(|| self.broken(WRONG))?;
            let start = text.len();
            text.resize(start + UNIT as usize, 0);
            self.fill(&mut text[start..])?;
            let lines = text.iter().filter(|&&byte| byte == b'\n').count();
            let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let count = self.numbers(first, b'\n')?.first().copied().unwrap_or(u64::MAX);
            let count = usize::try_from(count).ok().filter(|&count| count <= MAX_PIECES);
            let wanted = 1 + 2 * count.ok_or_else(|| self.broken(WRONG))?;
            if lines >= wanted {
                let lines = text.split(|&byte| byte == b'\n').take(wanted).collect::<Vec<_>>().join(&b'\n');
                return Ok(self.numbers(&lines, b'\n')?.split_off(1));
            }
        }
    }

    /// Reads the map of GNU's old format: four pieces in the header, and more in the blocks after it.
    fn old_map(&mut self, header: &Header) -> Result<(Vec<u64>, Option<u64>), BuildError> {
        let mut numbers = Vec::new();
        let Some(gnu) = header.as_gnu() else { return Ok((numbers, None)) };
        let first: Vec<u8> =
            gnu.sparse.iter().flat_map(|piece| [piece.offset, piece.numbytes].concat()).collect();
        self.old_pieces(&first, &mut numbers)?;
        let mut more = gnu.is_extended();
        while more {
            let mut block = [0; UNIT as usize];
            self.fill(&mut block)?;
            let (pieces, rest) = block.split_at(OLD_PIECES * OLD_PIECE_BYTES);
            self.old_pieces(pieces, &mut numbers)?;
            more = rest[0] != 0;
        }
        Ok((numbers, gnu.real_size().ok()))
    }

    fn old_pieces(&self, bytes: &[u8], numbers: &mut Vec<u64>) -> Result<(), BuildError> {
        for piece in bytes.chunks_exact(OLD_PIECE_BYTES).take_while(|piece| piece[12] != 0) {
            for field in piece.chunks_exact(12) {
                numbers.push(old_number(field).ok_or_else(|| self.broken(WRONG))?);
            }
        }
        if numbers.len() > 2 * MAX_PIECES { Err(self.broken(WRONG)) } else { Ok(()) }
    }
}

const WRONG: &str = "the map of a sparse file is damaged";

/// Number in octal digits, or in binary if the highest bit is set; the last eight bytes of a binary number
/// are used.
fn old_number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        return field.last_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    }
    let digits = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_makes_no_file_is_refused() {
        assert!(SparseMap::new(&[0, 10, 20, 5, 30, 0], 30, 15).is_some());
        for (numbers, size, stored) in [
            (&[0, 10, 5, 5][..], 30, 15),
            (&[0, 10], 5, 10),
            (&[0, 10], 30, 9),
            (&[0, 10, 20], 30, 10),
            (&[u64::MAX, 10], u64::MAX, 10),
        ] {
            assert_eq!(SparseMap::new(numbers, size, stored), None, "{numbers:?}");
        }
    }

    #[test]
    fn rows_are_whole_blocks_and_zeros_fill_them() {
        let map = SparseMap::new(&[100, 50, 4000, 200, 20_000, 5], 20_100, 255).unwrap();
        assert_eq!(map.rows(), [(0, 8192), (16_384, 20_100)]);
        let data: Vec<u8> = (0..255).map(|n| n as u8 | 1).collect();
        let mut spread = Spread { reader: &mut data.as_slice(), map: &map, at: 0 };
        let mut bytes = vec![9; 8192];
        assert_eq!(super::super::read_full(&mut spread, &mut bytes).unwrap(), 8192);
        assert_eq!((&bytes[100..150], &bytes[4000..4200]), (&data[..50], &data[50..250]));
        assert!(bytes[..100].iter().chain(&bytes[150..4000]).chain(&bytes[4200..]).all(|&byte| byte == 0));
    }
}
