//! Advice on the use of a card or a chip, with the figures behind it.
//!
//! - [`ecc`]: the ECC that a chip needs.
//! - [`card`]: partition, filesystem, mkfs and mount options, speed and life of a card or block device.
//! - [`mkfs`]: options of mkfs and mount for an allocation unit.
//! - [`existing`]: existing filesystems on a device, and their sizes that do not fit its flash.
//! - [`flash`]: mode, filesystem, ECC and scrub period of a chip on a board.

pub mod card;
pub mod ecc;
pub mod existing;
mod figures;
pub mod flash;
pub mod mkfs;
mod stand_in;

use crate::envelope::Reported;
use crate::show::report::{self, Report, Section};
use floatgate_mtd::advice;
use floatgate_mtd::size::text as size;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A sentence in which commands and options have types.
type Words = advice::Advice;

/// Advice on one topic. Commands and options in its text are typed until an interface formats them with
/// [`Advice::rendered`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point<W = Words> {
    /// Topic of the advice, such as `partition start` or `filesystem`.
    pub topic: Cow<'static, str>,
    /// The advice, in one sentence.
    pub advice: String,
    /// Shell commands and kernel parameters that follow the advice.
    pub commands: Vec<W>,
    /// Figures behind the advice, one phrase each.
    pub rests_on: Vec<String>,
    /// Findings that would change the advice, one sentence each.
    pub would_change: Vec<W>,
}

impl Point {
    fn new(topic: &'static str, advice: impl Into<String>) -> Self {
        Self { topic: topic.into(), advice: advice.into(), ..Self::default() }
    }

    #[must_use]
    fn command(mut self, command: impl Into<Words>) -> Self {
        self.commands.push(command.into());
        self
    }

    #[must_use]
    fn rests_on(mut self, number: impl Into<String>) -> Self {
        self.rests_on.push(number.into());
        self
    }

    #[must_use]
    fn unless(mut self, finding: impl Into<Words>) -> Self {
        self.would_change.push(finding.into());
        self
    }

    fn rendered(self, say: impl Fn(&Words) -> String) -> Point<String> {
        let all = |words: &[Words]| words.iter().map(&say).collect();
        let (commands, would_change) = (all(&self.commands), all(&self.would_change));
        Point { topic: self.topic, advice: self.advice, commands, rests_on: self.rests_on, would_change }
    }
}

/// All advice on a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice<W = Words> {
    /// Name of the card, device or setup; in JSON it is in the envelope.
    #[serde(skip)]
    pub target: String,
    /// Name of the setup whose board a part runs on; in JSON it is in the envelope.
    #[serde(skip)]
    pub board: Option<String>,
    /// Description in one line.
    pub title: String,
    /// Size in bytes.
    pub capacity_bytes: u64,
    /// Advice by topic.
    pub points: Vec<Point<W>>,
}

impl Reported for Advice<String> {
    const ROWS: &'static str = "points";

    fn report(&self) -> Report {
        // A result that was read does not know its target.
        let (title, line) = match self.target.as_str() {
            "" => (self.title.clone(), size(self.capacity_bytes)),
            target => (format!("{target}: {}", size(self.capacity_bytes)), self.title.clone()),
        };
        let point = |point: &Point<String>| report::Point {
            topic: point.topic.to_string(),
            advice: point.advice.clone(),
            commands: point.commands.clone(),
            reasons: point.rests_on.clone(),
            conditions: point.would_change.clone(),
        };
        Report {
            title,
            head: vec![line],
            sections: vec![Section::Points(self.points.iter().map(point).collect())],
            ..Report::default()
        }
    }
}

impl Advice {
    /// Formats the advice for an interface, with the interface's own names of commands and options.
    pub fn rendered(self, say: impl Fn(&Words) -> String) -> Advice<String> {
        let Self { target, board, title, capacity_bytes, points } = self;
        let points = points.into_iter().map(|point| point.rendered(&say)).collect();
        Advice { target, board, title, capacity_bytes, points }
    }
}
