//! Parser for files of logic analysers: digital samples as VCD, CSV or a session of sigrok, and CSV tables of a SPI
//! decoder.

use crate::error::Error;
use crate::sigrok;
use std::collections::BTreeSet;

/// A CS# window: the bytes between CS# low and CS# high.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Start of the window, ns since the start of the capture.
    pub start_ns: u64,
    /// End of the window, ns since the start of the capture.
    pub end_ns: u64,
    /// Bytes to the chip.
    pub sent: Vec<u8>,
    /// Bytes from the chip; as many as `sent`.
    pub received: Vec<u8>,
    /// Clock in Hz, if known.
    pub clock_hz: Option<u32>,
    /// Levels of the data lines (bit 0 is IO0) at each clock edge; the first edge is a rising edge. Empty for the table of
    /// a SPI decoder.
    pub edges: Vec<u8>,
    /// Number of data lines in the capture.
    pub lines: u8,
}

/// Names of the channels of a SPI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Chip select, active low.
    pub cs: Option<String>,
    /// Serial clock, driven by the host.
    pub clk: Option<String>,
    /// Data to the chip.
    pub mosi: Option<String>,
    /// Data from the chip.
    pub miso: Option<String>,
    /// Further data lines, from IO2 on.
    pub lines: Vec<String>,
}

/// Usual names of each channel, in lower case.
const CS: &[&str] = &["cs", "cs#", "/cs", "csn", "cs_n", "ncs", "ss", "enable", "ce", "ce#"];
const CLK: &[&str] = &["clk", "sck", "sclk", "clock"];
const MOSI: &[&str] = &["mosi", "si", "di", "sdi", "io0", "dq0", "sio0", "copi"];
const MISO: &[&str] = &["miso", "so", "do", "sdo", "io1", "dq1", "sio1", "cipo"];
const LINES: [&[&str]; 6] = [
    &["io2", "dq2", "sio2", "wp", "wp#"],
    &["io3", "dq3", "sio3", "hold", "hold#"],
    &["io4", "dq4", "sio4"],
    &["io5", "dq5", "sio5"],
    &["io6", "dq6", "sio6"],
    &["io7", "dq7", "sio7"],
];

/// Commands of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Complete commands in order.
    pub windows: Vec<Window>,
    /// Start of a command that is cut off by the end of the capture, ns since the start of the capture.
    pub cut_off_ns: Option<u64>,
    /// True if the capture begins while CS# is low; this incomplete command is omitted.
    pub begins_within: bool,
    /// True if the file ends within a line, which is omitted.
    pub ends_within_line: bool,
    /// True if all clock edges of a byte have the same time, so that the clock of its command is unknown.
    pub unresolved_clock: bool,
}

/// Parses a capture.
///
/// # Errors
/// The file is not a capture, or a channel is missing.
pub fn read(bytes: &[u8], channels: &Channels) -> Result<Capture, Error> {
    let capture = if sigrok::is_session(bytes) {
        session(&sigrok::Session::read(bytes)?, channels)?
    } else {
        let text = std::str::from_utf8(bytes).map_err(|_| Error::Binary)?;
        // Some editors write a byte order mark at the start of a file.
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        text_capture(text, channels)?
    };
    if capture.windows.is_empty() { Err(Error::Empty) } else { Ok(capture) }
}

/// Parses a text. A last line without its end, as of a file that was cut off, is left out if it is wrong.
fn text_capture(text: &str, channels: &Channels) -> Result<Capture, Error> {
    let is_vcd = text.trim_start().starts_with('$');
    let parse = |text: &str| if is_vcd { vcd(text, channels) } else { csv(text, channels) };
    let outcome = parse(text);
    if let Err(Error::Line { line, .. }) = &outcome
        && let Some((before, last)) = text.rsplit_once('\n')
        && !last.is_empty()
        && *line == text.lines().count()
    {
        return Ok(Capture { ends_within_line: true, ..parse(before)? });
    }
    outcome
}

