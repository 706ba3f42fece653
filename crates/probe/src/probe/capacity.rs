//! Real capacity: sectors with their own address are written and read back.

use super::{Probe, ProbeError, REQUEST_MAX};
use crate::analysis::capacity::{bounds, wrap};
use crate::sample::{Kind, SECTOR, Sample, Test};
use floatgate_host::Target;
use floatgate_mtd::random::hash;

/// Minimum length of the range at the end of the device that is filled with addresses, B.
const END_BYTES: u64 = REQUEST_MAX as u64;
/// Maximum number of sectors that are read in search of addresses from the end; it sets the length of the end on a
/// large device.
const SCAN_READS: u64 = 1 << 16;
/// Data written between the write and the read of a sector, B. Fakes cache up to 4 MiB of data beyond their real end
/// (f3 issue 50).
const OVERRUN_BYTES: u64 = 64 << 20;
/// Sectors tested between two overruns.
const SECTIONS: u64 = 32;
/// Number of pieces that are written across the device and read back twice, and length of each, B. They must reveal
/// firmware that alters one sector in a thousand.
const PIECES: u64 = 64;
const PIECE_BYTES: u64 = 64 << 10;
/// Maximum number of passes that narrow down the end: no device has 32^12 sectors.
pub(super) const PASSES: u64 = 12;

