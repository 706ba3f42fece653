//! `floatgate ecc merge`.

use super::files::{self, Input, Repeatable, Source};
use super::options::{CodeArgs, GeometryArgs};
use super::show::{self, ReportDestination};
use crate::common::{self, Failure, Outcome, grouped, grouped_count};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::table::Table;
use floatgate_host::output::Output;
use floatgate_image::ecc::{
    self, Candidate, Detection, Dump, EccError, ErasedInSome, MergeReport, PageGeometry, RegionEcc, Regions,
    Scheme,
};
use floatgate_lab::report::{Concluded, ResultKind};
use serde::Serialize;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc merge dump.nand second.nand --part mt29f2g08aad -o merged.nand
  floatgate ecc merge dump.nand second.nand --part mt29f2g08aad --code bch4/512 -o merged.nand --json
  floatgate ecc merge dump.nand second.nand --part mt29f2g08aad --code none -o voted.nand

Each bit is decided by majority vote. If the code then cannot correct a step, the step is taken from a dump in which the code can correct it. Otherwise, bits on \
which the dumps disagree are inverted. OUT has corrected pages with OOB; `ecc decode` removes the OOB.

Dumps of other chips, dumps whose ECC bytes are in another layout, and dumps that have the same bytes at other places are refused.

Exit status 1: some data could not be corrected, and is written as voted.")]
pub(super) struct Args {
    /// Dumps of one chip, 1 to 16: pages with OOB, one after the other
    #[arg(required = true, value_name = "DUMP")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    geometry: GeometryArgs,

    #[command(flatten)]
    code: CodeArgs,

    /// Output file, written completely or not at all; - for stdout, with the report on stderr
    #[arg(short, long, value_name = "OUT")]
    output: OutputFile,

    #[command(flatten)]
    format: ReportFormat,
}

/// Result of a merge.
#[derive(Serialize)]
pub(super) struct Merged {
    /// Codes and layouts of the parts of the dump; empty if the vote of the bits was used alone.
    pub(super) schemes: Vec<MergedScheme>,
    #[serde(flatten)]
    pub(super) report: MergeReport,
}

/// Protection of a part of the dumps.
#[derive(Serialize)]
pub(super) struct MergedScheme {
    /// Number of the first page.
    pub(super) first_page: u64,
    /// Name of the code.
    pub(super) code: String,
    /// Name of the layout.
    pub(super) layout: String,
}

