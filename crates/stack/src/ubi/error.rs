//! Errors of UBI.

use crate::volume::VolumeFault;
use floatgate_media::MediaError;
use floatgate_mtd::ErrorKind;

/// A failed operation on a UBI device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UbiError {
    /// Power was lost, now or earlier; all further operations fail.
    #[error("power lost")]
    PowerLost,
    /// The device is read-only.
    #[error("read-only: {0}")]
    ReadOnly(ReadOnlyReason),
    /// A flash failure that UBI could not work around.
    #[error("PEB {pnum}: {error}")]
    Flash {
        /// Number of the PEB.
        pnum: u32,
        /// Error of the flash.
        error: floatgate_mtd::Error,
    },
    /// A PEB under test did not keep the data written to it.
    #[error("PEB {pnum} failed the torture test")]
    TortureFailed {
        /// Number of the PEB.
        pnum: u32,
    },
    /// The erase counter of a PEB has reached its maximum.
    #[error("PEB {pnum}: the erase counter is at its highest value")]
    EraseCountOverflow {
        /// Number of the PEB.
        pnum: u32,
    },
    /// A header or table is invalid.
    #[error("PEB {pnum}, {what}: {error}")]
    Media {
        /// Number of the PEB.
        pnum: u32,
        /// Name of the structure.
        what: &'static str,
        /// Description of the fault.
        error: MediaError,
    },
    /// UBI cannot use flash of this geometry.
    #[error("{what}: {reason}")]
    Geometry {
        /// Name of the property.
        what: &'static str,
        /// Description of the fault.
        reason: floatgate_media::Reason,
    },
    /// UBI does not run on MLC NAND: a power cut would damage pages written long before. Use it in SLC mode.
    #[error("MLC NAND is not supported but in SLC mode")]
    Mlc,
    /// No PEB is free or waiting to be erased.
    #[error("no free PEB is left")]
    NoFreePeb,
    /// Fewer PEBs are available than needed.
    #[error("{need} PEBs are needed, {available} are available")]
    NoSpace {
        /// PEBs needed.
        need: u64,
        /// PEBs available.
        available: u32,
    },
    /// The volume does not exist.
    #[error("there is no volume {id}")]
    NoVolume {
        /// Volume id.
        id: u32,
    },
    /// A volume with this id or name exists.
    #[error("volume {id} has this id or name")]
    VolumeExists {
        /// Volume id.
        id: u32,
    },
    /// The volume id is not below the number of slots in the volume table.
    #[error("volume id {id}: the table has {slots} slots")]
    BadVolumeId {
        /// Volume id.
        id: u32,
        /// Number of slots in the table.
        slots: u32,
    },
    /// All slots of the volume table are used.
    #[error("all {slots} slots of the volume table are taken")]
    NoSlot {
        /// Number of slots in the table.
        slots: u32,
    },
    /// The parameters of a volume are invalid.
    #[error("{0}")]
    BadVolume(MediaError),
    /// An invalid size, offset or combination.
    #[error("{what}: {value}")]
    BadArgument {
        /// Description of the fault.
        what: &'static str,
        /// Invalid value.
        value: u64,
    },
    /// Wrong volume type: a static volume is written as a whole, a dynamic one by LEB.
    #[error("volume {id} is {actual}")]
    WrongType {
        /// Volume id.
        id: u32,
        /// Type of the volume: "static" or "dynamic".
        actual: &'static str,
    },
    /// An update of the volume was interrupted; its data is incomplete.
    #[error("an update of volume {id} was not finished")]
    UpdateMarker {
        /// Volume id.
        id: u32,
    },
    /// LEBs of a static volume are missing or fail their CRC.
    #[error("volume {id}, LEB {lnum}: the data are damaged")]
    Damaged {
        /// Volume id.
        id: u32,
        /// Number of the LEB.
        lnum: u32,
    },
    /// Fewer or more bytes were written than announced.
    #[error("{announced} bytes were announced, {written} came")]
    UpdateLength {
        /// Bytes announced.
        announced: u64,
        /// Bytes written.
        written: u64,
    },
    /// An invalid access to a LEB.
    #[error("LEB access: {0}")]
    Access(VolumeFault),
    /// A fastmap and the flash contradict each other.
    #[error("PEB {pnum} does not hold LEB {lnum} of volume {id} as the fastmap says")]
    FastmapLies {
        /// Number of the PEB.
        pnum: u32,
        /// Volume id.
        id: u32,
        /// Number of the LEB.
        lnum: u32,
    },
}

