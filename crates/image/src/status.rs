//! Exit status of the commands that read images, with one rule for each report. docs/checks.md has the table.

use crate::diff::DiffReport;
use crate::extract::target::Extracted;
use crate::repair::{RepairReport, Repaired};
use crate::report::{CheckReport, Outcome};

/// Exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// 0: done without losses.
    Good,
    /// 1: done, with a report of losses, differences, damage that a mount repairs, or open questions.
    Reported,
    /// 2: damaged, or not done.
    Bad,
}

impl Status {
    /// Number of the status.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Reported => 1,
            Self::Bad => 2,
        }
    }
}

impl CheckReport {
    /// Exit status of `image check`.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self.outcome {
            Outcome::Clean if self.may_be_lost.is_empty() => Status::Good,
            Outcome::Clean | Outcome::Recoverable => Status::Reported,
            Outcome::Damaged => Status::Bad,
        }
    }
}

impl Extracted {
    /// Exit status of `image extract`.
    #[must_use]
    pub const fn status(&self) -> Status {
        if self.losses.is_empty() { Status::Good } else { Status::Reported }
    }
}

impl RepairReport {
    /// Exit status of `image check --repair`.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self.outcome {
            Repaired::Intact | Repaired::Wholly if self.before.may_be_lost.is_empty() => Status::Good,
            _ => Status::Reported,
        }
    }
}

impl DiffReport {
    /// Exit status of `image diff`.
    #[must_use]
    pub fn status(&self) -> Status {
        match (self.trouble.is_empty(), self.is_same()) {
            (false, _) => Status::Bad,
            (true, false) => Status::Reported,
            (true, true) => Status::Good,
        }
    }
}
