//! Tests of errors, OTP and time accounting.

use super::*;
use crate::oracle::{Faults, Oracle};

#[test]
fn failures_have_a_name_a_place_and_a_time() {
    let mut rig = Setup::new(N25Q128A).ready();
    rig.bus_mut().chip_mut().set_faults(0x200, Faults::PROGRAM);
    rig.bus_mut().chip_mut().set_faults(0x3000, Faults::ERASE);
    let at = rig.ready_at();
    let error = rig.write(at, 0, &[0; 1024]).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::ProgramFailed, 0x200));
    let at = rig.ready_at();
    assert_eq!(error.at, at);
    // The fail bits were cleared, so the next program succeeds.
    let at = rig.write(at, 0x300, &[0; 16]).unwrap().at;
    let error = rig.erase(at, 0x2000, 0x2000).unwrap_err();
    assert_eq!((error.kind, error.addr), (ErrorKind::EraseFailed, 0x3000));
    let spansion = |s: &mut SpiNorSpec| {
        s.registers = crate::spi_nor::spec::RegisterSet::Spansion;
        s.otp = None;
        s.quad_enable = crate::spi_nor::spec::QuadEnable::Sr2Bit1By01;
    };
    let mut rig = Setup::new(W25Q128JV).spec(spansion).ready();
    rig.bus_mut().chip_mut().set_faults(0, Faults::PROGRAM);
    let at = rig.ready_at();
    let error = rig.write(at, 0, &[0; 4]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ProgramFailed);
    rig.write(error.at, 256, &[0; 4]).unwrap();
    // Winbond's chips do not report the failure; only the data shows it.
    let mut silent = Setup::new(W25Q128JV).ready();
    silent.bus_mut().chip_mut().set_faults(0, Faults::PROGRAM);
    let at = silent.ready_at();
    let at = silent.write(at, 0, &[0; 4]).unwrap().at;
    let mut got = [0; 4];
    silent.read(at, 0, &mut got).unwrap();
    assert_eq!(got, [0, 0, 0xFF, 0xFF]);
}

#[test]
fn macronix_failures_are_seen_when_asked_for() {
    for (look, octal) in [(false, false), (true, false), (true, true)] {
        let setup = Setup::new(MX25UW12845G).options(|o| o.check_security_register = look);
        let setup = if octal { setup.board("reset_pin = true") } else { setup };
        let mut rig = setup.ready();
        rig.bus_mut().chip_mut().set_faults(0, Faults::PROGRAM);
        let at = rig.ready_at();
        let outcome = rig.write(at, 0, &[0; 4]).map_err(|e| e.kind);
        assert_eq!(outcome.is_err(), look);
        if look {
            assert_eq!(outcome, Err(ErrorKind::ProgramFailed));
        }
    }
}

#[test]
fn wrong_arguments_reach_no_chip() {
    let mut rig = Setup::new(W25Q128JV).ready();
    let (at, size) = (rig.ready_at(), 16 << 20);
    let kind = |r: Result<Done, Error>| r.unwrap_err().kind;
    assert_eq!(kind(rig.read(at, size - 1, &mut [0; 2])), ErrorKind::OutOfRange { len: 2, size });
    assert_eq!(kind(rig.write(at, u64::MAX, &[0; 2])), ErrorKind::OutOfRange { len: 2, size });
    assert_eq!(kind(rig.erase(at, 100, 4096)), ErrorKind::Misaligned { unit: 4096 });
    assert_eq!(kind(rig.erase(at, 0, 100)), ErrorKind::Misaligned { unit: 4096 });
    assert_eq!(rig.ready_at(), at);
    assert_eq!(rig.read(at, size, &mut []).unwrap().at, at);
}

#[test]
fn a_protected_chip_says_so() {
    let mut rig = Setup::new(W25Q128JV).ready();
    let at = rig.ready_at();
    let mut host = Host::default();
    host.resume(at);
    let bus = rig.bus_mut();
    use crate::spi::Data;
    bus.exec(&mut host, &SpiOp::command(0x06), Data::None).unwrap();
    bus.exec(&mut host, &SpiOp::command(0x01).write(1), Data::Out(&[0b0001_1100])).unwrap();
    let at = host.now() + Nanos::from_ms(20);
    let error = rig.write(at, 0, &[0]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::WriteProtected);
}

#[test]
fn the_whole_chip_is_erased_by_its_own_command() {
    let mut rig = Setup::new(N25Q128A).spec(|s| *s = test_parts::profile(N25Q128A, Some("measured"))).ready();
    let at = rig.ready_at();
    let done = rig.erase(at, 0, 16 << 20).unwrap().at;
    // The published time is 45.907 s.
    let ms = done.since(at).as_ns() / 1_000_000;
    assert!((45_890..45_910).contains(&ms), "{ms}");
}

