//! Volumes, offsets, names and holes as a user meets them.

use crate::support::{Run, assert_refused, finish, floatgate, fresh, run_in};
use crate::{image_build, images};
use std::ffi::OsStr;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `board.ubi`, as boards have it: kernel (U-Boot image, static), rootfs (UBIFS) and data (nothing yet); `two.ubi` with two UBIFS;
/// `kernel.ubi` with the kernel alone.
fn folder(name: &str) -> PathBuf {
    let folder = fresh(name);
    std::fs::create_dir(folder.join("tree")).unwrap();
    std::fs::write(folder.join("tree/hello"), "hello\n").unwrap();
    let mut kernel = vec![0x27, 0x05, 0x19, 0x56];
    kernel.extend(images::noise(200_000));
    std::fs::write(folder.join("kernel.uimage"), kernel).unwrap();
    words(&folder, "image build tree -o rootfs.ubifs --format ubifs --part mt29f2g08aad", 0);
    let volume = |id: u32, name: &str, image: &str| {
        let size = match image {
            "" => "vol_size=1MiB\n".to_owned(),
            "rootfs.ubifs" => format!("image={image}\nvol_size=16MiB\n"),
            _ => format!("image={image}\n"),
        };
        let kind = if name == "kernel" { "static" } else { "dynamic" };
        format!("[{name}]\nmode=ubi\nvol_id={id}\nvol_type={kind}\nvol_name={name}\n{size}")
    };
    let kernel = volume(0, "kernel", "kernel.uimage");
    let rootfs = volume(1, "rootfs", "rootfs.ubifs");
    for (name, ini) in [
        ("board", format!("{kernel}{rootfs}{}", volume(2, "data", ""))),
        ("two", format!("{rootfs}{}", volume(2, "data", "rootfs.ubifs"))),
        ("kernel", kernel.clone()),
    ] {
        std::fs::write(folder.join("volumes.ini"), ini).unwrap();
        words(&folder, &format!("image ubinize volumes.ini -o {name}.ubi --part mt29f2g08aad"), 0);
    }
    folder
}

fn words(folder: &Path, line: &str, code: i32) -> Run {
    let run = run_in(folder, line.split_whitespace());
    assert_eq!(run.code, Some(code), "{line}: {}{}", run.out, run.err);
    run
}

