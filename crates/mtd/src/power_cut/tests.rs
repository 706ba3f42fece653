//! Tests of power cuts at every operation and at every stage.

use super::*;
use crate::account::Phase;
use crate::ram::RamFlash;
use crate::time::Nanos;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const NOW: Instant = Instant::ZERO;
const PAGE: usize = 2048;
const BLOCK: u64 = 64 * 2048;

fn device() -> PowerCut<RamFlash> {
    PowerCut::new(RamFlash::new(Geometry::nand_2048(8)))
}

fn nor() -> PowerCut<RamFlash> {
    PowerCut::new(RamFlash::new(Geometry::nor(4, 4096)))
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = crate::random::Random::numbered(seed, 0);
    (0..len).map(|_| random.bits() as u8).collect()
}

fn order(device: &mut PowerCut<RamFlash>, operation: u64, kind: CutKind, seed: u64) {
    device.order(Some(Cut { operation, kind, seed }));
}

fn page<D: Mtd>(device: &mut D, addr: u64) -> Result<(Vec<u8>, Done), ErrorKind> {
    let mut out = vec![0; PAGE];
    device.read(NOW, addr, &mut out).map(|done| (out, done)).map_err(|e| e.kind)
}

/// Reads a page a hundred times and returns the number of uncorrectable reads. If only some reads fail, every other read
/// must report that the page should be moved.
fn try_hard<D: Mtd>(device: &mut D, addr: u64, want: &[u8]) -> u32 {
    let (mut lost, mut silent) = (0, 0);
    for _ in 0..100 {
        match page(device, addr) {
            Ok((got, done)) => {
                assert_eq!(got, want);
                silent += u32::from(!done.wants_scrub(device.geometry()));
            }
            Err(kind) => {
                assert_eq!(kind, ErrorKind::Uncorrectable);
                lost += 1;
            }
        }
    }
    assert!(lost == 0 || silent == 0, "{lost} reads failed, {silent} gave no warning");
    lost
}

/// Creates an unstable page from many seeds: some pages are always readable, some never, some in part of the reads.
fn does_not_hold(make: impl Fn(u64) -> PowerCut<RamFlash>, addr: u64, want: &[u8]) {
    let lost: Vec<u32> = (0..60).map(|seed| try_hard(&mut make(seed), addr, want)).collect();
    let count = |range: core::ops::Range<u32>| lost.iter().filter(|lost| range.contains(lost)).count();
    assert!(count(0..1) > 5 && count(20..80) > 2 && count(100..101) > 5, "{lost:?}");
}

#[test]
fn operations_are_pages_and_blocks() {
    let mut d = device();
    d.write(NOW, 0, &[1; 3 * PAGE]).unwrap();
    assert_eq!(d.operations(), 3);
    d.write(NOW, BLOCK, &[1; 512]).unwrap();
    d.write(NOW, BLOCK + 1536, &[1; 1024]).unwrap();
    assert_eq!(d.operations(), 6);
    d.erase(NOW, 0, 2 * BLOCK).unwrap();
    d.write_oob(NOW, 0, &[], &[1], OobMode::Auto).unwrap();
    d.mark_bad(NOW, 0).unwrap();
    assert_eq!(d.operations(), 10);
    d.write(NOW, 1, &[1; 512]).unwrap_err();
    d.write(NOW, 8 * BLOCK, &[1; 512]).unwrap_err();
    d.write(NOW, 512, &[]).unwrap();
    assert_eq!(d.operations(), 10);
    let mut n = nor();
    n.write(NOW, 60, &[0; 100]).unwrap();
    assert_eq!(n.operations(), 3);
}

#[test]
fn after_the_cut_nothing_answers_until_power_comes_back() {
    let mut d = device();
    order(&mut d, 2, CutKind::Before, 0);
    let error = d.write(NOW, 0, &[1; 3 * PAGE]).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::PowerLost, PAGE as u64));
    assert!(d.is_lost());
    assert_eq!(d.operations(), 2);
    assert_eq!(page(&mut d, 0), Err(ErrorKind::PowerLost));
    assert_eq!(d.erase(NOW, 0, BLOCK).unwrap_err().kind, ErrorKind::PowerLost);
    assert_eq!(d.is_bad(NOW, 0).unwrap_err().kind, ErrorKind::PowerLost);
    assert_eq!(d.mark_bad(NOW, 0).unwrap_err().kind, ErrorKind::PowerLost);
    assert_eq!(d.read_oob(NOW, 0, &mut [], &mut [0], OobMode::Raw).unwrap_err().kind, ErrorKind::PowerLost);
    d.power_on();
    assert_eq!(page(&mut d, 0).unwrap().0, [1; PAGE]);
    assert_eq!(page(&mut d, PAGE as u64).unwrap().0, [0xFF; PAGE]);
    d.write(NOW, PAGE as u64, &[1; 8 * PAGE]).unwrap();
    order(&mut d, 1, CutKind::Before, 0);
    d.order(None);
    d.erase(NOW, 0, BLOCK).unwrap();
    assert_eq!(d.breakdown()[Phase::Array], Nanos::from_us(1 + 1 + 1 + 8 + 1));
}

