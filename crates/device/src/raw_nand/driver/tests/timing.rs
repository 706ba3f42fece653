//! Compares durations with formulas, and checks that the breakdown adds up.

use crate::ecc_engine::{EccProfile, EngineKind};
use crate::host::HostProfile;
use crate::raw_nand::chip::{ChipOptions, RawNand};
use crate::raw_nand::controller::{NandBoard, NandController, NandProfile};
use crate::raw_nand::driver::{BadBlocks, Options};
use crate::raw_nand::spec::RawNandSpec;
use crate::raw_nand::testing::Rig;
use crate::raw_nand::testing::{Driver, driver, ideal_controller, mx30lf2g18ac, nv_ddr, rig, wire};
use crate::timeline::{Resource, Span};
use floatgate_mtd::{Instant, Mtd, Nanos, Phase};

fn device(spec: &RawNandSpec, profile: &str, board: &str, rig: Rig) -> Driver {
    let profile: NandProfile = toml::from_str(profile).unwrap();
    let board: NandBoard = toml::from_str(board).unwrap();
    let bus =
        NandController::new(profile, board, RawNand::package(spec, ChipOptions::timing_only()).unwrap());
    crate::raw_nand::testing::probe(bus, rig, std::slice::from_ref(spec)).unwrap()
}

fn no_ecc() -> Rig {
    let options = Options { bad_blocks: BadBlocks::Ignore, ..Options::default() };
    let ecc = EccProfile { engine: EngineKind::None, ..EccProfile::default() };
    Rig { ecc, options, ..Rig::default() }
}

/// Duration of one call.
fn cost(device: &mut Driver, call: impl FnOnce(&mut Driver, Instant) -> Instant) -> Nanos {
    let now = device.ready_at();
    call(device, now).since(now)
}

fn read_pages(device: &mut Driver, pages: usize) -> Nanos {
    let mut buf = vec![0; pages * device.geometry().write_bytes as usize];
    cost(device, |device, now| device.read(now, 0, &mut buf).unwrap().at)
}

const SDR5: &str = "sdr_modes = [0, 1, 2, 3, 4, 5]";

/// Formula of facts 2.2: 2 commands, 5 address cycles, tWB, tR, tRR and the data.
#[test]
fn a_page_read_in_sdr_5() {
    let mut device = device(&mx30lf2g18ac(), SDR5, "", no_ecc());
    let by_hand = 7 * 20 + 100 + 20_000 + 20 + 2048 * 20;
    assert_eq!(read_pages(&mut device, 1), Nanos::from_ns(by_hand));
}

/// Formula of facts 2.2: commands and addresses, tADL, page with OOB, tWB, tPROG, then a status read. Another status
/// read before it checks WP#.
#[test]
fn a_page_program_in_sdr_5() {
    let mut device = device(&mx30lf2g18ac(), SDR5, "", no_ecc());
    let status = 20 + 80 + 20;
    let by_hand = 6 * 20 + 400 + 2112 * 20 + 20 + 100 + 300_000 + 2 * status;
    let page = vec![0; 2048];
    let took = cost(&mut device, |device, now| device.write(now, 0, &page).unwrap().at);
    assert_eq!(took, Nanos::from_ns(by_hand));
    let by_hand = 5 * 20 + 100 + 1_000_000 + 2 * status;
    let took = cost(&mut device, |device, now| device.erase(now, 0, 128 << 10).unwrap().at);
    assert_eq!(took, Nanos::from_ns(by_hand));
}

