//! Advice on a card or block device, known from the catalogue or from the answers of a probe.
//!
//! The choice of the filesystem comes from replays of the shipped traces ([`crate::card::compare`]). They run
//! on a card of the catalogue, or on the one that is most like what was probed, with the sizes that were
//! found.

use super::existing::Existing;
use super::mkfs::{BlockFs, Need, PartitionShape, Recipe, recipe};
use super::stand_in::stand_in;
use super::{Advice, Point, size};
use crate::Error;
use crate::card::LoadedCard;
use crate::card::compare::{Cell, Matrix, NamedCard, compare};
use crate::card::life::{CardLife, TraceWear, by_trace};
use crate::card::shipped::{ShippedTrace, capacity_bytes_min};
use crate::card::state::CardState;
use crate::life;
use crate::progress::Listener;
use floatgate_card::{CardSpec, LossSpec, Mapping};
use floatgate_config::Library;
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, CommandOption};
use rayon::prelude::*;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::Path;

/// A number with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The number itself, in the unit of its field.
    pub value: u64,
    /// Probability that it is right.
    pub confidence: f64,
    /// Other values and their probabilities.
    pub alternatives: Vec<(u64, f64)>,
    /// Origin of the value, in words.
    pub reason: String,
}

/// Properties of a device on which advice depends.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFacts {
    /// Name or path.
    pub target: String,
    /// Description in one line.
    pub title: String,
    /// Real size in bytes.
    pub capacity_bytes: u64,
    /// Size that the device states in bytes, where it is another one.
    pub claimed_bytes: Option<u64>,
    /// Size of an allocation unit in bytes.
    pub au_bytes: Evidence,
    /// Position of the first border in bytes.
    pub phase_bytes: u64,
    /// Size of a page in bytes.
    pub page_bytes: Evidence,
    /// Number of allocation units that can be open; 0 of a card without such a limit.
    pub open_aus: Evidence,
    /// True when anything shows what card it is: allocation unit, open units, or reads as fast as those of a card.
    pub is_card_visible: bool,
    /// Speeds in order, MB/s: reads and writes.
    pub mb_s: [Option<f64>; 2],
    /// Partitions with their first bytes, and findings about them.
    pub partitions: Vec<Partition>,
    /// Findings about table and FATs, a sentence each.
    pub findings: Vec<String>,
    /// Reason for which nothing should be stored on it: contents change, or its life is over.
    pub unsafe_because: Option<String>,
    /// True when contents change: `unsafe_because` says how.
    pub is_untrue: bool,
    /// Life used that the card states, at most, %.
    pub life_used_percent: Option<Evidence>,
    /// True when nothing but the device says how large it is: reads do not show a fake.
    pub is_size_unproven: bool,
}

/// A partition of the device.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Partition {
    /// Number as Linux counts; 0 for the device itself.
    pub number: u64,
    /// Position in bytes.
    pub start_bytes: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Filesystem that is on it, but FAT.
    #[serde(skip)]
    pub existing: Option<Existing>,
}

impl Partition {
    /// Name in messages.
    fn name(&self) -> String {
        match self.number {
            0 => "the device".to_owned(),
            number => format!("partition {number}"),
        }
    }
}

/// Sizes of allocation units where nothing is known, in bytes: up to 32 GiB (SDHC) and above (SDXC).
const USUAL_AU: [u64; 2] = [4 << 20, 16 << 20];
/// Largest card whose allocation units are of the first size, in bytes.
const SDHC_MAX: u64 = 32 << 30;
/// Page and open allocation units where nothing is known.
const USUAL_PAGE: u64 = 16 << 10;
const USUAL_OPEN_AUS: u64 = 5;
/// Confidence of a size that only the device states.
const UNPROVEN: f64 = 0.5;
/// Confidence of a number that is only usual.
const ASSUMED: f64 = 0.3;
/// Allocation units, pages and numbers of open units that are believed. A phase is below its allocation unit.
const AUS: RangeInclusive<u64> = 4096..=1 << 30;
const PAGES: RangeInclusive<u64> = 512..=4 << 20;
const OPEN_AUS: RangeInclusive<u64> = 0..=1024;
const PHASES: RangeInclusive<u64> = 0..=1 << 30;
const PERCENT: RangeInclusive<u64> = 0..=100;
/// Speeds that are believed, MB/s.
const SPEEDS: RangeInclusive<f64> = 0.001..=100_000.0;
/// Fastest reads of a card, MB/s: the bus of eMMC in HS400 (JESD84-B51), UHS-II of SD has 312. What is faster is another device or a cache.
const CARD_MB_S_MAX: f64 = 400.0;

impl DeviceFacts {
    /// A card of the catalogue.
    pub fn of_card(name: &str, card: &LoadedCard) -> Self {
        let spec = &card.spec;
        let sourced = |value: u64, key: &str| {
            let source = card.part.source_of(key);
            Evidence {
                value,
                confidence: source.map_or(ASSUMED, |source| source.confidence),
                alternatives: Vec::new(),
                reason: source.map_or("no source".to_owned(), |source| source.from.clone()),
            }
        };
        Self {
            target: name.to_owned(),
            title: format!("{}, {}", card.name(), card.part.title),
            capacity_bytes: spec.capacity_bytes,
            claimed_bytes: spec.fake.map(|fake| fake.claimed_bytes),
            au_bytes: sourced(spec.au_bytes, "card.au_bytes"),
            phase_bytes: 0,
            page_bytes: sourced(spec.page_bytes, "card.page_bytes"),
            open_aus: sourced(u64::from(spec.open_aus), "card.open_aus"),
            is_card_visible: true,
            mb_s: [None; 2],
            partitions: Vec::new(),
            findings: Vec::new(),
            unsafe_because: unsound(card),
            is_untrue: spec.evil.is_some(),
            life_used_percent: None,
            is_size_unproven: false,
        }
    }

