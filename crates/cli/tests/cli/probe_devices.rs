//! `probe` on block devices: whatever is in the way or goes wrong, nothing is written that was not announced, and everything that can be restored
//! is, byte by byte. Where the host has no loop devices, or nobody may make them, the tests count as skipped.

use crate::mounted::Mount;
use crate::probe::{killed, noise, started};
use crate::served::{Loop, has};
use crate::support::{Run, finish, floatgate, fresh};
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// A file of noise and a loop device over it.
struct Device {
    folder: PathBuf,
    file: PathBuf,
    before: Vec<u8>,
    device: Loop,
}

impl Device {
    fn new(name: &str, bytes: usize, options: &[&str]) -> Option<Self> {
        Self::with(name, noise(bytes, 1), options)
    }

    fn with(name: &str, before: Vec<u8>, options: &[&str]) -> Option<Self> {
        let folder = fresh(name);
        let file = folder.join("disk");
        std::fs::write(&file, &before).unwrap();
        let device = Loop::new(&file, options)?;
        Some(Self { folder, file, before, device })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = floatgate();
        command.arg("probe").arg(&self.device.0).args(args).current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn probe(&self, args: &[&str]) -> Run {
        finish(&mut self.command(args))
    }

    fn assert_unchanged(&self, context: &str) {
        let now = std::fs::read(&self.file).unwrap();
        let first = now.iter().zip(&self.before).position(|(now, before)| now != before);
        assert!(first.is_none() && now.len() == self.before.len(), "{context}: {first:?}, {} B", now.len());
    }

    /// Refused with and without writes, or with writes alone.
    fn assert_refused(&self, reason: &str, reads_too: bool) {
        let modes: &[&[&str]] =
            if reads_too { &[&[], &["--write", "--yes"]] } else { &[&["--write", "--yes"]] };
        for mode in modes {
            let run = self.probe(mode);
            assert_eq!(run.code, Some(2), "{reason}: {}", run.err);
            assert!(run.err.contains(reason), "{reason}: {}", run.err);
        }
    }
}

fn shell(command: &str) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let run = Command::new("sh").args(["-c", command]).env("PATH", path).output().unwrap();
    if !run.status.success() {
        eprintln!("{command}: {}", String::from_utf8_lossy(&run.stderr));
    }
    run.status.success()
}

/// What a probe said after that, and its exit code.
fn ended((mut child, mut messages): (Child, BufReader<ChildStderr>)) -> (Option<i32>, String) {
    let mut rest = String::new();
    messages.read_to_string(&mut rest).unwrap();
    let mut json = String::new();
    child.stdout.take().unwrap().read_to_string(&mut json).unwrap();
    (child.wait().unwrap().code(), rest)
}

#[test]
fn a_whole_probe_leaves_a_device_as_it_was() {
    let Some(device) = Device::new("probe-loop", 24 * MIB + 512, &[]) else { return };
    let run = device.probe(&["--write", "--yes", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("restored"), "{}", run.err);
    let name = device.device.0.trim_start_matches("/dev/");
    assert!(Path::new(&format!("/sys/block/{name}/loop")).exists());
    device.assert_unchanged("whole");
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["answers"]["capacity"]["value"], 24 * MIB + 512);
    // It is an image: its times are those of the disk that holds it.
    for question in ["read_speed", "write_speed", "erase_block", "read_latency"] {
        assert!(report["answers"][question]["value"].is_null(), "{question}");
    }
}

