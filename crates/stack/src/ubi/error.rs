//! Errors of UBI.

use crate::volume::VolumeFault;
use floatgate_media::MediaError;
use floatgate_mtd::ErrorKind;

/// A failed operation on a UBI device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UbiError {
    /// Power went away, now or earlier: the object refuses everything from then on.
    #[error("power lost")]
    PowerLost,
    /// The device is read-only.
    #[error("read-only: {0}")]
    ReadOnly(ReadOnlyReason),
    /// The flash failed in a way that UBI could not work around.
    #[error("PEB {pnum}: {error}")]
    Flash {
        /// The PEB.
        pnum: u32,
        /// Error of the device below.
        error: floatgate_mtd::Error,
    },
    /// A PEB under test did not keep what was written to it.
    #[error("PEB {pnum} failed the torture test")]
    TortureFailed {
        /// The PEB.
        pnum: u32,
    },
    /// A PEB was erased as often as its erase counter can say.
    #[error("PEB {pnum}: the erase counter is at its highest value")]
    EraseCountOverflow {
        /// The PEB.
        pnum: u32,
    },
    /// A header or a table cannot be what it is.
    #[error("PEB {pnum}, {what}: {error}")]
    Media {
        /// The PEB.
        pnum: u32,
        /// Name of the structure.
        what: &'static str,
        /// Description of the fault.
        error: MediaError,
    },
    /// The flash does not fit UBI.
    #[error("{what}: {reason}")]
    Geometry {
        /// Name of the number.
        what: &'static str,
        /// Description of the fault.
        reason: floatgate_media::Reason,
    },
    /// UBI does not run on MLC NAND: a power cut would take pages that were written long ago. Use it in SLC mode.
    #[error("MLC NAND is not supported but in SLC mode")]
    Mlc,
    /// No free PEB is left, and none is waiting to be erased.
    #[error("no free PEB is left")]
    NoFreePeb,
    /// Fewer PEBs are available than asked for.
    #[error("{need} PEBs are needed, {available} are available")]
    NoSpace {
        /// PEBs asked for.
        need: u64,
        /// PEBs available.
        available: u32,
    },
    /// There is no such volume.
    #[error("there is no volume {id}")]
    NoVolume {
        /// Its id.
        id: u32,
    },
    /// A volume with this id or name exists.
    #[error("volume {id} has this id or name")]
    VolumeExists {
        /// Its id.
        id: u32,
    },
    /// Ids are below the number of slots in the volume table.
    #[error("volume id {id}: the table has {slots} slots")]
    BadVolumeId {
        /// The id.
        id: u32,
        /// Slots of the table.
        slots: u32,
    },
    /// All slots of the volume table are taken.
    #[error("all {slots} slots of the volume table are taken")]
    NoSlot {
        /// Slots of the table.
        slots: u32,
    },
    /// A volume cannot be what was asked for.
    #[error("{0}")]
    BadVolume(MediaError),
    /// A size, an offset or a combination that cannot be.
    #[error("{what}: {value}")]
    BadArgument {
        /// Description of the fault.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// A static volume is written as a whole, a dynamic one by LEB.
    #[error("volume {id} is {actual}")]
    WrongType {
        /// The volume.
        id: u32,
        /// Type of the volume: "static" or "dynamic".
        actual: &'static str,
    },
    /// An update of the volume was cut off, its data are not whole.
    #[error("an update of volume {id} was not finished")]
    UpdateMarker {
        /// The volume.
        id: u32,
    },
    /// LEBs of a static volume are missing or fail their CRC.
    #[error("volume {id}, LEB {lnum}: the data are damaged")]
    Damaged {
        /// The volume.
        id: u32,
        /// The LEB.
        lnum: u32,
    },
    /// Fewer or more bytes came than announced.
    #[error("{announced} bytes were announced, {written} came")]
    UpdateLength {
        /// Bytes announced.
        announced: u64,
        /// Bytes that came.
        written: u64,
    },
    /// A LEB was not given what it needs.
    #[error("LEB access: {0}")]
    Access(VolumeFault),
    /// A fastmap and the flash contradict each other.
    #[error("PEB {pnum} does not hold LEB {lnum} of volume {id} as the fastmap says")]
    FastmapLies {
        /// The PEB.
        pnum: u32,
        /// The volume.
        id: u32,
        /// The LEB.
        lnum: u32,
    },
}

/// Reason for which a device is read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReadOnlyReason {
    /// It was attached so.
    #[error("it was attached so")]
    Requested,
    /// EC and VID header share a unit that can be written once.
    #[error("both headers of a PEB share a page")]
    HeadersShareUnit,
    /// An internal volume that this code does not know asks for it.
    #[error("internal volume {0:#x} asks for it")]
    InternalVolume(u32),
    /// A failure that could not be worked around, so that nothing is made worse.
    #[error("a failure could not be worked around")]
    Failure,
}

