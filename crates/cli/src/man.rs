//! `floatgate man`.

use crate::common::{self, Failure, Outcome};
use crate::output;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate man
  floatgate man speed
  floatgate man image check
  floatgate man -o man/man1")]
pub(crate) struct Args {
    /// Subcommand whose page is printed; without one, the page of floatgate itself
    #[arg(value_name = "SUBCOMMAND", conflicts_with = "output")]
    command: Vec<String>,

    /// Directory for the pages of all subcommands, floatgate-speed.1 and so on; it is made if there is none
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut root = crate::command();
    root.build();
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder).map_err(|error| refused(folder, &error))?;
        write_all(&root, "floatgate", folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut command, mut name) = (&root, "floatgate".to_owned());
    for word in &args.command {
        command = command.find_subcommand(word).ok_or_else(|| {
            Failure::new(
                format!("{name} has no subcommand `{word}`"),
                format!("`{} --help` lists them", name.replace('-', " ")),
            )
        })?;
        name = format!("{name}-{}", command.get_name());
    }
    output::print(&page(command, &name)?)?;
    Ok(ExitCode::SUCCESS)
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "choose a directory in which files can be made")
}

/// The page of a command as troff.
fn page(command: &clap::Command, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    clap_mangen::Man::new(command.clone().disable_help_subcommand(true))
        .title(name)
        .source(concat!("floatgate ", env!("CARGO_PKG_VERSION")))
        .render(&mut bytes)
        .map_err(|error| Failure::new(error, "this is a bug in floatgate: please report it"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes the page of a command and those of its subcommands.
fn write_all(command: &clap::Command, name: &str, folder: &Path) -> Result<(), Failure> {
    common::write_file(&folder.join(format!("{name}.1")), &page(command, name)?)?;
    let others = command.get_subcommands().filter(|other| other.get_name() != "help" && !other.is_hide_set());
    for other in others {
        write_all(other, &format!("{name}-{}", other.get_name()), folder)?;
    }
    Ok(())
}
