//! `floatgate card`. One file per subcommand.

#[cfg(feature = "mount")]
mod guest;
mod info;
mod powercut;
mod recorded;
mod replay;
#[cfg(feature = "mount")]
mod run;
#[cfg(not(feature = "mount"))]
use crate::no_mount as run;
#[cfg(feature = "mount")]
mod serve;
#[cfg(not(feature = "mount"))]
use crate::no_mount as serve;

use crate::common::Outcome;
use floatgate_lab::show::number::micros as time;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate speed kingston-class-10
  floatgate speed sandisk-extreme --set card.open_aus=4 --table open-aus
  floatgate speed emmc-16g --json
  floatgate serve kingston-class-10 --fuse /mnt
  floatgate run kingston-class-10 --trace trace.csv
  floatgate fs kingston-class-10 samsung-evo-16g
  floatgate list samsung-evo-16g --registers
  floatgate powercut a1-32g --cuts 400
  floatgate papers amplification")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Serve a card in real time, through FUSE, as a file for flashbench, f3probe, fio and mkfs
    Serve(serve::Args),
    /// Run workloads on Linux's filesystems on a card, in User Mode Linux or QEMU
    Run(run::Args),
    /// Replay a trace of requests of fio, blktrace or MSR Cambridge on a card
    Replay(replay::Args),
    /// Show the registers of a card: CID, CSD, SCR, SSR, EXT_CSD, timeouts, supply
    Info(info::Args),
    /// Cut the power of a card at any operation and moment, and check its contents afterwards
    Powercut(powercut::Args),
}

impl Args {
    /// True if the command mounts a filesystem, which signals end in order.
    pub(crate) const fn is_mount(&self) -> bool {
        matches!(self.command, Command::Serve(_) | Command::Run(_))
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Serve(args) => serve::run(args),
        Command::Run(args) => run::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Info(args) => info::run(args),
        Command::Powercut(args) => powercut::run(args),
    }
}
