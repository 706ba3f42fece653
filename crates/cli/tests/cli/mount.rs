//! `floatgate image mount`, with the kernel of the host. Where that has no FUSE, or does not let us, the tests count as skipped.

#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use crate::support::{finish, floatgate, fresh, run_in};
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A mount that ends with the test.
struct Mount {
    child: Child,
    directory: PathBuf,
}

impl Mount {
    /// Mounts `image` of a folder in its `mnt`; `None` where the host does not let us.
    fn new(folder: &Path, image: &str, options: &[&str]) -> Option<Self> {
        let directory = folder.join("mnt");
        fs::create_dir_all(&directory).unwrap();
        let mut command = floatgate();
        command.args(["image", "mount", image, "mnt"]).args(options).current_dir(folder);
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut mount = Self { child, directory };
        for attempt in 0.. {
            if mount.is_mounted() {
                break;
            }
            if let Some(status) = mount.child.try_wait().unwrap() {
                let told = mount.told();
                assert!(told.contains("ermitted") || told.contains("ermission"), "{status}: {told}");
                eprintln!("skipped: the host does not let us mount: {told}");
                return None;
            }
            assert!(attempt < 6000, "not mounted after a minute");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(mount)
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.lines().any(|line| line.split(' ').nth(1) == self.directory.to_str())
    }

    /// What it printed until it ended.
    fn told(&mut self) -> String {
        let mut told = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        told
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) {
        self.signal("-INT");
        let status = self.child.wait().unwrap();
        let told = self.told();
        assert!(status.success(), "{told}");
        assert!(!self.is_mounted());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.is_mounted() {
            let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
        }
    }
}

/// A folder with images, where the host has FUSE.
fn folder(name: &str) -> Option<PathBuf> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
        eprintln!("skipped: /dev/fuse: {error}");
        return None;
    }
    let folder = fresh(name);
    crate::images::write(&folder);
    Some(folder)
}

/// What programs do with files.
fn work(root: &Path) {
    let at = |name: &str| root.join(name);
    fs::create_dir_all(at("a/b/c")).unwrap();
    for n in 0..200 {
        fs::write(at(&format!("a/b/file-{n}")), format!("{n}").repeat(n)).unwrap();
    }
    for n in (0..200).step_by(3) {
        fs::remove_file(at(&format!("a/b/file-{n}"))).unwrap();
    }
    fs::hard_link(at("a/b/file-1"), at("a/linked")).unwrap();
    symlink("../a/linked", at("a/soft")).unwrap();
    fs::rename(at("a/b/file-2"), at("a/b/file-4")).unwrap();
    fs::rename(at("a/b/c"), at("moved")).unwrap();
    assert!(fs::remove_dir(at("a/b")).is_err(), "not empty");
    let mut sparse = File::options().read(true).write(true).create_new(true).open(at("sparse")).unwrap();
    sparse.seek(SeekFrom::Start(300_000)).unwrap();
    sparse.write_all(b"in the middle").unwrap();
    sparse.set_len(500_000).unwrap();
    sparse.sync_all().unwrap();
    let mut appended = File::options().append(true).open(at("a/b/file-5")).unwrap();
    appended.write_all(b" and more").unwrap();
    File::options().write(true).open(at("a/b/file-7")).unwrap().set_len(3).unwrap();
    fs::set_permissions(at("a/b/file-8"), Permissions::from_mode(0o4751)).unwrap();
    let when = std::time::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    File::options().write(true).open(at("a/b/file-10")).unwrap().set_modified(when).unwrap();
    // Open without a name, and still there.
    let mut open = File::options().read(true).write(true).create_new(true).open(at("gone")).unwrap();
    open.write_all(b"still there").unwrap();
    fs::remove_file(at("gone")).unwrap();
    open.rewind().unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still there");
}