impl UbiError {
    /// True when the flash, not the request, failed, so that another PEB may do better (Linux: -EIO).
    pub(super) const fn is_flash_failure(&self) -> bool {
        match self {
            Self::TortureFailed { .. } => true,
            Self::Flash { error, .. } => matches!(
                error.kind,
                ErrorKind::ProgramFailed
                    | ErrorKind::EraseFailed
                    | ErrorKind::NotErased
                    | ErrorKind::BadBlock
                    | ErrorKind::Refused(_)
            ),
            _ => false,
        }
    }
}

impl From<UbiError> for VolumeFault {
    fn from(error: UbiError) -> Self {
        match error {
            UbiError::PowerLost => Self::PowerLost,
            UbiError::ReadOnly(_) | UbiError::WrongType { .. } => Self::ReadOnly,
            UbiError::NoFreePeb | UbiError::NoSpace { .. } => Self::NoSpace,
            UbiError::UpdateMarker { .. } => Self::UpdateMarker,
            UbiError::Damaged { .. } => Self::Uncorrectable,
            UbiError::Access(fault) => fault,
            UbiError::Flash { error, .. } => Self::Flash(error),
            other => Self::Host(other.to_string()),
        }
    }
}

/// A device that could not be attached, with the flash it is on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct AttachError<M> {
    /// Reason of the failure.
    pub fault: AttachFault,
    /// The flash, handed back.
    pub mtd: M,
    /// Time at which the attempt ended.
    pub now: floatgate_mtd::Instant,
}

/// Reason for which a device could not be attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachFault {
    /// An operation failed, or a header is whole but impossible.
    #[error("{0}")]
    Ubi(#[from] UbiError),
    /// Nothing was ever written: a device that may be written would be made an empty UBI device.
    #[error("the flash is empty")]
    Empty,
    /// The flash holds something, and it is not UBI.
    #[error("no UBI headers: {unreadable} PEBs hold something else")]
    NotUbi {
        /// PEBs that hold no headers.
        unreadable: u32,
    },
    /// More PEBs are corrupted than power cuts explain.
    #[error("{count} PEBs are corrupted, fewer than {max} would be accepted")]
    TooManyCorrupted {
        /// Corrupted PEBs.
        count: u32,
        /// Number from which a device is refused.
        max: u32,
    },
    /// PEBs of two images are mixed: one of them was not erased, or not written to the end.
    #[error(
        "PEB {pnum} has image sequence number {found}, those before it {expected}: Linux refuses PEBs of two images (-EINVAL); flash with ubiformat, or erase the flash first"
    )]
    ImageSeq {
        /// The PEB.
        pnum: u32,
        /// Its number.
        found: u32,
        /// The number of those before.
        expected: u32,
    },
    /// An internal volume that this code does not know forbids it.
    #[error("internal volume {id:#x} on PEB {pnum} is unknown and forbids attaching")]
    UnknownInternalVolume {
        /// The volume.
        id: u32,
        /// PEB in which it was found.
        pnum: u32,
    },
    /// Two PEBs claim one LEB with one sequence number.
    #[error("PEBs {first} and {second} claim LEB {lnum} of volume {id} with one sequence number")]
    SameSequence {
        /// One PEB.
        first: u32,
        /// The other.
        second: u32,
        /// The volume.
        id: u32,
        /// The LEB.
        lnum: u32,
    },
    /// The VID headers of a volume contradict each other or the volume table.
    #[error("PEB {pnum}: the {field} of volume {id} contradicts that of others")]
    Inconsistent {
        /// The PEB.
        pnum: u32,
        /// The volume.
        id: u32,
        /// Name of the field.
        field: &'static str,
    },
    /// A PEB holds something, and its headers do not tell what.
    #[error("PEB {pnum}: the VID header is damaged: what the PEB holds cannot be told")]
    DamagedHeaders {
        /// The PEB.
        pnum: u32,
    },
    /// A record of the volume table is damaged in both copies; what the volume is was taken from its LEBs.
    #[error("volume {id}: its record is damaged, its name and size are lost")]
    LostRecord {
        /// The volume.
        id: u32,
    },
    /// There is no layout volume.
    #[error("there is no volume table")]
    NoVolumeTable,
    /// Neither copy of the volume table is good.
    #[error("the volume table is damaged: {0}")]
    VolumeTable(MediaError),
    /// Two volumes want all the space left.
    #[error("volumes {first} and {second} both want to grow to all free PEBs")]
    TwoAutoresize {
        /// One volume.
        first: u32,
        /// The other.
        second: u32,
    },
}

impl AttachFault {
    /// True when neither copy of the volume table is good.
    #[must_use]
    pub const fn is_of_table(&self) -> bool {
        matches!(self, Self::VolumeTable(_) | Self::NoVolumeTable)
    }
}
