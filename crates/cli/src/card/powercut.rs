//! `floatgate powercut`.

use crate::common::{Failure, Outcome, grouped};
use crate::output::ReportFormat;
use crate::terminal;
use floatgate_config::{Library, Override};
use floatgate_lab::card::powercut::{CutId, CutOptions, CutReport, cut, replay};
use floatgate_lab::card::{LoadedCard, load};
use floatgate_lab::powercut::on_threads;
use floatgate_lab::report::ResultKind;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate powercut samsung-evo-16g --cuts 100
  floatgate powercut a1-32g --cuts 400 --faults
  floatgate powercut kingston-class-10 --mode exhaustive --seed 7
  floatgate powercut emmc-16g --cuts 400 --replay 0-42

Runs requests of all kinds and sizes on a card. The power is cut at an operation of its NAND or at a moment, and again while the card recovers. Then all flushed \
data must exist, each other sector must have its old or its new content, the map must be ready within the bound of the card, and the card's own accounting must be \
correct. A failure prints an id, and --replay ID repeats that run alone.

The tested card has sixteen allocation units of sixteen pages, with the policies and times of the named card. It is therefore worn, levelled and cleaned within \
hundreds of requests; --whole tests the card at its full size. The cards loses-flushed-8g, tears-neighbours-8g and dies-at-cut-8g lose data as cheap cards do ([card.loss]).

For a million cuts, use --cuts 1000000 --timing; docs/performance.md gives the time.")]
pub(crate) struct Args {
    /// A card's name (see `floatgate list parts`), or the path of a TOML file
    card: PathBuf,

    /// Override any field of the card: --set card.power.hold_up_us=0
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Operations at which the power is cut
    #[arg(long, value_enum, default_value_t = ModeArg::Random)]
    mode: ModeArg,

    /// Older spelling of --mode exhaustive
    #[arg(long, hide = true, conflicts_with_all = ["cuts", "mode"])]
    exhaustive: bool,

    /// Number of cuts during requests, in whole runs of four [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    cuts: Option<u64>,

    /// Seed of cards and requests
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Maximum number of cuts in each recovery
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    recovery_cuts: u32,

    /// Let erases of blocks and programs of pages fail
    #[arg(long)]
    faults: bool,

    /// Test the card at its full size, not a small card of the same kind; much slower
    #[arg(long)]
    whole: bool,

    /// Repeat only the run with this id; the other options must be the same
    #[arg(long, value_name = "ID")]
    replay: Option<CutId>,

    /// Number of threads; the result does not depend on it [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Print the run time on stderr
    #[arg(long)]
    timing: bool,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ModeArg {
    /// The number of cuts that --cuts sets, during requests
    Random,
    /// Every operation of a short run
    Exhaustive,
}

impl Args {
    const fn is_exhaustive(&self) -> bool {
        self.exhaustive || matches!(self.mode, ModeArg::Exhaustive)
    }

    fn cuts(&self) -> u64 {
        self.cuts.unwrap_or(1000)
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.cuts.is_some() && args.is_exhaustive() {
        return Err(Failure::new(
            "--cuts does not go with --mode exhaustive",
            "leave --cuts out, because exhaustive cuts at every operation, or use --mode random",
        ));
    }
    let card = load(&Library::built_in(), &args.card, &Override::parse_all(&args.set)?)?;
    #[expect(clippy::disallowed_methods, reason = "the edge: --timing tells how long it took")]
    let started = Instant::now();
    let threads = args.threads.map_or(0, usize::from);
    let report = on_threads(threads, || cuts(args, &card))
        .map_err(|error| Failure::new(error, "ask for fewer threads"))??;
    if args.timing {
        let seconds = started.elapsed().as_secs_f64();
        terminal::print_note(&format!("{} cuts in {seconds:.1} s", grouped(report.cuts)));
    }
    // The report has one row in CSV.
    let origin = ResultKind::CardPowercut.of(&args.card).with(&args.set).seeded(args.seed);
    args.format.print_report(&origin, &report)?;
    Ok(ExitCode::from(u8::from(!report.failures.is_empty())))
}

fn cuts(args: &Args, card: &LoadedCard) -> Result<CutReport, floatgate_lab::Error> {
    let options = CutOptions {
        cuts: args.cuts(),
        is_exhaustive: args.is_exhaustive(),
        seed: args.seed,
        recovery_cuts: args.recovery_cuts,
        has_faults: args.faults,
        is_whole: args.whole,
    };
    if let Some(id) = args.replay {
        return replay(card, &options, id);
    }
    let bar = progress_bar(args);
    let report = cut(card, &options, &|done| bar.inc(done));
    bar.finish_and_clear();
    report
}

/// Progress bar on stderr with the number of cuts; hidden if stderr is no terminal.
fn progress_bar(args: &Args) -> ProgressBar {
    let (bar, template) = if args.is_exhaustive() {
        (ProgressBar::new_spinner(), "{spinner} {pos} cuts, {per_sec}")
    } else {
        (ProgressBar::new(args.cuts()), "{wide_bar} {pos} of {len} cuts, {per_sec}, {eta} left")
    };
    let style = ProgressStyle::with_template(template);
    terminal::unless_quiet(bar).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
