//! `floatgate probe`.

use crate::common::{self, Failure, Outcome, grouped_count, read_text};
use crate::devices::{in_use, is_agreed, require_node, rounded};
use crate::output::ReportFormat;
use crate::probe_mtd;
use crate::probe_saved::{self, Saving};
use crate::table::Table;
use crate::terminal::print_note;
use crate::terminal::progress_bar;
use floatgate_card::{Card, CardOptions, CardSpec, Fake};
use floatgate_config::{Library, Override};
use floatgate_host::disk::{Host, holders};
use floatgate_host::mtd::CharDevice;
use floatgate_host::signals::Ending;
use floatgate_host::{Target as _, TargetError};
use floatgate_lab::card::{load, stated_classes};
use floatgate_lab::plot::{Curve, Panel, panels};
use floatgate_lab::report::ResultKind;
use floatgate_mtd::size::text as size;
use floatgate_probe::partition::{Layout, Partition, Table as PartitionTable};
use floatgate_probe::picture::{Picture, pictures};
use floatgate_probe::registers::{self, Registers};
use floatgate_probe::{
    Answer, Answers, HEAD, IMAGE, Kind, Limits, Noise, Probe, ProbeError, ProbeOptions, Promise, Report,
    Samples, Simulated, Value, Verdict, WritePlan, conclude, fio, flashbench, members, probe_simulated,
};
use indicatif::{ProgressBar, ProgressFinish};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args, Default)]
#[command(after_help = "Examples:
  floatgate probe kingston-class-10
  floatgate probe sandisk-extreme --write --set card.open_aus=4
  floatgate probe sandisk-su04g --write --plot probe.svg
  floatgate probe samsung-evo-16g --noise 2 --seed 7 --json
  floatgate probe /dev/mtd0

A card of the catalogue is simulated in virtual time. A file or block device is only read, unless --write is given. A device in use is refused: probe the card \
from which a board runs in a reader on another computer, or boot the board from another medium.

With --write, all overwritten data is restored at the end, also after Ctrl-C. Before a range is overwritten, its contents are saved durably in a file. \
If the probe is killed or the host loses power, --restore writes the contents back; --kept lists such files, and --forget deletes one.

The confidence of an answer is the probability that it is right. A property that the measurements do not show has no value; the reason gives the limit below \
which its effect must be. A file or a loop device is an image: its contents and its partition table are evaluated, its times are not.

Raw flash at /dev/mtdN is read once, as by ubihealthd, and timed as by flash_speed. --write tests only blank blocks, and erases them again; a block \
with data in its OOB is not blank. Nothing is written while a filesystem is mounted on the flash, UBI is attached, or anything else uses it.")]
pub(crate) struct Args {
    /// A block device, a file, an MTD character device, the name of a simulated card (see `floatgate list parts`), or the path of its TOML file
    #[arg(required_unless_present_any = ["from", "kept", "forget"])]
    target: Option<PathBuf>,

    /// Override any field of a simulated card: --set card.open_aus=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Also run write tests, for open allocation units, caches and the real size. Prints what will be overwritten, and asks for confirmation
    #[arg(long, group = "writing")]
    write: bool,

    /// Overwrite or delete without asking for confirmation
    #[arg(long, requires = "writing")]
    yes: bool,

    /// Folder in which --write saves contents before it overwrites them, on a disk with enough free space [default: $XDG_STATE_HOME/floatgate or ~/.local/state/floatgate]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "restore", "forget"])]
    keep: Option<PathBuf>,

    /// List the files in which interrupted probes have saved contents
    #[arg(long, conflicts_with_all = ["target", "from", "writing", "set", "raw", "plot", "printed", "noise", "minutes", "registers"])]
    kept: bool,

    /// Delete a saved file that --kept lists. Its contents can then no longer be restored
    #[arg(long, value_name = "FILE", group = "writing", conflicts_with_all = ["target", "from", "write", "restore", "set", "raw", "plot", "printed", "noise", "minutes", "registers"])]
    forget: Option<PathBuf>,