    /// A device from the JSON of `floatgate probe`.
    ///
    /// # Errors
    /// It has no answers, or no size, or a number that no card has.
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
        // A probe that found none had each write close its unit: not a card without a limit.
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
            au_bytes,
            partitions: probed.partition.partitions,
            findings: probed.partition.findings,
        })
    }

    /// Reason not to trust the device with data.
    pub(crate) fn untrusted_reason(&self) -> Option<String> {
        let fake = self.claimed_bytes.filter(|claimed| *claimed > self.capacity_bytes);
        let fake =
            fake.map(|claimed| format!("it has {} and says {}", size(self.capacity_bytes), size(claimed)));
        fake.or_else(|| self.unsafe_because.clone())
    }

    /// Reason for which the device does not keep what is written: it is smaller than it says, or changes contents. A device that is only worn
    /// keeps it.
    pub(crate) fn loses_data(&self) -> Option<String> {
        let is_smaller = self.claimed_bytes.is_some_and(|claimed| claimed > self.capacity_bytes);
        if is_smaller || self.is_untrue { self.untrusted_reason() } else { None }
    }

    /// Size of the largest partition that begins and ends at borders, in bytes.
    pub(crate) fn partition_bytes(&self) -> u64 {
        self.place().1.bytes
    }

    /// Where a partition for `fs` goes: the first border from 1 MiB on, up to the last border.
    fn place(&self) -> (u64, PartitionShape) {
        let au = self.au_bytes.value;
        let first =
            FIRST_MIN.saturating_sub(self.phase_bytes).div_ceil(au).max(u64::from(self.phase_bytes == 0));
        let start = self.phase_bytes + first * au;
        let bytes = self.capacity_bytes.saturating_sub(start) / au * au;
        let open_aus = Some(self.open_aus.value).filter(|open| *open > 0);
        (start, PartitionShape { bytes, au_bytes: au, page_bytes: self.page_bytes.value, open_aus })
    }
}

/// First byte that is free for partitions: 1 MiB, as fdisk has it.
const FIRST_MIN: u64 = 1 << 20;

fn assumed(value: u64, reason: &str) -> Evidence {
    Evidence { value, confidence: ASSUMED, alternatives: Vec::new(), reason: reason.to_owned() }
}

