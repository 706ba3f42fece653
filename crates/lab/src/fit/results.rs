//! Measured figures from texts: `flash_speed` and the kernel's `mtd_speedtest`, dd alone and below a shell's `time`, U-Boot, and lines of one's own.
//!
//! A line is understood, says nothing (blank, comment, progress), or is reported. `set KEY=VALUE` lines are the conditions of what follows;
//! a `set` after figures begins a new block, and what was set before no longer holds.

use crate::speed::Test;
use serde::Serialize;

/// Largest input in bytes.
pub const RESULTS_MAX_BYTES: u64 = 16 << 20;

/// Most figures of one input: each is simulated some hundred times.
pub const FIGURES_MAX: usize = 500;

/// Operation that a figure is the speed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A test of `flash_speed`.
    Test(Test),
    /// U-Boot's `sf update`: each eraseblock read, erased and written.
    Update,
    /// Reads or writes in units of as many bytes, by dd.
    Bytes {
        /// Bytes of a call.
        unit: u64,
        /// True of writes.
        write: bool,
    },
}

/// A figure with the resolution of the tool that printed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// KiB/s from whole KiB and whole milliseconds, rounded down.
    FlashSpeed(f64),
    /// Nanoseconds per byte, between these two.
    NsPerByte(f64, f64),
    /// Time of a call in ns, between these two.
    NsPerCall(f64, f64),
}

/// A figure of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Line, from 1.
    pub line: usize,
    /// The test that was made.
    pub measure: Measure,
    /// Speed or time, with its rounding.
    pub figure: Figure,
    /// The figure as printed, with its unit.
    pub text: String,
    /// Bytes that were moved, where the tool says it.
    pub bytes: Option<u64>,
    /// Reservation about what was measured.
    pub remark: Option<&'static str>,
}

impl Measurement {
    fn new(measure: Measure, figure: Figure, text: String) -> Self {
        Self { line: 0, measure, figure, text, bytes: None, remark: None }
    }

    /// The time in seconds, of which two are given, of `bytes`.
    fn of_bytes(measure: Measure, (low, high): (f64, f64), bytes: f64, text: String) -> Self {
        let figure = Figure::NsPerByte(low * 1e9 / bytes, high * 1e9 / bytes);
        Self { bytes: Some(bytes as u64), ..Self::new(measure, figure, text) }
    }
}

/// Figures measured under the same conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Overrides of the setup.
    pub set: Vec<String>,
    /// Number of eraseblocks that each test moved, where the input says it.
    pub blocks: Option<u32>,
    /// Figures in the order of the input.
    pub figures: Vec<Measurement>,
}

/// A line that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// Line, from 1.
    pub line: usize,
    /// The text, shortened.
    pub text: String,
    /// Reason why not, in words.
    pub why: String,
}

/// Figures that were read from an input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Blocks with at least one figure.
    pub blocks: Vec<Block>,
    /// Lines with a figure, a condition or a number of blocks.
    pub understood: usize,
    /// Lines that are not understood.
    pub unknown: Vec<Unknown>,
}

/// Reads figures from bytes in UTF-8 or Latin-1, with any line ends.
pub fn parse(bytes: &[u8]) -> Results {
    let bytes = bytes.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    };
    let mut reader = Reader::default();
    for (line, text) in (1..).zip(text.split('\n')) {
        // A carriage return begins a line of progress anew; what was last is what counts.
        let text = text.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        let (command, output) = with_output(text);
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
    /// Command line of the next figure of dd.
    Dd(Dd),
    /// Records that dd counted.
    Records(Records),
    /// Bytes that U-Boot has moved in the time that follows.
    Moved(Moved),
    /// State of the blocks whose speeds `floatgate probe` prints next.
    State(&'static str),
    /// Another command line than one of dd: what is printed below it is not dd's.
    Command,
    /// Command line of U-Boot, without its prompt.
    UBoot(String),
    /// Reason why the run of dd above has failed, in words.
    Failed(String),
    Wrong(String),
}

impl Line {
    fn wrong(why: impl Into<String>) -> Self {
        Self::Wrong(why.into())
    }

    /// A number that is not read, with the reason why.
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

/// Characters of a number that a message shows.
const SHOWN_MAX: usize = 24;

/// Command line of dd.
#[derive(Clone, Debug, PartialEq)]
struct Dd {
    /// Bytes of a record that is read.
    unit: u64,
    /// Bytes of a call to the flash.
    call: u64,
    /// Number of records that `count=` asks for.
    count: Option<u64>,
    /// True for writes; or the reason why its figure does not measure the flash.
    write: Result<bool, String>,
}

/// Records that dd has read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Records {
    Whole(u64),
    /// One of them was shorter, by an unknown number of bytes.
    Partial,
}

/// State of the run of dd whose lines are read.
#[derive(Clone, Debug, Default)]
struct DdRun {
    command: Option<Dd>,
    records: Option<Records>,
    /// Reason why it has failed, in words.
    failed: Option<String>,
    /// True when dd itself has printed its time, which a shell's `time` prints again.
    has_time: bool,
}

impl DdRun {
    /// True for writes; or the reason why its time does not measure the flash.
    fn direction(&self, is_counted: bool) -> Result<bool, String> {
        let write = self.command.as_ref().map_or(Ok(false), |dd| dd.write.clone())?;
        match &self.failed {
            // A write without count= ends so, at the end of the flash, and dd counts what it has written.
            Some(why) if !(write && is_counted && why == FULL) => Err(format!("dd failed: {why}")),
            _ => Ok(write),
        }
    }
}

/// Linux's words for ENOSPC.
const FULL: &str = "No space left on device";

/// Operation that U-Boot prints the time of; none where no test of the flash does it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moved {
    bytes: f64,
    test: Option<Test>,
}

#[derive(Default)]
struct Reader {
    results: Results,
    block: Block,
    dd: DdRun,
    moved: Option<Moved>,
    /// U-Boot's command above, when it neither reads nor writes the raw flash.
    other_command: Option<String>,
    state: Option<&'static str>,
    figures: usize,
}

