//! Where the bytes of an image are, and the room that the host has for more of them.

use std::sync::Arc;

use floatgate_files::File;
use floatgate_stack::store::CachedStore;
use floatgate_stack::{FileStore, Store, StoreError};

use crate::ImageError;
use crate::format::location::{Spliced, Splices};
use crate::oob_store::OobPages;
use crate::pending::Pending;
use floatgate_host::output;

/// Changes of a file that wait.
pub(crate) type FilePending = Pending<Box<dyn Store>>;

/// The bytes in which [`Image::found`](super::Image::found) counts.
#[derive(Clone)]
pub(crate) enum Bytes {
    /// A file as it is.
    File(Arc<File>),
    /// Corrected pages of a dump with OOB, which is written as well.
    Pages(Box<OobPages>, Arc<File>),
    /// Either with changes that wait.
    Pending(FilePending),
    /// A file with its eraseblocks in their places.
    Spliced(Arc<File>, Splices),
}

impl Bytes {
    pub(crate) fn open(&self) -> Result<Box<dyn Store>, ImageError> {
        match self {
            Self::File(file) => store_of(file),
            Self::Pages(pages, dump) => pages.store(dump),
            Self::Pending(pending) => Ok(Box::new(pending.clone())),
            Self::Spliced(file, splices) => Ok(Box::new(Spliced::new(store_of(file)?, splices.clone()))),
        }
    }
}

/// A file that changes go to at once, and may make longer.
#[derive(Clone, Debug)]
pub(crate) struct HostRoom {
    file: Arc<File>,
    /// Corrected pages, for a dump with OOB.
    oob: Option<OobPages>,
    /// Bytes that the images have room in now.
    len: u64,
}

impl HostRoom {
    pub(crate) fn new(bytes: &Bytes) -> Result<Option<Self>, ImageError> {
        let len = bytes.open()?.size_bytes();
        Ok(match bytes {
            Bytes::File(file) => Some(Self { file: Arc::clone(file), oob: None, len }),
            Bytes::Pages(pages, dump) => {
                Some(Self { file: Arc::clone(dump), oob: Some((**pages).clone()), len })
            }
            Bytes::Pending(_) | Bytes::Spliced(..) => None,
        })
    }

    /// Reserves what the images need to grow up to the byte `end`, before the file becomes longer.
    pub(crate) fn reserve(&self, end: u64) -> Result<(), ImageError> {
        if end <= self.len {
            return Ok(());
        }
        let range = self.len..end;
        let range = self.oob.as_ref().map_or(range.clone(), |oob| oob.dump_range(&range));
        output::reserve(&self.file, &range).map_err(ImageError::HostFull)
    }
}

pub(crate) fn store_of(file: &Arc<File>) -> Result<Box<dyn Store>, ImageError> {
    Ok(Box::new(CachedStore::new(FileStore::new(Arc::clone(file)).map_err(ImageError::Store)?)))
}

/// Fills a store up to a size; what is before is there or erased already.
pub(crate) fn fill(store: &mut dyn Store, end: u64) -> Result<(), StoreError> {
    if store.size_bytes() < end { store.write_at(end - 1, &[0xFF]) } else { Ok(()) }
}
