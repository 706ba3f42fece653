//! Advice for errors of images and dumps: the next thing to do, in terms of commands and options.

pub(crate) mod commands;

use std::io;

use commands::strip_command;

use crate::build::BuildError;
use crate::ecc::{CodeError, EccError};
use crate::edit::EditError;
use crate::error::{ImageError, LebsOnly};
use crate::extract::target::ExtractError;
use crate::format::magic::OtherFormat;
use crate::image::Growth;
#[cfg(feature = "mount")]
use crate::mount::MountError;
use crate::output::{OutputError, is_stdout};
use crate::part::Part;
use crate::ubinize::UbinizeError;
use floatgate_media::{MediaError, Reason};
use floatgate_stack::{fs, ubi, ubifs};

/// An error that a user can do something about.
pub trait Help {
    /// Advice, as what follows `help:`.
    fn help(&self) -> String;

    /// True when the message itself says which file it is of.
    fn names_file(&self) -> bool {
        false
    }
}

/// True when there is no room for more bytes in a file.
fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl Help for OutputError {
    fn help(&self) -> String {
        let text = match self {
            Self::SameFile { .. } | Self::Folder(_) | Self::Dangling(_) => "name another file for the output",
            Self::InUse(_) => {
                "wait until it has ended, unmount the image, or name another file for the output"
            }
            Self::DeviceTooSmall { .. } => "the device is unchanged: name a larger one, or a file",
            Self::NoStream => "name a file; ./- is one with that name",
            Self::Terminal => "name a file, or pipe the output into a command",
            Self::Host { path, error } if is_stdout(path) && is_no_room(error) => {
                "what stdout leads to is full: the output is not complete; redirect it to a place with more room"
            }
            Self::Host { error, .. } if error.kind() == io::ErrorKind::FileTooLarge => {
                "no file can become that large there (`ulimit -f`, or the disk's filesystem): a file that had this name before is unchanged"
            }
            Self::Host { error, .. } if is_no_room(error) => {
                "the disk is full: a file that had this name before is unchanged; name a place with more room"
            }
            Self::Host { path, .. } if is_stdout(path) => "stdout is closed: redirect it to a file or a pipe",
            Self::Host { .. } | Self::NoFolder { .. } => "name a file in a folder that you can write to",
        };
        text.to_owned()
    }
}

impl Help for UbinizeError {
    fn help(&self) -> String {
        let text = match self {
            Self::Ini { .. } | Self::Volume { .. } => {
                "each volume is a section: [name], mode=ubi, image=FILE, vol_id=0, vol_type=dynamic, vol_name=rootfs, vol_size=16MiB"
            }
            Self::Refused(_) => {
                "make the volumes fit the flash (vol_size, --volume-size), and the filesystem its volume: mkfs.ubifs with -m and -e of the flash, -c of the volume; `floatgate image build` knows them with --part"
            }
            Self::Read { .. } => "paths of images count from the folder of the ini file",
            Self::Store(_) => "name a place with room with -o",
        };
        text.to_owned()
    }
}

impl Help for ImageError {
    fn names_file(&self) -> bool {
        matches!(self, Self::Output(_))
    }

