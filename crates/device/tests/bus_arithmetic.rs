//! Compares bus times with exact rational arithmetic, and with the worked examples of published tables.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_device::raw_nand::DataInterface;
use floatgate_device::spi::profile::Divider;
use floatgate_device::spi::{Clock, Mode, SpiOp, Width};
use proptest::prelude::*;

/// Clock of the AM62A's bus, Hz: 166.67 MHz divided by 8 (facts 0.3).
const AM62A_HZ: u32 = 20_833_333;

fn op(mode: &str, addr_bytes: u8, dummy: u8, len: u32) -> SpiOp {
    SpiOp::command(0xCB).mode(mode.parse().unwrap()).address(0, addr_bytes).dummy(dummy).read(len)
}

/// Microseconds in tenths, as in the tables.
fn tenths(ns: u64) -> u64 {
    (ns + 50) / 100
}

/// Examples of facts 3.1: duration of a page's data on the AM62A's bus, us.
#[test]
fn data_phases_of_the_octal_rows() {
    let data = |mode: &str, dummy: u8, len: u32, hz: u32| {
        let [_, _, dummies, data] = Clock::new(hz).phases(&op(mode, 2, dummy, len));
        tenths((dummies + data).as_ns())
    };
    assert_eq!(data("1-1-1", 0, 4224, AM62A_HZ), 16_220);
    assert_eq!(data("1-8-8", 0, 4224, AM62A_HZ), 2_028);
    assert_eq!(data("1-1-1", 0, 4096, AM62A_HZ), 15_729);
    assert_eq!(data("1-8-8", 0, 4096, AM62A_HZ), 1_966);
    let (few, many) = (data("1-8-8", 8, 4096, AM62A_HZ), data("1-8-8", 20, 4096, AM62A_HZ));
    assert!((5..=6).contains(&(many - few)), "12 dummy cycles are 0.58 us");
    assert_eq!(data("1-8-8", 0, 4096, 166_666_667), 246);
}

/// Example of facts 2.3: eight address lanes save 7 cycles for each address byte; the talk's 0.24 us at 30 MHz counts
/// one byte.
#[test]
fn address_lanes_save_little() {
    let time = |mode: &str, addr: u8| Clock::new(30_000_000).duration(&op(mode, addr, 8, 4224)).as_ns();
    for (bytes, saved) in [(1, 233), (2, 467)] {
        let gain = time("1-1-8", bytes) - time("1-8-8", bytes);
        assert!(gain.abs_diff(saved) <= 1, "{gain} ns");
    }
}

/// Example of facts 3.5: 8D-8D-8D should save 231 us for each 512 bytes at 16.67 MHz.
#[test]
fn the_bus_gains_more_than_the_host_lets_through() {
    let time = |mode: &str, addr: u8, dummy: u8| {
        Clock::new(16_667_000).duration(&op(mode, addr, dummy, 512)).as_ns() / 1000
    };
    let gain = time("1-1-1", 4, 8) - time("8D-8D-8D", 4, 20);
    assert!((231..=234).contains(&gain), "{gain} us");
}

/// Examples of facts 3.3 and 3.4: a byte takes 20 and 5 ns in the fastest modes of the two interfaces.
#[test]
fn the_fastest_parallel_modes() {
    for (interface, ns) in [(DataInterface::Sdr(5), 20), (DataInterface::NvDdr(5), 5)] {
        let timing = interface.timing();
        assert_eq!((timing.read(1000).as_ns(), timing.write(1000).as_ns()), (ns * 1000, ns * 1000));
    }
}

/// The command byte is doubled only in 8D.
#[test]
fn only_octal_double_rate_doubles_the_command() {
    let command = |mode: &str| op(mode, 4, 0, 2).half_cycles()[0];
    assert_eq!(command("8D-8D-8D"), 2);
    assert_eq!(command("8S-8S-8S"), 2);
    assert_eq!(command("4D-4D-4D"), 2, "one byte: eight half cycles over four lanes");
    assert_eq!(command("4S-4S-4S"), 4);
    assert_eq!(command("1S-1D-1D"), 16);
    assert_eq!(command("1D-1D-1D"), 8);
}

fn width() -> impl Strategy<Value = Width> {
    (0u32..4, any::<bool>()).prop_map(|(log, dtr)| Width { lanes: 1 << log, dtr })
}

fn any_op() -> impl Strategy<Value = SpiOp> {
    let mode = (width(), width(), width()).prop_map(|(cmd, addr, data)| Mode { cmd, addr, data });
    let lengths = prop_oneof![0u32..64, 0u32..20_000, 0u32..(1 << 20)];
    (mode, 0u8..=4, 0u8..=64, lengths).prop_map(|(mode, addr_bytes, dummy, len)| {
        SpiOp::command(0xEB).mode(mode).address(0, addr_bytes).dummy(dummy).read(len)
    })
}

/// Clock cycles times 16 of each phase: `8 bits * bytes / lanes`, halved at double rate (spi_mem_calc_op_duration).
fn exact_cycles_x16(op: &SpiOp) -> [u128; 4] {
    let phase = |width: Width, bytes: u32| {
        let single = u128::from(bytes) * 8 * 16 / u128::from(width.lanes);
        if width.dtr { single / 2 } else { single }
    };
    let twice = op.mode.cmd == Width { lanes: 8, dtr: true };
    [
        phase(op.mode.cmd, if twice { 2 } else { 1 }),
        phase(op.mode.addr, op.addr_bytes.into()),
        u128::from(op.dummy_cycles) * 16,
        phase(op.mode.data, op.len),
    ]
}

