//! SD cards and eMMC of the catalogue, or of one's own.

use floatgate_card::CardSpec;
use floatgate_config::{ConfigError, Library, Override, Part};
use std::path::Path;

/// A card of the catalogue, or of one's own.
#[derive(Clone, Debug)]
pub struct LoadedCard {
    /// Head of the card's file: name, maker, sources.
    pub part: Part,
    /// The card itself, checked.
    pub spec: CardSpec,
    /// Name of the host, if it is one of the catalogue's or of one's own.
    pub host: Option<String>,
}

impl LoadedCard {
    /// Maker and name.
    pub fn name(&self) -> String {
        format!("{} {}", self.part.maker, self.part.name).trim().to_owned()
    }

    /// True for a card that is what it claims to be, and lives.
    pub fn is_sound(&self) -> bool {
        let spec = &self.spec;
        spec.fake.is_none() && spec.evil.is_none() && spec.wear.endurance_cycles >= ENDURANCE_CYCLES_MIN
    }
}

/// The overrides, where none is of the key that is wrong: it does not go together with one of them.
fn others(key: &str, sets: &[Override]) -> String {
    let others: Vec<String> = sets.iter().map(ToString::to_string).collect();
    if others.is_empty() || others.iter().any(|set| set.split('=').next() == Some(key)) {
        return String::new();
    }
    format!("; it does not go together with {}", others.join(", "))
}

/// Cycles below which a card is dying.
const ENDURANCE_CYCLES_MIN: u32 = 100;

/// Reads a card by name or path and lays overrides (`card.open_aus=4`) over it.
///
/// # Errors
/// Unknown names, unreadable files, values that their keys refuse, a card that is impossible.
pub fn load(library: &Library, name: impl AsRef<Path>, sets: &[Override]) -> Result<LoadedCard, ConfigError> {
    load_on_host(library, name, None, sets)
}

/// Reads a card at a host by name or path.
///
/// # Errors
/// As [`load`].
pub fn load_on_host(
    library: &Library,
    name: impl AsRef<Path>,
    host: Option<&Path>,
    sets: &[Override],
) -> Result<LoadedCard, ConfigError> {
    let config = library.card_on_host(name, host, sets)?;
    let spec: CardSpec = config.extract("card")?;
    spec.check().map_err(|bad| {
        let key = format!("card.{}", bad.key);
        config.wrong(&key, format!("{}{}", bad.problem, others(&key, sets)))
    })?;
    let host = host.map(|host| host.display().to_string());
    Ok(LoadedCard { part: config.part().clone(), spec, host })
}
