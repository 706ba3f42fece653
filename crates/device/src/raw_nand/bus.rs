//! The interfaces between driver and parallel NAND controller, and between controller and chip.

use super::timing::DataInterface;
use crate::oracle::PageTruth;
use crate::timeline::Host;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// Address cycles, first one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    bytes: [u8; 8],
    len: u8,
}

impl Address {
    /// A single cycle: READ ID, features.
    pub const fn byte(value: u8) -> Self {
        Self { bytes: [value, 0, 0, 0, 0, 0, 0, 0], len: 1 }
    }

    /// `column_cycles` of `column`, then `row_cycles` of `row`, each lowest byte first. At most 4 of either.
    #[inline]
    pub const fn new(column: u32, column_cycles: u8, row: u32, row_cycles: u8) -> Self {
        let value = column as u64 | (row as u64) << (8 * column_cycles as u32);
        Self { bytes: value.to_le_bytes(), len: column_cycles + row_cycles }
    }

    /// These cycles; `None` for more than 8.
    pub fn from_cycles(cycles: &[u8]) -> Option<Self> {
        let mut bytes = [0; 8];
        bytes.get_mut(..cycles.len())?.copy_from_slice(cycles);
        Some(Self { bytes, len: cycles.len() as u8 })
    }

    /// Bytes of the address cycles, in the order on the bus.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len).min(self.bytes.len())]
    }
}

/// One step of an operation on the bus.
#[derive(Debug)]
pub enum Instr<'a> {
    /// A command cycle.
    Cmd(u8),
    /// Address cycles.
    Addr(Address),
    /// Until R/B# says ready, at most this long.
    Wait(Nanos),
    /// Page bytes from the chip. Two in a row are one transfer into two buffers.
    In(&'a mut [u8]),
    /// Page bytes to the chip.
    Out(&'a [u8]),
    /// Status, id or feature bytes from the chip (which NV-DDR sends twice).
    RegIn(&'a mut [u8]),
    /// Feature bytes to the chip.
    RegOut(&'a [u8]),
}

/// Reason for which an operation did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NandError {
    /// The chip refused it.
    #[error("the chip refuses: {0}")]
    Chip(#[from] Violation),
    /// The controller cannot do it.
    #[error("the controller does not support this operation")]
    NotSupported,
    /// R/B# or the status never said ready.
    #[error("the chip did not become ready in time")]
    Timeout,
    /// Power went away.
    #[error("power lost")]
    PowerLost,
}

/// A parallel NAND controller with its chips: simulated here, real later.
pub trait NandBus: PageTruth {
    /// Chip enables (CE#) wired.
    fn targets(&self) -> u8;

    /// Sends the following operations to this target. A number beyond the wired ones selects no chip: reads give 0xFF.
    fn select(&mut self, target: u8);

    /// True when controller and board can drive this interface.
    fn supports(&self, interface: DataInterface) -> bool;

    /// True when the controller can issue cached sequential reads (31h and 3Fh without address).
    fn cached_reads(&self) -> bool;

    /// True when the controller can program parts of a page (Linux: not `NAND_NO_SUBPAGE_WRITE`).
    fn sub_page_writes(&self) -> bool;

    /// The interface in use.
    fn interface(&self) -> DataInterface;

    /// Uses `interface` from now on. The driver sets the interface of the chips separately, by SET FEATURES.
    ///
    /// # Errors
    /// `NotSupported`.
    fn set_interface(&mut self, host: &mut Host, interface: DataInterface) -> Result<(), NandError>;

    /// Runs one operation.
    ///
    /// # Errors
    /// When controller or chip refuse; what came before the refused step has happened.
    fn exec(&mut self, host: &mut Host, instrs: &mut [Instr<'_>]) -> Result<(), NandError>;
}

/// Work that the memory array does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// LUN of the target.
    pub lun: u8,
    /// tR, tPROG, tBERS and their like.
    pub what: &'static str,
    /// Start of the span.
    pub start: Instant,
    /// End of the span.
    pub end: Instant,
}

/// A chip (one target: what sits behind one CE#) on a parallel bus. `at` is the end of a command or address cycle, the
/// start of a data burst. `interface` is what the host drives; a chip refuses cycles faster than it was told to expect.
///
/// Each method's error is the rule of the command set that was broken; the chip's state is then unchanged.
pub trait NandChip: PageTruth {
    /// A command cycle.
    ///
    /// # Errors
    /// See the trait.
    fn command(&mut self, at: Instant, interface: DataInterface, opcode: u8) -> Result<(), Violation>;

    /// Address cycles, all that the command takes.
    ///
    /// # Errors
    /// See the trait.
    fn address(&mut self, at: Instant, interface: DataInterface, bytes: &[u8]) -> Result<(), Violation>;

    /// Bytes from the chip.
    ///
    /// # Errors
    /// See the trait.
    fn data_out(&mut self, at: Instant, interface: DataInterface, buf: &mut [u8]) -> Result<(), Violation>;

    /// Bytes to the chip.
    ///
    /// # Errors
    /// See the trait.
    fn data_in(&mut self, at: Instant, interface: DataInterface, bytes: &[u8]) -> Result<(), Violation>;

    /// When R/B# says ready; in the past when it already does.
    fn ready_at(&self) -> Instant;

    /// Takes the work that began since the last call, for pictures.
    fn take_work(&mut self) -> [Option<Work>; 2];

    /// Power goes away at `at`, and comes back.
    fn power_cut(&mut self, at: Instant);

    /// When the program or erase that began last starts and ends.
    fn last_operation(&self) -> Option<(Instant, Instant)>;

    /// LUNs behind this CE#.
    fn luns(&self) -> u8;
}
