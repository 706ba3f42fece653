//! `floatgate fs`.

use crate::common::{self, Failure, Named, Outcome, PartitionArg, SetupArgs};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::table::Table;
use crate::terminal::progress_bar;
use floatgate_lab::fs_compare::{self, BySize, FsComparison, Options, Row, Subject, Test};
use floatgate_lab::plot::{self, BarRow};
use floatgate_lab::progress::{Listener, Progress};
use floatgate_lab::report::ResultKind;
use floatgate_lab::show::number::three;
use floatgate_mtd::Nanos;
use floatgate_sim::partition;
use floatgate_sim::rig::Link;
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
    if let Some(path) = &args.plot {
        draw(path, &compared)?;
    }
    let origin = named.origin(ResultKind::Fs);
    if args.format.csv {
        args.format.finish_rows(&origin, &compared.rows, String::new)?;
    } else {
        args.format
            .finish(&origin, &compared, "rows", || head(&compared) + &body(&compared) + &tail(&compared))?;
    }
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
    args.format.finish(&named.origin(ResultKind::FsPartition), &compared, "rows", || of_sizes(&compared))
}

fn of_sizes(compared: &BySize) -> String {
    let mut text = format!(
        "{}\n{}: eraseblocks of {} KiB\n",
        compared.title,
        compared.chip,
        compared.eraseblock_bytes / 1024
    );
    text += &links(&compared.link, compared.cpu_is_known);
    let mut table = Table::new([
        "partition",
        "",
        "free after mkfs",
        "mounted full",
        "all files usable",
        "kernel memory",
        "",
    ])
    .numbers(2..6);
    for row in &compared.rows {
        let kib = |value: Option<f64>| value.map_or_else(String::new, |kib| format!("{kib:.0} KiB"));
        let seconds = |value: Option<f64>| value.map_or_else(String::new, |s| format!("{} s", three(s)));
        let why_not = row.why_not.as_deref().unwrap_or("");
        table.row([
            common::size(row.partition_bytes),
            row.subject.name().to_owned(),
            kib(row.free_kib),
            seconds(row.mounted_s),
            seconds(row.usable_s),
            kib(row.memory_kib),
            if row.is_advised { "advised" } else { why_not }.to_owned(),
        ]);
    }
    text += &format!(
        "\n{table}\n\nmounted full: files of 8 KiB of random bytes take {} % of the free space\n",
        compared.fill_percent
    );
    for sentence in compared.other_advice() {
        text += &format!("\n- {sentence}");
    }
    text
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

fn head(compared: &FsComparison) -> String {
    let mut text = format!(
        "{}\n{}: {} KiB in eraseblocks of {} KiB\n",
        compared.title,
        compared.chip,
        compared.flash_bytes / 1024,
        compared.eraseblock_bytes / 1024
    );
    text += &links(&compared.link, compared.cpu_is_known);
    let mut programs: Vec<&str> = compared
        .rows
        .iter()
        .filter(|row| matches!(row.subject, Subject::Own(_)))
        .map(|row| row.subject.name())
        .collect();
    programs.dedup();
    for name in programs {
        text += &format!(
            "the time of {name} itself on the CPU is not counted, only that of system calls, copies and the driver\n"
        );
    }
    text
}

/// Operations with which the driver reads and writes, with a remark if the CPU's time is unknown.
fn links(link: &Link, cpu_is_known: bool) -> String {
    let mut text = format!("reads  {}\nwrites {}\n", link.read, link.write);
    if !cpu_is_known {
        text += "the CPU's time for compression, checksums and copies is missing: the host has no instruction_ps\n";
    }
    text
}

/// Text of a figure with three significant digits; KiB are rounded to whole numbers.
fn figure(row: &Row) -> String {
    match row.unit {
        "KiB" => format!("{:.0} KiB", row.value),
        unit => format!("{} {unit}", three(row.value)),
    }
}

fn body(compared: &FsComparison) -> String {
    let mut text = String::new();
    for test in Test::ALL {
        let rows: Vec<&Row> = compared.rows.iter().filter(|row| row.test == test).collect();
        let mut subjects: Vec<Subject> = rows.iter().map(|row| row.subject).collect();
        subjects.sort();
        subjects.dedup();
        let names = names(&rows, &subjects);
        if names.is_empty() {
            continue;
        }
        let header = std::iter::once("").chain(subjects.iter().map(|subject| subject.name()));
        let mut table = Table::new(header).numbers(1..);
        for name in names {
            let cell = |subject: &Subject| {
                let found = rows.iter().find(|row| row.subject == *subject && row.name == name);
                found.map_or_else(String::new, |row| figure(row))
            };
            table.row(std::iter::once(name.to_owned()).chain(subjects.iter().map(cell)));
        }
        text += &format!("\n{table}\n");
        text += &intervals(&rows, &subjects);
        text += &details(&rows);
    }
    text
}

/// Widest 80 % interval of the figures of each subject.
fn intervals(rows: &[&Row], subjects: &[Subject]) -> String {
    let widest = |subject: &Subject| {
        let own = rows.iter().filter(|row| row.subject == *subject && row.value > 0.0);
        let ends = own.filter_map(|row| Some((row.interval?.min / row.value, row.interval?.max / row.value)));
        let (min, max) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some(format!("{} -{:.0} to +{:.0} %", subject.name(), (1.0 - min) * 100.0, (max - 1.0) * 100.0))
    };
    let all: Vec<String> = subjects.iter().filter_map(widest).collect();
    if all.is_empty() { String::new() } else { format!("80 % intervals, at most: {}\n", all.join(", ")) }
}

/// Names of all rows, in the order of the subject with the most rows.
fn names<'a>(rows: &[&'a Row], subjects: &[Subject]) -> Vec<&'a str> {
    let of = |subject: Subject| rows.iter().filter(move |row| row.subject == subject);
    let most = subjects.iter().copied().max_by_key(|&subject| of(subject).count());
    let first = most.into_iter().flat_map(of);
    let mut names: Vec<&str> = Vec::new();
    for row in first.chain(rows) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    names
}

