//! Tests of cells behind the command set: wear, bit errors, read retry, power loss.

use super::rig::{Driver, Rig, spec};
use crate::cells::{CellsProfile, ErrorSpec};
use crate::ecc_engine::{EccProfile, EngineKind};
use crate::oracle::Oracle;
use crate::spi_nand::{ArrayTask, SpiNandSpec};
use floatgate_mtd::{Breakdown, Done, Error, ErrorKind, Mtd, Nanos, OobMode};
use proptest::prelude::*;

/// Bit errors at this rate without any other cause.
fn steady(rate: f64) -> ErrorSpec {
    let mut errors = spec("mx35lf2ge4ad").facts().error_spec();
    errors.floor = rate;
    errors.wear.rate = 0.0;
    errors.retention.rate = 0.0;
    errors.disturb.rate = 0.0;
    errors
}

fn noisy(name: &str, rate: f64) -> SpiNandSpec {
    SpiNandSpec { errors: Some(steady(rate)), ..spec(name) }
}

fn program(d: &mut Driver, block: u32, pages: u32) -> Result<Done, Error> {
    let g = d.geometry().clone();
    let data: Vec<u8> = (0..pages * g.write_bytes).map(|i| (i % 251) as u8).collect();
    d.write(d.ready_at(), u64::from(block) * u64::from(g.erase_bytes), &data)
}

fn erase(d: &mut Driver, block: u32) -> Result<Done, Error> {
    let bytes = u64::from(d.geometry().erase_bytes);
    d.erase(d.ready_at(), u64::from(block) * bytes, bytes)
}

fn read_page(d: &mut Driver, page: u32) -> (Result<u32, ErrorKind>, Vec<u8>) {
    let bytes = d.geometry().write_bytes;
    let mut buf = vec![0; bytes as usize];
    let outcome = d.read(d.ready_at(), u64::from(page) * u64::from(bytes), &mut buf);
    (outcome.map(|done| done.bitflips_max).map_err(|e| e.kind), buf)
}

#[test]
fn worn_blocks_fail_and_the_status_says_so() {
    let mut rig = Rig::new("1S-8S-8S");
    rig.chip.cells.cycles = 50_000_000;
    let mut d = rig.driver("w35n01jw");
    let failed = program(&mut d, 3, 1).err().unwrap();
    assert_eq!((failed.kind, failed.addr), (ErrorKind::ProgramFailed, 3 * 262_144));
    assert_eq!(erase(&mut d, 4).err().unwrap().kind, ErrorKind::EraseFailed);
    let mut rig = Rig::new("1S-8S-8S");
    (rig.chip.cells.cycles, rig.chip.cells.wear) = (50_000_000, false);
    let mut d = rig.driver("w35n01jw");
    assert!(program(&mut d, 3, 1).is_ok() && erase(&mut d, 4).is_ok());
}

/// Array times of an erase and a program after a number of cycles.
fn times(cycles: u32) -> (Nanos, Nanos) {
    let mut rig = Rig::new("1S-8S-8S");
    rig.chip.cells.cycles = cycles;
    let mut d = rig.driver("w35n01jw");
    erase(&mut d, 1).unwrap();
    let work = d.bus().chip().last_work(0).unwrap();
    assert_eq!((work.task, work.row), (ArrayTask::Erase, 64));
    let t_bers = work.end.since(work.start);
    program(&mut d, 1, 2).unwrap();
    let work = d.bus().chip().last_work(0).unwrap();
    assert_eq!((work.task, work.row), (ArrayTask::Program, 65));
    (t_bers, work.end.since(work.start))
}

#[test]
fn times_are_typical_and_change_with_wear() {
    let t = spec("w35n01jw").timing;
    assert_eq!(times(500), (t.t_bers_us.typ, t.t_prog_us.typ));
    let (new_erase, new_program) = times(0);
    assert!(new_erase == t.t_bers_us.typ && new_program > t.t_prog_us.typ);
    let (old_erase, old_program) = times(800_000);
    assert!(old_erase > t.t_bers_us.typ && old_program < t.t_prog_us.typ);
    assert!(old_erase <= t.t_bers_us.max);
}

