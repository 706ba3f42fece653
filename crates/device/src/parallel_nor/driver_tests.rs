//! Tests of driver, controller and chip together.

use super::test_parts::{chip_bus, driver, driver_with, j3, now, s29gl128p, small, us};
use super::*;
use crate::capability::{Otp, OtpArea, ReadWhileWrite};
use crate::host::HostProfile;
use crate::oracle::{Faults, Oracle};
use crate::spi::PollPlan;
use crate::timeline::Host;
use crate::violation::Violation;
use floatgate_media::cfi::BusView;
use floatgate_mtd::{ErrorKind, Instant, Mtd, Nanos, Phase};

const fn ns(n: u64) -> Nanos {
    Nanos::from_ns(n)
}

/// Cost of an operation by phase, with a check that the sum is the elapsed time.
fn cost(
    driver: &mut CfiDriver<NorController>,
    run: impl FnOnce(&mut CfiDriver<NorController>, Instant) -> Instant,
) -> floatgate_mtd::Breakdown {
    let (start, before) = (now(driver), driver.breakdown());
    let end = run(driver, start);
    let spent = driver.breakdown() - before;
    assert_eq!(spent.total(), end.since(start));
    spent
}

#[test]
fn both_parts_are_found_from_their_bytes() {
    let found = |spec: ParallelNorSpec, bits| driver(spec, bits).identity().clone();
    let wide = found(s29gl128p(), 16);
    assert_eq!((wide.command_set, wide.view), (CommandSet::Amd, BusView::X16));
    assert_eq!(wide.id, [0x0001, 0x227E, 0x2221, 0x2201]);
    assert_eq!((wide.erase_suspend, wide.program_suspend, wide.otp_bytes), (true, true, [0, 256]));
    let narrow = found(s29gl128p(), 8);
    assert_eq!((narrow.view, narrow.id.as_slice()), (BusView::X16AsX8, [1, 0x7E, 0x21, 1].as_slice()));
    let intel = found(j3(), 16);
    assert_eq!((intel.command_set, intel.id.as_slice()), (CommandSet::Intel, [0x89, 0x18].as_slice()));
    assert_eq!((intel.otp_bytes, intel.otp_lock_word, intel.instant_lock), ([8, 8], 0x80, false));
    assert_eq!(found(j3(), 8).view, BusView::X16AsX8);

    let geometry = driver(s29gl128p(), 16).geometry().clone();
    assert_eq!((geometry.size_bytes, geometry.erase_bytes, geometry.buffer_bytes), (1 << 24, 1 << 17, 64));
    assert_eq!((geometry.write_bytes, geometry.oob_bytes), (1, 0));
}

#[test]
fn byte_wide_and_top_boot_chips() {
    let mut bytes = small(s29gl128p());
    bytes.geometry.interface = Interface::X8;
    bytes.id = vec![0x01, 0x4F];
    bytes.otp = None;
    let found = driver(bytes, 8);
    assert_eq!((found.identity().view, found.identity().id.as_slice()), (BusView::X8, [1, 0x4F].as_slice()));

    let mut top = s29gl128p();
    let region = |blocks, block_bytes| NorRegion { blocks, block_bytes, t_bers_us: None };
    top.geometry.regions = vec![region(127, 0x1_0000), region(8, 0x2000)];
    (top.geometry.boot, top.geometry.size_bytes) = (BootBlocks::Top, 0x80_0000);
    let mut top = driver(top, 16);
    assert_eq!((top.geometry().erase_bytes, top.erase_map().blocks()), (0x1_0000, 135));
    let last = 0x7F_0000;
    top.write(Instant::ZERO, last + 0xE000, &[0; 64]).unwrap();
    let spent = cost(&mut top, |d, t| d.erase(t, last, 0x1_0000).unwrap().at);
    assert_eq!(spent[Phase::Array], Nanos::from_ms(8 * 500) + us(8 * 50), "eight small blocks");
    let mut out = [0; 64];
    let at = now(&mut top);
    top.read(at, last + 0xE000, &mut out).unwrap();
    assert_eq!(out, [0xFF; 64]);
}

