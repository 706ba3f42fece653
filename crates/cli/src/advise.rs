//! `floatgate advise`.

use crate::common::{Failure, Outcome, read_text};
use crate::fs::{SHARE, with_progress};
use crate::output::ReportFormat;
use crate::terminal::progress_bar;
use crate::{devices, image, probe};
use floatgate_config::{Kind, Library, Override, Problem};
use floatgate_lab::advise::Advice;
use floatgate_lab::advise::card::{self, DeviceFacts};
use floatgate_lab::advise::existing::{Existing, HEAD_BYTES};
use floatgate_lab::advise::flash::{self, Board};
use floatgate_lab::advise::mkfs::{BlockFs, Need};
use floatgate_lab::card::shipped::{ShippedTrace, traces_for};
use floatgate_lab::card::{LoadedCard, is_card, load};
use floatgate_lab::fit::{self, RESULTS_MAX_BYTES};
use floatgate_lab::report::{EnvelopeError, ResultKind, StoredKind, kind_of};
use floatgate_lab::study::options::{Celsius, State, Years};
use floatgate_probe::flashbench;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate advise samsung-evo-16g
  floatgate advise kingston-class-10 --workload postmark --state full
  floatgate advise samsung-evo-16g --need boot,root,power-cuts --workload create
  floatgate advise /dev/mmcblk0
  floatgate probe /dev/mmcblk0 --write --json > card.json && floatgate advise card.json
  floatgate advise imx6-mx30lf2g18ac --partition 64MiB --years 10 --temperature 55
  floatgate advise w25n01gv --json

The target is a card of the catalogue, a block device or an image of one, or a saved result of `probe`. For raw flash it is a setup or a part. Block devices \
and images are only read, as by `probe`. A probed device is advised by the card of the catalogue whose own probe is most like the device's probe; a figure \
in which they differ by more than 2 times is named. With `--need boot` and a need that FAT does not meet, two partitions are laid out: FAT that boots, and the root.

Filesystems of cards are compared by replaying the traces of `fs cards`. Filesystems of raw flash, bus modes, ECC and scrubbing are compared by the tests of \
`fs`, `speed`, `ecc advise` and `life`, on as much flash as these tests need. A log of flashbench or fio does not contain the size of the card, so it gives no \
advice: probe the card instead.")]
pub(crate) struct Args {
    /// Card, block device, image, saved result of `probe`, setup or part
    target: PathBuf,

    /// Override any field of a catalogue's card or of a setup: --set card.open_aus=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Filesystems to compare on cards: ext4, f2fs, nilfs2, vfat [default: all]
    #[arg(long = "fs", value_name = "FS,...", value_delimiter = ',')]
    filesystems: Vec<String>,

    /// Workloads to replay on cards: create, postmark, dbench, kernel-build, journald, sqlite, swap, camera, log2ram, docker [default: the first four]
    #[arg(long = "workload", value_name = "NAME,...", value_delimiter = ',')]
    workloads: Vec<String>,

    /// Requirements on the filesystem of a card: boot, root, fsck, trim, windows, power-cuts
    #[arg(long = "need", value_name = "NAME,...", value_delimiter = ',')]
    needs: Vec<String>,

    /// State of a card before the workload [default: empty]
    #[arg(long, value_enum)]
    state: Option<State>,

    /// Bytes written per day, from which the life is computed: to a card by its filesystem, to raw flash by programs
    #[arg(long, value_name = "BYTES", value_parser = image::sizes::bytes)]
    write_per_day: Option<u64>,

    /// Size of the partition of raw flash [default: from the setup]
    #[arg(long, alias = "size", value_name = "BYTES", value_parser = image::sizes::bytes)]
    partition: Option<u64>,

    /// Number of years that data on raw flash must last [default: 10]
    #[arg(long, value_name = "YEARS")]
    years: Option<Years>,

    /// Constant temperature of raw flash, degrees Celsius [default: 40]
    #[arg(long, value_name = "C", allow_negative_numbers = true)]
    temperature: Option<Celsius>,

    /// Seed of the differences between chips, and between cards
    #[arg(long, default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    format: ReportFormat,
}

/// Defaults of the age in years and of the temperature in degrees Celsius.
const YEARS: f64 = 10.0;
const TEMPERATURE_C: f64 = 40.0;

impl Args {
    /// Refuses options that do not describe the target.
    fn refuse(&self, why: &str, options: &[(&str, bool)]) -> Result<(), Failure> {
        match options.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::new(
                format!("{option} says nothing about {}: {why}", self.target.display()),
                format!("leave {option} out"),
            )),
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let advice = advice(args)?.rendered(ToString::to_string);
    let origin = ResultKind::Advise.of(&advice.target).with(&args.set).seeded(args.seed);
    args.format.finish_report(&origin, &advice)
}

