//! Choice of the catalogue's card that represents a probed device.

use super::card::facts::DeviceFacts;
use super::figures::{Figures, UNLIKE, is_same};
use super::size;
use crate::Error;
use crate::card::speed::in_order_mb_s;
use crate::card::{LoadedCard, load};
use floatgate_card::{BusMode, CardRegisters, CardSpec};
use floatgate_config::{Kind, Library};
use floatgate_mtd::Nanos;

/// Number of rounds in which the array times are adjusted to the measured speeds. One round does not suffice, because bus and
/// array overlap.
const ROUNDS: u32 = 20;
/// Maximum factor by which a time changes in one round.
const CHANGE_MAX: f64 = 16.0;
/// Maximum relative deviation from the measured speed.
const NEAR: f64 = 0.02;

/// Distance of a card of the other kind: an eMMC and an SD card differ as by a figure that is four times the other's.
const OTHER_KIND: f64 = 1.39;

/// A card of the catalogue in place of a device.
pub(super) struct StandIn {
    /// The card, with sizes and speeds of the device.
    pub(super) card: LoadedCard,
    /// Name of the card, and what of it was changed, in words.
    pub(super) likeness: String,
    /// Figures of the card that are unlike the device's, in words.
    pub(super) warning: Option<String>,
}

/// The sound card of the catalogue whose probe is most like the device's probe, with the sizes and speeds of the device
/// where such a card can have them.
pub(super) fn stand_in(library: &Library, known: &DeviceFacts) -> Result<StandIn, Error> {
    let figures = known.figures_to_meet();
    let of_catalogue = Figures::of_catalogue()?;
    let mut cards = Vec::new();
    for name in library.names(Kind::Card) {
        let card = load(library, name, &[])?;
        if card.is_sound() {
            let own = of_catalogue.get(name).copied().unwrap_or_default().or_of(&card.spec);
            let is_other = known.is_emmc.is_some_and(|is_emmc| is_emmc != is_emmc_card(&card.spec));
            let distance = figures.distance(&own) + if is_other { OTHER_KIND } else { 0.0 };
            cards.push((distance, name.to_owned(), card, own));
        }
    }
    let nearest = cards.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, name, mut card, mut own) = nearest
        .ok_or_else(|| Error::request("the catalogue has no sound card", "name a card's TOML file"))?;
    let mut found = Vec::new();
    let is_other = |device: Option<f64>, card: Option<f64>| {
        device.filter(|device| card.is_none_or(|card| !is_same(*device, card))).map(|device| device as u64)
    };
    if let Some(au) = is_other(figures.erase_block, own.erase_block)
        && change(&mut card, |spec| spec.au_bytes = au)
    {
        own.erase_block = figures.erase_block;
        found.push(format!("allocation units of {}", size(au)));
    }
    if let Some(page) = is_other(figures.page, own.page)
        && change(&mut card, |spec| spec.page_bytes = page)
    {
        own.page = figures.page;
        found.push(format!("pages of {}", size(page)));
    }
    if let Some(open) = is_other(figures.open_aus_linear, own.open_aus_linear) {
        let open = u32::try_from(open).unwrap_or(u32::MAX);
        let limit = |spec: &mut CardSpec| {
            spec.open_aus = open;
            spec.open_aus_random = spec.open_aus_random.min(open);
        };
        if change(&mut card, limit) {
            own.open_aus_linear = figures.open_aus_linear;
            found.push(format!("{open} open"));
        }
    }
    let capacity = known.capacity_bytes / card.spec.au_bytes * card.spec.au_bytes;
    if known.capacity_bytes != card.spec.capacity_bytes
        && change(&mut card, |spec| spec.capacity_bytes = capacity)
    {
        own.capacity = figures.capacity;
        found.push(size(capacity));
    }
    if known.is_card_visible
        && let Some(spec) = at_speeds(&card.spec, speeds_to_reach(&card.spec, known, &own)?)?
    {
        let [reads, writes] = in_order_mb_s(&spec)?;
        card.spec = spec;
        own.read_speed = figures.read_speed;
        own.write_speed = figures.write_speed;
        found.push(format!("{reads:.1} MB/s of reads and {writes:.1} of writes in order"));
    }
    let with = if found.is_empty() { String::new() } else { format!(", with {}", found.join(", ")) };
    let likeness = match known.is_card_visible {
        true => format!("traces replayed on {name}, the most similar card of the catalogue{with}"),
        false => format!("nothing of a card is visible: traces replayed on {name}{with}, as is usual"),
    };
    let unlike = figures.unlike(&own);
    let warning = (known.is_card_visible && !unlike.is_empty()).then(|| {
        format!(
            "warning: {name} differs by more than {UNLIKE} times from the probed device, and with it the speeds: {}",
            unlike.join("; ")
        )
    });
    Ok(StandIn { card, likeness, warning })
}

