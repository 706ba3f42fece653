//! The `floatgate` command. Each subcommand has its own file; the logic is in `floatgate-lab`.
//!
//! Results go to stdout, all other output goes to stderr. Exit status 0: success; 1: a check found a problem; 2:
//! wrong usage or unreadable input.

#[cfg(test)]
mod advice;
mod advise;
mod card;
mod check_capture;
mod common;
mod completions;
mod conformance;
mod devices;
mod drawn;
mod ecc;
mod examples;
mod fit;
mod foreign;
mod forms;
mod fs;
mod help;
mod image;
mod list;
mod man;
#[cfg(not(feature = "mount"))]
mod no_mount;
mod otp;
mod output;
mod outputs;
mod parts;
mod powercut;
mod printed;
mod probe;
mod profiles;
mod report;
mod serve;
mod setups;
mod speed;
mod study;
mod sweep;
mod table;
mod terminal;
mod trace;
mod wrap;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use common::Failure;
use floatgate_host::signals;
use floatgate_lab::study::{Registered, STUDIES};
use std::ffi::OsString;
use std::process::ExitCode;

/// Allocator that takes memory in large pages. Page data is allocated and freed in thousands of small buffers, which
/// mainly affects the first write to a simulated chip (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A workbench for flash storage: name a chip, a bus and a controller, and see how fast that is and where each
/// microsecond goes.
#[derive(Parser)]
#[command(name = "floatgate", version, propagate_version = true, max_term_width = 110)]
#[command(after_help = "Examples:
  floatgate speed am62a-w35n01jw
  floatgate speed am62a-w35n01jw --sweep bus.mode=1-1-1,1-1-8,1-8-8,8D-8D-8D
  floatgate trace am62a-w35n01jw read-page
  floatgate papers
  floatgate ecc check dump.nand --part mt29f2g08aad
  floatgate list w35n01jw")]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Print colours and bold text: on a terminal only (auto), always, or never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    color: terminal::Colours,

    /// Print only errors on stderr, without progress bars and notes
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Predict the output of flash_speed on a board, and show where the time goes
    Speed(speed::Args),
    /// Draw one operation as a waterfall on the timelines of CPU, controller, bus and chip
    Trace(trace::Args),
    /// Compare filesystems and the bare flash on a setup: write, read and mount times, space
    Fs(fs::Args),
    /// Show, write and lock one-time-programmable areas
    Otp(otp::Args),
    /// SD cards and eMMC: how fast they are empty, used and full, and what slows them down
    Card(card::Args),
    /// Measure an unknown card, drive or file, and determine its allocation unit, page, open allocation units,
    /// caches and real size
    Probe(probe::Args),
    /// Advise on a card, block device or flash chip: partition, filesystem and its options, ECC, expected speed and life, with the figures behind each advice
    Advise(advise::Args),
    /// Fit the costs of host and controller to figures measured on your board, and write a fitted setup
    Fit(fit::Args),
    /// Encode images for flash programmers; decode and check dumps of real chips
    Ecc(ecc::Args),
    /// Inspect, extract, build, change and check images of UBI, UBIFS and JFFS2
    Image(image::Args),
    /// Act as a program of ubi_reader, jefferson or mtd-utils, with its options and exit statuses
    As(foreign::Args),
    /// Cut the power of a filesystem at every flash operation, and check that it loses only unsynced data
    Powercut(powercut::Args),
    /// Check a driver in C on simulated chips, and print a score card of passed and failed checks
    Conformance(conformance::Args),
    /// Measure many designs of a setup, from a grid or a sample, with constraints, the Pareto front and the effect of each parameter
    Sweep(sweep::Args),
    /// Serve a simulated chip to flashrom or to Linux's own drivers, and report the time of the real chip and each violation of its rules
    Serve(serve::Args),
    /// Check the commands in a capture of a logic analyser against the rules of a chip
    CheckCapture(check_capture::Args),
    /// Write setups and results as one HTML page: bottlenecks, waterfalls, sortable tables, Pareto plots, sources
    Report(report::Args),
    /// List the catalogue (parts, setups, controllers, hosts, keys, traces, schemas), or show one entry of it
    List(list::Args),
    /// Chips and cards
    Parts(parts::Args),
    /// Boards ready to run, each with its chip, controller and host
    Setups(setups::Args),
    /// The controllers that setups are based on
    #[command(after_help = "Examples:\n  floatgate list controllers\n  floatgate list cadence-qspi-am62a")]
    Controllers(profiles::Args),
    /// The hosts that setups are based on: costs of calls, drivers and copies
    #[command(after_help = "Examples:\n  floatgate list hosts\n  floatgate list linux-am62a")]
    Hosts(profiles::Args),
    /// Write the files that the examples in the help texts use
    Examples(examples::Args),
    /// Print or write manual pages
    Man(man::Args),
    /// Print shell completions
    Completions(completions::Args),
}

