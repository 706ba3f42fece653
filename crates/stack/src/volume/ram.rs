//! A volume in memory.

use super::{Volume, VolumeError, VolumeFault, VolumeGeometry};
use floatgate_mtd::Instant;
use floatgate_mtd::ram::OPERATION;
use std::sync::Arc;

/// A volume in memory, stricter than UBI: bytes of a LEB must be written in ascending order, even if they are all 0xFF.
///
/// Clones share unchanged LEBs. Every operation takes [`OPERATION`].
#[derive(Clone, Debug)]
pub struct RamVolume {
    geometry: VolumeGeometry,
    /// Written bytes of each mapped LEB; the rest is erased.
    lebs: Vec<Option<Arc<Vec<u8>>>>,
    now: Instant,
}

impl RamVolume {
    /// Volume without mapped LEBs.
    pub fn new(geometry: VolumeGeometry) -> Self {
        Self { geometry, lebs: vec![None; geometry.lebs as usize], now: Instant::ZERO }
    }

    /// Volume with the contents of a bare image. LEBs that contain only 0xFF are unmapped; bytes beyond the volume are
    /// ignored.
    pub fn from_bytes(geometry: VolumeGeometry, bytes: &[u8]) -> Self {
        let mut volume = Self::new(geometry);
        for (slot, leb) in volume.lebs.iter_mut().zip(bytes.chunks(geometry.leb_bytes.max(1) as usize)) {
            let used = geometry.used(leb).min(geometry.leb_bytes as usize);
            *slot = (used > 0).then(|| Arc::new(leb[..used.min(leb.len())].to_vec()));
        }
        volume
    }

    /// Written part of a LEB, whose rest is erased; `None` if it is not mapped.
    pub fn leb(&self, lnum: u32) -> Option<&[u8]> {
        self.lebs.get(lnum as usize)?.as_ref().map(|leb| leb.as_slice())
    }

    /// Passes all LEBs in order and completely to `sink`.
    ///
    /// # Errors
    /// Errors of `sink`.
    pub fn copy_to<E>(&self, mut sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut whole = vec![0xFF; self.geometry.leb_bytes as usize];
        for leb in &self.lebs {
            let held = leb.as_ref().map_or(&[][..], |leb| leb.as_slice());
            whole[..held.len()].copy_from_slice(held);
            whole[held.len()..].fill(0xFF);
            sink(&whole)?;
        }
        Ok(())
    }

    fn tick(&mut self) {
        self.now += OPERATION;
    }
}

impl VolumeGeometry {
    /// Length of `leb` without trailing minimum I/O units of 0xFF.
    fn used(&self, leb: &[u8]) -> usize {
        let last = leb.iter().rposition(|byte| *byte != 0xFF);
        last.map_or(0, |last| (last + 1).next_multiple_of(self.min_io_bytes.max(1) as usize))
    }
}

impl Volume for RamVolume {
    fn geometry(&self) -> VolumeGeometry {
        self.geometry
    }

    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError> {
        self.geometry.check_range(lnum, offset, buf.len())?;
        self.tick();
        let held = self.leb(lnum).and_then(|leb| leb.get(offset as usize..)).unwrap_or(&[]);
        let (front, rest) = buf.split_at_mut(held.len().min(buf.len()));
        front.copy_from_slice(&held[..front.len()]);
        rest.fill(0xFF);
        Ok(())
    }

    fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError> {
        self.geometry.check_write(lnum, offset, data.len())?;
        self.tick();
        let slot = &mut self.lebs[lnum as usize];
        if slot.as_ref().is_some_and(|leb| leb.len() > offset as usize) && !data.is_empty() {
            return Err(VolumeFault::NotErased.at(lnum, offset));
        }
        if data.is_empty() {
            return Ok(());
        }
        let leb = Arc::make_mut(slot.get_or_insert_default());
        leb.resize(offset as usize, 0xFF);
        leb.extend_from_slice(data);
        Ok(())
    }

    fn change(&mut self, lnum: u32, data: &[u8]) -> Result<(), VolumeError> {
        self.geometry.check_write(lnum, 0, data.len())?;
        self.tick();
        let used = self.geometry.used(data).min(data.len());
        self.lebs[lnum as usize] = Some(Arc::new(data[..used].to_vec()));
        Ok(())
    }

    fn map(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.geometry.check_change(lnum, 0, 0)?;
        self.tick();
        let slot = &mut self.lebs[lnum as usize];
        if slot.is_some() {
            return Err(VolumeFault::NotErased.at(lnum, 0));
        }
        *slot = Some(Arc::default());
        Ok(())
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.geometry.check_change(lnum, 0, 0)?;
        self.tick();
        self.lebs[lnum as usize] = None;
        Ok(())
    }

    fn erase(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.unmap(lnum)
    }

    fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError> {
        self.geometry.check_range(lnum, 0, 0)?;
        Ok(self.lebs[lnum as usize].is_some())
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
