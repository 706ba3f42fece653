//! Losses of power of the drive that a guest works on.
//!
//! [`WriteLog`] has the guest's writes with their data, in a temporary file. [`CutDrive`] is the drive as a
//! loss of power may leave it: what was written before the last flush is there. What was written or discarded
//! after it is old or new, map unit by map unit, as a card leaves it, or sector by sector. The guest's
//! filesystem recovers on it; what it writes is forgotten with the next cut.

use crate::card::powercut::CutFailure;
use floatgate_mtd::SECTOR_BYTES;
use floatgate_mtd::random::{Random, hash};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Losses of power that are tried after a run: at each flush, and at a request between each flush and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cuts {
    /// Number of them, evenly over the workload; all when absent.
    pub number: Option<u32>,
    /// Each sector that was not flushed is old or new for itself. Otherwise the sectors of one write to one map unit are the same.
    pub tears_units: bool,
}

/// Result of the losses of power of one filesystem under one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CutResults {
    /// Flushes of the workload, up to the end of umount.
    pub flushes: u64,
    /// Losses of power tried.
    pub cuts: u64,
    /// Recoveries in which the filesystem's checker corrected something.
    pub corrected: u64,
    /// Files synced before a loss of power that were looked for after it, of all losses together.
    pub files_checked: u64,
    /// Losses after which the filesystem was not as it must be, at most 100.
    pub failures: Vec<CutFailure>,
    /// Finding of the checks after the losses, in words.
    pub verdict: String,
}

/// Most failures that are kept.
const FAILURES_MAX: usize = 100;

impl CutResults {
    /// Adds a loss of power that ended in a failure.
    pub(super) fn fail(&mut self, id: String, problem: String) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(CutFailure { id, problem });
        }
    }

    /// Finding of the checks after the losses.
    fn in_words(&self) -> &'static str {
        match (self.failures.is_empty(), self.files_checked) {
            (false, _) => "the filesystem or a synced file was damaged",
            (true, 0) => {
                "the check of the filesystem found no damage; no synced file was looked for: only `create` syncs files that are checked"
            }
            (true, _) => "the check of the filesystem found no damage, and the synced files were there",
        }
    }
}

/// Event of the log. Data of a write is in the file, from `at` on.
#[derive(Clone, Copy)]
enum Event {
    Write {
        sector: u64,
        sectors: u64,
        at: u64,
    },
    Discard {
        sector: u64,
        sectors: u64,
    },
    Flush,
    /// The workload has synced one more file.
    Synced,
}

/// Writes of a guest with their data, discards and flushes.
pub(super) struct WriteLog {
    file: File,
    /// Bytes of the file that are in use.
    bytes: u64,
    events: Vec<Event>,
    /// Events before the workload.
    first: usize,
}

impl WriteLog {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile()?, bytes: 0, events: Vec::new(), first: 0 })
    }

    /// Appends data to the file. Returns its place.
    fn put(&mut self, data: &[u8]) -> io::Result<u64> {
        let at = self.bytes;
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(data)?;
        self.bytes += data.len() as u64;
        Ok(at)
    }

    pub(super) fn write(&mut self, sector: u64, data: &[u8]) -> io::Result<()> {
        let at = self.put(data)?;
        self.events.push(Event::Write { sector, sectors: (data.len() / SECTOR_BYTES) as u64, at });
        Ok(())
    }

    pub(super) fn discard(&mut self, sector: u64, sectors: u64) {
        self.events.push(Event::Discard { sector, sectors });
    }

    pub(super) fn flush(&mut self) {
        self.events.push(Event::Flush);
    }

    pub(super) fn synced(&mut self) {
        self.events.push(Event::Synced);
    }

    /// Power goes away from here on, and not before.
    pub(super) fn begin_work(&mut self) {
        self.first = self.events.len();
    }
}

/// Moment of a loss of power: before the event with this number, after this number of flushes of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    event: usize,
    flush: u64,
}

/// Drive of a guest after losses of power, one after the other.
pub(super) struct CutDrive {
    log: WriteLog,
    moments: Vec<Moment>,
    /// Number of the loss that comes next.
    next: usize,
    /// Place in the file of each sector that was flushed before the event with the number `applied`; all others are zeros.
    flushed: BTreeMap<u64, u64>,
    applied: usize,
    /// The same of the drive as the guest has it.
    sectors: BTreeMap<u64, u64>,
    /// Files synced so far.
    synced: u64,
    /// Sectors that are old or new together.
    grain: u64,
    /// End of the log's data in the file.
    logged: u64,
    seed: u64,
    pub(super) results: CutResults,
}

