//! Tests of ECC on the host: flash contains the bytes of the codec, and wrong bits are corrected.

use super::rig::{Driver, PARTS, Rig, spec};
use crate::ecc_engine::{EccProfile, EngineKind};
use crate::oracle::Oracle;
use crate::spi_nand::ProbeError;
use floatgate_ecc::{Code, Codec, OobLayout};
use floatgate_mtd::{ErrorKind, Mtd, OobMode};

pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (floatgate_mtd::random::mix(seed << 32 | i) >> 20) as u8).collect()
}

pub(super) fn rig(engine: EngineKind) -> Rig {
    Rig { ecc: EccProfile { engine, ..EccProfile::default() }, ..Rig::new("1S-1S-1S") }
}

fn driver(engine: EngineKind) -> Driver {
    rig(engine).driver("mx35lf2g14ac")
}

fn write(d: &mut Driver, addr: u64, data: &[u8]) {
    d.write(d.ready_at(), addr, data).unwrap();
}

/// Maximum number of corrected bits in a step, total number of corrected bits, and the bytes.
fn read(d: &mut Driver, addr: u64, len: usize) -> (Result<(u32, u32), ErrorKind>, Vec<u8>) {
    let mut buf = vec![0xA5; len];
    let outcome = d.read(d.ready_at(), addr, &mut buf);
    (outcome.map(|done| (done.bitflips_max, done.bitflips)).map_err(|e| e.kind), buf)
}

fn inject(d: &mut Driver, page: u32, bits: impl IntoIterator<Item = u32>) {
    bits.into_iter().for_each(|bit| d.bus_mut().chip_mut().inject(page, bit));
}

const BCH_4: Code = Code::Bch { strength: 4, step_bytes: 512 };

/// Bits of the third step: in its data, and in its ECC bytes, which begin at 36 + 2 * 7. The last four bits are padding.
const THIRD_STEP: [u32; 5] =
    [1024 * 8, (2048 + 50) * 8, (2048 + 56) * 8 + 4, 1535 * 8 + 7, (2048 + 53) * 8 + 5];

/// The position of the ECC bytes depends on the code and the size of the OOB.
#[test]
fn pages_on_flash_are_codewords() {
    let hamming = Code::Hamming { step_bytes: 512 };
    let bch_8 = Code::Bch { strength: 8, step_bytes: 512 };
    for (name, code, first) in [
        ("mx35lf2g14ac", BCH_4, 36),
        ("mx35lf2ge4ab", BCH_4, 36),
        ("mx35lf2ge4ad", bch_8, 12),
        ("w25m02gv", hamming, 40),
    ] {
        let mut d = rig(EngineKind::Software).driver(name);
        let page = d.geometry().write_bytes as usize;
        let data = noise(7, 3 * page);
        write(&mut d, 0, &data);
        let codec = Codec::new(code).unwrap();
        let mut ecc = vec![0; page / 512 * code.ecc_bytes() as usize];
        for (row, data) in data.chunks(page).enumerate() {
            let stored = d.bus().chip().array(0).unwrap().stored(row).unwrap();
            codec.encode_page(data, &mut ecc);
            let (before, rest) = stored[page..].split_at(first);
            assert!(stored[..page] == *data && rest[..ecc.len()] == ecc, "{name} {row}");
            let free = before.iter().chain(&rest[ecc.len()..]);
            assert!(free.copied().all(|byte| byte == 0xFF), "{name}");
        }
    }
}

/// Every chip works with its on-die engine disabled, on all its dies.
#[test]
fn every_chip_can_be_corrected_by_the_host() {
    for (name, _) in PARTS {
        for engine in [EngineKind::Software, EngineKind::Pipelined, EngineKind::External] {
            let mut d = rig(engine).driver(name);
            let g = d.geometry().clone();
            let page = g.write_bytes as usize;
            for addr in [0, g.size_bytes / 2] {
                let data = noise(addr + 1, 2 * page);
                write(&mut d, addr, &data);
                assert_eq!(read(&mut d, addr, 2 * page), (Ok((0, 0)), data.clone()), "{name}");
                let row = (addr / u64::from(g.write_bytes)) as u32;
                inject(&mut d, row, (0..g.ecc_strength).map(|bit| bit * 9));
                let bits = g.ecc_strength;
                assert_eq!(read(&mut d, addr, 2 * page), (Ok((bits, bits)), data), "{name}");
            }
        }
    }
}

