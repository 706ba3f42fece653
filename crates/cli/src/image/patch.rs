//! `floatgate image patch`.

use super::options::{self, PageArgs};
use crate::common::{self, Failure, Outcome};
use crate::output::{self, ReportFormat};
use crate::outputs::OutputFile;
use crate::table::Table;
use crate::terminal;
use floatgate_host::output::Output;
use floatgate_image::FlashSizes;
use floatgate_image::patch::{Patch, PatchOptions, ScriptKind, patch};
use floatgate_lab::report::ResultKind;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image patch dump.bin rootfs.ubi
  floatgate image patch dump.bin rootfs.ubi --script mtd -o patch.sh
  floatgate image patch dump.bin rootfs.ubi --script uboot --base 8MiB
  floatgate image patch dump.bin rootfs.ubi --partition 64MiB --bad-pebs 900

Compares OLD, the contents of the flash, with NEW. OLD is a dump of the partition with its bad blocks, or the image that was written. Both files must have the \
same pages with OOB, or no OOB. Flash behind the end of a file is taken as erased.

The script erases the PEBs that differ, and writes those that are not erased in NEW. It does not change the other PEBs.

Exit status 1: NEW does not fit, because it is longer than the partition, or because a PEB that would change is a bad block. No script is written then.")]
pub(crate) struct Args {
    /// Image or dump of the present contents of the flash
    old: PathBuf,

    /// Image with the new contents of the flash
    new: PathBuf,

    /// Print the commands that write the differences, for a shell with mtd-utils or for U-Boot
    #[arg(long, value_enum, value_name = "KIND")]
    script: Option<Script>,

    /// File for the script [default: stdout]
    #[arg(long, short, value_name = "FILE", requires = "script")]
    output: Option<OutputFile>,

    /// Byte of the flash at which the partition begins, for U-Boot: a multiple of the size of a PEB
    #[arg(long, value_name = "BYTE", value_parser = super::sizes::bytes, default_value = "0")]
    base: u64,

    /// Size of the partition [default: size of OLD]
    #[arg(long, value_name = "BYTES", value_parser = super::sizes::bytes)]
    partition: Option<u64>,

    /// Bad PEBs, in addition to those that the OOB of OLD marks
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    bad_pebs: Vec<u32>,

    /// Size of an eraseblock of the flash (PEB), such as 128KiB
    #[arg(long, value_name = "BYTES", value_parser = super::sizes::bytes32)]
    peb_size: Option<u32>,

    #[command(flatten)]
    pages: PageArgs,

    #[command(flatten)]
    format: ReportFormat,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Script {
    /// A shell with mtd-utils
    Mtd,
    /// U-Boot
    Uboot,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let options = PatchOptions {
        sizes: FlashSizes { peb_bytes: args.peb_size, pages: args.pages.sizes() },
        partition_bytes: args.partition,
        bad_pebs: args.bad_pebs.clone(),
    };
    let [old, new] = [&args.old, &args.new].map(|path| options::file(path));
    let patch = patch(old?, new?, &options).map_err(|error| options::failure(&args.old, &error))?;
    match args.script.filter(|_| patch.misfits.is_empty()) {
        Some(kind) => args.script(&patch, kind)?,
        None => args.format.print(&ResultKind::ImagePatch.of(&args.new), &patch, "runs", || text(&patch))?,
    }
    if !args.format.is_for_programs() {
        // The conclusion has the first one.
        let others = patch.misfits.iter().skip(1);
        others.for_each(|misfit| terminal::print_note(&format!("does not fit: {misfit}")));
    }
    Ok(ExitCode::from(u8::from(!patch.misfits.is_empty())))
}

impl Args {
    fn script(&self, patch: &Patch, kind: Script) -> Result<(), Failure> {
        let kind = match kind {
            Script::Mtd => ScriptKind::Mtd,
            Script::Uboot => ScriptKind::Uboot,
        };
        let script = patch.script(kind, &self.new, self.base);
        let script = script.map_err(|error| options::failure(&self.new, &error))?;
        let Some(path) = &self.output else { return output::print(&script) };
        let mut output = Output::create(path, &[&self.old, &self.new])?;
        output.write_all(script.as_bytes()).map_err(|error| output.failed(error))?;
        common::finish(output)
    }
}

fn text(patch: &Patch) -> String {
    if patch.runs.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["first PEB", "PEBs", "offset", "bytes", "new contents"]).numbers(0..4);
    for run in &patch.runs {
        table.row([
            run.first_peb.to_string(),
            run.pebs.to_string(),
            format!("{:#x}", run.offset),
            format!("{:#x}", run.len),
            if run.erased { "erased" } else { "data" }.to_owned(),
        ]);
    }
    table.to_string()
}
