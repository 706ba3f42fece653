//! A card that a host works on: its content at the beginning, and the account at the end.

use super::LoadedCard;
use super::account::{KindTotals, Totals};
use super::factory::{self, Content};
use super::latencies::Latencies;
use super::state::{CardState, History, StandIn};
use super::trace::{Request, RequestKind};
use crate::Error;
use crate::envelope::{Concluded, Reported};
use crate::show::number::{grouped_count, micros as time};
use crate::show::report::{Cell, Report, Section, Table};
use floatgate_card::{Card, CardHealth, CardOptions, CardStats, Fake};
use floatgate_mtd::random::Random;
use floatgate_mtd::words::grouped;
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Breakdown, Instant, Nanos, SECTOR_BYTES};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A card before the host comes.
#[derive(Clone)]
pub struct NewCard {
    card: Fake<Card>,
    history: History,
}

/// Bytes of a request while content is laid on a card.
const FILL_BYTES: usize = 1 << 20;

impl NewCard {
    /// A card on which nothing was ever written.
    ///
    /// # Errors
    /// A specification that no card can have.
    pub fn new(card: &LoadedCard, options: CardOptions) -> Result<Self, Error> {
        Self::of(&StandIn::whole(&card.spec), options)
    }

    /// A card on which nothing was ever written, or a smaller one in its place.
    ///
    /// # Errors
    /// A specification that no card can have.
    pub fn of(stand_in: &StandIn, options: CardOptions) -> Result<Self, Error> {
        let wrong = |bad: floatgate_card::BadSpec| Error::request(bad.to_string(), "choose another value");
        let card = Fake::of_spec(&stand_in.spec, options).map_err(wrong)?;
        Ok(Self { card, history: stand_in.history })
    }

    /// Gives the card a history, with requests at places that follow from the seed. `progress` hears of steps that are done ([`Self::steps`]).
    ///
    /// # Errors
    /// The card fails.
    pub fn reach(&mut self, state: CardState, seed: u64, progress: &dyn Fn(u64)) -> Result<(), Error> {
        let chance = &mut Random::new(seed);
        let reached = state.reach(&mut self.card, self.history, chance, progress);
        reached.map_err(|error| failed(&self.card, error))
    }

    /// Clones that are made from now on share the memory of the card's map.
    pub fn share_map(&mut self) {
        self.card.device_mut().share_map();
    }

    /// Number of steps in which the card reaches a state.
    pub fn steps(&self, state: CardState) -> u64 {
        state.steps(self.card.capacity(), self.history)
    }

    /// Gives the card the format with which it leaves the factory.
    ///
    /// # Errors
    /// The card is too small for the format; it fails.
    pub fn format(&mut self, card: &LoadedCard) -> Result<(), Error> {
        for Content { lba, bytes } in factory::format(card)? {
            let written = self.card.write(self.now(), lba, &bytes);
            written.map_err(|error| failed(&self.card, error))?;
        }
        self.flush()
    }

    /// Writes an image file onto the card from its beginning on. Pieces of zeros stay unwritten.
    ///
    /// # Errors
    /// The image cannot be read, or is larger than the card claims to be; the card fails.
    pub fn fill(&mut self, path: &Path) -> Result<(), Error> {
        let failed = |error: std::io::Error| {
            Error::request(format!("{}: {error}", path.display()), "name a file that can be read")
        };
        let mut image = File::open(path).map_err(failed)?;
        // A file that is too large is refused before any of it is read; of a pipe or a device the length is 0.
        self.check_room(image.metadata().map_err(failed)?.len())?;
        let mut piece = Vec::with_capacity(FILL_BYTES);
        let mut lba = 0;
        loop {
            piece.clear();
            image.by_ref().take(FILL_BYTES as u64).read_to_end(&mut piece).map_err(failed)?;
            if piece.is_empty() {
                return self.flush();
            }
            piece.resize(piece.len().next_multiple_of(SECTOR_BYTES), 0);
            self.lay(lba, &piece)?;
            lba += (piece.len() / SECTOR_BYTES) as u64;
        }
    }

    fn check_room(&self, image_bytes: u64) -> Result<(), Error> {
        let bytes = self.card.capacity() * SECTOR_BYTES as u64;
        if image_bytes <= bytes {
            return Ok(());
        }
        Err(Error::request(
            format!("the image is larger than the card, which has {bytes} bytes"),
            "choose a larger card, or override `card.capacity_bytes`",
        ))
    }

