//! Check of a capture: its commands are sent to a simulated chip at its pins, which gives violated rules and a time breakdown.

use crate::read::Window;
use floatgate_device::spi::{CommandShape, Direction, SpiChip, SpiWire, Width};
use floatgate_device::violation::{Recorded, Violation};
use floatgate_mtd::{Instant, Nanos};
use floatgate_sim::rig::Pins;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Statistics of the commands with one opcode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// First byte of the command.
    pub opcode: u8,
    /// Number of commands with this opcode.
    pub count: u64,
    /// Number of data bytes in all these commands.
    pub bytes: u64,
    /// Total time from CS# low to CS# high, ns.
    pub ns: u64,
}

/// Statistics of status reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polls {
    /// Number of status reads.
    pub count: u64,
    /// Number of status reads while the chip was busy.
    pub while_busy: u64,
    /// Total time from the end of programs, erases and page reads to the status read that detected it, ns.
    pub late_ns: u64,
}

/// A rule of the chip that the host violated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenRule {
    /// Start of the command, ns since the start of the capture.
    pub at_ns: u64,
    /// Description of the rule.
    pub rule: String,
    /// First bytes of the command.
    pub bytes: Vec<u8>,
}

/// Result of the check of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Time from the first command to the end of the last one, ns.
    pub ns: u64,
    /// Total time with CS# low, ns.
    pub selected_ns: u64,
    /// Total time of programs, erases and page reads in the chip, ns.
    pub busy_ns: u64,
    /// Statistics of the commands, one entry per opcode.
    pub commands: Vec<Command>,
    /// Statistics of status reads.
    pub polls: Polls,
    /// Number of violations, also of those that `violations` does not list.
    pub violation_count: u64,
    /// The first violations, in order of time.
    pub violations: Vec<BrokenRule>,
    /// True if the chip was simulated with its quad enable bit set, because the capture uses four data lines before it writes a
    /// register.
    #[serde(skip)]
    pub quad_enabled: bool,
}

/// Sends the commands of a capture to a chip; `None` if the chip is not a SPI chip.
pub fn check(windows: &[Window], pins: &mut Pins) -> Option<Report> {
    match pins {
        Pins::SpiNor(wire) => Some(replay_or_with_quad(windows, wire)),
        Pins::SpiNand(wire) => Some(replay_or_with_quad(windows, wire)),
        Pins::RawNand(_) | Pins::ParallelNor(_) => None,
    }
}

/// Clock for commands whose clock is unknown, Hz; every chip accepts it.
const SLOW_HZ: u32 = 1_000_000;

/// Maximum plausible clock, Hz; a higher value is treated as an error in the capture.
const FAST_HZ: u32 = 1_000_000_000;

/// Opcodes that can write the quad enable bit: WRITE STATUS, WRITE STATUS 2, SET FEATURE.
const WRITE_QUAD_ENABLE: [u8; 3] = [0x01, 0x31, 0x1F];

/// Replays a capture. A driver may have set the quad enable bit before the capture began. This is assumed if the first command on four
/// lines comes before a register is written, and the chip accepts it only with this bit.
fn replay_or_with_quad<C: SpiChip + Clone>(windows: &[Window], wire: &mut SpiWire<C>) -> Report {
    let mut quad = wire.clone();
    quad.chip_mut().enable_quad();
    let writes =
        |window: &&Window| window.sent.first().is_some_and(|opcode| WRITE_QUAD_ENABLE.contains(opcode));
    let uses_four = |sent: &Sent<'_>| sent.form.is_some_and(|form| form.mode.data.lanes == 4);
    let before_write = windows.iter().take_while(|window| !writes(window));
    let first = before_write.filter_map(|window| Sent::decode(window, quad.chip())).find(uses_four);
    let quad_enabled = first.is_some_and(|sent| sent.broken_rule(wire) != sent.broken_rule(&quad));
    if quad_enabled {
        wire.chip_mut().enable_quad();
    }
    Report { quad_enabled, ..replay(windows, wire) }
}

