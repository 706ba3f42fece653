//! Exit codes: 0 done, 1 a check found a problem, 2 wrong usage or input.

use crate::support::{assert_refused, floatgate, fresh, paper, run, run_in};
use std::io::Write as _;
use std::process::Stdio;

/// Command lines that are wrong, each in its own way.
const WRONG: [&str; 90] = [
    "",
    "nosuch",
    "speed",
    "speed nosuch",
    "speed nosuch.toml",
    "speed am62a-w35n01jw extra",
    "speed am62a-w35n01jw --nosuch",
    "speed am62a-w35n01jw -c 0",
    "speed am62a-w35n01jw -c many",
    "speed am62a-w35n01jw -b 100000",
    "speed am62a-w35n01jw -b -1",
    "speed am62a-w35n01jw -c 513",
    "speed am62a-w35n01jw -k 512",
    "speed am62a-w35n01jw --pages 65",
    "speed am62a-w35n01jw --pages 0",
    "speed am62a-w35n01jw --bad-blocks 11",
    "speed nor-serialised --bad-blocks 1",
    "speed am62a-w35n01jw --set chip=nosuch",
    "speed am62a-w35n01jw --set controller=nosuch",
    "speed am62a-w35n01jw --set controller=gpmi-imx6",
    "speed am62a-w35n01jw --set bus.clock_hz=0",
    "speed am62a-w35n01jw --set bus.clock_hz=25us",
    "speed am62a-w35n01jw --set bus.reset_pin=false --set bus.mode=8D-8D-8D",
    "speed nor-serialised --set bus.mode=1-4-4",
    "speed am62a-w35n01jw --set bus.clock",
    "speed am62a-w35n01jw --sweep bus.mode",
    "speed am62a-w35n01jw --sweep bus.mode=",
    "speed am62a-w35n01jw --sweep a=1,2",
    "speed am62a-w35n01jw --sweep bus.mode=8x-8x-8x",
    "speed am62a-w35n01jw --sweep chip=w35n01jw,nosuch",
    "trace am62a-w35n01jw",
    "trace am62a-w35n01jw read-pag",
    "keystore am62a-w35n01jw",
    "keystore nor-serialised",
    "keystore --set chip=w25q256jv",
    "keystore --set firmware.clock_hz=0",
    "endurance",
    "endurance nosuch",
    "endurance w25q128jv --example-trace 0.4",
    "endurance s29gl128p --predict block.csv",
    "endurance mt29f8g08maawc --all",
    "endurance mt29f8g08maawc --blocks 0",
    "endurance mt29f8g08maawc --blocks 1000000 --chips 2",
    "endurance mt29f8g08maawc --temperature 300",
    "endurance mt29f8g08maawc --interleave 11",
    "endurance mt29f8g08maawc --pages 2",
    "endurance mt29f8g08maawc --predict nosuch.csv",
    "endurance mt29f8g08maawc --example-trace 2",
    "powercut",
    "powercut nosuch",
    "powercut imx6-mx30lf2g18ac --mode nosuch",
    "powercut imx6-mx30lf2g18ac --cuts 0",
    "powercut imx6-mx30lf2g18ac --mode unmount --cuts 5",
    "powercut imx6-mx30lf2g18ac --mode unmount --kind before",
    "powercut imx6-mx30lf2g18ac --mode unmount --recovery-cuts 1",
    "powercut imx6-mx30lf2g18ac --mode exhaustive --cuts 5",
    "powercut imx6-mx30lf2g18ac --mode log --cuts 5",
    "powercut imx6-mx30lf2g18ac --mode random --recovery-cuts exhaustive",
    "powercut imx6-mx30lf2g18ac --recovery-cuts 2",
    "powercut a1-32g --mode exhaustive --cuts 4",
    "powercut imx6-mx30lf2g18ac --mode exhaustive --steps 3",
    "powercut imx6-mx30lf2g18ac --size 16XB",
    "powercut imx6-mx30lf2g18ac --size 1TiB",
    "image check - --repair out.ubi",
    "image rm - /file",
    "powercut imx6-mx30lf2g18ac --size 128KiB",
    "powercut memory-bus-s29gl128p --faults",
    "powercut chip-h27ucg8t2etr-bc --set partition.slc=false",
    "powercut --replay nosuch",
    "powercut imx6-mx30lf2g18ac --replay nand64x131072_2048.2048.2048_64.34_4.512.3:1.5:unmount.3",
    "powercut --replay chip128_00000000:1.5:unmount.3",
    "powercut imx6-mx30lf2g18ac --replay chip128_00000000:1.5:unmount.3",
    "speed imx6-mx30lf2g18ac --fs ext4",
    "endurance mx30lf2g18ac --set foo.bar=1",
    "ecc advise mx30lf2g18ac --set foo.bar=1",
    "speed stm32-n25q128a --fs ubifs",
    "speed imx6-mx30lf2g18ac --set partition.offset=1",
    "speed imx6-mx30lf2g18ac --set partition.size=1TiB",
    "speed imx6-mx30lf2g18ac --set partition.name=a --set use=a",
    "speed imx6-mx30lf2g18ac --fs ubifs --set filesystem.compression=rar",
    "speed imx6-mx30lf2g18ac --fs ubifs --set partition.size=1MiB",
    "speed imx6-mx30lf2g18ac --fs ubifs --sweep bus.clock_hz=10e6,20e6 --sort page-read",
    "speed imx6-mx30lf2g18ac --sweep bus.clock_hz=10e6,20e6 --sort mount",
    "papers nosuch",
    "papers nosuch.toml",
    "parts nosuch",
    "parts w35n01jw --kind spi-nand",
    "parts --toml",
    "setups nosuch",
    "completions nosuch",
];

