//! SD cards and eMMC of the catalogue, and what is measured on them.
//!
//! - [`load`] reads a card's file with overrides into a [`CardSpec`].
//! - [`amplification`]: write amplification beside its published analysis.
//! - [`compare`]: cards, filesystems and workloads, by the traces that are [`shipped`].
//! - [`info`]: registers and timeouts; [`powercut`]: losses of power at any operation and moment.
//! - [`speed`] measures it as flashbench and fio would.
//! - [`replay`]: the requests of a trace on a card.
//! - [`run`]: filesystems of Linux and workloads on a card.
//! - [`serve`]: a card with content, as from the factory, on which a host works, and the account of its requests ([`account`]).
//! - [`state`]: empty, used and full cards.
//! - [`trace`]: requests to a block device, as several programs record them.

pub mod account;
pub mod amplification;
pub mod compare;
mod factory;
pub mod info;
pub mod powercut;
pub mod replay;
pub mod run;
pub mod serve;
pub mod shipped;
pub mod speed;
pub mod state;
pub mod trace;

pub use floatgate_card::CardOptions;

use crate::config::{ConfigError, Library, Override, Part};
use floatgate_card::CardSpec;
use floatgate_probe::Promise;
use floatgate_probe::registers::Status;
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

/// Classes that a simulated card has in its registers.
pub fn stated_classes(spec: &CardSpec) -> Vec<Promise> {
    let classes = spec.classes;
    let stated = |number: u8| Some(u64::from(number)).filter(|number| *number > 0);
    Promise::of_status(&Status {
        speed_class: stated(classes.speed),
        uhs_grade: stated(classes.uhs),
        video_class: stated(classes.video),
        app_class: stated(classes.app),
        ..Status::default()
    })
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
