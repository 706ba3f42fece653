//! `floatgate life`: a filesystem over years, on cells that wear, lose charge and suffer read disturb.
//!
//! A chip is filled with static files, and one more file is overwritten every day. Time jumps from one event to the
//! next, and the cells lose the charge of the days in between. Every 91 days and at the end, the data of these days is
//! written. At a set interval, a pass of **ubihealthd** reads all PEBs, so that UBI moves LEBs with bit errors. After
//! each event, the static files are compared with their contents.
//!
//! Only a small part of the data is really written. The rest only wears the blocks as [`crate::life::Wear`] states:
//! first the blocks without static files, and all blocks once wear levelling moves those, too (Linux:
//! `UBI_WL_THRESHOLD`). Retention is [`Cells::bake`](floatgate_device::cells::Cells::bake). Every read and erase that
//! affects the bits of a page is simulated.
//!
//! Cells of NOR are not simulated: its blocks and its data last as long as the part promises.

use crate::advise::ecc::Use;
use crate::interval::wilson;
use crate::life::{self, DAYS_PER_YEAR, Endurance, FlashLife, HOT, Wear};
use crate::speed::pattern;
use crate::speed_run;
use floatgate_config::{Config, Library};
use floatgate_device::cells::Cells;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, set};
use floatgate_mtd::size::text as size;
use floatgate_mtd::{Counted, Mtd as _, Nanos};
use floatgate_sim::error::Error;
use floatgate_sim::machine::{self, Filesystem, FilesystemKind, Layers, OnDevice};
use floatgate_sim::rig::{self, Device, RigOptions};
use floatgate_sim::vfs::Flash;
use floatgate_stack::fs::{Error as FsError, NewFile, NewKind};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::ops::Range;

/// Default share of the free space that static files fill, percent.
pub const FILL_PERCENT: u32 = 50;

/// Options of `floatgate life`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Kind of the filesystem.
    pub kind: FilesystemKind,
    /// Maximum number of years to simulate on each chip.
    pub years: f64,
    /// Temperature, in degrees Celsius.
    pub temperature_c: f64,
    /// Bytes that programs write per day.
    pub write_bytes_per_day: u64,
    /// Share of the free space that static files fill, percent.
    pub fill_percent: u32,
    /// Days between two passes of ubihealthd; `None` without ubihealthd.
    pub scrub_days: Option<u32>,
    /// Number of chips, each with its own seed.
    pub chips: u32,
    /// Seed of the first chip.
    pub seed: u64,
}

/// Erase cycles of the blocks of a chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycles {
    /// Erase cycles of the least worn block.
    pub least: u32,
    /// Mean erase cycles of all blocks.
    pub mean: u32,
    /// Erase cycles of the most worn block.
    pub most: u32,
}

/// Life of a filesystem on a chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Seed of the chip.
    pub seed: u64,
    /// Years until data was lost or could not be written; `None` if nothing failed.
    pub failed_after_years: Option<f64>,
    /// Description of the failure.
    pub failure: Option<String>,
    /// Number of LEBs that UBI moved because of bit errors.
    pub moved: u64,
    /// Number of blocks that became bad.
    pub bad_blocks: u32,
    /// Erase cycles at the end, including the cycles before the first day.
    pub cycles: Cycles,
    #[serde(skip)]
    cycles_before: u32,
}

/// Result of `floatgate life`: the lives of several chips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Title of the setup.
    pub title: String,
    /// Name of the chip.
    pub chip: String,
    /// Kind of the filesystem.
    pub filesystem: FilesystemKind,
    /// Days between two passes of ubihealthd; `None` without ubihealthd.
    pub scrub_days: Option<u32>,
    /// Requested number of years.
    pub years: f64,
    /// Temperature, in degrees Celsius.
    pub temperature_c: f64,
    /// Bytes that programs wrote per day.
    pub write_bytes_per_day: u64,
    /// Erase cycles that the blocks had before the first day.
    pub cycles_before: u32,
    /// Erase cycles that the part promises; `None` if it promises none.
    pub rated_cycles: Option<u64>,
    /// Wear of the most worn block.
    pub wear: WearOut,
    /// Years of retention that the part promises. Only for NOR, whose cells are not simulated.
    pub promised_retention_years: Option<u32>,
    /// False for NOR, whose cells are not simulated: its life follows from the promises of the part.
    pub cells_simulated: bool,
    /// Number of chips without a failure.
    pub survived: u32,
    /// Lower and upper end of the probability that a chip survives (Wilson, 95 %). `None` if all chips live alike,
    /// which does not show how chips differ.
    pub probability: Option<[f64; 2]>,
    /// Lives of the simulated chips, by seed.
    pub lives: Vec<Life>,
}