    /// Restore the contents that an interrupted probe saved in this file to the same device, without measuring. Another device is refused
    #[arg(long, value_name = "FILE", group = "writing", conflicts_with_all = ["write", "set", "raw", "plot", "printed", "noise"])]
    restore: Option<PathBuf>,

    /// End after this number of minutes, including the time to restore overwritten data, or after 2 GiB
    /// of writes per ten minutes [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1440), conflicts_with_all = ["from", "restore"])]
    minutes: Option<u64>,

    /// Evaluate this file instead of measuring: samples that --raw has written, a log of flashbench, or a result of fio (--output-format=json)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "write", "restore", "set"])]
    from: Option<PathBuf>,

    /// Write all samples as CSV
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,

    /// Write diagrams of the measurements behind the answers, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Folder with the registers of the card: the files cid, csd, scr, ssr, life_time and pre_eol_info as
    /// in sysfs, and ext_csd. The folder of a block device is found without this option
    #[arg(long, value_name = "DIR")]
    registers: Option<PathBuf>,

    /// Classes that are printed on the card: C10, U1, V30, A1. --write tests whether the card meets them. Classes in its registers need not be given
    #[arg(long, value_name = "CLASS,...", value_delimiter = ',', value_parser = class)]
    printed: Vec<Promise>,

    /// Jitter of a simulated card and its host: 1 as on a real card and host, 0 for none [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = noise_factor, conflicts_with = "from")]
    noise: Option<f64>,

    /// Seed of the order of requests, of a simulated card and of its jitter
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    format: ReportFormat,
}

fn class(text: &str) -> Result<Promise, String> {
    Promise::named(text)
        .ok_or_else(|| "no class: there are C2 to C10, U1, U3, V6 to V90, A1 and A2".to_owned())
}

fn noise_factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100.0).contains(&factor) { Ok(factor) } else { Err("not between 0 and 100".to_owned()) }
}

/// Samples that a probe took before its end, and the reason of an early end.
struct Measured {
    samples: Samples,
    /// Tool that wrote the log; `None` for samples of floatgate.
    tool: Option<&'static str>,
    answers: Answers,
    /// Classes that a simulated card states.
    stated: Vec<Promise>,
    /// Partitions of a file or block device.
    layout: Option<Layout>,
    trouble: Option<ProbeError>,
    /// Failure to restore overwritten contents.
    loss: Option<Failure>,
}

impl Measured {
    fn new(samples: Samples, trouble: Option<ProbeError>) -> Self {
        Self {
            answers: conclude(&samples),
            samples,
            tool: None,
            stated: Vec::new(),
            layout: None,
            trouble,
            loss: None,
        }
    }