fn replay<C: SpiChip>(windows: &[Window], wire: &mut SpiWire<C>) -> Report {
    let mut report = Report::default();
    let mut commands: BTreeMap<u8, Command> = BTreeMap::new();
    // Lead of the simulated chip's time over the capture's time: some typical times are longer than those of the captured chip.
    let mut ahead = Nanos::ZERO;
    let (mut starts, mut ignored) = (Vec::new(), Vec::new());
    let mut unseen = None;
    for (number, window) in windows.iter().enumerate() {
        let sent = Sent::decode(window, wire.chip());
        let broken = cut_short(window, sent.as_ref(), wire.chip());
        let is_ignored = broken.is_some();
        ignored.extend(broken);
        let Some(sent) = sent else { continue };
        let start = Instant::ZERO + Nanos::from_ns(window.start_ns) + ahead;
        wire.advance(start.since(wire.now()));
        if let Some(status) = sent.status() {
            report.polls.count += 1;
            let end = Instant::ZERO + Nanos::from_ns(window.end_ns) + ahead;
            if status == Status::Busy && wire.chip().busy_until() <= end {
                // The captured chip takes longer, so the simulated time advances to the first status read that reports ready.
                let later = windows.get(number + 1..).unwrap_or_default();
                let ready = first_ready(later, wire.chip());
                let ready_ns = ready.or_else(|| windows.last().map(|last| last.end_ns + 1)).unwrap_or(0);
                let until = Instant::ZERO + Nanos::from_ns(ready_ns) + ahead;
                report.busy_ns += until.since(unseen.unwrap_or_else(|| wire.now())).as_ns();
                unseen = Some(until);
                wire.chip_mut().stay_busy(until);
            }
            let left = wire.chip().busy_until().since(wire.now());
            if status == Status::Ready && left > Nanos::ZERO {
                ahead += left;
                wire.advance(left);
            } else if left > Nanos::ZERO {
                report.polls.while_busy += 1;
            } else if let Some(ready) = unseen.take() {
                report.polls.late_ns += wire.now().since(ready).as_ns();
            }
        }
        starts.push((wire.now(), window.start_ns));
        wire.set_clock(window.clock_hz.unwrap_or(SLOW_HZ).clamp(1, FAST_HZ));
        if !is_ignored {
            sent.play(wire);
        }
        // A program or erase starts when CS# rises, which may be long after the last byte.
        let selected = Nanos::from_ns(window.end_ns.saturating_sub(window.start_ns));
        wire.advance(selected.saturating_sub(wire.now().since(start)));
        wire.deselect();
        let busy = wire.chip().busy_until().since(wire.now());
        if busy > Nanos::ZERO && unseen.is_none() {
            unseen = Some(wire.chip().busy_until());
            report.busy_ns += busy.as_ns();
        }
        let opcode = sent.opcode;
        let command = commands.entry(opcode).or_insert_with(|| Command { opcode, ..Command::default() });
        let ns = window.end_ns.saturating_sub(window.start_ns);
        (command.count, command.bytes, command.ns) =
            (command.count + 1, command.bytes + sent.bytes(), command.ns + ns);
    }
    report.selected_ns = commands.values().map(|command| command.ns).sum();
    let (first, last) =
        (windows.first().map_or(0, |one| one.start_ns), windows.last().map_or(0, |one| one.end_ns));
    report.ns = last.saturating_sub(first);
    report.commands = commands.into_values().collect();
    report.violation_count = wire.violations().count() + ignored.len() as u64;
    let at_ns = |at: Instant| {
        let before = starts.partition_point(|(start, _)| *start <= at);
        before.checked_sub(1).and_then(|before| starts.get(before)).map_or(0, |(_, captured)| *captured)
    };
    let wrong = wire.violations().recorded().iter();
    report.violations = wrong
        .map(|one| BrokenRule { at_ns: at_ns(one.at), rule: one.rule.to_string(), bytes: one.bytes.clone() })
        .chain(ignored)
        .collect();
    report.violations.sort_by_key(|one| one.at_ns);
    report
}

/// Violation of a command whose CS# rises within a byte, if the chip ignores it: a program, erase or register write, or a command
/// without a whole opcode.
fn cut_short(window: &Window, sent: Option<&Sent<'_>>, chip: &impl SpiChip) -> Option<BrokenRule> {
    let cycles = match sent {
        None => stray_cycles(&window.edges),
        Some(sent) if sent.is_write(chip) => sent.stray_cycles,
        Some(_) => 0,
    };
    let unit = if cycles == 1 { "cycle" } else { "cycles" };
    (cycles > 0).then(|| BrokenRule {
        at_ns: window.start_ns,
        rule: format!(
            "CS# rises within a byte, after {cycles} clock {unit} of it: the chip ignores the command"
        ),
        bytes: sent.map_or_else(Vec::new, Sent::first_bytes),
    })
}

