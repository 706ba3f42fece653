//! Linux's own drivers on chips that `floatgate serve --module` plays.

use crate::judge::{fresh, judge};
use crate::mtd::{json, pack};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A chip that Linux 6.1 knows.
#[derive(Clone, Copy)]
struct Case {
    /// Part or setup.
    target: &'static str,
    /// What `tests/kernel/module` does with it.
    kind: &'static str,
    /// Size in MiB, eraseblock in KiB, page and OOB in bytes.
    geometry: [u64; 4],
    /// Command and mode of reads where they are not those of `floatgate speed`.
    read: Option<(&'static str, &'static str)>,
}

const fn case(target: &'static str, kind: &'static str, geometry: [u64; 4]) -> Case {
    Case { target, kind, geometry, read: None }
}

const fn differs(
    target: &'static str,
    kind: &'static str,
    geometry: [u64; 4],
    read: (&'static str, &'static str),
) -> Case {
    Case { target, kind, geometry, read: Some(read) }
}

/// The cases of `./test`: a SPI NOR with locks, and a raw NAND with bit errors. A SPI NAND needs the sources of the kernel.
const FEW: [Case; 2] =
    [case("gd25q128e", "lock", [16, 4, 1, 0]), case("mt29f2g08abaea", "flips", [256, 128, 2048, 64])];

const CASES: [Case; 16] = [
    case("w25q128jv", "nor", [16, 4, 1, 0]),
    case("mx25l25645g", "nor", [32, 4, 1, 0]),
    case("gd25q128e", "lock", [16, 4, 1, 0]),
    // One of the few chips in the tables of Linux 6.1 with an OTP area.
    case("w25q32dw", "otp", [4, 4, 1, 0]),
    case("is25lp256", "nor", [32, 4, 1, 0]),
    case("w25q512jv", "nor", [64, 4, 1, 0]),
    // Without SFDP: Linux's table has flags for reads on 2 and 4 data lines alone.
    differs("s25fl128s", "nor", [16, 64, 1, 0], ("6b", "1S-1S-4S")),
    case("w25n01gv", "ubifs", [128, 128, 2048, 64]),
    case("gd5f1gq5ue", "flips", [128, 128, 2048, 128]),
    case("mx35lf2ge4ab", "nand", [256, 128, 2048, 64]),
    case("mt29f1g01abafd", "nand", [128, 128, 2048, 128]),
    case("w25m02gv", "nand", [256, 128, 2048, 64]),
    case("imx6-mx30lf2g18ac", "nand", [256, 128, 2048, 64]),
    case("mt29f2g08abaea", "flips", [256, 128, 2048, 64]),
    case("nand128w3a2bn", "nand", [16, 16, 512, 16]),
    // Neither ONFI nor JEDEC, so that Linux stays in the slowest mode, and without its driver of Toshiba's own ECC.
    differs("tc58bvg1s3h", "nand", [256, 128, 2048, 64], ("00 30", "sdr0")),
];

/// Chips whose data Linux 6.12 loses (docs/drivers.md): it programs one by a command of its successor, and selects the wrong plane of the
/// other.
const LOST_LATER: [&str; 2] = ["mx25l25645g", "mx35lf2ge4ab"];

/// The cases for the kernel of the guest.
fn cases() -> Vec<Case> {
    let is_later = std::env::var("JUDGE_KERNEL").is_ok_and(|kernel| kernel != "linux-image-amd64");
    CASES.into_iter().filter(|case| !is_later || !LOST_LATER.contains(&case.target)).collect()
}

/// Folder in which `scripts/kernel-modules` has built the modules.
fn modules(option: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kernel-modules");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = Command::new(script).arg(option).env("CARGO_TARGET_DIR", target).output().unwrap();
    let (said, errors) = (String::from_utf8(built.stdout).unwrap(), String::from_utf8_lossy(&built.stderr));
    assert!(built.status.success(), "{said}{errors}");
    said.lines().last().unwrap().into()
}

/// Output folder of a run of the guest with these files of [`modules`].
fn run(name: &str, cases: &[Case], option: &str, files: &[&str]) -> PathBuf {
    let input = fresh(&format!("{name}-in"));
    pack(&input);
    let modules = modules(option);
    for file in files {
        fs::copy(modules.join(file), input.join(file)).unwrap();
    }
    fs::write(input.join("data"), data()).unwrap();
    let line = |case: &Case| {
        let bad = if case.is_nor() { "" } else { "--bad-blocks 3" };
        format!("{0} {1} {0} {bad}\n", case.target, case.kind)
    };
    fs::write(input.join("cases"), cases.iter().map(line).collect::<String>()).unwrap();
    judge("module", name, &input).unwrap()
}