#[test]
fn sectors_of_4_kib_are_written_and_restored_whole() {
    let mut disk = noise(24 * MIB, 3);
    disk[..3 * 4096].fill(0);
    // A protective MBR and the header of a GPT in the second sector, of 4 KiB, that states no entries.
    disk[446 + 4] = 0xEE;
    disk[446 + 8] = 1;
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    disk[4096..4104].copy_from_slice(b"EFI PART");
    let Some(device) = Device::with("probe-4k", disk, &["--sector-size", "4096"]) else { return };
    let run = device.probe(&["--write", "--yes", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    device.assert_unchanged("sectors of 4 KiB");
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["answers"]["fake"]["value"], "none");
    assert_eq!(report["partition"]["sector_bytes"], 4096);
    assert!(report["partition"]["findings"][0].as_str().unwrap().contains("length of the header"));
}

#[test]
fn a_device_that_is_mounted_or_swap_is_refused() {
    let Some(mut device) = Device::with("probe-mounted", vec![0; 24 * MIB], &[]) else { return };
    if !has("mkfs.ext4") || !has("mkswap") {
        return;
    }
    let (name, place) = (device.device.0.clone(), device.folder.join("mnt"));
    std::fs::create_dir(&place).unwrap();
    assert!(shell(&format!("mkfs.ext4 -q {name}")));
    if shell(&format!("mount {name} {}", place.display())) {
        device.assert_refused(&format!("it is mounted on {}", place.display()), true);
        // A file below the mount is another device's business; the file below the loop device is this one's.
        let run = finish(floatgate().arg("probe").arg(&device.file));
        assert_eq!(run.code, Some(2), "{}", run.err);
        for part in
            ["is a loop device over it", "use a reader on another computer, or boot from another medium"]
        {
            assert!(run.err.contains(part), "{}", run.err);
        }
        assert!(shell(&format!("umount {}", place.display())));
    }
    assert!(shell(&format!("mkswap {name}")));
    if shell(&format!("swapon {name}")) {
        device.assert_refused(&format!("{name} is used as swap"), true);
        assert!(shell(&format!("swapoff {name}")));
    }
    device.before = std::fs::read(&device.file).unwrap();
    // Nobody uses it now, but the signature is there.
    device.assert_refused("it is made for swap", false);
    device.assert_unchanged("swap");
    assert_eq!(device.probe(&[]).code, Some(0));
}

#[test]
fn members_of_raid_and_lvm_are_refused() {
    let with = |at: usize, bytes: &[u8]| {
        let mut disk = noise(24 * MIB, 2);
        disk[at..at + bytes.len()].copy_from_slice(bytes);
        disk
    };
    let raid = [0xFC, 0x4E, 0x2B, 0xA9, 1, 0, 0, 0];
    let mut lvm = with(512, b"LABELONE");
    lvm[512 + 24..512 + 32].copy_from_slice(b"LVM2 001");
    for (name, disk, reason) in [
        ("probe-raid-1.2", with(4096, &raid), "it is a member of a RAID of Linux"),
        ("probe-raid-1.0", with(24 * MIB - 8192, &raid), "it is a member of a RAID of Linux"),
        ("probe-lvm", lvm, "it is a physical volume of LVM"),
    ] {
        let Some(device) = Device::with(name, disk, &[]) else { return };
        device.assert_refused(reason, false);
        device.assert_unchanged(name);
    }
    // As LVM's own tool makes them.
    let Some(device) = Device::with("probe-pvcreate", vec![0; 24 * MIB], &[]) else { return };
    if has("pvcreate")
        && shell(&format!(
            "pvcreate -qq --config 'devices{{use_devicesfile=0 filter=[\"a|{0}|\"]}}' {0} < /dev/null",
            device.device.0
        ))
    {
        device.assert_refused("it is a physical volume of LVM", false);
    }
}

#[test]
fn a_device_below_another_is_refused() {
    let Some(device) = Device::new("probe-holder", 24 * MIB, &[]) else { return };
    let name = format!("floatgate-{}", std::process::id());
    if !has("dmsetup") {
        return;
    }
    let sectors = 24 * MIB / 512;
    if shell(&format!("dmsetup create {name} --table '0 {sectors} linear {} 0'", device.device.0)) {
        device.assert_refused("is built on it", true);
        assert!(shell(&format!("dmsetup remove {name}")));
    } else {
        eprintln!("skipped: no device mapper here");
    }
    device.assert_unchanged("holder");
}

#[test]
fn a_read_only_device_is_read_and_not_written() {
    let Some(device) = Device::new("probe-read-only", 24 * MIB, &["-r"]) else { return };
    let run = device.probe(&["--write", "--yes"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("read-only") && !run.err.contains("restor"), "{}", run.err);
    assert_eq!(device.probe(&[]).code, Some(0));
    device.assert_unchanged("read-only");
}

/// The file below the loop device is cut, and again where a write makes it longer: what was behind the cut fails from then on.
#[test]
fn a_part_that_vanishes_does_not_keep_the_rest_from_being_restored() {
    let Some(device) = Device::new("probe-vanishes", 64 * MIB, &[]) else { return };
    // At once: the first tests write all over the device, later ones only where they know an allocation unit.
    let run = started(&mut device.command(&["--write", "--yes", "--json"]));
    let file = File::options().write(true).open(&device.file).unwrap();
    let is_over = AtomicBool::new(false);
    let (code, messages) = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                file.set_len(40 * MIB as u64).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let ended = ended(run);
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    assert!(matches!(code, Some(1 | 2)), "{code:?}: {messages}");
    assert!(messages.contains("Input/output error") || messages.contains("restoring"), "{messages}");
    let mut rest = vec![0; 40 * MIB];
    File::open(&device.file).unwrap().read_exact_at(&mut rest, 0).unwrap();
    let first = rest.iter().zip(&device.before).position(|(now, before)| now != before);
    assert_eq!(first, None, "{messages}");
}

#[test]
fn sectors_that_cannot_be_read_end_a_probe_in_order() {
    let Some(device) = Device::new("probe-errors", 64 * MIB, &[]) else { return };
    File::options().write(true).open(&device.file).unwrap().set_len(48 * MIB as u64).unwrap();
    let run = device.probe(&["--write", "--yes"]);
    assert!(matches!(run.code, Some(1 | 2)), "{:?} {}", run.code, run.err);
    assert!(run.err.contains("Input/output error"), "{}", run.err);
    assert!(std::fs::read(&device.file).unwrap() == device.before[..48 * MIB], "{}", run.err);
}

/// At many moments, some of which are before and some behind the probe.
#[test]
fn an_interrupt_at_any_moment_leaves_the_device_as_it_was() {
    let Some(device) = Device::new("probe-interrupts", 16 * MIB, &[]) else { return };
    let mut interrupted = 0;
    for moment in 0..14_u32 {
        let (child, messages) = started(&mut device.command(&["--write", "--yes", "--json"]));
        // Not in equal distances, and shorter ones at the beginning. A whole probe of an image takes some 0.1 to 0.3 s.
        std::thread::sleep(Duration::from_millis(u64::from(moment * moment)));
        let id = child.id().to_string();
        let signal = ["TERM", "QUIT", "USR1", "ALRM", "HUP"][moment as usize % 5];
        assert!(shell(&format!("kill -{signal} {id} 2> /dev/null; kill -{signal} {id} 2> /dev/null; true")));
        let (code, messages) = ended((child, messages));
        assert!(matches!(code, Some(0 | 1)), "moment {moment}: {code:?}: {messages}");
        interrupted += u32::from(code == Some(1));
        device.assert_unchanged(&format!("moment {moment}: {messages}"));
    }
    assert!(interrupted > 5, "{interrupted} of 14");
}

/// Nothing can be done at the end of a process that is killed, but what it has overwritten is saved.
#[test]
fn what_a_killed_probe_has_overwritten_is_written_back_to_that_device() {
    let Some(device) = Device::new("probe-killed", 64 * MIB, &[]) else { return };
    let mut command = device.command(&["--write", "--yes", "--keep", "kept"]);
    let kept = killed(&mut command, || std::fs::read(&device.file).unwrap() != device.before);
    let kept = device.folder.join(kept).to_str().unwrap().to_owned();
    let refused = device.probe(&["--restore", &kept]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    // Another probe would save and restore the contents that the killed one has left.
    let again = device.probe(&["--write", "--yes", "--keep", "kept"]);
    assert_eq!(again.code, Some(2), "{}", again.err);
    assert!(again.err.contains("--restore kept/"), "{}", again.err);
    std::fs::rename(device.folder.join("kept"), device.folder.join("floatgate")).unwrap();
    let state = device.folder.to_str().unwrap();
    let only_read = finish(device.command(&["--minutes", "1"]).env("XDG_STATE_HOME", state));
    assert!(only_read.err.contains("--restore"), "{}", only_read.err);
    std::fs::rename(device.folder.join("floatgate"), device.folder.join("kept")).unwrap();
    // Of a device of another size it says nothing.
    let Some(other) = Device::new("probe-killed-other", 24 * MIB, &[]) else { return };
    let run = other.probe(&["--restore", &kept, "--yes"]);
    assert!(
        run.code == Some(2) && run.err.contains("saved from a device of 64 MiB, this one has 24 MiB"),
        "{}",
        run.err
    );
    other.assert_unchanged("other");
    // Nor of another one of this size, with the same contents.
    let Some(twin) = Device::new("probe-killed-twin", 64 * MIB, &[]) else { return };
    let run = twin.probe(&["--restore", &kept, "--yes"]);
    assert!(run.code == Some(2) && run.err.contains("a device with inode of its file"), "{}", run.err);
    twin.assert_unchanged("twin");
    let run = device.probe(&["--restore", &kept, "--yes"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    device.assert_unchanged(&run.err);
    assert!(!Path::new(&kept).exists(), "all that was kept is where it came from");
}

#[test]
fn without_room_for_what_is_overwritten_nothing_is() {
    let Some(device) = Device::new("probe-no-room", 24 * MIB, &[]) else { return };
    if !has("mkfs.ext4") {
        return;
    }
    let script = format!(
        "mkdir memory disk-ro disk-small && mount -t tmpfs none memory && mount --bind disk-ro disk-ro \
           && mount -o remount,bind,ro disk-ro && truncate -s 4M small && mkfs.ext4 -q -F small \
           && mount -o loop small disk-small || exit 77
         for folder in memory memory/below disk-ro disk-ro/below disk-small; do
           {} probe {} --write --yes --keep $folder; echo \"$folder: exit $?\" >&2
         done",
        env!("CARGO_BIN_EXE_floatgate"),
        device.device.0
    );
    let mut command = Command::new("unshare");
    let run = finish(command.args(["--mount", "bash", "-c", &script]).current_dir(&device.folder));
    if run.code == Some(77) || run.err.contains("unshare") {
        eprintln!("skipped: no mount namespace here: {}", run.err);
        return;
    }
    let mut rest = run.err.as_str();
    for (folder, reason, code) in [
        ("memory", "a filesystem in memory, so that a loss of power would lose", 2),
        ("memory/below", "a filesystem in memory", 2),
        ("disk-ro", "the filesystem is read-only", 2),
        ("disk-ro/below", "the filesystem is read-only", 2),
        ("disk-small", "are saved before they are overwritten, and", 1),
    ] {
        let (said, after) = rest.split_once(&format!("{folder}: exit {code}\n")).expect(&run.err);
        assert!(said.contains(reason) && !said.contains("restored"), "{folder}: {said}");
        rest = after;
    }
    device.assert_unchanged("no room");
}

/// A served card whose server dies: the probe ends, answers with what it has, and says what it could not restore and where that is kept.
#[test]
fn a_card_that_is_taken_away_ends_a_probe() {
    if !crate::mounted::has_fuse() {
        return;
    }
    let folder = fresh("probe-taken-away");
    let args =
        ["card", "serve", "kingston-class-10", "--set", "card.capacity_bytes=64MiB", "--time-scale", "0"];
    let Some(mount) = Mount::by(&folder, &[&args[..], &["--fuse", "mnt"]].concat()) else { return };
    let card = mount.directory.join("card");
    let mut command = floatgate();
    command.arg("probe").arg(&card).args(["--write", "--yes", "--keep", ".", "--raw", "raw.csv"]);
    command.current_dir(&folder).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    mount.signal("-KILL");
    let mut waits = (0..1200).filter_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        child.try_wait().unwrap()
    });
    let status = waits.next().expect("the probe does not end");
    let mut messages = String::new();
    child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
    assert!(matches!(status.code(), Some(1 | 2)), "{status}: {messages}");
    assert!(!Path::new(&card).exists() || messages.contains("error"), "{messages}");
    if messages.contains("not restored") {
        let (_, kept) = messages.rsplit_once("--restore ").unwrap();
        assert!(folder.join(kept.split('`').next().unwrap()).is_file(), "{messages}");
        assert!(std::fs::read_to_string(folder.join("raw.csv")).unwrap().lines().count() > 10);
    }
}
