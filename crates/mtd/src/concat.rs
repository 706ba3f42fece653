//! Several devices end to end, one device itself.

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode, OtpArea, OtpRegion, check_aligned, check_range};
use crate::error::{Error, ErrorKind};
use crate::geometry::Geometry;
use crate::time::Instant;
use alloc::vec::Vec;

/// Reason for which devices cannot be concatenated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConcatError {
    /// There is no device.
    #[error("there is no device to concatenate")]
    Empty,
    /// A device differs from the first in more than its size.
    #[error("device {index} differs from the first in kind, erase, write or OOB size, or in its ECC")]
    Unequal {
        /// Its place in the list, from 0.
        index: usize,
    },
}

/// Devices of the same geometry end to end. Operations that span a border are split there, one part after the other.
///
/// OTP areas follow each other in the same order. Two devices work at the same time only in
/// [`Mtd::read_while_write`]; otherwise the breakdown, the sum over all devices, adds up to the elapsed time.
#[derive(Clone, Debug)]
pub struct Concat<D> {
    parts: Vec<D>,
    /// First byte of each part.
    starts: Vec<u64>,
    geometry: Geometry,
    /// Where each part's factory and user OTP area starts, and the end of the last; looked up when first needed.
    otp_starts: [Option<Vec<u64>>; 2],
}

impl<D: Mtd> Concat<D> {
    /// Puts `parts` end to end.
    ///
    /// # Errors
    /// [`ConcatError`] when there is none, or when they differ in more than their size.
    pub fn new(parts: Vec<D>) -> Result<Self, ConcatError> {
        let Some(first) = parts.first() else { return Err(ConcatError::Empty) };
        let mut geometry = first.geometry().clone();
        let mut starts = Vec::with_capacity(parts.len());
        let mut size = 0;
        for (index, part) in parts.iter().enumerate() {
            geometry.size_bytes = part.geometry().size_bytes;
            if *part.geometry() != geometry {
                return Err(ConcatError::Unequal { index });
            }
            starts.push(size);
            size += geometry.size_bytes;
        }
        geometry.size_bytes = size;
        Ok(Self { parts, starts, geometry, otp_starts: [None, None] })
    }

    /// The devices, in order.
    pub fn parts(&self) -> &[D] {
        &self.parts
    }

    /// Gives the devices back.
    pub fn into_parts(self) -> Vec<D> {
        self.parts
    }

    /// The part that holds `addr`, which lies inside the device, and where that part starts.
    fn part_at(&self, addr: u64) -> (usize, u64) {
        let index = self.starts.partition_point(|&start| start <= addr).saturating_sub(1);
        (index, self.starts[index])
    }

    /// End of the part `index`, bytes.
    fn end_of(&self, index: usize) -> u64 {
        self.starts.get(index + 1).copied().unwrap_or(self.geometry.size_bytes)
    }

