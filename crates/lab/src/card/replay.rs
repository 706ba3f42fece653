//! The requests of a trace on a card: one at a time, with the think times of whoever made them or without.

use super::LoadedCard;
use super::serve::{CardAccount, CardAtWork, Observer};
use super::speed::REQUEST_BYTES_MAX;
use super::trace::{Request, RequestKind, TraceError};
use crate::Error;
use crate::envelope::Reported;
use crate::show::number::{grouped_count, micros as time};
use crate::show::plot::Addresses;
use crate::show::report::Report;
use floatgate_mtd::{BlockDevice, Instant, SECTOR_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Time between the completion of a request and the issue of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkTime {
    /// As in the trace. Where that has no completions, requests are issued at the times of the trace, or later when the card is not ready.
    Keep,
    /// None: each request is issued when the one before it is completed.
    None,
}

/// Result of a replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// Account of the card.
    #[serde(flatten)]
    pub account: CardAccount,
    /// KiB read and written in a second of virtual time.
    pub kib_s: f64,
    /// Requests in a second of virtual time.
    pub iops: f64,
    /// Length of the trace in us, from the first issue to the last completion.
    pub trace_time_us: f64,
    /// Places to which the trace writes.
    #[serde(flatten)]
    pub places: WritePlaces,
    /// Times of its syncs.
    #[serde(flatten)]
    pub syncs: SyncTimes,
    /// Requests in the order of time, for a picture.
    #[serde(skip)]
    pub addresses: Addresses,
}

impl Replay {
    /// Line with the speed and the places of the writes.
    pub fn summary(&self) -> String {
        format!(
            "{:.0} KiB/s, {:.0} requests/s; {} written, {} open for 99 % of the writes",
            self.kib_s,
            self.iops,
            grouped_count(self.places.written_aus, "allocation unit"),
            self.places.open_aus_p99
        )
    }
}

impl Reported for Replay {
    fn report(&self) -> Report {
        let trace = format!("the trace itself took {}", time(self.trace_time_us));
        self.account.report([self.summary(), trace])
    }
}

/// Times of syncs: from the first write behind a flush to the end of the next flush. It is what a program waits for that calls fsync; the
/// fsync of a filesystem with a journal may be two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncTimes {
    /// Number of syncs.
    pub syncs: u64,
    /// Median of their times in us; 0 without syncs.
    pub sync_p50_us: f64,
    /// Longest time in us.
    pub sync_max_us: f64,
}

/// Syncs of a trace that is played.
#[derive(Default)]
struct Syncs {
    /// Issue of the first write since the last flush.
    began: Option<Instant>,
    times_ns: Vec<u64>,
}

impl Syncs {
    fn add(&mut self, kind: RequestKind, issued: Instant, ended: Instant) {
        match kind {
            RequestKind::Write => self.began = self.began.or(Some(issued)),
            RequestKind::Flush => {
                self.times_ns.extend(self.began.take().map(|began| ended.since(began).as_ns()));
            }
            RequestKind::Read | RequestKind::Discard => {}
        }
    }

    fn times(mut self) -> SyncTimes {
        self.times_ns.sort_unstable();
        let us = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e3);
        let middle = self.times_ns.len().saturating_sub(1) / 2;
        SyncTimes {
            syncs: self.times_ns.len() as u64,
            sync_p50_us: us(self.times_ns.get(middle)),
            sync_max_us: us(self.times_ns.last()),
        }
    }
}

/// Allocation units to which a trace writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritePlaces {
    /// Distinct allocation units that are written.
    pub written_aus: u64,
    /// Fewest open allocation units with which 99 % of the writes that come back to one find it open, when the one used least recently
    /// is closed for another; at most 256.
    pub open_aus_p99: u64,
    /// Changes of the allocation unit from one write to the next.
    pub au_changes: u64,
}