/// Number of clock cycles after the last whole byte, on one line in each direction.
const fn stray_cycles(edges: &[u8]) -> usize {
    edges.len().div_ceil(2) % 8
}

/// Start of the first status read that reports that the chip is ready.
fn first_ready(windows: &[Window], chip: &impl SpiChip) -> Option<u64> {
    let is_ready =
        |window: &&Window| Sent::decode(window, chip).and_then(|sent| sent.status()) == Some(Status::Ready);
    windows.iter().find(is_ready).map(|window| window.start_ns)
}

/// State of the chip as reported to the host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Busy,
    Ready,
    /// The data line is missing in the capture, or floating.
    Unknown,
}

/// A command as decoded by the chip.
struct Sent<'w> {
    opcode: u8,
    /// Opcode, address and dummy bytes. With one line in each direction: all bytes of the window, the opcode first.
    header: Vec<u8>,
    /// Data bytes that follow, in the direction of the command form.
    data: Vec<u8>,
    /// Form of a command on several lines; `None` for one line in each direction.
    form: Option<CommandShape>,
    /// True if the byte after READ STATUS is the address of a register, as on SPI NAND.
    has_registers: bool,
    /// Number of clock cycles after the last whole byte; 0 at double rate.
    stray_cycles: usize,
    window: &'w Window,
}

/// Bus widths that a command byte can have.
const COMMAND_WIDTHS: [Width; 5] = [
    Width::X1,
    Width { lanes: 2, dtr: false },
    Width { lanes: 4, dtr: false },
    Width { lanes: 8, dtr: false },
    Width { lanes: 8, dtr: true },
];

impl<'w> Sent<'w> {
    /// Decodes a window as the chip does in its present mode: the first form of a command byte that fits the captured lines. A window
    /// without such a form is decoded with one line in each direction.
    fn decode(window: &'w Window, chip: &impl SpiChip) -> Option<Self> {
        COMMAND_WIDTHS.into_iter().find_map(|width| Self::on_lines(window, chip, width)).or_else(|| {
            let &opcode = window.sent.first()?;
            let has_registers =
                opcode == READ_STATUS && chip.shapes(opcode).iter().any(|s| s.addr_bytes == 1);
            let header = window.sent.clone();
            let stray_cycles = stray_cycles(&window.edges);
            Some(Self { opcode, header, data: Vec::new(), form: None, has_registers, stray_cycles, window })
        })
    }

    /// A command whose byte has this width, if the chip supports it on several lines or at double rate.
    fn on_lines(window: &'w Window, chip: &impl SpiChip, width: Width) -> Option<Self> {
        let mut edges = Edges { levels: &window.edges, at: 0, whole: 0 };
        let opcode = edges.byte(width, Direction::Out)?;
        let form = chip.shapes(opcode).into_iter().find(|form| form.mode.cmd == width)?;
        let widths = [form.mode.cmd, form.mode.addr, form.mode.data];
        let is_single = widths.iter().all(|width| *width == Width::X1);
        if is_single || widths.iter().any(|width| width.lanes > window.lines) {
            return None;
        }
        let mut header = Vec::new();
        if width.dtr {
            // The command has a second byte.
            header.push(edges.byte(width, Direction::Out)?);
        }
        for _ in 0..form.addr_bytes {
            header.extend(edges.byte(form.mode.addr, Direction::Out));
        }
        edges.dummy(form.dummy_cycles);
        let data = std::iter::from_fn(|| edges.byte(form.mode.data, form.dir)).collect();
        let is_double = widths.iter().any(|width| width.dtr);
        let stray_cycles = if is_double { 0 } else { edges.stray_cycles() };
        Some(Self { opcode, header, data, form: Some(form), has_registers: false, stray_cycles, window })
    }