#[test]
fn as_many_bits_as_the_code_corrects_and_not_one_more() {
    let mut d = driver(EngineKind::Software);
    let data = noise(1, 3 * 2048);
    write(&mut d, 0, &data);
    inject(&mut d, 1, THIRD_STEP[..4].iter().copied());
    inject(&mut d, 1, [3, 2048 * 8 + 20]);
    // Free OOB bytes belong to no ECC step.
    assert_eq!(read(&mut d, 0, 3 * 2048), (Ok((4, 5)), data.clone()));
    inject(&mut d, 1, THIRD_STEP[4..].iter().copied());
    let (outcome, got) = read(&mut d, 0, 3 * 2048);
    assert_eq!(outcome, Err(ErrorKind::Uncorrectable));
    let mut expected = data;
    (expected[2048 + 1024], expected[2048 + 1535]) =
        (expected[2048 + 1024] ^ 1, expected[2048 + 1535] ^ 0x80);
    assert!(got == expected, "the other steps and pages are corrected, this one is left");
}

#[test]
fn parts_of_pages_are_corrected() {
    let mut d = driver(EngineKind::External);
    let data = noise(2, 3 * 2048);
    write(&mut d, 0, &data);
    (0..3).for_each(|page| inject(&mut d, page, [0, 5000, 16_383, 2048 * 8 + 300]));
    for (addr, len) in [(0, 1), (1, 2046), (2047, 2), (600, 4000), (4096 + 700, 1)] {
        let (outcome, got) = read(&mut d, addr as u64, len);
        assert!(outcome.is_ok_and(|bits| bits.1.is_multiple_of(4) && bits.0 == 2), "{addr} {len}");
        assert_eq!(got, data[addr..addr + len], "{addr} {len}");
    }
}

/// A stream contains no OOB, so pages are read one by one even if the chip supports streams.
#[test]
fn nothing_is_streamed_past_an_engine_that_needs_the_oob() {
    let mut with = rig(EngineKind::Pipelined);
    with.options.continuous = true;
    let mut d = with.driver("mx35lf2ge4ad");
    assert!(rig_streams("mx35lf2ge4ad") && d.continuous_operation().is_none());
    let data = noise(3, 16 * 2048);
    write(&mut d, 0, &data);
    inject(&mut d, 9, [8, 9, 10]);
    assert_eq!(read(&mut d, 0, 16 * 2048), (Ok((3, 3)), data));
}

fn rig_streams(name: &str) -> bool {
    let mut rig = Rig::new("1S-1S-1S");
    rig.options.continuous = true;
    rig.driver(name).continuous_operation().is_some()
}

#[test]
fn erased_pages_may_have_a_few_zeros() {
    let mut d = driver(EngineKind::Software);
    assert_eq!(read(&mut d, 0, 2048), (Ok((0, 0)), vec![0xFF; 2048]));
    inject(&mut d, 0, THIRD_STEP[..4].iter().copied());
    inject(&mut d, 0, [1, 2048 * 8 + 16]);
    assert_eq!(read(&mut d, 0, 2048), (Ok((4, 5)), vec![0xFF; 2048]));
    inject(&mut d, 0, [2, 3, 100, 101]);
    assert_eq!(read(&mut d, 0, 2048).0, Err(ErrorKind::Uncorrectable));
    // A clean marker in the same OOB has no effect.
    d.write_oob(d.ready_at(), 2048, &[], &[0x85, 0x19], OobMode::Auto).unwrap();
    inject(&mut d, 1, [7]);
    assert_eq!(read(&mut d, 2048, 2048), (Ok((1, 1)), vec![0xFF; 2048]));
}

#[test]
fn users_bytes_and_ecc_bytes_share_the_oob() {
    let mut d = driver(EngineKind::Software);
    assert_eq!(d.geometry().oob_free_bytes, 34);
    assert_eq!(d.oob_layout(), &OobLayout::large_page(64, 28).unwrap());
    let data = noise(4, 2048);
    let mut ecc = [0; 28];
    Codec::new(BCH_4).unwrap().encode_page(&data, &mut ecc);
    let free: Vec<u8> = (1..=34).collect();
    let at = d.write_oob(d.ready_at(), 0, &data, &free, OobMode::Auto).unwrap().at;
    // In place mode, the user's values for the ECC bytes are ignored.
    let at = d.write_oob(at, 2048, &data, &[0x33; 64], OobMode::Place).unwrap().at;
    let (mut oob, mut back, mut page) = ([0; 64], [0; 34], vec![0; 2048]);
    d.read_oob(at, 0, &mut [], &mut oob, OobMode::Raw).unwrap();
    assert_eq!((&oob[..2], &oob[2..36], &oob[36..]), (&[0xFF; 2][..], &free[..], &ecc[..]));
    d.read_oob(at, 2048, &mut [], &mut oob, OobMode::Place).unwrap();
    assert_eq!((&oob[..36], &oob[36..]), (&[0x33; 36][..], &ecc[..]));
    // Corrected, including ECC bytes; uncorrected; and free bytes, which no code protects.
    inject(&mut d, 0, [9, (2048 + 63) * 8 + 7, (2048 + 2) * 8]);
    let done = d.read_oob(at, 0, &mut page, &mut oob, OobMode::Place).unwrap();
    assert_eq!((done.bitflips, &page, oob[2], &oob[36..]), (2, &data, 0, &ecc[..]));
    let done = d.read_oob(at, 0, &mut page, &mut oob, OobMode::Raw).unwrap();
    assert_eq!((done.bitflips, page[1], oob[63]), (0, data[1] ^ 2, ecc[27] ^ 0x80));
    let done = d.read_oob(at, 0, &mut page, &mut back, OobMode::Auto).unwrap();
    assert_eq!((done.bitflips, &page, &back[1..]), (2, &data, &free[1..]));
    inject(&mut d, 0, [10, 11, 12, 13]);
    let lost = d.read_oob(at, 0, &mut page, &mut back, OobMode::Auto).unwrap_err();
    assert_eq!(lost.kind, ErrorKind::Uncorrectable);
    assert!(d.write_oob(at, 4096, &data, &[0; 35], OobMode::Auto).is_err(), "34 are the user's");
}

