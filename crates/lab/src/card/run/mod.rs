//! Filesystems of Linux and workloads on a card: a guest works on it, and marks tell the runs and their phases apart.
//!
//! `cuts`: the drive after losses of power, on which the guest's filesystem has to recover.
//!
//! [`Workbench`] is the device that the guest has. A write to the sector behind the card's end is a mark, no request; each run begins with
//! a new card that has one partition. The card's time passes with the time of its server: only during
//! requests, or with the guest's clock.

mod cuts;

pub use cuts::{CutResults, Cuts};

use super::LoadedCard;
use super::factory::Content;
use super::replay::{OpenAuCounter, WritePlaces};
use super::serve::{CardAccount, CardAtWork, NewCard, Observer};
use super::trace::{Request, RequestKind};
use crate::Error;
use cuts::{CutDrive, WriteLog};
use floatgate_card::CardOptions;
use floatgate_mtd::{BlockDevice, BlockError, BlockErrorKind, Breakdown, Instant, Nanos, SECTOR_BYTES};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Script of the guest. It finds its orders in files beside its input: `plan`, `marks`, `clients`.
pub const GUEST: &str = include_str!("guest.sh");

/// First process of User Mode Linux, which runs that script.
pub const UML_INIT: &str = include_str!("uml.sh");

/// Filesystems that the guest can make: name, and the programs that it needs with their Debian packages.
pub const FILESYSTEMS: [(&str, &str); 8] = [
    ("ext4", "mkfs.ext4:e2fsprogs fsck.ext4:e2fsprogs"),
    ("f2fs", "mkfs.f2fs:f2fs-tools fsck.f2fs:f2fs-tools"),
    ("nilfs2", "mkfs.nilfs2:nilfs-tools nilfs_cleanerd:nilfs-tools"),
    ("vfat", "mkfs.vfat:dosfstools fsck.vfat:dosfstools"),
    ("exfat", "mkfs.exfat:exfatprogs fsck.exfat:exfatprogs"),
    ("btrfs", "mkfs.btrfs:btrfs-progs btrfs:btrfs-progs"),
    ("xfs", "mkfs.xfs:xfsprogs xfs_repair:xfsprogs"),
    ("reiserfs", "mkreiserfs:reiserfsprogs reiserfsck:reiserfsprogs"),
];

/// Workloads: name, and the programs that it needs with their Debian packages.
pub const WORKLOADS: [(&str, &str); 13] = [
    ("postmark", "postmark:postmark"),
    ("postmark-sync", "postmark:postmark"),
    ("dbench", "dbench:dbench"),
    ("create", ""),
    ("kernel-build", "tcc:tcc"),
    ("journald", ""),
    ("sqlite", ""),
    ("swap", ""),
    ("camera", ""),
    ("log2ram", ""),
    ("docker", ""),
    ("fio", "fio:fio"),
    ("script", ""),
];

/// Sectors behind the card's end, for marks: one page, which is the least that a host may write at once.
const MARK_SECTORS: u64 = 8;

/// Result of one filesystem under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct CardRun {
    /// Name of the filesystem, as `mkfs` has it.
    pub filesystem: String,
    /// Name of the workload, or of its file.
    pub workload: String,
    /// Part of the filesystem that was filled before, in percent.
    pub fill_percent: u8,
    /// True when the filesystem was aged, so that its free space is holes of 64 KiB.
    pub is_aged: bool,
    /// Discards of mkfs and of the mounted filesystem: `default`, `yes` or `no`.
    pub discarding: Discarding,
    /// Protection period of NILFS2's cleaner in s; absent when it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protection_period_s: Option<u32>,
    /// Verdict: `clean` by the check of the filesystem; `full` when the workload found no space left on a filesystem that is still clean;
    /// `failed` with the phase that failed; `unfinished`. Phases are `mkfs`, `mount`, `cleaner`, `fill`,
    /// `workload`, `umount`, `fsck` and `recovery` from a loss of power.
    pub verdict: String,
    /// Last words of the program that failed, or the phase that was not finished; empty where all went well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Account of the card from the workload's first request to the end of `umount`.
    #[serde(flatten)]
    pub account: CardAccount,
    /// Name of the host; absent for a host that takes no time and has every bus mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Time of the host's CPU for the requests, in us.
    pub host_cpu_us: f64,
    /// Time of mkfs, of mounting and of filling, in us.
    pub prepare_us: f64,
    /// Time of the check of the filesystem, in us.
    pub check_us: f64,
    /// Files that the workload made; absent where it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Allocation units that it wrote.
    #[serde(flatten)]
    pub places: WritePlaces,
    /// Changes of the allocation unit from one write to the next, for each file made; absent where their number is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places_per_file: Option<f64>,
    /// Losses of power, where they were tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_loss: Option<CutResults>,
}

