//! Bytes of an image, and the space that the host has for further bytes.

use std::sync::Arc;

use floatgate_files::File;
use floatgate_stack::store::CachedStore;
use floatgate_stack::{FileStore, Store, StoreError};

use crate::ImageError;
use crate::format::location::{Spliced, Splices};
use crate::oob_store::OobPages;
use crate::pending::Pending;
use floatgate_host::output;

/// Pending changes of a file.
pub(crate) type FilePending = Pending<Box<dyn Store>>;

/// Bytes to which the offsets in [`Image::found`](super::Image::found) refer.
#[derive(Clone)]
pub(crate) enum Bytes {
    /// An unchanged file.
    File(Arc<File>),
    /// Corrected pages of a dump with OOB, to which changes are also written.
    Pages(Box<OobPages>, Arc<File>),
    /// A file or corrected pages with pending changes.
    Pending(FilePending),
    /// A file whose shifted eraseblocks are in their positions.
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

/// A file to which changes are written immediately, and which may become longer.
#[derive(Clone, Debug)]
pub(crate) struct HostRoom {
    file: Arc<File>,
    /// Corrected pages of a dump with OOB.
    oob: Option<OobPages>,
    /// Number of bytes for which the images have space now.
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

    /// Reserves the space that the images need to grow up to the offset `end`, before the file becomes longer.
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

/// Fills a store with erased bytes up to a size; earlier bytes exist or are already erased.
pub(crate) fn fill(store: &mut dyn Store, end: u64) -> Result<(), StoreError> {
    if store.size_bytes() < end { store.write_at(end - 1, &[0xFF]) } else { Ok(()) }
}