/// Formula of facts 3.3: tR + tRCBSY for the first page, then tRCBSY, because the transfer (41 us) covers tR.
#[test]
fn cached_reads_hide_the_array() {
    let mut device = device(&mx30lf2g18ac(), SDR5, "", no_ecc());
    let page = 2048 * 20;
    let turn = 20 + 100 + 5_000 + 20 + page;
    for pages in [2, 3, 64] {
        // The 31h of the first page follows its tR; the controller waits tRR before it.
        let by_hand = 7 * 20 + 100 + 20_000 + pages * turn;
        assert_eq!(read_pages(&mut device, pages as usize), Nanos::from_ns(by_hand), "{pages} pages");
    }
    // 66 pages: a sequence of 64, and one of 2 in the next block.
    let by_hand = 2 * (7 * 20 + 100 + 20_000) + 66 * turn;
    assert_eq!(read_pages(&mut device, 66), Nanos::from_ns(by_hand));
    // 65 pages: the last page alone is a plain read.
    let by_hand = (7 * 20 + 100 + 20_000 + 64 * turn) + (7 * 20 + 100 + 20_000 + 20 + page);
    assert_eq!(read_pages(&mut device, 65), Nanos::from_ns(by_hand));
}

/// If the bus is faster than the array, the remaining tR is visible.
#[test]
fn a_slow_array_shows_through() {
    let mut spec = mx30lf2g18ac();
    spec.timing.t_r_us.typ = Nanos::from_us(100);
    spec.timing.t_r_us.max = Nanos::from_us(100);
    let mut device = device(&spec, SDR5, "", no_ecc());
    let (first, page) = (7 * 20 + 100 + 100_000, 20 + 2048 * 20);
    // The array takes tR from one ready to the next, and the transfer is covered. 3Fh waits for the last page.
    let by_hand = first + (20 + 100 + 5_000) + 2 * 100_000 + page;
    assert_eq!(read_pages(&mut device, 3), Nanos::from_ns(by_hand));
}

/// Example of facts 3.3, i.MX6 at 33 MHz: 45.8 us + tR + 2048 bytes for a plain page, 42.4 us + tRCBSY + 2048 bytes for
/// one of a sequence. A sequential page saves two steps (address and second command), which make the difference of 3.4
/// us. The step that waits for R/B# is covered by tR.
#[test]
fn imx6_rows() {
    let profile = "sdr_modes = [0, 1, 2, 3]\nop_cost = { setup_us = 39.02, finish_us = 0.05 }\nstep_us = 1.6";
    let mut device = device(&mx30lf2g18ac(), profile, "clock_hz = \"33 MHz\"", no_ecc());
    let near = |took: Nanos, us: f64| {
        let took = took.as_us_f64();
        assert!((took / us - 1.0).abs() < 0.01, "{took} is not {us}");
    };
    near(read_pages(&mut device, 1), 45.8 + 20.0 + 62.06);
    near(read_pages(&mut device, 64), 45.8 + 20.0 + 63.0 * 42.4 + 64.0 * (5.0 + 62.06));
}

/// Example of facts 3.4: bus time of 17600 bytes, in SDR limited by the controller and in NV-DDR 5.
#[test]
fn arasan_rows() {
    let floor = "sdr_modes = [0, 1, 2, 3, 4, 5]\nsdr_ns_per_byte = { read = 62.5, write = 100 }";
    let mut ecc = no_ecc();
    ecc.ecc.engine = EngineKind::Software;
    let data = |device: &mut Driver| {
        let before = device.breakdown();
        read_pages(device, 1);
        (device.breakdown() - before)[Phase::Data]
    };
    let spec = nv_ddr();
    assert_eq!(data(&mut device(&spec, floor, "", ecc)), Nanos::from_us(1100));
    assert_eq!(data(&mut device(&spec, SDR5, "", ecc)), Nanos::from_us(352));
    let fast = "sdr_modes = [0]\nnvddr_modes = [0, 1, 2, 3, 4, 5]";
    assert_eq!(data(&mut device(&spec, fast, "", ecc)), Nanos::from_us(88));
    // Only ECC engines outside the chip need the OOB.
    assert_eq!(data(&mut device(&spec, fast, "", no_ecc())), Nanos::from_ns(16_384 * 5));
}