impl Reader {
    fn line(&mut self, number: usize, text: &str) {
        let text = without_prefix(text);
        let meaning = self.meaning(text);
        self.end_run(text);
        match meaning {
            Line::Nothing => return,
            Line::Wrong(why) => {
                if moved(text).is_some() {
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
                self.other_command = Some(command).filter(|command| !is_raw(command));
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
                // Behind a time, another run begins.
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

    /// Forgets the command and the records of a run of dd whose time was printed, understood or not.
    fn end_run(&mut self, text: &str) {
        let has_time = text.contains("copied, ");
        if has_time || shell_time(text).is_some() {
            self.dd = DdRun { has_time, ..DdRun::default() };
        }
    }

    fn refuse(&mut self, line: usize, text: &str, why: String) {
        let shown = text.trim().chars().map(|c| if c == '\t' { ' ' } else { c });
        let text: String = shown.filter(|c| !c.is_control()).take(60).collect();
        self.results.unknown.push(Unknown { line, text, why });
    }

    /// Reason why a speed that `floatgate probe` prints does not belong to written blocks, or repeats one that does.
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
        if let Some(state) = state(text) {
            return Line::State(state);
        }
        if let Some(command) = u_boot_command(text) {
            return Line::UBoot(command.to_owned());
        }
        if is_other_command(text) {
            return Line::Command;
        }
        if says_nothing(text) {
            return Line::Nothing;
        }
        if text == "set" || text.starts_with("set ") {
            return set_line(text.trim_start_matches("set").trim());
        }
        let readers: [fn(&Self, &str) -> Option<Line>; 12] = [
            |_, text| flash_speed(text),
            |_, text| device(text),
            |_, text| ubi_message(text),
            |_, text| dd_command(text),
            Self::failure,
            |_, text| records(text),
            Self::dd,
            Self::timed_dd,
            Self::u_boot,
            |_, text| moved(text),
            Self::u_boot_time,
            |_, text| own(text),
        ];
        readers
            .iter()
            .find_map(|read| read(self, text))
            .unwrap_or_else(|| Line::wrong("no form that is known"))
    }

    /// `dd: error reading '/dev/mtd4': Input/output error`, `sh: dd: not found`, and what shells and `time` print of a command that has failed.
    fn failure(&self, text: &str) -> Option<Line> {
        let begins = |begin: &&str| self.dd.command.is_some() && text.starts_with(*begin);
        if ["^C", "Command exited with", "Command terminated by"].iter().any(begins) {
            return Some(Line::Failed(text.replace("^C", "interrupted by ^C ").trim().to_owned()));
        }
        let (program, message) = text.split_once("dd: ")?;
        let is_program = program.is_empty() || program.ends_with('/') || program.ends_with(": ");
        // The reason is behind the file's name.
        let reason =
            message.rsplit(": ").next().filter(|reason| !reason.starts_with(['\'', '"', '\u{2018}']));
        is_program.then(|| Line::Failed(reason.unwrap_or(message).trim().to_owned()))
    }

    /// `16777216 bytes (17 MB, 16 MiB) copied, 2.71 s, 6.2 MB/s`, and busybox's `(16.0MB) copied, 2.709654 seconds, 5.9MB/s`.
    fn dd(&self, text: &str) -> Option<Line> {
        const LANGUAGE: &str = "dd in another language: run it with LC_ALL=C";
        if ["copiés", "kopiert", "copiados", "copiati"].iter().any(|word| text.contains(word)) {
            return Some(Line::wrong(LANGUAGE));
        }
        let (bytes, rest) = text.split_once(" bytes ")?;
        let time = rest.split_once("copied, ")?.1;
        let seconds = time.split([' ', 's']).next()?;
        if seconds.contains(',') {
            return Some(Line::wrong(LANGUAGE));
        }
        let Some(span) = span(seconds) else { return Some(Line::not_read("time", seconds)) };
        let bytes = bytes.trim();
        let Some(bytes) = number(bytes) else { return Some(Line::not_read("number of bytes", bytes)) };
        let counted = match self.dd.records {
            Some(Records::Whole(n)) if n > 0 => Some((bytes / n as f64).ceil() as u64),
            _ => None,
        };
        let write = match self.dd.direction(true) {
            Ok(write) => write,
            Err(why) => return Some(Line::wrong(why)),
        };
        let unit = self.dd.command.as_ref().map(|dd| dd.call).or(counted).unwrap_or(u64::MAX);
        let measure = Measure::Bytes { unit, write };
        Some(Line::Figure(Measurement::of_bytes(measure, span, bytes, format!("{seconds} s"))))
    }

    /// `real 0m 1.86s` behind what a shell's `time` has run, where dd prints no time itself: BusyBox's dd may
    /// be built so.
    fn timed_dd(&self, text: &str) -> Option<Line> {
        let time = shell_time(text)?;
        if self.dd.has_time {
            return Some(Line::Nothing);
        }
        let write = match self.dd.direction(false) {
            Ok(write) => write,
            Err(why) => return Some(Line::wrong(why)),
        };
        let Some(Dd { unit, call, count, .. }) = self.dd.command else {
            return Some(Line::wrong(
                "no command line above, like `time dd if=/dev/mtd4 of=/dev/null bs=10M count=1`, says what took this time",
            ));
        };
        let records = match (self.dd.records, count) {
            (Some(Records::Whole(0)), _) => return Some(Line::wrong("dd has read no whole record")),
            (Some(Records::Whole(records)), _) | (None, Some(records)) => records,
            (Some(Records::Partial), _) => {
                return Some(Line::wrong(
                    "dd has read a record that is not whole, and does not say how long it is: give it count=N, for whole records",
                ));
            }
            (None, None) => {
                return Some(Line::wrong("no line above says how many records dd has moved in this time"));
            }
        };
        let Some(span) = duration(time) else {
            return Some(if time.chars().any(|c| c.is_ascii_digit() && c != '0') {
                Line::wrong("no form of a time that is read, like `0m 1.86s` or `1.86`")
            } else {
                Line::wrong("no time above 0")
            });
        };
        let Some(bytes) = records.checked_mul(unit) else {
            return Some(Line::wrong("the records of dd above are more than 2^64 bytes"));
        };
        let text = time.split_whitespace().collect::<Vec<_>>().join(" ");
        let measure = Measure::Bytes { unit: call, write };
        Some(Line::Figure(Measurement::of_bytes(measure, span, bytes as f64, text)))
    }

    /// `time: 1.680 seconds`, `time: 1 minutes, 2.345 seconds` behind what U-Boot's `time` has run.
    fn u_boot_time(&self, text: &str) -> Option<Line> {
        let time = text.strip_prefix("time: ")?.strip_suffix(" seconds")?;
        let (minutes, seconds) = time.split_once(" minutes, ").unwrap_or(("0", time));
        if let Some(why) = self.not_raw() {
            return Some(Line::Wrong(why));
        }
        let Ok(minutes) = minutes.parse::<u32>() else { return Some(Line::not_read("time", minutes)) };
        let Some(span) = span_from(60.0 * f64::from(minutes), seconds) else {
            return Some(Line::not_read("time", seconds));
        };
        let Some(Moved { bytes, test }) = self.moved else {
            return Some(Line::wrong(
                "no line above says how many bytes U-Boot has read or written in this time",
            ));
        };
        let Some(test) = test else {
            return Some(Line::wrong("the time of an erase, whose eraseblocks are not known"));
        };
        Some(Line::Figure(Measurement::of_bytes(Measure::Test(test), span, bytes, format!("{time} s"))))
    }

    /// `4194304 bytes read in 350 ms (11.4 MiB/s)`, `16777216 bytes written, 0 bytes skipped in 59.8s, speed 285975 B/s`.
    fn u_boot(&self, text: &str) -> Option<Line> {
        let (bytes, rest) = text.split_once(" bytes ")?;
        let (measure, span, time, remark) = if let Some(rest) = rest.strip_prefix("read in ") {
            let ms = rest.split_once(" ms")?.0;
            let Some(count) = number(ms) else { return Some(Line::not_read("time", ms)) };
            let remark = "U-Boot prints this of files: the filesystem's time counts as the flash's; `time sf read` and `time nand read` have none";
            (
                Measure::Test(Test::Read(0)),
                (count / 1e3, (count + 1.0) / 1e3),
                format!("{ms} ms"),
                Some(remark),
            )
        } else {
            let rest = rest.strip_prefix("written, ")?;
            let (skipped, rest) = rest.split_once(" bytes skipped in ")?;
            if skipped != "0" {
                return Some(Line::wrong("blocks were skipped: their number is not known"));
            }
            let seconds = rest.split(['s', ' ']).next()?;
            let Some(span) = span(seconds) else { return Some(Line::not_read("time", seconds)) };
            (Measure::Update, span, format!("{seconds} s"), None)
        };
        if let Some(why) = self.not_raw() {
            return Some(Line::Wrong(why));
        }
        let Some(bytes) = number(bytes) else { return Some(Line::not_read("number of bytes", bytes)) };
        Some(Line::Figure(Measurement { remark, ..Measurement::of_bytes(measure, span, bytes, time) }))
    }

    /// Reason why what U-Boot prints is no figure of the raw flash.
    fn not_raw(&self) -> Option<String> {
        let command: String = self.other_command.as_ref()?.chars().take(40).collect();
        Some(format!(
            "`{command}` does not read the raw flash: measure `time nand read`, `time sf read` or `time mtd read`"
        ))
    }
}

/// A command line of dd and, in the same line, what dd has printed. Pastes often lose the line break between them.
fn with_output(text: &str) -> (&str, Option<&str>) {
    let begin = |output: &str| text.find(output).and_then(|end| text[..end].rfind(char::is_whitespace));
    match text.find(" dd: ").or_else(|| begin(" records in")).or_else(|| begin(" bytes ")) {
        Some(at) if dd_command(&text[..at]).is_some() => (&text[..at], Some(&text[at..])),
        _ => (text, None),
    }
}

/// The elapsed time that `time` prints: `real 0m 1.86s` of BusyBox, `real 0m1.860s` of bash, `real 1.86` of POSIX, `0:01.86elapsed` of GNU.
fn shell_time(text: &str) -> Option<&str> {
    let real = text.strip_prefix("real").filter(|time| time.starts_with(char::is_whitespace));
    let elapsed = || text.split_whitespace().find_map(|word| word.strip_suffix("elapsed"));
    real.map(str::trim).or_else(elapsed).filter(|time| time.starts_with(|c: char| c.is_ascii_digit()))
}

/// Times in seconds that `time` prints like this. It cuts digits off, and the start of the program counts: the times are a unit of the last digit to either
/// side.
fn duration(text: &str) -> Option<(f64, f64)> {
    let text: String = text.split_whitespace().collect();
    let mut minutes = 0.0;
    let mut rest = text.strip_suffix('s').unwrap_or(&text);
    while let Some((whole, other)) = rest.split_once(['h', 'm', ':']) {
        minutes = minutes * 60.0 + f64::from(whole.parse::<u32>().ok()?);
        rest = other;
    }
    let (low, high) = span_from(60.0 * minutes, rest)?;
    let half = (high - low) / 2.0;
    Some(((low - half).max(low / 2.0), high + half))
}

/// The state of the blocks in a heading of `floatgate probe`: `# 16 eraseblocks, just written`.
fn state(text: &str) -> Option<&'static str> {
    let (count, state) = text.strip_prefix("# ")?.split_once(", ")?;
    let is_heading = count.ends_with(" eraseblock") || count.ends_with(" eraseblocks");
    ["written", "blank", "just written"].into_iter().find(|known| is_heading && *known == state.trim())
}

/// The text behind what mails, dmesg, syslog and the tests' own names put before it.
fn without_prefix(text: &str) -> &str {
    let mut text = text.trim_start_matches("> ").trim();
    if let Some((stamp, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_stamp = !stamp.is_empty() && stamp.chars().all(|c| c.is_ascii_digit() || " .T".contains(c));
        text = if is_stamp { rest.trim() } else { text };
    }
    for name in ["mtd_speedtest:", "flash_speed:"] {
        if let Some((_, rest)) = text.split_once(name) {
            return rest.trim();
        }
    }
    text
}

/// The command behind a shell's prompt, or a comment: `# cmd`, `root@OpenWrt:~# cmd`, `[root@board ~]# cmd`, `/ # cmd`.
fn behind_prompt(text: &str) -> Option<&str> {
    let (prompt, command) = text.split_at(text.find(['#', '$'])?);
    let is_prompt = prompt.is_empty() || prompt.contains('@') || prompt.starts_with(['~', '/']);
    is_prompt.then(|| command[1..].trim_start())
}

/// True of a command that is not dd, and not a comment, which a root shell's prompt looks like.
fn is_other_command(text: &str) -> bool {
    let is_timed = |command: &str| command.starts_with("time ");
    let is_command = match behind_prompt(text) {
        Some(command) => !command.is_empty() && (!text.starts_with('#') || is_timed(command)),
        None => is_timed(text),
    };
    is_command && dd_command(text).is_none()
}

/// Commands of U-Boot that move bytes between memory and something else.
const U_BOOT: [&str; 19] = [
    "load",
    "fatload",
    "ext2load",
    "ext4load",
    "fsload",
    "ubifsload",
    "sqfsload",
    "erofsload",
    "zfsload",
    "tftp",
    "tftpboot",
    "nfs",
    "loadb",
    "loady",
    "sf",
    "nand",
    "mtd",
    "mmc",
    "ubi",
];

/// The command behind U-Boot's prompt, without `time`: `=> load mmc 0 80000000 x`, `U-Boot> time sf read 42000000 0 400000`. Boards have prompts of their
/// own, behind which only some commands are known.
fn u_boot_command(text: &str) -> Option<&str> {
    let usual = text.split_once("=>").filter(|(prompt, _)| !prompt.contains(char::is_whitespace));
    if let Some((_, command)) = usual {
        return Some(without_time(command)).filter(|command| !command.is_empty());
    }
    let behind = ["> ", "# ", "$ "].into_iter().filter_map(|end| text.split_once(end));
    let commands = behind.filter(|(prompt, _)| prompt.len() <= PROMPT_MAX).map(|(_, command)| command);
    let is_known = |command: &&str| {
        let mut words = command.split_whitespace();
        words.next().is_some_and(|word| U_BOOT.contains(&word)) && words.next().is_some()
    };
    commands.chain([text]).map(without_time).find(is_known)
}

/// Longest prompt of U-Boot in bytes.
const PROMPT_MAX: usize = 32;

/// True of U-Boot's commands that read, write or erase the raw flash, and of nothing else: `sf probe; sf read`, `nand read.raw`, `mtd write`.
fn is_raw(command: &str) -> bool {
    let parts = || command.split([';', '&']).map(without_time).filter(|part| !part.is_empty());
    let is_of_flash =
        |part: &str| part.split(' ').next().is_some_and(|word| ["sf", "nand", "mtd"].contains(&word));
    let moves = |part: &str| {
        let what = part.split_whitespace().nth(1).and_then(|word| word.split('.').next());
        what.is_some_and(|what| ["read", "write", "update", "erase"].contains(&what))
    };
    parts().all(is_of_flash) && parts().any(moves)
}

/// A command of U-Boot without the `time` before it.
fn without_time(command: &str) -> &str {
    let command = command.trim();
    command.strip_prefix("time ").map_or(command, str::trim_start)
}

/// Messages of UBI and UBIFS in dmesg: `ubi0: attached mtd4 (name "rootfs", size 64 MiB)`, `UBIFS (ubi0:0): ...`.
fn ubi_message(text: &str) -> Option<Line> {
    let is_ubi = |word: &str| {
        word.strip_suffix(':').unwrap_or(word).to_ascii_lowercase().strip_prefix("ubi").is_some_and(
            |number| {
                let number = number.trim_start_matches('-');
                number.is_empty() || number.chars().all(|c| c.is_ascii_digit())
            },
        )
    };
    let mut words = text.split_whitespace();
    let is_message = |word: &str| word.ends_with(':') && is_ubi(word);
    let first = words.next().unwrap_or_default();
    if first.trim_end_matches(':') == "UBIFS" || text.contains(" UBIFS (ubi") {
        return Some(Line::wrong("a message of UBIFS: mount times are not used by fit"));
    }
    (is_ubi(first) || words.any(is_message))
        .then(|| Line::wrong("a message of UBI: attach times are not used by fit"))
}

/// True of the other times that `time` prints.
fn is_cpu_time(text: &str) -> bool {
    let of = |name| text.strip_prefix(name).is_some_and(|time: &str| time.starts_with(char::is_whitespace));
    of("user") || of("sys") || text.ends_with("pagefaults 0swaps")
}

/// True of blank lines, comments, commands that are not dd, rules and the progress of the tests.
fn says_nothing(text: &str) -> bool {
    let progress = [
        "testing ",
        "scanning ",
        "scanned ",
        "finished",
        "not NAND",
        "erasing",
        "Testing ",
        "Scanning ",
        "device ",
        "NAND read: ",
        "NAND write: ",
        "NAND erase: ",
        "=>",
        // dd reads less than a record and goes on; its records say so.
        "dd: warning: ",
    ];
    text.trim_matches(['=', '-', '*', '>']).is_empty()
        || behind_prompt(text).is_some() && dd_command(text).is_none()
        || is_cpu_time(text)
        || progress.iter().any(|begin| text.starts_with(begin))
        || ["records out", "blocks are bad", "eraseblocks are bad"].iter().any(|end| text.ends_with(end))
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

/// `eraseblock write speed is 3542 KiB/s`, `2x multi-block erase speed is 247841 KiB/s`.
fn flash_speed(text: &str) -> Option<Line> {
    let (name, rest) = text.split_once(" speed is ")?;
    let rest = rest.split('(').next()?.trim();
    let name = name.replace(" multi-block", "");
    let Some(test) = Test::from_name(&name) else {
        return Some(Line::wrong("no test of flash_speed has this name"));
    };
    let Some((text, unit)) = rest.rsplit_once(' ') else {
        return Some(Line::Wrong(format!("`{rest}` is no number with a unit")));
    };
    let Some(per_unit) = bytes_of(unit) else {
        return Some(Line::Wrong(format!("`{unit}` is none of KiB/s, MiB/s, kB/s, MB/s")));
    };
    if text.parse::<f64>() == Ok(0.0) {
        return Some(Line::wrong("the tests were too short for a speed above 0: measure more blocks"));
    }
    let Some((kib_s, (low, high))) = number(text).zip(span(text)) else {
        return Some(Line::not_read("speed", text));
    };
    let figure = if unit == "KiB/s" { Figure::FlashSpeed(kib_s) } else { per_s(low, high, per_unit) };
    Some(Line::Figure(Measurement::new(Measure::Test(test), figure, format!("{text} {unit}"))))
}

/// Bytes of the unit of a speed.
fn bytes_of(unit: &str) -> Option<f64> {
    match unit {
        "KiB/s" => Some(1024.0),
        "MiB/s" => Some(1_048_576.0),
        "kB/s" => Some(1e3),
        "MB/s" => Some(1e6),
        _ => None,
    }
}

/// A speed between two numbers of units a second, each of `bytes` bytes.
fn per_s(low: f64, high: f64, bytes: f64) -> Figure {
    Figure::NsPerByte(1e9 / (high * bytes), 1e9 / (low * bytes))
}

/// `MTD device: 4    count: 16`, `blocks 16`; the sizes of the device say nothing that the setup does not.
fn device(text: &str) -> Option<Line> {
    let count = text.strip_prefix("blocks ").or_else(|| {
        let rest = text.strip_prefix("MTD device").and_then(|rest| rest.split_once("count:"));
        rest.map(|(_, count)| count)
    });
    match count.map(|count| (count.trim(), count.trim().parse())) {
        Some((_, Ok(count))) if count > 0 => Some(Line::Count(count)),
        Some((text, _)) if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) && !is_zero(text) => {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            Some(Line::Wrong(format!("`{shown}` is more blocks than any flash has: {} at most", u32::MAX)))
        }
        Some((text, _)) if is_plain(text) && !is_zero(text) => Some(Line::wrong("no whole number of blocks")),
        Some((text, _)) => Some(Line::not_read("number of blocks", text)),
        None if text.starts_with("MTD device") => Some(Line::Nothing),
        None => None,
    }
}

/// A command line with `dd if=... of=... bs=...`.
fn dd_command(text: &str) -> Option<Line> {
    let is_program =
        |word: &&str| word.trim_start_matches(['\'', '"', '(', '`']).rsplit('/').next() == Some("dd");
    let mut words = text.split_whitespace().skip_while(|word| !is_program(word));
    words.next()?;
    let words: Vec<&str> = words.collect();
    let options: Vec<(&str, &str)> = words.iter().filter_map(|word| word.split_once('=')).collect();
    if options.is_empty() {
        return None;
    }
    let of = |name: &str| options.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let path = |name: &str| of(name).map(|path| path.trim_matches(['"', '\'']));
    let size = |name: &str| match of("bs").or_else(|| of(name)) {
        None => Ok(512),
        Some(text) => with_suffix(text).ok_or_else(|| {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            format!("the unit of dd, `{shown}`, is no size that is read, like bs=1M")
        }),
    };
    let is_piped = words.iter().any(|word| word.starts_with('|')) && of("of").is_none();
    let write = if is_piped {
        Err("dd into a pipe: what reads it takes time, too: read to /dev/null".to_owned())
    } else {
        direction(path("if"), path("of")).map_err(str::to_owned)
    };
    let units = size("ibs").and_then(|input| Ok((input, size("obs")?)));
    let in_bytes = of("iflag").is_some_and(|flags| flags.contains("count_bytes"));
    let count = of("count").filter(|_| !in_bytes).and_then(with_suffix);
    Some(Line::Dd(match units {
        Ok((unit, output)) => Dd { unit, call: if write == Ok(true) { output } else { unit }, count, write },
        Err(why) => Dd { unit: 512, call: 512, count: None, write: write.and(Err(why)) },
    }))
}

/// True when dd writes to the flash, false when it reads from it.
fn direction(from: Option<&str>, to: Option<&str>) -> Result<bool, &'static str> {
    let is_flash = |path: Option<&str>| path.is_some_and(is_raw_flash);
    let is_device = |path: &str| path.starts_with("/dev/") && !["/dev/null", "/dev/stdout"].contains(&path);
    let paths = || from.into_iter().chain(to);
    match (is_flash(from), is_flash(to)) {
        (true, true) => Err("dd from flash to flash: a read and a write in one time"),
        (false, true) => Ok(true),
        (true, false) if to.is_some_and(is_device) => Err("dd to another device: read to /dev/null"),
        (true, false) => Ok(false),
        (false, false) if paths().any(|path| path.starts_with("/dev/mtdblock")) => {
            Err("mtdblock has the page cache and the block layer above the flash: read /dev/mtdN")
        }
        (false, false) if paths().any(|path| path.starts_with("/dev/ubi")) => {
            Err("dd neither from nor to /dev/mtdN: UBI is above the flash")
        }
        (false, false) => Err("dd neither from nor to /dev/mtdN: no figure of the raw flash"),
    }
}

/// True of MTD character devices: `/dev/mtd4`, `/dev/mtd4ro`, devfs's `/dev/mtd/4`, and links to them in a folder `/dev/mtd`.
fn is_raw_flash(path: &str) -> bool {
    let Some(name) = path.strip_prefix("/dev/mtd") else { return false };
    let digits = name.trim_end_matches("ro");
    name.starts_with('/') || !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

/// A size as dd takes it: 2048, 4k, 1M, 1MB.
fn with_suffix(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let factor = match suffix {
        "" | "c" => 1,
        "b" => 512,
        "kB" | "KB" => 1000,
        "k" | "K" | "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "m" | "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "g" | "G" | "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|&size| size > 0)
}

/// `128+0 records in`.
fn records(text: &str) -> Option<Line> {
    let (whole, part) = text.strip_suffix(" records in")?.split_once('+')?;
    match (whole.trim().parse::<u64>(), part.parse::<u64>()) {
        (Ok(whole), Ok(0)) => Some(Line::Records(Records::Whole(whole))),
        (Ok(_), Ok(_)) => Some(Line::Records(Records::Partial)),
        _ => Some(Line::wrong("no number of records that is read, like `16+0`")),
    }
}

/// `SF: 4194304 bytes @ 0x0 Read: OK`, ` 4194304 bytes read: OK`, `Reading 4194304 byte(s) (2048 page(s)) at offset 0x0`: the time follows.
fn moved(text: &str) -> Option<Line> {
    for (begin, test) in [("Reading ", Test::Read(0)), ("Writing ", Test::Write(0))] {
        let Some((bytes, _)) = text.strip_prefix(begin).and_then(|rest| rest.split_once(" byte(s)")) else {
            continue;
        };
        return Some(match number(bytes) {
            Some(bytes) => Line::Moved(Moved { bytes, test: Some(test) }),
            None => Line::not_read("number of bytes", bytes),
        });
    }
    if text.contains(" failed with error ")
        && ["Read on ", "Write on "].iter().any(|begin| text.starts_with(begin))
    {
        return Some(Line::wrong("U-Boot says that it has failed"));
    }
    let (bytes, rest) = text.strip_prefix("SF: ").unwrap_or(text).split_once(" bytes ")?;
    let (what, end) = rest.rsplit_once(": ")?;
    let what = what.rsplit(' ').next()?;
    let test = match what.to_ascii_lowercase().as_str() {
        "read" => Some(Test::Read(0)),
        "written" => Some(Test::Write(0)),
        "erased" => None,
        _ => return None,
    };
    Some(match number(bytes) {
        Some(bytes) if end == "OK" => Line::Moved(Moved { bytes, test }),
        Some(_) => Line::wrong("U-Boot says that it has failed"),
        None => Line::not_read("number of bytes", bytes),
    })
}

/// `page read 227 us`, `eraseblock write 3.4 MiB/s`: a test of `flash_speed`, or `update`.
fn own(text: &str) -> Option<Line> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name @ .., figure, unit] = words.as_slice() else { return None };
    let name = name.join(" ");
    let measure = if name == "update" { Measure::Update } else { Measure::Test(Test::from_name(&name)?) };
    let Some((low, high)) = span(figure) else { return Some(Line::not_read("figure", figure)) };
    let per_call = |ns: f64| Figure::NsPerCall(low * ns, high * ns);
    let figure_of = match (*unit, bytes_of(unit)) {
        (_, Some(bytes)) => per_s(low, high, bytes),
        ("us", _) => per_call(1e3),
        ("ms", _) => per_call(1e6),
        ("s", _) => per_call(1e9),
        _ => return Some(Line::wrong("the unit is none of KiB/s, MiB/s, kB/s, MB/s, us, ms, s")),
    };
    Some(Line::Figure(Measurement::new(measure, figure_of, format!("{figure} {unit}"))))
}

/// A number above 0 that a flash can have.
fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|x| is_plain(text) && *x > 0.0 && *x < 1e15)
}