/// A page has about two wrong bits; the code corrects eight in each step.
#[test]
fn on_die_ecc_corrects_what_cells_do_wrong_and_raw_reads_show_it() {
    for continuous in [false, true] {
        let mut rig = Rig::new("1S-1S-4S");
        rig.options.continuous = continuous;
        let mut d = rig.custom(noisy("mx35lf2ge4ad", 1e-4));
        program(&mut d, 0, 32).unwrap();
        let mut got = vec![0; 32 * 2048];
        let done = d.read(d.ready_at(), 0, &mut got).unwrap();
        let want: Vec<u8> = (0..32 * 2048u32).map(|i| (i % 251) as u8).collect();
        assert!(got == want, "corrected");
        assert!((2..=8).contains(&done.bitflips_max), "{}", done.bitflips_max);
        let (mut raw, mut oob) = (vec![0; 2048], vec![0; 64]);
        let mut wrong = 0;
        for page in 0..32usize {
            let at = d.ready_at();
            d.read_oob(at, page as u64 * 2048, &mut raw, &mut oob, OobMode::Raw).unwrap();
            let pairs = raw.iter().zip(&want[page * 2048..]);
            wrong += pairs.map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        }
        assert!((20..100).contains(&wrong), "{wrong} of 52 expected");
    }
}

#[test]
fn uncorrectable_pages_keep_their_wrong_bits() {
    let mut d = Rig::new("1S-4D-4D").custom(noisy("w25n02jw", 5e-3));
    program(&mut d, 0, 1).unwrap();
    let (outcome, got) = read_page(&mut d, 0);
    assert_eq!(outcome, Err(ErrorKind::Uncorrectable));
    let wrong: u32 = (0..).zip(&got).map(|(i, b)| (b ^ (i % 251) as u8).count_ones()).sum();
    assert!(wrong > 40, "{wrong}");
}

/// OOB bytes are also part of codewords.
#[test]
fn the_code_covers_the_oob() {
    let mut d = Rig::new("1S-1S-4S").driver("mx35lf2ge4ad");
    let at = d.write_oob(d.ready_at(), 0, &[0; 2048], &[], OobMode::Auto).unwrap().at;
    for bit in 0..8 {
        d.bus_mut().chip_mut().inject(0, 2048 * 8 + 32 + bit);
    }
    let mut oob = [0; 64];
    let mut data = vec![0; 2048];
    let done = d.read_oob(at, 0, &mut data, &mut oob, OobMode::Place).unwrap();
    assert_eq!((done.bitflips_max, oob), (8, [0xFF; 64]));
    // The ninth wrong bit of the first step is one of its data bits.
    d.bus_mut().chip_mut().inject(0, 7);
    let lost = d.read_oob(done.at, 0, &mut data, &mut oob, OobMode::Place).err().unwrap();
    assert_eq!((lost.kind, data[0], oob[4]), (ErrorKind::Uncorrectable, 0x80, 0));
}

/// After years of storage a page is wrong with the normal thresholds and right with lower ones; the driver finds them
/// automatically.
#[test]
fn read_retry_rescues_what_lost_its_charge() {
    let read = |modes| {
        let mut chip = spec("mx35lf2ge4ad");
        chip.read_retry = chip.read_retry.filter(|_| modes);
        let mut rig = Rig::new("1S-1S-4S");
        rig.chip.cells.cycles = 60_000;
        let mut d = rig.custom(chip);
        program(&mut d, 0, 4).unwrap();
        d.bus_mut().chip_mut().cells_mut(0).unwrap().bake(3650.0, 125.0);
        (0..4).map(|page| read_page(&mut d, page)).collect::<Vec<_>>()
    };
    assert!(read(false).iter().all(|page| page.0 == Err(ErrorKind::Uncorrectable)));
    for (page, (outcome, data)) in read(true).iter().enumerate() {
        assert!(outcome.as_ref().is_ok_and(|bits| *bits > 0), "page {page}: {outcome:?}");
        assert!(data.iter().enumerate().all(|(i, b)| *b == ((page * 2048 + i) % 251) as u8));
    }
}

