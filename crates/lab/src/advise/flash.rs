//! Advice on a chip on a board: the fastest mode, the filesystem by partition size, how it is made, the code that corrects its bits, and how often UBI
//! must read all of it.

use super::ecc::{self, Chip, Use, Verdict};
use super::{Advice, Point, size};
use crate::Error;
use crate::age;
use crate::config::{Config, Kind, Library, Override, Setup};
use crate::fs_compare::{self, FsComparison, Options, Subject, Test};
use crate::machine::{Filesystem, FilesystemKind};
use crate::partition;
use crate::rig::{self, RigOptions};
use crate::speed::{Measured, SpeedOptions};
use crate::speed_run::{self, SpeedRun};
use floatgate_ecc::Code;
use floatgate_mtd::{FlashKind, Geometry};
use floatgate_stack::ubi::PebBudget;
use rayon::prelude::*;
use std::path::Path;

/// Bytes written to raw flash in a day where nothing else is said, as in `floatgate age`.
pub const BYTES_PER_DAY: u64 = 10 << 20;

/// Options of advice on raw flash.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Size of the partition in bytes; none for that of the setup.
    pub partition_bytes: Option<u64>,
    /// Years that data must last.
    pub years: f64,
    /// Temperature in degrees Celsius.
    pub temperature_c: f64,
    /// Bytes that programs write in a day.
    pub write_bytes_per_day: u64,
    /// Seed of the first chip.
    pub seed: u64,
}

/// A board, and how it was found.
pub struct Board {
    /// Name of the setup.
    pub name: String,
    /// The setup.
    pub setup: Setup,
    /// Overrides: those of the user, and the chip where a part was named.
    pub sets: Vec<Override>,
    /// A remark where the board was chosen for a part.
    pub chosen: Option<String>,
}

impl Board {
    /// The setup of a name or path, or a board of the catalogue that has the part of that name, or another one of its kind with this part.
    ///
    /// # Errors
    /// Neither a setup nor a chip has this name; no board drives it.
    pub fn named(library: &Library, name: &Path, sets: &[Override]) -> Result<Self, Error> {
        let shown = name.display().to_string();
        let is_part = library.load(Kind::Part, name).and_then(|part| part.chip());
        let Ok(chip) = is_part else {
            let setup = library.setup(name)?;
            return Ok(Self { name: shown, setup, sets: sets.to_vec(), chosen: None });
        };
        let with_chip = Override::parse_all(&[format!("chip={shown}")])?;
        let all: Vec<Override> = with_chip.into_iter().chain(sets.iter().cloned()).collect();
        let rank = |setup: &&str| {
            let config = library.resolve(&library.setup(setup).ok()?, &[]).ok()?;
            let own = setup.ends_with(&format!("-{}", shown.to_lowercase()));
            let is_kind = config.chip_kind().ok()? == chip.kind();
            is_kind.then_some((!own, setup.len()))
        };
        let mut setups: Vec<(_, &str)> =
            library.names(Kind::Setup).filter_map(|setup| Some((rank(&setup)?, setup))).collect();
        setups.sort_unstable();
        let found = setups.into_iter().find_map(|((other, _), setup_name)| {
            let setup = library.setup(setup_name).ok()?;
            let config = library.resolve(&setup, &all).ok()?;
            rig::wire(library, &config, RigOptions { stores: false, ..RigOptions::default() }).ok()?;
            Some((other, setup_name.to_owned(), setup))
        });
        let (other, name, setup) = found.ok_or_else(|| {
            Error::asked(
                format!("no board of the catalogue drives {shown}"),
                "name a setup of your own: `floatgate setups NAME > my-board.toml` prints one to start from",
            )
        })?;
        let chosen = if other {
            format!("no board of the catalogue has {shown}: {name} with this chip stands in")
        } else {
            format!("the board of the catalogue with this chip: {name}")
        };
        Ok(Self { name, setup, sets: all, chosen: Some(chosen) })
    }

    fn config(&self, library: &Library, more: &[String]) -> Result<Config, Error> {
        let mut sets = self.sets.clone();
        sets.extend(Override::parse_all(more)?);
        Ok(library.resolve(&self.setup, &sets)?)
    }

