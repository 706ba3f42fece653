//! `floatgate fs cards`.

use super::replay::State;
use super::time;
use crate::common::{self, Failure, Outcome, grouped};
use crate::fs::{SHARE, with_progress};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::table::Table;
use floatgate_config::{Kind, Library, Override};
use floatgate_lab::card::compare::{Cell, Matrix, NamedCard, compare};
use floatgate_lab::card::load;
use floatgate_lab::card::run::Discarding;
use floatgate_lab::card::shipped::{FULL_PERCENT, ShippedTrace, discarding_traces, full_traces, traces_for};
use floatgate_lab::card::state::CardState;
use floatgate_lab::plot::{Heatmap, heatmap};
use floatgate_lab::report::ResultKind;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
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
flush to the end of the next flush.")]
pub(crate) struct Args {
    /// Cards' names (see `floatgate list parts`), or paths of TOML files
    cards: Vec<PathBuf>,

    /// Filesystems to compare: ext4, f2fs, nilfs2, vfat [default: all]
    #[arg(long = "fs", value_name = "FS,FS,...", value_delimiter = ',')]
    filesystems: Vec<String>,

    /// Workloads to replay: create, postmark, dbench, kernel-build, journald, sqlite, swap, camera, log2ram, docker, postmark-sync [default: the first
    /// four]
    #[arg(long = "workload", value_name = "NAME,...", value_delimiter = ',')]
    workloads: Vec<String>,

    /// State of the cards before the replay
    #[arg(long, value_enum, default_value_t = State::Empty)]
    state: State,

    /// Percent of the filesystem that is filled before the replay: 0% (new filesystem), or 95% (aged filesystem, whose free
    /// space consists of holes of 64 KiB)
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = fill)]
    fill: u8,

    /// Discards to replay: `default` (by mkfs and by F2FS, as in the traces), `yes` (also by filesystems mounted with `discard`; with --fill 95%), or
    /// `no` (none, not even by mkfs)
    #[arg(long, value_name = "default|yes|no", default_value = "default", value_parser = discard)]
    discard: Discarding,

    /// Override any field of the cards: --set card.open_aus=4 --set card.bus=sdr104
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Draw the times relative to the fastest filesystem into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<OutputFile>,

    /// Seed of the cards' bad blocks and errors
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    format: ReportFormat,
}

fn fill(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let known = number.filter(|percent| [0, FULL_PERCENT].contains(percent));
    known.ok_or_else(|| format!("traces have 0% or {FULL_PERCENT}%; `floatgate run` fills any part"))
}

pub(crate) fn run(args: &Args) -> Outcome {
    common::check_plot(args.plot.as_deref())?;
    let traces = chosen(args)?;
    let cards = cards(args)?;
    let matrix =
        with_progress(SHARE, |progress| compare(&cards, &traces, args.state.of_card(), args.seed, progress))?;
    if let Some(path) = &args.plot {
        common::write_picture(path, &picture(&matrix))?;
    }
    let kind = ResultKind::CardCompare;
    let origin = if let [card] = args.cards.as_slice() { kind.of(card) } else { kind.of_nothing() };
    let origin = origin.with(&args.set).seeded(args.seed);
    args.format.finish(&origin, &matrix, "cells", || text(&matrix, args.state.of_card()))
}

