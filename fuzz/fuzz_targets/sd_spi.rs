//! Bytes to an SD card in SPI mode: it answers each, its time goes on, and it works after power-on.

#![no_main]

use floatgate_card::CardOptions;
use floatgate_card::spi::SpiCard;
use floatgate_config::{Library, Override};
use floatgate_mtd::Nanos;
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

/// A card with addresses in sectors, and one with addresses in bytes.
const CAPACITIES: [&str; 2] = ["card.capacity_bytes=7580 MiB", "card.capacity_bytes=1 GiB"];

fn new(capacity: &str) -> SpiCard {
    let library = Library::built_in();
    let set = Override::parse_of("capacity", capacity).unwrap();
    let spec = floatgate_sim::card::load(&library, "kingston-microsd-8g", &[set]).unwrap().spec;
    let mut card = SpiCard::new(&spec, CardOptions::default()).unwrap();
    card.advance(Nanos::from_ms(1));
    card.write(&[0xFF; 10]);
    card
}

fuzz_target!(|data: &[u8]| {
    static CARDS: OnceLock<Vec<SpiCard>> = OnceLock::new();
    let Some((which, rest)) = data.split_first() else { return };
    let cards = CARDS.get_or_init(|| CAPACITIES.map(new).into());
    let mut card = cards[usize::from(which & 1)].clone();
    for piece in rest.chunks(16) {
        let before = card.now();
        match piece.first().map(|byte| byte % 16) {
            Some(0) => card.deselect(),
            Some(1) => card.set_clock(u32::from(piece[piece.len() - 1]) << 18),
            Some(2) => card.cut_power(u64::from(piece[piece.len() - 1])),
            Some(3) => drop(card.power_on()),
            _ => card.select(),
        }
        card.exchange(&mut piece.to_vec());
        assert!(card.now() > before);
    }
    card.power_on().unwrap();
    card.advance(Nanos::from_ms(1));
    card.write(&[0xFF; 10]);
    card.select();
    let mut go_idle = [0x40, 0, 0, 0, 0, 0x95, 0xFF, 0xFF];
    card.exchange(&mut go_idle);
    assert_eq!(go_idle[7], 1);
    card.card().check().unwrap();
});
