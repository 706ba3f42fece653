//! Points on speed and life.

use super::super::mkfs::BlockFs;
use super::super::{Point, size};
use super::facts::DeviceFacts;
use super::points::cells;
use super::{AdviceOptions, at_least_the_traces};
use crate::Error;
use crate::card::LoadedCard;
use crate::card::compare::Matrix;
use crate::card::life::{CardLife, TraceWear, by_trace};
use crate::card::shipped::{ShippedTrace, capacity_bytes_min};
use crate::card::state::CardState;
use crate::life;
use floatgate_card::{CardSpec, Mapping};
use floatgate_mtd::advice;
use floatgate_mtd::advice::{Command, CommandOption};
use rayon::prelude::*;

/// Point on speed for a device that shows no sign of a card: no model would be better than another.
pub(super) fn no_speed_point(known: &DeviceFacts) -> Point {
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

pub(super) fn speed_point(
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
pub(super) fn life_point(
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
pub(super) fn lives(model: &LoadedCard, fs: BlockFs, wanted: &AdviceOptions) -> Result<Vec<CardLife>, Error> {
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
