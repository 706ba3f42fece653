//! `floatgate ecc check`.

use super::files::{self, Repeatable, Source};
use super::options::{ApartArgs, CodeArgs, DumpPages, GeometryArgs};
use super::show::{self, ReportDestination};
use crate::common::{Failure, Outcome, grouped, grouped_count};
use crate::output::ReportFormat;
use floatgate_image::dump_kind::{DumpKind, Kind};
use floatgate_image::ecc::{
    self, DecodeOptions, DecodeReport, Detection, Detector, Dump, EccError, Layout, PageGeometry, RegionEcc,
    Regions, Transform, TwoChipsWriter,
};
use floatgate_lab::report::{Concluded, ResultKind};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc check dump.nand
  floatgate ecc check dump.nand --part mt29f2g08aad
  floatgate ecc check dump.nand --page-size 2048 --oob-size 64 --code bch4/512
  floatgate ecc check dump.nand --part mt29f2g08aad --code bch4/512 --json

Without sizes of pages, they are found: by the UBI, UBIFS or JFFS2 in the dump, or by its bad block markers. Without --code and --layout, the code and its layout \
are found.

Exit status 1: some data is uncorrectable, no code fits, or the dump has no OOB.")]
pub(crate) struct Args {
    /// File with the dump: pages with OOB, one after the other; - for stdin
    file: PathBuf,

    #[command(flatten)]
    geometry: GeometryArgs,

    #[command(flatten)]
    code: CodeArgs,

    #[command(flatten)]
    apart: ApartArgs,

    /// Maximum number of bits that may read 0 in an erased step [default: as many as the code corrects]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(0..=255))]
    erased_bitflips: Option<u32>,

    #[command(flatten)]
    format: ReportFormat,
}

/// Result of a check.
#[derive(Serialize)]
pub(super) struct Checked {
    /// Detection of the codes; `None` if the code was given.
    pub(super) detection: Option<Detection>,
    /// Parts of the dump, each with one code or none.
    pub(super) regions: Vec<CheckedRegion>,
    /// Kind of the dump; `None` if the page sizes were stated and a code fits.
    pub(super) dump: Option<DumpKind>,
    /// Other pages in which no code fits either.
    #[serde(skip)]
    pub(super) others: Vec<PageGeometry>,
}

/// A part of the dump.
#[derive(Serialize)]
pub(super) struct CheckedRegion {
    /// Number of the first page.
    pub(super) first_page: u64,
    /// Number of pages.
    pub(super) pages: u64,
    /// Protection of the pages.
    pub(super) ecc: Protection,
    /// Result of the code; `None` without a code.
    pub(super) report: Option<DecodeReport>,
}

impl CheckedRegion {
    /// The region without a report, if no code protects it.
    pub(super) fn without_code(self) -> Self {
        Self { report: self.report.filter(|_| self.ecc == Protection::Code), ..self }
    }

    /// True if the code corrects all wrong bits.
    pub(super) fn is_good(&self) -> bool {
        self.report.as_ref().is_some_and(DecodeReport::is_good)
    }
}

/// Protection of a region.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Protection {
    /// A code that was identified by its ECC bytes.
    Code,
    /// The OOB contains no ECC.
    None,
    /// No code fits.
    Unknown,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let destination = ReportDestination::new(None, args.format)?;
    let file = Repeatable::new(&args.file, args.geometry.is_stated())?;
    let checked = match args.geometry.of_dump(file.path(), args.apart.path())? {
        DumpPages::Known(geometry, kind) => args.checked(geometry, kind, file.path())?,
        DumpPages::Unknown(kind) => {
            Checked { detection: None, regions: Vec::new(), dump: Some(kind), others: Vec::new() }
        }
    };
    destination.report(&ResultKind::EccCheck.of(&args.file), &checked, || text(&checked))?;
    let is_good = !checked.regions.is_empty() && checked.regions.iter().all(CheckedRegion::is_good);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Args {
    /// Checks a dump whose sizes of pages are known.
    fn checked(
        &self,
        geometry: PageGeometry,
        kind: Option<DumpKind>,
        path: &Path,
    ) -> Result<Checked, Failure> {
        let (regions, detection, finder, kind, others) = match self.code.code()? {
            Some(_) => {
                let scheme = self.code.scheme_for(geometry.clone(), self.geometry.asked()?)?;
                let finder = Finder::new(geometry, (&self.file, path), &self.apart)?;
                (Regions::one(RegionEcc::Code(Box::new(scheme))), None, finder, kind, Vec::new())
            }
            None => {
                let finder = Finder::new(geometry, (&self.file, path), &self.apart)?;
                let layout = self.code.layout()?;
                let Found { finder, detection, kind, others } = finder.found(kind, layout.as_deref())?;
                (detection.regions.clone(), Some(detection), finder, kind, others)
            }
        };
        let options = DecodeOptions { erased_threshold: self.erased_bitflips, ..DecodeOptions::default() };
        let transform = detection.as_ref().and_then(|detection| detection.transform);
        let regions = finder.decode((&regions, transform), options, None)?.into_iter();
        let regions = regions.map(CheckedRegion::without_code).collect();
        let dump = kind_of_unfit(kind, detection.as_ref(), (path, &self.apart))?;
        Ok(Checked { detection, regions, dump, others })
    }
}

