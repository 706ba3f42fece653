//! Results on stdout: text for users, and formats for programs.

use crate::common::{Failure, Outcome};
use crate::terminal::{colour, columns, harmless};
use crate::{drawn, wrap};
use floatgate_host::output::Output;
use floatgate_image::words;
use floatgate_lab::csv;
use floatgate_lab::report::{Concluded, Origin, Reported, Rows};
use floatgate_lab::study::Finished;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, Formatter};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// True if the process was started without a stdout.
static NO_STDOUT: AtomicBool = AtomicBool::new(false);

ctor::declarative::ctor! {
    /// Checks stdout before the standard library opens /dev/null in place of a closed stdout.
    #[ctor(unsafe)]
    fn look_for_stdout() {
        let is_closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_err();
        NO_STDOUT.store(is_closed, Ordering::Relaxed);
    }
}

/// Fails if the process was started without a stdout (`>&-`), before the command does work whose result it could not
/// print.
pub(crate) fn require_stdout() -> Result<(), Failure> {
    if !NO_STDOUT.load(Ordering::Relaxed) {
        return Ok(());
    }
    let closed = io::Error::from(rustix::io::Errno::BADF);
    Err(Failure::new(format!("stdout: {closed}"), "nothing was done: redirect it to a file or to /dev/null"))
}

/// Failure of a write to stdout.
pub(crate) fn stdout_failed(error: &io::Error) -> Failure {
    Failure::new(
        format!("stdout: {error}"),
        "the output is not complete: choose a place with enough free space",
    )
}

/// Prints to stdout, with a newline at the end.
///
/// A closed pipe (`| head`) is no failure, because its reader needs no further output. The exit status is then the
/// status of the command.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match Output::stdout()?.file().write_all(format!("{text}{end}").as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(stdout_failed(&error)),
        _ => Ok(()),
    }
}

/// The options that choose between output for people and for programs.
#[derive(clap::Args, Clone, Copy, Default)]
pub(crate) struct ReportFormat {
    /// Print JSON (schema: docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,

    /// Print the rows as CSV with a header line; the columns are the keys of the JSON
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

impl ReportFormat {
    /// Prints a result: as JSON in its envelope, as CSV, or as `text` for users.
    ///
    /// `rows` is the dotted path of a list in the JSON, whose elements are the rows of the CSV. If the path is empty
    /// or leads to no list, the whole result is used: each element is a row, or the result is the only row.
    pub(crate) fn print<T: Serialize + Concluded>(
        self,
        origin: &Origin,
        value: &T,
        rows: &str,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.show(origin, value, rows, text, columns())
    }

