//! `floatgate image cat`.

use super::extract::{print_losses, print_notes};
use super::options::ImageArgs;
use crate::common::Outcome;
use crate::output;
use floatgate_host::output::Output;
use floatgate_image::Access;
use floatgate_image::extract::Loss;
use floatgate_image::raw::read_raw;
use floatgate_stack::ubifs::Behaviour;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image cat rootfs.ubi /etc/fstab
  floatgate image cat dump.bin /boot/zImage > zImage
  floatgate image cat two-volumes.ubi --raw --volume data > data.ubifs

Exit status 1: data of the volume is damaged, and the damaged LEBs are listed; or with --raw the volume holds no data.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// File in the image
    #[arg(required_unless_present = "raw")]
    path: Option<OsString>,

    /// Print the bytes of the whole volume, whatever it contains
    #[arg(long, conflicts_with = "path")]
    raw: bool,
}

/// Number of bytes in one read.
const CHUNK: usize = 1 << 20;

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.path {
        Some(path) => file(args, path),
        None => raw(args),
    }
}

fn file(args: &Args, path: &OsStr) -> Outcome {
    let image = args.image.open(Access::Read)?;
    let selection = args.image.selection();
    let mut fs = image
        .mount(&selection, true, Behaviour::default())
        .map_err(|error| super::failure(&args.image.image, &error))?;
    let inode = args.image.resolve(&mut *fs, path.as_bytes())?;
    let mut out = Output::stdout()?;
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let len =
            fs.read(inode, at, &mut chunk).map_err(|error| args.image.failed_at(path.as_bytes(), error))?;
        if len == 0 {
            break;
        }
        out.write_all(&chunk[..len]).map_err(|error| output::stdout_failed(&error))?;
        at += len as u64;
    }
    let losses = image.unverified_losses(&selection).map_err(|error| args.image.failed(error))?;
    print_losses("not whole", &losses);
    Ok(if losses.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn raw(args: &Args) -> Outcome {
    args.image.refuse_keys("the bytes of a volume are printed as they are stored")?;
    let image = args.image.open(Access::Read)?;
    let mut out = Output::stdout()?;
    let raw = read_raw(&image, &args.image.selection(), &mut out);
    let raw = raw.map_err(|error| args.image.failed(error))?;
    print_notes(&raw.notes);
    let lost = |lnum: &u32| Loss { path: format!("LEB {lnum}"), what: "damaged or missing".to_owned() };
    print_losses("not restored bit for bit", &raw.damaged_lebs.iter().map(lost).collect::<Vec<_>>());
    let is_whole = raw.damaged_lebs.is_empty() && raw.bytes > 0;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
