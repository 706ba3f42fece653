//! Tests of wrong bits: on-die and host ECC, read retry, OOB, bad blocks, OTP, failures.

use super::rig::{Driver, Rig, spec};
use crate::capability::{Otp, OtpArea, OtpRegion};
use crate::ecc_engine::{EccProfile, EngineKind};
use crate::oracle::{Faults, Oracle};
use crate::spi_nand::spec::EccStatus;
use floatgate_mtd::{ErrorKind, Instant, Mtd, Nanos, OobMode, Phase};

fn written(rig: Rig, name: &str) -> (Driver, Vec<u8>) {
    let mut d = rig.driver(name);
    let len = d.geometry().write_bytes as usize * 3;
    let data: Vec<u8> = (0..len as u32).map(|i| (i % 251) as u8).collect();
    let at = d.ready_at();
    d.write(at, 0, &data).unwrap();
    (d, data)
}

fn read(d: &mut Driver, addr: u64, len: usize) -> (Result<(u32, u32), ErrorKind>, Vec<u8>) {
    let mut buf = vec![0; len];
    let outcome = d.read(d.ready_at(), addr, &mut buf);
    (outcome.map(|done| (done.bitflips_max, done.bitflips)).map_err(|e| e.kind), buf)
}

/// Simulates a failed erase: the chip accepts programs of pages that still contain data.
pub(super) fn fail_erase(d: &mut Driver) {
    let block = d.geometry().erase_bytes.into();
    d.bus_mut().chip_mut().set_faults(0, Faults::ERASE);
    assert_eq!(d.erase(d.ready_at(), 0, block).unwrap_err().kind, ErrorKind::EraseFailed);
    d.bus_mut().chip_mut().set_faults(0, Faults::NONE);
}

#[test]
fn on_die_ecc_corrects_up_to_its_strength_per_step() {
    let (mut d, data) = written(Rig::new("1S-1S-4S"), "mx35lf2ge4ad");
    for bit in [0, 9, 100, 512 * 8] {
        d.bus_mut().chip_mut().inject(1, bit);
    }
    let (outcome, got) = read(&mut d, 0, 3 * 2048);
    assert_eq!((outcome, &got), (Ok((3, 3)), &data));
    for bit in 200..206 {
        d.bus_mut().chip_mut().inject(1, bit);
    }
    let (outcome, got) = read(&mut d, 0, 3 * 2048);
    assert_eq!(outcome, Err(ErrorKind::Uncorrectable));
    assert_eq!(got[..2048], data[..2048]);
    assert_ne!(got[2048..2560], data[2048..2560]);
    assert_eq!(got[4096..], data[4096..], "later pages are read all the same");
}

/// Both programs write ECC bytes, and the cells contain the AND of them.
#[test]
fn a_step_that_is_programmed_twice_cannot_be_corrected() {
    for name in ["mx35lf2ge4ad", "w35n01jw"] {
        let mut d = Rig::new("1S-1S-1S").driver(name);
        let page = d.geometry().write_bytes as usize;
        let mut first = vec![0xFF; page];
        first[..512].fill(0x0F);
        let mut second = vec![0xFF; page];
        second[512..1024].fill(0x33);
        d.write(d.ready_at(), 0, &first).unwrap();
        fail_erase(&mut d);
        d.write(d.ready_at(), 0, &second).unwrap();
        let both: Vec<u8> = first.iter().zip(&second).map(|(a, b)| a & b).collect();
        assert_eq!(read(&mut d, 0, page), (Ok((0, 0)), both.clone()), "{name}: each step once");
        second[..512].fill(0x3C);
        fail_erase(&mut d);
        d.write(d.ready_at(), 0, &second).unwrap();
        d.bus_mut().chip_mut().inject(0, 600 * 8);
        let both: Vec<u8> = both.iter().zip(&second).map(|(a, b)| a & b).collect();
        assert_eq!(read(&mut d, 0, page), (Err(ErrorKind::Uncorrectable), both.clone()), "{name}");
        assert_eq!(read(&mut d, 0, 2 * page).0, Err(ErrorKind::Uncorrectable), "{name}: continuous");
        let mut raw = vec![0; page];
        d.read_oob(d.ready_at(), 0, &mut raw, &mut [], OobMode::Raw).unwrap();
        raw[600] ^= 1;
        assert_eq!(raw, both, "{name}: without the ECC nobody knows");
        let block = u64::from(d.geometry().erase_bytes);
        d.erase(d.ready_at(), 0, block).unwrap();
        d.write(d.ready_at(), 0, &first).unwrap();
        assert_eq!(read(&mut d, 0, page), (Ok((0, 0)), first), "{name}: erased");
    }
}

