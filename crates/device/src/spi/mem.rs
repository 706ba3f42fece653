//! The interface between a SPI memory controller and the driver of its chip.

use super::Violation;
use super::op::{Clock, CommandShape, Data, Direction, Mode, SpiOp};
use super::phy::PhyState;
use crate::oracle::PageTruth;
use crate::timeline::Host;
use floatgate_mtd::{Instant, Nanos};

/// Reason for which an operation did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpiError {
    /// The chip refused it.
    #[error("the chip refuses: {0}")]
    Chip(#[from] Violation),
    /// The controller cannot do it.
    #[error("the controller does not support this operation")]
    NotSupported,
    /// The status never reached the wanted value.
    #[error("the chip did not become ready in time")]
    Timeout,
    /// Calibration found no usable sampling point.
    #[error("no sampling point: the widest eye is {taps} taps, {needed} are needed at {hz} Hz")]
    NoEye {
        /// Widest run of good taps.
        taps: u16,
        /// Taps the profile asks for.
        needed: u16,
        /// The clock that was tried.
        hz: u32,
    },
    /// Power went away before the operation was over.
    #[error("power lost")]
    PowerLost,
    /// Calibration was asked of a controller without PHY.
    #[error("the controller has no PHY to calibrate")]
    NoPhy,
}

/// When to look at the status, as Linux's `spi_mem_poll_status` does: a first pause, then a status operation, then
/// pauses of `interval` between further ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollPlan {
    /// Before the first status operation.
    pub initial: Nanos,
    /// Between status operations.
    pub interval: Nanos,
    /// Give up after.
    pub timeout: Nanos,
}

/// Time from the first sample of a status to the one that sees the chip ready, in the mean over the phase of samples that
/// come each `round`. Array times of pages and blocks differ by more than a round, so that no phase is preferred: a sample
/// is half a round late. The exact count of rounds would be a stair, whose steps no chip shows.
#[inline]
pub(crate) fn mean_wait(first: Instant, round: Nanos, ready: Instant) -> Nanos {
    (ready + Nanos::from_ns(round.as_ns() / 2)).since(first)
}

/// Interface of a controller to its driver (Linux: spi-mem): simulated here, real later.
pub trait SpiMem: PageTruth {
    /// True when controller and board can do operations of this mode.
    fn supports(&self, mode: Mode) -> bool;

    /// The forms in which the chip takes a command in its present bus mode; none for an unknown one.
    fn shapes(&self, opcode: u8) -> Vec<CommandShape>;

    /// Words for the operations that chip and controller offer in place of one that was refused.
    fn offers(&self, op: &SpiOp, refused: &SpiError) -> Option<String> {
        let opcode = op.opcode;
        let (who, shapes) = match refused {
            SpiError::Chip(Violation::UnknownCommand(_)) => return self.opcodes(),
            SpiError::Chip(Violation::WrongMode(_)) => ("the chip takes", self.shapes(opcode)),
            SpiError::NotSupported => {
                let both = self.shapes(opcode).into_iter().filter(|shape| self.supports(shape.mode));
                ("chip and controller both take", both.collect())
            }
            _ => return None,
        };
        let names: Vec<String> = shapes.iter().map(CommandShape::to_string).collect();
        (!names.is_empty()).then(|| format!("{who} {opcode:#04x} as {}", names.join("; or as ")))
    }

    /// The commands that the chip takes in its present bus mode, in words.
    fn opcodes(&self) -> Option<String> {
        let known = (0..=u8::MAX).filter(|opcode| !self.shapes(*opcode).is_empty());
        let names: Vec<String> = known.map(|opcode| format!("{opcode:#04x}")).collect();
        (!names.is_empty()).then(|| format!("the chip takes {} in this bus mode", names.join(", ")))
    }

    /// True when the controller can swap the bytes of each 16-bit word (Linux: capability `swap16`).
    fn swaps_words(&self) -> bool;

    /// True when the chip's reset pin is wired.
    fn has_reset_pin(&self) -> bool;

    /// The mode the board's owner asks for, if any: its data lanes and rate must be reached.
    fn mode_asked(&self) -> Option<Mode>;

    /// No phase may be wider than this.
    fn mode_limit(&self) -> Option<Mode>;

    /// Most data bytes in one operation.
    fn max_transfer(&self) -> usize;

    /// Most data bytes of one mapped transfer during which CS# stays low.
    fn max_mapped(&self, direction: Direction) -> usize;

    /// The clock at which `op` would run. `mapped` operations may use the PHY's.
    fn clock(&self, op: &SpiOp, mapped: bool) -> Clock;

    /// Runs one operation.
    ///
    /// # Errors
    /// When controller or chip refuse.
    fn exec(&mut self, host: &mut Host, op: &SpiOp, data: Data<'_>) -> Result<(), SpiError>;

    /// Runs one data transfer through the direct mapping, or as plain operations where there is none.
    ///
    /// # Errors
    /// When controller or chip refuse.
    fn mapped(&mut self, host: &mut Host, op: &SpiOp, data: Data<'_>) -> Result<(), SpiError>;

    /// Repeats a status read until `status & mask == value`. Returns the last status.
    ///
    /// # Errors
    /// `Timeout`, or when controller or chip refuse.
    fn poll(
        &mut self,
        host: &mut Host,
        op: &SpiOp,
        mask: u8,
        value: u8,
        plan: PollPlan,
    ) -> Result<u8, SpiError>;

    /// Pulses the reset pin.
    fn pulse_reset(&mut self, host: &mut Host);

    /// True when the board wants the PHY used.
    fn wants_phy(&self) -> bool;

    /// The PHY's clock, where the board wants the PHY used and the controller has one.
    fn phy_hz(&self) -> Option<u32>;

    /// Time of one plain operation while nothing else uses the bus, with its cost beside the wires.
    fn plain_time(&self, op: &SpiOp) -> Nanos;

    /// Sweeps the sampling delay while `op` reads `pattern`, and takes the centre of the widest eye.
    ///
    /// # Errors
    /// `NoPhy`, `NoEye`.
    fn calibrate(&mut self, host: &mut Host, op: &SpiOp, pattern: &[u8]) -> Result<PhyState, SpiError>;
}
