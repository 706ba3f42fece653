//! Choice of the catalogue's card that represents a probed device.

use super::card::facts::DeviceFacts;
use super::size;
use crate::Error;
use crate::card::speed::in_order_mb_s;
use crate::card::{LoadedCard, load};
use floatgate_card::{BusMode, CardSpec};
use floatgate_config::{Kind, Library};
use floatgate_mtd::Nanos;

/// Number of rounds in which the array times are adjusted to the measured speeds. One round does not suffice, because bus and
/// array overlap.
const ROUNDS: u32 = 20;
/// Maximum factor by which a time changes in one round.
const CHANGE_MAX: f64 = 16.0;
/// Maximum relative deviation from the measured speed.
const NEAR: f64 = 0.02;

/// Trustworthy card of the catalogue that is most similar to the device, with the sizes and speeds of the device if
/// they are possible for it.
pub(super) fn stand_in(library: &Library, known: &DeviceFacts) -> Result<(LoadedCard, String), Error> {
    let distance = |spec: &CardSpec| -> Result<f64, Error> {
        let ratio = |a: u64, b: u64| (a.max(1) as f64 / b.max(1) as f64).ln().abs();
        let measured = in_order_mb_s(spec)?.into_iter().zip(known.mb_s);
        let speeds: f64 = measured.filter_map(|(own, mb_s)| Some((own / mb_s?).ln().abs())).sum();
        Ok(ratio(spec.au_bytes, known.au_bytes.value)
            + ratio(u64::from(spec.open_aus), known.open_aus.value)
            + ratio(spec.page_bytes, known.page_bytes.value)
            + ratio(spec.capacity_bytes, known.capacity_bytes) / 4.0
            + speeds)
    };
    let mut cards = Vec::new();
    for name in library.names(Kind::Card) {
        let card = load(library, name, &[])?;
        if card.is_sound() {
            cards.push((distance(&card.spec)?, name.to_owned(), card));
        }
    }
    let nearest = cards.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, name, mut card) = nearest
        .ok_or_else(|| Error::request("the catalogue has no sound card", "name a card's TOML file"))?;
    let mut found = Vec::new();
    let mut put = |what: String, change: &dyn Fn(&mut CardSpec)| {
        let mut changed = card.spec.clone();
        change(&mut changed);
        changed.spare_blocks =
            changed.spare_blocks.max(u32::try_from(changed.needed_spare_blocks()).unwrap_or(u32::MAX));
        if changed.check().is_ok() {
            card.spec = changed;
            found.push(what);
        }
    };
    let (au, page) = (known.au_bytes.value, known.page_bytes.value);
    put(format!("allocation units of {}", size(au)), &|spec| spec.au_bytes = au);
    put(format!("pages of {}", size(page)), &|spec| spec.page_bytes = page);
    let open = u32::try_from(known.open_aus.value).unwrap_or(u32::MAX);
    put(format!("{open} open"), &|spec| {
        spec.open_aus = open;
        spec.open_aus_random = spec.open_aus_random.min(open);
    });
    let capacity = known.capacity_bytes / au * au;
    put(size(capacity), &|spec| spec.capacity_bytes = capacity);
    if known.is_card_visible
        && let Some(spec) = at_speeds(&card.spec, known.mb_s)?
    {
        let [reads, writes] = in_order_mb_s(&spec)?;
        card.spec = spec;
        found.push(format!("{reads:.1} MB/s of reads and {writes:.1} of writes in order"));
    }
    let found = found.join(", ");
    let likeness = match known.is_card_visible {
        true => format!("traces replayed on {name}, the most similar card of the catalogue, with {found}"),
        false => {
            format!("nothing of a card is visible: traces replayed on {name} with what is usual, {found}")
        }
    };
    Ok((card, likeness))
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
            let (card, likeness) = stand_in(&Library::built_in(), &known).unwrap();
            for (own, mb_s) in in_order_mb_s(&card.spec).unwrap().into_iter().zip(measured) {
                assert!((own / mb_s - 1.0).abs() < 0.1, "{measured:?}: {own} {likeness}");
            }
        }
    }
}
