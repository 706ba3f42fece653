//! Parser of dd's output: its command line, its records, and its time or the time that a shell's `time` prints.

use super::numbers::{number, span, span_from};
use super::{Line, Measure, Measurement, Reader, SHOWN_MAX};

/// Reads a line of dd, or of `time` after it.
pub(super) fn read(reader: &Reader, text: &str) -> Option<Line> {
    command(text)
        .or_else(|| reader.failure(text))
        .or_else(|| records(text))
        .or_else(|| reader.dd(text))
        .or_else(|| reader.timed_dd(text))
}

/// Command line of dd.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dd {
    /// Size of a record that is read, bytes.
    unit: u64,
    /// Size of a call to the flash, bytes.
    call: u64,
    /// Number of records in `count=`.
    count: Option<u64>,
    /// True for writes; an error with the reason if the figure does not measure the flash.
    write: Result<bool, String>,
}

/// Number of records that dd has read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Records {
    Whole(u64),
    /// One record was shorter, by an unknown number of bytes.
    Partial,
}

/// State of the dd run whose lines are being read.
#[derive(Clone, Debug, Default)]
pub(super) struct DdRun {
    pub(super) command: Option<Dd>,
    pub(super) records: Option<Records>,
    /// Reason why the run failed, in words.
    pub(super) failed: Option<String>,
    /// True if dd itself printed its time, which a shell's `time` repeats.
    pub(super) has_time: bool,
}

impl DdRun {
    /// True for writes; an error with the reason if the time does not measure the flash.
    pub(super) fn direction(&self, is_counted: bool) -> Result<bool, String> {
        let write = self.command.as_ref().map_or(Ok(false), |dd| dd.write.clone())?;
        match &self.failed {
            // A write without `count=` ends with ENOSPC at the end of the flash, and dd counts the bytes written.
            Some(why) if !(write && is_counted && why == FULL) => Err(format!("dd failed: {why}")),
            _ => Ok(write),
        }
    }
}

/// Linux's text for ENOSPC.
const FULL: &str = "No space left on device";

impl Reader {
    /// Failure of a command, as shells, dd and `time` print it: `dd: error reading '/dev/mtd4': Input/output error`,
    /// `sh: dd: not found`.
    fn failure(&self, text: &str) -> Option<Line> {
        let begins = |begin: &&str| self.dd.command.is_some() && text.starts_with(*begin);
        if ["^C", "Command exited with", "Command terminated by"].iter().any(begins) {
            return Some(Line::Failed(text.replace("^C", "interrupted by ^C ").trim().to_owned()));
        }
        let (program, message) = text.split_once("dd: ")?;
        let is_program = program.is_empty() || program.ends_with('/') || program.ends_with(": ");
        // The reason follows the name of the file.
        let reason =
            message.rsplit(": ").next().filter(|reason| !reason.starts_with(['\'', '"', '\u{2018}']));
        is_program.then(|| Line::Failed(reason.unwrap_or(message).trim().to_owned()))
    }

    /// Figure in a line of dd: `16777216 bytes (17 MB, 16 MiB) copied, 2.71 s, 6.2 MB/s`, or of BusyBox: `(16.0MB)
    /// copied, 2.709654 seconds, 5.9MB/s`.
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

    /// Figure from the time that a shell's `time` prints: `real 0m 1.86s`. Used if dd prints no time itself, as some
    /// builds of BusyBox.
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
}

/// Splits a line into a command line of dd and its output. Pasted text often lacks the line break between them.
pub(super) fn with_output(text: &str) -> (&str, Option<&str>) {
    let begin = |output: &str| text.find(output).and_then(|end| text[..end].rfind(char::is_whitespace));
    match text.find(" dd: ").or_else(|| begin(" records in")).or_else(|| begin(" bytes ")) {
        Some(at) if command(&text[..at]).is_some() => (&text[..at], Some(&text[at..])),
        _ => (text, None),
    }
}

/// Elapsed time in a line of `time`: `real 0m 1.86s` of BusyBox, `real 0m1.860s` of bash, `real 1.86` of POSIX,
/// `0:01.86elapsed` of GNU.
pub(super) fn shell_time(text: &str) -> Option<&str> {
    let real = text.strip_prefix("real").filter(|time| time.starts_with(char::is_whitespace));
    let elapsed = || text.split_whitespace().find_map(|word| word.strip_suffix("elapsed"));
    real.map(str::trim).or_else(elapsed).filter(|time| time.starts_with(|c: char| c.is_ascii_digit()))
}

/// Range of times for which `time` prints this text, seconds. It truncates digits and includes the start of the
/// program, so the range is one unit of the last digit to either side.
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

/// Parses a command line with `dd if=... of=... bs=...`.
pub(super) fn command(text: &str) -> Option<Line> {
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

/// True if dd writes to the flash, false if it reads from it.
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

/// True for MTD character devices: `/dev/mtd4`, `/dev/mtd4ro`, `/dev/mtd/4` of devfs, and links to them in a folder
/// `/dev/mtd`.
fn is_raw_flash(path: &str) -> bool {
    let Some(name) = path.strip_prefix("/dev/mtd") else { return false };
    let digits = name.trim_end_matches("ro");
    name.starts_with('/') || !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

/// Size in dd's notation: 2048, 4k, 1M, 1MB.
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

/// Parses the count of records, such as `128+0 records in`.
fn records(text: &str) -> Option<Line> {
    let (whole, part) = text.strip_suffix(" records in")?.split_once('+')?;
    match (whole.trim().parse::<u64>(), part.parse::<u64>()) {
        (Ok(whole), Ok(0)) => Some(Line::Records(Records::Whole(whole))),
        (Ok(_), Ok(_)) => Some(Line::Records(Records::Partial)),
        _ => Some(Line::wrong("no number of records that is read, like `16+0`")),
    }
}