/// A bus without a chip, which reads ones.
struct Empty;

impl NorMem for Empty {
    fn word_bytes(&self) -> u32 {
        1
    }
    fn command(&mut self, _: &mut Host, _: u32, _: u8) -> Result<(), Violation> {
        Ok(())
    }
    fn program(&mut self, _: &mut Host, _: u32, _: &[u8]) -> Result<(), Violation> {
        Ok(())
    }
    fn read(&mut self, _: &mut Host, _: u32, buf: &mut [u8]) -> Result<(), Violation> {
        buf.fill(0xFF);
        Ok(())
    }
    fn wait(&mut self, _: &mut Host, _: PollPlan) -> bool {
        true
    }
    fn status(&mut self, _: &mut Host, _: u32) -> Result<u8, Violation> {
        Ok(0xFF)
    }
}

#[test]
fn an_empty_bus_has_no_chip() {
    let probed = CfiDriver::probe(Empty, Instant::ZERO, HostProfile::default(), Options::default());
    assert_eq!(probed.err(), Some(ProbeError::NoChip));
}

/// 16-byte pages of 8 words take 100 ns + 7 x 25 ns.
#[test]
fn reads_follow_the_formula() {
    let mut chip = driver(s29gl128p(), 16);
    let mut buf = vec![0; 0x1_0000];
    let spent = cost(&mut chip, |d, t| d.read(t, 0, &mut buf).unwrap().at);
    assert_eq!(spent[Phase::Data], ns(0x1_0000 / 16 * (100 + 7 * 25)));
    // Bytes 15 to 32 are in the words 14, 16..30 and 32: three pages, ten words.
    let spent = cost(&mut chip, |d, t| d.read(t, 15, &mut buf[..18]).unwrap().at);
    assert_eq!(spent[Phase::Data], ns(3 * 100 + 7 * 25));
    let spent = cost(&mut chip, |d, t| d.read(t, 7, &mut buf[..1]).unwrap().at);
    assert_eq!(spent.total(), ns(100));
}

#[test]
fn controllers_cost_what_their_profile_says() {
    let build = |profile: NorProfile, bits| {
        let chip = ParallelNor::new(s29gl128p(), bits, false).unwrap();
        let bus = NorController::new(profile, NorBus { bits }, chip);
        CfiDriver::probe(bus, Instant::ZERO, HostProfile::default(), Options::default()).unwrap()
    };
    let mut buf = [0; 64];
    // Without page mode: 32 random reads. At 60 MHz 100 ns are 6 clocks; with one wait state 7 clocks
    // of 16.67 ns.
    let clocked =
        NorProfile { clock_hz: 60_000_000, wait_states: 1, access_ns: ns(40), ..NorProfile::default() };
    let spent = cost(&mut build(clocked, 16), |d, t| d.read(t, 0, &mut buf).unwrap().at);
    assert_eq!((spent[Phase::Data], spent[Phase::Controller]), (ns(32 * 7 * 50 / 3), ns(32 * 40)));
    // 8-byte bursts with page accesses of at least 60 ns: 8 x (100 + 3 x 60).
    let bursts = NorProfile { page_mode: true, burst_bytes: 8, t_cycle_ns: ns(60), ..NorProfile::default() };
    let spent = cost(&mut build(bursts, 16), |d, t| d.read(t, 0, &mut buf).unwrap().at);
    assert_eq!(spent[Phase::Data], ns(8 * (100 + 3 * 60)));
    // Byte mode has twice the number of words in the same number of pages.
    let paged = NorProfile { page_mode: true, ..NorProfile::default() };
    let spent = cost(&mut build(paged, 8), |d, t| d.read(t, 0, &mut buf).unwrap().at);
    assert_eq!(spent[Phase::Data], ns(4 * (100 + 15 * 25)));
}

