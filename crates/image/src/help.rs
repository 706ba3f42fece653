//! Advice for errors of images and dumps: the next thing to do, in terms of commands and options.

pub(crate) mod commands;

use commands::strip_command;

use crate::build::BuildError;
use crate::ecc::{CodeError, Displacement, EccError};
use crate::edit::EditError;
use crate::env::EnvError;
use crate::error::{ImageError, LebsOnly, TreeLack};
use crate::extract::target::ExtractError;
use crate::format::magic::OtherFormat;
use crate::image::Growth;
#[cfg(feature = "mount")]
use crate::mount::MountError;
use crate::part::Part;
use crate::ubinize::UbinizeError;
use floatgate_media::{MediaError, Reason};
use floatgate_mtd::advice;
use floatgate_mtd::advice::Command::*;
use floatgate_mtd::advice::CommandOption::*;
use floatgate_mtd::advice::{Advice, Help, shell};
use floatgate_stack::{fs, ubi, ubifs};

impl Help for UbinizeError {
    fn help(&self) -> Advice {
        match self {
            Self::Ini { .. } | Self::Volume { .. } => {
                advice! { "each volume is a section: [name], mode=ubi, image=FILE, vol_id=0, vol_type=dynamic, vol_name=rootfs, vol_size=16MiB" }
            }
            Self::Refused(_) => {
                advice! { "make the volumes fit the flash (vol_size, ", VolumeSize, "), and the filesystem its volume: mkfs.ubifs with -m and -e of the flash, -c of the volume; ", ImageBuild, " knows them with ", Part }
            }
            Self::Read { .. } => advice! { "paths of images count from the folder of the ini file" },
            Self::Store(_) => advice! { "name a place with room with ", Output },
        }
    }
}

impl Help for EnvError {
    fn names_file(&self) -> bool {
        matches!(self, Self::Image(error) if error.names_file())
    }

    fn help(&self) -> Advice {
        match self {
            Self::Image(error) => error.help(),
            Self::None => {
                advice! { shell("floatgate image map"), " lists what is in the dump; an environment that was never saved is erased, and U-Boot uses its default one" }
            }
            Self::Several(_) => advice! { "choose one with ", Offset },
            Self::Lost(_) => {
                advice! { "save the environment on the board: ", shell("saveenv"), " writes both copies there" }
            }
            Self::Odd => advice! { "change it on the board: ", shell("setenv"), " and ", shell("saveenv") },
            Self::Name(_) | Self::Zero(_) => advice! { "U-Boot cannot read such a variable" },
            Self::Full { .. } => advice! { "remove variables, or shorten their values" },
        }
    }
}

impl Help for ImageError {
    fn names_file(&self) -> bool {
        matches!(self, Self::Output(_))
    }