    /// Answers in another tool's log, which has no samples.
    fn of_log(tool: &'static str, answers: Answers) -> Self {
        Self {
            samples: Samples::default(),
            tool: Some(tool),
            answers,
            stated: Vec::new(),
            layout: None,
            trouble: None,
            loss: None,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.kept {
        return probe_saved::list(args.keep.as_deref(), args.format);
    }
    if let Some(file) = &args.forget {
        return probe_saved::forget(file, args.yes);
    }
    let Some(file) = args.from.as_ref().or(args.target.as_ref()) else {
        return Err(Failure::new("no target", "name a device, a file or a card"));
    };
    if args.from.is_none() {
        require_node(file)?;
    }
    if args.from.is_none() && CharDevice::is_one(file) {
        refuse_simulation(args, file)?;
        refuse_samples(args)?;
        if args.minutes.is_some() || args.restore.is_some() || args.keep.is_some() {
            return Err(Failure::new(
                "--minutes, --restore and --keep: raw flash is read once, and nothing of it is overwritten that must be restored",
                "leave them out",
            ));
        }
        let device =
            probe_mtd::Args { path: file, writes: args.write, agreed: args.yes, format: args.format };
        return probe_mtd::run(&device);
    }
    if let Some(saved) = &args.restore {
        return write_back(args, file, saved);
    }
    common::check_plot(args.plot.as_deref())?;
    for path in [&args.raw, &args.plot].into_iter().flatten() {
        common::check_place(path)?;
    }
    args.raw.as_deref().map_or(Ok(()), check_raw)?;
    report(args, file.display().to_string(), measured(args, file)?)
}

fn measured(args: &Args, file: &Path) -> Result<Measured, Failure> {
    if args.from.is_some() {
        return from_file(file);
    }
    let ending = Ending::new();
    if is_simulated(file) {
        if args.keep.is_some() {
            return Err(Failure::new(
                format!("--keep: {} is simulated, and nothing of it is saved", file.display()),
                "leave it out, or name a device",
            ));
        }
        return simulated(args, file, &ending);
    }
    refuse_simulation(args, file)?;
    if args.keep.is_some() && !args.write {
        return Err(Failure::new(
            "--keep: without --write nothing is overwritten",
            "leave it out, or add --write",
        ));
    }
    host(args, file, &ending)
}

/// Refuses a file name for samples with an extension of another format than CSV.
fn check_raw(path: &Path) -> Result<(), Failure> {
    let other = |extension: &&std::ffi::OsStr| {
        ["arrow", "feather", "parquet", "json"].iter().any(|name| extension == name)
    };
    match path.extension().filter(other) {
        None => Ok(()),
        Some(_) => Err(Failure::new(
            format!("{}: samples are written as CSV", path.display()),
            format!("name {}", path.with_extension("csv").display()),
        )),
    }
}

/// Refuses an option for samples with an MTD device, whose probe has no samples.
fn refuse_samples(args: &Args) -> Result<(), Failure> {
    let given = [("raw", &args.raw), ("plot", &args.plot), ("registers", &args.registers)];
    match given.into_iter().find(|(_, path)| path.is_some()) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::new(
            format!("--{name}: raw flash has no samples and no registers of a card"),
            "leave it out; --json has all that was measured",
        )),
    }
}

/// True for the name of a card and for a TOML file.
fn is_simulated(file: &Path) -> bool {
    !file.exists() || file.extension().is_some_and(|extension| extension == "toml")
}

/// Refuses options that change a simulated card, if a real device is measured.
fn refuse_simulation(args: &Args, file: &Path) -> Result<(), Failure> {
    let set = args.set.first().map(|set| format!("--set {set}"));
    match set.or_else(|| args.noise.map(|noise| format!("--noise {noise}"))) {
        None => Ok(()),
        Some(option) => Err(Failure::new(
            format!("{option}: {} is measured, not simulated", file.display()),
            "leave it out, or name a card of the catalogue",
        )),
    }
}

/// Size of the largest file of samples, bytes.
const SAMPLES_MAX: u64 = 32 << 20;

fn from_file(file: &Path) -> Result<Measured, Failure> {
    let what = "name a file that --raw has written, a log of flashbench, or a result of fio";
    let text = read_text(file, SAMPLES_MAX, what)?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
    let several = |error| {
        Failure::new(
            format!("{}: {error}", file.display()),
            "give one log at a time: a file for each device, and `floatgate probe --from FILE` once for each",
        )
    };
    let of_fio = || fio::Log::parse(text).map(|log| ("fio", log.conclude()));
    let of_flashbench = || flashbench::Log::parse(text).map(|log| ("flashbench", log.conclude()));
    if let Some((tool, answers)) = of_fio().or_else(of_flashbench) {
        return Ok(Measured::of_log(tool, answers.map_err(several)?));
    }
    if !text.starts_with(HEAD) {
        let why = "no samples, no log of flashbench, and no result of fio";
        return Err(Failure::new(format!("{}: {why}", file.display()), what));
    }
    let bad = |error| Failure::new(format!("{}: {error}", file.display()), what);
    Ok(Measured::new(Samples::from_csv(text).map_err(bad)?, None))
}

