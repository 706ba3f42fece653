//! Study `floatgate compare`.

use super::options::Years;
use super::report::{Cell, Section, Table};
use super::{Context, Report, Study};
use crate::envelope::Origin;
use crate::life::{self, YEARS_MAX};
use crate::progress::Progress;
use crate::show::number::three;
use crate::technology::verdict::{Lead, choice, leads, sentences};
use crate::technology::{
    Candidate, FigureInterval, Figures, Missing, PARTITION_BLOCKS, PARTITION_BYTES, Use, Workload, measure,
    overrides,
};
use floatgate_config::Override;
use floatgate_mtd::size;
use floatgate_mtd::words::measure as quantity;
use floatgate_sim::error::Error;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// Study that compares storage technologies.
pub struct Compare;

/// Compare NAND, NOR, eMMC and SD cards: boot time, speed, life under a workload, space, energy, price, and the best choice
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate compare ma35d1-w25n02jw emmc-16g zc702-mx25uw12845g
  floatgate compare w25n01gv samsung-evo-16g --workload create --partition 64MiB --years 5
  floatgate compare imx6-mx30lf2g18ac emmc-16g --write-per-day 1GiB --csv
  floatgate compare imx6-mx30lf2g18ac sandisk-extreme --set card.bus=sdr104

Raw flash is measured with the tests of `floatgate fs`, on JFFS2 or UBIFS, whichever `floatgate advise` chooses. A part runs on the board that fits it best.

Cards are measured in the used state, with sequential requests of 1 MiB and with the traces of `floatgate fs cards` on the fastest of ext4, F2FS and FAT. \
The life of a card is the rated life that `floatgate life` computes for the same trace. --write-per-day counts the bytes that programs write to files, on raw \
flash and on cards. `life` counts the bytes that the filesystem writes to the card: the remarks of a card state its --write-per-day. Only the trace of create \
tells the bytes of its files. For the other workloads, the bytes on the card are counted. A figure that cannot be computed is left empty, and a note gives the reason.")
)]
pub struct CompareOptions {
    /// Names of setups, parts and cards, or paths of setups' TOML files
    #[cfg_attr(feature = "command", arg(required = true, num_args = 2.., value_name = "TARGET"))]
    targets: Vec<PathBuf>,

    /// Override a field of all targets that have it: --set bus.clock_hz=50e6 --set card.bus=sdr104
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE"))]
    set: Vec<String>,

    /// Workload for which the life and the speed of the filesystem are computed
    #[cfg_attr(feature = "command", arg(long, value_enum, default_value_t))]
    workload: Workload,

    /// Space that is needed; raw flash is measured on a partition of this size [default: 64 MiB or 128 eraseblocks, or all of a smaller chip]
    #[cfg_attr(feature = "command", arg(long, alias = "size", value_name = "BYTES", value_parser = size::parse))]
    partition: Option<u64>,

    /// Bytes that programs write to files per day
    #[cfg_attr(feature = "command", arg(long, value_name = "BYTES", default_value = "100MiB", value_parser = size::parse))]
    write_per_day: u64,

    /// Number of years that the storage must last
    #[cfg_attr(feature = "command", arg(long, value_name = "YEARS", default_value_t = Self::default().years))]
    years: Years,

    /// Seed of the differences between chips, and between cards
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            set: Vec::new(),
            workload: Workload::default(),
            partition: None,
            write_per_day: 100 << 20,
            years: Years(10.0),
            seed: 0,
        }
    }
}

/// Candidates with their figures, and the fastest candidates.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Use for which they are compared.
    #[serde(rename = "use")]
    use_: Use,
    /// Candidates in the order given by the user.
    candidates: Vec<Candidate>,
    /// Fastest candidates in each race.
    leads: Vec<Lead>,
    /// Candidate to choose; `None` if several are equally good.
    #[serde(default)]
    choice: Option<String>,
}

impl CompareOptions {
    fn use_(&self) -> Result<Use, Error> {
        if self.targets.len() < 2 {
            return Err(Error::request(
                "a comparison needs two targets",
                "name two or more setups, parts or cards",
            ));
        }
        if self.partition == Some(0) || self.write_per_day == 0 {
            let option = if self.write_per_day == 0 { "write_per_day" } else { "partition" };
            return Err(Error::request(format!("{option} is 0 bytes"), "give a size such as 64MiB"));
        }
        Ok(Use {
            workload: self.workload,
            partition_bytes: self.partition,
            write_bytes_per_day: self.write_per_day,
            years: self.years.get(),
            seed: self.seed,
        })
    }
}

impl Study for Compare {
    type Options = CompareOptions;
    type Output = Comparison;

    const NAME: &'static str = "compare";
    const STEPS: &'static str = "targets";

    fn origin(options: &CompareOptions, kind: Origin) -> Origin {
        let targets: Vec<String> = options.targets.iter().map(|path| path.display().to_string()).collect();
        kind.about(targets.join(" ")).with(&options.set).seeded(options.seed)
    }

    fn run(options: &CompareOptions, context: &Context<'_>) -> Result<Comparison, Error> {
        let use_ = options.use_()?;
        let sets = Override::parse_all(&options.set)?;
        let sets = overrides::of_each(context.library, &options.targets, &sets)?;
        (context.progress)(Progress::Steps(options.targets.len() as u64));
        let one = |(target, sets): (&PathBuf, &Vec<Override>)| {
            let candidate = measure(context.library, target, sets, &use_);
            (context.progress)(Progress::Done(1));
            candidate
        };
        let candidates: Vec<Candidate> =
            options.targets.par_iter().zip(&sets).map(one).collect::<Result<_, _>>()?;
        let leads = leads(&candidates);
        let choice = choice(&candidates, &leads).map(str::to_owned);
        Ok(Comparison { use_, candidates, leads, choice })
    }

