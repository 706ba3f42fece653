//! Advice with the numbers that it rests on: what to do with a card or a chip.
//!
//! - [`ecc`]: which ECC a chip needs.
//! - [`card`]: partition, filesystem, mkfs and mount options, speed and life of a card or block device, known from the catalogue or from a probe.
//! - [`mkfs`]: the options with which filesystems are made for an allocation unit.
//! - [`existing`]: filesystems that a device holds already, and what of them does not fit its flash.
//! - [`flash`]: mode, filesystem, ECC and scrub period of a chip on a board.

pub mod card;
pub mod ecc;
pub mod existing;
pub mod flash;
pub mod mkfs;
mod stand_in;

use floatgate_mtd::size::text as size;
use serde::Serialize;

/// Advice on one question.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    /// The question: `partition start`, `filesystem`.
    pub topic: &'static str,
    /// The advice in a sentence.
    pub advice: String,
    /// Shell commands and kernel parameters that do it.
    pub commands: Vec<String>,
    /// Numbers that it rests on, a phrase each.
    pub rests_on: Vec<String>,
    /// Findings that would change it, a sentence each.
    pub would_change: Vec<String>,
}

impl Point {
    fn new(topic: &'static str, advice: impl Into<String>) -> Self {
        Self { topic, advice: advice.into(), ..Self::default() }
    }

    #[must_use]
    fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    #[must_use]
    fn rests_on(mut self, number: impl Into<String>) -> Self {
        self.rests_on.push(number.into());
        self
    }

    #[must_use]
    fn unless(mut self, finding: impl Into<String>) -> Self {
        self.would_change.push(finding.into());
        self
    }
}

/// All advice on a target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The card, device or setup; the envelope has it in JSON.
    #[serde(skip)]
    pub target: String,
    /// Description in one line.
    pub title: String,
    /// Size in bytes.
    pub capacity_bytes: u64,
    /// Advice by question.
    pub points: Vec<Point>,
}
