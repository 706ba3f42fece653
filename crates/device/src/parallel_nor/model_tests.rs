//! Compares the driver with a byte array under the rules of NOR: programming clears bits, erasing sets them.

use super::test_parts::{driver_with, j3, now, s29gl128p, small};
use super::*;
use floatgate_mtd::{ErrorKind, Instant, Mtd};
use proptest::prelude::*;

const SIZE: usize = 0x4000;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<u8>),
    /// Clears additional bits of the current contents.
    Clear(usize, Vec<u8>),
    Erase(u64, u64),
    Read(usize, usize),
    Clone,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    // Few different addresses, so that writes overlap.
    let addr = || prop_oneof![0..300usize, 0xFC0..0x1040usize, SIZE - 220..SIZE + 4];
    prop_oneof![
        (addr(), bytes()).prop_map(|(a, b)| Step::Write(a, b)),
        (addr(), bytes()).prop_map(|(a, b)| Step::Clear(a, b)),
        (0u64..4, 0u64..3).prop_map(|(b, n)| Step::Erase(b * 0x1000, n * 0x1000)),
        (addr(), 0..300usize).prop_map(|(a, n)| Step::Read(a, n)),
        Just(Step::Clone),
    ]
}

fn read(device: &mut CfiDriver<NorController>, at: usize, len: usize) -> Vec<u8> {
    let (mut out, time) = (vec![0xA5; len], now(device));
    device.read(time, at as u64, &mut out).unwrap();
    out
}

/// Executes a write on both, and compares the result with the rules.
fn write(device: &mut CfiDriver<NorController>, model: &mut [u8], at: usize, bytes: &[u8]) {
    let time = now(device);
    let outcome = device.write(time, at as u64, bytes);
    let Some(old) = model.get_mut(at..at + bytes.len()) else {
        assert!(matches!(outcome.unwrap_err().kind, ErrorKind::OutOfRange { .. }));
        return;
    };
    if old.iter().zip(bytes).all(|(old, new)| new & !old == 0) {
        outcome.unwrap();
        old.copy_from_slice(bytes);
        return;
    }
    let refused = outcome.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotErased);
    // Data before the rejected piece is written, data after it is not.
    let done = (refused.addr as usize).saturating_sub(at);
    old[..done].copy_from_slice(&bytes[..done]);
}

fn run(device: &mut CfiDriver<NorController>, model: &mut [u8], step: &Step) {
    let time = now(device);
    match step {
        Step::Write(at, bytes) => write(device, model, *at, bytes),
        Step::Clear(at, bytes) => {
            let old = model.iter().skip(*at).chain(std::iter::repeat(&0xFF));
            let less: Vec<u8> = bytes.iter().zip(old).map(|(new, old)| new & old).collect();
            write(device, model, *at, &less);
        }
        Step::Erase(at, len) => match device.erase(time, *at, *len) {
            Ok(_) => model[*at as usize..(at + len) as usize].fill(0xFF),
            Err(error) => assert!(matches!(error.kind, ErrorKind::OutOfRange { .. })),
        },
        Step::Read(at, len) if at + len <= SIZE => assert_eq!(read(device, *at, *len), model[*at..at + len]),
        Step::Read(at, len) => {
            assert!(device.read(time, *at as u64, &mut vec![0; *len]).is_err());
        }
        Step::Clone => {
            let mut copy = device.clone();
            copy.erase(time, 0, SIZE as u64).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_driver_is_a_byte_array(
        steps in prop::collection::vec(step(), 1..40),
        bits in prop_oneof![Just(8u8), Just(16)],
        intel: bool,
        buffered: bool,
        multi_erase: bool,
    ) {
        let spec = small(if intel { j3() } else { s29gl128p() });
        let options = Options { buffered, multi_erase, chip_erase: !multi_erase, ..Options::default() };
        let mut device = driver_with(spec, bits, options);
        let mut model = vec![0xFF; SIZE];
        for step in &steps {
            run(&mut device, &mut model, step);
        }
        prop_assert_eq!(read(&mut device, 0, SIZE), model);
        prop_assert_eq!(device.breakdown().total(), now(&mut device).since(Instant::ZERO));
    }

    /// Times in closed form equal the sum over single words.
    #[test]
    fn a_long_read_takes_as_long_as_its_words(at in 0u32..200, words in 1u32..100, bits in prop_oneof![Just(8u8), Just(16)]) {
        let mut device = driver_with(small(s29gl128p()), bits, Options::default());
        let width = u32::from(bits / 8);
        let start = at * width;
        let (mut expected, mut last_page) = (0, None);
        for word in 0..words {
            let page = (start + word * width) / 16;
            expected += if last_page == Some(page) { 25 } else { 100 };
            last_page = Some(page);
        }
        let before = now(&mut device);
        let end = device.read(before, start.into(), &mut vec![0; (words * width) as usize]).unwrap().at;
        prop_assert_eq!(end.since(before).as_ns(), expected);
    }
}
