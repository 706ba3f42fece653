//! `floatgate image build`.

use super::extract::print_losses;
use super::options::{self, print_warnings};
use super::sizes::{self, FlashArgs};
use crate::common::{self, Failure, Outcome, count, grouped, grouped_count};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use floatgate_host::output::Output;
use floatgate_image::build::{
    BuildError, BuildOptions, Built, Container, Jffs2Options, Overrides, Source, TreeOptions, YaffsOptions,
    build,
};
use floatgate_image::ubinize::UbinizeError;
use floatgate_image::write_back::WriteBack;
use floatgate_lab::report::ResultKind;
use floatgate_mtd::advice::Help;
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::FormatOptions;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image build rootfs/ -o new.ubi --part mt29f2g08aad
  floatgate image build rootfs.tar -o new.ubi --page-size 2048 --peb-size 128KiB --volume rootfs --autoresize
  floatgate image build rootfs/ -o rootfs.ubifs --format ubifs --part mt29f2g08aad --compress zstd
  floatgate image build rootfs/ -o new.ubi --part mt29f2g08aad --owner 0:0 --device-table devices.txt
  floatgate image build rootfs/ -o rootfs.jffs2 --format jffs2 --page-size 1 --peb-size 64KiB --pad 8MiB --summaries
  floatgate image build rootfs/ -o rootfs.yaffs2 --format yaffs2 --page-size 2048 --peb-size 128KiB
  floatgate image build overlay/ -o data.littlefs --format littlefs --pad 1MiB
  docker export box | floatgate image build - -o box.ubi --part mt29f2g08aad

The same input gives the same image, byte for byte. For this, names are sorted, UUIDs and sequence numbers are computed from the contents, and the atime and \
ctime of a directory's files are set to their mtime. The environment variable SOURCE_DATE_EPOCH, in seconds since 1970, is the maximum of all \
times in the image: later times are set to it.

A UBIFS can grow to the number of LEBs in --max-lebs. Without this option, it can grow to the volume's size, or with --autoresize to the size of the part. If \
neither size is known, it can grow to twice the space that the files can occupy, rounded up to a power of two.

Exit status 1: some data is not in the image bit for bit; the output lists it.")]
pub(crate) struct Args {
    /// Directory or tar with the files, or - for a tar on stdin
    source: PathBuf,

    /// File for the image
    #[arg(long, short, value_name = "FILE")]
    output: OutputFile,

    /// Container of the filesystem
    #[arg(long, value_enum, default_value_t = Format::Ubi)]
    format: Format,

    #[command(flatten)]
    flash: FlashArgs,

    /// Compression of file data [default: lzo; for a JFFS2 zlib, and rtime for data that zlib does not shrink]
    #[arg(long, short = 'x', value_enum, help_heading = "Filesystem")]
    compress: Option<Compress>,

    /// Maximum number of LEBs to which the filesystem can grow
    #[arg(long, short = 'c', value_name = "N", help_heading = "Filesystem")]
    max_lebs: Option<u32>,

    /// UUID of the filesystem [default: computed from the contents]
    #[arg(long, value_name = "UUID", value_parser = uuid, help_heading = "Filesystem")]
    uuid: Option<Uuid>,

    /// Maximum number of children of an index node [default: 8]
    #[arg(long, short = 'f', value_name = "N", help_heading = "Filesystem")]
    fanout: Option<u32>,

    /// Size of the journal, bytes [default: an eighth of the filesystem, at most 8 MiB]
    #[arg(long, short = 'j', value_name = "BYTES", value_parser = sizes::bytes, help_heading = "Filesystem")]
    journal_size: Option<u64>,

    /// Space reserved for root, bytes
    #[arg(long, short = 'R', value_name = "BYTES", value_parser = sizes::bytes, help_heading = "Filesystem")]
    reserved: Option<u64>,

    /// Number of LEBs of the orphan area
    #[arg(long, value_name = "N", help_heading = "Filesystem")]
    orphan_lebs: Option<u32>,

    /// Number of LEBs of the log
    #[arg(long, value_name = "N", help_heading = "Filesystem")]
    log_lebs: Option<u32>,

    /// Let the first mount erase the free space again; needed if the programmer writes FFh to free pages
    #[arg(long, short = 'F', help_heading = "Filesystem")]
    space_fixup: bool,

    /// Store numbers with the most significant byte first
    #[arg(long, help_heading = "JFFS2, YAFFS2, LittleFS and SPIFFS")]
    big_endian: bool,

    /// Write a summary at the end of each eraseblock, as sumtool does; Linux then mounts the image faster
    #[arg(long, help_heading = "JFFS2")]
    summaries: bool,

