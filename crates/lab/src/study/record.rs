//! Study `floatgate record`.

use super::report::{Cell, Section, Table};
use super::{Context, Report, Study};
use crate::card::serve::NewCard;
use crate::card::state::CardState;
use crate::card::{self, is_card};
use crate::envelope::Origin;
use crate::progress::Progress;
use crate::recorder::{File, Quantile, Recording, Sectors, Storage, Stream, record};
use crate::{fs_speed, speed_run};
use floatgate_card::CardOptions;
use floatgate_config::Override;
use floatgate_mtd::words::{count, grouped};
use floatgate_mtd::{Nanos, SECTOR_BYTES, size};
use floatgate_sim::error::Error;
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::partition;
use floatgate_sim::rig::{self, RigOptions};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Study of the buffer that a recorder needs.
pub struct Record;

/// Record data that arrives at a steady rate: the write time at each quantile, the buffer that loses no data, the sustained rate
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate record kingston-class-10 --rate 1MB
  floatgate record am62a-w35n01jw --rate 500kB --partition 32MiB
  floatgate record sama5d2-mx25l25635e --fs jffs2 --ring 1MiB --piece 4KiB --json

Writes a ring piece by piece, and again from its start, as a flight recorder or a camera does. Each piece is synced before the next piece: on raw flash by fsync of \
the file, whose contents cannot be compressed; on a card by a flush. By default, twice the free space of a filesystem is written, up to 1 GiB, so that garbage \
collection runs.

Without --rate, data is always available. A second recording follows, at half of the rate that the first recording reached. The size of the buffer includes the \
piece that is being written.")
)]
pub struct RecordOptions {
    /// A setup's, part's or card's name, or the path of a TOML file
    target: PathBuf,

    /// Bytes that arrive per second [default: half of the maximum rate]
    #[cfg_attr(feature = "command", arg(long, value_name = "BYTES", value_parser = size::parse))]
    rate: Option<u64>,

    /// Size of the ring [default: 64 MiB, or 80 % of the free space]
    #[cfg_attr(feature = "command", arg(long, value_name = "BYTES", value_parser = size::parse))]
    ring: Option<u64>,

    /// Total bytes to write [default: twice the ring; on raw flash twice the free space]
    #[cfg_attr(feature = "command", arg(long, value_name = "BYTES", value_parser = size::parse))]
    bytes: Option<u64>,

    /// Bytes of a write: up to 1 MiB, and whole sectors on a card
    #[cfg_attr(feature = "command", arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = size::parse))]
    piece: u64,

    /// Filesystem of raw flash: `ubifs` or `jffs2` [default: UBIFS on NAND, JFFS2 on NOR]
    #[cfg_attr(feature = "command", arg(long, value_name = "KIND"))]
    fs: Option<FilesystemKind>,

    /// Size of the partition of raw flash [default: from the setup]
    #[cfg_attr(feature = "command", arg(long, alias = "size", value_name = "BYTES", value_parser = size::parse))]
    partition: Option<u64>,

    /// Start with a full card, instead of a half-full card
    #[cfg_attr(feature = "command", arg(long))]
    full: bool,

    /// Override any field of the setup or card: --set card.slc.blocks=0
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE"))]
    set: Vec<String>,

    /// Seed of the differences between chips
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,
}

/// Default and maximum size of a piece, bytes.
const PIECE: u64 = 64 << 10;
const PIECE_MAX: u64 = 1 << 20;
/// Default size of the ring, bytes.
const RING: u64 = 64 << 20;
/// Default limit of the bytes that are written.
const BYTES: u64 = 1 << 30;
/// Maximum number of writes.
const WRITES_MAX: u64 = 10_000_000;

impl Default for RecordOptions {
    fn default() -> Self {
        Self {
            target: PathBuf::new(),
            rate: None,
            ring: None,
            bytes: None,
            piece: PIECE,
            fs: None,
            partition: None,
            full: false,
            set: Vec::new(),
            seed: 0,
        }
    }
}

/// Result of recordings on a target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// Title of the setup, or maker and name of the card.
    title: String,
    /// Name of the filesystem, or `card`.
    on: String,
    /// Size of a write, bytes.
    piece_bytes: u64,
    /// Size of the ring, bytes.
    ring_bytes: u64,
    /// Total number of bytes written.
    bytes: u64,
    /// Recordings. Without a given rate, the first one has data that is always available.
    recordings: Vec<Recording>,
}

/// New storage, with its number of free bytes.
struct New {
    title: String,
    on: String,
    free_bytes: u64,
    /// True for a filesystem, which writes to the whole flash in rotation, regardless of the size of the ring.
    is_log: bool,
    storage: Box<dyn Fn() -> Result<Box<dyn Storage>, Error>>,
}

