//! `floatgate image ls`.

use super::history;
use super::options::ImageArgs;
use super::show;
use crate::common::Outcome;
use crate::output::ReportFormat;
use crate::terminal::print_note;
use floatgate_image::FileRow;
use floatgate_image::extract::{show_name, show_path};
use floatgate_image::list::{Listed, list};
use floatgate_lab::report::ResultKind;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image ls rootfs.ubi
  floatgate image ls rootfs.ubi /etc --recursive
  floatgate image ls rootfs.ubi --json
  floatgate image ls dump.bin --history --old
  floatgate image ls dump.bin /etc/fstab --history

--history also lists the nodes of replaced file versions and of removed files; `floatgate image extract --at` extracts the files of each moment. An image that was \
built by a tool has no such nodes. Flash that was in use has the nodes that garbage collection has not erased.

Exit status 1: a directory cannot be read, or no --key fits an encrypted file.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// Directory or file in the image
    #[arg(default_value = "/")]
    path: OsString,

    /// Also list subdirectories
    #[arg(long, short, visible_short_alias = 'R')]
    recursive: bool,

    /// List all nodes that are still on the flash, including nodes of old versions and of removed files
    #[arg(long)]
    history: bool,

    /// With --history: list only old nodes, which were replaced or removed
    #[arg(long, requires = "history")]
    old: bool,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.history {
        args.image.refuse_keys("nodes are listed as they are stored")?;
        return history::list(&args.image, args.path.as_bytes(), args.old, &args.format);
    }
    let mut fs = args.image.mount()?;
    let path = args.path.as_bytes();
    args.image.resolve(&mut *fs, path)?;
    let listing = list(&mut *fs, path, args.recursive).map_err(|error| args.image.failed_at(path, error))?;
    let rows: Vec<FileRow> = listing.files.iter().map(Listed::row).collect();
    args.format.print_listing(&args.image.origin(ResultKind::ImageLs), &rows, || text(&listing.files))?;
    let why_encrypted = listing.files.iter().find_map(|file| fs.why_encrypted(file.attributes.inode));
    if let Some(why) = &why_encrypted {
        print_note(&format!("encrypted files are listed as they are stored: {why}"));
    }
    for (path, why) in &listing.refused {
        print_note(&format!("not listed: {}: {why}", show_path(path)));
    }
    Ok(if listing.refused.is_empty() && why_encrypted.is_none() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// Size of a file in bytes, or the numbers of a device.
fn size_text(file: &Listed) -> String {
    match file.attributes.device {
        Some(device) => format!("{}, {}", device.major, device.minor),
        None => file.attributes.size.to_string(),
    }
}

/// Lines in the format of `ls -l`, with times in UTC.
fn text(listed: &[Listed]) -> String {
    let width = |text: fn(&Listed) -> String| listed.iter().map(|file| text(file).len()).max().unwrap_or(0);
    let links = width(|file| file.attributes.links.to_string());
    let uid = width(|file| file.attributes.uid.to_string());
    let gid = width(|file| file.attributes.gid.to_string());
    let size = width(size_text);
    let mut text = String::new();
    for file in listed {
        let a = &file.attributes;
        let mode = show::mode_text(a);
        let arrow =
            file.target.as_ref().map(|target| format!(" -> {}", show_name(target))).unwrap_or_default();
        let date = show::date(a.mtime);
        let encrypted = if a.is_encrypted() { "  (encrypted)" } else { "" };
        let line = format!(
            "{mode} {:>links$} {:>uid$} {:>gid$} {:>size$} {date} {}{arrow}{encrypted}\n",
            a.links,
            a.uid,
            a.gid,
            size_text(file),
            file.path
        );
        text.push_str(&line);
    }
    text
}