    /// Runs `each(part, now, address in the part, offset in the operation, length)` on the pieces of
    /// `[addr, addr + len)`, one after the other.
    fn split(
        &mut self,
        now: Instant,
        addr: u64,
        len: u64,
        mut each: impl FnMut(&mut D, Instant, u64, usize, u64) -> Result<Done, Error>,
    ) -> Result<Done, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        let mut done = Done::clean(now);
        let mut offset = 0;
        // An empty operation still goes to one part, which has its say on alignment.
        loop {
            let at = addr + offset;
            let (index, start) = self.part_at(at.min(self.geometry.size_bytes - 1));
            let piece = (len - offset).min(self.end_of(index) - at);
            let next = each(&mut self.parts[index], done.at, at - start, offset as usize, piece)
                .map_err(|e| shifted(e, start))?;
            done = done.then(next);
            offset += piece;
            if offset >= len {
                return Ok(done);
            }
        }
    }

    /// Runs `each(part, address in the part)` on the part that holds the whole of `[addr, addr + len)`.
    fn single<T>(
        &mut self,
        now: Instant,
        addr: u64,
        len: u64,
        each: impl FnOnce(&mut D, u64) -> Result<T, Error>,
    ) -> Result<T, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        let (index, start) = self.part_at(addr);
        each(&mut self.parts[index], addr - start).map_err(|e| shifted(e, start))
    }

    /// The part that holds all of a range, if one does.
    fn holder(&self, now: Instant, addr: u64, len: u64) -> Result<Option<(usize, u64)>, Error> {
        check_range(now, addr, len.max(1), self.geometry.size_bytes)?;
        let (index, start) = self.part_at(addr);
        Ok((addr + len <= self.end_of(index)).then_some((index, start)))
    }

    /// Makes sure that the starts of the OTP areas are known. Returns when they were.
    fn learn_otp(&mut self, mut now: Instant, area: OtpArea) -> Result<Instant, Error> {
        if self.otp_starts[area as usize].is_some() {
            return Ok(now);
        }
        let mut starts = Vec::with_capacity(self.parts.len() + 1);
        let mut end = 0;
        for part in &mut self.parts {
            starts.push(end);
            for index in 0..part.otp_regions(area) {
                let (region, at) = part.otp_info(now, area, index)?;
                now = at;
                end = end.max(starts[starts.len() - 1] + region.start + region.len);
            }
        }
        starts.push(end);
        self.otp_starts[area as usize] = Some(starts);
        Ok(now)
    }

    /// Runs `each(part, now, address in its OTP area)` on the part that holds `[addr, addr + len)` of an OTP area.
    fn otp(
        &mut self,
        now: Instant,
        area: OtpArea,
        addr: u64,
        len: u64,
        each: impl FnOnce(&mut D, Instant, u64) -> Result<Done, Error>,
    ) -> Result<Done, Error> {
        let now = self.learn_otp(now, area)?;
        let starts = self.otp_starts[area as usize].as_deref().unwrap_or_default();
        let size = starts.last().copied().unwrap_or_default();
        if size == 0 {
            return Err(ErrorKind::Unsupported("none of these devices has such an OTP area").at(addr, now));
        }
        check_range(now, addr, len.max(1), size)?;
        let index = starts.partition_point(|&start| start <= addr) - 1;
        let (start, end) = (starts[index], starts[index + 1]);
        if addr + len > end {
            return Err(ErrorKind::OutOfRange { len, size: end }.at(addr, now));
        }
        each(&mut self.parts[index], now, addr - start).map_err(|e| shifted(e, start))
    }
}

fn shifted(mut error: Error, start: u64) -> Error {
    error.addr += start;
    error
}

