//! LEBs at known offsets of a store, as a readable volume.

use floatgate_mtd::Instant;
use floatgate_stack::{Store, Volume, VolumeError, VolumeFault, VolumeGeometry};

use super::ubi::shape::max_write_bytes;
use super::ubifs::shape::UbifsShape;

/// LEBs with their offsets in a store. A LEB without an offset, or after the last, reads as erased.
#[derive(Clone, Debug)]
pub(crate) struct MappedVolume<S> {
    store: S,
    geometry: VolumeGeometry,
    places: Vec<Option<u64>>,
    now: Instant,
}

impl<S: Store> MappedVolume<S> {
    pub(crate) const fn new(store: S, geometry: VolumeGeometry, places: Vec<Option<u64>>) -> Self {
        Self { store, geometry, places, now: Instant::ZERO }
    }

    /// Volume of an image without UBI.
    pub(crate) fn bare(store: S, len: u64, shape: &UbifsShape) -> Self {
        let UbifsShape { leb_bytes, min_io_bytes } = *shape;
        let lebs = u32::try_from(len.div_ceil(u64::from(leb_bytes.max(1)))).unwrap_or(u32::MAX);
        let geometry = VolumeGeometry {
            lebs,
            leb_bytes,
            min_io_bytes,
            max_write_bytes: max_write_bytes(min_io_bytes),
            leb_start: 0,
            read_only: true,
        };
        let places = (0..u64::from(lebs)).map(|lnum| Some(lnum * u64::from(leb_bytes))).collect();
        Self::new(store, geometry, places)
    }

    /// Offset of a LEB in the store.
    pub(crate) fn place(&self, lnum: u32) -> Option<u64> {
        self.places.get(lnum as usize).copied().flatten()
    }

    /// LEBs after the end, whose real numbers are unknown.
    pub(crate) fn nameless(&self) -> std::ops::Range<u32> {
        let end = self.geometry.lebs;
        end..end.max(u32::try_from(self.places.len()).unwrap_or(end))
    }

    /// Returns the store.
    pub(crate) fn into_store(self) -> S {
        self.store
    }
}

impl<S: Store> Volume for MappedVolume<S> {
    fn geometry(&self) -> VolumeGeometry {
        self.geometry
    }

    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError> {
        let end = u64::from(offset) + buf.len() as u64;
        if end > u64::from(self.geometry.leb_bytes) {
            return Err(VolumeFault::OutOfRange { len: buf.len() }.at(lnum, offset));
        }
        match self.place(lnum) {
            Some(place) => {
                let read = self.store.read_at(place + u64::from(offset), buf);
                read.map_err(|error| VolumeFault::Host(error.to_string()).at(lnum, offset))
            }
            None => {
                buf.fill(0xFF);
                Ok(())
            }
        }
    }

    fn write(&mut self, lnum: u32, offset: u32, _data: &[u8]) -> Result<(), VolumeError> {
        Err(VolumeFault::ReadOnly.at(lnum, offset))
    }

    fn change(&mut self, lnum: u32, _data: &[u8]) -> Result<(), VolumeError> {
        Err(VolumeFault::ReadOnly.at(lnum, 0))
    }

    fn map(&mut self, lnum: u32) -> Result<(), VolumeError> {
        Err(VolumeFault::ReadOnly.at(lnum, 0))
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError> {
        Err(VolumeFault::ReadOnly.at(lnum, 0))
    }

    fn erase(&mut self, lnum: u32) -> Result<(), VolumeError> {
        Err(VolumeFault::ReadOnly.at(lnum, 0))
    }

    fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError> {
        Ok(self.place(lnum).is_some())
    }

    fn flush(&mut self) -> Result<(), VolumeError> {
        Ok(())
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn wait_until(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }
}
