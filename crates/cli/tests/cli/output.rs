//! Where output goes, and what is in it.

use crate::support::{finish, floatgate, fresh, run_in, stdout, subcommands};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const LINES: [&str; 11] = [
    "speed am62a-w35n01jw",
    "speed am62a-w35n01jw --sweep bus.mode=1-1-1,8D-8D-8D",
    "trace am62a-w35n01jw read-page",
    "keystore",
    "endurance mt29f8g08maawc",
    "endurance --all",
    "papers",
    "parts",
    "parts w35n01jw",
    "setups",
    "speed --help",
];

#[test]
fn what_is_no_terminal_gets_no_escape_codes() {
    for line in LINES.into_iter().chain(["speed nosuch", "trace am62a-w35n01jw nosuch", "papers nosuch"]) {
        for no_color in ["", "1"] {
            let run = finish(floatgate().args(line.split_whitespace()).env("NO_COLOR", no_color));
            assert!(!run.out.contains('\u{1B}') && !run.err.contains('\u{1B}'), "{line}");
        }
    }
}

#[test]
fn lines_fit_into_the_columns() {
    for columns in [80, 110, 132] {
        for line in LINES.into_iter().filter(|line| !line.contains("--help")) {
            let run = finish(floatgate().args(line.split_whitespace()).env("COLUMNS", columns.to_string()));
            // Titles and sentences wrap by themselves; tables, bars and waterfalls must not.
            let drawn = |text: &&str| text.starts_with(['─', '═', '█']) || text.trim().contains("   ");
            for text in run.out.lines().filter(drawn) {
                assert!(text.chars().count() <= columns, "{line} in {columns} columns:\n{text}");
            }
        }
    }
}

#[test]
fn no_line_ends_in_a_fraction_of_nothing() {
    let papers = stdout("papers");
    assert!(!papers.contains("-0.0 %") && !papers.contains("+0.0 %"), "zero has no sign");
    for line in LINES {
        let out = stdout(line);
        for nonsense in ["NaN", "inf ", "nan ", "null"] {
            assert!(!out.contains(nonsense), "{nonsense:?} in {line}");
        }
    }
}

#[test]
fn a_plot_is_told_on_stderr_and_results_stay_on_stdout() {
    let folder = fresh("told");
    let with = run_in(&folder, ["speed", "am62a-w35n01jw", "--json", "--plot", "x.svg"]);
    let without = run_in(&folder, ["speed", "am62a-w35n01jw", "--json"]);
    assert_eq!((with.code, with.err.as_str()), (Some(0), "wrote x.svg\n"));
    assert_eq!(with.out, without.out);
}

#[test]
fn every_command_ends_quietly_when_its_reader_goes_away() {
    let lines = [
        "trace am62a-w35n01jw write-block --json",
        "papers --json",
        "completions bash",
        "parts --json",
        "speed am62a-w35n01jw -C",
    ];
    for line in lines {
        let mut command = floatgate();
        command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut first = String::new();
        // The reader is dropped at the end of the statement: what is written later meets a closed pipe.
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty(), "{line}");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    }
}

#[test]
fn an_error_that_nobody_reads_is_still_exit_2() {
    let mut child = floatgate().args(["speed", "nosuch"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn every_command_is_in_the_help_and_explains_its_arguments() {
    let commands = subcommands();
    for expected in
        ["speed", "trace", "keystore", "endurance", "papers", "ecc", "parts", "setups", "completions"]
    {
        assert!(commands.iter().any(|command| command == expected), "{expected} is not in the help");
    }
    for command in commands {
        let help = stdout(&format!("{command} --help"));
        assert!(help.contains("Usage: floatgate "), "{command}");
        // A list of values has a dash and a blank.
        let is_option = |line: &str| line.starts_with('-') && !line.starts_with("- ");
        let bare = |line: &&str| is_option(line.trim_start()) && line.trim().split("  ").count() < 2;
        let next_explains = |i: usize| help.lines().nth(i + 1).is_some_and(|l| l.starts_with("          "));
        for (i, line) in help.lines().enumerate().filter(|(_, line)| bare(line)) {
            assert!(next_explains(i), "`{command} --help` does not explain {line:?}");
        }
    }
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&format!("completions {shell}"));
        for command in subcommands() {
            assert!(script.contains(&command), "{shell} does not complete {command}");
        }
    }
}
