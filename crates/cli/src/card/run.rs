//! `floatgate card run`.

use super::clock::clock;
use super::recorded::Recording;
use super::speed::time;
use crate::common::{Failure, Outcome, grouped};
use crate::help::Help;
use crate::output::ReportFormat;
use crate::signals::Endings;
use crate::table::Table;
use floatgate_image::mount::{MountedDevice, Unmounter};
use floatgate_lab::card::run::{CardRun, FILESYSTEMS, GUEST, Observers, WORKLOADS, Workbench};
use floatgate_lab::card::{CardOptions, load};
use floatgate_lab::config::{Library, Override};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::{env, fs};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate card run kingston-class-10 --fs ext4,vfat --workload postmark
  floatgate card run samsung-evo-16g --fs f2fs --workload create,dbench --json
  floatgate card run a1-32g --set card.capacity_bytes=1GiB --fs ext4 --workload job.fio --fill 50%
  floatgate card run a1-32g --fs ext4,f2fs,nilfs2,vfat --workload postmark,create --record traces

Boots Debian's stock kernel in QEMU with the card as its drive, and makes, mounts, fills, works on, unmounts and checks each filesystem under \
each workload, each on a new card. The times are the card's own: it works on one request after the other, and nothing passes between them. \
The account is that of the workload up to the end of umount; mkfs, mount and filling stand as prepare, fsck as check. A workload that ends in \
.fio is a job file of fio, any other file a shell script; both run in the root of the filesystem. NILFS2 runs without its cleaner, and is \
checked by mounting it again and reading everything. The first run fetches the kernel's package (70 MB) into the user's cache. No root is \
needed beyond what FUSE asks for. Exit status 1 when a filesystem is not clean.")]
pub(crate) struct Args {
    /// A card's name (see `floatgate parts`), or the path of a TOML file
    card: PathBuf,

    /// Filesystems: ext4, f2fs, nilfs2, vfat, exfat, btrfs, xfs
    #[arg(long = "fs", value_name = "FS,FS,...", value_delimiter = ',', default_value = "ext4,f2fs,nilfs2,vfat",
        value_parser = filesystem)]
    filesystems: Vec<String>,

    /// Workloads: postmark, dbench, create, kernel-build, a job file of fio, a script
    #[arg(
        long = "workload",
        value_name = "NAME|FILE,...",
        value_delimiter = ',',
        default_value = "postmark"
    )]
    workloads: Vec<String>,

    /// Part of the filesystem that is filled before the workload begins
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percent)]
    fill: u8,

    /// Override any field of the card: --set card.open_aus=4 --set card.bus=sdr104
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Folder for a trace of each workload, FS-WORKLOAD.csv, and traces.csv with the number of files that each made
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Seconds that the guest may take
    #[arg(long, value_name = "N", default_value_t = 1800, value_parser = clap::value_parser!(u32).range(1..))]
    patience: u32,

    /// Seed of the card's bad blocks and errors
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    format: ReportFormat,
}

fn filesystem(text: &str) -> Result<String, String> {
    let known = FILESYSTEMS.map(|(name, _)| name);
    if known.contains(&text) { Ok(text.to_owned()) } else { Err(format!("there are {}", known.join(", "))) }
}

fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| *percent <= 99).ok_or_else(|| "from 0% to 99%".to_owned())
}

/// Judge of the tests: it makes the guest and boots it.
const JUDGE: &str = include_str!("../../../../tests/kernel/judge");
const INIT: &str = include_str!("../../../../tests/kernel/init");

/// Modules of the guest's kernel besides those of the judge. Not every kernel has each as a module.
const MODULES: &str =
    "ext4 crc32c_generic f2fs nilfs2 nls_cp437 nls_iso8859-1 nls_ascii nls_utf8 vfat exfat btrfs xfs";

/// Lines of dbench's load file that are run.
const DBENCH_LINES: usize = 5_000;
const DBENCH_LOAD: &str = "/usr/share/dbench/client.txt";

