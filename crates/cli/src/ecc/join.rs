//! `floatgate ecc join`.

use super::files;
use super::options::GeometryArgs;
use super::show::{INDISTINGUISHABLE_BITS, ReportDestination};
use crate::common::{self, Failure, Outcome, grouped, grouped_count};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::terminal::unless_quiet;
use floatgate_host::output::Output;
use floatgate_image::ImageError;
use floatgate_image::dump_kind::DumpKind;
use floatgate_image::ecc::join::{self, ChipDump, JoinFound, StripeUnit, Striping};
use floatgate_image::ecc::{EccError, PageGeometry};
use floatgate_image::words::measure;
use floatgate_lab::report::{Concluded, ResultKind};
use floatgate_mtd::advice::Help;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate ecc join chip0.bin chip1.bin -o both.ubi
  floatgate ecc join chip0.bin chip1.bin -o both.ubi --json
  floatgate ecc join chip0.bin chip1.bin --unit 2048 --first 1 -o both.ubi

The order is found by the structures of UBI, UBIFS and JFFS2 that have a checksum: those that lie in both chips are whole only in the right order. Bytes, pairs \
of bytes, pages and blocks that alternate are tried, and one chip after the other. With one dump, its two halves are the chips, or the pages of its two \
planes alternate.

The dumps contain data without OOB, or pages with OOB whose data is in one piece. For dumps with other layouts, first remove the OOB with `ecc decode`.

Exit status 1: the dumps have different lengths, and the end of the longer one is left out.")]
pub(super) struct Args {
    /// Dump of one chip, or of both chips, one after the other
    #[arg(value_name = "DUMP")]
    one: PathBuf,

    /// Dump of the other chip
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,

    #[command(flatten)]
    geometry: GeometryArgs,

    /// Size of the parts that alternate between the dumps, with OOB. Without --unit the order is detected
    #[arg(long, value_name = "BYTES", value_parser = unit_bytes)]
    unit: Option<u32>,

    /// Number of the dump that comes first, with --unit: 1 or 2 [default: 1]
    #[arg(long, value_name = "N", requires = "unit", value_parser = clap::value_parser!(u8).range(1..=2))]
    first: Option<u8>,

    /// Output file, written completely or not at all; - for stdout, with the report on stderr
    #[arg(short, long, value_name = "OUT")]
    output: OutputFile,

    #[command(flatten)]
    format: ReportFormat,
}

/// Result of a join.
#[derive(Serialize)]
pub(super) struct Joined {
    /// Order of the parts.
    #[serde(flatten)]
    pub(super) striping: Striping,
    /// Evidence for the order; `None` if the user stated the order.
    pub(super) found: Option<JoinFound>,
    /// Size of a page without OOB, if the dumps have OOB, bytes.
    pub(super) page_bytes: Option<u32>,
    /// Size of a page's OOB, bytes.
    pub(super) oob_bytes: Option<u32>,
    /// Number of bytes written.
    pub(super) written_bytes: u64,
    /// Number of bytes of the longer dump that were omitted.
    pub(super) rest_bytes: u64,
}