    fn help(&self) -> Advice {
        match self {
            Self::File(_) | Self::Store(_) => {
                advice! { "name a file that can be read, and written if it is to be changed; the disk and ", shell("ulimit -f"), " need room for it" }
            }
            Self::Output(error) => error.help(),
            Self::Interrupted(_) => {
                advice! { ImageCheck, " says what is left; ", Recover, " goes on from there" }
            }
            Self::HostFull(_) => {
                advice! { "the image is unchanged: make room on the disk, or put the image where there is more" }
            }
            Self::Write(_) => advice! { "nothing more can be written to the output" },
            Self::NoNode(_) => {
                advice! { ImageCheck, " lists places of damage, ", ImageLs, " files, ", ImageDump.with(Nodes), " all nodes of a JFFS2" }
            }
            Self::TooShort(_) => advice! { "name a file with an image or a dump in it" },
            Self::Nothing => {
                advice! { "where it is a NAND dump with OOB, ", PageSize, " and ", OobSize, " state its pages, ", EccCheck, " finds out how they are protected, and ", EccDecode.with(Code).with("none"), " takes the OOB out; ", shell("floatgate image map"), " lists everything that is recognised in it" }
            }
            Self::NothingInPages(pages) => {
                advice! { ImageInfo.with("FILE"), " without sizes finds out those of the pages; ", strip_command(pages), " writes the data without OOB" }
            }
            Self::Empty => advice! { "name a file with an image or a dump in it" },
            Self::Blank(0xFF) => {
                advice! { "this is erased flash, which Linux mounts as an empty JFFS2: ", ImageBuild, " makes an image with files, or take a dump of another partition" }
            }
            Self::Blank(_) => advice! { "this is no flash: take the dump again" },
            Self::Impossible { .. } => {
                advice! { "take the dump again, whole; ", ImageDump.with(At), " shows the header" }
            }
            Self::Several(_) | Self::NotThere(_) => {
                advice! { ImageInfo, " lists them; choose one with ", Offset }
            }
            Self::Attach(ubi::AttachFault::Ubi(ubi::UbiError::NoSpace { .. })) => {
                advice! { "the image is cut off, or made for a larger flash; ", ImageCheck, " says more" }
            }
            Self::NoVolume { names, .. } if names.is_empty() => advice! { "leave ", Volume, " out" },
            Self::NoVolume { .. } | Self::ChooseVolume(_) => {
                advice! { "choose one with ", Volume, ", by name or number" }
            }
            Self::Ubifs(ubifs::Error::NeedsRecovery) => {
                advice! { Recover, " does as Linux does when it mounts: it finishes or undoes what a power cut left half done, and writes" }
            }
            Self::Ubifs(ubifs::Error::WrongAuthKey) => {
                advice! { AuthKey, " takes the bytes of the key as they were given to the kernel's keyring, without a newline that an editor adds" }
            }
            Self::Ubifs(ubifs::Error::NotAuthenticated) => {
                advice! { "leave ", AuthKey, " and ", AuthHashes, " out" }
            }
            Self::Ubifs(ubifs::Error::SignedSuperblock) => {
                advice! { AuthHashes, " verifies all hashes without a key; the first mount for writing with the kernel puts HMACs where a key can verify them" }
            }
            Self::NothingThatOld | Self::NoMoment(_) | Self::Ubifs(ubifs::Error::NothingThatOld) => {
                advice! { ImageLs.with(History), " lists the moments of which nodes are left" }
            }
            Self::Filesystem(fs::Error::NotFound) => advice! { ImageLs, " lists what is there" },
            Self::Filesystem(fs::Error::IsDirectory) => {
                advice! { ImageLs, " lists what is in it, ", ImageExtract, " saves it with all files" }
            }
            Self::Filesystem(fs::Error::Unsupported(_)) => {
                advice! { "floatgate has no reader for it; ", shell("floatgate image map"), " shows where it is, for Linux to mount it" }
            }
            Self::Filesystem(fs::Error::Invalid(_)) => {
                advice! { ImageStat, " shows what it is, and where a link leads" }
            }
            // Linux refuses these images only in a mount for writing.
            Self::Ubifs(ubifs::Error::Node {
                lnum: 0,
                source: MediaError { reason: Reason::OutOfRange { field: "LEBs", .. }, .. },
                ..
            }) => {
                advice! { "the filesystem has too few LEBs to be written to: ", ImagePut.with(Lebs).with("N"), " gives it more" }
            }
            Self::Ubifs(ubifs::Error::Node {
                lnum: 0,
                source: MediaError { reason: Reason::OutOfRange { field: "journal size", .. }, .. },
                ..
            }) => {
                advice! { "the journal does not fit the LEBs that the filesystem has: ", ImagePut.with(Lebs).with("N"), " gives it more, ", shell("mkfs.ubifs -j"), " another journal" }
            }
            Self::Attach(_) | Self::Ubi(_) | Self::NoVolumes | Self::Ubifs(_) | Self::Filesystem(_) => {
                advice! { ImageCheck, " says what is wrong" }
            }
            Self::Jffs2(_) => {
                advice! { ImageCheck, " says what is wrong, ", ImageInfo, " where images are" }
            }
            Self::NoEraseblocks { .. } => {
                advice! { "the image is unchanged; ", Grow, " lets it grow as far as the change needs; ", shell("mkfs.jffs2 --pad"), " and ", ImageBuild.with(Pad), " make larger ones" }
            }
            Self::Nameless(_) => {
                advice! { ImageCheck.with(Repair), " gives them names, and ", ImageExtract, " saves them; ", Recover, " goes on as Linux does when it mounts, and removes them" }
            }
            // Erasing it provides no space for a change.
            Self::Jffs2Tail { own, can_grow: false, over: None, .. } => {
                advice! { "something else follows the image: ", own.dd(), " cuts it out, and ", Grow, " lets that grow" }
            }
            Self::Jffs2Tail { own, can_grow, over, .. } => {
                let recover = match over.filter(|_| !can_grow) {
                    Some(lebs) => recover_up_to(lebs),
                    None => advice! { Recover },
                };
                recover.and(advice! { " goes on as Linux does when it mounts, and erases what is no node; where it is other data, ", own.dd(), " cuts the image out, which ", Grow, " lets grow" })
            }
            Self::WrongMoment(..) | Self::PastUnauthentic => {
                advice! { ImageLs.with(History), " lists moments, without authentication" }
            }
            Self::NotJffs2(_) => {
                advice! { Area, ", ", Leb, ", ", Inode, " and ", Path, " show nodes of UBIFS" }
            }
            Self::NotForJffs2(LebsOnly::Leb | LebsOnly::Area) => {
                advice! { Peb, " shows the nodes of an eraseblock, ", At, " the one at a byte of the file, ", Inode, " or ", Path, " those of a file, ", Nodes, " all" }
            }
            Self::NotForJffs2(_) => {
                advice! { ImageInfo, ", `ls`, `cat`, `stat`, `extract`, `check`, `diff`, `put` and `mount` work with a JFFS2; ", ImageBuild, " makes a UBIFS of what was extracted" }
            }
            Self::UnknownEraseblocks => advice! { PebSize, " states it" },
            Self::OnlyRead { lack: TreeLack::Repair, .. } => {
                advice! { ImageExtract, " saves what can be read, and ", ImageBuild, " makes an image of it" }
            }
            Self::OnlyRead { .. } => {
                advice! { ImageInfo, ", `ls`, `cat`, `stat`, `extract`, `check`, `diff` and `mount` work with it; ", ImageBuild, " makes an image of what was extracted" }
            }
            Self::NoFilesystem(volumes) => {
                let name = volumes.first().map_or("NAME", |(name, _)| name.as_str());
                advice! { ImageCat.with(Raw).with(Volume).with(name), " writes the bytes of a volume" }
            }
            Self::OtherFormat(format) => other_format(*format),
            Self::OtherFormats(found)
                if found.iter().any(|(_, format)| *format == OtherFormat::OverlayMark) =>
            {
                advice! { "this firmware has no JFFS2 yet: dump the flash of a board that was started, or extract the filesystem before the mark" }
            }
            Self::OtherFormats(found) => match found.first() {
                Some(&(at, format)) => {
                    advice! { shell(format!("tail -c +{} FILE", at + 1)), " cuts it out; " }
                        .and(other_format(format))
                }
                None => NAME_AN_IMAGE.into(),
            },
            Self::Swapped { group: 2, .. } => {
                advice! { shell("dd conv=swab if=FILE of=OUT"), " puts them right" }
            }
            Self::Swapped { group, .. } => {
                advice! { shell(format!("objcopy -I binary -O binary --reverse-bytes={group} FILE OUT")), " puts them right" }
            }
            Self::Ecc(error) => error.help(),
            Self::Truncated(_) => {
                advice! { ImageExtract, " saves what is there; only a whole image can be changed" }
            }
            Self::Shifted(_) => {
                advice! { "take the dump again, whole, or write an image in order with ", ImageCheck.with(Repair) }
            }
            Self::Occupied { .. } => {
                advice! { "give the device a file of its own, or one where more room follows it" }
            }
            Self::NotRepaired => {
                advice! { "this is a bug in floatgate: please report it with the image; ", ImageExtract, " saves the files" }
            }
            Self::PebSize { .. } => {
                advice! { ImageInfo, " without ", PebSize, " says what the image tells; where its beginning is cut off, leave ", PebSize, " out" }
            }
            Self::GuessedEraseblocks { possible, .. } => {
                let possible: Vec<String> = possible.iter().map(u32::to_string).collect();
                advice! { PebSize, " states that of the flash: ", possible.join(", "), " are possible" }
            }
            Self::NoRepairRoom(own) => {
                advice! { own.dd(), " cuts it out into a file of its own, which a repair can make longer; ", ImageExtract, " saves the files" }
            }
            Self::Locked => advice! { "wait until the other floatgate has ended, or unmount the image" },
            Self::OobReadOnly => {
                advice! { ImageExtract, " saves the files, of which ", ImageBuild, " makes an image; ", EccCheck, " finds out more" }
            }
            Self::NotRepairable(_) => {
                advice! { "take the dump again, whole; ", ImageExtract, " saves what is good, of which ", ImageBuild, " makes an image" }
            }
            Self::OobDamaged(_) => {
                advice! { ImageExtract, " saves what is good; ", EccDecode, " makes an image without OOB as it is" }
            }
        }
    }
}

