//! Commands with a form for each kind of target: `speed` measures a board or a card, `life` wears out a chip or lets
//! a filesystem age.
//!
//! Each form is a subcommand with its own options. [`routed`] replaces the name of the command by the name of its
//! form before the arguments are parsed. The names of the forms (`card speed`, `endurance`, ..) are commands of
//! earlier versions, which still work and are hidden.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use floatgate_config::{Kind, Library};
use floatgate_lab::card::is_card;
use std::ffi::{OsStr, OsString};
use std::iter;
use std::path::Path;

/// A command with several forms.
struct Family {
    name: &'static str,
    /// Description of the command, if no form has its name.
    about: Option<&'static str>,
    /// Line about the other forms at the end of the help.
    note: &'static str,
    /// Forms; the first form whose condition is met is used.
    forms: &'static [Form],
}

/// A form of a command.
struct Form {
    /// Condition for this form.
    when: When,
    /// Name of the subcommand that implements the form.
    command: &'static str,
}

/// Condition by which a form of a command is selected.
#[derive(Clone, Copy)]
enum When {
    /// The first argument is a name of the catalogue of one of these kinds, or a file of such a kind.
    Names(&'static [Kind]),
    /// The arguments contain this option.
    Has(&'static str),
    /// The arguments contain this option, whose value becomes the last argument of the form.
    Takes(&'static str),
    /// The first argument is this word.
    Begins(&'static str),
    Otherwise,
}

const CARD: When = When::Names(&[Kind::Card]);

const FAMILIES: [Family; 8] = [
    Family {
        name: "speed",
        about: None,
        note: "A card has other options: `floatgate speed samsung-evo-16g --help`.",
        forms: &[Form::new(CARD, "card speed"), Form::new(When::Otherwise, "speed")],
    },
    Family {
        name: "fs",
        about: None,
        note: "Cards have other options: `floatgate fs samsung-evo-16g --help`; `floatgate fs cards` compares all of them.",
        forms: &[
            Form::new(When::Begins("cards"), "card compare"),
            Form::new(CARD, "card compare"),
            Form::new(When::Otherwise, "fs"),
        ],
    },
    Family {
        name: "powercut",
        about: None,
        note: "A card has other options: `floatgate powercut a1-32g --help`.",
        forms: &[Form::new(CARD, "card powercut"), Form::new(When::Otherwise, "powercut")],
    },
    Family {
        name: "serve",
        about: None,
        note: "A card is served as a file or a drive, with other options: `floatgate serve kingston-class-10 --help`.",
        forms: &[Form::new(CARD, "card serve"), Form::new(When::Otherwise, "serve")],
    },
    Family {
        name: "life",
        about: Some("Simulate a filesystem for years on a board, or wear out a chip or card"),
        note: "With a chip or a card as target, `life` wears it out and has other options: `floatgate life mt29f2g08aad --help`, `floatgate life emmc-16g --help`.",
        forms: &[
            Form::new(When::Has("--all"), "endurance"),
            Form::new(CARD, "card life"),
            Form::new(When::Names(&[Kind::Part]), "endurance"),
            Form::new(When::Otherwise, "age"),
        ],
    },
    Family {
        name: "run",
        about: Some("Run workloads on Linux's filesystems on a card, or replay a trace of requests on it"),
        note: "The replay of a trace has other options: `floatgate run kingston-class-10 --trace trace.csv --help`.",
        forms: &[Form::new(When::Takes("--trace"), "card replay"), Form::new(When::Otherwise, "card run")],
    },
    Family {
        name: "papers",
        about: None,
        note: "Two tests of the papers have other options: `floatgate papers keystore --help`, `floatgate papers amplification --help`.",
        forms: &[
            Form::new(When::Begins("keystore"), "keystore"),
            Form::new(When::Begins("amplification"), "card amplification"),
            Form::new(When::Otherwise, "papers"),
        ],
    },
    Family {
        name: "list",
        about: None,
        note: "",
        forms: &[
            Form::new(When::Has("--registers"), "card info"),
            Form::new(When::Names(&[Kind::Part, Kind::Card]), "parts"),
            Form::new(When::Names(&[Kind::Setup]), "setups"),
            Form::new(When::Names(&[Kind::Controller]), "controllers"),
            Form::new(When::Names(&[Kind::Host, Kind::CardHost]), "hosts"),
            Form::new(When::Otherwise, "list"),
        ],
    },
];

/// Subcommands that have other names than the commands of their forms: names of earlier versions, which still work and are hidden.
fn hidden() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().flat_map(|family| {
        let names = family.forms.iter().filter_map(|form| form.command.split(' ').next());
        names.filter(|name| *name != family.name)
    })
}

impl Form {
    const fn new(when: When, command: &'static str) -> Self {
        Self { when, command }
    }

    /// Word that names the form in texts.
    const fn word(&self) -> &'static str {
        match self.when {
            When::Names([Kind::Card, ..]) => "card",
            When::Names([Kind::Part, ..]) => "part",
            When::Names([Kind::Setup, ..]) => "setup",
            When::Names([Kind::Controller, ..]) => "controller",
            When::Names(_) => "host",
            When::Has(option) | When::Takes(option) => option.split_at(2).1,
            When::Begins(word) => word,
            When::Otherwise => "",
        }
    }

    /// Usage of the form under the name of its family.
    fn usage(&self, family: &Family, command: &Command) -> String {
        let name = match self.when {
            When::Begins(word) => format!("{} {word}", family.name),
            _ => family.name.to_owned(),
        };
        let usage = command.clone().bin_name(format!("floatgate {name}")).render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        match self.when {
            When::Takes(option) => match usage.rsplit_once(' ') {
                // The usage of a command that has its form already names the option.
                Some((before, value)) if !before.ends_with(option) => format!("{before} {option} {value}"),
                _ => usage.to_owned(),
            },
            _ => usage.to_owned(),
        }
    }

    /// Arguments after the name of this form; `None` if the words select another form.
    fn arguments(&self, root: &Command, words: &[OsString]) -> Option<Vec<OsString>> {
        match self.when {
            When::Names(kinds) => {
                let library = Library::built_in();
                let is_named = |word: &OsStr| kinds.iter().any(|kind| is_of_kind(&library, *kind, word));
                let target = positional(found(root, self.command)?, words).next()?;
                is_named(target).then(|| words.to_vec())
            }
            When::Has(option) => {
                words.iter().any(|word| value_of(word, option).is_some()).then(|| words.to_vec())
            }
            When::Takes(option) => with_value_last(words, option),
            When::Begins(first) => {
                let (word, rest) = words.split_first()?;
                (word == first).then(|| rest.to_vec())
            }
            When::Otherwise => Some(words.to_vec()),
        }
    }
}

/// Adds the commands that consist only of forms, and adds notes about forms to the help. Names of earlier versions
/// are hidden.
pub(crate) fn with_forms(root: Command) -> Command {
    let root = FAMILIES.iter().fold(root, |root, family| family.added(root));
    hidden().fold(root, |root, name| root.mut_subcommand(name, |command| command.hide(true)))
}

impl Family {
    fn added(&self, mut root: Command) -> Command {
        for form in self.forms.iter().filter(|form| form.command != self.name) {
            root = mut_found(root, form.command, |command| {
                let usage = form.usage(self, &command);
                command.override_usage(usage)
            });
        }
        let Some(main) = self.forms.last() else { return root };
        if !self.note.is_empty() {
            let others = self.other_usages(&root);
            root = mut_found(root, main.command, |command| {
                let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                command.after_help(format!("{after}\n\n{}\n{others}", self.note))
            });
        }
        match (self.about, found(&root, main.command).cloned()) {
            // Only the help of this command is used; the form parses the arguments.
            (Some(about), Some(main)) => root.subcommand(main.name(self.name).about(about)),
            _ => root,
        }
    }

    /// Usages of all forms except the main form, each with the options that the main form lacks.
    fn other_usages(&self, root: &Command) -> String {
        let Some(main) = self.forms.last() else { return String::new() };
        let main = found(root, main.command);
        let mut lines: Vec<String> = Vec::new();
        for form in self.forms {
            let Some(command) = found(root, form.command)
                .filter(|command| main.is_none_or(|main| !std::ptr::eq(main, *command)))
            else {
                continue;
            };
            let is_own = |arg: &&clap::Arg| {
                let is_known =
                    |other: &clap::Arg| arg.get_long().is_some() && other.get_long() == arg.get_long();
                !arg.is_hide_set() && !main.is_some_and(|main| main.get_arguments().any(is_known))
            };
            let own = command.get_arguments().filter(is_own).filter_map(clap::Arg::get_long);
            let own: Vec<String> = own.map(|long| format!("--{long}")).collect();
            let line = format!("  {}\n      options: {}", form.usage(self, command), own.join(" "));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.join("\n")
    }

    /// Usage of the form that has this option.
    fn usage_with(&self, root: &Command, option: &str) -> Option<String> {
        self.forms.iter().find_map(|form| {
            let command = found(root, form.command)?;
            command.get_arguments().any(|arg| has_long(arg, option)).then(|| form.usage(self, command))
        })
    }
}

/// The command line for completions, in which the form that the words select replaces the command.
pub(crate) fn with_meant_form(root: Command, typed: &[OsString]) -> Command {
    let Some([name, words @ ..]) = typed.get(1..) else { return root };
    let Some(family) = FAMILIES.iter().find(|family| name == family.name) else { return root };
    let meant = family.forms.iter().find(|form| form.arguments(&root, words).is_some());
    match meant.and_then(|form| found(&root, form.command)).cloned() {
        Some(form) => root.mut_subcommand(family.name, |_| form.name(family.name)),
        None => root,
    }
}

/// Forms of a command except the last one, whose help is the help of the command: the word that selects each form,
/// and its command.
pub(crate) fn other_forms<'a>(root: &'a Command, name: &str) -> Vec<(&'static str, &'a Command)> {
    let family = FAMILIES.iter().find(|family| family.name == name);
    let forms = family.and_then(|family| family.forms.split_last()).map_or(&[][..], |(_, others)| others);
    let is_last =
        |at: usize, form: &Form| !forms.iter().skip(at + 1).any(|other| other.command == form.command);
    let once = forms.iter().enumerate().filter(|(at, form)| is_last(*at, form));
    once.filter_map(|(_, form)| Some((form.word(), found(root, form.command)?))).collect()
}

/// Arguments in which the name of the form replaces the name of the command.
pub(crate) fn routed(root: &Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let [program, name, words @ ..] = &arguments[..] else { return arguments };
    let Some(family) = FAMILIES.iter().find(|family| name == family.name) else { return arguments };
    let routed = family.forms.iter().find_map(|form| Some((form, form.arguments(root, words)?)));
    routed.map_or_else(
        || arguments.clone(),
        |(form, words)| {
            let form = form.command.split(' ').map(OsString::from);
            iter::once(program.clone()).chain(form).chain(words).collect()
        },
    )
}

/// Word that the error reports as unknown.
fn unknown_word(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => Some(word.clone()),
        _ => None,
    }
}

/// True if `option`, such as `--json`, is the long option of this argument.
fn has_long(arg: &clap::Arg, option: &str) -> bool {
    arg.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long))
}

