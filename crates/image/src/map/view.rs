//! Bounded reads of a range of a dump.

use std::cell::Cell;
use std::ops::Range;

use floatgate_media::crc;
use floatgate_stack::Store;

/// Number of bytes in one read of a long range.
const CHUNK: u64 = 64 << 10;

/// Number of bytes for which a read counts at least, because short reads also take time.
const READ_MIN: u64 = 256;

/// Number of bytes that all probes of a dump may read: several times its size, so that a hostile file costs no more
/// than a large one.
pub(super) const fn budget(size: u64) -> u64 {
    size.saturating_mul(4).saturating_add(64 << 20)
}

/// A range of a dump. Reads after its end return nothing, and so do reads that fail, because the pass over the whole
/// dump reports failures.
#[derive(Clone, Copy)]
pub(crate) struct View<'s> {
    store: &'s dyn Store,
    start: u64,
    len: u64,
    budget: &'s Cell<u64>,
}

impl<'s> View<'s> {
    pub(crate) fn new(store: &'s dyn Store, budget: &'s Cell<u64>) -> Self {
        Self { store, start: 0, len: store.size_bytes(), budget }
    }

    /// Part of the range from an offset on, at most `len` bytes.
    pub(crate) fn slice(&self, at: u64, len: u64) -> Self {
        let at = at.min(self.len);
        Self { start: self.start + at, len: len.min(self.len - at), ..*self }
    }

    /// The range, extended by bytes before it.
    pub(crate) fn widened(&self, before: u64) -> Option<Self> {
        Some(Self { start: self.start.checked_sub(before)?, len: self.len.checked_add(before)?, ..*self })
    }

    pub(crate) fn from(&self, at: u64) -> Self {
        self.slice(at, u64::MAX)
    }

    pub(crate) const fn store(&self) -> &'s dyn Store {
        self.store
    }

    /// Offset in the dump.
    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    /// Length in bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Reads bytes of the range; `None` if the range does not contain them all.
    pub(crate) fn read(&self, at: u64, buf: &mut [u8]) -> Option<()> {
        let bytes = buf.len() as u64;
        if at.checked_add(bytes)? > self.len {
            return None;
        }
        let left = self.budget.get().checked_sub(bytes.max(READ_MIN));
        self.budget.set(left.unwrap_or(0));
        left?;
        self.store.read_at(self.start + at, buf).ok()
    }

    /// Bytes of the range, at most a MiB.
    pub(crate) fn bytes(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        if len > 1 << 20 {
            return None;
        }
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes)?;
        Some(bytes)
    }

    pub(crate) fn array<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Some(bytes)
    }

    pub(crate) fn be32(&self, at: u64) -> Option<u32> {
        self.array(at).map(u32::from_be_bytes)
    }

    /// Passes bytes to `each` in pieces; `None` if the range does not contain them all.
    pub(crate) fn each_piece(&self, range: Range<u64>, mut each: impl FnMut(&[u8])) -> Option<()> {
        if range.end > self.len {
            return None;
        }
        let mut buffer = vec![0; usize::try_from(CHUNK.min(range.end - range.start)).ok()?];
        let mut at = range.start;
        while at < range.end {
            let piece = buffer.get_mut(..usize::try_from(CHUNK.min(range.end - at)).ok()?)?;
            self.read(at, piece)?;
            each(piece);
            at += piece.len() as u64;
        }
        Some(())
    }

    /// CRC-32 of bytes, with a start value of all ones, and not inverted at the end.
    pub(crate) fn crc32_raw(&self, range: Range<u64>) -> Option<u32> {
        let mut register = u32::MAX;
        self.each_piece(range, |piece| register = crc::ubi_update(register, piece))?;
        Some(register)
    }

    /// CRC-32 of bytes, as in zlib.
    pub(crate) fn crc32(&self, range: Range<u64>) -> Option<u32> {
        self.crc32_raw(range).map(|register| !register)
    }
}

/// Numbers in bytes that were read; missing bytes count as zero.
pub(crate) trait Numbers {
    fn part<const N: usize>(&self, at: usize) -> [u8; N];

    fn le16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.part(at))
    }
    fn le32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.part(at))
    }
    fn le64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.part(at))
    }
    fn be32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.part(at))
    }

    /// Text up to the first zero in a field; bytes that are not UTF-8 are replaced.
    fn text(&self, at: usize, len: usize) -> String;
}

impl Numbers for [u8] {
    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        self.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    fn text(&self, at: usize, len: usize) -> String {
        let field = self.get(at..).unwrap_or_default();
        let field = field.get(..len).unwrap_or(field);
        let end = memchr::memchr(0, field).unwrap_or(field.len());
        String::from_utf8_lossy(field.get(..end).unwrap_or_default()).trim_end().to_owned()
    }
}

/// CRC-32C (Castagnoli) of bytes, not inverted at the end.
pub(crate) fn crc32c(mut register: u32, bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    for &byte in bytes {
        register ^= u32::from(byte);
        for _ in 0..8 {
            register = register >> 1 ^ if register & 1 == 0 { 0 } else { POLYNOMIAL };
        }
    }
    register
}
