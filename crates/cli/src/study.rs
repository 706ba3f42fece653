//! The studies of `floatgate_lab::study` as subcommands.

use crate::common::{self, Outcome};
use crate::fs::progress_bar;
use crate::output::{self, ReportFormat};
use crate::table;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgMatches, Args as _, Command, FromArgMatches as _, value_parser};
use floatgate_config::Library;
use floatgate_lab::progress::Progress;
use floatgate_lab::study::report::{Align, Bar, Cell, Section, Table};
use floatgate_lab::study::{Context, Picture, Registered, Report};
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

/// Place of the studies in the list of commands: behind the first one.
const PLACE: usize = 1;

/// The option for pictures, of the studies that draw some.
const PLOT: &str = "plot";

/// The option for one of the tables, of the studies that have several.
const TABLE: &str = "table";

/// The command with a subcommand for each study.
pub(crate) fn with_studies(command: Command, studies: &[&dyn Registered]) -> Command {
    studies.iter().fold(command, |command, study| {
        let words: Vec<&'static str> = study.name().split(' ').collect();
        let command = with_study(command, &words, *study);
        match words[..] {
            [name] => command.mut_subcommand(name, |inner| inner.display_order(PLACE)),
            _ => command,
        }
    })
}

fn with_study(command: Command, words: &[&'static str], study: &dyn Registered) -> Command {
    match *words {
        [] => command,
        [name] => command.subcommand(subcommand(name, study)),
        [group, ref rest @ ..] => command.mut_subcommand(group, |inner| with_study(inner, rest, study)),
    }
}

fn subcommand(name: &'static str, study: &dyn Registered) -> Command {
    let mut command = study.with_arguments(Command::new(name));
    if !study.tables().is_empty() {
        let table = |(name, help): &(&'static str, &'static str)| PossibleValue::new(name).help(help);
        let tables = PossibleValuesParser::new(study.tables().iter().map(table));
        let help = "Print this table only; with --csv, the first one unless another is named";
        command =
            command.arg(Arg::new(TABLE).long(TABLE).value_name("TABLE").help(help).value_parser(tables));
    }
    if let Some((value, help)) = study.plot() {
        let plot = Arg::new(PLOT).long(PLOT).value_name(value).help(help);
        command = command.arg(plot.value_parser(value_parser!(PathBuf)));
    }
    // The options of the format would replace what the command says about itself.
    let about = command.get_about().cloned();
    ReportFormat::augment_args(command).about(about.unwrap_or_default())
}

/// The study that a command line names, with its arguments.
pub(crate) fn named<'a>(
    matches: &'a ArgMatches,
    studies: &[&'static dyn Registered],
) -> Option<(&'static dyn Registered, &'a ArgMatches)> {
    studies.iter().find_map(|study| {
        let inner = study.name().split(' ').try_fold(matches, |outer, word| outer.subcommand_matches(word));
        Some((*study, inner?))
    })
}

/// Runs a study and prints its result.
pub(crate) fn run(study: &dyn Registered, arguments: &ArgMatches) -> Outcome {
    let format = ReportFormat::from_arg_matches(arguments).map_err(output::bug)?;
    let plot = arguments.try_get_one::<PathBuf>(PLOT).ok().flatten().map(PathBuf::as_path);
    common::check_plot(plot)?;
    let table = arguments.try_get_one::<String>(TABLE).ok().flatten().map(String::as_str);
    let library = Library::built_in();
    let bar: OnceLock<ProgressBar> = OnceLock::new();
    let shown = || {
        bar.get_or_init(|| {
            progress_bar(&format!("{{wide_bar}} {{pos}} of {{len}} {}, {{elapsed}}", study.steps()))
        })
    };
    let progress = |news| match news {
        Progress::Steps(steps) => shown().set_length(steps),
        Progress::Done(steps) => shown().inc(steps),
    };
    let mut finished =
        study.run_arguments(arguments, &Context { library: &library, progress: &progress, table, plot })?;
    if let Some(bar) = bar.get() {
        bar.finish_and_clear();
    }
    if let Some(table) = table {
        let is_shown = |section: &Section| matches!(section, Section::Table(one) if one.key == table);
        finished.report.sections.retain(is_shown);
    }
    for Picture { path, svg } in &finished.pictures {
        common::write_picture(path, svg)?;
    }
    format.print_study(&finished)?;
    Ok(if finished.found_problem { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// A report as the text of the command: its sections with blank lines between them. The conclusion follows in [`ReportFormat`].
pub(crate) fn text(report: &Report) -> String {
    let title = Some(&report.title).filter(|title| !title.is_empty());
    let head: Vec<&str> = title.into_iter().chain(&report.head).map(String::as_str).collect();
    let sections = report.sections.iter().map(|section| match section {
        Section::Text(lines) => lines.join("\n"),
        Section::Table(table) => drawn(table),
        Section::Bars { caption, bars } => format!("{caption}\n{}", drawn_bars(bars)),
        Section::Advice(all) => all.iter().map(|advice| format!("- {advice}")).collect::<Vec<_>>().join("\n"),
    });
    let parts = std::iter::once(head.join("\n")).chain(sections).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

fn drawn(table: &Table) -> String {
    // A column in which no row has anything says nothing.
    let tells =
        |at: usize| table.rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.text().is_empty()));
    let shown: Vec<usize> = (0..table.columns.len()).filter(|at| *at == 0 || tells(*at)).collect();
    let columns = || shown.iter().filter_map(|at| table.columns.get(*at));
    let place = |heading: &&str| columns().position(|column| column.heading == *heading);
    let mut drawn =
        table::Table::new(columns().map(|column| column.heading)).minor(table.minor.iter().filter_map(place));
    for (at, _) in columns().enumerate().filter(|(_, column)| column.align == Align::Right) {
        drawn = drawn.numbers(at..=at);
    }
    for row in &table.rows {
        drawn.row(shown.iter().filter_map(|at| row.get(*at)).map(Cell::text));
    }
    let caption = Some(table.caption.clone()).filter(|caption| !caption.is_empty());
    let lines = caption.into_iter().chain([drawn.to_string()]).chain(table.below.iter().cloned());
    lines.collect::<Vec<_>>().join("\n")
}

/// Longest bar, columns.
const BAR: usize = 40;

fn drawn_bars(bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(1).max(1);
    let widest = bars.iter().map(|bar| bar.name.len()).max().unwrap_or(0);
    // Indentation, count and the spaces between them take 12 columns.
    let longest = output::width().saturating_sub(widest + 12).clamp(1, BAR) as u128;
    let line = |Bar { name, count }: &Bar| {
        let length = (u128::from(*count) * longest).div_ceil(u128::from(most));
        let bar = "█".repeat(usize::try_from(length).unwrap_or(0));
        format!("  {name:>widest$}  {count:>6}  {bar}")
    };
    bars.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