/// Does the requests that come before a trace, such as mkfs, without think times. The account begins behind them.
///
/// # Errors
/// Those of [`replay`].
pub fn prepare(
    at_work: &mut CardAtWork,
    before: impl Iterator<Item = Result<Request, TraceError>>,
    observer: Option<Observer>,
) -> Result<(), Error> {
    let mut player = Player::new(at_work, ThinkTime::None);
    for request in before {
        player.play(&request.map_err(wrong)?)?;
    }
    at_work.begin_account(observer);
    Ok(())
}

fn wrong(error: TraceError) -> Error {
    let hint = "name a trace that a served card or a replay recorded, or one of fio, blkparse, blktrace or MSR Cambridge";
    Error::request(error.to_string(), hint)
}

/// Replays a trace on a card.
///
/// # Errors
/// A trace that cannot be read, or with requests beyond the end of the card. What the card refuses is counted as failed.
pub fn replay(
    card: &LoadedCard,
    mut at_work: CardAtWork,
    trace: impl Iterator<Item = Result<Request, TraceError>>,
    think_time: ThinkTime,
) -> Result<Replay, Error> {
    let mut player = Player::new(&mut at_work, think_time);
    let mut open_aus = OpenAuCounter::new(card.spec.au_bytes);
    let (mut addresses, mut syncs) = (Addresses::default(), Syncs::default());
    for request in trace {
        let request = request.map_err(wrong)?;
        let issued = player.play(&request)?;
        syncs.add(request.kind, issued, player.before.map_or(issued, |before| before.ended));
        if matches!(request.kind, RequestKind::Read | RequestKind::Write) {
            let is_write = request.kind == RequestKind::Write;
            addresses.add(issued.since(player.start), is_write, request.sector, request.sectors);
            if is_write {
                open_aus.write(&request);
            }
        }
    }
    let trace_time_us = player.trace_end_ns as f64 / 1e3;
    let account = at_work.account(card);
    let seconds = (account.time_us / 1e6).max(1e-9);
    let requests = [account.read, account.write, account.discard, account.flush].map(|kind| kind.requests);
    Ok(Replay {
        kib_s: (account.read.bytes + account.write.bytes) as f64 / 1024.0 / seconds,
        iops: requests.iter().sum::<u64>() as f64 / seconds,
        trace_time_us,
        places: open_aus.places(),
        syncs: syncs.times(),
        addresses,
        account,
    })
}

/// The request before, in the trace and on the card.
#[derive(Clone, Copy)]
struct Predecessor {
    request: Request,
    issued: Instant,
    ended: Instant,
}

struct Player<'a> {
    card: &'a mut CardAtWork,
    think_time: ThinkTime,
    start: Instant,
    before: Option<Predecessor>,
    played: u64,
    trace_end_ns: u64,
    buf: Vec<u8>,
}

impl<'a> Player<'a> {
    fn new(card: &'a mut CardAtWork, think_time: ThinkTime) -> Self {
        let (start, buf) = (card.now(), vec![0; REQUEST_BYTES_MAX as usize]);
        Self { card, think_time, start, before: None, played: 0, trace_end_ns: 0, buf }
    }

    /// Does a request. Returns the time of its issue.
    fn play(&mut self, request: &Request) -> Result<Instant, Error> {
        self.played += 1;
        let capacity = self.card.capacity();
        if request.sector + request.sectors > capacity {
            return Err(Error::request(
                format!(
                    "request {} of the trace reaches to sector {}, and the card has {capacity} sectors",
                    self.played,
                    request.sector + request.sectors
                ),
                "choose a larger card, or override `card.capacity_bytes`",
            ));
        }
        let issued = self.issue_time(request);
        let ended = self.perform(request, issued);
        self.before = Some(Predecessor { request: *request, issued, ended });
        let latency = request.latency.map_or(0, |latency| latency.as_ns());
        self.trace_end_ns = self.trace_end_ns.max(request.at.as_ns() + latency);
        Ok(issued)
    }

