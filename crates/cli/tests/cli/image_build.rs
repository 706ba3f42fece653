//! `image build` and `image ubinize` as a user sees them: what they refuse, what they leave behind.

use crate::support::{Run, assert_refused, finish, floatgate, fresh, run_in};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A tar of regular files (POSIX ustar), without the end mark.
pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, data) in files {
        let mut header = vec![0; 512];
        let size = format!("{:011o}", data.len());
        for (at, text) in [(0, *name), (100, "0000644"), (108, "0000000"), (116, "0000000"), (124, &size)] {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        for (at, text) in [(136, "14000000000"), (148, "        "), (156, "0"), (257, "ustar\x0000")] {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        tar.extend(header);
        tar.extend_from_slice(data);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar
}

/// A folder with `good.tar` and `cut-off.tar`.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = fresh(name);
    let files: [(&str, &[u8]); 2] = [("etc/fstab", b"proc"), ("big", &[7; 300_000])];
    let mut bytes = tar(&files);
    std::fs::write(folder.join("cut-off.tar"), &bytes).unwrap();
    bytes.resize(bytes.len() + 1024, 0);
    std::fs::write(folder.join("good.tar"), bytes).unwrap();
    folder
}

fn words(folder: &Path, line: &str) -> Run {
    run_in(folder, line.split_whitespace())
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const NAND: &str = "--page-size 2048 --peb-size 128KiB";

#[test]
fn what_cannot_be_built_is_refused_and_leaves_nothing_behind() {
    let folder = folder("build-refused");
    std::fs::write(folder.join("old.ubi"), "precious").unwrap();
    std::fs::write(folder.join("noise.ini"), "[a]\nmode=ubi\nvol_id=0\n").unwrap();
    std::fs::write(folder.join("wrong.txt"), "/dev/x q 644 0 0\n").unwrap();
    let before = names(&folder);
    for line in [
        "build good.tar -o old.ubi",
        "build nosuch -o old.ubi --part mt29f2g08aad",
        "build good.tar -o old.ubi --part nosuch",
        "build good.tar -o old.ubi --part w25q128jv",
        "build good.tar -o old.ubi --page-size 2048 --peb-size 100000",
        "build good.tar -o old.ubi --page-size 2048 --peb-size 128KiB --volume-size 1MiB",
        "build good.tar -o old.ubi --page-size 2048 --peb-size 128KiB --max-lebs 3",
        "build good.tar -o old.ubi --page-size 2048 --peb-size 128KiB --device-table wrong.txt",
        "build good.tar -o old.ubi --page-size 2048 --peb-size 128KiB --uuid 12",
        "build good.tar -o old.ubi --page-size 2048 --peb-size 128KiB --owner root:root",
        "build good.tar -o old.ubi --format littlefs --pad 1000000",
        "build good.tar -o old.ubi --format littlefs --pad 1MiB --owner 0:0",
        "build good.tar -o old.ubi --format spiffs --pad 1MiB -x zstd",
        "build good.tar -o old.ubi --format spiffs --pad 1MiB --volume data",
        "build good.tar -o good.tar --part mt29f2g08aad",
        "build good.tar -o no/such/folder.ubi --part mt29f2g08aad",
        "build noise.ini -o old.ubi --part mt29f2g08aad",
        "build - -o old.ubi --page-size 2048 --peb-size 128KiB",
        "ubinize noise.ini -o old.ubi --part mt29f2g08aad",
        "ubinize nosuch.ini -o old.ubi --part mt29f2g08aad",
        "ubinize noise.ini -o old.ubi --part mt29f2g08aad -x 2",
    ] {
        assert_refused(line, &words(&folder, &format!("image {line}")));
        assert_eq!(names(&folder), before, "{line}");
        assert_eq!(std::fs::read(folder.join("old.ubi")).unwrap(), b"precious", "{line}");
    }
}

/// LittleFS fills the partition that is given; other filesystems need the chip for it, and the advice is that of the format.
#[test]
fn a_partition_is_the_size_of_a_littlefs() {
    let folder = folder("build-partition");
    let built = words(&folder, "image build good.tar -o data.littlefs --format littlefs --partition 4MiB");
    assert!(matches!(built.code, Some(0 | 1)), "{}", built.err);
    assert_eq!(std::fs::metadata(folder.join("data.littlefs")).unwrap().len(), 4 << 20);
    let refused =
        words(&folder, "image build good.tar -o x --format jffs2 --peb-size 64KiB --partition 2MiB");
    assert!(
        refused.code == Some(2) && refused.err.contains("--pad") && !refused.err.contains("UBI"),
        "{}",
        refused.err
    );
}

/// Keys that a command does not use are refused, and `diff` uses them.
#[test]
fn keys_are_used_or_refused() {
    let folder = folder("build-keys");
    std::fs::write(folder.join("key"), [7; 64]).unwrap();
    for (line, word) in [
        ("put data.ubi good.tar / --key key", "--key has no effect here"),
        ("info data.ubi --key key", "--key has no effect here"),
        ("diff good.tar missing --key key", "missing"),
    ] {
        let run = words(&folder, &format!("image {line}"));
        assert!(run.code == Some(2) && run.err.contains(word), "{line}: {}", run.err);
        assert!(!run.err.contains("unexpected argument"), "{line}: {}", run.err);
    }
}

#[test]
fn losses_are_listed_and_the_exit_status_says_so() {
    let folder = folder("build-losses");
    let lossy = words(&folder, &format!("image build cut-off.tar -o lossy.ubi {NAND}"));
    assert_eq!(lossy.code, Some(1), "{}", lossy.err);
    assert!(
        lossy.err.contains("not in the image bit for bit") && lossy.err.contains("end mark"),
        "{}",
        lossy.err
    );
    let found = words(&folder, "image cat lossy.ubi /etc/fstab");
    assert_eq!((found.code, found.out.as_str()), (Some(0), "proc"));
}

#[test]
fn a_pipe_and_a_file_give_the_same_bytes_and_source_date_epoch_others() {
    let folder = folder("build-pipe");
    let line = |source: &str, output: &str| format!("image build {source} -o {output} {NAND} --max-lebs 300");
    assert_eq!(words(&folder, &line("good.tar", "file.ubi")).code, Some(0));
    let mut piped = floatgate();
    let line_of_pipe = line("-", "pipe.ubi");
    piped
        .args(line_of_pipe.split_whitespace())
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(folder.join("good.tar")).unwrap()).unwrap();
    assert!(child.wait().unwrap().success());
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(read("file.ubi") == read("pipe.ubi"));
    let mut dated = floatgate();
    dated.args(line("good.tar", "dated.ubi").split_whitespace()).current_dir(&folder);
    assert_eq!(finish(dated.env("SOURCE_DATE_EPOCH", "86400")).code, Some(0));
    let stat = words(&folder, "image stat dated.ubi /big");
    assert!(stat.out.contains("1970-01-02 00:00:00"), "{}", stat.out);
}

#[test]
fn the_parameters_that_info_prints_make_such_an_image() {
    let folder = folder("build-parameters");
    let options = "--autoresize --compress zlib --fanout 16 --orphan-lebs 2 --journal-size 1MiB -Q 77";
    assert_eq!(
        words(&folder, &format!("image build good.tar -o a.ubi {NAND} --max-lebs 400 {options}")).code,
        Some(0)
    );
    let info = words(&folder, "image info a.ubi").out;
    for part in [
        "mkfs.ubifs -m 2048 -e 126976 -c 400 -x zlib -j 1048576 -l ",
        " -p 2 -f 16 ",
        "ubinize -p 131072 -m 2048 -s 2048 -O 2048 -Q 77 ",
        "vol_flags=autoresize",
    ] {
        assert!(info.contains(part), "{part}: {info}");
    }
    // The same in two steps gives the same files: the ini file is what `info` prints.
    let bare = format!("image build good.tar -o rootfs.img {NAND} --max-lebs 400 {options} --format ubifs");
    assert_eq!(words(&folder, &bare).code, Some(0));
    let ini: String = info
        .split("volumes.ini:\n")
        .nth(1)
        .unwrap()
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with(' '))
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    std::fs::write(folder.join("volumes.ini"), ini).unwrap();
    let made = words(&folder, "image ubinize volumes.ini -o b.ubi -p 131072 -m 2048 -s 2048 -O 2048 -Q 77");
    assert_eq!(made.code, Some(0), "{}", made.err);
    // The bare filesystem has all LEBs, also those that `build` leaves out.
    assert_eq!(words(&folder, "image diff a.ubi b.ubi").code, Some(0));
}

