//! Tests of two threads on one chip.

use super::features::check_spans;
use super::*;

const BANK: u64 = 16 << 20;

fn write_and_read(rig: &mut Rig, write: u64, read: u64) -> (Nanos, Nanos) {
    let (start, before) = (rig.ready_at(), rig.breakdown());
    let mut buf = vec![0; 4096];
    let (written, got) = rig.read_while_write(start, (write, &[0x5A; 4096]), (read, &mut buf)).unwrap();
    assert_eq!((rig.breakdown() - before).total(), written.at.max(got.at).since(start));
    (written.at.since(start), got.at.since(start))
}

/// Durations of a write and of a read without the other thread.
fn alone(part: &str) -> (Nanos, Nanos) {
    let mut rig = Setup::new(part).ready();
    let start = rig.ready_at();
    let written = rig.write(start, 0, &[0x5A; 4096]).unwrap().at;
    let read = rig.read(written, 0, &mut [0; 4096]).unwrap().at;
    (written.since(start), read.since(written))
}

#[test]
fn in_one_bank_the_read_waits_for_the_write() {
    for (part, read) in [(MX25UW51245G, 8192), (MX25UW12845G, 8 << 20)] {
        let (write_time, read_time) = alone(part);
        let mut rig = Setup::new(part).ready();
        let (written, got) = write_and_read(&mut rig, 0, read);
        assert_eq!((written, got), (write_time, write_time + read_time));
    }
}

#[test]
fn another_bank_is_read_in_between() {
    let (write_time, read_time) = alone(MX25UW51245G);
    let mut rig = Setup::new(MX25UW51245G).ready();
    rig.host_mut().record(true);
    let (written, got) = write_and_read(&mut rig, 0, BANK);
    // The reader gets the bus after the first page, whose program time is covered by the read.
    let page = write_time.as_ns() / 16;
    assert!(got > read_time && got < read_time + Nanos::from_ns(page));
    assert!(written > write_time && written < write_time + read_time);
    let hidden = (write_time + read_time).saturating_sub(written);
    assert!(hidden <= Nanos::from_us(150) && hidden > Nanos::from_us(140), "{hidden}");
    check_spans(&rig.host_mut().take_spans());
    // The reader gets the bus later if its wake-up is slower or the bus is free for a shorter time.
    let raced = |wakeup: u64, free: u64| {
        let mut rig = Setup::new(MX25UW51245G).ready();
        rig.profile = HostProfile {
            wakeup_us: Nanos::from_us(wakeup),
            relock_us: Nanos::from_ns(free),
            ..HostProfile::NONE
        };
        write_and_read(&mut rig, 0, BANK)
    };
    assert_eq!(raced(0, 0).1, got, "a reader that is awake at once gets in at once");
    let (quick, slow, rare) = (raced(5, 200).1, raced(50, 200).1, raced(50, 20).1);
    assert!(got < quick && quick < slow && slow < rare, "{got} {quick} {slow} {rare}");
    assert!(rare <= write_time + read_time + Nanos::from_us(50), "a reader that never wins reads at the end");
    // A read across both banks waits for the writer.
    let mut across = Setup::new(MX25UW51245G).ready();
    let (_, got) = write_and_read(&mut across, 0, BANK - 2048);
    assert_eq!(got, write_time + read_time);
}

#[test]
fn both_threads_get_their_data() {
    let mut rig = Setup::new(MX25UW51245G).board("reset_pin = true").ready();
    let at = rig.ready_at();
    let at = rig.write(at, BANK, b"other bank").unwrap().at;
    let mut got = [0; 10];
    let done = rig.read_while_write(at, (0, b"this bank"), (BANK, &mut got)).unwrap();
    assert_eq!(&got, b"other bank");
    let mut got = [0; 9];
    rig.read(done.0.at.max(done.1.at), 0, &mut got).unwrap();
    assert_eq!(&got, b"this bank");
}

fn erase_and_read(setup: Setup, read: u64, after: Nanos) -> (Nanos, Nanos) {
    let mut rig = setup.ready();
    let at = rig.ready_at();
    let start = rig.write(at, read, b"wanted").unwrap().at;
    rig.host_mut().record(true);
    let before = rig.breakdown();
    let mut got = [0; 6];
    let (erased, done) = rig.read_while_erase(start, (0, 8192), start + after, (read, &mut got)).unwrap();
    assert_eq!((rig.breakdown() - before).total(), erased.at.max(done.at).since(start));
    check_spans(&rig.host_mut().take_spans());
    if read >= 8192 {
        assert_eq!(&got, b"wanted");
    }
    (erased.at.since(start), done.at.since(start))
}

#[test]
fn an_erase_is_suspended_for_a_read() {
    let (ask, block) = (Nanos::from_ms(10), Nanos::from_ms(45));
    let plain = erase_and_read(Setup::new(W25Q128JV), 1 << 20, ask);
    assert!(plain.0 > block * 2 && plain.1 > plain.0, "{plain:?}");
    let suspend = || Setup::new(W25Q128JV).options(|o| o.suspend_for_read = true);
    let quick = erase_and_read(suspend(), 1 << 20, ask);
    assert!(quick.1 < ask + Nanos::from_us(50), "{quick:?}");
    let delay = quick.0.saturating_sub(plain.0);
    assert!(delay > Nanos::from_us(20) && delay < Nanos::from_us(60), "{delay}");
    // The read is requested during the erase of the second block.
    let second = erase_and_read(suspend(), 1 << 20, Nanos::from_ms(60));
    assert!(second.1 > Nanos::from_ms(60) && second.1 < Nanos::from_ms(61), "{second:?}");
    // A read of the block being erased waits; during the erase of the other block it can be read.
    let same = erase_and_read(suspend(), 0, ask);
    assert!(same.1 > block && same.1 < block + Nanos::from_ms(1), "{same:?}");
    let banks = erase_and_read(Setup::new(MX25UW51245G), BANK, ask);
    assert!(banks.1 < ask + Nanos::from_us(50), "{banks:?}");
}

/// Macronix's host controller in an FPGA, with parameters fitted to the ZC702 measurements.
const FPGA: &str = "reference_hz = '16.667 MHz'\nmax_hz = '16.667 MHz'\nlanes = 8\ndtr = true
exec = { setup_us = 12, finish_us = 12 }
rx = { ns_per_byte = 260, overlap = true }
tx = { ns_per_byte = 260, overlap = true }\n";

/// Published results of `flash_speed -b0 -k0` and `-k4096` (talk): 7/7 ms in one die, 7/5 ms in two. The time at which the
/// reader gets the bus depends on two unmeasured times of the host: it is before the writer's end.
#[test]
fn published_latencies() {
    let latency = |bank: u64| {
        let mut setup = Setup::new(MX25UW51245G).clock("16.667 MHz").board("mode = '1-1-1'");
        setup.controller = FPGA.to_owned();
        let mut rig = setup.ready();
        let us = Nanos::from_us;
        rig.profile =
            HostProfile { call_us: us(215), wakeup_us: us(20), relock_us: us(1), ..HostProfile::NONE };
        let (written, got) = write_and_read(&mut rig, 0, bank);
        // Whole milliseconds, as flash_speed prints them.
        (written.max(got).as_ns() / 1_000_000, got.as_ns() / 1_000_000)
    };
    assert_eq!(latency(0), (7, 7));
    let (took, ended) = latency(BANK);
    assert!(took == 7 && ended < took, "{took} {ended}");
}
