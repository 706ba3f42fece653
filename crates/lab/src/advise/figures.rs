//! Figures of a probe that distinguish cards, and the figures of probes of the catalogue's cards.

use crate::Error;
use floatgate_card::CardSpec;
use floatgate_mtd::size::text as size;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Figures of the catalogue's cards.
const CATALOGUE: &str = include_str!("../../data/probes.toml");

/// Factor from which two figures differ: noise of a probe is below it.
const SAME: f64 = 1.05;

/// Factor above which a figure of the most similar card is called unlike the device.
pub(super) const UNLIKE: f64 = 2.0;

/// A figure in words, with its unit and its weight in the distance of two cards.
struct Figure {
    words: &'static str,
    unit: &'static str,
    weight: f64,
    value: Option<f64>,
}

/// Figures that a probe found; none where it did not. Names and units are those of a probe's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Figures {
    /// Allocation unit, B.
    pub(crate) erase_block: Option<f64>,
    /// Page, B.
    pub(crate) page: Option<f64>,
    /// Number of allocation units that can be open.
    pub(crate) open_aus_linear: Option<f64>,
    /// Buffer in front of the flash, B.
    pub(crate) buffer: Option<f64>,
    /// Cache of cells with one bit, B.
    pub(crate) slc_cache: Option<f64>,
    /// Writes in order, behind the cache, MB/s.
    pub(crate) write_speed: Option<f64>,
    /// Writes of 16 KiB at random in the steady state, MB/s.
    pub(crate) steady_state: Option<f64>,
    /// Writes of 4 KiB at random, MB/s.
    pub(crate) small_writes: Option<f64>,
    /// Reads in order, MB/s.
    pub(crate) read_speed: Option<f64>,
    /// Median time of a small read, us.
    pub(crate) read_latency: Option<f64>,
    /// Capacity, B.
    pub(crate) capacity: Option<f64>,
}

impl Figures {
    /// Figures of the cards of the catalogue by name. Cards that lose data have none.
    pub(super) fn of_catalogue() -> Result<BTreeMap<String, Self>, Error> {
        let bug = "this is a bug in floatgate: please report it";
        toml::from_str(CATALOGUE).map_err(|error| Error::request(error.to_string(), bug))
    }

    /// The figures, with those of the specification where a probe of the card does not show them.
    pub(super) fn or_of(self, spec: &CardSpec) -> Self {
        let open = Some(f64::from(spec.open_aus)).filter(|open| *open > 0.0);
        Self {
            erase_block: self.erase_block.or(Some(spec.au_bytes as f64)),
            page: self.page.or(Some(spec.page_bytes as f64)),
            open_aus_linear: self.open_aus_linear.or(open),
            capacity: Some(spec.capacity_bytes as f64),
            ..self
        }
    }

    /// All of them. Sizes of pages and buffers, and times behind a cache, are less certain than speeds, and count less.
    fn all(&self) -> [Figure; 11] {
        let figure = |words, unit, weight, value| Figure { words, unit, weight, value };
        [
            figure("allocation unit", "B", 1.0, self.erase_block),
            figure("page", "B", 0.25, self.page),
            figure("open allocation units", "", 0.5, self.open_aus_linear),
            figure("buffer", "B", 0.25, self.buffer),
            figure("cache", "B", 0.25, self.slc_cache),
            figure("writes in order", "MB/s", 1.0, self.write_speed),
            figure("writes of 16 KiB at random", "MB/s", 0.5, self.steady_state),
            figure("writes of 4 KiB at random", "MB/s", 1.0, self.small_writes),
            figure("reads in order", "MB/s", 1.0, self.read_speed),
            figure("a small read", "us", 0.5, self.read_latency),
            figure("capacity", "B", 0.25, self.capacity),
        ]
    }

    /// Pairs of the figures that both have.
    fn pairs(&self, other: &Self) -> impl Iterator<Item = (Figure, f64, f64)> {
        let of_both = self.all().into_iter().zip(other.all());
        of_both.filter_map(|(own, other)| {
            let (one, two) = (own.value?, other.value?);
            Some((own, one, two))
        })
    }

