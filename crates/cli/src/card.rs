//! `floatgate card`. One file per subcommand.

mod account;
#[cfg(feature = "mount")]
mod clock;
mod compare;
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
#[cfg(feature = "mount")]
mod vm;

use crate::common::Outcome;
use floatgate_mtd::Nanos;
pub(crate) use replay::State;

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
    /// Serve a card in real time as a file that flashbench, f3probe, fio and mkfs work on, through FUSE
    Serve(serve::Args),
    /// Make filesystems of Linux on a card and run workloads on them, in User Mode Linux or QEMU
    Run(run::Args),
    /// Replay a trace of requests, of fio, blktrace or MSR Cambridge, on a card
    Replay(replay::Args),
    /// Compare cards and filesystems under workloads, by traces of real filesystems
    Compare(compare::Args),
    /// Show what a card states about itself: CID, CSD, SCR, SSR, EXT_CSD, timeouts, supply
    Info(info::Args),
    /// Take a card's power away at any operation and moment, and check what it holds afterwards
    Powercut(powercut::Args),
}

impl Args {
    /// True when signals end a mount.
    pub(crate) const fn is_mount(&self) -> bool {
        matches!(self.command, Command::Serve(_) | Command::Run(_))
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Serve(args) => serve::run(args),
        Command::Run(args) => run::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Info(args) => info::run(args),
        Command::Powercut(args) => powercut::run(args),
    }
}

/// A time in us, in the unit that suits it.
fn time(us: f64) -> String {
    Nanos::from_ns((us * 1e3).round() as u64).to_string()
}
