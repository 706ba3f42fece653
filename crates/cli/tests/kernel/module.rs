//! Linux's own drivers on chips that `floatgate serve --module` plays.

use crate::judge::{fresh, judge};
use crate::mtd::{json, pack};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A case of `tests/kernel/module`, with what the kernel must find.
struct Case {
    /// Part or setup, whose name is the case's, too.
    target: &'static str,
    kind: &'static str,
    options: &'static str,
    /// Size, eraseblock, page and OOB in bytes.
    geometry: [u64; 4],
    /// Command and mode of reads.
    read: (&'static str, &'static str),
}

impl Case {
    const fn nor(target: &'static str, mib: u64, read: (&'static str, &'static str)) -> Self {
        Self { target, kind: "nor", options: "", geometry: [mib << 20, 4096, 1, 0], read }
    }

    const fn nand(
        kind: &'static str,
        target: &'static str,
        mib: u64,
        read: (&'static str, &'static str),
    ) -> Self {
        Self { target, kind, options: "--bad-blocks 3", geometry: [mib << 20, 128 << 10, 2048, 64], read }
    }
}

/// `scripts/kernel-modules` has built the modules.
fn modules() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kernel-modules");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = Command::new(script).env("CARGO_TARGET_DIR", target).output().unwrap();
    let (said, errors) = (String::from_utf8(built.stdout).unwrap(), String::from_utf8_lossy(&built.stderr));
    assert!(built.status.success(), "{said}{errors}");
    said.lines().last().unwrap().into()
}

fn run(name: &str, cases: &[Case]) {
    let input = fresh(&format!("{name}-in"));
    pack(&input);
    for module in ["floatgate.ko", "spinand.ko"] {
        fs::copy(modules().join(module), input.join(module)).unwrap();
    }
    let data: Vec<u8> = (0..256 << 10).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect();
    fs::write(input.join("data"), &data).unwrap();
    let lines = cases.iter().map(|case| format!("{0} {1} {0} {2}\n", case.target, case.kind, case.options));
    fs::write(input.join("cases"), lines.collect::<String>()).unwrap();
    let output = judge("module", name, &input).unwrap();
    let log = fs::read_to_string(output.join("dmesg")).unwrap();
    for case in cases {
        let report = json(&output, &format!("{}.json", case.target));
        assert_eq!(geometry(&output, case.target), case.geometry, "{}", case.target);
        assert_eq!(reads(&report), case.read, "{report}");
        assert_eq!(report["mtd"], 0, "{report}");
        assert!(report["operations"].as_u64().unwrap() > 0, "{report}");
        println!("{report}");
        if case.kind == "ubifs" {
            check_ubifs(&output, case.target, &data, &log);
        }
    }
}

fn geometry(output: &Path, name: &str) -> [u64; 4] {
    let text = fs::read_to_string(output.join(format!("{name}.geometry"))).unwrap();
    ["size", "erasesize", "writesize", "oobsize"].map(|key| {
        let value = text.lines().find_map(|line| line.strip_prefix(&format!("{key}:")));
        value.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    })
}

/// Command and mode with which most bytes were read.
fn reads(report: &Value) -> (&str, &str) {
    let chosen = report["chosen"].as_array().unwrap();
    let reads = chosen.iter().filter(|row| row["data"] == "in" || row["command"] == "00 30");
    let most = reads.max_by_key(|row| row["bytes"].as_u64()).unwrap();
    (most["command"].as_str().unwrap(), most["mode"].as_str().unwrap())
}

/// The UBIFS that the kernel wrote is read here; the kernel has skipped bad blocks, and corrected and scrubbed the flipped bit.
fn check_ubifs(output: &Path, name: &str, data: &[u8], log: &str) {
    assert_eq!(fs::read_to_string(output.join(format!("{name}.bad"))).unwrap().trim(), "3");
    let corrected = fs::read_to_string(output.join(format!("{name}.corrected"))).unwrap();
    assert!(corrected.trim().parse::<u64>().unwrap() > 0, "{corrected}");
    assert!(log.contains("scrubbed PEB"), "{log}");
    let dump = output.join(format!("{name}.state"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    let cat = command.args(["image", "cat"]).arg(&dump).arg("/data").output().unwrap();
    assert!(cat.status.success() && cat.stdout == data, "{}", String::from_utf8_lossy(&cat.stderr));
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn slow_linux_drivers_find_and_use_served_chips() {
    run(
        "module",
        &[
            Case::nor("w25q128jv", 16, ("eb", "1S-4S-4S")),
            Case::nand("ubifs", "w25n01gv", 128, ("0b", "1S-1S-1S")),
            Case::nand("raw", "k9f1g08u0d", 128, ("00 30", "SDR mode 4")),
        ],
    );
}
