//! `floatgate life` of a card.

use super::report::{Cell, Section, Table};
use super::{Context, Report, Study};
use crate::card::life::{CardLife, REQUESTS_MAX, Workload, life};
use crate::card::state::CardState;
use crate::card::trace::{Reader, Request};
use crate::card::{self, LoadedCard, shipped};
use crate::life::{DAYS_PER_YEAR, YEARS_MAX, in_units, terabytes};
use crate::report::Origin;
use floatgate_config::Override;
use floatgate_mtd::words::grouped;
use floatgate_sim::error::Error;
use serde::Deserialize;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The life of a card under a workload.
pub struct LifeOfCard;

/// Wear out a card by a trace: write amplification in the steady state, the bytes that can be written, years
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate life samsung-evo-16g
  floatgate life emmc-16g --trace ext4-postmark --write-per-day 20GiB
  floatgate life a1-32g --trace trace.csv --full --json

The trace is repeated without think times until it erases what it writes and two windows of 256 MiB differ by less than 5 %, or for two million requests. \
The blocks of the card, with static wear levelling all of them, else those that the workload reaches, share these erases. The rated life ends at the rated cycles. \
The interval comes from the spread of the lives of blocks (card.wear.life_spread): the card ends when more of them have failed than it has to spare. Erases of an SLC cache count \
like all others. Time without power and temperature are not considered.")
)]
pub struct LifeOfCardOptions {
    /// A card's name (see `floatgate list parts`), or the path of a TOML file
    card: PathBuf,

    /// The trace: a file of fio, blktrace or MSR Cambridge, a CSV of floatgate, or one of `floatgate list traces`
    #[cfg_attr(feature = "command", arg(long, value_name = "TRACE", default_value = TRACE))]
    trace: PathBuf,

    /// Bytes that the host writes in a day
    #[cfg_attr(feature = "command", arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = floatgate_mtd::size::parse))]
    write_per_day: u64,

    /// Begin with a card that is full; else half of it is
    #[cfg_attr(feature = "command", arg(long))]
    full: bool,

    /// Override any field of the card: --set card.wear.endurance_cycles=3000
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE"))]
    set: Vec<String>,

    /// Seed of the card's bad blocks and errors, and of the lives of its blocks
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,
}

/// The trace where none is named.
const TRACE: &str = "ext4-postmark";

impl Default for LifeOfCardOptions {
    fn default() -> Self {
        Self {
            card: PathBuf::new(),
            trace: TRACE.into(),
            write_per_day: 1 << 30,
            full: false,
            set: Vec::new(),
            seed: 0,
        }
    }
}

impl Study for LifeOfCard {
    type Options = LifeOfCardOptions;
    type Output = CardLife;

    const NAME: &'static str = "card life";

    fn setup(_options: &LifeOfCardOptions) -> Option<&Path> {
        None
    }

    fn origin(options: &LifeOfCardOptions, kind: Origin) -> Origin {
        kind.about(&options.card).with(&options.set).seeded(options.seed)
    }

    fn run(options: &LifeOfCardOptions, context: &Context<'_>) -> Result<CardLife, Error> {
        if options.write_per_day == 0 {
            return Err(Error::asked("what is not written does not wear", "give the bytes of a day"));
        }
        let card = card::load(context.library, &options.card, &Override::parse_all(&options.set)?)?;
        let (before, requests) = requests(&options.trace, &card)?;
        let state = if options.full { CardState::Full } else { CardState::Used };
        let workload = Workload {
            before,
            requests,
            state,
            write_bytes_per_day: options.write_per_day,
            seed: options.seed,
        };
        life(&card, &workload, context.progress)
            .map_err(|error| error.within(options.trace.display().to_string()))
    }

    fn report(life: &CardLife) -> Report {
        let head = format!(
            "{} MB, {} blocks of flash rated for {} cycles",
            grouped(life.capacity_bytes / 1_000_000),
            grouped(life.blocks),
            grouped(life.endurance_cycles.into())
        );
        Report {
            title: format!("{}: {}", life.card, life.title),
            head: vec![head],
            sections: vec![Section::Table(table(life))],
            conclusion: conclusion(life),
        }
    }
}

