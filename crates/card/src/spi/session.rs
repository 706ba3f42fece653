//! State of a card in SPI mode since power-on.

use crate::sdio::Extended;
use floatgate_device::violation::Violation;
use floatgate_mtd::{BlockError, Instant};
use std::collections::VecDeque;

/// Bytes of a command: start bits and number, argument, CRC7 and end bit.
pub(super) const FRAME_BYTES: usize = 6;

/// Progress of the initialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// In the mode of an SD bus, in which a card is after power-on: only CMD0 with CS# low is understood.
    SdBus,
    /// Idle: not initialised.
    Idle,
    /// Initialised: the card takes commands for its data.
    Ready,
}

/// Blocks on their way to the host.
#[derive(Clone, Debug)]
pub(super) struct Read {
    /// Sector of the next block.
    pub(super) lba: u64,
    /// Bytes of the sector that are sent, of a card with addresses in bytes.
    pub(super) from: usize,
    pub(super) length: usize,
    /// Until CMD12.
    pub(super) is_multiple: bool,
    /// The next block, and when it is there.
    pub(super) block: Option<(Instant, Result<Vec<u8>, BlockError>)>,
}

impl Read {
    /// Goes on to the next block.
    pub(super) const fn advance(&mut self) {
        self.from += self.length;
        if self.from + self.length > super::BLOCK {
            self.from = 0;
            self.lba += 1;
        }
    }
}

/// Blocks on their way to the card.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    /// Sector of the next block.
    pub(super) lba: u64,
    /// Until the stop token.
    pub(super) is_multiple: bool,
    /// This is a further block of its command.
    pub(super) is_continued: bool,
    /// A byte has passed since the response.
    pub(super) has_gap: bool,
}

/// Meaning of the next bytes of the host.
#[derive(Clone, Debug)]
pub(super) enum Activity {
    /// A command frame of 6 bytes.
    Command,
    /// Nothing, or the command that ends a transfer: the card sends blocks.
    Read(Read),
    /// A token before data.
    Token(Write),
    /// Data with CRC16.
    Data(Write, Vec<u8>),
    /// A token before data of an SDIO function, with the data of the blocks before.
    IoToken(Extended, Vec<u8>),
    /// Data of an SDIO function, and the block that is coming in with its CRC16.
    IoData(Extended, Vec<u8>, Vec<u8>),
    /// Nothing: the card is busy. Then it expects a command, or the next token.
    Busy { until: Instant, then: Option<Write> },
}

/// State that is lost with the power, or with CMD0.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) powered_at: Instant,
    /// A clock cycle has come since power-on.
    pub(super) is_clocked: bool,
    /// Clock cycles with CS# and the host's line high.
    pub(super) idle_cycles: u32,
    pub(super) stage: Stage,
    /// Time from which the card's own start-up does not hold up the initialisation.
    pub(super) started_at: Instant,
    /// End of the initialisation.
    pub(super) initialised_at: Option<Instant>,
    /// The host has sent CMD8.
    pub(super) knows_voltage: bool,
    pub(super) checks_crc: bool,
    /// CMD55 came before.
    pub(super) is_application: bool,
    /// Bytes of a block that is read, of a card with addresses in bytes.
    pub(super) block_bytes: usize,
    pub(super) is_high_speed: bool,
    /// First and last sector of the next erase.
    pub(super) erase: [Option<u64>; 2],
    /// Second byte of the status, until it is read.
    pub(super) status: u8,
    /// Blocks that the last write command has written.
    pub(super) written_blocks: u32,
    /// The command that is coming in, or the last one.
    pub(super) frame: Vec<u8>,
    pub(super) frame_at: Instant,
    /// The rules that this command has broken.
    pub(super) noted: Vec<Violation>,
    /// The response ended before this byte.
    pub(super) is_answered: bool,
    /// Bytes for the host.
    pub(super) out: VecDeque<u8>,
    pub(super) activity: Activity,
    pub(super) disturbed_bit: Option<usize>,
}

impl Session {
    /// Session of a card that is powered up at `powered_at` and answers from `started_at` on.
    pub(super) const fn new(powered_at: Instant, started_at: Instant) -> Self {
        Self {
            powered_at,
            is_clocked: false,
            idle_cycles: 0,
            stage: Stage::SdBus,
            started_at,
            initialised_at: None,
            knows_voltage: false,
            checks_crc: false,
            is_application: false,
            block_bytes: super::BLOCK,
            is_high_speed: false,
            erase: [None; 2],
            status: 0,
            written_blocks: 0,
            frame: Vec::new(),
            frame_at: powered_at,
            noted: Vec::new(),
            is_answered: true,
            out: VecDeque::new(),
            activity: Activity::Command,
            disturbed_bit: None,
        }
    }

    /// CMD0: idle, all settings as after power-on.
    pub(super) fn reset(&mut self) {
        let fresh = Self::new(self.powered_at, self.started_at);
        let old = std::mem::replace(self, fresh);
        self.stage = Stage::Idle;
        self.is_clocked = true;
        self.idle_cycles = old.idle_cycles;
        self.frame = old.frame;
        self.frame_at = old.frame_at;
        self.noted = old.noted;
        self.disturbed_bit = old.disturbed_bit;
    }

    /// Clock cycles of a byte with CS# high: a transfer that is under way ends.
    pub(super) fn idle_byte(&mut self, is_high: bool) {
        if is_high {
            self.idle_cycles = self.idle_cycles.saturating_add(super::BYTE_CYCLES);
        }
        self.end_transfer();
    }

    /// Ends a transfer; what makes the card busy goes on.
    pub(super) fn end_transfer(&mut self) {
        self.out.clear();
        if !matches!(self.activity, Activity::Busy { .. }) {
            self.activity = Activity::Command;
        }
    }

    /// True inside a command, its response or its data.
    pub(super) fn is_in_transfer(&self) -> bool {
        let is_waiting = !matches!(self.activity, Activity::Command | Activity::Busy { .. });
        is_waiting || !self.out.is_empty() || self.is_inside_frame()
    }

    /// True when a command has begun to come in.
    pub(super) fn is_inside_frame(&self) -> bool {
        (1..FRAME_BYTES).contains(&self.frame.len())
    }

    /// Forgets a command that CS# has cut short.
    pub(super) fn drop_incomplete_frame(&mut self) {
        if self.is_inside_frame() {
            self.frame.clear();
        }
    }
}
