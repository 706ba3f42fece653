//! `floatgate image info`.

use super::options::{self, ImageArgs};
use crate::common::Outcome;
use crate::output::ReportFormat;
use floatgate_image::Access;
use floatgate_image::info::{ImageInfo, selected_info};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image info dump.bin
  floatgate image info dump.bin --json
  floatgate image info two-volumes.ubi --volume data")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let image = args.image.open(Access::Read)?;
    let info: ImageInfo = selected_info(&image, &args.image.selection())
        .map_err(|error| options::failure(&args.image.image, &error))?;
    args.format.finish(&info, "images", || info.to_string())
}