fn simulated(args: &Args, name: &Path, ending: &Ending) -> Result<Measured, Failure> {
    if let Some(minutes) = args.minutes {
        return Err(Failure::new(
            format!("--minutes {minutes}: {} is simulated, in its own time", name.display()),
            "leave it out, or name a device",
        ));
    }
    let spec = load(&Library::built_in(), name, &Override::parse_all(&args.set)?)?.spec;
    let make = |stores| card(args, &spec, stores);
    let (samples, trouble) = probe_simulated(make, args.seed, args.write, watch(ending, question_bar()))?;
    Ok(Measured { stated: stated_classes(&spec), ..Measured::new(samples, trouble) })
}

fn card(args: &Args, spec: &CardSpec, stores: bool) -> Result<Simulated<Fake<Card>>, Failure> {
    let bad = |error| Failure::new(error, "see `floatgate list keys` for what a card can have");
    let card = Fake::of_spec(spec, CardOptions { seed: args.seed, stores }).map_err(bad)?;
    Ok(Simulated::new(card, Some(Noise { seed: args.seed, scale: args.noise.unwrap_or(1.0) })))
}

/// Progress bar that shows the question that the probe currently answers.
fn question_bar() -> ProgressBar {
    progress_bar("{spinner} {elapsed} {msg}").with_finish(ProgressFinish::AndClear)
}

/// Listener that shows the question of a probe, and ends the probe when a signal requests it.
fn watch(ending: &Ending, bar: ProgressBar) -> impl FnMut(&'static str) -> bool + use<> {
    let ending = ending.clone();
    let mut last = "";
    move |question: &'static str| {
        if question != last {
            bar.set_message(question);
            last = question;
        }
        ending.is_asked()
    }
}

fn real_bytes(samples: &Samples) -> u64 {
    conclude(samples).capacity.count().unwrap_or(samples.capacity)
}

/// Advice for a device in use, which may be the card from which the system runs.
const IN_USE: &str = "nothing was read or written; for the card from which this system runs, use a reader on another computer, or boot from another medium";

/// Opens a file or block device that is not in use.
fn open(path: &Path, writes: bool) -> Result<Host, Failure> {
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()), advice(&error));
    let refuse = |users: &[String]| match users.is_empty() {
        true => Ok(()),
        false => Err(in_use(path, users, IN_USE)),
    };
    // For a device in use, the error names its users instead of the error `busy`.
    refuse(&holders(path).map_err(failed)?)?;
    let host = Host::open(path, writes).map_err(failed)?;
    refuse(&host.holders().map_err(failed)?)?;
    Ok(host)
}

/// Probes a file or block device, and restores it at the end.
fn host(args: &Args, path: &Path, ending: &Ending) -> Result<Measured, Failure> {
    let mut host = open(path, args.write)?;
    if args.write && !args.yes && !io::stdin().is_terminal() {
        return Err(Failure::new(
            format!("{}: nobody can be asked, as stdin is no terminal", path.display()),
            "--yes agrees in advance; nothing was read or written",
        ));
    }
    if host.is_cached() {
        print_note(&format!(
            "{}: this loop device uses the page cache, whose times are others than those of what is below it: `losetup --direct-io=on` leaves the cache out",
            path.display()
        ));
    }
    if host.rest_bytes() > 0 {
        print_note(&format!(
            "{}: its last {} are no whole sector, and are left out",
            path.display(),
            size(host.rest_bytes())
        ));
    }
    let saving = match args.write {
        true => {
            refuse_members(path, &mut host)?;
            Some(probe_saved::begin(args.keep.as_deref(), path, &mut host)?)
        }
        false => None,
    };
    let mut measured = measure_host(args, &mut host, path, ending, saving.as_ref());
    measured.loss = restore(path, &mut host, write_speed(&measured.samples)).err();
    measured.layout = layout(path, &mut host);
    Ok(measured)
}

/// Number of bytes that the probe wrote per second; 0 if it did not write.
fn write_speed(samples: &Samples) -> f64 {
    let writes = samples.all.iter().filter(|sample| sample.kind == Kind::Write);
    let (bytes, ns) = writes.fold((0, 0), |(bytes, ns), sample| (bytes + sample.bytes, ns + sample.ns));
    if ns == 0 { 0.0 } else { bytes as f64 * 1e9 / ns as f64 }
}