    /// Writes sectors that are not all zeros.
    fn lay(&mut self, lba: u64, piece: &[u8]) -> Result<(), Error> {
        self.check_room(lba * SECTOR_BYTES as u64 + piece.len() as u64)?;
        if piece.iter().any(|byte| *byte != 0) {
            let written = self.card.write(self.now(), lba, piece);
            written.map_err(|error| failed(&self.card, error))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let flushed = self.card.flush(self.now());
        flushed.map(drop).map_err(|error| failed(&self.card, error))
    }

    /// Virtual time at which the card is ready for the host.
    pub const fn now(&self) -> Instant {
        self.card.device().now()
    }

    /// Hands the card to a host. The account begins here.
    pub fn meet(self, observer: Option<Observer>) -> CardAtWork {
        let (start, before) = (self.now(), self.card.device().stats());
        let asleep = self.card.device().asleep();
        CardAtWork { card: self.card, totals: Totals::default(), start, before, asleep, observer }
    }
}

/// The failure of a card, with the key that prevents it.
pub(super) fn failed(card: &Fake<Card>, error: BlockError) -> Error {
    Error::request(format!("the card fails: {error}"), remedy(&card.device().health(), error.kind))
}

fn remedy(health: &CardHealth, kind: BlockErrorKind) -> &'static str {
    match kind {
        BlockErrorKind::PowerLost => "raise `card.power.limit_ua`, or set `card.power.overload` to \"stall\"",
        BlockErrorKind::OutOfRange { .. } => "choose a larger card, or override `card.capacity_bytes`",
        BlockErrorKind::TimedOut => "raise `card.host.write_timeout_us`",
        // Of the blocks with more and with one bit a cell, those are worn out that have used more of their own cycles.
        _ if health.enhanced_used.is_some_and(|used| used > health.life_used) => {
            "raise `card.enhanced.endurance_cycles`"
        }
        _ => "raise `card.wear.endurance_cycles`",
    }
}

/// Takes each request when it has ended.
pub type Observer = Box<dyn FnMut(&Request) + Send>;

/// A card that a host works on, with an account of all requests.
pub struct CardAtWork {
    card: Fake<Card>,
    totals: Totals,
    /// Beginning of the account.
    start: Instant,
    before: CardStats,
    /// Time that the card had been asleep before.
    asleep: Nanos,
    observer: Option<Observer>,
}

/// Account of what a host did with a card.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CardAccount {
    /// Maker and name of the card.
    pub card: String,
    /// Size as the host sees it, in bytes.
    pub capacity_bytes: u64,
    /// Virtual time in us from the first moment to the end of the last request.
    pub time_us: f64,
    /// Counts of reads.
    pub read: KindTotals,
    /// Counts of writes.
    pub write: KindTotals,
    /// Counts of discards.
    pub discard: KindTotals,
    /// Counts of flushes.
    pub flush: KindTotals,
    /// Requests that failed.
    pub failed: u64,
    /// Latencies of all requests.
    #[serde(flatten)]
    pub latency: Latencies,
    /// 99.9th percentile of the latencies in us.
    pub p999_us: f64,
    /// Units written to the NAND for each one that the host wrote.
    pub write_amplification: f64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks whose data was moved because they had been read often (`card.wear.refresh_reads`).
    pub refreshes: u64,
    /// Pages read from the NAND.
    pub page_reads: u64,
    /// Most reads of a block since it was erased, by which its data is moved.
    pub block_reads_max: u32,
    /// Time that the card was asleep (`card.power.sleep_after_us`), us.
    pub asleep_us: f64,
}

impl CardAccount {
    /// Report of the account, with further lines at its end.
    pub(super) fn report(&self, more: impl IntoIterator<Item = String>) -> Report {
        let kinds =
            [("read", self.read), ("write", self.write), ("discard", self.discard), ("flush", self.flush)];
        let row = |(name, KindTotals { requests, bytes }): (&str, KindTotals)| {
            let kib = bytes.div_ceil(1024);
            let counts = [requests, kib].map(|count| Cell::shown(count as f64, grouped(count)));
            std::iter::once(name.into()).chain(counts).collect()
        };
        let table = Table::new(&["request"], &["count", "KiB"], kinds.into_iter().map(row));
        let failed = (self.failed > 0).then(|| format!("failed requests: {}", self.failed));
        Report {
            title: format!("{}: {} MB", self.card, grouped(self.capacity_bytes / 1_000_000)),
            sections: vec![
                Section::Table(table),
                Section::Text(failed.into_iter().chain([self.times(), self.wear()]).chain(more).collect()),
            ],
            ..Report::default()
        }
    }