/// The ECC bytes do not change. Changed bits of a written page are corrected up to the strength; an erased page has no matching ECC
/// bytes.
#[test]
fn data_that_are_written_raw_have_the_ecc_of_before() {
    for name in ["mx35lf2ge4ad", "w35n01jw"] {
        let mut d = Rig::new("1S-1S-1S").driver(name);
        let page = d.geometry().write_bytes as usize;
        let strength = d.geometry().ecc_strength as usize;
        let oob = vec![0xFF; d.geometry().oob_bytes as usize];
        let write_raw = |d: &mut Driver, row: usize, data: &[u8]| {
            d.write_oob(d.ready_at(), (row * page) as u64, data, &oob, OobMode::Raw).unwrap();
        };
        let is_lost = |d: &mut Driver, row: usize| match read(d, (row * page) as u64, page).0 {
            Ok(_) => false,
            Err(kind) => kind == ErrorKind::Uncorrectable,
        };
        let with_zeros = |zeros: usize| [vec![0x0E; zeros], vec![0x0F; page - zeros]].concat();
        let data = with_zeros(0);
        d.write(d.ready_at(), 0, &data).unwrap();
        fail_erase(&mut d);
        write_raw(&mut d, 0, &with_zeros(1));
        assert_eq!(read(&mut d, 0, page), (Ok((1, 1)), data.clone()), "{name}");
        let mut raw = vec![0; page];
        d.read_oob(d.ready_at(), 0, &mut raw, &mut [], OobMode::Raw).unwrap();
        assert_eq!(raw[..8], with_zeros(1)[..8], "{name}: cells");

        d.write(d.ready_at(), page as u64, &data).unwrap();
        fail_erase(&mut d);
        write_raw(&mut d, 1, &with_zeros(strength + 1));
        write_raw(&mut d, 2, &data);
        write_raw(&mut d, 3, &[vec![0x0F; 512], vec![0xFF; page - 512]].concat());
        fail_erase(&mut d);
        d.write(d.ready_at(), 3 * page as u64, &[vec![0xFF; 512], vec![0x0F; page - 512]].concat()).unwrap();
        for row in 1..4 {
            assert!(is_lost(&mut d, row), "{name}: page {row}");
        }

        d.erase(d.ready_at(), 0, d.geometry().erase_bytes.into()).unwrap();
        d.write(d.ready_at(), 0, &data).unwrap();
        assert_eq!(read(&mut d, 0, page), (Ok((0, 0)), data), "{name}: erased");
    }
}

/// Use by JFFS2's clean markers: OOB first, data later.
#[test]
fn oob_and_data_of_a_page_may_be_programmed_one_after_the_other() {
    let mut d = Rig::new("1S-1S-1S").driver("mx35lf2ge4ad");
    d.write_oob(d.ready_at(), 0, &[], &[0x85, 0x19, 3, 0x20], OobMode::Auto).unwrap();
    d.write(d.ready_at(), 0, &[0xA5; 2048]).unwrap();
    assert_eq!(read(&mut d, 0, 2048), (Ok((0, 0)), vec![0xA5; 2048]));
}