/// Advice for a JFFS2 that is to grow over other data, which may have overwritten it up to a number of eraseblocks.
fn alone(own: Part, over: Option<u32>) -> Advice {
    let advice = advice! { "the image is unchanged; something else follows it: ", own.dd(), " cuts it out into a file of its own, where it can grow" };
    match over {
        Some(over) => advice
            .and("; where that is no other data, but has overwritten the image, ")
            .and(recover_up_to(over))
            .and(" erases it"),
        None => advice,
    }
}

/// Advice on the options that treat a JFFS2 as one of this size.
fn recover_up_to(lebs: u32) -> Advice {
    advice! { Recover, " ", Lebs, format!(" {lebs}") }
}

const NAME_AN_IMAGE: &str = "name a file with a UBI, UBIFS or JFFS2 image in it";

/// Advice for a file of another format.
fn other_format(format: OtherFormat) -> Advice {
    match format {
        OtherFormat::Squashfs => advice! { "`unsquashfs` extracts it" },
        OtherFormat::Gzip => advice! { "`gunzip` unpacks it: name what comes out" },
        OtherFormat::Xz => advice! { "`unxz` unpacks it: name what comes out" },
        OtherFormat::Zstd => advice! { "`unzstd` unpacks it: name what comes out" },
        OtherFormat::Bzip2 => advice! { "`bunzip2` unpacks it: name what comes out" },
        OtherFormat::Lz4 => advice! { "`unlz4` unpacks it: name what comes out" },
        OtherFormat::Tar => {
            advice! { shell("tar -xf"), " unpacks it; ", ImageBuild, " makes an image of it" }
        }
        OtherFormat::UBootImage | OtherFormat::DeviceTree => {
            advice! { shell("dumpimage -l"), " lists what is in it" }
        }
        _ => NAME_AN_IMAGE.into(),
    }
}

