//! `floatgate ecc` from outside: files there and back, exit codes, files that nobody should give.

use crate::support::{Run, assert_refused, dump_files, finish, floatgate, fresh, run_in};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const CHIP: [&str; 4] = ["--part", "mt29f2g08aad", "--code", "bch4/512"];

fn folder(name: &str) -> PathBuf {
    let folder = fresh(name);
    dump_files(&folder);
    folder
}

fn ecc(folder: &Path, args: &[&str]) -> Run {
    run_in(folder, [&["ecc"], args, &CHIP].concat())
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

/// Names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_dump_with_wrong_bits_becomes_the_image() {
    let folder = folder("ecc-back");
    let run = ecc(&folder, &["decode", "dump.nand", "-o", "back"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), "wrote back\n"), "{}", run.out);
    assert!(read(&folder, "back") == read(&folder, "rootfs.ubi"));
    let run = ecc(&folder, &["decode", "rootfs.ubi", "--oob", "rootfs.oob", "-o", "back"]);
    assert_eq!(run.code, Some(0));
    assert!(read(&folder, "back") == read(&folder, "rootfs.ubi"));
    assert_eq!(
        names(&folder),
        ["back", "dump.nand", "rootfs.oob", "rootfs.ubi"],
        "nothing else is left behind"
    );
    // The lengths tell the sizes, and have to belong to each other.
    let run = run_in(&folder, ["ecc", "check", "rootfs.ubi", "--oob", "rootfs.oob"]);
    assert!(run.code == Some(0) && run.out.contains("pages of 2048 + 64 bytes"), "{} {}", run.out, run.err);
    std::fs::write(folder.join("short.oob"), &read(&folder, "rootfs.oob")[1..]).unwrap();
    let run = run_in(&folder, ["ecc", "check", "rootfs.ubi", "--oob", "short.oob"]);
    assert!(run.err.contains("are not the OOB of as many pages"), "{} {}", run.out, run.err);
}

#[test]
fn what_is_uncorrectable_is_exit_1_and_written_as_read() {
    let folder = folder("ecc-uncorrectable");
    let mut dump = read(&folder, "dump.nand");
    dump[2112..2122].fill(0x55);
    std::fs::write(folder.join("dump.nand"), &dump).unwrap();
    for command in [&["decode", "dump.nand", "-o", "back"][..], &["check", "dump.nand"]] {
        let run = ecc(&folder, command);
        assert_eq!(run.code, Some(1), "{}", run.err);
        assert!(run.out.contains("1 uncorrectable") && run.out.contains("0x840"), "{}", run.out);
    }
    let (back, image) = (read(&folder, "back"), read(&folder, "rootfs.ubi"));
    let told = ecc(&folder, &["decode", "dump.nand", "-o", "back"]).out;
    assert!(told.contains("written as it was read"), "{told}");
    assert!(back[2048..2048 + 512] == dump[2112..2112 + 512]);
    assert!(back[..2048] == image[..2048] && back[2560..] == image[2560..]);
}

#[test]
fn pipes_work_at_both_ends() {
    let folder = folder("ecc-pipes");
    let file = |name: &str| Stdio::from(std::fs::File::open(folder.join(name)).unwrap());
    let mut command = floatgate();
    command.args(["ecc", "decode", "-", "-o", "-"]).args(CHIP).current_dir(&folder);
    let output = command.stdin(file("dump.nand")).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == read(&folder, "rootfs.ubi"));
    assert!(String::from_utf8(output.stderr).unwrap().contains("corrected"), "the report is on stderr");
    let run = finish(floatgate().args(["ecc", "check", "-"]).args(CHIP).stdin(file("dump.nand")));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let mut json = floatgate();
    json.args(["ecc", "encode", "-", "-o", "-", "--json"]).args(CHIP).stdin(file("rootfs.ubi"));
    assert_refused("data and JSON on stdout", &finish(&mut json));
    let mut detect = floatgate();
    detect.args(["ecc", "check", "-", "--part", "mt29f2g08aad"]).stdin(file("dump.nand"));
    let run = finish(&mut detect);
    assert!(run.code == Some(0) && run.out.contains("bch4/512"), "a pipe is read twice: {}", run.err);
}

