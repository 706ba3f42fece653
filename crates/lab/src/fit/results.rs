//! Measured figures from texts: `flash_speed` and the kernel's `mtd_speedtest`, dd, U-Boot, and lines of one's own.
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

/// An input.
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
        reader.line(line, text);
    }
    reader.end()
}

/// Meaning of a line.
enum Line {
    Nothing,
    Set(String),
    Count(u32),
    Figure(Measure, Figure, String),
    /// Operation and unit of the next figure of dd.
    Dd {
        unit: Option<u64>,
        write: Option<bool>,
    },
    /// Records that dd counted.
    Records(u64),
    Wrong(&'static str),
}

#[derive(Default)]
struct Reader {
    results: Results,
    block: Block,
    unit: Option<u64>,
    write: bool,
    records: Option<u64>,
    figures: usize,
}

impl Reader {
    fn line(&mut self, number: usize, text: &str) {
        let meaning = self.meaning(without_prefix(text));
        match meaning {
            Line::Nothing => return,
            Line::Wrong(why) => {
                let text: String = text.trim().chars().filter(|c| !c.is_control()).take(60).collect();
                self.results.unknown.push(Unknown { line: number, text, why: why.to_owned() });
                return;
            }
            Line::Set(set) => {
                if !self.block.figures.is_empty() {
                    self.close();
                }
                self.block.set.extend(Some(set).filter(|set| !set.is_empty()));
            }
            Line::Count(count) => self.block.blocks = Some(count),
            Line::Dd { unit, write } => {
                self.unit = unit.or(self.unit.filter(|_| write.is_none()));
                self.write = write.unwrap_or(self.write);
            }
            Line::Records(records) => self.records = Some(records),
            Line::Figure(measure, figure, text) => {
                (self.unit, self.records, self.write) = (None, None, false);
                self.figures += 1;
                if self.figures > FIGURES_MAX {
                    let why = format!("more than {FIGURES_MAX} figures");
                    self.results.unknown.push(Unknown { line: number, text, why });
                    return;
                }
                self.block.figures.push(Measurement { line: number, measure, figure, text });
            }
        }
        self.results.understood += 1;
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
        if says_nothing(text) {
            return Line::Nothing;
        }
        if text == "set" || text.starts_with("set ") {
            return set_line(text.trim_start_matches("set").trim());
        }
        let readers: [fn(&Self, &str) -> Option<Line>; 7] = [
            |_, text| flash_speed(text),
            |_, text| device(text),
            |_, text| dd_command(text),
            |_, text| records(text),
            Self::dd,
            |_, text| u_boot(text),
            |_, text| own(text),
        ];
        readers.iter().find_map(|read| read(self, text)).unwrap_or(Line::Wrong("no form that is known"))
    }

