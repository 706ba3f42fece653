//! Tests of cell effects that users of the driver observe: wear, errors, retries.

use crate::cells::{CellsProfile, ErrorSpec};
use crate::ecc_engine::{EccProfile, EngineKind};
use crate::nand::BlockState;
use crate::oracle::{Faults, Oracle};
use crate::raw_nand::chip::{ChipOptions, RawNand};
use crate::raw_nand::controller::{NandBoard, NandController};
use crate::raw_nand::driver::BadBlocks;
use crate::raw_nand::spec::{RawNandSpec, ReadRetry, RetryKind};
use crate::raw_nand::testing::Rig;
use crate::raw_nand::testing::{Driver, driver, ideal_controller, mx30lf2g18ac, nv_ddr, rig};
use floatgate_mtd::{ErrorKind, Instant, Mtd, Nanos, OobMode};
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: Instant = Instant::ZERO;

fn device(spec: &RawNandSpec, rig: Rig, options: ChipOptions) -> Driver {
    let chips = RawNand::package(spec, options).unwrap();
    let bus = NandController::new(ideal_controller(), NandBoard::default(), chips);
    crate::raw_nand::testing::probe(bus, rig, std::slice::from_ref(spec)).unwrap()
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (floatgate_mtd::random::mix(seed << 32 | i) >> 20) as u8).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Write(u32, u64),
    Erase(u32),
    Read(u32, usize),
    Later(u64),
    Bake(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..4u32, any::<u64>()).prop_map(|(block, seed)| Op::Write(block, seed)),
        2 => (0..4u32).prop_map(Op::Erase),
        6 => (0..32u32, 1..5usize).prop_map(|(page, pages)| Op::Read(page, pages)),
        1 => (0..400u64).prop_map(Op::Later),
        1 => (0..400u32).prop_map(Op::Bake),
    ]
}

type Seen = (Result<(u32, u32), ErrorKind>, Instant);

/// Executes an operation; pages of a block are written in order, each once.
fn run(device: &mut Driver, next: &mut [u32; 4], op: &Op) -> Seen {
    let now = device.ready_at();
    let block = u64::from(device.geometry().erase_bytes);
    let done = match *op {
        Op::Write(b, seed) => {
            let page = next[b as usize];
            if page == 8 {
                return (Ok((0, 0)), now);
            }
            next[b as usize] += 1;
            device.write(now, u64::from(b) * block + u64::from(page) * 2048, &noise(seed, 2048))
        }
        Op::Erase(b) => {
            next[b as usize] = 0;
            device.erase(now, u64::from(b) * block, block)
        }
        Op::Read(page, pages) => device.read(now, u64::from(page) * 2048, &mut vec![0; pages * 2048]),
        Op::Later(days) => {
            device.read(now + Nanos::from_ns(days * 86_400_000_000_000), 0, &mut vec![0; 2048])
        }
        Op::Bake(days) => {
            device.bus_mut().cells_mut(0).unwrap().bake(days.into(), 55.0);
            return (Ok((0, 0)), now);
        }
    };
    let at = device.ready_at();
    (done.map(|d| (d.bitflips, d.bitflips_max)).map_err(|e| e.kind), at)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without data, failures, corrections, losses and times are the same as with data.
    #[test]
    fn timing_only_comes_to_the_same(
        ops in vec(op(), 1..60),
        seed: u64,
        worn: bool,
        floor in prop_oneof![Just(1e-9), Just(2e-4), Just(4e-4)],
    ) {
        let mut spec = mx30lf2g18ac();
        // Four blocks of eight pages: few enough that each is used several times.
        (spec.geometry.pages_per_block, spec.geometry.blocks_per_lun) = (8, 4);
        (spec.factory_bad.per_lun, spec.geometry.max_bad_blocks_per_lun) = (0, 1);
        spec.errors = Some(ErrorSpec { floor, ..spec.facts().error_spec() });
        // Twice the mean endurance: some blocks have failed.
        let cycles = if worn { 2 * 19 * spec.facts().rated_cycles() as u32 } else { 500 };
        let cells = CellsProfile { cycles, ..CellsProfile::default() };
        // Strength of eight bits: a step with nine wrong bits, which is rare, is decoded as another codeword once in 40 000 cases.
        // Counting is then wrong.
        let ecc = EccProfile { engine: EngineKind::Pipelined, strength: Some(8), ..EccProfile::default() };
        let mut rig = Rig { ecc, ..rig() };
        // A wrong bit in a marker makes a block bad, and without data there are no markers.
        rig.options.bad_blocks = BadBlocks::Ignore;
        let chip = |stores| device(&spec, rig, ChipOptions { stores, seed, cells });
        let (mut with, mut without) = (chip(true), chip(false));
        let (mut next, mut next_without) = ([0; 4], [0; 4]);
        for op in &ops {
            let (a, b) = (run(&mut with, &mut next, op), run(&mut without, &mut next_without, op));
            prop_assert_eq!(a, b, "{:?}", op);
        }
    }
}

