//! `probe` on files: it concludes, and leaves them as they were.

use crate::support::{Run, finish, floatgate, fresh};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

/// Bytes that look random.
pub(crate) fn noise(bytes: usize, mut state: u64) -> Vec<u8> {
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A file of noise, of a size that is no whole number of sectors.
fn file(folder: &Path) -> PathBuf {
    std::fs::write(folder.join("device"), noise((8 << 20) + 13, 1)).unwrap();
    folder.join("device")
}

/// Starts a probe with writes and waits until it says what it overwrites.
pub(crate) fn started(command: &mut Command) -> (Child, BufReader<ChildStderr>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("overwrites parts of") {
        line.clear();
        assert_ne!(messages.read_line(&mut line).unwrap(), 0);
    }
    (child, messages)
}

fn probe(folder: &Path, args: &[&str]) -> Run {
    finish(floatgate().arg("probe").args(args).current_dir(folder).stdin(Stdio::null()))
}

#[test]
fn what_was_overwritten_is_restored_and_the_samples_conclude_again() {
    let folder = fresh("probe-file");
    let path = file(&folder);
    let before = std::fs::read(&path).unwrap();
    let refused = probe(&folder, &["device", "--write"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(
        refused.err.contains("no terminal") && refused.err.contains("nothing was read or written"),
        "{}",
        refused.err
    );
    assert!(std::fs::read(&path).unwrap() == before);

    let run = probe(&folder, &["device", "--write", "--yes", "--json", "--raw", "samples.csv"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(std::fs::read(&path).unwrap() == before, "the file has changed");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["answers"]["capacity"]["value"], 8 << 20);
    assert_eq!(report["answers"]["fake"]["value"], "none");

    let again = probe(&folder, &["--from", "samples.csv", "--json"]);
    let again: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(again["answers"], report["answers"]);
}

#[test]
fn an_interrupted_probe_restores_the_file_and_concludes_from_what_it_has() {
    let folder = fresh("probe-interrupted");
    let path = file(&folder);
    // So large that the probe is not done when the signal comes.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(512 << 20).unwrap();
    let before = std::fs::read(&path).unwrap();
    let mut command = floatgate();
    command.args(["probe", "device", "--write", "--yes", "--json"]).current_dir(&folder);
    let (child, mut messages) = started(&mut command);
    std::thread::sleep(std::time::Duration::from_millis(20));
    // A shell starts what runs in its background with SIGINT ignored, and so it stays then.
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    messages.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{rest}");
    assert!(rest.contains("restored") && rest.contains("interrupted"), "{rest}");
    assert!(std::fs::read(&path).unwrap() == before, "the file has changed");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["complete"], false);
}

/// Starts a probe, kills it after it has overwritten something, and returns its saved file.
pub(crate) fn killed(command: &mut Command, is_overwritten: impl Fn() -> bool) -> PathBuf {
    let (mut child, mut messages) = started(command);
    let mut line = String::new();
    messages.read_line(&mut line).unwrap();
    let saved =
        line.split(" is saved in ").nth(1).and_then(|rest| rest.split(": ").next()).unwrap().to_owned();
    let moments = (0..600).take_while(|_| !is_overwritten() && child.try_wait().unwrap().is_none());
    moments.for_each(|_| std::thread::sleep(std::time::Duration::from_millis(10)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_overwritten(), "nothing was overwritten yet");
    PathBuf::from(saved)
}

#[test]
fn what_a_killed_probe_saved_is_listed_restored_and_forgotten() {
    let folder = fresh("probe-kept");
    let path = file(&folder);
    let before = std::fs::read(&path).unwrap();
    let saving = || {
        let mut command = floatgate();
        command.args(["probe", "device", "--write", "--yes", "--keep", "kept"]).current_dir(&folder);
        killed(&mut command, || std::fs::read(&path).unwrap() != before)
    };
    let saved = saving();
    assert_eq!(saved, Path::new("kept/device-1.saved"));
    let mode = std::os::unix::fs::MetadataExt::mode(&folder.join(&saved).metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
    let saved = saved.to_str().unwrap();
    let listed = |args: &[&str]| probe(&folder, &[&["--kept", "--keep", "kept"], args].concat());
    let list: Value = serde_json::from_str(&listed(&["--json"]).out).unwrap();
    assert_eq!(list["files"][0]["file"], saved);
    assert_eq!(list["files"][0]["saved"]["device"], "device");
    assert_eq!(list["files"][0]["saved"]["capacity_bytes"], 8 << 20);
    assert_eq!(list["files"][0]["saved"]["identity"][0]["name"], "inode");
    assert!(listed(&[]).out.contains(saved), "{}", listed(&[]).out);

    // Another file with the same contents is another device.
    std::fs::write(folder.join("other"), &before).unwrap();
    let run = probe(&folder, &["other", "--restore", saved, "--yes"]);
    assert!(run.code == Some(2) && run.err.contains("a device with inode"), "{}", run.err);
    assert!(std::fs::read(folder.join("other")).unwrap() == before);
    let run = probe(&folder, &["device", "--restore", saved]);
    assert!(run.code == Some(2) && run.err.contains("nobody can be asked"), "{}", run.err);
    let run = probe(&folder, &["device", "--restore", saved, "--yes"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(std::fs::read(&path).unwrap() == before, "{}", run.err);
    assert!(listed(&[]).out.contains("no saved files"), "{}", listed(&[]).out);

    // A damaged range is named, and the others are restored all the same.
    let saved = saving();
    let mut bytes = std::fs::read(folder.join(&saved)).unwrap();
    bytes[12_288 + 512] ^= 1;
    std::fs::write(folder.join(&saved), bytes).unwrap();
    let saved = saved.to_str().unwrap();
    let run = probe(&folder, &["device", "--restore", saved, "--yes"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("at byte 12800 of the file are damaged"), "{}", run.err);
    assert!(run.err.contains("the device is not as it was"), "{}", run.err);
    let run = probe(&folder, &["--forget", saved]);
    assert!(run.code == Some(2) && run.err.contains("nothing was deleted"), "{}", run.err);
    assert_eq!(probe(&folder, &["--forget", saved, "--yes"]).code, Some(0));
    assert!(!folder.join(saved).exists());
}

#[test]
fn a_log_of_flashbench_gets_a_conclusion() {
    let folder = fresh("probe-flashbench");
    let row = |bits: u64| {
        let on = if bits >= 22 { 900 } else { 600 + bits };
        format!("align {}\tpre 600\u{b5}s\ton {on}\u{b5}s\tpost 600\u{b5}s\tdiff 0\u{b5}s\n", 1_u64 << bits)
    };
    std::fs::write(folder.join("log"), (11..28).rev().map(row).collect::<String>()).unwrap();
    let run = probe(&folder, &["--from", "log", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["answers"]["erase_block"]["value"], 4 << 20);
    assert_eq!(report["answers"]["capacity"]["value"], Value::Null);
    assert!(probe(&folder, &["--from", "log"]).out.starts_with("log: log of flashbench\n"));
    let two = ["sdb", "mmcblk0"].map(|device| format!("# flashbench -a /dev/{device}\n{}", row(22)));
    std::fs::write(folder.join("two"), two.concat()).unwrap();
    let refused = probe(&folder, &["--from", "two"]);
    assert_eq!(refused.code, Some(2), "{}", refused.out);
    assert!(
        refused.err.contains("/dev/mmcblk0, /dev/sdb") && refused.err.contains("one log at a time"),
        "{}",
        refused.err
    );
}

/// Times of a file are not those of a card: it has all answers, without values. Its contents are tested all the same.
#[test]
fn a_file_is_an_image_whose_times_are_not_judged() {
    let folder = fresh("probe-image");
    let hollow = folder.join("hollow");
    std::fs::File::create(&hollow).unwrap().set_len(64 << 20).unwrap();
    let zeros = folder.join("zeros");
    std::fs::write(&zeros, vec![0; 16 << 20]).unwrap();
    let mut files = vec![hollow, zeros];
    let in_memory = tempfile::Builder::new().tempfile_in("/dev/shm");
    if let Ok(file) = &in_memory {
        std::fs::write(file.path(), vec![1; 8 << 20]).unwrap();
        files.push(file.path().to_owned());
    }
    for path in files {
        let path = path.to_str().unwrap();
        let report: Value = serde_json::from_str(&probe(&folder, &[path, "--json"]).out).unwrap();
        let answers = report["answers"].as_object().unwrap();
        assert_eq!(answers.len(), 22, "{path}");
        for (question, answer) in answers {
            assert!(answer["value"].is_null() && answer["confidence"] == 0.0, "{path} {question}: {answer}");
        }
        let text = probe(&folder, &[path]).out;
        assert!(
            text.contains("its times are not those of a card") && !text.contains("erase block"),
            "{text}"
        );

        let run = probe(&folder, &[path, "--write", "--yes", "--json", "--raw", "samples.csv"]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        let report: Value = serde_json::from_str(&run.out).unwrap();
        for answer in ["read_speed", "write_speed", "erase_block", "fat_area", "steady_state"] {
            assert_eq!(report["answers"][answer]["value"], Value::Null, "{answer}");
            assert_eq!(report["answers"][answer]["confidence"], 0.0, "{answer}");
        }
        assert_eq!(report["answers"]["fake"]["value"], "none");
        let again: Value =
            serde_json::from_str(&probe(&folder, &["--from", "samples.csv", "--json"]).out).unwrap();
        assert_eq!(again["answers"], report["answers"]);
    }
}

#[test]
fn a_card_that_answers_differently_the_second_time_is_found_and_advised_against() {
    let folder = fresh("probe-evil");
    for writes in [&[][..], &["--write"]] {
        let run = probe(&folder, &[&["evil-8g", "--json"], writes].concat());
        let report: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(report["answers"]["fake"]["value"], "unstable", "{writes:?}");
        assert_eq!(report["answers"]["capacity"]["value"], Value::Null);
        std::fs::write(folder.join("evil.json"), &run.out).unwrap();
    }
    for target in ["evil-8g", "evil.json"] {
        let args = ["advise", target, "--workload", "create", "--fs", "vfat"];
        let run = finish(floatgate().args(args).current_dir(&folder));
        assert!(run.out.contains("\ntrust: do not use this card"), "{target}: {}", run.out);
    }
}

/// A log that ended before anything was measured says nothing of the card.
#[test]
fn no_samples_have_no_confidence() {
    let folder = fresh("probe-no-samples");
    assert_eq!(probe(&folder, &["kingston-class-10", "--raw", "samples.csv"]).code, Some(0));
    let text = std::fs::read_to_string(folder.join("samples.csv")).unwrap();
    let head: String = text.split_inclusive('\n').take(3).collect();
    std::fs::write(folder.join("short.csv"), head).unwrap();
    let report: Value =
        serde_json::from_str(&probe(&folder, &["--from", "short.csv", "--json"]).out).unwrap();
    for (name, answer) in report["answers"].as_object().unwrap() {
        let is_found = !answer["value"].is_null();
        assert!(is_found || answer["confidence"] == 0.0, "{name}: {answer}");
    }
}

#[test]
fn what_cannot_be_probed_is_refused() {
    let folder = fresh("probe-refused");
    std::fs::write(folder.join("small"), [0; 4096]).unwrap();
    std::fs::write(folder.join("byte"), [0]).unwrap();
    file(&folder);
    std::fs::write(folder.join("samples.csv"), "order,test\n").unwrap();
    for (args, message) in [
        (&["small"][..], "4096 B are too small"),
        (&["byte"], "1 B are too small"),
        (&["device", "--set", "card.open_aus=4"], "is measured, not simulated"),
        (&["device", "--noise", "2"], "is measured, not simulated"),
        (&["/dev/null"], "neither a file nor a block device"),
        (&["."], "neither a file nor a block device"),
        (&["nosuch"], "nosuch"),
        (&["--from", "samples.csv"], "no samples, no log of flashbench, and no result of fio"),
        (&["kingston-class-10", "--noise", "-1"], "not between 0 and 100"),
        (&["kingston-class-10", "--yes"], "--write"),
        (&["device", "--raw", "nofolder/samples.csv"], "there is no folder nofolder"),
        (&["device", "--raw", "."], "is a folder"),
        (&["device", "--raw", "samples.arrow"], "samples are written as CSV"),
        (&["device", "--write"], "nobody can be asked"),
        (&["kingston-class-10", "--minutes", "20"], "is simulated, in its own time"),
        (&["device", "--minutes", "0"], "0 is not in 1..=1440"),
        (&["device", "--restore", "samples.csv", "--yes"], "no file with contents that a probe has saved"),
        (&["device", "--restore", "nosuch", "--yes"], "nosuch: "),
        (&["device", "--keep", "."], "--keep: without --write nothing is overwritten"),
        (&["kingston-class-10", "--write", "--keep", "."], "is simulated, and nothing of it is saved"),
        (&["--forget", "samples.csv", "--yes"], "no file with contents that a probe has saved"),
        (&["--forget", "nosuch", "--yes"], "nosuch: "),
        (&["--kept", "device"], "cannot be used with"),
        (&["device", "--write", "--yes", "--keep", "device"], "device: "),
        (&[], "TARGET"),
    ] {
        let run = probe(&folder, args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.err);
        assert!(run.err.contains(message), "{args:?}: {}", run.err);
    }
}

#[test]
fn what_a_card_states_is_decoded_and_contradictions_are_said() {
    let folder = fresh("probe-registers");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write(
        "samples.csv",
        "# floatgate probe, capacity_bytes=8589934592\norder,test,about,kind,position,bytes,ns,found\n",
    );
    let args = ["--from", "samples.csv", "--registers", "."];
    let refused = probe(&folder, &args);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("no registers are there"), "{}", refused.err);
    write("cid", "03534453553034478021aeb8a900da00\n");
    write("csd", "400e00325b5900001d8a7f800a404000\n");
    let run = probe(&folder, &[&args[..], &["--json"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["registers"]["identification"]["name"], "SU04G");
    assert_eq!(report["registers"]["capacity_bytes"], (0x1D8A_u64 + 1) << 19);
    assert!(report["disagreements"][0].as_str().unwrap().contains("the device has 8192 MiB"));
    let text = probe(&folder, &args).out;
    assert!(text.contains("the card states: maker 0x03 SD, SU04G 8.0, serial 0x21aeb8a9, 2013-10"), "{text}");
    write("cid", "nothing");
    let refused = probe(&folder, &args);
    assert!(refused.code == Some(2) && refused.err.contains("register cid"), "{}", refused.err);
}

#[test]
fn the_partition_table_is_read_and_judged() {
    let folder = fresh("probe-partitions");
    let path = file(&folder);
    let mut device = std::fs::read(&path).unwrap();
    device[..512].fill(0);
    // Type 0x83 in sectors 63 to 15 999, and a partition that ends behind the device.
    device[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 63, 0, 0, 0, 0x41, 0x3E, 0, 0]);
    device[462..478].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0x80, 0x3E, 0, 0, 0, 0, 1, 0]);
    device[510..512].copy_from_slice(&[0x55, 0xAA]);
    std::fs::write(&path, device).unwrap();
    let run = probe(&folder, &["device", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let partition = &report["partition"];
    assert_eq!(partition["table"], "mbr");
    assert_eq!(partition["partitions"][0]["start_bytes"], 63 * 512);
    assert_eq!(partition["partitions"][0]["bytes"], 15_937 * 512);
    let behind = partition["findings"][0].as_str().unwrap();
    assert!(behind.starts_with("partition 2 has 65536 sectors from sector 16000"), "{behind}");
    let text = probe(&folder, &["device"]).out;
    assert!(text.contains("partition table: MBR\n  partition 1: 8159744 B at 32256 B\n"), "{text}");
}

#[test]
fn what_is_no_device_is_told_so() {
    let folder = fresh("probe-no-device");
    for (name, parts) in [
        ("/dev/mtd77", &["/dev/mtd77: there is no such device", "/proc/mtd"][..]),
        ("/dev/nosuch", &["/dev/nosuch: there is no such device", "lsblk"]),
        ("/dev/null", &["neither a file nor a block device", "MTD character device (/dev/mtd0)"]),
    ] {
        let run = probe(&folder, &[name]);
        assert_eq!(run.code, Some(2), "{name}: {}", run.err);
        assert!(parts.iter().all(|part| run.err.contains(part)), "{name}: {}", run.err);
    }
}
