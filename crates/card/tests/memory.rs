//! Memory of a card, counted by the allocator: a program of its own, as all that runs beside it would count.

#![allow(clippy::unwrap_used, reason = "a failure is the test's")]

use floatgate_card::{Card, CardOptions, CardSpec};
use floatgate_mtd::BlockDevice;
use floatgate_mtd::random::Random;
use peak_alloc::PeakAlloc;
use std::sync::{Mutex, PoisonError};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Two tests at a time would count each other's memory.
static TURN: Mutex<()> = Mutex::new(());

const MIB: u64 = 1 << 20;

fn card(mapping: &str, capacity_mib: u64) -> Card {
    let mut table: toml::Table = include_str!("small.toml").parse().unwrap();
    let spare = capacity_mib / 100 + 20;
    let changes = format!(
        "{mapping}\ncapacity_bytes = '{capacity_mib} MiB'\nau_bytes = '8 MiB'\npage_bytes = '16 KiB'\nspare_blocks = {spare}"
    );
    table.extend(changes.parse::<toml::Table>().unwrap());
    let spec: CardSpec = table.try_into().unwrap();
    Card::new(&spec, CardOptions { seed: 0, stores: false }).unwrap()
}

/// Most bytes that a card takes for each 4 KiB while it is written as a whole, then at random places, loses power and comes back.
fn peak_per_4_kib(mapping: &str, capacity_mib: u64, random_writes: u64) -> f64 {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let data = vec![0; MIB as usize];
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let mut card = card(mapping, capacity_mib);
    for mib in 0..capacity_mib {
        card.write(card.now(), mib * (MIB / 512), &data).unwrap();
    }
    let mut chance = Random::new(1);
    for _ in 0..random_writes {
        let place = chance.bits() % (capacity_mib * MIB / 4096);
        card.write(card.now(), place * 8, &data[..4096]).unwrap();
    }
    card.cut_power();
    card.power_on(card.now(), 0).unwrap();
    card.check().unwrap();
    let peak = MEMORY.peak_usage() - before;
    peak as f64 / (capacity_mib * MIB / 4096) as f64
}

#[test]
fn a_card_takes_less_than_4_bytes_of_memory_for_4_kib() {
    let page = "mapping = 'page'\nmap_unit_bytes = 4096";
    for (mapping, random_writes) in [(page, 400_000), ("", 50), ("mapping = 'hybrid'\nlog_blocks = 8", 300)] {
        let peak = peak_per_4_kib(mapping, 4096, random_writes);
        eprintln!("{mapping:?}: {peak:.2} bytes");
        assert!(peak < 4.0, "{mapping:?}: {peak}");
    }
}

#[test]
#[ignore = "slow: writes 128 GiB in units of 4 KiB"]
fn slow_a_card_of_128_gib_takes_less_than_4_bytes_of_memory_for_4_kib() {
    let peak = peak_per_4_kib("mapping = 'page'\nmap_unit_bytes = 4096", 128 << 10, 4_000_000);
    eprintln!("{peak:.2} bytes");
    assert!(peak < 4.0, "{peak}");
}