/// A chip whose only bit errors are caused by retention or read disturb.
fn forgetful(retry: ReadRetry) -> RawNandSpec {
    let mut spec = RawNandSpec { read_retry: Some(retry), ..nv_ddr() };
    let mut errors = ErrorSpec { floor: 1e-9, program_disturb: 0.0, ..spec.facts().error_spec() };
    errors.wear.rate = 0.0;
    // After a year, or after a hundred reads per page: 5 wrong bits per thousand.
    (errors.retention.rate, errors.retention.cycles, errors.retention.amount) = (5e-3 / 365.0, 0.0, 1.0);
    (errors.disturb.rate, errors.disturb.cycles, errors.disturb.amount) = (5e-5, 0.0, 1.0);
    spec.errors = Some(errors);
    spec
}

fn retries() -> [ReadRetry; 2] {
    let feature = ReadRetry { feature: 0x89, modes: 4, ..ReadRetry::default() };
    let hynix = ReadRetry {
        kind: RetryKind::Hynix,
        modes: 3,
        lowered: vec![0.0, 0.4, 0.9],
        registers: vec![0xCC, 0xBF],
        values: vec![vec![0, 0], vec![4, 0xFC], vec![8, 0xF8]],
        ..ReadRetry::default()
    };
    [feature, hynix]
}

#[test]
fn read_retry_helps_against_lost_charge_and_not_against_disturb() {
    for retry in retries() {
        let mut device = driver(&forgetful(retry), rig()).unwrap();
        let page = device.geometry().write_bytes as usize;
        let block = u64::from(device.geometry().erase_bytes);
        let data = noise(1, page);
        device.write(NOW, 0, &data).unwrap();
        device.write(NOW, block, &data).unwrap();
        let mut back = vec![0; page];
        assert!(device.read(NOW, 0, &mut back).unwrap().bitflips < 8);
        device.bus_mut().cells_mut(0).unwrap().bake(365.0, 55.0);
        let done = device.read(NOW, 0, &mut back).unwrap();
        assert!(back == data && done.bitflips > 10, "{done:?}");
        assert!(device.bus().cells(0).unwrap().rber(0, NOW).total() > 4e-3, "retry was needed");
        // The other block is read until it has the same number of wrong bits.
        device.erase(NOW, block, block).unwrap();
        device.write(NOW, block, &data).unwrap();
        for _ in 0..1300 {
            device.read_oob(NOW, block, &mut [], &mut [0; 1], OobMode::Raw).unwrap();
        }
        assert_eq!(device.read(NOW, block, &mut back).unwrap_err().kind, ErrorKind::Uncorrectable);
        assert_eq!(device.bus().chip(0).unwrap().read_retry_mode(0), 0);
    }
}