    fn issue_time(&self, request: &Request) -> Instant {
        let Some(before) = self.before else { return self.start };
        let gap = |since: u64| floatgate_mtd::Nanos::from_ns(request.at.as_ns().saturating_sub(since));
        let issued = before.request.at.as_ns();
        match (self.think_time, before.request.latency) {
            (ThinkTime::None, _) => before.ended,
            (ThinkTime::Keep, Some(latency)) => before.ended + gap(issued + latency.as_ns()),
            (ThinkTime::Keep, None) => before.ended.max(before.issued + gap(issued)),
        }
    }

    /// Does a request in pieces that a host asks for at once. Returns the time of its end.
    fn perform(&mut self, request: &Request, mut now: Instant) -> Instant {
        let Request { kind, mut sector, sectors, .. } = *request;
        let end = sector + sectors;
        let card = &mut self.card;
        let ended = |outcome: Result<Instant, floatgate_mtd::BlockError>| match outcome {
            Ok(end) => end,
            Err(error) => error.at,
        };
        match kind {
            RequestKind::Flush => return ended(card.flush(now)),
            RequestKind::Discard => return ended(card.discard(now, sector, sectors)),
            RequestKind::Read | RequestKind::Write => {}
        }
        while sector < end {
            let count = (end - sector).min(REQUEST_BYTES_MAX / SECTOR_BYTES as u64);
            let buf = &mut self.buf[..count as usize * SECTOR_BYTES];
            now = match kind {
                RequestKind::Read => ended(card.read(now, sector, buf)),
                _ => ended(card.write(now, sector, buf)),
            };
            sector += count;
        }
        now
    }
}

/// Most open allocation units that are distinguished.
const DEPTH_MAX: usize = 256;

/// Counts how many allocation units were written since the last write to the same one (Mattson's stack distance).
pub(super) struct OpenAuCounter {
    au_sectors: u64,
    /// Those written last, the latest first.
    recent: Vec<u64>,
    written: BTreeSet<u64>,
    /// Writes that come back, by their place among the recent ones; the last counts all that are not there any more.
    depths: Vec<u64>,
    au_changes: u64,
}

impl OpenAuCounter {
    pub(super) fn new(au_bytes: u64) -> Self {
        let au_sectors = au_bytes / SECTOR_BYTES as u64;
        let depths = vec![0; DEPTH_MAX + 1];
        Self { au_sectors, recent: Vec::new(), written: BTreeSet::new(), depths, au_changes: 0 }
    }

    pub(super) fn write(&mut self, request: &Request) {
        let Some(last) = request.sectors.checked_sub(1).map(|more| request.sector + more) else { return };
        for au in request.sector / self.au_sectors..=last / self.au_sectors {
            let place = self.recent.iter().position(|recent| *recent == au);
            self.au_changes += u64::from(place != Some(0));
            if !self.written.insert(au) {
                self.depths[place.unwrap_or(DEPTH_MAX)] += 1;
            }
            match place {
                Some(place) => self.recent[..=place].rotate_right(1),
                None => {
                    self.recent.truncate(DEPTH_MAX - 1);
                    self.recent.insert(0, au);
                }
            }
        }
    }

    pub(super) fn places(&self) -> WritePlaces {
        let all: u64 = self.depths.iter().sum();
        let mut found = 0;
        let depth = self.depths.iter().position(|count| {
            found += count;
            found * 100 >= all * 99
        });
        let open_aus_p99 =
            if self.written.is_empty() { 0 } else { depth.map_or(0, |depth| depth as u64 + 1) };
        WritePlaces {
            written_aus: self.written.len() as u64,
            open_aus_p99: open_aus_p99.min(DEPTH_MAX as u64),
            au_changes: self.au_changes,
        }
    }
}

