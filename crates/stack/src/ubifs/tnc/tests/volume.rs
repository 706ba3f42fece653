//! A volume in memory whose operations fail on request.

use std::sync::Arc;

use crate::volume::{Volume, VolumeError, VolumeFault, VolumeGeometry};
use floatgate_mtd::Instant;

/// LEBs in memory. Each byte may be written only once.
#[derive(Clone, Debug)]
pub(super) struct Lebs {
    pub(super) lebs: Vec<Arc<Vec<u8>>>,
    pub(super) geometry: VolumeGeometry,
    pub(super) reads: usize,
    pub(super) changes: usize,
    /// Number of writes until power is cut; `None` for no cut.
    pub(super) power: Option<usize>,
    /// Number of the read that fails; `None` for no failure.
    pub(super) bad_read: Option<usize>,
}

impl Lebs {
    pub(super) fn new(lebs: u32, leb_bytes: u32, min_io_bytes: u32) -> Self {
        let geometry = VolumeGeometry {
            lebs,
            leb_bytes,
            min_io_bytes,
            max_write_bytes: min_io_bytes,
            leb_start: 0,
            read_only: false,
        };
        let erased = || Arc::new(vec![0xFF; leb_bytes as usize]);
        let lebs = (0..lebs).map(|_| erased()).collect();
        Self { lebs, geometry, reads: 0, changes: 0, power: None, bad_read: None }
    }

    /// Number of units of a write of `len` bytes that are programmed.
    fn powered(&mut self, lnum: u32, len: usize) -> Result<(), (usize, VolumeError)> {
        let unit = self.geometry.min_io_bytes as usize;
        let Some(left) = &mut self.power else { return Ok(()) };
        let units = len / unit;
        if *left >= units {
            *left -= units;
            return Ok(());
        }
        Err((core::mem::take(left) * unit, VolumeFault::PowerLost.at(lnum, 0)))
    }

    pub(super) fn at(&mut self, lnum: u32, offset: u32, len: usize) -> Result<&mut [u8], VolumeError> {
        let range = offset as usize..offset as usize + len;
        let leb = self.lebs.get_mut(lnum as usize).and_then(|leb| Arc::make_mut(leb).get_mut(range));
        leb.ok_or(VolumeFault::OutOfRange { len }.at(lnum, offset))
    }
}

impl Volume for Lebs {
    fn geometry(&self) -> VolumeGeometry {
        self.geometry
    }
    fn read(&mut self, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<(), VolumeError> {
        self.reads += 1;
        if self.bad_read == Some(self.reads) {
            return Err(VolumeFault::Host("try again".into()).at(lnum, offset));
        }
        let range = offset as usize..offset as usize + buf.len();
        let leb = self.lebs.get(lnum as usize).and_then(|leb| leb.get(range));
        buf.copy_from_slice(leb.ok_or(VolumeFault::OutOfRange { len: buf.len() }.at(lnum, offset))?);
        Ok(())
    }
    fn write(&mut self, lnum: u32, offset: u32, data: &[u8]) -> Result<(), VolumeError> {
        let unit = self.geometry.min_io_bytes;
        if !offset.is_multiple_of(unit) || !data.len().is_multiple_of(unit as usize) {
            return Err(VolumeFault::Misaligned { unit }.at(lnum, offset));
        }
        let target = self.at(lnum, offset, data.len())?;
        if target.iter().any(|&byte| byte != 0xFF) {
            return Err(VolumeFault::NotErased.at(lnum, offset));
        }
        let (len, outcome) = match self.powered(lnum, data.len()) {
            Ok(()) => (data.len(), Ok(())),
            Err((len, error)) => (len, Err(error)),
        };
        self.at(lnum, offset, len)?.copy_from_slice(&data[..len]);
        outcome
    }
    fn change(&mut self, lnum: u32, data: &[u8]) -> Result<(), VolumeError> {
        // The change is atomic: all or nothing.
        self.powered(lnum, data.len()).map_err(|(_, error)| error)?;
        self.changes += 1;
        self.unmap(lnum)?;
        self.at(lnum, 0, data.len())?.copy_from_slice(data);
        Ok(())
    }
    fn map(&mut self, _lnum: u32) -> Result<(), VolumeError> {
        Ok(())
    }
    fn unmap(&mut self, lnum: u32) -> Result<(), VolumeError> {
        let len = self.geometry.leb_bytes as usize;
        self.at(lnum, 0, len)?.fill(0xFF);
        Ok(())
    }
    fn erase(&mut self, lnum: u32) -> Result<(), VolumeError> {
        self.unmap(lnum)
    }
    fn is_mapped(&mut self, lnum: u32) -> Result<bool, VolumeError> {
        Ok(self.lebs.get(lnum as usize).is_some_and(|leb| leb.iter().any(|byte| *byte != 0xFF)))
    }
    fn flush(&mut self) -> Result<(), VolumeError> {
        Ok(())
    }
    fn now(&self) -> Instant {
        Instant::default()
    }
    fn wait_until(&mut self, _now: Instant) {}
}