    /// With a partition of this size in bytes.
    fn on_partition(&self, library: &Library, bytes: u64) -> Result<Config, Error> {
        let size = partition::of_size(&self.config(library, &[])?, bytes)?;
        let sets: Vec<Override> = self.sets.iter().cloned().chain([size]).collect();
        Ok(library.resolve(&self.setup, &sets)?)
    }

    /// With `bytes` of the partition, which are simulated in place of all of it: UBI keeps as large a share of them for bad blocks.
    fn on_sample(&self, library: &Library, bytes: u64, partition: &Geometry) -> Result<Config, Error> {
        let config = self.on_partition(library, bytes)?;
        let own = Filesystem::of_setup(&config)?;
        if bytes >= partition.size_bytes || own.ubi_bad_limit_of_partition {
            return Ok(config);
        }
        let of_chip = u64::from(own.ubi_max_bad_per_1024) * u64::from(partition.chip_blocks());
        let more = Override::parse_all(&[
            format!("filesystem.ubi_max_bad_per_1024={}", of_chip.div_ceil(u64::from(partition.blocks()))),
            "filesystem.ubi_bad_limit_of_partition=true".to_owned(),
        ])?;
        let size = partition::of_size(&self.config(library, &[])?, bytes)?;
        let sets: Vec<Override> = self.sets.iter().cloned().chain([size]).chain(more).collect();
        Ok(library.resolve(&self.setup, &sets)?)
    }
}

/// Advice on a board. `progress` hears what is measured next.
///
/// # Errors
/// The setup is wrong, or its chip cannot be driven.
pub fn advise(
    library: &Library,
    board: &Board,
    wish: &Wish,
    progress: &(dyn Fn(&'static str) + Sync),
) -> Result<Advice, Error> {
    let config = match wish.partition_bytes {
        Some(bytes) => board.on_partition(library, bytes)?,
        None => board.config(library, &[])?,
    };
    let wired = rig::wire(library, &config, RigOptions { stores: false, ..RigOptions::default() })?;
    let geometry = wired.device.geometry().clone();
    let chip = config.chip()?;
    progress("modes");
    let mut points: Vec<Point> =
        mode_point(library, board, &config, geometry.blocks())?.into_iter().collect();
    progress("filesystems");
    let compared = compare(library, board, &geometry)?;
    let kind = compared.last().and_then(kind);
    points.push(filesystem_point(&compared, &geometry));
    if let (Some(kind), Some(largest)) = (kind, compared.last()) {
        points.push(make_point(library, board, kind, &geometry)?);
        points.push(write_point(largest, kind, &geometry, &config, wish)?);
    }
    if chip.kind().is_nand() {
        progress("ECC");
        points.extend(ecc_point(&config, &geometry, wish));
    }
    if let Some(kind) = kind.filter(|_| chip.kind().is_nand()) {
        progress("years");
        points.push(scrub_point(library, board, &geometry, kind, wish)?);
    }
    Ok(Advice {
        target: board.name.clone(),
        title: match &board.chosen {
            Some(chosen) => format!("{} {}; {chosen}", wired.maker, wired.chip),
            None => speed_run::title(&config),
        },
        capacity_bytes: geometry.size_bytes,
        points,
    })
}

/// Blocks that are read and written in each mode.
const MODE_BLOCKS: u32 = 2;

fn speed_of<'a>(run: &'a SpeedRun, name: &str) -> Option<&'a Measured> {
    run.report.tests.iter().find(|test| test.name == name)
}

