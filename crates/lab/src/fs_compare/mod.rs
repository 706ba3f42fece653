//! `floatgate fs`: comparison of filesystems and the bare flash, with the measurements of `Flash file systems: JFFS2
//! and UBIFS compared` (Simmonds, 2009): writing, reading, mounting, space, and the cost of synchronising.
//!
//! Each test starts on a new chip, and each case of it on a copy of the empty filesystem. Programs use the filesystem
//! through [`floatgate_sim::vfs`], with page cache, write-back, and CPU time for compression, checksums and copies.

mod advice;
mod by_size;
pub(crate) mod contents;
pub(crate) mod mounted;
pub mod own;
mod raw;

pub use advice::Choice;
pub(crate) use advice::{FREE, SPACE_SHARE};
pub(crate) use by_size::comparisons;
pub use by_size::{BySize, SizeRow, by_size};

use crate::interval::Interval;
use crate::progress::{Listener, Progress};
use crate::speed::breakdown_ns;
use crate::uncertainty::Uncertainty;
use crate::{speed_run, stored};
use floatgate_config::{Config, Library};
use floatgate_device::host::HostProfile;
use floatgate_mtd::{Breakdown, Counted, Instant, Mtd as _, Nanos, Phase};
use floatgate_sim::cpu::Cpu;
use floatgate_sim::error::Error;
use floatgate_sim::machine::Filesystem;
use floatgate_sim::page_cache::PageCacheProfile;
use floatgate_sim::rig::{self, Link, Rig, RigOptions};
use floatgate_sim::vfs::Moment;
use rayon::prelude::*;
use serde::{Deserialize, Deserializer, Serialize};

/// Subject of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The bare flash as a block device (mtdblock).
    Mtdblock,
    /// The bare flash as a character device (mtdchar), erased before each write.
    Mtdchar,
    /// JFFS2 on the flash.
    Jffs2,
    /// UBIFS on UBI.
    Ubifs,
    /// The user's own filesystem: a program with this path.
    Own(&'static str),
}

impl Serialize for Subject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A stored name without a known subject is the name of a program.
impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = stored::text(deserializer)?;
        Ok(Self::ALL.into_iter().find(|subject| subject.name() == name).unwrap_or(Self::Own(name)))
    }
}

impl Subject {
    /// All built-in subjects.
    pub const ALL: [Self; 4] = [Self::Mtdblock, Self::Mtdchar, Self::Jffs2, Self::Ubifs];

    /// Name in reports; for a program, the name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own(path) => path.rsplit('/').next().unwrap_or(path),
            Self::Mtdblock => "mtdblock",
            Self::Mtdchar => "mtdchar",
            Self::Jffs2 => "jffs2",
            Self::Ubifs => "ubifs",
        }
    }

    /// Name in sentences.
    pub fn title(self) -> &'static str {
        match self {
            Self::Jffs2 => "JFFS2",
            Self::Ubifs => "UBIFS",
            other => other.name(),
        }
    }

    /// Subjects with a name. `raw` is the bare flash in both ways. A name with a slash is the path of a program, which
    /// stays in memory until the process ends.
    pub fn named(name: &str) -> Option<Vec<Self>> {
        match name {
            path if path.contains('/') => Some(vec![Self::Own(String::leak(path.to_owned()))]),
            "raw" => Some(vec![Self::Mtdblock, Self::Mtdchar]),
            _ => Self::ALL.into_iter().find(|subject| subject.name() == name).map(|subject| vec![subject]),
        }
    }

    const fn is_raw(self) -> bool {
        matches!(self, Self::Mtdblock | Self::Mtdchar)
    }
}

/// Test of `floatgate fs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Writes random bytes and zeros in pieces of 4 KiB, 64 KiB and 1 MiB.
    Write,
    /// Reads a file twice.
    Read,
    /// Mounts an empty filesystem, one with few large files, and one with many small files.
    Mount,
    /// Measures free space, and the space that a file takes if it is written in small pieces or at once.
    Space,
    /// Compares ways to synchronise data to flash.
    Sync,
    /// Repeats the write and read tests with 2 % of the chip's eraseblocks bad from the factory.
    BadBlocks,
    /// Measures two filesystems that share the flash: on two volumes of one UBI, or in two partitions.
    Volumes,
}

