//! `floatgate ecc decode`.

use super::check::{self, Checked, CheckedRegion, Finder, Found, kind_of_unfit};
use super::files::{Input, Repeatable};
use super::options::{ApartArgs, CodeArgs, DumpPages, GeometryArgs};
use super::show::{self, ReportDestination};
use crate::common::{self, Failure, Outcome};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use floatgate_host::output::Output;
use floatgate_image::ecc::{self, BadBlocks, DecodeOptions, DecodeReport, Dump, PageGeometry, Scheme};
use floatgate_lab::report::{Concluded, ResultKind};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc decode dump.nand --part mt29f2g08aad -o corrected.ubi
  floatgate ecc decode dump.nand --part mt29f2g08aad --code bch4/512 -o corrected.ubi
  floatgate ecc decode dump.nand --part mt29f2g08aad --code bch4/512 --bad-blocks skip -o corrected.ubi
  floatgate ecc decode dump.nand --page-size 2048 --oob-size 64 --code bch4/512 -o corrected.ubi --json
  floatgate ecc decode dump.nand --page-size 2048 --oob-size 64 --code none -o pages.bin
  floatgate ecc decode rootfs.ubi --oob rootfs.oob --part mt29f2g08aad --code bch4/512 -o corrected.ubi

Without --code and --layout, the codes are detected as by `ecc check`, one for each part of the dump. With --code none, the data is written as read, without the \
OOB. Files compressed with gzip, xz or zstd, and Android sparse files, are unpacked first.

Exit status 1: some data could not be corrected, and is written as read. Blocks that are marked bad do not count.")]
pub(crate) struct Args {
    /// File with the dump: pages with OOB, one after the other; - for stdin
    file: PathBuf,

    #[command(flatten)]
    geometry: GeometryArgs,

    #[command(flatten)]
    code: CodeArgs,

    #[command(flatten)]
    apart: ApartArgs,

    /// Data of blocks that are marked bad: keep it, so that offsets stay the same, or skip it
    #[arg(long, value_name = "WHAT", default_value = "keep", value_parser = ["keep", "skip"])]
    bad_blocks: String,

    /// Maximum number of bits that may read 0 in an erased step [default: as many as the code corrects]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(0..=255))]
    erased_bitflips: Option<u32>,

    /// Output file, written completely or not at all; - for stdout, with the report on stderr
    #[arg(short, long, value_name = "OUT")]
    output: OutputFile,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let destination = ReportDestination::new(Some(&args.output), args.format)?;
    if args.code.is_open() {
        return args.find(destination);
    }
    let file = Repeatable::new(&args.file, args.geometry.is_stated())?;
    let task = args.task(file.path())?;
    let geometry = task.geometry();
    let mut input = Input::open_dump(file.path(), args.apart.page_bytes(geometry))?;
    let mut apart = args.apart.open(geometry)?;
    let mut output = Output::stream(&args.output, &args.inputs())?;
    let bar = input.progress();
    let mut progress = |bytes| bar.set_position(bytes);
    let dump = Dump { pages: &mut input.reader, apart: args.apart.apart(&mut apart) };
    let decoded = match &task {
        DecodeTask::Correct(scheme) => {
            ecc::decode(scheme, dump, Some(&mut output), args.options(), &mut progress)
        }
        DecodeTask::Strip(geometry) => {
            ecc::strip(geometry, dump, Some(&mut output), args.options(), &mut progress)
        }
    };
    bar.finish_and_clear();
    let report = decoded.map_err(|error| args.apart.failure(&error, &args.file, Some(&args.output)))?;
    common::finish(output)?;
    destination.report(&ResultKind::EccDecode.of(&args.file), &report, || show::decoded(&report))?;
    Ok(show::code(&report))
}

/// Result of decoding a dump with detected codes.
#[derive(Serialize)]
struct DetectedReport {
    /// Sum of all regions.
    #[serde(flatten)]
    all: DecodeReport,
    #[serde(flatten)]
    checked: Checked,
}

/// The conclusion is the same as for a check of the pages.
impl Concluded for DetectedReport {
    fn conclusion(&self) -> String {
        self.checked.conclusion()
    }
}

enum DecodeTask {
    Correct(Box<Scheme>),
    Strip(PageGeometry),
}

impl DecodeTask {
    fn geometry(&self) -> &PageGeometry {
        match self {
            Self::Correct(scheme) => scheme.geometry(),
            Self::Strip(geometry) => geometry,
        }
    }
}

impl Args {
    fn task(&self, path: &Path) -> Result<DecodeTask, Failure> {
        let geometry = self.geometry.of_dump(path, self.apart.path())?.require(&self.file)?;
        if self.code.is_none() {
            return Ok(DecodeTask::Strip(geometry));
        }
        self.code
            .scheme_for(geometry, self.geometry.asked()?)
            .map(|scheme| DecodeTask::Correct(Box::new(scheme)))
    }

    /// Finds the code of each region of the dump, and decodes the dump.
    fn find(&self, destination: ReportDestination) -> Outcome {
        let file = Repeatable::new(&self.file, self.geometry.is_stated())?;
        let (geometry, kind) = match self.geometry.of_dump(file.path(), self.apart.path())? {
            DumpPages::Known(geometry, kind) => (geometry, kind),
            unknown @ DumpPages::Unknown(_) => (unknown.require(&self.file)?, None),
        };
        let finder = Finder::new(geometry, (&self.file, file.path()), &self.apart)?.with_output(&self.output);
        let Found { finder, detection, kind, others } = finder.found(kind, None)?;
        let dump = kind_of_unfit(kind, Some(&detection), (file.path(), &self.apart))?;
        if detection.found().is_none() {
            let checked = Checked { detection: Some(detection), regions: Vec::new(), dump, others };
            return Err(Failure::new(
                format!("{}: {}", self.file.display(), check::text(&checked)),
                "give the code with --code or --layout; --code none writes the data as they were read",
            ));
        }
        let mut output = Output::stream(&self.output, &self.inputs())?;
        let regions =
            finder.decode((&detection.regions, detection.transform), self.options(), Some(&mut output))?;
        common::finish(output)?;
        let all = DecodeReport::total(regions.iter().filter_map(|region| region.report.as_ref()));
        let regions: Vec<CheckedRegion> = regions.into_iter().map(CheckedRegion::without_code).collect();
        let is_good = regions.iter().all(CheckedRegion::is_good);
        let report =
            DetectedReport { all, checked: Checked { detection: Some(detection), regions, dump, others } };
        destination
            .report(&ResultKind::EccDecode.of(&self.file), &report, || check::text(&report.checked))?;
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn inputs(&self) -> Vec<&Path> {
        [self.file.as_path()].into_iter().chain(self.apart.path()).collect()
    }

    fn options(&self) -> DecodeOptions {
        let bad_blocks = if self.bad_blocks == "skip" { BadBlocks::Skip } else { BadBlocks::Keep };
        DecodeOptions { bad_blocks, erased_threshold: self.erased_bitflips }
    }
}
