//! `floatgate run`: filesystems of the kernel on a simulated card, each with its own checker.

use floatgate_testing::few_or_all;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(card: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    command.args(["card", "run", card, "--json"]).args(arguments).output().unwrap()
}

/// Rows of a result in JSON.
fn rows(json: &[u8]) -> Option<Vec<Value>> {
    Some(serde_json::from_slice::<Value>(json).ok()?["rows"].as_array()?.clone())
}

/// Runs workloads in a virtual machine. All filesystems must be clean at the end.
fn runs(card: &str, arguments: &[&str]) -> Vec<Value> {
    let run = run(card, &[&["--patience", "5400"], arguments].concat());
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{card} {arguments:?}: {said}{}", String::from_utf8_lossy(&run.stdout));
    let runs = rows(&run.stdout).unwrap();
    for run in &runs {
        assert_eq!((&run["verdict"], &run["failed"]), (&"clean".into(), &0.into()), "{run}");
    }
    runs
}

fn of<'a>(runs: &'a [Value], key: &str) -> Vec<&'a Value> {
    runs.iter().map(|run| &run[key]).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

const SMALL: &str = "card.capacity_bytes=1GiB";
const ALL: &str = "ext4,f2fs,nilfs2,vfat";

fn files_are_made(vm: &str, filesystems: &str) {
    let runs = runs("a1-32g", &["--vm", vm, "--set", SMALL, "--workload", "create", "--fs", filesystems]);
    assert_eq!(of(&runs, "filesystem"), filesystems.split(',').collect::<Vec<_>>());
    for run in &runs {
        assert_eq!(run["files"], 300, "{run}");
        // Each file is synced, so that its content and its directory must have reached the card.
        assert!(number(&run["write"]["requests"]) >= 300, "{run}");
        assert!(number(&run["write"]["bytes"]) >= 300 * 4096, "{run}");
    }
}

/// The filesystems that no other test here makes in QEMU.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn filesystems_are_sound_after_files_were_made_on_a_card() {
    files_are_made("qemu", few_or_all("nilfs2,vfat", ALL));
}

/// C files that are written and compiled on exFAT; the campaign of guests has PostMark, too.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn filesystems_are_sound_after_postmark_or_a_build() {
    let programs = ["postmark:postmark", "tcc:tcc", "mkfs.btrfs:btrfs-progs", "mkfs.xfs:xfsprogs"];
    for (program, package) in programs.iter().filter_map(|program| program.split_once(':')) {
        if !["/usr/bin", "/usr/sbin", "/sbin"].iter().any(|folder| Path::new(folder).join(program).is_file())
        {
            eprintln!("skipped: Debian's package {package} is not installed");
            return;
        }
    }
    let of = |workload: &str, filesystems: &str, files: std::ops::Range<u64>| {
        let how = ["--set", SMALL, "--vm", "qemu", "--workload", workload, "--fs", filesystems];
        let runs = runs("kingston-class-10", &how);
        assert_eq!(runs.len(), filesystems.split(',').count());
        for run in &runs {
            assert!(files.contains(&number(&run["files"])), "{run}");
        }
    };
    of("kernel-build", "exfat", 301..302);
    // Many small files take a guest without KVM 40 s.
    if let Some(filesystems) = few_or_all(None, Some("btrfs,xfs")) {
        of("postmark", filesystems, 2000..4000);
    }
}

fn has_uml() -> bool {
    let is_there = Path::new("/usr/bin/linux").is_file();
    let has_amx = std::fs::read_to_string("/proc/cpuinfo").unwrap().contains(" amx_tile");
    match (is_there, has_amx) {
        (false, _) => eprintln!("skipped: Debian's package user-mode-linux is not installed"),
        (true, true) => eprintln!("skipped: User Mode Linux does not run on a processor with AMX"),
        (true, false) => {}
    }
    is_there && !has_amx
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn user_mode_linux_makes_files_on_a_card() {
    if has_uml() {
        files_are_made("uml", few_or_all("nilfs2", ALL));
    }
}

/// Two clients do twice the work of one, and a filler takes its part of the card.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn clients_and_fillers_are_on_the_card() {
    if !has_uml() {
        return;
    }
    let common =
        ["--vm", "uml", "--set", "card.capacity_bytes=256MiB", "--fs", "ext4", "--workload", "create"];
    let two = runs("a1-32g", &[&common[..], &["--clients", "2", "--fill", "50%"]].concat());
    assert_eq!((of(&two, "files"), of(&two, "fill_percent")), (vec![&600.into()], vec![&50.into()]));
    // mkfs and mounting alone take 0.35 s; half of the card is written, too.
    assert!(two[0]["prepare_us"].as_f64().unwrap() > 1e6, "{two:?}");
}

/// Writes 240 MiB, 4 MiB at a time, over each other.
const OVERWRITES: &str = "i=0
while [ $i -lt 60 ]; do
  dd if=/dev/zero of=data bs=1M count=4 conv=fsync,notrunc || exit 1
  sleep 0.5
  i=$((i + 1))
