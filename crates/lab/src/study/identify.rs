//! Study `floatgate identify`.

use super::report::{Cell, Section, Table};
use super::{Context, Report, Study};
use crate::envelope::{Concluded as _, Origin};
use crate::identify::{Candidate, Device, Identified, NandSizes, identify};
use floatgate_host::open::open_input;
use floatgate_mtd::size::text as size;
use floatgate_mtd::words::count;
use floatgate_sim::error::Error;
use serde::Deserialize;
use serde_json::Value;
use std::io::{self, Read};
use std::path::Path;

/// Study of an id, a page, a register or a log that describes a chip.
pub struct Identify;

/// Identify a chip or card by its id, a parameter page, a register or a boot log
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(
    feature = "command",
    command(after_help = "Examples:
  floatgate identify ef4018
  floatgate identify c2 da 90 95 06
  floatgate identify boot.log
  floatgate identify boot.log --json

WHAT is an id in hexadecimal, or a file: a boot log of Linux or U-Boot, a parameter page (ONFI, JEDEC), an SFDP or CFI dump, or a register of a card (CID, CSD, \
EXT_CSD), as bytes or in the form of sysfs.

The command looks for the part in the catalogue and in Linux's tables. Several parts with the same id are twins, which other bytes of the chip distinguish. Exit \
status 1: no part fits.")
)]
pub struct IdentifyOptions {
    /// Id, file, or - for stdin
    #[cfg_attr(feature = "command", arg(required = true))]
    what: Vec<String>,
}

/// Size of the largest input, bytes.
const INPUT_MAX: u64 = 16 << 20;

impl Study for Identify {
    type Options = IdentifyOptions;
    type Output = Identified;

    const NAME: &'static str = "identify";

    fn origin(options: &IdentifyOptions, kind: Origin) -> Origin {
        kind.about(options.what.join(" "))
    }

    fn run(options: &IdentifyOptions, _context: &Context<'_>) -> Result<Identified, Error> {
        let what = options.what.join(" ");
        let identified = identify(&input(&what)?);
        if identified.devices.is_empty() {
            let message = format!("{what}: neither an id, nor a page, a register or a log that names a chip");
            return Err(Error::request(message, "name an id such as ef4018, or a file that exists"));
        }
        Ok(identified)
    }

    fn report(output: &Identified) -> Report {
        let sections = output.devices.iter().map(section).collect();
        Report { sections, conclusion: output.conclusion(), ..Report::default() }
    }

    fn rows(output: &Identified, _table: Option<&str>) -> serde_json::Result<Value> {
        serde_json::to_value(&output.devices)
    }

    fn found_problem(output: &Identified) -> bool {
        output.devices.iter().all(|device| device.parts.is_empty())
    }
}

/// Bytes of a file, or of an id.
fn input(what: &str) -> Result<Vec<u8>, Error> {
    let path = Path::new(what);
    if what != "-" && !path.exists() {
        return Ok(what.as_bytes().to_vec());
    }
    let mut bytes = Vec::new();
    let read = match what {
        "-" => io::stdin().lock().take(INPUT_MAX + 1).read_to_end(&mut bytes),
        _ => open_input(path).and_then(|file| file.take(INPUT_MAX + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| Error::request(format!("{what}: {error}"), "name a file that can be read"))?;
    if bytes.len() as u64 > INPUT_MAX {
        let help = "name a log, a page or a register; `floatgate image map` reads dumps";
        return Err(Error::request(format!("{what}: larger than 16 MiB"), help));
    }
    Ok(bytes)
}

/// Table of the parts that may be a device or, without such a part, its description.
fn section(device: &Device) -> Section {
    let notes = std::iter::once(&device.source).chain(&device.notes).map(|note| format!("  {note}"));
    let lines: Vec<String> = std::iter::once(heading(device)).chain(notes).collect();
    if device.parts.is_empty() {
        return Section::Text(lines);
    }
    let columns = ["part", "name", "maker", "kind", "id", "size", "page", "ECC", "Linux"];
    let table = Table::new(&columns, &[], device.parts.iter().map(row)).with_minor(&["Linux", "name"]);
    Section::Table(table.titled(format!("{}\n", lines.join("\n"))))
}

/// Name or id of a device, with the size that its source states.
fn heading(device: &Device) -> String {
    let stated = device.name.as_ref().or(device.id.as_ref()).map_or("a chip", String::as_str);
    let own_size = device.size_bytes.map_or_else(String::new, |bytes| format!(", {}", size(bytes)));
    let parts = match device.parts.as_slice() {
        [] => String::new(),
        [only] if only.contradictions.is_empty() => String::new(),
        [only] => format!(": {} {}, but {}", only.maker, only.name, only.contradictions.join(", ")),
        several => format!(": {} share this", count(several.len() as u64, "part")),
    };
    format!("{stated}{own_size}{parts}")
}

fn row(part: &Candidate) -> Vec<Cell> {
    let Candidate { part: key, name, maker, kind, id, size_bytes, nand, kernel, .. } = part;
    let empty = || Cell::from("");
    let page = |nand: &NandSizes| Cell::from(format!("{} + {}", nand.page_bytes, nand.oob_bytes));
    let nand = nand.as_ref();
    let rest = [
        size_bytes.map_or_else(empty, |bytes| Cell::shown(bytes as f64, size(bytes))),
        nand.map_or_else(empty, page),
        nand.map_or_else(empty, |nand| ecc(nand).into()),
        kernel.as_deref().unwrap_or_default().into(),
    ];
    [key, name, maker, kind, id].into_iter().map(|text| Cell::from(text.as_str())).chain(rest).collect()
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
