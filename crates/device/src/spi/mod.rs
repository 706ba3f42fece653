//! Serial flash: operations, the controller that executes them, the PHY, and the interface of a chip.

mod board;
mod controller;
mod mem;
mod mem_wire;
pub mod op;
pub mod phy;
pub mod profile;
mod wire;

pub use board::SpiBoard;
pub use controller::SpiController;
pub(crate) use mem::mean_wait;
pub use mem::{PollPlan, SpiError, SpiMem};
pub use mem_wire::{PollPauses, SpiMemWire};
pub(crate) use op::swap_words;
pub use op::{Clock, CmdExt, CommandShape, Data, Direction, Mode, SpiOp, Transfer, Variant, Width};
pub use phy::{PhyProfile, PhyState, PhyTooFast};
pub use profile::{SpiBus, SpiProfile};
pub use wire::SpiWire;

use crate::oracle::PageTruth;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// Pages that an array reads during a continuous transfer, each while the previous page is on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// Number of pages after the first one.
    pub pages: u32,
    /// Time of the array for each page.
    pub each: Nanos,
}

/// Data that follows the first byte of a read while CS# stays low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOn {
    /// Each byte returns the current value of the register.
    Register,
    /// The address is incremented with each byte.
    Address,
    /// The chip sends this number of bytes, which were fixed when the read began.
    Bytes(u32),
}

/// A chip on a SPI bus. It executes operations independently of a driver.
pub trait SpiChip: PageTruth {
    /// Executes one operation. CS# goes low at `start` and high at `end`; the clock frequency is `hz`.
    ///
    /// Internal operations of the chip (array reads, programs, erases) begin at `end`.
    ///
    /// # Errors
    /// The rule of the command set that the operation violates. The chip's state is then unchanged, and data of a read
    /// is undefined.
    fn exec(
        &mut self,
        start: Instant,
        end: Instant,
        hz: u32,
        op: &SpiOp,
        data: Data<'_>,
    ) -> Result<(), Violation>;

    /// Time at which the work shown as busy in the status register ends; in the past if the chip is idle.
    fn busy_until(&self) -> Instant;

    /// Time at which that work began: the last clock of its command.
    fn busy_since(&self) -> Instant;

    /// Number of the die or bank that this work occupies, for traces.
    fn busy_die(&self) -> u8 {
        0
    }

    /// Name of this work, for traces: `tR`, `tPROG`, `tBERS`.
    fn busy_what(&self) -> &'static str;

    /// Forms in which the chip accepts a command in its current bus mode; none for an unknown command.
    fn shapes(&self, opcode: u8) -> Vec<CommandShape>;

    /// True if the second byte of this command in 8D-8D-8D is part of the row address.
    fn takes_row_in_command(&self, opcode: u8) -> bool {
        let _ = opcode;
        false
    }

    /// Data that follows the first byte of the read `op`.
    fn read_on(&self, op: &SpiOp) -> ReadOn;

    /// Name of an operation, for traces: `PAGE READ 13h`.
    fn command_name(&self, op: &SpiOp) -> &'static str;

    /// Array reads during the operation that began at `start`, for traces.
    fn read_ahead(&self, start: Instant) -> Option<ReadAhead> {
        let _ = start;
        None
    }

    /// Pulses the reset pin, if the chip has a connected one.
    fn reset_pin(&mut self, at: Instant);

    /// Extends the busy time to at least `until`, if a capture shows that the captured chip was slower.
    fn stay_busy(&mut self, until: Instant) {
        let _ = until;
    }

    /// Sets the quad enable bit, as a driver may have done before a capture began.
    fn enable_quad(&mut self) {}

    /// Applies a power cut at `at`, after which power is back. A running program or erase is left half finished, and
    /// registers have their power-on values.
    fn power_cut(&mut self, at: Instant) {
        self.reset_pin(at);
    }
}
