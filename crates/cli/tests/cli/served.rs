//! `floatgate serve`, with the kernel of the host and unmodified tools. Where it has no FUSE, or a tool is missing, the tests count as
//! skipped. No test asserts a time: of what tools measure, only the place of a step counts.

use crate::mounted::{Mount, has_fuse};
use crate::support::{fresh, names, run_in, stdout};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests that measure times take turns.
static MEASURES: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    MEASURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder in which a card is served in `mnt`; `None` where the host does not let us.
fn serve(name: &str, args: &[&str]) -> Option<(PathBuf, Mount)> {
    if !has_fuse() {
        return None;
    }
    let folder = fresh(name);
    let args = [&["card", "serve"], args, &["--fuse", "mnt", "--json"]].concat();
    let mount = Mount::by(&folder, &args)?;
    Some((folder, mount))
}

/// Ends a mount. Returns its account.
fn account(mount: Mount) -> Value {
    serde_json::from_str(&mount.end()).unwrap()
}

/// True when a program is there; skips loudly otherwise.
pub(crate) fn has(program: &str) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let is_there = path.split(':').any(|folder| Path::new(folder).join(program).exists());
    if !is_there {
        eprintln!("skipped: {program} is not installed");
    }
    is_there
}

/// Runs a program to its end, with a stdin that flashbench can write to. Returns its stdout.
fn output(program: &str, args: &[&str]) -> String {
    let stdin = File::options().read(true).write(true).open("/dev/null").unwrap();
    let mut command = Command::new(program);
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    command.args(args).env("PATH", path).stdin(stdin).stderr(Stdio::inherit());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.is_empty() || output.status.success(), "{program} {args:?}: {}", output.status);
    text
}

#[test]
fn a_card_is_a_file_of_sectors() {
    let args = ["kingston-class-10", "--set", "card.capacity_bytes=64MiB", "--time-scale", "0"];
    let Some((folder, mount)) = serve("served-file", &[&args[..], &["--record", "t.csv"]].concat()) else {
        return;
    };
    let path = mount.directory.join("card");
    let card = File::options().read(true).write(true).truncate(true).open(&path).unwrap();
    assert_eq!(card.metadata().unwrap().len(), 64 << 20, "truncation changes nothing");
    assert_eq!(std::fs::read_dir(&mount.directory).unwrap().count(), 1);
    assert!(File::create(mount.directory.join("other")).is_err());
    card.write_all_at(&[0xA5; 5000], 1000).unwrap();
    let mut bytes = [0; 7000];
    card.read_exact_at(&mut bytes, 0).unwrap();
    assert!(
        bytes.iter().enumerate().all(|(at, byte)| *byte == if (1000..6000).contains(&at) { 0xA5 } else { 0 })
    );
    card.sync_all().unwrap();
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&card, flags, 1024, 2048).unwrap();
    card.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((bytes[1023], bytes[1024], bytes[3071], bytes[3072]), (0xA5, 0, 0, 0xA5));
    assert_eq!(card.read_at(&mut bytes, (64 << 20) - 100).unwrap(), 100, "the end");
    assert!(card.write_all_at(&[1; 512], 64 << 20).is_err(), "behind the end");
    drop(card);
    let account = account(mount);
    let of = |kind: &str| account[kind]["requests"].as_u64().unwrap();
    assert_eq!((of("write"), of("discard"), of("flush")), (1, 1, 1));
    assert_eq!(account["failed"], 0);
    let trace = std::fs::read_to_string(folder.join("t.csv")).unwrap();
    let requests = ["read", "write", "discard", "flush"].map(of).iter().sum::<u64>();
    assert_eq!(trace.lines().count() as u64, 1 + requests);
    let replayed = [&["card", "replay"], &args[..3], &["t.csv", "--json"]].concat();
    let replayed: Value = serde_json::from_str(&run_in(&folder, replayed).out).unwrap();
    for key in ["read", "write", "discard", "flush", "write_amplification"] {
        assert_eq!(replayed[key], account[key], "{key}");
    }
}

