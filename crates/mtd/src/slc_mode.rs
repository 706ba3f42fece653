//! Pseudo-SLC: a device that uses only the LSB page of each pair, with half the capacity.
//!
//! This is the SLC emulation on MLC of Linux (slc-mode, `MTD_SLC_ON_MLC_EMULATION`). It makes MLC as robust against power
//! cuts as UBI requires: the MSB page of a cell is never programmed, so such a program cannot damage the LSB page.
//! Programs are also faster, and cells last longer.

use crate::account::Breakdown;
use crate::device::{Done, Mtd, OobMode, check_aligned, check_range};
use crate::error::{Error, ErrorKind};
use crate::geometry::{FlashKind, Geometry};
use crate::pairing::{Group, PairPosition};
use crate::time::Instant;

/// Reason why a device cannot be used in slc-mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlcModeError {
    /// Pages do not share cells, so slc-mode has no benefit.
    #[error("no page shares its cells, slc-mode would gain nothing; it is for MLC NAND")]
    NotMlc,
    /// The pairing scheme is unknown.
    #[error("the pairing scheme of the chip is not known; slc-mode needs it to avoid the MSB pages")]
    UnknownPairing,
}

/// An MLC device of which only LSB pages are used, in ascending order with gaps: capacity and eraseblock size are
/// halved. Page `i` of a block is the LSB page of pair `i`. Addresses, including those in errors, count only LSB pages.
#[derive(Clone, Debug)]
pub struct SlcMode<D> {
    inner: D,
    geometry: Geometry,
}

impl<D: Mtd> SlcMode<D> {
    /// Wraps `inner` and uses its LSB pages.
    ///
    /// # Errors
    /// [`SlcModeError`] if the device is not MLC, or its pairing scheme is unknown.
    pub fn new(inner: D) -> Result<Self, SlcModeError> {
        let whole = inner.geometry();
        if whole.kind != FlashKind::MlcNand {
            return Err(SlcModeError::NotMlc);
        }
        if whole.pairing.is_none() {
            return Err(SlcModeError::UnknownPairing);
        }
        let geometry = Geometry {
            kind: FlashKind::SlcModeNand,
            size_bytes: whole.size_bytes / 2,
            partition_of: Some(whole.chip_bytes()),
            erase_bytes: whole.erase_bytes / 2,
            pairing: crate::Pairing::NONE,
            ..whole.clone()
        };
        Ok(Self { inner, geometry })
    }

    /// The underlying MLC device.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Mutable access to the underlying MLC device. Programming an MSB page defeats slc-mode.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Returns the underlying device.
    pub fn into_inner(self) -> D {
        self.inner
    }

    /// Device address of the slc-mode address `addr`, which must be inside the device.
    #[inline]
    fn place(&self, now: Instant, addr: u64) -> Result<u64, Error> {
        let (half, page) = (u64::from(self.geometry.erase_bytes), self.geometry.write_bytes);
        // The offset in a block fits 32 bits, because a block is smaller than 4 GiB.
        let (block, offset) = (addr / half, (addr % half) as u32);
        let place = PairPosition { pair: offset / page, group: Group::Lsb };
        let Some(lsb) = self.inner.geometry().pairing.page_of(place) else {
            return Err(ErrorKind::OutOfRange { len: 0, size: self.geometry.size_bytes }.at(addr, now));
        };
        Ok(block * half * 2 + u64::from(lsb) * u64::from(page) + u64::from(offset % page))
    }

    /// Device error with its slc-mode address; an MSB page is reported as its LSB page.
    fn relative(&self, mut error: Error) -> Error {
        let (whole, page) = (u64::from(self.geometry.erase_bytes) * 2, self.geometry.write_bytes);
        let (block, offset) = (error.addr / whole, (error.addr % whole) as u32);
        let place = self.inner.geometry().pairing.pair_of(offset / page);
        let pair = place.map_or(0, |place| u64::from(place.pair));
        error.addr = block * (whole / 2) + pair * u64::from(page) + u64::from(offset % page);
        error
    }

    /// Number of bytes from `addr` to the end of its page.
    const fn left_in_page(&self, addr: u64) -> usize {
        (self.geometry.write_bytes - (addr % self.geometry.write_bytes as u64) as u32) as usize
    }

    fn check_page(&self, now: Instant, addr: u64) -> Result<u64, Error> {
        check_range(now, addr, u64::from(self.geometry.write_bytes), self.geometry.size_bytes)?;
        self.place(now, addr)
    }

