//! Tests of the state of rigs: OTP areas, bad blocks, state passed on by wrappers; and of data on an untuned bus.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use crate::common::{TIMING_ONLY, bytes, config, library, names, rig, rig_of};
use floatgate_config::Config;
use floatgate_device::Host;
use floatgate_device::ecc_engine::EccProfile;
use floatgate_device::host::HostProfile;
use floatgate_device::raw_nand::{
    NandBoard, NandController, NandProfile, RawNand, RawNandDriver, RawNandSpec,
};
use floatgate_device::spi::SpiBus;
use floatgate_device::spi::{Data, PhyState, SpiController, SpiMem, SpiOp, SpiProfile};
use floatgate_device::spi_nand::{self, SpiNand, SpiNandDriver, SpiNandSpec};
use floatgate_device::wire::read_while_write;
use floatgate_device::{Otp, OtpArea};
use floatgate_lab::speed::{self, SpeedOptions, Test};
use floatgate_lab::speed_run;
use floatgate_mtd::{ErrorKind, Instant, Mtd, Partition};
use floatgate_sim::rig::{Device, RigOptions, wire};
use std::sync::Arc;

/// One rig for each form of OTP.
const OTP: [(&str, usize); 10] = [
    ("am62a-w35n01jw", 1),
    ("quad SPI NAND", 1),
    ("SPI NAND, Macronix's continuous reads", 1),
    ("quad SPI NOR", 3),
    ("SPI NOR, information rows", 4),
    ("SPI NOR above 16 MiB", 1),
    ("SPI NOR with flag status", 1),
    ("octal SPI NOR with banks", 1),
    ("raw NAND with OTP", 1),
    ("parallel NOR, CFI 2", 1),
];

fn blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0xFF)
}

fn otp(device: &mut dyn Device) -> &mut dyn Otp {
    device.otp().unwrap_or_else(|| panic!("the chip has no OTP area"))
}

/// Reads the info, reads, writes, reads and locks OTP, and checks that a write is refused. It uses `dyn Otp`, as a tool
/// would.
fn otp_round_trip(name: &str, mtd: &mut dyn Device, now: Instant, regions: usize) {
    let user = OtpArea::User;
    assert_eq!(mtd.otp().map_or(0, |otp| otp.otp_regions(user)), regions, "{name}");
    let (region, now) = otp(mtd).otp_info(now, user, 0).unwrap();
    assert!(!region.locked && region.start == 0 && region.len > 0, "{name}: {region:?}");
    let unit = mtd.geometry().write_bytes.max(2) as usize;
    let (data, mut got) = (bytes(3, unit), vec![0; unit]);
    let now = otp(mtd).otp_read(now, user, 0, &mut got).unwrap().at;
    assert!(blank(&got), "{name}: the user's area is not blank");
    let now = otp(mtd).otp_write(now, 0, &data).unwrap_or_else(|e| panic!("{name}: {e}")).at;
    let now = otp(mtd).otp_read(now, user, 0, &mut got).unwrap().at;
    assert!(got == data, "{name}: OTP reads other data than was written");
    let mut page = vec![0; unit];
    let now = mtd.read(now, 0, &mut page).unwrap().at;
    assert!(blank(&page), "{name}: OTP data went into the array");
    let now = otp(mtd).otp_lock(now, 0, region.len).unwrap_or_else(|e| panic!("{name}: {e}")).at;
    let (region, now) = otp(mtd).otp_info(now, user, 0).unwrap();
    assert!(region.locked, "{name}: not locked");
    let refused = otp(mtd).otp_write(now, 0, &vec![0; unit]).unwrap_err();
    assert!(
        matches!(refused.kind, ErrorKind::WriteProtected | ErrorKind::ProgramFailed),
        "{name}: a write after the lock gives {refused}"
    );
    let now = otp(mtd).otp_read(refused.at, user, 0, &mut got).unwrap().at;
    assert!(got == data, "{name}: the refused write changed data");
    let beyond = otp(mtd).otp_read(now, user, region.len * regions as u64, &mut got).unwrap_err();
    assert!(matches!(beyond.kind, ErrorKind::OutOfRange { .. }), "{name}: {beyond}");
    // The array still works.
    let block = u64::from(mtd.geometry().erase_bytes);
    let page = bytes(4, unit.max(mtd.geometry().write_bytes as usize));
    let mut back = vec![0; page.len()];
    let now = mtd.erase(beyond.at, 0, block).unwrap().at;
    let now = mtd.write(now, 0, &page).unwrap().at;
    mtd.read(now, 0, &mut back).unwrap();
    assert!(back == page, "{name}: the array is not back");
}

