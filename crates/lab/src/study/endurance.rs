//! Study `floatgate life` of a chip.

use super::report::{Bar, Cell, Section, Table};
use super::setup::Corner;
use super::{Context, List, Picture, Report as Shown, Study};
use crate::endurance::figures::{Figure, wear_figures};
use crate::endurance::predict::{self, Interval, Prediction};
use crate::endurance::{self, Experiment, Latency, PAPER_CHIPS, Pages, Pattern, Promise, Report, Subject};
use crate::envelope::Origin;
use floatgate_config::Override;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Advice, Command, CommandOption};
use floatgate_mtd::size;
use floatgate_mtd::words::{count, grouped};
use floatgate_sim::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, to_value};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Study of blocks that are worn out cycle by cycle.
pub struct Endurance;

/// Wear blocks out: count the cycles until they fail, and show how their times change
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate life mt29f8g08maawc
  floatgate life --all
  floatgate life --all --plot desnoyers
  floatgate life mt29f8g08maawc --pages all --temperature 5
  floatgate life mt29f8g08maawc --example-trace 0.4 > block.csv
  floatgate life mt29f8g08maawc --predict block.csv
  floatgate life mx30lf2g18ac --blocks 100 --chips 4 --seed 7
  floatgate life hy27us08121a --set chip.wear.life_spread=0.5 --json
  floatgate life w25q128jv

Each cycle programs one page of zeroes and erases the block, until the status reports a failure (Desnoyers, HotStorage 2009). Every cycle is counted, but only \
cycles at which something changes are simulated. For NOR, whose measured lives nobody has published, the guarantees of the data sheet are printed.")
)]
pub struct EnduranceOptions {
    /// A part's name (see `floatgate list parts`), or the path of a TOML file
    #[cfg_attr(feature = "command", arg(required_unless_present = "all", conflicts_with = "all"))]
    chip: Option<String>,

    /// Test the eight chips of the paper (Desnoyers 2009)
    #[cfg_attr(feature = "command", arg(long))]
    all: bool,

    /// Override any field of the chip: --set chip.wear.life_factor=30
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE"))]
    set: Vec<String>,

    /// Read, program and erase times of the chip: typical values (typ), or the maxima that its data sheet guarantees (max)
    #[cfg_attr(feature = "command", arg(long, value_enum, default_value_t))]
    corner: Corner,

    /// Number of blocks to test in each chip
    #[cfg_attr(feature = "command", arg(long, value_name = "N", default_value_t = Self::default().blocks))]
    blocks: u32,

    /// Number of chips to test of each kind
    #[cfg_attr(feature = "command", arg(long, value_name = "N", default_value_t = Self::default().chips))]
    chips: u32,

    /// Seed of the differences between chips and between blocks
    #[cfg_attr(feature = "command", arg(long, default_value_t))]
    seed: u64,

    /// Pages of the block that each cycle programs
    #[cfg_attr(feature = "command", arg(long, value_enum, default_value_t))]
    pages: Pages,

    /// Temperature in degrees Celsius
    #[cfg_attr(feature = "command", arg(long, value_name = "C", default_value_t = Self::default().temperature, allow_negative_numbers = true))]
    temperature: f64,

    /// Data to program (no effect on wear)
    #[cfg_attr(feature = "command", arg(long, value_enum, default_value_t))]
    pattern: Pattern,

    /// Erase only, without programming
    #[cfg_attr(feature = "command", arg(long))]
    erase_only: bool,

    /// Number of blocks to write alternately (no effect on wear)
    #[cfg_attr(feature = "command", arg(long, value_name = "BLOCKS", default_value_t = Self::default().interleave))]
    interleave: u32,

    /// Predict the remaining life of a block from its measured times, as CSV (cycle,program_us,erase_us) or JSON
    #[cfg_attr(feature = "command", arg(long, value_name = "TRACE", conflicts_with_all = ["all", "plot"]))]
    predict: Option<PathBuf>,

