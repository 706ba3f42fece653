//! `floatgate speed`.

mod sweep;

use crate::common::{self, Failure, Grounded, Outcome, PartitionArg, SetupArgs};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::terminal;
use floatgate_lab::plot::{self, BarRow};
use floatgate_lab::report::ResultKind;
use floatgate_lab::show::number::three;
use floatgate_lab::speed::{Corrections, Latency, Measured, SpeedOptions};
use floatgate_lab::speed_run::{self, Advice, SpeedRun, explain};
use floatgate_mtd::{Nanos, Phase};
use floatgate_sim::machine::FilesystemKind;
use serde::Serialize;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate speed am62a-w35n01jw
  floatgate speed am62a-w35n01jw --set bus.mode=1-1-1
  floatgate speed am62a-w35n01jw --set driver.continuous=true --pages 1,2,4,8,16,32,64
  floatgate speed am62a-w35n01jw --sweep bus.mode=1-1-1,1-1-8,1-8-8,8D-8D-8D --plot modes.svg
  floatgate speed am62a-w35n01jw --sweep bus.clock_hz=10e6..50e6:10e6 --sort page-read
  floatgate speed imx6-mx30lf2g18ac --fs jffs2 --partition 16MiB
  floatgate speed memory-bus-s29gl128p --sweep chip=@parallel-nor --keep-going --csv
  floatgate speed rww-mx25uw51245g -b0 -k4096 -c1 -d
  floatgate speed imx6-mx30lf2g18ac --fs ubifs --set filesystem.compression=none
  floatgate speed w25n01jw
  floatgate speed samsung-evo-16g
  floatgate speed my-board.toml --json

For a part, the best-fitting board of the catalogue is used; the first line of the output names it.

The chip is simulated, so the write tests always run, with or without -d.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) setup: SetupArgs,

    #[command(flatten)]
    partition: PartitionArg,

    /// First eraseblock to test
    #[arg(short = 'b', long = "peb", value_name = "BLOCK", default_value_t = 0)]
    pub(crate) first_block: u32,

    /// Number of eraseblocks to test [default: 10, or all of a smaller chip]
    #[arg(short = 'c', long = "count", value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,

    /// Number of eraseblocks to skip between two tested eraseblocks
    #[arg(short = 's', long = "skip", value_name = "BLOCKS", default_value_t = 0)]
    pub(crate) skip: u32,

    /// Add a read test for each of these numbers of pages per read
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pages: Vec<u32>,

    /// Add read tests with 2 to 16, 32 and 64 pages per read, as flash_speed -C does
    #[arg(short = 'C', long = "continuous")]
    pub(crate) continuous: bool,

    /// No effect, accepted for compatibility with flash_speed: destructive tests always run, on a simulated chip
    #[arg(short = 'd', long = "destructive")]
    pub(crate) destructive: bool,

    /// Read this block while the first tested block is written, and print the latency of the read
    #[arg(short = 'k', long = "sec-peb", value_name = "BLOCK")]
    pub(crate) secondary_block: Option<u32>,

    /// Test a new filesystem of this kind instead of the bare flash. The tests write and read files in requests
    /// of 4 KiB, 64 KiB and 1 MiB, attach and mount it, and create, list and remove 100 files of 2 KiB.
    /// Option --count sets the size of the files that are written and read. The table `filesystem` of the setup has the mount options
    #[arg(long, value_name = "KIND")]
    pub(crate) fs: Option<FilesystemKind>,

    /// Run the tests for every combination of values, one row for each combination (repeatable): --sweep bus.mode=1-1-1,1-4-4, a range
    /// --sweep bus.clock_hz=10e6..80e6:10e6, or a kind of chips --sweep chip=@spi-nand
    #[arg(long, value_name = "KEY=V1,V2,...")]
    pub(crate) sweep: Vec<String>,

    /// Continue a sweep after an impossible combination; its row then states the reason, and the exit status is 1
    #[arg(long, requires = "sweep")]
    pub(crate) keep_going: bool,

    /// Sort the rows of a sweep by this test, the fastest first
    #[arg(long, value_name = "TEST", requires = "sweep", value_parser = sweep::test_names())]
    pub(crate) sort: Option<String>,

    /// Draw the time breakdown of each test as bars into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<OutputFile>,

    #[command(flatten)]
    pub(crate) format: ReportFormat,
}

