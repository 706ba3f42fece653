//! Errors of flash devices. Each error contains the address and the time, so that the caller can advance its clock.

use crate::time::Instant;

/// A failed operation: kind, address, and the virtual time at which the driver detected the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Kind of failure.
    pub kind: ErrorKind,
    /// Byte address on the device, without OOB bytes.
    pub addr: u64,
    /// Time at which the driver detected the failure.
    pub at: Instant,
}

impl core::fmt::Display for Error {
    /// Formats the failure, with its address if it has one.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.kind {
            ErrorKind::Unsupported(_) | ErrorKind::DeviceLost => write!(f, "{}", self.kind),
            _ => write!(f, "{} at {:#x}", self.kind, self.addr),
        }
    }
}

impl core::error::Error for Error {}

/// Kind of failure of an operation on a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// More bit errors in an ECC step than the code corrects. The buffer contains the data as read.
    #[error("uncorrectable bit errors")]
    Uncorrectable,
    /// The chip reported a program failure; the page content is undefined.
    #[error("the chip reports that programming failed")]
    ProgramFailed,
    /// The chip reported an erase failure; the block content is undefined.
    #[error("the chip reports that erasing failed")]
    EraseFailed,
    /// The block is marked bad.
    #[error("the block is marked bad")]
    BadBlock,
    /// The range extends beyond the device.
    #[error("the range ends beyond the device: {len} bytes long, and the device has {size} bytes")]
    OutOfRange {
        /// Requested length, bytes.
        len: u64,
        /// Size of the device, bytes.
        size: u64,
    },
    /// Address or length is not a multiple of the operation's unit.
    #[error("address and length must be multiples of {unit} bytes")]
    Misaligned {
        /// Unit of the operation, B.
        unit: u32,
    },
    /// The target is not erased, and the chip does not allow another program.
    #[error("the target is not erased")]
    NotErased,
    /// A lock or protection bit forbids the operation.
    #[error("write protected")]
    WriteProtected,
    /// Power was lost during the operation.
    #[error("power lost")]
    PowerLost,
    /// The device no longer responds.
    #[error("the device does not answer")]
    DeviceLost,
    /// The device did not become ready in time.
    #[error("the device did not become ready in time")]
    Timeout,
    /// The device does not support this function.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// The chip rejected a command that violates the named rule.
    #[error("the chip refuses: {0}")]
    Refused(&'static str),
}

impl ErrorKind {
    /// The error of this kind at `addr`, detected at `at`.
    pub fn at(self, addr: u64, at: Instant) -> Error {
        Error { kind: self, addr, at }
    }
}
