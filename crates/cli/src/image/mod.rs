//! `floatgate image`. One file per subcommand.

mod cat;
mod check;
mod diff;
mod dump;
mod extract;
mod info;
mod ls;
mod options;
mod show;
mod stat;

use crate::common::Outcome;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image info dump.bin
  floatgate image ls dump.bin /etc
  floatgate image cat dump.bin /etc/fstab
  floatgate image extract dump.bin rootfs/
  floatgate image extract dump.bin rootfs.tar
  floatgate image check dump.bin --repair repaired.bin

A file is searched for images: UBI, bare UBIFS, NAND dumps with OOB (corrected by their ECC), at its start or somewhere inside.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// What is in a file: geometry, volumes, wear, and the parameters to make such an image
    Info(info::Args),
    /// Files in a directory of an image
    Ls(ls::Args),
    /// The contents of a file
    Cat(cat::Args),
    /// All that is known of a file
    Stat(stat::Args),
    /// All files, into a directory or a tar
    Extract(extract::Args),
    /// What is wrong in an image: UBI, UBIFS, the data of files
    Check(check::Args),
    /// How two images differ, entry by entry
    Diff(diff::Args),
    /// One node or header, field by field
    Dump(dump::Args),
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Info(args) => info::run(args),
        Command::Ls(args) => ls::run(args),
        Command::Cat(args) => cat::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Extract(args) => extract::run(args),
        Command::Check(args) => check::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Dump(args) => dump::run(args),
    }
}