impl Test {
    /// All tests.
    pub const ALL: [Self; 7] =
        [Self::Write, Self::Read, Self::Mount, Self::Space, Self::Sync, Self::BadBlocks, Self::Volumes];

    /// Name of the test in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Mount => "mount",
            Self::Space => "space",
            Self::Sync => "sync",
            Self::BadBlocks => "bad-blocks",
            Self::Volumes => "volumes",
        }
    }
}

/// Options of a comparison.
#[derive(Clone, Debug)]
pub struct Options {
    /// Subjects to compare.
    pub subjects: Vec<Subject>,
    /// Tests to run on each subject.
    pub tests: Vec<Test>,
    /// Size of the file that is written and read, bytes.
    pub bytes: u64,
    /// Share of the free space that files fill in the mount tests, percent.
    pub fill_percent: u32,
    /// File tree to unpack and mount in addition.
    pub tree: Option<Tree>,
    /// Names of the wanted rows; a name includes all rows whose names continue after a colon. Other rows need not be
    /// measured. Empty for all rows.
    pub only: Vec<String>,
}

/// A tree of text files of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Number of files.
    pub files: u64,
    /// Size of each file, KiB.
    pub kib: u64,
}

impl Tree {
    /// Tree described by a name such as `1865 text files of 43 KiB`.
    fn named(name: &str) -> Option<Self> {
        let (files, kib) = name.strip_suffix(" KiB")?.split_once(" text files of ")?;
        let positive = |number: &str| number.parse().ok().filter(|&number: &u64| number > 0);
        let tree = Self { files: positive(files)?, kib: positive(kib)? };
        tree.bytes().map(|_| tree)
    }

    fn name(self) -> String {
        format!("{} text files of {} KiB", self.files, self.kib)
    }

    /// Size of all files, bytes; `None` if it overflows.
    fn bytes(self) -> Option<u64> {
        self.kib.checked_mul(1024)?.checked_mul(self.files)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            subjects: Subject::ALL.to_vec(),
            tests: Test::ALL.to_vec(),
            bytes: 10 << 20,
            fill_percent: 80,
            tree: None,
            only: Vec::new(),
        }
    }
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        let is_of = |only: &String| {
            name.strip_prefix(only.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        self.only.is_empty() || self.only.iter().any(is_of)
    }
}

/// Flash operations of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlashUse {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes programmed.
    pub programmed_bytes: u64,
    /// Eraseblocks erased.
    pub erases: u64,
    /// Highest erase count of an eraseblock since the chip was new.
    pub most_erased: u32,
    /// Mean erase count of the eraseblocks.
    pub mean_erased: f64,
}

/// Figure of one subject in one case of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Subject that was measured.
    pub subject: Subject,
    /// Test to which the case belongs.
    pub test: Test,
    /// Name of the case, such as `write random 64 KiB`.
    pub name: String,
    /// Measured value, in `unit`.
    pub value: f64,
    /// Unit of the value: MiB/s, s, KiB.
    #[serde(deserialize_with = "stored::text")]
    pub unit: stored::Text,
    /// 80 % interval of a speed or a time.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Bytes of file data.
    pub bytes: u64,
    /// Virtual time, ns; 0 if the figure is not a time.
    pub ns: u64,
    /// Virtual time until the write calls returned, before `fsync`, ns.
    pub returned_ns: Option<u64>,
    /// Flash operations.
    pub flash: FlashUse,
    /// Ratio of programmed bytes to bytes of file data.
    pub write_amplification: Option<f64>,
    /// Name of the phase that took most of the time.
    #[serde(default, deserialize_with = "stored::optional_text")]
    pub bottleneck: Option<stored::Text>,
    /// Times by phase, ns.
    #[serde(serialize_with = "breakdown_ns", deserialize_with = "stored::breakdown")]
    pub breakdown_ns: Breakdown,
}

