//! The JSON of a probe.

use super::facts::{AUS, Evidence, Partition, SPEEDS};
use crate::Error;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, CommandOption};
use serde::Deserialize;
use std::ops::RangeInclusive;

/// The parts of a probe's JSON on which advice depends; the JSON is untrusted input.
#[derive(Deserialize)]
pub(super) struct Probed {
    pub(super) capacity_bytes: Option<u64>,
    pub(super) answers: Answers,
    #[serde(default)]
    registers: Registers,
    #[serde(default)]
    pub(super) partition: Layout,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Registers {
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    au_bytes: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Layout {
    pub(super) partitions: Vec<Partition>,
    pub(super) findings: Vec<String>,
}

impl Probed {
    /// The allocation unit that the card states in its SD status.
    pub(super) fn au_of_registers(&self, target: &str) -> Result<Option<Evidence>, Error> {
        let Some(value) = self.registers.status.as_ref().and_then(|status| status.au_bytes) else {
            return Ok(None);
        };
        check_range(target, "registers.status.au_bytes", value, &AUS)?;
        let reason = "stated in the card's SD status, not measured".to_owned();
        Ok(Some(Evidence { value, confidence: 0.6, alternatives: Vec::new(), reason }))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Answers {
    pub(super) erase_block: Answer<u64>,
    pub(super) phase: Answer<u64>,
    pub(super) page: Answer<u64>,
    pub(super) open_aus_linear: Answer<u64>,
    pub(super) read_speed: Answer<f64>,
    pub(super) write_speed: Answer<f64>,
    pub(super) capacity: Answer<u64>,
    pub(super) fake: Answer<String>,
    pub(super) life_used: Answer<u64>,
    pub(super) spare_blocks: Answer<String>,
}

impl Answers {
    /// Reason not to trust a card whose contents a probe found to change.
    pub(super) fn untrue(&self) -> Option<String> {
        let kind = self.fake.value.as_deref()?;
        ["unstable", "corrupt"].contains(&kind).then(|| self.fake.reason.clone())
    }

    /// Reason not to trust a card that states that its life or its spare blocks are about to be used up.
    pub(super) fn worn_out(&self) -> Option<String> {
        let of_blocks = self.spare_blocks.value.as_deref().filter(|state| *state == "urgent");
        let of_life = self.life_used.value.filter(|percent| *percent == 100);
        of_blocks.map(|_| &self.spare_blocks.reason).or(of_life.map(|_| &self.life_used.reason)).cloned()
    }
}

/// An answer, without value where the probe did not find one.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer<T> {
    value: Option<T>,
    confidence: f64,
    alternatives: Vec<Alternative>,
    reason: String,
}

#[derive(Deserialize)]
struct Alternative {
    value: u64,
    confidence: f64,
}

impl Answer<u64> {
    /// A number in a range, with its evidence.
    pub(super) fn count(
        &self,
        target: &str,
        name: &str,
        allowed: &RangeInclusive<u64>,
    ) -> Result<Option<Evidence>, Error> {
        let Some(value) = self.value else { return Ok(None) };
        check_range(target, &format!("answers.{name}.value"), value, allowed)?;
        for confidence in self.alternatives.iter().map(|other| other.confidence).chain([self.confidence]) {
            if !(0.0..=1.0).contains(&confidence) {
                let field = format!("answers.{name}.confidence");
                return Err(unfit(target, &field, confidence, "a number from 0 to 1"));
            }
        }
        let alternatives = self.alternatives.iter().map(|other| (other.value, other.confidence)).collect();
        Ok(Some(Evidence { value, confidence: self.confidence, alternatives, reason: self.reason.clone() }))
    }
}

impl Answer<f64> {
    /// A speed above 0, MB/s.
    pub(super) fn speed(&self, target: &str, name: &str) -> Result<Option<f64>, Error> {
        match self.value {
            Some(mb_s) if !(mb_s == 0.0 || SPEEDS.contains(&mb_s)) => {
                let allowed = format!("a speed in MB/s from {} to {}", SPEEDS.start(), SPEEDS.end());
                Err(unfit(target, &format!("answers.{name}.value"), mb_s, &allowed))
            }
            mb_s => Ok(mb_s.filter(|mb_s| *mb_s > 0.0)),
        }
    }
}

/// Refuses a number of a saved result that is out of its range.
fn check_range(target: &str, field: &str, value: u64, allowed: &RangeInclusive<u64>) -> Result<(), Error> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let (least, most) = (allowed.start(), allowed.end());
    Err(unfit(target, field, value, &format!("a whole number from {least} to {most}, or null")))
}

fn unfit(target: &str, field: &str, value: impl std::fmt::Display, allowed: &str) -> Error {
    Error::request(
        format!("{target}: {field} is {value}, which no probe answers"),
        advice! { format!("it has to be {allowed}; give what "), Command::Probe.with("TARGET").with(CommandOption::Json), " has written, unchanged" },
    )
}