/// The mode or interface in which blocks are read fastest, and whether it beats the setup's.
fn mode_point(
    library: &Library,
    board: &Board,
    config: &Config,
    blocks: u32,
) -> Result<Option<Point>, Error> {
    let tests = SpeedOptions { blocks: MODE_BLOCKS.min(blocks), ..SpeedOptions::default() };
    let own = speed_run::measure(library, config, RigOptions::default(), &tests)?;
    let modes = rig::chip_modes(config).into_iter().map(|mode| format!("bus.mode={mode}"));
    let interfaces = rig::chip_interfaces(config).into_iter().map(|i| format!("bus.interface={i}"));
    let measured: Vec<(String, SpeedRun)> = modes
        .chain(interfaces)
        .collect::<Vec<_>>()
        .into_par_iter()
        .filter_map(|set| {
            let config = board.config(library, std::slice::from_ref(&set)).ok()?;
            let run = speed_run::measure(library, &config, RigOptions::default(), &tests).ok()?;
            Some((set, run))
        })
        .collect();
    let ns = |run: &SpeedRun| speed_of(run, "eraseblock read").map_or(u64::MAX, |test| test.ns);
    let Some((set, best)) = measured.iter().min_by_key(|(_, run)| ns(run)) else { return Ok(None) };
    let figure = |run: &SpeedRun, name: &str| speed_of(run, name).map_or(0, |test| test.printed_kib_s);
    let figures = |run: &SpeedRun| {
        format!(
            "{} KiB/s read, {} KiB/s written",
            figure(run, "eraseblock read"),
            figure(run, "eraseblock write")
        )
    };
    let is_better = ns(best) as f64 * WORTH < ns(&own) as f64;
    let mut point = match is_better {
        true => Point::new(
            "mode",
            format!(
                "{} is the fastest mode of the chip on this controller: {}",
                best.link.mode,
                figures(best)
            ),
        )
        .command(format!("--set {set}")),
        false => Point::new(
            "mode",
            format!("stay with {}: no mode of the chip is faster on this controller", own.link.mode),
        ),
    };
    point = point.rests_on(format!("{} as the setup has it: {}", own.link.mode, figures(&own)));
    for (_, run) in measured.iter().filter(|(_, run)| run.link.mode != own.link.mode) {
        point = point.rests_on(format!("{}: {}", run.link.mode, figures(run)));
    }
    Ok(Some(point.unless("clock or controller are others: `floatgate speed` names the next bottleneck")))
}

/// Gain from which a mode is advised.
const WORTH: f64 = 1.02;

/// Bytes of the file that is written in comparisons, and eraseblocks of the smallest partition that is compared.
const FILE_BYTES: u64 = 1 << 20;
const BLOCKS_MIN: u64 = 16;
/// Largest partition that is simulated for the comparison, in bytes, and eraseblocks that it has at least: UBIFS has room in these, however
/// large they are. Mount times of larger ones grow in proportion.
const COMPARED_MAX: u64 = 32 << 20;
const COMPARED_BLOCKS_MIN: u64 = 64;

/// Sizes of partitions that are compared, in bytes: a sixteenth, a quarter and all of the partition, or of what is simulated of it.
fn compared_sizes(geometry: &Geometry) -> Vec<u64> {
    let erase = u64::from(geometry.erase_bytes);
    let most = geometry.size_bytes.min(COMPARED_MAX.max(COMPARED_BLOCKS_MIN * erase));
    let of = |part: u64| ((most / part / erase).max(BLOCKS_MIN) * erase).min(geometry.size_bytes);
    let mut sizes = [16, 4, 1].map(of).to_vec();
    sizes.dedup();
    sizes
}

fn compare(library: &Library, board: &Board, geometry: &Geometry) -> Result<Vec<FsComparison>, Error> {
    let options = Options {
        subjects: vec![Subject::Jffs2, Subject::Ubifs],
        tests: vec![Test::Write, Test::Read, Test::Mount, Test::Space],
        bytes: FILE_BYTES,
        ..Options::default()
    };
    let sizes = compared_sizes(geometry);
    // The largest is a sample of the partition; the others are smaller partitions.
    let at = |bytes| match sizes.last() {
        Some(&sample) if bytes == sample => board.on_sample(library, bytes, geometry),
        _ => board.on_partition(library, bytes),
    };
    fs_compare::comparisons(library, &at, (RigOptions::default(), &options), &sizes, &|_| ())
}

