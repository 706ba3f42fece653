//! Advice on a card or block device, whose properties are known from the catalogue or from a probe.
//!
//! The filesystem is chosen by replays of the included traces ([`crate::card::compare`]). They run on the card of the
//! catalogue, or on the card that is most similar to the probed device, with the measured sizes.

pub(super) mod facts;
mod points;
mod probed;
mod two;
mod wear;

pub use facts::{DeviceFacts, Evidence, Partition};
pub(crate) use wear::flash_blocks;

use super::mkfs::{BlockFs, Need, PartitionShape, recipe, too_small_for};
use super::stand_in::{StandIn, stand_in};
use super::{Advice, Point, size};
use crate::Error;
use crate::card::LoadedCard;
use crate::card::compare::{Matrix, NamedCard, compare};
use crate::card::shipped::{ShippedTrace, capacity_bytes_min};
use crate::card::state::CardState;
use crate::progress::Listener;
use facts::FIRST_MIN;
use floatgate_config::Library;
use points::{
    existing_point, filesystem_point, no_filesystem_point, partition_point, recipe_point, size_point,
    trust_point,
};
use wear::{life_point, lives, no_speed_point, speed_point};

/// Default number of bytes written to a card per day.
pub const BYTES_PER_DAY: u64 = 1 << 30;

/// Options of advice on a card or block device.
#[derive(Clone, Debug)]
pub struct AdviceOptions {
    /// Traces of the filesystems and workloads to compare.
    pub traces: Vec<ShippedTrace>,
    /// Requirements on the filesystem.
    pub needs: Vec<Need>,
    /// State of the card before the traces.
    pub state: CardState,
    /// Number of bytes written per day, for the life in years.
    pub write_bytes_per_day: u64,
    /// Seed of the card's bad blocks and errors.
    pub seed: u64,
}

/// Advice on a device. `card` is its card in the catalogue, if known. `progress` receives the progress of the replays.
///
/// # Errors
/// A device that is too small for a partition, or that resembles no card of the catalogue.
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
                "{}: it has {}, and a partition of {} that begins at a border of an allocation unit, at {}, does not fit",
                known.target,
                size(known.capacity_bytes),
                size(FIRST_MIN),
                size(start)
            ),
            format!(
                "take a card of {} or more",
                size(start.saturating_add(known.au_bytes.value.max(FIRST_MIN)))
            ),
        ));
    }
    let StandIn { card: model, likeness, warning } = match card {
        Some(card) => StandIn {
            card: card.clone(),
            likeness: format!("traces replayed on {}", known.target),
            warning: None,
        },
        None => stand_in(library, known)?,
    };
    let known = &known.with_open_aus_of(&model.spec);
    let two = two::TwoPartitions::of(known, &wanted.needs)?;
    let (start, place) = two.as_ref().map_or_else(|| known.place(), |two| (two.root_start, two.root));
    let needs = match two {
        Some(_) => two::TwoPartitions::needs_of_root(&wanted.needs),
        None => wanted.needs.clone(),
    };
    let replayed = at_least_the_traces(model.clone());
    let likeness = match enlarged(&model, &replayed, &wanted.traces)? {
        Some(larger) => format!("{likeness}. {larger}"),
        None => likeness,
    };
    let named = NamedCard { name: known.target.clone(), card: replayed };
    let matrix = compare(&[named], &wanted.traces, wanted.state, wanted.seed, progress)?;
    let unfit = |fs: BlockFs| unmet(fs, &needs, &place);
    let fs = best(&matrix, &unfit)?;
    let mut points = Vec::new();
    points.extend(trust_point(known));
    points.extend(size_point(known));
    let lost = known.loses_data();
    if !known.is_untrue {
        points.push(partition_point(known, fs, start, &place));
    }
    if let Some(reason) = &lost {
        points.push(no_filesystem_point(known, reason));
    } else {
        points.push(filesystem_point(&matrix, fs, &likeness, &wanted.needs, &unfit));
        points.push(recipe_point(known, &recipe(fs, &place), fs, &wanted.needs));
    }
    points.extend(existing_point(known, &place));
    // The value that the device reports has priority over other evidence.
    let has_life = known.is_card_visible || known.life_used_percent.is_some();
    let lives = match &lost {
        None if has_life => lives(&model, fs, wanted)?,
        _ => Vec::new(),
    };
    if lost.is_none() {
        points.push(match known.is_card_visible {
            true => speed_point(known, (&matrix, &lives), fs, &model, wanted)?,
            false => no_speed_point(known),
        });
    }
    if let Some(reason) = lost {
        points.push(
            Point::new("life", "no life is promised: it does not keep what is written").rests_on(reason),
        );
    } else if has_life {
        points.push(life_point(known, (fs, &lives), &model, card.is_some(), wanted));
    }
    if let Some(two) = &two {
        two.lay_out(&mut points, known, fs);
    }
    let is_about_filesystem = |point: &&mut Point| point.topic == "filesystem";
    let warning = warning.filter(|_| known.loses_data().is_none());
    if let (Some(warning), Some(point)) = (warning, points.iter_mut().find(is_about_filesystem)) {
        point.rests_on.insert(point.rests_on.len().min(1), warning);
    }
    Ok(Advice {
        target: known.target.clone(),
        board: None,
        title: known.title.clone(),
        capacity_bytes: known.capacity_bytes,
        points,
    })
}

