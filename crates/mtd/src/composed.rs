//! Tests of nested wrappers: every combination behaves like the device itself.

use crate::device::{Mtd, OobMode};
use crate::double::{Double, at};
use crate::faults::{FaultPlan, Faults};
use crate::geometry::Geometry;
use crate::partition::Partition;
use crate::power_cut::{Cut, CutKind, Interrupted, PowerCut, Stage, Tear};
use crate::ram::RamFlash;
use alloc::vec;
use proptest::prelude::*;

fn wild() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), (u64::MAX - 5000..=u64::MAX), 0u64..5000]
}

proptest! {
    /// No address or length makes a RAM device with power cuts or faults panic, and accesses outside the device are
    /// errors.
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
                6 => device.inner_mut().tear(Interrupted::Program { addr, data: &bytes[..count] }, Stage::Middle, seed),
                _ => device.inner_mut().tear(Interrupted::Erase { addr }, Stage::ALL[kind % 3], seed),
            }
        }
    }

    /// Two partitions alternately borrow the halves of one device: each write changes only its own half.
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
