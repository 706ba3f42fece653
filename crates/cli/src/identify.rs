//! `floatgate identify`.

use crate::common::{Failure, Outcome, count, size};
use crate::output::ReportFormat;
use crate::table::Table;
use floatgate_host::open::open_input;
use floatgate_lab::identify::{Device, Identified, NandSizes, identify};
use floatgate_lab::report::ResultKind;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate identify ef4018
  floatgate identify c2 da 90 95 06
  floatgate identify boot.log
  floatgate identify boot.log --json

WHAT is an id in hexadecimal, or a file: a boot log of Linux or U-Boot, a parameter page (ONFI, JEDEC), an SFDP or CFI dump, or a register of a card (CID, CSD, \
EXT_CSD), as bytes or in the form of sysfs.

The command looks for the part in the catalogue and in Linux's tables. Several parts with the same id are twins, which other bytes of the chip distinguish. Exit \
status 1: no part fits.")]
pub(crate) struct Args {
    /// Id, file, or - for stdin
    #[arg(required = true)]
    what: Vec<String>,

    #[command(flatten)]
    format: ReportFormat,
}

/// Size of the largest input, bytes.
const INPUT_MAX: u64 = 16 << 20;

pub(crate) fn run(args: &Args) -> Outcome {
    let what = args.what.join(" ");
    let identified = identify(&input(&what)?);
    if identified.devices.is_empty() {
        return Err(Failure::new(
            format!("{what}: neither an id, nor a page, a register or a log that names a chip"),
            "name an id such as ef4018, or a file that exists",
        ));
    }
    args.format.print(&ResultKind::Identify.of(&what), &identified, "devices", || text(&identified))?;
    let is_known = |device: &Device| !device.parts.is_empty();
    Ok(if identified.devices.iter().any(is_known) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Bytes of a file, or of an ID on the command line.
fn input(what: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(what);
    if what != "-" && !path.exists() {
        return Ok(what.as_bytes().to_vec());
    }
    let mut bytes = Vec::new();
    let read = match what {
        "-" => io::stdin().lock().take(INPUT_MAX + 1).read_to_end(&mut bytes),
        _ => open_input(path).and_then(|file| file.take(INPUT_MAX + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| Failure::new(format!("{what}: {error}"), "name a file that can be read"))?;
    if bytes.len() as u64 > INPUT_MAX {
        return Err(Failure::new(
            format!("{what}: larger than 16 MiB"),
            "name a log, a page or a register; `floatgate image map` reads dumps",
        ));
    }
    Ok(bytes)
}

fn text(identified: &Identified) -> String {
    let mut text = String::new();
    for device in &identified.devices {
        let _ = writeln!(text, "{}\n", heading(device));
        let _ = writeln!(text, "  {}", device.source);
        for note in &device.notes {
            let _ = writeln!(text, "  {note}");
        }
        if !device.parts.is_empty() {
            let _ = writeln!(text, "\n{}", table(device));
        }
        text.push('\n');
    }
    text
}

/// Name or ID of a device, with the size that its source states.
fn heading(device: &Device) -> String {
    let stated = device.name.as_ref().or(device.id.as_ref()).map_or("a chip", String::as_str);
    let own_size = device.size_bytes.map_or_else(String::new, |bytes| format!(", {}", size(bytes)));
    let parts = match device.parts.as_slice() {
        [] => String::new(),
        [only] if only.contradictions.is_empty() => String::new(),
        [only] => format!(": {} {}, but {}", only.maker, only.name, only.contradictions.join(", ")),
        several => format!(": {} share this", count(several.len(), "part")),
    };
    format!("{stated}{own_size}{parts}")
}

fn table(device: &Device) -> Table {
    let mut table =
        Table::new(["part", "name", "maker", "kind", "id", "size", "page", "ECC", "Linux"]).optional([1, 8]);
    for part in &device.parts {
        table.row([
            part.part.clone(),
            part.name.clone(),
            part.maker.clone(),
            part.kind.to_owned(),
            part.id.clone(),
            part.size_bytes.map_or_else(String::new, size),
            part.nand
                .as_ref()
                .map_or_else(String::new, |nand| format!("{} + {}", nand.page_bytes, nand.oob_bytes)),
            part.nand.as_ref().map_or_else(String::new, ecc),
            part.kernel.unwrap_or("").to_owned(),
        ]);
    }
    table
}

fn ecc(nand: &NandSizes) -> String {
    if nand.on_die_ecc {
        return "on die".to_owned();
    }
    match (nand.ecc_bits, nand.ecc_step_bytes) {
        (Some(bits), Some(step)) => format!("{bits}/{step}"),
        _ => String::new(),
    }
}