impl Args {
    pub(crate) fn tests(&self) -> SpeedOptions {
        SpeedOptions {
            first_block: self.first_block,
            blocks: self.count,
            skip: self.skip,
            pages: self.pages.clone(),
            continuous: self.continuous,
            secondary_block: self.secondary_block,
            only: Vec::new(),
            filesystem: self.fs,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    common::check_plot(args.plot.as_deref())?;
    let setup = args.setup.sized(args.partition)?;
    let named = setup.open()?;
    if !args.sweep.is_empty() {
        return sweep::run(args, &setup, &named);
    }
    let run = speed_run::measure_with_advice(
        &named.library,
        &named.named.setup,
        &named.named.sets,
        named.options,
        &args.tests(),
    )?;
    if let Some(path) = &args.plot {
        draw(path, &run)?;
    }
    let tests = args.tests();
    let basis =
        named.basis(|config| speed_run::times_of_a_block(&named.library, config, named.options, &tests))?;
    let origin = named.origin(ResultKind::Speed);
    if args.format.csv {
        return args.format.finish_rows(&origin, &lines(&run), String::new);
    }
    let answer = Grounded { answer: &run, basis };
    args.format
        .finish(&origin, &answer, "tests", || format!("{}{}\n{}", head(&run), body(&run), answer.basis))
}

/// A line of the CSV.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Test(&'a Measured),
    Latency {
        name: &'static str,
        #[serde(flatten)]
        latency: &'a Latency,
    },
}

/// Lines of the CSV: one for each test, and one for the latency of -k.
fn lines(run: &SpeedRun) -> Vec<Line<'_>> {
    let latency =
        run.report.latency.iter().map(|latency| Line::Latency { name: "read while write", latency });
    run.report.tests.iter().map(Line::Test).chain(latency).collect()
}

fn head(run: &SpeedRun) -> String {
    let r = &run.report;
    let mut text = format!(
        "{}\n{}: pages of {} B, eraseblocks of {} KiB, {} {}\nreads  {}\nwrites {}\n",
        run.title,
        run.chip,
        r.page_bytes,
        r.eraseblock_bytes / 1024,
        r.good_blocks,
        if r.filesystem.is_some() { "used" } else { "tested" },
        run.link.read,
        run.link.write
    );
    if let Some(fs) = &r.filesystem {
        text += &format!(
            "{} on {} of {} B, {} MiB free; files of {} KiB{}\n",
            match fs.kind {
                FilesystemKind::Ubifs => "UBIFS",
                FilesystemKind::Jffs2 => "JFFS2",
            },
            common::count(
                fs.lebs as usize,
                match fs.kind {
                    FilesystemKind::Ubifs => "LEB",
                    FilesystemKind::Jffs2 => "eraseblock",
                }
            ),
            fs.leb_bytes,
            fs.free_bytes >> 20,
            fs.file_bytes >> 10,
            if fs.cpu_is_known {
                ""
            } else {
                "; the CPU's time is missing, because the setup does not give the speed of the CPU"
            }
        );
    }
    for note in run.link.not_given.iter().chain(&run.link.notes) {
        text += note;
        text.push('\n');
    }
    text
}

/// Table of the tests, each with its breakdown and advice below it.
fn body(run: &SpeedRun) -> String {
    let mut text = String::new();
    let mut folded = 0;
    for (at, (test, advice)) in run.report.tests.iter().zip(&run.advice).enumerate() {
        if folded > 0 {
            folded -= 1;
            continue;
        }
        let equal = equal_erases(&run.report.tests[at..]);
        folded = equal.len();
        text += &figure(test, equal);
        text += &interval(test);
        if let Some(mj) = test.mj_per_mib {
            text += &format!("  energy of the chip: {} mJ/MiB\n", three(mj));
        }
        text += &breakdown(test);
        text += &corrections(&test.corrected, test.calls);
        text += &bottleneck(advice);
    }
    let bars = run.report.tests.iter().map(|test| &test.breakdown_ns);
    text += &format!("\n{}\n", plot::legend_text(bars, terminal::width().min(110), terminal::colour()));
    if let Some(latency) = &run.report.latency {
        text += &latency_line(latency);
    }
    text
}

/// Tests of erases with several blocks per call that are as fast as the first test, if this is an erase.
fn equal_erases(tests: &[Measured]) -> &[Measured] {
    let [first, others @ ..] = tests else { return &[] };
    let is_equal = |test: &&Measured| {
        first.name == "erase" && test.name.ends_with("x erase") && test.printed_kib_s == first.printed_kib_s
    };
    let equal = others.iter().take_while(is_equal).count();
    others.get(..equal).unwrap_or_default()
}