impl Help for EditError {
    fn names_file(&self) -> bool {
        matches!(self, Self::Image(error) if error.names_file())
    }

    fn help(&self) -> Advice {
        match self {
            Self::TooSmall { growth: Some(growth), .. } => growth.help(),
            Self::TooSmall { .. } => {
                advice! { "the image is unchanged; ", Grow, " gives the filesystem as many LEBs as the change needs, ", Lebs, " N a number of LEBs" }
            }
            Self::Image(error @ ImageError::NoEraseblocks { .. }) => error.help(),
            Self::NoGrowth(_) => {
                advice! { "the image is unchanged; remove something first, or build a larger one with ", ImageBuild }
            }
            Self::Image(_) if self.wants_room() => {
                advice! { "the image is unchanged; if its filesystem is only too small to be mounted for writing, let it grow with ", Grow, " or ", Lebs, " N" }
            }
            Self::Image(error) => error.help(),
            Self::NoAttribute { .. } => {
                advice! { "the image is unchanged; ", ImageStat, " lists the attributes of a file" }
            }
            Self::Full | Self::Inside { error: fs::Error::NoSpace, .. } => {
                advice! { "the image is unchanged; remove something first, or let it grow with ", Grow }
            }
            Self::Inside { error: fs::Error::NotFound | fs::Error::NotDirectory, .. } => {
                advice! { "the image is unchanged; ", ImageLs, " lists what is there; links on the way are not followed" }
            }
            Self::Inside { error: fs::Error::IsDirectory | fs::Error::NotEmpty, .. } => {
                advice! { "the image is unchanged; ", Recursive, " takes directories with all they hold" }
            }
            Self::Inside { error: fs::Error::Exists, .. } => {
                advice! { "the image is unchanged; remove what is there first" }
            }
            Self::Lebs { unit: "LEB", .. } => {
                advice! { "the image is unchanged; ", ImageInfo, " says how far it can grow" }
            }
            Self::Lebs { least, most, own: Some(own), over, .. } if least == most => alone(*own, *over),
            Self::Largest { growth: Growth { own: Some(own), over, .. }, .. } => alone(*own, *over),
            Self::Largest { .. } => {
                advice! { "the image is unchanged; remove something first, or build a larger one with ", ImageBuild.with(MaxLebs) }
            }
            Self::Lebs { .. } | Self::Inside { .. } | Self::Refused { .. } | Self::CannotGrow => {
                advice! { "the image is unchanged" }
            }
            Self::Host { .. } => advice! { "the image is unchanged; name files that can be read" },
        }
    }
}

