//! Programs of ubi_reader, jefferson and mtd-utils under their own names: `floatgate as NAME`, or a link with such a
//! name to floatgate.
//!
//! - `build`: `mkfs.ubifs`, `ubinize`, `mkfs.jffs2`, `sumtool`.
//! - `extract`: `ubireader_extract_files`, `ubireader_extract_images`, `ubireader_display_info`, `jefferson`.

mod build;
mod extract;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use floatgate_host::signals;

use crate::common::{Failure, Outcome};
use crate::output;
use crate::terminal;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate as ubireader_display_info rootfs.ubi
  floatgate as ubireader_extract_files -o out rootfs.ubi
  floatgate as mkfs.ubifs -r overlay -m 2048 -e 126976 -c 100 -o new.ubifs

Names: jefferson, mkfs.jffs2, mkfs.ubifs, sumtool, ubinize, ubireader_display_info, ubireader_extract_files, ubireader_extract_images. \
A link to floatgate with one of these names acts as that program, for tools that call it: ln -s $(command -v floatgate) /usr/local/bin/jefferson.

The options, output names and exit statuses are the same as those of the program. An option that floatgate does not support is refused.")]
pub(crate) struct Args {
    /// Name of the program to act as
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(PROGRAMS.iter().map(|program| program.name)))]
    name: String,

    /// Arguments of the program; its --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// A program of another package.
struct Program {
    name: &'static str,
    /// Exit status after a failure.
    failed: u8,
    /// Exit status after wrong usage: 2 in programs with argparse and click, 1 or the status of each failure in
    /// mtd-utils.
    misused: u8,
    /// Exit status of a call without arguments, which prints the help; `None` if such a call is not special.
    without_arguments: Option<u8>,
    command: fn() -> clap::Command,
    arguments: fn(&[OsString]) -> Vec<OsString>,
    run: fn(&ArgMatches) -> Outcome,
}

/// Supported programs with their names.
const PROGRAMS: [Program; 8] = [
    program::<extract::Jefferson>("jefferson", (1, 2), None),
    program::<build::MkfsJffs2>("mkfs.jffs2", (255, 1), None),
    program::<build::MkfsUbifs>("mkfs.ubifs", (255, 255), None),
    program::<build::Sumtool>("sumtool", (255, 1), None),
    program::<build::Ubinize>("ubinize", (255, 255), None),
    program::<extract::DisplayInfo>("ubireader_display_info", (1, 2), Some(1)),
    program::<extract::ExtractFiles>("ubireader_extract_files", (1, 2), Some(1)),
    program::<extract::ExtractImages>("ubireader_extract_images", (1, 2), Some(1)),
];

/// Arguments with which a program runs.
trait Run: CommandFactory + FromArgMatches {
    /// Converts the arguments to a form that clap reads in the same way as the program.
    fn arguments(arguments: &[OsString]) -> Vec<OsString> {
        arguments.to_vec()
    }

    fn run(&self) -> Outcome;
}

const fn program<P: Run>(
    name: &'static str,
    (failed, misused): (u8, u8),
    without_arguments: Option<u8>,
) -> Program {
    Program {
        name,
        failed,
        misused,
        without_arguments,
        command: P::command,
        arguments: P::arguments,
        run: run_parsed::<P>,
    }
}

fn run_parsed<P: Run>(matches: &ArgMatches) -> Outcome {
    let program = P::from_arg_matches(matches);
    program.map_err(|error| Failure::new(error, "--help lists the options"))?.run()
}

impl Program {
    fn run(&self, arguments: &[OsString]) -> ExitCode {
        let mut command = (self.command)().name(self.name).bin_name(self.name);
        if let Some(status) = self.without_arguments.filter(|_| arguments.is_empty()) {
            return printed(&command.render_help().to_string(), status);
        }
        let name = [OsString::from(self.name)];
        let arguments = (self.arguments)(arguments);
        match command.try_get_matches_from_mut(name.iter().chain(&arguments)) {
            Ok(matches) => (self.run)(&matches).unwrap_or_else(|failure| self.fail(failure)),
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
                printed(&error.render().to_string(), 0)
            }
            Err(error) => {
                terminal::print_note(error.render().to_string().trim_end());
                ExitCode::from(self.misused)
            }
        }
    }

    fn fail(&self, failure: Failure) -> ExitCode {
        let _ = failure.report();
        ExitCode::from(self.failed)
    }
}

fn printed(text: &str, status: u8) -> ExitCode {
    output::print(text).map_or_else(Failure::report, |()| ExitCode::from(status))
}

pub(crate) fn run(args: &Args) -> Outcome {
    let program = PROGRAMS.iter().find(|program| program.name == args.name);
    let unknown = || Failure::new("no such program", "--help lists the names");
    Ok(program.ok_or_else(unknown)?.run(&args.arguments))
}

/// Runs the program of another package under whose name this process was called; `None` if there is no such program.
pub(crate) fn called() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let path = arguments.next()?;
    let name = Path::new(&path).file_name()?.to_str()?;
    let program = PROGRAMS.iter().find(|program| program.name == name)?;
    signals::remove_outputs_at_the_end(terminal::print_note);
    Some(program.run(&arguments.collect::<Vec<_>>()))
}
