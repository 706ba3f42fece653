//! Storage of an image: a file, memory, or a part of either.

mod cached;
mod file;
#[cfg(test)]
mod tests;
mod window;

pub use cached::CachedStore;
pub use file::FileStore;
pub use window::Window;

/// Buffer size for operations on long ranges, B.
const CHUNK: usize = 16 << 10;

/// A host failure in the storage of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{action} byte {offset:#x}: {reason}")]
pub struct StoreError {
    /// Action that failed, such as `reading`.
    pub action: &'static str,
    /// Offset of the access, bytes.
    pub offset: u64,
    /// Reason as reported by the host.
    pub reason: String,
}

/// Random-access bytes that back an image. Like flash that was never written, a store reads as 0xFF after its end.
pub trait Store: Send {
    /// Size in bytes.
    fn size_bytes(&self) -> u64;

    /// Reads at `offset`. Bytes after the end read as 0xFF.
    ///
    /// # Errors
    /// Host failures.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError>;

    /// Writes at `offset`. The store grows as needed, with 0xFF between its old end and `offset`.
    ///
    /// # Errors
    /// Host failures; the store cannot grow further.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError>;
}

impl<S: Store + ?Sized> Store for &mut S {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        (**self).read_at(offset, buf)
    }
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        (**self).write_at(offset, data)
    }
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        (**self).read_at(offset, buf)
    }
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        (**self).write_at(offset, data)
    }
}

impl Store for Vec<u8> {
    fn size_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let held = usize::try_from(offset).ok().and_then(|start| self.get(start..)).unwrap_or(&[]);
        let (front, rest) = buf.split_at_mut(held.len().min(buf.len()));
        front.copy_from_slice(&held[..front.len()]);
        rest.fill(0xFF);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let failed = || StoreError { action: "writing", offset, reason: "out of memory".into() };
        let start = usize::try_from(offset).map_err(|_| failed())?;
        let end = start.checked_add(data.len()).ok_or_else(failed)?;
        if self.len() < end {
            self.try_reserve(end - self.len()).map_err(|_| failed())?;
            self.resize(end, 0xFF);
        }
        self[start..end].copy_from_slice(data);
        Ok(())
    }
}

/// Writes 0xFF from `start` to `end`, piece by piece.
///
/// # Errors
/// Errors of the store.
pub(crate) fn fill<S: Store + ?Sized>(store: &mut S, start: u64, end: u64) -> Result<(), StoreError> {
    let ones = [0xFF; CHUNK];
    let mut at = start;
    while at < end {
        let len = (end - at).min(CHUNK as u64);
        store.write_at(at, &ones[..len as usize])?;
        at += len;
    }
    Ok(())
}

/// Erases the range from `start` to `end`. Bytes after the end of the store are already erased.
///
/// # Errors
/// Errors of the store.
pub(crate) fn erase<S: Store + ?Sized>(store: &mut S, start: u64, end: u64) -> Result<(), StoreError> {
    let end = end.min(store.size_bytes());
    fill(store, start, end)
}

/// True if all `len` bytes from `start` are 0xFF.
///
/// # Errors
/// Errors of the store.
pub(crate) fn is_erased<S: Store + ?Sized>(store: &S, start: u64, len: u64) -> Result<bool, StoreError> {
    let mut piece = [0; CHUNK];
    let end = start.saturating_add(len).min(store.size_bytes());
    let mut at = start;
    while at < end {
        let piece = &mut piece[..(end - at).min(CHUNK as u64) as usize];
        store.read_at(at, piece)?;
        if piece.iter().any(|byte| *byte != 0xFF) {
            return Ok(false);
        }
        at += piece.len() as u64;
    }
    Ok(true)
}