#[test]
fn otp_is_written_once_and_locked() {
    for (name, regions) in OTP {
        let mut rig = rig(name);
        let now = rig.now();
        otp_round_trip(name, rig.device.as_mut(), now, regions);
    }
}

#[test]
fn a_partition_has_the_otp_areas_and_reads_while_writing_of_its_chip() {
    let device = rig("octal SPI NOR with banks").device;
    let (size, block) = (device.geometry().size_bytes, u64::from(device.geometry().erase_bytes));
    let mut part = Partition::new(device, block, size - block).unwrap();
    assert_eq!(otp(&mut part).otp_regions(OtpArea::User), 1);
    let (now, mut direct) = (part.host().now(), part.inner().fork());
    let (data, far) = (bytes(5, block as usize), size - 2 * block);
    assert!(part.rww().is_some(), "the chip has banks");
    let read_beside = |device: &mut dyn Device, start: u64| {
        read_while_write(device, now, (start, &data), (start + far, &mut [0; 4])).unwrap()
    };
    let (written, read) = read_beside(&mut part, 0);
    assert_eq!((written, read), read_beside(direct.as_mut(), block));
    let mut back = vec![0; data.len()];
    part.inner_mut().read(written.at, block, &mut back).unwrap();
    assert!(back == data, "the write did not go to the partition's start");
    let beyond =
        read_while_write(&mut part, written.at, (0, &data), (size - block, &mut [0; 4])).unwrap_err();
    assert_eq!(
        (beyond.kind, beyond.addr),
        (ErrorKind::OutOfRange { len: 4, size: size - block }, size - block)
    );
}

#[test]
fn the_factory_area_cannot_be_written() {
    for name in names() {
        let mut rig = rig(&name);
        let regions = rig.device.otp().map_or(0, |otp| otp.otp_regions(OtpArea::Factory));
        for index in 0..regions {
            let now = rig.now();
            let (region, now) = otp(rig.device.as_mut()).otp_info(now, OtpArea::Factory, index).unwrap();
            assert!(region.locked, "{name}: {region:?}");
            let mut id = vec![0xFF; region.len.min(64) as usize];
            otp(rig.device.as_mut()).otp_read(now, OtpArea::Factory, region.start, &mut id).unwrap();
            assert!(!blank(&id), "{name}: no number from the factory");
        }
    }
}

const NANDS: [&str; 4] =
    ["am62a-w35n01jw", "SPI NAND with two dies", "imx6-mx30lf2g18ac", "raw NAND, NV-DDR"];

fn bad_of(mtd: &mut dyn Device) -> Vec<u32> {
    let block = u64::from(mtd.geometry().erase_bytes);
    let all = 0..mtd.geometry().blocks();
    let is_bad = |&index: &u32| {
        let now = mtd.host().now();
        mtd.is_bad(now, u64::from(index) * block).unwrap().0
    };
    all.filter(is_bad).collect()
}

#[test]
fn factory_bad_blocks_are_found_and_left_alone() {
    for name in NANDS {
        for stores in [true, false] {
            let options = RigOptions { seed: 11, stores, bad_blocks: 10, ..RigOptions::default() };
            let mut rig = rig_of(&config(name, &[]), options);
            let bad = bad_of(rig.device.as_mut());
            assert!(bad.len() >= 10, "{name}: {bad:?}");
            assert!(!bad.contains(&0), "{name}: block 0 is good by promise");
            let at = u64::from(bad[0]) * u64::from(rig.device.geometry().erase_bytes);
            let now = rig.now();
            let refused = rig.device.erase(now, at, rig.device.geometry().erase_bytes.into()).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::BadBlock, "{name}");
            assert_eq!(bad, bad_of(rig_of(&config(name, &[]), options).device.as_mut()), "{name}: same seed");
            let other =
                bad_of(rig_of(&config(name, &[]), RigOptions { seed: 12, ..options }).device.as_mut());
            assert_ne!(bad, other, "{name}: another seed");
        }
    }
}

