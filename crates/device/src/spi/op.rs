//! A serial operation: command, address, dummy cycles and data, each with its number of lanes, at single or double rate.

use floatgate_mtd::{Instant, Nanos};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use std::fmt;
use std::str::FromStr;

/// Number of lanes and data rate of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Width {
    /// Number of data lines: 1, 2, 4 or 8.
    pub lanes: u8,
    /// True for double transfer rate (DTR): each line transfers a bit on each clock edge.
    pub dtr: bool,
}

impl Width {
    /// One lane at single rate.
    pub const X1: Self = Self { lanes: 1, dtr: false };

    /// Number of half clock cycles for `bytes` bytes. Bits per cycle are a power of two, so that no division is needed.
    #[inline]
    pub(crate) const fn half_cycles(self, bytes: u64) -> u64 {
        let bits_per_cycle_log2 = self.lanes.trailing_zeros() + self.dtr as u32;
        (bytes * 16 + (1 << bits_per_cycle_log2) - 1) >> bits_per_cycle_log2
    }

    /// True if `self` has at most the lanes of `limit`, and double rate only if `limit` has it.
    pub const fn fits(self, limit: Self) -> bool {
        self.lanes <= limit.lanes && (!self.dtr || limit.dtr)
    }
}

/// Widths of command, address and data, in the notation of data sheets: `1S-8S-8S`, `8D-8D-8D`; `1-4-4` means single
/// rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode {
    /// Width of the command phase.
    pub cmd: Width,
    /// Width of the address phase and of the dummy cycles.
    pub addr: Width,
    /// Width of the data phase.
    pub data: Width,
}

impl Mode {
    /// Mode 1S-1S-1S: one lane, single rate.
    pub const SINGLE: Self = Self { cmd: Width::X1, addr: Width::X1, data: Width::X1 };

    /// Mode 8D-8D-8D: eight lanes, double rate.
    pub const OCTAL_DTR: Self = {
        let w = Width { lanes: 8, dtr: true };
        Self { cmd: w, addr: w, data: w }
    };

    /// True if the command itself needs more than one single-rate lane, so that the chip must have been switched before
    /// ("stateful" mode).
    pub const fn is_stateful(self) -> bool {
        self.cmd.lanes > 1 || self.cmd.dtr
    }

    /// True if this mode satisfies a request for `asked`: it has the data lanes and rate of `asked`, and a wide command
    /// phase if `asked` has one.
    pub fn reaches(self, asked: Self) -> bool {
        self.data == asked.data && (self.is_stateful() || !asked.is_stateful())
    }

    /// True when every phase fits into the corresponding phase of `limit`.
    pub const fn fits(self, limit: Self) -> bool {
        self.cmd.fits(limit.cmd) && self.addr.fits(limit.addr) && self.data.fits(limit.data)
    }
}

/// Error for a text that is not a bus mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a bus mode: write command-address-data lanes of 1, 2, 4 or 8, each S or D, as in 1-1-4, 1S-8S-8S or 8D-8D-8D"
)]
pub struct BadMode(String);

impl FromStr for Mode {
    type Err = BadMode;

    fn from_str(text: &str) -> Result<Self, BadMode> {
        let bad = || BadMode(text.to_owned());
        let width = |part: &str| -> Result<Width, BadMode> {
            let lanes = match part.as_bytes().first() {
                Some(b @ (b'1' | b'2' | b'4' | b'8')) => b - b'0',
                _ => return Err(bad()),
            };
            match &part[1..] {
                "" | "S" | "s" => Ok(Width { lanes, dtr: false }),
                "D" | "d" => Ok(Width { lanes, dtr: true }),
                _ => Err(bad()),
            }
        };
        let mut parts = text.split('-').map(width);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(cmd), Some(addr), Some(data), None) => Ok(Self { cmd: cmd?, addr: addr?, data: data? }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.lanes, if self.dtr { 'D' } else { 'S' })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.cmd, self.addr, self.data)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// Direction of the data phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// No data phase.
    None,
    /// Data from the chip to the host.
    In,
    /// Data from the host to the chip.
    Out,
}

/// Second command byte of 8D-8D-8D operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CmdExt {
    /// The command again (most makers).
    #[default]
    Repeat,
    /// The inverted command (Macronix).
    Invert,
    /// Bits 23:16 of a row address, whose other two bytes are in the address phase (Winbond W35N02JW, W35N04JW).
    #[serde(skip)]
    Row(u8),
}

