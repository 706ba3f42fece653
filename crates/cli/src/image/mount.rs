//! `floatgate image mount`.

use super::edit::{now, print_losses};
use super::options::ImageArgs;
use crate::common::{Failure, Outcome};
use crate::output::bug;
use crate::terminal::{self, print_note};
use floatgate_host::signals::Endings;
use floatgate_image::mount::{MountError, MountSetup, Mounted};
use floatgate_mtd::advice::Help;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image mount dump.bin /mnt
  floatgate image mount rootfs.ubi /mnt --rw
  floatgate image mount dump.bin /mnt --volume data --rw --recover

mount runs in the foreground; Ctrl-C, `umount` or `fusermount3 -u` end it. Without --rw the image is not changed, even if it is damaged or was not unmounted.

With --rw, changes are written to the image as to flash. If floatgate is killed, data that no program has synced with fsync may be lost, and the next mount needs \
--recover. Device files and set-user-id bits in the image have no effect.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// Folder on which the image is mounted
    directory: PathBuf,

    /// Write changes to the image
    #[arg(long)]
    rw: bool,

    /// With --rw: recover a filesystem that was not unmounted, as Linux does; without --recover such an image is refused
    #[arg(long, requires = "rw")]
    recover: bool,

    /// With --rw: let the volume grow to this number of LEBs, or a JFFS2 to this number of eraseblocks [default: its present size]
    #[arg(long, value_name = "N", requires = "rw")]
    lebs: Option<u32>,

    /// Let other users access the files, as their permissions allow (without root: needs user_allow_other
    /// in /etc/fuse.conf)
    #[arg(long)]
    allow_other: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let endings = Endings::block().map_err(bug)?;
    if args.rw {
        args.image.refuse_keys("encrypted files are decrypted only without --rw")?;
    }
    let setup = MountSetup {
        selection: args.image.selection(),
        keys: args.image.keys()?,
        writable: args.rw,
        recover: args.recover,
        lebs: args.lebs,
        allow_other: args.allow_other,
        clock: now,
        on_failure: |error| {
            terminal::print_note(&format!("writing failed, the mount is read-only now: {error}"))
        },
    };
    let mut mounted =
        Mounted::new(args.image.file()?, &args.directory, setup).map_err(|e| args.failed(&e))?;
    endings.unmount_with_each(mounted.unmounter(), print_note);
    print_losses(&mounted.losses);
    let how = if args.rw { "read and write" } else { "read-only" };
    let (image, directory) = (args.image.image.display(), args.directory.display());
    terminal::print_note(&format!("{image} is mounted on {directory}, {how}: Ctrl-C ends it"));
    mounted.serve().map_err(|error| args.failed(&error))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn failed(&self, error: &MountError) -> Failure {
        Failure::new(format!("{}: {error}", self.image.image.display()), error.help())
    }
}