fn otp(part: &str, octal: bool, regions: usize, len: u64, locks_all: bool, erasable: bool) {
    let setup = Setup::new(part);
    let setup = if octal { setup.board("reset_pin = true") } else { setup };
    let mut rig = setup.ready();
    assert_eq!(rig.otp_regions(OtpArea::User), regions);
    let (region, at) = {
        let at = rig.ready_at();
        rig.otp_info(at, OtpArea::User, regions - 1).unwrap()
    };
    assert_eq!(region, OtpRegion { start: (regions as u64 - 1) * len, len, locked: false });
    let data = bytes(len as usize, 77);
    let mut at = rig.otp_write(at, region.start, &data).unwrap().at;
    let mut got = vec![0; len as usize];
    at = rig.otp_read(at, OtpArea::User, region.start, &mut got).unwrap().at;
    assert_eq!(got, data);
    assert_eq!(rig.otp_write(at, region.start, &[!data[0]]).unwrap_err().kind, ErrorKind::NotErased);
    at = rig.ready_at();
    match rig.otp_erase(at, region.start, len) {
        Ok(done) => {
            assert!(erasable);
            at = rig.otp_read(done.at, OtpArea::User, region.start, &mut got).unwrap().at;
            assert!(got.iter().all(|&b| b == 0xFF));
        }
        Err(error) => {
            assert!(!erasable && matches!(error.kind, ErrorKind::Unsupported(_)));
            at = rig.ready_at();
        }
    }
    at = rig.otp_lock(at, region.start, len).unwrap().at;
    let (region, at) = rig.otp_info(at, OtpArea::User, regions - 1).unwrap();
    assert!(region.locked);
    assert_eq!(rig.otp_write(at, region.start, &[0]).unwrap_err().kind, ErrorKind::WriteProtected);
    let at = rig.ready_at();
    assert_eq!(rig.otp_write(at, 0, &[0]).is_err(), locks_all);
    // The array is unchanged.
    let at = rig.ready_at();
    let at = rig.write(at, 0, &[1]).unwrap().at;
    let mut byte = [0];
    rig.read(at, 0, &mut byte).unwrap();
    assert_eq!(byte, [1]);
}

#[test]
fn otp_areas_are_written_and_locked() {
    otp(W25Q128JV, false, 3, 256, false, true);
    otp(test_parts::IS25LP256, false, 4, 256, false, true);
    otp(N25Q128A, false, 1, 64, true, false);
    otp(MX25UW12845G, false, 1, 512, true, false);
    otp(MX25UW12845G, true, 1, 512, true, false);
    otp(MX25UW51245G, false, 1, 512, true, false);
    otp(test_parts::EVERY_MODE, false, 1, 64, true, false);
    otp(test_parts::EVERY_MODE, true, 1, 64, true, false);
}

#[test]
fn the_factory_area_is_each_chips_own() {
    let mut rig = Setup::new(MX25UW12845G).ready();
    assert_eq!(rig.otp_regions(OtpArea::Factory), 1);
    let at = rig.ready_at();
    let (region, at) = rig.otp_info(at, OtpArea::Factory, 0).unwrap();
    assert_eq!((region.len, region.locked), (512, true));
    let mut number = vec![0; 16];
    let at = rig.otp_read(at, OtpArea::Factory, 0, &mut number).unwrap().at;
    assert!(number.iter().any(|&b| b != 0xFF));
    assert!(matches!(rig.otp_read(at, OtpArea::Factory, 512, &mut number), Err(Error { .. })));
    let mut none = Setup::new(N25Q128A).ready();
    let at = none.ready_at();
    let error = none.otp_read(at, OtpArea::Factory, 0, &mut number).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Unsupported(_)));
    assert_eq!(none.otp_regions(OtpArea::Factory), 0);
}

/// Unique ids of Winbond and ISSI, which have a separate command.
#[test]
fn unique_ids_are_read_from_any_byte() {
    for (part, len) in [(W25Q128JV, 8), (test_parts::IS25LP256, 16)] {
        let mut rig = Setup::new(part).ready();
        let at = rig.ready_at();
        let (region, at) = rig.otp_info(at, OtpArea::Factory, 0).unwrap();
        assert_eq!(region, OtpRegion { start: 0, len, locked: true });
        let (mut whole, mut tail) = (vec![0; len as usize], [0; 3]);
        let at = rig.otp_read(at, OtpArea::Factory, 0, &mut whole).unwrap().at;
        rig.otp_read(at, OtpArea::Factory, len - 3, &mut tail).unwrap();
        assert_eq!(whole[len as usize - 3..], tail);
        assert!(whole.iter().any(|&b| b != 0xFF));
        let at = rig.ready_at();
        assert!(rig.otp_read(at, OtpArea::Factory, len, &mut tail).is_err());
    }
}