#[test]
fn impossible_retry_tables_are_refused_by_name() {
    let [_, hynix] = retries();
    type Break = fn(&mut ReadRetry);
    let breaks: [(&str, Break); 4] = [
        ("read_retry.lowered", |r| r.lowered[0] = 0.1),
        ("read_retry.lowered", |r| r.lowered[2] = f64::NAN),
        ("read_retry.registers", |r| r.registers.clear()),
        ("read_retry.values", |r| r.values[1].push(0)),
    ];
    for (field, change) in breaks {
        let mut retry = hynix.clone();
        change(&mut retry);
        let spec = RawNandSpec { read_retry: Some(retry), ..nv_ddr() };
        assert_eq!(spec.check().unwrap_err().key, field);
    }
}

#[test]
fn a_page_that_needs_it_asks_to_be_moved() {
    let spec = mx30lf2g18ac();
    let spec = RawNandSpec { errors: Some(ErrorSpec { floor: 4e-4, ..spec.facts().error_spec() }), ..spec };
    let mut device = driver(&spec, rig()).unwrap();
    let g = device.geometry().clone();
    device.write(NOW, 0, &noise(1, 128 << 10)).unwrap();
    let mut asked = 0;
    for page in 0..64 {
        match device.read(NOW, page * 2048, &mut [0; 2048]) {
            Ok(done) => {
                assert_eq!(done.wants_scrub(&g), done.bitflips_max >= 3);
                asked += u32::from(done.wants_scrub(&g));
            }
            Err(error) => assert_eq!(error.kind, ErrorKind::Uncorrectable),
        }
    }
    assert!((1..64).contains(&asked), "{asked}");
}

#[test]
fn worn_out_blocks_can_be_marked() {
    let cells = CellsProfile { cycles: 100_000_000, ..CellsProfile::default() };
    let spec = mx30lf2g18ac();
    for nop in [1, 4] {
        let spec = RawNandSpec { nop, ..spec.clone() };
        let mut device = device(&spec, rig(), ChipOptions { cells, ..ChipOptions::default() });
        let block = u64::from(device.geometry().erase_bytes);
        let failed = device.write(NOW, 5 * block, &noise(2, 2048)).unwrap_err();
        assert_eq!(failed.kind, ErrorKind::ProgramFailed);
        let failed = device.erase(NOW, 5 * block, block).unwrap_err();
        assert_eq!(failed.kind, ErrorKind::EraseFailed);
        device.mark_bad(NOW, 5 * block).unwrap();
        let chip = device.bus().chip(0).unwrap().clone();
        let again = super::bad_blocks::probe_again(chip, rig());
        assert_eq!(again.block_state(5), BlockState::FactoryBad);
    }
}

#[test]
fn the_table_on_flash_survives_its_own_blocks() {
    let mut spec = mx30lf2g18ac();
    spec.geometry.blocks_per_lun = 64;
    let mut rig = rig();
    rig.options.bad_blocks = BadBlocks::OnFlash;
    let mut device = driver(&spec, rig).unwrap();
    let block = u64::from(device.geometry().erase_bytes);
    device.mark_bad(NOW, 5 * block).unwrap();
    // Table and mirror are in blocks 63 and 62; both wear out.
    let chip = device.bus_mut().chip_mut(0).unwrap();
    chip.set_faults(63 * block, Faults::ERASE);
    chip.set_faults(62 * block, Faults::PROGRAM);
    device.mark_bad(NOW, 6 * block).unwrap();
    let chip = device.bus().chip(0).unwrap().clone();
    let mut again = super::bad_blocks::probe_again(chip, rig);
    for worn in [5, 6, 62, 63] {
        assert_eq!(again.block_state(worn), BlockState::Worn, "block {worn}");
    }
    again.bus_mut().chip_mut(0).unwrap().set_faults(61 * block, Faults::BOTH);
    // Without a second usable block the call fails, but one copy is still complete.
    assert!(again.mark_bad(NOW, 7 * block).is_err());
    let chip = again.bus().chip(0).unwrap().clone();
    let bus = NandController::new(ideal_controller(), NandBoard::default(), vec![chip]);
    let last = crate::raw_nand::testing::probe(bus, rig, &[spec]);
    assert!(last.is_err() || last.is_ok_and(|device| device.block_state(6) == BlockState::Worn));
}
