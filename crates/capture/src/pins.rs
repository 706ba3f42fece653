//! Signals at the pins of a serial chip, as a logic analyser records them.

use floatgate_device::spi::{Clock, Direction, SpiOp, Transfer, Width};
use floatgate_mtd::{Instant, Nanos};

/// Identifier codes of CS# and clock in a value change dump; the codes of the data lines follow.
const SELECT: u8 = b'!';
const CLOCK: u8 = b'"';
const FIRST_LINE: u8 = b'#';

/// Value change dump of operations on the wires, in SPI mode 0, with a resolution of 1 ns. The channels are `cs`, `clk`,
/// `mosi` and `miso`; if an operation uses more lines, `io0`, `io1` and so on. Undriven lines hold their level.
pub fn vcd(transfers: &[Transfer]) -> String {
    let mode = |one: &Transfer| [one.op.mode.cmd, one.op.mode.addr, one.op.mode.data];
    let lanes = transfers.iter().flat_map(mode).map(|width| width.lanes).max().unwrap_or(1);
    let lines: Vec<String> = match lanes {
        1 => vec!["mosi".to_owned(), "miso".to_owned()],
        lanes => (0..lanes).map(|line| format!("io{line}")).collect(),
    };
    let mut dump = Dump::new(&lines);
    for (at, transfer) in transfers.iter().enumerate() {
        let next = transfers.get(at + 1).map(|next| next.start);
        dump.transfer(transfer, next);
    }
    dump.text
}

/// A value change dump that is being written.
struct Dump {
    text: String,
    /// Time of the last change.
    now: Instant,
    /// Level of each channel, in the order of the dump.
    levels: Vec<bool>,
    /// Start of the current CS# window, its clock, and its number of half cycles so far.
    start: Instant,
    clock: Clock,
    half_cycles: u64,
}

impl Dump {
    fn new(lines: &[String]) -> Self {
        let mut text = "$timescale 1 ns $end\n$scope module floatgate $end\n".to_owned();
        let channels = ["cs", "clk"].into_iter().chain(lines.iter().map(String::as_str));
        let mut values = String::new();
        for (code, name) in (SELECT..).zip(channels) {
            let level = u8::from(name == "cs");
            text += &format!("$var wire 1 {} {name} $end\n", char::from(code));
            values += &format!("{level}{}\n", char::from(code));
        }
        text += &format!("$upscope $end\n$enddefinitions $end\n#0\n{values}");
        let mut levels = vec![false; lines.len() + 2];
        levels[0] = true;
        Self { text, now: Instant::ZERO, levels, start: Instant::ZERO, clock: Clock::new(1), half_cycles: 0 }
    }

    fn set(&mut self, at: Instant, code: u8, level: bool) {
        let known = &mut self.levels[usize::from(code - SELECT)];
        if std::mem::replace(known, level) == level {
            return;
        }
        if std::mem::replace(&mut self.now, at) != at {
            self.text += &format!("#{}\n", at.as_ns());
        }
        self.text += &format!("{}{}\n", u8::from(level), char::from(code));
    }

    /// Time of a half cycle in the current window.
    fn at(&self, half_cycle: u64) -> Instant {
        self.start + self.clock.time(half_cycle)
    }

    /// Writes one CS# window. CS# rises at least 1 ns before the next window, so that both windows are visible.
    fn transfer(&mut self, transfer: &Transfer, next: Option<Instant>) {
        let op = &transfer.op;
        (self.start, self.clock, self.half_cycles) = (transfer.start, transfer.clock, 0);
        self.set(transfer.start, SELECT, false);
        self.bytes(op.mode.cmd, Direction::Out, &command(op));
        let address = op.addr.to_be_bytes();
        self.bytes(op.mode.addr, Direction::Out, &address[4 - usize::from(op.addr_bytes.min(4))..]);
        for _ in 0..op.dummy_cycles {
            self.cycle(self.at(self.half_cycles + 1));
        }
        self.bytes(op.mode.data, op.dir, &transfer.data);
        let before_next = next.map_or(transfer.end, |next| Instant::from_ns(next.as_ns().saturating_sub(1)));
        let end = transfer.end.min(before_next).max(self.now);
        self.set(end, CLOCK, false);
        self.set(end, SELECT, true);
    }

    /// Writes a clock cycle whose rising edge is at `rise`.
    fn cycle(&mut self, rise: Instant) {
        self.half_cycles += 2;
        self.set(rise, CLOCK, true);
        self.set(self.at(self.half_cycles), CLOCK, false);
    }

    /// Writes the bytes of a phase, highest bit first. At single rate a bit is valid at the rising edge; at double rate
    /// at every edge, which is then in the middle of the bit.
    fn bytes(&mut self, width: Width, direction: Direction, bytes: &[u8]) {
        let lanes = width.lanes.clamp(1, 8);
        for byte in bytes {
            for group in (0..8 / lanes).rev() {
                let begin = self.at(self.half_cycles);
                let end = self.at(self.half_cycles + if width.dtr { 1 } else { 2 });
                let middle = begin + Nanos::from_ns(end.since(begin).as_ns() / 2);
                for lane in 0..lanes {
                    // With one data line in each direction, the line from the chip is the second one.
                    let line = if lanes == 1 && direction == Direction::In { 1 } else { lane };
                    self.set(begin, FIRST_LINE + line, byte >> (group * lanes + lane) & 1 != 0);
                }
                if width.dtr {
                    let level = !self.levels[usize::from(CLOCK - SELECT)];
                    self.set(middle, CLOCK, level);
                    self.half_cycles += 1;
                } else {
                    self.cycle(middle);
                }
            }
        }
    }
}

/// Bytes of the command phase; two bytes in 8D mode.
fn command(op: &SpiOp) -> Vec<u8> {
    let second = op.ext.second(op.opcode);
    if op.mode.cmd.dtr && op.mode.cmd.lanes == 8 { vec![op.opcode, second] } else { vec![op.opcode] }
}
