//! `floatgate age`: a filesystem over years, on cells that wear, leak and are disturbed.
//!
//! A chip is filled with files that stay, and others are written over every day. Time jumps from one event to the next, and cells lose the charge of
//! the days between: every 91 days and at the end what was written in them; every so often a pass of **ubihealthd**, which reads all PEBs so that UBI moves
//! what has bit errors; and after each a look at the files that stayed. Of what is written, so much is really written as shows how many erasures it costs; the rest only wears the blocks it would be
//! written to: those that hold nothing that stays, and all of them once wear levelling moves that, too
//! (Linux: `UBI_WL_THRESHOLD`). Retention is [`Cells::bake`](floatgate_device::cells::Cells::bake): no read or erasure is skipped that the bits of a page depend on.

use crate::config::{Config, Library};
use crate::error::Error;
use crate::interval::wilson;
use crate::machine::{self, Filesystem, FilesystemKind, Layers, OnDevice};
use crate::rig::{self, Device, RigOptions};
use crate::speed::pattern;
use crate::speed_run;
use crate::vfs::Flash;
use floatgate_device::cells::Cells;
use floatgate_mtd::{Counted, Mtd as _, Nanos};
use floatgate_stack::fs::{Error as FsError, NewFile, NewKind};
use rayon::prelude::*;
use serde::Serialize;
use std::ops::Range;

/// Years to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Kind of the filesystem.
    pub kind: FilesystemKind,
    /// Years that each chip lives at most.
    pub years: f64,
    /// Temperature, in degrees Celsius.
    pub temperature_c: f64,
    /// Bytes that programs write in a day.
    pub write_bytes_per_day: u64,
    /// Percent of the free space that files take which stay.
    pub fill_percent: u32,
    /// Days between two passes of ubihealthd; none without it.
    pub scrub_days: Option<u32>,
    /// Chips, each with a seed of its own.
    pub chips: u32,
    /// Seed of the first.
    pub seed: u64,
}

/// Erase cycles of a chip's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cycles {
    /// The least worn block.
    pub least: u32,
    /// Mean of all.
    pub mean: u32,
    /// The most worn block.
    pub most: u32,
}

/// Life of a filesystem on a chip.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Life {
    /// Seed of the chip.
    pub seed: u64,
    /// Years after which something was lost or could not be written; none if all went well to the end.
    pub failed_after_years: Option<f64>,
    /// Description of what failed.
    pub failure: Option<String>,
    /// LEBs that UBI moved because bits had to be corrected.
    pub moved: u64,
    /// Blocks that became bad.
    pub bad_blocks: u32,
    /// Erase cycles at the end, those from before the first day included.
    pub cycles: Cycles,
    #[serde(skip)]
    cycles_before: u32,
}

/// Lives of several chips.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Title of the setup.
    pub title: String,
    /// Name of the chip.
    pub chip: String,
    /// Kind of the filesystem.
    pub filesystem: FilesystemKind,
    /// Days between two passes of ubihealthd; none without it.
    pub scrub_days: Option<u32>,
    /// Years asked for.
    pub years: f64,
    /// Erase cycles that the blocks had before the first day.
    pub cycles_before: u32,
    /// Erase cycles that the part promises; none where it says nothing.
    pub rated_cycles: Option<u64>,
    /// Chips on which nothing failed.
    pub survived: u32,
    /// Lower and upper end of the probability that a chip survives (Wilson, 95 %); none where all chips live alike, which shows nothing of how chips
    /// differ.
    pub probability: Option<[f64; 2]>,
    /// The lives.
    pub lives: Vec<Life>,
}

const DAYS_PER_YEAR: f64 = 365.25;
const SECONDS_PER_DAY: f64 = 86_400.0;

/// Days between two moments at which what was written in them is written, and files are looked at.
const WRITE_DAYS: f64 = 91.0;

/// Most bytes of a file that stays, and most of such files: what is simulated of a large chip.
const FILE: u64 = 1 << 20;
const FILES_MAX: u64 = 64;

/// Most bytes of the file that is written over, which takes at most an eighth of what is left: old and new content and what waits for
/// garbage collection have room.
const HOT: u64 = 256 << 10;
const HOT_PART: u64 = 8;

/// Bytes of a page of the page cache: files are whole pages.
const PAGE: u64 = 4096;

