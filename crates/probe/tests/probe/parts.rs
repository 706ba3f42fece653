//! The cards of the catalogue: what a probe of each takes, and whether its printed classes hold.

use floatgate_card::{Card, CardOptions, CardSpec, Fake};
use floatgate_probe::{Answers, Cost, Noise, Simulated, Value, conclude, probe_simulated};
use floatgate_testing::few_or_all;
use std::collections::BTreeMap;
use std::path::Path;

/// Cards of the catalogue by name.
fn cards() -> BTreeMap<String, CardSpec> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/data/parts/cards");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let card = |path: std::path::PathBuf| {
        let part: toml::Table = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), part["card"].clone().try_into().unwrap())
    };
    paths.map(card).collect()
}

fn probed(spec: &CardSpec, write: bool) -> (Cost, Answers) {
    let make = |stores| {
        let card = Fake::<Card>::of_spec(spec, CardOptions { seed: 0, stores })?;
        Ok::<_, floatgate_card::BadSpec>(Simulated::new(card, Some(Noise { seed: 0, scale: 1.0 })))
    };
    let (samples, trouble) = probe_simulated(make, 0, write, |_| false).unwrap();
    assert!(trouble.is_none(), "{trouble:?}");
    (samples.cost, conclude(&samples))
}

/// Limits of a probe that only reads, of a card of up to 32 GB, and of one that writes.
const READ_NS: u64 = 90_000_000_000;
const WRITE_NS: u64 = 600_000_000_000;
const WRITE_BYTES: u64 = 2 << 30;

/// Classes that cards must be found to reach: those that are printed on them, or what Chubb (2015) says of a cheap card of class 10.
const CLASSES: [(&str, &str, &str); 5] = [
    ("a1-32g", "C10", "A1"),
    // A2 takes a command queue, and the probe sends one request at a time.
    ("a2-128g", "U3", "A1"),
    ("emmc-16g", "C10", "A2"),
    ("cheap-class-10", "C10", "none"),
    ("class-4-8g", "C4", "none"),
];

#[test]
fn every_card_is_probed_in_time() {
    let cards = cards().into_iter();
    let cards: Vec<(String, CardSpec)> = cards.step_by(few_or_all(5, 1)).collect();
    let probes = |cards: &[(String, CardSpec)]| -> Vec<_> {
        cards.iter().map(|(_, spec)| (probed(spec, false), probed(spec, true))).collect()
    };
    let (first, second) = cards.split_at(cards.len() / 2);
    let probes = std::thread::scope(|scope| {
        let first = scope.spawn(|| probes(first));
        let second = probes(second);
        [first.join().unwrap(), second].concat()
    });
    for ((name, spec), ((reads, _), (writes, answers))) in cards.iter().zip(probes) {
        let Answers { class, app_class, planes, .. } = answers;
        println!("{name}: {} planes: {planes:?}", spec.planes);
        assert!(planes.count().is_none_or(|planes| planes == u64::from(spec.planes)), "{name}: {planes:?}");
        let row = |cost: Cost| {
            format!(
                "{:.0} s | {} MiB | {} MiB",
                cost.ns as f64 / 1e9,
                cost.read_bytes >> 20,
                cost.written_bytes >> 20
            )
        };
        let word = |value: Option<Value>| match value {
            Some(Value::Word(word)) => word,
            _ => "?",
        };
        println!(
            "| {name} | {:.0} s | {} | {} | {} | {}; {}",
            reads.ns as f64 / 1e9,
            row(writes),
            word(class.value),
            word(app_class.value),
            class.reason,
            app_class.reason
        );
        let expected = CLASSES.iter().find(|(card, ..)| *card == name.as_str());
        if let Some((_, speed, app)) = expected {
            assert_eq!(
                (word(class.value), word(app_class.value)),
                (*speed, *app),
                "{name}: {}",
                class.reason
            );
        }
        assert!(reads.ns <= READ_NS && reads.written_bytes == 0, "{name}: {reads:?}");
        assert!(writes.ns <= WRITE_NS && writes.written_bytes <= WRITE_BYTES, "{name}: {writes:?}");
    }
}

#[test]
fn planes_are_found_where_a_card_has_them() {
    let cards = cards();
    let known = [("emmc-16g", 4), ("kingston-class-10", 2), ("class-4-8g", 4), ("emmc-16g", 2)];
    for (name, planes) in known.into_iter().take(few_or_all(2, 4)) {
        let mut spec = cards[name].clone();
        // Pages on several dies are read at the same time, and smaller map units may lie on any pages: both hide planes.
        (spec.dies, spec.planes, spec.map_unit_bytes) = (1, planes, 0);
        let found = probed(&spec, true).1.planes;
        println!("{name}: {planes} planes: {found:?}");
        assert_eq!(found.count(), Some(planes.into()), "{name}");
    }
}
