//! Why an image cannot be worked with.

use floatgate_stack::{StoreError, fs, jffs2, ubi, ubifs};

use crate::ecc::EccError;
use crate::format::magic::OtherFormat;
use crate::pages::PageShape;
use crate::part::Part;
use crate::words::count;
use floatgate_host::LockError;
use floatgate_host::output::OutputError;

/// Reason for which an image cannot be worked with.
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
    /// The host has no room for what an image becomes.
    #[error("there is no room on the host's disk for the change: {0}")]
    HostFull(std::io::Error),
    /// The writer that gets the output fails.
    #[error("the output: {0}")]
    Write(std::io::Error),
    /// Nothing that is known was found.
    #[error("neither UBI, UBIFS, JFFS2 nor another known filesystem was found")]
    Nothing,
    /// Nothing that is known was found in the pages of a dump with OOB.
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
    /// Something begins that makes no image.
    #[error("at byte {offset} ({offset:#x}) {what} begins, but no image can be made out: {why}")]
    Impossible {
        /// Name of the structure.
        what: &'static str,
        /// Byte in the file.
        offset: u64,
        /// Reason why it makes no image.
        why: String,
    },
    /// There are several images in the file: their kinds, offsets and sizes.
    #[error("the file holds {}: {}", count(.0.len() as u64, "image"), .0.join("; "))]
    Several(Vec<String>),
    /// No image begins there.
    #[error("no image begins at byte {0}")]
    NotThere(u64),
    /// The device is not as it should be.
    #[error("UBI: {0}")]
    Attach(ubi::AttachFault),
    /// A UBI operation failed.
    #[error("UBI: {0}")]
    Ubi(#[from] ubi::UbiError),
    /// There is no such volume.
    #[error("there is no volume {wanted:?}: {}", match .names.as_slice() {
        [] => "the image has no volumes".to_owned(),
        names => format!("there are {}", names.join(", ")),
    })]
    NoVolume {
        /// The volume asked for.
        wanted: String,
        /// Those there are.
        names: Vec<String>,
    },
    /// There are several volumes, and none was chosen.
    #[error("there are several volumes: {}", .0.join(", "))]
    ChooseVolume(Vec<String>),
    /// The device has no volume.
    #[error("the UBI device has no volume")]
    NoVolumes,
    /// No volume that is meant has a UBIFS: their names, and what is in them.
    #[error("{}", no_filesystem(.0))]
    NoFilesystem(Vec<(String, &'static str)>),
    /// The file is of another format.
    #[error("neither UBI, UBIFS nor JFFS2 was found: the file begins with {0}")]
    OtherFormat(OtherFormat),
    /// Other formats are in the file, with their places.
    #[error("neither UBI, UBIFS nor JFFS2 was found, but {}", places(.0))]
    OtherFormats(Vec<(u64, OtherFormat)>),
    /// The bytes of an image are in another order.
    #[error("{what} begins at byte {offset}, but the bytes of each group of {group} are in reverse order")]
    Swapped {
        /// Bytes of a group: 2 or 4.
        group: usize,
        /// Format of the image.
        what: &'static str,
        /// Byte in the file.
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
        /// Eraseblocks that are free.
        have: u32,
        /// Those that there must be.
        need: u32,
    },
    /// Behind the last node of a JFFS2 there is something else than erased flash.
    #[error(
        "at byte {offset:#x}, behind the last node of the JFFS2, there is something else than erased flash: what a power cut left, damage, or other data"
    )]
    Jffs2Tail {
        /// Byte in the file.
        offset: u64,
        /// The image without that.
        own: Part,
        /// Erased flash follows behind that, or the file ends.
        can_grow: bool,
        /// Eraseblocks up to the end of the file, if no other image is there.
        over: Option<u32>,
    },
    /// Files of a JFFS2 have lost their names, and a change would remove them.
    #[error(
        "the JFFS2 is damaged: a change would remove {} without a name of its own, which `floatgate image ls` shows as lost-N", count(*.0 as u64, "entry")
    )]
    Nameless(usize),
    /// Something that is done with UBI and UBIFS only.
    #[error("the image is a JFFS2, and {0} is there for UBI and UBIFS only")]
    NotForJffs2(LebsOnly),
    /// Something that is done with JFFS2 only.
    #[error("the image is no JFFS2, and {0} is there for JFFS2 only")]
    NotJffs2(&'static str),
    /// Something that is not done with a filesystem that has no live implementation here.
    #[error("the image is {kind}, {lack}")]
    OnlyRead {
        /// Name of the format.
        kind: &'static str,
        /// The thing that is not done.
        lack: TreeLack,
    },
    /// The filesystem is not as it should be.
    #[error("UBIFS: {0}")]
    Ubifs(#[from] ubifs::Error),
    /// The mounted filesystem has failed.
    #[error(transparent)]
    Filesystem(#[from] fs::Error),
    /// The dump cannot be corrected.
    #[error(transparent)]
    Ecc(#[from] EccError),
    /// Nothing stands where a dump was asked for.
    #[error("{0}")]
    NoNode(String),
    /// A moment of which no node is there.
    #[error("{0}")]
    NoMoment(String),
    /// No node of a JFFS2 was written before an earlier moment.
    #[error("no node that is still on the flash is as old as that")]
    NothingThatOld,
    /// A moment of another kind of filesystem.
    #[error("a moment of {0} is {1}, or a time")]
    WrongMoment(&'static str, &'static str),
    /// An earlier moment with authentication.
    #[error("nothing vouches for an earlier moment of a filesystem")]
    PastUnauthentic,
    /// Parts are missing.
    #[error("the image is cut off: {0}")]
    Truncated(String),
    /// The device needs more of the file than is free.
    #[error(
        "the device needs {}, but at byte {offset:#x} of the file there is something else", count(*.pebs, "more eraseblock")
    )]
    Occupied {
        /// Number of missing eraseblocks.
        pebs: u64,
        /// Where what is in the way begins, or a little before.
        offset: u64,
    },
    /// Bytes of a JFFS2 are missing in the file, or too many: where, and how many.
    #[error("the image cannot be changed: {0}")]
    Shifted(String),
    /// Another program is changing the file.
    #[error("the file is mounted or being changed by somebody else")]
    Locked,
    /// A check of a new image finds something.
    #[error("what can be saved of the image makes no clean image")]
    NotRepaired,
    /// A repair has to write new nodes, and something else follows the image in its file.
    #[error(
        "the image has no room for the nodes that its repair needs, and something else follows it in the file"
    )]
    NoRepairRoom(Part),
    /// Nothing in a JFFS2 that is to be changed tells the size of its eraseblocks.
    #[error(
        "nothing in the image tells the size of its eraseblocks, to which a change has to keep: {guess} bytes are a guess"
    )]
    GuessedEraseblocks {
        /// Bytes of an eraseblock for reading.
        guess: u32,
        /// Sizes that no node contradicts.
        possible: Vec<u32>,
    },
    /// Nothing tells the size of eraseblocks.
    #[error("nothing tells the size of the eraseblocks")]
    UnknownEraseblocks,
    /// The stated size of eraseblocks differs from the size in the image.
    #[error("the image is not made for eraseblocks of {stated} bytes: {why}")]
    PebSize {
        /// Bytes of an eraseblock as they were stated.
        stated: u64,
        /// Reason why it is another size.
        why: String,
    },
    /// Pages cannot be written without their ECC.
    #[error("the dump has OOB between its pages, and no ECC code fits it: it cannot be changed")]
    OobReadOnly,
    /// Bytes are missing in an image, or too many, in a way that no repair makes good: where, or how that shows.
    #[error("no clean image comes of what is left: {0}")]
    NotRepairable(String),
    /// Pages cannot be written if it is not known what was in them.
    #[error("the dump cannot be changed: {0}")]
    OobDamaged(String),
}

/// Something that images have only where they have LEBs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LebsOnly {
    /// A volume with its own name and size.
    #[error("a volume")]
    Volume,
    /// Reading what is in a volume.
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

/// Something that is not done with a filesystem that has no live implementation here. A LittleFS can be changed, because it is written anew.
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
    /// Files as they were earlier.
    #[error("of which no earlier moments are read")]
    Moments,
    /// LEBs, and volumes of them.
    #[error("which has no LEBs")]
    Lebs,
}

impl ImageError {
    /// True when a file was read, and no image was found in it.
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
