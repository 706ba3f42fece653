//! `floatgate ecc join`.

use super::options::{DumpPages, GeometryArgs};
use super::show::{self, ReportDestination};
use crate::common::{self, Failure, Outcome};
use crate::output::ReportFormat;
use crate::terminal::unless_quiet;
use floatgate_host::output::Output;
use floatgate_image::ecc::PageGeometry;
use floatgate_image::ecc::join::{self, ChipDump, JoinFound, StripeUnit, Striping};
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
of bytes, pages and blocks that alternate are tried, and one chip after the other. With one dump, its two halves are the chips.

The dumps have data without OOB, or pages with OOB and the data in one piece; `ecc decode` takes the OOB of other layouts out first.")]
pub(super) struct Args {
    /// Dump of one chip, or of both chips, one after the other
    #[arg(value_name = "DUMP")]
    one: PathBuf,

    /// Dump of the other chip
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,

    #[command(flatten)]
    geometry: GeometryArgs,

    /// Alternate parts of this size, OOB included, instead of finding the order
    #[arg(long, value_name = "BYTES", value_parser = crate::image::sizes::bytes32)]
    unit: Option<u32>,

    /// Number of the dump that comes first, with --unit: 1 or 2 [default: 1]
    #[arg(long, value_name = "N", requires = "unit", value_parser = clap::value_parser!(u8).range(1..=2))]
    first: Option<u8>,

    /// Output file, written completely or not at all; - for stdout, with the report on stderr
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

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
        let Striping { stripe, unit_bytes, first } = self.striping;
        let part = match stripe {
            StripeUnit::Chip => return "One chip follows the other.".to_owned(),
            StripeUnit::Byte => "bytes".to_owned(),
            StripeUnit::Word => "pairs of bytes".to_owned(),
            StripeUnit::Page => format!("pages of {unit_bytes} bytes"),
            StripeUnit::Block => format!("blocks of {unit_bytes} bytes"),
        };
        format!("The two chips alternate by {part}, dump {first} first.")
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let destination = ReportDestination::new(Some(&args.output), args.format)?;
    let paths: Vec<&Path> =
        [Some(&args.one), args.other.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect();
    let files = paths.iter().map(|path| open(path)).collect::<Result<Vec<File>, Failure>>()?;
    let dumps = args.dumps(&files)?;
    let geometry = args.pages()?;
    let (striping, found) = match args.stated(geometry.as_ref()) {
        Some(striping) => (striping, None),
        None => {
            let found = join::find(dumps, geometry.as_ref());
            let found = found.map_err(|error| super::files::failure(&args.one, &error))?;
            (found.striping, Some(found))
        }
    };
    let mut output = Output::stream(&args.output, &paths)?;
    let bar = unless_quiet(ProgressBar::new(dumps.iter().map(|dump| dump.len).sum()));
    let joined = join::join(dumps, striping, &mut output, &mut |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let (written_bytes, rest_bytes) = joined.map_err(|error| super::files::failure(&args.one, &error))?;
    common::finish(output)?;
    let [page_bytes, oob_bytes] = match &geometry {
        Some(geometry) => [geometry.page_bytes, geometry.oob_bytes].map(Some),
        None => [None; 2],
    };
    let joined = Joined { striping, found, page_bytes, oob_bytes, written_bytes, rest_bytes };
    destination.report(&ResultKind::EccJoin.of(&args.one), &joined, || show::joined(&joined))?;
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> Result<File, Failure> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.is_file(), file)));
    match opened {
        Ok((true, file)) => Ok(file),
        Ok((false, _)) => {
            Err(Failure::new(format!("{} is not a file", path.display()), "name a file with a dump"))
        }
        Err(error) => {
            Err(Failure::new(format!("{}: {error}", path.display()), "name a file that can be read"))
        }
    }
}

impl Args {
    /// Dumps of the two chips.
    fn dumps<'f>(&self, files: &'f [File]) -> Result<[ChipDump<'f>; 2], Failure> {
        let failed = |error: &floatgate_image::ImageError| {
            Failure::new(format!("{}: {error}", self.one.display()), error.help())
        };
        match files {
            [one, other] => {
                let whole = |file: &'f File| {
                    let len = file.metadata().map_err(floatgate_image::ImageError::File)?.len();
                    Ok(ChipDump { file, offset: 0, len })
                };
                let both = whole(one).and_then(|one| Ok([one, whole(other)?]));
                both.map_err(|error| failed(&error))
            }
            [both, ..] => join::halves(both).map_err(|error| failed(&error)),
            [] => Err(Failure::new("no dump is named", "name the dumps of the two chips")),
        }
    }

    /// Page sizes, if the dumps have OOB.
    fn pages(&self) -> Result<Option<PageGeometry>, Failure> {
        match self.geometry.of_dump(&self.one, None)? {
            DumpPages::Known(geometry, _) => Ok(Some(geometry)),
            DumpPages::Unknown(_) => Ok(None),
        }
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
        Some(Striping { stripe, unit_bytes: unit.max(1).into(), first: self.first.unwrap_or(1) })
    }
}
