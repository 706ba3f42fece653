//! Concatenation of several devices to one (Linux: `mtdconcat`, and `part-concat-next` of `MTD_VIRT_CONCAT`).

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode, check_range};
use crate::error::{Error, ErrorKind};
use crate::geometry::{FlashKind, Geometry};
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
    #[error("device {index} differs from the first one in {what}")]
    Different {
        /// Index of the device, from 0.
        index: usize,
        /// Name of the value that differs.
        what: &'static str,
    },
    /// The device does not consist of whole eraseblocks of the largest size.
    #[error(
        "device {index} does not consist of whole eraseblocks of {erase_bytes} bytes, the largest of all devices"
    )]
    Eraseblocks {
        /// Index of the device, from 0.
        index: usize,
        /// Size of the largest eraseblock, bytes.
        erase_bytes: u32,
    },
}

/// Function that is called with the device that worked last and the device that works next.
type HandOver<D> = fn(&mut D, &mut D);

/// Devices of the same kind, concatenated. Addresses, including those in errors, are relative to the start of the first
/// device.
///
/// As in Linux, only one device works at a time: a call that spans two devices starts on the second when the first has
/// finished. NOR devices may differ in size, eraseblocks and buffers. The eraseblock of the whole is then the largest one,
/// and its buffer, too. NAND devices differ only in size, because UBI refuses different eraseblocks.
#[derive(Clone, Debug)]
pub struct Concat<D> {
    devices: Vec<D>,
    geometry: Geometry,
    /// Index of the device that worked last.
    current: usize,
    hand_over: HandOver<D>,
}

/// Name of a value in which two geometries differ, although Linux or UBI requires it to be equal.
fn difference(one: &Geometry, other: &Geometry) -> Option<&'static str> {
    let is_nor = one.kind == FlashKind::Nor;
    let pairs = [
        (one.kind == other.kind, "its kind"),
        (one.write_bytes == other.write_bytes, "its page size"),
        (one.sub_page_bytes == other.sub_page_bytes, "its sub-page size"),
        (one.oob_bytes == other.oob_bytes, "its OOB size"),
        (is_nor || one.erase_bytes == other.erase_bytes, "its eraseblock size"),
        (is_nor || one.buffer_bytes == other.buffer_bytes, "its buffer size"),
        (one.oob_free_bytes == other.oob_free_bytes, "its free OOB bytes"),
        (
            (one.ecc_strength, one.ecc_step_bytes, one.bitflip_threshold)
                == (other.ecc_strength, other.ecc_step_bytes, other.bitflip_threshold),
            "its ECC",
        ),
        (one.pairing == other.pairing, "its pairing scheme"),
    ];
    pairs.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
}

impl<D: Mtd> Concat<D> {
    /// Concatenates the devices in order.
    ///
    /// # Errors
    /// [`ConcatError`] without devices, or if a device does not match the others.
    pub fn new(devices: Vec<D>) -> Result<Self, ConcatError> {
        Self::with_hand_over(devices, |_, _| {})
    }

    /// Concatenates the devices in order. Whenever another device than the last one works, `hand_over` is called first, with
    /// both. It moves state that all devices share, such as the clock of the CPU. The first device has this state at the
    /// beginning.
    ///
    /// # Errors
    /// As [`Concat::new`].
    pub fn with_hand_over(devices: Vec<D>, hand_over: HandOver<D>) -> Result<Self, ConcatError> {
        let first = devices.first().ok_or(ConcatError::Empty)?.geometry().clone();
        let geometries = || devices.iter().map(Mtd::geometry);
        let mut numbered = geometries().enumerate();
        let different = numbered.find_map(|(index, own)| Some((index, difference(&first, own)?)));
        if let Some((index, what)) = different {
            return Err(ConcatError::Different { index, what });
        }
        let erase_bytes = geometries().map(|own| own.erase_bytes).max().unwrap_or(first.erase_bytes);
        let is_whole = |own: &Geometry| {
            own.size_bytes.is_multiple_of(erase_bytes.into()) && erase_bytes.is_multiple_of(own.erase_bytes)
        };
        if let Some(index) = geometries().position(|own| !is_whole(own)) {
            return Err(ConcatError::Eraseblocks { index, erase_bytes });
        }
        let size_bytes = geometries().map(|own| own.size_bytes).sum();
        let buffer_bytes = geometries().map(|own| own.buffer_bytes).max().unwrap_or(first.buffer_bytes);
        let geometry = Geometry { size_bytes, erase_bytes, buffer_bytes, partition_of: None, ..first };
        Ok(Self { devices, geometry, current: 0, hand_over })
    }