#[test]
fn parameters_that_no_filesystem_has_are_named() {
    let folder = fresh("image-build-parameters");
    std::fs::create_dir(folder.join("tree")).unwrap();
    for (option, told) in [
        ("-f 2", "this number for fanout: 2"),
        ("--log-lebs 0", "this number for log LEBs: 0"),
        ("--max-lebs 0", "the files need 17 LEBs, and the filesystem can have 0"),
    ] {
        let line = format!("image build tree -o x.ubi --part mt29f2g08aad {option}");
        let run = run_in(&folder, line.split_whitespace());
        assert_refused(option, &run);
        assert!(run.err.contains(told) && !run.err.contains("LEB 0"), "{option}: {}", run.err);
    }
}

/// An image that comes out of a pipe is read as one in a file, and is not changed.
#[test]
fn images_are_read_from_stdin() {
    let folder = fresh("images_from_stdin");
    crate::images::write(&folder);
    let image = || std::fs::File::open(folder.join("rootfs.ubi")).unwrap();
    let from_stdin =
        |args: &[&str]| finish(floatgate().arg("image").args(args).current_dir(&folder).stdin(image()));
    let from_file = |args: &[&str]| run_in(&folder, [&["image"][..], args].concat());
    for [piped, named] in [[["ls", "-"], ["ls", "rootfs.ubi"]], [["info", "-"], ["info", "rootfs.ubi"]]] {
        let (piped, named) = (from_stdin(&piped), from_file(&named));
        assert_eq!((piped.code, &piped.out), (Some(0), &named.out), "{}", piped.err);
    }
    let compared = from_stdin(&["diff", "-", "rootfs.ubi", "--raw"]);
    assert!(compared.code == Some(0) && compared.out.contains("all the same"), "{compared:?}");
    // As a shell does it with `|` and `<(COMMAND)`.
    let from_pipe = |args: &[&str]| {
        let mut cat =
            Command::new("cat").arg(folder.join("rootfs.ubi")).stdout(Stdio::piped()).spawn().unwrap();
        let pipe = cat.stdout.take().unwrap();
        let run = finish(floatgate().arg("image").args(args).current_dir(&folder).stdin(pipe));
        cat.wait().unwrap();
        run
    };
    let (piped, named) = (from_pipe(&["ls", "/dev/stdin"]), from_file(&["ls", "rootfs.ubi"]));
    assert_eq!((piped.code, &piped.out), (Some(0), &named.out), "{}", piped.err);
    let compared = from_pipe(&["diff", "rootfs.ubi", "/dev/stdin"]);
    assert!(compared.code == Some(0) && compared.out.contains("all the same"), "{compared:?}");
    let refused = [
        from_stdin(&["rm", "-", "/etc/fstab"]),
        from_pipe(&["rm", "/dev/stdin", "/etc/fstab"]),
        from_pipe(&["check", "/dev/stdin", "--repair", "repaired"]),
    ];
    for refused in refused {
        assert_eq!(refused.code, Some(2));
        assert!(refused.err.contains("what comes from stdin or a pipe is only read"), "{}", refused.err);
    }
}