/// True of digits with at most one decimal point.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok()
}

/// True of a plain 0, with any number of digits.
fn is_zero(text: &str) -> bool {
    is_plain(text) && text.chars().all(|c| c == '0' || c == '.')
}

/// Numbers that print as `text`: half a unit of its last digit to either side.
fn span(text: &str) -> Option<(f64, f64)> {
    span_from(0.0, text)
}

/// Numbers above 0 that are `more` than those that print as `text`.
fn span_from(more: f64, text: &str) -> Option<(f64, f64)> {
    let value = more + if is_zero(text) { 0.0 } else { number(text)? };
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half = 0.5 / 10f64.powi(i32::try_from(decimals).ok()?.min(15));
    (value > 0.0).then(|| ((value - half).max(value / 2.0), value + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Measurement {
        let results = parse(text.as_bytes());
        assert!(results.unknown.is_empty(), "{:?}", results.unknown);
        assert_eq!(results.blocks.len(), 1, "{text}");
        results.blocks[0].figures[0].clone()
    }

    #[test]
    fn figures_beyond_the_limit_are_named() {
        let line = "eraseblock write speed is 3542 KiB/s\n";
        let results = parse(line.repeat(FIGURES_MAX + 1).as_bytes());
        assert_eq!(results.understood, FIGURES_MAX);
        let [beyond] = &results.unknown[..] else { panic!("{:?}", results.unknown) };
        assert!(beyond.line == FIGURES_MAX + 1 && beyond.why.contains("500 figures"), "{beyond:?}");
    }

    #[test]
    fn forms_of_each_tool_are_understood() {
        let kernel = "[  103.5] mtd_speedtest: eraseblock write speed is 3542 KiB/s\r\n";
        assert_eq!(
            (only(kernel).measure, only(kernel).figure),
            (Measure::Test(Test::Write(0)), Figure::FlashSpeed(3542.0))
        );
        let many = only("2x multi-block erase speed is 247841 KiB/s");
        assert_eq!(many.measure, Measure::Test(Test::Erase(2)));
        let busybox =
            only("16+0 records in\n16+0 records out\n16777216 bytes (16.0MB) copied, 2.71 seconds, 5.9MB/s");
        assert_eq!(busybox.measure, Measure::Bytes { unit: 1 << 20, write: false });
        let Figure::NsPerByte(low, high) = busybox.figure else { panic!("{busybox:?}") };
        assert!((low * 16.777216 - 2705.0).abs() < 1e-6 && (high * 16.777216 - 2715.0).abs() < 1e-6);
        let gnu = only(
            "# dd if=/dev/zero of=/dev/mtd3 bs=128k\n67108864 bytes (67 MB, 64 MiB) copied, 14.58 s, 4.6 MB/s",
        );
        assert_eq!(gnu.measure, Measure::Bytes { unit: 128 << 10, write: true });
        assert_eq!(only("4194304 bytes read in 350 ms (11.4 MiB/s)").measure, Measure::Test(Test::Read(0)));
        let update = only("16777216 bytes written, 0 bytes skipped in 59.8s, speed 285975 B/s");
        assert_eq!(update.measure, Measure::Update);
        assert_eq!(only("page read 227 us").figure, Figure::NsPerCall(226.5e3, 227.5e3));
    }

    #[test]
    fn runs_of_dd_below_time_are_understood_in_all_shells() {
        let run = |prompt: &str, times: &str| {
            format!(
                "{prompt}time dd if=/dev/mtd4 of=/dev/null bs=10M count=1\n1+0 records in\n1+0 records out\n{times}\n"
            )
        };
        let busybox = "real\t0m 1.86s\nuser\t0m 0.00s\nsys\t0m 0.28s";
        for (prompt, times) in [
            ("# ", busybox),
            ("root@OpenWrt:~# ", busybox),
            ("/ # ", busybox),
            ("$ ", "\nreal\t0m1.863s\nuser\t0m0.003s\nsys\t0m0.281s"),
            ("[root@board ~]$ ", "real 1.86\nuser 0.00\nsys 0.28"),
            (
                "",
                "0.00user 0.28system 0:01.86elapsed 15%CPU (0avgtext+0avgdata 1408maxresident)k\n0inputs+0outputs (0major+75minor)pagefaults 0swaps",
            ),
        ] {
            let found = only(&run(prompt, times));
            assert_eq!(found.measure, Measure::Bytes { unit: 10 << 20, write: false }, "{times}");
            assert_eq!(found.bytes, Some(10 << 20));
            let Figure::NsPerByte(low, high) = found.figure else { panic!("{found:?}") };
            let seconds = [low, high].map(|ns| ns * f64::from(10 << 20) / 1e9);
            assert!(
                seconds[0] > 1.84 && seconds[0] < 1.863 && seconds[1] > 1.863 && seconds[1] < 1.88,
                "{seconds:?}"
            );
        }
        // Several runs in a row, quoted by a mail, with other commands between them.
        let quoted = format!(
            "{}root@OpenWrt:~# cat /proc/mtd\n{}",
            run("root@OpenWrt:~# ", busybox),
            run("# ", busybox)
        );
        let quoted: String = quoted.lines().map(|line| format!("> {line}\n")).collect();
        let results = parse(quoted.as_bytes());
        assert!(results.unknown.is_empty(), "{:?}", results.unknown);
        assert_eq!(results.blocks[0].figures.iter().map(|figure| figure.line).collect::<Vec<_>>(), [4, 11]);
        let long = only("# time dd if=/dev/mtd4 of=/dev/null bs=1M count=64 2>/dev/null\nreal 1m 0.00s\n");
        assert_eq!((long.bytes, long.text.as_str()), (Some(64 << 20), "1m 0.00s"));
    }

    #[test]
    fn a_time_that_dd_has_printed_itself_counts_once() {
        let text = "# time dd if=/dev/mtd1 of=/dev/null bs=1M count=8 status=progress 8+0 records in\n8+0 records out\n\
                    8388608 bytes (8.0MB) copied, 2.71 seconds, 2.9MB/s\nreal\t0m 2.72s\nuser\t0m 0.00s\nsys\t0m 0.30s\n";
        assert_eq!(only(text).text, "2.71 s");
        // The output in the line of the command, as a paste without its line breaks.
        let line = "root@OpenWrt:~# dd if=/dev/mtd1 of=/dev/null bs=10M count=1 status=progress 10485760 bytes (10 MB, 10 MiB) copied, 1.68404 s, 6.2 MB/s";
        assert_eq!(only(line).measure, Measure::Bytes { unit: 10 << 20, write: false });
    }

    #[test]
    fn a_time_whose_bytes_are_not_known_is_refused_with_the_reason() {
        let command = "$ time dd if=/dev/mtd1 of=/dev/null bs=8M\n";
        for (text, why) in [
            (
                format!("{command}0+1 records in\n0+1 records out\nreal\t0m 3.21s\n"),
                "a record that is not whole",
            ),
            (format!("{command}real\t0m 3.21s\n"), "how many records"),
            ("256+0 records in\n256+0 records out\nreal    0m 2.71s\n".to_owned(), "no command line above"),
            (
                "# time dd if=/dev/zero of=/tmp/x bs=1M count=1\nreal 0m 0.10s\n".to_owned(),
                "neither from nor to",
            ),
            (
                "# time dd if=/dev/mtd1 of=/dev/null bs=1M count=1\nreal 0m 0.00s\n".to_owned(),
                "no time above 0",
            ),
        ] {
            assert!(refused(&text).1.contains(why), "{text}: {}", refused(&text).1);
        }
    }

    /// The one line that is not understood, and why.
    fn refused(text: &str) -> (usize, String) {
        let results = parse(text.as_bytes());
        let [unknown] = &results.unknown[..] else { panic!("{text}: {results:?}") };
        (unknown.line, unknown.why.clone())
    }

    #[test]
    fn dd_that_does_not_measure_the_flash_is_named() {
        let with = |command: &str| {
            format!("# dd {command}\n8+0 records in\n8388608 bytes (8.0MB) copied, 2.71 seconds, 2.9MB/s")
        };
        for (command, why) in [
            ("if=/dev/zero of=/tmp/x bs=1M", "neither"),
            ("if=/dev/mmcblk0 of=/dev/null bs=1M", "neither"),
            ("if=/dev/mtd0 of=/dev/mtd1 bs=1M", "flash to flash"),
            ("if=/dev/mtd0 of=/dev/mmcblk0 bs=1M", "another device"),
        ] {
            let (line, reason) = refused(&with(command));
            assert!(line == 3 && reason.contains(why), "{command}: {reason}");
        }
        for (command, write) in [
            ("if=/dev/mtd0 of=/dev/null bs=1M", false),
            ("if=/dev/mtd0 of=/tmp/x bs=1M", false),
            ("if=/dev/mtd0 bs=1M > /dev/null", false),
            ("if=x.bin of=/dev/mtd0 bs=1M", true),
        ] {
            assert_eq!(only(&with(command)).measure, Measure::Bytes { unit: 1 << 20, write }, "{command}");
        }
        for line in [
            "16777216 octets (17 MB, 16 MiB) copiés, 2,71 s, 6,2 MB/s",
            "16777216 Bytes (17 MB, 16 MiB) kopiert, 2,71 s, 6,2 MB/s",
            "16777216 bytes (17 MB, 16 MiB) copied, 2,71 s, 6,2 MB/s",
        ] {
            assert!(refused(line).1.contains("LC_ALL=C"), "{line}");
        }
    }

    #[test]
    fn other_units_are_taken_or_named() {
        let test = Measure::Test(Test::Read(0));
        for (speed, low) in [("15.2 MB/s", 1e3 / 15.25), ("18.1 MiB/s", 1e9 / (18.15 * 1_048_576.0))] {
            let found = only(&format!("eraseblock read speed is {speed}"));
            let Figure::NsPerByte(found_low, _) = found.figure else { panic!("{found:?}") };
            assert!(found.measure == test && (found_low - low).abs() < 1e-9, "{speed}: {found_low}");
        }
        for (speed, why) in [
            ("14883 KB/s", "`KB/s`"),
            ("1e4 KiB/s", "`1e4`"),
            ("14 883 KiB/s", "`14 883`"),
            ("nan KiB/s", "`nan`"),
            ("0 KiB/s", "measure more blocks"),
        ] {
            let (_, reason) = refused(&format!("eraseblock read speed is {speed}"));
            assert!(reason.contains(why), "{speed}: {reason}");
        }
    }

    #[test]
    fn raw_timings_of_u_boot_are_understood() {
        for text in [
            "=> time sf read 0x42000000 0 0x400000\ndevice 0 offset 0x0, size 0x400000\nSF: 4194304 bytes @ 0x0 Read: OK\n\ntime: 1.680 seconds",
            "=> time nand read 0x42000000 0 0x400000\n\nNAND read: device 0 offset 0x0, size 0x400000\n 4194304 bytes read: OK\n\ntime: 1.680 seconds",
        ] {
            let found = only(text);
            assert_eq!((found.measure, found.bytes), (Measure::Test(Test::Read(0)), Some(4 << 20)));
            let Figure::NsPerByte(low, high) = found.figure else { panic!("{found:?}") };
            assert!((low * 4.194304 - 1679.5).abs() < 1e-6 && (high * 4.194304 - 1680.5).abs() < 1e-6);
        }
        assert_eq!(
            only("SF: 64 bytes @ 0x0 Written: OK\ntime: 1 minutes, 2.000 seconds").text,
            "1 minutes, 2.000 s"
        );
        assert_eq!(refused("time: 1.680 seconds").0, 1);
        assert_eq!(refused("SF: 4096 bytes @ 0x0 Erased: OK\ntime: 1.680 seconds").0, 2);
        assert!(only("4194304 bytes read in 350 ms (11.4 MiB/s)").remark.is_some());
    }

    #[test]
    fn speeds_of_written_blocks_are_taken_from_a_probe() {
        let speed = "page read speed is 9000 KiB/s\n";
        let text = format!(
            "\n# 16 eraseblocks, written\n{speed}\n# 1 eraseblock, blank\n{speed}\n# 1 eraseblock, just written\npage write speed is 9 KiB/s\n{speed}"
        );
        let results = parse(text.as_bytes());
        let lines: Vec<usize> = results.blocks[0].figures.iter().map(|figure| figure.line).collect();
        let unknown: Vec<usize> = results.unknown.iter().map(|unknown| unknown.line).collect();
        assert_eq!((lines, unknown), (vec![3, 9], vec![6, 10]));
    }

    #[test]
    fn conditions_hold_until_figures_and_new_conditions_follow() {
        let results = parse(b"set bus.mode=1-1-1\nset bus.lanes=1\npage read 9 us\npage write 9 us\nset bus.mode=1-1-4\npage read 5 us\nset\npage read 1 us");
        let sets: Vec<usize> = results.blocks.iter().map(|block| block.set.len()).collect();
        assert_eq!((sets, results.blocks[0].figures.len(), results.understood), (vec![2, 1, 0], 2, 8));
    }

    #[test]
    fn latin_1_and_byte_order_marks_are_read() {
        assert_eq!(parse(b"\xEF\xBB\xBFpage read 9 us\r\n").blocks.len(), 1);
        let results = parse(b"# caf\xE9\npage read 9 us\n\xB5 nonsense");
        assert_eq!((results.blocks.len(), results.unknown.len(), results.unknown[0].line), (1, 1, 3));
    }

    /// Reasons of the lines that are not taken, where no figure is.
    fn reasons(text: &str) -> Vec<String> {
        let results = parse(text.as_bytes());
        assert!(results.blocks.is_empty(), "{text}: {results:?}");
        results.unknown.into_iter().map(|unknown| unknown.why).collect()
    }

    #[test]
    fn a_dd_that_failed_is_no_measurement() {
        let command = "# time dd if=/dev/mtd4 of=/dev/null bs=1M count=10\n";
        for (output, why) in [
            ("dd: /dev/mtd4: Connection timed out\n", "dd failed: Connection timed out"),
            (
                "dd: can't open '/dev/mtd4': No such file or directory\n",
                "dd failed: No such file or directory",
            ),
            (
                "dd: error reading '/dev/mtd4': Input/output error\n3+0 records in\n",
                "dd failed: Input/output error",
            ),
            ("-sh: dd: not found\n", "dd failed: not found"),
            ("dd: read error: Bad message\n", "dd failed: Bad message"),
            ("^C\n", "dd failed: interrupted by ^C"),
            ("Command terminated by signal 9\n", "dd failed: Command terminated by signal 9"),
        ] {
            for time in ["real\t0m 0.20s", "3145728 bytes (3.0MB) copied, 0.20 seconds, 15.0MB/s"] {
                let reasons = reasons(&format!("{command}{output}{time}\n"));
                assert!(reasons.len() == 2 && reasons.iter().all(|reason| reason == why), "{reasons:?}");
            }
            // The next run counts.
            let next = format!("{command}{output}real 0m 0.20s\n{command}10+0 records in\nreal 0m 1.86s\n");
            let results = parse(next.as_bytes());
            assert_eq!(results.blocks[0].figures.len(), 1, "{results:?}");
        }
        // Fewer records than count= asks for count as they are.
        assert_eq!(only(&format!("{command}3+0 records in\nreal 0m 0.60s\n")).bytes, Some(3 << 20));
        assert_eq!(
            reasons(&format!("{command}0+0 records in\nreal 0m 0.60s\n")),
            ["dd has read no whole record"]
        );
        // A write without count= ends at the end of the flash.
        let full = "# dd if=/dev/zero of=/dev/mtd3 bs=128k\ndd: error writing '/dev/mtd3': No space left on device\n\
                    513+0 records in\n512+0 records out\n67108864 bytes (67 MB, 64 MiB) copied, 14.58 s, 4.6 MB/s\n";
        assert_eq!(only(full).bytes, Some(64 << 20));
    }

    #[test]
    fn a_time_of_another_command_is_not_that_of_dd() {
        let run = "# time dd if=/dev/mtd4 of=/dev/null bs=1M count=10\n";
        for other in
            ["# time ubiattach -p /dev/mtd4\n", "root@board:~# flash_erase /dev/mtd4 0 0\n", "time sync\n"]
        {
            let reasons = reasons(&format!("{run}{other}real 0m 0.50s\n"));
            assert!(matches!(&reasons[..], [why] if why.contains("no command line above")), "{reasons:?}");
        }
    }

    #[test]
    fn dd_of_what_is_above_the_flash_is_named() {
        for (path, why) in [
            ("/dev/mtdblock4", "page cache"),
            ("\"/dev/mtdblock4\"", "page cache"),
            ("/dev/ubi0_0", "UBI is above the flash"),
            ("/dev/ubiblock0_0", "UBI is above the flash"),
            ("/dev/mmcblk0", "no figure of the raw flash"),
            ("/dev/sda", "no figure of the raw flash"),
            ("dump.bin", "no figure of the raw flash"),
        ] {
            let text =
                format!("# time dd if={path} of=/dev/null bs=1M count=4\n4+0 records in\nreal 0m 1.20s\n");
            assert!(refused(&text).1.contains(why), "{path}: {}", refused(&text).1);
        }
        for path in
            ["/dev/mtd4", "/dev/mtd4ro", "/dev/mtd12", "/dev/mtd/4", "/dev/mtd/by-name/rootfs", "'/dev/mtd4'"]
        {
            let text =
                format!("# time dd if={path} of=/dev/null bs=1M count=4\n4+0 records in\nreal 0m 1.20s\n");
            assert_eq!(only(&text).bytes, Some(4 << 20), "{path}");
        }
        let pipe = "# time dd if=/dev/mtd4 bs=1M count=4 | md5sum\n4+0 records in\nreal 0m 1.20s\n";
        assert!(refused(pipe).1.contains("pipe"));
    }

    #[test]
    fn u_boot_counts_below_commands_of_the_raw_flash_only() {
        let loaded = "4194304 bytes read in 350 ms (11.4 MiB/s)\n";
        for command in [
            "=> load mmc 0 80000000 x",
            "=> run loadit",
            "u-boot=> ubifsload 80000000 x",
            "MX6 U-Boot > fatload usb 0 80000000 x",
            "=> time tftpboot 80000000 x",
            "STM32MP> load mmc 0 80000000 x",
            "load mmc 0 80000000 x",
        ] {
            let (line, why) = refused(&format!("{command}\n{loaded}"));
            assert!(line == 2 && why.contains("does not read the raw flash"), "{command}: {why}");
        }
        assert!(only(loaded).remark.is_some());
        let time = "time: 1.680 seconds\n";
        for (command, output) in [
            (
                "=> time nand read 80000000 0 400000",
                "NAND read: device 0 offset 0x0, size 0x400000\n 4194304 bytes read: OK\n",
            ),
            ("=> sf probe && time sf read 80000000 0 400000", "SF: 4194304 bytes @ 0x0 Read: OK\n"),
            (
                "U-Boot> time mtd read spi-nand0 80000000 0 400000",
                "Reading 4194304 byte(s) (2048 page(s)) at offset 0x00000000\n",
            ),
        ] {
            let found = only(&format!("=> load mmc 0 80000000 x\n{command}\n{output}\n{time}"));
            assert_eq!(
                (found.measure, found.bytes),
                (Measure::Test(Test::Read(0)), Some(4 << 20)),
                "{command}"
            );
        }
        // The bytes of one command are not those of the next one.
        let (line, why) = refused(&format!(
            "=> sf read 80000000 0 40\nSF: 64 bytes @ 0x0 Read: OK\n=> time mmc read 80000000 0 8\n{time}"
        ));
        assert!(line == 4 && why.contains("`mmc read 80000000 0 8`"), "{why}");
    }

    #[test]
    fn messages_about_numbers_are_true() {
        let long = "9".repeat(400);
        for (text, why) in [
            ("page read 1.3e2 us", "`1.3e2` is no plain number"),
            ("page read -5 us", "`-5` is no plain number"),
            ("page read 1.2.3 us", "`1.2.3` is no plain number"),
            ("page read 0.0 us", "no figure above 0"),
            (&format!("page read {long} us"), "10^15 or more"),
            (&format!("page read speed is {long} KiB/s"), "10^15 or more"),
            ("blocks 999999999999", "`999999999999` is more blocks than any flash has"),
            ("blocks 0", "no number of blocks above 0"),
            ("blocks many", "`many` is no plain number"),
            ("blocks 1.5", "no whole number of blocks"),
            (&format!("{long} bytes (1 MB) copied, 2.71 s, 1 MB/s"), "10^15 or more"),
            ("16777216 bytes (17 MB, 16 MiB) copied, 2.6e-05 s, 6.2 MB/s", "`2.6e-05` is no plain number"),
            (&format!("{long} bytes read in 350 ms"), "10^15 or more"),
            (&format!("4194304 bytes read in {long} ms"), "10^15 or more"),
        ] {
            let (_, reason) = refused(text);
            assert!(reason.contains(why) && reason.len() < 160, "{text}: {reason}");
        }
        let unit =
            "# dd if=/dev/mtd4 of=/dev/null bs=2x1M\n16777216 bytes (16.0MB) copied, 2.71 seconds, 5.9MB/s";
        assert!(refused(unit).1.contains("`2x1M`"));
    }

    #[test]
    fn messages_of_ubi_are_named() {
        for text in [
            "[    2.345678] ubi0: attaching mtd4",
            "ubi0: attached mtd4 (name \"rootfs\", size 64 MiB)",
            "[    2.345678] ubi0: scanning is finished",
            "UBI: attached mtd4 to ubi0",
            "Jan  1 00:00:02 board kernel: [    2.345678] ubi0: good PEBs: 512, bad PEBs: 0, corrupted PEBs: 0",
            "ubi0 warning: ubi_io_read: error -74 while reading 64 bytes",
            "UBI device number 0, total 512 LEBs (65011712 bytes, 62.0 MiB)",
        ] {
            assert!(
                refused(text).1.contains("attach times are not used by fit"),
                "{text}: {}",
                refused(text).1
            );
        }
        assert!(
            refused("[ 2.5] UBIFS (ubi0:0): mounted UBI device 0").1.contains("mount times are not used")
        );
    }
}