const SMALL: [&str; 5] = ["emmc-16g", "--set", "card.capacity_bytes=64MiB", "--time-scale", "0"];

#[test]
fn a_folder_that_is_used_is_refused() {
    let Some((folder, mut mount)) = serve("served-twice", &SMALL) else { return };
    let again = [&["card", "serve"], &SMALL[..], &["--fuse", "mnt"]].concat();
    let refused = run_in(&folder, again.clone());
    assert!(refused.err.contains("mnt is a mount point already"), "{}", refused.err);
    assert!(mount.directory.join("card").exists());
    mount.child.kill().unwrap();
    mount.child.wait().unwrap();
    let refused = run_in(&folder, again.clone());
    assert!(refused.err.contains("program that was killed"), "{}", refused.err);
    assert!(refused.err.contains("`umount mnt`"), "{}", refused.err);
    drop(mount);
    std::fs::write(folder.join("mnt/file"), "").unwrap();
    let refused = run_in(&folder, again);
    assert!(refused.err.contains("mnt is not empty"), "{}", refused.err);
}

#[test]
fn an_image_that_is_too_large_or_never_comes_does_not_hold_the_command() {
    let folder = fresh("served-large");
    File::create(folder.join("disk.img")).unwrap().set_len(1 << 42).unwrap();
    let large = [&["card", "serve"], &SMALL[..], &["--vhost-user", "s", "--image"]].concat();
    let refused = run_in(&folder, [&large[..], &["disk.img"]].concat());
    assert!(refused.err.contains("the image is larger than the card"), "{}", refused.err);
    let refused = run_in(&folder, [&large[..], &["."]].concat());
    assert!(refused.err.contains(".: Is a directory"), "{}", refused.err);
    assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_floatgate"));
    let mut child = command.args(large).arg("pipe").current_dir(&folder).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(15));
}

#[test]
fn the_account_is_printed_also_without_room_for_the_trace() {
    let Some((_, mut mount)) = serve("served-full", &[&SMALL[..], &["--record", "/dev/full"]].concat())
    else {
        return;
    };
    std::fs::read(mount.directory.join("card")).unwrap();
    mount.signal("-INT");
    assert_eq!(mount.child.wait().unwrap().code(), Some(2));
    let account: Value = serde_json::from_reader(mount.child.stdout.take().unwrap()).unwrap();
    assert!(account["read"]["requests"].as_u64().unwrap() > 0);
}

#[test]
fn a_filesystem_on_a_card_is_an_image_for_the_next() {
    if !has("mkfs.ext4") || !has("e2fsck") {
        return;
    }
    let small = ["emmc-16g", "--set", "card.capacity_bytes=64MiB", "--time-scale", "0"];
    let Some((folder, mount)) = serve("served-ext4", &small) else { return };
    let card = mount.directory.join("card");
    let card = card.to_str().unwrap();
    output("mkfs.ext4", &["-q", "-F", card]);
    assert!(output("e2fsck", &["-fn", card]).contains("/16384 files"));
    std::fs::copy(card, folder.join("disk.img")).unwrap();
    assert!(account(mount)["write"]["requests"].as_u64().unwrap() > 10);
    let image = folder.join("disk.img");
    let args = [&small[..], &["--image", image.to_str().unwrap()]].concat();
    let Some((_, mount)) = serve("served-image", &args) else { return };
    let again = std::fs::read(mount.directory.join("card")).unwrap();
    assert!(again == std::fs::read(image).unwrap());
    assert_eq!(account(mount)["write"]["requests"], 0, "the content was there before");
}