/// Traces of the filesystems and workloads that the options state.
fn chosen(args: &Args) -> Result<Vec<ShippedTrace>, Failure> {
    let mut all = if args.fill == 0 { traces_for(&args.workloads) } else { full_traces() };
    match args.discard {
        Discarding::Default => {}
        Discarding::No => all.iter_mut().for_each(|trace| *trace = trace.without_discards()),
        Discarding::Yes if args.fill == 0 => {
            return Err(Failure::new(
                "traces with discards are those of aged filesystems",
                "add `--fill 95%`, or use `floatgate run --discard yes`",
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
            Some(name) => Err(Failure::new(
                format!("no trace has the {what} {name:?}"),
                format!("there are {}", known.join(", ")),
            )),
        }
    };
    check(&args.filesystems, "filesystem", |trace| trace.filesystem)?;
    check(&args.workloads, "workload", |trace| trace.workload)?;
    let is_in = |names: &[String], name: &str| names.is_empty() || names.iter().any(|own| own == name);
    let mut chosen = all;
    chosen
        .retain(|trace| is_in(&args.filesystems, trace.filesystem) && is_in(&args.workloads, trace.workload));
    Ok(chosen)
}

fn cards(args: &Args) -> Result<Vec<NamedCard>, Failure> {
    let library = Library::built_in();
    let sets = Override::parse_all(&args.set)?;
    let named = |path: &PathBuf| {
        let card = load(&library, path, &sets)?;
        Ok::<_, Failure>(NamedCard { name: path.display().to_string(), card })
    };
    if !args.cards.is_empty() {
        return args.cards.iter().map(named).collect();
    }
    let all = library.names(Kind::Card).map(PathBuf::from).collect::<Vec<_>>();
    let mut cards = all.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    cards.retain(|named| named.card.is_sound());
    Ok(cards)
}

fn picture(matrix: &Matrix) -> String {
    let first = matrix.cards.first().map_or("", |card| card.card.as_str());
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for cell in sorted(matrix, first) {
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
        let cells = sorted(matrix, &card.card);
        (card.card.clone(), cells.iter().map(|cell| (cell.relative_time, tip(cell))).collect())
    });
    let map = Heatmap { groups, rows: rows.collect() };
    heatmap(
        "Filesystems on cards",
        "Time divided by the time of the fastest filesystem, on the same card under the same workload",
        &map,
    )
}

/// Cells of a card, sorted by workload.
fn sorted<'a>(matrix: &'a Matrix, card: &str) -> Vec<&'a Cell> {
    let mut cells: Vec<&Cell> = matrix.cells.iter().filter(|cell| cell.card == card).collect();
    cells.sort_by(|a, b| a.workload.cmp(&b.workload));
    cells
}

fn text(matrix: &Matrix, state: CardState) -> String {
    let table = if matrix.cards.len() == 1 { figures(matrix) } else { means(matrix) };
    let several = matrix.cards.iter().filter(|_| matrix.cards.len() > 1);
    let advice = several.map(|card| format!("{}: {}\n", card.card, card.advice));
    let remarks = matrix.remarks.iter().map(|remark| format!("{remark}\n"));
    let begin = format!("Cards are {} at the beginning (--state).\n", state.name());
    format!("{table}\n\n{}\n{begin}{}", advice.collect::<String>(), remarks.collect::<String>())
}

/// Table of all figures, with a row for each filesystem and workload.
fn figures(matrix: &Matrix) -> Table {
    let header =
        ["workload", "filesystem", "time", "relative", "sync", "WA", "erased", "AUs", "AU changes/file"];
    let mut table = Table::new(header).numbers(2..);
    for cell in matrix.cards.iter().flat_map(|card| sorted(matrix, &card.card)) {
        table.row([
            cell.workload.clone(),
            cell.filesystem.clone(),
            time(cell.time_us),
            format!("{:.2}", cell.relative_time),
            if cell.syncs.syncs > 0 { time(cell.syncs.sync_p50_us) } else { "-".to_owned() },
            format!("{:.2}", cell.write_amplification),
            grouped(cell.erases),
            grouped(cell.places.written_aus),
            cell.places_per_file.map_or("-".to_owned(), |places| format!("{places:.1}")),
        ]);
    }
    table
}

/// Table with a row for each card: the mean relative time of each filesystem.
fn means(matrix: &Matrix) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for cell in &matrix.cells {
        if !names.contains(&cell.filesystem.as_str()) {
            names.push(&cell.filesystem);
        }
    }
    let mut table = Table::new(["card", "best"].iter().chain(&names).copied()).numbers(2..);
    for card in &matrix.cards {
        let of = |name: &&str| {
            let score = card.filesystems.iter().find(|score| score.filesystem == **name);
            score.map_or(String::new(), |score| format!("{:.2}", score.relative_time))
        };
        let best = card.filesystems.first().map_or("", |best| best.filesystem.as_str()).to_owned();
        table.row([card.card.clone(), best].into_iter().chain(names.iter().map(of)));
    }
    table
}

/// Parses `default`, `yes` or `no`.
pub(super) fn discard(text: &str) -> Result<Discarding, String> {
    Discarding::named(text).ok_or_else(|| "default, yes or no".to_owned())
}