pub(crate) fn run(args: &Args) -> Outcome {
    let endings = Endings::block()?;
    let card = load(&Library::built_in(), &args.card, &Override::parse_all(&args.set)?)?;
    let jobs = jobs(args)?;
    require_programs(args, &jobs)?;
    let (recordings, observers) = recordings(args.record.as_deref())?;
    let options = CardOptions { seed: args.seed, stores: true };
    let bench = Workbench::new(card, options, observers)?;
    let folder = tempfile::tempdir().map_err(|error| host(&env::temp_dir(), &error))?;
    let input = orders(args, &jobs, folder.path(), bench.marks())?;
    let runs = boot(args, endings, bench, folder.path(), &input)?;
    recordings.finish(&runs)?;
    let is_clean = runs.iter().all(|run| run.verdict == "clean");
    args.format.print(&runs, "", || text(&runs))?;
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A workload as the guest knows it, and its file.
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

/// Places of programs that Debian has and users do not look in.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default())
}

fn is_installed(program: &str) -> bool {
    path().split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// Programs and packages, as `program:package`.
fn needs(needs: &str) -> impl Iterator<Item = (&str, &str)> {
    needs.split_whitespace().filter_map(|need| need.split_once(':'))
}

fn require_programs(args: &Args, jobs: &[Job]) -> Result<(), Failure> {
    let host =
        "qemu-system-x86_64:qemu-system-x86 busybox:busybox-static nanddump:mtd-utils depmod:kmod cpio:cpio";
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

fn host(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "name a place that can be written")
}

/// Writes a file of the guest's orders.
fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let path = folder.join(name);
    fs::write(&path, content).map_err(|error| host(&path, &error))
}

