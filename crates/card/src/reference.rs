//! A card and a plain array beside it: random requests, losses of power, and what must hold after each.
//!
//! After a loss of power, a sector holds what it held at the last flush, or anything that was written to it since, where zeros are
//! what a discard writes. Whatever it holds when it is read first, it keeps. Times never go back, no flush ends before the writes
//! that it covers, and the map is there again within the bound that the card's specification gives.

use crate::card::{Card, CardOptions};
use crate::spec::{BadSpec, CardSpec};
use floatgate_mtd::random::Random;
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, Nanos, SECTOR_BYTES};
use std::collections::BTreeMap;

/// Contents that a sector may have.
#[derive(Clone, Debug, Default)]
struct Sector {
    /// Number of the write that it holds, 0 for zeros.
    now: u32,
    /// Numbers that it may hold instead after a loss of power.
    or: Vec<u32>,
}

/// End of a series of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All were done.
    Done,
    /// Power was lost.
    PowerLost,
    /// The card is worn out, or has a sector that it cannot correct any more; what it has can still be read.
    WornOut,
}

/// Requests by kind, and time: the two sides of Little's law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests that were answered.
    pub requests: u64,
    /// Sum of their response times.
    pub response: Nanos,
    /// Flushes among them.
    pub flushes: u64,
}

/// A card and the contents that its sectors must have.
#[derive(Clone, Debug)]
pub struct ReferenceModel {
    card: Card,
    /// Longest time that the card may need to be ready.
    ready_bound: Nanos,
    /// Longest time that it needed.
    ready_max: Nanos,
    /// Sectors that were ever written or discarded.
    sectors: BTreeMap<u64, Sector>,
    writes: u32,
    chance: Random,
    now: Instant,
    /// Latest end of a write that no flush covers yet.
    unflushed: Instant,
    /// Sector behind the last request.
    last: u64,
    traffic: Traffic,
}

/// Contents of a sector after the write with this number.
fn contents(lba: u64, number: u32) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    if number > 0 {
        let mut chance = Random::new(lba << 32 | u64::from(number));
        bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&chance.bits().to_le_bytes()));
    }
    bytes
}

/// Lengths of requests in sectors: mostly short.
const LENGTHS: [u64; 8] = [1, 1, 2, 8, 8, 16, 64, 200];

impl ReferenceModel {
    /// A new card, and an array of zeros. `seed` gives the card's bad blocks and lives, and all requests.
    ///
    /// # Errors
    /// A specification that no card can have.
    pub fn new(spec: &CardSpec, seed: u64) -> Result<Self, BadSpec> {
        Ok(Self {
            card: Card::new(spec, CardOptions { seed, stores: true })?,
            ready_bound: spec.power_on_bound(),
            ready_max: Nanos::ZERO,
            sectors: BTreeMap::new(),
            writes: 0,
            chance: Random::new(seed),
            now: Instant::ZERO,
            unflushed: Instant::ZERO,
            last: 0,
            traffic: Traffic::default(),
        })
    }

    /// The simulated card behind the model.
    pub const fn card(&self) -> &Card {
        &self.card
    }

    /// Mutable access to the card, to order cuts.
    pub const fn card_mut(&mut self) -> &mut Card {
        &mut self.card
    }

    /// Time of the host.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Requests that were answered, and their time.
    pub const fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Longest time that the card needed to be ready after a loss of power.
    pub const fn ready_max(&self) -> Nanos {
        self.ready_max
    }

