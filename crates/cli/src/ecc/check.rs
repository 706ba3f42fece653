//! `floatgate ecc check`.

use super::files::{self, Input};
use super::options::{ApartArgs, CodeArgs, GeometryArgs};
use super::show::{self, Told};
use crate::common::{Failure, Outcome};
use crate::output::ReportFormat;
use floatgate_image::ecc::{
    self, DecodeOptions, DecodeReport, Detection, Dump, EccError, RegionEcc, Regions,
};
use floatgate_lab::report::ResultKind;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc check dump.nand --part mt29f2g08aad
  floatgate ecc check dump.nand --page-size 2048 --oob-size 64 --code bch4/512
  floatgate ecc check dump.nand --part mt29f2g08aad --code bch4/512 --json

Exit status 1 when something is uncorrectable, or when no code fits.")]
pub(crate) struct Args {
    /// The dump: pages with OOB, one after the other; - for stdin
    file: PathBuf,

    #[command(flatten)]
    geometry: GeometryArgs,

    #[command(flatten)]
    code: CodeArgs,

    #[command(flatten)]
    apart: ApartArgs,

    /// Number of bits of an erased step that may read 0 [default: as many as the code corrects]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(0..=255))]
    erased_bitflips: Option<u32>,

    #[command(flatten)]
    format: ReportFormat,
}

/// Result of a check.
#[derive(Serialize)]
pub(super) struct Checked {
    /// Detection of the codes; none when the code was given.
    pub(super) detection: Option<Detection>,
    /// Parts of the dump, each under one code, or none.
    pub(super) regions: Vec<CheckedRegion>,
}

/// A part of the dump.
#[derive(Serialize)]
pub(super) struct CheckedRegion {
    /// Number of its first page.
    pub(super) first_page: u64,
    /// Its pages.
    pub(super) pages: u64,
    /// Its protection.
    pub(super) ecc: Protection,
    /// Result of its code; none without a code.
    pub(super) report: Option<DecodeReport>,
}

/// Protection of a region.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Protection {
    /// A code.
    Code,
    /// The OOB holds no ECC.
    None,
    /// No code fits.
    Unknown,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let told = Told::new(None, args.format)?;
    let (regions, detection) = match args.code.code()? {
        Some(_) => (Regions::one(RegionEcc::Code(Box::new(args.code.scheme(&args.geometry)?))), None),
        None => {
            let detection = args.detect()?;
            (detection.regions.clone(), Some(detection))
        }
    };
    let checked = Checked { detection, regions: args.check(&regions)? };
    told.report(&ResultKind::EccCheck.of(&args.file), &checked, || show::checked(&checked))?;
    let is_good = |region: &CheckedRegion| region.report.as_ref().is_some_and(DecodeReport::is_good);
    Ok(if checked.regions.iter().all(is_good) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Args {
    fn check(&self, regions: &Regions) -> Result<Vec<CheckedRegion>, Failure> {
        let (geometry, _) = self.geometry.open()?;
        let options = DecodeOptions { erased_threshold: self.erased_bitflips, ..DecodeOptions::default() };
        let reports = self
            .read(|dump, progress| ecc::decode_regions(&geometry, regions, dump, None, options, progress))?;
        let checked = regions.iter().zip(reports).map(|((numbers, ecc), report)| {
            let (first_page, pages) = (numbers.start, report.pages);
            let (ecc, report) = match ecc {
                RegionEcc::Code(_) => (Protection::Code, Some(report)),
                RegionEcc::None => (Protection::None, None),
                RegionEcc::Unknown => (Protection::Unknown, None),
            };
            CheckedRegion { first_page, pages, ecc, report }
        });
        Ok(checked.collect())
    }

    fn detect(&self) -> Result<Detection, Failure> {
        let layout = self.code.layout()?;
        let (geometry, _) = self.geometry.open()?;
        if self.apart.path().into_iter().chain([self.file.as_path()]).any(files::reads_once) {
            return Err(Failure::new(
                "to find out the code, the dump is read twice, which a pipe cannot be",
                "give the code with --code, or name a file",
            ));
        }
        if self.apart.only_ecc() {
            return Err(Failure::new(
                "how many ECC bytes a page has depends on the code",
                "give it with --code, or the whole OOB with --oob",
            ));
        }
        let sample = self.read(|dump, progress| ecc::sample(&geometry, dump, progress))?;
        Ok(ecc::detect(&geometry, layout.as_deref(), &sample))
    }

    /// Reads the dump from its start.
    fn read<T>(
        &self,
        work: impl FnOnce(Dump<'_>, &mut dyn FnMut(u64)) -> Result<T, EccError>,
    ) -> Result<T, Failure> {
        let (mut input, mut apart) = (Input::open(&self.file)?, self.apart.open()?);
        let bar = input.progress();
        let dump = Dump { pages: &mut input.reader, apart: self.apart.apart(&mut apart) };
        let outcome = work(dump, &mut |bytes| bar.set_position(bytes));
        bar.finish_and_clear();
        outcome.map_err(|error| self.apart.failure(&error, &self.file, None))
    }
}