#[test]
fn speed_skips_bad_blocks() {
    for name in NANDS {
        let mut rig = rig_of(&config(name, &[]), RigOptions { bad_blocks: 10, ..TIMING_ONLY });
        let bad = bad_of(rig.device.as_mut());
        let blocks = bad[2] + 1;
        let options =
            SpeedOptions { blocks: Some(blocks), only: vec![Test::Write(0)], ..SpeedOptions::default() };
        let now = rig.now();
        let block_bytes = rig.device.geometry().erase_bytes;
        let report = speed::run(rig.device.as_mut(), now, &options).unwrap();
        assert_eq!(report.good_blocks, blocks - 3, "{name}");
        assert_eq!(report.tests[0].bytes, u64::from(blocks - 3) * u64::from(block_bytes), "{name}");
    }
}

fn spi_nand(config: &Config, chip: SpiNand) -> SpiNandDriver<SpiController<SpiNand>> {
    let profile: SpiProfile = config.extract("controller").unwrap();
    let bus: SpiBus = config.extract("bus").unwrap();
    let spec: SpiNandSpec = config.extract("chip").unwrap();
    let controller = SpiController::new(profile, bus, chip);
    let (host, options) = (HostProfile::default(), spi_nand::Options::default());
    SpiNandDriver::probe(controller, &[spec], host, EccProfile::default(), options).unwrap()
}

fn raw_nand(config: &Config, chips: Vec<RawNand>, options: &str) -> RawNandDriver<NandController<RawNand>> {
    let profile: NandProfile = config.extract("controller").unwrap();
    let board: NandBoard = config.extract_or_default("bus").unwrap();
    let spec: RawNandSpec = config.extract("chip").unwrap();
    let ecc = config.extract_or_default("ecc").unwrap();
    let controller = NandController::new(profile, board, chips);
    let set = crate::common::config("raw NAND", &[options]);
    let options = set.extract_or_default("driver").unwrap();
    RawNandDriver::probe(controller, &[spec], HostProfile::default(), ecc, options).unwrap()
}

/// Marks block 5 bad. The next driver of the same chip sees the mark.
#[test]
fn marks_outlive_the_driver() {
    let serial = config("am62a-w35n01jw", &[]);
    let spec: SpiNandSpec = serial.extract("chip").unwrap();
    let options = spi_nand::ChipOptions { stores: true, ..spi_nand::ChipOptions::default() };
    let mut driver = spi_nand(&serial, SpiNand::new(Arc::new(spec), options));
    let at = 5 * u64::from(driver.geometry().erase_bytes);
    let now = driver.mark_bad(driver.ready_at(), at).unwrap().at;
    assert!(driver.is_bad(now, at).unwrap().0);
    let mut next = spi_nand(&serial, driver.bus().chip().clone());
    let now = next.ready_at();
    assert!(next.is_bad(now, at).unwrap().0, "SPI NAND forgot");
    assert!(!next.is_bad(now, 0).unwrap().0);

    let parallel = config("imx6-mx30lf2g18ac", &[]);
    let spec: RawNandSpec = parallel.extract("chip").unwrap();
    for table in ["driver.bad_blocks=scan", "driver.bad_blocks=on-flash"] {
        let mut driver = raw_nand(
            &parallel,
            RawNand::package(&spec, floatgate_device::raw_nand::ChipOptions::default()).unwrap(),
            table,
        );
        let now = driver.host_mut().now();
        let now = driver.mark_bad(now, at).unwrap().at;
        assert!(driver.is_bad(now, at).unwrap().0, "{table}");
        let mut next = raw_nand(&parallel, vec![driver.bus().chip(0).unwrap().clone()], table);
        let now = next.host_mut().now();
        assert!(next.is_bad(now, at).unwrap().0, "raw NAND forgot with {table}");
        assert!(!next.is_bad(now, 0).unwrap().0);
    }
}