/// Difference of erase cycles from which UBI moves what stays (Linux: `UBI_WL_THRESHOLD`).
const WEAR_THRESHOLD: f64 = 4096.0;

/// Lives of chips of a setup; `progress` hears of each that is over.
///
/// # Errors
/// The setup is wrong, has no NAND, or the filesystem cannot be made on it.
pub fn run(
    library: &Library,
    config: &Config,
    options: &Options,
    progress: &(dyn Fn() + Sync),
) -> Result<Report, Error> {
    if !config.chip()?.kind().is_nand() {
        return Err(Error::asked(
            "cells of NOR are not simulated: nothing ages",
            "name a setup with a NAND, or set another chip",
        ));
    }
    let filesystem = Filesystem { kind: options.kind, ..Filesystem::of_setup(config)? };
    let layers = filesystem.layers()?;
    let lives: Result<Vec<Life>, Error> = (0..options.chips)
        .into_par_iter()
        .map(|number| {
            let life = life(library, config, &layers, options, options.seed.wrapping_add(u64::from(number)));
            progress();
            life
        })
        .collect();
    let lives = lives?;
    let survived = lives.iter().filter(|life| life.failure.is_none()).count() as u32;
    let facts = config.chip()?.facts();
    let rated_cycles = facts.nand.map(|nand| nand.endurance_cycles).filter(|&cycles| cycles > 0);
    Ok(Report {
        title: speed_run::title(config),
        chip: format!("{} {}", config.part().maker, config.part().name),
        filesystem: options.kind,
        scrub_days: options.scrub_days,
        years: options.years,
        cycles_before: lives.first().map_or(0, |life| life.cycles_before),
        rated_cycles,
        survived,
        probability: (!are_alike(&lives)).then(|| wilson(survived.into(), options.chips.into())),
        lives,
    })
}

/// True of lives that differ in nothing but the seed: one of them shows all that several do.
fn are_alike(lives: &[Life]) -> bool {
    lives.windows(2).all(|pair| Life { seed: pair[0].seed, ..pair[1].clone() } == pair[0])
}