/// The filesystem that a comparison speaks for; none where neither is possible.
fn kind(compared: &FsComparison) -> Option<FilesystemKind> {
    match compared.choice()?.subject? {
        Subject::Jffs2 => Some(FilesystemKind::Jffs2),
        _ => Some(FilesystemKind::Ubifs),
    }
}

const fn name(kind: FilesystemKind) -> &'static str {
    match kind {
        FilesystemKind::Ubifs => "UBIFS",
        FilesystemKind::Jffs2 => "JFFS2",
    }
}

fn filesystem_point(compared: &[FsComparison], geometry: &Geometry) -> Point {
    let Some(largest) = compared.last() else { return Point::default() };
    let choice = largest.choice();
    let sentence =
        choice.as_ref().map_or("JFFS2 and UBIFS were not compared", |choice| choice.sentence.as_str());
    let mut point = Point::new("filesystem", sentence);
    for of_size in compared {
        let figures = [Subject::Jffs2, Subject::Ubifs].map(|subject| figures(of_size, subject));
        let is_sample =
            of_size.flash_bytes == largest.flash_bytes && largest.flash_bytes < geometry.size_bytes;
        let of_what = if is_sample { format!(" of {}", size(geometry.size_bytes)) } else { String::new() };
        point = point.rests_on(format!("{}{of_what}: {}", size(of_size.flash_bytes), figures.join("; ")));
        let other = kind(of_size).filter(|kind| Some(*kind) != self::kind(largest));
        if let Some(other) = other {
            point = point.unless(format!(
                "the partition has {}: {} then",
                size(of_size.flash_bytes),
                name(other)
            ));
        }
    }
    for sentence in
        largest.advice.iter().filter(|sentence| Some(*sentence) != choice.as_ref().map(|c| &c.sentence))
    {
        point = point.rests_on(sentence.clone());
    }
    // With UBIFS the commands rest on it.
    if kind(largest) != Some(FilesystemKind::Ubifs) && geometry.kind != FlashKind::Nor {
        point = point.rests_on(format!("UBI would have {}", pebs_by_use(geometry)));
    }
    point.unless(
        "only the time to mount counts: `floatgate fs --test mount` has the figures, fastmap included",
    )
}

/// Space that a filesystem leaves for files, and the time until it is ready.
fn figures(compared: &FsComparison, subject: Subject) -> String {
    match (compared.space(subject), compared.mounted_s(subject)) {
        (Some(Ok(free)), Some((_, ready))) => format!(
            "{} leaves {free:.0} KiB for files, and with files on {} % of these it is ready after {ready:.2} s",
            subject.title(),
            Options::default().fill_percent
        ),
        (Some(Ok(free)), None) => format!("{} leaves {free:.0} KiB for files", subject.title()),
        (Some(Err(why)), _) => format!("{} is not possible: {why}", subject.title()),
        (None, _) => format!("{} was not measured", subject.title()),
    }
}

/// The PEBs of a partition by use.
fn peb_budget(geometry: &Geometry) -> PebBudget {
    match geometry.kind {
        FlashKind::Nor => PebBudget::of_nor(geometry.blocks()),
        _ => PebBudget::of_nand(geometry.blocks(), geometry.chip_blocks()),
    }
}

/// The same in words.
fn pebs_by_use(geometry: &Geometry) -> String {
    let PebBudget { pebs, own, bad_reserve } = peb_budget(geometry);
    let chip = geometry.chip_blocks();
    let of_chip = if chip > pebs { format!(" of a chip with {chip}") } else { String::new() };
    format!("{pebs} PEBs{of_chip}, of which {bad_reserve} are kept for bad blocks and {own} for UBI itself")
}

/// Smallest eraseblock for which mkfs.jffs2 makes an image, in bytes.
const JFFS2_ERASE_MIN: u32 = 8 << 10;

/// Eraseblocks of SPI NOR in a Linux that is built without `CONFIG_MTD_SPI_NOR_USE_4K_SECTORS`.
const LARGE_SECTORS: &str = "driver.erase_bytes=64KiB";