#[test]
fn an_operation_that_fails_ends_the_call_and_the_order_stands() {
    let mut d = device();
    d.write(NOW, 2 * PAGE as u64, &[1; PAGE]).unwrap();
    let mut counted = d.clone();
    let fails = counted.write(NOW, 0, &[1; 5 * PAGE]).unwrap_err();
    assert_eq!((fails.kind, fails.addr), (ErrorKind::NotErased, 2 * PAGE as u64));
    assert_eq!(counted.operations(), 1 + 3);
    order(&mut d, 4, CutKind::Before, 0);
    let fails = d.write(NOW, 0, &[1; 5 * PAGE]).unwrap_err();
    assert_eq!((fails.kind, d.is_lost(), d.operations()), (ErrorKind::NotErased, false, 4));
    assert_eq!(d.erase(NOW, BLOCK, BLOCK).unwrap_err().kind, ErrorKind::PowerLost);
    d.power_on();
    d.mark_bad(NOW, 2 * BLOCK).unwrap();
    order(&mut d, 3, CutKind::Before, 0);
    assert_eq!(d.erase(NOW, BLOCK, 3 * BLOCK).unwrap_err().kind, ErrorKind::BadBlock);
    assert_eq!(d.operations(), 5 + 1 + 2);
    assert_eq!(d.erase(NOW, BLOCK, BLOCK).unwrap_err().kind, ErrorKind::PowerLost);
}

#[test]
fn what_follows_a_half_erased_part_does_not_hold_either() {
    let data = noise(1, PAGE);
    let make = |seed| {
        let mut d = device();
        d.write(NOW, 0, &[1; PAGE]).unwrap();
        order(&mut d, 1, CutKind::During(Stage::Middle), seed);
        d.erase(NOW, 0, BLOCK).unwrap_err();
        d.power_on();
        d.write(NOW, PAGE as u64, &data).unwrap();
        d
    };
    does_not_hold(make, PAGE as u64, &data);
}

#[test]
fn a_page_hardly_begun_reads_as_erased_and_what_follows_does_not_hold() {
    let data = noise(1, PAGE);
    let make = |seed| {
        let mut d = device();
        order(&mut d, 1, CutKind::During(Stage::Early), seed);
        d.write(NOW, 0, &data).unwrap_err();
        d.power_on();
        assert_eq!(page(&mut d, 0).unwrap(), (vec![0xFF; PAGE], Done::clean(Instant::from_ns(1000))));
        d.write(NOW, 0, &data).unwrap();
        d
    };
    does_not_hold(make, 0, &data);
    let mut d = make(1);
    d.erase(NOW, 0, BLOCK).unwrap();
    d.write(NOW, 0, &data).unwrap();
    assert_eq!(page(&mut d, 0).unwrap().1.bitflips, 0);
}

#[test]
fn a_page_under_way_is_no_codeword() {
    for seed in 0..50 {
        let mut d = device();
        let data = noise(2, PAGE);
        order(&mut d, 1, CutKind::During(Stage::Middle), seed);
        d.write(NOW, 0, &data).unwrap_err();
        d.power_on();
        let lost = try_hard(&mut d, 0, &[0xFF; PAGE]);
        assert!(lost == 100 || lost == 0);
        let raw = d.inner().block(0).unwrap_or(&[]);
        assert!(
            raw.iter().zip(&data).all(|(raw, data)| raw & data == *data),
            "only bits of the data are programmed"
        );
        let (mut a, mut b) = (vec![0; PAGE], vec![0; PAGE]);
        d.read_oob(NOW, 0, &mut a, &mut [], OobMode::Raw).unwrap();
        (0..9).for_each(|_| d.read_oob(NOW, 0, &mut b, &mut [], OobMode::Raw).map(|_| ()).unwrap());
        assert!(a.iter().zip(&data).all(|(a, data)| a & data == *data));
        assert_eq!(page(&mut d, PAGE as u64).unwrap().0, [0xFF; PAGE]);
    }
}