    /// Sends the command to a chip, without the end of its CS# window.
    fn play<C: SpiChip>(&self, wire: &mut SpiWire<C>) {
        wire.select();
        let Some(form) = self.form else { return wire.exchange(&mut self.header.clone()) };
        wire.write(form.mode.cmd, &[self.opcode]);
        let (second, address) = self.header.split_at(usize::from(form.mode.cmd.dtr).min(self.header.len()));
        wire.write(form.mode.cmd, second);
        wire.write(form.mode.addr, address);
        if form.dummy_cycles > 0 && address.len() == usize::from(form.addr_bytes) {
            wire.dummy(form.dummy_cycles.into());
        }
        match form.dir {
            Direction::In => wire.read(form.mode.data, &mut self.data.clone()),
            Direction::Out | Direction::None => wire.write(form.mode.data, &self.data),
        }
    }

    /// Rule that the command breaks as the only one after WRITE ENABLE, on a copy of the chip.
    fn broken_rule<C: SpiChip + Clone>(&self, wire: &SpiWire<C>) -> Option<Violation> {
        const WRITE_ENABLE: u8 = 0x06;
        let mut wire = wire.clone();
        wire.set_clock(SLOW_HZ);
        wire.select();
        wire.exchange(&mut [WRITE_ENABLE]);
        wire.deselect();
        self.play(&mut wire);
        wire.deselect();
        wire.violations().recorded().first().map(|one| one.rule)
    }

    /// True for a command that the chip executes when CS# rises: a program, an erase, a register write.
    fn is_write(&self, chip: &impl SpiChip) -> bool {
        let is_single = |form: &CommandShape| {
            [form.mode.cmd, form.mode.addr, form.mode.data].iter().all(|width| *width == Width::X1)
        };
        let forms: Vec<CommandShape> = match self.form {
            Some(form) => vec![form],
            None => chip.shapes(self.opcode).into_iter().filter(is_single).collect(),
        };
        !forms.is_empty() && forms.iter().all(|form| form.dir != Direction::In)
    }

    /// First bytes of the command.
    fn first_bytes(&self) -> Vec<u8> {
        let opcode = self.form.map(|_| self.opcode);
        let bytes = opcode.into_iter().chain(self.header.iter().copied()).chain(self.data.iter().copied());
        bytes.take(Recorded::BYTES_MAX).collect()
    }

    /// Number of data bytes in one direction.
    fn bytes(&self) -> u64 {
        let opcode = u64::from(self.form.is_some());
        opcode + (self.header.len() + self.data.len()) as u64
    }

    /// State returned by a status read; `None` for other commands.
    fn status(&self) -> Option<Status> {
        let Some(form) = self.form else {
            let reads_other = self.has_registers && self.header.get(1) != Some(&STATUS);
            let last = *self.window.received.last()?;
            return if reads_other { None } else { status(&self.header, last) };
        };
        let address = self.header.get(usize::from(form.mode.cmd.dtr)..).unwrap_or_default();
        status(&[&[self.opcode][..], address, &self.data].concat(), *self.data.last()?)
    }
}

/// Levels of the data lines at the clock edges, decoded with the widths that the chip expects.
struct Edges<'a> {
    levels: &'a [u8],
    /// Number of half clock cycles so far.
    at: usize,
    /// Number of half clock cycles up to the end of the last whole byte.
    whole: usize,
}

impl Edges<'_> {
    /// The next byte; `None` if the window ends before it is complete. A single line is IO0 to the chip and IO1 from the chip.
    fn byte(&mut self, width: Width, direction: Direction) -> Option<u8> {
        let single = u8::from(direction == Direction::In);
        let mut byte = 0_u16;
        for _ in 0..8 / width.lanes.clamp(1, 8) {
            let level = u16::from(*self.levels.get(self.at)?);
            // At single rate only rising edges carry data.
            self.at += if width.dtr { 1 } else { 2 };
            byte = match width.lanes {
                1 => byte << 1 | level >> single & 1,
                lanes => byte << lanes | level & ((1 << lanes) - 1),
            };
        }
        self.whole = self.at;
        Some(byte as u8)
    }

    /// Skips the dummy cycles after a header.
    fn dummy(&mut self, cycles: u8) {
        let is_whole = self.whole == self.at;
        self.at += 2 * usize::from(cycles);
        if is_whole {
            self.whole = self.at;
        }
    }

    /// Number of clock cycles after the last whole byte, at single rate.
    fn stray_cycles(&self) -> usize {
        self.levels.len().saturating_sub(self.whole).div_ceil(2)
    }
}

