//! Tests of valid command sequences.

use super::Bench;
use crate::oracle::{Faults, Oracle};
use crate::raw_nand::testing::{mx30lf2g18ac, nand128w3a2bn, nv_ddr};
use crate::raw_nand::timing::DataInterface;
use floatgate_media::onfi;
use floatgate_mtd::Nanos;

const READY: u8 = 0xE0;

#[test]
fn ids_and_signatures() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    let mut id = |address| {
        bench.cmd(0x90).unwrap();
        bench.addr(&[address]).unwrap();
        bench.get(6).unwrap()
    };
    assert_eq!(id(0x00), [0xC2, 0xDA, 0x90, 0x95, 0x06, 0xC2]);
    assert_eq!(id(0x20), *b"ONFI\0\0");
    assert_eq!(id(0x40), [0; 6]);
}

#[test]
fn three_copies_of_the_parameter_page_are_good() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.cmd(0xEC).unwrap();
    bench.addr(&[0]).unwrap();
    bench.wait();
    let copies = bench.get(3 * onfi::PAGE_BYTES).unwrap();
    for copy in copies.chunks(onfi::PAGE_BYTES) {
        let page = onfi::parse(copy).unwrap();
        assert_eq!(page.endurance.cycles(), Some(100_000));
        assert_eq!((page.sdr_modes.bits(), page.revision.newest()), (0x3F, Some((1, 0))));
    }
}

#[test]
fn the_unique_id_repeats_with_its_complement() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.cmd(0xED).unwrap();
    bench.addr(&[0]).unwrap();
    bench.wait();
    let bytes = bench.get(512).unwrap();
    assert!(bytes.chunks(32).all(|pair| pair == &bytes[..32]));
    assert!((0..16).all(|i| bytes[i] == !bytes[16 + i]));
}

#[test]
fn status_shows_busy_and_ready() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    assert_eq!(bench.status(), READY);
    bench.load(0, 0, &[0; 4]).unwrap();
    bench.cmd(0x10).unwrap();
    assert_eq!(bench.status(), 0x80);
    bench.wait();
    assert_eq!(bench.status(), READY);
}

#[test]
fn columns_move_within_the_register() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.load(0, 7, &[1, 2, 3]).unwrap();
    bench.cmd(0x85).unwrap();
    bench.addr(&[0x00, 0x08]).unwrap();
    bench.put(&[9]).unwrap();
    bench.cmd(0x10).unwrap();
    bench.wait();
    assert_eq!(bench.read(1, 7, 3).unwrap(), [2, 3, 0xFF]);
    bench.cmd(0x05).unwrap();
    bench.addr(&[0x00, 0x08]).unwrap();
    bench.cmd(0xE0).unwrap();
    assert_eq!(bench.get(2).unwrap(), [9, 0xFF]);
}

#[test]
fn status_in_between_does_not_lose_the_page() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.program(0, 0, &[7, 8]).unwrap();
    bench.read(0, 0, 1).unwrap();
    assert_eq!(bench.status(), READY);
    bench.cmd(0x00).unwrap();
    assert_eq!(bench.get(1).unwrap(), [8]);
}

#[test]
fn small_pages_have_three_parts() {
    let mut bench = Bench::new(&nand128w3a2bn());
    bench.cmd(0x00).unwrap();
    let page: Vec<u8> = (0..528).map(|i| (i / 2) as u8).collect();
    bench.program(0, 5, &page).unwrap();
    assert_eq!(bench.read(255, 5, 2).unwrap(), page[255..257]);
    bench.cmd(0x01).unwrap();
    bench.at(3, 5).unwrap();
    bench.wait();
    assert_eq!(bench.get(2).unwrap(), page[259..261]);
    bench.cmd(0x50).unwrap();
    bench.at(2, 5).unwrap();
    bench.wait();
    assert_eq!(bench.get(14).unwrap(), page[514..]);
}

