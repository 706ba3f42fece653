//! `floatgate fs`.

use crate::common::{self, Failure, Named, Outcome, PartitionArg, SetupArgs};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::terminal::progress_bar;
use floatgate_lab::fs_compare::{self, Options, Subject, Test};
use floatgate_lab::progress::{Listener, Progress};
use floatgate_lab::report::ResultKind;
use floatgate_sim::partition;
use std::os::unix::fs::PermissionsExt as _;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate fs arm926-nand01gw3b
  floatgate fs imx6-mx30lf2g18ac --fs jffs2,ubifs --test write,read
  floatgate fs am62a-w35n01jw --set partition.size=16MiB --test mount,space
  floatgate fs arm926-nand01gw3b --partition 3MiB,4MiB,8MiB,16MiB,32MiB
  floatgate fs imx6-mx30lf2g18ac --set partition.size=16MiB --set filesystem.fastmap=true --test mount
  floatgate fs stm32-n25q128a --fs jffs2,raw --bytes 64KiB --test write --json
  floatgate fs arm926-nand01gw3b --bytes 1MiB --test write,read --plot speed.svg

A filesystem of your own is a program, named by a path with a slash: `--fs ./littlefs,ubifs`. The program reads commands from its standard input, and \
requests flash operations on its standard output. `examples/own_filesystem.rs` is an example, and docs/filesystems.md describes the messages.

The tests access files through Linux's page cache; `page_cache` of the setup sets its size and limits. The CPU time of compression, checksums and copies is \
computed from `host.instruction_ps` and `host.cache_miss_ns`.

With several partition sizes the output is one table: the space for files, the time until a filesystem full of files of 8 KiB can be used, and the kernel memory \
that it needs. The output also gives the size from which UBIFS is advised.")]
pub(crate) struct Args {
    #[command(flatten)]
    setup: SetupArgs,

    /// Filesystems to compare: `jffs2`, `ubifs`; `mtdblock` and `mtdchar` (the bare flash), or `raw` for both of
    /// these; or the path of a program of your own, with a slash
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "raw,jffs2,ubifs", value_parser = subjects)]
    fs: Vec<Subjects>,

    /// Tests to run: `write`, `read`, `mount`, `space`, `sync`, `bad-blocks`, `volumes` (two filesystems share the flash) [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = test)]
    test: Vec<Test>,

    /// Size of the file that is written and read, at most half of the free space [default: 10MiB]
    #[arg(long, value_name = "BYTES", value_parser = some_bytes)]
    bytes: Option<u64>,

    /// Percent of the free space that files occupy in the mount test
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = fill)]
    fill: u32,

    /// Compare filesystems on partitions of these sizes: space for files, time until a full filesystem can be used, kernel memory. With --test or
    /// --bytes: size of the partition on which the tests run
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = some_bytes, alias = "size")]
    partition: Vec<u64>,

    /// Draw the time breakdown of each row as bars into an SVG file; for several partitions, draw the figures over the partition size
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<OutputFile>,

    #[command(flatten)]
    format: ReportFormat,
}

/// Subjects that one name selects.
#[derive(Clone, Debug)]
struct Subjects(Vec<Subject>);

fn subjects(name: &str) -> Result<Subjects, String> {
    let found = Subject::named(name).map(Subjects);
    found.ok_or_else(|| {
        "there are `jffs2`, `ubifs`, `mtdblock`, `mtdchar`, `raw` for the last two, and programs by paths with a slash".to_owned()
    })
}

/// Percentage of the free space: `80` or `80%`.
fn fill(text: &str) -> Result<u32, &'static str> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok();
    percent.filter(|percent| (1..=95).contains(percent)).ok_or("a whole number from 1 to 95")
}

/// Size in bytes with an optional unit, at least one byte.
fn some_bytes(text: &str) -> Result<u64, String> {
    match floatgate_mtd::size::parse(text).map_err(|error| error.to_string())? {
        0 => Err("one byte is the least".to_owned()),
        bytes => Ok(bytes),
    }
}

fn test(name: &str) -> Result<Test, String> {
    let found = Test::ALL.into_iter().find(|test| test.name() == name);
    let names: Vec<String> = Test::ALL.iter().map(|test| format!("`{}`", test.name())).collect();
    found.ok_or_else(|| format!("there are {}", names.join(", ")))
}