/// Changes a card, with the spare blocks that it then needs, if such a card is possible.
fn change(card: &mut LoadedCard, change: impl FnOnce(&mut CardSpec)) -> bool {
    let mut changed = card.spec.clone();
    change(&mut changed);
    changed.spare_blocks =
        changed.spare_blocks.max(u32::try_from(changed.needed_spare_blocks()).unwrap_or(u32::MAX));
    let is_possible = changed.check().is_ok();
    if is_possible {
        card.spec = changed;
    }
    is_possible
}

fn is_emmc_card(spec: &CardSpec) -> bool {
    CardRegisters::of(spec).ext_csd.is_some()
}

/// Speeds in order that the card is to have, MB/s: none if its probe found those of the device.
fn speeds_to_reach(spec: &CardSpec, known: &DeviceFacts, own: &Figures) -> Result<[Option<f64>; 2], Error> {
    let is_as_fast = |measured: Option<f64>, own: Option<f64>| {
        measured.is_none_or(|mb_s| own.is_some_and(|own| is_same(mb_s, own)))
    };
    let [reads, writes] = known.mb_s;
    if is_as_fast(reads, own.read_speed) && is_as_fast(writes, own.write_speed) {
        return Ok([None; 2]);
    }
    // A probe measures writes behind the cache; those of `in_order_mb_s` end in it.
    let behind = known.figures.slc_cache.and(own.slc_cache).and(own.write_speed);
    let writes = match (writes, behind) {
        (Some(mb_s), Some(behind)) => Some(in_order_mb_s(spec)?[1] * mb_s / behind),
        (mb_s, _) => mb_s,
    };
    Ok([reads, writes])
}

/// Card with a bus and array times at which sequential reads and writes have the measured speeds. `None` if no speed was measured, or if such times
/// are impossible.
fn at_speeds(spec: &CardSpec, measured: [Option<f64>; 2]) -> Result<Option<CardSpec>, Error> {
    let mut spec = spec.clone();
    let Some(fastest) = measured.into_iter().flatten().reduce(f64::max) else { return Ok(None) };
    let carries = |mode: &BusMode| mode.mb_s() >= fastest;
    spec.bus = BusMode::ALL.into_iter().find(carries).unwrap_or(BusMode::Hs200).max(spec.bus);
    for _ in 0..ROUNDS {
        if spec.check().is_err() {
            return Ok(None);
        }
        let own = in_order_mb_s(&spec)?;
        let change = |direction: usize| measured[direction].map_or(1.0, |mb_s| own[direction] / mb_s);
        let [reads, writes] = [change(0), change(1)].map(|by| by.clamp(1.0 / CHANGE_MAX, CHANGE_MAX));
        if [reads, writes].iter().all(|by| (by - 1.0).abs() <= NEAR) {
            break;
        }
        let timing = &mut spec.timing;
        for time in [&mut timing.t_r_us, &mut timing.read_command_us, &mut spec.slc.t_r_us] {
            *time = scaled(*time, reads);
        }
        for time in [
            &mut timing.t_prog_us,
            &mut timing.t_bers_us,
            &mut timing.write_command_us,
            &mut spec.slc.t_prog_us,
        ] {
            *time = scaled(*time, writes);
        }
        // Reads and writes share the channel, so it must be fast enough for the faster of them.
        timing.transfer_ns_per_kib = scaled(timing.transfer_ns_per_kib, reads.min(writes).min(1.0));
    }
    Ok(spec.check().is_ok().then_some(spec))
}