/// Returns the card, enlarged if necessary for the traces. Apart from that, their times do not depend on the size.
pub(crate) fn at_least_the_traces(mut card: LoadedCard) -> LoadedCard {
    let least = capacity_bytes_min(card.spec.au_bytes);
    if card.spec.capacity_bytes < least {
        card.spec.capacity_bytes = least.next_multiple_of(card.spec.au_bytes.max(1));
    }
    card
}

/// Sentences about a card that is too small for the partitions of the traces: the capacity that the workloads need, and the card of the replays.
pub(crate) fn enlarged(
    card: &LoadedCard,
    replayed: &LoadedCard,
    traces: &[ShippedTrace],
) -> Result<Option<String>, Error> {
    let (own, larger) = (card.spec.capacity_bytes, replayed.spec.capacity_bytes);
    if larger <= own {
        return Ok(None);
    }
    let mut most = (0, String::new());
    for trace in traces {
        let bytes = trace.requests(card.spec.au_bytes)?.footprint_bytes();
        most = most.max((bytes, trace.name()));
    }
    let (needed, trace) = most;
    let room = if needed <= own { "has room for it" } else { "is too small for it" };
    Ok(Some(format!(
        "The workloads need a card of {} or more: {trace} writes to as much of it, with the filesystem's own structures. This card of {} {room}. The traces are of partitions of 3 GiB, so that a card of {} was replayed in its place.",
        size(needed.next_multiple_of(1 << 20)),
        size(own),
        size(larger)
    )))
}

/// Fastest filesystem over all workloads among those that meet all requirements. `unfit` returns the reason against a filesystem.
fn best(matrix: &Matrix, unfit: &dyn Fn(BlockFs) -> Option<&'static str>) -> Result<BlockFs, Error> {
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
    let found = ranked.iter().copied().find(|fs| unfit(*fs).is_none());
    found.ok_or_else(|| {
        let reasons: Vec<String> =
            ranked.iter().filter_map(|fs| Some(format!("not {}: {}", fs.name(), unfit(*fs)?))).collect();
        Error::request(
            format!("no filesystem meets all needs: {}", reasons.join("; ")),
            "make two partitions, and ask for each with its own needs: one of FAT, one for the root",
        )
    })
}

/// Reason against a filesystem: the first requirement that it does not meet, or a partition that is too small for it.
fn unmet(fs: BlockFs, needs: &[Need], place: &PartitionShape) -> Option<&'static str> {
    needs.iter().find_map(|need| need.unmet_by(fs)).or_else(|| too_small_for(fs, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::load;
    use crate::card::shipped::traces;
    use serde_json::{Value, json};

    /// Options for some traces on an empty card, without requirements on the filesystem.
    pub(super) fn without_needs(traces: impl Iterator<Item = ShippedTrace>) -> AdviceOptions {
        AdviceOptions {
            traces: traces.collect(),
            state: CardState::Empty,
            needs: Vec::new(),
            write_bytes_per_day: 1 << 30,
            seed: 0,
        }
    }

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
        let wanted = without_needs(chosen);
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
            ("dies-at-cut-8g", Some("may not start any more")),
            ("samsung-evo-16g", None),
        ] {
            let point = trust_point(&known(name));
            assert_eq!(point.is_some(), reason.is_some(), "{name}: {point:?}");
            assert!(point.is_none_or(|point| point.advice.contains(reason.unwrap())), "{name}");
            let unfit = known(name).untrusted_reason();
            assert_eq!(unfit.is_some(), reason.is_some(), "{name}: {unfit:?}");
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

    /// A partition of old fdisk versions, which begins at sector 63, does not fit measured, reported or assumed allocation
    /// units.
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

    /// Reads at 3 GB/s come from memory, so the card behind them is unknown.
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
        let wanted = without_needs(chosen);
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
        let (_, place) = probed(4 << 20, 0, 5).place();
        assert_eq!(
            unmet(BlockFs::Ext4, &[Need::Root, Need::Fsck, Need::Trim, Need::PowerCuts], &place),
            None
        );
        assert_eq!(unmet(BlockFs::Vfat, &[Need::Boot, Need::Windows, Need::Fsck], &place), None);
        for (fs, need) in [
            (BlockFs::Vfat, Need::Root),
            (BlockFs::Vfat, Need::PowerCuts),
            (BlockFs::Nilfs2, Need::Fsck),
            (BlockFs::Ext4, Need::Boot),
            (BlockFs::F2fs, Need::Windows),
        ] {
            assert!(unmet(fs, &[Need::Trim, need], &place).is_some(), "{fs:?} {need:?}");
        }
        assert!(Need::ALL.into_iter().all(|need| Need::named(need.name()) == Some(need)));
    }

    /// No life is stated for a fake. A card that is about to die gets its short life.
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
