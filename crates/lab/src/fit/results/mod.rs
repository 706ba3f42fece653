//! Measured figures in the output of tools: `flash_speed` and the kernel's `mtd_speedtest`, dd alone and with a shell's
//! `time`, U-Boot, and the user's own lines.
//!
//! A line is understood, carries no information (blank, comment, progress), or is reported as unknown. `set KEY=VALUE`
//! lines are the conditions of the following figures. A `set` line after figures begins a new block, in which the
//! earlier `set` lines no longer apply.
//!
//! - `flash_speed`, `dd`, `u_boot`, `kernel`, `own`: parsers for the lines of each tool, in the table [`TOOLS`].
//! - `shell`: prompts, other commands, and lines without information.
//! - `numbers`: numbers with the resolution of their printed form.

mod dd;
mod flash_speed;
mod kernel;
mod numbers;
mod own;
mod shell;
#[cfg(test)]
mod tests;
mod u_boot;

use crate::speed::Test;
use dd::{Dd, DdRun, Records};
use numbers::{is_plain, is_zero};
use serde::{Deserialize, Serialize};
use u_boot::Moved;

/// Maximum size of an input, bytes.
pub const RESULTS_MAX_BYTES: u64 = 16 << 20;

/// Maximum number of figures of one input: each is simulated some hundred times.
pub const FIGURES_MAX: usize = 500;

/// Operation that a figure measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A test of `flash_speed`.
    Test(Test),
    /// U-Boot's `sf update`: each eraseblock is read, erased and written.
    Update,
    /// Reads or writes by dd, in calls of this size.
    Bytes {
        /// Size of a call, bytes.
        unit: u64,
        /// True for writes.
        write: bool,
    },
}

/// A figure with the resolution of the tool that printed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// KiB/s computed from whole KiB and whole milliseconds, rounded down.
    FlashSpeed(f64),
    /// Range of the time, ns per byte.
    NsPerByte(f64, f64),
    /// Range of the time of a call, ns.
    NsPerCall(f64, f64),
}

/// A figure of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Line number, from 1.
    pub line: usize,
    /// Operation that was measured.
    pub measure: Measure,
    /// Speed or time, with its resolution.
    pub figure: Figure,
    /// Figure as printed, with its unit.
    pub text: String,
    /// Number of bytes moved, if the tool prints it.
    pub bytes: Option<u64>,
    /// Reservation about the measurement, if any.
    pub remark: Option<&'static str>,
}

impl Measurement {
    fn new(measure: Measure, figure: Figure, text: String) -> Self {
        Self { line: 0, measure, figure, text, bytes: None, remark: None }
    }

    /// Measurement of `bytes` that took a time between the two given ones, seconds.
    fn of_bytes(measure: Measure, (low, high): (f64, f64), bytes: f64, text: String) -> Self {
        let figure = Figure::NsPerByte(low * 1e9 / bytes, high * 1e9 / bytes);
        Self { bytes: Some(bytes as u64), ..Self::new(measure, figure, text) }
    }
}

/// Figures measured under the same conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Overrides on the setup.
    pub set: Vec<String>,
    /// Number of eraseblocks that each test moved, if the input states it.
    pub blocks: Option<u32>,
    /// Figures in the order of the input.
    pub figures: Vec<Measurement>,
}

/// A line that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Line number, from 1.
    pub line: usize,
    /// Text of the line, shortened.
    pub text: String,
    /// Reason why the line is not understood, in words.
    pub why: String,
}

/// Figures read from an input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Blocks with at least one figure.
    pub blocks: Vec<Block>,
    /// Number of lines with a figure, a condition or a number of blocks.
    pub understood: usize,
    /// Lines that are not understood.
    pub unknown: Vec<Unknown>,
}

/// Reads figures from text in UTF-8 or Latin-1, with any line ends.
pub fn parse(bytes: &[u8]) -> Results {
    let bytes = bytes.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    };
    let mut reader = Reader::default();
    for (line, text) in (1..).zip(text.split('\n')) {
        // A carriage return overwrites a line of progress, so only the last part counts.
        let text = text.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        let (command, output) = dd::with_output(text);
        reader.line(line, command);
        if let Some(output) = output {
            reader.line(line, output);
        }
    }
    reader.end()
}

/// Meaning of a line.
enum Line {
    Nothing,
    Set(String),
    Count(u32),
    Figure(Measurement),
    /// Command line of dd, to which the next figure belongs.
    Dd(Dd),
    /// Number of records that dd printed.
    Records(Records),
    /// Number of bytes that U-Boot moved; the time follows.
    Moved(Moved),
    /// State of the blocks whose speeds `floatgate probe` prints next.
    State(&'static str),
    /// Command line of another tool than dd: the following output is not dd's.
    Command,
    /// Command line of U-Boot, without its prompt.
    UBoot(String),
    /// Reason why the dd run above failed, in words.
    Failed(String),
    Wrong(String),
}

impl Line {
    fn wrong(why: impl Into<String>) -> Self {
        Self::Wrong(why.into())
    }