/// Reason why a device is read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReadOnlyReason {
    /// It was attached read-only.
    #[error("it was attached so")]
    Requested,
    /// EC and VID header share a write unit that can be written once.
    #[error("both headers of a PEB share a page")]
    HeadersShareUnit,
    /// An unknown internal volume requires it.
    #[error("internal volume {0:#x} asks for it")]
    InternalVolume(u32),
    /// A failure that could not be worked around; further writes could do more damage.
    #[error("a failure could not be worked around")]
    Failure,
}

impl UbiError {
    /// True if the flash failed and not the request, so that another PEB may work (Linux: -EIO).
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

/// Error of an attach, with the flash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct AttachError<M> {
    /// Reason of the failure.
    pub fault: AttachFault,
    /// Flash that could not be attached.
    pub mtd: M,
    /// Time at which the attach ended.
    pub now: floatgate_mtd::Instant,
}

/// Reason why a device could not be attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachFault {
    /// An operation failed, or a header has a good CRC but invalid values.
    #[error("{0}")]
    Ubi(#[from] UbiError),
    /// The flash was never written. A writable attach would create an empty UBI device.
    #[error("the flash is empty")]
    Empty,
    /// The flash contains data, but is not UBI.
    #[error("no UBI headers: {unreadable} PEBs hold something else")]
    NotUbi {
        /// Number of PEBs without headers.
        unreadable: u32,
    },
    /// More PEBs are corrupted than power cuts can cause.
    #[error("{count} PEBs are corrupted, fewer than {max} would be accepted")]
    TooManyCorrupted {
        /// Number of corrupted PEBs.
        count: u32,
        /// Number from which Linux refuses a device.
        max: u32,
    },
    /// PEBs of two images are mixed: one of them was not erased, or not written completely.
    #[error(
        "PEB {pnum} has image sequence number {found}, those before it {expected}: Linux refuses PEBs of two images (-EINVAL); flash with ubiformat, or erase the flash first"
    )]
    ImageSeq {
        /// Number of the PEB.
        pnum: u32,
        /// Its image sequence number.
        found: u32,
        /// Image sequence number of the previous PEBs.
        expected: u32,
    },
    /// An unknown internal volume forbids attaching.
    #[error("internal volume {id:#x} on PEB {pnum} is unknown and forbids attaching")]
    UnknownInternalVolume {
        /// Volume id.
        id: u32,
        /// PEB that belongs to it.
        pnum: u32,
    },
    /// Two PEBs claim the same LEB with the same sequence number.
    #[error("PEBs {first} and {second} claim LEB {lnum} of volume {id} with one sequence number")]
    SameSequence {
        /// Number of one PEB.
        first: u32,
        /// Number of the other.
        second: u32,
        /// Volume id.
        id: u32,
        /// Number of the LEB.
        lnum: u32,
    },
    /// The VID headers of a volume contradict each other or the volume table.
    #[error("PEB {pnum}: the {field} of volume {id} contradicts that of others")]
    Inconsistent {
        /// Number of the PEB.
        pnum: u32,
        /// Volume id.
        id: u32,
        /// Name of the field.
        field: &'static str,
    },
    /// A PEB contains data, but its headers are damaged.
    #[error("PEB {pnum}: the VID header is damaged: what the PEB holds cannot be told")]
    DamagedHeaders {
        /// Number of the PEB.
        pnum: u32,
    },
    /// A volume record is damaged in both copies of the table; the volume is reconstructed from its LEBs.
    #[error("volume {id}: its record is damaged, its name and size are lost")]
    LostRecord {
        /// Volume id.
        id: u32,
    },
    /// The layout volume is missing.
    #[error("there is no volume table")]
    NoVolumeTable,
    /// Neither copy of the volume table is good.
    #[error("the volume table is damaged: {0}")]
    VolumeTable(MediaError),
    /// Two volumes are marked for auto-resize.
    #[error("volumes {first} and {second} both want to grow to all free PEBs")]
    TwoAutoresize {
        /// Id of one volume.
        first: u32,
        /// Id of the other.
        second: u32,
    },
}

impl AttachFault {
    /// True if neither copy of the volume table is good.
    #[must_use]
    pub const fn is_of_table(&self) -> bool {
        matches!(self, Self::VolumeTable(_) | Self::NoVolumeTable)
    }
}