    /// Print the times of a simulated block up to this share of its life, as example input of --predict
    #[cfg_attr(feature = "command", arg(long, value_name = "SHARE", conflicts_with_all = ["all", "plot", "predict"]))]
    example_trace: Option<f64>,
}

impl Default for EnduranceOptions {
    fn default() -> Self {
        let Experiment { blocks, chips, seed, pages, temperature_c, pattern, erase_only, interleave } =
            Experiment::default();
        Self {
            chip: None,
            all: false,
            set: Vec::new(),
            corner: Corner::Typ,
            blocks,
            chips,
            seed,
            pages,
            temperature: temperature_c,
            pattern,
            erase_only,
            interleave,
            predict: None,
            example_trace: None,
        }
    }
}

/// Result of one form of the study.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EnduranceOutput {
    /// Lives of the blocks of one kind of chip.
    One(Box<Report>),
    /// Lives of the blocks of several kinds of chips.
    All(List<Report>),
    /// Promised endurance of a NOR.
    Nor(Promise),
    /// Remaining life of a measured block.
    Predict(Box<Prediction>),
    /// Measurements of a simulated block.
    Example(List<ExampleRow>),
}

/// Measurement of a simulated block, in the trace format of a prediction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExampleRow {
    cycle: u64,
    program_us: f64,
    erase_us: f64,
}

impl EnduranceOptions {
    fn experiment(&self) -> Experiment {
        Experiment {
            blocks: self.blocks,
            chips: self.chips,
            seed: self.seed,
            pages: self.pages,
            temperature_c: self.temperature,
            pattern: self.pattern,
            erase_only: self.erase_only,
            interleave: self.interleave,
        }
    }

    /// Chips to test.
    fn subjects(&self, context: &Context<'_>, sets: &[Override]) -> Result<Vec<Subject>, Error> {
        let names = self.chip.as_deref().map_or_else(|| PAPER_CHIPS.to_vec(), |chip| vec![chip]);
        let subject = |name| Subject::in_corner(context.library, name, sets, self.corner.into());
        names.into_iter().map(subject).collect()
    }

    /// The only chip to test.
    fn subject(&self, context: &Context<'_>, sets: &[Override]) -> Result<Subject, Error> {
        let first = self.subjects(context, sets)?.into_iter().next();
        first.ok_or_else(|| Error::request("no chip is named", advice! { "name one: see ", Command::Parts }))
    }
}

impl Study for Endurance {
    type Options = EnduranceOptions;
    type Output = EnduranceOutput;

