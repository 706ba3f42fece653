//! Tests of power loss: contents of the array, errors of the driver, and the state that the next
//! driver finds.

use super::rig::{Driver, Rig, database};
use crate::host::HostProfile;
use crate::oracle::Oracle;
use crate::power::PowerCut;
use crate::spi::{Data, SpiChip, SpiOp};
use crate::spi_nand::{ArrayTask, ArrayWork, SpiNandDriver};
use floatgate_mtd::{Done, Error, ErrorKind, Instant, Mtd, Nanos, OobMode, Phase};

const BLOCK: u64 = 262_144;
const PAGE: usize = 4096;

fn pattern() -> Vec<u8> {
    (0..2 * PAGE as u32).map(|i| ((i * 7) >> 2) as u8).collect()
}

/// A driver with two written pages in block 1.
fn written(stores: bool) -> Driver {
    let mut rig = Rig::new("1S-8S-8S");
    rig.chip.stores = stores;
    let mut d = rig.driver("w35n01jw");
    d.write(d.ready_at(), BLOCK, &pattern()).unwrap();
    d
}

fn reboot(d: &Driver) -> Driver {
    let mut bus = d.bus().clone();
    assert!(bus.power().is_lost());
    bus.power_on();
    let ecc = Default::default();
    SpiNandDriver::probe(bus, &database(), HostProfile::default(), ecc, Default::default()).unwrap()
}

fn erase(d: &mut Driver) -> Result<Done, Error> {
    d.erase(d.ready_at(), BLOCK, BLOCK)
}

/// Writes a third page to block 1.
fn write(d: &mut Driver) -> Result<Done, Error> {
    d.write(d.ready_at(), BLOCK + 2 * PAGE as u64, &pattern()[..PAGE])
}

fn at(work: ArrayWork, share: f64) -> Instant {
    let length = work.end.since(work.start).as_ns() as f64;
    work.start + Nanos::from_ns((length * share) as u64)
}

/// Cuts power when a share of an operation's array work is done; returns the driver after the cut.
fn cut(d: &Driver, operation: fn(&mut Driver) -> Result<Done, Error>, share: f64) -> Driver {
    let mut whole = d.clone();
    operation(&mut whole).unwrap();
    let work = whole.bus().chip().last_work(0).unwrap();
    let mut d = d.clone();
    let (start, before) = (d.ready_at(), d.breakdown());
    d.bus_mut().power_mut().order(Some(PowerCut::During { operation: 1, share }));
    let lost = operation(&mut d).err().unwrap();
    assert_eq!((lost.kind, lost.at), (ErrorKind::PowerLost, at(work, share)));
    assert_eq!((d.breakdown() - before).total(), d.ready_at().since(start));
    assert_eq!(d.bus().chip().last_work(0).unwrap().task, ArrayTask::Reset);
    reboot(&d)
}

fn page(d: &mut Driver, number: u64) -> (Result<(), ErrorKind>, Vec<u8>) {
    let mut data = vec![0; PAGE];
    let outcome = d.read(d.ready_at(), BLOCK + number * PAGE as u64, &mut data);
    (outcome.map(drop).map_err(|e| e.kind), data)
}

fn holds(d: &mut Driver, number: u64, want: &[u8]) {
    let (outcome, got) = page(d, number);
    assert_eq!((outcome, wrong_bits(&got, want)), (Ok(()), 0), "page {number}");
}

fn wrong_bits(got: &[u8], want: &[u8]) -> u32 {
    got.iter().zip(want).map(|(a, b)| (a ^ b).count_ones()).sum()
}

#[test]
fn a_page_whose_program_was_cut_is_lost_and_no_other() {
    let d = written(true);
    let mut left = Vec::new();
    for share in [0.05, 0.5, 0.8] {
        let mut after = cut(&d, write, share);
        let (outcome, got) = page(&mut after, 2);
        left.push(wrong_bits(&got, &pattern()[..PAGE]));
        let erased = got.iter().all(|b| *b == 0xFF);
        assert_eq!(outcome, Err(ErrorKind::Uncorrectable), "{share}");
        assert_eq!(erased, share < 0.3, "no cell needs less than 30 % of the pulses");
        holds(&mut after, 0, &pattern()[..PAGE]);
        holds(&mut after, 1, &pattern()[PAGE..]);
    }
    assert!(left[0] > left[1] && left[1] > left[2] && left[2] > 0, "{left:?}");
}

#[test]
fn a_cut_erase_keeps_the_data_spoils_it_or_looks_done() {
    let d = written(true);
    let mut early = cut(&d, erase, 0.1);
    holds(&mut early, 1, &pattern()[PAGE..]);
    let mut half = cut(&d, erase, 0.5);
    let (outcome, got) = page(&mut half, 1);
    assert_eq!(outcome, Err(ErrorKind::Uncorrectable));
    let zeroes = |data: &[u8]| data.iter().map(|b| b.count_zeros()).sum::<u32>();
    assert!((1..zeroes(&pattern()[PAGE..])).contains(&zeroes(&got)));
    let mut late = cut(&d, erase, 0.9);
    holds(&mut late, 1, &[0xFF; PAGE]);
    late.write(late.ready_at(), BLOCK, &pattern()).unwrap();
    assert_eq!(page(&mut late, 1).0, Err(ErrorKind::Uncorrectable), "it does not hold");
    for d in [&mut half, &mut late] {
        erase(d).unwrap();
        d.write(d.ready_at(), BLOCK, &pattern()).unwrap();
        holds(d, 0, &pattern()[..PAGE]);
    }
}