impl Concluded for Joined {
    /// Text about the order of the chips.
    fn conclusion(&self) -> String {
        let Striping { stripe, unit_bytes, first, block_bytes } = self.striping;
        let part = match stripe {
            StripeUnit::Chip => return "One chip follows the other.".to_owned(),
            StripeUnit::Byte => "bytes".to_owned(),
            StripeUnit::Word => "pairs of bytes".to_owned(),
            StripeUnit::Page => format!("pages of {unit_bytes} bytes"),
            StripeUnit::Block => format!("blocks of {unit_bytes} bytes"),
            StripeUnit::Plane => {
                let block = block_bytes.unwrap_or(0);
                return format!(
                    "Two planes with blocks of {block} bytes alternate by pages of {unit_bytes} bytes, plane {first} first."
                );
            }
        };
        format!("The two chips alternate by {part}, dump {first} first.")
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let destination = ReportDestination::new(Some(&args.output), args.format)?;
    let paths: Vec<&Path> =
        [Some(&args.one), args.other.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect();
    let opened = paths.iter().map(|path| files::whole(path)).collect::<Result<Vec<File>, Failure>>()?;
    let dumps = args.dumps(&opened)?;
    let mut geometry = args.pages(&opened)?;
    let (striping, found) = match args.stated(geometry.as_ref()) {
        Some(striping) => (striping, None),
        None => {
            let found = join::find(dumps, geometry.as_ref());
            let found = found.map_err(|error| files::failure(&args.one, &error))?;
            geometry.clone_from(&found.geometry);
            (found.striping, Some(found))
        }
    };
    let mut output = Output::stream(&args.output, &paths)?;
    let bar = unless_quiet(ProgressBar::new(dumps.iter().map(|dump| dump.len).sum()));
    let joined = join::join(dumps, striping, &mut output, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let (written_bytes, rest_bytes) =
        joined.map_err(|error| files::failure_of((&args.one, &args.output), &error))?;
    common::finish(output)?;
    let [page_bytes, oob_bytes] = match &geometry {
        Some(geometry) => [geometry.page_bytes, geometry.oob_bytes].map(Some),
        None => [None; 2],
    };
    let joined = Joined { striping, found, page_bytes, oob_bytes, written_bytes, rest_bytes };
    destination.report(&ResultKind::EccJoin.of(&args.one), &joined, || text(&joined))?;
    Ok(if rest_bytes == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Size of the parts that alternate: one byte or more.
fn unit_bytes(text: &str) -> Result<u32, String> {
    match crate::image::sizes::bytes32(text)? {
        0 => Err("a part has one byte or more".to_owned()),
        bytes => Ok(bytes),
    }
}

impl Args {
    /// The dumps of the two chips.
    fn dumps<'f>(&self, opened: &'f [File]) -> Result<[ChipDump<'f>; 2], Failure> {
        let paths = [Some(&self.one), self.other.as_ref()].into_iter().flatten();
        let mut dumps = Vec::with_capacity(opened.len());
        for (path, file) in paths.zip(opened) {
            let len = file.metadata().map_err(|error| self.failure(&ImageError::File(error)))?.len();
            if len == 0 {
                return Err(files::failure(path, &EccError::Empty));
            }
            dumps.push(ChipDump::new(file, 0, len));
        }
        match *dumps {
            [one, other] => Ok([one, other]),
            [ChipDump { len, .. }] if !len.is_multiple_of(2) => {
                let what = format!(
                    "{}: its number of bytes, {len}, is odd: these are no two chips of one size",
                    self.one.display()
                );
                Err(Failure::new(what, "name the dumps of the two chips"))
            }
            [ChipDump { file, .. }] => join::halves(file).map_err(|error| self.failure(&error)),
            _ => Err(Failure::new("no dump is named", "name the dumps of the two chips")),
        }
    }

    /// Shape of the pages, if they have OOB.
    fn pages(&self, opened: &[File]) -> Result<Option<PageGeometry>, Failure> {
        if self.geometry.is_stated() {
            return Ok(Some(self.geometry.open()?.0));
        }
        // A chip whose pages alternate with those of the other one may begin with no structure.
        for file in opened {
            let kind = file.try_clone().map_err(ImageError::File).and_then(DumpKind::of_file);
            let kind = kind.map_err(|error| self.failure(&error))?;
            let Some((page, oob, pages_per_block)) = kind.shape() else { continue };
            let geometry = PageGeometry::new(page, oob, pages_per_block);
            return geometry.map(Some).map_err(|error| files::failure(&self.one, &error));
        }
        Ok(None)
    }

    fn failure(&self, error: &ImageError) -> Failure {
        Failure::new(format!("{}: {error}", self.one.display()), error.help())
    }

    /// Order that the user states.
    fn stated(&self, geometry: Option<&PageGeometry>) -> Option<Striping> {
        let unit = self.unit?;
        let stripe = match unit {
            1 => StripeUnit::Byte,
            2 => StripeUnit::Word,
            unit if geometry.is_some_and(|geometry| geometry.full_page() == unit) || unit <= 16384 => {
                StripeUnit::Page
            }
            _ => StripeUnit::Block,
        };
        Some(Striping::of_chips(stripe, unit.max(1).into(), self.first.unwrap_or(1)))
    }
}

/// Name of a part that alternates.
fn part_name(striping: Striping) -> String {
    let Striping { stripe, unit_bytes, first, block_bytes } = striping;
    match stripe {
        StripeUnit::Chip => "one chip after the other".to_owned(),
        StripeUnit::Byte => format!("bytes, dump {first} first"),
        StripeUnit::Word => format!("pairs of bytes, dump {first} first"),
        StripeUnit::Page => format!("pages of {unit_bytes} bytes, dump {first} first"),
        StripeUnit::Block => format!("blocks of {unit_bytes} bytes, dump {first} first"),
        StripeUnit::Plane => format!(
            "pages of {unit_bytes} bytes of two planes with blocks of {} bytes, plane {first} first",
            block_bytes.unwrap_or(0)
        ),
    }
}

/// Report for people.
fn text(joined: &Joined) -> String {
    let mut lines = vec![format!("order    {}", part_name(joined.striping))];
    if let Some(found) = &joined.found {
        lines.push(format!(
            "found    {} of evidence, confidence {:.1} %, of {}; {} whole, {} not",
            measure(found.evidence_bits, "bit"),
            (found.confidence * 1000.0).floor() / 10.0,
            grouped_count(found.tried, "order"),
            grouped_count(found.structures, "structure"),
            grouped(found.broken)
        ));
        let runner_up = found.runner_up.as_ref().map(|other| {
            let is_equal = other.evidence_bits + INDISTINGUISHABLE_BITS > found.evidence_bits;
            let what = if is_equal { "these dumps cannot distinguish it from:" } else { "next best:" };
            format!("{what} {}, {}", part_name(other.striping), measure(other.evidence_bits, "bit"))
        });
        lines.extend(runner_up);
    }
    lines.push(format!("written  {}", grouped_count(joined.written_bytes, "byte")));
    if joined.rest_bytes > 0 {
        lines.push(format!(
            "left out {} at the end of the longer dump",
            grouped_count(joined.rest_bytes, "byte")
        ));
    }
    lines.join("\n")
}
