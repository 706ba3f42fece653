//! Specification of a chip of any family: the `[chip]` table of a part file.

use crate::nand::NandFacts;
use crate::parallel_nor::ParallelNorSpec;
use crate::raw_nand::RawNandSpec;
use crate::spi_nand::SpiNandSpec;
use crate::spi_nor::SpiNorSpec;
use serde::de::{Deserialize, DeserializeSeed, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// Family of a chip. As a [`DeserializeSeed`] it reads the specification of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipKind {
    /// NAND with a serial command set (SPI NAND).
    SpiNand,
    /// Serial NOR (SPI NOR).
    SpiNor,
    /// NAND on a parallel bus (raw NAND).
    RawNand,
    /// NOR with an address bus (parallel NOR).
    ParallelNor,
}

impl ChipKind {
    /// All families.
    pub const ALL: [Self; 4] = [Self::SpiNand, Self::SpiNor, Self::RawNand, Self::ParallelNor];

    /// Name of the family in part files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SpiNand => "spi-nand",
            Self::SpiNor => "spi-nor",
            Self::RawNand => "raw-nand",
            Self::ParallelNor => "parallel-nor",
        }
    }

    /// The family with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// True for NAND, whose cells wear and lose charge and whose blocks may be bad.
    pub const fn is_nand(self) -> bool {
        matches!(self, Self::SpiNand | Self::RawNand)
    }

    /// True for chips on a SPI bus.
    pub const fn is_spi(self) -> bool {
        matches!(self, Self::SpiNand | Self::SpiNor)
    }
}

impl fmt::Display for ChipKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'de> DeserializeSeed<'de> for ChipKind {
    type Value = ChipSpec;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ChipSpec, D::Error> {
        Ok(match self {
            Self::SpiNand => ChipSpec::SpiNand(Box::deserialize(deserializer)?),
            Self::SpiNor => ChipSpec::SpiNor(Box::deserialize(deserializer)?),
            Self::RawNand => ChipSpec::RawNand(Box::deserialize(deserializer)?),
            Self::ParallelNor => ChipSpec::ParallelNor(Box::deserialize(deserializer)?),
        })
    }
}

/// Specification of a chip, by family.
#[derive(Clone, Debug, PartialEq)]
pub enum ChipSpec {
    /// NAND with a serial command set (SPI NAND).
    SpiNand(Box<SpiNandSpec>),
    /// Serial NOR (SPI NOR).
    SpiNor(Box<SpiNorSpec>),
    /// NAND on a parallel bus (raw NAND).
    RawNand(Box<RawNandSpec>),
    /// NOR with an address bus (parallel NOR).
    ParallelNor(Box<ParallelNorSpec>),
}

/// Properties of a chip that do not depend on its family.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipFacts {
    /// Size of the chip without OOB, bytes.
    pub size_bytes: u64,
    /// Pages, OOB, blocks, cells and ECC of a NAND; `None` for NOR.
    pub nand: Option<NandFacts>,
}

impl ChipFacts {
    fn of_nand(nand: NandFacts) -> Self {
        let block_bytes = u64::from(nand.page_bytes) * u64::from(nand.pages_per_block);
        Self { size_bytes: block_bytes.saturating_mul(nand.blocks), nand: Some(nand) }
    }

    /// Maximum number of bad blocks per LUN when the chip leaves the factory; 0 for NOR.
    pub fn max_bad_blocks_per_lun(&self) -> u32 {
        self.nand.as_ref().map_or(0, |nand| nand.max_bad_blocks_per_lun)
    }
}

impl ChipSpec {
    /// Family of the chip.
    pub const fn kind(&self) -> ChipKind {
        match self {
            Self::SpiNand(_) => ChipKind::SpiNand,
            Self::SpiNor(_) => ChipKind::SpiNor,
            Self::RawNand(_) => ChipKind::RawNand,
            Self::ParallelNor(_) => ChipKind::ParallelNor,
        }
    }

