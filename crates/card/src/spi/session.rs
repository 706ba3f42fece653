//! State of a card in SPI mode since power-on.

use crate::sdio::Extended;
use floatgate_device::violation::Violation;
use floatgate_mtd::{BlockError, Instant};
use std::collections::VecDeque;

/// Length of a command frame, B: start bits and number, argument, CRC7 and end bit.
pub(super) const FRAME_BYTES: usize = 6;

/// Progress of the initialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// SD bus mode, the state after power-on. The card accepts only CMD0 with CS# low.
    SdBus,
    /// Idle state: the card is not initialised.
    Idle,
    /// The card is initialised, and accepts commands for data.
    Ready,
}

/// Transfer of blocks to the host.
#[derive(Clone, Debug)]
pub(super) struct Read {
    /// Sector of the next block.
    pub(super) lba: u64,
    /// Offset of the block in the sector, for a card with byte addresses.
    pub(super) from: usize,
    pub(super) length: usize,
    /// True for a transfer of several blocks, which CMD12 ends.
    pub(super) is_multiple: bool,
    /// The next block, with the time at which it has been read.
    pub(super) block: Option<(Instant, Result<Vec<u8>, BlockError>)>,
}

impl Read {
    /// Advances to the next block.
    pub(super) const fn advance(&mut self) {
        self.from += self.length;
        if self.from + self.length > super::BLOCK {
            self.from = 0;
            self.lba += 1;
        }
    }
}

/// Transfer of blocks from the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    /// Sector of the next block.
    pub(super) lba: u64,
    /// True for a transfer of several blocks, which the stop token ends.
    pub(super) is_multiple: bool,
    /// True for a further block of the same command.
    pub(super) is_continued: bool,
    /// True if at least one byte has passed since the response.
    pub(super) has_gap: bool,
}

/// Meaning of the next bytes from the host.
#[derive(Clone, Debug)]
pub(super) enum Activity {
    /// A command frame of 6 bytes.
    Command,
    /// The card sends blocks. The host sends nothing, or the command that ends the transfer.
    Read(Read),
    /// A token before data is expected.
    Token(Write),
    /// Data with CRC16 is expected.
    Data(Write, Vec<u8>),
    /// A token before data of an SDIO function, with the data of the blocks before.
    IoToken(Extended, Vec<u8>),
    /// Data of an SDIO function, and the block that is coming in with its CRC16.
    IoData(Extended, Vec<u8>, Vec<u8>),
    /// The card is busy. After that a command or the next token is expected.
    Busy { until: Instant, then: Option<Write> },
}

/// State that is reset by a power loss or by CMD0.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) powered_at: Instant,
    /// True after the first clock cycle since power-on.
    pub(super) is_clocked: bool,
    /// Number of clock cycles with CS# and the host's data line high.
    pub(super) idle_cycles: u32,
    pub(super) stage: Stage,
    /// Time at which the card's internal start-up ends; the initialisation ends later.
    pub(super) started_at: Instant,
    /// Time at which the initialisation ends; `None` before it was started.
    pub(super) initialised_at: Option<Instant>,
    /// True if the host has sent CMD8.
    pub(super) knows_voltage: bool,
    pub(super) checks_crc: bool,
    /// True if the previous command was CMD55.
    pub(super) is_application: bool,
    /// Length of a read block, B, for a card with byte addresses.
    pub(super) block_bytes: usize,
    pub(super) is_high_speed: bool,
    /// First and last sector of the next erase.
    pub(super) erase: [Option<u64>; 2],
    /// Second byte of the status, until it is read.
    pub(super) status: u8,
    /// Number of blocks that the last write command has written.
    pub(super) written_blocks: u32,
    /// Bytes of the command being received, or of the last command.
    pub(super) frame: Vec<u8>,
    pub(super) frame_at: Instant,
    /// Violations by this command.
    pub(super) noted: Vec<Violation>,
    /// True if the response ended before this byte.
    pub(super) is_answered: bool,
    /// Bytes to send to the host.
    pub(super) out: VecDeque<u8>,
    pub(super) activity: Activity,
    pub(super) disturbed_bit: Option<usize>,
}

impl Session {
    /// Session of a card that is powered on at `powered_at` and answers from `started_at` on.
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

    /// Handles CMD0: the card becomes idle, with all settings as after power-on.
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

    /// Handles the clock cycles of a byte with CS# high, which end a running transfer.
    pub(super) fn idle_byte(&mut self, is_high: bool) {
        if is_high {
            self.idle_cycles = self.idle_cycles.saturating_add(super::BYTE_CYCLES);
        }
        self.end_transfer();
    }

    /// Ends a transfer. A busy card continues its work.
    pub(super) fn end_transfer(&mut self) {
        self.out.clear();
        if !matches!(self.activity, Activity::Busy { .. }) {
            self.activity = Activity::Command;
        }
    }

    /// True while a command, its response or its data is transferred.
    pub(super) fn is_in_transfer(&self) -> bool {
        let is_waiting = !matches!(self.activity, Activity::Command | Activity::Busy { .. });
        is_waiting || !self.out.is_empty() || self.is_inside_frame()
    }

    /// True if a command has been received partly.
    pub(super) fn is_inside_frame(&self) -> bool {
        (1..FRAME_BYTES).contains(&self.frame.len())
    }

    /// Drops an incomplete command after CS# went high.
    pub(super) fn drop_incomplete_frame(&mut self) {
        if self.is_inside_frame() {
            self.frame.clear();
        }
    }
}
