//! Random operations with ECC on the host: decoding, skipped decoding and counting give the same results.

use super::host_ecc::{noise, rig};
use super::rig::{Driver, spec};
use crate::cells::ErrorSpec;
use crate::ecc_engine::EngineKind;
use crate::oracle::Oracle;
use crate::spi_nand::SpiNandSpec;
use floatgate_mtd::{Breakdown, ErrorKind, Instant, Mtd, OobMode};
use proptest::collection::vec;
use proptest::prelude::*;

const PAGE: usize = 2048;

#[derive(Clone, Debug)]
enum Op {
    Write(u8, u64),
    WriteRaw(u8, u64),
    Oob(u8),
    Erase,
    Inject(u8, u32),
    Read(u32, u16),
    ReadOob(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..8u8, any::<u64>()).prop_map(|(page, seed)| Op::Write(page, seed)),
        1 => (0..8u8, any::<u64>()).prop_map(|(page, seed)| Op::WriteRaw(page, seed)),
        1 => (0..8u8).prop_map(Op::Oob),
        1 => Just(Op::Erase),
        1 => (0..8u8, 0..(2048 + 64) * 8u32).prop_map(|(page, bit)| Op::Inject(page, bit)),
        5 => (0..6 * 2048u32, 1..5000u16).prop_map(|(addr, len)| Op::Read(addr, len)),
        1 => (0..8u8).prop_map(Op::ReadOob),
    ]
}

/// Observed result of a call: result, bytes read, end time, and breakdown.
type Seen = (Result<(u32, u32), ErrorKind>, Vec<u8>, Instant, Breakdown);

fn run(d: &mut Driver, op: &Op) -> Seen {
    let now = d.ready_at();
    let addr = |page: u8| u64::from(page) * PAGE as u64;
    let mut out = Vec::new();
    let outcome = match *op {
        Op::Write(page, seed) => d.write(now, addr(page), &noise(seed, PAGE)),
        Op::WriteRaw(page, seed) => d.write_oob(now, addr(page), &noise(seed, PAGE), &[], OobMode::Raw),
        Op::Oob(page) => d.write_oob(now, addr(page), &[], &[0xFF, 0xFF, 0], OobMode::Place),
        Op::Erase => d.erase(now, 0, 128 << 10),
        Op::Inject(page, bit) => {
            d.bus_mut().chip_mut().inject(page.into(), bit);
            Ok(floatgate_mtd::Done::clean(now))
        }
        Op::Read(at, len) => {
            out = vec![0; len.into()];
            d.read(now, at.into(), &mut out)
        }
        Op::ReadOob(page) => {
            out = vec![0; PAGE + 64];
            let (data, oob) = out.split_at_mut(PAGE);
            d.read_oob(now, addr(page), data, oob, OobMode::Place)
        }
    };
    let outcome = outcome.map(|done| (done.bitflips_max, done.bitflips)).map_err(|error| error.kind);
    (outcome, out, d.ready_at(), d.breakdown())
}

fn driver(engine: EngineKind, stores: bool, floor: f64) -> Driver {
    let chip = spec("mx35lf2g14ac");
    let mut rig = rig(engine);
    rig.chip.stores = stores;
    rig.ecc.correct_us_per_bit = Some(floatgate_mtd::Nanos::from_us(3));
    rig.custom(SpiNandSpec { errors: Some(ErrorSpec { floor, ..chip.facts().error_spec() }), ..chip })
}

fn engine() -> impl Strategy<Value = EngineKind> {
    prop_oneof![Just(EngineKind::Software), Just(EngineKind::Pipelined), Just(EngineKind::External)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same operations with and without the decoding shortcut, including cell errors.
    #[test]
    fn skipping_the_decoder_changes_nothing(
        ops in vec(op(), 1..40),
        floor in prop_oneof![Just(0.0), Just(1e-4)],
        engine in engine(),
    ) {
        let (mut short, mut long) = (driver(engine, true, floor), driver(engine, true, floor));
        for op in &ops {
            // The caller of `bus_mut` may write to the array, so the driver no longer knows any page.
            long.bus_mut();
            prop_assert_eq!(run(&mut short, op), run(&mut long, op), "{:?}", op);
        }
    }

    /// Without stored data wrong bits are counted: results and times are the same until a step has more wrong bits than the
    /// code corrects. A decoder may then find another codeword.
    #[test]
    fn counting_and_decoding_agree(
        writes in vec((0..16u8, any::<u64>()), 0..8),
        bits in vec((0..16u8, 0..(2048 + 64) * 8u32), 0..60),
        reads in vec((0..14 * 2048u32, 1..5000u16), 1..8),
        floor in prop_oneof![Just(0.0), Just(5e-5)],
        engine in engine(),
    ) {
        let (mut with, mut without) = (driver(engine, true, floor), driver(engine, false, floor));
        let mut pages: Vec<(u8, u64)> = writes;
        pages.sort_unstable();
        pages.dedup_by_key(|write| write.0);
        let ops = pages.iter().map(|&(page, seed)| Op::Write(page, seed))
            .chain(bits.iter().map(|&(page, bit)| Op::Inject(page, bit)))
            .chain(reads.iter().map(|&(at, len)| Op::Read(at, len)));
        for op in ops {
            let (one, other) = (run(&mut with, &op), run(&mut without, &op));
            if other.0 == Err(ErrorKind::Uncorrectable) {
                break;
            }
            prop_assert_eq!((one.0, one.2, one.3), (other.0, other.2, other.3), "{:?}", op);
            prop_assert!(other.1.iter().all(|byte| *byte == 0), "what was only counted is the caller's");
        }
    }
}
