//! SD cards and eMMC, loaded from the catalogue or a user's file.

use floatgate_card::{BusMode, CardSpec};
use floatgate_config::{ConfigError, Library, Override, Part, Provenance};
use std::path::Path;

/// A card from the catalogue or a user's file.
#[derive(Clone, Debug)]
pub struct LoadedCard {
    /// Head of the card's file: name, maker, sources.
    pub part: Part,
    /// Checked specification of the card.
    pub spec: CardSpec,
    /// Name of the host file; `None` if the host is not from a file.
    pub host: Option<String>,
}

impl LoadedCard {
    /// Maker and name of the card.
    pub fn name(&self) -> String {
        format!("{} {}", self.part.maker, self.part.name).trim().to_owned()
    }

    /// True for a genuine card with normal endurance that preserves its data in a power loss.
    pub fn is_sound(&self) -> bool {
        let spec = &self.spec;
        let keeps_data = spec.evil.is_none() && spec.loss == floatgate_card::LossSpec::default();
        spec.fake.is_none() && keeps_data && spec.wear.endurance_cycles >= ENDURANCE_CYCLES_MIN
    }
}

/// Source of a value that an override states, which counts as certain.
fn source_of_override(set: &Override) -> Provenance {
    Provenance {
        of: vec![set.path()],
        from: "set for this result".to_owned(),
        confidence: 1.0,
        fitted_to: Vec::new(),
        note: String::new(),
    }
}

/// Hint that lists the overrides. It is given if no override sets the wrong key itself: then one of
/// them contradicts that key.
fn others(key: &str, sets: &[Override]) -> String {
    let others: Vec<String> = sets.iter().map(ToString::to_string).collect();
    if others.is_empty() || others.iter().any(|set| set.split('=').next() == Some(key)) {
        return String::new();
    }
    format!("; it does not go together with {}", others.join(", "))
}

/// Message for a bus interface that this kind of card does not have.
const fn wrong_bus(is_emmc: bool) -> &'static str {
    match is_emmc {
        true => "an eMMC has `hs200`; the other modes are those of SD cards",
        false => "`hs200` is a mode of eMMC, and this is an SD card",
    }
}

/// Endurance in cycles below which a card is treated as worn out.
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
/// The errors of [`load`].
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
    let mut part = config.part().clone();
    part.sources.extend(sets.iter().map(source_of_override));
    Ok(LoadedCard { part, spec, host })
}
