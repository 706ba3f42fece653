//! Interfaces between driver and parallel NAND controller, and between controller and chip.

use super::timing::DataInterface;
use crate::oracle::PageTruth;
use crate::timeline::Host;
use crate::violation::Violation;
use floatgate_mtd::{Instant, Nanos};

/// Bytes of the address cycles, first cycle first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    bytes: [u8; 8],
    len: u8,
}

impl Address {
    /// A single address cycle, for READ ID and features.
    pub const fn byte(value: u8) -> Self {
        Self { bytes: [value, 0, 0, 0, 0, 0, 0, 0], len: 1 }
    }

    /// Address of `column_cycles` cycles of `column`, then `row_cycles` cycles of `row`, each lowest byte first. At
    /// most 4 cycles each.
    #[inline]
    pub const fn new(column: u32, column_cycles: u8, row: u32, row_cycles: u8) -> Self {
        let value = column as u64 | (row as u64) << (8 * column_cycles as u32);
        Self { bytes: value.to_le_bytes(), len: column_cycles + row_cycles }
    }

    /// An address of these cycles; `None` for more than 8.
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

/// A step of an operation on the bus.
#[derive(Debug)]
pub enum Instr<'a> {
    /// One command cycle with this byte.
    Cmd(u8),
    /// Address cycles, one for each byte.
    Addr(Address),
    /// A wait until R/B# is high, at most this time.
    Wait(Nanos),
    /// Page bytes from the chip. Two consecutive steps are one transfer into two buffers.
    In(&'a mut [u8]),
    /// Page bytes to the chip.
    Out(&'a [u8]),
    /// Status, id or feature bytes from the chip (NV-DDR transfers each byte twice).
    RegIn(&'a mut [u8]),
    /// Feature bytes to the chip.
    RegOut(&'a [u8]),
}

/// Reason why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NandError {
    /// The chip rejected the operation.
    #[error("the chip refuses: {0}")]
    Chip(#[from] Violation),
    /// The controller does not support the operation.
    #[error("the controller does not support this operation")]
    NotSupported,
    /// Neither R/B# nor the status reported ready in time.
    #[error("the chip did not become ready in time")]
    Timeout,
    /// Power was lost.
    #[error("power lost")]
    PowerLost,
}

/// A parallel NAND controller with its chips. Implementations may be simulated or real.
pub trait NandBus: PageTruth {
    /// Number of chip enables (CE#) that are connected.
    fn targets(&self) -> u8;

    /// Selects the target of the following operations. A number beyond the connected ones selects no chip: reads return
    /// 0xFF.
    fn select(&mut self, target: u8);

    /// True if controller and board support this interface.
    fn supports(&self, interface: DataInterface) -> bool;

    /// True if the controller supports cached sequential reads (31h and 3Fh without address).
    fn cached_reads(&self) -> bool;

    /// True if the controller can program parts of a page (Linux: not `NAND_NO_SUBPAGE_WRITE`).
    fn sub_page_writes(&self) -> bool;

    /// The data interface in use.
    fn interface(&self) -> DataInterface;

    /// Sets the data interface of the controller. The driver sets the interface of the chips separately, by SET
    /// FEATURES.
    ///
    /// # Errors
    /// `NotSupported`.
    fn set_interface(&mut self, host: &mut Host, interface: DataInterface) -> Result<(), NandError>;

    /// Executes one operation.
    ///
    /// # Errors
    /// Controller or chip rejects a step; the steps before it were executed.
    fn exec(&mut self, host: &mut Host, instrs: &mut [Instr<'_>]) -> Result<(), NandError>;
}

/// An operation of the memory array, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// LUN of the target.
    pub lun: u8,
    /// Name of the array time: tR, tPROG, tBERS and so on.
    pub what: &'static str,
    /// Start of the operation.
    pub start: Instant,
    /// End of the operation.
    pub end: Instant,
}

/// A chip on a parallel bus: one target, which is everything behind one CE#. `at` is the end of a command or address
/// cycle, or the start of a data burst. `interface` is the data interface that the host uses; a chip rejects cycles
/// faster than its configured interface.
///
/// Each method returns the violated rule of the command set as its error; the chip's state is then unchanged.
pub trait NandChip: PageTruth {
    /// Executes a command cycle.
    ///
    /// # Errors
    /// See the trait.
    fn command(&mut self, at: Instant, interface: DataInterface, opcode: u8) -> Result<(), Violation>;

    /// Executes all address cycles of a command.
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

    /// Time at which R/B# is high; in the past if it is high already.
    fn ready_at(&self) -> Instant;

    /// Removes and returns the operations that started since the last call, for traces.
    fn take_work(&mut self) -> [Option<Work>; 2];

    /// Applies a power cut at `at`, after which power is back.
    fn power_cut(&mut self, at: Instant);

    /// Start and end of the program or erase that started last.
    fn last_operation(&self) -> Option<(Instant, Instant)>;

    /// Number of LUNs behind this CE#.
    fn luns(&self) -> u8;
}