impl Row {
    /// 80 % interval of a time or a speed; `None` for a size.
    fn interval_with(&self, uncertainty: &Uncertainty) -> Option<Interval> {
        let is_raw = matches!(self.subject, Subject::Mtdblock | Subject::Mtdchar);
        let total = self.breakdown_ns.total().as_ns() as f64;
        if total == 0.0 || self.ns == 0 {
            return None;
        }
        let is_read = self.flash.programmed_bytes == 0;
        let (least, most) = uncertainty.range(is_read, !is_raw, &self.breakdown_ns);
        let is_time = self.unit == "s";
        let (min, max) = if is_time { (least / total, most / total) } else { (total / most, total / least) };
        Some(Interval { min: self.value * min, max: self.value * max })
    }

    /// Adds CPU time to this row, whose unit is seconds.
    fn and_cpu(mut self, time: Nanos) -> Self {
        self.value += time.as_secs_f64();
        self.ns += time.as_ns();
        self.breakdown_ns.add(Phase::Cpu, time);
        self.bottleneck = (self.ns > 0).then(|| self.breakdown_ns.largest().0.name());
        self
    }

    /// Adds the times of another row, which was measured on its own flash.
    fn and_then(mut self, next: Self) -> Self {
        self.value += next.value;
        self.ns += next.ns;
        self.flash.read_bytes += next.flash.read_bytes;
        self.flash.programmed_bytes += next.flash.programmed_bytes;
        self.flash.erases += next.flash.erases;
        self.flash.most_erased = self.flash.most_erased.max(next.flash.most_erased);
        self.flash.mean_erased = self.flash.mean_erased.midpoint(next.flash.mean_erased);
        self.breakdown_ns += next.breakdown_ns;
        self.bottleneck = (self.ns > 0).then(|| self.breakdown_ns.largest().0.name());
        self
    }
}

/// A test that is impossible on this flash.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// Subject of the test.
    pub subject: Subject,
    /// Test that is impossible.
    pub test: Test,
    /// Reason, in words.
    pub why: String,
}

/// Result of `floatgate fs`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FsComparison {
    /// Title of the setup.
    pub title: String,
    /// Name of the chip.
    pub chip: String,
    /// Size of the partition, bytes.
    pub flash_bytes: u64,
    /// Size of an eraseblock, bytes.
    pub eraseblock_bytes: u32,
    /// Link between driver and chip.
    pub link: Link,
    /// False if the setup does not state the speed of the CPU; CPU time is then missing.
    pub cpu_is_known: bool,
    /// Figures of all subjects and tests.
    pub rows: Vec<Row>,
    /// Tests that are impossible.
    pub refused: Vec<Refused>,
    /// Conclusions, one sentence each.
    pub advice: Vec<String>,
}

/// State that all tests of a setup share.
struct Bench<'a> {
    library: &'a Library,
    config: &'a Config,
    rig: RigOptions,
    options: &'a Options,
    cpu: Cpu,
    page_cache: PageCacheProfile,
    filesystem: Filesystem,
}