#[test]
fn a_page_nearly_done_does_not_hold() {
    let data = noise(3, PAGE);
    let make = |seed| {
        let mut d = device();
        order(&mut d, 1, CutKind::During(Stage::Late), seed);
        d.write(NOW, 0, &data).unwrap_err();
        d.power_on();
        d
    };
    does_not_hold(make, 0, &data);
    assert_eq!(make(0).write(NOW, 0, &data).unwrap_err().kind, ErrorKind::NotErased);
}

#[test]
fn sub_pages_written_before_outlive_the_cut() {
    for kind in CutKind::ALL {
        let mut d = device();
        d.write(NOW, 0, &[5; 512]).unwrap();
        order(&mut d, 1, kind, 9);
        d.write(NOW, 512, &noise(4, 1536)).unwrap_err();
        d.power_on();
        let mut out = [0; 512];
        assert_eq!(d.read(NOW, 0, &mut out).unwrap().bitflips, 0);
        assert_eq!(out, [5; 512]);
    }
}

#[test]
fn erases_stop_half_way() {
    let data = noise(5, 3 * PAGE);
    let after = |stage, seed| {
        let mut d = device();
        d.write(NOW, 0, &data).unwrap();
        d.write(NOW, BLOCK, &data).unwrap();
        order(&mut d, 2, CutKind::During(stage), seed);
        assert_eq!(d.erase(NOW, 0, 3 * BLOCK).unwrap_err().addr, BLOCK);
        d.power_on();
        assert_eq!((d.inner().block(0), d.inner().erases(0), d.inner().erases(1)), (None, 1, 0));
        d
    };
    does_not_hold(|seed| after(Stage::Early, seed), BLOCK, &data[..PAGE]);
    let mut middle = after(Stage::Middle, 1);
    assert_eq!(try_hard(&mut middle, BLOCK, &[]), 100);
    let raised = middle.inner().block(1).unwrap();
    assert!(raised != data && raised.iter().zip(&data).all(|(now, was)| now & was == *was));
    assert_eq!(page(&mut middle, BLOCK + 3 * PAGE as u64).unwrap().0, [0xFF; PAGE]);
    let late = |seed| {
        let mut d = after(Stage::Late, seed);
        assert_eq!(page(&mut d, BLOCK).unwrap().0, [0xFF; PAGE]);
        d.write(NOW, BLOCK, &data).unwrap();
        d
    };
    does_not_hold(late, BLOCK, &data[..PAGE]);
    let mut again = late(1);
    again.erase(NOW, BLOCK, BLOCK).unwrap();
    again.write(NOW, BLOCK, &data).unwrap();
    assert_eq!(page(&mut again, BLOCK).unwrap().1.bitflips, 0);
}

#[test]
fn nor_shows_what_is_left_without_an_error() {
    let data = noise(6, 64);
    let (mut unstable, mut headers_outlive) = (0, 0);
    for seed in 0..40 {
        let mut d = nor();
        d.write(NOW, 0, &noise(7, 4096)).unwrap();
        order(&mut d, 1, CutKind::During(Stage::Middle), seed);
        d.erase(NOW, 0, 4096).unwrap_err();
        d.power_on();
        let mut header = [0; 64];
        d.read(NOW, 0, &mut header).unwrap();
        headers_outlive += u32::from(header == noise(7, 4096)[..64]);
        order(&mut d, 1, CutKind::During(Stage::Late), seed);
        d.write(NOW, 4096, &data).unwrap_err();
        d.power_on();
        let mut reads = (0..20).map(|_| {
            let mut out = [0; 64];
            d.read(NOW, 4096, &mut out).unwrap();
            out
        });
        let first = reads.next().unwrap();
        let differs = reads.any(|next| next != first);
        // Either the data is stable, or no read returns the written data.
        assert_ne!(differs, first[..] == data);
        unstable += u32::from(differs);
    }
    assert!((20..35).contains(&unstable), "{unstable}");
    assert!((10..35).contains(&headers_outlive), "{headers_outlive}");
}