/// Requests that come before the workload, and those of the workload.
fn requests(trace: &Path, card: &LoadedCard) -> Result<(Vec<Request>, Vec<Request>), Error> {
    if let Some(shipped) = trace.to_str().and_then(shipped::find) {
        let all = shipped.requests(card.spec.au_bytes)?;
        return Ok((all.before, all.workload));
    }
    let wrong = |error: &dyn std::fmt::Display| {
        let help = "name a trace of fio, blktrace or MSR Cambridge, a CSV of floatgate, or one of those that it has with it";
        Error::asked(error.to_string(), help).within(trace.display().to_string())
    };
    let file = File::open(trace).map_err(|error| wrong(&error))?;
    let reader = Reader::new(BufReader::new(file)).map_err(|error| wrong(&error))?;
    let requests: Result<Vec<Request>, _> = reader.take(REQUESTS_MAX + 1).collect();
    let requests = requests.map_err(|error| wrong(&error))?;
    if requests.len() > REQUESTS_MAX {
        let message = format!("more than {} requests", grouped(REQUESTS_MAX as u64));
        return Err(Error::asked(message, "cut a part out of it").within(trace.display().to_string()));
    }
    Ok((Vec::new(), requests))
}

fn table(life: &CardLife) -> Table {
    let row = |what: &str, value: Cell| vec![what.into(), value];
    let number = |value: f64, text: String| Cell::shown(value, text);
    let spread = if life.has_static_levelling {
        format!(
            "all {} blocks, as static wear levelling moves data that does not change",
            grouped(life.blocks)
        )
    } else {
        format!(
            "{} of {} blocks, without static wear levelling",
            grouped(life.wearing_blocks),
            grouped(life.blocks)
        )
    };
    let interval = format!("{} to {}", terabytes(life.life_bytes_min), terabytes(life.life_bytes_max));
    let rows = [
        row(
            "write amplification",
            number(life.write_amplification, format!("{:.2}", life.write_amplification)),
        ),
        row(
            "erased for a byte written",
            number(life.erased_per_written, format!("{:.2}", life.erased_per_written)),
        ),
        row("written in this run", number(life.host_bytes as f64, terabytes(life.host_bytes as f64))),
        row("wear is shared by", number(life.wearing_blocks as f64, spread)),
        row("most erases over the mean", number(life.wear_spread, format!("{:.2}", life.wear_spread))),
        row("blocks to spare", Cell::count(life.blocks_to_spare)),
        row("written until the rated cycles", number(life.rated_bytes, terabytes(life.rated_bytes))),
        row(
            "written in a life",
            number(life.life_bytes, format!("{}, 80 %: {interval}", terabytes(life.life_bytes))),
        ),
    ];
    Table::new(&["what", "value"], &[], rows).titled("wear in the steady state")
}

/// The life in a sentence.
fn conclusion(life: &CardLife) -> String {
    let pace = format!("At {} a day", in_units(life.write_bytes_per_day));
    let lasts = if life.rated_years > YEARS_MAX {
        format!("{pace} wear is not the limit: the rated cycles last for more than {YEARS_MAX} years")
    } else {
        format!(
            "{pace} the rated cycles of this card last for {}, and its blocks for {} to {} in 8 of 10 cases",
            span(life.rated_years),
            span(life.life_years_min),
            span(life.life_years_max)
        )
    };
    let cost = format!("each byte written costs {:.1} of flash", life.write_amplification);
    if life.is_steady {
        format!("{lasts}; {cost}.")
    } else {
        format!("{lasts}; {cost}, and that had not settled after {}.", terabytes(life.host_bytes as f64))
    }
}

/// Years, or days where these are few.
fn span(years: f64) -> String {
    match years {
        _ if years > YEARS_MAX => format!("more than {YEARS_MAX} years"),
        _ if years < 1.0 => format!("{:.0} days", years * DAYS_PER_YEAR),
        _ => format!("{years:.1} years"),
    }
}