/// The same operations on a bare and on a wrapped device give the same bytes and times.
fn work(mtd: &mut dyn Mtd, now: Instant, block_at: u64) -> (Vec<u8>, Instant) {
    let block = mtd.geometry().erase_bytes as usize;
    let data = bytes(5, block);
    let now = mtd.erase(now, block_at, block as u64).unwrap().at;
    let now = mtd.write(now, block_at, &data).unwrap().at;
    let mut got = vec![0; block];
    let now = mtd.read(now, block_at, &mut got).unwrap().at;
    assert!(got == data);
    (got, now)
}

#[test]
fn wrappers_keep_data_and_time() {
    for name in names() {
        let mut bare = rig(&name);
        let (start, block) = (bare.now(), u64::from(bare.device.geometry().erase_bytes));
        let expected = work(bare.device.as_mut(), start, 3 * block);
        let spent = bare.device.breakdown();

        let window = Partition::new(rig(&name).device, 2 * block, 4 * block).unwrap();
        let mut wrapped: Box<dyn Device> = Box::new(window);
        assert_eq!(work(wrapped.as_mut(), start, block), expected, "{name}: partition");
        assert_eq!(wrapped.breakdown(), spent, "{name}");
        let beyond = wrapped.read(expected.1, 4 * block, &mut [0]).unwrap_err();
        assert!(matches!(beyond.kind, ErrorKind::OutOfRange { .. }), "{name}");
    }
}

/// AM62A of the catalogue with its PHY at 166 MHz, and a chip with a page of data.
fn tunable() -> (SpiController<SpiNand>, SpiOp, Vec<u8>) {
    let config = config("am62a-w35n01jw", &["bus.phy=true"]);
    let spec: SpiNandSpec = config.extract("chip").unwrap();
    let options = spi_nand::ChipOptions { stores: true, ..spi_nand::ChipOptions::default() };
    let mut driver = spi_nand(&config, SpiNand::new(Arc::new(spec), options));
    let data = bytes(9, 4096);
    let now = driver.write(driver.ready_at(), 0, &data).unwrap().at;
    let mut got = vec![0; 4096];
    driver.read(now, 0, &mut got).unwrap();
    assert!(got == data && matches!(driver.bus().phy_state(), PhyState::Calibrated { .. }));
    let op = SpiOp { addr: 0, len: 4096, ..driver.read_operation() };
    // The same chip on a controller that was not tuned. The page is still in the chip's cache.
    let controller = driver.bus();
    let board: SpiBus = config.extract("bus").unwrap();
    (SpiController::new(controller.profile().clone(), board, controller.chip().clone()), op, data)
}

#[test]
fn an_untuned_phy_reads_wrong_bits() {
    let (mut bus, op, data) = tunable();
    let mut host = Host::default();
    host.resume(Instant::from_ns(1_000_000_000));
    let mut got = vec![0; data.len()];
    bus.mapped(&mut host, &op, Data::In(&mut got)).unwrap();
    assert_eq!(bus.clock(&op, true).hz(), 166_666_667);
    assert!(got != data, "166 MHz without calibration cannot read right");
    bus.calibrate(&mut host, &op, &data).unwrap();
    bus.mapped(&mut host, &op, Data::In(&mut got)).unwrap();
    assert!(got == data, "calibrated");
    let PhyState::Calibrated { tap, eye: (from, to) } = bus.phy_state() else { panic!("not calibrated") };
    assert!(
        from < tap && tap < to && (tap - from).abs_diff(to - tap) <= 1,
        "{tap} in the centre of {from}..{to}"
    );
}

