//! `floatgate completions SHELL`, and the completions themselves.
//!
//! For each TAB, the shell's script calls this command again with the shell's name in [`VARIABLE`]. So the names of
//! setups, parts and keys are those of the installed version.

use crate::common::{Failure, Outcome};
use crate::{forms, output};
use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{CompleteEnv, Shells};
use floatgate_config::{Kind, Library};
use floatgate_lab::catalogue;
use floatgate_lab::papers::{self, Paper};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// Environment variable with the name of the shell that asks for completions.
const VARIABLE: &str = "FLOATGATE_COMPLETE";

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate completions bash > ~/.local/share/bash-completion/completions/floatgate
  floatgate completions zsh > ~/.zfunc/_floatgate
  floatgate completions fish > ~/.config/fish/completions/floatgate.fish

The names of setups, chips, cards and keys are also completed: `floatgate speed am62a<TAB>`, `floatgate speed imx6-mx30lf2g18ac --set bus.<TAB>`.")]
pub(crate) struct Args {
    /// Shell for which the completions are written
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let bug = |error: &dyn std::fmt::Display| {
        Failure::new(error.to_string(), "this is a bug in floatgate: please report it")
    };
    let (shells, mut text) = (Shells::builtins(), Vec::new());
    let shell = shells.completer(&args.shell.to_string()).ok_or_else(|| bug(&"unknown shell"))?;
    shell
        .write_registration(VARIABLE, "floatgate", "floatgate", "floatgate", &mut text)
        .map_err(|error| bug(&error))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    output::print(&ZSH.iter().fold(text, |text, (line, lines)| text.replace(line, lines)))?;
    Ok(ExitCode::SUCCESS)
}

/// Lines of clap's script for zsh, and their replacements.
const ZSH: [(&str, &str); 2] = [
    // A value follows `=` without a space. Bash and fish add no space there by themselves.
    (
        "[[ -n $other ]] && _describe -V 'values' other\n",
        "local -a keys=(${(M)other:#*=(|:*)})
        other=(${other:|keys})
        [[ -n $keys ]] && _describe -V 'values' keys -S ''
        [[ -n $other ]] && _describe -V 'values' other\n",
    ),
    // In a folder of `fpath` the script itself is the function that the first TAB calls.
    (
        "compdef _clap_dynamic_completer_floatgate floatgate\n",
        "if [[ ${funcstack[1]} == _floatgate ]]; then
    _clap_dynamic_completer_floatgate \"$@\"
else
    compdef _clap_dynamic_completer_floatgate floatgate
fi\n",
    ),
];

/// Answers a shell that requests completions, and ends the process.
pub(crate) fn answer() {
    let typed: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let command = || with_names(forms::with_meant_form(crate::command(), &typed));
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Attaches completers to all arguments that take a name or a key.
fn with_names(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command
        .mut_args(|arg| match Names::of(&name, arg.get_id().as_str()) {
            Some(names) => arg.add(ArgValueCompleter::new(names)),
            None => arg,
        })
        .mut_subcommands(with_names)
}

/// Kinds of names that an argument accepts.
#[derive(Clone, Copy)]
enum Names {
    /// Setups or files.
    Setups,
    /// Setups, chips, cards or files.
    Targets,
    /// All names of the catalogue.
    Everything,
    /// Chips or files.
    Chips,
    /// Cards, devices or files.
    Cards,
    /// Chips or cards.
    Parts,
    /// Profiles of controllers or hosts.
    Profiles(Kind),
    /// Papers, their tables, or files.
    Papers,
    /// Keys of setups, each followed by this text: `=` or nothing.
    Keys(&'static str),
}

impl Names {
    /// Kind of names that the argument `id` of a subcommand accepts.
    fn of(command: &str, id: &str) -> Option<Self> {
        Some(match (command, id) {
            ("speed" | "fs" | "powercut" | "serve" | "life", "setup")
            | ("report", "inputs")
            | ("compare", "targets")
            | ("advise", "target")
            | ("record", "target") => Self::Targets,
            ("setups", "name") | (_, "setup") => Self::Setups,
            ("list", "name") => Self::Everything,
            ("parts", "name") => Self::Parts,
            ("papers", "table") => Self::Papers,
            ("controllers", "name") => Self::Profiles(Kind::Controller),
            ("hosts", "name") => Self::Profiles(Kind::Host),
            (_, "host") => Self::Profiles(Kind::CardHost),
            (_, "chip" | "part") => Self::Chips,
            (_, "card") | ("probe", "target") => Self::Cards,
            (_, "set" | "sweep") => Self::Keys("="),
            ("setups" | "keys", "keys") | ("fit", "free") => Self::Keys(""),
            _ => return None,
        })
    }

    /// All names of this kind, each with an explanation if there is one.
    fn all(self) -> Vec<(String, String)> {
        let library = Library::built_in();
        let parts = |wanted: fn(&str) -> bool| {
            let rows = catalogue::parts(&library).unwrap_or_default();
            rows.into_iter().filter(|row| wanted(&row.kind)).map(|row| (row.part, row.title)).collect()
        };
        match self {
            Self::Setups => {
                let rows = catalogue::setups(&library).unwrap_or_default();
                rows.into_iter().map(|row| (row.name, row.title)).collect()
            }
            Self::Targets => Self::Setups.all().into_iter().chain(parts(|_| true)).collect(),
            Self::Everything => {
                let profiles = Kind::ALL.into_iter().flat_map(|kind| Self::Profiles(kind).all());
                Self::Targets.all().into_iter().chain(profiles).collect()
            }
            Self::Chips => parts(|kind| !is_card(kind)),
            Self::Cards => parts(is_card),
            Self::Parts => parts(|_| true),
            Self::Profiles(kind) => {
                library.names(kind).map(|name| (name.to_owned(), String::new())).collect()
            }
            Self::Papers => papers::built_in().unwrap_or_default().iter().flat_map(paper_names).collect(),
            Self::Keys(end) => {
                floatgate_config::keys().into_iter().map(|key| (key.key + end, key.meaning.clone())).collect()
            }
        }
    }

    const fn may_be_file(self) -> bool {
        matches!(
            self,
            Self::Setups | Self::Targets | Self::Everything | Self::Chips | Self::Cards | Self::Papers
        )
    }
}

/// Names of a paper and of its tables.
fn paper_names(paper: &Paper) -> Vec<(String, String)> {
    let tables = paper.tables.iter();
    let tables = tables.map(|table| (format!("{}/{}", paper.paper, table.name), table.title.clone()));
    std::iter::once((paper.paper.clone(), paper.title.clone())).chain(tables).collect()
}

/// True for the kinds of managed flash.
fn is_card(kind: &str) -> bool {
    matches!(kind, "sd-card" | "emmc")
}

impl ValueCompleter for Names {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let begun = current.to_string_lossy();
        let candidate = |(name, help): (String, String)| {
            CompletionCandidate::new(name).help((!help.is_empty()).then(|| help.into()))
        };
        // Several kinds of chips have keys of the same name.
        let mut seen = BTreeSet::new();
        let mut all = self.all();
        all.retain(|(name, _)| name.starts_with(&*begun) && seen.insert(name.clone()));
        let named = all.into_iter().map(candidate);
        let files = self.may_be_file().then(|| PathCompleter::file().complete(current));
        named.chain(files.into_iter().flatten()).collect()
    }
}
