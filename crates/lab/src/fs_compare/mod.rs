//! `floatgate fs`: filesystems and the bare flash side by side, as
//! `Flash file systems: JFFS2 and UBIFS compared` (Simmonds, 2009) measures them. The figures are of writing,
//! reading, mounting, space, and what synchronising costs.
//!
//! Each test begins on a chip of its own, and each case of it on a copy of the empty filesystem. Programs see the filesystem through
//! [`floatgate_sim::vfs`]: page cache, write-back, and the CPU's time for compression, checksums and copies.

mod advice;
mod by_size;
mod mounted;
pub mod own;
mod raw;

pub use advice::Choice;
pub(crate) use advice::{FREE, SPACE_SHARE};
pub(crate) use by_size::comparisons;
pub use by_size::{BySize, SizeRow, by_size};
pub(crate) use mounted::{file_bytes, read_file, write_file};

use crate::progress::{Listener, Progress};
use crate::speed_run;
use crate::uncertainty::{Interval, Uncertainty};
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
use serde::Serialize;

/// A thing that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The bare flash as a block device.
    Mtdblock,
    /// The bare flash, erased before it is written.
    Mtdchar,
    /// JFFS2.
    Jffs2,
    /// UBIFS on UBI.
    Ubifs,
    /// A filesystem that a program is, by the program's path.
    Own(&'static str),
}

impl Serialize for Subject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Subject {
    /// All that are built in.
    pub const ALL: [Self; 4] = [Self::Mtdblock, Self::Mtdchar, Self::Jffs2, Self::Ubifs];

    /// Name in reports; of a program its file's.
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

    /// The subjects of a name; `raw` is the bare flash both ways, and what has a slash is the path of a program, which is kept in memory for good.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Random bytes and zeros are written in pieces of 4 KiB, 64 KiB and 1 MiB.
    Write,
    /// A file is read, and read again.
    Read,
    /// Mounting: empty, with few large files, with many small ones.
    Mount,
    /// Free space, and what a file takes that is written in small pieces or in one.
    Space,
    /// Ways to bring data to flash.
    Sync,
    /// The same with 2 % of the chip's eraseblocks bad from the factory.
    BadBlocks,
    /// Two filesystems that share the flash: on two volumes of one UBI, or in two partitions.
    Volumes,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Write, Self::Read, Self::Mount, Self::Space, Self::Sync, Self::BadBlocks, Self::Volumes];

    /// Name in options.
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

/// A comparison to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Things to compare.
    pub subjects: Vec<Subject>,
    /// Made with each.
    pub tests: Vec<Test>,
    /// Bytes of the file that is written and read.
    pub bytes: u64,
    /// Percent of the free space that files take when mounting is measured.
    pub fill_percent: u32,
    /// A tree that is unpacked before it is mounted, too.
    pub tree: Option<Tree>,
    /// Names of the rows that are wanted, each with those whose names go on after a colon; others need not be measured. All rows when empty.
    pub only: Vec<String>,
}

/// A tree of text files of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Number of files.
    pub files: u64,
    /// Size of each.
    pub kib: u64,
}

impl Tree {
    /// The tree of a name such as `1865 text files of 43 KiB`.
    fn named(name: &str) -> Option<Self> {
        let (files, kib) = name.strip_suffix(" KiB")?.split_once(" text files of ")?;
        let positive = |number: &str| number.parse().ok().filter(|&number: &u64| number > 0);
        let tree = Self { files: positive(files)?, kib: positive(kib)? };
        tree.bytes().map(|_| tree)
    }

    fn name(self) -> String {
        format!("{} text files of {} KiB", self.files, self.kib)
    }

    /// Bytes of all files, unless they are too many to count.
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

/// Operations of the flash in a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FlashUse {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes programmed.
    pub programmed_bytes: u64,
    /// Eraseblocks erased.
    pub erases: u64,
    /// Most erasures of one eraseblock since the chip was new.
    pub most_erased: u32,
    /// Mean of them.
    pub mean_erased: f64,
}

/// Figure of a subject in one case of a test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The thing compared.
    pub subject: Subject,
    /// Test that the case belongs to.
    pub test: Test,
    /// Name of the case: `write random 64 KiB`.
    pub name: String,
    /// The measured value, in `unit`.
    pub value: f64,
    /// Its unit: MiB/s, s, KiB.
    pub unit: &'static str,
    /// The 80 % interval of a speed or a time.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Bytes of files.
    pub bytes: u64,
    /// Virtual time, ns; 0 where a figure is no time.
    pub ns: u64,
    /// Virtual time until the calls that write returned, before `fsync`, ns.
    pub returned_ns: Option<u64>,
    /// Flash operations.
    pub flash: FlashUse,
    /// Bytes programmed for each byte of a file.
    pub write_amplification: Option<f64>,
    /// Phase that took most of the time.
    pub bottleneck: Option<&'static str>,
    /// Times by phase, ns.
    #[serde(serialize_with = "phases")]
    pub breakdown_ns: Breakdown,
}

