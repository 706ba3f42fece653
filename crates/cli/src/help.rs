//! `floatgate --help`: the commands in groups.

use crate::terminal;
use crate::wrap;
use clap::Command;

/// Commands by purpose, in the order of the help.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Speed", &["compare", "speed", "trace", "fs", "record", "run", "sweep"]),
    ("Life and faults", &["life", "powercut", "conformance"]),
    ("Images and dumps", &["image", "as", "ecc", "otp"]),
    ("Devices at hand", &["identify", "probe", "advise", "fit", "serve", "check-capture"]),
    ("Reference", &["list", "papers", "report", "examples", "man", "completions"]),
];

/// Largest width of the help in columns, and its width if no terminal states another.
const COLUMNS: usize = 100;
const COLUMNS_MAX: usize = 110;

/// Shows the subcommands of a command in groups in its help.
pub(crate) fn grouped(command: Command) -> Command {
    let groups: String = GROUPS.iter().map(|(heading, names)| group(&command, heading, names)).collect();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{}\n{{options}}{{after-help}}",
        heading(&command, "Options")
    );
    command.help_template(template)
}

fn heading(command: &Command, text: &str) -> String {
    let style = command.get_styles().get_header();
    format!("{style}{text}:{style:#}")
}

/// A heading, followed by a line with name and description for each command.
fn group(command: &Command, title: &str, names: &[&str]) -> String {
    let widest = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let columns = terminal::columns().unwrap_or(COLUMNS).min(COLUMNS_MAX);
    let style = command.get_styles().get_literal();
    let lines = names.iter().filter_map(|name| command.find_subcommand(name)).map(|one| {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        let about = wrap::wrapped(&about, columns.saturating_sub(widest + 4).max(1));
        let about = about.join(&format!("\n{}", " ".repeat(widest + 4)));
        let name = one.get_name();
        format!("  {style}{name}{style:#}{}  {about}\n", " ".repeat(widest - name.len()))
    });
    format!("{}\n{}\n", heading(command, title), lines.collect::<String>())
}

/// A space inside an example, at which clap does not wrap.
const FIXED_SPACE: &str = "\u{A0}";

/// Keeps each example of a command and of its subcommands on one line in the help, so that it can be pasted. [`with_spaces`] reads the result.
pub(crate) fn with_whole_examples(command: Command) -> Command {
    let whole = |line: &str| match line.trim_start() {
        example if example.starts_with("floatgate ") => {
            let indent = " ".repeat(line.len() - example.len());
            format!("{indent}{}", example.replace(' ', FIXED_SPACE))
        }
        _ => line.to_owned(),
    };
    let after = command.get_after_help().map(ToString::to_string);
    let command = match after {
        Some(after) => command.after_help(after.lines().map(whole).collect::<Vec<_>>().join("\n")),
        None => command,
    };
    command.mut_subcommands(with_whole_examples)
}

/// The text of a help with ordinary spaces in its examples.
pub(crate) fn with_spaces(help: &str) -> String {
    help.replace(FIXED_SPACE, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_not_wrapped() {
        let example = "  floatgate life board --temperature 70 --scrub-days 91,never --chips 4";
        let command =
            Command::new("life").term_width(40).after_help(format!("Examples:\n{example}\n\nA sentence."));
        let help = with_whole_examples(command).render_help().to_string();
        assert!(with_spaces(&help).lines().any(|line| line == example), "{help}");
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::command();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut commands: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
        listed.sort_unstable();
        commands.sort_unstable();
        assert_eq!(listed, commands);
    }
}