impl CmdExt {
    /// Second byte of a command.
    pub const fn second(self, opcode: u8) -> u8 {
        match self {
            Self::Repeat => opcode,
            Self::Invert => !opcode,
            Self::Row(bits) => bits,
        }
    }
}

/// A serial operation without the bytes of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpiOp {
    /// Command byte (opcode).
    pub opcode: u8,
    /// Second command byte, which is only sent in an 8D command phase.
    pub ext: CmdExt,
    /// Lanes and rates of the phases.
    pub mode: Mode,
    /// Value of the address.
    pub addr: u32,
    /// Number of address bytes, 0 to 4.
    pub addr_bytes: u8,
    /// Number of dummy clock cycles between address and data.
    pub dummy_cycles: u8,
    /// Direction of the data phase.
    pub dir: Direction,
    /// Number of bytes in the data phase.
    pub len: u32,
    /// Highest clock at which the chip accepts this operation, Hz; 0 for the general limit of the chip.
    pub max_hz: u32,
    /// True if the controller swaps the two bytes of each 16-bit word of the data (Linux: `swap16`).
    pub swap16: bool,
}

impl SpiOp {
    /// An operation that consists of a command only, on one lane.
    pub const fn command(opcode: u8) -> Self {
        Self {
            opcode,
            ext: CmdExt::Repeat,
            mode: Mode::SINGLE,
            addr: 0,
            addr_bytes: 0,
            dummy_cycles: 0,
            dir: Direction::None,
            len: 0,
            max_hz: 0,
            swap16: false,
        }
    }

    /// Adds an address of `bytes` bytes.
    #[must_use]
    pub const fn address(mut self, addr: u32, bytes: u8) -> Self {
        self.addr = addr;
        self.addr_bytes = bytes;
        self
    }

    /// Adds `cycles` dummy cycles.
    #[must_use]
    pub const fn dummy(mut self, cycles: u8) -> Self {
        self.dummy_cycles = cycles;
        self
    }

    /// Adds a data phase of `len` bytes from the chip.
    #[must_use]
    pub const fn read(mut self, len: u32) -> Self {
        self.dir = Direction::In;
        self.len = len;
        self
    }

    /// Adds a data phase of `len` bytes to the chip.
    #[must_use]
    pub const fn write(mut self, len: u32) -> Self {
        self.dir = Direction::Out;
        self.len = len;
        self
    }

    /// Sets the lanes and rates of all phases.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Number of half clock cycles of each phase: command, address, dummy, data. In 8D the command has two bytes and
    /// takes one clock cycle.
    #[inline]
    pub const fn half_cycles(&self) -> [u64; 4] {
        let cmd_bytes = if self.mode.cmd.dtr && self.mode.cmd.lanes == 8 { 2 } else { 1 };
        [
            self.mode.cmd.half_cycles(cmd_bytes),
            self.mode.addr.half_cycles(self.addr_bytes as u64),
            self.dummy_cycles as u64 * 2,
            self.mode.data.half_cycles(self.len as u64),
        ]
    }
}

/// Form of a command that a chip accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandShape {
    /// Lanes and rates of the phases.
    pub mode: Mode,
    /// Number of address bytes.
    pub addr_bytes: u8,
    /// Number of dummy clock cycles.
    pub dummy_cycles: u8,
    /// Direction of the data phase.
    pub dir: Direction,
}

impl fmt::Display for CommandShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = match self.dir {
            Direction::None => "no data",
            Direction::In => "data from the chip",
            Direction::Out => "data to the chip",
        };
        let (bytes, cycles) = (self.addr_bytes, self.dummy_cycles);
        let s = |count: u8| if count == 1 { "" } else { "s" };
        write!(
            f,
            "{} with {bytes} address byte{}, {cycles} dummy cycle{} and {data}",
            self.mode,
            s(bytes),
            s(cycles)
        )
    }
}

/// Swaps the two bytes of each 16-bit word.
pub(crate) fn swap_words(bytes: &mut [u8]) {
    bytes.chunks_exact_mut(2).for_each(|word| word.swap(0, 1));
}

/// Bytes of an operation's data phase. Their number is the operation's `len`.
#[derive(Debug)]
pub enum Data<'a> {
    /// No data phase.
    None,
    /// Buffer for bytes from the chip.
    In(&'a mut [u8]),
    /// Bytes to the chip.
    Out(&'a [u8]),
}

/// A bus clock with a fixed-point factor for the conversion to nanoseconds, so that no division is needed per operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    hz: u32,
    /// Nanoseconds per half cycle, times 2^24.
    half_ns_q24: u64,
}

