//! Test model of a card: a simulated card and a plain array, random requests, power losses, and the invariants after
//! each of them.
//!
//! After a power loss, a sector contains its data at the last flush, or any data written to it later; a discard counts as a write
//! of zeros. Later reads return the same contents as the first read. Times never decrease, no flush ends before the writes that it
//! covers, and the map is rebuilt within the bound of the card's specification.

use crate::card::{Card, CardOptions};
use crate::spec::{BadSpec, CardSpec};
use floatgate_mtd::random::Random;
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Instant, Nanos, SECTOR_BYTES};
use std::collections::BTreeMap;

/// Possible contents of a sector.
#[derive(Clone, Debug, Default)]
struct Sector {
    /// Number of the last write to the sector; 0 for zeros.
    now: u32,
    /// Numbers of the writes whose data it may contain instead after a power loss.
    or: Vec<u32>,
}

/// Reason why a series of requests ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All requests were done.
    Done,
    /// Power was lost.
    PowerLost,
    /// The card is worn out, or has an uncorrectable sector. Other data can still be read.
    WornOut,
}

/// Number of requests and their response times, for a check of Little's law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of completed requests.
    pub requests: u64,
    /// Sum of their response times.
    pub response: Nanos,
    /// Number of flushes among them.
    pub flushes: u64,
}

/// A card, and the contents that its sectors must have.
#[derive(Clone, Debug)]
pub struct ReferenceModel {
    card: Card,
    /// Maximum time that the card may need to become ready after power-on.
    ready_bound: Nanos,
    /// Longest measured time until the card was ready after power-on.
    ready_max: Nanos,
    /// Sectors that were ever written or discarded.
    sectors: BTreeMap<u64, Sector>,
    writes: u32,
    chance: Random,
    now: Instant,
    /// Latest end of the writes since the last flush.
    unflushed: Instant,
    /// First sector after the last request.
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

/// Lengths of random requests, in sectors.
const LENGTHS: [u64; 8] = [1, 1, 2, 8, 8, 16, 64, 200];

impl ReferenceModel {
    /// Creates a card and an array of zeros. `seed` determines the card's bad blocks, the lives of its blocks, and all
    /// requests.
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

    /// The simulated card.
    pub const fn card(&self) -> &Card {
        &self.card
    }

    /// Mutable access to the card, to order cuts.
    pub const fn card_mut(&mut self) -> &mut Card {
        &mut self.card
    }

    /// Current time of the host.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Number of completed requests, and their response times.
    pub const fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Longest time until the card was ready after a power loss.
    pub const fn ready_max(&self) -> Nanos {
        self.ready_max
    }

    /// A random number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.chance.bits() % limit.max(1)
    }

    /// Random position and length of a request: often sequential, often at the beginning of the card, mostly short.
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

    /// Sends up to `requests` random requests; fewer if power is lost or the card is worn out.
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

    /// Handles a worn-out card: it can still be read, and the sectors of the last request have old or new contents.
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

    /// Flushes the card. After that each sector contains the last written data, or zeros after a discard.
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

    /// Restores power, after `cuts` further power losses at random operations of the recovery, and checks that every sector has
    /// one of its possible contents.
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
            // The card has no space to finish the merges, but the map is rebuilt.
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

    /// Reads each sector, checks that its contents are possible, and stores them as its contents.
    fn find_contents(&mut self) -> Result<(), String> {
        let mut found = [0xEE; SECTOR_BYTES];
        for (lba, sector) in &mut self.sectors {
            match self.card.read(self.now, *lba, &mut found) {
                Ok(at) => self.now = at,
                // Wear is the cause, not a power loss.
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

    /// Checks that all sectors contain the written data, and that the card's own accounting is correct.
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
