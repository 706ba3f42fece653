//! `floatgate image info`.

use super::options::{self, ImageArgs};
use super::sizes::ChipArgs;
use crate::common::Outcome;
use crate::output::ReportFormat;
use crate::terminal;
use floatgate_image::info::{ImageInfo, selected_info};
use floatgate_image::{ImageError, Selection};
use floatgate_lab::report::ResultKind;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image info dump.bin
  floatgate image info dump.bin --json
  floatgate image info two-volumes.ubi --volume data
  floatgate image info rootfs.ubi --part mx30lf2g18ac --partition 64MiB
  floatgate image info flash.nand --page-size 4096 --oob-size 224 --block-pages 128

The page sizes and the ECC codes of a NAND dump with OOB are detected, region by region.

Exit status 1: the OOB of an image's pages fits no ECC code, so these pages are not corrected.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    #[command(flatten)]
    chip: ChipArgs,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    args.image.refuse_keys("the description of an image needs no key")?;
    let selection = Selection { flash: args.chip.target()?, ..args.image.selection() };
    let info = match args.image.try_read() {
        Err(ImageError::Blank(0xFF)) => Ok(ImageInfo::erased()),
        opened => opened.and_then(|image| selected_info(&image, &selection)),
    };
    let info = info.map_err(|error| options::failure(&args.image.image, &error))?;
    args.format.print(&args.image.origin(ResultKind::ImageInfo), &info, "images", || info.to_string())?;
    let is_guess =
        info.images.iter().filter_map(|one| one.jffs2.as_ref()).any(|jffs2| jffs2.shape.erase_is_guess);
    if is_guess && !args.format.is_for_programs() {
        terminal::print_note(
            "note: the size of the eraseblocks is a guess: --peb-size states it, for all commands of `floatgate image`",
        );
    }
    Ok(if info.is_uncorrected { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
