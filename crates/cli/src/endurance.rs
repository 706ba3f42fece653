//! `floatgate endurance`.

mod predict;
mod show;

use crate::common::{self, Corner, Failure, Outcome};
use crate::output::ReportFormat;
use clap::ValueEnum;
use floatgate_config::{Library, Override};
use floatgate_lab::endurance::{self, Experiment, PAPER_CHIPS, Pages, Pattern, Promise, Report, Subject};
use floatgate_lab::plot::{self, Figure};
use floatgate_lab::report::{Origin, ResultKind};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate endurance mt29f8g08maawc
  floatgate endurance --all
  floatgate endurance --all --plot desnoyers
  floatgate endurance mt29f8g08maawc --pages all --temperature 5
  floatgate endurance mt29f8g08maawc --example-trace 0.4 > block.csv
  floatgate endurance mt29f8g08maawc --predict block.csv
  floatgate endurance mx30lf2g18ac --blocks 100 --chips 4 --seed 7
  floatgate endurance hy27us08121a --set chip.wear.life_spread=0.5 --json
  floatgate endurance w25q128jv

One page of zeroes is programmed, the block is erased, and so on until the status fails (Desnoyers, HotStorage 2009). \
Every cycle counts, but only those at which something changes are simulated. Of NOR, whose lives nobody has published, what the data sheet promises is printed.")]
pub(crate) struct Args {
    /// A part's name (see `floatgate parts`), or the path of a TOML file
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    chip: Option<String>,

    /// Test the eight chips of the paper (Desnoyers 2009)
    #[arg(long)]
    all: bool,

    /// Override any field of the chip: --set chip.wear.life_factor=30
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Times of the chip's array: typical ones, or the maxima that its data sheet guarantees
    #[arg(long, value_enum, default_value_t = Corner::Typ)]
    corner: Corner,

    /// Number of blocks of each chip
    #[arg(long, value_name = "N", default_value_t = 10)]
    blocks: u32,

    /// Number of chips of each kind
    #[arg(long, value_name = "N", default_value_t = 1)]
    chips: u32,

    /// Seed of everything that differs from chip to chip and from block to block
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Pages of the block that each cycle programs
    #[arg(long, value_enum, default_value_t = PagesArg::One)]
    pages: PagesArg,

    /// Temperature in degrees Celsius
    #[arg(long, value_name = "C", default_value_t = 25.0, allow_negative_numbers = true)]
    temperature: f64,

    /// Data to program (they make no difference to wear)
    #[arg(long, value_enum, default_value_t = PatternArg::Zeroes)]
    pattern: PatternArg,

    /// Only erase, program nothing
    #[arg(long)]
    erase_only: bool,

    /// Number of blocks to write in turn (it makes no difference either)
    #[arg(long, value_name = "BLOCKS", default_value_t = 1)]
    interleave: u32,

    /// Predict the remaining life of a block from its measured times, as CSV (cycle,program_us,erase_us) or JSON
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["all", "plot"])]
    predict: Option<PathBuf>,

    /// Print the times of a simulated block up to this share of its life, as an example for --predict
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["all", "plot", "predict", "json", "csv"])]
    example_trace: Option<f64>,

    /// Draw the paper's three figures: into FILE.svg, or into three files whose names begin with PREFIX
    #[arg(long, value_name = "FILE.svg|PREFIX")]
    plot: Option<PathBuf>,

    #[command(flatten)]
    format: ReportFormat,
}

/// Pages of a cycle, as the paper's experiments have them.
#[derive(Clone, Copy, ValueEnum)]
enum PagesArg {
    /// One
    #[value(name = "1")]
    One,
    /// The whole block
    All,
}

#[derive(Clone, Copy, ValueEnum)]
enum PatternArg {
    Zeroes,
    Ones,
    Random,
    Checker,
}

impl Args {
    fn origin(&self, kind: ResultKind) -> Origin {
        let origin = self.chip.as_ref().map_or_else(|| kind.of_nothing(), |chip| kind.of(chip));
        origin.with(&self.set).seeded(self.seed)
    }

    fn experiment(&self) -> Experiment {
        Experiment {
            blocks: self.blocks,
            chips: self.chips,
            seed: self.seed,
            pages: match self.pages {
                PagesArg::One => Pages::One,
                PagesArg::All => Pages::All,
            },
            temperature_c: self.temperature,
            pattern: match self.pattern {
                PatternArg::Zeroes => Pattern::Zeroes,
                PatternArg::Ones => Pattern::Ones,
                PatternArg::Random => Pattern::Random,
                PatternArg::Checker => Pattern::Checker,
            },
            erase_only: self.erase_only,
            interleave: self.interleave,
        }
    }

    /// The promises of a NOR; none of other chips, and where a picture of lives is asked for.
    fn promise(&self) -> Result<Option<Promise>, Failure> {
        let Some(chip) = self.chip.as_deref().filter(|_| self.plot.is_none()) else { return Ok(None) };
        Ok(Promise::of_nor(&Library::built_in(), chip, &Override::parse_all(&self.set)?)?)
    }

    /// The chips under test.
    fn subjects(&self) -> Result<Vec<Subject>, Failure> {
        let library = Library::built_in();
        let sets = Override::parse_all(&self.set)?;
        let one = self.chip.as_deref();
        let names = one.map_or_else(|| PAPER_CHIPS.to_vec(), |chip| vec![chip]);
        names
            .into_iter()
            .map(|name| Ok(Subject::in_corner(&library, name, &sets, self.corner.into())?))
            .collect()
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    common::check_plot(args.plot.as_deref())?;
    if let Some(file) = &args.predict {
        return predict::run(args, file);
    }
    if let Some(share) = args.example_trace {
        return predict::example(args, share);
    }
    if let Some(promise) = args.promise()? {
        return args
            .format
            .finish(&args.origin(ResultKind::EnduranceNor), &promise, "erases", || show::promise(&promise));
    }
    let reports = endurance::run_all(&args.subjects()?, &args.experiment())?;
    if let Some(path) = &args.plot {
        draw(path, &reports)?;
    }
    match reports.as_slice() {
        [report] if !args.all => {
            args.format
                .finish(&args.origin(ResultKind::Endurance), report, "trace.points", || show::one(report))
        }
        reports => {
            args.format.finish_rows(&args.origin(ResultKind::EnduranceAll), reports, || show::all(reports))
        }
    }
}

/// All figures in one file, or one file each: PREFIX-endurance.svg, PREFIX-wear.svg, PREFIX-latency.svg.
fn draw(path: &Path, reports: &[Report]) -> Result<(), Failure> {
    if path.extension().is_some() {
        return common::write_picture(path, &plot::wear_figures(reports, &Figure::ALL));
    }
    if path.file_name().is_none() {
        return Err(Failure::new(
            format!("{} begins no file name", path.display()),
            "name FILE.svg, or a prefix such as chips",
        ));
    }
    for figure in Figure::ALL {
        let mut file = path.as_os_str().to_owned();
        file.push(format!("-{}.svg", figure.name()));
        common::write_picture(Path::new(&file), &plot::wear_figures(reports, &[figure]))?;
    }
    Ok(())
}