fn advice(args: &Args) -> Result<Advice, Failure> {
    let library = Library::built_in();
    let path = args.target.as_path();
    let sets = Override::parse_all(&args.set)?;
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    devices::require_node(path)?;
    refuse_raw_flash(path)?;
    if path.exists() && !is_toml {
        if let Some(set) = args.set.first() {
            return Err(Failure::new(
                format!("--set {set}: {} is measured, not simulated", path.display()),
                "leave --set out, or name a card of the catalogue",
            ));
        }
        return of_device(&library, args, path);
    }
    if is_card(&library, path) {
        let card = load(&library, path, &sets)?;
        return of_card(
            &library,
            args,
            &DeviceFacts::of_card(&path.display().to_string(), &card),
            Some(&card),
        );
    }
    of_flash(&library, args, &sets)
}

/// Refuses the node of an MTD device. Neither chip nor board can be read from it, and mtdblock is no card.
fn refuse_raw_flash(path: &Path) -> Result<(), Failure> {
    let Some(number) = floatgate_host::mtd::number_of(path) else { return Ok(()) };
    Err(Failure::new(
        format!("{}: raw flash, whose device node names neither its chip nor its board", path.display()),
        format!(
            "name its part or setup: `floatgate advise mx30lf2g18ac`; `floatgate list parts` and `floatgate list setups` list them, `floatgate probe /dev/mtd{number}` measures it"
        ),
    ))
}

fn of_card(
    library: &Library,
    args: &Args,
    known: &DeviceFacts,
    card: Option<&LoadedCard>,
) -> Result<Advice, Failure> {
    args.refuse(
        "a card is not looked at over years, and its partition is what this advises",
        &[
            ("--partition", args.partition.is_some()),
            ("--years", args.years.is_some()),
            ("--temperature", args.temperature.is_some()),
        ],
    )?;
    if args.write_per_day == Some(0) {
        return Err(Failure::new(
            "--write-per-day 0: what is not written does not wear",
            "give the bytes of a day",
        ));
    }
    let wanted = card::AdviceOptions {
        traces: chosen(args)?,
        needs: needs(args)?,
        state: args.state.unwrap_or_default().into(),
        write_bytes_per_day: args.write_per_day.unwrap_or(card::BYTES_PER_DAY),
        seed: args.seed,
    };
    Ok(with_progress(SHARE, |progress| card::advise(library, known, card, &wanted, progress))?)
}

/// Advice for a device, an image of a device, or the saved result of a probe.
fn of_device(library: &Library, args: &Args, path: &Path) -> Result<Advice, Failure> {
    let saved = saved(path)?;
    let is_device = saved.is_none();
    let json = match saved {
        Some(Saved::Report(json)) => json,
        Some(Saved::Samples) => probe::json(path, true)?,
        None => probe::json(path, false)?,
    };
    let mut known = DeviceFacts::of_probe(&path.display().to_string(), &json)?;
    if is_device {
        find_existing(path, &mut known)?;
    }
    of_card(library, args, &known, None)
}

/// A saved result of a probe.
enum Saved {
    /// Output of `probe --json`, as text.
    Report(String),
    /// File of samples that `probe --raw` wrote.
    Samples,
}

/// Size of the largest saved result, bytes.
const SAVED_MAX: u64 = 32 << 20;

/// Kind of the saved result in a file; `None` for a device or an image.
fn saved(path: &Path) -> Result<Option<Saved>, Failure> {
    let what = "name a device, an image, or what `floatgate probe` has saved";
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()), what);
    if !path.metadata().map_err(failed)?.is_file() {
        return Ok(None);
    }
    let mut head = [0; 64];
    let read = File::open(path).and_then(|mut file| file.read(&mut head)).map_err(failed)?;
    let head = head.get(..read).unwrap_or_default();
    if head.starts_with(floatgate_probe::HEAD.as_bytes()) {
        return Ok(Some(Saved::Samples));
    }
    if is_list(head) {
        return Err(EnvelopeError::Missing.of_file(&path.display().to_string()).into());
    }
    if head.trim_ascii_start().first() != Some(&b'{') {
        require_no_log(path)?;
        return Ok(None);
    }
    let text = read_text(path, SAVED_MAX, what)?;
    let json = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{}: no JSON of a probe: {error}", path.display()), what))?;
    match kind_of(&json).map_err(|error| error.of_file(&path.display().to_string()))? {
        StoredKind::Other(ResultKind::Probe) => Ok(Some(Saved::Report(text))),
        kind => Err(no_target(path, &format!("a result of the kind `{kind}`"))),
    }
}

/// True if the input starts with a JSON list; results of earlier versions were lists without an envelope.
fn is_list(head: &[u8]) -> bool {
    let list = head.trim_ascii_start().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    list.is_some_and(|rest| rest.starts_with(b"{") || rest.starts_with(b"]"))
}

/// Refuses the log of a benchmark, which would otherwise be read as a device or an image.
fn require_no_log(path: &Path) -> Result<(), Failure> {
    let is_short = path.metadata().is_ok_and(|file| file.is_file() && file.len() <= RESULTS_MAX_BYTES);
    let text = if is_short { std::fs::read_to_string(path).ok() } else { None };
    let Some(text) = text.filter(|text| !text.contains('\0')) else { return Ok(()) };
    if flashbench::Log::parse(&text).is_some() {
        return Err(Failure::new(
            format!("{}: a log of flashbench, which does not contain the size of the card", path.display()),
            "`floatgate probe --from FILE` concludes from it; give the card itself for advice",
        ));
    }
    if fit::parse(text.as_bytes()).understood > 0 {
        return Err(no_target(path, "a log of flash_speed, dd or U-Boot, for `floatgate fit`"));
    }
    Ok(())
}