/// The commands that bring a JFFS2 onto the partition. An image that is made for larger eraseblocks has nodes across the ends of smaller ones, and Linux drops
/// these.
fn make_jffs2(library: &Library, board: &Board, geometry: &Geometry) -> Result<Point, Error> {
    let make = |what: &str, erase: u32| {
        let clean = if geometry.kind == FlashKind::Nor { "" } else { " -n" };
        Point::new("mkfs and mount", what)
            .command(format!("mkfs.jffs2 -l{clean} -e {erase} -r FOLDER -o root.jffs2"))
            .command("mount -t jffs2 mtd0 /mnt")
    };
    let rests_on = format!("eraseblocks of {}", size(geometry.erase_bytes.into()));
    if geometry.erase_bytes >= JFFS2_ERASE_MIN {
        let what = "make a JFFS2 image for the eraseblock, and write it to the erased partition";
        return Ok(make(what, geometry.erase_bytes).rests_on(rests_on));
    }
    let rests_on =
        format!("{rests_on}: mkfs.jffs2 makes images for {} and more", size(JFFS2_ERASE_MIN.into()));
    let larger = board.config(library, &[LARGE_SECTORS.to_owned()])?;
    let larger = rig::wire(library, &larger, RigOptions { stores: false, ..RigOptions::default() });
    let larger = larger.map(|wired| wired.device.geometry().erase_bytes).unwrap_or_default();
    Ok(if larger >= JFFS2_ERASE_MIN {
        let what = format!(
            "build the kernel without CONFIG_MTD_SPI_NOR_USE_4K_SECTORS, make a JFFS2 image for its eraseblocks of {}, and write it to the erased partition",
            size(larger.into())
        );
        make(&what, larger)
            .rests_on(rests_on)
            .unless(format!("the kernel stays as it is: mount the erased partition empty, and copy the files; `--set {LARGE_SECTORS}` has the figures without"))
    } else {
        Point::new(
            "mkfs and mount",
            "mount the erased partition, which is an empty JFFS2, and copy the files",
        )
        .command("flash_erase /dev/mtd0 0 0")
        .command("mount -t jffs2 mtd0 /mnt")
        .command("cp -a FOLDER/. /mnt")
        .rests_on(rests_on)
    })
}

fn make_point(
    library: &Library,
    board: &Board,
    kind: FilesystemKind,
    geometry: &Geometry,
) -> Result<Point, Error> {
    let (page, peb) = (u64::from(geometry.write_bytes), u64::from(geometry.erase_bytes));
    Ok(match kind {
        FilesystemKind::Jffs2 => make_jffs2(library, board, geometry)?,
        FilesystemKind::Ubifs => {
            let sub = u64::from(geometry.sub_page_bytes).max(1);
            // EC and VID header of 64 bytes each; behind them data begin at the next page.
            let vid = sub.max(64).next_multiple_of(sub);
            let data = (vid + 64).next_multiple_of(page.max(1));
            let leb = peb.saturating_sub(data);
            let io = page.max(8);
            let lebs = peb_budget(geometry).available_lebs().max(1);
            Point::new("mkfs and mount", "make UBI and UBIFS with the chip's page, sub-page and eraseblock")
                .command("ubiformat /dev/mtd0")
                .command("ubiattach -p /dev/mtd0")
                .command("ubimkvol /dev/ubi0 -N root -m")
                .command(format!("mkfs.ubifs -m {io} -e {leb} -c {lebs} -r FOLDER -o root.ubifs"))
                .command("ubiupdatevol /dev/ubi0_0 root.ubifs")
                .command("mount -t ubifs ubi0:root /mnt")
                .rests_on(format!(
                    "pages of {}, sub-pages of {}, eraseblocks of {}",
                    size(page),
                    size(sub),
                    size(peb)
                ))
                .rests_on(format!("LEBs of {}: headers take {}", size(leb), size(data)))
                .rests_on(pebs_by_use(geometry))
                .unless(
                    "the controller programs whole pages only: headers take a page each then, and LEBs are smaller",
                )
        }
    })
}