/// Five command cycles and 32 data cycles of 100 ns, then 480 us; a status read every 1.1 us from 64 us
/// on.
#[test]
fn a_buffer_program_follows_the_formula() {
    let mut chip = driver(s29gl128p(), 16);
    let spent = cost(&mut chip, |d, t| d.write(t, 0, &[0x5A; 64]).unwrap().at);
    assert_eq!((spent[Phase::Command], spent[Phase::Data]), (ns(500), ns(3200)));
    assert_eq!(spent[Phase::Array], us(480));
    // The read that detects the end comes half an interval late on average, and one more read follows.
    assert_eq!(spent[Phase::Polling], ns(1100 / 2 + 100));
    // A half-filled buffer takes half the time.
    let spent = cost(&mut chip, |d, t| d.write(t, 64, &[0x5A; 32]).unwrap().at);
    assert_eq!(spent[Phase::Array], us(240));
    let words = Options { buffered: false, ..Options::default() };
    let mut chip = driver_with(s29gl128p(), 16, words);
    let spent = cost(&mut chip, |d, t| d.write(t, 0, &[0x5A; 64]).unwrap().at);
    assert_eq!((spent[Phase::Command], spent[Phase::Data]), (ns(32 * 300), ns(32 * 100)));
    assert_eq!(spent[Phase::Array], us(32 * 60));
}

/// Status reads come after 256 ms and then every 4 ms + 0.1 us; the erase ends 500.05 ms after the
/// command.
#[test]
fn an_erase_follows_the_formula() {
    let mut chip = driver(s29gl128p(), 16);
    let spent = cost(&mut chip, |d, t| d.erase(t, 0, 0x2_0000).unwrap().at);
    assert_eq!(spent[Phase::Array], Nanos::from_ms(500) + us(50));
    assert_eq!(spent[Phase::Polling], ns(4_000_100 / 2 + 100));
    let together = Options { multi_erase: true, ..Options::default() };
    let spent = cost(&mut driver_with(s29gl128p(), 16, together), |d, t| d.erase(t, 0, 0x8_0000).unwrap().at);
    // Each further command restarts the erase window, which ends three times 100 ns later.
    assert_eq!(spent[Phase::Array] + spent[Phase::Command], Nanos::from_ms(2000) + us(50) + ns(900));
    let whole = Options { chip_erase: true, ..Options::default() };
    let spent = cost(&mut driver_with(s29gl128p(), 16, whole), |d, t| d.erase(t, 0, 1 << 24).unwrap().at);
    assert_eq!((spent[Phase::Array], spent[Phase::Command]), (Nanos::from_ms(64_000), ns(600)));
}

#[test]
fn intel_programs_and_erases() {
    let mut chip = driver(j3(), 16);
    let spent = cost(&mut chip, |d, t| d.write(t, 0x100, &[0; 32]).unwrap().at);
    assert_eq!((spent[Phase::Array], spent[Phase::Data]), (us(218), ns(16 * 150)));
    assert_eq!(spent[Phase::Command], ns(3 * 150));
    let mut out = [1; 32];
    // The chip is in status mode after a program, so a read needs one command.
    let spent = cost(&mut chip, |d, t| d.read(t, 0x100, &mut out).unwrap().at);
    assert_eq!((out, spent[Phase::Command]), ([0; 32], ns(150)));
    let spent = cost(&mut chip, |d, t| d.erase(t, 0, 0x2_0000).unwrap().at);
    assert_eq!(spent[Phase::Array], Nanos::from_ms(1000));
    let spent = cost(&mut chip, |d, t| d.read(t, 0x100, &mut out).unwrap().at);
    assert_eq!((out, spent[Phase::Data]), ([0xFF; 32], ns(4 * (150 + 3 * 25))));
}

