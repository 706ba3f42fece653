//! A small device in memory for tests of wrappers. It rejects programs of bytes that are not erased.

use crate::account::{Breakdown, Phase};
use crate::device::{Done, Mtd, OobMode, check_aligned, check_range};
use crate::error::{Error, ErrorKind};
use crate::geometry::{FlashKind, Geometry};
use crate::pairing::{Pairing, PairingScheme};
use crate::time::{Instant, Nanos};
use alloc::vec;
use alloc::vec::Vec;

/// The instant `us` microseconds after power-on.
pub(crate) const fn at(us: u64) -> Instant {
    Instant::from_ns(us * 1000)
}

/// A device of eight blocks of four 64-byte pages with 4 bytes of OOB each, and two OTP regions of
/// 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Double {
    geometry: Geometry,
    pub(crate) data: Vec<u8>,
    oob: Vec<u8>,
    bad: Vec<bool>,
    /// Number of corrected bits that every read reports.
    pub(crate) bitflips: u32,
    busy_until: Instant,
    spent: Breakdown,
}

impl Double {
    pub(crate) const SIZE: u64 = 2048;
    const PAGE: u64 = 64;
    const BLOCK: u64 = 256;

    pub(crate) fn new() -> Self {
        Self::with_size(Self::SIZE)
    }

    pub(crate) fn with_size(size: u64) -> Self {
        let geometry = Geometry {
            kind: FlashKind::SlcNand,
            size_bytes: size,
            erase_bytes: 256,
            write_bytes: 64,
            buffer_bytes: 64,
            sub_page_bytes: 64,
            oob_bytes: 4,
            oob_free_bytes: 4,
            ecc_strength: 4,
            ecc_step_bytes: 64,
            bitflip_threshold: 3,
            pairing: Pairing::NONE,
            partition_of: None,
        };
        Self {
            geometry,
            data: vec![0xFF; size as usize],
            oob: vec![0xFF; (size / 16) as usize],
            bad: vec![false; (size / Self::BLOCK) as usize],
            bitflips: 0,
            busy_until: Instant::ZERO,
            spent: Breakdown::default(),
        }
    }

    /// The same device as MLC NAND with two bits per cell.
    pub(crate) fn mlc(scheme: PairingScheme) -> Self {
        let mut device = Self::new();
        device.geometry.kind = FlashKind::MlcNand;
        device.geometry.pairing = Pairing::new(scheme, 4).unwrap();
        device
    }

    /// Books `us` under `phase`. The work starts when earlier work of the device has ended.
    fn work(&mut self, now: Instant, phase: Phase, us: u64) -> Instant {
        self.spent.add(Phase::Waiting, self.busy_until.since(now));
        self.spent.add(phase, Nanos::from_us(us));
        self.busy_until = now.max(self.busy_until) + Nanos::from_us(us);
        self.busy_until
    }

    fn program(target: &mut [u8], bytes: &[u8]) -> Result<(), ErrorKind> {
        if target.iter().any(|&b| b != 0xFF) {
            return Err(ErrorKind::NotErased);
        }
        target.copy_from_slice(bytes);
        Ok(())
    }

    fn page_of(&self, now: Instant, addr: u64) -> Result<usize, Error> {
        check_range(now, addr, Self::PAGE, self.geometry.size_bytes)?;
        check_aligned(now, addr, 0, 64)?;
        Ok((addr / Self::PAGE) as usize)
    }
}

impl Mtd for Double {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        check_range(now, addr, buf.len() as u64, self.geometry.size_bytes)?;
        buf.copy_from_slice(&self.data[addr as usize..][..buf.len()]);
        let at = self.work(now, Phase::Data, 1 + buf.len() as u64);
        Ok(Done { at, bitflips_max: self.bitflips, bitflips: self.bitflips, retries: 0 })
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        check_range(now, addr, data.len() as u64, self.geometry.size_bytes)?;
        check_aligned(now, addr, data.len() as u64, 64)?;
        let at = self.work(now, Phase::Array, 200);
        let pages = self.data[addr as usize..].chunks_mut(64).zip(data.chunks(64));
        for (page, (target, bytes)) in pages.enumerate() {
            Self::program(target, bytes).map_err(|k| k.at(addr + page as u64 * Self::PAGE, at))?;
        }
        Ok(Done::clean(at))
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        check_aligned(now, addr, len, 256)?;
        for block in addr / Self::BLOCK..(addr + len) / Self::BLOCK {
            if self.bad[block as usize] {
                return Err(ErrorKind::BadBlock.at(block * Self::BLOCK, now));
            }
            let start = (block * Self::BLOCK) as usize;
            self.data[start..start + 256].fill(0xFF);
            self.oob[start / 16..start / 16 + 16].fill(0xFF);
        }
        Ok(Done::clean(self.work(now, Phase::Array, 2000)))
    }

    fn read_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
        _mode: OobMode,
    ) -> Result<Done, Error> {
        let page = self.page_of(now, addr)?;
        data.copy_from_slice(&self.data[page * 64..][..data.len()]);
        oob.copy_from_slice(&self.oob[page * 4..][..oob.len()]);
        Ok(Done::clean(self.work(now, Phase::Data, 70)))
    }

    fn write_oob(
        &mut self,
        now: Instant,
        addr: u64,
        data: &[u8],
        oob: &[u8],
        _mode: OobMode,
    ) -> Result<Done, Error> {
        let page = self.page_of(now, addr)?;
        let at = self.work(now, Phase::Array, 210);
        Self::program(&mut self.data[page * 64..][..data.len()], data).map_err(|k| k.at(addr, at))?;
        Self::program(&mut self.oob[page * 4..][..oob.len()], oob).map_err(|k| k.at(addr, at))?;
        Ok(Done::clean(at))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        check_range(now, addr, 1, self.geometry.size_bytes)?;
        Ok((self.bad[(addr / Self::BLOCK) as usize], now))
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        check_range(now, addr, 1, self.geometry.size_bytes)?;
        self.bad[(addr / Self::BLOCK) as usize] = true;
        Ok(Done::clean(now))
    }

    fn breakdown(&self) -> Breakdown {
        self.spent
    }
}