#[test]
fn wrong_usage_and_input_exit_with_2() {
    for line in WRONG {
        assert_refused(&format!("floatgate {line}"), &run(line));
    }
}

/// Messages say what was meant, or which option was wrong.
#[test]
fn messages_lead_on() {
    for (line, says) in [
        ("speed am62a-w35n01jw --seed -1", "invalid value '-1' for '--seed <SEED>'"),
        ("papers ocatl", "did you mean `octal`?"),
        ("setups --keys chip.timng", "did you mean `chip.timing`?"),
        ("list w25n01gx", "did you mean `w25n01gv`"),
        ("list w25n01gx --toml", "did you mean `w25n01gv`"),
        ("speed am62a-w35n01jw --sweep chip=@spi-nadn", "did you mean `spi-nand`?"),
        ("powercut imx6-mx30lf2g18ac --mode log --cuts 5", "--cuts does not go with --mode log"),
    ] {
        let run = run(line);
        assert_refused(line, &run);
        assert!(run.err.contains(says), "{line}: {}", run.err);
    }
}

#[test]
fn help_and_version_exit_with_0_on_stdout() {
    for line in [
        "--help",
        "-h",
        "--version",
        "help speed",
        "help --help",
        "image help -h",
        "speed --help",
        "papers --version",
    ] {
        let run = run(line);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "floatgate {line}");
        assert!(run.out.contains("floatgate"), "floatgate {line}");
    }
}

#[test]
fn papers_exits_with_1_when_a_row_has_another_residual_than_stated() {
    let folder = fresh("papers-exit");
    let code = |published: f64| {
        std::fs::write(folder.join("mine.toml"), paper(published)).unwrap();
        let run = run_in(&folder, ["papers", "mine.toml"]);
        assert_eq!(run.err, "");
        (run.code, run.out.contains("not as stated: mine/reads/page"), run.out.contains("as stated: yes"))
    };
    assert_eq!(code(11_000.0), (Some(0), false, true));
    assert_eq!(code(9_000.0), (Some(1), true, false));
    for flag in ["--json", "--summary"] {
        let run = run_in(&folder, ["papers", "mine.toml", flag]);
        assert_eq!((run.code, run.err.as_str()), (Some(1), ""), "{flag}");
    }
}

/// A paper that is wrong, and what the message must name.
const WRONG_PAPERS: [(&str, &str, &str); 11] = [
    ("page read", "page raed", "mine/reads/page"),
    ("page read", "65 page read", "64 of an eraseblock"),
    ("page read", "4000000000 page read", "64 of an eraseblock"),
    ("page read", "0 page read", "0 page read"),
    ("page read", "keystore with delays", "mine/reads/page"),
    ("page read", "read ended after", "secondary block"),
    ("am62a-w35n01jw", "am62a", "mine/reads/page"),
    ("published = 11034", "published = 0", "not above 0"),
    ("published = 11034", "publishd = 11034", "published"),
    ("kind = 'predicted'", "kind = 'fitted'", "[[fit]]"),
    ("kind = 'predicted'", "kind = 'guessed'", "predicted"),
];

#[test]
fn a_wrong_paper_is_refused_with_its_place() {
    let folder = fresh("papers-wrong");
    for (right, wrong, named) in WRONG_PAPERS {
        let text = paper(11_034.0).replace(right, wrong);
        assert!(text.contains(wrong), "{right} is not in the paper");
        std::fs::write(folder.join("mine.toml"), text).unwrap();
        let run = run_in(&folder, ["papers", "mine.toml"]);
        assert_refused(wrong, &run);
        assert!(run.err.contains(named), "{wrong}: no {named:?} in\n{}", run.err);
    }
}

#[test]
fn an_empty_paper_proves_nothing() {
    let folder = fresh("papers-empty");
    std::fs::write(folder.join("mine.toml"), "paper = 'mine'\ntitle = ''\n").unwrap();
    assert_refused("an empty paper", &run_in(&folder, ["papers", "mine.toml"]));
}