pub(super) fn check_spans(spans: &[Span]) {
    let mut last = std::collections::BTreeMap::new();
    for span in spans {
        let end = last.insert(span.resource, span.end);
        assert!(end.is_none_or(|end| end <= span.start), "{span:?} overlaps");
    }
}

#[test]
fn the_books_agree_with_the_clock_and_with_arithmetic() {
    let mut rig = Setup::new(MX25UW12845G).board("mode = '1-1-1'").ready();
    rig.profile =
        HostProfile { call_us: Nanos::from_us(30), page_us: Nanos::from_us(5), ..HostProfile::default() };
    rig.host_mut().record(true);
    let (start, before) = (rig.ready_at(), rig.breakdown());
    let read = rig.read(start, 0, &mut [0; 512]).unwrap().at;
    let cost = rig.breakdown() - before;
    // READ 03h at 20 MHz: opcode, three address bytes and data take eight cycles of 50 ns per byte.
    assert_eq!(read.since(start), Nanos::from_us(30) + Nanos::from_ns(516 * 8 * 50));
    assert_eq!(cost[Phase::Data], Nanos::from_ns(512 * 8 * 50));
    assert_eq!(cost[Phase::Cpu], Nanos::from_us(30));
    let before = rig.breakdown();
    let written = rig.write(read, 128, &[0; 512]).unwrap().at;
    let cost = rig.breakdown() - before;
    assert_eq!(cost.total(), written.since(read));
    // The read touches three pages.
    assert_eq!(cost[Phase::Cpu], Nanos::from_us(30 + 15));
    assert_eq!(cost[Phase::Array], Nanos::from_us(3 * 150));
    check_spans(&rig.host_mut().take_spans());
}

#[test]
fn two_runs_are_the_same() {
    let run = || {
        let mut rig =
            Setup::new(N25Q128A).spec(|s| *s = test_parts::profile(N25Q128A, Some("measured"))).ready();
        let mut at = rig.ready_at();
        for block in 0..64 {
            at = rig.erase(at, block * 4096, 4096).unwrap().at;
        }
        (at, rig.breakdown())
    };
    assert_eq!(run(), run());
}

#[test]
fn options_are_written_with_units() {
    let text = "erase_bytes = '64 KiB'\npoll_interval_us = '1 ms'\nsuspend_for_read = true";
    let options: Options = toml::from_str(text).unwrap();
    assert_eq!((options.erase_bytes, options.poll_interval_us), (65536, Nanos::from_ms(1)));
    assert!(options.suspend_for_read && options.write_pattern);
    assert!(toml::from_str::<Options>("erase_byte = 1").unwrap_err().to_string().contains("erase_bytes"));
}

#[test]
fn pauses_between_status_reads_are_slept_through() {
    let profile = HostProfile { wakeup_us: Nanos::from_us(50), ..HostProfile::default() };
    let options = Options { poll_interval_us: Nanos::from_ms(1), ..Options::default() };
    let chip = SpiNor::new(test_parts::spec(W25Q128JV), 0, true).unwrap();
    let bus = bus(chip, CONTROLLER, "clock_hz = '20 MHz'");
    let mut rig = SpiNorDriver::probe(bus, &[test_parts::spec(W25Q128JV)], profile, options).unwrap();
    let (at, before) = (rig.ready_at(), rig.breakdown());
    let done = rig.erase(at, 0, 4096).unwrap().at;
    let cost = rig.breakdown() - before;
    // The end of the 45 ms erase is detected half a pause of 1.05 ms late, on average.
    assert_eq!(cost[Phase::Array], Nanos::from_ms(45));
    assert!(
        done.since(at) > Nanos::from_us(45_500) && done.since(at) < Nanos::from_us(45_600),
        "{}",
        done.since(at)
    );
}

#[test]
fn controllers_with_short_operations_split_programs() {
    let mut setup = Setup::new(W25Q128JV);
    setup.controller.push_str("max_transfer_bytes = 48\n");
    let mut rig = setup.ready();
    let data = bytes(600, 4);
    let at = rig.ready_at();
    let before = rig.breakdown();
    let at = rig.write(at, 100, &data).unwrap().at;
    // 156 bytes to the end of the page, then 256 and 188 bytes, in pieces of 48 bytes.
    let pieces = 4 + 6 + 4;
    let array = (rig.breakdown() - before)[Phase::Array];
    assert!(array > Nanos::from_us(30 * pieces) && array < Nanos::from_us(120 * pieces), "{array}");
    let mut got = vec![0; 600];
    rig.read(at, 100, &mut got).unwrap();
    assert_eq!(got, data);
}
