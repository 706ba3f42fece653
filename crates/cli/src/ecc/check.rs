//! `floatgate ecc check`.

use super::files::Input;
use super::options::{ApartArgs, CodeArgs, GeometryArgs};
use super::show::{self, Told};
use crate::common::Outcome;
use floatgate_lab::ecc::{self, DecodeOptions, Dump};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc check dump.nand --part mt29f2g08aad
  floatgate ecc check dump.nand --page-size 2048 --oob-size 64 --code bch4/512
  floatgate ecc check dump.nand --part mt29f2g08aad --code bch4/512 --json

Exit status 1 when something is uncorrectable.")]
pub(crate) struct Args {
    /// The dump: pages with OOB, one after the other; - for stdin
    file: PathBuf,

    #[command(flatten)]
    geometry: GeometryArgs,

    #[command(flatten)]
    code: CodeArgs,

    #[command(flatten)]
    apart: ApartArgs,

    /// Most bits of an erased step that may read 0; as many as the code corrects when absent
    #[arg(long, value_name = "BITS")]
    erased_bitflips: Option<u32>,

    /// Machine-readable report (schema: docs/json.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let told = Told::new(None, args.json)?;
    let scheme = args.code.scheme(&args.geometry)?;
    let (mut input, mut apart) = (Input::open(&args.file)?, args.apart.open()?);
    let bar = input.progress();
    let mut progress = |bytes| bar.set_position(bytes);
    let dump = Dump { pages: &mut input.reader, apart: args.apart.apart(&mut apart) };
    let options = DecodeOptions { erased_threshold: args.erased_bitflips, ..DecodeOptions::default() };
    let decoded = ecc::decode(&scheme, dump, None, options, &mut progress);
    bar.finish_and_clear();
    let report = decoded.map_err(|error| args.apart.failure(&error, &args.file, None))?;
    told.report(&report, || show::decoded(&report))?;
    Ok(show::code(&report))
}