/// The file that a name of a descriptor leads to is put into the image, not the link.
#[test]
fn files_are_put_from_stdin() {
    let folder = fresh("put_from_stdin");
    crate::images::write(&folder);
    for (source, name) in [("-", "stdin"), ("/dev/stdin", "stdin"), ("/dev/fd/0", "0")] {
        let mut echo = Command::new("echo").arg(source).stdout(Stdio::piped()).spawn().unwrap();
        let put = ["image", "put", "rootfs.ubi", source, "/boot", "--output", "changed.ubi"];
        let run = finish(floatgate().args(put).current_dir(&folder).stdin(echo.stdout.take().unwrap()));
        echo.wait().unwrap();
        assert_eq!(run.code, Some(0), "{source}: {}", run.err);
        let there = run_in(&folder, ["image", "cat", "changed.ubi", &format!("/boot/{name}")]);
        assert_eq!((there.code, there.out), (Some(0), format!("{source}\n")), "{}", there.err);
    }
}

/// An output has a name of its own, which alone is told.
#[test]
fn a_failure_of_an_output_names_that_only() {
    let folder = fresh("output_named");
    crate::images::write(&folder);
    let run = run_in(&folder, ["image", "rm", "rootfs.ubi", "/etc/fstab", "--output", "no/out.ubi"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.starts_with("error: no/out.ubi: there is no folder"), "{}", run.err);
}

/// It is no failure to look at it.
#[test]
fn erased_flash_is_described() {
    let folder = fresh("erased-flash");
    std::fs::write(folder.join("erased"), [0xFF; 70_000]).unwrap();
    let run = words(&folder, "image info erased");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert!(run.out.starts_with("erased flash"), "{}", run.out);
    let json: serde_json::Value =
        serde_json::from_str(&words(&folder, "image info erased --json").out).unwrap();
    assert_eq!((&json["erased"], &json["images"]), (&true.into(), &serde_json::json!([])));
    let zeros = std::fs::write(folder.join("zeros"), [0; 70_000]);
    zeros.unwrap();
    assert_refused("image info zeros", &words(&folder, "image info zeros"));
}

/// With eraseblocks of another size an image is not good: where it is a guess, a change wants to be told.
#[test]
fn a_change_wants_to_know_the_size_of_eraseblocks() {
    let folder = folder("build-guess");
    let small = tar(&[("hostname", b"board-7")]);
    std::fs::write(folder.join("small.tar"), [&small[..], &[0; 1024]].concat()).unwrap();
    assert_eq!(
        words(&folder, "image build small.tar -o small.jffs2 --format jffs2 --page-size 1 --peb-size 64KiB")
            .code,
        Some(0)
    );
    let mkdir = "image mkdir small.jffs2 /etc -p --lebs 8";
    let refused = words(&folder, mkdir);
    assert_refused(mkdir, &refused);
    assert!(refused.err.contains("65536 bytes are a guess"), "{}", refused.err);
    assert!(refused.err.contains("--peb-size states that of the flash: 4096, 8192"), "{}", refused.err);
    for options in ["--peb-size 64KiB", ""] {
        let run = words(&folder, &format!("{mkdir} {options}"));
        let line = "to write it back: `flashcp small.jffs2 /dev/mtdN` (docs/write-back.md)\n";
        assert_eq!((run.code, run.err.as_str()), (Some(0), line), "{options}");
    }
}

/// The nodes of a JFFS2 know no pages: without a page size it is for NOR, as that of `mkfs.jffs2`. Whoever writes a file says how it goes
/// back to flash, on stderr and not to programs.
#[test]
fn a_jffs2_needs_no_page_size_and_each_file_says_how_it_goes_back_to_flash() {
    let folder = folder("write-back");
    let small = tar(&[("hostname", b"board-7")]);
    std::fs::write(folder.join("small.tar"), [&small[..], &[0; 1024]].concat()).unwrap();
    std::fs::write(
        folder.join("volumes.ini"),
        "[r]\nmode=ubi\nimage=r.ubifs\nvol_id=0\nvol_size=4MiB\nvol_name=r\n",
    )
    .unwrap();
    let nor = "`flashcp nor.jffs2 /dev/mtdN`";
    let nand = "`flash_erase -j /dev/mtdN 0 0 && nandwrite -p /dev/mtdN nand.jffs2`";
    let lines = [
        ("image build small.tar -o nor.jffs2 --format jffs2 --peb-size 16KiB --pad 256KiB", nor),
        ("image mkdir nor.jffs2 /etc", nor),
        ("image setxattr nor.jffs2 /hostname user.origin factory", nor),
        ("image rm nor.jffs2 /etc -r", nor),
        ("image check nor.jffs2 --repair again.jffs2", "`flashcp again.jffs2 /dev/mtdN`"),
        ("image build small.tar -o nand.jffs2 --format jffs2 --peb-size 128KiB --page-size 2048", nand),
        (
            "image build small.tar -o r.ubifs --format ubifs --page-size 2048 --peb-size 128KiB",
            "`ubiupdatevol /dev/ubi0_N r.ubifs`",
        ),
        (
            "image ubinize volumes.ini -o r.ubi --page-size 2048 --peb-size 128KiB",
            "`ubiformat /dev/mtdN -O 2048 -f r.ubi`",
        ),
        ("image chmod r.ubi 0600 /hostname", "`ubiformat /dev/mtdN -O 2048 -f r.ubi`"),
    ];
    for (line, commands) in lines {
        let run = words(&folder, line);
        assert_eq!(run.code, Some(0), "{line}: {}", run.err);
        let told = format!("to write it back: {commands} (docs/write-back.md)\n");
        assert!(run.err.contains(&told), "{line}: {}", run.err);
    }
    let quiet = words(&folder, "image mkdir nor.jffs2 /var --json");
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
    let missing = words(&folder, "image setxattr nor.jffs2 /hostname user.none --remove");
    assert!(
        missing
            .err
            .starts_with("error: nor.jffs2: /hostname: the file has no extended attribute user.none\n"),
        "{}",
        missing.err
    );
    let sizes = words(&folder, "image build small.tar -o none.jffs2 --format jffs2");
    assert!(sizes.err.contains("else give --peb-size\n"), "{}", sizes.err);
}

/// Each message says what to do next, and that works.
#[cfg(unix)]
#[test]
fn advice_about_a_jffs2_leads_on() {
    let folder = fresh("jffs2-advice");
    std::fs::create_dir_all(folder.join("files/dir")).unwrap();
    std::fs::write(folder.join("files/dir/file"), "data").unwrap();
    std::os::unix::fs::symlink("dir/file", folder.join("files/link")).unwrap();
    std::fs::write(folder.join("large"), vec![0x5A; 300_000]).unwrap();
    let build = "image build files -o image --format jffs2 --page-size 1 --peb-size 16KiB --pad 1MiB";
    assert_eq!(words(&folder, build).code, Some(0));
    std::os::unix::fs::symlink("/dev/full", folder.join("full.tar")).unwrap();
    for (line, advice) in [
        ("image cat image /dir", "image ls"),
        ("image cat image /link", "image stat"),
        ("image dump image --leb 3:0", "--peb"),
        ("image dump image --peb 64", "image dump --nodes"),
        ("image dump image --at 1048576", "image dump --nodes"),
        ("image dump image --at 3", "image dump --nodes"),
        ("image extract image out --at 77:1", "image ls --history"),
        ("image extract image full.tar", "more room"),
    ] {
        let run = words(&folder, line);
        assert_refused(line, &run);
        let help = run.err.lines().find(|line| line.starts_with("help: ")).unwrap();
        assert!(help.contains(advice), "{line}: {}", run.err);
    }
    let before = std::fs::read(folder.join("image")).unwrap();
    let mut limited = std::process::Command::new("sh");
    let put = "ulimit -f 500; exec \"$0\" image put image large /";
    limited.args(["-c", put, env!("CARGO_BIN_EXE_floatgate")]).current_dir(&folder);
    let run = finish(&mut limited);
    assert!(run.code == Some(2) && run.err.contains("ulimit -f"), "{run:?}");
    assert!(std::fs::read(folder.join("image")).unwrap() == before);
}
