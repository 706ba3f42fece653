//! Flash operations by which figures are counted.

use crate::speed::Test;
use serde::{Deserialize, Serialize};

/// Flash operation that a row measures; rows are counted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Reads of the flash.
    Read,
    /// Programs of the flash.
    Program,
    /// Erases of the flash.
    Erase,
    /// Attaches of UBI.
    Attach,
    /// Other measures: filesystems, endurance, cards.
    Other,
}

impl Operation {
    /// All operations, in printing order.
    pub const ALL: [Self; 5] = [Self::Read, Self::Program, Self::Erase, Self::Attach, Self::Other];

    /// Name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Program => "program",
            Self::Erase => "erase",
            Self::Attach => "attach",
            Self::Other => "other",
        }
    }

    /// Operation of a test of `flash_speed`.
    pub(crate) const fn of_test(test: Test) -> Self {
        match test {
            Test::Read(_) => Self::Read,
            Test::Write(_) => Self::Program,
            Test::Erase(_) => Self::Erase,
        }
    }

    pub(crate) fn of(measure: &str) -> Self {
        match Test::from_name(measure) {
            Some(test) => Self::of_test(test),
            None if measure.ends_with(": attach") => Self::Attach,
            None => Self::Other,
        }
    }
}