impl RecordOptions {
    fn check(&self) -> Result<(), Error> {
        let zero =
            [("rate", self.rate), ("ring", self.ring), ("bytes", self.bytes), ("piece", Some(self.piece))];
        if let Some((name, _)) = zero.iter().find(|(_, bytes)| *bytes == Some(0)) {
            return Err(Error::request(format!("{name} is 0 bytes"), "give a size such as 64KiB"));
        }
        if self.piece > PIECE_MAX {
            let message =
                format!("a piece of {} is larger than {}", size::text(self.piece), size::text(PIECE_MAX));
            return Err(Error::request(message, "record in smaller pieces"));
        }
        Ok(())
    }

    fn new_storage(&self, context: &Context<'_>) -> Result<New, Error> {
        let is_card = is_card(context.library, &self.target);
        if is_card { self.new_card(context) } else { self.new_file(context) }
    }

    fn new_card(&self, context: &Context<'_>) -> Result<New, Error> {
        if self.fs.is_some() || self.partition.is_some() {
            return Err(Error::request(
                "filesystem and partition are those of raw flash",
                "leave them out: a card is written without a filesystem",
            ));
        }
        if !self.piece.is_multiple_of(SECTOR_BYTES as u64) {
            return Err(Error::request(
                "a card writes whole sectors of 512 bytes",
                "record in pieces of 4KiB",
            ));
        }
        let loaded = card::load(context.library, &self.target, &Override::parse_all(&self.set)?)?;
        let mut new = NewCard::new(&loaded, CardOptions { seed: self.seed, stores: false })?;
        let state = if self.full { CardState::Full } else { CardState::Used };
        new.reach(state, self.seed, &|_| ())?;
        Ok(New {
            title: format!("{} {}", loaded.part.maker, loaded.part.name).trim().to_owned(),
            on: "card".to_owned(),
            free_bytes: loaded.spec.capacity_bytes,
            is_log: false,
            storage: Box::new(move || Ok(Box::new(Sectors::new(new.clone().meet(None), 0)))),
        })
    }

    fn new_file(&self, context: &Context<'_>) -> Result<New, Error> {
        let (setup, mut sets) = (context.library.setup(&self.target)?, Override::parse_all(&self.set)?);
        if let Some(bytes) = self.partition {
            sets.push(partition::of_size(&context.library.resolve(&setup, &sets)?, bytes)?);
        }
        let config = context.library.resolve(&setup, &sets)?;
        if self.full {
            return Err(Error::request("raw flash begins with a new filesystem", "only a card can be full"));
        }
        let usual = if config.chip_kind()?.is_nand() { FilesystemKind::Ubifs } else { FilesystemKind::Jffs2 };
        let kind = self.fs.unwrap_or(usual);
        let options = RigOptions { seed: self.seed, ..RigOptions::default() };
        let empty = fs_speed::empty(rig::wire(context.library, &config, options)?, &config, kind)?;
        Ok(New {
            title: speed_run::title(&config),
            on: kind.to_string(),
            free_bytes: empty.space().available_blocks * 4096,
            is_log: true,
            storage: Box::new(move || Ok(Box::new(File::new(empty.clone())?))),
        })
    }

    /// Stream to record.
    fn stream(&self, &New { free_bytes, is_log, .. }: &New) -> Result<Stream, Error> {
        let whole = |bytes: u64| bytes / self.piece * self.piece;
        let most = whole(free_bytes / 5 * 4);
        let ring = whole(self.ring.unwrap_or(RING.min(most)));
        if let Some(small) = self.ring.filter(|ring| *ring < self.piece) {
            let (ring, piece) = (size::text(small), size::text(self.piece));
            return Err(Error::request(
                format!("a ring of {ring} is smaller than a piece of {piece}"),
                "record in smaller pieces",
            ));
        }
        if ring == 0 || ring > free_bytes {
            let message =
                format!("a ring of {} does not fit into {}", size::text(ring), size::text(free_bytes));
            return Err(Error::request(message, "record into a smaller ring, in smaller pieces"));
        }
        let turns = if is_log { free_bytes } else { ring };
        let bytes = whole(self.bytes.unwrap_or((2 * turns).min(BYTES.max(2 * ring)))).max(self.piece);
        if bytes / self.piece > WRITES_MAX {
            let message =
                format!("{} writes, and at most {WRITES_MAX} are made", grouped(bytes / self.piece));
            return Err(Error::request(message, "write fewer bytes, or larger pieces"));
        }
        Ok(Stream { bytes_per_s: self.rate, piece_bytes: self.piece as usize, ring_bytes: ring, bytes })
    }
}

impl Study for Record {
    type Options = RecordOptions;
    type Output = Recorded;

    const NAME: &'static str = "record";
    const STEPS: &'static str = "writes";

    fn setup(options: &RecordOptions) -> Option<&Path> {
        Some(&options.target)
    }

    fn origin(options: &RecordOptions, kind: Origin) -> Origin {
        kind.about(&options.target).with(&options.set).seeded(options.seed)
    }

