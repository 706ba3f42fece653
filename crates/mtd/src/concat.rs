//! Concatenation of several devices to one (Linux: `mtdconcat`, and `part-concat-next` of `MTD_VIRT_CONCAT`).

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode, check_range};
use crate::error::{Error, ErrorKind};
use crate::geometry::Geometry;
use crate::time::Instant;
use alloc::vec::Vec;

/// Reason why devices cannot be concatenated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConcatError {
    /// The list of devices is empty.
    #[error("a concatenation has at least one device")]
    Empty,
    /// The geometry of a device differs from the geometry of the first one.
    #[error("device {index} differs from the first one in more than its size")]
    Different {
        /// Index of the device, from 0.
        index: usize,
    },
}

/// Devices that differ only in size, concatenated. Addresses, including those in errors, are relative to the start of the
/// first device.
///
/// Only one device works at a time, as in Linux. A call that spans two devices starts on the second when the first has
/// finished.
#[derive(Clone, Debug)]
pub struct Concat<D> {
    devices: Vec<D>,
    geometry: Geometry,
}

impl<D: Mtd> Concat<D> {
    /// Concatenates the devices in order.
    ///
    /// # Errors
    /// [`ConcatError`] without devices, or if a device differs from the first one.
    pub fn new(devices: Vec<D>) -> Result<Self, ConcatError> {
        let first = devices.first().ok_or(ConcatError::Empty)?.geometry().clone();
        let alike = |device: &D| {
            let own = device.geometry();
            *own == Geometry { size_bytes: own.size_bytes, partition_of: own.partition_of, ..first.clone() }
        };
        if let Some(index) = devices.iter().position(|device| !alike(device)) {
            return Err(ConcatError::Different { index });
        }
        let size_bytes = devices.iter().map(|device| device.geometry().size_bytes).sum();
        let geometry = Geometry { size_bytes, partition_of: None, ..first };
        Ok(Self { devices, geometry })
    }

    /// The devices in the order of their addresses.
    pub fn devices(&self) -> &[D] {
        &self.devices
    }

    /// Mutable access to the devices.
    pub fn devices_mut(&mut self) -> &mut [D] {
        &mut self.devices
    }

    /// The device that contains `addr`, and the address of its first byte.
    fn of(&mut self, now: Instant, addr: u64) -> Result<(&mut D, u64), Error> {
        let size = self.geometry.size_bytes;
        let mut start = 0;
        for device in &mut self.devices {
            let end = start + device.geometry().size_bytes;
            if addr < end {
                return Ok((device, start));
            }
            start = end;
        }
        Err(ErrorKind::OutOfRange { len: 1, size }.at(addr, now))
    }

    /// Calls `work` for each device in a range, with the time, the address on that device and the part of the range. An
    /// uncorrectable page does not prevent reads of the other devices; the error is returned at the end.
    fn each(
        &mut self,
        now: Instant,
        addr: u64,
        len: u64,
        mut work: impl FnMut(&mut D, Instant, u64, core::ops::Range<u64>) -> Result<Done, Error>,
    ) -> Result<Done, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        let (mut start, mut done, mut lost) = (0, Done::clean(now), None);
        for device in &mut self.devices {
            let end = start + device.geometry().size_bytes;
            let (from, to) = (addr.max(start), (addr + len).min(end));
            if from < to {
                match work(device, done.at, from - start, from - addr..to - addr).map_err(moved(start)) {
                    Ok(next) => done = done.then(next),
                    Err(error) if error.kind == ErrorKind::Uncorrectable => {
                        done.at = done.at.max(error.at);
                        lost = lost.or(Some(error));
                    }
                    Err(error) => return Err(error),
                }
            }
            start = end;
        }
        match lost {
            Some(error) => Err(Error { at: done.at, ..error }),
            None => Ok(done),
        }
    }
}

/// Range of 64-bit addresses as indices into a buffer.
const fn place(range: &core::ops::Range<u64>) -> core::ops::Range<usize> {
    range.start as usize..range.end as usize
}

/// Converts the address of a device's error to an address of the concatenation.
fn moved(start: u64) -> impl Fn(Error) -> Error {
    move |error| Error { addr: error.addr + start, ..error }
}

