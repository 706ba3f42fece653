//! `floatgate man`.

use crate::common::{self, Failure, Outcome};
use crate::outputs::OutputFile;
use crate::{forms, output};
use clap::Command;
use std::path::Path;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate man
  floatgate man speed
  floatgate man speed card
  floatgate man image check
  floatgate man -o man/man1")]
pub(crate) struct Args {
    /// Subcommand whose page is printed [default: the page of floatgate itself]
    #[arg(value_name = "SUBCOMMAND", conflicts_with = "output")]
    command: Vec<String>,

    /// Directory for the pages of all subcommands, such as floatgate-speed.1; it is created if it does not exist
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    output: Option<OutputFile>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut root = crate::command();
    root.build();
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder).map_err(|error| refused(folder, &error))?;
        Page { command: &root, name: "floatgate", root: &root }.write_all(folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut command, mut name) = (&root, "floatgate".to_owned());
    for word in &args.command {
        let mut forms = forms::other_forms(&root, command.get_name()).into_iter();
        let form = || forms.find(|(form, _)| form == word).map(|(_, command)| command);
        command = command.find_subcommand(word).or_else(form).ok_or_else(|| {
            Failure::new(
                format!("{name} has no subcommand `{word}`"),
                format!("`{} --help` lists them", name.replace('-', " ")),
            )
        })?;
        name = format!("{name}-{word}");
    }
    output::print(&Page { command, name: &name, root: &root }.text()?)?;
    Ok(ExitCode::SUCCESS)
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "choose a directory in which files can be made")
}

/// Exit statuses of all commands.
const EXIT_STATUS: &str = ".SH EXIT STATUS
.TP
.B 0
The command succeeded.
.TP
.B 1
The command succeeded and found a problem: a damaged image, a failed power cut, an impossible design, a figure that changed. The output names the problem.
.TP
.B 2
The command failed: an argument or a file is wrong, or an output cannot be written. The message gives the reason, and nothing was changed. `image check` also returns 2 for a damaged image.
";

/// Manual page of a command.
struct Page<'a> {
    command: &'a Command,
    /// Name of the page: the words of the command, joined by `-`.
    name: &'a str,
    root: &'a Command,
}

impl Page<'_> {
    /// Text of the page in troff.
    fn text(&self) -> Result<String, Failure> {
        let man = clap_mangen::Man::new(
            self.command.clone().display_name(self.name.to_owned()).disable_help_subcommand(true),
        )
        .title(self.name)
        .source(concat!("floatgate ", env!("CARGO_PKG_VERSION")));
        let mut bytes = Vec::new();
        man.render(&mut bytes)
            .map_err(|error| Failure::new(error, "this is a bug in floatgate: please report it"))?;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        text += EXIT_STATUS;
        text += ".SH SEE ALSO\n";
        let others: Vec<String> = self.others().iter().map(|name| bold(name)).collect();
        text += &others.join(",\n");
        text += "\n";
        Ok(text)
    }

    /// Names of the pages above and below it, and of its other forms.
    fn others(&self) -> Vec<String> {
        let above = self.name.rsplit_once('-').map_or("floatgate", |(above, _)| above);
        let above = if self.name == "floatgate" { None } else { Some(above.to_owned()) };
        let below = shown(self.command).map(|other| format!("{}-{}", self.name, other.get_name()));
        let forms = self.forms().into_iter().map(|(name, _)| name);
        above.into_iter().chain(below).chain(forms).collect()
    }

    /// Other forms of the command, with the names of their pages.
    fn forms(&self) -> Vec<(String, &Command)> {
        let forms = self.name.strip_prefix("floatgate-").map(|name| forms::other_forms(self.root, name));
        let named = |(word, form)| (format!("{}-{word}", self.name), form);
        forms.unwrap_or_default().into_iter().map(named).collect()
    }

    /// Writes the page and the pages below it.
    fn write_all(&self, folder: &Path) -> Result<(), Failure> {
        common::write_file(&folder.join(format!("{}.1", self.name)), &self.text()?)?;
        for (name, form) in self.forms() {
            let page = Page { command: form, name: &name, root: self.root };
            common::write_file(&folder.join(format!("{name}.1")), &page.text()?)?;
        }
        shown(self.command).try_for_each(|command| {
            let name = format!("{}-{}", self.name, command.get_name());
            Page { command, name: &name, root: self.root }.write_all(folder)
        })
    }
}

/// Reference to a page.
fn bold(name: &str) -> String {
    format!(".BR {} (1)", name.replace('-', "\\-"))
}

/// Subcommands that the help lists.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|other| other.get_name() != "help" && !other.is_hide_set())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_its_exit_statuses_and_the_pages_of_its_other_forms() {
        let mut root = crate::command();
        root.build();
        let command = root.find_subcommand("life").unwrap();
        let life = Page { command, name: "floatgate-life", root: &root };
        let text = life.text().ok().unwrap();
        assert!(
            text.contains(".SH EXIT STATUS") && text.contains(r".BR floatgate\-life\-card (1)"),
            "{text}"
        );
        let (name, form) = life.forms().swap_remove(0);
        let text = Page { command: form, name: &name, root: &root }.text().ok().unwrap();
        assert!(text.contains(r"floatgate\-life\-card \- Wear out a card"), "{text}");
        let names: Vec<&str> = forms::other_forms(&root, "life").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["card", "part"]);
    }
}
