//! Promises of the data sheet of a NOR. Lives of its blocks are not published, so there is nothing to simulate.

use floatgate_config::{Library, Override};
use floatgate_device::spec::ChipSpec;
use floatgate_device::spi_nor::SpiNorSpec;
use floatgate_device::spi_nor::spec::EraseType;
use floatgate_sim::error::Error;
use serde::{Deserialize, Serialize};

/// Promises of a NOR.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// The part, as it was named.
    pub part: String,
    /// Maker and name.
    pub chip: String,
    /// Description in one line.
    pub title: String,
    /// Erase cycles of a block; none where nothing is promised.
    pub promised_cycles: Option<u64>,
    /// Years of retention; none where nothing is promised.
    pub promised_retention_years: Option<u32>,
    /// Times to erase, up to these cycles, by size of what is erased.
    pub erases: Vec<EraseTime>,
}

/// Time of an erase command.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EraseTime {
    /// Bytes that it erases.
    pub bytes: u32,
    /// Typical time in us.
    pub typical_us: f64,
    /// Longest time in us.
    pub max_us: f64,
}

impl Promise {
    /// The promises of the NOR of a part's name or path, changed by `sets`; none of a NAND.
    ///
    /// # Errors
    /// An unknown part; a value that makes no sense.
    pub fn of_nor(library: &Library, part: &str, sets: &[Override]) -> Result<Option<Self>, Error> {
        let setup = library.setup_of_chip(part)?;
        let config = library.resolve(&setup, sets)?;
        config.only_keys(&["chip"])?;
        let chip = config.checked_chip()?;
        if chip.kind().is_nand() {
            return Ok(None);
        }
        let head = config.part();
        Ok(Some(Self {
            part: part.to_owned(),
            chip: format!("{} {}", head.maker, head.name).trim_start().to_owned(),
            title: head.title.clone(),
            promised_cycles: chip.promised_cycles(),
            promised_retention_years: chip.promised_retention_years(),
            erases: match &chip {
                ChipSpec::SpiNor(spec) => erases(spec),
                _ => Vec::new(),
            },
        }))
    }
}

/// Times of the erase commands, the smallest first.
fn erases(spec: &SpiNorSpec) -> Vec<EraseTime> {
    let time = |of: &EraseType| EraseTime {
        bytes: of.bytes,
        typical_us: of.t_us.typ.as_us_f64(),
        max_us: of.t_us.max.as_us_f64(),
    };
    let mut all: Vec<EraseTime> = spec.erase.values().map(time).collect();
    all.sort_by_key(|erase| erase.bytes);
    all
}