    const NAME: &'static str = "endurance";
    const FORMS: &'static [&'static str] = &["", "nor", "all", "predict", "example"];
    const PLOT: Option<(&'static str, &'static str)> = Some((
        "FILE.svg|PREFIX",
        "Draw the paper's three figures: into FILE.svg, or into three files whose names begin with PREFIX",
    ));

    fn origin(options: &EnduranceOptions, kind: Origin) -> Origin {
        let origin = match &options.chip {
            Some(chip) => kind.about(chip),
            None => kind,
        };
        origin.with(&options.set).seeded(options.seed)
    }

    fn form(output: &EnduranceOutput) -> &'static str {
        match output {
            EnduranceOutput::One(_) => "",
            EnduranceOutput::Nor(_) => "nor",
            EnduranceOutput::All(_) => "all",
            EnduranceOutput::Predict(_) => "predict",
            EnduranceOutput::Example(_) => "example",
        }
    }

    fn run(options: &EnduranceOptions, context: &Context<'_>) -> Result<EnduranceOutput, Error> {
        let (sets, experiment) = (Override::parse_all(&options.set)?, options.experiment());
        if let Some(file) = &options.predict {
            let subject = options.subject(context, &sets)?;
            let prediction = predict::predict(&subject, &experiment, &samples(file)?)?;
            return Ok(EnduranceOutput::Predict(Box::new(prediction)));
        }
        if let Some(share) = options.example_trace {
            return example(&options.subject(context, &sets)?, &experiment, share);
        }
        // Pictures exist only of simulated lives.
        if let Some(chip) = options.chip.as_deref().filter(|_| context.plot.is_none())
            && let Some(promise) = Promise::of_nor(context.library, chip, &sets)?
        {
            return Ok(EnduranceOutput::Nor(promise));
        }
        let mut rows = endurance::run_all(&options.subjects(context, &sets)?, &experiment)?;
        match rows.pop() {
            Some(report) if rows.is_empty() && options.chip.is_some() => {
                Ok(EnduranceOutput::One(Box::new(report)))
            }
            last => {
                rows.extend(last);
                Ok(EnduranceOutput::All(List { rows }))
            }
        }
    }

    fn report(output: &EnduranceOutput) -> Shown {
        match output {
            EnduranceOutput::One(report) => one(report),
            EnduranceOutput::All(list) => all(&list.rows),
            EnduranceOutput::Nor(nor) => promise(nor),
            EnduranceOutput::Predict(prediction) => predicted(prediction),
            EnduranceOutput::Example(list) => of_example(&list.rows),
        }
    }

    fn rows(output: &EnduranceOutput, _table: Option<&str>) -> serde_json::Result<Value> {
        match output {
            EnduranceOutput::One(report) => to_value(&report.trace.points),
            EnduranceOutput::All(list) => to_value(&list.rows),
            EnduranceOutput::Nor(promise) => to_value(&promise.erases),
            EnduranceOutput::Predict(prediction) => to_value(prediction),
            EnduranceOutput::Example(list) => to_value(&list.rows),
        }
    }

    /// Pictures of the figures: all in one file, or in the files PREFIX-endurance.svg, PREFIX-wear.svg and
    /// PREFIX-latency.svg.
    fn pictures(output: &EnduranceOutput, path: &Path) -> Result<Vec<Picture>, Error> {
        let reports = match output {
            EnduranceOutput::One(report) => std::slice::from_ref(&**report),
            EnduranceOutput::All(list) => &list.rows,
            _ => &[],
        };
        if path.extension().is_some() {
            return Ok(vec![Picture { path: path.to_owned(), svg: wear_figures(reports, &Figure::ALL) }]);
        }
        if path.file_name().is_none() {
            let message = format!("{} begins no file name", path.display());
            return Err(Error::request(message, "name FILE.svg, or a prefix such as chips"));
        }
        let picture = |figure: Figure| {
            let mut file = path.as_os_str().to_owned();
            file.push(format!("-{}.svg", figure.name()));
            Picture { path: file.into(), svg: wear_figures(reports, &[figure]) }
        };
        Ok(Figure::ALL.map(picture).into())
    }
}

/// Maximum size of a trace file, bytes. A trace with a million measurements has a third of this size.
const TRACE_BYTES_MAX: u64 = 64 << 20;

/// Number of measurements of an example.
const SAMPLES: u32 = 12;

