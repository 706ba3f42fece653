//! A chip with the properties that the endurance experiment needs.

use floatgate_config::corner::Corner;
use floatgate_config::{Config, Library, Override, Part};
use floatgate_device::cells::Wear;
use floatgate_device::nand::NandFacts;
use floatgate_device::spec::ChipKind;
use floatgate_device::units::TypMaxUs;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, set};
use floatgate_sim::error::Error;

/// Chips of Desnoyers (HotStorage 2009), table 1, in its order.
pub const PAPER_CHIPS: [&str; 8] = [
    "nand128w3a2bn",
    "hy27us08121a",
    "mt29f2g08aad",
    "mt29f4g08aac",
    "nand08gw3b2c",
    "mt29f8g08maawc",
    "29f16g08canc1",
    "mt29f32g08qaa",
];

/// Evidence for the wear of a chip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// The part file has a `[chip.wear]` table.
    Measured {
        /// Lowest confidence among the sources of that table.
        confidence: f64,
    },
    /// No measurement: the wear of similar chips is assumed.
    Typical,
}

/// A chip with the properties that the endurance experiment needs.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name of the part as given by the caller.
    pub part: String,
    /// Name as printed on the chip.
    pub name: String,
    /// Manufacturer of the chip.
    pub maker: String,
    /// Description of the chip in one line.
    pub title: String,
    /// Number of bits per cell.
    pub bits_per_cell: u8,
    /// Number of pages per block.
    pub pages_per_block: u32,
    /// Cycles that the data sheet promises.
    pub nominal_cycles: u64,
    /// Page read time tR, us.
    pub read: TypMaxUs,
    /// Page program time tPROG of the data sheet, us.
    pub program: TypMaxUs,
    /// Block erase time tBERS of the data sheet, us.
    pub erase: TypMaxUs,
    /// Wear model of the chip.
    pub wear: Wear,
    /// Evidence for the wear model.
    pub evidence: Evidence,
}

impl Subject {
    /// NAND by the name or path of its part, changed by `sets`.
    ///
    /// # Errors
    /// An unknown part; a part that is not NAND or has no promised endurance; an invalid value.
    pub fn new(library: &Library, part: &str, sets: &[Override]) -> Result<Self, Error> {
        Self::in_corner(library, part, sets, Corner::Typical)
    }

    /// NAND like [`new`](Self::new), with the array times of a corner: typical or maximum.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn in_corner(
        library: &Library,
        part: &str,
        sets: &[Override],
        corner: Corner,
    ) -> Result<Self, Error> {
        let setup = library.setup_of_chip(part)?;
        let (sets, _) = corner.over(library, &setup, sets)?;
        let config = library.resolve(&setup, &sets)?;
        config.only_keys(&["chip"])?;
        let facts = facts(&config)?;
        if facts.endurance_cycles == 0 {
            return Err(Error::request(
                format!("{}: how many cycles its data sheet promises is not known", config.part().name),
                advice! { "set it: ", set("chip.endurance_cycles", "100000") },
            ));
        }
        Ok(Self::from_facts(part, config.part(), &facts))
    }

    fn from_facts(part: &str, head: &Part, facts: &NandFacts) -> Self {
        Self {
            part: part.to_owned(),
            name: head.name.clone(),
            maker: head.maker.clone(),
            title: head.title.clone(),
            bits_per_cell: facts.bits_per_cell,
            pages_per_block: facts.pages_per_block,
            nominal_cycles: facts.endurance_cycles,
            read: facts.t_r_us,
            program: facts.t_prog_us,
            erase: facts.t_bers_us,
            wear: Wear::new(facts.wear_spec(), facts.endurance_cycles),
            evidence: facts.wear.map_or(Evidence::Typical, |_| evidence(head)),
        }
    }

    /// Maker and name of the chip.
    pub fn full_name(&self) -> String {
        format!("{} {}", self.maker, self.name).trim_start().to_owned()
    }
}

/// Lowest confidence of a value of `[chip.wear]`.
fn evidence(head: &Part) -> Evidence {
    let about = head.sources.iter().filter(|s| s.of.iter().any(|of| of.starts_with("chip.wear")));
    Evidence::Measured { confidence: about.map(|s| s.confidence).fold(1.0, f64::min) }
}

fn facts(config: &Config) -> Result<NandFacts, Error> {
    let kind = config.chip_kind()?;
    if !kind.is_nand() {
        return Err(not_nand(config, kind));
    }
    config.checked_chip()?.facts().nand.ok_or_else(|| not_nand(config, kind))
}

fn not_nand(config: &Config, kind: ChipKind) -> Error {
    Error::request(
        format!("{} is {kind}: the wear of NOR flash is not modelled", config.part().name),
        advice! { "name it alone: ", Command::Endurance.with("PART"), " prints what its data sheet promises; chips of kind `raw-nand` and `spi-nand` can be tested" },
    )
}
