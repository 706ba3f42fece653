//! Fake cards: cards that report a larger size than they have.

use crate::card::{Card, CardOptions};
use crate::evil::Evil;
use crate::spec::{BadSpec, CardSpec, FakeKind, FakeSpec};
use floatgate_mtd::block_device::{check_count, check_sectors};
use floatgate_mtd::{BlockDevice, BlockError, Breakdown, Instant, SECTOR_BYTES};
use std::collections::BTreeMap;

/// Size of the cache (`Cached`) in sectors. The author of f3probe has seen fakes with 4 MiB.
const CACHE_SECTORS: usize = 8192;

/// Number of sectors that a chain can address.
const fn chain_span(real: u64) -> u64 {
    (real + 1).next_power_of_two()
}

/// A device that reports more sectors than it has.
#[derive(Clone, Debug)]
pub struct Fake<D> {
    kind: FakeKind,
    claimed: u64,
    /// Most recently written sectors beyond the real end, by address, each with the number of its write (`Cached`).
    cache: BTreeMap<u64, (u64, [u8; SECTOR_BYTES])>,
    /// Addresses of the cache by the number of their write.
    oldest: BTreeMap<u64, u64>,
    writes: u64,
    /// True if the device stores contents.
    stores: bool,
    evil: Option<Evil>,
    device: D,
}

impl Fake<Card> {
    /// Creates the card of a specification, which may have a false capacity.
    ///
    /// # Errors
    /// A specification that no card can have.
    pub fn of_spec(spec: &CardSpec, options: CardOptions) -> Result<Self, BadSpec> {
        let card = Card::new(spec, options)?;
        let claims = |fake: FakeSpec| (fake.kind, fake.claimed_bytes / SECTOR_BYTES as u64);
        let (kind, claimed) = spec.fake.map_or((FakeKind::Wraps, card.capacity()), claims);
        let evil = spec.evil.filter(|_| options.stores).map(|evil| Evil::new(evil, options.seed));
        Ok(Self { stores: options.stores, evil, ..Self::new(card, kind, claimed) })
    }
}

impl<D: BlockDevice> Fake<D> {
    /// Wraps `device` so that it reports `claimed` sectors, but at least its real number.
    pub fn new(device: D, kind: FakeKind, claimed: u64) -> Self {
        let claimed = claimed.max(device.capacity());
        let (cache, oldest) = (BTreeMap::new(), BTreeMap::new());
        Self { kind, claimed, cache, oldest, writes: 0, stores: true, evil: None, device }
    }

    /// The wrapped device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Mutable access to the wrapped device.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Sector of the real device to which `lba` leads.
    fn place(&self, lba: u64) -> u64 {
        let real = self.device.capacity();
        match self.kind {
            FakeKind::Wraps => lba % real,
            FakeKind::Chain => lba % chain_span(real),
            FakeKind::Limbo | FakeKind::LastSector | FakeKind::Cached => lba,
        }
    }

    /// Number of sectors from `place` on that are handled together, at most `count`; and true if they exist.
    fn run(&self, place: u64, count: u64) -> (u64, bool) {
        let real = self.device.capacity();
        match self.kind {
            _ if place < real => (count.min(real - place), true),
            FakeKind::Chain => (count.min(real).min(chain_span(real) - place), false),
            _ => (count.min(real), false),
        }
    }

    /// Reads sectors that do not exist. The command takes as long as a read of real sectors.
    fn read_beyond(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        let at = self.device.read(now, 0, buf)?;
        if self.kind == FakeKind::LastSector {
            let (last, rest) = buf.split_at_mut(SECTOR_BYTES);
            let at = self.device.read(at, self.device.capacity() - 1, last)?;
            rest.chunks_exact_mut(SECTOR_BYTES).for_each(|sector| sector.copy_from_slice(last));
            return Ok(at);
        }
        for (lba, sector) in (lba..).zip(buf.chunks_exact_mut(SECTOR_BYTES)) {
            match self.cache.get(&lba) {
                Some((_, kept)) => sector.copy_from_slice(kept),
                None => sector.fill(0),
            }
        }
        Ok(at)
    }

    /// Writes sectors that do not exist. The command takes its usual time, and most of the data is lost.
    fn write_beyond(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        match self.kind {
            FakeKind::LastSector => {
                self.device.write(now, self.device.capacity() - 1, &data[data.len() - SECTOR_BYTES..])
            }
            FakeKind::Cached if self.stores => {
                (lba..).zip(data.chunks_exact(SECTOR_BYTES)).for_each(|(lba, sector)| self.keep(lba, sector));
                self.device.discard(now, 0, 0)
            }
            _ => self.device.discard(now, 0, 0),
        }
    }

    /// Caches a sector, and drops the least recently written one.
    fn keep(&mut self, lba: u64, data: &[u8]) {
        let Ok(sector) = <[u8; SECTOR_BYTES]>::try_from(data) else { return };
        self.writes += 1;
        if let Some((write, _)) = self.cache.insert(lba, (self.writes, sector)) {
            self.oldest.remove(&write);
        }
        self.oldest.insert(self.writes, lba);
        if self.cache.len() > CACHE_SECTORS
            && let Some((_, oldest)) = self.oldest.pop_first()
        {
            self.cache.remove(&oldest);
        }
    }

    /// Reads existing and missing sectors.
    fn read_runs(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        let mut left = check_sectors(now, lba, buf.len(), self.claimed)?;
        let (mut at, mut lba, mut rest) = (now, lba, buf);
        while left > 0 {
            let place = self.place(lba);
            let (run, is_there) = self.run(place, left);
            let (first, later) = rest.split_at_mut(run as usize * SECTOR_BYTES);
            at = match is_there {
                true => self.device.read(at, place, first)?,
                false => self.read_beyond(at, place, first)?,
            };
            (lba, left, rest) = (lba + run, left - run, later);
        }
        Ok(at)
    }

    /// Writes existing and missing sectors.
    fn write_runs(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        let mut left = check_sectors(now, lba, data.len(), self.claimed)?;
        let (mut at, mut lba, mut rest) = (now, lba, data);
        while left > 0 {
            let place = self.place(lba);
            let (run, is_there) = self.run(place, left);
            let (first, later) = rest.split_at(run as usize * SECTOR_BYTES);
            at = match is_there {
                true => self.device.write(at, place, first)?,
                false => self.write_beyond(at, place, first)?,
            };
            (lba, left, rest) = (lba + run, left - run, later);
        }
        Ok(at)
    }
}

impl<D: BlockDevice> BlockDevice for Fake<D> {
    fn capacity(&self) -> u64 {
        self.claimed
    }

    fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        let end = self.read_runs(now, lba, buf)?;
        if let Some(evil) = &mut self.evil {
            evil.alter(lba, buf);
        }
        Ok(end)
    }

    fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        if let Some(evil) = &mut self.evil {
            evil.written(lba, (data.len() / SECTOR_BYTES) as u64);
        }
        self.write_runs(now, lba, data)
    }

    fn discard(&mut self, now: Instant, lba: u64, count: u64) -> Result<Instant, BlockError> {
        check_count(now, lba, count, self.claimed)?;
        let inside = self.device.capacity().saturating_sub(lba).min(count);
        if inside == 0 { Ok(now) } else { self.device.discard(now, lba, inside) }
    }

    fn flush(&mut self, now: Instant) -> Result<Instant, BlockError> {
        self.device.flush(now)
    }

    fn breakdown(&self) -> Breakdown {
        self.device.breakdown()
    }
}