/// Duration of a restoration from which it is announced, s.
const LONG_S: f64 = 3.0;

/// Writes saved data back to a device with a write speed of `speed` bytes per second.
fn restore(path: &Path, host: &mut Host, speed: f64) -> Result<(), Failure> {
    let saved = host.kept_bytes();
    let seconds = saved as f64 / speed;
    if seconds.is_finite() && seconds > LONG_S {
        print_note(&format!("restoring {} takes about {seconds:.0} s", rounded(saved)));
    }
    let bar = progress_bar("{spinner} {elapsed} restoring {bytes} of {total_bytes}");
    bar.set_length(saved);
    let restored = host.restore(|done| bar.set_position(done));
    bar.finish_and_clear();
    restored.map_err(|error| probe_saved::not_restored(path, saved, &error))?;
    if saved > 0 {
        print_note(&format!("{} restored", rounded(saved)));
    }
    Ok(())
}

/// Writes back the data that an earlier probe saved.
fn write_back(args: &Args, path: &Path, saved: &Path) -> Outcome {
    let ending = Ending::new();
    let file = probe_saved::open(saved)?;
    let mut host = open(path, true)?;
    probe_saved::prepare_restore(path, &mut host, saved, file)?;
    let bytes = host.kept_bytes();
    print_note(&format!(
        "{}: overwrites {} with the contents saved in {}",
        path.display(),
        rounded(bytes),
        saved.display()
    ));
    if !args.yes {
        ask(path, &ending)?;
    }
    restore(path, &mut host, 0.0)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses to write to a member of a RAID or of LVM, or to swap, even if it is not in use yet.
fn refuse_members(path: &Path, host: &mut Host) -> Result<(), Failure> {
    let unreadable = |error: TargetError| {
        Failure::new(
            format!("{}: {error}", path.display()),
            "the kernel's log may say more; nothing was written",
        )
    };
    let table = Layout::read(host).map_err(unreadable)?;
    let found = members(host, table.as_ref()).map_err(unreadable)?;
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        format!("{}: {}", path.display(), found.join("; ")),
        "nothing was written: others may begin to use it any time; if nobody needs it, wipefs removes the signature",
    ))
}

/// Partitions of a device. An unreadable table is reported, and the probe continues without it.
fn layout(path: &Path, host: &mut Host) -> Option<Layout> {
    Layout::read(host).unwrap_or_else(|error| {
        print_note(&format!("{}: no partition table: {error}", path.display()));
        None
    })
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ResourceBusy => {
            "it is mounted, part of a RAID or a volume, or changed by another program: end that first"
        }
        io::ErrorKind::PermissionDenied => "only its owner or root may do that",
        _ => {
            "name a block device, an MTD character device (/dev/mtd0), a file, or a card of `floatgate list parts`"
        }
    }
}

fn measure_host(
    args: &Args,
    host: &mut Host,
    path: &Path,
    ending: &Ending,
    saving: Option<&Saving>,
) -> Measured {
    let limits = Limits::of_minutes(args.minutes.unwrap_or(MINUTES));
    let options = ProbeOptions { seed: args.seed, usable_bytes: 0, limits: Some(limits) };
    let capacity = host.capacity();
    let bar = question_bar();
    let mut probe = Probe::new(host, options).watched(watch(ending, bar.clone()));
    let mut trouble = probe.measure_reads().err();
    if let Some(saving) = saving.filter(|_| trouble.is_none()) {
        let plan = probe.write_plan();
        let most = plan.bytes_max.min(limits.bytes).min(capacity);
        let room = saving.folder.check_room(most).map_err(ProbeError::from);
        let ask = || bar.suspend(|| announce(args, path, &plan, ending, &saving.file));
        let agreed = room.and_then(|()| probe.pause(ask));
        trouble = agreed.and_then(|()| measure_with_writes(args, &mut probe, &plan)).err();
    }
    Measured::new(probe.into_samples(), trouble)
}

