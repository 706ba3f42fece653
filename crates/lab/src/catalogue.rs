//! The built-in setups, chips and cards as rows of tables.

use crate::speed_run;
use floatgate_config::{ConfigError, Kind, Library, Part, Times};
use serde::Serialize;

/// A setup of the catalogue.
#[derive(Clone, Debug, Serialize)]
pub struct SetupRow {
    /// Name of the setup in the catalogue.
    pub name: String,
    /// Title of the setup: board and chip.
    pub title: String,
    /// Name of the chip.
    pub chip: String,
    /// Family of the chip.
    pub kind: String,
}

/// All setups of a library, by name.
///
/// # Errors
/// A setup that cannot be read.
pub fn setups(library: &Library) -> Result<Vec<SetupRow>, ConfigError> {
    let row = |name: &str| {
        let config = library.resolve(&library.setup(name)?, &[])?;
        let Part { name: chip, kind, .. } = config.part().clone();
        Ok(SetupRow { name: name.to_owned(), title: speed_run::title(&config), chip, kind })
    };
    library.names(Kind::Setup).map(row).collect()
}

/// A chip or a card of the catalogue.
#[derive(Clone, Debug, Serialize)]
pub struct PartRow {
    /// Name of the part in the catalogue.
    pub part: String,
    /// Name that the manufacturer gives the part.
    pub name: String,
    /// Maker of the part.
    pub maker: String,
    /// Family of the chip, `sd-card` or `emmc`.
    pub kind: String,
    /// Description in a few words.
    pub title: String,
    /// Confidence of the least certain value of the part, 0 to 1.
    pub lowest_confidence: f64,
    /// Chip from which the times were taken.
    pub times: Times,
}

impl PartRow {
    /// Row of a part with this head.
    pub fn new(part: &str, head: Part) -> Self {
        let lowest_confidence = head.sources.iter().map(|source| source.confidence).fold(1.0, f64::min);
        let Part { kind, name, maker, title, times, .. } = head;
        Self { part: part.to_owned(), name, maker, kind, title, lowest_confidence, times }
    }
}

/// All chips of a library by name, followed by all cards by name.
///
/// # Errors
/// A part that cannot be read.
pub fn parts(library: &Library) -> Result<Vec<PartRow>, ConfigError> {
    let names = |kind| library.names(kind).map(move |name| (kind, name));
    let row = |(kind, name)| Ok(PartRow::new(name, library.load(kind, name)?.head.extract("")?));
    names(Kind::Part).chain(names(Kind::Card)).map(row).collect()
}