    /// Line with the times of all requests.
    fn times(&self) -> String {
        let latency = &self.latency;
        let [median, p99, p999, longest] =
            [latency.p50_us, latency.p99_us, self.p999_us, latency.max_us].map(time);
        format!(
            "time {}; latency: median {median}, 99 % {p99}, 99.9 % {p999}, longest {longest}",
            time(self.time_us)
        )
    }

    /// Line with the work of the flash.
    fn wear(&self) -> String {
        // A trace that only reads has no write amplification.
        let amplification = match self.write.bytes {
            0 => String::new(),
            _ => format!("write amplification {:.2}, ", self.write_amplification),
        };
        let refreshes = match self.refreshes {
            0 => String::new(),
            moved => format!(", {} moved after many reads", grouped_count(moved, "block")),
        };
        let asleep =
            if self.asleep_us > 0.0 { format!("; asleep {}", time(self.asleep_us)) } else { String::new() };
        format!(
            "{amplification}{} erased{refreshes}; {} read, {} of one block since its erase at most{asleep}",
            grouped_count(self.erases, "block"),
            grouped_count(self.page_reads, "page"),
            grouped(self.block_reads_max.into()),
        )
    }
}

/// Account of a card that was served in real time, and the delays of its answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServedCard {
    /// Account of the card.
    #[serde(flatten)]
    pub account: CardAccount,
    /// Ratio of real time to virtual time; 0 for a card that answers at once.
    pub time_scale: f64,
    /// Number of answers that this machine computed too late.
    pub late_requests: u64,
    /// Mean delay of the answers, us.
    pub late_mean_us: f64,
    /// Longest delay, us.
    pub late_max_us: f64,
}

impl Concluded for ServedCard {
    /// States the failed requests, and the requests that this machine answered too late.
    fn conclusion(&self) -> String {
        let failed = match self.account.failed {
            0 => "No request failed".to_owned(),
            failed => format!("{} failed", grouped_count(failed, "request")),
        };
        let late = match self.late_requests {
            _ if self.time_scale == 0.0 => String::new(),
            0 => ", and all were answered in time".to_owned(),
            late => format!(", and {} came late: this machine was too slow", grouped_count(late, "answer")),
        };
        format!("{failed}{late}.")
    }
}

impl Reported for ServedCard {
    fn report(&self) -> Report {
        let late = (self.time_scale != 0.0).then(|| {
            let [mean, most] = [self.late_mean_us, self.late_max_us].map(time);
            let computed = grouped_count(self.late_requests, "request");
            format!(
                "answers left {mean} late on average, {most} at most; this machine was too slow for {computed}"
            )
        });
        self.account.report(late)
    }
}

impl CardAtWork {
    /// Virtual time at which the card is ready for the next request.
    pub const fn now(&self) -> Instant {
        self.card.device().now()
    }

    /// Gives the card a partition table with one partition of Linux, from the second allocation unit to the end.
    ///
    /// # Errors
    /// The card has no room for it; it fails.
    pub(super) fn partition(&mut self, card: &LoadedCard) -> Result<(), Error> {
        let Content { lba, bytes } = factory::one_partition(self.card.capacity(), card.spec.au_bytes)?;
        let outcome = self.write(self.now(), lba, &bytes).and_then(|written| self.flush(written));
        outcome.map(drop).map_err(|error| self.failed(error))
    }

    /// The failure of the card, with the key that prevents it.
    pub(crate) fn failed(&self, error: BlockError) -> Error {
        failed(&self.card, error)
    }

    /// Begins the account anew, with another observer.
    pub(super) fn begin_account(&mut self, observer: Option<Observer>) {
        (self.start, self.before) = (self.now(), self.card.device().stats());
        self.asleep = self.card.device().asleep();
        (self.totals, self.observer) = (Totals::default(), observer);
    }