impl<D: Mtd> Mtd for Concat<D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        let len = buf.len() as u64;
        self.each(now, addr, len, |device, now, addr, part| device.read(now, addr, &mut buf[place(&part)]))
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        let len = data.len() as u64;
        self.each(now, addr, len, |device, now, addr, part| device.write(now, addr, &data[place(&part)]))
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.each(now, addr, len, |device, now, addr, part| device.erase(now, addr, part.end - part.start))
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let (device, start) = self.of(now, addr)?;
        device.read_oob(now, addr - start, data, oob, mode).map_err(moved(start))
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let (device, start) = self.of(now, addr)?;
        device.write_oob(now, addr - start, data, oob, mode).map_err(moved(start))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        let (device, start) = self.of(now, addr)?;
        device.is_bad(now, addr - start).map_err(moved(start))
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        let (device, start) = self.of(now, addr)?;
        device.mark_bad(now, addr - start).map_err(moved(start))
    }

    fn breakdown(&self) -> Breakdown {
        let mut sum = Breakdown::default();
        self.devices.iter().for_each(|device| sum += device.breakdown());
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{Double, at};
    use alloc::vec;

    fn two() -> Concat<Double> {
        Concat::new(vec![Double::new(), Double::with_size(512)]).unwrap()
    }

    #[test]
    fn devices_of_other_pages_are_refused() {
        let ram = |geometry| crate::RamFlash::new(geometry);
        let new = |all| Concat::new(all).map(|one| one.geometry().size_bytes);
        assert_eq!(Concat::<Double>::new(vec![]).err(), Some(ConcatError::Empty));
        let (small, large) = (Geometry::nand_512(2), Geometry::nand_2048(2));
        assert_eq!(new(vec![ram(small.clone()), ram(large)]), Err(ConcatError::Different { index: 1 }));
        assert_eq!(new(vec![ram(small), ram(Geometry::nand_512(4))]), Ok(6 * 16_384));
    }

    #[test]
    fn a_call_across_the_seam_goes_on_in_the_next_device() {
        let mut both = two();
        let seam = Double::SIZE;
        let before = both.breakdown();
        let done = both.write(at(0), seam - 128, &[5; 256]).unwrap();
        let alone = two().write(at(0), 0, &[5; 128]).unwrap();
        assert_eq!(done.at, at(0) + alone.at.since(at(0)) * 2);
        assert_eq!((both.breakdown() - before).total(), done.at.since(at(0)));
        let mut got = [0; 384];
        both.read(done.at, seam - 192, &mut got).unwrap();
        assert!(got[..64].iter().all(|byte| *byte == 0xFF));
        assert!(got[64..320].iter().all(|byte| *byte == 5));
        assert_eq!(both.devices()[1].data[..128], [5; 128]);
        both.erase(done.at, seam - 256, 512).unwrap();
        assert!(both.devices().iter().all(|device| device.data.iter().all(|byte| *byte == 0xFF)));
    }

    #[test]
    fn bad_blocks_oob_and_errors_have_the_address_of_the_whole() {
        let mut both = two();
        let seam = Double::SIZE;
        both.mark_bad(at(0), seam + 256).unwrap();
        assert!(both.devices_mut()[1].is_bad(at(0), 256).unwrap().0);
        assert!(!both.is_bad(at(0), 256).unwrap().0);
        let error = both.erase(at(0), seam, 512).unwrap_err();
        assert_eq!((error.kind, error.addr), (ErrorKind::BadBlock, seam + 256));
        both.write_oob(at(0), seam, &[], &[7; 4], OobMode::Place).unwrap();
        let mut oob = [0; 4];
        both.read_oob(at(0), seam, &mut [], &mut oob, OobMode::Place).unwrap();
        assert_eq!(oob, [7; 4]);
        let beyond = both.read(at(0), seam + 480, &mut [0; 64]).unwrap_err();
        assert_eq!(beyond.kind, ErrorKind::OutOfRange { len: 64, size: seam + 512 });
        assert!(both.is_bad(at(0), seam + 512).is_err());
    }
}