    /// Size of the image, bytes. The free part is erased, with clean markers in a JFFS2 on NOR [default: the size that the files need;
    /// LittleFS and SPIFFS fill --partition]
    #[arg(long, value_name = "BYTES", value_parser = sizes::bytes, help_heading = "JFFS2, YAFFS2, LittleFS and SPIFFS")]
    pad: Option<u64>,

    /// OOB bytes of a page; 0 puts the tags of YAFFS2 at the end of the page (inband tags) [default: 1/32 of the page]
    #[arg(long, value_name = "BYTES", value_parser = sizes::bytes32, help_heading = "JFFS2, YAFFS2, LittleFS and SPIFFS")]
    oob_size: Option<u32>,

    /// Byte of the OOB at which the tags of YAFFS2 begin: 2 in Linux's layouts, 0 as mkyaffs2image of Android writes them [default: 2]
    #[arg(long, value_name = "BYTE", value_parser = sizes::bytes32, help_heading = "JFFS2, YAFFS2, LittleFS and SPIFFS")]
    tags_at: Option<u32>,

    /// Name of the UBI volume [default: rootfs]
    #[arg(long, value_name = "NAME", help_heading = "UBI")]
    volume: Option<String>,

    /// Size of the volume, bytes [default: the size of the filesystem]
    #[arg(long, value_name = "BYTES", value_parser = sizes::bytes, help_heading = "UBI")]
    volume_size: Option<u64>,

    /// Let the volume grow to all free space when it is first attached
    #[arg(long, help_heading = "UBI")]
    autoresize: bool,

    /// Image sequence number [default: computed from the contents]
    #[arg(long, short = 'Q', value_name = "N", help_heading = "UBI")]
    image_seq: Option<u32>,

    /// Give all files this user and group, as numbers
    #[arg(long, value_name = "UID:GID", value_parser = sizes::owner, help_heading = "Files")]
    owner: Option<(u32, u32)>,

    /// Device table with files to create or change, as for mkfs.ubifs and mkfs.jffs2: name type mode uid gid major minor start inc count
    #[arg(long, short = 'D', value_name = "FILE", help_heading = "Files")]
    device_table: Option<PathBuf>,

    #[command(flatten)]
    report_format: ReportFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A UBI device with one volume
    Ubi,
    /// A bare UBIFS, for ubiupdatevol or ubinize
    Ubifs,
    /// A JFFS2: for NAND if the page size of a NAND is given, else for NOR, with a clean marker in each eraseblock
    Jffs2,
    /// A YAFFS2 with its tags in the OOB, as mkyaffs2image makes it, or at the end of each page
    Yaffs2,
    /// A LittleFS of version 2, with blocks of 4 KiB unless --peb-size is given
    Littlefs,
    /// A SPIFFS as spiffsgen.py of ESP-IDF makes it, by default with pages of 256 bytes and blocks of 4 KiB
    Spiffs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Compress {
    Lzo,
    Zlib,
    Zstd,
    None,
}

#[derive(Clone, Copy)]
struct Uuid([u8; 16]);

fn uuid(text: &str) -> Result<Uuid, String> {
    let wrong = || format!("{text:?} is no UUID: 32 hexadecimal digits, with dashes or without");
    let digits: Vec<u8> = text.bytes().filter(|&byte| byte != b'-').collect();
    let mut bytes = [0; 16];
    if digits.len() != 32 {
        return Err(wrong());
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(Uuid(bytes))
}

pub(crate) fn run(args: &Args) -> Outcome {
    let options = args.options()?;
    let source = source(&args.source)?;
    let output = Output::create(&args.output, &[&args.source])?;
    let file = output.file().try_clone().map_err(|error| output.failed(error))?;
    let failed = |error: BuildError| match &error {
        BuildError::Ubi(UbinizeError::Refused(_)) => Failure::new(&error, error.help()),
        BuildError::Image(_) | BuildError::Ubi(_) => options::failure(&args.output, &error),
        _ => Failure::new(&error, error.help()),
    };
    let built = build(&source, file, &options).map_err(failed)?;
    let write_back = WriteBack::of_built(&options).map_err(failed)?;
    common::finish(output)?;
    if !args.report_format.is_for_programs() {
        options::print_write_back(write_back, &args.output);
    }
    args.report(&built)
}

fn source(path: &Path) -> Result<Source, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Source::Stdin);
    }
    let metadata = std::fs::metadata(path);
    let metadata = metadata.map_err(|error| {
        Failure::new(
            format!("{}: {error}", path.display()),
            "name a directory, a tar, or - for a tar on stdin",
        )
    })?;
    Ok(if metadata.is_dir() { Source::Directory(path.to_owned()) } else { Source::Tar(path.to_owned()) })
}

