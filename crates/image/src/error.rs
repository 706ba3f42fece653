//! Errors of images.

use floatgate_stack::{StoreError, fs, jffs2, ubi, ubifs};

use crate::ecc::EccError;
use crate::format::magic::OtherFormat;
use crate::pages::PageShape;
use crate::part::Part;
use crate::words::count;
use floatgate_host::LockError;
use floatgate_host::output::OutputError;

/// Reason why an operation on an image failed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be opened.
    #[error("{0}")]
    File(std::io::Error),
    /// The file cannot be read or written.
    #[error(transparent)]
    Store(StoreError),
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The image was being changed when writing failed.
    #[error("writing failed in the middle of the change, so the image is as after a power cut: {0}")]
    Interrupted(Box<ImageError>),
    /// The host has no space for the changed image.
    #[error("there is no room on the host's disk for the change: {0}")]
    HostFull(std::io::Error),
    /// The writer of the output failed.
    #[error("the output: {0}")]
    Write(std::io::Error),
    /// The file contains no known format.
    #[error("neither UBI, UBIFS, JFFS2 nor another known filesystem was found")]
    Nothing,
    /// The pages of a dump with OOB contain no known format.
    #[error("no filesystem was found in pages of {} + {} bytes, {} a block", .0.page_bytes, .0.oob_bytes, .0.pages_per_block)]
    NothingInPages(PageShape),
    /// The file has no bytes.
    #[error("the file is empty")]
    Empty,
    /// The file has too few bytes for an image.
    #[error("the file has {}, fewer than any image", count(*.0, "byte"))]
    TooShort(u64),
    /// All bytes are the same.
    #[error("every byte of the file is {0:#04x}")]
    Blank(u8),
    /// A structure was found that cannot belong to an image.
    #[error("at byte {offset} ({offset:#x}) {what} begins, but no image can be made out: {why}")]
    Impossible {
        /// Name of the structure.
        what: &'static str,
        /// Offset in the file.
        offset: u64,
        /// Reason why it cannot belong to an image.
        why: String,
    },
    /// The file contains several images: their kinds, offsets and sizes.
    #[error("the file holds {}: {}", count(.0.len() as u64, "image"), .0.join("; "))]
    Several(Vec<String>),
    /// No image begins at this offset.
    #[error("no image begins at byte {0}")]
    NotThere(u64),
    /// The UBI device is damaged.
    #[error("UBI: {0}")]
    Attach(ubi::AttachFault),
    /// A UBI operation failed.
    #[error("UBI: {0}")]
    Ubi(#[from] ubi::UbiError),
    /// The requested volume does not exist.
    #[error("there is no volume {wanted:?}: {}", match .names.as_slice() {
        [] => "the image has no volumes".to_owned(),
        names => format!("there are {}", names.join(", ")),
    })]
    NoVolume {
        /// Name of the requested volume.
        wanted: String,
        /// Names of the existing volumes.
        names: Vec<String>,
    },
    /// The device has several volumes, and none was selected.
    #[error("there are several volumes: {}", .0.join(", "))]
    ChooseVolume(Vec<String>),
    /// The device has no volume.
    #[error("the UBI device has no volume")]
    NoVolumes,
    /// None of the selected volumes contains a UBIFS: their names and contents.
    #[error("{}", no_filesystem(.0))]
    NoFilesystem(Vec<(String, &'static str)>),
    /// The file has another format.
    #[error("neither UBI, UBIFS nor JFFS2 was found: the file begins with {0}")]
    OtherFormat(OtherFormat),
    /// The file contains other formats: their offsets and names.
    #[error("neither UBI, UBIFS nor JFFS2 was found, but {}", places(.0))]
    OtherFormats(Vec<(u64, OtherFormat)>),
    /// The bytes of an image are swapped.
    #[error("{what} begins at byte {offset}, but the bytes of each group of {group} are in reverse order")]
    Swapped {
        /// Size of a swapped group, bytes: 2 or 4.
        group: usize,
        /// Format of the image.
        what: &'static str,
        /// Offset in the file.
        offset: u64,
    },
    /// The JFFS2 cannot be mounted.
    #[error("JFFS2: {0}")]
    Jffs2(jffs2::MountError),
    /// A JFFS2 without free eraseblocks.
    #[error(
        "JFFS2 changes nothing without free eraseblocks: the image has {have}, and {} are needed", count(u64::from(*.need), "eraseblock")
    )]
    NoEraseblocks {
        /// Number of free eraseblocks.
        have: u32,
        /// Required number of free eraseblocks.
        need: u32,
    },
    /// Data other than erased flash follows the last node of a JFFS2.
    #[error(
        "at byte {offset:#x}, behind the last node of the JFFS2, there is something else than erased flash: what a power cut left, damage, or other data"
    )]
    Jffs2Tail {
        /// Offset in the file.
        offset: u64,
        /// Range of the image without this data.
        own: Part,
        /// True if erased flash follows this data, or the file ends.
        can_grow: bool,
        /// Number of eraseblocks up to the end of the file, if no other image follows.
        over: Option<u32>,
    },
    /// Files of a JFFS2 have lost their names, and a change would remove them.
    #[error(
        "the JFFS2 is damaged: a change would remove {} without a name of its own, which `floatgate image ls` shows as lost-N", count(*.0 as u64, "entry")
    )]
    Nameless(usize),
    /// The operation is possible only with UBI and UBIFS.
    #[error("the image is a JFFS2, and {0} is there for UBI and UBIFS only")]
    NotForJffs2(LebsOnly),
    /// The operation is possible only with JFFS2.
    #[error("the image is no JFFS2, and {0} is there for JFFS2 only")]
    NotJffs2(&'static str),
    /// The operation is impossible with a filesystem that floatgate can only read.
    #[error("the image is {kind}, {lack}")]
    OnlyRead {
        /// Name of the format.
        kind: &'static str,
        /// The impossible operation.
        lack: TreeLack,
    },
    /// The UBIFS is damaged.
    #[error("UBIFS: {0}")]
    Ubifs(#[from] ubifs::Error),
    /// An operation of the mounted filesystem failed.
    #[error(transparent)]
    Filesystem(#[from] fs::Error),
    /// The dump cannot be corrected.
    #[error(transparent)]
    Ecc(#[from] EccError),
    /// No node exists at the requested position.
    #[error("{0}")]
    NoNode(String),
    /// A point in time without remaining nodes.
    #[error("{0}")]
    NoMoment(String),
    /// A point in time before all nodes of a JFFS2.
    #[error("no node that is still on the flash is as old as that")]
    NothingThatOld,
    /// A point in time in the form of another filesystem.
    #[error("a moment of {0} is {1}, or a time")]
    WrongMoment(&'static str, &'static str),
    /// An earlier point in time in combination with authentication.
    #[error("nothing vouches for an earlier moment of a filesystem")]
    PastUnauthentic,
    /// Parts of the image are missing.
    #[error("the image is cut off: {0}")]
    Truncated(String),
    /// The UBI device needs more of the file than is available.
    #[error(
        "the device needs {}, but at byte {offset:#x} of the file there is something else", count(*.pebs, "more eraseblock")
    )]
    Occupied {
        /// Number of missing eraseblocks.
        pebs: u64,
        /// Offset at or shortly before the following data.
        offset: u64,
    },
    /// Bytes of a JFFS2 are missing in the file, or were inserted: their positions and number.
    #[error("the image cannot be changed: {0}")]
    Shifted(String),
    /// Another program is changing the file.
    #[error("the file is mounted or being changed by somebody else")]
    Locked,
    /// The check of a repaired image found damage.
    #[error("what can be saved of the image makes no clean image")]
    NotRepaired,
    /// A repair must write new nodes, but other data follows the image in its file.
    #[error(
        "the image has no room for the nodes that its repair needs, and something else follows it in the file"
    )]
    NoRepairRoom(Part),
    /// The nodes of a JFFS2 that is to be changed do not imply the size of its eraseblocks.
    #[error(
        "nothing in the image tells the size of its eraseblocks, to which a change has to keep: {guess} bytes are a guess"
    )]
    GuessedEraseblocks {
        /// Assumed size of an eraseblock for reading, bytes.
        guess: u32,
        /// Sizes that no node contradicts.
        possible: Vec<u32>,
    },
    /// The size of eraseblocks cannot be determined.
    #[error("nothing tells the size of the eraseblocks")]
    UnknownEraseblocks,
    /// The stated size of eraseblocks differs from the size in the image.
    #[error("the image is not made for eraseblocks of {stated} bytes: {why}")]
    PebSize {
        /// Stated size of an eraseblock, bytes.
        stated: u64,
        /// Reason why the size is different.
        why: String,
    },
    /// Pages cannot be written without their ECC.
    #[error("the dump has OOB between its pages, and no ECC code fits it: it cannot be changed")]
    OobReadOnly,
    /// Bytes of an image are missing or were inserted, and no repair is possible: their position, or the evidence.
    #[error("no clean image comes of what is left: {0}")]
    NotRepairable(String),
    /// Pages cannot be written if their contents are unknown.
    #[error("the dump cannot be changed: {0}")]
    OobDamaged(String),
}