/// Without a code each part of the dump is decoded by its own; compressed files are unpacked.
#[test]
fn a_dump_is_decoded_by_the_codes_that_are_found() {
    let folder = folder("ecc-found");
    let sizes = ["--page-size", "2048", "--oob-size", "64"];
    let run = |args: &[&str]| run_in(&folder, [&["ecc"], args, &sizes[..]].concat());
    let encoded = run(&["encode", "rootfs.ubi", "--layout", "omap-bch8", "-o", "second.nand"]);
    assert_eq!(encoded.code, Some(0), "{}", encoded.err);
    let parts = [read(&folder, "dump.nand"), read(&folder, "second.nand")].concat();
    std::fs::write(folder.join("parts.nand"), &parts).unwrap();
    let data = [read(&folder, "rootfs.ubi"), read(&folder, "rootfs.ubi")].concat();
    // Codes change between blocks.
    let found = run(&["decode", "parts.nand", "-o", "back", "--pages-per-block", "8", "--json"]);
    assert_eq!(found.code, Some(0), "{}{}", found.out, found.err);
    assert!(read(&folder, "back") == data);
    let json: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(json["regions"].as_array().unwrap().len(), 2);
    assert_eq!(json["pages"], 80);
    let candidate = &json["detection"]["candidates"][1];
    assert!(candidate["layout"] == "omap-bch8" && candidate["confidence"].as_f64().unwrap() > 0.99);
    let refused = run(&["decode", "rootfs.ubi", "-o", "none"]);
    assert!(refused.code == Some(2) && !folder.join("none").exists(), "{}", refused.err);
}

