//! The same command gives the same bytes: twice, with any number of threads; and a seed changes what it should.

use crate::support::{finish, floatgate, stdout};
use serde_json::Value;

const LINES: [&str; 11] = [
    "speed am62a-w35n01jw",
    "speed imx6-mx30lf2g18ac -c 100 --bad-blocks 30 --seed 7 --json",
    "speed am62a-w35n01jw --sweep bus.mode=1-1-1,1-1-8,1-8-8,8D-8D-8D --sweep bus.clock_hz=10e6,25e6",
    "trace am62a-2026-w35n01jw read-block --json",
    "keystore --json",
    "papers P0",
    "papers P1/space",
    "papers P3 --json",
    "fs arm926-nand01gw3b --set partition.size=8MiB --bytes 64KiB --test write,sync --json",
    "parts",
    "setups --json",
];

#[test]
fn twice_the_same_bytes_with_any_number_of_threads() {
    for line in LINES {
        let with = |threads: &str| {
            let args = line.split_whitespace();
            let run = finish(floatgate().args(args).env("RAYON_NUM_THREADS", threads));
            assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{line}");
            run.out
        };
        let one = with("1");
        for threads in ["2", "5"] {
            assert!(
                one == with(threads),
                "{line} differs from run to run or depends on the number of threads"
            );
        }
    }
}

#[test]
fn a_seed_means_nothing_where_nothing_varies() {
    for line in
        ["speed am62a-w35n01jw --json", "trace imx6-mx30lf2g18ac write-page --json", "speed nor-serialised"]
    {
        let with =
            |seed: &str| stdout(&format!("{line} --seed {seed}")).replace(&format!("\"seed\": {seed},"), "");
        assert_eq!(with("1"), with("2"), "{line}");
    }
}

fn json(line: &str) -> Value {
    serde_json::from_str(&stdout(line)).unwrap()
}

#[test]
fn a_seed_chooses_the_factory_bad_blocks() {
    let small = "speed imx6-mx30lf2g18ac --set chip.geometry.blocks_per_lun=128 --bad-blocks 40 --json";
    let good = |first: u32, seed: u64| {
        let run = json(&format!("{small} -b {first} -c 8 --seed {seed}"));
        run["good_blocks"].as_u64().unwrap()
    };
    let map = |seed| (0..128).step_by(8).map(|first| good(first, seed)).collect::<Vec<u64>>();
    let (one, two) = (map(1), map(2));
    assert_ne!(one, two, "two seeds, one chip");
    assert_eq!(one.iter().sum::<u64>(), 128 - 40, "40 bad blocks are 40");
    assert_eq!(two.iter().sum::<u64>(), 128 - 40, "40 bad blocks are 40");
}

#[test]
fn a_seed_chooses_the_slow_subsectors_and_nothing_else() {
    let (one, two) = (json("keystore --seed 1 --json"), json("keystore --seed 2 --json"));
    for driver in ["with_delays", "without_delays"] {
        let (one, two) = (one[driver].as_array().unwrap(), two[driver].as_array().unwrap());
        for (a, b) in one.iter().zip(two) {
            let varies = a["test"] == "erase subsector";
            assert_eq!(a["ns"] != b["ns"], varies, "{driver}: {} {} {}", a["test"], a["ns"], b["ns"]);
        }
    }
}

#[test]
fn a_driver_with_delays_of_no_ticks_takes_no_less_than_one_without() {
    let report = json("keystore --set firmware.delay_ticks=0 --json");
    let times = |driver: &str| -> Vec<u64> {
        let lines = report[driver].as_array().unwrap();
        lines.iter().map(|line| line["ns"].as_u64().unwrap()).collect()
    };
    let (with, without) = (times("with_delays"), times("without_delays"));
    assert!(with.iter().zip(&without).all(|(with, without)| with >= without), "{with:?} {without:?}");
}
