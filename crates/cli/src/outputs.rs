//! Checks of a command's output files before the command starts: each output differs from all inputs and from all
//! other outputs.

use crate::common::Failure;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use floatgate_host::output::{OutputError, is_same_file, is_stdout};
use std::path::{Path, PathBuf};

/// Options whose value is an output file.
const OUTPUTS: [&str; 10] =
    ["output", "plot", "raw", "record", "repair", "checkpoint", "junit", "vcd", "pins", "perfetto"];

/// Refuses an output that is an input, or another output. A file that does not exist cannot be an input.
///
/// # Errors
/// The first such output.
pub(crate) fn check(mut command: &Command, mut matches: &ArgMatches) -> Result<(), Failure> {
    let mut values = values(command, matches);
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        (command, matches) = (found, inner);
        values.extend(self::values(command, matches));
    }
    let to_stdout: Vec<&str> = values
        .iter()
        .filter(|(id, path)| OUTPUTS.contains(&id.as_str()) && is_stdout(path))
        .map(|(id, _)| id.as_str())
        .collect();
    if let [first, second, ..] = to_stdout[..] {
        return Err(Failure::new(
            format!("--{first} and --{second} both go to stdout"),
            "name a file for one of them",
        ));
    }
    let is_output = |(id, path): &&(String, PathBuf)| OUTPUTS.contains(&id.as_str()) && !is_stdout(path);
    let (outputs, inputs): (Vec<_>, Vec<_>) = values.iter().partition(|value| is_output(value));
    for (at, (id, output)) in outputs.iter().enumerate() {
        let same = |(_, input): &&&(String, PathBuf)| is_same_file(input, output);
        if let Some((_, input)) = inputs.iter().find(same) {
            return Err(OutputError::SameFile { output: output.clone(), input: input.clone() }.into());
        }
        let is_taken = |(_, other): &&&(String, PathBuf)| is_one_name(other, output);
        if let Some((other, _)) = outputs[..at].iter().find(is_taken) {
            let message = format!("--{id} {}: --{other} is written to the same file", output.display());
            return Err(Failure::new(message, "name two files"));
        }
    }
    Ok(())
}

/// Arguments of one level of the command line, each with all its texts that may be paths: `chip=a.toml,b.toml` has
/// two.
fn values(command: &Command, matches: &ArgMatches) -> Vec<(String, PathBuf)> {
    let given = command.get_arguments().map(|arg| arg.get_id().as_str()).filter(|id| {
        matches!(matches.try_contains_id(id), Ok(true))
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    });
    let mut values = Vec::new();
    for id in given {
        for value in matches.get_raw(id).into_iter().flatten() {
            values.push((id.to_owned(), PathBuf::from(value)));
            let text = value.to_string_lossy();
            let behind = text.split_once('=').map_or("", |(_, behind)| behind);
            values.extend(
                behind.split(',').filter(|path| !path.is_empty()).map(|path| (id.to_owned(), path.into())),
            );
        }
    }
    values
}

/// True if two outputs have the same name; a file of this name need not exist.
fn is_one_name(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some((parent.canonicalize().ok()?, path.file_name()?.to_owned()))
    };
    is_same_file(one, other) || place(one).is_some_and(|one| Some(one) == place(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options whose help mentions a written file, but whose value is a folder or several files.
    const FOLDERS: [&str; 1] = ["registers"];

    fn visit(command: &Command) {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let writes =
                ["Write ", "Draw ", "File to write", "Output file"].iter().any(|verb| help.starts_with(verb));
            let id = arg.get_id().as_str();
            assert!(
                !writes || OUTPUTS.contains(&id) || FOLDERS.contains(&id),
                "{}: --{id} is an output",
                command.get_name()
            );
        }
        command.get_subcommands().for_each(visit);
    }

    #[test]
    fn every_option_that_writes_a_file_is_known() {
        visit(&crate::command());
    }
}
