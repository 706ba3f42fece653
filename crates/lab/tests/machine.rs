//! Tests of filesystems on the chips of setups: partitions, and the direction in which each option
//! changes the figures.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic; Clippy's exception covers only #[test] functions"
)]

use floatgate_config::{Library, Override, Source};
use floatgate_lab::speed::{Measured, SpeedOptions};
use floatgate_lab::speed_run::measure;
use floatgate_lab::trace::{self, Operation};
use floatgate_sim::machine::FilesystemKind;
use floatgate_sim::rig::{self, RigOptions};
use std::collections::BTreeMap;

const SETUP: &str = "imx6-mx30lf2g18ac";

/// Runs the tests on a new UBIFS.
fn tests(sets: &[&str]) -> Vec<Measured> {
    let library = Library::built_in();
    let sets = Override::parse_all(sets).unwrap();
    let config = library.resolve(&library.setup(SETUP).unwrap(), &sets).unwrap();
    let tests =
        SpeedOptions { filesystem: Some(FilesystemKind::Ubifs), blocks: Some(8), ..SpeedOptions::default() };
    let run = measure(&library, &config, RigOptions::default(), &tests).unwrap();
    for test in &run.report.tests {
        assert_eq!(
            test.breakdown_ns.total().as_ns(),
            test.ns,
            "{}: the time is not all accounted for",
            test.name
        );
    }
    run.report.tests
}

/// Virtual time of each test, ns.
fn times(sets: &[&str]) -> BTreeMap<String, u64> {
    tests(sets).into_iter().map(|test| (test.name, test.ns)).collect()
}

#[test]
fn tests_of_a_filesystem_count_what_the_ecc_corrects() {
    let flips = |sets: &[&str]| -> u64 { tests(sets).iter().map(|test| test.corrected.bitflips).sum() };
    assert_eq!(flips(&[]), 0);
    let worn = flips(&["cells.cycles=200000", "ecc.strength=2"]);
    let more = flips(&["cells.cycles=300000", "ecc.strength=2"]);
    assert!(0 < worn && worn < more, "{worn} {more}");
}

/// `speed --fs` and `fs` write and read files in the same way.
#[test]
fn both_benchmarks_of_filesystems_have_the_same_figures() {
    use floatgate_lab::fs_compare::{Options, Subject, Test, compare};
    let library = Library::built_in();
    let config = library.resolve(&library.setup(SETUP).unwrap(), &[]).unwrap();
    let options = Options {
        subjects: vec![Subject::Ubifs],
        tests: vec![Test::Write, Test::Read],
        bytes: 8 * (128 << 10),
        ..Options::default()
    };
    let compared = compare(&library, &config, RigOptions::default(), &options, &|_| ()).unwrap();
    let speed = times(&[]);
    for (test, row) in [
        ("write 4 KiB", "write random 4 KiB"),
        ("write 1 MiB", "write random 1 MiB"),
        ("write zeros", "write zeros 64 KiB"),
        ("read 64 KiB", "read first"),
    ] {
        let found = compared.rows.iter().find(|found| found.name == row).unwrap();
        assert_eq!(speed[test], found.ns, "{test}");
    }
}

#[test]
fn each_choice_moves_the_figures_the_right_way() {
    let plain = times(&[]);
    let with = |set: &str| times(&[set]);
    assert!(plain["write zeros"] * 5 < plain["write 64 KiB"], "zeros compress");
    assert!(with("filesystem.compression=none")["write zeros"] > 5 * plain["write zeros"]);
    let sync = with("filesystem.sync=true");
    assert!(sync["write 4 KiB"] > plain["write 4 KiB"] && sync["create files"] > plain["create files"]);
    assert!(with("filesystem.fastmap=true")["attach"] * 3 < plain["attach"]);
    let half = with("partition.size=128MiB");
    assert!(half["attach"] * 3 < plain["attach"] * 2, "half of the eraseblocks are scanned");
    let bulk = with("filesystem.bulk_read=true");
    assert!(bulk["read 64 KiB"] < plain["read 64 KiB"], "pages are not read twice");
    let software = times(&["ecc.engine=software", "host.instruction_ps=2000"]);
    assert!(software["write 64 KiB"] > plain["write 64 KiB"] && software["mount"] > plain["mount"]);
    let slow = with("chip.timing.t_prog_us={ typ = 600, max = 900 }");
    assert!(slow["write 64 KiB"] > plain["write 64 KiB"] && slow["read 64 KiB"] <= plain["read 64 KiB"]);
}

#[test]
fn a_partition_is_a_part_of_the_chip() {
    let library = Library::built_in();
    let sizes = |parts: &str| {
        let text = format!("base = \"{SETUP}\"\n{parts}");
        let setup = library.setup_from(&Source::text("board.toml", &text)).unwrap();
        let config = library.resolve(&setup, &[]).map_err(|error| error.to_string())?;
        let rig = rig::wire(&library, &config, RigOptions::default()).map_err(|error| error.to_string())?;
        Ok::<u64, String>(rig.device.geometry().size_bytes)
    };
    let two = "[[partition]]\nname = \"boot\"\nsize = \"1MiB\"\n[[partition]]\nname = \"root\"\noffset = \"1MiB\"\n";
    assert_eq!(sizes(two), Ok(1 << 20));
    assert_eq!(sizes(&format!("use = \"root\"\n{two}")), Ok(255 << 20));
    let error = sizes(&format!("use = \"home\"\n{two}")).unwrap_err();
    assert!(error.contains("home") && error.contains("boot, root"), "{error}");
    let again = format!("{two}[[partition]]\nname = \"root\"\nsize = \"1MiB\"\noffset = \"9MiB\"\n");
    assert!(sizes(&again).unwrap_err().contains("another partition \"root\""));
    let inside = format!("{two}[[partition]]\nname = \"home\"\noffset = \"2MiB\"\n");
    assert!(sizes(&inside).unwrap_err().contains("inside partition \"root\""));
    for wrong in
        ["[partition]\noffset = 1", "[partition]\nsize = \"257MiB\"", "[partition]\noffset = \"256MiB\""]
    {
        assert!(sizes(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_file_operation_is_traced() {
    let library = Library::built_in();
    let config = library.resolve(&library.setup(SETUP).unwrap(), &[]).unwrap();
    for (name, operation) in Operation::ALL {
        if let Operation::File(_) = operation {
            let traced = trace::trace(&library, &config, RigOptions::default(), operation).unwrap();
            let end = traced.spans.iter().map(|span| span.end.as_ns()).max().unwrap();
            assert!(traced.ns > 0 && end <= traced.ns, "{name}: {end} of {}", traced.ns);
            assert_eq!(traced.breakdown_ns.total().as_ns(), traced.ns, "{name}");
        }
    }
}
