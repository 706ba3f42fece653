//! Tests of durations: polls, continuous reads, spans, PHY.

use super::rig::{Driver, Rig, spec};
use crate::host::HostProfile;
use crate::oracle::Oracle;
use crate::spi::{Data, PhyProfile, PollPlan, SpiController, SpiError, SpiMem, SpiOp};
use crate::spi_nand::{ChipOptions, Options, ProbeError, SpiNand};
use crate::timeline::{Host, Resource};
use floatgate_mtd::{Breakdown, Instant, Mtd, Nanos, Phase};
use std::sync::Arc;

/// tRD of the W35N01JW, taken from the part file.
fn t_rd() -> Nanos {
    spec("w35n01jw").timing.t_rd_ecc_us
}

fn cost(d: &mut Driver, addr: u64, len: usize) -> Breakdown {
    let before = d.breakdown();
    d.read(d.ready_at(), addr, &mut vec![0; len]).unwrap();
    d.breakdown() - before
}

/// A bus whose chip takes `t_rd`, with a host that has just started a page read.
fn reading(t_rd: Nanos, setup: u64) -> (SpiController<SpiNand>, Host) {
    let mut rig = Rig::new("1S-1S-1S");
    rig.profile.exec.setup_us = Nanos::from_us(setup);
    rig.profile.exec.finish_us = Nanos::from_us(setup / 2);
    let mut slow = spec("w35n01jw");
    slow.timing.t_rd_ecc_us = t_rd;
    let chip = SpiNand::new(Arc::new(slow), ChipOptions::default());
    let mut bus = SpiController::new(rig.profile, rig.board, chip);
    let mut host = Host::default();
    bus.exec(&mut host, &SpiOp::command(0x13).address(0, 3), Data::None).unwrap();
    (bus, host)
}

fn status() -> SpiOp {
    SpiOp::command(0x0F).address(0xC0, 1).read(1)
}

/// Time at which a driver that executes every status operation finds the chip ready.
fn stepped(t_rd: Nanos, setup: u64, plan: PollPlan) -> u64 {
    let (mut bus, mut host) = reading(t_rd, setup);
    host.spend(Resource::Cpu, Phase::Polling, plan.initial, "initial");
    loop {
        let mut value = [0];
        bus.exec(&mut host, &status(), Data::In(&mut value)).unwrap();
        if value[0] & 1 == 0 {
            return host.now().since(Instant::ZERO).as_ns();
        }
        host.spend(Resource::Cpu, Phase::Polling, plan.interval, "interval");
    }
}

/// Compares the closed form of the controller's poll with the loop that it replaces, averaged over array times that differ by up
/// to one polling round.
#[test]
fn polls_end_in_the_mean_where_polling_step_by_step_ends() {
    for (t_rd, initial, interval) in
        [(25, 6, 5), (25, 0, 0), (31, 6, 1), (60, 75, 15), (2, 6, 5), (120, 75, 15)]
    {
        for setup in [0, 7] {
            let plan = PollPlan {
                initial: Nanos::from_us(initial),
                interval: Nanos::from_us(interval),
                timeout: Nanos::from_ms(400),
            };
            let (mut bus, mut host) = reading(Nanos::from_us(t_rd), setup);
            bus.poll(&mut host, &status(), 1, 0, plan).unwrap();
            let (mut once, mut start) = reading(Nanos::from_ns(1), setup);
            let before = start.now();
            once.exec(&mut start, &status(), Data::In(&mut [0])).unwrap();
            let round = start.now().since(before) + plan.interval;
            let times = (0..100).map(|k| t_rd * 1000 + round.as_ns() * k / 100);
            let all = times
                .map(|ns| stepped(Nanos::from_ns(ns.saturating_sub(round.as_ns() / 2).max(1)), setup, plan));
            let mean = all.sum::<u64>() / 100;
            let closed = host.now().since(Instant::ZERO).as_ns();
            let case = format!("{t_rd} us, {initial}/{interval}, set-up {setup} us: {closed} and {mean} ns");
            assert!(closed.abs_diff(mean) <= round.as_ns() / 50 + 20, "{case}");
        }
    }
}

