//! Study `floatgate life` of a card.

use super::report::{Cell, Section, Table};
use super::{Context, Report, Study};
use crate::card::life::{BUDGET, CardLife, REQUESTS_MAX, TraceWear, Workload, by_trace, life};
use crate::card::state::CardState;
use crate::card::trace::{Reader, Request};
use crate::card::{self, shipped};
use crate::envelope::Origin;
use crate::life::{DAYS_PER_YEAR, YEARS_MAX, in_units, terabytes};
use crate::show::number::three;
use floatgate_config::Override;
use floatgate_host::open::open_input;
use floatgate_mtd::words::grouped;
use floatgate_sim::error::Error;
use serde::Deserialize;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Study of the life of a card under a workload.
pub struct LifeOfCard;

/// Wear out a card by a trace: write amplification in the steady state, total bytes that can be written, life in years
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate life samsung-evo-16g
  floatgate life emmc-16g --trace ext4-postmark --write-per-day 20GiB
  floatgate life emmc-16g --trace trace.csv --full --json
  floatgate life samsung-evo-16g --diskstats diskstats.txt --hours 36

The trace is repeated without think times until the card erases as much as it writes and two windows of 256 MiB differ by less than 5 %, or for half a million \
requests. These erases are shared by all blocks of the card if it has static wear levelling, otherwise by the blocks that the workload reaches.

The rated life ends at the rated cycles. The interval of the life comes from the spread of the lives of blocks (card.wear.life_spread): the life ends when more \
blocks have failed than the card has spare blocks. It does not contain the uncertainty of the rated cycles, which the conclusion states. Erases of an SLC cache \
count like all others. Temperature, and time without power, are not considered. For an eMMC, a table shows its health registers (EXT_CSD) after years of the \
workload.

--diskstats counts the sectors that were written since the start of a machine, and --hours gives the time since that start; for this machine it is read from \
/proc/uptime.")
)]
pub struct LifeOfCardOptions {
    /// A card's name (see `floatgate list parts`), or the path of a TOML file
    card: PathBuf,

    /// Trace of the workload: a file of fio, blktrace or MSR Cambridge, a CSV of floatgate, or a trace of `floatgate list traces`
    #[cfg_attr(feature = "command", arg(long, value_name = "TRACE", default_value = TRACE))]
    trace: PathBuf,

    /// Bytes that the filesystem writes to the card per day, as /proc/diskstats counts them
    #[cfg_attr(feature = "command", arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = floatgate_mtd::size::parse))]
    write_per_day: u64,

    /// Compute the bytes per day from /proc/diskstats, or from a copy of it
    #[cfg_attr(feature = "command", arg(long, value_name = "FILE", conflicts_with = "write_per_day"))]
    diskstats: Option<PathBuf>,

    /// Name of the card in --diskstats [default: the first SD card or eMMC]
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME", requires = "diskstats"))]
    device: Option<String>,

    /// Hours in which the bytes of --diskstats were written [default: since the start of this machine]
    #[cfg_attr(feature = "command", arg(long, value_name = "HOURS", requires = "diskstats"))]
    hours: Option<f64>,

    /// Start with a full card, instead of a half-full card
    #[cfg_attr(feature = "command", arg(long))]
    full: bool,

    /// Override any field of the card: --set card.wear.endurance_cycles=3000
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE"))]
    set: Vec<String>,

    /// Seed of the card's bad blocks and errors, and of the lives of its blocks
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,
}

mod diskstats {
    //! Bytes that a host writes per day, from the counters that Linux keeps for each block device.

    use floatgate_sim::error::Error;
    use std::path::Path;

    /// Sector size of the counters, bytes, which does not depend on the device (Documentation/admin-guide/iostats.rst).
    const SECTOR_BYTES: f64 = 512.0;
    /// Counters of the local machine, and its uptime.
    const OF_THIS_MACHINE: &str = "/proc/diskstats";
    const UPTIME: &str = "/proc/uptime";
    /// Maximum plausible time, hours: 100 years.
    const HOURS_MAX: f64 = 876_600.0;
    /// Maximum plausible write rate, bytes per second, which exceeds the rate of SD Express and HS400.
    const RATE_MAX: f64 = 1e9;
    /// Unit to which the bytes per day are rounded.
    const MIB: f64 = (1 << 20) as f64;

