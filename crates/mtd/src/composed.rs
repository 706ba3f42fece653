//! Wrappers on wrappers: whatever they are made of, the result is the device.

use crate::concat::Concat;
use crate::device::{Mtd, OobMode};
use crate::double::{Double, at};
use crate::error::ErrorKind;
use crate::faults::{FaultPlan, Faults};
use crate::geometry::Geometry;
use crate::meter::Meter;
use crate::partition::Partition;
use crate::power_cut::{Cut, CutKind, PowerCut, Stage, Tear};
use crate::ram::RamFlash;
use crate::time::Instant;
use crate::trace::Trace;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Read(u64, usize),
    Write(u64, usize, u8),
    Erase(u64, u64),
    Oob(u64, u8),
    MarkBad(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..Double::SIZE + 9, 0usize..600).prop_map(|(a, n)| Step::Read(a, n)),
        (0u64..34, 0usize..6, any::<u8>()).prop_map(|(p, n, b)| Step::Write(p * 64, n * 64, b)),
        (0u64..9, 0u64..4).prop_map(|(b, n)| Step::Erase(b * 256, n * 256)),
        (0u64..33, any::<u8>()).prop_map(|(p, b)| Step::Oob(p * 64, b)),
        (0u64..9).prop_map(|b| Step::MarkBad(b * 256)),
    ]
}

/// What a step shows of a device, times left out.
fn observe<D: Mtd>(device: &mut D, now: Instant, step: &Step) -> (Result<bool, (ErrorKind, u64)>, Vec<u8>) {
    let mut seen = vec![0; 600];
    let result = match *step {
        Step::Read(addr, len) => device.read(now, addr, &mut seen[..len]).map(|_| false),
        Step::Write(addr, len, byte) => device.write(now, addr, &vec![byte; len]).map(|_| false),
        Step::Erase(addr, len) => device.erase(now, addr, len).map(|_| false),
        Step::Oob(addr, byte) => device
            .write_oob(now, addr, &[], &[byte; 4], OobMode::Place)
            .and_then(|_| device.read_oob(now, addr, &mut [], &mut seen[..4], OobMode::Place))
            .map(|_| false),
        Step::MarkBad(addr) => {
            device.mark_bad(now, addr).and_then(|_| device.is_bad(now, addr)).map(|(bad, _)| bad)
        }
    };
    (result.map_err(|e| (e.kind, e.addr)), seen)
}

/// The device of `blocks` blocks cut out of a larger one, at block `first`.
fn piece(first: u64, blocks: u64) -> Box<dyn Mtd> {
    Box::new(Partition::new(Double::with_size(4096), first * 256, blocks * 256).unwrap())
}

fn wild() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), (u64::MAX - 5000..=u64::MAX), 0u64..5000]
}

proptest! {
    /// No address and no length brings a device in memory, its cuts or its faults down, and what is not on the device is
    /// refused.
    #[test]
    fn wild_calls_are_answered(calls in prop::collection::vec((wild(), wild(), 0usize..5000, 0u8..8), 1..40),
                               kind in 0usize..4, seed in any::<u64>(), nor in any::<bool>()) {
        let geometry = if nor { Geometry::nor(1, 4096) } else { Geometry { size_bytes: 4096, erase_bytes: 2048, ..Geometry::nand_512(1) } };
        let plan = FaultPlan { factory_bad: 0, grown_bad_max: 1, ..FaultPlan::harsh(seed, 2) };
        let faults = Faults::new(RamFlash::new(geometry), plan).unwrap();
        let mut device = PowerCut::new(faults);
        device.order(Some(Cut { operation: seed % 5, kind: CutKind::ALL[kind], seed }));
        let mut bytes = vec![seed as u8; 5000];
        for (addr, len, count, call) in calls {
            let outside = addr.checked_add(count as u64).is_none_or(|end| end > 4096);
            let now = at(1);
            device.power_on();
            match call {
                0 => prop_assert!(device.read(now, addr, &mut bytes[..count]).is_err() || !outside),
                1 => prop_assert!(device.write(now, addr, &bytes[..count]).is_err() || !outside),
                2 => prop_assert!(device.erase(now, addr, len).is_err() || addr + len <= 4096),
                3 => prop_assert!(device.read_oob(now, addr, &mut [], &mut bytes[..count], OobMode::Raw).is_err() || addr < 4096),
                4 => prop_assert!(device.write_oob(now, addr, &bytes[..count], &[seed as u8], OobMode::Auto).is_err() || !outside),
                5 => prop_assert!(device.is_bad(now, addr).is_err() || addr < 4096),
                6 => device.inner_mut().tear_program(addr, &bytes[..count], Stage::Middle, seed),
                _ => device.inner_mut().tear_erase(addr, Stage::ALL[kind % 3], seed),
            }
        }
    }

    /// Partitions of devices, put end to end and watched, behave as one plain device: same bytes, same failures at the
    /// same addresses.
    #[test]
    fn pieces_put_together_equal_the_device(steps in prop::collection::vec(step(), 1..60), cut in 1u64..7, first in 0u64..3) {
        let mut plain = Double::new();
        let parts = vec![piece(first, cut), piece(8, 8 - cut)];
        let mut built = Trace::new(Meter::new(Concat::new(parts).unwrap()), 4);
        prop_assert_eq!(built.geometry(), plain.geometry());
        for (turn, step) in steps.iter().enumerate() {
            let now = at(turn as u64 * 1_000_000);
            let (want, got) = (observe(&mut plain, now, step), observe(&mut built, now, step));
            prop_assert_eq!(want.0, got.0, "{:?}", step);
            prop_assert_eq!(want.1, got.1, "{:?}", step);
        }
    }

    /// Both halves of one device, as partitions that borrow it in turn: what the wrappers write is where it belongs.
    #[test]
    fn partitions_borrow_the_device(block in 0u64..8, byte in 0u8..255) {
        let mut device = Double::new();
        Partition::new(&mut device, block * 256, 256).unwrap().write(at(0), 64, &[byte; 64]).unwrap();
        let start = (block * 256 + 64) as usize;
        for (addr, &got) in device.data.iter().enumerate() {
            let want = if (start..start + 64).contains(&addr) { byte } else { 0xFF };
            prop_assert_eq!(got, want);
        }
    }
}
