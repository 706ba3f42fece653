//! LEBs of a UBI volume during a build, each in its PEB of the image.

use floatgate_media::ubi::Geometry;
use floatgate_stack::store::{Store, StoreError};

use super::super::ubinize::FIRST_DATA_PEB;

/// LEBs of one volume as a contiguous range of bytes. LEB 0 is in the first PEB after the volume table. The headers are
/// written after all LEBs.
#[derive(Debug)]
pub(super) struct Lebs<S> {
    inner: S,
    geometry: Geometry,
    len: u64,
}

impl<S: Store> Lebs<S> {
    pub(super) const fn new(inner: S, geometry: Geometry) -> Self {
        Self { inner, geometry, len: 0 }
    }

    pub(super) fn into_inner(self) -> S {
        self.inner
    }

    /// Offset of a byte in the image, and the number of bytes from it to the end of its LEB.
    fn place(&self, offset: u64) -> (u64, usize) {
        let leb = u64::from(self.geometry.leb_bytes());
        let (lnum, at) = (offset / leb, offset % leb);
        let peb = (u64::from(FIRST_DATA_PEB) + lnum) * u64::from(self.geometry.flash().peb_bytes);
        (peb + u64::from(self.geometry.data_offset()) + at, usize::try_from(leb - at).unwrap_or(usize::MAX))
    }
}

impl<S: Store> Store for Lebs<S> {
    fn size_bytes(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let (place, room) = self.place(at);
            let (piece, next) = rest.split_at_mut(room.min(rest.len()));
            self.inner.read_at(place, piece)?;
            (at, rest) = (at + piece.len() as u64, next);
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let (place, room) = self.place(at);
            let (piece, next) = rest.split_at(room.min(rest.len()));
            self.inner.write_at(place, piece)?;
            (at, rest) = (at + piece.len() as u64, next);
        }
        self.len = self.len.max(offset + data.len() as u64);
        Ok(())
    }
}