impl Concluded for Merged {
    fn conclusion(&self) -> String {
        self.report.conclusion()
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let destination = ReportDestination::new(Some(&args.output), args.format)?;
    let files = args.files.iter().map(|path| Repeatable::new(path, args.geometry.is_stated()));
    let files = files.collect::<Result<Vec<Repeatable>, _>>()?;
    let first = files.first().map_or(args.first()?, Repeatable::path);
    let geometry = args.geometry.of_dump(first, None)?.require(args.first()?)?;
    let sources = files.iter().map(|file| Source::new(file.path(), geometry.full_page()));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let regions = args.regions(&geometry, &sources)?;
    let mut inputs = sources.iter().map(Source::open).collect::<Result<Vec<Input>, _>>()?;
    let bar = inputs.first().map_or_else(indicatif::ProgressBar::new_spinner, Input::progress);
    let paths: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let mut output = Output::stream(&args.output, &paths)?;
    let dumps = inputs.iter_mut().map(|input| Dump { pages: &mut input.reader, apart: None }).collect();
    let merged = ecc::merge(&geometry, &regions, dumps, &mut output, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let first = args.first()?;
    let report = match merged {
        Ok(report) => {
            for dump in report.strays() {
                args.require_places(&geometry, &sources, (dump, 1))?;
            }
            let doubtful: Vec<usize> = report.doubtful().collect();
            args.require_layouts((&geometry, &regions), &sources, &doubtful)?;
            for dump in doubtful {
                let path = args.path(dump)?;
                report.require_oob(dump).map_err(|error| files::failure(path, &error))?;
            }
            report
        }
        // Another layout, and bytes at other places, make pages of one chip different.
        Err(error @ EccError::OtherChip { dump, other, .. }) => {
            args.require_layouts((&geometry, &regions), &sources, &[dump])?;
            args.require_places(&geometry, &sources, (dump, other))?;
            return Err(files::failure(args.path(dump)?, &error));
        }
        Err(error) => return Err(files::failure_of((first, &args.output), &error)),
    };
    common::finish(output)?;
    let schemes = regions.iter().filter_map(|(pages, ecc)| {
        let scheme = ecc.scheme()?;
        let (code, layout) = (scheme.code().to_string(), scheme.layout_name().to_owned());
        Some(MergedScheme { first_page: pages.start, code, layout })
    });
    let merged = Merged { schemes: schemes.collect(), report };
    destination.report(&ResultKind::EccMerge.of(first), &merged, || text(&merged, &paths))?;
    let is_open = regions.iter().any(|(_, ecc)| matches!(ecc, RegionEcc::Unknown));
    Ok(if merged.report.is_good() && !is_open { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Args {
    fn first(&self) -> Result<&Path, Failure> {
        let first = self.files.first().map(PathBuf::as_path);
        first.ok_or_else(|| Failure::new("no dump is named", "name the dumps of one chip"))
    }

    /// The given code, or the codes that explain the first dump with a known code.
    fn regions(&self, geometry: &PageGeometry, sources: &[Source]) -> Result<Regions, Failure> {
        if self.code.is_none() {
            return Ok(Regions::one(RegionEcc::None));
        }
        if !self.code.is_open() {
            return Ok(Regions::one(RegionEcc::Code(Box::new(
                self.code.scheme_for(geometry.clone(), self.geometry.asked()?)?,
            ))));
        }
        // A worn dump may show no code where another dump shows one.
        let (mut regions, mut untold, mut is_told) = (Regions::one(RegionEcc::None), None, false);
        let mut worn: Option<Candidate> = None;
        for (source, path) in sources.iter().zip(&self.files) {
            let mut input = source.open()?;
            let dump = Dump { pages: &mut input.reader, apart: None };
            let sample = ecc::sample(geometry, dump, &mut |_| ());
            let sample = match sample {
                Err(error @ (EccError::AllErased | EccError::TooLittle)) => {
                    untold.get_or_insert(files::failure(path, &error));
                    continue;
                }
                sample => sample.map_err(|error| files::failure(path, &error))?,
            };
            is_told = true;
            let detection = ecc::detect(geometry, None, &sample);
            if detection.found().is_some() {
                return Ok(detection.regions);
            }
            keep_best(&mut worn, &detection);
            regions = detection.regions;
        }
        if let Some(failure) = untold.filter(|_| !is_told) {
            return Err(failure);
        }
        // A vote can correct the errors that hide the code in each dump.
        if sources.len() > 2 {
            let detection = self.detect_in_vote(geometry, sources)?;
            if detection.found().is_some() {
                return Ok(detection.regions);
            }
            keep_best(&mut worn, &detection);
        }
        // The dumps have this code, and more wrong bits than it corrects in one of them.
        let scheme = worn.and_then(|worn| {
            let layout = ecc::Layout::named(&worn.layout).ok()?;
            Scheme::new(geometry.clone(), worn.code.parse().ok()?, layout).ok()
        });
        Ok(scheme.map_or(regions, |scheme| Regions::one(RegionEcc::Code(Box::new(scheme)))))
    }

    /// Refuses each dump of these numbers whose ECC bytes are in another layout.
    fn require_layouts(
        &self,
        (geometry, regions): (&PageGeometry, &Regions),
        sources: &[Source],
        numbers: &[usize],
    ) -> Result<(), Failure> {
        for &number in numbers {
            let at = number.saturating_sub(1);
            let Some((source, path)) = sources.get(at).zip(self.files.get(at)) else { continue };
            let mut input = source.open()?;
            let dump = Dump { pages: &mut input.reader, apart: None };
            let checked = ecc::require_layout(geometry, regions, (number, dump));
            checked.map_err(|error| files::failure(path, &error))?;
        }
        Ok(())
    }

    /// File of a dump with this number, from 1.
    fn path(&self, number: usize) -> Result<&Path, Failure> {
        self.files.get(number.saturating_sub(1)).map_or_else(|| self.first(), |path| Ok(path))
    }

    /// Refuses a dump that has the bytes of another dump at other places.
    fn require_places(
        &self,
        geometry: &PageGeometry,
        sources: &[Source],
        (dump, other): (usize, usize),
    ) -> Result<(), Failure> {
        let source = |number: usize| sources.get(number.saturating_sub(1));
        let Some((odd, reference)) = source(dump).zip(source(other)) else { return Ok(()) };
        let (mut odd, mut reference) = (odd.open()?, reference.open()?);
        let [odd, reference] =
            [&mut odd, &mut reference].map(|input| Dump { pages: &mut input.reader, apart: None });
        let path = self.path(dump)?;
        let how =
            ecc::displacement(geometry, reference, odd).map_err(|error| files::failure(path, &error))?;
        match how {
            Some(how) => Err(files::failure(path, &EccError::Displaced { dump, other, how })),
            None => Ok(()),
        }
    }

    /// Codes in the vote of all dumps.
    fn detect_in_vote(&self, geometry: &PageGeometry, sources: &[Source]) -> Result<Detection, Failure> {
        let first = self.first()?;
        let failed = |error: std::io::Error| {
            let help = "have room in the folder for temporary files (TMPDIR)";
            Failure::new(format!("the vote of the dumps cannot be kept: {error}"), help)
        };
        let mut inputs = sources.iter().map(Source::open).collect::<Result<Vec<Input>, _>>()?;
        let dumps = inputs.iter_mut().map(|input| Dump { pages: &mut input.reader, apart: None }).collect();
        let mut voted = tempfile::tempfile().map_err(failed)?;
        let none = Regions::one(RegionEcc::None);
        match ecc::merge(geometry, &none, dumps, &mut voted, &mut |_| ()) {
            Err(error @ EccError::OtherChip { dump, other, .. }) => {
                self.require_places(geometry, sources, (dump, other))?;
                return Err(files::failure(self.path(dump)?, &error));
            }
            merged => merged.map_err(|error| files::failure(first, &error))?,
        };
        voted.rewind().map_err(failed)?;
        let sample = ecc::sample(geometry, Dump { pages: &mut voted, apart: None }, &mut |_| ());
        let sample = sample.map_err(|error| files::failure(first, &error))?;
        Ok(ecc::detect(geometry, None, &sample))
    }
}

/// Keeps the code for which most speaks among those of worn dumps.
fn keep_best(best: &mut Option<Candidate>, detection: &Detection) {
    if let Some(worn) = detection.worn()
        && best.as_ref().is_none_or(|best| worn.evidence_bits > best.evidence_bits)
    {
        *best = Some(worn.clone());
    }
}

/// Report for people.
fn text(merged: &Merged, paths: &[&Path]) -> String {
    let report = &merged.report;
    let mut lines: Vec<String> = merged
        .schemes
        .iter()
        .map(|scheme| {
            format!("from page {} on: {}, layout {}", grouped(scheme.first_page), scheme.code, scheme.layout)
        })
        .collect();
    if merged.schemes.is_empty() {
        lines.push("no ECC code: bits are those of the majority".to_owned());
    }
    lines.push(format!(
        "pages   {}, the dumps disagree on {} in {}",
        grouped(report.pages),
        grouped_count(report.bits_that_differ, "bit"),
        grouped_count(report.pages_that_differ, "page")
    ));
    if report.undecided_bits > 0 {
        lines.push(format!(
            "votes   {} without a majority: 1 in erased pages, elsewhere as the first dump has them where no code tells",
            grouped_count(report.undecided_bits, "bit")
        ));
    }
    let ErasedInSome { as_data, as_erased } = report.erased_in_some;
    if as_data + as_erased > 0 {
        let why = "the code corrects it in a dump, or as many dumps have it as not";
        lines.push(format!(
            "erased  {} in some dumps and not in others: {} written as data ({why}), {} as erased",
            grouped_count(as_data + as_erased, "page"),
            grouped(as_data),
            grouped(as_erased)
        ));
    }
    let steps = &report.steps;
    if steps.total > 0 {
        lines.push(format!(
            "steps   {} with data: {} right by vote, {} by one dump, {} by combination, {} uncorrectable",
            grouped(steps.total),
            grouped(steps.by_vote),
            grouped(steps.by_one_dump),
            grouped(steps.by_combination),
            grouped(steps.uncorrectable)
        ));
    }
    let mut table = Table::new(["dump", "pages", "wrong bits", "uncorrectable alone"]).numbers(1..);
    for (dump, path) in report.dumps.iter().zip(paths) {
        let counts = [dump.pages, dump.wrong_bits, dump.uncorrectable_alone].map(grouped);
        table.row([path.display().to_string()].into_iter().chain(counts));
    }
    lines.push(format!("\n{table}"));
    lines.extend(show::listed(&report.uncorrectable, steps.uncorrectable));
    if report.rest_bytes > 0 {
        lines.push(format!(
            "\nthe last {} are no whole page and were left out",
            grouped_count(report.rest_bytes, "byte")
        ));
    }
    lines.join("\n")
}