/// Size of the file that the tests write and read, bytes.
const FILE_BYTES: u64 = 10 << 20;

impl Args {
    /// True if the tests run; false if the figures are given by the size of the partition.
    const fn has_tests(&self) -> bool {
        !self.test.is_empty() || self.bytes.is_some()
    }

    /// Size of the partition on which the tests run.
    fn tested_partition(&self) -> Result<PartitionArg, Failure> {
        match self.partition[..] {
            _ if !self.has_tests() => Ok(PartitionArg::default()),
            [] => Ok(PartitionArg::default()),
            [bytes] => Ok(PartitionArg::of(bytes)),
            [..] => Err(Failure::new(
                "--test and --bytes take one --partition",
                "name one size, or leave them out to compare partitions of several sizes",
            )),
        }
    }

    fn options(&self) -> Options {
        let mut subjects: Vec<Subject> = self.fs.iter().flat_map(|subjects| subjects.0.clone()).collect();
        let mut tests = if self.test.is_empty() { Test::ALL.to_vec() } else { self.test.clone() };
        subjects.sort();
        subjects.dedup();
        tests.sort();
        tests.dedup();
        Options {
            subjects,
            tests,
            bytes: self.bytes.unwrap_or(FILE_BYTES),
            fill_percent: self.fill,
            ..Options::default()
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    common::check_plot(args.plot.as_deref())?;
    let setup = args.setup.sized(args.tested_partition()?)?;
    let named = setup.open()?;
    let options = args.options();
    for subject in &options.subjects {
        if let Subject::Own(path) = subject {
            check_program(path)?;
        }
    }
    if !args.partition.is_empty() && !args.has_tests() {
        return by_size(args, &named, &options.subjects);
    }
    let config = named.config()?;
    let compared = with_progress(TESTS, |progress| {
        fs_compare::compare(&named.library, &config, named.options, &options, progress)
    })?;
    if compared.rows.is_empty()
        && let Some(refused) = compared.refused.first()
    {
        let message = format!("{}: {}", refused.subject.name(), refused.why);
        return Err(Failure::new(message, "choose another chip, partition or filesystem"));
    }
    common::draw(args.plot.as_deref(), &compared)?;
    args.format.print_report(&named.origin(ResultKind::Fs), &compared)?;
    Ok(ExitCode::SUCCESS)
}

/// Template of a progress bar that shows only the percentage of the steps.
pub(crate) const SHARE: &str = "{wide_bar} {percent} %, {elapsed}, {eta} left";

/// Template of a progress bar that counts tests.
const TESTS: &str = "{wide_bar} {pos} of {len} tests, {elapsed}, {eta} left";

/// Runs `work` with a progress bar.
pub(crate) fn with_progress<T>(template: &str, work: impl FnOnce(Listener<'_>) -> T) -> T {
    let bar = progress_bar(template);
    // A bar with 0 steps would show 100 %.
    bar.set_length(1);
    let result = work(&|news| match news {
        Progress::Steps(steps) => bar.set_length(steps),
        Progress::Done(steps) => bar.inc(steps),
    });
    bar.finish_and_clear();
    result
}

/// Comparison for several sizes of the partition.
fn by_size(args: &Args, named: &Named, subjects: &[Subject]) -> Outcome {
    let base = named.config()?;
    let at = |bytes: u64| {
        let mut sets = named.named.sets.clone();
        sets.push(partition::of_size(&base, bytes)?);
        Ok(named.library.resolve(&named.named.setup, &sets)?)
    };
    let compared = with_progress(TESTS, |progress| {
        let how = (named.options, subjects, args.fill);
        fs_compare::by_size(&named.library, &at, how, &args.partition, progress)
    })?;
    if let Some(path) = &args.plot {
        common::write_picture(path, &compared.plot())?;
    }
    args.format.print_report(&named.origin(ResultKind::FsPartition), &compared)?;
    Ok(ExitCode::SUCCESS)
}

/// Checks that a program can be started.
pub(crate) fn check_program(path: &'static str) -> Result<(), Failure> {
    let failed = |why: String| {
        Failure::new(format!("{path}: {why}"), "name a program that may be executed: `--fs ./PROGRAM`")
    };
    let metadata = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
        return Ok(());
    }
    Err(failed("not a program".to_owned()))
}
