//! Interface between a SPI memory controller and the driver of its chip.

use super::Violation;
use super::op::{Clock, CommandShape, Data, Direction, Mode, SpiOp};
use super::phy::PhyState;
use crate::oracle::PageTruth;
use crate::timeline::Host;
use floatgate_mtd::{Instant, Nanos};

/// Reason why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpiError {
    /// The chip rejected the operation.
    #[error("the chip refuses: {0}")]
    Chip(#[from] Violation),
    /// The controller does not support the operation.
    #[error("the controller does not support this operation")]
    NotSupported,
    /// The status did not reach the expected value in time.
    #[error("the chip did not become ready in time")]
    Timeout,
    /// Calibration found no usable sampling point.
    #[error("no sampling point: the widest eye is {taps} taps, {needed} are needed at {hz} Hz")]
    NoEye {
        /// Number of taps in the widest run of good taps.
        taps: u16,
        /// Minimum number of taps that the profile requires.
        needed: u16,
        /// Clock of the calibration, Hz.
        hz: u32,
    },
    /// Power was lost before the end of the operation.
    #[error("power lost")]
    PowerLost,
    /// A calibration was requested from a controller without a PHY.
    #[error("the controller has no PHY to calibrate")]
    NoPhy,
}

/// Times of status reads, as in Linux's `spi_mem_poll_status`: a first pause, a status operation, then pauses of
/// `interval` between further operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollPlan {
    /// Pause before the first status operation.
    pub initial: Nanos,
    /// Pause between status operations.
    pub interval: Nanos,
    /// Time after which polling fails.
    pub timeout: Nanos,
}

/// Mean time from the first sample of a status to the sample that finds the chip ready. Samples come every `round`, and
/// the mean is over their phase. Array times of pages and blocks vary by more than a round, so that no phase is preferred:
/// a sample is half a round late on average. An exact number of rounds would give steps, which no real chip shows.
#[inline]
pub(crate) fn mean_wait(first: Instant, round: Nanos, ready: Instant) -> Nanos {
    (ready + Nanos::from_ns(round.as_ns() / 2)).since(first)
}

/// Interface of a controller to its driver (Linux: spi-mem). Implementations may be simulated or real.
pub trait SpiMem: PageTruth {
    /// True if controller and board support operations of this mode.
    fn supports(&self, mode: Mode) -> bool;

    /// Forms in which the chip accepts a command in its current bus mode; none for an unknown command.
    fn shapes(&self, opcode: u8) -> Vec<CommandShape>;

    /// Text about operations that chip and controller support instead of a rejected one.
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

    /// Commands that the chip accepts in its current bus mode, as text.
    fn opcodes(&self) -> Option<String> {
        let known = (0..=u8::MAX).filter(|opcode| !self.shapes(*opcode).is_empty());
        let names: Vec<String> = known.map(|opcode| format!("{opcode:#04x}")).collect();
        (!names.is_empty()).then(|| format!("the chip takes {} in this bus mode", names.join(", ")))
    }

    /// True if the controller can swap the bytes of each 16-bit word (Linux: capability `swap16`).
    fn swaps_words(&self) -> bool;

    /// True if the chip's reset pin is connected.
    fn has_reset_pin(&self) -> bool;

    /// Mode required by the board, if any: its data lanes and rate must be reached.
    fn mode_asked(&self) -> Option<Mode>;

    /// Maximum width of each phase; `None` for no limit.
    fn mode_limit(&self) -> Option<Mode>;

    /// Maximum number of data bytes in one operation.
    fn max_transfer(&self) -> usize;

    /// Maximum number of data bytes of a mapped transfer during which CS# stays low.
    fn max_mapped(&self, direction: Direction) -> usize;

    /// Clock of `op`. `mapped` operations may use the clock of the PHY.
    fn clock(&self, op: &SpiOp, mapped: bool) -> Clock;

    /// Executes one operation.
    ///
    /// # Errors
    /// Controller or chip rejects the operation.
    fn exec(&mut self, host: &mut Host, op: &SpiOp, data: Data<'_>) -> Result<(), SpiError>;

    /// Executes one data transfer through the direct mapping, or as plain operations without a mapping.
    ///
    /// # Errors
    /// Controller or chip rejects an operation.
    fn mapped(&mut self, host: &mut Host, op: &SpiOp, data: Data<'_>) -> Result<(), SpiError>;

    /// Repeats a status read until `status & mask == value`. Returns the last status.
    ///
    /// # Errors
    /// `Timeout`, or controller or chip rejects the read.
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

    /// True if the board requires the PHY.
    fn wants_phy(&self) -> bool;

    /// Clock of the PHY, Hz; `None` unless the board requires the PHY and the controller has one.
    fn phy_hz(&self) -> Option<u32>;

    /// Duration of one plain operation on an idle bus, with its cost besides the bus time.
    fn plain_time(&self, op: &SpiOp) -> Nanos;

    /// Sweeps the sampling delay while `op` reads `pattern`, and selects the centre of the widest eye.
    ///
    /// # Errors
    /// `NoPhy`, `NoEye`.
    fn calibrate(&mut self, host: &mut Host, op: &SpiOp, pattern: &[u8]) -> Result<PhyState, SpiError>;
}