    /// Properties that do not depend on the family, computed even for an impossible specification.
    pub fn facts(&self) -> ChipFacts {
        match self {
            Self::SpiNand(spec) => ChipFacts::of_nand(spec.facts()),
            Self::RawNand(spec) => ChipFacts::of_nand(spec.facts()),
            Self::SpiNor(spec) => ChipFacts { size_bytes: spec.geometry.size_bytes, nand: None },
            Self::ParallelNor(spec) => ChipFacts { size_bytes: spec.geometry.size_bytes, nand: None },
        }
    }

    /// Endurance in the data sheet, erase cycles per block.
    pub fn promised_cycles(&self) -> Option<u64> {
        let cycles = match self {
            Self::SpiNand(spec) => spec.endurance_cycles.into(),
            Self::RawNand(spec) => spec.endurance_cycles,
            Self::SpiNor(spec) => spec.endurance_cycles,
            Self::ParallelNor(spec) => spec.endurance_cycles.unwrap_or(0).into(),
        };
        Some(cycles).filter(|cycles| *cycles > 0)
    }

    /// Data retention in the data sheet, years.
    pub fn promised_retention_years(&self) -> Option<u32> {
        let years = match self {
            Self::SpiNand(spec) => spec.retention_years,
            Self::RawNand(spec) => spec.retention_years,
            Self::SpiNor(spec) => spec.retention_years,
            Self::ParallelNor(spec) => spec.retention_years.unwrap_or(0),
        };
        Some(years).filter(|years| *years > 0)
    }

    /// Checks rules that the types do not enforce.
    ///
    /// # Errors
    /// The first impossible value.
    pub fn check(&self) -> Result<(), BadSpec> {
        match self {
            Self::SpiNand(spec) => spec.check(),
            Self::SpiNor(spec) => spec.check(),
            Self::RawNand(spec) => spec.check(),
            Self::ParallelNor(spec) => spec.check(),
        }
    }
}

/// Error: a specification that no chip can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", self.path())]
pub struct BadSpec {
    /// Key below `chip`; empty if several values contradict each other.
    pub key: &'static str,
    /// Reason why the specification is impossible.
    pub problem: Cow<'static, str>,
}

impl BadSpec {
    /// The error for an impossible value.
    pub(crate) fn new(key: &'static str, problem: impl Into<Cow<'static, str>>) -> Self {
        Self { key, problem: problem.into() }
    }

    /// Dotted path of the value in a setup.
    pub fn path(&self) -> String {
        if self.key.is_empty() { "chip".to_owned() } else { format!("chip.{}", self.key) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_reads_its_own_parts() {
        let nand = toml::Value::Table(
            toml::from_str(include_str!("../../config/data/parts/mx30lf2g18ac.toml")).unwrap(),
        );
        let spec = ChipKind::RawNand.deserialize(nand["chip"].clone()).unwrap();
        let facts = spec.facts();
        assert_eq!((spec.kind(), spec.check(), facts.size_bytes), (ChipKind::RawNand, Ok(()), 256 << 20));
        assert_eq!(facts.nand.unwrap().page_bytes, 2048);
        assert!(ChipKind::SpiNand.deserialize(nand["chip"].clone()).is_err());
        let nor = toml::Value::Table(
            toml::from_str(include_str!("../../config/data/parts/w25q128jv.toml")).unwrap(),
        );
        let spec = ChipKind::SpiNor.deserialize(nor["chip"].clone()).unwrap();
        assert_eq!((spec.facts().size_bytes, spec.facts().max_bad_blocks_per_lun()), (16 << 20, 0));
    }

    #[test]
    fn kinds_have_names() {
        assert!(ChipKind::ALL.iter().all(|kind| ChipKind::named(kind.name()) == Some(*kind)));
        assert_eq!(ChipKind::named("emmc"), None);
    }
}
