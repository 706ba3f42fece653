//! What people see, kept in `golden/`: the command line, its stdout, its stderr. `UPDATE_GOLDEN=1` rewrites the files.

use crate::support::{Run, fresh, run_in};
use std::path::{Path, PathBuf};

/// Names and command lines. An argument with a space is in single quotes.
const RESULTS: [(&str, &str); 24] = [
    ("speed", "speed am62a-w35n01jw -c 1"),
    ("speed-latency", "speed rww-mx25uw51245g -k 4096 -c 1"),
    (
        "sweep",
        "speed am62a-w35n01jw --sweep bus.mode=1-1-1,1-8-8,8D-8D-8D --sweep bus.reset_pin=true,false --keep-going",
    ),
    ("trace", "trace am62a-w35n01jw read-page"),
    ("trace-corner", "trace imx6-mx30lf2g18ac erase --corner max"),
    ("keystore", "papers keystore"),
    ("endurance", "life mt29f8g08maawc"),
    ("endurance-all", "life --all --pages all --temperature 5"),
    ("endurance-typical", "life w25n01jw --erase-only --blocks 3 --chips 2 --interleave 2"),
    ("predict", "life mt29f8g08maawc --predict block.csv"),
    ("papers", "papers octal"),
    ("part", "list w35n01jw"),
    ("part-mlc", "list mt29f8g08maawc"),
    ("slc-mode", "speed chip-h27ucg8t2etr-bc --sweep partition.slc=true,false"),
    ("setups", "list setups"),
    ("setup-keys", "list keys cells"),
    ("ecc-encode", "ecc encode rootfs.ubi --part mt29f2g08aad --code bch4/512 -o rootfs.nand"),
    ("ecc-decode", "ecc decode dump.nand --part mt29f2g08aad --code bch4/512 -o corrected.ubi"),
    ("ecc-advise", "ecc advise mt29f8g08maawc --years 10 --code bch4/512 --code bch8/512"),
    ("ecc-advise-measured", "ecc advise study-mlc-2y-nm --years 0.25 --temperature 25"),
    ("ecc-check", "ecc check dump.nand --page-size 2048 --oob-size 64"),
    ("image-check", "image check images/rootfs.ubi"),
    ("image-diff", "image diff images/rootfs.ubi images/two-volumes.ubi --second-volume rootfs"),
    ("image-dump", "image dump images/rootfs.ubi --path /etc/fstab --block 0 --hex"),
];

const ERRORS: [(&str, &str); 32] = [
    ("unknown-setup", "speed am62a-w35n1jw"),
    ("unknown-part", "speed am62a-w35n01jw --set chip=w35n01j"),
    ("unknown-operation", "trace am62a-w35n01jw read-pag"),
    ("unknown-table", "papers ocatl"),
    ("unknown-key", "speed am62a-w35n01jw --sweep bus.mod=1-1-1,1-1-8"),
    ("wrong-unit", "speed am62a-w35n01jw --set 'bus.clock_hz=80 us'"),
    ("wrong-controller", "speed am62a-w35n01jw --set chip=mx30lf2g18ac"),
    ("no-value", "speed am62a-w35n01jw --sweep bus.mode"),
    ("no-reset-pin", "speed am62a-w35n01jw --set bus.mode=8D-8D-8D --set bus.reset_pin=false"),
    ("no-such-mode", "speed nor-serialised --set bus.mode=1-4-4"),
    ("no-such-block", "speed am62a-w35n01jw -b 100000"),
    ("no-slc-mode", "speed nand-mt29f2g08abaea --set partition.slc=true"),
    ("mlc-mean", "speed chip-h27ucg8t2etr-bc --set chip.mlc.t_prog_msb_us.typ=3000"),
    ("no-block", "speed am62a-w35n01jw -c 0"),
    ("clock-too-high", "speed am62a-w35n01jw --set bus.clock_hz=166e6"),
    ("no-file", "speed ./nosuch.toml"),
    ("no-bus", "speed ./no-bus.toml"),
    ("no-firmware", "papers keystore nor-serialised"),
    ("unknown-measure", "papers measure.toml"),
    ("unknown-kind", "speed ./kind.toml"),
    ("endurance-of-nor", "life w25q128jv --example-trace 0.4"),
    ("trace-line", "life mt29f8g08maawc --predict broken.csv"),
    ("trace-of-another-chip", "life nand128w3a2bn --predict block.csv"),
    ("ecc-no-code", "ecc encode rootfs.ubi --part mx30lf2g28ad -o new.nand"),
    ("ecc-no-room", "ecc encode rootfs.ubi --part mt29f2g08aad --code bch16/512 -o rootfs.nand"),
    ("ecc-no-oob", "ecc check rootfs.ubi --part mt29f2g08aad --oob rootfs.ubi --code bch4/512"),
    ("advise-nor", "ecc advise w25q128jv"),
    ("advise-range", "ecc advise mt29f8g08maawc --temperature 500"),
    ("ecc-nor", "ecc encode rootfs.ubi --part w25q128jv --code bch4/512 -o rootfs.nand"),
    ("ecc-same-file", "ecc decode dump.nand --part mt29f2g08aad --code bch4/512 -o ./dump.nand"),
    ("image-damaged", "image check images/damaged.ubi"),
    ("image-no-node", "image dump images/rootfs.ubi --path /etc/nothing"),
];

