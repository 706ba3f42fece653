//! Raw NAND: converts a line of the kernel's table of full ids to a part file. Values that the line does not
//! contain are taken from a similar part.

use super::times::Known;
use super::{FROM_FAMILY, FROM_KERNEL, KernelChip, KernelTable, bits, hex_list, source};
use serde::Deserialize;
use std::fmt::Write;
use toml::Value;

/// A line of `nand_flash_dev` with a full id.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    name: String,
    #[serde(rename = "title")]
    _title: String,
    #[serde(rename = "maker")]
    _maker: String,
    id: Vec<u8>,
    page: u32,
    size_mib: u32,
    block: u32,
    oob: u32,
    #[serde(default, rename = "flags")]
    _flags: Vec<String>,
    ecc: Option<[u32; 2]>,
}

/// Names of similar parts, with one and with two bits per cell.
const RELATIVES: [&str; 2] = ["tc58nvg1s3h", "tc58teg5dclta00"];

/// Dotted paths of the typical times of reads, programs and erases.
const TYPICAL: &[&str] =
    &["chip.timing.t_r_us.typ", "chip.timing.t_prog_us.typ", "chip.timing.t_bers_us.typ"];

/// Maker by the first byte of the id.
fn maker(byte: Option<&u8>) -> &'static str {
    match byte {
        Some(0x45) => "SanDisk",
        Some(0x98) => "Kioxia",
        Some(0xAD) => "SK hynix",
        _ => "",
    }
}

/// Name of the maker of a line.
pub(super) fn maker_of(chip: &KernelChip) -> &'static str {
    maker(chip.facts::<Facts>().ok().as_ref().and_then(|facts| facts.id.first()))
}

impl Facts {
    /// True for a chip with two bits per cell: bits 3:2 of the third id byte encode the number of levels of a cell.
    fn has_two_bits(&self) -> bool {
        self.id.get(2).is_some_and(|byte| byte >> 2 & 3 == 1)
    }

    fn relative(&self) -> &'static str {
        RELATIVES[usize::from(self.has_two_bits())]
    }
}

/// Name of the part that is similar to the chip of a line.
pub(super) fn relative_of(chip: &KernelChip) -> Option<&'static str> {
    chip.facts::<Facts>().ok().map(|facts| facts.relative())
}

/// Text of the generated part file: the `[chip]` table of the similar part, with the values of the line.
pub(super) fn part(
    chip: &KernelChip,
    table: &KernelTable,
    relative: toml::Table,
    known: &Known,
) -> Option<String> {
    let facts: Facts = chip.facts().ok()?;
    let mut chip = relative;
    let number = |n: u32| Value::Integer(n.into());
    let blocks = (u64::from(facts.size_mib) << 20) / u64::from(facts.block.max(1));
    let blocks = u32::try_from(blocks).ok()?;
    chip.insert("id".to_owned(), Value::Array(facts.id.iter().map(|byte| number((*byte).into())).collect()));
    let mut set = |table: &str, values: &[(&str, u32)]| {
        let own = chip.entry(table).or_insert_with(|| Value::Table(toml::Table::new()));
        if let Value::Table(own) = own {
            own.extend(values.iter().map(|(key, n)| ((*key).to_owned(), number(*n))));
        }
    };
    let geometry = [
        ("page_bytes", facts.page),
        ("oob_bytes", facts.oob),
        ("pages_per_block", facts.block / facts.page.max(1)),
        ("blocks_per_lun", blocks),
        // Makers of that time allow 2 % bad blocks.
        ("max_bad_blocks_per_lun", blocks / 50),
    ];
    set("geometry", &geometry);
    if let Some([strength, step_bytes]) = facts.ecc {
        set("ecc", &[("strength", strength), ("step_bytes", step_bytes)]);
    }
    known.set(&mut chip);
    let cells = if facts.has_two_bits() { "MLC" } else { "SLC" };
    let mut text = format!(
        "kind = \"raw-nand\"\nname = \"{}\"\nmaker = \"{}\"\ntitle = \"{} {cells} NAND\"\n{}\n",
        facts.name,
        maker(facts.id.first()),
        bits(u64::from(facts.size_mib) << 20),
        known.times(TYPICAL)
    );
    let _ = writeln!(
        text,
        "{}",
        toml::to_string(&toml::Table::from_iter([("chip".to_owned(), Value::Table(chip))])).ok()?
    );
    // Ids are written in hexadecimal in every part.
    let id: Vec<String> = facts.id.iter().map(u8::to_string).collect();
    text = text.replacen(&format!("id = [{}]", id.join(", ")), &format!("id = {}", hex_list(&facts.id)), 1);
    let kernel =
        format!("Linux {}, drivers/mtd/nand/raw/nand_ids.c, read by scripts/import-kernel", table.version());
    let from_kernel = [
        "chip.id",
        "chip.geometry.page_bytes",
        "chip.geometry.oob_bytes",
        "chip.geometry.pages_per_block",
        "chip.geometry.blocks_per_lun",
        "chip.ecc",
    ];
    source(&mut text, &from_kernel, &kernel, FROM_KERNEL, &[]);
    source(
        &mut text,
        &["chip"],
        &format!("times of the family, not of this part: as {}", facts.relative()),
        FROM_FAMILY,
        &[],
    );
    known.sources(&mut text);
    Some(text)
}