    /// Bytes that the host writes to a device per day.
    ///
    /// # Errors
    /// An unreadable file; a device that is not in the file; a missing or impossible time.
    pub(super) fn bytes_per_day(path: &Path, device: Option<&str>, hours: Option<f64>) -> Result<u64, Error> {
        let text = read(path)?;
        let bytes = written(&text, device).map_err(|error| error.within(path.display().to_string()))?;
        if bytes == 0.0 {
            let error = Error::request(
                "these counters show no writes, so there is no wear",
                "name the device that is written, or give the bytes per day",
            );
            return Err(error.within(path.display().to_string()));
        }
        let hours = match hours {
            Some(hours) => hours,
            None if path == Path::new(OF_THIS_MACHINE) => uptime(&read(Path::new(UPTIME))?)?,
            None => {
                return Err(Error::request(
                    "a copy of the counters does not contain the number of hours that they cover",
                    "give the hours since that machine was started, which `uptime` prints there",
                ));
            }
        };
        if !(hours > 0.0 && hours <= HOURS_MAX) {
            return Err(Error::request(format!("{hours} hours"), "give a time above 0 and up to 100 years"));
        }
        let rate = bytes / hours / 3600.0;
        if rate > RATE_MAX {
            let message = format!(
                "{:.3e} bytes in {hours} hours: no card writes {:.0} MB/s all the time",
                bytes,
                rate / 1e6
            );
            return Err(Error::request(
                message,
                "give the hours in which they were written, and a copy of the counters of this card",
            ));
        }
        let of_day = bytes / hours * 24.0;
        // The value is rounded, because it is not exact to the byte.
        let whole = (of_day / MIB).round() * MIB;
        Ok(if whole > 0.0 { whole } else { of_day } as u64)
    }

    fn read(path: &Path) -> Result<String, Error> {
        let wrong = |error: std::io::Error| {
            Error::request(error.to_string(), "name a copy of /proc/diskstats")
                .within(path.display().to_string())
        };
        std::fs::read_to_string(path).map_err(wrong)
    }

    /// Uptime in hours; the first field contains seconds.
    fn uptime(text: &str) -> Result<f64, Error> {
        let seconds = text.split_whitespace().next().and_then(|field| field.parse::<f64>().ok());
        seconds
            .map(|seconds| seconds / 3600.0)
            .ok_or_else(|| Error::request(format!("{UPTIME} has no time"), "give the hours"))
    }

    /// Bytes written to a device since the start of the counters. The third field is the name of the device, and the
    /// tenth is the number of sectors written.
    pub(super) fn written(text: &str, device: Option<&str>) -> Result<f64, Error> {
        let rows: Vec<(&str, f64)> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.split_whitespace().skip(2);
                Some((fields.next()?, fields.nth(6)?.parse::<u64>().ok()? as f64))
            })
            .collect();
        let is_whole_card = |name: &str| {
            name.strip_prefix("mmcblk")
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let found = match device {
            Some(device) => rows.iter().find(|(name, _)| *name == device),
            None => rows.iter().find(|(name, _)| is_whole_card(name)),
        };
        if let Some((_, sectors)) = found {
            return Ok(sectors * SECTOR_BYTES);
        }
        let names: Vec<&str> =
            rows.iter().map(|(name, _)| *name).filter(|name| !name.starts_with("loop")).collect();
        let message = match device {
            Some(device) => format!("no counters of {device}"),
            None => "no SD card and no eMMC (mmcblkN)".to_owned(),
        };
        let help = match names.as_slice() {
            [] => "name a copy of /proc/diskstats".to_owned(),
            names => {
                format!("name the device of the card, with its name in the counters: {}", names.join(", "))
            }
        };
        Err(Error::request(message, help))
    }
}

/// Default trace.
const TRACE: &str = "ext4-postmark";