    fn help(&self) -> String {
        let text = match self {
            Self::File(_) | Self::Store(_) => {
                "name a file that can be read, and written if it is to be changed; the disk and `ulimit -f` need room for it"
            }
            Self::Output(error) => return error.help(),
            Self::Interrupted(_) => "`floatgate image check` says what is left; --recover goes on from there",
            Self::HostFull(_) => {
                "the image is unchanged: make room on the disk, or put the image where there is more"
            }
            Self::Write(_) => "nothing more can be written to the output",
            Self::NoNode(_) => {
                "`floatgate image check` lists places of damage, `floatgate image ls` files, `floatgate image dump --nodes` all nodes of a JFFS2"
            }
            Self::TooShort(_) => "name a file with an image or a dump in it",
            Self::Nothing => {
                "where it is a NAND dump with OOB, --page-size and --oob-size state its pages, `floatgate ecc check` finds out how they are protected, and `floatgate ecc decode --code none` takes the OOB out; other formats are not known yet"
            }
            Self::NothingInPages(pages) => {
                return format!(
                    "`floatgate image info FILE` without sizes finds out those of the pages; {} writes the data without OOB",
                    strip_command(pages)
                );
            }
            Self::Empty => "name a file with an image or a dump in it",
            Self::Blank(0xFF) => {
                "this is erased flash, which Linux mounts as an empty JFFS2: `floatgate image build` makes an image with files, or take a dump of another partition"
            }
            Self::Blank(_) => "this is no flash: take the dump again",
            Self::Impossible { .. } => {
                "take the dump again, whole; `floatgate image dump --at` shows the header"
            }
            Self::Several(_) | Self::NotThere(_) => {
                "`floatgate image info` lists them; choose one with --offset"
            }
            Self::Attach(ubi::AttachFault::Ubi(ubi::UbiError::NoSpace { .. })) => {
                "the image is cut off, or made for a larger flash; `floatgate image check` says more"
            }
            Self::NoVolume { names, .. } if names.is_empty() => "leave --volume out",
            Self::NoVolume { .. } | Self::ChooseVolume(_) => "choose one with --volume, by name or number",
            Self::Ubifs(ubifs::Error::NeedsRecovery) => {
                "--recover does as Linux does when it mounts: it finishes or undoes what a power cut left half done, and writes"
            }
            Self::Ubifs(ubifs::Error::WrongAuthKey) => {
                "--auth-key takes the bytes of the key as they were given to the kernel's keyring, without a newline that an editor adds"
            }
            Self::Ubifs(ubifs::Error::NotAuthenticated) => "leave --auth-key and --auth-hashes out",
            Self::Ubifs(ubifs::Error::SignedSuperblock) => {
                "--auth-hashes verifies all hashes without a key; the first mount for writing with the kernel puts HMACs where a key can verify them"
            }
            Self::NothingThatOld | Self::NoMoment(_) | Self::Ubifs(ubifs::Error::NothingThatOld) => {
                "`floatgate image ls --history` lists the moments of which nodes are left"
            }
            Self::Filesystem(fs::Error::NotFound) => "`floatgate image ls` lists what is there",
            Self::Filesystem(fs::Error::IsDirectory) => {
                "`floatgate image ls` lists what is in it, `floatgate image extract` saves it with all files"
            }
            Self::Filesystem(fs::Error::Invalid(_)) => {
                "`floatgate image stat` shows what it is, and where a link leads"
            }
            // Linux refuses these only when it mounts for writing.
            Self::Ubifs(ubifs::Error::Node {
                lnum: 0,
                source: MediaError { reason: Reason::OutOfRange { field: "LEBs", .. }, .. },
                ..
            }) => {
                "the filesystem has too few LEBs to be written to: `floatgate image put --lebs N` gives it more"
            }
            Self::Ubifs(ubifs::Error::Node {
                lnum: 0,
                source: MediaError { reason: Reason::OutOfRange { field: "journal size", .. }, .. },
                ..
            }) => {
                "the journal does not fit the LEBs that the filesystem has: `floatgate image put --lebs N` gives it more, `mkfs.ubifs -j` another journal"
            }
            Self::Attach(_) | Self::Ubi(_) | Self::NoVolumes | Self::Ubifs(_) | Self::Filesystem(_) => {
                "`floatgate image check` says what is wrong"
            }
            Self::Jffs2(_) => {
                "`floatgate image check` says what is wrong, `floatgate image info` where images are"
            }
            Self::NoEraseblocks { .. } => {
                "the image is unchanged; --grow lets it grow as far as the change needs; `mkfs.jffs2 --pad` and `floatgate image build --pad` make larger ones"
            }
            Self::Nameless(_) => {
                "`floatgate image check --repair` gives them names, and `floatgate image extract` saves them; --recover goes on as Linux does when it mounts, and removes them"
            }
            // Erasing it makes no room for a change.
            Self::Jffs2Tail { own, can_grow: false, over: None, .. } => {
                return format!(
                    "something else follows the image: {} cuts it out, and --grow lets that grow",
                    own.dd()
                );
            }
            Self::Jffs2Tail { own, can_grow, over, .. } => {
                let lebs = over.filter(|_| !can_grow);
                let lebs = lebs.map_or_else(String::new, |lebs| format!(" --lebs {lebs}"));
                return format!(
                    "--recover{lebs} goes on as Linux does when it mounts, and erases what is no node; where it is other data, {} cuts the image out, which --grow lets grow",
                    own.dd()
                );
            }
            Self::WrongMoment(..) | Self::PastUnauthentic => {
                "`floatgate image ls --history` lists moments, without authentication"
            }
            Self::NotJffs2(_) => "--area, --leb, --inode and --path show nodes of UBIFS",
            Self::NotForJffs2(LebsOnly::Leb | LebsOnly::Area) => {
                "--peb shows the nodes of an eraseblock, --at the one at a byte of the file, --inode or --path those of a file, --nodes all"
            }
            Self::NotForJffs2(_) => {
                "`floatgate image info`, `ls`, `cat`, `stat`, `extract`, `check`, `diff`, `put` and `mount` work with a JFFS2; `floatgate image build` makes a UBIFS of what was extracted"
            }
            Self::NoFilesystem(volumes) => {
                let name = volumes.first().map_or("NAME", |(name, _)| name.as_str());
                return format!("`floatgate image cat --raw --volume {name}` writes the bytes of a volume");
            }
            Self::OtherFormat(format) => return other_format(*format).to_owned(),
            Self::OtherFormats(found)
                if found.iter().any(|(_, format)| *format == OtherFormat::OverlayMark) =>
            {
                "this firmware has no JFFS2 yet: dump the flash of a board that was started, or extract the filesystem before the mark"
            }
            Self::OtherFormats(found) => match found.first() {
                Some(&(at, format)) => {
                    return format!("`tail -c +{} FILE` cuts it out; {}", at + 1, other_format(format));
                }
                None => NAME_AN_IMAGE,
            },
            Self::Swapped { group: 2, .. } => "`dd conv=swab if=FILE of=OUT` puts them right",
            Self::Swapped { group, .. } => {
                return format!(
                    "`objcopy -I binary -O binary --reverse-bytes={group} FILE OUT` puts them right"
                );
            }
            Self::Ecc(error) => return error.help(),
            Self::Truncated(_) => {
                "`floatgate image extract` saves what is there; only a whole image can be changed"
            }
            Self::Shifted(_) => {
                "take the dump again, whole, or write an image in order with `floatgate image check --repair`"
            }
            Self::Occupied { .. } => "give the device a file of its own, or one where more room follows it",
            Self::NotRepaired => {
                "this is a bug in floatgate: please report it with the image; `floatgate image extract` saves the files"
            }
            Self::PebSize { .. } => {
                "`floatgate image info` without --peb-size says what the image tells; where its beginning is cut off, leave --peb-size out"
            }
            Self::GuessedEraseblocks { possible, .. } => {
                let possible: Vec<String> = possible.iter().map(u32::to_string).collect();
                return format!("--peb-size states that of the flash: {} are possible", possible.join(", "));
            }
            Self::NoRepairRoom(own) => {
                return format!(
                    "{} cuts it out into a file of its own, which a repair can make longer; `floatgate image extract` saves the files",
                    own.dd()
                );
            }
            Self::Locked => "wait until the other floatgate has ended, or unmount the image",
            Self::OobReadOnly => {
                "`floatgate image extract` saves the files, of which `floatgate image build` makes an image; `floatgate ecc check` finds out more"
            }
            Self::NotRepairable(_) => {
                "take the dump again, whole; `floatgate image extract` saves what is good, of which `floatgate image build` makes an image"
            }
            Self::OobDamaged(_) => {
                "`floatgate image extract` saves what is good; `floatgate ecc decode` makes an image without OOB as it is"
            }
        };
        text.to_owned()
    }
}

