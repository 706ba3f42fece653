//! How fast the simulated card is: `cargo bench --bench card`. Results in docs/performance.md.
#![allow(missing_docs, reason = "a benchmark has no users")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop")]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use floatgate_card::{Card, CardOptions, CardSpec};
use floatgate_mtd::BlockDevice;
use floatgate_mtd::random::Random;

fn main() {
    divan::main();
}

/// Requests per iteration.
const REQUESTS: u64 = 100_000;

/// A page-mapped card of 1 GiB, 4 KiB map units, pages of 16 KiB, 28 % over-provisioned.
fn card() -> Card {
    let mut table: toml::Table = include_str!("../crates/card/tests/small.toml").parse().unwrap();
    let changes = "mapping = 'page'\ncapacity_bytes = '1 GiB'\nau_bytes = '4 MiB'\npage_bytes = '16 KiB'\nmap_unit_bytes = 4096\nspare_blocks = 75";
    table.extend(changes.parse::<toml::Table>().unwrap());
    let spec: CardSpec = table.try_into().unwrap();
    Card::new(&spec, CardOptions { seed: 0, stores: false }).unwrap()
}

/// Random writes of 4 KiB.
fn write(card: &mut Card, chance: &mut Random, requests: u64) {
    let units = card.capacity() / 8;
    for _ in 0..requests {
        let unit = chance.bits() % units;
        card.write(card.now(), unit * 8, &[0; 4096]).unwrap();
    }
}

/// To a new card.
#[divan::bench]
fn random_writes_fresh(bencher: Bencher<'_, '_>) {
    let mut chance = Random::new(1);
    bencher.counter(ItemsCount::new(REQUESTS)).with_inputs(card).bench_local_values(|mut card| {
        write(&mut card, &mut chance, REQUESTS);
        black_box(card)
    });
}

/// To a card in its steady state, with garbage collection.
#[divan::bench]
fn random_writes_preconditioned(bencher: Bencher<'_, '_>) {
    let (mut card, mut chance) = (card(), Random::new(1));
    let data = vec![0; 1 << 20];
    for mib in 0..1024 {
        card.write(card.now(), mib * 2048, &data).unwrap();
    }
    write(&mut card, &mut chance, 1 << 20);
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| write(&mut card, &mut chance, REQUESTS));
}
