//! An SD card or eMMC, with a clock of virtual time.

use crate::setup::library;
use crate::{OperationTime, Result};
use floatgate_card::{CardOptions, Fake};
use floatgate_config::{Kind, Override};
use floatgate_mtd::{BlockDevice, BlockError, Instant, Nanos};
use floatgate_sim::Error;
use floatgate_sim::card::load;
use std::path::Path;

/// An SD card or eMMC behind its host, with a clock of virtual time: each call begins when the previous call has ended.
///
/// A card with a false capacity has the size that it reports. A clone is an independent card with the same contents.
#[derive(Clone, Debug)]
pub struct Card {
    device: Fake<floatgate_card::Card>,
    now: Instant,
}

impl Card {
    /// Creates an empty card: a card of the catalogue by its name, or a TOML file by its path (with a `/`, or ending in `.toml`).
    ///
    /// # Errors
    /// [`Error::Setup`](crate::Error::Setup): an unknown name, with similar names as help; a file that cannot be read; an invalid value.
    pub fn named(name: impl AsRef<Path>) -> Result<Self> {
        Self::with(name, &[], 0)
    }

    /// Creates a card as [`named`](Self::named), with changed keys such as `card.open_aus=4`, and a seed for all variation between
    /// cards.
    ///
    /// # Errors
    /// The errors of [`named`](Self::named); an unknown key, or an invalid value.
    pub fn with(name: impl AsRef<Path>, keys_and_values: &[&str], seed: u64) -> Result<Self> {
        let sets = (1..)
            .zip(keys_and_values)
            .map(|(number, set)| Override::parse_of(&format!("Card::with #{number}"), set));
        let loaded = load(library(), name, &sets.collect::<std::result::Result<Vec<_>, _>>()?)?;
        let device = Fake::of_spec(&loaded.spec, CardOptions { seed, stores: true });
        let device = device.map_err(|bad| {
            Error::request(format!("card.{}: {}", bad.key, bad.problem), "set another value")
        })?;
        let now = device.device().now();
        Ok(Self { device, now })
    }

    /// Names of all cards in the catalogue, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        library().names(Kind::Card)
    }

    /// Size of the card in sectors of 512 bytes.
    pub fn sectors(&self) -> u64 {
        self.device.capacity()
    }

    /// Time since power-on at the end of the last call.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Reads whole sectors from sector `lba` on. Sectors that were never written read as zeros.
    ///
    /// # Errors
    /// [`Error::Card`](crate::Error::Card): beyond the end, a partial sector, more bit errors than the card corrects.
    pub fn read(&mut self, lba: u64, buf: &mut [u8]) -> Result<OperationTime> {
        self.run(|card, now| card.read(now, lba, buf))
    }

    /// Writes whole sectors from sector `lba` on. The data may stay in the card's volatile memory until [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`Error::Card`](crate::Error::Card): beyond the end, a partial sector, worn out.
    pub fn write(&mut self, lba: u64, data: &[u8]) -> Result<OperationTime> {
        self.run(|card, now| card.write(now, lba, data))
    }

    /// Tells the card that the data of `count` sectors from sector `lba` on is no longer needed.
    ///
    /// # Errors
    /// [`Error::Card`](crate::Error::Card): beyond the end.
    pub fn discard(&mut self, lba: u64, count: u64) -> Result<OperationTime> {
        self.run(|card, now| card.discard(now, lba, count))
    }

    /// Waits until all data is on flash.
    ///
    /// # Errors
    /// [`Error::Card`](crate::Error::Card): worn out.
    pub fn flush(&mut self) -> Result<OperationTime> {
        self.run(|card, now| card.flush(now))
    }

    /// Advances virtual time without a request. The card does its background work in this time.
    pub fn wait(&mut self, time: Nanos) {
        self.now += time;
    }

    /// The simulated card, for access to registers, wear, energy and power cuts.
    pub const fn device(&mut self) -> &mut floatgate_card::Card {
        self.device.device_mut()
    }

    fn run(
        &mut self,
        request: impl FnOnce(&mut Fake<floatgate_card::Card>, Instant) -> std::result::Result<Instant, BlockError>,
    ) -> Result<OperationTime> {
        let (start, before) = (self.now, self.device.breakdown());
        let outcome = request(&mut self.device, start);
        self.now = *outcome.as_ref().unwrap_or_else(|error| &error.at);
        outcome?;
        Ok(OperationTime {
            total: self.now.since(start),
            breakdown: self.device.breakdown() - before,
            bitflips: 0,
        })
    }
}