/// Nanoseconds as the numerator of a fraction over `16 * hz`.
fn exact_ns_x16hz(op: &SpiOp) -> u128 {
    exact_cycles_x16(op).iter().sum::<u128>() * 1_000_000_000
}

proptest! {
    #[test]
    fn durations_are_the_exact_ones_rounded_down(op in any_op(), hz in 100_000u32..=250_000_000) {
        let time = u128::from(Clock::new(hz).duration(&op).as_ns());
        let (exact, unit) = (exact_ns_x16hz(&op), 16 * u128::from(hz));
        prop_assert!(time * unit <= exact, "{time} ns is more than {} ns", exact as f64 / unit as f64);
        // A difference of one is allowed for rounding; the clock's fixed point adds another one only above 2^24 half
        // cycles.
        let half_cycles = op.half_cycles().iter().sum::<u64>();
        let slack = 2 + u128::from(half_cycles >> 24);
        prop_assert!((time + slack) * unit >= exact, "{time} ns is less than {} ns", exact as f64 / unit as f64);
    }

    #[test]
    fn phases_add_up_to_the_whole(op in any_op(), hz in 100_000u32..=250_000_000) {
        let clock = Clock::new(hz);
        let phases = clock.phases(&op);
        prop_assert_eq!(phases.into_iter().map(|p| p.as_ns()).sum::<u64>(), clock.duration(&op).as_ns());
        for (phase, cycles) in phases.into_iter().zip(exact_cycles_x16(&op)) {
            let exact = cycles as f64 * 1e9 / (16.0 * f64::from(hz));
            prop_assert!((phase.as_ns() as f64 - exact).abs() <= 2.0, "{phase:?} for {exact} ns");
        }
    }

    #[test]
    fn longer_slower_and_narrower_take_longer(op in any_op(), hz in 100_000u32..=200_000_000, more in 1u32..5000) {
        let time = |op: &SpiOp, hz: u32| Clock::new(hz).duration(op);
        let now = time(&op, hz);
        let longer = time(&SpiOp { len: op.len + more, ..op }, hz);
        prop_assert!(longer > now);
        prop_assert!(time(&op, hz + more) <= now);
        prop_assert!(time(&op.dummy(op.dummy_cycles + 1), hz) > now);
        if op.len > 0 && op.mode.data.lanes > 1 {
            let data = Width { lanes: op.mode.data.lanes / 2, ..op.mode.data };
            let narrower = time(&op.mode(Mode { data, ..op.mode }), hz);
            prop_assert!(narrower > now);
        }
        if op.len > 0 && op.mode.data.dtr {
            let data = Width { dtr: false, ..op.mode.data };
            let narrower = time(&op.mode(Mode { data, ..op.mode }), hz);
            prop_assert!(narrower > now);
        }
    }

    #[test]
    fn dividers_make_the_fastest_clock_not_above_the_wish(reference in 1_000_000u64..=500_000_000, want in 100_000u64..=500_000_000) {
        for divider in [Divider::Any, Divider::Even, Divider::Power2] {
            let clock = divider.clock(reference, want);
            prop_assert!(clock <= want && clock <= reference, "{divider:?}: {clock} Hz");
            let by = |n: u64| match divider {
                Divider::Even => n.is_multiple_of(2),
                Divider::Power2 => n.is_power_of_two(),
                _ => true,
            };
            let allowed = (1..=reference.div_ceil(want) * 4).filter(|&n| by(n));
            // A clock that exceeds the request by a fraction of a hertz is not below it.
            let best = allowed.filter(|n| reference <= want * n).map(|n| reference / n).next();
            prop_assert_eq!(Some(clock), best, "{:?}", divider);
        }
        prop_assert_eq!(Divider::Exact.clock(reference, want), want);
    }

    #[test]
    fn parallel_buses_are_exact_and_monotone(mode in 0u8..=5, nv_ddr: bool, bytes in 0u64..1_000_000, more in 1u64..1000) {
        let interface = if nv_ddr { DataInterface::NvDdr(mode) } else { DataInterface::Sdr(mode) };
        let t = interface.timing();
        for (ps, time) in [(t.read_ps, t.read(bytes)), (t.write_ps, t.write(bytes))] {
            let exact = u128::from(ps) * u128::from(bytes);
            prop_assert!(u128::from(time.as_ns()) * 1000 <= exact && exact < u128::from(time.as_ns() + 1) * 1000);
        }
        prop_assert!(t.read(bytes + more) > t.read(bytes) && t.write(bytes + more) > t.write(bytes));
        if mode > 0 {
            let slower = if nv_ddr { DataInterface::NvDdr(mode - 1) } else { DataInterface::Sdr(mode - 1) };
            prop_assert!(slower.timing().read(bytes + 1) > t.read(bytes + 1));
            prop_assert!(slower.timing().cycle >= t.cycle && slower.timing().wb >= t.wb);
        }
    }
}
