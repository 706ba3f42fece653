//! Endurance and retention that the data sheet of a NOR promises. Measured lives of NOR blocks are not
//! published, so they are not simulated.

use floatgate_config::{Library, Override};
use floatgate_device::spec::ChipSpec;
use floatgate_device::spi_nor::SpiNorSpec;
use floatgate_device::spi_nor::spec::EraseType;
use floatgate_sim::error::Error;
use serde::{Deserialize, Serialize};

/// Endurance, retention and erase times that the data sheet of a NOR promises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// Name of the part as given by the caller.
    pub part: String,
    /// Maker and name of the chip.
    pub chip: String,
    /// Description of the chip in one line.
    pub title: String,
    /// Promised erase cycles of a block; `None` if the data sheet states none.
    pub promised_cycles: Option<u64>,
    /// Promised years of retention; `None` if the data sheet states none.
    pub promised_retention_years: Option<u32>,
    /// Erase times within the promised cycles, by erase size.
    pub erases: Vec<EraseTime>,
}

/// Time of an erase command.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EraseTime {
    /// Number of bytes that the command erases.
    pub bytes: u32,
    /// Typical time, us.
    pub typical_us: f64,
    /// Maximum time, us.
    pub max_us: f64,
}

impl Promise {
    /// Promises of a NOR by the name or path of its part, changed by `sets`; `None` for a NAND.
    ///
    /// # Errors
    /// An unknown part; an invalid value.
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

/// Times of the erase commands, in ascending order of size.
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