    fn report(output: &Comparison) -> Report {
        let Comparison { use_, candidates, leads, .. } = output;
        let needed = use_.partition_bytes.map_or_else(
            || {
                let usual = size::text(PARTITION_BYTES);
                format!("raw flash measured on {usual} or {PARTITION_BLOCKS} eraseblocks at most, ")
            },
            |bytes| format!("{}, ", size::text(bytes)),
        );
        let needed = format!(
            "needed: {needed}{} a day of {} for {}",
            life::in_units(use_.write_bytes_per_day),
            use_.workload,
            quantity(use_.years, "year")
        );
        let cost = Table { below: notes(candidates), ..cost(candidates) };
        Report {
            title: "Storage technologies".to_owned(),
            head: vec![needed],
            conclusion: sentences(candidates, leads, use_).join(" "),
            sections: [speed(candidates), cost].map(Section::Table).into(),
        }
    }

    /// Rows of the candidates, without their notes.
    fn rows(output: &Comparison, _table: Option<&str>) -> serde_json::Result<Value> {
        let mut rows = serde_json::to_value(&output.candidates)?;
        for row in rows.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            row.retain(|_, value| !value.is_array());
        }
        Ok(rows)
    }
}

/// Cell of a figure; empty if the figure is unknown.
fn cell(value: Option<f64>) -> Cell {
    value.map_or_else(|| "".into(), |value| Cell::shown(value, three(value)))
}

fn speed(candidates: &[Candidate]) -> Table {
    let row = |one: &Candidate| {
        let Figures { attach_s, mount_s, ready_s, read_mib_s, write_mib_s, synced_write_ms, .. } =
            one.figures;
        let figures = [attach_s, mount_s, ready_s, read_mib_s, write_mib_s, synced_write_ms].map(cell);
        [Cell::from(one.target.as_str())].into_iter().chain(figures).collect()
    };
    let columns = ["attach, s", "mount, s", "ready, s", "read, MiB/s", "write, MiB/s", "4 KiB synced, ms"];
    Table::new(&["target"], &columns, candidates.iter().map(row))
        .with_minor(&["attach, s", "mount, s"])
        .titled("boot and speed")
}

fn cost(candidates: &[Candidate]) -> Table {
    let row = |one: &Candidate| {
        let Figures {
            space_bytes, life_years, write_mj_per_mib, usd_per_gb, usd, write_mib_s_per_usd, ..
        } = one.figures;
        let filesystem = one.filesystem.as_deref().unwrap_or_default();
        let words = [one.target.as_str(), &one.kind, filesystem].map(Cell::from);
        let space = space_bytes.map_or_else(
            || "".into(),
            |bytes| Cell::shown(bytes as f64, three(bytes as f64 / f64::from(1 << 20))),
        );
        let life = life_years.map_or_else(
            || "".into(),
            |years| {
                let is_long = years > YEARS_MAX;
                Cell::shown(years, if is_long { format!("> {YEARS_MAX}") } else { three(years) })
            },
        );
        let others = [write_mj_per_mib, usd_per_gb, usd, write_mib_s_per_usd].map(cell);
        words.into_iter().chain([space, life]).chain(others).collect()
    };
    let columns = ["space, MiB", "life, years", "write, mJ/MiB", "$ per GB", "$", "MiB/s for a $"];
    Table::new(&["target", "kind", "files"], &columns, candidates.iter().map(row))
        .with_minor(&["MiB/s for a $", "$ per GB", "kind"])
        .titled("space, life and cost")
}

/// Reasons for empty cells and remarks, each with the candidates to which it applies.
fn notes(candidates: &[Candidate]) -> Vec<String> {
    let mut all: Vec<(String, &str, Vec<&str>)> = Vec::new();
    let mut note = |subject: &str, text, target| match all
        .iter_mut()
        .find(|known| (known.1, known.0.as_str()) == (text, subject))
    {
        Some((.., targets)) => targets.push(target),
        None => all.push((subject.to_owned(), text, vec![target])),
    };
    for one in candidates {
        for Missing { quantity, reason } in &one.missing {
            note(&format!("no {} of ", quantity.name()), reason, &one.target);
        }
        for remark in &one.remarks {
            note("", remark, &one.target);
        }
    }
    let intervals = candidates.iter().filter(|one| !one.intervals.is_empty()).map(interval_line);
    all.into_iter()
        .map(|(subject, text, targets)| format!("{subject}{}: {text}", targets.join(", ")))
        .chain(intervals)
        .collect()
}

/// Line with the 80 % intervals of a candidate's figures, in the units of the table.
fn interval_line(one: &Candidate) -> String {
    let name = |figure: &str| match figure {
        "mount_s" => "mount, s",
        "read_mib_s" => "read, MiB/s",
        "write_mib_s" => "write, MiB/s",
        _ => "4 KiB synced, ms",
    };
    let phrase = |of: &FigureInterval| {
        format!("{} {} to {}", name(&of.figure), three(of.interval.min), three(of.interval.max))
    };
    let all: Vec<String> = one.intervals.iter().map(phrase).collect();
    format!("80 % intervals of {}: {}", one.target, all.join("; "))
}