/// Adds the usage of the form that has the option to the error about an unknown option.
pub(crate) fn with_other_form(mut error: clap::Error, root: &Command, typed: &[OsString]) -> clap::Error {
    let Some(option) = unknown_word(&error) else { return error };
    let family = typed.get(1).and_then(|name| FAMILIES.iter().find(|family| name == family.name));
    let Some(family) = family else { return error };
    let Some(usage) = family.usage_with(root, &option) else { return error };
    let words = typed.get(2..).unwrap_or_default();
    let meant = family.forms.iter().find(|form| form.arguments(root, words).is_some());
    let tip = match meant.map(|form| form.when) {
        // The usage of the other form may be what was typed but for the word that chose this one.
        Some(When::Has(sign) | When::Takes(sign) | When::Begins(sign)) => {
            format!("'{option}' does not go with '{sign}': it is an option of `{usage}`")
        }
        _ => format!("'{option}' is an option of `{usage}`"),
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Adds to the error about an unknown word that the option before it takes its value after `=`, if this is the case.
pub(crate) fn with_equals_sign(mut error: clap::Error, root: &Command, words: &[OsString]) -> clap::Error {
    let Some(word) = unknown_word(&error) else { return error };
    let before = words.windows(2).find(|pair| pair[1] == *word).and_then(|pair| pair[0].to_str());
    let command = words.get(1).and_then(|name| root.find_subcommand(name));
    let (Some(option), Some(command)) = (before, command) else { return error };
    let needs_equals = |arg: &clap::Arg| arg.is_require_equals_set() && has_long(arg, option);
    if command.get_arguments().any(needs_equals) {
        let tip = format!("'{option}' takes its value behind `=`: `{option}={word}`").into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// Subcommand whose name has one or more words.
fn found<'a>(root: &'a Command, name: &str) -> Option<&'a Command> {
    name.split(' ').try_fold(root, |command, word| command.find_subcommand(word))
}

fn mut_found(root: Command, name: &str, change: impl FnOnce(Command) -> Command) -> Command {
    match name.split_once(' ') {
        Some((group, rest)) => root.mut_subcommand(group, |group| mut_found(group, rest, change)),
        None => root.mut_subcommand(name, change),
    }
}

/// Words that are neither options of a command nor their values.
fn positional<'a>(command: &'a Command, words: &'a [OsString]) -> impl Iterator<Item = &'a OsStr> {
    let mut is_value = false;
    words.iter().map(OsString::as_os_str).filter(move |word| {
        let is_option = word.as_encoded_bytes().starts_with(b"-");
        let is_target = !is_option && !is_value;
        is_value = is_option && takes_value(command, word);
        is_target
    })
}

/// True for an option whose value is the next word.
fn takes_value(command: &Command, word: &OsStr) -> bool {
    let is_it = |arg: &&clap::Arg| {
        let long = arg.get_long().is_some_and(|long| word == format!("--{long}").as_str());
        long || arg.get_short().is_some_and(|short| word == format!("-{short}").as_str())
    };
    // Until clap has built a command, its arguments do not include the global options.
    word == "--color"
        || command.get_arguments().find(is_it).is_some_and(|arg| arg.get_action().takes_values())
}

/// Arguments in which global options before the command's name are moved after it.
pub(crate) fn with_name_first(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut at = 1;
    while let Some(word) = arguments.get(at).and_then(|word| word.to_str()) {
        at += match word {
            "--color" => 2,
            "-q" | "--quiet" => 1,
            word if word.starts_with("--color=") => 1,
            _ => break,
        };
    }
    if at < arguments.len() {
        arguments[1..=at].rotate_right(1);
    }
    arguments
}

/// True for a name of the catalogue of this kind, and for a file of this kind.
fn is_of_kind(library: &Library, kind: Kind, word: &OsStr) -> bool {
    let path = Path::new(word);
    match kind {
        Kind::Card => is_card(library, path),
        // The form reports errors in the file.
        Kind::Setup if path.extension().is_some_and(|extension| extension == "toml") => path.is_file(),
        _ => {
            let is_known = word.to_str().is_some_and(|name| library.has(kind, name));
            is_known || path.is_file() && library.load(kind, path).is_ok()
        }
    }
}

/// Value of an option in this word; empty if the value would be the next word.
fn value_of<'a>(word: &'a OsStr, option: &str) -> Option<&'a str> {
    let rest = word.to_str()?.strip_prefix(option)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('=') }
}