/// Columns of a file that contain the bus lines.
struct LineColumns {
    cs: usize,
    clk: usize,
    /// Columns of the data lines from IO0 on. IO0 always exists; without IO1 there are no further lines.
    data: Vec<usize>,
}

impl LineColumns {
    fn find(names: &[String], channels: &Channels) -> Result<Self, Error> {
        let column = |given: Option<&String>, usual: &[&str]| {
            names.iter().position(|name| match given {
                Some(given) => name == given,
                None => usual.contains(&name.to_lowercase().as_str()),
            })
        };
        let need = |line, column: Option<usize>| {
            column.ok_or_else(|| Error::NoChannel { line, names: names.to_vec() })
        };
        let mut data = vec![need("the data to the chip", column(channels.mosi.as_ref(), MOSI))?];
        match column(channels.miso.as_ref(), MISO) {
            None if channels.miso.is_some() => data.push(need("the data from the chip", None)?),
            None => {}
            Some(miso) => {
                data.push(miso);
                for (at, usual) in LINES.iter().enumerate() {
                    let given = channels.lines.get(at);
                    match column(given, usual) {
                        None if given.is_some() => data.push(need("a further data line", None)?),
                        None => break,
                        Some(line) => data.push(line),
                    }
                }
            }
        }
        Ok(Self {
            cs: need("CS#", column(channels.cs.as_ref(), CS))?,
            clk: need("the clock", column(channels.clk.as_ref(), CLK))?,
            data,
        })
    }

    /// Levels of the bus lines at one time, from the level of each column.
    fn levels(&self, level: impl Fn(usize) -> bool) -> Levels {
        let data =
            (0..).zip(&self.data).fold(0, |data, (line, column)| data | u8::from(level(*column)) << line);
        Levels { cs: level(self.cs), clk: level(self.clk), data }
    }
}

/// Levels of the bus lines at one time.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Levels {
    cs: bool,
    clk: bool,
    /// Levels of the data lines, IO0 in the lowest bit.
    data: u8,
}

/// Decoder of SPI levels. Data on one line in each direction is sampled at rising clock edges, as in modes 0 and 3.
#[derive(Default)]
struct Decoder {
    windows: Vec<Window>,
    open: Option<Window>,
    before: Levels,
    lines: u8,
    /// True after the first levels.
    begun: bool,
    begins_within: bool,
    bits: u32,
    sent: u8,
    received: u8,
    byte_start_fs: u128,
    /// Shortest of the seven clock periods within a byte, fs.
    fastest_fs: u128,
    unresolved_clock: bool,
}

const FS_PER_NS: u128 = 1_000_000;
const FS_PER_PS: u128 = 1_000;
const FS_PER_S: u128 = 1_000_000_000_000_000;

/// Nearest number of ns.
const fn to_ns(fs: u128) -> u64 {
    ((fs + FS_PER_NS / 2) / FS_PER_NS) as u64
}

impl Decoder {
    fn new(columns: &LineColumns) -> Self {
        Self { lines: columns.data.len() as u8, ..Self::default() }
    }

    /// Levels from this time on, fs since the start of the capture.
    fn levels(&mut self, at_fs: u128, now: Levels) {
        if !std::mem::replace(&mut self.begun, true) {
            self.begins_within = !now.cs;
            self.before = now;
        }
        let before = std::mem::replace(&mut self.before, now);
        if before.cs && !now.cs {
            self.open = Some(Window { start_ns: to_ns(at_fs), lines: self.lines, ..Window::default() });
            (self.bits, self.fastest_fs) = (0, u128::MAX);
        }
        if before.clk != now.clk && !now.cs {
            self.edge(at_fs, now);
        }
        if !before.cs && now.cs {
            self.close(at_fs);
        }
    }

