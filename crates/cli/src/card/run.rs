//! `floatgate run`.

use super::guest;
use super::recorded::Recording;
use super::time;
use crate::common::{Failure, Outcome, grouped};
use crate::output::{ReportFormat, bug};
use crate::outputs::OutputFile;
use crate::table::Table;
use floatgate_config::{Library, Override};
use floatgate_host::guest::{Guest, Machine, is_installed};
use floatgate_host::signals::Endings;
use floatgate_lab::card::run::{
    CardRun, CutResults, Cuts, Discarding, FILESYSTEMS, GUEST, Observers, TracePart, UML_INIT, WORKLOADS,
    Workbench,
};
use floatgate_lab::card::{CardOptions, load_on_host};
use floatgate_lab::conclusion::CardRuns;
use floatgate_lab::report::ResultKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::{env, fs};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate run kingston-class-10 --fs ext4,vfat --workload postmark
  floatgate run samsung-evo-16g --fs f2fs --workload create,dbench --json
  floatgate run a1-32g --set card.capacity_bytes=1GiB --fs ext4 --workload job.fio --fill 50%
  floatgate run sandisk-extreme --fs f2fs --fill 50%,90%,99% --clients 4
  floatgate run sandisk-extreme --set card.capacity_bytes=1GiB --fs ext4,f2fs --fill 95% --state aged
  floatgate run a1-32g --set card.capacity_bytes=1GiB --fs ext4 --fill 95% --state aged --discard yes
  floatgate run a1-32g --set card.capacity_bytes=512MiB --fs nilfs2 --fill 80% --nilfs-cleaner off,0,120
  floatgate run a1-32g --set card.capacity_bytes=256MiB --fs ext4,f2fs --workload create --cuts 20
  floatgate run sandisk-extreme-pro --fs ext4,f2fs --workload kernel-build --host sabrelite
  floatgate run samsung-evo-16g --vm qemu --fs exfat,btrfs,xfs --workload dbench
  floatgate run a1-32g --fs ext4,f2fs,nilfs2,vfat --workload postmark,create --record traces

run boots User Mode Linux, or Debian's stock kernel in QEMU, with the card as its drive. For each filesystem and workload, on a new card, it makes, mounts and \
fills the filesystem, runs the workload, unmounts the filesystem and checks it. Exit status 1: a filesystem is not clean.

The times are those of the card alone: it processes one request after the other, without time between them. The times differ by a few percent from run to run, \
also with the same seed, because the guest's kernel orders its requests by its own clock. The statistics cover the workload until umount returns. The time of \
mkfs, mount and filling is reported as prepare, and the time of fsck as check.

A workload that ends in .fio is a job file of fio; any other file is a shell script. Both run in the root of the filesystem. Run only scripts that you trust: in \
User Mode Linux they can change the host's files with the rights of the user who runs floatgate. A workload that runs out of space is reported as full.

NILFS2 runs without its cleaner, as if the cleaner had died, and fills up; --nilfs-cleaner starts the cleaner. NILFS2 is checked by mounting it again and reading \
all files. With --state aged, the filesystem is filled with pairs of files, of which the small file is removed. The free space then consists of holes of 64 KiB, as \
in a filesystem in use. With --discard yes, the filesystem tells the card which blocks are free; with --discard no, not even mkfs does.

With --cuts, the power is cut at flushes of the workload, and between flushes. The drive then has all data that was flushed. For each map unit (with --tear: each \
sector) that was written or discarded later, it has the old or the new content. The filesystem must recover with its own fsck, or, if it has none, when it is \
mounted. The workload create then makes 100 files instead of 300; files that were synced before the cut must exist. The other workloads sync no files that are \
checked, so after them only the check of the filesystem decides, and the verdict says so.

The first run of QEMU downloads the kernel's package (70 MB) into the user's cache. Root rights are needed only if FUSE needs them. User Mode Linux works without \
FUSE, and has all filesystems except exfat.")]
pub(crate) struct Args {
    /// A card's name (see `floatgate list parts`), or the path of a TOML file
    card: PathBuf,