    /// The device that worked last, or the first one.
    pub fn current(&self) -> &D {
        &self.devices[self.current]
    }

    /// Mutable access to the device that worked last, or to the first one.
    pub fn current_mut(&mut self) -> &mut D {
        &mut self.devices[self.current]
    }

    /// Makes a device the current one, and returns it. `None` if there is no device with this index.
    pub fn select(&mut self, index: usize) -> Option<&mut D> {
        if index != self.current && index < self.devices.len() {
            let (low, high) = (index.min(self.current), index.max(self.current));
            let (before, after) = self.devices.split_at_mut(high);
            let (one, other) = (&mut before[low], &mut after[0]);
            let (from, to) = if self.current == low { (one, other) } else { (other, one) };
            (self.hand_over)(from, to);
            self.current = index;
        }
        self.devices.get_mut(index)
    }

    /// The devices in the order of their addresses.
    pub fn devices(&self) -> &[D] {
        &self.devices
    }

    /// Mutable access to the devices.
    pub fn devices_mut(&mut self) -> &mut [D] {
        &mut self.devices
    }

    /// Index and start of the device that contains `addr`.
    fn place_of(&self, addr: u64) -> Option<(usize, u64)> {
        let mut start = 0;
        for (index, device) in self.devices.iter().enumerate() {
            let end = start + device.geometry().size_bytes;
            if addr < end {
                return Some((index, start));
            }
            start = end;
        }
        None
    }

    /// The device that contains `addr`, and the address of its first byte.
    fn of(&mut self, now: Instant, addr: u64) -> Result<(&mut D, u64), Error> {
        let beyond = ErrorKind::OutOfRange { len: 1, size: self.geometry.size_bytes }.at(addr, now);
        let (index, start) = self.place_of(addr).ok_or_else(|| beyond.clone())?;
        Ok((self.select(index).ok_or(beyond)?, start))
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
        let (mut at, mut done, mut lost) = (addr, Done::clean(now), None);
        while at < addr + len {
            let (device, start) = self.of(done.at, at)?;
            let to = (addr + len).min(start + device.geometry().size_bytes);
            match work(device, done.at, at - start, at - addr..to - addr).map_err(moved(start)) {
                Ok(next) => done = done.then(next),
                Err(error) if error.kind == ErrorKind::Uncorrectable => {
                    done.at = done.at.max(error.at);
                    lost = lost.or(Some(error));
                }
                Err(error) => return Err(error),
            }
            at = to;
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
        let other_pages = ConcatError::Different { index: 1, what: "its page size" };
        assert_eq!(new(vec![ram(small.clone()), ram(large)]), Err(other_pages));
        assert_eq!(new(vec![ram(small), ram(Geometry::nand_512(4))]), Ok(6 * 16_384));
    }

    #[test]
    fn nor_of_other_eraseblocks_is_erased_in_the_largest() {
        let nor = |blocks, erase_bytes| crate::RamFlash::new(Geometry::nor(blocks, erase_bytes));
        let mut both = Concat::new(vec![nor(32, 4096), nor(2, 65_536)]).unwrap();
        assert_eq!((both.geometry().size_bytes, both.geometry().erase_bytes), (4 * 65_536, 65_536));
        both.write(at(0), 65_536, &[0; 8]).unwrap();
        both.write(at(0), 131_072, &[0; 8]).unwrap();
        both.erase(at(0), 65_536, 131_072).unwrap();
        let mut got = [0; 8];
        for addr in [65_536, 131_072] {
            both.read(at(0), addr, &mut got).unwrap();
            assert_eq!(got, [0xFF; 8]);
        }
        let uneven = Concat::new(vec![nor(17, 4096), nor(2, 65_536)]).err();
        assert_eq!(uneven, Some(ConcatError::Eraseblocks { index: 0, erase_bytes: 65_536 }));
    }

    #[test]
    fn shared_state_moves_to_the_device_that_works() {
        let swap = |from: &mut Double, to: &mut Double| core::mem::swap(&mut from.data[0], &mut to.data[0]);
        let mut both = Concat::with_hand_over(vec![Double::new(), Double::new()], swap).unwrap();
        both.devices_mut()[0].data[0] = 7;
        both.read(at(0), Double::SIZE + 1, &mut [0]).unwrap();
        assert_eq!((both.devices()[0].data[0], both.current().data[0]), (0xFF, 7));
        both.select(0).unwrap();
        assert_eq!(both.current_mut().data[0], 7);
        assert!(both.select(2).is_none());
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
