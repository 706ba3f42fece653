//! `floatgate ecc advise`.

use crate::common::{self, Failure, Outcome};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::table::Table;
use floatgate_config::{Library, Override};
use floatgate_image::ecc::{Code, EccError};
use floatgate_image::words;
use floatgate_lab::advise::ecc::{self as advise, Advice, Chip, Point, Series, Use};
use floatgate_lab::report::ResultKind;
use floatgate_mtd::advice::Help;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc advise mt29f8g08maawc
  floatgate ecc advise mt29f8g08maawc --years 10 --temperature 55 --reads 1e6
  floatgate ecc advise study-mlc-2y-nm --years 0.25 --temperature 25
  floatgate ecc advise mx30lf2g18ac --code bch4/512 --code bch8/512 --plot codes.svg
  floatgate ecc advise my-chip.toml --set chip.endurance_cycles=3000 --json

If the part has measured bit error rates (`floatgate list NAME`, chip.errors), they are used. Otherwise, the rates are derived from the data sheet: the required \
code is assumed to be just sufficient at the rated cycles, after one year at 55 C.")]
pub(super) struct Args {
    /// A NAND's name (see `floatgate list parts`), or the path of a TOML file
    chip: String,

    /// Override any field of the chip: --set chip.endurance_cycles=3000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Evaluate this code (bch8/512, hamming/512); repeatable [default: the usual codes]
    #[arg(long, value_name = "CODE")]
    code: Vec<String>,

    /// Number of years between program and read
    #[arg(long, default_value_t = 1.0)]
    years: f64,

    /// Temperature during these years, degrees Celsius
    #[arg(long, value_name = "C", default_value_t = 40.0, allow_negative_numbers = true)]
    temperature: f64,

    /// Number of reads of the block during these years
    #[arg(long, default_value_t = 1e4)]
    reads: f64,

    /// Uncorrectable bit error rate (UBER) that is acceptable: uncorrectable codewords per bit read
    #[arg(long, default_value_t = 1e-15)]
    uber: f64,

    /// Draw lost pages against cycles into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<OutputFile>,

    #[command(flatten)]
    format: ReportFormat,
}

pub(super) fn run(args: &Args) -> Outcome {
    common::check_plot(args.plot.as_deref())?;
    let library = Library::built_in();
    let chip = Chip::named(&library, &args.chip, &Override::parse_all(&args.set)?)?;
    let advice = advise::advise(chip, args.use_()?, &args.codes()?);
    if let Some(path) = &args.plot {
        common::write_picture(path, &advise::picture(&advice))?;
    }
    let origin = ResultKind::EccAdvise.of(&args.chip).with(&args.set);
    args.format.finish(&origin, &advice, "codes", || text(&advice))
}

impl Args {
    fn use_(&self) -> Result<Use, Failure> {
        let rules = [
            ((0.0..=1000.0).contains(&self.years), "--years", "0 to 1000"),
            ((-55.0..=150.0).contains(&self.temperature), "--temperature", "-55 to 150 degrees Celsius"),
            ((0.0..=1e12).contains(&self.reads), "--reads", "0 to 1e12"),
            ((1e-40..=1e-2).contains(&self.uber), "--uber", "1e-40 to 0.01"),
        ];
        match rules.iter().find(|rule| !rule.0) {
            Some((_, option, range)) => {
                Err(Failure::new(format!("{option} is out of range"), format!("give {range}")))
            }
            None => Ok(Use {
                years: self.years,
                temperature_c: self.temperature,
                reads: self.reads,
                uber: self.uber,
            }),
        }
    }

    fn codes(&self) -> Result<Vec<Code>, Failure> {
        let parse = |text: &String| {
            let code = text.parse().map_err(EccError::from);
            code.map_err(|error| Failure::new(format!("--code {text}: {error}"), error.help()))
        };
        self.code.iter().map(parse).collect()
    }
}

fn text(advice: &Advice) -> String {
    let chip = &advice.chip;
    let mut text = format!("{}: {}\n", chip.chip, chip.title);
    text += &format!(
        "asks for {} per {}{}, rated for {}; bit errors {}\n",
        common::count(chip.strength as usize, "bit"),
        common::count(chip.step_bytes as usize, "byte"),
        if chip.on_die { ", which it corrects itself" } else { "" },
        common::grouped_count(chip.endurance_cycles, "cycle"),
        chip.origin_of_errors(),
    );
    for source in &chip.sources {
        text += &format!("bit errors, {:.0} % sure: {}\n", source.confidence * 100.0, source.from);
    }
    let use_ = &advice.use_;
    text += &format!(
        "{} at {} C between program and read, {} of the block, at most {:.0e} lost codewords per bit\n\n",
        words::measure(use_.years, "year"),
        use_.temperature_c,
        words::measure(use_.reads, "read"),
        use_.uber
    );
    text += &format!("{}\n\n", codes(advice));
    for series in &advice.series {
        text += &format!("{}\n\n", against(series, advice));
    }
    // The error model of an unmeasured chip is chosen so that the code of the data sheet is just sufficient.
    if advice.needs.is_some() && !chip.measured {
        text += "Nobody has measured this chip: its bit errors are derived from the code that its data sheet asks for, so that this answer repeats the data sheet. Other cycles, years, temperatures and reads are extrapolated from it; `[chip.errors]` takes measured coefficients.";
    }
    text
}

fn codes(advice: &Advice) -> String {
    let mut table = Table::new([
        "code",
        "ECC bytes a page",
        "in the OOB",
        "RBER limit",
        "holds for cycles",
        "pages lost at rated",
        "",
    ]);
    for verdict in &advice.codes {
        let room = if verdict.fits { "fits" } else { "too large" };
        let mark = if advice.needs.as_ref() == Some(&verdict.code) { "<- enough" } else { "" };
        table.row([
            verdict.code.clone(),
            verdict.ecc_bytes.to_string(),
            room.to_owned(),
            rate(verdict.tolerated_rber),
            common::grouped(verdict.cycles),
            rate(verdict.lost_pages),
            mark.to_owned(),
        ]);
    }
    table.to_string()
}

/// Table of one axis, with a column per code.
fn against(series: &Series, advice: &Advice) -> String {
    let title = if series.against == "cycles" {
        "cycles".to_owned()
    } else {
        format!("{} (at rated cycles)", series.against)
    };
    let fixed = [title, "RBER".into(), "pages with errors".into()];
    let lost = series.codes.iter().map(|code| format!("lost: {code}"));
    let mut table = Table::new(fixed.into_iter().chain(lost)).numbers(1..);
    let rated = advice.chip.endurance_cycles as f64;
    for point in &series.points {
        let at = axis(series.against, point, rated);
        let cells = [at, rate(point.rber), rate(point.pages_with_errors)];
        table.row(cells.into_iter().chain(point.lost_pages.iter().copied().map(rate)));
    }
    table.to_string()
}

fn axis(against: &str, point: &Point, rated: f64) -> String {
    match against {
        "cycles" if point.at == rated => format!("{} (rated)", common::grouped(point.at as u64)),
        "years" if point.at < 1.0 => format!("{:.2}", point.at),
        _ => common::grouped(point.at.round() as u64),
    }
}

/// Text of a probability; a probability too small to display is printed as 0.
fn rate(p: f64) -> String {
    if p < 1e-30 {
        "0".to_owned()
    } else if p > 0.995 {
        "1".to_owned()
    } else {
        format!("{p:.1e}")
    }
}