    /// Filesystems to run: ext4, f2fs, nilfs2, vfat, exfat, btrfs, xfs, reiserfs
    #[arg(long = "fs", value_name = "FS,FS,...", value_delimiter = ',', default_value = "ext4,f2fs,nilfs2,vfat",
        value_parser = filesystem)]
    filesystems: Vec<String>,

    /// Workloads to run: postmark, postmark-sync, dbench, create, kernel-build, journald, sqlite, swap, camera, log2ram, docker; a job file of fio, or a script
    #[arg(
        long = "workload",
        value_name = "NAME|FILE,...",
        value_delimiter = ',',
        default_value = "postmark"
    )]
    workloads: Vec<String>,

    /// Virtual machine: uml boots in 2 s, qemu in 10 s [default: uml where it is installed and has the filesystems]
    #[arg(long, value_enum)]
    vm: Option<VmKind>,

    /// Percent of the filesystem that is filled before the workload; each value gives a run
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "0%", value_parser = percent)]
    fill: Vec<u8>,

    /// State of the filled filesystem: fresh (its free space is one piece), or aged (its free space consists of holes of 64 KiB between
    /// files)
    #[arg(long, value_enum, default_value_t = FilesystemState::Fresh)]
    state: FilesystemState,

    /// Discards: `default` (those that mkfs and the kernel send by default), `yes` (mount option `discard`), or `no` (none, not
    /// even by mkfs)
    #[arg(long, value_name = "default|yes|no", default_value = "default")]
    discard: Discarding,

    /// Protection periods of NILFS2's cleaner, seconds; off for NILFS2 without the cleaner. Each value gives a run. With the cleaner, the card is served in real time
    #[arg(long, value_name = "off|SECONDS,...", value_delimiter = ',', default_value = "off", value_parser = cleaner)]
    nilfs_cleaner: Vec<Cleaner>,

    /// Number of clients that run the workload at the same time, for create, dbench and postmark
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    clients: u8,

    /// Host of the card, which limits the bus mode and sets the CPU time of requests: a name (see `floatgate list hosts`), or the path of a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    host: Option<PathBuf>,

    /// Number of power cuts to simulate for each workload, at its flushes and between them; or `all`
    #[arg(long, value_name = "N|all", value_parser = cuts)]
    cuts: Option<CutNumber>,

    /// Let each unflushed sector be old or new after a power cut, independently of the others. Without --tear whole map
    /// units are old or new, as on a card
    #[arg(long, requires = "cuts")]
    tear: bool,

    /// Override any field of the card: --set card.open_aus=4 --set card.bus=sdr104
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Folder for the traces: FS-WORKLOAD.csv of each workload, FS-WORKLOAD.before.csv of the requests before it, and traces.csv with the number of
    /// files that each workload made
    #[arg(long, value_name = "DIR")]
    record: Option<OutputFile>,

    /// Time limit of the guest, seconds
    #[arg(long, value_name = "N", default_value_t = 1800, value_parser = clap::value_parser!(u32).range(1..))]
    patience: u32,

    /// Seed of the card's bad blocks and errors
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    format: ReportFormat,
}

/// Virtual machine of a guest.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum VmKind {
    /// User Mode Linux: all filesystems but exfat
    Uml,
    /// QEMU with Debian's kernel: all filesystems
    Qemu,
}

impl From<VmKind> for Machine {
    fn from(vm: VmKind) -> Self {
        match vm {
            VmKind::Uml => Self::Uml,
            VmKind::Qemu => Self::Qemu,
        }
    }
}

/// Programs and their packages, from entries `program:package`.
fn needs(needs: &str) -> impl Iterator<Item = (&str, &str)> {
    needs.split_whitespace().filter_map(|need| need.split_once(':'))
}

fn host(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "name a place that can be written")
}

/// State of a filesystem before the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FilesystemState {
    /// One file fills the filesystem.
    Fresh,
    /// Removed files have left holes of 64 KiB.
    Aged,
}

fn filesystem(text: &str) -> Result<String, String> {
    let known = FILESYSTEMS.map(|(name, _)| name);
    if known.contains(&text) { Ok(text.to_owned()) } else { Err(format!("there are {}", known.join(", "))) }
}

fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| *percent <= 99).ok_or_else(|| "from 0% to 99%".to_owned())
}

/// Setting of NILFS2's cleaner: off, or its protection period in s.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cleaner(Option<u32>);

impl std::fmt::Display for Cleaner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(seconds) => write!(f, "{seconds}"),
            None => f.write_str("off"),
        }
    }
}

fn cleaner(text: &str) -> Result<Cleaner, String> {
    let period = || text.parse().map(Some).map_err(|_| "off, or a number of seconds".to_owned());
    if text == "off" { Ok(Cleaner(None)) } else { period().map(Cleaner) }
}

/// Number of power losses; `None` for all.
#[derive(Clone, Copy)]
struct CutNumber(Option<u32>);

