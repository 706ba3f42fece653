//! A power cut: the flash operation, its progress, and the text form in ids of runs.

use floatgate_device::power::PowerCut;
use floatgate_mtd::random::Random;
use floatgate_mtd::{CutKind, Stage};
use std::fmt;
use std::str::FromStr;

/// A power cut in a flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CutAt {
    /// Number of the flash operation, counted from 1.
    pub operation: u64,
    /// Progress of the operation: not started, or the stage at which it is cut.
    pub kind: CutKind,
    /// Number of the torn state, among the states that the cut can leave.
    pub tear: u32,
}

/// Error for a text that is not a power cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no power cut")]
pub struct ParseCutError(String);

const KINDS: [(CutKind, &str); 4] = [
    (CutKind::Before, "before"),
    (CutKind::During(Stage::Early), "early"),
    (CutKind::During(Stage::Middle), "middle"),
    (CutKind::During(Stage::Late), "late"),
];

/// Name of a kind of cut in ids.
pub fn kind_name(kind: CutKind) -> &'static str {
    KINDS.into_iter().find(|(other, _)| *other == kind).map_or("", |(_, name)| name)
}

impl fmt::Display for CutAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.operation, kind_name(self.kind))?;
        if self.tear == 0 { Ok(()) } else { write!(f, ".{}", self.tear) }
    }
}

impl FromStr for CutAt {
    type Err = ParseCutError;

    fn from_str(text: &str) -> Result<Self, ParseCutError> {
        parse(text).ok_or_else(|| ParseCutError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<CutAt> {
    let mut parts = text.split('.');
    let (operation, kind) = (parts.next()?.parse().ok()?, parts.next()?);
    let kind = KINDS.into_iter().find(|(_, name)| *name == kind)?.0;
    let tear = parts.next().map_or(Some(0), |tear| tear.parse().ok())?;
    Some(CutAt { operation, kind, tear })
}

/// Share of an operation that is done when power is cut; early, middle and late are a third each.
pub fn share(kind: CutKind, seed: u64) -> f64 {
    let third = match kind {
        CutKind::Before => return 0.0,
        CutKind::During(Stage::Early) => 0.0,
        CutKind::During(Stage::Middle) => 1.0,
        CutKind::During(Stage::Late) => 2.0,
    };
    // 53 random bits as a fraction between 0 and 1.
    let random = (Random::new(seed).bits() >> 11) as f64 / (1u64 << 53) as f64;
    (third + random) / 3.0
}

impl CutAt {
    /// The cut in the form in which a chip executes it.
    pub(super) fn order(self) -> PowerCut {
        PowerCut::During { operation: self.operation, share: share(self.kind, u64::from(self.tear)) }
    }

    /// A random cut among the first `operations`, of one of these kinds.
    pub(super) fn random(random: &mut Random, operations: u64, kinds: &[CutKind]) -> Option<Self> {
        let kind = *kinds.get(random.index(kinds.len()))?;
        let operation = (operations > 0).then(|| 1 + random.below(operations))?;
        Some(Self { operation, kind, tear: random.bits() as u32 >> 16 })
    }
}