#[test]
fn the_factory_format_is_sound() {
    let cards = [
        ("kingston-class-10", "fsck.vfat", "121152 clusters"),
        ("toshiba-exceria-32g", "fsck.vfat", "clusters"),
        ("a2-128g", "fsck.exfat", "clean"),
    ];
    for (name, checker, expected) in cards {
        if !has(checker) || !has("losetup") {
            continue;
        }
        let args = [name, "--time-scale", "0", "--format", "factory"];
        let Some((_, mount)) = serve("served-format", &args) else { return };
        let card = mount.directory.join("card");
        let mut table = [0; 512];
        File::open(&card).unwrap().read_exact_at(&mut table, 0).unwrap();
        let start = u32::from_le_bytes(table[454..458].try_into().unwrap());
        let Some(device) = Loop::new(&card, &["-o", &(u64::from(start) * 512).to_string()]) else { return };
        let found = output(checker, &["-n", &device.0]);
        assert!(found.contains(expected), "{name}: {found}");
        drop(device);
        account(mount);
    }
}

/// Block-mapped cards; a few of them, or all with `./test --all`.
fn block_mapped() -> Vec<(String, Value)> {
    let is_all = std::env::var_os("FLOATGATE_TEST_ALL").is_some();
    let of = |name: String| {
        let part: Value = serde_json::from_str(&stdout(&format!("parts {name} --json"))).unwrap();
        (name, part["card"].clone())
    };
    let all = names("parts --kind sd-card", "part").into_iter().map(of);
    let few = ["kingston-class-10", "samsung-evo-16g"];
    all.filter(|(name, card)| {
        card["mapping"] == "block"
            && card.get("fake").is_none_or(Value::is_null)
            // A dying card does not live to the end.
            && card["wear"]["endurance_cycles"].as_u64().unwrap() >= 100
            && (is_all || few.contains(&&**name))
    })
    .collect()
}

fn bytes(value: &Value) -> u64 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, "B"));
    let shift = match unit {
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => 0,
    };
    number.parse::<u64>().unwrap() << shift
}

/// A number of flashbench: `1.13ms`, `451µs`, `68.6M/s`.
fn measured(text: &str) -> f64 {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '-')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    match &text[end..] {
        "ns" => number / 1e3,
        "ms" => number * 1e3,
        "K/s" => number / 1e3,
        "G/s" => number * 1e3,
        _ => number,
    }
}

/// The alignment from which on flashbench -a shows a difference.
fn step(table: &str) -> u64 {
    let words = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<(u64, f64)> = words.map(|words| (words[1].parse().unwrap(), measured(words[9]))).collect();
    // The plateau is that of the upper rows.
    let mut upper: Vec<f64> = rows.iter().take(5).map(|row| row.1).collect();
    upper.sort_by(f64::total_cmp);
    rows.iter().rev().find(|row| row.1 > upper[2] / 2.0).unwrap().0
}

#[test]
fn flashbench_sees_the_allocation_unit() {
    if !has("flashbench") {
        return;
    }
    let _turn = turn();
    for (name, card) in block_mapped() {
        // A weaker step is in the noise here, as it is on real cards.
        if card["timing"]["au_switch_us"].as_f64().unwrap() < 100.0 {
            continue;
        }
        let Some((_, mount)) = serve("served-align", &[&name]) else { return };
        let file = mount.directory.join("card");
        // Other work on this machine may spoil one run.
        let is_seen = (0..3).any(|_| {
            let table = output("flashbench", &["-a", "-b", "16384", "-c", "4", file.to_str().unwrap()]);
            eprintln!("{name}:\n{table}");
            step(&table) == bytes(&card["au_bytes"])
        });
        assert!(is_seen, "{name}");
        account(mount);
    }
}

