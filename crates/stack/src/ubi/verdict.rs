//! Verdict on a PEB: its headers, and the outcome for the LEB that they claim.

use floatgate_media::ubi::{
    EcHeader, FASTMAP_DATA_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, LAYOUT_VOLUME, ReadFlips, VERSION, VID_MAGIC,
    VidHeader,
};
use floatgate_media::{MediaError, crc};

/// Size of a header, B.
pub(super) const HEADER: usize = 64;

/// State of the bytes at the position of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderState<T> {
    /// A header that Linux accepts.
    Good(T),
    /// All ones: no header was written.
    Erased,
    /// Other data, or a header with invalid values.
    Damaged(MediaError),
    /// Not evaluated, because the block is marked bad.
    BadBlock,
}

/// Guessed contents of a damaged VID header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuessedVid {
    /// Guessed header.
    pub header: VidHeader,
    /// True if its CRC corrected one wrong byte; otherwise the fields are used as they are.
    pub by_crc: bool,
}

impl GuessedVid {
    /// Contents of a damaged VID header, guessed: corrects one wrong byte by its CRC; otherwise uses its fields if they
    /// are possible.
    pub(super) fn of(bytes: [u8; HEADER]) -> Option<Self> {
        let known = [LAYOUT_VOLUME, FASTMAP_SUPERBLOCK_VOLUME, FASTMAP_DATA_VOLUME];
        let is_possible = |header: &VidHeader| !header.is_internal() || known.contains(&header.volume_id);
        let parse = |bytes: &[u8]| VidHeader::parse(bytes, ReadFlips::default()).ok();
        for at in 0..HEADER {
            let mut tried = bytes;
            for value in 0..=u8::MAX {
                tried[at] = value;
                if let Some(header) = parse(&tried) {
                    return Some(Self { header, by_crc: true }).filter(|_| is_possible(&header));
                }
            }
        }
        let mut tried = bytes;
        tried[..4].copy_from_slice(&VID_MAGIC);
        tried[4] = VERSION;
        let sum = crc::ubi(&tried[..HEADER - 4]);
        tried[HEADER - 4..].copy_from_slice(&sum.to_be_bytes());
        let header = parse(&tried).filter(|header| is_possible(header) && header.sqnum > 0)?;
        Some(Self { header, by_crc: false })
    }
}

/// Outcome for a PEB that claims a LEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Claim {
    /// The PEB claims no valid LEB.
    #[default]
    None,
    /// The PEB holds the LEB.
    Current,
    /// A newer PEB holds the LEB.
    Older,
    /// The PEB is an incomplete copy of the LEB.
    CutOff,
    /// The volume table does not contain the volume.
    Removed,
    /// The PEB's VID header contradicts the volume's record.
    Misfit,
    /// The PEB is older than another PEB of the LEB, and has the same sequence number.
    Twin,
}

/// Verdict on a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PebVerdict {
    /// Erase counter header.
    pub ec: HeaderState<EcHeader>,
    /// Volume identifier header.
    pub vid: HeaderState<VidHeader>,
    /// Guess for a damaged VID header; the header itself in a bad block.
    pub guess: Option<GuessedVid>,
    /// True if data follows the headers. Only set if a header is damaged.
    pub has_data: bool,
    /// Outcome for the LEB in the VID header.
    pub claim: Claim,
}

impl PebVerdict {
    /// True if the PEB holds data of an unknown LEB.
    pub(super) const fn is_nameless(&self) -> bool {
        self.has_data && self.guess.is_none() && matches!(self.vid, HeaderState::Damaged(_))
    }
}
