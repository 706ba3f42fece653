//! A file as a store.

use super::{Store, StoreError, fill};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

/// A file, or a device node of the host.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    len: u64,
    /// Position of the file, if it is known.
    position: Option<u64>,
}

impl FileStore {
    /// `file`, opened for what is going to be done with it. Nobody else should change its length meanwhile.
    ///
    /// # Errors
    /// When its end cannot be found: a pipe is not a store.
    pub fn new(mut file: File) -> Result<Self, StoreError> {
        let len = file.seek(SeekFrom::End(0)).map_err(failed("looking for the last", 0))?;
        Ok(Self { file, len, position: Some(len) })
    }

    /// Gives the file back.
    pub fn into_inner(self) -> File {
        self.file
    }

    /// Moves to `offset`, unless the file is there.
    fn seek(&mut self, offset: u64, action: &'static str) -> Result<(), StoreError> {
        if self.position != Some(offset) {
            self.position = None;
            self.file.seek(SeekFrom::Start(offset)).map_err(failed(action, offset))?;
        }
        Ok(())
    }

    fn read_held(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.seek(offset, "reading")?;
        self.position = None;
        self.file.read_exact(buf).map_err(failed("reading", offset))?;
        self.position = Some(offset + buf.len() as u64);
        Ok(())
    }

    fn put(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.seek(offset, "writing")?;
        self.position = None;
        if let Err(error) = self.file.write_all(data) {
            // On a full disk the file keeps the length that it had.
            if offset + data.len() as u64 > self.len {
                let _ = self.file.set_len(self.len);
            }
            return Err(failed("writing", offset)(error));
        }
        let end = offset + data.len() as u64;
        self.position = Some(end);
        self.len = self.len.max(end);
        Ok(())
    }
}

impl Store for FileStore {
    fn size_bytes(&self) -> u64 {
        self.len
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let held = self.len.saturating_sub(offset).min(buf.len() as u64);
        let (front, rest) = buf.split_at_mut(held as usize);
        rest.fill(0xFF);
        if front.is_empty() { Ok(()) } else { self.read_held(offset, front) }
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
