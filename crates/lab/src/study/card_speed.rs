//! Study `floatgate speed` of a card.

use super::report::{Cell, Section, Table};
use super::{Context, Report, Study};
use crate::card;
use crate::card::speed::{
    AlignmentRow, CardSpeed, CardSpeedOptions, CardState, CardTest, OpenAuRow, REQUESTS_MAX, measure,
    thin_spare,
};
use crate::card::spread::{self, Spread};
use crate::envelope::Origin;
use crate::show::number::three;
use floatgate_config::Override;
use floatgate_mtd::Nanos;
use floatgate_mtd::size::text as bytes;
use floatgate_mtd::words::{count, grouped};
use floatgate_sim::error::Error;
use serde::Deserialize;
use serde_json::{Value, to_value};
use std::path::PathBuf;

/// Study of requests to an empty, a used and a full card.
pub struct SpeedOfCard;

/// Measure requests on an empty, a used and a full card, the number of open allocation units, and reads across borders
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate speed kingston-class-10
  floatgate speed kingston-class-10 --table open-aus --set card.open_aus=4
  floatgate speed samsung-evo-16g --sizes 4096,65536 --requests 500
  floatgate speed emmc-16g --set 'card.slc.blocks=0' --json
  floatgate speed my-card.toml --table alignment --csv
  floatgate speed samsung-evo-16g --table power --set card.power.limit_ua=70100

The used card has its first half written, and the full card all of it; both are then partly overwritten at random. Each test begins with a card in that state. \
Sequential requests cover at most 64 MiB, or \
twice the SLC cache. Data that is still in the buffer after the writes is flushed before the clock stops.

Writes are measured in windows with the same number of requests, until two windows in a row differ by less than 10 %. Sequential writes must also have covered all \
their sectors once, and no cache or free block may be left to fill. The last window is the result. If this takes more than 256 MiB, `steady` is no: the speed lasts \
only as long as the cache or the free blocks. In place of a page-mapped card of more than 32 GiB, a card of 16 GiB or more is measured, with the same share of spare \
blocks, on which writes depend.

To count open allocation units, the test writes to allocation units in turn, one request each, in order and out of order. The time jumps when the number of \
allocation units exceeds the number that can be open. The alignment table is that of flashbench -a. Late requests take longer than the specification allows. \
Dropped requests are those that the host gives up; --set card.host.write_timeout_us=10e6 is the limit of Linux.")
)]
pub struct SpeedOfCardOptions {
    /// A card's name (see `floatgate list parts`), or the path of a TOML file
    card: PathBuf,

    /// Override any field of the card: --set card.open_aus=4 --set card.bus=sdr104
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE"))]
    set: Vec<String>,

    /// Sizes of requests, multiples of 512 bytes; default sizes that are too large for a small card are left out
    #[cfg_attr(feature = "command", arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = SIZES, value_parser = floatgate_mtd::size::parse))]
    sizes: Vec<u64>,

    /// Maximum number of requests in a window of a test
    #[cfg_attr(feature = "command", arg(long, value_name = "N", default_value_t = Self::default().requests, value_parser = clap::value_parser!(u32).range(1..=i64::from(REQUESTS_MAX))))]
    requests: u32,

    /// Seed of the card's bad blocks and errors, and of the addresses of random requests
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,
}

/// Default sizes of requests: [`card::speed::SIZES`] in the form of the option.
const SIZES: &str = "4096,32768,131072,1048576";

impl Default for SpeedOfCardOptions {
    fn default() -> Self {
        let sizes = SIZES.split(',').filter_map(|size| size.parse().ok()).collect();
        Self { card: PathBuf::new(), set: Vec::new(), sizes, requests: card::speed::REQUESTS, seed: 0 }
    }
}

/// Names of the tables that can be selected.
const REQUESTS: &str = "requests";
const OPEN_AUS: &str = "open-aus";
const ALIGNMENT: &str = "alignment";
const POWER: &str = "power";

impl Study for SpeedOfCard {
    type Options = SpeedOfCardOptions;
    type Output = CardSpeed;

