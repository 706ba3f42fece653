//! Flash in memory, stricter than a chip.

use floatgate_mtd::account::Breakdown;
use floatgate_mtd::device::{check_aligned, check_range};
use floatgate_mtd::{Done, Error, ErrorKind, FlashKind, Geometry, Instant, Mtd, Nanos, Pairing};

#[derive(Clone, Debug)]
pub(crate) struct Flash {
    geometry: Geometry,
    pub(crate) data: Vec<u8>,
    pub(crate) bad: Vec<bool>,
    pub(crate) writes: u64,
}

pub(crate) fn nand(blocks: u64, page: u32, sub_page: u32, pages: u32) -> Flash {
    let geometry = Geometry {
        kind: FlashKind::SlcNand,
        size_bytes: blocks * u64::from(page * pages),
        erase_bytes: page * pages,
        write_bytes: page,
        buffer_bytes: page,
        sub_page_bytes: sub_page,
        oob_bytes: page / 32,
        oob_free_bytes: 2,
        ecc_strength: 4,
        ecc_step_bytes: 512,
        bitflip_threshold: 3,
        pairing: Pairing::NONE,
    };
    Flash::new(geometry)
}

pub(crate) fn nor(blocks: u64, block: u32) -> Flash {
    let mut flash = nand(blocks, 256, 256, block / 256);
    flash.geometry.kind = FlashKind::Nor;
    flash.geometry.write_bytes = 1;
    flash.geometry.sub_page_bytes = 1;
    flash.geometry.oob_bytes = 0;
    flash
}

impl Flash {
    fn new(geometry: Geometry) -> Self {
        let data = vec![0xFF; geometry.size_bytes as usize];
        let bad = vec![false; geometry.blocks() as usize];
        Self { geometry, data, bad, writes: 0 }
    }
}

fn later(now: Instant, us: u64) -> Instant {
    now + Nanos::from_us(us)
}

impl Mtd for Flash {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, now: Instant, addr: u64, buf: &mut [u8]) -> Result<Done, Error> {
        check_range(now, addr, buf.len() as u64, self.geometry.size_bytes)?;
        buf.copy_from_slice(&self.data[addr as usize..][..buf.len()]);
        Ok(Done::clean(later(now, 25)))
    }

    fn write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error> {
        check_range(now, addr, data.len() as u64, self.geometry.size_bytes)?;
        check_aligned(now, addr, data.len() as u64, self.geometry.sub_page_bytes)?;
        self.writes += 1;
        let place = &mut self.data[addr as usize..][..data.len()];
        // NOR may clear more bits of a byte, NAND may not write twice.
        let nand = self.geometry.kind != FlashKind::Nor;
        if nand && place.iter().any(|&byte| byte != 0xFF) {
            return Err(ErrorKind::NotErased.at(addr, now));
        }
        place.iter_mut().zip(data).for_each(|(place, byte)| *place &= byte);
        Ok(Done::clean(later(now, 200)))
    }

    fn erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        check_range(now, addr, len, self.geometry.size_bytes)?;
        check_aligned(now, addr, len, self.geometry.erase_bytes)?;
        self.writes += 1;
        self.data[addr as usize..][..len as usize].fill(0xFF);
        Ok(Done::clean(later(now, 2000)))
    }

    fn is_bad(&mut self, now: Instant, addr: u64) -> Result<(bool, Instant), Error> {
        Ok((self.bad[(addr / u64::from(self.geometry.erase_bytes)) as usize], now))
    }

    fn mark_bad(&mut self, now: Instant, addr: u64) -> Result<Done, Error> {
        self.bad[(addr / u64::from(self.geometry.erase_bytes)) as usize] = true;
        Ok(Done::clean(now))
    }

    fn breakdown(&self) -> Breakdown {
        Breakdown::default()
    }
}
