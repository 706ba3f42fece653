//! Programs of mtd-utils that create images: mkfs.ubifs, ubinize, mkfs.jffs2 and sumtool.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::Run;
use crate::common::{self, Failure, Outcome};
use crate::image::sizes::{bytes, bytes32};
use crate::image::{failure, source_date_epoch};
use crate::terminal::print_note;
use floatgate_host::output::Output;
use floatgate_image::build::{
    BuildError, BuildOptions, Built, Container, FlashShape, Jffs2Options, Overrides, Source, build,
};
use floatgate_image::extract::{ExtractLimits, Extractions, TarTarget};
use floatgate_image::ubinize::{self, Headers, UbinizeError};
use floatgate_image::{Access, FlashSizes, Image, ImageError, Selection};
use floatgate_mtd::advice::Help;
use floatgate_stack::FileStore;
use floatgate_stack::fs::Compression;
use floatgate_stack::ubifs::FormatOptions;

/// Size of UBI's headers on flash that is written byte by byte, bytes.
const NOR_HEADERS: u32 = 128;

/// Make a UBIFS image from a directory.
#[derive(clap::Parser)]
#[command(about, version)]
pub(super) struct MkfsUbifs {
    /// Build the filesystem from this directory
    #[arg(short, short_alias = 'd', long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Minimum I/O unit, bytes
    #[arg(short, long, value_parser = bytes32)]
    min_io_size: u32,

    /// Bytes of a LEB
    #[arg(short = 'e', long, value_parser = bytes32)]
    leb_size: u32,

    /// Maximum number of LEBs
    #[arg(short = 'c', long)]
    max_leb_cnt: u32,

    /// File for the image
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Size of the journal, bytes
    #[arg(short, long, value_parser = bytes)]
    jrn_size: Option<u64>,

    /// Space reserved for root, bytes
    #[arg(short = 'R', long, value_parser = bytes)]
    reserved: Option<u64>,

    /// Compression: lzo, zlib, zstd or none
    #[arg(short = 'x', long, default_value = "lzo", value_parser = ["lzo", "zlib", "zstd", "none"])]
    compr: String,

    /// Maximum number of children of an index node
    #[arg(short, long, default_value_t = 8)]
    fanout: u32,

    /// Let the first mount erase the free space again
    #[arg(short = 'F', long)]
    space_fixup: bool,

    /// Hash of keys; only r5 is supported
    #[arg(short, long, default_value = "r5", value_parser = ["r5"])]
    keyhash: String,

    /// Number of LEBs of the orphan area
    #[arg(short = 'p', long, default_value_t = 1)]
    orph_lebs: u32,

    /// Device table
    #[arg(short = 'D', long, value_name = "FILE")]
    devtable: Option<PathBuf>,

    /// Give all files to root
    #[arg(short = 'U', long)]
    squash_uids: bool,

    /// Number of LEBs of the log
    #[arg(short, long)]
    log_lebs: Option<u32>,

    /// No effect, accepted for compatibility: no confirmation is asked
    #[arg(short, long)]
    yes: bool,

    /// Print a report about the new image
    #[arg(short, long)]
    verbose: bool,

    /// File for the image, if -o does not name it
    target: Option<PathBuf>,
}

/// Text of a device table.
fn table(path: Option<&PathBuf>) -> Result<Option<String>, Failure> {
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path);
        text.map_err(|error| Failure::new(format!("{}: {error}", path.display()), "name a text file"))
    };
    path.map(read).transpose()
}

fn build_failed(path: &Path, error: &BuildError) -> Failure {
    match error {
        BuildError::Image(_) | BuildError::Ubi(_) => failure(path, error),
        _ => Failure::new(error, error.help()),
    }
}

/// Reports the image that was created. The exit status is 0 even if files lose attributes, as in mtd-utils.
fn made(path: &Path, built: &Built, is_verbose: bool) -> Outcome {
    for loss in &built.losses {
        print_note(&format!("warning: {loss}"));
    }
    if is_verbose {
        print_note(&format!("{}: {} entries, {} bytes", path.display(), built.entries, built.image_bytes));
    }
    Ok(ExitCode::SUCCESS)
}

