//! `floatgate probe /dev/mtd0` on the kernel's MTD character devices.

use crate::judge::{fresh, judge};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Copies the binary without its debug information, and the libraries that the loader takes; the loader itself as `ld`.
pub(crate) fn pack(input: &Path) {
    let binary = env!("CARGO_BIN_EXE_floatgate");
    let copied = Command::new("strip").arg("-o").arg(input.join("floatgate")).arg(binary).status();
    if !copied.is_ok_and(|status| status.success()) {
        std::fs::copy(binary, input.join("floatgate")).unwrap();
    }
    std::fs::create_dir(input.join("lib")).unwrap();
    let listed = Command::new("ldd").arg(binary).output().unwrap();
    for path in
        String::from_utf8(listed.stdout).unwrap().split_whitespace().filter(|word| word.starts_with('/'))
    {
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        let name = if name.starts_with("ld-") { "ld" } else { name };
        std::fs::copy(path, input.join("lib").join(name)).unwrap();
    }
}

pub(crate) fn json(output: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(output.join(name)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
}

fn speeds(found: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = found["speeds"].as_array().unwrap();
    assert!(all.iter().all(|speed| speed["kib_s"].as_u64().unwrap() > 0), "{all:?}");
    all.iter().map(|speed| (text(&speed["blocks"]), text(&speed["name"]))).collect()
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn mtd_devices_of_the_kernel_are_measured_and_left_as_they_were() {
    let input = fresh("mtd-in");
    pack(&input);
    let data: Vec<u8> = (0..300 << 10).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(input.join("data"), data).unwrap();
    let output = judge("mtd", "mtd", &input).unwrap();
    for (name, erase_bytes, blocks, written, bad) in
        [("nand", 128 << 10, 40, 3, vec![5]), ("nor", 64 << 10, 16, 5, Vec::<u64>::new())]
    {
        let [before, after] =
            ["before", "after"].map(|when| std::fs::read(output.join(format!("{name}.{when}"))).unwrap());
        assert!(before == after && before.len() >= 1 << 20, "{name}: contents have changed");
        let [read, write] = ["read", "write"].map(|way| json(&output, &format!("{name}.{way}")));
        for found in [&read, &write] {
            assert_eq!(found["erase_bytes"], erase_bytes, "{found}");
            assert_eq!(found["bad_blocks"], serde_json::json!(bad), "{found}");
            assert_eq!(found["read_blocks"], blocks - bad.len() as u64, "{found}");
            assert_eq!(found["complete"], true, "{found}");
        }
        let read_tests = ["eraseblock read", "page read", "2 page read"];
        for state in ["written", "blank"] {
            for test in read_tests {
                assert!(
                    speeds(&read).contains(&(state.to_owned(), test.to_owned())),
                    "{name} {state} {test}: {read}"
                );
            }
        }
        assert!(!speeds(&read).iter().any(|(_, test)| test.contains("write") || test == "erase"), "{read}");
        for test in ["eraseblock write", "page write", "2 page write", "erase"] {
            assert!(speeds(&write).iter().any(|(_, name)| name == test), "{name} {test}: {write}");
        }
        // mtdram begins erased.
        assert_eq!(read["blank_blocks"], blocks - written - bad.len() as u64, "{read}");
        let refused = std::fs::read_to_string(output.join(format!("{name}.refused"))).unwrap();
        assert!(refused.contains("nothing was written") && refused.contains("status 2"), "{refused}");
        let text = std::fs::read_to_string(output.join(format!("{name}.text"))).unwrap();
        assert!(text.contains("page read speed is"), "{text}");
    }
    used_flash_is_only_read(&output);
    clean_markers_stay(&output);
    let read_only = std::fs::read_to_string(output.join("ro")).unwrap();
    assert!(read_only.contains("/dev/mtd0 is the one") && read_only.contains("status 2"), "{read_only}");
}

fn used_flash_is_only_read(output: &Path) {
    let by_jffs2 = "it is mounted on /mnt";
    for (how, user) in [
        ("ubi", "UBI has attached mtd0 as ubi0"),
        ("jffs2-mtd0", by_jffs2),
        ("jffs2-mtd-mtdram-test-device", by_jffs2),
        ("jffs2--dev-mtdblock0", by_jffs2),
    ] {
        let refused = std::fs::read_to_string(output.join(format!("used.{how}"))).unwrap();
        for part in ["/dev/mtd0 is in use", user, "nothing was written", "status 2"] {
            assert!(refused.contains(part), "{how}: {refused}");
        }
        let read = std::fs::read_to_string(output.join(format!("used.{how}.read"))).unwrap();
        for part in ["is only read", user, "page read speed is"] {
            assert!(read.contains(part), "{how}: {read}");
        }
    }
}

fn clean_markers_stay(output: &Path) {
    let [before, after] =
        ["before", "after"].map(|when| std::fs::read(output.join(format!("oob.{when}"))).unwrap());
    assert!(before == after, "OOB has changed");
    let pages = before.chunks(2048 + 64);
    let marked = pages.filter(|page| {
        page[..2048].iter().all(|byte| *byte == 0xFF) && page[2048..].iter().any(|byte| *byte != 0xFF)
    });
    assert_eq!(marked.count(), 2, "clean markers");
    assert_eq!(json(output, "oob.write")["blank_blocks"], 40 - 3 - 1 - 2);
}