#[test]
fn oob_and_marks_are_cut_too() {
    for kind in CutKind::ALL {
        let mut d = device();
        order(&mut d, 1, kind, 3);
        d.write_oob(NOW, 0, &noise(8, PAGE), &[0; 8], OobMode::Auto).unwrap_err();
        d.power_on();
        let mut oob = [0; 8];
        d.read_oob(NOW, 0, &mut [], &mut oob, OobMode::Auto).unwrap();
        match kind {
            CutKind::During(Stage::Late) => assert_eq!(oob, [0; 8]),
            CutKind::During(Stage::Middle) => assert_ne!(oob, [0; 8]),
            _ => assert_eq!(oob, [0xFF; 8]),
        }
        order(&mut d, 1, kind, 3);
        d.mark_bad(NOW, BLOCK).unwrap_err();
        d.power_on();
        assert_eq!(d.is_bad(NOW, BLOCK).unwrap().0, kind == CutKind::During(Stage::Late));
    }
}

#[test]
fn a_cut_within_a_partition_is_in_its_place() {
    let part = crate::Partition::new(RamFlash::new(Geometry::nand_2048(8)), BLOCK, 2 * BLOCK).unwrap();
    let mut d = PowerCut::new(part);
    d.order(Some(Cut { operation: 1, kind: CutKind::During(Stage::Late), seed: 0 }));
    d.write(NOW, 0, &[1; PAGE]).unwrap_err();
    let chip = d.into_inner().into_inner();
    assert_eq!((chip.block(0), chip.block(1)), (None, Some(&[1; PAGE][..])));
}

/// One write or erase of pages in the first two blocks.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize),
    Erase(u64),
}

fn run(device: &mut PowerCut<RamFlash>, steps: &[Step]) -> Result<(), ErrorKind> {
    for (turn, step) in steps.iter().enumerate() {
        let done = match *step {
            Step::Write(page, count) => {
                device.write(NOW, page * PAGE as u64, &noise(turn as u64, count * PAGE))
            }
            Step::Erase(block) => device.erase(NOW, block * BLOCK, BLOCK),
        };
        match done.map_err(|e| e.kind) {
            Err(ErrorKind::PowerLost) => return Err(ErrorKind::PowerLost),
            _ => continue,
        }
    }
    Ok(())
}

fn bytes(device: &PowerCut<RamFlash>) -> Vec<u8> {
    let mut all = Vec::new();
    device
        .inner()
        .copy_to(|b| {
            all.extend_from_slice(b);
            Ok::<(), ()>(())
        })
        .unwrap();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Devices cut before operations k and k + 1 differ in at most one page or block: the one that a torn operation k
    /// damages. The same seed gives the same damage.
    #[test]
    fn a_cut_touches_one_operation(steps in prop::collection::vec(prop_oneof![
        4 => (0u64..126, 1usize..3).prop_map(|(p, n)| Step::Write(p, n)),
        1 => (0u64..2).prop_map(Step::Erase),
    ], 1..8), seed in any::<u64>()) {
        let start = PowerCut::new(RamFlash::new(Geometry::nand_2048(2)));
        let mut whole = start.clone();
        run(&mut whole, &steps).unwrap();
        let at = |k, kind| {
            let mut fork = start.clone();
            order(&mut fork, k, kind, seed);
            let lost = run(&mut fork, &steps);
            prop_assert_eq!(lost.is_err(), k <= whole.operations());
            Ok(bytes(&fork))
        };
        for k in 1..=whole.operations() {
            let (before, after) = (at(k, CutKind::Before)?, at(k + 1, CutKind::Before)?);
            let changed: Vec<usize> =
                (0..before.len() / PAGE).filter(|p| before[p * PAGE..][..PAGE] != after[p * PAGE..][..PAGE]).collect();
            prop_assert!(changed.len() <= 64 && changed.iter().all(|p| p / 64 == changed[0] / 64));
            for stage in Stage::ALL {
                let torn = at(k, CutKind::During(stage))?;
                prop_assert_eq!(&torn, &at(k, CutKind::During(stage))?);
                for p in 0..before.len() / PAGE {
                    let page = |bytes: &[u8]| bytes[p * PAGE..][..PAGE].to_vec();
                    let between = page(&torn).iter().zip(page(&before)).zip(page(&after)).all(|((t, b), a)| t & b & a == b & a && t | b | a == b | a);
                    prop_assert!(between, "page {} at {} {:?}", p, k, stage);
                }
            }
        }
    }
}