    fn run(options: &RecordOptions, context: &Context<'_>) -> Result<Recorded, Error> {
        options.check()?;
        let new = options.new_storage(context)?;
        let stream = options.stream(&new)?;
        let New { title, on, storage, .. } = new;
        let run = |stream: Stream| {
            record(storage()?.as_mut(), stream, &|news| match news {
                Progress::Done(steps) => (context.progress)(Progress::Done(steps)),
                Progress::Steps(_) => {}
            })
        };
        let writes = stream.bytes / options.piece;
        (context.progress)(Progress::Steps(if options.rate.is_some() { writes } else { 2 * writes }));
        let first = run(stream)?;
        let half =
            first.bytes_per_s.is_none().then(|| (first.sustained_bytes_per_s / 2.0).round().max(1.0) as u64);
        let second = half.map(|rate| run(Stream { bytes_per_s: Some(rate), ..stream })).transpose()?;
        Ok(Recorded {
            title,
            on,
            piece_bytes: options.piece,
            ring_bytes: stream.ring_bytes,
            bytes: stream.bytes,
            recordings: [first].into_iter().chain(second).collect(),
        })
    }

    fn report(output: &Recorded) -> Report {
        let Recorded { title, on, piece_bytes, ring_bytes, bytes, .. } = output;
        let on = if on == "card" { "the card without a filesystem" } else { on };
        let head = format!(
            "a ring of {} on {on}; {} in pieces of {}, each synced",
            size::text(*ring_bytes),
            size::text(*bytes),
            size::text(*piece_bytes)
        );
        Report {
            title: title.clone(),
            head: vec![head],
            conclusion: output
                .recordings
                .last()
                .map(|last| conclusion(last, *piece_bytes))
                .unwrap_or_default(),
            sections: vec![Section::Table(table(output))],
        }
    }

    /// Rows of the recordings, with a column for each quantile.
    fn rows(output: &Recorded, _table: Option<&str>) -> serde_json::Result<serde_json::Value> {
        let row = |one: &Recording| {
            let mut row = serde_json::to_value(one)?;
            if let Some(row) = row.as_object_mut() {
                row.remove("quantiles");
                row.extend(one.quantiles.iter().map(|q| (format!("us_at_{}", q.share), q.us.into())));
            }
            Ok(row)
        };
        output.recordings.iter().map(row).collect()
    }
}

/// Text of a rate in bytes per second.
fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s {
        fast if fast >= 1e6 => format!("{:.2} MB/s", fast / 1e6),
        slow if slow >= 1e3 => format!("{:.1} kB/s", slow / 1e3),
        slow => format!("{slow:.0} B/s"),
    }
}

/// Text of the size of a buffer, rounded up.
fn buffer(bytes: u64) -> String {
    if bytes < 10 << 20 {
        format!("{} KiB", bytes.div_ceil(1 << 10))
    } else {
        format!("{} MiB", bytes.div_ceil(1 << 20))
    }
}

fn time(us: f64) -> String {
    Nanos::from_ns((us * 1e3) as u64).to_string()
}

fn table(output: &Recorded) -> Table {
    let row = |one: &Recording| {
        let arrives =
            one.bytes_per_s.map_or_else(|| "as fast as taken".to_owned(), |bytes| rate(bytes as f64));
        let is_told = |share: f64| share == 1.0 || (1.0 - share) * one.writes as f64 >= 1.0;
        let quantile =
            |q: &Quantile| if is_told(q.share) { Cell::shown(q.us, time(q.us)) } else { "".into() };
        let quantiles = one.quantiles.iter().map(quantile);
        let buffer = match (one.bytes_per_s, one.keeps_up) {
            (None, _) => "".into(),
            (_, false) => Cell::from("overflows"),
            _ => Cell::shown(one.buffer_bytes as f64, buffer(one.buffer_bytes)),
        };
        let taken = Cell::shown(one.sustained_bytes_per_s, rate(one.sustained_bytes_per_s));
        [Cell::from(arrives)].into_iter().chain(quantiles).chain([buffer, taken]).collect()
    };
    let columns = ["half", "90 %", "99 %", "99.9 %", "longest", "buffer", "taken"];
    Table::new(&["data"], &columns, output.recordings.iter().map(row))
        .titled("time of a write, and the buffer")
}

fn conclusion(one: &Recording, piece_bytes: u64) -> String {
    let Some(bytes_per_s) = one.bytes_per_s else { return String::new() };
    let (given, taken) = (rate(bytes_per_s as f64), rate(one.sustained_bytes_per_s));
    if !one.keeps_up {
        return format!(
            "{given} cannot be recorded: the flash takes {taken} on average, so a buffer of any size overflows."
        );
    }
    let pieces = one.buffer_bytes.div_ceil(piece_bytes.max(1));
    format!(
        "{given} is recorded without loss through a buffer of {} ({}): the longest write takes {}, and the flash takes {taken} on average.",
        buffer(one.buffer_bytes),
        count(pieces, "piece"),
        time(one.longest_us())
    )
}
