//! The verdict on a PEB: its headers, and the fate of the LEB that they claim.

use floatgate_media::MediaError;
use floatgate_media::ubi::{EcHeader, VidHeader};

/// Bytes at the place of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderState<T> {
    /// A header that Linux takes.
    Good(T),
    /// Ones only: no header was written.
    Erased,
    /// Something else, or a header with impossible values.
    Damaged(MediaError),
    /// Not judged: the block is marked bad.
    BadBlock,
}

/// A VID header that cannot be read, as it most likely was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuessedVid {
    /// The header.
    pub header: VidHeader,
    /// One byte was wrong, and the CRC tells which; otherwise the fields are taken as they are.
    pub by_crc: bool,
}

/// Outcome for a PEB that claims a LEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Claim {
    /// It claims none that a volume could have.
    #[default]
    None,
    /// It holds the LEB.
    Current,
    /// A newer PEB holds the LEB.
    Older,
    /// It is a copy of the LEB that was cut off.
    CutOff,
    /// The volume table does not have the volume.
    Removed,
    /// It contradicts the volume's record.
    Misfit,
    /// It is older and has the sequence number of another PEB that claims the LEB.
    Twin,
}

/// Verdict on a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PebVerdict {
    /// Erase counter header.
    pub ec: HeaderState<EcHeader>,
    /// Volume identifier header.
    pub vid: HeaderState<VidHeader>,
    /// A damaged VID header as it most likely was; a good one in a bad block.
    pub guess: Option<GuessedVid>,
    /// Something is written behind the headers. It is looked at only where a header is damaged.
    pub has_data: bool,
    /// Outcome for the LEB that the VID header claims.
    pub claim: Claim,
}

impl PebVerdict {
    /// True when the PEB holds data, and its LEB cannot be told.
    pub(super) const fn is_nameless(&self) -> bool {
        self.has_data && self.guess.is_none() && matches!(self.vid, HeaderState::Damaged(_))
    }
}