/// Latest time of files, from SOURCE_DATE_EPOCH; `None` if it is not set.
pub(crate) fn source_date_epoch() -> Result<Option<i64>, Failure> {
    let Some(value) = std::env::var_os("SOURCE_DATE_EPOCH").filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let seconds = value.to_str().and_then(|text| text.parse().ok());
    let wrong = || {
        let message = format!("SOURCE_DATE_EPOCH is {:?}", value.to_string_lossy());
        Failure::new(message, "it is a number of seconds since 1970")
    };
    seconds.map(Some).ok_or_else(wrong)
}

/// Number of free LEBs in an image whose volume is no larger than its filesystem. `image put` and similar commands
/// need them to change the image.
const ROOM_LEBS: u32 = 2;

/// Default number of children of an index node.
const FANOUT: u32 = 8;

impl Args {
    /// Refuses options that the format does not have.
    fn check_format(&self) -> Result<(), Failure> {
        use Format::{Jffs2, Littlefs, Spiffs, Ubi, Ubifs, Yaffs2};
        const FLASH: &[Format] = &[Ubi, Ubifs];
        let given: [(bool, &str, &[Format]); 19] = [
            (self.big_endian, "--big-endian", &[Jffs2, Yaffs2]),
            (self.summaries, "--summaries", &[Jffs2]),
            (self.pad.is_some(), "--pad", &[Jffs2, Littlefs, Spiffs]),
            (self.oob_size.is_some(), "--oob-size", &[Yaffs2]),
            (self.tags_at.is_some(), "--tags-at", &[Yaffs2]),
            (self.max_lebs.is_some(), "--max-lebs", FLASH),
            (self.uuid.is_some(), "--uuid", FLASH),
            (self.journal_size.is_some(), "--journal-size", FLASH),
            (self.reserved.is_some(), "--reserved", FLASH),
            (self.orphan_lebs.is_some(), "--orphan-lebs", FLASH),
            (self.log_lebs.is_some(), "--log-lebs", FLASH),
            (self.space_fixup, "--space-fixup", FLASH),
            (self.volume_size.is_some(), "--volume-size", FLASH),
            (self.autoresize, "--autoresize", FLASH),
            (self.image_seq.is_some(), "--image-seq", FLASH),
            (self.volume.is_some(), "--volume", FLASH),
            (self.fanout.is_some(), "--fanout", FLASH),
            (self.compress.is_some(), "--compress", &[Ubi, Ubifs, Jffs2]),
            (self.owner.is_some(), "--owner", &[Ubi, Ubifs, Jffs2, Yaffs2]),
        ];
        let foreign =
            given.iter().find(|(is_given, _, formats)| *is_given && !formats.contains(&self.format));
        let Some((_, option, formats)) = foreign else { return Ok(()) };
        let whose = match formats {
            [Jffs2] => "of JFFS2",
            [Yaffs2] => "of YAFFS2",
            [Jffs2, Yaffs2] => "of JFFS2 and YAFFS2",
            [Ubi, Ubifs, Jffs2] => "of UBIFS and JFFS2",
            [Ubi, Ubifs, Jffs2, ..] => "of UBIFS, JFFS2 and YAFFS2",
            [Jffs2, ..] => "of JFFS2, LittleFS and SPIFFS",
            _ => "of UBIFS and UBI",
        };
        let not = match self.format {
            Ubi | Ubifs => "UBI and UBIFS",
            Jffs2 => "a JFFS2",
            Yaffs2 => "a YAFFS2",
            Littlefs => "a LittleFS",
            Spiffs => "a SPIFFS",
        };
        let message = format!("{option} is an option {whose}, and has no effect on {not}");
        Err(Failure::new(message, "leave it out, or take another --format"))
    }

    /// Size of an image that fills its partition.
    fn whole(&self) -> Result<u64, Failure> {
        match (self.pad, self.flash.partition()) {
            (Some(pad), Some(partition)) if pad != partition => Err(Failure::new(
                "--pad and --partition differ, and LittleFS and SPIFFS fill their partition",
                "give one of them",
            )),
            (Some(bytes), _) | (None, Some(bytes)) => Ok(bytes),
            (None, None) => Err(Failure::new(
                "the size of the image is not known: LittleFS and SPIFFS fill their partition",
                "give the bytes of the partition with --pad",
            )),
        }
    }