#[test]
fn cached_programs_hide_the_bus() {
    let mut rig = no_ecc();
    let pages = vec![0; 64 * 2048];
    let write = |rig| {
        let mut device = device(&mx30lf2g18ac(), SDR5, "", rig);
        cost(&mut device, |device, now| device.write(now, 0, &pages).unwrap().at)
    };
    let plain = write(rig);
    rig.options.cached_programs = true;
    let cached = write(rig);
    // All transfers except the first are covered by tPROG (300 us); each 15h costs tCBSY.
    assert!(plain > Nanos::from_us(64 * 342) && cached < Nanos::from_us(64 * 306 + 50), "{plain} {cached}");
}

/// A driver sleeps while a page is programmed or read, but not while it reads a status.
#[test]
fn a_status_read_ends_before_the_driver_sleeps() {
    let took = |wakeup_us: u64| {
        let profile = toml::from_str(&format!("{SDR5}\nop_cost = {{ interrupt = true }}")).unwrap();
        let spec = mx30lf2g18ac();
        let chips = RawNand::package(&spec, ChipOptions::timing_only()).unwrap();
        let host = HostProfile { wakeup_us: Nanos::from_us(wakeup_us), ..HostProfile::NONE };
        let bus = NandController::new(profile, NandBoard::default(), chips).on(&host);
        let mut device = crate::raw_nand::testing::probe(bus, no_ecc(), &[spec]).unwrap();
        let write = cost(&mut device, |device, now| device.write(now, 0, &[0; 2048]).unwrap().at);
        (write, read_pages(&mut device, 1))
    };
    let ((write, read), (late_write, late_read)) = (took(0), took(30));
    assert_eq!((late_write, late_read), (write + Nanos::from_us(30), read + Nanos::from_us(30)));
}

/// Each verified page takes one page read longer, whatever it contains.
#[test]
fn a_verified_write_reads_each_page_back() {
    let mut verifying = no_ecc();
    verifying.options.verify_writes = true;
    let by_hand = 7 * 20 + 100 + 20_000 + 20 + 2048 * 20;
    let page = [0x5A; 2 * 2048];
    let write = |device: &mut Driver| cost(device, |device, now| device.write(now, 0, &page).unwrap().at);
    let plain = write(&mut device(&mx30lf2g18ac(), SDR5, "", no_ecc()));
    let verified = write(&mut device(&mx30lf2g18ac(), SDR5, "", verifying));
    assert_eq!(verified, plain + Nanos::from_ns(by_hand) * 2);
    write(&mut driver(&mx30lf2g18ac(), verifying).unwrap());
}

#[test]
fn two_planes_erase_at_once() {
    let mut rig = no_ecc();
    rig.options.multi_plane = true;
    let mut device = device(&mx30lf2g18ac(), SDR5, "", rig);
    let took = cost(&mut device, |device, now| device.erase(now, 0, 4 * (128 << 10)).unwrap().at);
    assert!(took > Nanos::from_ms(2) && took < Nanos::from_us(2_010), "{took}");
    let took = cost(&mut device, |device, now| device.erase(now, 128 << 10, 2 * (128 << 10)).unwrap().at);
    assert!(took > Nanos::from_ms(2), "not a pair: {took}");
}

#[test]
fn two_planes_program_and_read_at_once() {
    let mut rig = no_ecc();
    let mut times = Vec::new();
    let mut data = vec![0x11; 4 * (128 << 10)];
    for multi_plane in [false, true] {
        rig.options.multi_plane = multi_plane;
        rig.options.continuous = Some(false);
        let mut device = device(&mx30lf2g18ac(), SDR5, "", rig);
        let write = cost(&mut device, |device, now| device.write(now, 0, &data).unwrap().at);
        let read = cost(&mut device, |device, now| device.read(now, 0, &mut data).unwrap().at);
        times.push([write, read].map(Nanos::as_us_f64));
    }
    // 256 pages: half of the tPROG (300 us) and half of the tR (20 us) are saved, at the cost of some tDBSY.
    assert!(times[0][0] - times[1][0] > 128.0 * 298.0, "{times:?}");
    assert!(times[0][1] - times[1][1] > 128.0 * 17.0, "{times:?}");
}