    /// Mean of the logarithms of the ratios of all figures that both have, by weight.
    pub(super) fn distance(&self, other: &Self) -> f64 {
        let (mut sum, mut weights) = (0.0, 0.0);
        for (figure, one, two) in self.pairs(other) {
            sum += figure.weight * libm::log(factor(one, two));
            weights += figure.weight;
        }
        if weights > 0.0 { sum / weights } else { 0.0 }
    }

    /// Figures of a card that differ from these by more than [`UNLIKE`] times, a phrase each.
    pub(super) fn unlike(&self, card: &Self) -> Vec<String> {
        let differing = self.pairs(card).filter(|(_, probed, own)| factor(*probed, *own) > UNLIKE);
        let phrase = |(figure, probed, own): (Figure, f64, f64)| {
            let Figure { words, unit, .. } = figure;
            format!("{words} {}, not {}", quantity(own, unit), quantity(probed, unit))
        };
        differing.map(phrase).collect()
    }
}

/// The larger of two figures over the smaller one.
fn factor(one: f64, two: f64) -> f64 {
    (one / two).max(two / one)
}

/// True for figures that noise alone may make different.
pub(super) fn is_same(one: f64, two: f64) -> bool {
    factor(one, two) <= SAME
}

/// A figure above 0 that can be compared.
pub(super) fn comparable(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value > 0.0)
}

fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "B" => size(value as u64),
        "" => value.to_string(),
        unit => format!("{value} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::load;
    use floatgate_card::{BadSpec, Card, CardOptions, Fake};
    use floatgate_config::{Kind, Library};
    use floatgate_probe::{Noise, Simulated, Value, conclude, probe_simulated};

    fn probed(spec: &CardSpec) -> Figures {
        let make = |stores| {
            let card = Fake::<Card>::of_spec(spec, CardOptions { seed: 0, stores })?;
            Ok::<_, BadSpec>(Simulated::new(card, Some(Noise { seed: 0, scale: 1.0 })))
        };
        let (samples, trouble) = probe_simulated(make, 0, true, |_| false).unwrap();
        assert!(trouble.is_none(), "{trouble:?}");
        let answers = conclude(&samples);
        let of = |value: Option<Value>| match value {
            Some(Value::Count(count)) => comparable(Some(count as f64)),
            Some(Value::Measure(measure)) => comparable(Some(measure)),
            Some(Value::Word(_)) | None => None,
        };
        Figures {
            erase_block: of(answers.erase_block.value),
            page: of(answers.page.value),
            open_aus_linear: of(answers.open_aus_linear.value),
            buffer: of(answers.buffer.value),
            slc_cache: of(answers.slc_cache.value),
            write_speed: of(answers.write_speed.value),
            steady_state: of(answers.steady_state.value),
            small_writes: of(answers.small_writes.value),
            read_speed: of(answers.read_speed.value),
            read_latency: of(answers.read_latency.value),
            capacity: None,
        }
    }

    fn sound_cards() -> BTreeMap<String, CardSpec> {
        let library = Library::built_in();
        let cards =
            library.names(Kind::Card).map(|name| (name.to_owned(), load(&library, name, &[]).unwrap()));
        cards.filter(|(_, card)| card.is_sound()).map(|(name, card)| (name, card.spec)).collect()
    }

    #[test]
    fn every_sound_card_has_its_figures() {
        let known = Figures::of_catalogue().unwrap();
        assert!(sound_cards().keys().eq(known.keys()));
    }

    #[test]
    #[ignore = "probes all cards"]
    fn slow_figures_of_the_catalogue_are_those_of_its_probes() {
        let known = Figures::of_catalogue().unwrap();
        for (name, spec) in sound_cards() {
            let found = probed(&spec);
            assert_eq!(Some(&found), known.get(&name), "{name}: {found:?}");
        }
    }

    #[test]
    fn figures_that_differ_are_named() {
        let of = |small_writes: f64| Figures {
            small_writes: Some(small_writes),
            page: Some(16384.0),
            ..Figures::default()
        };
        assert_eq!(of(16.3).unlike(&of(0.25)), ["writes of 4 KiB at random 0.25 MB/s, not 16.3 MB/s"]);
        assert!(of(16.3).unlike(&of(10.0)).is_empty());
        assert!((of(8.0).distance(&of(1.0)) - libm::log(8.0) / 1.25).abs() < 1e-9);
        assert_eq!(Figures::default().distance(&of(1.0)), 0.0);
    }
}