/// Discards of mkfs and of a mounted filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discarding {
    /// As the programs and the kernel do it when nothing is said: mkfs discards, and F2FS does when it is mounted.
    #[default]
    Default,
    /// Mounted with `discard`.
    Yes,
    /// Neither mkfs nor the kernel discards.
    No,
}

impl Discarding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Default, Self::Yes, Self::No];

    /// Word of the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Yes => "yes",
            Self::No => "no",
        }
    }
}

impl FromStr for Discarding {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|own| own.name() == name).ok_or("default, yes or no")
    }
}

/// Part of a run that has a trace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePart {
    /// From the partitioning of the new card to the workload.
    Before,
    /// From the workload to the end of `umount`.
    Workload,
}

/// Makes the observer of the requests of a part of a run that begins.
pub type Observers = Box<dyn FnMut(&CardRun, TracePart) -> Option<Observer> + Send>;

impl CardRun {
    /// Name of its trace: `ext4-postmark`, `ext4-postmark-90` on a filesystem that was filled, `ext4-postmark-90-aged` on one that was aged, and
    /// `ext4-postmark-90-aged-discard` on one that was mounted with `discard`.
    pub fn trace_name(&self) -> String {
        let aged = if self.is_aged { "-aged" } else { "" };
        let fill =
            if self.fill_percent == 0 { String::new() } else { format!("-{}{aged}", self.fill_percent) };
        let cleaner = self.protection_period_s.map_or(String::new(), |s| format!("-cleaner-{s}"));
        let discard = match self.discarding {
            Discarding::Default => "",
            Discarding::Yes => "-discard",
            Discarding::No => "-nodiscard",
        };
        format!("{}{cleaner}-{}{fill}{discard}", self.filesystem, self.workload)
    }
}

/// Card of a guest, new for each run.
pub struct Workbench {
    card: LoadedCard,
    options: CardOptions,
    at_work: CardAtWork,
    places: OpenAuCounter,
    observers: Observers,
    run: Option<CardRun>,
    /// Times at which the run began: by the clock of who serves the card, and by the card's own.
    began: (Instant, Instant),
    /// Time at which the phase began.
    phase: Instant,
    /// Name of the phase.
    phase_name: String,
    /// The workload found no space left.
    is_full: bool,
    /// Losses of power to try after each run.
    cuts: Option<Cuts>,
    /// Writes of the run, for the losses of power after it.
    log: Option<WriteLog>,
    /// The drive after a loss of power; the guest has it instead of the card.
    cut_drive: Option<CutDrive>,
    is_working: bool,
    done: Vec<CardRun>,
}

impl Workbench {
    /// A card before the guest comes.
    ///
    /// # Errors
    /// A specification that no card can have; a card without room for a partition.
    pub fn new(
        card: LoadedCard,
        options: CardOptions,
        cuts: Option<Cuts>,
        observers: Observers,
    ) -> Result<Self, Error> {
        let at_work = partitioned(&card, options)?;
        let (phase, places) = (at_work.now(), OpenAuCounter::new(card.spec.au_bytes));
        Ok(Self {
            card,
            options,
            at_work,
            places,
            observers,
            run: None,
            began: (Instant::ZERO, phase),
            phase,
            phase_name: "the start of the guest".to_owned(),
            is_full: false,
            cuts,
            log: None,
            cut_drive: None,
            is_working: false,
            done: Vec::new(),
        })
    }

    /// The sector into which marks are written.
    pub fn marks(&self) -> u64 {
        self.at_work.capacity()
    }

    /// Name of the phase in which the guest is: `workload of ext4 postmark`.
    pub fn phase(&self) -> String {
        match &self.run {
            Some(run) => format!("{} of {} {}", self.phase_name, run.filesystem, run.workload),
            None => self.phase_name.clone(),
        }
    }

    /// All runs. One that the guest did not end is unfinished.
    pub fn into_runs(mut self) -> Vec<CardRun> {
        let message = format!("during {}", self.phase_name);
        self.set_message(message);
        self.end("unfinished");
        self.done
    }

    fn set_message(&mut self, message: String) {
        if let Some(run) = &mut self.run {
            run.message = message;
        }
    }