impl Bench<'_> {
    fn wire(&self) -> Result<Rig, Error> {
        rig::wire(self.library, self.config, self.rig)
    }

    /// Creates a new chip that counts its operations.
    fn chip(&self) -> Result<(Counted<Box<dyn rig::Device>>, Instant), Error> {
        let Rig { mut device, .. } = self.wire()?;
        let now = device.host().now();
        Ok((Counted::new(device), now))
    }

    /// Creates one half of a new chip, in whole eraseblocks.
    fn half_chip(&self, second: bool) -> Result<(Counted<Box<dyn rig::Device>>, Instant), Error> {
        let Rig { mut device, .. } = self.wire()?;
        let now = device.host().now();
        let geometry = device.geometry();
        let half = u64::from(geometry.blocks() / 2) * u64::from(geometry.erase_bytes);
        let offset = if second { half } else { 0 };
        let half = floatgate_mtd::Partition::new(device, offset, half)
            .map_err(|why| Error::request(why.to_string(), floatgate_sim::machine::other_flash()))?;
        Ok((Counted::new(Box::new(half)), now))
    }

    fn rows(&self, subject: Subject, test: Test) -> Result<Vec<Row>, Error> {
        match (subject.is_raw(), test) {
            (false, Test::BadBlocks) => {
                let facts = self.config.chip()?.facts();
                let all = facts.nand.as_ref().map_or(0, |nand| nand.blocks);
                let share = u32::try_from(all / BAD_SHARE).unwrap_or(u32::MAX);
                let bad_blocks = share.clamp(1, facts.max_bad_blocks_per_lun().max(1));
                let rig = RigOptions { bad_blocks, ..self.rig };
                Bench { rig, ..*self }.of_filesystem(subject, test)
            }
            (false, _) => self.of_filesystem(subject, test),
            (true, Test::Write) => self.raw_writes(subject),
            (true, Test::Read) => self.raw_reads(subject),
            (true, _) => Ok(Vec::new()),
        }
    }
}

/// Divisor for the bad eraseblocks in [`Test::BadBlocks`]: one in 50 is bad, which is 2 %.
const BAD_SHARE: u64 = 50;

/// Compares filesystems on a setup. `progress` receives the tests of each subject.
///
/// # Errors
/// The setup is wrong. Tests that are impossible on this flash are no errors: the result lists them.
pub fn compare(
    library: &Library,
    config: &Config,
    rig: RigOptions,
    options: &Options,
    progress: Listener<'_>,
) -> Result<FsComparison, Error> {
    let host: HostProfile = config.extract_or_default("host")?;
    let bench = Bench {
        library,
        config,
        rig,
        options,
        cpu: Cpu::of(&host),
        page_cache: config.extract_or_default("page_cache")?,
        filesystem: Filesystem::of_setup(config)?,
    };
    let wired = bench.wire()?;
    let is_nand = config.chip()?.kind().is_nand();
    let cases: Vec<(Subject, Test)> = options
        .tests
        .iter()
        .filter(|&&test| is_nand || test != Test::BadBlocks)
        .flat_map(|&test| options.subjects.iter().map(move |&subject| (subject, test)))
        .collect();
    progress(Progress::Steps(cases.len() as u64));
    let outcome = |&(subject, test): &(Subject, Test)| {
        let rows = bench.rows(subject, test);
        progress(Progress::Done(1));
        (subject, test, rows)
    };
    let outcomes: Vec<_> = cases.par_iter().map(outcome).collect();
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for (subject, test, outcome) in outcomes {
        match outcome {
            // If the CPU speed is unknown, copies from memory take no time, so their speeds are dropped.
            Ok(of_test) => rows.extend(of_test.into_iter().filter(|row| row.unit != "MiB/s" || row.ns > 0)),
            Err(Error::Config(error)) => return Err(Error::Config(error)),
            Err(error) => refused.push(Refused { subject, test, why: error.to_string() }),
        }
    }
    let uncertainty = Uncertainty::of(library, config)?;
    rows.iter_mut().for_each(|row| row.interval = row.interval_with(&uncertainty));
    let geometry = wired.device.geometry();
    let mut compared = FsComparison {
        title: speed_run::title(config),
        chip: format!("{} {}", wired.maker, wired.chip),
        flash_bytes: geometry.size_bytes,
        eraseblock_bytes: geometry.erase_bytes,
        link: wired.device.link(),
        cpu_is_known: bench.cpu.is_known(),
        rows,
        refused,
        advice: Vec::new(),
    };
    compared.advice = advice::conclusions(&compared);
    Ok(compared)
}

