//! Fakes: cards that claim to be larger than they are.

use crate::card::{Card, CardOptions};
use crate::spec::{BadSpec, CardSpec, FakeSpec};
use floatgate_mtd::block_device::{check_count, check_sectors};
use floatgate_mtd::{BlockDevice, BlockError, Breakdown, Instant, SECTOR_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Behaviour of a fake beyond its real size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FakeKind {
    /// Addresses wrap around: the end of the card is its beginning.
    Wraps,
    /// Writes are thrown away, reads are zeros.
    Limbo,
    /// Writes go to the last real sector.
    LastSector,
    /// Some sectors beyond the end are kept, the latest ones, in a cache; the others are in limbo.
    Chain,
}

/// Sectors that a chain keeps beyond its end.
const CHAIN_SECTORS: usize = 8192;

/// A device that claims to have more sectors than it has.
#[derive(Clone, Debug)]
pub struct Fake<D> {
    kind: FakeKind,
    claimed: u64,
    /// Latest sectors beyond the end (`Chain`), by address, and their order.
    chain: BTreeMap<u64, (u64, Box<[u8; SECTOR_BYTES]>)>,
    writes: u64,
    device: D,
}

impl Fake<Card> {
    /// A card that is as honest as its specification.
    ///
    /// # Errors
    /// A specification that no card can have.
    pub fn of_spec(spec: &CardSpec, options: CardOptions) -> Result<Self, BadSpec> {
        let card = Card::new(spec, options)?;
        let claims = |fake: FakeSpec| (fake.kind, fake.claimed_bytes / SECTOR_BYTES as u64);
        let (kind, claimed) = spec.fake.map_or((FakeKind::Wraps, card.capacity()), claims);
        Ok(Self::new(card, kind, claimed))
    }
}

impl<D: BlockDevice> Fake<D> {
    /// `device` claims `claimed` sectors, at least those that it has.
    pub fn new(device: D, kind: FakeKind, claimed: u64) -> Self {
        let claimed = claimed.max(device.capacity());
        Self { kind, claimed, chain: BTreeMap::new(), writes: 0, device }
    }

    /// The device itself.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Mutable access to the device itself.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Real address of a sector, `None` when there is none.
    fn real(&self, lba: u64) -> Option<u64> {
        let real = self.device.capacity();
        match self.kind {
            _ if lba < real => Some(lba),
            FakeKind::Wraps => Some(lba % real),
            FakeKind::LastSector => Some(real - 1),
            FakeKind::Limbo | FakeKind::Chain => None,
        }
    }

    /// Sectors from `lba` that go to the device as one, at most `count`.
    fn run(&self, lba: u64, count: u64) -> u64 {
        let real = self.device.capacity();
        match self.kind {
            _ if lba < real => count.min(real - lba),
            FakeKind::Wraps => count.min(real - lba % real),
            FakeKind::Limbo => count.min(real),
            FakeKind::LastSector | FakeKind::Chain => 1,
        }
    }

    fn keep(&mut self, lba: u64, data: &[u8]) {
        let Ok(sector) = <[u8; SECTOR_BYTES]>::try_from(data) else { return };
        if self.chain.len() == CHAIN_SECTORS && !self.chain.contains_key(&lba) {
            let oldest = self.chain.iter().min_by_key(|(_, (order, _))| *order).map(|(lba, _)| *lba);
            oldest.and_then(|oldest| self.chain.remove(&oldest));
        }
        self.writes += 1;
        self.chain.insert(lba, (self.writes, Box::new(sector)));
    }
}

impl<D: BlockDevice> BlockDevice for Fake<D> {
    fn capacity(&self) -> u64 {
        self.claimed
    }

    fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        let mut left = check_sectors(now, lba, buf.len(), self.claimed)?;
        let (mut at, mut lba, mut rest) = (now, lba, buf);
        while left > 0 {
            let run = self.run(lba, left);
            let (first, later) = rest.split_at_mut(run as usize * SECTOR_BYTES);
            match (self.real(lba), self.chain.get(&lba)) {
                (Some(real), _) => at = self.device.read(at, real, first)?,
                (None, kept) => {
                    // The command takes the time of one to a real sector.
                    at = self.device.read(at, 0, first)?;
                    match kept {
                        Some((_, sector)) => first.copy_from_slice(&sector[..]),
                        None => first.fill(0),
                    }
                }
            }
            (lba, left, rest) = (lba + run, left - run, later);
        }
        Ok(at)
    }

    fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        let mut left = check_sectors(now, lba, data.len(), self.claimed)?;
        let (mut at, mut lba, mut rest) = (now, lba, data);
        while left > 0 {
            let run = self.run(lba, left);
            let (first, later) = rest.split_at(run as usize * SECTOR_BYTES);
            match self.real(lba) {
                Some(real) => at = self.device.write(at, real, first)?,
                // The command takes its time, the data goes nowhere.
                None => at = self.device.discard(at, 0, 0)?,
            }
            if self.real(lba).is_none() && self.kind == FakeKind::Chain {
                self.keep(lba, first);
            }
            (lba, left, rest) = (lba + run, left - run, later);
        }
        Ok(at)
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
