//! Tests that the driver writes the bytes of the codec, and that pages which it need not decode are correct.

use crate::cells::ErrorSpec;
use crate::ecc_engine::{EccProfile, EngineKind};
use crate::oracle::{Faults, Oracle};
use crate::raw_nand::spec::RawNandSpec;
use crate::raw_nand::testing::Rig;
use crate::raw_nand::testing::{Driver, driver, mx30lf2g18ac, nand128w3a2bn, nv_ddr, rig};
use floatgate_ecc::{Code, Codec};
use floatgate_mtd::{ErrorKind, Instant, Mtd, OobMode};
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: Instant = Instant::ZERO;

fn with_strength(strength: u32) -> Rig {
    let ecc = EccProfile { engine: EngineKind::Software, strength: Some(strength), ..EccProfile::default() };
    Rig { ecc, ..rig() }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (floatgate_mtd::random::mix(seed << 32 | i) >> 20) as u8).collect()
}

/// Simulates a failed erase: the chip accepts programs of pages that still contain data.
pub(super) fn fail_erase(device: &mut Driver) {
    let block = device.geometry().erase_bytes.into();
    device.bus_mut().chip_mut(0).unwrap().set_faults(0, Faults::ERASE);
    assert_eq!(device.erase(NOW, 0, block).unwrap_err().kind, ErrorKind::EraseFailed);
    device.bus_mut().chip_mut(0).unwrap().set_faults(0, Faults::NONE);
}

/// With every write function the page on flash is a codeword.
#[test]
fn pages_on_flash_are_codewords() {
    let cases = [
        (mx30lf2g18ac(), rig(), Code::Bch { strength: 4, step_bytes: 512 }, 36),
        (mx30lf2g18ac(), with_strength(1), Code::Hamming { step_bytes: 512 }, 40),
        (mx30lf2g18ac(), with_strength(8), Code::Bch { strength: 8, step_bytes: 512 }, 12),
        (nv_ddr(), rig(), Code::Bch { strength: 24, step_bytes: 1024 }, 1216 - 16 * 42),
    ];
    for (spec, rig, code, first) in cases {
        for fast in [false, true] {
            let mut rig = rig;
            (rig.options.cached_programs, rig.options.multi_plane) = (fast, fast);
            let mut device = driver(&spec, rig).unwrap();
            let g = device.geometry().clone();
            let (page, block) = (g.write_bytes as usize, g.erase_bytes as usize);
            let data = noise(7, 2 * block);
            device.write(NOW, 0, &data).unwrap();
            let codec = Codec::new(code).unwrap();
            let mut ecc = vec![0; page / code.step_bytes() as usize * code.ecc_bytes() as usize];
            for (row, data) in data.chunks(page).enumerate() {
                let stored = device.bus().array(0).unwrap().stored(row).unwrap();
                codec.encode_page(data, &mut ecc);
                let oob = &stored[page..];
                assert!(stored[..page] == *data && oob[first..first + ecc.len()] == ecc[..], "{code} {row}");
                assert!(oob[..first].iter().all(|byte| *byte == 0xFF));
            }
        }
    }
}

#[test]
fn users_bytes_and_ecc_bytes_share_the_oob() {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    let data = noise(3, 2048);
    device.write_oob(NOW, 0, &data, &[1, 2, 3], OobMode::Auto).unwrap();
    let mut ecc = [0; 28];
    Codec::new(Code::Bch { strength: 4, step_bytes: 512 }).unwrap().encode_page(&data, &mut ecc);
    let mut oob = [0; 64];
    device.read_oob(NOW, 0, &mut [], &mut oob, OobMode::Raw).unwrap();
    assert_eq!((&oob[..6], &oob[36..]), (&[0xFF, 0xFF, 1, 2, 3, 0xFF][..], &ecc[..]));
}

/// A dump that was loaded directly is decoded, regardless of the encoder.
#[test]
fn raw_dumps_decode() {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    let data = noise(5, 2048);
    let (mut page, mut oob) = (data.clone(), [0xFF; 64]);
    Codec::new(Code::Bch { strength: 4, step_bytes: 512 }).unwrap().encode_page(&data, &mut oob[36..]);
    page[100] ^= 0x81;
    oob[63] ^= 0x40;
    device.write_oob(NOW, 0, &page, &oob, OobMode::Raw).unwrap();
    let mut back = [0; 2048];
    let done = device.read(NOW, 0, &mut back).unwrap();
    assert_eq!((done.bitflips, done.bitflips_max, &back[..]), (3, 2, &data[..]));
    // Without ECC bytes the page is not a codeword.
    device.write_oob(NOW, 2048, &page, &[], OobMode::Raw).unwrap();
    assert_eq!(device.read(NOW, 2048, &mut back).unwrap_err().kind, ErrorKind::Uncorrectable);
}