/// Mean number of places to which a workload writes for each of the `files` that it makes and syncs one after the other. A place is a run of units of
/// `unit_bytes` that touch each other; what is written between the syncs of two files belongs to the second one. None without files or writes.
pub fn places_per_file(requests: &[Request], files: u64, unit_bytes: u64) -> Option<f64> {
    let flushes = requests.iter().filter(|request| request.kind == RequestKind::Flush).count() as u64;
    let unit_sectors = unit_bytes / SECTOR_BYTES as u64;
    if files == 0 || unit_sectors == 0 || requests.is_empty() {
        return None;
    }
    // A commit of a journal is two flushes.
    let flushes_per_file = (flushes as f64 / files as f64).round().max(1.0) as u64;
    let (mut places, mut flushed, mut units) = (0, 0, BTreeSet::new());
    for request in requests {
        match request.kind {
            RequestKind::Write if request.sectors > 0 => {
                let last = request.sector + request.sectors - 1;
                units.extend(request.sector / unit_sectors..=last / unit_sectors);
            }
            RequestKind::Flush => flushed += 1,
            _ => {}
        }
        if request.kind == RequestKind::Flush && flushed % flushes_per_file == 0 {
            places += runs(&std::mem::take(&mut units));
        }
    }
    Some((places + runs(&units)) as f64 / files as f64)
}

/// Runs of numbers that follow each other.
fn runs(units: &BTreeSet<u64>) -> u64 {
    units.iter().filter(|unit| unit.checked_sub(1).is_none_or(|before| !units.contains(&before))).count()
        as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use floatgate_mtd::Nanos;

    /// Two files with a journal of two flushes each: data, and two neighbours in the journal.
    #[test]
    fn places_are_counted_for_each_file() {
        let flush = Request { kind: RequestKind::Flush, ..write(0, 0) };
        let file = |n: u64| [write(8000 + 8 * n, 8), write(16 * n, 8), flush, write(16 * n + 8, 8), flush];
        let requests: Vec<Request> = (0..2).flat_map(file).collect();
        assert_eq!(places_per_file(&requests, 2, 4096), Some(2.0));
        assert_eq!(places_per_file(&requests, 2, 8 << 20), Some(1.0));
        assert_eq!(places_per_file(&requests, 0, 4096), None);
        assert_eq!(places_per_file(&requests, 2, 0), None);
    }

    fn write(sector: u64, sectors: u64) -> Request {
        Request { at: Nanos::ZERO, kind: RequestKind::Write, sector, sectors, latency: None }
    }

    #[test]
    fn a_sync_ends_with_its_flush() {
        let at = |us: u64| Instant::ZERO + Nanos::from_us(us);
        let mut syncs = Syncs::default();
        for (kind, issued, ended) in [
            (RequestKind::Flush, 0, 1),
            (RequestKind::Write, 10, 12),
            (RequestKind::Read, 12, 13),
            (RequestKind::Write, 20, 22),
            (RequestKind::Flush, 22, 30),
            (RequestKind::Write, 40, 41),
            (RequestKind::Flush, 41, 45),
            (RequestKind::Write, 50, 51),
        ] {
            syncs.add(kind, at(issued), at(ended));
        }
        assert_eq!(syncs.times(), SyncTimes { syncs: 2, sync_p50_us: 5.0, sync_max_us: 20.0 });
        assert_eq!(Syncs::default().times(), SyncTimes::default());
    }

    #[test]
    fn as_many_open_aus_are_needed_as_are_written_in_turn() {
        for places in [1, 2, 7, 100] {
            let mut counter = OpenAuCounter::new(4096);
            for turn in 0..80 {
                (0..places).for_each(|au| counter.write(&write(au * 80 + turn % 8, 1)));
            }
            let au_changes = if places == 1 { 1 } else { 80 * places };
            let expected = WritePlaces { written_aus: places, open_aus_p99: places, au_changes };
            assert_eq!(counter.places(), expected);
        }
        let mut counter = OpenAuCounter::new(4096);
        assert_eq!(counter.places(), WritePlaces::default());
        counter.write(&write(7, 2));
        assert_eq!(counter.places(), WritePlaces { written_aus: 2, open_aus_p99: 1, au_changes: 2 });
    }
}
