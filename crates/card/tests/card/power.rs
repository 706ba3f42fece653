//! Supply, energy, sleep, timeouts and registers.
use crate::support::spec;
use floatgate_card::{Card, CardOptions, CardRegisters, CardSpec};
use floatgate_media::sd::{CardType, ExtCsd, Ssr};
use floatgate_mtd::{BlockDevice, BlockErrorKind, Instant, Nanos};

fn card(spec: &CardSpec) -> Card {
    Card::new(spec, CardOptions { seed: 1, stores: false }).unwrap()
}

/// Writes in an order that closes allocation units. Returns the longest time of a write.
fn scattered(card: &mut Card) -> Nanos {
    let latency = |write: u64| {
        let start = card.now();
        let lba = write * 37 % (card.capacity() / 8) * 8;
        card.write(start, lba, &[0; 4096]).unwrap().since(start)
    };
    (0..300).map(latency).max().unwrap()
}

#[test]
fn energy_is_that_of_the_operations_and_of_the_time() {
    let mut card = card(&spec("", "power = { sleep_after_us = 1000000, wake_us = 500 }"));
    scattered(&mut card);
    card.check().unwrap();
    let (busy, stats) = (card.energy(), card.stats());
    // 3.3 V and 25 mA: 82.5 mW, over 50 us, 800 us and, on two dies, 3500 us.
    let programs = stats.page_programs + stats.summary_programs;
    let array = stats.page_reads * 4125 + programs * 66_000 + stats.erases * 577_500;
    assert_eq!(busy.array_nj, array);
    let spent = card.breakdown().total().as_ns() as f64;
    assert!((busy.controller_nj as f64 / (spent * 0.099) - 1.0).abs() < 1e-6, "99 mW over all of the time");
    assert_eq!((busy.idle_nj, busy.sleep_nj), (0, 0));
    // A second awake with 1 mA, nine asleep with 200 uA.
    let rested = card.now() + Nanos::from_ms(10_000);
    let ready = card.write(rested, 0, &[0; 512]).unwrap();
    let after = card.energy();
    assert_eq!((after.idle_nj, after.sleep_nj), (3_300_000, 9 * 660_000));
    assert!(ready.since(rested) > Nanos::from_us(500), "it wakes up");
    assert!(after.total_nj() > busy.total_nj() + 9_000_000);
    card.check().unwrap();
}

#[test]
fn a_weak_supply_stalls_the_card_or_takes_its_power() {
    let with = |power: &str| spec("", &format!("power = {{ {power} }}"));
    let time = |power: &str| scattered(&mut card(&with(power)));
    let free = time("");
    // Controller and interface take 50 mA; two dies that program need 50 mA more.
    assert_eq!(time("limit_ua = 150000"), free, "a supply for everything changes nothing");
    let (one, weak) = (time("limit_ua = 75000"), time("limit_ua = 50100"));
    assert!(one > free, "one die at a time: {one}, both: {free}");
    assert!(weak.as_ns() > 50 * free.as_ns(), "250 times slower: {weak}");
    let mut dropped = card(&with("limit_ua = 76000, overload = 'drop'"));
    let error = (0..300).find_map(|write| dropped.write(dropped.now(), write * 8, &[0; 4096]).err()).unwrap();
    assert_eq!(error.kind, BlockErrorKind::PowerLost);
    assert!(dropped.write(dropped.now(), 0, &[0; 512]).is_err(), "until it is switched on again");
    // Nor does it come up again: the scan for the map reads on both dies.
    assert_eq!(dropped.power_on(dropped.now(), 0).unwrap_err().kind, BlockErrorKind::PowerLost);
    for (limit, is_possible) in [(50_000, false), (50_001, false), (50_025, true)] {
        assert_eq!(with(&format!("limit_ua = {limit}")).check().is_ok(), is_possible, "{limit}");
    }
}

#[test]
fn the_hold_up_time_is_enough_for_what_is_under_way() {
    // Two pages go to two dies, 800 us each; the card is pulled out when the write has been answered.
    for (hold_up, is_there) in [(0, false), (3000, true)] {
        let spec = spec("", &format!("power = {{ hold_up_us = {hold_up} }}"));
        let mut card = Card::new(&spec, CardOptions::default()).unwrap();
        let opened = card.write(Instant::ZERO, 0, &[1; 4096]).unwrap();
        let quiet = card.flush(opened).unwrap();
        let mut again = card.clone();
        let answered = card.write(quiet, 8, &[2; 4096]).unwrap();
        // The same once more, as it is known now when the card is pulled out.
        again.order_removal(answered);
        let _ = again.write(quiet, 8, &[2; 4096]);
        assert!(again.read(answered, 0, &mut [0; 512]).is_err(), "the card is gone");
        let ready = again.power_on(answered + Nanos::from_ms(1), 0).unwrap();
        let mut found = [0; 4096];
        again.read(ready, 8, &mut found).unwrap();
        assert_eq!(found == [2; 4096], is_there, "{hold_up} us");
        again.read(ready, 0, &mut found).unwrap();
        assert_eq!(found, [1; 4096], "what was flushed is there");
    }
}