/// A sparse image with the pages as raw blocks and an open block behind them.
#[test]
fn sparse_and_compressed_dumps_are_read() {
    let folder = folder("ecc-sparse");
    let dump = read(&folder, "dump.nand");
    let blocks = (dump.len() / 2112) as u32;
    let mut sparse = [[0x3A, 0xFF, 0x26, 0xED], [1, 0, 0, 0], [28, 0, 12, 0]].concat();
    [2112, blocks + 2, 2, 0].iter().for_each(|word: &u32| sparse.extend(word.to_le_bytes()));
    sparse.extend([0xC1, 0xCA, 0, 0]);
    [blocks, 12 + dump.len() as u32].iter().for_each(|word| sparse.extend(word.to_le_bytes()));
    sparse.extend(&dump);
    sparse.extend([0xC3, 0xCA, 0, 0]);
    [2_u32, 12].iter().for_each(|word| sparse.extend(word.to_le_bytes()));
    std::fs::write(folder.join("dump.simg"), &sparse).unwrap();
    let run = ecc(&folder, &["decode", "dump.simg", "-o", "back"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let image = read(&folder, "rootfs.ubi");
    let back = read(&folder, "back");
    assert!(back[..image.len()] == image && back[image.len()..] == [0xFF; 2 * 2048]);
    std::fs::write(folder.join("broken.simg"), &sparse[..3000]).unwrap();
    assert_refused("a cut sparse image", &ecc(&folder, &["decode", "broken.simg", "-o", "none"]));
    assert!(!folder.join("none").exists());
}

/// Two reads of a chip are merged, and the report counts their wrong bits.
#[test]
fn dumps_of_a_chip_are_merged() {
    let folder = folder("ecc-merge");
    let mut other = read(&folder, "dump.nand");
    other[2 * 2112..2 * 2112 + 40].fill(0);
    std::fs::write(folder.join("other.nand"), &other).unwrap();
    let run = run_in(
        &folder,
        ["ecc", "merge", "dump.nand", "other.nand", "--part", "mt29f2g08aad", "-o", "merged.nand"].to_vec(),
    );
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    assert!(
        run.out.contains("large-page")
            && run.out.contains("1 by one dump") | run.out.contains("right by vote")
    );
    assert_eq!(ecc(&folder, &["decode", "merged.nand", "-o", "back"]).code, Some(0));
    assert!(read(&folder, "back") == read(&folder, "rootfs.ubi"));
}

#[test]
fn the_code_of_a_dump_is_found() {
    let folder = folder("ecc-detect");
    let json = |args: &[&str]| {
        let run = run_in(&folder, [&["ecc", "check", "--json"], args].concat());
        (run.code, serde_json::from_str::<Value>(&run.out).unwrap())
    };
    let (code, found) = json(&["dump.nand", "--page-size", "2048", "--oob-size", "64"]);
    let best = &found["detection"]["candidates"][0];
    assert_eq!(
        (code, best["code"].as_str(), best["fits"].as_bool()),
        (Some(0), Some("bch4/512"), Some(true))
    );
    assert_eq!(found["regions"][0]["report"]["scheme"]["layout"], "large-page");
    assert_eq!(found["regions"][0]["report"]["steps"]["corrected"], 3);
    let (code, found) = json(&["rootfs.ubi", "--page-size", "2048", "--oob-size", "64"]);
    assert_eq!((code, found["regions"][0]["report"].is_null()), (Some(1), true));
}

/// Markers in the middle of a page make its pages look half as large: the code is found in larger ones. Where none fits, the sizes are named.
#[test]
fn a_code_is_also_found_in_pages_of_other_sizes() {
    let folder = fresh("ecc-other-pages");
    let data: Vec<u8> = (0..98 * 4096_u32).map(|at| (at.wrapping_mul(0x9E37_79B1) >> 24) as u8 | 1).collect();
    std::fs::write(folder.join("data"), data).unwrap();
    let layout = "title = \"two halves\"\nsource = \"this test\"\ncodes = [\"bch8/512\"]\n[[pages]]\npage = 4096\noob = 128\n\
                  pattern = \"data:2048 free:12 ecc:52 data:2048 free:12 ecc:52\"\n";
    std::fs::write(folder.join("two.toml"), layout).unwrap();
    let sizes = ["--page-size", "4096", "--oob-size", "128", "--layout", "two.toml"];
    let encoded = run_in(&folder, [&["ecc", "encode", "data", "-o", "two.nand"][..], &sizes].concat());
    assert_eq!(encoded.code, Some(0), "{}", encoded.err);
    let check = |layout: &str| run_in(&folder, ["ecc", "check", "two.nand", "--layout", layout]);
    let found = check("two.toml");
    assert!(found.code == Some(0) && found.out.contains("pages of 4096 + 128 bytes"), "{}", found.out);
    let unfit = check("omap-bch8");
    let others =
        "No code fits in pages of these sizes either: 4096 + 128, 8192 + 256, 1024 + 32, 512 + 16 bytes.";
    assert!(
        unfit.code == Some(1) && unfit.out.contains("pages of 2048 + 64 bytes") && unfit.out.contains(others)
    );
}

/// `--code none` cuts the OOB off, whatever it holds; bad blocks can be left out.
#[test]
fn oob_is_taken_out_without_a_code() {
    let folder = folder("ecc-strip");
    let mut dump = read(&folder, "dump.nand");
    dump[16 * 2112 + 2048] = 0;
    std::fs::write(folder.join("dump.nand"), &dump).unwrap();
    let expected: Vec<u8> = dump.chunks(2112).flat_map(|page| &page[..2048]).copied().collect();
    let sizes = ["--page-size", "2048", "--oob-size", "64", "--block-pages", "16", "--code", "none"];
    let strip = |more: &[&str]| {
        let run = run_in(&folder, [&["ecc", "decode", "dump.nand", "-o", "data"], &sizes[..], more].concat());
        assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
        (run.out, read(&folder, "data"))
    };
    let (told, data) = strip(&[]);
    assert!(data == expected && told.contains("taken as they were read"), "{told}");
    let report: Value = serde_json::from_str(&strip(&["--json"]).0).unwrap();
    assert_eq!((&report["scheme"]["code"], &report["steps"]["total"]), (&"none".into(), &0.into()));
    let (told, data) = strip(&["--bad-blocks", "skip"]);
    assert!(data == [&expected[..16 * 2048], &expected[32 * 2048..]].concat(), "{told}");
    let check = run_in(&folder, [&["ecc", "check", "dump.nand"], &sizes[..]].concat());
    assert_refused("a check without a code", &check);
}

/// All commands that open an image take the sizes of its pages.
#[test]
fn images_are_opened_in_pages_of_stated_sizes() {
    let folder = fresh("ecc-image");
    crate::images::write(&folder);
    let sizes = ["--page-size", "2048", "--oob-size", "64", "--block-pages", "64"];
    let encode = ["ecc", "encode", "rootfs.ubi", "-o", "rootfs.nand", "--code", "bch4/512"];
    let run = run_in(&folder, [&encode[..], &sizes].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let commands: [&[&str]; 10] = [
        &["info", "rootfs.nand"],
        &["ls", "rootfs.nand"],
        &["ls", "rootfs.nand", "--history"],
        &["cat", "rootfs.nand", "/etc/fstab"],
        &["stat", "rootfs.nand", "/etc/fstab"],
        &["extract", "rootfs.nand", "files.tar"],
        &["check", "rootfs.nand"],
        &["diff", "rootfs.ubi", "rootfs.nand"],
        &["dump", "rootfs.nand", "--peb", "0"],
        &["put", "rootfs.nand", "hostname", "/hostname"],
    ];
    for command in commands {
        let run = run_in(&folder, [&["image"], command, &sizes].concat());
        assert_eq!(run.code, Some(0), "{command:?}: {}{}", run.out, run.err);
    }
    for command in ["rm", "mv", "ln", "mkdir", "chmod", "chown", "setxattr"] {
        let help = run_in(&folder, ["image", command, "--help"]).out;
        assert!(help.contains("--page-size") && help.contains("--oob-size"), "{command}: {help}");
    }
    let shown = run_in(&folder, ["image", "info", "rootfs.nand"]).out;
    let command = "ecc decode DUMP --page-size 2048 --oob-size 64 --block-pages 64 --code none -o DATA";
    assert!(shown.contains(command), "{shown}");
    let refused = ["image", "info", "hostname", "--page-size", "4096", "--oob-size", "128"];
    assert_refused("no page of that size", &run_in(&folder, refused));
}

#[test]
fn another_polynomial_is_written_found_and_read() {
    const OTHER: [&str; 4] = ["--part", "mt29f2g08aad", "--code", "bch8/1024@0x4443"];
    let folder = folder("ecc-polynomial");
    let ecc = |args: &[&str]| run_in(&folder, [&["ecc"], args].concat());
    let run = ecc(&[&["encode", "rootfs.ubi", "-o", "other.nand"][..], &OTHER].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let mut dump = read(&folder, "other.nand");
    (0..8).for_each(|bit| dump[3 * 2112 + 100 * bit] ^= 1 << bit);
    std::fs::write(folder.join("other.nand"), &dump).unwrap();

    let run = ecc(&["check", "other.nand", "--part", "mt29f2g08aad", "--json"]);
    let found: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (run.code, &found["regions"][0]["report"]["scheme"]["code"]),
        (Some(0), &"bch8/1024@17475".into())
    );
    assert_eq!(found["regions"][0]["report"]["corrected_bits"], 8);

    let run = ecc(&[&["decode", "other.nand", "-o", "back"][..], &OTHER].concat());
    assert_eq!((run.code, run.out.contains("bch8/1024@17475")), (Some(0), true), "{}", run.out);
    assert!(read(&folder, "back") == read(&folder, "rootfs.ubi"));
    let run = ecc(&["check", "other.nand", "--part", "mt29f2g08aad", "--code", "bch8/1024"]);
    assert_eq!(run.code, Some(1), "Linux's polynomial does not fit");

    let run = ecc(&["advise", "mt29f2g08aad", "--code", "bch8/1024@17475"]);
    assert_eq!((run.code, run.out.contains("bch8/1024@17475")), (Some(0), true), "{}{}", run.out, run.err);
}

/// Arguments after `ecc` that are wrong, each in its own way, and a word of the message.
const WRONG: [(&str, &str); 37] = [
    ("", "Usage"),
    ("nosuch", "nosuch"),
    ("encode", "FILE"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/512", "--output"),
    ("encode rootfs.ubi --part mt29f2g08aad -o x", "hamming/512"),
    ("encode rootfs.ubi --code bch4/512 -o x", "--page-size"),
    ("encode rootfs.ubi --page-size 2048 --code bch4/512 -o x", "--oob-size"),
    ("encode rootfs.ubi --part mt29f2g08aad --page-size 2048 --oob-size 64 --code bch4/512 -o x", "--part"),
    ("encode rootfs.ubi --part mt29f2g08aa --code bch4/512 -o x", "mt29f2g08aad"),
    ("encode rootfs.ubi --part w25q128jv --code bch4/512 -o x", "spi-nor"),
    ("encode rootfs.ubi --part s29gl128p --code bch4/512 -o x", "parallel-nor"),
    ("encode rootfs.ubi --part ./nosuch.toml --code bch4/512 -o x", "nosuch.toml"),
    ("encode rootfs.ubi --part mt29f2g08aad --code rs8/512 -o x", "bch8/512"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch99/512 -o x", "99"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch8/1024@ -o x", "@<polynomial>"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch8/1024@16385 -o x", "not primitive"),
    ("advise mt29f2g08aad --code bch8/1024@8219", "17475"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch16/512 -o x", "OOB"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/500 -o x", "500"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/512 --layout nosuch -o x", "no such layout"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/512 --layout winbond -o x", "ECC per step"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/512 --oob-only --ecc-only -o x", "--ecc-only"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o rootfs.ubi", "over"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o ./rootfs.ubi", "over"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o linked", "over"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o sub", "folder"),
    ("encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o no/such/x", "no/such/x"),
    ("encode nosuch --part mt29f2g08aad --code bch4/512 -o x", "nosuch"),
    ("encode sub --part mt29f2g08aad --code bch4/512 -o x", "folder"),
    ("encode empty --part mt29f2g08aad --code bch4/512 -o x", "empty"),
    ("decode empty --part mt29f2g08aad --code bch4/512 -o x", "empty"),
    ("decode short --part mt29f2g08aad --code bch4/512 -o x", "2111"),
    ("decode rootfs.ubi --oob empty --part mt29f2g08aad --code bch4/512 -o x", "too short"),
    ("decode rootfs.ubi --oob rootfs.oob --part mt29f2g08aad --code bch4/512 -o rootfs.oob", "over"),
    ("decode dump.nand --part mt29f2g08aad --code bch4/512 --bad-blocks burn -o x", "burn"),
    ("check erased --part mt29f2g08aad", "--code"),
    ("check short --page-size 4000000000 --oob-size 4000000000 --code bch4/512", "4000000000"),
];

#[test]
fn wrong_usage_and_input_are_refused_and_nothing_is_written() {
    let folder = folder("ecc-wrong");
    std::fs::create_dir(folder.join("sub")).unwrap();
    std::fs::hard_link(folder.join("rootfs.ubi"), folder.join("linked")).unwrap();
    std::fs::write(folder.join("empty"), b"").unwrap();
    std::fs::write(folder.join("short"), [0; 2111]).unwrap();
    std::fs::write(folder.join("erased"), [0xFF; 2112]).unwrap();
    let before = names(&folder);
    for (line, word) in WRONG {
        let run = run_in(&folder, ["ecc"].into_iter().chain(line.split_whitespace()));
        assert_refused(line, &run);
        assert!(run.err.contains(word), "{line}: no {word:?} in\n{}", run.err);
        assert_eq!(names(&folder), before, "{line} leaves something behind");
    }
}

/// Numbers at and beyond the borders of what fits.
const NUMBERS: [&str; 8] = ["-1", "0", "1", "3", "65536", "65537", "4294967295", "4294967296"];

#[test]
fn sizes_beyond_the_borders_do_no_harm() {
    let folder = folder("ecc-numbers");
    for page in NUMBERS {
        for oob in NUMBERS {
            let sizes = ["ecc", "check", "dump.nand", "--page-size", page, "--oob-size", oob];
            for more in
                [&[][..], &["--code", "bch1/2"], &["--pages-per-block", page, "--code", "hamming/256"]]
            {
                let args = [&sizes[..], more].concat();
                let run = run_in(&folder, &args);
                assert!(matches!(run.code, Some(0..=2)), "{args:?}: {:?}\n{}", run.code, run.err);
                assert!(!run.err.contains("panicked"), "{args:?}\n{}", run.err);
            }
        }
    }
}

#[test]
#[cfg(unix)]
fn links_are_followed_and_devices_are_not_replaced() {
    let folder = folder("ecc-links");
    std::fs::write(folder.join("target"), b"old").unwrap();
    std::os::unix::fs::symlink("target", folder.join("link")).unwrap();
    assert_eq!(ecc(&folder, &["decode", "dump.nand", "-o", "link"]).code, Some(0));
    assert!(std::fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
    assert!(read(&folder, "target") == read(&folder, "rootfs.ubi"));
    assert_eq!(ecc(&folder, &["decode", "dump.nand", "-o", "/dev/null"]).code, Some(0));
    use std::os::unix::fs::FileTypeExt;
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let full = ecc(&folder, &["decode", "dump.nand", "-o", "/dev/full"]);
    assert_refused("a full disk", &full);
    assert!(full.err.contains("/dev/full: cannot write at byte 0"), "{}", full.err);
    for line in [&["ecc", "decode", "dump.nand"][..], &["ecc", "merge", "dump.nand", "dump.nand"]] {
        let full = run_in(&folder, [line, &["-o", "/dev/full"]].concat());
        assert!(full.err.contains("/dev/full: cannot write at byte"), "{}", full.err);
    }
}

/// Nobody corrects what is in a bad block, and its bytes are in the output.
#[test]
fn what_a_bad_block_has_that_cannot_be_corrected_is_said() {
    let folder = folder("ecc-bad-block");
    let mut dump = read(&folder, "dump.nand");
    dump[..2 * 2112].fill(0x5A);
    dump[2048] = 0;
    std::fs::write(folder.join("bad.nand"), dump).unwrap();
    for (fate, told) in [("keep", true), ("skip", false)] {
        let run = ecc(&folder, &["decode", "bad.nand", "--bad-blocks", fate, "-o", "corrected"]);
        assert_eq!(run.out.contains("8 uncorrectable steps in them, written as read"), told, "{}", run.out);
        assert!(run.out.contains("8 uncorrectable steps in them"), "{}", run.out);
    }
}

#[test]
fn a_part_of_ones_own_works() {
    let folder = folder("ecc-part");
    let toml = finish(floatgate().args(["parts", "mt29f2g08aad", "--toml"])).out;
    std::fs::write(folder.join("chip.toml"), toml).unwrap();
    let run = run_in(&folder, ["ecc", "check", "dump.nand", "--part", "chip.toml", "--code", "bch4/512"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    for (right, wrong) in
        [("pages_per_block = 64", "pages_per_block = 0"), ("page_bytes = 2048", "page_bytes = 0")]
    {
        let toml = finish(floatgate().args(["parts", "mt29f2g08aad", "--toml"])).out;
        assert!(toml.contains(right), "{toml}");
        std::fs::write(folder.join("chip.toml"), toml.replace(right, wrong)).unwrap();
        let args = ["ecc", "check", "dump.nand", "--part", "chip.toml", "--code", "bch4/512"];
        assert_refused(wrong, &run_in(&folder, args));
    }
}

#[test]
fn the_same_bytes_with_any_number_of_threads() {
    let folder = folder("ecc-threads");
    let with = |threads: &str| {
        let args = ["ecc", "check", "dump.nand", "--part", "mt29f2g08aad", "--json"];
        finish(floatgate().args(args).env("RAYON_NUM_THREADS", threads).current_dir(&folder))
    };
    let one = with("1");
    assert_eq!(one.code, Some(0));
    assert_eq!(one, with("2"));
    assert_eq!(one, with("5"));
}

/// The OOB of a last page that was filled up does not belong to data that end within it, and the message says so.
#[test]
fn data_that_end_within_a_page_are_told_from_oob_that_is_too_long() {
    let folder = fresh("ecc-part-of-page");
    std::fs::write(folder.join("data"), [0x5A; 3000]).unwrap();
    let ecc = |line: &str| run_in(&folder, line.split_whitespace());
    let chip = "--part mt29f2g08aad --code bch4/512";
    assert_eq!(ecc(&format!("ecc encode data {chip} --ecc-only -o data.ecc")).code, Some(0));
    let run = ecc(&format!("ecc decode data --oob data.ecc --ecc-only {chip} -o back"));
    assert!(run.code == Some(2) && run.err.contains("end 952 bytes into page 1"), "{}", run.err);
}
