//! Programs of other packages by their names: options, exit statuses, names of outputs.

use crate::support::{finish, fresh, run_in};
use std::path::Path;
use std::process::Command;

fn code(folder: &Path, line: &str) -> Option<i32> {
    run_in(folder, line.split_whitespace()).code
}

#[test]
fn readers_write_what_they_are_known_for() {
    let folder = fresh("foreign-readers");
    crate::images::write(&folder);
    assert_eq!(code(&folder, "as ubireader_extract_files -w -o out rootfs.ubi"), Some(0));
    let seq = std::fs::read_dir(folder.join("out")).unwrap().next().unwrap().unwrap().file_name();
    let volume = folder.join("out").join(&seq).join("rootfs");
    assert!(volume.join("etc/fstab").is_file());
    // A folder that is not empty, no arguments, wrong usage: as argparse and ubi_reader have them.
    assert_eq!(code(&folder, "as ubireader_extract_files -o out rootfs.ubi"), Some(1));
    assert_eq!(code(&folder, "as ubireader_extract_files"), Some(1));
    assert_eq!(code(&folder, "as ubireader_extract_files --none rootfs.ubi"), Some(2));
    assert_eq!(code(&folder, "as ubireader_extract_images -o images two-volumes.ubi"), Some(0));
    let mut names: Vec<String> = std::fs::read_dir(folder.join("images/two-volumes.ubi"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 2);
    assert!(names[0].ends_with("_vol-data.ubifs") && names[1].ends_with("_vol-rootfs.ubifs"), "{names:?}");
    let info = run_in(&folder, ["as", "ubireader_display_info", "rootfs.ubi"]);
    assert!(info.out.contains("\tPEB Size: ") && info.out.contains("Name: rootfs"), "{}", info.out);
}

#[test]
fn a_link_is_the_program() {
    let folder = fresh("foreign-link");
    std::fs::create_dir(folder.join("root")).unwrap();
    std::fs::write(folder.join("root/greeting"), "hello").unwrap();
    for name in ["mkfs.jffs2", "jefferson", "sumtool", "mkfs.ubifs", "ubinize"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_floatgate"), folder.join(name)).unwrap();
    }
    let called = |line: &str| {
        let mut words = line.split_whitespace();
        let program = folder.join(words.next().unwrap());
        finish(Command::new(program).args(words).current_dir(&folder)).code
    };
    assert_eq!(called("mkfs.jffs2 -r root -e 64 -o plain.jffs2 -l"), Some(0));
    assert_eq!(called("sumtool -i plain.jffs2 -o image.jffs2 -e 64KiB"), Some(0));
    assert_eq!(called("jefferson image.jffs2 -d out"), Some(0));
    assert_eq!(std::fs::read(folder.join("out/greeting")).unwrap(), b"hello");
    // Python's exit(-1).
    assert_eq!(called("jefferson image.jffs2 -d out"), Some(255));
    assert_eq!(called("jefferson -v -f -d out image.jffs2"), Some(0));
    assert_eq!(called("jefferson"), Some(2));
    let squashfs = include_bytes!("../../../image/src/tests/data/a.squashfs");
    std::fs::write(folder.join("other"), squashfs).unwrap();
    let other = run_in(&folder, ["as", "jefferson", "other", "-d", "none"]);
    assert!(other.err.contains("the image is SquashFS, and not JFFS2"), "{}", other.err);
    assert_eq!(called("mkfs.ubifs -r root -m 2048 -e 126976 -c 100 -o root.ubifs -F"), Some(0));
    let ini =
        "[a]\nmode=ubi\nimage=root.ubifs\nvol_id=0\nvol_type=dynamic\nvol_name=a\nvol_flags=autoresize\n";
    std::fs::write(folder.join("ini"), ini).unwrap();
    assert_eq!(called("ubinize -o image.ubi -m 2048 -p 128KiB -s 2048 ini"), Some(0));
    assert_eq!(called("ubinize -o image.ubi -m 2048 ini"), Some(255));
    let cat = run_in(&folder, ["image", "cat", "image.ubi", "/greeting"]);
    assert_eq!(cat.out, "hello");
}

#[test]
fn a_patch_writes_only_what_changed() {
    let folder = fresh("patch");
    crate::images::write(&folder);
    let old = std::fs::read(folder.join("rootfs.ubi")).unwrap();
    let mut new = old.clone();
    let peb = 128 << 10;
    new[3 * peb + 5000] ^= 1;
    new[4 * peb..5 * peb].fill(0xFF);
    std::fs::write(folder.join("new.ubi"), &new).unwrap();
    let patch = run_in(&folder, ["image", "patch", "rootfs.ubi", "new.ubi", "--json"]);
    assert_eq!(patch.code, Some(0), "{}", patch.err);
    for part in [r#""changed_pebs":2"#, r#""erased_pebs":1"#, r#""first_peb":3"#] {
        assert!(patch.out.replace(": ", ":").contains(part), "{}", patch.out);
    }
    let script = run_in(&folder, ["image", "patch", "rootfs.ubi", "new.ubi", "--script", "mtd"]).out;
    assert_eq!(script.matches("flash_erase").count(), 2, "{script}");
    assert_eq!(script.matches("nandwrite").count(), 1, "{script}");
    let same = run_in(&folder, ["image", "patch", "rootfs.ubi", "rootfs.ubi"]);
    assert!(same.out.starts_with("All 64 PEBs are the same"), "{}", same.out);
    for bad in [["--bad-pebs", "3"], ["--partition", "256KiB"]] {
        let mut line = vec!["image", "patch", "rootfs.ubi", "new.ubi", "--script", "mtd"];
        line.extend(bad);
        let refused = run_in(&folder, line);
        assert!(refused.code == Some(1) && !refused.out.contains("flash_erase"), "{}", refused.out);
    }
}

#[test]
fn a_patch_script_checks_before_it_erases() {
    let folder = fresh("patch-script");
    crate::images::write(&folder);
    let old = std::fs::read(folder.join("rootfs.ubi")).unwrap();
    let peb = 128 << 10;
    let mut new = old[..4 * peb + 3000].to_vec();
    new[4 * peb + 2500] ^= 1;
    std::fs::write(folder.join("new.ubi"), &new).unwrap();
    let script =
        |kind: &str| run_in(&folder, ["image", "patch", "rootfs.ubi", "new.ubi", "--script", kind]).out;
    let mtd = script("mtd");
    let at = |part: &str| mtd.find(part).unwrap();
    for check in ["[ -r \"$NEW\" ]", "-eq \"$BYTES\"", "piece 4 1 3000\n"] {
        assert!(at(check) < at("flash_erase"), "{mtd}");
    }
    assert!(mtd.contains(&format!("BYTES={}\n", new.len())) && mtd.contains(" -p -s 0x80000 "), "{mtd}");
    let uboot = script("uboot");
    let fill = format!("+ {:#x}\nmw.b ${{src}} 0xff {:#x}\n", new.len(), peb - 3000);
    assert!(uboot.contains(&fill), "{uboot}");
    std::fs::write(folder.join("two\nlines.ubi"), &new).unwrap();
    for (new, options, part) in [
        ("new.ubi", &["--script", "uboot", "--base", "100"][..], "begins at byte 100"),
        ("two\nlines.ubi", &["--script", "mtd"][..], "control characters"),
        ("dump.nand", &["--script", "mtd"][..], "dump.nand has OOB"),
    ] {
        let mut line = vec!["image", "patch", "rootfs.ubi", new];
        line.extend(options);
        let refused = run_in(&folder, line);
        assert!(refused.code == Some(2) && refused.err.contains(part), "{}{}", refused.out, refused.err);
    }
}
