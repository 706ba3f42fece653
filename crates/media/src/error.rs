//! Errors of parsers and emitters, with the byte offset of the fault.

use core::fmt;

use thiserror::Error;

/// Parts of field names. Values of fields with such a name are shown in hexadecimal: bytes of a structure or a LEB, and bit sets.
/// Counts, sizes and numbers are shown in decimal.
const HEXADECIMAL: [&str; 8] =
    ["offset", "end of the node", "pointer", "save table", "flags", "reserved bits", "mode", "CRC"];

/// A format that cannot be read or written, with the offset of the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("byte {offset:#x}: {reason}")]
pub struct MediaError {
    /// Byte offset into the slice the caller passed.
    pub offset: usize,
    /// Cause of the error.
    pub reason: Reason,
}

/// Cause of a [`MediaError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The slice to read ends before the structure does.
    #[error("truncated: {need} bytes needed, {have} present")]
    Truncated {
        /// Size of the structure, bytes.
        need: usize,
        /// Number of bytes available from the start of the structure.
        have: usize,
    },
    /// The slice to write into is shorter than the structure.
    #[error("no room: {need} bytes needed, {have} available")]
    NoRoom {
        /// Size of the structure, bytes.
        need: usize,
        /// Length of the slice.
        have: usize,
    },
    /// The structure does not begin with its signature.
    #[error("bad signature: \"{expected}\" expected")]
    BadSignature {
        /// Signature that the format requires here.
        expected: &'static str,
    },
    /// The stored checksum does not match the bytes.
    #[error("bad CRC: {stored:#06x} stored, {computed:#06x} computed")]
    BadCrc {
        /// Checksum on the media.
        stored: u16,
        /// Checksum of the bytes on the media.
        computed: u16,
    },
    /// The structure does not begin with its magic number.
    #[error("bad {what} magic: {found:#010x} found, {expected:#010x} expected")]
    BadMagic {
        /// Name of the structure.
        what: &'static str,
        /// Magic number that the format requires.
        expected: u32,
        /// Magic number on the media.
        found: u32,
    },
    /// The stored 32-bit checksum does not match the bytes.
    #[error("bad {what} CRC: {stored:#010x} stored, {computed:#010x} computed")]
    BadCrc32 {
        /// Name of the structure.
        what: &'static str,
        /// Checksum on the media.
        stored: u32,
        /// Checksum of the bytes on the media.
        computed: u32,
    },
    /// Erased: every bit is one.
    #[error("nothing is written there")]
    Erased,
    /// Erased, but some bits flipped since.
    #[error("erased, with {bits} bitflips")]
    ErasedBitflips {
        /// Number of flipped bits, including those that ECC corrected.
        bits: u32,
    },
    /// A field has a value that the format does not define.
    #[error("{field} out of range: {}", Shown { field, value: *value })]
    OutOfRange {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
    },
    /// A volume has more PEBs than the device has good PEBs.
    #[error("reserved PEBs out of range: {reserved}")]
    TooFewPebs {
        /// Number of PEBs reserved for the volume.
        reserved: u32,
    },
    /// A table whose major version has an unknown layout.
    #[error("unsupported {what} version {major}.{minor}")]
    UnsupportedVersion {
        /// Name of the table.
        what: &'static str,
        /// Major version of the table.
        major: u8,
        /// Minor version of the table.
        minor: u8,
    },
    /// A format version that this crate does not support.
    #[error("unsupported {what} version {found}: {known} is the newest known")]
    WrongVersion {
        /// Name of the structure.
        what: &'static str,
        /// Format version on the media.
        found: u32,
        /// Newest format version that this crate supports.
        known: u32,
    },
    /// A code that no table of this crate lists.
    #[error("unknown {what} {code:#04x}")]
    UnknownCode {
        /// Kind of the code.
        what: &'static str,
        /// The unknown code.
        code: u32,
    },
    /// More entries than this crate can store.
    #[error("too many {what}: at most {max} are kept")]
    TooMany {
        /// Kind of the entries.
        what: &'static str,
        /// Maximum number of entries.
        max: usize,
    },
    /// A part the format requires is missing.
    #[error("{what} missing")]
    Missing {
        /// Name of the missing part.
        what: &'static str,
    },
    /// Two parts of the value contradict one another.
    #[error("{what}")]
    Inconsistent {
        /// Description of the contradiction.
        what: &'static str,
    },
}

/// Value of a field for display, in hexadecimal or decimal.
struct Shown<'a> {
    field: &'a str,
    value: u64,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value } = self;
        if HEXADECIMAL.iter().any(|part| field.contains(part)) {
            write!(f, "{value:#x}")
        } else {
            write!(f, "{value}")
        }
    }
}

impl Reason {
    /// Error with this reason at `offset`.
    #[must_use]
    pub const fn at(self, offset: usize) -> MediaError {
        MediaError { offset, reason: self }
    }
}

impl MediaError {
    /// The same error in a slice that begins `base` bytes earlier.
    #[must_use]
    pub const fn shifted(self, base: usize) -> Self {
        Self { offset: self.offset.saturating_add(base), reason: self.reason }
    }
}

/// `Ok` if `good`, else an error for the impossible `value` of `field` at byte `at`.
pub(crate) fn require(
    good: bool,
    at: usize,
    field: &'static str,
    value: impl Into<u64>,
) -> Result<(), MediaError> {
    if good {
        return Ok(());
    }
    Err(Reason::OutOfRange { field, value: value.into() }.at(at))
}
