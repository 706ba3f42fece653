//! `floatgate card speed`.

use crate::common::{Failure, Outcome, grouped, size};
use crate::fs::{SHARE, with_progress};
use crate::image::sizes::bytes;
use crate::output::{ReportFormat, bug};
use crate::table::Table;
use floatgate_config::{Library, Override};
use floatgate_lab::card::load;
use floatgate_lab::card::speed::{CardSpeed, CardSpeedOptions, CardTest, REQUESTS_MAX, measure};
use floatgate_lab::report::{Origin, ResultKind};
use floatgate_mtd::Nanos;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate card speed kingston-class-10
  floatgate card speed kingston-class-10 --table open-aus --set card.open_aus=4
  floatgate card speed samsung-evo-16g --sizes 512,4096,65536 --requests 2000
  floatgate card speed a1-32g --set 'card.slc.blocks=0' --json
  floatgate card speed my-card.toml --table alignment --csv
  floatgate card speed samsung-evo-16g --table power --set card.power.limit_ua=70100

Sequential requests go over at most 64 MiB, or twice the SLC cache; what follows a write in the buffer is flushed before the clock stops. Writes go on, each time with as many \
requests as before, until two windows in a row differ by less than 10 %, have two allocation units or more where they are written in order, and no cache or free block is left to fill; the last window counts. Where that takes \
more than 256 MiB, `steady` is no: the speed lasts no longer than the cache or the free blocks. The used card has its first \
half written, the full card all of it, both then partly overwritten at random. Allocation units are written in turn, a request each, in order \
and out of order; where the time jumps, one more than can be open is written. The alignment table is that of flashbench -a. Late are requests that take \
longer than the specification allows a card; dropped are those that the host gives up: --set card.host.write_timeout_us=10e6 is Linux.")]
pub(crate) struct Args {
    /// A card's name (see `floatgate parts`), or the path of a TOML file
    card: PathBuf,

    /// Override any field of the card: --set card.open_aus=4 --set card.bus=sdr104
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Sizes of requests, multiples of 512 bytes
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_values_t = SIZES, value_parser = bytes)]
    sizes: Vec<u64>,

    /// Most requests of a window of a test
    #[arg(long, value_name = "N", default_value_t = REQUESTS, value_parser = clap::value_parser!(u32).range(1..=i64::from(REQUESTS_MAX)))]
    requests: u32,

    /// Seed of the card's bad blocks and errors, and of the places of random requests
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Print this table only; with --csv, requests unless another is named
    #[arg(long, value_enum)]
    table: Option<Which>,

    #[command(flatten)]
    format: ReportFormat,
}

/// Sizes of requests, as they are measured unless others are named.
const SIZES: [u64; 4] = [4 << 10, 32 << 10, 128 << 10, 1 << 20];
/// Most requests of a window, unless another number is named.
const REQUESTS: u32 = 500;

/// A table of the report.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Sequential and random reads and writes
    Requests,
    /// Allocation units written in turn
    OpenAus,
    /// Reads before, on and behind borders
    Alignment,
    /// Energy of the requests, and those that took too long
    Power,
}

impl Args {
    /// The tests of a card that is named where a setup could be.
    pub(crate) fn of_card(card: PathBuf, set: Vec<String>, seed: u64, format: ReportFormat) -> Self {
        Self { card, set, sizes: SIZES.to_vec(), requests: REQUESTS, seed, table: None, format }
    }

    fn measure(&self) -> Result<CardSpeed, Failure> {
        let card = load(&Library::built_in(), &self.card, &Override::parse_all(&self.set)?)?;
        let options =
            CardSpeedOptions { requests: self.requests, sizes: self.sizes.clone(), seed: self.seed };
        Ok(with_progress(SHARE, |progress| measure(&card, &options, progress))?)
    }

    fn origin(&self) -> Origin {
        ResultKind::CardSpeed.of(&self.card).with(&self.set).seeded(self.seed)
    }
}

/// The result of the usual tests of a card, in JSON.
pub(crate) fn measured(card: &Path, set: &[String], seed: u64) -> Result<String, Failure> {
    let args = Args::of_card(card.to_owned(), set.to_vec(), seed, ReportFormat::default());
    serde_json::to_string(&args.origin().around(&args.measure()?)).map_err(bug)
}

