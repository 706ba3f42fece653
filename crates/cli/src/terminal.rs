//! The terminal: its width and colours, messages on stderr, and progress bars.

use crate::wrap;
use clap::ValueEnum as _;
use floatgate_host::output::Output;
use floatgate_image::words;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// When output has colours: on a terminal, unless NO_COLOR is set or TERM is dumb; in a pipe, too; nowhere.
// The variants have no descriptions, with which clap would lay out the help of every command differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs, reason = "clap would list them below the option, whose help explains them")]
pub(crate) enum Colours {
    #[default]
    Auto,
    Always,
    Never,
}

/// The value of `--color`: the number of a variant of [`Colours`].
static COLOURS: AtomicU8 = AtomicU8::new(Colours::Auto as u8);

/// True with `--quiet`.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Reads `--color` before the arguments are parsed, because errors of the parser also have colours. The parser
/// reports a wrong value.
pub(crate) fn choose_colours(words: &[OsString]) {
    let words = words.iter().map(|word| word.to_str().unwrap_or_default()).take_while(|word| *word != "--");
    let words: Vec<&str> = words.collect();
    for (at, word) in words.iter().enumerate() {
        let value = match word.strip_prefix("--color") {
            Some("") => words.get(at + 1).copied(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        if let Some(chosen) = value.and_then(|value| Colours::from_str(value, false).ok()) {
            COLOURS.store(chosen as u8, Ordering::Relaxed);
        }
    }
}

/// Disables notes and progress bars.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Hides a progress bar if `--quiet` is given.
pub(crate) fn unless_quiet(bar: ProgressBar) -> ProgressBar {
    if QUIET.load(Ordering::Relaxed) {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// Prints a note to stderr, unless `--quiet` is given.
pub(crate) fn print_note(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        print_stderr(text);
    }
}

/// Prints to stderr. A message that cannot be printed is lost, because there is no other output for it.
pub(crate) fn print_stderr(text: &str) {
    let limit = columns_of(rustix::stdio::stderr());
    let text = harmless(text, colour_of_stderr());
    let fitted = limit.map_or_else(|| format!("{text}\n"), |limit| wrap::fitted(&text, limit));
    let _ = io::stderr().lock().write_all(fitted.as_bytes());
}

/// Progress bar that also shows the time.
pub(crate) fn progress_bar(template: &str) -> ProgressBar {
    let bar = unless_quiet(ProgressBar::new(0));
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Removes control characters, which a terminal would obey, from a text that may contain names or titles of unknown
/// origin. Line feeds remain, and also colours if they are used.
pub(crate) fn harmless(text: &str, has_colours: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let kept = match c {
            '\n' => 1,
            '\u{1B}' if has_colours => colour_sequence(rest).unwrap_or(0),
            _ => 0,
        };
        out.push_str(&rest[..kept]);
        if kept == 0 {
            out.push(words::shown(c));
        }
        rest = &rest[kept.max(c.len_utf8())..];
    }
    out
}

/// Length of a sequence that sets colours (`ESC [ 31 m`) at the start of a text.
fn colour_sequence(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1B}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..].starts_with('m').then_some("\u{1B}[".len() + end + 1)
}

fn is_terminal() -> bool {
    Output::stdout().is_ok_and(|out| out.file().is_terminal())
}

/// Width of stdout in columns: the width of the terminal, or the value of COLUMNS. `None` in a pipe, where lines can
/// have any length.
pub(crate) fn columns() -> Option<usize> {
    Output::stdout().ok().and_then(|out| columns_of(out.file()))
}

/// Width of a stream that is a terminal; the number of its rows may be unknown.
fn columns_of(stream: impl AsFd) -> Option<usize> {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col));
    named
        .or_else(terminal)
        .map(|columns| if columns == 0 { COLUMNS_UNKNOWN } else { columns.max(COLUMNS_MIN) })
}

/// Width of a terminal that reports 0 columns, which means that its width is unknown.
const COLUMNS_UNKNOWN: usize = 80;

/// Width of the narrowest terminal that output is designed for, columns. The longest names do not fit narrower
/// terminals.
const COLUMNS_MIN: usize = 20;

/// Width of drawings made of characters, such as bars and waterfalls, columns.
pub(crate) fn width() -> usize {
    columns().unwrap_or(110).clamp(40, 400)
}

/// True if output is coloured: on a terminal, unless NO_COLOR is set.
pub(crate) fn colour() -> bool {
    has_colours(is_terminal())
}

/// True if messages on stderr are coloured, by the rules of [`colour`].
pub(crate) fn colour_of_stderr() -> bool {
    has_colours(io::stderr().is_terminal())
}

fn has_colours(is_terminal: bool) -> bool {
    match COLOURS.load(Ordering::Relaxed) {
        always if always == Colours::Always as u8 => true,
        never if never == Colours::Never as u8 => false,
        _ => is_terminal && colour_is_wanted(),
    }
}

fn colour_is_wanted() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !is_dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
