//! `floatgate otp`, and what else of cells and OTP a user reaches by commands.

use super::support::{floatgate, fresh, run_in, stdout};
use std::fs::File;
use std::process::Stdio;

#[test]
fn what_is_written_and_locked_stays_so() {
    let folder = fresh("otp");
    for setup in ["stm32-n25q128a", "imx6-mx30lf2g18ac"] {
        let state = format!("{setup}.otp");
        let otp = |line: &str| {
            let words = line.split_whitespace().chain(["--state", &state]).map(str::to_owned);
            run_in(&folder, words.collect::<Vec<_>>())
        };
        let write = otp(&format!("otp write {setup} --offset 2 0055aaf0"));
        assert_eq!(write.code, Some(0), "{setup}: {}", write.err);
        let read = otp(&format!("otp read {setup} --length 8"));
        assert!(read.out.contains("ff ff 00 55 aa f0 ff ff"), "{setup}: {}", read.out);
        let info = otp(&format!("otp info {setup}"));
        assert!(info.out.contains("no"), "{setup}: {}", info.out);
        let locked = otp(&format!("otp lock {setup}"));
        assert_eq!(locked.code, Some(0), "{setup}: {}", locked.err);
        let refused = otp(&format!("otp write {setup} --offset 10 00"));
        assert_eq!(refused.code, Some(2), "{setup}");
        let text = std::fs::read_to_string(folder.join(&state)).unwrap();
        assert_eq!(text.lines().count(), 2, "a step that was refused is none: {text}");
        assert!(otp(&format!("otp read {setup} --length 8")).out.contains("00 55 aa f0"), "{setup}");
    }
}

/// Whoever comes second is refused, or comes after the first: no step is lost.
#[test]
fn two_changes_at_once_lose_none() {
    let folder = fresh("otp-at-once");
    let write = |offset: usize| {
        let mut command = floatgate();
        let offset = offset.to_string();
        command.args(["otp", "write", "stm32-n25q128a", "--state", "state", "--offset", &offset, "00"]);
        command.current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both: Vec<_> = (0..8).map(write).collect();
    let outputs: Vec<_> = both.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let done = outputs.iter().filter(|output| output.status.success()).count();
    for refused in outputs.iter().filter(|output| !output.status.success()) {
        let err = String::from_utf8_lossy(&refused.stderr);
        assert!(err.contains("changed by somebody else"), "{err}");
    }
    let text = std::fs::read_to_string(folder.join("state")).unwrap();
    assert!(done > 0 && text.lines().count() == done, "{done}: {text}");
    std::fs::remove_file(folder.join("state")).unwrap();
    let locked = File::create(folder.join("state")).unwrap();
    locked.lock().unwrap();
    let refused = write(0).wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "somebody has it");
}

#[test]
fn a_state_that_makes_no_sense_is_refused() {
    let folder = fresh("otp-broken");
    for (text, why) in [("burn 0 00", "line 1"), ("write 0 0g", "hexadecimal"), ("# a\n\nlock 0", "line 3")] {
        std::fs::write(folder.join("state"), text).unwrap();
        let run = run_in(&folder, ["otp", "info", "stm32-n25q128a", "--state", "state"]);
        assert_eq!(run.code, Some(2), "{text}");
        assert!(run.err.contains(why), "{text}: {}", run.err);
    }
    let endless = run_in(&folder, ["otp", "info", "stm32-n25q128a", "--state", "/dev/zero"]);
    assert!(endless.code == Some(2) && endless.err.contains("larger than 1 MiB"), "{}", endless.err);
    for command in ["info", "read"] {
        let missing = run_in(&folder, ["otp", command, "stm32-n25q128a", "--state", "stat"]);
        assert!(
            missing.code == Some(2) && missing.err.contains("no such state"),
            "{command}: {}",
            missing.err
        );
    }
    let never = run_in(&folder, ["otp", "erase", "stm32-n25q128a"]);
    assert!(never.code == Some(2) && !never.err.contains("0x0"), "{}", never.err);
    let empty = run_in(&folder, ["otp", "write", "stm32-n25q128a", "--state", "new", ""]);
    assert!(empty.code == Some(2) && !folder.join("new").exists(), "{}", empty.err);
    assert_eq!(
        run_in(&folder, ["otp", "info", "nand-mt29f2g08abaea", "--set", "chip=k9f1g08u0d"]).code,
        Some(2)
    );
}

/// Age and reads show as bit flips, read retries and scrub requests, and more of them as either grows.
#[test]
fn age_and_reads_are_seen() {
    let found = |sets: &str| {
        let line = format!(
            "speed ideal-w35n01jw --set chip=mx35lf2ge4ad --set bus.mode=1-1-1 --set bus.clock_hz=50e6 -b 8 -c 4 --json {sets}"
        );
        let json: serde_json::Value = serde_json::from_str(&stdout(&line)).unwrap();
        let read = json["tests"]
            .as_array()
            .unwrap()
            .iter()
            .find(|test| test["name"] == "eraseblock read")
            .unwrap()
            .clone();
        ["bitflips", "retries", "scrub_requests"].map(|key| read[key].as_u64().unwrap())
    };
    let worn = "--set cells.cycles=60000";
    let fresh = found("");
    let aged = found(&format!("{worn} --set cells.age_days=3650 --set cells.age_temperature_c=55"));
    let read = found(&format!("{worn} --set cells.reads=3000000"));
    assert!(aged[0] > fresh[0] && read[0] > fresh[0], "{fresh:?} {aged:?} {read:?}");
    let older = found(&format!("{worn} --set cells.age_days=20000 --set cells.age_temperature_c=55"));
    assert!(older[0] > aged[0] && older[2] > 0, "{aged:?} {older:?}");
    // The most that the key takes.
    assert!(found(&format!("--set cells.reads={}", u32::MAX))[0] > fresh[0]);
}

#[test]
fn a_title_names_the_chip_in_use() {
    let text = stdout("speed am62a-w35n01jw --set chip=w35n02jw");
    assert!(text.lines().next().unwrap().contains("W35N02JW"), "{text}");
}

#[test]
fn the_flag_status_register_has_its_name() {
    let text = stdout("trace nor-serialised write-page --set chip=mt25qu512abb --json");
    assert!(text.contains("READ FLAG STATUS 70h"), "{text}");
    assert!(!text.contains("\"READ\""), "a status read is no READ: {text}");
}
