//! Outputs are whole: whatever goes wrong, a file that had the name before is as it was, and nothing is left beside it.

use crate::mounted::has_fuse;
use crate::support::{Run, dump_files, finish, floatgate, fresh, run_in};
use crate::{image_build, images};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Every command that writes a file; OUT stands for it, without its ending.
const COMMANDS: [&str; 19] = [
    "image build tree -o OUT --part mt29f2g08aad",
    "image ubinize volumes.ini -o OUT --part mt29f2g08aad",
    "image mkdir rootfs.ubi /opt -o OUT",
    "image put rootfs.ubi hostname /etc/hostname -o OUT",
    "image rm rootfs.ubi /bin/ls -o OUT",
    "image mv rootfs.ubi /bin/ls /bin/dir -o OUT",
    "image ln rootfs.ubi /bin/busybox /bin/ash -o OUT",
    "image chmod rootfs.ubi 0600 /etc/fstab -o OUT",
    "image chown rootfs.ubi 7:7 /etc/fstab -o OUT",
    "image setxattr rootfs.ubi /etc/fstab user.a b -o OUT",
    "image check dump.bin --repair OUT",
    "image check damaged.ubi --repair OUT",
    "ecc encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o OUT",
    "ecc decode dump.nand --part mt29f2g08aad --code bch4/512 -o OUT",
    "speed am62a-w35n01jw --plot OUT",
    "trace am62a-w35n01jw read-page --plot OUT",
    "endurance mt29f8g08maawc --plot OUT.svg",
    "papers octal --plot OUT",
    "image extract rootfs.ubi OUT.tar",
];

/// A folder with inputs for all commands, and what is in it.
fn folder(name: &str) -> (PathBuf, Vec<String>) {
    let folder = fresh(name);
    dump_files(&folder);
    std::fs::remove_file(folder.join("rootfs.ubi")).unwrap();
    images::write(&folder);
    images::damage(&folder);
    std::fs::create_dir(folder.join("tree")).unwrap();
    std::fs::write(folder.join("tree/file"), vec![7; 300_000]).unwrap();
    std::fs::write(folder.join("rootfs.ubifs"), vec![7; 300_000]).unwrap();
    let names = image_build::names(&folder);
    (folder, names)
}

/// The output of a command where OUT is a name.
fn output(folder: &Path, line: &str, name: &str) -> PathBuf {
    let word = line.split_whitespace().find(|word| word.starts_with("OUT")).unwrap();
    folder.join(word.replace("OUT", name))
}

fn run_with(folder: &Path, line: &str, name: &str) -> Run {
    run_in(folder, line.replace("OUT", name).split_whitespace())
}

/// The command with a limit of 1 KiB on the size of files that it writes; bash counts in these units.
fn run_limited(folder: &Path, line: &str) -> Run {
    let script = format!("ulimit -f 1; exec {} {line}", env!("CARGO_BIN_EXE_floatgate"));
    finish(Command::new("bash").args(["-c", &script]).current_dir(folder))
}

#[test]
fn a_limit_on_the_size_of_files_leaves_the_old_file() {
    let (folder, names) = folder("outputs-limit");
    for line in COMMANDS {
        let old = output(&folder, line, "old");
        std::fs::write(&old, "precious").unwrap();
        let run = run_limited(&folder, &line.replace("OUT", "old"));
        assert_eq!(run.code, Some(2), "{line}: {}{}", run.out, run.err);
        assert!(run.err.contains("File too large"), "{line}: {}", run.err);
        let named = format!("{}: ", old.file_name().unwrap().to_str().unwrap());
        let is_named_once = run.err.matches(&named).count() == 1;
        assert!(is_named_once || !line.starts_with("image"), "{line}: {}", run.err);
        assert_eq!(std::fs::read(&old).unwrap(), b"precious", "{line}");
        std::fs::remove_file(&old).unwrap();
        assert_eq!(image_build::names(&folder), names, "{line}");
    }
}

