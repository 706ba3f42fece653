//! `floatgate speed`.

mod sweep;

use crate::common::{self, Grounded, Outcome, PartitionArg, SetupArgs};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use floatgate_lab::report::ResultKind;
use floatgate_lab::speed::SpeedOptions;
use floatgate_lab::speed_run;
use floatgate_sim::machine::FilesystemKind;
use std::process::ExitCode;

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
    let tests = args.tests();
    let run = speed_run::measure_with_advice(
        &named.library,
        &named.named.setup,
        &named.named.sets,
        named.options,
        &tests,
    )?;
    common::draw(args.plot.as_deref(), &run)?;
    let basis =
        named.basis(|config| speed_run::times_of_a_block(&named.library, config, named.options, &tests))?;
    args.format.print_report(&named.origin(ResultKind::Speed), &Grounded { answer: run, basis })?;
    Ok(ExitCode::SUCCESS)
}