/// Kind of a dump: the detected kind, or the kind of a dump that no code fits.
pub(super) fn kind_of_unfit(
    kind: Option<DumpKind>,
    detection: Option<&Detection>,
    (path, apart): (&Path, &ApartArgs),
) -> Result<Option<DumpKind>, Failure> {
    let is_fit = detection.is_none_or(|detection| detection.found().is_some());
    // Data without OOB, which has been named, are no kind of their own.
    if is_fit && apart.path().is_some() {
        return Ok(None);
    }
    if kind.is_some() || is_fit || apart.path().is_some() { Ok(kind) } else { files::kind_of(path) }
}

/// Input of a search for codes. The dump is read once to find the codes, and once to decode it.
pub(super) struct Finder<'a> {
    geometry: PageGeometry,
    path: &'a Path,
    apart: &'a ApartArgs,
    pages: Source,
    oob: Option<Source>,
    /// File to which decoded data are written.
    output: Option<&'a Path>,
}

/// Codes of a dump, and the pages in which they were found.
pub(super) struct Found<'a> {
    pub(super) finder: Finder<'a>,
    pub(super) detection: Detection,
    /// Kind of the dump with the sizes of these pages, if its contents show them.
    pub(super) kind: Option<DumpKind>,
    /// Other pages in which no code fits either.
    pub(super) others: Vec<PageGeometry>,
}

impl<'a> Finder<'a> {
    /// `name` is the name of the file in messages.
    pub(super) fn new(
        geometry: PageGeometry,
        (name, path): (&'a Path, &Path),
        apart: &'a ApartArgs,
    ) -> Result<Self, Failure> {
        let pages = Source::new(path, apart.page_bytes(&geometry))?;
        let oob = apart.source(&geometry)?;
        Ok(Self { geometry, path: name, apart, pages, oob, output: None })
    }

    /// The finder with the name of the file to which decoded data are written.
    pub(super) fn with_output(self, output: &'a Path) -> Self {
        Self { output: Some(output), ..self }
    }

    /// Codes and regions of the dump. If no code fits pages whose sizes the contents show, twice, four times, half and a quarter of them are tried.
    pub(super) fn found(self, kind: Option<DumpKind>, layout: Option<&Layout>) -> Result<Found<'a>, Failure> {
        let detection = self.detect(layout)?;
        let is_shown = kind.as_ref().is_some_and(|kind| kind.kind == Kind::WithOob);
        let mut others = Vec::new();
        if detection.found().is_none() && is_shown && self.apart.path().is_none() {
            for geometry in self.other_pages() {
                let pages = self.pages.with_pages(geometry.full_page())?;
                let finder = Self { geometry, pages, oob: None, ..self };
                let sample =
                    finder.read(None, |dump, progress| ecc::sample(&finder.geometry, dump, progress));
                let Ok(sample) = sample else { continue };
                let detector = Detector::new(&finder.geometry, layout);
                if let Some(detection) = detector.detect_in_guessed_pages(&sample) {
                    let PageGeometry { page_bytes, oob_bytes, .. } = finder.geometry;
                    let sizes = (Some(page_bytes), Some(oob_bytes));
                    let kind = kind.map(|kind| DumpKind { page_bytes: sizes.0, oob_bytes: sizes.1, ..kind });
                    return Ok(Found { finder, detection, kind, others: Vec::new() });
                }
                others.push(finder.geometry);
            }
        }
        Ok(Found { finder: self, detection, kind, others })
    }

