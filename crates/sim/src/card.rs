//! SD cards and eMMC from the catalogue or a user's file.

use floatgate_card::{BusMode, CardSpec};
use floatgate_config::{ConfigError, Library, Override, Part};
use std::path::Path;

/// A card from the catalogue or a user's file.
#[derive(Clone, Debug)]
pub struct LoadedCard {
    /// Head of the card's file: name, maker, sources.
    pub part: Part,
    /// Specification of the card, checked.
    pub spec: CardSpec,
    /// Name of the host, if it is from the catalogue or a user's file.
    pub host: Option<String>,
}

impl LoadedCard {
    /// Maker and name.
    pub fn name(&self) -> String {
        format!("{} {}", self.part.maker, self.part.name).trim().to_owned()
    }

    /// True for a genuine card with normal endurance that keeps its data when power goes away.
    pub fn is_sound(&self) -> bool {
        let spec = &self.spec;
        let keeps_data = spec.evil.is_none() && spec.loss == floatgate_card::LossSpec::default();
        spec.fake.is_none() && keeps_data && spec.wear.endurance_cycles >= ENDURANCE_CYCLES_MIN
    }
}

/// Hint that lists the overrides, if none of them sets the wrong key: the key contradicts one of them.
fn others(key: &str, sets: &[Override]) -> String {
    let others: Vec<String> = sets.iter().map(ToString::to_string).collect();
    if others.is_empty() || others.iter().any(|set| set.split('=').next() == Some(key)) {
        return String::new();
    }
    format!("; it does not go together with {}", others.join(", "))
}

/// Message for an interface that the kind of the card does not have.
const fn wrong_bus(is_emmc: bool) -> &'static str {
    match is_emmc {
        true => "an eMMC has `hs200`; the other modes are those of SD cards",
        false => "`hs200` is a mode of eMMC, and this is an SD card",
    }
}

/// Endurance below which a card counts as dying, cycles.
const ENDURANCE_CYCLES_MIN: u32 = 100;

/// Reads a card by name or path and applies overrides (`card.open_aus=4`).
///
/// # Errors
/// Unknown names, unreadable files, invalid values, an impossible card.
pub fn load(library: &Library, name: impl AsRef<Path>, sets: &[Override]) -> Result<LoadedCard, ConfigError> {
    load_on_host(library, name, None, sets)
}

/// Reads a card with a host by name or path.
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
    let spec = config.extract::<CardSpec>("card")?.partitioned();
    let is_emmc = config.part().kind == "emmc";
    if is_emmc != (spec.bus == BusMode::Hs200) {
        return Err(config
            .wrong("card.bus", wrong_bus(is_emmc))
            .help("a slower host is `card.host.bus`, and the card goes down to its mode by itself"));
    }
    spec.check().map_err(|bad| {
        let key = format!("card.{}", bad.key);
        config.wrong(&key, format!("{}{}", bad.problem, others(&key, sets)))
    })?;
    let host = host.map(|host| host.display().to_string());
    Ok(LoadedCard { part: config.part().clone(), spec, host })
}