/// A longer array time is never detected earlier, and one that is longer by a hundredth of the polling interval is detected
/// slightly later.
#[test]
fn polls_are_no_stair() {
    let plan =
        PollPlan { initial: Nanos::from_us(6), interval: Nanos::from_us(20), timeout: Nanos::from_ms(400) };
    let end = |ns| {
        let (mut bus, mut host) = reading(Nanos::from_ns(ns), 0);
        bus.poll(&mut host, &status(), 1, 0, plan).unwrap();
        host.now().since(Instant::ZERO).as_ns()
    };
    for ns in (30_000..90_000).step_by(200) {
        assert_eq!(end(ns + 200), end(ns) + 200, "{ns}");
    }
}

#[test]
fn a_chip_that_stays_busy_times_out() {
    let rig = Rig::new("1S-1S-1S");
    let mut slow = spec("w35n01jw");
    slow.timing.t_rd_ecc_us = Nanos::from_ms(500);
    let chip = SpiNand::new(Arc::new(slow), ChipOptions::default());
    let mut bus = SpiController::new(rig.profile, rig.board, chip);
    let mut host = Host::default();
    bus.exec(&mut host, &SpiOp::command(0x13).address(0, 3), Data::None).unwrap();
    let status = SpiOp::command(0x0F).address(0xC0, 1).read(1);
    let plan =
        PollPlan { initial: Nanos::from_us(6), interval: Nanos::from_us(5), timeout: Nanos::from_ms(400) };
    assert_eq!(bus.poll(&mut host, &status, 1, 0, plan), Err(SpiError::Timeout));
}

fn streaming(mode: &str, mhz: u64) -> Rig {
    let mut rig = Rig::new(mode);
    rig.board.clock_hz = mhz * 1_000_000;
    rig.options = Options { continuous: true, ..Options::default() };
    rig
}

/// After one tRD only data is transferred: the array works during the transfers.
#[test]
fn continuous_reads_wait_for_the_array_once() {
    let block = 64 * 4096;
    for (mode, halves_per_page) in [("1S-8S-8S", 8192), ("8D-8D-8D", 4096)] {
        let mut d = streaming(mode, 25).driver("w35n01jw");
        let spent = cost(&mut d, 0, block);
        assert_eq!(spent[Phase::Array], t_rd(), "{mode}");
        let data = Nanos::from_ns(20 * halves_per_page * 64);
        let registers = spent[Phase::Data].saturating_sub(data);
        assert!(registers < Nanos::from_us(2), "{mode}: the two register writes and the status: {registers}");
        let single = cost(&mut d, 0, 4096);
        assert_eq!(single[Phase::Array], t_rd());
        assert!(spent.total() < single.total() * 64);
    }
}

/// Example of facts 1.1: 8D up to 86 MHz with 8 dummy cycles, 120 MHz with 12; the array needs 17 us per page.
#[test]
fn octal_double_rate_runs_at_its_limit() {
    for (mhz, dummy) in [(80, 8), (100, 12), (133, 12)] {
        let mut d = streaming("8D-8D-8D", mhz).driver("w35n01jw");
        assert_eq!(d.read_operation().dummy_cycles, dummy, "{mhz} MHz");
        let spent = cost(&mut d, 0, 64 * 4096);
        let page = 2048 * 1000 / mhz.min(120);
        let expected = Nanos::from_ns(64 * page);
        let data = spent[Phase::Data];
        assert!(data >= expected && data < expected + Nanos::from_us(2), "{mhz} MHz: {data}");
    }
}