/// Words without the option, with the value of the option at their end.
fn with_value_last(words: &[OsString], option: &str) -> Option<Vec<OsString>> {
    let at = words.iter().position(|word| value_of(word, option).is_some())?;
    let (before, rest) = words.split_at(at);
    let (named, behind) = rest.split_first()?;
    let own = value_of(named, option).filter(|value| !value.is_empty()).map(OsString::from);
    let (value, behind) = match (own, behind.split_first()) {
        (Some(own), _) => (Some(own), behind),
        (None, Some((next, behind))) => (Some(next.clone()), behind),
        (None, None) => (None, behind),
    };
    Some(before.iter().chain(behind).cloned().chain(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed_line(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let routed = routed(&crate::command(), words);
        routed.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_target_decides_which_form_is_meant() {
        for (typed, meant) in [
            ("f speed am62a-w35n01jw -c1", "f speed am62a-w35n01jw -c1"),
            ("f speed --json EMMC-16g", "f card speed --json EMMC-16g"),
            ("f speed w25n01gv --set chip=emmc-16g", "f speed w25n01gv --set chip=emmc-16g"),
            ("f fs a1-32g emmc-16g", "f card compare a1-32g emmc-16g"),
            ("f fs cards --json", "f card compare --json"),
            ("f powercut a1-32g --cuts 4", "f card powercut a1-32g --cuts 4"),
            ("f serve a1-32g --fuse /mnt", "f card serve a1-32g --fuse /mnt"),
            ("f life mt29f2g08aad", "f endurance mt29f2g08aad"),
            ("f life --all", "f endurance --all"),
            ("f life emmc-16g", "f card life emmc-16g"),
            ("f life am62a-w35n01jw --years 3", "f age am62a-w35n01jw --years 3"),
            ("f life", "f age"),
            ("f run a1-32g", "f card run a1-32g"),
            ("f run --trace t.csv a1-32g --json", "f card replay a1-32g --json t.csv"),
            ("f run a1-32g --trace=- --json", "f card replay a1-32g --json -"),
            ("f run a1-32g --trace", "f card replay a1-32g"),
            ("f papers keystore x --json", "f keystore x --json"),
            ("f papers amplification", "f card amplification"),
            ("f papers P0", "f papers P0"),
            ("f list w35n01jw --toml", "f parts w35n01jw --toml"),
            ("f list emmc-16g --registers d", "f card info emmc-16g --registers d"),
            ("f list am62a-w35n01jw", "f setups am62a-w35n01jw"),
            ("f list linux-am62a", "f hosts linux-am62a"),
            ("f list parts w35n01jw", "f list parts w35n01jw"),
            ("f list", "f list"),
            ("f", "f"),
            ("f trace am62a-w35n01jw", "f trace am62a-w35n01jw"),
        ] {
            assert_eq!(routed_line(typed), meant);
        }
    }

    #[test]
    fn an_option_of_another_form_is_told() {
        for (line, told) in [
            ("f life emmc-16g --scrub-weeks 3", None),
            (
                "f life emmc-16g --corner max",
                Some("'--corner' is an option of `floatgate life [OPTIONS] [CHIP]`"),
            ),
            (
                "f speed a1-32g --bad-blocks 3",
                Some("'--bad-blocks' is an option of `floatgate speed [OPTIONS] <SETUP>`"),
            ),
            (
                "f run emmc-16g --trace fio.log --discard no",
                Some(
                    "'--discard' does not go with '--trace': it is an option of `floatgate run [OPTIONS] <CARD>`",
                ),
            ),
            (
                "f life --all --years 3",
                Some(
                    "'--years' does not go with '--all': it is an option of `floatgate life [OPTIONS] <SETUP>`",
                ),
            ),
            (
                "f run emmc-16g --think-time none",
                Some("'--think-time' is an option of `floatgate run [OPTIONS] <CARD> --trace <TRACE>`"),
            ),
        ] {
            let root = crate::command();
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            let error = root.clone().try_get_matches_from(routed(&root, words.clone())).unwrap_err();
            let text = with_other_form(error, &root, &words).to_string();
            match told {
                Some(told) => assert!(text.contains(told), "{text}"),
                None => assert!(!text.contains("is an option of"), "{text}"),
            }
        }
    }

    #[test]
    fn a_range_of_numbers_is_shown_with_its_ends() {
        let line = ["f", "serve", "qca9558-s25fl064k", "--serprog", "-", "--cut-power", "0"];
        let error = crate::command().try_get_matches_from(line).unwrap_err().to_string();
        assert!(error.contains("0 is not in 1..="), "{error}");
    }

    #[test]
    fn each_form_is_a_command() {
        let root = crate::command();
        for form in FAMILIES.iter().flat_map(|family| family.forms) {
            assert!(found(&root, form.command).is_some(), "{}", form.command);
        }
    }

    #[test]
    fn usage_names_what_was_typed() {
        let usage = |name| found(&crate::command(), name).unwrap().clone().render_usage().to_string();
        assert_eq!(usage("card speed"), "Usage: floatgate speed [OPTIONS] <CARD>");
        assert_eq!(usage("card replay"), "Usage: floatgate run [OPTIONS] <CARD> --trace <TRACE>");
        assert_eq!(usage("keystore"), "Usage: floatgate papers keystore [OPTIONS] [SETUP]");
    }
}
