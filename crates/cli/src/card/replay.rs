//! `floatgate run --trace`.

use super::recorded::Recording;
use crate::common::{self, Failure, Outcome};
use crate::fs::{SHARE, with_progress};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use floatgate_config::{Library, Override};
use floatgate_host::open::open_input;
use floatgate_lab::card::replay::{Replay, ThinkTime, prepare, replay};
use floatgate_lab::card::serve::NewCard;
use floatgate_lab::card::shipped::{CardRequests, ShippedTrace, find};
use floatgate_lab::card::trace::{Reader, Request, TraceError};
use floatgate_lab::card::{CardOptions, LoadedCard, load};
use floatgate_lab::progress::Progress;
use floatgate_lab::report::ResultKind;
use floatgate_lab::study::options::State;
use floatgate_lab::{Error, plot};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate run kingston-class-10 --trace trace.csv
  floatgate run samsung-evo-16g --trace trace.csv --state full --think-time none
  floatgate run kingston-class-10 --trace ext4-postmark
  floatgate run a1-32g --trace trace.csv --plot addresses.svg --json
  floatgate run a1-32g --trace trace.csv --after before.csv
  floatgate run a1-32g --trace ext4-create --beside f2fs-create,nilfs2-create,vfat-create --plot create.svg

Replays the requests of a trace on a card, one at a time. The formats of traces are: CSV as written by `serve --record` (time_us,kind,sector,sectors,latency_us; \
kinds read, write, discard and flush); fio's iolog, versions 2 and 3; the text of blkparse; the binary output of `blkparse -d`; and the CSV of MSR Cambridge. The \
traces have no contents, so only the times count.

Included traces are named by filesystem (ext4, f2fs, nilfs2, vfat) and workload (create, postmark, dbench, kernel-build, journald, sqlite, swap, camera, log2ram, \
docker), such as vfat-create; ext4-postmark-95-aged is a trace of a full filesystem. A file of the same name takes precedence. The replay of an included trace \
starts on a card after mkfs and mounting; its partition begins at the same place as that of `run`.")]
pub(crate) struct Args {
    /// A card's name (see `floatgate list parts`), or the path of a TOML file
    card: PathBuf,

    /// Trace: a file, whose format is detected; - for stdin; or an included trace, such as ext4-postmark
    trace: PathBuf,

    /// Trace to replay first, without think times and statistics, such as FS-WORKLOAD.before.csv of `run --record`
    #[arg(long, value_name = "TRACE")]
    after: Option<PathBuf>,

    /// Time between a completion and the next request: as in the trace, or none
    #[arg(long, value_enum, default_value_t = ThinkTimeArg::Keep)]
    think_time: ThinkTimeArg,

    /// State of the card before the replay
    #[arg(long, value_enum, default_value_t = State::Empty)]
    state: State,

    /// Override any field of the card: --set card.open_aus=4 --set card.bus=sdr104
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Draw the addresses of reads and writes over time into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<OutputFile>,

    /// Further traces, each replayed on a new card and drawn below the first one in the picture
    #[arg(long, value_name = "TRACE,...", value_delimiter = ',', requires = "plot")]
    beside: Vec<PathBuf>,

    /// Write a trace of the replay: CSV, fio's iolog if the name ends in .iolog, blkparse's text if it ends in .blkparse
    #[arg(long, value_name = "FILE")]
    record: Option<OutputFile>,

    /// Seed of the card's bad blocks and errors
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ThinkTimeArg {
    Keep,
    None,
}

pub(crate) fn run(args: &Args) -> Outcome {
    common::check_plot(args.plot.as_deref())?;
    let card = load(&Library::built_in(), &args.card, &Override::parse_all(&args.set)?)?;
    let recording = args.record.as_deref().map(Recording::new).transpose()?;
    let report = played(args, &args.trace, &card, recording.as_ref())?;
    if let Some(recording) = recording {
        recording.finish()?;
    }
    if let Some(path) = &args.plot {
        common::write_picture(path, &picture(args, &card, &report)?)?;
    }
    let origin = ResultKind::CardReplay.of(&args.card).with(&args.set).seeded(args.seed);
    args.format.finish_report(&origin, &report)
}

fn played(
    args: &Args,
    trace: &Path,
    card: &LoadedCard,
    recording: Option<&Recording>,
) -> Result<Replay, Failure> {
    let Played { before, trace: requests } = opened(args, trace, card)?;
    let mut new = NewCard::new(card, CardOptions { seed: args.seed, stores: false })?;
    let state = args.state.into();
    with_progress(SHARE, |progress| {
        progress(Progress::Steps(new.steps(state)));
        new.reach(state, args.seed, &|steps| progress(Progress::Done(steps)))
    })?;
    let mut at_work = new.meet(None);
    prepare(&mut at_work, before, recording.map(Recording::observer))
        .map_err(|error| error.within(format!("before {}", trace.display())))?;
    let think_time = match args.think_time {
        ThinkTimeArg::Keep => ThinkTime::Keep,
        ThinkTimeArg::None => ThinkTime::None,
    };
    replay(card, at_work, requests, think_time)
        .map_err(|error: Error| error.within(trace.display().to_string()).into())
}

type Requests = Box<dyn Iterator<Item = Result<Request, TraceError>>>;

/// A trace, and the requests that prepare the card for it.
struct Played {
    before: Requests,
    trace: Requests,
}

fn opened(args: &Args, trace: &Path, card: &LoadedCard) -> Result<Played, Failure> {
    let of_list = |list: Vec<Request>| Box::new(list.into_iter().map(Ok)) as Requests;
    let (own, trace) = match shipped(trace) {
        Some(shipped) => {
            let CardRequests { before, workload } = shipped.requests(card.spec.au_bytes)?;
            (before, of_list(workload))
        }
        None => (Vec::new(), read(trace)?),
    };
    let before = match &args.after {
        Some(after) => Box::new(read(after)?.chain(own.into_iter().map(Ok))) as Requests,
        None => of_list(own),
    };
    Ok(Played { before, trace })
}

fn read(path: &Path) -> Result<Requests, Failure> {
    let name = path.display();
    let failed = |error| {
        Failure::new(format!("{name}: {error}"), "name a file that can be read, or - for the standard input")
    };
    let unknown = "name a CSV of `serve --record`, fio's iolog, blkparse's text, blktrace's binary, or MSR Cambridge's CSV";
    let from: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(BufReader::new(std::io::stdin())),
        _ => Box::new(BufReader::new(open_input(path).map_err(failed)?)),
    };
    let reader = Reader::new(from).map_err(|error| Failure::new(format!("{name}: {error}"), unknown))?;
    Ok(Box::new(reader))
}

/// Trace of this name that the project ships; `None` if a file has the name.
fn shipped(path: &Path) -> Option<ShippedTrace> {
    if path.exists() { None } else { path.to_str().and_then(find) }
}

fn picture(args: &Args, card: &LoadedCard, report: &Replay) -> Result<String, Failure> {
    let name = |trace: &Path| trace.file_name().map_or(trace, Path::new).display().to_string();
    let others = args.beside.iter().map(|trace| played(args, trace, card, None));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let title = format!("{} on {}", name(&args.trace), card.name());
    let names = std::iter::once(&args.trace).chain(&args.beside).map(|trace| name(trace));
    let requests = std::iter::once(report).chain(&others).map(|report| &report.addresses);
    let panels: Vec<_> = match others.len() {
        0 => vec![(String::new(), &report.addresses)],
        _ => names.zip(requests).collect(),
    };
    Ok(plot::addresses(&panels, card.spec.au_bytes, (&title, &report.summary())))
}