#[test]
fn cached_reads_overlap_the_array() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    for row in 0..4 {
        bench.program(0, row, &[row as u8]).unwrap();
    }
    bench.cmd(0x00).unwrap();
    bench.at(0, 0).unwrap();
    bench.cmd(0x30).unwrap();
    bench.wait();
    let mut busy = Vec::new();
    for (row, opcode) in [0x31, 0x31, 0x31, 0x3F].into_iter().enumerate() {
        bench.cmd(opcode).unwrap();
        busy.push(bench.wait());
        assert_eq!(bench.get(1).unwrap(), [row as u8]);
    }
    // Consecutive 31h commands: the second and third wait for the remaining tR (20 us), not for tRCBSY
    // (5 us).
    assert_eq!(busy[0], Nanos::from_ns(5_200));
    assert!(busy[1] > Nanos::from_us(17) && busy[2] > Nanos::from_us(17) && busy[3] > Nanos::from_us(17));
}

#[test]
fn a_random_cached_read_goes_anywhere() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.program(0, 640, &[6]).unwrap();
    bench.cmd(0x00).unwrap();
    bench.at(0, 3).unwrap();
    bench.cmd(0x30).unwrap();
    bench.wait();
    bench.cmd(0x00).unwrap();
    bench.at(0, 640).unwrap();
    bench.cmd(0x31).unwrap();
    bench.wait();
    assert_eq!(bench.get(1).unwrap(), [0xFF]);
    bench.cmd(0x3F).unwrap();
    bench.wait();
    assert_eq!(bench.get(1).unwrap(), [6]);
}

#[test]
fn cached_programs_overlap_the_bus_and_report_late() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.chip.set_faults(0, Faults::PROGRAM);
    bench.load(0, 0, &[0]).unwrap();
    bench.cmd(0x15).unwrap();
    assert!(bench.wait() < Nanos::from_us(6));
    assert_eq!(bench.status() & 0x61, 0x40, "ready, array busy, result not known");
    bench.chip.set_faults(0, Faults::NONE);
    bench.load(0, 1, &[1]).unwrap();
    bench.cmd(0x10).unwrap();
    assert!(bench.wait() > Nanos::from_us(590), "the rest of the first program and all of the second");
    assert_eq!(bench.status() & 0x63, 0x62, "the one before failed, this one did not");
    bench.program(0, 2, &[2]).unwrap();
    assert_eq!(bench.status() & 0x63, 0x60);
}

#[test]
fn two_planes_at_once() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.load(0, 2, &[1]).unwrap();
    bench.cmd(0x11).unwrap();
    bench.wait();
    bench.cmd(0x81).unwrap();
    bench.at(0, 64 + 2).unwrap();
    bench.put(&[2]).unwrap();
    bench.cmd(0x10).unwrap();
    assert!(bench.wait() < Nanos::from_us(301));
    bench.cmd(0x00).unwrap();
    bench.at(0, 2).unwrap();
    bench.cmd(0x32).unwrap();
    bench.wait();
    assert_eq!(bench.read(0, 66, 1).unwrap(), [2]);
    bench.cmd(0x06).unwrap();
    bench.at(0, 2).unwrap();
    bench.cmd(0xE0).unwrap();
    assert_eq!(bench.get(1).unwrap(), [1]);
    bench.cmd(0x60).unwrap();
    bench.row(0).unwrap();
    bench.cmd(0xD1).unwrap();
    bench.wait();
    bench.erase(64).unwrap();
    assert_eq!((bench.read(0, 2, 1).unwrap(), bench.read(0, 66, 1).unwrap()), (vec![0xFF], vec![0xFF]));
    // The older sequence without D1h.
    bench.program(0, 0, &[1]).unwrap();
    bench.cmd(0x60).unwrap();
    bench.row(0).unwrap();
    bench.erase(64).unwrap();
    assert_eq!(bench.read(0, 0, 1).unwrap(), [0xFF]);
}

#[test]
fn copyback_carries_bit_errors_along() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.program(0, 0, &[0xF0, 0x0F]).unwrap();
    bench.chip.array_mut(0).unwrap().inject(0, 8 + 7);
    bench.cmd(0x00).unwrap();
    bench.at(0, 0).unwrap();
    bench.cmd(0x35).unwrap();
    bench.wait();
    bench.cmd(0x85).unwrap();
    bench.at(0, 128).unwrap();
    bench.put(&[0xA0]).unwrap();
    bench.cmd(0x10).unwrap();
    bench.wait();
    assert_eq!(bench.read(0, 128, 3).unwrap(), [0xA0, 0x8F, 0xFF]);
    assert!(bench.chip.array(0).unwrap().flips(128).is_empty());
}

