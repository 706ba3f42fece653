//! `floatgate serve`.

use super::recorded::Recording;
use crate::common::{Failure, Outcome};
use crate::output::{ReportFormat, bug};
use crate::outputs::OutputFile;
use crate::terminal::{self, print_note};
use floatgate_config::{Library, Override};
use floatgate_host::mount::FolderError;
use floatgate_host::serve::{Clock, DelayStats, MountedDevice, VhostDevice, clock};
use floatgate_host::signals::Endings;
use floatgate_lab::card::serve::{CardAtWork, NewCard, ServedCard};
use floatgate_lab::card::{CardOptions, load};
use floatgate_lab::report::ResultKind;
use floatgate_mtd::advice::Help;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate serve kingston-class-10 --fuse /mnt
  floatgate serve samsung-evo-16g --fuse /mnt --time-scale 10 --json
  floatgate serve fake-wraps-32g --fuse /mnt --time-scale 0 --format factory
  floatgate serve emmc-16g --fuse /mnt --image disk.img --record trace.csv
  floatgate serve samsung-evo-16g --vhost-user /tmp/card.sock

With --fuse /mnt, the file /mnt/card is the card. flashbench, fio, dd and mkfs use it like a device; f3probe, which accepts only devices, uses a loop device on it. \
serve runs in the foreground. Ctrl-C, `umount` or `fusermount3 -u` end it, and it then prints the statistics of the card.

Each request takes the time that the card needs for it, and about 30 us for the way through the kernel. The page cache is not used. fsync flushes the card, and \
fallocate --punch-hole discards. The contents are kept in memory, and are lost at the end.

With --vhost-user, the card is a drive of one virtual machine, until the machine ends. The option for User Mode Linux is \
`linux virtio_uml.device=/tmp/card.sock:2 ...`, and the options for QEMU are `-chardev socket,id=card,path=/tmp/card.sock -device vhost-user-blk-pci,chardev=card \
-object memory-backend-memfd,id=ram,size=1G,share=on -machine memory-backend=ram -m 1G`.")]
pub(crate) struct Args {
    /// A card's name (see `floatgate list parts`), or the path of a TOML file
    card: PathBuf,

    #[command(flatten)]
    way: Transport,

    /// Override any field of the card: --set card.open_aus=4 --set card.bus=sdr104
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Speed of simulated time relative to real time: 10 is ten times as fast; 0 answers all requests without waiting
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = scale)]
    time_scale: f64,

    /// File with the contents of the card at the start, from its first sector on; sectors of zeros count as never
    /// written
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

    /// Contents of the card at the start: nothing, or the FAT32 or exFAT of a factory-formatted card
    #[arg(long, value_enum, default_value_t = Content::None, conflicts_with = "image")]
    format: Content,

    /// Write a trace of all requests: CSV, fio's iolog if the name ends in .iolog, blkparse's text if it ends in .blkparse. The file is created at the end, when it is complete
    #[arg(long, value_name = "FILE")]
    record: Option<OutputFile>,

    /// Seed of the card's bad blocks and errors
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    report: ReportFormat,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Transport {
    /// Folder in which the file `card` appears
    #[arg(long, value_name = "DIR")]
    fuse: Option<PathBuf>,

    /// Socket of the card as a drive (vhost-user-blk) for QEMU or User Mode Linux
    #[arg(long, value_name = "SOCKET")]
    vhost_user: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Content {
    /// Nothing was ever written
    None,
    /// The partition table in the first allocation unit, and the FATs in the second
    Factory,
}

fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match scale {
        0.0 => Ok(0.0),
        _ if (0.001..=1e6).contains(&scale) => Ok(scale),
        _ => Err("from 0.001 to 1000000, or 0".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let card = load(&Library::built_in(), &args.card, &Override::parse_all(&args.set)?)?;
    let mut new = NewCard::new(&card, CardOptions { seed: args.seed, stores: true })?;
    if args.format == Content::Factory {
        new.format(&card)?;
    }
    if let Some(path) = &args.image {
        new.fill(path)?;
    }
    // Before this line a signal ends the process at once. Loading can take long: the image may be large, or a pipe
    // without a writer.
    let endings = Endings::block().map_err(bug)?;
    let recording = args.record.as_deref().map(Recording::new).transpose()?;
    let clock = clock(new.now(), args.time_scale);
    let at_work = new.meet(recording.as_ref().map(Recording::observer));
    let (at_work, delays) = args.serve(&card.name(), at_work, clock, endings)?;
    let recorded = recording.map_or(Ok(()), Recording::finish);
    let DelayStats { requests, late_requests, late_sum, late_max } = delays;
    let report = ServedCard {
        account: at_work.account(&card),
        time_scale: args.time_scale,
        late_requests,
        late_mean_us: late_sum.as_us_f64() / requests.max(1) as f64,
        late_max_us: late_max.as_us_f64(),
    };
    // The statistics are also printed if there is no space for the trace.
    let origin = ResultKind::CardServe.of(&args.card).with(&args.set).seeded(args.seed);
    let outcome = args.report.finish_report(&origin, &report);
    recorded.and(outcome)
}

impl Args {
    /// Serves the card until the mount or the virtual machine ends, or a signal arrives.
    fn serve(
        &self,
        name: &str,
        card: CardAtWork,
        clock: Box<dyn Clock>,
        endings: Endings,
    ) -> Result<(CardAtWork, DelayStats), Failure> {
        if let Some(socket) = &self.way.vhost_user {
            let failed = |error: FolderError, advice: &str| Failure::new(error, advice);
            let left = "name a file that does not exist yet, in a folder that can be written; remove a socket that is left over";
            let (device, stopper) =
                VhostDevice::new(card, clock, "floatgate", socket).map_err(|error| failed(error, left))?;
            let mut stopper = Some(stopper);
            endings.with_each(move || drop(stopper.take()));
            terminal::print_note(&format!(
                "{name} waits for a virtual machine on {}: Ctrl-C ends it",
                socket.display()
            ));
            let wrong = "start the virtual machine as `floatgate serve --help` says";
            return device.serve().map_err(|error| failed(error, wrong));
        }
        let failed = |error: FolderError| self.failed(&error);
        let folder = self.way.fuse.clone().unwrap_or_default();
        let mut mounted = MountedDevice::new(card, clock, "card", &folder).map_err(failed)?;
        endings.unmount_with_each(mounted.unmounter(), print_note);
        terminal::print_note(&format!(
            "{name} is served as {}: Ctrl-C ends it",
            folder.join("card").display()
        ));
        mounted.serve().map_err(failed)
    }

    fn failed(&self, error: &FolderError) -> Failure {
        Failure::new(format!("{}: {error}", self.card.display()), error.help())
    }
}