#[test]
fn timing_only_takes_the_same_time_and_leaves_the_buffer() {
    for spec in [s29gl128p(), j3()] {
        let run = |stores| {
            let bus = chip_bus(spec.clone(), 16, stores);
            let profile =
                HostProfile { call_us: us(3), page_us: us(1), wakeup_us: us(50), ..HostProfile::NONE };
            let mut d = CfiDriver::probe(bus, Instant::ZERO, profile, Options::default()).unwrap();
            let mut buf = [7; 100];
            let t = d.write(Instant::ZERO, 10, &[0x33; 1000]).unwrap().at;
            let t = d.read(t, 10, &mut buf).unwrap().at;
            let t = d.erase(t, 0, 0x4_0000).unwrap().at;
            (t, d.breakdown(), buf[50], d.bus().chip().array(0).unwrap().held_bytes())
        };
        let (with, without) = (run(true), run(false));
        assert_eq!((with.0, with.1), (without.0, without.1));
        assert_eq!((with.2, without.2, without.3), (0x33, 7, 0));
    }
}

#[test]
fn failures_have_their_kinds() {
    for spec in [small(s29gl128p()), small(j3())] {
        let amd = spec.command_set == CommandSet::Amd;
        let mut d = driver(spec, 16);
        d.bus_mut().chip_mut().set_faults(0x1000, Faults::BOTH);
        d.bus_mut().chip_mut().protect(0x2000);
        let t = now(&mut d);
        let programmed = d.write(t, 0x1040, &[0; 4]).unwrap_err();
        assert_eq!((programmed.kind, programmed.addr), (ErrorKind::ProgramFailed, 0x1040));
        let erased = d.erase(programmed.at, 0x1000, 0x1000).unwrap_err();
        assert_eq!((erased.kind, erased.addr), (ErrorKind::EraseFailed, 0x1000));
        assert_eq!(d.write(erased.at, 0x2000, &[0; 4]).unwrap_err().kind, ErrorKind::WriteProtected);
        assert_eq!(d.erase(erased.at, 0x2000, 0x1000).unwrap_err().kind, ErrorKind::WriteProtected);
        d.write(erased.at, 0, &[0; 4]).unwrap();
        assert_eq!(d.write(erased.at, 0, &[1; 4]).unwrap_err().kind, ErrorKind::NotErased);
        assert!(matches!(d.erase(erased.at, 0x800, 0x1000).unwrap_err().kind, ErrorKind::Misaligned { .. }));
        assert!(matches!(
            d.read(erased.at, 0x3FFF, &mut [0; 2]).unwrap_err().kind,
            ErrorKind::OutOfRange { .. }
        ));
        let lock = d.lock(erased.at, 0, 0x1000);
        assert_eq!(lock.is_err(), amd);
        let late = now(&mut d);
        let locked = d.write(late, 0x10, &[0; 4]).err().map(|e| e.kind);
        assert_eq!(locked, (!amd).then_some(ErrorKind::WriteProtected));
        assert_eq!(d.unlock_blocks(late, 0, 0x1000).is_err(), amd);
        let t = now(&mut d);
        d.write(t, 0x20, &[0; 4]).unwrap();
    }
}

#[test]
fn several_blocks_with_a_protected_one_leave_the_chip_idle() {
    let together = Options { multi_erase: true, ..Options::default() };
    let mut d = driver_with(small(s29gl128p()), 16, together);
    d.bus_mut().chip_mut().protect(0x2000);
    let refused = d.erase(Instant::ZERO, 0, 0x4000).unwrap_err();
    assert_eq!((refused.kind, refused.addr), (ErrorKind::WriteProtected, 0x2000));
    let t = now(&mut d);
    d.read(t, 0, &mut [0; 64]).unwrap();
}

#[test]
fn chips_locked_at_power_on_are_unlocked() {
    let spec = ParallelNorSpec { lock: LockScheme::Instant, ..small(j3()) };
    let mut d = driver(spec, 16);
    assert!(d.identity().instant_lock);
    d.erase(Instant::ZERO, 0, 0x4000).unwrap();
}