/// The message names what is missing, and not a temporary file.
#[test]
fn a_folder_that_is_not_there_is_named() {
    let (folder, names) = folder("outputs-no-folder");
    for line in COMMANDS {
        let run = run_with(&folder, &line.replace("OUT", "nodir/OUT"), "x");
        assert_eq!(run.code, Some(2), "{line}: {}{}", run.out, run.err);
        assert!(run.err.contains("nodir") && !run.err.contains(".tmp"), "{line}: {}", run.err);
        assert_eq!(image_build::names(&folder), names, "{line}");
    }
}

#[test]
fn a_full_device_stays_a_device() {
    let (folder, mut names) = folder("outputs-device");
    for name in ["full", "full.tar", "full.svg"] {
        std::os::unix::fs::symlink("/dev/full", folder.join(name)).unwrap();
        names.push(name.to_owned());
    }
    names.sort();
    for line in COMMANDS {
        let run = run_with(&folder, line, "full");
        assert_eq!(run.code, Some(2), "{line}: {}{}", run.out, run.err);
        assert!(run.err.contains("No space left on device"), "{line}: {}", run.err);
        assert!(std::fs::metadata("/dev/full").unwrap().file_type().is_char_device(), "{line}");
        assert_eq!(image_build::names(&folder), names, "{line}");
    }
}

#[test]
fn a_pipe_gets_what_a_file_would() {
    let (folder, _) = folder("outputs-pipe");
    for line in COMMANDS {
        let (file, pipe) = (output(&folder, line, "a"), output(&folder, line, "b"));
        let code = run_with(&folder, line, "a").code;
        let wanted = std::fs::read(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // A reader that gives up if nobody writes.
        let mut read = Command::new("timeout");
        let got = std::fs::File::create(folder.join("got")).unwrap();
        let mut read = read.args(["60", "cat"]).arg(&pipe).stdout(got).spawn().unwrap();
        assert_eq!(run_with(&folder, line, "b").code, code, "{line}");
        assert!(read.wait().unwrap().success(), "{line}");
        let got = std::fs::read(folder.join("got")).unwrap();
        // Edited images have the time of the change in them.
        let edited = line.contains("rootfs.ubi ") && line.contains(" -o ");
        assert!(got == wanted || edited && got.len() == wanted.len(), "{line}");
        assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo(), "{line}");
        std::fs::remove_file(&pipe).unwrap();
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_signal_removes_what_is_not_complete() {
    let folder = fresh("outputs-signal");
    std::fs::write(folder.join("old.ubi"), "precious").unwrap();
    for (signal, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
        // Whoever started the tests may have had these signals ignored, and floatgate leaves that as it is.
        let mut build = Command::new("env");
        build.arg("--default-signal=INT,TERM,HUP").arg(floatgate().get_program());
        build.args(["image", "build", "-", "-o", "old.ubi", "--part", "mt29f2g08aad"]).current_dir(&folder);
        let mut child = build.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // The end of its input would let it finish while the signal arrives.
        let _input = child.stdin.take();
        // It waits for the tar; the temporary file is there, with a name or without.
        while image_build::names(&folder).len() < 2 && !has_open(child.id(), &folder) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(number));
        assert_eq!(image_build::names(&folder), ["old.ubi"]);
        assert_eq!(std::fs::read(folder.join("old.ubi")).unwrap(), b"precious");
    }
}

/// True when a process has a file of a folder open.
fn has_open(process: u32, folder: &Path) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let targets = descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.into_iter().any(|target| target.starts_with(folder))
}