fn scaled(time: Nanos, by: f64) -> Nanos {
    Nanos::from_ns((time.as_ns() as f64 * by).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use floatgate_testing::few_or_all;
    use serde_json::json;

    /// An eMMC is not represented by a slow SD card with the same allocation unit, and a slow card not by a fast one.
    #[test]
    fn the_card_is_as_fast_as_the_device() {
        for measured in
            [[180.0, 90.0], [22.0, 9.5], [90.0, 4.0], [11.0, 11.0], [12.0, 24.0], [60.0, 10.0], [2.0, 0.3]]
        {
            let answers = json!({
                "erase_block": {"value": 4 << 20, "confidence": 0.9},
                "read_speed": {"value": measured[0]},
                "write_speed": {"value": measured[1]},
            });
            let probed = json!({"capacity_bytes": 15_634_268_160_u64, "answers": answers});
            let known = DeviceFacts::of_probe("probed", &probed.to_string()).unwrap();
            let StandIn { card, likeness, .. } = stand_in(&Library::built_in(), &known).unwrap();
            for (own, mb_s) in in_order_mb_s(&card.spec).unwrap().into_iter().zip(measured) {
                assert!((own / mb_s - 1.0).abs() < 0.1, "{measured:?}: {own} {likeness}");
            }
        }
    }

    fn probed(figures: &Figures, capacity_bytes: u64) -> DeviceFacts {
        let answer = |value: Option<f64>| json!({ "value": value, "confidence": 0.9 });
        let count =
            |value: Option<f64>| json!({ "value": value.map(|value| value as u64), "confidence": 0.9 });
        let answers = json!({
            "erase_block": count(figures.erase_block), "page": count(figures.page),
            "open_aus_linear": count(figures.open_aus_linear), "buffer": count(figures.buffer),
            "slc_cache": count(figures.slc_cache), "write_speed": answer(figures.write_speed),
            "steady_state": answer(figures.steady_state), "small_writes": answer(figures.small_writes),
            "read_speed": answer(figures.read_speed), "read_latency": answer(figures.read_latency),
        });
        let probed = json!({ "capacity_bytes": capacity_bytes, "answers": answers });
        DeviceFacts::of_probe("probed", &probed.to_string()).unwrap()
    }

    /// The advice from the probe of a card is that on the card itself.
    #[test]
    fn a_card_of_the_catalogue_is_found_by_its_probe() {
        let library = Library::built_in();
        let few = ["a1-32g", "a2-128g", "emmc-16g", "kingston-class-10"];
        let cards = Figures::of_catalogue().unwrap().into_iter();
        for (name, figures) in cards.filter(|(name, _)| few_or_all(few.contains(&&**name), true)) {
            let spec = load(&library, &*name, &[]).unwrap().spec;
            let found = stand_in(&library, &probed(&figures, spec.capacity_bytes)).unwrap();
            let says = format!("traces replayed on {name}, the most similar card of the catalogue");
            assert_eq!((found.likeness, found.warning), (says, None));
            assert!(found.card.spec == spec, "{name}");
        }
    }

    /// No card writes 4 KiB at random with 200 MB/s, and the advice says so.
    #[test]
    fn a_figure_that_no_card_has_is_warned_of() {
        let known = Figures { erase_block: Some(4_194_304.0), read_speed: Some(24.0), ..Figures::default() };
        let of = |small_writes| {
            let figures = Figures { small_writes, ..known };
            stand_in(&Library::built_in(), &probed(&figures, 8 << 30)).unwrap().warning
        };
        assert_eq!(of(None), None);
        let warning = of(Some(200.0)).unwrap();
        assert!(warning.contains("2 times") && warning.contains("not 200 MB/s"), "{warning}");
    }
}
