//! Several chips of a setup as one MTD (`concat`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panic")]

use crate::common::{TIMING_ONLY, bytes, config, library, rig_of};
use floatgate_device::oracle::Faults;
use floatgate_device::power::PowerCut;
use floatgate_lab::fs_speed;
use floatgate_lab::speed::SpeedOptions;
use floatgate_lab::{part_sizes, speed_run};
use floatgate_mtd::{ErrorKind, Instant};
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::rig::{RigOptions, pins, wire};

const TWO_NAND: [&str; 1] = ["concat=[\"w25n01gv\"]"];
const NAND_BYTES: u64 = 128 << 20;

/// The clock of the CPU and the account of time are those of one thread, whichever chip works.
#[test]
fn chips_share_one_clock_and_one_account() {
    let mut rig = rig_of(&config("quad SPI NAND", &TWO_NAND), TIMING_ONLY);
    assert_eq!(rig.chip, "W25N01GV + W25N01GV");
    assert_eq!(rig.device.geometry().size_bytes, 2 * NAND_BYTES);
    let mut now = rig.now();
    assert_eq!(rig.device.breakdown().total(), now.since(Instant::ZERO), "both probes");
    let page = vec![0; 4096];
    for addr in [0, NAND_BYTES, NAND_BYTES - 2048, 2 * NAND_BYTES - 4096] {
        now = rig.device.erase(now, addr & !0x1FFFF, 128 << 10).unwrap().at;
    }
    now = rig.device.write(now, NAND_BYTES - 2048, &page).unwrap().at;
    assert_eq!(rig.device.breakdown().total(), now.since(Instant::ZERO));
    assert_eq!(rig.now(), now);
    assert!(rig.device.link().notes.contains(&"2 chips as one MTD".to_owned()));
}

/// Power is cut in the second chip; the first one has no power either, and both come back.
#[test]
fn a_power_cut_concerns_all_chips() {
    let mut rig = rig_of(&config("quad SPI NAND", &TWO_NAND), RigOptions::default());
    let (device, data) = (rig.device.as_mut(), bytes(1, 2048));
    device.power_mut().count_operations();
    let now = device.host().now();
    let now = device.write(now, 0, &data).unwrap().at;
    device.power_mut().order(Some(PowerCut::During { operation: 2, share: 0.5 }));
    let now = device.write(now, NAND_BYTES - (128 << 10), &data).unwrap().at;
    let lost = device.write(now, NAND_BYTES, &data).unwrap_err();
    assert_eq!(
        (lost.kind, device.power().is_lost(), device.power().operations()),
        (ErrorKind::PowerLost, true, 3)
    );
    let mut got = vec![0; 2048];
    assert_eq!(device.read(lost.at, 0, &mut got).unwrap_err().kind, ErrorKind::PowerLost);
    device.restart().unwrap();
    let now = device.host().now();
    let now = device.read(now, 0, &mut got).unwrap().at;
    assert!(got == data && !device.power().is_lost());
    let now = device.erase(now, NAND_BYTES, 128 << 10).unwrap().at;
    let mut fork = device.fork();
    let now = fork.write(now, NAND_BYTES, &data).unwrap().at;
    device.read(now, NAND_BYTES, &mut got).unwrap();
    assert!(got.iter().all(|byte| *byte == 0xFF), "a fork shares nothing that it changes");
}

