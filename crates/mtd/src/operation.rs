//! The kinds of operation of an [`crate::Mtd`], for wrappers that record or count them.

use core::fmt;

/// Kind of operation on a device: one for each method of [`crate::Mtd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// [`crate::Mtd::read`]
    Read,
    /// [`crate::Mtd::write`]
    Write,
    /// [`crate::Mtd::erase`]
    Erase,
    /// [`crate::Mtd::read_oob`]
    ReadOob,
    /// [`crate::Mtd::write_oob`]
    WriteOob,
    /// [`crate::Mtd::is_bad`]
    IsBad,
    /// [`crate::Mtd::mark_bad`]
    MarkBad,
    /// [`crate::Mtd::otp_info`]
    OtpInfo,
    /// [`crate::Mtd::otp_read`]
    OtpRead,
    /// [`crate::Mtd::otp_write`]
    OtpWrite,
    /// [`crate::Mtd::otp_erase`]
    OtpErase,
    /// [`crate::Mtd::otp_lock`]
    OtpLock,
}

impl Operation {
    /// All kinds of operation, in printing order.
    pub const ALL: [Self; 12] = [
        Self::Read,
        Self::Write,
        Self::Erase,
        Self::ReadOob,
        Self::WriteOob,
        Self::IsBad,
        Self::MarkBad,
        Self::OtpInfo,
        Self::OtpRead,
        Self::OtpWrite,
        Self::OtpErase,
        Self::OtpLock,
    ];

    /// The name used in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Erase => "erase",
            Self::ReadOob => "read-oob",
            Self::WriteOob => "write-oob",
            Self::IsBad => "is-bad",
            Self::MarkBad => "mark-bad",
            Self::OtpInfo => "otp-info",
            Self::OtpRead => "otp-read",
            Self::OtpWrite => "otp-write",
            Self::OtpErase => "otp-erase",
            Self::OtpLock => "otp-lock",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