    /// Pages in blocks of the same size that are larger and smaller.
    fn other_pages(&self) -> Vec<PageGeometry> {
        let PageGeometry { page_bytes, oob_bytes, pages_per_block, .. } = self.geometry;
        let larger = [2, 4].into_iter().filter_map(|times| {
            let per_block = pages_per_block.map(|pages| (pages / times).max(1));
            PageGeometry::new(page_bytes.checked_mul(times)?, oob_bytes.checked_mul(times)?, per_block).ok()
        });
        let smaller = [2, 4].into_iter().filter_map(|parts| {
            let per_block = pages_per_block.and_then(|pages| pages.checked_mul(parts));
            PageGeometry::new(page_bytes / parts, oob_bytes / parts, per_block).ok()
        });
        larger.chain(smaller).filter(|pages| self.pages.allows(pages.full_page())).collect()
    }

    /// Codes and regions of the dump in its pages.
    fn detect(&self, layout: Option<&Layout>) -> Result<Detection, Failure> {
        if self.apart.only_ecc() {
            return Err(Failure::new(
                "how many ECC bytes a page has depends on the code",
                "give it with --code, or the whole OOB with --oob",
            ));
        }
        let sample = self.read(None, |dump, progress| ecc::sample(&self.geometry, dump, progress))?;
        let detector = Detector::new(&self.geometry, layout).with_transforms();
        let detection = detector.detect(&sample);
        if detection.found().is_some() || detection.worn().is_some() {
            return Ok(detection);
        }
        // The bytes of two chips may alternate.
        let apart = self
            .read(Some(Transform::TwoChips), |dump, progress| ecc::sample(&self.geometry, dump, progress))?;
        Ok(detector.detect_two_chips(&apart).unwrap_or(detection))
    }

    /// Decodes the dump by regions.
    pub(super) fn decode(
        &self,
        (regions, transform): (&Regions, Option<Transform>),
        options: DecodeOptions,
        out: Option<&mut dyn Write>,
    ) -> Result<Vec<CheckedRegion>, Failure> {
        let reports = self.read(transform, |dump, progress| match out {
            Some(out) if transform == Some(Transform::TwoChips) => {
                let mut both = TwoChipsWriter::new(out, self.geometry.page_bytes);
                let reports =
                    ecc::decode_regions(&self.geometry, regions, dump, Some(&mut both), options, progress)?;
                both.finish().map_err(|error| EccError::Write { offset: 0, error })?;
                Ok(reports)
            }
            out => ecc::decode_regions(&self.geometry, regions, dump, out, options, progress),
        })?;
        let checked = regions.iter().zip(reports).map(|((numbers, ecc), report)| {
            let (first_page, pages) = (numbers.start, report.pages);
            let ecc = match ecc {
                RegionEcc::Code(_) => Protection::Code,
                RegionEcc::None => Protection::None,
                RegionEcc::Unknown => Protection::Unknown,
            };
            CheckedRegion { first_page, pages, ecc, report: Some(report) }
        });
        Ok(checked.collect())
    }

