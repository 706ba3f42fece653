//! Chips in Linux's tables, one per line, written by `scripts/import-kernel`, and parts that are generated from them
//! on demand.
//!
//! A line is found by its text, and only that line is parsed, so that programs that use other parts are not slowed
//! down. The kernel's tables contain no times. The times of a part are those of its [`family`], or those that a
//! source states ([`times`]). A part of the catalogue has priority over the kernel's chip with the same name or id.

mod family;
mod raw_nand;
mod spi_nand;
mod spi_nor;
mod times;

pub(super) use family::Families;

use floatgate_device::spec::ChipKind;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use times::Known;

/// A table of the kernel.
struct KernelTable {
    kind: ChipKind,
    text: &'static str,
}

const TABLES: &[KernelTable] = &[
    KernelTable { kind: ChipKind::SpiNand, text: include_str!("../../data/kernel/spi-nand.toml") },
    KernelTable { kind: ChipKind::SpiNor, text: include_str!("../../data/kernel/spi-nor.toml") },
    KernelTable { kind: ChipKind::RawNand, text: include_str!("../../data/kernel/raw-nand.toml") },
];

/// Confidence in values from the kernel's tables.
const FROM_KERNEL: f64 = 0.95;
/// Confidence in values from other chips of the family.
const FROM_FAMILY: f64 = 0.3;

/// A property of a chip that Linux uses or works around, and that the generated part does not model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// The driver reads the number of corrected bits from a special register.
    EccStatus,
    /// The OOB layout is not a repeated section; the part has the free bytes of the first sections.
    OobLayout,
    /// Reads from cache have a dummy byte before the column; the part counts it among the dummy bytes after the
    /// column.
    ThreeByteColumn,
    /// A feature register selects the die.
    DieRegister,
    /// The driver cannot read pages without ECC.
    NoRawAccess,
    /// Only program loads contain the plane bit.
    ProgramPlaneBit,
    /// The scheme of continuous reads differs from Winbond's and Macronix's.
    Continuous,
    /// The chip can randomize data, but enables this in another way than Macronix's chips.
    Randomizer,
    /// Commands and erase sizes are in the chip's SFDP tables, which are not part of the kernel's sources.
    Sfdp,
    /// The chip programs byte by byte or word by word (AAI).
    WordProgram,
    /// All blocks are locked after power-up.
    VolatileLocks,
    /// A bank can be read during a program or erase of another bank.
    ReadWhileWrite,
}

impl Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EccStatus => "the number of corrected bits is not read",
            Self::OobLayout => "the OOB layout is simplified",
            Self::ThreeByteColumn => "the dummy byte before the column address counts as one after it",
            Self::DieRegister => "dies are selected by command C2h, not by a register",
            Self::NoRawAccess => "pages can be read without ECC",
            Self::ProgramPlaneBit => "reads carry the plane bit, not only program loads",
            Self::Continuous => "continuous reads are not simulated",
            Self::Randomizer => "the randomizer is not simulated",
            Self::Sfdp => "commands and erase sizes are those of the family",
            Self::WordProgram => "a program writes a whole page, not a byte or word",
            Self::VolatileLocks => "blocks are not locked after power-up",
            Self::ReadWhileWrite => "a bank cannot be read while another one works",
        })
    }
}

/// A chip in the kernel's tables.
#[derive(Clone, Copy, Debug)]
pub struct KernelChip {
    /// Kind of the chip.
    pub kind: ChipKind,
    /// Name in the kernel's table.
    pub key: &'static str,
    line: &'static str,
}

impl KernelTable {
    /// Version of the kernel.
    fn version(&self) -> &'static str {
        let line = self.text.lines().find_map(|line| line.strip_prefix("kernel = \""));
        line.and_then(|rest| rest.strip_suffix('"')).unwrap_or_default()
    }

    fn chips(&self) -> impl Iterator<Item = KernelChip> {
        let lines = self.text.split_once("\n[chips]\n").map_or("", |(_, lines)| lines).lines();
        let kind = self.kind;
        lines.filter_map(move |line| Some(KernelChip { kind, key: line.split_once(" = ")?.0, line }))
    }

    /// Operations in a list of the table, by the name of the list.
    fn operations(&self, name: &str) -> Result<Vec<Operation>, toml::de::Error> {
        let head = format!("\n\"{name}\" = ");
        let rows = self.text.split_once(&head).and_then(|(_, rest)| rest.split_once("\n]"));
        let text = format!("rows = {}]", rows.map_or("[", |(rows, _)| rows));
        toml::from_str::<Rows>(&text).map(|found| found.rows)
    }
}

#[derive(Deserialize)]
struct Rows {
    rows: Vec<Operation>,
}

/// A read operation: mode, opcode, address bytes, dummy cycles, maximum clock.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Operation(String, u8, u8, u8, u64);