/// The parts of a probe's JSON on which advice depends; the JSON is untrusted input.
#[derive(Deserialize)]
struct Probed {
    capacity_bytes: Option<u64>,
    answers: Answers,
    #[serde(default)]
    registers: Registers,
    #[serde(default)]
    partition: Layout,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Registers {
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    au_bytes: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Layout {
    partitions: Vec<Partition>,
    findings: Vec<String>,
}

impl Probed {
    /// The allocation unit that the card states in its SD status.
    fn au_of_registers(&self, target: &str) -> Result<Option<Evidence>, Error> {
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
struct Answers {
    erase_block: Answer<u64>,
    phase: Answer<u64>,
    page: Answer<u64>,
    open_aus_linear: Answer<u64>,
    read_speed: Answer<f64>,
    write_speed: Answer<f64>,
    capacity: Answer<u64>,
    fake: Answer<String>,
    life_used: Answer<u64>,
    spare_blocks: Answer<String>,
}

impl Answers {
    /// Reason not to trust a card whose contents a probe found to change.
    fn untrue(&self) -> Option<String> {
        let kind = self.fake.value.as_deref()?;
        ["unstable", "corrupt"].contains(&kind).then(|| self.fake.reason.clone())
    }

    /// Reason not to trust a card that states that its life or its spare blocks are about to be used up.
    fn worn_out(&self) -> Option<String> {
        let of_blocks = self.spare_blocks.value.as_deref().filter(|state| *state == "urgent");
        let of_life = self.life_used.value.filter(|percent| *percent == 100);
        of_blocks.map(|_| &self.spare_blocks.reason).or(of_life.map(|_| &self.life_used.reason)).cloned()
    }
}

/// An answer, without value where the probe did not find one.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer<T> {
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
    fn count(
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
    fn speed(&self, target: &str, name: &str) -> Result<Option<f64>, Error> {
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

/// Reason not to trust a card of the catalogue.
fn unsound(card: &LoadedCard) -> Option<String> {
    let spec = &card.spec;
    match spec.evil {
        Some(evil) => Some(format!(
            "its firmware answers one in {} sectors with other contents the second time",
            evil.one_in_sectors
        )),
        None if spec.loss != LossSpec::default() => Some(loss_words(&spec.loss)),
        None if spec.fake.is_none() && !card.is_sound() => {
            Some(format!("its blocks last for {} cycles", spec.wear.endurance_cycles))
        }
        None => None,
    }
}

/// Damage of a loss of power in words.
fn loss_words(loss: &LossSpec) -> String {
    let damage = [
        (loss.ignores_flush, "loses data that it has confirmed as flushed"),
        (loss.torn_pages > 0, "loses data beside what was being written"),
        (loss.dies_per_million > 0, "may not start any more"),
    ];
    let words: Vec<&str> = damage.iter().filter(|(is_so, _)| *is_so).map(|(_, words)| *words).collect();
    format!("at a loss of power it {}", words.join(", and "))
}

/// Bytes written to a card in a day where nothing else is said.
pub const BYTES_PER_DAY: u64 = 1 << 30;

/// Options of advice on a card or block device.
#[derive(Clone, Debug)]
pub struct AdviceOptions {
    /// Traces of the filesystems and workloads that come into question.
    pub traces: Vec<ShippedTrace>,
    /// Demands that the filesystem must meet.
    pub needs: Vec<Need>,
    /// State of the card before the traces.
    pub state: CardState,
    /// Bytes that are written in a day, for the life in years.
    pub write_bytes_per_day: u64,
    /// Seed of the card's bad blocks and errors.
    pub seed: u64,
}

/// Advice on a device; `card` is the one that it is known to be, or none. `progress` hears how far the replays are.
///
/// # Errors
/// It is too small for a partition; no card of the catalogue is like it.
pub fn advise(
    library: &Library,
    known: &DeviceFacts,
    card: Option<&LoadedCard>,
    wanted: &AdviceOptions,
    progress: Listener<'_>,
) -> Result<Advice, Error> {
    let (start, place) = known.place();
    if place.bytes < FIRST_MIN {
        return Err(Error::request(
            format!(
                "{}: {} are too small for a partition at {}",
                known.target,
                size(known.capacity_bytes),
                size(start)
            ),
            "name a larger device",
        ));
    }
    let (model, likeness) = match card {
        Some(card) => (card.clone(), format!("traces replayed on {}", known.target)),
        None => stand_in(library, known)?,
    };
    let replayed = at_least_the_traces(model.clone());
    let likeness = match enlarged(&model, &replayed) {
        Some(larger) => format!("{likeness}. {larger}"),
        None => likeness,
    };
    let named = NamedCard { name: known.target.clone(), card: replayed };
    let matrix = compare(&[named], &wanted.traces, wanted.state, wanted.seed, progress)?;
    let fs = best(&matrix, &wanted.needs)?;
    let mut points = Vec::new();
    points.extend(trust_point(known));
    points.extend(size_point(known));
    points.push(partition_point(known, fs, start, &place));
    points.push(filesystem_point(&matrix, fs, &likeness, &wanted.needs));
    points.push(recipe_point(known, &recipe(fs, &place), fs, &wanted.needs));
    points.extend(existing_point(known, &place));
    // What the device states counts, whatever else is visible.
    let has_life = known.is_card_visible || known.life_used_percent.is_some();
    let lives = match known.loses_data() {
        None if has_life => lives(&model, fs, wanted)?,
        _ => Vec::new(),
    };
    points.push(match known.is_card_visible {
        true => speed_point(known, (&matrix, &lives), fs, &model, wanted)?,
        false => no_speed_point(known),
    });
    if let Some(reason) = known.loses_data() {
        points.push(
            Point::new("life", "no life is promised: it does not keep what is written").rests_on(reason),
        );
    } else if has_life {
        points.push(life_point(known, (fs, &lives), &model, card.is_some(), wanted));
    }
    Ok(Advice {
        target: known.target.clone(),
        board: None,
        title: known.title.clone(),
        capacity_bytes: known.capacity_bytes,
        points,
    })
}

/// The card, made large enough for the traces: their times do not depend on the size otherwise.
pub(crate) fn at_least_the_traces(mut card: LoadedCard) -> LoadedCard {
    let least = capacity_bytes_min(card.spec.au_bytes);
    if card.spec.capacity_bytes < least {
        card.spec.capacity_bytes = least.next_multiple_of(card.spec.au_bytes.max(1));
    }
    card
}

/// A sentence about the card of the replays, where it is larger than the card itself.
pub(crate) fn enlarged(card: &LoadedCard, replayed: &LoadedCard) -> Option<String> {
    let (own, larger) = (card.spec.capacity_bytes, replayed.spec.capacity_bytes);
    (larger > own).then(|| {
        format!(
            "A card of {} was replayed in place of {}: the traces are of partitions of 3 GiB, and programs that write as much do not fit on this card.",
            size(larger),
            size(own)
        )
    })
}

/// The filesystem that is fastest over all workloads, of those that meet all demands.
fn best(matrix: &Matrix, needs: &[Need]) -> Result<BlockFs, Error> {
    let ranked: Vec<BlockFs> = matrix
        .cards
        .first()
        .map(|card| card.filesystems.iter().filter_map(|score| BlockFs::named(&score.filesystem)).collect())
        .unwrap_or_default();
    if ranked.is_empty() {
        return Err(Error::request(
            "nothing was compared",
            "choose filesystems and workloads that have traces",
        ));
    }
    let found = ranked.iter().copied().find(|fs| unmet(*fs, needs).is_none());
    found.ok_or_else(|| {
        let reasons: Vec<String> = ranked
            .iter()
            .filter_map(|fs| Some(format!("not {}: {}", fs.name(), unmet(*fs, needs)?)))
            .collect();
        Error::request(
            format!("no filesystem meets all needs: {}", reasons.join("; ")),
            "make two partitions, and ask for each with its own needs: one of FAT that boots, one for the root",
        )
    })
}

/// The first demand that a filesystem does not meet, as its reason.
fn unmet(fs: BlockFs, needs: &[Need]) -> Option<&'static str> {
    needs.iter().find_map(|need| need.unmet_by(fs))
}

/// A card that changes what it stores, or is about to die.
fn trust_point(known: &DeviceFacts) -> Option<Point> {
    let reason = known.unsafe_because.as_ref()?;
    Some(
        Point::new("trust", "do not use this card: it loses or changes data, or is about to")
            .rests_on(reason.clone()),
    )
}

/// A card that is smaller than it says.
fn size_point(known: &DeviceFacts) -> Option<Point> {
    let claimed = known.claimed_bytes.filter(|claimed| *claimed > known.capacity_bytes)?;
    let advice =
        format!("do not trust this card: it has {} and says {}", size(known.capacity_bytes), size(claimed));
    Some(Point::new("size", advice).rests_on("the size that was found by sectors with their own address"))
}

fn sure(evidence: &Evidence) -> String {
    let reason = if evidence.reason.is_empty() { String::new() } else { format!(": {}", evidence.reason) };
    format!("{:.0} % sure{reason}", evidence.confidence * 100.0)
}

/// Device that commands name: the target if it is one. For an image file it is a name that no device has, so that a pasted command
/// overwrites nothing; for a card of the catalogue it is the usual name of an SD card.
fn device(known: &DeviceFacts) -> &str {
    let is_description = known.target.ends_with(".toml") || known.target.ends_with(".json");
    if known.target.starts_with("/dev/") {
        &known.target
    } else if !is_description && Path::new(&known.target).is_file() {
        "/dev/sdX"
    } else {
        "/dev/mmcblk0"
    }
}

/// Node of a partition: Linux puts a `p` between a name that ends with a digit and the number.
fn node(device: &str, number: u64) -> String {
    match number {
        0 => device.to_owned(),
        _ if device.ends_with(|last: char| last.is_ascii_digit()) => format!("{device}p{number}"),
        _ => format!("{device}{number}"),
    }
}

const SECTOR: u64 = 512;
/// Blocks of ext4, F2FS and NILFS2, and pages of the page cache, in bytes.
const BLOCK: u64 = 4096;
/// Most sectors that an MBR counts.
const MBR_SECTORS_MAX: u64 = u32::MAX as u64;

fn partition_point(known: &DeviceFacts, fs: BlockFs, start: u64, place: &PartitionShape) -> Point {
    let (first, sectors) = (start / SECTOR, place.bytes / SECTOR);
    let label = if first + sectors <= MBR_SECTORS_MAX { "dos" } else { "gpt" };
    let kind = if label == "dos" { format!(", type={}", fs.partition_type()) } else { String::new() };
    let au = &known.au_bytes;
    let mut point = Point::new(
        "partition start",
        format!("begin the partition at sector {first} ({}), a border of an allocation unit", size(start)),
    )
    .command(format!(
        "printf 'label: {label}\\nstart={first}, size={sectors}{kind}\\n' | sfdisk {}",
        device(known)
    ))
    .rests_on(format!("allocation unit of {}, {}", size(au.value), sure(au)));
    if known.phase_bytes > 0 {
        point = point.rests_on(format!("its first border is at {}", size(known.phase_bytes)));
    }
    for (value, confidence) in au.alternatives.iter().filter(|(value, _)| AUS.contains(value)) {
        let other = DeviceFacts { au_bytes: Evidence { value: *value, ..au.clone() }, ..known.clone() };
        let note = if start.is_multiple_of(*value) {
            "the start is right for it, too".to_owned()
        } else {
            format!("begin at {}", size(other.place().0))
        };
        point = point.unless(format!(
            "allocation units have {} ({:.0} %): {note}",
            size(*value),
            confidence * 100.0
        ));
    }
    if au.confidence < 0.5 {
        point = point.unless(advice! { "the allocation unit is another: ", Command::Probe, " measures it" });
    }
    if known.is_size_unproven {
        point = point.unless(advice! { "the device is smaller than it says, which only writes show: ", Command::Probe.with(CommandOption::Write) });
    }
    point
}

fn filesystem_point(matrix: &Matrix, fs: BlockFs, likeness: &str, needs: &[Need]) -> Point {
    let card = matrix.cards.first();
    let advice = card.map_or_else(String::new, |card| card.advice.clone());
    let faster: Vec<&str> = card
        .map(|card| card.filesystems.iter().map(|score| score.filesystem.as_str()))
        .into_iter()
        .flatten()
        .take_while(|name| *name != fs.name())
        .collect();
    let reasons: Vec<String> = faster
        .iter()
        .filter_map(|name| {
            Some(format!("not {name}, which is faster: {}", unmet(BlockFs::named(name)?, needs)?))
        })
        .collect();
    let choice = match reasons.as_slice() {
        [] if advice.starts_with("Use ") => advice,
        [] => format!("Use {}. {advice}", fs.name()),
        reasons => format!("Use {}, {}.", fs.name(), reasons.join("; ")),
    };
    let mut point = Point::new("filesystem", choice).rests_on(likeness.to_owned());
    if !needs.is_empty() {
        let names: Vec<&str> = needs.iter().map(|need| need.name()).collect();
        point = point.rests_on(format!("needs: {}", names.join(", ")));
    }
    for cell in cells(matrix, fs) {
        point = point.rests_on(format!(
            "{}: {:.1} s of the card, {:.2} times that of the fastest ranked filesystem",
            cell.workload,
            cell.time_us / 1e6,
            cell.relative_time
        ));
    }
    for remark in &matrix.remarks {
        point = point.rests_on(remark.clone());
    }
    for (workload, other) in winners(matrix, fs) {
        point = point.unless(format!("the work is mostly like {workload}: {other} is faster there"));
    }
    if fs != BlockFs::Vfat {
        point = point.unless(advice! { "a camera, a boot ROM or Windows must read it: then vfat (", CommandOption::Fs, " vfat)" });
    }
    point
}

fn cells(matrix: &Matrix, fs: BlockFs) -> impl Iterator<Item = &Cell> {
    matrix.cells.iter().filter(move |cell| cell.filesystem == fs.name())
}

/// Workloads under which another filesystem is faster by more than 5 %.
fn winners(matrix: &Matrix, fs: BlockFs) -> Vec<(String, String)> {
    let slower = cells(matrix, fs).filter(|cell| cell.relative_time > 1.05);
    slower
        .filter_map(|cell| {
            let fastest = matrix.cells.iter().find(|other| {
                other.is_ranked && other.workload == cell.workload && other.relative_time <= 1.0
            })?;
            Some((cell.workload.clone(), fastest.filesystem.clone()))
        })
        .collect()
}

fn recipe_point(known: &DeviceFacts, recipe: &Recipe, fs: BlockFs, needs: &[Need]) -> Point {
    let partition = node(device(known), 1);
    let mut point = Point::new("mkfs and mount", "make and mount it with the flash's own sizes")
        .command(format!("{} {partition}", recipe.mkfs))
        .command(format!("mount -t {} -o {} {partition} /mnt", fs.name(), recipe.mount));
    point.rests_on.extend(recipe.why.iter().cloned());
    point = point.rests_on(format!("page of {}, {}", size(known.page_bytes.value), sure(&known.page_bytes)));
    let open = &known.open_aus;
    let limit = match open.value {
        0 => "no limit of open allocation units".to_owned(),
        limit => format!("{limit} open allocation units"),
    };
    point = point.rests_on(format!("{limit}, {}", sure(open)));
    if known.page_bytes.confidence < 0.5 {
        point = point.unless("the page is larger: stride and clusters grow with it");
    }
    if fs == BlockFs::Ext4 && !needs.contains(&Need::PowerCuts) {
        point = point.unless("a minute of work may be lost with the power: then mount with `commit=60`, too");
    }
    if matches!(fs, BlockFs::Ext4 | BlockFs::F2fs) {
        point =
            point.unless("programs touch many files without changing them: then mount with `lazytime`, too");
    }
    point
}

/// A finding about a partition that begins beside the borders of the allocation unit that is advised on; none where the probe has judged its place, which
/// knows where the data of a FAT are.
fn misplaced(known: &DeviceFacts, partition: &Partition) -> Option<String> {
    let (name, au, start) = (partition.name(), &known.au_bytes, partition.start_bytes);
    let is_judged = |finding: &String| {
        finding.starts_with(&format!("{name} starts at "))
            || finding.contains(&format!("file data of {name} start "))
    };
    let behind = (start % au.value + au.value - known.phase_bytes) % au.value;
    if partition.number == 0 || behind == 0 || known.findings.iter().any(is_judged) {
        return None;
    }
    let block = match start.is_multiple_of(BLOCK) {
        true => "",
        false => ", and on none of 4 KiB, so that each block of a filesystem lies on two pages",
    };
    Some(format!(
        "{name} begins at sector {} ({}), {} behind the border of an allocation unit of {} ({}){block}: only a new partition changes that",
        start / SECTOR,
        size(start),
        size(behind),
        size(au.value),
        sure(au)
    ))
}

/// Filesystems that are there, judged.
fn existing_point(known: &DeviceFacts, place: &PartitionShape) -> Option<Point> {
    if known.partitions.is_empty() {
        return None;
    }
    let mut faults = known.findings.clone();
    for partition in &known.partitions {
        let own = PartitionShape { bytes: partition.bytes, ..*place };
        let (name, node) = (partition.name(), node(device(known), partition.number));
        faults.extend(misplaced(known, partition));
        faults.extend(partition.existing.and_then(|existing| existing.judge(&name, &node, &own)));
    }
    let mut point = match faults.is_empty() {
        true => {
            Point::new("what is there", "keep partitions and filesystems as they are: they fit the flash")
        }
        false => Point::new("what is there", faults.join("; ")),
    };
    for partition in &known.partitions {
        let kind = partition.existing.map_or("", |existing| existing.kind.name());
        let kind = if kind.is_empty() { String::new() } else { format!(", {kind}") };
        point = point.rests_on(format!(
            "{}: {} at {}{kind}",
            partition.name(),
            size(partition.bytes),
            size(partition.start_bytes)
        ));
    }
    Some(point)
}

/// Point on speed for a device that shows no sign of a card: no model would be better than another.
fn no_speed_point(known: &DeviceFacts) -> Point {
    let point = Point::new(
        "speed",
        "nothing of a card is visible, neither allocation unit nor open units nor its speed: no speed is expected",
    );
    measured_speeds(point, known)
        .unless(advice! { "it is a card behind something that hides it: ", Command::Probe.with(CommandOption::Write), " looks closer" })
}

fn measured_speeds(mut point: Point, known: &DeviceFacts) -> Point {
    for (what, mb_s) in ["reads", "writes"].iter().zip(known.mb_s) {
        if let Some(mb_s) = mb_s {
            point = point.rests_on(format!("{what} in order as probed: {mb_s:.1} MB/s"));
        }
    }
    point
}

/// Least relative difference between the speeds in the long run and of one run of a trace for which both are printed.
const BURST: f64 = 0.05;

fn speed_point(
    known: &DeviceFacts,
    (matrix, lives): (&Matrix, &[CardLife]),
    fs: BlockFs,
    model: &LoadedCard,
    wanted: &AdviceOptions,
) -> Result<Point, Error> {
    let (mut expected, mut has_bursts) = (Vec::new(), false);
    for cell in cells(matrix, fs) {
        let trace =
            wanted.traces.iter().find(|t| (t.filesystem, t.workload) == (&cell.filesystem, &cell.workload));
        let Some(trace) = trace else { continue };
        let written = trace.requests(model.spec.au_bytes)?.written_bytes();
        let first = written as f64 / cell.time_us.max(1.0);
        let lasting = lives.iter().find(|life| life.trace == trace.name()).map(|life| life.sustained_mb_s);
        let then = match lasting.filter(|lasting| *lasting < first * (1.0 - BURST)) {
            Some(lasting) => {
                has_bursts = true;
                format!(", {lasting:.2} in the long run")
            }
            None => String::new(),
        };
        expected.push(format!("{} {first:.2} MB/s{then}", cell.workload));
    }
    let separator = if has_bursts { "; " } else { ", " };
    let mut point = Point::new(
        "speed",
        format!("expect, of bytes that {} writes: {}", fs.name(), expected.join(separator)),
    );
    if has_bursts {
        point = point.rests_on(
            "the first figure is that of one run of the workload, the second that of runs without a pause on a used card, whose cache and free blocks they use up",
        );
    }
    let point = measured_speeds(point, known).rests_on(format!(
        "a card that is {} at the beginning, requests one after the other without pauses",
        wanted.state.name()
    ));
    Ok(match wanted.state {
        CardState::Full => point,
        CardState::Empty | CardState::Used => point.unless("the card is fuller: ask for a full one"),
    })
}

/// Blocks of a card of this capacity, spare ones included.
pub(crate) fn flash_blocks(spec: &CardSpec, capacity_bytes: u64) -> u64 {
    capacity_bytes / spec.au_bytes.max(1) + u64::from(spec.spare_blocks)
}

/// Bytes that can be written to a new card before all blocks have their rated cycles.
fn life_bytes(spec: &CardSpec, capacity_bytes: u64, amplification: f64) -> f64 {
    let flash = flash_blocks(spec, capacity_bytes) as f64 * spec.au_bytes as f64;
    flash * f64::from(spec.wear.endurance_cycles) / amplification
}

/// Bytes that can be written in a life, and years.
fn life_point(
    known: &DeviceFacts,
    (fs, lives): (BlockFs, &[CardLife]),
    model: &LoadedCard,
    is_own: bool,
    wanted: &AdviceOptions,
) -> Point {
    let spec = &model.spec;
    let amplification = steady_amplification(lives);
    let blocks = flash_blocks(spec, known.capacity_bytes);
    let cycles = spec.wear.endurance_cycles;
    let used = known.life_used_percent.as_ref();
    let left = used.map_or(1.0, |used| (100 - used.value.min(100)) as f64 / 100.0);
    let new_bytes = life_bytes(spec, known.capacity_bytes, amplification);
    let bytes = new_bytes * left;
    let level = if spec.wear.static_difference > 0 {
        "with static wear levelling"
    } else {
        "only if what is written moves over the whole card, as it has no static wear levelling"
    };
    let whose = if is_own {
        "rated cycles of this card"
    } else {
        "cycles assumed: those of the most similar card of the catalogue; nothing measures them"
    };
    let still = if used.is_some() { "still " } else { "" };
    let words = if left > 0.0 {
        format!(
            "about {} can {still}be written by {}, {}, {level}",
            life::terabytes(bytes),
            fs.name(),
            life::in_words(bytes, wanted.write_bytes_per_day)
        )
    } else {
        "no life can be promised: all that the device states may be used".to_owned()
    };
    let mut point = Point::new("life", words);
    if let Some(used) = used {
        point = point.rests_on(format!(
            "{}; {} % of the {:.1} TB that a new one takes are counted as left",
            used.reason,
            100 - used.value.min(100),
            new_bytes / 1e12
        ));
    }
    point
    .rests_on(format!("{cycles} {whose}"))
    .rests_on(format!(
        "{} of flash, {} spare blocks included",
        size(blocks * spec.au_bytes),
        spec.spare_blocks
    ))
    .rests_on(format!(
        "{amplification:.2} erased bytes of flash for each byte written, in the steady state of a used card: the geometric mean over the workloads"
    ))
    .unless(match spec.mapping {
        Mapping::Page => "the card is full: garbage collection multiplies the writes",
        _ => "programs write in more places at once than allocation units are open: each closes one and copies it",
    })
}

/// Most requests of the run from which the wear of a workload follows.
const WEAR_REQUESTS_MAX: usize = 1 << 18;

/// Lives of the card when each workload of a filesystem goes on for long. The card is as small as the traces allow, with its share of spare blocks.
fn lives(model: &LoadedCard, fs: BlockFs, wanted: &AdviceOptions) -> Result<Vec<CardLife>, Error> {
    let card = as_small_as_the_traces(model);
    let traces: Vec<ShippedTrace> =
        wanted.traces.iter().copied().filter(|trace| trace.filesystem == fs.name()).collect();
    let of_trace = |&trace: &ShippedTrace| {
        let wear = TraceWear {
            trace,
            state: if wanted.state == CardState::Full { CardState::Full } else { CardState::Used },
            write_bytes_per_day: wanted.write_bytes_per_day,
            requests_max: WEAR_REQUESTS_MAX,
            seed: wanted.seed,
        };
        by_trace(&card, &wear, &|_| ())
    };
    traces.par_iter().map(of_trace).collect()
}

/// Erased bytes of flash for each byte that the host writes: the geometric mean over the workloads.
fn steady_amplification(lives: &[CardLife]) -> f64 {
    let logs = lives.iter().map(|life| libm::log(life.erased_per_written.max(0.01)));
    libm::exp(logs.sum::<f64>() / lives.len().max(1) as f64)
}

/// The card at the size that the traces need, with the share of spare blocks that it has.
fn as_small_as_the_traces(model: &LoadedCard) -> LoadedCard {
    let mut card = at_least_the_traces(model.clone());
    let spec = &mut card.spec;
    let small = capacity_bytes_min(spec.au_bytes).next_multiple_of(spec.au_bytes.max(1));
    if spec.capacity_bytes > small {
        let extra = spec.blocks_to_spare() as f64 * small as f64 / spec.capacity_bytes as f64;
        spec.capacity_bytes = small;
        spec.spare_blocks = spec.needed_spare_blocks() as u32 + spec.bad_blocks + extra.ceil() as u32;
    }
    card
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::load;
    use crate::card::shipped::traces;
    use serde_json::{Value, json};

    fn probed(au: u64, phase: u64, open: u64) -> DeviceFacts {
        let answer = |value: u64, confidence: f64| json!({ "value": value, "confidence": confidence, "alternatives": [{ "value": 8 << 20, "confidence": 0.05 }], "reason": "measured" });
        let answers = json!({
            "erase_block": answer(au, 0.9), "phase": answer(phase, 0.9), "page": answer(16 << 10, 0.8),
            "open_aus_linear": answer(open, 0.9), "capacity": { "value": null },
        });
        DeviceFacts::of_probe(
            "/dev/sdz",
            &json!({ "capacity_bytes": 8_u64 << 30, "answers": answers }).to_string(),
        )
        .unwrap()
    }

    #[test]
    fn a_size_that_only_the_device_states_is_unproven() {
        let warning = |confidence: f64| {
            let answers = json!({ "read_speed": { "value": 20.0 }, "capacity": { "value": 8_u64 << 30, "confidence": confidence } });
            let json = json!({ "capacity_bytes": 8_u64 << 30, "answers": answers });
            let known = DeviceFacts::of_probe("x", &json.to_string()).unwrap();
            let point = partition_point(&known, BlockFs::Ext4, 0, &known.place().1);
            point.would_change.iter().any(|finding| finding.to_string().contains("smaller than it says"))
        };
        assert!(warning(0.5) && !warning(0.97));
    }

    #[test]
    fn partitions_begin_and_end_on_borders() {
        for (au, phase) in
            [(4 << 20, 0), (4 << 20, 1 << 20), (6 << 20, 2 << 20), (512 << 10, 0), (128 << 20, 5 << 20)]
        {
            let (start, place) = probed(au, phase, 5).place();
            assert!(
                start >= FIRST_MIN && (start - phase) % au == 0 && place.bytes % au == 0,
                "{au} {phase}: {start} {place:?}"
            );
            assert!(start < FIRST_MIN + au + phase && start + place.bytes <= 8 << 30);
        }
    }

    #[test]
    fn what_a_probe_found_decides() {
        let library = Library::built_in();
        let chosen = traces()
            .into_iter()
            .filter(|t| t.workload == "create" && ["ext4", "vfat"].contains(&t.filesystem));
        let wanted = AdviceOptions {
            traces: chosen.collect(),
            state: CardState::Empty,
            needs: Vec::new(),
            write_bytes_per_day: 1 << 30,
            seed: 0,
        };
        let of = |known: &DeviceFacts| {
            let advice = advise(&library, known, None, &wanted, &|_| ()).unwrap();
            advice
                .rendered(ToString::to_string)
                .points
                .into_iter()
                .flat_map(|point| point.commands)
                .collect::<Vec<_>>()
        };
        let small = of(&probed(4 << 20, 0, 5));
        let large = of(&probed(24 << 20, 0, 5));
        assert!(
            small.iter().any(|c| c.contains("start=8192,") && c.ends_with("sfdisk /dev/sdz")),
            "{small:?}"
        );
        assert!(large.iter().any(|c| c.contains("start=49152,")), "{large:?}");
        assert!(small.iter().any(|c| c.ends_with(" /dev/sdz1")), "{small:?}");
        assert_ne!(small, large);
    }

    #[test]
    fn a_card_that_changes_contents_is_not_to_be_used() {
        let library = Library::built_in();
        let known = |name: &str| DeviceFacts::of_card(name, &load(&library, name, &[]).unwrap());
        for (name, reason) in [
            ("evil-8g", Some("one in 1000 sectors")),
            ("dying-8g", Some("cycles")),
            ("samsung-evo-16g", None),
        ] {
            let point = trust_point(&known(name));
            assert_eq!(point.is_some(), reason.is_some(), "{name}: {point:?}");
            assert!(point.is_none_or(|point| point.rests_on[0].contains(reason.unwrap())), "{name}");
        }
        for (kind, is_told) in [("unstable", true), ("corrupt", true), ("none", false), ("wraps", false)] {
            let json = json!({ "capacity_bytes": 1 << 30, "answers": { "fake": { "value": kind, "reason": "seen" } } });
            assert_eq!(
                trust_point(&DeviceFacts::of_probe("x", &json.to_string()).unwrap()).is_some(),
                is_told,
                "{kind}"
            );
        }
    }

    #[test]
    fn answers_of_others_are_checked() {
        for json in [
            json!(null),
            json!([]),
            json!({ "answers": 1, "capacity_bytes": 1 }),
            json!({ "answers": { "erase_block": { "value": "4 MiB" } }, "capacity_bytes": 1 }),
            json!({ "answers": { "erase_block": { "value": -4096 } }, "capacity_bytes": 1 }),
            json!({ "capacity_bytes": 1 }),
            json!({ "answers": {} }),
            json!({ "answers": {}, "capacity_bytes": 0 }),
        ] {
            let error = DeviceFacts::of_probe("x", &json.to_string()).unwrap_err();
            assert!(error.to_string().starts_with("x: no ") && error.help().is_some(), "{json}: {error}");
        }
        let of = |name: &str, value: Value, confidence: f64| {
            let answers = json!({ "read_speed": { "value": 20.0 }, name: { "value": value, "confidence": confidence } });
            DeviceFacts::of_probe(
                "x",
                &json!({ "capacity_bytes": 1_u64 << 34, "answers": answers }).to_string(),
            )
        };
        for (name, value, confidence, field, allowed) in [
            ("erase_block", json!(3), 0.9, "erase_block.value", "from 4096 to 1073741824"),
            ("erase_block", json!(1_000_000_000_000_000_u64), 0.9, "erase_block.value", "from 4096 to"),
            ("erase_block", json!(4 << 20), 7.0, "erase_block.confidence", "from 0 to 1"),
            ("page", json!(7), 0.9, "page.value", "from 512 to 4194304"),
            ("open_aus_linear", json!(1_000_000_000), 0.9, "open_aus_linear.value", "from 0 to 1024"),
            ("phase", json!(1_u64 << 40), 0.9, "phase.value", "from 0 to"),
            ("read_speed", json!(-1.5), 0.9, "read_speed.value", "from 0.001 to 100000"),
            ("write_speed", json!(1e9), 0.9, "write_speed.value", "from 0.001 to 100000"),
            ("capacity", json!(0), 0.9, "capacity.value", "from 1 to"),
        ] {
            let error = of(name, value, confidence).unwrap_err();
            let text = format!("{error} {:?}", error.help());
            assert!(text.contains(&format!("answers.{field} is ")) && text.contains(allowed), "{text}");
        }
        let none = of("erase_block", json!(null), 0.0).unwrap();
        assert_eq!((none.au_bytes.value, none.page_bytes.value, none.open_aus.value), (4 << 20, 16 << 10, 5));
        none.place();
        let stated = json!({ "answers": { "page": {} }, "capacity_bytes": 1, "registers": { "status": { "au_bytes": 5 } } });
        assert!(
            DeviceFacts::of_probe("x", &stated.to_string())
                .unwrap_err()
                .to_string()
                .contains("registers.status.au_bytes is 5")
        );
    }

    /// A partition of fdisk's time, which begins at sector 63, on allocation units that are measured, stated or only usual.
    #[test]
    fn a_partition_beside_the_borders_does_not_fit() {
        let known = |au: Value, start: u64, findings: Value| {
            let partition = json!({ "partitions": [{ "number": 1, "start_bytes": start, "bytes": 1 << 30 }], "findings": findings });
            let answers =
                json!({ "erase_block": { "value": au, "confidence": 0.9 }, "read_speed": { "value": 20.0 } });
            let json = json!({ "capacity_bytes": 8_u64 << 30, "answers": answers, "partition": partition });
            DeviceFacts::of_probe("/dev/sdz", &json.to_string()).unwrap()
        };
        let advice = |known: &DeviceFacts| existing_point(known, &known.place().1).unwrap().advice;
        let usual = advice(&known(json!(null), 63 * 512, json!([])));
        for part in
            ["partition 1 begins at sector 63", "4 MiB (30 % sure: not visible: usual", "none of 4 KiB"]
        {
            assert!(usual.contains(part), "{usual}");
        }
        let aligned = advice(&known(json!(8 << 20), 1 << 20, json!([])));
        assert!(aligned.contains("1 MiB behind the border of an allocation unit of 8 MiB"), "{aligned}");
        assert!(!aligned.contains("4 KiB"), "{aligned}");
        assert!(advice(&known(json!(1 << 20), 1 << 20, json!([]))).contains("keep partitions"));
        let told = json!(["partition 1 starts at 63 sectors, not on an allocation unit"]);
        assert_eq!(advice(&known(json!(4 << 20), 63 * 512, told.clone())), told[0].as_str().unwrap());
    }

    /// Reads of 3 GB/s come from memory, and nothing tells which card is below them.
    #[test]
    fn no_speed_is_expected_of_what_shows_no_card() {
        let of = |mb_s: f64, au: Value| {
            let answers =
                json!({ "erase_block": { "value": au, "confidence": 0.9 }, "read_speed": { "value": mb_s } });
            DeviceFacts::of_probe(
                "x",
                &json!({ "capacity_bytes": 8_u64 << 30, "answers": answers }).to_string(),
            )
            .unwrap()
        };
        let library = Library::built_in();
        let chosen = traces().into_iter().filter(|t| t.workload == "create" && t.filesystem == "ext4");
        let wanted = AdviceOptions {
            traces: chosen.collect(),
            state: CardState::Empty,
            needs: Vec::new(),
            write_bytes_per_day: 1 << 30,
            seed: 0,
        };
        let speed = |known: &DeviceFacts| {
            let advice = advise(&library, known, None, &wanted, &|_| ()).unwrap();
            let (filesystem, speed) =
                (&advice.points[1], advice.points.iter().find(|p| p.topic == "speed").unwrap());
            (filesystem.rests_on[0].clone(), speed.advice.clone())
        };
        let (likeness, none) = speed(&of(3306.0, json!(null)));
        assert!(likeness.starts_with("nothing of a card is visible"), "{likeness}");
        assert!(none.starts_with("nothing of a card is visible") && !none.contains("expect,"), "{none}");
        for known in [of(20.0, json!(null)), of(3306.0, json!(4 << 20))] {
            assert!(speed(&known).1.starts_with("expect,"), "{known:?}");
        }
    }

    #[test]
    fn needs_leave_filesystems_out() {
        assert_eq!(unmet(BlockFs::Ext4, &[Need::Root, Need::Fsck, Need::Trim, Need::PowerCuts]), None);
        assert_eq!(unmet(BlockFs::Vfat, &[Need::Boot, Need::Windows, Need::Fsck]), None);
        for (fs, need) in [
            (BlockFs::Vfat, Need::Root),
            (BlockFs::Vfat, Need::PowerCuts),
            (BlockFs::Nilfs2, Need::Fsck),
            (BlockFs::Ext4, Need::Boot),
            (BlockFs::F2fs, Need::Windows),
        ] {
            assert!(unmet(fs, &[Need::Trim, need]).is_some(), "{fs:?} {need:?}");
        }
        assert!(Need::ALL.into_iter().all(|need| Need::named(need.name()) == Some(need)));
    }

    /// A fake gets no life; a card that is about to die gets its short one.
    #[test]
    fn a_fake_gets_no_life() {
        let library = Library::built_in();
        for (name, has_life) in [("fake-wraps-32g", false), ("evil-8g", false), ("dying-8g", true)] {
            let card = load(&library, name, &[]).unwrap();
            let known = DeviceFacts::of_card(name, &card);
            assert_eq!(known.loses_data().is_none(), has_life, "{name}");
        }
    }
}