    /// A random number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.chance.bits() % limit.max(1)
    }

    /// A place and length: often in order, often at the beginning of the card, mostly short.
    fn place(&mut self) -> (u64, u64) {
        let capacity = self.card.capacity();
        let choice = self.below(LENGTHS.len() as u64) as usize;
        let count = LENGTHS.get(choice).copied().unwrap_or(1);
        let lba = match self.below(4) {
            0 => self.last,
            1 => self.below(capacity / 128) * 128,
            2 => self.below(300),
            _ => self.below(capacity),
        };
        let lba = lba % capacity;
        let count = count.min(capacity - lba);
        self.last = lba + count;
        (lba, count)
    }

    /// Does random requests, `requests` of them, or fewer when power is lost or the card is worn out.
    ///
    /// # Errors
    /// Description of the broken invariant.
    pub fn run(&mut self, requests: u32) -> Result<Ended, String> {
        for _ in 0..requests {
            let (lba, count) = self.place();
            let outcome = match self.below(20) {
                0..11 => self.write(lba, count),
                11..15 => self.read(lba, count)?,
                15..17 => self.discard(lba, count),
                17 => {
                    self.now += Nanos::from_ms(200);
                    continue;
                }
                _ => self.flush()?,
            };
            match outcome {
                Ok(end) => self.answered(end)?,
                Err(BlockError { kind: BlockErrorKind::PowerLost, at, .. }) => {
                    self.now = self.now.max(at);
                    return Ok(Ended::PowerLost);
                }
                Err(error) => return self.failed(&error),
            }
        }
        Ok(Ended::Done)
    }

    /// The card is at its end: it can still be read, and the sectors of the last request are old or new.
    fn failed(&mut self, error: &BlockError) -> Result<Ended, String> {
        if !matches!(error.kind, BlockErrorKind::WornOut | BlockErrorKind::Uncorrectable) {
            return Err(error.to_string());
        }
        self.card.cancel_cuts();
        self.find_contents()?;
        Ok(Ended::WornOut)
    }

    fn answered(&mut self, end: Instant) -> Result<(), String> {
        if end < self.now {
            return Err(format!("a request of {:?} ends at {end:?}", self.now));
        }
        self.traffic.requests += 1;
        self.traffic.response += end.since(self.now);
        self.now = end;
        Ok(())
    }

    fn write(&mut self, lba: u64, count: u64) -> Result<Instant, BlockError> {
        self.writes += 1;
        let number = self.writes;
        let mut data = Vec::with_capacity(count as usize * SECTOR_BYTES);
        for lba in lba..lba + count {
            data.extend(contents(lba, number));
            let sector = self.sectors.entry(lba).or_default();
            sector.or.push(sector.now);
            sector.now = number;
        }
        let end = self.card.write(self.now, lba, &data)?;
        self.unflushed = end;
        Ok(end)
    }

    fn discard(&mut self, lba: u64, count: u64) -> Result<Instant, BlockError> {
        for lba in lba..lba + count {
            let sector = self.sectors.entry(lba).or_default();
            sector.or.push(sector.now);
            sector.now = 0;
        }
        self.card.discard(self.now, lba, count)
    }

    /// A flush: from now on each sector holds what was written last, or zeros where that was a discard.
    fn flush(&mut self) -> Result<Result<Instant, BlockError>, String> {
        let end = match self.card.flush(self.now) {
            Ok(end) => end,
            error => return Ok(error),
        };
        if end < self.unflushed {
            return Err(format!("a flush ends at {end:?}, a write before it at {:?}", self.unflushed));
        }
        self.traffic.flushes += 1;
        for sector in self.sectors.values_mut() {
            sector.or.clear();
        }
        Ok(Ok(end))
    }

    fn read(&mut self, lba: u64, count: u64) -> Result<Result<Instant, BlockError>, String> {
        let mut buf = vec![0xEE; count as usize * SECTOR_BYTES];
        let end = match self.card.read(self.now, lba, &mut buf) {
            Ok(end) => end,
            error => return Ok(error),
        };
        for (lba, found) in (lba..).zip(buf.chunks_exact(SECTOR_BYTES)) {
            let number = self.sectors.get(&lba).map_or(0, |sector| sector.now);
            if found != contents(lba, number) {
                return Err(format!("sector {lba} does not read as written"));
            }
        }
        Ok(Ok(end))
    }

    /// Power comes back, after `cuts` further losses at a random operation of the recovery: every sector holds what it may hold.
    ///
    /// # Errors
    /// Description of the broken invariant.
    pub fn power_on(&mut self, cuts: u32) -> Result<(), String> {
        for _ in 0..cuts {
            let cut = 1 + self.below(40);
            match self.card.power_on(self.now, cut) {
                Ok(at) => {
                    self.now = at;
                    self.card.cut_power();
                }
                Err(BlockError { kind: BlockErrorKind::PowerLost | BlockErrorKind::WornOut, at, .. }) => {
                    self.card.cut_power();
                    self.now = self.now.max(at);
                }
                Err(error) => return Err(format!("during the recovery: {error}")),
            }
        }
        let ready = match self.card.power_on(self.now, 0) {
            // There is no room to put things into order, but the map is there.
            Ok(at) | Err(BlockError { kind: BlockErrorKind::WornOut, at, .. }) => at,
            Err(error) => return Err(format!("at power-on: {error}")),
        };
        self.ready_max = self.ready_max.max(ready.since(self.now));
        if ready.since(self.now) > self.ready_bound {
            let took = ready.since(self.now);
            return Err(format!("the map took {took}, more than the bound of {}", self.ready_bound));
        }
        self.now = ready;
        self.unflushed = ready;
        self.card.check()?;
        self.find_contents()
    }

    /// Reads each sector, and takes for its content what it holds, if it may.
    fn find_contents(&mut self) -> Result<(), String> {
        let mut found = [0xEE; SECTOR_BYTES];
        for (lba, sector) in &mut self.sectors {
            match self.card.read(self.now, *lba, &mut found) {
                Ok(at) => self.now = at,
                // Wear did that, and no loss of power.
                Err(BlockError { kind: BlockErrorKind::Uncorrectable, .. }) => continue,
                Err(error) => return Err(error.to_string()),
            }
            let mut allowed = std::iter::once(sector.now).chain(sector.or.iter().copied());
            let held = allowed.find(|number| contents(*lba, *number) == found);
            sector.now = held.ok_or_else(|| format!("sector {lba} is neither old nor new"))?;
            sector.or.clear();
        }
        Ok(())
    }

    /// Everything reads as written, and the card's own books are right.
    ///
    /// # Errors
    /// Description of the broken invariant.
    pub fn verify(&mut self) -> Result<(), String> {
        let places: Vec<u64> = self.sectors.keys().copied().collect();
        for lba in places {
            match self.read(lba, 1)? {
                Ok(at) => self.now = at,
                Err(BlockError { kind: BlockErrorKind::Uncorrectable, .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.card.check()
    }
}