/// A long transfer needs several operations of the controller.
#[test]
fn transfers_have_a_limit() {
    let profile = |limit: &str| format!("{SDR5}\nop_cost = {{ setup_us = 2, finish_us = 1 }}\n{limit}");
    let mut whole = device(&mx30lf2g18ac(), &profile(""), "", no_ecc());
    let mut split = device(&mx30lf2g18ac(), &profile("max_transfer_bytes = 512"), "", no_ecc());
    assert_eq!(read_pages(&mut split, 1), read_pages(&mut whole, 1) + Nanos::from_us(9));
}

fn overlaps(spans: &[Span]) -> Option<(Span, Span)> {
    let mut last: std::collections::BTreeMap<Resource, Span> = std::collections::BTreeMap::new();
    for span in spans {
        if let Some(before) = last.insert(span.resource, *span)
            && before.end > span.start
        {
            return Some((before, *span));
        }
    }
    None
}

#[test]
fn no_resource_does_two_things_at_once_and_the_books_balance() {
    for spec in [mx30lf2g18ac(), nv_ddr()] {
        let mut rig = rig();
        rig.options.cached_programs = true;
        rig.options.multi_plane = true;
        rig.ecc = EccProfile { engine: EngineKind::Software, decode_ns_per_kb: Some(900), ..rig.ecc };
        let mut device = driver(&spec, rig).unwrap();
        let (page, block) =
            (device.geometry().write_bytes as usize, u64::from(device.geometry().erase_bytes));
        device.host_mut().record(true);
        let start = device.ready_at();
        let before = device.breakdown();
        let mut buf = vec![0x3C; 5 * page];
        let at = device.erase(start, 0, 3 * block).unwrap().at;
        let at = device.write(at, block, &buf).unwrap().at;
        let at = device.read(at, block, &mut buf).unwrap().at;
        let at = device.read(at, block + 7, &mut buf[..page]).unwrap().at;
        assert_eq!((device.breakdown() - before).total(), at.since(start));
        let spans = device.host_mut().take_spans();
        assert!(spans.iter().any(|span| span.resource == Resource::Die(0)));
        assert_eq!(overlaps(&spans), None);
        // The array works during bus transfers: cached reads and programs.
        let bus = |s: &Span| {
            spans.iter().any(|b| b.resource == Resource::Bus && b.start < s.end && s.start < b.end)
        };
        assert!(spans.iter().filter(|s| s.resource == Resource::Die(0)).any(bus));
    }
}

#[test]
fn timing_only_chips_take_the_same_time_and_leave_buffers_alone() {
    let spec = mx30lf2g18ac();
    let mut times = Vec::new();
    for stores in [true, false] {
        let mut device =
            crate::raw_nand::testing::probe(wire(&spec, stores), rig(), std::slice::from_ref(&spec)).unwrap();
        let mut buf = vec![0x77; 4 * 2048];
        let at = device.write(Instant::ZERO, 0, &buf).unwrap().at;
        let at = device.read(at, 0, &mut buf[..100]).unwrap().at;
        let at = device.read(at, 0, &mut buf).unwrap().at;
        let at = device.erase(at, 0, 128 << 10).unwrap().at;
        assert!(buf.iter().all(|byte| *byte == 0x77));
        times.push(at);
    }
    assert_eq!(times[0], times[1]);
}

#[test]
fn an_impossible_wait_times_out() {
    let mut spec = mx30lf2g18ac();
    spec.timing.t_r_us.typ = Nanos::from_us(400);
    let bus = NandController::new(
        ideal_controller(),
        NandBoard::default(),
        RawNand::package(&spec, ChipOptions::default()).unwrap(),
    );
    let error = crate::raw_nand::testing::probe(bus, rig(), &[spec]).unwrap_err();
    assert_eq!(error.kind, floatgate_mtd::ErrorKind::Timeout);
}