/// Without a detail register a correction is counted with the strength of the code.
#[test]
fn plain_status_reports_the_strength() {
    let (mut d, data) = written(Rig::new("1S-1S-4S"), "mx35lf2ge4ab");
    d.bus_mut().chip_mut().inject(0, 5);
    assert_eq!(read(&mut d, 0, 2048), (Ok((4, 4)), data[..2048].to_vec()));
}

/// Registers of several makers that contain the number of corrected bits.
#[test]
fn detail_registers_tell_the_number_of_bits() {
    for status in [EccStatus::Macronix, EccStatus::WinbondDetail, EccStatus::Gigadevice] {
        let mut spec = spec("mx35lf2ge4ad");
        spec.ecc_status = status;
        for wrong in 1..=4 {
            let mut d = Rig::new("1S-1S-4S").custom(spec.clone());
            d.write(d.ready_at(), 0, &[0; 2048]).unwrap();
            (0..wrong).for_each(|bit| d.bus_mut().chip_mut().inject(0, bit * 5));
            assert_eq!(read(&mut d, 0, 2048), (Ok((wrong, wrong)), vec![0; 2048]), "{status:?}");
        }
    }
}

#[test]
fn software_ecc_corrects_on_the_host() {
    let ecc = EccProfile {
        engine: EngineKind::Software,
        decode_ns_per_kb: Some(1000),
        correct_us_per_bit: Some(Nanos::from_us(2)),
        ..EccProfile::default()
    };
    for name in ["mx35lf2g14ac", "mx35lf2ge4ab"] {
        let (mut d, data) = written(Rig { ecc, ..Rig::new("1S-1S-4S") }, name);
        d.bus_mut().chip_mut().inject(2, 4095);
        d.bus_mut().chip_mut().inject(2, 4096);
        let before = d.breakdown();
        assert_eq!(read(&mut d, 4096, 2048), (Ok((1, 2)), data[4096..].to_vec()), "{name}");
        assert_eq!((d.breakdown() - before)[Phase::Ecc], Nanos::from_ns(2048 + 4000));
        (10..16).for_each(|bit| d.bus_mut().chip_mut().inject(2, bit));
        assert_eq!(read(&mut d, 4096, 2048).0, Err(ErrorKind::Uncorrectable));
    }
}

/// Example of facts 1.1: feature 70h, five modes in addition to the normal one.
#[test]
fn read_retry_finds_the_mode_that_reads_right() {
    let (mut d, data) = written(Rig::new("1S-1S-4S"), "mx35lf2ge4ad");
    let bits: Vec<u32> = (0..20).collect();
    d.bus_mut().chip_mut().leak(0, &bits, 3);
    let start = d.ready_at();
    let (outcome, got) = read(&mut d, 0, 2048);
    assert_eq!((outcome, got), (Ok((0, 0)), data[..2048].to_vec()));
    let four_reads = spec("mx35lf2ge4ad").timing.t_rd_ecc_us * 4;
    assert!(d.ready_at().since(start) > four_reads);
    d.bus_mut().chip_mut().leak(0, &bits, 0);
    assert_eq!(read(&mut d, 0, 2048).0, Ok((0, 0)), "the normal mode is back");
    d.bus_mut().chip_mut().leak(0, &bits, 77);
    assert_eq!(read(&mut d, 0, 2048).0, Err(ErrorKind::Uncorrectable));
}

