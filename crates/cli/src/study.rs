//! Studies of `floatgate_lab::study` as subcommands.

use crate::common::{self, Outcome};
use crate::output::{self, ReportFormat};
use crate::outputs::OutputFile;
use crate::terminal::progress_bar;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgMatches, Args as _, Command, FromArgMatches as _, value_parser};
use floatgate_config::Library;
use floatgate_lab::progress::Progress;
use floatgate_lab::study::report::Section;
use floatgate_lab::study::{Context, Picture, Registered};
use indicatif::ProgressBar;
use std::process::ExitCode;
use std::sync::OnceLock;

/// Position of the studies in the list of commands: after the first command.
const PLACE: usize = 1;

/// Option for pictures, in studies that draw them.
const PLOT: &str = "plot";

/// Option for one of the tables, in studies with several tables.
const TABLE: &str = "table";

/// Adds a subcommand for each study to the command.
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
        command = command.arg(plot.value_parser(value_parser!(OutputFile)));
    }
    // The options of the format would replace the description of the command.
    let about = command.get_about().cloned();
    ReportFormat::augment_args(command).about(about.unwrap_or_default())
}

/// Study that a command line names, with its arguments.
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
    let plot = arguments.try_get_one::<OutputFile>(PLOT).ok().flatten().map(|plot| &**plot);
    common::check_plot(plot)?;
    let table = arguments.try_get_one::<String>(TABLE).ok().flatten().map(String::as_str);
    let library = Library::built_in();
    let bar: OnceLock<ProgressBar> = OnceLock::new();
    let shown = || {
        bar.get_or_init(|| {
            progress_bar(&format!(
                "{{wide_bar}} {{percent}} %, {{pos}} of {{len}} {}, {{elapsed}}",
                study.steps()
            ))
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

#[cfg(test)]
mod tests;
