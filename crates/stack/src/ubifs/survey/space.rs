//! Check of LEB properties and free space.

use super::Problems;
use super::problem::{Problem, Severity};
use crate::ubifs::check::Inconsistency;
use crate::ubifs::core::Core;
use crate::ubifs::error::Result;
use crate::ubifs::structure::Structure;
use crate::volume::Volume;

const WASTED: &str = "space is lost, or data are overwritten when it is used; Linux may refuse to write";

/// Checks space; `whole` if the tree is complete, otherwise only the LPT is checked.
///
/// # Errors
/// Volume failures.
pub(super) fn check(core: &mut Core<dyn Volume>, whole: bool, problems: &mut Problems) -> Result<()> {
    let mut found = Vec::new();
    let outcome = if whole { core.check().map(|all| found = all) } else { core.check_properties(&mut found) };
    match outcome {
        Err(error) if !error.is_damage() => return Err(error),
        Err(error) => {
            problems.add(Problem::from_error(Severity::Damaged, Structure::Index, &error, WASTED));
        }
        Ok(()) => {}
    }
    let buds: Vec<u32> = core.log.buds().keys().copied().collect();
    for inconsistency in found {
        problems.add(problem(&inconsistency, &buds));
    }
    Ok(())
}

fn problem(inconsistency: &Inconsistency, buds: &[u32]) -> Problem {
    let what = inconsistency.to_string();
    let space = |what: String| Problem::new(Severity::Damaged, Structure::Space, what, WASTED);
    match inconsistency {
        Inconsistency::Properties(error) => Problem::from_error(
            Severity::Damaged,
            Structure::Lpt,
            error,
            "Linux does not mount the filesystem",
        ),
        Inconsistency::Space { lnum, used, free, dirty } => {
            let sum = format!("{used} bytes are used, {free} free, {dirty} dirty, which is not its size");
            space(sum).at(*lnum, 0)
        }
        Inconsistency::Leb { lnum, what } if buds.contains(lnum) => {
            let consequence = "what a power cut leaves: the next mount for writing cleans it";
            Problem::new(Severity::Recoverable, Structure::Journal, *what, consequence).at(*lnum, 0)
        }
        Inconsistency::Leb { lnum, what } => space((*what).to_owned()).at(*lnum, 0),
        Inconsistency::Overlap { lnum, offset } => {
            space("a node begins inside another one".to_owned()).at(*lnum, *offset)
        }
        Inconsistency::Node { key, error } => {
            Problem::from_error(Severity::Damaged, Structure::Index, error, WASTED).inode(key.inum())
        }
        Inconsistency::Sum { .. } => space(what),
    }
}