fn measure_with_writes(
    args: &Args,
    probe: &mut Probe<'_, Host>,
    announced: &WritePlan,
) -> Result<(), ProbeError> {
    probe.measure_capacity()?;
    probe.limit(real_bytes(probe.samples()));
    let plan = probe.write_plan();
    if plan != *announced {
        let ranges = plan.announcement();
        if !args.yes {
            print_note(&format!(
                "it is smaller than it says: further tests would overwrite {ranges}, which needs --yes"
            ));
            return Ok(());
        }
        print_note(&format!("the device is smaller than it claims: overwrites {ranges}"));
    }
    probe.measure_writes(&plan)
}

/// Longest probe of a real device, minutes.
const MINUTES: u64 = 10;

/// Lists the ranges that will be overwritten, and asks for confirmation.
fn announce(
    args: &Args,
    path: &Path,
    plan: &WritePlan,
    ending: &Ending,
    saved: &Path,
) -> Result<(), ProbeError> {
    print_note(&format!(
        "{}: overwrites {}; all is restored at the end, after about {} at most",
        path.display(),
        plan.announcement(),
        grouped_count(args.minutes.unwrap_or(MINUTES), "minute")
    ));
    print_note(&format!(
        "what it overwrites is saved in {}: if it is killed or power is lost, --restore writes that back",
        saved.display()
    ));
    if args.yes || ask(path, ending).is_ok() { Ok(()) } else { Err(ProbeError::NotAgreed) }
}

/// Asks for confirmation at the terminal.
fn ask(path: &Path, ending: &Ending) -> Result<(), Failure> {
    let refused = |why: &str| {
        Err(Failure::new(
            format!("{}: {why}", path.display()),
            "nothing was written; --yes agrees in advance",
        ))
    };
    if !io::stdin().is_terminal() {
        return refused("nobody can be asked, as stdin is no terminal");
    }
    print_note("overwrite? [y/N]");
    if is_agreed(ending) { Ok(()) } else { refused("not agreed") }
}

/// Report about the samples, the registers and the partition table.
fn summary(args: &Args, target: String, measured: &Measured) -> Result<Report, Failure> {
    let Measured { samples, answers, layout, trouble, .. } = measured;
    let mut report = Report::new(target, samples, answers.clone(), trouble.is_none());
    report.registers = stated(args)?;
    if let Some(registers) = &report.registers {
        registers.answer(&mut report.answers);
        report.disagreements = registers.disagreements(report.capacity_bytes, answers);
    }
    let mut promised = measured.stated.clone();
    promised
        .extend(report.registers.iter().filter_map(|all| all.status.as_ref()).flat_map(Promise::of_status));
    report.judge(samples, &args.printed, &promised);
    report.partition.clone_from(layout);
    if let Some(layout) = &mut report.partition {
        layout.judge(answers, report.registers.as_ref().and_then(|stated| stated.status.as_ref()));
    }
    Ok(report)
}

fn report(args: &Args, target: String, mut measured: Measured) -> Outcome {
    let loss = measured.loss.take();
    let Measured { samples, trouble, .. } = &measured;
    if let (Some(trouble), true) = (trouble, samples.all.is_empty()) {
        return Err(Failure::new(format!("{target}: {trouble}"), "nothing was measured"));
    }
    let report = summary(args, target, &measured)?;
    let origin = ResultKind::Probe.of(&report.target).with(&args.set).seeded(args.seed);
    args.format.print(&origin, &report, "answers", || text(&report, measured.tool))?;
    if let Some(raw) = &args.raw {
        common::write_file(raw, &samples.to_csv())?;
    }
    if let Some(plot) = &args.plot {
        draw(plot, &report, samples)?;
    }
    if let Some(trouble) = trouble {
        let more = match trouble {
            ProbeError::Limit { .. } => "; --minutes allows more",
            ProbeError::Folder(_) => "; --keep names another folder",
            _ => "",
        };
        print_note(&format!(
            "{}: {trouble}: the answers are those of the samples so far{more}",
            report.target
        ));
    }
    match (loss, trouble) {
        (Some(loss), _) => Err(loss),
        (None, Some(_)) => Ok(ExitCode::from(1)),
        (None, None) => Ok(ExitCode::SUCCESS),
    }
}