/// Failure for a file of figures whose target must be named by the user.
fn no_target(path: &Path, what: &str) -> Failure {
    Failure::new(
        format!("{}: {what}, of which no advice follows", path.display()),
        "name the setup, part or card itself: `floatgate advise NAME` measures what it needs; `floatgate list setups` and `floatgate list parts` list names",
    )
}

/// Finds filesystems on the partitions, or on the whole device if it has no partition table.
fn find_existing(path: &Path, known: &mut DeviceFacts) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("{}: {error}", path.display()), "name a device or image that can be read")
    };
    let file = File::open(path).map_err(failed)?;
    let find = |start: u64| {
        let mut head = vec![0; HEAD_BYTES];
        // A partition beyond the end of the device is a finding of the probe.
        file.read_exact_at(&mut head, start).ok()?;
        Existing::parse(&head)
    };
    for partition in &mut known.partitions {
        partition.existing = find(partition.start_bytes);
    }
    if known.partitions.is_empty()
        && let Some(existing) = find(0)
    {
        known.partitions.push(card::Partition {
            number: 0,
            start_bytes: 0,
            bytes: known.capacity_bytes,
            existing: Some(existing),
        });
    }
    Ok(())
}

fn of_flash(library: &Library, args: &Args, sets: &[Override]) -> Result<Advice, Failure> {
    let board = Board::named(library, &args.target, sets).map_err(|error| unknown(library, args, error))?;
    args.refuse(
        "raw flash has UBIFS or JFFS2, which are compared empty and full, with the files of `floatgate fs`",
        &[
            ("--fs", !args.filesystems.is_empty()),
            ("--workload", !args.workloads.is_empty()),
            ("--need", !args.needs.is_empty()),
            ("--state", args.state.is_some()),
        ],
    )?;
    let wanted = flash::AdviceOptions {
        partition_bytes: args.partition,
        years: args.years.map_or(YEARS, Years::get),
        temperature_c: args.temperature.map_or(TEMPERATURE_C, Celsius::get),
        write_bytes_per_day: args.write_per_day.unwrap_or(flash::BYTES_PER_DAY),
        seed: args.seed,
    };
    let bar = progress_bar("{spinner} {elapsed} {msg}");
    let advice = flash::advise(library, &board, &wanted, &|what| bar.set_message(what));
    bar.finish_and_clear();
    Ok(advice?)
}

/// Failure for an unknown name, with the names of similar cards, setups and parts.
fn unknown(library: &Library, args: &Args, error: floatgate_lab::Error) -> Failure {
    let is_unknown = error.config().is_some_and(|error| error.problem() == Problem::UnknownName);
    if !is_unknown {
        return error.into();
    }
    let name = args.target.display().to_string();
    let names = [Kind::Card, Kind::Setup, Kind::Part].map(|kind| library.names(kind).collect::<Vec<_>>());
    let near = floatgate_config::did_you_mean(&name, names.concat());
    Failure::new(
        format!("{name} is neither a file nor a card, setup or part of the catalogue"),
        format!("{near}`floatgate list parts` and `floatgate list setups` list them"),
    )
}

/// Demands that the options state.
fn needs(args: &Args) -> Result<Vec<Need>, Failure> {
    let unknown = |name: &String| {
        let known = Need::ALL.map(Need::name).join(", ");
        Failure::new(format!("no need is called {name:?}"), format!("there are {known}"))
    };
    args.needs.iter().map(|name| Need::named(name).ok_or_else(|| unknown(name))).collect()
}

/// Traces of the filesystems and workloads that the options state.
fn chosen(args: &Args) -> Result<Vec<ShippedTrace>, Failure> {
    if let Some(name) = args.filesystems.iter().find(|name| BlockFs::named(name).is_none()) {
        let known = BlockFs::ALL.map(BlockFs::name).join(", ");
        return Err(Failure::new(format!("no filesystem is called {name:?}"), format!("there are {known}")));
    }
    let all = traces_for(&args.workloads);
    if let Some(name) = args.workloads.iter().find(|name| !all.iter().any(|t| t.workload == name.as_str())) {
        let mut known: Vec<&str> = all.iter().map(|trace| trace.workload).collect();
        known.sort_unstable();
        known.dedup();
        return Err(Failure::new(
            format!("no workload is called {name:?}"),
            format!("there are {}", known.join(", ")),
        ));
    }
    let is_in = |names: &[String], name: &str| names.is_empty() || names.iter().any(|own| own == name);
    let wanted =
        |t: &ShippedTrace| is_in(&args.filesystems, t.filesystem) && is_in(&args.workloads, t.workload);
    Ok(all.into_iter().filter(wanted).collect())
}
