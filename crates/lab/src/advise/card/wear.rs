//! Advice on speed and life.

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

/// Advice on the speed of a device without any sign of a card, for which no model is better than another.
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

/// Minimum relative difference between the long-term speed and the speed of one run of a trace at which both are
/// printed.
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
            "the first figure is that of one run of the workload, the second that of runs without a pause on a used card, whose cache and free blocks they use up. Each run writes the same files again, so that whole blocks become free; writes all over a used card are slower (`floatgate speed`)",
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

/// Number of blocks of a card with this capacity, including spare blocks.
pub(crate) fn flash_blocks(spec: &CardSpec, capacity_bytes: u64) -> u64 {
    capacity_bytes / spec.au_bytes.max(1) + u64::from(spec.spare_blocks)
}

/// Number of bytes that can be written to a new card until all blocks have reached their rated cycles.
fn life_bytes(spec: &CardSpec, capacity_bytes: u64, amplification: f64) -> f64 {
    let flash = flash_blocks(spec, capacity_bytes) as f64 * spec.au_bytes as f64;
    flash * spec.wear.rated_erases() / amplification
}

/// Advice on the life: bytes that can be written, and years.
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
    let used = known.life_used_percent.as_ref();
    let left = used.map_or(1.0, |used| (100 - used.value.min(100)) as f64 / 100.0);
    let has_area = spec.enhanced.bytes > 0;
    // Blocks of an enhanced area do not share their wear with other blocks, and the trace determines which blocks it
    // writes.
    let new_bytes = match has_area {
        true => geometric_mean(lives.iter().map(|life| life.rated_bytes)),
        false => life_bytes(spec, known.capacity_bytes, amplification),
    };
    let bytes = new_bytes * left;
    let level = if spec.wear.static_difference > 0 {
        "with static wear levelling"
    } else {
        "only if what is written moves over the whole card, as it has no static wear levelling"
    };
    let whose = if is_own {
        let source = model.part.source_of("card.wear.endurance_cycles");
        let sure =
            source.map_or_else(String::new, |source| format!(", {:.0} % sure", source.confidence * 100.0));
        format!("rated cycles of this card{sure}")
    } else {
        "cycles assumed: those of the most similar card of the catalogue; nothing measures them".to_owned()
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
    point = match has_area {
        true => lives.iter().fold(point, |point, life| point.rests_on(first_worn(life))).rests_on(format!(
            "{} of flash, of which {} blocks hold one bit per cell for good",
            size(blocks * spec.au_bytes),
            spec.enhanced_blocks()
        )),
        false => point
            .rests_on(format!("{} {whose}; retention is not part of it", spec.wear.endurance_cycles))
            .rests_on(format!(
                "{} of flash, {} spare blocks included",
                size(blocks * spec.au_bytes),
                spec.spare_blocks
            )),
    };
    point.rests_on(format!(
        "{amplification:.2} erased bytes of flash for each byte written, in the steady state of a used card: the geometric mean over the workloads"
    ))
    .unless(match spec.mapping {
        Mapping::Page => "the card is full: garbage collection multiplies the writes",
        _ => "programs write in more places at once than allocation units are open: each closes one and copies it",
    })
}

/// Text about the blocks that a workload wears out first: inside or outside of an enhanced area.
fn first_worn(life: &CardLife) -> String {
    let place = if life.is_enhanced { "of" } else { "outside" };
    format!(
        "{}: {} until the {} rated cycles of the {} blocks {place} the enhanced area",
        life.trace,
        life::terabytes(life.rated_bytes),
        life.endurance_cycles,
        life.wearing_blocks
    )
}

/// Maximum number of requests in the run from which the wear of a workload is computed.
const WEAR_REQUESTS_MAX: usize = 1 << 18;

/// Lives of the card under each workload of a filesystem in the long term. The simulated card is as small as the traces allow, with the same share
/// of spare blocks.
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

/// Number of erased bytes of flash per byte that the host writes: geometric mean over the workloads.
fn steady_amplification(lives: &[CardLife]) -> f64 {
    geometric_mean(lives.iter().map(|life| life.erased_per_written.max(0.01)))
}

fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    libm::exp(values.map(libm::log).sum::<f64>() / count)
}

/// Returns the card with the size that the traces need, and with the same share of spare blocks. A card with an enhanced area keeps its
/// size, because the area has its own blocks for a part of the sectors.
fn as_small_as_the_traces(model: &LoadedCard) -> LoadedCard {
    let mut card = at_least_the_traces(model.clone());
    let spec = &mut card.spec;
    if spec.enhanced.bytes > 0 {
        return card;
    }
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
    use super::super::tests::without_needs;
    use super::*;
    use crate::card::load;
    use floatgate_config::{Library, Override};

    fn card(name: &str, sets: &[&str]) -> LoadedCard {
        load(&Library::built_in(), name, &Override::parse_all(sets).unwrap()).unwrap()
    }

    /// The card of the replays is possible for each size of the enhanced area, also of one that is larger than the traces.
    #[test]
    fn a_card_of_the_replays_is_possible() {
        for name in ["emmc-16g", "a2-128g", "samsung-evo-16g", "cheap-class-10"] {
            as_small_as_the_traces(&card(name, &[])).spec.check().unwrap();
        }
        for area in ["8MiB", "2GiB", "3456MiB", "7456MiB"] {
            let set = format!("card.enhanced.bytes={area}");
            for sets in [vec![&*set], vec![&*set, "card.capacity_bytes=15GiB"]] {
                as_small_as_the_traces(&card("emmc-16g", &sets)).spec.check().unwrap();
            }
        }
        let small = card("emmc-16g", &["card.capacity_bytes=2GiB", "card.enhanced.bytes=1GiB"]);
        as_small_as_the_traces(&small).spec.check().unwrap();
    }

    /// The life ends when the first blocks wear out, here those of the enhanced area, as in `life`.
    #[test]
    fn a_life_is_that_of_the_blocks_which_wear_out_first() {
        let chosen = crate::card::shipped::traces().into_iter().filter(|t| t.name() == "f2fs-create");
        let wanted = without_needs(chosen);
        let point = |sets: &[&str]| {
            let card = card("emmc-16g", sets);
            let lives = lives(&card, BlockFs::F2fs, &wanted).unwrap();
            let known = DeviceFacts::of_card("emmc-16g", &card);
            let point = life_point(&known, (BlockFs::F2fs, &lives), &card, true, &wanted);
            (point, lives)
        };
        let area = "card.enhanced.bytes=2GiB";
        let (short, lives) = point(&[area, "card.enhanced.endurance_cycles=100"]);
        let told = life::terabytes(lives[0].rated_bytes);
        assert!(lives[0].is_enhanced && short.advice.contains(&format!("about {told} can")), "{short:?}");
        let reason = "until the 100 rated cycles of the 548 blocks of the enhanced area";
        assert!(short.rests_on.iter().any(|line| line.contains(reason)), "{short:?}");
        assert_eq!(lives[0].cycles_confidence, Some(1.0));
        let (plain, lives) = point(&[]);
        assert_eq!(lives[0].cycles_confidence, Some(0.3));
        let cycles = "1000 rated cycles of this card, 30 % sure; retention is not part of it";
        assert!(plain.rests_on.iter().any(|line| line == cycles), "{plain:?}");
    }
}