impl KernelChip {
    /// Version of the kernel whose tables contain the chip.
    pub fn kernel(&self) -> &'static str {
        self.table().map_or("", KernelTable::version)
    }

    fn table(&self) -> Option<&'static KernelTable> {
        TABLES.iter().find(|table| table.kind == self.kind)
    }

    fn facts<T: DeserializeOwned>(&self) -> Result<T, toml::de::Error> {
        let mut one: BTreeMap<String, T> = toml::from_str(self.line)?;
        one.remove(self.key).ok_or_else(|| serde::de::Error::custom("a line without its chip"))
    }

    /// Id of the chip in part notation: `[0xEF, 0xAA, 0x21]`.
    pub fn id(&self) -> &'static str {
        self.line
            .split_once("id = ")
            .and_then(|(_, rest)| rest.find(']').map(|end| &rest[..=end]))
            .unwrap_or_default()
    }

    /// Name of the maker.
    pub fn maker(&self) -> &'static str {
        if self.kind == ChipKind::RawNand {
            return raw_nand::maker_of(self);
        }
        let name = self.line.split_once("maker = \"").and_then(|(_, rest)| rest.split('"').next());
        spi_nor::maker_name(name.unwrap_or_default())
    }

    /// Properties of the chip that the generated part does not model.
    pub fn gaps(&self) -> Vec<Gap> {
        match (self.kind, self.table()) {
            (ChipKind::SpiNand, Some(table)) => {
                self.facts().map_or_else(|_| Vec::new(), |facts: spi_nand::Facts| facts.gaps(table))
            }
            (ChipKind::SpiNor, _) => {
                self.facts().map_or_else(|_| Vec::new(), |facts: spi_nor::Facts| facts.gaps())
            }
            _ => Vec::new(),
        }
    }

    /// Reason why no part can be generated from the chip; `None` if it can.
    pub fn refusal(&self) -> Option<&'static str> {
        match self.kind {
            ChipKind::SpiNor => self.facts().ok().and_then(|facts: spi_nor::Facts| facts.refusal()),
            _ => None,
        }
    }

    /// Part of the catalogue from which a raw NAND takes what its line does not contain; `None` for kinds with families.
    pub(super) fn relative(&self) -> Option<&'static str> {
        if self.kind == ChipKind::RawNand { raw_nand::relative_of(self) } else { None }
    }

    /// Text of the part file of a raw NAND, from its [`relative`](Self::relative).
    pub(super) fn part_like(&self, relative: toml::Table) -> Option<String> {
        raw_nand::part(self, self.table()?, relative, &Known::of(self.key))
    }

    /// Text of the part file of a chip whose kind has families.
    pub(super) fn part(&self, families: &Families) -> Option<String> {
        let (table, known) = (self.table()?, Known::of(self.key));
        match self.kind {
            ChipKind::SpiNand => spi_nand::part(self, table, &families.spi_nand, &known),
            ChipKind::SpiNor => spi_nor::part(self, table, &families.spi_nor, &known),
            ChipKind::RawNand | ChipKind::ParallelNor => None,
        }
    }
}

/// All chips of the kernel's tables, by kind and name.
pub fn kernel_chips() -> impl Iterator<Item = KernelChip> {
    TABLES.iter().flat_map(KernelTable::chips)
}

/// The chip with this name or hexadecimal id: `efaa21`, `ef-aa-21`.
pub(super) fn find(name: &str) -> Option<KernelChip> {
    kernel_chips()
        .find(|chip| chip.key == name)
        .or_else(|| id_text(name).and_then(|id| kernel_chips().find(|chip| chip.id() == id)))
}

/// Converts an id in hexadecimal to part notation: `ef-aa-21`, `0xefaa21`, `EFh AAh 21h`.
pub(super) fn id_text(name: &str) -> Option<String> {
    let plain = name.to_lowercase().replace("0x", "");
    let digits: String = plain.chars().filter(|c| !matches!(c, '-' | ':' | ',' | ' ' | 'h')).collect();
    let is_id = (4..=16).contains(&digits.len()) && digits.len().is_multiple_of(2);
    if !is_id || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let bytes: Vec<String> = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| format!("0x{}", String::from_utf8_lossy(pair).to_uppercase()))
        .collect();
    Some(format!("[{}]", bytes.join(", ")))
}

/// Appends a `[[source]]` to a part file; its note lists the properties that the part does not model.
fn source(text: &mut String, of: &[&str], from: &str, confidence: f64, gaps: &[Gap]) {
    let note: Vec<String> = gaps.iter().map(Gap::to_string).collect();
    append_source(text, of, from, confidence, &note.join("; "));
}

/// Appends a `[[source]]` to a part file.
fn append_source(text: &mut String, of: &[&str], from: &str, confidence: f64, note: &str) {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let of: Vec<String> = of.iter().map(|path| quoted(path)).collect();
    let _ = write!(
        text,
        "\n[[source]]\nof = [{}]\nfrom = {}\nconfidence = {confidence}\n",
        of.join(", "),
        quoted(from)
    );
    if !note.is_empty() {
        let _ = writeln!(text, "note = {}", quoted(note));
    }
}

/// Bytes as a TOML list in hexadecimal.
fn hex_list(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02X}")).collect();
    format!("[{}]", bytes.join(", "))
}

/// A size in bits as text: `2 Gbit`.
fn bits(bytes: u64) -> String {
    let kbit = bytes / 128;
    match kbit {
        0..1024 => format!("{kbit} kbit"),
        1024..1_048_576 => format!("{} Mbit", kbit >> 10),
        _ => format!("{} Gbit", kbit >> 20),
    }
}