done
";

/// Chubb 2015: without its cleaner NILFS2 fills up the card, and with one it keeps what is younger than the protection period.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn nilfs2_fills_up_the_card_without_a_cleaner_or_within_its_protection_period() {
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overwrites.sh");
    std::fs::write(&script, OVERWRITES).unwrap();
    let workload = ["--workload", script.to_str().unwrap(), "--patience", "1800"];
    let cleaners = few_or_all("off", "off,0,1800");
    let card = ["--set", "card.capacity_bytes=256MiB", "--fs", "nilfs2", "--nilfs-cleaner", cleaners];
    let run = run("a1-32g", &[&card[..], &workload].concat());
    let said = String::from_utf8_lossy(&run.stderr);
    let runs = rows(&run.stdout).unwrap_or_else(|| panic!("{said}"));
    let expected = [("full", Value::Null), ("clean", 0.into()), ("full", 1800.into())];
    assert_eq!(runs.len(), cleaners.split(',').count(), "{said}");
    for (run, (verdict, period)) in runs.iter().zip(expected) {
        assert_eq!(
            (&run["verdict"], &run["protection_period_s"]),
            (&verdict.into(), &period),
            "{said}{runs:?}"
        );
    }
    assert!(runs[0]["message"].as_str().unwrap().contains("No space left on device"), "{runs:?}");
    let written = |run: &Value| number(&run["write"]["bytes"]) >> 20;
    assert!(written(&runs[0]) < 240, "{runs:?}");
    assert!(runs.get(1).is_none_or(|cleaned| written(cleaned) >= 240), "{runs:?}");
    assert_eq!(run.status.code(), Some(1));
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn what_cannot_be_made_says_why_and_a_guest_out_of_patience_where_it_was() {
    let small = ["--set", "card.capacity_bytes=32MiB", "--fs", "f2fs", "--workload", "create"];
    let failed = run("a1-32g", &small);
    let runs = rows(&failed.stdout).unwrap();
    assert_eq!(of(&runs, "verdict"), ["failed mkfs"]);
    assert!(runs[0]["message"].as_str().unwrap().contains("not sufficient for F2FS"), "{runs:?}");
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("endless.sh");
    std::fs::write(&script, "while :; do :; done\n").unwrap();
    let endless =
        ["--set", "card.capacity_bytes=256MiB", "--fs", "ext4", "--workload", script.to_str().unwrap()];
    let late = run("a1-32g", &[&endless[..], &["--patience", "1"]].concat());
    let said = String::from_utf8_lossy(&late.stderr);
    // How far a guest comes in a second is a matter of the machine.
    assert!(said.contains("patience ran out after 1 s, during "), "{said}");
}

/// Processes of User Mode Linux whose card is in a folder.
fn guests_in(folder: &Path) -> usize {
    let mark = format!("init=\"{}", folder.display());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(&mark)).count()
}

