//! Study `floatgate fs` of cards.

use super::options::State;
use super::report::{self, Section, Table};
use super::{Context, Picture, Report, Study};
use crate::card::compare::{Cell, Matrix, NamedCard, compare};
use crate::card::load;
use crate::card::run::Discarding;
use crate::card::shipped::{FULL_PERCENT, ShippedTrace, discarding_traces, full_traces, traces_for};
use crate::envelope::{Concluded as _, Origin};
use crate::show::number::micros as time;
use crate::show::plot::{Heatmap, heatmap};
use floatgate_config::{Kind, Library, Override};
use floatgate_mtd::words::grouped;
use floatgate_sim::error::Error;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Study of filesystems on cards.
pub struct CompareOnCards;

/// Compare filesystems on cards under workloads, by replaying traces of real filesystems
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate fs cards
  floatgate fs kingston-class-10 samsung-evo-16g --workload create,postmark
  floatgate fs emmc-16g --fs ext4,f2fs --state full --json
  floatgate fs sandisk-extreme --workload postmark --fill 95% --state full
  floatgate fs a1-32g --workload postmark --fill 95% --state full --discard no
  floatgate fs sandisk-extreme kingston-class-10 --plot filesystems.svg

Replays traces of ext4, F2FS, NILFS2 and FAT under file creation, PostMark, dbench and a build. `run` has recorded these traces. They are replayed without think \
times, so the times are those of the card alone. Without CARDS, all cards of the catalogue are compared, except fake, dying and evil cards.

A single card gives all figures. Several cards give one row each. A row has, for each filesystem, its time divided by the time of the fastest filesystem, as \
geometric mean over the workloads.

Each replay starts on a card after mkfs and mounting of a partition of 3 GiB behind the first allocation unit; the partition of `run` is as large as the card. \
NILFS2 is not ranked with the others, because its traces were recorded without its cleaner. The column sync has the median time from the first write behind a \
flush to the end of the next flush.")
)]
pub struct CompareOnCardsOptions {
    /// Cards' names (see `floatgate list parts`), or paths of TOML files
    cards: Vec<PathBuf>,

    /// Filesystems to compare: ext4, f2fs, nilfs2, vfat [default: all]
    #[serde(rename = "fs")]
    #[cfg_attr(feature = "command", arg(long = "fs", value_name = "FS,FS,...", value_delimiter = ','))]
    filesystems: Vec<String>,

    /// Workloads to replay: create, postmark, dbench, kernel-build, journald, sqlite, swap, camera, log2ram, docker, postmark-sync [default: the first
    /// four]
    #[serde(rename = "workload")]
    #[cfg_attr(feature = "command", arg(long = "workload", value_name = "NAME,...", value_delimiter = ','))]
    workloads: Vec<String>,

    /// State of the cards before the replay
    #[cfg_attr(feature = "command", arg(long, value_enum, default_value_t))]
    state: State,

    /// Percent of the filesystem that is filled before the replay: 0% (new filesystem), or 95% (aged filesystem, whose free
    /// space consists of holes of 64 KiB)
    #[cfg_attr(feature = "command", arg(long, value_name = "PERCENT", default_value = "0%", value_parser = fill))]
    fill: u8,

    /// Discards to replay: `default` (by mkfs and by F2FS, as in the traces), `yes` (also by filesystems mounted with `discard`; with --fill 95%), or
    /// `no` (none, not even by mkfs)
    #[cfg_attr(feature = "command", arg(long, value_name = "default|yes|no", default_value = "default"))]
    discard: Discarding,

    /// Override any field of the cards: --set card.open_aus=4 --set card.bus=sdr104
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE"))]
    set: Vec<String>,

    /// Seed of the cards' bad blocks and errors
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,
}

/// Parses a percentage for which traces exist.
#[cfg(feature = "command")]
fn fill(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| is_traced(*percent)).ok_or_else(untraced)
}

const fn is_traced(percent: u8) -> bool {
    matches!(percent, 0 | FULL_PERCENT)
}

fn untraced() -> String {
    format!("traces have 0% or {FULL_PERCENT}%; `floatgate run` fills any part")
}

/// Line above the ratios.
const RATIOS: &str =
    "Time divided by the time of the fastest filesystem, on the same card under the same workload";