/// A filesystem under way through the years.
struct Aging {
    fs: Box<dyn OnDevice<Flash>>,
    files: Vec<u32>,
    content: Vec<u8>,
    /// Bytes of each file that stays, and of the one that is written over.
    file_bytes: u64,
    hot_bytes: u64,
    /// First eraseblock of the partition on the chip.
    first_block: u32,
    /// Erasures of each eraseblock when the files had been written.
    filled: Vec<u32>,
    /// Bytes that were really written over, and erasures they cost.
    sample: (u64, u64),
    /// Erasures that were only counted, and what of them is too little for each block.
    counted: f64,
    rest: f64,
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
    layers: &Layers,
    options: &Options,
    seed: u64,
) -> Result<Life, Error> {
    let rig = rig::wire(library, config, RigOptions { seed, ..RigOptions::default() })?;
    let mut device: Box<dyn Device> = rig.device;
    let now = device.host().now();
    for_each_part(&mut *device, |cells| cells.set_temperature(now, options.temperature_c));
    let flash = Counted::new(device);
    let made = layers.make(flash, now, u32::MAX);
    let fs = made.map_err(|why| Error::asked(why, machine::OTHER_FLASH))?;
    let erase_bytes = u64::from(fs.device().geometry().erase_bytes);
    let offset = crate::partition::offset(config)?;
    let mut aging = Aging {
        fs,
        files: Vec::new(),
        content: pattern(2 * FILE as usize),
        file_bytes: FILE,
        hot_bytes: HOT,
        first_block: u32::try_from(offset / erase_bytes).unwrap_or(0),
        filled: Vec::new(),
        sample: (0, 0),
        counted: 0.0,
        rest: 0.0,
        moved: 0,
    };
    let (bad_before, cycles_before) = (aging.fs.census().bad, aging.cycles().least);
    aging.fill(options.fill_percent).map_err(|why| Error::asked(why, TOO_FULL))?;
    aging.check_pace(options.write_bytes_per_day)?;
    let (gone, failure) = aging.live(options);
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

/// Advice where the files that stay leave no room for others.
const TOO_FULL: &str =
    "take a smaller share of files that stay, a larger partition, or another chip (`chip=NAME`)";

impl Aging {
    /// Writes the files that stay.
    fn fill(&mut self, percent: u32) -> Result<(), String> {
        const REGULAR: NewFile<'_> = NewFile { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        let available = self.fs.space().available_blocks * PAGE;
        let bytes = available / 100 * u64::from(percent);
        let root = self.fs.root();
        self.file_bytes = (bytes / PAGE * PAGE).clamp(PAGE, FILE);
        self.hot_bytes = ((available - bytes) / HOT_PART / PAGE * PAGE).clamp(PAGE, HOT);
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

    /// Range of the content that a file that stays holds.
    const fn stays(&self, number: usize) -> Range<usize> {
        let at = number * PAGE as usize % FILE as usize;
        at..at + self.file_bytes as usize
    }

    /// Writes for the first time, which shows whether a day is long enough for what is to be written in it.
    fn check_pace(&mut self, bytes_per_day: u64) -> Result<(), Error> {
        let from = self.fs.now();
        let bytes = bytes_per_day.min(2 * self.hot_bytes);
        self.write_really(bytes).map_err(|why| Error::asked(why, TOO_FULL))?;
        let took = self.fs.now().since(from).as_secs_f64();
        let of_a_day = took * (bytes_per_day as f64 / bytes.max(1) as f64);
        if of_a_day <= SECONDS_PER_DAY {
            return Ok(());
        }
        let most = (bytes_per_day as f64 / of_a_day * SECONDS_PER_DAY) as u64;
        Err(Error::asked(
            format!("{bytes_per_day} bytes a day are more than this flash takes, about {most}"),
            "let programs write less in a day",
        ))
    }

    /// Lets the years go by; how many days it was, and the reason why something failed then.
    fn live(&mut self, options: &Options) -> (f64, Option<String>) {
        let end = options.years * DAYS_PER_YEAR;
        let (mut gone, mut written, mut scrubbed) = (0.0, 0.0, 0.0);
        while gone < end {
            let scrub = options.scrub_days.map_or(f64::INFINITY, |days| scrubbed + f64::from(days.max(1)));
            let write = written + WRITE_DAYS;
            let next = scrub.min(write).min(end);
            let device = self.fs.device_mut().inner_mut();
            for_each_part(&mut **device, |cells| cells.bake(next - gone, options.temperature_c));
            gone = next;
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

    /// A pass of ubihealthd.
    fn scrub(&mut self) -> Result<(), String> {
        self.moved += u64::from(self.fs.check_health()?);
        Ok(())
    }

    /// Writes so many bytes over, of which the first are really written.
    fn write_over(&mut self, bytes: u64) -> Result<(), String> {
        let really = bytes.min(2 * self.hot_bytes);
        self.write_really(really)?;
        // Until enough was written to see, an erasure for each eraseblock's worth.
        let erase_bytes = u64::from(self.fs.device().geometry().erase_bytes);
        let per_byte = match self.sample {
            (bytes, erases) if erases >= 16 => erases as f64 / bytes as f64,
            _ => 1.0 / erase_bytes as f64,
        };
        self.wear_by((bytes - really) as f64 * per_byte);
        Ok(())
    }

    /// Writes the file that changes over, as often as so many bytes take.
    fn write_really(&mut self, really: u64) -> Result<(), String> {
        let before = self.fs.device().operations().erases;
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
        self.sample.0 += written;
        self.sample.1 += self.fs.device().operations().erases - before;
        Ok(())
    }

    /// Blocks wear by so many erasures.
    fn wear_by(&mut self, erasures: f64) {
        self.counted += erasures;
        let flash = self.fs.device();
        let (all, erased) = (flash.geometry().blocks(), flash.erased());
        let stays = |block: usize| flash.is_written(block) && erased[block] == self.filled[block];
        let changing: Vec<u32> = (0..all).filter(|&block| !stays(block as usize)).collect();
        let is_levelled = self.counted / changing.len().max(1) as f64 > WEAR_THRESHOLD;
        let worn = if is_levelled { (0..all).collect() } else { changing };
        let each = self.rest + erasures / worn.len().max(1) as f64;
        self.rest = each.fract();
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

    /// Compares the files that stay with what was written, on a copy: UBI moves what is read with bit errors, and nobody but ubihealthd
    /// reads here.
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