/// Structure that only images with LEBs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LebsOnly {
    /// A volume with a name and a size.
    #[error("a volume")]
    Volume,
    /// Reading the contents of a volume.
    #[error("what was asked for")]
    Contents,
    /// A comparison of UBI devices, LEB by LEB.
    #[error("a raw comparison of the UBI")]
    RawComparison,
    /// Nodes of a LEB.
    #[error("a LEB")]
    Leb,
    /// Nodes of an area of UBIFS.
    #[error("an area")]
    Area,
}

/// Operation that is impossible with a filesystem that floatgate can only read. A LittleFS can be changed, because the whole image is
/// written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeLack {
    /// Changes of its files.
    #[error("which is read and not changed")]
    Changes,
    /// Changes in a static volume of UBI.
    #[error("in a static volume, which is only written as a whole")]
    StaticVolume,
    /// A repair of damage.
    #[error("which is not repaired")]
    Repair,
    /// Nodes with their fields.
    #[error("which has no nodes to show")]
    Nodes,
    /// Files in an earlier state.
    #[error("of which no earlier moments are read")]
    Moments,
    /// LEBs and volumes.
    #[error("which has no LEBs")]
    Lebs,
}

impl ImageError {
    /// True if a file was read and contains no image.
    pub(crate) const fn is_of_contents(&self) -> bool {
        matches!(
            self,
            Self::Nothing
                | Self::TooShort(_)
                | Self::Blank(_)
                | Self::Impossible { .. }
                | Self::OtherFormat(_)
                | Self::OtherFormats(_)
                | Self::Swapped { .. }
        )
    }