/// Figure of a setup such as `ubifs write random 64 KiB`, with the rows whose names continue after a colon.
///
/// # Errors
/// The row does not exist; the setup is wrong; the test is impossible.
pub fn figures(library: &Library, config: &Config, rig: RigOptions, what: &str) -> Result<Vec<Row>, Error> {
    let unknown = || {
        Error::request(
            format!("`floatgate fs` has no row {what:?}"),
            "name one as the table does, `ubifs write random 64 KiB`, or a tree, `ubifs mount 100 text files of 16 KiB`",
        )
    };
    let (subject, name) = what.split_once(' ').ok_or_else(unknown)?;
    let subjects = Subject::named(subject).ok_or_else(unknown)?;
    let is_of = |test: &Test| {
        name.starts_with(test.name())
            || *test == Test::Space && SPACE_ROWS.iter().any(|row| name.starts_with(row))
    };
    let tests: Vec<Test> = Test::ALL.into_iter().filter(is_of).collect();
    let tree = name.strip_prefix("mount ").and_then(Tree::named);
    let options = Options { subjects, tests, tree, only: vec![name.to_owned()], ..Options::default() };
    let compared = compare(library, config, rig, &options, &|_| ())?;
    if let Some(refused) = compared.refused.first() {
        return Err(Error::request(format!("{what}: {}", refused.why), "choose another chip or partition"));
    }
    if compared.rows.is_empty() { Err(unknown()) } else { Ok(compared.rows) }
}

/// First words of the names of rows of [`Test::Space`].
const SPACE_ROWS: [&str; 2] = ["free", "file"];

/// Sizes of the pieces in which files are written, with their names.
const PIECES: [(u64, &str); 3] = [(4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")];

/// A test between two moments, from which rows are made.
struct Timed<'a> {
    subject: Subject,
    test: Test,
    name: &'a str,
    bytes: u64,
    from: Moment,
    to: Moment,
    returned: Option<Instant>,
    erased: &'a [u32],
}

impl Timed<'_> {
    /// Row with the speed in MiB/s.
    fn speed(self) -> Row {
        let mut row = self.seconds();
        row.value = row.bytes as f64 / f64::from(1 << 20) / (row.ns as f64 / 1e9).max(1e-9);
        row.unit = "MiB/s";
        row
    }

    /// Row with the time in seconds.
    fn seconds(self) -> Row {
        let elapsed = self.to.now.since(self.from.now);
        let operations = self.to.operations - self.from.operations;
        let spent = self.to.spent - self.from.spent;
        let erasures: u64 = self.erased.iter().copied().map(u64::from).sum();
        let writes = self.bytes > 0 && operations.programmed_bytes > 0;
        Row {
            subject: self.subject,
            test: self.test,
            name: self.name.to_owned(),
            value: elapsed.as_secs_f64(),
            unit: "s",
            interval: None,
            bytes: self.bytes,
            ns: elapsed.as_ns(),
            returned_ns: self.returned.map(|returned| returned.since(self.from.now).as_ns()),
            flash: FlashUse {
                read_bytes: operations.read_bytes,
                programmed_bytes: operations.programmed_bytes,
                erases: operations.erases,
                most_erased: self.erased.iter().copied().max().unwrap_or(0),
                mean_erased: erasures as f64 / self.erased.len().max(1) as f64,
            },
            write_amplification: writes.then(|| operations.programmed_bytes as f64 / self.bytes as f64),
            bottleneck: (spent.total().as_ns() > 0).then(|| spent.largest().0.name()),
            breakdown_ns: spent,
        }
    }
}

/// Row with a figure in KiB.
fn size(subject: Subject, test: Test, name: &str, bytes: u64, kib: f64) -> Row {
    Row {
        subject,
        test,
        name: name.to_owned(),
        value: kib,
        unit: "KiB",
        interval: None,
        bytes,
        ns: 0,
        returned_ns: None,
        flash: FlashUse::default(),
        write_amplification: None,
        bottleneck: None,
        breakdown_ns: Breakdown::default(),
    }
}