/// 0: nothing is lost; 1: losses are listed; 2: there is no output, and an older one stays.
#[test]
fn repairs_tell_losses_by_their_exit_code() {
    let folder = fresh("exits-repair");
    crate::images::write(&folder);
    crate::images::damage(&folder);
    let repaired = |image: &str| run_in(&folder, ["image", "check", image, "--repair", "out.ubi"]);
    let whole = repaired("rootfs.ubi");
    assert_eq!(whole.code, Some(0), "{}", whole.err);
    assert!(whole.out.ends_with("Nothing is lost.\n"), "{}", whole.out);
    let lost = repaired("damaged.ubi");
    assert_eq!(lost.code, Some(1), "{}", lost.err);
    assert!(lost.out.contains("/etc/fstab: 33 bytes from 0: zeros now"), "{}", lost.out);
    let kept = std::fs::read(folder.join("out.ubi")).unwrap();
    std::fs::write(folder.join("noise.bin"), [0x11; 4096]).unwrap();
    assert_eq!(repaired("noise.bin").code, Some(2));
    assert!(std::fs::read(folder.join("out.ubi")).unwrap() == kept);
}

/// The image of a device that is mostly empty takes no more room than before.
#[test]
fn repaired_copies_of_sparse_images_are_sparse() {
    use std::os::unix::fs::MetadataExt;
    let folder = fresh("exits-sparse");
    crate::images::write(&folder);
    crate::images::damage(&folder);
    for image in ["rootfs.ubi", "damaged.ubi"] {
        let path = folder.join(image);
        let len = std::fs::metadata(&path).unwrap().len();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(len + (64 << 20)).unwrap();
        let repaired = run_in(&folder, ["image", "check", image, "--repair", "out.ubi"]);
        assert_ne!(repaired.code, Some(2), "{image}: {}", repaired.err);
        let out = std::fs::metadata(folder.join("out.ubi")).unwrap();
        assert_eq!(out.len(), len + (64 << 20), "{image}");
        assert!(out.blocks() * 512 < len + (1 << 20), "{image}: {} blocks of 512 bytes", out.blocks());
    }
}

#[test]
fn figures_that_no_cost_explains_make_no_setup() {
    let folder = fresh("fit-absurd");
    std::fs::write(folder.join("absurd.txt"), "eraseblock read speed is 1 KiB/s\n").unwrap();
    let shown = run_in(&folder, ["fit", "imx6-mx30lf2g18ac", "absurd.txt"]);
    assert_eq!(shown.code, Some(1), "{}", shown.err);
    assert!(
        shown.out.contains("worst residual -")
            && shown.out.contains("no costs explain")
            && !shown.out.contains("not decided"),
        "{}",
        shown.out
    );
    let refused = run_in(&folder, ["fit", "imx6-mx30lf2g18ac", "absurd.txt", "-o", "absurd.toml"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("absurd.toml: not written") && !folder.join("absurd.toml").exists());
}

#[test]
fn figures_that_contradict_each_other_make_no_setup() {
    let folder = fresh("fit-contradiction");
    let figures = "page read speed is 15600 KiB/s\npage read speed is 7800 KiB/s\n";
    std::fs::write(folder.join("two.txt"), figures).unwrap();
    let shown = run_in(&folder, ["fit", "imx6-mx30lf2g18ac", "two.txt"]);
    assert!(shown.code == Some(1) && shown.out.contains("lines 1 and 2"), "{} {}", shown.out, shown.err);
    let refused = run_in(&folder, ["fit", "imx6-mx30lf2g18ac", "two.txt", "-o", "two.toml"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("two.toml: not written") && !folder.join("two.toml").exists());
}

#[test]
fn a_setup_in_this_folder_is_named_with_its_path() {
    let folder = fresh("setup-here");
    std::fs::write(folder.join("myboard.cfg"), "base = \"imx6-mx30lf2g18ac\"\n").unwrap();
    let refused = run_in(&folder, ["speed", "myboard.cfg"]);
    assert!(refused.code == Some(2) && refused.err.contains("here: ./myboard.cfg"), "{}", refused.err);
}

#[test]
fn figures_come_from_standard_input() {
    let mut command = floatgate();
    let command = command.args(["fit", "imx6-mx30lf2g18ac", "-"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let figures = b"set bus.no_ready_pin=true\neraseblock read speed is 18000 KiB/s\n";
    child.stdin.take().unwrap().write_all(figures).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("2 lines understood"), "{text}");
    // The condition belongs to the figure, and no setup that is written has it.
    let speeds = ["speeds of the fitted setup: ", "speeds of the fitted setup, bus.no_ready_pin=true: "];
    assert!(speeds.iter().all(|of| text.contains(of)) && text.contains("80 % interval"), "{text}");
}

#[test]
fn conformance_lists_the_keys_of_a_setup() {
    let folder = fresh("conformance-keys");
    let refused =
        run_in(&folder, ["conformance", "w25q128jv", "--driver", "./driver.so", "--set", "nonsense=-1"]);
    assert!(refused.code == Some(2) && refused.err.contains("valid keys: `"), "{}", refused.err);
}
