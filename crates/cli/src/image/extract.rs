//! `floatgate image extract`.

use super::options::{self, ImageArgs};
use crate::common::{Failure, Outcome, count, grouped};
use crate::output::ReportFormat;
use crate::terminal;
use floatgate_host::output::{Output, OutputError};
use floatgate_image::Access;
use floatgate_image::extract::{
    DirectoryTarget, ExtractError, ExtractLimits, Extracted, ExtractedPart, Extractions, Loss, TarTarget,
    extract_all,
};
use floatgate_image::history::At;
use floatgate_image::map::map;
use floatgate_lab::report::ResultKind;
use floatgate_mtd::advice::Help as _;
use indicatif::ProgressBar;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image extract dump.bin rootfs/
  floatgate image extract dump.bin rootfs.tar
  floatgate image extract dump.bin - | tar -t
  floatgate image extract two-volumes.ubi data/ --volume data
  floatgate image extract dump.bin before/ --at 20
  floatgate image extract dump.bin yesterday.tar --at '2026-05-17 08:30'
  floatgate image extract --all router.bin parts/

Without --volume, all volumes of a UBI device are extracted. If there are several, each filesystem is extracted into a directory with the volume's name, and other \
volumes as files NAME.img.

A tar holds every attribute, and writing it needs no special rights; `tar --xattrs --xattrs-include='*' -xf` restores the attributes as root.

With --at, data that garbage collection has erased since that moment is missing, or is extracted in an older state.

Exit status 1: some data could not be extracted bit for bit, and the output lists it; or the OOB of a dump fits no ECC code, so bit errors were not corrected.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,

    /// Directory for the files, a file name that ends in .tar, or - for a tar on stdout
    target: PathBuf,

    /// Extract the files as they were at an earlier moment of `floatgate image ls --history`: a sequence number
    /// of a UBIFS, or INODE:VERSION of a JFFS2 (other inodes in their last state). A moment may also be a time in UTC,
    /// as YYYY-MM-DD HH:MM:SS or @SECONDS since 1970. A date alone is the end of that day
    #[arg(long, value_name = "MOMENT", value_parser = super::history::moment)]
    at: Option<At>,

    /// Extract every part of a flash dump that `floatgate image map` lists, as a file; filesystems that floatgate can read also as folders
    #[arg(long, conflicts_with_all = ["at", "volume", "offset"])]
    all: bool,

    /// Do not set owners: the files belong to the user who extracts them
    #[arg(long)]
    no_owner: bool,

    /// Maximum total size of all files, bytes
    #[arg(long, value_name = "BYTES", default_value_t = ExtractLimits::default().bytes, value_parser = super::sizes::bytes)]
    max_bytes: u64,

    /// Maximum number of files and directories
    #[arg(long, alias = "max-files", value_name = "N", default_value_t = ExtractLimits::default().entries)]
    max_entries: u64,

    /// Maximum depth of directories
    #[arg(long, value_name = "N", default_value_t = ExtractLimits::default().depth)]
    max_depth: usize,

    #[command(flatten)]
    format: ReportFormat,
}

/// Largest number of losses that the text shows; JSON has all losses.
const LINES: usize = 20;

/// Number of paths that are printed with a cause that more paths have.
const FILES: usize = 3;

pub(crate) fn run(args: &Args) -> Outcome {
    let to_stdout = args.target.as_os_str() == "-";
    if to_stdout && args.format.is_for_programs() {
        return Err(Failure::new(
            "both the tar and the report would go to stdout",
            "name a file for the tar",
        ));
    }
    if !to_stdout && !args.is_tar() {
        DirectoryTarget::check_empty(&args.target).map_err(|error| {
            Failure::new(
                format!("{}: {error}", args.target.display()),
                "name a new or an empty folder, a file that ends in .tar, or - for a tar on stdout",
            )
        })?;
    }
    if args.all {
        return args.extract_all(to_stdout);
    }
    if args.at.is_some() {
        args.image.refuse_keys("the files of an earlier moment are not decrypted")?;
    }
    let image = args.image.open(Access::Read)?;
    let selection = args.image.selection();
    let extraction = match args.at {
        Some(at) => Extractions::open_at(&image, &selection, at),
        None => Extractions::open(&image, &selection),
    };
    let extraction = extraction.map_err(|error| options::failure(&args.image.image, &error))?;
    let extracted = args.extract(extraction, to_stdout)?;
    let is_uncorrected = image.has_unknown_code(&selection);
    args.report(&extracted, to_stdout, is_uncorrected)
}

