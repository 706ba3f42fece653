//! Where the bytes of an image are, and the room that the host has for more of them.

use std::fs::File;
use std::sync::Arc;

use floatgate_stack::store::CachedStore;
use floatgate_stack::{FileStore, Store};

use super::{Access, FilePending};
use crate::ImageError;
use crate::detect::Found;
use crate::format::jffs2::shifts::{Spliced, Splices};
use crate::oob_store::OobPages;
use crate::output;

/// The bytes in which [`Image::found`] counts.
#[derive(Clone)]
pub(super) enum Bytes {
    /// A file.
    File(Arc<File>),
    /// Corrected pages of a dump with OOB, which is written as well.
    Pages(Box<OobPages>, Arc<File>),
    /// Either with changes that wait.
    Pending(FilePending),
    /// A file with its eraseblocks in their places.
    Spliced(Arc<File>, Splices),
}

impl Bytes {
    pub(super) fn open(&self) -> Result<Box<dyn Store>, ImageError> {
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
pub(super) struct HostRoom {
    file: Arc<File>,
    /// Of a dump with OOB.
    oob: Option<OobPages>,
    /// Bytes that the images have room in now.
    len: u64,
}

impl HostRoom {
    pub(super) fn new(bytes: &Bytes) -> Result<Option<Self>, ImageError> {
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
    pub(super) fn reserve(&self, end: u64) -> Result<(), ImageError> {
        if end <= self.len {
            return Ok(());
        }
        let range = self.len..end;
        let range = self.oob.as_ref().map_or(range.clone(), |oob| oob.dump_range(&range));
        output::reserve(&self.file, &range).map_err(ImageError::HostFull)
    }
}

/// The bytes of a file in which images were found, and these as they are found when all eraseblocks are in their places.
pub(super) fn spliced(
    file: Arc<File>,
    found: Vec<Found>,
    access: Access,
    detect: impl Fn(&mut dyn Store) -> Result<Vec<Found>, ImageError>,
) -> Result<(Bytes, Splices, Vec<Found>), ImageError> {
    let splices = Splices::of(&found);
    if splices.is_empty() {
        return Ok((Bytes::File(file), splices, found));
    }
    if access == Access::Write {
        return Err(ImageError::Shifted(splices.to_string()));
    }
    let bytes = Bytes::Spliced(file, splices.clone());
    let found = detect(&mut bytes.open()?)?;
    Ok((bytes, splices, found))
}

pub(crate) fn store_of(file: &Arc<File>) -> Result<Box<dyn Store>, ImageError> {
    Ok(Box::new(CachedStore::new(FileStore::new(Arc::clone(file)).map_err(ImageError::Store)?)))
}
