//! `floatgate image diff`.

use super::options;
use crate::common::{self, Outcome, count};
use floatgate_lab::image::diff::{
    Change, DiffOptions, DiffReport, Difference, Presence, diff, diff_raw, open,
};
use floatgate_lab::image::{Image, Selection};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image diff rootfs.ubi two-volumes.ubi --second-volume rootfs || echo they differ
  floatgate image diff rootfs.ubi dump.bin --no-times --json || echo they differ
  floatgate image diff rootfs.ubi dump.bin --raw || echo they differ

Compares names, types, permissions, owners, times of change, sizes, contents, links, devices, extended attributes and flags.
Exit status 0: nothing differs; 1: something does; 2: something could not be read.")]
pub(crate) struct Args {
    /// The first image
    first: PathBuf,

    /// The second image
    second: PathBuf,

    /// The UBI volume, by name or number, where there are several
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,

    /// The volume of the second image, where it has another name
    #[arg(long, value_name = "NAME")]
    second_volume: Option<String>,

    /// Where the first image begins in its file, where there are several
    #[arg(long, value_name = "BYTE")]
    offset: Option<u64>,

    /// Where the second image begins in its file
    #[arg(long, value_name = "BYTE")]
    second_offset: Option<u64>,

    /// Times of change may differ
    #[arg(long)]
    no_times: bool,

    /// Owners and groups may differ
    #[arg(long)]
    no_owner: bool,

    /// Holes count too: zeros that are stored differ from such that are not
    #[arg(long)]
    holes: bool,

    /// UBI too: geometry, erase counters, volumes and their LEBs
    #[arg(long)]
    raw: bool,

    /// Machine-readable report (schema: docs/json.md)
    #[arg(long)]
    json: bool,
}

/// Paths that are printed; JSON has all.
const LINES: usize = 200;

pub(crate) fn run(args: &Args) -> Outcome {
    let first = Selection { offset: args.offset, volume: args.volume.clone(), ..Selection::default() };
    let second = Selection {
        offset: args.second_offset,
        volume: args.second_volume.clone().or_else(|| args.volume.clone()),
        ..Selection::default()
    };
    let image = |path: &Path| open(path).map_err(|error| options::failure(path, &error));
    let pair = || -> Result<[(Image, &Selection); 2], common::Failure> {
        Ok([(image(&args.first)?, &first), (image(&args.second)?, &second)])
    };
    let failed = |error| options::failure(&args.second, &error);
    let options = DiffOptions { times: !args.no_times, owners: !args.no_owner, holes: args.holes };
    let mut report = diff(pair()?, &options).map_err(failed)?;
    if args.raw {
        report.raw = diff_raw(pair()?).map_err(failed)?;
    }
    if args.json {
        common::print_json(&report)?;
    } else {
        print(&report);
    }
    Ok(match (report.trouble.is_empty(), report.is_same()) {
        (false, _) => ExitCode::from(2),
        (true, false) => ExitCode::from(1),
        (true, true) => ExitCode::SUCCESS,
    })
}

fn print(report: &DiffReport) {
    for change in &report.raw {
        common::print(&line("UBI", change));
    }
    for Difference { path, presence, changes } in report.differences.iter().take(LINES) {
        match presence {
            Presence::First => common::print(&format!("- {path}")),
            Presence::Second => common::print(&format!("+ {path}")),
            Presence::Both => changes.iter().for_each(|change| common::print(&line(path, change))),
        }
    }
    if report.differences.len() > LINES {
        common::print(&format!("and {} paths more: --json lists them", report.differences.len() - LINES));
    }
    for loss in report.trouble.iter().take(LINES) {
        common::tell(&format!("{}: {}", loss.path, loss.what));
    }
    let entries = usize::try_from(report.entries).unwrap_or(usize::MAX);
    let compared = count(entries, "path");
    common::print(&match report.differences.len() {
        0 => format!("{compared} compared: all the same"),
        differ => format!("{compared} compared: {differ} of them differ"),
    });
}

fn line(path: &str, Change { field, first, second }: &Change) -> String {
    format!("~ {path}: {field}: {first} | {second}")
}