/// Wear of the most worn block of a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WearOut {
    /// Erase cycles that a block endures: the cycles that the part promises, or fewer if the ECC cannot correct that
    /// many.
    pub cycles: u64,
    /// Origin of these cycles, in words.
    pub reason: String,
    /// Erase cycles of the most worn block at the end of the simulated years.
    pub cycles_at_end: u64,
    /// Years until the block has had all its cycles; `None` beyond 100 years, when wear is not the limit.
    pub worn_out_after_years: Option<f64>,
}

impl WearOut {
    /// True if the block has had all its cycles before the end of these years.
    pub fn ends_before(&self, years: f64) -> bool {
        self.worn_out_after_years.is_some_and(|worn_out| worn_out < years)
    }

    fn of_life(life: &FlashLife, options: &Options) -> Self {
        let Endurance { cycles, reason, .. } = life.endurance.clone();
        Self {
            cycles,
            reason,
            cycles_at_end: life.cycles_after(options.years, options.write_bytes_per_day),
            worn_out_after_years: life.years(options.write_bytes_per_day),
        }
    }
}

const SECONDS_PER_DAY: f64 = 86_400.0;

/// Days between two writes, each of which writes the data of these days and checks the files.
const WRITE_DAYS: f64 = 91.0;

/// Maximum size of a static file, bytes, and maximum number of such files, which limit the simulated part of a large
/// chip.
const FILE: u64 = 1 << 20;
const FILES_MAX: u64 = 64;

/// Size of a page of the page cache, bytes. Files are whole pages.
const PAGE: u64 = 4096;

impl Options {
    /// Years of a life, rounded up to whole years.
    pub fn whole_years(&self) -> u64 {
        self.years.max(0.0).ceil() as u64
    }
}

/// Life of the flash of a setup under the writes of a filesystem of this kind.
///
/// # Errors
/// The setup is wrong, or the filesystem cannot be created on it.
pub fn flash_life(library: &Library, config: &Config, options: &Options) -> Result<FlashLife, Error> {
    let wired = rig::wire(library, config, RigOptions { stores: false, ..RigOptions::default() })?;
    let use_ = Use { years: options.years, temperature_c: options.temperature_c, ..Use::default() };
    Ok(FlashLife {
        endurance: Endurance::of_config(config, wired.device.geometry(), use_)?,
        wear: Wear::measure(library, config, options.kind, options.fill_percent, HOT)?,
    })
}