#[test]
fn luns_work_at_the_same_time() {
    let spec = nv_ddr();
    let mut bench = Bench::new(&spec);
    let far = bench.chip.map.encode(10, 0);
    bench.load(0, 0, &[1]).unwrap();
    bench.cmd(0x10).unwrap();
    bench.load(0, far, &[2]).unwrap();
    bench.cmd(0x10).unwrap();
    bench.cmd(0x78).unwrap();
    bench.row(0).unwrap();
    assert_eq!(bench.get(1).unwrap(), [0x80]);
    assert!(bench.wait() < Nanos::from_us(505), "not one after the other");
    assert_eq!((bench.read(0, 0, 1).unwrap(), bench.read(0, far, 1).unwrap()), (vec![1], vec![2]));
}

#[test]
fn failures_on_purpose_show_in_the_status() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.chip.set_faults(131_072, Faults::BOTH);
    bench.program(0, 64, &[0]).unwrap();
    assert_eq!(bench.status(), READY | 1);
    bench.erase(64).unwrap();
    assert_eq!(bench.status(), READY | 1);
    bench.erase(128).unwrap();
    assert_eq!(bench.status(), READY);
}

#[test]
fn protection_locks_all_blocks() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.set_feature(0xA0, 0x38).unwrap();
    assert_eq!((bench.status(), bench.get_feature(0xA0)), (READY & 0x7F, Ok(0x38)));
    bench.set_feature(0xA0, 0).unwrap();
    bench.program(0, 0, &[0]).unwrap();
}

#[test]
fn timing_modes_are_set_where_the_chip_honours_it() {
    let mut bench = Bench::new(&nv_ddr());
    bench.set_feature(0x01, DataInterface::NvDdr(5).feature()).unwrap();
    bench.interface = DataInterface::NvDdr(5);
    assert_eq!(bench.get_feature(0x01), Ok(0x15));
    // RESET switches back to SDR.
    bench.cmd(0xFF).unwrap();
    bench.wait();
    assert_eq!(bench.chip.interface(), DataInterface::Sdr(0));
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.set_feature(0x01, 5).unwrap();
    assert_eq!(bench.get_feature(0x01), Ok(0));
    bench.interface = DataInterface::Sdr(5);
    assert_eq!(bench.status(), READY);
}

#[test]
fn read_retry_modes_are_stored_per_lun() {
    let mut bench = Bench::new(&nv_ddr());
    bench.cmd(0xD5).unwrap();
    bench.addr(&[1, 0x89]).unwrap();
    bench.put(&[3, 0, 0, 0]).unwrap();
    bench.wait();
    assert_eq!((bench.chip.read_retry_mode(0), bench.chip.read_retry_mode(1)), (0, 3));
}

#[test]
fn otp_pages_are_apart_and_can_be_locked() {
    let mut bench = Bench::new(&mx30lf2g18ac());
    bench.set_feature(0x90, 1).unwrap();
    bench.program(0, 2, &[0x11]).unwrap();
    assert_eq!(bench.read(0, 2, 2).unwrap(), [0x11, 0xFF]);
    bench.set_feature(0x90, 0).unwrap();
    assert_eq!(bench.read(0, 2, 1).unwrap(), [0xFF]);
    bench.set_feature(0x90, 3).unwrap();
    bench.program(0, 0, &[0]).unwrap();
    bench.set_feature(0x90, 1).unwrap();
    assert!(bench.program(0, 3, &[0]).is_err());
    assert_eq!(bench.read(0, 2, 1).unwrap(), [0x11]);
}

#[test]
fn factory_bad_blocks_are_marked_and_repeat() {
    let mut spec = mx30lf2g18ac();
    spec.factory_bad.per_lun = 12;
    spec.factory_bad.seed = 7;
    let mut bench = Bench::new(&spec);
    let bad = bench.chip.factory_bad();
    assert_eq!((bad.len(), bad.contains(&0)), (12, false));
    for block in bad.clone() {
        assert_eq!(bench.read(2048, block * 64, 1).unwrap(), [0]);
        bench.erase(block * 64).unwrap();
        assert_eq!(bench.status(), READY | 1);
    }
    assert_eq!(bad, Bench::new(&spec).chip.factory_bad());
    spec.factory_bad.seed = 8;
    assert_ne!(bad, Bench::new(&spec).chip.factory_bad());
}