    /// A number that is not read, with the reason.
    fn not_read(what: &str, text: &str) -> Self {
        let shown: String = text.chars().take(SHOWN_MAX).collect();
        Self::Wrong(if !is_plain(text) {
            format!(
                "`{shown}` is no plain number: a {what} has digits and at most one decimal point, like 130 or 1.5"
            )
        } else if is_zero(text) {
            format!("no {what} above 0")
        } else {
            format!("`{shown}` is no {what} of a flash: it is 10^15 or more")
        })
    }
}

/// Maximum number of characters of a number in a message.
const SHOWN_MAX: usize = 24;

#[derive(Default)]
struct Reader {
    results: Results,
    block: Block,
    dd: DdRun,
    moved: Option<Moved>,
    /// Last command of U-Boot, if it neither reads nor writes the raw flash.
    other_command: Option<String>,
    state: Option<&'static str>,
    figures: usize,
}

/// Parser of a tool's lines; returns `None` for a line of another tool.
type Tool = fn(&Reader, &str) -> Option<Line>;

/// Parsers of all tools, in the order in which they are tried.
const TOOLS: [Tool; 5] = [flash_speed::read, kernel::read, dd::read, u_boot::read, own::read];

impl Reader {
    fn line(&mut self, number: usize, text: &str) {
        let text = shell::without_prefix(text);
        let meaning = self.meaning(text);
        self.end_run(text);
        match meaning {
            Line::Nothing => return,
            Line::Wrong(why) => {
                if u_boot::moved(text).is_some() {
                    self.moved = None;
                }
                return self.refuse(number, text, why);
            }
            Line::Command => {
                self.dd = DdRun::default();
                return;
            }
            Line::UBoot(command) => {
                self.dd = DdRun::default();
                self.moved = None;
                self.other_command = Some(command).filter(|command| !u_boot::is_raw(command));
                return;
            }
            Line::Failed(why) => {
                if self.dd.has_time {
                    self.dd = DdRun::default();
                }
                self.dd.failed = Some(why);
                if let Err(why) = self.dd.direction(true) {
                    return self.refuse(number, text, why);
                }
            }
            Line::State(state) => {
                self.state = Some(state);
                return;
            }
            Line::Set(set) => {
                if !self.block.figures.is_empty() {
                    self.close();
                }
                self.state = None;
                self.block.set.extend(Some(set).filter(|set| !set.is_empty()));
            }
            Line::Count(count) => self.block.blocks = Some(count),
            Line::Dd(dd) => self.dd = DdRun { command: Some(dd), ..DdRun::default() },
            Line::Records(records) => {
                // A line after the time belongs to another run.
                if self.dd.has_time {
                    self.dd = DdRun::default();
                }
                self.dd.records = Some(records);
            }
            Line::Moved(moved) => self.moved = Some(moved),
            Line::Figure(measurement) => {
                self.moved = None;
                if let Some(why) = self.is_other_state(&measurement) {
                    return self.refuse(number, text, why);
                }
                self.figures += 1;
                if self.figures > FIGURES_MAX {
                    return self.refuse(number, text, format!("more than {FIGURES_MAX} figures"));
                }
                self.block.figures.push(Measurement { line: number, ..measurement });
            }
        }
        self.results.understood += 1;
    }

    /// Drops the command and the records of a dd run after its time was printed, whether understood or not.
    fn end_run(&mut self, text: &str) {
        let has_time = text.contains("copied, ");
        if has_time || dd::shell_time(text).is_some() {
            self.dd = DdRun { has_time, ..DdRun::default() };
        }
    }

    fn refuse(&mut self, line: usize, text: &str, why: String) {
        let shown = text.trim().chars().map(|c| if c == '\t' { ' ' } else { c });
        let text: String = shown.filter(|c| !c.is_control()).take(60).collect();
        self.results.unknown.push(Unknown { line, text, why });
    }

    /// Reason to skip a speed of `floatgate probe`: it does not belong to written blocks, or repeats such a speed.
    fn is_other_state(&self, measurement: &Measurement) -> Option<String> {
        let is_known = self.block.figures.iter().any(|known| known.measure == measurement.measure);
        match self.state {
            Some("blank") => Some("blank eraseblocks, which are read otherwise than written ones".to_owned()),
            Some(state) if state != "written" && is_known => {
                Some(format!("eraseblocks that are {state}: the figure above is that of written ones"))
            }
            _ => None,
        }
    }

    fn close(&mut self) {
        let block = std::mem::take(&mut self.block);
        if !block.figures.is_empty() {
            self.results.blocks.push(block);
        }
    }

    fn end(mut self) -> Results {
        self.close();
        self.results
    }

    fn meaning(&self, text: &str) -> Line {
        if let Some(state) = flash_speed::state(text) {
            return Line::State(state);
        }
        if let Some(command) = u_boot::command(text) {
            return Line::UBoot(command.to_owned());
        }
        if shell::is_other_command(text) {
            return Line::Command;
        }
        if shell::says_nothing(text) {
            return Line::Nothing;
        }
        if text == "set" || text.starts_with("set ") {
            return set_line(text.trim_start_matches("set").trim());
        }
        let found = TOOLS.iter().find_map(|read| read(self, text));
        found.unwrap_or_else(|| Line::wrong("no form that is known"))
    }
}

fn set_line(set: &str) -> Line {
    let is_condition = set.is_empty()
        || set.split_once('=').is_some_and(|(key, value)| !key.trim().is_empty() && !value.trim().is_empty());
    if is_condition {
        Line::Set(set.to_owned())
    } else {
        Line::wrong("write it like `set bus.clock_hz=80e6`")
    }
}