#[test]
fn oob_modes_place_bytes_as_the_layout_says() {
    let mut d = Rig::new("1S-8S-8S").driver("w35n01jw");
    let free: Vec<u8> = (1..=94).collect();
    assert_eq!(d.geometry().oob_free_bytes, 8 * 12 - 2);
    let at = d.write_oob(d.ready_at(), 0, &[0xA5; 4096], &free, OobMode::Auto).unwrap().at;
    let (mut data, mut oob) = (vec![0; 4096], vec![0; 128]);
    let at = d.read_oob(at, 0, &mut data, &mut oob, OobMode::Raw).unwrap().at;
    assert_eq!(data, [0xA5; 4096]);
    assert_eq!(oob[..2], [0xFF; 2], "the marker stays free");
    assert_eq!((oob[2], oob[11], oob[12], oob[16]), (1, 10, 0xFF, 11));
    let mut back = vec![0; 94];
    let at = d.read_oob(at, 0, &mut [], &mut back, OobMode::Auto).unwrap().at;
    assert_eq!(back, free);
    let whole: Vec<u8> = (0..128).collect();
    let at = d.write_oob(at, 4096, &[], &whole, OobMode::Raw).unwrap().at;
    d.read_oob(at, 4096, &mut [], &mut oob, OobMode::Place).unwrap();
    assert_eq!(oob, whole, "raw writes reach the ECC bytes");
    let too_much = d.write_oob(at, 8192, &[], &[0; 95], OobMode::Auto).err().unwrap();
    assert_eq!(too_much.kind, ErrorKind::OutOfRange { len: 95, size: 94 });
}

/// If the engine is enabled, the chip computes the ECC bytes, regardless of the bytes that the host sends.
#[test]
fn ecc_bytes_belong_to_the_on_die_engine() {
    let mut d = Rig::new("1S-8S-8S").driver("w35n01jw");
    let at = d.write_oob(d.ready_at(), 0, &[0; 4096], &[0x11; 128], OobMode::Place).unwrap().at;
    let mut oob = [0; 128];
    d.read_oob(at, 0, &mut [], &mut oob, OobMode::Raw).unwrap();
    assert_eq!((oob[11], oob[12], oob[15], oob[16]), (0x11, 0xFF, 0xFF, 0x11));
}

#[test]
fn factory_bad_blocks_are_found_and_spared() {
    for stores in [true, false] {
        let mut rig = Rig::new("1S-8S-8S");
        rig.chip.bad_blocks = 7;
        rig.chip.stores = stores;
        let mut d = rig.driver("w35n01jw");
        let real: Vec<u32> = d.bus().chip().factory_bad();
        assert_eq!(real.len(), 7);
        let block = 262_144;
        let found: Vec<u32> =
            (0..512).filter(|&b| d.is_bad(d.ready_at(), u64::from(b) * block).unwrap().0).collect();
        assert_eq!(found, real);
        let bad = u64::from(real[0]) * block;
        assert_eq!(d.erase(d.ready_at(), bad, block).err().unwrap().kind, ErrorKind::BadBlock);
        assert_eq!(d.bus().chip().factory_bad().len(), 7, "markers survive");
    }
}

#[test]
fn a_block_marked_bad_is_bad_for_the_next_driver_too() {
    let (mut d, _) = written(Rig::new("1S-1S-1S"), "w25m02gv");
    let second_die = 1024 * 131_072 + 5 * 131_072;
    for addr in [0, second_die] {
        let at = d.mark_bad(d.ready_at(), addr).unwrap().at;
        assert!(d.is_bad(at, addr).unwrap().0);
    }
    let bus = d.bus().clone();
    let host = crate::host::HostProfile::default();
    let known = super::rig::database();
    let mut again =
        super::super::SpiNandDriver::probe(bus, &known, host, EccProfile::default(), Default::default())
            .unwrap();
    for (addr, bad) in [(0, true), (131_072, false), (second_die, true), (second_die + 131_072, false)] {
        assert_eq!(again.is_bad(again.ready_at(), addr).unwrap().0, bad, "{addr:#x}");
    }
}

#[test]
fn failures_of_the_array_are_reported() {
    let mut d = Rig::new("1S-8S-8S").driver("w35n01jw");
    let block = 262_144;
    d.bus_mut().chip_mut().set_faults(3 * block, Faults::PROGRAM);
    d.bus_mut().chip_mut().set_faults(4 * block, Faults::ERASE);
    let failed = d.write(d.ready_at(), 3 * block, &[0; 4096]).err().unwrap();
    assert_eq!((failed.kind, failed.addr), (ErrorKind::ProgramFailed, 3 * block));
    let failed = d.erase(d.ready_at(), 3 * block, 2 * block).err().unwrap();
    assert_eq!((failed.kind, failed.addr), (ErrorKind::EraseFailed, 4 * block));
    d.bus_mut().chip_mut().set_faults(4 * block, Faults::NONE);
    assert!(d.erase(d.ready_at(), 4 * block, block).is_ok(), "it works again");
}