impl Study for CompareOnCards {
    type Options = CompareOnCardsOptions;
    type Output = Matrix;

    const NAME: &'static str = "card compare";
    const PLOT: Option<(&'static str, &'static str)> =
        Some(("FILE", "Draw the times relative to the fastest filesystem into an SVG file"));

    fn origin(options: &CompareOnCardsOptions, kind: Origin) -> Origin {
        let origin = if let [card] = options.cards.as_slice() { kind.about(card) } else { kind };
        origin.with(&options.set).seeded(options.seed)
    }

    fn run(options: &CompareOnCardsOptions, context: &Context<'_>) -> Result<Matrix, Error> {
        let traces = chosen(options)?;
        let cards = cards(context.library, options)?;
        compare(&cards, &traces, options.state.into(), options.seed, context.progress)
    }

    fn report(output: &Matrix) -> Report {
        let is_single = output.cards.len() == 1;
        let advice = output.cards.iter().filter(|_| !is_single);
        let begin = output.state.map(|state| format!("Cards are {} at the beginning.", state.name()));
        let mut sections = vec![
            Section::Heat { caption: RATIOS.to_owned(), map: map(output, |cell| cell.is_ranked) },
            Section::Table(Table { detail: !is_single, ..figures(output) }),
            Section::Text(advice.map(|card| format!("{}: {}", card.card, card.advice)).collect()),
            Section::Text(begin.into_iter().chain(output.remarks.iter().cloned()).collect()),
        ];
        if !is_single {
            sections.insert(1, Section::Table(means(output)));
        }
        Report { sections, conclusion: output.conclusion(), ..Report::default() }
    }

    fn rows(output: &Matrix, _table: Option<&str>) -> serde_json::Result<Value> {
        serde_json::to_value(&output.cells)
    }

    fn pictures(output: &Matrix, path: &Path) -> Result<Vec<Picture>, Error> {
        let svg = heatmap("Filesystems on cards", RATIOS, &map(output, |_| true));
        Ok(vec![Picture { path: path.to_owned(), svg }])
    }
}

/// Traces of the filesystems and workloads that the options state.
fn chosen(options: &CompareOnCardsOptions) -> Result<Vec<ShippedTrace>, Error> {
    if !is_traced(options.fill) {
        return Err(Error::request(format!("fill {}", options.fill), untraced()));
    }
    let mut all = if options.fill == 0 { traces_for(&options.workloads) } else { full_traces() };
    match options.discard {
        Discarding::Default => {}
        Discarding::No => all.iter_mut().for_each(|trace| *trace = trace.without_discards()),
        Discarding::Yes if options.fill == 0 => {
            return Err(Error::request(
                "traces with discards are those of aged filesystems",
                format!(
                    "fill {FULL_PERCENT}% of the filesystems, too; `floatgate run` also mounts empty ones with discards"
                ),
            ));
        }
        Discarding::Yes => {
            let discarding = discarding_traces();
            // F2FS discards by default, so its trace has discards.
            all.retain(|trace| trace.filesystem == "f2fs");
            all.extend(discarding);
            all.sort_by_key(|trace| trace.filesystem);
        }
    }
    let check = |names: &[String], what: &str, of: fn(&ShippedTrace) -> &'static str| {
        let mut known: Vec<&str> = all.iter().map(of).collect();
        known.sort_unstable();
        known.dedup();
        match names.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Error::request(
                format!("no trace has the {what} {name:?}"),
                format!("there are {}", known.join(", ")),
            )),
        }
    };
    check(&options.filesystems, "filesystem", |trace| trace.filesystem)?;
    check(&options.workloads, "workload", |trace| trace.workload)?;
    let is_in = |names: &[String], name: &str| names.is_empty() || names.iter().any(|own| own == name);
    all.retain(|trace| {
        is_in(&options.filesystems, trace.filesystem) && is_in(&options.workloads, trace.workload)
    });
    Ok(all)
}

fn cards(library: &Library, options: &CompareOnCardsOptions) -> Result<Vec<NamedCard>, Error> {
    let sets = Override::parse_all(&options.set)?;
    let named = |path: &PathBuf| {
        Ok(NamedCard { name: path.display().to_string(), card: load(library, path, &sets)? })
    };
    if !options.cards.is_empty() {
        return options.cards.iter().map(named).collect();
    }
    let all = library.names(Kind::Card).map(PathBuf::from).collect::<Vec<_>>();
    let mut cards = all.iter().map(named).collect::<Result<Vec<_>, Error>>()?;
    cards.retain(|named| named.card.is_sound());
    Ok(cards)
}