/// The guest's script, and its input beside it. Returns the folder of the input.
fn orders(args: &Args, jobs: &[Job], folder: &Path, marks: u64) -> Result<PathBuf, Failure> {
    let input = folder.join("in");
    for name in ["in", "out", "card"] {
        let path = folder.join(name);
        fs::create_dir(&path).map_err(|error| host(&path, &error))?;
    }
    let plan =
        jobs.iter().flat_map(|job| args.filesystems.iter().map(move |fs| format!("{fs} {}\n", job.name)));
    put(folder, "script", GUEST)?;
    put(&input, "plan", plan.collect::<String>())?;
    put(&input, "marks", format!("{marks}\n"))?;
    put(&input, "fill", format!("{}\n", args.fill))?;
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

/// The folder of the guest, with the judge in it.
fn judge() -> Result<PathBuf, Failure> {
    let home = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let folder = home.unwrap_or_else(env::temp_dir).join("floatgate/guest");
    fs::create_dir_all(&folder).map_err(|error| host(&folder, &error))?;
    for (name, content) in [("judge", JUDGE), ("init", INIT)] {
        let path = folder.join(name);
        // The guest is made again when these are newer than it is.
        if fs::read(&path).ok().as_deref() != Some(content.as_bytes()) {
            fs::write(&path, content).map_err(|error| host(&path, &error))?;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|error| host(&path, &error))?;
    }
    Ok(folder)
}

/// Starts the judge in a process group of its own, so that a signal ends all of it.
fn start(args: &Args, folder: &Path, input: &Path) -> Result<Child, Failure> {
    let guest = judge()?;
    let known = FILESYSTEMS.iter().chain(&WORKLOADS).flat_map(|known| needs(known.1));
    let programs: Vec<String> = known
        .filter(|(program, _)| is_installed(program))
        .map(|(program, package)| format!("{program}:{package}"))
        .collect();
    let log = folder.join("judge.log");
    let said = fs::File::create(&log).map_err(|error| host(&log, &error))?;
    let judge = guest.join("judge");
    Command::new(&judge)
        .args([&folder.join("script"), input, &folder.join("out")])
        .env("JUDGE_CACHE", guest.join("kernel"))
        .env("JUDGE_PROGRAMS", programs.join(" "))
        .env("JUDGE_MODULES", MODULES)
        .env("JUDGE_CARD", folder.join("card/card"))
        .env("TMPDIR", folder)
        .env("JUDGE_SECONDS", args.patience.to_string())
        .stdin(Stdio::null())
        .stderr(said.try_clone().map_err(|error| host(&log, &error))?)
        .stdout(said)
        .process_group(0)
        .spawn()
        .map_err(|error| host(&judge, &error))
}

/// Serves the card to the guest until that has ended.
fn boot(
    args: &Args,
    endings: Endings,
    bench: Workbench,
    folder: &Path,
    input: &Path,
) -> Result<Vec<CardRun>, Failure> {
    let directory = folder.join("card");
    let failed = |error: floatgate_image::mount::MountError| {
        Failure::new(format!("{}: {error}", args.card.display()), error.help())
    };
    let clock = clock(floatgate_mtd::Instant::ZERO, 0.0);
    let mut mounted = MountedDevice::new(bench, clock, "card", &directory).map_err(failed)?;
    let unmounter = mounted.unmounter();
    let mut child = start(args, folder, input)?;
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    endings.with_each(move || {
        // They inherit the blocked signals, so that only this one ends them; what they leave is in our own folder.
        let _ = killpg(group, Signal::SIGKILL);
    });
    let ended = std::thread::spawn(move || {
        let status = child.wait();
        unmount(unmounter);
        status
    });
    let (bench, _) = mounted.serve().map_err(failed)?;
    let status = ended.join().ok().and_then(Result::ok);
    if status.is_none_or(|status| !status.success()) {
        let said = fs::read_to_string(folder.join("judge.log")).unwrap_or_default();
        let lines: Vec<&str> = said.lines().rev().take(12).collect();
        let last = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
        return Err(Failure::new(
            format!("the guest has not ended as it should\n{last}"),
            "an interrupt, or too little `--patience`; else the lines above say what is missing",
        ));
    }
    Ok(bench.into_runs())
}

/// Unmounts; the last user may need a moment.
fn unmount(mut unmounter: Unmounter) {
    for _ in 0..100 {
        if matches!(unmounter.unmount(), Ok(true)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The traces of all runs, in a folder.
struct Recordings {
    folder: Option<PathBuf>,
    open: Arc<Mutex<Vec<Result<Recording, Failure>>>>,
}

fn recordings(folder: Option<&Path>) -> Result<(Recordings, Observers), Failure> {
    let open = Arc::<Mutex<Vec<Result<Recording, Failure>>>>::default();
    let recordings = Recordings { folder: folder.map(Path::to_owned), open: Arc::clone(&open) };
    let Some(folder) = folder.map(Path::to_owned) else { return Ok((recordings, Box::new(|_, _| None))) };
    fs::create_dir_all(&folder).map_err(|error| host(&folder, &error))?;
    let observers: Observers = Box::new(move |filesystem, workload| {
        let recording = Recording::new(&folder.join(format!("{filesystem}-{workload}.csv")));
        let observer = recording.as_ref().ok().map(Recording::observer);
        open.lock().ok()?.push(recording);
        observer
    });
    Ok((recordings, observers))
}

impl Recordings {
    fn finish(self, runs: &[CardRun]) -> Result<(), Failure> {
        let Some(folder) = self.folder else { return Ok(()) };
        let open = self.open.lock().map(|mut open| std::mem::take(&mut *open)).unwrap_or_default();
        for recording in open {
            recording?.finish()?;
        }
        let lines = runs.iter().map(|run| {
            let files = run.files.map(|files| files.to_string()).unwrap_or_default();
            format!("{}-{},{files}\n", run.filesystem, run.workload)
        });
        put(&folder, "traces.csv", format!("trace,files\n{}", lines.collect::<String>()))
    }
}

fn text(runs: &[CardRun]) -> String {
    let header = [
        "filesystem",
        "workload",
        "time",
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
    let mut table = Table::new(header).numbers(2..14);
    for run in runs {
        let CardRun { account, .. } = run;
        let kinds = [account.read, account.write, account.discard, account.flush];
        let requests: u64 = kinds.iter().map(|kind| kind.requests).sum();
        table.row([
            run.filesystem.clone(),
            run.workload.clone(),
            time(account.time_us),
            grouped(requests),
            grouped(account.write.bytes.div_ceil(1024)),
            format!("{:.2}", account.write_amplification),
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
        failed.map(|run| format!("{} {}, {}: {}\n", run.filesystem, run.workload, run.verdict, run.message));
    format!("{card}\n{table}\n{}", messages.collect::<String>())
}
