//! A volume of a UBI device as a [`Volume`].

use super::{Ubi, UbiError};
use crate::volume::{Volume, VolumeError, VolumeFault, VolumeGeometry};
use floatgate_mtd::{Instant, Mtd};

/// A volume that owns its UBI device. If the device is over `&mut` of a flash, the flash is only borrowed.
#[derive(Clone, Debug)]
pub struct UbiVolume<M> {
    ubi: Ubi<M>,
    id: u32,
}

impl<M: Mtd + 'static> UbiVolume<M> {
    pub(super) fn new(ubi: Ubi<M>, id: u32) -> Self {
        Self { ubi, id }
    }

    /// Id of the volume.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// UBI device of the volume.
    pub fn ubi(&self) -> &Ubi<M> {
        &self.ubi
    }

    /// UBI device of the volume, mutable.
    pub fn ubi_mut(&mut self) -> &mut Ubi<M> {
        &mut self.ubi
    }

    /// Returns the device.
    pub fn into_ubi(self) -> Ubi<M> {
        self.ubi
    }
}

fn at(lnum: u32, offset: u32) -> impl FnOnce(UbiError) -> VolumeError {
    move |error| VolumeFault::from(error).at(lnum, offset)
}

impl<M: Mtd + Send + 'static> Volume for UbiVolume<M> {
    fn geometry(&self) -> VolumeGeometry {
        let ubi: &Ubi<dyn Mtd> = &self.ubi;
        let io = &ubi.io;
        let max_write_bytes = io.mtd.geometry().buffer_bytes;
        let (lebs, leb_bytes, fixed) = ubi.volume_state(self.id).map_or((0, 0, true), |volume| {
            (volume.readable_lebs(), volume.usable(io.leb_bytes()), volume.is_static())
        });
        VolumeGeometry {
            lebs,
            leb_bytes,
            min_io_bytes: io.min_io(),
            max_write_bytes,
            leb_start: io.geometry.data_offset() % max_write_bytes,
            read_only: fixed || io.read_only.is_some(),
        }
    }

    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError> {
        self.ubi.read_leb(self.id, lnum, offset, buf).map_err(at(lnum, offset))
    }

    fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError> {
        self.ubi.write_leb(self.id, lnum, offset, data).map_err(at(lnum, offset))
    }

    fn change(&mut self, lnum: u32, data: &[u8]) -> Result<(), VolumeError> {
        self.ubi.change_leb(self.id, lnum, data).map_err(at(lnum, 0))
    }

    fn map(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.ubi.map_leb(self.id, lnum).map_err(at(lnum, 0))
    }

    fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.ubi.unmap_leb(self.id, lnum).map_err(at(lnum, 0))
    }

    fn erase(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.ubi.erase_leb(self.id, lnum).map_err(at(lnum, 0))
    }

    fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError> {
        self.ubi.is_mapped(self.id, lnum).map_err(at(lnum, 0))
    }

    fn flush(&mut self) -> Result<(), VolumeError> {
        self.ubi.flush().map_err(at(0, 0))
    }

    fn now(&self) -> Instant {
        self.ubi.now()
    }

    fn wait_until(&mut self, now: Instant) {
        self.ubi.wait_until(now);
    }
}
