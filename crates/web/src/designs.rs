//! Requests on designs: `floatgate speed` for setups of the catalogue or in the page's text field.

use crate::{Answer, Failure, TextRange, json};
use floatgate_config::corner::Corner;
use floatgate_config::{ConfigError, Kind, Library, Override, Setup, Source, sweep};
use floatgate_lab::catalogue::{PartRow, SetupRow, parts, setups};
use floatgate_lab::speed::{Measured, SpeedOptions};
use floatgate_lab::speed_run::{self, Advice, Swept, explain};
use floatgate_lab::trace::{Operation, trace};
use floatgate_lab::{Error, plot};
use floatgate_mtd::{Breakdown, Phase};
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::rig::{self, RigOptions};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Name of the page's text in messages.
const TEXT: &str = "setup.toml";

/// A design that the page sends.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Design {
    /// Text of a setup.
    text: String,
    /// Overrides in the form of `--set`.
    #[serde(default)]
    sets: Vec<String>,
    /// Kind of the filesystem to test; `None` to test the bare flash.
    #[serde(default)]
    fs: Option<FilesystemKind>,
}

/// A request on a design.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Returns the names of the catalogue, for lists in the page.
    Catalogue {},
    /// Returns the text of a setup in the catalogue.
    Text { name: String },
    /// Returns the speed of a design; with `advice`, also the effect of every single change that chip and controller
    /// support.
    Speed { design: Design, advice: bool },
    /// Returns the speed of a design for each value of a key; `sweep` has the form of `--sweep`.
    Sweep { design: Design, sweep: String },
    /// Returns the record of one operation.
    Trace { design: Design, operation: String },
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(Library::built_in)
}

/// Number of UTF-16 code units before a byte of a text.
fn units(text: &str, byte: usize) -> usize {
    let mut at = byte.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    text[..at].encode_utf16().count()
}

fn place_of(error: &ConfigError) -> Option<TextRange> {
    let report = error.report();
    let place = error.place()?;
    let text = place.source.content();
    Some(TextRange {
        file: place.source.name().to_owned(),
        line: report.line?,
        start: units(text, place.span.start),
        end: units(text, place.span.end),
    })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            message: error.to_string(),
            help: error.help().map(|help| help.to_string()),
            place: error.config().and_then(place_of),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Error::from(error).into()
    }
}

impl Design {
    fn setup(&self) -> Result<Setup, ConfigError> {
        library().setup_from(&Source::text(TEXT, &self.text))
    }

    fn overrides(&self) -> Result<Vec<Override>, ConfigError> {
        Override::parse_all(&self.sets)
    }

    fn tests(&self) -> SpeedOptions {
        SpeedOptions { filesystem: self.fs, ..SpeedOptions::default() }
    }
}

pub(crate) fn answer(request: Request) -> Answer {
    match request {
        Request::Catalogue {} => catalogue(),
        Request::Text { name } => json(&library().open(Kind::Setup, &name, None)?.content()),
        Request::Speed { design, advice } => speed(&design, advice),
        Request::Sweep { design, sweep } => swept(&design, &sweep),
        Request::Trace { design, operation } => traced(&design, &operation),
    }
}

/// Names in the catalogue.
#[derive(Serialize)]
struct Catalogue {
    setups: Vec<SetupRow>,
    parts: Vec<PartRow>,
    controllers: Vec<Named>,
    hosts: Vec<Named>,
    /// Operations that can be traced.
    operations: Vec<&'static str>,
    /// Phases of a time breakdown, with their meanings and colours.
    phases: Vec<PhaseRow>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    title: String,
}

#[derive(Serialize)]
struct PhaseRow {
    name: &'static str,
    meaning: &'static str,
    colour: String,
}

fn catalogue() -> Answer {
    let named = |kind| -> Result<Vec<Named>, ConfigError> {
        let row = |name: &str| {
            let loaded = library().load(kind, name)?;
            let title =
                loaded.head.get("title").and_then(|title| title.as_text()).unwrap_or_default().to_owned();
            Ok(Named { name: name.to_owned(), title })
        };
        library().names(kind).map(row).collect()
    };
    let phase =
        |phase: Phase| PhaseRow { name: phase.name(), meaning: explain(phase), colour: colour(phase) };
    json(&Catalogue {
        setups: setups(library())?,
        parts: parts(library())?
            .into_iter()
            .filter(|part| !matches!(part.kind.as_str(), "sd-card" | "emmc"))
            .collect(),
        controllers: named(Kind::Controller)?,
        hosts: named(Kind::Host)?,
        operations: Operation::ALL.map(|(name, _)| name).to_vec(),
        phases: Phase::ALL.into_iter().map(phase).collect(),
    })
}