    /// Prints as [`Self::print_report`], and returns success.
    pub(crate) fn finish_report<T: Reported>(self, origin: &Origin, result: &T) -> Outcome {
        self.print_report(origin, result)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the result of a study.
    pub(crate) fn print_study(self, finished: &Finished) -> Result<(), Failure> {
        if self.csv {
            return print(&csv::table(&finished.rows));
        }
        self.print(&finished.origin, finished, "", || drawn::text(&finished.report))
    }

    /// Prints a result with its report.
    pub(crate) fn print_report<T: Reported>(self, origin: &Origin, result: &T) -> Result<(), Failure> {
        if self.csv {
            return print(&csv::table(&result.rows().map_err(bug)?));
        }
        self.print(origin, result, "", || drawn::text(&result.report()))
    }

    /// Prints a list with [`Self::print`].
    pub(crate) fn print_rows<T: Serialize>(
        self,
        origin: &Origin,
        rows: &[T],
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.print(origin, &Rows { rows }, "rows", text)
    }

    /// Prints a list with [`Self::print_rows`], without wrapping its lines at words. The terminal then breaks long
    /// lines at its right edge.
    pub(crate) fn print_listing<T: Serialize>(
        self,
        origin: &Origin,
        rows: &[T],
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.show(origin, &Rows { rows }, "rows", text, None)
    }

    fn show<T: Serialize + Concluded>(
        self,
        origin: &Origin,
        value: &T,
        rows: &str,
        text: impl FnOnce() -> String,
        limit: Option<usize>,
    ) -> Result<(), Failure> {
        let result = origin.around(value);
        if !self.is_for_programs() {
            let text = with_conclusion(&text(), value);
            let text = harmless(&ControlTexts::of(&result).map_err(bug)?.shown_in(text), colour());
            return print(&limit.map_or_else(|| text.clone(), |limit| wrap::fitted(&text, limit)));
        }
        if self.json {
            return print(&serde_json::to_string_pretty(&result).map_err(bug)?);
        }
        let value = serde_json::to_value(value).map_err(bug)?;
        print(&csv::table(rows.split('.').try_fold(&value, |value, key| value.get(key)).unwrap_or(&value)))
    }

    /// Prints as [`Self::print`], and returns success.
    pub(crate) fn finish<T: Serialize + Concluded>(
        self,
        origin: &Origin,
        value: &T,
        rows: &str,
        text: impl FnOnce() -> String,
    ) -> Outcome {
        self.print(origin, value, rows, text)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints a result with [`Self::finish`], without wrapping its lines, because another program reads them.
    pub(crate) fn finish_whole<T: Serialize + Concluded>(
        self,
        origin: &Origin,
        value: &T,
        rows: &str,
        text: impl FnOnce() -> String,
    ) -> Outcome {
        self.show(origin, value, rows, text, None)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints as [`Self::print_rows`], and returns success.
    pub(crate) fn finish_rows<T: Serialize>(
        self,
        origin: &Origin,
        rows: &[T],
        text: impl FnOnce() -> String,
    ) -> Outcome {
        self.print_rows(origin, rows, text)?;
        Ok(ExitCode::SUCCESS)
    }

    pub(crate) const fn is_for_programs(self) -> bool {
        self.json || self.csv
    }
}

/// Appends the conclusion of a result to its report. On a terminal with colours, the first figure of the conclusion
/// is bold.
pub(crate) fn with_conclusion(report: &str, result: &impl Concluded) -> String {
    match (report.trim_end(), result.conclusion()) {
        (_, conclusion) if conclusion.is_empty() => report.to_owned(),
        ("", conclusion) => headline(&conclusion),
        (text, conclusion) => format!("{text}\n\n{}", headline(&conclusion)),
    }
}

/// Conclusion whose first figure with its unit is bold, if colours are used.
fn headline(conclusion: &str) -> String {
    let Some((start, end)) = first_figure(conclusion).filter(|_| colour()) else {
        return conclusion.to_owned();
    };
    let (before, figure, after) = (&conclusion[..start], &conclusion[start..end], &conclusion[end..]);
    format!("{before}\u{1B}[1m{figure}\u{1B}[22m{after}")
}

/// Range of the first word that is a number, together with the next word, which is its unit.
fn first_figure(text: &str) -> Option<(usize, usize)> {
    let is_number = |word: &str| {
        let digits = word.trim_matches(['(', ')', ',', ';', '.']);
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let mut at = 0;
    for word in text.split(' ') {
        if is_number(word) {
            let unit = text[at + word.len()..].trim_start_matches(' ').split(' ').next().unwrap_or_default();
            let unit = if word.ends_with([',', ';', '.', ')']) { "" } else { unit };
            let unit = unit.trim_end_matches(['.', ',', ';', ')', ':']);
            let whole = if unit.is_empty() { word.len() } else { word.len() + 1 + unit.len() };
            let open = word.len() - word.trim_start_matches('(').len();
            let close = if unit.is_empty() {
                word.len() - word.trim_end_matches([',', ';', '.', ')']).len()
            } else {
                0
            };
            return Some((at + open, at + whole - close));
        }
        at += word.len() + 1;
    }
    None
}

/// Failure of an operation that can fail only because of a bug.
pub(crate) fn bug(error: impl std::fmt::Display) -> Failure {
    Failure::new(error, "this is a bug in floatgate: please report it")
}

/// Collects the texts of a result that contain control characters, while the result is converted to JSON. In a report
/// for users these characters are removed, so that a title cannot set a colour or look like a line of the report.
#[derive(Default)]
struct ControlTexts {
    text: String,
    found: Vec<String>,
}

impl ControlTexts {
    fn of(value: &impl Serialize) -> serde_json::Result<Self> {
        let mut all = Self::default();
        value.serialize(&mut Serializer::with_formatter(io::sink(), &mut all))?;
        Ok(all)
    }

    fn shown_in(&self, report: String) -> String {
        let shown = |text: &String| text.chars().map(words::shown).collect::<String>();
        self.found.iter().fold(report, |report, text| report.replace(text, &shown(text)))
    }
}

impl Formatter for &mut ControlTexts {
    fn begin_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.text.clear();
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.text.push_str(fragment);
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        self.text.push(match escape {
            CharEscape::Quote => '"',
            CharEscape::ReverseSolidus => '\\',
            CharEscape::Solidus => '/',
            CharEscape::Backspace => '\u{8}',
            CharEscape::FormFeed => '\u{C}',
            CharEscape::LineFeed => '\n',
            CharEscape::CarriageReturn => '\r',
            CharEscape::Tab => '\t',
            CharEscape::AsciiControl(byte) => char::from(byte),
        });
        Ok(())
    }

    fn end_string<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        let is_odd = self.text.chars().any(|c| words::shown(c) != c);
        if is_odd && !self.text.trim().is_empty() {
            self.found.push(self.text.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_the_report_alone() {
        let title = "a\u{1B}[31m\nb";
        let odd =
            ControlTexts::of(&serde_json::json!({ "title": title, "rows": [{ "name": "plain" }, "\n"] }))
                .unwrap();
        let report = format!("{title}: \u{1B}[31mred\u{1B}[39m\nplain\u{1B}[2J\n");
        let shown = harmless(&odd.shown_in(report), true);
        assert_eq!(shown, "a\u{fffd}[31m b: \u{1B}[31mred\u{1B}[39m\nplain\u{fffd}[2J\n");
    }
}
