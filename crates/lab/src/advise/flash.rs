//! Advice on a chip on a board: the fastest mode, the filesystem by partition size, how it is made, the code that corrects its bits, and how often UBI
//! must read all of it.

use super::ecc::{self, Chip, NO_ECC, Use};
use super::{Advice, Point, size};
use crate::Error;
use crate::age;
use crate::fs_compare::{self, FREE, FsComparison, Options, Refused, SPACE_SHARE, Subject, Test};
use crate::life::{self, Endurance, FlashLife};
use crate::speed::{Measured, SpeedOptions};
use crate::speed_run::{self, SpeedRun};
use floatgate_config::{Config, Library, Override, Setup};
use floatgate_device::host::HostProfile;
use floatgate_device::spec::{ChipKind, ChipSpec};
use floatgate_image::words::measure;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, CommandOption};
use floatgate_mtd::{FlashKind, Geometry};
use floatgate_sim::machine::{Filesystem, FilesystemKind};
use floatgate_sim::partition;
use floatgate_sim::rig::{self, RigOptions};
use floatgate_stack::ubi::PebBudget;
use rayon::prelude::*;
use std::path::Path;

/// Bytes written to raw flash in a day where nothing else is said, as in `floatgate life`.
pub const BYTES_PER_DAY: u64 = 10 << 20;

/// Options of advice on raw flash.
#[derive(Clone, Debug)]
pub struct AdviceOptions {
    /// Size of the partition in bytes; none for the setup's own size.
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

impl AdviceOptions {
    /// Use for which ECC is judged.
    pub(crate) fn ecc_use(&self) -> Use {
        Use { years: self.years, temperature_c: self.temperature_c, ..Use::default() }
    }

    /// Years of a filesystem, for its life.
    fn age_options(&self, kind: FilesystemKind, scrub_days: Option<u32>) -> age::Options {
        age::Options {
            kind,
            years: self.years.max(0.1),
            temperature_c: self.temperature_c,
            write_bytes_per_day: self.write_bytes_per_day,
            fill_percent: age::FILL_PERCENT,
            scrub_days,
            chips: LIVES,
            seed: self.seed,
        }
    }
}

/// A setup with the overrides of the user, which advice is for.
#[derive(Clone)]
pub struct Board {
    /// Name of the setup.
    pub name: String,
    /// Setup of the board, from the catalogue or a file.
    pub setup: Setup,
    /// Overrides of the user.
    pub sets: Vec<Override>,
}

impl Board {
    /// The setup of a name or path, or a part on the board that fits it best.
    ///
    /// # Errors
    /// Neither a setup nor a chip has this name; no board drives it.
    pub fn named(library: &Library, name: &Path, sets: &[Override]) -> Result<Self, Error> {
        Ok(Self { name: name.display().to_string(), setup: library.setup(name)?, sets: sets.to_vec() })
    }