impl MkfsUbifs {
    /// Flash with LEBs of the requested size. It has sub-pages if the block size is then a power of two.
    const fn shape(&self) -> FlashShape {
        let page = self.min_io_size;
        let headers = match page {
            0..64 => NOR_HEADERS,
            _ if self.leb_size.saturating_add(page).is_power_of_two() => page,
            _ => page.saturating_mul(2),
        };
        let sub_page = if headers == page && page >= 512 { page / 4 } else { page };
        FlashShape {
            page_bytes: page,
            sub_page_bytes: sub_page,
            peb_bytes: self.leb_size.saturating_add(headers),
            vid_header_offset: None,
            size: None,
        }
    }

    fn options(&self) -> Result<BuildOptions, Failure> {
        Ok(BuildOptions {
            shape: self.shape(),
            container: Container::None,
            format: FormatOptions {
                max_lebs: Some(self.max_leb_cnt),
                journal_bytes: self.jrn_size,
                reserved_bytes: self.reserved,
                orphan_lebs: Some(self.orph_lebs),
                log_lebs: self.log_lebs,
                fanout: self.fanout,
                space_fixup: self.space_fixup,
                compression: match self.compr.as_str() {
                    "zlib" => Compression::Zlib,
                    "zstd" => Compression::Zstd,
                    "none" => Compression::None,
                    _ => Compression::Lzo,
                },
                ..FormatOptions::default()
            },
            uuid: None,
            volume_bytes: None,
            overrides: Overrides { owner: self.squash_uids.then_some((0, 0)), latest: source_date_epoch()? },
            device_table: table(self.devtable.as_ref())?,
        })
    }
}

impl Run for MkfsUbifs {
    fn run(&self) -> Outcome {
        let target = self.output.as_ref().or(self.target.as_ref());
        let target = target.ok_or_else(|| Failure::new("no output is named", "name it with -o"))?;
        let folder = tempfile::tempdir().map_err(|error| Failure::new(error, "make room in TMPDIR"))?;
        // Without -r the filesystem is empty.
        let root = self.root.clone().unwrap_or_else(|| folder.path().to_owned());
        let output = Output::create(target, &[&root])?;
        let file = output.file().try_clone().map_err(|error| output.failed(error))?;
        let built = build(&Source::Directory(root), file, &self.options()?);
        let built = built.map_err(|error| build_failed(target, &error))?;
        common::finish(output)?;
        made(target, &built, self.verbose)
    }
}

/// Make a UBI image of the volumes that an ini file lists.
#[derive(clap::Parser)]
#[command(about, version)]
pub(super) struct Ubinize {
    /// File for the image
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Bytes of a PEB
    #[arg(short, long, value_parser = bytes32)]
    peb_size: u32,

    /// Minimum I/O unit, bytes
    #[arg(short, long, value_parser = bytes32)]
    min_io_size: u32,

    /// Minimum I/O unit of headers, bytes
    #[arg(short, long, value_parser = bytes32)]
    sub_page_size: Option<u32>,

    /// Byte of a PEB where the VID header begins
    #[arg(short = 'O', long)]
    vid_hdr_offset: Option<u32>,

    /// Erase counter of every PEB
    #[arg(short, long, default_value_t = 0)]
    erase_counter: u64,

    /// Version of UBI; only 1 exists
    #[arg(short = 'x', long, value_parser = clap::value_parser!(u8).range(1..=1), default_value_t = 1)]
    ubi_ver: u8,

    /// Image sequence number [default: computed from the input]
    #[arg(short = 'Q', long)]
    image_seq: Option<u32>,

    /// Print a report about the new image
    #[arg(short, long)]
    verbose: bool,

    /// Ini file that lists the volumes
    ini: PathBuf,
}

