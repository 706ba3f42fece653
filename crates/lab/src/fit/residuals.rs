//! Deviation of boards from their simulation beyond what their numbers explain.
//!
//! A time is predicted with a variance, which follows from the distributions of all numbers. Real boards are farther away, as each
//! simulation leaves something out. The deviation of a kind of operation is the one with which the intervals of published boards hold 80
//! of 100 boards, a board without a row among them (`Sample::needed`, `estimated`). `floatgate papers --from-two` estimates it, each board from the others
//! alone, and `data/residuals.toml` keeps the one of all boards for `floatgate fit`.

use crate::papers::Operation;
use crate::uncertainty::OF_80_PERCENT;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Figures of a board from which a time is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Given {
    /// Figures of which one at least has the same kind of operation.
    SameKind,
    /// Figures of other kinds of operation.
    OtherKinds,
    /// No figure.
    Nothing,
}

impl Given {
    /// All of them, in the order of tables.
    pub(super) const ALL: [Self; 3] = [Self::SameKind, Self::OtherKinds, Self::Nothing];

    /// The words of tables.
    pub const fn text(self) -> &'static str {
        match self {
            Self::SameKind => "one of this kind",
            Self::OtherKinds => "two of other kinds",
            Self::Nothing => "nothing",
        }
    }
}

/// Deviation of boards in a kind of operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deviation {
    /// Kind of operation.
    pub operation: Operation,
    /// Figures that are given.
    pub from: Given,
    /// Number of boards from which it was estimated.
    pub boards: usize,
    /// Standard deviation of the logarithm of the time.
    pub deviation: f64,
}

/// Deviations by kind of operation and given figures.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Residuals {
    /// Deviations, each kind once.
    #[serde(rename = "kind")]
    pub(super) kinds: Vec<Deviation>,
}

/// Share of the boards whose figures an interval should hold.
const HELD: f64 = 0.8;

/// Deviation where no board was like this.
const UNKNOWN: f64 = 0.5;

static STORED: LazyLock<Residuals> =
    LazyLock::new(|| toml::from_str(include_str!("../../data/residuals.toml")).unwrap_or_default());

impl Residuals {
    /// Deviations of all published boards.
    pub(super) fn stored() -> &'static Self {
        &STORED
    }

    /// Standard deviation of the logarithm of a time of this operation.
    pub(super) fn of(&self, operation: Operation, from: Given) -> f64 {
        self.find(operation, from).map_or(UNKNOWN, |kind| kind.deviation)
    }

    fn find(&self, operation: Operation, from: Given) -> Option<&Deviation> {
        self.kinds.iter().find(|kind| (kind.operation, kind.from) == (operation, from))
    }

    /// Deviations estimated from the rows of several boards. Where a kind has fewer than `boards` boards, the file states its deviation.
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
    /// Logarithm of the predicted time over the published one, beyond the resolution of the tool.
    pub(super) error: f64,
    /// Variance of the predicted logarithm by the numbers alone.
    pub(super) variance: f64,
}

impl Sample {
    /// Deviation with which the interval just holds the row.
    fn needed(&self) -> f64 {
        let wanted = self.error / OF_80_PERCENT;
        (wanted * wanted - self.variance).max(0.0).sqrt()
    }
}

/// Number of boards, and the deviation with which intervals hold 80 % of the rows, the boards counted once each. The board that is predicted counts as one
/// more, without a row.
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
        Sample { board, operation: Operation::Read, from: Given::SameKind, error, variance }
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
        // What the numbers explain is no deviation.
        let explained: Vec<Sample> = samples.iter().map(|s| Sample { variance: 0.01, ..*s }).collect();
        assert!(of(&explained) < 1e-9);
        assert!(of(&samples[..2]) == Residuals::stored().of(Operation::Read, Given::SameKind));
    }

    #[test]
    fn the_file_has_each_kind() {
        for operation in [Operation::Read, Operation::Program, Operation::Erase] {
            for from in Given::ALL {
                let kind = Residuals::stored().find(operation, from).unwrap();
                assert!((0.0..1.0).contains(&kind.deviation) && kind.boards > 0, "{kind:?}");
            }
        }
    }
}
