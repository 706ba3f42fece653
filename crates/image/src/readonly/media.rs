//! Bytes of a part for its reader.

use floatgate_stack::Store;

/// Largest number of bytes in one read.
const READ_MAX: usize = 1 << 20;

/// A range of a store. Reads after its end return nothing, and so do reads that fail.
pub(crate) struct Media {
    store: Box<dyn Store>,
    start: u64,
    len: u64,
}

impl Media {
    pub(crate) fn new(store: Box<dyn Store>, start: u64, len: u64) -> Self {
        let end = store.size_bytes();
        let start = start.min(end);
        Self { store, start, len: len.min(end - start) }
    }

    /// Length in bytes.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Reads bytes of the range; `None` if the range does not contain them all.
    pub(super) fn read(&self, at: u64, buf: &mut [u8]) -> Option<()> {
        if at.checked_add(buf.len() as u64)? > self.len {
            return None;
        }
        self.store.read_at(self.start + at, buf).ok()
    }

    /// Reads bytes of a file from `start` on, in pieces. `place` returns the offset of a byte of the file, and the number of bytes that follow there.
    pub(super) fn read_pieces(
        &self,
        start: u64,
        out: &mut [u8],
        place: &dyn Fn(u64) -> Option<(u64, u64)>,
    ) -> Option<()> {
        let mut done = 0;
        while done < out.len() {
            let (at, follow) = place(start + done as u64).filter(|(_, follow)| *follow > 0)?;
            let piece = usize::try_from(follow).unwrap_or(usize::MAX).min(out.len() - done);
            self.read(at, out.get_mut(done..done + piece)?)?;
            done += piece;
        }
        Some(())
    }

    /// Bytes of the range, at most a MiB.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        if len > READ_MAX {
            return None;
        }
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes)?;
        Some(bytes)
    }

    pub(super) fn array<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Some(bytes)
    }

    pub(super) fn be32(&self, at: u64) -> Option<u32> {
        self.array(at).map(u32::from_be_bytes)
    }

    pub(super) fn le16(&self, at: u64) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn le32(&self, at: u64) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn le64(&self, at: u64) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }
}