/// The files that the command lines above name.
fn folder(test: &str) -> PathBuf {
    let folder = fresh(&format!("golden-{test}"));
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("no-bus.toml", "title = 'My board'\nchip = 'w35n01jw'\ncontroller = 'ideal-spi'\n");
    crate::support::dump_files(&folder);
    let images = folder.join("images");
    std::fs::create_dir_all(&images).unwrap();
    crate::images::write(&images);
    crate::images::damage(&images);
    write("measure.toml", &crate::support::paper(11_034.0).replace("page read", "page raed"));
    write("block.csv", "cycle,program_us,erase_us\n1000,650,2000\n50000,531,2899.5\n200000,490,4250\n");
    write("broken.csv", "cycle,program_us,erase_us\n1000,650,2000\n900,650,2000\n");
    write("chip.toml", "kind = 'spi-nan'\nname = 'X'\n[chip]\nid = [1]\n");
    write(
        "kind.toml",
        "title = 'My board'\nchip = 'chip.toml'\ncontroller = 'ideal-spi'\n[bus]\nclock_hz = '10 MHz'\n",
    );
    folder
}

/// Words of a command line; single quotes hold one together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

fn text(line: &str, run: &Run) -> String {
    let code = run.code.unwrap();
    let mut text = format!("$ floatgate {line}\n");
    for part in [&run.out, &run.err] {
        // No editor shall be tempted to trim a golden file.
        part.lines().for_each(|line| text += &format!("{}\n", line.trim_end()));
    }
    if code != 0 { text + &format!("[exit {code}]\n") } else { text }
}

fn compare(cases: &[(&str, &str)], prefix: &str, codes: &[i32]) {
    let folder = folder(prefix);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut different = String::new();
    for (name, line) in cases {
        let run = run_in(&folder, words(line));
        assert!(codes.iter().any(|code| run.code == Some(*code)), "{line}\n{}", run.err);
        let (now, file) = (text(line, &run), golden.join(format!("{prefix}{name}.txt")));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, now).unwrap();
        } else if std::fs::read_to_string(&file).unwrap_or_default() != now {
            different += &format!("--- {}\n{now}", file.display());
        }
    }
    assert!(different.is_empty(), "not as in the golden files (UPDATE_GOLDEN=1 rewrites them):\n{different}");
}

#[test]
fn results_look_as_they_did() {
    compare(&RESULTS, "", &[0, 1]);
}

#[test]
fn errors_look_as_they_did() {
    compare(&ERRORS, "error-", &[2]);
}

#[test]
fn every_golden_file_has_its_test() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let errors = ERRORS.iter().map(|(name, _)| format!("error-{name}.txt"));
    let known: Vec<String> = RESULTS.iter().map(|(name, _)| format!("{name}.txt")).chain(errors).collect();
    for entry in std::fs::read_dir(golden).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name), "golden/{name} belongs to no test");
    }
}