/// Reads the measurements in a file.
fn samples(file: &Path) -> Result<Vec<predict::Sample>, Error> {
    let wrong =
        |why: &dyn std::fmt::Display| Error::request(format!("{}: {why}", file.display()), of_traces());
    let mut text = String::new();
    // One byte more than allowed is read, so that an endless file is refused like a large one.
    let read = floatgate_host::open::open_input(file)
        .and_then(|file| file.take(TRACE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| wrong(&error))?;
    if read as u64 > TRACE_BYTES_MAX {
        return Err(wrong(&format!("larger than {} MiB", TRACE_BYTES_MAX >> 20)));
    }
    predict::parse(&text).map_err(|error| wrong(&error))
}

/// Help text for a trace that cannot be read.
fn of_traces() -> Advice {
    advice! { "a line for each measurement: cycle,program_us,erase_us; ", CommandOption::ExampleTrace, " 0.4 prints an example" }
}

/// Example measurements of the first block of the first chip.
fn example(subject: &Subject, experiment: &Experiment, share: f64) -> Result<EnduranceOutput, Error> {
    if !(0.0..=1.0).contains(&share) {
        return Err(Error::request(format!("{share} is no share of a life"), "choose a number from 0 to 1"));
    }
    experiment.check()?;
    let rows = predict::measured(&subject.block_life(experiment, 0, 0), share, SAMPLES).into_iter();
    let rows = rows.map(|sample| ExampleRow {
        cycle: sample.cycle.unwrap_or_default(),
        program_us: sample.program_us.unwrap_or_default(),
        erase_us: sample.erase_us.unwrap_or_default(),
    });
    Ok(EnduranceOutput::Example(List { rows: rows.collect() }))
}

/// Sentence on the chips whose blocks last longest and shortest, by the mean of their cycles.
fn lasting(reports: &[Report]) -> String {
    let mut means: Vec<(&str, f64)> =
        reports.iter().map(|report| (report.chip.as_str(), report.life.mean)).collect();
    means.sort_by(|a, b| b.1.total_cmp(&a.1));
    match means[..] {
        [(longest, most), .., (shortest, least)] => format!(
            "Blocks of {longest} last longest, {} cycles on average, and those of {shortest} shortest, {}.",
            grouped(most.round() as u64),
            grouped(least.round() as u64)
        ),
        _ => String::new(),
    }
}

fn of_example(rows: &[ExampleRow]) -> Shown {
    let line = |ExampleRow { cycle, program_us, erase_us }: &_| format!("{cycle},{program_us},{erase_us}");
    let lines = ["cycle,program_us,erase_us".to_owned()].into_iter().chain(rows.iter().map(line));
    Shown { sections: vec![Section::Text(lines.collect())], ..Shown::default() }
}

/// Report of one chip.
fn one(report: &Report) -> Shown {
    let evidence = match report.confidence {
        Some(sure) => format!(
            "wear as measured on this chip; the lowest confidence of its values is {:.0} % (floatgate list {})",
            sure * 100.0,
            report.part
        ),
        None => "wear typical of its kind, not measured on this chip".to_owned(),
    };
    let head = [experiment(&report.experiment), evidence];
    let bars = report.life.histogram.iter().map(|bin| Bar {
        name: format!("{} to {}", grouped(bin.from), grouped(bin.to)),
        count: bin.blocks.into(),
    });
    Shown {
        title: format!("{}: {}", report.chip, report.title),
        head: head.into_iter().chain(notes(&report.notes)).collect(),
        sections: vec![
            Section::Table(lives(report)),
            Section::Bars { caption: "blocks by cycles".to_owned(), bars: bars.collect() },
            Section::Table(latencies(report)),
            Section::Table(trace(report)),
        ],
        conclusion: format!(
            "Blocks last for {} cycles, on average {:.1} times the {} that the data sheet promises.",
            match (report.life.min, report.life.max) {
                (min, max) if min == max => grouped(min),
                (min, max) => format!("{} to {}", grouped(min), grouped(max)),
            },
            report.life.over_nominal,
            grouped(report.nominal_cycles)
        ),
    }
}

/// Report of a NOR from its data sheet.
fn promise(promise: &Promise) -> Shown {
    let Promise { chip, title, promised_cycles, promised_retention_years, erases, .. } = promise;
    let stated = |what: &str, number: Option<String>| {
        number.map_or_else(|| format!("no {what}"), |number| format!("{number} {what}"))
    };
    let (cycles, years) = (promised_cycles.map(grouped), promised_retention_years.map(|y| y.to_string()));
    let promised = format!(
        "its data sheet promises {} of a block and {} of retention",
        stated("erase cycles", cycles.clone()),
        stated("years", years)
    );
    let row = |erase: &endurance::EraseTime| {
        let bytes = Cell::shown(erase.bytes.into(), size::text(erase.bytes.into()));
        vec![bytes, us(erase.typical_us), us(erase.max_us)]
    };
    let table = Table::new(&["erase, us"], &["typical", "at most"], erases.iter().map(row));
    Shown {
        title: format!("{chip}: {title}"),
        head: vec![
            promised,
            "measured lives of NOR blocks are not published, so nothing is simulated".to_owned(),
        ],
        sections: if erases.is_empty() { Vec::new() } else { vec![Section::Table(table)] },
        conclusion: cycles.map_or_else(String::new, |cycles| {
            format!("Blocks last for the {cycles} erase cycles that the data sheet promises.")
        }),
    }
}

/// Report of many chips, one line each.
fn all(reports: &[Report]) -> Shown {
    let life = |r: &Report| {
        let l = &r.life;
        let cycles = [r.nominal_cycles, l.min, l.median, l.max, l.mean.round() as u64].map(cycles);
        let head = [r.chip.as_str().into(), cell(r).into()];
        let times = Cell::shown(l.over_nominal, format!("{:.1}", l.over_nominal));
        head.into_iter().chain(cycles).chain([times]).collect()
    };
    let time = |r: &Report| {
        let program = r.program.as_ref().map_or_else(|| ["-"; 3].map(Cell::from), three);
        let head = [r.chip.as_str().into(), us(r.read_us)];
        head.into_iter().chain(program).chain(three(&r.erase)).collect()
    };
    let mut said: Vec<String> = Vec::new();
    for note in reports.iter().flat_map(|r| notes(&r.notes)) {
        if !said.contains(&note) {
            said.push(note);
        }
    }
    let columns = ["data sheet", "min", "median", "max", "mean", "times"];
    let lives =
        Table::new(&["chip", "cell"], &columns, reports.iter().map(life)).with_minor(&["mean", "max"]);
    let columns = ["read", "program", "typical", "at the end", "erase", "typical", "at the end"];
    let times = Table::new(&["us"], &columns, reports.iter().map(time));
    let caption = "latency: first 100 cycles, mean of the first 10 000 (typical), last 100";
    let times = Table { below: said, ..times.titled(caption) };
    Shown {
        title: reports.first().map_or_else(String::new, |r| experiment(&r.experiment)),
        head: Vec::new(),
        sections: vec![Section::Table(lives.titled("cycles until the status fails")), Section::Table(times)],
        conclusion: lasting(reports),
    }
}

/// Report of the remaining life of a block.
fn predicted(p: &Prediction) -> Shown {
    let when = p.cycle.map_or_else(String::new, |cycle| format!(", the last at cycle {}", grouped(cycle)));
    let row = |name: &str, of: &Interval, show: fn(f64) -> Cell| {
        vec![name.into(), show(of.median), show(of.low), show(of.high)]
    };
    let left = |value: f64| cycles(value.max(0.0).round() as u64);
    let mut rows = vec![
        row("life used", &p.used, |x| Cell::shown(x, format!("{:.1} %", x * 100.0))),
        row("cycles left", &p.remaining, left),
    ];
    rows.extend(p.remaining_by_count.map(|alone| row("by the cycle count alone", &alone, left)));
    let table = Table::new(&[""], &["most likely", "with 90 % between", "and"], rows);
    let table = Table { below: notes(&p.notes).collect(), ..table };
    Shown {
        title: format!("{}: {}", p.chip, p.title),
        head: vec![format!("{}{when}", count(p.samples as u64, "measurement"))],
        sections: vec![Section::Table(table)],
        conclusion: format!(
            "{:.0} % of the life is used, with 90 % probability {:.0} to {:.0} %; some {} cycles are left.",
            p.used.median * 100.0,
            p.used.low * 100.0,
            p.used.high * 100.0,
            grouped(p.remaining.median.max(0.0).round() as u64)
        ),
    }
}

fn cell(report: &Report) -> String {
    match report.bits_per_cell {
        1 => "SLC".to_owned(),
        2 => "MLC".to_owned(),
        3 => "TLC".to_owned(),
        n => format!("{n} bits"),
    }
}

fn experiment(e: &Experiment) -> String {
    let data = match e.pattern {
        Pattern::Zeroes => "zeroes",
        Pattern::Ones => "ones",
        Pattern::Random => "random data",
        Pattern::Checker => "a checkerboard",
    };
    let cycle = match e.pages {
        _ if e.erase_only => "erased without programming".to_owned(),
        Pages::One => format!("one page of {data} programmed, block erased"),
        Pages::All => format!("all pages programmed with {data}, block erased"),
    };
    let turn = if e.interleave > 1 { format!(", {} blocks in turn", e.interleave) } else { String::new() };
    format!(
        "{} of {}, seed {}: {cycle}, until the status fails; {} C{turn}",
        count(e.blocks.into(), "block"),
        count(e.chips.into(), "chip"),
        e.seed,
        e.temperature_c
    )
}

fn notes(notes: &[String]) -> impl Iterator<Item = String> {
    notes.iter().map(|note| format!("note: {note}"))
}

fn lives(report: &Report) -> Table {
    let l = &report.life;
    let numbers_of =
        [l.min, l.median, l.max, l.mean.round() as u64, l.sd.round() as u64, report.nominal_cycles];
    let times = Cell::shown(l.over_nominal, format!("{:.1} times it", l.over_nominal));
    let cells = ["until failure".into()].into_iter().chain(numbers_of.map(cycles)).chain([times]).collect();
    let columns = ["min", "median", "max", "mean", "deviation", "data sheet", "mean is"];
    let below = vec![format!("array busy for {:.1} hours a block", report.busy_hours)];
    Table { below, ..Table::new(&["cycles"], &columns, [cells]).with_minor(&["deviation", "max", "min"]) }
}

fn latencies(report: &Report) -> Table {
    let row = |name: &str, l: &Latency| {
        let [first, typical, last] = three(l);
        let change = Cell::shown(l.change, format!("{:.2}", l.change));
        vec![name.into(), first, typical, last, us(l.fastest_us), us(l.slowest_us), change]
    };
    let mut rows: Vec<_> = report.program.iter().map(|program| row("program", program)).collect();
    rows.push(row("erase", &report.erase));
    let read = std::iter::repeat_n(us(report.read_us), 5);
    rows.push(["read".into()].into_iter().chain(read).chain([Cell::shown(1.0, "1.00")]).collect());
    let columns = ["first 100", "typical (first 10 000)", "last 100", "fastest", "slowest", "last / first"];
    Table::new(&["us"], &columns, rows)
}

fn trace(report: &Report) -> Table {
    let points = &report.trace.points;
    let last = points.last().map_or(1, |p| p.cycle).max(1);
    let row = |point: &endurance::Point| {
        let share = point.cycle as f64 / last as f64 * 100.0;
        let program = point.program_us.map_or_else(|| "-".into(), us);
        vec![cycles(point.cycle), Cell::shown(share, format!("{share:.2} %")), program, us(point.erase_us)]
    };
    let columns = ["from cycle", "share of its life", "program us", "erase us"];
    Table::new(&[], &columns, points.iter().map(row)).titled(format!(
        "program and erase times of the block with the median life (chip {}, block {}), at each change",
        report.trace.chip, report.trace.block
    ))
}

fn three(l: &Latency) -> [Cell; 3] {
    [l.first_100_us, l.typical_us, l.last_100_us].map(us)
}

fn us(value: f64) -> Cell {
    Cell::shown(value, format!("{value:.1}"))
}

fn cycles(value: u64) -> Cell {
    Cell::shown(value as f64, grouped(value))
}