fn main() -> ExitCode {
    completions::answer();
    if let Err(no_stdout) = output::require_stdout() {
        return no_stdout.report();
    }
    if let Some(status) = foreign::called() {
        return status;
    }
    let command = match parse() {
        Ok(Ok(Parsed::Command(command))) => command,
        Ok(Ok(Parsed::Study(study, arguments))) => {
            signals::remove_outputs_at_the_end(terminal::print_note);
            return study::run(study, &arguments).unwrap_or_else(Failure::report);
        }
        Ok(Err(refused)) => return refused.report(),
        Err(message) if message.use_stderr() => return refuse(&message),
        // Help or version.
        Err(text) => return print_help(&text).map_or_else(Failure::report, |()| ExitCode::SUCCESS),
    };
    // These signals end a mount in order, and make a probe restore the overwritten data.
    let ends_itself = match &command {
        Command::Image(args) => args.is_mount(),
        Command::Card(args) => args.is_mount(),
        // `advise` also probes devices.
        Command::Probe(_) | Command::Advise(_) => true,
        Command::Powercut(args) => args.forks(),
        // The command forks child processes, and must therefore have a single thread.
        Command::Conformance(_) => true,
        // The command saves its state at the end.
        Command::Serve(_) => true,
        _ => false,
    };
    if !ends_itself {
        signals::remove_outputs_at_the_end(terminal::print_note);
    }
    let outcome = match command {
        Command::Speed(args) => speed::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Fs(args) => fs::run(&args),
        Command::Otp(args) => otp::run(&args),
        Command::Card(args) => card::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Ecc(args) => ecc::run(&args),
        Command::Image(args) => image::run(&args),
        Command::As(args) => foreign::run(&args),
        Command::Powercut(args) => powercut::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::CheckCapture(args) => check_capture::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Parts(args) => parts::run(&args),
        Command::Setups(args) => setups::run(&args),
        Command::List(args) => list::run(&args),
        Command::Controllers(args) => list::controllers(&args),
        Command::Hosts(args) => list::hosts(&args),
        Command::Examples(args) => examples::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Completions(args) => completions::run(&args),
    };
    outcome.unwrap_or_else(|failure| failure.report())
}

/// A command line.
enum Parsed {
    Command(Command),
    Study(&'static dyn Registered, ArgMatches),
}

/// The complete command with its studies, in groups.
fn command() -> clap::Command {
    help::grouped(forms::with_forms(study::with_studies(Cli::command(), STUDIES)))
}

/// Parses the command line. A negative number is read as the value of the option before it, so that the error names
/// the option. Outputs that would overwrite an input are refused.
fn parse() -> Result<Result<Parsed, Failure>, clap::Error> {
    let mut command = help::with_whole_examples(with_negative_numbers(command()));
    let typed: Vec<OsString> = std::env::args_os().collect();
    terminal::choose_colours(&typed);
    let typed = forms::with_name_first(typed);
    let mut arguments = forms::routed(&command, typed.clone());
    name_help_of_help(&command, &mut arguments);
    let matches = command.try_get_matches_from_mut(arguments.clone());
    let matches = matches.map_err(|error| {
        let error = forms::with_equals_sign(error, &command, &arguments);
        forms::with_other_form(error, &command, &typed)
    })?;
    if matches.get_flag("quiet") {
        terminal::be_quiet();
    }
    let parsed = match study::named(&matches, STUDIES) {
        Some((study, arguments)) => Parsed::Study(study, arguments.clone()),
        None => {
            let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
            Parsed::Command(cli.command)
        }
    };
    Ok(outputs::check(&command, &matches).map(|()| parsed))
}

/// Makes `help --help` the help of `help`: clap would read the option as the name of a command.
fn name_help_of_help(command: &clap::Command, arguments: &mut [OsString]) {
    let [_, names @ .., help, option] = arguments else { return };
    let of = names.iter().try_fold(command, |command, name| command.find_subcommand(name));
    if of.is_some_and(clap::Command::has_subcommands)
        && *help == "help"
        && (*option == "--help" || *option == "-h")
    {
        *option = OsString::from("help");
    }
}

fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |arg: clap::Arg| {
        let takes_a_value = arg.get_action().takes_values();
        if takes_a_value { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(allow).mut_subcommands(with_negative_numbers)
}

/// Error messages of the standard library about numbers, with replacements for users.
const NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "it is no whole number from 0 on"),
    ("number too large to fit in target type", "it is too large a number"),
    ("invalid float literal", "it is no number"),
];

/// Prints the error about the command line, which may contain arbitrary bytes.
fn refuse(message: &clap::Error) -> ExitCode {
    let text = message.render();
    let text = if terminal::colour_of_stderr() { text.ansi().to_string() } else { text.to_string() };
    terminal::print_stderr(
        NUMBERS
            .iter()
            .fold(help::with_spaces(&text), |text, (of_rust, ours)| text.replace(of_rust, ours))
            .trim_end(),
    );
    ExitCode::from(2)
}

fn print_help(message: &clap::Error) -> Result<(), Failure> {
    let text = message.render();
    let text = if terminal::colour() { text.ansi().to_string() } else { text.to_string() };
    output::print(&help::with_spaces(&text))
}
