//! `floatgate ecc encode`.

use super::files::{self, Input};
use super::options::{CodeArgs, GeometryArgs};
use super::show::{self, ReportDestination};
use crate::common::{self, Outcome};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use floatgate_host::output::Output;
use floatgate_image::ecc::{self, EccError, Form};
use floatgate_lab::report::ResultKind;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o rootfs.nand
  floatgate ecc encode rootfs.ubi --page-size 2048 --oob-size 64 --code hamming/256 -o rootfs.nand
  floatgate ecc encode rootfs.ubi --part mt29f2g08aad --code bch4/512 --oob-only -o rootfs.oob
  floatgate ecc encode rootfs.ubi --part mt29f2g08aad --code bch4/512 --ecc-only -o rootfs.ecc
  floatgate ecc encode rootfs.ubi --part mt29f2g08aad --code bch8/1024@17475 -o rootfs.nand

The last page is filled with FFh. Unused OOB bytes, bad block markers and all bytes of erased pages are FFh.")]
pub(crate) struct Args {
    /// File with the data, an image without OOB; - for stdin
    file: PathBuf,

    #[command(flatten)]
    geometry: GeometryArgs,

    #[command(flatten)]
    code: CodeArgs,

    /// Write only the OOB of each page
    #[arg(long, conflicts_with = "ecc_only")]
    oob_only: bool,

    /// Write only the ECC bytes of each page, in order
    #[arg(long)]
    ecc_only: bool,

    /// Output file, written completely or not at all; - for stdout, with the report on stderr
    #[arg(short, long, value_name = "OUT")]
    output: OutputFile,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let destination = ReportDestination::new(Some(&args.output), args.format)?;
    let scheme = args.code.scheme(&args.geometry)?;
    let mut input = Input::open(&args.file)?;
    let mut output = Output::stream(&args.output, &[&args.file])?;
    let bar = input.progress();
    let mut progress = |bytes| bar.set_position(bytes);
    let encoded = ecc::encode(&scheme, args.form(), &mut input.reader, &mut output, &mut progress);
    bar.finish_and_clear();
    let report = encoded.map_err(|error| match error {
        EccError::Write { .. } => files::failure(&args.output, &error),
        _ => files::failure(&args.file, &error),
    })?;
    common::finish(output)?;
    destination.report(&ResultKind::EccEncode.of(&args.file), &report, || show::encoded(&report))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    const fn form(&self) -> Form {
        match (self.oob_only, self.ecc_only) {
            (true, _) => Form::OnlyOob,
            (_, true) => Form::OnlyEcc,
            _ => Form::WithOob,
        }
    }
}