    fn edge(&mut self, at_fs: u128, now: Levels) {
        let Some(window) = &mut self.open else { return };
        // In mode 3 the first clock edge falls and carries no data.
        if now.clk || !window.edges.is_empty() {
            window.edges.push(now.data);
        }
        if !now.clk {
            return;
        }
        if self.bits == 0 {
            self.byte_start_fs = at_fs;
        }
        self.sent = self.sent << 1 | now.data & 1;
        self.received = self.received << 1 | now.data >> 1 & 1;
        self.bits += 1;
        if self.bits == 8 {
            self.bits = 0;
            window.sent.push(self.sent);
            window.received.push(self.received);
            self.fastest_fs = self.fastest_fs.min(at_fs - self.byte_start_fs);
        }
    }

    fn close(&mut self, at_fs: u128) {
        const PERIODS: u128 = 7;
        let Some(mut window) = self.open.take().filter(|window| !window.edges.is_empty()) else { return };
        window.end_ns = to_ns(at_fs);
        let hz = (PERIODS * FS_PER_S + self.fastest_fs / 2).checked_div(self.fastest_fs);
        window.clock_hz = hz.map(|hz| u32::try_from(hz).unwrap_or(u32::MAX));
        self.unresolved_clock |= hz.is_none();
        self.windows.push(window);
    }

    fn finish(self) -> Capture {
        let cut_off = self.open.filter(|open| !open.edges.is_empty());
        Capture {
            windows: self.windows,
            cut_off_ns: cut_off.map(|open| open.start_ns),
            begins_within: self.begins_within,
            ends_within_line: false,
            unresolved_clock: self.unresolved_clock,
        }
    }
}

/// Decodes the samples of a session, which have equal distances in time.
fn session(session: &sigrok::Session, channels: &Channels) -> Result<Capture, Error> {
    let names: Vec<String> = session.channels.iter().map(|channel| channel.name.clone()).collect();
    let columns = LineColumns::find(&names, channels)?;
    let mut decoder = Decoder::new(&columns);
    let mut before = None;
    for (at, sample) in session.samples().enumerate() {
        let now = columns.levels(|column| session.channels.get(column).is_some_and(|one| one.level(sample)));
        if before.replace(now) != Some(now) {
            decoder.levels(session.time_fs(at as u64), now);
        }
    }
    Ok(decoder.finish())
}

/// Converter of times to fs since the first time.
#[derive(Default)]
struct Clock {
    first_s: Option<f64>,
    first: Option<u64>,
    last_fs: u128,
}

impl Clock {
    /// Time of a decimal number of seconds, to the nearest ps.
    fn seconds(&mut self, seconds: f64, line: usize) -> Result<u128, Error> {
        let since = seconds - *self.first_s.get_or_insert(seconds);
        let is_after = (0.0..3e9).contains(&since);
        self.advance(is_after.then(|| (since * 1e12).round() as u128 * FS_PER_PS), line)
    }

    /// Time of a number of units of a timescale.
    fn units(&mut self, time: u64, unit_fs: u128, line: usize) -> Result<u128, Error> {
        let since = time.checked_sub(*self.first.get_or_insert(time));
        self.advance(since.and_then(|units| u128::from(units).checked_mul(unit_fs)), line)
    }

    fn advance(&mut self, since: Option<u128>, line: usize) -> Result<u128, Error> {
        // A capture longer than a century is rejected.
        let since = since.filter(|fs| *fs < 3_000_000_000 * FS_PER_S);
        let fs = since.ok_or(Error::Line { line, why: "a time before the first one, or none" })?;
        if fs < self.last_fs {
            return Err(Error::Line { line, why: "a time before the previous line's" });
        }
        self.last_fs = fs;
        Ok(fs)
    }
}