#[test]
fn otp_of_both_sets_and_widths() {
    for (spec, bits) in [(s29gl128p(), 16), (s29gl128p(), 8), (j3(), 16), (j3(), 8)] {
        let size = if spec.command_set == CommandSet::Amd { 256 } else { 8 };
        let mut d = driver(spec, bits);
        let t = d.otp_write(Instant::ZERO, 1, &[0x11, 0x22, 0x33]).unwrap().at;
        let mut out = [0; 5];
        let t = d.otp_read(t, OtpArea::User, 0, &mut out).unwrap().at;
        assert_eq!(out, [0xFF, 0x11, 0x22, 0x33, 0xFF]);
        assert_eq!(d.otp_write(t, 1, &[0xFF]).unwrap_err().kind, ErrorKind::NotErased);
        let (region, t) = d.otp_info(t, OtpArea::User, 0).unwrap();
        assert_eq!((region.start, region.len, region.locked), (0, size, false));
        let t = d.otp_lock(t, 0, size).unwrap().at;
        assert!(d.otp_info(t, OtpArea::User, 0).unwrap().0.locked);
        assert_eq!(d.otp_write(t, 6, &[0]).unwrap_err().kind, ErrorKind::WriteProtected);
        assert!(d.otp_read(t, OtpArea::User, size, &mut out).is_err());
        let factory = d.otp_read(t, OtpArea::Factory, 0, &mut out);
        assert_eq!(factory.is_ok(), size == 8);
        let mut array = [0; 5];
        let t = now(&mut d);
        d.read(t, 0, &mut array).unwrap();
        assert_eq!(array, [0xFF; 5], "the array is not touched");
    }
}

#[test]
fn a_read_suspends_a_program_and_an_erase() {
    for spec in [s29gl128p(), j3()] {
        let amd = spec.command_set == CommandSet::Amd;
        let suspend = Options { suspend: true, ..Options::default() };
        let mut d = driver_with(spec, 16, suspend);
        let t = d.write(Instant::ZERO, 0x2_0000, &[0x42; 16]).unwrap().at;
        let plain = d.write(t, 0x4_0000, &[0; 32]).unwrap().at.since(t);
        d.host_mut().record(true);
        let t = now(&mut d);
        let mut out = [0; 16];
        let (written, read) = d.read_while_write(t, (0, &[0; 32]), (0x2_0000, &mut out)).unwrap();
        assert_eq!(out, [0x42; 16]);
        assert!(read.at.since(t) < us(40), "not after the program: {}", read.at.since(t));
        assert!(written.at.since(t) > plain, "the program takes longer by the pause");
        let t = now(&mut d);
        let asked = t + Nanos::from_ms(100);
        let (erased, read) = d.read_while_erase(t, 0, asked, (0x2_0000, &mut out)).unwrap();
        assert!(read.at.since(asked) < us(40));
        assert!(erased.at.since(t) > Nanos::from_ms(if amd { 500 } else { 1000 }));
        let t = now(&mut d);
        d.read(t, 0, &mut out).unwrap();
        assert_eq!(out, [0xFF; 16]);
        let spans = d.host_mut().take_spans();
        for (i, a) in spans.iter().enumerate() {
            for b in spans.iter().skip(i + 1).filter(|b| b.resource == a.resource) {
                let wires = a.resource != crate::timeline::Resource::Cpu;
                assert!(!wires || b.start >= a.end, "{a:?} overlaps {b:?}");
            }
        }
    }
}

#[test]
fn without_the_option_the_read_waits() {
    let mut d = driver(s29gl128p(), 16);
    let mut out = [0; 4];
    let (written, read) = d.read_while_write(Instant::ZERO, (0, &[0; 64]), (0, &mut out)).unwrap();
    assert!(read.at > written.at);
    assert_eq!(out, [0; 4]);
    let t = now(&mut d);
    let (erased, read) = d.read_while_erase(t, 0, t, (0, &mut out)).unwrap();
    assert!(read.at > erased.at);
}