#[test]
fn retry_modes_may_have_shifts_of_their_own() {
    let mut retry = spec("mx35lf2ge4ad").read_retry.unwrap();
    assert_eq!((retry.lowered(0), retry.lowered(2)), (0.0, 0.6));
    retry.lowered = vec![0.1, -0.2, 0.4, 0.5, 0.7];
    assert_eq!((retry.lowered(0), retry.lowered(2)), (0.0, -0.2));
    let with = |lowered| {
        let retry = crate::spi_nand::spec::ReadRetry { lowered, ..retry.clone() };
        SpiNandSpec { read_retry: Some(retry), ..spec("mx35lf2ge4ad") }.check().map_err(|bad| bad.key)
    };
    assert_eq!(with(vec![0.1; 5]), Ok(()));
    assert_eq!((with(vec![0.1]), with(vec![9.0; 5])), (Err("read_retry.lowered"), Err("read_retry.lowered")));
}

/// A value that does not fit the parameter page is rejected, because the page would contain another one.
#[test]
fn what_the_parameter_page_cannot_state_is_refused() {
    let with = |change: fn(&mut SpiNandSpec)| {
        let mut chip = spec("w35n01jw");
        change(&mut chip);
        chip.check().map_err(|bad| bad.key)
    };
    assert_eq!(with(|_| ()), Ok(()));
    let strong = |chip: &mut SpiNandSpec| (chip.ecc.on_die, chip.ecc.strength) = (false, 256);
    assert_eq!(with(strong), Err("ecc.strength"));
    assert_eq!(
        with(|chip| chip.geometry.max_bad_blocks_per_lun = 65_536),
        Err("geometry.max_bad_blocks_per_lun")
    );
    assert_eq!(
        with(|chip| chip.timing.t_bers_us.max = floatgate_mtd::Nanos::from_us(65_536)),
        Err("timing.t_bers_us")
    );
}

#[test]
fn tables_of_the_cells_are_checked() {
    let mut chip = spec("w35n01jw");
    chip.wear = Some(chip.facts().wear_spec());
    chip.errors = Some(chip.facts().error_spec());
    assert_eq!(chip.check(), Ok(()));
    chip.wear.as_mut().unwrap().life_factor = 0.0;
    assert_eq!(chip.check().unwrap_err().key, "wear.life_factor");
    chip.wear = None;
    chip.errors.as_mut().unwrap().floor = 2.0;
    assert_eq!(chip.check().unwrap_err().key, "errors.floor");
}

#[test]
fn dies_and_seeds_differ() {
    let cells = |seed| {
        let mut rig = Rig::new("1S-4S-4S");
        rig.chip.seed = seed;
        rig.custom(noisy("w25m02gv", 1e-3))
    };
    let raw = |d: &mut Driver, block: u64| {
        let mut data = vec![0; 2048];
        d.read_oob(d.ready_at(), block * 131_072, &mut data, &mut [], OobMode::Raw).unwrap();
        data
    };
    let (mut one, mut other) = (cells(1), cells(2));
    let first = raw(&mut one, 0);
    assert!(first.iter().any(|b| *b != 0xFF));
    assert_ne!(first, raw(&mut one, 1024), "block 0 of the other die");
    assert_ne!(first, raw(&mut other, 0));
    assert_eq!(first, raw(&mut cells(1), 0));
}

#[derive(Clone, Debug)]
enum Op {
    Erase(u32),
    Write(u32, u32),
    Read(u32, u32),
    MarkBad(u32),
    IsBad(u32),
    Bake(f64),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let block = 0..4u32;
    prop_oneof![
        3 => block.clone().prop_map(Op::Erase),
        6 => (block.clone(), 1..9u32).prop_map(|(block, pages)| Op::Write(block, pages)),
        9 => (0..256u32, 1..20u32).prop_map(|(page, pages)| Op::Read(page, pages)),
        1 => block.clone().prop_map(Op::MarkBad),
        1 => block.prop_map(Op::IsBad),
        1 => (0.0..300.0f64).prop_map(Op::Bake),
        1 => (0..1u64 << 50).prop_map(Op::Wait),
    ]
}

/// Next page of a block that was marked bad: past its 64 pages, so that nothing more is written. Reads of it are skipped:
/// after a failed program the result depends on how few bits the marker programs, which timing-only chips do not know.
const MARKED: u32 = 65;

/// Observed result of an operation: error kind or number of bits, end time, breakdown.
type Seen = (Result<(u32, u32), ErrorKind>, Nanos, Breakdown);

