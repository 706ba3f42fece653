//! `floatgate image ubinize`.

use super::options::{self, print_warnings};
use super::sizes::FlashArgs;
use crate::common::{self, Failure, Outcome, count};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use floatgate_host::output::Output;
use floatgate_image::check::Finding;
use floatgate_image::ubinize::{Headers, UbinizeError, image_seq, read, ubinize};
use floatgate_image::write_back::WriteBack;
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_mtd::advice::Help;
use floatgate_stack::FileStore;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image ubinize volumes.ini -o new.ubi --part mt29f2g08aad
  floatgate image ubinize volumes.ini -o new.ubi -p 128KiB -m 2048 -s 512 -Q 1234

A section of the ini file is a volume:
  [rootfs]
  mode=ubi
  image=rootfs.ubifs
  vol_id=0
  vol_type=dynamic
  vol_name=rootfs
  vol_size=200MiB
  vol_flags=autoresize
Paths in the ini file are relative to its folder. Without -Q, the image sequence number is computed from the ini file and the images, so that the same input \
gives the same bytes.")]
pub(crate) struct Args {
    /// Ini file that lists the volumes
    ini: PathBuf,

    /// File for the image
    #[arg(long, short, value_name = "FILE")]
    output: OutputFile,

    #[command(flatten)]
    flash: FlashArgs,

    /// Image sequence number [default: computed from the input]
    #[arg(long, short = 'Q', value_name = "N")]
    image_seq: Option<u32>,

    /// Erase counter of every PEB
    #[arg(long, short = 'e', value_name = "N", default_value_t = 0)]
    erase_counter: u32,

    /// Version of UBI; only 1 exists
    #[arg(long, short = 'x', value_name = "N", value_parser = clap::value_parser!(u8).range(1..=1), default_value_t = 1)]
    ubi_ver: u8,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let failed = |error: UbinizeError| match &error {
        UbinizeError::Store(_) => options::failure(&args.output, &error),
        _ => Failure::new(&error, error.help()),
    };
    let volumes = read(&args.ini).map_err(failed)?;
    let shape = args.flash.shape()?;
    let geometry = shape.ubi().map_err(|error| Failure::new(&error, error.help()))?;
    let headers = Headers {
        geometry,
        image_seq: args.image_seq.map_or_else(|| image_seq(&volumes), Ok).map_err(failed)?,
        erase_count: u64::from(args.erase_counter),
    };
    let images = volumes.iter().filter_map(|volume| volume.image.as_deref());
    let inputs: Vec<&Path> = images.chain([args.ini.as_path()]).collect();
    let output = Output::create(&args.output, &inputs)?;
    let file = output.file().try_clone().map_err(|error| output.failed(error))?;
    let mut store = FileStore::new(file).map_err(|error| failed(error.into()))?;
    let made = ubinize(&shape, &headers, &volumes, &mut store).map_err(failed)?;
    common::finish(output)?;
    if !args.format.is_for_programs() {
        let vid_header_offset = geometry.vid_header_offset();
        options::print_write_back(WriteBack::Ubi { vid_header_offset }, &args.output);
    }
    let report = Report {
        file: args.output.display().to_string(),
        volumes: volumes.len(),
        pebs: made.pebs,
        peb_bytes: shape.peb_bytes,
        image_seq: made.image_seq,
        warnings: made.warnings,
    };
    if !args.format.is_for_programs() {
        print_warnings(&report.warnings);
    }
    args.format.finish(&ResultKind::ImageUbinize.of(&args.ini), &report, "", || report.to_string())
}

/// Report about the image that was written.
#[derive(Serialize)]
struct Report {
    file: String,
    volumes: usize,
    pebs: u32,
    peb_bytes: u32,
    image_seq: u32,
    /// Warnings about volumes that Linux probably uses in another way than intended.
    warnings: Vec<Finding>,
}

impl Concluded for Report {
    /// Number of warnings about the volumes.
    fn conclusion(&self) -> String {
        match self.warnings.len() {
            0 => String::new(),
            1 => "1 remark on the volumes: Linux may not use one as it was meant.".to_owned(),
            remarks => {
                format!("{remarks} remarks on the volumes: Linux may not use all of them as they were meant.")
            }
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, peb_bytes, image_seq, .. } = self;
        let (volumes, pebs) = (count(self.volumes, "volume"), count(self.pebs as usize, "PEB"));
        write!(f, "{file}: {volumes} in {pebs} of {peb_bytes} bytes, image sequence number {image_seq}")
    }
}
