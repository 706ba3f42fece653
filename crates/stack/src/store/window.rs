//! A part of a store as a store: an image inside a larger dump.

use super::{Store, StoreError};

/// `len` bytes of a store from `start` on. Writes stay inside; the underlying store may end within the window.
#[derive(Clone, Debug)]
pub struct Window<S> {
    inner: S,
    start: u64,
    len: u64,
}

impl<S: Store> Window<S> {
    /// The window `[start, start + len)` of `inner`, in bytes.
    pub const fn new(inner: S, start: u64, len: u64) -> Self {
        // Limits the length so that no address in the window overflows.
        let room = u64::MAX - start;
        Self { inner, start, len: if len < room { len } else { room } }
    }

    /// Offset of the window in the underlying store, bytes.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Returns the underlying store.
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Number of bytes of `[offset, offset + len)` inside the window.
    fn inside(&self, offset: u64, len: usize) -> usize {
        self.len.saturating_sub(offset).min(len as u64) as usize
    }

    /// Error with its offset relative to the window.
    fn relative(&self, error: StoreError) -> StoreError {
        StoreError { offset: error.offset.saturating_sub(self.start), ..error }
    }
}

impl<S: Store> Store for Window<S> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes().saturating_sub(self.start).min(self.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let (front, rest) = buf.split_at_mut(self.inside(offset, buf.len()));
        rest.fill(0xFF);
        if front.is_empty() {
            return Ok(());
        }
        self.inner.read_at(self.start + offset, front).map_err(|e| self.relative(e))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        if self.inside(offset, data.len()) < data.len() || offset > self.len {
            let reason = format!("the window in the file ends at byte {:#x}", self.len);
            return Err(StoreError { action: "writing", offset, reason });
        }
        self.inner.write_at(self.start + offset, data).map_err(|e| self.relative(e))
    }
}
