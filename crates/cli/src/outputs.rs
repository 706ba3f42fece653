//! Checks of a command's output files before the command starts: each output differs from all inputs and from all
//! other outputs.

use crate::common::Failure;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use floatgate_host::output::{OutputError, is_same_file, is_stdout};
use std::any::TypeId;
use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// Value of an option that names an output. Its type marks the option in [`check`].
#[derive(Clone, Debug)]
pub(crate) struct OutputFile(PathBuf);

impl From<OsString> for OutputFile {
    fn from(path: OsString) -> Self {
        Self(path.into())
    }
}

impl Deref for OutputFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for OutputFile {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

/// True if the value of an argument is an output.
fn is_output(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<OutputFile>()
}

/// A text of an argument that may be a path.
struct Value {
    id: String,
    is_output: bool,
    path: PathBuf,
}

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
        .filter(|value| value.is_output && is_stdout(&value.path))
        .map(|value| value.id.as_str())
        .collect();
    if let [first, second, ..] = to_stdout[..] {
        return Err(Failure::new(
            format!("--{first} and --{second} both go to stdout"),
            "name a file for one of them",
        ));
    }
    let (outputs, inputs): (Vec<_>, Vec<_>) =
        values.iter().partition(|value| value.is_output && !is_stdout(&value.path));
    for (at, Value { id, path: output, .. }) in outputs.iter().enumerate() {
        if let Some(input) = inputs.iter().find(|input| is_same_file(&input.path, output)) {
            return Err(OutputError::SameFile { output: output.clone(), input: input.path.clone() }.into());
        }
        if let Some(other) = outputs[..at].iter().find(|other| is_one_name(&other.path, output)) {
            let message = format!("--{id} {}: --{} is written to the same file", output.display(), other.id);
            return Err(Failure::new(message, "name two files"));
        }
    }
    Ok(())
}

/// Arguments of one level of the command line, each with all its texts that may be paths: `chip=a.toml,b.toml` has
/// two.
fn values(command: &Command, matches: &ArgMatches) -> Vec<Value> {
    let given = command.get_arguments().filter(|arg| {
        let id = arg.get_id().as_str();
        matches!(matches.try_contains_id(id), Ok(true))
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    });
    let mut values = Vec::new();
    for arg in given {
        let id = arg.get_id().as_str();
        let mut add = |path| values.push(Value { id: id.to_owned(), is_output: is_output(arg), path });
        for value in matches.get_raw(id).into_iter().flatten() {
            add(PathBuf::from(value));
            let text = value.to_string_lossy();
            let behind = text.split_once('=').map_or("", |(_, behind)| behind);
            behind.split(',').filter(|path| !path.is_empty()).for_each(|path| add(path.into()));
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
                !writes || is_output(arg) || FOLDERS.contains(&id),
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