/// Lives of chips of a setup; `progress` receives the number of simulated years.
///
/// # Errors
/// The setup is wrong, or the filesystem cannot be created on it.
pub fn run(
    library: &Library,
    config: &Config,
    options: &Options,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, Error> {
    let flash = flash_life(library, config, options)?;
    run_with(library, config, options, &flash, progress)
}

/// Lives of chips of a setup, for flash whose life is known. `flash` is the life of the whole partition, of which
/// `config` is a sample.
///
/// # Errors
/// The errors of [`run`].
pub(crate) fn run_with(
    library: &Library,
    config: &Config,
    options: &Options,
    flash: &FlashLife,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, Error> {
    let chip = config.chip()?;
    let is_nand = chip.kind().is_nand();
    let lives = match is_nand {
        true => lives(library, config, options, flash.wear, progress)?,
        false => vec![promised_life(flash, chip.promised_retention_years(), options)],
    };
    let survived = lives.iter().filter(|life| life.failure.is_none()).count() as u32;
    Ok(Report {
        title: speed_run::title(config),
        chip: format!("{} {}", config.part().maker, config.part().name),
        filesystem: options.kind,
        scrub_days: options.scrub_days,
        years: options.years,
        temperature_c: options.temperature_c,
        write_bytes_per_day: options.write_bytes_per_day,
        cycles_before: lives.first().map_or(0, |life| life.cycles_before),
        rated_cycles: chip.promised_cycles(),
        wear: WearOut::of_life(flash, options),
        promised_retention_years: chip.promised_retention_years().filter(|_| !is_nand),
        cells_simulated: is_nand,
        survived,
        probability: (!are_alike(&lives)).then(|| wilson(survived.into(), options.chips.into())),
        lives,
    })
}

fn lives(
    library: &Library,
    config: &Config,
    options: &Options,
    wear: Wear,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Life>, Error> {
    let layers = Filesystem { kind: options.kind, ..Filesystem::of_setup(config)? }.layers()?;
    (0..options.chips)
        .into_par_iter()
        .map(|number| {
            let seed = options.seed.wrapping_add(u64::from(number));
            let told = Cell::new(0);
            let passed = |years: u64| progress(years.saturating_sub(told.replace(years)));
            let life = life(library, config, (&layers, wear), (options, seed), &passed);
            passed(options.whole_years());
            life
        })
        .collect()
}

/// Life of a NOR according to its part: the promised cycles, and the promised years of retention for static files.
fn promised_life(flash: &FlashLife, retention_years: Option<u32>, options: &Options) -> Life {
    let per_day = options.write_bytes_per_day;
    let worn = flash.years(per_day).filter(|years| *years <= options.years).map(|years| {
        (
            years,
            format!("the most worn block has {} cycles: {}", flash.endurance.cycles, flash.endurance.reason),
        )
    });
    let faded = retention_years.map(f64::from).filter(|years| *years < options.years).map(|years| {
        (
            years,
            format!("files that stay are older than the {years} years of retention that the part promises"),
        )
    });
    let first = worn.into_iter().chain(faded).min_by(|a, b| a.0.total_cmp(&b.0));
    let lived = first.as_ref().map_or(options.years, |(years, _)| *years);
    let bytes = lived * DAYS_PER_YEAR * per_day as f64;
    let mean = bytes * flash.wear.erasures_per_byte / f64::from(flash.wear.blocks);
    let most = flash.cycles_after(lived, per_day) as u32;
    let least = most.saturating_sub(life::WEAR_THRESHOLD as u32);
    Life {
        seed: options.seed,
        failed_after_years: first.as_ref().map(|(years, _)| *years),
        failure: first.map(|(_, why)| why),
        moved: 0,
        bad_blocks: 0,
        cycles: Cycles { least, mean: mean as u32, most },
        cycles_before: 0,
    }
}

/// True if the lives differ only in their seeds: one of them then stands for all.
fn are_alike(lives: &[Life]) -> bool {
    lives.windows(2).all(|pair| Life { seed: pair[0].seed, ..pair[1].clone() } == pair[0])
}

/// A filesystem during the simulated years.
struct Aging {
    fs: Box<dyn OnDevice<Flash>>,
    files: Vec<u32>,
    content: Vec<u8>,
    /// Size of each static file, and of the file that is overwritten, bytes.
    file_bytes: u64,
    hot_bytes: u64,
    /// First eraseblock of the partition on the chip.
    first_block: u32,
    /// Erase count of each eraseblock after the static files were written.
    filled: Vec<u32>,
    wear: Wear,
    /// Bytes that were not really written, and only wore the blocks.
    counted_bytes: f64,
    moved: u64,
}

/// Changes the cells of all dies or targets.
fn for_each_part(device: &mut dyn Device, mut change: impl FnMut(&mut Cells)) {
    let oracle = device.oracle();
    for part in 0.. {
        let Some(cells) = oracle.cells_mut(part) else { break };
        change(cells);
    }
}

fn in_words(what: &str) -> impl Fn(FsError) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {error}")
}

fn life(
    library: &Library,
    config: &Config,
    (layers, wear): (&Layers, Wear),
    (options, seed): (&Options, u64),
    passed: &dyn Fn(u64),
) -> Result<Life, Error> {
    let rig = rig::wire(library, config, RigOptions { seed, ..RigOptions::default() })?;
    let mut device: Box<dyn Device> = rig.device;
    let now = device.host().now();
    for_each_part(&mut *device, |cells| cells.set_temperature(now, options.temperature_c));
    let flash = Counted::new(device);
    let made = layers.make(flash, now, u32::MAX);
    let fs = made.map_err(|why| Error::request(why, machine::other_flash()))?;
    let erase_bytes = u64::from(fs.device().geometry().erase_bytes);
    let offset = floatgate_sim::partition::offset(config)?;
    let mut aging = Aging {
        fs,
        files: Vec::new(),
        content: pattern(2 * FILE as usize),
        file_bytes: FILE,
        hot_bytes: life::HOT,
        first_block: u32::try_from(offset / erase_bytes).unwrap_or(0),
        filled: Vec::new(),
        wear,
        counted_bytes: 0.0,
        moved: 0,
    };
    let (bad_before, cycles_before) = (aging.fs.census().bad, aging.cycles().least);
    aging.fill(options.fill_percent).map_err(|why| Error::request(why, too_full()))?;
    aging.check_pace(options.write_bytes_per_day)?;
    let (gone, failure) = aging.live(options, passed);
    Ok(Life {
        seed,
        failed_after_years: failure.is_some().then_some(gone / DAYS_PER_YEAR),
        failure,
        moved: aging.moved,
        bad_blocks: aging.fs.census().bad.saturating_sub(bad_before),
        cycles: aging.cycles(),
        cycles_before,
    })
}

/// Advice if the static files leave no space for other files.
fn too_full() -> Advice {
    advice! { "take a smaller share of files that stay, a larger partition, or another chip (", set("chip", "NAME"), ")" }
}

impl Aging {
    /// Writes the static files.
    fn fill(&mut self, percent: u32) -> Result<(), String> {
        const REGULAR: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        let available = self.fs.space().available_blocks * PAGE;
        let bytes = available / 100 * u64::from(percent);
        let root = self.fs.root();
        self.file_bytes = (bytes / PAGE * PAGE).clamp(PAGE, FILE);
        self.hot_bytes = life::hot_bytes(available, bytes);
        for number in 0..(bytes / FILE).clamp(1, FILES_MAX) {
            let name = format!("stays {number}");
            let inode = self.fs.create(root, name.as_bytes(), &REGULAR).map_err(in_words("filling"))?;
            let stays = self.stays(number as usize);
            self.fs.write(inode, 0, &self.content[stays]).map_err(in_words("filling"))?;
            self.fs.fsync(inode).map_err(in_words("filling"))?;
            self.files.push(inode);
        }
        self.fs.create(root, b"changes", &REGULAR).map_err(in_words("filling"))?;
        self.fs.sync().map_err(in_words("filling"))?;
        self.filled = self.fs.device().erased().to_vec();
        Ok(())
    }

    /// Range of the random content that a static file contains.
    const fn stays(&self, number: usize) -> Range<usize> {
        let at = number * PAGE as usize % FILE as usize;
        at..at + self.file_bytes as usize
    }

    /// Makes the first writes. Returns an error if the data of a day takes longer than a day to write.
    fn check_pace(&mut self, bytes_per_day: u64) -> Result<(), Error> {
        let from = self.fs.now();
        let bytes = bytes_per_day.min(2 * self.hot_bytes);
        self.write_really(bytes).map_err(|why| Error::request(why, too_full()))?;
        let took = self.fs.now().since(from).as_secs_f64();
        let of_a_day = took * (bytes_per_day as f64 / bytes.max(1) as f64);
        if of_a_day <= SECONDS_PER_DAY {
            return Ok(());
        }
        let most = (bytes_per_day as f64 / of_a_day * SECONDS_PER_DAY) as u64;
        Err(Error::request(
            format!(
                "{} a day are more than this flash takes in pieces of {} with fsync, about {}",
                size(bytes_per_day),
                size(HOT),
                size(most >> 20 << 20)
            ),
            "let programs write less in a day",
        ))
    }

    /// Simulates the years, and passes the number of years so far to `passed`. Returns the number of simulated days and, if
    /// something failed, the reason.
    fn live(&mut self, options: &Options, passed: &dyn Fn(u64)) -> (f64, Option<String>) {
        let end = options.years * DAYS_PER_YEAR;
        let (mut gone, mut written, mut scrubbed) = (0.0, 0.0, 0.0);
        while gone < end {
            let scrub = options.scrub_days.map_or(f64::INFINITY, |days| scrubbed + f64::from(days.max(1)));
            let write = written + WRITE_DAYS;
            let next = scrub.min(write).min(end);
            let device = self.fs.device_mut().inner_mut();
            for_each_part(&mut **device, |cells| cells.bake(next - gone, options.temperature_c));
            gone = next;
            passed(((gone / DAYS_PER_YEAR) as u64).min(options.whole_years()));
            let mut outcome = Ok(());
            if gone >= write.min(end) {
                outcome = self.write_over((options.write_bytes_per_day as f64 * (gone - written)) as u64);
                written = gone;
            }
            if gone >= scrub {
                outcome = outcome.and_then(|()| self.scrub());
                scrubbed = gone;
            }
            if let Err(why) = outcome.and_then(|()| self.look()) {
                return (gone, Some(why));
            }
        }
        (gone, None)
    }

    /// Makes a pass of ubihealthd.
    fn scrub(&mut self) -> Result<(), String> {
        self.moved += u64::from(self.fs.check_health()?);
        Ok(())
    }

    /// Overwrites `bytes` of data; only the first part is really written.
    fn write_over(&mut self, bytes: u64) -> Result<(), String> {
        let really = bytes.min(2 * self.hot_bytes);
        self.write_really(really)?;
        let before = self.wear.cycles(self.counted_bytes);
        self.counted_bytes += (bytes - really) as f64;
        self.wear_blocks(before, self.wear.cycles(self.counted_bytes));
        Ok(())
    }

    /// Overwrites the changing file until `really` bytes are written.
    fn write_really(&mut self, really: u64) -> Result<(), String> {
        let root = self.fs.root();
        let inode = self.fs.lookup(root, b"changes").map_err(in_words("writing"))?;
        let mut written = 0;
        while written < really {
            let len = self.hot_bytes.min(really - written);
            self.fs.write(inode, 0, &self.content[..len as usize]).map_err(in_words("writing"))?;
            self.fs.fsync(inode).map_err(in_words("writing"))?;
            written += len;
        }
        self.fs.sync().map_err(in_words("writing"))?;
        self.fs.wait_until(self.fs.now() + Nanos::from_ms(1000));
        Ok(())
    }

    /// Wears the changing blocks from `before` to `after` cycles. Once wear levelling moves static files, all blocks
    /// wear.
    fn wear_blocks(&mut self, before: f64, after: f64) {
        let flash = self.fs.device();
        let (all, erased) = (flash.geometry().blocks(), flash.erased());
        // A free eraseblock contains only headers, and UBI will use it, so it counts as changing.
        let half = u64::from(flash.geometry().erase_bytes / 2);
        let holds_files = |block: usize| flash.programmed(block) > half;
        let stays = |block: usize| holds_files(block) && erased[block] == self.filled[block];
        let is_worn = |block: &u32| Wear::is_levelled(after) || !stays(*block as usize);
        let worn: Vec<u32> = (0..all).filter(is_worn).collect();
        let each = after.floor() - before.floor();
        let first = self.first_block;
        let oracle = self.fs.device_mut().inner_mut().oracle();
        for block in worn {
            let mut block = first + block;
            for part in 0.. {
                let Some(cells) = oracle.cells_mut(part) else { break };
                if block < cells.blocks() {
                    cells.cycle(block, each as u32);
                    break;
                }
                block -= cells.blocks();
            }
        }
    }

    /// Compares the static files with their contents, on a copy of the filesystem. In the original, UBI would move LEBs
    /// that are read with bit errors, and only passes of ubihealthd may cause moves.
    fn look(&self) -> Result<(), String> {
        let (mut fs, mut buf) = (self.fs.clone(), vec![0; self.file_bytes as usize]);
        for (number, &inode) in self.files.iter().enumerate() {
            let what = format!("file {number} of those that stay");
            let read = fs.read(inode, 0, &mut buf).map_err(in_words(&what))?;
            if buf[..read] != self.content[self.stays(number)] {
                return Err(format!("{what}: other bytes than were written"));
            }
        }
        Ok(())
    }

    fn cycles(&mut self) -> Cycles {
        let blocks = self.fs.device().geometry().blocks();
        let first = self.first_block;
        let oracle = self.fs.device_mut().inner_mut().oracle();
        let mut all = Vec::new();
        for part in 0.. {
            let Some(cells) = oracle.cells(part) else { break };
            all.extend((0..cells.blocks()).map(|block| cells.cycles(block)));
        }
        let own: Vec<u32> = all.into_iter().skip(first as usize).take(blocks as usize).collect();
        let sum: u64 = own.iter().copied().map(u64::from).sum();
        Cycles {
            least: own.iter().copied().min().unwrap_or(0),
            mean: (sum / own.len().max(1) as u64) as u32,
            most: own.iter().copied().max().unwrap_or(0),
        }
    }
}