/// Text about the flash operations of the rows that write.
fn details(rows: &[&Row]) -> String {
    let writing: Vec<&&Row> = rows.iter().filter(|row| row.write_amplification.is_some()).collect();
    if writing.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(["", "", "before fsync", "programmed", "per byte", "erased", "most of one", "bottleneck"])
            .numbers(2..7);
    for row in writing {
        let returned = row.returned_ns.map_or_else(String::new, |ns| Nanos::from_ns(ns).to_string());
        table.row([
            row.name.clone(),
            row.subject.name().to_owned(),
            returned,
            format!("{} KiB", row.flash.programmed_bytes / 1024),
            three(row.write_amplification.unwrap_or(0.0)),
            row.flash.erases.to_string(),
            row.flash.most_erased.to_string(),
            row.bottleneck.unwrap_or("").to_owned(),
        ]);
    }
    format!("\n{table}\n")
}

fn tail(compared: &FsComparison) -> String {
    let mut text = String::new();
    for refused in &compared.refused {
        text +=
            &format!("\nnot measured: {} {}: {}", refused.subject.name(), refused.test.name(), refused.why);
    }
    for sentence in compared.other_advice() {
        text += &format!("\n- {sentence}");
    }
    text
}

fn draw(path: &std::path::Path, compared: &FsComparison) -> Result<(), Failure> {
    let timed = compared.rows.iter().filter(|row| row.ns > 0);
    let rows: Vec<BarRow> = timed
        .map(|row| BarRow {
            label: format!("{} {}", row.subject.name(), row.name),
            note: if row.unit == "s" { String::new() } else { figure(row) },
            breakdown: row.breakdown_ns,
            calls: 1,
        })
        .collect();
    let scale = plot::Scale::fitting(&rows);
    common::write_picture(path, &plot::bars(&rows, "row", (&compared.title, &compared.chip), scale))
}