    const NAME: &'static str = "card speed";
    const TABLES: &'static [(&'static str, &'static str)] = &[
        (REQUESTS, "Sequential and random reads and writes"),
        (OPEN_AUS, "Allocation units written in turn"),
        (ALIGNMENT, "Reads before, on and behind borders"),
        (POWER, "Energy of the requests, and those that took too long"),
    ];

    fn origin(options: &SpeedOfCardOptions, kind: Origin) -> Origin {
        kind.about(&options.card).with(&options.set).seeded(options.seed)
    }

    fn run(options: &SpeedOfCardOptions, context: &Context<'_>) -> Result<CardSpeed, Error> {
        let SpeedOfCardOptions { card, set, sizes, requests, seed } = options;
        if sizes.is_empty() || !(1..=REQUESTS_MAX).contains(requests) {
            return Err(Error::request(
                "there is no request to make",
                format!("ask for 1 to {REQUESTS_MAX} requests of some size"),
            ));
        }
        let sets = Override::parse_all(set)?;
        let loaded = card::load(context.library, card, &sets)?;
        // A file that is a valid card only with the overrides has no original card to compare.
        let original = card::load(context.library, card, &[]).ok();
        let options = CardSpeedOptions { requests: *requests, sizes: sizes.clone(), seed: *seed };
        let mut speed = measure(&loaded, &options, context.progress)?;
        speed.remarks.extend(stand_in(&speed));
        speed.remarks.extend(original.and_then(|original| thin_spare(&loaded.spec, &original.spec)));
        Ok(speed)
    }

    fn report(report: &CardSpeed) -> Report {
        let CardSpeed {
            card, title, capacity_bytes, au_bytes, open_aus, open_aus_random, page_bytes, ..
        } = report;
        let claim = |claimed: u64| format!("a fake: claims {} MB", grouped(claimed / 1_000_000));
        let sizes = format!(
            "{} MB, AU {}, pages of {}; open AUs: {open_aus}, {open_aus_random} of them in any order",
            grouped(capacity_bytes / 1_000_000),
            bytes(*au_bytes),
            bytes(*page_bytes)
        );
        let limit = report.limit_mw.map_or("no limit".to_owned(), |limit| format!("at most {limit:.1} mW"));
        let ready = format!(
            "ready {} after a loss of power when full; supply: {limit}",
            time(report.power_on_us).text()
        );
        Report {
            title: format!("{card}: {title}"),
            head: [sizes]
                .into_iter()
                .chain(report.claimed_bytes.map(claim))
                .chain([ready])
                .chain(report.remarks.iter().cloned())
                .collect(),
            conclusion: [Some(verdict(report)), warning(report)]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
            sections: [requests(report), open_aus_in_turn(report), alignment(report), power(report)]
                .map(Section::Table)
                .into(),
        }
    }

    fn rows(report: &CardSpeed, table: Option<&str>) -> serde_json::Result<Value> {
        match table {
            Some(OPEN_AUS) => to_value(&report.open_au_rows),
            Some(ALIGNMENT) => to_value(&report.alignment_rows),
            _ => to_value(&report.tests),
        }
    }
}

/// Factor from which a speed counts as much lower than another one.
const MUCH: f64 = 4.0;

/// Largest request of a small write, bytes.
const SMALL: u64 = 16 << 10;

/// Sentence on the speeds of the used card, and on the reason for slow random writes.
fn verdict(report: &CardSpeed) -> String {
    let tests = |access: &'static str, operation: &'static str| {
        let is_meant = move |test: &&CardTest| {
            test.state == CardState::Used && test.access == access && test.operation == operation
        };
        report.tests.iter().filter(is_meant)
    };
    let largest = |operation| tests("sequential", operation).max_by_key(|test| test.request_bytes);
    let (Some(read), Some(write)) = (largest("read"), largest("write")) else { return String::new() };
    let in_order = format!(
        "Used, this card reads {} MB/s and writes {} MB/s in order, in requests of {}",
        three(read.mb_s),
        three(write.mb_s),
        bytes(write.request_bytes)
    );
    let small = tests("random", "write").filter(|test| test.request_bytes <= SMALL);
    let Some(small) = small.min_by_key(|test| test.request_bytes) else { return format!("{in_order}.") };
    let (size, speed) = (bytes(small.request_bytes), three(small.mb_s));
    if !small.is_steady {
        let is_same = |test: &&CardTest| {
            let of = |test: &CardTest| (test.operation.clone(), test.access.clone(), test.request_bytes);
            test.state == CardState::Full && test.is_steady && of(test) == of(small)
        };
        let full = report.tests.iter().find(is_same);
        let lasting =
            full.map_or_else(String::new, |full| format!(": a full card writes {} MB/s", three(full.mb_s)));
        return format!(
            "{in_order}; {speed} MB/s in writes of {size} at random last only as long as there is a cache or a free block to fill{lasting}."
        );
    }
    let speeds = format!("{in_order}, and {speed} MB/s in writes of {size} at random");
    let is_slow = small.mb_s * MUCH < write.mb_s;
    match (is_slow, report.open_aus) {
        (false, _) => format!("{speeds}: small scattered writes do not slow it down."),
        (true, 0) => format!("{speeds}: it is slow at small scattered writes."),
        (true, open) => format!(
            "{speeds}: it is slow at small scattered writes, as it keeps {} open.",
            count(open.into(), "allocation unit")
        ),
    }
}