impl Row {
    /// The time of this row, in seconds, and then of the CPU.
    fn and_cpu(mut self, time: Nanos) -> Self {
        self.value += time.as_secs_f64();
        self.ns += time.as_ns();
        self.breakdown_ns.add(Phase::Cpu, time);
        self.bottleneck = (self.ns > 0).then(|| self.breakdown_ns.largest().0.name());
        self
    }

    /// The times of this row and then of another one, on flash of its own.
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

fn phases<S: serde::Serializer>(breakdown: &Breakdown, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(breakdown.iter().map(|(phase, time)| (phase.name(), time.as_ns())))
}

/// A subject that cannot be on this flash.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    /// The thing compared.
    pub subject: Subject,
    /// Test that was not possible.
    pub test: Test,
    /// Reason, in words.
    pub why: String,
}

/// Everything `floatgate fs` shows.
#[derive(Clone, Debug, Serialize)]
pub struct FsComparison {
    /// Title of the setup.
    pub title: String,
    /// Name of the chip.
    pub chip: String,
    /// Bytes of the partition.
    pub flash_bytes: u64,
    /// Bytes of an eraseblock.
    pub eraseblock_bytes: u32,
    /// Link between driver and chip.
    pub link: Link,
    /// False when the setup does not say how fast the CPU is: its time is missing then.
    pub cpu_is_known: bool,
    /// Figures of all subjects and tests.
    pub rows: Vec<Row>,
    /// Tests that could not be made.
    pub refused: Vec<Refused>,
    /// Conclusions, a sentence each.
    pub advice: Vec<String>,
}

/// The common state of all tests of a setup.
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
        Ok(rig::wire(self.library, self.config, self.rig)?)
    }

    /// A new chip, its operations counted.
    fn chip(&self) -> Result<(Counted<Box<dyn rig::Device>>, Instant), Error> {
        let Rig { mut device, .. } = self.wire()?;
        let now = device.host().now();
        Ok((Counted::new(device), now))
    }

    /// One half of a new chip, in whole eraseblocks.
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

/// Divisor for the bad eraseblocks of the chip in [`Test::BadBlocks`]: one in 50 is bad, 2 %.
const BAD_SHARE: u64 = 50;

/// Compares filesystems on a setup; `progress` hears of the tests of each subject.
///
/// # Errors
/// The setup is wrong. The result lists what cannot be on this flash.
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
            // Where the CPU's time is not known, copies from memory take none.
            Ok(of_test) => rows.extend(of_test.into_iter().filter(|row| row.unit != "MiB/s" || row.ns > 0)),
            Err(Error::Config(error)) => return Err(Error::Config(error)),
            Err(error) => refused.push(Refused { subject, test, why: error.to_string() }),
        }
    }
    let uncertainty = Uncertainty::of(library, config)?;
    rows.iter_mut().for_each(|row| row.interval = uncertainty.interval_of_row(row));
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

/// One figure of a setup, `ubifs write random 64 KiB`, and those whose names go on after a colon.
///
/// # Errors
/// There is no such row; the setup is wrong; the test cannot be made.
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

/// Beginnings of the names of the rows of [`Test::Space`].
const SPACE_ROWS: [&str; 2] = ["free", "file"];

/// Sizes of the pieces in which files are written.
const PIECES: [(u64, &str); 3] = [(4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")];

/// Random bytes.
pub(crate) const RANDOM: &str = "random";

/// Data that are written.
const DATA: [&str; 2] = [RANDOM, "zeros"];

/// A MiB of one kind, from which files are written over and over.
pub(crate) fn data(name: &str) -> Vec<u8> {
    match name {
        RANDOM => crate::speed::pattern(MIB),
        "text" => text(),
        _ => vec![0; MIB],
    }
}

const MIB: usize = 1 << 20;

/// Words in a random order: deflate makes some 40 % of it.
fn text() -> Vec<u8> {
    const WORDS: [&str; 32] = [
        "the", "flash", "of", "and", "page", "a", "in", "to", "block", "erase", "is", "that", "wear", "for",
        "with", "device", "on", "as", "journal", "node", "be", "by", "from", "index", "at", "this", "mount",
        "are", "or", "data", "which", "cache",
    ];
    let mut out = Vec::with_capacity(MIB + 16);
    for byte in crate::speed::pattern(MIB / 3) {
        out.extend_from_slice(WORDS[usize::from(byte % 32)].as_bytes());
        // Numbers and names, which repeat less.
        out.extend_from_slice(&[b' ', b'a' + byte % 26, b'0' + byte / 26, b' ']);
        if out.len() >= MIB {
            break;
        }
    }
    out.truncate(MIB);
    out
}

/// The row of a test that took from one moment to another.
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
    /// Speed in MiB/s.
    fn speed(self) -> Row {
        let mut row = self.seconds();
        row.value = row.bytes as f64 / f64::from(1 << 20) / (row.ns as f64 / 1e9).max(1e-9);
        row.unit = "MiB/s";
        row
    }

    /// Time in seconds.
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

/// A figure in KiB.
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
