//! Share of a sweep, for one of several machines.

use std::ops::Range;
use std::str::FromStr;

/// One of several shares of consecutive designs, written as `2/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the share, from 1.
    number: usize,
    /// Number of shares.
    of: usize,
}

/// Maximum number of shares of a sweep.
const MOST: usize = 1_000_000;

impl Shard {
    /// Numbers of the designs in this share.
    pub fn designs(self, of_sweep: usize) -> Range<usize> {
        let before = |shares: usize| (of_sweep as u128 * shares as u128 / self.of as u128) as usize;
        before(self.number - 1)..before(self.number)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) && of <= MOST => Ok(Self { number, of }),
            _ => Err(format!("a share is I/N with I from 1 to N and N up to {MOST}, as in 2/8")),
        }
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}