impl Args {
    /// Extracts every part of a dump.
    fn extract_all(&self, to_stdout: bool) -> Outcome {
        if to_stdout || self.is_tar() {
            return Err(Failure::new("--all writes files and folders", "name a new or an empty folder"));
        }
        let path = &self.image.image;
        let image =
            super::map::open(path, self.image.sizes()).map_err(|error| options::failure(path, &error))?;
        let image = self.image.with_keys(image)?;
        let map = map(&image).map_err(|error| options::failure(path, &error))?;
        let all = extract_all(&image, &map, &self.target, &self.limits(), !self.no_owner);
        let all = all.map_err(|error| self.failed(&error, ""))?;
        self.format.print(&self.image.origin(ResultKind::ImageExtractAll), &all, "parts", || {
            let files = count(all.parts.len(), "file");
            let folders = all.parts.iter().filter(|part| part.folder.is_some()).count();
            format!("wrote {}: {files}, {}", self.target.display(), count(folders, "folder"))
        })?;
        if !self.format.is_for_programs() {
            let problem = |part: &ExtractedPart| Some(format!("{}: {}", part.file, part.problem.as_ref()?));
            print_notes(&all.parts.iter().filter_map(problem).collect::<Vec<_>>());
            print_losses("not restored bit for bit", &all.losses);
        }
        let is_whole = all.losses.is_empty() && all.parts.iter().all(|part| part.problem.is_none());
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    const fn limits(&self) -> ExtractLimits {
        ExtractLimits { bytes: self.max_bytes, entries: self.max_entries, depth: self.max_depth }
    }

    fn is_tar(&self) -> bool {
        self.target.extension().is_some_and(|extension| extension == "tar")
    }

    fn extract(&self, extraction: Extractions, to_stdout: bool) -> Result<Extracted, Failure> {
        let limits = self.limits();
        let bar = crate::terminal::unless_quiet(ProgressBar::new_spinner());
        bar.set_style(
            indicatif::ProgressStyle::with_template("{spinner} {binary_bytes} extracted")
                .unwrap_or_else(|_| indicatif::ProgressStyle::default_spinner()),
        );
        let progress = |bytes| bar.set_position(bytes);
        let outcome = if to_stdout || self.is_tar() {
            self.tar(extraction, &limits, &progress)
        } else {
            let target = DirectoryTarget::new(&self.target, !self.no_owner);
            let mut target = target.map_err(|error| unwritable(&self.target, error))?;
            extraction.run(&mut target, &limits, &progress).map_err(|error| {
                let left = format!("; what was extracted until then is in {}", self.target.display());
                self.failed(&error, &left)
            })
        };
        bar.finish_and_clear();
        outcome
    }

    fn tar(
        &self,
        extraction: Extractions,
        limits: &ExtractLimits,
        progress: &dyn Fn(u64),
    ) -> Result<Extracted, Failure> {
        let out = Output::stream(&self.target, &[&self.image.image])?;
        let mut target = TarTarget::new(BufWriter::with_capacity(1 << 18, out));
        let extracted =
            extraction.run(&mut target, limits, progress).map_err(|error| self.failed(&error, ""))?;
        let out = target.finish().and_then(|out| Ok(out.into_inner()?));
        out.map_err(|error| unwritable(&self.target, error))?.finish()?;
        Ok(extracted)
    }

    /// Failure of an extraction, with the output that it left.
    fn failed(&self, error: &ExtractError, left: &str) -> Failure {
        Failure::new(format!("{}: {error}", self.image.image.display()), format!("{}{left}", error.help()))
    }

    fn report(&self, extracted: &Extracted, to_stdout: bool, is_uncorrected: bool) -> Outcome {
        let done = || {
            let entries = usize::try_from(extracted.entries).unwrap_or(usize::MAX);
            let (entries, bytes) = (count(entries, "entry"), grouped(extracted.bytes));
            let past = if self.at.is_some() { ", as far as they are still on the flash" } else { "" };
            format!("wrote {}: {entries}, {bytes} bytes{past}", self.target.display())
        };
        if to_stdout {
            terminal::print_note(&done());
        } else {
            self.format.print(&self.image.origin(ResultKind::ImageExtract), extracted, "losses", done)?;
        }
        if !self.format.is_for_programs() {
            print_notes(&extracted.notes);
            print_losses("not restored bit for bit", &extracted.losses);
        }
        let status = extracted.status().code();
        Ok(ExitCode::from(if is_uncorrected { status.max(1) } else { status }))
    }
}

/// Prints notes about other damage.
pub(super) fn print_notes(notes: &[String]) {
    notes.iter().take(LINES).for_each(|note| terminal::print_note(note));
    if notes.len() > LINES {
        terminal::print_note(&format!("  and {} more: --json lists all", notes.len() - LINES));
    }
}

/// Prints a list of losses.
pub(super) fn print_losses(how: &str, losses: &[Loss]) {
    if losses.is_empty() {
        return;
    }
    terminal::print_note(&format!("{} {how}:", count(losses.len(), "thing")));
    let mut of_cause: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    losses.iter().for_each(|loss| of_cause.entry(&loss.what).or_default().push(&loss.path));
    let (mut said, mut lines) = (BTreeSet::new(), Vec::new());
    for loss in losses {
        match of_cause.get(loss.what.as_str()).map_or(&[][..], Vec::as_slice) {
            // A cause that many files have is printed once.
            paths if paths.len() > FILES => {
                if said.insert(&loss.what) {
                    let named = paths.iter().take(FILES).copied().collect::<Vec<_>>().join(", ");
                    let more = paths.len() - FILES;
                    lines.push(format!("  {}: {named} and {}", loss.what, count(more, "other path")));
                }
            }
            _ => lines.push(format!("  {loss}")),
        }
    }
    lines.iter().take(LINES).for_each(|line| terminal::print_note(line));
    if lines.len() > LINES {
        terminal::print_note(&format!("  and {} more: --json lists all", lines.len() - LINES));
    }
}

fn unwritable(path: &Path, error: std::io::Error) -> Failure {
    OutputError::Host { path: path.to_owned(), error }.into()
}
