//! Assigns overrides to several targets: each target gets the overrides whose keys it has.

use crate::Error;
use crate::card::{is_card, load};
use floatgate_config::{ConfigError, Library, Override, Problem};
use floatgate_sim::rig::{self, RigOptions};
use std::path::Path;

/// Errors of one target's overrides, with their indices in the list.
#[derive(Default)]
struct Checked {
    /// Overrides whose key the target does not have.
    unknown: Vec<(usize, ConfigError)>,
    /// Overrides whose value the target refuses.
    refused: Vec<(usize, ConfigError)>,
    /// False if the target itself is wrong, so that its overrides could not be checked.
    is_judged: bool,
    /// Error in a file of the user.
    wrong_file: Option<ConfigError>,
}

/// Overrides of each target, in the order of the targets. A value that only some targets refuse is kept: these targets
/// cannot be measured with it.
///
/// # Errors
/// An error in a target's file; an override whose key no target has, or whose value every target with the key refuses.
pub fn of_each(
    library: &Library,
    targets: &[impl AsRef<Path>],
    sets: &[Override],
) -> Result<Vec<Vec<Override>>, Error> {
    let checked: Vec<Checked> =
        targets.iter().map(|target| Checked::of(library, target.as_ref(), sets)).collect();
    if let Some(error) = checked.iter().find_map(|one| one.wrong_file.clone()) {
        return Err(error.into());
    }
    let named = targets.iter().map(|target| target.as_ref().display().to_string()).zip(&checked);
    let judged: Vec<(String, &Checked)> = named.filter(|(_, one)| one.is_judged).collect();
    for number in 0..sets.len() {
        let of = |errors: &[(usize, ConfigError)]| {
            errors.iter().find(|(at, _)| *at == number).map(|(_, error)| error.clone())
        };
        let unknown: Vec<(&str, ConfigError)> =
            judged.iter().filter_map(|(name, one)| Some((name.as_str(), of(&one.unknown)?))).collect();
        let refused: Vec<ConfigError> = judged.iter().filter_map(|(_, one)| of(&one.refused)).collect();
        let is_wrong = unknown.len() + refused.len() == judged.len();
        let deepest = of_all_targets(unknown);
        if let Some(error) = refused.into_iter().next().or(deepest).filter(|_| is_wrong) {
            return Err(error.into());
        }
    }
    let own = |checked: Checked| {
        let has = |number: usize| !checked.unknown.iter().any(|(at, _)| *at == number);
        sets.iter().enumerate().filter(|(number, _)| has(*number)).map(|(_, set)| set.clone()).collect()
    };
    Ok(checked.into_iter().map(own).collect())
}

/// Error of the key that is unknown at the deepest level, which is probably the intended one. It lists the keys of each
/// target at that level.
fn of_all_targets(unknown: Vec<(&str, ConfigError)>) -> Option<ConfigError> {
    let depth = |error: &ConfigError| error.place().map_or(0, |place| place.span.start);
    let deepest = unknown.iter().map(|(_, error)| depth(error)).max()?;
    let all: Vec<(&str, ConfigError)> =
        unknown.into_iter().filter(|(_, error)| depth(error) == deepest).collect();
    // Targets of the same kind have the same keys.
    let mut keys: Vec<(Vec<&str>, String)> = Vec::new();
    for (name, error) in all.iter().map(|(name, error)| (*name, error)) {
        let help = error.advice().map(|advice| advice.to_string()).unwrap_or_default();
        match keys.iter_mut().find(|(_, known)| *known == help) {
            Some((names, _)) => names.push(name),
            None => keys.push((vec![name], help)),
        }
    }
    let error = all.into_iter().next()?.1;
    if keys.len() < 2 {
        return Some(error);
    }
    let lists: Vec<String> =
        keys.iter().map(|(names, help)| format!("{}: {help}", names.join(", "))).collect();
    Some(error.help(lists.join("; ")))
}

impl Checked {
    fn of(library: &Library, target: &Path, sets: &[Override]) -> Self {
        let mut checked = Self { is_judged: error_of(library, target, &[]).is_none(), ..Self::default() };
        let mut left: Vec<(usize, &Override)> = sets.iter().enumerate().collect();
        while !left.is_empty() || !checked.is_judged {
            let all: Vec<Override> = left.iter().map(|(_, set)| (*set).clone()).collect();
            let Some(error) = error_of(library, target, &all) else { break };
            // Any other error is in the target itself, or in a combination with the target's values.
            let Some(at) =
                error.place().and_then(|place| left.iter().position(|(_, set)| set.has_place(place)))
            else {
                checked.wrong_file = error.is_in_users_file().then_some(error);
                break;
            };
            let (number, _) = left.remove(at);
            match error.problem() {
                Problem::UnknownKey => checked.unknown.push((number, error)),
                _ => checked.refused.push((number, error)),
            }
        }
        checked
    }
}

/// Error of a target with these overrides.
fn error_of(library: &Library, target: &Path, sets: &[Override]) -> Option<ConfigError> {
    if is_card(library, target) {
        return load(library, target, sets).err();
    }
    let setup = library.setup(target).ok()?;
    let options = RigOptions { stores: false, marks_on_demand: true, ..RigOptions::default() };
    match library.resolve(&setup, sets).map(|config| rig::wire(library, &config, options)) {
        Err(error) | Ok(Err(Error::Config(error))) => Some(error),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(targets: &[&str], sets: &[&str]) -> Result<Vec<usize>, String> {
        let sets = Override::parse_all(sets).unwrap();
        let each = of_each(&Library::built_in(), targets, &sets).map_err(|error| error.to_string())?;
        Ok(each.iter().map(Vec::len).collect())
    }

    #[test]
    fn each_target_gets_the_overrides_that_it_has() {
        let targets = ["stm32-n25q128a", "samsung-evo-16g", "imx6-mx30lf2g18ac"];
        let own = |sets: &[&str]| counts(&targets, sets);
        assert_eq!(own(&["bus.clock_hz=5e6", "card.capacity_bytes=8GiB"]).unwrap(), [1, 1, 1]);
        assert_eq!(own(&["bus.lanes=1", "filesystem.sync=true"]).unwrap(), [2, 0, 1]);
        // A value that contradicts another value of the card's file has a known key, too.
        assert_eq!(own(&["card.open_aus=2", "bus.clock_hz=5e6"]).unwrap(), [1, 1, 1]);
        // A chip that one board refuses can be intended for the other board.
        assert_eq!(own(&["chip=w25q128jv"]).unwrap(), [1, 0, 1]);
        let both = Override::parse_all(&["nonsense.key=1"]).unwrap();
        let error = of_each(&Library::built_in(), &targets, &both).unwrap_err();
        let help = error.help().map(|help| help.to_string()).unwrap_or_default();
        assert!(
            help.starts_with("stm32-n25q128a")
                && help.contains("samsung-evo-16g: valid keys: `card`, `part`"),
            "{help}"
        );
        // A mode of SD cards is valid only for the SD card.
        assert_eq!(counts(&["emmc-16g", "a1-32g"], &["card.bus=sdr50"]).unwrap(), [1, 1]);
        assert!(counts(&["emmc-16g"], &["card.bus=sdr50"]).unwrap_err().contains("an eMMC has `hs200`"));
        for wrong in ["bus.clok_hz=1", "card.zzz=1", "bus.clock_hz=soon", "filesystem.zzz=1"] {
            assert!(own(&[wrong]).is_err(), "{wrong}");
        }
    }
}