/// Between operations a power cut affects no data.
#[test]
fn between_operations_power_takes_nothing_with_it() {
    let mut d = written(true);
    let soon = d.ready_at() + Nanos::from_us(3);
    d.bus_mut().power_mut().order(Some(PowerCut::At(soon)));
    for _ in 0..2 {
        let (outcome, _) = page(&mut d, 0);
        assert_eq!(outcome, Err(ErrorKind::PowerLost), "until power is back");
    }
    let mut after = reboot(&d);
    holds(&mut after, 1, &pattern()[PAGE..]);
    // The power cut falls into status polls after the end of an erase, which is complete.
    let mut whole = after.clone();
    erase(&mut whole).unwrap();
    let end = whole.bus().chip().last_work(0).unwrap().end;
    after.bus_mut().power_mut().order(Some(PowerCut::At(end + Nanos::from_ns(1))));
    assert_eq!(erase(&mut after).err().unwrap().kind, ErrorKind::PowerLost);
    holds(&mut reboot(&after), 1, &[0xFF; PAGE]);
}

#[test]
fn chips_come_back_locked() {
    let mut d = written(true);
    let now = d.ready_at();
    d.bus_mut().chip_mut().power_cut(now);
    let refused = d.write(now + Nanos::from_ms(1), BLOCK + 2 * PAGE as u64, &pattern()[..PAGE]);
    assert_eq!(refused.err().unwrap().kind, ErrorKind::WriteProtected);
}

#[test]
fn timing_only_chips_lose_the_same_pages() {
    for (operation, share) in [(write as fn(&mut Driver) -> _, 0.5), (erase, 0.1), (erase, 0.5), (erase, 0.9)]
    {
        let outcomes = [true, false].map(|stores| {
            let mut after = cut(&written(stores), operation, share);
            [0, 1, 2].map(|number| page(&mut after, number).0)
        });
        assert_eq!(outcomes[0], outcomes[1], "{share}");
    }
}

/// Raw reads also show the state of an interrupted page, with normal booking of their time.
#[test]
fn raw_reads_show_what_is_left() {
    let mut after = cut(&written(true), write, 0.7);
    let before = after.breakdown();
    let (mut raw, mut oob) = (vec![0; PAGE], vec![0; 128]);
    let addr = BLOCK + 2 * PAGE as u64;
    after.read_oob(after.ready_at(), addr, &mut raw, &mut oob, OobMode::Raw).unwrap();
    let wrong = wrong_bits(&raw, &pattern()[..PAGE]);
    assert!((100..16_384).contains(&wrong), "{wrong}");
    assert!((after.breakdown() - before)[Phase::Array] > Nanos::ZERO);
}

/// RESET during an erase: it comes early, so the data is still readable.
#[test]
fn a_reset_ends_an_erase_where_it_stands() {
    for (share, erased) in [(0.1, false), (0.9, true)] {
        let mut d = written(true);
        let start = d.ready_at();
        let chip = d.bus_mut().chip_mut();
        let mut send = |at, op| chip.exec(at, at, 25_000_000, &op, Data::None).unwrap();
        send(start, SpiOp::command(0x06));
        send(start, SpiOp::command(0xD8).address(64, 3));
        let work =
            ArrayWork { task: ArrayTask::Erase, row: 64, start, end: start + d.spec().timing.t_bers_us.typ };
        assert_eq!(d.bus().chip().last_work(0), Some(work));
        let chip = d.bus_mut().chip_mut();
        chip.exec(at(work, share), at(work, share), 25_000_000, &SpiOp::command(0xFF), Data::None).unwrap();
        let held = chip.array(0).unwrap().stored(64).is_some();
        assert_eq!(held, !erased, "{share}");
    }
}

#[test]
fn operations_are_counted() {
    let mut d = written(true);
    d.bus_mut().power_mut().order(Some(PowerCut::During { operation: 3, share: 0.5 }));
    let data = vec![0; 4 * PAGE];
    let lost = d.write(d.ready_at(), BLOCK + 2 * PAGE as u64, &data).err().unwrap();
    assert_eq!((lost.kind, lost.addr), (ErrorKind::PowerLost, BLOCK + 4 * PAGE as u64));
    let mut after = reboot(&d);
    holds(&mut after, 3, &[0; PAGE]);
    assert_eq!(page(&mut after, 4).0, Err(ErrorKind::Uncorrectable));
    holds(&mut after, 5, &[0xFF; PAGE]);
}