/// Waits until there are some, or none.
fn wait_for(folder: &Path, is_there: bool) {
    for _ in 0..3000 {
        if (guests_in(folder) > 0) == is_there {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{} processes of the guest", guests_in(folder));
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn a_guest_that_is_ended_leaves_no_process() {
    if !has_uml() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let guest = |patience: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
        command.args([
            "card",
            "run",
            "a1-32g",
            "--vm",
            "uml",
            "--set",
            "card.capacity_bytes=256MiB",
            "--json",
        ]);
        command.args(["--fs", "ext4", "--workload", "create", "--patience", patience]);
        command.env("TMPDIR", folder.path()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    };
    let late = guest("1").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&late.stderr);
    assert!(said.contains("patience ran out after 1 s"), "{said}");
    wait_for(folder.path(), false);

    let interrupted = guest("5400");
    wait_for(folder.path(), true);
    let terminate = Command::new("kill").arg(interrupted.id().to_string()).status().unwrap();
    assert!(terminate.success());
    let ended = interrupted.wait_with_output().unwrap();
    assert!(!ended.status.success());
    wait_for(folder.path(), false);
}

/// A script on 256 MiB of ext4, in User Mode Linux.
fn scripted(folder: &Path, script: &str, arguments: &[&str]) -> Output {
    std::fs::write(folder.join("work.sh"), script).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    command.args(["card", "run", "a1-32g", "--vm", "uml", "--set", "card.capacity_bytes=256MiB", "--json"]);
    // Relative: a comma in a path would end it in the list of workloads.
    command.args(["--fs", "ext4", "--workload", "work.sh"]).args(arguments).current_dir(folder);
    command.env("TMPDIR", folder).env_remove("HOME").output().unwrap()
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn user_mode_linux_needs_no_home_and_takes_any_folder() {
    if !has_uml() {
        return;
    }
    let folder = tempfile::Builder::new().prefix("a b:c,d ").tempdir().unwrap();
    let run = scripted(folder.path(), "exit 3\n", &[]);
    let said = String::from_utf8_lossy(&run.stderr);
    let runs = rows(&run.stdout).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(of(&runs, "verdict"), ["failed workload"]);
    assert_eq!(of(&runs, "message"), ["ended with status 3"]);
    let left = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["work.sh"], "nothing but the script is left");
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn the_trace_of_an_unfinished_run_is_not_kept() {
    if !has_uml() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("traces");
    let endless = "dd if=/dev/zero of=data bs=4096 count=1 conv=fsync\nwhile :; do :; done\n";
    let run = scripted(folder.path(), endless, &["--patience", "20", "--record", record.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(1));
    let runs = rows(&run.stdout).unwrap();
    assert_eq!(of(&runs, "verdict"), ["unfinished"]);
    let files = std::fs::read_dir(&record).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(files.collect::<Vec<_>>(), ["traces.csv"]);
    assert_eq!(std::fs::read_to_string(record.join("traces.csv")).unwrap(), "trace,files\n");
}

/// Behind what came before the workload, partitioning and mkfs included, a replay takes the time of the run.
#[test]
#[ignore = "boots a kernel: see main.rs"]
fn a_recorded_run_is_replayed_in_its_own_time() {
    if !has_uml() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().to_str().unwrap();
    let filesystems = few_or_all("vfat", "vfat,f2fs");
    let runs = runs("kingston-class-10", &["--fs", filesystems, "--workload", "create", "--record", record]);
    for run in runs {
        let file = |ending: &str| format!("{record}/{}-create{ending}", run["filesystem"].as_str().unwrap());
        let mut replay = Command::new(env!("CARGO_BIN_EXE_floatgate"));
        replay.args(["card", "replay", "kingston-class-10", &file(".csv")]);
        let replay = replay.args(["--after", &file(".before.csv"), "--json"]).output().unwrap();
        let replay: Value = serde_json::from_slice(&replay.stdout).unwrap();
        assert_eq!(replay["time_us"], run["time_us"], "{run}");
    }
}

/// Power goes away at flushes and between them: the filesystem recovers, and what was synced is there.
fn survives_losses_of_power(filesystems: &str, cuts: &str) -> Vec<Value> {
    let card = ["--set", "card.capacity_bytes=256MiB", "--fs", filesystems, "--workload", "create"];
    let runs = runs("a1-32g", &[&card[..], &["--cuts", cuts]].concat());
    for run in &runs {
        let results = &run["power_loss"];
        assert_eq!(results["failures"], Value::Array(Vec::new()), "{run}");
        assert!(number(&results["cuts"]) >= 8 && number(&results["flushes"]) >= 100, "{run}");
        assert!(number(&results["files_checked"]) > 0, "{run}");
        assert!(results["verdict"].as_str().unwrap().ends_with("the synced files were there"), "{run}");
    }
    runs
}

#[test]
#[ignore = "boots a kernel: see main.rs"]
fn ext4_and_f2fs_recover_with_their_own_checkers_from_losses_of_power() {
    survives_losses_of_power(few_or_all("f2fs", "ext4,f2fs"), "8");
}

#[test]
#[ignore = "slow: loses power at every flush of four filesystems, and between the flushes"]
fn slow_every_filesystem_recovers_from_a_loss_of_power_at_any_flush() {
    for run in survives_losses_of_power("ext4,f2fs,nilfs2,vfat", "all") {
        let results = &run["power_loss"];
        assert!(number(&results["cuts"]) >= number(&results["flushes"]), "{run}");
    }
}

/// Every card of the catalogue that is what it claims to be.
const CARDS: [&str; 15] = [
    "a1-32g",
    "a2-128g",
    "cheap-class-10",
    "class-4-8g",
    "emmc-16g",
    "kingston-class-10",
    "kingston-microsd-8g",
    "samsung-evo-16g",
    "samsung-pro-32g",
    "sandisk-extreme",
    "sandisk-extreme-pro",
    "sandisk-su04g",
    "sandisk-ultra-16g",
    "toshiba-class-10",
    "toshiba-exceria-32g",
];

#[test]
#[ignore = "slow: four filesystems under four workloads on every card, in User Mode Linux"]
fn slow_every_filesystem_is_sound_after_every_workload_on_every_card() {
    if !has_uml() {
        return;
    }
    for card in CARDS {
        let workloads = "create,postmark,dbench,kernel-build";
        assert_eq!(runs(card, &["--vm", "uml", "--fs", ALL, "--workload", workloads]).len(), 16, "{card}");
    }
}

#[test]
#[ignore = "slow: three more filesystems under four workloads on every card, in QEMU"]
fn slow_filesystems_of_qemu_are_sound_after_every_workload_on_every_card() {
    for card in CARDS {
        let workloads = "create,postmark,dbench,kernel-build";
        let arguments = ["--vm", "qemu", "--fs", "exfat,btrfs,xfs", "--workload", workloads];
        assert_eq!(runs(card, &arguments).len(), 12, "{card}");
    }
}