/// Nobody can clean up then: what has no name leaves nothing. Some filesystems have no files without a name.
#[test]
fn a_kill_leaves_nothing_beside_the_old_file() {
    let folder = fresh("outputs-kill");
    std::fs::write(folder.join("old.ubi"), "precious").unwrap();
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
    if rustix::fs::open(&folder, flags, rustix::fs::Mode::RUSR).is_err() {
        eprintln!("skipped: the filesystem has no files without a name");
        return;
    }
    let mut build = floatgate();
    build.args(["image", "build", "-", "-o", "old.ubi", "--part", "mt29f2g08aad"]).current_dir(&folder);
    let mut child = build.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    while image_build::names(&folder).len() < 2 && !has_open(child.id(), &folder) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(image_build::names(&folder), ["old.ubi"]);
    assert_eq!(std::fs::read(folder.join("old.ubi")).unwrap(), b"precious");
}

/// Runs a script in a folder `disk` that is a tmpfs of 8 MiB, in a mount namespace of its own; `None` where the host has none.
fn on_a_small_disk(folder: &Path, script: &str) -> Option<Run> {
    let script = format!("mkdir disk && mount -t tmpfs -o size=8m none disk || exit 77\n{script}");
    let mut unshare = Command::new("unshare");
    unshare.args(["--map-root-user", "--mount", "bash", "-c", &script]).current_dir(folder);
    let run = finish(&mut unshare);
    if run.code == Some(77) || run.err.contains("unshare") {
        eprintln!("skipped: no mount namespace here: {}", run.err);
        return None;
    }
    Some(run)
}

/// The filesystem has more LEBs than the file, which a mount for writing gives it.
#[test]
fn a_mount_on_a_full_disk_leaves_the_image() {
    if !has_fuse() {
        return;
    }
    let (folder, _) = folder("outputs-full-mount");
    for (name, options) in
        [("a.ubi", "--volume-size 16MiB"), ("a.ubifs", "--format ubifs --volume-size 16MiB")]
    {
        let build = format!("image build tree -o {name} --part mt29f2g08aad {options}");
        let built = run_in(&folder, build.split_whitespace());
        assert_eq!(built.code, Some(0), "{}", built.err);
    }
    let script = format!(
        "cp a.ubi a.ubifs disk/; mkdir disk/mnt; cd disk; head -c 9M /dev/zero > filler 2> /dev/null
         for image in a.ubi a.ubifs; do
             md5sum < $image; timeout 60 {0} image mount $image mnt --rw --lebs 100; echo $?; md5sum < $image
         done",
        env!("CARGO_BIN_EXE_floatgate")
    );
    let Some(run) = on_a_small_disk(&folder, &script) else { return };
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!((lines[0], lines[1], lines[3], lines[4]), (lines[2], "2", lines[5], "2"), "{}", run.err);
    assert_eq!(run.err.matches("no room on the host's disk").count(), 2, "{}", run.err);
}

/// The image is on a tmpfs that is filled up.
#[test]
fn a_change_in_place_on_a_full_disk_leaves_the_image() {
    let (folder, _) = folder("outputs-full-disk");
    let build = "image build tree -o small.ubi --part mt29f2g08aad --autoresize";
    assert_eq!(run_in(&folder, build.split_whitespace()).code, Some(0));
    std::fs::write(folder.join("big"), image_build::tar(&[("noise", &images::noise(3_000_000))])).unwrap();
    let script = format!(
        "cp small.ubi disk/; cd disk
         head -c 9M /dev/zero > filler 2> /dev/null
         md5sum < small.ubi; {0} image put small.ubi ../big /big 2> ../error; echo $?; md5sum < small.ubi; ls
         {0} image check small.ubi",
        env!("CARGO_BIN_EXE_floatgate")
    );
    let Some(run) = on_a_small_disk(&folder, &script) else { return };
    let error = std::fs::read_to_string(folder.join("error")).unwrap_or_default();
    assert!(error.contains("No space left on device"), "{error}{}", run.out);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!((lines[0], lines[1], lines[3], lines[4]), (lines[2], "2", "filler", "small.ubi"), "{error}");
    assert!(run.out.ends_with("Clean.\n"), "{}{}{error}", run.out, run.err);
}