/// A dump that was loaded directly is decoded, regardless of the encoder.
#[test]
fn raw_dumps_decode() {
    let mut d = driver(EngineKind::Pipelined);
    let data = noise(5, 2048);
    let (mut page, mut oob) = (data.clone(), [0xFF; 64]);
    Codec::new(BCH_4).unwrap().encode_page(&data, &mut oob[36..]);
    page[100] ^= 0x81;
    oob[63] ^= 0x40;
    let at = d.write_oob(d.ready_at(), 0, &page, &oob, OobMode::Raw).unwrap().at;
    // Without ECC bytes the page is not a codeword.
    d.write_oob(at, 2048, &page, &[], OobMode::Raw).unwrap();
    assert_eq!(read(&mut d, 0, 2048), (Ok((2, 3)), data));
    assert_eq!(read(&mut d, 2048, 2048).0, Err(ErrorKind::Uncorrectable));
}

#[test]
fn programming_a_page_twice_is_no_codeword() {
    let mut d = driver(EngineKind::Software);
    write(&mut d, 0, &noise(1, 2048));
    super::ecc::fail_erase(&mut d);
    write(&mut d, 0, &noise(2, 2048));
    assert_eq!(read(&mut d, 0, 2048).0, Err(ErrorKind::Uncorrectable));
}

/// A rejected program does not change the page, which was not encoded.
#[test]
fn refused_programs_do_not_count_as_encoded() {
    let once = crate::spi_nand::SpiNandSpec { nop: 1, ..spec("mx35lf2g14ac") };
    let mut d = rig(EngineKind::Software).custom(once);
    let at = d.write_oob(d.ready_at(), 0, &noise(1, 2048), &[], OobMode::Raw).unwrap().at;
    assert!(d.write(at, 0, &noise(2, 2048)).is_err());
    assert_eq!(read(&mut d, 0, 2048).0, Err(ErrorKind::Uncorrectable));
}

/// The chip sent the right bits, but wrong bits arrived: the engine sees the latter.
#[test]
fn bits_that_the_bus_garbles_are_not_taken_for_right() {
    let mut rig = super::timing::phy_rig(2_200);
    rig.ecc = EccProfile { engine: EngineKind::Software, strength: Some(8), ..EccProfile::default() };
    let mut d = rig.driver("w35n01jw");
    // The PHY is no longer tuned. Writes and status reads at the low clock do not notice this.
    d.bus_mut().power_on();
    write(&mut d, 0, &noise(8, 4096));
    assert_eq!(read(&mut d, 0, 4096).0, Err(ErrorKind::Uncorrectable));
}

#[test]
fn read_retry_helps_the_host_too() {
    let mut d = rig(EngineKind::Software).driver("mx35lf2ge4ad");
    let data = noise(6, 2048);
    write(&mut d, 0, &data);
    let bits: Vec<u32> = (0..40).collect();
    d.bus_mut().chip_mut().leak(0, &bits, 3);
    inject(&mut d, 0, [100, (2048 + 63) * 8]);
    assert_eq!(read(&mut d, 0, 2048), (Ok((1, 2)), data));
    d.bus_mut().chip_mut().leak(0, &bits, 77);
    assert_eq!(read(&mut d, 0, 2048).0, Err(ErrorKind::Uncorrectable));
}

#[test]
fn codes_that_do_not_exist_are_refused_with_what_does() {
    for (strength, says) in [(73, "1 to 72"), (16, "do not fit")] {
        let mut rig = rig(EngineKind::Software);
        rig.ecc.strength = Some(strength);
        let error = rig.probe("mx35lf2g14ac").err().unwrap();
        assert!(matches!(error, ProbeError::Ecc(_)) && error.to_string().contains(says), "{error}");
    }
}
