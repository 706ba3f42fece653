//! A bare UBIFS image as a volume.

use super::{Volume, VolumeError, VolumeFault, VolumeGeometry};
use crate::store::{self, Store, StoreError};
use floatgate_mtd::Instant;
use floatgate_mtd::ram::OPERATION;
use std::collections::BTreeSet;

/// A bare image: LEB n starts at n times the LEB size. A LEB that contains only 0xFF, or is after the end of the store,
/// is unmapped.
///
/// Writes go to the store at once, so that an image larger than memory can be built; [`Volume::flush`] completes its
/// last LEB. Nothing is atomic: an interrupted [`Volume::change`] leaves a broken LEB. Every operation takes
/// [`OPERATION`].
#[derive(Clone, Debug)]
pub struct BareVolume<S> {
    store: S,
    geometry: VolumeGeometry,
    /// LEBs that were mapped by an operation, whose bytes may be all 0xFF.
    mapped: BTreeSet<u32>,
    now: Instant,
}

impl<S: Store> BareVolume<S> {
    /// The image in `store`.
    pub const fn new(store: S, geometry: VolumeGeometry) -> Self {
        Self { store, geometry, mapped: BTreeSet::new(), now: Instant::ZERO }
    }

    /// Store that contains the image.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store. It ends with a complete LEB only after [`Volume::flush`].
    pub fn into_store(self) -> S {
        self.store
    }

    fn place(&self, lnum: u32, offset: u32) -> u64 {
        u64::from(lnum) * u64::from(self.geometry.leb_bytes) + u64::from(offset)
    }

    /// Converts a result of the store to one of the volume.
    fn host<T>(result: Result<T, StoreError>, lnum: u32, offset: u32) -> Result<T, VolumeError> {
        result.map_err(|error| VolumeFault::Host(error.to_string()).at(lnum, offset))
    }

    /// Erases a LEB from `offset` on.
    fn erase_from(&mut self, lnum: u32, offset: u32) -> Result<(), VolumeError> {
        let (start, end) = (self.place(lnum, offset), self.place(lnum, self.geometry.leb_bytes));
        Self::host(store::erase(&mut self.store, start, end), lnum, offset)
    }

    fn put(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError> {
        let place = self.place(lnum, offset);
        Self::host(self.store.write_at(place, data), lnum, offset)
    }

    fn tick(&mut self) {
        self.now += OPERATION;
    }
}

impl<S: Store> Volume for BareVolume<S> {
    fn geometry(&self) -> VolumeGeometry {
        self.geometry
    }

    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError> {
        self.geometry.check_range(lnum, offset, buf.len())?;
        self.tick();
        let place = self.place(lnum, offset);
        Self::host(self.store.read_at(place, buf), lnum, offset)
    }

    fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError> {
        self.geometry.check_write(lnum, offset, data.len())?;
        self.tick();
        let place = self.place(lnum, offset);
        let erased = store::is_erased(&self.store, place, data.len() as u64);
        if !Self::host(erased, lnum, offset)? {
            return Err(VolumeFault::NotErased.at(lnum, offset));
        }
        if data.is_empty() {
            return Ok(());
        }
        self.mapped.insert(lnum);
        self.put(lnum, offset, data)
    }

    fn change(&mut self, lnum: u32, data: &[u8]) -> Result<(), VolumeError> {
        self.geometry.check_write(lnum, 0, data.len())?;
        self.tick();
        self.mapped.insert(lnum);
        self.put(lnum, 0, data)?;
        self.erase_from(lnum, data.len() as u32)
    }

    fn map(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.geometry.check_change(lnum, 0, 0)?;
        self.tick();
        if self.is_mapped(lnum)? {
            return Err(VolumeFault::NotErased.at(lnum, 0));
        }
        self.mapped.insert(lnum);
        Ok(())
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.geometry.check_change(lnum, 0, 0)?;
        self.tick();
        self.mapped.remove(&lnum);
        self.erase_from(lnum, 0)
    }

    fn erase(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.unmap(lnum)
    }

    fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError> {
        self.geometry.check_range(lnum, 0, 0)?;
        if self.mapped.contains(&lnum) {
            return Ok(true);
        }
        let (place, len) = (self.place(lnum, 0), u64::from(self.geometry.leb_bytes));
        Self::host(store::is_erased(&self.store, place, len), lnum, 0).map(|erased| !erased)
    }

    fn flush(&mut self) -> Result<(), VolumeError> {
        let (len, leb) = (self.store.size_bytes(), u64::from(self.geometry.leb_bytes).max(1));
        if self.geometry.read_only || len.is_multiple_of(leb) {
            return Ok(());
        }
        let last = (len / leb).min(u64::from(u32::MAX)) as u32;
        Self::host(store::fill(&mut self.store, len, len.next_multiple_of(leb)), last, 0)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn wait_until(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }
}