impl<D: Mtd> Mtd for Concat<D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.split(now, addr, buf.len() as u64, |part, now, addr, offset, len| {
            part.read(now, addr, &mut buf[offset..offset + len as usize])
        })
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        check_aligned(now, addr, data.len() as u64, self.geometry.write_bytes)?;
        self.split(now, addr, data.len() as u64, |part, now, addr, offset, len| {
            part.write(now, addr, &data[offset..offset + len as usize])
        })
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        check_aligned(now, addr, len, self.geometry.erase_bytes)?;
        self.split(now, addr, len, |part, now, addr, _, len| part.erase(now, addr, len))
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let page = u64::from(self.geometry.write_bytes);
        self.single(now, addr, page, |part, addr| part.read_oob(now, addr, data, oob, mode))
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let page = u64::from(self.geometry.write_bytes);
        self.single(now, addr, page, |part, addr| part.write_oob(now, addr, data, oob, mode))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        self.single(now, addr, 1, |part, addr| part.is_bad(now, addr))
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        self.single(now, addr, 1, |part, addr| part.mark_bad(now, addr))
    }

    fn otp_regions(&self, area: OtpArea) -> usize {
        self.parts.iter().map(|part| part.otp_regions(area)).sum()
    }

    fn otp_info(&mut self, now: Instant, area: OtpArea, index: usize) -> Result<(OtpRegion, Instant), Error> {
        let now = self.learn_otp(now, area)?;
        let starts = self.otp_starts[area as usize].as_deref().unwrap_or_default();
        let mut left = index;
        for (part, start) in self.parts.iter_mut().zip(starts) {
            let regions = part.otp_regions(area);
            if left < regions {
                let (region, at) = part.otp_info(now, area, left)?;
                return Ok((OtpRegion { start: region.start + start, ..region }, at));
            }
            left -= regions;
        }
        Err(ErrorKind::Unsupported("none of these devices has this OTP region").at(0, now))
    }

    fn otp_read(&mut self, now: Instant, area: OtpArea, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        self.otp(now, area, addr, buf.len() as u64, |part, now, addr| part.otp_read(now, area, addr, buf))
    }

    fn otp_write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        self.otp(now, OtpArea::User, addr, data.len() as u64, |part, now, addr| {
            part.otp_write(now, addr, data)
        })
    }

    fn otp_erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.otp(now, OtpArea::User, addr, len, |part, now, addr| part.otp_erase(now, addr, len))
    }

    fn otp_lock(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        self.otp(now, OtpArea::User, addr, len, |part, now, addr| part.otp_lock(now, addr, len))
    }

    /// On one device, as that device does it; on two, at the same time; across a border, one after the other.
    fn read_while_write(
        &mut self,
        now: Instant,
        write: (u64, &[u8]),
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error> {
        let target = self.holder(now, write.0, write.1.len() as u64)?;
        let source = self.holder(now, read.0, read.1.len() as u64)?;
        match (target, source) {
            (Some((index, start)), Some((other, _))) if index == other => self.parts[index]
                .read_while_write(now, (write.0 - start, write.1), (read.0 - start, read.1))
                .map_err(|e| shifted(e, start)),
            (Some(_), Some(_)) => Ok((self.write(now, write.0, write.1)?, self.read(now, read.0, read.1)?)),
            _ => {
                let written = self.write(now, write.0, write.1)?;
                let got = self.read(written.at, read.0, read.1)?;
                Ok((written, got))
            }
        }
    }

    fn breakdown(&self) -> Breakdown {
        let mut sum = Breakdown::default();
        for part in &self.parts {
            sum += part.breakdown();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{Double, at};
    use crate::partition::Partition;
    use crate::time::Nanos;
    use alloc::boxed::Box;
    use alloc::vec;

    fn two() -> Concat<Double> {
        Concat::new(vec![Double::new(), Double::with_size(1024)]).unwrap()
    }

    #[test]
    fn only_equal_geometries_fit() {
        assert_eq!(Concat::<Double>::new(vec![]).unwrap_err(), ConcatError::Empty);
        let other: Box<dyn Mtd> = Box::new(Partition::new(Double::new(), 0, 512).unwrap());
        let same = Concat::new(vec![Box::new(Double::new()) as Box<dyn Mtd>, other]).unwrap();
        assert_eq!(same.geometry().size_bytes, Double::SIZE + 512);
        assert_eq!(two().geometry().blocks(), 12);
    }

    #[test]
    fn operations_split_at_the_border_and_errors_are_absolute() {
        let mut both = two();
        let data: Vec<u8> = (0..128).collect();
        let done = both.write(at(0), 2048 - 64, &data).unwrap();
        assert_eq!(done.at, at(400));
        let mut out = [0; 128];
        let read = both.read(done.at, 2048 - 64, &mut out).unwrap();
        assert_eq!((out.as_slice(), read.at), (data.as_slice(), at(530)));
        assert_eq!(both.breakdown().total(), Nanos::from_us(530));
        let failed = both.write(read.at, 2048, &[0; 64]).unwrap_err();
        assert_eq!((failed.kind, failed.addr), (ErrorKind::NotErased, 2048));
        both.mark_bad(read.at, 2048 + 256).unwrap();
        assert_eq!(both.erase(read.at, 0, 3072).unwrap_err().addr, 2048 + 256);
        assert!(both.read(read.at, 3072 - 64, &mut out).is_err());
    }

    #[test]
    fn otp_areas_follow_each_other() {
        let mut both = two();
        assert_eq!(both.otp_regions(OtpArea::User), 4);
        both.otp_write(at(0), 32, &[1]).unwrap();
        both.otp_lock(at(0), 48, 16).unwrap();
        let third = both.otp_info(at(0), OtpArea::User, 2).unwrap().0;
        let fourth = both.otp_info(at(0), OtpArea::User, 3).unwrap().0;
        assert_eq!(third, OtpRegion { start: 32, len: 16, locked: false });
        assert_eq!(fourth, OtpRegion { start: 48, len: 16, locked: true });
        let mut out = [0; 2];
        both.otp_read(at(0), OtpArea::User, 32, &mut out).unwrap();
        assert_eq!(out, [1, 0xFF]);
        assert!(both.otp_read(at(0), OtpArea::User, 31, &mut out).is_err());
        assert!(both.otp_read(at(0), OtpArea::Factory, 0, &mut out).is_err());
        assert!(both.otp_info(at(0), OtpArea::User, 4).is_err());
        both.otp_erase(at(0), 32, 16).unwrap();
    }

    #[test]
    fn two_devices_work_at_the_same_time() {
        let mut both = two();
        let mut out = [0; 64];
        let (written, read) = both.read_while_write(at(0), (0, &[0; 64]), (2048, &mut out)).unwrap();
        assert_eq!((written.at, read.at), (at(200), at(65)));
        let (written, read) = both.read_while_write(at(300), (64, &[0; 64]), (0, &mut out)).unwrap();
        assert_eq!((written.at, read.at, out), (at(500), at(565), [0; 64]));
    }
}