#[test]
fn the_only_ubifs_is_meant_and_another_content_is_named_with_what_serves() {
    let folder = folder("volumes-chosen");
    assert_eq!(words(&folder, "image cat board.ubi /hello", 0).out, "hello\n");
    words(&folder, "image check board.ubi", 0);
    words(&folder, "image dump board.ubi --path /hello", 0);
    words(&folder, "image mkdir board.ubi /new -o changed.ubi", 0);
    let several = words(&folder, "image ls two.ubi", 2).err;
    assert!(several.contains("rootfs, data"), "{several}");
    for line in
        ["image ls board.ubi --volume kernel", "image ls kernel.ubi", "image mkdir kernel.ubi /a -o x"]
    {
        let refused = words(&folder, line, 2).err;
        assert!(refused.contains("kernel (U-Boot image)"), "{refused}");
        assert!(refused.contains("image cat --raw --volume kernel"), "{refused}");
    }
    // What is not known is no UBIFS either.
    let empty = words(&folder, "image ls board.ubi --volume data", 2).err;
    assert!(
        empty.contains("holds no UBIFS: data (empty)") && empty.contains("--raw --volume data"),
        "{empty}"
    );
    let ini = "[noise]\nmode=ubi\nimage=noise\nvol_id=0\nvol_type=dynamic\nvol_name=noise\n";
    std::fs::write(folder.join("noise.ini"), ini).unwrap();
    std::fs::write(folder.join("noise"), images::noise(300_000)).unwrap();
    words(&folder, "image ubinize noise.ini -o noise.ubi --part mt29f2g08aad", 0);
    std::fs::create_dir(folder.join("empty")).unwrap();
    for line in [
        "image ls noise.ubi",
        "image diff noise.ubi board.ubi",
        "image mount noise.ubi empty",
        "image cat noise.ubi /a",
    ] {
        let noise = words(&folder, line, 2).err;
        assert!(
            noise.contains("noise.ubi: the volume holds no UBIFS: noise (unknown contents)"),
            "{line}: {noise}"
        );
        assert!(noise.contains("image cat --raw --volume noise"), "{line}: {noise}");
    }
    let raw = Command::new(env!("CARGO_BIN_EXE_floatgate"))
        .args(["image", "cat", "board.ubi", "--raw", "--volume", "kernel"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert_eq!(raw.stdout, std::fs::read(folder.join("kernel.uimage")).unwrap());
    let file = words(&folder, "image info kernel.uimage", 2).err;
    assert!(file.contains("U-Boot image") && file.contains("dumpimage"), "{file}");
}

#[test]
fn all_volumes_are_extracted_into_a_folder_or_a_tar() {
    let folder = folder("volumes-extracted");
    words(&folder, "image extract board.ubi out --no-owner", 0);
    words(&folder, "image extract board.ubi out.tar", 0);
    std::fs::create_dir(folder.join("untarred")).unwrap();
    let tar = Command::new("tar").args(["-xf", "../out.tar"]).current_dir(folder.join("untarred")).status();
    assert!(tar.unwrap().success());
    for out in ["out", "untarred"] {
        let out = folder.join(out);
        assert_eq!(image_build::names(&out), ["data.img", "kernel.img", "rootfs"]);
        assert_eq!(std::fs::read_to_string(out.join("rootfs/hello")).unwrap(), "hello\n");
        let kernel = std::fs::read(folder.join("kernel.uimage")).unwrap();
        assert_eq!(std::fs::read(out.join("kernel.img")).unwrap(), kernel);
        assert_eq!(std::fs::metadata(out.join("data.img")).unwrap().len(), 0);
    }
    words(&folder, "image extract board.ubi alone --volume rootfs --no-owner", 0);
    assert_eq!(image_build::names(&folder.join("alone")), ["hello"]);
    let refused = run_in(&folder, ["image", "extract", "board.ubi", "alone"]);
    assert_refused("a folder with files", &refused);
    assert!(refused.err.contains("there are files in the folder"), "{}", refused.err);
    assert_eq!(image_build::names(&folder.join("alone")), ["hello"]);
}

/// What `image info` says about making an image makes it.
#[test]
fn the_recipe_makes_such_an_image() {
    let folder = folder("volumes-recipe");
    std::fs::write(folder.join("volumes.ini"), {
        let volume = |id, name: &str, image: &str| {
            format!(
                "[v{id}]\nmode=ubi\n{image}vol_id={id}\nvol_type=dynamic\nvol_name={name}\nvol_size=16MiB\n"
            )
        };
        let [root, noise] = ["rootfs.ubifs", "kernel.uimage"].map(|image| format!("image={image}\n"));
        [volume(0, "rootfs", &root), volume(1, "my kernel", &noise), volume(2, "none", "")].concat()
    })
    .unwrap();
    words(&folder, "image ubinize volumes.ini -o old.ubi --part mt29f2g08aad --erase-counter 7", 0);
    let info = words(&folder, "image info old.ubi", 0).out;
    let recipe = recipe(&info);
    let (commands, ini) = recipe.split_once("  with this volumes.ini:\n").unwrap();
    let ini: String = ini.lines().map(|line| format!("{}\n", line.trim())).collect();
    assert!(commands.contains(" -e 7 ") && commands.contains("-o rootfs.img"), "{commands}");
    assert!(ini.contains("image=volume-1.img") && !ini.contains("image=none.img"), "{ini}");
    let made = folder.join("made");
    std::fs::create_dir(&made).unwrap();
    std::fs::write(made.join("volumes.ini"), ini).unwrap();
    std::fs::copy(folder.join("kernel.uimage"), made.join("volume-1.img")).unwrap();
    let script = format!("PATH=$PATH:/usr/sbin; set -e\n{}", commands.replace("DIRECTORY", "../tree"));
    let run = finish(Command::new("sh").args(["-c", &script]).current_dir(&made));
    if run.code == Some(127) {
        eprintln!("skipped: no mtd-utils here: {}", run.err);
        return;
    }
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    words(&folder, "image diff old.ubi made/image.ubi --no-times --volume rootfs", 0);
    let other = words(&folder, "image info made/image.ubi", 0).out;
    assert_eq!(self::recipe(&other), recipe);
}

/// The indented lines of what `image info` prints to make such an image; the conclusion follows.
fn recipe(info: &str) -> String {
    let lines = info.split("to make such an image:\n").nth(1).unwrap().lines();
    lines
        .take_while(|line| line.is_empty() || line.starts_with(' '))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn a_fault_is_told_of_the_image_that_has_it() {
    let folder = folder("volumes-diff");
    for (line, file) in
        [("image diff kernel.ubi board.ubi", "kernel.ubi"), ("image diff board.ubi kernel.ubi", "kernel.ubi")]
    {
        let refused = words(&folder, line, 2).err;
        assert!(refused.contains(&format!("error: {file}: ")), "{line}: {refused}");
    }
}

#[test]
fn a_change_without_room_says_what_does_not_fit() {
    let folder = folder("volumes-full");
    let noise = images::noise(20_000_000);
    std::fs::write(folder.join("big"), &noise).unwrap();
    let refused = words(&folder, "image put two.ubi big / --volume data", 2).err;
    assert!(refused.contains("two.ubi: /big: no space"), "{refused}");
    let mut at_end = false;
    for kib in (11_000..16_000).rev().step_by(40) {
        std::fs::write(folder.join("big"), &noise[..kib * 1024]).unwrap();
        let run = run_in(&folder, "image put two.ubi big / --volume data -o out.ubi".split_whitespace());
        if run.code == Some(0) {
            break;
        }
        assert!(!run.err.contains("two.ubi: /: "), "{}", run.err);
        assert!(run.err.contains("let it grow with --grow"), "{}", run.err);
        at_end |= run.err.contains("two.ubi: the changes do not fit");
    }
    assert!(at_end, "none of the sizes fails only in the end");
}

#[test]
fn a_lost_name_is_one_loss() {
    let folder = folder("volumes-lost-name");
    let mut image = std::fs::read(folder.join("rootfs.ubifs")).unwrap();
    let name = image.windows(6).position(|window| window == b"hello\0").unwrap();
    image[name] ^= 1;
    std::fs::write(folder.join("damaged.ubifs"), image).unwrap();
    let repaired = words(&folder, "image check damaged.ubifs --repair repaired.ubifs", 1);
    assert!(repaired.out.contains("1 thing lost"), "{}", repaired.out);
    assert!(repaired.out.contains("/lost+found/#"), "{}", repaired.out);
}

#[test]
fn what_a_failed_extraction_left_is_said() {
    let folder = folder("volumes-left");
    std::fs::write(folder.join("tree/other"), "more").unwrap();
    words(&folder, "image build tree -o more.ubi --part mt29f2g08aad", 0);
    let refused = words(&folder, "image extract more.ubi left --no-owner --max-entries 1", 2).err;
    assert!(folder.join("left").is_dir());
    assert!(refused.contains("what was extracted until then is in left"), "{refused}");
    let tar = words(&folder, "image extract more.ubi left.tar --max-entries 1", 2).err;
    assert!(!tar.contains("until then"), "{tar}");
}

#[test]
fn info_takes_a_volume_and_an_offset() {
    let folder = folder("volumes-info");
    let info = words(&folder, "image info board.ubi --volume rootfs", 0).out;
    assert!(info.contains("volume 1 \"rootfs\"") && !info.contains("kernel"), "{info}");
    words(&folder, "image info board.ubi --volume nosuch", 2);
    let mut both = std::fs::read(folder.join("two.ubi")).unwrap();
    let second = both.len();
    both.extend(std::fs::read(folder.join("kernel.ubi")).unwrap());
    std::fs::write(folder.join("both.bin"), both).unwrap();
    let info = words(&folder, &format!("image info both.bin --offset {second:#x}"), 0).out;
    assert!(info.contains("kernel") && !info.contains("rootfs"), "{info}");
    words(&folder, "image info both.bin --offset 1", 2);
}

#[test]
fn offsets_in_a_dump_with_oob_are_those_of_the_file() {
    let folder = folder("volumes-oob");
    words(&folder, "ecc encode board.ubi --part mt29f2g08aad --code bch4/512 -o board.nand", 0);
    let mut dump = vec![0xFF; 64 * 2112];
    dump.extend(std::fs::read(folder.join("board.nand")).unwrap());
    std::fs::write(folder.join("dump.nand"), dump).unwrap();
    let start = 64 * 2112;
    let info = words(&folder, "image info dump.nand", 0).out;
    assert!(info.contains(&format!("UBI at byte {start} ")), "{info}");
    words(&folder, &format!("image ls dump.nand --offset {start}"), 0);
    let header = words(&folder, &format!("image dump dump.nand --at {start}"), 0).out;
    assert!(header.contains("EC header") && header.contains(&format!("byte {start}")), "{header}");
    let oob = words(&folder, &format!("image dump dump.nand --at {}", start + 2050), 2).err;
    assert!(oob.contains("in the OOB"), "{oob}");
}

#[test]
fn recursive_is_r_in_both_cases() {
    let folder = folder("volumes-recursive");
    for line in ["ls board.ubi -r", "ls board.ubi -R", "chmod two.ubi -r 0700 / -o a --volume data"] {
        words(&folder, &format!("image {line}"), 0);
    }
    for line in ["chmod two.ubi -R 0700 / -o b --volume data", "chown two.ubi -r 1:1 / -o c --volume data"] {
        words(&folder, &format!("image {line}"), 0);
    }
    words(&folder, "image mkdir board.ubi /d -o d", 0);
    words(&folder, "image rm d -R /d -o e", 0);
}

#[test]
fn names_that_are_not_utf_8_work_everywhere() {
    let folder = fresh("volumes-names");
    let name = |ending: &str| OsStr::from_bytes(&[b"f\xFF", ending.as_bytes()].concat()).to_owned();
    let tree = folder.join(name(""));
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join(name("")), "hello\n").unwrap();
    let (image, inside) = (name(".ubi"), OsStr::from_bytes(b"/f\xFF"));
    let run = |code: i32, args: &[&OsStr]| {
        let run = floatgate().arg("image").args(args).current_dir(&folder).output().unwrap();
        let err = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(code), "{args:?}: {err}");
        run.stdout
    };
    let word = OsStr::new;
    let (out, part, chip) = (word("-o"), word("--part"), word("mt29f2g08aad"));
    run(0, &[word("build"), tree.as_os_str(), out, &image, part, chip, word("--autoresize")]);
    assert_eq!(run(0, &[word("cat"), &image, inside]), b"hello\n");
    assert!(String::from_utf8(run(0, &[word("ls"), &image, inside])).unwrap().contains("f\\xff"));
    run(0, &[word("stat"), &image, inside]);
    run(0, &[word("dump"), &image, word("--path"), inside]);
    run(0, &[word("chmod"), &image, word("0600"), inside]);
    run(0, &[word("mv"), &image, inside, OsStr::from_bytes(b"/g\xFE")]);
    run(0, &[word("put"), &image, tree.join(name("")).as_os_str(), word("/")]);
    run(0, &[word("setxattr"), &image, inside, word("user.a"), OsStr::from_bytes(b"\xFF")]);
    run(0, &[word("rm"), &image, OsStr::from_bytes(b"/g\xFE")]);
    run(0, &[word("check"), &image]);
    run(0, &[word("info"), &image]);
    run(0, &[word("extract"), &image, &name(".tar")]);
    run(0, &[word("extract"), &image, &name(".out")]);
    assert_eq!(std::fs::read(folder.join(name(".out")).join(name(""))).unwrap(), b"hello\n");
    run(1, &[word("diff"), &image, tree.as_os_str()]);
    run(0, &[word("check"), &image, word("--repair"), &name(".repaired")]);
}

#[test]
fn files_of_ones_own_may_have_names_that_are_not_utf_8() {
    let folder = fresh("volumes-own-names");
    let name = OsStr::from_bytes(b"./own\xFF.toml");
    let run = |text: &str, command: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        let (first, rest) = command.split_once(' ').unwrap_or((command, ""));
        let mut program = floatgate();
        let run =
            program.arg(first).arg(name).args(rest.split_whitespace()).current_dir(&folder).output().unwrap();
        let err = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(0), "{command}: {err}");
        assert!(!run.stdout.is_empty(), "{command}");
    };
    let setup = "base = \"imx6-mx30lf2g18ac\"\n";
    for command in
        ["speed", "trace read-page", "setups --resolved", "powercut --cuts 5 --steps 5 --mode random"]
    {
        run(setup, command);
    }
    let of =
        |what: &str| String::from_utf8(floatgate().args(what.split(' ')).output().unwrap().stdout).unwrap();
    run(&of("parts w25n01gv --toml"), "parts");
    let image = folder.join("image.ubi");
    std::fs::write(folder.join(name), setup).unwrap();
    let build = floatgate()
        .args(["image", "build"])
        .arg(&folder)
        .arg("-o")
        .arg(&image)
        .arg("--setup")
        .arg(name)
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
}