    /// True if a larger filesystem may help: it is full, or too small for any write.
    pub(crate) fn wants_room(&self) -> bool {
        match self {
            Self::Filesystem(error) => *error == fs::Error::NoSpace,
            Self::NoEraseblocks { .. } => true,
            Self::Jffs2(error) => *error == jffs2::MountError::Recovery(fs::Error::NoSpace),
            Self::Ubifs(error) => matches!(
                error,
                ubifs::Error::NoSpace | ubifs::Error::Superblock(_) | ubifs::Error::Node { lnum: 0, .. }
            ),
            _ => false,
        }
    }
}

fn places(formats: &[(u64, OtherFormat)]) -> String {
    let place = |(at, format): &(u64, OtherFormat)| format!("{format} at byte {at} ({at:#x})");
    formats.iter().map(place).collect::<Vec<_>>().join(", ")
}

fn no_filesystem(volumes: &[(String, &'static str)]) -> String {
    let all: Vec<String> = volumes.iter().map(|(name, content)| format!("{name} ({content})")).collect();
    match all.as_slice() {
        [only] => format!("the volume holds no UBIFS: {only}"),
        all => format!("no volume holds a UBIFS: {}", all.join(", ")),
    }
}

impl From<LockError> for ImageError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::InUse => Self::Locked,
            LockError::Host(error) => Self::File(error),
        }
    }
}
