//! `floatgate probe`.

mod device;
mod mtd;
mod saved;
mod show;

use crate::common::{self, Failure, Outcome, read_text};
use crate::devices::require_node;
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::terminal::{print_note, progress_bar};
use floatgate_card::{Card, CardOptions, CardSpec, Fake};
use floatgate_config::{Library, Override};
use floatgate_host::mtd::CharDevice;
use floatgate_host::signals::Ending;
use floatgate_lab::card::{load, stated_classes};
use floatgate_lab::report::ResultKind;
use floatgate_probe::partition::Layout;
use floatgate_probe::registers::{self, Registers};
use floatgate_probe::{
    Answers, HEAD, Noise, ProbeError, Promise, Report, Samples, Simulated, conclude, fio, flashbench,
    probe_simulated,
};
use indicatif::{ProgressBar, ProgressFinish};
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
    raw: Option<OutputFile>,

    /// Write diagrams of the measurements behind the answers, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<OutputFile>,

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
        return saved::list(args.keep.as_deref(), args.format);
    }
    if let Some(file) = &args.forget {
        return saved::forget(file, args.yes);
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
        let device = mtd::Args { path: file, writes: args.write, agreed: args.yes, format: args.format };
        return mtd::run(&device);
    }
    if let Some(saved) = &args.restore {
        return device::write_back(args, file, saved);
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
    device::probe(args, file, &ending)
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
    let given = [
        ("raw", args.raw.as_deref()),
        ("plot", args.plot.as_deref()),
        ("registers", args.registers.as_deref()),
    ];
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
    args.format.print(&origin, &report, "answers", || show::text(&report, measured.tool))?;
    if let Some(raw) = &args.raw {
        common::write_file(raw, &samples.to_csv())?;
    }
    if let Some(plot) = &args.plot {
        show::draw(plot, &report, samples)?;
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