pub(crate) fn run(args: &Args) -> Outcome {
    let report = args.measure()?;
    let rows = match args.table {
        None | Some(Which::Requests | Which::Power) => "tests",
        Some(Which::OpenAus) => "open_au_rows",
        Some(Which::Alignment) => "alignment_rows",
    };
    args.format.finish(&args.origin(), &report, rows, || text(&report, args.table))
}

fn text(report: &CardSpeed, only: Option<Which>) -> String {
    let tables = [
        (Which::Requests, "requests", requests(report)),
        (Which::OpenAus, "allocation units written in turn, on the full card", open_aus(report)),
        (
            Which::Alignment,
            "reads of 16 KiB before, on and behind borders, on the full card",
            alignment(report),
        ),
        (Which::Power, "energy, and requests that took too long", power(report)),
    ];
    let shown = tables.iter().filter(|(which, ..)| only.is_none_or(|only| only == *which));
    shown.fold(head(report), |text, (_, title, table)| format!("{text}\n{title}\n{table}\n"))
}

fn head(report: &CardSpeed) -> String {
    let CardSpeed { card, title, capacity_bytes, au_bytes, open_aus, open_aus_random, page_bytes, .. } =
        report;
    let claim = report
        .claimed_bytes
        .map_or_else(String::new, |claimed| format!("a fake: claims {} MB\n", grouped(claimed / 1_000_000)));
    format!(
        "{card}: {title}\n{} MB, AU {}, pages of {}; open AUs: {open_aus}, {open_aus_random} of them in any order\n{claim}\
         ready {} after a loss of power when full; supply: {}\n",
        grouped(capacity_bytes / 1_000_000),
        size(*au_bytes),
        size(*page_bytes),
        time(report.power_on_us),
        report.limit_mw.map_or_else(|| "no limit".to_owned(), |limit| format!("at most {limit:.1} mW"))
    )
}

pub(super) fn time(us: f64) -> String {
    Nanos::from_ns((us * 1e3).round() as u64).to_string()
}

fn requests(report: &CardSpeed) -> Table {
    let header =
        ["card", "request", "size", "MB/s", "IOPS", "median", "99 %", "longest", "WA", "erases", "steady"];
    let mut table = Table::new(header).numbers(2..);
    for test in &report.tests {
        let CardTest { operation, access, request_bytes, mb_s, iops, latency, .. } = test;
        let amplification = match *operation {
            "write" => format!("{:.2}", test.write_amplification),
            _ => String::new(),
        };
        table.row([
            test.state.name().to_owned(),
            format!("{access} {operation}"),
            size(*request_bytes),
            format!("{mb_s:.2}"),
            format!("{iops:.0}"),
            time(latency.p50_us),
            time(latency.p99_us),
            time(latency.max_us),
            amplification,
            test.erases.to_string(),
            if test.is_steady { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table
}

fn open_aus(report: &CardSpeed) -> Table {
    let header = ["AUs", "order", "size", "MB/s", "mean", "longest", "erases"];
    let mut table = Table::new(header).numbers(2..);
    for row in &report.open_au_rows {
        table.row([
            row.aus.to_string(),
            row.order.to_owned(),
            size(row.request_bytes),
            format!("{:.2}", row.mb_s),
            time(row.mean_us),
            time(row.max_us),
            row.erases.to_string(),
        ]);
    }
    table
}

fn power(report: &CardSpeed) -> Table {
    let header = ["card", "request", "size", "uJ/request", "mJ/MiB", "mean mW", "late", "dropped"];
    let mut table = Table::new(header).numbers(2..);
    for test in &report.tests {
        table.row([
            test.state.name().to_owned(),
            format!("{} {}", test.access, test.operation),
            size(test.request_bytes),
            format!("{:.1}", test.uj_per_request),
            format!("{:.2}", test.mj_per_mib),
            format!("{:.0}", test.mean_mw),
            test.late.to_string(),
            test.dropped.to_string(),
        ]);
    }
    table
}

fn alignment(report: &CardSpeed) -> Table {
    let mut table = Table::new(["border", "pre", "on", "post", "diff, us"]).numbers(0..);
    for row in &report.alignment_rows {
        let diff = format!("{:.1}", row.diff_us);
        table.row([size(row.align_bytes), time(row.pre_us), time(row.on_us), time(row.post_us), diff]);
    }
    table
}