    /// `16777216 bytes (17 MB, 16 MiB) copied, 2.71 s, 6.2 MB/s`, and busybox's `(16.0MB) copied, 2.709654 seconds, 5.9MB/s`.
    fn dd(&self, text: &str) -> Option<Line> {
        let (bytes, rest) = text.split_once(" bytes ")?;
        let time = rest.split_once("copied, ")?.1;
        let seconds = time.split([' ', 's']).next()?;
        let Some(((low, high), bytes)) = span(seconds).zip(number(bytes)) else {
            return Some(Line::Wrong("no time above 0"));
        };
        let counted = self.records.filter(|&n| n > 0).map(|n| (bytes / n as f64).ceil() as u64);
        let unit = self.unit.or(counted).unwrap_or(u64::MAX);
        let figure = Figure::NsPerByte(low * 1e9 / bytes, high * 1e9 / bytes);
        Some(Line::Figure(Measure::Bytes { unit, write: self.write }, figure, format!("{seconds} s")))
    }
}

/// The text behind what dmesg, syslog and the tests' own names put before it.
fn without_prefix(text: &str) -> &str {
    let mut text = text.trim();
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

/// True of blank lines, comments, rules and the progress of the tests.
fn says_nothing(text: &str) -> bool {
    let progress =
        ["testing ", "scanning ", "scanned ", "finished", "not NAND", "erasing", "Testing ", "Scanning "];
    text.trim_matches(['=', '-', '*']).is_empty()
        || text.starts_with('#') && !text.contains("dd ")
        || progress.iter().any(|begin| text.starts_with(begin))
        || ["records out", "blocks are bad", "eraseblocks are bad"].iter().any(|end| text.ends_with(end))
}

fn set_line(set: &str) -> Line {
    let is_condition = set.is_empty()
        || set.split_once('=').is_some_and(|(key, value)| !key.trim().is_empty() && !value.trim().is_empty());
    if is_condition {
        Line::Set(set.to_owned())
    } else {
        Line::Wrong("write it like `set bus.clock_hz=80e6`")
    }
}

/// `eraseblock write speed is 3542 KiB/s`, `2x multi-block erase speed is 247841 KiB/s`.
fn flash_speed(text: &str) -> Option<Line> {
    let (name, rest) = text.split_once(" speed is ")?;
    let (figure, unit) = rest.split_once(' ')?;
    let name = name.replace(" multi-block", "");
    let Some(test) = Test::from_name(&name) else {
        return Some(Line::Wrong("no test of flash_speed has this name"));
    };
    match number(figure) {
        Some(kib_s) if unit.starts_with("KiB/s") => {
            Some(Line::Figure(Measure::Test(test), Figure::FlashSpeed(kib_s), format!("{figure} KiB/s")))
        }
        _ => Some(Line::Wrong("no speed above 0 in KiB/s: measure more blocks")),
    }
}

/// `MTD device: 4    count: 16`, `blocks 16`; the sizes of the device say nothing that the setup does not.
fn device(text: &str) -> Option<Line> {
    let count = text.strip_prefix("blocks ").or_else(|| {
        let rest = text.strip_prefix("MTD device").and_then(|rest| rest.split_once("count:"));
        rest.map(|(_, count)| count)
    });
    match count.map(|count| count.trim().parse()) {
        Some(Ok(count)) if count > 0 => Some(Line::Count(count)),
        Some(_) => Some(Line::Wrong("no number of blocks above 0")),
        None if text.starts_with("MTD device") => Some(Line::Nothing),
        None => None,
    }
}

/// A command line with `dd if=... of=... bs=...`.
fn dd_command(text: &str) -> Option<Line> {
    let (before, rest) =
        text.split_once("dd ").filter(|(before, _)| !before.ends_with(char::is_alphanumeric))?;
    let options = || rest.split_whitespace().filter_map(|word| word.split_once('='));
    if before.contains("copied") || options().next().is_none() {
        return None;
    }
    let of = |name: &str| options().find(|(key, _)| *key == name).map(|(_, value)| value);
    let unit = of("bs").map_or(Some(512), with_suffix);
    let write = of("of").is_some_and(|to| to.contains("mtd"));
    Some(if unit.is_some() { Line::Dd { unit, write: Some(write) } } else { Line::Wrong("bs is no size") })
}

/// A size as dd takes it: 2048, 4k, 1M, 1MB.
fn with_suffix(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let factor = match suffix {
        "" | "c" => 1,
        "kB" | "KB" => 1000,
        "k" | "K" | "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "m" | "M" | "MiB" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|&size| size > 0)
}

/// `128+0 records in`.
fn records(text: &str) -> Option<Line> {
    let (whole, part) = text.strip_suffix(" records in")?.split_once('+')?;
    match (whole.trim().parse::<u64>(), part.parse::<u64>()) {
        (Ok(whole), Ok(part)) => {
            Some(whole.checked_add(part).map_or(Line::Wrong("too many records"), Line::Records))
        }
        _ => Some(Line::Wrong("no number of records")),
    }
}

/// `4194304 bytes read in 350 ms (11.4 MiB/s)`, `16777216 bytes written, 0 bytes skipped in 59.8s, speed 285975 B/s`.
fn u_boot(text: &str) -> Option<Line> {
    let (bytes, rest) = text.split_once(" bytes ")?;
    let (measure, low, high, time) = if let Some(rest) = rest.strip_prefix("read in ") {
        let ms = rest.split_once(" ms")?.0;
        let count = number(ms);
        let Some(count) = count else { return Some(Line::Wrong("no time above 0")) };
        (Measure::Test(Test::Read(0)), count / 1e3, (count + 1.0) / 1e3, format!("{ms} ms"))
    } else {
        let rest = rest.strip_prefix("written, ")?;
        let (skipped, rest) = rest.split_once(" bytes skipped in ")?;
        if skipped != "0" {
            return Some(Line::Wrong("blocks were skipped: their number is not known"));
        }
        let seconds = rest.split(['s', ' ']).next()?;
        let Some((low, high)) = span(seconds) else { return Some(Line::Wrong("no time above 0")) };
        (Measure::Update, low, high, format!("{seconds} s"))
    };
    let Some(bytes) = number(bytes) else { return Some(Line::Wrong("no number of bytes")) };
    Some(Line::Figure(measure, Figure::NsPerByte(low * 1e9 / bytes, high * 1e9 / bytes), time))
}

/// `page read 227 us`, `eraseblock write 3.4 MiB/s`: a test of `flash_speed`, or `update`.
fn own(text: &str) -> Option<Line> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name @ .., figure, unit] = words.as_slice() else { return None };
    let name = name.join(" ");
    let measure = if name == "update" { Measure::Update } else { Measure::Test(Test::from_name(&name)?) };
    let Some((low, high)) = span(figure) else { return Some(Line::Wrong("no figure above 0")) };
    let per_s = |bytes: f64| Figure::NsPerByte(1e9 / (high * bytes), 1e9 / (low * bytes));
    let per_call = |ns: f64| Figure::NsPerCall(low * ns, high * ns);
    let figure_of = match *unit {
        "KiB/s" => per_s(1024.0),
        "MiB/s" => per_s(1_048_576.0),
        "kB/s" => per_s(1e3),
        "MB/s" => per_s(1e6),
        "us" => per_call(1e3),
        "ms" => per_call(1e6),
        "s" => per_call(1e9),
        _ => return Some(Line::Wrong("the unit is none of KiB/s, MiB/s, kB/s, MB/s, us, ms, s")),
    };
    Some(Line::Figure(measure, figure_of, format!("{figure} {unit}")))
}

/// A number above 0 that a flash can have.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.parse::<f64>().ok().filter(|x| is_plain && *x > 0.0 && *x < 1e15)
}

/// Numbers that print as `text`: half a unit of its last digit to either side.
fn span(text: &str) -> Option<(f64, f64)> {
    let value = number(text)?;
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half = 0.5 / 10f64.powi(i32::try_from(decimals).ok()?.min(15));
    Some(((value - half).max(value / 2.0), value + half))
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
}
