//! Rule violations that a simulated chip rejects. A real chip would ignore the command or corrupt data; the simulated chip
//! reports the violated rule.

use floatgate_mtd::{ErrorKind, Instant};

/// A violated rule of a chip's command set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The chip does not support this command in any mode.
    #[error("unknown command {0:#04x}")]
    UnknownCommand(u8),
    /// The chip does not accept the command at this point of a sequence.
    #[error("command {opcode:#04x}{}: {why}", behind(*after, *refused))]
    OutOfPlace {
        /// Opcode that was refused.
        opcode: u8,
        /// Command before it; `None` after power-on.
        after: Option<u8>,
        /// True if the chip refused that command, its address or its data.
        refused: bool,
        /// Reason, with the cycles that the chip expects.
        why: &'static str,
    },
    /// The chip supports the command, but not with these lanes, rates, address bytes or dummy cycles.
    #[error(
        "command {0:#04x} with lanes, address bytes, dummy cycles or data that the chip does not offer for it"
    )]
    WrongMode(u8),
    /// The clock exceeds the limit of this command.
    #[error("clock of {hz} Hz above the limit of {max} Hz")]
    ClockTooFast {
        /// Clock of the bus, Hz.
        hz: u32,
        /// Limit of the command, Hz.
        max: u32,
    },
    /// A command other than status or reset while the chip is busy.
    #[error("command while the chip is busy")]
    Busy,
    /// A program, erase or register write without WRITE ENABLE.
    #[error("program or erase without write enable")]
    NoWriteEnable,
    /// Block protection bits or a lock protect the target.
    #[error("the target is write protected")]
    Protected,
    /// A program of an area that was programmed since its last erase: a sub-page or an OOB byte of NAND, a bit of NOR.
    #[error("the target was programmed since its last erase")]
    NotErased,
    /// The page was already programmed as often as the chip allows between two erases (NOP).
    #[error("page programmed more often than the chip allows between erases")]
    TooManyPrograms,
    /// Pages of a block were programmed out of order, and the chip forbids this.
    #[error("pages of this block must be programmed in order")]
    OutOfOrder,
    /// An address beyond the chip.
    #[error("address beyond the end of the chip")]
    BadAddress,
    /// The command is not allowed at this point of the sequence.
    #[error("command out of sequence: {0}")]
    Sequence(&'static str),
    /// The chip has no power. This is not a violated rule.
    #[error("power lost")]
    NoPower,
    /// A timing parameter of the current mode was violated.
    #[error("timing violated: {0}")]
    Timing(&'static str),
}

/// Text about the command that preceded a command out of place.
fn behind(after: Option<u8>, refused: bool) -> String {
    match after {
        None => " as the first command".to_owned(),
        Some(after) if refused => format!(" after {after:#04x}, which was refused"),
        Some(after) => format!(" after {after:#04x}"),
    }
}

impl Violation {
    /// Error kind of the rule: [`ErrorKind::Refused`], or a specific one.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::NotErased | Self::TooManyPrograms => ErrorKind::NotErased,
            Self::Protected => ErrorKind::WriteProtected,
            Self::NoPower => ErrorKind::PowerLost,
            Self::UnknownCommand(_) => ErrorKind::Refused("unknown command"),
            Self::OutOfPlace { why, .. } => ErrorKind::Refused(why),
            Self::WrongMode(_) => ErrorKind::Refused(
                "lanes, address bytes, dummy cycles or data that the chip does not offer for this command",
            ),
            Self::ClockTooFast { .. } => ErrorKind::Refused("the clock is above the limit of this command"),
            Self::Busy => ErrorKind::Refused("command while busy"),
            Self::NoWriteEnable => ErrorKind::Refused("no write enable before program or erase"),
            Self::OutOfOrder => ErrorKind::Refused("pages of a block must be programmed in order"),
            Self::BadAddress => ErrorKind::Refused("address beyond the end of the chip"),
            Self::Sequence(what) | Self::Timing(what) => ErrorKind::Refused(what),
        }
    }
}

/// A violation on the bus of a chip, with its time and the bytes that the host sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Start of the command: the time at which CS# went low.
    pub at: Instant,
    /// First bytes that the host sent, at most [`Recorded::BYTES_MAX`].
    pub bytes: Vec<u8>,
    /// Rule that the command violates.
    pub rule: Violation,
}

impl Recorded {
    /// Maximum number of recorded bytes of a command.
    pub const BYTES_MAX: usize = 16;
}

/// Violations of a host that accesses a chip byte by byte. The first ones are recorded, all are counted.
#[derive(Clone, Debug, Default)]
pub struct ViolationLog {
    recorded: Vec<Recorded>,
    count: u64,
}

impl ViolationLog {
    /// Maximum number of recorded violations.
    const RECORDED_MAX: usize = 4096;

    /// Records the violation of `rule` by a command with these `bytes`, or only counts it if the record is full.
    pub fn record(&mut self, at: Instant, bytes: &[u8], rule: Violation) {
        self.count += 1;
        if self.recorded.len() < Self::RECORDED_MAX {
            let bytes = bytes[..bytes.len().min(Recorded::BYTES_MAX)].to_vec();
            self.recorded.push(Recorded { at, bytes, rule });
        }
    }

    /// The first violations in the order of time.
    pub fn recorded(&self) -> &[Recorded] {
        &self.recorded
    }

    /// Number of all violations.
    pub const fn count(&self) -> u64 {
        self.count
    }
}