/// A result of `speed`.
#[derive(Serialize)]
struct Speed {
    title: String,
    chip: String,
    /// Description of reads and writes for users.
    read: String,
    write: String,
    /// Remarks on the link.
    notes: Vec<String>,
    page_bytes: u32,
    eraseblock_bytes: u32,
    tests: Vec<Tested>,
    advice: Vec<Advice>,
    /// Modes and interfaces that the chip supports.
    modes: Vec<String>,
}

/// A test with the shares of its phases, which add up to 100.
#[derive(Serialize)]
struct Tested {
    #[serde(flatten)]
    test: Measured,
    us_per_call: f64,
    shares: Vec<(&'static str, f64)>,
}

impl Tested {
    fn new(test: Measured) -> Self {
        let shares = shares(&test.breakdown_ns);
        Self { us_per_call: test.us_per_call(), shares, test }
    }
}

fn shares(breakdown: &Breakdown) -> Vec<(&'static str, f64)> {
    plot::percentages(breakdown).into_iter().map(|(phase, share)| (phase.name(), share)).collect()
}

fn speed(design: &Design, advice: bool) -> Answer {
    let (setup, sets, tests) = (design.setup()?, design.overrides()?, design.tests());
    let options = RigOptions::default();
    let config = library().resolve(&setup, &sets)?;
    let run = if advice {
        speed_run::measure_with_advice(library(), &setup, &sets, options, &tests)?
    } else {
        speed_run::measure(library(), &config, options, &tests)?.with_intervals(library(), &config)?
    };
    let modes = rig::chip_modes(&config).into_iter().map(|mode| mode.to_string());
    let modes = modes.chain(rig::chip_interfaces(&config)).collect();
    json(&Speed {
        title: run.title,
        chip: run.chip,
        read: run.link.read.to_string(),
        write: run.link.write.to_string(),
        notes: run.link.not_given.iter().chain(&run.link.notes).cloned().collect(),
        page_bytes: run.report.page_bytes,
        eraseblock_bytes: run.report.eraseblock_bytes,
        tests: run.report.tests.into_iter().map(Tested::new).collect(),
        advice: run.advice,
        modes,
    })
}

/// A row of a sweep: the figures for a value, or the reason why it is refused.
#[derive(Serialize)]
struct SweepRow {
    value: String,
    tests: Vec<Figure>,
    refused: Option<String>,
}

#[derive(Serialize)]
struct Figure {
    name: String,
    kib_s: f64,
    us_per_call: f64,
}

fn swept(design: &Design, argument: &str) -> Answer {
    let combinations = sweep(library(), &[argument])?;
    let rows = speed_run::sweep(
        library(),
        &design.setup()?,
        (&design.overrides()?, Corner::default()),
        RigOptions::default(),
        &design.tests(),
        &combinations,
        true,
    )?;
    let figures = |run: Swept| {
        let tests = run.run.report.tests.into_iter();
        tests
            .map(|test| Figure { us_per_call: test.us_per_call(), kib_s: test.exact_kib_s, name: test.name })
            .collect()
    };
    let rows = combinations.iter().zip(rows).map(|(combination, row)| {
        let value = combination.overrides.iter().map(Override::value_text).collect();
        match row {
            Ok(run) => SweepRow { value, tests: figures(run), refused: None },
            Err(why) => SweepRow { value, tests: Vec::new(), refused: Some(why) },
        }
    });
    json(&rows.collect::<Vec<_>>())
}

fn traced(design: &Design, operation: &str) -> Answer {
    let known = Operation::ALL.into_iter().find(|(name, _)| *name == operation);
    let (_, operation) = known.ok_or_else(|| Failure::new(format!("there is no operation {operation}")))?;
    let config = library().resolve(&design.setup()?, &design.overrides()?)?;
    let options = RigOptions { stores: true, ..RigOptions::default() };
    json(&trace(library(), &config, options, operation)?)
}

/// Colour of a phase in pictures.
fn colour(phase: Phase) -> String {
    let [red, green, blue] = plot::ink(phase).rgb;
    format!("#{red:02x}{green:02x}{blue:02x}")
}