/// Speed of writes and life of the flash.
fn write_point(
    compared: &FsComparison,
    kind: FilesystemKind,
    geometry: &Geometry,
    config: &Config,
    wish: &Wish,
) -> Result<Point, Error> {
    let subject = if kind == FilesystemKind::Ubifs { Subject::Ubifs } else { Subject::Jffs2 };
    let row = |name: &str| compared.rows.iter().find(|row| row.subject == subject && row.name == name);
    let Some(write) = row("write random 4 KiB") else {
        let why =
            compared.refused.iter().find(|refused| refused.subject == subject && refused.test == Test::Write);
        let why = why.map_or("there is no figure of writing", |refused| refused.why.as_str());
        return Ok(Point::new("speed and life", format!("not measured: {why}")));
    };
    let amplification = write.write_amplification.unwrap_or(1.0).max(0.01);
    let facts = config.chip()?.facts();
    let promised = facts.nand.map_or(0, |nand| nand.endurance_cycles);
    let cycles = if promised > 0 { promised } else { 100_000 };
    let bytes = geometry.size_bytes as f64 * cycles as f64 / amplification;
    let life = match wish.write_bytes_per_day {
        0 => "with 0 bytes a day nothing wears".to_owned(),
        per_day => format!("{:.1} years at {} a day", bytes / per_day as f64 / 365.25, size(per_day)),
    };
    let read = row("read first")
        .map_or_else(String::new, |read| format!(" and {:.2} {} for reads", read.value, read.unit));
    let mut point = Point::new(
        "speed and life",
        format!(
            "expect {:.2} {} for writes{read}; about {:.1} TB can be written, {life}",
            write.value,
            write.unit,
            bytes / 1e12
        ),
    )
    .rests_on(format!("{cycles} cycles{}", if promised > 0 { " as the part promises" } else { ", which is usual: the part states none" }))
    .rests_on(format!("write amplification {amplification:.2} of random bytes in pieces of 4 KiB, and wear levelling over all of the partition"));
    if !compared.cpu_is_known {
        point = point.unless(
            "the CPU's time is known, which this setup does not state: reads and writes are slower by it",
        );
    }
    Ok(point.unless(
        "the data compress, which need less, or each small write is followed by fsync, which needs many times more",
    ))
}

/// Name of the ECC that the setup has: the code that it states, the chip's own, or as strong a one as its driver has chosen.
fn own_ecc(config: &Config, chip: &Chip, geometry: &Geometry) -> Option<String> {
    let (strength, step_bytes) = (geometry.ecc_strength, geometry.ecc_step_bytes);
    let stated = config.extract::<String>("ecc.code").ok();
    stated.or_else(|| match strength {
        _ if chip.on_die => Some(format!("on-die {}/{}", chip.strength, chip.step_bytes)),
        0 => None,
        1 => Some(Code::Hamming { step_bytes }.to_string()),
        _ => Some(Code::Bch { strength, step_bytes }.to_string()),
    })
}

/// The verdict on a code: also on one that is not on offer.
fn verdict_on(code: &str, advice: &ecc::Advice) -> Option<Verdict> {
    let is_it = |verdict: &&Verdict| verdict.code == code;
    advice.codes.iter().find(is_it).cloned().or_else(|| {
        let own = ecc::advise(advice.chip.clone(), advice.use_, &[code.parse::<Code>().ok()?]);
        own.codes.iter().find(is_it).cloned()
    })
}