impl Help for BuildError {
    fn help(&self) -> Advice {
        match self {
            Self::Source { .. } => advice! { "name a directory or a tar that can be read" },
            Self::Tar { .. } => advice! { shell("tar --format=pax"), " writes what is read here" },
            Self::Table { .. } => {
                advice! { "a line is: name type mode uid gid major minor start increment count, - for what is not given" }
            }
            Self::Shape(_) => {
                advice! { PageSize, " 2048 ", PebSize, " 128KiB are those of most NANDs; ", Parts.with("NAME"), " lists a part's" }
            }
            Self::TreeShape(_) => {
                advice! { PageSize, " and ", PebSize, " state the sizes of pages and blocks, ", Pad, " that of the partition" }
            }
            Self::SizeUnknown { is_jffs2: true } => {
                advice! { "say how large the filesystem may become with ", Pad, " or ", Part }
            }
            Self::SizeUnknown { is_jffs2: false } => {
                advice! { "say how large the filesystem may become with ", MaxLebs, ", ", VolumeSize, " or ", Part }
            }
            Self::PadTooSmall { .. } => {
                advice! { Pad, " takes the size of the partition: give a larger one, or fewer files" }
            }
            Self::Compressor => advice! { "take ", Compress, " zlib or lzo, or none" },
            Self::Parameter { field: "fanout", .. } => {
                advice! { Fanout, " takes 3 and more, as many children as a LEB holds" }
            }
            Self::Parameter { field: "LEB size", .. } => {
                advice! { "UBIFS takes LEBs of 15360 bytes and more: a NOR needs larger eraseblocks, as Linux takes them without CONFIG_MTD_SPI_NOR_USE_4K_SECTORS (", PebSize, " 64KiB)" }
            }
            Self::Parameter { .. } => {
                advice! { "leave it to its default, or give the filesystem more LEBs with ", VolumeSize, " or ", MaxLebs }
            }
            Self::Sizes(_) => {
                advice! { "give more LEBs with ", VolumeSize, " or ", MaxLebs, ", or leave them to their defaults" }
            }
            Self::NoSpace => {
                advice! { "a larger ", VolumeSize, " or ", MaxLebs, " (of JFFS2, LittleFS and SPIFFS ", Pad, ") has more room, and zstd or zlib need less" }
            }
            Self::TooFewLebs { needed, .. } => {
                advice! { "give ", MaxLebs, format!(" {needed} or more, and a "), VolumeSize, " and a partition with as many; zstd or zlib need less" }
            }
            Self::VolumeTooSmall { .. } => {
                advice! { "give a larger ", VolumeSize, ", or a smaller ", JournalSize, ", which the filesystem has room for at least" }
            }
            Self::Image(ImageError::Ubifs(ubifs::Error::Volume(_)) | ImageError::Store(_)) => {
                advice! { "name an output in a folder that can be written to, with room for the image" }
            }
            Self::Image(ImageError::Ubifs(_)) => {
                advice! { "leave what the message names to its default; journal, log and orphans may need a larger ", VolumeSize }
            }
            Self::Image(error) => error.help(),
            Self::Ubi(error) => error.help(),
            Self::Stopped => advice! { "this is a bug in floatgate: please report it" },
        }
    }
}

