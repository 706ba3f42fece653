//! The faults reach their budget and do not exceed it.

use super::*;
use crate::power_cut::{Cut, CutKind, PowerCut};
use crate::ram::RamFlash;
use alloc::vec;
use alloc::vec::Vec;

const NOW: Instant = Instant::ZERO;
const PAGE: usize = 2048;
const BLOCK: u64 = 64 * 2048;

fn faulty(plan: FaultPlan) -> Faults<RamFlash> {
    Faults::new(RamFlash::new(Geometry::nand_2048(64)), plan).unwrap()
}

fn read<D: Mtd>(device: &mut D, addr: u64) -> Result<(Vec<u8>, Done), Error> {
    let mut out = vec![0; PAGE];
    device.read(NOW, addr, &mut out).map(|done| (out, done))
}

#[test]
fn bit_errors_add_up_to_the_strength_and_go_with_the_block() {
    let mut d = faulty(FaultPlan { bitflip_ppm: 100_000, ..FaultPlan::NONE });
    d.write(NOW, 0, &[3; PAGE]).unwrap();
    let mut seen = Vec::new();
    for _ in 0..200 {
        let (bytes, done) = read(&mut d, 0).unwrap();
        assert_eq!(bytes, [3; PAGE]);
        seen.push(done.bitflips_max);
    }
    assert_eq!((seen[0], seen.is_sorted(), seen[199]), (0, true, 4));
    assert!(read(&mut d, 0).unwrap().1.wants_scrub(d.geometry()));
    let mut both = vec![0; 2 * PAGE];
    assert_eq!(d.read(NOW, 100, &mut both[..PAGE]).unwrap().bitflips_max, 4);
    assert_eq!(d.read_oob(NOW, 0, &mut both[..PAGE], &mut [], OobMode::Raw).unwrap().bitflips, 0);
    d.arm(false);
    d.erase(NOW, 0, BLOCK).unwrap();
    assert_eq!(read(&mut d, 0).unwrap().1.bitflips, 0);
}

#[test]
fn factory_bad_blocks_come_from_the_seed() {
    let bad = |seed| {
        faulty(FaultPlan { seed, factory_bad: 5, ..FaultPlan::NONE }).into_inner().bad_blocks().to_vec()
    };
    assert_eq!((bad(1).len(), bad(1) == bad(1), bad(1) == bad(2)), (5, true, false));
    let all = faulty(FaultPlan { factory_bad: 1000, ..FaultPlan::NONE });
    assert_eq!(all.inner().bad_blocks(), (1..64).collect::<Vec<u32>>());
    assert!(Faults::new(RamFlash::new(Geometry::nor(4, 4096)), FaultPlan::harsh(1, 4)).is_err());
}

#[test]
fn a_failed_program_takes_the_block_and_leaves_the_pages_before_it() {
    let mut d = faulty(FaultPlan { grown_bad_max: 1, program_fail_ppm: 50_000, ..FaultPlan::NONE });
    let error = fill(&mut d);
    assert_eq!(error.kind, ErrorKind::ProgramFailed);
    let block = d.geometry().block_start(error.addr);
    assert_eq!(d.grown_bad().collect::<Vec<_>>(), [block]);
    for addr in (0..error.addr).step_by(PAGE) {
        assert_eq!(read(&mut d, addr).unwrap().0, [9; PAGE]);
    }
    assert_eq!(read(&mut d, error.addr).unwrap_err().kind, ErrorKind::Uncorrectable);
    assert_eq!(
        d.write(NOW, error.addr + PAGE as u64, &[1; PAGE]).unwrap_err().kind,
        ErrorKind::ProgramFailed
    );
    assert_eq!(d.erase(NOW, block, BLOCK).unwrap_err().kind, ErrorKind::EraseFailed);
    d.mark_bad(NOW, block).unwrap();
    assert!(d.is_bad(NOW, block).unwrap().0);
    // The budget of grown bad blocks is used up.
    for block in (0..64).map(|b| b * BLOCK).filter(|b| *b != block) {
        d.erase(NOW, block, BLOCK).unwrap();
        d.write(NOW, block, &vec![1; BLOCK as usize]).unwrap();
    }
}

/// Writes block after block until a program fails.
fn fill(device: &mut Faults<RamFlash>) -> Error {
    (0..64).find_map(|block| device.write(NOW, block * BLOCK, &vec![9; BLOCK as usize]).err()).unwrap()
}

#[test]
fn a_failed_erase_takes_the_block() {
    let plan = FaultPlan { seed: 4, grown_bad_max: 3, erase_fail_ppm: 200_000, ..FaultPlan::NONE };
    let mut d = faulty(plan);
    for block in 0..64 {
        d.write(NOW, block * BLOCK, &[0x33; PAGE]).unwrap();
    }
    let mut failed = Vec::new();
    for block in (0..64).map(|b| b * BLOCK) {
        if let Err(error) = d.erase(NOW, block, BLOCK) {
            assert_eq!((error.kind, error.addr), (ErrorKind::EraseFailed, block));
            assert_eq!(read(&mut d, block).unwrap_err().kind, ErrorKind::Uncorrectable);
            failed.push(block);
        }
    }
    assert_eq!((failed.len(), &failed), (3, &d.grown_bad().collect()));
    let across = d.erase(NOW, failed[0] - BLOCK, 2 * BLOCK).unwrap_err();
    assert_eq!(across.addr, failed[0]);
}

#[test]
fn oob_programs_fail_as_well() {
    let mut d = faulty(FaultPlan { grown_bad_max: 1, program_fail_ppm: 1_000_000, ..FaultPlan::NONE });
    let error = d.write_oob(NOW, BLOCK, &[0; PAGE], &[0; 4], OobMode::Auto).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ProgramFailed);
    assert!(d.write_oob(NOW, 64 * BLOCK, &[], &[0; 4], OobMode::Auto).is_err());
    d.write(NOW, 0, &[0; PAGE]).unwrap();
}

#[test]
fn the_same_seed_fails_the_same_way_and_power_cuts_come_on_top() {
    let run = |seed| {
        let mut d = PowerCut::new(faulty(FaultPlan::harsh(seed, 64)));
        d.order(Some(Cut { operation: 900, kind: CutKind::During(Stage::Middle), seed }));
        let mut log = Vec::new();
        for turn in 0..1000u64 {
            let addr = turn % 64 * BLOCK + turn / 64 * PAGE as u64;
            log.push(d.write(NOW, addr, &[turn as u8; PAGE]).map_err(|e| e.kind));
            log.push(read(&mut d, addr).map(|(_, done)| done).map_err(|e| e.kind));
        }
        assert!(d.is_lost());
        (log, d.into_inner().grown_bad().collect::<Vec<_>>())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