#[test]
fn programming_a_page_twice_is_no_codeword() {
    let mut device = driver(&mx30lf2g18ac(), rig()).unwrap();
    let page = |seed| noise(seed, 2048);
    device.write(NOW, 0, &page(1)).unwrap();
    fail_erase(&mut device);
    device.write(NOW, 0, &page(2)).unwrap();
    assert_eq!(device.read(NOW, 0, &mut [0; 2048]).unwrap_err().kind, ErrorKind::Uncorrectable);
    // The same applies if this driver does not know of the first program.
    fail_erase(&mut device);
    let chip = device.bus().chip(0).unwrap().clone();
    let mut next = super::bad_blocks::probe_again(chip, rig());
    next.write(NOW, 0, &page(3)).unwrap();
    assert_eq!(next.read(NOW, 0, &mut [0; 2048]).unwrap_err().kind, ErrorKind::Uncorrectable);
}

#[test]
fn codes_that_do_not_exist_are_refused_with_what_does() {
    for (spec, strength, says) in [(nv_ddr(), 73, "1 to 72"), (nand128w3a2bn(), 16, "do not fit")] {
        let error = driver(&spec, with_strength(strength)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_table_on_flash_and_ecc_bytes_do_not_share_bytes() {
    let mut rig = with_strength(8);
    rig.options.bad_blocks = crate::raw_nand::driver::BadBlocks::OnFlash;
    let error = driver(&mx30lf2g18ac(), rig).unwrap_err();
    assert!(error.to_string().contains("signature"), "{error}");
}

#[derive(Clone, Debug)]
enum Op {
    Write(u8, u64),
    WriteRaw(u8, u64),
    Oob(u8),
    Erase,
    Inject(u8, u32),
    Read(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..8u8, any::<u64>()).prop_map(|(page, seed)| Op::Write(page, seed)),
        1 => (0..8u8, any::<u64>()).prop_map(|(page, seed)| Op::WriteRaw(page, seed)),
        1 => (0..8u8).prop_map(Op::Oob),
        1 => Just(Op::Erase),
        1 => (0..8u8, 0..(2048 + 64) * 8u32).prop_map(|(page, bit)| Op::Inject(page, bit)),
        5 => (0..8u8).prop_map(Op::Read),
    ]
}

/// Result of a read and the bytes it returned.
type ReadResult = (Result<(u32, u32), ErrorKind>, Vec<u8>);

/// Executes an operation; only reads have a result.
fn run(device: &mut Driver, op: &Op) -> Option<ReadResult> {
    let addr = |page: u8| u64::from(page) * 2048;
    // Both drivers get the same answer from the chip, accepted or rejected.
    match *op {
        Op::Write(page, seed) => _ = device.write(NOW, addr(page), &noise(seed, 2048)),
        Op::WriteRaw(page, seed) => {
            _ = device.write_oob(NOW, addr(page), &noise(seed, 2048), &[], OobMode::Raw);
        }
        Op::Oob(page) => _ = device.write_oob(NOW, addr(page), &[], &[0xFF, 0xFF, 0], OobMode::Place),
        Op::Erase => _ = device.erase(NOW, 0, 128 << 10),
        Op::Inject(page, bit) => {
            // The bit error is injected directly; the driver must detect it.
            device.bus.array_mut(0).unwrap().inject(page.into(), bit);
        }
        Op::Read(page) => {
            let mut out = vec![0; 2048];
            let done = device.read(NOW, addr(page), &mut out);
            return Some((done.map(|d| (d.bitflips, d.bitflips_max)).map_err(|e| e.kind), out));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same operations with and without the decoding shortcut give the same bytes and results, including cell
    /// errors.
    #[test]
    fn skipping_the_decoder_changes_nothing(ops in vec(op(), 1..40), floor in prop_oneof![Just(0.0), Just(1e-4)]) {
        let spec = mx30lf2g18ac();
        let spec = RawNandSpec { errors: Some(ErrorSpec { floor, ..spec.facts().error_spec() }), ..spec };
        let (mut short, mut long) = (driver(&spec, rig()).unwrap(), driver(&spec, rig()).unwrap());
        for op in &ops {
            long.ecc.forget_all();
            prop_assert_eq!(run(&mut short, op), run(&mut long, op));
        }
    }
}
