//! A mounted image driven by programs that nobody here wrote. Those that are missing are skipped; `./test` says so.

use crate::mount::tree;
use crate::mounted::{Mount, has_fuse};
use crate::support::{floatgate, fresh, run_in};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How much each program does.
struct Load {
    /// MiB of the volume.
    volume_mib: u32,
    /// The tree that tar, rsync and git copy.
    tree: PathBuf,
    /// Rows of a database.
    rows: u32,
    /// Seconds of dbench.
    dbench_seconds: u32,
    /// MiB of each file of fio.
    fio_mib: u32,
    /// Random operations on one file.
    operations: u32,
    /// Names that `rm -rf` removes.
    names: u32,
}

/// Runs a program to its end, which must be a success; its stdout. Nothing where it is not installed.
fn program(words: &[&str], folder: &Path) -> Option<String> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).env("LC_ALL", "C").env("GIT_CONFIG_NOSYSTEM", "1");
    // Git refuses what another user owns, and reads the settings of whoever runs the tests.
    command.env("HOME", folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {} is not installed", words[0]);
            return None;
        }
        output => output.unwrap(),
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{words:?}: {}\n{out}{err}", output.status);
    Some(out)
}

fn words(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// An empty filesystem in a volume of so many MiB, on NAND with pages of 2 KiB.
fn build(folder: &Path, volume_mib: u32) {
    fs::create_dir_all(folder.join("empty")).unwrap();
    let size = format!("{volume_mib}MiB");
    let sizes = ["--page-size", "2048", "--peb-size", "128KiB", "--volume-size", &size];
    let built = run_in(folder, [&["image", "build", "empty", "-o", "image.ubi"][..], &sizes].concat());
    assert_eq!(built.code, Some(0), "{}", built.err);
}

impl Load {
    /// What fits into `./test`.
    fn small() -> Self {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        Self {
            volume_mib: 64,
            tree,
            rows: 2000,
            dbench_seconds: 2,
            fio_mib: 2,
            operations: 1500,
            names: 1000,
        }
    }

    fn large() -> Self {
        Self {
            volume_mib: 600,
            tree: "/usr/include".into(),
            rows: 100_000,
            dbench_seconds: 20,
            fio_mib: 32,
            operations: 50_000,
            names: 50_000,
        }
    }

    fn run(&self, mount: &Path, host: &Path) {
        self.tar(mount, host);
        self.rsync(mount, host);
        self.git(mount, host);
        self.sqlite(mount);
        self.dbench(mount);
        self.fio(mount);
        self.random(mount);
        self.remove(mount);
    }

    fn tar(&self, mount: &Path, host: &Path) {
        let (archive, copy) = (host.join("tree.tar"), mount.join("tar"));
        if program(&["tar", "-cf", words(&archive), "-C", words(&self.tree), "."], host).is_none() {
            return;
        }
        fs::create_dir(&copy).unwrap();
        program(&["tar", "-xf", words(&archive), "-C", words(&copy)], host);
        program(&["tar", "-df", words(&archive), "-C", words(&copy)], host);
        program(&["diff", "-r", "--no-dereference", words(&self.tree), words(&copy)], host);
    }

    /// The second run has nothing to do.
    fn rsync(&self, mount: &Path, host: &Path) {
        let (from, to) = (host.join("rsync"), mount.join("rsync"));
        fs::create_dir(&from).unwrap();
        program(&["cp", "-r", words(&self.tree), words(&from)], host);
        fs::write(from.join("one"), "linked").unwrap();
        fs::hard_link(from.join("one"), from.join("two")).unwrap();
        std::os::unix::fs::symlink("one", from.join("soft")).unwrap();
        let name = "user.of a test";
        // Not every host's filesystem has them.
        let _ = rustix::fs::setxattr(from.join("one"), name, b"some value", rustix::fs::XattrFlags::empty());
        let arguments = ["rsync", "-aHAX", "--itemize-changes", &format!("{}/", words(&from)), words(&to)];
        if let Some(first) = program(&arguments, host) {
            assert!(first.lines().count() > 4, "{first}");
            assert_eq!(program(&arguments, host).unwrap(), "", "the second run");
        }
    }

    fn git(&self, mount: &Path, host: &Path) {
        let (origin, clone) = (host.join("origin"), mount.join("clone"));
        program(&["cp", "-r", words(&self.tree), words(&origin)], host);
        let git = |folder: &Path, arguments: &str| {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"];
            let arguments: Vec<_> = arguments.split(' ').collect();
            program(&[&["git"][..], &identity[..], &arguments[..]].concat(), folder)
        };
        if git(&origin, "init -q").is_none() {
            return;
        }
        git(&origin, "add -A");
        git(&origin, "commit -q -m one");
        git(host, &format!("clone -q --no-local {} {}", words(&origin), words(&clone)));
        fs::write(clone.join("more"), "more\n").unwrap();
        git(&clone, "add more");
        git(&clone, "commit -q -m two");
        git(&clone, "gc -q");
        git(&clone, "fsck --strict --full");
        assert_eq!(git(&clone, "status --porcelain").unwrap(), "");
    }

    /// With a rollback journal, and with a write-ahead log, which is mapped into memory.
    fn sqlite(&self, mount: &Path) {
        for journal in ["delete", "wal"] {
            let file = mount.join(format!("{journal}.db"));
            let script = format!(
                "PRAGMA journal_mode={journal}; CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB);
                 BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                 INSERT INTO t SELECT i, hex(i * 7919), randomblob(i % 700) FROM n; COMMIT;
                 CREATE INDEX i ON t (b); DELETE FROM t WHERE a % 3 = 0; UPDATE t SET c = zeroblob(100) WHERE a % 5 = 0;
                 VACUUM; PRAGMA integrity_check; SELECT count(*) FROM t;",
                rows = self.rows
            );
            if let Some(out) = program(&["sqlite3", words(&file), &script], mount) {
                let left = self.rows - self.rows / 3;
                assert!(out.ends_with(&format!("ok\n{left}\n")), "{journal}: {out}");
            }
        }
    }

    fn dbench(&self, mount: &Path) {
        let seconds = self.dbench_seconds.to_string();
        let folder = mount.join("dbench");
        fs::create_dir(&folder).unwrap();
        let load = "/usr/share/dbench/client.txt";
        program(&["dbench", "-c", load, "-D", words(&folder), "-t", &seconds, "-x", "-s", "2"], mount);
    }

    /// Random writes of random lengths, by `write`, asynchronously, and into mapped memory; read back and compared.
    fn fio(&self, mount: &Path) {
        let size = format!("--size={}M", self.fio_mib);
        for (engine, sizes) in [("psync", "512-32k"), ("libaio", "512-32k"), ("mmap", "4k-32k")] {
            let sizes = format!("--bsrange={sizes}");
            let fixed = ["--rw=randrw", &sizes, "--verify=crc32c", "--fallocate=none", "--minimal"];
            let (name, engine) = (format!("--name={engine}"), format!("--ioengine={engine}"));
            let arguments = ["fio", &name, &engine, &size, "--fsync=64", "--end_fsync=1", "--randseed=5"];
            program(&[&arguments[..], &fixed].concat(), mount);
        }
    }

    /// What fsx does: writes, cuts, grows, reopens and reads a file at random, and compares it with memory all the time.
    fn random(&self, mount: &Path) {
        const MOST: u64 = 300_000;
        let path = mount.join("random");
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let (mut file, mut model) = (open(), Vec::new());
        let mut state = 1_u64;
        let mut below = |limit: u64| {
            // Knuth's MMIX.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for step in 0..self.operations {
            let (at, len) = (below(MOST), below(20_000));
            let end = usize::try_from(at + len).unwrap();
            match below(8) {
                0..=3 => {
                    let byte = u8::try_from(below(256)).unwrap();
                    let data: Vec<u8> =
                        (0..len).map(|n| if byte % 2 == 0 { byte } else { n as u8 ^ byte }).collect();
                    file.write_all_at(&data, at).unwrap();
                    model.resize(model.len().max(end), 0);
                    model[end - data.len()..end].copy_from_slice(&data);
                }
                4 => {
                    file.set_len(at).unwrap();
                    model.resize(usize::try_from(at).unwrap(), 0);
                }
                5 => file.sync_data().unwrap(),
                6 => file = open(),
                _ => {}
            }
            assert_eq!(file.metadata().unwrap().len(), model.len() as u64, "step {step}");
            let from = usize::try_from(at).unwrap().min(model.len());
            let wanted = &model[from..end.min(model.len())];
            let mut read = vec![0xA5; wanted.len()];
            file.read_exact_at(&mut read, from as u64).unwrap();
            assert!(read == wanted, "step {step}, byte {from}");
        }
        assert!(fs::read(&path).unwrap() == model);
    }

    /// `rm -rf` reads a directory and removes what it finds meanwhile.
    fn remove(&self, mount: &Path) {
        let folder = mount.join("many");
        fs::create_dir(&folder).unwrap();
        for n in 0..self.names {
            File::create(folder.join(format!("name-{n}"))).unwrap();
        }
        let mut seen: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), self.names as usize, "each name once");
        program(&["rm", "-rf", words(&folder)], mount);
        assert!(!folder.exists());
    }

    /// Everything, then what is in the image against what was on the mount.
    fn drive(&self, name: &str) {
        if !has_fuse() {
            return;
        }
        let folder = fresh(name);
        let host = folder.join("host");
        fs::create_dir(&host).unwrap();
        build(&folder, self.volume_mib);
        let Some(mount) = Mount::new(&folder, "image.ubi", &["--rw"]) else { return };
        self.run(&mount.directory, &host);
        let wanted = tree(&mount.directory, &[]);
        mount.end();
        let checked = run_in(&folder, ["image", "check", "image.ubi"]);
        assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
        let extracted = run_in(&folder, ["image", "extract", "image.ubi", "extracted"]);
        assert_eq!(extracted.code, Some(0), "{}{}", extracted.out, extracted.err);
        assert_eq!(tree(&folder.join("extracted"), &[]), wanted);
        let Some(mount) = Mount::new(&folder, "image.ubi", &[]) else { return };
        assert_eq!(tree(&mount.directory, &[]), wanted, "mounted read-only");
        mount.end();
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn programs_work_on_a_mounted_image() {
    Load::small().drive("programs");
}

#[test]
#[ignore = "slow: ./test --all"]
fn slow_programs_work_on_a_large_mounted_image() {
    Load::large().drive("slow-programs");
}

/// Bytes that a file takes until there is no space, of noise, which does not compress.
fn fill(path: &Path) -> u64 {
    let mut state = 9_u64;
    let mut noise = vec![0; 50_000];
    let file = File::create(path).unwrap();
    for written in 0_u64.. {
        for byte in &mut noise {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        if let Err(error) = file.write_all_at(&noise, written * noise.len() as u64) {
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
            break;
        }
    }
    // What was written is kept.
    file.sync_all().unwrap();
    file.metadata().unwrap().len()
}

#[test]
fn a_full_mount_says_so_and_can_be_emptied() {
    if !has_fuse() {
        return;
    }
    let folder = fresh("mount-full");
    build(&folder, 8);
    let Some(mount) = Mount::new(&folder, "image.ubi", &["--rw"]) else { return };
    let blocks = || {
        let space = rustix::fs::statvfs(&mount.directory).unwrap();
        assert_eq!((space.f_bsize, space.f_namemax), (4096, 255));
        assert!(space.f_bavail <= space.f_bfree && space.f_bfree <= space.f_blocks);
        space.f_bavail
    };
    let before = blocks();
    let path = mount.directory.join("full");
    let first = fill(&path);
    assert!(first / 4096 >= before, "{first} bytes, though {before} blocks were said to be free");
    assert!(blocks() < before / 10);
    fs::remove_file(&path).unwrap();
    // The kernel tells a FUSE filesystem later that the removed file is closed.
    let is_free = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        blocks() > before / 2
    });
    assert!(is_free, "a removed file keeps its blocks");
    let second = fill(&path);
    assert!(second >= first * 9 / 10, "{first} bytes, then {second}");
    fs::remove_file(&path).unwrap();
    fs::write(mount.directory.join("small"), "again").unwrap();
    assert!(blocks() > before * 9 / 10);
    mount.end();
    let checked = run_in(&folder, ["image", "check", "image.ubi"]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
}

#[test]
fn an_image_is_mounted_once_for_writing() {
    if !has_fuse() {
        return;
    }
    let folder = fresh("mount-twice");
    build(&folder, 8);
    let Some(mount) = Mount::new(&folder, "image.ubi", &["--rw"]) else { return };
    fs::create_dir(folder.join("other")).unwrap();
    for options in [&["--rw"][..], &[]] {
        let refused = run_in(&folder, [&["image", "mount", "image.ubi", "other"][..], options].concat());
        assert!(refused.code == Some(2) && refused.err.contains("somebody else"), "{refused:?}");
    }
    mount.end();
    let on_file = run_in(&folder, ["image", "mount", "image.ubi", "image.ubi"]);
    assert!(on_file.code == Some(2) && on_file.err.contains("directory"), "{on_file:?}");
    let nowhere = run_in(&folder, ["image", "mount", "image.ubi", "nowhere"]);
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
}

/// Waits until the folder is what it was before.
fn gone(mount: &Mount) {
    for attempt in 0.. {
        if !mount.is_mounted() {
            break;
        }
        assert!(attempt < 6000, "still mounted after a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_mount_in_use_ends_with_its_last_user() {
    if !has_fuse() {
        return;
    }
    let folder = fresh("mount-busy");
    build(&folder, 8);
    let Some(mount) = Mount::new(&folder, "image.ubi", &["--rw"]) else { return };
    let file = File::create(mount.directory.join("open")).unwrap();
    mount.signal("-INT");
    gone(&mount);
    file.write_all_at(b"written after the end", 0).unwrap();
    drop(file);
    mount.ended();
    let found =
        crate::support::finish(floatgate().args(["image", "cat", "image.ubi", "/open"]).current_dir(&folder));
    assert_eq!(found.out, "written after the end");
}