    /// The configuration with the partition of the options.
    pub(crate) fn configured(&self, library: &Library, wanted: &AdviceOptions) -> Result<Config, Error> {
        match wanted.partition_bytes {
            Some(bytes) => self.on_partition(library, bytes),
            None => self.config(library, &[]),
        }
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
    wanted: &AdviceOptions,
    progress: &(dyn Fn(&'static str) + Sync),
) -> Result<Advice, Error> {
    let own = board.configured(library, wanted)?;
    let wired = rig::wire(library, &own, RigOptions { stores: false, ..RigOptions::default() })?;
    let chip = own.chip()?;
    progress("modes");
    let mut points: Vec<Point> =
        mode_point(library, board, &own, wired.device.geometry().blocks())?.into_iter().collect();
    progress("filesystems");
    let candidates = Candidate::all(library, board, wanted, &own, &Scope::of_advice())?;
    let best = Candidate::best(&candidates);
    let others: Vec<&Candidate> = candidates.iter().filter(|other| !std::ptr::eq(*other, best)).collect();
    let Candidate { board: chosen, config, geometry, compared, .. } = best;
    let is_firmware = own.extract_or_default::<HostProfile>("host")?.firmware;
    let kind = compared.last().and_then(kind);
    points.push(filesystem_point(best, &others, is_firmware));
    let mut life = None;
    if is_firmware {
        points.push(firmware_point(config, geometry, wanted)?);
    } else if let (Some(kind), Some(largest)) = (kind, compared.last()) {
        points.push(make_point(kind, best));
        progress("life");
        let flash = age::flash_life(library, config, &wanted.age_options(kind, None))?;
        points.push(write_point(largest, kind, &flash, &chip, wanted));
        life = Some((kind, flash));
    }
    if chip.kind().is_nand() {
        progress("ECC");
        points.extend(ecc_point(config, geometry, wanted));
    }
    if let Some((kind, flash)) = life.filter(|_| chip.kind().is_nand()) {
        progress("years");
        points.push(scrub_point(library, chosen, geometry, (kind, &flash), wanted)?);
    }
    Ok(Advice {
        target: board.name.clone(),
        board: board.setup.board().map(str::to_owned),
        title: speed_run::title(&own),
        capacity_bytes: geometry.size_bytes,
        points,
    })
}

/// Comparison of filesystems to make on a partition.
pub(crate) struct Scope {
    /// Sizes of partitions in bytes. A largest one that is smaller than the partition is the size of a sample of it, too.
    pub(crate) sizes: fn(&Geometry) -> Vec<u64>,
    /// Tests to make on each.
    pub(crate) options: Options,
}

impl Scope {
    /// The scope of advice.
    fn of_advice() -> Self {
        let tests = vec![Test::Write, Test::Read, Test::Mount, Test::Space];
        Self { sizes: compared_sizes, options: Self::options(tests) }
    }

    /// Tests of JFFS2 and UBIFS with a short file.
    pub(crate) fn options(tests: Vec<Test>) -> Options {
        let subjects = vec![Subject::Jffs2, Subject::Ubifs];
        Options { subjects, tests, bytes: FILE_BYTES, ..Options::default() }
    }
}

/// Eraseblocks that Linux can take, with the filesystems on them.
pub(crate) struct Candidate {
    board: Board,
    pub(crate) config: Config,
    pub(crate) geometry: Geometry,
    pub(crate) compared: Vec<FsComparison>,
    /// Configuration of the kernel, where it decides on the eraseblocks.
    pub(crate) kernel: Option<&'static str>,
}

/// Kernel configuration of small eraseblocks of SPI NOR, and eraseblocks without it.
const SMALL_SECTORS: &str = "CONFIG_MTD_SPI_NOR_USE_4K_SECTORS=y";
const LARGE_SECTORS: &str = "CONFIG_MTD_SPI_NOR_USE_4K_SECTORS=n";
const SECTORS: [(&str, &str); 2] =
    [("driver.erase_bytes=4KiB", SMALL_SECTORS), ("driver.erase_bytes=64KiB", LARGE_SECTORS)];

impl Candidate {
    /// The eraseblocks of the setup alone, or of SPI NOR those of both configurations of the kernel, where nothing sets them.
    pub(crate) fn all(
        library: &Library,
        board: &Board,
        wanted: &AdviceOptions,
        own: &Config,
        scope: &Scope,
    ) -> Result<Vec<Self>, Error> {
        let is_set = own.tree().get("driver.erase_bytes").is_some();
        // Firmware takes the eraseblocks that it has.
        let is_firmware = own.extract_or_default::<HostProfile>("host")?.firmware;
        if own.chip_kind()? != ChipKind::SpiNor || is_set || is_firmware {
            return Ok(vec![Self::new(library, board.clone(), (wanted, None), scope)?]);
        }
        let with = |(set, kernel): (&str, &'static str)| {
            let mut board = board.clone();
            board.sets.extend(Override::parse_all(&[set.to_owned()])?);
            Self::new(library, board, (wanted, Some(kernel)), scope)
        };
        // A chip without sectors of one of the sizes has the other.
        let found: Vec<Self> = SECTORS.into_iter().filter_map(|sectors| with(sectors).ok()).collect();
        if found.is_empty() {
            Ok(vec![Self::new(library, board.clone(), (wanted, None), scope)?])
        } else {
            Ok(found)
        }
    }

    fn new(
        library: &Library,
        board: Board,
        (wanted, kernel): (&AdviceOptions, Option<&'static str>),
        scope: &Scope,
    ) -> Result<Self, Error> {
        let config = board.configured(library, wanted)?;
        let wired = rig::wire(library, &config, RigOptions { stores: false, ..RigOptions::default() })?;
        let geometry = wired.device.geometry().clone();
        let compared = compare(library, &board, &geometry, scope)?;
        Ok(Self { board, config, geometry, compared, kernel })
    }

    /// Space for files in KiB and seconds until it is ready, of the filesystem that is chosen on these eraseblocks.
    fn figures(&self) -> Option<(f64, f64)> {
        let largest = self.compared.last()?;
        let subject = largest.choice()?.subject?;
        Some((largest.space(subject)?.ok()?, largest.mounted_s(subject)?.1))
    }

    /// The one whose filesystem is ready soonest, of those that leave about as much space for files as any.
    pub(crate) fn best(all: &[Self]) -> &Self {
        let most = all.iter().filter_map(Self::figures).map(|(free, _)| free).fold(0.0, f64::max);
        let ready = |candidate: &Self| {
            let figures = candidate.figures().filter(|(free, _)| *free >= SPACE_SHARE * most);
            figures.map_or(f64::INFINITY, |(_, ready)| ready)
        };
        all.iter().min_by(|a, b| ready(a).total_cmp(&ready(b))).unwrap_or(&all[0])
    }
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
    let tests = SpeedOptions { blocks: Some(MODE_BLOCKS.min(blocks)), ..SpeedOptions::default() };
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
    let figure = |run: &SpeedRun, name: &str| speed_of(run, name).map_or(0.0, |test| test.exact_kib_s);
    let figures = |run: &SpeedRun| {
        format!(
            "{:.0} KiB/s read, {:.0} KiB/s written",
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
        .command(advice! { CommandOption::Set, format!(" {set}") }),
        false => Point::new(
            "mode",
            format!("stay with {}: no mode of the chip is faster on this controller", own.link.mode),
        ),
    };
    point = point.rests_on(format!("{} as the setup has it: {}", own.link.mode, figures(&own)));
    for (_, run) in measured.iter().filter(|(_, run)| run.link.mode != own.link.mode) {
        point = point.rests_on(format!("{}: {}", run.link.mode, figures(run)));
    }
    Ok(Some(point.unless(
        advice! { "clock or controller are others: ", Command::Speed, " names the next bottleneck" },
    )))
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

/// Sizes of partitions that are compared, in bytes: a sixteenth, a quarter and all of the partition, or of the most that is simulated.
fn compared_sizes(geometry: &Geometry) -> Vec<u64> {
    let erase = u64::from(geometry.erase_bytes);
    let most = geometry.size_bytes.min(COMPARED_MAX.max(COMPARED_BLOCKS_MIN * erase));
    let of = |part: u64| ((most / part / erase).max(BLOCKS_MIN) * erase).min(geometry.size_bytes);
    let mut sizes = [16, 4, 1].map(of).to_vec();
    sizes.dedup();
    sizes
}

fn compare(
    library: &Library,
    board: &Board,
    geometry: &Geometry,
    scope: &Scope,
) -> Result<Vec<FsComparison>, Error> {
    let sizes = (scope.sizes)(geometry);
    let at = |bytes| board.on_partition(library, bytes);
    let mut compared =
        fs_compare::comparisons(library, &at, (RigOptions::default(), &scope.options), &sizes, &|_| ())?;
    if let Some(sample) = sizes.last().copied().filter(|sample| *sample < geometry.size_bytes) {
        compared.push(of_sample(library, board, (sample, geometry), &scope.options)?);
    }
    // JFFS2 is possible on the sample, not on all of the flash that its row stands for.
    if let (true, Some(whole)) = (geometry.size_bytes > JFFS2_BYTES_MAX, compared.last_mut()) {
        let why = format!("{} of flash, and JFFS2 has at most 4 GiB", size(geometry.size_bytes));
        whole.rows.retain(|row| row.subject != Subject::Jffs2);
        whole.refused.push(Refused { subject: Subject::Jffs2, test: Test::Space, why });
    }
    Ok(compared)
}

/// A comparison for all of a partition: times of a sample of `bytes`, and the space that is left on the whole.
fn of_sample(
    library: &Library,
    board: &Board,
    (bytes, geometry): (u64, &Geometry),
    options: &Options,
) -> Result<FsComparison, Error> {
    let of = |config: &Config, options: &Options| {
        fs_compare::compare(library, config, RigOptions::default(), options, &|_| ())
    };
    let sample = of(&board.on_sample(library, bytes, geometry)?, options)?;
    let space = Options { tests: vec![Test::Space], only: vec![FREE.to_owned()], ..options.clone() };
    Ok(sample.with_space_of(&of(&board.on_partition(library, geometry.size_bytes)?, &space)?))
}

/// Largest flash of a JFFS2, whose offsets have 32 bits.
const JFFS2_BYTES_MAX: u64 = 1 << 32;

/// The filesystem that a comparison speaks for; none where neither is possible.
pub(crate) fn kind(compared: &FsComparison) -> Option<FilesystemKind> {
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

fn filesystem_point(best: &Candidate, others: &[&Candidate], is_firmware: bool) -> Point {
    let Candidate { geometry, compared, .. } = best;
    let Some(largest) = compared.last() else { return Point::default() };
    let choice = largest.choice();
    let sentence =
        choice.as_ref().map_or("JFFS2 and UBIFS were not compared", |choice| choice.sentence.as_str());
    let mut point = match is_firmware {
        true => Point::new(
            "filesystem",
            format!(
                "this board runs firmware, which has neither UBIFS nor JFFS2: take a filesystem for microcontrollers, such as littlefs, with blocks of {}",
                size(geometry.erase_bytes.into())
            ),
        )
        .rests_on(format!("under Linux: {sentence}")),
        false => Point::new("filesystem", sentence),
    };
    if !others.is_empty() {
        point = point.rests_on(format!("eraseblocks of {}: {sentence}", size(geometry.erase_bytes.into())));
    }
    for other in others {
        let Some(largest) = other.compared.last() else { continue };
        let whole = other.geometry.size_bytes;
        let figures = [Subject::Jffs2, Subject::Ubifs].map(|subject| figures(largest, subject, whole));
        point = point.rests_on(format!(
            "eraseblocks of {}, {} of them: {}",
            size(other.geometry.erase_bytes.into()),
            size(whole),
            figures.join("; ")
        ));
    }
    for of_size in compared {
        let is_all = std::ptr::eq(of_size, largest);
        let bytes = if is_all { geometry.size_bytes } else { of_size.flash_bytes };
        let figures = [Subject::Jffs2, Subject::Ubifs].map(|subject| figures(of_size, subject, bytes));
        point = point.rests_on(format!("{}: {}", size(bytes), figures.join("; ")));
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
    point.unless(advice! { "only the time to mount counts: ", Command::Fs.with(CommandOption::Test).with("mount"), " has the figures, fastmap included" })
}

/// Space that a filesystem leaves for files on a partition of `bytes`, and the time until it is ready, on these bytes or on a sample.
fn figures(compared: &FsComparison, subject: Subject, bytes: u64) -> String {
    let of_what = match compared.flash_bytes {
        sample if sample < bytes => format!("a sample of {}", size(sample)),
        _ => "these".to_owned(),
    };
    match (compared.space(subject), compared.mounted_s(subject)) {
        (Some(Ok(free)), Some((_, ready))) => format!(
            "{} leaves {free:.0} KiB for files, and with files on {} % of {of_what} it is ready after {ready:.2} s",
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

/// Kernel options that the choice needs, in words that begin a sentence.
fn kernel_first(candidate: &Candidate) -> String {
    let erase = size(candidate.geometry.erase_bytes.into());
    candidate.kernel.map_or_else(String::new, |kernel| {
        format!("build the kernel with {kernel}, which makes eraseblocks of {erase}; ")
    })
}

/// The commands that bring a JFFS2 onto the partition. An image that is made for larger eraseblocks has nodes across the ends of smaller ones, and Linux drops
/// these.
fn make_jffs2(candidate: &Candidate) -> Point {
    let (geometry, kernel) = (&candidate.geometry, kernel_first(candidate));
    let rests_on = format!("eraseblocks of {}", size(geometry.erase_bytes.into()));
    if geometry.erase_bytes >= JFFS2_ERASE_MIN {
        let clean = if geometry.kind == FlashKind::Nor { "" } else { " -n" };
        let what = "make a JFFS2 image for the eraseblock, and write it to the erased partition";
        let point = Point::new("mkfs and mount", kernel + what)
            .command(format!("mkfs.jffs2 -l{clean} -e {} -r FOLDER -o root.jffs2", geometry.erase_bytes));
        let written = if geometry.kind == FlashKind::Nor {
            point.command("flashcp -v root.jffs2 /dev/mtd0")
        } else {
            point.command("flash_erase -j /dev/mtd0 0 0").command("nandwrite -p /dev/mtd0 root.jffs2")
        };
        return written.command("mount -t jffs2 mtd0 /mnt").rests_on(rests_on);
    }
    let what = "mount the erased partition, which is an empty JFFS2, and copy the files";
    Point::new("mkfs and mount", kernel + what)
        .command("flash_erase /dev/mtd0 0 0")
        .command("mount -t jffs2 mtd0 /mnt")
        .command("cp -a FOLDER/. /mnt")
        .rests_on(format!(
            "{rests_on}: mkfs.jffs2 makes images for {} and more",
            size(JFFS2_ERASE_MIN.into())
        ))
}

fn make_ubifs(candidate: &Candidate) -> Point {
    let geometry = &candidate.geometry;
    let (page, peb) = (u64::from(geometry.write_bytes), u64::from(geometry.erase_bytes));
    let sub = u64::from(geometry.sub_page_bytes).max(1);
    // EC and VID header of 64 bytes each; behind them data begin at the next page.
    let vid = sub.max(64).next_multiple_of(sub);
    let data = (vid + 64).next_multiple_of(page.max(1));
    let leb = peb.saturating_sub(data);
    let io = page.max(8);
    let lebs = peb_budget(geometry).available_lebs().max(1);
    let what = "make UBI and UBIFS with the chip's page, sub-page and eraseblock";
    Point::new("mkfs and mount", kernel_first(candidate) + what)
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

fn make_point(kind: FilesystemKind, candidate: &Candidate) -> Point {
    let point = match kind {
        FilesystemKind::Jffs2 => make_jffs2(candidate),
        FilesystemKind::Ubifs => make_ubifs(candidate),
    };
    match SECTORS.iter().find(|(_, kernel)| Some(*kernel) != candidate.kernel) {
        Some((set, other)) if candidate.kernel.is_some() => {
            point.unless(advice! { format!("the kernel has {other}: `"), CommandOption::Set, format!(" {set}` has the advice for that") })
        }
        _ => point,
    }
}

/// Speed and life where a filesystem is to be taken that is not simulated.
fn firmware_point(config: &Config, geometry: &Geometry, wanted: &AdviceOptions) -> Result<Point, Error> {
    let endurance = Endurance::of_config(config, geometry, wanted.ecc_use())?;
    Ok(Point::new("speed and life", "not simulated for such a filesystem")
        .rests_on(format!("{} cycles {}", endurance.cycles, endurance.reason))
        .unless(advice! { "raw speeds are enough: ", Command::Speed, " has the chip's own reads, programs and erases on this board" }))
}

/// Speed of writes and life of the flash.
fn write_point(
    compared: &FsComparison,
    kind: FilesystemKind,
    flash: &FlashLife,
    chip: &ChipSpec,
    wanted: &AdviceOptions,
) -> Point {
    let subject = if kind == FilesystemKind::Ubifs { Subject::Ubifs } else { Subject::Jffs2 };
    let row = |name: &str| compared.rows.iter().find(|row| row.subject == subject && row.name == name);
    // NOR takes longer to erase an eraseblock than to program it.
    let is_nor = !chip.kind().is_nand();
    let writes = if is_nor { "writes into erased eraseblocks" } else { "writes" };
    let speed = match (row("write random 4 KiB"), row("read first")) {
        (Some(write), Some(read)) => format!(
            "expect {:.2} {} for {writes} and {:.2} {} for reads",
            write.value, write.unit, read.value, read.unit
        ),
        (Some(write), None) => format!("expect {:.2} {} for {writes}", write.value, write.unit),
        (None, _) => {
            let is_it = |refused: &&Refused| refused.subject == subject && refused.test == Test::Write;
            let why = compared.refused.iter().find(is_it);
            format!("speed is not measured: {}", why.map_or("no figure of writes", |refused| &refused.why))
        }
    };
    let mut point = Point::new("speed and life", format!("{speed}; {}", life_in_words(flash, wanted)))
        .rests_on(format!("{} cycles {}", flash.endurance.cycles, flash.endurance.reason));
    if flash.endurance.before > 0 {
        point = point.rests_on(format!("{} of them are over before the first day", flash.endurance.before));
    }
    point = point.rests_on(flash.wear.in_words());
    if let Some(years) = chip.promised_retention_years() {
        point = point.rests_on(format!("the part promises {} of retention", measure(years.into(), "year")));
    }
    if !compared.cpu_is_known {
        point = point.unless(
            "the CPU's time is known, which this setup does not state: reads and writes are slower by it",
        );
    }
    point.unless(
        "the data compress, which wear less, or fsync follows each small write, which wears many times more",
    )
}

/// Bytes that can be written, and the years that they last.
fn life_in_words(flash: &FlashLife, wanted: &AdviceOptions) -> String {
    let bytes = flash.bytes();
    if flash.endurance.left() == 0 {
        return format!(
            "no life can be promised: no cycle is left of the {} {}",
            flash.endurance.cycles, flash.endurance.reason
        );
    }
    format!(
        "about {} can be written, {}",
        life::terabytes(bytes),
        life::in_words(bytes, wanted.write_bytes_per_day)
    )
}

fn ecc_point(config: &Config, geometry: &Geometry, wanted: &AdviceOptions) -> Option<Point> {
    let chip = Chip::of_config(config).ok()?;
    let own = ecc::own_verdict(config, geometry, wanted.ecc_use()).ok()?;
    let advice = ecc::advise(chip, wanted.ecc_use(), &[]);
    let (chip, use_) = (&advice.chip, &advice.use_);
    let rated = chip.endurance_cycles;
    let mut text = match &advice.needs {
        Some(code) => format!("{code} is the weakest code that holds for {rated} cycles"),
        None => format!(
            "no code that fits the OOB holds for {} after all {rated} rated cycles: with fewer cycles the data last, otherwise refresh them",
            measure(use_.years, "year")
        ),
    };
    if own.code == NO_ECC {
        text += &format!("; the setup has no ECC, which holds for {} cycles", own.cycles);
    } else if !own.enough {
        let weaker = if advice.needs.is_some() { "is weaker: it " } else { "" };
        text += &format!("; the setup's own {} {weaker}holds for {} cycles", own.code, own.cycles);
    } else if advice.needs.as_ref().is_some_and(|needs| *needs != own.code) {
        text += &format!("; the setup's own {} holds, too", own.code);
    }
    let point = Point::new("ECC", text)
        .rests_on(format!(
            "{} at {} C between program and read, {:.0} reads of a block",
            measure(use_.years, "year"),
            use_.temperature_c,
            use_.reads
        ))
        .rests_on(format!(
            "the chip asks for {} bits in {} bytes; bit errors {}",
            chip.strength,
            chip.step_bytes,
            chip.origin_of_errors()
        ));
    Some(
        point.rests_on(format!("the setup has {}", own.code)).unless(advice! {
            "bit errors of this chip are measured (`[chip.errors]`), or its use is another: ",
            Command::EccAdvise.with(CommandOption::Years).with(use_.years).with(CommandOption::Temperature).with(use_.temperature_c),
            " judges other codes"
        }),
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
    (kind, flash): (FilesystemKind, &FlashLife),
    wanted: &AdviceOptions,
) -> Result<Point, Error> {
    let erase = u64::from(geometry.erase_bytes);
    let bytes = LIFE_BYTES.max(2 * BLOCKS_MIN * erase).min(geometry.size_bytes) / erase * erase;
    let config = board.on_sample(library, bytes, geometry)?;
    let own = ecc::own_verdict(&config, geometry, wanted.ecc_use())?;
    let ecc = own.code;
    let periods = if kind == FilesystemKind::Jffs2 { &PERIODS[..1] } else { &PERIODS[..] };
    let mut point = Point::new("scrub", "");
    for scrub_days in periods {
        let options = wanted.age_options(kind, *scrub_days);
        let report = match age::run_with(library, &config, &options, flash, &|_| ()) {
            Ok(report) => report,
            Err(Error::Config(error)) => return Err(error.into()),
            Err(error) => {
                point.advice = format!("not simulated: {error}");
                return Ok(point);
            }
        };
        let period = scrub_days.map_or("never".to_owned(), |days| format!("every {days} days"));
        point = point.rests_on(format!(
            "read {period}: {} of {LIVES} chips last {} at {} C",
            report.survived,
            measure(wanted.years, "year"),
            wanted.temperature_c
        ));
        if report.survived == LIVES {
            point = point.rests_on(format!(
                "{ecc} corrects, and {} a day wear a block by {} cycles at most, of {} that it is good for",
                life::in_units(wanted.write_bytes_per_day),
                report.wear.cycles_at_end,
                report.wear.cycles
            ));
            point.advice = match scrub_days {
                _ if report.wear.ends_before(wanted.years) => format!(
                    "no chip loses data, but blocks are worn beyond what they are good for after {:.1} of {}",
                    report.wear.worn_out_after_years.unwrap_or(0.0),
                    measure(wanted.years, "year")
                ),
                None => format!(
                    "{} needs no reading pass for {} at {} a day: charge is lost too slowly",
                    name(kind),
                    measure(wanted.years, "year"),
                    life::in_units(wanted.write_bytes_per_day)
                ),
                Some(days) => format!(
                    "let ubihealthd read all PEBs every {days} days, so that UBI moves what has bit errors"
                ),
            };
            return Ok(
                point.unless(advice! { "the place is hotter, or cycles and years are more: ", Command::Age })
            );
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
        let candidate = Candidate {
            config: board.config(&library, &[]).unwrap(),
            board: board.clone(),
            geometry: geometry.clone(),
            compared: Vec::new(),
            kernel: None,
        };
        let point = make_point(FilesystemKind::Ubifs, &candidate);
        let kept = "512 PEBs of a chip with 2048, of which 40 are kept for bad blocks and 4 for UBI itself";
        assert!(point.rests_on.iter().any(|line| line == kept), "{point:?}");
        assert!(point.commands.iter().any(|command| command.to_string().contains(" -c 468 ")), "{point:?}");
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
        let wanted = AdviceOptions {
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
            let ecc = ecc_point(&config, &geometry, &wanted).unwrap();
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
        let config = board.config(&library, &[]).unwrap();
        let kind = FilesystemKind::Ubifs;
        let flash = age::flash_life(&library, &config, &wanted.age_options(kind, None)).unwrap();
        let scrub = scrub_point(&library, &board, &geometry, (kind, &flash), &wanted).unwrap();
        let worn = format!("wear a block by {} cycles at most", flash.cycles_after(10.0, BYTES_PER_DAY));
        assert!(scrub.rests_on.iter().any(|on| on.starts_with("on-die ") && on.contains(&worn)), "{scrub:?}");
        assert!(scrub.advice.contains("at 10 MiB a day"), "{scrub:?}");
    }

    /// Blocks that are worn out are not called good for years that a chip happens to survive, and without ECC nothing lasts.
    #[test]
    fn life_ecc_and_scrubbing_have_one_verdict() {
        let library = Library::built_in();
        let wanted = AdviceOptions {
            partition_bytes: Some(8 << 20),
            years: 10.0,
            temperature_c: 40.0,
            write_bytes_per_day: 1 << 30,
            seed: 0,
        };
        let kind = FilesystemKind::Ubifs;
        let at = |sets: &[&str]| {
            let sets = Override::parse_all(sets).unwrap();
            let board = Board::named(&library, Path::new("imx6-mx30lf2g18ac"), &sets).unwrap();
            let config = board.configured(&library, &wanted).unwrap();
            let options = RigOptions { stores: false, ..RigOptions::default() };
            let geometry = rig::wire(&library, &config, options).unwrap().device.geometry().clone();
            (board, config, geometry)
        };
        let (board, config, geometry) = at(&[]);
        let flash = age::flash_life(&library, &config, &wanted.age_options(kind, None)).unwrap();
        assert!(flash.years(1 << 30).unwrap() < 10.0);
        let scrub = scrub_point(&library, &board, &geometry, (kind, &flash), &wanted).unwrap();
        assert!(!scrub.advice.contains("needs no reading pass"), "{scrub:?}");
        let (_, config, geometry) = at(&["ecc.engine=none"]);
        let endurance = Endurance::of_config(&config, &geometry, wanted.ecc_use()).unwrap();
        assert!(endurance.cycles < 1000 && endurance.reason.contains("without ECC"), "{endurance:?}");
        let ecc = ecc_point(&config, &geometry, &wanted).unwrap();
        assert!(ecc.advice.contains("the setup has no ECC"), "{ecc:?}");
    }

    /// An image is written before it is mounted.
    #[test]
    fn an_image_of_jffs2_is_written_to_the_partition() {
        let library = Library::built_in();
        for (name, set, command) in [
            ("imx6-mx30lf2g18ac", "partition.size=16MiB", "nandwrite"),
            ("sama5d2-mx25l25635e", "driver.erase_bytes=64KiB", "flashcp"),
        ] {
            let sets = Override::parse_all(&[set]).unwrap();
            let board = Board::named(&library, Path::new(name), &sets).unwrap();
            let config = board.config(&library, &[]).unwrap();
            let options = RigOptions { stores: false, ..RigOptions::default() };
            let geometry = rig::wire(&library, &config, options).unwrap().device.geometry().clone();
            let point =
                make_jffs2(&Candidate { config, board, geometry, compared: Vec::new(), kernel: None });
            assert!(point.commands.iter().any(|line| line.to_string().starts_with(command)), "{point:?}");
        }
    }

    /// UBI keeps eraseblocks for the bad ones of the whole chip on each size that is compared, and times of a sample do not hide it.
    #[test]
    fn advice_and_fs_agree_on_partitions() {
        let library = Library::built_in();
        let board = Board::named(&library, Path::new("w25n02kv"), &[]).unwrap();
        let subjects = [Subject::Jffs2, Subject::Ubifs];
        let advised = |partition_bytes: Option<u64>| {
            let wanted = AdviceOptions {
                partition_bytes,
                years: 10.0,
                temperature_c: 40.0,
                write_bytes_per_day: BYTES_PER_DAY,
                seed: 0,
            };
            let mut options = Scope::options(vec![Test::Mount, Test::Space]);
            options.only = [FREE, "mount many small files"].map(str::to_owned).to_vec();
            let own = board.configured(&library, &wanted).unwrap();
            let scope = Scope { sizes: compared_sizes, options };
            Candidate::all(&library, &board, &wanted, &own, &scope).unwrap().remove(0).compared
        };
        let sizes = [8_u64, 32, 64].map(|mib| mib << 20);
        let at = |bytes| board.on_partition(&library, bytes);
        let fs = fs_compare::by_size(&library, &at, (RigOptions::default(), &subjects, 80), &sizes, &|_| ())
            .unwrap();
        let agree = |compared: &FsComparison, bytes: u64| {
            for row in fs.rows.iter().filter(|row| row.partition_bytes == bytes) {
                assert_eq!(compared.value(row.subject, FREE), row.free_kib, "{row:?}");
                let is_chosen = compared.choice().unwrap().subject == Some(row.subject);
                assert_eq!(is_chosen, row.is_advised, "{row:?}");
            }
        };
        for bytes in sizes {
            agree(advised(Some(bytes)).last().unwrap(), bytes);
        }
        let whole = advised(None);
        assert_eq!(whole.len(), 4, "three partitions, and a sample of all");
        agree(&whole[2], 32 << 20);
        assert!(whole[3].value(Subject::Ubifs, FREE).unwrap() > 200_000.0);
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