impl<T: Target> Probe<'_, T> {
    /// Determines the real capacity. The data of the ranges is saved with [`Target::keep`] first.
    ///
    /// # Errors
    /// The device fails or is too small; `Interrupted`.
    pub fn measure_capacity(&mut self) -> Result<(), ProbeError> {
        self.check_size()?;
        self.ask("real size");
        let salt = self.chance.bits();
        self.tag_end(salt)?;
        self.tag_powers(salt)?;
        if wrap(&self.samples).is_none() {
            self.scan_tags(salt)?;
        }
        match wrap(&self.samples) {
            // Some sectors below this distance may not exist (kind `chain` of f3). No overrun: its data would wrap
            // around into the tested range.
            Some(ring) => self.narrow(salt, ring, false)?,
            None => {
                self.narrow(salt, self.capacity(), true)?;
                self.look_beyond(salt)?;
            }
        }
        self.verify(salt)
    }

    /// Writes pieces across the real capacity and reads each twice. All are written before the first is read.
    fn verify(&mut self, salt: u64) -> Result<(), ProbeError> {
        self.ask("contents");
        let real = bounds(&self.samples).0.min(wrap(&self.samples).unwrap_or(u64::MAX));
        let bytes = PIECE_BYTES.min(real);
        let mut places: Vec<u64> = (0..PIECES)
            .map(|_| self.below((real - bytes) / SECTOR + 1) * SECTOR)
            .take_while(|_| bytes > 0)
            .collect();
        for place in &places {
            self.write_tags(salt, *place, bytes)?;
        }
        self.target.flush()?;
        for time in 0..2 {
            for place in &places {
                self.verify_piece(salt, time, *place, bytes)?;
            }
            self.shuffle(&mut places);
        }
        Ok(())
    }

    /// Adds a sample with the number of sectors of a piece that do not hold their address.
    fn verify_piece(&mut self, salt: u64, time: u64, position: u64, bytes: u64) -> Result<(), ProbeError> {
        self.check_stop()?;
        let ns = self.target.read(position, &mut self.buf[..bytes as usize])?;
        let sectors = (position..)
            .step_by(SECTOR as usize)
            .zip(self.buf[..bytes as usize].chunks_exact(SECTOR as usize));
        let wrong = sectors.filter(|(at, sector)| tag(salt, sector) != Some(*at)).count() as u64;
        let (test, kind) = (Test::Verify, Kind::Read);
        self.keep_sample(Sample { test, about: time, kind, position, bytes, ns, found: Some(wrong) });
        Ok(())
    }

    /// Maximum number of bytes that [`Self::measure_capacity`] writes outside the end of the device.
    pub(super) const fn pieces_bytes() -> u64 {
        PIECES * PIECE_BYTES
    }

    fn capacity(&self) -> u64 {
        self.samples.capacity / SECTOR * SECTOR
    }

    /// Length of the end that is filled with addresses, B: a multiple of [`END_BYTES`], except on a small device.
    fn end_bytes(&self) -> u64 {
        let bytes = self.capacity().div_ceil(SCAN_READS).next_multiple_of(END_BYTES);
        bytes.min(self.overrun_bytes())
    }

    /// Writes to any position of the device; its data was saved before.
    fn write_kept(&mut self, position: u64, bytes: u64) -> Result<u64, ProbeError> {
        self.check_stop()?;
        self.target.keep(position, bytes)?;
        Ok(self.target.write(position, &self.buf[..bytes as usize])?)
    }

    fn write_tags(&mut self, salt: u64, position: u64, bytes: u64) -> Result<(), ProbeError> {
        for (sector, at) in
            self.buf[..bytes as usize].chunks_exact_mut(SECTOR as usize).zip(position / SECTOR..)
        {
            fill_tag(salt, at * SECTOR, sector);
        }
        self.write_kept(position, bytes).map(drop)
    }

    /// Reads sectors and adds a sample with the address that each one holds.
    fn read_tags(&mut self, test: Test, salt: u64, position: u64, bytes: u64) -> Result<(), ProbeError> {
        self.check_stop()?;
        let ns = self.target.read(position, &mut self.buf[..bytes as usize])?;
        for sector in 0..bytes / SECTOR {
            let data = &self.buf[(sector * SECTOR) as usize..][..SECTOR as usize];
            let (found, position) = (tag(salt, data), position + sector * SECTOR);
            let ns = if sector == 0 { ns } else { 0 };
            self.samples.all.push(Sample {
                test,
                about: 0,
                kind: Kind::Read,
                position,
                bytes: SECTOR,
                ns,
                found,
            });
        }
        Ok(())
    }

    fn tag_end(&mut self, salt: u64) -> Result<(), ProbeError> {
        let pieces =
            |start, end| (start..end).step_by(REQUEST_MAX).map(move |at| (at, END_BYTES.min(end - at)));
        let end = pieces(self.capacity() - self.end_bytes(), self.capacity());
        for (start, bytes) in end.clone() {
            self.write_tags(salt, start, bytes)?;
        }
        self.target.flush()?;
        for (start, bytes) in end {
            self.read_tags(Test::TagEnd, salt, start, bytes)?;
        }
        Ok(())
    }

    /// Writes to all powers of two, the largest first, and reads the first sector. If the device ignores upper address
    /// bits, that sector holds the address of the last write that wrapped to it (method of f3).
    fn tag_powers(&mut self, salt: u64) -> Result<(), ProbeError> {
        let powers =
            (SECTOR.ilog2()..u64::BITS).map(|bit| 1 << bit).take_while(|power| *power < self.capacity());
        for power in powers.collect::<Vec<u64>>().into_iter().rev() {
            self.write_tags(salt, power, SECTOR)?;
        }
        self.target.flush()?;
        self.read_tags(Test::TagScan, salt, 0, SECTOR)?;
        // If the distance is not a power of two, the first sector holds another address. The sample is then removed,
        // and the scan finds the distance.
        self.samples.all.pop_if(|sample| !sample.found.is_some_and(u64::is_power_of_two));
        Ok(())
    }

    /// Reads downwards, one sector per length of the end. If addresses wrap around, one of these reads hits the end.
    fn scan_tags(&mut self, salt: u64) -> Result<(), ProbeError> {
        let step = self.end_bytes();
        let mut position = self.capacity() - step;
        while position >= step {
            position -= step;
            self.read_tags(Test::TagScan, salt, position, SECTOR)?;
            let found = self.samples.all.last().and_then(|sample| sample.found);
            if found.is_some_and(|found| found > position) && wrap(&self.samples).is_some() {
                break;
            }
        }
        // The first sector after the real end is the first sector of the device. It shows the distance even if that end
        // is only a few sectors before the end of the device.
        self.read_tags(Test::TagScan, salt, 0, SECTOR)
    }

    /// Narrows down the real end: writes sectors at equal distances, optionally overruns a cache with other data, and
    /// reads the sectors back.
    fn narrow(&mut self, salt: u64, end: u64, overruns: bool) -> Result<(), ProbeError> {
        let (mut low, mut high) = (0, end);
        while low < high {
            let places = sections(low, high);
            for place in &places {
                self.write_tags(salt, *place, SECTOR)?;
            }
            if overruns {
                self.overrun(&places)?;
            }
            self.target.flush()?;
            for place in &places {
                self.read_tags(Test::TagSection, salt, *place, SECTOR)?;
            }
            let (kept, lost) = bounds(&self.samples);
            let lost = lost.min(end);
            if (kept, lost) == (low, high) {
                break;
            }
            (low, high) = (kept, lost);
        }
        Ok(())
    }

    /// Number of bytes at the end that [`Self::measure_capacity`] overwrites.
    pub(super) fn overrun_bytes(&self) -> u64 {
        OVERRUN_BYTES.min(self.capacity() / 4 / SECTOR * SECTOR)
    }

    /// Writes enough to the end that no cache still holds the sectors at `places`.
    fn overrun(&mut self, places: &[u64]) -> Result<(), ProbeError> {
        let (mut at, end) = (self.capacity() - self.overrun_bytes(), self.capacity());
        self.buf.fill(0x5A);
        while at < end {
            let next = places.iter().copied().filter(|place| *place >= at).min().unwrap_or(end).min(end);
            let bytes = (next - at).min(REQUEST_MAX as u64);
            if bytes == 0 {
                at += SECTOR;
                continue;
            }
            self.write_kept(at, bytes)?;
            at += bytes;
        }
        self.target.flush()?;
        Ok(())
    }

    /// Determines the kind of fake: whether the last sector survives its own write, and whether other sectors do.
    fn look_beyond(&mut self, salt: u64) -> Result<(), ProbeError> {
        let (_, high) = bounds(&self.samples);
        if high >= self.capacity() {
            return Ok(());
        }
        let last = self.capacity() - SECTOR;
        self.write_tags(salt, last, SECTOR)?;
        self.target.flush()?;
        self.read_tags(Test::TagBeyond, salt, high, SECTOR)?;
        self.read_tags(Test::TagLast, salt, last, SECTOR)
    }
}

/// Sectors at equal distances between one that exists and one that does not. The last sector is included while the end
/// is unknown.
fn sections(low: u64, high: u64) -> Vec<u64> {
    let (low, high) = (low / SECTOR, high / SECTOR);
    let step = ((high - low) / SECTIONS).max(1);
    let mut all: Vec<u64> = (0..SECTIONS).map(|section| low + section * step).collect();
    all.push(high - 1);
    all.retain(|sector| *sector < high);
    all.dedup();
    all.into_iter().map(|sector| sector * SECTOR).collect()
}

/// Fills a sector with its own address and a salt, so that no other data looks like one.
fn fill_tag(salt: u64, position: u64, sector: &mut [u8]) {
    for (word, number) in sector.chunks_exact_mut(8).zip(0u64..) {
        let value = if number == 0 { position } else { hash(salt, position, number) };
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// Address that a sector holds, `None` if it holds other data.
fn tag(salt: u64, sector: &[u8]) -> Option<u64> {
    let position = u64::from_le_bytes(sector.first_chunk().copied()?);
    let mut expected = [0; SECTOR as usize];
    fill_tag(salt, position, &mut expected);
    (expected == sector).then_some(position)
}
