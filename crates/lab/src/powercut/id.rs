//! The name of one run: what has to be known to repeat it.

use std::fmt;
use std::str::FromStr;

use floatgate_mtd::power_cut::{CutKind, Stage};

/// One cut, and perhaps a second one while the filesystem recovers.
///
/// Written as `SEED.STEPS-OPERATION.KIND` or `SEED.STEPS-OPERATION.KIND-OPERATION.KIND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CutId {
    /// Seed of the workload.
    pub seed: u64,
    /// Steps of the workload: more would be other steps.
    pub steps: usize,
    /// Flash operation that is cut, counted from 1 from the first step on.
    pub operation: u64,
    /// Before it, or where in it.
    pub kind: CutKind,
    /// The cut while recovering, its operation counted from the return of power.
    pub second: Option<(u64, CutKind)>,
}

/// A text that names no run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a run, which looks like 1.200-345.middle or 1.200-345.late-7.before")]
pub struct ParseIdError(String);

const KINDS: [(CutKind, &str); 4] = [
    (CutKind::Before, "before"),
    (CutKind::During(Stage::Early), "early"),
    (CutKind::During(Stage::Middle), "middle"),
    (CutKind::During(Stage::Late), "late"),
];

/// The name of a kind.
pub(super) fn kind_name(kind: CutKind) -> &'static str {
    KINDS.into_iter().find(|(other, _)| *other == kind).map_or("", |(_, name)| name)
}

impl fmt::Display for CutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}-{}.{}", self.seed, self.steps, self.operation, kind_name(self.kind))?;
        match self.second {
            Some((operation, kind)) => write!(f, "-{operation}.{}", kind_name(kind)),
            None => Ok(()),
        }
    }
}

impl FromStr for CutId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        parse(text).ok_or_else(|| ParseIdError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<CutId> {
    let mut parts = text.split('-');
    let (seed, steps) = parts.next()?.split_once('.')?;
    let (operation, kind) = cut(parts.next()?)?;
    let second = match parts.next() {
        Some(part) => Some(cut(part)?),
        None => None,
    };
    let id = CutId { seed: seed.parse().ok()?, steps: steps.parse().ok()?, operation, kind, second };
    parts.next().is_none().then_some(id)
}

fn cut(text: &str) -> Option<(u64, CutKind)> {
    let (operation, kind) = text.split_once('.')?;
    let kind = KINDS.into_iter().find(|(_, name)| *name == kind)?.0;
    Some((operation.parse().ok()?, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for text in ["1.200-345.middle", "0.1-1.before-7.late"] {
            assert_eq!(text.parse::<CutId>().map(|id| id.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "1", "1.2-3", "1.2-3.never", "1.2-3.late-4", "1.2-3.late-4.late-5.late", "x.2-3.late"] {
            assert!(text.parse::<CutId>().is_err(), "{text}");
        }
    }
}