    /// Counts of the card's flash since it was made.
    pub(super) fn stats(&self) -> CardStats {
        self.card.device().stats()
    }

    /// Erase counts of all blocks.
    pub(super) fn erase_counts(&self) -> impl Iterator<Item = u32> {
        self.card.device().erase_counts()
    }

    /// Account until now.
    pub fn account(&self, card: &LoadedCard) -> CardAccount {
        let Totals { read, write, discard, flush, failed, ref latencies } = self.totals;
        let stats = self.card.device().stats();
        CardAccount {
            card: card.name(),
            capacity_bytes: self.card.capacity() * SECTOR_BYTES as u64,
            time_us: self.now().since(self.start).as_us_f64(),
            read,
            write,
            discard,
            flush,
            failed,
            latency: latencies.latencies(),
            p999_us: latencies.percentile_us(999),
            write_amplification: stats.write_amplification(&self.before),
            erases: stats.erases - self.before.erases,
            refreshes: stats.refreshes - self.before.refreshes,
            page_reads: stats.page_reads - self.before.page_reads,
            block_reads_max: self.card.device().most_reads(),
            asleep_us: (self.card.device().asleep() - self.asleep).as_us_f64(),
        }
    }
}

impl CardAtWork {
    /// Books a request that has ended.
    fn ended(
        &mut self,
        now: Instant,
        (kind, sector, sectors): (RequestKind, u64, u64),
        outcome: Result<Instant, BlockError>,
    ) -> Result<Instant, BlockError> {
        let end = outcome.as_ref().map_or_else(|error| error.at, |end| *end);
        let latency = Some(end.since(now));
        let request = Request { at: now.since(self.start), kind, sector, sectors, latency };
        self.totals.add(&request, outcome.is_ok());
        if let Some(observer) = &mut self.observer {
            observer(&request);
        }
        outcome
    }
}

impl BlockDevice for CardAtWork {
    fn capacity(&self) -> u64 {
        self.card.capacity()
    }

    fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        let outcome = self.card.read(now, lba, buf);
        self.ended(now, (RequestKind::Read, lba, (buf.len() / SECTOR_BYTES) as u64), outcome)
    }

    fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        let outcome = self.card.write(now, lba, data);
        self.ended(now, (RequestKind::Write, lba, (data.len() / SECTOR_BYTES) as u64), outcome)
    }

    fn discard(&mut self, now: Instant, lba: u64, count: u64) -> Result<Instant, BlockError> {
        let outcome = self.card.discard(now, lba, count);
        self.ended(now, (RequestKind::Discard, lba, count), outcome)
    }

    fn flush(&mut self, now: Instant) -> Result<Instant, BlockError> {
        let outcome = self.card.flush(now);
        self.ended(now, (RequestKind::Flush, 0, 0), outcome)
    }

    fn breakdown(&self) -> Breakdown {
        self.card.breakdown()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::load;
    use floatgate_config::{Library, Override};

    /// The help names the cycles of the blocks that are worn out.
    #[test]
    fn a_worn_card_names_the_cycles_that_are_used_up() {
        for (sets, key) in [
            (&["card.enhanced.bytes=16MiB", "card.enhanced.endurance_cycles=1"][..], "card.enhanced.end"),
            (&["card.enhanced.bytes=16MiB", "card.wear.endurance_cycles=1"][..], "card.wear.end"),
            (&["card.wear.endurance_cycles=1"][..], "card.wear.end"),
        ] {
            let small = [
                "card.capacity_bytes=256MiB",
                "card.slc.blocks=2",
                "card.spare_blocks=60",
                "card.wear.life_factor=0.5",
            ];
            let sets = Override::parse_all(&[&small[..], sets].concat()).unwrap();
            let card = load(&Library::built_in(), "emmc-16g", &sets).unwrap();
            let mut new = NewCard::new(&card, CardOptions { seed: 1, stores: false }).unwrap();
            let piece = vec![1; FILL_BYTES];
            let pieces = new.card.capacity() / 2048;
            let worn = (0..200 * pieces).find_map(|at| new.lay(at % pieces * 2048, &piece).err()).unwrap();
            let help = worn.help().map(|help| help.to_string()).unwrap_or_default();
            assert!(worn.to_string().contains("worn out") && help.contains(key), "{sets:?}: {worn} {help}");
        }
    }
}