/// Advice where a JFFS2 is to grow over something else, which may have overwritten it up to a number of eraseblocks.
fn alone(own: Part, over: Option<u32>) -> String {
    let dd = own.dd();
    let over = over.map_or_else(String::new, |over| {
        format!(
            "; where that is no other data, but has overwritten the image, --recover --lebs {over} erases it"
        )
    });
    format!(
        "the image is unchanged; something else follows it: {dd} cuts it out into a file of its own, where it can grow{over}"
    )
}

const NAME_AN_IMAGE: &str = "name a file with a UBI, UBIFS or JFFS2 image in it";

/// Advice for a file of another format.
fn other_format(format: OtherFormat) -> &'static str {
    match format {
        OtherFormat::Squashfs => "`unsquashfs` extracts it",
        OtherFormat::Gzip => "`gunzip` unpacks it: name what comes out",
        OtherFormat::Xz => "`unxz` unpacks it: name what comes out",
        OtherFormat::Zstd => "`unzstd` unpacks it: name what comes out",
        OtherFormat::Bzip2 => "`bunzip2` unpacks it: name what comes out",
        OtherFormat::Lz4 => "`unlz4` unpacks it: name what comes out",
        OtherFormat::Tar => "`tar -xf` unpacks it; `floatgate image build` makes an image of it",
        OtherFormat::UBootImage | OtherFormat::DeviceTree => "`dumpimage -l` lists what is in it",
        _ => NAME_AN_IMAGE,
    }
}