fn step(d: &mut Driver, next: &mut [u32; 4], wait: &mut Nanos, op: &Op) -> Seen {
    let g = d.geometry().clone();
    let (block_bytes, page_bytes) = (u64::from(g.erase_bytes), u64::from(g.write_bytes));
    let now = d.ready_at() + std::mem::take(wait);
    let nothing = |now| Ok(Done::clean(now));
    let outcome = match *op {
        Op::Erase(block) => {
            let outcome = d.erase(now, u64::from(block) * block_bytes, block_bytes);
            if !outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::BadBlock) {
                next[block as usize] = 0;
            }
            outcome
        }
        Op::Write(block, pages) => {
            let from = next[block as usize];
            let pages = pages.min(64u32.saturating_sub(from));
            next[block as usize] += pages;
            let data = vec![0x5A; (u64::from(pages) * page_bytes) as usize];
            d.write(now, u64::from(block) * block_bytes + u64::from(from) * page_bytes, &data)
        }
        Op::Read(page, pages)
            if (page..(page + pages).min(256)).any(|page| next[page as usize / 64] == MARKED) =>
        {
            nothing(now)
        }
        Op::Read(page, pages) => {
            let mut data = vec![0; u64::from(pages.min(256 - page)) as usize * page_bytes as usize];
            d.read(now, u64::from(page) * page_bytes, &mut data)
        }
        Op::MarkBad(block) => {
            next[block as usize] = MARKED;
            d.mark_bad(now, u64::from(block) * block_bytes)
        }
        Op::IsBad(block) => d
            .is_bad(now, u64::from(block) * block_bytes)
            .map(|(bad, at)| Done { bitflips: u32::from(bad), ..Done::clean(at) }),
        Op::Bake(days) => {
            d.bus_mut().chip_mut().cells_mut(0).unwrap().bake(days, 85.0);
            nothing(now)
        }
        Op::Wait(ns) => {
            *wait = Nanos::from_ns(ns);
            nothing(now)
        }
    };
    let seen = outcome.map(|done| (done.bitflips_max, done.bitflips)).map_err(|error| error.kind);
    (seen, d.ready_at().since(floatgate_mtd::Instant::ZERO), d.breakdown())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// With and without stored data, a chip reports the same results and takes the same times.
    #[test]
    fn timing_only_chips_fail_as_chips_with_data_do(
        ops in prop::collection::vec(op(), 1..40),
        chip in prop::sample::select(vec![
            ("w25n02jw", "1S-4D-4D"),
            ("mx35lf2ge4ab", "1S-1S-4S"),
            ("mx35lf2ge4ad", "1S-1S-2S"),
            ("mx35lf2g14ac", "1S-1S-4S"),
        ]),
        seed: u64,
        rate in prop_oneof![Just(1e-6), Just(1e-4), Just(8e-4)],
        cycles in prop_oneof![Just(500), Just(1_000_000), Just(1_900_000)],
        continuous: bool,
    ) {
        let driver = |stores| {
            let mut rig = Rig::new(chip.1);
            rig.options.continuous = continuous;
            rig.chip.seed = seed;
            rig.chip.stores = stores;
            rig.chip.cells = CellsProfile { cycles, temperature_c: 40.0, ..CellsProfile::default() };
            if chip.0 == "mx35lf2g14ac" {
                rig.ecc = EccProfile { engine: EngineKind::Software, ..EccProfile::default() };
            }
            let errors = ErrorSpec { floor: rate, ..spec(chip.0).facts().error_spec() };
            rig.custom(SpiNandSpec { errors: Some(errors), ..spec(chip.0) })
        };
        let (mut with, mut without) = (driver(true), driver(false));
        let mut state = [([0; 4], Nanos::ZERO); 2];
        for op in &ops {
            let [(next, wait), (next_too, wait_too)] = &mut state;
            let (one, other) = (step(&mut with, next, wait, op), step(&mut without, next_too, wait_too, op));
            if chip.0 == "mx35lf2g14ac" && other.0 == Err(ErrorKind::Uncorrectable) {
                // With more wrong bits a decoder may find another codeword, which counting does not model.
                break;
            }
            prop_assert_eq!(one, other, "{:?}", op);
        }
    }
}