#[test]
fn no_eye_and_too_fast_clocks_are_refused_with_a_reason() {
    let refused = |sets: &[&str]| {
        let config = config("am62a-w35n01jw", sets);
        wire(library(), &config, RigOptions::default())
            .err()
            .unwrap_or_else(|| panic!("{sets:?}"))
            .to_string()
    };
    let narrow = refused(&["bus.phy=true", "controller.phy.unstable_ps=5900"]);
    assert!(narrow.contains("eye"), "{narrow}");
    let fast = refused(&["bus.clock_hz=133e6"]);
    assert!(fast.contains("MHz"), "{fast}");
    let stateful = refused(&["bus.mode=8D-8D-8D", "bus.reset_pin=false"]);
    assert!(stateful.contains("reset pin"), "{stateful}");
}

/// With a PHY there are two clocks, and the message states the use of each.
#[test]
fn the_clock_beside_that_of_the_phy_is_told_apart() {
    let too_fast = config("am62a-w35n01jw", &["bus.phy=true", "bus.clock_hz=100e6"]);
    let refused = wire(library(), &too_fast, TIMING_ONLY).err().unwrap();
    assert!(refused.to_string().contains("where it does not use its PHY"), "{refused}");
    let help = refused.help().unwrap().to_string();
    assert!(help.contains("lower bus.clock_hz") && !help.contains("bus.phy"), "{help}");
    let link = rig_of(&config("am62a-w35n01jw", &["bus.phy=true"]), TIMING_ONLY).device.link();
    let note = link.not_given.iter().find(|note| note.contains("gets 20.83 MHz")).unwrap();
    assert!(
        link.clock_hz > 160_000_000 && note.ends_with("the clock of what goes without the PHY"),
        "{link:?}"
    );
}

/// Number of read retries of a block read, and its time in ns.
fn block_read(setup: &str, chip: &str, cells: [&str; 3]) -> (u64, u64) {
    let chip = format!("chip={chip}");
    let sets: Vec<&str> = cells.into_iter().chain([chip.as_str()]).collect();
    let options = SpeedOptions { blocks: Some(2), ..SpeedOptions::default() };
    let report =
        speed_run::measure(library(), &config(setup, &sets), RigOptions::default(), &options).unwrap().report;
    let test = report.tests.iter().find(|test| test.name == "eraseblock read").unwrap();
    (test.corrected.retries, test.ns)
}

/// `speed` shows the read retries of chips that support them. More lost charge causes more retries, and each takes
/// time.
#[test]
fn baked_chips_are_read_again() {
    for (setup, chip) in [("imx6-mx30lf2g18ac", "mx30lf2g28ad"), ("ma35d1-w25n02jw", "mx35lf2ge4ad")] {
        let cells = |cycles, days| [cycles, days, "cells.age_temperature_c=125"];
        let (none, fast) = block_read(setup, chip, cells("cells.cycles=60000", "cells.age_days=0"));
        let (some, slow) = block_read(setup, chip, cells("cells.cycles=60000", "cells.age_days=365"));
        let (few, _) = block_read(setup, chip, cells("cells.cycles=20000", "cells.age_days=365"));
        assert!(none == 0 && some > 0 && few < some, "{chip}: {none}, {few} and {some} retries");
        assert!(slow > fast, "{chip}: {slow} and {fast} ns");
    }
}

/// The PHY does not run at a clock at which the chip supports the requested mode. The message states both and a remedy.
/// No other mode is used instead.
#[test]
fn a_mode_that_the_phy_is_too_fast_for_is_refused_with_both_clocks() {
    let asked = ["bus.mode=8D-8D-8D", "bus.phy=true"];
    let refused = wire(library(), &config("am62a-w35n01jw", &asked), TIMING_ONLY).err().unwrap().to_string();
    for part in ["8D-8D-8D", "166.67 MHz", "120.00 MHz", "controller.phy.clock_hz", "bus.phy"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let slower = [asked[0], asked[1], "controller.phy.clock_hz=100e6"];
    let link = rig_of(&config("am62a-w35n01jw", &slower), TIMING_ONLY).device.link();
    assert_eq!((link.mode.as_str(), link.clock_hz), ("8D-8D-8D", 100_000_000), "{link:?}");
    let clock = "bus.clock_hz asks for 25 MHz and gets 20.83 MHz: 166.67 MHz / 8, the clock of what goes without the PHY";
    assert_eq!(link.not_given, [clock]);
}
