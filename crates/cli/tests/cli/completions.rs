//! Completions in the shells themselves. `./test` names the shells that are not installed.

use crate::support::{finish, fresh, stdout, subcommands};
use std::process::Command;

/// Lines of whose last word there is one completion.
const LINES: [(&str, &str); 11] = [
    ("floatgate speed am62a-w", "am62a-w35n01jw"),
    ("floatgate report imx6-mx30", "imx6-mx30lf2g18ac"),
    ("floatgate list parts w35n01", "w35n01jw"),
    ("floatgate ecc advise mx30lf2g18", "mx30lf2g18ac"),
    ("floatgate speed kingston-class", "kingston-class-10"),
    ("floatgate probe fake-wraps", "fake-wraps-32g"),
    ("floatgate speed am62a-w35n01jw --set bus.clock", "bus.clock_hz="),
    ("floatgate list keys bus.clock", "bus.clock_hz"),
    ("floatgate papers P0/serial", "P0/serialised-nor"),
    ("floatgate list cadence", "cadence-qspi-am62a"),
    // An option of cards alone.
    ("floatgate life emmc-16g --write-p", "--write-per-day"),
];

const FLOATGATE: &str = env!("CARGO_BIN_EXE_floatgate");

fn is_installed(shell: &str) -> bool {
    let is_there = Command::new(shell).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: {shell} is not installed");
    }
    is_there
}

/// What bash offers for the last word of a line, by the script that `completions bash` prints.
fn offered_by_bash(line: &str) -> Vec<String> {
    let script = r#"
        . <("$1" completions bash)
        PATH=${1%/*}:$PATH
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _clap_complete_floatgate floatgate "${!#}" x
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash", FLOATGATE]).args(line.split(' '));
    finish(&mut bash).out.lines().map(str::to_owned).collect()
}

/// What fish offers, with the descriptions left out.
fn offered_by_fish(line: &str) -> Vec<String> {
    let script =
        "set -x PATH (dirname $argv[1]) $PATH; $argv[1] completions fish | source; complete -C $argv[2]";
    let run = finish(Command::new("fish").args(["--no-config", "-c", script, FLOATGATE, line]));
    run.out.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect()
}

/// The line after the first TAB in a zsh at a terminal of its own, after `setup`.
fn completed_by_zsh(setup: &str, line: &str) -> String {
    let script = r#"
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "PATH=${1:h}:\$PATH; autoload -Uz compinit; $2"
        zpty -w shell "tab() { zle complete-word; print -r -- \"<\$BUFFER>\"; exit }; zle -N tab; bindkey '^I' tab; print rea''dy"
        zpty -r shell shown '*ready*'
        zpty -w -n shell "$3"$'\t'
        zpty -r shell shown '*<*>*'
        print -r -- "${${shown##*<}%%>*}"
    "#;
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", "-c", script, "zsh", FLOATGATE, setup, line]).env("TERM", "dumb");
    finish(&mut zsh).out.trim_end_matches('\n').to_owned()
}

/// Offers hold the completion, and nothing that begins otherwise.
fn check_offers(offered: impl Fn(&str) -> Vec<String>) {
    let commands = offered("floatgate ");
    for command in subcommands() {
        assert!(commands.contains(&command), "{command} is not offered: {commands:?}");
    }
    for (line, expected) in LINES {
        let offers = offered(line);
        assert!(offers.iter().any(|name| name == expected), "{line}: {offers:?}");
        let begun = line.rsplit(' ').next().unwrap_or_default();
        assert!(offers.iter().all(|name| name.starts_with(begun)), "{line}: {offers:?}");
    }
    assert!(offered("floatgate list parts nosuch").concat().is_empty());
}

#[test]
fn bash_completes_commands_names_and_keys() {
    check_offers(offered_by_bash);
}

#[test]
fn fish_completes_commands_names_and_keys() {
    if is_installed("fish") {
        check_offers(offered_by_fish);
    }
}

#[test]
fn zsh_completes_commands_names_and_keys() {
    if !is_installed("zsh") {
        return;
    }
    let folder = fresh("zsh-functions");
    std::fs::write(folder.join("_floatgate"), stdout("completions zsh")).unwrap();
    let sourced = "compinit -D -u; source <(floatgate completions zsh)";
    let installed = format!("fpath=({} $fpath); compinit -D -u", folder.display());
    for (line, expected) in LINES.into_iter().chain([("floatgate comple", "completions")]) {
        let (before, _) = line.rsplit_once(' ').unwrap();
        for setup in [sourced, &installed] {
            let completed = completed_by_zsh(setup, line);
            assert_eq!(completed.trim_end(), format!("{before} {expected}"), "{line}");
            // A value follows `=` at once.
            assert_eq!(completed.ends_with(' '), !expected.ends_with('='), "{completed:?}");
        }
    }
    assert_eq!(completed_by_zsh(sourced, "floatgate list parts nosuch"), "floatgate list parts nosuch");
}

#[test]
fn completions_of_every_shell_ask_the_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&format!("completions {shell}")).contains("FLOATGATE_COMPLETE"), "{shell}");
    }
}
