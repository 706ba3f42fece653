//! Parser of a probe's JSON.

use super::super::figures::{Figures, comparable};
use super::facts::{ASSUMED, DeviceFacts, Evidence, Partition, UNPROVEN};
use crate::Error;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, CommandOption};
use serde::Deserialize;
use std::ops::RangeInclusive;

/// Assumed sizes of allocation units in bytes, if nothing is known: for cards up to 32 GiB (SDHC), and for larger ones
/// (SDXC).
const USUAL_AU: [u64; 2] = [4 << 20, 16 << 20];
/// Maximum capacity of a card with the first size, in bytes.
const SDHC_MAX: u64 = 32 << 30;
/// Assumed page size and number of open allocation units, if nothing is known.
const USUAL_PAGE: u64 = 16 << 10;
const USUAL_OPEN_AUS: u64 = 5;
/// Accepted ranges of allocation units, pages and numbers of open units. A phase must be less than its allocation unit.
pub(super) const AUS: RangeInclusive<u64> = 4096..=1 << 30;
const PAGES: RangeInclusive<u64> = 512..=4 << 20;
const OPEN_AUS: RangeInclusive<u64> = 0..=1024;
const PHASES: RangeInclusive<u64> = 0..=1 << 30;
const PERCENT: RangeInclusive<u64> = 0..=100;
/// Accepted range of speeds, MB/s.
const SPEEDS: RangeInclusive<f64> = 0.001..=100_000.0;
/// Maximum read speed of a card, MB/s: the bus of eMMC in HS400 (JESD84-B51); UHS-II has 312. Faster reads come from another kind of device
/// or from a cache.
const CARD_MB_S_MAX: f64 = 400.0;

impl DeviceFacts {
    /// Reads the properties of a device from the JSON of `floatgate probe`.
    ///
    /// # Errors
    /// JSON without answers or size, or with an impossible number.
    pub fn of_probe(target: &str, json: &str) -> Result<Self, Error> {
        let no = |what: &str| {
            Error::request(
                format!("{target}: {what}"),
                advice! { "give what ", Command::Probe.with("TARGET").with(CommandOption::Json), " or ", CommandOption::Raw, " has written" },
            )
        };
        let probed: Probed =
            serde_json::from_str(json).map_err(|error| no(&format!("no answers of a probe: {error}")))?;
        let answers = &probed.answers;
        let count = |name: &str, answer: &Answer<u64>, allowed| answer.count(target, name, allowed);
        let stated = probed.capacity_bytes.filter(|bytes| *bytes > 0);
        let real = count("capacity", &answers.capacity, &(1..=u64::MAX))?;
        let capacity_bytes =
            real.as_ref().map(|real| real.value).or(stated).ok_or_else(|| no("no size of the device"))?;
        let usual_au = if capacity_bytes <= SDHC_MAX { USUAL_AU[0] } else { USUAL_AU[1] };
        let found_au = match count("erase_block", &answers.erase_block, &AUS)? {
            None => probed.au_of_registers(target)?,
            measured => measured,
        };
        let found_open = count("open_aus_linear", &answers.open_aus_linear, &OPEN_AUS)?;
        // If a probe found no open unit, each write closed its unit; such a card is not a card without a limit.
        let found_open = found_open.map(|open| Evidence { value: open.value.max(1), ..open });
        let mb_s = [
            answers.read_speed.speed(target, "read_speed")?,
            answers.write_speed.speed(target, "write_speed")?,
        ];
        let is_of_card = mb_s[0].is_some_and(|reads| reads <= CARD_MB_S_MAX);
        let is_card_visible = found_au.is_some() || found_open.is_some() || is_of_card;
        let au_bytes =
            found_au.unwrap_or_else(|| assumed(usual_au, "not visible: usual for cards of this size"));
        let phase = count("phase", &answers.phase, &PHASES)?;
        let phase_bytes = phase.map_or(0, |phase| phase.value % au_bytes.value);
        Ok(Self {
            target: target.to_owned(),
            title: "as probed".to_owned(),
            capacity_bytes,
            claimed_bytes: stated.filter(|stated| *stated != capacity_bytes),
            phase_bytes,
            page_bytes: count("page", &answers.page, &PAGES)?
                .filter(|page| page.value <= au_bytes.value)
                .unwrap_or_else(|| assumed(USUAL_PAGE.min(au_bytes.value), "not visible: usual")),
            open_aus: found_open
                .unwrap_or_else(|| assumed(USUAL_OPEN_AUS, "not measured, as only writes show it: usual")),
            is_card_visible,
            mb_s,
            is_size_unproven: real.as_ref().is_some_and(|real| real.confidence <= UNPROVEN),
            is_untrue: answers.untrue().is_some(),
            unsafe_because: answers.untrue().or_else(|| answers.worn_out()),
            life_used_percent: count("life_used", &answers.life_used, &PERCENT)?,
            is_emmc: probed.registers.kind.as_deref().map(|kind| kind == "MMC"),
            figures: answers.figures(),
            au_bytes,
            partitions: probed.partition.partitions,
            findings: probed.partition.findings,
        })
    }
}

fn assumed(value: u64, reason: &str) -> Evidence {
    Evidence { value, confidence: ASSUMED, alternatives: Vec::new(), reason: reason.to_owned() }
}

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
    kind: Option<String>,
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
    /// Allocation unit in the card's SD status register.
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
    buffer: Answer<u64>,
    slc_cache: Answer<u64>,
    steady_state: Answer<f64>,
    small_writes: Answer<f64>,
    read_latency: Answer<f64>,
    pub(super) read_speed: Answer<f64>,
    pub(super) write_speed: Answer<f64>,
    pub(super) capacity: Answer<u64>,
    pub(super) fake: Answer<String>,
    pub(super) life_used: Answer<u64>,
    pub(super) spare_blocks: Answer<String>,
}

impl Answers {
    /// Figures by which a similar card is found.
    fn figures(&self) -> Figures {
        let count = |answer: &Answer<u64>| comparable(answer.value.map(|value| value as f64));
        let measure = |answer: &Answer<f64>| comparable(answer.value);
        Figures {
            erase_block: count(&self.erase_block),
            page: count(&self.page),
            open_aus_linear: count(&self.open_aus_linear),
            buffer: count(&self.buffer),
            slc_cache: count(&self.slc_cache),
            write_speed: measure(&self.write_speed),
            steady_state: measure(&self.steady_state),
            small_writes: measure(&self.small_writes),
            read_speed: measure(&self.read_speed),
            read_latency: measure(&self.read_latency),
            capacity: None,
        }
    }

    /// Reason not to trust a card whose contents changed during the probe.
    pub(super) fn untrue(&self) -> Option<String> {
        let kind = self.fake.value.as_deref()?;
        ["unstable", "corrupt"].contains(&kind).then(|| self.fake.reason.clone())
    }

    /// Reason not to trust a card whose registers report that its life or its spare blocks are nearly used up.
    pub(super) fn worn_out(&self) -> Option<String> {
        let of_blocks = self.spare_blocks.value.as_deref().filter(|state| *state == "urgent");
        let of_life = self.life_used.value.filter(|percent| *percent == 100);
        of_blocks.map(|_| &self.spare_blocks.reason).or(of_life.map(|_| &self.life_used.reason)).cloned()
    }
}

/// An answer; its value is missing if the probe did not find one.
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
