//! `floatgate image mount`, with the kernel of the host. Where that has no FUSE, or does not let us, the tests count as skipped.

use crate::mounted::{Mount, has_fuse};
use crate::support::{finish, floatgate, fresh, run_in};
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A folder with images, where the host has FUSE.
fn folder(name: &str) -> Option<PathBuf> {
    if !has_fuse() {
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
    // Renamed over an open file: that one stays as it was.
    fs::write(at("a/old"), "old contents").unwrap();
    let mut replaced = File::open(at("a/old")).unwrap();
    fs::write(at("a/new"), "new").unwrap();
    fs::rename(at("a/new"), at("a/old")).unwrap();
    let mut text = String::new();
    replaced.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), fs::read_to_string(at("a/old")).unwrap().as_str()), ("old contents", "new"));
    // A change of owner takes away what lets a file run as another user, of root's files too.
    fs::write(at("a/program"), "x").unwrap();
    fs::set_permissions(at("a/program"), Permissions::from_mode(0o6755)).unwrap();
    let _ = std::os::unix::fs::chown(at("a/program"), Some(12), Some(34));
    // Asked for before it is there, and after it is gone.
    assert!(!at("later").exists());
    fs::write(at("later"), "").unwrap();
    assert!(at("later").exists());
    fs::remove_file(at("later")).unwrap();
    assert!(!at("later").exists());
    let fifo =
        rustix::fs::mknodat(rustix::fs::CWD, at("a/fifo"), rustix::fs::FileType::Fifo, 0o640.into(), 0);
    fifo.unwrap();
    // Open without a name, and still there.
    let mut open = File::options().read(true).write(true).create_new(true).open(at("gone")).unwrap();
    open.write_all(b"still there").unwrap();
    fs::remove_file(at("gone")).unwrap();
    open.rewind().unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still there");
}

/// The kernel believes what it was told of names and attributes, but not longer than it is so.
fn knows_what_changed(root: &Path) {
    let (folder, file) = (root.join("a"), root.join("a/file"));
    let links = |path: &Path| fs::metadata(path).unwrap().nlink();
    let before = links(&folder);
    fs::create_dir(folder.join("inside")).unwrap();
    assert_eq!(links(&folder), before + 1);
    fs::remove_dir(folder.join("inside")).unwrap();
    assert_eq!(links(&folder), before);
    fs::write(&file, "x").unwrap();
    fs::hard_link(&file, folder.join("second")).unwrap();
    assert_eq!(links(&file), 2);
    fs::remove_file(folder.join("second")).unwrap();
    assert_eq!(links(&file), 1);
    let changed = || fs::metadata(&file).map(|metadata| (metadata.ctime(), metadata.ctime_nsec())).unwrap();
    let before = changed();
    std::thread::sleep(Duration::from_millis(20));
    let flags = rustix::fs::ioctl_getflags(File::open(&file).unwrap()).unwrap();
    rustix::fs::ioctl_setflags(File::open(&file).unwrap(), flags ^ rustix::fs::IFlags::COMPRESSED).unwrap();
    assert!(changed() > before, "flags were set");
    fs::remove_file(file).unwrap();
}

/// All below a directory, as lines; of the names in `left_out` at its top nothing.
pub(crate) fn tree(root: &Path, left_out: &[&str]) -> Vec<String> {
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
            } else if !metadata.is_file() {
                format!("{name} {mode:o} {:?}", metadata.file_type())
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
    knows_what_changed(&root);
    assert!(fs::read_to_string(root.join("etc/fstab")).unwrap().starts_with("ubi0:"));
    let locked = run_in(&folder, ["image", "mkdir", "rootfs.ubi", "/new"]);
    assert!(locked.code == Some(2) && locked.err.contains("somebody else"), "{locked:?}");
    mount.end();
    let Some(mount) = Mount::new(&folder, "rootfs.ubi", &[]) else { return };
    assert_eq!(tree(&root, &OWN), tree(&plain, &[]), "from the image");
    let locked = run_in(&folder, ["image", "mkdir", "rootfs.ubi", "/new"]);
    assert!(locked.code == Some(2) && locked.err.contains("the file is mounted"), "{locked:?}");
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
