//! `floatgate image map`.

use super::options::{self, PageArgs};
use crate::common::{self, Outcome};
use crate::output::ReportFormat;
use crate::outputs::OutputFile;
use crate::table::Table;
use floatgate_host::output::Output;
use floatgate_image::map::{self, FlashMap, Kind, Part};
use floatgate_image::{FlashSizes, Image, ImageError};
use floatgate_lab::report::ResultKind;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate image map router.bin
  floatgate image map router.bin --json
  floatgate image map router.bin -o router.svg
  floatgate image map dump.bin
  floatgate image map flash.nand --page-size 4096 --oob-size 224 --block-pages 128

Each format is detected by its magic number or structure and verified by its own checksums. The column `check` shows good, BAD, CUT OFF, or - for a format \
without a checksum.

The ranges between the parts are listed as erased, zeros, or data with its entropy in bits per byte; compressed or encrypted data has almost 8. For a dump with \
OOB, offsets count only the data bytes, as on the flash.

Exit status 1: a part is damaged.")]
pub(crate) struct Args {
    /// File with the dump; - reads it from stdin
    dump: PathBuf,

    /// Size of an eraseblock of the flash (PEB), such as 128KiB
    #[arg(long, value_name = "BYTES", value_parser = super::sizes::bytes32)]
    peb_size: Option<u32>,

    /// File for a picture of the map, an SVG for light and dark pages
    #[arg(long, short, value_name = "FILE")]
    output: Option<OutputFile>,

    #[command(flatten)]
    pages: PageArgs,

    #[command(flatten)]
    format: ReportFormat,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let sizes = FlashSizes { peb_bytes: args.peb_size, pages: args.pages.sizes() };
    let map = open(&args.dump, sizes).and_then(|image| map::map(&image));
    let map = map.map_err(|error| options::failure(&args.dump, &error))?;
    if let Some(path) = &args.output {
        let output = Output::create(path, &[&args.dump])?;
        output.file().write_all(map.picture().as_bytes()).map_err(|error| output.failed(error))?;
        common::finish(output)?;
    }
    args.format.print(&ResultKind::ImageMap.of(&args.dump), &map, "parts", || text(&map))?;
    Ok(if map.damaged() == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Opens a dump with any contents; `-` is stdin.
pub(super) fn open(path: &Path, sizes: FlashSizes) -> Result<Image, ImageError> {
    match path.as_os_str() {
        stdin if stdin == "-" => Image::any_from_stream(&mut std::io::stdin().lock(), sizes),
        _ => Image::open_any(path, sizes),
    }
}

fn text(map: &FlashMap) -> String {
    let mut text = format!("{map}\n");
    if let Some(pages) = map.pages {
        let (page, oob) = (pages.page_bytes, pages.oob_bytes);
        let _ = writeln!(text, "NAND dump with pages of {page} + {oob} bytes: offsets do not count the OOB");
    }
    for note in &map.notes {
        let _ = writeln!(text, "{note}");
    }
    let mut table = Table::new(["offset", "bytes", "what", "check", "details"]).numbers(0..2);
    for part in &map.parts {
        let indent = "  ".repeat(part.level as usize);
        let name = part.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        let scattered = part.kind == Kind::UbiVolume;
        table.row([
            if scattered { String::new() } else { format!("{:#x}", part.offset) },
            format!("{:#x}", part.len),
            format!("{indent}{}{name}", part.kind.name()),
            if part.kind.is_gap() { String::new() } else { part.checksum.word().to_owned() },
            details(part),
        ]);
        if part.checksum.is_damage() {
            table.red(3);
        }
    }
    let _ = write!(text, "\n{table}");
    if !map.partitions.is_empty() {
        let _ = write!(text, "\n\nPartitions:\n\n{}", partitions(map));
    }
    text
}

/// Properties of a part, on one line.
fn details(part: &Part) -> String {
    let shown = part.facts.shown().map(|(name, value)| format!("{name} {value}"));
    shown.collect::<Vec<_>>().join(", ")
}

/// Table of the partitions, each with the parts that begin in it.
fn partitions(map: &FlashMap) -> Table {
    let mut table = Table::new(["offset", "bytes", "partition", "listed by", "contents"]).numbers(0..2);
    for partition in &map.partitions {
        let end = partition.len.map_or(map.size, |len| partition.offset.saturating_add(len));
        let begins = |part: &&Part| (partition.offset..end).contains(&part.offset) && !part.kind.is_gap();
        let mut contents: Vec<&str> = map.top().filter(begins).map(|part| part.kind.name()).collect();
        contents.dedup();
        let beyond = end > map.size;
        if beyond {
            contents.push("ends behind the dump");
        }
        let read_only = if partition.read_only { ", read-only" } else { "" };
        table.row([
            format!("{:#x}", partition.offset),
            partition.len.map_or_else(|| "rest".to_owned(), |len| format!("{len:#x}")),
            partition.name.clone(),
            format!("{}{read_only}", partition.source),
            contents.join(", "),
        ]);
    }
    table
}