    /// Reads the dump from its start, with its bytes or bits exchanged.
    fn read<T>(
        &self,
        transform: Option<Transform>,
        work: impl FnOnce(Dump<'_>, &mut dyn FnMut(u64)) -> Result<T, EccError>,
    ) -> Result<T, Failure> {
        let mut input = self.pages.open()?;
        let mut apart = self.oob.as_ref().map(Source::open).transpose()?;
        let bar = input.progress();
        if let Some(transform) = transform {
            input.transform(transform, self.apart.page_bytes(&self.geometry));
            apart.iter_mut().for_each(|oob| oob.transform(transform, self.geometry.oob_bytes));
        }
        let dump = Dump { pages: &mut input.reader, apart: self.apart.apart(&mut apart) };
        let outcome = work(dump, &mut |bytes| bar.set_position(bytes));
        bar.finish_and_clear();
        outcome.map_err(|error| self.apart.failure(&error, self.path, self.output))
    }
}

impl Checked {
    /// Size of a page with its OOB, and number of bytes in front of the first page, if no code fits and the contents do not begin with a page.
    fn shifted(&self) -> Option<(u64, u64)> {
        let is_open = self.detection.as_ref().is_some_and(|detection| detection.found().is_none());
        let (page, oob, _) = self.dump.as_ref().filter(|_| is_open)?.shape()?;
        let page = u64::from(page) + u64::from(oob);
        let rest = self.dump.as_ref()?.offset?.checked_rem(page)?;
        (rest > 0).then_some((page, rest))
    }
}

impl Concluded for Checked {
    /// Names of the codes that fit, and the wrong bits that they cannot correct.
    fn conclusion(&self) -> String {
        let reports: Vec<&DecodeReport> =
            self.regions.iter().filter_map(|region| region.report.as_ref()).collect();
        let open = self.regions.iter().filter(|region| region.ecc == Protection::Unknown).count();
        let open = match open {
            0 => String::new(),
            1 => " No code fits 1 part of the dump.".to_owned(),
            parts => format!(" No code fits {parts} parts of the dump."),
        };
        match reports.as_slice() {
            [] => match (self.detection.as_ref().and_then(Detection::worn), &self.dump) {
                (Some(worn), _) => format!("No code corrects this dump. It seems to have {}.", worn.code),
                (None, Some(dump)) if dump.kind == Kind::DataOnly => {
                    "This file is data without OOB, so it has no ECC to check.".to_owned()
                }
                (None, Some(dump)) if self.detection.is_none() && dump.kind == Kind::Unknown => {
                    "Nothing in this file tells the sizes of its pages.".to_owned()
                }
                (None, Some(dump)) if dump.kind == Kind::Erased => "This dump is erased.".to_owned(),
                (None, Some(dump)) if dump.kind == Kind::Empty => "This file is empty.".to_owned(),
                (None, _) => match self.shifted() {
                    Some((_, rest)) => format!("No code fits this dump: its pages begin at byte {rest}."),
                    None => "No code fits this dump.".to_owned(),
                },
            },
            [only] => format!("{}{open}", only.conclusion()),
            several => {
                let mut codes: Vec<&str> = several.iter().map(|report| report.scheme.code.as_str()).collect();
                codes.dedup();
                let wrong: u64 = several.iter().map(|report| report.steps.uncorrectable).sum();
                let bits: u64 = several.iter().map(|report| report.corrected_bits).sum();
                let codes = codes.join(", then ");
                let bits = grouped_count(bits, "bit");
                let wrong = match wrong {
                    0 => "correct all".to_owned(),
                    wrong => format!("leave {} wrong", grouped_count(wrong, "step")),
                };
                format!("{codes}: these codes {wrong}, with {bits} corrected.{open}")
            }
        }
    }
}

/// Report for people.
pub(super) fn text(checked: &Checked) -> String {
    let kind = checked.dump.as_ref().map(|dump| dump.kind);
    let mut lines: Vec<String> = checked.dump.iter().map(ToString::to_string).collect();
    lines.extend(checked.detection.iter().map(|detection| show::detected(detection, kind)));
    lines.extend(checked.shifted().map(|(page, rest)| {
        format!(
            "The pages of {page} bytes begin at byte {rest}. Cut off what is in front of them (`tail -c +{} DUMP > PAGES`), and check the rest.",
            rest + 1
        )
    }));
    if !checked.others.is_empty() {
        let sizes = checked.others.iter().map(|pages| format!("{} + {}", pages.page_bytes, pages.oob_bytes));
        let sizes: Vec<String> = sizes.collect();
        lines.push(format!("No code fits in pages of these sizes either: {} bytes.", sizes.join(", ")));
    }
    let is_one = checked.regions.len() == 1;
    lines.extend(checked.regions.iter().filter_map(|region| match &region.report {
        Some(report) if is_one => Some(show::decoded(report)),
        None if is_one => None,
        _ => Some(region_text(region)),
    }));
    lines.join("\n\n")
}

fn region_text(region: &CheckedRegion) -> String {
    let last = region.first_page + region.pages.saturating_sub(1);
    let place = format!("pages {} to {}: ", grouped(region.first_page), grouped(last));
    place
        + &match (&region.report, region.ecc) {
            (Some(report), _) => show::decoded(report),
            (None, Protection::None) => "the OOB holds no ECC".to_owned(),
            (None, _) => "no code fits".to_owned(),
        }
}
