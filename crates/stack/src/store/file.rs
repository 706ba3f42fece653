//! A file as a store.

use super::{Store, StoreError, fill};
use floatgate_files::{File, FileExt};
use std::io::{Seek, SeekFrom};
use std::sync::Arc;

/// A file, or a device node of the host. Several stores may read one file.
#[derive(Debug)]
pub struct FileStore {
    file: Arc<File>,
    len: u64,
}

impl FileStore {
    /// Wraps an open file. Nothing else may change its length while the store exists.
    ///
    /// # Errors
    /// The end of the file cannot be determined: a pipe is not a store.
    pub fn new(file: impl Into<Arc<File>>) -> Result<Self, StoreError> {
        let file = file.into();
        let len = (&*file).seek(SeekFrom::End(0)).map_err(failed("looking for the last", 0))?;
        Ok(Self { file, len })
    }

    fn put(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let end = offset + data.len() as u64;
        if let Err(error) = self.file.write_all_at(data, offset) {
            // If the disk is full, the file keeps its old length.
            if end > self.len {
                let _ = self.file.set_len(self.len);
            }
            return Err(failed("writing", offset)(error));
        }
        self.len = self.len.max(end);
        Ok(())
    }
}

impl Store for FileStore {
    fn size_bytes(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let held = self.len.saturating_sub(offset).min(buf.len() as u64);
        let (front, rest) = buf.split_at_mut(held as usize);
        rest.fill(0xFF);
        if front.is_empty() {
            return Ok(());
        }
        self.file.read_exact_at(front, offset).map_err(failed("reading", offset))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(StoreError { action: "writing", offset, reason: "no file is that long".into() });
        }
        if offset > self.len {
            fill(self, self.len, offset)?;
        }
        if data.is_empty() { Ok(()) } else { self.put(offset, data) }
    }
}

fn failed(action: &'static str, offset: u64) -> impl Fn(std::io::Error) -> StoreError {
    move |error| StoreError { action, offset, reason: error.to_string() }
}
