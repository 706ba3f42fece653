//! `floatgate image diff`.

use super::options;
use crate::common::{Failure, Outcome, count};
use crate::output::ReportFormat;
use crate::terminal;
use floatgate_image::Selection;
use floatgate_image::diff::{
    Change, DiffError, DiffOptions, DiffReport, Difference, Presence, Side, diff_raw, diff_sides,
};
use floatgate_lab::report::ResultKind;
use floatgate_mtd::advice::Help;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image diff rootfs.ubi two-volumes.ubi --second-volume rootfs || echo they differ
  floatgate image diff rootfs.ubi dump.bin --no-times --json || echo they differ
  floatgate image diff rootfs.ubi dump.bin --raw || echo they differ
  floatgate image diff rootfs.ubi rootfs/ --no-owner || echo they differ

Compares names, types, permissions, owners, times of change, sizes, contents, links, devices, extended attributes and flags. The flags of UBIFS are compared only \
between two images, because a directory of the host has other flags, and a tar has none.

Exit status 0: no difference; 1: differences; 2: an input could not be read.")]
pub(crate) struct Args {
    /// First image, or a directory or tar; - reads an image from stdin
    first: PathBuf,

    /// Second image, or a directory or tar
    second: PathBuf,

    /// UBI volume, by name or number; needed if there are several
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,

    /// UBI volume of the second image, if it has another name
    #[arg(long, value_name = "NAME")]
    second_volume: Option<String>,

    /// Byte at which the first image begins in its file; needed if the file has several images
    #[arg(long, value_name = "BYTE", value_parser = super::sizes::bytes)]
    offset: Option<u64>,

    /// Byte at which the second image begins in its file
    #[arg(long, value_name = "BYTE", value_parser = super::sizes::bytes)]
    second_offset: Option<u64>,

    /// Size of an eraseblock of the flash (PEB), such as 128KiB; it cannot be detected in a small JFFS2
    #[arg(long, value_name = "BYTES", value_parser = super::sizes::bytes32)]
    peb_size: Option<u32>,

    /// Size of an eraseblock of the second image, if it is for another flash
    #[arg(long, value_name = "BYTES", value_parser = super::sizes::bytes32)]
    second_peb_size: Option<u32>,

    #[command(flatten)]
    pages: options::PageArgs,

    #[command(flatten)]
    keys: options::KeyArgs,

    /// Ignore times of change
    #[arg(long)]
    no_times: bool,

    /// Ignore owners and groups
    #[arg(long)]
    no_owner: bool,

    /// Also compare holes: stored zeros then differ from a hole
    #[arg(long)]
    holes: bool,

    /// Also compare the UBI of two images: geometry, erase counters, volumes and their LEBs
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    format: ReportFormat,
}

/// Largest number of paths that the text shows; JSON has all paths.
const LINES: usize = 200;

pub(crate) fn run(args: &Args) -> Outcome {
    let first = Selection {
        offset: args.offset,
        volume: args.volume.clone(),
        peb_bytes: args.peb_size,
        pages: args.pages.sizes(),
        ..Selection::default()
    };
    let second = Selection {
        offset: args.second_offset,
        volume: args.second_volume.clone().or_else(|| args.volume.clone()),
        peb_bytes: args.second_peb_size.or(args.peb_size),
        pages: args.pages.sizes(),
        ..Selection::default()
    };
    let options = DiffOptions {
        times: !args.no_times,
        owners: !args.no_owner,
        holes: args.holes,
        ..DiffOptions::default()
    };
    let failed = |error| match error {
        DiffError::First(error) => options::failure(&args.first, &error),
        DiffError::Second(error) => options::failure(&args.second, &error),
    };
    let sides = [args.side(&args.first, &first)?, args.side(&args.second, &second)?];
    if args.raw && sides.iter().any(|side| matches!(side, Side::Files(_))) {
        return Err(Failure::new(
            "--raw: a directory or a tar has no UBI",
            "compare two images, or leave --raw out",
        ));
    }
    let raw = match &sides {
        [Side::Image(one, _), Side::Image(other, _)] if args.raw => {
            diff_raw([(one, &first), (other, &second)]).map_err(failed)?
        }
        _ => Vec::new(),
    };
    let report = DiffReport { raw, ..diff_sides(sides, &options).map_err(failed)? };
    args.format.print(&ResultKind::ImageDiff.of(&args.first), &report, "differences", || text(&report))?;
    if !args.format.is_for_programs() {
        if !args.raw && !report.not_compared.is_empty() {
            let volumes = report.not_compared.join(", ");
            terminal::print_note(&format!("note: without --raw or --volume, not compared: volume {volumes}"));
        }
        for loss in report.trouble.iter().take(LINES) {
            terminal::print_note(&loss.to_string());
        }
    }
    Ok(ExitCode::from(report.status().code()))
}

impl Args {
    /// A side, whose encrypted files are read with the keys.
    fn side(&self, path: &Path, selection: &Selection) -> Result<Side, Failure> {
        if path.as_os_str() == "-" {
            let image = self.keys.with_keys(options::read(path, selection.into())?)?;
            return Ok(Side::Image(Box::new(image), selection.clone()));
        }
        let opened = Side::open(path, selection);
        match opened.map_err(|error| Failure::new(format!("{}: {error}", path.display()), error.help()))? {
            Side::Image(image, selection) => {
                Ok(Side::Image(Box::new(self.keys.with_keys(*image)?), selection))
            }
            files @ Side::Files(_) => Ok(files),
        }
    }
}

fn text(report: &DiffReport) -> String {
    let mut text = String::new();
    for change in &report.raw {
        text += &line("UBI", change);
    }
    for Difference { path, presence, changes } in report.differences.iter().take(LINES) {
        match presence {
            Presence::First => text += &format!("- {path}\n"),
            Presence::Second => text += &format!("+ {path}\n"),
            Presence::Both => changes.iter().for_each(|change| text += &line(path, change)),
        }
    }
    if report.differences.len() > LINES {
        let more = count(report.differences.len() - LINES, "more path");
        text += &format!("and {more}: --json lists all\n");
    }
    text
}

fn line(path: &str, Change { field, first, second }: &Change) -> String {
    format!("~ {path}: {field}: {first} | {second}\n")
}