fn data() -> Vec<u8> {
    (0..256 << 10).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

/// Command and mode with which `floatgate speed` reads.
fn speed(target: &str) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    let output = command.args(["speed", target, "--count", "1", "--json"]).output().unwrap();
    let link = &serde_json::from_slice::<Value>(&output.stdout).unwrap()["link"];
    let read = link["read"].as_str().unwrap();
    let opcode = read.split_whitespace().nth(1).map(|word| word.trim_end_matches('h').to_lowercase());
    let mode = link["mode"].as_str().unwrap().to_owned();
    (opcode.unwrap_or_else(|| "00 30".to_owned()), mode)
}

/// Bytes that flash_otp_dump prints as lines of `0x0100: 00 3c 78`.
fn dumped(text: &str) -> Vec<u8> {
    let bytes = text.lines().filter_map(|line| line.strip_prefix("0x")?.split_once(':'));
    let numbers = bytes.flat_map(|(_, bytes)| bytes.split_whitespace());
    numbers.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
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
    let reads =
        chosen.iter().filter(|row| row["data"] == "in" || row["command"].as_str().unwrap().starts_with("00"));
    let most = reads.max_by_key(|row| row["bytes"].as_u64()).unwrap();
    (most["command"].as_str().unwrap(), most["mode"].as_str().unwrap())
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn linux_drivers_find_and_use_two_served_chips() {
    let output = run("module-few", &FEW, "--floatgate", &["floatgate.ko"]);
    FEW.iter().for_each(|case| case.check(&output));
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn slow_linux_drivers_find_and_use_served_chips() {
    let cases = cases();
    let output = run("module", &cases, "--tests", &["floatgate.ko", "spinand.ko", "flash_speed"]);
    for case in &cases {
        case.check(&output);
        if !case.is_nor() && case.kind != "ubifs" {
            let speed = fs::read_to_string(output.join(format!("{}.speed", case.target))).unwrap();
            assert!(speed.contains("page read speed is") && speed.ends_with("finished\n"), "{speed}");
        }
    }
    check_ubifs(&output, "w25n01gv");
}

impl Case {
    fn is_nor(&self) -> bool {
        matches!(self.kind, "nor" | "lock" | "otp")
    }

    /// The kernel has identified the chip, and used it as expected.
    fn check(&self, output: &Path) {
        let Self { target, kind, geometry: [mib, kib, page, oob], read } = self;
        let report = json(output, &format!("{target}.json"));
        assert_eq!(geometry(output, target), [mib << 20, kib << 10, *page, *oob], "{target}");
        let expected =
            read.map_or_else(|| speed(target), |(command, mode)| (command.to_owned(), mode.to_owned()));
        // Chips of 512-byte pages have no 30h, and their interface is that of `speed`.
        let (command, mode) = reads(&report);
        assert!(
            mode == expected.1 && (command == expected.0 || *page == 512),
            "{target}: {expected:?} {report}"
        );
        // The report is that of the last start of the chip, which only reads where bits are inverted. A SPI NAND counts the
        // write of its quad enable bit.
        let changes = report["operations"].as_u64().unwrap() > 1;
        assert!(report["mtd"] == 0 && changes == (*kind != "flips"), "{report}");
        // Two chips have no SFDP, for which Linux asks. A locked chip refuses an erase.
        let rules = u64::from(*target == "s25fl128s" || matches!(*kind, "lock" | "otp"));
        assert_eq!(report["violation_count"], rules, "{report}");
        if *kind == "lock" {
            assert_eq!(report["violations"][0]["rule"], "the target is write protected", "{report}");
        }
        let number = |of: &str| fs::read_to_string(output.join(format!("{target}.{of}"))).unwrap();
        if !self.is_nor() {
            assert_eq!(number("bad").trim(), "3", "{target}");
        }
        if *kind == "flips" {
            assert_eq!(number("corrected").trim(), "1", "{target}");
        }
        if *kind == "otp" {
            let locked = number("otp").lines().filter(|line| line.ends_with("[locked]")).count();
            assert_eq!((number("otp").matches("[unlocked]").count(), locked), (5, 1), "{}", number("otp"));
            for (of, bytes) in [
                ("otp-written", &data()[..256]),
                ("otp-erased", &[0xFF; 256][..]),
                ("otp-locked", &data()[..256]),
            ] {
                assert_eq!(dumped(&number(of))[256..512], *bytes, "{target}.{of}");
            }
        }
    }
}

/// The kernel has corrected and scrubbed the bit that was inverted, and its UBIFS is read here.
fn check_ubifs(output: &Path, name: &str) {
    let corrected = fs::read_to_string(output.join(format!("{name}.corrected"))).unwrap();
    assert!(corrected.trim().parse::<u64>().unwrap() > 0, "{corrected}");
    let log = fs::read_to_string(output.join("dmesg")).unwrap();
    assert!(log.contains("scrubbed PEB"), "{log}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    let cat = command
        .args(["image", "cat"])
        .arg(output.join(format!("{name}.state")))
        .arg("/data")
        .output()
        .unwrap();
    assert!(cat.status.success() && cat.stdout == data(), "{}", String::from_utf8_lossy(&cat.stderr));
}