impl Help for ExtractError {
    fn help(&self) -> Advice {
        match self {
            Self::Target { .. } => advice! { "extract into an empty directory with room, or as a tar" },
            Self::Limit { .. } => advice! { "if you trust the image, raise the limit: see ", Help },
        }
    }
}

impl Help for EccError {
    fn help(&self) -> Advice {
        match self {
            Self::Size { .. } => {
                advice! { Part, " NAME takes the sizes of a chip; ", Parts.with(Kind).with("raw-nand"), " lists them" }
            }
            Self::Code(CodeError::Degree { .. } | CodeError::NotPrimitive { .. }) => {
                advice! { "usual polynomials are 8219 for steps of 512 bytes, 16427 (Linux's default) and 17475 for 1024" }
            }
            Self::Code(_) => {
                advice! { "usual codes are hamming/256, bch4/512, bch8/512, bch24/1024 and bch40/1024" }
            }
            Self::Layout { .. } => {
                advice! { "a weaker code has fewer ECC bytes; ", Layout, " names another place for them" }
            }
            Self::OtherChip { .. } => {
                advice! { "name dumps of one chip; ", shell("floatgate ecc join"), " joins the dumps of two chips that a board uses as one" }
            }
            Self::Displaced { how: Displacement::WithoutOob, .. } => {
                advice! { "dump the chip with its OOB: ", shell("nanddump --noecc --oob") }
            }
            Self::Displaced { how: Displacement::OtherPages, .. } => {
                advice! { PageSize, " and ", OobSize, " say how large a page is; all dumps need pages of one size, as the chip has them" }
            }
            Self::Displaced { .. } => {
                advice! { "remove what is too much, as with ", shell("tail -c +N"), ", or read the chip again where bytes are missing" }
            }
            Self::OtherOob { .. } => {
                advice! { "merge dumps that were read with their OOB and with the ECC off; ", EccCheck, " says what a dump has" }
            }
            Self::OtherLayout { .. } => {
                advice! { EccDecode, " takes the data out of each dump" }
            }
            Self::NoOrder { .. } => {
                advice! { "are the dumps named of two chips that a board uses as one? Where a controller puts ECC bytes between the data, ", EccDecode, " takes them out of each dump first" }
            }
            Self::Dumps { .. } => advice! { "merge some of them first, and the results then" },
            Self::Empty => advice! { "was it written completely?" },
            Self::Short { .. } => {
                advice! { "is it a dump with OOB of this chip? ", PageSize, " and ", OobSize, ", or ", Part, ", say how large a page is" }
            }
            Self::TooLarge { .. } => {
                advice! { "name a larger chip with ", Part, ", or give ", PageSize, " and ", OobSize, " alone" }
            }
            Self::Apart { .. } => {
                advice! { OobSize, " is what each page has there; with ", EccOnly, " it is the code's bytes alone" }
            }
            Self::PartOfPage { .. } => {
                advice! { "fill the last page with FFh bytes, as `ecc encode` did before it computed the OOB" }
            }
            Self::AllErased | Self::TooLittle => advice! { "give the code with ", Code },
            Self::SameChip { .. } | Self::Repeats { .. } => {
                advice! { "name the dump of the other chip; ", shell("floatgate ecc merge"), " merges dumps of one chip" }
            }
            Self::Read { .. } => advice! { "name a file that can be read" },
            Self::Write { .. } => {
                advice! { "name a file in a folder that you can write to, with room for it" }
            }
        }
    }
}

#[cfg(feature = "mount")]
impl Help for MountError {
    fn help(&self) -> Advice {
        match self {
            Self::Image(error) => error.help(),
            Self::TooSmall(_) => {
                advice! { Lebs, " N lets the volume grow; without ", Rw, " it can be read as it is" }
            }
            Self::Folder(error) => error.help(),
        }
    }
}