/// Ratios of the cells that `keep` selects.
fn map(matrix: &Matrix, keep: impl Fn(&Cell) -> bool) -> Heatmap {
    let of_card =
        |card: &str| -> Vec<&Cell> { sorted(matrix, card).into_iter().filter(|cell| keep(cell)).collect() };
    let first = matrix.cards.first().map_or("", |card| card.card.as_str());
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for cell in of_card(first) {
        match groups.last_mut().filter(|group| group.0 == cell.workload) {
            Some(group) => group.1.push(cell.filesystem.clone()),
            None => groups.push((cell.workload.clone(), vec![cell.filesystem.clone()])),
        }
    }
    let tip = |cell: &Cell| {
        format!(
            "{} {}: {}, write amplification {:.2}",
            cell.filesystem,
            cell.workload,
            time(cell.time_us),
            cell.write_amplification
        )
    };
    let rows = matrix.cards.iter().map(|card| {
        let cells = of_card(&card.card);
        (card.card.clone(), cells.iter().map(|cell| (cell.relative_time, tip(cell))).collect())
    });
    Heatmap { groups, rows: rows.collect() }
}

/// Cells of a card, sorted by workload.
fn sorted<'a>(matrix: &'a Matrix, card: &str) -> Vec<&'a Cell> {
    let mut cells: Vec<&Cell> = matrix.cells.iter().filter(|cell| cell.card == card).collect();
    cells.sort_by(|a, b| a.workload.cmp(&b.workload));
    cells
}

/// Table of all figures, with a row for each filesystem and workload, and the card if there are several.
fn figures(matrix: &Matrix) -> Table {
    let is_single = matrix.cards.len() == 1;
    let shown = |value: f64, text: String| report::Cell::shown(value, text);
    let row = |cell: &Cell| {
        let names = [&cell.card, &cell.workload, &cell.filesystem].into_iter().skip(is_single.into());
        let sync = cell.syncs.sync_p50_us;
        let numbers = [
            shown(cell.time_us, time(cell.time_us)),
            shown(cell.relative_time, format!("{:.2}", cell.relative_time)),
            if cell.syncs.syncs > 0 { shown(sync, time(sync)) } else { "-".into() },
            shown(cell.write_amplification, format!("{:.2}", cell.write_amplification)),
            shown(cell.erases as f64, grouped(cell.erases)),
            shown(cell.places.written_aus as f64, grouped(cell.places.written_aus)),
            cell.places_per_file.map_or_else(|| "-".into(), |places| shown(places, format!("{places:.1}"))),
        ];
        names.map(|name| name.as_str().into()).chain(numbers).collect()
    };
    let names = ["card", "workload", "filesystem"];
    let numbers = ["time", "relative", "sync", "WA", "erased", "AUs", "AU changes/file"];
    let cells = matrix.cards.iter().flat_map(|card| sorted(matrix, &card.card)).map(row);
    let table = Table::new(&names[usize::from(is_single)..], &numbers, cells);
    if is_single { table } else { table.titled("Cards, filesystems and workloads") }
}

/// Table with a row for each card: the mean relative time of each filesystem.
fn means(matrix: &Matrix) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for cell in &matrix.cells {
        if !names.contains(&cell.filesystem.as_str()) {
            names.push(&cell.filesystem);
        }
    }
    let rows = matrix.cards.iter().map(|card| {
        let of = |name: &&str| {
            let score = card.filesystems.iter().find(|score| score.filesystem == **name);
            let shown = |time: f64| report::Cell::shown(time, format!("{time:.2}"));
            score.map_or_else(|| "".into(), |score| shown(score.relative_time))
        };
        let best = card.filesystems.first().map_or("", |best| best.filesystem.as_str());
        [card.card.as_str().into(), best.into()].into_iter().chain(names.iter().map(of)).collect()
    });
    Table::new(&["card", "best"], &[], rows).then_numbers(names.iter().map(|name| (*name).to_owned()))
}
