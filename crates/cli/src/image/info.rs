//! `floatgate image info`.

use super::options::{self, ImageArgs};
use crate::common::{self, Outcome};
use floatgate_lab::image::Access;
use floatgate_lab::image::info::{ImageInfo, selected_info};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image info dump.bin
  floatgate image info dump.bin --json
  floatgate image info two-volumes.ubi --volume data")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// Machine-readable output (schema: docs/json.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let image = args.image.open(Access::Read)?;
    let info: ImageInfo = selected_info(image, &args.image.selection())
        .map_err(|error| options::failure(&args.image.image, &error))?;
    if args.json {
        return common::print_json(&info);
    }
    common::print(&info.to_string());
    Ok(ExitCode::SUCCESS)
}
