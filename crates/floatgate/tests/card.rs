//! Tests of cards and their clock.

use floatgate::{Card, Error, Nanos};

#[test]
fn a_card_gives_back_what_was_written_and_says_how_long_it_took() {
    let mut card = Card::named("a1-32g").unwrap();
    let begin = card.now();
    let written = card.write(8, &[0xA5; 4096]).unwrap();
    let flushed = card.flush().unwrap();
    let mut data = [0; 4096];
    let read = card.read(8, &mut data).unwrap();
    assert_eq!(data, [0xA5; 4096]);
    let all = [written, flushed, read];
    assert!(all.iter().all(|took| took.breakdown.total() == took.total), "{all:?}");
    assert_eq!(card.now().since(begin), all.iter().map(|took| took.total).sum());

    card.discard(8, 8).unwrap();
    card.wait(Nanos::from_ms(1));
    card.read(8, &mut data).unwrap();
    assert_eq!(data, [0; 4096]);
}

#[test]
fn a_fake_has_the_size_that_it_claims() {
    let mut card = Card::named("fake-limbo-32g").unwrap();
    let last = card.sectors() - 1;
    card.write(last, &[1; 512]).unwrap();
    let mut data = [1; 512];
    card.read(last, &mut data).unwrap();
    assert_eq!(data, [0; 512]);
}

#[test]
fn wrong_requests_are_refused() {
    let mut card = Card::named("a1-32g").unwrap();
    let beyond = card.write(card.sectors(), &[0; 512]).unwrap_err();
    assert!(matches!(beyond, Error::Card(_)) && beyond.help().unwrap().contains("sectors"));
    assert!(matches!(card.read(0, &mut [0; 100]), Err(Error::Card(_))));

    let unknown = Card::named("a1-32").unwrap_err();
    assert!(unknown.help().unwrap().contains("a1-32g"), "{unknown:?}");
    assert!(matches!(Card::with("a1-32g", &["card.open_au=4"], 0), Err(Error::Setup(_))));
    assert!(Card::with("a1-32g", &["card.open_aus=4"], 1).is_ok());
    assert!(Card::names().any(|name| name == "a1-32g"));
}