#[test]
fn flashbench_sees_how_many_allocation_units_stay_open() {
    if !has("flashbench") {
        return;
    }
    let _turn = turn();
    for (name, card) in block_mapped() {
        let pinned = if card["fat"]["kind"] == "pinned" { card["fat"]["aus"].as_u64().unwrap() } else { 0 };
        let open = card["open_aus"].as_u64().unwrap() - pinned;
        let au = bytes(&card["au_bytes"]);
        let Some((_, mount)) = serve("served-open", &[&name, "--time-scale", "20"]) else { return };
        let file = mount.directory.join("card");
        // flashbench's buffers have 64 MiB. Its places are 12 of what it takes for an allocation unit apart, from an offset on.
        let erase = au.min(64 << 20);
        let offset = (au > erase).then(|| format!("--offset={au}"));
        let (erase, block) = (format!("--erasesize={erase}"), format!("--blocksize={}", erase / 32));
        let speed = |aus: u64| {
            let aus = format!("--open-au-nr={aus}");
            let file = file.to_str().unwrap();
            let options = ["--open-au", &aus, &erase, &block].into_iter();
            let options: Vec<&str> = options.chain(offset.as_deref()).chain([file]).collect();
            let table = output("flashbench", &options);
            let last = table.lines().last().and_then(|line| line.split_whitespace().nth(1));
            measured(last.unwrap_or_else(|| panic!("{name}: {table}")))
        };
        // A first time, so that closing a unit has something to copy.
        speed(open + 1);
        let collapses = (0..3).any(|_| {
            let (fits, beyond) = (speed(open), speed(open + 1));
            eprintln!("{name}: {fits} MB/s with {open} units, {beyond} with one more");
            fits > 3.0 * beyond
        });
        assert!(collapses, "{name}");
        account(mount);
    }
}

#[test]
fn flashbench_finds_no_limit_on_a_page_mapped_card() {
    if !has("flashbench") {
        return;
    }
    let _turn = turn();
    let small = ["a2-128g", "--set", "card.capacity_bytes=4GiB", "--time-scale", "20"];
    let Some((_, mount)) = serve("served-page-mapped", &small) else { return };
    let file = mount.directory.join("card");
    let file = file.to_str().unwrap();
    let speed = |aus: u64| {
        let aus = format!("--open-au-nr={aus}");
        let options = ["--open-au", &aus, "--random", "--erasesize=8388608", "--blocksize=1048576", file];
        let table = output("flashbench", &options);
        measured(table.lines().last().and_then(|line| line.split_whitespace().nth(1)).unwrap())
    };
    let stays_fast = (0..3).any(|_| {
        let (one, many) = (speed(1), speed(16));
        eprintln!("{one} MB/s with 1 unit, {many} with 16");
        many > one / 3.0
    });
    assert!(stays_fast);
    let has_no_step = (0..3).any(|_| {
        let table = output("flashbench", &["-a", "-b", "16384", "-c", "4", file]);
        eprintln!("{table}");
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.map(|words| measured(words[9]) / measured(words[3])).all(|share| share < 0.5)
    });
    assert!(has_no_step);
    account(mount);
}

/// A loop device over a file.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    pub(crate) fn new(file: &Path, options: &[&str]) -> Option<Self> {
        let run = Command::new("losetup").args(["-f", "--show"]).args(options).arg(file).output();
        let run = run.inspect_err(|error| eprintln!("skipped: losetup: {error}")).ok()?;
        if !run.status.success() {
            eprintln!("skipped: no loop device: {}", String::from_utf8_lossy(&run.stderr));
            return None;
        }
        Some(Self(String::from_utf8(run.stdout).unwrap().trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
fn f3probe_tells_fakes_apart() {
    if !has("f3probe") || !has("losetup") {
        return;
    }
    let _turn = turn();
    let fakes = [
        ("fake-wraps-32g", "wraparound"),
        ("fake-chain-32g", "chain"),
        ("fake-limbo-32g", "limbo"),
        ("fake-last-sector-32g", "limbo"),
        ("fake-cached-32g", "limbo"),
    ];
    for (name, kind) in fakes {
        let Some((_, mount)) = serve("served-fake", &[name, "--time-scale", "0"]) else { return };
        let Some(device) = Loop::new(&mount.directory.join("card"), &[]) else { return };
        // It draws the sectors that it tests, and overlooks 7 % of bad ones now and then.
        let is_found = (0..3).any(|_| {
            let found = output("f3probe", &["--destructive", &device.0]);
            eprintln!("{name}: {found}");
            found.contains(&format!("is a counterfeit of type {kind}\n"))
        });
        assert!(is_found, "{name}");
        drop(device);
        account(mount);
    }
}