fn csv(text: &str, channels: &Channels) -> Result<Capture, Error> {
    let mut lines =
        (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with(';'));
    let Some((_, header)) = lines.next() else { return Err(Error::Empty) };
    let names: Vec<String> = fields(header).map(str::to_owned).collect();
    let column =
        |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.to_lowercase().as_str()));
    let times = ["time [s]", "time[s]", "time", "start_time", "start"];
    let Some(time) = column(&times) else {
        return Err(Error::Line { line: 1, why: "no column `Time [s]`, `Time` or `start_time`" });
    };
    if let (Some(kind), Some(mosi)) = (column(&["type"]), column(MOSI)) {
        let columns = Table {
            time,
            mosi,
            miso: column(MISO),
            window: WindowBy::Type(kind),
            duration: column(&["duration"]),
        };
        return columns.read(lines, channels);
    }
    if let (Some(packet), Some(mosi)) = (column(&["packet id"]), column(MOSI)) {
        let columns =
            Table { time, mosi, miso: column(MISO), window: WindowBy::Packet(packet), duration: None };
        return columns.read(lines, channels);
    }
    samples(lines, &names, time, channels)
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|field| field.trim().trim_matches('"'))
}

/// Decodes rows with the levels of all channels.
fn samples<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    names: &[String],
    time: usize,
    channels: &Channels,
) -> Result<Capture, Error> {
    let line_columns = LineColumns::find(names, channels)?;
    let columns = || [line_columns.cs, line_columns.clk].into_iter().chain(line_columns.data.iter().copied());
    let (mut decoder, mut clock) = (Decoder::new(&line_columns), Clock::default());
    for (line, text) in lines {
        let row: Vec<&str> = fields(text).collect();
        let at_fs = clock.seconds(number(&row, time, line)?, line)?;
        if !columns().all(|column| matches!(row.get(column), Some(&"0" | &"1"))) {
            return Err(Error::Line { line, why: "a level that is neither 0 nor 1" });
        }
        decoder.levels(at_fs, line_columns.levels(|column| row.get(column) == Some(&"1")));
    }
    Ok(decoder.finish())
}

fn number(row: &[&str], column: usize, line: usize) -> Result<f64, Error> {
    let number = row.get(column).and_then(|text| text.parse().ok());
    number.ok_or(Error::Line { line, why: "a time that is no number" })
}

/// Column that assigns the bytes of a decoder's table to windows.
#[derive(Clone, Copy)]
enum WindowBy {
    /// Column that contains `enable`, `result` or `disable`.
    Type(usize),
    /// Column with the number of the window.
    Packet(usize),
}

/// Columns of a SPI decoder's table, which has one row for each byte.
struct Table {
    time: usize,
    mosi: usize,
    miso: Option<usize>,
    window: WindowBy,
    duration: Option<usize>,
}

impl Table {
    fn read<'a>(
        &self,
        lines: impl Iterator<Item = (usize, &'a str)>,
        channels: &Channels,
    ) -> Result<Capture, Error> {
        if *channels != Channels::default() {
            return Err(Error::NoLevels);
        }
        let (mut windows, mut packet) = (Vec::new(), None);
        let (mut open, mut clock) = (Window::default(), Clock::default());
        for (line, text) in lines {
            let row: Vec<&str> = fields(text).collect();
            let at_ns = to_ns(clock.seconds(number(&row, self.time, line)?, line)?);
            let is_new = match self.window {
                WindowBy::Type(column) => match row.get(column) {
                    Some(&"enable") => true,
                    Some(&"result") => false,
                    _ => continue,
                },
                WindowBy::Packet(column) => {
                    packet.replace(row.get(column).copied()) != Some(row.get(column).copied())
                }
            };
            if is_new {
                let done = std::mem::replace(&mut open, Window { start_ns: at_ns, ..Window::default() });
                windows.extend(Some(done).filter(|done| !done.sent.is_empty()));
            }
            if is_new && matches!(self.window, WindowBy::Type(_)) {
                continue;
            }
            let byte = |column: Option<usize>| column.map_or(Some(0), |column| byte(row.get(column)?));
            let wrong = Error::Line { line, why: "a byte that is no number from 0 to 255" };
            let (Some(sent), Some(received)) = (byte(Some(self.mosi)), byte(self.miso)) else {
                return Err(wrong);
            };
            open.sent.push(sent);
            open.received.push(received);
            let took_ns = self
                .duration
                .and_then(|column| row.get(column)?.parse::<f64>().ok())
                .map(|s| (s * 1e9) as u64);
            open.end_ns = at_ns.saturating_add(took_ns.unwrap_or(0).min(1_000_000_000));
            // The duration in a row is the time from the first to the last clock edge of a byte.
            let hz = took_ns
                .and_then(|ns| (8 * 1_000_000_000_u64).checked_div(ns))
                .and_then(|hz| u32::try_from(hz).ok());
            open.clock_hz = open.clock_hz.max(hz);
        }
        windows.extend(Some(open).filter(|open| !open.sent.is_empty()));
        Ok(Capture { windows, ..Capture::default() })
    }
}