    /// Takes a mark. Unknown marks are ignored.
    fn mark(&mut self, host: Instant, text: &str) -> Result<(), Error> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["run", filesystem, workload, fill, cleaner, aged, discard] => {
                let discarding = discard.parse().unwrap_or_default();
                let fill = (fill.parse().unwrap_or(0), aged == "aged", discarding);
                self.begin(host, filesystem, workload, fill, cleaner.parse().ok())?;
            }
            ["phase", phase] => phase.clone_into(&mut self.phase_name),
            ["work"] => self.work(),
            ["worked", files] => self.worked(files.parse().ok().filter(|files| *files > 0)),
            ["full", ref said @ ..] => {
                self.is_full = true;
                self.set_message(said.join(" "));
            }
            ["synced"] => {
                if let Some(log) = &mut self.log {
                    log.synced();
                }
            }
            ["cut"] => self.cut(),
            ["recovered", is_corrected] => {
                if let Some(drive) = &mut self.cut_drive {
                    drive.results.corrected += u64::from(is_corrected == "1");
                }
            }
            ["lost", ref said @ ..] => {
                if let Some(drive) = &mut self.cut_drive {
                    let id = drive.id();
                    drive.results.fail(id, said.join(" "));
                }
            }
            ["clean"] => {
                let is_recovered =
                    self.cut_drive.as_ref().is_none_or(|drive| drive.results.failures.is_empty());
                self.end(match (is_recovered, self.is_full) {
                    (false, _) => "failed recovery",
                    (true, true) => "full",
                    (true, false) => "clean",
                });
            }
            ["failed", phase, ref said @ ..] => {
                self.set_message(said.join(" "));
                self.end(&format!("failed {phase}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(
        &mut self,
        host: Instant,
        filesystem: &str,
        workload: &str,
        (fill_percent, is_aged, discarding): (u8, bool, Discarding),
        protection_period_s: Option<u32>,
    ) -> Result<(), Error> {
        self.end("unfinished");
        self.at_work = NewCard::new(&self.card, self.options)?.meet(None);
        let run = CardRun {
            filesystem: filesystem.to_owned(),
            workload: workload.to_owned(),
            fill_percent,
            is_aged: is_aged && fill_percent > 0,
            discarding,
            protection_period_s,
            verdict: String::new(),
            message: String::new(),
            account: self.at_work.account(&self.card),
            host: self.card.host.clone(),
            host_cpu_us: 0.0,
            prepare_us: 0.0,
            check_us: 0.0,
            files: None,
            places: WritePlaces::default(),
            places_per_file: None,
            power_loss: None,
        };
        let observer = (self.observers)(&run, TracePart::Before);
        self.at_work.begin_account(observer);
        self.at_work.partition(&self.card)?;
        self.run = Some(run);
        self.phase = self.at_work.now();
        self.began = (host, self.phase);
        self.is_full = false;
        self.log = self.cuts.map(|_| self.begin_log()).transpose()?;
        self.places = OpenAuCounter::new(self.card.spec.au_bytes);
        Ok(())
    }

    /// A log that begins with what the new card holds.
    fn begin_log(&self) -> Result<WriteLog, Error> {
        let Content { lba, bytes } =
            super::factory::one_partition(self.at_work.capacity(), self.card.spec.au_bytes)?;
        let log = WriteLog::new().and_then(|mut log| log.write(lba, &bytes).map(|()| log));
        log.map_err(|error| Error::request(error.to_string(), "name a folder with room in TMPDIR"))
    }

    /// Power goes away: the guest gets the drive as that may leave it.
    fn cut(&mut self) {
        if let (Some(log), Some(cuts)) = (self.log.take(), self.cuts) {
            self.cut_drive = Some(CutDrive::new(
                log,
                cuts,
                self.card.spec.unit_bytes() / SECTOR_BYTES as u64,
                self.options.seed,
            ));
        }
        if let Some(drive) = &mut self.cut_drive {
            drive.cut();
        }
    }

    /// Ends a phase. Returns its time in us.
    fn next_phase(&mut self) -> f64 {
        let now = self.at_work.now();
        let passed = now.since(self.phase);
        self.phase = now;
        passed.as_us_f64()
    }

    fn work(&mut self) {
        "workload".clone_into(&mut self.phase_name);
        let passed = self.next_phase();
        let Some(run) = &mut self.run else { return };
        run.prepare_us = passed;
        let observer = (self.observers)(run, TracePart::Workload);
        self.at_work.begin_account(observer);
        if let Some(log) = &mut self.log {
            log.begin_work();
        }
        self.is_working = true;
    }

    fn worked(&mut self, files: Option<u64>) {
        "fsck".clone_into(&mut self.phase_name);
        self.next_phase();
        self.is_working = false;
        let account = self.at_work.account(&self.card);
        self.at_work.begin_account(None);
        let kinds = [account.read, account.write, account.discard, account.flush];
        let requests = kinds.iter().map(|kind| kind.requests).sum();
        let cpu = self.card.spec.host.cpu_time(requests, account.read.bytes + account.write.bytes);
        let Some(run) = &mut self.run else { return };
        let places = self.places.places();
        run.places_per_file = files.map(|files| places.au_changes as f64 / files as f64);
        (run.account, run.files, run.places) = (account, files, places);
        run.host_cpu_us = cpu.as_us_f64();
    }

    fn end(&mut self, verdict: &str) {
        let passed = self.next_phase();
        self.is_working = false;
        let Some(mut run) = self.run.take() else { return };
        run.check_us = passed;
        run.power_loss = self.cut_drive.take().map(CutDrive::into_results);
        self.log = None;
        run.verdict = verdict.to_owned();
        self.done.push(run);
    }
}

/// A new card with one partition, from its second allocation unit to its end.
fn partitioned(card: &LoadedCard, options: CardOptions) -> Result<CardAtWork, Error> {
    let mut at_work = NewCard::new(card, options)?.meet(None);
    at_work.partition(card)?;
    Ok(at_work)
}

impl Workbench {
    /// Moment of the card at a moment of who serves it.
    fn card_time(&self, host: Instant) -> Instant {
        (self.began.1 + host.since(self.began.0)).max(self.at_work.now())
    }

    /// End of a request of the card for who serves it.
    fn host_time(&self, outcome: Result<Instant, BlockError>) -> Result<Instant, BlockError> {
        let (host, card) = self.began;
        let of = |at: Instant| host + at.since(card);
        outcome.map(of).map_err(|error| BlockError { at: of(error.at), ..error })
    }

    fn is_mark(&self, lba: u64) -> bool {
        lba >= self.at_work.capacity()
    }
}

/// A request to a drive that has no time.
fn timeless(now: Instant, lba: u64, outcome: std::io::Result<()>) -> Result<Instant, BlockError> {
    outcome.map(|()| now).map_err(|_| BlockErrorKind::HostFile.at(lba, now))
}

impl BlockDevice for Workbench {
    fn capacity(&self) -> u64 {
        self.at_work.capacity() + MARK_SECTORS
    }

    fn read(&mut self, now: Instant, lba: u64, buf: &mut [u8]) -> Result<Instant, BlockError> {
        let sectors = self.at_work.capacity().saturating_sub(lba).min((buf.len() / SECTOR_BYTES) as u64);
        let (card, behind) = buf.split_at_mut(sectors as usize * SECTOR_BYTES);
        behind.fill(0);
        if let Some(drive) = &mut self.cut_drive {
            behind.iter_mut().zip(drive.order().bytes()).for_each(|(to, from)| *to = from);
            return timeless(now, lba, drive.read(lba, card));
        }
        if card.is_empty() {
            return Ok(now);
        }
        let outcome = self.at_work.read(self.card_time(now), lba, card);
        self.host_time(outcome)
    }

    fn write(&mut self, now: Instant, lba: u64, data: &[u8]) -> Result<Instant, BlockError> {
        if self.is_mark(lba) {
            let text = String::from_utf8_lossy(data);
            let taken = self.mark(now, text.trim_end_matches('\0'));
            return taken.map(|()| now).map_err(|_| BlockErrorKind::WornOut.at(lba, now));
        }
        if let Some(drive) = &mut self.cut_drive {
            return timeless(now, lba, drive.write(lba, data));
        }
        if self.is_working {
            let sectors = (data.len() / SECTOR_BYTES) as u64;
            let request =
                Request { at: Nanos::ZERO, kind: RequestKind::Write, sector: lba, sectors, latency: None };
            self.places.write(&request);
        }
        if let Some(log) = &mut self.log {
            timeless(now, lba, log.write(lba, data))?;
        }
        let outcome = self.at_work.write(self.card_time(now), lba, data);
        self.host_time(outcome)
    }

    fn discard(&mut self, now: Instant, lba: u64, count: u64) -> Result<Instant, BlockError> {
        let count = count.min(self.at_work.capacity().saturating_sub(lba));
        if count == 0 {
            return Ok(now);
        }
        if let Some(drive) = &mut self.cut_drive {
            drive.discard(lba, count);
            return Ok(now);
        }
        if let Some(log) = &mut self.log {
            log.discard(lba, count);
        }
        let outcome = self.at_work.discard(self.card_time(now), lba, count);
        self.host_time(outcome)
    }

    fn flush(&mut self, now: Instant) -> Result<Instant, BlockError> {
        if self.cut_drive.is_some() {
            return Ok(now);
        }
        if let Some(log) = &mut self.log {
            log.flush();
        }
        let outcome = self.at_work.flush(self.card_time(now));
        self.host_time(outcome)
    }

    fn breakdown(&self) -> Breakdown {
        self.at_work.breakdown()
    }
}
