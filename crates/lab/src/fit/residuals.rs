//! Deviation of boards from their simulation beyond the uncertainty of their numbers.
//!
//! A predicted time has a variance, which follows from the distributions of all numbers. Real boards deviate more,
//! because every simulation omits something. The deviation of a kind of operation is chosen so that the intervals hold
//! for 80 of 100 published boards, including one board without a row (`Sample::needed`, `estimated`). `floatgate papers
//! --from-two` estimates it for each board from the other boards. `data/residuals.toml` contains the deviation of all
//! boards for `floatgate fit`.

use crate::papers::Operation;
use crate::uncertainty::OF_80_PERCENT;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Kind of the figures from which a time is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Given {
    /// At least one figure has the same kind of operation, and was measured under the same settings.
    SameKind,
    /// Figures of the same kind of operation exist, but all of them were measured under other settings.
    OtherSettings,
    /// All figures have other kinds of operation.
    OtherKinds,
    /// No figure.
    Nothing,
}

impl Given {
    /// All kinds, in the order of tables.
    pub(super) const ALL: [Self; 4] = [Self::SameKind, Self::OtherSettings, Self::OtherKinds, Self::Nothing];

    /// Name in tables.
    pub const fn text(self) -> &'static str {
        match self {
            Self::SameKind => "one of this kind",
            Self::OtherSettings => "this kind, other settings",
            Self::OtherKinds => "two of other kinds",
            Self::Nothing => "nothing",
        }
    }
}

/// Deviation of boards for a kind of operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deviation {
    /// Kind of operation.
    pub operation: Operation,
    /// Kind of the given figures.
    pub from: Given,
    /// Number of boards from which the deviation was estimated.
    pub boards: usize,
    /// Standard deviation of the logarithm of the time.
    pub deviation: f64,
}

/// Deviations by kind of operation and kind of given figures.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Residuals {
    /// Deviations, one for each combination.
    #[serde(rename = "kind")]
    pub(super) kinds: Vec<Deviation>,
}

/// Share of boards whose figures an interval should contain.
const HELD: f64 = 0.8;

/// Deviation if no board of this kind was measured.
const UNKNOWN: f64 = 0.5;

static STORED: LazyLock<Residuals> =
    LazyLock::new(|| toml::from_str(include_str!("../../data/residuals.toml")).unwrap_or_default());

impl Residuals {
    /// Deviations of all published boards.
    pub(super) fn stored() -> &'static Self {
        &STORED
    }

    /// Standard deviation of the logarithm of the time of this operation. If no board has rows under other settings, the deviation for
    /// figures of other kinds is used.
    pub(super) fn of(&self, operation: Operation, from: Given) -> f64 {
        let other = || self.find(operation, Given::OtherKinds).filter(|_| from == Given::OtherSettings);
        self.find(operation, from).or_else(other).map_or(UNKNOWN, |kind| kind.deviation)
    }

    fn find(&self, operation: Operation, from: Given) -> Option<&Deviation> {
        self.kinds.iter().find(|kind| (kind.operation, kind.from) == (operation, from))
    }

    /// Deviations estimated from the rows of several boards. If a kind has fewer than `boards` boards, the deviation of
    /// the file is used.
    pub(super) fn estimated(samples: &[Sample], boards: usize) -> Self {
        let mut kinds: BTreeMap<(Operation, Given), Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            kinds.entry((sample.operation, sample.from)).or_default().push(sample);
        }
        let mut all: Vec<Deviation> = kinds
            .into_iter()
            .map(|((operation, from), samples)| {
                let (boards, deviation) = deviation(&samples);
                Deviation { operation, from, boards, deviation }
            })
            .filter(|kind| kind.boards >= boards)
            .collect();
        let stored = Self::stored().kinds.iter();
        let missing = stored
            .filter(|kind| all.iter().all(|own| (own.operation, own.from) != (kind.operation, kind.from)));
        let missing: Vec<Deviation> = missing.cloned().collect();
        all.extend(missing);
        Self { kinds: all }
    }
}

/// A predicted row of a published board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Index of the board.
    pub(super) board: usize,
    pub(super) operation: Operation,
    pub(super) from: Given,
    /// Logarithm of the ratio of predicted to published time, beyond the resolution of the tool.
    pub(super) error: f64,
    /// Variance of the predicted logarithm due to the numbers alone.
    pub(super) variance: f64,
    /// Factor by which the board's deviations are larger than usual (`posterior`).
    pub(super) tension: f64,
}

impl Sample {
    /// Smallest deviation with which the interval contains the row, for a board with a tension of 1.
    fn needed(&self) -> f64 {
        let wanted = self.error / OF_80_PERCENT;
        (wanted * wanted - self.variance).max(0.0).sqrt() / self.tension
    }
}

/// Number of boards, and the deviation with which intervals contain 80 % of the rows; each board counts once. The
/// predicted board counts as one more board without a row.
fn deviation(samples: &[&Sample]) -> (usize, f64) {
    let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
    for sample in samples {
        *rows.entry(sample.board).or_default() += 1;
    }
    let boards = rows.len();
    let weight = |sample: &Sample| 1.0 / rows.get(&sample.board).copied().unwrap_or(1) as f64;
    let mut needed: Vec<(f64, f64)> = samples.iter().map(|s| (s.needed(), weight(s))).collect();
    needed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = HELD * (boards + 1) as f64;
    let mut held = 0.0;
    let found = needed.iter().find(|(_, weight)| {
        held += weight;
        held >= wanted - 1e-9
    });
    (boards, found.or(needed.last()).map_or(0.0, |(needed, _)| *needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(board: usize, error: f64, variance: f64) -> Sample {
        Sample { board, operation: Operation::Read, from: Given::SameKind, error, variance, tension: 1.0 }
    }

    #[test]
    fn deviations_are_those_with_which_eight_of_ten_boards_are_held() {
        let mut samples: Vec<Sample> =
            (1..=9).map(|board| sample(board, 0.01 * board as f64 * OF_80_PERCENT, 0.0)).collect();
        let of = |samples: &[Sample]| Residuals::estimated(samples, 4).of(Operation::Read, Given::SameKind);
        assert!((of(&samples) - 0.08).abs() < 1e-9, "{}", of(&samples));
        // A board counts once, however many rows it has.
        samples.extend((0..100).map(|_| sample(1, 0.01 * OF_80_PERCENT, 0.0)));
        assert!((of(&samples) - 0.08).abs() < 1e-9, "{}", of(&samples));
        // A difference that the variance of the numbers explains adds no deviation.
        let explained: Vec<Sample> = samples.iter().map(|s| Sample { variance: 0.01, ..*s }).collect();
        assert!(of(&explained) < 1e-9);
        assert!(of(&samples[..2]) == Residuals::stored().of(Operation::Read, Given::SameKind));
    }

    #[test]
    fn the_file_has_each_kind() {
        for operation in [Operation::Read, Operation::Program, Operation::Erase] {
            for from in Given::ALL {
                // No board has erases under two settings.
                if (operation, from) == (Operation::Erase, Given::OtherSettings) {
                    continue;
                }
                let kind = Residuals::stored().find(operation, from).unwrap();
                assert!((0.0..1.0).contains(&kind.deviation) && kind.boards > 0, "{kind:?}");
            }
        }
    }
}
