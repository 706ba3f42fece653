//! Serial flash: operations, the controller that runs them, the PHY, and the chip's side of the wires.

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

/// Pages that an array reads behind a continuous transfer: each while the page before it is on the wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// Pages after the first.
    pub pages: u32,
    /// Time of the array for each.
    pub each: Nanos,
}

/// Continuation of a read while CS# stays low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOn {
    /// Each byte shows the register as it is then.
    Register,
    /// The address counts on.
    Address,
    /// The chip sends this many bytes, which were chosen when the read began.
    Bytes(u32),
}

/// A chip on a SPI bus. It executes operations and does not know the driver.
pub trait SpiChip: PageTruth {
    /// Executes one operation. CS# goes low at `start` and high at `end`; the clock runs at `hz`.
    ///
    /// Whatever the chip does by itself (array reads, programs, erases) begins at `end`.
    ///
    /// # Errors
    /// The rule of the command set that the operation breaks. The chip's state is then unchanged, and data of a read is
    /// undefined.
    fn exec(
        &mut self,
        start: Instant,
        end: Instant,
        hz: u32,
        op: &SpiOp,
        data: Data<'_>,
    ) -> Result<(), Violation>;

    /// When the work that the status register shows as busy is over; in the past when idle.
    fn busy_until(&self) -> Instant;

    /// When that work began: with the last clock of the command that asked for it.
    fn busy_since(&self) -> Instant;

    /// The die or bank that this work occupies, for pictures.
    fn busy_die(&self) -> u8 {
        0
    }

    /// Name of this work, for pictures: `tR`, `tPROG`, `tBERS`.
    fn busy_what(&self) -> &'static str;

    /// The forms in which the chip takes a command in its present bus mode; none for an unknown one.
    fn shapes(&self, opcode: u8) -> Vec<CommandShape>;

    /// True when the second byte of this command in 8D-8D-8D is part of the row address.
    fn takes_row_in_command(&self, opcode: u8) -> bool {
        let _ = opcode;
        false
    }

    /// Continuation of the read `op` behind its first byte.
    fn read_on(&self, op: &SpiOp) -> ReadOn;

    /// Name of an operation, for pictures: `PAGE READ 13h`.
    fn command_name(&self, op: &SpiOp) -> &'static str;

    /// The work of the array while the operation that began at `start` moved data, for pictures.
    fn read_ahead(&self, start: Instant) -> Option<ReadAhead> {
        let _ = start;
        None
    }

    /// Pulses the reset pin, if the chip has one that is wired.
    fn reset_pin(&mut self, at: Instant);

    /// The work that the status register shows as busy lasts until `until` at least, as a capture of another chip shows.
    fn stay_busy(&mut self, until: Instant) {
        let _ = until;
    }

    /// Sets the quad enable bit, as a driver did before a capture began.
    fn enable_quad(&mut self) {}

    /// Cuts the power at `at` and restores it. A program or an erase under way is left half done, and registers are as
    /// after power-on.
    fn power_cut(&mut self, at: Instant) {
        self.reset_pin(at);
    }
}
