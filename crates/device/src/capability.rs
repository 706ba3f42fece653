//! Capabilities that only some devices have beside [`Mtd`](floatgate_mtd::Mtd): OTP areas, and reads while they write.
//! A [`Device`](crate::wire::Device) returns those that it has.

use floatgate_mtd::{Done, Error, ErrorKind, Instant};

/// The two one-time-programmable areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OtpArea {
    /// Written by the maker: unique id, parameter page. Read-only.
    Factory,
    /// For the user: written once, then locked.
    User,
}

/// One separately lockable region of an OTP area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtpRegion {
    /// Offset in the area, in bytes.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// No more writes.
    pub locked: bool,
}

/// One-time-programmable areas of a chip, beside its array. Addresses count from the start of an area.
pub trait Otp {
    /// Number of regions in an OTP area, 0 when the chip has none.
    fn otp_regions(&self, area: OtpArea) -> usize;

    /// Describes region `index` of an OTP area, its lock read from the chip.
    ///
    /// # Errors
    /// `Unsupported` where there is no such region.
    fn otp_info(&mut self, now: Instant, area: OtpArea, index: usize) -> Result<(OtpRegion, Instant), Error>;

    /// Reads from an OTP area.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfRange`.
    fn otp_read(&mut self, now: Instant, area: OtpArea, addr: u64, buf: &mut [u8]) -> Result<Done, Error>;

    /// Writes to the user OTP area.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfRange`, `WriteProtected` when locked, `NotErased` when written before.
    fn otp_write(&mut self, now: Instant, addr: u64, data: &[u8]) -> Result<Done, Error>;

    /// Erases user OTP regions, where the chip allows it and they are not locked.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfRange`, `WriteProtected` when locked.
    fn otp_erase(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error> {
        let _ = len;
        Err(NO_OTP.at(addr, now))
    }

    /// Locks user OTP regions for good.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfRange`.
    fn otp_lock(&mut self, now: Instant, addr: u64, len: u64) -> Result<Done, Error>;
}

pub(crate) const NO_OTP: ErrorKind = ErrorKind::Unsupported("this device has no such OTP area");

/// Reads that begin while a write is under way: in another bank, or because the chip suspends the program for them.
pub trait ReadWhileWrite {
    /// Two threads at once: one writes, the other starts to read at the same moment. Returns when each was done.
    ///
    /// # Errors
    /// As [`Mtd::write`](floatgate_mtd::Mtd::write) and [`Mtd::read`](floatgate_mtd::Mtd::read); the first failure is returned.
    fn read_while_write(
        &mut self,
        now: Instant,
        write: (u64, &[u8]),
        read: (u64, &mut [u8]),
    ) -> Result<(Done, Done), Error>;
}