#[test]
fn a_host_gives_up_and_the_card_goes_on() {
    let patient = scattered(&mut card(&spec("", "")));
    let mut card = card(&spec("", "host = { write_timeout_us = 5000 }"));
    assert!(patient > Nanos::from_ms(5));
    let mut dropped = 0;
    for write in 0..300_u64 {
        let start = card.now();
        let lba = write * 37 % (card.capacity() / 8) * 8;
        match card.write(start, lba, &[0; 4096]) {
            Ok(end) => assert!(end.since(start) <= Nanos::from_ms(5)),
            Err(error) => {
                assert_eq!((error.kind, error.at), (BlockErrorKind::TimedOut, start + Nanos::from_ms(5)));
                assert!(card.now() > error.at, "the card is still busy");
                dropped += 1;
            }
        }
    }
    assert!((10..300).contains(&dropped), "{dropped} of 300");
    card.check().unwrap();
}

#[test]
fn most_of_a_die_may_be_bad() {
    // Chubb (2015): with 80 % of its blocks mapped out it can be sold.
    let mut spec = spec("spare_blocks = 134\nbad_blocks = 120", "");
    assert_eq!(spec.blocks(), 150);
    let mut worst = card(&spec);
    assert_eq!(worst.failed_blocks() * 100 / 150, 80);
    scattered(&mut worst);
    worst.check().unwrap();
    spec.bad_blocks = 130;
    assert_eq!(spec.check().unwrap_err().key, "spare_blocks");
}

#[test]
fn registers_state_what_the_card_is() {
    let sizes = "capacity_bytes = '7580 MiB'\nau_bytes = '8 MiB'\npage_bytes = '16 KiB'\nspare_blocks = 60";
    let tables = "identity = { manufacturer_id = 3, oem = 'SD', name = 'SU08G', revision = 0x80, serial = 7, year = 2013, month = 10 }\n\
                  classes = { speed = 10, uhs = 1 }\nwear = { endurance_cycles = 3000 }";
    let with = |changes: &str| spec(&format!("{sizes}\n{changes}"), tables);
    let registers = CardRegisters::of(&with("bus = 'sdr50'"));
    let file = |name: &str| registers.files().into_iter().find(|file| file.0 == name).unwrap().1;
    assert!(file("cid").starts_with("0353445355303847800000000700da"), "{}", file("cid"));
    assert_eq!(file("type"), "SD");
    let ssr: [u8; 64] = floatgate_media::sd::parse_hex(&file("ssr")).unwrap();
    let ssr = Ssr::parse(&ssr);
    // An SDHC card cannot state 8 MiB but in UHS modes.
    assert_eq!((ssr.au_bytes, ssr.uhs_au_bytes, ssr.speed_class), (4 << 20, 8 << 20, 10));
    assert_eq!(ssr.erase.timeout_ms(1), Some(1003), "a second for 285 units, and one for each request");
    let mmc = CardRegisters::of(&with("bus = 'hs200'"));
    assert_eq!((mmc.kind, mmc.ssr), (CardType::Mmc, None));
    let ext_csd = ExtCsd::parse(&mmc.ext_csd.unwrap().emit());
    assert_eq!(u64::from(ext_csd.sectors), 7580 << 11);
    assert_eq!((ext_csd.erase_group, ext_csd.erase_timeout, ext_csd.cache_kbit), (16, 1, 128));
    let fake = spec("", "fake = { kind = 'wraps', claimed_bytes = '64 MiB' }");
    assert_eq!(CardRegisters::of(&fake).csd.capacity_bytes, Some(64 << 20));
    for (wrong, key) in [
        ("identity = { oem = 'SDX' }", "identity.oem"),
        ("identity = { name = 'SU08GB' }", "identity.name"),
        ("identity = { month = 13 }", "identity.month"),
        ("classes = { speed = 5 }", "classes"),
    ] {
        assert_eq!(spec("", wrong).check().unwrap_err().key, key);
    }
}

#[test]
fn a_stop_command_ends_transfers_of_several_blocks() {
    let time = |bytes: usize| {
        let mut card = card(&spec("", ""));
        card.read(Instant::ZERO, 0, &mut vec![0; bytes]).unwrap();
        card.breakdown()[floatgate_mtd::Phase::Command]
    };
    assert_eq!(time(1024).as_ns(), 2 * time(512).as_ns());
}