/// Text of the 80 % interval, in which 8 of 10 boards are expected.
fn interval(test: &Measured) -> String {
    let Some(interval) = test.interval else { return String::new() };
    match test.bytes {
        0 => format!("  80 % interval: {:.2} to {:.2} ms\n", interval.min, interval.max),
        _ => {
            // flash_speed counts whole milliseconds, so the figure of a short test may be up to twice the exact one.
            let is_inside = interval.holds(test.printed_kib_s as f64);
            let of = if is_inside { "" } else { " of the exact figure" };
            format!("  80 % interval{of}: {:.0} to {:.0} KiB/s\n", interval.min, interval.max)
        }
    }
}

fn figure(test: &Measured, equal: &[Measured]) -> String {
    if test.bytes == 0 {
        let each = match test.calls {
            1 => String::new(),
            calls => format!("   ({:.2} us for each of {})", test.us_per_call(), common::grouped(calls)),
        };
        return format!("\n{} takes {}{each}\n", test.name, Nanos::from_ns(test.ns));
    }
    let why_zero =
        if is_too_short(test) { "; under 1 ms flash_speed prints 0: test more blocks, -c" } else { "" };
    let others = match equal {
        [] => String::new(),
        [only] => format!("; {} is as fast", only.name),
        [first, .., last] => {
            format!("; {} to {} are as fast", first.name.trim_end_matches(" erase"), last.name)
        }
    };
    format!(
        "\n{} speed is {} KiB/s   (exactly {:.1}; {:.2} us each{why_zero}{others})\n",
        test.name,
        test.printed_kib_s,
        test.exact_kib_s,
        test.us_per_call()
    )
}

/// True if `flash_speed` prints 0, because its clock counts milliseconds.
fn is_too_short(test: &Measured) -> bool {
    test.ns < 1_000_000
}

/// Figure as `flash_speed` prints it, or the exact figure if the test is too short for `flash_speed`.
pub(crate) fn kib_s(test: &Measured) -> String {
    if test.bytes == 0 {
        return format!("{:.2} ms", test.ns as f64 / 1e6);
    }
    if is_too_short(test) { format!("~{:.0}", test.exact_kib_s) } else { test.printed_kib_s.to_string() }
}

fn breakdown(test: &Measured) -> String {
    let bar = plot::shares_text(&test.breakdown_ns, terminal::width().min(110) - 2, terminal::colour());
    bar.lines().fold(String::new(), |text, line| text + "  " + line + "\n")
}

/// Text of the ECC corrections in a test or trace; empty if no bit was wrong.
pub(crate) fn corrections(found: &Corrections, calls: u64) -> String {
    if *found == Corrections::default() {
        return String::new();
    }
    format!(
        "  {} corrected, {}, {} of {}\n",
        common::count(found.bitflips as usize, "bit"),
        match found.retries {
            1 => "1 read retry".to_owned(),
            n => format!("{n} read retries"),
        },
        common::count(found.scrub_requests as usize, "scrub request"),
        common::count(calls as usize, "call")
    )
}

fn bottleneck(advice: &Advice) -> String {
    let phase = Phase::ALL.into_iter().find(|p| p.name() == advice.bottleneck).unwrap_or(Phase::Cpu);
    let next = match &advice.next {
        Some(n) if n.kib_s == 0 => format!("next: --set {} is x{:.2} as fast", n.set, n.factor),
        Some(n) => format!("next: --set {} gives {} KiB/s, x{:.2}", n.set, n.kib_s, n.factor),
        None => "no single change of bus or driver gains 1 %".to_owned(),
    };
    format!("  bottleneck: {}, {:.1} %; {next}\n", explain(phase), advice.share_percent)
}

fn latency_line(latency: &Latency) -> String {
    format!(
        "\nread while write took {}ms, read ended after {}ms   (exactly {:.3} and {:.3} ms; wrote block {}, read block {})\n",
        latency.took_ns / 1_000_000,
        latency.read_ended_ns / 1_000_000,
        latency.took_ns as f64 / 1e6,
        latency.read_ended_ns as f64 / 1e6,
        latency.write_block,
        latency.read_block
    )
}

/// Bar of a test.
pub(crate) fn bar(test: &Measured) -> BarRow {
    BarRow {
        label: test.name.clone(),
        note: if test.bytes == 0 {
            format!("{} in all", kib_s(test))
        } else {
            format!("{} KiB/s", kib_s(test))
        },
        breakdown: test.breakdown_ns,
        calls: test.calls,
    }
}

fn draw(path: &std::path::Path, run: &SpeedRun) -> Result<(), Failure> {
    let rows: Vec<BarRow> = run.report.tests.iter().map(bar).collect();
    let subtitle = format!("{}: {}", run.chip, run.link.read);
    let scale = plot::Scale::fitting(&rows);
    common::write_picture(path, &plot::bars(&rows, "test", (&run.title, &subtitle), scale))
}
