//! Running the binary.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a run of the binary left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The built binary, with surroundings that do not depend on who runs the tests.
pub(crate) fn floatgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "RUST_BACKTRACE", "RAYON_NUM_THREADS"] {
        command.env_remove(name);
    }
    command.env("COLUMNS", "110").env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
    command
}

/// Runs a prepared command to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `floatgate` with `args`, in `folder`.
pub(crate) fn run_in<A: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = A>) -> Run {
    finish(floatgate().args(args).current_dir(folder))
}

/// Runs `floatgate` with the words of `line`.
pub(crate) fn run(line: &str) -> Run {
    finish(floatgate().args(line.split_whitespace()).current_dir(scratch("empty")))
}

/// As [`run`], of a command that must succeed: its stdout.
pub(crate) fn stdout(line: &str) -> String {
    let run = run(line);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "floatgate {line}");
    run.out
}

/// A folder for one test.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// As [`scratch`], without what an earlier run left in it.
pub(crate) fn fresh(name: &str) -> PathBuf {
    let folder = scratch(name);
    std::fs::remove_dir_all(&folder).unwrap();
    scratch(name)
}

/// The names that a list of the catalogue gives (`parts --kind raw-nand`, `setups`), by their JSON key.
pub(crate) fn names(list: &str, key: &str) -> Vec<String> {
    let rows: serde_json::Value = serde_json::from_str(&stdout(&format!("{list} --json"))).unwrap();
    let rows = rows.as_array().unwrap();
    assert!(!rows.is_empty(), "{list} is empty");
    rows.iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
}

/// The subcommands, from the help text.
pub(crate) fn subcommands() -> Vec<String> {
    let help = stdout("--help");
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// A table of measurements of a user, whose only row is `published` and simulates 11034 KiB/s.
pub(crate) fn paper(published: f64) -> String {
    format!(
        "paper = 'mine'\ntitle = 'Measured at home'\n\n[[table]]\nname = 'reads'\ntitle = 'Page reads'\nunit = 'KiB/s'\n\
         setup = 'am62a-w35n01jw'\nrow = [{{ row = 'page', published = {published}, kind = 'predicted', measure = 'page read' }}]\n"
    )
}

/// Asserts that a run was refused as a person would like it: exit 2, nothing on stdout, a message, no panic.
pub(crate) fn assert_refused(what: &str, run: &Run) {
    assert_eq!(run.code, Some(2), "{what}\n{}{}", run.out, run.err);
    assert_eq!(run.out, "", "{what} prints results although it fails");
    assert!(
        run.err.contains('×') || run.err.starts_with("error:") || run.err.contains("Usage:"),
        "{what}\n{}",
        run.err
    );
    assert!(!run.err.contains("panicked"), "{what}\n{}", run.err);
}
