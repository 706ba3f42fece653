//! Id of a run, which contains everything needed to repeat it.

use super::cut::CutAt;
use std::fmt;
use std::str::FromStr;

/// Steps of a workload, and the power cuts. The first cut is in the last step; further cuts are counted from the moment when
/// power is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Numbers of the steps in their order; power is cut in the last one.
    pub steps: Vec<u32>,
    /// Power cuts in order.
    pub cuts: Vec<CutAt>,
}

impl History {
    /// The steps as text, in ranges: `0-3,7`.
    pub fn steps_text(&self) -> String {
        ranges(&self.steps)
    }
}

/// A run of a program: the flash, its seed, and the history.
///
/// It is written as `lib:FLASH:SEED:STEPS:CUTS`, for example `lib:chip64_0123abcd:0:0-3,7:2.middle-1.before`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId {
    /// Text that identifies the flash.
    pub flash: String,
    /// Seed of the chip.
    pub seed: u64,
    /// Steps and power cuts.
    pub history: History,
}

/// Error for a text that is not the id of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a run of a program: copy it whole, as `floatgate powercut` prints it")]
pub struct ParseRunIdError(String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cuts: Vec<String> = self.history.cuts.iter().map(CutAt::to_string).collect();
        write!(f, "lib:{}:{}:{}:{}", self.flash, self.seed, self.history.steps_text(), cuts.join("-"))
    }
}

/// Formats numbers as ranges: `0-3,7`.
fn ranges(steps: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &step in steps {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(step) => *last = step,
            _ => ranges.push((step, step)),
        }
    }
    let texts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    texts.join(",")
}

impl FromStr for RunId {
    type Err = ParseRunIdError;

    fn from_str(text: &str) -> Result<Self, ParseRunIdError> {
        parse(text).ok_or_else(|| ParseRunIdError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<RunId> {
    let parts: Vec<&str> = text.strip_prefix("lib:")?.split(':').collect();
    let [flash, seed, steps, cuts] = parts.try_into().ok()?;
    let cuts: Option<Vec<CutAt>> = cuts.split('-').map(|cut| cut.parse().ok()).collect();
    let history =
        History { steps: parse_steps(steps)?, cuts: cuts.filter(|cuts| cuts.len() <= super::CUTS_MAX)? };
    let id = RunId { flash: flash.to_owned(), seed: seed.parse().ok()?, history };
    // Only the text that formatting produces is accepted, so that each run has one id.
    (id.to_string() == text).then_some(id)
}

fn parse_steps(text: &str) -> Option<Vec<u32>> {
    let mut steps = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().ok()?, last.parse::<u32>().ok()?);
        let count = last.checked_sub(first)? as usize;
        if steps.len() + count >= super::STEPS_MAX {
            return None;
        }
        steps.extend(first..=last);
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for text in ["lib:chip64_0123abcd:7:0-3,7:2.middle.9-1.before", "lib:x:0:5:1.late"] {
            assert_eq!(text.parse::<RunId>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "lib:x:0::1.late",
            "lib:x:0:1-4294967295:1.late",
            "lib:x:0:3-1:1.late",
            "lib:x:0:0,1:1.late",
            "lib:x:0:1:",
        ] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }
}