#[test]
fn holes_stay_holes_in_a_tar() {
    let folder = fresh("volumes-holes");
    let long = format!("tree/{}", "l".repeat(120));
    std::fs::create_dir(folder.join("tree")).unwrap();
    for (name, end) in [("tree/middle", true), (&long, false)] {
        let mut file = std::fs::File::create(folder.join(name)).unwrap();
        file.write_all(&images::noise(5000)).unwrap();
        file.seek(SeekFrom::Start(30_000_001)).unwrap();
        file.write_all(b"behind the hole").unwrap();
        file.set_len(if end { 30_000_016 } else { 60_000_000 }).unwrap();
    }
    std::fs::File::create(folder.join("tree/empty")).unwrap().set_len(10_000_000).unwrap();
    words(&folder, "image build tree -o a.ubi --part mt29f2g08aad", 0);
    words(&folder, "image extract a.ubi a.tar", 0);
    assert!(std::fs::metadata(folder.join("a.tar")).unwrap().len() < 100_000);
    std::fs::create_dir(folder.join("untarred")).unwrap();
    let tar = Command::new("tar").args(["-xf", "../a.tar"]).current_dir(folder.join("untarred")).status();
    assert!(tar.unwrap().success());
    let diff = Command::new("diff").args(["-r", "tree", "untarred"]).current_dir(&folder).status();
    assert!(diff.unwrap().success(), "GNU tar reads what was written");
    assert!(std::fs::metadata(folder.join("untarred/middle")).unwrap().blocks() < 100);
    words(&folder, "image build a.tar -o b.ubi --part mt29f2g08aad", 0);
    words(&folder, "image diff a.ubi b.ubi --holes", 0);
}

#[test]
fn a_mount_needs_a_folder() {
    let folder = folder("volumes-mount");
    std::fs::write(folder.join("file"), "").unwrap();
    for place in ["file", "nosuch"] {
        let run = finish(floatgate().args(["image", "mount", "board.ubi", place]).current_dir(&folder));
        assert_refused(place, &run);
    }
}
