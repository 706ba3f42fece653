//! `floatgate image check`.

use super::options::{self, ImageArgs};
use super::sizes::ChipArgs;
use crate::common::{Failure, Outcome, count};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use floatgate_image::check::{CheckReport, check};
use floatgate_image::repair::{Grown, Method, RepairReport, repair};
use floatgate_image::{Access, ImageError, Selection};
use floatgate_lab::report::ResultKind;
use floatgate_mtd::advice::Help as _;
use std::path::Path;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image check rootfs.ubi
  floatgate image check two-volumes.ubi --volume rootfs --json
  floatgate image check rootfs.jffs2 --peb-size 64KiB
  floatgate image check rootfs.ubi --part mx30lf2g18ac --partition 64MiB
  floatgate image check rootfs.ubi --repair repaired.ubi

Checks the headers and the volume table of UBI, all structures of UBIFS, the nodes of JFFS2, and the data of all files. Of other filesystems, such as \
SquashFS and FAT, all files are read. The image is never changed. With \
--part or --setup, the command also checks that the image fits the chip, or its partition, with the maximum number of bad blocks.

Exit status 0: clean. 1: recoverable, for example not unmounted, which Linux recovers when mounting; or it is uncertain whether the data behind a JFFS2 was part \
of it. 2: damaged.

--repair removes the damaged nodes of a JFFS2 and moves nothing else in it. Exit status with --repair 0: OUT is clean and holds everything. 1: the output \
lists the losses; OUT is clean, except for filesystems in it that are only read, which are copied as they are. 2: the image was not repaired, and OUT was not written.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    #[command(flatten)]
    chip: ChipArgs,

    /// Write a new image with all data that can be recovered, with OOB if the old image has OOB. Files
    /// without a name are put into lost+found; in a JFFS2 they become lost-NUMBER in the root directory
    #[arg(long, value_name = "OUT", conflicts_with_all = ["volume", "auth_key", "auth_hashes", "part", "setup", "partition"])]
    repair: Option<OutputFile>,

    #[command(flatten)]
    format: ReportFormat,
}

/// Largest number of findings that the text shows; JSON has all findings.
const FINDINGS: usize = 50;

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(out) = &args.repair {
        return run_repair(args, out);
    }
    let image = args.image.open(Access::Read)?;
    let selection = Selection { flash: args.chip.target()?, ..args.image.selection() };
    let report = check(&image, &selection).map_err(|error| failed(&args.image.image, &error))?;
    args.format.print(&args.image.origin(ResultKind::ImageCheck), &report, "findings", || text(&report))?;
    Ok(ExitCode::from(report.status().code()))
}

/// Failure of a check, whose advice does not recommend the check itself.
fn failed(path: &Path, error: &ImageError) -> Failure {
    if error.help().to_string().contains(" says what is wrong") {
        let help = "read the whole dump again; `floatgate image map` lists the recognised parts";
        return Failure::new(format!("{}: {error}", path.display()), help);
    }
    options::failure(path, error)
}

fn run_repair(args: &Args, out: &Path) -> Outcome {
    args.image.refuse_keys("a repair moves encrypted files as they are stored")?;
    let report = repair(args.image.file()?, out, &args.image.selection());
    let report = report.map_err(|error| options::failure(&args.image.image, &error))?;
    args.format.print(&args.image.origin(ResultKind::ImageRepair), &report, "losses", || {
        text(&report.before) + "\n" + &repaired(out, &report)
    })?;
    if !args.format.is_for_programs() {
        options::print_write_back(report.write_back, out);
    }
    Ok(ExitCode::from(report.status().code()))
}

fn repaired(out: &Path, report: &RepairReport) -> String {
    let how = match report.method {
        Method::Copied => "copied as it is".to_owned(),
        Method::Recovered => "a copy, recovered as Linux does".to_owned(),
        Method::Mended => "a copy, without its damaged parts".to_owned(),
        Method::Rebuilt if report.filesystems == 0 => {
            "the UBI device written anew, with its filesystems as they were".to_owned()
        }
        Method::Rebuilt => {
            let entries = usize::try_from(report.entries).unwrap_or(usize::MAX);
            match entries {
                0 => "the filesystem written anew, without any file".to_owned(),
                _ => format!(
                    "{} written anew, {} of them in lost+found",
                    count(entries, "file"),
                    report.nameless
                ),
            }
        }
    };
    let mut text = format!("{}: {how}\n", out.display());
    if report.corrected_pages > 0 {
        let pages = usize::try_from(report.corrected_pages).unwrap_or(usize::MAX);
        text += &format!("{} written as the ECC corrects them\n", count(pages, "page"));
    }
    for Grown { volume, lebs_before, lebs } in &report.grown {
        let what = volume.as_ref().map_or("the filesystem".to_owned(), |name| format!("volume {name}"));
        text += &format!("{what} has {lebs} LEBs instead of {lebs_before}: its files did not fit any more\n");
    }
    if let Some(bytes) = report.told_erase_bytes {
        text += &format!(
            "it tells eraseblocks of {bytes} bytes, which are a guess: --peb-size states those of the flash\n"
        );
    }
    if report.bytes != report.bytes_before {
        text += &format!("it has {} bytes instead of {}\n", report.bytes, report.bytes_before);
    }
    if report.losses.is_empty() {
        return text;
    }
    text += &format!("{} lost:\n", count(report.losses.len(), "thing"));
    for loss in report.losses.iter().take(FINDINGS) {
        text += &format!("  {loss}\n");
    }
    if report.losses.len() > FINDINGS {
        text += &format!("  and {} more: --json lists all\n", report.losses.len() - FINDINGS);
    }
    text
}

fn text(report: &CheckReport) -> String {
    let mut text: String = report.images.iter().map(ToString::to_string).collect();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings.iter().take(FINDINGS) {
        text += &format!("{finding}\n");
    }
    let left = findings.len().saturating_sub(FINDINGS) as u64 + report.unlisted;
    if left > 0 {
        text += &format!("{} more are not shown: --json lists them\n", count(left as usize, "finding"));
    }
    text
}