impl Help for EditError {
    fn names_file(&self) -> bool {
        matches!(self, Self::Image(error) if error.names_file())
    }

    fn help(&self) -> String {
        let text = match self {
            Self::TooSmall { growth: Some(growth), .. } => return growth.help(),
            Self::TooSmall { .. } => {
                "the image is unchanged; --grow gives the filesystem as many LEBs as the change needs, --lebs N a number of LEBs"
            }
            Self::Image(error @ ImageError::NoEraseblocks { .. }) => return error.help(),
            Self::Image(_) if self.wants_room() => {
                "the image is unchanged; if its filesystem is only too small to be mounted for writing, let it grow with --grow or --lebs N"
            }
            Self::Image(error) => return error.help(),
            Self::NoAttribute { .. } => {
                "the image is unchanged; `floatgate image stat` lists the attributes of a file"
            }
            Self::Full | Self::Inside { error: fs::Error::NoSpace, .. } => {
                "the image is unchanged; remove something first, or let it grow with --grow"
            }
            Self::Inside { error: fs::Error::NotFound | fs::Error::NotDirectory, .. } => {
                "the image is unchanged; `floatgate image ls` lists what is there; links on the way are not followed"
            }
            Self::Inside { error: fs::Error::IsDirectory | fs::Error::NotEmpty, .. } => {
                "the image is unchanged; --recursive takes directories with all they hold"
            }
            Self::Inside { error: fs::Error::Exists, .. } => {
                "the image is unchanged; remove what is there first"
            }
            Self::Lebs { unit: "LEB", .. } => {
                "the image is unchanged; `floatgate image info` says how far it can grow"
            }
            Self::Lebs { least, most, own: Some(own), over, .. } if least == most => {
                return alone(*own, *over);
            }
            Self::Largest { growth: Growth { own: Some(own), over, .. }, .. } => return alone(*own, *over),
            Self::Largest { .. } => {
                "the image is unchanged; remove something first, or build a larger one with `floatgate image build --max-lebs`"
            }
            Self::Lebs { .. } | Self::Inside { .. } | Self::Refused { .. } | Self::CannotGrow => {
                "the image is unchanged"
            }
            Self::Host { .. } => "the image is unchanged; name files that can be read",
        };
        text.to_owned()
    }
}