    fn block(&self, now: Instant, addr: u64) -> Result<u64, Error> {
        check_range(now, addr, 1, self.geometry.size_bytes)?;
        Ok(self.geometry.block_start(addr) * 2)
    }
}

impl<D: Mtd> Mtd for SlcMode<D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Reads page by page, as Linux does, because consecutive pages are not adjacent on the chip. An uncorrectable page
    /// does not prevent reads of the later pages.
    #[inline]
    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        check_range(now, addr, buf.len() as u64, self.geometry.size_bytes)?;
        let (mut done, mut rest, mut addr, mut uncorrectable) = (Done::clean(now), buf, addr, None);
        while !rest.is_empty() {
            let (part, tail) = rest.split_at_mut(rest.len().min(self.left_in_page(addr)));
            let place = self.place(done.at, addr)?;
            addr += part.len() as u64;
            rest = tail;
            match self.inner.read(done.at, place, part) {
                Ok(read) => done = done.then(read),
                Err(error) if error.kind == ErrorKind::Uncorrectable => {
                    done.at = done.at.max(error.at);
                    uncorrectable.get_or_insert(error);
                }
                Err(error) => return Err(self.relative(error)),
            }
        }
        match uncorrectable {
            Some(error) => Err(self.relative(Error { at: done.at, ..error })),
            None => Ok(done),
        }
    }

    #[inline]
    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        let page = self.geometry.write_bytes;
        check_range(now, addr, data.len() as u64, self.geometry.size_bytes)?;
        check_aligned(now, addr, data.len() as u64, page)?;
        let (mut done, mut addr) = (Done::clean(now), addr);
        for part in data.chunks(page as usize) {
            let place = self.place(done.at, addr)?;
            let written = self.inner.write(done.at, place, part).map_err(|e| self.relative(e))?;
            done = done.then(written);
            addr += u64::from(page);
        }
        Ok(done)
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        check_aligned(now, addr, len, self.geometry.erase_bytes)?;
        self.inner.erase(now, addr * 2, len * 2).map_err(|e| self.relative(e))
    }

    #[inline]
    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let addr = self.check_page(now, addr)?;
        self.inner.read_oob(now, addr, data, oob, mode).map_err(|e| self.relative(e))
    }

    #[inline]
    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        mode: OobMode,
    ) -> Result<Done, Error> {
        let addr = self.check_page(now, addr)?;
        self.inner.write_oob(now, addr, data, oob, mode).map_err(|e| self.relative(e))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        let block = self.block(now, addr)?;
        self.inner.is_bad(now, block).map_err(|e| self.relative(e))
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        let block = self.block(now, addr)?;
        self.inner.mark_bad(now, block).map_err(|e| self.relative(e))
    }

    fn breakdown(&self) -> Breakdown {
        self.inner.breakdown()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pairing;
    use crate::double::{Double, at};
    use crate::pairing::PairingScheme;
    use crate::partition::Partition;
    use alloc::vec;
    use proptest::prelude::*;

    fn slc() -> SlcMode<Double> {
        SlcMode::new(Double::mlc(PairingScheme::Dist3)).unwrap()
    }

    #[test]
    fn only_mlc_with_a_known_scheme_has_it() {
        assert_eq!(SlcMode::new(Double::new()).unwrap_err(), SlcModeError::NotMlc);
        let unknown = SlcMode::new(Double::mlc(PairingScheme::None)).unwrap_err();
        assert_eq!(unknown, SlcModeError::UnknownPairing);
        assert_eq!(SlcMode::new(slc()).unwrap_err(), SlcModeError::NotMlc);
    }

    #[test]
    fn half_the_size_the_same_pages_and_blocks() {
        let (slc, whole) = (slc(), Double::mlc(PairingScheme::Dist3));
        let (half, whole) = (slc.geometry(), whole.geometry());
        assert_eq!((half.size_bytes * 2, half.erase_bytes * 2), (whole.size_bytes, whole.erase_bytes));
        assert_eq!((half.blocks(), half.write_bytes), (whole.blocks(), whole.write_bytes));
        assert_eq!((half.kind, half.pairing), (FlashKind::SlcModeNand, Pairing::NONE));
    }

    /// Blocks of four pages: pairs (0,2) and (1,3). A full block write programs pages 0 and 1; the others stay erased.
    #[test]
    fn writes_go_to_lsb_pages_in_order() {
        let mut slc = slc();
        let data: [u8; 256] = core::array::from_fn(|i| i as u8);
        slc.write(at(0), 128, &data).unwrap();
        let chip = &slc.inner().data;
        assert_eq!((&chip[256..384], &chip[512..640]), (&data[..128], &data[128..]));
        assert!(chip[..256].iter().chain(&chip[384..512]).chain(&chip[640..]).all(|&b| b == 0xFF));
        let mut out = [0; 200];
        let read = slc.read(at(0), 150, &mut out).unwrap();
        assert_eq!(out[..], data[22..222]);
        assert_eq!(read.bitflips, 0);
    }

    #[test]
    fn errors_have_addresses_of_the_half() {
        let mut slc = slc();
        slc.write(at(0), 192, &[1; 64]).unwrap();
        let again = slc.write(at(0), 128, &[1; 128]).unwrap_err();
        assert_eq!((again.kind, again.addr), (ErrorKind::NotErased, 192));
        slc.mark_bad(at(0), 192).unwrap();
        assert!(slc.is_bad(at(0), 128).unwrap().0 && slc.inner_mut().is_bad(at(0), 256).unwrap().0);
        let erase = slc.erase(at(0), 0, 256).unwrap_err();
        assert_eq!((erase.kind, erase.addr), (ErrorKind::BadBlock, 128));
        let size = Double::SIZE / 2;
        let beyond = slc.read(at(0), size - 1, &mut [0; 2]).unwrap_err();
        assert_eq!((beyond.kind, beyond.addr), (ErrorKind::OutOfRange { len: 2, size }, size - 1));
        assert_eq!(slc.erase(at(0), 64, 128).unwrap_err().kind, ErrorKind::Misaligned { unit: 128 });
        assert_eq!(slc.write(at(0), 0, &[0; 63]).unwrap_err().kind, ErrorKind::Misaligned { unit: 64 });
        assert!(slc.is_bad(at(0), size).is_err());
    }

    #[test]
    fn erasing_a_half_erases_the_block() {
        let mut slc = slc();
        slc.inner_mut().write(at(0), 256, &[0; 256]).unwrap();
        slc.erase(at(0), 128, 128).unwrap();
        assert!(slc.inner().data.iter().all(|&b| b == 0xFF));
    }

    #[test]
    fn oob_and_bit_errors_come_through() {
        let mut slc = slc();
        slc.write_oob(at(0), 64, &[9; 64], &[7; 4], OobMode::Place).unwrap();
        let (mut data, mut oob) = ([0; 64], [0; 4]);
        slc.inner_mut().read_oob(at(0), 64, &mut data, &mut oob, OobMode::Place).unwrap();
        assert_eq!((data, oob), ([9; 64], [7; 4]));
        assert!(slc.read_oob(at(0), Double::SIZE / 2, &mut [], &mut oob, OobMode::Place).is_err());
        slc.inner_mut().bitflips = 2;
        let read = slc.read(at(0), 0, &mut [0; 100]).unwrap();
        assert_eq!((read.bitflips_max, read.bitflips), (2, 4));
    }

    /// The times of the pages add up to the total and to the breakdown.
    #[test]
    fn pages_follow_each_other() {
        let mut slc = slc();
        let done = slc.write(at(10), 0, &[0; 128]).unwrap();
        assert_eq!(done.at, at(10 + 2 * 200));
        assert_eq!(slc.breakdown().total(), done.at.since(at(10)));
    }

    proptest! {
        /// Writes pages in any order-preserving pattern, also on a partition: reads return the written data, and no MSB
        /// page changes.
        #[test]
        fn reads_return_what_was_written(pages in 1usize..14, first in 0u64..2, from in 0usize..900, byte in any::<u8>()) {
            let part = Partition::new(Double::mlc(PairingScheme::Dist3), first * 256, 7 * 256).unwrap();
            let mut slc = SlcMode::new(part).unwrap();
            let mut model = vec![0xFF; 7 * 128];
            for page in 0..pages {
                let data = [byte.wrapping_add(page as u8); 64];
                slc.write(at(0), page as u64 * 64, &data).unwrap();
                model[page * 64..][..64].copy_from_slice(&data);
            }
            let from = from.min(model.len());
            let mut out = vec![0; model.len() - from];
            slc.read(at(0), from as u64, &mut out).unwrap();
            prop_assert_eq!(&out, &model[from..]);
            let chip = &slc.inner().inner().data;
            let msb = |page: &usize| page % 4 >= 2;
            prop_assert!((0..32).filter(msb).all(|page| chip[page * 64..][..64].iter().all(|&b| b == 0xFF)));
        }
    }
}