/// Report as JSON about a device or file, which is only read. With `saved`, the file contains samples or the log of
/// another tool.
pub(crate) fn json(path: &Path, saved: bool) -> Result<String, Failure> {
    let (target, from) = if saved { (None, Some(path.to_owned())) } else { (Some(path.to_owned()), None) };
    let args = Args { target, from, ..Args::default() };
    let measured = measured(&args, path)?;
    if let (Some(trouble), true) = (&measured.trouble, measured.samples.all.is_empty()) {
        return Err(Failure::new(format!("{}: {trouble}", path.display()), "nothing was measured"));
    }
    let report = summary(&args, path.display().to_string(), &measured)?;
    serde_json::to_string(&report)
        .map_err(|error| Failure::new(error, "this is a bug in floatgate: please report it"))
}

/// Writes pictures of the samples.
fn draw(path: &Path, report: &Report, samples: &Samples) -> Result<(), Failure> {
    let panel = |picture: Picture| Panel {
        title: picture.title.to_owned(),
        axes: picture.axes,
        is_log: picture.is_log,
        is_joined: picture.is_joined,
        series: picture
            .series
            .into_iter()
            .map(|(name, points)| Curve { name: name.to_owned(), points })
            .collect(),
    };
    let all: Vec<Panel> = pictures(samples, &report.answers).into_iter().map(panel).collect();
    if all.is_empty() {
        return Err(Failure::new("--plot: there are no samples", "logs of other tools have none; use --raw"));
    }
    let count = samples.all.len();
    common::write_picture(
        path,
        &panels(&format!("Probe of {}", report.target), &format!("{count} samples"), &all),
    )
}

/// Decoded registers of the card.
fn stated(args: &Args) -> Result<Option<Registers>, Failure> {
    let found = || registers::folder_of(args.target.as_ref()?);
    let Some(folder) = args.registers.clone().or_else(found) else { return Ok(None) };
    let what = "name a folder with the files cid and csd, as /sys/block/mmcblk0/device";
    let failed = |error: String| Failure::new(format!("{}: {error}", folder.display()), what);
    match Registers::read(&folder).map_err(|error| failed(error.to_string()))? {
        None if args.registers.is_some() => Err(failed("no registers are there".to_owned())),
        registers => Ok(registers),
    }
}

/// Text about the partitions.
fn partitions(report: &Report) -> String {
    let Some(layout) = &report.partition else { return String::new() };
    let mut text = match layout.table {
        PartitionTable::Mbr => "\npartition table: MBR\n".to_owned(),
        PartitionTable::Gpt => "\npartition table: GPT\n".to_owned(),
        PartitionTable::None => "\nno partition table\n".to_owned(),
    };
    for partition in &layout.partitions {
        text += &format!("  {}\n", partition_text(partition));
    }
    for finding in &layout.findings {
        text += &format!("finding: {finding}\n");
    }
    text
}

fn partition_text(partition: &Partition) -> String {
    let place = format!("{} at {}", size(partition.bytes), size(partition.start_bytes));
    let text = match partition.number {
        0 => place,
        number => format!("partition {number}: {place}"),
    };
    let Some(found) = partition.filesystem else { return text };
    format!(
        "{text}, {} with clusters of {}, FAT from {} to {}, file data from {}",
        found.kind,
        size(found.cluster_bytes),
        size(found.fat_start_bytes),
        size(found.fat_end_bytes),
        size(found.data_start_bytes)
    )
}