/// READ STATUS of NOR, and second opcode of GET FEATURE on some SPI NANDs.
const READ_STATUS: u8 = 0x05;

/// Address of the status register of SPI NAND.
const STATUS: u8 = 0xC0;

/// State that a status read returned in its last byte; `None` for other commands. `bytes` are the bytes of the command.
fn status(bytes: &[u8], last: u8) -> Option<Status> {
    const GET_FEATURE: u8 = 0x0F;
    const READ_FLAG_STATUS: u8 = 0x70;
    let (ready_is, bit) = match bytes {
        [READ_STATUS, _, ..] | [GET_FEATURE, STATUS, _, ..] => (0, 0x01),
        [READ_FLAG_STATUS, _, ..] => (0x80, 0x80),
        _ => return None,
    };
    Some(match last {
        0xFF => Status::Unknown,
        last if last & bit == ready_is => Status::Ready,
        _ => Status::Busy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capture, Channels, pins, read};
    use floatgate_config::Library;
    use floatgate_device::spi::{Clock, CmdExt, Mode, SpiOp, Transfer};
    use floatgate_sim::rig::{self, RigOptions};

    /// Operations as captured at the pins, one every 20 ms.
    fn captured(ops: &[(SpiOp, &[u8])]) -> String {
        let clock = Clock::new(20_000_000);
        let transfers: Vec<Transfer> = (1..)
            .zip(ops)
            .map(|(at, (op, data))| {
                let start = Instant::from_ns(at * 20_000_000);
                Transfer { start, end: start + Nanos::from_us(10), clock, op: *op, data: data.to_vec() }
            })
            .collect();
        pins::vcd(&transfers)
    }

    fn checked(part: &str, ops: &[(SpiOp, &[u8])]) -> Report {
        let report = checked_text(part, &captured(ops));
        assert_eq!(report.commands.iter().map(|command| command.count).sum::<u64>(), ops.len() as u64);
        report
    }

    fn checked_text(part: &str, dump: &str) -> Report {
        let Capture { windows, .. } = read(dump.as_bytes(), &Channels::default()).unwrap();
        let library = Library::built_in();
        let config = library.resolve(&library.setup(part).unwrap(), &[]).unwrap();
        let mut pins = rig::pins(&config, RigOptions { stores: false, ..RigOptions::default() }).unwrap();
        check(&windows, &mut pins).unwrap()
    }

    fn commands(report: &Report) -> Vec<(u8, u64)> {
        report.commands.iter().map(|command| (command.opcode, command.bytes)).collect()
    }

    const WRITE_ENABLE: (SpiOp, &[u8]) = (SpiOp::command(0x06), &[]);

    #[test]
    fn commands_on_four_lines_are_decoded() {
        let quad_enable: (SpiOp, &[u8]) = (SpiOp::command(0x31).write(1), &[2]);
        let mode: Mode = "1S-4S-4S".parse().unwrap();
        let read = SpiOp::command(0xEB).mode(mode).address(0x1234, 3).dummy(6).read(4);
        let reads: (SpiOp, &[u8]) = (read, &[1, 2, 3, 4]);
        let report = checked("w25q128jv", &[WRITE_ENABLE, quad_enable, reads]);
        assert_eq!((commands(&report), report.violation_count), (vec![(0x06, 1), (0x31, 2), (0xEB, 8)], 0));
        assert!(!report.quad_enabled);
        // The bit is set before the capture, or the driver clears it later.
        let report = checked("w25q128jv", &[WRITE_ENABLE, reads]);
        assert_eq!((report.violation_count, report.quad_enabled), (0, true), "{:?}", report.violations);
        let quad_disable: (SpiOp, &[u8]) = (SpiOp::command(0x31).write(1), &[0]);
        let report = checked("w25q128jv", &[WRITE_ENABLE, quad_disable, reads]);
        assert_eq!((report.violation_count, report.quad_enabled), (1, false), "{:?}", report.violations);
    }

    /// READ STATUS 05h of a Winbond SPI NAND has the address of a register.
    #[test]
    fn only_the_status_register_is_polled() {
        let read = |register| SpiOp::command(0x05).address(register, 1).read(1);
        let ops: [(SpiOp, &[u8]); 3] = [(read(0xC0), &[0]), (read(0xA0), &[0x7D]), (read(0xC0), &[0])];
        let report = checked("w25n01gv", &ops);
        assert_eq!((report.violation_count, report.polls.count), (0, 2), "{:?}", report.violations);
    }

    #[test]
    fn a_chip_is_busy_as_long_as_the_capture_says() {
        let program: (SpiOp, &[u8]) = (SpiOp::command(0x02).address(0, 3).write(1), &[0x55]);
        let read: (SpiOp, &[u8]) = (SpiOp::command(0x03).address(0, 3).read(1), &[0x55]);
        let status = |value: &'static [u8]| (SpiOp::command(0x05).read(1), value);
        let [busy, ready] = [&[3], &[0]].map(|value| status(value));
        let violations = |ops: &[(SpiOp, &[u8])]| checked("w25q128jv", ops).violation_count;
        // The typical program time ended long before.
        assert_eq!(violations(&[WRITE_ENABLE, program, read]), 0);
        assert_eq!(violations(&[WRITE_ENABLE, program, busy, busy, read]), 1);
        assert_eq!(violations(&[WRITE_ENABLE, program, busy, busy, ready, read]), 0);
        let report = checked("w25q128jv", &[WRITE_ENABLE, program, busy, busy, ready, read]);
        assert_eq!((report.polls.count, report.polls.while_busy), (3, 2));
    }

    /// A capture in which a cycle of the clock is missing.
    fn without_a_cycle(part: &str, ops: &[(SpiOp, &[u8])], within: usize) -> Report {
        let dump = captured(ops);
        let [rise, fall] = ["1\"\n", "0\"\n"];
        let at = dump.match_indices(rise).nth(within).unwrap().0;
        let end = at + dump[at..].find(fall).unwrap();
        let text = [&dump[..at], &dump[at + rise.len()..end], &dump[end + fall.len()..]].concat();
        checked_text(part, &text)
    }

    #[test]
    fn a_write_that_ends_within_a_byte_is_ignored() {
        let program: (SpiOp, &[u8]) = (SpiOp::command(0x02).address(0, 3).write(2), &[0x55, 0xAA]);
        let read: (SpiOp, &[u8]) = (SpiOp::command(0x03).address(0, 3).read(2), &[0x55, 0xAA]);
        let report = without_a_cycle("w25q128jv", &[WRITE_ENABLE, program], 20);
        let [broken] = report.violations.as_slice() else { panic!("{:?}", report.violations) };
        assert_eq!((report.violation_count, report.busy_ns, broken.bytes.len()), (1, 0, 5));
        assert!(
            broken.rule.starts_with("CS# rises within a byte, after 7 clock cycles of it"),
            "{}",
            broken.rule
        );
        // WRITE ENABLE lacks a cycle, so that the program is not enabled either.
        let report = without_a_cycle("w25q128jv", &[WRITE_ENABLE, program], 3);
        let rules: Vec<&str> = report.violations.iter().map(|one| one.rule.as_str()).collect();
        assert_eq!((rules.len(), rules[1]), (2, "program or erase without write enable"));
        // A read that ends within a byte has given the bytes before it.
        assert_eq!(without_a_cycle("w25q128jv", &[read], 43).violation_count, 0);
        let quad: (SpiOp, &[u8]) = (
            SpiOp::command(0x32).mode("1S-1S-4S".parse::<Mode>().unwrap()).address(0, 3).write(2),
            &[0x55, 0xAA],
        );
        let report = without_a_cycle("w25q128jv", &[WRITE_ENABLE, quad], 41);
        assert_eq!(report.violation_count, 1, "{:?}", report.violations);
    }

    #[test]
    fn commands_on_eight_lines_at_double_rate_are_decoded() {
        let octal: (SpiOp, &[u8]) = (SpiOp::command(0x72).address(0, 4).write(1), &[2]);
        let command = |opcode| SpiOp { ext: CmdExt::Invert, ..SpiOp::command(opcode).mode(Mode::OCTAL_DTR) };
        let status: (SpiOp, &[u8]) = (command(0x05).address(0, 4).dummy(4).read(2), &[2, 2]);
        let ops = [WRITE_ENABLE, octal, (command(0x06), &[]), status];
        let report = checked("mx25uw12845g", &ops);
        assert_eq!((commands(&report), report.violation_count), (vec![(0x05, 8), (0x06, 3), (0x72, 6)], 0));
        assert_eq!(report.polls.count, 1);
    }
}