fn ecc_point(config: &Config, geometry: &Geometry, wish: &Wish) -> Option<Point> {
    let chip = Chip::of_config(config).ok()?;
    let own = own_ecc(config, &chip, geometry);
    let use_ = Use { years: wish.years, temperature_c: wish.temperature_c, ..Use::default() };
    let advice = ecc::advise(chip, use_, &[]);
    let chip = &advice.chip;
    let rated = chip.endurance_cycles;
    let verdict = own.as_deref().and_then(|own| verdict_on(own, &advice));
    let mut text = match &advice.needs {
        Some(code) => format!("{code} is the weakest code that holds for {rated} cycles"),
        None => format!(
            "no code that fits the OOB holds for {} years after all {rated} rated cycles: with fewer cycles the data last, otherwise refresh them",
            use_.years
        ),
    };
    if let Some(own) = verdict.as_ref().filter(|own| !own.enough) {
        let weaker = if advice.needs.is_some() { "is weaker: it " } else { "" };
        text += &format!("; the setup's own {} {weaker}holds for {} cycles", own.code, own.cycles);
    }
    let mut point = Point::new("ECC", text)
        .rests_on(format!(
            "{} years at {} C between program and read, {:.0} reads of a block",
            use_.years, use_.temperature_c, use_.reads
        ))
        .rests_on(format!(
            "the chip asks for {} bits in {} bytes; bit errors {}",
            chip.strength,
            chip.step_bytes,
            chip.origin_of_errors()
        ));
    if let Some(own) = own {
        point = point.rests_on(format!("the setup has {own}"));
    }
    Some(
        point.unless(
            "bit errors of this chip are measured (`[chip.errors]`), or its use is another: `floatgate ecc advise`",
        ),
    )
}

/// Chips whose life is simulated for each period of scrubbing, and the size of their partition in bytes.
const LIVES: u32 = 3;
const LIFE_BYTES: u64 = 8 << 20;
/// Periods that are tried, the longest first, in days.
const PERIODS: [Option<u32>; 4] = [None, Some(365), Some(91), Some(30)];