/// Sentence with a warning about a fake card: its speeds are no reason to use it.
fn warning(report: &CardSpeed) -> Option<String> {
    let claimed = report.claimed_bytes?;
    Some(format!(
        "But do not use it: it is a fake, which claims {} MB, has {} MB, and loses data written beyond that size.",
        grouped(claimed / 1_000_000),
        grouped(report.capacity_bytes / 1_000_000)
    ))
}

/// Sentence on the smaller card that was measured in place of this one.
fn stand_in(speed: &CardSpeed) -> Option<String> {
    let own = speed.stand_in_bytes?;
    Some(format!(
        "The used and the full card were measured on one of {} MB with the same share of spare blocks, {:.1} %.",
        grouped(own / 1_000_000),
        speed.spare_percent
    ))
}

/// Cell with a time in us, shown in a suitable unit.
fn time(us: f64) -> Cell {
    Cell::shown(us, Nanos::from_ns((us * 1e3).round() as u64).to_string())
}

fn size_of(n: u64) -> Cell {
    Cell::shown(n as f64, bytes(n))
}

fn decimals(value: f64, decimals: usize) -> Cell {
    Cell::shown(value, format!("{value:.decimals$}"))
}

/// Cells with the state of the card and the request of a test.
fn request(test: &CardTest) -> [Cell; 3] {
    let request = format!("{} {}", test.access, test.operation);
    [test.state.name().into(), request.into(), size_of(test.request_bytes)]
}

fn requests(report: &CardSpeed) -> Table {
    let row = |test: &CardTest| {
        let CardTest { operation, mb_s, iops, latency, .. } = test;
        let amplification =
            if operation == "write" { decimals(test.write_amplification, 2) } else { "".into() };
        let [median, most, longest] = [latency.p50_us, latency.p99_us, latency.max_us].map(time);
        let steady = if test.is_steady { "yes" } else { "no" };
        let measured = [decimals(*mb_s, 2), decimals(*iops, 0), median, most, longest, amplification];
        request(test).into_iter().chain(measured).chain([Cell::count(test.erases), steady.into()]).collect()
    };
    let columns = ["size", "MB/s", "IOPS", "median", "99 %", "longest", "WA", "erases", "steady"];
    let table = Table::new(&["card", "request"], &columns, report.tests.iter().map(row));
    Table { key: REQUESTS, plot: true, below: intervals().into_iter().collect(), ..table.titled("requests") }
}

/// Line on the 80 % intervals of the speeds.
fn intervals() -> Option<String> {
    let named = [
        ("in order: reads", spread::READ_IN_ORDER),
        ("writes", spread::WRITE_IN_ORDER),
        ("4 KiB at random: writes", spread::WRITE_AT_RANDOM),
        ("reads", spread::READ_AT_RANDOM),
    ];
    let phrase = |(name, measure)| Some(format!("{name} {}", Spread::of(measure).ok().flatten()?));
    let all: Vec<String> = named.into_iter().filter_map(phrase).collect();
    let text = format!("80 % intervals by the residuals of `floatgate papers cards`: {}", all.join(", "));
    (!all.is_empty()).then_some(text)
}

fn open_aus_in_turn(report: &CardSpeed) -> Table {
    let row = |row: &OpenAuRow| {
        let speed = [decimals(row.mb_s, 2), time(row.mean_us), time(row.max_us), Cell::count(row.erases)];
        let head = [Cell::count(row.aus), row.order.as_ref().into(), size_of(row.request_bytes)];
        head.into_iter().chain(speed).collect()
    };
    let columns = ["size", "MB/s", "mean", "longest", "erases"];
    let table = Table::new(&["AUs", "order"], &columns, report.open_au_rows.iter().map(row));
    Table { key: OPEN_AUS, ..table.titled("allocation units written in turn, on the full card") }
}

fn alignment(report: &CardSpeed) -> Table {
    let row = |row: &AlignmentRow| {
        let times = [row.pre_us, row.on_us, row.post_us].map(time);
        [size_of(row.align_bytes)].into_iter().chain(times).chain([decimals(row.diff_us, 1)]).collect()
    };
    let columns = ["border", "pre", "on", "post", "diff, us"];
    let table = Table::new(&[], &columns, report.alignment_rows.iter().map(row));
    Table {
        key: ALIGNMENT,
        ..table.titled("reads of 16 KiB before, on and behind borders, on the full card")
    }
}

fn power(report: &CardSpeed) -> Table {
    let row = |test: &CardTest| {
        let energy =
            [decimals(test.uj_per_request, 1), decimals(test.mj_per_mib, 2), decimals(test.mean_mw, 0)];
        let late = [test.late, test.dropped].map(Cell::count);
        request(test).into_iter().chain(energy).chain(late).collect()
    };
    let columns = ["size", "uJ/request", "mJ/MiB", "mean mW", "late", "dropped"];
    let table = Table::new(&["card", "request"], &columns, report.tests.iter().map(row));
    Table { key: POWER, ..table.titled("energy, and requests that took too long") }
}
