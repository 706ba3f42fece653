//! Advice on a chip on a board: fastest mode, filesystem by partition size, commands that create it, ECC, and period of scrubbing.

mod filesystem;
mod wear;

use super::ecc::Use;
use super::{Advice, Point};
use crate::Error;
use crate::age;
use crate::fs_compare::{FsComparison, Options, SPACE_SHARE, Subject, Test};
use crate::speed::{Measured, SpeedOptions};
use crate::speed_run::{self, SpeedRun};
use floatgate_config::{Config, Library, Override, Setup};
use floatgate_device::host::HostProfile;
use floatgate_device::spec::ChipKind;
use floatgate_mtd::Geometry;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, CommandOption};
use floatgate_sim::machine::{Filesystem, FilesystemKind};
use floatgate_sim::partition;
use floatgate_sim::rig::{self, RigOptions};
use rayon::prelude::*;
use std::path::Path;

pub(crate) use filesystem::kind;
use filesystem::{FILE_BYTES, compare, compared_sizes, filesystem_point, make_point};
use wear::{LIVES, ecc_point, firmware_point, scrub_point, write_point};

/// Default number of bytes written to raw flash per day, as in `floatgate life`.
pub const BYTES_PER_DAY: u64 = 10 << 20;

/// Options of advice on raw flash.
#[derive(Clone, Debug)]
pub struct AdviceOptions {
    /// Size of the partition in bytes; `None` for the size in the setup.
    pub partition_bytes: Option<u64>,
    /// Time that data must last, years.
    pub years: f64,
    /// Temperature in degrees Celsius.
    pub temperature_c: f64,
    /// Number of bytes that programs write per day.
    pub write_bytes_per_day: u64,
    /// Seed of the first chip.
    pub seed: u64,
}

impl AdviceOptions {
    /// Use for which ECC is judged.
    pub(crate) fn ecc_use(&self) -> Use {
        Use { years: self.years, temperature_c: self.temperature_c, ..Use::default() }
    }

    /// Options for the simulated life of a filesystem.
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

/// Subject of advice: a setup with the overrides of the user.
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
    /// Setup with this name or path, or a part on the best matching board.
    ///
    /// # Errors
    /// A name that is neither a setup nor a chip, or a chip without a matching board.
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

    /// The board with a partition of this size in bytes.
    fn on_partition(&self, library: &Library, bytes: u64) -> Result<Config, Error> {
        let size = partition::of_size(&self.config(library, &[])?, bytes)?;
        let sets: Vec<Override> = self.sets.iter().cloned().chain([size]).collect();
        Ok(library.resolve(&self.setup, &sets)?)
    }

    /// The board with a sample of `bytes` of the partition, which is simulated instead of the whole partition. UBI reserves the
    /// same share of it for bad blocks.
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

/// Advice on a board. `progress` receives the name of the next measurement.
///
/// # Errors
/// A wrong setup, or a chip that the driver does not support.
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

/// Scope of a comparison of filesystems on a partition.
pub(crate) struct Scope {
    /// Sizes of partitions in bytes. If the largest one is smaller than the partition, it is also the size of the sample.
    pub(crate) sizes: fn(&Geometry) -> Vec<u64>,
    /// Tests on each partition.
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

/// A possible size of eraseblocks in Linux, with the filesystems on them.
pub(crate) struct Candidate {
    board: Board,
    pub(crate) config: Config,
    pub(crate) geometry: Geometry,
    pub(crate) compared: Vec<FsComparison>,
    /// Kernel configuration with this size, if the size depends on it.
    pub(crate) kernel: Option<&'static str>,
}

/// Kernel configuration for small eraseblocks of SPI NOR, and their size without it.
const SMALL_SECTORS: &str = "CONFIG_MTD_SPI_NOR_USE_4K_SECTORS=y";
const LARGE_SECTORS: &str = "CONFIG_MTD_SPI_NOR_USE_4K_SECTORS=n";
const SECTORS: [(&str, &str); 2] =
    [("driver.erase_bytes=4KiB", SMALL_SECTORS), ("driver.erase_bytes=64KiB", LARGE_SECTORS)];

impl Candidate {
    /// Eraseblocks of the setup; for a SPI NOR, those of both kernel configurations, unless the setup states a size.
    pub(crate) fn all(
        library: &Library,
        board: &Board,
        wanted: &AdviceOptions,
        own: &Config,
        scope: &Scope,
    ) -> Result<Vec<Self>, Error> {
        let is_set = own.tree().get("driver.erase_bytes").is_some();
        // Firmware has only one size of eraseblocks.
        let is_firmware = own.extract_or_default::<HostProfile>("host")?.firmware;
        if own.chip_kind()? != ChipKind::SpiNor || is_set || is_firmware {
            return Ok(vec![Self::new(library, board.clone(), (wanted, None), scope)?]);
        }
        let with = |(set, kernel): (&str, &'static str)| {
            let mut board = board.clone();
            board.sets.extend(Override::parse_all(&[set.to_owned()])?);
            Self::new(library, board, (wanted, Some(kernel)), scope)
        };
        // A chip without sectors of one size has the other size.
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

    /// Space for files in KiB, and time until the filesystem is ready in seconds, for the filesystem chosen for these
    /// eraseblocks.
    fn figures(&self) -> Option<(f64, f64)> {
        let largest = self.compared.last()?;
        let subject = largest.choice()?.subject?;
        Some((largest.space(subject)?.ok()?, largest.mounted_s(subject)?.1))
    }

    /// Candidate whose filesystem is ready first, among those with nearly the largest space for files.
    pub(crate) fn best(all: &[Self]) -> &Self {
        let most = all.iter().filter_map(Self::figures).map(|(free, _)| free).fold(0.0, f64::max);
        let ready = |candidate: &Self| {
            let figures = candidate.figures().filter(|(free, _)| *free >= SPACE_SHARE * most);
            figures.map_or(f64::INFINITY, |(_, ready)| ready)
        };
        all.iter().min_by(|a, b| ready(a).total_cmp(&ready(b))).unwrap_or(&all[0])
    }
}

/// Number of blocks that are read and written in each mode.
const MODE_BLOCKS: u32 = 2;

fn speed_of<'a>(run: &'a SpeedRun, name: &str) -> Option<&'a Measured> {
    run.report.tests.iter().find(|test| test.name == name)
}

/// Advice on the mode or interface with the fastest reads, compared with the mode of the setup.
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

/// Minimum gain at which another mode is advised.
const WORTH: f64 = 1.02;

#[cfg(test)]
mod tests {
    use super::filesystem::make_jffs2;
    use super::*;
    use crate::fs_compare::{self, FREE};
    use crate::life::Endurance;

    /// UBI reserves PEBs for all bad blocks of the chip, because all of them may be in the partition. A sample gets a
    /// share of this reserve.
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

    /// The ECC of the setup is also evaluated. The advice on scrubbing uses the same ECC and states the wear.
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

    /// Worn-out blocks are not reported as good for years that a chip happens to survive, and without ECC no data lasts.
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

    /// UBI reserves PEBs for the bad blocks of the whole chip on each compared size, and the times of a sample include this.
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