impl CutDrive {
    /// `unit_sectors` are those of a map unit of the card.
    pub(super) fn new(log: WriteLog, cuts: Cuts, unit_sectors: u64, seed: u64) -> Self {
        let all = moments(&log, seed);
        let flushes = log.events[log.first..].iter().filter(|event| matches!(event, Event::Flush)).count();
        let moments = match cuts.number.map(|number| number as usize) {
            Some(number) if number < all.len() => {
                (0..number).map(|place| all[place * all.len() / number]).collect()
            }
            _ => all,
        };
        Self {
            logged: log.bytes,
            log,
            moments,
            next: 0,
            flushed: BTreeMap::new(),
            applied: 0,
            sectors: BTreeMap::new(),
            synced: 0,
            grain: if cuts.tears_units { 1 } else { unit_sectors },
            seed,
            results: CutResults { flushes: flushes as u64, ..CutResults::default() },
        }
    }

    /// Goes on to the next loss of power.
    pub(super) fn cut(&mut self) {
        let moment = self.moments.get(self.next).copied();
        self.next += 1;
        let Some(moment) = moment else { return };
        let events = &self.log.events[self.applied..moment.event];
        let durable =
            events.iter().rposition(|event| matches!(event, Event::Flush)).map_or(0, |last| last + 1);
        // A discard may be forgotten, as the specifications of DISCARD allow; so its sectors are old or new at any time.
        let mut chance = Random::new(hash(self.seed, moment.event as u64, 5));
        let durable = self.applied + durable;
        for event in &self.log.events[self.applied..durable] {
            let is_write = matches!(event, Event::Write { .. });
            apply(&mut self.flushed, *event, |_| is_write || chance.bits() & 1 == 0);
        }
        self.applied = durable;
        self.sectors.clone_from(&self.flushed);
        for event in &self.log.events[durable..moment.event] {
            // Sectors of an event come in ascending order.
            let (grain, mut last) = (self.grain, None);
            apply(&mut self.sectors, *event, |sector| match last {
                Some((unit, is_new)) if unit == sector / grain => is_new,
                _ => last.insert((sector / grain, chance.bits() & 1 == 0)).1,
            });
        }
        let is_synced = |event: &&Event| matches!(event, Event::Synced);
        self.synced = self.log.events[..moment.event].iter().filter(is_synced).count() as u64;
        self.log.bytes = self.logged;
        self.results.cuts += 1;
        self.results.files_checked += self.synced;
    }

    /// Order for the guest: `cut` and the number of files that were synced before it; `done` after the last.
    pub(super) fn order(&self) -> String {
        if self.next > self.moments.len() { "done".to_owned() } else { format!("cut {}", self.synced) }
    }

    /// Name of the loss of power under way.
    pub(super) fn id(&self) -> String {
        let Some(moment) = self.next.checked_sub(1).and_then(|number| self.moments.get(number)) else {
            return String::new();
        };
        let after = moment.event - self.applied;
        format!("flush {} and {after} requests", moment.flush)
    }

    /// Results of all losses, with what they show.
    pub(super) fn into_results(self) -> CutResults {
        let verdict = self.results.in_words().to_owned();
        CutResults { verdict, ..self.results }
    }