/// All below a directory, as lines; of the names in `left_out` at its top nothing.
fn tree(root: &Path, left_out: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if left_out.contains(&name.as_str()) {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.mode();
            lines.push(if metadata.is_dir() {
                pending.push(path.clone());
                format!("{name} {mode:o}")
            } else if metadata.is_symlink() {
                format!("{name} {mode:o} {:?}", fs::read_link(&path).unwrap())
            } else {
                let bytes = fs::read(&path).unwrap();
                let exact = if metadata.mtime() == 1_234_567_890 { metadata.mtime_nsec() } else { 0 };
                let sum = bytes.iter().fold(0_u64, |sum, &byte| sum.wrapping_mul(31) + u64::from(byte));
                format!("{name} {mode:o} {} links, {} bytes, {sum:x} {exact}", metadata.nlink(), bytes.len())
            });
        }
    }
    lines.sort();
    lines
}

const OWN: [&str; 4] = ["bin", "boot", "dev", "etc"];

#[test]
fn a_mounted_image_is_a_folder_like_any_other() {
    let Some(folder) = folder("mount") else { return };
    let plain = folder.join("plain");
    fs::create_dir(&plain).unwrap();
    work(&plain);
    let Some(mount) = Mount::new(&folder, "rootfs.ubi", &["--rw"]) else { return };
    let root = mount.directory.clone();
    work(&root);
    assert_eq!(tree(&root, &OWN), tree(&plain, &[]));
    assert!(fs::read_to_string(root.join("etc/fstab")).unwrap().starts_with("ubi0:"));
    let locked = run_in(&folder, ["image", "mkdir", "rootfs.ubi", "/new"]);
    assert!(locked.code == Some(2) && locked.err.contains("somebody else"), "{locked:?}");
    mount.end();
    let Some(mount) = Mount::new(&folder, "rootfs.ubi", &[]) else { return };
    assert_eq!(tree(&root, &OWN), tree(&plain, &[]), "from the image");
    let refused = fs::write(root.join("new"), b"").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    mount.end();
    let changed = run_in(&folder, ["image", "rm", "rootfs.ubi", "-r", "/a", "/moved", "/sparse"]);
    assert_eq!(changed.code, Some(0), "it was unmounted: {}", changed.err);
}

#[test]
fn what_was_synced_outlives_a_kill() {
    let Some(folder) = folder("mount-killed") else { return };
    let Some(mut mount) = Mount::new(&folder, "rootfs.ubi", &["--rw"]) else { return };
    let mut file = File::create(mount.directory.join("synced")).unwrap();
    file.write_all(&b"safe ".repeat(10_000)).unwrap();
    file.sync_all().unwrap();
    drop(file);
    mount.signal("-KILL");
    mount.child.wait().unwrap();
    drop(mount);
    let dirty = run_in(&folder, ["image", "mkdir", "rootfs.ubi", "/new"]);
    assert!(dirty.code == Some(2) && dirty.err.contains("--recover"), "{dirty:?}");
    let recovered = run_in(&folder, ["image", "mkdir", "rootfs.ubi", "/new", "--recover"]);
    assert_eq!(recovered.code, Some(0), "{}", recovered.err);
    let found = finish(floatgate().args(["image", "cat", "rootfs.ubi", "/synced"]).current_dir(&folder));
    assert_eq!(found.out, "safe ".repeat(10_000));
}

#[test]
fn a_device_in_use_is_only_read_and_stays_as_it_is() {
    let Some(folder) = folder("mount-dump") else { return };
    let before = fs::read(folder.join("dump.bin")).unwrap();
    let Some(mount) = Mount::new(&folder, "dump.bin", &[]) else { return };
    let lately = fs::read_to_string(mount.directory.join("lately")).unwrap();
    assert_eq!(lately, "written after the last commit\n", "it is only in the journal");
    mount.end();
    assert_eq!(fs::read(folder.join("dump.bin")).unwrap(), before);
    let dirty = run_in(&folder, ["image", "mount", "dump.bin", "mnt", "--rw"]);
    assert!(dirty.code == Some(2) && dirty.err.contains("--recover"), "{dirty:?}");
}