/// Text about the classes that the card states.
fn classes(report: &Report) -> String {
    let mut text = String::new();
    for Verdict { class, source, holds, reason, .. } in &report.classes {
        let holds = match holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "is not tested",
        };
        text += &format!("class {class} ({source}) {holds}: {reason}\n");
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Text about the registers.
fn statements(report: &Report) -> String {
    let Some(stated) = &report.registers else { return String::new() };
    let mut words = Vec::new();
    if let Some(card) = &stated.identification {
        words.push(format!(
            "maker {:#04x} {}, {} {}, serial {:#010x}, {}",
            card.manufacturer_id,
            card.oem,
            card.name,
            card.revision,
            card.serial,
            card.made()
        ));
    }
    words.extend(stated.capacity_bytes.map(size));
    words.extend(stated.specification.map(|version| format!("SD specification {version}")));
    let status = stated.status.unwrap_or_default();
    words.extend(status.speed_class.map(|class| format!("class {class}")));
    words.extend(status.uhs_grade.map(|grade| format!("U{grade}")));
    words.extend(status.video_class.map(|class| format!("V{class}")));
    words.extend(status.app_class.map(|class| format!("A{class}")));
    words.extend(status.au_bytes.map(|bytes| format!("AU {}", size(bytes))));
    words.extend(stated.life.and_then(|life| life.words()));
    let mut text = format!("\nthe card states: {}\n", words.join(", "));
    for disagreement in &report.disagreements {
        text += &format!("disagreement: {disagreement}\n");
    }
    text
}

fn text(report: &Report, tool: Option<&str>) -> String {
    let mut table = Table::new(["question", "answer", "confidence", "reason"]).numbers(2..3);
    let unanswered = report.answers.all().into_iter().filter(|(_, answer)| answer.reason == IMAGE).count();
    for (name, answer) in report.answers.all().into_iter().filter(|(_, answer)| answer.reason != IMAGE) {
        let confidence = format!("{:.0} %", answer.confidence * 100.0);
        table.row([name.replace('_', " "), value(answer), confidence, reason(answer)]);
    }
    let Report { target, capacity_bytes, samples, .. } = report;
    let measured = tool.map_or_else(
        || {
            let samples = common::grouped_count(*samples as u64, "sample");
            format!("{}, {samples}{}", size(*capacity_bytes), cost(report))
        },
        |tool| format!("log of {tool}"),
    );
    let table = match unanswered {
        0 => table.to_string(),
        _ if unanswered == report.answers.all().len() => format!("{IMAGE}\n"),
        _ => format!("{IMAGE}\n\n{table}"),
    };
    let (classes, statements, partitions) = (classes(report), statements(report), partitions(report));
    let report = format!("{target}: {measured}\n\n{table}{classes}{statements}{partitions}");
    report.trim_end().to_owned()
}

/// Text about the time and the bytes of the probe, which files of earlier versions do not contain.
fn cost(report: &Report) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    match report.time_s {
        0.0 => String::new(),
        seconds => format!(
            "; {seconds:.1} s of the device, {} MiB read, {} MiB written",
            mib(report.read_bytes),
            mib(report.written_bytes)
        ),
    }
}

fn value(answer: &Answer) -> String {
    match answer.value {
        None => "?".to_owned(),
        Some(value) => quantity(value, answer.unit),
    }
}

fn quantity(value: Value, unit: &str) -> String {
    match value {
        Value::Count(bytes) if unit == "B" => size(bytes),
        Value::Count(count) => format!("{count} {unit}"),
        Value::Measure(us) if unit == "us" => floatgate_mtd::Nanos::from_ns((us * 1e3) as u64).to_string(),
        Value::Measure(measure) => format!("{measure} {unit}"),
        Value::Word(word) => word.to_owned(),
    }
}

fn reason(answer: &Answer) -> String {
    let others = answer.alternatives.iter().take(2);
    let others: Vec<String> = others
        .map(|other| format!("{} ({:.0} %)", quantity(other.value, answer.unit), other.confidence * 100.0))
        .collect();
    match others.is_empty() {
        true => answer.reason.clone(),
        false => format!("{}; or {}", answer.reason, others.join(", ")),
    }
}