    pub(super) fn read(&mut self, sector: u64, out: &mut [u8]) -> io::Result<()> {
        for (sector, out) in (sector..).zip(out.chunks_exact_mut(SECTOR_BYTES)) {
            match self.sectors.get(&sector) {
                None => out.fill(0),
                Some(at) => {
                    self.log.file.seek(SeekFrom::Start(*at))?;
                    self.log.file.read_exact(out)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, sector: u64, data: &[u8]) -> io::Result<()> {
        let at = self.log.put(data)?;
        let sectors = (data.len() / SECTOR_BYTES) as u64;
        apply(&mut self.sectors, Event::Write { sector, sectors, at }, |_| true);
        Ok(())
    }

    pub(super) fn discard(&mut self, sector: u64, sectors: u64) {
        apply(&mut self.sectors, Event::Discard { sector, sectors }, |_| true);
    }
}

/// Applies an event to those of its sectors that are new.
fn apply(drive: &mut BTreeMap<u64, u64>, event: Event, mut is_new: impl FnMut(u64) -> bool) {
    match event {
        Event::Write { sector, sectors, at } => {
            for number in (0..sectors).filter(|number| is_new(sector + number)) {
                drive.insert(sector + number, at + number * SECTOR_BYTES as u64);
            }
        }
        Event::Discard { sector, sectors } => {
            let held: Vec<u64> = drive.range(sector..sector + sectors).map(|(sector, _)| *sector).collect();
            for sector in held.iter().filter(|sector| is_new(**sector)) {
                drive.remove(sector);
            }
        }
        Event::Flush | Event::Synced => {}
    }
}

/// All moments: right after each flush of the workload, and before some request between it and the next.
fn moments(log: &WriteLog, seed: u64) -> Vec<Moment> {
    let mut moments = Vec::new();
    let (mut begin, mut flush) = (log.first, 0);
    let mut chance = Random::new(hash(seed, 0, 6));
    for (number, event) in log.events.iter().enumerate().skip(log.first) {
        if matches!(event, Event::Flush) {
            push_moments(&mut moments, begin..number, flush, &mut chance);
            (begin, flush) = (number + 1, flush + 1);
        }
    }
    push_moments(&mut moments, begin..log.events.len(), flush, &mut chance);
    moments
}

fn push_moments(moments: &mut Vec<Moment>, events: std::ops::Range<usize>, flush: u64, chance: &mut Random) {
    moments.push(Moment { event: events.start, flush });
    if !events.is_empty() {
        let event = events.start + 1 + (chance.bits() % events.len() as u64) as usize;
        moments.push(Moment { event, flush });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 8;

    /// A log of a sector each of `0` before the workload, and of units of `1`, `2`, ... after it, a flush behind each.
    fn log(units: u8) -> WriteLog {
        let mut log = WriteLog::new().unwrap();
        log.write(0, &[0xFF; SECTOR_BYTES]).unwrap();
        log.flush();
        log.begin_work();
        for number in 1..=units {
            log.write(UNIT, &[number; UNIT as usize * SECTOR_BYTES]).unwrap();
            log.synced();
            log.flush();
        }
        log
    }

    /// First bytes of the sectors of the unit.
    fn unit(drive: &mut CutDrive) -> Vec<u8> {
        let mut sectors = vec![0xEE; UNIT as usize * SECTOR_BYTES];
        drive.read(UNIT, &mut sectors).unwrap();
        sectors.iter().step_by(SECTOR_BYTES).copied().collect()
    }

    fn drives(cuts: Cuts, seed: u64, mut each: impl FnMut(&mut CutDrive, u64)) {
        let mut drive = CutDrive::new(log(20), cuts, UNIT, seed);
        loop {
            drive.cut();
            let order = drive.order();
            let Some(synced) = order.strip_prefix("cut ") else { break };
            each(&mut drive, synced.parse().unwrap());
        }
        assert_eq!(drive.results.flushes, 20);
    }

    #[test]
    fn what_was_flushed_is_there_and_the_rest_is_old_or_new() {
        let (mut old, mut new, mut torn) = (0, 0, 0);
        for (seed, tears_units) in (0..40).map(|seed| (seed, seed % 2 == 0)) {
            let mut flushed = Vec::new();
            drives(Cuts { number: None, tears_units }, seed, |drive, _| {
                let held = unit(drive);
                // The moment right after a flush comes before the one amid the requests that follow.
                if drive.id().ends_with("and 0 requests") {
                    assert!(held.iter().all(|byte| *byte == held[0]), "{held:?}");
                    assert!(flushed.last().is_none_or(|last| held[0] == last + 1), "{held:?}");
                    flushed.push(held[0]);
                    return;
                }
                let before = flushed[flushed.len() - 1];
                assert!(
                    held.iter().all(|byte| [before, before + 1].contains(byte)),
                    "{held:?} after {before}"
                );
                let changed = held.iter().filter(|byte| **byte != before).count();
                match changed {
                    0 => old += 1,
                    8 => new += 1,
                    _ => torn += u32::from(tears_units),
                }
                assert!(tears_units || [0, 8].contains(&changed), "{held:?}");
            });
            assert_eq!(flushed, (0..=20).collect::<Vec<u8>>());
        }
        assert!(old > 50 && new > 50 && torn > 50, "{old} {new} {torn}");
    }

    #[test]
    fn files_count_as_synced_from_their_mark_on_and_a_cut_forgets_what_the_guest_wrote() {
        drives(Cuts { number: Some(10), tears_units: false }, 1, |drive, synced| {
            let flush: u64 = drive.id().split(' ').nth(1).unwrap().parse().unwrap();
            assert!(synced == flush || synced == flush + 1, "{synced} files after flush {flush}");
            drive.write(UNIT, &[0xAA; SECTOR_BYTES]).unwrap();
            drive.discard(UNIT + 1, 1000);
            assert_eq!(unit(drive), [0xAA, 0, 0, 0, 0, 0, 0, 0]);
        });
        let mut drive = CutDrive::new(log(20), Cuts { number: Some(10), tears_units: false }, UNIT, 1);
        (0..10).for_each(|_| drive.cut());
        assert_eq!(drive.results.cuts, 10);
        drive.cut();
        assert_eq!((drive.order(), drive.results.cuts), ("done".to_owned(), 10));
    }

    #[test]
    fn a_verdict_says_whether_synced_files_were_looked_for() {
        let of = |files_checked| CutResults { files_checked, ..CutResults::default() };
        assert!(of(0).in_words().contains("no synced file was looked for"));
        assert!(of(3).in_words().contains("the synced files were there"));
        let mut damaged = of(3);
        damaged.fail("flush 1 and 0 requests".to_owned(), "files: gone".to_owned());
        assert!(damaged.in_words().contains("damaged"));
    }
}
