//! The studies of `floatgate_lab::study` as subcommands.

use crate::common::{Failure, Outcome};
use crate::fs::progress_bar;
use crate::output::ReportFormat;
use crate::table;
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use floatgate_config::Library;
use floatgate_lab::progress::Progress;
use floatgate_lab::study::report::{Align, Cell, Section, Table};
use floatgate_lab::study::{Context, Registered, Report};
use indicatif::ProgressBar;
use std::process::ExitCode;
use std::sync::OnceLock;

/// Place of the studies in the list of commands: behind the first one.
const PLACE: usize = 1;

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
    let command = study.with_arguments(Command::new(name));
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
    let format = ReportFormat::from_arg_matches(arguments)
        .map_err(|error| Failure::new(error, "this is a bug in floatgate: please report it"))?;
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
    let finished = study.run_arguments(arguments, &Context { library: &library, progress: &progress })?;
    if let Some(bar) = bar.get() {
        bar.finish_and_clear();
    }
    format.print_study(&finished)?;
    Ok(if finished.found_problem { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// A report as the text of the command: its sections with blank lines between them.
pub(crate) fn text(report: &Report) -> String {
    let title = Some(&report.title).filter(|title| !title.is_empty());
    let head: Vec<&str> = title.into_iter().chain(&report.head).map(String::as_str).collect();
    let sections = report.sections.iter().map(|section| match section {
        Section::Text(lines) => lines.join("\n"),
        Section::Table(table) => drawn(table),
        Section::Advice(all) => all.iter().map(|advice| format!("- {advice}")).collect::<Vec<_>>().join("\n"),
    });
    let parts = std::iter::once(head.join("\n")).chain(sections).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

fn drawn(table: &Table) -> String {
    let mut drawn = table::Table::new(table.columns.iter().map(|column| column.heading));
    for (at, _) in table.columns.iter().enumerate().filter(|(_, column)| column.align == Align::Right) {
        drawn = drawn.numbers(at..=at);
    }
    for row in &table.rows {
        drawn.row(row.iter().map(Cell::text));
    }
    if table.caption.is_empty() { drawn.to_string() } else { format!("{}\n{drawn}", table.caption) }
}

#[cfg(test)]
mod tests;