/// Parses a byte: `0x9F`, `9Fh` or `159`.
fn byte(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).or_else(|| text.strip_suffix('h'));
    hex.map_or_else(|| text.parse().ok(), |hex| u8::from_str_radix(hex, 16).ok())
}

/// Channels of a value change dump, and the unit of its times.
struct VcdHeader {
    /// Names and codes of the single-bit channels.
    names: Vec<String>,
    codes: Vec<String>,
    /// Codes of all channels.
    declared: BTreeSet<String>,
    unit_fs: u128,
}

impl VcdHeader {
    /// Parses the words up to `$enddefinitions`.
    fn read<'a>(words: &mut impl Iterator<Item = (usize, &'a str)>) -> Result<Self, Error> {
        let mut header =
            Self { names: Vec::new(), codes: Vec::new(), declared: BTreeSet::new(), unit_fs: FS_PER_NS };
        while let Some((line, word)) = words.next() {
            if !word.starts_with('$') {
                return Err(Error::Line { line, why: "a word that belongs to no declaration" });
            }
            let body: Vec<&str> =
                words.by_ref().map(|(_, word)| word).take_while(|word| *word != "$end").collect();
            match (word, body.as_slice()) {
                ("$timescale", scale) => {
                    let wrong = Error::Line { line, why: "a timescale that is none" };
                    header.unit_fs = timescale_fs(&scale.concat()).ok_or(wrong)?;
                }
                ("$var", [_, width, code, name, ..]) => {
                    header.declared.insert((*code).to_owned());
                    if *width == "1" {
                        header.codes.push((*code).to_owned());
                        header.names.push((*name).to_owned());
                    }
                }
                ("$enddefinitions", _) => break,
                _ => {}
            }
        }
        Ok(header)
    }
}

/// Parses a value change dump (IEEE 1364); only single-bit wires are used.
fn vcd(text: &str, channels: &Channels) -> Result<Capture, Error> {
    let mut words = (1..)
        .zip(text.lines())
        .flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)));
    let header = VcdHeader::read(&mut words)?;
    let codes = &header.codes;
    let line_columns = LineColumns::find(&header.names, channels)?;
    let (mut decoder, mut clock) = (Decoder::new(&line_columns), Clock::default());
    // Levels of all channels. The levels of the bus are valid from the first change of CS# on.
    let (mut levels, mut at_fs, mut is_known) = (vec![false; codes.len()], 0, false);
    while let Some((line, word)) = words.next() {
        if let Some(time) = word.strip_prefix('#') {
            if is_known {
                decoder.levels(at_fs, line_columns.levels(|column| levels.get(column) == Some(&true)));
            }
            let time: u64 =
                time.parse().map_err(|_| Error::Line { line, why: "a time that is no number" })?;
            at_fs = clock.units(time, header.unit_fs, line)?;
            continue;
        }
        if word == "$comment" {
            words.by_ref().take_while(|(_, word)| *word != "$end").for_each(drop);
        }
        if word.starts_with('$') {
            continue;
        }
        let wrong = Error::Line { line, why: "neither a time nor a change of a channel" };
        let Some((value, of)) = change(word, &mut words).filter(|(_, of)| header.declared.contains(*of))
        else {
            return Err(wrong);
        };
        is_known |= codes.get(line_columns.cs).is_some_and(|code| code == of);
        // An unknown or undriven wire keeps its level.
        for (known, _) in levels.iter_mut().zip(codes).filter(|(_, code)| *code == of) {
            *known = if matches!(value, '0' | '1') { value == '1' } else { *known };
        }
    }
    if is_known {
        decoder.levels(at_fs, line_columns.levels(|column| levels.get(column) == Some(&true)));
    }
    Ok(decoder.finish())
}