impl Help for BuildError {
    fn help(&self) -> String {
        let text = match self {
            Self::Source { .. } => "name a directory or a tar that can be read",
            Self::Tar { .. } => "`tar --format=pax` writes what is read here",
            Self::Table { .. } => {
                "a line is: name type mode uid gid major minor start increment count, - for what is not given"
            }
            Self::Shape(_) => {
                "--page-size 2048 --peb-size 128KiB are those of most NANDs; `floatgate parts NAME` lists a part's"
            }
            Self::SizeUnknown { is_jffs2: true } => {
                "say how large the filesystem may become with --pad or --part"
            }
            Self::SizeUnknown { is_jffs2: false } => {
                "say how large the filesystem may become with --max-lebs, --volume-size or --part"
            }
            Self::PadTooSmall { .. } => {
                "--pad takes the size of the partition: give a larger one, or fewer files"
            }
            Self::Compressor => "take --compress zlib or lzo, or none",
            Self::Parameter { field: "fanout", .. } => {
                "--fanout takes 3 and more, as many children as a LEB holds"
            }
            Self::Parameter { .. } => {
                "leave it to its default, or give the filesystem more LEBs with --volume-size or --max-lebs"
            }
            Self::Sizes(_) => {
                "give more LEBs with --volume-size or --max-lebs, or leave them to their defaults"
            }
            Self::NoSpace => {
                "a larger --volume-size or --max-lebs (of a JFFS2 --pad) has more room, and zstd or zlib need less"
            }
            Self::TooFewLebs { needed, .. } => {
                return format!(
                    "give --max-lebs {needed} or more, and a --volume-size and a partition with as many; zstd or zlib need less"
                );
            }
            Self::VolumeTooSmall { .. } => {
                "give a larger --volume-size, or a smaller --journal-size, which the filesystem has room for at least"
            }
            Self::Image(ImageError::Ubifs(ubifs::Error::Volume(_)) | ImageError::Store(_)) => {
                "name an output in a folder that can be written to, with room for the image"
            }
            Self::Image(ImageError::Ubifs(_)) => {
                "leave what the message names to its default; journal, log and orphans may need a larger --volume-size"
            }
            Self::Image(error) => return error.help(),
            Self::Ubi(error) => return error.help(),
            Self::Stopped => "this is a bug in floatgate: please report it",
        };
        text.to_owned()
    }
}

impl Help for ExtractError {
    fn help(&self) -> String {
        let text = match self {
            Self::Target { .. } => "extract into an empty directory with room, or as a tar",
            Self::Limit { .. } => "if you trust the image, raise the limit: see --help",
        };
        text.to_owned()
    }
}

impl Help for EccError {
    fn help(&self) -> String {
        let text = match self {
            Self::Size { .. } => {
                "--part NAME takes the sizes of a chip; `floatgate parts --kind raw-nand` lists them"
            }
            Self::Code(CodeError::Degree { .. } | CodeError::NotPrimitive { .. }) => {
                "usual polynomials are 8219 for steps of 512 bytes, 16427 (Linux's default) and 17475 for 1024"
            }
            Self::Code(_) => "usual codes are hamming/256, bch4/512, bch8/512, bch24/1024 and bch40/1024",
            Self::Layout { .. } => "a weaker code has fewer ECC bytes; --layout names another place for them",
            Self::Hidden { .. } => "name another --layout: in this one the chip itself writes and hides them",
            Self::Steps { .. } => "the number after the slash in --code divides the page",
            Self::Empty => "was it written completely?",
            Self::Short { .. } => {
                "is it a dump with OOB of this chip? --page-size and --oob-size, or --part, say how large a page is"
            }
            Self::TooLarge { .. } => {
                "name a larger chip with --part, or give --page-size and --oob-size alone"
            }
            Self::Apart { .. } => {
                "--oob-size is what each page has there; with --ecc-only it is the code's bytes alone"
            }
            Self::PartOfPage { .. } => {
                "fill the last page with FFh bytes, as `ecc encode` did before it computed the OOB"
            }
            Self::AllErased => "give the code with --code",
            Self::Read { .. } => "name a file that can be read",
            Self::Write { .. } => "name a file in a folder that you can write to, with room for it",
        };
        text.to_owned()
    }
}

#[cfg(feature = "mount")]
impl Help for MountError {
    fn help(&self) -> String {
        match self {
            Self::Image(error) => error.help(),
            Self::TooSmall(_) => {
                "--lebs N lets the volume grow; without --rw it can be read as it is".to_owned()
            }
            Self::NotEmpty(_) => "name an empty folder".to_owned(),
            Self::MountPoint(directory) | Self::Dead(directory) => {
                let folder = directory.display();
                format!(
                    "name another folder, or unmount it: `umount {folder}`, without root `fusermount3 -u {folder}`"
                )
            }
            Self::Host { .. } => {
                "name an empty folder; it takes /dev/fuse, and root or the command fusermount3 \
                                  (package fuse3)"
                    .to_owned()
            }
        }
    }
}