/// Each block of a longer read is a separate stream, and remaining parts are read page by page.
#[test]
fn continuous_reads_deliver_the_same_bytes() {
    for (name, mode) in [("w35n01jw", "8D-8D-8D"), ("w25n02jw", "1S-4S-4S"), ("mx35lf2ge4ad", "1S-1S-4S")] {
        let mut d = streaming(mode, 25).driver(name);
        assert!(d.continuous_operation().is_some());
        let page = d.geometry().write_bytes as usize;
        let data: Vec<u8> = (0..70 * page as u32).map(|i| (i / 3 + i / 999) as u8).collect();
        let at = d.write(d.ready_at(), 0, &data).unwrap().at;
        let mut got = vec![0; 69 * page];
        let from = page / 2;
        d.read(at, from as u64, &mut got).unwrap();
        assert!(got == data[from..from + 69 * page], "{name}");
    }
}

#[test]
fn a_lost_page_in_a_stream_is_found_by_reading_page_by_page() {
    for (name, mode) in [("w35n01jw", "1S-8S-8S"), ("mx35lf2ge4ad", "1S-1S-4S")] {
        let mut d = streaming(mode, 25).driver(name);
        let page = d.geometry().write_bytes as usize;
        d.write(d.ready_at(), 0, &vec![0; 8 * page]).unwrap();
        let strength = d.spec().ecc.strength;
        (0..strength).for_each(|bit| d.bus_mut().chip_mut().inject(1, bit));
        let mut got = vec![1; 8 * page];
        let done = d.read(d.ready_at(), 0, &mut got).unwrap();
        assert_eq!((done.bitflips_max, &got), (strength, &vec![0; 8 * page]), "{name}");
        for page in [4, 6] {
            (0..=strength).for_each(|bit| d.bus_mut().chip_mut().inject(page, bit));
        }
        let error = d.read(d.ready_at(), 0, &mut got).err().unwrap();
        assert_eq!(error.addr, 4 * page as u64, "{name}");
        assert!(got[5 * page..6 * page].iter().all(|&b| b == 0));
        assert_ne!(got[4 * page], 0);
    }
}

#[test]
fn windows_bound_continuous_reads() {
    let with_window = |bytes| {
        let mut rig = streaming("1S-8S-8S", 25);
        rig.profile.dirmap.as_mut().unwrap().window_bytes = bytes;
        let mut d = rig.driver("w35n01jw");
        let array = cost(&mut d, 0, 64 * 4096)[Phase::Array];
        (d.continuous_operation().is_some(), array)
    };
    assert_eq!(with_window(0), (true, t_rd()));
    // The first attempt ends when CS# rises. Then each page is read separately, and continuous reads are disabled.
    assert_eq!(with_window(16 * 4096 + 100), (false, t_rd() * 65));
    assert_eq!(with_window(8191), (false, t_rd() * 64));
}

#[test]
fn an_engine_on_the_host_rules_continuous_reads_out() {
    use crate::ecc_engine::{EccProfile, EngineKind};
    let ecc = EccProfile { engine: EngineKind::Software, ..EccProfile::default() };
    let rig = Rig { ecc, ..streaming("1S-8S-8S", 25) };
    assert_eq!(rig.driver("w35n01jw").continuous_operation(), None);
}

#[test]
fn books_balance_and_resources_serve_one_at_a_time() {
    let mut rig = streaming("1S-8S-8S", 25);
    rig.profile.exec.setup_us = Nanos::from_us(8);
    rig.profile.rx.ns_per_byte = 60_000;
    let mut d = rig.driver("w35n01jw");
    d.host_mut().record(true);
    let (start, before) = (d.ready_at(), d.breakdown());
    let at = d.erase(start, 0, 262_144).unwrap().at;
    let at = d.write(at, 0, &[0x55; 16_384]).unwrap().at;
    let at = d.read(at, 0, &mut [0; 16_384]).unwrap().at;
    let end = d.read(at, 100, &mut [0; 50]).unwrap().at;
    assert_eq!((d.breakdown() - before).total(), end.since(start));
    let spans = d.host_mut().take_spans();
    assert!(spans.iter().any(|s| s.what == "tPROG") && spans.iter().any(|s| s.what == "tBERS"));
    for resource in [Resource::Bus, Resource::Die(0), Resource::Cpu, Resource::Controller] {
        let of: Vec<_> = spans.iter().filter(|s| s.resource == resource).collect();
        for pair in of.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{resource:?}: {:?} and {:?}", pair[0], pair[1]);
        }
    }
}