impl Clock {
    /// A clock of frequency `hz` (at least 1 Hz).
    pub const fn new(hz: u32) -> Self {
        let hz = if hz == 0 { 1 } else { hz };
        Self { hz, half_ns_q24: (500_000_000u64 << 24) / hz as u64 }
    }

    /// Frequency of the clock, Hz.
    pub const fn hz(self) -> u32 {
        self.hz
    }

    /// Duration of `half_cycles` half clock cycles, rounded down to nanoseconds.
    #[inline]
    pub const fn time(self, half_cycles: u64) -> Nanos {
        // The split avoids an overflow for slow clocks with long transfers: 24 fraction bits, 40 bits of cycles.
        let whole = (self.half_ns_q24 >> 24) * half_cycles;
        let fraction = ((self.half_ns_q24 & 0xFF_FFFF) * half_cycles) >> 24;
        Nanos::from_ns(whole + fraction)
    }

    /// Duration of each phase: command, address, dummy, data. Their sum is the operation's duration on the bus, rounded
    /// once.
    #[inline]
    pub fn phases(self, op: &SpiOp) -> [Nanos; 4] {
        let mut cycles = 0;
        let mut before = Nanos::ZERO;
        op.half_cycles().map(|c| {
            cycles += c;
            let until = self.time(cycles);
            let length = until - before;
            before = until;
            length
        })
    }

    /// Duration of the whole operation on the bus (Linux: `spi_mem_calc_op_duration`).
    #[inline]
    pub fn duration(self, op: &SpiOp) -> Nanos {
        self.time(op.half_cycles().iter().sum())
    }
}

/// An operation that was transferred on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Time at which CS# went low.
    pub start: Instant,
    /// Time at which CS# went high.
    pub end: Instant,
    /// Clock of the bus.
    pub clock: Clock,
    /// Command, address and dummy cycles.
    pub op: SpiOp,
    /// Bytes of the data phase.
    pub data: Vec<u8>,
}

/// A form of a command that a chip supports: a row of its read or program table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Lanes and rates of the command.
    pub mode: Mode,
    /// Command byte.
    pub opcode: u8,
    /// Number of dummy clock cycles between address and data.
    #[serde(default)]
    pub dummy: u8,
    /// Highest clock with this number of dummy cycles, in Hz; 0 for the limit of the chip.
    #[serde(default, with = "crate::units::hz")]
    pub max_hz: u64,
}

impl Variant {
    /// The operation of this variant for an address and a length.
    pub fn op(&self, addr: u32, addr_bytes: u8, dir: Direction, len: u32) -> SpiOp {
        SpiOp {
            opcode: self.opcode,
            ext: CmdExt::Repeat,
            mode: self.mode,
            addr,
            addr_bytes,
            dummy_cycles: self.dummy,
            dir,
            len,
            max_hz: u32::try_from(self.max_hz).unwrap_or(u32::MAX),
            swap16: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mode: &str, dummy: u8, len: u32) -> SpiOp {
        let mode = mode.parse().unwrap();
        SpiOp::command(0xCB).mode(mode).address(0, 2).dummy(dummy).read(len)
    }

    /// Published durations (facts 2.3): a 4096+128 byte page in 1S-8S-8S.
    #[test]
    fn published_durations() {
        let slow = Clock::new(86_000_000).duration(&read("1S-8S-8S", 8, 4224));
        let fast = Clock::new(166_000_000).duration(&read("1S-8S-8S", 20, 4224));
        assert_eq!((slow.as_ns() + 5) / 10, 4_933);
        assert_eq!((fast.as_ns() + 5) / 10, 2_563);
    }

    #[test]
    fn modes_read_as_written() {
        for text in ["1S-1S-1S", "1S-4D-4D", "8D-8D-8D"] {
            assert_eq!(text.parse::<Mode>().unwrap().to_string(), text);
        }
        assert_eq!("1-8-8".parse::<Mode>().unwrap().to_string(), "1S-8S-8S");
        for bad in ["", "1-1", "1-1-3", "1-1-1-1", "1X-1-1", "é-1-1"] {
            assert!(bad.parse::<Mode>().is_err(), "{bad}");
        }
    }

    #[test]
    fn stateful_commands_take_one_cycle() {
        let op = read("8D-8D-8D", 20, 512);
        assert_eq!(op.half_cycles(), [2, 2, 40, 512]);
    }
}