#[test]
fn a_page_is_not_written_twice() {
    let (mut d, _) = written(Rig::new("1S-8S-8S"), "w35n01jw");
    for _ in 0..2 {
        let error = d.write(d.ready_at(), 8192, &[0; 4096]).err().unwrap();
        assert_eq!((error.kind, error.addr), (ErrorKind::NotErased, 8192));
        let raw = d.write_oob(d.ready_at(), 8192, &[0; 4096], &[], OobMode::Raw).err().unwrap();
        assert_eq!(raw.kind, ErrorKind::NotErased, "without the ECC");
    }
    for _ in 1..4 {
        d.write(d.ready_at(), 8192, &[0xFF; 4096]).unwrap();
    }
    assert_eq!(
        d.write(d.ready_at(), 8192, &[0xFF; 4096]).err().unwrap().kind,
        ErrorKind::NotErased,
        "NOP is 4"
    );
}

#[test]
fn otp_is_written_then_locked_for_good() {
    for (name, pages, page) in
        [("w35n01jw", 10, 4096), ("mx35lf2ge4ad", 30, 2048), ("mx35lf2ge4ab", 30, 2048)]
    {
        let mut d = Rig::new("1S-1S-1S").driver(name);
        let size = u64::from(page as u32 * pages);
        let info = |d: &mut Driver, area| d.otp_info(d.ready_at(), area, 0).unwrap().0;
        assert_eq!(info(&mut d, OtpArea::User), OtpRegion { start: 0, len: size, locked: false });
        assert!(info(&mut d, OtpArea::Factory).locked);
        let secret = vec![0x3C; page];
        d.otp_write(d.ready_at(), size - page as u64, &secret).unwrap();
        let mut got = vec![0; page + 10];
        d.otp_read(d.ready_at(), OtpArea::User, size - page as u64 - 10, &mut got).unwrap();
        assert_eq!((&got[..10], &got[10..]), (&[0xFF; 10][..], &secret[..]), "{name}");
        let again = d.otp_write(d.ready_at(), size - page as u64, &secret).err().unwrap();
        assert_eq!(again.kind, ErrorKind::NotErased, "{name}: for good");
        d.otp_lock(d.ready_at(), 0, size).unwrap();
        assert!(info(&mut d, OtpArea::User).locked);
        let refused = d.otp_write(d.ready_at(), 0, &secret).err().unwrap();
        assert_eq!(refused.kind, ErrorKind::WriteProtected);
        assert!(d.otp_lock(d.ready_at(), 0, page as u64).is_err(), "all or nothing");
        let mut data = vec![0; page];
        d.read(d.ready_at(), 0, &mut data).unwrap();
        assert!(data.iter().all(|&b| b == 0xFF), "the array is back in place");
    }
}

#[test]
fn ranges_and_alignment_are_checked() {
    let mut d = Rig::new("1S-8S-8S").driver("w35n01jw");
    let size = d.geometry().size_bytes;
    assert_eq!(size, 128 << 20);
    let now = Instant::from_ns(1 << 30);
    let out = ErrorKind::OutOfRange { len: 2, size };
    assert_eq!(d.read(now, size - 1, &mut [0; 2]).err().unwrap().kind, out);
    assert_eq!(d.write(now, 100, &[0; 4096]).err().unwrap().kind, ErrorKind::Misaligned { unit: 4096 });
    assert_eq!(d.erase(now, 4096, 262_144).err().unwrap().kind, ErrorKind::Misaligned { unit: 262_144 });
    assert!(d.otp_read(now, OtpArea::Factory, 8192, &mut [0; 1]).is_err());
}
