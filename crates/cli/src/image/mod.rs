//! `floatgate image`. One file per subcommand.

mod build;
mod cat;
mod check;
mod diff;
mod dump;
mod edit;
mod env;
mod extract;
mod history;
mod info;
mod ls;
mod map;
#[cfg(feature = "mount")]
mod mount;
#[cfg(not(feature = "mount"))]
use crate::no_mount as mount;
mod options;
mod patch;
mod show;
pub(crate) mod sizes;
mod stat;
mod ubinize;

pub(crate) use build::source_date_epoch;
pub(crate) use options::failure;

use crate::common::Outcome;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image info dump.bin
  floatgate image info dump.bin --json
  floatgate image map router.bin
  floatgate image ls dump.bin /etc
  floatgate image cat dump.bin /etc/fstab
  floatgate image extract dump.bin rootfs/
  floatgate image extract dump.bin rootfs.tar
  floatgate image check rootfs.ubi --repair repaired.ubi
  floatgate image build rootfs/ -o new.ubi --part mt29f2g08aad
  floatgate image put rootfs.ubi hostname /etc/hostname
  floatgate image mount dump.bin /mnt --rw

The commands search a file for images, at its start and inside it: UBI, bare UBIFS, JFFS2 in both byte orders, and LittleFS. They correct NAND dumps with OOB by their ECC. Other filesystems are read only: SquashFS, CramFS, \
ROMFS, EROFS, ext2 to ext4, F2FS, FAT, exFAT, SPIFFS, YAFFS2.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the images in a file: geometry, volumes, wear, and the parameters to build such an image
    Info(info::Args),
    /// List everything in a flash dump: filesystems, boot loader, environment, partition tables, unknown data
    Map(map::Args),
    /// Print or change the environment of U-Boot in a dump
    Env(env::Args),
    /// List the files in a directory of an image
    Ls(ls::Args),
    /// Print the contents of a file
    Cat(cat::Args),
    /// Show all attributes of a file
    Stat(stat::Args),
    /// Extract all files into a directory or a tar
    Extract(extract::Args),
    /// Build an image from a directory or a tar
    Build(Box<build::Args>),
    /// Make a UBI image of the volumes that an ini file lists
    Ubinize(ubinize::Args),
    /// Put files of the host into an image
    Put(edit::PutArgs),
    /// Remove files from an image
    Rm(edit::RmArgs),
    /// Rename or move files in an image
    Mv(edit::MvArgs),
    /// Make a hard or symbolic link in an image
    Ln(edit::LnArgs),
    /// Make directories in an image
    Mkdir(edit::MkdirArgs),
    /// Change permissions in an image
    Chmod(edit::ChmodArgs),
    /// Change owners in an image
    Chown(edit::ChownArgs),
    /// Set or remove an extended attribute in an image
    Setxattr(edit::SetxattrArgs),
    /// Mount an image as a folder, through FUSE
    Mount(mount::Args),
    /// Check an image for damage: its filesystems and the data of files
    Check(check::Args),
    /// Compare two images, entry by entry
    Diff(diff::Args),
    /// Show nodes or headers, field by field
    Dump(dump::Args),
    /// List the eraseblocks in which two images differ, and print commands that write only these eraseblocks
    Patch(patch::Args),
}

impl Args {
    /// True if the command mounts a filesystem, which signals end in order.
    pub(crate) const fn is_mount(&self) -> bool {
        matches!(self.command, Command::Mount(_))
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    // Images are handled piece by piece. The large pages that the allocator asks for would take twice the memory; a
    // system without them has nothing to switch off.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    match &args.command {
        Command::Info(args) => info::run(args),
        Command::Map(args) => map::run(args),
        Command::Env(args) => env::run(args),
        Command::Ls(args) => ls::run(args),
        Command::Cat(args) => cat::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Extract(args) => extract::run(args),
        Command::Build(args) => build::run(args),
        Command::Ubinize(args) => ubinize::run(args),
        Command::Put(args) => edit::put(args),
        Command::Rm(args) => edit::rm(args),
        Command::Mv(args) => edit::mv(args),
        Command::Ln(args) => edit::ln(args),
        Command::Mkdir(args) => edit::mkdir(args),
        Command::Chmod(args) => edit::chmod(args),
        Command::Chown(args) => edit::chown(args),
        Command::Setxattr(args) => edit::setxattr(args),
        Command::Mount(args) => mount::run(args),
        Command::Check(args) => check::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Dump(args) => dump::run(args),
        Command::Patch(args) => patch::run(args),
    }
}
