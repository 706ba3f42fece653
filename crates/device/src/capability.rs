//! Capabilities beyond [`Mtd`](floatgate_mtd::Mtd) that only some devices have: OTP areas, and reads during a write. A
//! [`Device`](crate::wire::Device) returns the capabilities that it has.

use floatgate_mtd::{Done, Error, ErrorKind, Instant};

/// The two one-time-programmable areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OtpArea {
    /// Area programmed by the maker, read-only: unique id, parameter page.
    Factory,
    /// Area for the user, which is written once and then locked.
    User,
}

/// A region of an OTP area that can be locked separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtpRegion {
    /// Offset in the OTP area, bytes.
    pub start: u64,
    /// Length of the region, bytes.
    pub len: u64,
    /// True if the region is locked against writes.
    pub locked: bool,
}

/// One-time-programmable areas of a chip, separate from its array. Addresses are relative to the start of an area.
pub trait Otp {
    /// Number of regions in an OTP area; 0 if the chip does not have the area.
    fn otp_regions(&self, area: OtpArea) -> usize;

    /// Describes region `index` of an OTP area. The lock state is read from the chip.
    ///
    /// # Errors
    /// `Unsupported` if the region does not exist.
    fn otp_info(&mut self, now: Instant, area: OtpArea, index: usize) -> Result<(OtpRegion, Instant), Error>;

    /// Reads from an OTP area.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfRange`.
    fn otp_read(&mut self, now: Instant, area: OtpArea, addr: u64, buf: &mut [u8]) -> Result<Done, Error>;

    /// Writes to the user OTP area.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfRange`, `WriteProtected` if locked, `NotErased` if written before.
    fn otp_write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error>;

    /// Erases user OTP regions, if the chip supports it and they are not locked.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfRange`, `WriteProtected` if locked.
    fn otp_erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let _ = len;
        Err(NO_OTP.at(addr, now))
    }

    /// Locks user OTP regions permanently.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfRange`.
    fn otp_lock(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error>;
}

pub(crate) const NO_OTP: ErrorKind = ErrorKind::Unsupported("this device has no such OTP area");

/// Reads that start during a write: in another bank, or because the chip suspends the program.
pub trait ReadWhileWrite {
    /// Executes a write and a read of two threads that start at the same time. Returns the results of both.
    ///
    /// # Errors
    /// The errors of [`Mtd::write`](floatgate_mtd::Mtd::write) and [`Mtd::read`](floatgate_mtd::Mtd::read); the first failure
    /// is returned.
    fn read_while_write(
        &mut self,
        now: Instant,
        write: (u64, &[u8]),
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error>;
}