/// Blocks, pages and cells of the second chip follow those of the first one.
#[test]
fn the_second_chip_has_its_own_bad_blocks_and_cells() {
    let mut rig =
        rig_of(&config("quad SPI NAND", &TWO_NAND), RigOptions { bad_blocks: 3, ..RigOptions::default() });
    let device = rig.device.as_mut();
    let bad = device.oracle().factory_bad();
    let (one, other): (Vec<u32>, Vec<u32>) = bad.iter().partition(|block| **block < 1024);
    assert_eq!((one.len(), other.len()), (3, 3));
    assert_ne!(one, other.iter().map(|block| block - 1024).collect::<Vec<u32>>());
    let mut now = device.host().now();
    for block in &bad {
        let found;
        (found, now) = device.is_bad(now, u64::from(*block) << 17).unwrap();
        assert!(found, "{block}");
    }
    let good = (1030..).find(|block| !bad.contains(block)).unwrap();
    let addr = u64::from(good) << 17;
    device.oracle().cells_mut(1).unwrap().cycle(good - 1024, 77);
    let cycles = [0, 1].map(|part| device.oracle().cells(part).unwrap().cycles(good - 1024));
    assert_eq!(cycles[1], cycles[0] + 77);
    assert!(device.oracle().cells(2).is_none());
    now = device.write(now, addr, &bytes(2, 2048)).unwrap().at;
    device.oracle().inject(good * 64, 9);
    let read = device.read(now, addr, &mut [0; 2048]).unwrap();
    assert_eq!(read.bitflips, 1);
    device.oracle().set_faults(addr, Faults::ERASE);
    assert_eq!(device.erase(read.at, addr, 128 << 10).unwrap_err().kind, ErrorKind::EraseFailed);
}

#[test]
fn chips_that_cannot_be_joined_are_refused_at_their_key() {
    let refused = |name: &str, concat: &str| {
        let config = config(name, &[&format!("concat={concat}")]);
        wire(library(), &config, TIMING_ONLY).unwrap_err().to_string()
    };
    let why = refused("quad SPI NAND", "[\"mx35lf2ge4ad\"]");
    assert!(
        why.contains("`concat`: W25N01GV + MX35LF2GE4AD: device 1 differs from the first one in"),
        "{why}"
    );
    let why = refused("quad SPI NAND", "[\"w25q128jv\"]");
    assert!(why.contains("its kind"), "{why}");
    assert!(
        refused("quad SPI NAND", "\"w25n01gv\"").contains("expected a list of parts, found the text"),
        "list"
    );
    assert!(refused("quad SPI NAND", "[\"w25n01gvv\"]").contains("w25n01gvv"), "unknown");
    let why = pins(&config("quad SPI NAND", &TWO_NAND), TIMING_ONLY).unwrap_err().to_string();
    assert!(why.contains("there are several chips"), "{why}");
}

#[test]
fn speed_filesystems_and_images_use_joined_chips() {
    let nor = config("quad SPI NOR", &["concat=[\"is25lp256\"]"]);
    let run = speed_run::measure(
        library(),
        &nor,
        TIMING_ONLY,
        &SpeedOptions { blocks: Some(2), ..SpeedOptions::default() },
    );
    let run = run.unwrap();
    assert!(
        run.chip.contains(" + IS25LP256") && run.report.tests.iter().all(|test| test.exact_kib_s > 0.0),
        "{}",
        run.chip
    );
    let seam = ["concat=[\"mx30lf2g18ac\"]", "partition.offset=251658240", "partition.size=33554432"];
    let nand = config("imx6-mx30lf2g18ac", &seam);
    let rig = rig_of(&nand, RigOptions::default());
    let tested = fs_speed::run(rig, &nand, FilesystemKind::Ubifs, 1 << 20).unwrap();
    assert!(tested.tests.iter().all(|test| test.ns > 0), "{:?}", tested.tests);
    let folder = std::env::temp_dir().join(format!("floatgate-concat-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let setup = folder.join("two.toml");
    std::fs::write(&setup, "base = \"imx6-mx30lf2g18ac\"\nconcat = [\"mx30lf2g18ac\"]\n").unwrap();
    let shape = part_sizes::shape_of_setup(library(), &setup).unwrap();
    let one = part_sizes::shape_of_setup(library(), "imx6-mx30lf2g18ac").unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let (both, one) = (shape.size.unwrap(), one.size.unwrap());
    assert_eq!((both.pebs, both.worst_bad), (2 * one.pebs, 2 * one.worst_bad));
}
