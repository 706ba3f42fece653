//! Compares a card as a byte stream with a vector.
#![allow(clippy::unwrap_used, reason = "a failure is the test's")]

use embedded_io::{ErrorKind, Read, Seek, SeekFrom, Write};
use floatgate_hal::CardStream;

/// Number of bytes of the card that the test uses.
const SIZE: usize = 20_000;

fn card() -> CardStream {
    CardStream::new("kingston-microsd-8g").unwrap()
}

fn read(card: &mut CardStream, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xEE; length];
    card.seek(SeekFrom::Start(at)).unwrap();
    card.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn ranges_of_any_place_and_length_are_written() {
    let (mut card, mut model, mut seed) = (card(), vec![0; SIZE], 1_u64);
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for number in 0..200_u8 {
        let length = [1, 100, 512, 1024, 3000][random(5)];
        let at = random(SIZE - length);
        let bytes = vec![number; length];
        card.seek(SeekFrom::Start(at as u64)).unwrap();
        card.write_all(&bytes).unwrap();
        model[at..at + length].copy_from_slice(&bytes);
    }
    assert_eq!(read(&mut card, 0, SIZE), model);
}

#[test]
fn the_end_is_the_end() {
    let mut card = card();
    let size = card.seek(SeekFrom::End(0)).unwrap();
    assert_eq!(card.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(card.write(&[]).unwrap(), 0);
    let refused = card.write(&[1]).unwrap_err();
    assert_eq!(embedded_io::Error::kind(&refused), ErrorKind::InvalidInput);
    assert!(card.seek(SeekFrom::End(-size.cast_signed() - 1)).is_err());
    card.seek(SeekFrom::End(-3)).unwrap();
    assert_eq!(card.write(&[7; 10]).unwrap(), 3);
    assert_eq!(read(&mut card, size - 4, 4), [0, 7, 7, 7]);
}

#[test]
fn what_was_flushed_outlives_a_power_cut() {
    let mut card = card();
    card.write_all(&[1; 5000]).unwrap();
    card.flush().unwrap();
    card.cut_power(1);
    let before = card.now_ns();
    while card.write_all(&[2; 5000]).is_ok() && card.flush().is_ok() {}
    assert!(card.is_dead() && card.read(&mut [0]).is_err());
    card.restore_power().unwrap();
    assert!(card.now_ns() > before);
    assert_eq!(read(&mut card, 0, 5000), [1; 5000]);
}