impl Ubinize {
    /// Volumes of the ini file, whose paths are relative to the working directory.
    fn volumes(&self) -> Result<Vec<ubinize::VolumeSource>, Failure> {
        let failed = |error: UbinizeError| Failure::new(&error, error.help());
        let text = std::fs::read_to_string(&self.ini)
            .map_err(|error| Failure::new(format!("{}: {error}", self.ini.display()), "name the ini file"))?;
        ubinize::parse(&text, Path::new("")).map_err(failed)
    }
}

impl Run for Ubinize {
    fn run(&self) -> Outcome {
        let failed = |error: UbinizeError| Failure::new(&error, error.help());
        let volumes = self.volumes()?;
        let shape = FlashShape {
            page_bytes: self.min_io_size,
            sub_page_bytes: self.sub_page_size.unwrap_or(self.min_io_size),
            peb_bytes: self.peb_size,
            vid_header_offset: self.vid_hdr_offset,
            size: None,
        };
        let headers = Headers {
            geometry: shape.ubi().map_err(|error| Failure::new(&error, error.help()))?,
            image_seq: self.image_seq.map_or_else(|| ubinize::image_seq(&volumes), Ok).map_err(failed)?,
            erase_count: self.erase_counter,
        };
        let inputs: Vec<&Path> =
            volumes.iter().filter_map(|volume| volume.image.as_deref()).chain([self.ini.as_path()]).collect();
        let output = Output::create(&self.output, &inputs)?;
        let file = output.file().try_clone().map_err(|error| output.failed(error))?;
        let mut store = FileStore::new(file).map_err(|error| failed(error.into()))?;
        let done = ubinize::ubinize(&shape, &headers, &volumes, &mut store).map_err(failed)?;
        common::finish(output)?;
        if self.verbose {
            print_note(&format!("{}: {} PEBs", self.output.display(), done.pebs));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Make a JFFS2 image from a directory.
#[derive(clap::Parser)]
#[command(about, version)]
pub(super) struct MkfsJffs2 {
    /// Build the filesystem from this directory [default: the current one]
    #[arg(short, short_alias = 'd', long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Fill the image up to SIZE bytes, as -pSIZE or --pad=SIZE; without SIZE to a whole eraseblock
    #[arg(short, long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = bytes)]
    pad: Option<u64>,

    /// Page size of the machine; only 4KiB is supported
    #[arg(short = 's', long, value_name = "SIZE", value_parser = bytes32, default_value = "4KiB")]
    pagesize: u32,

    /// Bytes of an eraseblock; a number below 4096 is in KiB
    #[arg(short, long, value_name = "SIZE", value_parser = bytes32, default_value = "64KiB")]
    eraseblock: u32,

    /// Bytes of a clean marker: 12, or 0 for none
    #[arg(short, long, value_name = "SIZE", default_value_t = 12)]
    cleanmarker: u32,

    /// Do not write clean markers, for NAND
    #[arg(short, long)]
    no_cleanmarkers: bool,

    /// Mode of compression: none, priority or size
    #[arg(short = 'm', long, default_value = "priority", value_parser = ["none", "priority", "size"])]
    compression_mode: String,

    /// Compressor to disable; accepted for lzo, which is never used
    #[arg(short = 'x', long, value_name = "NAME", value_parser = ["lzo"])]
    disable_compressor: Vec<String>,

    /// File for the image [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Store numbers with the least significant byte first
    #[arg(short, long, conflicts_with = "big_endian")]
    little_endian: bool,

    /// Store numbers with the most significant byte first
    #[arg(short, long)]
    big_endian: bool,

    /// Device table
    #[arg(short = 'D', long, value_name = "FILE")]
    devtable: Option<PathBuf>,

    /// Set all times to 0
    #[arg(short, long)]
    faketime: bool,

    /// Give all files to root
    #[arg(short = 'U', long)]
    squash_uids: bool,

    /// No effect, accepted for compatibility: extended attributes are always stored
    #[arg(long)]
    with_xattr: bool,

    /// Print a report about the new image
    #[arg(short, long)]
    verbose: bool,
}

/// Size of an eraseblock in bytes: mtd-utils interpret a small number as KiB.
const fn eraseblock(size: u32) -> u32 {
    if size < 4096 { size.saturating_mul(1024) } else { size }
}

/// Build options of a JFFS2.
fn jffs2(
    eraseblock: u32,
    is_nand: bool,
    own: Jffs2Options,
    compression: Compression,
    overrides: Overrides,
) -> BuildOptions {
    // Without clean markers the image is for NAND. Of its chip only the page size is known.
    let page = if is_nand { 512 } else { 1 };
    BuildOptions {
        shape: FlashShape {
            page_bytes: page,
            sub_page_bytes: page,
            peb_bytes: eraseblock,
            vid_header_offset: None,
            size: None,
        },
        container: Container::Jffs2(own),
        format: FormatOptions { compression, ..FormatOptions::default() },
        uuid: None,
        volume_bytes: None,
        overrides,
        device_table: None,
    }
}

/// Builds into a file, or into a temporary file that is copied to stdout.
fn build_to(path: Option<&PathBuf>, source: &Source, options: &BuildOptions) -> Result<Built, Failure> {
    if let Some(path) = path {
        let output = Output::create(path, &[])?;
        let file = output.file().try_clone().map_err(|error| output.failed(error))?;
        let built = build(source, file, options).map_err(|error| build_failed(path, &error))?;
        common::finish(output)?;
        return Ok(built);
    }
    let failed = |error: io::Error| Failure::new(error, "make room in TMPDIR, and for what stdout leads to");
    let mut file = tempfile::tempfile().map_err(failed)?;
    let copy = file.try_clone().map_err(failed)?;
    let built = build(source, copy, options).map_err(|error| build_failed(Path::new("-"), &error))?;
    file.rewind().map_err(failed)?;
    let mut out = Output::stdout()?;
    io::copy(&mut file, &mut out).map_err(failed)?;
    Ok(built)
}

/// Short options of mkfs.jffs2 without a value.
const JFFS2_FLAGS: &str = "nlbfUvhV";

/// Splits `-p` and its value, a number directly after it, from an argument with several short options. Clap would
/// require an equals sign.
fn split_pad(argument: &str) -> Option<Vec<OsString>> {
    let options = argument.strip_prefix('-').filter(|options| !options.starts_with('-'))?;
    let (before, after) = options.split_once('p')?;
    if !before.chars().all(|option| JFFS2_FLAGS.contains(option)) || after.starts_with('=') {
        return None;
    }
    let mut split: Vec<OsString> = Vec::new();
    if !before.is_empty() {
        split.push(format!("-{before}").into());
    }
    if after.starts_with(|first: char| first.is_ascii_digit()) {
        split.push(format!("--pad={after}").into());
        return Some(split);
    }
    split.push("--pad".into());
    if !after.is_empty() {
        split.push(format!("-{after}").into());
    }
    Some(split)
}

impl Run for MkfsJffs2 {
    fn arguments(arguments: &[OsString]) -> Vec<OsString> {
        let split = |argument: &OsString| {
            let split = argument.to_str().and_then(split_pad);
            split.unwrap_or_else(|| vec![argument.clone()])
        };
        arguments.iter().flat_map(split).collect()
    }

    fn run(&self) -> Outcome {
        if self.pagesize != 4096 {
            return Err(Failure::new(
                format!("--pagesize {} is not supported: nodes have up to 4096 bytes of data", self.pagesize),
                "leave --pagesize out: Linux on a machine with pages of 4 KiB reads the image",
            ));
        }
        if !matches!(self.cleanmarker, 0 | 12) {
            return Err(Failure::new(
                "a clean marker has 12 bytes",
                "leave --cleanmarker out, or --no-cleanmarkers",
            ));
        }
        let erase = eraseblock(self.eraseblock);
        let own = Jffs2Options {
            big_endian: self.big_endian,
            summaries: false,
            // The last eraseblock is also padded if no size is given.
            pad_bytes: self.pad.filter(|bytes| *bytes > 1),
        };
        let latest = if self.faketime { Some(0) } else { source_date_epoch()? };
        let overrides = Overrides { owner: self.squash_uids.then_some((0, 0)), latest };
        let is_nand = self.no_cleanmarkers || self.cleanmarker == 0;
        let compression = if self.compression_mode == "none" { Compression::None } else { Compression::Zlib };
        let options = jffs2(erase, is_nand, own, compression, overrides);
        let options = BuildOptions { device_table: table(self.devtable.as_ref())?, ..options };
        let root = self.root.clone().unwrap_or_else(|| PathBuf::from("."));
        let built = build_to(self.output.as_ref(), &Source::Directory(root), &options)?;
        made(self.output.as_deref().unwrap_or(Path::new("stdout")), &built, self.verbose)
    }
}

/// Write a JFFS2 image anew with summaries at the end of its eraseblocks.
#[derive(clap::Parser)]
#[command(about, version)]
pub(super) struct Sumtool {
    /// Bytes of an eraseblock; a number below 4096 is in KiB
    #[arg(short, long, value_name = "SIZE", value_parser = bytes32, default_value = "64KiB")]
    eraseblock: u32,

    /// Bytes of a clean marker: 12, or 0 for none
    #[arg(short, long, value_name = "SIZE", default_value_t = 12)]
    cleanmarker: u32,

    /// Do not write clean markers, for NAND
    #[arg(short, long)]
    no_cleanmarkers: bool,

    /// File for the new image
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Image to read: JFFS2 without summaries
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,

    /// No effect, accepted for compatibility: the image's own byte order is used
    #[arg(short, long, visible_alias = "big-endian")]
    bigendian: bool,

    /// No effect, accepted for compatibility: the image's own byte order is used
    #[arg(short, long, visible_alias = "little-endian")]
    littleendian: bool,

    /// No effect, accepted for compatibility: the last eraseblock is always padded
    #[arg(short, long)]
    pad: bool,

    /// Print a report about the new image
    #[arg(short, long)]
    verbose: bool,
}

impl Sumtool {
    /// Writes the files of the image into a tar. The flag is true if the image is big-endian.
    fn files(&self) -> Result<(tempfile::NamedTempFile, bool), Failure> {
        let failed = |error: ImageError| failure(&self.input, &error);
        let sizes = FlashSizes { peb_bytes: Some(eraseblock(self.eraseblock)), ..FlashSizes::default() };
        let image = Image::open_sized(&self.input, Access::Read, sizes).map_err(failed)?;
        let info = floatgate_image::info::info(&image).map_err(failed)?;
        let jffs2 = info.images.iter().find_map(|one| one.jffs2.as_ref());
        let is_big = jffs2.ok_or_else(|| failed(ImageError::Nothing))?.shape.big_endian;
        let host = |error: io::Error| Failure::new(error, "make room in TMPDIR");
        let file = tempfile::Builder::new().suffix(".tar").tempfile().map_err(host)?;
        let copy: File = file.as_file().try_clone().map_err(host)?;
        let mut tar = TarTarget::new(BufWriter::new(copy));
        let extractions = Extractions::open(&image, &Selection::default()).map_err(failed)?;
        let extracted = extractions
            .run(&mut tar, &ExtractLimits::default(), &|_| {})
            .map_err(|error| Failure::new(&error, error.help()))?;
        tar.finish()
            .and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error))
            .map_err(host)?;
        if let Some(loss) = extracted.losses.first() {
            return Err(Failure::new(loss, "`floatgate image check --repair` makes a clean image first"));
        }
        Ok((file, is_big))
    }
}

impl Run for Sumtool {
    fn run(&self) -> Outcome {
        let (tar, big_endian) = self.files()?;
        let own = Jffs2Options { big_endian, summaries: true, pad_bytes: None };
        let is_nand = self.no_cleanmarkers || self.cleanmarker == 0;
        let options =
            jffs2(eraseblock(self.eraseblock), is_nand, own, Compression::Zlib, Overrides::default());
        let source = Source::Tar(tar.path().to_owned());
        let built = build_to(Some(&self.output), &source, &options)?;
        made(&self.output, &built, self.verbose)
    }
}