fn cuts(text: &str) -> Result<CutNumber, String> {
    let number = || text.parse().ok().filter(|number| *number > 0).map(|number| CutNumber(Some(number)));
    let of_text = if text == "all" { Some(CutNumber(None)) } else { number() };
    of_text.ok_or_else(|| "all, or a number from 1 on".to_owned())
}

/// Number of lines of dbench's load file that a run uses.
const DBENCH_LINES: usize = 5_000;
const DBENCH_LOAD: &str = "/usr/share/dbench/client.txt";

pub(crate) fn run(args: &Args) -> Outcome {
    let endings = Endings::block().map_err(bug)?;
    let sets = Override::parse_all(&args.set)?;
    let card = load_on_host(&Library::built_in(), &args.card, args.host.as_deref(), &sets)?;
    let jobs = jobs(args)?;
    check_clients(args, &jobs)?;
    check_cleaner(args)?;
    check_state(args)?;
    require_programs(args, &jobs)?;
    let (recordings, observers) = recordings(args.record.as_deref())?;
    let machine = vm(args)?;
    let cuts = args.cuts.map(|cuts| Cuts { number: cuts.0, tears_units: args.tear });
    let options = CardOptions { seed: args.seed, stores: true };
    let bench = Workbench::new(card, options, cuts, observers)?;
    let folder = tempfile::Builder::new().prefix("floatgate-").tempdir();
    let folder = folder.map_err(|error| host(&env::temp_dir(), &error))?;
    let input = orders(args, &jobs, folder.path(), bench.marks())?;
    let is_real_time = args.nilfs_cleaner.iter().any(|cleaner| cleaner.0.is_some());
    let guest = Guest {
        folder: folder.path(),
        input: &input,
        init: UML_INIT,
        programs: FILESYSTEMS.iter().chain(&WORKLOADS).flat_map(|known| needs(known.1)).collect(),
        patience_s: args.patience,
        is_interrupted: Arc::default(),
    };
    let (runs, has_ended) = guest::boot(&guest, machine, endings, bench, is_real_time)?;
    let recorded = recordings.finish(&runs);
    let is_clean = has_ended && runs.iter().all(|run| run.verdict == "clean");
    // The results are also printed if there is no space for the traces.
    let origin = ResultKind::CardRun.of(&args.card).with(&args.set).seeded(args.seed);
    args.format.print(&origin, &CardRuns { rows: &runs }, "rows", || text(&runs))?;
    recorded?;
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A workload with its name in the guest, and its file.
struct Job {
    name: &'static str,
    file: Option<PathBuf>,
}

fn jobs(args: &Args) -> Result<Vec<Job>, Failure> {
    let jobs: Vec<Job> = args.workloads.iter().map(|name| job(name)).collect::<Result<_, _>>()?;
    if jobs.iter().filter(|job| job.file.is_some()).count() > 1 {
        return Err(Failure::new("a run takes one job file or script", "run the command once for each"));
    }
    Ok(jobs)
}

fn job(name: &str) -> Result<Job, Failure> {
    let named = WORKLOADS.iter().map(|known| known.0).filter(|known| !["fio", "script"].contains(known));
    if let Some(known) = named.clone().find(|known| *known == name) {
        return Ok(Job { name: known, file: None });
    }
    let file = PathBuf::from(name);
    if !file.is_file() {
        let known = named.collect::<Vec<_>>().join(", ");
        return Err(Failure::new(
            format!("no workload and no file is called {name:?}"),
            format!("there are {known}, job files of fio (NAME.fio), and scripts"),
        ));
    }
    let is_fio = file.extension().is_some_and(|extension| extension == "fio");
    Ok(Job { name: if is_fio { "fio" } else { "script" }, file: Some(file) })
}

/// Virtual machine that the options state; otherwise the fastest installed one that supports all filesystems.
fn vm(args: &Args) -> Result<Machine, Failure> {
    let lacks = args.filesystems.iter().find(|name| !Machine::Uml.has(name));
    match (args.vm, lacks) {
        (Some(VmKind::Uml), Some(lacks)) => Err(Failure::new(
            format!("User Mode Linux has no {lacks}"),
            "use `--vm qemu`, or another filesystem",
        )),
        (Some(vm), _) => Ok(vm.into()),
        (None, None) if Machine::Uml.can_run() || !is_installed("qemu-system-x86_64") => Ok(Machine::Uml),
        (None, _) => Ok(Machine::Qemu),
    }
}

fn check_clients(args: &Args, jobs: &[Job]) -> Result<(), Failure> {
    let alone = jobs.iter().find(|job| !["postmark", "dbench", "create"].contains(&job.name));
    match alone {
        _ if args.clients > 1 && args.cuts.is_some() => {
            Err(Failure::new("losses of power take one client", "drop --clients or --cuts"))
        }
        Some(job) if args.clients > 1 => Err(Failure::new(
            format!("the workload {} has one client", job.name),
            "use --clients with postmark, dbench or create",
        )),
        _ => Ok(()),
    }
}

fn check_state(args: &Args) -> Result<(), Failure> {
    if args.state == FilesystemState::Fresh || args.fill.iter().any(|fill| *fill > 0) {
        return Ok(());
    }
    Err(Failure::new("an aged filesystem must be filled, but --fill is 0%", "add `--fill 95%`"))
}

fn check_cleaner(args: &Args) -> Result<(), Failure> {
    let is_used = args.filesystems.iter().any(|name| name == "nilfs2");
    if is_used || args.nilfs_cleaner == [Cleaner(None)] {
        return Ok(());
    }
    Err(Failure::new("there is no NILFS2 to clean", "name nilfs2 with --fs"))
}

fn require_programs(args: &Args, jobs: &[Job]) -> Result<(), Failure> {
    let host = vm(args)?.needs();
    let of_filesystems = FILESYSTEMS
        .iter()
        .filter(|known| args.filesystems.iter().any(|name| name == known.0))
        .map(|known| known.1);
    let of_jobs =
        WORKLOADS.iter().filter(|known| jobs.iter().any(|job| job.name == known.0)).map(|known| known.1);
    let all = std::iter::once(host).chain(of_filesystems).chain(of_jobs).flat_map(needs);
    let missing: Vec<(&str, &str)> = all.filter(|(program, _)| !is_installed(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|need| need.1).collect();
    packages.sort_unstable();
    packages.dedup();
    let programs = missing.iter().map(|need| need.0).collect::<Vec<_>>().join(", ");
    Err(Failure::new(
        format!("not installed: {programs}"),
        format!("sudo apt-get install {}", packages.join(" ")),
    ))
}

/// Writes a file of the guest's script.
fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let path = folder.join(name);
    fs::write(&path, content).map_err(|error| host(&path, &error))
}

/// Writes the guest's script and its input. Returns the folder of the input.
fn orders(args: &Args, jobs: &[Job], folder: &Path, marks: u64) -> Result<PathBuf, Failure> {
    let input = folder.join("in");
    for name in ["in", "out", "card"] {
        let path = folder.join(name);
        fs::create_dir(&path).map_err(|error| host(&path, &error))?;
    }
    let state = if args.state == FilesystemState::Aged { "aged" } else { "fresh" };
    let mut plan = String::new();
    for job in jobs {
        for filesystem in &args.filesystems {
            let cleaners = if filesystem == "nilfs2" { &args.nilfs_cleaner[..] } else { &[Cleaner(None)] };
            for (fill, cleaner) in args.fill.iter().flat_map(|fill| cleaners.iter().map(move |c| (fill, c))) {
                plan +=
                    &format!("{filesystem} {} {fill} {cleaner} {state} {}\n", job.name, args.discard.name());
            }
        }
    }
    put(folder, "script", GUEST)?;
    put(&input, "plan", plan)?;
    put(&input, "marks", format!("{marks}\n"))?;
    put(&input, "clients", format!("{}\n", args.clients))?;
    put(&input, "cuts", if args.cuts.is_some() { "yes\n" } else { "" })?;
    for job in jobs {
        if let Some(file) = &job.file {
            let content = fs::read(file).map_err(|error| host(file, &error))?;
            put(&input, "workload", content)?;
        }
        if job.name == "dbench" {
            let load = Path::new(DBENCH_LOAD);
            let content = fs::read_to_string(load).map_err(|error| host(load, &error))?;
            put(&input, "client.txt", content.split_inclusive('\n').take(DBENCH_LINES).collect::<String>())?;
        }
    }
    Ok(input)
}

/// Traces that are being written, each with the name of its run and its part.
type OpenTraces = Arc<Mutex<Vec<(String, TracePart, Result<Recording, Failure>)>>>;

/// Traces of all runs, in a folder.
struct Recordings {
    folder: Option<PathBuf>,
    open: OpenTraces,
}

fn recordings(folder: Option<&Path>) -> Result<(Recordings, Observers), Failure> {
    let open = OpenTraces::default();
    let recordings = Recordings { folder: folder.map(Path::to_owned), open: Arc::clone(&open) };
    let Some(folder) = folder.map(Path::to_owned) else { return Ok((recordings, Box::new(|_, _| None))) };
    fs::create_dir_all(&folder).map_err(|error| host(&folder, &error))?;
    let observers: Observers = Box::new(move |run, part| {
        let name = run.trace_name();
        let ending = match part {
            TracePart::Before => ".before.csv",
            TracePart::Workload => ".csv",
        };
        let recording = Recording::new(&folder.join(format!("{name}{ending}")));
        let observer = recording.as_ref().ok().map(Recording::observer);
        open.lock().ok()?.push((name, part, recording));
        observer
    });
    Ok((recordings, observers))
}

impl Recordings {
    /// Gives the traces their final names. Traces of an unfinished run, or of a run that did not reach its workload,
    /// are incomplete and are deleted.
    fn finish(self, runs: &[CardRun]) -> Result<(), Failure> {
        let Some(folder) = self.folder else { return Ok(()) };
        let open = self.open.lock().map(|mut open| std::mem::take(&mut *open)).unwrap_or_default();
        let worked: Vec<String> = open
            .iter()
            .filter(|(_, part, _)| *part == TracePart::Workload)
            .map(|(name, ..)| name.clone())
            .collect();
        let is_whole = |run: &&CardRun| run.verdict != "unfinished" && worked.contains(&run.trace_name());
        for (name, _, recording) in open {
            if runs.iter().filter(is_whole).any(|run| run.trace_name() == name) {
                recording?.finish()?;
            }
        }
        let lines = runs.iter().filter(is_whole).map(|run| {
            let files = run.files.map(|files| files.to_string()).unwrap_or_default();
            format!("{},{files}\n", run.trace_name())
        });
        put(&folder, "traces.csv", format!("trace,files\n{}", lines.collect::<String>()))
    }
}

/// Name of the filesystem, with the setting of its cleaner.
fn name(run: &CardRun) -> String {
    let cleaner = run.protection_period_s.map(|seconds| format!(", cleaner {seconds} s"));
    run.filesystem.clone() + &cleaner.unwrap_or_default()
}

fn text(runs: &[CardRun]) -> String {
    let header = [
        "filesystem",
        "workload",
        "filled",
        "time",
        "host CPU",
        "requests",
        "written KiB",
        "WA",
        "erased",
        "median",
        "99 %",
        "longest",
        "files",
        "places/file",
        "prepare",
        "fsck",
        "verdict",
    ];
    let mut table = Table::new(header).numbers(2..16);
    for run in runs {
        let CardRun { account, .. } = run;
        let kinds = [account.read, account.write, account.discard, account.flush];
        let requests: u64 = kinds.iter().map(|kind| kind.requests).sum();
        table.row([
            name(run),
            run.workload.clone(),
            format!("{} %{}", run.fill_percent, if run.is_aged { ", aged" } else { "" }),
            time(account.time_us),
            run.host.as_ref().map_or("-".to_owned(), |_| time(run.host_cpu_us)),
            grouped(requests),
            grouped(account.write.bytes.div_ceil(1024)),
            match account.write.bytes {
                0 => "-".to_owned(),
                _ => format!("{:.2}", account.write_amplification),
            },
            grouped(account.erases),
            time(account.latency.p50_us),
            time(account.latency.p99_us),
            time(account.latency.max_us),
            run.files.map_or("-".to_owned(), grouped),
            run.places_per_file.map_or("-".to_owned(), |places| format!("{places:.1}")),
            time(run.prepare_us),
            time(run.check_us),
            run.verdict.clone(),
        ]);
    }
    let card = runs.first().map_or("", |run| run.account.card.as_str());
    let failed = runs.iter().filter(|run| !run.message.is_empty());
    let messages =
        failed.map(|run| format!("{} {}, {}: {}\n", name(run), run.workload, run.verdict, run.message));
    let losses = runs.iter().filter_map(|run| Some(power_loss(run, run.power_loss.as_ref()?)));
    format!("{card}\n{table}\n{}{}", messages.collect::<String>(), losses.collect::<String>())
}

/// Text about the power losses of a run, and the first failures.
fn power_loss(run: &CardRun, results: &CutResults) -> String {
    let CutResults { flushes, cuts, corrected, files_checked, failures, verdict } = results;
    let mut text = format!(
        "{} {}: {cuts} losses of power at {flushes} flushes; fsck corrected something after {corrected}, {files_checked} synced files were looked for, {} failures\n  {verdict}\n",
        name(run),
        run.workload,
        failures.len()
    );
    for failure in failures {
        text += &format!("  after {}: {}\n", failure.id, failure.problem);
    }
    text
}