fn scrub_point(
    library: &Library,
    board: &Board,
    geometry: &Geometry,
    kind: FilesystemKind,
    wish: &Wish,
) -> Result<Point, Error> {
    let erase = u64::from(geometry.erase_bytes);
    let bytes = LIFE_BYTES.max(2 * BLOCKS_MIN * erase).min(geometry.size_bytes) / erase * erase;
    let config = board.on_sample(library, bytes, geometry)?;
    let share = bytes as f64 / geometry.size_bytes.max(1) as f64;
    let chip = Chip::of_config(&config)?;
    let ecc = own_ecc(&config, &chip, geometry).unwrap_or_else(|| "the setup's ECC".to_owned());
    let periods = if kind == FilesystemKind::Jffs2 { &PERIODS[..1] } else { &PERIODS[..] };
    let mut point = Point::new("scrub", "");
    for scrub_days in periods {
        let options = age::Options {
            kind,
            years: wish.years.max(0.1),
            temperature_c: wish.temperature_c,
            write_bytes_per_day: (wish.write_bytes_per_day as f64 * share) as u64,
            fill_percent: 50,
            scrub_days: *scrub_days,
            chips: LIVES,
            seed: wish.seed,
        };
        let report = match age::run(library, &config, &options, &|| ()) {
            Ok(report) => report,
            Err(Error::Config(error)) => return Err(error.into()),
            Err(error) => {
                point.advice = format!("not simulated: {error}");
                return Ok(point);
            }
        };
        let period = scrub_days.map_or("never".to_owned(), |days| format!("every {days} days"));
        point = point.rests_on(format!(
            "read {period}: {} of {LIVES} chips last {} years at {} C",
            report.survived, wish.years, wish.temperature_c
        ));
        if report.survived == LIVES {
            let most = report.lives.iter().map(|life| life.cycles.most).max().unwrap_or(0);
            point = point.rests_on(format!(
                "{ecc} corrects, and {} a day wear a block by {most} cycles at most, of {} rated",
                size(wish.write_bytes_per_day),
                chip.endurance_cycles
            ));
            point.advice = match scrub_days {
                None => format!(
                    "{} needs no reading pass for {} years at {} a day: with so few cycles charge is lost too slowly",
                    name(kind),
                    wish.years,
                    size(wish.write_bytes_per_day)
                ),
                Some(days) => format!(
                    "let ubihealthd read all PEBs every {days} days, so that UBI moves what has bit errors"
                ),
            };
            return Ok(point.unless("the place is hotter, or cycles and years are more: `floatgate age`"));
        }
    }
    point.advice = match kind {
        FilesystemKind::Jffs2 => {
            "JFFS2 moves nothing for bit errors: rewrite the data, or take UBIFS".to_owned()
        }
        FilesystemKind::Ubifs => {
            "no period is enough: take a stronger code, a cooler place or another chip".to_owned()
        }
    };
    Ok(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bad blocks of the chip may be in the partition, and a sample of it has a share of the reserve.
    #[test]
    fn ubi_keeps_eraseblocks_for_the_bad_blocks_of_the_whole_chip() {
        let library = Library::built_in();
        let board = Board::named(&library, Path::new("imx6-mx30lf2g18ac"), &[]).unwrap();
        let wired = |config: &Config| {
            let options = RigOptions { stores: false, ..RigOptions::default() };
            rig::wire(&library, config, options).unwrap().device.geometry().clone()
        };
        let geometry = wired(&board.on_partition(&library, 64 << 20).unwrap());
        let point = make_point(&library, &board, FilesystemKind::Ubifs, &geometry).unwrap();
        let kept = "512 PEBs of a chip with 2048, of which 40 are kept for bad blocks and 4 for UBI itself";
        assert!(point.rests_on.iter().any(|line| line == kept), "{point:?}");
        assert!(point.commands.iter().any(|command| command.contains(" -c 468 ")), "{point:?}");
        let sample = board.on_sample(&library, 32 << 20, &geometry).unwrap();
        let own = Filesystem::of_setup(&sample).unwrap();
        assert_eq!((own.ubi_max_bad_per_1024, own.ubi_bad_limit_of_partition), (80, true));
        assert!(
            !Filesystem::of_setup(&board.on_sample(&library, 64 << 20, &geometry).unwrap())
                .unwrap()
                .ubi_bad_limit_of_partition
        );
    }

    /// The ECC of the setup is judged as well, and scrubbing rests on the same ECC and says the wear.
    #[test]
    fn ecc_and_scrubbing_say_what_they_rest_on() {
        let library = Library::built_in();
        let wish = Wish {
            partition_bytes: None,
            years: 10.0,
            temperature_c: 40.0,
            write_bytes_per_day: BYTES_PER_DAY,
            seed: 0,
        };
        let wired = |name: &str| {
            let board = Board::named(&library, Path::new(name), &[]).unwrap();
            let config = board.config(&library, &[]).unwrap();
            let options = RigOptions { stores: false, ..RigOptions::default() };
            let geometry = rig::wire(&library, &config, options).unwrap().device.geometry().clone();
            let ecc = ecc_point(&config, &geometry, &wish).unwrap();
            (board, geometry, ecc)
        };
        let (_, _, weak) = wired("imx6-mx30lf2g18ac");
        assert!(weak.advice.contains("bch8/512 is the weakest code"), "{weak:?}");
        assert!(weak.advice.contains("the setup's own bch4/512 is weaker: it holds for "), "{weak:?}");
        let (board, geometry, none) = wired("mx35lf2ge4ad");
        assert!(
            none.advice.starts_with("no code that fits the OOB holds for 10 years after all "),
            "{none:?}"
        );
        assert!(none.advice.contains("; the setup's own on-die "), "{none:?}");
        let scrub = scrub_point(&library, &board, &geometry, FilesystemKind::Ubifs, &wish).unwrap();
        assert!(
            scrub.rests_on.iter().any(|on| on.starts_with("on-die ") && on.ends_with(" rated")),
            "{scrub:?}"
        );
        assert!(scrub.advice.contains("at 10 MiB a day"), "{scrub:?}");
    }

    #[test]
    fn filesystems_are_compared_where_ubifs_has_room() {
        let sizes = |blocks: u32, erase_bytes: u32| {
            let size_bytes = u64::from(blocks) * u64::from(erase_bytes);
            let geometry = Geometry { size_bytes, erase_bytes, ..Geometry::nand_2048(blocks) };
            compared_sizes(&geometry).into_iter().map(|size| size >> 20).collect::<Vec<u64>>()
        };
        assert_eq!(sizes(1024, 128 << 10), [2, 8, 32]);
        assert_eq!(sizes(2048, 2 << 20), [32, 128]);
        assert_eq!(sizes(8, 128 << 10), [1], "no larger than the flash");
    }
}