/// Value and code of a change: `1!`, or `b1 !` and `r0.5 !`, whose code is the next word. A vector has the value of its lowest bit.
fn change<'a>(word: &'a str, words: &mut impl Iterator<Item = (usize, &'a str)>) -> Option<(char, &'a str)> {
    match word.chars().next()? {
        'b' | 'B' | 'r' | 'R' | 's' | 'S' => Some((word.chars().next_back()?, words.next()?.1)),
        // VHDL has nine values.
        value @ ('0' | '1' | 'x' | 'X' | 'z' | 'Z' | 'u' | 'U' | 'w' | 'W' | 'l' | 'L' | 'h' | 'H' | '-') => {
            Some((value, word.get(1..)?))
        }
        _ => None,
    }
}

/// Converts a timescale such as `10ns` to a number of fs.
fn timescale_fs(text: &str) -> Option<u128> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "s" => FS_PER_S,
        "ms" => FS_PER_S / 1_000,
        "us" => FS_PER_NS * 1_000,
        "ns" => FS_PER_NS,
        "ps" => FS_PER_PS,
        "fs" => 1,
        _ => return None,
    };
    Some(u128::from(number.parse::<u32>().ok().filter(|number| *number > 0)?) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of samples that contain the windows, with a clock period of 100 ns.
    fn sampled(windows: &[&[u8]]) -> String {
        let (mut text, mut at) = ("Time [s],CS,SCK,MOSI,MISO\n0.0,1,0,0,0\n".to_owned(), 1);
        let mut row = |levels: &str| {
            text += &format!("{:.9},{levels}\n", f64::from(at) * 50e-9);
            at += 1;
        };
        for window in windows {
            row("0,0,0,0");
            for bit in window.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
                row(&format!("0,0,{bit},1"));
                row(&format!("0,1,{bit},1"));
            }
            row("0,0,0,0");
            row("1,0,0,0");
        }
        text
    }

    #[test]
    fn samples_are_decoded() {
        let Capture { windows, cut_off_ns, .. } =
            read(sampled(&[&[0x9F, 0xA5], &[0x06]]).as_bytes(), &Channels::default()).unwrap();
        assert_eq!(cut_off_ns, None);
        assert_eq!((&windows[0].sent, &windows[0].received), (&vec![0x9F, 0xA5], &vec![0xFF, 0xFF]));
        assert_eq!(
            (windows[0].start_ns, windows[0].end_ns, windows[0].clock_hz),
            (50, 1750, Some(10_000_000))
        );
        assert_eq!(windows[1].sent, [6]);
    }

    #[test]
    fn a_command_without_an_end_is_reported() {
        let text = sampled(&[&[0x9F, 0xA5], &[0x06]]);
        let cut = text.trim_end().rsplit_once('\n').unwrap().0;
        let Capture { windows, cut_off_ns, .. } = read(cut.as_bytes(), &Channels::default()).unwrap();
        assert_eq!((windows.len(), cut_off_ns), (1, Some(1800)));
        let named = Channels { miso: Some("nope".to_owned()), ..Channels::default() };
        assert!(matches!(read(text.as_bytes(), &named), Err(Error::NoChannel { .. })));
    }

    /// A file that ends at any of its bytes is read up to there, or has no command yet.
    #[test]
    fn a_file_that_is_cut_off_is_read_up_to_its_end() {
        let csv = sampled(&[&[0x9F, 0xA5], &[0x06]]);
        let mut vcd = "$timescale 1 ns $end\n$var wire 1 ! cs $end\n$var wire 1 # clk $end\n".to_owned();
        vcd += "$var wire 1 $ mosi $end\n$enddefinitions $end\n#0 1! 0# 0$\n";
        for window in [1000, 2000] {
            vcd += &format!("#{window} 0!\n");
            (0..8).for_each(|bit| {
                vcd += &format!("#{} 1#\n#{} 0#\n", window + 10 + bit * 20, window + 20 + bit * 20)
            });
            vcd += &format!("#{} 1!\n", window + 200);
        }
        for (text, first, windows) in
            [(&csv, csv.find("0.000001750").unwrap() + 20, 2), (&vcd, vcd.find("#2000").unwrap(), 2)]
        {
            let read = |end: usize| read(&text.as_bytes()[..end], &Channels::default());
            let mut cut_in_line = 0;
            for end in first..=text.len() {
                let capture = read(end).unwrap_or_else(|error| panic!("{end}: {error}"));
                assert!((1..=windows).contains(&capture.windows.len()), "{end}");
                cut_in_line += usize::from(capture.ends_within_line);
            }
            assert!(cut_in_line > 0 && !read(text.len()).unwrap().ends_within_line);
            assert_eq!(read(text.len()).unwrap().windows.len(), windows);
        }
    }

    #[test]
    fn tables_of_decoders_are_read() {
        let logic_2 = "name,type,start_time,duration,\"mosi\",\"miso\"
\"SPI\",\"enable\",0.001,8e-09,,
\"SPI\",\"result\",0.0011,8e-07,0x9F,0xFF
\"SPI\",\"result\",0.0012,8e-07,0x00,0xEF
\"SPI\",\"disable\",0.0013,8e-09,,
\"SPI\",\"enable\",0.002,8e-09,,
\"SPI\",\"result\",0.0021,8e-07,0x06,0xFF
";
        let windows = read(logic_2.as_bytes(), &Channels::default()).unwrap().windows;
        assert_eq!((&windows[0].received, windows[0].clock_hz), (&vec![0xFF, 0xEF], Some(10_000_000)));
        assert_eq!((windows.len(), &windows[1].sent), (2, &vec![6]));
        let logic_1 = "Time [s],Packet ID,MOSI,MISO\n-0.1,0,0x9F,0xFF\n0.1,0,0x00,0xEF\n0.2,1,6,255\n";
        let windows = read(logic_1.as_bytes(), &Channels::default()).unwrap().windows;
        let named = Channels { clk: Some("nope".to_owned()), ..Channels::default() };
        assert_eq!(read(logic_1.as_bytes(), &named).unwrap_err(), Error::NoLevels);
        assert_eq!((windows.len(), windows[0].start_ns, &windows[0].sent), (2, 0, &vec![0x9F, 0]));
    }

    #[test]
    fn a_value_change_dump_is_read() {
        let mut text = "$timescale 10 ns $end\n$scope module x $end\n".to_owned();
        for (code, name) in [("!", "D0"), ("\"", "clk"), ("#", "mosi")] {
            text += &format!("$var wire 1 {code} {name} $end\n");
        }
        text += "$upscope $end\n$enddefinitions $end\n$dumpvars 1! 0\" 0# $end\n#10 0!\n";
        for bit in 0..8 {
            text += &format!(
                "#{} {}#\n#{} 1\"\n#{} 0\"\n",
                20 + bit * 10,
                0x9F_u8 >> (7 - bit) & 1,
                25 + bit * 10,
                29 + bit * 10
            );
        }
        text += "#200 1!\n";
        let channels = Channels { cs: Some("D0".to_owned()), ..Channels::default() };
        let windows = read(text.as_bytes(), &channels).unwrap().windows;
        assert_eq!(
            (windows.len(), &windows[0].sent, windows[0].clock_hz),
            (1, &vec![0x9F], Some(10_000_000))
        );
        let missing = read(text.as_bytes(), &Channels::default()).unwrap_err();
        assert_eq!(missing.to_string(), "no channel for CS#; the file has D0, clk, mosi");
    }

    #[test]
    fn a_capture_that_begins_within_a_command_says_so() {
        let text = sampled(&[&[0x9F, 0xA5], &[0x06]]);
        assert!(!read(text.as_bytes(), &Channels::default()).unwrap().begins_within);
        // Without the row before CS# falls, the first command has no beginning.
        let late: Vec<&str> =
            text.lines().enumerate().filter(|(at, _)| !(1..4).contains(at)).map(|(_, line)| line).collect();
        let capture = read(late.join("\n").as_bytes(), &Channels::default()).unwrap();
        assert_eq!(
            (capture.begins_within, capture.windows.len(), &capture.windows[0].sent),
            (true, 1, &vec![6])
        );
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        for (text, why) in [
            ("", "no command"),
            ("a,b\n1,2\n", "line 1"),
            ("Time,cs,clk,mosi\nx,1,0,0\n", "line 2: a time"),
            ("Time,cs,clk,mosi\n0,7,0,0\n", "line 2: a level"),
            ("Time,cs,clk,mosi\n1,1,0,0\n0,1,0,0\n", "line 3: a time before"),
            ("Time,cs,clk,mosi\nnan,1,0,0\n", "line 2"),
            ("$timescale 1 year $end", "line 1: a timescale"),
            ("$var", "no channel"),
            ("$timescale 1 ns $end\ngarbage\n$enddefinitions $end\n", "line 2: a word that"),
        ] {
            let error = read(text.as_bytes(), &Channels::default()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    /// A dump of one byte, with a clock of 100 units per cycle.
    fn dump(timescale: &str, more: &str) -> String {
        let mut text =
            format!("$timescale {timescale} $end\n$var wire 1 ! cs $end\n$var wire 1 # clk $end\n");
        text +=
            "$var wire 1 $ mosi $end\n$var wire 4 % bus $end\n$enddefinitions $end\n#0 1! 0# 0$\n#10 0!\n";
        text += more;
        (0..8).for_each(|bit| text += &format!("#{} 1#\n#{} 0#\n", 100 + bit * 100, 150 + bit * 100));
        text + "#900 1!\n"
    }

    #[test]
    fn the_clock_has_the_resolution_of_the_dump() {
        for (timescale, hz) in
            [("1 ns", 10_000_000), ("100 ps", 100_000_000), ("100000 fs", 100_000_000), ("1 ps", u32::MAX)]
        {
            let windows = read(dump(timescale, "").as_bytes(), &Channels::default()).unwrap().windows;
            assert_eq!((windows.len(), windows[0].clock_hz), (1, Some(hz)), "{timescale}");
        }
        let mut text = "Time [s],CS,SCK,MOSI\n0,1,0,0\n0,0,0,0\n".to_owned();
        (0..8).for_each(|_| text += "0,0,1,0\n0,0,0,0\n");
        let capture = read((text + "0,1,0,0\n").as_bytes(), &Channels::default()).unwrap();
        assert!(capture.unresolved_clock && capture.windows[0].clock_hz.is_none());
    }

    #[test]
    fn what_is_no_change_of_a_channel_is_refused() {
        let with = |more: &str| read(dump("1 ns", more).as_bytes(), &Channels::default());
        for good in ["b1010 %\nx$\n", "$comment 1! garbage $end\n", "$dumpoff x$ $end\n"] {
            assert_eq!(with(good).unwrap().windows.len(), 1, "{good}");
        }
        for wrong in ["garbage\n", "1&\n", "b1010\n"] {
            let error = with(wrong).unwrap_err().to_string();
            assert_eq!(error, "line 9: neither a time nor a change of a channel", "{wrong}");
        }
    }
}