fn phy(unstable_ps: u32) -> PhyProfile {
    PhyProfile {
        switch_us: Nanos::ZERO,
        taps: 512,
        tap_ps: 47,
        round_trip_ps: 16_600,
        unstable_ps,
        min_eye_taps: 16,
        clock_hz: 166_666_667,
    }
}

pub(super) fn phy_rig(unstable_ps: u32) -> Rig {
    let mut rig = Rig::new("1S-8S-8S");
    rig.profile.phy = Some(phy(unstable_ps));
    rig.board.phy = true;
    rig
}

#[test]
fn a_calibrated_phy_reads_right_and_fast() {
    let mut d = phy_rig(2_200).driver("w35n01jw");
    let op = d.read_operation();
    assert_eq!((op.dummy_cycles, d.bus().clock(&op, true).hz()), (20, 166_666_667));
    let data: Vec<u8> = (0..4096u32).map(|i| (i * 31) as u8).collect();
    let at = d.write(d.ready_at(), 0, &data).unwrap().at;
    let mut got = vec![0; 4096];
    d.read(at, 0, &mut got).unwrap();
    assert_eq!(got, data);
    assert_eq!(cost(&mut d, 0, 4096)[Phase::Data].as_ns().div_ceil(100), 246);
}

#[test]
fn an_uncalibrated_phy_reads_wrong_bits() {
    let rig = phy_rig(2_200);
    let chip = SpiNand::new(Arc::new(spec("w35n01jw")), ChipOptions { stores: true, ..Default::default() });
    let mut bus = SpiController::new(rig.profile, rig.board, chip);
    let mut host = Host::default();
    let load = SpiOp::command(0x02).address(0, 2).write(64);
    bus.exec(&mut host, &SpiOp::command(0x06), Data::None).unwrap();
    bus.exec(&mut host, &load, Data::Out(&[0xA5; 64])).unwrap();
    let read = SpiOp::command(0x0B).address(0, 2).dummy(8).read(64);
    let mut got = [0; 64];
    bus.mapped(&mut host, &read, Data::In(&mut got)).unwrap();
    assert_ne!(got, [0xA5; 64]);
    bus.exec(&mut host, &read, Data::In(&mut got)).unwrap();
    assert_eq!(got, [0xA5; 64], "the slow clock reads right");
}

#[test]
fn without_an_eye_the_phy_is_refused() {
    let error = phy_rig(5_700).probe("w35n01jw").err().unwrap();
    assert!(matches!(error, ProbeError::Bus(SpiError::NoEye { needed: 16, hz: 166_666_667, .. })), "{error}");
}

/// Pauses of ten microseconds or more cost a wake-up, shorter ones spin.
#[test]
fn sleeps_cost_wake_ups() {
    let with = |wakeup| {
        let rig = Rig::new("1S-8S-8S");
        let chip = SpiNand::new(Arc::new(spec("w35n01jw")), rig.chip);
        let bus = SpiController::new(rig.profile, rig.board, chip);
        let host = HostProfile { wakeup_us: Nanos::from_us(wakeup), ..HostProfile::default() };
        let known = super::rig::database();
        let mut d = super::super::SpiNandDriver::probe(bus, &known, host, rig.ecc, rig.options).unwrap();
        let read = cost(&mut d, 0, 4096).total();
        let start = d.ready_at();
        (read, d.write(start, 0, &[0; 4096]).unwrap().at.since(start))
    };
    let (plain, slow) = (with(0), with(5000));
    assert_eq!(plain.0, slow.0);
    let first_pause = Nanos::from_us(75 + 5000);
    assert!(plain.1 < first_pause && slow.1 > first_pause, "{} {}", plain.1, slow.1);
}