impl Default for LifeOfCardOptions {
    fn default() -> Self {
        Self {
            card: PathBuf::new(),
            trace: TRACE.into(),
            write_per_day: 1 << 30,
            diskstats: None,
            device: None,
            hours: None,
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

    fn origin(options: &LifeOfCardOptions, kind: Origin) -> Origin {
        kind.about(&options.card).with(&options.set).seeded(options.seed)
    }

    fn run(options: &LifeOfCardOptions, context: &Context<'_>) -> Result<CardLife, Error> {
        let write_bytes_per_day = match &options.diskstats {
            Some(path) => diskstats::bytes_per_day(path, options.device.as_deref(), options.hours)?,
            None => options.write_per_day,
        };
        if write_bytes_per_day == 0 {
            return Err(Error::request("what is not written does not wear", "give the bytes of a day"));
        }
        let card = card::load(context.library, &options.card, &Override::parse_all(&options.set)?)?;
        let state = if options.full { CardState::Full } else { CardState::Used };
        let (requests_max, seed) = (BUDGET, options.seed);
        let worn = match options.trace.to_str().and_then(shipped::find) {
            Some(trace) => {
                let wear = TraceWear { trace, state, write_bytes_per_day, requests_max, seed };
                by_trace(&card, &wear, context.progress)
            }
            None => {
                let (before, requests) = (Vec::new(), requests(&options.trace)?);
                let workload = Workload { before, requests, state, write_bytes_per_day, requests_max, seed };
                life(&card, &workload, context.progress)
            }
        };
        let trace = options.trace.display().to_string();
        match worn {
            Ok(life) => Ok(CardLife { trace, ..life }),
            Err(error) => Err(error.within(trace)),
        }
    }

    fn report(life: &CardLife) -> Report {
        let head = format!(
            "{} MB, {} blocks of flash rated for {} cycles",
            grouped(life.capacity_bytes / 1_000_000),
            grouped(if life.is_enhanced { life.wearing_blocks } else { life.blocks }),
            grouped(life.endurance_cycles.into())
        );
        let trace = Some(&life.trace).filter(|trace| !trace.is_empty());
        let trace = trace.map(|trace| format!("worn by the requests of {trace}, again and again"));
        Report {
            title: format!("{}: {}", life.card, life.title),
            head: [Some(head), trace].into_iter().flatten().collect(),
            sections: [Some(table(life)), health_table(life)]
                .into_iter()
                .flatten()
                .map(Section::Table)
                .collect(),
            conclusion: conclusion(life),
        }
    }
}

/// Requests in the file of a trace.
fn requests(trace: &Path) -> Result<Vec<Request>, Error> {
    let wrong = |error: &dyn std::fmt::Display| {
        let help = "name a trace of fio, blktrace or MSR Cambridge, a CSV of floatgate, or an included trace";
        Error::request(error.to_string(), help).within(trace.display().to_string())
    };
    let file = open_input(trace).map_err(|error| wrong(&error))?;
    let reader = Reader::new(BufReader::new(file)).map_err(|error| wrong(&error))?;
    let requests: Result<Vec<Request>, _> = reader.take(REQUESTS_MAX + 1).collect();
    let requests = requests.map_err(|error| wrong(&error))?;
    if requests.len() > REQUESTS_MAX {
        let message = format!("more than {} requests", grouped(REQUESTS_MAX as u64));
        return Err(Error::request(message, "cut a part out of it").within(trace.display().to_string()));
    }
    Ok(requests)
}

fn table(life: &CardLife) -> Table {
    let row = |what: &str, value: Cell| vec![what.into(), value];
    let number = |value: f64, text: String| Cell::shown(value, text);
    let spread = if life.is_enhanced {
        format!(
            "{} of {} blocks, those of the enhanced area",
            grouped(life.wearing_blocks),
            grouped(life.blocks)
        )
    } else if life.has_static_levelling {
        format!(
            "all {} blocks, as static wear levelling moves data that does not change",
            grouped(life.wearing_blocks)
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
        row(
            "long-run writes of this trace",
            number(life.sustained_mb_s, format!("{} MB/s", three(life.sustained_mb_s))),
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

/// Table of the health registers of an eMMC after years of the workload.
fn health_table(life: &CardLife) -> Option<Table> {
    if life.health.is_empty() {
        return None;
    }
    let life_text = |tenth: u8| match tenth {
        11.. => format!("{tenth:#04x}: beyond the rated cycles"),
        _ => format!("{tenth:#04x}: {} to {} % used", (tenth - 1) * 10, tenth * 10),
    };
    let spare_text = |state: u8| {
        let meaning =
            ["not defined", "normal", "80 % of the spare blocks used", "90 % of the spare blocks used"];
        format!("{state:#04x}: {}", meaning.get(usize::from(state)).unwrap_or(&"reserved"))
    };
    let rows = life.health.iter().map(|at| {
        vec![
            Cell::shown(at.years, format!("{:.0}", at.years)),
            life_text(at.life_a.max(1)).into(),
            life_text(at.life_b.max(1)).into(),
            spare_text(at.pre_eol).into(),
        ]
    });
    let columns = ["years", "EXT_CSD 268, LIFE_TIME_EST_TYP_A", "269, TYP_B", "267, PRE_EOL_INFO"];
    Some(Table::new(&columns, &[], rows).titled("health registers after years of this workload"))
}

/// Sentence on the life of the card.
fn conclusion(life: &CardLife) -> String {
    let pace = format!("At {} a day", in_units(life.write_bytes_per_day));
    let lasts = if life.rated_years > YEARS_MAX {
        format!("{pace} wear is not the limit: the rated cycles last for more than {YEARS_MAX} years")
    } else {
        format!(
            "{pace} the rated cycles of {} last for {}, and its blocks for {}",
            if life.is_enhanced { "the enhanced area" } else { "this card" },
            span(life.rated_years),
            spans(life.life_years_min, life.life_years_max)
        )
    };
    let cost = format!("each byte written erases {:.2} of flash", life.erased_per_written);
    let basis = basis(life.endurance_cycles, life.cycles_confidence);
    if life.is_steady {
        format!("{lasts}; {cost}. {basis}")
    } else {
        format!(
            "{lasts}; {cost}, a figure that was not yet steady after {}. {basis}",
            terabytes(life.host_bytes as f64)
        )
    }
}

/// Sentence on what the life rests on, and what it leaves out.
fn basis(cycles: u32, confidence: Option<f64>) -> String {
    let sure = confidence.filter(|confidence| *confidence < 1.0);
    let sure =
        sure.map_or_else(String::new, |confidence| format!(", which are {:.0} % sure", confidence * 100.0));
    let cycles = grouped(cycles.into());
    format!("This rests on {cycles} rated cycles{sure}, and leaves retention out.")
}

/// Text of the times that a tenth of the cases do not reach, and that all but a tenth do not reach.
fn spans(min: f64, max: f64) -> String {
    match [span(min), span(max)] {
        // The upper end is not known either: nine of ten cases are above the lower one.
        [min, max] if min == max && max.starts_with("more") => format!("{min} in 9 of 10 cases"),
        [min, max] if min == max => format!("{min} in 8 of 10 cases"),
        [min, max] => format!("{min} to {max} in 8 of 10 cases"),
    }
}

/// Text of a time in years, or in days if it is short.
fn span(years: f64) -> String {
    match years {
        _ if years > YEARS_MAX => format!("more than {YEARS_MAX} years"),
        _ if years < 1.0 => format!("{:.0} days", years * DAYS_PER_YEAR),
        _ => format!("{years:.1} years"),
    }
}

#[cfg(test)]
mod tests {
    use super::diskstats::written;
    use super::{basis, spans};

    #[test]
    fn a_life_names_the_confidence_of_its_cycles() {
        let assumed = basis(3000, Some(0.3));
        assert_eq!(
            assumed,
            "This rests on 3 000 rated cycles, which are 30 % sure, and leaves retention out."
        );
        for stated in [basis(100, Some(1.0)), basis(100, None)] {
            assert_eq!(stated, "This rests on 100 rated cycles, and leaves retention out.");
        }
    }

    #[test]
    fn an_interval_has_two_ends_or_one() {
        for (min, max, text) in [
            (120.0, 150.0, "more than 100 years in 9 of 10 cases"),
            (80.0, 150.0, "80.0 years to more than 100 years in 8 of 10 cases"),
            (5.0, 5.01, "5.0 years in 8 of 10 cases"),
            (0.5, 2.0, "183 days to 2.0 years in 8 of 10 cases"),
        ] {
            assert_eq!(spans(min, max), text);
        }
    }

    const COUNTERS: &str = " 179       0 mmcblk0 11 2 1000 5 30 4 204800 9 0 1 2 3 4 5 6 7 8\n \
        179       1 mmcblk0p1 1 2 3 4 5 6 7 8 9 10 11\n   8       0 sda 1 2 3 4 5 6 4096 8 9 10 11\n broken line\n";

    #[test]
    fn sectors_written_are_the_tenth_field_of_the_card() {
        assert_eq!(written(COUNTERS, None).unwrap(), 204_800.0 * 512.0);
        assert_eq!(written(COUNTERS, Some("sda")).unwrap(), 4096.0 * 512.0);
        let unknown = written(COUNTERS, Some("sdb")).unwrap_err();
        assert!(format!("{unknown} {:?}", unknown.help()).contains("mmcblk0, mmcblk0p1, sda"), "{unknown}");
        assert!(written("", None).is_err() && written("1 2 x", Some("x")).is_err());
    }
}