/// Commands with an output that is one of their inputs, or with one file for two outputs. IN is a file.
const OVER_INPUTS: [&str; 27] = [
    "image build IN -o IN --part mt29f2g08aad",
    "image build tree -D IN -o IN --part mt29f2g08aad",
    "image ubinize IN -o IN --part mt29f2g08aad",
    "image mkdir IN /opt -o IN",
    "image put IN hostname /etc/hostname -o IN",
    "image put rootfs.ubi IN /etc/hostname -o IN",
    "image check IN --repair IN",
    "ecc encode IN --part mt29f2g08aad --code bch4/512 -o IN",
    "ecc decode IN --part mt29f2g08aad --code bch4/512 -o IN",
    "ecc decode dump.nand --oob IN --part mt29f2g08aad --code bch4/512 -o IN",
    "ecc advise IN --plot IN",
    "speed IN --plot IN",
    "speed am62a-w35n01jw --set chip=IN --plot IN",
    "speed am62a-w35n01jw --sweep chip=w25n01jw,IN --plot IN",
    "trace IN read-page --plot IN",
    "fs IN --plot IN",
    "papers IN --plot IN",
    "fit am62a-w35n01jw IN -o IN",
    "fit IN figures -o IN",
    "sweep IN -o IN --format csv",
    "report am62a-w35n01jw IN -o IN",
    "probe IN --raw IN",
    "probe --from IN --plot IN",
    "probe kingston-class-10 --raw OUT --plot OUT",
    "card replay kingston-class-10 IN --record IN",
    "card replay kingston-class-10 ext4-postmark --plot IN --record IN",
    "card serve kingston-class-10 --image IN --record IN --fuse tree",
];

#[test]
fn an_output_is_neither_an_input_nor_another_output() {
    let folder = fresh("outputs-inputs");
    std::fs::create_dir(folder.join("tree")).unwrap();
    std::fs::write(folder.join("in"), "precious").unwrap();
    std::fs::hard_link(folder.join("in"), folder.join("hard")).unwrap();
    std::os::unix::fs::symlink("in", folder.join("soft")).unwrap();
    let names = image_build::names(&folder);
    for line in OVER_INPUTS {
        for name in ["in", "./tree/../in", "hard", "soft"] {
            let line = line.replacen("IN", "in", 1).replace("IN", name);
            // The first name of two outputs need not exist.
            let line = line.replacen("OUT", "tree/new", 1).replace("OUT", "./tree/new");
            let run = run_in(&folder, line.split_whitespace());
            assert_eq!(run.code, Some(2), "{line}: {}{}", run.out, run.err);
            let is_refused = ["would be written over", "is written to the same file"];
            assert!(is_refused.iter().any(|words| run.err.contains(words)), "{line}: {}", run.err);
            assert_eq!(std::fs::read(folder.join("in")).unwrap(), b"precious", "{line}");
            assert_eq!(image_build::names(&folder), names, "{line}");
        }
    }
}

/// The samples of a probe on a full disk: what was there before stays, and nothing lies beside it.
#[test]
fn samples_on_a_full_disk_leave_the_old_ones() {
    let folder = fresh("outputs-full-raw");
    let script = format!(
        "cd disk; echo precious > samples.csv
         head -c 9M /dev/zero > filler 2> /dev/null
         {0} probe kingston-class-10 --raw samples.csv 2> ../error > ../answers; echo $?; cat samples.csv; ls -A",
        env!("CARGO_BIN_EXE_floatgate")
    );
    let Some(run) = on_a_small_disk(&folder, &script) else { return };
    let error = std::fs::read_to_string(folder.join("error")).unwrap();
    assert!(error.contains("No space left on device"), "{error}");
    assert_eq!(run.out, "2\nprecious\nfiller\nsamples.csv\n", "{error}");
    // The answers are not lost with the samples.
    assert!(std::fs::read_to_string(folder.join("answers")).unwrap().contains("erase block"));
}
