//! Overrides for several targets: each target gets those whose keys it has.

use crate::Error;
use crate::card::{is_card, load};
use floatgate_config::{ConfigError, Library, Override, Problem};
use floatgate_sim::rig::{self, RigError, RigOptions};
use std::path::Path;

/// Errors of one target's overrides, by their numbers in the list.
#[derive(Default)]
struct Checked {
    /// The target has no such key.
    unknown: Vec<(usize, ConfigError)>,
    /// The target has the key, and refuses the value.
    refused: Vec<(usize, ConfigError)>,
    /// False for a target that is wrong itself, so that its overrides could not be checked.
    is_judged: bool,
}

/// The overrides of each target, in the order of the targets. A value that only some targets refuse stays: these cannot be measured with it.
///
/// # Errors
/// An override whose key no target has, or whose value every target with the key refuses.
pub fn of_each(
    library: &Library,
    targets: &[impl AsRef<Path>],
    sets: &[Override],
) -> Result<Vec<Vec<Override>>, Error> {
    let checked: Vec<Checked> =
        targets.iter().map(|target| Checked::of(library, target.as_ref(), sets)).collect();
    let judged: Vec<&Checked> = checked.iter().filter(|one| one.is_judged).collect();
    for number in 0..sets.len() {
        let of = |errors: &[(usize, ConfigError)]| {
            errors.iter().find(|(at, _)| *at == number).map(|(_, error)| error.clone())
        };
        let unknown: Vec<ConfigError> = judged.iter().filter_map(|one| of(&one.unknown)).collect();
        let refused: Vec<ConfigError> = judged.iter().filter_map(|one| of(&one.refused)).collect();
        let is_wrong = unknown.len() + refused.len() == judged.len();
        // The key that is unknown deepest is the one that was meant.
        let depth = |error: &ConfigError| error.place().map_or(0, |place| place.span.start);
        let deepest = unknown.into_iter().max_by_key(depth);
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

impl Checked {
    fn of(library: &Library, target: &Path, sets: &[Override]) -> Self {
        let mut checked = Self { is_judged: error_of(library, target, &[]).is_none(), ..Self::default() };
        let mut left: Vec<(usize, &Override)> = sets.iter().enumerate().collect();
        while !left.is_empty() {
            let all: Vec<Override> = left.iter().map(|(_, set)| (*set).clone()).collect();
            let Some(error) = error_of(library, target, &all) else { break };
            // What else is wrong is a value of the target, or one that does not go with them.
            let Some(at) =
                error.place().and_then(|place| left.iter().position(|(_, set)| set.has_place(place)))
            else {
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
        Err(error) | Ok(Err(RigError::Config(error))) => Some(error),
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
        // One that contradicts another value of the card's file is known all the same.
        assert_eq!(own(&["card.open_aus=2", "bus.clock_hz=5e6"]).unwrap(), [1, 1, 1]);
        // A chip that one board refuses can be meant for the other one.
        assert_eq!(own(&["chip=w25q128jv"]).unwrap(), [1, 0, 1]);
        for wrong in ["bus.clok_hz=1", "card.zzz=1", "bus.clock_hz=soon", "filesystem.zzz=1"] {
            assert!(own(&[wrong]).is_err(), "{wrong}");
        }
    }
}