    /// Refuses a partition without a chip for a JFFS2 or YAFFS2, on which the size of the partition alone has no
    /// effect.
    fn check_partition(&self) -> Result<(), Failure> {
        const CHIP: &str = "--part NAME (`floatgate list parts` lists them) or --setup NAME";
        let help = match self.format {
            _ if !self.flash.is_partition_alone() => return Ok(()),
            Format::Jffs2 => format!("give the size of the image with --pad, or add {CHIP}"),
            Format::Yaffs2 => format!("leave it out, or add {CHIP}"),
            // The sizes of flash have their own reason.
            Format::Ubi | Format::Ubifs | Format::Littlefs | Format::Spiffs => return Ok(()),
        };
        Err(Failure::new("--partition is a part of a chip, and no chip is named", help))
    }

    fn options(&self) -> Result<BuildOptions, Failure> {
        self.check_format()?;
        self.check_partition()?;
        let whole = match self.format {
            Format::Littlefs | Format::Spiffs => self.whole()?,
            _ => 0,
        };
        let shape = match self.format {
            Format::Jffs2 => self.flash.shape_for_jffs2()?,
            Format::Ubi | Format::Ubifs | Format::Yaffs2 => self.flash.shape()?,
            Format::Littlefs | Format::Spiffs => self.flash.shape_of_blocks()?,
        };
        let container = match self.format {
            Format::Yaffs2 => Container::Tree(TreeOptions::Yaffs(YaffsOptions {
                big_endian: self.big_endian,
                oob_bytes: self.oob_size.unwrap_or(shape.page_bytes / 32),
                tags_at: self.tags_at.unwrap_or(2),
            })),
            Format::Littlefs => Container::Tree(TreeOptions::Littlefs { bytes: whole }),
            Format::Spiffs => Container::Tree(TreeOptions::Spiffs { bytes: whole }),
            Format::Ubifs => Container::None,
            Format::Jffs2 => Container::Jffs2(Jffs2Options {
                big_endian: self.big_endian,
                summaries: self.summaries,
                pad_bytes: self.pad,
            }),
            Format::Ubi => Container::Ubi {
                name: self.volume.clone().unwrap_or_else(|| "rootfs".to_owned()),
                autoresize: self.autoresize,
                image_seq: self.image_seq,
            },
        };
        let format = FormatOptions {
            max_lebs: self.max_lebs,
            journal_bytes: self.journal_size,
            reserved_bytes: self.reserved,
            orphan_lebs: self.orphan_lebs,
            log_lebs: self.log_lebs,
            fanout: self.fanout.unwrap_or(FANOUT),
            space_fixup: self.space_fixup,
            room_lebs: if self.autoresize || self.volume_size.is_some() { 0 } else { ROOM_LEBS },
            compression: match self.compress {
                Some(Compress::Lzo) => Compression::Lzo,
                Some(Compress::Zlib) => Compression::Zlib,
                Some(Compress::Zstd) => Compression::Zstd,
                Some(Compress::None) => Compression::None,
                None if self.format == Format::Jffs2 => Compression::Zlib,
                None => Compression::Lzo,
            },
            ..FormatOptions::default()
        };
        let device_table = self.device_table.as_ref().map(|path| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| Failure::new(format!("{}: {error}", path.display()), "name a text file"))
        });
        Ok(BuildOptions {
            shape,
            container,
            format,
            uuid: self.uuid.map(|uuid| uuid.0),
            volume_bytes: self.volume_size,
            overrides: Overrides { owner: self.owner, latest: source_date_epoch()? },
            device_table: device_table.transpose()?,
        })
    }

    fn report(&self, built: &Built) -> Outcome {
        self.report_format.print(&ResultKind::ImageBuild.of(&self.source), built, "", || {
            let entries = usize::try_from(built.entries).unwrap_or(usize::MAX);
            let blocks = match self.format {
                Format::Jffs2 | Format::Yaffs2 | Format::Littlefs | Format::Spiffs => {
                    count(built.lebs as usize, "eraseblock")
                }
                Format::Ubi | Format::Ubifs => {
                    format!("{}, at most {}", count(built.lebs as usize, "LEB"), built.max_lebs)
                }
            };
            format!(
                "{}: {}, {}, in {} bytes; {blocks}",
                self.output.display(),
                count(entries, "entry"),
                grouped_count(built.bytes, "byte"),
                grouped(built.image_bytes),
            )
        })?;
        if !self.report_format.is_for_programs() {
            print_warnings(&built.warnings);
            print_losses("not in the image bit for bit", &built.losses);
        }
        Ok(if built.losses.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}
